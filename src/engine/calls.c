/*
 * Calls: the work of a task in a segment of functions. It hands its rows to the executor and is parked until they are
 * done. The policy decides on rows that failed, as on any other; rows to be replaced are made again by the task's own
 * job, each of the next substitute, and called again, until none fails:
 *
 *     BEGIN --start--> FLIES --done--> failed rows? --policy--> none is left: the task is done
 *       ^                                                 |
 *       +---- all of them are made ---- REPLACE <---------+ substitutes are wanted
 */
#include "engine/calls.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/executor.h"
#include "engine/policy.h"
#include "engine/run.h"
#include "engine/task.h"
#include "format/source.h"

struct failed_row {
    uint64_t i; /* of the call; then the row of the batch */
    int code;
    char *reason;
};

struct leat_calls {
    struct leat_call call;
    struct leat_task *task;
    _Atomic bool flying;
    bool cancelled; /* the executor was told */
    enum { BEGIN, FLIES, REPLACE } state;
    uint64_t first, n; /* the task's run */
    struct failed_row *failed;
    size_t n_failed, room, replaced;
    bool no_memory;   /* a failure could not be noted */
    uint64_t *places; /* arrays of the call, with room for `arrays` rows */
    uint64_t *draws, *keys;
    int64_t *ids;
    uint64_t arrays;
    struct leat_area areas[];
};

/* A batch whose order is not kept has several calls, and its results lie together. */
static pthread_mutex_t results_lock = PTHREAD_MUTEX_INITIALIZER;

static void forget_failures(struct leat_calls *c)
{
    while (c->n_failed)
        leat_free(c->failed[--c->n_failed].reason);
}

void leat_calls_free(struct leat_calls *c)
{
    if (!c)
        return;
    forget_failures(c);
    leat_free(c->failed);
    leat_free(c->places);
    leat_free(c);
}

bool leat_calls_in_flight(const struct leat_task *t)
{
    return t->calls && atomic_load_explicit(&t->calls->flying, memory_order_acquire);
}

void leat_calls_cancel(struct leat_task *t)
{
    struct leat_executor *executor = t->loader->executor;
    if (!leat_calls_in_flight(t) || t->calls->cancelled)
        return;
    t->calls->cancelled = true;
    executor->cancel(executor, &t->calls->call);
}

/* ---- from the executor ----------------------------------------------------------------------- */

static struct leat_calls *calls_of(struct leat_call *call)
{
    return (struct leat_calls *)(void *)((char *)call - offsetof(struct leat_calls, call));
}

void leat_call_row_failed(struct leat_call *call, uint64_t i, int code, const char *reason)
{
    struct leat_calls *c = calls_of(call);
    for (size_t k = 0; k < c->n_failed; k++)
        if (c->failed[k].i == i)
            return;
    if (!leat_grow(&c->failed, &c->room, c->n_failed + 1, sizeof *c->failed)) {
        c->no_memory = true;
        return;
    }
    size_t at = c->n_failed++;
    for (; at && c->failed[at - 1].i > i; at--)
        c->failed[at] = c->failed[at - 1];
    c->failed[at] = (struct failed_row){i, code, leat_strdup(reason)};
    c->no_memory |= !c->failed[at].reason;
}

void leat_call_result(struct leat_call *call, uint64_t i, size_t output, const void *data, uint64_t bytes)
{
    struct leat_calls *c = calls_of(call);
    struct leat_batch *b = c->task->batch;
    if (i >= call->n || output >= call->n_areas || !leat_batch_is_late(b, output))
        return;
    pthread_mutex_lock(&results_lock);
    struct leat_computed *kept = &b->calls.results->at[output * b->calls.results->n_samples + call->places[i]];
    if (bytes && kept->bytes == bytes) /* computed again: a worker ended at another row */
        memcpy((uint8_t *)kept->data, data, bytes);
    else
        c->no_memory |= leat_values_put(b->calls.results, output, call->places[i], data, bytes) != LEAT_OK;
    pthread_mutex_unlock(&results_lock);
}

bool leat_call_is_traced(const struct leat_call *call)
{
    const struct leat_calls *c = (const void *)((const char *)call - offsetof(struct leat_calls, call));
    return atomic_load_explicit(&c->task->loader->trace.on, memory_order_relaxed);
}

void leat_call_worked(struct leat_call *call, const struct leat_call_work *works, size_t n)
{
    struct leat_trace *trace = &calls_of(call)->task->loader->trace;
    leat_engine_lock(); /* a trace that begins waits for tasks that run, and not for this */
    for (size_t i = 0; i < n; i++) {
        const struct leat_call_work *w = &works[i];
        struct leat_trace_event event = {.epoch = call->epoch,
                                         .step = call->step,
                                         .first = call->places[call->units ? 0 : w->first],
                                         .rows = call->units ? call->n : w->n,
                                         .by = {.worker = w->worker, .process = w->process},
                                         .name = w->name,
                                         .thread = w->thread};
        if (w->begin_ns < trace->begun_ns)
            continue;
        if (w->idle_ns) {
            event.kind = LEAT_TRACE_IDLE;
            event.begin_ns = w->idle_ns > trace->begun_ns ? w->idle_ns : trace->begun_ns;
            leat_trace_add(trace, &event, w->begin_ns);
        }
        event.kind = w->died ? LEAT_TRACE_LOST : LEAT_TRACE_WORK;
        event.begin_ns = w->begin_ns;
        leat_trace_add(trace, &event, w->end_ns);
    }
    leat_engine_unlock();
}

void leat_call_done(struct leat_call *call)
{
    struct leat_calls *c = calls_of(call);
    leat_engine_lock();
    atomic_store_explicit(&c->flying, false, memory_order_release);
    leat_task_arrived_unlock(c->task);
}

/* ---- a call ---------------------------------------------------------------------------------- */

static bool has_room(struct leat_calls *c, uint64_t n)
{
    if (c->arrays >= n)
        return true;
    leat_free(c->places);
    c->arrays = 0;
    c->places = leat_new_array(n, 4 * sizeof *c->places);
    if (!c->places)
        return false;
    c->keys = c->places + n;
    c->draws = c->keys + n;
    c->ids = (int64_t *)(c->draws + n);
    c->arrays = n;
    return true;
}

/* Whether functions of the segment take the batch as a whole. Then the batch fails as a whole. */
static bool is_whole(const struct leat_batch *b)
{
    return b->calls.segment % 2 == 0;
}

/* The rows of the run, or those that were replaced. */
static void start(struct leat_calls *c)
{
    const struct leat_task *t = c->task;
    const struct leat_batch *b = t->batch;
    struct leat_executor *executor = t->loader->executor;
    uint64_t n = 0;
    for (uint64_t i = 0; i < (c->n_failed ? c->n_failed : c->n); i++) {
        uint64_t row = c->n_failed ? c->failed[i].i : c->first + i;
        if (b->left_out[row])
            continue;
        c->places[n] = row;
        c->ids[n] = b->ids[row];
        c->keys[n] = b->keys[row];
        c->draws[n++] = b->calls.draws[row] ? leat_row_key(b->keys[row], b->calls.draws[row], 1) : b->keys[row];
    }
    for (size_t o = 0; o < b->pool->n_outputs; o++) {
        c->areas[o] = (struct leat_area){0};
        if (!b->buffers[o])
            continue;
        c->areas[o] = (struct leat_area){b->buffers[o]->offset,
                                         leat_output_values(leat_program_output(b->program, o), b->plan.rows)};
    }
    c->call = (struct leat_call){.epoch = b->plan.epoch,
                                 .step = b->plan.step,
                                 .segment = b->calls.segment,
                                 .batch_rows = b->plan.rows,
                                 .n_areas = b->pool->n_outputs,
                                 .areas = c->areas,
                                 .n = n,
                                 .places = c->places,
                                 .keys = c->keys,
                                 .draws = c->draws,
                                 .ids = c->ids,
                                 .raises = t->job.context->on_error == LEAT_ON_ERROR_RAISE};
    forget_failures(c);
    c->cancelled = false;
    if (!n)
        return;
    for (size_t o = 0; is_whole(b) && o < b->pool->n_outputs; o++) {
        const struct leat_output *output = leat_program_output(b->program, o);
        c->call.units += output->called && output->segment == b->calls.segment;
    }
    atomic_store_explicit(&c->flying, true, memory_order_relaxed);
    executor->start(executor, &c->call);
}

/* The fate of the rows that failed; those to be replaced stay in `failed`, by their row. */
static void judge(struct leat_calls *c)
{
    struct leat_task *t = c->task;
    struct leat_job *j = &t->job;
    size_t kept = 0;
    if (c->no_memory) {
        leat_fail(&j->error, LEAT_E_NOMEM, "no memory to record a broken sample");
        leat_job_raise(j, c->first);
    }
    for (size_t k = 0; k < c->n_failed; k++) {
        struct failed_row *f = &c->failed[k];
        if (f->i == LEAT_WHOLE_CALL || is_whole(t->batch)) {
            leat_fail(&j->error, f->code, "%s", f->reason ? f->reason : "");
            leat_job_raise(j, c->first);
            leat_free(f->reason);
            continue;
        }
        f->i = c->places[f->i];
        leat_fail(&j->error, f->code, "%s", f->reason ? f->reason : "");
        leat_error_at_sample(&j->error, t->batch->ids[f->i], NULL);
        if (leat_is_broken(f->code))
            leat_job_say_sample(j, f->i, t->batch->attempts ? t->batch->attempts[f->i] : 0);
        if (leat_policy(j, f->i, t->batch->ids[f->i], f->code, leat_is_broken(f->code)) == LEAT_ROW_REPLACED)
            c->failed[kept++] = *f;
        else
            leat_free(f->reason);
    }
    c->n_failed = kept;
}

/* The next row that is to be replaced becomes that of the job. */
static void begin_substitute(struct leat_calls *c)
{
    struct leat_job *j = &c->task->job;
    uint64_t row = c->failed[c->replaced].i;
    leat_job_begin(j, row, 1);
    j->target.why = c->failed[c->replaced].reason;
}

bool leat_calls_begin(struct leat_task *t)
{
    struct leat_calls *c = t->calls;
    if (!c) {
        c = t->calls = leat_alloc(sizeof *c + t->loader->pool.n_outputs * sizeof *c->areas);
        if (!c)
            return false;
        memset(c, 0, sizeof *c);
        c->task = t;
    }
    forget_failures(c);
    c->state = BEGIN;
    c->no_memory = false;
    c->first = t->job.first;
    c->n = t->job.n;
    return has_room(c, c->n);
}

bool leat_calls_run(struct leat_task *t)
{
    struct leat_calls *c = t->calls;
    struct leat_job *j = &t->job;
    struct leat_batch *b = t->batch;
    for (;;) {
        bool cancelled = atomic_load_explicit(&b->cancelled, memory_order_relaxed);
        switch (c->state) {
        case BEGIN:
            if (cancelled || atomic_load_explicit(&b->faults.failed_row, memory_order_relaxed) < c->first)
                return true;
            start(c);
            c->state = FLIES;
            break;
        case FLIES:
            if (cancelled)
                leat_calls_cancel(t);
            if (leat_calls_in_flight(t)) {
                t->outcome = LEAT_TASK_WAITS;
                return false;
            }
            if (cancelled)
                return true;
            judge(c);
            if (!c->n_failed || j->results.failed_row != UINT64_MAX)
                return true;
            c->state = REPLACE;
            c->replaced = 0;
            begin_substitute(c);
            break;
        case REPLACE:
            if (!leat_task_make_rows(t))
                return false;
            if (cancelled || j->results.failed_row != UINT64_MAX)
                return true;
            b->calls.draws[j->first] = b->attempts[j->first];
            if (++c->replaced < c->n_failed) {
                begin_substitute(c);
                break;
            }
            c->state = BEGIN;
            if (b->calls.segment > 1) { /* a function has seen the batch with the replaced rows */
                atomic_store_explicit(&b->calls.again, true, memory_order_relaxed);
                return true;
            }
        }
    }
}

void leat_calls_end(struct leat_task *t)
{
    t->job.first = t->calls->first;
    t->job.n = t->calls->n;
}
