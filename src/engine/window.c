/* The ring of batches in flight, and their memory. */
#include "engine/window.h"
#include "engine/ahead.h"
#include "engine/follow.h"

#include "base/error.h"
#include "engine/loader.h"
#include "engine/task.h"

#define CHEAP_BATCH_NS 500000.0

bool leat_window_is_cheap(const struct leat_loader *l, uint64_t rows)
{
    return !l->consumer.next && l->tasks.ns_per_row * (double)rows < CHEAP_BATCH_NS;
}

size_t leat_window_room(const struct leat_loader *l)
{
    const struct leat_window *w = &l->window;
    const bool calls = l->asks_many && l->asks_many <= LEAT_ASKED_OF_CALLS; /* slow ones, perhaps in vain */
    return w->cheap_room > w->room && !l->tasks.pends && !calls && w->n &&
                   leat_window_is_cheap(l, leat_window_at(w, w->n - 1)->plan.rows)
               ? w->cheap_room
               : w->room;
}

uint64_t leat_window_last_epoch(const struct leat_loader *l)
{
    uint64_t epoch = leat_consumers_leader(l)->reader.epoch, last = epoch + 1; /* at most one window into the next */
    if (l->input.epochs >= 0)
        last = l->input.epochs && (uint64_t)l->input.epochs - 1 > epoch ? last : epoch;
    if (l->input.lists_later && (int64_t)last > l->input.list_epoch)
        last = l->input.list_epoch < (int64_t)epoch ? epoch : (uint64_t)l->input.list_epoch;
    return last;
}

int leat_window_admit(struct leat_loader *l, const struct leat_plan_batch *plan, struct leat_batch **out,
                      struct leat_error *error)
{
    struct leat_window *w = &l->window;
    uint64_t bytes = leat_batch_meta_bytes(&l->pool, plan->rows);
    if (l->pool.late & 1) { /* images of open size: until their memory is known, and then for their buffers too */
        if (!l->pool.late_row && w->n > 1)
            return LEAT_E_HELD;
        bytes += w->n ? plan->rows * l->pool.late_row : 0;
    }
    const bool sized = leat_ahead_is_wanted(l) || l->ragged;
    int rc = leat_loader_ask(l, LEAT_IN_FLIGHT, sized && w->n ? bytes + w->estimate : bytes, 0, error);
    if (rc)
        return rc;
    struct leat_batch *b = leat_batch_new(&l->pool, plan, LEAT_IN_FLIGHT, error);
    if (!b)
        return LEAT_E_NOMEM;
    if (!sized) {
        rc = leat_loader_allocate(l, b, error);
        if (rc) {
            leat_batch_recycle(b);
            return rc;
        }
        b->state = LEAT_BATCH_FILLING;
    }
    w->ring[(w->head + w->n++) % LEAT_MAX_WINDOW] = b;
    leat_follow(l); /* before a task has rows of it */
    *out = b;
    return LEAT_OK;
}

void leat_window_assign(struct leat_loader *l)
{
    struct leat_window *w = &l->window;
    w->n_sized = 0;
    for (size_t i = 0; i < w->n; i++) {
        struct leat_batch *b = leat_window_at(w, i);
        if (b->state == LEAT_BATCH_SIZING)
            break;
        if (b->state != LEAT_BATCH_SIZED)
            continue;
        int rc = leat_loader_allocate(l, b, &b->faults.failure);
        if (rc && !i && w->n > 1) { /* the first one goes before all others, whose arrays may be in the way */
            leat_window_cancel(l, 1);
            rc = leat_loader_allocate(l, b, &b->faults.failure);
        }
        /* A cancelled batch will give memory back. Its own arrays, and buffers of results whose length was known
         * before, do not count. Nor has it failed if other loaders will give some back. */
        if (rc && (i || (rc == LEAT_E_HELD && (l->budget.used[LEAT_IN_FLIGHT] > b->meta + b->bytes ||
                                               b->faults.failure.code != LEAT_E_HELD)))) {
            w->n_sized = 1;
            break;
        }
        if (rc == LEAT_E_HELD)
            leat_budget_refuse(&l->budget, LEAT_IN_FLIGHT, b->meta + b->bytes + leat_batch_buffer_bytes(b),
                               &b->faults.failure);
        b->state = rc ? LEAT_BATCH_FAILED : LEAT_BATCH_FILLING;
        l->due |= LEAT_DUE_WORK | (rc ? LEAT_DUE_WAKE : 0);
    }
    for (size_t i = 0; !w->n_sized && i < w->n; i++) /* behind one that is being sized */
        w->n_sized += leat_window_at(w, i)->state == LEAT_BATCH_SIZED;
}

void leat_window_cancel(struct leat_loader *l, size_t from)
{
    struct leat_window *w = &l->window;
    if (from >= w->n)
        return;
    l->delivery->rewind(l, leat_window_at(w, from));
    while (w->n > from)
        leat_batch_cancel(leat_window_at(w, --w->n));
    leat_task_wake_cancelled(l);
    w->full = false;
}

struct leat_batch *leat_window_pop(struct leat_window *w)
{
    struct leat_batch *b = leat_window_at(w, 0);
    w->head = (w->head + 1) % LEAT_MAX_WINDOW;
    w->n--;
    return b;
}

size_t leat_window_from(const struct leat_window *w, struct leat_position at)
{
    size_t i = 0;
    while (i < w->n && leat_position_precedes(leat_window_at(w, i)->plan.at, at))
        i++;
    return i;
}

void leat_window_remove(struct leat_window *w, size_t i)
{
    for (; i; i--)
        w->ring[(w->head + i) % LEAT_MAX_WINDOW] = leat_window_at(w, i - 1);
    leat_window_pop(w);
}

void leat_window_drained(struct leat_loader *l, bool cheap)
{
    struct leat_window *w = &l->window;
    const size_t room = cheap ? leat_window_room(l) : w->room;
    const bool budget = 2 * l->budget.used[LEAT_IN_FLIGHT] > l->budget.limit;
    if (!w->full || (2 * w->n > room && (l->asks_many || (cheap && budget))))
        return;
    w->full = false;
    l->due |= LEAT_DUE_WORK;
}
