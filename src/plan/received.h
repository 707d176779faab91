/*
 * The part of a state that says which rows were received out of order.
 */
#ifndef LEAT_PLAN_RECEIVED_H
#define LEAT_PLAN_RECEIVED_H

#include "plan/internal.h"

/* The rows of an epoch that one rank has received out of order. The state's position is then the frontier: the first
 * batch of which this rank lacks a row. Bit i (of byte i / 8, the lowest first) is the i-th of this rank's rows from
 * that batch's first one on. As many bits are set as this rank's batches from the frontier to `row` have rows. */
#define LEAT_PLAN_MAX_BITS 65536 /* 8 KiB: a state stays small; no row is delivered so far beyond the frontier */
struct leat_plan_received {
    uint64_t row; /* the start of the planned batch that gives the next one handed out its number and size */
    uint64_t n_bits;
    uint8_t bits[LEAT_PLAN_MAX_BITS / 8]; /* zero after n_bits */
};

struct json_t;
/* received.c: the part of a state about rows received out of order. `value` is the result of leat_received_json.
 * Errors: those of leat_plan_load. */
struct json_t *leat_received_json(const struct leat_plan *plan, struct leat_position at,
                                  const struct leat_plan_received *received);
int leat_received_read(const struct leat_plan *plan, const struct json_t *value, struct leat_position at,
                       struct leat_plan_received *out, struct leat_error *error);

#endif
