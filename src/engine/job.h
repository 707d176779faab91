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

#include "data/dataset.h"
#include "engine/trace.h"
#include "op/program.h"
#include "plan/plan.h"

/* One field that the program takes, and the outputs that it feeds. */
struct leat_feed {
    size_t field, n_outputs;
    size_t *outputs, n_all; /* of ordinary chains n_outputs; behind them those of tuples that decode it */
    bool fixed;             /* its values have one size: */
    uint64_t value_bytes;
    uint8_t align;          /* bytes of an element */
    bool mapped;            /* some source has it mapped */
    bool computed;          /* some source computes it */
    bool fetched;           /* some source computes it, or has it in extents */
    bool gathered;          /* the chain of a tuple takes it of several samples */
    bool tied;              /* the chain of a tuple takes it, from plain memory: mapped values are copied; */
    bool grows;             /* ... or some output grows, and all are made from there */
    bool slotted;           /* fetched or tied: it has a place in the arrays of values of a row */
    size_t slot;            /* slotted: the number of the slot */
    size_t made;            /* computed: its number among the computed fields */
    bool ragged;            /* the length of some output follows from its value's */
    bool decodes, delivers; /* some output is decoded; some is not */
    bool strict;            /* some is decoded, and not leniently */
};

/* The base of all jobs of a loader: fixed after open. */
struct leat_job_context {
    struct leat_dataset *dataset;
    const struct leat_field *fields;    /* of the program */
    const struct leat_field *documents; /* of the data set, if rows are cut from documents */
    struct leat_packing_rule
        *packing; /* owned: the rules of the cuts, one per source of the plan; NULL: a row is a sample */
    const struct leat_plan *plan;
    uint64_t key;           /* the number that the keys of rows are mixed with; 0: they are the plan's */
    uint64_t *source_begin; /* owned: position of each of the plan's sources in `dataset`, and */
    uint64_t *row_begin;    /* ... of its first row among all rows that are cut; owned */
    const struct leat_program *program;
    struct leat_feed *feeds;
    size_t n_feeds;   /* fields that the program takes */
    size_t n_slots;   /* the number of those whose values a job holds while it makes a row; the others are made where
                       * they lie */
    size_t own_slots; /* ... of one sample: a row may be made of `pieces` */
    unsigned pieces;
    size_t n_made;    /* of these, that some source computes */
    size_t most_tied; /* the most fields, or outputs, of a tuple's chain */
    bool sizes_made;  /* lengths of outputs follow from computed values */
    enum leat_on_error on_error;
    struct leat_trace *trace; /* or NULL */
    unsigned chunk;           /* rows that a job handles at a time */
    uint64_t made_bytes;      /* of computed values of fixed size, of a chunk */
    uint64_t cold_bytes;      /* the bytes of a job for values of a cold file (format/source.h), all of one output at a
                               * time */
    bool looks_up;            /* some source may have to read the place of a value */
    bool restores; /* photos in the fast form are delivered as they came: scratch has LEAT_DECODE_BYTES for that */
    uint64_t window_bytes; /* of a read window of several rows, if reads complete at once */
    uint64_t fly_bytes;    /* ... and if they complete later */
};

/* Fills in the fields that follow from the program and from the ways to the data set's fields: feeds, chunk,
 * cold_bytes. NOMEM. */
int leat_job_context_make(struct leat_job_context *context, struct leat_error *error);
void leat_job_context_destroy(struct leat_job_context *context);
/* The needs of values, learned from a few samples: bytes of a row in ragged outputs, and the most memory that reading a
 * row takes; sets `restores`. */
void leat_job_context_probe(struct leat_job_context *context, uint64_t *ragged_row, uint64_t *largest);

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

/* Blocks of an index that a job asks for at a time. */
#define LEAT_MAX_LOOKUPS 16

/* One read: a value, or neighbours in one file. */
struct leat_span {
    struct leat_job *job;
    struct leat_source *source;
    uint64_t file, offset, length;
    uint64_t in_vain;                /* bytes between its values */
    uint64_t place;                  /* in the buffer */
    bool apart;                      /* the value's room is larger than its read: it joins no other */
    struct leat_io_request *request; /* while it is in flight */
    _Atomic bool arrived;            /* the request is complete */
    int64_t begun_ns, arrived_ns;    /* where events are recorded, else 0 */
    int status;                      /* when it is done */
    enum { LEAT_SPAN_PLANNED = 0, LEAT_SPAN_FLYING, LEAT_SPAN_DONE } state;
};

enum leat_job_status {
    LEAT_JOB_DONE = 0,
    LEAT_JOB_READS,  /* reads are in flight: to be called again when one of them is complete */
    LEAT_JOB_ROOM,   /* it needs a buffer of `wants` bytes, and to decode `wants_decoding`: leat_job_grant or
                        leat_job_refuse */
    LEAT_JOB_SLEEPS, /* it can go on at `wake_ns`: a read is tried again, or another thread has decoded a photo */
    LEAT_JOB_RELAX,  /* memory beyond the usual may be released: leat_job_grant, and call again */
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
/* Called by `read_done`, while nobody can free the job: its request is complete. */
void leat_reads_arrived(struct leat_span *span);
static inline bool leat_reads_in_flight(const struct leat_job *job)
{
    return atomic_load_explicit(&job->flying, memory_order_relaxed) != 0;
}
/* Cancels all reads in flight. Not under a lock; by the owner of the job. */
void leat_reads_cancel(struct leat_job *job);
/* Ends a job that has no read in flight. */
void leat_reads_abandon(struct leat_job *job);
/* Sums of the steps of ragged outputs, of bounded ones the most that they can be: offsets[o][i + 1] for row i of the
 * batch, if offsets[o] is not NULL. READS and SLEEPS: it is to be called again. Values that a source computes for that
 * are left in `made`, which was initialised for context->n_made and the rows, or is NULL. */
enum leat_job_status leat_job_size_rows(struct leat_job *job, int64_t *const *offsets, struct leat_values *made);

/* ---- between the steps ----------------------------------------------------------------------- */

/* locate.c: the next rows of the run as the plan names them, and their samples. An error is that of row *failed of the
 * batch: it cannot be planned any more. */
int leat_job_plan(struct leat_job *job, uint64_t first, uint64_t left, uint64_t *failed);
/* Row i gets its next substitute. False: there is none. */
bool leat_job_plan_substitute(struct leat_job *job, size_t i);
/* Finds how the job gets each value of a field, for rows [i, i + n), and where. An error is that of row *failed. */
int leat_job_locate(struct leat_job *job, const struct leat_feed *feed, size_t i, size_t n, size_t *failed);
/* Values of rows [i, i + n) that sources compute: job->error, and row *failed that is to blame, i + n: not known. */
int leat_job_compute(struct leat_job *job, size_t i, size_t n, size_t *failed);
/* Releases the values computed for the chunk. */
void leat_job_drop_made(struct leat_job *job);
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
/* The way the job gets the values of the other samples of rows [i, i + n). An error is that of row *failed. */
int leat_job_locate_others(struct leat_job *job, size_t i, size_t n, size_t *failed);
/* Whether the outputs of ordinary chains are made where its value is mapped. */
static inline bool leat_job_is_mapped(const struct leat_job *j, const struct leat_feed *feed, size_t i)
{
    return feed->mapped && !feed->grows &&
           (!feed->fetched || leat_ref_storage(&j->refs[i], feed->field) == LEAT_STORAGE_MAPPED);
}

/* fetch.c: brings the index records that locate the chunk's rows into memory, before they are located. READS, SLEEPS:
 * it is to be called again; DONE. */
enum leat_job_status leat_reads_look_up(struct leat_job *job);
/* Opens the read window at row `begin` of the chunk: its rows, its reads, its bytes. */
void leat_reads_plan(struct leat_job *job, size_t begin);
/* The same for values [0, n) of row i alone, or as many of them as have room: so many. */
size_t leat_reads_plan_values(struct leat_job *job, size_t i, size_t n);
/* Reads on: ROOM; READS: some are in flight; DONE: none is left. */
enum leat_job_status leat_reads_go(struct leat_job *job);
/* Whether the values of row i were read: LEAT_OK, LEAT_IO_PENDING, or the error of one, which is job->error if the
 * window is of this row alone. */
int leat_reads_row(const struct leat_job *job, size_t i);
/* The place of the bytes of a value, when its row was read; for a copied one, its destination. */
void *leat_reads_value(const struct leat_job *job, const struct leat_job_value *value);

/* make.c: one output of a mapped field, of all rows of the chunk; the policy handles rows that fail. */
void leat_job_make_mapped(struct leat_job *job, struct leat_scratch *scratch, const struct leat_feed *feed,
                          size_t output);
/* All outputs of mapped fields of row i, for a substitute. The code of the first that fails. */
int leat_job_remake_mapped(struct leat_job *job, struct leat_scratch *scratch, size_t i);
/* The outputs of the other values of row i, which are in the buffer or computed. LEAT_OK, also if the row has failed.
 * LEAT_JOB_ROOM: decoding, or an image of open size, needs more memory. */
int leat_job_make_row(struct leat_job *job, struct leat_scratch *scratch, size_t i);
/* Whether it would wait for another thread, which decodes a photo of row i for several users. */
bool leat_job_would_wait(const struct leat_job *job, const struct leat_scratch *scratch, size_t i);
/* Row i fails for a reason that is not its sample's fault, unless it is a photo that is known to be broken. */
void leat_job_refuse_row(struct leat_job *job, size_t i, int code);
/* Whether a value of row i is known to be broken. Then the row fails, unread. */
bool leat_job_pass_known(struct leat_job *job, size_t i);
/* Adds the place of the value to job->error; returns `rc`. */
int leat_job_at_value(struct leat_job *job, const struct leat_job_value *value, int rc);

/* job.c: whether there is a next try of reads that have failed `tries` times with `code`; not before job->wake_ns. */
bool leat_job_back_off(struct leat_job *job, int code, unsigned tries);

/* policy.c. Whether an error of this code is a sample's fault: its bytes do not decode, or a function of the user's, or
 * a source that computes, failed on it. Everything else that can fail is raised: a page of a column or index that is
 * damaged or cut off says nothing about one sample. */
static inline bool leat_is_broken(int code)
{
    return code == LEAT_E_DECODE || code == LEAT_E_OPERATOR;
}
/* Makes job->error the job's, unless an earlier row has failed. */
void leat_job_raise(struct leat_job *job, uint64_t row);
/* The fate of a row of the batch that has failed with `code` and job->error; `broken`: its sample is to blame. */
enum leat_row_fate { LEAT_ROW_RAISED, LEAT_ROW_LEFT_OUT, LEAT_ROW_REPLACED };
enum leat_row_fate leat_policy(struct leat_job *job, uint64_t row, int64_t planned, int code, bool broken);
/* The same for row i of the chunk. */
void leat_job_row_failed(struct leat_job *job, size_t i, int code, bool broken);
/* A substitute was made for a row that was noted as broken. */
void leat_job_row_delivered(struct leat_job *job, uint64_t row, int64_t delivered);
/* Row i of the chunk as a row of the batch. */
/* The destination of row i in the output that is made in the same call as output o; NULL: there is none. */
uint8_t *leat_job_beside(const struct leat_job *j, size_t o, size_t i);
static inline uint64_t leat_job_row(const struct leat_job *j, size_t i)
{
    return j->first + j->cursor + i;
}

/* The start of the values of a ragged output in its memory, behind the offsets of its rows (batch.c). */
uint64_t leat_output_values(const struct leat_output *output, uint64_t rows);

#endif
