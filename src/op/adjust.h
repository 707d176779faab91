/*
 * Colors of 8-bit images changed by stated amounts: the operators on colors and the policies draw a list of such steps,
 * and any list is carried out in as few passes over the image as there are steps that need to have seen all of it. The
 * pixels are those of Pillow's ImageEnhance and ImageOps, byte for byte.
 */
#ifndef LEAT_OP_ADJUST_H
#define LEAT_OP_ADJUST_H

#include "op/operator.h"

enum leat_adjust_kind {
    LEAT_ADJUST_BRIGHTNESS,   /* blended with black; amount: a factor from 0, 1: unchanged */
    LEAT_ADJUST_CONTRAST,     /* with the rounded mean of the image's grey values */
    LEAT_ADJUST_SATURATION,   /* with the grey value of the pixel */
    LEAT_ADJUST_SHARPNESS,    /* with the image smoothed by a kernel of 3 x 3; the outermost pixels stay */
    LEAT_ADJUST_HUE,          /* turned by -0.5 to 0.5 of the circle, in bytes of HSV */
    LEAT_ADJUST_GRAYSCALE,    /* each channel becomes the grey value */
    LEAT_ADJUST_INVERT,       /* 255 - v */
    LEAT_ADJUST_POSTERIZE,    /* keeps the highest bits; amount: their number, 0 to 8 */
    LEAT_ADJUST_SOLARIZE,     /* inverts values from the amount on */
    LEAT_ADJUST_AUTOCONTRAST, /* each channel's smallest value becomes 0, its largest 255 */
    LEAT_ADJUST_EQUALIZE,     /* each channel's histogram becomes as even as a function of values makes it */
    LEAT_ADJUST_PERMUTE,      /* channel c of the result is channel order[c] */
};

struct leat_adjust {
    enum leat_adjust_kind kind;
    double amount;
    uint8_t order[4];
};

/* An order of n channels, all alike: draws `first` to first + n - 2. */
void leat_adjust_draw_order(uint64_t key, uint64_t first, unsigned n, uint8_t order[4]);

/* Bytes of scratch, aligned to 64, that any list of steps takes for images of this size and layout. */
size_t leat_adjust_scratch(const struct leat_image *in);
/*
 * Makes `out` of `in` by n steps, from the first on. Both are 8-bit images of one size and of 1 to 4 channels, as
 * pixels or as planes; they may be one and the same, but not overlap otherwise. SATURATION, HUE and GRAYSCALE change
 * images of 3 channels and leave others as they are; for others than these the grey value is that of the first channel.
 * GRAYSCALE alone turns an image into one of another number of channels.
 */
void leat_adjust(enum leat_isa isa, const struct leat_adjust *steps, unsigned n, const struct leat_image *in,
                 const struct leat_image *out, void *scratch);

#endif
