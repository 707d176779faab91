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

static struct leat_strengths strengths_of(const struct rand_args *args)
{
    return (struct leat_strengths){.bins = (unsigned)args->bins,
                                   .shear = 0.3,
                                   .translate = 150.0 / 331.0,
                                   .rotate = 30,
                                   .blend = 0.9,
                                   .posterize = 8,
                                   .posterized = 4};
}

static struct leat_change draw(const struct rand_args *args, uint64_t key, unsigned i)
{
    static const enum leat_change_kind none = LEAT_CHANGE_IDENTITY;
    enum leat_change_kind kind = (enum leat_change_kind)leat_draw_below(key, 2 * i, LEAT_CHANGE_EQUALIZE + 2);
    return (struct leat_change){.kind = kind > LEAT_CHANGE_EQUALIZE ? none : kind,
                                .bin = (unsigned)args->magnitude,
                                .negative = leat_draw_unit(key, 2 * i + 1) < 0.5};
}

static bool skips(const void *from, uint64_t key)
{
    const struct rand_args *args = from;
    const struct leat_strengths strengths = strengths_of(args);
    for (unsigned i = 0; i < args->num_ops; i++) {
        const struct leat_change change = draw(args, key, i);
        if (!leat_change_idle(&change, &strengths))
            return false;
    }
    return true;
}

static void filter(enum leat_isa isa, const void *from, uint64_t key, const struct leat_image *in,
                   const struct leat_image *out, void *scratch)
{
    const struct rand_args *args = from;
    const struct leat_strengths strengths = strengths_of(args);
    struct leat_change changes[LEAT_MAX_CHANGES];
    for (unsigned i = 0; i < args->num_ops; i++)
        changes[i] = draw(args, key, i);
    leat_policy_run(isa, &args->common, &strengths, changes, (unsigned)args->num_ops, in, out, scratch);
}

const struct leat_op_class leat_op_rand_augment = {.type = "RandAugment",
                                                   .input = LEAT_INPUT_PIXELS,
                                                   .args_bytes = sizeof(struct rand_args),
                                                   .random = true,
                                                   .images_only = true,
                                                   .parse = parse,
                                                   .infer = leat_policy_infer,
                                                   .filter = filter,
                                                   .plan = leat_policy_plan,
                                                   .skips = skips};
