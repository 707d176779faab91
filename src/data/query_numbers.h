/*
 * Comparisons of numbers that are computed: "length % 7 = 3", "clicks / views > 0.1", "width < height". What SQLite
 * would compute for one row after the other is computed for 256 rows at a time, with its results: integers of 64 bits
 * that become floats where they overflow, NULL where something is divided by 0 or NaN comes out.
 *
 *     leaf     sum compare sum  |  sum [NOT] BETWEEN sum AND sum  |  sum [NOT] IN (sum, ...)
 *     sum      numbers, columns of numbers, + - * / %, signs, brackets
 */
#ifndef LEAT_DATA_QUERY_NUMBERS_H
#define LEAT_DATA_QUERY_NUMBERS_H

#include "data/query.h"
#include "data/query_ranges.h"

#define LEAT_NUMBERS_DEPTH 8 /* values that wait at a time */
#define LEAT_NUMBERS_ROWS 256

enum leat_number_step_kind {
    LEAT_STEP_COLUMN,
    LEAT_STEP_CONSTANT,
    LEAT_STEP_ADD,
    LEAT_STEP_SUBTRACT,
    LEAT_STEP_MULTIPLY,
    LEAT_STEP_DIVIDE,
    LEAT_STEP_REMAINDER
};

struct leat_number_step {
    enum leat_number_step_kind kind;
    size_t column;
    struct leat_query_value constant; /* INT or REAL */
};

/* A sum, its operands before their operator. */
struct leat_number_sum {
    struct leat_number_step *steps;
    size_t n, room;
    unsigned depth; /* of values that wait while it is read; the most */
};

enum { LEAT_NUMBERS_SUMS = 32 };

struct leat_query_numbers {
    enum leat_numbers_how { LEAT_NUMBERS_COMPARE, LEAT_NUMBERS_BETWEEN, LEAT_NUMBERS_IN } how;
    enum leat_query_compare compare;
    bool inverted; /* NOT BETWEEN, NOT IN */
    struct leat_number_sum sums[LEAT_NUMBERS_SUMS];
    size_t n;
};
void leat_query_numbers_destroy(struct leat_query_numbers *numbers);

/* a op b as SQLite computes it. */
struct leat_query_value leat_number_compute(enum leat_number_step_kind op, const struct leat_query_value *a,
                                            const struct leat_query_value *b);
/* Whether a compare b: enum leat_truth. */
uint8_t leat_number_compare(enum leat_query_compare compare, const struct leat_query_value *a,
                            const struct leat_query_value *b);

/* truth[i] of the n <= LEAT_NUMBERS_ROWS rows of the reader's block from row `from` on. */
int leat_query_numbers_evaluate(const struct leat_query_numbers *numbers, const struct leat_query_columns *columns,
                                struct leat_query_reader *reader, size_t from, size_t n, uint8_t *truth,
                                struct leat_error *error);

#endif
