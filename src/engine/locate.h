/*
 * The rows and values of a chunk of a job: locate.c.
 */
#ifndef LEAT_ENGINE_LOCATE_H
#define LEAT_ENGINE_LOCATE_H

#include "engine/job.h"

/* The next rows of the run as the plan names them, and their samples. An error is that of row *failed of the batch: it
 * cannot be planned any more. */
int leat_job_plan(struct leat_job *job, uint64_t first, uint64_t left, uint64_t *failed);
/* Row i gets its next substitute. False: there is none. */
bool leat_job_plan_substitute(struct leat_job *job, size_t i);
/* Finds how the job gets each value of a field, for rows [i, i + n), and where. An error is that of row *failed. */
int leat_job_locate(struct leat_job *job, const struct leat_feed *feed, size_t i, size_t n, size_t *failed);
/* Values of rows [i, i + n) that sources compute: job->error, and row *failed that is to blame, i + n: not known. */
int leat_job_compute(struct leat_job *job, size_t i, size_t n, size_t *failed);
/* Releases the values computed for the chunk. */
void leat_job_drop_made(struct leat_job *job);
/* The way the job gets the values of the other samples of rows [i, i + n). An error is that of row *failed. */
int leat_job_locate_others(struct leat_job *job, size_t i, size_t n, size_t *failed);
/* Sums of the steps of ragged outputs, of bounded ones the most that they can be: offsets[o][i + 1] for row i of the
 * batch, if offsets[o] is not NULL. READS and SLEEPS: it is to be called again. Values that a source computes for that
 * are left in `made`, which was initialised for context->n_made and the rows, or is NULL. */
enum leat_job_status leat_job_size_rows(struct leat_job *job, int64_t *const *offsets, struct leat_values *made);

#endif
