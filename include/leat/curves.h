/*
 * Loss curves, for mixtures that follow losses: smoothing, fits of power laws, and the powers that they need. A header
 * of its own, because nothing else of leat needs it. All functions are pure and give the same bits on every machine, so
 * that ranks that are given the same losses decide the same. Any thread may call them.
 */
#ifndef LEAT_CURVES_H
#define LEAT_CURVES_H

#include "leat/leat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* l(n) = eps + beta n^-alpha: a domain's loss after n of its samples. */
struct leat_power_law {
    double alpha;
    double log_beta, log_eps; /* natural logarithms */
    double objective;         /* of the fit: the sum of Huber losses of ln l(n) - ln loss */
};

/* The defaults are those of ADO (arXiv 2410.11820), without its floor of eps, ln eps >= 0.5. */
struct leat_power_fit_options {
    double huber_delta;  /* of differences of logarithms */
    double alpha_max;    /* 0 <= alpha <= alpha_max */
    double log_beta_max; /* -30 <= ln beta <= log_beta_max */
    double log_eps_min;  /* log_eps_min <= ln eps <= 30; -30 is as good as no floor */
};
#define LEAT_POWER_FIT_OPTIONS_INIT                                                                                    \
    {                                                                                                                  \
        1e-3, 0.8, 6.5, -30                                                                                            \
    }

/* Fits a power law to `count` points (samples seen, from 1; loss, 1e-9 to 1e9) within the bounds. `start`: a fit of an
 * earlier part of the curve, which is improved; NULL: the best from a grid of starts. `options` NULL: the defaults.
 * The slope within the range of n is well determined, alpha is not. A curve of 2,000 points takes about a quarter of a
 * millisecond from a start, and less than one from the grid.
 * Errors: INVALID (fewer than 4 points, all at one n, a point or a bound out of range), NOMEM. */
LEAT_API int leat_power_law_fit(const double *n, const double *loss, uint64_t count,
                                const struct leat_power_fit_options *options, const struct leat_power_law *start,
                                struct leat_power_law *out, struct leat_error *error);
/* The loss after n samples, n above 0. */
LEAT_API double leat_power_law_at(const struct leat_power_law *law, double n);
/* The speed of its fall there, a sample: -dl/dn = alpha (l(n) - eps) / n. */
LEAT_API double leat_power_law_slope(const struct leat_power_law *law, double n);

/* Savitzky and Golay's filter: `out[j]` is the value at first + j * stride, j < n_out, of the polynomial of `degree` (0
 * to 5) that fits the `window` (odd, up to 10001) values around it best; within half a window of an end, of the
 * outermost window's. If there are fewer values than that, window and degree are as large as these allow.
 * Errors: INVALID (window, degree, a value that is not finite), RANGE (not among the n values), NOMEM. */
LEAT_API int leat_curve_smooth(const double *values, uint64_t n, uint32_t window, uint32_t degree, uint64_t first,
                               uint64_t stride, uint64_t n_out, double *out, struct leat_error *error);

/* e^x: 0 below -700, and e^700 above 700. */
LEAT_API double leat_exp(double x);
/* The natural logarithm of a normal positive x; NaN of any other. */
LEAT_API double leat_ln(double x);
/* x^y, by leat_exp, for x that is 0 (with y above 0) or normal and positive; NaN for any other. */
LEAT_API double leat_power(double x, double y);

#ifdef __cplusplus
}
#endif

#endif
