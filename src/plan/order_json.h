/*
 * The part of a state that says which order a plan was opened with.
 */
#ifndef LEAT_PLAN_ORDER_JSON_H
#define LEAT_PLAN_ORDER_JSON_H

#include "plan/internal.h"

struct json_t;
/* order_json.c: the opening of the plan. */
struct json_t *leat_order_json(const struct leat_plan *plan);
/* The number of samples in all sources of the order of a state. */
uint64_t leat_order_samples(const struct json_t *order);
/* Whether orders of few sources are the same but for the lengths of packed documents. */
bool leat_order_differs_in_lengths(const struct json_t *a, const struct json_t *b);

#endif
