/*
 * The division of the rows of a phase among sources whose rows vary in length, by shares of tokens. Counts in units of
 * 2^-32 rows there are in units of 2^-32 tokens here. Any thread; each call excludes the others.
 */
#ifndef LEAT_PLAN_FAIR_H
#define LEAT_PLAN_FAIR_H

#include "plan/mixture.h"
#include "plan/order.h"

struct leat_fair;
/* Sets *out and the lengths of n sources, which stay the caller's, as does the memory of both if it fails; *most_rows:
 * of the stream. Errors: INVALID, RANGE, NOMEM. */
int leat_fair_new(struct leat_source_order *sources, uint32_t n, const struct leat_plan_source *from,
                  struct leat_fair **out, uint64_t *most_rows, struct leat_error *error);
void leat_fair_free(struct leat_fair *fair);

/* For a phase whose position and counts are known: its further needs. */
void leat_fair_begin(struct leat_fair *fair, struct leat_division *d);
/* Sources of n rows of a phase from the first-th on, and which row of which of their passes they are. Returns how many
 * there are. */
size_t leat_fair_run(struct leat_fair *fair, const struct leat_division *d, uint64_t first, size_t n, uint32_t *sources,
                     uint64_t *passes, uint64_t *rows);
/* The number of the first i rows that come from each source, and the tokens of these. Returns the tokens of all. */
uint64_t leat_fair_counts(struct leat_fair *fair, const struct leat_division *d, uint64_t i, uint64_t *counts,
                          uint64_t *tokens);
/* The number of rows of the phase before the first one that a source cannot give, and that source, or n: each has so
 * many left, UINT64_MAX for any number. */
uint64_t leat_fair_end(struct leat_fair *fair, const struct leat_division *d, const uint64_t *left, uint32_t *ends);
/* Rows until each source with a share has given so many in the epoch as a pass has. 0: each has. */
uint64_t leat_fair_rows_to_read_all(struct leat_fair *fair, const struct leat_division *d);

#endif
