/*
 * Packing a row of the decode-fast form in plain C, stream after stream; what belongs to a stream whose place is not known
 * yet waits in a buffer:
 *
 *     blocks -> heads, dc bits, (mask bytes), (values: coefficients other than 0)
 *     values -> planes, (magnitudes above 3)
 *     these  -> nibbles, (bytes), (u16)
 */
#include "base/bytes.h"
#include "jpeg/fast_format.h"

/* Heads, DC bits and masks of a row, and its coefficients other than 0. False: a DC difference needs 16 bits. */
static bool write_blocks(const int16_t *block, uint32_t blocks, uint8_t *head, uint8_t **end, uint8_t *mask, size_t *mask_bytes,
                         int16_t *values, uint32_t *n_values)
{
    uint8_t *dc = head + blocks;
    uint64_t pending = 0;
    unsigned held = 0;
    uint32_t n = 0;
    uint16_t before = 0;
    const uint8_t *const mask_begin = mask;
    for (uint32_t x = 0; x < blocks; x++, block += 64) {
        const int difference = (int16_t)(uint16_t)((uint16_t)block[0] - before);
        if (difference == INT16_MIN)
            return false;
        before = (uint16_t)block[0];
        const unsigned size = (unsigned)(difference < 0 ? -difference : difference), bits = size ? 32 - (unsigned)__builtin_clz(size) : 0;
        const unsigned code = (unsigned)(difference < 0 ? difference + (1 << bits) - 1 : difference);
        pending |= (uint64_t)code << held;
        held += bits;
        leat_put_u64(dc, pending);
        dc += held / 8;
        pending >>= held & ~7u;
        held &= 7;

        uint64_t ones = 0;
        for (unsigned k = 1; k < 64; k++) {
            const int16_t v = block[leat_jpeg_natural[k]];
            values[n] = v;
            n += v != 0;
            ones |= (uint64_t)(v != 0) << (k - 1);
        }
        const unsigned bytes = ones ? 8 - (unsigned)__builtin_clzll(ones) / 8 : 0;
        leat_put_u64(mask, ones);
        mask += bytes;
        head[x] = (uint8_t)(bits << 4 | bytes);
    }
    *end = dc + (held ? 1 : 0);
    *mask_bytes = (size_t)(mask - mask_begin);
    *n_values = n;
    return true;
}

/* The three planes of n values, and the magnitudes above 3. */
static uint8_t *write_planes(const int16_t *values, uint32_t n, uint8_t *out, uint16_t *escapes, uint32_t *n_escapes)
{
    const size_t plane = (n + 7) / 8;
    uint32_t e = 0;
    for (uint32_t g = 0; g < n; g += 64) {
        const uint32_t in_group = n - g < 64 ? n - g : 64;
        uint64_t sign = 0, a = 0, b = 0;
        for (unsigned i = 0; i < in_group; i++) {
            const int v = values[g + i];
            const unsigned magnitude = (unsigned)(v < 0 ? -v : v), class = magnitude > 3 ? LEAT_FAST_CLASS_ESCAPE : magnitude - 1;
            sign |= (uint64_t)(v < 0) << i;
            a |= (uint64_t)(class & 1) << i;
            b |= (uint64_t)(class >> 1) << i;
            escapes[e] = (uint16_t)magnitude;
            e += class == LEAT_FAST_CLASS_ESCAPE;
        }
        const size_t bytes = (in_group + 7) / 8;
        memcpy(out + g / 8, &sign, bytes);
        memcpy(out + plane + g / 8, &a, bytes);
        memcpy(out + 2 * plane + g / 8, &b, bytes);
    }
    *n_escapes = e;
    return out + 3 * plane;
}

static uint8_t *write_escapes(uint16_t *escapes, uint32_t n, uint8_t *out, uint8_t *bytes, uint8_t *wides)
{
    uint8_t *byte = bytes, *wide = wides;
    escapes[n] = LEAT_FAST_NIBBLE_BASE; /* the half of a byte that an odd number leaves is 0 */
    for (uint32_t i = 0; i < n; i += 2) {
        unsigned nibble[2];
        for (unsigned j = 0; j < 2; j++) {
            const unsigned v = escapes[i + j];
            nibble[j] = v - LEAT_FAST_NIBBLE_BASE;
            if (nibble[j] >= LEAT_FAST_NIBBLE_ESCAPE) {
                nibble[j] = LEAT_FAST_NIBBLE_ESCAPE;
                *byte++ = (uint8_t)(v < LEAT_FAST_BYTE_ESCAPE ? v : LEAT_FAST_BYTE_ESCAPE);
                leat_put_u16(wide, (uint16_t)v);
                wide += v < LEAT_FAST_BYTE_ESCAPE ? 0 : 2;
            }
        }
        *out++ = (uint8_t)(nibble[0] | nibble[1] << 4);
    }
    memcpy(out, bytes, (size_t)(byte - bytes));
    out += byte - bytes;
    memcpy(out, wides, (size_t)(wide - wides));
    return out + (wide - wides);
}

size_t leat_jpeg_pack_row_portable(const int16_t *coefficients, uint32_t blocks, int16_t *values, uint8_t *work, uint8_t *row)
{
    uint8_t *out;
    size_t mask_bytes;
    uint32_t n, n_escapes;
    if (!write_blocks(coefficients, blocks, row, &out, work, &mask_bytes, values, &n))
        return 0;
    memcpy(out, work, mask_bytes);
    uint16_t *const escapes = (uint16_t *)(void *)work;
    out = write_planes(values, n, out + mask_bytes, escapes, &n_escapes);
    uint8_t *const bytes = work + 2 * ((size_t)n_escapes + 1);
    out = write_escapes(escapes, n_escapes, out, bytes, bytes + n_escapes);
    return (size_t)(out - row);
}
