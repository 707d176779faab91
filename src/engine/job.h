/*
 * A job: a run of rows of one batch, made only from fixed inputs (plan, data set, program). It knows no loader, takes
 * no lock and no clock decides its work: the same rows come out of the same plan, whoever runs it. It tells its caller
 * its further needs and is called again:
 *
 *     rows of the plan --locate--> values: mapped memory | extents of files --fetch--> bytes --apply--> output rows
 *          ^                                                                                                |
 *          `------------------------------- a substitute, where a sample is broken -------------------------'
 *
 * A job goes over its rows in chunks, by the steps of enum leat_job_step. It locates all values of a chunk, makes the
 * outputs of those that are mapped, and then reads the others. For that it opens one read window after another: rows of
 * the chunk whose values fit into its buffer together. (The window of window.h is another thing: the batches in
 * flight.)
 *
 * job.c runs the steps. locate.c, fetch.c and make.c do their work, and have a part of the job each. policy.c decides
 * on a row that fails, and context.c makes the common part of all jobs of a loader. It chooses the table of steps: rows
 * that are cut from documents have one of their own (packing.c).
 *
 * Rows go straight into their places of the batch; further results (rows that are broken, the error that ends the
 * batch) stand in the job, for its caller to book.
 */
#ifndef LEAT_ENGINE_JOB_H
#define LEAT_ENGINE_JOB_H

#include "engine/context.h"
#include "engine/fetch.h"
#include "engine/locate.h"
#include "engine/look_up.h"
#include "engine/make.h"
#include "engine/policy.h"

/* The destination of the rows of a batch. All of it is the batch's; each job writes the rows of its run. */
struct leat_job_target {
    struct leat_plan_batch plan;
    const struct leat_program *program; /* the context's, or the variant for this batch */
    const uint64_t *numbers;            /* the rows of a batch that is no run of the plan's; else NULL */
    const char *why;   /* of a run of one row: why its sample is to be replaced; NULL: it is made as planned */
    uint8_t **outputs; /* memory of each: dense rows, or offsets and values; NULL while lengths are learned */
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

/* The steps of a job over a chunk of its rows. `step` is the next one; each says what follows it. */
enum leat_job_step {
    LEAT_STEP_PLAN = 0, /* the rows of the next chunk, and their samples */
    LEAT_STEP_LOOK_UP,  /* the index records that locate their values are brought into memory */
    LEAT_STEP_LOCATE,   /* their values are located; outputs of mapped ones are made, others are computed */
    LEAT_STEP_CHOOSE, /* a row is chosen, with a substitute if its sample is broken, and a read window opened for it */
    LEAT_STEP_FETCH,  /* the reads of the window */
    LEAT_STEP_MAKE,   /* the rows of the window whose reads are over */
    LEAT_STEP_END
};

/* The functions for one kind of rows: a row is a sample (job.c), or is cut from documents (packing.c). */
struct leat_job_steps {
    enum leat_job_status (*at[LEAT_STEP_END])(struct leat_job *job, struct leat_scratch *scratch);
    /* The samples of n planned rows. Returns n, or the first row that is of another kind. */
    size_t (*place)(const struct leat_job_context *context, const struct leat_plan_row *rows, size_t n,
                    uint64_t *positions, struct leat_sample_ref *refs);
    /* There is no memory for what it asked for. */
    void (*refuse)(struct leat_job *job, int code);
    /* Gives up the row at hand; and, as the job ends, all else. NULL: nothing. */
    void (*drop)(struct leat_job *job);
    void (*end)(struct leat_job *job);
    /* As an epoch begins, after leat_dataset_refresh. NULL: nothing. */
    void (*refresh)(const struct leat_job_context *context);
    bool names_samples; /* the errors of rows name the sample themselves */
};

extern const struct leat_job_steps leat_steps_of_samples;

/* The memory of a job for the window at hand. */
struct leat_job_memory {
    uint8_t *buffer;
    uint64_t room, decoding;        /* granted: bytes of buffer; for decoding */
    uint64_t wants, wants_decoding; /* asked for; to read, if nothing is wanted for decoding */
    size_t asking;                  /* the row that asks */
};

struct leat_job {
    const struct leat_job_context *context;
    struct leat_job_target target;
    uint64_t first, n; /* the run */
    uint64_t cursor;   /* rows of the run before this chunk */
    enum leat_job_step step;
    struct leat_job_chunk chunk;
    struct leat_index_reads index;
    struct leat_read_window window;
    struct leat_job_memory memory;
    struct leat_job_making making;
    struct leat_job_results results;
    struct leat_error error;        /* of the row at hand */
    struct leat_assembly *assembly; /* of a row that is cut from documents (packing.c) */
    /* Memory for an image of open size, of a row of the batch. LEAT_IO_PENDING: there is none now, and the job returns
     * ROOM. */
    int (*result_room)(struct leat_job *job, size_t output, uint64_t row, uint64_t bytes, void **memory,
                       struct leat_error *error);
    void (*read_done)(struct leat_io_request *request, void *user); /* called for each read that was in flight */
    void *user;
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
    return atomic_load_explicit(&job->window.flying, memory_order_relaxed) != 0;
}
/* Row i of the chunk as a row of the batch. */
static inline uint64_t leat_job_row(const struct leat_job *j, size_t i)
{
    return j->first + j->cursor + i;
}
static inline struct leat_job_value *leat_job_value(const struct leat_job *j, const struct leat_feed *feed, size_t i)
{
    return &j->chunk.values[i * j->context->n_slots + feed->slot];
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
           (!feed->fetched || leat_ref_storage(&j->chunk.refs[i], feed->field) == LEAT_STORAGE_MAPPED);
}
/* Whether further rows of the run are made for nothing: their batch is not wanted, or an earlier row of it has failed.
 */
bool leat_job_is_futile(const struct leat_job *job);
/* Gives row i of the chunk, which is broken, the next substitute whose mapped outputs can be made. */
void leat_job_substitute(struct leat_job *job, struct leat_scratch *scratch, size_t i);
/* Steps that all kinds of rows have in common; and the end of a chunk. */
enum leat_job_status leat_step_plan(struct leat_job *job, struct leat_scratch *scratch);
enum leat_job_status leat_step_look_up(struct leat_job *job, struct leat_scratch *scratch);
enum leat_job_status leat_step_fetch(struct leat_job *job, struct leat_scratch *scratch);
enum leat_job_status leat_step_next(struct leat_job *job);
/* Whether there is a next try of reads that have failed `tries` times with `code`; not before chunk.wake_ns. */
bool leat_job_back_off(struct leat_job *job, int code, unsigned tries);

#endif
