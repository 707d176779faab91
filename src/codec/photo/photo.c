/*
 * Is this photo whole? The decoder, with nothing between its beginning and its end. And what is stored instead of it,
 * where another form was asked for.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/jpeg/fast.h"
#include "codec/photo/decode_internal.h"
#include "codec/photo/photo.h"
#include "codec/photo/raw.h"

struct leat_photo_checker {
    struct leat_decoder *decoder;
    struct leat_jpeg_packer *packer; /* made when a photo is to get the fast form */
};

struct leat_photo_checker *leat_photo_checker_new(void)
{
    struct leat_photo_checker *checker = leat_new(struct leat_photo_checker);
    if (!checker)
        return NULL;
    checker->decoder = leat_decoder_new();
    if (!checker->decoder) {
        leat_free(checker);
        return NULL;
    }
    return checker;
}

void leat_photo_checker_free(struct leat_photo_checker *checker)
{
    if (!checker)
        return;
    leat_decoder_free(checker->decoder);
    leat_jpeg_packer_free(checker->packer);
    leat_free(checker);
}

int leat_photo_check(struct leat_photo_checker *checker, const void *data, size_t length, struct leat_error *error)
{
    struct leat_decode_request request = {.data = data, .length = length, .scan_to_end = true};
    uint32_t width, height;
    int rc = leat_decoder_open(checker->decoder, &request, &width, &height, error);
    return rc ? rc : leat_decoder_end(checker->decoder, error);
}

const uint8_t *leat_photo_checker_rows(const struct leat_photo_checker *checker, size_t *length)
{
    return leat_decoder_rows(checker->decoder, length);
}

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

static int pack_raw(struct leat_photo_checker *checker, const void *data, size_t length,
                    const struct leat_photo_info *info, uint8_t **out, size_t *out_length, struct leat_error *error)
{
    const bool gray = info->channels < 3;
    const struct leat_decode_request request = {.data = data, .length = length, .gray = gray, .scan_to_end = true};
    struct leat_raw_photo photo = {.channels = gray ? 1 : 3,
                                   .orientation = (uint8_t)leat_exif_orientation(data, length)};
    int rc = leat_decoder_open(checker->decoder, &request, &photo.width, &photo.height, error);
    if (rc)
        return rc;
    uint64_t bytes =
        (uint64_t)photo.width * photo.height * photo.channels + LEAT_RAW_HEADER; /* of at most LEAT_MAX_PIXELS */
    uint8_t *p = leat_alloc(bytes);
    if (p) {
        leat_raw_photo_put(p, &photo);
        rc = read_pixels(checker->decoder, &photo, p + LEAT_RAW_HEADER, error);
    } else {
        rc = leat_fail(error, LEAT_E_NOMEM, "%llu bytes of memory for the pixels of a photo could not be had",
                       (unsigned long long)bytes);
    }
    int end = leat_decoder_end(checker->decoder, rc ? NULL : error);
    rc = rc ? rc : end;
    if (rc) {
        leat_free(p);
        return rc;
    }
    *out = p;
    *out_length = bytes;
    return LEAT_OK;
}

static int pack_fast(struct leat_photo_checker *checker, const void *data, size_t length,
                     const struct leat_photo_info *info, uint8_t **out, size_t *out_length, struct leat_error *error)
{
    const uint8_t *packed;
    size_t n;
    if (!checker->packer && !(checker->packer = leat_jpeg_packer_new()))
        return leat_fail(error, LEAT_E_NOMEM, "memory to pack a photo could not be had");
    int rc = leat_jpeg_pack(checker->packer, data, length, leat_exif_orientation(data, length), info->image_kind,
                            &packed, &n, error);
    if (rc)
        return rc;
    if (!(*out = leat_alloc(n)))
        return leat_fail(error, LEAT_E_NOMEM, "%zu bytes of memory for a photo could not be had", n);
    memcpy(*out, packed, n);
    *out_length = n;
    return LEAT_OK;
}

int leat_photo_pack(struct leat_photo_checker *checker, enum leat_photos form, const void *data, size_t length,
                    uint8_t **out, size_t *out_length, struct leat_error *error)
{
    struct leat_photo_info info;
    *out = NULL;
    *out_length = 0;
    int rc = leat_photo_probe(data, length, &info, error);
    if (rc)
        return rc;
    if (form == LEAT_PHOTOS_RAW)
        return pack_raw(checker, data, length, &info, out, out_length, error);
    if (info.image_kind == LEAT_IMAGE_PNG || info.image_kind == LEAT_IMAGE_WEBP)
        return leat_fail(error, LEAT_E_UNSUPPORTED, "it is a %s: only a JPEG has a fast form",
                         info.image_kind == LEAT_IMAGE_PNG ? "PNG" : "WebP");
    return pack_fast(checker, data, length, &info, out, out_length, error);
}
