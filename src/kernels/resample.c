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
    leat_free(axis->plan); /* what it holds is not needed: no copy */
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

static double support_of(double scale, enum leat_filter filter)
{
    return filter == LEAT_FILTER_ANTIALIAS && scale > 1.0 ? scale : 1.0;
}

unsigned leat_axis_taps(double length, uint32_t out, enum leat_filter filter)
{
    if (filter == LEAT_FILTER_NEAREST)
        return 4;
    unsigned taps = (unsigned)ceil(support_of(length / out, filter)) * 2 + 1;
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
static void triangle(struct leat_axis *axis, uint32_t i, double begin, double scale, double support)
{
    double center = begin + ((double)i + 0.5) * scale, inverse = 1.0 / support, sum = 0, *w = axis->work;
    double low = center - support + 0.5, high = center + support + 0.5;
    uint32_t first = low < 0 ? 0 : (uint32_t)low, end = high > (double)axis->in ? axis->in : (uint32_t)high;
    first = first < axis->in ? first : axis->in - 1; /* only where rounding meets the end */
    end = end > first ? end : first + 1;
    end = end - first > axis->taps ? first + axis->taps : end;
    uint32_t n = end - first;
    for (uint32_t k = 0; k < n; k++) {
        double distance = fabs(((double)(first + k) - center + 0.5) * inverse);
        w[k] = distance < 1.0 ? 1.0 - distance : 0.0;
        sum += w[k];
    }
    int32_t *weights = axis->weights + (size_t)i * axis->taps;
    for (uint32_t k = 0; k < axis->taps; k++)
        weights[k] = k < n && sum > 0 ? (int32_t)(0.5 + w[k] / sum * (double)(1 << LEAT_WEIGHT_BITS)) : 0;
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
    double scale = length / out, support = support_of(scale, filter);
    if (filter == LEAT_FILTER_NEAREST)
        nearest(axis, begin, scale);
    else
        for (uint32_t i = 0; i < out; i++)
            triangle(axis, i, begin, scale, support);
    return LEAT_OK;
}
