/*
 * From rows of samples to rows of pixels: upsampling and colours, with libjpeg's arithmetic.
 *
 * Smooth upsampling is a triangle filter: a pixel between two samples takes 3/4 of the nearer and 1/4 of the other, in
 * each direction that is halved. Pixel 2 i lies left of sample i's centre, pixel 2 i + 1 right of it:
 *
 *     samples          s[i - 1]          s[i]            s[i + 1]
 *     pixels                        2 i       2 i + 1
 *
 * Half a step is rounded down in pixels at even places and up at odd ones, so that no brightness is won or lost. At an
 * edge of the image the missing neighbour is the edge's own sample: the caller writes it there.
 *
 * Colours are JFIF's: R = Y + 1.402 Cr', G = Y - 0.34414 Cb' - 0.71414 Cr', B = Y + 1.772 Cb' with Cb' = Cb - 128 and
 * Cr' = Cr - 128, factors in units of 2^-16, sums rounded to the nearest integer.
 *
 * All functions make n pixels, n > 0. They may read 64 samples and write 256 bytes more than these need.
 */
#ifndef LEAT_CODEC_JPEG_PIXELS_H
#define LEAT_CODEC_JPEG_PIXELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

/* Samples of a component for n pixels: row `at`, whose sample 0 is that of pixel 0, and for filters that look up or
 * down the row beside it. at[-1] and the sample behind the last one must be there for filters that look sideways. */
struct leat_jpeg_samples {
    const uint8_t *at, *beside;
};

struct leat_jpeg_pixels {
    /* upsampling alone: pixel 0 is an even one */
    void (*h2v1)(const struct leat_jpeg_samples *in, size_t n, uint8_t *out);
    void (*h2v2)(const struct leat_jpeg_samples *in, size_t n, uint8_t *out);
    /* `below` tells on which side the row beside lies: it decides how halves are rounded */
    void (*h1v2)(const struct leat_jpeg_samples *in, bool below, size_t n, uint8_t *out);

    /* Y, Cb, Cr to R, G, B, 255; in the other two Cb and Cr are upsampled on the way */
    void (*ycc)(const uint8_t *y, const struct leat_jpeg_samples chroma[2], size_t n, uint8_t *out);
    void (*ycc_h2v1)(const uint8_t *y, const struct leat_jpeg_samples chroma[2], size_t n, uint8_t *out);
    void (*ycc_h2v2)(const uint8_t *y, const struct leat_jpeg_samples chroma[2], size_t n, uint8_t *out);
    /* three rows beside each other, and 255 */
    void (*rgb)(const uint8_t *r, const uint8_t *g, const uint8_t *b, size_t n, uint8_t *out);
    void (*gray)(const uint8_t *in, size_t n, uint8_t *out);
};

/* Repeats samples; pixel 0 is number `phase` of the `across` that in[0] becomes. */
void leat_jpeg_repeat(const uint8_t *in, unsigned across, unsigned phase, size_t n, uint8_t *out);
/* The rest of red, green and blue after `black` is printed over them, with Pillow's rounding: R K / 255. K is stored
 * inverted. CMYK has the complements of red, green and blue in their places (`inverted`). */
void leat_jpeg_blacken(const uint8_t *black, bool inverted, size_t n, uint8_t *pixels);
/* The same to inks: C, M, Y and K, not inverted. */
void leat_jpeg_inks(const uint8_t *black, bool inverted, size_t n, uint8_t *pixels);

extern const struct leat_jpeg_pixels leat_jpeg_pixels_portable, leat_jpeg_pixels_avx2, leat_jpeg_pixels_avx512;
/* The functions of an instruction set; of a lower one if this build has no such. */
static inline const struct leat_jpeg_pixels *leat_jpeg_pixels(enum leat_isa isa)
{
    return LEAT_OF_ISA(isa, &leat_jpeg_pixels);
}

#endif
