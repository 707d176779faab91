/*
 * Unpacking a row of the decode-fast form in plain C: numbers above 3, then all coefficients other than 0 with their
 * signs, eight at a time by arithmetic on the bytes of a word, then each to its place.
 */
#include "codec/jpeg/fast_row.h"

/* Bit i of x becomes byte i, 0 or 1. */
static inline uint64_t spread(uint64_t x)
{
    x = x * UINT64_C(0x0101010101010101) & UINT64_C(0x8040201008040201);
    return (x + UINT64_C(0x00406070787c7e7f)) >> 7 & UINT64_C(0x0101010101010101);
}

static void unpack_escapes(const struct leat_jpeg_streams *s, uint16_t *escapes)
{
    const uint8_t *byte = s->byte + s->f0, *wide = s->wide + 2 * (size_t)s->w0, *nibble = s->nibble + s->e0 / 2;
    const uint32_t n = s->e1 - s->e0;
    for (uint32_t i = 0; 2 * i < n; i++) {
        escapes[2 * i] = (uint16_t)(LEAT_FAST_NIBBLE_BASE + (nibble[i] & 15));
        escapes[2 * i + 1] = (uint16_t)(LEAT_FAST_NIBBLE_BASE + (nibble[i] >> 4));
    }
    for (uint32_t i = 0; i < n; i += 16) {
        uint64_t m = leat_nibbles_of_15(leat_get_u64(nibble + i / 2));
        if (n - i < 16)
            m &= leat_low_bits(4 * (n - i));
        for (; m; m &= m - 1) {
            uint16_t v = *byte++;
            if (v == LEAT_FAST_BYTE_ESCAPE) {
                v = leat_get_u16(wide);
                wide += 2;
            }
            escapes[i + (unsigned)__builtin_ctzll(m) / 4] = v;
        }
    }
}

static void unpack_values(const struct leat_jpeg_streams *s, const uint16_t *escape, int16_t *values)
{
    escape += s->escapes_group - s->e0;
    for (uint32_t g = s->group; g < s->n1; g += 64, values += 64) {
        for (unsigned i = 0; i < 64; i += 8) {
            const uint64_t minus = spread(s->sign[(g + i) / 8]);
            const uint64_t magnitudes =
                UINT64_C(0x0101010101010101) + spread(s->a[(g + i) / 8]) + 2 * spread(s->b[(g + i) / 8]);
            const uint64_t bytes = (magnitudes ^ minus * 255) + minus;
            int8_t small[8];
            memcpy(small, &bytes, 8);
            for (unsigned j = 0; j < 8; j++)
                values[i + j] = small[j];
        }
        /* a loop over many: its end cannot be foretold */
        const uint64_t sign = leat_get_u64(s->sign + g / 8);
        for (uint64_t large = leat_get_u64(s->a + g / 8) & leat_get_u64(s->b + g / 8); large; large &= large - 1) {
            const unsigned i = (unsigned)__builtin_ctzll(large), v = *escape++, negative = sign >> i & 1;
            values[i] = (int16_t)(uint16_t)((v ^ (0 - negative)) + negative);
        }
    }
}

static bool unpack_rest(struct leat_jpeg_streams *s, uint32_t n, const uint8_t *head, const int16_t *dc,
                        const struct leat_jpeg_fast_scratch *scratch, int16_t *out, uint8_t *last)
{
    unpack_escapes(s, scratch->escapes);
    unpack_values(s, scratch->escapes, scratch->values);
    const int16_t *value = scratch->values + (s->n0 - s->group);
    for (uint32_t x = 0; x < n; x++, out += 64) {
        const unsigned bytes = head[x] & 15;
        uint64_t mask = bytes < 8 ? leat_get_u64(s->mask) & leat_low_bits(8 * bytes) : leat_get_u64(s->mask);
        s->mask += bytes;
        if (mask >> 63)
            return false;
        memset(out, 0, 128);
        out[0] = dc[x];
        last[x] = (uint8_t)(mask ? 64 - __builtin_clzll(mask) : 0);
        for (; mask; mask &= mask - 1)
            out[leat_jpeg_natural[__builtin_ctzll(mask) + 1]] = *value++;
    }
    return true;
}

#define unpack_dc leat_unpack_dc
LEAT_JPEG_UNPACK_ROW(leat_jpeg_unpack_row_portable, )
LEAT_JPEG_CHECK_ROW(leat_jpeg_check_row_portable, )
