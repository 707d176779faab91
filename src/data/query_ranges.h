/*
 * A number compared with constants, as ranges of ordinals. The ordinal of a value is its bits, turned so that they
 * count up as the values do: for u8 to u64 the value itself, for signed numbers with the sign flipped, for floats as
 *
 *     NaN | -inf ... -1 ... -0 | 0 ... 1 ... inf | NaN
 *
 * Every comparison with a constant is then a range, whose borders are found by bisection with SQLite's own comparison
 * of numbers (integers and floats exactly), and a row costs a subtraction and a test.
 */
#ifndef LEAT_DATA_QUERY_RANGES_H
#define LEAT_DATA_QUERY_RANGES_H

#include "data/query.h"

struct leat_query_range {
    uint64_t low, high; /* ordinals, both included */
};

struct leat_query_ranges {
    enum leat_dtype dtype;
    struct leat_query_range *at; /* ascending, disjoint */
    size_t n, room;
};

enum leat_query_compare { LEAT_QUERY_LT, LEAT_QUERY_LE, LEAT_QUERY_EQ, LEAT_QUERY_GE, LEAT_QUERY_GT, LEAT_QUERY_NE };

/* -1, 0 or 1 as a is below, equal to or above b: INT or REAL, compared exactly. */
int leat_query_order(const struct leat_query_value *a, const struct leat_query_value *b);
/* Adds the values for which (value compare constant) is true. The constant is an INT or a REAL. NOMEM. */
int leat_query_ranges_add(struct leat_query_ranges *ranges, enum leat_query_compare compare,
                          const struct leat_query_value *constant);
/* Those that are in both. */
int leat_query_ranges_and(struct leat_query_ranges *ranges, const struct leat_query_ranges *other);
/* The values that are not in the ranges; NaN, which is NULL, stays out. */
int leat_query_ranges_not(struct leat_query_ranges *ranges);
/* NaN: IS NULL. */
int leat_query_ranges_null(struct leat_query_ranges *ranges);
void leat_query_ranges_destroy(struct leat_query_ranges *ranges);

/* Sets bits [from, from + n) of `bits` for values in the ranges, and clears the others. `from` is a multiple of 64, and
 * so is n, or nothing follows. Takes no lock and allocates nothing. */
void leat_query_ranges_test(const struct leat_query_ranges *ranges, const void *values, size_t n, uint64_t *bits);

#endif
