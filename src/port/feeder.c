/* The feeder: reads the loader from front to back as long as a consumer needs its next batch. */
#include "base/clock.h"
#include "base/error.h"
#include "port/internal.h"

#define RECENT_NS (INT64_C(60) * 1000000000)

/* Whether some other consumer goes along with the feeder. */
static bool is_followed(const struct leat_line *l, const struct leat_port_consumer *but)
{
    const int64_t now = leat_clock_ns();
    for (const struct leat_port_consumer *c = l->consumers; c; c = c->next_in_line)
        if (c != but && !c->gone && leat_consumer_is_near(l, c) && now - c->lent_ns < RECENT_NS)
            return true;
    return false;
}

/* A consumer whose next batch is neither there nor the feeder's next. */
static bool is_stranded(const struct leat_line *l, const struct leat_port_consumer *c)
{
    return leat_consumer_wants(l, c) && !leat_position_is(c->at, l->feeds) && leat_shelf_find(l, c) == LEAT_NO_SLOT;
}

struct leat_port_consumer *leat_line_needs_maker(struct leat_line *l)
{
    for (struct leat_port_consumer *c = l->consumers; c; c = c->next_in_line)
        if (!c->gone && (c->asks || (is_stranded(l, c) && is_followed(l, c))))
            return c;
    return NULL;
}

/* Whether the feeder should read on; it goes to a stranded consumer if nobody goes along with it. */
static bool is_wanted(struct leat_line *l)
{
    struct leat_port_consumer *stranded = NULL;
    for (struct leat_port_consumer *c = l->consumers; c; c = c->next_in_line) {
        if (!leat_consumer_wants(l, c))
            continue;
        if (leat_position_is(c->at, l->feeds))
            return leat_shelf_has_room(l);
        if (!stranded && is_stranded(l, c) && !is_followed(l, c))
            stranded = c;
    }
    if (!stranded)
        return false;
    l->feeds = stranded->at;
    l->seek = true;
    return true;
}

/* Without the lock. LEAT_E_END: the epoch is over. */
static int read_next(struct leat_line *l, struct leat_position at, bool seek, struct leat_batch **batch,
                     struct leat_error *error)
{
    int rc = seek ? leat_served_seek(l->loader, at, &l->iteration, error) : LEAT_OK;
    return rc ? rc : leat_loader_next(l->loader, l->iteration, -1, batch, error);
}

/* No batch can be given up: others have all memory. */
static void wait_for_memory(struct leat_line *l)
{
    leat_shelf_lend_all(l);
    if (!leat_shelf_ask_back(l))
        pthread_cond_wait(&l->feed, &l->port->lock);
}

/* Publishes the rows that were read; NULL: those rows failed. Under the lock, which is let go while memory is short. */
static void publish(struct leat_line *l, struct leat_batch *batch, const struct leat_plan_batch *plan)
{
    struct leat_error error;
    uint32_t slot;
    int rc;
    while ((rc = leat_shelf_put(l, batch, plan, LEAT_SHELF_FED, &slot, &error)) == LEAT_E_HELD && !l->closing)
        if (!leat_shelf_evict(l))
            wait_for_memory(l);
    if (rc) {
        leat_batch_free(batch);
        if (!l->closing)
            leat_line_fail(l, &error);
        return;
    }
    if (!plan->at.row || !l->epoch_rows)
        leat_served_epoch_rows(l->loader, plan->epoch, &l->epoch_rows, &error);
    l->n_fed++;
    l->n_rows += batch ? leat_batch_rows(batch) : 0;
    l->feeds = l->shelf[slot].next;
    leat_shelf_lend_all(l);
    leat_shelf_trim(l);
}

/* One batch. Under the lock, which is let go meanwhile. Whether it was published, and lent to all that wait for it. */
static bool feed(struct leat_line *l)
{
    struct leat_batch *batch = NULL;
    struct leat_plan_batch plan;
    struct leat_error error;
    const struct leat_position at = l->feeds;
    const bool seek = l->seek;
    pthread_mutex_unlock(&l->port->lock);
    int rc = read_next(l, at, seek, &batch, &error);
    if (rc == LEAT_E_END && !seek) /* the one before was the epoch's last */
        rc = read_next(l, at, true, &batch, &error);
    if (!rc)
        plan = batch->plan;
    else if (rc != LEAT_E_HELD && rc != LEAT_E_CANCELLED && rc != LEAT_E_CLOSED) {
        struct leat_error unplanned; /* its rows failed: a reader that needs one of them asks for it, and gets the
                                      * reason */
        if (!leat_served_find(l->loader, at, &plan, &unplanned))
            rc = LEAT_OK;
    }
    if (!rc)
        leat_port_mirror(l->port, batch);
    pthread_mutex_lock(&l->port->lock);
    l->seek = false;
    if (l->closing) {
        leat_batch_free(batch);
        return false;
    }
    if (!rc) {
        l->seek = !batch;
        publish(l, batch, &plan);
        return true;
    }
    if (rc == LEAT_E_HELD || rc == LEAT_E_CANCELLED) {
        l->seek = true;
        if (rc == LEAT_E_HELD && !leat_shelf_evict(l))
            wait_for_memory(l);
    } else {
        leat_line_fail(l, &error);
    }
    return false;
}

void *leat_line_feeder(void *line)
{
    struct leat_line *l = line;
    struct leat_error later; /* readers learn of it */
    const bool begun = !leat_served_seek(l->loader, l->is.at, &l->iteration, &later);
    pthread_mutex_lock(&l->port->lock);
    l->seek = !begun || !leat_position_is(l->feeds, l->is.at); /* the loader reads ahead before anybody has attached */
    for (bool lent = false; !l->closing;) {
        if (!lent)
            leat_shelf_lend_all(l);
        const bool wanted = !l->failure.code && is_wanted(l);
        const bool worked = l->samples && !l->failure.code && leat_samples_work(l);
        if (!worked && wanted && !l->failure.code) {
            lent = feed(l);
            continue;
        }
        if (worked || lent) { /* before it waits it looks once more for returned batches */
            lent = false;
            continue;
        }
        leat_shelf_trim(l);
        if (leat_line_needs_maker(l))
            pthread_cond_signal(&l->make);
        pthread_cond_wait(&l->feed, &l->port->lock);
    }
    pthread_mutex_unlock(&l->port->lock);
    return NULL;
}
