/*
 * Consumers: the positions of the readers of a loader's rows.
 */
#ifndef LEAT_ENGINE_CONSUMER_H
#define LEAT_ENGINE_CONSUMER_H

#include "engine/assemble.h"
#include "engine/reader.h"

struct leat_loader;

/* The position of a reader of the loader's rows. */
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

/* All of these: under the lock. */

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

#endif
