/*
 * The steps of packing a row of the decode-fast form (pack_row.h) with AVX-512 VBMI2: a block, 64 coefficients or 32
 * magnitudes at a time. The picked values (coefficients other than 0, magnitudes above a bound) are compressed in a
 * register and stored whole, and the next ones are stored over the rest.
 */
#include "codec/jpeg/pack_row.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET LEAT_TARGET_AVX512

/* Zigzag order of 64 coefficients, as words of two registers. */
static const uint16_t first_half[32] = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                                        12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28};
static const uint16_t second_half[32] = {35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                                         58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

TARGET static bool write_blocks(const int16_t *block, uint32_t blocks, uint8_t *head, uint8_t **end, uint8_t *mask,
                                size_t *mask_bytes, int16_t *values, uint32_t *n_values)
{
    const __m512i first = _mm512_loadu_si512(first_half), second = _mm512_loadu_si512(second_half);
    struct leat_dc_writer dc = {.at = head + blocks, .fits = true};
    const uint8_t *const mask_begin = mask;
    int16_t *value = values;
    for (uint32_t x = 0; x < blocks; x++, block += 64) {
        const __m512i upper = _mm512_loadu_si512(block), lower = _mm512_loadu_si512(block + 32);
        const __m512i a = _mm512_permutex2var_epi16(upper, first, lower),
                      b = _mm512_permutex2var_epi16(upper, second, lower);
        const __mmask32 of_a = _mm512_mask_test_epi16_mask(0xfffffffe, a, a), of_b = _mm512_test_epi16_mask(b, b);
        _mm512_storeu_si512(value, _mm512_maskz_compress_epi16(of_a, a));
        value += _mm_popcnt_u32(of_a);
        _mm512_storeu_si512(value, _mm512_maskz_compress_epi16(of_b, b));
        value += _mm_popcnt_u32(of_b);
        const uint64_t ones = ((uint64_t)of_b << 32 | of_a) >> 1;
        const unsigned bytes = leat_mask_bytes(ones);
        leat_put_u64(mask, ones);
        mask += bytes;
        head[x] = (uint8_t)(leat_put_dc(&dc, block[0]) << 4 | bytes);
    }
    *end = dc.at + (dc.held ? 1 : 0);
    *mask_bytes = (size_t)(mask - mask_begin);
    *n_values = (uint32_t)(value - values);
    return dc.fits;
}

TARGET static uint8_t *write_planes(int16_t *values, uint32_t n, uint8_t *out, uint16_t *escapes, uint32_t *n_escapes)
{
    const size_t plane = (n + 7) / 8;
    const __m512i two = _mm512_set1_epi16(2), three = _mm512_set1_epi16(3);
    uint16_t *escape = escapes;
    for (uint32_t g = 0; g < n; g += 64) {
        uint64_t sign = 0, a = 0, b = 0;
        for (unsigned half = 0; half < 64; half += 32) {
            const uint32_t in_half = n - g <= half ? 0 : n - g - half;
            const __mmask32 there = (__mmask32)_bzhi_u64(UINT32_MAX, in_half < 32 ? in_half : 32);
            const __m512i v = _mm512_loadu_si512(values + g + half), magnitude = _mm512_abs_epi16(v);
            const __mmask32 above = _mm512_mask_cmpgt_epu16_mask(there, magnitude, three);
            sign |= (uint64_t)(_mm512_movepi16_mask(v) & there) << half;
            a |= (uint64_t)(_mm512_mask_cmpeq_epi16_mask(there, magnitude, two) | above) << half;
            b |= (uint64_t)_mm512_mask_cmpge_epu16_mask(there, magnitude, three) << half;
            _mm512_storeu_si512(escape, _mm512_maskz_compress_epi16(above, magnitude));
            escape += _mm_popcnt_u32(above);
        }
        if (n - g >= 64) {
            leat_put_u64(out + g / 8, sign);
            leat_put_u64(out + plane + g / 8, a);
            leat_put_u64(out + 2 * plane + g / 8, b);
        } else {
            const size_t bytes = plane - g / 8;
            memcpy(out + g / 8, &sign, bytes);
            memcpy(out + plane + g / 8, &a, bytes);
            memcpy(out + 2 * plane + g / 8, &b, bytes);
        }
    }
    *n_escapes = (uint32_t)(escape - escapes);
    return out + 3 * plane;
}

TARGET static void write_escapes(uint16_t *escapes, uint32_t n, uint8_t *out, uint8_t *bytes, uint8_t **byte_end,
                                 uint8_t *wides, uint8_t **wide_end)
{
    const __m512i base = _mm512_set1_epi16(LEAT_FAST_NIBBLE_BASE), escape = _mm512_set1_epi16(LEAT_FAST_NIBBLE_ESCAPE);
    uint8_t *byte = bytes, *wide = wides;
    _mm512_storeu_si512(escapes + n, base); /* the excess of the last vector */
    for (uint32_t i = 0; i < n; i += 32) {
        const __m512i magnitude = _mm512_loadu_si512(escapes + i), above = _mm512_sub_epi16(magnitude, base);
        const __m512i nibble = _mm512_min_epu16(above, escape);
        const __mmask32 more = _mm512_cmpge_epu16_mask(above, escape);
        const __mmask32 much = _mm512_cmpge_epu16_mask(magnitude, _mm512_set1_epi16(LEAT_FAST_BYTE_ESCAPE));
        _mm_storeu_si128((__m128i *)(void *)(out + i / 2),
                         _mm512_cvtepi32_epi8(_mm512_or_si512(nibble, _mm512_srli_epi32(nibble, 12))));
        _mm256_storeu_si256((__m256i *)(void *)byte,
                            _mm256_maskz_compress_epi8(more, _mm512_cvtusepi16_epi8(magnitude)));
        byte += _mm_popcnt_u32(more);
        if (much) {
            _mm512_storeu_si512(wide, _mm512_maskz_compress_epi16(much, magnitude));
            wide += 2 * _mm_popcnt_u32(much);
        }
    }
    *byte_end = byte;
    *wide_end = wide;
}

const struct leat_jpeg_pack_steps leat_jpeg_pack_avx512 = {write_blocks, write_planes, write_escapes};

#endif
