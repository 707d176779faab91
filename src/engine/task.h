/*
 * Tasks: what a thread does for a batch. A task is a run of rows of one batch; it handles them in chunks, and
 * everything that it must remember while a read is pending stands in it, so that any thread can go on with it.
 *
 *     chunk:   plan -> keys, positions -> locate -> in-place outputs of all rows
 *     rows:    for each row, for each fetched field:  submit -> (parked) -> check -> outputs of that field
 *     broken:  the policy: raise, leave out, or begin the row again with a substitute
 */
#ifndef LEAT_ENGINE_TASK_H
#define LEAT_ENGINE_TASK_H

#include "engine/engine.h"

enum leat_row_mark {
    LEAT_ROW_GOOD = 0,
    LEAT_ROW_BROKEN, /* a substitute is wanted */
    LEAT_ROW_DONE    /* left out, or its error is the batch's */
};

struct leat_task {
    struct leat_loader *loader;
    struct leat_batch *batch;
    struct leat_work *work; /* while it runs */
    bool sizing;
    uint64_t first, n; /* the run */
    uint64_t cursor;   /* rows of the run before this chunk */
    int64_t ns, fetch_ns;
    uint64_t fetches, fetched_bytes;
    double estimate_ns; /* what the loader was charged when it was taken */

    /* the chunk */
    bool prepared;
    size_t count, row, group;
    unsigned attempt, tries;
    struct leat_plan_row *rows;
    uint64_t *positions;
    struct leat_sample_ref *refs;
    const void **data;
    uint8_t *cold; /* room for values of a cold file: loader->cold_bytes */
    struct leat_row *args;
    struct leat_extent *extents;
    uint8_t *marks;
    struct leat_error error; /* of the row at hand */

    /* the read */
    bool fetching;
    bool pending;           /* submit said so: the thread lets go of the task */
    bool parked, completed; /* under the lock: the thread has let go; the read is complete */
    struct leat_fetch fetch;
    void *buffer;
    uint64_t room;          /* of buffer */
    uint64_t decoding;      /* booked for decoding the row at hand */
    uint64_t decode_wanted; /* what the header of its photo says */
    bool starved;           /* is to wait for memory: */
    uint64_t wanted;        /* so much */
    struct leat_task *next;
};

/* ---- task.c: pool and bookkeeping; run.c: what a task does; reserve.c: its memory ------------ */

/* The read of a task is complete: called by whoever completed it, on any thread, without the lock. */
void leat_task_read_done(struct leat_io_request *request, void *task);
/* Puts a task into the queue of those to go on with. Under the lock. */
void leat_task_resume(struct leat_task *task);
/* Makes the task's buffer at least `bytes` large, its content lost, and sees that the budget has room for `decoding`
 * bytes. LEAT_IO_PENDING: the task is to let go and to ask again when it goes on. Errors: BUDGET, CANCELLED, NOMEM. */
int leat_task_reserve(struct leat_task *task, uint64_t bytes, uint64_t decoding, struct leat_error *error);
/* Gives back what the row at hand needed beyond the usual. Without the lock. */
void leat_task_relax(struct leat_task *task);
/* Puts a task aside until there is memory. Under the lock. */
void leat_task_starve(struct leat_task *task);
/* Puts what the sample at `position` is called, where its data set has names, in front of the text of task->error.
 * Reads the name. */
void leat_task_say_name(struct leat_task *task, uint64_t position);
/* Books a row that the policy left out or replaced; the reason is that of task->error. False: no memory for it. */
bool leat_task_note(struct leat_task *task, uint64_t row, int64_t planned, int code);
void leat_task_note_delivered(struct leat_task *task, uint64_t row, int64_t delivered);
/* Makes task->error the batch's, unless an earlier row has failed. */
void leat_task_raise(struct leat_task *task, uint64_t row);

/* run.c: takes rows that were left out from between the others, once all are done. */
void leat_batch_compact(struct leat_batch *batch);

#endif
