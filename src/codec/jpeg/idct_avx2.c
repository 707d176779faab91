/* The inverse DCTs for AVX2, two blocks at a time. */
#if defined(__x86_64__)
#define SIMD 256
#define LANES 2
#define IDCT leat_jpeg_idct_avx2
#include "codec/jpeg/idct_internal.h"
#include "kernels/simd.h"

#define times(x, lo, hi)                                                                                               \
    ((longs)_mm256_madd_epi16((vec)(x), _mm256_set1_epi32((int)(((uint32_t)(lo)&0xffff) | (uint32_t)(hi) << 16))))
#define upper(lo, hi) ((words)_mm256_blend_epi16(_mm256_srli_epi32((vec)(lo), 16), (vec)(hi), 0xaa))
#define any_of(x, bits) (!_mm256_testz_si256((vec)(x), _mm256_set1_epi16(bits)))

INLINE void turn(words x[2])
{
    const vec a = (vec)x[0], b = (vec)x[1];
    x[0] = (words)_mm256_permute2x128_si256(a, b, 0x20), x[1] = (words)_mm256_permute2x128_si256(a, b, 0x31);
}

INLINE void low_pairs(const int16_t *k, const uint16_t quant[64], words p[2])
{
    vec x[2];
    LEAT_UNROLL
    for (int i = 0; i < 2; i++) { /* rows 2 i and 2 i + 1, in each lane of both blocks */
        const vec q = load(quant + 16 * i);
        x[i] = _mm256_mullo_epi16(_mm256_unpacklo_epi64(load(k + 16 * i), load(k + 64 + 16 * i)),
                                  _mm256_unpacklo_epi64(q, q));
    }
    p[0] = (words)_mm256_unpacklo_epi16(x[0], x[1]), p[1] = (words)_mm256_unpackhi_epi16(x[0], x[1]);
    turn(p);
}

INLINE void columns_apart(words x, words y, words p[2])
{
    const vec columns = in_lanes(_mm_set_epi8(15, 14, 7, 6, 13, 12, 5, 4, 11, 10, 3, 2, 9, 8, 1, 0));
    const vec a = _mm256_shuffle_epi8((vec)x, columns), b = _mm256_shuffle_epi8((vec)y, columns);
    p[0] = (words)_mm256_unpacklo_epi64(a, b), p[1] = (words)_mm256_unpackhi_epi64(a, b);
}

INLINE void put8(const words w[4], uint8_t *out, size_t stride)
{
    const vec a = _mm256_packus_epi16((vec)w[0], (vec)w[2]), b = _mm256_packus_epi16((vec)w[1], (vec)w[3]);
    const vec left = _mm256_unpacklo_epi16(a, b), right = _mm256_unpackhi_epi16(a, b); /* columns 0 to 3, 4 to 7 */
    LEAT_UNROLL
    for (size_t r = 0; r < 4; r += 2) {
        vec rows = r ? _mm256_unpackhi_epi32(left, right) : _mm256_unpacklo_epi32(left, right);
        rows = _mm256_permute4x64_epi64(rows, 0xd8);
        _mm_storeu_si128((void *)(out + r * stride), _mm256_castsi256_si128(rows));
        _mm_storeu_si128((void *)(out + (r + 1) * stride), _mm256_extracti128_si256(rows, 1));
    }
}

INLINE void put4(words rows, uint8_t *out, size_t stride)
{
    const vec order = in_lanes(_mm_set_epi8(15, 14, 7, 6, 13, 12, 5, 4, 11, 10, 3, 2, 9, 8, 1, 0));
    const vec apart = _mm256_shuffle_epi8((vec)rows, order);
    const __m128i x = _mm256_castsi256_si128(apart), y = _mm256_extracti128_si256(apart, 1);
    const __m128i rows01 = _mm_unpacklo_epi32(x, y), rows23 = _mm_unpackhi_epi32(x, y);
    _mm_storel_epi64((void *)out, rows01);
    _mm_storeh_pi((void *)(out + stride), _mm_castsi128_ps(rows01));
    _mm_storel_epi64((void *)(out + 2 * stride), rows23);
    _mm_storeh_pi((void *)(out + 3 * stride), _mm_castsi128_ps(rows23));
}

INLINE void put2(longs left, longs right, uint8_t *out, size_t stride)
{
    const vec all = _mm256_blend_epi32((vec)left, (vec)right, 0xcc);
    __m128i both = _mm_packs_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    both = _mm_shuffle_epi8(_mm_packus_epi16(both, both), _mm_set_epi64x(0, 0x0705030106040200));
    const int32_t rows[2] = {_mm_extract_epi32(both, 0), _mm_extract_epi32(both, 1)};
    memcpy(out, &rows[0], 4);
    memcpy(out + stride, &rows[1], 4);
}

#include "codec/jpeg/idct_kernels.h"
#endif
