/*
 * Tables for decoding. An AC code takes some six bits with its value, so a look at the next bits mostly holds more than
 * one coefficient; an entry gives up to two with their values, and the end of the block behind them:
 *
 *     bits looked at   1 1 1 0 0 1 | 0 1 1 | 1 0 (rest)
 *                      run 4, -1     +1      end of the block
 *     entry            at1 4, value1 -1, at2 5, value2 +1, bits 11, move 6 + END
 *
 * So the chain from one look to the next, which bounds a decoder, is passed for several coefficients at once. A value
 * that is partly beyond the look has its sign in it, at least: the rest is added.
 *
 * Many photos have tables of their own, so making them is quick: codes of a length are neighbours, so an entry's first
 * coefficient is the same for a run of entries, and the values that can follow in r bits are found once for each r.
 */
#include "codec/jpeg/huffman_tables.h"

#include <string.h>

#define LOOK LEAT_JPEG_AC_LOOK

/* Canonical codes: those of a length follow each other, and shorter ones come first. */
static bool make_codes(struct leat_jpeg_canonical_codes *codes, const uint8_t bits[17], const uint8_t values[256])
{
    uint32_t code = 0, n = 0;
    codes->made = false;
    memcpy(codes->bits, bits, sizeof codes->bits);
    memcpy(codes->values, values, sizeof codes->values);
    for (unsigned length = 1; length <= 16; length++, code <<= 1) {
        uint32_t count = bits[length];
        if (n + count > 256 || code + count >= 1u << length) /* no code is all ones */
            return false;
        codes->value_offset[length] = (int32_t)n - (int32_t)code;
        n += count;
        code += count;
        codes->last_code[length] = count ? (int32_t)code - 1 : -1;
    }
    return true;
}

static bool is_made_from(const struct leat_jpeg_canonical_codes *codes, const uint8_t bits[17],
                         const uint8_t values[256])
{
    return codes->made && !memcmp(codes->bits + 1, bits + 1, 16) &&
           !memcmp(codes->values, values, sizeof codes->values);
}

static leat_jpeg_code code_of(unsigned length, uint8_t symbol)
{
    const unsigned run = symbol >> 4, size = symbol & 15;
    return (leat_jpeg_code)(length | size << 5 | run << 9);
}

leat_jpeg_code leat_jpeg_code_of(const struct leat_jpeg_canonical_codes *codes, unsigned least, uint64_t acc)
{
    for (unsigned length = least; length <= 16; length++) {
        int32_t code = (int32_t)(acc >> (64 - length));
        if (code <= codes->last_code[length])
            return code_of(length, codes->values[code + codes->value_offset[length]]);
    }
    return 0;
}

/* Fills look[2^bits] with the codes of at most so many bits. */
static void fill_look(const struct leat_jpeg_canonical_codes *codes, unsigned bits, leat_jpeg_code *look)
{
    leat_jpeg_code *out = look, *end = look + ((size_t)1 << bits);
    unsigned n = 0;
    for (unsigned length = 1; length <= bits; length++)
        for (unsigned i = 0; i < codes->bits[length]; i++, n++) {
            const leat_jpeg_code code = code_of(length, codes->values[n]);
            for (size_t k = (size_t)1 << (bits - length); k; k--)
                *out++ = code;
        }
    memset(out, 0, (size_t)(end - out) * sizeof *out);
}

static int16_t value_of(uint32_t v, unsigned size)
{
    return (int16_t)(v >> (size - 1) ? (int32_t)v : (int32_t)v - (1 << size) + 1);
}

static void fill_dc_look(const struct leat_jpeg_canonical_codes *codes, union leat_jpeg_dc_look *look)
{
    union leat_jpeg_dc_look *const behind = look + (1 << LEAT_JPEG_DC_LOOK);
    unsigned n = 0;
    for (unsigned length = 1; length <= LEAT_JPEG_DC_LOOK; length++)
        for (unsigned i = 0; i < codes->bits[length]; i++, n++) {
            const unsigned size = codes->values[n], left = LEAT_JPEG_DC_LOOK - length, seen = size < left ? size : left;
            union leat_jpeg_dc_look e = {.bits = (uint8_t)(length + size), .more = (uint8_t)(size - seen)};
            for (uint32_t v = 0; v < 1u << seen; v++) {
                if (size)
                    e.value = value_of(v << e.more, size);
                if (size && !seen)
                    e.all = 0; /* not even the sign is there */
                for (uint32_t k = 0; k < 1u << (left - seen); k++)
                    *look++ = e;
            }
        }
    memset(look, 0, (size_t)(behind - look) * sizeof *look);
}

bool leat_jpeg_dc_table_make(struct leat_jpeg_dc_table *table, const uint8_t bits[17], const uint8_t values[256])
{
    if (is_made_from(&table->codes, bits, values))
        return true;
    if (!make_codes(&table->codes, bits, values))
        return false;
    unsigned n = 0;
    for (unsigned length = 1; length <= 16; length++)
        n += bits[length];
    for (unsigned i = 0; i < n; i++)
        if (values[i] > 15)
            return false;
    fill_dc_look(&table->codes, table->look);
    table->codes.made = true;
    return true;
}

/* ---- looks at AC coefficients ---------------------------------------------------------------- */

static void fill_with(union leat_jpeg_ac_look *look, size_t n, uint64_t all)
{
    for (size_t i = 0; i < n; i++)
        look[i].all = all;
}

/* The addition to a coefficient for the r bits behind it, by these bits. `end`: the code of the end of a block; 0:
 * there is none. */
static void fill_second(const struct leat_jpeg_canonical_codes *codes, unsigned r, leat_jpeg_code end,
                        uint32_t end_bits, union leat_jpeg_ac_look *out)
{
    union leat_jpeg_ac_look *const behind = out + ((size_t)1 << r);
    const unsigned end_length = leat_jpeg_code_length(end);
    unsigned n = 0;
    for (unsigned length = 1; length <= r; length++)
        for (unsigned i = 0; i < codes->bits[length]; i++, n++) {
            const unsigned run = codes->values[n] >> 4, size = codes->values[n] & 15;
            const size_t across = (size_t)1 << (r - length);
            union leat_jpeg_ac_look e = {.bits = (uint8_t)length};
            if (!size) {
                e.move = run == 15 ? 16 : LEAT_JPEG_END;
                fill_with(out, across, e.all);
            } else if (length + size > r || size > 7) {
                fill_with(out, across, 0);
            } else {
                const unsigned left = r - length - size;
                e.bits = (uint8_t)(length + size);
                e.at2 = (uint8_t)run;
                e.move = (uint8_t)(run + 1);
                for (uint32_t v = 0; v < 1u << size; v++) {
                    union leat_jpeg_ac_look *at = out + ((size_t)v << left);
                    e.value2 = (int8_t)value_of(v, size);
                    fill_with(at, (size_t)1 << left, e.all);
                    if (end && end_length <= left) {
                        union leat_jpeg_ac_look with_end = e;
                        with_end.bits = (uint8_t)(e.bits + end_length);
                        with_end.move = (uint8_t)(e.move + LEAT_JPEG_END);
                        fill_with(at + ((size_t)end_bits << (left - end_length)), (size_t)1 << (left - end_length),
                                  with_end.all);
                    }
                }
            }
            out += across;
        }
    fill_with(out, (size_t)(behind - out), 0);
}

static const union leat_jpeg_ac_look alone = {.move = LEAT_JPEG_ALONE};

/* One coefficient, or sixteen zeros, and the codes that may follow in the `left` bits behind. */
static void fill_first(union leat_jpeg_ac_look *look, union leat_jpeg_ac_look e, const union leat_jpeg_ac_look *second,
                       unsigned left)
{
    e.at2 = e.move; /* without a second one a 0 is written there, where no coefficient is yet */
    for (size_t i = 0; i < (size_t)1 << left; i++)
        look[i].all = e.all + second[i].all;
}

static void fill_ac_look(const struct leat_jpeg_canonical_codes *codes, union leat_jpeg_ac_look *look)
{
    union leat_jpeg_ac_look *const behind = look + (1 << LOOK), second[1 << LOOK]; /* the value of r bits: from 2^r
                                                                                    * on */
    leat_jpeg_code end = 0;
    uint32_t code = 0, end_bits = 0;
    unsigned n = 0;
    for (unsigned length = 1; length <= LOOK; length++, code <<= 1)
        for (unsigned i = 0; i < codes->bits[length]; i++, n++, code++)
            if (!codes->values[n]) {
                end = code_of(length, 0);
                end_bits = code;
            }
    for (unsigned r = 0; r < LOOK; r++)
        fill_second(codes, r, end, end_bits, second + ((size_t)1 << r));
    n = 0;
    for (unsigned length = 1; length <= LOOK; length++)
        for (unsigned i = 0; i < codes->bits[length]; i++, n++) {
            const unsigned run = codes->values[n] >> 4, size = codes->values[n] & 15, left = LOOK - length;
            union leat_jpeg_ac_look e = {
                .bits = (uint8_t)(length + size), .at1 = (uint8_t)run, .move = (uint8_t)(run + 1)};
            if (!size && run < 15) { /* libjpeg takes any run without a value as the end */
                e.at1 = 0;
                e.move = LEAT_JPEG_END;
                fill_with(look, (size_t)1 << left, e.all);
            } else if (!size) {
                e.at1 = 0;
                fill_first(look, e, second + ((size_t)1 << left), left);
            } else if (size <= left) {
                for (uint32_t v = 0; v < 1u << size; v++) {
                    e.value1 = value_of(v, size);
                    fill_first(look + ((size_t)v << (left - size)), e, second + ((size_t)1 << (left - size)),
                               left - size);
                }
            } else if (left && length + size <= LEAT_JPEG_LOOK_BITS) {
                e.more = (uint8_t)(size - left);
                e.at2 = e.move;
                for (uint32_t v = 0; v < 1u << left; v++) {
                    e.value1 = value_of(v << e.more, size);
                    look[v] = e;
                }
            } else {
                fill_with(look, (size_t)1 << left, alone.all);
            }
            look += (size_t)1 << left;
        }
    fill_with(look, (size_t)(behind - look), alone.all);
    behind->all = 0;
}

bool leat_jpeg_ac_table_make(struct leat_jpeg_ac_table *table, const uint8_t bits[17], const uint8_t values[256])
{
    if (is_made_from(&table->codes, bits, values))
        return true;
    if (!make_codes(&table->codes, bits, values))
        return false;
    fill_look(&table->codes, LOOK, table->code);
    fill_ac_look(&table->codes, table->look);
    table->codes.made = true;
    return true;
}
