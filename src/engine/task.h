/*
 * Tasks: a thread's work for a batch. A task is a job, the loader and batch that it is for, and the memory that was
 * granted to it. Everything that must be remembered while a read is pending stands in it, so that any thread can go on
 * with it.
 *
 *     state     event                                                           next state
 *     FREE      taken: rows of a batch, or its lengths, are to be made          RUNNING
 *     RUNNING   a read or a call is complete                                    SIGNALLED
 *     RUNNING   the run ends: DONE                                              FREE
 *               STARVES: memory is short                                        STARVED
 *               WAITS: for reads, a call or a time                              PARKED
 *     SIGNALLED as RUNNING, but the run ends with WAITS                         QUEUED
 *     PARKED    a read or a call is complete; its time has come; its batch      QUEUED
 *               was cancelled
 *               the loader was closed, and nothing is in flight any more        ENDING
 *     STARVED   there is memory, none will ever come, or its batch was          QUEUED
 *               cancelled
 *     QUEUED    taken again                                                     RUNNING
 *               the loader was closed                                           PARKED
 *     ENDING    ended by who has set it; nobody else finds it                   FREE
 */
#ifndef LEAT_ENGINE_TASK_H
#define LEAT_ENGINE_TASK_H

#include "engine/engine.h"
#include "engine/job.h"

/* Under the lock. */
enum leat_task_state {
    LEAT_TASK_FREE = 0, /* in the pool */
    LEAT_TASK_RUNNING,
    LEAT_TASK_SIGNALLED,
    LEAT_TASK_QUEUED, /* among those to go on with */
    LEAT_TASK_STARVED,
    LEAT_TASK_PARKED,
    LEAT_TASK_ENDING
};

/* The result of its last run: of the thread that runs it. */
enum leat_task_outcome { LEAT_TASK_NEW = 0, LEAT_TASK_DONE, LEAT_TASK_WAITS, LEAT_TASK_STARVES };

struct leat_task {
    struct leat_loader *loader;
    struct leat_batch *batch;
    struct leat_batch *kept; /* which its rows are copied from, or NULL: they are made */
    struct leat_work *work;  /* while it runs */
    struct leat_job job;
    enum leat_task_state state;
    enum leat_task_outcome outcome;
    bool sizing;                       /* the lengths of all rows of the batch are wanted, not the rows */
    bool told;                         /* under the lock: it was woken because its batch was cancelled */
    int64_t ns;                        /* of this run */
    double estimate_ns;                /* the charge to the loader when it was taken */
    struct leat_timer timer;           /* PARKED, if it waits for a time */
    struct leat_task *before, *behind; /* of those that are parked */
    uint64_t n_booked;                 /* rows that left it before the others */
    void *buffer;
    uint64_t room;               /* of buffer */
    uint64_t decoding;           /* booked for decoding the row at hand */
    uint64_t wanted;             /* STARVED: so much memory, */
    enum leat_account wanted_in; /* ... counted there */
    struct leat_calls *calls;    /* in segments of functions; made when it is first needed */
    struct leat_task *next;
};

/* ---- task.c: pool and bookkeeping; run.c: what a task does; reserve.c: its memory ------------ */

/* The read of a task is complete: called by the thread that completed it, on any thread, without the lock. */
void leat_task_read_done(struct leat_io_request *request, void *span);
/* Parked tasks whose batches were cancelled go on, to let go of them. Under the lock. */
void leat_task_wake_cancelled(struct leat_loader *loader);
/* Ends all tasks of a closed loader that no thread has, those with reads in flight when these are complete. Under the
 * lock, which it lets go of; the caller has a reference to the pool meanwhile. */
void leat_task_end_all(struct leat_loader *loader);
/* Puts a task into the queue of those to go on with. Under the lock. */
void leat_task_resume(struct leat_task *task);
/* Makes the task's buffer at least `bytes` large, its content lost, and sees that the budget has room for `decoding`
 * bytes. LEAT_IO_PENDING: the task is to let go and to ask again when it goes on. Errors: BUDGET, CANCELLED, NOMEM. */
int leat_task_reserve(struct leat_task *task, uint64_t bytes, uint64_t decoding, struct leat_error *error);
/* leat_job.result_room: memory that stays with the task's batch. Errors as above. */
int leat_task_result_room(struct leat_job *job, size_t output, uint64_t row, uint64_t bytes, void **memory,
                          struct leat_error *error);
/* Gives back the memory that the row at hand needed beyond the usual. Without the lock. */
void leat_task_relax(struct leat_task *task);
/* Puts a task aside until there is memory. Under the lock. */
void leat_task_starve(struct leat_task *task);
/* Runs the task's job. False: it goes on later, with the event that the task waits for. */
bool leat_task_make_rows(struct leat_task *task);
/* Something that a parked task waits for has come; lets go of the lock. */
void leat_task_arrived_unlock(struct leat_task *task);

/* ---- calls.c --------------------------------------------------------------------------------- */

/* Begins with the rows of the task's job. False: NOMEM. */
bool leat_calls_begin(struct leat_task *task);
/* Goes on. False: the task waits for the executor, or for its job's event. */
bool leat_calls_run(struct leat_task *task);
/* The job's run is the task's again. */
void leat_calls_end(struct leat_task *task);
bool leat_calls_in_flight(const struct leat_task *task);
/* Tells the executor, once, that its results are not wanted. Not under a lock; by the owner of the task. */
void leat_calls_cancel(struct leat_task *task);
void leat_calls_free(struct leat_calls *calls); /* NULL is allowed */
/* Whether a read or call is in flight that uses the task or its batch. */
static inline bool leat_task_in_flight(const struct leat_task *t)
{
    return leat_reads_in_flight(&t->job) || leat_calls_in_flight(t);
}

#endif
