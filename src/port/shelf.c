/*
 * The shelf: what is published, for whom it is kept, and who has it. Lending is the same for a batch that was read in
 * the order of the plan and for one that was made again.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "port/internal.h"

#define MOST_LENT 100u /* without those that a consumer asked for: below LEAT_CHANNEL_RING */
#define MOST_OUT 120u

static struct leat_position after(const struct leat_plan_batch *plan)
{
    return plan->last ? (struct leat_position){plan->epoch + 1, 0} : plan->next;
}

/* ---- putting and giving up ------------------------------------------------------------------- */

static void empty(struct leat_port *p, uint32_t slot)
{
    struct leat_shelf_place *place = &p->shelf[slot];
    p->bytes -= place->bytes;
    leat_batch_free(place->batch);
    if (place->said)
        leat_buffer_release(place->said);
    *place = (struct leat_shelf_place){0};
}

static void drop(struct leat_port *p, uint32_t i)
{
    const uint32_t slot = p->kept[i];
    memmove(p->kept + i, p->kept + i + 1, (p->n_kept - i - 1) * sizeof *p->kept);
    p->n_kept--;
    if (leat_lending_drop(&p->lending, slot))
        empty(p, slot);
}

int leat_shelf_put(struct leat_port *p, struct leat_batch *batch, const struct leat_plan_batch *plan,
                   enum leat_shelf_kind kind, uint32_t *out, struct leat_error *error)
{
    struct leat_buffer *said;
    const uint64_t bytes = leat_published_bytes(batch);
    int rc = leat_served_lend(p->loader, bytes, &said, error);
    if (rc)
        return rc;
    const uint32_t slot = leat_lending_publish(&p->lending);
    if (slot == LEAT_NO_SLOT) {
        leat_buffer_release(said);
        return leat_fail(error, LEAT_E_HELD, "consumers hold %u batches", LEAT_LENDING_SLOTS);
    }
    leat_published_write(said->data, batch, plan);
    p->shelf[slot] = (struct leat_shelf_place){.batch = batch,
                                               .said = said,
                                               .at = plan->at,
                                               .next = after(plan),
                                               .bytes = said->bytes + (batch ? batch->bytes + batch->meta : 0),
                                               .kind = kind,
                                               .used = true};
    p->bytes += p->shelf[slot].bytes;
    p->kept[p->n_kept++] = slot;
    *out = slot;
    return LEAT_OK;
}

bool leat_shelf_may_ask(const struct leat_port *p, const struct leat_port_consumer *c)
{
    unsigned asked = 0;
    for (uint32_t slot = 0; slot < LEAT_LENDING_SLOTS; slot++)
        asked += leat_loan_has(&c->loan, slot) && p->shelf[slot].kind == LEAT_SHELF_ASKED;
    return c->loan.n < LEAT_CHANNEL_RING - 8 && (asked < 2 || p->bytes < p->max_held / 4 * 3);
}

void leat_shelf_let_go(struct leat_port *p, uint32_t slot)
{
    for (uint32_t i = 0; i < p->n_kept; i++)
        if (p->kept[i] == slot) {
            drop(p, i);
            return;
        }
}

/* Whether a consumer may still come to a batch, so far ahead of it, while it is kept. One that others wait for will. */
static bool may_need(const struct leat_port *p, const struct leat_port_consumer *c,
                     const struct leat_shelf_place *place)
{
    if (!c->reads || c->gone || leat_position_precedes(place->at, c->at))
        return false;
    const uint64_t epochs = place->at.epoch - c->at.epoch;
    return c->waits || (epochs <= LEAT_PORT_KEPT &&
                        epochs * p->epoch_rows + place->at.row - c->at.row <= LEAT_PORT_KEPT * p->batch_rows);
}

static bool is_needed(const struct leat_port *p, const struct leat_shelf_place *place, bool by_waiting)
{
    for (const struct leat_port_consumer *c = p->consumers; c; c = c->next)
        if ((!by_waiting || c->waits) && may_need(p, c, place))
            return true;
    return false;
}

bool leat_shelf_evict(struct leat_port *p)
{
    for (uint32_t i = 0; i < p->n_kept; i++) {
        const struct leat_shelf_place *place = &p->shelf[p->kept[i]];
        if (place->kind != LEAT_SHELF_ASKED && !is_needed(p, place, true)) {
            drop(p, i);
            return true;
        }
    }
    return false;
}

static uint64_t kept_bytes(const struct leat_port *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->n_kept; i++)
        bytes += p->shelf[p->kept[i]].bytes;
    return bytes;
}

static bool is_full(const struct leat_port *p)
{
    return p->n_kept > LEAT_PORT_KEPT || (p->n_kept > 1 && kept_bytes(p) > p->max_held / 4);
}

void leat_shelf_trim(struct leat_port *p)
{
    for (uint32_t i = 0; i < p->n_kept;) {
        const struct leat_shelf_place *place = &p->shelf[p->kept[i]];
        if (place->kind == LEAT_SHELF_ASKED || is_needed(p, place, false))
            i++;
        else
            drop(p, i);
    }
    while (is_full(p) && leat_shelf_evict(p)) {
    }
}

bool leat_shelf_has_room(const struct leat_port *p)
{
    if (!is_full(p))
        return true;
    for (uint32_t i = 0; i < p->n_kept; i++)
        if (!is_needed(p, &p->shelf[p->kept[i]], true))
            return true;
    return false;
}

void leat_shelf_clear(struct leat_port *p)
{
    while (p->n_kept)
        drop(p, 0);
}

/* ---- lending --------------------------------------------------------------------------------- */

/* Whether a slot has what a consumer needs next. One that it has already, and may have written to, is not that: it
 * holds this batch while it begins anew. */
static bool suits(const struct leat_port *p, const struct leat_port_consumer *c, uint32_t slot)
{
    const struct leat_shelf_place *place = &p->shelf[slot];
    return place->used && leat_position_is(place->at, c->at) && place->kind != LEAT_SHELF_ASKED &&
           !leat_loan_has(&c->loan, slot);
}

uint32_t leat_shelf_find(const struct leat_port *p, const struct leat_port_consumer *c)
{
    for (uint32_t i = p->n_kept; i-- > 0;)
        if (suits(p, c, p->kept[i]))
            return p->kept[i];
    for (uint32_t slot = 0; slot < LEAT_LENDING_SLOTS; slot++) /* given up, but somebody has it still */
        if (suits(p, c, slot))
            return slot;
    return LEAT_NO_SLOT;
}

bool leat_consumer_is_near(const struct leat_port *p, const struct leat_port_consumer *c)
{
    const struct leat_shelf_place next = {.at = p->feeds};
    return may_need(p, c, &next);
}

uint32_t leat_shelf_credit(const struct leat_port *p, const struct leat_port_consumer *c)
{
    uint64_t allowed = c->needed, ahead = LEAT_PORT_AHEAD_BYTES / (p->batch_bytes + 1);
    if (p->bytes < p->max_held / 2)
        allowed += ahead < 64 ? ahead : 64;
    allowed = allowed < MOST_LENT ? allowed : MOST_LENT;
    return allowed > c->loan.n ? (uint32_t)allowed - c->loan.n : 0;
}

void leat_shelf_give(struct leat_port *p, struct leat_port_consumer *c, uint32_t slot, struct leat_given *out)
{
    const struct leat_shelf_place *place = &p->shelf[slot];
    leat_lending_lend(&p->lending, &c->loan, slot);
    c->recomputed += place->kind == LEAT_SHELF_MADE;
    *out = (struct leat_given){
        .offset = leat_buffer_offset(place->said), .bytes = place->said->bytes, .slot = slot, .stream = c->stream};
}

bool leat_consumer_is_far(const struct leat_port_consumer *c)
{
    const uint64_t said = atomic_load_explicit(&c->channel->epoch, memory_order_relaxed);
    const uint64_t epoch = said > c->sought && said <= c->at.epoch ? said : c->sought;
    return c->at.epoch > epoch + 1;
}

/* Whether a consumer may be lent nothing more until it returns some; it then says when it has. */
static bool is_starved(struct leat_port *p, struct leat_port_consumer *c)
{
    struct leat_channel *channel = c->channel;
    if (!leat_consumer_wants(p, c)) {
        const bool far = leat_shelf_credit(p, c) > 0; /* it has all it may have, or all of this epoch and the next */
        atomic_store_explicit(&channel->credit, far ? UINT32_MAX : c->loan.n, memory_order_relaxed);
        atomic_store(&channel->starved, 1); /* either what it returns now is seen, or it sees that (channel.c) */
        leat_shelf_take_back(p, c);
        if (!leat_consumer_wants(p, c))
            return true;
    }
    /* What was said before is over: a reader that compares would tell its user that too much is held. */
    if (atomic_load_explicit(&channel->credit, memory_order_relaxed) != UINT32_MAX)
        atomic_store_explicit(&channel->credit, UINT32_MAX, memory_order_relaxed);
    return false;
}

bool leat_consumer_wants(const struct leat_port *p, const struct leat_port_consumer *c)
{
    return c->reads && !c->gone && leat_shelf_credit(p, c) && !leat_consumer_is_far(c);
}

void leat_shelf_lend(struct leat_port *p, struct leat_port_consumer *c)
{
    struct leat_given given;
    uint32_t slot;
    while (c->reads && !c->gone && !is_starved(p, c) && !leat_position_is(c->at, p->feeds) &&
           (slot = leat_shelf_find(p, c)) != LEAT_NO_SLOT) {
        leat_shelf_give(p, c, slot, &given);
        c->at = p->shelf[slot].next;
        c->lent_ns = leat_clock_ns();
        leat_channel_give(c->channel, &given);
    }
}

void leat_shelf_lend_all(struct leat_port *p)
{
    for (struct leat_port_consumer *c = p->consumers; c; c = c->next)
        if (c->reads) {
            leat_shelf_take_back(p, c);
            leat_shelf_lend(p, c);
        }
}

/* ---- taking back ----------------------------------------------------------------------------- */

static bool take_back(struct leat_port *p, struct leat_port_consumer *c, uint32_t slot)
{
    bool freed;
    if (!leat_lending_take_back(&p->lending, &c->loan, slot, &freed))
        return false;
    if (freed)
        empty(p, slot);
    return true;
}

bool leat_shelf_ask_back(struct leat_port *p)
{
    bool some = false;
    for (struct leat_port_consumer *c = p->consumers; c; c = c->next) {
        const uint32_t had = c->loan.n;
        if (!c->channel || !had)
            continue;
        if (!atomic_load(&c->channel->starved)) { /* one that is starved says so already */
            atomic_store_explicit(&c->channel->credit, UINT32_MAX, memory_order_relaxed);
            atomic_store(&c->channel->starved, 1);
        }
        leat_shelf_take_back(p, c);
        some |= c->loan.n != had;
    }
    return some;
}

/* A consumer that says what cannot be is told so, and goes. */
static void throw_out(struct leat_port *p, struct leat_port_consumer *c)
{
    struct leat_error error, unsent;
    leat_fail(&error, LEAT_E_FORMAT, "this consumer has returned to port \"%s\" what it did not have", p->name);
    leat_message_fail(c->socket, 0, &error, &unsent);
    leat_port_part(p, c);
}

void leat_shelf_take_back(struct leat_port *p, struct leat_port_consumer *c)
{
    if (!c->channel || c->gone)
        return;
    const uint32_t n = atomic_load(&c->channel->n_returned);
    if (n - c->n_returned > MOST_OUT) {
        throw_out(p, c);
        return;
    }
    for (; c->n_returned != n; c->n_returned++) {
        const uint32_t slot =
            atomic_load_explicit(&c->channel->returned[c->n_returned % LEAT_CHANNEL_RING], memory_order_relaxed);
        if (!take_back(p, c, slot)) {
            throw_out(p, c);
            return;
        }
    }
}

void leat_shelf_reclaim(struct leat_port *p, struct leat_port_consumer *c)
{
    for (uint32_t slot; (slot = leat_loan_any(&c->loan)) != LEAT_NO_SLOT;)
        take_back(p, c, slot);
}
