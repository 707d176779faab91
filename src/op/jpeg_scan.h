/* Is the entropy-coded part of a JPEG whole? Twice as fast as a decoder that keeps what it reads. */
#ifndef LEAT_OP_JPEG_SCAN_H
#define LEAT_OP_JPEG_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

#define LEAT_JPEG_LOOK 11 /* bits that are looked up at once */

/* One Huffman table, made for reading over values. */
struct leat_jpeg_codes {
    JHUFF_TBL source; /* what it was made from: most photos have the same tables */
    bool made;
    uint32_t look[1 << LEAT_JPEG_LOOK]; /* see jpeg_scan.c */
    int32_t last_code[18];              /* of each length; -1 where there is none */
    int32_t value_offset[17];
};
struct leat_jpeg_scanner {
    struct leat_jpeg_codes dc[NUM_HUFF_TBLS], ac[NUM_HUFF_TBLS];
};

/* `cinfo` has read the header of a photo of one scan, Huffman-coded, not progressive, and is left as it is. True: all
 * blocks and restart markers are there, and the end marker follows. False: there is damage, or something unusual;
 * libjpeg knows which. */
bool leat_jpeg_scan_is_clean(struct leat_jpeg_scanner *scanner, j_decompress_ptr cinfo);

#endif
