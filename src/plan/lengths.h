/*
 * The numbers of tokens of a source's rows, in the order of a pass. `pass` counts from 0; no two threads at a time.
 */
#ifndef LEAT_PLAN_LENGTHS_H
#define LEAT_PLAN_LENGTHS_H

#include "plan/order.h"

/* For source k, whose passes have so many rows. Errors: INVALID, RANGE, NOMEM. */
int leat_lengths_new(const struct leat_plan_source *from, uint32_t k, uint64_t rows, struct leat_lengths **out,
                     struct leat_error *error);
void leat_lengths_free(struct leat_lengths *lengths);

uint64_t leat_lengths_total(const struct leat_lengths *lengths); /* of a pass */
uint64_t leat_lengths_longest(const struct leat_lengths *lengths);
uint64_t leat_lengths_hash(const struct leat_lengths *lengths);

/* Tokens of a row of a pass; of all rows before it. */
uint64_t leat_lengths_at(const struct leat_source_order *order, uint64_t pass, uint64_t row);
uint64_t leat_lengths_before(const struct leat_source_order *order, uint64_t pass, uint64_t row);
/* The number of rows of a pass that have their middle at `twice` / 2 tokens or before. */
uint64_t leat_lengths_count(const struct leat_source_order *order, uint64_t pass, uint64_t twice);

#endif
