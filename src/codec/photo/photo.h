/*
 * Photos of many formats to rows of pixels, only the requested box. The first bytes decide the format, never a name.
 * Anything that a decoder warns about (corrupt data, a premature end) is an error: LEAT_E_DECODE with the decoder's
 * words and, where known, the byte offset.
 *
 * A pixel is one byte of grey, or four bytes R, G, B, 255. The colours are those of Pillow's convert("RGB") and
 * convert("L"): transparency is dropped, CMYK and YCCK are converted by R = (255 - C) (255 - K) / 255.
 */
#ifndef LEAT_CODEC_PHOTO_PHOTO_H
#define LEAT_CODEC_PHOTO_PHOTO_H

#include "codec/image.h"

/* leat_value_info.kind of a photo: leat_photo_kind_name has their names. Files have these numbers. */
enum leat_image_kind {
    LEAT_IMAGE_UNKNOWN = 0,
    LEAT_IMAGE_JPEG_BASELINE = 1,    /* baseline or extended, Huffman: can be decoded in part */
    LEAT_IMAGE_JPEG_PROGRESSIVE = 2, /* progressive, Huffman */
    LEAT_IMAGE_JPEG_OTHER = 3,       /* arithmetic, lossless, 12 bits */
#define LEAT_PHOTO(id, ID, number, ...) LEAT_IMAGE_##ID = number,
#include "codec/photo/formats.def"
#undef LEAT_PHOTO
};

/* One format of photos; formats.def says what each is. */
struct leat_photo_format {
    const char *name;
    unsigned kind;
    const char *suffixes, *written;
    struct leat_photo_magic {
        const char *bytes;
        size_t n;
    } magic[5]; /* NULL behind the last one */
    const char *needs;
    const struct leat_decode_backend *backend;
};

enum {
    LEAT_PHOTO_FORMATS = 0
#define LEAT_PHOTO(...) +1
#include "codec/photo/formats.def"
#undef LEAT_PHOTO
};
/* All of formats.def, and behind them what leat stores as pixels, which is no file. */
extern const struct leat_photo_format leat_photo_formats[LEAT_PHOTO_FORMATS + 1];

/* Whether the bytes have the magic of this format, which may have more to say about them. */
bool leat_photo_has_magic(const struct leat_photo_format *format, const void *data, size_t length);
/* Whether these are the first bytes of a photo, of a format whose magic is long enough to tell. */
bool leat_photo_begins(const void *head, size_t length);
/* Whether a file of this name is a photo. */
bool leat_photo_has_suffix(const char *name);

extern const struct leat_codec leat_codec_photo; /* codec/photo/photo.c */

#endif
