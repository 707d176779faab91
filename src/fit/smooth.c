/*
 * Savitzky and Golay's filter ("Smoothing and differentiation of data by simplified least squares procedures", Anal.
 * Chem. 36, 1964): each value becomes that of the polynomial of least squares through its neighbours.
 *
 *     value      0 . . . h . . . . . i . . . . . n-h . . n-1
 *     window     [0, 2h]        [i-h, i+h]       [n-1-2h, n-1]
 *
 * The first and the last h values have the polynomial of the outermost window. Gram's polynomials, which are orthogonal
 * on the points of the window, make each coefficient a sum of its own, so that no system of equations is solved.
 */
#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"
#include "base/error.h"
#include "leat/curves.h"

#define MAX_DEGREE 5

struct window {
    int64_t half;
    int degree;
    double norm[MAX_DEGREE + 1];
};

/* Gram's polynomials up to the degree, at x = offset / half. */
static void gram(const struct window *w, double x, double out[MAX_DEGREE + 1])
{
    out[0] = 1;
    if (w->degree)
        out[1] = x;
    for (int k = 1; k < w->degree; k++)
        out[k + 1] = x * out[k] - w->norm[k] / w->norm[k - 1] * out[k - 1];
}

static double place(const struct window *w, int64_t offset)
{
    return w->half ? (double)offset / (double)w->half : 0;
}

static struct window window_of(int64_t half, int degree)
{
    struct window w = {.half = half, .norm = {0}};
    for (int k = 0; k <= degree; k++) { /* the recurrence of degree k takes the norms of those below it */
        double values[MAX_DEGREE + 1];
        w.degree = k;
        for (int64_t i = -half; i <= half; i++) {
            gram(&w, place(&w, i), values);
            w.norm[k] += values[k] * values[k];
        }
    }
    return w;
}

/* The weights of the window's values for the polynomial at `offset` from its middle. */
static void weigh(const struct window *w, int64_t offset, double *weights)
{
    double there[MAX_DEGREE + 1], here[MAX_DEGREE + 1];
    gram(w, place(w, offset), there);
    for (int64_t i = -w->half; i <= w->half; i++) {
        gram(w, place(w, i), here);
        double sum = 0;
        for (int k = 0; k <= w->degree; k++)
            sum += here[k] * there[k] / w->norm[k];
        weights[i + w->half] = sum;
    }
}

int leat_curve_smooth(const double *values, uint64_t n, uint32_t window, uint32_t degree, uint64_t first,
                      uint64_t stride, uint64_t n_out, double *out, struct leat_error *error)
{
    if (!n_out)
        return LEAT_OK;
    if (!(window & 1) || window > 10001 || degree > MAX_DEGREE || degree >= window)
        return leat_fail(error, LEAT_E_INVALID,
                         "a window of %" PRIu32 " values and a polynomial of degree %" PRIu32
                         ": a window is an odd number up to 10001, and a degree is at most 5 and below it",
                         window, degree);
    if (!stride || first >= n || (n - 1 - first) / stride < n_out - 1)
        return leat_fail(error, LEAT_E_RANGE,
                         "%" PRIu64 " values from %" PRIu64 " on by steps of %" PRIu64 " are not among %" PRIu64, n_out,
                         first, stride, n);
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return leat_fail(error, LEAT_E_INVALID, "value %" PRIu64 " is %g: values are finite", i, values[i]);
    uint64_t width = window <= n ? window : (n - 1) | 1;
    if (width > n)
        width -= 2;
    struct window w = window_of((int64_t)width / 2, degree < width ? (int)degree : (int)width - 1);
    double *weights = leat_alloc(2 * width * sizeof *weights);
    if (!weights)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a window of %" PRIu64 " values", width);
    double *edge = weights + width;
    weigh(&w, 0, weights);
    for (uint64_t j = 0; j < n_out; j++) {
        uint64_t at = first + j * stride, half = width / 2;
        uint64_t middle = at < half ? half : at > n - 1 - half ? n - 1 - half : at;
        const double *used = weights;
        if (middle != at) {
            weigh(&w, (int64_t)at - (int64_t)middle, edge);
            used = edge;
        }
        double sum = 0;
        for (uint64_t i = 0; i < width; i++)
            sum += used[i] * values[middle - half + i];
        out[j] = sum;
    }
    leat_free(weights);
    return LEAT_OK;
}
