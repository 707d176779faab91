/*
 * A job: a run of rows of one batch, made only from fixed inputs (plan, data set, program). It knows no loader, takes
 * no lock and no clock decides its work: the same rows come out of the same plan, whoever runs it. It tells its caller
 * its further needs and is called again:
 *
 *     rows of the plan --locate--> values: mapped memory | extents of files --fetch--> bytes --apply--> output rows
 *          ^                                                                                                |
 *          `------------------------------- a substitute, where a sample is broken -------------------------'
 *
 * locate.c, fetch.c and make.c are these three steps, and job.c runs them. policy.c decides on a row that fails, and
 * context.c makes the common part of all jobs of a loader. Rows that are cut from documents are made by packing.c
 * instead. A job goes over its rows in chunks: it locates all values of a chunk, makes the outputs of those that are
 * mapped, and then reads the others. For that it opens one read window after another: rows of the chunk whose values
 * fit into its buffer together. (The window of window.h is another thing: the batches in flight.)
 *
 * Rows go straight into their places of the batch; further results (rows that are broken, the error that ends the
 * batch) stand in the job, for its caller to book.
 */
#ifndef LEAT_ENGINE_JOB_H
#define LEAT_ENGINE_JOB_H

#include <stdatomic.h>

#include "engine/context.h"
#include "engine/fetch.h"

/* The destination of the rows of a batch. All of it is the batch's; each job writes the rows of its run. */
struct leat_job_target {
    struct leat_plan_batch plan;
    const struct leat_program *program; /* the context's, or the variant for this batch */
    const uint64_t *numbers;            /* the rows of a batch that is no run of the plan's; else NULL */
    const char *why;   /* of a run of one row: why its sample is to be replaced; NULL: it is made as planned */
    uint8_t **outputs; /* memory of each: dense rows, or offsets and values */
    int64_t *ids;
    uint64_t *keys;
    int32_t *domains;
    bool *valid, *left_out;
    uint8_t *attempts;                  /* substitutes that were tried for each row; or NULL */
    int64_t **steps;                    /* of a bounded output: the steps made of each row */
    const struct leat_values *made;     /* values that were computed when lengths were wanted; or NULL */
    const _Atomic bool *cancelled;      /* nobody wants its rows any more */
    const _Atomic uint64_t *failed_row; /* rows behind this one are not wanted */
};

/* A row that the policy has left out or replaced. */
struct leat_job_note {
    uint64_t row;
    int64_t planned, delivered; /* -1: left out */
    int code;
    char *reason; /* the booker of the note owns it */
};

enum leat_row_mark {
    LEAT_ROW_WANTED = 0, /* mapped values are made, fetched ones are not */
    LEAT_ROW_BROKEN,     /* a substitute is wanted */
    LEAT_ROW_DONE,       /* made, left out, or its error is the job's */
    LEAT_ROW_BOOKED      /* done, and booked before the others */
};

/* The way a job gets a value. */
enum leat_value_way {
    LEAT_VALUE_NONE = 0, /* its outputs are made where it is mapped */
    LEAT_VALUE_READ,     /* from a file into the buffer */
    LEAT_VALUE_COPIED,   /* from its mapping into the buffer */
    LEAT_VALUE_COMPUTED  /* its source has made it */
};

/* A value of a row that is not made where it is mapped. */
struct leat_job_value {
    const struct leat_feed *feed;
    uint8_t way;                /* enum leat_value_way */
    bool with_rows;             /* a photo's row index is read with it */
    bool checked;               /* its bytes are verified */
    uint32_t span;              /* READ: with which it is read */
    uint64_t place;             /* COPIED: in the buffer */
    const uint8_t *data;        /* COMPUTED */
    struct leat_sample_ref ref; /* READ: resolved, as is; COPIED */
    size_t field;
    struct leat_extent extent; /* of others only its length */
};

struct leat_job {
    const struct leat_job_context *context;
    struct leat_job_target target;
    uint64_t first, n; /* the run */
    uint64_t cursor;   /* rows of the run before this chunk */

    /* the chunk */
    bool planned, prepared;
    size_t count, row; /* rows; those before `row` are done */
    struct leat_plan_row *rows;
    uint64_t *positions; /* for a row cut from documents: that of the one at fault; UINT64_MAX: there is none */
    struct leat_sample_ref *refs;
    struct leat_sample_ref *others; /* of row i and piece p above 0: [i * (pieces - 1) + p - 1] */
    int64_t culprit;                /* of the row at hand: the sample among them that is at fault; -1 */
    const void **data;
    uint8_t *cold;                /* context->cold_bytes */
    struct leat_assembly *packed; /* a row that is cut from documents (packing.h), and its pieces */
    struct leat_pieces pieces;
    struct leat_row *args;
    struct leat_extent *extents;
    struct leat_job_value *values; /* of row i and slot s: [i * context->n_slots + s] */
    struct leat_values *made;      /* values that were computed for this chunk */
    size_t n_made, made_room;
    size_t *fields;               /* context->n_made */
    struct leat_row *inputs;      /* the values of the row at hand, by slot */
    struct leat_room room_of_row; /* for images of open size: asks `result_room` */
    /* Memory for such an image, of a row of the batch. LEAT_IO_PENDING: there is none now, and the job returns ROOM. */
    int (*result_room)(struct leat_job *job, size_t output, uint64_t row, uint64_t bytes, void **memory,
                       struct leat_error *error);
    struct leat_row *tied; /* context->most_tied, as are */
    void **tied_outputs;
    uint64_t *tied_steps;
    uint8_t *marks;          /* enum leat_row_mark */
    uint8_t *attempts;       /* of substitutes */
    uint8_t *tries;          /* of reads that have failed: such a row is read alone, */
    int64_t wake_ns;         /* and not before this time */
    unsigned retry_after_ms; /* the request of the last failure */

    /* the read window: rows whose values are in the buffer, or on their way */
    bool flies; /* reads are expected to complete later: the window is large, and all of it is read at once */
    bool open;
    size_t begin, end;  /* rows of the chunk */
    uint64_t bytes;     /* of the buffer that it needs */
    uint64_t values_at; /* the start of its values in the buffer, behind the requests */
    uint32_t *order;    /* its values, by place in their files */
    struct leat_span *spans;
    size_t n_spans, next; /* spans that were submitted */
    size_t looked;        /* of the chunk's (field, row) pairs, those that were looked up */
    unsigned look_tries;
    struct leat_io_request *lookups; /* for spans of the index */
    _Atomic size_t flying;           /* of these, in flight */
    struct leat_io_request one;      /* for one read at a time; else each span has its own, at the buffer's begin */
    uint8_t *buffer;
    uint64_t room, decoding;                                        /* granted: bytes of buffer; for decoding */
    uint64_t wants, wants_decoding;                                 /* asked for */
    size_t asking;                                                  /* the row that asks */
    bool asked_to_decode;                                           /* its values are read: it asks for decoding */
    void (*read_done)(struct leat_io_request *request, void *user); /* called for each read that was in flight */
    void *user;

    /* its results, for the booker */
    struct leat_error error; /* of the row at hand */
    uint64_t failed_row;     /* UINT64_MAX: none */
    struct leat_error failure;
    struct leat_job_note *notes;
    size_t n_notes, notes_room;
    bool pends; /* some read was pending */
    int64_t fetch_ns;
    uint64_t fetches, fetched_bytes;
    const char *const *warning_names;   /* faults that lenient decoding has passed, NULL: none */
    uint64_t warned[LEAT_MAX_WARNINGS]; /* values */
};

/* Bytes of a job's arrays for a context, and giving it such memory, aligned to 64 bytes. */
uint64_t leat_job_size(const struct leat_job_context *context);
void leat_job_init(struct leat_job *job, const struct leat_job_context *context, void *memory);
void leat_job_destroy(struct leat_job *job);

/* Begins a run: rows [first, first + n) of job->target, which the caller has filled in. */
void leat_job_begin(struct leat_job *job, uint64_t first, uint64_t n);
/* Continues. Any thread, one at a time. */
enum leat_job_status leat_job_run(struct leat_job *job, struct leat_scratch *scratch);
/* After ROOM and RELAX: the memory that the job has now; or why it cannot have more, which becomes its row's error. */
void leat_job_grant(struct leat_job *job, void *buffer, uint64_t room, uint64_t decoding);
void leat_job_refuse(struct leat_job *job, int code);

/* ---- for its steps --------------------------------------------------------------------------- */

/* Whether reads are in flight. */
static inline bool leat_reads_in_flight(const struct leat_job *job)
{
    return atomic_load_explicit(&job->flying, memory_order_relaxed) != 0;
}
/* Row i of the chunk as a row of the batch. */
static inline uint64_t leat_job_row(const struct leat_job *j, size_t i)
{
    return j->first + j->cursor + i;
}
static inline struct leat_job_value *leat_job_value(const struct leat_job *j, const struct leat_feed *feed, size_t i)
{
    return &j->values[i * j->context->n_slots + feed->slot];
}
/* The same of one of the samples that the row is made of. */
static inline struct leat_job_value *leat_job_piece(const struct leat_job *j, const struct leat_feed *feed, size_t i,
                                                    unsigned piece)
{
    return leat_job_value(j, feed, i) + piece * j->context->own_slots;
}
/* Whether the outputs of ordinary chains are made where its value is mapped. */
static inline bool leat_job_is_mapped(const struct leat_job *j, const struct leat_feed *feed, size_t i)
{
    return feed->mapped && !feed->grows &&
           (!feed->fetched || leat_ref_storage(&j->refs[i], feed->field) == LEAT_STORAGE_MAPPED);
}
/* Whether there is a next try of reads that have failed `tries` times with `code`; not before job->wake_ns. */
bool leat_job_back_off(struct leat_job *job, int code, unsigned tries);

#endif
