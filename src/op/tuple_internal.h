/* The making of a row of a tuple: the common part of tuple.c (the walk of its targets, its pixels), gather.c (rows of
 * several samples) and instances.c (masks). */
#ifndef LEAT_OP_TUPLE_INTERNAL_H
#define LEAT_OP_TUPLE_INTERNAL_H

#include "op/joint.h"
#include "op/program_internal.h"

struct leat_grown {
    uint8_t *data;
    size_t room, used;
};
bool leat_grown_room(struct leat_grown *store, size_t bytes);

/* The needs of rows in a scratch. */
struct leat_tuple_work {
    struct leat_target_part *parts;
    size_t *members;  /* [parts] the field of each */
    uint8_t **memory; /* [parts] that only grows */
    size_t *room, n;
    struct leat_move *aims;                /* [program->n_aims] of the row */
    struct leat_grown canvas, *gathered;   /* of images of several samples; [parts] the targets of all samples */
    struct leat_grown other, cover, which; /* the paste: the other image; its place and its share; for which rows */
    struct leat_grown drawn, placed;       /* a mask of an instance as it is stored, and on the canvas */
    struct leat_decoders decoders;         /* of masks */
};

/* The samples of a row whose images become one, and the place of each; for an ordinary row its own. */
struct leat_samples {
    unsigned n;
    uint64_t keys[LEAT_MAX_PIECES];
    bool known[LEAT_MAX_PIECES];
    uint32_t w[LEAT_MAX_PIECES], h[LEAT_MAX_PIECES]; /* of the images as they were decoded */
    struct leat_move places[LEAT_MAX_PIECES];
    const uint8_t *cover; /* for the canvas: not 0 where others are pasted over the row's own; NULL: nowhere */
};

/* The source of the pixels of a row, as its moves are followed. */
struct leat_geometry {
    double x, y, w, h; /* of the part of the image that is seen */
    bool flip, flip_y;
    uint32_t of_w, of_h;
};

/* The way of a row's targets through the chain. */
struct leat_walk {
    const struct leat_program *program;
    const struct leat_compiled_chain *chain;
    struct leat_tuple_work *work;
    const struct leat_row *values;
    struct leat_targets targets;
    struct leat_geometry geometry;
    struct leat_samples samples;
    struct leat_error *error;
    bool done;
    int rc;
    size_t failed; /* with rc: the value at fault */
};
/* Begins it with the targets of sample `p`, in an image of targets.w x targets.h. */
int leat_walk_take(struct leat_walk *walk, unsigned p);
/* The effect of an operator that acts on this row. */
int leat_walk_act(void *walk, const struct leat_op *op, uint64_t key);

/* Whether functions take the image of this member; its size goes to their input. */
static inline bool leat_tuple_is_cut(const struct leat_compiled_chain *chain, size_t member)
{
    return chain->n_cut != SIZE_MAX && chain->cut == member;
}
static inline int64_t *leat_tuple_cut_size(const struct leat_compiled_chain *chain, void *const *dst)
{
    return chain->cut_open ? dst[leat_tuple_cut_outputs(chain)] : NULL;
}

/* One image of a row, from a value or the canvas. */
int leat_tuple_image(const struct leat_program *program, const struct leat_compiled *c, struct leat_scratch *scratch,
                     const struct leat_row *value, bool first, void *dst, int64_t *sizes, struct leat_error *error);

/* gather.c: the images of a row of several samples, and its targets from the walk's begin to its end. */
int leat_tuple_gather(struct leat_walk *walk, struct leat_scratch *scratch, void *const *dst, size_t *failed,
                      struct leat_error *error);

/*
 * Masks of instances (instances.c). In the targets of a row each is a number: that of the sample above that of the
 * instance in its value. Only those that are left are drawn.
 */
#define LEAT_INSTANCE_BITS 30
/* The number of a value's steps. DECODE. */
int leat_instances_count(const struct leat_row *value, uint64_t *n, struct leat_error *error);
/* Draws n instances of one sample, as large as its image, and gives each to `use` as the row of a photo. `which`: their
 * numbers, rising. */
typedef int (*leat_instance_fn)(void *context, uint64_t i, const struct leat_row *photo, struct leat_error *error);
int leat_instances_draw(struct leat_walk *walk, struct leat_scratch *scratch, size_t member, unsigned sample,
                        const uint32_t *which, uint64_t n, leat_instance_fn use, void *context,
                        struct leat_error *error);
/* The masks that are left into their output. `size`: height and width of the row's images, if they are of open size.
 */
int leat_instances_put(struct leat_walk *walk, struct leat_scratch *scratch, size_t member,
                       const struct leat_target_part *part, const int64_t *size, uint8_t *dst,
                       struct leat_error *error);
/* Puts the image of sample `p` of a field onto the canvas, which is cleared before. */
void leat_gather_place(const struct leat_walk *walk, const struct leat_compiled *c, unsigned p,
                       const struct leat_image *image, uint8_t *canvas);

#endif
