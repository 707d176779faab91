/*
 * Deliveries: the batches that are planned, and the one that is handed out next. There are two, in order (ordered.c)
 * and out of order (gather.c, unordered.c); leat_loader_open chooses, and nobody else asks which it is.
 */
#ifndef LEAT_ENGINE_DELIVERY_H
#define LEAT_ENGINE_DELIVERY_H

#include "engine/assemble.h"
#include "engine/reader.h"

struct leat_loader;

/* The position of a reader of the loader's rows: consumer.c. */
struct leat_consumer {
    struct leat_reader reader; /* first: leat_reader_of */
    struct leat_loader *loader;
    struct leat_consumer *next; /* of the loader's own: all others */
    uint64_t batch_rows;        /* rows of its batches; 0: the loader's own, whose batches are those of the plan */
    struct leat_position
        at;        /* the first batch not yet handed out; out of order the frontier: the first of which a row was not */
    uint64_t skip; /* rows of the planned batch at `at` that it has */
    uint64_t rows; /* rows of the epoch that it has; the loader's own does not go by them */
    struct leat_excerpt only, *parts; /* of the batch at hand */
    uint64_t copied, remade;          /* rows */
    unsigned inside;                  /* threads in its `next` */
    bool closed;
};

/* All functions: under the lock. */
struct leat_delivery {
    bool numbers_rows;     /* batches keep the numbers of their rows, which are not those of the plan at their step */
    size_t helped;         /* batches at the window's front that a waiting consumer may work on */
    bool decides_anywhere; /* a decision may hold from within an epoch */

    /* Makes the fields that the delivery needs beyond struct leat_loader. Without the lock. NULL: nothing. */
    int (*open)(struct leat_loader *loader, const struct leat_loader_options *options, struct leat_error *error);
    /* Plans one further batch. LEAT_OK. LEAT_E_END: the plan has no further batch. LEAT_E_HELD: not yet. If `error` has
     * that code too, its text names the memory to give back first. Else the window is full, or memory comes back
     * without the caller. Other errors name the missing memory if the window is empty. */
    int (*plan)(struct leat_loader *loader, struct leat_error *error);
    /* Batches from `first` on, which is in the window still, are cancelled: planning goes on with it. */
    void (*rewind)(struct leat_loader *loader, const struct leat_batch *first);
    /* The next batch of the running epoch, if one can be handed out now: LEAT_OK, LEAT_E_END, LEAT_IO_PENDING, or the
     * error of a batch. The lock may be let go while rows are copied. */
    int (*next)(struct leat_consumer *consumer, struct leat_batch **out, struct leat_error *error);
    /* Whether the loader's own consumer should look again: a batch can be handed out, or none would ever be made. If
     * there are others, each looks again whenever a task is done. */
    bool (*is_due)(const struct leat_loader *loader);
    /* Called when rows [first, first + n) of a batch are made. NULL: the delivery need not know. */
    void (*made)(struct leat_batch *batch, uint64_t first, uint64_t n);
    /* The consumer begins at `to`, or at its loaded state. Sets its epoch. */
    void (*start)(struct leat_consumer *consumer, struct leat_position to);
    /* Whether rows of the epoch of `at`, the position that a state names, were received. */
    bool (*is_within)(const struct leat_loader *loader, struct leat_position at);
    int (*state)(const struct leat_loader *loader, struct leat_position at, char **json, struct leat_error *error);
    /* Loads a state: consumer.at, consumer.step and the start of planning. */
    int (*load)(struct leat_loader *loader, const char *json, struct leat_error *error);
    /* The rows of a step; without the lock. NULL: those that the plan has. */
    int (*rows_of)(struct leat_loader *loader, const struct leat_plan_batch *plan, uint64_t **numbers,
                   struct leat_error *error);
    void (*free)(struct leat_loader *loader); /* without the lock: nobody else has it. NULL: nothing */
};

extern const struct leat_delivery leat_delivery_in_order, leat_delivery_out_of_order;

/* consumer.c: under the lock. */

/* The start of the next pass of a consumer: for the loader's own a position of the plan, for others so many rows of the
 * epoch. And the first batch of which it has not received all rows. */
struct leat_position leat_consumer_next_start(const struct leat_consumer *consumer);
struct leat_position leat_consumer_received(const struct leat_consumer *consumer);
/* For a loader that others read, too: the number of batches at the window's front that all are past, or that are kept
 * for those behind; 0 if there are no others. And the one that is farthest ahead. */
size_t leat_consumers_lead(const struct leat_loader *loader);
const struct leat_consumer *leat_consumers_leader(const struct leat_loader *loader);
/* Evicts the oldest batch that is kept for a consumer behind. False: there is none. */
bool leat_consumers_evict(struct leat_loader *loader);
/* Removes batches that every consumer is past from the window, and those kept for consumers behind beyond half of
 * it. */
void leat_consumers_trim(struct leat_loader *loader);
/* Whether other consumers than `but` still need a batch. */
bool leat_consumers_need(const struct leat_loader *loader, const struct leat_batch *batch,
                         const struct leat_consumer *but);
/* Moves a consumer to `at`, a position as of leat_consumer_next_start. */
void leat_consumer_stand(struct leat_consumer *consumer, struct leat_position at);
/* LEAT_E_BUDGET: its next batch takes more planned batches than a window holds. For a delivery in order. */
int leat_consumer_check(struct leat_consumer *consumer, struct leat_error *error);
/* The window goes to its position if nobody else is reading, or if that is ahead of all. */
void leat_consumer_bring_window(struct leat_consumer *consumer);
/* After a change of the plan: works out the position of each again; the window does not stay behind those that read. */
void leat_consumers_place(struct leat_loader *loader);

/* Gives up the batches that consumers have peeked at; lets the lock go meanwhile. The second after a change of the plan
 * that holds from `from`, of those alone whose batch is another one now; the batches of the window beyond that are
 * cancelled already. */
void leat_consumers_drop_peeked(struct leat_loader *loader);
void leat_consumers_plan_changed(struct leat_loader *loader, struct leat_position from);
/* The loader's own. */
void leat_consumer_init(struct leat_loader *loader);

/* The step of the batch at a position; 0 if there is none. */
uint64_t leat_loader_step_at(const struct leat_loader *loader, struct leat_position at);

#endif
