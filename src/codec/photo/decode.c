/*
 * The decoder of photos (codec/codec.h): the format, the EXIF orientation, grey. The formats themselves stand behind
 * the table of photo.h.
 *
 * An orientation is undone by decoding the box of the stored image that becomes the box asked for, into memory, and
 * reading its rows from there in another direction:
 *
 *     stored            delivered, orientation 6 (turned clockwise)
 *     a b c             d a        row i of the delivered box is column i of the stored one, bottom to top
 *     d e f             e b
 *                       f c
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/jpeg/fast.h"
#include "codec/jpeg/libjpeg.h"
#include "codec/photo/colours.h"
#include "codec/photo/decode_internal.h"
#include "codec/photo/icc.h"
#include "codec/photo/raw.h"

/* Buffers above this are given back when the photo ends: one huge photo must not cost its memory for ever. */
#define KEEP_BYTES LEAT_DECODE_BYTES

/* A format and this thread's decoder of it. */
struct format {
    const char *name;
    const struct leat_decode_backend *backend;
    struct leat_backend_decoder *decoder;
};

struct photo_decoder {
    struct leat_decoder base;
    struct leat_jpeg_packer *packer; /* made when a photo is to get the fast form */
    struct format formats[LEAT_PHOTO_FORMATS + 1];
    struct format now;     /* of the open photo; backend NULL if none is open */
    struct format scanned; /* that has read the last photo to its end; backend NULL if none has */
    unsigned warnings;     /* of the last photo */
    bool scan_to_end;      /* as the request says */
    struct leat_image_wish wish;
    uint32_t width, height; /* as stored */
    unsigned orientation, denominator;
    struct leat_decode_rows rows; /* as the format gives them */
    bool failed;

    uint32_t box_w, box_h;            /* of the stored image */
    uint32_t rows_given, rows_wanted; /* of the delivered box */
    struct leat_decode_buffer turned; /* the box as stored */
    struct leat_decode_buffer line;   /* one delivered row that had to be made */

    struct leat_icc *icc;                       /* of the open photo's profile; NULL: none is applied */
    unsigned passed;                            /* warnings of its profile */
    struct leat_decode_buffer profile, colours; /* its bytes if they are apart in the file; a row and room for it */
};

/* ---- shared with the formats ----------------------------------------------------------------- */

int leat_decode_reserve(struct leat_decode_buffer *buffer, uint64_t count, uint64_t each, struct leat_error *error)
{
    uint64_t bytes;
    if (!leat_mul_u64(count, each, &bytes) || !leat_add_u64(bytes, LEAT_DECODE_PADDING, &bytes) || bytes > SIZE_MAX)
        return leat_fail(error, LEAT_E_NOMEM, "memory for %llu rows of %llu bytes is more than can be addressed",
                         (unsigned long long)count, (unsigned long long)each);
    if (bytes <= buffer->bytes)
        return LEAT_OK;
    leat_decode_buffer_free(buffer);
    buffer->p = leat_new_array(1, (size_t)bytes);
    if (!buffer->p)
        return leat_fail(error, LEAT_E_NOMEM, "%llu bytes of memory for a photo could not be had",
                         (unsigned long long)bytes);
    buffer->bytes = (size_t)bytes;
    return LEAT_OK;
}

void leat_decode_buffer_free(struct leat_decode_buffer *buffer)
{
    leat_free(buffer->p);
    buffer->p = NULL;
    buffer->bytes = 0;
}

int leat_decode_fail(struct leat_error *error, const char *format, int64_t offset, size_t length, const char *words)
{
    const char *advice = "the photo is damaged: replace it, or leave it out";
    if (offset < 0)
        return leat_fail(error, LEAT_E_DECODE, "%s: %s; %s", format, words, advice);
    leat_fail(error, LEAT_E_DECODE, "%s: %s, at about byte %lld of %zu; %s", format, words, (long long)offset, length,
              advice);
    leat_error_at_file(error, NULL, offset);
    return LEAT_E_DECODE;
}

int leat_decode_no_frame(const char *format, uint32_t frame, uint32_t count, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_DECODE, "%s: it has %u image%s: there is no frame %u, counted from 0", format, count,
                     count == 1 ? "" : "s", frame);
}

int leat_decode_check_size(const char *format, uint64_t width, uint64_t height, struct leat_error *error)
{
    uint64_t pixels;
    if (!width || !height)
        return leat_fail(error, LEAT_E_DECODE,
                         "%s: the header says %llu x %llu pixels; the photo is damaged: replace it, or leave it out",
                         format, (unsigned long long)width, (unsigned long long)height);
    if (!leat_mul_u64(width, height, &pixels) || pixels > LEAT_MAX_PIXELS || width > LEAT_MAX_SIDE ||
        height > LEAT_MAX_SIDE)
        return leat_fail(
            error, LEAT_E_DECODE,
            "%s: %llu x %llu pixels; leat decodes at most %llu, and %d along a side: shrink the photo or cut it",
            format, (unsigned long long)width, (unsigned long long)height, (unsigned long long)LEAT_MAX_PIXELS,
            LEAT_MAX_SIDE);
    return LEAT_OK;
}

/* ---- orientation ----------------------------------------------------------------------------- */

static bool swaps_axes(unsigned orientation)
{
    return orientation >= 5;
}

/* Whether columns (rows) of the delivered image run against those of the stored image that they come from. */
static bool against_x(unsigned orientation)
{
    return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}

static bool against_y(unsigned orientation)
{
    return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

/* A mirrored row can be turned as it comes; all else needs the whole box first. */
static bool needs_whole_box(unsigned orientation)
{
    return orientation > 2;
}

static void copy_pixels(uint8_t *dst, const uint8_t *src, ptrdiff_t step, uint32_t n, unsigned bytes)
{
    if (bytes == 1) {
        for (uint32_t i = 0; i < n; i++, src += step)
            dst[i] = *src;
    } else if (bytes == 4) {
        for (uint32_t i = 0; i < n; i++, src += step)
            memcpy(dst + 4 * (size_t)i, src, 4);
    } else {
        for (uint32_t i = 0; i < n; i++, src += step)
            memcpy(dst + bytes * (size_t)i, src, bytes);
    }
}

/* ---- pixels as the caller wants them --------------------------------------------------------- */

static unsigned pixel_bytes(const struct photo_decoder *d)
{
    return (d->wish.gray ? 1u : 4u) * (d->wish.wide ? 2 : 1);
}

/* Whether rows are not the format's own, but made of them. */
static bool makes_rows(const struct photo_decoder *d)
{
    const struct leat_image_wish *r = &d->wish;
    return r->gray != d->rows.gray || r->wide != d->rows.wide || (r->alpha == LEAT_ALPHA_BLEND && !d->rows.gray);
}

static const uint8_t *make_row(const struct photo_decoder *d, const uint8_t *row)
{
    const struct leat_image_wish *r = &d->wish;
    size_t n = d->box_w;
    uint8_t *bytes = d->line.p;
    uint16_t *words = (uint16_t *)(void *)bytes;
    if (r->wide) {
        if (d->rows.wide)
            memcpy(bytes, row, n * (d->rows.gray ? 2 : 8));
        else
            leat_widen(words, row, n * (d->rows.gray ? 1 : 4));
        if (r->alpha == LEAT_ALPHA_BLEND && !d->rows.gray)
            leat_blend_wide(words, words, r->background, n);
        if (r->gray && !d->rows.gray)
            leat_luma_wide(words, words, n);
        return bytes;
    }
    if (r->alpha == LEAT_ALPHA_BLEND && !d->rows.gray) {
        leat_blend(bytes, row, r->background, n);
        row = bytes;
    }
    if (r->gray && !d->rows.gray)
        leat_luma(bytes, row, n);
    return bytes;
}

/* A row with the colours of sRGB: RGBX, of the samples that the format gives. */
static const uint8_t *convert_row(struct photo_decoder *d, const uint8_t *row)
{
    const size_t n = d->box_w, sample = d->rows.wide ? 2 : 1;
    uint8_t *pixels = d->colours.p;
    memcpy(pixels, row, 4 * n * sample);
    leat_icc_apply(d->icc, pixels, pixels + 4 * n * sample, n);
    return pixels;
}

/* The next row of the stored box; one that had to be made lies in d->line. */
static int stored_row(struct photo_decoder *d, const uint8_t **row, struct leat_error *error)
{
    int rc = d->now.backend->row(d->now.decoder, row, error);
    if (!rc && d->icc)
        *row = convert_row(d, *row);
    if (!rc && makes_rows(d))
        *row = make_row(d, *row);
    return rc;
}

/* ---- the life of a photo --------------------------------------------------------------------- */

struct leat_decoder *leat_photo_decoder_new(void)
{
    struct photo_decoder *d = leat_new(struct photo_decoder);
    if (!d)
        return NULL;
    for (size_t i = 0; i <= LEAT_PHOTO_FORMATS; i++) {
        const struct leat_photo_format *f = &leat_photo_formats[i];
        d->formats[i] = (struct format){f->name, f->backend, leat_new_array(1, f->backend->decoder_bytes)};
        if (!d->formats[i].decoder) {
            leat_photo_decoder_free(&d->base);
            return NULL;
        }
    }
    return &d->base;
}

void leat_photo_decoder_free(struct leat_decoder *decoder)
{
    struct photo_decoder *d = (struct photo_decoder *)decoder;
    if (d->now.backend)
        d->now.backend->close(d->now.decoder);
    for (size_t i = 0; i <= LEAT_PHOTO_FORMATS; i++)
        if (d->formats[i].decoder) {
            d->formats[i].backend->destroy(d->formats[i].decoder);
            leat_free(d->formats[i].decoder);
        }
    leat_jpeg_packer_free(d->packer);
    leat_decode_buffer_free(&d->turned);
    leat_decode_buffer_free(&d->line);
    leat_decode_buffer_free(&d->profile);
    leat_decode_buffer_free(&d->colours);
    leat_icc_close(d->icc);
    leat_free(d);
}

struct leat_jpeg_packer *leat_photo_packer(struct leat_decoder *decoder)
{
    struct photo_decoder *d = (struct photo_decoder *)decoder;
    d->warnings = 0;
    return d->packer ? d->packer : (d->packer = leat_jpeg_packer_new());
}

/* The profile of a photo, in any form; n 0 if there is none. */
static int find_profile(struct photo_decoder *d, const struct leat_decode_backend *backend,
                        const struct leat_decode_request *r, struct leat_bytes *headers, struct leat_bytes *profile,
                        struct leat_error *error)
{
    *headers = (struct leat_bytes){r->data, r->length};
    *profile = (struct leat_bytes){NULL, 0};
    if (!d->wish.icc || d->wish.ids || r->form == LEAT_FORM_RAW || !backend->profile)
        return LEAT_OK;
    int rc = r->form == LEAT_FORM_FAST ? leat_jpeg_fast_headers(r->data, r->length, &headers->p, &headers->n, error)
                                       : LEAT_OK;
    return rc ? rc : backend->profile(*headers, d->wish.frame, &d->profile, profile, error);
}

/* Whether the open photo has the colours that its profile is for, and the transform for its rows. */
static int open_profile(struct photo_decoder *d, struct format format, struct leat_bytes headers,
                        struct leat_bytes profile, struct leat_error *error)
{
    const enum leat_icc_space space = leat_icc_space(profile);
    struct leat_value_info info = {.channels = d->rows.channels};
    int rc = info.channels ? LEAT_OK : format.backend->probe(headers, &info, error);
    if (!rc && (d->rows.inks != (space == LEAT_ICC_CMYK) || (space == LEAT_ICC_GRAY && info.channels > 2)))
        rc = leat_icc_broken(format.name, "it is for other colours than the photo has", error);
    return rc ? rc : leat_icc_open(format.name, profile, d->rows.wide, &d->icc, error);
}

static int open_format(struct photo_decoder *d, struct format format, const struct leat_decode_request *request,
                       struct leat_error *error)
{
    d->rows = (struct leat_decode_rows){0};
    int rc = format.backend->open(format.decoder, request, &d->width, &d->height, &d->rows, error);
    if (rc)
        format.backend->close(format.decoder);
    return rc;
}

/* Opens the photo in its format; if it has a profile, in the colours that this is for. The profile is done with then.
 */
static int open_in_colours(struct photo_decoder *d, struct format format, const struct leat_decode_request *request,
                           struct leat_error *error)
{
    struct leat_image_wish wish = d->wish;
    struct leat_decode_request asked = *request;
    struct leat_bytes headers, profile;
    int rc = find_profile(d, format.backend, request, &headers, &profile, error);
    if (!rc && !profile.n)
        return open_format(d, format, request, error);
    if (!rc) {
        wish.gray = false;
        wish.inks = true;
        asked.wish = &wish;
        rc = open_format(d, format, &asked, error);
        if (rc)
            return rc;
        rc = open_profile(d, format, headers, profile, error);
        if (!rc)
            return LEAT_OK;
        format.backend->close(format.decoder);
    }
    if (rc != LEAT_E_DECODE || !request->lenient)
        return rc;
    d->passed = 1u << LEAT_JPEG_OTHER_WARNING;
    return open_format(d, format, request, error);
}

int leat_photo_open(struct leat_decoder *decoder, const struct leat_decode_request *request, uint32_t size[2],
                    struct leat_error *error)
{
    struct photo_decoder *d = (struct photo_decoder *)decoder;
    const struct leat_photo_format *found = leat_photo_format_of(request->form, request->data, request->length, error);
    d->scanned.backend = NULL;
    d->warnings = 0;
    if (!found)
        return LEAT_E_DECODE;
    const struct format format = d->formats[found - leat_photo_formats];
    d->wish = *leat_image_wish_of(request);
    if (d->wish.ids && format.backend != &leat_decode_png && format.backend != &leat_decode_raw) /* drawn masks */
        return leat_fail(error, LEAT_E_DECODE, "%s has colours, and no class ids: store the mask as PNG", format.name);
    if (d->wish.frame && !format.backend->has_frames)
        return leat_fail(error, LEAT_E_DECODE, "%s: frame %u was asked for, and leat reads only its first image",
                         format.name, d->wish.frame);
    d->scan_to_end = request->scan_to_end;
    d->failed = false;
    d->rows_given = d->rows_wanted = 0;
    d->passed = 0;
    int rc = open_in_colours(d, format, request, error);
    if (d->profile.bytes > KEEP_BYTES)
        leat_decode_buffer_free(&d->profile);
    if (rc)
        return rc;
    d->now = format;
    d->orientation = d->wish.exif ? leat_decode_orientation(request->form, request->data, request->length) : 1;
    leat_photo_scaled_size(decoder, 1, &size[0], &size[1]);
    return LEAT_OK;
}

/* The size as stored, at 1/denominator. */
static void stored_size(const struct photo_decoder *d, unsigned denominator, uint32_t *width, uint32_t *height)
{
    *width = (d->width + denominator - 1) / denominator;
    *height = (d->height + denominator - 1) / denominator;
}

unsigned leat_photo_scaled_size(const struct leat_decoder *decoder, unsigned denominator, uint32_t *width,
                                uint32_t *height)
{
    const struct photo_decoder *d = (const struct photo_decoder *)decoder;
    if (denominator > d->now.backend->max_denominator || d->rows.full_size)
        denominator = 1;
    uint32_t w, h;
    stored_size(d, denominator, &w, &h);
    *width = swaps_axes(d->orientation) ? h : w;
    *height = swaps_axes(d->orientation) ? w : h;
    return denominator;
}

/* The place of the box [at, at + length) on an axis of `size` when the axis runs the other way. */
static uint32_t mirrored(bool against, uint32_t at, uint32_t length, uint32_t size)
{
    return against ? size - at - length : at;
}

static int begin(struct photo_decoder *d, unsigned denominator, uint32_t x, uint32_t y, uint32_t w, uint32_t h,
                 struct leat_error *error)
{
    uint32_t width, height, stored_w, stored_h;
    if (denominator == 0 || denominator > d->now.backend->max_denominator || (denominator & (denominator - 1)) ||
        (d->rows.full_size && denominator > 1) || d->rows_wanted)
        return leat_fail(error, LEAT_E_INVALID, "a %s can not be begun at 1/%u now", d->now.name, denominator);
    leat_photo_scaled_size(&d->base, denominator, &width, &height);
    if (!w || !h || x >= width || y >= height || w > width - x || h > height - y)
        return leat_fail(error, LEAT_E_INVALID, "the box (%u, %u) + %u x %u does not lie in the image of %u x %u", x, y,
                         w, h, width, height);
    d->rows_wanted = h;

    bool swap = swaps_axes(d->orientation);
    stored_size(d, denominator, &stored_w, &stored_h);
    d->box_w = swap ? h : w;
    d->box_h = swap ? w : h;
    uint32_t box_x = mirrored(against_x(d->orientation), swap ? y : x, d->box_w, stored_w);
    uint32_t box_y = mirrored(against_y(d->orientation), swap ? x : y, d->box_h, stored_h);
    int rc = LEAT_OK;
    if (d->orientation > 1 || makes_rows(d))
        rc = leat_decode_reserve(&d->line, w > d->box_w ? w : d->box_w, d->wish.wide ? 8 : 4, error);
    if (!rc && d->icc)
        rc = leat_decode_reserve(&d->colours, d->box_w, 16, error);
    if (!rc && needs_whole_box(d->orientation))
        rc = leat_decode_reserve(&d->turned, d->box_h, (uint64_t)d->box_w * pixel_bytes(d), error);
    if (!rc)
        rc = d->now.backend->begin(d->now.decoder, denominator, box_x, box_y, d->box_w, d->box_h, error);
    if (rc || !needs_whole_box(d->orientation))
        return rc;
    size_t row_bytes = (size_t)d->box_w * pixel_bytes(d);
    for (uint32_t i = 0; i < d->box_h; i++) {
        const uint8_t *row;
        rc = stored_row(d, &row, error);
        if (rc)
            return rc;
        memcpy(d->turned.p + i * row_bytes, row, row_bytes);
    }
    return LEAT_OK;
}

int leat_photo_begin(struct leat_decoder *decoder, unsigned denominator, uint32_t x, uint32_t y, uint32_t w, uint32_t h,
                     struct leat_error *error)
{
    struct photo_decoder *d = (struct photo_decoder *)decoder;
    int rc = begin(d, denominator, x, y, w, h, error);
    if (rc)
        d->failed = true;
    return rc;
}

/* Row `i` of the delivered box out of the stored box in memory. */
static const uint8_t *turned_row(struct photo_decoder *d, uint32_t i)
{
    size_t pixel = pixel_bytes(d), stride = d->box_w * pixel;
    bool left = against_x(d->orientation), up = against_y(d->orientation);
    if (swaps_axes(d->orientation)) {
        size_t column = left ? d->box_w - 1 - i : i, first = up ? d->box_h - 1 : 0;
        copy_pixels(d->line.p, d->turned.p + first * stride + column * pixel,
                    up ? -(ptrdiff_t)stride : (ptrdiff_t)stride, d->box_h, (unsigned)pixel);
        return d->line.p;
    }
    const uint8_t *row = d->turned.p + (up ? d->box_h - 1 - i : i) * stride;
    if (!left)
        return row;
    copy_pixels(d->line.p, row + stride - pixel, -(ptrdiff_t)pixel, d->box_w, (unsigned)pixel);
    return d->line.p;
}

int leat_photo_row(struct leat_decoder *decoder, const uint8_t **row, struct leat_error *error)
{
    struct photo_decoder *d = (struct photo_decoder *)decoder;
    if (d->failed || d->rows_given >= d->rows_wanted) {
        d->failed = true;
        return leat_fail(error, LEAT_E_INVALID, "more rows were asked for than the box has, or after a failure");
    }
    uint32_t i = d->rows_given++;
    if (needs_whole_box(d->orientation)) {
        *row = turned_row(d, i);
        return LEAT_OK;
    }
    int rc = stored_row(d, row, error);
    if (rc) {
        d->failed = true;
        return rc;
    }
    if (d->orientation == 2) {
        /* in place if the row was made, else out of the decoder's */
        unsigned pixel = pixel_bytes(d);
        uint8_t *into = d->line.p;
        if (*row == into) {
            uint8_t t[8];
            for (size_t a = 0, b = d->box_w - 1; a < b; a++, b--) {
                memcpy(t, into + a * pixel, pixel);
                memcpy(into + a * pixel, into + b * pixel, pixel);
                memcpy(into + b * pixel, t, pixel);
            }
        } else {
            copy_pixels(into, *row + (size_t)(d->box_w - 1) * pixel, -(ptrdiff_t)pixel, d->box_w, pixel);
        }
        *row = into;
    }
    return LEAT_OK;
}

const struct leat_jpeg_frame *leat_photo_blocks(struct leat_decoder *decoder, struct leat_jpeg_source **source)
{
    struct photo_decoder *d = (struct photo_decoder *)decoder;
    if (!d->now.backend->blocks || d->orientation > 1 || d->icc || d->wish.ids || d->rows_wanted)
        return NULL;
    const struct leat_jpeg_frame *frame = d->now.backend->blocks(d->now.decoder, source);
    if (frame && source)
        d->rows_given = d->rows_wanted = 1;
    return frame;
}

int leat_photo_end(struct leat_decoder *decoder, struct leat_error *error)
{
    struct photo_decoder *d = (struct photo_decoder *)decoder;
    int rc = LEAT_OK;
    if (d->scan_to_end && !d->failed)
        rc = d->now.backend->scan(d->now.decoder, error);
    d->now.backend->close(d->now.decoder);
    leat_icc_close(d->icc);
    d->icc = NULL;
    if (d->now.backend->warnings)
        d->warnings = d->now.backend->warnings(d->now.decoder);
    d->warnings |= d->passed;
    if (d->scan_to_end && !d->failed && !rc)
        d->scanned = d->now;
    d->now.backend = NULL;
    if (d->turned.bytes > KEEP_BYTES)
        leat_decode_buffer_free(&d->turned);
    return rc;
}

bool leat_photo_is_cmyk(const struct leat_decoder *decoder)
{
    return ((const struct photo_decoder *)decoder)->rows.cmyk;
}

const uint8_t *leat_photo_rows(const struct leat_decoder *decoder, size_t *length)
{
    const struct photo_decoder *d = (const struct photo_decoder *)decoder;
    *length = 0;
    if (!d->scanned.backend || !d->scanned.backend->rows)
        return NULL;
    const uint8_t *rows = d->scanned.backend->rows(d->scanned.decoder, length);
    return *length ? rows : NULL;
}

unsigned leat_photo_warnings(const struct leat_decoder *decoder)
{
    return ((const struct photo_decoder *)decoder)->warnings;
}

bool leat_photo_whole(const struct leat_decoder *decoder)
{
    const struct format *f = &((const struct photo_decoder *)decoder)->scanned;
    if (!f->backend)
        return false;
    return f->backend->strict     ? f->backend->strict(f->decoder)
           : f->backend->warnings ? !f->backend->warnings(f->decoder)
                                  : true;
}

int leat_library_not_built(const char *format, const char *package, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_DECODE,
                     "%s: leat was built without the headers of %s, and so does not decode it: install them and build "
                     "leat again, or convert the photo to PNG",
                     format, package);
}
