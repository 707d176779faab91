/*
 * exp, log, sin and cos that give the same bits on every machine, compiler and C library: only additions,
 * multiplications, divisions and exact scaling. The numbers that decide a crop go through these. Relative error below
 * 1e-15 where used (|x| < 700; normal positive numbers). Part of the plan version: they never change.
 */
#ifndef LEAT_BASE_ELEMENTARY_H
#define LEAT_BASE_ELEMENTARY_H

#include <stdint.h>

double leat_math_exp(double x);
double leat_math_log(double x);
/* For |x| < 1e5; the error is below 4e-16. */
double leat_math_sin(double x);
double leat_math_cos(double x);
/* Rounds to the nearest integer, halves to the even one (as Python's round), for |x| < 2^52. */
int64_t leat_round_even(double x);

#endif
