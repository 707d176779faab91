/*
 * One batch: its arrays, its buffers and its life. It does not know who plans it, who fills it and who gets it.
 *
 *              leat_batch_new    lengths*          leat_batch_allocate     last row         handed out
 *     FREE ----------> SIZING* --------> SIZED* ---------------> FILLING ---------> READY -----------> OUT ---> FREE
 *      |                                                          |  ^               |  leat_batch_free
 *      | nobody          one task                     its tasks,  |  |               | nobody; the consumer's
 *      |                 (lengths)                    own rows    v  | asked again   v (no lock)
 *      |                                                        FAILED               |
 *      +---- a batch that was cancelled goes back to FREE when its last task lets go of it ----+
 *
 *     KEPT: its rows, the first `taken`, are copied into other batches (kept.c); then it is FREE
 *
 *     * only if an output is ragged: its buffers cannot be allocated before the lengths of the values are known; or if
 *       values are computed for several batches in one call (ahead.c)
 *
 * States change under the engine's lock. The arrays of a FILLING batch are written by its tasks without it, each task
 * its own rows.
 */
#ifndef LEAT_ENGINE_BATCH_H
#define LEAT_ENGINE_BATCH_H

#include <stdatomic.h>

#include "engine/budget.h"
#include "engine/mirror.h"
#include "engine/region.h"
#include "op/program.h"
#include "plan/plan.h"

struct leat_batch_pool;

/* One output of one batch: pages of the pool's region. The last reference gives them back. */
struct leat_buffer {
    _Atomic uint32_t references;
    struct leat_batch_pool *pool;
    uint8_t *data;
    uint64_t offset, bytes; /* in the region; bytes: whole pages */
    size_t output;
    void *lender, *memory; /* of a pool with let_go: the lender of the values, or NULL; `bytes` of its own, or NULL */
    void (*release)(void *user);
    void *release_user; /* leat_buffer_on_release */
    struct leat_mirror mirror;
    struct leat_buffer *next;
};

/* One row that the error policy touched. */
struct leat_broken_row {
    uint64_t row;
    int64_t planned, delivered;
    int code;
    char *reason;               /* owned */
    uint64_t step, planned_row; /* in order: its place in the plan, once it is handed out */
    bool told;                  /* another consumer knows of it */
};

enum leat_batch_state {
    LEAT_BATCH_FREE = 0,
    LEAT_BATCH_SIZING,
    LEAT_BATCH_SIZED,
    LEAT_BATCH_FILLING,
    LEAT_BATCH_READY,
    LEAT_BATCH_FAILED,
    LEAT_BATCH_KEPT,
    LEAT_BATCH_OUT
};

/* A batch on its way through functions: the segments of its program. */
struct leat_batch_calls {
    unsigned segment;   /* that its rows are in */
    bool placing;       /* its calls are done: results of varying length are put into their buffers */
    _Atomic bool again; /* a function on the whole batch has seen a row that was replaced: from segment 1 on again */
    struct leat_values *results; /* of varying length, by output and row, until they are in place; or NULL */
    uint64_t result_bytes;       /* of these, as the budget counts them; in `meta` too */
    uint8_t *draws;              /* the try whose key functions draw by; 0: they draw by the row's */
};

/* Values that a source computed before its rows are made: to say how long they are, or with those of other batches. */
struct leat_batch_computed {
    struct leat_values *values; /* or NULL */
    uint64_t bytes;             /* of these, as the budget counts them; in `meta` too */
};

/* Rows that are broken, and the error of the batch. */
struct leat_batch_faults {
    struct leat_broken_row *broken;
    size_t n_broken, broken_room;
    _Atomic uint64_t failed_row; /* UINT64_MAX: none; else the lowest, whose error is kept in `failure` */
    struct leat_error failure;
};

/* For a pool that numbers rows: gather.c. */
struct leat_batch_apart {
    bool loose;               /* its rows may leave it one by one */
    bool listed;              /* its rows are those of `numbers`, not a run of the plan's */
    bool recorded;            /* it stands in the record, and is made again */
    uint64_t skip, last_step; /* rows of its part of the batch at plan.at that lie before it; the step that its last row
                                 is planned in */
    uint64_t n_made, n_gone;  /* rows that are made and still here; that have left it */
    uint64_t *numbers;        /* the rows, by number in the epoch, rising */
    uint8_t *row_state;       /* enum leat_row_state */
};

/* follow.h */
struct leat_batch_followed {
    struct leat_follower *by;
    void *mark; /* NULL: it is not followed */
    bool by_rows, told;
};

struct leat_batch {
    struct leat_batch_pool *pool;
    enum leat_batch_state state;
    enum leat_account account; /* which its bytes are counted in */
    struct leat_plan_batch plan;
    const struct leat_program *program; /* the pool's, or the variant for this batch */
    uint64_t rows;                      /* delivered: planned ones less those left out */
    uint64_t taken;                     /* rows given to tasks */
    _Atomic uint64_t done;              /* rows finished; the task that finishes the last one completes the batch */
    unsigned tasks;                     /* running or parked */
    _Atomic bool cancelled;             /* not in the window any more; its last task frees it */
    uint64_t room;                      /* rows for which the arrays have room */
    int64_t *ids;                       /* begins the memory of all arrays of rows */
    uint64_t *keys;
    int32_t *domains; /* the plan's source of each row */
    bool *valid, *left_out;
    int64_t **offsets; /* per ragged output, else NULL. While sizing: room + 1 offsets, which are then copied into its
                          buffer. While rows are made, of a bounded one: the steps that were made of each row */
    uint8_t **memory;  /* per output: of its buffer, while rows are made */
    struct leat_batch_computed computed;
    struct leat_buffer **buffers;
    struct leat_view *views;     /* of a pool with let_go, by output, as leat_batch_values gives them; else NULL */
    struct leat_mirror *mirrors; /* ... and of these; else NULL */
    uint64_t bytes;              /* of the buffers; 0 while there are none */
    uint64_t tensor_bytes;       /* once it is OUT: delivered, without their rounding */
    uint64_t meta;               /* of the arrays, as the budget counts them */
    struct leat_batch_faults faults;
    const void *for_whom; /* of a batch on the side of the window: whom it is made for */
    struct leat_batch_calls calls;
    uint8_t *attempts;        /* of a program with calls: substitutes that were tried for each row */
    bool copied;              /* its rows come from other batches: it has no hidden outputs */
    _Atomic unsigned holders; /* once it is OUT: the last one that frees it gives it back */
    struct leat_batch *next;
    struct leat_batch_apart apart;
    struct leat_batch_followed followed;
};

enum leat_row_state { LEAT_ROW_OPEN = 0, LEAT_ROW_MADE, LEAT_ROW_GONE };

/* The place of the values of an output. */
struct leat_view {
    uint8_t *data;
    const int64_t *offsets; /* of a ragged one, from 0 */
};

/* The owner of the batches of one loader. It outlives the loader's handle as long as a batch or a buffer is out. */
struct leat_batch_pool {
    const struct leat_program *program;
    uint64_t seed; /* of the plan: the variant of the program for a batch */
    size_t n_outputs;
    bool numbered;       /* batches have numbers and states of rows */
    bool bounded;        /* some output has only a bound of its length before it is made */
    unsigned n_segments; /* of the program, behind its chains (calls.c) */
    uint64_t late;       /* bit s: segment s has results of varying length */
    uint64_t late_row;   /* bytes of these that a row had, learned */
    struct leat_budget *budget;
    struct leat_region region;
    struct leat_batch *free_batches;
    struct leat_buffer *free_buffers;
    uint64_t *live;                             /* per output: buffers out; the largest is how many batches are held */
    unsigned generation;                        /* of the process that opened it */
    uint64_t references;                        /* open handle, batches and buffers out, parked tasks */
    void (*let_go)(struct leat_buffer *buffer); /* the treatment of a buffer whose memory is not the region's, instead
                                                 * of giving it back there; under the lock. NULL: all is the region's */
    struct leat_follower *follower;             /* NULL: none */
    void (*given_back)(struct leat_batch_pool *pool); /* memory is free again; under the lock */
    void (*destroy)(struct leat_batch_pool *pool);    /* the last reference is gone; without the lock */
};

/* Whether this process opened it: a forked child must not touch it. */
bool leat_batch_pool_is_ours(const struct leat_batch_pool *pool);
/* Gives up a reference and lets go of the lock; destroys the objects that the last one kept. */
void leat_batch_pool_unref_unlock(struct leat_batch_pool *pool);
/* Frees batches at rest. Without the lock, after the last reference. */
void leat_batch_pool_clear(struct leat_batch_pool *pool);
uint64_t leat_batch_pool_held_batches(const struct leat_batch_pool *pool);

/* The bytes of an output's buffer for `rows` rows or `steps` ragged steps, and the start of its values. */
uint64_t leat_output_bytes(const struct leat_output *output, uint64_t rows, uint64_t steps);
uint64_t leat_output_values(const struct leat_output *output, uint64_t rows);
/* Bytes of the arrays of a batch. */
uint64_t leat_batch_meta_bytes(const struct leat_batch_pool *pool, uint64_t rows);

/* All of these: under the lock. */

/* A batch of the pool, SIZING, with arrays for its planned rows, counted in `account`. NULL: NOMEM. */
struct leat_batch *leat_batch_new(struct leat_batch_pool *pool, const struct leat_plan_batch *plan,
                                  enum leat_account account, struct leat_error *error);
/* The bytes of all its buffers, by its offsets if outputs are ragged; UINT64_MAX / 2: more than any budget. */
uint64_t leat_batch_buffer_bytes(const struct leat_batch *batch);
/* Takes the buffers of a batch from the region. NOMEM; HELD: no free piece is large enough. */
int leat_batch_allocate(struct leat_batch *batch, struct leat_error *error);
/* Gives its buffers back. */
void leat_batch_release(struct leat_batch *batch);
/* A buffer of the pool's region that is no output's: held by the caller, who releases it. NOMEM; HELD: no free piece is
 * large enough. */
int leat_batch_pool_lend(struct leat_batch_pool *pool, uint64_t bytes, struct leat_buffer **out,
                         struct leat_error *error);
/* A buffer of a pool with let_go, with one reference, as a batch of it has them. NULL: NOMEM. */
struct leat_buffer *leat_batch_pool_borrow(struct leat_batch_pool *pool, size_t output);
/* Makes it ready to be computed again. */
void leat_batch_rewind(struct leat_batch *batch);
/* Takes a batch out of use that is in no window any more: at once, or when its last task lets go of it. */
void leat_batch_cancel(struct leat_batch *batch);
/* Gives everything back and puts the batch into the pool. */
void leat_batch_recycle(struct leat_batch *batch);
/* It is the consumer's now: its bytes are held, and it and its buffers keep the pool. */
void leat_batch_put_out(struct leat_batch *batch);
/* One that is out has one more holder, who frees it too. Any thread. */
void leat_batch_retain(struct leat_batch *batch);

/* The values of an output that is there, and the offsets of a ragged one. */
struct leat_view leat_batch_values(const struct leat_batch *batch, size_t output);

/* The offsets of a ragged output. */
static inline int64_t *leat_batch_offsets(const struct leat_batch *b, size_t output)
{
    return (int64_t *)(void *)b->buffers[output]->data;
}

/* The steps of a row of a ragged output that was made. */
static inline int64_t leat_batch_steps(const struct leat_batch *b, size_t output, uint64_t row)
{
    const int64_t *offsets = leat_batch_offsets(b, output) + row;
    return leat_program_output(b->pool->program, output)->bounded ? b->offsets[output][row] : offsets[1] - offsets[0];
}

/* Room for computed values of all its rows, of so many fields. False: NOMEM. By its only task, or under the lock. */
bool leat_batch_expect_made(struct leat_batch *batch, size_t n_fields);
/* Computed values are not needed any more. Under the lock. */
void leat_batch_drop_made(struct leat_batch *batch);
/* Once all rows are made: takes those that were left out, and the unused room of bounded outputs, from between the
 * others; then the program sees the batch as a whole. Without the lock. */
void leat_batch_complete(struct leat_batch *batch);
/* The program sees a batch whose rows lie together. */
void leat_batch_finish(struct leat_batch *batch);
/* Gives back outputs that only functions took. Under the lock. */
void leat_batch_release_hidden(struct leat_batch *batch);

/* Results of varying length, of functions, and images of open size: they are made before their buffers can be
 * allocated (results.h). */
static inline bool leat_output_is_late(const struct leat_output *output)
{
    return output->open || (output->called && output->ragged);
}
/* Whether an output is one of these, of the segment that its batch is in: the chains are segment 0. */
static inline bool leat_batch_is_late(const struct leat_batch *b, size_t o)
{
    const struct leat_output *output = leat_program_output(b->program, o);
    return leat_output_is_late(output) && output->segment == b->calls.segment;
}
/* Gives them up with their buffers: the batch goes through its segments again. Under the lock. */
void leat_batch_release_results(struct leat_batch *batch);
/* Whether the batch is in its last segment. */
static inline bool leat_batch_is_last(const struct leat_batch *b)
{
    return b->calls.segment == b->pool->n_segments && (b->calls.placing || !(b->pool->late >> b->calls.segment & 1));
}

/* The delivered bytes of all tensors, without the rounding of their buffers. */
uint64_t leat_batch_tensor_bytes(const struct leat_batch *batch);

/* Whether a batch has rows, or lengths, that no task has yet. */
static inline bool leat_batch_has_work(const struct leat_batch *b)
{
    return (b->state == LEAT_BATCH_SIZING && !b->taken) || (b->state == LEAT_BATCH_FILLING && b->taken < b->plan.rows);
}
static inline bool leat_batch_is_done(const struct leat_batch *b)
{
    return b->state == LEAT_BATCH_READY || b->state == LEAT_BATCH_FAILED;
}
/* The number of rows, of n, that can be taken together from row `taken` on; and past rows that have left the batch. */
static inline uint64_t leat_batch_run(const struct leat_batch *b, uint64_t n)
{
    for (uint64_t i = 1; b->apart.loose && i < n; i++)
        if (b->apart.row_state[b->taken + i] == LEAT_ROW_GONE)
            return i;
    return n;
}
static inline void leat_batch_skip_gone(struct leat_batch *b)
{
    while (b->apart.loose && b->taken < b->plan.rows && b->apart.row_state[b->taken] == LEAT_ROW_GONE)
        b->taken++;
}

#endif
