/*
 * The steps of packing a row of the decode-fast form (pack_row.h) with AVX2. Comparisons give the bits of masks and
 * planes; the values that these bits pick out are taken one by one.
 */
#include "codec/jpeg/pack_row.h"

#if defined(__x86_64__)
#define SIMD 256
#include "kernels/simd.h"

/* One bit of each of 32 words, which are all ones or all zeros. */
TARGET static inline uint64_t bits_of(__m256i first, __m256i second)
{
    return (uint32_t)_mm256_movemask_epi8(_mm256_permute4x64_epi64(_mm256_packs_epi16(first, second), 0xd8));
}

TARGET static inline uint64_t mask_of(const int16_t *block)
{
    const __m256i zero = _mm256_setzero_si256();
    const uint64_t low = bits_of(_mm256_cmpeq_epi16(load(block), zero), _mm256_cmpeq_epi16(load(block + 16), zero));
    const uint64_t high =
        bits_of(_mm256_cmpeq_epi16(load(block + 32), zero), _mm256_cmpeq_epi16(load(block + 48), zero));
    const uint64_t not_0 = ~(low | high << 32);
    uint64_t ones = 0;
    for (unsigned i = 0; i < 16; i++)
        ones |= leat_jpeg_in_mask[i][not_0 >> 4 * i & 15];
    return ones;
}

TARGET static inline void planes_of(const int16_t *values, uint64_t planes[3])
{
    const __m256i two = _mm256_set1_epi16(2), three = _mm256_set1_epi16(3), most = _mm256_set1_epi16(INT16_MAX);
    uint64_t sign = 0, a = 0, b = 0;
    for (unsigned half = 0; half < 64; half += 32) {
        const __m256i v = load(values + half), w = load(values + half + 16);
        /* 32768 is to be large, and stays so with the largest that there is in signed words */
        const __m256i vm = _mm256_min_epu16(_mm256_abs_epi16(v), most),
                      wm = _mm256_min_epu16(_mm256_abs_epi16(w), most);
        const __m256i v_large = _mm256_cmpgt_epi16(vm, three), w_large = _mm256_cmpgt_epi16(wm, three);
        sign |= bits_of(_mm256_srai_epi16(v, 15), _mm256_srai_epi16(w, 15)) << half;
        a |= bits_of(_mm256_or_si256(_mm256_cmpeq_epi16(vm, two), v_large),
                     _mm256_or_si256(_mm256_cmpeq_epi16(wm, two), w_large))
             << half;
        b |= bits_of(_mm256_cmpgt_epi16(vm, two), _mm256_cmpgt_epi16(wm, two)) << half;
    }
    planes[0] = sign, planes[1] = a, planes[2] = b;
}

LEAT_JPEG_PACK_STEPS(TARGET)

TARGET static void write_escapes(uint16_t *escapes, uint32_t n, uint8_t *out, uint8_t *bytes, uint8_t **byte_end,
                                 uint8_t *wides, uint8_t **wide_end)
{
    const __m256i base = _mm256_set1_epi16(LEAT_FAST_NIBBLE_BASE), most = _mm256_set1_epi16(LEAT_FAST_NIBBLE_ESCAPE);
    uint8_t *byte = bytes, *wide = wides;
    for (unsigned i = 0; i < 32; i += 16) /* the excess of the last two vectors */
        _mm256_storeu_si256((__m256i *)(void *)(escapes + n + i), base);
    for (uint32_t i = 0; i < n; i += 32) {
        const __m256i v = _mm256_min_epu16(_mm256_sub_epi16(load(escapes + i), base), most);
        const __m256i w = _mm256_min_epu16(_mm256_sub_epi16(load(escapes + i + 16), base), most);
        const __m256i nibbles = _mm256_permute4x64_epi64(_mm256_packus_epi16(v, w), 0xd8);
        const __m256i pairs = _mm256_maddubs_epi16(nibbles, _mm256_set1_epi16(0x1001));
        const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(pairs, pairs), 0xd8);
        _mm_storeu_si128((__m128i *)(void *)(out + i / 2), _mm256_castsi256_si128(packed));
        for (uint64_t more = bits_of(_mm256_cmpeq_epi16(v, most), _mm256_cmpeq_epi16(w, most)); more;
             more = _blsr_u64(more)) {
            const uint16_t magnitude = escapes[i + (uint32_t)_tzcnt_u64(more)];
            const bool much = magnitude >= LEAT_FAST_BYTE_ESCAPE;
            *byte++ = (uint8_t)(much ? LEAT_FAST_BYTE_ESCAPE : magnitude);
            leat_put_u16(wide, magnitude);
            wide += much ? 2 : 0;
        }
    }
    *byte_end = byte;
    *wide_end = wide;
}

const struct leat_jpeg_pack_steps leat_jpeg_pack_avx2 = {write_blocks, write_planes, write_escapes};

#endif
