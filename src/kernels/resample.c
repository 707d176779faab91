/* Weights of a resize: see resample.h. */
#include "kernels/resample.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "leat/leat.h"

int leat_axis_reserve(struct leat_axis *axis, uint32_t out, unsigned taps)
{
    size_t room_end = axis->room_out;
    bool good = leat_grow(&axis->first, &axis->room_out, out, sizeof *axis->first) &&
                leat_grow(&axis->end, &room_end, axis->room_out, sizeof *axis->end) &&
                leat_grow(&axis->weights, &axis->room_weights, (size_t)out * taps, sizeof *axis->weights) &&
                leat_grow(&axis->work, &axis->room_work, taps, sizeof *axis->work);
    if (good)
        return LEAT_OK;
    leat_axis_destroy(axis); /* arrays of different sizes must not be taken for equal ones later */
    return LEAT_E_NOMEM;
}

int leat_axis_reserve_plan(struct leat_axis *axis, size_t bytes)
{
    if (bytes + 64 <= axis->room_plan)
        return LEAT_OK;
    leat_free(axis->plan); /* its contents are not needed: no copy */
    axis->plan = leat_alloc(bytes + 64);
    axis->room_plan = axis->plan ? bytes + 64 : 0;
    return axis->plan ? LEAT_OK : LEAT_E_NOMEM;
}

void leat_axis_destroy(struct leat_axis *axis)
{
    leat_free(axis->first);
    leat_free(axis->end);
    leat_free(axis->weights);
    leat_free(axis->work);
    leat_free(axis->plan);
    memset(axis, 0, sizeof *axis);
}

unsigned leat_axis_taps(double length, uint32_t out, enum leat_filter filter)
{
    if (filter == LEAT_FILTER_NEAREST)
        return 4;
    unsigned taps = (unsigned)ceil(leat_filter_reach(filter) * leat_filter_stretch(filter, length / out)) * 2 + 1;
    return (taps + 3) & ~3u;
}

/* Pillow's nearest: the pixel under the centre; the position is summed up, as there. */
static void nearest(struct leat_axis *axis, double begin, double scale)
{
    double at = begin + scale * 0.5;
    for (uint32_t i = 0; i < axis->out; i++, at += scale) {
        uint32_t first = at < 0 ? 0 : (uint32_t)at;
        axis->first[i] = first < axis->in ? first : axis->in - 1;
        axis->end[i] = axis->first[i] + 1;
        for (unsigned k = 0; k < axis->taps; k++)
            axis->weights[i * axis->taps + k] = k ? 0 : 1 << LEAT_WEIGHT_BITS;
    }
}

/* The weights of one output pixel. */
static void weigh(struct leat_axis *axis, uint32_t i, double begin, double scale, enum leat_filter filter)
{
    const struct leat_run run = leat_run_of(filter, axis->in, begin, scale, axis->taps, i);
    int32_t *weights = axis->weights + (size_t)i * axis->taps;
    double sum = 0, *w = axis->work;
    for (uint32_t k = 0; k < run.n; k++) {
        w[k] = leat_run_weight(&run, filter, axis->in, k);
        sum += w[k];
    }
    for (uint32_t k = 0; k < axis->taps; k++)
        weights[k] = k < run.n ? leat_fixed_weight(w[k], sum) : 0;
    axis->first[i] = run.first;
    axis->end[i] = run.first + run.n;
    while (axis->end[i] - run.first > 1 && !weights[axis->end[i] - run.first - 1])
        axis->end[i]--;
}

int leat_axis_compute(struct leat_axis *axis, uint32_t in, double begin, double length, uint32_t out,
                      enum leat_filter filter)
{
    unsigned taps = leat_axis_taps(length, out, filter);
    if (leat_axis_reserve(axis, out, taps))
        return LEAT_E_NOMEM;
    axis->in = in;
    axis->out = out;
    axis->taps = taps;
    const double scale = length / out;
    if (filter == LEAT_FILTER_NEAREST)
        nearest(axis, begin, scale);
    else
        for (uint32_t i = 0; i < out; i++)
            weigh(axis, i, begin, scale, filter);
    return LEAT_OK;
}

/* The run of one output pixel, as it lies in the mirrored input. */
static void mirror_run(struct leat_axis *axis, uint32_t i)
{
    int32_t *w = axis->weights + (size_t)i * axis->taps;
    uint32_t first = axis->first[i], end = axis->end[i];
    for (uint32_t a = 0, b = end - first; a + 1 < b; a++) {
        int32_t kept = w[a];
        w[a] = w[--b];
        w[b] = kept;
    }
    axis->first[i] = axis->in - end;
    axis->end[i] = axis->in - first;
}

static void swap_runs(struct leat_axis *axis, uint32_t i, uint32_t k)
{
    int32_t *a = axis->weights + (size_t)i * axis->taps, *b = axis->weights + (size_t)k * axis->taps;
    for (unsigned t = 0; t < axis->taps; t++) {
        int32_t kept = a[t];
        a[t] = b[t];
        b[t] = kept;
    }
    uint32_t first = axis->first[i], end = axis->end[i];
    axis->first[i] = axis->first[k];
    axis->end[i] = axis->end[k];
    axis->first[k] = first;
    axis->end[k] = end;
}

/* Has a run begin earlier, with weights of 0. */
static void lower_run(struct leat_axis *axis, uint32_t i, uint32_t first)
{
    int32_t *w = axis->weights + (size_t)i * axis->taps;
    const uint32_t n = axis->end[i] - axis->first[i], more = axis->first[i] - first;
    memmove(w + more, w, n * sizeof *w);
    memset(w, 0, more * sizeof *w);
    axis->first[i] = first;
}

/* Ends that were cut off for weights of 0 are beginnings here, and these may never decrease from pixel to pixel. */
void leat_axis_mirror(struct leat_axis *axis)
{
    for (uint32_t i = 0; i < axis->out; i++)
        mirror_run(axis, i);
    for (uint32_t i = 0; i < axis->out / 2; i++)
        swap_runs(axis, i, axis->out - 1 - i);
    for (uint32_t i = axis->out; i-- > 1;)
        if (axis->first[i - 1] > axis->first[i])
            lower_run(axis, i - 1, axis->first[i]);
}
