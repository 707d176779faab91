/*
 * A thread's work on a task, without the engine's lock: it runs the task's job, gives it memory if it asks for some,
 * and books the results.
 */
#include "engine/run.h"
#include "engine/follow.h"

#include "engine/ahead.h"
#include "engine/calls.h"
#include "engine/fetch.h"
#include "engine/kept.h"
#include "engine/locate.h"
#include "engine/policy.h"
#include "engine/reserve.h"
#include "engine/results.h"
#include "engine/sizes.h"
#include "engine/task.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

/* ---- results --------------------------------------------------------------------------------- */

/* Adds a note to those of the batch, in the order of rows, whoever came first. If a row was replaced before, the first
 * reason stays. Under the lock. */
static bool add_note(struct leat_batch *b, const struct leat_job_note *note)
{
    for (size_t k = 0; b->calls.segment && k < b->faults.n_broken; k++)
        if (b->faults.broken[k].row == note->row) {
            b->faults.broken[k].delivered = note->delivered;
            leat_free(note->reason);
            return true;
        }
    if (!leat_grow(&b->faults.broken, &b->faults.broken_room, b->faults.n_broken + 1, sizeof *b->faults.broken))
        return false;
    size_t i = b->faults.n_broken++;
    for (; i && b->faults.broken[i - 1].row > note->row; i--)
        b->faults.broken[i] = b->faults.broken[i - 1];
    b->faults.broken[i] = (struct leat_broken_row){.row = note->row,
                                                   .planned = note->planned,
                                                   .delivered = note->delivered,
                                                   .code = note->code,
                                                   .reason = note->reason};
    return true;
}

/* The job's results become the batch's: notes, and its error unless an earlier row has failed. */
static void book_result(struct leat_task *t)
{
    struct leat_job *j = &t->job;
    struct leat_batch *b = t->batch;
    if (!j->results.n_notes && j->results.failed_row == UINT64_MAX)
        return;
    leat_engine_lock();
    for (size_t i = 0; i < j->results.n_notes; i++)
        if (!add_note(b, &j->results.notes[i])) {
            leat_fail(&j->error, LEAT_E_NOMEM, "no memory to record a broken sample");
            leat_job_raise(j, j->results.notes[i].row);
            leat_free(j->results.notes[i].reason);
        }
    j->results.n_notes = 0;
    if (j->results.failed_row < atomic_load_explicit(&b->faults.failed_row, memory_order_relaxed)) {
        atomic_store_explicit(&b->faults.failed_row, j->results.failed_row, memory_order_relaxed);
        b->faults.failure = j->results.failure;
    }
    leat_engine_unlock();
}

/* ---- running --------------------------------------------------------------------------------- */

static bool has_scratch(struct leat_task *t)
{
    if (t->work)
        return true;
    t->work = leat_new(struct leat_work);
    if (t->work)
        t->work->scratch = leat_scratch_new(t->loader->program);
    if (t->work && t->work->scratch)
        return true;
    leat_free(t->work);
    t->work = NULL;
    leat_fail(&t->job.error, LEAT_E_NOMEM, "no memory for a thread's scratch");
    leat_job_raise(&t->job, t->job.first + t->job.cursor);
    return false;
}

/* For the record: operators have made a row. Decoding goes on between the other operators of a stage; it is shown as
 * one piece at the stage's beginning. */
static void trace_stage(void *user, const char *name, int64_t begin_ns, uint64_t ns, uint64_t decode_ns)
{
    struct leat_trace *trace = user;
    struct leat_trace_event event = {.begin_ns = begin_ns, .kind = LEAT_TRACE_STAGE, .name = name};
    const bool alone = !strcmp(name, "Decode");
    leat_trace_add(trace, &event, begin_ns + (int64_t)ns);
    event.kind = LEAT_TRACE_DECODE;
    event.name = NULL;
    if (decode_ns && !alone)
        leat_trace_add(trace, &event, begin_ns + (int64_t)(decode_ns < ns ? decode_ns : ns));
}

bool leat_task_make_rows(struct leat_task *t)
{
    struct leat_job *j = &t->job;
    if (!has_scratch(t)) {
        if (leat_reads_in_flight(j)) /* a read that is still to come is of no use, but the task waits for it */
            t->outcome = LEAT_TASK_WAITS;
        else
            leat_reads_abandon(j);
        return t->outcome != LEAT_TASK_WAITS;
    }
    struct leat_trace *trace = &t->loader->trace;
    const bool watched = atomic_load_explicit(&trace->on, memory_order_relaxed);
    leat_scratch_share(t->work->scratch, atomic_load_explicit(&t->loader->decoded, memory_order_acquire));
    leat_scratch_watch(t->work->scratch, (struct leat_watch){watched ? trace_stage : NULL, trace});
    for (;;) {
        switch (leat_job_run(j, t->work->scratch)) {
        case LEAT_JOB_DONE:
            return true;
        case LEAT_JOB_READS:
        case LEAT_JOB_SLEEPS:
            t->outcome = LEAT_TASK_WAITS;
            return false;
        case LEAT_JOB_RELAX:
            leat_task_relax(t);
            break;
        case LEAT_JOB_ROOM: {
            if (t->outcome == LEAT_TASK_STARVES)
                return false;
            int rc = leat_task_reserve(t, j->memory.wants, j->memory.wants_decoding, &j->error);
            if (rc == LEAT_IO_PENDING)
                return false;
            if (rc)
                leat_job_refuse(j, rc);
        }
        }
        leat_job_grant(j, t->buffer, t->room, t->decoding);
    }
}

void leat_task_aim(struct leat_task *t, struct leat_batch *b)
{
    struct leat_job_target *to = &t->job.target;
    to->plan = b->plan;
    to->program = b->program;
    to->numbers = b->apart.listed ? b->apart.numbers : NULL;
    to->ids = b->ids;
    to->keys = b->keys;
    to->domains = b->domains;
    to->valid = b->valid;
    to->left_out = b->left_out;
    to->attempts = b->attempts;
    to->why = NULL;
    to->cancelled = &b->cancelled;
    to->failed_row = &b->faults.failed_row;
    to->steps = b->offsets;
    to->made = b->computed.values;
    to->outputs = t->sizing ? NULL : b->memory;
}

/* The lengths of all rows of a batch, and the values that a source had to compute for that. False: it goes on later. */
static bool size_rows(struct leat_task *t, bool is_new)
{
    struct leat_batch *b = t->batch;
    const struct leat_job_context *c = &t->loader->job;
    if (is_new && t->ahead && leat_ahead_compute(t, &t->job.error)) {
        leat_job_raise(&t->job, 0);
        return true;
    }
    if (is_new && c->sizes_made && !b->computed.values && !leat_batch_expect_made(b, c->n_made)) {
        leat_fail(&t->job.error, LEAT_E_NOMEM, "no memory for the values of %" PRIu64 " rows", b->plan.rows);
        leat_job_raise(&t->job, 0);
        return true;
    }
    if (!t->loader->ragged)
        return true;
    if (leat_job_size_rows(&t->job, b->offsets, b->computed.values) == LEAT_JOB_DONE)
        return true;
    t->outcome = LEAT_TASK_WAITS;
    return false;
}

/* For the record: the task has run. */
static void trace_task(const struct leat_task *t, int64_t begun, bool calls)
{
    const struct leat_batch *b = t->batch;
    const struct leat_trace_event event = {.begin_ns = begun,
                                           .kind = t->sizing                     ? LEAT_TRACE_SIZES
                                                   : calls                       ? LEAT_TRACE_CALL
                                                   : b->calls.placing || t->kept ? LEAT_TRACE_PLACE
                                                                                 : LEAT_TRACE_ROWS,
                                           .epoch = b->plan.epoch,
                                           .step = b->plan.step,
                                           .first = t->job.first,
                                           .rows = t->sizing ? b->plan.rows : t->job.n};
    leat_trace_add(&t->loader->trace, &event, begun + t->ns);
}

void leat_task_run(struct leat_task *t)
{
    int64_t begun = leat_clock_ns();
    struct leat_batch *b = t->batch;
    struct leat_job *j = &t->job;
    bool done = true, calls = b->calls.segment && !b->calls.placing && !t->sizing, is_new = t->outcome == LEAT_TASK_NEW;
    t->outcome = LEAT_TASK_DONE;
    if (is_new) {
        leat_task_aim(t, b);
        if (calls && !leat_calls_begin(t)) {
            leat_fail(&j->error, LEAT_E_NOMEM, "no memory for a call of functions");
            leat_job_raise(j, j->first);
            calls = false;
        }
    }
    leat_job_grant(j, t->buffer, t->room, t->decoding);
    if (t->sizing)
        done = size_rows(t, is_new);
    else if (calls)
        done = leat_calls_run(t);
    else if (b->calls.placing)
        leat_batch_place_results(b, j->first, j->n);
    else if (t->kept)
        leat_kept_copy(t->kept, b, j->first, j->n);
    else if (!b->calls.segment)
        done = leat_task_make_rows(t);
    if (done)
        book_result(t);
    if (done && !t->sizing && b->followed.by_rows)
        b->followed.by->made(b->followed.mark, b, j->first, j->n);
    if (done && calls)
        leat_calls_end(t);
    uint64_t rest = j->n - t->n_booked;
    if (done && !t->sizing && atomic_fetch_add_explicit(&b->done, rest, memory_order_acq_rel) + rest == b->plan.rows &&
        leat_batch_is_last(b) && !atomic_load_explicit(&b->calls.again, memory_order_relaxed) && !b->apart.loose &&
        !atomic_load_explicit(&b->cancelled, memory_order_relaxed) && /* its rows need not be made */
        atomic_load_explicit(&b->faults.failed_row, memory_order_relaxed) == UINT64_MAX)
        leat_batch_complete(b); /* the maker of the last row */
    t->ns = leat_clock_ns() - begun;
    if (atomic_load_explicit(&t->loader->trace.on, memory_order_relaxed))
        trace_task(t, begun, calls);
}
