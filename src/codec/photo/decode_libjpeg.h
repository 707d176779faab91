/* JPEG by libjpeg-turbo. The calls are those of a backend (decode_internal.h); nobody but decode_jpeg.c makes them. */
#ifndef LEAT_CODEC_PHOTO_DECODE_LIBJPEG_H
#define LEAT_CODEC_PHOTO_DECODE_LIBJPEG_H

#include "codec/jpeg/libjpeg.h"
#include "codec/photo/decode_internal.h"

/* Zeroed before the first call. */
struct leat_libjpeg {
    struct jpeg_decompress_struct cinfo;
    struct leat_jpeg_trouble trouble;
    struct leat_jpeg_input input;
    bool created, started, partial;
    const uint8_t *data;
    size_t length;

    uint32_t box_w, skip_pixels; /* pixels of libjpeg's row before the box */
    unsigned pixel_bytes;
    struct leat_decode_buffer line;
};

void leat_libjpeg_destroy(struct leat_libjpeg *j);

int leat_libjpeg_open(struct leat_libjpeg *j, const struct leat_decode_request *request, uint32_t *width,
                      uint32_t *height, bool *gray_rows, struct leat_error *error);
int leat_libjpeg_begin(struct leat_libjpeg *j, unsigned denominator, uint32_t x, uint32_t y, uint32_t w, uint32_t h,
                       struct leat_error *error);
int leat_libjpeg_row(struct leat_libjpeg *j, const uint8_t **row, struct leat_error *error);
int leat_libjpeg_scan(struct leat_libjpeg *j, struct leat_error *error);
void leat_libjpeg_close(struct leat_libjpeg *j);

#endif
