/*
 * Step FETCH of a job: bytes. A read window is a run of rows of the chunk whose values fit into the buffer
 * together. All its reads are known before the first is submitted: values are sorted by file and offset, and neighbours
 * are read as one.
 *
 *     file     ...[row 3]..[row 0][row 7].....................[row 2][row 5]...
 *     spans       |-------- one read --------|                |- one read -|        small gaps are read along
 *     buffer   [requests] [row 3]..[row 0][row 7] [row 2][row 5]
 *
 * If reads complete at once (local files), a window is one large value or as many small ones as fill some pages, so
 * that bytes are used while they are in the cache. If they complete later, it is as large as the job may have, and its
 * rows are made as they arrive.
 *
 * A value that is mapped, and goes into the batch as it is, has no part in this: a read of its own costs no system
 * call, and goes straight to its place in the batch.
 *
 * A read that fails has a row of its own the next time: only a window of one row gives the error.
 */
#include "engine/fetch.h"

#include "engine/job.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

/* Bytes between two values that are read rather than skipped: for a local file a call costs as much as copying 8 KiB,
 * and over a network a request costs far more than this. */
#define MAX_GAP 8192
/* ... and all of them together are at most so many times the values: else most of the bytes are of no use. */
#define MOST_IN_VAIN 3
/* A read that joins values ends here, so that those of a window arrive one after the other, and side by side. */
#define MAX_JOINED (UINT64_C(1) << 20)
#define ALIGN 64
#define MAX_TOGETHER 256 /* requests per call of the backend */

/* ---- planning -------------------------------------------------------------------------------- */

/* Asks the processor for a value that is to be read, if it is mapped. False: it is not. */
static bool expect(const struct leat_job_value *v)
{
    const struct leat_source *source = v->way == LEAT_VALUE_READ ? v->ref.source : NULL;
    return source && source->v->expect && source->v->expect(source, v->ref.sample, &v->extent);
}

/* Chooses where the values of row i are read to. */
static void aim_row(struct leat_job *j, size_t i)
{
    struct leat_job_value *v = &j->chunk.values[i * j->context->n_slots];
    for (size_t s = 0; s < j->context->n_slots; s++, v++) {
        const bool mapped = expect(v);
        uint64_t room = 0;
        v->to = mapped && !j->window.together && s < j->context->own_slots ? leat_job_straight(j, v, i, &room) : NULL;
        v->to = room == v->extent.length ? v->to : NULL;
    }
}

/* Room for the values of row i, each aligned; none if it is made, or read to its place in the batch. */
static uint64_t row_room(const struct leat_job *j, size_t i)
{
    const struct leat_job_value *v = &j->chunk.values[i * j->context->n_slots];
    uint64_t sum = 0;
    for (size_t s = 0; s < j->context->n_slots; s++, v++) {
        uint64_t room = v->to                         ? 0
                        : v->way == LEAT_VALUE_READ   ? leat_fetch_room(&v->extent, v->with_rows)
                        : v->way == LEAT_VALUE_COPIED ? v->extent.length
                                                      : 0;
        if (!leat_add_u64(sum, ALIGN, &sum) || !leat_add_u64(sum, room, &sum))
            return UINT64_MAX;
    }
    return sum;
}

/* Where the read of a value begins. */
static uint64_t read_at(const struct leat_job_value *v)
{
    return v->extent.offset - v->extent.before;
}

static int compare(const void *a, const void *b, void *job)
{
    const struct leat_job *j = job;
    const struct leat_job_value *x = &j->chunk.values[*(const uint32_t *)a],
                                *y = &j->chunk.values[*(const uint32_t *)b];
    uintptr_t sx = (uintptr_t)x->ref.source, sy = (uintptr_t)y->ref.source;
    if (sx != sy)
        return sx < sy ? -1 : 1;
    if (x->extent.file != y->extent.file)
        return x->extent.file < y->extent.file ? -1 : 1;
    return (read_at(x) > read_at(y)) - (read_at(x) < read_at(y));
}

/* Notes the values from `first` up to `end` that are read, in the order in which they stand in their files. */
static size_t order_values(struct leat_job *j, size_t first, size_t end)
{
    size_t n = 0;
    bool sorted = true;
    for (size_t v = first; v < end; v++)
        if (j->chunk.values[v].way == LEAT_VALUE_READ) {
            j->window.order[n++] = (uint32_t)v;
            sorted = sorted && (n < 2 || compare(&j->window.order[n - 2], &j->window.order[n - 1], j) <= 0);
        }
    if (!sorted)
        qsort_r(j->window.order, n, sizeof *j->window.order, compare, j);
    return n;
}

/* Whether a value can be read together with those of a span; takes the bytes between them off `spare`. */
static bool joins(const struct leat_span *span, const struct leat_job_value *v, uint64_t bytes, uint64_t room,
                  uint64_t *spare)
{
    if (span->source != v->ref.source || span->file != v->extent.file || room != bytes || span->apart)
        return false;
    uint64_t before = read_at(v) - span->offset, gap = before > span->length ? before - span->length : 0;
    if (gap > MAX_GAP || gap > *spare + ALIGN || span->in_vain + gap > MOST_IN_VAIN * (span->length - span->in_vain) ||
        (span->place + v->extent.offset - span->offset) % v->feed->align || before + bytes > MAX_JOINED)
        return false;
    *spare = *spare + ALIGN - gap; /* it needs no place of its own */
    return true;
}

/* Cuts the values from `first` up to `last` into reads, and gives the start of each in the buffer. `spare`: bytes that
 * may lie between values of one read. */
static void plan_spans(struct leat_job *j, size_t first, size_t last, uint64_t spare)
{
    uint64_t end = 0;
    for (size_t k = 0, n = order_values(j, first, last); k < n; k++) {
        struct leat_job_value *v = &j->chunk.values[j->window.order[k]];
        uint64_t bytes = leat_fetch_bytes(&v->extent, v->with_rows), room = leat_fetch_room(&v->extent, v->with_rows);
        struct leat_span *span = j->window.n_spans ? &j->window.spans[j->window.n_spans - 1] : NULL;
        if (v->to || !span || !joins(span, v, bytes, room, &spare)) {
            span = &j->window.spans[j->window.n_spans++];
            *span = (struct leat_span){.job = j,
                                       .source = v->ref.source,
                                       .file = v->extent.file,
                                       .offset = read_at(v),
                                       .place = leat_align64(end) + (0 - v->extent.before) % v->feed->align,
                                       .apart = v->to || room != bytes,
                                       .to = v->to};
        }
        uint64_t before = read_at(v) - span->offset;
        span->in_vain += before > span->length ? before - span->length : 0;
        span->length = before + bytes > span->length ? before + bytes : span->length;
        if (!v->to && span->place + before + room > end)
            end = span->place + before + room;
        v->span = (uint32_t)(j->window.n_spans - 1);
    }
    for (size_t v = first; v < last; v++)
        if (j->chunk.values[v].way == LEAT_VALUE_COPIED) {
            j->chunk.values[v].place = leat_align64(end);
            end = j->chunk.values[v].place + j->chunk.values[v].extent.length;
        }
    /* The requests lie before the values; each read has its own. */
    j->window.values_at = j->window.together ? leat_align64(j->window.n_spans * sizeof(struct leat_io_request)) : 0;
    j->window.bytes = j->window.values_at + end;
}

static uint64_t begin_window(struct leat_job *j)
{
    j->window.together |= j->results.pends;
    return j->window.together ? j->context->fly_bytes : j->context->window_bytes;
}

/* Opens the window for these values, which take `sum` bytes of `limit`. */
static void open_window(struct leat_job *j, size_t first, size_t end, uint64_t sum, uint64_t limit)
{
    j->window.n_spans = 0;
    j->window.bytes = sum;
    if (sum < UINT64_MAX)
        plan_spans(j, first, end, sum < limit ? limit - sum : 0);
    j->window.next = 0;
    j->window.retry_after_ms = 0;
}

void leat_reads_plan(struct leat_job *j, size_t begin)
{
    const uint64_t limit = begin_window(j);
    uint64_t sum = 0;
    j->window.begin = begin;
    for (j->window.end = begin; j->window.end < j->chunk.count; j->window.end++) {
        aim_row(j, j->window.end);
        uint64_t room = row_room(j, j->window.end);
        if (j->window.end > begin &&
            (j->chunk.marks[j->window.end] != LEAT_ROW_WANTED || j->chunk.tries[j->window.end] ||
             j->chunk.tries[begin] || room > limit || sum > limit - room))
            break;
        sum += room;
        if (room == UINT64_MAX) { /* an extent that makes no sense: it is refused when it asks for memory */
            j->window.end++;
            break;
        }
    }
    open_window(j, j->window.begin * j->context->n_slots, j->window.end * j->context->n_slots, sum, limit);
}

size_t leat_reads_plan_values(struct leat_job *j, size_t i, size_t n)
{
    const uint64_t limit = begin_window(j);
    uint64_t sum = 0;
    size_t v = 0;
    for (; v < n; v++) {
        expect(&j->chunk.values[v]);
        uint64_t room;
        if (!leat_add_u64(leat_fetch_room(&j->chunk.values[v].extent, false), ALIGN, &room))
            room = UINT64_MAX; /* it makes no sense, and is refused when it asks for memory */
        if (v && (room > limit || sum > limit - room))
            break;
        sum += room;
    }
    j->window.begin = i;
    j->window.end = i + 1;
    open_window(j, 0, v, sum, limit);
    return v;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_alone(const struct leat_job *j)
{
    return j->window.end == j->window.begin + 1;
}

/* The read is over. Only a window of one row knows the error. */
static void finish(struct leat_job *j, struct leat_span *span, int status, unsigned retry_after_ms,
                   const struct leat_error *error)
{
    span->state = LEAT_SPAN_DONE;
    span->status = status;
    if (status && is_alone(j))
        j->error = *error;
    if (!status)
        j->results.fetched_bytes += span->length;
    if (status == LEAT_E_IO)
        j->window.retry_after_ms =
            retry_after_ms > j->window.retry_after_ms ? retry_after_ms : j->window.retry_after_ms;
}

/* For the record: the read is over. */
static void trace_read(const struct leat_job *j, const struct leat_span *span)
{
    const struct leat_trace_event event = {.begin_ns = span->begun_ns,
                                           .kind = span->arrived_ns ? LEAT_TRACE_FLIGHT : LEAT_TRACE_READ,
                                           .epoch = j->target.plan.epoch,
                                           .step = j->target.plan.step,
                                           .bytes = span->length};
    leat_trace_add(j->context->trace, &event, span->arrived_ns ? span->arrived_ns : leat_clock_ns());
}

static void take_back(struct leat_job *j, struct leat_span *span)
{
    if (span->begun_ns)
        trace_read(j, span);
    leat_io_release(span->request->file);
    finish(j, span, span->request->status, span->request->retry_after_ms, &span->request->error);
    span->request = NULL;
}

/* The place of a value among those that were read; there is no buffer if all of them are empty. */
static uint8_t *in_buffer(const struct leat_job *j, uint64_t place)
{
    return j->memory.buffer ? j->memory.buffer + j->window.values_at + place : NULL;
}

/* Fills in the request of a read. False: the read is over, with the error of opening its file. */
static bool begin(struct leat_job *j, struct leat_span *span, struct leat_io_request *request)
{
    struct leat_error error;
    memset(request, 0, offsetof(struct leat_io_request, error));
    int rc = span->source->v->file(span->source, span->file, &request->file, &error);
    if (rc) {
        finish(j, span, rc, 0, &error);
        return false;
    }
    request->offset = span->offset;
    request->length = span->length;
    request->buffer = span->to ? span->to : in_buffer(j, span->place);
    request->done = j->read_done;
    request->user = span;
    span->request = request;
    atomic_store_explicit(&span->arrived, false, memory_order_relaxed);
    span->begun_ns = j->context->trace ? leat_trace_begin(j->context->trace) : 0;
    span->arrived_ns = 0;
    return true;
}

/* One after the other, with one request for all: mostly each is complete when submit returns. */
static void read_in_turn(struct leat_job *j)
{
    while (j->window.next < j->window.n_spans) {
        struct leat_span *span = &j->window.spans[j->window.next++];
        if (!begin(j, span, &j->window.one))
            continue;
        span->state = LEAT_SPAN_FLYING;
        atomic_store_explicit(&j->window.flying, 1, memory_order_relaxed);
        if (leat_io_submit(&j->window.one) == LEAT_IO_PENDING) {
            j->results.pends = true;
            return;
        }
        atomic_store_explicit(&j->window.flying, 0, memory_order_relaxed);
        take_back(j, span);
    }
}

/* All at once. */
static void read_together(struct leat_job *j)
{
    struct leat_io_request *all = (struct leat_io_request *)(void *)j->memory.buffer, *some[MAX_TOGETHER];
    int results[MAX_TOGETHER];
    while (j->window.next < j->window.n_spans) {
        size_t n = 0;
        for (; j->window.next < j->window.n_spans && n < MAX_TOGETHER; j->window.next++)
            if (begin(j, &j->window.spans[j->window.next], &all[j->window.next])) {
                j->window.spans[j->window.next].state = LEAT_SPAN_FLYING;
                some[n++] = &all[j->window.next];
            }
        atomic_fetch_add_explicit(&j->window.flying, n, memory_order_relaxed);
        leat_io_submit_many(some, n, results);
        for (size_t k = 0; k < n; k++) {
            j->results.pends |= results[k] == LEAT_IO_PENDING;
            if (results[k] != LEAT_IO_PENDING) {
                atomic_fetch_sub_explicit(&j->window.flying, 1, memory_order_relaxed);
                take_back(j, some[k]->user);
            }
        }
    }
}

enum leat_job_status leat_reads_go(struct leat_job *j)
{
    if (j->window.bytes > j->memory.room) {
        j->memory.wants = j->window.bytes;
        j->memory.wants_decoding = 0;
        return LEAT_JOB_ROOM;
    }
    bool flying;
    do {
        flying = false;
        for (size_t k = 0; k < j->window.next; k++) {
            struct leat_span *span = &j->window.spans[k];
            if (span->state == LEAT_SPAN_FLYING && atomic_load_explicit(&span->arrived, memory_order_acquire))
                take_back(j, span);
            flying |= span->state == LEAT_SPAN_FLYING;
        }
        if (j->window.next < j->window.n_spans && !flying)
            (j->window.together ? read_together : read_in_turn)(j);
        else
            break;
    } while (true);
    return flying ? LEAT_JOB_READS : LEAT_JOB_DONE;
}

bool leat_reads_are_out(const struct leat_job *j)
{
    for (size_t k = 0; k < j->window.next; k++)
        if (j->window.spans[k].state == LEAT_SPAN_FLYING)
            return true;
    return false;
}

void leat_reads_close(struct leat_job *j)
{
    j->window.next = 0;
}

void leat_reads_arrived(struct leat_span *span)
{
    if (span->begun_ns)
        span->arrived_ns = leat_clock_ns();
    atomic_fetch_sub_explicit(&span->job->window.flying, 1, memory_order_relaxed);
    atomic_store_explicit(&span->arrived, true, memory_order_release);
}

void leat_reads_cancel(struct leat_job *j)
{
    for (size_t k = 0; k < j->window.next; k++) {
        struct leat_span *span = &j->window.spans[k];
        if (span->state == LEAT_SPAN_FLYING && !atomic_load_explicit(&span->arrived, memory_order_acquire))
            leat_io_cancel(span->request);
    }
}

void leat_reads_abandon(struct leat_job *j)
{
    for (size_t k = 0; k < j->window.next; k++)
        if (j->window.spans[k].state == LEAT_SPAN_FLYING)
            take_back(j, &j->window.spans[k]);
    leat_reads_close(j);
    if (j->context->steps->drop)
        j->context->steps->drop(j);
}

int leat_reads_row(const struct leat_job *j, size_t i)
{
    const struct leat_job_value *v = &j->chunk.values[i * j->context->n_slots];
    int rc = LEAT_OK;
    for (size_t s = 0; s < j->context->n_slots; s++, v++) {
        if (v->way != LEAT_VALUE_READ)
            continue;
        if (j->window.spans[v->span].state != LEAT_SPAN_DONE)
            return LEAT_IO_PENDING;
        rc = rc ? rc : j->window.spans[v->span].status;
    }
    return rc;
}

void *leat_reads_value(const struct leat_job *j, const struct leat_job_value *v)
{
    if (v->way == LEAT_VALUE_COMPUTED)
        return (void *)(uintptr_t)v->data; /* which is read only */
    if (v->way == LEAT_VALUE_COPIED)
        return in_buffer(j, v->place);
    const struct leat_span *span = &j->window.spans[v->span];
    if (span->to)
        return span->to;
    return in_buffer(j, span->place + (v->extent.offset - span->offset));
}
