/*
 * JPEG: which decoder makes the pixels of this photo.
 */
#include "base/alloc.h"
#include "op/decode_internal.h"
#include "op/decode_libjpeg.h"

struct leat_decode_codec {
    struct leat_libjpeg libjpeg;
};

static struct leat_decode_codec *create_codec(void)
{
    return leat_new(struct leat_decode_codec);
}

static void destroy_codec(struct leat_decode_codec *j)
{
    leat_libjpeg_destroy(&j->libjpeg);
    leat_free(j);
}

static int open_photo(struct leat_decode_codec *j, const struct leat_decode_request *request, uint32_t *width, uint32_t *height,
                     bool *gray_rows, struct leat_error *error)
{
    return leat_libjpeg_open(&j->libjpeg, request, width, height, gray_rows, error);
}

static int begin_photo(struct leat_decode_codec *j, unsigned denominator, uint32_t x, uint32_t y, uint32_t w, uint32_t h,
                      struct leat_error *error)
{
    return leat_libjpeg_begin(&j->libjpeg, denominator, x, y, w, h, error);
}

static int row_photo(struct leat_decode_codec *j, const uint8_t **row, struct leat_error *error)
{
    return leat_libjpeg_row(&j->libjpeg, row, error);
}

static int scan_photo(struct leat_decode_codec *j, struct leat_error *error)
{
    return leat_libjpeg_scan(&j->libjpeg, error);
}

static void close_photo(struct leat_decode_codec *j)
{
    leat_libjpeg_close(&j->libjpeg);
}

const struct leat_decode_backend leat_decode_jpeg = {
    .name = "JPEG",
    .max_denominator = 8,
    .create = create_codec,
    .destroy = destroy_codec,
    .open = open_photo,
    .begin = begin_photo,
    .row = row_photo,
    .scan = scan_photo,
    .close = close_photo,
};
