/* Reading a loader for others: the place of a row in the plan, and batches of rows that are not the plan's own. */
#include "engine/served.h"

#include <inttypes.h>

#include "base/error.h"
#include "engine/open.h"
#include "engine/side.h"

int leat_served_check(const struct leat_loader *l, struct leat_error *error)
{
    const char *why = NULL;
    if (l->pool.region.fd < 0)
        why = "its memory is private: open it with region 1";
    else if (l->pool.region.stepwise || l->pool.region.file_limited)
        why = "its memory cannot be reserved at once: addresses or files of this process are limited (ulimit -v, -f)";
    else if (l->delivery->numbers_rows)
        why = "those who attach share one order of rows: open it with in_order";
    else if (l->input.lists_later && !l->input.listed)
        why = "the order of its epochs is not known before they begin";
    else if (leat_plan_group_rows(l->plan))
        why = "batches that are made by size are not served";
    else if (leat_program_varies(l->program))
        why = "it draws a size per batch, and those who attach have batches of their own";
    return why ? leat_fail(error, LEAT_E_INVALID, "this loader cannot be served: %s", why) : LEAT_OK;
}

static int no_epoch(uint64_t epoch, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_RANGE,
                     "epoch %" PRIu64 " has no rows, or decisions made since gave up what it needs", epoch);
}

/* Whether its list is there, if epochs have lists. */
static bool is_listed(const struct leat_loader *l, uint64_t epoch)
{
    return !l->input.lists_later || (int64_t)epoch <= l->input.list_epoch;
}

int leat_served_epoch_rows(struct leat_loader *l, uint64_t epoch, uint64_t *rows, struct leat_error *error)
{
    int rc = epoch >> 63 ? no_epoch(epoch, error) : leat_loader_enter(l, error);
    if (rc)
        return rc;
    *rows = is_listed(l, epoch) ? leat_plan_epoch_rows(l->plan, epoch) : 0;
    leat_engine_unlock();
    return *rows ? LEAT_OK : no_epoch(epoch, error);
}

int leat_served_find(struct leat_loader *l, struct leat_position row, struct leat_plan_batch *out,
                     struct leat_error *error)
{
    struct leat_position at;
    int rc = leat_loader_enter(l, error);
    if (rc)
        return rc;
    rc = is_listed(l, row.epoch) ? leat_plan_find(l->plan, row, &at) : LEAT_E_RANGE;
    rc = rc ? rc : leat_plan_batch(l->plan, at, out);
    leat_engine_unlock();
    if (!rc && !out->rows)
        return leat_fail(error, LEAT_E_RANGE,
                         "row %" PRIu64 " of epoch %" PRIu64 " is in a batch that this rank has no rows of", row.row,
                         row.epoch);
    return !rc                ? LEAT_OK
           : rc == LEAT_E_END ? leat_fail(error, rc, "epoch %" PRIu64 " has no row %" PRIu64, row.epoch, row.row)
                              : no_epoch(row.epoch, error);
}

struct leat_position leat_served_after(struct leat_loader *l, const struct leat_plan_batch *plan)
{
    struct leat_plan_batch next = {0};
    struct leat_error error;
    if (!plan->last && l->input.world_size > 1 && !leat_loader_enter(l, &error)) {
        const bool missed = !leat_plan_batch(l->plan, plan->next, &next) && !next.rows;
        leat_engine_unlock();
        if (missed) /* only the last one of an epoch is so small */
            return (struct leat_position){plan->epoch + 1, 0};
    }
    return plan->last ? (struct leat_position){plan->epoch + 1, 0} : plan->next;
}

int leat_served_seek(struct leat_loader *l, struct leat_position at, uint64_t *iteration, struct leat_error *error)
{
    int rc = leat_loader_enter(l, error);
    if (rc)
        return rc;
    leat_consumer_stand(&l->consumer, at);
    leat_reader_load(&l->consumer.reader);
    leat_engine_unlock();
    return leat_loader_start(l, iteration, error);
}

void leat_served_end(struct leat_loader *l)
{
    leat_engine_lock();
    leat_loader_halt(l);
    l->pool.region.stays = true;
    leat_engine_unlock();
}

int leat_served_lend(struct leat_loader *l, uint64_t bytes, struct leat_buffer **out, struct leat_error *error)
{
    int rc = leat_loader_enter(l, error);
    if (rc)
        return rc;
    rc = leat_batch_pool_lend(&l->pool, bytes, out, error);
    leat_engine_unlock();
    return rc;
}

void leat_served_look(struct leat_loader *l, struct leat_served *out)
{
    leat_engine_lock();
    *out = (struct leat_served){.batch_rows = leat_plan_global_batch(l->plan),
                                .batch_bytes = l->window.estimate,
                                .max_held = l->budget.max_held,
                                .at = leat_consumer_received(&l->consumer)};
    leat_engine_unlock();
}
