/*
 * Batches by size: of samples of about one length, or whose costs have a bound.
 */
#ifndef LEAT_PLAN_GROUPS_H
#define LEAT_PLAN_GROUPS_H

#include <pthread.h>

#include "base/permute.h"
#include "plan/spec.h"

struct leat_groups_pass {
    bool set;
    uint64_t key;
    struct leat_permutation order; /* of the groups, if they are shuffled */
    uint64_t *sums;                /* rows before the group in each place; at the end, all */
};
struct leat_groups {
    pthread_rwlock_t lock; /* of `pass` and `oldest`; all else is fixed */
    bool shuffled;
    uint64_t samples, n_buckets, hash;
    uint64_t n, most_rows;           /* groups; the most rows of one */
    uint64_t weight;                 /* of the largest group: so many samples of mean size */
    uint32_t *sorted;                /* samples, group by group */
    uint32_t *begin;                 /* of each group among these; at the end, of none */
    struct leat_bucket *buckets;     /* those that have samples; NULL: best fit of costs */
    struct leat_groups_pass pass[2]; /* the second only if shuffled */
    unsigned oldest;
};
#define LEAT_GROUPS_MAX_WIDTHS 65536
#define LEAT_GROUPS_OWN_WIDTHS (8 * 64)
/* Errors: INVALID, RANGE (with the position of the sample), NOMEM. */
int leat_groups_new(const struct leat_group_spec *spec, uint64_t samples, bool shuffled, struct leat_groups **out,
                    struct leat_error *error);
void leat_groups_free(struct leat_groups *groups);
/* Rows of the groups [first, first + n) of the pass with this key: the first one's number, and how many. Any thread. */
void leat_groups_rows(struct leat_groups *groups, uint64_t key, uint64_t first, uint64_t n, uint64_t *begin,
                      uint64_t *rows);
/* Positions of the rows [row, row + n) of a pass. Any thread. */
void leat_groups_run(struct leat_groups *groups, uint64_t key, uint64_t row, size_t n, uint64_t *out);

#endif
