/*
 * RandomChoice: one of its alternatives.
 *
 * Draws: 0: which one, by p added up.
 */
#include "base/random.h"
#include "op/operator.h"

struct choice_args {
    double sums[LEAT_MAX_ALTERNATIVES]; /* of p; without p all 0 */
};

static void parse(void *into, struct leat_args *json)
{
    struct choice_args *args = into;
    size_t wanted = json_array_size(json_object_get(json->object, "transforms"));
    unsigned n = leat_args_doubles(json, "p", 1, LEAT_MAX_ALTERNATIVES, args->sums);
    if (!n)
        return;
    bool good = n == wanted && args->sums[0] >= 0;
    for (unsigned i = 1; i < n; i++) {
        good = good && args->sums[i] >= 0;
        args->sums[i] += args->sums[i - 1];
    }
    if (!good || !(args->sums[n - 1] > 0 && args->sums[n - 1] < 1e300))
        leat_args_wrong(json, "p", "a number from 0 for each of transforms, one of them above 0");
}

static unsigned choose(const void *from, uint64_t key, unsigned n, uint8_t which[LEAT_MAX_ALTERNATIVES])
{
    const struct choice_args *args = from;
    unsigned k = 0;
    double sum = args->sums[n - 1], at = leat_draw_unit(key, 0) * sum;
    if (!(sum > 0))
        k = (unsigned)leat_draw_below(key, 0, n);
    while (args->sums[k] < sum && at >= args->sums[k])
        k++;
    which[0] = (uint8_t)k;
    return 1;
}

const struct leat_op_class leat_op_random_choice = {.type = "RandomChoice",
                                                    .input = LEAT_INPUT_IMAGE,
                                                    .args_bytes = sizeof(struct choice_args),
                                                    .random = true,
                                                    .parse = parse,
                                                    .choose = choose,
                                                    .branch = LEAT_BRANCH_ONE};
