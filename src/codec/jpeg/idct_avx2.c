/*
 * The inverse DCTs for AVX2, two blocks at a time, each in a 128-bit lane: the arithmetic of idct_avx512.c, with the
 * same bounds within which it is exact, and plain C beyond them. pmaddwd makes the sums of two products.
 */
#include "codec/jpeg/idct_internal.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#define TARGET LEAT_TARGET_AVX2
#define INLINE static inline __attribute__((always_inline)) TARGET

INLINE __m256i times(__m256i x, int lo, int hi)
{
    return _mm256_madd_epi16(x, _mm256_set1_epi32((int)(((uint32_t)lo & 0xffff) | (uint32_t)hi << 16)));
}

INLINE void butterfly(const __m256i e[4], const __m256i o[4], __m256i out[8])
{
    UNROLL
    for (int i = 0; i < 4; i++) {
        out[i] = _mm256_add_epi32(e[i], o[i]);
        out[7 - i] = _mm256_sub_epi32(e[i], o[i]);
    }
}

/* One dimension of 8 columns whose rows come as p[i] = (i, i + 4). */
INLINE void pass(const __m256i p[4], int round, __m256i out[8])
{
    __m256i r = _mm256_set1_epi32(round), e[4], o[4];
    __m256i sum = _mm256_add_epi32(r, times(p[0], EVEN_0, EVEN_0)),
            difference = _mm256_add_epi32(r, times(p[0], EVEN_0, -EVEN_0));
    __m256i outer = times(p[2], EVEN_0_2, EVEN_0_6), inner = times(p[2], EVEN_1_2, EVEN_1_6);
    e[0] = _mm256_add_epi32(sum, outer), e[3] = _mm256_sub_epi32(sum, outer);
    e[1] = _mm256_add_epi32(difference, inner), e[2] = _mm256_sub_epi32(difference, inner);
    o[0] = _mm256_add_epi32(times(p[1], ODD_0_1, ODD_0_5), times(p[3], ODD_0_3, ODD_0_7));
    o[1] = _mm256_add_epi32(times(p[1], ODD_1_1, ODD_1_5), times(p[3], ODD_1_3, ODD_1_7));
    o[2] = _mm256_add_epi32(times(p[1], ODD_2_1, ODD_2_5), times(p[3], ODD_2_3, ODD_2_7));
    o[3] = _mm256_add_epi32(times(p[1], ODD_3_1, ODD_3_5), times(p[3], ODD_3_3, ODD_3_7));
    butterfly(e, o, out);
}

/* The same where rows 4 to 7 are zero: p02 = (0, 2), p13 = (1, 3). */
INLINE void pass_low(__m256i p02, __m256i p13, int round, __m256i out[8])
{
    __m256i r = _mm256_set1_epi32(round), e[4], o[4];
    e[0] = _mm256_add_epi32(r, times(p02, EVEN_0, EVEN_0_2)), e[3] = _mm256_add_epi32(r, times(p02, EVEN_0, -EVEN_0_2));
    e[1] = _mm256_add_epi32(r, times(p02, EVEN_0, EVEN_1_2)), e[2] = _mm256_add_epi32(r, times(p02, EVEN_0, -EVEN_1_2));
    o[0] = times(p13, ODD_0_1, ODD_0_3), o[1] = times(p13, ODD_1_1, ODD_1_3);
    o[2] = times(p13, ODD_2_1, ODD_2_3), o[3] = times(p13, ODD_3_1, ODD_3_3);
    butterfly(e, o, out);
}

/* The upper halves: of lo in the lower half. */
INLINE __m256i upper(__m256i lo, __m256i hi)
{
    return _mm256_blend_epi16(_mm256_srli_epi32(lo, 16), hi, 0xaa);
}

/* Whether one of x[0] to x[n - 1] is outside [-most, most). */
INLINE bool beyond(const __m256i *x, int n, int most)
{
    __m256i bias = _mm256_set1_epi16((short)most), any = _mm256_setzero_si256();
    UNROLL
    for (int i = 0; i < n; i++)
        any = _mm256_or_si256(any, _mm256_add_epi16(x[i], bias));
    return !_mm256_testz_si256(any, _mm256_set1_epi16((short)~(2 * most - 1)));
}

/* Four rows of two blocks out of o[c], which has a row in each 32 bits and a block in each lane. */
INLINE void store(const __m256i o[8], uint8_t *out, size_t stride)
{
    __m256i w[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        w[i] = _mm256_srai_epi16(upper(o[2 * i], o[2 * i + 1]), LEFT);
    __m256i a = _mm256_packus_epi16(w[0], w[2]), b = _mm256_packus_epi16(w[1], w[3]); /* 0 1 of 4 rows, 4 5; 2 3, 6 7 */
    __m256i left = _mm256_unpacklo_epi16(a, b), right = _mm256_unpackhi_epi16(a, b);  /* 0 to 3 of 4 rows; 4 to 7 */
    UNROLL
    for (size_t r = 0; r < 4; r += 2) {
        __m256i rows = r ? _mm256_unpackhi_epi32(left, right) : _mm256_unpacklo_epi32(left, right);
        rows = _mm256_permute4x64_epi64(rows, 0xd8);
        _mm_storeu_si128((void *)(out + r * stride), _mm256_castsi256_si128(rows));
        _mm_storeu_si128((void *)(out + (r + 1) * stride), _mm256_extracti128_si256(rows, 1));
    }
}

/* Of every lane: x[i], 32-bit element j becomes p[j], element i. */
INLINE void transpose(const __m256i x[4], __m256i p[4])
{
    __m256i a = _mm256_unpacklo_epi32(x[0], x[1]), b = _mm256_unpacklo_epi32(x[2], x[3]);
    __m256i c = _mm256_unpackhi_epi32(x[0], x[1]), d = _mm256_unpackhi_epi32(x[2], x[3]);
    p[0] = _mm256_unpacklo_epi64(a, b), p[1] = _mm256_unpackhi_epi64(a, b);
    p[2] = _mm256_unpacklo_epi64(c, d), p[3] = _mm256_unpackhi_epi64(c, d);
}

INLINE __m256i load(const int16_t *k)
{
    return _mm256_loadu_si256((const void *)k);
}

/* Two blocks as pairs of rows of dequantised coefficients times 16: p[i] = (i, i + 4) of columns 0 to 3, p[4 + i] of
 * the others, a block in each lane. False where values are too large. */
INLINE bool dequantise(const int16_t *k, const uint16_t quant[64], __m256i p[8])
{
    __m256i x[8];
    UNROLL
    for (int i = 0; i < 4; i++) { /* rows 2 i and 2 i + 1 */
        __m256i q = _mm256_loadu_si256((const void *)(quant + 16 * i));
        x[i] = _mm256_mullo_epi16(load(k + 16 * i), q);
        x[4 + i] = _mm256_mullo_epi16(load(k + 64 + 16 * i), q);
    }
    if (__builtin_expect(beyond(x, 8, MOST1), 0))
        return false;
    UNROLL
    for (int i = 0; i < 8; i++)
        x[i] = _mm256_slli_epi16(x[i], 4);
    UNROLL
    for (int i = 0; i < 2; i++) {
        __m256i c = _mm256_unpacklo_epi16(x[i], x[i + 2]), d = _mm256_unpacklo_epi16(x[i + 4], x[i + 6]);
        p[2 * i] = _mm256_permute2x128_si256(c, d, 0x20), p[2 * i + 1] = _mm256_permute2x128_si256(c, d, 0x31);
        c = _mm256_unpackhi_epi16(x[i], x[i + 2]), d = _mm256_unpackhi_epi16(x[i + 4], x[i + 6]);
        p[2 * i + 4] = _mm256_permute2x128_si256(c, d, 0x20), p[2 * i + 5] = _mm256_permute2x128_si256(c, d, 0x31);
    }
    return true;
}

/* Two blocks; false, and nothing is written, where values are too large. */
INLINE bool two(const int16_t *k, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    __m256i p[8], a[8], b[8];
    if (!dequantise(k, quant, p))
        return false;
    pass(p, ROUND1, a);
    pass(p + 4, ROUND1, b);
    UNROLL
    for (int r = 0; r < 8; r++)
        a[r] = upper(a[r], b[r]);
    if (__builtin_expect(beyond(a, 8, MOST2), 0))
        return false;
    UNROLL
    for (size_t r = 0; r < 8; r += 4) {
        transpose(a + r, p);
        pass(p, ROUND2, b);
        store(b, out + r * stride, stride);
    }
    return true;
}

/* Two blocks that hold nothing outside rows and columns 0 to 3. */
INLINE bool two_low(const int16_t *k, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    __m256i x[2], a[8], b[8];
    UNROLL
    for (int i = 0; i < 2; i++) { /* rows 2 i and 2 i + 1, in each lane of both blocks */
        __m256i q = _mm256_loadu_si256((const void *)(quant + 16 * i));
        x[i] = _mm256_mullo_epi16(_mm256_unpacklo_epi64(load(k + 16 * i), load(k + 64 + 16 * i)),
                                  _mm256_unpacklo_epi64(q, q));
    }
    if (__builtin_expect(beyond(x, 2, MOST1), 0))
        return false;
    x[0] = _mm256_slli_epi16(x[0], 4), x[1] = _mm256_slli_epi16(x[1], 4);
    __m256i first = _mm256_unpacklo_epi16(x[0], x[1]), second = _mm256_unpackhi_epi16(x[0], x[1]);
    pass_low(_mm256_permute2x128_si256(first, second, 0x20), _mm256_permute2x128_si256(first, second, 0x31), ROUND1, a);
    UNROLL
    for (int i = 0; i < 4; i++)
        a[i] = upper(a[2 * i], a[2 * i + 1]); /* (row 2 i, row 2 i + 1) of columns 0 to 3 */
    if (__builtin_expect(beyond(a, 4, MOST2), 0))
        return false;
    __m256i columns = _mm256_broadcastsi128_si256(_mm_set_epi8(15, 14, 7, 6, 13, 12, 5, 4, 11, 10, 3, 2, 9, 8, 1, 0));
    UNROLL
    for (int i = 0; i < 4; i++)
        a[i] = _mm256_shuffle_epi8(a[i], columns); /* (0, 2) of the two rows, (1, 3) of them */
    UNROLL
    for (size_t i = 0; i < 2; i++) {
        pass_low(_mm256_unpacklo_epi64(a[2 * i], a[2 * i + 1]), _mm256_unpackhi_epi64(a[2 * i], a[2 * i + 1]), ROUND2,
                 b);
        store(b, out + 4 * i * stride, stride);
    }
    return true;
}

/* A sample of each of two blocks that hold only DC. The shift wraps, as that of the vector code that is the measure
 * does. */
INLINE __m128i dc_samples(const int16_t *k, uint32_t quant)
{
    __m128i dc = _mm_set_epi16(0, 0, 0, 0, 0, 0, k[64], k[0]);
    dc = _mm_slli_epi16(_mm_mullo_epi16(dc, _mm_set1_epi16((short)quant)), PASS1_BITS);
    dc = _mm_srai_epi32(_mm_add_epi32(_mm_cvtepi16_epi32(dc), _mm_set1_epi32((128 << 5) + 16)), 5);
    return _mm_packus_epi16(_mm_packs_epi32(dc, dc), dc);
}

INLINE void any_two8(const int16_t *k, const uint8_t *last, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    unsigned end = last[0] > last[1] ? last[0] : last[1];
    if (!end) {
        __m128i row = _mm_shuffle_epi8(dc_samples(k, quant[0]), _mm_set_epi64x(0x0101010101010101, 0));
        UNROLL
        for (size_t r = 0; r < 8; r++)
            _mm_storeu_si128((void *)(out + r * stride), row);
    } else if (__builtin_expect(!(end <= LAST_LOW ? two_low(k, quant, out, stride) : two(k, quant, out, stride)), 0))
        leat_jpeg_idct_plain.samples8(k, last, 2, quant, out, stride);
}

/* n blocks, two by two, `size` samples across each. */
INLINE void in_twos(void (*each)(const int16_t *k, const uint8_t *last, const uint16_t quant[64], uint8_t *out,
                                 size_t stride),
                    size_t size, const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64],
                    uint8_t *out, size_t stride)
{
    size_t i = 0;
    for (; i + 2 <= n; i += 2)
        each(coefficients + 64 * i, last + i, quant, out + size * i, stride);
    if (i == n)
        return;
    if (n > 1) /* the last two, one of them once more */
        each(coefficients + 64 * (n - 2), last + n - 2, quant, out + size * (n - 2), stride);
    else { /* behind the row there is room for samples, but there are no coefficients */
        _Alignas(32) int16_t both[128] = {0};
        memcpy(both, coefficients, 128);
        each(both, (const uint8_t[2]){last[0], 0}, quant, out, stride);
    }
}

TARGET static void samples8(const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64],
                            uint8_t *out, size_t stride)
{
    in_twos(any_two8, 8, coefficients, last, n, quant, out, stride);
}

/* ---- 4 samples of 8 ---- */

INLINE void pass4(const __m256i p[4], int round, __m256i out[4])
{
    __m256i sum = _mm256_add_epi32(_mm256_set1_epi32(round), times(p[0], EVEN_0, 0)), e = times(p[2], EVEN4_2, EVEN4_6);
    __m256i e0 = _mm256_add_epi32(sum, e), e1 = _mm256_sub_epi32(sum, e);
    __m256i o0 = _mm256_add_epi32(times(p[1], ODD4_0_1, ODD4_0_5), times(p[3], ODD4_0_3, ODD4_0_7));
    __m256i o1 = _mm256_add_epi32(times(p[1], ODD4_1_1, ODD4_1_5), times(p[3], ODD4_1_3, ODD4_1_7));
    out[0] = _mm256_add_epi32(e0, o0), out[3] = _mm256_sub_epi32(e0, o0);
    out[1] = _mm256_add_epi32(e1, o1), out[2] = _mm256_sub_epi32(e1, o1);
}

INLINE bool two4(const int16_t *k, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    __m256i p[8], a[4], b[4];
    if (!dequantise(k, quant, p))
        return false;
    pass4(p, ROUND1, a);
    pass4(p + 4, ROUND1, b);
    UNROLL
    for (int r = 0; r < 4; r++)
        a[r] = upper(a[r], b[r]);
    transpose(a, p);
    pass4(p, ROUND2, a);
    __m256i left = _mm256_srai_epi16(upper(a[0], a[1]), LEFT), right = _mm256_srai_epi16(upper(a[2], a[3]), LEFT);
    __m256i rows = _mm256_packus_epi16(left, right); /* of a lane: 0 1 of 4 rows, 2 3 of 4 rows */
    __m128i x = _mm256_castsi256_si128(rows), y = _mm256_extracti128_si256(rows, 1),
            order = _mm_set_epi8(15, 14, 7, 6, 13, 12, 5, 4, 11, 10, 3, 2, 9, 8, 1, 0);
    x = _mm_shuffle_epi8(x, order), y = _mm_shuffle_epi8(y, order);
    __m128i rows01 = _mm_unpacklo_epi32(x, y), rows23 = _mm_unpackhi_epi32(x, y);
    _mm_storel_epi64((void *)out, rows01);
    _mm_storeh_pi((void *)(out + stride), _mm_castsi128_ps(rows01));
    _mm_storel_epi64((void *)(out + 2 * stride), rows23);
    _mm_storeh_pi((void *)(out + 3 * stride), _mm_castsi128_ps(rows23));
    return true;
}

INLINE void any_two4(const int16_t *k, const uint8_t *last, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    if (!(last[0] | last[1])) {
        __m128i row = _mm_shuffle_epi8(dc_samples(k, quant[0]), _mm_set_epi64x(0, 0x0101010100000000));
        UNROLL
        for (size_t r = 0; r < 4; r++)
            _mm_storel_epi64((void *)(out + r * stride), row);
    } else if (__builtin_expect(!two4(k, quant, out, stride), 0))
        leat_jpeg_idct_plain.samples4(k, last, 2, quant, out, stride);
}

TARGET static void samples4(const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64],
                            uint8_t *out, size_t stride)
{
    in_twos(any_two4, 4, coefficients, last, n, quant, out, stride);
}

/* ---- 2 samples of 8 ---- */

INLINE __m256i odd2(__m256i p1, __m256i p3)
{
    return _mm256_add_epi32(times(p1, ODD2_1, ODD2_5), times(p3, ODD2_3, ODD2_7));
}

INLINE __m256i even2(__m256i p0, int round)
{
    __m256i half = times(p0, EVEN_0, 0);
    return _mm256_add_epi32(_mm256_add_epi32(half, half), _mm256_set1_epi32(round));
}

INLINE bool two2(const int16_t *k, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    __m256i p[8];
    if (!dequantise(k, quant, p))
        return false;
    __m256i e = even2(p[0], ROUND1_2), f = even2(p[4], ROUND1_2), o = odd2(p[1], p[3]), q = odd2(p[5], p[7]);
    __m256i row0 = _mm256_srai_epi16(upper(_mm256_add_epi32(e, o), _mm256_add_epi32(f, q)), 1);
    __m256i row1 = _mm256_srai_epi16(upper(_mm256_sub_epi32(e, o), _mm256_sub_epi32(f, q)), 1);
    __m256i p01 = _mm256_unpacklo_epi32(row0, row1),
            p23 = _mm256_unpackhi_epi32(row0, row1); /* two rows of (0, 4), of (1, 5); (3, 7) */
    __m256i even = even2(_mm256_unpacklo_epi64(p01, p01), ROUND2_2),
            odd = odd2(_mm256_unpackhi_epi64(p01, p01), _mm256_unpackhi_epi64(p23, p23));
    __m256i all = _mm256_blend_epi32(_mm256_add_epi32(even, odd), _mm256_sub_epi32(even, odd),
                                     0xcc); /* column 0 of two rows, column 1 */
    all = _mm256_srai_epi32(all, DOWN2_2);
    __m128i both = _mm_packs_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    both = _mm_shuffle_epi8(_mm_packus_epi16(both, both), _mm_set_epi64x(0, 0x0705030106040200));
    int32_t rows[2] = {_mm_extract_epi32(both, 0), _mm_extract_epi32(both, 1)};
    memcpy(out, &rows[0], 4);
    memcpy(out + stride, &rows[1], 4);
    return true;
}

INLINE void any_two2(const int16_t *k, const uint8_t *last, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    if (__builtin_expect(!two2(k, quant, out, stride), 0))
        leat_jpeg_idct_plain.samples2(k, last, 2, quant, out, stride);
}

TARGET static void samples2(const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64],
                            uint8_t *out, size_t stride)
{
    in_twos(any_two2, 2, coefficients, last, n, quant, out, stride);
}

const struct leat_jpeg_idct leat_jpeg_idct_avx2 = {samples8, samples4, samples2, leat_jpeg_idct_samples1};
#endif
