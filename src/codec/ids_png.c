/*
 * A PNG (ISO/IEC 15948) of class ids. Rows are differences from the one above (filter 2), which are nearly all 0 if
 * areas are large; runs of one byte are copies from one byte before, in a single block of deflate (RFC 1951) with its
 * fixed codes:
 *
 *     ids 7 7 7 7 7 7 3    row: 2 7 7 7 7 7 7 3    deflate: 2, 7, copy 5, 3
 *
 * zlib's deflate gives other bytes in other versions and builds; these are in a fingerprint, and are the same on each
 * machine.
 */
#include "codec/ids_png.h"

#include <string.h>
#include <zlib.h>

#include "base/alloc.h"

enum { SHORTEST = 3, LONGEST = 258, END = 256, FILTER_UP = 2 };

struct bits {
    struct leat_shape_bytes *to;
    uint64_t held;
    unsigned n;
    bool failed;
};

static void put_bytes(struct bits *b, const void *p, size_t n)
{
    struct leat_shape_bytes *to = b->to;
    if (!b->failed && leat_grow(&to->data, &to->room, to->n + n, 1)) {
        memcpy(to->data + to->n, p, n);
        to->n += n;
    } else {
        b->failed = true;
    }
}

static void put_number(struct bits *b, uint32_t v)
{
    const uint8_t p[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
    put_bytes(b, p, 4);
}

/* The lowest bit first. */
static void put_bits(struct bits *b, uint32_t v, unsigned n)
{
    b->held |= (uint64_t)v << b->n;
    for (b->n += n; b->n >= 8; b->n -= 8, b->held >>= 8) {
        const uint8_t byte = (uint8_t)b->held;
        put_bytes(b, &byte, 1);
    }
}

/* A code, whose highest bit comes first. */
static void put_code(struct bits *b, uint32_t code, unsigned n)
{
    uint32_t turned = 0;
    for (unsigned i = 0; i < n; i++)
        turned |= (code >> i & 1) << (n - 1 - i);
    put_bits(b, turned, n);
}

static void put_symbol(struct bits *b, unsigned symbol)
{
    if (symbol < 144)
        put_code(b, 0x30 + symbol, 8);
    else if (symbol < 256)
        put_code(b, 0x190 + symbol - 144, 9);
    else if (symbol < 280)
        put_code(b, symbol - 256, 7);
    else
        put_code(b, 0xc0 + symbol - 280, 8);
}

/* `n` bytes more like the last one: SHORTEST to LONGEST. Lengths from 11 on share symbols; bits behind say which it is.
 */
static void put_copy(struct bits *b, unsigned n)
{
    unsigned symbol = n + 254, extra = 0;
    if (n == LONGEST) {
        symbol = 285;
    } else if (n > 10) {
        while ((n - SHORTEST) >> (extra + 3))
            extra++;
        symbol = 257 + 4 * extra + ((n - SHORTEST) >> extra);
    }
    put_symbol(b, symbol);
    put_bits(b, n == LONGEST ? 0 : (n - SHORTEST) & ((1u << extra) - 1), extra);
    put_code(b, 0, 5); /* from one byte before */
}

static void put_row(struct bits *b, const uint8_t *row, size_t n)
{
    for (size_t i = 0; i < n;) {
        put_symbol(b, row[i]);
        size_t end = i + 1;
        while (end < n && row[end] == row[i])
            end++;
        const uint8_t v = row[i];
        for (i++; end - i >= SHORTEST;) {
            const size_t copied = end - i < LONGEST ? end - i : LONGEST;
            put_copy(b, (unsigned)copied);
            i += copied;
        }
        for (; i < end; i++)
            put_symbol(b, v);
    }
}

static size_t begin_chunk(struct bits *b, const char type[4])
{
    const size_t at = b->to->n;
    put_number(b, 0);
    put_bytes(b, type, 4);
    return at;
}

static void end_chunk(struct bits *b, size_t at)
{
    if (b->failed)
        return;
    const size_t length = b->to->n - at - 8;
    const uint32_t sum = (uint32_t)crc32_z(0, b->to->data + at + 4, length + 4);
    for (unsigned i = 0; i < 4; i++)
        b->to->data[at + i] = (uint8_t)(length >> (24 - 8 * i));
    put_number(b, sum);
}

bool leat_ids_png(struct leat_shape_bytes *to, const uint8_t *ids, uint32_t w, uint32_t h)
{
    struct bits b = {.to = to};
    uint8_t *row = leat_alloc((size_t)w + 1);
    uLong sum = adler32(0, NULL, 0);
    if (!row)
        return false;
    put_bytes(&b, "\x89PNG\r\n\x1a\n", 8);
    size_t chunk = begin_chunk(&b, "IHDR");
    put_number(&b, w);
    put_number(&b, h);
    put_bytes(&b, "\x08\0\0\0\0", 5); /* 8 bits, gray */
    end_chunk(&b, chunk);
    chunk = begin_chunk(&b, "IDAT");
    put_bytes(&b, "\x78\x01", 2);
    put_bits(&b, 1 | 1 << 1, 3); /* the last block, with fixed codes */
    row[0] = FILTER_UP;
    for (uint32_t y = 0; y < h && !b.failed; y++) {
        const uint8_t *line = ids + (size_t)y * w;
        for (uint32_t x = 0; x < w; x++)
            row[x + 1] = (uint8_t)(line[x] - (y ? line[(ptrdiff_t)x - (ptrdiff_t)w] : 0));
        sum = adler32_z(sum, row, (size_t)w + 1);
        put_row(&b, row, (size_t)w + 1);
    }
    put_symbol(&b, END);
    put_bits(&b, 0, (8 - b.n) % 8);
    put_number(&b, (uint32_t)sum);
    end_chunk(&b, chunk);
    end_chunk(&b, begin_chunk(&b, "IEND"));
    leat_free(row);
    return !b.failed;
}
