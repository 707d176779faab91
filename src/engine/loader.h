/*
 * What a loader can do beyond leat/leat.h, for tests and for what is built on it later: several sources.
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

#endif
