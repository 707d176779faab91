/* Bytes of a header, read without stepping outside. */
#ifndef LEAT_CODEC_PHOTO_BYTES_H
#define LEAT_CODEC_PHOTO_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct leat_bytes {
    const uint8_t *p;
    size_t n;
};

/* `n` bytes at `at`, or none if they do not lie inside. */
static inline struct leat_bytes leat_bytes_part(struct leat_bytes b, uint64_t at, uint64_t n)
{
    if (at > b.n || n > b.n - at)
        return (struct leat_bytes){NULL, 0};
    return (struct leat_bytes){b.p + at, (size_t)n};
}

static inline bool leat_bytes_start(struct leat_bytes b, const char *text, size_t n)
{
    return b.n >= n && !memcmp(b.p, text, n);
}
#define LEAT_BYTES_START(b, literal) leat_bytes_start(b, literal, sizeof(literal) - 1)

static inline uint32_t leat_bytes_number(const uint8_t *p, unsigned bytes, bool big)
{
    uint32_t v = 0;
    for (unsigned i = 0; i < bytes; i++)
        v |= (uint32_t)p[i] << 8 * (big ? bytes - 1 - i : i);
    return v;
}

/* Chunks of PNG are (length, type, body, CRC), of RIFF (type, length, body, padding to even). */
static inline struct leat_bytes leat_bytes_chunk(struct leat_bytes file, size_t at, const char *type, bool png)
{
    for (;;) {
        struct leat_bytes head = leat_bytes_part(file, at, 8);
        if (!head.p)
            return head;
        uint64_t length = leat_bytes_number(head.p + (png ? 0 : 4), 4, png);
        struct leat_bytes body = leat_bytes_part(file, (uint64_t)at + 8, length);
        if (!body.p || !memcmp(head.p + (png ? 4 : 0), type, 4))
            return body;
        uint64_t next = (uint64_t)at + 8 + length + (png ? 4 : length & 1);
        if (next > file.n)
            return (struct leat_bytes){NULL, 0};
        at = (size_t)next;
    }
}

#endif
