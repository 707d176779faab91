/* The maker: batches that the feeder has passed, for those behind, and rows that a consumer asks for. */
#include "base/error.h"
#include "engine/side.h"
#include "port/internal.h"

/* Consumers give memory back; a thread that has waited for it looks again. */
static int put(struct leat_line *l, struct leat_batch *batch, const struct leat_plan_batch *plan,
               enum leat_shelf_kind kind, uint32_t *slot, struct leat_error *error)
{
    int rc;
    while ((rc = leat_shelf_put(l, batch, plan, kind, slot, error)) == LEAT_E_HELD && leat_shelf_evict(l)) {
    }
    if (rc)
        leat_batch_free(batch);
    return rc;
}

/* A batch of the plan that a consumer has missed; published as one that failed if it cannot be made. */
static void make_again(struct leat_line *l, struct leat_port_consumer *c)
{
    struct leat_plan_batch plan;
    struct leat_batch *batch = NULL;
    struct leat_error error;
    uint32_t slot;
    const struct leat_position at = c->at;
    pthread_mutex_unlock(&l->port->lock);
    int rc = leat_served_find(l->loader, at, &plan, &error);
    const bool planned = !rc;
    rc = rc ? rc : leat_side_make(l->loader, &plan, NULL, false, &batch, &error);
    leat_port_mirror(l->port, rc ? NULL : batch);
    pthread_mutex_lock(&l->port->lock);
    if (rc == LEAT_E_HELD || rc == LEAT_E_CANCELLED) {
        leat_shelf_lend_all(l);
        if (!leat_shelf_evict(l) && !l->closing && !leat_shelf_ask_back(l))
            pthread_cond_wait(&l->make, &l->port->lock);
        return;
    }
    if (rc && !planned) {
        c->gone = !l->closing; /* there is no such row: it was checked with the request */
        return;
    }
    rc = put(l, batch, &plan, LEAT_SHELF_MADE, &slot, &error);
    if (!rc) {
        l->n_made++;
        l->shelf[slot].at = at; /* the consumer's position, if a decision has moved the border */
        leat_shelf_lend_all(l);
        leat_shelf_trim(l);
    } else if (!l->closing && !leat_shelf_ask_back(l)) {
        pthread_cond_wait(&l->make, &l->port->lock);
    }
}

static void answer(struct leat_line *l, struct leat_port_consumer *c)
{
    struct leat_batch *batch = NULL;
    struct leat_error error, unsent;
    struct leat_given given;
    const struct leat_plan_batch plan = c->ask;
    const uint32_t number = c->ask_number; /* it may ask for another one meanwhile */
    uint32_t slot;
    int rc;
    c->asks = false;
    do {
        pthread_mutex_unlock(&l->port->lock);
        rc = leat_side_make(l->loader, &plan, NULL, false, &batch, &error);
        leat_port_mirror(l->port, rc ? NULL : batch);
        pthread_mutex_lock(&l->port->lock);
    } while (rc == LEAT_E_HELD && !l->closing && !c->gone && (leat_shelf_evict(l) || leat_shelf_ask_back(l)));
    rc = rc ? rc : put(l, batch, &plan, LEAT_SHELF_ASKED, &slot, &error);
    if (!rc) {
        l->n_made++;
        leat_shelf_give(l, c, slot, &given);
        leat_shelf_let_go(l, slot); /* it has a holder: the place is emptied when that returns it */
    }
    rc = rc ? leat_message_fail(c->socket, number, &error, &unsent)
            : leat_message_send(c->socket, LEAT_MESSAGE_REPLY, number, &given, sizeof given, NULL, 0, &unsent);
    c->gone = c->gone || rc;
}

void *leat_line_maker(void *line)
{
    struct leat_line *l = line;
    pthread_mutex_lock(&l->port->lock);
    while (!l->closing) {
        struct leat_port_consumer *c = l->failure.code ? NULL : leat_line_needs_maker(l);
        if (!c) {
            pthread_cond_wait(&l->make, &l->port->lock);
            continue;
        }
        c->working++;
        if (c->asks)
            answer(l, c);
        else
            make_again(l, c);
        c->working--;
        if (c->gone)
            leat_port_part(l->port, c);
        leat_line_defer(l, c);
        leat_line_nudge(l);
    }
    pthread_mutex_unlock(&l->port->lock);
    return NULL;
}
