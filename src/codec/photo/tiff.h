/*
 * The directories of a TIFF, read without a library: those of a photo, and those of EXIF data, which are a TIFF.
 *
 *     header     "II*\0" or "MM\0*", offset of the first directory: 4 bytes. BigTIFF: "II+\0" or "MM\0+", 8, 0 and 8
 *     directory  how many entries: 2 (8); entries: tag 2, type 2, count 4 (8), values or their offset 4 (8); offset of
 *                the next directory 4 (8), 0 at the end
 */
#ifndef LEAT_CODEC_PHOTO_TIFF_H
#define LEAT_CODEC_PHOTO_TIFF_H

#include "codec/photo/bytes.h"

struct leat_tiff {
    struct leat_bytes file;
    bool big_endian, big; /* big: BigTIFF */
    uint64_t first;       /* offset of the first directory */
};

struct leat_tiff_directory {
    uint64_t at, n; /* the place of its entries, and their number */
    uint64_t next;  /* offset of the next one; 0: there is none */
};

struct leat_tiff_entry {
    unsigned type, unit; /* unit: bytes of a value */
    uint64_t count;
    const uint8_t *values;
};

/* False: the bytes do not begin like a TIFF. */
bool leat_tiff_begin(struct leat_bytes file, struct leat_tiff *tiff);
/* The directory at an offset, as much of it as is there. False: there is none. */
bool leat_tiff_directory(const struct leat_tiff *tiff, uint64_t at, struct leat_tiff_directory *directory);
/* The first entry of a tag. False: there is none, or its values are of no type with whole numbers or not there. */
bool leat_tiff_find(const struct leat_tiff *tiff, const struct leat_tiff_directory *directory, unsigned tag,
                    struct leat_tiff_entry *entry);
/* Value `i` below the count. Those below 0 are large numbers. */
uint64_t leat_tiff_value(const struct leat_tiff *tiff, const struct leat_tiff_entry *entry, uint64_t i);
/* The first value of a tag; `otherwise` if there is none. */
uint64_t leat_tiff_number(const struct leat_tiff *tiff, const struct leat_tiff_directory *directory, unsigned tag,
                          uint64_t otherwise);

/* The orientation, 1 to 8, of the first directory; 1 if there is none or it makes no sense. */
unsigned leat_tiff_orientation(struct leat_bytes file);

#endif
