/* The feeder: reads the loader from front to back as long as a consumer needs its next batch. */
#include "base/clock.h"
#include "base/error.h"
#include "port/internal.h"

#define RECENT_NS (INT64_C(60) * 1000000000)

/* Whether some other consumer goes along with the feeder. */
static bool is_followed(const struct leat_port *p, const struct leat_port_consumer *but)
{
    const int64_t now = leat_clock_ns();
    for (const struct leat_port_consumer *c = p->consumers; c; c = c->next)
        if (c != but && !c->gone && leat_consumer_is_near(p, c) && now - c->lent_ns < RECENT_NS)
            return true;
    return false;
}

/* A consumer whose next batch is neither there nor the feeder's next. */
static bool is_stranded(const struct leat_port *p, const struct leat_port_consumer *c)
{
    return leat_consumer_wants(p, c) && !leat_position_is(c->at, p->feeds) && leat_shelf_find(p, c) == LEAT_NO_SLOT;
}

struct leat_port_consumer *leat_port_needs_maker(struct leat_port *p)
{
    for (struct leat_port_consumer *c = p->consumers; c; c = c->next)
        if (!c->gone && (c->asks || (is_stranded(p, c) && is_followed(p, c))))
            return c;
    return NULL;
}

/* Whether the feeder should read on; it goes to a stranded consumer if nobody goes along with it. */
static bool is_wanted(struct leat_port *p)
{
    struct leat_port_consumer *stranded = NULL;
    for (struct leat_port_consumer *c = p->consumers; c; c = c->next) {
        if (!leat_consumer_wants(p, c))
            continue;
        if (leat_position_is(c->at, p->feeds))
            return leat_shelf_has_room(p);
        if (!stranded && is_stranded(p, c) && !is_followed(p, c))
            stranded = c;
    }
    if (!stranded)
        return false;
    p->feeds = stranded->at;
    p->seek = true;
    return true;
}

/* Without the lock. LEAT_E_END: the epoch is over. */
static int read_next(struct leat_port *p, struct leat_position at, bool seek, struct leat_batch **batch,
                     struct leat_error *error)
{
    int rc = seek ? leat_served_seek(p->loader, at, &p->iteration, error) : LEAT_OK;
    return rc ? rc : leat_loader_next(p->loader, p->iteration, -1, batch, error);
}

/* Nothing can be given up: others have all memory. */
static void wait_for_memory(struct leat_port *p)
{
    leat_shelf_lend_all(p);
    if (!leat_shelf_ask_back(p))
        pthread_cond_wait(&p->feed, &p->lock);
}

/* Publishes what was read; NULL: those rows failed. Under the lock, which is let go while memory is short. */
static void publish(struct leat_port *p, struct leat_batch *batch, const struct leat_plan_batch *plan)
{
    struct leat_error error;
    uint32_t slot;
    int rc;
    while ((rc = leat_shelf_put(p, batch, plan, LEAT_SHELF_FED, &slot, &error)) == LEAT_E_HELD && !p->closing)
        if (!leat_shelf_evict(p))
            wait_for_memory(p);
    if (rc) {
        leat_batch_free(batch);
        if (!p->closing)
            leat_port_fail(p, &error);
        return;
    }
    if (!plan->at.row || !p->epoch_rows)
        leat_served_epoch_rows(p->loader, plan->epoch, &p->epoch_rows, &error);
    p->n_fed++;
    p->n_rows += batch ? leat_batch_rows(batch) : 0;
    p->feeds = p->shelf[slot].next;
    leat_shelf_lend_all(p);
    leat_shelf_trim(p);
}

/* One batch. Under the lock, which is let go meanwhile. */
static void feed(struct leat_port *p)
{
    struct leat_batch *batch = NULL;
    struct leat_plan_batch plan;
    struct leat_error error;
    const struct leat_position at = p->feeds;
    const bool seek = p->seek;
    pthread_mutex_unlock(&p->lock);
    int rc = read_next(p, at, seek, &batch, &error);
    if (rc == LEAT_E_END && !seek) /* the one before was the epoch's last */
        rc = read_next(p, at, true, &batch, &error);
    if (!rc)
        plan = batch->plan;
    else if (rc != LEAT_E_HELD && rc != LEAT_E_CANCELLED && rc != LEAT_E_CLOSED) {
        struct leat_error unplanned; /* its rows failed: who needs one of them asks for it, and is told why */
        if (!leat_served_find(p->loader, at, &plan, &unplanned))
            rc = LEAT_OK;
    }
    pthread_mutex_lock(&p->lock);
    p->seek = false;
    if (p->closing) {
        leat_batch_free(batch);
        return;
    }
    if (!rc) {
        p->seek = !batch;
        publish(p, batch, &plan);
    } else if (rc == LEAT_E_HELD || rc == LEAT_E_CANCELLED) {
        p->seek = true;
        if (rc == LEAT_E_HELD && !leat_shelf_evict(p))
            wait_for_memory(p);
    } else {
        leat_port_fail(p, &error);
    }
}

void *leat_port_feeder(void *port)
{
    struct leat_port *p = port;
    struct leat_error later; /* who reads is told */
    const bool begun = !leat_served_seek(p->loader, p->starts, &p->iteration, &later);
    pthread_mutex_lock(&p->lock);
    p->seek = !begun || !leat_position_is(p->feeds, p->starts); /* the loader reads ahead before anybody has attached */
    while (!p->closing) {
        leat_shelf_lend_all(p);
        if (!p->failure.code && is_wanted(p)) {
            feed(p);
            continue;
        }
        leat_shelf_trim(p);
        if (leat_port_needs_maker(p))
            pthread_cond_signal(&p->make);
        pthread_cond_wait(&p->feed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}
