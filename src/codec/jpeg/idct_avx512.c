/*
 * The inverse DCTs for AVX-512, four blocks at a time, each in a 128-bit lane.
 *
 * A pass is computed from its definition: each output is the sum of four products of even inputs and of four of odd
 * ones, which vpdpwssd adds up two at a time out of registers of pairs, (0, 4), (1, 5), (2, 6) and (3, 7). The inputs
 * of the first pass are multiplied by 16 and all weights by 2, so that the 16 bits that a sum is rounded to are the
 * upper half of its 32; the upper halves of columns c and c + 4 make one register again, whose transpose holds the
 * pairs of the second pass.
 *
 *     4 blocks, rows 0-3 and 4-7       pairs of rows, lane = block       sums, rounded, two to a register       out
 *     +----+----+----+----+  x quant   +--------------------------+  pass  +---------------------------+  again  8 rows
 * of | r0 | r1 | r2 | r3 |  unpack,   | (r0,r4) c0 c1 c2 c3 | .. |   ->   | row r: (c0,c4) ... (c3,c7) |   ->   32
 * samples
 *     +----+----+----+----+  lanes     +--------------------------+        +---------------------------+
 *
 * libjpeg-turbo's vector code wraps and saturates at 16 bits in some places of a pass; this has other places. So it
 * does only groups in which nothing reaches 16 bits: coefficients within MOST1 after dequantisation (photos' are within
 * 1024) and within MOST2 between the passes. Plain C does the others.
 */
#include "codec/jpeg/idct_internal.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#define TARGET LEAT_TARGET_AVX512
#define INLINE static inline __attribute__((always_inline)) TARGET

/* The weights of a pair everywhere. From memory: compilers would make them from an immediate, time and again in the
 * loop, which costs as much as a shuffle. */
#define pair(lo, hi)                                                                                                   \
    ({                                                                                                                 \
        static const int16_t pair_[2] = {lo, hi};                                                                      \
        __m512i weights_;                                                                                              \
        __asm__("vpbroadcastd %1, %0" : "=v"(weights_) : "m"(pair_));                                                  \
        weights_;                                                                                                      \
    })

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
    __m512i sum = _mm512_dpwssd_epi32(r, p[0], pair(EVEN_0, EVEN_0)),
            difference = _mm512_dpwssd_epi32(r, p[0], pair(EVEN_0, -EVEN_0));
    e[0] = _mm512_dpwssd_epi32(sum, p[2], pair(EVEN_0_2, EVEN_0_6));
    e[3] = _mm512_dpwssd_epi32(sum, p[2], pair(-EVEN_0_2, -EVEN_0_6));
    e[1] = _mm512_dpwssd_epi32(difference, p[2], pair(EVEN_1_2, EVEN_1_6));
    e[2] = _mm512_dpwssd_epi32(difference, p[2], pair(-EVEN_1_2, -EVEN_1_6));
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
    e[0] = _mm512_dpwssd_epi32(r, p02, pair(EVEN_0, EVEN_0_2));
    e[1] = _mm512_dpwssd_epi32(r, p02, pair(EVEN_0, EVEN_1_2));
    e[2] = _mm512_dpwssd_epi32(r, p02, pair(EVEN_0, -EVEN_1_2));
    e[3] = _mm512_dpwssd_epi32(r, p02, pair(EVEN_0, -EVEN_0_2));
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
    __m512i left = _mm512_packus_epi16(w[0], w[1]),
            right = _mm512_packus_epi16(w[2], w[3]); /* of a lane: 0 1 of 4 rows, 2 3 of 4 rows */
    __m512i first = _mm512_set_epi16(61, 57, 29, 25, 53, 49, 21, 17, 45, 41, 13, 9, 37, 33, 5, 1, 60, 56, 28, 24, 52,
                                     48, 20, 16, 44, 40, 12, 8, 36, 32, 4, 0);
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

/* Four blocks as pairs of rows of dequantised coefficients times 16: p[i] = (i, i + 4) of columns 0 to 3, p[4 + i] of
 * the others, a block in each lane. False where values are too large. */
INLINE bool dequantise(const int16_t *k, const uint16_t quant[64], __m512i p[8])
{
    __m512i x[8], lo[4], hi[4];
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
    transpose_lanes(hi, p + 4);
    return true;
}

/* Four blocks; false, and nothing is written, where values are too large. */
INLINE bool four(const int16_t *k, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    __m512i p[8], a[8], b[8];
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

/* Four blocks that hold nothing outside rows and columns 0 to 3. */
INLINE bool four_low(const int16_t *k, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    __m512i x[2], a[8], b[8], q = _mm512_loadu_si512(quant);
    q = _mm512_unpacklo_epi64(q, q);
    UNROLL
    for (int i = 0; i < 2; i++) /* in lane r: row r of two blocks */
        x[i] = _mm512_mullo_epi16(
            _mm512_unpacklo_epi64(_mm512_loadu_si512(k + 128 * i), _mm512_loadu_si512(k + 128 * i + 64)), q);
    if (__builtin_expect(beyond(x, 2, MOST1), 0))
        return false;
    x[0] = _mm512_slli_epi16(x[0], 4), x[1] = _mm512_slli_epi16(x[1], 4);
    __m512i rows02 = _mm512_set_epi16(55, 39, 54, 38, 53, 37, 52, 36, 51, 35, 50, 34, 49, 33, 48, 32, 23, 7, 22, 6, 21,
                                      5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    __m512i p02 = _mm512_permutex2var_epi16(x[0], rows02, x[1]);
    __m512i p13 = _mm512_permutex2var_epi16(x[0], _mm512_add_epi16(rows02, _mm512_set1_epi16(8)), x[1]);
    pass_low(p02, p13, ROUND1, a);
    UNROLL
    for (int i = 0; i < 4; i++)
        a[i] = upper(a[2 * i], a[2 * i + 1]); /* (row 2 i, row 2 i + 1) of columns 0 to 3 */
    if (__builtin_expect(beyond(a, 4, MOST2), 0))
        return false;
    __m512i columns02 = _mm512_set_epi16(61, 57, 60, 56, 29, 25, 28, 24, 53, 49, 52, 48, 21, 17, 20, 16, 45, 41, 44, 40,
                                         13, 9, 12, 8, 37, 33, 36, 32, 5, 1, 4, 0);
    UNROLL
    for (size_t i = 0; i < 2; i++) {
        p02 = _mm512_permutex2var_epi16(a[2 * i], columns02, a[2 * i + 1]);
        p13 = _mm512_permutex2var_epi16(a[2 * i], _mm512_add_epi16(columns02, _mm512_set1_epi16(2)), a[2 * i + 1]);
        pass_low(p02, p13, ROUND2, b);
        store(b, out + 4 * i * stride, stride);
    }
    return true;
}

/* A sample of each of four blocks that hold only DC. The shift wraps, as that of the vector code that is the measure
 * does. */
INLINE __m128i dc_samples(const int16_t *k, uint32_t quant)
{
    __m128i dc = _mm_set_epi16(0, 0, 0, 0, k[192], k[128], k[64], k[0]);
    dc = _mm_slli_epi16(_mm_mullo_epi16(dc, _mm_set1_epi16((short)quant)), PASS1_BITS);
    dc = _mm_srai_epi32(_mm_add_epi32(_mm_cvtepi16_epi32(dc), _mm_set1_epi32((128 << 5) + 16)), 5);
    return _mm_packus_epi16(_mm_packs_epi32(dc, dc), dc);
}

INLINE void any_four8(const int16_t *k, uint32_t last, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    if (!last) {
        __m256i row = _mm256_broadcastsi128_si256(dc_samples(k, quant[0]));
        row =
            _mm256_shuffle_epi8(row, _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0));
        UNROLL
        for (size_t r = 0; r < 8; r++)
            _mm256_storeu_si256((void *)(out + r * stride), row);
        return;
    }
    bool low = !((last + 0x01010101 * (127 - LAST_LOW)) & 0x80808080);
    if (__builtin_expect(!(low ? four_low(k, quant, out, stride) : four(k, quant, out, stride)), 0))
        leat_jpeg_idct_plain.samples8(k, (const uint8_t[4]){63, 63, 63, 63}, 4, quant, out, stride);
}

/* n blocks, four by four, `size` samples across each. `last` of four blocks is handed on in one number. */
INLINE void in_fours(void (*each)(const int16_t *k, uint32_t last, const uint16_t quant[64], uint8_t *out,
                                  size_t stride),
                     size_t size, const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64],
                     uint8_t *out, size_t stride)
{
    uint32_t ends = 0;
    if (n < 4) { /* behind the row there is room for samples, but there are no coefficients */
        _Alignas(64) int16_t few[4 * 64] = {0};
        memcpy(few, coefficients, n * 128);
        memcpy(&ends, last, n);
        each(few, ends, quant, out, stride);
        return;
    }
    for (size_t i = 0;; i += 4) {
        if (i > n - 4)
            i = n - 4; /* some blocks once more */
        memcpy(&ends, last + i, 4);
        each(coefficients + 64 * i, ends, quant, out + size * i, stride);
        if (i == n - 4)
            return;
    }
}

TARGET static void samples8(const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64],
                            uint8_t *out, size_t stride)
{
    in_fours(any_four8, 8, coefficients, last, n, quant, out, stride);
}

/* ---- 4 samples of 8 ---- */

INLINE void pass4(const __m512i p[4], int round, __m512i out[4])
{
    __m512i sum = _mm512_dpwssd_epi32(_mm512_set1_epi32(round), p[0], pair(EVEN_0, 0));
    __m512i e0 = _mm512_dpwssd_epi32(sum, p[2], pair(EVEN4_2, EVEN4_6)),
            e1 = _mm512_dpwssd_epi32(sum, p[2], pair(-EVEN4_2, -EVEN4_6));
    __m512i o0 = _mm512_dpwssd_epi32(_mm512_madd_epi16(p[1], pair(ODD4_0_1, ODD4_0_5)), p[3], pair(ODD4_0_3, ODD4_0_7));
    __m512i o1 = _mm512_dpwssd_epi32(_mm512_madd_epi16(p[1], pair(ODD4_1_1, ODD4_1_5)), p[3], pair(ODD4_1_3, ODD4_1_7));
    out[0] = _mm512_add_epi32(e0, o0), out[3] = _mm512_sub_epi32(e0, o0);
    out[1] = _mm512_add_epi32(e1, o1), out[2] = _mm512_sub_epi32(e1, o1);
}

INLINE bool four4(const int16_t *k, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    __m512i p[8], a[4], b[4];
    if (!dequantise(k, quant, p))
        return false;
    pass4(p, ROUND1, a);
    pass4(p + 4, ROUND1, b);
    UNROLL
    for (int r = 0; r < 4; r++)
        a[r] = upper(a[r], b[r]);
    transpose(a, p);
    pass4(p, ROUND2, a);
    __m512i left = _mm512_srai_epi16(upper(a[0], a[1]), LEFT), right = _mm512_srai_epi16(upper(a[2], a[3]), LEFT);
    __m512i of =
        _mm512_set_epi16(31, 27, 23, 19, 15, 11, 7, 3, 30, 26, 22, 18, 14, 10, 6, 2, 29, 25, 21, 17, 13, 9, 5, 1, 28,
                         24, 20, 16, 12, 8, 4, 0); /* a lane holds columns 0 1 of 4 rows, 2 3 of 4 rows */
    __m512i rows = _mm512_permutexvar_epi16(of, _mm512_packus_epi16(left, right));
    _mm_storeu_si128((void *)out, _mm512_castsi512_si128(rows));
    _mm_storeu_si128((void *)(out + stride), _mm512_extracti32x4_epi32(rows, 1));
    _mm_storeu_si128((void *)(out + 2 * stride), _mm512_extracti32x4_epi32(rows, 2));
    _mm_storeu_si128((void *)(out + 3 * stride), _mm512_extracti32x4_epi32(rows, 3));
    return true;
}

INLINE void any_four4(const int16_t *k, uint32_t last, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    if (!last) {
        __m128i row = _mm_shuffle_epi8(dc_samples(k, quant[0]), _mm_set_epi32(0x03030303, 0x02020202, 0x01010101, 0));
        UNROLL
        for (size_t r = 0; r < 4; r++)
            _mm_storeu_si128((void *)(out + r * stride), row);
    } else if (__builtin_expect(!four4(k, quant, out, stride), 0))
        leat_jpeg_idct_plain.samples4(k, (const uint8_t[4]){63, 63, 63, 63}, 4, quant, out, stride);
}

TARGET static void samples4(const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64],
                            uint8_t *out, size_t stride)
{
    in_fours(any_four4, 4, coefficients, last, n, quant, out, stride);
}

/* ---- 2 samples of 8 ---- */

INLINE __m512i odd2(__m512i p1, __m512i p3)
{
    return _mm512_dpwssd_epi32(_mm512_madd_epi16(p1, pair(ODD2_1, ODD2_5)), p3, pair(ODD2_3, ODD2_7));
}

INLINE __m512i even2(__m512i p0, int round)
{
    return _mm512_dpwssd_epi32(_mm512_dpwssd_epi32(_mm512_set1_epi32(round), p0, pair(EVEN_0, 0)), p0, pair(EVEN_0, 0));
}

INLINE bool four2(const int16_t *k, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    __m512i p[8];
    if (!dequantise(k, quant, p))
        return false;
    __m512i e = even2(p[0], ROUND1_2), f = even2(p[4], ROUND1_2), o = odd2(p[1], p[3]), q = odd2(p[5], p[7]);
    __m512i row0 = _mm512_srai_epi16(upper(_mm512_add_epi32(e, o), _mm512_add_epi32(f, q)), 1);
    __m512i row1 = _mm512_srai_epi16(upper(_mm512_sub_epi32(e, o), _mm512_sub_epi32(f, q)), 1);
    __m512i p01 = _mm512_unpacklo_epi32(row0, row1),
            p23 = _mm512_unpackhi_epi32(row0, row1); /* two rows of (0, 4), of (1, 5); (3, 7) */
    /* The upper halves of lanes hold what the odd part needs. */
    __m512i even = even2(_mm512_unpacklo_epi64(p01, p01), ROUND2_2),
            odd = odd2(_mm512_unpackhi_epi64(p01, p01), _mm512_unpackhi_epi64(p23, p23));
    __m512i all = _mm512_mask_sub_epi32(_mm512_add_epi32(even, odd), 0xcccc, even,
                                        odd); /* of a lane: column 0 of two rows, column 1 */
    all = _mm512_max_epi32(_mm512_srai_epi32(all, DOWN2_2), _mm512_setzero_si512());
    __m128i rows = _mm_shuffle_epi8(_mm512_cvtusepi32_epi8(all),
                                    _mm_set_epi8(15, 13, 11, 9, 7, 5, 3, 1, 14, 12, 10, 8, 6, 4, 2, 0));
    _mm_storel_epi64((void *)out, rows);
    _mm_storeh_pi((void *)(out + stride), _mm_castsi128_ps(rows));
    return true;
}

INLINE void any_four2(const int16_t *k, uint32_t last, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    (void)last;
    if (__builtin_expect(!four2(k, quant, out, stride), 0))
        leat_jpeg_idct_plain.samples2(k, (const uint8_t[4]){63, 63, 63, 63}, 4, quant, out, stride);
}

TARGET static void samples2(const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64],
                            uint8_t *out, size_t stride)
{
    in_fours(any_four2, 2, coefficients, last, n, quant, out, stride);
}

const struct leat_jpeg_idct leat_jpeg_idct_avx512 = {samples8, samples4, samples2, leat_jpeg_idct_samples1};
#endif
