/*
 * JPEG: the decoder that makes the pixels of a photo.
 *
 *     the decode-fast form           fast.h     -+
 *     baseline, as it came           huffman.h  -+-> blocks of coefficients -> picture.h -> rows
 *     all else, as it came           libjpeg-turbo (decode_libjpeg.c) ---------------------> rows
 *
 * A card makes pixels of blocks itself (leat_decoder_blocks).
 *
 * libjpeg reads the header of whatever came as a JPEG: a photo that it refuses is refused, in its words. Our entropy
 * decoder takes only scans that are exactly as an encoder writes them; if it stops, libjpeg begins again at the row
 * that was due, and either goes on or names the damage. So a photo's rows, and whether it is broken, never depend on
 * the decoder.
 *
 * A photo that is to be scanned to its end is scanned before its first row: the scan leaves the row index, and the box
 * is decoded by it.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/jpeg/fast.h"
#include "codec/jpeg/huffman.h"
#include "codec/jpeg/picture.h"
#include "codec/photo/decode_internal.h"
#include "codec/photo/decode_libjpeg.h"

/* The decoder of the open photo. */
enum path { LIBJPEG = 0, HUFFMAN, FAST };

struct leat_backend_decoder {
    struct leat_libjpeg libjpeg;
    struct leat_jpeg_huffman *huffman; /* these three are made when a photo first needs them */
    struct leat_jpeg_fast *fast;
    struct leat_jpeg_picture *picture;

    struct leat_decode_request request;
    enum path path;
    bool gray_rows, inks, scanned;
    struct leat_jpeg_frame header; /* of a photo as it came */
    const struct leat_jpeg_frame *frame;
    struct leat_jpeg_source *source;
    uint32_t x, y, w, h, given; /* the box, and rows of it that were given */
    unsigned denominator;

    struct leat_jpeg_rows rows; /* the result of the scan, and its packed form */
    uint8_t *index;
    size_t index_length;
};

static void destroy_decoder(struct leat_backend_decoder *j)
{
    leat_libjpeg_destroy(&j->libjpeg);
    leat_jpeg_huffman_free(j->huffman);
    leat_jpeg_fast_free(j->fast);
    leat_jpeg_picture_free(j->picture);
    leat_jpeg_rows_destroy(&j->rows);
}

static int no_memory(struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "memory to decode a photo could not be had");
}

/* ---- opening --------------------------------------------------------------------------------- */

static int open_fast(struct leat_backend_decoder *j, uint32_t *width, uint32_t *height, struct leat_error *error)
{
    if (!j->fast && !(j->fast = leat_jpeg_fast_new(leat_cpu_isa())))
        return no_memory(error);
    j->path = FAST;
    int rc = leat_jpeg_fast_open(j->fast, j->request.data, j->request.length, &j->frame, &j->source, error);
    if (rc)
        return rc;
    *width = j->frame->width;
    *height = j->frame->height;
    j->gray_rows = leat_image_wish_of(&j->request)->gray && j->frame->n_components == 1;
    return leat_decode_check_size("JPEG", *width, *height, error);
}

static int open_photo(struct leat_backend_decoder *j, const struct leat_decode_request *request, uint32_t *width,
                      uint32_t *height, struct leat_decode_rows *rows, struct leat_error *error)
{
    j->request = *request;
    j->path = LIBJPEG;
    j->scanned = false;
    j->given = 0;
    j->index = NULL;
    j->index_length = 0;
    if (request->form == LEAT_FORM_FAST) {
        int rc = open_fast(j, width, height, error);
        rows->gray = j->gray_rows;
        rows->cmyk = !rc && j->frame->n_components == 4;
        rows->inks = j->inks = leat_image_wish_of(request)->inks && rows->cmyk;
        j->request.wish = NULL; /* it is the caller's */
        return rc;
    }
    j->request.wish = NULL; /* it is the caller's */
    int rc = leat_libjpeg_open(&j->libjpeg, request, width, height, rows, error);
    j->gray_rows = rows->gray;
    j->inks = rows->inks;
    if (rc || !leat_jpeg_frame_of(&j->libjpeg.cinfo, &j->header))
        return rc;
    if (!j->huffman && !(j->huffman = leat_jpeg_huffman_new()))
        return no_memory(error);
    if (leat_jpeg_huffman_knows(j->huffman, &j->libjpeg.cinfo, &j->header)) {
        j->path = HUFFMAN;
        j->frame = &j->header;
    }
    return LEAT_OK;
}

/* ---- scanning -------------------------------------------------------------------------------- */

/* Whether the photo is whole, of those that our entropy decoder knows. False: libjpeg is to say. */
static bool scan_to_index(struct leat_backend_decoder *j)
{
    if (!leat_jpeg_huffman_scan(j->huffman, &j->rows)) {
        j->path = LIBJPEG;
        return false;
    }
    j->scanned = true;
    if (leat_jpeg_rows_pack(&j->rows, &j->header, j->request.length, &j->index, &j->index_length))
        j->index_length = 0; /* no memory for it: the photo can be decoded without */
    return true;
}

static int scan_photo(struct leat_backend_decoder *j, struct leat_error *error)
{
    if (j->path == FAST || j->scanned || (j->path == HUFFMAN && scan_to_index(j)))
        return LEAT_OK; /* the fast form is under a checksum, and was made of a photo that was read to its end */
    return leat_libjpeg_scan(&j->libjpeg, error);
}

static const uint8_t *index_of(const struct leat_backend_decoder *j, size_t *length)
{
    *length = j->index_length;
    return j->index_length ? j->index : NULL;
}

static unsigned warnings_of(const struct leat_backend_decoder *j)
{
    return j->path == FAST ? 0 : j->libjpeg.trouble.warnings;
}

/* A lenient libjpeg neither reads the bytes behind the last row nor asks whether the file can hold what its header
 * promises. */
static bool was_strict(const struct leat_backend_decoder *j)
{
    return !j->request.lenient || j->path == FAST || (j->scanned && !j->libjpeg.trouble.warnings);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int begin_libjpeg(struct leat_backend_decoder *j, struct leat_error *error)
{
    j->path = LIBJPEG;
    return leat_libjpeg_begin(&j->libjpeg, j->denominator, j->x, j->y + j->given, j->w, j->h - j->given, error);
}

static void begin_huffman(struct leat_backend_decoder *j)
{
    const struct leat_decode_request *r = &j->request;
    bool begun = j->index_length && leat_jpeg_huffman_begin(j->huffman, j->index, j->index_length, &j->source);
    if (!begun)
        begun = r->rows_length && leat_jpeg_huffman_begin(j->huffman, r->rows, r->rows_length, &j->source);
    if (!begun)
        leat_jpeg_huffman_begin(j->huffman, NULL, 0, &j->source);
}

static int begin_photo(struct leat_backend_decoder *j, unsigned denominator, uint32_t x, uint32_t y, uint32_t w,
                       uint32_t h, struct leat_error *error)
{
    j->denominator = denominator;
    j->x = x;
    j->y = y;
    j->w = w;
    j->h = h;
    if (j->path == HUFFMAN && j->request.scan_to_end)
        scan_to_index(j);
    if (j->path == LIBJPEG)
        return begin_libjpeg(j, error);
    if (j->path == HUFFMAN)
        begin_huffman(j);
    if (!j->picture && !(j->picture = leat_jpeg_picture_new(leat_cpu_isa())))
        return no_memory(error);
    int rc = leat_jpeg_picture_begin(j->picture, j->frame, j->source, denominator, j->gray_rows, x, y, w, h, error);
    if (j->inks)
        leat_jpeg_picture_inks(j->picture);
    return rc;
}

static int row_photo(struct leat_backend_decoder *j, const uint8_t **row, struct leat_error *error)
{
    if (j->path != LIBJPEG) {
        int rc = leat_jpeg_picture_row(j->picture, row, error);
        if (rc == LEAT_E_DECODE && j->path == HUFFMAN) {
            rc = begin_libjpeg(j, error);
            return rc ? rc : leat_libjpeg_row(&j->libjpeg, row, error);
        }
        j->given++;
        return rc;
    }
    return leat_libjpeg_row(&j->libjpeg, row, error);
}

static const struct leat_jpeg_frame *blocks_of_photo(struct leat_backend_decoder *j, struct leat_jpeg_source **source)
{
    if (source && j->path == HUFFMAN && j->request.scan_to_end)
        scan_to_index(j);
    if (j->path != HUFFMAN)
        return NULL;
    if (source) {
        begin_huffman(j);
        *source = j->source;
    }
    return j->frame;
}

static void close_photo(struct leat_backend_decoder *j)
{
    if (j->picture)
        leat_jpeg_picture_trim(j->picture);
    leat_libjpeg_close(&j->libjpeg);
}

const struct leat_decode_backend leat_decode_jpeg = {
    .max_denominator = 8,
    .probe = leat_jpeg_probe,
    .bytes = leat_jpeg_bytes,
    .exif = leat_jpeg_exif,
    .profile = leat_jpeg_profile,
    .decoder_bytes = sizeof(struct leat_backend_decoder),
    .destroy = destroy_decoder,
    .open = open_photo,
    .begin = begin_photo,
    .row = row_photo,
    .blocks = blocks_of_photo,
    .scan = scan_photo,
    .rows = index_of,
    .warnings = warnings_of,
    .strict = was_strict,
    .close = close_photo,
};
