/* What tests of distributions share: distances to what is meant, and that a wrong distribution would be seen. */
#ifndef LEAT_TESTS_OP_DISTRIBUTIONS_H
#define LEAT_TESTS_OP_DISTRIBUTIONS_H

#include <math.h>

#include "../test.h"
#include "op/operator.h"

enum { DRAWS = 20000 };

static inline int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Kolmogorov and Smirnov's distance of n values to the uniform distribution on [low, high], times the root of n:
 * above 1.95 once in a thousand. */
static inline double distance(double *values, size_t n, double low, double high)
{
    double worst = 0;
    qsort(values, n, sizeof *values, by_value);
    for (size_t i = 0; i < n; i++) {
        double at = (values[i] - low) / (high - low), above = (double)(i + 1) / (double)n - at,
               below = at - (double)i / (double)n;
        worst = fmax(worst, fmax(above, below));
    }
    return worst * sqrt((double)n);
}

/* The values are uniform on [low, high]; the same values, drawn uniformly in their logarithm or in 0.97 of the range,
 * would be seen. */
static inline void assert_uniform(double *values, size_t n, double low, double high)
{
    assert_in_range(values[0] >= low && values[0] <= high, 1, 1);
    double d = distance(values, n, low, high);
    if (d > 1.95)
        fail_msg("not uniform on [%g, %g]: %g", low, high, d);
    double *wrong = malloc(n * sizeof *wrong), base = 1 - low;
    for (size_t i = 0; i < n; i++)
        wrong[i] = exp(log(low + base) + (values[i] - low) / (high - low) * log((high + base) / (low + base))) - base;
    assert_true(distance(wrong, n, low, high) > 1.95);
    for (size_t i = 0; i < n; i++)
        wrong[i] = low + 0.97 * (values[i] - low);
    assert_true(distance(wrong, n, low, high) > 1.95);
    free(wrong);
}

static inline void parse_args(const struct leat_op_class *class, const char *json, void *args)
{
    struct leat_error error = {0};
    json_t *object = json_loads(json, 0, NULL);
    assert_non_null(object);
    memset(args, 0, class->args_bytes);
    struct leat_args reader = {.object = object, .operator_type = class->type, .error = &error};
    class->parse(args, &reader);
    assert_ok(leat_args_end(&reader));
    json_decref(object);
}

static inline double chi_square(const unsigned *counts, unsigned n, double each)
{
    double sum = 0;
    for (unsigned i = 0; i < n; i++)
        sum += (counts[i] - each) * (counts[i] - each) / each;
    return sum;
}

#endif
