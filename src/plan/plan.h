/*
 * The plan: the samples of each batch, as a pure function of (counts, seed, log, position). No I/O, no threads, no
 * clock, no state but the log. docs/order.md defines its results.
 *
 * A position is (epoch, row in the global order). The log is a list of decisions, each holding from a position; its
 * first entry, at (0, 0), is the opening of the loader. `step` counts global batches since the epoch's start, through
 * the log.
 */
#ifndef LEAT_PLAN_PLAN_H
#define LEAT_PLAN_PLAN_H

#include "plan/decide.h"
#include "plan/geometry.h"
#include "plan/hash.h"
#include "plan/list.h"
#include "plan/rows.h"
#include "plan/state.h"

struct leat_plan; /* any thread may read; leat_plan_decide excludes readers */

/* Arrays in the specification are copied. Errors: INVALID, RANGE, NOMEM. */
int leat_plan_new(const struct leat_plan_spec *spec, struct leat_plan **out, struct leat_error *error);
void leat_plan_free(struct leat_plan *plan);

#endif
