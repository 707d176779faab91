/*
 * The rows and values of a chunk of a job: locate.c.
 */
#ifndef LEAT_ENGINE_LOCATE_H
#define LEAT_ENGINE_LOCATE_H

#include "engine/context.h"

struct leat_job;

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
    LEAT_VALUE_COMPUTED, /* its source has made it */
    LEAT_VALUE_KNOWN     /* its source makes it, and has told how long it is: while lengths are learned */
};

/* A value of a row that is not made where it is mapped. */
struct leat_job_value {
    const struct leat_feed *feed;
    uint8_t way;                /* enum leat_value_way */
    bool with_rows;             /* a photo's row index is read with it */
    bool checked;               /* its bytes are verified */
    uint32_t span;              /* READ: with which it is read */
    uint64_t place;             /* COPIED: in the buffer */
    uint8_t *to;                /* READ: the place in the batch that it is read to; NULL: the job's buffer */
    const uint8_t *data;        /* COMPUTED */
    struct leat_sample_ref ref; /* READ: resolved, as is; COPIED */
    size_t field;
    struct leat_extent extent; /* of others only its length */
};

/* Places of values that are asked for together. */
#define LEAT_EXTENTS 32

/* The rows that a job works on at a time. */
struct leat_job_chunk {
    size_t count, row; /* rows; those before `row` are done */
    struct leat_plan_row *rows;
    uint64_t *positions; /* for a row cut from documents: that of the one at fault; UINT64_MAX: there is none */
    struct leat_sample_ref *refs;
    struct leat_sample_ref *others; /* of row i and piece p above 0: [i * (pieces - 1) + p - 1] */
    int64_t culprit;                /* of the row at hand: the sample among them that is at fault; -1 */
    struct leat_extent *extents;    /* LEAT_EXTENTS */
    struct leat_job_value *values;  /* of row i and slot s: [i * context->n_slots + s] */
    struct leat_values *made;       /* values that were computed for this chunk */
    size_t n_made, made_room;
    size_t *fields;    /* context->n_made */
    uint8_t *marks;    /* enum leat_row_mark */
    uint8_t *attempts; /* of substitutes */
    uint8_t *tries;    /* of reads that have failed: such a row is read alone, */
    int64_t wake_ns;   /* and not before this time */
    /* The global batch, if the context follows batches; `samples`: memory for those of a batch that leaves some out. */
    struct leat_batch_rows batch;
    uint64_t *samples;
    size_t samples_room;
};

/* The next rows of the run as the plan names them, and their samples. An error is that of row *failed of the batch: it
 * cannot be planned any more. */
int leat_job_plan(struct leat_job *job, uint64_t first, uint64_t left, uint64_t *failed);
/* leat_job_steps.place: a row is one whole sample. */
size_t leat_place_samples(const struct leat_job_context *context, const struct leat_plan_row *rows, size_t n,
                          uint64_t *positions, struct leat_sample_ref *refs);
/* Row i gets its next substitute. False: there is none. */
bool leat_job_plan_substitute(struct leat_job *job, size_t i);
/* Finds how the job gets each value of a field, for rows [i, i + n), and where. An error is that of row *failed. */
int leat_job_locate(struct leat_job *job, const struct leat_feed *feed, size_t i, size_t n, size_t *failed);
/* Values of rows [i, i + n) that sources compute: job->error, and row *failed that is to blame, i + n: not known. */
int leat_job_compute(struct leat_job *job, size_t i, size_t n, size_t *failed);
/* Releases the values computed for the chunk. */
void leat_job_drop_made(struct leat_job *job);
/* The way the job gets the values of the other samples of rows [i, i + n). An error is that of row *failed. */
int leat_job_locate_others(struct leat_job *job, size_t i, size_t n, size_t *failed);

#endif
