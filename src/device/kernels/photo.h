/*
 * The common part of the kernels that decode photos, photo_*.cu.h (leat_kernel_photo of device/nvrtc.h). Each is
 * launched once for all photos of a batch, in the order
 *
 *     rows       the streams of a row of blocks are located, and checked; of each block: its places in them
 *     codes      Huffman tables of JPEGs as they came, by the next bits
 *     scan       their entropy decoder: blocks of coefficients
 *     columns    coefficients, and the first pass of the inverse DCT
 *     samples    its second pass
 *     colours    upsampling; pixels of the box
 *     weights    of the resize
 *     across     the resize across, and the flip
 *     down       the resize down, and the flip; the result
 *
 * A grid has n * together blocks of as many threads as one likes: `together` blocks for each photo, whose threads take
 * its items in turn. A batch whose scratch is too large may come in parts, each placed by itself (leat_card_place).
 *
 * All numbers are integers, and equal those of the processor; but weights, which are computed from doubles by the same
 * operations. A row that makes no sense is a fault of its photo: no kernel reads or writes elsewhere for it. Its blocks
 * are 0, or of a JPEG as it came what the scratch had.
 */
#ifndef LEAT_DEVICE_KERNELS_PHOTO_H
#define LEAT_DEVICE_KERNELS_PHOTO_H

#include "codec/jpeg/card_photo.h"

struct leat_photo_args {
    const struct leat_card_photo *photos; /* [n] */
    const unsigned char *data;            /* the bytes that travel; this and `scratch` at multiples of 16 */
    unsigned char *scratch, *out;
    unsigned *faults;  /* [n] of the host's memory: 0, or 1 + a row that makes no sense: of blocks as they
                        * are stored, or of MCUs */
    unsigned n;        /* photos */
    unsigned together; /* blocks of threads of each */
};

#endif
