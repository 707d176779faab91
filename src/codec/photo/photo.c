/*
 * The codec of photos: in which forms they may be stored, how these are read without decoding, and the table's entry.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/jpeg/fast.h"
#include "codec/jpeg/libjpeg.h"
#include "codec/jpeg/rows.h"
#include "codec/photo/decode_internal.h"
#include "codec/photo/raw.h"

/* ---- other forms ----------------------------------------------------------------------------- */

static void pack_row(uint8_t *to, const uint8_t *row, uint32_t width, unsigned channels)
{
    if (channels == 1)
        memcpy(to, row, width);
    for (uint32_t x = 0; x < width && channels == 3; x++)
        memcpy(to + 3 * (size_t)x, row + 4 * (size_t)x, 3);
}

/* The open photo, all of it. */
static int read_pixels(struct leat_decoder *decoder, const struct leat_raw_photo *photo, uint8_t *to,
                       struct leat_error *error)
{
    int rc = leat_decoder_begin(decoder, 1, 0, 0, photo->width, photo->height, error);
    for (uint32_t y = 0; y < photo->height && !rc; y++, to += (size_t)photo->width * photo->channels) {
        const uint8_t *row;
        rc = leat_decoder_row(decoder, &row, error);
        if (!rc)
            pack_row(to, row, photo->width, photo->channels);
    }
    return rc;
}

static int pack_raw(struct leat_decoder *decoder, bool lenient, const void *data, size_t length,
                    const struct leat_value_info *info, uint8_t **out, size_t *out_length, struct leat_error *error)
{
    const bool gray = info->channels < 3;
    const struct leat_image_wish wish = {.gray = gray};
    const struct leat_decode_request request = {
        .data = data, .length = length, .wish = &wish, .lenient = lenient, .scan_to_end = true};
    struct leat_raw_photo photo = {.channels = gray ? 1 : 3,
                                   .orientation = (uint8_t)leat_photo_orientation(data, length)};
    int rc = leat_image_open(decoder, &request, &photo.width, &photo.height, error);
    if (rc)
        return rc;
    uint64_t bytes =
        (uint64_t)photo.width * photo.height * photo.channels + LEAT_RAW_HEADER; /* of at most LEAT_MAX_PIXELS */
    uint8_t *p = leat_alloc(bytes);
    if (p) {
        leat_raw_photo_put(p, &photo);
        rc = read_pixels(decoder, &photo, p + LEAT_RAW_HEADER, error);
    } else {
        rc = leat_fail(error, LEAT_E_NOMEM, "%llu bytes of memory for the pixels of a photo could not be had",
                       (unsigned long long)bytes);
    }
    int end = leat_decoder_end(decoder, rc ? NULL : error);
    rc = rc ? rc : end;
    if (rc) {
        leat_free(p);
        return rc;
    }
    *out = p;
    *out_length = bytes;
    return LEAT_OK;
}

static int pack_fast(struct leat_decoder *decoder, const void *data, size_t length, const struct leat_value_info *info,
                     uint8_t **out, size_t *out_length, struct leat_error *error)
{
    const uint8_t *packed;
    size_t n;
    struct leat_jpeg_packer *packer = leat_photo_packer(decoder);
    if (!packer)
        return leat_fail(error, LEAT_E_NOMEM, "memory to pack a photo could not be had");
    int rc = leat_jpeg_pack(packer, data, length, leat_photo_orientation(data, length), info->kind, &packed, &n, error);
    if (rc)
        return rc;
    if (!(*out = leat_alloc(n)))
        return leat_fail(error, LEAT_E_NOMEM, "%zu bytes of memory for a photo could not be had", n);
    memcpy(*out, packed, n);
    *out_length = n;
    return LEAT_OK;
}

static int pack(struct leat_decoder *decoder, enum leat_photos form, bool lenient, const void *data, size_t length,
                uint8_t **out, size_t *out_length, struct leat_error *error)
{
    struct leat_value_info info;
    *out = NULL;
    *out_length = 0;
    int rc = leat_photo_probe(data, length, &info, error);
    if (rc)
        return rc;
    if (form == LEAT_PHOTOS_RAW && info.deep)
        return leat_fail(error, LEAT_E_UNSUPPORTED, "it has more than 8 bits a sample, which pixels are stored with");
    if (form == LEAT_PHOTOS_RAW)
        return pack_raw(decoder, lenient, data, length, &info, out, out_length, error);
    const struct leat_photo_format *format = leat_photo_format_of(LEAT_FORM_ORIGINAL, data, length, NULL);
    if (format->kind != LEAT_IMAGE_JPEG)
        return leat_fail(error, LEAT_E_UNSUPPORTED, "it is a %s: only a JPEG has a fast form", format->name);
    if (leat_jpeg_is_lossless((struct leat_bytes){data, length}))
        return leat_fail(error, LEAT_E_UNSUPPORTED, "it is a lossless JPEG, which has no fast form");
    rc = pack_fast(decoder, data, length, &info, out, out_length, error);
    if (rc != LEAT_E_DECODE || !lenient || (rc = leat_decoder_check(decoder, data, length, true, error)))
        return rc;
    return leat_fail(error, LEAT_E_UNSUPPORTED, "it is damaged, though it can be decoded: it has no fast form");
}

/* ---- reading them ---------------------------------------------------------------------------- */

static bool form_is_true(const void *data, size_t length, const struct leat_value_info *info)
{
    struct leat_raw_photo raw;
    struct leat_jpeg_original original;
    if (info->form == LEAT_FORM_RAW)
        return leat_raw_photo_get(data, length, &raw) && raw.width == info->size[0] && raw.height == info->size[1];
    return info->form != LEAT_FORM_FAST ||
           (!leat_jpeg_fast_original(data, length, &original, NULL) && original.length == info->original);
}

static enum leat_form form_of(const void *data, size_t length)
{
    struct leat_raw_photo raw;
    return leat_raw_photo_get(data, length, &raw) ? LEAT_FORM_RAW : LEAT_FORM_ORIGINAL;
}

static int view(struct leat_value *out, struct leat_error *error)
{
    struct leat_raw_photo raw;
    if (!leat_raw_photo_get(out->data, out->length, &raw))
        return leat_fail(error, LEAT_E_CORRUPT,
                         "the photo is not stored as pixels, as its index says: pack the file again");
    out->data = raw.pixels;
    out->length = raw.bytes;
    out->ndim = 3;
    out->shape[0] = raw.height;
    out->shape[1] = raw.width;
    out->shape[2] = raw.channels;
    out->orientation = raw.orientation;
    return LEAT_OK;
}

static uint64_t restore_bytes(const void *data, size_t length)
{
    struct leat_jpeg_frame frame;
    struct leat_jpeg_original original;
    if (leat_jpeg_fast_frame(data, length, &frame, NULL) || leat_jpeg_fast_original(data, length, &original, NULL))
        return 0;
    return leat_jpeg_restore_most_bytes(&frame, &original);
}

static const struct leat_image_codec image_codec = {
    .scaled_size = leat_photo_scaled_size,
    .begin = leat_photo_begin,
    .row = leat_photo_row,
    .blocks = leat_photo_blocks,
};

const struct leat_codec leat_codec_photo = {
    .name = "photo",
    .kind = LEAT_KIND_IMAGE,
    .kind_name = "image",
    .sizes = {"width", "height"},
    .raw_header = LEAT_RAW_HEADER,
    .probe = leat_photo_probe,
    .decode_bytes = leat_photo_decode_bytes,
    .decoder_new = leat_photo_decoder_new,
    .decoder_free = leat_photo_decoder_free,
    .open = leat_photo_open,
    .image = &image_codec,
    .end = leat_photo_end,
    .rows = leat_photo_rows,
    .warnings = leat_photo_warnings,
    .whole = leat_photo_whole,
    .warning_names = leat_jpeg_warning_names,
    .pack = pack,
    .shrink = leat_photo_shrink,
    .form_is_true = form_is_true,
    .rows_are_whole = leat_jpeg_rows_whole,
    .form_of = form_of,
    .view = view,
    .restore_bytes = restore_bytes,
    .restore = leat_jpeg_restore,
    .restore_check = leat_jpeg_fast_check,
};
