/* RandomPosterize: keeps the highest bits of each value, or does nothing. Draw 0: below p. */
#include "base/random.h"
#include "op/adjust.h"

struct posterize_args {
    int64_t bits;
    double p;
};

static void parse(void *into, struct leat_args *json)
{
    struct posterize_args *args = into;
    leat_args_int(json, "bits", 0, 8, -1, &args->bits);
    if (args->bits < 0)
        leat_args_wrong(json, "bits", "a number of bits, from 0 to 8");
    leat_args_double(json, "p", 0, 1, 0.5, &args->p);
}

static unsigned adjust(const void *from, uint64_t key, unsigned channels, struct leat_adjust *steps)
{
    const struct posterize_args *args = from;
    *steps = (struct leat_adjust){.kind = LEAT_ADJUST_POSTERIZE, .amount = (double)args->bits};
    return leat_draw_unit(key, 0) < args->p;
}

const struct leat_op_class leat_op_random_posterize = {.type = "RandomPosterize",
                                                       .input = LEAT_INPUT_PIXELS,
                                                       .args_bytes = sizeof(struct posterize_args),
                                                       .random = true,
                                                       .parse = parse,
                                                       .adjust = adjust};
