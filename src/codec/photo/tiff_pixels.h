/* Samples of a TIFF to RGBA. */
#ifndef LEAT_CODEC_PHOTO_TIFF_PIXELS_H
#define LEAT_CODEC_PHOTO_TIFF_PIXELS_H

#include "codec/photo/tiff.h"

enum leat_tiff_photometric {
    LEAT_TIFF_WHITE_IS_0 = 0,
    LEAT_TIFF_BLACK_IS_0 = 1,
    LEAT_TIFF_RGB = 2,
    LEAT_TIFF_PALETTE = 3,
    LEAT_TIFF_CMYK = 5,
    LEAT_TIFF_YCBCR = 6, /* delivered as RGB */
    LEAT_TIFF_LAB = 8    /* put as L, a + 128 and b + 128 */
};

/* Integers without a sign of up to 16 bits are shares of the largest one. All others are numbers, clipped to the range
 * of a sample. */
enum leat_tiff_number { LEAT_TIFF_UNSIGNED = 0, LEAT_TIFF_SIGNED, LEAT_TIFF_FLOAT };

enum { LEAT_TIFF_MOST_USED = 5 }; /* samples of a pixel that count */

struct leat_tiff_layout {
    unsigned photometric, bits, number, samples;
    unsigned colours; /* samples that are colours; they stand first */
    unsigned alpha;   /* which sample is the opacity; 0: none */
    bool inks;        /* CMYK is to be put as it is, without an opacity */
    bool multiplied;  /* colours are multiplied by it */
    bool apart;       /* a row has samples of one plane */
    struct leat_tiff_entry palette;
    struct leat_tiff tiff; /* of the palette */
};

/* Bytes of a row of `width` pixels, of one plane if they are apart. */
uint64_t leat_tiff_row_bytes(const struct leat_tiff_layout *layout, uint32_t width);

/* Memory for one row that leat_tiff_put works in, for each pixel. */
#define LEAT_TIFF_LINE_BYTES (2 * LEAT_TIFF_MOST_USED)

/* A row of n pixels to RGBA of 8 or, wide, of 16 bits. If planes are apart, the row of each, first those of colours,
 * then that of the opacity, lies `plane_bytes` behind that of the one before. */
void leat_tiff_put(const struct leat_tiff_layout *layout, const uint8_t *row, uint64_t plane_bytes, uint32_t n,
                   bool wide, uint8_t *line, uint8_t *to);

#endif
