/*
 * RandAugment: Cubuk et al., "RandAugment: Practical automated data augmentation with a reduced search space", 2019;
 * as torchvision.transforms.v2.
 *
 * Draws, of change i: 2i: which; 2i + 1: negative below 1/2.
 */
#include "base/random.h"
#include "op/policy.h"

struct rand_args {
    struct leat_policy_args common;
    int64_t num_ops, magnitude, bins;
};

static void parse(void *into, struct leat_args *json)
{
    struct rand_args *args = into;
    leat_args_int(json, "num_ops", 0, LEAT_MAX_CHANGES, 2, &args->num_ops);
    leat_args_int(json, "num_magnitude_bins", 2, 1 << 20, 31, &args->bins);
    leat_args_int(json, "magnitude", 0, args->bins - 1, args->bins > 9 ? 9 : args->bins - 1, &args->magnitude);
    leat_policy_parse(&args->common, LEAT_FILTER_NEAREST, json);
}

static unsigned draw(const struct rand_args *args, uint64_t key, struct leat_change *changes,
                     struct leat_strengths *strengths)
{
    *strengths = leat_usual_strengths((unsigned)args->bins);
    for (unsigned i = 0; i < args->num_ops; i++)
        changes[i] = (struct leat_change){.kind = leat_change_draw(key, 2 * i),
                                          .bin = (unsigned)args->magnitude,
                                          .negative = leat_draw_unit(key, 2 * i + 1) < 0.5};
    return (unsigned)args->num_ops;
}

LEAT_POLICY(rand_augment, "RandAugment", rand_args, parse)
