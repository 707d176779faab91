/*
 * Writing the decode-fast form from coefficients: the header, then row after row behind it, each by a function of the
 * instruction set, and the parts beside the pixels.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "codec/jpeg/pack_row.h"

void leat_jpeg_fast_writer_destroy(struct leat_jpeg_fast_writer *w)
{
    leat_free(w->out);
    leat_free(w->values);
    leat_free(w->work);
    *w = (struct leat_jpeg_fast_writer){.isa = w->isa};
}

static int no_memory(struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "no memory for the decode-fast form of a photo");
}

bool leat_jpeg_fast_writer_reserve(struct leat_jpeg_fast_writer *w, size_t more)
{
    return leat_grow(&w->out, &w->room, w->length + more, 1);
}

static bool reserve_row(struct leat_jpeg_fast_writer *w, uint32_t blocks)
{
    if (blocks <= w->blocks)
        return true;
    int16_t *values = leat_realloc_array(w->values, 64 * (size_t)blocks + 256, sizeof *values);
    if (values)
        w->values = values;
    uint8_t *work = leat_realloc_array(w->work, 2, LEAT_FAST_ROW_ROOM(blocks));
    if (work)
        w->work = work;
    if (!values || !work)
        return false;
    w->blocks = blocks;
    return true;
}

size_t leat_jpeg_pack_row(enum leat_isa isa, const int16_t *coefficients, uint32_t blocks, int16_t *values,
                          uint8_t *work, uint8_t *row)
{
    enum { BEYOND = 32 }; /* magnitudes, or bytes, that a step may write behind its last */
    const struct leat_jpeg_pack_steps *steps = LEAT_OF_ISA(isa, &leat_jpeg_pack);
    uint8_t *out, *byte, *wide;
    size_t mask_bytes;
    uint32_t n, n_escapes;
    if (!steps->blocks(coefficients, blocks, row, &out, work, &mask_bytes, values, &n))
        return 0;
    memcpy(out, work, mask_bytes);
    uint16_t *const escapes = (uint16_t *)(void *)work;
    out = steps->planes(values, n, out + mask_bytes, escapes, &n_escapes);
    uint8_t *const bytes = work + 2 * ((size_t)n_escapes + BEYOND), *const wides = bytes + n_escapes + BEYOND;
    steps->escapes(escapes, n_escapes, out, bytes, &byte, wides, &wide);
    out += (n_escapes + 1) / 2;
    memcpy(out, bytes, (size_t)(byte - bytes));
    out += byte - bytes;
    memcpy(out, wides, (size_t)(wide - wides));
    return (size_t)(out + (wide - wides) - row);
}

int leat_jpeg_fast_write_row(struct leat_jpeg_fast_writer *w, const int16_t *coefficients, uint32_t blocks,
                             struct leat_error *error)
{
    if (!reserve_row(w, blocks) || !leat_jpeg_fast_writer_reserve(w, LEAT_FAST_ROW_ROOM(blocks)))
        return no_memory(error);
    const size_t bytes = leat_jpeg_pack_row(w->isa, coefficients, blocks, w->values, w->work, w->out + w->length);
    w->length += bytes;
    return bytes ? LEAT_OK
                 : leat_fail(error, LEAT_E_UNSUPPORTED,
                             "a DC difference takes 16 bits, which the decode-fast form does not hold");
}

static bool write_header(struct leat_jpeg_fast_writer *w, const struct leat_jpeg_frame *f,
                         const struct leat_jpeg_original *original, uint32_t n_rows)
{
    if (!leat_jpeg_fast_writer_reserve(w, LEAT_FAST_HEADER +
                                              (LEAT_FAST_COMPONENT + LEAT_FAST_TABLE) * LEAT_JPEG_MAX_COMPONENTS +
                                              4 * (size_t)n_rows))
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

int leat_jpeg_fast_write(struct leat_jpeg_fast_writer *w, const struct leat_jpeg_coefficients *coefficients,
                         const uint8_t *skeleton, size_t skeleton_length, const struct leat_jpeg_original *original,
                         struct leat_error *error)
{
    const struct leat_jpeg_frame *f = &coefficients->frame;
    uint32_t n_rows = 0, at = 0;
    for (unsigned c = 0; c < f->n_components; c++)
        n_rows += f->component[c].blocks_h;
    w->length = 0;
    if (!write_header(w, f, original, n_rows))
        return no_memory(error);
    const size_t ends = w->length, rows = ends + 4 * (size_t)n_rows;
    w->length = rows;
    for (uint32_t i = 0; i < f->mcus_h; i++) {
        int16_t *of[LEAT_JPEG_MAX_COMPONENTS];
        int rc = leat_jpeg_coefficients_row(coefficients, i, of, error);
        for (unsigned c = 0; !rc && c < f->n_components; c++) {
            const struct leat_jpeg_component *component = &f->component[c];
            const size_t step = 64 * (size_t)component->blocks_w;
            for (uint32_t y = 0; !rc && y < component->v; y++, at++) {
                rc = leat_jpeg_fast_write_row(w, of[c] + y * step, component->blocks_w, error);
                if (!rc && w->length - rows > UINT32_MAX)
                    rc = leat_fail(error, LEAT_E_UNSUPPORTED, "the photo is too large for the decode-fast form");
                if (!rc)
                    leat_put_u32(w->out + ends + 4 * (size_t)at, (uint32_t)(w->length - rows));
            }
        }
        if (rc)
            return rc;
    }
    if (skeleton_length > UINT32_MAX)
        return leat_fail(error, LEAT_E_UNSUPPORTED,
                         "the photo has too much beside its pixels for the decode-fast form");
    leat_put_u32(w->out + 24, (uint32_t)(w->length - rows));
    leat_put_u32(w->out + 28, (uint32_t)skeleton_length);
    if (!leat_jpeg_fast_writer_reserve(w, skeleton_length + LEAT_FAST_TAIL))
        return no_memory(error);
    if (skeleton_length)
        memcpy(w->out + w->length, skeleton, skeleton_length);
    w->length += skeleton_length;
    memset(w->out + w->length, 0, LEAT_FAST_TAIL);
    w->length += LEAT_FAST_TAIL;
    return LEAT_OK;
}
