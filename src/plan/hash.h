/*
 * Hashes of a plan, by which ranks compare theirs.
 */
#ifndef LEAT_PLAN_HASH_H
#define LEAT_PLAN_HASH_H

#include "plan/internal.h"

/* A hash over seed, order and log, but not the rank: ranks compare it to see that they run the same plan. */
uint64_t leat_plan_hash(const struct leat_plan *plan);

/* A hash over seed and order alone: the same for any sizes and decisions. */
uint64_t leat_plan_order_hash(const struct leat_plan *plan);

/* A hash over the points of the schedule; over the log up to an entry. */
uint64_t leat_plan_schedule_hash(const struct leat_plan *plan);
uint64_t leat_plan_hash_until(const struct leat_plan *plan, uint32_t last);

#endif
