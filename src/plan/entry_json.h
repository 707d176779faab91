/*
 * Entries of the log as JSON, and back. Reading trusts nothing.
 */
#ifndef LEAT_PLAN_ENTRY_JSON_H
#define LEAT_PLAN_ENTRY_JSON_H

#include "plan/log.h"

struct json_t;
/* `packed`: as a state has it, in which numbers of many sources take little room. `room`: bytes that lists may have
 * yet; others have only their hash. NULL: no memory. */
struct json_t *leat_entry_json(const struct leat_plan *plan, const struct leat_entry *entry, bool packed,
                               uint64_t *room);
/* `first`: of its log. Errors: INVALID, STATE (a list that is not known), NOMEM; the entry is then to be destroyed. */
int leat_entry_read(const struct leat_plan *plan, const struct json_t *object, bool first, struct leat_entry *out,
                    struct leat_error *error);

/* The rows that each source of a mixture had given as an epoch began: `base`, `carry` and `stream` of an entry whose
 * `at` is known. NULL: no memory, or the epoch has none. */
struct json_t *leat_begin_json(const struct leat_plan *plan, uint64_t epoch);
int leat_begin_read(const struct leat_plan *plan, const struct json_t *object, struct leat_entry *out,
                    struct leat_error *error);

#endif
