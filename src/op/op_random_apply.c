/*
 * RandomApply: all of its operators, or none.
 *
 * Draws: 0: below p they run.
 */
#include "base/random.h"
#include "op/operator.h"

struct apply_args {
    double p;
};

static void parse(void *into, struct leat_args *json)
{
    leat_args_double(json, "p", 0, 1, 0.5, &((struct apply_args *)into)->p);
}

static unsigned choose(const void *from, uint64_t key, unsigned n, uint8_t which[LEAT_MAX_ALTERNATIVES])
{
    const struct apply_args *args = from;
    which[0] = 0;
    return leat_draw_unit(key, 0) < args->p;
}

const struct leat_op_class leat_op_random_apply = {.type = "RandomApply",
                                                   .input = LEAT_INPUT_IMAGE,
                                                   .args_bytes = sizeof(struct apply_args),
                                                   .random = true,
                                                   .parse = parse,
                                                   .choose = choose,
                                                   .branch = LEAT_BRANCH_MAYBE};
