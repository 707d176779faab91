/*
 * The input of a loader: a data set, or the sources of a mixture joined to one.
 */
#ifndef LEAT_ENGINE_SOURCES_H
#define LEAT_ENGINE_SOURCES_H

#include "engine/loader.h"

struct leat_sources {
    const struct leat_mix_source *at;
    uint32_t n;
    const struct leat_mix_options *mix; /* NULL: one data set */
    struct leat_order_spec order;       /* of each */
};

/* Whether shares are finite, not negative and sum to 1. Errors: INVALID. */
int leat_shares_check(const double *shares, uint32_t n, struct leat_error *error);
/* Errors: INVALID, TYPE. */
int leat_sources_check(const struct leat_sources *sources, struct leat_error *error);
/* The data set that jobs read. Errors: those of leat_dataset_join. */
int leat_sources_join(const struct leat_sources *sources, struct leat_dataset **out, struct leat_error *error);
/* The rules by which rows of each source are cut from documents, into `context`: none if they are samples. Errors:
 * those of leat_packing_open, INVALID if rows of two sources are not alike. */
int leat_sources_cut(const struct leat_sources *sources, struct leat_job_context *context, struct leat_error *error);
/* The plan over them. Errors: those of leat_plan_new and of reading lengths. */
int leat_sources_plan(const struct leat_sources *sources, struct leat_loader *loader,
                      const struct leat_loader_options *options, struct leat_error *error);

#endif
