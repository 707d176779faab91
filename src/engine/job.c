/*
 * The run of a job, step by step; the steps of a job whose rows are samples, and those that all jobs have in common.
 * Failed reads are tried again, and broken samples replaced.
 */
#include "engine/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/computed.h"
#include "engine/fetch.h"
#include "engine/filled.h"
#include "engine/locate.h"
#include "engine/make.h"
#include "engine/policy.h"

/* ---- reads that fail ------------------------------------------------------------------------- */

static void sleep_for(struct leat_job *j, int64_t ns)
{
    const int64_t wake_ns = leat_clock_ns() + ns;
    j->chunk.wake_ns = wake_ns > j->chunk.wake_ns ? wake_ns : j->chunk.wake_ns;
}

/* Whether there is a next try. It is not before a time: nobody waits for it in a thread. */
bool leat_job_back_off(struct leat_job *j, int rc, unsigned tries)
{
    const unsigned ms = leat_io_pause_ms(rc, j->window.retry_after_ms, tries);
    sleep_for(j, (int64_t)ms * 1000000);
    return ms;
}

/* The values of row i could not be read. It is tried again, alone: at first to learn which of them is to blame. */
static void read_failed(struct leat_job *j, size_t i, int rc)
{
    struct leat_job_value *v = &j->chunk.values[i * j->context->n_slots];
    const struct leat_job_value *blamed = NULL;
    bool cut = false;
    if (j->window.end > j->window.begin + 1) {
        j->chunk.tries[i] = 1;
        leat_job_back_off(j, rc, 1);
        return;
    }
    for (size_t s = 0; s < j->context->n_slots; s++, v++) {
        if (v->way != LEAT_VALUE_READ || !j->window.spans[v->span].status)
            continue;
        blamed = v;
        if (rc != LEAT_E_CORRUPT || leat_fetch_bytes(&v->extent, v->with_rows) == leat_fetch_bytes(&v->extent, false))
            continue;
        v->with_rows = false; /* the file was cut: perhaps only the index behind the photo is lost */
        cut = true;
    }
    if (cut)
        return;
    if (leat_job_back_off(j, rc, ++j->chunk.tries[i]))
        return;
    leat_job_at_value(j, i, blamed, rc);
    leat_job_refuse_row(j, i, rc);
}

/* ---- substitutes ----------------------------------------------------------------------------- */

/* The places of the values of row i. */
static void locate_row(struct leat_job *j, size_t i)
{
    const struct leat_job_context *c = j->context;
    size_t failed = 0;
    int rc = LEAT_OK;
    for (size_t f = 0; f < c->n_feeds && !rc; f++)
        if (c->feeds[f].slotted)
            rc = leat_job_locate(j, &c->feeds[f], i, 1, &failed);
    if (!rc)
        rc = leat_job_locate_others(j, i, 1, &failed);
    if (!rc && leat_job_pass_known(j, i))
        return;
    if (!rc && c->n_made)
        rc = leat_job_compute(j, i, 1, &failed);
    if (rc)
        leat_job_row_failed(j, i, rc, leat_is_broken(rc));
}

void leat_job_substitute(struct leat_job *j, struct leat_scratch *scratch, size_t i)
{
    uint64_t row = leat_job_row(j, i);
    while (leat_job_plan_substitute(j, i)) {
        j->making.args[i] = (struct leat_row){.key = j->chunk.rows[i].key, .sample = j->chunk.refs[i].id};
        int rc = leat_job_remake_mapped(j, scratch, i);
        if (rc == LEAT_OK) {
            leat_job_row_delivered(j, row, j->chunk.refs[i].id);
            j->chunk.marks[i] = LEAT_ROW_WANTED;
            j->chunk.tries[i] = 0;
            j->target.ids[row] = j->chunk.refs[i].id;
            if (j->target.attempts)
                j->target.attempts[row] = j->chunk.attempts[i];
            locate_row(j, i);
            return;
        }
        if (!leat_is_broken(rc)) {
            leat_job_row_failed(j, i, rc, false);
            return;
        }
    }
    char text[sizeof j->error.message];
    memcpy(text, j->error.message, sizeof text);
    text[900] = 0;
    leat_fail(&j->error, LEAT_E_DECODE,
              "row %" PRIu64 " is broken, and so are %d samples that could stand in for it; the last: %s", row,
              LEAT_MAX_SUBSTITUTES, text);
    leat_job_row_failed(j, i, LEAT_E_DECODE, false);
}

/* ---- values --------------------------------------------------------------------------------- */

/* The planned photo is read and decoded again even if it is known to be broken, so that the error or the note says why
 * each time. Returns how many rows are located: those behind an error that is raised are not, as nobody wants them. */
static size_t locate_chunk(struct leat_job *j)
{
    const struct leat_job_context *c = j->context;
    size_t n = j->chunk.count;
    for (size_t f = 0; f <= c->n_feeds; f++) /* behind the fields the other samples of rows */
        for (size_t i = 0, failed = 0; (f == c->n_feeds || c->feeds[f].slotted) && i < n; i = failed + 1) {
            const int rc = f < c->n_feeds ? leat_job_locate(j, &c->feeds[f], i, n - i, &failed)
                                          : leat_job_locate_others(j, i, n - i, &failed);
            if (!rc)
                break;
            if (j->chunk.marks[failed] == LEAT_ROW_WANTED)
                leat_job_row_failed(j, failed, rc, leat_is_broken(rc));
            if (j->results.failed_row <= leat_job_row(j, failed))
                n = failed;
        }
    memset(j->chunk.marks + n, LEAT_ROW_DONE, j->chunk.count - n);
    return n;
}

/* Values of rows [i, i + n) that sources compute: all at once, and in parts if that fails, so that no other row than
 * the one at fault fails. */
static void compute_rows(struct leat_job *j, size_t i, size_t n)
{
    while (n) {
        size_t failed = 0, half;
        int rc = j->results.failed_row < leat_job_row(j, i) ? LEAT_OK : leat_job_compute(j, i, n, &failed);
        if (j->results.failed_row < leat_job_row(j, i))
            memset(j->chunk.marks + i, LEAT_ROW_DONE, n); /* nobody wants them any more */
        if (!rc)
            return;
        if (n > 1 && rc == LEAT_E_IO &&
            failed == i + n) { /* the call itself failed: trying parts of it would not help */
            leat_job_raise(j, leat_job_row(j, i));
            memset(j->chunk.marks + i, LEAT_ROW_DONE, n);
            return;
        }
        if (n == 1 || failed == i) {
            leat_job_row_failed(j, i++, rc, leat_is_broken(rc));
            n--;
            continue;
        }
        half = failed < i + n ? failed - i : n / 2;
        compute_rows(j, i, half);
        i += half;
        n -= half;
    }
}

/* ---- the steps ------------------------------------------------------------------------------- */

bool leat_job_is_futile(const struct leat_job *j)
{
    uint64_t row = j->first + j->cursor;
    return atomic_load_explicit(j->target.cancelled, memory_order_relaxed) || j->results.failed_row < row ||
           atomic_load_explicit(j->target.failed_row, memory_order_relaxed) < row;
}

enum leat_job_status leat_step_next(struct leat_job *j)
{
    j->cursor += j->chunk.count;
    j->step = LEAT_STEP_PLAN;
    leat_job_drop_made(j);
    return LEAT_JOB_DONE;
}

enum leat_job_status leat_step_plan(struct leat_job *j, struct leat_scratch *scratch)
{
    uint64_t failed;
    if (j->cursor == j->n || leat_job_is_futile(j)) {
        j->step = LEAT_STEP_END;
        return LEAT_JOB_DONE;
    }
    if (!leat_job_plan(j, j->first + j->cursor, j->n - j->cursor, &failed))
        return LEAT_JOB_DONE;
    leat_job_raise(j, failed);
    memset(j->chunk.marks, LEAT_ROW_DONE, j->chunk.count);
    return leat_step_next(j);
}

enum leat_job_status leat_step_look_up(struct leat_job *j, struct leat_scratch *scratch)
{
    struct leat_job_chunk *chunk = &j->chunk;
    const struct leat_job_target *to = &j->target;
    const uint64_t first = j->first + j->cursor;
    const enum leat_job_status status = leat_reads_look_up(j);
    if (status != LEAT_JOB_DONE)
        return status;
    if (leat_job_is_futile(j)) {
        memset(chunk->marks, LEAT_ROW_DONE, chunk->count);
        j->step = LEAT_STEP_END;
        return LEAT_JOB_DONE;
    }
    for (size_t i = 0; i < chunk->count; i++) {
        to->ids[first + i] = chunk->refs[i].id;
        to->keys[first + i] = chunk->rows[i].key;
        to->domains[first + i] = (int32_t)chunk->rows[i].piece.source;
        to->valid[first + i] = chunk->rows[i].valid;
        j->making.args[i] = (struct leat_row){.key = chunk->rows[i].key, .sample = chunk->refs[i].id};
    }
    memset(chunk->marks, LEAT_ROW_WANTED, chunk->count);
    memset(chunk->tries, 0, chunk->count);
    memset(chunk->attempts, 0, chunk->count);
    chunk->wake_ns = 0;
    j->step = LEAT_STEP_LOCATE;
    if (to->why) { /* functions have refused its sample */
        chunk->attempts[0] = to->attempts[first];
        chunk->marks[0] = LEAT_ROW_BROKEN;
        leat_fail(&j->error, LEAT_E_DECODE, "%s", to->why);
        j->step = LEAT_STEP_CHOOSE;
    }
    return LEAT_JOB_DONE;
}

/* For samples: makes the outputs of mapped values, and locates or computes the others. */
static enum leat_job_status locate(struct leat_job *j, struct leat_scratch *scratch)
{
    const struct leat_job_context *c = j->context;
    for (size_t f = 0; f < c->n_feeds; f++)
        for (size_t k = 0; c->feeds[f].mapped && k < c->feeds[f].n_outputs; k++)
            leat_job_make_mapped(j, scratch, &c->feeds[f], c->feeds[f].outputs[k]);
    if (c->n_filled)
        leat_job_fill(j);
    const size_t located = c->n_slots ? locate_chunk(j) : j->chunk.count;
    if (c->n_made)
        compute_rows(j, 0, located);
    if (c->n_made)
        leat_job_make_computed(j, scratch, located);
    if (!c->n_slots && c->on_error != LEAT_ON_ERROR_SUBSTITUTE)
        return leat_step_next(j);
    j->step = LEAT_STEP_CHOOSE;
    return LEAT_JOB_DONE;
}

/* The next row of the chunk that is wanted; those whose reads have failed come last. */
static size_t next_row(struct leat_job *j, struct leat_scratch *scratch)
{
    size_t failed = j->chunk.count;
    while (j->chunk.row < j->chunk.count && j->chunk.marks[j->chunk.row] >= LEAT_ROW_DONE)
        j->chunk.row++;
    for (size_t i = j->chunk.row; i < j->chunk.count; i++) {
        while (j->chunk.marks[i] == LEAT_ROW_BROKEN)
            leat_job_substitute(j, scratch, i);
        if (j->chunk.marks[i] == LEAT_ROW_WANTED && !j->chunk.tries[i])
            return i;
        if (j->chunk.marks[i] == LEAT_ROW_WANTED && failed == j->chunk.count)
            failed = i;
    }
    return failed;
}

static enum leat_job_status choose(struct leat_job *j, struct leat_scratch *scratch)
{
    if (leat_job_is_futile(j)) {
        j->step = LEAT_STEP_END;
        return LEAT_JOB_DONE;
    }
    const size_t i = next_row(j, scratch);
    if (i == j->chunk.count)
        return leat_step_next(j);
    if (j->chunk.tries[i] && leat_clock_ns() < j->chunk.wake_ns)
        return LEAT_JOB_SLEEPS;
    leat_reads_plan(j, i);
    j->step = LEAT_STEP_FETCH;
    return LEAT_JOB_DONE;
}

enum leat_job_status leat_step_fetch(struct leat_job *j, struct leat_scratch *scratch)
{
    const int64_t begun = leat_clock_ns();
    const enum leat_job_status status = leat_reads_go(j);
    j->results.fetch_ns += leat_clock_ns() - begun;
    j->memory.asking = j->window.begin;
    if (status == LEAT_JOB_ROOM)
        return status;
    j->step = LEAT_STEP_MAKE;
    return LEAT_JOB_DONE;
}

/* A photo takes some 0.5 to 2 ms to decode, and to look again some microseconds. */
#define PUT_OFF_NS 250000

/* Whether row i is left for later, when a photo of it has been decoded for this job too. */
static bool is_put_off(const struct leat_job *j, const struct leat_scratch *scratch, size_t i)
{
    return leat_job_would_wait(j, scratch, i) &&
           !atomic_load_explicit(j->target.cancelled, memory_order_relaxed); /* it ends sooner so */
}

/* Makes those rows of the window first whose values come first. */
static enum leat_job_status make(struct leat_job *j, struct leat_scratch *scratch)
{
    const struct leat_read_window *w = &j->window;
    bool put_off = false;
    j->step = LEAT_STEP_FETCH; /* until all are made */
    for (size_t i = w->begin; i < w->end; i++) {
        int rc = j->chunk.marks[i] == LEAT_ROW_WANTED && !(j->chunk.tries[i] && w->end > w->begin + 1)
                     ? leat_reads_row(j, i)
                     : LEAT_IO_PENDING;
        if (rc == LEAT_IO_PENDING)
            continue;
        if (rc)
            read_failed(j, i, rc);
        else if (is_put_off(j, scratch, i))
            put_off = true;
        else if (leat_job_make_row(j, scratch, i) == LEAT_JOB_ROOM) {
            j->memory.asking = i;
            return LEAT_JOB_ROOM;
        }
    }
    if (leat_reads_are_out(j))
        return LEAT_JOB_READS;
    if (put_off) {
        sleep_for(j, PUT_OFF_NS);
        return LEAT_JOB_SLEEPS;
    }
    leat_reads_close(j);
    j->step = LEAT_STEP_CHOOSE;
    return LEAT_JOB_RELAX;
}

static void refuse(struct leat_job *j, int code)
{
    const struct leat_read_window *w = &j->window;
    const struct leat_job_value *v = &j->chunk.values[j->memory.asking * j->context->n_slots];
    if (!j->memory.wants_decoding) {
        leat_reads_close(j);
        j->step = LEAT_STEP_CHOOSE;
        if (w->end > w->begin + 1) { /* less may do */
            j->chunk.tries[w->begin] = 1;
            return;
        }
    }
    while (v->way == LEAT_VALUE_NONE)
        v++;
    leat_job_at_value(j, j->memory.asking, v, code);
    leat_job_refuse_row(j, j->memory.asking, code);
}

const struct leat_job_steps leat_steps_of_samples = {
    .at = {leat_step_plan, leat_step_look_up, locate, choose, leat_step_fetch, make},
    .place = leat_place_samples,
    .refuse = refuse,
};

enum leat_job_status leat_job_run(struct leat_job *j, struct leat_scratch *scratch)
{
    enum leat_job_status status = LEAT_JOB_DONE;
    if (leat_reads_in_flight(j) && atomic_load_explicit(j->target.cancelled, memory_order_relaxed))
        leat_reads_cancel(j);
    while (status == LEAT_JOB_DONE && j->step != LEAT_STEP_END)
        status = j->context->steps->at[j->step](j, scratch);
    return status;
}

void leat_job_grant(struct leat_job *j, void *buffer, uint64_t room, uint64_t decoding)
{
    j->memory.buffer = buffer;
    j->memory.room = room;
    j->memory.decoding = decoding;
}

void leat_job_refuse(struct leat_job *j, int code)
{
    j->context->steps->refuse(j, code);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The next `bytes` of memory that begins at `base`; NULL while it is only measured. */
static void *carve(uint8_t *base, uint64_t *at, uint64_t bytes)
{
    void *p = base ? base + *at : NULL;
    *at += leat_align64(bytes);
    return p;
}

/* Points the arrays into memory, and returns how much of it they take. */
static uint64_t lay_out(struct leat_job *j, const struct leat_job_context *c, uint8_t *base)
{
    uint64_t n = c->chunk, values = c->chunk_values, at = 0;
    j->chunk.rows = carve(base, &at, n * sizeof *j->chunk.rows);
    j->chunk.positions = carve(base, &at, n * sizeof *j->chunk.positions);
    j->chunk.refs = carve(base, &at, n * sizeof *j->chunk.refs);
    j->chunk.others = carve(base, &at, n * (c->pieces - 1) * sizeof *j->chunk.others);
    j->making.data = carve(base, &at, n * sizeof *j->making.data);
    j->making.args = carve(base, &at, n * sizeof *j->making.args);
    j->chunk.marks = carve(base, &at, n);
    j->chunk.attempts = carve(base, &at, n);
    j->chunk.tries = carve(base, &at, n);
    j->chunk.extents = carve(base, &at, LEAT_EXTENTS * sizeof *j->chunk.extents);
    j->making.inputs = carve(base, &at, c->n_slots * sizeof *j->making.inputs);
    j->chunk.fields = carve(base, &at, c->n_made * sizeof *j->chunk.fields);
    j->making.tied = carve(base, &at, c->pieces * c->most_tied * sizeof *j->making.tied);
    j->making.tied_outputs = carve(base, &at, c->most_tied * sizeof *j->making.tied_outputs);
    j->making.tied_steps = carve(base, &at, c->most_tied * sizeof *j->making.tied_steps);
    j->chunk.values = carve(base, &at, values * sizeof *j->chunk.values);
    j->window.order = carve(base, &at, values * sizeof *j->window.order);
    j->window.spans = carve(
        base, &at, (c->looks_up && values < LEAT_MAX_LOOKUPS ? LEAT_MAX_LOOKUPS : values) * sizeof *j->window.spans);
    j->index.requests = carve(base, &at, c->looks_up ? LEAT_MAX_LOOKUPS * sizeof *j->index.requests : 0);
    j->assembly = carve(base, &at, c->assembly_bytes);
    j->making.cold = carve(base, &at, c->cold_bytes); /* last: it is touched only when it is used */
    return at;
}

uint64_t leat_job_size(const struct leat_job_context *c)
{
    struct leat_job j;
    return lay_out(&j, c, NULL);
}

void leat_job_init(struct leat_job *j, const struct leat_job_context *c, void *memory)
{
    memset(j, 0, sizeof *j);
    j->context = c;
    lay_out(j, c, memory);
    if (c->assembly_bytes)
        memset(j->assembly, 0, c->assembly_bytes);
}

void leat_job_begin(struct leat_job *j, uint64_t first, uint64_t n)
{
    j->first = first;
    j->n = n;
    j->cursor = 0;
    j->step = LEAT_STEP_PLAN;
    j->results.pends = false;
    j->results.failed_row = UINT64_MAX;
    j->chunk.culprit = -1;
    j->results.fetch_ns = 0;
    j->results.fetches = j->results.fetched_bytes = 0;
    memset(j->results.warned, 0, sizeof j->results.warned);
}

void leat_job_destroy(struct leat_job *j)
{
    leat_job_drop_made(j);
    leat_free(j->chunk.made);
    leat_free(j->chunk.samples);
    for (size_t i = 0; i < j->results.n_notes; i++)
        leat_free(j->results.notes[i].reason);
    leat_free(j->results.notes);
    if (j->context->steps->end)
        j->context->steps->end(j);
}
