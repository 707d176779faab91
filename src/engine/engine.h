/*
 * The engine of a process: the threads that all loaders share, and what a loader is to them. One mutex protects
 * everything here that is not said to be atomic or owned by a task; it is held for some hundred nanoseconds at a time and
 * never while samples are read, decoded or copied. A fork takes it (engine.c), so that a child finds everything at rest.
 *
 * A batch and who may touch it:
 *
 *              plan              size*              assign             last row            next
 *     FREE ----------> SIZING* --------> SIZED* ------------> FILLING ---------> READY -----------> OUT ---> FREE
 *      |                                                         |  ^              |  leat_batch_free
 *      | nobody          one task                    its tasks,  |  |              | nobody; the consumer's
 *      |                 (lengths)                   own rows    v  | next         v (no lock)
 *      |                                                       FAILED              |
 *      +---- a batch that was cancelled goes back to FREE when its last task lets go of it ----+
 *
 *     * only where an output is ragged: its buffers cannot be cut before the lengths of the values are known
 *
 * States change under the lock. The arrays of a FILLING batch are written by its tasks without it, each task its own
 * rows. A task is (run of rows): it makes all in-place outputs of the run, then fetches and makes the others row by row;
 * where a read is pending the task is parked, and its completion puts it in front of the loader's queue; where memory is
 * short it waits likewise (reserve.c).
 */
#ifndef LEAT_ENGINE_ENGINE_H
#define LEAT_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "data/dataset.h"
#include "engine/region.h"
#include "op/program.h"
#include "plan/plan.h"

struct leat_task;

/* One output of one batch: pages of the loader's region. The last reference gives them back. */
struct leat_buffer {
    _Atomic uint32_t references;
    struct leat_loader *loader;
    uint64_t offset, bytes; /* bytes: whole pages */
    size_t output;
    void (*release)(void *user);
    void *release_user; /* called without a lock before the memory is used again; may wait for a fence */
    struct leat_buffer *next;
};

/* One row that the error policy touched. */
struct leat_broken_row {
    uint64_t row;
    int64_t planned, delivered;
    int code;
    char *reason; /* owned */
};

enum leat_batch_state {
    LEAT_BATCH_FREE = 0,
    LEAT_BATCH_SIZING,
    LEAT_BATCH_SIZED,
    LEAT_BATCH_FILLING,
    LEAT_BATCH_READY,
    LEAT_BATCH_FAILED,
    LEAT_BATCH_OUT
};

struct leat_batch {
    struct leat_loader *loader;
    enum leat_batch_state state;
    struct leat_plan_batch plan;
    uint64_t rows;          /* delivered: planned ones less those left out */
    uint64_t taken;         /* rows given to tasks */
    _Atomic uint64_t done;  /* rows finished; who finishes the last one completes the batch */
    unsigned tasks;         /* running or parked */
    _Atomic bool cancelled; /* not in the window any more; its last task frees it */
    bool side;              /* made for leat_loader_batch_at, not part of the window */
    uint64_t room;          /* rows for which the arrays have room */
    int64_t *ids;
    uint64_t *keys;
    bool *valid, *left_out;
    int64_t **offsets; /* per output: NULL, or while sizing room + 1 offsets, which are copied into the buffer */
    struct leat_buffer **buffers;
    uint64_t bytes; /* of the buffers; 0 while there are none */
    uint64_t meta;  /* of the arrays, as the budget counts them */
    struct leat_broken_row *broken;
    size_t n_broken, broken_room;
    _Atomic uint64_t failed_row; /* UINT64_MAX: none; else the lowest, whose error is kept in `failure` */
    struct leat_error failure;
    struct leat_batch *next;
};

/* A program's scratch as one task at a time uses it, with the times that it had when it was last at rest. */
#define LEAT_MAX_STEPS 64
struct leat_work {
    struct leat_scratch *scratch;
    struct leat_step_time times[LEAT_MAX_STEPS];
    size_t n_times;
    bool known; /* stands in the loader's list of all */
    struct leat_work *next, *all;
};

/* The outputs that one fetched field feeds. */
struct leat_fetch_group {
    size_t field, n_outputs;
    size_t *outputs;
    bool decodes;
};

struct leat_counters {
    uint64_t batches, samples, bytes, skipped, substituted, raised, fetches, fetched_bytes;
    int64_t fetch_ns, native_ns, wait_ns;
    uint64_t waits, helped_tasks, tasks;
};

struct leat_loader {
    unsigned generation; /* of the engine that it joined */
    uint64_t references; /* open handle, batches and buffers out, parked tasks */

    /* fixed after open */
    struct leat_dataset *dataset; /* released at close, or by the last parked task */
    uint64_t *source_begin;       /* position of each source in `dataset` */
    const struct leat_field *fields;
    struct leat_program *program;
    size_t n_outputs, n_in_place, n_groups;
    size_t *in_place;
    struct leat_fetch_group *groups;
    bool ragged;
    uint64_t row_bytes; /* of all dense outputs */
    struct leat_plan *plan;
    uint8_t fingerprint[16];
    enum leat_on_error on_error;
    enum leat_order order;
    int64_t epochs;
    bool lists_later; /* LIST whose positions come before each epoch */
    unsigned num_threads;
    double weight;
    uint64_t budget, max_held, fixed, scratch_bytes;
    size_t window_room;  /* batches in flight at most */
    unsigned chunk;      /* rows that a task handles at a time */
    uint64_t cold_bytes; /* what a task has for values of a cold file (format/source.h), all of one output at a time */
    int report_fd;

    /* position */
    uint64_t iteration, epoch;
    struct leat_position at;      /* first batch not yet handed out */
    struct leat_position plan_at; /* first batch not yet planned */
    uint64_t step;                /* of the next batch */
    bool started, ended, loaded;
    bool has_next_epoch;
    uint64_t next_epoch; /* what set_epoch said */
    int64_t list_epoch;  /* last epoch for which lists are known; lists_later only */

    /* window: a ring of batches in plan order */
    struct leat_batch **window;
    size_t head, n_window;
    uint64_t estimate; /* bytes of a batch, for planning where it is ragged */
    struct leat_batch *side;
    struct leat_batch *free_batches;
    struct leat_buffer *free_buffers;
    struct leat_region region;
    uint64_t in_flight, held, task_bytes, task_reserve;
    uint64_t region_limit; /* while tasks need no more than was set aside for them */
    uint64_t usual_room;   /* of a task's read buffer; a larger one is not kept */
    uint64_t *live;        /* per output: buffers out; the largest is how many batches are held */

    /* running */
    bool full;   /* the window is full: no planning until it has drained to a half */
    bool paused; /* the plan is about to change: no task starts */
    bool closed, in_active;
    bool detached;            /* closing is done: the last parked task releases the data set */
    unsigned running, parked; /* tasks that threads have, engine's or consumers'; that wait for a read */
    unsigned working;         /* engine's threads that work for it: at most num_threads */
    double vtime;
    double ns_per_row;
    struct leat_task *resumed, **resumed_tail; /* their reads are complete */
    struct leat_task *starved;                 /* wait for memory (reserve.c) */
    struct leat_task *free_tasks;
    struct leat_work *free_work, *all_work;
    bool pends;    /* some read was pending: one row per task, many tasks */
    bool one_core; /* a consumer that waits may work, whatever num_threads: it takes nobody's core */
    pthread_cond_t changed;
    unsigned waiting; /* threads in `changed` */
    unsigned in_next; /* threads inside leat_loader_next or batch_at */
    bool helping;     /* one of them works: a second one would need scratch that nothing was set aside for */
    uint64_t interrupts;
    int64_t last_next_ns, opened_ns;
    struct leat_counters count;
    int64_t recent_ns[2];
    uint64_t recent_samples[2], recent_bytes[2];

    struct leat_loader *next, *previous;               /* all loaders */
    struct leat_loader *active_next, *active_previous; /* those that may have work */
};

struct leat_engine {
    pthread_mutex_t lock;
    pthread_cond_t work;
    _Atomic unsigned generation; /* counts forks */
    bool stopping;
    unsigned n_threads, idle, room;
    pthread_t *threads;
    struct leat_loader *loaders, *active;
    double vclock;
    uint64_t used, allowed; /* bytes of all loaders; what they may use together */
    bool trim_due, trimming;
};
extern struct leat_engine leat_engine;

/* Tests: the byte that new buffers are filled with, or -1. */
extern int leat_engine_poison;
/* Tests: what all loaders may use together, or 0 for half of the allowed memory. */
extern uint64_t leat_engine_memory_limit;

/* ---- engine.c ---------------------------------------------------------------------------------------------------- */

void leat_engine_lock(void);
void leat_engine_unlock(void);
/* Prepares the engine for a loader (first use, first use after fork). CLOSED while the process ends. Under the lock. */
int leat_engine_prepare(struct leat_error *error);
/* Starts threads until there are `n`. At least one must run. Under the lock. */
int leat_engine_grow(unsigned n, struct leat_error *error);
void leat_engine_add(struct leat_loader *loader);
void leat_engine_remove(struct leat_loader *loader);
/* Says that the loader may have work, and wakes a thread for it. Under the lock. */
void leat_engine_activate(struct leat_loader *loader);
void leat_engine_deactivate(struct leat_loader *loader);
/* Waits for `changed` of a loader until deadline_ns (INT64_MAX: without end). False: the time has passed. */
bool leat_engine_wait(struct leat_loader *loader, int64_t deadline_ns);
void leat_engine_notify(struct leat_loader *loader);

/* ---- window.c: all under the lock --------------------------------------------------------------------------------- */

static inline struct leat_batch *leat_window_at(const struct leat_loader *l, size_t i)
{
    return l->window[(l->head + i) % l->window_room];
}
/* Plans one further batch. LEAT_OK; LEAT_E_END: nothing left to plan for now; LEAT_E_HELD: the window is full; else
 * errors, which name what is missing where the window is empty. */
int leat_window_plan(struct leat_loader *loader, struct leat_error *error);
/* Gives memory to sized batches, in order, as long as it lasts. */
void leat_window_assign(struct leat_loader *loader);
/* Cancels all batches of the window from index `from` on, and plans them again when asked. */
void leat_window_cancel(struct leat_loader *loader, size_t from);
struct leat_batch *leat_window_pop(struct leat_loader *loader);
/* A batch from the pool with room for `rows`. */
struct leat_batch *leat_window_batch(struct leat_loader *loader, uint64_t rows, struct leat_error *error);
/* Cuts the buffers of a batch. HELD: not now; BUDGET: never. */
int leat_window_cut(struct leat_loader *loader, struct leat_batch *batch, struct leat_error *error);
/* Takes a batch out of use that is in no window any more: at once, or when its last task lets go of it. */
void leat_batch_cancel(struct leat_batch *batch);
/* Gives the buffers of a batch back. */
void leat_window_uncut(struct leat_batch *batch);
/* Makes a batch ready to be computed again. */
void leat_batch_rewind(struct leat_batch *batch);
/* Gives buffers back and puts the batch into the pool. */
void leat_batch_recycle(struct leat_batch *batch);
void leat_batch_destroy(struct leat_batch *batch);
void leat_buffer_recycle(struct leat_buffer *buffer);
/* The bytes of an output's buffer for `rows` rows or `steps` ragged steps, and where its values begin. */
uint64_t leat_output_bytes(const struct leat_output *output, uint64_t rows, uint64_t steps);
uint64_t leat_output_values(const struct leat_output *output, uint64_t rows);

/* ---- task.c ------------------------------------------------------------------------------------------------------- */

/* The next task of the loader, counted as running, or NULL. Under the lock. `ahead`: of any batch, planning further
 * ones; else only what the consumer waits for: the first batch of the window and the one on the side. */
struct leat_task *leat_task_take(struct leat_loader *loader, bool ahead);
/* Runs it until it is done or parked. Without the lock. */
void leat_task_run(struct leat_task *task);
/* Books what it did. Under the lock. */
void leat_task_finish(struct leat_task *task);
/* A task of the pool, or a new one. Under the lock. */
struct leat_task *leat_task_new(struct leat_loader *loader);
void leat_task_recycle(struct leat_task *task); /* under the lock */
void leat_task_destroy(struct leat_task *task);
/* Ends a task of a closed loader whose read is complete. Without the lock. */
void leat_task_orphan(struct leat_task *task);
/* There may be memory again: tasks that wait for some ask once more. Under the lock. */
void leat_task_feed(struct leat_loader *loader);
uint64_t leat_task_size(const struct leat_loader *loader);
/* Bytes of a stored value of an in-place output: run.c. */
uint64_t leat_loader_value_bytes(const struct leat_loader *loader, size_t output);

/* ---- loader.c ----------------------------------------------------------------------------------------------------- */

/* Gives up a reference, under the lock; true: the caller destroys the loader once it has let go of the lock. */
bool leat_loader_unref(struct leat_loader *loader);
void leat_loader_destroy(struct leat_loader *loader);

/* ---- stats.c ------------------------------------------------------------------------------------------------------ */

/* Appends one line per broken row of a batch that is handed out, or one for an error that is raised. Without the lock: a
 * file may take its time. Without effect where no report was asked for. */
void leat_report_broken(struct leat_loader *loader, const struct leat_batch *batch);
void leat_report_raised(struct leat_loader *loader, uint64_t epoch, uint64_t step, const struct leat_error *error);

#endif
