/* Rows of one channel each, changed in place: the arithmetic of adjust.c, written so that compilers vectorise it. */
#ifndef LEAT_OP_ADJUST_ROWS_H
#define LEAT_OP_ADJUST_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cpu.h"

#define BLOCK 64

LEAT_INLINE uint8_t blend(int from, int v, float factor)
{
    float x = (float)from + factor * (float)(v - from);
    x = x > 0 ? x : 0;
    return (uint8_t)(int)(x < 255 ? x : 255);
}

LEAT_INLINE uint32_t grey(uint32_t r, uint32_t g, uint32_t b)
{
    return (r * 19595 + g * 38470 + b * 7471 + 32768) >> 16;
}

LEAT_INLINE void saturate_block(uint8_t *restrict r, uint8_t *restrict g, uint8_t *restrict b, size_t n, float factor)
{
    for (size_t i = 0; i < n; i++) {
        int from = (int)grey(r[i], g[i], b[i]);
        r[i] = blend(from, r[i], factor);
        g[i] = blend(from, g[i], factor);
        b[i] = blend(from, b[i], factor);
    }
}

LEAT_INLINE void grey_block(uint8_t *restrict r, uint8_t *restrict g, uint8_t *restrict b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        r[i] = g[i] = b[i] = (uint8_t)grey(r[i], g[i], b[i]);
}

/*
 * Pillow's way from RGB to HSV and back, in its types: floats and doubles, cut to bytes. The hue follows from which
 * channel is the largest and which the smallest, from chroma = largest - smallest and largest - middle:
 *
 *     x = (largest - middle) / chroma,  hue = frac((0, 2 or 4, and 1 - x or x - 1) / 6)
 *     p = v (1 - s),  q = v (1 - s f) or v (1 - s (1 - f)), f: the place of the hue in its sixth of the circle
 */
LEAT_INLINE void hue_block(uint8_t *restrict r, uint8_t *restrict g, uint8_t *restrict b, size_t n, int shift)
{
    int32_t high[BLOCK], chroma[BLOCK], saturation[BLOCK], turned[BLOCK];
    float sixth[BLOCK];
    for (size_t i = 0; i < n; i++) {
        int R = r[i], G = g[i], B = b[i], most = R > G ? R : G, least = R < G ? R : G;
        most = most > B ? most : B;
        least = least < B ? least : B;
        int c = most - least, middle = R + G + B - most - least;
        high[i] = most;
        chroma[i] = c;
        int sector = R == most ? 0 : G == most ? 2 : 4, last = R == most ? B : G == most ? R : G;
        int sign = last == least ? -1 : 1; /* 1 - x, x - 1, 3 - x, 1 + x, 5 - x, 3 + x */
        sixth[i] = (float)(sector - sign) + (float)sign * ((float)(most - middle) / (float)(c + (c == 0)));
    }
    for (size_t i = 0; i < n; i++) {
        /* s * 255, cut without having been rounded: 256 s is exact */
        float s = (float)chroma[i] / (float)(high[i] + (high[i] == 0)), wide = 256.0f * s;
        int cut = (int)(wide - s);
        saturation[i] = cut - (wide - (float)cut < s);
    }
    for (size_t i = 0; i < n; i++) {
        /* likewise; for all colors, the floats here give the same as doubles there */
        float part = sixth[i] / 6.0f + (sixth[i] < 0 ? 1.0f : 0.0f), wide = 256.0f * part;
        int cut = (int)(wide - part);
        turned[i] = (cut - (wide - (float)cut < part) + shift) & 255;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t h = (uint32_t)turned[i] * 6, sector = (h * 257 + 257) >> 16, rest = h - 255 * sector;
        uint32_t v = (uint32_t)high[i], s = (uint32_t)saturation[i];
        uint32_t p = ((v * (255 - s) + 127) * 257 + 257) >> 16; /* v (255 - s) / 255, rounded */
        uint32_t q = (v * (65025 - s * (sector & 1 ? rest : 255 - rest)) + 32512) / 65025;
        sector = sector == 6 ? 0 : sector;
        r[i] = (uint8_t)(sector == 1 || sector == 4 ? q : sector == 2 || sector == 3 ? p : v);
        g[i] = (uint8_t)(sector == 0 || sector == 3 ? q : sector == 1 || sector == 2 ? v : p);
        b[i] = (uint8_t)(sector == 2 || sector == 5 ? q : sector == 3 || sector == 4 ? v : p);
    }
}

/* Runs a function of blocks over rows. */
#define BLOCKS(f, r, g, b, n, ...)                                                                                     \
    do {                                                                                                               \
        size_t at_ = 0;                                                                                                \
        for (; at_ + BLOCK <= (n); at_ += BLOCK)                                                                       \
            f((r) + at_, (g) + at_, (b) + at_, BLOCK, ##__VA_ARGS__);                                                  \
        if (at_ < (n))                                                                                                 \
            f((r) + at_, (g) + at_, (b) + at_, (n)-at_, ##__VA_ARGS__);                                                \
    } while (0)

/* rows: above, here, below; `step` values from one pixel to the next, and so many at either end stay. */
LEAT_INLINE void sharpen_row(uint8_t *const rows[3], size_t step, size_t n, float factor, uint8_t *restrict dst)
{
    const uint8_t *a = rows[0], *h = rows[1], *b = rows[2];
    size_t end = n > step ? n - step : 0;
    memcpy(dst, h, n < step ? n : step);
    for (size_t i = step; i < end; i++) {
        uint16_t sum = (uint16_t)(a[i - step] + a[i] + a[i + step] + h[i - step] + 5 * h[i] + h[i + step] +
                                  b[i - step] + b[i] + b[i + step]);
        int smooth = (uint16_t)(2 * sum + 13) / 26;
        dst[i] = blend(smooth, h[i], factor);
    }
    if (end >= step)
        memcpy(dst + end, h + end, n - end);
}

LEAT_INLINE uint64_t sum_row(const uint8_t *r, const uint8_t *g, const uint8_t *b, size_t n)
{
    uint32_t sum = 0; /* of at most 65535 pixels */
    for (size_t i = 0; i < n; i++)
        sum += grey(r[i], g[i], b[i]);
    return sum;
}

LEAT_INLINE void extremes_row(const uint8_t *row, size_t n, uint8_t *low, uint8_t *high)
{
    uint8_t least = *low, most = *high;
    for (size_t i = 0; i < n; i++) {
        least = row[i] < least ? row[i] : least;
        most = row[i] > most ? row[i] : most;
    }
    *low = least;
    *high = most;
}

/* Neighbours are often equal: four counts in turn do not wait for each other. */
LEAT_INLINE void count_row(const uint8_t *row, size_t n, uint32_t counts[4][256])
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (unsigned k = 0; k < 4; k++)
            counts[k][row[i + k]]++;
    for (; i < n; i++)
        counts[0][row[i]]++;
}

/* Pixels of `channels` bytes to rows, and back; each a loop of its own, so that it is vectorised. */
LEAT_INLINE void part_pixels(const uint8_t *restrict src, unsigned channels, uint8_t *restrict dst, size_t stride,
                             size_t n)
{
    for (size_t i = 0; i < n; i++)
        LEAT_UNROLL
    for (unsigned c = 0; c < channels; c++)
        dst[c * stride + i] = src[i * channels + c];
}

LEAT_INLINE void join_pixels(const uint8_t *restrict src, size_t stride, unsigned channels, uint8_t *restrict dst,
                             size_t n)
{
    for (size_t i = 0; i < n; i++)
        LEAT_UNROLL
    for (unsigned c = 0; c < channels; c++)
        dst[i * channels + c] = src[c * stride + i];
}

#endif
