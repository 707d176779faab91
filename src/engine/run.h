/*
 * The work of a task: run.c. Without the lock.
 */
#ifndef LEAT_ENGINE_RUN_H
#define LEAT_ENGINE_RUN_H

#include "engine/task.h"

/* Runs a task until it is done, or has to wait. */
void leat_task_run(struct leat_task *task);
/* Points its job at the rows and the memory of a batch. */
void leat_task_aim(struct leat_task *task, struct leat_batch *batch);
/* Runs the task's job. False: it goes on later, with the event that the task waits for. */
bool leat_task_make_rows(struct leat_task *task);

#endif
