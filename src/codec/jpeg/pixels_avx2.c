/*
 * Upsampling and colours with AVX2, 32 pixels at a time: what pixels_x86.h leaves to each width.
 */
#include "codec/jpeg/pixels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET LEAT_TARGET_AVX2
#define INLINE TARGET static inline __attribute__((always_inline))
#define PIXELS leat_jpeg_pixels_avx2
#define WIDTH 32
#define V(f) _mm256_##f
typedef __m256i vec;

INLINE vec load(const uint8_t *p)
{
    return _mm256_loadu_si256((const vec *)(const void *)p);
}

INLINE void keep(uint8_t *p, vec v)
{
    _mm256_storeu_si256((vec *)(void *)p, v);
}

INLINE vec transpose(vec v)
{
    return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}

INLINE vec restore(vec v)
{
    return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* Four pixels take four samples from a on; those of a half of each lane stand in ten bytes. */
#define FOUR(a) ((int64_t)((a)*UINT64_C(0x0101010101010101) + UINT64_C(0x0302020102010100)))

/* The pairs of 16 pixels in words: of the first half of each lane, or of the second. */
INLINE vec pairs(const uint8_t *s, bool second)
{
    const __m128i samples = _mm_loadu_si128((const __m128i *)(const void *)(s + (second ? 7 : -1)));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(samples),
                               _mm256_setr_epi64x(FOUR(0), FOUR(4), FOUR(2), FOUR(6)));
}

#include "codec/jpeg/pixels_x86.h"

#endif
