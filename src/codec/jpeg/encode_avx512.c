/*
 * Blocks to items, a block at once: bytes say which coefficients are not 0, a permutation brings them into zigzag
 * order, compression leaves the places of those that count; from these follow runs and, looked up in the block, values.
 */
#include "codec/jpeg/encode_internal.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define TARGET LEAT_TARGET_AVX512

/* 32 items, from which [begin, begin + 32) of the places in `at` (zigzag) and the runs + 1 in `steps`; behind the n-th,
 * if there are fewer, ends of block. Returns whether one of them is of a run or a value that has no entry. */
TARGET static inline bool store_items(uint16_t *item, __m256i steps, __m256i natural, __m512i low, __m512i high,
                                      unsigned ac, unsigned n)
{
    __mmask32 valid = (__mmask32)_bzhi_u32(~0u, n);
    __m512i step = _mm512_cvtepu8_epi16(steps);
    __m512i value = _mm512_permutex2var_epi16(low, _mm512_cvtepu8_epi16(natural), high);
    __mmask32 unusual = _mm512_mask_cmpgt_epu16_mask(valid, step, _mm512_set1_epi16(16));
    unusual |=
        _mm512_mask_cmpgt_epu16_mask(valid, _mm512_add_epi16(value, _mm512_set1_epi16(255)), _mm512_set1_epi16(510));
    __m512i end = _mm512_set1_epi16((short)(ac + 256));
    __m512i items =
        _mm512_add_epi16(_mm512_slli_epi16(step, 9), _mm512_add_epi16(value, _mm512_set1_epi16((short)(ac - 256))));
    _mm512_storeu_si512(item, _mm512_mask_mov_epi16(end, valid, items));
    return unusual;
}

/* A block of which a value has no entry. */
TARGET static __attribute__((noinline)) uint16_t *unusual_items(struct leat_jpeg_sequence *s, uint16_t *item,
                                                                const struct leat_jpeg_sequence_block *at,
                                                                const int16_t block[64], uint64_t mask)
{
    return leat_jpeg_items_ac(s, item, at, block, mask);
}

/* `mask` with a place for each sixteen zeros before a coefficient, at the last of them: a value of 0 behind a run of 15
 * is their item. */
TARGET static uint64_t with_zeros(uint64_t mask)
{
    const uint64_t below = ~UINT64_C(0) >> _lzcnt_u64(mask) >> 1; /* the last coefficient */
    for (unsigned i = 0; i < 3; i++) {
        const uint64_t from = mask | 1;
        uint64_t near = from | from << 1; /* fewer than 16 places behind one */
        near |= near << 2;
        near |= near << 4;
        near |= near << 8;
        mask |= from << 16 & ~near & below;
    }
    return mask;
}

TARGET uint32_t leat_jpeg_itemise_avx512(struct leat_jpeg_sequence *s, uint32_t x, uint32_t end)
{
    _Alignas(64) static const uint8_t order[64] = {
        /* of the k-th coefficient in zigzag order among bytes as _mm512_packs_epi16 leaves them */
        0,  1,  16, 32, 17, 2,  3,  18, 33, 48, 8,  49, 34, 19, 4,  5,  20, 35, 50, 9,  24, 40,
        25, 10, 51, 36, 21, 6,  7,  22, 37, 52, 11, 26, 41, 56, 57, 42, 27, 12, 53, 38, 23, 39,
        54, 13, 28, 43, 58, 59, 44, 29, 14, 55, 15, 30, 45, 60, 61, 46, 31, 47, 62, 63,
    };
    _Alignas(64) static const uint8_t count[64] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
        44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63,
    };
    const __m512i zigzag = _mm512_load_si512(order), places = _mm512_load_si512(count);
    const __m512i before = _mm512_sub_epi8(places, _mm512_set1_epi8(1));
    const __m512i natural_of = _mm512_loadu_si512(leat_jpeg_natural);
    uint16_t *item = s->item;
    for (; x < end && item < s->stop && s->escape < s->escape_stop; x++)
        for (unsigned i = 0; i < s->blocks; i++) {
            const struct leat_jpeg_sequence_block *from = &s->block[i];
            const int16_t *block = from->at + x * from->step;
            __m512i low = _mm512_loadu_si512(block), high = _mm512_loadu_si512(block + 32);
            __m512i bytes = _mm512_permutexvar_epi8(zigzag, _mm512_packs_epi16(low, high));
            uint64_t mask = _mm512_test_epi8_mask(bytes, bytes) & ~UINT64_C(1);
            item = leat_jpeg_item_dc(s, item, from, block[0]);
            for (;;) {
                unsigned n = (unsigned)_mm_popcnt_u64(mask);
                __m512i at = _mm512_maskz_compress_epi8(mask, places);
                __m512i steps = _mm512_sub_epi8(at, _mm512_maskz_permutexvar_epi8(~UINT64_C(1), before, at));
                __m512i natural = _mm512_permutexvar_epi8(at, natural_of);
                bool unusual = store_items(item, _mm512_castsi512_si256(steps), _mm512_castsi512_si256(natural), low,
                                           high, from->ac, n);
                if (__builtin_expect(n > 31, 0))
                    unusual |= store_items(item + 32, _mm512_extracti64x4_epi64(steps, 1),
                                           _mm512_extracti64x4_epi64(natural, 1), low, high, from->ac, n - 32);
                if (__builtin_expect(!unusual, 1)) {
                    item += n + (unsigned)(~mask >> 63);
                    break;
                }
                const uint64_t all = with_zeros(mask);
                if (all == mask) {
                    item = unusual_items(s, item, from, block, mask);
                    break;
                }
                mask = all; /* once: then no run is too long */
            }
        }
    s->item = item;
    return x;
}

#endif
