/*
 * Blocks to items, with a comparison that tells which coefficients are not 0; items to bits, with the shifts of BMI2,
 * which need no flags and no fixed register.
 */
#include "codec/jpeg/encode_internal.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define TARGET LEAT_TARGET_AVX2

/* Bit k: the k-th coefficient of 32 is not 0. */
TARGET static inline uint32_t half_present(const int16_t *half)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i a = _mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i *)half), zero);
    __m256i b = _mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i *)(half + 16)), zero);
    __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(a, b), 0xd8); /* packs goes by halves of 128 bits */
    return ~(uint32_t)_mm256_movemask_epi8(bytes);
}

TARGET static inline uint64_t block_present(const int16_t *block)
{
    return half_present(block) | (uint64_t)half_present(block + 32) << 32;
}

TARGET uint32_t leat_jpeg_itemise_avx2(struct leat_jpeg_sequence *s, uint32_t x, uint32_t end)
{
    return leat_jpeg_itemise(block_present, s, x, end);
}

TARGET uint32_t leat_jpeg_items_avx2(struct leat_jpeg_bit_writer *bits, const uint32_t *entry, const uint16_t *item,
                                     size_t n)
{
    return leat_jpeg_items_to_bits(bits, entry, item, n);
}

#endif
