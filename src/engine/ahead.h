/*
 * Values that sources compute, of several batches of the window in one call: ahead.c. A loader asks so if a source says
 * that a call costs much beside a value (`asks_many` of format/source.h).
 */
#ifndef LEAT_ENGINE_AHEAD_H
#define LEAT_ENGINE_AHEAD_H

#include <stdbool.h>

struct leat_batch;
struct leat_error;
struct leat_loader;
struct leat_task;

/* All of these: under the lock, unless said otherwise. */

/* Whether the values of the loader's next batches are computed before these get their memory. */
bool leat_ahead_is_wanted(struct leat_loader *loader);
/* The task, which is to size a batch of the window, has the values of batches behind it computed, too; further ones are
 * planned for that, also if a consumer does the work. Without memory it has not. */
void leat_ahead_take(struct leat_task *task);
/* Computes them, and lets go of the batches behind the task's own. If a sample fails, all batches of its call are left
 * without its values, and ask for themselves. LEAT_OK, or CANCELLED: the call was interrupted. Without the lock. */
int leat_ahead_compute(struct leat_task *task, struct leat_error *error);

#endif
