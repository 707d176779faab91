/*
 * Decoding of photos: JPEG, PNG and WebP to rows of 8-bit pixels, only the box that is asked for.
 *
 *     open    reads the header: the size of the image as it will be delivered
 *     begin   which box, at which scale
 *     row     row after row of the box, top to bottom
 *     end     always after a successful open, whatever came between
 *
 * The rows are byte for byte those of a full decode, cropped. What the bytes are is decided by their first bytes, never
 * by a name. Anything that a decoder warns about (corrupt data, a premature end) is an error: LEAT_E_DECODE with the
 * decoder's words and, where known, the byte offset in `offset`.
 *
 * A pixel is one byte of grey, or four bytes R, G, B, 255. The colours are those of Pillow's convert("RGB") and
 * convert("L"): transparency is dropped, CMYK and YCCK are converted by R = (255 - C) (255 - K) / 255.
 */
#ifndef LEAT_CODEC_PHOTO_DECODE_H
#define LEAT_CODEC_PHOTO_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

/* What one thread keeps from photo to photo: the decoders' own objects and the buffers of rows, so that steady state
 * allocates nothing of ours. One thread at a time. */
struct leat_decoder;

/* So many bytes after the last pixel of a row may be read (their values mean nothing). */
#define LEAT_DECODE_PADDING 64

struct leat_decode_request {
    const void *data; /* the encoded photo: must stay in place until leat_decoder_end */
    size_t length;
    uint8_t form;        /* enum leat_image_form */
    const uint8_t *rows; /* the row index of an original JPEG (codec/jpeg/rows.h), or NULL */
    size_t rows_length;
    bool gray;        /* 1 byte per pixel, else RGBX: 4 bytes per pixel, X = 255 */
    bool exif;        /* deliver the image as its EXIF orientation says */
    bool scan_to_end; /* leat_decoder_end reads what the box did not need, and reports what is broken in it */
};

/* NULL when memory is out. */
struct leat_decoder *leat_decoder_new(void);
/* NULL is allowed. */
void leat_decoder_free(struct leat_decoder *decoder);

/* Reads the header of a photo. `*width` and `*height` receive the size of the image as it will be delivered (after the
 * EXIF orientation, if that was asked for). After a failure the decoder is ready for the next open; after success
 * leat_decoder_end must be called. Errors: DECODE, NOMEM. */
int leat_decoder_open(struct leat_decoder *decoder, const struct leat_decode_request *request, uint32_t *width,
                      uint32_t *height, struct leat_error *error);

/* The size of the opened photo at 1/denominator, as begin will have it. A JPEG can be had at 1, 2, 4 and 8: the result
 * is then ceil(size / denominator) and the call returns `denominator`. Other formats have only 1: the call returns 1
 * and gives the full size. `denominator` must be 1, 2, 4 or 8. */
unsigned leat_decoder_scaled_size(const struct leat_decoder *decoder, unsigned denominator, uint32_t *width,
                                  uint32_t *height);

/* Begins the rows of the box [x, x + w) x [y, y + h), in pixels of the image scaled by 1/denominator (1, or what
 * leat_decoder_scaled_size returned). The box must lie in the image and not be empty. May be called once per open.
 * Errors: DECODE, NOMEM, INVALID (the box). */
int leat_decoder_begin(struct leat_decoder *decoder, unsigned denominator, uint32_t x, uint32_t y, uint32_t w,
                       uint32_t h, struct leat_error *error);

/* The next row of the box: `*row` points to its first pixel, with no particular alignment, and is valid until the next
 * call on this decoder. LEAT_DECODE_PADDING readable bytes follow the last pixel. To be called at most `h` times; the
 * caller may stop earlier. After a failure only leat_decoder_end may be called. Errors: DECODE, NOMEM. */
int leat_decoder_row(struct leat_decoder *decoder, const uint8_t **row, struct leat_error *error);

/* Ends the photo. With scan_to_end, and if nothing has failed before, the rest of the bytes is read and damage
 * reported; else the rest is dropped. In each case the decoder is ready for the next open. Errors: DECODE, NOMEM. */
int leat_decoder_end(struct leat_decoder *decoder, struct leat_error *error);

/* The row index (codec/jpeg/rows.h), packed, of the photo that was ended last: NULL if it was not scanned to its end,
 * is broken, or of a kind that has none. Valid until the next open. */
const uint8_t *leat_decoder_rows(const struct leat_decoder *decoder, size_t *length);

#endif
