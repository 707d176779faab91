/*
 * Batches that are made apart from the window: side.c. Under the lock.
 */
#ifndef LEAT_ENGINE_SIDE_H
#define LEAT_ENGINE_SIDE_H

#include "engine/engine.h"

/* Begins to make a batch on the side of the window; `for_whom`, not NULL, is its owner. `numbers`: its rows, or NULL.
 * Errors: NOMEM, those of leat_loader_ask. */
int leat_side_begin(struct leat_loader *loader, const struct leat_plan_batch *plan, const uint64_t *numbers,
                    const void *for_whom, struct leat_batch **out, struct leat_error *error);
/* Hands a batch over to the caller. */
void leat_side_remove(struct leat_loader *loader, struct leat_batch *batch);
/* Makes a batch: this thread and any idle one. `numbers`: NULL, or the rows that it has. `part`: it is a part of one,
 * in which no row need be left. */
int leat_side_make(struct leat_loader *loader, const struct leat_plan_batch *plan, const uint64_t *numbers, bool part,
                   struct leat_batch **out, struct leat_error *error);
/* The ids of rows [first, first + n) of a planned batch; the plan must not change meanwhile. */
int leat_side_ids(const struct leat_loader *loader, const struct leat_plan_batch *plan, uint64_t first, uint64_t n,
                  int64_t *ids, struct leat_error *error);
/* Cancels an owner's batches before a position. */
void leat_side_cancel(struct leat_loader *loader, const void *for_whom, struct leat_position before);

/* RANGE, of a step that leat_plan_step_is_folded. */
int leat_loader_fail_folded(uint64_t epoch, uint64_t step, struct leat_error *error);

#endif
