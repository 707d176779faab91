/* Pixels through a JPEG and back, as libjpeg-turbo writes and reads it. */
#ifndef LEAT_CODEC_JPEG_RECODE_H
#define LEAT_CODEC_JPEG_RECODE_H

#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

/* Encodes w x h packed pixels of 1 (gray) or 3 (RGB) bytes at a quality of 1 to 100, with chroma of half the size both
 * ways, and decodes that into `out`, which may be `in`; rows begin in_row and out_row bytes after each other. Sides are
 * at most 65500 (INVALID). NOMEM. */
int leat_jpeg_recode(const uint8_t *in, size_t in_row, uint8_t *out, size_t out_row, uint32_t w, uint32_t h,
                     unsigned channels, int quality, struct leat_error *error);

#endif
