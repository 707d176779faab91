/* The consumer of the model, step by step, as channel.c and session.c have it. */
#include "protocol_steps.h"

static unsigned entry_of(const struct side *c, uint64_t n)
{
    return c->entries >> 4 * (n & 1) & 15;
}

uint64_t reads(const struct side *c)
{
    uint64_t slots = c->holds;
    for (uint64_t n = c->n_read; n < c->n_given; n++)
        slots |= UINT64_C(1) << (entry_of(c, n) & 3);
    return slots;
}

/* It takes no more steps, so all that matters is what it may read, what it has returned, and that it has rung. */
static void freeze(struct side *c)
{
    const struct side was = *c;
    *c = (struct side){.mode = FROZEN,
                       .n_returned = was.n_returned,
                       .returned = was.returned,
                       .bell = was.bell,
                       .holds = reads(&was) & 7,
                       .loan = was.loan,
                       .next = was.next,
                       .done = was.done};
}

static void put_returned(struct side *c, uint64_t n, unsigned slot)
{
    const unsigned shift = 2 * (unsigned)(n & 1);
    c->returned = ((c->returned & ~(UINT64_C(3) << shift)) | (uint64_t)slot << shift) & 15;
}

/* An entry is read in the step that loads n_given: the port does not write to it any more. */
static void take(struct world *w, const struct state *before, int i)
{
    struct state s = *before;
    struct side *c = &s.side[i];
    const unsigned entry = entry_of(c, c->n_read), slot = entry & 3;
    if (slot >= w->set.slots || !(c->loan >> slot & 1) || serial_of(&s, slot) != entry >> 2) {
        violate(w, &s, "a consumer reads what it was not given");
        return;
    }
    c->holds |= UINT64_C(1) << slot & 7;
    c->entries |= 15u << 4 * (c->n_read & 1) & 255;
    c->n_read = (c->n_read + 1) & 3;
    s.last = GIVEN;
    go(w, &s);
}

static void count_returned(struct side *c)
{
    c->n_returned = (c->n_returned + 1) & 3;
}

/* The slot is stored in the step that stores n_returned: the port does not load it before. */
static void give_back(struct world *w, const struct state *before, int i, unsigned slot)
{
    struct state s = *before;
    struct side *c = &s.side[i];
    if (c->n_returned >= w->set.ring)
        violate(w, &s, "a consumer writes over what the port has not taken back yet");
    if (w->mutation != RETURN_WHILE_READING)
        c->holds &= ~(UINT64_C(1) << slot) & 7;
    c->step = RETURN_STARVED;
    c->slot = w->mutation == RETURN_COUNTS_FIRST || w->mutation == RETURN_WHILE_READING ? slot & 3 : 0;
    if (w->mutation != RETURN_COUNTS_FIRST)
        put_returned(c, c->n_returned, slot);
    if (w->mutation != RETURN_LOOKS_FIRST)
        count_returned(c);
    if (w->mutation == RETURN_COUNTS_FIRST)
        c->step = RETURN_SLOT;
    s.last = RETURNED;
    go(w, &s);
}

static void consumer_rests(struct world *w, const struct state *before, int i)
{
    struct state s = *before;
    struct side *c = &s.side[i];
    for (unsigned slot = 0; slot < w->set.slots; slot++)
        if (c->holds >> slot & 1)
            give_back(w, before, i, slot);
    if (c->n_given != c->n_read) {
        take(w, before, i);
        return;
    }
    c->step = c->ended ? LEFT : w->mutation == SLEEP_WITHOUT_WORD ? SLEEP_SAY : WORD_STARVED;
    s.last = GIVEN;
    go(w, &s);
}

/* The port is woken when enough has come back, and may be before all has. */
static void return_starved(struct world *w, const struct state *before, int i)
{
    struct state s = *before;
    struct side *c = &s.side[i];
    if (w->mutation == RETURN_WHILE_READING)
        c->holds &= ~(UINT64_C(1) << c->slot) & 7;
    s.last = STARVED;
    c->slot = 0;
    c->saw = w->mutation == RETURN_LOOKS_FIRST && c->starved;
    c->step = w->mutation == RETURN_LOOKS_FIRST ? RETURN_COUNT : RESTS;
    if (w->mutation == RETURN_LOOKS_FIRST || !c->starved || c->n_returned != c->n_read)
        go(w, &s);
    if (w->mutation == RETURN_LOOKS_FIRST || !c->starved)
        return;
    c->step = RETURN_CLEAR;
    go(w, &s);
}

/* Whether the futex lets it sleep. */
static bool may_sleep(const struct world *w, const struct side *c)
{
    return w->mutation == SLEEP_ON_COUNT ? c->n_given == c->n_read : c->sleeping;
}

void step_consumer(struct world *w, const struct state *before, int i)
{
    struct state s = *before;
    struct side *c = &s.side[i];
    const bool looks_first = w->mutation == SLEEP_LOOKS_FIRST;
    static const uint8_t touched[] = {[RETURN_SLOT] = RETURNED,
                                      [RETURN_COUNT] = RETURNED,
                                      [RETURN_CLEAR] = STARVED,
                                      [RETURN_BELL] = BELL,
                                      [WORD_STARVED] = STARVED,
                                      [WORD_CLEAR] = STARVED,
                                      [WORD_BELL] = BELL,
                                      [SLEEP_SAY] = SLEEPING,
                                      [SLEEP_GIVEN] = GIVEN,
                                      [SLEEP_ENDED] = GIVEN,
                                      [SLEEP_FUTEX] = KERNEL,
                                      [SLEEP_OVER] = SLEEPING,
                                      [LEFT] = NONE};
    s.last = touched[c->step] & 7u;
    switch ((enum consumer_step)c->step) {
    case RESTS:
        consumer_rests(w, before, i);
        return;
    case RETURN_SLOT:
        put_returned(c, c->n_returned - 1u, (unsigned)c->slot);
        c->slot = 0;
        c->step = RETURN_STARVED;
        break;
    case RETURN_COUNT:
        count_returned(c);
        c->step = c->saw ? RETURN_CLEAR : RESTS;
        c->saw = 0;
        break;
    case RETURN_STARVED:
        return_starved(w, before, i);
        return;
    case RETURN_CLEAR:
        c->step = c->starved ? RETURN_BELL : RESTS;
        c->starved = 0;
        break;
    case WORD_STARVED:
        c->step = c->starved ? WORD_CLEAR : looks_first ? SLEEP_GIVEN : SLEEP_SAY;
        break;
    case WORD_CLEAR:
        c->step = c->starved ? WORD_BELL : looks_first ? SLEEP_GIVEN : SLEEP_SAY;
        c->starved = 0;
        break;
    case RETURN_BELL:
        c->bell = 1;
        c->step = RESTS;
        break;
    case WORD_BELL:
        c->bell = 1;
        c->step = looks_first ? SLEEP_GIVEN : SLEEP_SAY;
        break;
    case SLEEP_SAY:
        c->sleeping = 1;
        c->step = looks_first || w->mutation == SLEEP_UNCHECKED ? SLEEP_FUTEX : SLEEP_GIVEN;
        break;
    case SLEEP_GIVEN:
        c->step = c->n_given != c->n_read ? SLEEP_OVER : SLEEP_ENDED;
        break;
    case SLEEP_ENDED:
        c->step = c->ended ? SLEEP_OVER : looks_first ? SLEEP_SAY : SLEEP_FUTEX;
        break;
    case SLEEP_FUTEX:
        c->step = may_sleep(w, c) ? ASLEEP : SLEEP_OVER;
        break;
    case SLEEP_OVER:
        c->sleeping = 0;
        c->step = RESTS;
        break;
    case ASLEEP:
    case LEFT:
        return;
    }
    go(w, &s);
}

void fail_consumer(struct world *w, const struct state *before, int i)
{
    struct state s = *before;
    struct side *c = &s.side[i];
    if (c->mode != RUNS || !w->set.fails)
        return;
    freeze(c);
    s.last = FAILS;
    reach(w, &s);
    s = *before;
    s.last = FAILS;
    *c = (struct side){.mode = ROGUE, .loan = c->loan, .next = c->next, .done = c->done};
    reach(w, &s);
}
