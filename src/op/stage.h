/*
 * A stage: neighbouring operators that are carried out in one pass over an image.
 *
 *     encoded photo --rows--+                                     +-- planes   (NCHW)
 *                           +-> box -> resize -> crop -> mirror -> values
 *     field or buffer ------+   (inside)        (may pad)         +-- pixels   (NHWC)
 *
 * When the program is compiled the chain is cut into as few stages as this order allows; when a row is made, the
 * movements drawn for it are composed into one view, and rows flow from the source to the destination: a source row is
 * resized across into a ring of rows, and an output row is made from the ring as soon as its last source row is there.
 * Stages hand over to each other through a buffer of packed pixels. Padding that is not constant looks at pixels
 * anywhere in the image, so it begins a stage, which then has the image in memory. A filter is a stage of its own, from
 * image to image.
 */
#ifndef LEAT_OP_STAGE_H
#define LEAT_OP_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/codec.h"
#include "kernels/kernels.h"
#include "kernels/resample.h"
#include "op/operator.h"
#include "op/program.h"

/* One operator of the program, and its use in a chain. */
struct leat_op {
    const struct leat_op_class *class;
    const char *id; /* in the JSON */
    const char *name;
    void *args;
    uint64_t instance; /* hash of the instance's name; mixed with the row's key it gives the operator's */
};
struct leat_use {
    const struct leat_op *op;
    struct leat_type in, out;
    struct leat_effect effect;
};

static inline bool leat_use_filters(const struct leat_use *use)
{
    return use->op->class->filter && !use->effect.maps;
}

struct leat_rect {
    int64_t x, y, w, h;
};

/* What the movements of a stage amount to for one image. The grid is the image, or the part of it that was resized. */
struct leat_view {
    bool resized, flip;
    enum leat_filter filter;
    struct leat_rect source; /* the part of the image that became the grid, of grid_w x grid_h */
    uint32_t grid_w, grid_h;
    struct leat_rect window; /* the part of the grid that is delivered; may reach outside */
    struct leat_rect valid;  /* the part of the grid whose pixels count; all else is filled */
};
void leat_view_begin(struct leat_view *view, uint32_t w, uint32_t h);
void leat_view_move(struct leat_view *view, const struct leat_move *move);

struct leat_stage {
    bool decode, last;
    bool stream;                   /* rows of the batch are large: written past the caches */
    bool fast;                     /* bytes through tables; else value by value */
    bool nearest;                  /* of class ids, which cannot be blended: every resize takes the nearest pixel */
    bool draws;                    /* a map draws: tables and fills are made for each row, in the work */
    bool dense;                    /* bytes become values in the order in which they lie: leat_stage_store does all */
    const struct leat_use *filter; /* of a filter's stage: what it is, and all there is to it */
    const struct leat_use **moves; /* operators with move */
    struct leat_use *maps;         /* operators with map */
    size_t n_moves, n_maps;
    struct leat_type in, out; /* out: also of what is handed over */
    bool planar;              /* how the result lies */
    bool resizes, flips, pads;
    enum leat_padding padding; /* of a stage that pads */
    double fill[LEAT_MAX_CHANNELS];
    unsigned passes;             /* of an image in planes: one per channel */
    struct leat_store *stores;   /* [passes] */
    leat_store_fn store;         /* of pixels as they are read */
    leat_store_fn store_resized; /* of resized pixels: as many bytes each as there are channels */
    uint8_t *tables;             /* [channels][256] values of the output's type */
    uint8_t *fills;              /* [channels] one value of the output's type */
    char label[256];             /* "RandomResizedCrop+Normalize", without Decode */
};

/* Cuts a chain of n uses into stages, at least one. `*stages` is ended with leat_stages_free, also after a failure.
 * NOMEM. */
int leat_stages_compile(const struct leat_use *uses, size_t n, const struct leat_type *first, bool planar_at_end,
                        const struct leat_kernels *kernels, struct leat_stage **stages, size_t *n_stages);
void leat_stages_free(struct leat_stage *stages, size_t n);

/* Runs n values of one channel through the maps of a stage, for the row of this key. `a` and `b` hold n values of 8
 * bytes each; returns where the result lies: src, a or b. */
const void *leat_stage_map(const struct leat_stage *stage, uint64_t row_key, unsigned channel, const void *src,
                           size_t n, void *a, void *b);
/* What the maps of a stage make of all bytes, [channels][256] (of a fast stage), and of its fill, [channels]. */
void leat_stage_tabulate(const struct leat_stage *stage, uint64_t row_key, uint8_t *tables, uint8_t *fills);
/* The n bytes of a value through a dense stage. */
void leat_stage_store(const struct leat_stage *stage, const uint8_t *src, size_t n, uint8_t *dst);
/* Channels with maps of their own. */
size_t leat_stage_channels(const struct leat_stage *stage);

/* What running stages takes of a thread's scratch: decoders, and buffers that grow. */
struct leat_stage_work {
    const struct leat_kernels *kernels;
    struct leat_decoders decoders;
    struct leat_decoder *decoder; /* of the row that was decoded last */
    unsigned warnings;            /* of rows that were decoded */
    enum leat_health health;      /* what decoding has shown of the row that was decoded last */
    struct leat_axis across, down;
    uint8_t *ring, *line, *between[2];
    uint8_t *tables, *fills; /* of the row that is being made, where a map draws */
    uint8_t *filter;         /* scratch of a filter */
    const uint8_t **taps;
    size_t room_ring, room_line, room_between[2], room_taps, room_tables, room_filter;
    uint32_t w, h;      /* of the photo that was opened last */
    bool detail;        /* measure the decoder's part of this photo */
    uint64_t decode_ns; /* of the photos so measured */
};
/* Reserves what the stages need for an image of w x h, so that running them allocates nothing. NOMEM. */
int leat_stages_reserve(const struct leat_stage *stages, size_t n, struct leat_stage_work *work, uint32_t w,
                        uint32_t h);
void leat_stage_work_destroy(struct leat_stage_work *work);
/* Above this a buffer of whole images is given back when its photo is done. */
#define LEAT_KEEP_BYTES ((size_t)4 << 20)
/* About the memory of such buffers for the row of this key, from an image of w x h. */
uint64_t leat_stages_bytes(const struct leat_stage *stages, size_t n, uint64_t row_key, uint32_t w, uint32_t h);
/* Gives them back. */
void leat_stage_work_trim(struct leat_stage_work *work);

/* Runs one stage for one row: from the encoded photo in `row` (a stage that decodes) or from `image`; into `target` if
 * it is the last, else into work->between[buffer], which *target then describes. */
int leat_stage_run(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_row *row,
                   const struct leat_image *image, unsigned buffer, struct leat_image *target,
                   struct leat_error *error);

/* Describes a packed image of `type` at `base`. */
void leat_image_packed(struct leat_image *image, const struct leat_type *type, bool planar, uint32_t w, uint32_t h,
                       void *base);

#endif
