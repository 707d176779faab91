/*
 * The input of the fit of a power law at one place: the sum of Huber losses of ln(eps + beta n^-alpha) - ln l over all
 * points, its gradient, and two matrices. Parameters are (a, alpha, e) = (ln beta, alpha, ln eps).
 *
 * Every instruction set gives the same bits: points are dealt to LEAT_POWER_LANES sums, whatever a register holds, exp
 * and log are polynomials, and nothing is fused.
 */
#ifndef LEAT_FIT_POWER_SUMS_H
#define LEAT_FIT_POWER_SUMS_H

#include <stddef.h>
#include <stdint.h>

#define LEAT_POWER_LANES 8

/* `ln_n` and `ln_loss` have room for whole lanes, and `real`, 1 of a point and 0 behind the last one. */
struct leat_power_points {
    const double *ln_n, *ln_loss, *real;
    size_t n; /* a multiple of LEAT_POWER_LANES */
    double delta;
};

/* Matrices are symmetric: aa, a alpha, alpha alpha, a e, alpha e, e e. */
struct leat_power_sums {
    double value;
    double gradient[3];
    double curvature[6]; /* second derivatives, as Newton's method takes them */
    double bound[6];     /* of the weighted squares that lie above the Huber losses and touch them here */
};

/* |alpha ln n|, |a| and |e| stay below 600. */
void leat_power_sums(const struct leat_power_points *points, const double at[3], struct leat_power_sums *out);

#endif
