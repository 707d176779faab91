/*
 * Upsampling and colours with AVX-512 (BW, VBMI), 64 pixels at a time: what pixels_x86.h leaves to each width.
 */
#include "codec/jpeg/pixels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET LEAT_TARGET_AVX512
#define INLINE TARGET static inline __attribute__((always_inline))
#define PIXELS leat_jpeg_pixels_avx512
#define WIDTH 64
#define V(f) _mm512_##f
typedef __m512i vec;

INLINE vec load(const uint8_t *p)
{
    return _mm512_loadu_si512(p);
}

INLINE void keep(uint8_t *p, vec v)
{
    _mm512_storeu_si512(p, v);
}

INLINE vec transpose(vec v)
{
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), v);
}

INLINE vec restore(vec v) /* a transposition of four by four is its own inverse */
{
    return transpose(v);
}

/* Four pixels take samples a - 1 to a + 2, which stand at a to a + 3 where the row is read from its neighbour on the
 * left. */
#define FOUR(a) ((int64_t)((a)*UINT64_C(0x0101010101010101) + UINT64_C(0x0302020102010100)))

/* The pairs of 32 pixels in words: of the first half of each lane, or of the second. */
INLINE vec pairs(const uint8_t *s, bool second)
{
    const vec first = _mm512_setr_epi64(FOUR(0), FOUR(8), FOUR(2), FOUR(10), FOUR(4), FOUR(12), FOUR(6), FOUR(14));
    return _mm512_permutexvar_epi8(second ? _mm512_add_epi8(first, _mm512_set1_epi8(16)) : first, load(s - 1));
}

#include "codec/jpeg/pixels_x86.h"

#endif
