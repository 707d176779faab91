/* Tables of bytes. With AVX-512 the table stands in four registers, and 64 bytes are looked up by two instructions. */
#include "op/byte_table.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static void look_up(const uint8_t *table, const uint8_t *src, uint8_t *dst, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = table[src[i]];
}

#if defined(__x86_64__)
static inline LEAT_TARGET_AVX512 __m512i look_up_64(const __m512i t[4], __m512i v)
{
    __m512i low = _mm512_permutex2var_epi8(t[0], v, t[1]), high = _mm512_permutex2var_epi8(t[2], v, t[3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), low, high);
}

static LEAT_TARGET_AVX512 void look_up_avx512(const uint8_t *table, const uint8_t *src, uint8_t *dst, size_t n)
{
    __m512i t[4];
    for (unsigned k = 0; k < 4; k++)
        t[k] = _mm512_loadu_si512(table + 64 * k);
    size_t i = 0;
    for (; i + 64 <= n; i += 64)
        _mm512_storeu_si512(dst + i, look_up_64(t, _mm512_loadu_si512(src + i)));
    const __mmask64 rest = (UINT64_C(1) << (n - i)) - 1;
    if (rest)
        _mm512_mask_storeu_epi8(dst + i, rest, look_up_64(t, _mm512_maskz_loadu_epi8(rest, src + i)));
}
#endif

leat_byte_table_fn leat_byte_table_of(enum leat_isa isa)
{
#if defined(__x86_64__)
    if (isa == LEAT_ISA_AVX512)
        return look_up_avx512;
#endif
    return look_up;
}
