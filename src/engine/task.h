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

#include "engine/job.h"
#include "engine/loader.h"

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
    struct leat_ahead *ahead;    /* NULL, or the batches whose values it is to have computed, too */
    struct leat_task *next;
};

/* ---- under the lock -------------------------------------------------------------------------- */

/* The next task of the loader, counted as running, or NULL. With `ahead` it may be of any batch, and further ones
 * are planned. Else it is the one that the consumer waits for: on the side, or among the first ones of the window as
 * far as the delivery says. */
struct leat_task *leat_task_take(struct leat_loader *loader, bool ahead);
/* Books the work of a task. */
void leat_task_finish(struct leat_task *task);
/* Whether a batch of the window, or on its side, has rows that no task has yet. */
bool leat_task_has_work(const struct leat_loader *loader);
/* A task of the pool, or a new one. */
struct leat_task *leat_task_new(struct leat_loader *loader);
void leat_task_destroy(struct leat_task *task);
uint64_t leat_task_size(const struct leat_loader *loader);
/* A task, or a copier of rows, is done with a batch. If that was the last one, the batch is finished, or recycled if it
 * was cancelled. */
void leat_batch_let_go(struct leat_loader *loader, struct leat_batch *batch);
/* Parked tasks whose batches were cancelled go on, to let go of them. */
void leat_task_wake_cancelled(struct leat_loader *loader);
/* Ends all tasks of a closed loader that no thread has, those with reads in flight when these are complete. Lets go of
 * the lock; the caller has a reference to the pool meanwhile. */
void leat_task_end_all(struct leat_loader *loader);
/* Puts a task into the queue of those to go on with. */
void leat_task_resume(struct leat_task *task);
/* Something that a parked task waits for has come; lets go of the lock. */
void leat_task_arrived_unlock(struct leat_task *task);

#endif
