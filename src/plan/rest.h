/*
 * Decisions on rows that hold from within an epoch: rest.c.
 */
#ifndef LEAT_PLAN_REST_H
#define LEAT_PLAN_REST_H

#include "plan/log.h"

#define LEAT_PLAN_MAX_RESTS 256      /* decisions on rows within an epoch: a state has all of them */
#define LEAT_PLAN_MAX_REST_EPOCHS 16 /* epochs to come that have such ones: all rows of each are in memory */

/* Those of the epoch of `at`, if from there on `decided` holds (NULL: the plan's opening). Errors: INVALID (nothing is
 * left), RANGE (earlier rows are not known), NOMEM. */
int leat_rest_new(const struct leat_plan *plan, struct leat_position at, const struct leat_list *decided,
                  struct leat_rest **out, struct leat_error *error);
/* Takes them over, in the place of those that the epoch had. */
void leat_rest_set(struct leat_plan *plan, struct leat_rest *rest);
/* Makes those of `epoch` and later ones from the log. Errors: as above. */
int leat_rest_load(struct leat_plan *plan, uint64_t epoch, struct leat_error *error);
/* Frees those of epochs before this one, or NULL. */
void leat_rest_forget(struct leat_plan *plan, uint64_t epoch);
void leat_rest_free(struct leat_rest *rest);
/* Whether another epoch may have such ones: `from` is the first that the run still needs. */
bool leat_rest_has_room(const struct leat_plan *plan, uint64_t from, uint64_t epoch);

#endif
