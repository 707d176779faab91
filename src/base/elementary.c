/*
 * exp: x = k ln 2 + r with |r| <= ln 2 / 2, exp(x) = 2^k * (Taylor series of exp(r)).
 * sin and cos: x = k pi / 2 + r with |r| <= pi / 4, and the Taylor series of r.
 * log: x = 2^k m with m in [sqrt(1/2), sqrt(2)), log(m) = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172.
 */
#include "base/elementary.h"

#include <string.h>

static const double LN2_HIGH = 0x1.62e42fee00000p-1, LN2_LOW = 0x1.a39ef35793c76p-33;

static double power_of_two(int64_t k)
{
    uint64_t bits = (uint64_t)(k + 1023) << 52;
    double p;
    memcpy(&p, &bits, sizeof p);
    return p;
}

double leat_math_exp(double x)
{
    int64_t k = leat_round_even(x * 0x1.71547652b82fep0);
    double r = (x - (double)k * LN2_HIGH) - (double)k * LN2_LOW, sum = 1.0;
    for (int i = 16; i >= 1; i--)
        sum = 1.0 + sum * r / (double)i;
    return sum * power_of_two(k);
}

double leat_math_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int64_t k = (int64_t)(bits >> 52) - 1023;
    bits = (bits & UINT64_C(0xfffffffffffff)) | UINT64_C(0x3ff0000000000000);
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m >= 1.4142135623730951) {
        m *= 0.5;
        k++;
    }
    double s = (m - 1.0) / (m + 1.0), t = s * s, sum = 0.0;
    for (int i = 21; i >= 1; i -= 2)
        sum = sum * t + 1.0 / (double)i;
    return (double)k * LN2_HIGH + (2.0 * s * sum + (double)k * LN2_LOW);
}

/* sin of x + quarter pi / 2 */
static double sin_of(double x, int64_t quarter)
{
    int64_t k = leat_round_even(x * 0x1.45f306dc9c883p-1);
    double r = (x - (double)k * 0x1.921fb54400000p0) - (double)k * 0x1.0b4611a626331p-34, sum = 1.0;
    quarter += k;
    for (int i = quarter & 1 ? 20 : 21; i > 1; i -= 2)
        sum = 1.0 - sum * r * r / (double)(i * (i - 1));
    sum = quarter & 1 ? sum : sum * r;
    return quarter & 2 ? -sum : sum;
}

double leat_math_sin(double x)
{
    return sin_of(x, 0);
}

double leat_math_cos(double x)
{
    return sin_of(x, 1);
}

int64_t leat_round_even(double x)
{
    int64_t down = (int64_t)x;
    if ((double)down > x)
        down--;
    double rest = x - (double)down;
    if (rest > 0.5 || (rest == 0.5 && (down & 1)))
        down++;
    return down;
}
