/* The port of the model, step by step, as channel.c and shelf.c have it. */
#include "protocol_steps.h"

static void rest(struct state *s)
{
    s->step = SERVES;
    s->who = s->saw = 0;
    s->n = 0;
    s->last = NONE;
    s->side[0].done = s->side[1].done = 0;
}

/* Its process has ended, or it was thrown out. */
static void see_off(struct world *w, struct state *s, int i)
{
    struct leat_loan *loan = &w->loans[i];
    bool freed;
    open_books(w, s);
    if (w->mutation != DEATH_FORGETS)
        for (uint32_t slot; (slot = leat_loan_any(loan)) != LEAT_NO_SLOT;) {
            leat_lending_take_back(&w->books, loan, slot, &freed);
            if (w->mutation == DEATH_TAKES_ONE)
                break;
        }
    close_books(w, s);
    const uint64_t loan_left = s->side[i].loan;
    if (s->side[i].mode != RUNS) /* DEATH_BY_TIME */
        s->side[i] = (struct side){.mode = GONE, .loan = loan_left & 7};
    rest(s);
}

static void publish(struct world *w, const struct state *before, int i)
{
    struct state s = *before;
    open_books(w, &s);
    const uint32_t slot = leat_lending_publish(&w->books);
    close_books(w, &s);
    for (int k = 0; k < 2; k++)
        if (reads(&s.side[k]) >> slot & 1)
            violate(w, &s, "a slot is written that a consumer reads");
    s.serials = (s.serials & ~(UINT64_C(3) << 2 * slot) & 63) | (s.side[i].next << 2 * slot & 63);
    go(w, &s);
}

static void give_entry(struct world *w, struct state *s, int i, unsigned slot, uint64_t n)
{
    struct side *c = &s->side[i];
    const unsigned at = 4 * (unsigned)(n & 1);
    if (c->mode == FROZEN) {
        c->holds |= UINT64_C(1) << slot & 7;
        return;
    }
    if (c->mode != RUNS)
        return;
    if (n - c->n_read >= w->set.ring || n > 2)
        violate(w, s, "the port writes over what a consumer has not read yet");
    c->entries = ((c->entries & ~(UINT64_C(15) << at)) | (uint64_t)(slot | serial_of(s, slot) << 2) << at) & 255;
}

/* n_given is stored. */
static void give_count(struct side *c)
{
    if (c->mode == RUNS)
        c->n_given = (c->n_given + 1) & 3;
}

static void give(struct world *w, const struct state *before, int i)
{
    struct state s = *before;
    struct side *c = &s.side[i];
    const unsigned slot = find(w, &s, c->next);
    open_books(w, &s);
    if (w->mutation == DROP_BEFORE_LENDING) { /* leat_lending_lend asserts that it is not so */
        leat_lending_drop(&w->books, slot);
        w->loans[i].slots[0] |= UINT64_C(1) << slot;
        w->books.holders[slot]++;
    } else {
        leat_lending_lend(&w->books, &w->loans[i], slot);
    }
    close_books(w, &s);
    c->next = (c->next + 1) & 7;
    if (c->mode != RUNS) { /* nobody looks at its channel */
        give_entry(w, &s, i, slot, 0);
        rest(&s);
        go(w, &s);
        return;
    }
    if (w->mutation == GIVE_COUNTS_FIRST) {
        give_count(c);
        s.step = GIVE_ENTRY;
        s.n = slot & 3;
    } else {
        give_entry(w, &s, i, slot, c->n_given); /* in the step that stores n_given: it is not loaded before */
        s.step = GIVE_SLEEPING;
        if (w->mutation != GIVE_LOOKS_FIRST)
            give_count(c);
    }
    go(w, &s);
}

static void drop(struct world *w, const struct state *before, unsigned slot)
{
    struct state s = *before;
    open_books(w, &s);
    if (!leat_lending_drop(&w->books, slot) && w->mutation == DROP_FORGETS_HOLDERS)
        w->books.free[w->books.n_free++] = slot;
    close_books(w, &s);
    go(w, &s);
}

static void serves(struct world *w, const struct state *s)
{
    struct state next;
    for (int i = 0; i < 2; i++) {
        if (wants(w, s, i) && s->n_free)
            publish(w, s, i);
        next = *s;
        next.who = (unsigned)i & 1;
        if (!attached(s, i))
            continue;
        next.step = VISITS;
        go(w, &next);
        next.step = END_SAY;
        if (w->set.ends)
            reach(w, &next);
    }
    for (unsigned slot = 0; slot < w->set.slots; slot++)
        if (s->kept >> slot & 1 && (is_short(w, s) || !is_needed(s, serial_of(s, slot))))
            drop(w, s, slot);
    if (!has_work(w, s)) {
        next = *s;
        next.step = STARVE;
        go(w, &next);
    }
}

/* n_returned is loaded: `n` is what it says. */
static void collect(struct world *w, const struct state *before, int i, uint64_t n)
{
    struct state s = *before;
    struct side *c = &s.side[i];
    const bool starves = s.step == STARVE_LOOK;
    if (n > w->set.ring) {
        if (c->mode != ROGUE)
            violate(w, &s, "a good consumer is thrown out");
        see_off(w, &s, i);
    } else if (n) {
        s.step = COLLECT_SLOT;
        s.n = n & 3;
    } else if (starves) {
        s.step = w->mutation == STARVE_LOOKS_FIRST ? STARVE_SAY : w->mutation == BELL_READ_LATE ? STARVE_BELL : STARVE;
        c->done = w->mutation != STARVE_LOOKS_FIRST;
        s.who &= s.step != STARVE;
    } else {
        rest(&s);
    }
    go(w, &s);
}

static void visits(struct world *w, const struct state *before, int i)
{
    struct state s = *before, next;
    const struct side *c = &s.side[i];
    const bool rogue = c->mode == ROGUE;
    s.last = NONE;
    if (can_give(w, &s, i) && is_due(before, w->mutation == GIVE_LOOKS_FIRST ? 0 : TOUCHES(GIVEN)))
        give(w, &s, i);
    if (is_due(before, TOUCHES(RETURNED)))
        for (unsigned n = rogue ? 1 : (unsigned)c->n_returned, end = rogue ? w->set.ring + 1 : n; n && n <= end; n++)
            collect(w, &s, i, n);
    if (!is_due(before, 0))
        return;
    if (c->mode != RUNS || w->mutation == DEATH_BY_TIME) {
        next = s;
        see_off(w, &next, i);
        reach(w, &next);
    }
    for (uint64_t to = 1; w->set.seeks && c->mode == RUNS && to < c->next; to++) { /* it has asked for a position */
        next = s;
        next.side[i].next = to & 7;
        rest(&next);
        reach(w, &next);
    }
}

/* Counters and rings begin anew behind the slot that was taken back. */
static void took(struct state *s, struct side *c)
{
    if (c->mode == RUNS) {
        c->n_given = (c->n_given - 1u) & 3;
        c->n_read = (c->n_read - 1u) & 3;
        c->entries = (c->entries >> 4 | c->entries << 4) & 255;
    }
    if (c->mode != ROGUE) {
        c->n_returned = (c->n_returned - 1u) & 3;
        c->returned = c->returned >> 2 | NOTHING << 2;
    }
    s->n = (s->n - 1u) & 3;
    if (!s->n)
        rest(s);
}

static void collect_slot(struct world *w, const struct state *before, int i, unsigned slot)
{
    struct state s = *before;
    struct side *c = &s.side[i];
    bool freed;
    open_books(w, &s);
    bool had = leat_lending_take_back(&w->books, &w->loans[i], slot, &freed);
    if (!had && w->mutation == TAKE_BACK_TRUSTS)
        had = leat_lending_take_back(&w->books, &w->loans[!i], slot, &freed);
    close_books(w, &s);
    if (!had) {
        if (c->mode != ROGUE)
            violate(w, &s, "a good consumer is thrown out");
        see_off(w, &s, i);
    } else {
        took(&s, c);
    }
    go(w, &s);
}

/* It has nothing to do: it says so to those whose returns would help, looks once more, and waits. */
static void starve(struct world *w, const struct state *before)
{
    struct state s = *before;
    bool all = true;
    for (int i = 0; i < 2; i++) {
        s = *before;
        if (!is_waited_for(w, &s, i) || s.side[i].done)
            continue;
        all = false;
        s.who = (unsigned)i & 1;
        s.step = s.side[i].mode != RUNS || w->mutation == STARVE_LOOKS_FIRST ? STARVE_LOOK : STARVE_SAY;
        go(w, &s);
    }
    if (!all)
        return;
    s = *before;
    s.step = attached(&s, 0) ? WAITS : WAITS_ON;
    s.who = !attached(&s, 0);
    s.side[0].done = s.side[1].done = 0;
    go(w, &s);
}

static void waits(struct world *w, const struct state *before)
{
    struct state s;
    for (int i = 0; i < 2; i++) {
        const struct side *c = &before->side[i];
        s = *before;
        rest(&s);
        if (c->bell && !is_due(before, TOUCHES(BELL))) {
            w->can_go_on = true;
        } else if (c->bell) {
            if (w->mutation != BELL_READ_LATE)
                s.side[i].bell = 0;
            go(w, &s);
        } else if (is_due(before, 0) &&
                   (c->mode == FROZEN || c->mode == ROGUE)) { /* its process has ended, or it rings for nothing */
            reach(w, &s);
        }
    }
    s = *before;
    s.last = NONE;
    if (s.step == WAITS && attached(&s, !s.who)) {
        s.step = WAITS_ON;
        s.who = !s.who;
        go(w, &s);
    }
}

static void wake(struct side *c)
{
    if (c->step == ASLEEP)
        c->step = SLEEP_OVER;
}

void step_port(struct world *w, const struct state *at)
{
    struct state s = *at;
    const int i = (int)s.who;
    struct side *c = &s.side[i];
    const bool rogue = c->mode == ROGUE;
    const enum mutation m = w->mutation;
    static const uint8_t touched[] = {[GIVE_ENTRY] = TOUCHES(GIVEN),
                                      [GIVE_COUNT] = TOUCHES(GIVEN),
                                      [GIVE_SLEEPING] = TOUCHES(SLEEPING),
                                      [GIVE_CLEAR] = TOUCHES(SLEEPING) | TOUCHES(KERNEL),
                                      [GIVE_WAKE] = TOUCHES(KERNEL),
                                      [COLLECT_SLOT] = TOUCHES(RETURNED),
                                      [STARVE_SAY] = TOUCHES(STARVED),
                                      [STARVE_LOOK] = TOUCHES(RETURNED),
                                      [STARVE_BELL] = TOUCHES(BELL),
                                      [END_SAY] = TOUCHES(GIVEN),
                                      [END_CLEAR] = TOUCHES(SLEEPING) | TOUCHES(KERNEL),
                                      [END_WAKE] = TOUCHES(KERNEL),
                                      [OVER] = 255};
    if (s.step != SERVES && s.step != VISITS && s.step != STARVE && s.step != WAITS && s.step != WAITS_ON &&
        !is_due(&s, touched[s.step])) {
        w->can_go_on = true;
        return;
    }
    if (s.step != WAITS && s.step != WAITS_ON && s.step != VISITS)
        s.last = NONE;
    const struct state now = s, *const before = &now;
    switch ((enum port_step)s.step) {
    case SERVES:
        serves(w, before);
        return;
    case GIVE_ENTRY:
        give_entry(w, &s, i, (unsigned)s.n, c->n_given - 1u);
        s.n = 0;
        s.step = GIVE_SLEEPING;
        break;
    case GIVE_COUNT:
        give_count(c);
        s.step = GIVE_CLEAR;
        if (!s.saw)
            rest(&s);
        s.saw = 0;
        break;
    case GIVE_SLEEPING:
        if (m == GIVE_LOOKS_FIRST) {
            s.saw = c->sleeping;
            s.step = GIVE_COUNT;
        } else if (c->sleeping && m != GIVE_NEVER_WAKES) {
            s.step = GIVE_CLEAR;
        } else {
            rest(&s);
        }
        break;
    case GIVE_CLEAR:
        s.step = c->sleeping ? GIVE_WAKE : SERVES;
        if (!c->sleeping)
            rest(&s);
        if (m != SLEEP_ON_COUNT)
            c->sleeping = 0;
        break;
    case GIVE_WAKE:
        wake(c);
        rest(&s);
        break;
    case VISITS:
        visits(w, before, i);
        return;
    case STARVE_LOOK:
        for (unsigned n = rogue ? 0 : (unsigned)c->n_returned, end = rogue ? w->set.ring + 1 : n; n <= end; n++)
            collect(w, before, i, n);
        return;
    case COLLECT_SLOT: {
        const unsigned said = c->returned & 3;
        for (unsigned slot = rogue ? 0 : said, end = rogue ? NOTHING : said; slot <= end; slot++)
            collect_slot(w, before, i, slot);
        return;
    }
    case STARVE:
        starve(w, before);
        return;
    case STARVE_SAY:
        if (c->mode == RUNS)
            c->starved = 1;
        s.step = STARVE_LOOK;
        if (m == STARVE_LOOKS_FIRST || m == STARVE_UNCHECKED) {
            s.step = STARVE;
            s.who = 0;
            c->done = 1;
        }
        break;
    case STARVE_BELL:
        c->bell = 0;
        s.step = STARVE;
        s.who = 0;
        break;
    case WAITS:
    case WAITS_ON:
        waits(w, before);
        return;
    case END_SAY:
        if (c->mode == RUNS)
            c->ended = 1;
        s.step = END_CLEAR;
        break;
    case END_CLEAR:
        if (m != SLEEP_ON_COUNT)
            c->sleeping = 0;
        s.step = END_WAKE;
        break;
    case END_WAKE:
        wake(c);
        c->done = 1;
        s.step = attached(&s, !i) && !s.side[!i].done ? END_SAY : OVER;
        s.who = (s.step == END_SAY ? !i : i) & 1;
        break;
    case OVER: /* one consumer after the other */
        if (c->done && attached(&s, !i)) {
            c->done = 0;
            s.who = !i;
            go(w, &s);
        }
        return;
    }
    go(w, &s);
}
