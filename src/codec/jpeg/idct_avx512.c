/* The inverse DCTs for AVX-512, four blocks at a time. */
#if defined(__x86_64__)
#define SIMD 512
#define LANES 4
#define IDCT leat_jpeg_idct_avx512
#include "codec/jpeg/idct_internal.h"
#include "kernels/simd.h"

/* The weights of a pair everywhere. Loaded from memory: compilers would make them from an immediate, time and again in
 * the loop, which costs as much as a shuffle. */
#define pair(lo, hi)                                                                                                   \
    ({                                                                                                                 \
        static const int16_t pair_[2] = {lo, hi};                                                                      \
        vec weights_;                                                                                                  \
        __asm__("vpbroadcastd %1, %0" : "=v"(weights_) : "m"(pair_));                                                  \
        weights_;                                                                                                      \
    })
#define times(x, lo, hi) ((longs)_mm512_madd_epi16((vec)(x), pair(lo, hi)))
#define times_to(sum, x, lo, hi) ((longs)_mm512_dpwssd_epi32((vec)(sum), (vec)(x), pair(lo, hi)))
#define plus_minus(sum, x, lo, hi, plus, minus)                                                                        \
    (plus = times_to(sum, x, lo, hi), minus = times_to(sum, x, -(lo), -(hi)))
#define upper(lo, hi) ((words)_mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32((vec)(lo), 16), (vec)(hi)))
#define any_of(x, bits) _mm512_test_epi16_mask((vec)(x), _mm512_set1_epi16(bits))

INLINE void turn(words x[4])
{
    const vec a = _mm512_shuffle_i32x4((vec)x[0], (vec)x[1], 0x44),
              b = _mm512_shuffle_i32x4((vec)x[2], (vec)x[3], 0x44),
              c = _mm512_shuffle_i32x4((vec)x[0], (vec)x[1], 0xee),
              d = _mm512_shuffle_i32x4((vec)x[2], (vec)x[3], 0xee);
    x[0] = (words)_mm512_shuffle_i32x4(a, b, 0x88), x[1] = (words)_mm512_shuffle_i32x4(a, b, 0xdd);
    x[2] = (words)_mm512_shuffle_i32x4(c, d, 0x88), x[3] = (words)_mm512_shuffle_i32x4(c, d, 0xdd);
}

/* Two registers: `first` takes elements, the other those that stand `further` on. */
INLINE void two_ways(vec x, vec y, vec first, short further, words p[2])
{
    p[0] = (words)_mm512_permutex2var_epi16(x, first, y);
    p[1] = (words)_mm512_permutex2var_epi16(x, _mm512_add_epi16(first, _mm512_set1_epi16(further)), y);
}

INLINE void low_pairs(const int16_t *k, const uint16_t quant[64], words p[2])
{
    vec x[2], q = load(quant);
    q = _mm512_unpacklo_epi64(q, q);
    LEAT_UNROLL
    for (int i = 0; i < 2; i++) /* in lane r: row r of two blocks */
        x[i] = _mm512_mullo_epi16(_mm512_unpacklo_epi64(load(k + 128 * i), load(k + 128 * i + 64)), q);
    two_ways(x[0], x[1],
             _mm512_set_epi16(55, 39, 54, 38, 53, 37, 52, 36, 51, 35, 50, 34, 49, 33, 48, 32, 23, 7, 22, 6, 21, 5, 20,
                              4, 19, 3, 18, 2, 17, 1, 16, 0),
             8, p);
}

INLINE void columns_apart(words x, words y, words p[2])
{
    two_ways((vec)x, (vec)y,
             _mm512_set_epi16(61, 57, 60, 56, 29, 25, 28, 24, 53, 49, 52, 48, 21, 17, 20, 16, 45, 41, 44, 40, 13, 9, 12,
                              8, 37, 33, 36, 32, 5, 1, 4, 0),
             2, p);
}

INLINE void put8(const words w[4], uint8_t *out, size_t stride)
{
    words rows[2];
    two_ways(_mm512_packus_epi16((vec)w[0], (vec)w[1]), _mm512_packus_epi16((vec)w[2], (vec)w[3]),
             _mm512_set_epi16(61, 57, 29, 25, 53, 49, 21, 17, 45, 41, 13, 9, 37, 33, 5, 1, 60, 56, 28, 24, 52, 48, 20,
                              16, 44, 40, 12, 8, 36, 32, 4, 0),
             2, rows);
    const vec rows01 = (vec)rows[0], rows23 = (vec)rows[1];
    _mm256_storeu_si256((void *)out, _mm512_castsi512_si256(rows01));
    _mm256_storeu_si256((void *)(out + stride), _mm512_extracti64x4_epi64(rows01, 1));
    _mm256_storeu_si256((void *)(out + 2 * stride), _mm512_castsi512_si256(rows23));
    _mm256_storeu_si256((void *)(out + 3 * stride), _mm512_extracti64x4_epi64(rows23, 1));
}

INLINE void put4(words rows, uint8_t *out, size_t stride)
{
    const vec of = _mm512_set_epi16(31, 27, 23, 19, 15, 11, 7, 3, 30, 26, 22, 18, 14, 10, 6, 2, 29, 25, 21, 17, 13, 9,
                                    5, 1, 28, 24, 20, 16, 12, 8, 4, 0);
    const vec all = _mm512_permutexvar_epi16(of, (vec)rows);
    _mm_storeu_si128((void *)out, _mm512_castsi512_si128(all));
    _mm_storeu_si128((void *)(out + stride), _mm512_extracti32x4_epi32(all, 1));
    _mm_storeu_si128((void *)(out + 2 * stride), _mm512_extracti32x4_epi32(all, 2));
    _mm_storeu_si128((void *)(out + 3 * stride), _mm512_extracti32x4_epi32(all, 3));
}

INLINE void put2(longs left, longs right, uint8_t *out, size_t stride)
{
    vec all = _mm512_mask_blend_epi32(0xcccc, (vec)left, (vec)right);
    all = _mm512_max_epi32(all, _mm512_setzero_si512());
    const __m128i rows = _mm_shuffle_epi8(_mm512_cvtusepi32_epi8(all),
                                          _mm_set_epi8(15, 13, 11, 9, 7, 5, 3, 1, 14, 12, 10, 8, 6, 4, 2, 0));
    _mm_storel_epi64((void *)out, rows);
    _mm_storeh_pi((void *)(out + stride), _mm_castsi128_ps(rows));
}

#include "codec/jpeg/idct_kernels.h"
#endif
