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

#include "codec/codec.h"

/* leat_value_info.kind of a photo: leat_photo_kind_name has their names. Files have these numbers. */
enum leat_image_kind {
    LEAT_IMAGE_UNKNOWN = 0,
    LEAT_IMAGE_JPEG_BASELINE,    /* baseline or extended, Huffman: can be decoded in part */
    LEAT_IMAGE_JPEG_PROGRESSIVE, /* progressive, Huffman */
    LEAT_IMAGE_JPEG_OTHER,       /* arithmetic, lossless, 12 bits */
    LEAT_IMAGE_PNG,
    LEAT_IMAGE_WEBP,
    LEAT_IMAGE_GIF,
    LEAT_IMAGE_BMP,
    LEAT_IMAGE_PNM,
    LEAT_IMAGE_TIFF,
    LEAT_IMAGE_AVIF,
    LEAT_IMAGE_JXL,
    LEAT_IMAGE_JP2
};

extern const struct leat_codec leat_codec_photo; /* codec/photo/photo.c */

#endif
