/*
 * Upsampling and colours with AVX-512 (BW, VBMI), 64 pixels at a time. The arithmetic is that of pixels_portable.c.
 *
 * Pixels leave as four bytes each, interleaved in two steps that stay in lanes of 128 bits: R with G and B with 255,
 * then pairs with pairs. For pixels to come out in order, groups of four go in transposed:
 *
 *     group of four pixels     0 4 8 12 | 1 5 9 13 | 2 6 10 14 | 3 7 11 15     of a register of 64 samples
 *     after both steps         0 1 2 3  | 4 5 6 7 | 8 9 10 11 | 12 13 14 15    four registers of 16 pixels
 */
#include "jpeg/pixels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET LEAT_TARGET_AVX512
#define INLINE TARGET static inline __attribute__((always_inline))

/* The transposition of groups of four, there and back. */
INLINE __m512i transpose(__m512i v)
{
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), v);
}

/* 64 pixels, transposed, to memory. */
INLINE void store(__m512i r, __m512i g, __m512i b, uint8_t *out)
{
    const __m512i x = _mm512_set1_epi8(-1);
    const __m512i rg0 = _mm512_unpacklo_epi8(r, g), rg1 = _mm512_unpackhi_epi8(r, g);
    const __m512i bx0 = _mm512_unpacklo_epi8(b, x), bx1 = _mm512_unpackhi_epi8(b, x);
    _mm512_storeu_si512(out, _mm512_unpacklo_epi16(rg0, bx0));
    _mm512_storeu_si512(out + 64, _mm512_unpackhi_epi16(rg0, bx0));
    _mm512_storeu_si512(out + 128, _mm512_unpacklo_epi16(rg1, bx1));
    _mm512_storeu_si512(out + 192, _mm512_unpackhi_epi16(rg1, bx1));
}

/* 32 pixels: Y in words, Cb' and Cr' side by side in bytes, to R, G and B in words. */
INLINE void convert(__m512i y, __m512i chroma, __m512i *r, __m512i *g, __m512i *b)
{
    const __m512i z = _mm512_srai_epi16(chroma, 8), x2 = _mm512_maddubs_epi16(_mm512_set1_epi16(2), chroma);
    const __m512i high = _mm512_maddubs_epi16(_mm512_set1_epi16(91 << 8 | 44), chroma);
    const __m512i low = _mm512_maddubs_epi16(_mm512_set1_epi16(105 << 8 | 13), chroma);
    const __m512i carry = _mm512_srai_epi16(_mm512_add_epi16(low, _mm512_set1_epi16(255)), 8);
    const __m512i n = _mm512_add_epi16(_mm512_add_epi16(high, _mm512_set1_epi16(63)), carry);
    /* multiplication with rounding: (a b + 2^14) >> 15, here exact for all 256 values */
    *r = _mm512_add_epi16(_mm512_add_epi16(y, z), _mm512_mulhrs_epi16(z, _mm512_set1_epi16(13173)));
    *g = _mm512_sub_epi16(y, _mm512_srai_epi16(n, 7));
    *b = _mm512_add_epi16(_mm512_add_epi16(y, x2), _mm512_mulhrs_epi16(x2, _mm512_set1_epi16(-3735)));
}

/* 64 pixels of transposed samples. */
INLINE void put(__m512i y, __m512i cb, __m512i cr, uint8_t *out)
{
    const __m512i zero = _mm512_setzero_si512(), half = _mm512_set1_epi8(-128);
    __m512i r0, g0, b0, r1, g1, b1;
    cb = _mm512_xor_si512(cb, half);
    cr = _mm512_xor_si512(cr, half);
    convert(_mm512_unpacklo_epi8(y, zero), _mm512_unpacklo_epi8(cb, cr), &r0, &g0, &b0);
    convert(_mm512_unpackhi_epi8(y, zero), _mm512_unpackhi_epi8(cb, cr), &r1, &g1, &b1);
    store(_mm512_packus_epi16(r0, r1), _mm512_packus_epi16(g0, g1), _mm512_packus_epi16(b0, b1), out);
}

/*
 * Upsampling: each pixel of a doubled row lies between two samples that stand side by side, so a permutation of bytes gives
 * every pixel its pair, at once in the transposed order, and one multiplication adds up 1 and 3 parts of it, or 3 and 1.
 * Four pixels take samples a - 1 to a + 2, which stand at a to a + 3 where the row is read from its neighbour on the left.
 */
#define FOUR(a) ((int64_t)((a)*UINT64_C(0x0101010101010101) + UINT64_C(0x0302020102010100)))

/* The pairs of 32 pixels in words: of the first half of each lane, or of the second. */
INLINE __m512i pairs(__m512i samples, bool second)
{
    const __m512i first = _mm512_setr_epi64(FOUR(0), FOUR(8), FOUR(2), FOUR(10), FOUR(4), FOUR(12), FOUR(6), FOUR(14));
    return _mm512_permutexvar_epi8(second ? _mm512_add_epi8(first, _mm512_set1_epi8(16)) : first, samples);
}

/* 64 pixels, transposed, from 32 samples and their neighbours. */
INLINE __m512i double_row(const uint8_t *s)
{
    const __m512i v = _mm512_loadu_si512(s - 1), parts = _mm512_set1_epi32(0x01030301), half = _mm512_set1_epi32(2 << 16 | 1);
    const __m512i a = _mm512_add_epi16(_mm512_maddubs_epi16(pairs(v, false), parts), half);
    const __m512i b = _mm512_add_epi16(_mm512_maddubs_epi16(pairs(v, true), parts), half);
    return _mm512_packus_epi16(_mm512_srli_epi16(a, 2), _mm512_srli_epi16(b, 2));
}

/* The same with a quarter of the row beside. */
INLINE __m512i sum(__m512i s, __m512i t)
{
    const __m512i near = _mm512_maddubs_epi16(s, _mm512_set1_epi32(0x03090903)), half = _mm512_set1_epi32(7 << 16 | 8);
    return _mm512_srli_epi16(_mm512_add_epi16(_mm512_add_epi16(near, half), _mm512_maddubs_epi16(t, _mm512_set1_epi32(0x01030301))), 4);
}

INLINE __m512i double_both(const uint8_t *s, const uint8_t *t)
{
    const __m512i v = _mm512_loadu_si512(s - 1), w = _mm512_loadu_si512(t - 1);
    return _mm512_packus_epi16(sum(pairs(v, false), pairs(w, false)), sum(pairs(v, true), pairs(w, true)));
}

TARGET static void ycc(const uint8_t *y, const struct leat_jpeg_samples chroma[2], size_t n, uint8_t *out)
{
    const uint8_t *cb = chroma[0].at, *cr = chroma[1].at;
    for (size_t i = 0; i < n; i += 64)
        put(transpose(_mm512_loadu_si512(y + i)), transpose(_mm512_loadu_si512(cb + i)), transpose(_mm512_loadu_si512(cr + i)),
            out + 4 * i);
}

TARGET static void ycc_h2v1(const uint8_t *y, const struct leat_jpeg_samples chroma[2], size_t n, uint8_t *out)
{
    const uint8_t *cb = chroma[0].at, *cr = chroma[1].at;
    for (size_t i = 0; i < n; i += 64)
        put(transpose(_mm512_loadu_si512(y + i)), double_row(cb + i / 2), double_row(cr + i / 2), out + 4 * i);
}

TARGET static void ycc_h2v2(const uint8_t *y, const struct leat_jpeg_samples chroma[2], size_t n, uint8_t *out)
{
    const struct leat_jpeg_samples cb = chroma[0], cr = chroma[1];
    for (size_t i = 0; i < n; i += 64)
        put(transpose(_mm512_loadu_si512(y + i)), double_both(cb.at + i / 2, cb.beside + i / 2),
            double_both(cr.at + i / 2, cr.beside + i / 2), out + 4 * i);
}

TARGET static void h2v1(const struct leat_jpeg_samples *in, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += 64)
        _mm512_storeu_si512(out + i, transpose(double_row(in->at + i / 2)));
}

TARGET static void h2v2(const struct leat_jpeg_samples *in, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += 64)
        _mm512_storeu_si512(out + i, transpose(double_both(in->at + i / 2, in->beside + i / 2)));
}

TARGET static void h1v2(const struct leat_jpeg_samples *in, bool below, size_t n, uint8_t *out)
{
    const __m512i parts = _mm512_set1_epi16(1 << 8 | 3), half = _mm512_set1_epi16(below ? 2 : 1);
    for (size_t i = 0; i < n; i += 64) {
        const __m512i s = _mm512_loadu_si512(in->at + i), t = _mm512_loadu_si512(in->beside + i);
        const __m512i a = _mm512_add_epi16(_mm512_maddubs_epi16(_mm512_unpacklo_epi8(s, t), parts), half);
        const __m512i b = _mm512_add_epi16(_mm512_maddubs_epi16(_mm512_unpackhi_epi8(s, t), parts), half);
        _mm512_storeu_si512(out + i, _mm512_packus_epi16(_mm512_srli_epi16(a, 2), _mm512_srli_epi16(b, 2)));
    }
}

TARGET static void rgb(const uint8_t *r, const uint8_t *g, const uint8_t *b, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += 64)
        store(transpose(_mm512_loadu_si512(r + i)), transpose(_mm512_loadu_si512(g + i)), transpose(_mm512_loadu_si512(b + i)),
              out + 4 * i);
}

TARGET static void gray(const uint8_t *in, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += 64) {
        const __m512i v = transpose(_mm512_loadu_si512(in + i));
        store(v, v, v, out + 4 * i);
    }
}

const struct leat_jpeg_pixels leat_jpeg_pixels_avx512 = {
    .h2v1 = h2v1,
    .h2v2 = h2v2,
    .h1v2 = h1v2,
    .ycc = ycc,
    .ycc_h2v1 = ycc_h2v1,
    .ycc_h2v2 = ycc_h2v2,
    .rgb = rgb,
    .gray = gray,
};

#endif
