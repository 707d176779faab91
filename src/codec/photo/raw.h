/*
 * A photo stored as pixels (LEAT_FORM_RAW): a header of 16 bytes, then its rows from top to bottom without gaps, as
 * they are decoded (8 bits, gray or RGB, before the EXIF orientation). docs/format.md specifies it.
 */
#ifndef LEAT_CODEC_PHOTO_RAW_H
#define LEAT_CODEC_PHOTO_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LEAT_RAW_HEADER = 16 };

struct leat_raw_photo {
    uint32_t width, height;
    uint8_t channels;      /* 1 or 3 */
    uint8_t orientation;   /* EXIF, 1 to 8 */
    const uint8_t *pixels; /* [height][width][channels] */
    uint64_t bytes;        /* of these */
};

/* The header; pixels and bytes are not looked at. */
void leat_raw_photo_put(uint8_t header[LEAT_RAW_HEADER], const struct leat_raw_photo *photo);
/* False: the bytes, which may be hostile, are no such photo, or not all of it and nothing else. Allocates nothing. */
bool leat_raw_photo_get(const void *data, uint64_t length, struct leat_raw_photo *photo);

#endif
