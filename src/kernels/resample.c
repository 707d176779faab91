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

/* ---- filters: of the distance in pixels, of the result if it is the smaller ---- */

#define PI 3.14159265358979323846

/* sin of PI x, by the Taylor series around the nearest integer: the same bits on every machine. */
static double sin_pi(double x)
{
    int64_t whole = (int64_t)(x + (x < 0 ? -0.5 : 0.5));
    double r = (x - (double)whole) * PI, sum = 1.0;
    for (int i = 21; i > 1; i -= 2)
        sum = 1.0 - sum * r * r / (double)(i * (i - 1));
    return (whole & 1 ? -r : r) * sum;
}

static double sinc(double x)
{
    return x == 0.0 ? 1.0 : sin_pi(x) / (x * PI);
}

static double cubic(double x, double a)
{
    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0.0;
}

static double weight_of(enum leat_filter filter, double x)
{
    switch (filter) {
    case LEAT_FILTER_BICUBIC:
        return cubic(x, -0.5);
    case LEAT_FILTER_BICUBIC_NEAR:
        return cubic(x, -0.75);
    case LEAT_FILTER_LANCZOS:
        return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0;
    case LEAT_FILTER_HAMMING:
        return fabs(x) < 1.0 ? sinc(x) * (0.54 + 0.46 * sin_pi(x + 0.5)) : 0.0;
    case LEAT_FILTER_BOX:
        return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    default:
        x = fabs(x);
        return x < 1.0 ? 1.0 - x : 0.0;
    }
}

/* The reach of a filter, in its own pixels. */
static double reach_of(enum leat_filter filter)
{
    return filter == LEAT_FILTER_LANCZOS                                         ? 3.0
           : filter == LEAT_FILTER_BICUBIC || filter == LEAT_FILTER_BICUBIC_NEAR ? 2.0
           : filter == LEAT_FILTER_BOX                                           ? 0.5
                                                                                 : 1.0;
}

static double stretch_of(double scale, enum leat_filter filter)
{
    bool near = filter == LEAT_FILTER_BILINEAR || filter == LEAT_FILTER_BICUBIC_NEAR;
    return scale > 1.0 && !near ? scale : 1.0;
}

unsigned leat_axis_taps(double length, uint32_t out, enum leat_filter filter)
{
    if (filter == LEAT_FILTER_NEAREST)
        return 4;
    unsigned taps = (unsigned)ceil(reach_of(filter) * stretch_of(length / out, filter)) * 2 + 1;
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

/* The weights of one output pixel. Each operation is Pillow's, so that each rounding is, too. */
static void weigh(struct leat_axis *axis, uint32_t i, double begin, double scale, double stretch,
                  enum leat_filter filter)
{
    double support = reach_of(filter) * stretch, center = begin + ((double)i + 0.5) * scale, inverse = 1.0 / stretch,
           sum = 0, *w = axis->work;
    double low = center - support + 0.5, high = center + support + 0.5;
    uint32_t first = low < 0 ? 0 : (uint32_t)low, end = high > (double)axis->in ? axis->in : (uint32_t)high;
    first = first < axis->in ? first : axis->in - 1; /* only if rounding meets the end */
    end = end > first ? end : first + 1;
    end = end - first > axis->taps ? first + axis->taps : end;
    uint32_t n = end - first;
    for (uint32_t k = 0; k < n; k++)
        w[k] = weight_of(filter, ((double)(first + k) - center + 0.5) * inverse);
    if (filter == LEAT_FILTER_BICUBIC_NEAR) { /* pixels beyond an edge are those of the edge */
        for (int64_t at = (int64_t)floor(center - 0.5) - 1; at < 0; at++)
            w[0] += weight_of(filter, (double)at - center + 0.5);
        for (int64_t at = (int64_t)floor(center - 0.5) + 2; at >= axis->in; at--)
            w[n - 1] += weight_of(filter, (double)at - center + 0.5);
    }
    for (uint32_t k = 0; k < n; k++)
        sum += w[k];
    int32_t *weights = axis->weights + (size_t)i * axis->taps;
    for (uint32_t k = 0; k < axis->taps; k++) {
        double v = k < n && sum != 0 ? w[k] / sum * (double)(1 << LEAT_WEIGHT_BITS) : 0;
        weights[k] = (int32_t)(v < 0 ? v - 0.5 : v + 0.5);
    }
    while (end - first > 1 && !weights[end - first - 1])
        end--;
    axis->first[i] = first;
    axis->end[i] = end;
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
    double scale = length / out, stretch = stretch_of(scale, filter);
    if (filter == LEAT_FILTER_NEAREST)
        nearest(axis, begin, scale);
    else
        for (uint32_t i = 0; i < out; i++)
            weigh(axis, i, begin, scale, stretch, filter);
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
