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

static struct leat_strengths strengths_of(const struct trivial_args *args)
{
    return (struct leat_strengths){.bins = (unsigned)args->bins,
                                   .shear = 0.99,
                                   .translate = 32,
                                   .pixels = true,
                                   .rotate = 135,
                                   .blend = 0.99,
                                   .posterize = 8,
                                   .posterized = 6};
}

static struct leat_change draw(const struct trivial_args *args, uint64_t key)
{
    static const enum leat_change_kind none = LEAT_CHANGE_IDENTITY;
    enum leat_change_kind kind = (enum leat_change_kind)leat_draw_below(key, 0, LEAT_CHANGE_EQUALIZE + 2);
    return (struct leat_change){.kind = kind > LEAT_CHANGE_EQUALIZE ? none : kind,
                                .bin = (unsigned)leat_draw_below(key, 1, (uint64_t)args->bins),
                                .negative = leat_draw_unit(key, 2) < 0.5};
}

static bool skips(const void *from, uint64_t key)
{
    const struct leat_strengths strengths = strengths_of(from);
    const struct leat_change change = draw(from, key);
    return leat_change_idle(&change, &strengths);
}

static void filter(enum leat_isa isa, const void *from, uint64_t key, const struct leat_image *in,
                   const struct leat_image *out, void *scratch)
{
    const struct trivial_args *args = from;
    const struct leat_strengths strengths = strengths_of(args);
    const struct leat_change change = draw(args, key);
    leat_policy_run(isa, &args->common, &strengths, &change, 1, in, out, scratch);
}

const struct leat_op_class leat_op_trivial_augment_wide = {.type = "TrivialAugmentWide",
                                                           .input = LEAT_INPUT_PIXELS,
                                                           .args_bytes = sizeof(struct trivial_args),
                                                           .random = true,
                                                           .images_only = true,
                                                           .parse = parse,
                                                           .infer = leat_policy_infer,
                                                           .filter = filter,
                                                           .plan = leat_policy_plan,
                                                           .skips = skips};
