/*
 * Looking one batch ahead. A batch that is peeked at is made and at hand, but its consumer was not handed it:
 * positions, states and decisions are those of before. So the consumer stays at its position, and keeps with the batch
 * the one that it will have once it takes it:
 *
 *     next    | a a a a | b b b b | c c c c |      out: a     at: b
 *     peek                                         out: a     at: b     peeked: b, behind it: c     (window: c ...)
 *     next                                         out: a, b  at: c
 *
 * A decision that holds from `b` on, or a position that is set, gives the batch up; the caller of a peek has a
 * reference of its own to it.
 */
#include "base/clock.h"
#include "engine/engine.h"

/* The position of a consumer, and its moves. */
static struct leat_stand stand_of(const struct leat_consumer *c)
{
    return (struct leat_stand){
        .at = c->at, .step = c->reader.step, .skip = c->skip, .rows = c->rows, .ended = c->reader.ended};
}

static void go(struct leat_consumer *c, const struct leat_stand *to)
{
    c->at = to->at;
    c->reader.step = to->step;
    c->skip = to->skip;
    c->rows = to->rows;
    c->reader.ended = to->ended;
}

int leat_peek(struct leat_consumer *c, struct leat_batch **out, struct leat_error *error)
{
    struct leat_loader *l = c->loader;
    if (!c->peeked) {
        const struct leat_stand before = stand_of(c);
        int rc = l->delivery->next(c, &c->peeked, error);
        if (rc)
            return rc;
        c->behind_peeked = stand_of(c);
        go(c, &before);
        l->pace.last_next_ns = leat_clock_ns();
        leat_window_drained(l, leat_window_is_cheap(l, c->peeked->plan.rows)); /* it has left the window */
    }
    leat_batch_retain(c->peeked);
    *out = c->peeked;
    return LEAT_OK;
}

struct leat_batch *leat_peek_take(struct leat_consumer *c)
{
    struct leat_batch *b = c->peeked;
    if (b)
        go(c, &c->behind_peeked);
    c->peeked = NULL;
    return b;
}

void leat_peek_drop(struct leat_consumer *c)
{
    struct leat_batch *b = c->peeked;
    if (!b)
        return;
    c->peeked = NULL;
    leat_engine_unlock(); /* the hook of a buffer that is released may wait */
    leat_batch_free(b);
    leat_engine_lock();
}

/* All consumers from one on, which may go meanwhile. */
static void drop_from(struct leat_consumer **first)
{
    struct leat_consumer *c = *first;
    while (c && !c->peeked)
        c = c->next;
    if (c) {
        leat_peek_drop(c);
        drop_from(first);
    }
}

void leat_peek_drop_all(struct leat_loader *l)
{
    leat_peek_drop(&l->consumer);
    drop_from(&l->consumer.next);
}

void leat_peek_change(struct leat_loader *l, struct leat_position from)
{
    struct leat_consumer *own = &l->consumer;
    drop_from(&own->next);
    if (!own->peeked || !leat_position_precedes(from, own->behind_peeked.at))
        return;
    leat_peek_drop(own);
    if (leat_position_precedes(own->at, l->window.plan_at)) { /* nothing that is planned lies behind it any more */
        l->window.plan_at = own->at;
        l->window.full = false;
    }
}
