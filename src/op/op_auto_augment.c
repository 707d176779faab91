/*
 * AutoAugment: Cubuk et al., "AutoAugment: Learning Augmentation Policies from Data", 2018; as
 * torchvision.transforms.v2. The three policies are those of the paper's appendix, as torchvision reads them.
 *
 * Draws: 0: which pair of changes; for change i of it, 1 + 2i: below its probability it is made; 2 + 2i: negative below
 * 1/2.
 */
#include "base/random.h"
#include "op/policy.h"

#define POLICIES 3
#define PAIRS 25
#define BINS 10

struct entry {
    uint8_t kind, tenths, bin; /* probability in tenths */
};

#define SHEAR_X LEAT_CHANGE_SHEAR_X
#define SHEAR_Y LEAT_CHANGE_SHEAR_Y
#define TRANSLATE_X LEAT_CHANGE_TRANSLATE_X
#define TRANSLATE_Y LEAT_CHANGE_TRANSLATE_Y
#define ROTATE LEAT_CHANGE_ROTATE
#define BRIGHTNESS LEAT_CHANGE_BRIGHTNESS
#define COLOR LEAT_CHANGE_COLOR
#define CONTRAST LEAT_CHANGE_CONTRAST
#define SHARPNESS LEAT_CHANGE_SHARPNESS
#define POSTERIZE LEAT_CHANGE_POSTERIZE
#define SOLARIZE LEAT_CHANGE_SOLARIZE
#define AUTOCONTRAST LEAT_CHANGE_AUTOCONTRAST
#define EQUALIZE LEAT_CHANGE_EQUALIZE
#define INVERT LEAT_CHANGE_INVERT
static const char *const words[POLICIES + 1] = {"imagenet", "cifar10", "svhn", NULL};
/* clang-format off */
static const struct entry policies[POLICIES][PAIRS][2] = {
    {
        {{POSTERIZE, 4, 8}, {ROTATE, 6, 9}},
        {{SOLARIZE, 6, 5}, {AUTOCONTRAST, 6, 0}},
        {{EQUALIZE, 8, 0}, {EQUALIZE, 6, 0}},
        {{POSTERIZE, 6, 7}, {POSTERIZE, 6, 6}},
        {{EQUALIZE, 4, 0}, {SOLARIZE, 2, 4}},
        {{EQUALIZE, 4, 0}, {ROTATE, 8, 8}},
        {{SOLARIZE, 6, 3}, {EQUALIZE, 6, 0}},
        {{POSTERIZE, 8, 5}, {EQUALIZE, 10, 0}},
        {{ROTATE, 2, 3}, {SOLARIZE, 6, 8}},
        {{EQUALIZE, 6, 0}, {POSTERIZE, 4, 6}},
        {{ROTATE, 8, 8}, {COLOR, 4, 0}},
        {{ROTATE, 4, 9}, {EQUALIZE, 6, 0}},
        {{EQUALIZE, 0, 0}, {EQUALIZE, 8, 0}},
        {{INVERT, 6, 0}, {EQUALIZE, 10, 0}},
        {{COLOR, 6, 4}, {CONTRAST, 10, 8}},
        {{ROTATE, 8, 8}, {COLOR, 10, 2}},
        {{COLOR, 8, 8}, {SOLARIZE, 8, 7}},
        {{SHARPNESS, 4, 7}, {INVERT, 6, 0}},
        {{SHEAR_X, 6, 5}, {EQUALIZE, 10, 0}},
        {{COLOR, 4, 0}, {EQUALIZE, 6, 0}},
        {{EQUALIZE, 4, 0}, {SOLARIZE, 2, 4}},
        {{SOLARIZE, 6, 5}, {AUTOCONTRAST, 6, 0}},
        {{INVERT, 6, 0}, {EQUALIZE, 10, 0}},
        {{COLOR, 6, 4}, {CONTRAST, 10, 8}},
        {{EQUALIZE, 8, 0}, {EQUALIZE, 6, 0}},
    },
    {
        {{INVERT, 1, 0}, {CONTRAST, 2, 6}},
        {{ROTATE, 7, 2}, {TRANSLATE_X, 3, 9}},
        {{SHARPNESS, 8, 1}, {SHARPNESS, 9, 3}},
        {{SHEAR_Y, 5, 8}, {TRANSLATE_Y, 7, 9}},
        {{AUTOCONTRAST, 5, 0}, {EQUALIZE, 9, 0}},
        {{SHEAR_Y, 2, 7}, {POSTERIZE, 3, 7}},
        {{COLOR, 4, 3}, {BRIGHTNESS, 6, 7}},
        {{SHARPNESS, 3, 9}, {BRIGHTNESS, 7, 9}},
        {{EQUALIZE, 6, 0}, {EQUALIZE, 5, 0}},
        {{CONTRAST, 6, 7}, {SHARPNESS, 6, 5}},
        {{COLOR, 7, 7}, {TRANSLATE_X, 5, 8}},
        {{EQUALIZE, 3, 0}, {AUTOCONTRAST, 4, 0}},
        {{TRANSLATE_Y, 4, 3}, {SHARPNESS, 2, 6}},
        {{BRIGHTNESS, 9, 6}, {COLOR, 2, 8}},
        {{SOLARIZE, 5, 2}, {INVERT, 0, 0}},
        {{EQUALIZE, 2, 0}, {AUTOCONTRAST, 6, 0}},
        {{EQUALIZE, 2, 0}, {EQUALIZE, 6, 0}},
        {{COLOR, 9, 9}, {EQUALIZE, 6, 0}},
        {{AUTOCONTRAST, 8, 0}, {SOLARIZE, 2, 8}},
        {{BRIGHTNESS, 1, 3}, {COLOR, 7, 0}},
        {{SOLARIZE, 4, 5}, {AUTOCONTRAST, 9, 0}},
        {{TRANSLATE_Y, 9, 9}, {TRANSLATE_Y, 7, 9}},
        {{AUTOCONTRAST, 9, 0}, {SOLARIZE, 8, 3}},
        {{EQUALIZE, 8, 0}, {INVERT, 1, 0}},
        {{TRANSLATE_Y, 7, 9}, {AUTOCONTRAST, 9, 0}},
    },
    {
        {{SHEAR_X, 9, 4}, {INVERT, 2, 0}},
        {{SHEAR_Y, 9, 8}, {INVERT, 7, 0}},
        {{EQUALIZE, 6, 0}, {SOLARIZE, 6, 6}},
        {{INVERT, 9, 0}, {EQUALIZE, 6, 0}},
        {{EQUALIZE, 6, 0}, {ROTATE, 9, 3}},
        {{SHEAR_X, 9, 4}, {AUTOCONTRAST, 8, 0}},
        {{SHEAR_Y, 9, 8}, {INVERT, 4, 0}},
        {{SHEAR_Y, 9, 5}, {SOLARIZE, 2, 6}},
        {{INVERT, 9, 0}, {AUTOCONTRAST, 8, 0}},
        {{EQUALIZE, 6, 0}, {ROTATE, 9, 3}},
        {{SHEAR_X, 9, 4}, {SOLARIZE, 3, 3}},
        {{SHEAR_Y, 8, 8}, {INVERT, 7, 0}},
        {{EQUALIZE, 9, 0}, {TRANSLATE_Y, 6, 6}},
        {{INVERT, 9, 0}, {EQUALIZE, 6, 0}},
        {{CONTRAST, 3, 3}, {ROTATE, 8, 4}},
        {{INVERT, 8, 0}, {TRANSLATE_Y, 0, 2}},
        {{SHEAR_Y, 7, 6}, {SOLARIZE, 4, 8}},
        {{INVERT, 6, 0}, {ROTATE, 8, 4}},
        {{SHEAR_Y, 3, 7}, {TRANSLATE_X, 9, 3}},
        {{SHEAR_X, 1, 6}, {INVERT, 6, 0}},
        {{SOLARIZE, 7, 2}, {TRANSLATE_Y, 6, 7}},
        {{SHEAR_Y, 8, 4}, {INVERT, 8, 0}},
        {{SHEAR_X, 7, 9}, {TRANSLATE_Y, 8, 3}},
        {{SHEAR_Y, 8, 5}, {AUTOCONTRAST, 7, 0}},
        {{SHEAR_X, 7, 2}, {INVERT, 1, 0}},
    },
};
/* clang-format on */

struct auto_args {
    struct leat_policy_args common;
    unsigned policy;
};

static void parse(void *into, struct leat_args *json)
{
    struct auto_args *args = into;
    leat_args_word(json, "policy", words, 0, &args->policy);
    leat_policy_parse(&args->common, LEAT_FILTER_NEAREST, json);
}

static unsigned draw(const struct auto_args *args, uint64_t key, struct leat_change *changes,
                     struct leat_strengths *strengths)
{
    const struct entry *pair = policies[args->policy][leat_draw_below(key, 0, PAIRS)];
    unsigned n = 0;
    *strengths = leat_usual_strengths(BINS);
    for (unsigned i = 0; i < 2; i++)
        if (leat_draw_unit(key, 1 + 2 * i) < pair[i].tenths / 10.0)
            changes[n++] = (struct leat_change){
                .kind = pair[i].kind, .bin = pair[i].bin, .negative = leat_draw_unit(key, 2 + 2 * i) < 0.5};
    return n;
}

LEAT_POLICY(auto_augment, "AutoAugment", auto_args, parse)
