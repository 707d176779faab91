/*
 * Rows that cut no document, and batches whose costs have a bound.
 */
#ifndef LEAT_PLAN_BEST_FIT_H
#define LEAT_PLAN_BEST_FIT_H

#include "leat/leat.h"

/* Rows that cut no document: best_fit.c. Row k has the rest of documents [begin[k], begin[k + 1]) of the list when
 * pieces of a row's length are cut off, the longest first; or these samples, the costliest first. */
struct leat_bins {
    uint64_t n; /* rows */
    uint32_t *begin, *documents;
};
#define LEAT_BINS_MAX_LENGTH (UINT32_C(1) << 24)
/* Errors: INVALID, RANGE, NOMEM; `out` is then empty. */
int leat_bins_new(const uint32_t *lengths, uint64_t documents, uint64_t length, uint64_t seed, struct leat_bins *out,
                  struct leat_error *error);
/* Samples by their costs, in rows of at most `budget`, with at most `most` samples; 0: any number. A cost above the
 * budget has a row of its own. `seed` decides between samples of one cost; NULL: they come as they lie.
 * Errors: RANGE, NOMEM; `out` is then empty. */
#define LEAT_BINS_MAX_COST (UINT64_C(1) << 48)
int leat_bins_of_costs(const uint64_t *costs, uint64_t samples, uint64_t budget, uint64_t most, const uint64_t *seed,
                       struct leat_bins *out, struct leat_error *error);
void leat_bins_clear(struct leat_bins *bins);

#endif
