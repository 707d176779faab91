/*
 * Memory of tasks beyond the usual: reserve.c. Under the lock, unless said otherwise.
 */
#ifndef LEAT_ENGINE_RESERVE_H
#define LEAT_ENGINE_RESERVE_H

#include "engine/task.h"

/* Makes the task's buffer at least `bytes` large, its content lost, and sees that the budget has room for `decoding`
 * bytes. LEAT_IO_PENDING: the task is to let go and to ask again when it goes on. Errors: BUDGET, CANCELLED, NOMEM. */
int leat_task_reserve(struct leat_task *task, uint64_t bytes, uint64_t decoding, struct leat_error *error);
/* leat_job.result_room: memory that stays with the task's batch. Errors as above. */
int leat_task_result_room(struct leat_job *job, size_t output, uint64_t row, uint64_t bytes, void **memory,
                          struct leat_error *error);
/* Gives back the memory that the row at hand needed beyond the usual. Without the lock. */
void leat_task_relax(struct leat_task *task);
/* Puts a task aside until there is memory. */
void leat_task_starve(struct leat_task *task);
/* There may be memory again: tasks that can have it, or whose batch was cancelled, go on. */
void leat_task_feed(struct leat_loader *loader);
/* Whether the budget has room for one more task: many may be waiting for reads. */
bool leat_task_may_grow(const struct leat_loader *loader);
/* Releases memory of tasks at rest that a few threads do not need. False: there was none. */
bool leat_task_drop_resting(struct leat_loader *loader);

#endif
