/*
 * The weights of a resize along one axis, as Pillow computes them: for each output pixel a run of input pixels and
 * weights of 22 fraction bits, from the same double arithmetic in the same order. A resized image is therefore equal to
 * Pillow's, byte for byte. The sum of the weights of one pixel may differ from 1 by some units of 2^-22.
 */
#ifndef LEAT_KERNELS_RESAMPLE_H
#define LEAT_KERNELS_RESAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/weights.h"
#include "leat/leat.h"

/* Taps are a multiple of 4: kernels take so many at a time. Weights beyond a pixel's run are 0; the pixels under them
 * may lie after the input's end. */
struct leat_axis {
    uint32_t in, out;
    unsigned taps;
    uint32_t *first;  /* [out]: the start of the run of an output pixel; never decreases */
    uint32_t *end;    /* [out]: after its last pixel of weight above 0, <= in; may decrease */
    int32_t *weights; /* [out][taps] */
    double *work;     /* [taps], used while computing */
    size_t room_out, room_weights, room_work;
    /* For kernels that arrange pixels by precomputed indices; made by leat_kernels.prepare. */
    void *plan;
    size_t room_plan;
    bool plan_is_lower; /* the plan is that of the next lower instruction set */
};

/* Reserves for all resizes to up to `out` pixels with at most `taps` taps each; later ones allocate nothing. */
int leat_axis_reserve(struct leat_axis *axis, uint32_t out, unsigned taps);
/* The same for the plan: `bytes` from leat_axis_plan on, which is aligned to 64. NOMEM. */
int leat_axis_reserve_plan(struct leat_axis *axis, size_t bytes);
static inline void *leat_axis_plan(const struct leat_axis *axis)
{
    return (void *)(((uintptr_t)axis->plan + 63) & ~(uintptr_t)63);
}
void leat_axis_destroy(struct leat_axis *axis);
/* Taps that a resize from a length to another needs at most. */
unsigned leat_axis_taps(double length, uint32_t out, enum leat_filter filter);

/* Weights for bringing [begin, begin + length) of an input of `in` pixels to `out` pixels. NOMEM. */
int leat_axis_compute(struct leat_axis *axis, uint32_t in, double begin, double length, uint32_t out,
                      enum leat_filter filter);
/* Turns the axis round: it becomes that of the mirrored input, whose output is mirrored back. */
void leat_axis_mirror(struct leat_axis *axis);

#endif
