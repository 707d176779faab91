/* Who has what, in the model: lending.c keeps it. */
#include "protocol_steps.h"

void open_books(struct world *w, const struct state *s)
{
    w->books.n_free = s->n_free;
    for (unsigned i = 0; i < w->set.slots; i++) {
        w->books.kept[i] = s->kept >> i & 1;
        w->books.holders[i] = (uint32_t)((s->side[0].loan >> i & 1) + (s->side[1].loan >> i & 1));
        w->books.free[i] = s->free >> 2 * i & 3;
    }
    for (int i = 0; i < 2; i++) {
        w->loans[i].slots[0] = s->side[i].loan;
        w->loans[i].n = count(s->side[i].loan);
    }
}

void close_books(struct world *w, struct state *s)
{
    const struct leat_lending *b = &w->books;
    uint64_t kept = 0, holders[2] = {w->loans[0].slots[0], w->loans[1].slots[0]}, order = 0, is_free = 0;
    for (unsigned i = 0; i < w->set.slots; i++)
        kept |= (uint64_t)b->kept[i] << i;
    if (b->n_free > w->set.slots) {
        violate(w, s, "a slot is free twice");
        return;
    }
    for (unsigned i = 0; i < b->n_free; i++) {
        order |= (uint64_t)(b->free[i] & 3) << 2 * i;
        if (is_free >> b->free[i] & 1)
            violate(w, s, "a slot is free twice");
        is_free |= UINT64_C(1) << b->free[i];
    }
    for (unsigned i = 0; i < b->n_free; i++)
        s->serials &= ~(UINT64_C(3) << 2 * (b->free[i] & 3)) & 63;
    s->kept = kept & 7;
    s->free = order & 63;
    s->n_free = b->n_free & 3;
    s->side[0].loan = holders[0] & 7;
    s->side[1].loan = holders[1] & 7;
    const uint64_t used = kept | holders[0] | holders[1];
    if (used & is_free)
        violate(w, s, "a slot is free while it is kept or held");
    if ((used | is_free) != (UINT64_C(1) << w->set.slots) - 1)
        violate(w, s, "a slot is neither free, nor kept, nor held");
}

bool attached(const struct state *s, int i)
{
    return s->side[i].mode != GONE;
}

bool has_credit(const struct world *w, const struct state *s, int i)
{
    return count(s->side[i].loan) < w->set.ring || w->mutation == GIVE_WITHOUT_CREDIT;
}

unsigned find(const struct world *w, const struct state *s, uint64_t serial)
{
    for (unsigned slot = 0; slot < w->set.slots; slot++)
        if (s->kept >> slot & 1 && serial_of(s, slot) == serial)
            return slot;
    return NOTHING;
}

static bool needs_one(const struct world *w, const struct state *s, int i)
{
    return attached(s, i) && has_credit(w, s, i) && s->side[i].next <= w->set.batches;
}

bool can_give(const struct world *w, const struct state *s, int i)
{
    const unsigned slot = find(w, s, s->side[i].next);
    return needs_one(w, s, i) && slot != NOTHING && !(s->side[i].loan >> slot & 1);
}

bool is_needed(const struct state *s, uint64_t serial)
{
    return (attached(s, 0) && s->side[0].next <= serial) || (attached(s, 1) && s->side[1].next <= serial);
}

bool wants(const struct world *w, const struct state *s, int i)
{
    return needs_one(w, s, i) && find(w, s, s->side[i].next) == NOTHING;
}

bool is_short(const struct world *w, const struct state *s)
{
    return !s->n_free && (wants(w, s, 0) || wants(w, s, 1));
}

bool is_waited_for(const struct world *w, const struct state *s, int i)
{
    if (!attached(s, i))
        return false;
    if (is_short(w, s) && w->mutation != STARVE_SILENT)
        return true;
    const unsigned slot = find(w, s, s->side[i].next); /* it has the batch that it is to be given */
    return !has_credit(w, s, i) || (slot != NOTHING && s->side[i].loan >> slot & 1);
}

bool has_work(const struct world *w, const struct state *s)
{
    for (int i = 0; i < 2; i++)
        if (can_give(w, s, i) || (wants(w, s, i) && (s->n_free || s->kept)))
            return true;
    return false;
}
