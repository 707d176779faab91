/*
 * Tasks: what a thread does for a batch. A task is a run of rows of one batch; it handles them in chunks, and everything
 * that it must remember while a read is pending stands in it, so that any thread can go on with it.
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
    uint64_t room; /* of buffer */
    struct leat_task *next;
};

/* ---- task.c: pool and bookkeeping; run.c: what a task does --------------------------------------------------------- */

/* The read of a task is complete: called by whoever completed it, on any thread, without the lock. */
void leat_task_read_done(struct leat_io_request *request, void *task);
/* Makes the task's buffer at least `bytes` large, within the budget. */
int leat_task_reserve(struct leat_task *task, uint64_t bytes, struct leat_error *error);
/* Books a row that the policy left out or replaced; the reason is that of task->error. False: no memory for it. */
bool leat_task_note(struct leat_task *task, uint64_t row, int64_t planned, int code);
void leat_task_note_delivered(struct leat_task *task, uint64_t row, int64_t delivered);
/* Makes task->error the batch's, unless an earlier row has failed. */
void leat_task_raise(struct leat_task *task, uint64_t row);

/* run.c: takes rows that were left out from between the others, once all are done. */
void leat_batch_compact(struct leat_batch *batch);

#endif
