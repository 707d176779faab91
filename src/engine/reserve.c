/*
 * Memory for values that are larger than the room set aside for tasks when the loader opened: the read buffer of a long
 * value, and the memory of decoding a large photo.
 *
 *     budget_bytes >= fixed + max(reserved, used[TASKS]) + used[IN_FLIGHT]           (budget.h)
 *
 * If a task asks for more than that leaves, memory is freed for it in this order:
 *
 *     1. batches go that are kept for consumers that are behind, then those that were prefetched behind the task's own,
 *        the last one first: they are planned again later;
 *     2. tasks of the pool lose their buffers, and those beyond what the threads need are freed;
 *     3. the task waits in `starved`, without a thread, until a batch is handed out or another task is done.
 *
 * If nothing runs and the task's batch is the first one, no memory will be freed: the value is larger than the budget
 * allows, which is an error. Once its rows are made, a task gives back the excess over the usual.
 */
#include "engine/reserve.h"

#include <inttypes.h>
#include <malloc.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/results.h"
#include "engine/task.h"

/* glibc keeps freed memory, for each thread as much as its largest piece was: with the coefficients of a progressive
 * photo, which libjpeg gets from malloc, more than the budget. Asked for after large values only, as it takes a
 * millisecond. */
static void trim_heap(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

static bool fits_in(const struct leat_loader *l, enum leat_account account, uint64_t more)
{
    return leat_budget_ask(&l->budget, account, more) == LEAT_YES;
}

static bool fits(const struct leat_loader *l, uint64_t more)
{
    return fits_in(l, LEAT_TASKS, more);
}

bool leat_task_may_grow(const struct leat_loader *l)
{
    return l->tasks.free || fits(l, leat_task_size(l) + l->tasks.usual_room) || leat_tasks_are_done(&l->tasks);
}

/* Pages that batches left behind must not stay resident once tasks have taken their place. */
static void tell_region(struct leat_loader *l)
{
    uint64_t above =
        l->budget.used[LEAT_TASKS] > l->budget.reserved ? l->budget.used[LEAT_TASKS] - l->budget.reserved : 0;
    leat_region_set_limit(&l->pool.region, l->bounds.region_limit > above ? l->bounds.region_limit - above : 0);
}

static bool is_cancelled(const struct leat_task *t)
{
    return atomic_load_explicit(&t->batch->cancelled, memory_order_relaxed);
}

/* Whether the consumer can get nothing before this task's batch. */
static bool is_first(const struct leat_task *t)
{
    const struct leat_loader *l = t->loader;
    size_t lead = leat_consumers_lead(l);
    return t->batch->account == LEAT_HELD || (lead < l->window.n && t->batch == leat_window_at(&l->window, lead));
}

static void drop_buffer(struct leat_task *t)
{
    leat_budget_give(&t->loader->budget, LEAT_TASKS, t->room);
    leat_free(t->buffer);
    t->buffer = NULL;
    t->room = 0;
}

bool leat_task_drop_resting(struct leat_loader *l)
{
    uint64_t before = l->budget.used[LEAT_TASKS];
    unsigned kept = 0;
    for (struct leat_task **p = &l->tasks.free, *t; (t = *p);) {
        if (t->room)
            drop_buffer(t);
        if (++kept <=
            l->client.max_threads + 2) { /* as many as threads may want at once: they must not fail to get one */
            p = &t->next;
            continue;
        }
        *p = t->next;
        leat_budget_give(&l->budget, LEAT_TASKS, leat_task_size(l));
        leat_task_destroy(t);
    }
    return l->budget.used[LEAT_TASKS] < before;
}

/* LEAT_OK: there is place for `more` bytes, and they are booked. LEAT_IO_PENDING: not now. */
static int book(struct leat_task *t, enum leat_account account, uint64_t more, struct leat_error *error)
{
    struct leat_loader *l = t->loader;
    while (!fits_in(l, account, more)) {
        if (is_cancelled(t))
            return leat_fail(error, LEAT_E_CANCELLED, "its batch was cancelled");
        if (!leat_loader_evict(l, t->batch) && !leat_task_drop_resting(l))
            break;
    }
    if (fits_in(l, account, more)) {
        leat_budget_take(&l->budget, account, more);
        tell_region(l);
        return LEAT_OK;
    }
    if (account == LEAT_HELD)
        return leat_budget_refuse(&l->budget, account, more, error);
    if (!is_first(t) || l->tasks.running > 1 || l->tasks.parked || l->tasks.resumed) {
        t->outcome = LEAT_TASK_STARVES;
        t->wanted = more;
        t->wanted_in = account;
        return LEAT_IO_PENDING;
    }
    return leat_fail(error, LEAT_E_BUDGET,
                     "a value that needs %" PRIu64
                     " bytes to be read and decoded does not fit into budget_bytes = %" PRIu64
                     " beside its batch and scratch; raise it to at least %" PRIu64,
                     more, l->budget.limit,
                     l->budget.fixed + l->budget.used[LEAT_TASKS] + more + l->budget.used[LEAT_IN_FLIGHT] +
                         l->budget.reserved); /* with the usual room of other tasks */
}

int leat_task_reserve(struct leat_task *t, uint64_t bytes, uint64_t decoding, struct leat_error *error)
{
    struct leat_loader *l = t->loader;
    if (bytes <= t->room && decoding <= t->decoding)
        return LEAT_OK;
    leat_engine_lock();
    if (bytes > l->budget.limit || decoding > l->budget.limit) {
        int never =
            leat_fail(error, LEAT_E_BUDGET,
                      "a value of %" PRIu64 " bytes that takes %" PRIu64
                      " bytes to decode does not fit into budget_bytes = %" PRIu64 "; raise it to at least %" PRIu64,
                      bytes, decoding, l->budget.limit,
                      l->budget.fixed + l->window.estimate + l->budget.reserved + leat_region_round(bytes) + decoding);
        leat_engine_unlock();
        return never;
    }
    bool grows = bytes > t->room;
    uint64_t wanted = decoding > t->decoding ? decoding - t->decoding : 0, room = t->room;
    if (grows) {
        drop_buffer(t);
        room = leat_region_round(bytes + bytes / 4); /* so that a slightly longer one needs nothing new */
        if (l->budget.used[LEAT_TASKS] + room > l->budget.reserved)
            room = leat_region_round(bytes);
        wanted += room;
    }
    int rc = book(t, LEAT_TASKS, wanted, error);
    if (rc == LEAT_OK && decoding > t->decoding)
        t->decoding = decoding;
    leat_engine_unlock();
    if (rc || !grows)
        return rc;
    t->buffer = leat_alloc(room);
    if (t->buffer) {
        t->room = room;
        return LEAT_OK;
    }
    leat_engine_lock();
    leat_budget_give(&l->budget, LEAT_TASKS, room);
    leat_engine_unlock();
    return leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %" PRIu64 " bytes", bytes);
}

int leat_task_result_room(struct leat_job *j, size_t output, uint64_t row, uint64_t bytes, void **memory,
                          struct leat_error *error)
{
    struct leat_task *t = j->user;
    struct leat_batch *b = t->batch;
    leat_engine_lock();
    int rc = leat_batch_expect_results(b) ? LEAT_OK : LEAT_E_NOMEM;
    const struct leat_computed *has = rc ? NULL : &b->calls.results->at[output * b->calls.results->n_samples + row];
    if (has && has->bytes == bytes && has->data) { /* it was begun before */
        *memory = (void *)(uintptr_t)has->data;
        leat_engine_unlock();
        return LEAT_OK;
    }
    uint64_t all = rc ? 0 : b->calls.results->bytes + bytes + LEAT_VALUES_SPARE;
    uint64_t more = all > b->calls.result_bytes ? all - b->calls.result_bytes : 0;
    if (!rc && more && !(rc = book(t, b->account, more, error))) {
        b->calls.result_bytes += more;
        b->meta += more;
    }
    if (!rc && !(*memory = leat_values_room(b->calls.results, output, row, bytes)))
        rc = LEAT_E_NOMEM;
    leat_engine_unlock();
    return rc == LEAT_E_NOMEM ? leat_fail(error, rc, "no memory for an image of %" PRIu64 " bytes", bytes) : rc;
}

void leat_task_relax(struct leat_task *t)
{
    struct leat_loader *l = t->loader;
    const struct leat_job *j = &t->job;
    /* Requests lie in the buffer, too. */
    uint64_t usual =
        j->window.together ? 2 * l->job.fly_bytes + l->job.chunk * l->job.n_slots * sizeof j->window.one : 0;
    usual = usual > l->tasks.usual_room ? usual : l->tasks.usual_room;
    if (!t->decoding && t->room <= usual)
        return;
    uint64_t room = t->room > usual ? t->room : 0;
    if (room) {
        leat_free(t->buffer);
        t->buffer = NULL;
        t->room = 0;
    }
    trim_heap();
    leat_engine_lock();
    leat_budget_give(&l->budget, LEAT_TASKS, t->decoding + room);
    t->decoding = 0;
    tell_region(l);
    leat_loader_settle(l);
    leat_engine_unlock();
}

void leat_task_feed(struct leat_loader *l)
{
    struct leat_task *waiting = l->tasks.starved;
    l->tasks.starved = NULL;
    for (struct leat_task *t, **p = &l->tasks.starved; (t = waiting);) {
        waiting = t->next;
        if (l->closed || is_cancelled(t) || fits_in(l, t->wanted_in, t->wanted)) {
            leat_task_resume(t);
        } else {
            t->next = NULL;
            *p = t;
            p = &t->next;
        }
    }
    if (l->tasks.running || l->tasks.parked || l->tasks.resumed)
        return;
    for (struct leat_task *t, **p = &l->tasks.starved; (t = *p); p = &t->next)
        if (is_first(t)) { /* nothing runs that could give memory back: it goes on, to say so if need be */
            *p = t->next;
            leat_task_resume(t);
            return;
        }
}

void leat_task_starve(struct leat_task *t)
{
    t->state = LEAT_TASK_STARVED;
    t->next = t->loader->tasks.starved;
    t->loader->tasks.starved = t;
}
