/*
 * Batches of a plan: from positions to rows of the global order. It asks the timeline how long an epoch of a mixture
 * is.
 */
#ifndef LEAT_PLAN_GEOMETRY_H
#define LEAT_PLAN_GEOMETRY_H

#include "plan/cut.h"

struct leat_plan;
/* Rows of a pass of a source. */
uint64_t leat_plan_source_rows(const struct leat_plan *plan, uint32_t source);
uint64_t leat_plan_epoch_rows(const struct leat_plan *plan, uint64_t epoch);
/* Global batches of an epoch, and those of this rank (fewer with LEAT_TAIL_UNEVEN). */
uint64_t leat_plan_steps(const struct leat_plan *plan, uint64_t epoch);
uint64_t leat_plan_rank_steps(const struct leat_plan *plan, uint64_t epoch);

/* The batch that begins at `at`, the start of a global batch (else LEAT_E_INVALID). LEAT_E_END: the epoch ends there.
 * LEAT_E_RANGE: past 2^63 rows, or an epoch whose list was released or whose decisions were folded. `rows` is 0 if
 * LEAT_TAIL_UNEVEN leaves this rank without a batch. */
int leat_plan_batch(const struct leat_plan *plan, struct leat_position at, struct leat_plan_batch *out);
/* For a plan of groups, else 0: the most rows of one, and the most elements as a share of those of all samples, in rows
 * of the mean length. */
uint64_t leat_plan_group_rows(const struct leat_plan *plan);
uint64_t leat_plan_group_weight(const struct leat_plan *plan);
/* Rows of a global batch under the last decision of the log. */
uint64_t leat_plan_global_batch(const struct leat_plan *plan);
/* The position of step `step`. LEAT_E_RANGE if the epoch has fewer, or the step lies before folded decisions. */
int leat_plan_seek(const struct leat_plan *plan, uint64_t epoch, uint64_t step, struct leat_position *out);
/* The position of the global batch that a row of an epoch is in. LEAT_E_END: the epoch has fewer rows; LEAT_E_RANGE: it
 * has none, or decisions were folded that it needs. */
int leat_plan_find(const struct leat_plan *plan, struct leat_position row, struct leat_position *out);
/* Whether a step lies before folded decisions: it can be planned only with the whole log. */
bool leat_plan_step_is_folded(const struct leat_plan *plan, uint64_t epoch, uint64_t step);
/* The unit of positions of an epoch: rows, or groups. */
uint64_t leat_plan_epoch_units(const struct leat_plan *plan, uint64_t epoch);
/* Rows of an epoch that padding repeats: all that come before its first decision about shares, if later ones are
 * folded. */
uint64_t leat_plan_repeated_rows(const struct leat_plan *plan, uint64_t epoch);

#endif
