/*
 * The loop of power_sums.h. For a point with x = ln n and y = ln l:
 *
 *     q = exp(a - alpha x) + exp(e)      p = exp(a - alpha x) / q      r = ln q - y
 *     dr = (p, -p x, 1 - p)              d2r = p (1 - p) v v', v = (1, -x, -1)
 *
 * With psi the derivative of the Huber loss, the second derivatives are [|r| <= delta] dr dr' + psi d2r. The bound has
 * psi / r in the place of both, and is positive semidefinite.
 */
#include "fit/power_sums.h"

#include <string.h>

#include "base/cpu.h"

/* All that takes or gives a vec is compiled into its caller: no ABI is concerned. */
#pragma GCC diagnostic ignored "-Wpsabi"

#define LANES LEAT_POWER_LANES
typedef double vec __attribute__((vector_size(8 * LANES)));
typedef int64_t ints __attribute__((vector_size(8 * LANES)));
typedef uint64_t bits __attribute__((vector_size(8 * LANES)));

LEAT_INLINE vec all(double x)
{
    return x - (vec){0};
}

LEAT_INLINE vec load(const double *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

LEAT_INLINE vec choose(ints mask, vec yes, vec no)
{
    return (vec)((mask & (ints)yes) | (~mask & (ints)no));
}

/* For |x| < 700. Adding 1.5 * 2^52 rounds to the nearest integer, which then stands in the lowest bits. */
LEAT_INLINE vec vec_exp(vec x)
{
    const double magic = 0x1.8p52;
    vec t = x * 0x1.71547652b82fep0 + magic, k = t - magic;
    vec r = (x - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
    vec sum = all(1.0 / 6227020800.0);
    sum = sum * r + 1.0 / 479001600.0;
    sum = sum * r + 1.0 / 39916800.0;
    sum = sum * r + 1.0 / 3628800.0;
    sum = sum * r + 1.0 / 362880.0;
    sum = sum * r + 1.0 / 40320.0;
    sum = sum * r + 1.0 / 5040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 0.5;
    sum = sum * r + 1.0;
    sum = sum * r + 1.0;
    return (vec)((bits)sum + ((bits)t << 52));
}

/* For a normal positive number: x = 2^k m with m in [sqrt(1/2), sqrt(2)), and ln m = 2 artanh((m - 1) / (m + 1)). */
LEAT_INLINE vec vec_log(vec x)
{
    bits word = (bits)x, shifted = word - UINT64_C(0x3fe6a09e667f3bcd) + (UINT64_C(1023) << 52);
    bits power = shifted >> 52; /* k + 1023 */
    vec k = (vec)(power | UINT64_C(0x4330000000000000)) - 0x1p52 - 1023.0;
    vec m = (vec)(word - ((power - 1023) << 52));
    vec s = (m - 1.0) / (m + 1.0), t = s * s;
    vec sum = all(1.0 / 21);
    sum = sum * t + 1.0 / 19;
    sum = sum * t + 1.0 / 17;
    sum = sum * t + 1.0 / 15;
    sum = sum * t + 1.0 / 13;
    sum = sum * t + 1.0 / 11;
    sum = sum * t + 1.0 / 9;
    sum = sum * t + 1.0 / 7;
    sum = sum * t + 1.0 / 5;
    sum = sum * t + 1.0 / 3;
    sum = sum * t + 1.0;
    return k * 0x1.62e42fee00000p-1 + (2.0 * s * sum + k * 0x1.a39ef35793c76p-33);
}

LEAT_INLINE double total(vec v)
{
    double sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += v[i];
    return sum;
}

LEAT_INLINE void sums(const struct leat_power_points *points, const double at[3], struct leat_power_sums *out)
{
    const vec zero = {0}, delta = all(points->delta), eps = vec_exp(all(at[2]));
    vec value = zero, g0 = zero, g1 = zero, g2 = zero;
    vec c0 = zero, c1 = zero, c2 = zero, c3 = zero, c4 = zero, c5 = zero;
    vec b0 = zero, b1 = zero, b2 = zero, b3 = zero, b4 = zero, b5 = zero;
    for (size_t i = 0; i < points->n; i += LANES) {
        vec x = load(points->ln_n + i), real = load(points->real + i);
        vec b = vec_exp(at[0] - at[1] * x), q = b + eps, p = b / q, rest = eps / q;
        vec r = vec_log(q) - load(points->ln_loss + i), size = choose(r < zero, -r, r);
        ints within = size <= delta;
        vec psi = choose(within, r, choose(r < zero, -delta, delta)) * real;
        vec inside = choose(within, real, zero), weight = choose(within, real, delta * real / size);
        value += psi * (choose(within, 0.5 * r, r - 0.5 * choose(r < zero, -delta, delta)));
        vec px = p * x;
        g0 += psi * p;
        g1 -= psi * px;
        g2 += psi * rest;
        vec bend = psi * p * rest, square = inside * p * p + bend, cross = inside * p * rest - bend;
        c0 += square;
        c1 -= square * x;
        c2 += square * x * x;
        c3 += cross;
        c4 -= cross * x;
        c5 += inside * rest * rest + bend;
        vec wp = weight * p;
        b0 += wp * p;
        b1 -= wp * px;
        b2 += weight * px * px;
        b3 += wp * rest;
        b4 -= wp * x * rest;
        b5 += weight * rest * rest;
    }
    *out = (struct leat_power_sums){
        .value = total(value),
        .gradient = {total(g0), total(g1), total(g2)},
        .curvature = {total(c0), total(c1), total(c2), total(c3), total(c4), total(c5)},
        .bound = {total(b0), total(b1), total(b2), total(b3), total(b4), total(b5)},
    };
}

static void sums_portable(const struct leat_power_points *points, const double at[3], struct leat_power_sums *out)
{
    sums(points, at, out);
}

#if defined(__x86_64__)
LEAT_TARGET_AVX2 static void sums_avx2(const struct leat_power_points *points, const double at[3],
                                       struct leat_power_sums *out)
{
    sums(points, at, out);
}

LEAT_TARGET_AVX512 static void sums_avx512(const struct leat_power_points *points, const double at[3],
                                           struct leat_power_sums *out)
{
    sums(points, at, out);
}
#endif

void leat_power_sums(const struct leat_power_points *points, const double at[3], struct leat_power_sums *out)
{
    LEAT_OF_ISA(leat_cpu_isa(), sums)(points, at, out);
}
