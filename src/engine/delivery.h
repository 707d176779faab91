/*
 * Deliveries: the batches that are planned, and the one that is handed out next. There are two, in order (ordered.h)
 * and out of order (unordered.h); leat_loader_open chooses, and nobody else asks which it is.
 */
#ifndef LEAT_ENGINE_DELIVERY_H
#define LEAT_ENGINE_DELIVERY_H

#include "engine/batch.h"

struct leat_consumer;
struct leat_loader;

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

#endif
