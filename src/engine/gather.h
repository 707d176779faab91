/*
 * The batches that a delivery out of order hands out: gather.c. The functions of struct leat_delivery: under the lock.
 */
#ifndef LEAT_ENGINE_GATHER_H
#define LEAT_ENGINE_GATHER_H

#include "engine/loader.h"

int leat_unordered_next(struct leat_consumer *consumer, struct leat_batch **out, struct leat_error *error);
bool leat_unordered_is_due(const struct leat_loader *loader);

#endif
