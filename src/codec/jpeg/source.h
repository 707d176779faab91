/*
 * The source of blocks of coefficients: an entropy decoder, or the decode-fast form. The picture asks for rows of MCUs
 * from top to bottom, for a range of columns that stays the same; a source need not make anything else.
 */
#ifndef LEAT_CODEC_JPEG_SOURCE_H
#define LEAT_CODEC_JPEG_SOURCE_H

#include "codec/jpeg/frame.h"

/* For one component in one row of MCUs: v rows of (x1 - x0) * h blocks. */
struct leat_jpeg_blocks {
    int16_t *coefficients; /* [v][(x1 - x0) * h][64], quantised, natural order, aligned to 64 bytes; 64 bytes more may
                              be written */
    uint8_t *last; /* [v][(x1 - x0) * h]: in zigzag order no coefficient behind this one (0 to 63) is other than 0 */
};

/* So many rows of MCUs are read at once, at most: an entropy decoder reads them side by side. */
#define LEAT_JPEG_ROWS_AT_ONCE 2

struct leat_jpeg_coded; /* huffman.h */

struct leat_jpeg_source {
    const struct leat_jpeg_coded *coded; /* the bytes that it reads by a row index; NULL: it has none */
    /* Fills blocks[i][c] for rows [row, row + n) of MCUs and columns [x0, x1). `row` never decreases, x0 and x1 never
     * change between calls. `needed` has bit k set for each coefficient, in natural order, that will be looked at:
     * others may be left 0. Errors: DECODE, NOMEM. */
    int (*read)(struct leat_jpeg_source *source, uint32_t row, uint32_t n, uint32_t x0, uint32_t x1, uint64_t needed,
                struct leat_jpeg_blocks blocks[][LEAT_JPEG_MAX_COMPONENTS], struct leat_error *error);
};

#endif
