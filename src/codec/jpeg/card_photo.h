/*
 * A photo that a card decodes, as its kernels (src/device/kernels/photo_*.cu.h) get it: the host has checked it, and
 * computed all sizes and places. card_plan.h makes it. Plain C without headers, as NVRTC gets it too.
 *
 *     bytes that travel    of LEAT_CARD_FAST: ends of the rows, u32 each | rows of blocks |
 *                          of LEAT_CARD_CODED: starts | tables of codes | the coded bytes, without stuffing |
 *                          zeros up to a multiple of 16, 16 or more
 *     scratch of the card  rows | blocks | weights across, down | codes | coefficients | first | second
 *     first                samples between the passes of the inverse DCT, then pixels of the box (R, G, B, 255)
 *     second               samples, then rows of pixels of the result's width
 */
#ifndef LEAT_CODEC_JPEG_CARD_PHOTO_H
#define LEAT_CODEC_JPEG_CARD_PHOTO_H

enum leat_card_form {
    LEAT_CARD_NONE = 0, /* nothing: the result stays as it is */
    LEAT_CARD_PIXELS,   /* the bytes are those of the result */
    /* from here on the card makes the pixels */
    LEAT_CARD_FAST, /* of rows of blocks, as the decode-fast form packs them */
    LEAT_CARD_CODED /* of the entropy-coded bytes of a JPEG */
};
enum {
    LEAT_CARD_PADDING = 16,
    LEAT_CARD_PLANES = 3,
    LEAT_CARD_LOOK = 10 /* bits of a code that are looked up at once */
};

/* A component. Blocks are counted in its grid. */
struct leat_card_plane {
    unsigned v, across_mcu;  /* rows of blocks in a row of MCUs; blocks of a row in an MCU */
    unsigned blocks_w;       /* blocks of a row that travel, */
    unsigned left;           /* ... and those to the left of them, which do not */
    unsigned check0, check1; /* of those that travel, columns that a decoder on the processor would unpack */
    unsigned x0, y0, w, h;   /* the blocks that are transformed */
    unsigned first;          /* those of the components before */
    unsigned across, down;   /* pixels per sample */
    unsigned smooth_across, smooth_down;
    unsigned width, height; /* samples of the whole image */
    unsigned short dc, ac;  /* numbers of its tables of codes */
    unsigned short quant[64];
};

/* One direction of the resize. */
struct leat_card_axis {
    unsigned filter, taps; /* enum leat_filter */
    unsigned in, out;      /* pixels of the part of the photo; that it becomes */
    unsigned skip;         /* pixels of the part before the box */
    unsigned from, n;      /* the part of the result that is wanted */
    unsigned mirrored;     /* the photo is mirrored before the resize, */
    unsigned flip;         /* and the wanted part behind it */
    unsigned weights_at;   /* in the scratch: of each wanted pixel its first one in the box, their number, weights */
};

struct leat_card_photo {
    unsigned long long data, scratch, out; /* places of the photo in memory that the photos of a batch share */
    unsigned form, bytes;                  /* bytes that travel */
    unsigned scratch_bytes;                /* a multiple of 16 */
    unsigned colour, n_planes;             /* enum leat_jpeg_colour */
    unsigned n_rows, rows_per_mcu, mcu_y;  /* rows of blocks that travel, from this row of MCUs on */
    unsigned blocks;                       /* that are transformed, of all components */
    unsigned w, h, x, y;                   /* the box of pixels that the result needs */
    unsigned blocks_at, codes_at, coefficients_at, first_at, second_at;
    /* of LEAT_CARD_CODED */
    unsigned n_starts, rows_per_start; /* rows of MCUs from one start to the next; the first is that of mcu_y, or
                                          before it, at a multiple of them */
    unsigned mcus_w, mcu_x1;           /* MCUs of a row; of the last row those up to here are read */
    unsigned n_tables, interval;       /* MCUs between restart markers; 0: there are none */
    struct leat_card_axis axis[2];     /* across, down */
    struct leat_card_plane plane[LEAT_CARD_PLANES];
};

/* The state of an entropy decoder before a row of MCUs (rows.h). */
struct leat_card_start {
    unsigned bit, left; /* behind the first coded byte; MCUs until a restart marker */
    short dc[LEAT_CARD_PLANES], zero;
};
/* A table of Huffman codes, as a JPEG has it: the number of codes of 1 to 16 bits, and their values. */
struct leat_card_codes {
    unsigned char bits[16], values[256];
};

/* In the scratch, of LEAT_CARD_CODED: of each table, by the next LEAT_CARD_LOOK bits, the code's length and 32 times
 * its value, 16 bits, or 0 where it is longer. Of each block that is transformed its coefficients, 16 bits each in
 * zigzag order, and a leat_card_block whose mask is 1 if one of rows 1 to 7 is not 0.
 *
 * Of LEAT_CARD_FAST: of each row that travels, the places of its streams behind its first byte; all 0 if it makes no
 * sense. Then of each block that is transformed, its places in these streams. */
struct leat_card_row {
    unsigned mask, sign, a, b, nibble, byte, word;
    unsigned begin; /* of the row, behind the first byte that travels */
};
struct leat_card_block {
    unsigned mask, value, nibble, byte, word; /* bytes of masks before it, coefficients, nibbles, bytes, words */
    short dc;
    unsigned short mask_bytes;
};

#endif
