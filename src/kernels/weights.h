/*
 * The weights of a resize along one axis, as Pillow computes them: for each output pixel a run of input pixels. Each
 * operation on doubles is Pillow's, so that each rounding is, too; no compiler may join a product and a sum
 * (-ffp-contract=off, --fmad=false). The processor and the kernels of a card share this.
 */
#ifndef LEAT_KERNELS_WEIGHTS_H
#define LEAT_KERNELS_WEIGHTS_H

#include "base/both.h"
#ifndef __CUDACC__
#include <math.h>
#include <stdbool.h>
#endif

#define LEAT_WEIGHT_BITS 22

/* BILINEAR and BICUBIC_NEAR are without antialias: they take the 4 or 16 nearest pixels, as
 * torch.nn.functional.interpolate weighs them. The others are Pillow's. Without a resize, for single pixels at any
 * places (sample.h), BILINEAR and BICUBIC are those of Pillow's Image.transform. */
enum leat_filter {
    LEAT_FILTER_ANTIALIAS = 0,
    LEAT_FILTER_BILINEAR,
    LEAT_FILTER_NEAREST,
    LEAT_FILTER_BICUBIC,
    LEAT_FILTER_BICUBIC_NEAR,
    LEAT_FILTER_LANCZOS,
    LEAT_FILTER_HAMMING,
    LEAT_FILTER_BOX
};

/* ---- filters: of the distance in pixels, of the result if it is the smaller ---- */

#define LEAT_PI 3.14159265358979323846

/* sin of PI x, by the Taylor series around the nearest integer: the same bits on every machine. */
LEAT_BOTH double leat_sin_pi(double x)
{
    const long long whole = (long long)(x + (x < 0 ? -0.5 : 0.5));
    const double r = (x - (double)whole) * LEAT_PI;
    double sum = 1.0;
    for (int i = 21; i > 1; i -= 2)
        sum = 1.0 - sum * r * r / (double)(i * (i - 1));
    return (whole & 1 ? -r : r) * sum;
}

LEAT_BOTH double leat_sinc(double x)
{
    return x == 0.0 ? 1.0 : leat_sin_pi(x) / (x * LEAT_PI);
}

LEAT_BOTH double leat_cubic(double x, double a)
{
    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0.0;
}

LEAT_BOTH double leat_filter_weight(enum leat_filter filter, double x)
{
    switch (filter) {
    case LEAT_FILTER_BICUBIC:
        return leat_cubic(x, -0.5);
    case LEAT_FILTER_BICUBIC_NEAR:
        return leat_cubic(x, -0.75);
    case LEAT_FILTER_LANCZOS:
        return x >= -3.0 && x < 3.0 ? leat_sinc(x) * leat_sinc(x / 3.0) : 0.0;
    case LEAT_FILTER_HAMMING:
        return fabs(x) < 1.0 ? leat_sinc(x) * (0.54 + 0.46 * leat_sin_pi(x + 0.5)) : 0.0;
    case LEAT_FILTER_BOX:
        return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    default:
        x = fabs(x);
        return x < 1.0 ? 1.0 - x : 0.0;
    }
}

/* The reach of a filter, in its own pixels. */
LEAT_BOTH double leat_filter_reach(enum leat_filter filter)
{
    return filter == LEAT_FILTER_LANCZOS                                         ? 3.0
           : filter == LEAT_FILTER_BICUBIC || filter == LEAT_FILTER_BICUBIC_NEAR ? 2.0
           : filter == LEAT_FILTER_BOX                                           ? 0.5
                                                                                 : 1.0;
}

LEAT_BOTH double leat_filter_stretch(enum leat_filter filter, double scale)
{
    const bool near = filter == LEAT_FILTER_BILINEAR || filter == LEAT_FILTER_BICUBIC_NEAR;
    return scale > 1.0 && !near ? scale : 1.0;
}

/* ---- runs; not of NEAREST ---- */

struct leat_run {
    double center, inverse;
    unsigned first, n; /* input pixels */
};

/* The run of output pixel i, if [begin, begin + scale * outputs) of an input of `in` pixels is resized. */
LEAT_BOTH struct leat_run leat_run_of(enum leat_filter filter, unsigned in, double begin, double scale, unsigned taps,
                                      unsigned i)
{
    const double stretch = leat_filter_stretch(filter, scale), support = leat_filter_reach(filter) * stretch,
                 center = begin + ((double)i + 0.5) * scale;
    if (begin == 0 && scale == 1.0) { /* the weights of all others are 0 */
        const struct leat_run same = {center, 1.0, i, 1};
        return same;
    }
    const double low = center - support + 0.5, high = center + support + 0.5;
    unsigned first = low < 0 ? 0 : (unsigned)low, end = high > (double)in ? in : (unsigned)high;
    first = first < in ? first : in - 1; /* only if rounding meets the end */
    end = end > first ? end : first + 1;
    end = end - first > taps ? first + taps : end;
    const struct leat_run run = {center, 1.0 / stretch, first, end - first};
    return run;
}

/* The weight of its k-th pixel, before the sum of all is made 1. */
LEAT_BOTH double leat_run_weight(const struct leat_run *run, enum leat_filter filter, unsigned in, unsigned k)
{
    double w = leat_filter_weight(filter, ((double)(run->first + k) - run->center + 0.5) * run->inverse);
    if (filter != LEAT_FILTER_BICUBIC_NEAR)
        return w;
    /* pixels beyond an edge are those of the edge */
    const long long middle = (long long)floor(run->center - 0.5);
    for (long long at = middle - 1; k == 0 && at < 0; at++)
        w += leat_filter_weight(filter, (double)at - run->center + 0.5);
    for (long long at = middle + 2; k == run->n - 1 && at >= (long long)in; at--)
        w += leat_filter_weight(filter, (double)at - run->center + 0.5);
    return w;
}

/* A weight of a run whose weights add up to `sum`, in fixed point. */
LEAT_BOTH int leat_fixed_weight(double w, double sum)
{
    const double v = sum != 0 ? w / sum * (double)(1 << LEAT_WEIGHT_BITS) : 0;
    return (int)(v < 0 ? v - 0.5 : v + 0.5);
}

#endif
