/*
 * Reads of a job: fetch.c.
 */
#ifndef LEAT_ENGINE_FETCH_H
#define LEAT_ENGINE_FETCH_H

#include <stdatomic.h>

#include "engine/context.h"

struct leat_job;
struct leat_job_value;

/* One read: a value, or neighbours in one file. */
struct leat_span {
    struct leat_job *job;
    struct leat_source *source;
    uint64_t file, offset, length;
    uint64_t in_vain;                /* bytes between its values */
    uint64_t place;                  /* in the buffer */
    uint8_t *to;                     /* the place in the batch of its one value; NULL: the job's buffer */
    bool apart;                      /* the value's room is larger than its read: it joins no other */
    struct leat_io_request *request; /* while it is in flight */
    _Atomic bool arrived;            /* the request is complete */
    int64_t begun_ns, arrived_ns;    /* where events are recorded, else 0 */
    int status;                      /* when it is done */
    enum { LEAT_SPAN_PLANNED = 0, LEAT_SPAN_FLYING, LEAT_SPAN_DONE } state;
};

/* The rows whose values are in the buffer, or on their way. */
struct leat_read_window {
    bool together;      /* reads are expected to complete later: it is large, and all of it is read at once */
    size_t begin, end;  /* rows of the chunk */
    uint64_t bytes;     /* of the buffer that it needs */
    uint64_t values_at; /* the start of its values in the buffer, behind the requests */
    uint32_t *order;    /* its values, by place in their files */
    struct leat_span *spans;
    size_t n_spans, next;       /* spans that were submitted */
    _Atomic size_t flying;      /* of these, in flight */
    struct leat_io_request one; /* for one read at a time; else each span has its own, at the buffer's begin */
    unsigned retry_after_ms;    /* the request of the last failure */
};

/* Opens the read window at row `begin` of the chunk: its rows, its reads, its bytes. */
void leat_reads_plan(struct leat_job *job, size_t begin);
/* The same for values [0, n) of row i alone, or as many of them as have room: so many. */
size_t leat_reads_plan_values(struct leat_job *job, size_t i, size_t n);
/* Reads on: ROOM; READS: some are in flight; DONE: none is left. */
enum leat_job_status leat_reads_go(struct leat_job *job);
/* Whether reads of the window were in flight when it looked last. */
bool leat_reads_are_out(const struct leat_job *job);
/* The window's rows are made, or it is given up; no read is in flight. */
void leat_reads_close(struct leat_job *job);
/* Whether the values of row i were read: LEAT_OK, LEAT_IO_PENDING, or the error of one, which is job->error if the
 * window is of this row alone. */
int leat_reads_row(const struct leat_job *job, size_t i);
/* The place of the bytes of a value, when its row was read: in the buffer, or in the batch;
 * for a copied one, its destination. */
void *leat_reads_value(const struct leat_job *job, const struct leat_job_value *value);
/* Called by `read_done`, while nobody can free the job: its request is complete. */
void leat_reads_arrived(struct leat_span *span);
/* Cancels all reads in flight. Not under a lock; by the owner of the job. */
void leat_reads_cancel(struct leat_job *job);
/* Ends a job that has no read in flight. */
void leat_reads_abandon(struct leat_job *job);

#endif
