/*
 * Memory for values that are larger than what was set aside for tasks when the loader opened: the read buffer of a long
 * value, and what decoding a large photo takes.
 *
 *     budget_bytes >= fixed + task_bytes (or task_reserve, which is the least) + in_flight
 *
 * Where a task's wish would break this, what is easily had comes first: batches that were prefetched behind the task's
 * own are planned again later, and tasks at rest lose their buffers, or go where many reads had waited at once. If that
 * is not enough, the task waits in `starved`, without a thread, until a batch is handed out or another task is done.
 * Nothing can come any more where nothing runs and the task's batch is the first one: then the value is larger than the
 * budget allows, and that is an error. Once its rows are made, a task gives back what is above the usual.
 */
#include <inttypes.h>
#include <malloc.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/task.h"

/* glibc keeps what was freed, for each thread as much as its largest piece was: with the coefficients of a progressive
 * photo, which libjpeg gets from malloc, more than the budget. Asked for after large values only, as it takes a
 * millisecond. */
static void trim_heap(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

static bool fits(const struct leat_loader *l, uint64_t more)
{
    uint64_t tasks = l->task_bytes + more;
    return tasks <= l->task_reserve || l->fixed + tasks + l->in_flight <= l->budget;
}

bool leat_task_may_grow(const struct leat_loader *l)
{
    return l->free_tasks || fits(l, leat_task_size(l) + l->usual_room) ||
           (!l->running && !l->parked && !l->resumed && !l->starved);
}

/* Pages that batches left behind must not stay resident where tasks have taken their place. */
static void tell_region(struct leat_loader *l)
{
    uint64_t above = l->task_bytes > l->task_reserve ? l->task_bytes - l->task_reserve : 0;
    leat_region_set_limit(&l->region, l->region_limit > above ? l->region_limit - above : 0);
}

static bool is_cancelled(const struct leat_task *t)
{
    return atomic_load_explicit(&t->batch->cancelled, memory_order_relaxed);
}

/* Whether the consumer can get nothing before this task's batch. */
static bool is_first(const struct leat_task *t)
{
    const struct leat_loader *l = t->loader;
    return t->batch == l->side || (l->n_window && t->batch == leat_window_at(l, 0));
}

static void drop_buffer(struct leat_task *t)
{
    t->loader->task_bytes -= t->room;
    leat_free(t->buffer);
    t->buffer = NULL;
    t->room = 0;
}

bool leat_task_drop_resting(struct leat_loader *l)
{
    uint64_t before = l->task_bytes;
    unsigned kept = 0;
    for (struct leat_task **p = &l->free_tasks, *t; (t = *p);) {
        if (t->room)
            drop_buffer(t);
        if (++kept <= l->num_threads + 2) { /* as many as threads may want at once: they must not fail to get one */
            p = &t->next;
            continue;
        }
        *p = t->next;
        l->task_bytes -= leat_task_size(l);
        leat_task_destroy(t);
    }
    return l->task_bytes < before;
}

/* LEAT_OK: there is place for `more` bytes, and they are booked. LEAT_IO_PENDING: not now. */
static int book(struct leat_task *t, uint64_t more, struct leat_error *error)
{
    struct leat_loader *l = t->loader;
    while (!fits(l, more)) {
        if (is_cancelled(t))
            return leat_fail(error, LEAT_E_CANCELLED, "its batch was cancelled");
        if (l->n_window > 1 && leat_window_at(l, l->n_window - 1) != t->batch)
            leat_window_cancel(l, l->n_window - 1);
        else if (!leat_task_drop_resting(l))
            break;
    }
    if (fits(l, more)) {
        l->task_bytes += more;
        tell_region(l);
        return LEAT_OK;
    }
    if (!is_first(t) || l->running > 1 || l->parked || l->resumed)
        return LEAT_IO_PENDING;
    return leat_fail(
        error, LEAT_E_BUDGET,
        "a value that needs %" PRIu64 " bytes to be read and decoded does not fit into budget_bytes = %" PRIu64
        " beside its batch and scratch; raise it to at least %" PRIu64,
        more, l->budget,
        l->fixed + l->task_bytes + more + l->in_flight + l->task_reserve); /* with what other tasks usually have */
}

int leat_task_reserve(struct leat_task *t, uint64_t bytes, uint64_t decoding, struct leat_error *error)
{
    struct leat_loader *l = t->loader;
    if (bytes <= t->room && decoding <= t->decoding)
        return LEAT_OK;
    if (bytes > l->budget || decoding > l->budget)
        return leat_fail(error, LEAT_E_BUDGET,
                         "a value of %" PRIu64 " bytes that takes %" PRIu64
                         " bytes to decode does not fit into budget_bytes = %" PRIu64 "; raise it to at least %" PRIu64,
                         bytes, decoding, l->budget,
                         l->fixed + l->estimate + l->task_reserve + leat_region_round(bytes) + decoding);
    bool grows = bytes > t->room;
    leat_engine_lock();
    uint64_t wanted = decoding > t->decoding ? decoding - t->decoding : 0, room = t->room;
    if (grows) {
        drop_buffer(t);
        room = leat_region_round(bytes + bytes / 4); /* so that a slightly longer one needs nothing new */
        if (l->task_bytes + room > l->task_reserve)
            room = leat_region_round(bytes);
        wanted += room;
    }
    int rc = book(t, wanted, error);
    if (rc == LEAT_OK && decoding > t->decoding)
        t->decoding = decoding;
    if (rc == LEAT_IO_PENDING) {
        t->starved = true;
        t->wanted = wanted;
    }
    leat_engine_unlock();
    if (rc || !grows)
        return rc;
    t->buffer = leat_alloc(room);
    if (t->buffer) {
        t->room = room;
        return LEAT_OK;
    }
    leat_engine_lock();
    l->task_bytes -= room;
    leat_engine_unlock();
    return leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %" PRIu64 " bytes", bytes);
}

void leat_task_relax(struct leat_task *t)
{
    struct leat_loader *l = t->loader;
    t->decode_wanted = 0;
    if (!t->decoding && t->room <= l->usual_room)
        return;
    uint64_t room = t->room > l->usual_room ? t->room : 0;
    if (room) {
        leat_free(t->buffer);
        t->buffer = NULL;
        t->room = 0;
    }
    trim_heap();
    leat_engine_lock();
    l->task_bytes -= t->decoding + room;
    t->decoding = 0;
    tell_region(l);
    leat_task_feed(l);
    leat_engine_unlock();
}

void leat_task_feed(struct leat_loader *l)
{
    while (l->starved) {
        struct leat_task *t = l->starved;
        l->starved = t->next;
        leat_task_resume(t);
    }
}

/* Takes one task of the first batch from the list, where nothing runs that would. */
static void feed_first(struct leat_loader *l)
{
    for (struct leat_task **p = &l->starved; *p; p = &(*p)->next)
        if (is_first(*p)) {
            struct leat_task *t = *p;
            *p = t->next;
            leat_task_resume(t);
            return;
        }
}

void leat_task_starve(struct leat_task *t)
{
    struct leat_loader *l = t->loader;
    t->starved = t->pending = false;
    t->next = l->starved;
    l->starved = t;
    if (is_cancelled(t) || fits(l, t->wanted)) /* while the task was on its way here */
        leat_task_feed(l);
    else if (!l->running && !l->parked && !l->resumed)
        feed_first(l);
}
