/*
 * What a loader can do beyond leat/leat.h, for tests and for what is built on it later: several sources, and decisions
 * while batches are in flight.
 */
#ifndef LEAT_ENGINE_LOADER_H
#define LEAT_ENGINE_LOADER_H

#include "leat/leat.h"
#include "plan/plan.h"

struct leat_loader_source {
    struct leat_dataset *dataset; /* retained */
    double share;
    struct leat_order_spec order;
};

/* As leat_loader_open, over several data sets of one schema; of `options`, the order and its arrays are ignored. Sample
 * ids are those of the concatenation of the sources. epoch_rows: as in leat_plan_spec. */
int leat_loader_open_sources(const struct leat_loader_source *sources, uint32_t n, uint64_t epoch_rows,
                             const struct leat_loader_options *options, struct leat_loader **out,
                             struct leat_error *error);

/* Enters a decision into the log. With `at_next` it holds from the first batch not yet handed out, and decision->at is
 * ignored. Batches in flight beyond its position are cancelled and planned again. Errors: INVALID (a position already
 * handed out), those of leat_plan_decide. */
int leat_loader_decide(struct leat_loader *loader, const struct leat_decision *decision, bool at_next,
                       struct leat_error *error);

/* What is called, without any lock, when the last reference to a buffer is gone and before its memory is used again; it
 * may wait, for a copy to a device for instance. */
void leat_buffer_on_release(struct leat_buffer *buffer, void (*release)(void *user), void *user);

#endif
