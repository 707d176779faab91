/*
 * The policies RandAugment, TrivialAugmentWide, AutoAugment and AugMix: each draws a list of changes, with strengths of
 * a scale of bins, and all of them are carried out here. The changes, scales and signs are those of
 * torchvision.transforms.v2, the pixels those of its Pillow backend (adjust.h, affine.h).
 */
#ifndef LEAT_OP_POLICY_H
#define LEAT_OP_POLICY_H

#include "op/operator.h"

/* Those with a strength first; the strength of the first nine has a sign. */
enum leat_change_kind {
    LEAT_CHANGE_SHEAR_X = 0,
    LEAT_CHANGE_SHEAR_Y,
    LEAT_CHANGE_TRANSLATE_X,
    LEAT_CHANGE_TRANSLATE_Y,
    LEAT_CHANGE_ROTATE,
    LEAT_CHANGE_BRIGHTNESS,
    LEAT_CHANGE_COLOR,
    LEAT_CHANGE_CONTRAST,
    LEAT_CHANGE_SHARPNESS,
    LEAT_CHANGE_POSTERIZE,
    LEAT_CHANGE_SOLARIZE,
    LEAT_CHANGE_AUTOCONTRAST,
    LEAT_CHANGE_EQUALIZE,
    LEAT_CHANGE_INVERT,
    LEAT_CHANGE_IDENTITY
};

struct leat_change {
    enum leat_change_kind kind;
    unsigned bin;  /* of its strength */
    bool negative; /* if that has a sign */
};

/* The strengths of a policy: from nothing at bin 0 to these at the last bin. */
struct leat_strengths {
    unsigned bins;
    double shear, translate, rotate, blend; /* blend: for brightness, color, contrast and sharpness */
    bool pixels;                            /* `translate` counts pixels, not sides of the image */
    unsigned posterize, posterized;         /* from so many bits, so many fewer */
};

/* Those of AutoAugment and RandAugment. */
static inline struct leat_strengths leat_usual_strengths(unsigned bins)
{
    return (struct leat_strengths){.bins = bins,
                                   .shear = 0.3,
                                   .translate = 150.0 / 331.0,
                                   .rotate = 30,
                                   .blend = 0.9,
                                   .posterize = 8,
                                   .posterized = 4};
}

/* The common input of all of them, as the first member of their arguments. */
struct leat_policy_args {
    enum leat_filter filter;
    struct leat_fill fill;
};
void leat_policy_parse(struct leat_policy_args *args, enum leat_filter filter, struct leat_args *json);
/* Takes images of 1 or 3 channels. */
int leat_policy_infer(const void *args, const struct leat_place *place, struct leat_type *type,
                      struct leat_effect *effect, struct leat_error *error);

void leat_policy_plan(const void *args, uint64_t key, const struct leat_image *in, struct leat_filter_plan *plan);

/* One of the kinds up to LEAT_CHANGE_EQUALIZE, or LEAT_CHANGE_IDENTITY, all alike. */
enum leat_change_kind leat_change_draw(uint64_t key, uint64_t counter);
/* Whether a change leaves every image as it is. */
bool leat_change_idle(const struct leat_change *change, const struct leat_strengths *strengths);
/* Makes `out` of `in` by n changes, one after the other; n at most LEAT_MAX_CHANGES. `scratch`: leat_policy_scratch
 * bytes, aligned to 64. The images have one size and layout, and do not overlap. */
#define LEAT_MAX_CHANGES 64
size_t leat_policy_scratch(const struct leat_image *in);
void leat_policy_run(enum leat_isa isa, const struct leat_policy_args *args, const struct leat_strengths *strengths,
                     const struct leat_change *changes, unsigned n, const struct leat_image *in,
                     const struct leat_image *out, void *scratch);
/* Whether all of n changes are idle. */
bool leat_policy_skips(const struct leat_strengths *strengths, const struct leat_change *changes, unsigned n);

/* The class leat_op_<name> of a policy that carries out the changes that `draw` gives: unsigned draw(const struct
 * args_type *args, uint64_t key, struct leat_change *changes, struct leat_strengths *strengths). */
#define LEAT_POLICY(name, title, args_type, parser)                                                                    \
    static bool skips(const void *from, uint64_t key)                                                                  \
    {                                                                                                                  \
        struct leat_strengths strengths;                                                                               \
        struct leat_change changes[LEAT_MAX_CHANGES];                                                                  \
        const unsigned n = draw(from, key, changes, &strengths);                                                       \
        return leat_policy_skips(&strengths, changes, n);                                                              \
    }                                                                                                                  \
    static void filter(enum leat_isa isa, const void *from, uint64_t key, const struct leat_image *in,                 \
                       const struct leat_image *out, void *scratch)                                                    \
    {                                                                                                                  \
        struct leat_strengths strengths;                                                                               \
        struct leat_change changes[LEAT_MAX_CHANGES];                                                                  \
        const unsigned n = draw(from, key, changes, &strengths);                                                       \
        leat_policy_run(isa, from, &strengths, changes, n, in, out, scratch);                                          \
    }                                                                                                                  \
    const struct leat_op_class leat_op_##name = {.type = title,                                                        \
                                                 .input = LEAT_INPUT_PIXELS,                                           \
                                                 .args_bytes = sizeof(struct args_type),                               \
                                                 .random = true,                                                       \
                                                 .images_only = true,                                                  \
                                                 .parse = parser,                                                      \
                                                 .infer = leat_policy_infer,                                           \
                                                 .filter = filter,                                                     \
                                                 .plan = leat_policy_plan,                                             \
                                                 .skips = skips};

#endif
