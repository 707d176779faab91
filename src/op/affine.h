/*
 * Images turned, sheared, scaled or seen from the side: a pixel of the result at (x, y), whose middle is (x + 1/2,
 * y + 1/2), comes from the place to which the map takes that point in the source; it is the fill if that is outside.
 *
 *     affine         x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5]
 *     perspective    both divided by m[6] x + m[7] y + 1
 *
 * The pixels are those of Pillow's Image.transform with these numbers: nearest byte for byte, bilinear and bicubic
 * within 1.
 */
#ifndef LEAT_OP_AFFINE_H
#define LEAT_OP_AFFINE_H

#include "op/operator.h"

/* `in` and `out`: bytes, 1 to 4 channels, or planes. `filter`: NEAREST, BILINEAR or BICUBIC, NEAREST if `out` has class
 * ids. `fill`: one byte per channel. */
void leat_affine(enum leat_isa isa, const struct leat_image *in, const struct leat_image *out, const double inverse[6],
                 enum leat_filter filter, const uint8_t *fill);
void leat_perspective(enum leat_isa isa, const struct leat_image *in, const struct leat_image *out,
                      const double inverse[8], enum leat_filter filter, const uint8_t *fill);

/* m, so that (x, y) is taken from the origin first. */
static inline void leat_affine_move_origin(double *m, double x, double y)
{
    m[2] += m[0] * x + m[1] * y;
    m[5] += m[3] * x + m[4] * y;
}

/* m of a rotation counter-clockwise by degrees about (x, y), as Pillow's Image.rotate rounds it. */
void leat_affine_rotate(double degrees, double x, double y, double m[6]);
/* The map of an image's points for these: the inverse of the inverse. */
void leat_perspective_turn(const double inverse[8], struct leat_turn *turn);
static inline void leat_affine_turn(const double inverse[6], struct leat_turn *turn)
{
    const double m[8] = {inverse[0], inverse[1], inverse[2], inverse[3], inverse[4], inverse[5]};
    leat_perspective_turn(m, turn);
}

#endif
