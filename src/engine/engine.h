/*
 * A loader and its parts. Each part knows its own objects. loader.c composes them, and leat_loader_settle brings them
 * into step after every event.
 *
 *     scheduler   the threads of the process; they take tasks from clients
 *     budget      bytes: answers yes, wait or never
 *     batch       arrays and buffers of one batch, from the loader's pool
 *     window      the batches in flight, in the order of the plan
 *     delivery    which batch is handed out next: a table of functions, in order or out of order
 *     tasks       runs of rows that threads make; those that wait for a read or for memory
 *
 * A task runs a job (job.h). While the job's reads are in flight the task is parked, and their completion puts it into
 * the loader's queue. If memory is short, it waits for that (reserve.c). docs/architecture.md says which file does
 * what.
 */
#ifndef LEAT_ENGINE_ENGINE_H
#define LEAT_ENGINE_ENGINE_H

#include "data/dataset.h"
#include "engine/batch.h"
#include "engine/delivery.h"
#include "engine/job.h"
#include "engine/page.h"
#include "engine/scheduler.h"
#include "engine/trace.h"
#include "engine/window.h"
#include "op/decoded.h"

struct leat_task;

/* A program's scratch, used by one running task at a time, and its times when it was last at rest. */
#define LEAT_MAX_STEPS 64
struct leat_work {
    struct leat_scratch *scratch;
    struct leat_step_time times[LEAT_MAX_STEPS];
    size_t n_times;
    bool known; /* stands in the loader's list of all */
    struct leat_work *next, *all;
};

struct leat_counters {
    uint64_t batches, samples, bytes, skipped, substituted, raised, fetches, fetched_bytes;
    int64_t fetch_ns, native_ns, wait_ns;
    uint64_t waits, helped_tasks, tasks;
    uint64_t gathered, copied; /* batches put together from rows of others; rows copied for that */
    uint64_t reused;           /* rows copied from batches of before the size changed */
    const char *const *warning_names;
    uint64_t warned[LEAT_MAX_WARNINGS]; /* values that lenient decoding has passed, by warning */
};

/* The interface between threads and a loader. */
struct leat_tasks {
    unsigned running;                          /* that threads have: the engine's, or a consumer's */
    unsigned parked;                           /* that wait for reads, or for a time */
    struct leat_task *resumed, **resumed_tail; /* queue of those that can go on */
    struct leat_task *starved;                 /* that wait for memory: reserve.c */
    struct leat_task *free;                    /* pool */
    struct leat_work *free_work, *all_work;
    struct leat_task *away;  /* list of all that are parked */
    bool short_of;           /* there is no memory for one more task: work waits until one is free */
    bool pends;              /* learned: reads complete later, so tasks read many rows ahead and are parked */
    unsigned calm;           /* while `pends`: tasks in a row whose reads completed at once; enough of them end it */
    uint64_t in_flight;      /* bytes of the buffers of parked tasks */
    uint64_t most_in_flight; /* from so many on, threads begin no further task */
    uint64_t wanted_share;   /* bytes of the budget to set aside for reads in flight, while `pends` */
    uint64_t share;          /* of these set aside so far: less, until batches release the rest */
    double ns_per_row;
    uint64_t usual_room; /* of a task's read buffer; a larger one is not kept */
};

/* Whether no task is anywhere between being taken and being done. */
static inline bool leat_tasks_are_done(const struct leat_tasks *t)
{
    return !t->running && !t->parked && !t->resumed && !t->starved;
}

/* The work that an event calls for: noted when it happens, done by leat_loader_settle. */
enum leat_due {
    LEAT_DUE_WAKE = 1, /* those that wait for the loader should look again */
    LEAT_DUE_WORK = 2  /* there may be work for a thread */
};

struct leat_loader {
    struct leat_client client;
    struct leat_budget budget;
    struct leat_batch_pool pool;
    struct leat_window window;
    const struct leat_delivery *delivery;
    struct leat_consumer consumer;
    struct leat_unordered *unordered; /* of a delivery out of order, else NULL */
    struct leat_tasks tasks;
    struct leat_counters count;
    struct leat_trace trace;
    struct leat_page_slot *slot; /* in the page that other processes read; NULL: it has none */

    /* fixed after open */
    struct leat_dataset *dataset; /* released at close, or by the last parked task */
    struct leat_program *program;
    char *program_text;                     /* as it was given; NULL: every field as stored */
    struct leat_executor *executor;         /* of functions in the program (executor.h); NULL: there are none */
    _Atomic(struct leat_decoded *) decoded; /* photos that are shared with other loaders, or NULL; until it closes */
    struct leat_job_context job;            /* the base of its jobs */
    bool ragged;
    struct leat_plan *plan;
    uint8_t fingerprint[16];
    enum leat_order order;
    int64_t epochs;
    bool mixed;         /* a mixture, of */
    uint32_t n_sources; /* ... so many sources */
    bool beside;        /* opened beside another one, whose plan it has, */
    bool listed;        /* ... or one of its own */
    bool lists_later;   /* lists of positions come before each epoch; those of LIST must */
    int64_t list_epoch; /* last epoch for which lists are known; lists_later only */
    uint32_t rank, world_size;
    uint64_t scratch_bytes;
    uint64_t asked_budget, asked_held; /* 0: leat chooses, and may choose more for larger batches */
    uint64_t spare;                    /* of the budget: for decoding, not for more batches */
    uint64_t ragged_row;               /* bytes of a row in ragged outputs, as probed */
    uint64_t region_limit;             /* while tasks need no more than was set aside for them */
    struct leat_record *record;        /* NULL: none */
    int report_fd;
    bool raised;   /* the default budget has room for reads in flight */
    bool one_core; /* a consumer that waits may work, whatever the client's threads: it takes nobody's core */

    /* the callers inside */
    unsigned due;                   /* enum leat_due */
    struct leat_batch *side;        /* batches that are made apart from the window: side.c */
    struct leat_batch *kept;        /* batches of before the size changed, whose rows are copied: kept.c */
    struct leat_position told;      /* consumers know of broken rows up to here: epoch, number */
    struct leat_position raised_to; /* ... and of errors up to here; out of order: of the one that ends here */
    uint64_t raised_step;           /* of the last one */
    bool closed;
    bool detached; /* closing is done: the last parked task releases the data set */
    pthread_cond_t changed;
    unsigned waiting; /* threads in `changed` */
    unsigned in_next; /* threads inside leat_loader_next or batch_at */
    bool helping;     /* one of them works: a second one would need scratch that nothing was set aside for */
    int64_t last_next_ns, opened_ns;
    int64_t recent_ns[2];
    uint64_t recent_samples[2], recent_bytes[2];
};

static inline struct leat_loader *leat_loader_of(struct leat_client *client)
{
    return (struct leat_loader *)(void *)((char *)client - offsetof(struct leat_loader, client));
}
static inline struct leat_loader *leat_loader_of_pool(struct leat_batch_pool *pool)
{
    return (struct leat_loader *)(void *)((char *)pool - offsetof(struct leat_loader, pool));
}

/* ---- open.c: without the lock ---------------------------------------------------------------- */

/* Lists of positions in the data set, n each, as the epochs of a loader; `list` is that of `epoch`, where the loader
 * stands, if `given`, or else any. */
struct leat_own_list {
    const int64_t *list;
    uint64_t n, epoch;
    bool given;
};
/* Another loader over the data set and the plan of `base`, in memory of its own: of another program (JSON; NULL: of the
 * same one), and with row keys that are mixed with `key` (0: as they are). With `own` it has a plan of its own, of
 * lists that leat_loader_give_list gives. It is closed, and all its batches are given back, before `base` is closed; no
 * decision may change the plan meanwhile. Errors: those of leat_loader_open; BUDGET as well if it would need more than
 * a quarter of the memory here; INVALID as well for lists: `base` reads a mixture or packed rows. */
int leat_loader_open_beside(struct leat_loader *base, const char *program, uint64_t key,
                            const struct leat_own_list *own, struct leat_loader **out, struct leat_error *error);
/* The list of an epoch of such a loader, later than those that it has. NOMEM. */
int leat_loader_give_list(struct leat_loader *loader, uint64_t epoch, const int64_t *list, uint64_t n,
                          struct leat_error *error);
/* The hash that such a program has. Errors: those of compiling. */
int leat_loader_hash_beside(const struct leat_loader *base, const char *program, uint64_t *hash,
                            struct leat_error *error);

/* ---- loader.c, open.c (share, fit), control.c (pause): under the lock, unless said otherwise */

/* Brings the parts into step: sized batches get memory, tasks that waited for memory go on, waiters with something to
 * see and threads with work are woken. Called once after every event: a task is done or parked, a read is complete,
 * memory is released, a batch is handed out, the plan or the position has changed. */
void leat_loader_settle(struct leat_loader *loader);
/* Sets bytes of the budget aside for reads that complete later (leat_budget_reserve), or ends that. */
void leat_loader_share(struct leat_loader *loader, bool wanted);
/* Has a loader share decoded photos with others over the same data set; it retains the store until it closes. Takes the
 * lock; at any time before closing, once: a loader that has a store keeps it. */
void leat_loader_share_decoded(struct leat_loader *loader, struct leat_decoded *decoded);
/* Waits until something changes, or until deadline_ns (INT64_MAX: without end). False: the time has passed. */
bool leat_loader_wait(struct leat_loader *loader, int64_t deadline_ns);
/* Cancels the batches in flight and waits for them; no new ones begin. False: a task hangs as the process ends. */
bool leat_loader_halt(struct leat_loader *loader);

/* Whether `bytes` more fit into an account, after evicting cheap batches. HELD: not now, with a text if nothing under
 * way will change that. BUDGET: never. */
int leat_loader_ask(struct leat_loader *loader, enum leat_account account, uint64_t bytes, struct leat_error *error);
/* Asks for a batch's buffers and allocates them. Errors: as above, NOMEM. */
int leat_loader_allocate(struct leat_loader *loader, struct leat_batch *batch, struct leat_error *error);
/* Cancels the last batch of the window, unless it is `keep` or the only one. False: there is nothing to evict. */
bool leat_loader_evict(struct leat_loader *loader, const struct leat_batch *keep);
/* Evicts prefetched batches of other loaders that nobody waits for, until the ledger has room for `bytes`. They compute
 * it again when asked. */
void leat_loader_evict_others(const struct leat_loader *loader, uint64_t bytes);

/* Makes bounds and window fit batches of so many rows of all ranks. BUDGET: the caller's limit is too small. */
int leat_loader_fit(struct leat_loader *loader, uint64_t global_batch, struct leat_error *error);
/* A time of leat_clock_ns; negative: none. */
int64_t leat_loader_deadline(int64_t timeout_ms);
/* Takes the lock if the loader can be used. Errors: FORKED, CLOSED. */
int leat_loader_enter(const struct leat_loader *loader, struct leat_error *error);
int leat_loader_check_process(const struct leat_loader *loader, struct leat_error *error);
/* RANGE, of a step that leat_plan_step_is_folded. */
int leat_loader_fail_folded(uint64_t epoch, uint64_t step, struct leat_error *error);
/* Whether batches may have so many rows: images of open size come alone unless their output gives their form. */
int leat_loader_check_rows(const struct leat_loader *loader, uint64_t rows, struct leat_error *error);
/* Keeps tasks from starting, and waits for those that run. Then the plan may be changed. */
void leat_loader_pause(struct leat_loader *loader);
void leat_loader_unpause(struct leat_loader *loader);
/* LEAT_OK: the first batch of the window belongs to the epoch of the loader's own consumer. END; PENDING: there is no
 * memory now; else why it cannot be planned. */
int leat_loader_plan_first(struct leat_loader *loader, struct leat_error *error);
/* Runs a task that the caller would otherwise wait for, if the loader may have one more thread. Releases the lock
 * meanwhile. */
bool leat_loader_help(struct leat_loader *loader);
/* The end of a call that counted itself in in_next. Releases the lock. */
void leat_loader_leave(struct leat_loader *loader);

/* Steps of handing a batch out. Whether max_held_bytes allows it; counting it as the consumer's; counting the held
 * bytes, and planning on; the error of a failed batch, which is made ready to be computed again; counting an error that
 * is raised at a row of a planned batch (UINT64_MAX: at none), once for all consumers and tries; true and the batch
 * failed if no row of it is left. */
int leat_loader_check_held(struct leat_loader *loader, const struct leat_batch *batch, struct leat_error *error);
void leat_loader_put_out(struct leat_loader *loader, struct leat_batch *batch);
void leat_loader_count(struct leat_loader *loader, const struct leat_batch *batch);
int leat_loader_raise(struct leat_loader *loader, struct leat_batch *batch, struct leat_error *error);
void leat_loader_count_raised(struct leat_loader *loader, const struct leat_plan_batch *plan, uint64_t row);
bool leat_batch_fail_if_empty(struct leat_batch *batch);

/* ---- side.c: under the lock ------------------------------------------------------------------ */

/* Begins to make a batch on the side of the window; `for_whom`, not NULL, is its owner. `numbers`: its rows, or NULL.
 * Errors: NOMEM, those of leat_loader_ask. */
int leat_side_begin(struct leat_loader *loader, const struct leat_plan_batch *plan, const uint64_t *numbers,
                    const void *for_whom, struct leat_batch **out, struct leat_error *error);
/* Hands a batch over to the caller. */
void leat_side_remove(struct leat_loader *loader, struct leat_batch *batch);
/* Makes a batch: this thread and any idle one. `numbers`: NULL, or the rows that it has. `part`: it is a part of one,
 * in which no row need be left. */
int leat_side_make(struct leat_loader *loader, const struct leat_plan_batch *plan, const uint64_t *numbers, bool part,
                   struct leat_batch **out, struct leat_error *error);
/* The ids of rows [first, first + n) of a planned batch; the plan must not change meanwhile. */
int leat_side_ids(const struct leat_loader *loader, const struct leat_plan_batch *plan, uint64_t first, uint64_t n,
                  int64_t *ids, struct leat_error *error);
/* Cancels an owner's batches before a position. */
void leat_side_cancel(struct leat_loader *loader, const void *for_whom, struct leat_position before);

/* ---- kept.c: under the lock ------------------------------------------------------------------ */

/* The batches of the window from index `from` on leave it, and their rows are kept for a plan with other borders; if
 * rows depend on more than their number in the epoch, nothing happens. */
void leat_kept_add(struct leat_loader *loader, size_t from);
/* While the loader is paused: gives up those that have rows under way or broken ones. */
void leat_kept_settle(struct leat_loader *loader);
/* Gives up the last one, and all of them: the order of the samples is another, or they take memory that is wanted.
 * False: there is none. */
bool leat_kept_evict(struct leat_loader *loader);
void leat_kept_drop_all(struct leat_loader *loader);
/* Before a batch gets buffers: if these would lie in pages that the kernel has yet to make, which takes longer than
 * copying into them, the last ones that are kept, far behind it, give it theirs. */
void leat_kept_lend_pages(struct leat_loader *loader, const struct leat_batch *batch);
/* The batch with the rows of `batch` that are to be taken next, and their number; it stays until leat_kept_let_go.
 * NULL: none has the first of them; *n is how many are to be made before one has. */
struct leat_batch *leat_kept_find(struct leat_loader *loader, const struct leat_batch *batch, uint64_t *n);
/* Whether the next rows of a batch are to be copied and somebody waits for an earlier one, whose rows come first: on as
 * many cores as there are threads, another one would be in their way. */
bool leat_kept_can_wait(const struct leat_loader *loader, const struct leat_batch *batch);
/* Copies rows [first, first + n) of `to`. Without the lock. */
void leat_kept_copy(const struct leat_batch *from, struct leat_batch *to, uint64_t first, uint64_t n);
void leat_kept_let_go(struct leat_loader *loader, struct leat_batch *kept);

/* ---- task.c, reserve.c ----------------------------------------------------------------------- */

/* The next task of the loader, counted as running, or NULL. Under the lock. With `ahead` it may be of any batch, and
 * further ones are planned. Else it is the one that the consumer waits for: on the side, or among the first ones of the
 * window as far as the delivery says. */
struct leat_task *leat_task_take(struct leat_loader *loader, bool ahead);
/* Runs a task until it is done, or has to wait. Without the lock. */
void leat_task_run(struct leat_task *task);
/* Books the work of a task. Under the lock. */
void leat_task_finish(struct leat_task *task);
/* Whether a batch of the window, or on its side, has rows that no task has yet. Under the lock. */
bool leat_task_has_work(const struct leat_loader *loader);
/* A task, or a copier of rows, is done with a batch. If that was the last one, the batch is finished, or recycled if it
 * was cancelled. Under the lock. */
void leat_batch_let_go(struct leat_loader *loader, struct leat_batch *batch);
/* A task of the pool, or a new one. Under the lock. */
struct leat_task *leat_task_new(struct leat_loader *loader);
void leat_task_recycle(struct leat_task *task); /* under the lock */
void leat_task_destroy(struct leat_task *task);
/* There may be memory again: tasks that can have it, or whose batch was cancelled, go on. Under the lock. */
void leat_task_feed(struct leat_loader *loader);
/* Whether the budget has room for one more task: many may be waiting for reads. Under the
 * lock. */
bool leat_task_may_grow(const struct leat_loader *loader);
/* Releases memory of tasks at rest that a few threads do not need. False: there was none. Under the lock. */
bool leat_task_drop_resting(struct leat_loader *loader);
uint64_t leat_task_size(const struct leat_loader *loader);

/* ---- record.c: a lock of its own ------------------------------------------------------------- */

/* The record of which rows were handed out together, in a folder: docs/order.md. Errors: IO, NOMEM. */
int leat_record_open(const char *folder, const struct leat_loader *loader, uint64_t seed, uint32_t rank,
                     uint32_t world_size, struct leat_record **out, struct leat_error *error);
void leat_record_close(struct leat_record *record);
/* Reads the record's entries of an epoch, for leat_record_find. Not under the engine's lock. Errors: IO, STATE (of
 * another run). */
int leat_record_read(struct leat_record *record, uint64_t epoch, struct leat_error *error);
/* The rows of a step of an epoch that was read, if they are `n`. `numbers` has room for n. */
bool leat_record_find(struct leat_record *record, uint64_t epoch, uint64_t step, uint64_t n, uint64_t *numbers);
/* Forgets the steps from `step` on. */
void leat_record_forget(struct leat_record *record, uint64_t epoch, uint64_t step);
/* Reads and finds. RANGE: it has no such step of n rows. Not under the engine's lock. */
int leat_record_seek(struct leat_record *record, uint64_t epoch, uint64_t step, uint64_t n, uint64_t *numbers,
                     struct leat_error *error);
/* Appends one batch. The first failure is a warning in the log. Not under the engine's lock. */
void leat_record_append(struct leat_record *record, const struct leat_batch *batch);

/* ---- stats.c --------------------------------------------------------------------------------- */

/* Appends one line per broken row of a batch that is handed out, or one for an error that is raised. Without the lock:
 * a file may take its time. Without effect if no report was requested. */
void leat_report_broken(struct leat_loader *loader, const struct leat_batch *batch);
void leat_report_raised(struct leat_loader *loader, uint64_t epoch, uint64_t step, const struct leat_error *error);

#endif
