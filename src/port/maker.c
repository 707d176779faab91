/* The maker: batches that the feeder has passed, for those behind, and rows that a consumer asks for. */
#include "base/error.h"
#include "port/internal.h"

/* Memory is given back by consumers; who has waited for that looks again. */
static int put(struct leat_port *p, struct leat_batch *batch, const struct leat_plan_batch *plan,
               enum leat_shelf_kind kind, uint32_t *slot, struct leat_error *error)
{
    int rc;
    while ((rc = leat_shelf_put(p, batch, plan, kind, slot, error)) == LEAT_E_HELD && leat_shelf_evict(p)) {
    }
    if (rc)
        leat_batch_free(batch);
    return rc;
}

/* A batch of the plan that a consumer has missed; published as one that failed if it cannot be made. */
static void make_again(struct leat_port *p, struct leat_port_consumer *c)
{
    struct leat_plan_batch plan;
    struct leat_batch *batch = NULL;
    struct leat_error error;
    uint32_t slot;
    const struct leat_position at = c->at;
    pthread_mutex_unlock(&p->lock);
    int rc = leat_served_find(p->loader, at, &plan, &error);
    const bool planned = !rc;
    rc = rc ? rc : leat_served_make(p->loader, &plan, &batch, &error);
    pthread_mutex_lock(&p->lock);
    if (rc == LEAT_E_HELD || rc == LEAT_E_CANCELLED) {
        leat_shelf_lend_all(p);
        if (!leat_shelf_evict(p) && !p->closing && !leat_shelf_ask_back(p))
            pthread_cond_wait(&p->make, &p->lock);
        return;
    }
    if (rc && !planned) {
        c->gone = !p->closing; /* there is no such row: it was checked when it was asked for */
        return;
    }
    rc = put(p, batch, &plan, LEAT_SHELF_MADE, &slot, &error);
    if (!rc) {
        p->n_made++;
        p->shelf[slot].at = at; /* where the consumer stands, if a decision has moved the border */
        leat_shelf_lend_all(p);
        leat_shelf_trim(p);
    } else if (!p->closing && !leat_shelf_ask_back(p)) {
        pthread_cond_wait(&p->make, &p->lock);
    }
}

static void answer(struct leat_port *p, struct leat_port_consumer *c)
{
    struct leat_batch *batch = NULL;
    struct leat_error error, unsent;
    struct leat_given given;
    const struct leat_plan_batch plan = c->ask;
    uint32_t slot;
    c->asks = false;
    pthread_mutex_unlock(&p->lock);
    int rc = leat_served_make(p->loader, &plan, &batch, &error);
    pthread_mutex_lock(&p->lock);
    rc = rc ? rc : put(p, batch, &plan, LEAT_SHELF_ASKED, &slot, &error);
    if (!rc) {
        p->n_made++;
        leat_shelf_give(p, c, slot, &given);
        leat_shelf_let_go(p, slot); /* it has a holder: the place is emptied when that returns it */
    }
    rc = rc ? leat_message_fail(c->socket, c->ask_number, &error, &unsent)
            : leat_message_send(c->socket, LEAT_MESSAGE_REPLY, c->ask_number, &given, sizeof given, NULL, 0, &unsent);
    c->gone = c->gone || rc;
}

void *leat_port_maker(void *port)
{
    struct leat_port *p = port;
    pthread_mutex_lock(&p->lock);
    while (!p->closing) {
        struct leat_port_consumer *c = p->failure.code ? NULL : leat_port_needs_maker(p);
        if (!c) {
            pthread_cond_wait(&p->make, &p->lock);
            continue;
        }
        c->working++;
        if (c->asks)
            answer(p, c);
        else
            make_again(p, c);
        c->working--;
        if (c->gone)
            leat_port_part(p, c);
        leat_port_defer(p, c);
        leat_port_nudge(p);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}
