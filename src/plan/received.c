/*
 * The rows of an epoch that one rank has received out of order, as part of a state (docs/order.md). The bitmap counts
 * the rank's rows from its batch at the frontier on, across the borders of batches:
 *
 *     batch at the frontier      |  the next      |  the one after
 *     1 1 0 1 1 1 1 0            |  1 1 1 1 1 0 1 1  |  1 1 1              8 + 8 rows received: `row` is two batches on
 *
 * It ends with the last row received. Reading trusts nothing: as many bits must be set as batches of this plan up to
 * `row` have rows.
 */
#include "plan/received.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "plan/geometry.h"
#include "plan/list.h"
#include "plan/log.h"
#include "plan/numbers.h"

static uint32_t world_at(const struct leat_plan *p, struct leat_position at)
{
    return leat_log_entry(p, at)->now.world_size;
}

json_t *leat_received_json(const struct leat_plan *p, struct leat_position at,
                           const struct leat_plan_received *received)
{
    char *bits = leat_to_base64(received->bits, (received->n_bits + 7) / 8);
    json_t *o =
        json_pack("{s:I, s:I, s:I, s:I, s:s}", "rank", (json_int_t)p->rank, "world_size", (json_int_t)world_at(p, at),
                  "row", (json_int_t)received->row, "n", (json_int_t)received->n_bits, "bits", bits);
    leat_free(bits);
    return o;
}

static bool bit(const struct leat_plan_received *r, uint64_t i)
{
    return i < r->n_bits && (r->bits[i / 8] >> (i % 8) & 1);
}

static bool read_bits(const char *text, struct leat_plan_received *out)
{
    uint8_t bytes[sizeof out->bits + 3];
    uint64_t n = 0;
    if (!text || strlen(text) > (sizeof out->bits + 2) / 3 * 4 || !leat_from_base64(text, bytes, &n) ||
        n != (out->n_bits + 7) / 8)
        return false;
    memcpy(out->bits, bytes, n);
    return !(out->n_bits % 8) || !(out->bits[n - 1] >> (out->n_bits % 8));
}

/* As many bits are set as whole batches have rows, each belongs to a row, and the batch at the frontier lacks one. */
static int check_bits(const struct leat_plan *p, struct leat_position at, const struct leat_plan_received *r,
                      struct leat_error *error)
{
    uint64_t set = 0, rows = 0, due = 0, first = UINT64_MAX;
    struct leat_plan_batch batch = {.last = false};
    bool reached = at.row == r->row;
    for (uint64_t i = 0; i < r->n_bits; i++)
        set += bit(r, i);
    while (!batch.last && rows <= r->n_bits && (!reached || rows < r->n_bits || first == UINT64_MAX)) {
        if (leat_plan_batch(p, at, &batch))
            break;
        rows += batch.rows;
        due += reached ? 0 : batch.rows;
        first = first == UINT64_MAX ? batch.rows : first;
        at = batch.next;
        reached = reached || (at.row == r->row && !batch.last);
    }
    if (!reached || set != due || rows < r->n_bits)
        return leat_not_a_state(
            error, "the bits of the rows received out of order do not come to whole batches of this order");
    for (uint64_t i = 0; i < first; i++)
        if (!bit(r, i))
            return LEAT_OK;
    return leat_not_a_state(error, "the first batch of the rows received out of order is complete");
}

int leat_received_read(const struct leat_plan *p, const json_t *value, struct leat_position at,
                       struct leat_plan_received *out, struct leat_error *error)
{
    json_int_t rank, world, row, n;
    const char *bits = NULL;
    memset(out, 0, sizeof *out);
    const bool good = !json_unpack((json_t *)value, "{s:I, s:I, s:I, s:I, s:s}", "rank", &rank, "world_size", &world,
                                   "row", &row, "n", &n, "bits", &bits) &&
                      row >= 0 && n >= 0 && n <= LEAT_PLAN_MAX_BITS;
    out->row = good ? (uint64_t)row : 0;
    out->n_bits = good ? (uint64_t)n : 0;
    if (!good || !read_bits(bits, out))
        return leat_not_a_state(error, "a part of what was received out of order is missing or out of range");
    if (rank != p->rank || world != world_at(p, at))
        return leat_fail(error, LEAT_E_STATE,
                         "the state was taken by rank %lld of %lld"
                         " within an epoch whose rows came out of order, and this is rank %u: load the state of the "
                         "same rank on each, or "
                         "one taken at an epoch's end",
                         (long long)rank, (long long)world, p->rank);
    return check_bits(p, at, out, error);
}
