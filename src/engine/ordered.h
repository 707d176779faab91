/*
 * Delivery in order: ordered.c.
 */
#ifndef LEAT_ENGINE_ORDERED_H
#define LEAT_ENGINE_ORDERED_H

#include "engine/loader.h"

extern const struct leat_delivery leat_delivery_in_order;

/* LEAT_E_BUDGET: the next batch of a consumer takes more planned batches than a window holds. Under the lock. */
int leat_consumer_check(struct leat_consumer *consumer, struct leat_error *error);

#endif
