/*
 * Photos that another file has as pixels, [height][width][3] without a header, as values in the form RAW
 * (codec/codec.h): a file in which each of them lies behind the header of that form, which is made as it is read.
 *
 *     photo k    at k << 33:    header of 16 bytes | pixels, of the file that has them
 */
#ifndef LEAT_FORMAT_RAW_PHOTOS_H
#define LEAT_FORMAT_RAW_PHOTOS_H

#include "codec/codec.h"
#include "io/file.h"

#define LEAT_RAW_PHOTO_SHIFT 33
#define LEAT_RAW_PHOTOS_MOST (UINT64_C(1) << (62 - LEAT_RAW_PHOTO_SHIFT))

struct leat_raw_place {
    uint32_t width, height;
    uint64_t offset; /* of its pixels */
};
/* The place of a photo; IO: it cannot be told. Any thread. */
typedef int (*leat_raw_place_fn)(void *user, uint64_t photo, struct leat_raw_place *out, struct leat_error *error);

/* `user` outlives the file. NOMEM. */
int leat_raw_photos_open(struct leat_io_file *pixels, leat_raw_place_fn place, void *user, struct leat_io_file **out,
                         struct leat_error *error);
/* The bytes of such a value; 0: it has 4 GiB or more, or no pixels, and is none. */
uint64_t leat_raw_photo_bytes(uint32_t width, uint32_t height);
/* Fills in the facts of such a value. */
void leat_raw_photo_describe(uint32_t width, uint32_t height, struct leat_value_info *info);

#endif
