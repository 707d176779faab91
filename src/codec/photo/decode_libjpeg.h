/* JPEG by libjpeg-turbo. The calls are those of a backend (decode_internal.h); nobody but decode_jpeg.c makes them. */
#ifndef LEAT_CODEC_PHOTO_DECODE_LIBJPEG_H
#define LEAT_CODEC_PHOTO_DECODE_LIBJPEG_H

#include "codec/jpeg/libjpeg.h"
#include "codec/photo/decode_internal.h"

/* Kinds that need more than libjpeg's rows of 8 bits (decode_libjpeg_rare.c). */
enum leat_jpeg_rare {
    LEAT_JPEG_COMMON = 0,
    LEAT_JPEG_ROWS,      /* 12 bits or lossless */
    LEAT_JPEG_FRACTIONAL /* sampling factors of which one does not divide the largest */
};

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
    bool inks; /* CMYK is delivered as such */
    struct leat_decode_buffer line;

    enum leat_jpeg_rare rare;
    bool wide;              /* the rest is for rare kinds: rows of 16 bits a sample are delivered */
    unsigned pixel_samples; /* delivered: 1 or 4 */
    uint32_t rare_y;
    struct leat_decode_buffer samples, pixels, plane[MAX_COMPONENTS];
    size_t plane_stride[MAX_COMPONENTS];
};

void leat_libjpeg_destroy(struct leat_libjpeg *j);

int leat_libjpeg_open(struct leat_libjpeg *j, const struct leat_decode_request *request, uint32_t *width,
                      uint32_t *height, struct leat_decode_rows *rows, struct leat_error *error);
int leat_libjpeg_begin(struct leat_libjpeg *j, unsigned denominator, uint32_t x, uint32_t y, uint32_t w, uint32_t h,
                       struct leat_error *error);
int leat_libjpeg_row(struct leat_libjpeg *j, const uint8_t **row, struct leat_error *error);
int leat_libjpeg_scan(struct leat_libjpeg *j, struct leat_error *error);
void leat_libjpeg_close(struct leat_libjpeg *j);

/* decode_libjpeg_rare.c: whether libjpeg is one that reads 12 bits and lossless photos; the kind of one whose header
 * was read; and begin, row and scan, in which a failure of libjpeg's jumps to j->trouble.jump. */
bool leat_libjpeg_has_rare(void);
enum leat_jpeg_rare leat_libjpeg_rare_of(const struct leat_libjpeg *j);
int leat_libjpeg_rare_begin(struct leat_libjpeg *j, uint32_t x, uint32_t y, uint32_t w, struct leat_error *error);
const uint8_t *leat_libjpeg_rare_row(struct leat_libjpeg *j);
int leat_libjpeg_rare_scan(struct leat_libjpeg *j, struct leat_error *error);

#endif
