/*
 * Entropy decoding of baseline and extended Huffman photos of one scan: a source of blocks, with or without the row
 * index (rows.h), and the coefficients of a whole photo. A scan that is not exactly as an encoder writes it is left to
 * libjpeg-turbo.
 */
#ifndef LEAT_CODEC_JPEG_HUFFMAN_H
#define LEAT_CODEC_JPEG_HUFFMAN_H

#include "codec/jpeg/huffman_stream.h"
#include "codec/jpeg/rows.h"
#include "codec/jpeg/source.h"

struct leat_jpeg_huffman; /* tables and buffers kept from photo to photo; one thread at a time */

struct leat_jpeg_huffman *leat_jpeg_huffman_new(void);          /* NULL when memory is out */
void leat_jpeg_huffman_free(struct leat_jpeg_huffman *huffman); /* NULL is allowed */

/* Whether this decoder knows the photo whose header `cinfo` has read (the next byte of its input is the first of the
 * scan): 8 bits, one scan with all components, Huffman, not progressive, tables that libjpeg takes too. Prepares its
 * tables. */
bool leat_jpeg_huffman_knows(struct leat_jpeg_huffman *huffman, const struct jpeg_decompress_struct *cinfo,
                             const struct leat_jpeg_frame *frame);

/* After `knows`: reads the whole scan without keeping a coefficient. True: all blocks and restart markers are there,
 * and the end marker follows; `rows` then holds the row index. False: libjpeg names the error, if there is any. NULL
 * `rows`: only the verdict. */
bool leat_jpeg_huffman_scan(struct leat_jpeg_huffman *huffman, struct leat_jpeg_rows *rows);

/* After `knows`: begins reading blocks, from the scan's beginning if `index` is NULL, else by the packed row index
 * (rows.h) of `length` bytes. False: the index does not fit the photo; begin without. The bytes of the photo must stay.
 * The source fails with LEAT_E_DECODE on anything unusual. */
bool leat_jpeg_huffman_begin(struct leat_jpeg_huffman *huffman, const uint8_t *index, size_t length,
                             struct leat_jpeg_source **source);

/* The entropy-coded bytes of a photo, and where its rows begin. */
struct leat_jpeg_coded {
    const uint8_t *scan, *scan_end;
    const struct leat_jpeg_mcu *mcu;
    const struct leat_jpeg_rows *rows;
    uint32_t mcus_w, interval; /* MCUs between restart markers; 0: none */
};

/* After `knows`: all coefficients of the photo, for each component blocks_h * blocks_w blocks row by row, natural
 * order, every value written. False as from `scan`. */
bool leat_jpeg_huffman_read_all(struct leat_jpeg_huffman *huffman,
                                int16_t *const coefficients[LEAT_JPEG_MAX_COMPONENTS]);

#endif
