/*
 * Pixels of an image at any places, for operators that turn, warp or bend it: they give the place of each pixel of a
 * row of the result in the source, a block at a time, and these loops fetch it.
 *
 *     place      fixed point, LEAT_SAMPLE_BITS of fraction; (0, 0) is the corner of the first pixel, whose middle is
 *                (1/2, 1/2). Outside of [0, w) x [0, h): the fill
 *     nearest    the pixel that the place lies in
 *     bilinear   of four pixels, with weights of 14 bits
 *     bicubic    of sixteen, by Pillow's kernel for Image.transform (a = -1), with weights of 13 bits
 *
 * Pixels beyond the edge that a weight falls on are those of the edge, as in Pillow. The result is within 1 of that of
 * doubles.
 */
#ifndef LEAT_KERNELS_SAMPLE_H
#define LEAT_KERNELS_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "kernels/resample.h"

#define LEAT_SAMPLE_BITS 11
/* Places of so many pixels are read, though fewer of them are needed. */
#define LEAT_SAMPLE_BLOCK 64

struct leat_sampler {
    const uint8_t *base; /* of one plane, or of packed pixels */
    size_t row;          /* bytes */
    uint32_t w, h;
    unsigned pixel;          /* bytes of one, 1 to 4 */
    enum leat_filter filter; /* NEAREST, BILINEAR or BICUBIC */
    bool rounds;             /* to the nearest; else down, as Pillow does here */
    bool fades;              /* bilinear pixels at the edge are part fill, as of torch's grid_sample with a mask */
    uint8_t fill[4];
};

/* n <= LEAT_SAMPLE_BLOCK pixels to dst. */
#define LEAT_SAMPLE_ARGS                                                                                               \
    const struct leat_sampler *sampler, const int32_t *x, const int32_t *y, unsigned n, uint8_t *dst
typedef void (*leat_sample_fn)(LEAT_SAMPLE_ARGS);
void leat_sample_portable(LEAT_SAMPLE_ARGS);
void leat_sample_avx2(LEAT_SAMPLE_ARGS);
void leat_sample_avx512(LEAT_SAMPLE_ARGS);

/* Places of LEAT_SAMPLE_BLOCK pixels of row y from column x0 on, whose middles are mapped by m: op/affine.h. Places
 * beyond are below 0, or above any size. */
#define LEAT_PLACES_ARGS const double m[8], bool perspective, uint32_t x0, uint32_t y, int32_t *x_out, int32_t *y_out
typedef void (*leat_places_fn)(LEAT_PLACES_ARGS);
void leat_places_portable(LEAT_PLACES_ARGS);
void leat_places_avx2(LEAT_PLACES_ARGS);
void leat_places_avx512(LEAT_PLACES_ARGS);
/* The same in fixed point: f as m, with 16 bits of fraction, for the middles of pixels. Numbers have signs, and wrap.
 */
#define LEAT_STEPS_ARGS const uint32_t f[6], uint32_t x0, uint32_t y, int32_t *x_out, int32_t *y_out
typedef void (*leat_steps_fn)(LEAT_STEPS_ARGS);
void leat_steps_portable(LEAT_STEPS_ARGS);
void leat_steps_avx2(LEAT_STEPS_ARGS);
void leat_steps_avx512(LEAT_STEPS_ARGS);
LEAT_INLINE void leat_steps(LEAT_STEPS_ARGS)
{
    const uint32_t xx = f[2] + y * f[1] + x0 * f[0], yy = f[5] + y * f[4] + x0 * f[3];
    for (uint32_t i = 0; i < LEAT_SAMPLE_BLOCK; i++) {
        x_out[i] = (int32_t)(xx + i * f[0]) >> (16 - LEAT_SAMPLE_BITS);
        y_out[i] = (int32_t)(yy + i * f[3]) >> (16 - LEAT_SAMPLE_BITS);
    }
}
/* The place at v pixels. */
static inline int32_t leat_place_at(double v)
{
    const double place = v * (1 << LEAT_SAMPLE_BITS);
    return place >= 0 ? (int32_t)(place < 0x1p30 ? place : 0x1p30) : -1;
}

/* ---- the common part of the loops ---- */

#define LEAT_SAMPLE_HALF (1 << (LEAT_SAMPLE_BITS - 1))
#define LEAT_SAMPLE_MASK ((1 << LEAT_SAMPLE_BITS) - 1)
#define LEAT_BILINEAR_BITS 14
#define LEAT_BICUBIC_BITS 13
#define LEAT_BICUBIC_BETWEEN 7 /* bits that are dropped of a row's sum, before rows are added up */

/* Weights of the four pixels (left and right above, left and right below) at these fractions; they add up to 1. */
LEAT_INLINE void leat_bilinear_weights(uint32_t dx, uint32_t dy, uint32_t w[4])
{
    const unsigned more = LEAT_BILINEAR_BITS - LEAT_SAMPLE_BITS;
    w[3] = (dx * dy) >> (2 * LEAT_SAMPLE_BITS - LEAT_BILINEAR_BITS);
    w[1] = (dx << more) - w[3];
    w[2] = (dy << more) - w[3];
    w[0] = (1u << LEAT_BILINEAR_BITS) - (dx << more) - w[2];
}

/* Weights of four pixels in a row; the second is at distance d. */
LEAT_INLINE void leat_bicubic_weights(int32_t d, int32_t w[4])
{
    int32_t d1 = d << (LEAT_BICUBIC_BITS - LEAT_SAMPLE_BITS), square = d * d,
            d2 = square >> (2 * LEAT_SAMPLE_BITS - LEAT_BICUBIC_BITS),
            d3 = ((square >> 2) * d) >> (3 * LEAT_SAMPLE_BITS - 2 - LEAT_BICUBIC_BITS);
    w[0] = 2 * d2 - d1 - d3;
    w[2] = d1 + d2 - d3;
    w[3] = d3 - d2;
    w[1] = (1 << LEAT_BICUBIC_BITS) - w[0] - w[2] - w[3];
}

/* One pixel, wherever it lies. */
void leat_sample_one(const struct leat_sampler *sampler, int32_t x, int32_t y, uint8_t *dst);

#endif
