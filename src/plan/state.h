/*
 * The log and a position as text, and back. It knows all of the plan.
 */
#ifndef LEAT_PLAN_STATE_H
#define LEAT_PLAN_STATE_H

#include "plan/received.h"

/* Entries of the log from the first-th on, as leat_loader_log. Errors: NOMEM. */
int leat_plan_log(const struct leat_plan *plan, uint64_t first, char **json, struct leat_error *error);

/* A saved state as JSON text, freed with leat_free: versions, fingerprint, seed, position, log. It holds the hashes of
 * lists of positions and of weights. Only LIST decisions made after opening are in it (base64), if they fit 64 KiB.
 * `received` NULL: no rows out of order. */
int leat_plan_state(const struct leat_plan *plan, const uint8_t fingerprint[16], struct leat_position at,
                    const struct leat_plan_received *received, char **json, struct leat_error *error);
/* Checks a state against this plan and data set, takes over its log, with an entry for sizes or ranks that differ now,
 * and returns the position. `received` NULL: a state with rows received out of order is refused; else *found says
 * whether it has any, and its rank and sizes must then be those of this plan. `at` NULL: the state is checked alone,
 * and the plan stays as it is. LEAT_E_STATE names the difference; LEAT_E_INVALID: not a state. */
int leat_plan_load(struct leat_plan *plan, const uint8_t fingerprint[16], const char *json, struct leat_position *at,
                   struct leat_plan_received *received, bool *found, struct leat_error *error);

/* A list for the next leat_plan_load, if a state has its hash alone; copied. It is no part of the plan until a state
 * with it is loaded. Errors: RANGE (a negative position), NOMEM. */
int leat_plan_know_list(struct leat_plan *plan, const int64_t *positions, uint64_t n, struct leat_error *error);
void leat_plan_forget_lists(struct leat_plan *plan);

#endif
