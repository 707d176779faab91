/*
 * The division of the rows of a phase among sources, by shares of rows: mixture.c. fair.h has it by shares of tokens of
 * rows that vary in length. Neither knows when a phase begins or ends.
 */
#ifndef LEAT_PLAN_MIXTURE_H
#define LEAT_PLAN_MIXTURE_H

#include "plan/spec.h"

#define LEAT_SHARE_BITS 32 /* shares are integers that sum to 2^32, so that counting them is exact */

/* Integers for shares: sums[0] = 0, sums[k + 1] - sums[k] that of source k, sums[n] = 2^32. */
int leat_shares_set(const double *shares, uint32_t n, uint64_t *sums, struct leat_error *error);
/* Makes sums of n numbers, in place. */
void leat_shares_sum(uint64_t *parts, uint32_t n);
/* Divides n numbers by `divisors` (NULL: by 1), scales them to 2^32 and makes sums of them, in place. False: they are
 * all 0. */
bool leat_shares_scale(uint64_t *parts, uint32_t n, const uint64_t *divisors);
/* Shares of a straight line between two sums, at / 2 rows into its `length` rows. */
void leat_shares_between(const uint64_t *from, const uint64_t *to, uint32_t n, uint64_t at, uint64_t length,
                         uint64_t *out);

/* A phase as far as the division of its rows depends on it. */
struct leat_division {
    uint32_t n;         /* sources */
    uint64_t epoch;     /* of its first row */
    uint64_t key;       /* if rows vary in length: the rest of the facts that define its rows */
    int64_t mean;       /* of the excess of sources with a share */
    uint64_t *sums;     /* n + 1: those of shares */
    int64_t *offsets;   /* by node of a tree of sources, n */
    uint64_t *given;    /* by each source before: over all epochs if it repeats, else in this one */
    uint64_t *at_first; /* `given` as the epoch began */
    int64_t *carry;     /* that it was given too much, in units of 2^-32 rows, or tokens if rows vary in length */
};

/* The mean excess of the sources with a share, in units of 2^-32 rows: rounded down. */
int64_t leat_mix_mean(const struct leat_division *d);
/* Sets the offsets so that each of these comes to the mean, whatever it had. */
void leat_mix_aim(struct leat_division *d);
/* The source of the i-th row of a phase, and how many rows before it in the phase come from that source. */
uint32_t leat_mix_pick(const struct leat_division *d, uint64_t i, uint64_t *ordinal);
/* The same of n rows from the i-th on. */
void leat_mix_run(const struct leat_division *d, uint64_t i, size_t n, uint32_t *sources, uint64_t *ordinals);
/* The number of the first i rows that come from each source. */
void leat_mix_counts(const struct leat_division *d, uint64_t i, uint64_t *counts);
/* The row that is the j-th of source k; UINT64_MAX: there is none below 2^63. */
uint64_t leat_mix_place(const struct leat_division *d, uint32_t k, uint64_t j);

#endif
