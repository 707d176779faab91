/*
 * Several samples in one image, in the chain of a tuple: the samples of a row, and their places.
 *
 *     Mosaic                                                                    CopyPaste
 *     sample 0 --- Decode -- Mosaic's resize --+        +---------+             sample 0 --- Decode -- .. --+
 *     sample 1 ------------------------------- +------> |  0 | 1  |                                         +---> 0,
 * and sample 2 ------------------------------- +        | ---+--- |             sample 1 --- Decode -- .. --+ objects
 *     sample 3 --------------------------------+        |  2 | 3  |                                               of 1
 *                                                       +---------+ --- the rest of the chain
 *
 * DetectionMixUp has the same form: one image over the other. Sample 0 is the row's own. The others are drawn by the
 * plan (leat_plan_companion), so the caller for a row brings the values of all.
 */
#ifndef LEAT_OP_GATHER_H
#define LEAT_OP_GATHER_H

#include "op/operator.h"

/* The head of the arguments of such operators. */
struct leat_gather_args {
    int64_t size;
    double p;
    struct leat_fill fill;
};
/* The number of samples of the row whose key, mixed with the operator's instance, is `key`: by draw 0 all, or its
 * own. */
unsigned leat_gather_samples(const struct leat_op_class *class, const struct leat_gather_args *args, uint64_t key);

/* The place of the image of sample `p` of `n`, of w x h, in a mosaic: the canvas as a box of it, so x and y are at most
 * 0 and at least -2 size. */
void leat_mosaic_place(const struct leat_gather_args *args, uint64_t key, unsigned p, unsigned n, uint32_t w,
                       uint32_t h, struct leat_move *move);

/* For operators that lay one image over the other: they take photos of one known size, and leave them as they are. */
int leat_overlay_infer(const void *args, const struct leat_place *place, struct leat_type *type,
                       struct leat_effect *effect, struct leat_error *error);
int leat_overlay_move(const void *args, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move,
                      struct leat_error *error);

struct leat_paste_args {
    struct leat_gather_args common;
    int64_t min_area;
    bool blending;
};
/* The choice among the n objects of the other sample to paste: chosen[n]. */
void leat_paste_choose(uint64_t key, uint64_t n, bool *chosen);
/* The pasted share of each pixel, in 255ths: the covered part, its edges blurred. `line` has w * h numbers. */
void leat_paste_blur(const uint8_t *cover, uint32_t w, uint32_t h, uint16_t *line, uint8_t *alpha);

#endif
