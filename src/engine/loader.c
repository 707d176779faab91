/*
 * The loader: it composes the parts. Events come from threads (a task is done, a read is complete), from the consumer
 * (the next batch, a batch given back) and from changes of the plan (control.c); each notes the work that is due, and
 * leat_loader_settle does it.
 */
#include "engine/loader.h"
#include "engine/follow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/kept.h"
#include "engine/reserve.h"
#include "engine/run.h"
#include "engine/task.h"

#define RECENT_NS INT64_C(1000000000)

/* ---- settling -------------------------------------------------------------------------------- */

void leat_loader_settle(struct leat_loader *l)
{
    if (l->window.n_sized)
        leat_window_assign(l);
    leat_follow(l);
    if (l->tasks.starved)
        leat_task_feed(l);
    if (l->callers.waiting &&
        ((l->due & LEAT_DUE_WAKE) || l->closed || (l->client.paused && !l->tasks.running) || l->delivery->is_due(l)))
        pthread_cond_broadcast(&l->callers.changed);
    if ((l->due & LEAT_DUE_WORK) && !l->closed)
        leat_client_activate(&l->client);
    l->due = 0;
}

bool leat_loader_wait(struct leat_loader *l, int64_t deadline_ns)
{
    l->callers.waiting++;
    bool in_time = leat_condition_wait(&l->callers.changed, deadline_ns);
    l->callers.waiting--;
    return in_time;
}

/* ---- memory ---------------------------------------------------------------------------------- */

bool leat_loader_evict_others(const struct leat_loader *for_whom, uint64_t bytes)
{
    bool coming = false;
    for (struct leat_client *c = leat_scheduler.clients; c && !leat_ledger_fits(bytes); c = c->next) {
        struct leat_loader *l = leat_loader_of(c);
        if (l == for_whom || l->callers.waiting)
            continue;
        if (l->window.n || l->kept) {
            leat_kept_drop_all(l);
            leat_window_cancel(l, 0);
            l->window.full = true;
            leat_region_trim(&l->pool.region);
            leat_loader_settle(l);
        }
        coming |= !leat_tasks_are_done(&l->tasks);
    }
    return coming;
}

bool leat_loader_evict(struct leat_loader *l, const struct leat_batch *keep)
{
    if (leat_kept_evict(l) || leat_consumers_evict(l))
        return true;
    size_t n = l->window.n;
    if (n < 2 || leat_window_at(&l->window, n - 1) == keep)
        return false;
    leat_window_cancel(l, n - 1);
    return true;
}

int leat_loader_ask(struct leat_loader *l, enum leat_account account, uint64_t bytes, uint64_t own,
                    struct leat_error *error)
{
    enum leat_answer answer = leat_budget_ask(&l->budget, account, bytes);
    while (answer == LEAT_WAIT && leat_kept_evict(l))
        answer = leat_budget_ask(&l->budget, account, bytes);
    bool window = account == LEAT_IN_FLIGHT, in_flight = window && l->budget.used[LEAT_IN_FLIGHT] > own;
    bool coming = false;
    /* Many reads had waited at once, each in a task of its own. */
    if (answer == LEAT_WAIT && window && leat_budget_has_many_tasks(&l->budget, bytes) && leat_task_drop_resting(l))
        answer = leat_budget_ask(&l->budget, account, bytes);
    /* Batches kept for consumers that are behind do not hold up the one ahead. */
    while (answer == LEAT_WAIT && window && leat_consumers_lead(l) == l->window.n && leat_consumers_evict(l))
        answer = leat_budget_ask(&l->budget, account, bytes);
    if (answer == LEAT_WAIT && !in_flight && !leat_ledger_fits(bytes)) {
        coming = leat_loader_evict_others(l, bytes) && window;
        answer = leat_budget_ask(&l->budget, account, bytes);
    }
    if (answer == LEAT_YES)
        return LEAT_OK;
    /* Batches that are in flight, or tasks of batches that were given up, will be done, those of others too. */
    if (answer == LEAT_WAIT &&
        (in_flight || coming || (window && leat_ledger_fits(bytes) && !leat_tasks_are_done(&l->tasks))))
        return LEAT_E_HELD;
    return leat_budget_refuse(&l->budget, account, bytes, error);
}

int leat_loader_allocate(struct leat_loader *l, struct leat_batch *b, struct leat_error *error)
{
    int rc = leat_loader_ask(l, b->account, leat_batch_buffer_bytes(b), b->meta + b->bytes, error);
    if (rc)
        return rc;
    leat_kept_lend_pages(l, b);
    rc = leat_batch_allocate(b, error);
    while (rc == LEAT_E_HELD && leat_kept_evict(l))
        rc = leat_batch_allocate(b, error);
    return rc;
}

/* ---- handing out ----------------------------------------------------------------------------- */

static void count_recent(struct leat_loader *l, int64_t now, uint64_t rows, uint64_t bytes)
{
    if (now - l->pace.recent_ns[1] > RECENT_NS) { /* two buckets: the one before, and the one that is filled */
        l->pace.recent_ns[0] = l->pace.recent_ns[1];
        l->pace.recent_samples[0] = l->pace.recent_samples[1];
        l->pace.recent_bytes[0] = l->pace.recent_bytes[1];
        l->pace.recent_ns[1] = now;
        l->pace.recent_samples[1] = l->pace.recent_bytes[1] = 0;
    }
    l->pace.recent_samples[1] += rows;
    l->pace.recent_bytes[1] += bytes;
}

void leat_loader_put_out(struct leat_loader *l, struct leat_batch *b)
{
    leat_batch_put_out(b);
    for (size_t i = 0; i < b->faults.n_broken; i++)
        *(b->faults.broken[i].delivered < 0 ? &l->count.skipped : &l->count.substituted) += !b->faults.broken[i].told;
}

int leat_loader_check_held(struct leat_loader *l, const struct leat_batch *b, struct leat_error *error)
{
    uint64_t held = l->budget.used[LEAT_HELD];
    if (held + b->bytes + b->meta <= l->budget.max_held)
        return LEAT_OK;
    return leat_fail(error, LEAT_E_HELD,
                     "%" PRIu64 " batches are held (%" PRIu64 " bytes), and one more of %" PRIu64
                     " bytes would pass max_held_bytes = %" PRIu64
                     "; let go of some, copy what is to be kept, or raise max_held_bytes",
                     leat_batch_pool_held_batches(&l->pool), held, b->bytes + b->meta, l->budget.max_held);
}

/* A batch whose every row was left out is no batch: its first error is raised. */
bool leat_batch_fail_if_empty(struct leat_batch *b)
{
    if (b->rows || !b->faults.n_broken)
        return false;
    char ids[160] = "";
    size_t used = 0, k = 0;
    for (; k < b->faults.n_broken && used + 32 < sizeof ids; k++)
        used +=
            (size_t)snprintf(ids + used, sizeof ids - used, "%s%" PRId64, k ? ", " : "", b->faults.broken[k].planned);
    leat_fail(&b->faults.failure, b->faults.broken[0].code,
              "no row of the batch is left, and on_error=\"skip\" cannot leave out a whole batch: open the loader with "
              "on_error=\"substitute\" or another batch_size, or over "
              "ds.select(np.flatnonzero(~np.isin(ds.ids, [%s%s]))); the first error: %s",
              ids, k < b->faults.n_broken ? ", ..." : "", b->faults.broken[0].reason);
    leat_error_at_sample(&b->faults.failure, b->faults.broken[0].planned, NULL);
    atomic_store_explicit(&b->faults.failed_row, b->faults.broken[0].row, memory_order_relaxed);
    b->state = LEAT_BATCH_FAILED;
    return true;
}

void leat_loader_count_raised(struct leat_loader *l, const struct leat_plan_batch *plan, uint64_t row)
{
    const struct leat_position end = {plan->epoch, plan->begin + row + 1};
    if (row != UINT64_MAX) {
        if (l->delivery->numbers_rows ? leat_position_is(l->report.raised_to, end)
                                      : !leat_position_precedes(l->report.raised_to, end))
            return;
        l->report.raised_to = end;
    }
    l->report.raised_step = plan->step;
    l->count.raised++;
}

int leat_loader_raise(struct leat_loader *l, struct leat_batch *b, struct leat_error *error)
{
    int rc = b->faults.failure.code ? b->faults.failure.code : LEAT_E_NOMEM;
    if (error)
        *error = b->faults.failure;
    if (rc != LEAT_E_CANCELLED)
        leat_loader_count_raised(l, &b->plan, atomic_load_explicit(&b->faults.failed_row, memory_order_relaxed));
    /* Its values may have other lengths the next time, the inputs of functions are gone, or it failed before it had
     * memory. */
    if (l->ragged || l->executor || l->pool.late || !b->bytes) {
        leat_batch_release(b);
        b->state = LEAT_BATCH_SIZING;
    } else {
        b->state = LEAT_BATCH_FILLING;
    }
    leat_batch_rewind(b);
    return rc;
}

void leat_loader_count(struct leat_loader *l, const struct leat_batch *b)
{
    const uint64_t bytes = b->tensor_bytes;
    int64_t now = leat_clock_ns();
    l->count.batches++;
    l->count.samples += b->rows;
    l->count.bytes += bytes;
    l->count.last_samples = b->rows;
    l->count.last_bytes = bytes;
    l->pace.last_next_ns = now;
    count_recent(l, now, b->rows, bytes);
    leat_page_update(l, now);
    leat_window_drained(l, leat_window_is_cheap(l, b->plan.rows));
}

/* ---- the next batch -------------------------------------------------------------------------- */

int leat_loader_check_process(const struct leat_loader *l, struct leat_error *error)
{
    if (leat_batch_pool_is_ours(&l->pool))
        return LEAT_OK;
    return leat_fail(
        error, LEAT_E_FORKED,
        "this loader belongs to the process that opened it; open another one in the child (data sets may be shared)");
}

int leat_loader_check_rows(const struct leat_loader *l, uint64_t rows, struct leat_error *error)
{
    if (rows <= 1 || !leat_program_has_single_rows(l->program))
        return LEAT_OK;
    return leat_fail(error, LEAT_E_INVALID,
                     "images of open size come in batches of one row, not of %" PRIu64
                     ": ask for a list of them with leat.Out(fields, chain, stack=\"list\"), or for padding with "
                     "stack=\"pad\", or bring them to one size",
                     rows);
}

int leat_loader_enter(const struct leat_loader *l, struct leat_error *error)
{
    int rc = leat_loader_check_process(l, error);
    if (rc)
        return rc;
    leat_engine_lock();
    if (!l->closed && !leat_scheduler.stopping)
        return LEAT_OK;
    leat_engine_unlock();
    return leat_fail(error, LEAT_E_CLOSED, l->closed ? "the loader is closed" : "the process is ending");
}

void leat_loader_leave(struct leat_loader *l)
{
    l->callers.in_next--;
    leat_loader_settle(l);
    leat_engine_unlock();
}

bool leat_loader_help(struct leat_loader *l)
{
    const struct leat_client *c = &l->client;
    if (!l->delivery->helped &&
        !l->side) /* out of order: the row that it took could be the slow one, which nobody waits for */
        return false;
    if (l->callers.helping || (c->working >= c->max_threads && !l->one_core))
        return false;
    struct leat_task *task = leat_task_take(l, false);
    if (!task)
        return false;
    l->count.helped_tasks++;
    l->callers.helping = true;
    leat_engine_unlock();
    leat_task_run(task);
    leat_engine_lock();
    l->callers.helping = false;
    leat_task_finish(task);
    return true;
}

int leat_loader_plan_first(struct leat_loader *l, struct leat_error *error)
{
    struct leat_window *w = &l->window;
    while (!w->n) {
        if (w->plan_at.epoch > l->consumer.reader.epoch)
            return LEAT_E_END;
        int rc = l->delivery->plan(l, error);
        if (rc) /* HELD without a text: memory comes back without the consumer */
            return rc == LEAT_E_HELD && error->code != LEAT_E_HELD ? LEAT_IO_PENDING : rc;
    }
    return leat_window_at(w, 0)->plan.epoch > l->consumer.reader.epoch ? LEAT_E_END : LEAT_OK;
}
