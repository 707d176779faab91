/* What decode.c and the decoders of the formats share. Nobody else includes this. */
#ifndef LEAT_CODEC_PHOTO_DECODE_INTERNAL_H
#define LEAT_CODEC_PHOTO_DECODE_INTERNAL_H

#include "codec/photo/decode.h"

/* Memory that only grows. What it held is lost when it grows. */
struct leat_decode_buffer {
    uint8_t *p;
    size_t bytes;
};
/* Makes room for count * each bytes and LEAT_DECODE_PADDING more. */
int leat_decode_reserve(struct leat_decode_buffer *buffer, uint64_t count, uint64_t each, struct leat_error *error);
void leat_decode_buffer_free(struct leat_decode_buffer *buffer);

/* A failure of the photo's bytes: LEAT_E_DECODE, "FORMAT: words [at byte offset of length]; what to do". `offset` may
 * be -1. */
int leat_decode_fail(struct leat_error *error, const char *format, int64_t offset, size_t length, const char *words);

/* Whether the size is one that leat decodes: not empty, and within LEAT_MAX_PIXELS and LEAT_MAX_SIDE. */
int leat_decode_check_size(const char *format, uint64_t width, uint64_t height, struct leat_error *error);

struct leat_decode_codec;

/* One decoder of a format. Calls come in the order of decode.h; sizes and boxes are those of the stored image, before
 * the EXIF orientation. Rows are RGBX, or grey where `gray_rows` was set by open. */
struct leat_decode_backend {
    const char *name;
    unsigned max_denominator;
    struct leat_decode_codec *(*create)(void);
    void (*destroy)(struct leat_decode_codec *codec);
    int (*open)(struct leat_decode_codec *codec, const struct leat_decode_request *request, uint32_t *width,
                uint32_t *height, bool *gray_rows, struct leat_error *error);
    int (*begin)(struct leat_decode_codec *codec, unsigned denominator, uint32_t x, uint32_t y, uint32_t w, uint32_t h,
                 struct leat_error *error);
    int (*row)(struct leat_decode_codec *codec, const uint8_t **row, struct leat_error *error);
    /* Reads what has not been read yet, as cheaply as damage can be found. After open, begin or any row. */
    int (*scan)(struct leat_decode_codec *codec, struct leat_error *error);
    /* The row index that this scan has left, valid until the next open; or NULL. Asked after close. May be NULL. */
    const uint8_t *(*rows)(const struct leat_decode_codec *codec, size_t *length);
    /* Always the last call, also after a failure of open. */
    void (*close)(struct leat_decode_codec *codec);
};

extern const struct leat_decode_backend leat_decode_jpeg, leat_decode_png, leat_decode_webp, leat_decode_raw;

/* The decoder for these bytes, or NULL with an error that names what they look like. */
const struct leat_decode_backend *leat_decode_recognise(const void *data, size_t length, struct leat_error *error);

/* The orientation of a photo of any form whose header is good. */
unsigned leat_decode_orientation(uint8_t form, const void *data, size_t length);

/* The EXIF orientation, 1 to 8, of a JPEG, PNG or WebP; 1 where there is none or it makes no sense. */
unsigned leat_exif_orientation(const void *data, size_t length);

#endif
