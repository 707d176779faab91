/*
 * Sizes of batches, and a rank's part of each: arithmetic that knows no plan.
 */
#ifndef LEAT_PLAN_CUT_H
#define LEAT_PLAN_CUT_H

#include "plan/spec.h"

/* The sizes of a reader that has the rows of a plan in batches of its own: global batches from row `origin` of an epoch
 * on, at which step `first_step` begins. */
struct leat_cut {
    uint64_t global_batch; /* above 0 */
    uint32_t rank, world_size;
    enum leat_tail tail;
    uint64_t origin, first_step;
};

/* One batch of one rank. Rows [begin, begin + rows) of the global order, padding included. */
struct leat_plan_batch {
    uint64_t epoch, step;
    struct leat_position at;   /* the global batch's first row */
    struct leat_position next; /* after the global batch; row = epoch's rows at its end */
    uint64_t global_rows;      /* real rows of the global batch */
    uint64_t begin, rows;      /* this rank's */
    bool last;                 /* of the epoch */
};

/* The batch of a step, as leat_plan_batch has those of the plan. LEAT_E_END: there is none. */
int leat_cut_batch(const struct leat_cut *cut, uint64_t epoch, uint64_t epoch_rows, uint64_t step,
                   struct leat_plan_batch *out);
/* The number of steps of its rank, those before the origin included. */
uint64_t leat_cut_steps(const struct leat_cut *cut, uint64_t epoch_rows);

/* A rank's part of a batch of `real` rows: all rows counted from its first one, padding included. */
void leat_cut_part(const struct leat_cut *cut, uint64_t real, uint64_t *begin, uint64_t *rows);

#endif
