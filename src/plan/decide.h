/*
 * Decisions: entries of the log are made here, and folded.
 */
#ifndef LEAT_PLAN_DECIDE_H
#define LEAT_PLAN_DECIDE_H

#include "plan/spec.h"

struct leat_plan;
struct leat_entry;
/* Decisions. Each holds from `at`, which must not lie before an earlier entry's. */
struct leat_decision {
    struct leat_position at;
    uint64_t global_batch; /* 0: unchanged */
    const double *shares;  /* one per source, or NULL: unchanged */
    const int64_t
        *positions; /* a list (of the rest of the epoch of `at`, and of later ones), or NULL: unchanged, unless */
    uint64_t n_positions;
    bool unlisted; /* ... no list holds any more, and the order is that of the opening */
    bool selects;  /* not the rows as they are, but the samples that the order is one of; not WEIGHTED */
    /* The run needs nothing before this position any more, so that old entries may be folded and old lists be released.
     * {0, 0}: none are. */
    struct leat_position done;
};
/* Errors: INVALID, RANGE, NOMEM; the plan is then unchanged. If `at` lies within a batch, that batch is cut short. */
int leat_plan_decide(struct leat_plan *plan, const struct leat_decision *decision, struct leat_error *error);

/* Makes one entry of entries 1 to `last`. Its list is borrowed from an entry, or NULL. Errors: NOMEM. */
int leat_log_fold(const struct leat_plan *plan, uint32_t last, struct leat_entry *out);
/* The last entry up to `last` up to which the log can be folded. If epochs end by their sources, that is not one that
 * ended its own epoch, or whose row a further decision may be for, which might end it: the end of an epoch follows from
 * the shares before. Nor is it one of `epoch` or a later one behind a decision on rows within that. */
uint32_t leat_log_foldable(const struct leat_plan *plan, uint32_t last, uint64_t epoch);
/* Folds the entries 1 to `last`. If memory runs out, the log stays as it is, which is correct and only longer. */
void leat_log_fold_up_to(struct leat_plan *plan, uint32_t last);

#endif
