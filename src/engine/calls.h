/*
 * The rows of a task on their way through functions: calls.c. Without the lock.
 */
#ifndef LEAT_ENGINE_CALLS_H
#define LEAT_ENGINE_CALLS_H

#include "engine/task.h"

/* Begins with the rows of the task's job. False: NOMEM. */
bool leat_calls_begin(struct leat_task *task);
/* Goes on. False: the task waits for the executor, or for its job's event. */
bool leat_calls_run(struct leat_task *task);
/* The job's run is the task's again. */
void leat_calls_end(struct leat_task *task);
bool leat_calls_in_flight(const struct leat_task *task);
/* Tells the executor, once, that its results are not wanted. Not under a lock; by the owner of the task. */
void leat_calls_cancel(struct leat_task *task);
void leat_calls_free(struct leat_calls *calls); /* NULL is allowed */

#endif
