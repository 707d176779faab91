/*
 * Numbers in a state, one for each source.
 */
#ifndef LEAT_PLAN_NUMBERS_H
#define LEAT_PLAN_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

struct json_t;
struct json_t *leat_numbers_json(const int64_t *numbers, uint32_t n, bool packed);
/* INVALID: they are not that. NOMEM. */
int leat_numbers_read(const struct json_t *value, uint32_t n, int64_t *out);
/* Whether so many sources are few. */
bool leat_numbers_listed(uint32_t n);

#endif
