/*
 * The base of the jobs of a loader: context.c.
 */
#ifndef LEAT_ENGINE_CONTEXT_H
#define LEAT_ENGINE_CONTEXT_H

#include "data/dataset.h"
#include "engine/given.h"
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
    bool filled;            /* its source writes it straight into the batch */
    uint64_t known;         /* computed: up to so many bytes, lengths are asked for before values are made */
    bool slotted;           /* fetched or tied: it has a place in the arrays of values of a row */
    size_t slot;            /* slotted: the number of the slot */
    size_t made;            /* computed: its number among the computed fields */
    bool ragged;            /* the length of some output follows from its value's */
    bool decodes, delivers; /* some output is decoded; some is not */
    bool strict;            /* some is decoded, and not leniently */
};

/* The answer of a job, or of a step of it. */
enum leat_job_status {
    LEAT_JOB_DONE = 0,
    LEAT_JOB_READS,  /* reads are in flight: to be called again when one of them is complete */
    LEAT_JOB_ROOM,   /* it needs a buffer of `wants` bytes, and to decode `wants_decoding`: leat_job_grant or
                        leat_job_refuse */
    LEAT_JOB_SLEEPS, /* it can go on at `wake_ns`: a read is tried again, or another thread has decoded a photo */
    LEAT_JOB_RELAX,  /* memory beyond the usual may be released: leat_job_grant, and call again */
};

/* The base of all jobs of a loader: fixed after open. */
struct leat_job_context {
    struct leat_dataset *dataset;
    const struct leat_field *fields;    /* of the program, */
    size_t n_fields;                    /* ... so many */
    const struct leat_field *documents; /* of the data set, if rows are cut from documents */
    struct leat_packing_rule
        *packing; /* owned: the rules of the cuts, one per source of the plan; NULL: a row is a sample */
    const struct leat_job_steps *steps; /* for the kind of its rows */
    const struct leat_plan *plan;
    const struct leat_given_rows *given; /* NULL, or the rows of the call that is made (given.h) */
    uint64_t key;                        /* the number that the keys of rows are mixed with; 0: they are the plan's */
    uint64_t *source_begin;              /* owned: position of each of the plan's sources in `dataset`, and */
    uint64_t *row_begin;                 /* ... of its first row among all rows that are cut; owned */
    const struct leat_program *program;
    struct leat_feed *feeds;
    size_t n_feeds;   /* fields that the program takes */
    size_t n_slots;   /* the number of those whose values a job holds while it makes a row; the others are made where
                       * they lie */
    size_t own_slots; /* ... of one sample: a row may be made of `pieces` */
    unsigned pieces;
    size_t n_made;    /* of these, that some source computes */
    size_t n_filled;  /* feeds that are filled */
    bool follows;     /* values follow from the batch, too: rows are told which one it is */
    size_t most_tied; /* the most fields, or outputs, of a tuple's chain */
    bool sizes_made;  /* lengths of outputs follow from computed values */
    enum leat_on_error on_error;
    struct leat_trace *trace; /* or NULL */
    unsigned chunk;           /* rows that a job handles at a time */
    unsigned fly_rows;        /* ... and a task, if reads complete later */
    size_t chunk_values;      /* values of these that a job holds */
    uint64_t assembly_bytes;  /* of a row that is cut from documents */
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

#endif
