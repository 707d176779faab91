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
#ifndef LEAT_ENGINE_LOADER_H
#define LEAT_ENGINE_LOADER_H

#include "data/dataset.h"
#include "engine/batch.h"
#include "engine/consumer.h"
#include "engine/context.h"
#include "engine/delivery.h"
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
    int64_t fetch_ns, native_ns, wait_ns, help_ns; /* help: the consumer's, that it made rows itself */
    uint64_t last_samples, last_bytes;             /* of the batch that was counted last */
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
    uint64_t most_asked;     /* rows of the next call of a source for several batches, at most; ahead.c */
    uint64_t made_row_bytes; /* of the largest row that a source has computed; 0: not known */
    int64_t call_ns;         /* the shortest call so far; 0: none */
    double made_row_ns;      /* what a row takes beside that, in the last one */
    unsigned ask_alone;      /* batches that ask for themselves, because calls for several have failed */
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

/* The reading of a loader: fixed after open, but for the last epoch of lists. */
struct leat_input {
    enum leat_order order;
    int64_t epochs;
    bool mixed;         /* a mixture, of */
    uint32_t n_sources; /* ... so many sources */
    bool beside;        /* opened beside another one, whose plan it has, */
    bool listed;        /* ... or one of its own */
    bool lists_later;   /* lists of positions come before each epoch; those of LIST must */
    int64_t list_epoch; /* last epoch for which lists are known; lists_later only */
    uint32_t rank, world_size;
};

/* The memory that it may have beyond what its budget counts, and why: fixed after open. */
struct leat_bounds {
    uint64_t scratch_bytes;
    uint64_t asked_budget, asked_held; /* 0: leat chooses, and may choose more for larger batches */
    uint64_t spare;                    /* of the budget: for decoding, not for more batches */
    uint64_t ragged_row;               /* bytes of a row in ragged outputs, as probed */
    uint64_t region_limit;             /* while tasks need no more than was set aside for them */
    bool raised;                       /* the default budget has room for reads in flight */
};

/* Broken rows and errors that are known: each counts once, however often it comes. */
struct leat_reported {
    int fd;                         /* of the error report; -1: none */
    struct leat_position told;      /* consumers know of broken rows up to here: epoch, number */
    struct leat_position raised_to; /* ... and of errors up to here; out of order: of the one that ends here */
    uint64_t raised_step;           /* of the last one */
};

/* The callers inside. */
struct leat_callers {
    pthread_cond_t changed;
    unsigned waiting; /* threads in `changed` */
    unsigned in_next; /* threads inside leat_loader_next or batch_at */
    bool helping;     /* one of them works: a second one would need scratch that nothing was set aside for */
};

/* The samples that it has handed out, by time. */
struct leat_pace {
    int64_t last_next_ns, opened_ns;
    int64_t recent_ns[2];
    uint64_t recent_samples[2], recent_bytes[2];
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
    size_t asks_many; /* learned: values are computed before batches get their memory, for so many samples at once
                         (ahead.c); 0: they are not */
    struct leat_plan *plan;
    uint8_t fingerprint[16];
    struct leat_input input;
    struct leat_bounds bounds;
    struct leat_record *record; /* NULL: none */
    bool one_core; /* a consumer that waits may work, whatever the client's threads: it takes nobody's core */

    struct leat_callers callers;
    struct leat_reported report;
    struct leat_pace pace;
    unsigned due;            /* enum leat_due */
    struct leat_batch *side; /* batches that are made apart from the window: side.c */
    struct leat_batch *kept; /* batches of before the size changed, whose rows are copied: kept.c */
    bool closed;
    bool detached; /* closing is done: the last parked task releases the data set */
};

static inline struct leat_loader *leat_loader_of(struct leat_client *client)
{
    return (struct leat_loader *)(void *)((char *)client - offsetof(struct leat_loader, client));
}
static inline struct leat_loader *leat_loader_of_pool(struct leat_batch_pool *pool)
{
    return (struct leat_loader *)(void *)((char *)pool - offsetof(struct leat_loader, pool));
}

/* All of these: under the lock, unless said otherwise. */

/* Brings the parts into step: sized batches get memory, tasks that waited for memory go on, waiters with something to
 * see and threads with work are woken. Called once after every event: a task is done or parked, a read is complete,
 * memory is released, a batch is handed out, the plan or the position has changed. */
void leat_loader_settle(struct leat_loader *loader);
/* Waits until something changes, or until deadline_ns (INT64_MAX: without end). False: the time has passed. */
bool leat_loader_wait(struct leat_loader *loader, int64_t deadline_ns);

/* Whether `bytes` more fit into an account, after evicting cheap batches. HELD: not now, with a text if nothing under
 * way will change that; `own` bytes in flight are those of the batch that asks, and will not. BUDGET: never. */
int leat_loader_ask(struct leat_loader *loader, enum leat_account account, uint64_t bytes, uint64_t own,
                    struct leat_error *error);
/* Asks for a batch's buffers and allocates them. Errors: as above, NOMEM. */
int leat_loader_allocate(struct leat_loader *loader, struct leat_batch *batch, struct leat_error *error);
/* Cancels the last batch of the window, unless it is `keep` or the only one. False: there is nothing to evict. */
bool leat_loader_evict(struct leat_loader *loader, const struct leat_batch *keep);
/* Evicts prefetched batches of other loaders that nobody waits for, until the ledger has room for `bytes`. They compute
 * it again when asked. True: some of their tasks still run, and will give memory back. */
bool leat_loader_evict_others(const struct leat_loader *loader, uint64_t bytes);

/* Takes the lock if the loader can be used. Errors: FORKED, CLOSED. */
int leat_loader_enter(const struct leat_loader *loader, struct leat_error *error);
int leat_loader_check_process(const struct leat_loader *loader, struct leat_error *error);
/* Whether batches may have so many rows: images of open size come alone unless their output gives their form. */
int leat_loader_check_rows(const struct leat_loader *loader, uint64_t rows, struct leat_error *error);
/* LEAT_OK: the first batch of the window belongs to the epoch of the loader's own consumer. END; PENDING: there is no
 * memory now; else why it cannot be planned. */
int leat_loader_plan_first(struct leat_loader *loader, struct leat_error *error);
/* Runs a task that the caller would otherwise wait for, if the loader may have one more thread. Releases the lock
 * meanwhile. */
bool leat_loader_help(struct leat_loader *loader);
/* The end of a call that counted itself in in_next. Releases the lock. */
void leat_loader_leave(struct leat_loader *loader);

/* Steps of handing a batch out. Whether max_held_bytes allows it; counting it as the consumer's; counting what was
 * delivered, and planning on; the error of a failed batch, which is made ready to be computed again; counting an error
 * that is raised at a row of a planned batch (UINT64_MAX: at none), once for all consumers and tries; true and the
 * batch failed if no row of it is left. */
int leat_loader_check_held(struct leat_loader *loader, const struct leat_batch *batch, struct leat_error *error);
void leat_loader_put_out(struct leat_loader *loader, struct leat_batch *batch);
void leat_loader_count(struct leat_loader *loader, const struct leat_batch *batch);
int leat_loader_raise(struct leat_loader *loader, struct leat_batch *batch, struct leat_error *error);
void leat_loader_count_raised(struct leat_loader *loader, const struct leat_plan_batch *plan, uint64_t row);
bool leat_batch_fail_if_empty(struct leat_batch *batch);

#endif
