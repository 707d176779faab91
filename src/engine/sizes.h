/* The lengths of the rows of a batch, before it gets its memory: sizes.c. */
#ifndef LEAT_ENGINE_SIZES_H
#define LEAT_ENGINE_SIZES_H

#include "engine/context.h"

struct leat_job;

/* Sums of the steps of ragged outputs, of bounded ones the most that they can be: offsets[o][i + 1] for row i of the
 * batch, if offsets[o] is not NULL. READS and SLEEPS: it is to be called again. Values that a source computes for that
 * are left in `made`, which was initialised for context->n_made and the rows, or is NULL. */
enum leat_job_status leat_job_size_rows(struct leat_job *job, int64_t *const *offsets, struct leat_values *made);

#endif
