/*
 * Taking tasks and booking them. The length of a run follows from the measured cost of a row: some 100 us, so that
 * taking a task (a microsecond) vanishes beside it, and one row if a row costs more than that.
 */
#include "engine/task.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/ahead.h"
#include "engine/calls.h"
#include "engine/executor.h"
#include "engine/fetch.h"
#include "engine/kept.h"
#include "engine/open.h"
#include "engine/reserve.h"
#include "engine/results.h"

#define TARGET_NS 100000.0
#define LEAST_NS 20000.0 /* a run is not cut shorter than this to keep threads busy at the end of a batch */
#define CALM_TASKS 64    /* as many whose reads were complete at once: they will be */
#define SNAPSHOT_NS 200000

uint64_t leat_task_size(const struct leat_loader *l)
{
    return leat_align64(sizeof(struct leat_task)) + leat_job_size(&l->job) + l->job.made_bytes + 64;
}

/* The read of a task is complete: called by the thread that completed it, on any thread, without the lock. */
static void read_done(struct leat_io_request *request, void *user)
{
    struct leat_span *span = user;
    struct leat_task *t = span->job->user;
    leat_engine_lock();
    leat_reads_arrived(span); /* the task's thread may use the span for another read now; it ends under the lock */
    leat_task_arrived_unlock(t);
}

struct leat_task *leat_task_new(struct leat_loader *l)
{
    struct leat_task *t = l->tasks.free;
    if (t) {
        l->tasks.free = t->next;
        t->next = NULL;
        return t;
    }
    uint8_t *block = leat_alloc(leat_task_size(l) - l->job.made_bytes); /* values come and go */
    if (!block)
        return NULL;
    t = (struct leat_task *)(void *)block;
    memset(t, 0, sizeof *t);
    t->loader = l;
    block += leat_align64(sizeof *t);
    leat_job_init(&t->job, &l->job, block + (-(uintptr_t)block & 63));
    t->job.read_done = read_done;
    t->job.result_room = leat_task_result_room;
    t->job.user = t;
    leat_budget_take(&l->budget, LEAT_TASKS, leat_task_size(l));
    return t;
}

static void recycle(struct leat_task *t)
{
    t->batch = NULL;
    t->state = LEAT_TASK_FREE;
    t->next = t->loader->tasks.free;
    t->loader->tasks.free = t;
    if (t->loader->tasks.short_of)
        t->loader->due |= LEAT_DUE_WORK;
}

void leat_task_destroy(struct leat_task *t)
{
    leat_job_destroy(&t->job);
    leat_calls_free(t->calls);
    leat_free(t->buffer);
    leat_free(t);
}

/* ---- taking ---------------------------------------------------------------------------------- */

static uint64_t run_length(const struct leat_loader *l, const struct leat_batch *b)
{
    uint64_t left = b->plan.rows - b->taken;
    if (b->calls.segment || b->calls.placing) {
        uint64_t each = b->apart.loose && !b->calls.placing ? l->executor->run(l->executor) : left;
        return each < left ? each : left;
    }
    if (l->tasks.pends)
        return left < l->job.fly_rows ? left : l->job.fly_rows;
    double rows = TARGET_NS / l->tasks.ns_per_row;
    if (l->callers.waiting && l->client.max_threads > 1) { /* somebody waits for this batch: share the rest of it */
        double share = (double)left / l->client.max_threads, least = LEAST_NS / l->tasks.ns_per_row;
        share = share > least ? share : least;
        rows = rows < share ? rows : share;
    }
    uint64_t n = rows < 1 ? 1 : rows >= (double)left ? left : (uint64_t)rows;
    return left - n < n / 2 ? left : n;
}

static struct leat_batch *batch_with_work(struct leat_loader *l, bool ahead)
{
    for (struct leat_batch *b = l->side; b; b = b->next)
        if (leat_batch_has_work(b))
            return b;
    bool started = false;
    for (const struct leat_consumer *c = &l->consumer; c; c = c->next)
        started |= c->reader.started;
    if (ahead && l->tasks.pends && l->tasks.in_flight >= l->tasks.most_in_flight)
        return NULL;
    size_t n = l->delivery->helped;
    n = ahead || l->consumer.next || l->window.n < n ? l->window.n : n;
    for (size_t i = 0; i < n; i++)
        if (leat_batch_has_work(leat_window_at(&l->window, i)))
            return leat_window_at(&l->window, i);
    if (!ahead || l->window.full || !started || l->tasks.starved)
        return NULL;
    int rc = l->delivery->plan(l, NULL);
    if (rc == LEAT_OK)
        return leat_window_at(&l->window, l->window.n - 1);
    /* errors come again, with their text, when the consumer asks and nothing is in flight */
    l->window.full = rc != LEAT_E_END;
    return NULL;
}

static void begin(struct leat_task *t)
{
    struct leat_loader *l = t->loader;
    t->ns = 0;
    t->state = LEAT_TASK_RUNNING;
    t->estimate_ns =
        t->batch->calls.segment || t->batch->calls.placing || t->kept ? 0 : l->tasks.ns_per_row * (double)t->job.n;
    leat_client_charge(&l->client, t->estimate_ns);
    t->work = l->tasks.free_work;
    if (t->work)
        l->tasks.free_work = t->work->next;
    l->tasks.running++;
}

/* Sets aside the rest of the budget's share for reads in flight that batches leave, before another batch is planned. */
static void take_share(struct leat_loader *l)
{
    struct leat_tasks *t = &l->tasks;
    if (t->share == t->wanted_share)
        return;
    uint64_t more = leat_budget_reserve(&l->budget, t->wanted_share - t->share);
    t->share += more;
}

struct leat_task *leat_task_take(struct leat_loader *l, bool ahead)
{
    if (l->client.paused || l->closed)
        return NULL;
    struct leat_task *t = l->tasks.resumed;
    if (t) {
        l->tasks.resumed = t->next;
        if (!l->tasks.resumed)
            l->tasks.resumed_tail = &l->tasks.resumed;
        t->next = NULL;
        begin(t);
        return t;
    }
    if (l->tasks.pends)
        take_share(l);
    l->tasks.short_of = !leat_task_may_grow(l);
    struct leat_batch *b = l->tasks.short_of ? NULL : batch_with_work(l, ahead);
    if (b && l->kept && leat_kept_can_wait(l, b))
        b = NULL;
    t = b ? leat_task_new(l) : NULL;
    if (!t)
        return NULL;
    t->batch = b;
    t->sizing = b->state == LEAT_BATCH_SIZING;
    if (t->sizing && leat_ahead_is_wanted(l))
        leat_ahead_take(t);
    uint64_t n = t->sizing ? 1 : leat_batch_run(b, run_length(l, b));
    t->kept = l->kept && !t->sizing && !b->calls.segment ? leat_kept_find(l, b, &n) : NULL;
    leat_job_begin(&t->job, b->taken, n);
    t->job.window.together = l->tasks.pends;
    t->n_booked = 0;
    t->outcome = LEAT_TASK_NEW;
    t->told = false;
    b->taken += n;
    leat_batch_skip_gone(b);
    b->tasks++;
    begin(t);
    return t;
}

static void give_work_back(struct leat_task *t)
{
    struct leat_loader *l = t->loader;
    struct leat_work *work = t->work;
    t->work = NULL;
    if (!work)
        return;
    if (!work->known) {
        work->known = true;
        work->all = l->tasks.all_work;
        l->tasks.all_work = work;
    }
    if (t->ns >= SNAPSHOT_NS / 10)
        work->n_times = leat_scratch_times(work->scratch, work->times, LEAT_MAX_STEPS);
    work->next = l->tasks.free_work;
    l->tasks.free_work = work;
}

void leat_task_resume(struct leat_task *t)
{
    struct leat_loader *l = t->loader;
    t->state = LEAT_TASK_QUEUED;
    t->next = NULL;
    *l->tasks.resumed_tail = t;
    l->tasks.resumed_tail = &t->next;
    l->due |= LEAT_DUE_WORK | LEAT_DUE_WAKE; /* a consumer that waits may help */
}

/* Whether a read or call is in flight that uses the task or its batch. */
static bool is_in_flight(const struct leat_task *t)
{
    return leat_reads_in_flight(&t->job) || leat_calls_in_flight(t);
}

/* ---- parking --------------------------------------------------------------------------------- */

static void unlink_away(struct leat_task *t)
{
    *(t->before ? &t->before->behind : &t->loader->tasks.away) = t->behind;
    if (t->behind)
        t->behind->before = t->before;
}

static void count_back(struct leat_task *t)
{
    struct leat_tasks *l = &t->loader->tasks;
    l->parked--;
    l->in_flight -= t->room;
    t->loader->pool.references--; /* never the last: the loader is open, or its closing waits */
}

static void unpark(struct leat_task *t)
{
    unlink_away(t);
    count_back(t);
}

static void set_parked(struct leat_task *t)
{
    struct leat_tasks *l = &t->loader->tasks;
    t->before = NULL;
    t->behind = l->away;
    if (t->behind)
        t->behind->before = t;
    l->away = t;
    t->state = LEAT_TASK_PARKED;
    l->parked++;
    l->in_flight += t->room;
    t->loader->pool.references++;
}

/* Whether no part of a task of a closed loader is in flight any more. True to one caller only, who then calls
 * end_claimed: from then on nobody finds the task. */
static bool claim(struct leat_task *t)
{
    if (t->state != LEAT_TASK_PARKED || is_in_flight(t))
        return false;
    unlink_away(t);
    t->state = LEAT_TASK_ENDING;
    return true;
}

/* Ends a task that was claimed. Without the lock. */
static void end_claimed(struct leat_task *t)
{
    struct leat_loader *l = t->loader;
    leat_reads_abandon(&t->job);
    leat_engine_lock();
    struct leat_batch *b = t->batch;
    struct leat_dataset *dataset = NULL;
    count_back(t);
    l->pool.references++; /* given back below */
    if (!--b->tasks)
        leat_batch_recycle(b);
    recycle(t);
    if (!l->tasks.parked && l->detached) {
        dataset = l->dataset;
        l->dataset = NULL;
    }
    leat_batch_pool_unref_unlock(&l->pool);
    leat_dataset_release(dataset);
}

void leat_task_arrived_unlock(struct leat_task *t)
{
    struct leat_loader *l = t->loader;
    if (t->state == LEAT_TASK_RUNNING)
        t->state = LEAT_TASK_SIGNALLED;
    bool last = l->closed && claim(t);
    if (t->state == LEAT_TASK_PARKED && !l->closed) {
        unpark(t);
        leat_task_resume(t);
        leat_loader_settle(l);
    }
    leat_engine_unlock();
    if (last)
        end_claimed(t);
}

static void wake_up(struct leat_timer *timer)
{
    struct leat_task *t = (struct leat_task *)(void *)((char *)timer - offsetof(struct leat_task, timer));
    timer->fire = NULL;
    unpark(t);
    leat_task_resume(t);
    leat_loader_settle(t->loader);
}

static void stop_timer(struct leat_task *t)
{
    if (t->timer.fire)
        leat_timer_stop(&t->timer);
    t->timer.fire = NULL;
}

void leat_task_wake_cancelled(struct leat_loader *l)
{
    for (struct leat_task *t = l->tasks.away, *behind; t && !l->closed; t = behind) {
        behind = t->behind;
        if (!atomic_load_explicit(&t->batch->cancelled, memory_order_relaxed) || t->told)
            continue;
        t->told = true;
        stop_timer(t);
        unpark(t);
        leat_task_resume(t);
    }
}

void leat_task_end_all(struct leat_loader *l)
{
    struct leat_task *list = NULL;
    for (struct leat_task *t; (t = l->tasks.resumed);) {
        l->tasks.resumed = t->next;
        set_parked(t);
    }
    l->tasks.resumed_tail = &l->tasks.resumed;
    for (struct leat_task *t = l->tasks.away; t; t = t->behind) {
        stop_timer(t);
        t->state = LEAT_TASK_ENDING; /* a read that completes meanwhile leaves it alone */
        t->next = list;
        list = t;
    }
    leat_engine_unlock();
    for (struct leat_task *t = list, *next; t; t = next) {
        next = t->next;
        leat_reads_cancel(&t->job);
        leat_calls_cancel(t);
        leat_engine_lock();
        t->state = LEAT_TASK_PARKED;
        bool last = claim(t);
        leat_engine_unlock();
        if (last)
            end_claimed(t);
    }
}

static void park(struct leat_task *t)
{
    /* Its batch may have been cancelled while it ran: then it goes on at once, to cancel its reads. */
    bool cancelled = atomic_load_explicit(&t->batch->cancelled, memory_order_relaxed) && !t->told;
    t->told |= cancelled;
    if (t->state == LEAT_TASK_SIGNALLED || cancelled || (t->told && !is_in_flight(t))) {
        leat_task_resume(t);
        return;
    }
    set_parked(t);
    if (is_in_flight(t))
        return;
    t->timer = (struct leat_timer){.due_ns = t->job.chunk.wake_ns, .fire = wake_up};
    leat_timer_start(&t->timer);
}

/* The record of reads: whether they are complete at once. */
static void learn(struct leat_loader *l, const struct leat_job *j)
{
    struct leat_tasks *t = &l->tasks;
    if (j->results.pends && !t->pends) {
        t->pends = true;
        leat_loader_share(l, true);
    }
    t->calm = j->results.pends ? 0 : t->calm + (t->pends && j->window.together && j->window.n_spans);
    if (t->calm < CALM_TASKS)
        return;
    t->pends = false;
    t->calm = 0;
    leat_loader_share(l, false);
}

/* ---- booking --------------------------------------------------------------------------------- */

/* Rows that are made leave a batch whose order is not kept, while others of the task wait for their reads. */
static void book_part(struct leat_task *t)
{
    struct leat_job *j = &t->job;
    uint64_t before = t->n_booked;
    if (!j->window.together || j->step <= LEAT_STEP_LOCATE || j->cursor || j->results.n_notes ||
        j->results.failed_row != UINT64_MAX)
        return;
    for (size_t i = 0; i < j->chunk.count; i++)
        if (j->chunk.marks[i] == LEAT_ROW_DONE) {
            t->loader->delivery->made(t->batch, leat_job_row(j, i), 1);
            j->chunk.marks[i] = LEAT_ROW_BOOKED;
            t->n_booked++;
        }
    atomic_fetch_add_explicit(&t->batch->done, t->n_booked - before, memory_order_acq_rel);
}

/* Rows that are still there when the task is done: mostly all. */
static void book_rest(struct leat_task *t)
{
    const struct leat_job *j = &t->job;
    if (!t->n_booked)
        t->loader->delivery->made(t->batch, j->first, j->n);
    for (uint64_t i = 0; t->n_booked && i < j->n; i++)
        if (j->chunk.marks[i] != LEAT_ROW_BOOKED)
            t->loader->delivery->made(t->batch, j->first + i, 1);
}

static void book_times(struct leat_task *t)
{
    struct leat_loader *l = t->loader;
    double ns = (double)t->ns;
    leat_client_charge(&l->client, ns - t->estimate_ns);
    l->count.tasks++;
    struct leat_job *j = &t->job;
    l->count.native_ns += t->ns - j->results.fetch_ns;
    l->count.fetch_ns += j->results.fetch_ns;
    l->count.fetches += j->results.fetches;
    l->count.fetched_bytes += j->results.fetched_bytes;
    for (unsigned i = 0; j->results.warning_names && i < LEAT_MAX_WARNINGS; i++)
        l->count.warned[i] += j->results.warned[i];
    l->count.warning_names = j->results.warning_names ? j->results.warning_names : l->count.warning_names;
    memset(j->results.warned, 0, sizeof j->results.warned);
    j->results.fetch_ns = 0;
    j->results.fetches = j->results.fetched_bytes = 0;
    if (!t->sizing && !t->batch->calls.segment && !t->batch->calls.placing && !t->kept && j->n && !l->tasks.pends)
        l->tasks.ns_per_row += 0.125 * (ns / (double)j->n - l->tasks.ns_per_row);
    if (l->tasks.ns_per_row < 1)
        l->tasks.ns_per_row = 1;
}

static void finish_batch(struct leat_loader *l, struct leat_batch *b)
{
    leat_batch_drop_made(b);
    b->state = atomic_load_explicit(&b->faults.failed_row, memory_order_relaxed) == UINT64_MAX ? LEAT_BATCH_READY
                                                                                               : LEAT_BATCH_FAILED;
    leat_batch_drop_results(b);
    if (b->state == LEAT_BATCH_READY)
        leat_batch_release_hidden(b);
    if (b->for_whom)
        l->due |= LEAT_DUE_WAKE;
}

/* A batch whose lengths are known is to get memory. */
static void want_memory(struct leat_loader *l, struct leat_batch *b)
{
    b->state = LEAT_BATCH_SIZED;
    if (b->account == LEAT_HELD) /* it stands apart from the window */
        b->state = leat_loader_allocate(l, b, &b->faults.failure) ? LEAT_BATCH_FAILED : LEAT_BATCH_FILLING;
    else
        l->window.n_sized++;
    l->due |= LEAT_DUE_WORK | LEAT_DUE_WAKE; /* a consumer that waits may help */
}

/* All rows went through a segment: its results of varying length are put in place, then they go through the next one,
 * or, with rows that were replaced, through all of them again. */
static void finish_segment(struct leat_loader *l, struct leat_batch *b)
{
    bool failed = atomic_load_explicit(&b->faults.failed_row, memory_order_relaxed) != UINT64_MAX;
    bool again = atomic_exchange_explicit(&b->calls.again, false, memory_order_relaxed);
    if (failed || (!again && leat_batch_is_last(b))) {
        finish_batch(l, b);
        return;
    }
    bool places = !again && !b->calls.placing && (b->pool->late >> b->calls.segment & 1);
    b->calls.placing = places;
    if (again)
        leat_batch_release_results(b);
    if (!places)
        b->calls.segment = again ? 1 : b->calls.segment + 1;
    if (!leat_batch_expect_results(b)) {
        leat_fail(&b->faults.failure, LEAT_E_NOMEM, "no memory for results of varying length");
        atomic_store_explicit(&b->faults.failed_row, 0, memory_order_relaxed);
        finish_batch(l, b);
        return;
    }
    b->taken = 0;
    leat_batch_skip_gone(b);
    atomic_store_explicit(&b->done, b->apart.n_gone, memory_order_relaxed);
    if (places) {
        leat_batch_sum_results(b);
        want_memory(l, b);
    }
    l->due |= LEAT_DUE_WORK | LEAT_DUE_WAKE; /* a consumer that waits may help */
}

/* Values that a source has computed while lengths were wanted are the batch's, and counted with its arrays. */
static void book_made(struct leat_loader *l, struct leat_batch *b)
{
    if (!b->computed.values)
        return;
    b->computed.bytes = b->computed.values->bytes;
    leat_budget_take(&l->budget, b->account, b->computed.bytes);
    b->meta += b->computed.bytes;
    uint64_t all = b->meta + leat_batch_buffer_bytes(b), fixed = l->budget.fixed + leat_budget_tasks(&l->budget);
    if (b->account != LEAT_IN_FLIGHT || fixed > l->budget.limit || all <= l->budget.limit - fixed)
        return;
    if (!l->job.sizes_made) { /* its rows can do without */
        leat_batch_drop_made(b);
        return;
    }
    leat_budget_refuse(&l->budget, LEAT_IN_FLIGHT, all, &b->faults.failure);
    atomic_store_explicit(&b->faults.failed_row, 0, memory_order_relaxed);
}

static void finish_sizing(struct leat_loader *l, struct leat_batch *b)
{
    b->taken = 0;
    leat_batch_skip_gone(b);
    book_made(l, b);
    if (atomic_load_explicit(&b->faults.failed_row, memory_order_relaxed) != UINT64_MAX) {
        finish_batch(l, b);
        return;
    }
    want_memory(l, b);
}

static void park_or_end(struct leat_loader *l, struct leat_task *t)
{
    struct leat_batch *b = t->batch;
    if (t->outcome == LEAT_TASK_STARVES) {
        leat_task_starve(t);
        return;
    }
    bool last = leat_batch_is_last(b) && !t->sizing;
    if (!t->sizing && !b->calls.segment && !t->kept)
        learn(l, &t->job);
    if (t->outcome == LEAT_TASK_WAITS) {
        if (b->apart.loose && last && !b->calls.segment)
            book_part(t);
        park(t);
        return;
    }
    if (t->sizing && !atomic_load_explicit(&b->cancelled, memory_order_relaxed)) {
        b->tasks--;
        finish_sizing(l, b);
    } else {
        if (b->apart.loose && last)
            book_rest(t);
        leat_batch_let_go(l, b);
    }
    if (t->kept) {
        leat_kept_let_go(l, t->kept);
        l->count.reused += t->job.n;
    }
    recycle(t);
}

void leat_task_finish(struct leat_task *t)
{
    struct leat_loader *l = t->loader;
    l->tasks.running--;
    l->due |= l->consumer.next ? LEAT_DUE_WAKE : 0; /* each waits for another batch */
    l->due |= l->kept ? LEAT_DUE_WORK : 0;          /* tasks that could wait for the first batch, or were evicted */
    book_times(t);
    give_work_back(t);
    park_or_end(l, t);
    leat_loader_settle(l);
}

void leat_batch_let_go(struct leat_loader *l, struct leat_batch *b)
{
    b->tasks--;
    if (atomic_load_explicit(&b->cancelled, memory_order_relaxed)) {
        if (b->tasks)
            return;
        leat_batch_recycle(b);
        l->due |= LEAT_DUE_WAKE; /* there is memory again */
    } else if (b->state == LEAT_BATCH_FILLING && !b->tasks &&
               atomic_load_explicit(&b->done, memory_order_relaxed) == b->plan.rows) {
        finish_segment(l, b); /* not before the last task has let go of it: the consumer may recycle it at once */
    }
}

bool leat_task_has_work(const struct leat_loader *l)
{
    for (size_t i = 0; i < l->window.n; i++)
        if (leat_batch_has_work(leat_window_at(&l->window, i)))
            return true;
    for (const struct leat_batch *b = l->side; b; b = b->next)
        if (leat_batch_has_work(b))
            return true;
    return false;
}
