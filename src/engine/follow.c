/* Telling a follower of the batches at the front of the window. */
#include "engine/follow.h"

#include "engine/loader.h"

/* Whether rows stay where they are made: nothing is put between them, and no operator sees the batch as a whole. */
static bool rows_stay(const struct leat_batch *b)
{
    return !b->pool->bounded && !b->pool->n_segments && !b->pool->late && !leat_program_has_batch_stage(b->program);
}

static void tell(struct leat_batch *b)
{
    b->followed.told = true;
    b->followed.by->ready(b->followed.mark, b, !b->followed.by_rows || b->rows != b->plan.rows);
}

void leat_follow(struct leat_loader *l)
{
    struct leat_follower *f = l->pool.follower;
    if (l->consumer.next) /* batches are put together for each */
        f = NULL;
    for (size_t i = 0; f && i < l->window.n && i < atomic_load_explicit(&f->ahead, memory_order_relaxed); i++) {
        struct leat_batch *b = leat_window_at(&l->window, i);
        const bool ready = b->state == LEAT_BATCH_READY;
        if (b->apart.loose || (!ready && b->state != LEAT_BATCH_FILLING))
            continue;
        if (!b->followed.mark && (ready || (!b->taken && rows_stay(b)))) { /* no task looks at it now */
            void *mark = f->begin(f->user, b);
            b->followed = (struct leat_batch_followed){f, mark, mark && !ready, false};
        }
        if (ready && b->followed.mark && !b->followed.told)
            tell(b);
    }
}

void leat_follow_drop(struct leat_batch *b)
{
    if (b->followed.mark)
        b->followed.by->drop(b->followed.mark);
    b->followed = (struct leat_batch_followed){0};
}

void *leat_batch_take_mark(struct leat_batch *b)
{
    leat_engine_lock();
    if (b->followed.mark && !b->followed.told)
        tell(b);
    void *mark = b->followed.mark;
    b->followed = (struct leat_batch_followed){0};
    leat_engine_unlock();
    return mark;
}

int leat_loader_follow(struct leat_loader *l, struct leat_follower *follower, struct leat_error *error)
{
    int rc = leat_loader_enter(l, error);
    if (rc)
        return rc;
    l->pool.follower = follower;
    l->pool.references++; /* its memory may be read to the end */
    leat_follow(l);
    leat_engine_unlock();
    return LEAT_OK;
}

void leat_loader_unfollow(struct leat_loader *l)
{
    leat_engine_lock();
    l->pool.follower = NULL;
    for (size_t i = 0; i < l->window.n; i++)
        if (!leat_window_at(&l->window, i)->tasks)
            leat_follow_drop(leat_window_at(&l->window, i));
    leat_engine_unlock();
}

void leat_loader_followed(struct leat_loader *l)
{
    leat_engine_lock();
    leat_batch_pool_unref_unlock(&l->pool);
}

void leat_loader_stop_following(struct leat_loader *l)
{
    leat_engine_lock();
    for (size_t i = 0; i < l->window.n; i++) {
        const struct leat_batch_followed *f = &leat_window_at(&l->window, i)->followed;
        if (f->mark)
            f->by->stop(f->mark);
    }
    leat_engine_unlock();
}
