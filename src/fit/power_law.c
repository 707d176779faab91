/*
 * Fits l = eps + beta n^-alpha to a loss curve, as mixtures that follow losses need it (Jiang et al. 2024, "Adaptive
 * data optimization: dynamic sample selection with scaling laws", arXiv 2410.11820): the sum of Huber losses of the
 * difference of logarithms, within bounds.
 *
 * With three parameters a step of Newton's method costs no more than its gradient does, so this is tried first. Beyond
 * delta the Huber loss is straight, and far from a solution its second derivatives say little. Then the step is that of
 * reweighted least squares: the weighted squares lie above the loss and touch it, so their least value goes down, or
 * does with more weight on the diagonal. Parameters at a bound that the gradient pushes outwards stand still.
 *
 * The sum often has several minima, which differ in alpha. Without a start, each alpha of the paper's grid of starts is
 * tried. The law is linear in beta and eps, so those are not searched: least squares gives them. These starts are
 * improved on a few points of the curve, the best of them on some more, and the best two on all.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/elementary.h"
#include "base/error.h"
#include "fit/power_sums.h"
#include "leat/curves.h"

#define ROUNDS 60       /* far more than are needed: 5 to 15 */
#define SAME_ALPHA 0.01 /* of candidates that are one */
#define ALPHAS 8        /* of the grid of starts */
/* Starts are improved on a thin curve, which has its minima near by: those that are left on a thicker one. */
#define FEW 64
#define FEW_ROUNDS 30
#define SOME 256
#define SOME_ROUNDS 8
#define LEAST_LN -30 /* of beta and eps: as good as 0 */
#define GREATEST_LN 30

struct problem {
    struct leat_power_points points;
    double low[3], high[3];
    double middle; /* of ln n */
};

static double clip(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* Solves the 3 x 3 system m x = -g of those that are free, by Cholesky's method. False: m is not positive definite. */
static bool solve(const double m[6], const double g[3], const bool free[3], double x[3])
{
    static const int at[3][3] = {{0, 1, 3}, {1, 2, 4}, {3, 4, 5}};
    double l[3][3] = {{0}}, y[3];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = free[i] && free[j] ? m[at[i][j]] : i == j ? 1.0 : 0.0;
            for (int k = 0; k < j; k++)
                sum -= l[i][k] * l[j][k];
            if (i != j)
                l[i][j] = sum / l[j][j];
            else if (sum > 1e-11 * fabs(m[at[i][i]]) && sum > 0)
                l[i][i] = sqrt(sum);
            else
                return false;
        }
        y[i] = free[i] ? -g[i] : 0;
        for (int k = 0; k < i; k++)
            y[i] -= l[i][k] * y[k];
        y[i] /= l[i][i];
    }
    for (int i = 2; i >= 0; i--) {
        x[i] = y[i];
        for (int k = i + 1; k < 3; k++)
            x[i] -= l[k][i] * x[k];
        x[i] /= l[i][i];
    }
    return true;
}

/*
 * Steps are computed for other parameters, in which the valley of good fits is nearly straight: relative changes of eps
 * and of the factor of n^-alpha at the middle of the curve, x = ln n. The law is linear in both.
 *
 *     c = beta exp(-alpha x)      a + da = ln(c (1 + d0)) + (alpha + d1) x      e + de = ln(eps (1 + d2))
 *
 * If a stands at its bound, c would leave it as alpha moves: then the middle is taken to be at x = 0.
 */
struct frame {
    bool free[3];
    double middle, gradient[3];
};

static struct frame frame_of(const struct problem *p, const double x[3], const struct leat_power_sums *now)
{
    struct frame f = {.middle = p->middle};
    const double *g = now->gradient;
    for (int i = 0; i < 3; i++)
        f.free[i] = !(x[i] <= p->low[i] && g[i] >= 0) && !(x[i] >= p->high[i] && g[i] <= 0);
    if (!f.free[0])
        f.middle = 0;
    f.gradient[0] = g[0];
    f.gradient[1] = g[1] + f.middle * g[0];
    f.gradient[2] = g[2];
    return f;
}

static void turn(const struct frame *f, const double from[6], double to[6])
{
    to[0] = from[0];
    to[1] = from[1] + f->middle * from[0];
    to[2] = from[2] + 2 * f->middle * from[1] + f->middle * f->middle * from[0];
    to[3] = from[3];
    to[4] = from[4] + f->middle * from[3];
    to[5] = from[5];
}

static double grown(double relative)
{
    return leat_math_log(clip(1 + relative, 0.1, 10));
}

/* Tries a step by the matrix m. True: it leads down, and `now` and `x` are there. */
static bool step(const struct problem *p, const struct frame *f, const double m[6], double x[3],
                 struct leat_power_sums *now)
{
    double by[3], to[3];
    struct leat_power_sums there;
    if (!solve(m, f->gradient, f->free, by))
        return false;
    to[1] = clip(x[1] + by[1], p->low[1], p->high[1]);
    to[0] = f->free[0] ? clip(x[0] + grown(by[0]) + (to[1] - x[1]) * f->middle, p->low[0], p->high[0]) : x[0];
    to[2] = f->free[2] ? clip(x[2] + grown(by[2]), p->low[2], p->high[2]) : x[2];
    if (!memcmp(to, x, sizeof to))
        return false;
    leat_power_sums(&p->points, to, &there);
    if (!(there.value < now->value))
        return false;
    *now = there;
    memcpy(x, to, sizeof to);
    return true;
}

/* `damping` is that of the last step, and then of this one. */
static bool improve_once(const struct problem *p, double x[3], struct leat_power_sums *now, double *damping)
{
    const struct frame f = frame_of(p, x, now);
    double m[6];
    turn(&f, now->curvature, m);
    m[0] -= now->gradient[0]; /* of the logarithms above */
    m[5] -= now->gradient[2];
    if (step(p, &f, m, x, now))
        return true;
    for (double more = *damping; more < 1e6; more *= 10) {
        turn(&f, now->bound, m);
        for (int i = 0; i < 3; i++)
            m[(const int[]){0, 2, 5}[i]] *= 1 + more;
        if (step(p, &f, m, x, now)) {
            *damping = more > 1e-8 ? more / 10 : more;
            return true;
        }
    }
    return false;
}

static double improve(const struct problem *p, double x[3], int rounds, double enough)
{
    struct leat_power_sums now;
    double damping = 1e-3;
    leat_power_sums(&p->points, x, &now);
    for (int i = 0; i < rounds; i++) {
        double before = now.value;
        if (!improve_once(p, x, &now, &damping) || before - now.value <= enough * before)
            break;
    }
    return now.value;
}

struct candidate {
    double x[3], value;
};

/* The beta and eps of least squares of relative errors, for a given alpha: the law is linear in both. */
static void start_at(const struct problem *p, double alpha, double x[3])
{
    const struct leat_power_points *points = &p->points;
    double cc = 0, ce = 0, ee = 0, c1 = 0, e1 = 0;
    for (size_t i = 0; i < points->n; i++) {
        const double e = leat_math_exp(-points->ln_loss[i]) * points->real[i],
                     c = leat_math_exp(-alpha * (points->ln_n[i] - p->middle)) * e;
        cc += c * c;
        ce += c * e;
        ee += e * e;
        c1 += c;
        e1 += e;
    }
    const double by = cc * ee - ce * ce;
    double beta = by > 1e-12 * cc * ee ? (c1 * ee - e1 * ce) / by : 0, eps = ee > 0 ? (e1 - beta * ce) / ee : 0;
    if (!(eps > 0)) {
        eps = 0;
        beta = c1 / cc;
    }
    x[0] = clip((beta > 1e-12 ? leat_math_log(beta) : LEAST_LN) + alpha * p->middle, p->low[0], p->high[0]);
    x[1] = clip(alpha, p->low[1], p->high[1]);
    x[2] = clip(eps > 1e-12 ? leat_math_log(eps) : LEAST_LN, p->low[2], p->high[2]);
}

/* Improves candidates for some rounds and puts the best first. Returns how many are left, `most` at most: those whose
 * value is near the best one's, each once. */
static unsigned choose(const struct problem *p, struct candidate *found, unsigned n, int rounds, double enough,
                       double near, unsigned most)
{
    for (unsigned i = 0; i < n; i++) {
        struct candidate c = found[i];
        c.value = improve(p, c.x, rounds, enough);
        unsigned to = i;
        for (; to && c.value < found[to - 1].value; to--)
            found[to] = found[to - 1];
        found[to] = c;
    }
    unsigned left = 1;
    for (unsigned i = 1; i < n && left < most && found[i].value <= near * found->value; i++) {
        bool known = false;
        for (unsigned k = 0; k < left; k++)
            known |= fabs(found[i].x[1] - found[k].x[1]) < SAME_ALPHA;
        if (!known)
            found[left++] = found[i];
    }
    return left;
}

/* Improves candidates to the end; the best is then the first. */
static void finish(const struct problem *p, struct candidate *found, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        found[i].value = improve(p, found[i].x, ROUNDS, 1e-8);
        if (found[i].value < found->value)
            found[0] = found[i];
    }
}

/* Some points of the curve, with the first and the last one, or all. */
static void take(const double *n, const double *loss, size_t count, size_t taken, double *to,
                 struct leat_power_points *points)
{
    size_t padded = (taken + LEAT_POWER_LANES - 1) / LEAT_POWER_LANES * LEAT_POWER_LANES;
    points->ln_n = to;
    points->ln_loss = to + padded;
    points->real = to + 2 * padded;
    points->n = padded;
    for (size_t i = 0; i < padded; i++) {
        size_t from = i >= taken ? 0 : taken == count ? i : i * (count - 1) / (taken - 1);
        to[i] = leat_math_log(n[from]);
        to[padded + i] = leat_math_log(loss[from]);
        to[2 * padded + i] = i < taken;
    }
}

static int check(const double *n, const double *loss, uint64_t count, const struct leat_power_fit_options *o,
                 struct leat_error *error)
{
    if (count < 4 || count > UINT32_MAX)
        return leat_fail(error, LEAT_E_INVALID, "%" PRIu64 " points: a power law takes at least 4", count);
    bool differs = false;
    for (uint64_t i = 0; i < count; i++) {
        if (!(n[i] >= 1 && n[i] < 0x1p63) || !(loss[i] >= 1e-9 && loss[i] <= 1e9))
            return leat_fail(error, LEAT_E_INVALID,
                             "point %" PRIu64 " has the loss %g after %g samples: losses lie between 1e-9 and 1e9, and "
                             "samples are counted from 1",
                             i, loss[i], n[i]);
        differs = differs || n[i] != n[0];
    }
    if (!differs)
        return leat_fail(error, LEAT_E_INVALID, "all points have the same number of samples, %g", n[0]);
    if (!(o->huber_delta > 0 && o->huber_delta < 1e6) || !(o->alpha_max > 0 && o->alpha_max <= 10) ||
        !(o->log_beta_max > LEAST_LN) || !(o->log_eps_min < GREATEST_LN) || o->log_beta_max != o->log_beta_max ||
        o->log_eps_min != o->log_eps_min)
        return leat_fail(error, LEAT_E_INVALID,
                         "the bounds of the fit are not usable: huber_delta %g and alpha_max %g (at most 10) lie above "
                         "0, log_beta_max %g above -30, log_eps_min %g below 30",
                         o->huber_delta, o->alpha_max, o->log_beta_max, o->log_eps_min);
    return LEAT_OK;
}

int leat_power_law_fit(const double *n, const double *loss, uint64_t count,
                       const struct leat_power_fit_options *options, const struct leat_power_law *start,
                       struct leat_power_law *out, struct leat_error *error)
{
    struct leat_power_fit_options o = LEAT_POWER_FIT_OPTIONS_INIT;
    o = options ? *options : o;
    *out = (struct leat_power_law){0};
    int rc = check(n, loss, count, &o, error);
    if (rc)
        return rc;
    const size_t few = count < FEW ? (size_t)count : FEW, some = count < SOME ? (size_t)count : SOME;
    double *memory = leat_alloc(3 * ((size_t)count + few + some + 3 * LEAT_POWER_LANES) * sizeof *memory);
    if (!memory)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for %" PRIu64 " points", count);
    struct problem p = {.low = {LEAST_LN, 0, fmax(LEAST_LN, o.log_eps_min)},
                        .high = {fmin(GREATEST_LN, o.log_beta_max), o.alpha_max, GREATEST_LN}};
    p.points.delta = o.huber_delta;
    p.middle = (leat_math_log(n[0]) + leat_math_log(n[count - 1])) / 2;
    take(n, loss, (size_t)count, (size_t)count, memory, &p.points);
    struct candidate found[ALPHAS] = {{{0}, 0}};
    unsigned left = 1;
    if (start) {
        const double given[3] = {start->log_beta, start->alpha, start->log_eps};
        for (int i = 0; i < 3; i++) /* a result that is no number is taken as the lowest */
            found->x[i] = given[i] >= p.low[i] ? fmin(given[i], p.high[i]) : p.low[i];
    } else {
        struct problem sketch = p, thin = p;
        take(n, loss, (size_t)count, few, memory + 3 * p.points.n, &sketch.points);
        take(n, loss, (size_t)count, some, memory + 3 * (p.points.n + sketch.points.n), &thin.points);
        for (int i = 0; i < ALPHAS; i++) /* at 0 both terms are the same */
            start_at(&sketch, i ? (double)i / 10 : 0.05, found[i].x);
        left = choose(&sketch, found, ALPHAS, FEW_ROUNDS, 1e-3, 1.5, 4);
        left = choose(&thin, found, left, SOME_ROUNDS, 1e-4, 1.05, 2);
    }
    finish(&p, found, left);
    *out = (struct leat_power_law){found->x[1], found->x[0], found->x[2], found->value};
    leat_free(memory);
    return LEAT_OK;
}

double leat_exp(double x)
{
    return x != x ? x : x < -700 ? 0 : leat_math_exp(fmin(x, 700));
}

double leat_ln(double x)
{
    return x >= 0x1p-1022 && !isinf(x) ? leat_math_log(x) : NAN;
}

double leat_power(double x, double y)
{
    return x == 0 && y > 0 ? 0 : leat_exp(y * leat_ln(x));
}

double leat_power_law_at(const struct leat_power_law *law, double n)
{
    return leat_exp(law->log_eps) + leat_exp(law->log_beta) * leat_power(n, -law->alpha);
}

double leat_power_law_slope(const struct leat_power_law *law, double n)
{
    return law->alpha * leat_exp(law->log_beta) * leat_power(n, -law->alpha) / n;
}
