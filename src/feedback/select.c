/*
 * Selections by value.
 *
 * The k greatest of n numbers are found without sorting or copying them. The bits of a float, with the sign folded in,
 * rise with its value, so a histogram of their upper 16 bits gives the bin of the k-th, one of the lower 16 bits in
 * that bin its number, and a third pass takes those above it and, by position, as many of its equals as are missing:
 *
 *     key    sign and exponent, 7 bits | lower 16 bits
 *     pass   1: count ............     | 2: count those of the bin      3: take
 *
 * That is three passes over the memory of the values, whatever k is, and the result has rising positions.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "leat/curves.h"
#include "leat/feedback.h"

#define BINS 65536
#define MOST_LOG 600 /* of a weight: 2^64 of them have a finite sum, and leat_power is exact */

static inline float value_at(const struct leat_measured *v, uint64_t i)
{
    return *(const float *)(const void *)((const char *)v->values + i * v->stride);
}

static inline bool is_known(const struct leat_measured *v, uint64_t i)
{
    return !v->counts || *(const uint32_t *)(const void *)((const char *)v->counts + i * v->stride);
}

/* Rises as the values that are to be taken first. */
static inline uint32_t key_of(const struct leat_measured *v, uint64_t i, uint32_t flip)
{
    const float value = value_at(v, i) + 0.0F; /* -0 becomes 0 */
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits ^= bits >> 31 ? UINT32_MAX : UINT32_C(1) << 31;
    return is_known(v, i) ? bits ^ flip : flip ? 0 : UINT32_MAX;
}

/* The bin that the k-th from the top is in; *k becomes its number within it. */
static uint32_t find_bin(const uint64_t *count, uint64_t *k)
{
    uint32_t bin = BINS - 1;
    for (; count[bin] < *k; bin--)
        *k -= count[bin];
    return bin;
}

static int check_values(const struct leat_measured *v, struct leat_error *error)
{
    for (uint64_t i = 0; i < v->n; i++)
        if (isnan(value_at(v, i)))
            return leat_fail(error, LEAT_E_INVALID, "value %" PRIu64 " is NaN, which is neither great nor small", i);
    return LEAT_OK;
}

int leat_select_extreme(const struct leat_measured *v, enum leat_extreme which, uint64_t k, int64_t *positions,
                        struct leat_error *error)
{
    const uint32_t flip = which == LEAT_LEAST ? UINT32_MAX : 0;
    if (k > v->n)
        return leat_fail(error, LEAT_E_RANGE, "%" PRIu64 " of %" PRIu64 " values cannot be selected", k, v->n);
    if (!k)
        return LEAT_OK;
    uint64_t *count = leat_new_array(BINS, sizeof *count), left = k;
    if (!count)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a selection");
    bool nan = false;
    for (uint64_t i = 0; i < v->n; i++) {
        nan |= isnan(value_at(v, i)) != 0;
        count[key_of(v, i, flip) >> 16]++;
    }
    if (nan) {
        leat_free(count);
        return check_values(v, error);
    }
    const uint32_t upper = find_bin(count, &left);
    memset(count, 0, BINS * sizeof *count);
    for (uint64_t i = 0; i < v->n; i++) {
        const uint32_t key = key_of(v, i, flip);
        if (key >> 16 == upper)
            count[key & (BINS - 1)]++;
    }
    const uint32_t least = upper << 16 | find_bin(count, &left);
    leat_free(count);
    uint64_t n = 0;
    for (uint64_t i = 0; i < v->n && n < k; i++) {
        const uint32_t key = key_of(v, i, flip);
        const bool equal = key == least && left;
        left -= equal;
        if (key > least || equal)
            positions[n++] = (int64_t)i;
    }
    return LEAT_OK;
}

/* ---- by weight --------------------------------------------------------------------------------------------------- */

/* Running sums of value^alpha. */
static int sum_weights(const struct leat_measured *v, double alpha, double *sums, struct leat_error *error)
{
    double most = 0, sum = 0;
    for (uint64_t i = 0; i < v->n; i++) {
        if (!is_known(v, i))
            continue;
        const double value = (double)value_at(v, i);
        if (!(value >= 0) || isinf(value))
            return leat_fail(error, LEAT_E_INVALID,
                             "the value of sample %" PRIu64 " is %g: weights are made of values from 0 on", i, value);
        most = value > most ? value : most;
    }
    if (most > 0 && alpha * leat_ln(most) > MOST_LOG)
        return leat_fail(error, LEAT_E_INVALID, "%g to the power of %g is too large for a weight: take a smaller alpha",
                         most, alpha);
    const double unknown = most > 0 ? leat_power(most, alpha) : 1;
    for (uint64_t i = 0; i < v->n; i++) {
        const double value = (double)value_at(v, i);
        sum += !is_known(v, i) ? unknown : value > 0 ? leat_power(value, alpha) : alpha > 0 ? 0 : 1;
        sums[i] = sum;
    }
    for (uint64_t i = 0; i < v->n && !(sum > 0); i++)
        sums[i] = (double)(i + 1);
    return LEAT_OK;
}

int leat_select_weighted(const struct leat_measured *v, double alpha, uint64_t key, uint64_t k, int64_t *positions,
                         struct leat_error *error)
{
    if (!v->n || !(alpha >= 0) || isinf(alpha))
        return leat_fail(error, LEAT_E_INVALID,
                         "%" PRIu64
                         " values to the power of %g: there is at least one value, and the power is a finite "
                         "number from 0 on",
                         v->n, alpha);
    double *sums = leat_new_array(v->n, sizeof *sums);
    if (!sums)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for %" PRIu64 " weights", v->n);
    const int rc = sum_weights(v, alpha, sums, error);
    const double total = sums[v->n - 1];
    for (uint64_t i = 0; !rc && i < k; i++) {
        double target = leat_draw_unit(key, i) * total;
        if (target >= total) /* rounded up */
            target = nextafter(total, 0);
        const double *base = sums; /* the first of which the sum is above the target */
        for (uint64_t n = v->n, half; n > 1; n -= half) {
            half = n / 2;
            base = base[half - 1] <= target ? base + half : base;
        }
        positions[i] = base - sums;
    }
    leat_free(sums);
    return rc;
}
