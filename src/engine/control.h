/*
 * Changes of the plan of a loader while it runs: control.c. Under the lock, unless said otherwise.
 */
#ifndef LEAT_ENGINE_CONTROL_H
#define LEAT_ENGINE_CONTROL_H

#include "engine/loader.h"

/* Keeps tasks from starting, and waits for those that run. Then the plan may be changed. */
void leat_loader_pause(struct leat_loader *loader);
void leat_loader_unpause(struct leat_loader *loader);
/* The step of the batch at a position; 0 if there is none. */
uint64_t leat_loader_step_at(const struct leat_loader *loader, struct leat_position at);
/* The list of an epoch of such a loader, later than those that it has. Without the lock. NOMEM. */
int leat_loader_give_list(struct leat_loader *loader, uint64_t epoch, const int64_t *list, uint64_t n,
                          struct leat_error *error);

#endif
