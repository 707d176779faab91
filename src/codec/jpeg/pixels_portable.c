/*
 * Upsampling and colours in portable C, in 16 bits wherever these suffice and without tables, so that a compiler can
 * make vectors of the loops.
 *
 * With x = Cr' the red difference is (91881 x + 2^15) >> 16, and 91881 = 2^16 + 26345: x, and the upper half of a
 * product of 2 x, halved with rounding. Blue is alike with 116130 = 2 * 2^16 - 14942. For green let n be the number
 * subtracted from Y: n = (22554 x + 46802 z + 2^15 - 1) >> 16 for x = Cb' and z = Cr'. Both factors are even, and
 * halved they are 44 * 256 + 13 and 91 * 256 + 105, so
 *
 *     n = ((44 x + 91 z) * 256 + 13 x + 105 z + 63 * 256 + 255) >> 15
 *       = (44 x + 91 z + 63 + ((13 x + 105 z + 255) >> 8)) >> 7
 *
 * where nothing exceeds 16 bits.
 */
#include <stdbool.h>

#include "codec/jpeg/pixels.h"

static inline int16_t clamp(int16_t v)
{
    return v < 0 ? 0 : v > 255 ? 255 : v;
}

/* Pixels are made in groups of so many, in loops that do one thing each: compilers make vectors of those. */
#define GROUP 64

/* Two bytes at once, the first in the lower half, anywhere in memory. */
typedef uint16_t __attribute__((may_alias, aligned(1))) pair;

/* Samples, a group of each, to pixels. */
static inline void interleave(const int16_t *restrict r, const int16_t *restrict g, const int16_t *restrict b,
                              uint8_t *restrict out)
{
    uint16_t rg[GROUP], bx[GROUP];
    for (unsigned i = 0; i < GROUP; i++) {
        rg[i] = (uint16_t)(r[i] | g[i] << 8);
        bx[i] = (uint16_t)(b[i] | 0xff00);
    }
    pair *p = (pair *)(void *)out;
    for (unsigned i = 0; i < GROUP; i++) {
        p[2 * i] = rg[i];
        p[2 * i + 1] = bx[i];
    }
}

static inline void put(const uint8_t *restrict y, const uint8_t *restrict cb, const uint8_t *restrict cr,
                       uint8_t *restrict out)
{
    int16_t r[GROUP], g[GROUP], b[GROUP];
    for (unsigned i = 0; i < GROUP; i++) {
        const int16_t z = (int16_t)(cr[i] - 128), product = (int16_t)(((int16_t)(2 * z) * 26345) >> 16);
        r[i] = clamp((int16_t)(y[i] + z + ((product + 1) >> 1)));
    }
    for (unsigned i = 0; i < GROUP; i++) {
        const int16_t x2 = (int16_t)(2 * cb[i] - 256), product = (int16_t)((x2 * -14942) >> 16);
        b[i] = clamp((int16_t)(y[i] + x2 + ((product + 1) >> 1)));
    }
    for (unsigned i = 0; i < GROUP; i++) {
        const int16_t x = (int16_t)(cb[i] - 128), z = (int16_t)(cr[i] - 128);
        const int16_t low = (int16_t)((int16_t)(13 * x + 105 * z + 255) >> 8);
        g[i] = clamp((int16_t)(y[i] - ((int16_t)(44 * x + 91 * z + 63 + low) >> 7)));
    }
    interleave(r, g, b, out);
}

static void ycc(const uint8_t *y, const struct leat_jpeg_samples chroma[2], size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += GROUP)
        put(y + i, chroma[0].at + i, chroma[1].at + i, out + 4 * i);
}

/* A group of pixels from half as many samples, and their neighbours. */
static inline void double_row(const uint8_t *restrict s, uint8_t *restrict out)
{
    pair *p = (pair *)(void *)out;
    for (int i = 0; i < GROUP / 2; i++) {
        const uint16_t near = (uint16_t)(3 * s[i]);
        const uint16_t even = (uint16_t)((uint16_t)(near + s[i - 1] + 1) >> 2),
                       odd = (uint16_t)((uint16_t)(near + s[i + 1] + 2) >> 2);
        p[i] = (uint16_t)(even | odd << 8);
    }
}

static inline void double_both(const uint8_t *restrict s, const uint8_t *restrict t, uint8_t *restrict out)
{
    pair *p = (pair *)(void *)out;
    uint16_t sum[GROUP / 2 + 2];
    for (int i = 0; i < GROUP / 2 + 2; i++)
        sum[i] = (uint16_t)(3 * s[i - 1] + t[i - 1]);
    for (int i = 0; i < GROUP / 2; i++) {
        const uint16_t near = (uint16_t)(3 * sum[i + 1]);
        const uint16_t even = (uint16_t)((uint16_t)(near + sum[i] + 8) >> 4),
                       odd = (uint16_t)((uint16_t)(near + sum[i + 2] + 7) >> 4);
        p[i] = (uint16_t)(even | odd << 8);
    }
}

static void h2v1(const struct leat_jpeg_samples *in, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += GROUP)
        double_row(in->at + i / 2, out + i);
}

static void h2v2(const struct leat_jpeg_samples *in, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += GROUP)
        double_both(in->at + i / 2, in->beside + i / 2, out + i);
}

static void h1v2(const struct leat_jpeg_samples *in, bool below, size_t n, uint8_t *out)
{
    const uint8_t *restrict s = in->at, *restrict t = in->beside;
    const int half = below ? 2 : 1;
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)((3 * s[i] + t[i] + half) >> 2);
}

static void ycc_h2v1(const uint8_t *y, const struct leat_jpeg_samples chroma[2], size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += GROUP) {
        uint8_t cb[GROUP], cr[GROUP];
        double_row(chroma[0].at + i / 2, cb);
        double_row(chroma[1].at + i / 2, cr);
        put(y + i, cb, cr, out + 4 * i);
    }
}

static void ycc_h2v2(const uint8_t *y, const struct leat_jpeg_samples chroma[2], size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += GROUP) {
        uint8_t cb[GROUP], cr[GROUP];
        double_both(chroma[0].at + i / 2, chroma[0].beside + i / 2, cb);
        double_both(chroma[1].at + i / 2, chroma[1].beside + i / 2, cr);
        put(y + i, cb, cr, out + 4 * i);
    }
}

static void rgb(const uint8_t *r, const uint8_t *g, const uint8_t *b, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += GROUP) {
        int16_t wide[3][GROUP];
        for (unsigned k = 0; k < GROUP; k++) {
            wide[0][k] = r[i + k];
            wide[1][k] = g[i + k];
            wide[2][k] = b[i + k];
        }
        interleave(wide[0], wide[1], wide[2], out + 4 * i);
    }
}

static void gray(const uint8_t *in, size_t n, uint8_t *out)
{
    rgb(in, in, in, n, out);
}

void leat_jpeg_repeat(const uint8_t *in, unsigned across, unsigned phase, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = *in;
        if (++phase == across) {
            phase = 0;
            in++;
        }
    }
}

void leat_jpeg_blacken(const uint8_t *black, bool inverted, size_t n, uint8_t *pixels)
{
    const uint8_t flip = inverted ? 255 : 0;
    for (size_t i = 0; i < n; i++)
        for (unsigned c = 0; c < 3; c++) {
            uint8_t *p = pixels + 4 * i + c;
            const unsigned k = black[i], t = (unsigned)(*p ^ flip) * k + 128;
            *p = (uint8_t)clamp((int16_t)((int)k - (int)((t + (t >> 8)) >> 8)));
        }
}

void leat_jpeg_inks(const uint8_t *black, bool inverted, size_t n, uint8_t *pixels)
{
    const uint8_t flip = inverted ? 255 : 0;
    for (size_t i = 0; i < n; i++) {
        for (unsigned c = 0; c < 3; c++)
            pixels[4 * i + c] ^= flip;
        pixels[4 * i + 3] = (uint8_t)(255 - black[i]);
    }
}

const struct leat_jpeg_pixels leat_jpeg_pixels_portable = {
    .h2v1 = h2v1,
    .h2v2 = h2v2,
    .h1v2 = h1v2,
    .ycc = ycc,
    .ycc_h2v1 = ycc_h2v1,
    .ycc_h2v2 = ycc_h2v2,
    .rgb = rgb,
    .gray = gray,
};
