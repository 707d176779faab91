/*
 * Unpacking a row of the decode-fast form with AVX-512 VBMI2 and BMI2.
 *
 * No branch decides anything, and only additions wait for the block before: those of population counts:
 *
 *     64 nibbles at a time      -> bytes from 4 to 18; nibbles of 15 are replaced by the bytes stream (expand)
 *     64 coefficients at a time -> 1 + A + 2B, those of 4 and more are replaced by the ones above (expand); made
 *                                  negative under the sign bits. Low and high bytes are two arrays: `low` and `high`
 *     a block at a time         -> both are expanded under the block's mask (zigzag order); then one permutation
 *                                  interleaves them and brings them to natural order
 *
 * The rare magnitudes of 255 and more are put into the arrays between the second step and the third.
 */
#include "codec/jpeg/fast_row.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET LEAT_TARGET_AVX512

/* In each word the sum of the words up to it. */
TARGET static inline __m512i add_up(__m512i v)
{
    v = _mm512_add_epi16(v, _mm512_bslli_epi128(v, 2));
    v = _mm512_add_epi16(v, _mm512_bslli_epi128(v, 4));
    v = _mm512_add_epi16(v, _mm512_bslli_epi128(v, 8));
    /* the last word of each quarter into the next one, then those of the first two into the last two */
    const __m512i ends = _mm512_shuffle_epi8(v, _mm512_set1_epi16(0x0f0e));
    v = _mm512_add_epi16(v, _mm512_maskz_shuffle_i64x2(0xcc, ends, ends, 0x80));
    const __m512i half = _mm512_permutexvar_epi16(_mm512_set1_epi16(15), v);
    return _mm512_mask_add_epi16(v, 0xffff0000, v, half);
}

/* The DC values of the first x1 columns, 32 at a time: the start of each bit field is a sum over the heads, its bits
 * come out of the 64 bytes that 32 fields lie in at most, and the values are again sums. */
TARGET static void unpack_dc(const struct leat_jpeg_streams *s, uint32_t x1, int16_t *dc)
{
    const __m512i one = _mm512_set1_epi16(1), last = _mm512_set1_epi16(31);
    __m512i value = _mm512_setzero_si512();
    uint32_t bit = 0;
    for (uint32_t x = 0; x < x1; x += 32) {
        const __m256i heads = _mm256_loadu_si256((const __m256i *)(const void *)(s->head + x));
        const __m256i bits8 = _mm256_and_si256(_mm256_srli_epi16(heads, 4), _mm256_set1_epi8(15));
        const __m512i bits = _mm512_cvtepu8_epi16(bits8), ends = add_up(bits);
        const __m512i begin = _mm512_add_epi16(_mm512_sub_epi16(ends, bits), _mm512_set1_epi16((short)(bit % 8)));
        /* bytes begin / 8 to begin / 8 + 3 of the window, as two words */
        const __m512i window = _mm512_loadu_si512(s->dc + bit / 8);
        const __m512i byte = _mm512_mullo_epi16(_mm512_srli_epi16(begin, 3), _mm512_set1_epi16(0x0101));
        const __m512i near = _mm512_permutexvar_epi8(_mm512_add_epi8(byte, _mm512_set1_epi16(0x0100)), window);
        const __m512i far = _mm512_permutexvar_epi8(_mm512_add_epi8(byte, _mm512_set1_epi16(0x0302)), window);
        const __m512i ones = _mm512_sub_epi16(_mm512_sllv_epi16(one, bits), one);
        const __m512i code =
            _mm512_and_si512(_mm512_shrdv_epi16(near, far, _mm512_and_si512(begin, _mm512_set1_epi16(7))), ones);
        const __mmask32 negative = _mm512_cmple_epu16_mask(code, _mm512_srli_epi16(ones, 1));
        value = _mm512_add_epi16(value, add_up(_mm512_mask_sub_epi16(code, negative, code, ones)));
        _mm512_storeu_si512(dc + x, value);
        value = _mm512_permutexvar_epi16(last, value);
        const __m256i sums = _mm256_sad_epu8(bits8, _mm256_setzero_si256());
        const __m128i sum = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        bit += (uint32_t)_mm_cvtsi128_si32(_mm_add_epi64(sum, _mm_unpackhi_epi64(sum, sum)));
    }
}

TARGET static void unpack_escapes(const struct leat_jpeg_streams *s, uint8_t *escapes)
{
    const uint8_t *byte = s->byte + s->f0;
    const __m512i fifteen = _mm512_set1_epi8(LEAT_FAST_NIBBLE_ESCAPE), base = _mm512_set1_epi8(LEAT_FAST_NIBBLE_BASE);
    for (uint32_t i = s->e0; i < s->e1; i += 64, escapes += 64) {
        const __m512i words =
            _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)(s->nibble + i / 2)));
        const __m512i nibbles = _mm512_and_si512(_mm512_or_si512(words, _mm512_slli_epi16(words, 4)), fifteen);
        const __mmask64 more = _mm512_cmpeq_epi8_mask(nibbles, fifteen);
        const __m512i bytes = _mm512_loadu_si512(byte);
        _mm512_storeu_si512(escapes, _mm512_mask_expand_epi8(_mm512_add_epi8(nibbles, base), more, bytes));
        if (s->e1 - i > 64)
            byte += _mm_popcnt_u64(more);
    }
}

TARGET static void unpack_values(const struct leat_jpeg_streams *s, const uint8_t *escape, uint8_t *low, uint8_t *high)
{
    const __m512i one = _mm512_set1_epi8(1), two = _mm512_set1_epi8(2), zero = _mm512_setzero_si512();
    escape += s->escapes_group - s->e0;
    for (uint32_t g = s->group; g < s->n1; g += 64, low += 64, high += 64) {
        const uint64_t a = leat_get_u64(s->a + g / 8), b = leat_get_u64(s->b + g / 8),
                       sign = leat_get_u64(s->sign + g / 8);
        __m512i v = _mm512_mask_add_epi8(one, a, one, one);
        v = _mm512_mask_add_epi8(v, b, v, two);
        v = _mm512_mask_expand_epi8(v, a & b, _mm512_loadu_si512(escape));
        escape += _mm_popcnt_u64(a & b);
        _mm512_storeu_si512(low, _mm512_mask_sub_epi8(v, sign, zero, v));
        _mm512_storeu_si512(
            high, _mm512_movm_epi8(_mm512_mask_test_epi8_mask(sign, v, v))); /* hostile bytes: 0 has no sign */
    }
}

/* The magnitudes of the third stream, wherever the second has a 255. */
TARGET static void unpack_wide(const struct leat_jpeg_streams *s, const uint8_t *escapes, uint8_t *low, uint8_t *high)
{
    const uint8_t *wide = s->wide + 2 * (size_t)s->w0;
    uint32_t group = s->group, before = s->escapes_group; /* escapes before this group */
    uint64_t both = leat_get_u64(s->a + group / 8) & leat_get_u64(s->b + group / 8);
    for (uint32_t i = s->e0; i < s->e1; i += 64) {
        uint64_t more = _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(escapes + (i - s->e0)),
                                               _mm512_set1_epi8((char)LEAT_FAST_BYTE_ESCAPE));
        if (s->e1 - i < 64)
            more &= leat_low_bits(s->e1 - i);
        for (; more; more &= more - 1, wide += 2) {
            const uint32_t rank = i + (uint32_t)_tzcnt_u64(more);
            if (rank < s->escapes_group)
                continue;
            while (rank - before >= (uint32_t)_mm_popcnt_u64(both)) {
                before += (uint32_t)_mm_popcnt_u64(both);
                group += 64;
                both = leat_get_u64(s->a + group / 8) & leat_get_u64(s->b + group / 8);
            }
            const uint64_t bit = _pdep_u64(UINT64_C(1) << (rank - before), both);
            const uint32_t at = group - s->group + (uint32_t)_tzcnt_u64(bit);
            const unsigned magnitude = leat_get_u16(wide),
                           v = leat_get_u64(s->sign + group / 8) & bit ? 0 - magnitude : magnitude;
            low[at] = (uint8_t)v;
            high[at] = (uint8_t)(v >> 8);
        }
    }
}

/* The byte of the expanded arrays for each byte of 32 coefficients in natural order, `high` beginning at 64. The
 * expanded ones begin with the first coefficient behind the DC, whose own place is filled later. */
#define AT(k) (k) - 1, 63 + (k)
static const uint8_t upper_half[64] = {
    AT(1),  AT(1),  AT(5),  AT(6),  AT(14), AT(15), AT(27), AT(28), AT(2),  AT(4),  AT(7),
    AT(13), AT(16), AT(26), AT(29), AT(42), AT(3),  AT(8),  AT(12), AT(17), AT(25), AT(30),
    AT(41), AT(43), AT(9),  AT(11), AT(18), AT(24), AT(31), AT(40), AT(44), AT(53),
};
static const uint8_t lower_half[64] = {
    AT(10), AT(19), AT(23), AT(32), AT(39), AT(45), AT(52), AT(54), AT(20), AT(22), AT(33),
    AT(38), AT(46), AT(51), AT(55), AT(60), AT(21), AT(34), AT(37), AT(47), AT(50), AT(56),
    AT(59), AT(61), AT(35), AT(36), AT(48), AT(49), AT(57), AT(58), AT(62), AT(63),
};

TARGET static bool place(const struct leat_jpeg_streams *s, uint32_t n, const uint8_t *head, const int16_t *dc,
                         const uint8_t *low, const uint8_t *high, int16_t *out, uint8_t *last)
{
    const __m512i upper = _mm512_loadu_si512(upper_half), lower = _mm512_loadu_si512(lower_half);
    const uint8_t *mask = s->mask;
    uint64_t all = 0;
    size_t at = s->n0 - s->group;
    for (uint32_t x = 0; x < n; x++, out += 64) {
        const unsigned bytes = head[x] & 15;
        const uint64_t ones = _bzhi_u64(leat_get_u64(mask), 8 * bytes);
        const __m512i l = _mm512_maskz_expand_epi8(ones, _mm512_loadu_si512(low + at));
        const __m512i h = _mm512_maskz_expand_epi8(ones, _mm512_loadu_si512(high + at));
        mask += bytes;
        at += (size_t)_mm_popcnt_u64(ones);
        all |= ones;
        last[x] = (uint8_t)(64 - _lzcnt_u64(ones));
        _mm512_store_si512(out, _mm512_mask_loadu_epi16(_mm512_permutex2var_epi8(l, upper, h), 1, dc + x));
        _mm512_store_si512(out + 32, _mm512_permutex2var_epi8(l, lower, h));
    }
    return !(all >> 63);
}

TARGET static bool unpack_rest(struct leat_jpeg_streams *s, uint32_t n, const uint8_t *head, const int16_t *dc,
                               const struct leat_jpeg_fast_scratch *scratch, int16_t *out, uint8_t *last)
{
    uint8_t *const escapes = (uint8_t *)scratch->escapes, *const low = (uint8_t *)scratch->values;
    uint8_t *const high = low + 64 * (size_t)scratch->blocks + 256;
    unpack_escapes(s, escapes);
    unpack_values(s, escapes, low, high);
    if (s->wides > s->w0)
        unpack_wide(s, escapes, low, high);
    return place(s, n, head, dc, low, high, out, last);
}

LEAT_JPEG_UNPACK_ROW(leat_jpeg_unpack_row_avx512, TARGET)
LEAT_JPEG_CHECK_ROW(leat_jpeg_check_row_avx512, TARGET)

#endif
