/*
 * Photos that a card decodes: which bytes of a decode-fast form travel, and what its kernels do with them. The result
 * is a part of the photo, resized, of which a window is delivered: pixels of R, G and B, byte for byte those that the
 * processor makes.
 *
 *     leat_card_plan     checks a form, and describes the photo: struct leat_card_photo
 *     leat_card_check    checks the bytes that travel
 *     leat_card_write    writes the bytes that travel, of which photo->bytes says how many
 *     leat_card_place    gives the photos of a batch their places
 *     leat_card_fault    says what the card has found
 */
#ifndef LEAT_CODEC_JPEG_CARD_PLAN_H
#define LEAT_CODEC_JPEG_CARD_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "codec/jpeg/card_photo.h"
#include "kernels/weights.h"
#include "leat/leat.h"

/* The part of a photo that becomes a grid of pixels, and the window of the grid that is the result. Neither reaches
 * outside. [0] is across, [1] down. */
struct leat_card_view {
    uint32_t source[2], source_size[2];
    uint32_t grid[2];
    uint32_t window[2], window_size[2];
    enum leat_filter filter;
    bool mirrored[2]; /* the photo is mirrored before the resize, */
    bool flip[2];     /* and the window behind it */
};

/* The bytes of a photo from which it travels. */
struct leat_card_source {
    const uint8_t *ends, *rows;
    uint32_t begin; /* of its first row, behind those that stay */
};

/* Describes the photo that `data`, a decode-fast form, holds; it must stay until leat_card_write. Bytes may be hostile.
 * Any thread; allocates nothing. Errors: DECODE (the bytes make no sense; those of single rows are found by
 * leat_card_check, and by the card), UNSUPPORTED (the processor is to decode it: four components, NEAREST, or a box of
 * more than LEAT_CARD_MAX_PIXELS), INVALID (the view reaches outside of the photo). */
#define LEAT_CARD_MAX_PIXELS (UINT32_C(1) << 25)
int leat_card_plan(const void *data, size_t length, const struct leat_card_view *view, struct leat_card_photo *photo,
                   struct leat_card_source *source, struct leat_error *error);
/* Whether the kernels will find no fault. 64 bytes behind the form are readable. */
bool leat_card_check(const struct leat_card_photo *photo, const struct leat_card_source *source, enum leat_isa isa);
/* `to`: photo->bytes, at a multiple of 16. */
void leat_card_write(const struct leat_card_photo *photo, const struct leat_card_source *source, uint8_t *to);

/* A photo whose result, n bytes, the processor makes: they travel. */
struct leat_card_photo leat_card_pixels(uint32_t width, uint32_t height);

/* Gives n photos of a batch their places in a scratch and behind each other in the output, and says how much scratch
 * they need. The bytes of photo i begin at offsets[i], a multiple of 16. */
uint64_t leat_card_place(struct leat_card_photo *photos, size_t n, const int64_t *offsets);
/* The error of a photo in which the kernels have found a fault: DECODE, the processor's words. */
int leat_card_fault(uint32_t fault, struct leat_error *error);

#endif
