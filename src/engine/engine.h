/*
 * The engine of a process: the threads that all loaders share, and what a loader is to them. One mutex protects
 * everything here that is not said to be atomic or owned by a task; it is held for some hundred nanoseconds at a time
 * and never while samples are read, decoded or copied. A fork takes it (engine.c), so that a child finds everything at
 * rest.
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
 * rows. A task is (run of rows): it makes all in-place outputs of the run, then fetches and makes the others row by
 * row; where a read is pending the task is parked, and its completion puts it in front of the loader's queue; where
 * memory is short it waits likewise (reserve.c).
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

    /* Of a loader that does not keep the order: gather.c. */
    bool loose;        /* its rows may leave it one by one */
    unsigned stand_in; /* of a side batch of one row: the next try of a substitute + 1; 0: it is what was planned */
    bool listed;       /* its rows are those of `numbers`, not a run of the plan's */
    bool recorded;     /* it stands in the record, and is made again */
    uint64_t skip, last_step; /* rows of its part of the batch at plan.at that lie before it; the step that its last row
                                 is planned in */
    uint64_t n_made, n_gone;  /* rows that are made and still here; that have left it */
    uint64_t *numbers;        /* the rows, by number in the epoch, rising */
    uint8_t *row_state;       /* enum leat_row_state */
};

enum leat_row_state { LEAT_ROW_OPEN = 0, LEAT_ROW_MADE, LEAT_ROW_GONE };

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
    bool decodes, delivers; /* some output is decoded; some is not */
    bool turns;             /* some is decoded as its EXIF orientation says */
};

struct leat_counters {
    uint64_t batches, samples, bytes, skipped, substituted, raised, fetches, fetched_bytes;
    int64_t fetch_ns, native_ns, wait_ns;
    uint64_t waits, helped_tasks, tasks;
    uint64_t gathered, copied; /* batches put together from rows of others; rows copied for that */
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
    bool
        restores; /* photos in the fast form are delivered as they came: scratch_bytes has LEAT_DECODE_BYTES for that */
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

    /* out of order (gather.c, unordered.c): `at` is the frontier, the first planned batch of which a row was not
     * received */
    bool in_order;
    uint32_t world_size;
    struct leat_received *received; /* planned batches from the frontier on of which rows were received, in order */
    uint64_t at_step;
    struct leat_position serve; /* the planned batch whose step and size the next one handed out has */
    uint64_t plan_skip;         /* rows of this rank's part at plan_at that are planned already */
    bool replay;                /* batches are planned as the record has them; plan_at is that of their steps */
    struct leat_record *record; /* NULL: none */
    struct leat_picked *picked;
    uint64_t picked_room;

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
    bool short_of_tasks; /* there is work that waits for one of them to come back */
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

/* ---- engine.c -------------------------------------------------------------------------------- */

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

/* ---- window.c: all under the lock ------------------------------------------------------------ */

static inline struct leat_batch *leat_window_at(const struct leat_loader *l, size_t i)
{
    return l->window[(l->head + i) % l->window_room];
}
/* A planned batch at the end of the window, with its memory if the lengths of its rows are known. Of a loader that does
 * not keep the order the caller fills in its rows' numbers. HELD: no memory now; BUDGET, NOMEM. */
int leat_window_admit(struct leat_loader *loader, const struct leat_plan_batch *plan, struct leat_batch **out,
                      struct leat_error *error);
/* The last epoch of which batches may be planned now. */
uint64_t leat_window_last_epoch(const struct leat_loader *loader);
/* Plans one further batch. LEAT_OK; LEAT_E_END: nothing left to plan for now; LEAT_E_HELD: the window is full; else
 * errors, which name what is missing where the window is empty. */
int leat_window_plan(struct leat_loader *loader, struct leat_error *error);
/* Gives memory to sized batches, in order, as long as it lasts. */
void leat_window_assign(struct leat_loader *loader);
/* Cancels all batches of the window from index `from` on, and plans them again when asked. */
void leat_window_cancel(struct leat_loader *loader, size_t from);
struct leat_batch *leat_window_pop(struct leat_loader *loader);
/* Takes the batch at index i out of the window. */
void leat_window_remove(struct leat_loader *loader, size_t i);
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

/* ---- task.c ---------------------------------------------------------------------------------- */

/* The next task of the loader, counted as running, or NULL. Under the lock. `ahead`: of any batch, planning further
 * ones; else only what the consumer waits for: the first batch of the window and the one on the side. */
struct leat_task *leat_task_take(struct leat_loader *loader, bool ahead);
/* Runs it until it is done or parked. Without the lock. */
void leat_task_run(struct leat_task *task);
/* Books what it did. Under the lock. */
void leat_task_finish(struct leat_task *task);
/* Whether a batch of the window has rows that no task has yet. Under the lock. */
bool leat_task_has_work(const struct leat_loader *loader);
/* A task, or whoever copies rows, is done with a batch: it is finished, or given up, if that was the last one. Under
 * the lock. */
void leat_batch_let_go(struct leat_batch *batch);
/* A task of the pool, or a new one. Under the lock. */
struct leat_task *leat_task_new(struct leat_loader *loader);
void leat_task_recycle(struct leat_task *task); /* under the lock */
void leat_task_destroy(struct leat_task *task);
/* Ends a task of a closed loader whose read is complete. Without the lock. */
void leat_task_orphan(struct leat_task *task);
/* There may be memory again: tasks that wait for some ask once more. Under the lock. */
void leat_task_feed(struct leat_loader *loader);
/* Whether the budget has place for one more task at a time: where reads wait, each waiting row has one. Under the
 * lock. */
bool leat_task_may_grow(const struct leat_loader *loader);
/* Tasks at rest give up what a few threads do not need. False: there was nothing. Under the lock. */
bool leat_task_drop_resting(struct leat_loader *loader);
uint64_t leat_task_size(const struct leat_loader *loader);
/* Bytes of a stored value of an in-place output: run.c. */
uint64_t leat_loader_value_bytes(const struct leat_loader *loader, size_t output);

/* ---- loader.c -------------------------------------------------------------------------------- */

/* Gives up a reference, under the lock; true: the caller destroys the loader once it has let go of the lock. */
bool leat_loader_unref(struct leat_loader *loader);
void leat_loader_destroy(struct leat_loader *loader);

/* Steps of handing a batch out, under the lock. Whether max_held_bytes allows it; counting it as the consumer's;
 * counting what it holds, and planning on; the error of a failed batch, which is made ready to be computed again; true
 * and the batch failed where no row of it is left. */
int leat_batch_check_held(struct leat_loader *loader, const struct leat_batch *batch, struct leat_error *error);
void leat_batch_put_out(struct leat_loader *loader, struct leat_batch *batch);
void leat_batch_count(struct leat_loader *loader, const struct leat_batch *batch);
int leat_batch_raise(struct leat_loader *loader, struct leat_batch *batch, struct leat_error *error);
bool leat_batch_fail_if_empty(struct leat_batch *batch);

/* ---- unordered.c, gather.c: all under the lock, of a loader that does not keep the order ----- */

/* As leat_window_plan. */
int leat_unordered_plan(struct leat_loader *loader, struct leat_error *error);
/* The next batch of the running epoch, if one can be handed out now: LEAT_OK, or LEAT_IO_PENDING, or what a batch
 * failed with. The lock is let go while rows are copied. */
int leat_unordered_next(struct leat_loader *loader, struct leat_batch **out, struct leat_error *error);
/* Whether the consumer should look again: a batch can be handed out, or nothing would ever make one. */
bool leat_unordered_is_due(const struct leat_loader *loader);
/* Rows [first, first + n) of a batch are made. */
void leat_unordered_made(struct leat_batch *batch, uint64_t first, uint64_t n);
/* The consumer stands at `at` of an epoch, with nothing received beyond; or with what a state says. */
void leat_unordered_stand(struct leat_loader *loader, struct leat_position at);
int leat_unordered_load(struct leat_loader *loader, struct leat_position at, const struct leat_plan_received *received,
                        struct leat_error *error);
void leat_unordered_free(struct leat_loader *loader); /* without the lock: nobody else has it */
/* What a state must say beside the position. False: the position says all. */
bool leat_unordered_received(const struct leat_loader *loader, struct leat_plan_received *out);

/* How many of n rows can be taken together from row `taken` on; and past rows that have left the batch. */
static inline uint64_t leat_batch_run(const struct leat_batch *b, uint64_t n)
{
    for (uint64_t i = 1; b->loose && i < n; i++)
        if (b->row_state[b->taken + i] == LEAT_ROW_GONE)
            return i;
    return n;
}
static inline void leat_batch_skip_gone(struct leat_batch *b)
{
    while (b->loose && b->taken < b->plan.rows && b->row_state[b->taken] == LEAT_ROW_GONE)
        b->taken++;
}

/* ---- record.c: a lock of its own ------------------------------------------------------------- */

/* The record of which rows were handed out together, in a folder: docs/order.md. Errors: IO, NOMEM. */
int leat_record_open(const char *folder, const struct leat_loader *loader, uint64_t seed, uint32_t rank,
                     uint32_t world_size, struct leat_record **out, struct leat_error *error);
void leat_record_close(struct leat_record *record);
/* Reads what the record has of an epoch, for leat_record_find. Not under the engine's lock. Errors: IO, STATE (of
 * another run). */
int leat_record_read(struct leat_record *record, uint64_t epoch, struct leat_error *error);
/* The rows of a step of an epoch that was read, if they are `n`. `numbers` has room for n. */
bool leat_record_find(struct leat_record *record, uint64_t epoch, uint64_t step, uint64_t n, uint64_t *numbers);
/* Steps from `step` on are not to be found any more. */
void leat_record_forget(struct leat_record *record, uint64_t epoch, uint64_t step);
/* Reads and finds. RANGE: it has no such step of n rows. Not under the engine's lock. */
int leat_record_seek(struct leat_record *record, uint64_t epoch, uint64_t step, uint64_t n, uint64_t *numbers,
                     struct leat_error *error);
/* Appends one batch. Where that fails a warning says so, once. Not under the engine's lock. */
void leat_record_append(struct leat_record *record, const struct leat_batch *batch);

/* ---- stats.c --------------------------------------------------------------------------------- */

/* Appends one line per broken row of a batch that is handed out, or one for an error that is raised. Without the lock:
 * a file may take its time. Without effect where no report was asked for. */
void leat_report_broken(struct leat_loader *loader, const struct leat_batch *batch);
void leat_report_raised(struct leat_loader *loader, uint64_t epoch, uint64_t step, const struct leat_error *error);

#endif
