/*
 * Unpacking a row of the decode-fast form with AVX2.
 *
 * The steps are those of unpack_avx512.c. The expansion of AVX-512 (the next values, each to a place where a mask has a
 * one) is a shuffle of eight words here, looked up by eight bits of the mask. Coefficients of two blocks are brought
 * from zigzag order to natural order at a time, one in each half of a register: each row of eight is put together from
 * the three to five registers that its coefficients are spread over.
 */
#include "codec/jpeg/fast_row.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* No pdep: it takes hundreds of cycles on some machines that have AVX2. */
#define TARGET LEAT_TARGET_AVX2

/* For each mask of eight bits the shuffle that expands words: lane j is the n-th word where j is the n-th one, else
 * 0. */
#define ONES_BELOW(m, j)                                                                                               \
    (((j) > 0 ? (m)&1 : 0) + ((j) > 1 ? (m) >> 1 & 1 : 0) + ((j) > 2 ? (m) >> 2 & 1 : 0) +                             \
     ((j) > 3 ? (m) >> 3 & 1 : 0) + ((j) > 4 ? (m) >> 4 & 1 : 0) + ((j) > 5 ? (m) >> 5 & 1 : 0) +                      \
     ((j) > 6 ? (m) >> 6 & 1 : 0))
#define LANE(m, j) (m) >> (j)&1 ? 2 * ONES_BELOW(m, j) : 0x80, (m) >> (j)&1 ? 2 * ONES_BELOW(m, j) + 1 : 0x80
#define ROW1(m)                                                                                                        \
    {                                                                                                                  \
        LANE(m, 0), LANE(m, 1), LANE(m, 2), LANE(m, 3), LANE(m, 4), LANE(m, 5), LANE(m, 6), LANE(m, 7)                 \
    }
#define ROW4(m) ROW1(m), ROW1((m) + 1), ROW1((m) + 2), ROW1((m) + 3)
#define ROW16(m) ROW4(m), ROW4((m) + 4), ROW4((m) + 8), ROW4((m) + 12)
#define ROW64(m) ROW16(m), ROW16((m) + 16), ROW16((m) + 32), ROW16((m) + 48)
static const uint8_t expansion[256][16] __attribute__((aligned(64))) = {ROW64(0), ROW64(64), ROW64(128), ROW64(192)};

TARGET static inline __m128i expand(const void *words, unsigned mask)
{
    return _mm_shuffle_epi8(_mm_loadu_si128(words), _mm_load_si128((const __m128i *)(const void *)expansion[mask]));
}

TARGET static void unpack_escapes(const struct leat_jpeg_streams *s, uint16_t *escapes)
{
    const uint8_t *byte = s->byte + s->f0, *wide = s->wide + 2 * (size_t)s->w0;
    const __m128i fifteen = _mm_set1_epi8(LEAT_FAST_NIBBLE_ESCAPE), base = _mm_set1_epi8(LEAT_FAST_NIBBLE_BASE);
    const uint32_t n = s->e1 - s->e0;
    for (uint32_t i = 0; i < n; i += 32, escapes += 32) {
        const __m128i both = _mm_loadu_si128((const __m128i *)(const void *)(s->nibble + (s->e0 + i) / 2));
        const __m128i low = _mm_and_si128(both, fifteen), high = _mm_and_si128(_mm_srli_epi16(both, 4), fifteen);
        const __m128i a = _mm_unpacklo_epi8(low, high), b = _mm_unpackhi_epi8(low, high);
        _mm256_storeu_si256((__m256i *)(void *)escapes, _mm256_cvtepu8_epi16(_mm_add_epi8(a, base)));
        _mm256_storeu_si256((__m256i *)(void *)(escapes + 16), _mm256_cvtepu8_epi16(_mm_add_epi8(b, base)));
        uint32_t more = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(a, fifteen)) |
                        (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(b, fifteen)) << 16;
        if (n - i < 32)
            more = _bzhi_u32(more, n - i);
        for (; more; more &= more - 1) {
            uint16_t v = *byte++;
            if (v == LEAT_FAST_BYTE_ESCAPE) {
                v = leat_get_u16(wide);
                wide += 2;
            }
            escapes[_tzcnt_u32(more)] = v;
        }
    }
}

TARGET static void unpack_values(const struct leat_jpeg_streams *s, const uint16_t *escape, int16_t *values)
{
    const __m256i bit =
        _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, INT16_MIN);
    const __m256i one = _mm256_set1_epi16(1);
    escape += s->escapes_group - s->e0;
    for (uint32_t g = s->group; g < s->n1; g += 16, values += 16) {
        const uint16_t a16 = leat_get_u16(s->a + g / 8), b16 = leat_get_u16(s->b + g / 8);
        const unsigned both = a16 & b16;
        const __m256i a = _mm256_cmpeq_epi16(_mm256_and_si256(_mm256_set1_epi16((short)a16), bit), bit);
        const __m256i b = _mm256_cmpeq_epi16(_mm256_and_si256(_mm256_set1_epi16((short)b16), bit), bit);
        const __m256i sign =
            _mm256_cmpeq_epi16(_mm256_and_si256(_mm256_set1_epi16((short)leat_get_u16(s->sign + g / 8)), bit), bit);
        const __m128i first = expand(escape, both & 255);
        escape += _mm_popcnt_u32(both & 255);
        const __m256i large = _mm256_inserti128_si256(_mm256_castsi128_si256(first), expand(escape, both >> 8), 1);
        escape += _mm_popcnt_u32(both >> 8);
        const __m256i small = _mm256_sub_epi16(_mm256_sub_epi16(one, a), _mm256_add_epi16(b, b));
        const __m256i v = _mm256_blendv_epi8(small, large, _mm256_and_si256(a, b));
        _mm256_storeu_si256((__m256i *)(void *)values, _mm256_sub_epi16(_mm256_xor_si256(v, sign), sign));
    }
}

/* ---- zigzag order to natural order, of two blocks ---- */

/* Octet i holds coefficients 8i + 1 to 8i + 8 of each block. PICK(i, k ...): the shuffle of octet i for a row of
 * natural order whose coefficients are k ...: zero if one is in another octet. */
#define BYTES(i, k)                                                                                                    \
    ((k)-1) / 8 == (i) && (k) > 0 ? 2 * (((k)-1) % 8) : -128,                                                          \
        ((k)-1) / 8 == (i) && (k) > 0 ? 2 * (((k)-1) % 8) + 1 : -128
#define HALF(i, a, b, c, d, e, f, g, h)                                                                                \
    BYTES(i, a), BYTES(i, b), BYTES(i, c), BYTES(i, d), BYTES(i, e), BYTES(i, f), BYTES(i, g), BYTES(i, h)
#define PICK(i, ...) _mm256_shuffle_epi8(octet[i], _mm256_setr_epi8(HALF(i, __VA_ARGS__), HALF(i, __VA_ARGS__)))
#define OR _mm256_or_si256
#define R0 0, 1, 5, 6, 14, 15, 27, 28
#define R1 2, 4, 7, 13, 16, 26, 29, 42
#define R2 3, 8, 12, 17, 25, 30, 41, 43
#define R3 9, 11, 18, 24, 31, 40, 44, 53
#define R4 10, 19, 23, 32, 39, 45, 52, 54
#define R5 20, 22, 33, 38, 46, 51, 55, 60
#define R6 21, 34, 37, 47, 50, 56, 59, 61
#define R7 35, 36, 48, 49, 57, 58, 62, 63

TARGET static inline __m256i octet_of(const int16_t *first, uint64_t ones_of_first, const int16_t *second,
                                      uint64_t ones_of_second, unsigned i)
{
    const __m128i a = expand(first + _mm_popcnt_u64(_bzhi_u64(ones_of_first, 8 * i)), ones_of_first >> 8 * i & 255);
    const __m128i b = expand(second + _mm_popcnt_u64(_bzhi_u64(ones_of_second, 8 * i)), ones_of_second >> 8 * i & 255);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}

TARGET static inline void store_row(__m256i row, int16_t *first, int16_t *second)
{
    _mm_store_si128((__m128i *)(void *)first, _mm256_castsi256_si128(row));
    _mm_store_si128((__m128i *)(void *)second, _mm256_extracti128_si256(row, 1));
}

/* Two blocks whose coefficients other than 0 stand at `first` and `second`. */
TARGET static inline void place_two(const int16_t *first, uint64_t ones_of_first, const int16_t *second,
                                    uint64_t ones_of_second, int16_t *out, int16_t *out_second)
{
    __m256i octet[8];
    LEAT_UNROLL
    for (unsigned i = 0; i < 8; i++)
        octet[i] = octet_of(first, ones_of_first, second, ones_of_second, i);
    store_row(OR(OR(PICK(0, R0), PICK(1, R0)), PICK(3, R0)), out, out_second);
    store_row(OR(OR(PICK(0, R1), PICK(1, R1)), OR(PICK(3, R1), PICK(5, R1))), out + 8, out_second + 8);
    store_row(OR(OR(OR(PICK(0, R2), PICK(1, R2)), OR(PICK(2, R2), PICK(3, R2))), PICK(5, R2)), out + 16,
              out_second + 16);
    store_row(OR(OR(OR(PICK(1, R3), PICK(2, R3)), OR(PICK(3, R3), PICK(4, R3))), OR(PICK(5, R3), PICK(6, R3))),
              out + 24, out_second + 24);
    store_row(OR(OR(OR(PICK(1, R4), PICK(2, R4)), OR(PICK(3, R4), PICK(4, R4))), OR(PICK(5, R4), PICK(6, R4))),
              out + 32, out_second + 32);
    store_row(OR(OR(OR(PICK(2, R5), PICK(4, R5)), OR(PICK(5, R5), PICK(6, R5))), PICK(7, R5)), out + 40,
              out_second + 40);
    store_row(OR(OR(OR(PICK(2, R6), PICK(4, R6)), OR(PICK(5, R6), PICK(6, R6))), PICK(7, R6)), out + 48,
              out_second + 48);
    store_row(OR(OR(PICK(4, R7), PICK(5, R7)), OR(PICK(6, R7), PICK(7, R7))), out + 56, out_second + 56);
}

TARGET static bool unpack_rest(struct leat_jpeg_streams *s, uint32_t n, const uint8_t *head, const int16_t *dc,
                               const struct leat_jpeg_fast_scratch *scratch, int16_t *out, uint8_t *last)
{
    unpack_escapes(s, scratch->escapes);
    unpack_values(s, scratch->escapes, scratch->values);
    const int16_t *value = scratch->values + (s->n0 - s->group);
    int16_t unused[64] __attribute__((aligned(64)));
    const uint8_t *mask = s->mask;
    uint64_t all = 0;
    for (uint32_t x = 0; x < n; x += 2, out += 128) {
        const bool two = n - x > 1;
        int16_t *const out_second = two ? out + 64 : unused;
        const unsigned bytes = head[x] & 15, bytes_second = two ? head[x + 1] & 15 : 0;
        const uint64_t ones = _bzhi_u64(leat_get_u64(mask), 8 * bytes);
        const uint64_t ones_second = _bzhi_u64(leat_get_u64(mask + bytes), 8 * bytes_second);
        const int16_t *const second = value + _mm_popcnt_u64(ones);
        mask += bytes + bytes_second;
        place_two(value, ones, second, ones_second, out, out_second);
        value = second + _mm_popcnt_u64(ones_second);
        all |= ones | ones_second;
        out[0] = dc[x];
        out_second[0] = dc[x + 1];
        last[x] = (uint8_t)(64 - _lzcnt_u64(ones));
        if (two)
            last[x + 1] = (uint8_t)(64 - _lzcnt_u64(ones_second));
    }
    return !(all >> 63);
}

#define unpack_dc leat_unpack_dc
LEAT_JPEG_UNPACK_ROW(leat_jpeg_unpack_row_avx2, TARGET)
LEAT_JPEG_CHECK_ROW(leat_jpeg_check_row_avx2, TARGET)

#endif
