/*
 * Batches that are made apart from the window: side.c. Under the lock, unless said otherwise.
 */
#ifndef LEAT_ENGINE_SIDE_H
#define LEAT_ENGINE_SIDE_H

#include "engine/loader.h"

/* Begins to make a batch on the side of the window; `for_whom`, not NULL, is its owner. `numbers`: its rows, or NULL.
 * Errors: NOMEM, those of leat_loader_ask. */
int leat_side_begin(struct leat_loader *loader, const struct leat_plan_batch *plan, const uint64_t *numbers,
                    const void *for_whom, struct leat_batch **out, struct leat_error *error);
/* Hands a batch over to the caller. */
void leat_side_remove(struct leat_loader *loader, struct leat_batch *batch);
/* Cancels an owner's batches before a position. */
void leat_side_cancel(struct leat_loader *loader, const void *for_whom, struct leat_position before);

/* ---- without the lock ------------------------------------------------------------------------ */

/* Makes a batch of some rows of the plan: this thread and any idle one. `numbers`: NULL, or the rows that it has.
 * `part`: it is a part of one, in which no row need be left. */
int leat_side_make(struct leat_loader *loader, const struct leat_plan_batch *plan, const uint64_t *numbers, bool part,
                   struct leat_batch **out, struct leat_error *error);
/* Ids, sources, and positions in these, of rows [begin, begin + n) of a planned batch. NULL: they are not wanted.
 * RANGE: decisions made since gave up what the epoch needs. */
struct leat_planned_rows {
    int64_t *ids;
    int32_t *domains;
    int64_t *positions;
};
int leat_side_planned(const struct leat_loader *loader, const struct leat_plan_batch *plan, uint64_t begin, uint64_t n,
                      struct leat_planned_rows to, struct leat_error *error);

/* RANGE, of a step that leat_plan_step_is_folded. */
int leat_loader_fail_folded(uint64_t epoch, uint64_t step, struct leat_error *error);

#endif
