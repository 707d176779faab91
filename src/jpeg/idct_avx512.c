/*
 * The inverse DCTs for AVX-512, four blocks at a time, each in a 128-bit lane.
 *
 * A pass is computed from its definition: each output is the sum of four products of even inputs and of four of odd ones,
 * which vpdpwssd adds up two at a time out of registers of pairs, (0, 4), (1, 5), (2, 6) and (3, 7). The inputs of the first pass
 * are multiplied by 16 and all weights by 2, so that the 16 bits that a sum is rounded to are the upper half of its 32; the
 * upper halves of columns c and c + 4 make one register again, whose transpose holds the pairs of the second pass.
 *
 *     4 blocks, rows 0-3 and 4-7       pairs of rows, lane = block       sums, rounded, two to a register       out
 *     +----+----+----+----+  x quant   +--------------------------+  pass  +---------------------------+  again  8 rows of
 *     | r0 | r1 | r2 | r3 |  unpack,   | (r0,r4) c0 c1 c2 c3 | .. |   ->   | row r: (c0,c4) ... (c3,c7) |   ->   32 samples
 *     +----+----+----+----+  lanes     +--------------------------+        +---------------------------+
 *
 * libjpeg-turbo's vector code wraps and saturates at 16 bits in some places of a pass; this has other places. So it does
 * only groups in which nothing reaches 16 bits: coefficients within MOST1 after dequantisation (photos' are within 1024) and
 * within MOST2 between the passes. Plain C does the others.
 */
#include "jpeg/idct_internal.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni,avx2,fma,bmi,bmi2")))
#define INLINE static inline __attribute__((always_inline)) TARGET

INLINE __m512i pair(int lo, int hi)
{
    return _mm512_set1_epi32((int)((uint32_t)(2 * lo) & 0xffff) | (int)((uint32_t)(2 * hi) << 16));
}

/* Sums e + o and e - o of eight outputs. */
INLINE void butterfly(const __m512i e[4], const __m512i o[4], __m512i out[8])
{
    UNROLL
    for (int i = 0; i < 4; i++) {
        out[i] = _mm512_add_epi32(e[i], o[i]);
        out[7 - i] = _mm512_sub_epi32(e[i], o[i]);
    }
}

/* One dimension of 16 columns whose rows come as p[i] = (i, i + 4). */
INLINE void pass(const __m512i p[4], int round, __m512i out[8])
{
    __m512i r = _mm512_set1_epi32(round), e[4], o[4];
    __m512i sum = _mm512_dpwssd_epi32(r, p[0], pair(EVEN_0, EVEN_0)), difference = _mm512_dpwssd_epi32(r, p[0], pair(EVEN_0, -EVEN_0));
    e[0] = _mm512_dpwssd_epi32(sum, p[2], pair(EVEN_2, EVEN_6));
    e[3] = _mm512_dpwssd_epi32(sum, p[2], pair(-EVEN_2, -EVEN_6));
    e[1] = _mm512_dpwssd_epi32(difference, p[2], pair(EVEN_6, EVEN_6 - FIX_1_847));
    e[2] = _mm512_dpwssd_epi32(difference, p[2], pair(-EVEN_6, FIX_1_847 - EVEN_6));
    o[0] = _mm512_dpwssd_epi32(_mm512_madd_epi16(p[1], pair(ODD_0_1, ODD_0_5)), p[3], pair(ODD_0_3, ODD_0_7));
    o[1] = _mm512_dpwssd_epi32(_mm512_madd_epi16(p[1], pair(ODD_1_1, ODD_1_5)), p[3], pair(ODD_1_3, ODD_1_7));
    o[2] = _mm512_dpwssd_epi32(_mm512_madd_epi16(p[1], pair(ODD_2_1, ODD_2_5)), p[3], pair(ODD_2_3, ODD_2_7));
    o[3] = _mm512_dpwssd_epi32(_mm512_madd_epi16(p[1], pair(ODD_3_1, ODD_3_5)), p[3], pair(ODD_3_3, ODD_3_7));
    butterfly(e, o, out);
}

/* The same where rows 4 to 7 are zero: p02 = (0, 2), p13 = (1, 3). */
INLINE void pass_low(__m512i p02, __m512i p13, int round, __m512i out[8])
{
    __m512i r = _mm512_set1_epi32(round), e[4], o[4];
    e[0] = _mm512_dpwssd_epi32(r, p02, pair(EVEN_0, EVEN_2));
    e[1] = _mm512_dpwssd_epi32(r, p02, pair(EVEN_0, EVEN_6));
    e[2] = _mm512_dpwssd_epi32(r, p02, pair(EVEN_0, -EVEN_6));
    e[3] = _mm512_dpwssd_epi32(r, p02, pair(EVEN_0, -EVEN_2));
    o[0] = _mm512_madd_epi16(p13, pair(ODD_0_1, ODD_0_3));
    o[1] = _mm512_madd_epi16(p13, pair(ODD_1_1, ODD_1_3));
    o[2] = _mm512_madd_epi16(p13, pair(ODD_2_1, ODD_2_3));
    o[3] = _mm512_madd_epi16(p13, pair(ODD_3_1, ODD_3_3));
    butterfly(e, o, out);
}

/* The upper halves: of lo in the lower half. */
INLINE __m512i upper(__m512i lo, __m512i hi)
{
    return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(lo, 16), hi);
}

INLINE __m512i or3(__m512i a, __m512i b, __m512i c)
{
    return _mm512_ternarylogic_epi32(a, b, c, 0xfe);
}

/* Whether one of x[0] to x[n - 1] is outside [-most, most). */
INLINE bool beyond(const __m512i *x, int n, int most)
{
    __m512i bias = _mm512_set1_epi16((short)most), any = _mm512_setzero_si512();
    UNROLL
    for (int i = 0; i < n; i += 2)
        any = or3(any, _mm512_add_epi16(x[i], bias), _mm512_add_epi16(x[i + 1], bias));
    return _mm512_test_epi16_mask(any, _mm512_set1_epi16((short)~(2 * most - 1)));
}

/* Four rows of four blocks out of o[c], which has a row in each 32 bits and a block in each lane. */
INLINE void store(const __m512i o[8], uint8_t *out, size_t stride)
{
    __m512i w[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        w[i] = _mm512_srai_epi16(upper(o[2 * i], o[2 * i + 1]), LEFT);
    __m512i left = _mm512_packus_epi16(w[0], w[1]), right = _mm512_packus_epi16(w[2], w[3]); /* of a lane: 0 1 of 4 rows, 2 3 of 4 rows */
    __m512i first = _mm512_set_epi16(61, 57, 29, 25, 53, 49, 21, 17, 45, 41, 13, 9, 37, 33, 5, 1, 60, 56, 28, 24, 52, 48, 20, 16, 44, 40,
                                     12, 8, 36, 32, 4, 0);
    __m512i rows01 = _mm512_permutex2var_epi16(left, first, right);
    __m512i rows23 = _mm512_permutex2var_epi16(left, _mm512_add_epi16(first, _mm512_set1_epi16(2)), right);
    _mm256_storeu_si256((void *)out, _mm512_castsi512_si256(rows01));
    _mm256_storeu_si256((void *)(out + stride), _mm512_extracti64x4_epi64(rows01, 1));
    _mm256_storeu_si256((void *)(out + 2 * stride), _mm512_castsi512_si256(rows23));
    _mm256_storeu_si256((void *)(out + 3 * stride), _mm512_extracti64x4_epi64(rows23, 1));
}

/* x[i], lane j becomes p[j], lane i. */
INLINE void transpose_lanes(const __m512i x[4], __m512i p[4])
{
    __m512i a = _mm512_shuffle_i32x4(x[0], x[1], 0x44), b = _mm512_shuffle_i32x4(x[2], x[3], 0x44);
    __m512i c = _mm512_shuffle_i32x4(x[0], x[1], 0xee), d = _mm512_shuffle_i32x4(x[2], x[3], 0xee);
    p[0] = _mm512_shuffle_i32x4(a, b, 0x88), p[1] = _mm512_shuffle_i32x4(a, b, 0xdd);
    p[2] = _mm512_shuffle_i32x4(c, d, 0x88), p[3] = _mm512_shuffle_i32x4(c, d, 0xdd);
}

/* Of every lane: x[i], 32-bit element j becomes p[j], element i. */
INLINE void transpose(const __m512i x[4], __m512i p[4])
{
    __m512i a = _mm512_unpacklo_epi32(x[0], x[1]), b = _mm512_unpacklo_epi32(x[2], x[3]);
    __m512i c = _mm512_unpackhi_epi32(x[0], x[1]), d = _mm512_unpackhi_epi32(x[2], x[3]);
    p[0] = _mm512_unpacklo_epi64(a, b), p[1] = _mm512_unpackhi_epi64(a, b);
    p[2] = _mm512_unpacklo_epi64(c, d), p[3] = _mm512_unpackhi_epi64(c, d);
}

/* Four blocks; false, and nothing is written, where values are too large. */
INLINE bool four(const int16_t *k, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    __m512i x[8], lo[4], hi[4], p[4], a[8], b[8];
    __m512i q0 = _mm512_loadu_si512(quant), q1 = _mm512_loadu_si512(quant + 32);
    UNROLL
    for (int i = 0; i < 4; i++) {
        x[i] = _mm512_mullo_epi16(_mm512_loadu_si512(k + 64 * i), q0);
        x[4 + i] = _mm512_mullo_epi16(_mm512_loadu_si512(k + 64 * i + 32), q1);
    }
    if (__builtin_expect(beyond(x, 8, MOST1), 0))
        return false;
    UNROLL
    for (int i = 0; i < 8; i++)
        x[i] = _mm512_slli_epi16(x[i], 4);
    UNROLL
    for (int i = 0; i < 4; i++) {
        lo[i] = _mm512_unpacklo_epi16(x[i], x[4 + i]);
        hi[i] = _mm512_unpackhi_epi16(x[i], x[4 + i]);
    }
    transpose_lanes(lo, p);
    pass(p, ROUND1, a);
    transpose_lanes(hi, p);
    pass(p, ROUND1, b);
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

/* Four blocks that hold nothing outside rows and columns 0 to 3. */
INLINE bool four_low(const int16_t *k, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    __m512i x[2], a[8], b[8], q = _mm512_loadu_si512(quant);
    q = _mm512_unpacklo_epi64(q, q);
    UNROLL
    for (int i = 0; i < 2; i++) /* in lane r: row r of two blocks */
        x[i] = _mm512_mullo_epi16(_mm512_unpacklo_epi64(_mm512_loadu_si512(k + 128 * i), _mm512_loadu_si512(k + 128 * i + 64)), q);
    if (__builtin_expect(beyond(x, 2, MOST1), 0))
        return false;
    x[0] = _mm512_slli_epi16(x[0], 4), x[1] = _mm512_slli_epi16(x[1], 4);
    __m512i rows02 = _mm512_set_epi16(55, 39, 54, 38, 53, 37, 52, 36, 51, 35, 50, 34, 49, 33, 48, 32, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18,
                                      2, 17, 1, 16, 0);
    __m512i p02 = _mm512_permutex2var_epi16(x[0], rows02, x[1]);
    __m512i p13 = _mm512_permutex2var_epi16(x[0], _mm512_add_epi16(rows02, _mm512_set1_epi16(8)), x[1]);
    pass_low(p02, p13, ROUND1, a);
    UNROLL
    for (int i = 0; i < 4; i++)
        a[i] = upper(a[2 * i], a[2 * i + 1]); /* (row 2 i, row 2 i + 1) of columns 0 to 3 */
    if (__builtin_expect(beyond(a, 4, MOST2), 0))
        return false;
    __m512i columns02 = _mm512_set_epi16(61, 57, 60, 56, 29, 25, 28, 24, 53, 49, 52, 48, 21, 17, 20, 16, 45, 41, 44, 40, 13, 9, 12, 8, 37,
                                         33, 36, 32, 5, 1, 4, 0);
    UNROLL
    for (size_t i = 0; i < 2; i++) {
        p02 = _mm512_permutex2var_epi16(a[2 * i], columns02, a[2 * i + 1]);
        p13 = _mm512_permutex2var_epi16(a[2 * i], _mm512_add_epi16(columns02, _mm512_set1_epi16(2)), a[2 * i + 1]);
        pass_low(p02, p13, ROUND2, b);
        store(b, out + 4 * i * stride, stride);
    }
    return true;
}

/* Four blocks that hold only DC. The shift wraps, as that of the vector code that is the measure does. */
INLINE void four_dc(const int16_t *k, uint32_t quant, uint8_t *out, size_t stride)
{
    __m128i dc = _mm_set_epi16(0, 0, 0, 0, k[192], k[128], k[64], k[0]);
    dc = _mm_slli_epi16(_mm_mullo_epi16(dc, _mm_set1_epi16((short)quant)), PASS1_BITS);
    dc = _mm_srai_epi32(_mm_add_epi32(_mm_cvtepi16_epi32(dc), _mm_set1_epi32((128 << 5) + 16)), 5);
    dc = _mm_packus_epi16(_mm_packs_epi32(dc, dc), dc);
    __m256i row = _mm256_broadcastsi128_si256(dc);
    row = _mm256_shuffle_epi8(row, _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0));
    UNROLL
    for (size_t r = 0; r < 8; r++)
        _mm256_storeu_si256((void *)(out + r * stride), row);
}

INLINE void any_four(const int16_t *k, uint32_t last, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    if (last) {
        bool low = !((last + 0x01010101 * (127 - LAST_LOW)) & 0x80808080);
        if (__builtin_expect(!(low ? four_low(k, quant, out, stride) : four(k, quant, out, stride)), 0))
            leat_jpeg_idct_plain.samples8(k, (const uint8_t[4]){63, 63, 63, 63}, 4, quant, out, stride);
    } else
        four_dc(k, quant[0], out, stride);
}

TARGET static void samples8(const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64], uint8_t *out,
                            size_t stride)
{
    _Alignas(64) int16_t few[4 * 64];
    uint32_t ends = 0;
    if (n < 4) { /* behind the row there is room for samples, but there are no coefficients */
        memset(few, 0, sizeof few);
        memcpy(few, coefficients, n * 128);
        memcpy(&ends, last, n);
        any_four(few, ends, quant, out, stride);
        return;
    }
    for (size_t i = 0;; i += 4) {
        if (i > n - 4)
            i = n - 4; /* some blocks once more */
        memcpy(&ends, last + i, 4);
        any_four(coefficients + 64 * i, ends, quant, out + 8 * i, stride);
        if (i == n - 4)
            return;
    }
}

TARGET static void samples4(const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64], uint8_t *out,
                            size_t stride)
{
    leat_jpeg_idct_plain.samples4(coefficients, last, n, quant, out, stride);
}

TARGET static void samples2(const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64], uint8_t *out,
                            size_t stride)
{
    leat_jpeg_idct_plain.samples2(coefficients, last, n, quant, out, stride);
}

TARGET static void samples1(const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64], uint8_t *out,
                            size_t stride)
{
    leat_jpeg_idct_plain.samples1(coefficients, last, n, quant, out, stride);
}

const struct leat_jpeg_idct leat_jpeg_idct_avx512 = {samples8, samples4, samples2, samples1};
#endif
