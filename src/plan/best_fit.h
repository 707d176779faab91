/*
 * Rows that cut no document.
 */
#ifndef LEAT_PLAN_BEST_FIT_H
#define LEAT_PLAN_BEST_FIT_H

#include "leat/leat.h"

/* Rows that cut no document: best_fit.c. Row k has the rest of documents [begin[k], begin[k + 1]) of the list when
 * pieces of a row's length are cut off, the longest first. */
struct leat_bins {
    uint64_t n; /* rows */
    uint32_t *begin, *documents;
};
#define LEAT_BINS_MAX_LENGTH (UINT32_C(1) << 24)
/* Errors: INVALID, RANGE, NOMEM; `out` is then empty. */
int leat_bins_new(const uint32_t *lengths, uint64_t documents, uint64_t length, uint64_t seed, struct leat_bins *out,
                  struct leat_error *error);
void leat_bins_clear(struct leat_bins *bins);

#endif
