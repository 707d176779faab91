/*
 * Arrays of numbers to arrays of wider ones: included by kernels_avx2.c and kernels_avx512.c, which define SIMD
 * (kernels/simd.h). Blocks of four registers, whose values come from an eighth, a quarter or a half of as many bytes;
 * the last ones one by one.
 */
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/simd.h"

#if SIMD == 512
#define EIGHTH(p) _mm_loadl_epi64(p)
#define QUARTER(p) _mm_loadu_si128(p)
#define HALF_OF(p) _mm256_loadu_si256(p)
#else
#define EIGHTH(p) _mm_castps_si128(_mm_load_ss(p))
#define QUARTER(p) _mm_loadl_epi64(p)
#define HALF_OF(p) _mm_loadu_si128(p)
#endif

#define WIDEN(NAME, FROM, TO, LOAD, EXTEND)                                                                            \
    static TARGET void NAME(const void *src, void *dst, size_t n)                                                      \
    {                                                                                                                  \
        enum { BLOCK = WIDTH / sizeof(TO) };                                                                           \
        const uint8_t *s = src;                                                                                        \
        uint8_t *d = dst;                                                                                              \
        size_t i = 0;                                                                                                  \
        for (; i + 4 * BLOCK <= n; i += 4 * BLOCK)                                                                     \
            for (size_t k = 0; k < 4 * BLOCK; k += BLOCK)                                                              \
                keep(d + (i + k) * sizeof(TO), EXTEND(LOAD((const void *)(s + (i + k) * sizeof(FROM)))));              \
        for (; i < n; i++) {                                                                                           \
            FROM v;                                                                                                    \
            memcpy(&v, s + i * sizeof v, sizeof v);                                                                    \
            TO r = (TO)v;                                                                                              \
            memcpy(d + i * sizeof r, &r, sizeof r);                                                                    \
        }                                                                                                              \
    }
#define TO_FLOAT(v) (vec) V(cvtepi32_ps)(V(cvtepu8_epi32)(v))
WIDEN(u8_i64, uint8_t, int64_t, EIGHTH, V(cvtepu8_epi64))
WIDEN(u16_i64, uint16_t, int64_t, QUARTER, V(cvtepu16_epi64))
WIDEN(i16_i64, int16_t, int64_t, QUARTER, V(cvtepi16_epi64))
WIDEN(u32_i64, uint32_t, int64_t, HALF_OF, V(cvtepu32_epi64))
WIDEN(i32_i64, int32_t, int64_t, HALF_OF, V(cvtepi32_epi64))
WIDEN(u8_i32, uint8_t, int32_t, QUARTER, V(cvtepu8_epi32))
WIDEN(u16_i32, uint16_t, int32_t, HALF_OF, V(cvtepu16_epi32))
WIDEN(u8_f32, uint8_t, float, QUARTER, TO_FLOAT)

static leat_convert_fn convert(enum leat_dtype from, enum leat_dtype to)
{
    bool wide = to == LEAT_I64 || to == LEAT_U64, whole = to == LEAT_I32 || to == LEAT_U32;
    if (from == LEAT_U8)
        return wide ? u8_i64 : whole ? u8_i32 : to == LEAT_F32 ? u8_f32 : NULL;
    if (from == LEAT_U16)
        return wide ? u16_i64 : whole ? u16_i32 : NULL;
    if (from == LEAT_I16)
        return wide ? i16_i64 : NULL;
    if (from == LEAT_U32)
        return wide ? u32_i64 : NULL;
    if (from == LEAT_I32)
        return wide ? i32_i64 : NULL;
    return NULL;
}

static TARGET void fence(void)
{
    _mm_sfence();
}
