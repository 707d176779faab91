/*
 * Draws from the standard normal distribution, many at a time, the same on every instruction set: Box and Muller's
 * method ("A note on the generation of random normal deviates", 1958) in float32, by additions, multiplications and
 * divisions. Pair i of a block of 128 numbers is draw first + i, of i from 0 to 63; its two numbers are number i and
 * number 64 + i of the block. Part of the plan version: they never change.
 *
 * For files with LEAT_VECTORIZE; 6.7 is the largest number that can be drawn.
 */
#ifndef LEAT_OP_NORMAL_H
#define LEAT_OP_NORMAL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cpu.h"
#include "base/random.h"

#define LEAT_NORMAL_BLOCK 128
/* Draws that n numbers take. */
#define LEAT_NORMAL_DRAWS(n) (((uint64_t)(n) + LEAT_NORMAL_BLOCK - 1) / LEAT_NORMAL_BLOCK * (LEAT_NORMAL_BLOCK / 2))

LEAT_INLINE void leat_normal_block(uint64_t key, uint64_t first, float out[LEAT_NORMAL_BLOCK])
{
    enum { PAIRS = LEAT_NORMAL_BLOCK / 2 };
    int32_t a[PAIRS], b[PAIRS];
    float radius[PAIRS];
    for (unsigned i = 0; i < PAIRS; i++) {
        uint64_t bits = leat_draw_u64(key, first + i);
        a[i] = (int32_t)(bits >> 33); /* 31 bits each, which convert to float on every machine */
        b[i] = (int32_t)(bits & 0x7fffffff);
    }
    for (unsigned i = 0; i < PAIRS; i++) { /* the root of -2 log(u), u in (0, 1] */
        float u = ((float)a[i] + 0.5f) * 0x1p-31f;
        int32_t word;
        memcpy(&word, &u, sizeof word);
        int32_t power = (word - 0x3f3504f3) >> 23; /* u = m * 2^power, m within the root of 2 from 1 */
        word -= power * (1 << 23);
        float m;
        memcpy(&m, &word, sizeof m);
        float s = (m - 1) / (m + 1), q = s * s;
        float log_m =
            2 * s * (1 + q * (0x1.555556p-2f + q * (0x1.99999ap-3f + q * (0x1.24924ap-3f + q * 0x1.c71c72p-4f))));
        float x = -2 * ((float)power * 0x1.62e430p-1f + log_m);
        memcpy(&word, &x, sizeof word); /* 1 / root of x, by Newton's method from a guess */
        word = 0x5f375a86 - (word >> 1);
        float y;
        memcpy(&y, &word, sizeof y);
        y = y * (1.5f - 0.5f * x * y * y);
        y = y * (1.5f - 0.5f * x * y * y);
        y = y * (1.5f - 0.5f * x * y * y);
        radius[i] = x * y;
    }
    for (unsigned i = 0; i < PAIRS; i++) { /* two bits give the quarter of the circle, the others the place in it */
        float x = ((float)(b[i] & 0x1fffffff) * 0x1p-29f - 0.5f) * 0x1.921fb6p+0f, q = x * x;
        float sine =
            x * (1 + q * (-0x1.555556p-3f + q * (0x1.111112p-7f + q * (-0x1.a01a02p-13f + q * 0x1.71de3ap-19f))));
        float cosine = 1 + q * (-0.5f + q * (0x1.555556p-5f + q * (-0x1.6c16c2p-10f + q * 0x1.a01a02p-16f)));
        int quarter = b[i] >> 29;
        float turned = (float)(quarter & 1), sign = (float)(1 - (quarter & 2));
        out[i] = radius[i] * sign * (cosine * (1 - turned) - sine * turned);
        out[PAIRS + i] = radius[i] * sign * (cosine * turned + sine * (1 - turned));
    }
}

/* n numbers; `out` has room for whole blocks. */
LEAT_INLINE void leat_normals(uint64_t key, uint64_t first, size_t n, float *out)
{
    for (size_t at = 0; at < n; at += LEAT_NORMAL_BLOCK)
        leat_normal_block(key, first + at / 2, out + at);
}

#endif
