/*
 * From coefficients to pixels: rows of a box of the image, from a source of blocks. Only the blocks that the box needs
 * (and those beside it that smooth upsampling needs) are read, transformed, upsampled and coloured. The rows are byte
 * for byte those of libjpeg-turbo (accurate integer DCT, fancy upsampling) for a full decode, cropped.
 */
#ifndef LEAT_CODEC_JPEG_PICTURE_H
#define LEAT_CODEC_JPEG_PICTURE_H

#include "base/cpu.h"
#include "codec/jpeg/source.h"

struct leat_jpeg_picture; /* buffers that are kept from photo to photo; one thread at a time */

/* NULL when memory is out. */
struct leat_jpeg_picture *leat_jpeg_picture_new(enum leat_isa isa);
void leat_jpeg_picture_free(struct leat_jpeg_picture *picture); /* NULL is allowed */

/* Begins the rows of the box [x, x + w) x [y, y + h), not empty and inside the image scaled by 1/denominator (1, 2, 4,
 * 8: sizes rounded up, as libjpeg scales). With `gray`, which only a gray frame allows, a pixel is one byte; else four:
 * R, G, B, 255 (CMYK and YCCK converted as codec/photo/photo.h says). `frame` and `source` must stay until the last
 * row. NOMEM. */
int leat_jpeg_picture_begin(struct leat_jpeg_picture *picture, const struct leat_jpeg_frame *frame,
                            struct leat_jpeg_source *source, unsigned denominator, bool gray, uint32_t x, uint32_t y,
                            uint32_t w, uint32_t h, struct leat_error *error);
/* After begin: for a frame of four components, rows have C, M, Y and K, 255 for most ink, in the place of colours. */
void leat_jpeg_picture_inks(struct leat_jpeg_picture *picture);
/* The next row of the box, at most h times: valid until the next call; 64 readable bytes follow the last pixel.
 * Errors: those of the source. */
int leat_jpeg_picture_row(struct leat_jpeg_picture *picture, const uint8_t **row, struct leat_error *error);
/* Bytes that a picture of this frame takes at most, whatever the box and the scale. */
uint64_t leat_jpeg_picture_most_bytes(const struct leat_jpeg_frame *frame);
/* Gives back the memory that only a huge photo needed. */
void leat_jpeg_picture_trim(struct leat_jpeg_picture *picture);

#endif
