/*
 * Rows that are made elsewhere, by other processes or machines, for a loader without order (in_order false): the caller
 * chooses which rows each batch has, as they arrive, and the loader keeps the position. Such a loader has a program
 * without outputs, so it reads nothing itself.
 */
#ifndef LEAT_ELSEWHERE_H
#define LEAT_ELSEWHERE_H

#include "leat/leat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows first to first + n - 1 of this rank's part of a planned batch. */
struct leat_row_run {
    uint64_t step, first, n;
};

/* The rows of planned batch `*step` of the running epoch that were not received, as `*n` runs in order, freed with
 * leat_free; none: NULL. A step before the earliest batch that lacks a row becomes that one. Any thread. Errors: END
 * (the epoch has no such step, or has ended), INVALID (a loader with in_order), CLOSED, FORKED, NOMEM. */
LEAT_API int leat_loader_left(struct leat_loader *loader, uint64_t *step, struct leat_row_run **runs, uint64_t *n,
                              struct leat_error *error);

/* The next batch that leat_loader_next gives has these rows, in the order of the plan; a later call before it replaces
 * them. They are as many as a batch in order would have there: those of a full batch, or of the epoch's last one.
 * `*step` becomes that of the batch.
 *
 * From the first call on the loader chooses no rows itself: without a call before it, leat_loader_next is INVALID. Any
 * thread. Errors: INVALID (a loader with in_order or log_dir; runs that do not rise; rows that were received, or are so
 * far from the earliest missing one that a state could not say so; another number of rows), RANGE (no such rows),
 * CLOSED, FORKED, NOMEM. */
LEAT_API int leat_loader_choose(struct leat_loader *loader, const struct leat_row_run *runs, uint64_t n, uint64_t *step,
                                struct leat_error *error);

#ifdef __cplusplus
}
#endif

#endif
