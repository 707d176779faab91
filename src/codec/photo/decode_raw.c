/*
 * Photos stored as pixels (codec/photo/raw.h): there is no decoding, rows are only widened for the operators.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/photo/decode_internal.h"
#include "codec/photo/raw.h"

struct leat_backend_decoder {
    struct leat_raw_photo photo;
    bool gray_rows;
    uint32_t x, y, w; /* of the box; y is the row that comes next */
    struct leat_decode_buffer line;
};

static void raw_destroy(struct leat_backend_decoder *r)
{
    leat_decode_buffer_free(&r->line);
}

static int raw_open(struct leat_backend_decoder *r, const struct leat_decode_request *request, uint32_t *width,
                    uint32_t *height, struct leat_decode_rows *rows, struct leat_error *error)
{
    if (!leat_raw_photo_get(request->data, request->length, &r->photo))
        return leat_decode_fail(error, "pixels", -1, request->length,
                                "the header makes no sense, or is not of so many bytes");
    *width = r->photo.width;
    *height = r->photo.height;
    rows->gray = r->gray_rows = leat_image_wish_of(request)->gray && r->photo.channels == 1;
    return leat_decode_check_size("pixels", *width, *height, error);
}

static int raw_begin(struct leat_backend_decoder *r, unsigned denominator, uint32_t x, uint32_t y, uint32_t w,
                     uint32_t h, struct leat_error *error)
{
    r->x = x;
    r->y = y;
    r->w = w;
    return leat_decode_reserve(&r->line, w, r->gray_rows ? 1 : 4, error);
}

/* Byte by byte: a compiler makes shuffles of it. */
static void widen_rgb(uint8_t *restrict to, const uint8_t *restrict from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        to[4 * (size_t)i] = from[3 * (size_t)i];
        to[4 * (size_t)i + 1] = from[3 * (size_t)i + 1];
        to[4 * (size_t)i + 2] = from[3 * (size_t)i + 2];
        to[4 * (size_t)i + 3] = 255;
    }
}

static void widen_gray(uint8_t *restrict to, const uint8_t *restrict from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        to[4 * (size_t)i] = to[4 * (size_t)i + 1] = to[4 * (size_t)i + 2] = from[i];
        to[4 * (size_t)i + 3] = 255;
    }
}

/* Copied even if it is as it should be: LEAT_DECODE_PADDING bytes behind it must be readable. */
static int raw_row(struct leat_backend_decoder *r, const uint8_t **row, struct leat_error *error)
{
    const uint8_t *from = r->photo.pixels + ((size_t)r->y++ * r->photo.width + r->x) * r->photo.channels;
    if (r->gray_rows)
        memcpy(r->line.p, from, r->w);
    else
        (r->photo.channels == 1 ? widen_gray : widen_rgb)(r->line.p, from, r->w);
    *row = r->line.p;
    return LEAT_OK;
}

/* Any pixels are good ones: that they are those which were written is for the checksum to say. */
static int raw_scan(struct leat_backend_decoder *r, struct leat_error *error)
{
    return LEAT_OK;
}

static void raw_close(struct leat_backend_decoder *r) {}

static uint64_t raw_bytes(struct leat_bytes file, struct leat_value_info *info)
{
    struct leat_raw_photo photo;
    if (!leat_raw_photo_get(file.p, file.n, &photo))
        return 0;
    info->size[0] = photo.width;
    info->size[1] = photo.height;
    return (uint64_t)photo.width * 4;
}

const struct leat_decode_backend leat_decode_raw = {
    .max_denominator = 1,
    .bytes = raw_bytes,
    .decoder_bytes = sizeof(struct leat_backend_decoder),
    .destroy = raw_destroy,
    .open = raw_open,
    .begin = raw_begin,
    .row = raw_row,
    .scan = raw_scan,
    .close = raw_close,
};
