/*
 * Results of varying length, until they are in place: results.c.
 */
#ifndef LEAT_ENGINE_RESULTS_H
#define LEAT_ENGINE_RESULTS_H

#include "engine/batch.h"

/* Makes room for them. False: NOMEM. Under the lock. */
bool leat_batch_expect_results(struct leat_batch *batch);
/* Sums their lengths, of the segment that is done, and counts their bytes. Under the lock. */
void leat_batch_sum_results(struct leat_batch *batch);
/* Puts those of rows [first, first + n) in place. Without the lock. */
void leat_batch_place_results(struct leat_batch *batch, uint64_t first, uint64_t n);
/* Gives them up. Under the lock. */
void leat_batch_drop_results(struct leat_batch *batch);

#endif
