/*
 * TrivialAugmentWide: Mueller and Hutter, "TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation", 2021;
 * as torchvision.transforms.v2.
 *
 * Draws: 0: which change; 1: its strength; 2: negative below 1/2.
 */
#include "base/random.h"
#include "op/policy.h"

struct trivial_args {
    struct leat_policy_args common;
    int64_t bins;
};

static void parse(void *into, struct leat_args *json)
{
    struct trivial_args *args = into;
    leat_args_int(json, "num_magnitude_bins", 2, 1 << 20, 31, &args->bins);
    leat_policy_parse(&args->common, LEAT_FILTER_NEAREST, json);
}

static unsigned draw(const struct trivial_args *args, uint64_t key, struct leat_change *change,
                     struct leat_strengths *strengths)
{
    *strengths = (struct leat_strengths){.bins = (unsigned)args->bins,
                                         .shear = 0.99,
                                         .translate = 32,
                                         .pixels = true,
                                         .rotate = 135,
                                         .blend = 0.99,
                                         .posterize = 8,
                                         .posterized = 6};
    *change = (struct leat_change){.kind = leat_change_draw(key, 0),
                                   .bin = (unsigned)leat_draw_below(key, 1, (uint64_t)args->bins),
                                   .negative = leat_draw_unit(key, 2) < 0.5};
    return 1;
}

LEAT_POLICY(trivial_augment_wide, "TrivialAugmentWide", trivial_args, parse)
