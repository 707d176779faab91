/*
 * Rows that are given to a loader, not planned: given.c.
 */
#ifndef LEAT_ENGINE_GIVEN_H
#define LEAT_ENGINE_GIVEN_H

#include "plan/plan.h"

/* Row i is sample i of the n that are lent to the loader's data set, with the random key keys[i]. */
struct leat_given_rows {
    const uint64_t *keys;
    uint64_t n;
};

/* As leat_plan_rows, leat_plan_substitute and leat_plan_companion; the other samples are drawn by the row's key. */
void leat_given_rows(const struct leat_given_rows *given, uint64_t first, uint64_t n, struct leat_plan_row *rows);
struct leat_piece leat_given_substitute(const struct leat_given_rows *given, uint64_t row, unsigned attempt);
struct leat_piece leat_given_companion(const struct leat_given_rows *given, uint64_t row, unsigned n);

#endif
