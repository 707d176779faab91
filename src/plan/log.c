/*
 * The log: entries in the order of their positions, the first at (0, 0). An entry says what changes; what then holds is
 * worked out for every entry when the log changes, so that readers only look up.
 *
 * Shares begin a phase: the row in the stream of all epochs at which they take effect, and how many rows each source had
 * given before it. A source's progress so goes on through a change of shares.
 *
 * Lists of positions may be large and are replaced every epoch; the last KEPT_LISTS stay in memory, older ones are known by
 * hash only.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "plan/internal.h"

#define KEPT_LISTS 4

void leat_entry_destroy(struct leat_entry *e)
{
    leat_free(e->sums);
    leat_free(e->base);
    leat_free(e->facts);
    leat_list_free(e->list);
}

void leat_log_free(struct leat_entry *log, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        leat_entry_destroy(&log[i]);
    leat_free(log);
}

const struct leat_entry *leat_log_entry(const struct leat_plan *plan, struct leat_position at)
{
    uint32_t low = 0, high = plan->n_log; /* log[low] holds at or before `at` */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (leat_position_before(at, plan->log[middle].at))
            high = middle;
        else
            low = middle;
    }
    return &plan->log[low];
}

static int resolve_shares(const struct leat_plan *plan, struct leat_entry *log, uint32_t i, uint32_t phase, struct leat_error *error)
{
    struct leat_entry *e = &log[i];
    unsigned __int128 stream = (unsigned __int128)e->at.epoch * plan->epoch_rows + e->at.row;
    if (stream > LEAT_PLAN_MAX_ROWS)
        return leat_fail(error, LEAT_E_RANGE, "epoch %llu lies beyond 2^63 rows: no run gets there", (unsigned long long)e->at.epoch);
    e->stream = (uint64_t)stream;
    for (uint32_t k = 0; k < plan->n_sources; k++)
        e->base[k] =
            i ? log[phase].base[k] + leat_shares_count(log[phase].sums, plan->n_sources, e->stream - log[phase].stream, k) : UINT64_C(0);
    return LEAT_OK;
}

int leat_log_resolve(const struct leat_plan *plan, struct leat_entry *log, uint32_t n, struct leat_error *error)
{
    for (uint32_t i = 0; i < n; i++) {
        struct leat_entry *e = &log[i];
        if (i)
            e->now = log[i - 1].now;
        if (e->global_batch)
            e->now.global_batch = e->global_batch;
        if (e->world_size)
            e->now.world_size = e->world_size;
        if (e->tail >= 0)
            e->now.tail = (enum leat_tail)e->tail;
        if (e->list)
            e->now.list = e->list;
        if (e->now.global_batch < e->now.world_size || e->now.global_batch > LEAT_PLAN_MAX_GLOBAL)
            return leat_fail(error, LEAT_E_INVALID,
                             "a global batch of %llu rows for %u ranks: it must have at least one row per rank and at most 2^40",
                             (unsigned long long)e->now.global_batch, e->now.world_size);
        if (e->sums) {
            int rc = resolve_shares(plan, log, i, e->now.phase, error);
            if (rc)
                return rc;
            e->now.phase = i;
        }
    }
    return LEAT_OK;
}

static void give_up_old_lists(struct leat_plan *plan)
{
    unsigned kept = 0;
    for (uint32_t i = plan->n_log; i-- > 1;)
        if (plan->log[i].list && ++kept > KEPT_LISTS) {
            leat_free(plan->log[i].list->positions);
            plan->log[i].list->positions = NULL;
        }
}

static int check_decision(const struct leat_plan *plan, const struct leat_decision *d, struct leat_position at, struct leat_error *error)
{
    const struct leat_position last = plan->log[plan->n_log - 1].at;
    if (!d->global_batch && !d->shares && !d->positions)
        return leat_fail(error, LEAT_E_INVALID, "a decision must change something: the global batch, the shares or the list of positions");
    if (leat_position_before(at, last))
        return leat_fail(error, LEAT_E_INVALID, "a decision at epoch %llu row %llu lies before an earlier one at epoch %llu row %llu",
                         (unsigned long long)at.epoch, (unsigned long long)at.row, (unsigned long long)last.epoch,
                         (unsigned long long)last.row);
    if (at.epoch >> 63 || at.row > leat_plan_epoch_rows(plan, at.epoch))
        return leat_fail(error, LEAT_E_RANGE, "a decision at row %llu of epoch %llu, which has %llu rows", (unsigned long long)at.row,
                         (unsigned long long)at.epoch, (unsigned long long)leat_plan_epoch_rows(plan, at.epoch));
    if (d->shares && plan->n_sources < 2)
        return leat_fail(error, LEAT_E_INVALID, "this plan has one source: there are no shares to change");
    if (d->positions && (plan->mixed || plan->sources->order != LEAT_ORDER_LIST))
        return leat_fail(error, LEAT_E_INVALID, "only the list of a single source in the order of a list can be replaced");
    if (d->positions && at.row)
        return leat_fail(error, LEAT_E_INVALID, "a new list holds from an epoch's start: row must be 0, not %llu",
                         (unsigned long long)at.row);
    if (plan->n_log >= LEAT_PLAN_MAX_LOG)
        return leat_fail(error, LEAT_E_RANGE, "the log has %u entries, the most that it may have: decide less often", plan->n_log);
    return LEAT_OK;
}

int leat_plan_decide(struct leat_plan *plan, const struct leat_decision *d, struct leat_error *error)
{
    struct leat_position at = d->at;
    struct leat_entry entry = {.kind = LEAT_ENTRY_DECIDE, .global_batch = d->global_batch, .tail = -1};
    struct leat_entry *log = NULL;
    uint64_t rows = at.epoch >> 63 ? 0 : leat_plan_epoch_rows(plan, at.epoch);
    if (rows && at.row == rows) /* after the last row is the next epoch's start */
        at = (struct leat_position){at.epoch + 1, 0};
    entry.at = at;
    int rc = check_decision(plan, d, at, error);
    if (rc)
        return rc;
    if (d->positions && (rc = leat_list_new(d->positions, d->n_positions, plan->sources->count, &entry.list, error)))
        return rc;
    if (d->shares) {
        entry.sums = leat_new_array(plan->n_sources + 1u, sizeof *entry.sums);
        entry.base = leat_new_array(plan->n_sources, sizeof *entry.base);
        if (!entry.sums || !entry.base) {
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory for %u shares", plan->n_sources);
            goto out;
        }
        rc = leat_shares_set(d->shares, plan->n_sources, entry.sums, error);
        if (rc)
            goto out;
    }
    log = leat_new_array(plan->n_log + 1u, sizeof *log);
    if (!log) {
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a log of %u entries", plan->n_log + 1u);
        goto out;
    }
    memcpy(log, plan->log, plan->n_log * sizeof *log);
    log[plan->n_log] = entry;
    rc = leat_log_resolve(plan, log, plan->n_log + 1u, error);
    if (rc)
        goto out;
    leat_free(plan->log);
    plan->log = log;
    plan->n_log++;
    give_up_old_lists(plan);
    return LEAT_OK;
out:
    leat_free(log);
    leat_entry_destroy(&entry);
    return rc;
}

uint64_t leat_plan_hash(const struct leat_plan *plan)
{
    uint64_t h = leat_key_mix(leat_key_mix(LEAT_PLAN_VERSION, plan->seed), plan->epoch_rows);
    for (uint32_t k = 0; k < plan->n_sources; k++) {
        const struct leat_source_order *o = &plan->sources[k];
        const uint64_t words[] = {
            o->order, o->count, o->rows, o->block_rows, o->replacement, o->weights ? o->weights->hash : 0, o->list ? o->list->hash : 0};
        h = leat_key_mix(h, leat_hash64(words, sizeof words));
    }
    for (uint32_t i = 0; i < plan->n_log; i++) {
        const struct leat_entry *e = &plan->log[i];
        const uint64_t words[] = {e->kind,
                                  e->at.epoch,
                                  e->at.row,
                                  e->global_batch,
                                  e->world_size,
                                  (uint64_t)(int64_t)e->tail,
                                  e->list ? e->list->hash : 0,
                                  e->list ? e->list->n + 1 : 0,
                                  e->sums ? leat_hash64(e->sums, (plan->n_sources + 1u) * sizeof *e->sums) : 0,
                                  e->facts ? leat_hash64(e->facts, strlen(e->facts)) : 0};
        h = leat_key_mix(h, leat_hash64(words, sizeof words));
    }
    return h;
}
