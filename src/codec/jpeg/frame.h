/*
 * The facts of a JPEG that its pixels depend on: size, components, quantisation, colours. Everything in this folder
 * works on this description and on blocks of coefficients:
 *
 *     JPEG bytes --(huffman.h)--+
 *                               +-> blocks of coefficients --(picture.h)--> rows of pixels
 *     fast bytes --(fast.h)-----+        (source.h)
 *
 * A component's grid of blocks has whole MCUs, so it may reach beyond the image: mcus_w * h blocks across and mcus_h *
 * v down. A photo of one component has MCUs of one block, whatever sampling factors its header names.
 */
#ifndef LEAT_CODEC_JPEG_FRAME_H
#define LEAT_CODEC_JPEG_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

#define LEAT_JPEG_MAX_COMPONENTS 4
#define LEAT_JPEG_MCU_BLOCKS 10 /* of an MCU, in a scan of several components, at most (ITU-T T.81, B.2.3) */

/* The meaning of the components. CMYK and YCCK are stored inverted, as Adobe writes them. */
enum leat_jpeg_colour { LEAT_JPEG_GRAY = 0, LEAT_JPEG_YCC, LEAT_JPEG_RGB, LEAT_JPEG_CMYK, LEAT_JPEG_YCCK };

struct leat_jpeg_component {
    uint8_t h, v;                /* sampling factors, 1 to 4; they divide the frame's largest */
    uint32_t width, height;      /* in samples: ceil(image * h / max_h), ceil(image * v / max_v) */
    uint32_t blocks_w, blocks_h; /* of the grid */
    uint16_t quant[64];          /* in natural order (row by row) */
};

struct leat_jpeg_frame {
    uint32_t width, height;
    enum leat_jpeg_colour colour;
    uint8_t n_components, max_h, max_v;
    uint32_t mcus_w, mcus_h; /* an MCU has 8 max_h x 8 max_v pixels */
    struct leat_jpeg_component component[LEAT_JPEG_MAX_COMPONENTS];
};

/* Natural order of the k-th coefficient in zigzag order; 64 more entries of 63 stand behind, for runs that leave a
 * block. */
extern const uint8_t leat_jpeg_natural[128];

struct jpeg_decompress_struct;
/* Describes the photo whose header `cinfo` has read. False: pixels that are not 8 bits, factors that do not divide, a
 * table that is missing, a colour that is not one of the above: libjpeg-turbo's business. */
bool leat_jpeg_frame_of(const struct jpeg_decompress_struct *cinfo, struct leat_jpeg_frame *frame);
/* Computes the fields that follow from width, height, colour, n_components and the factors; quant stays. False: they
 * make no frame. */
bool leat_jpeg_frame_complete(struct leat_jpeg_frame *frame);

#endif
