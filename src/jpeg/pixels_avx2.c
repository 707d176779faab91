/*
 * Upsampling and colours with AVX2, 32 pixels at a time. The arithmetic is that of pixels_portable.c, the way to
 * interleaved pixels that of pixels_avx512.c:
 *
 *     group of four pixels     0 2 4 6 | 1 3 5 7                 of a register of 32 samples
 *     after both steps         0 1 | 2 3 | 4 5 | 6 7             four registers of 8 pixels
 */
#include "jpeg/pixels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET LEAT_TARGET_AVX2
#define INLINE TARGET static inline __attribute__((always_inline))

INLINE __m256i load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

INLINE void keep(uint8_t *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, v);
}

/* The transposition of groups of four. */
INLINE __m256i transpose(__m256i v)
{
    return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}

/* And back. */
INLINE __m256i restore(__m256i v)
{
    return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* 32 pixels, transposed, to memory. */
INLINE void store(__m256i r, __m256i g, __m256i b, uint8_t *out)
{
    const __m256i x = _mm256_set1_epi8(-1);
    const __m256i rg0 = _mm256_unpacklo_epi8(r, g), rg1 = _mm256_unpackhi_epi8(r, g);
    const __m256i bx0 = _mm256_unpacklo_epi8(b, x), bx1 = _mm256_unpackhi_epi8(b, x);
    keep(out, _mm256_unpacklo_epi16(rg0, bx0));
    keep(out + 32, _mm256_unpackhi_epi16(rg0, bx0));
    keep(out + 64, _mm256_unpacklo_epi16(rg1, bx1));
    keep(out + 96, _mm256_unpackhi_epi16(rg1, bx1));
}

/* 16 pixels: Y in words, Cb' and Cr' side by side in bytes, to R, G and B in words. */
INLINE void convert(__m256i y, __m256i chroma, __m256i *r, __m256i *g, __m256i *b)
{
    const __m256i z = _mm256_srai_epi16(chroma, 8), x2 = _mm256_maddubs_epi16(_mm256_set1_epi16(2), chroma);
    const __m256i high = _mm256_maddubs_epi16(_mm256_set1_epi16(91 << 8 | 44), chroma);
    const __m256i low = _mm256_maddubs_epi16(_mm256_set1_epi16(105 << 8 | 13), chroma);
    const __m256i carry = _mm256_srai_epi16(_mm256_add_epi16(low, _mm256_set1_epi16(255)), 8);
    const __m256i n = _mm256_add_epi16(_mm256_add_epi16(high, _mm256_set1_epi16(63)), carry);
    /* multiplication with rounding: (a b + 2^14) >> 15, here exact for all 256 values */
    *r = _mm256_add_epi16(_mm256_add_epi16(y, z), _mm256_mulhrs_epi16(z, _mm256_set1_epi16(13173)));
    *g = _mm256_sub_epi16(y, _mm256_srai_epi16(n, 7));
    *b = _mm256_add_epi16(_mm256_add_epi16(y, x2), _mm256_mulhrs_epi16(x2, _mm256_set1_epi16(-3735)));
}

/* 32 pixels of transposed samples. */
INLINE void put(__m256i y, __m256i cb, __m256i cr, uint8_t *out)
{
    const __m256i zero = _mm256_setzero_si256(), half = _mm256_set1_epi8(-128);
    __m256i r0, g0, b0, r1, g1, b1;
    cb = _mm256_xor_si256(cb, half);
    cr = _mm256_xor_si256(cr, half);
    convert(_mm256_unpacklo_epi8(y, zero), _mm256_unpacklo_epi8(cb, cr), &r0, &g0, &b0);
    convert(_mm256_unpackhi_epi8(y, zero), _mm256_unpackhi_epi8(cb, cr), &r1, &g1, &b1);
    store(_mm256_packus_epi16(r0, r1), _mm256_packus_epi16(g0, g1), _mm256_packus_epi16(b0, b1), out);
}

/*
 * Upsampling, as in pixels_avx512.c: the pairs of samples between which the pixels lie, in transposed order. Those of a
 * half of each lane stand in ten bytes.
 */
#define FOUR(a) ((int64_t)((a)*UINT64_C(0x0101010101010101) + UINT64_C(0x0302020102010100)))

/* The pairs of 16 pixels in words: of the first half of each lane, or of the second. */
INLINE __m256i pairs(const uint8_t *s, bool second)
{
    const __m128i samples = _mm_loadu_si128((const __m128i *)(const void *)(s + (second ? 7 : -1)));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(samples), _mm256_setr_epi64x(FOUR(0), FOUR(4), FOUR(2), FOUR(6)));
}

/* 32 pixels, transposed, from 16 samples and their neighbours. */
INLINE __m256i double_row(const uint8_t *s)
{
    const __m256i parts = _mm256_set1_epi32(0x01030301), half = _mm256_set1_epi32(2 << 16 | 1);
    const __m256i a = _mm256_add_epi16(_mm256_maddubs_epi16(pairs(s, false), parts), half);
    const __m256i b = _mm256_add_epi16(_mm256_maddubs_epi16(pairs(s, true), parts), half);
    return _mm256_packus_epi16(_mm256_srli_epi16(a, 2), _mm256_srli_epi16(b, 2));
}

/* The same with a quarter of the row beside. */
INLINE __m256i sum(__m256i s, __m256i t)
{
    const __m256i near = _mm256_maddubs_epi16(s, _mm256_set1_epi32(0x03090903)), half = _mm256_set1_epi32(7 << 16 | 8);
    return _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(near, half), _mm256_maddubs_epi16(t, _mm256_set1_epi32(0x01030301))), 4);
}

INLINE __m256i double_both(const uint8_t *s, const uint8_t *t)
{
    return _mm256_packus_epi16(sum(pairs(s, false), pairs(t, false)), sum(pairs(s, true), pairs(t, true)));
}

TARGET static void ycc(const uint8_t *y, const struct leat_jpeg_samples chroma[2], size_t n, uint8_t *out)
{
    const uint8_t *cb = chroma[0].at, *cr = chroma[1].at;
    for (size_t i = 0; i < n; i += 32)
        put(transpose(load(y + i)), transpose(load(cb + i)), transpose(load(cr + i)), out + 4 * i);
}

TARGET static void ycc_h2v1(const uint8_t *y, const struct leat_jpeg_samples chroma[2], size_t n, uint8_t *out)
{
    const uint8_t *cb = chroma[0].at, *cr = chroma[1].at;
    for (size_t i = 0; i < n; i += 32)
        put(transpose(load(y + i)), double_row(cb + i / 2), double_row(cr + i / 2), out + 4 * i);
}

TARGET static void ycc_h2v2(const uint8_t *y, const struct leat_jpeg_samples chroma[2], size_t n, uint8_t *out)
{
    const struct leat_jpeg_samples cb = chroma[0], cr = chroma[1];
    for (size_t i = 0; i < n; i += 32)
        put(transpose(load(y + i)), double_both(cb.at + i / 2, cb.beside + i / 2), double_both(cr.at + i / 2, cr.beside + i / 2),
            out + 4 * i);
}

TARGET static void h2v1(const struct leat_jpeg_samples *in, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += 32)
        keep(out + i, restore(double_row(in->at + i / 2)));
}

TARGET static void h2v2(const struct leat_jpeg_samples *in, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += 32)
        keep(out + i, restore(double_both(in->at + i / 2, in->beside + i / 2)));
}

TARGET static void h1v2(const struct leat_jpeg_samples *in, bool below, size_t n, uint8_t *out)
{
    const __m256i parts = _mm256_set1_epi16(1 << 8 | 3), half = _mm256_set1_epi16(below ? 2 : 1);
    for (size_t i = 0; i < n; i += 32) {
        const __m256i s = load(in->at + i), t = load(in->beside + i);
        const __m256i a = _mm256_add_epi16(_mm256_maddubs_epi16(_mm256_unpacklo_epi8(s, t), parts), half);
        const __m256i b = _mm256_add_epi16(_mm256_maddubs_epi16(_mm256_unpackhi_epi8(s, t), parts), half);
        keep(out + i, _mm256_packus_epi16(_mm256_srli_epi16(a, 2), _mm256_srli_epi16(b, 2)));
    }
}

TARGET static void rgb(const uint8_t *r, const uint8_t *g, const uint8_t *b, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += 32)
        store(transpose(load(r + i)), transpose(load(g + i)), transpose(load(b + i)), out + 4 * i);
}

TARGET static void gray(const uint8_t *in, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += 32) {
        const __m256i v = transpose(load(in + i));
        store(v, v, v, out + 4 * i);
    }
}

const struct leat_jpeg_pixels leat_jpeg_pixels_avx2 = {
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
