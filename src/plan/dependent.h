/*
 * Dependent sampling: an order of samples that has as many of them as possible at the same tick as orders that others
 * read already, and is as random as one drawn alone. dependent.c says how.
 */
#ifndef LEAT_PLAN_DEPENDENT_H
#define LEAT_PLAN_DEPENDENT_H

#include <stddef.h>
#include <stdint.h>

struct leat_error;

/* What another reader reads from tick `begin` on, one sample a tick: all that it has left of an epoch then, so that its
 * samples are also the set that the order was drawn from. */
struct leat_plan_run {
    const int64_t *ids; /* each once */
    uint64_t n, begin;
};

/* An order of `n` samples, each of them once, in `out`: one for each tick from 0 on. Given the runs up to any tick, and
 * the order before it, each of the samples left is as probable as any other at that tick, as long as this holds of the
 * runs. *shared (or NULL): at how many ticks some run has the same sample. A pure function of ids, key and runs.
 * Errors: INVALID (a sample that is negative or there twice; a run likewise, as far as it shows), RANGE (2^32 - 1
 * samples or more), NOMEM. */
int leat_plan_dependent(const int64_t *ids, uint64_t n, const struct leat_plan_run *runs, size_t n_runs, uint64_t key,
                        int64_t *out, uint64_t *shared, struct leat_error *error);

#endif
