/*
 * The run of a job (leat_job_run), chunk by chunk: it locates the rows of a chunk, reads and makes them in read
 * windows, tries failed reads again, and replaces broken samples.
 */
#include "engine/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/fetch.h"
#include "engine/locate.h"
#include "engine/make.h"
#include "engine/packing.h"
#include "engine/policy.h"

/* ---- reads that fail ------------------------------------------------------------------------- */

static void sleep_for(struct leat_job *j, int64_t ns)
{
    const int64_t wake_ns = leat_clock_ns() + ns;
    j->wake_ns = wake_ns > j->wake_ns ? wake_ns : j->wake_ns;
}

/* Whether there is a next try. It is not before a time: nobody waits for it in a thread. */
bool leat_job_back_off(struct leat_job *j, int rc, unsigned tries)
{
    const unsigned ms = leat_io_pause_ms(rc, j->retry_after_ms, tries);
    sleep_for(j, (int64_t)ms * 1000000);
    return ms;
}

/* The values of row i could not be read. It is tried again, alone: at first to learn which of them is to blame. */
static void read_failed(struct leat_job *j, size_t i, int rc)
{
    struct leat_job_value *v = &j->values[i * j->context->n_slots];
    const struct leat_job_value *blamed = NULL;
    bool cut = false;
    if (j->end > j->begin + 1) {
        j->tries[i] = 1;
        leat_job_back_off(j, rc, 1);
        return;
    }
    for (size_t s = 0; s < j->context->n_slots; s++, v++) {
        if (v->way != LEAT_VALUE_READ || !j->spans[v->span].status)
            continue;
        blamed = v;
        if (rc != LEAT_E_CORRUPT || leat_fetch_bytes(&v->extent, v->with_rows) == v->extent.length)
            continue;
        v->with_rows = false; /* the file was cut: perhaps only the index behind the photo is lost */
        cut = true;
    }
    if (cut)
        return;
    if (leat_job_back_off(j, rc, ++j->tries[i]))
        return;
    const size_t piece = (size_t)(blamed - &j->values[i * j->context->n_slots]) / j->context->own_slots;
    j->culprit = piece ? j->others[i * (j->context->pieces - 1) + piece - 1].id : -1;
    leat_error_at_sample(&j->error, LEAT_NO_SAMPLE, j->context->fields[blamed->feed->field].name);
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

/* Gives row i the next substitute whose mapped outputs can be made. */
static void substitute(struct leat_job *j, struct leat_scratch *scratch, size_t i)
{
    uint64_t row = leat_job_row(j, i);
    while (leat_job_plan_substitute(j, i)) {
        j->args[i] = (struct leat_row){.key = j->rows[i].key, .sample = j->refs[i].id};
        int rc = leat_job_remake_mapped(j, scratch, i);
        if (rc == LEAT_OK) {
            leat_job_row_delivered(j, row, j->refs[i].id);
            j->marks[i] = LEAT_ROW_WANTED;
            j->tries[i] = 0;
            j->target.ids[row] = j->refs[i].id;
            if (j->target.attempts)
                j->target.attempts[row] = j->attempts[i];
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

/* ---- the run --------------------------------------------------------------------------------- */

/* The planned photo is read and decoded again even if it is known to be broken, so that the error or the note says why
 * each time. Returns how many rows are located: those behind an error that is raised are not, as nobody wants them. */
static size_t locate_chunk(struct leat_job *j)
{
    const struct leat_job_context *c = j->context;
    size_t n = j->count;
    for (size_t f = 0; f < c->n_feeds; f++)
        for (size_t i = 0, failed = 0; c->feeds[f].slotted && i < n; i = failed + 1) {
            const int rc = leat_job_locate(j, &c->feeds[f], i, n - i, &failed);
            if (!rc)
                break;
            if (j->marks[failed] == LEAT_ROW_WANTED)
                leat_job_row_failed(j, failed, rc, leat_is_broken(rc));
            if (j->failed_row <= leat_job_row(j, failed))
                n = failed;
        }
    for (size_t i = 0, failed = 0; i < n; i = failed + 1) {
        const int rc = leat_job_locate_others(j, i, n - i, &failed);
        if (!rc)
            break;
        if (j->marks[failed] == LEAT_ROW_WANTED)
            leat_job_row_failed(j, failed, rc, leat_is_broken(rc));
        if (j->failed_row <= leat_job_row(j, failed))
            n = failed;
    }
    memset(j->marks + n, LEAT_ROW_DONE, j->count - n);
    return n;
}

/* Values of rows [i, i + n) that sources compute: all at once, and in parts if that fails, so that no other row than
 * the one at fault fails. */
static void compute_rows(struct leat_job *j, size_t i, size_t n)
{
    while (n) {
        size_t failed = 0, half;
        int rc = j->failed_row < leat_job_row(j, i) ? LEAT_OK : leat_job_compute(j, i, n, &failed);
        if (j->failed_row < leat_job_row(j, i))
            memset(j->marks + i, LEAT_ROW_DONE, n); /* nobody wants them any more */
        if (!rc)
            return;
        if (n > 1 && rc == LEAT_E_IO &&
            failed == i + n) { /* the call itself failed: trying parts of it would not help */
            leat_job_raise(j, leat_job_row(j, i));
            memset(j->marks + i, LEAT_ROW_DONE, n);
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

/* Rows of the run that are made for nothing: their batch is not wanted, or an earlier row of it has failed. */
static bool is_futile(const struct leat_job *j)
{
    uint64_t row = j->first + j->cursor;
    return atomic_load_explicit(j->target.cancelled, memory_order_relaxed) || j->failed_row < row ||
           atomic_load_explicit(j->target.failed_row, memory_order_relaxed) < row;
}

/* Plans the next rows and makes the mapped ones. */
static enum leat_job_status start_chunk(struct leat_job *j, struct leat_scratch *scratch)
{
    const struct leat_job_context *c = j->context;
    const struct leat_job_target *to = &j->target;
    uint64_t first = j->first + j->cursor, failed;
    if (!j->planned) {
        j->row = 0;
        j->open = false;
        leat_job_drop_made(j);
        if (leat_job_plan(j, first, j->n - j->cursor, &failed)) {
            leat_job_raise(j, failed);
            memset(j->marks, LEAT_ROW_DONE, j->count);
            j->prepared = true;
            return LEAT_JOB_DONE;
        }
    }
    const enum leat_job_status status = leat_reads_look_up(j);
    if (status != LEAT_JOB_DONE)
        return status;
    j->prepared = true;
    if (is_futile(j)) {
        memset(j->marks, LEAT_ROW_DONE, j->count);
        return LEAT_JOB_DONE;
    }
    for (size_t i = 0; i < j->count; i++) {
        to->ids[first + i] = j->refs[i].id;
        to->keys[first + i] = j->rows[i].key;
        to->domains[first + i] = (int32_t)j->rows[i].piece.source;
        to->valid[first + i] = j->rows[i].valid;
        j->args[i] = (struct leat_row){.key = j->rows[i].key, .sample = j->refs[i].id};
    }
    memset(j->marks, LEAT_ROW_WANTED, j->count);
    memset(j->tries, 0, j->count);
    j->wake_ns = 0;
    memset(j->attempts, 0, j->count);
    if (to->why) { /* functions have refused its sample */
        j->attempts[0] = to->attempts[first];
        j->marks[0] = LEAT_ROW_BROKEN;
        leat_fail(&j->error, LEAT_E_DECODE, "%s", to->why);
        return LEAT_JOB_DONE;
    }
    for (size_t f = 0; f < c->n_feeds; f++)
        for (size_t k = 0; c->feeds[f].mapped && k < c->feeds[f].n_outputs; k++)
            leat_job_make_mapped(j, scratch, &c->feeds[f], c->feeds[f].outputs[k]);
    const size_t located = c->n_slots ? locate_chunk(j) : j->count;
    if (c->n_made)
        compute_rows(j, 0, located);
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

/* Reads and makes the rows of the open window, those first whose values come first. */
static enum leat_job_status run_window(struct leat_job *j, struct leat_scratch *scratch)
{
    int64_t begun = leat_clock_ns();
    enum leat_job_status status = leat_reads_go(j);
    j->fetch_ns += leat_clock_ns() - begun;
    if (status == LEAT_JOB_ROOM) {
        j->asking = j->begin;
        j->asked_to_decode = false;
        return status;
    }
    bool put_off = false;
    for (size_t i = j->begin; i < j->end; i++) {
        int rc = j->marks[i] == LEAT_ROW_WANTED && !(j->tries[i] && j->end > j->begin + 1) ? leat_reads_row(j, i)
                                                                                           : LEAT_IO_PENDING;
        if (rc == LEAT_IO_PENDING)
            continue;
        if (rc)
            read_failed(j, i, rc);
        else if (is_put_off(j, scratch, i))
            put_off = true;
        else if (leat_job_make_row(j, scratch, i) == LEAT_JOB_ROOM) {
            j->asking = i;
            j->asked_to_decode = true;
            return LEAT_JOB_ROOM;
        }
    }
    if (!put_off || status != LEAT_JOB_DONE)
        return status;
    sleep_for(j, PUT_OFF_NS);
    return LEAT_JOB_SLEEPS;
}

/* The next row of the chunk that is wanted; those whose reads have failed come last. */
static size_t next_row(struct leat_job *j, struct leat_scratch *scratch)
{
    size_t failed = j->count;
    while (j->row < j->count && j->marks[j->row] >= LEAT_ROW_DONE)
        j->row++;
    for (size_t i = j->row; i < j->count; i++) {
        while (j->marks[i] == LEAT_ROW_BROKEN)
            substitute(j, scratch, i);
        if (j->marks[i] == LEAT_ROW_WANTED && !j->tries[i])
            return i;
        if (j->marks[i] == LEAT_ROW_WANTED && failed == j->count)
            failed = i;
    }
    return failed;
}

/* The rows of the chunk that are not made, window by window. */
static enum leat_job_status make_fetched(struct leat_job *j, struct leat_scratch *scratch)
{
    for (;;) {
        if (j->open) {
            enum leat_job_status status = run_window(j, scratch);
            if (status != LEAT_JOB_DONE)
                return status;
            j->open = false;
            return LEAT_JOB_RELAX;
        }
        size_t i = next_row(j, scratch);
        if (i == j->count)
            return LEAT_JOB_DONE;
        if (j->tries[i] && leat_clock_ns() < j->wake_ns)
            return LEAT_JOB_SLEEPS;
        leat_reads_plan(j, i);
    }
}

/* The rows of the chunk that are not made, if rows are cut from documents. */
static enum leat_job_status make_packed(struct leat_job *j, struct leat_scratch *scratch)
{
    for (; j->row < j->count; j->row += j->marks[j->row] >= LEAT_ROW_DONE) {
        enum leat_job_status status = LEAT_JOB_DONE;
        if (j->marks[j->row] == LEAT_ROW_BROKEN)
            substitute(j, scratch, j->row);
        else if (j->marks[j->row] == LEAT_ROW_WANTED)
            status = leat_packing_make_row(j, scratch, j->row);
        if (status != LEAT_JOB_DONE)
            return status;
    }
    return LEAT_JOB_DONE;
}

enum leat_job_status leat_job_run(struct leat_job *j, struct leat_scratch *scratch)
{
    if (j->open && leat_reads_in_flight(j) && atomic_load_explicit(j->target.cancelled, memory_order_relaxed))
        leat_reads_cancel(j);
    while (j->cursor < j->n && (j->open || !is_futile(j))) {
        enum leat_job_status status = j->prepared ? LEAT_JOB_DONE : start_chunk(j, scratch);
        if (status == LEAT_JOB_DONE && j->context->packing)
            status = make_packed(j, scratch);
        else if (status == LEAT_JOB_DONE && (j->context->n_slots || j->context->on_error == LEAT_ON_ERROR_SUBSTITUTE))
            status = make_fetched(j, scratch);
        if (status != LEAT_JOB_DONE)
            return status;
        j->cursor += j->count;
        j->planned = j->prepared = false;
        leat_job_drop_made(j);
    }
    if (j->context->packing)
        leat_packing_drop_row(j); /* which nobody wants any more */
    return LEAT_JOB_DONE;
}

void leat_job_grant(struct leat_job *j, void *buffer, uint64_t room, uint64_t decoding)
{
    j->buffer = buffer;
    j->room = room;
    j->decoding = decoding;
}

void leat_job_refuse(struct leat_job *j, int code)
{
    if (j->context->packing) {
        leat_packing_refuse(j, code);
        return;
    }
    const struct leat_job_value *v = &j->values[j->asking * j->context->n_slots];
    if (!j->asked_to_decode)
        j->open = false;
    if (!j->asked_to_decode && j->end > j->begin + 1) { /* less may do */
        j->tries[j->begin] = 1;
        return;
    }
    while (v->way == LEAT_VALUE_NONE)
        v++;
    leat_job_at_value(j, v, code);
    leat_job_refuse_row(j, j->asking, code);
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
    uint64_t n = c->chunk, values = c->packing ? leat_packing_values() : c->n_slots * n, at = 0;
    j->rows = carve(base, &at, n * sizeof *j->rows);
    j->positions = carve(base, &at, n * sizeof *j->positions);
    j->refs = carve(base, &at, n * sizeof *j->refs);
    j->others = carve(base, &at, n * (c->pieces - 1) * sizeof *j->others);
    j->data = carve(base, &at, n * sizeof *j->data);
    j->args = carve(base, &at, n * sizeof *j->args);
    j->marks = carve(base, &at, n);
    j->attempts = carve(base, &at, n);
    j->tries = carve(base, &at, n);
    j->extents = carve(base, &at, n * sizeof *j->extents);
    j->inputs = carve(base, &at, c->n_slots * sizeof *j->inputs);
    j->fields = carve(base, &at, c->n_made * sizeof *j->fields);
    j->tied = carve(base, &at, c->pieces * c->most_tied * sizeof *j->tied);
    j->tied_outputs = carve(base, &at, c->most_tied * sizeof *j->tied_outputs);
    j->tied_steps = carve(base, &at, c->most_tied * sizeof *j->tied_steps);
    j->values = carve(base, &at, values * sizeof *j->values);
    j->order = carve(base, &at, values * sizeof *j->order);
    j->spans =
        carve(base, &at, (c->looks_up && values < LEAT_MAX_LOOKUPS ? LEAT_MAX_LOOKUPS : values) * sizeof *j->spans);
    j->lookups = carve(base, &at, c->looks_up ? LEAT_MAX_LOOKUPS * sizeof *j->lookups : 0);
    j->packed = carve(base, &at, c->packing ? leat_packing_row_bytes(c->packing) : 0);
    j->cold = carve(base, &at, c->cold_bytes); /* last: it is touched only when it is used */
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
    if (c->packing)
        memset(j->packed, 0, leat_packing_row_bytes(c->packing));
}

void leat_job_begin(struct leat_job *j, uint64_t first, uint64_t n)
{
    j->first = first;
    j->n = n;
    j->cursor = 0;
    j->planned = j->prepared = j->open = j->pends = false;
    j->failed_row = UINT64_MAX;
    j->culprit = -1;
    j->fetch_ns = 0;
    j->fetches = j->fetched_bytes = 0;
    memset(j->warned, 0, sizeof j->warned);
}

void leat_job_destroy(struct leat_job *j)
{
    leat_job_drop_made(j);
    leat_free(j->made);
    for (size_t i = 0; i < j->n_notes; i++)
        leat_free(j->notes[i].reason);
    leat_free(j->notes);
    leat_free(j->pieces.at);
    if (j->context->packing)
        leat_packing_end(j);
}
