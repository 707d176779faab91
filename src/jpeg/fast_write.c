/*
 * Writing the decode-fast form from coefficients. A row is written stream after stream; what belongs to a stream whose place is not
 * known yet waits in a buffer:
 *
 *     blocks -> heads, dc bits, (mask bytes), (values: coefficients other than 0)
 *     values -> planes, (magnitudes above 3)
 *     these  -> nibbles, (bytes), (u16)
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "jpeg/fast_format.h"

/* A row of b blocks takes at most, in bytes: heads b, dc 2b, masks 8b, planes 3 * 63b/8, nibbles 63b/2, bytes 63b, u16 126b. */
#define ROW_ROOM(b) (256 * (size_t)(b) + 256)

void leat_jpeg_fast_writer_destroy(struct leat_jpeg_fast_writer *w)
{
    leat_free(w->out);
    leat_free(w->values);
    leat_free(w->work);
    *w = (struct leat_jpeg_fast_writer){.isa = w->isa};
}

static bool reserve(struct leat_jpeg_fast_writer *w, size_t more)
{
    if (more <= w->room - w->length)
        return true;
    const size_t room = (w->length + more) + (w->length + more) / 2;
    uint8_t *out = leat_realloc_array(w->out, room, 1);
    if (!out)
        return false;
    w->out = out;
    w->room = room;
    return true;
}

static bool reserve_row(struct leat_jpeg_fast_writer *w, uint32_t blocks)
{
    if (blocks <= w->blocks)
        return true;
    int16_t *values = leat_realloc_array(w->values, 64 * (size_t)blocks + 256, sizeof *values);
    if (values)
        w->values = values;
    uint8_t *work = leat_realloc_array(w->work, 2, ROW_ROOM(blocks));
    if (work)
        w->work = work;
    if (!values || !work)
        return false;
    w->blocks = blocks;
    return true;
}

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

static bool write_row(struct leat_jpeg_fast_writer *w, const int16_t *coefficients, uint32_t blocks)
{
    uint8_t *const row = w->out + w->length, *out;
    size_t mask_bytes;
    uint32_t n, n_escapes;
    if (!write_blocks(coefficients, blocks, row, &out, w->work, &mask_bytes, w->values, &n))
        return false;
    memcpy(out, w->work, mask_bytes);
    uint16_t *const escapes = (uint16_t *)(void *)w->work;
    out = write_planes(w->values, n, out + mask_bytes, escapes, &n_escapes);
    uint8_t *const bytes = w->work + 2 * ((size_t)n_escapes + 1);
    out = write_escapes(escapes, n_escapes, out, bytes, bytes + n_escapes);
    w->length = (size_t)(out - w->out);
    return true;
}

static bool write_header(struct leat_jpeg_fast_writer *w, const struct leat_jpeg_frame *f, const struct leat_jpeg_original *original,
                         uint32_t n_rows)
{
    if (!reserve(w, LEAT_FAST_HEADER + (LEAT_FAST_COMPONENT + LEAT_FAST_TABLE) * LEAT_JPEG_MAX_COMPONENTS + 4 * (size_t)n_rows))
        return false;
    uint8_t *const p = w->out;
    uint8_t *const tables = p + LEAT_FAST_HEADER + LEAT_FAST_COMPONENT * f->n_components;
    unsigned n_tables = 0;
    memset(p, 0, LEAT_FAST_HEADER);
    memcpy(p, LEAT_FAST_MAGIC, 8);
    leat_put_u64(p + 8, original->length);
    leat_put_u64(p + 16, original->checksum);
    leat_put_u16(p + 32, (uint16_t)f->width);
    leat_put_u16(p + 34, (uint16_t)f->height);
    p[36] = (uint8_t)f->colour;
    p[37] = f->n_components;
    p[39] = original->orientation;
    p[40] = original->image_kind;
    for (unsigned c = 0; c < f->n_components; c++) {
        unsigned t = 0;
        while (t < n_tables && memcmp(tables + LEAT_FAST_TABLE * t, f->component[c].quant, LEAT_FAST_TABLE))
            t++;
        if (t == n_tables)
            memcpy(tables + LEAT_FAST_TABLE * n_tables++, f->component[c].quant, LEAT_FAST_TABLE);
        uint8_t *const to = p + LEAT_FAST_HEADER + LEAT_FAST_COMPONENT * c;
        to[0] = f->component[c].h;
        to[1] = f->component[c].v;
        to[2] = (uint8_t)t;
        to[3] = 0;
    }
    p[38] = (uint8_t)n_tables;
    w->length = (size_t)(tables - p) + LEAT_FAST_TABLE * n_tables;
    return true;
}

int leat_jpeg_fast_write(struct leat_jpeg_fast_writer *w, const struct leat_jpeg_coefficients *coefficients, const uint8_t *skeleton,
                         size_t skeleton_length, const struct leat_jpeg_original *original, struct leat_error *error)
{
    const struct leat_jpeg_frame *f = &coefficients->frame;
    uint32_t n_rows = 0, at = 0;
    for (unsigned c = 0; c < f->n_components; c++)
        n_rows += f->component[c].blocks_h;
    w->length = 0;
    if (!write_header(w, f, original, n_rows))
        goto nomem;
    const size_t ends = w->length, rows = ends + 4 * (size_t)n_rows;
    w->length = rows;
    for (uint32_t i = 0; i < f->mcus_h; i++)
        for (unsigned c = 0; c < f->n_components; c++) {
            const struct leat_jpeg_component *component = &f->component[c];
            const size_t step = 64 * (size_t)component->blocks_w;
            for (uint32_t y = i * component->v; y < (i + 1) * component->v; y++, at++) {
                if (!reserve_row(w, component->blocks_w) || !reserve(w, ROW_ROOM(component->blocks_w)))
                    goto nomem;
                if (!write_row(w, coefficients->of[c] + y * step, component->blocks_w))
                    return leat_fail(error, LEAT_E_UNSUPPORTED, "a DC difference takes 16 bits, which the decode-fast form does not hold");
                if (w->length - rows > UINT32_MAX)
                    return leat_fail(error, LEAT_E_UNSUPPORTED, "the photo is too large for the decode-fast form");
                leat_put_u32(w->out + ends + 4 * (size_t)at, (uint32_t)(w->length - rows));
            }
        }
    if (skeleton_length > UINT32_MAX)
        return leat_fail(error, LEAT_E_UNSUPPORTED, "the photo has too much beside its pixels for the decode-fast form");
    leat_put_u32(w->out + 24, (uint32_t)(w->length - rows));
    leat_put_u32(w->out + 28, (uint32_t)skeleton_length);
    if (!reserve(w, skeleton_length + LEAT_FAST_TAIL))
        goto nomem;
    if (skeleton_length)
        memcpy(w->out + w->length, skeleton, skeleton_length);
    w->length += skeleton_length;
    memset(w->out + w->length, 0, LEAT_FAST_TAIL);
    w->length += LEAT_FAST_TAIL;
    return LEAT_OK;
nomem:
    return leat_fail(error, LEAT_E_NOMEM, "no memory for the decode-fast form of a photo");
}
