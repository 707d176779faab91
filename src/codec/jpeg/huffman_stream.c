/*
 * Turns the bytes of a scan into bits without stuffing. Every 0xff of the coded data has a zero behind it; that is
 * taken out here, in runs between two 0xff, so that the loops that decode need not look for it:
 *
 *     scan     a 7 c ff 00 3 9 ... | ff d0 | ...
 *     buffer   a 7 c ff 3 9 ...    | end, last         limit: where an MCU could reach beyond `end`
 *
 * Loops ask once per MCU whether they are beyond `limit`, so they may read at most an MCU behind `end`: there the
 * buffer has room, and the bytes there (the rest of something older) can only lead to a failure.
 */
#include "codec/jpeg/huffman_stream.h"

/* Takes from `in` until the buffer is full, or a marker or the end is met. */
static void fill(struct leat_jpeg_stream *s)
{
    uint8_t *out = s->end, *const full = s->buffer + LEAT_JPEG_STREAM_BYTES;
    const uint8_t *in = s->in;
    s->last = false;
    while (out < full) {
        size_t room = (size_t)(full - out), left = (size_t)(s->in_end - in), n = left < room ? left : room;
        const uint8_t *ff = n ? memchr(in, 0xff, n) : NULL;
        if (ff)
            n = (size_t)(ff - in);
        if (n)
            memcpy(out, in, n);
        out += n;
        in += n;
        if (ff) {
            if (s->in_end - in < 2 || in[1]) {
                s->last = true;
                break;
            }
            *out++ = 0xff;
            in += 2;
        } else if (in == s->in_end) {
            s->last = true;
            break;
        }
    }
    s->in = in;
    s->end = out;
    s->limit = s->last ? out + 8 : out - LEAT_JPEG_MCU_BYTES; /* bits.p may be 8 bytes ahead of the next bit */
}

/* Empties the buffer; bits begin at `in`. */
static void restart(struct leat_jpeg_stream *s)
{
    s->bits = (struct leat_jpeg_bit_reader){.p = s->buffer};
    s->end = s->buffer;
    s->mark = s->in;
    s->mark_byte = 0;
    fill(s);
}

void leat_jpeg_stream_begin(struct leat_jpeg_stream *s, const uint8_t *in, const uint8_t *in_end, unsigned bit)
{
    s->in = in;
    s->in_end = in_end;
    restart(s);
    if (bit) { /* 1 to 7 */
        s->bits.acc = (uint64_t)s->buffer[0] << (56 + bit);
        s->bits.n = 8 - bit;
        s->bits.p++;
    }
}

bool leat_jpeg_stream_more(struct leat_jpeg_stream *s)
{
    if (s->last)
        return false;
    const size_t done = (size_t)(s->bits.p - s->buffer), keep = (size_t)(s->end - s->bits.p);
    memmove(s->buffer, s->bits.p, keep);
    s->bits.p = s->buffer;
    s->end = s->buffer + keep;
    s->mark_byte -= (int64_t)done;
    fill(s);
    return true;
}

/* The place of the next bit, from the buffer's first; below 0 if its byte is in `acc` and no more in the buffer. */
static int64_t position(const struct leat_jpeg_stream *s)
{
    return 8 * (int64_t)(s->bits.p - s->buffer) - (int64_t)(s->bits.n & 63);
}

bool leat_jpeg_stream_within(const struct leat_jpeg_stream *s)
{
    return position(s) <= 8 * (int64_t)(s->end - s->buffer);
}

bool leat_jpeg_stream_marker(struct leat_jpeg_stream *s, uint8_t marker)
{
    if (!s->last && !leat_jpeg_stream_more(s))
        return false;
    const int64_t left = 8 * (int64_t)(s->end - s->buffer) - position(s);
    if (!s->last || left < 0 || left > 7 || s->in_end - s->in < 2 || s->in[0] != 0xff || s->in[1] != marker)
        return false;
    s->in += 2;
    restart(s);
    return true;
}

const uint8_t *leat_jpeg_stream_bit(struct leat_jpeg_stream *s, unsigned *bit)
{
    const int64_t at = position(s);
    *bit = (unsigned)(at & 7);
    size_t n = (size_t)((at >> 3) - s->mark_byte); /* bytes from the mark on, without stuffing */
    const uint8_t *p = s->mark;
    s->mark_byte = at >> 3;
    while (n) {
        const uint8_t *ff = memchr(p, 0xff, n);
        if (!ff) {
            p += n;
            break;
        }
        n -= (size_t)(ff - p) + 1;
        p = ff + 2;
    }
    return s->mark = p;
}
