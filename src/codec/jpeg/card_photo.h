/*
 * A photo that a card decodes, as its kernels (src/device/kernels/photo_*.cu.h) get it: the host has checked it, and
 * computed all sizes and places. card_plan.h makes it. Plain C without headers, as NVRTC gets it too.
 *
 *     bytes that travel    ends of the rows, u32 each | rows of blocks | zeros up to a multiple of 16, 16 or more
 *     scratch of the card  rows | blocks | weights across, down | first | second
 *     first                samples between the passes of the inverse DCT, then pixels of the box (R, G, B, 255)
 *     second               samples, then rows of pixels of the result's width
 */
#ifndef LEAT_CODEC_JPEG_CARD_PHOTO_H
#define LEAT_CODEC_JPEG_CARD_PHOTO_H

enum leat_card_form {
    LEAT_CARD_NONE = 0, /* nothing: the result stays as it is */
    LEAT_CARD_PIXELS,   /* the bytes are those of the result */
    LEAT_CARD_FAST      /* rows of blocks, as the decode-fast form packs them */
};
enum { LEAT_CARD_PADDING = 16, LEAT_CARD_PLANES = 3 };

/* A component. Blocks are counted in its grid. */
struct leat_card_plane {
    unsigned v, blocks_w;    /* rows of blocks in a row of MCUs; blocks of a row that travel, */
    unsigned left;           /* ... and those to the left of them, which do not */
    unsigned check0, check1; /* of those that travel, columns that a decoder on the processor would unpack */
    unsigned x0, y0, w, h;   /* the blocks that are transformed */
    unsigned first;          /* those of the components before */
    unsigned across, down;   /* pixels per sample */
    unsigned smooth_across, smooth_down;
    unsigned width, height; /* samples of the whole image */
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
    unsigned blocks_at, first_at, second_at;
    struct leat_card_axis axis[2]; /* across, down */
    struct leat_card_plane plane[LEAT_CARD_PLANES];
};

/* In the scratch: of each row that travels, the places of its streams behind its first byte; all 0 if it makes no
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
