/*
 * Which phase of a mixture holds at a position. Any thread may look up; forgetting and cutting exclude that.
 */
#ifndef LEAT_PLAN_TIMELINE_H
#define LEAT_PLAN_TIMELINE_H

#include "plan/log.h"

struct leat_timeline *leat_timeline_new(uint32_t n);
void leat_timeline_free(struct leat_timeline *timeline);
/* Gives up all phases; those that end behind a position, where shares change. */
void leat_timeline_forget(struct leat_timeline *timeline);
void leat_timeline_cut(const struct leat_plan *plan, struct leat_position at);
/* Makes the first phase of an epoch from begin->base, carry and stream at its start: those of earlier epochs are then
 * not needed. For a new timeline. False: it has no rows. */
bool leat_timeline_seed(const struct leat_plan *plan, const struct leat_entry *begin);
/* Sources of up to n rows from a position of the epoch on, and which row of which of their passes they are. Returns of
 * how many: those of one phase. */
size_t leat_timeline_run(const struct leat_plan *plan, struct leat_position at, size_t n, uint32_t *sources,
                         uint64_t *passes, uint64_t *indices);
/* Rows of an epoch whose sources end it. 0: it lies too far behind those that are known, or has none. */
uint64_t leat_timeline_epoch_rows(const struct leat_plan *plan, uint64_t epoch);
/* The rows that each source has given before a position (in the epoch, for one that does not repeat), its excess in
 * units of 2^-32 rows, and the number of rows. */
bool leat_timeline_counts(const struct leat_plan *plan, struct leat_position at, uint64_t *given, int64_t *carry,
                          uint64_t *stream);
/* Whether the row at a position can be found, in not too many steps. */
bool leat_timeline_gives(const struct leat_plan *plan, struct leat_position at);
/* The phase of a position: its first row, the rows that each source had given before it and its excess, and the sources
 * that were through. False: there is none. */
bool leat_timeline_begin(const struct leat_plan *plan, struct leat_position at, uint64_t *row, uint64_t *given,
                         int64_t *carry, bool *through);

#endif
