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
 * image to image; so is a branch, which runs stages of its own (branch.h). Filters at the end of a chain that can work
 * in place change the result of the last stage; if that would only copy, a filter before or behind it writes to the
 * destination itself.
 */
#ifndef LEAT_OP_STAGE_H
#define LEAT_OP_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "kernels/resample.h"
#include "op/decoded.h"
#include "op/operator.h"
#include "op/program.h"

/* One operator of the program, and its use in a chain. */
struct leat_op {
    const struct leat_op_class *class;
    const char *id; /* in the JSON */
    const char *name;
    void *args;
    uint64_t instance; /* hash of the instance's name; mixed with the row's key it gives the operator's */
    bool left_out;     /* of this variant: chains name it, and do not have it */
    size_t aim;        /* of a class with `aim`: its number in the program */
    /* For a branch: `below` operators stand behind it in the program's table, those of alternative i, with what is
     * below them, from alternatives[i] up to alternatives[i + 1]. */
    size_t below, n_alternatives;
    unsigned depth; /* in how many branches it stands */
    const struct leat_op **alternatives;
};
struct leat_use {
    const struct leat_op *op;
    struct leat_type in, out;
    struct leat_effect effect;
    struct leat_branch *branch; /* of a branch: its alternatives, compiled */
};

/* Whether it is a stage of its own, or one with other such operators. */
static inline bool leat_use_filters(const struct leat_use *use)
{
    return use->op->class->filter || use->op->class->remake || use->op->class->adjust;
}

static inline bool leat_use_branches(const struct leat_use *use)
{
    return use->branch && !use->effect.moves;
}
static inline bool leat_use_moves(const struct leat_use *use)
{
    return use->op->class->move || use->op->class->aim || use->effect.moves;
}

struct leat_rect {
    int64_t x, y, w, h;
};
/* The common part of two. */
struct leat_rect leat_rect_common(struct leat_rect a, struct leat_rect b);

/* The sum of the movements of a stage for one image. The grid is the image, or the part of it that was resized. */
struct leat_view {
    bool resized, flip, flip_y;
    bool mirrored, mirrored_y; /* the resized part was mirrored then, */
    bool padded;               /* and reached outside of the visible part */
    enum leat_filter filter;
    struct leat_rect source; /* the part of the image that became the grid, of grid_w x grid_h; may reach outside: the
                              * input of the resize is then a padded image, of which only rows at its edges are made */
    struct leat_rect seen;   /* the part of the source whose pixels count; all else is filled before it is resized */
    uint32_t grid_w, grid_h;
    struct leat_rect window; /* the part of the grid that is delivered; may reach outside */
    struct leat_rect valid;  /* the part of the grid whose pixels count; all else is filled */
};
void leat_view_begin(struct leat_view *view, uint32_t w, uint32_t h);
void leat_view_move(struct leat_view *view, const struct leat_move *move);

#define LEAT_MAX_COLORS 8 /* operators of one stage */
struct leat_stage {
    bool decode, last;
    bool in_place;         /* behind the last one: changes its result in place */
    bool filters_in_place; /* a filter that may change an image between two stages in place */
    bool copies;           /* delivers its input: a result in its place can be made of its input, and a filter before it
                            * can deliver itself: that one `delivers` */
    bool delivers;
    bool stream;                   /* rows of the batch are large: written past the caches */
    bool fast;                     /* bytes through tables; else value by value */
    bool open;                     /* its result is delivered, of open size: its memory comes from work->room */
    bool nearest;                  /* of class ids, which cannot be blended: every resize takes the nearest pixel */
    bool dense;                    /* bytes become values in the order in which they lie: leat_stage_store does all */
    const struct leat_use *filter; /* for a filter's stage: the filter, and all there is to it; for a stage of colors
                                    * the first of `colors` */
    const struct leat_use *branch; /* of a branch's stage: likewise */
    const struct leat_use **moves; /* operators with move */
    struct leat_use *maps;         /* operators with map */
    size_t n_moves, n_maps, n_colors;
    const struct leat_use *colors[LEAT_MAX_COLORS]; /* operators with adjust, of a stage of these */
    struct leat_type in, out;                       /* out: also of a result that is handed over */
    bool planar;                                    /* how the result lies */
    bool resizes, flips, pads;
    bool aimed;                /* some operator is drawn by targets */
    enum leat_padding padding; /* of a stage that pads */
    double fill[LEAT_MAX_CHANNELS];
    unsigned passes;             /* of an image in planes: one per channel */
    struct leat_store *stores;   /* [passes] */
    leat_store_fn store;         /* of pixels as they are read */
    leat_store_fn store_resized; /* of resized pixels: as many bytes each as there are channels */
    uint8_t *tables;             /* [channels][256] values of the output's type */
    uint8_t *fills;              /* [channels] one value of the output's type */
    int even;                    /* the byte that all of `fills` consists of; -1: there are several */
    char label[256];             /* "RandomResizedCrop+Normalize", without Decode */
};

/* Cuts a chain of n uses into stages: at least one, the last of which delivers; or such that all hand over, as those of
 * a branch do. `*stages` is ended with leat_stages_free, also after a failure. NOMEM. */
enum leat_stages_end { LEAT_STAGES_HAND_OVER, LEAT_STAGES_DELIVER_PIXELS, LEAT_STAGES_DELIVER_PLANES };
int leat_stages_compile(const struct leat_use *uses, size_t n, const struct leat_type *first, enum leat_stages_end end,
                        const struct leat_kernels *kernels, struct leat_stage **stages, size_t *n_stages);
/* Has all resizes take the nearest pixel, as class ids need it. */
void leat_stages_take_nearest(struct leat_stage *stages, size_t n);
/* The one that delivers; filters that work in place may stand behind it. */
static inline struct leat_stage *leat_stages_last(struct leat_stage *stages, size_t n)
{
    while (n > 1 && stages[n - 1].in_place)
        n--;
    return &stages[n - 1];
}
/* Has the last one leave its result at the place of a next one's input. */
void leat_stages_hand_over(struct leat_stage *stages, size_t n);
void leat_stages_free(struct leat_stage *stages, size_t n);

/* Runs n values of one channel through the maps of a stage. `a` and `b` hold n values of 8 bytes each; returns the
 * place of the result: src, a or b. */
const void *leat_stage_map(const struct leat_stage *stage, unsigned channel, const void *src, size_t n, void *a,
                           void *b);
/* The n bytes of a value through a dense stage. */
void leat_stage_store(const struct leat_stage *stage, const uint8_t *src, size_t n, uint8_t *dst);
/* Channels with maps of their own. */
size_t leat_stage_channels(const struct leat_stage *stage);

/* One axis of a resize: the request, and its result. */
struct leat_side {
    int64_t begin, length;  /* of the source; then the pixels at 1/d that are read of it */
    int64_t seen, seen_end; /* those of it that count */
    int64_t grid, from, n;  /* the result; the part of it that is wanted, then the visible part of that */
    int64_t denominator, limit, filter, mirrored, padded;
};

/* The needs of running stages in a thread's scratch: decoders, and buffers that grow. */
struct leat_stage_work {
    const struct leat_kernels *kernels;
    struct leat_decoders decoders;
    struct leat_decoder *decoder; /* of the row that was decoded last */
    bool opened_ahead;            /* that row is open already: leat_stage_run takes it */
    struct leat_decoded *decoded; /* the store that shares photos with others; or NULL */
    struct leat_decoded_decoder sharing;
    unsigned warnings;       /* of rows that were decoded */
    enum leat_health health; /* the result of decoding for the row that was decoded last */
    struct leat_axis across, down;
    struct leat_side asked[2], made[2]; /* the state of across and down; rows of one size and box have them in common */
    int64_t planned[4];                 /* the columns that `across` is prepared for */
    struct leat_card_packer *packer;    /* of photos that a card decodes; made when one first needs it */
    uint8_t *ring, *line, *between[2];
    uint8_t *filter; /* scratch of a filter */
    /* Called when a photo is open and its size is known, before anything is drawn: by it the targets of a tuple go,
     * and by them the moves that are aimed: [op->aim]. Both may be NULL. */
    int (*opened)(void *context, uint32_t w, uint32_t h, struct leat_error *error);
    void *context;
    const struct leat_move *aims;
    uint8_t fill[LEAT_MAX_CHANNELS + 4]; /* of a stage that pads before it resizes */
    const uint8_t **taps;
    size_t room_ring, room_line, room_between[2], room_taps, room_filter;
    struct leat_room *room; /* the memory of an open stage, */
    size_t output;          /* for this output */
    uint32_t w, h;          /* of the photo that was opened last */
    bool detail;            /* measure the decoder's part of this photo */
    uint64_t decode_ns;     /* of the photos so measured */
};
/* Reserves what the stages need for an image of w x h, so that running them allocates nothing, unless the size of some
 * image between them is drawn. NOMEM. */
int leat_stages_reserve(const struct leat_stage *stages, size_t n, struct leat_stage_work *work, uint32_t w,
                        uint32_t h);
/* Roughly its bytes. */
uint64_t leat_stages_room(const struct leat_stage *stages, size_t n, uint32_t w, uint32_t h);
void leat_stage_work_destroy(struct leat_stage_work *work);
/* Above this a buffer of whole images is given back when its photo is done. */
#define LEAT_KEEP_BYTES ((size_t)4 << 20)
/* About the memory of such buffers for the row of this key, from an image of w x h. */
uint64_t leat_stages_bytes(const struct leat_stage *stages, size_t n, uint64_t row_key, uint32_t w, uint32_t h);
/* Gives them back. */
void leat_stage_work_trim(struct leat_stage_work *work);

/* Whether a stage is left out for the row of this key: the next one takes the input of this one. */
bool leat_stage_skips(const struct leat_stage *stage, uint64_t row_key);
/* If stages[at] would only copy `image`: the filter behind that changes the copy, if the row has one, which can read
 * `image` itself; else `at`. */
size_t leat_stages_straight(const struct leat_stage *stages, size_t n, size_t at, uint64_t row_key);
/* The view of the row of this key that a stage without targets shows of an image of w x h. Errors: those of moves. */
int leat_stage_view(const struct leat_stage *stage, const struct leat_stage_work *work, uint64_t row_key, uint32_t w,
                    uint32_t h, struct leat_view *view, struct leat_error *error);
/* Runs one stage for one row: from the encoded photo in `row` (a stage that decodes) or from `image`; into `target` if
 * it delivers, else into work->between[*buffer], which *target then describes, and *buffer becomes the other one. A
 * branch that does nothing leaves *target as `image` is. */
int leat_stage_run(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_row *row,
                   const struct leat_image *image, unsigned *buffer, struct leat_image *target,
                   struct leat_error *error);

/* Opens the photo of a row for a stage that decodes; leat_stage_end_value ends it, or leat_stage_run, which takes it as
 * it is with work->opened_ahead. *w and *h: 0 after a failure. Errors: those of the decoder. */
int leat_stage_open(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_row *row,
                    uint32_t *w, uint32_t *h, struct leat_error *error);
/* Ends the decoding of a row's value with the result `rc`; `misfit` is the part of it that is the fault of operators,
 * not of the value. work->health and work->warnings get the outcome. */
int leat_stage_end_value(struct leat_stage_work *work, const struct leat_row *row, int rc, int misfit,
                         struct leat_error *error);

/* stage_pass.c: the part of `image` that the view shows, or of the photo that is open, into `target`. The tables of the
 * row are made. */
int leat_stage_pass(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_view *view,
                    const struct leat_image *image, const struct leat_image *target, struct leat_error *error);
/* Room for `count` things of `each` bytes in a buffer, whose content is of no use any more; false: there is no memory.
 */
bool leat_stage_buffer(void **buffer, size_t *room, size_t count, size_t each);
/* The number that it has room for then: an eighth more, so that it seldom grows, unless it goes when its photo is
 * done. */
size_t leat_stage_buffer_room(size_t count, size_t each);

/* Describes a packed image of `type` at `base`. */
void leat_image_packed(struct leat_image *image, const struct leat_type *type, bool planar, uint32_t w, uint32_t h,
                       void *base);

#endif
