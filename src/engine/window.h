/*
 * The window: the batches in flight, in the order of the plan. Planning a batch is naming its rows and allocating its
 * buffers, which of ragged ones comes when the lengths of their rows are known; the tasks compute the samples of the
 * rows. A window that cannot grow is full; cancelled batches are planned again later.
 *
 *     handed out | ring[head] ... ring[head + n - 1] | plan_at: the first batch that is not planned
 */
#ifndef LEAT_ENGINE_WINDOW_H
#define LEAT_ENGINE_WINDOW_H

#include "engine/batch.h"

struct leat_loader;

#define LEAT_MAX_WINDOW 256

struct leat_window {
    struct leat_batch *ring[LEAT_MAX_WINDOW];
    size_t head, n, room; /* room: batches in flight at most, */
    size_t cheap_room;    /* ... or so many, if they are cheap */
    struct leat_position plan_at;
    uint64_t estimate; /* bytes of a batch, for planning if it is ragged */
    size_t n_sized;    /* at least so many batches may be SIZED: they wait for memory */
    bool full; /* no planning until a batch is handed out; of cheap ones, until it or the budget is half empty */
};

static inline struct leat_batch *leat_window_at(const struct leat_window *w, size_t i)
{
    return w->ring[(w->head + i) % LEAT_MAX_WINDOW];
}

/* All of these: under the lock. */

/* The number of batches that may be in flight now. Cheap ones are made so fast that threads which make 24 of them would
 * go to sleep and be woken all the time, which costs more than the batches. */
size_t leat_window_room(const struct leat_loader *loader);
/* Whether making a batch of so many rows costs less than it is worth to wake a thread for. */
bool leat_window_is_cheap(const struct leat_loader *loader, uint64_t rows);
/* A planned batch at the end of the window, with its memory if the lengths of its rows are known. HELD: no memory now;
 * BUDGET, NOMEM. */
int leat_window_admit(struct leat_loader *loader, const struct leat_plan_batch *plan, struct leat_batch **out,
                      struct leat_error *error);
/* The last epoch of which batches may be planned now. */
uint64_t leat_window_last_epoch(const struct leat_loader *loader);
/* Gives memory to sized batches, in order, as long as it lasts. */
void leat_window_assign(struct leat_loader *loader);
/* Cancels all batches of the window from index `from` on: they are planned again when asked. */
void leat_window_cancel(struct leat_loader *loader, size_t from);
/* The first batch leaves the window. */
struct leat_batch *leat_window_pop(struct leat_window *window);
/* The index of the first batch that does not lie before a position; the window's length if there is none. */
size_t leat_window_from(const struct leat_window *window, struct leat_position at);
/* Takes the batch at index i out of the window. */
void leat_window_remove(struct leat_window *window, size_t i);
/* Planning goes on once a good part of the window is free: waking a thread for each cheap batch would cost more than
 * making it. */
void leat_window_drained(struct leat_loader *loader, bool cheap);

#endif
