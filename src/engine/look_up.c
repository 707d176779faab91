/*
 * Step LOOK_UP of a job: sources whose index is not in memory say which parts of it locate a sample. They are asked for
 * together, for all rows of the chunk, and come into the cache of their file; then locating does not wait.
 */
#include "engine/look_up.h"

#include "engine/job.h"

#include <stddef.h>
#include <string.h>

#include "base/clock.h"

#define CROWDED_NS 5000000 /* until a job looks again whether the cache has room for its request */

/* Asks for a part of an index, if that was not done yet. False: not now. */
static bool ask_for(struct leat_job *j, struct leat_source *source, const struct leat_extent *range)
{
    for (size_t k = 0; k < j->window.n_spans; k++)
        if (j->window.spans[k].source == source && j->window.spans[k].file == range->file &&
            j->window.spans[k].offset == range->offset && j->window.spans[k].length == range->length)
            return true;
    struct leat_io_request *request = &j->index.requests[j->window.n_spans];
    struct leat_span *span = &j->window.spans[j->window.n_spans];
    memset(request, 0, offsetof(struct leat_io_request, error));
    if (source->v->file(source, range->file, &request->file, NULL))
        return true; /* locating says why */
    *span = (struct leat_span){.job = j,
                               .source = source,
                               .file = range->file,
                               .offset = range->offset,
                               .length = range->length,
                               .request = request,
                               .state = LEAT_SPAN_FLYING};
    request->offset = range->offset;
    request->length = range->length;
    request->done = j->read_done;
    request->user = span;
    atomic_fetch_add_explicit(&j->window.flying, 1, memory_order_relaxed);
    if (leat_io_submit(request) == LEAT_IO_PENDING) {
        j->results.pends = true;
        j->window.n_spans++;
        return true;
    }
    atomic_fetch_sub_explicit(&j->window.flying, 1, memory_order_relaxed);
    leat_io_release(request->file);
    return request->status != LEAT_E_HELD;
}

/* Takes back the requests: READS: some are still to come; SLEEPS: some are to be made again later. */
static enum leat_job_status take_lookups(struct leat_job *j)
{
    int failed = LEAT_OK;
    for (size_t k = 0; k < j->window.n_spans; k++) {
        struct leat_span *span = &j->window.spans[k];
        if (span->state == LEAT_SPAN_FLYING && !atomic_load_explicit(&span->arrived, memory_order_acquire))
            return LEAT_JOB_READS;
        if (span->state == LEAT_SPAN_FLYING) {
            const struct leat_io_request *request = span->request;
            leat_io_release(request->file);
            span->state = LEAT_SPAN_DONE;
            if ((span->status = request->status) == LEAT_E_IO && request->retry_after_ms > j->window.retry_after_ms)
                j->window.retry_after_ms = request->retry_after_ms;
        }
        failed = span->status == LEAT_E_IO ? span->status : failed;
    }
    j->window.n_spans = j->window.next = 0;
    if (!failed || !leat_job_back_off(j, failed, ++j->index.tries))
        return LEAT_JOB_DONE; /* or locating says why */
    j->index.looked = 0;
    return LEAT_JOB_SLEEPS;
}

/* Asks for the index records that locate row `row` of the chunk in a field. False: not now. */
static bool look_up(struct leat_job *j, const struct leat_feed *feed, size_t row)
{
    struct leat_sample_ref ref = j->chunk.refs[row];
    struct leat_extent ranges[LEAT_LOOKUPS];
    size_t field = feed->field;
    bool asked = true;
    leat_ref_resolve(&ref, &field);
    if (!feed->slotted || !ref.source->looks_up || ref.source->storage[field] != LEAT_STORAGE_EXTENT)
        return true;
    for (size_t k = 0, n = ref.source->v->lookups(ref.source, field, ref.sample, ranges); asked && k < n; k++)
        asked = ask_for(j, ref.source, &ranges[k]);
    return asked;
}

void leat_reads_begin(struct leat_job *j)
{
    j->index.looked = j->index.tries = 0;
    j->window.n_spans = j->window.next = j->window.begin = j->window.end = 0;
    j->window.retry_after_ms = 0;
    j->chunk.wake_ns = 0;
}

enum leat_job_status leat_reads_look_up(struct leat_job *j)
{
    const struct leat_job_context *c = j->context;
    while (c->looks_up) {
        const enum leat_job_status status = j->window.next ? take_lookups(j) : LEAT_JOB_DONE;
        if (status != LEAT_JOB_DONE || atomic_load_explicit(j->target.cancelled, memory_order_relaxed))
            return status;
        bool asked = true;
        while (asked && j->index.looked < c->n_feeds * j->chunk.count &&
               j->window.n_spans + LEAT_LOOKUPS <= LEAT_MAX_LOOKUPS) {
            asked = look_up(j, &c->feeds[j->index.looked / j->chunk.count], j->index.looked % j->chunk.count);
            j->index.looked += asked;
        }
        j->window.next = j->window.n_spans;
        if (!asked && !j->window.n_spans) {
            j->chunk.wake_ns = leat_clock_ns() + CROWDED_NS;
            return LEAT_JOB_SLEEPS;
        }
        if (!j->window.n_spans)
            break;
    }
    return LEAT_JOB_DONE;
}
