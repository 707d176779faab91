/*
 * Payloads in the decode-fast form of a JPEG, of any bytes: two for the target, then, if the first one is even, a
 * payload. If it is odd, what follows becomes rows of blocks of the lengths that its own heads and masks ask for, so
 * that bytes of any sort reach the deepest streams.
 */
#ifndef LEAT_FUZZ_FAST_H
#define LEAT_FUZZ_FAST_H

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "codec/jpeg/fast_format.h"

#define FUZZ_ASSERT(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            __builtin_trap();                                                                                          \
    } while (0)
#define MAX_BLOCKS 65536u /* more say nothing new */

/* ---- a reader without vectors, tables or checks: one row ---- */

struct bits {
    const uint8_t *p;
    size_t at;
};
static inline unsigned take(struct bits *b, unsigned n)
{
    unsigned v = 0;
    for (unsigned i = 0; i < n; i++, b->at++)
        v |= (unsigned)(b->p[b->at / 8] >> b->at % 8 & 1) << i;
    return v;
}

/* Unpacks `blocks` blocks from bytes that never end, and returns how many bytes they took; 0 if a head or mask is
 * none. */
static inline size_t naive_row(const uint8_t *p, uint32_t blocks, int16_t *out)
{
    struct bits s = {p + blocks, 0};
    uint16_t dc = 0;
    size_t n = 0, m = 0, q = 0, words = 0;
    memset(out, 0, 128 * (size_t)blocks);
    for (uint32_t x = 0; x < blocks; x++) {
        const unsigned bits = p[x] >> 4, code = take(&s, bits);
        dc = (uint16_t)(dc + code - (bits && !(code >> (bits - 1)) ? (1u << bits) - 1 : 0));
        out[64 * x] = (int16_t)dc;
        if ((p[x] & 15) > 8)
            return 0;
    }
    struct bits mask = {s.p + (s.at + 7) / 8, 0};
    for (uint32_t x = 0; x < blocks; x++)
        for (unsigned k = 1; k <= 8u * (p[x] & 15); k++)
            if (take(&mask, 1)) {
                if (k == 64)
                    return 0;
                out[64 * x + leat_jpeg_natural[k]] = 1;
                n++;
            }
    struct bits sign = {mask.p + mask.at / 8, 0}, a = {sign.p + (n + 7) / 8, 0}, b = {a.p + (n + 7) / 8, 0};
    for (size_t i = 0; i < n; i++)
        m += take(&a, 1) & take(&b, 1);
    struct bits nibble = {b.p + (n + 7) / 8, 0};
    for (size_t i = 0; i < m; i++)
        q += take(&nibble, 4) == 15;
    const uint8_t *byte = nibble.p + (m + 1) / 2;
    for (size_t i = 0; i < q; i++)
        words += byte[i] == 255;
    const uint8_t *word = byte + q, *const end = word + 2 * words;
    a.at = b.at = nibble.at = 0;
    for (uint32_t x = 0; x < blocks; x++)
        for (unsigned k = 1; k < 64; k++) {
            int16_t *const to = &out[64 * x + leat_jpeg_natural[k]];
            if (!*to)
                continue;
            const unsigned low = take(&a, 1), high = take(&b, 1);
            unsigned magnitude = 1 + low + 2 * high;
            if (low & high) {
                const unsigned more = take(&nibble, 4);
                magnitude = 4 + more;
                if (more == 15 && (magnitude = *byte++) == 255) {
                    magnitude = leat_get_u16(word);
                    word += 2;
                }
            }
            *to = (int16_t)(uint16_t)(take(&sign, 1) ? 0 - magnitude : magnitude);
        }
    return (size_t)(end - p);
}

/* ---- payloads ---- */

static inline uint8_t *alone(size_t length) /* of exactly so many bytes, so that a sanitizer sees the end */
{
    uint8_t *p = malloc(length ? length : 1);
    FUZZ_ASSERT(p);
    return p;
}

static inline uint8_t *make_payload(const uint8_t *data, size_t length, size_t *payload_length)
{
    static const uint8_t components[] = {1, 3, 3, 4, 4};
    if (length < 8)
        return NULL;
    struct leat_jpeg_frame frame = {.width = 1 + data[0] + (data[1] & 1) * 256u, .height = 1 + data[2] % 40u};
    frame.colour = (enum leat_jpeg_colour)(data[3] % 5);
    frame.n_components = components[frame.colour];
    for (unsigned c = 0; c < frame.n_components; c++) {
        frame.component[c].h = 1 + (data[4 + c] & 3);
        frame.component[c].v = 1 + (data[4 + c] >> 2 & 3);
    }
    if (!leat_jpeg_frame_complete(&frame))
        return NULL;
    size_t blocks = 0, n_rows = 0;
    uint32_t widest = 0;
    for (unsigned c = 0; c < frame.n_components; c++) {
        blocks += (size_t)frame.component[c].blocks_w * frame.component[c].blocks_h;
        n_rows += frame.component[c].blocks_h;
        widest = frame.component[c].blocks_w > widest ? frame.component[c].blocks_w : widest;
    }
    const size_t rows =
        LEAT_FAST_HEADER + LEAT_FAST_COMPONENT * (size_t)frame.n_components + LEAT_FAST_TABLE + 4 * n_rows;
    const size_t room = rows + LEAT_FAST_ROW_ROOM(blocks + n_rows + length);
    uint8_t *p = calloc(1, room), *at = p + rows;
    int16_t *unpacked = malloc(128 * (size_t)widest);
    FUZZ_ASSERT(p && unpacked);
    memcpy(p, LEAT_FAST_MAGIC, 8);
    leat_put_u64(p + 8, length);
    leat_put_u16(p + 32, (uint16_t)frame.width);
    leat_put_u16(p + 34, (uint16_t)frame.height);
    p[36] = (uint8_t)frame.colour;
    p[37] = frame.n_components;
    p[38] = p[39] = p[40] = 1;
    for (unsigned c = 0; c < frame.n_components; c++) {
        p[LEAT_FAST_HEADER + LEAT_FAST_COMPONENT * c] = frame.component[c].h;
        p[LEAT_FAST_HEADER + LEAT_FAST_COMPONENT * c + 1] = frame.component[c].v;
    }
    memcpy(at, data + 8, length - 8); /* zeros behind */
    size_t row = 0;
    for (uint32_t i = 0; i < frame.mcus_h; i++)
        for (unsigned c = 0; c < frame.n_components; c++)
            for (unsigned v = 0; v < frame.component[c].v; v++, row++) {
                const uint32_t across = frame.component[c].blocks_w;
                for (uint32_t x = 0; x < across; x++)
                    at[x] = (uint8_t)((at[x] & 0xf0) | (at[x] & 15) % 9);
                const size_t bytes = naive_row(at, across, unpacked);
                at += bytes ? bytes : across;
                leat_put_u32(p + rows - 4 * n_rows + 4 * row, (uint32_t)((size_t)(at - p) - rows));
            }
    free(unpacked);
    leat_put_u32(p + 24, (uint32_t)((size_t)(at - p) - rows));
    *payload_length = (size_t)(at - p) + LEAT_FAST_TAIL;
    memset(at, 0x5a, LEAT_FAST_TAIL);
    uint8_t *payload = alone(*payload_length);
    memcpy(payload, p, *payload_length);
    free(p);
    return payload;
}

/* The payload of at least two bytes, in memory of its own; NULL: they make none. */
static inline uint8_t *payload_of(const uint8_t *data, size_t length, size_t *payload_length)
{
    if (data[0] & 1)
        return make_payload(data + 2, length - 2, payload_length);
    *payload_length = length - 2;
    return memcpy(alone(*payload_length), data + 2, *payload_length);
}

/* 0: it is no payload. */
static inline uint64_t blocks_of(const uint8_t *payload, size_t length, struct leat_jpeg_fast_parts *parts)
{
    uint64_t blocks = 0;
    if (leat_jpeg_fast_parse(payload, length, parts, NULL))
        return 0;
    for (unsigned c = 0; c < parts->frame.n_components; c++)
        blocks += (uint64_t)parts->frame.component[c].blocks_w * parts->frame.component[c].blocks_h;
    return blocks;
}

#endif
