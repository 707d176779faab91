/*
 * Tables for decoding. An AC code takes some six bits with its value, so a look at the next bits mostly holds more than
 * one coefficient; an entry gives up to two with their values, and the end of the block behind them:
 *
 *     bits looked at   1 1 1 0 0 1 | 0 1 1 | 1 0 1 0 | (rest)
 *                      run 4, -1     +1      end of the block
 *     entry            at1 4, value1 -1, at2 5, value2 +1, bits 13, move 6 + END
 *
 * So the chain from one look to the next, which bounds a decoder, is passed for several coefficients at once.
 */
#include "jpeg/huffman_tables.h"

#include <string.h>

#define LOOK LEAT_JPEG_AC_LOOK

/* Canonical codes: those of a length follow each other, and shorter ones come first. */
static bool make_codes(struct leat_jpeg_codes *codes, const uint8_t bits[17], const uint8_t values[256])
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

static bool is_made_from(const struct leat_jpeg_codes *codes, const uint8_t bits[17], const uint8_t values[256])
{
    return codes->made && !memcmp(codes->bits + 1, bits + 1, 16) && !memcmp(codes->values, values, sizeof codes->values);
}

static leat_jpeg_code code_of(unsigned length, uint8_t symbol)
{
    const unsigned run = symbol >> 4, size = symbol & 15;
    return (leat_jpeg_code)(length | size << 5 | run << 9);
}

leat_jpeg_code leat_jpeg_code_of(const struct leat_jpeg_codes *codes, uint64_t acc)
{
    for (unsigned length = 1; length <= 16; length++) {
        int32_t code = (int32_t)(acc >> (64 - length));
        if (code <= codes->last_code[length])
            return code_of(length, codes->values[code + codes->value_offset[length]]);
    }
    return 0;
}

/* Fills look[2^bits] with the codes of at most so many bits. */
static void fill_look(const struct leat_jpeg_codes *codes, unsigned bits, leat_jpeg_code *look)
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
    fill_look(&table->codes, LEAT_JPEG_DC_LOOK, table->look);
    table->codes.made = true;
    return true;
}

/* ---- looks at AC coefficients ------------------------------------------------------------------------------------- */

static const struct leat_jpeg_ac_look alone = {.move = LEAT_JPEG_ALONE};

/* The first code in the LOOK bits `i`, with its value where that lies in them too. */
static struct leat_jpeg_ac_look first_look(leat_jpeg_code code, uint32_t i)
{
    const unsigned length = leat_jpeg_code_length(code), size = leat_jpeg_code_size(code), run = leat_jpeg_code_run(code);
    if (!code || length + size > LOOK)
        return alone;
    struct leat_jpeg_ac_look e = {.bits = (uint8_t)(length + size)};
    if (size) {
        const int32_t v = (int32_t)(i >> (LOOK - length - size) & ((1u << size) - 1));
        e.value1 = (int16_t)(v >> (size - 1) ? v : v - (1 << size) + 1);
        e.at1 = (uint8_t)run;
        e.move = (uint16_t)(run + 1);
    } else if (run == 15) {
        e.move = 16;
    } else { /* libjpeg takes any run without a value as the end */
        e.move = LEAT_JPEG_END;
    }
    e.at2 = (uint8_t)(e.move & (LEAT_JPEG_END - 1)); /* a 0 is written there, where no coefficient is yet */
    return e;
}

bool leat_jpeg_ac_table_make(struct leat_jpeg_ac_table *table, const uint8_t bits[17], const uint8_t values[256])
{
    if (is_made_from(&table->codes, bits, values))
        return true;
    if (!make_codes(&table->codes, bits, values))
        return false;
    struct leat_jpeg_ac_look first[1 << LOOK];
    fill_look(&table->codes, LOOK, table->code);
    for (uint32_t i = 0; i < 1u << LOOK; i++)
        first[i] = first_look(table->code[i], i);
    for (uint32_t i = 0; i < 1u << LOOK; i++) {
        struct leat_jpeg_ac_look e = first[i];
        for (unsigned more = 0; more < 2 && e.move < LEAT_JPEG_END; more++) {
            const struct leat_jpeg_ac_look next = first[(i << e.bits) & ((1u << LOOK) - 1)];
            const bool end = next.move == LEAT_JPEG_END;
            if (next.move >= LEAT_JPEG_ALONE || e.bits + next.bits > LOOK || (more && !end) || (int8_t)next.value1 != next.value1)
                break;
            if (!end) {
                e.at2 = (uint8_t)(e.move + next.at1);
                e.value2 = (int8_t)next.value1;
            }
            e.bits = (uint8_t)(e.bits + next.bits);
            e.move = (uint16_t)(e.move + next.move);
        }
        table->look[i] = e;
    }
    table->codes.made = true;
    return true;
}
