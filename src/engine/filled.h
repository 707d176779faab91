/*
 * Values that follow from the batch of a sample, too (`fill` of format/source.h): which batch that is, and outputs that
 * their source writes: filled.c.
 */
#ifndef LEAT_ENGINE_FILLED_H
#define LEAT_ENGINE_FILLED_H

struct leat_job;

/* Finds the samples of the global batch of a job whose context follows batches: all between the first and the last, or
 * else each. An error is the job's. */
int leat_job_find_batch(struct leat_job *job);
/* Has the source write the values of fields that are filled, for all rows of the chunk; what fails is the job's error.
 */
void leat_job_fill(struct leat_job *job);

#endif
