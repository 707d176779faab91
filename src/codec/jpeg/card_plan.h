/*
 * Photos that a card decodes: which bytes travel, and what its kernels do with them. The result is a part of the photo,
 * resized, of which a window is delivered: pixels of R, G and B, byte for byte those that the processor makes.
 *
 *     a decode-fast form                                        a JPEG as it came
 *     leat_card_plan     checks it, and describes the photo     leat_card_plan_box   describes the photo
 *     leat_card_check    checks the bytes that travel           leat_card_pack       makes the bytes that travel, of
 *     leat_card_write    writes the bytes that travel                                blocks that the processor reads;
 *                                                               leat_card_pack_coded of the coded bytes
 *
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
#include "codec/jpeg/source.h"
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

/* The MCUs that the box needs: rows [y0, y1), columns [x0, x1). */
struct leat_card_mcus {
    uint32_t x0, x1, y0, y1;
};

/* Describes a photo but for its bytes, whose rows travel whole. Any thread; allocates nothing. Errors: UNSUPPORTED (the
 * processor is to decode it: four components, NEAREST, or a box of more than LEAT_CARD_MAX_PIXELS), INVALID (the view
 * reaches outside of the photo). */
#define LEAT_CARD_MAX_PIXELS (UINT32_C(1) << 25)
int leat_card_plan_box(const struct leat_jpeg_frame *frame, const struct leat_card_view *view,
                       struct leat_card_photo *photo, struct leat_card_mcus *mcus, struct leat_error *error);
/* Describes its bytes: so many before the padding, of a form. UNSUPPORTED: they, or their scratch, are too many. */
int leat_card_plan_bytes(struct leat_card_photo *photo, enum leat_card_form form, uint64_t bytes,
                         struct leat_error *error);

/* ---- a decode-fast form ---- */

/* The bytes of a photo from which it travels. */
struct leat_card_source {
    const uint8_t *ends, *rows;
    uint32_t begin; /* of its first row, behind those that stay */
};

/* Describes the photo that `data`, a decode-fast form, holds; it must stay until leat_card_write. Bytes may be hostile.
 * Any thread; allocates nothing. Errors: DECODE (the bytes make no sense; those of single rows are found by
 * leat_card_check, and by the card), those of leat_card_plan_box and leat_card_plan_bytes. */
int leat_card_plan(const void *data, size_t length, const struct leat_card_view *view, struct leat_card_photo *photo,
                   struct leat_card_source *source, struct leat_error *error);
/* Whether the kernels will find no fault. 64 bytes behind the form are readable. */
bool leat_card_check(const struct leat_card_photo *photo, const struct leat_card_source *source, enum leat_isa isa);
/* `to`: photo->bytes, at a multiple of 16. */
void leat_card_write(const struct leat_card_photo *photo, const struct leat_card_source *source, uint8_t *to);

/* ---- a JPEG as it came ---- */

struct leat_card_packer;                                     /* buffers of one thread */
struct leat_card_packer *leat_card_packer_new(void);         /* NULL when memory is out */
void leat_card_packer_free(struct leat_card_packer *packer); /* NULL is allowed */
/* Reads the MCUs of a photo that leat_card_plan_box has described, and makes *bytes of them, photo->bytes that travel:
 * the packer's until its next call. Errors: those of the source, UNSUPPORTED (the decode-fast form does not hold a
 * value, or too many bytes), NOMEM. */
int leat_card_pack(struct leat_card_packer *packer, struct leat_jpeg_source *source, const struct leat_card_mcus *mcus,
                   struct leat_card_photo *photo, const uint8_t **bytes, struct leat_error *error);
/* The same, but nothing is decoded: the rows of MCUs that the box needs travel as they are coded, and the card decodes
 * them. For photos that were found whole: damage that a card meets is an error of the batch, too late for a policy.
 * Errors: UNSUPPORTED (an unusual order of components, or too many bytes), NOMEM. */
int leat_card_pack_coded(struct leat_card_packer *packer, const struct leat_jpeg_coded *coded,
                         const struct leat_card_mcus *mcus, struct leat_card_photo *photo, const uint8_t **bytes,
                         struct leat_error *error);
/* Gives back the memory that only a huge photo needed. */
void leat_card_packer_trim(struct leat_card_packer *packer);

/* ---- batches ---- */

/* A photo whose result, n bytes, the processor makes: they travel. */
struct leat_card_photo leat_card_pixels(uint32_t width, uint32_t height);

/* Gives n photos of a batch their places in a scratch and behind each other in the output, and says how much scratch
 * they need. The bytes of photo i begin at offsets[i], a multiple of 16. */
uint64_t leat_card_place(struct leat_card_photo *photos, size_t n, const int64_t *offsets);
/* The error of a photo in which the kernels have found a fault: DECODE, the processor's words. */
int leat_card_fault(const struct leat_card_photo *photo, uint32_t fault, struct leat_error *error);

#endif
