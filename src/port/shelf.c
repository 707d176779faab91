/*
 * The shelf: the published batches, the consumers that they are kept for, and their holders. Lending is the same for a
 * batch that was read in the order of the plan and for one that was made again.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "port/internal.h"

#define MOST_LENT 100u /* without those that a consumer asked for: below LEAT_CHANNEL_RING */
#define MOST_OUT 120u

/* ---- putting and giving up ------------------------------------------------------------------- */

static void empty(struct leat_line *l, uint32_t slot)
{
    struct leat_shelf_place *place = &l->shelf[slot];
    l->bytes -= place->bytes;
    leat_batch_free(place->batch);
    if (place->said)
        leat_buffer_release(place->said);
    *place = (struct leat_shelf_place){0};
}

static void drop(struct leat_line *l, uint32_t i)
{
    const uint32_t slot = l->kept[i];
    memmove(l->kept + i, l->kept + i + 1, (l->n_kept - i - 1) * sizeof *l->kept);
    l->n_kept--;
    if (leat_lending_drop(&l->lending, slot))
        empty(l, slot);
}

int leat_shelf_put(struct leat_line *l, struct leat_batch *batch, const struct leat_plan_batch *plan,
                   enum leat_shelf_kind kind, uint32_t *out, struct leat_error *error)
{
    struct leat_buffer *said;
    const uint64_t bytes = leat_published_bytes(batch);
    int rc = leat_served_lend(l->loader, bytes, &said, error);
    if (rc)
        return rc;
    const uint32_t slot = leat_lending_publish(&l->lending);
    if (slot == LEAT_NO_SLOT) {
        leat_buffer_release(said);
        return leat_fail(error, LEAT_E_HELD, "consumers hold %u batches", LEAT_LENDING_SLOTS);
    }
    leat_published_write(said->data, batch, plan);
    l->shelf[slot] = (struct leat_shelf_place){.batch = batch,
                                               .said = said,
                                               .at = plan->at,
                                               .next = leat_served_after(l->loader, plan),
                                               .bytes = said->bytes + (batch ? batch->bytes + batch->meta : 0),
                                               .kind = kind,
                                               .used = true};
    l->bytes += l->shelf[slot].bytes;
    l->kept[l->n_kept++] = slot;
    *out = slot;
    return LEAT_OK;
}

bool leat_shelf_may_ask(const struct leat_line *l, const struct leat_port_consumer *c)
{
    unsigned asked = 0;
    for (uint32_t slot = 0; slot < LEAT_LENDING_SLOTS; slot++)
        asked += leat_loan_has(&c->loan, slot) && l->shelf[slot].kind == LEAT_SHELF_ASKED;
    return c->loan.n < LEAT_CHANNEL_RING - 8 && (asked < 2 || l->bytes < l->is.max_held / 4 * 3);
}

void leat_shelf_let_go(struct leat_line *l, uint32_t slot)
{
    for (uint32_t i = 0; i < l->n_kept; i++)
        if (l->kept[i] == slot) {
            drop(l, i);
            return;
        }
}

/* Whether a consumer may still come to a batch, so far ahead of it, while it is kept. One that others wait for will. */
static bool may_need(const struct leat_line *l, const struct leat_port_consumer *c,
                     const struct leat_shelf_place *place)
{
    if (!c->reads || c->gone || leat_position_precedes(place->at, c->at))
        return false;
    const uint64_t epochs = place->at.epoch - c->at.epoch;
    return c->waits || (epochs <= LEAT_PORT_KEPT &&
                        epochs * l->epoch_rows + place->at.row - c->at.row <= LEAT_PORT_KEPT * l->is.batch_rows);
}

static bool is_needed(const struct leat_line *l, const struct leat_shelf_place *place, bool by_waiting)
{
    for (const struct leat_port_consumer *c = l->consumers; c; c = c->next_in_line)
        if ((!by_waiting || c->waits) && may_need(l, c, place))
            return true;
    return false;
}

bool leat_shelf_evict(struct leat_line *l)
{
    for (uint32_t i = 0; i < l->n_kept; i++) {
        const struct leat_shelf_place *place = &l->shelf[l->kept[i]];
        if (place->kind != LEAT_SHELF_ASKED && !is_needed(l, place, true)) {
            drop(l, i);
            return true;
        }
    }
    return false;
}

static uint64_t kept_bytes(const struct leat_line *l)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < l->n_kept; i++)
        bytes += l->shelf[l->kept[i]].bytes;
    return bytes;
}

static bool is_full(const struct leat_line *l)
{
    return l->n_kept > LEAT_PORT_KEPT || (l->n_kept > 1 && kept_bytes(l) > l->is.max_held / 4);
}

void leat_shelf_trim(struct leat_line *l)
{
    for (uint32_t i = 0; i < l->n_kept;) {
        const struct leat_shelf_place *place = &l->shelf[l->kept[i]];
        if (place->kind == LEAT_SHELF_ASKED || is_needed(l, place, false))
            i++;
        else
            drop(l, i);
    }
    while (is_full(l) && leat_shelf_evict(l)) {
    }
}

bool leat_shelf_has_room(const struct leat_line *l)
{
    if (!is_full(l))
        return true;
    for (uint32_t i = 0; i < l->n_kept; i++)
        if (!is_needed(l, &l->shelf[l->kept[i]], true))
            return true;
    return false;
}

void leat_shelf_clear(struct leat_line *l)
{
    while (l->n_kept)
        drop(l, 0);
}

/* ---- lending --------------------------------------------------------------------------------- */

/* Whether a slot has the next batch of a consumer. One that it has already, and may have written to, is not that: it
 * holds this batch while it begins anew. */
static bool suits(const struct leat_line *l, const struct leat_port_consumer *c, uint32_t slot)
{
    const struct leat_shelf_place *place = &l->shelf[slot];
    return place->used && leat_position_is(place->at, c->at) && place->kind != LEAT_SHELF_ASKED &&
           !leat_loan_has(&c->loan, slot);
}

uint32_t leat_shelf_find(const struct leat_line *l, const struct leat_port_consumer *c)
{
    for (uint32_t i = l->n_kept; i-- > 0;)
        if (suits(l, c, l->kept[i]))
            return l->kept[i];
    for (uint32_t slot = 0; slot < LEAT_LENDING_SLOTS; slot++) /* given up, but somebody has it still */
        if (suits(l, c, slot))
            return slot;
    return LEAT_NO_SLOT;
}

bool leat_consumer_is_near(const struct leat_line *l, const struct leat_port_consumer *c)
{
    const struct leat_shelf_place next = {.at = l->feeds};
    return may_need(l, c, &next);
}

uint32_t leat_shelf_credit(const struct leat_line *l, const struct leat_port_consumer *c)
{
    uint64_t allowed = c->needed, ahead = LEAT_PORT_AHEAD_BYTES / (l->is.batch_bytes + 1);
    if (l->bytes < l->is.max_held / 2)
        allowed += ahead < 64 ? ahead : 64;
    allowed = allowed < MOST_LENT ? allowed : MOST_LENT;
    return allowed > c->loan.n ? (uint32_t)allowed - c->loan.n : 0;
}

void leat_shelf_give(struct leat_line *l, struct leat_port_consumer *c, uint32_t slot, struct leat_given *out)
{
    const struct leat_shelf_place *place = &l->shelf[slot];
    leat_lending_lend(&l->lending, &c->loan, slot);
    c->recomputed += place->kind == LEAT_SHELF_MADE;
    *out = (struct leat_given){
        .offset = leat_buffer_offset(place->said), .bytes = place->said->bytes, .slot = slot, .stream = c->stream};
}

bool leat_consumer_is_far(const struct leat_port_consumer *c)
{
    const uint64_t said = atomic_load_explicit(&c->channel->epoch, memory_order_relaxed);
    const uint64_t epoch = said > c->sought ? said : c->sought;
    return c->at.epoch > 1 && c->at.epoch - 1 > epoch; /* it may be past the last batch, which has no rows for it */
}

/* Whether a consumer may be lent no more until it returns some; it then says when it has. */
static bool is_starved(struct leat_line *l, struct leat_port_consumer *c)
{
    struct leat_channel *channel = c->channel;
    if (!leat_consumer_wants(l, c)) {
        const bool far = leat_shelf_credit(l, c) > 0; /* it has all it may have, or all of this epoch and the next */
        atomic_store_explicit(&channel->credit, far ? UINT32_MAX : c->loan.n, memory_order_relaxed);
        atomic_store(&channel->starved, 1); /* either its present return is seen, or it sees that (channel.c) */
        leat_shelf_take_back(l, c);
        if (!leat_consumer_wants(l, c))
            return true;
    }
    /* Its earlier answer is over: a reader that compares would tell its user that too much is held. */
    if (atomic_load_explicit(&channel->credit, memory_order_relaxed) != UINT32_MAX)
        atomic_store_explicit(&channel->credit, UINT32_MAX, memory_order_relaxed);
    return false;
}

bool leat_consumer_wants(const struct leat_line *l, const struct leat_port_consumer *c)
{
    return c->reads && !c->gone && leat_shelf_credit(l, c) && !leat_consumer_is_far(c);
}

void leat_shelf_lend(struct leat_line *l, struct leat_port_consumer *c)
{
    struct leat_given given;
    uint32_t slot;
    while (c->reads && !c->gone && !is_starved(l, c) && !leat_position_is(c->at, l->feeds) &&
           (slot = leat_shelf_find(l, c)) != LEAT_NO_SLOT) {
        leat_shelf_give(l, c, slot, &given);
        c->at = l->shelf[slot].next;
        c->lent_ns = leat_clock_ns();
        leat_channel_give(c->channel, &given);
    }
}

/* Whether it is starved as at the last look: it has returned nothing since, and will say when it does. So consumers
 * that read nothing cost the others next to nothing. */
static bool is_starved_still(const struct leat_line *l, const struct leat_port_consumer *c)
{
    struct leat_channel *channel = c->channel;
    return atomic_load(&channel->starved) && atomic_load(&channel->n_returned) == c->n_returned &&
           atomic_load_explicit(&channel->credit, memory_order_relaxed) == c->loan.n && !leat_shelf_credit(l, c);
}

void leat_shelf_lend_all(struct leat_line *l)
{
    for (struct leat_port_consumer *c = l->consumers; c; c = c->next_in_line)
        if (c->reads && !is_starved_still(l, c)) {
            leat_shelf_take_back(l, c);
            leat_shelf_lend(l, c);
        }
}

/* ---- taking back ----------------------------------------------------------------------------- */

static bool take_back(struct leat_line *l, struct leat_port_consumer *c, uint32_t slot)
{
    bool freed;
    if (!leat_lending_take_back(&l->lending, &c->loan, slot, &freed))
        return false;
    if (freed)
        empty(l, slot);
    return true;
}

bool leat_shelf_ask_back(struct leat_line *l)
{
    bool some = false;
    for (struct leat_port_consumer *c = l->consumers; c; c = c->next_in_line) {
        const uint32_t had = c->loan.n;
        if (!c->channel || !had)
            continue;
        atomic_store_explicit(&c->channel->credit, UINT32_MAX, memory_order_relaxed);
        atomic_store(&c->channel->starved, 1);
        leat_shelf_take_back(l, c);
        some |= c->loan.n != had;
    }
    return some;
}

/* A consumer that says the impossible gets that answer, and goes. */
static void throw_out(struct leat_line *l, struct leat_port_consumer *c)
{
    struct leat_error error, unsent;
    leat_fail(&error, LEAT_E_FORMAT, "this consumer has returned to port \"%s\" what it did not have", l->port->name);
    leat_message_fail(c->socket, 0, &error, &unsent);
    leat_port_part(l->port, c);
}

void leat_shelf_take_back(struct leat_line *l, struct leat_port_consumer *c)
{
    if (!c->channel || c->gone)
        return;
    const uint32_t n = atomic_load(&c->channel->n_returned);
    if (n - c->n_returned > MOST_OUT) {
        throw_out(l, c);
        return;
    }
    for (; c->n_returned != n; c->n_returned++) {
        const uint32_t slot =
            atomic_load_explicit(&c->channel->returned[c->n_returned % LEAT_CHANNEL_RING], memory_order_relaxed);
        if (!take_back(l, c, slot)) {
            throw_out(l, c);
            return;
        }
    }
}

void leat_shelf_reclaim(struct leat_line *l, struct leat_port_consumer *c)
{
    for (uint32_t slot; (slot = leat_loan_any(&c->loan)) != LEAT_NO_SLOT;)
        take_back(l, c, slot);
}
