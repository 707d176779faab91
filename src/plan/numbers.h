/*
 * Numbers in a state, one for each source, and what is said of a text that is no state.
 */
#ifndef LEAT_PLAN_NUMBERS_H
#define LEAT_PLAN_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "leat/leat.h"

struct json_t;
/* Not `packed`: always an array, as few sources have it anyway. */
struct json_t *leat_numbers_json(const int64_t *numbers, uint32_t n, bool packed);
/* Freed with leat_free. Errors: INVALID (they are not that: leat_not_a_state with `what`), NOMEM. */
int leat_numbers_read(const struct json_t *value, uint32_t n, const char *what, int64_t **out,
                      struct leat_error *error);
/* Whether so many sources are few. */
bool leat_numbers_listed(uint32_t n);

/* LEAT_E_INVALID, with what is wrong with a text that should be a state. */
int leat_not_a_state(struct leat_error *error, const char *what);
int leat_no_memory_for_state(struct leat_error *error);

#endif
