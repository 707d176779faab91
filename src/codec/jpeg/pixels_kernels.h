/*
 * Upsampling and colours in vectors: included by pixels_avx2.c and pixels_avx512.c, which define SIMD (kernels/simd.h)
 * and PIXELS, the table of functions that is filled. The arithmetic is that of pixels_portable.c.
 *
 * Pixels leave as four bytes each, interleaved in two steps that stay in lanes of 128 bits: R with G and B with 255,
 * then pairs with pairs. For pixels to come out in order, groups of four go in transposed:
 *
 *     of a register of 64 samples     0 4 8 12 | 1 5 9 13 | 2 6 10 14 | 3 7 11 15
 *     after both steps                0 1 2 3  | 4 5 6 7 | 8 9 10 11 | 12 13 14 15    four registers of 16 pixels
 *
 *     of a register of 32 samples     0 2 4 6 | 1 3 5 7
 *     after both steps                0 1 | 2 3 | 4 5 | 6 7                           four registers of 8 pixels
 *
 * Upsampling: each pixel of a doubled row lies between two samples that stand side by side, so a permutation of bytes
 * gives every pixel its pair, at once in the transposed order, and one multiplication adds up 1 and 3 parts of it, or 3
 * and 1.
 */

#include "codec/jpeg/pixels.h"
#include "kernels/simd.h"

/* Four pixels take samples a - 1 to a + 2, which stand at a to a + 3 if the row is read from its neighbour on the
 * left. */
#define FOUR(a) ((int64_t)((a)*UINT64_C(0x0101010101010101) + UINT64_C(0x0302020102010100)))

/* transpose, restore: groups of four samples, there and back. pairs: those of half a register of pixels in words, of
 * the first half of each lane or of the second. */
#if SIMD == 512
INLINE vec transpose(vec v)
{
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), v);
}

INLINE vec restore(vec v) /* a transposition of four by four is its own inverse */
{
    return transpose(v);
}

INLINE vec pairs(const uint8_t *s, bool second)
{
    const vec first = _mm512_setr_epi64(FOUR(0), FOUR(8), FOUR(2), FOUR(10), FOUR(4), FOUR(12), FOUR(6), FOUR(14));
    return _mm512_permutexvar_epi8(second ? _mm512_add_epi8(first, _mm512_set1_epi8(16)) : first, load(s - 1));
}
#else
INLINE vec transpose(vec v)
{
    return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}

INLINE vec restore(vec v)
{
    return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

INLINE vec pairs(const uint8_t *s, bool second) /* those of a half of each lane stand in ten bytes */
{
    const __m128i samples = _mm_loadu_si128((const __m128i *)(const void *)(s + (second ? 7 : -1)));
    return _mm256_shuffle_epi8(in_lanes(samples), _mm256_setr_epi64x(FOUR(0), FOUR(4), FOUR(2), FOUR(6)));
}
#endif

/* Pixels, transposed, to memory. */
INLINE void store(vec r, vec g, vec b, uint8_t *out)
{
    const vec x = V(set1_epi8)(-1);
    const vec rg0 = V(unpacklo_epi8)(r, g), rg1 = V(unpackhi_epi8)(r, g);
    const vec bx0 = V(unpacklo_epi8)(b, x), bx1 = V(unpackhi_epi8)(b, x);
    keep(out, V(unpacklo_epi16)(rg0, bx0));
    keep(out + WIDTH, V(unpackhi_epi16)(rg0, bx0));
    keep(out + 2 * WIDTH, V(unpacklo_epi16)(rg1, bx1));
    keep(out + 3 * WIDTH, V(unpackhi_epi16)(rg1, bx1));
}

/* Half a register of pixels: Y in words, Cb' and Cr' side by side in bytes, to R, G and B in words. */
INLINE void convert(vec y, vec chroma, vec *r, vec *g, vec *b)
{
    const vec z = V(srai_epi16)(chroma, 8), x2 = V(maddubs_epi16)(V(set1_epi16)(2), chroma);
    const vec high = V(maddubs_epi16)(V(set1_epi16)(91 << 8 | 44), chroma);
    const vec low = V(maddubs_epi16)(V(set1_epi16)(105 << 8 | 13), chroma);
    const vec carry = V(srai_epi16)(V(add_epi16)(low, V(set1_epi16)(255)), 8);
    const vec n = V(add_epi16)(V(add_epi16)(high, V(set1_epi16)(63)), carry);
    /* multiplication with rounding: (a b + 2^14) >> 15, here exact for all 256 values */
    *r = V(add_epi16)(V(add_epi16)(y, z), V(mulhrs_epi16)(z, V(set1_epi16)(13173)));
    *g = V(sub_epi16)(y, V(srai_epi16)(n, 7));
    *b = V(add_epi16)(V(add_epi16)(y, x2), V(mulhrs_epi16)(x2, V(set1_epi16)(-3735)));
}

/* Pixels of transposed samples. */
INLINE void put(vec y, vec cb, vec cr, uint8_t *out)
{
    const vec zero = {0}, half = V(set1_epi8)(-128);
    vec r0, g0, b0, r1, g1, b1;
    cb = cb ^ half;
    cr = cr ^ half;
    convert(V(unpacklo_epi8)(y, zero), V(unpacklo_epi8)(cb, cr), &r0, &g0, &b0);
    convert(V(unpackhi_epi8)(y, zero), V(unpackhi_epi8)(cb, cr), &r1, &g1, &b1);
    store(V(packus_epi16)(r0, r1), V(packus_epi16)(g0, g1), V(packus_epi16)(b0, b1), out);
}

/* Pixels, transposed, from half as many samples and their neighbours. */
INLINE vec double_row(const uint8_t *s)
{
    const vec parts = V(set1_epi32)(0x01030301), half = V(set1_epi32)(2 << 16 | 1);
    const vec a = V(add_epi16)(V(maddubs_epi16)(pairs(s, false), parts), half);
    const vec b = V(add_epi16)(V(maddubs_epi16)(pairs(s, true), parts), half);
    return V(packus_epi16)(V(srli_epi16)(a, 2), V(srli_epi16)(b, 2));
}

/* The same with a quarter of the row beside. */
INLINE vec sum(vec s, vec t)
{
    const vec near = V(maddubs_epi16)(s, V(set1_epi32)(0x03090903)), half = V(set1_epi32)(7 << 16 | 8);
    return V(srli_epi16)(V(add_epi16)(V(add_epi16)(near, half), V(maddubs_epi16)(t, V(set1_epi32)(0x01030301))), 4);
}

INLINE vec double_both(const uint8_t *s, const uint8_t *t)
{
    return V(packus_epi16)(sum(pairs(s, false), pairs(t, false)), sum(pairs(s, true), pairs(t, true)));
}

TARGET static void ycc(const uint8_t *y, const struct leat_jpeg_samples chroma[2], size_t n, uint8_t *out)
{
    const uint8_t *cb = chroma[0].at, *cr = chroma[1].at;
    for (size_t i = 0; i < n; i += WIDTH)
        put(transpose(load(y + i)), transpose(load(cb + i)), transpose(load(cr + i)), out + 4 * i);
}

TARGET static void ycc_h2v1(const uint8_t *y, const struct leat_jpeg_samples chroma[2], size_t n, uint8_t *out)
{
    const uint8_t *cb = chroma[0].at, *cr = chroma[1].at;
    for (size_t i = 0; i < n; i += WIDTH)
        put(transpose(load(y + i)), double_row(cb + i / 2), double_row(cr + i / 2), out + 4 * i);
}

TARGET static void ycc_h2v2(const uint8_t *y, const struct leat_jpeg_samples chroma[2], size_t n, uint8_t *out)
{
    const struct leat_jpeg_samples cb = chroma[0], cr = chroma[1];
    for (size_t i = 0; i < n; i += WIDTH)
        put(transpose(load(y + i)), double_both(cb.at + i / 2, cb.beside + i / 2),
            double_both(cr.at + i / 2, cr.beside + i / 2), out + 4 * i);
}

TARGET static void h2v1(const struct leat_jpeg_samples *in, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += WIDTH)
        keep(out + i, restore(double_row(in->at + i / 2)));
}

TARGET static void h2v2(const struct leat_jpeg_samples *in, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += WIDTH)
        keep(out + i, restore(double_both(in->at + i / 2, in->beside + i / 2)));
}

TARGET static void h1v2(const struct leat_jpeg_samples *in, bool below, size_t n, uint8_t *out)
{
    const vec parts = V(set1_epi16)(1 << 8 | 3), half = V(set1_epi16)(below ? 2 : 1);
    for (size_t i = 0; i < n; i += WIDTH) {
        const vec s = load(in->at + i), t = load(in->beside + i);
        const vec a = V(add_epi16)(V(maddubs_epi16)(V(unpacklo_epi8)(s, t), parts), half);
        const vec b = V(add_epi16)(V(maddubs_epi16)(V(unpackhi_epi8)(s, t), parts), half);
        keep(out + i, V(packus_epi16)(V(srli_epi16)(a, 2), V(srli_epi16)(b, 2)));
    }
}

TARGET static void rgb(const uint8_t *r, const uint8_t *g, const uint8_t *b, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += WIDTH)
        store(transpose(load(r + i)), transpose(load(g + i)), transpose(load(b + i)), out + 4 * i);
}

TARGET static void gray(const uint8_t *in, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += WIDTH) {
        const vec v = transpose(load(in + i));
        store(v, v, v, out + 4 * i);
    }
}

const struct leat_jpeg_pixels PIXELS = {
    .h2v1 = h2v1,
    .h2v2 = h2v2,
    .h1v2 = h1v2,
    .ycc = ycc,
    .ycc_h2v1 = ycc_h2v1,
    .ycc_h2v2 = ycc_h2v2,
    .rgb = rgb,
    .gray = gray,
};
