/*
 * The places of the streams of a row of blocks, and the DC values: the part of unpacking that is the same for every
 * instruction set, compiled into each.
 *
 *     heads | dc bits | mask bytes | signs | class bits A | class bits B | nibbles | bytes | u16
 *
 * The length of a stream follows from those before it: the heads tell the bits of the DCs and the bytes of the masks,
 * the ones of the masks are as many as bits in each plane, places where A and B are both set as many as nibbles,
 * nibbles of 15 as many as bytes, bytes of 255 as many as u16. So one comparison with the row's length makes all
 * reading safe that stays within these counts, and counting only up to a column gives the place of that column.
 * Counting is cheap: streams of bits are counted 64 at a time.
 */
#ifndef LEAT_CODEC_JPEG_FAST_ROW_H
#define LEAT_CODEC_JPEG_FAST_ROW_H

#include "base/bytes.h"
#include "codec/jpeg/fast_format.h"

struct leat_jpeg_streams {
    const uint8_t *head, *dc;            /* of the row's first column */
    const uint8_t *mask;                 /* of column x0 */
    const uint8_t *sign, *a, *b;         /* planes, from the row's first coefficient */
    const uint8_t *nibble, *byte, *wide; /* from the row's first */
    uint32_t n0, n1;                     /* coefficients before x0, before x1 */
    uint32_t group;                      /* n0 rounded down to a multiple of 64 */
    uint32_t escapes_group;              /* nibbles before coefficient `group` */
    uint32_t e0, e1;                     /* the same rounded down to an even number; nibbles before x1 */
    uint32_t f0, w0;                     /* bytes and u16 before nibble e0 */
    uint32_t wides;                      /* u16 of the whole row */
};

LEAT_INLINE uint64_t leat_low_bits(unsigned n) /* n below 64 */
{
    return (UINT64_C(1) << n) - 1;
}

/* Adds up n heads; false if one asks for more than 8 bytes of mask. */
LEAT_INLINE bool leat_add_heads(const uint8_t *head, uint32_t n, uint32_t *mask_bytes, uint32_t *dc_bits)
{
    const uint64_t nibbles = UINT64_C(0x0f0f0f0f0f0f0f0f), ones = UINT64_C(0x0101010101010101);
    uint64_t bad = 0;
    uint32_t bytes = 0, bits = 0;
    for (uint32_t i = 0; i < n; i += 8) {
        uint64_t x = leat_get_u64(head + i);
        if (n - i < 8)
            x &= leat_low_bits(8 * (n - i));
        const uint64_t low = x & nibbles;
        bad |= low + 7 * ones;
        bytes += (uint32_t)(low * ones >> 56);
        bits += (uint32_t)((x >> 4 & nibbles) * ones >> 56);
    }
    *mask_bytes = bytes;
    *dc_bits = bits;
    return !(bad & 16 * ones);
}

LEAT_INLINE uint32_t leat_count_ones(const uint8_t *p, uint32_t bytes)
{
    uint32_t n = 0;
    for (; bytes >= 8; bytes -= 8, p += 8)
        n += (uint32_t)__builtin_popcountll(leat_get_u64(p));
    if (bytes)
        n += (uint32_t)__builtin_popcountll(leat_get_u64(p) & leat_low_bits(8 * bytes));
    return n;
}

/* Ones that two planes have in common, in bits [from, to), `from` a multiple of 64. */
LEAT_INLINE uint32_t leat_count_both(const uint8_t *a, const uint8_t *b, uint32_t from, uint32_t to)
{
    uint32_t n = 0;
    for (; to - from >= 64; from += 64)
        n += (uint32_t)__builtin_popcountll(leat_get_u64(a + from / 8) & leat_get_u64(b + from / 8));
    if (from < to)
        n += (uint32_t)__builtin_popcountll(leat_get_u64(a + from / 8) & leat_get_u64(b + from / 8) &
                                            leat_low_bits(to - from));
    return n;
}

/* Bit 4k is set for each k-th nibble of 15. */
LEAT_INLINE uint64_t leat_nibbles_of_15(uint64_t x)
{
    x &= x >> 1;
    x &= x >> 2;
    return x & UINT64_C(0x1111111111111111);
}

/* Nibbles of 15 among [from, to), `from` even. */
LEAT_INLINE uint32_t leat_count_15(const uint8_t *nibble, uint32_t from, uint32_t to)
{
    uint32_t n = 0;
    for (; to - from >= 16; from += 16)
        n += (uint32_t)__builtin_popcountll(leat_nibbles_of_15(leat_get_u64(nibble + from / 2)));
    if (from < to)
        n += (uint32_t)__builtin_popcountll(leat_nibbles_of_15(leat_get_u64(nibble + from / 2)) &
                                            leat_low_bits(4 * (to - from)));
    return n;
}

/* Bytes of 255 among [from, to). */
LEAT_INLINE uint32_t leat_count_255(const uint8_t *byte, uint32_t from, uint32_t to)
{
    uint32_t n = 0;
    for (; from < to; from += 8) {
        uint64_t x = leat_get_u64(byte + from);
        x &= x >> 1;
        x &= x >> 2;
        x &= x >> 4 & UINT64_C(0x0101010101010101);
        if (to - from < 8)
            x &= leat_low_bits(8 * (to - from));
        n += (uint32_t)__builtin_popcountll(x);
    }
    return n;
}

/* The streams that every block has. False: they do not fit the row. */
LEAT_INLINE bool leat_locate_heads(struct leat_jpeg_streams *s, const uint8_t *row, size_t length, uint32_t blocks,
                                   uint32_t x0, uint32_t *mask_bytes_before, uint32_t *mask_bytes)
{
    uint32_t dc_before, dc_rest, rest;
    s->head = row;
    s->dc = row + blocks;
    if (length < blocks || !leat_add_heads(row, x0, mask_bytes_before, &dc_before) ||
        !leat_add_heads(row + x0, blocks - x0, &rest, &dc_rest))
        return false;
    *mask_bytes = *mask_bytes_before + rest;
    const size_t dc_bytes = ((size_t)dc_before + dc_rest + 7) / 8;
    s->mask = s->dc + dc_bytes;
    return length - blocks >= dc_bytes && length - blocks - dc_bytes >= *mask_bytes;
}

/* All others, for columns [x0, x1). False: they are not together as long as the row. */
LEAT_INLINE bool leat_locate_rest(struct leat_jpeg_streams *s, size_t length, uint32_t blocks, uint32_t x0, uint32_t x1,
                                  uint32_t mask_bytes_before, uint32_t mask_bytes)
{
    uint32_t mask_bytes_within, ignored;
    const uint8_t *const end = s->head + length;
    if (x1 == blocks)
        mask_bytes_within = mask_bytes - mask_bytes_before;
    else
        leat_add_heads(s->head + x0, x1 - x0, &mask_bytes_within, &ignored);
    s->sign = s->mask + mask_bytes;
    s->n0 = leat_count_ones(s->mask, mask_bytes_before);
    s->mask += mask_bytes_before;
    s->n1 = s->n0 + leat_count_ones(s->mask, mask_bytes_within);
    const uint32_t n =
        s->n1 + leat_count_ones(s->mask + mask_bytes_within, mask_bytes - mask_bytes_before - mask_bytes_within);
    const size_t plane = (n + 7) / 8;
    if ((size_t)(end - s->sign) < 3 * plane)
        return false;
    s->a = s->sign + plane;
    s->b = s->a + plane;
    s->nibble = s->b + plane;

    s->group = s->n0 & ~UINT32_C(63);
    s->escapes_group = leat_count_both(s->a, s->b, 0, s->group);
    uint32_t e;
    if (x1 == blocks) {
        s->e1 = e = s->escapes_group + leat_count_both(s->a, s->b, s->group, n);
    } else {
        const uint32_t last_group = s->n1 & ~UINT32_C(63),
                       before = s->escapes_group + leat_count_both(s->a, s->b, s->group, last_group);
        s->e1 = before + leat_count_both(s->a, s->b, last_group, s->n1);
        e = before + leat_count_both(s->a, s->b, last_group, n);
    }
    if ((size_t)(end - s->nibble) < (e + 1) / 2)
        return false;
    s->byte = s->nibble + (e + 1) / 2;
    s->e0 = s->escapes_group & ~UINT32_C(1);
    s->f0 = leat_count_15(s->nibble, 0, s->e0);
    const uint32_t f = s->f0 + leat_count_15(s->nibble, s->e0, e);
    if ((size_t)(end - s->byte) < f)
        return false;
    s->wide = s->byte + f;
    s->w0 = leat_count_255(s->byte, 0, s->f0);
    s->wides = s->w0 + leat_count_255(s->byte, s->f0, f);
    return (size_t)(end - s->wide) == 2 * (size_t)s->wides;
}

/* The DC values of the first n columns: a bit field for each, the difference to the one before as JPEG codes it. */
LEAT_INLINE void leat_unpack_dc(const struct leat_jpeg_streams *s, uint32_t n, int16_t *dc)
{
    uint32_t bit = 0, value = 0;
    for (uint32_t x = 0; x < n; x++) {
        const unsigned bits = s->head[x] >> 4;
        const uint32_t ones = (UINT32_C(1) << bits) - 1,
                       code = (uint32_t)(leat_get_u64(s->dc + bit / 8) >> bit % 8) & ones;
        value += code - (code > ones >> 1 ? 0 : ones);
        bit += bits;
        dc[x] = (int16_t)(uint16_t)value;
    }
}

/* A row, as leat_jpeg_unpack_row_fn says, with two steps of an instruction set: the DC values of the first columns, and
 * the other coefficients of n columns, whose heads and DC values are given. */
LEAT_INLINE bool leat_unpack_row(void (*unpack_dc)(const struct leat_jpeg_streams *s, uint32_t n, int16_t *dc),
                                 bool (*unpack_rest)(struct leat_jpeg_streams *s, uint32_t n, const uint8_t *head,
                                                     const int16_t *dc, const struct leat_jpeg_fast_scratch *scratch,
                                                     int16_t *out, uint8_t *last),
                                 const uint8_t *row, size_t length, uint32_t blocks, uint32_t x0, uint32_t x1,
                                 bool dc_only, const struct leat_jpeg_fast_scratch *scratch, int16_t *out,
                                 uint8_t *last)
{
    struct leat_jpeg_streams s;
    uint32_t mask_bytes_before, mask_bytes;
    const int16_t *dc = scratch->dc + x0;
    if (!leat_locate_heads(&s, row, length, blocks, x0, &mask_bytes_before, &mask_bytes))
        return false;
    unpack_dc(&s, x1, scratch->dc);
    if (!dc_only)
        return leat_locate_rest(&s, length, blocks, x0, x1, mask_bytes_before, mask_bytes) &&
               unpack_rest(&s, x1 - x0, row + x0, dc, scratch, out, last);
    memset(last, 0, x1 - x0);
    memset(out, 0, 128 * (size_t)(x1 - x0)); /* at once: gcc makes slow instructions of one for each block */
    for (uint32_t x = 0; x < x1 - x0; x++)
        out[64 * (size_t)x] = dc[x];
    return true;
}

/* Whether leat_unpack_row would make sense of a row, all but the values of which are counted. */
LEAT_INLINE bool leat_check_row(const uint8_t *row, size_t length, uint32_t blocks, uint32_t x0, uint32_t x1)
{
    struct leat_jpeg_streams s;
    uint32_t mask_bytes_before, mask_bytes;
    unsigned beyond = 0; /* the last byte of masks of eight: its last bit would be coefficient 64 */
    if (!leat_locate_heads(&s, row, length, blocks, x0, &mask_bytes_before, &mask_bytes) ||
        !leat_locate_rest(&s, length, blocks, x0, x1, mask_bytes_before, mask_bytes))
        return false;
    for (uint32_t x = x0; x < x1; x++) {
        const unsigned bytes = row[x] & 15;
        s.mask += bytes;
        beyond |= s.mask[-1] & (bytes == 8 ? 0x80 : 0);
    }
    return !beyond;
}

/* The functions for an instruction set, the first of the steps unpack_dc and unpack_rest. */
#define LEAT_JPEG_UNPACK_ROW(NAME, TARGET)                                                                             \
    TARGET bool NAME(const uint8_t *row, size_t length, uint32_t blocks, uint32_t x0, uint32_t x1, bool dc_only,       \
                     const struct leat_jpeg_fast_scratch *scratch, int16_t *out, uint8_t *last)                        \
    {                                                                                                                  \
        return leat_unpack_row(unpack_dc, unpack_rest, row, length, blocks, x0, x1, dc_only, scratch, out, last);      \
    }
#define LEAT_JPEG_CHECK_ROW(NAME, TARGET)                                                                              \
    TARGET bool NAME(const uint8_t *row, size_t length, uint32_t blocks, uint32_t x0, uint32_t x1)                     \
    {                                                                                                                  \
        return leat_check_row(row, length, blocks, x0, x1);                                                            \
    }

#endif
