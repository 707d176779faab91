/*
 * Delivery in order: batches are planned and handed out as the plan has them.
 *
 *     consumer.at      first batch not yet handed out: what a saved state names
 *     window.plan_at   first batch not yet planned; the window lies between the two
 */
#include <inttypes.h>

#include "base/error.h"
#include "engine/engine.h"

static struct leat_position after(const struct leat_plan_batch *plan)
{
    return plan->last ? (struct leat_position){plan->epoch + 1, 0} : plan->next;
}

static int plan_next(struct leat_loader *l, struct leat_error *error)
{
    struct leat_plan_batch plan;
    struct leat_batch *b;
    struct leat_position *at = &l->window.plan_at;
    for (;;) {
        if (l->window.n >= l->window.room)
            return LEAT_E_HELD;
        if (at->epoch > leat_window_last_epoch(l))
            return LEAT_E_END;
        int rc = leat_plan_batch(l->plan, *at, &plan);
        if (rc && rc != LEAT_E_END)
            return leat_fail(error, rc, "no batch can be planned at epoch %" PRIu64 ", row %" PRIu64, at->epoch,
                             at->row);
        if (rc == LEAT_OK && plan.rows)
            break;
        *at = rc ? (struct leat_position){at->epoch + 1, 0} : after(&plan);
    }
    int rc = leat_window_admit(l, &plan, &b, error);
    if (rc == LEAT_OK)
        *at = after(&plan);
    return rc;
}

static void rewind_to(struct leat_loader *l, const struct leat_batch *first)
{
    l->window.plan_at = first->plan.at;
}

static bool is_due(const struct leat_loader *l)
{
    if (l->consumer.next)
        return leat_consumer_is_due(&l->consumer);
    return l->window.n && leat_batch_is_done(leat_window_at(&l->window, 0));
}

static int next(struct leat_loader *l, struct leat_batch **out, struct leat_error *error)
{
    struct leat_consumer *c = &l->consumer;
    if (c->next)
        return leat_consumer_take(c, out, error);
    if (!is_due(l))
        return LEAT_IO_PENDING;
    struct leat_batch *b = leat_window_at(&l->window, 0);
    if (b->state == LEAT_BATCH_FAILED || leat_batch_fail_if_empty(b))
        return leat_loader_raise(l, b, error);
    int rc = leat_loader_check_held(l, b, error);
    if (rc)
        return rc;
    leat_window_pop(&l->window);
    c->at = after(&b->plan);
    c->step = b->plan.last ? 0 : b->plan.step + 1;
    c->ended = b->plan.last;
    leat_loader_put_out(l, b);
    leat_loader_count(l, b);
    *out = b;
    return LEAT_OK;
}

/* Keeps what the window holds from `to` on, and drops what lies before. */
static void start(struct leat_loader *l, struct leat_position to)
{
    struct leat_window *w = &l->window;
    size_t keep = 0;
    if (l->consumer.next) {
        leat_consumer_begin(&l->consumer, to);
        return;
    }
    while (keep < w->n && leat_position_precedes(leat_window_at(w, keep)->plan.at, to))
        keep++;
    if (keep == w->n || !leat_position_is(leat_window_at(w, keep)->plan.at, to)) {
        leat_window_cancel(l, 0);
        w->plan_at = to;
    } else {
        for (; keep; keep--)
            leat_batch_cancel(leat_window_pop(w));
    }
    w->full = false;
    l->consumer.at = to;
    l->consumer.step = leat_loader_step_at(l, to);
}

static bool is_within(const struct leat_loader *l, struct leat_position at)
{
    (void)l;
    return at.row > 0;
}

static int state(const struct leat_loader *l, struct leat_position at, char **json, struct leat_error *error)
{
    return leat_plan_state(l->plan, l->fingerprint, at, json, error);
}

static int load(struct leat_loader *l, const char *json, struct leat_error *error)
{
    struct leat_position at;
    int rc = leat_plan_load(l->plan, l->fingerprint, json, &at, error);
    if (rc)
        return rc;
    l->consumer.at = l->window.plan_at = at;
    l->consumer.step = leat_loader_step_at(l, at);
    return LEAT_OK;
}

static int rows_of(struct leat_loader *l, const struct leat_plan_batch *plan, uint64_t **numbers,
                   struct leat_error *error)
{
    (void)l, (void)plan, (void)error;
    *numbers = NULL; /* those that the plan has */
    return LEAT_OK;
}

static void no_more(struct leat_loader *l)
{
    (void)l;
}

const struct leat_delivery leat_delivery_in_order = {
    .helped = 1,
    .decides_anywhere = true,
    .plan = plan_next,
    .rewind = rewind_to,
    .next = next,
    .is_due = is_due,
    .start = start,
    .is_within = is_within,
    .state = state,
    .load = load,
    .rows_of = rows_of,
    .free = no_more,
};
