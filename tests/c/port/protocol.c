#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol_steps.h"

const char *const mutation_names[N_MUTATIONS] = {
    "none",
    "give: n_given before the entry",
    "give: sleeping is loaded before n_given is stored",
    "give: nobody is woken",
    "give: more than the ring holds",
    "wait: the futex is n_given",
    "wait: n_given is loaded before sleeping is stored",
    "wait: n_given is not looked at again",
    "wait: no word of what was returned before",
    "return: n_returned before the slot",
    "return: starved is loaded before n_returned is stored",
    "return: the slot is still being read",
    "starve: n_returned is loaded before starved is stored",
    "starve: n_returned is not looked at again",
    "starve: not all are told that slots are short",
    "starve: the descriptor is read late",
    "take back: what was not lent",
    "drop: without looking at holders",
    "drop: before lending",
    "death: nothing is taken back",
    "death: one slot is taken back",
    "death: of one that lives",
};

/* ---- what was reached ------------------------------------------------------------------------ */

static uint64_t hash_of(const struct state *s)
{
    uint64_t w[3], h = 0;
    memcpy(w, s, sizeof w);
    for (int i = 0; i < 3; i++) {
        h = (h ^ w[i]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    return h * UINT64_C(0xbf58476d1ce4e5b9);
}

static void add(struct world *w, const struct state *s)
{
    for (size_t i = hash_of(s) >> 20 & w->mask;; i = (i + 1) & w->mask) {
        if (!w->table[i]) {
            if (w->n == w->room)
                return;
            w->states[w->n] = *s;
            w->from[w->n] = w->at;
            w->table[i] = (uint32_t)++w->n;
            return;
        }
        if (!memcmp(&w->states[w->table[i] - 1], s, sizeof *s))
            return;
    }
}

/* Consumers are alike: of a state and the one with both exchanged, one is looked at. */
void reach(struct world *w, const struct state *s)
{
    uint64_t a, b;
    w->steps++;
    memcpy(&a, &s->side[0], sizeof a);
    memcpy(&b, &s->side[1], sizeof b);
    if (a <= b) {
        add(w, s);
        return;
    }
    struct state other = *s;
    other.side[0] = s->side[1];
    other.side[1] = s->side[0];
    other.who = is_about_one(s) ? !s->who : 0;
    add(w, &other);
}

void go(struct world *w, const struct state *s)
{
    w->can_go_on = true;
    reach(w, s);
}

void violate(struct world *w, const struct state *s, const char *what)
{
    if (w->violation)
        return;
    w->violation = what;
    w->violating = *s;
}

/* ---- what must hold -------------------------------------------------------------------------- */

/* Of a state in which the port waits, and nobody has rung: a consumer that has returned all it had did ring if it was
 * asked to, whatever it does next. */
static void check_waiting(struct world *w, const struct state *s)
{
    if (s->step != WAITS_ON || s->side[0].bell || s->side[1].bell)
        return;
    for (int i = 0; i < 2; i++) {
        const struct side *c = &s->side[i];
        if (c->mode == RUNS && c->step == RESTS && c->starved && c->n_returned && c->n_returned == c->n_given)
            violate(w, s, "the port waits, and nobody says that all has come back");
    }
}

/* Of a state that stays as it is, unless something fails. */
static void check_rest(struct world *w, const struct state *before)
{
    struct state s = *before;
    if (s.step != WAITS && s.step != WAITS_ON && s.step != OVER)
        return;
    for (int i = 0; i < 2; i++) /* one that could go on, and whose turn is over, does so in another schedule */
        if (s.side[i].mode == RUNS && s.side[i].step != ASLEEP && s.side[i].step != LEFT)
            return;
    for (int i = 0; i < 2; i++) {
        struct side *c = &s.side[i];
        bool freed;
        if (c->mode != RUNS)
            continue;
        if (c->step == ASLEEP && (c->n_given != c->n_read || c->ended))
            violate(w, before, "a consumer sleeps, and nobody wakes it to what was given to it");
        open_books(w, &s);
        for (unsigned n = 0; n < c->n_returned; n++)
            leat_lending_take_back(&w->books, &w->loans[i], c->returned >> 2 * n & 3, &freed);
        close_books(w, &s);
    }
    if ((s.step == WAITS || s.step == WAITS_ON) && has_work(w, &s))
        violate(w, before, "the port waits for what has come back already");
}

/* When all have gone and nothing is kept, all slots are free. */
static void check_leaks(struct world *w, const struct state *before)
{
    if (before->side[0].mode != GONE || before->side[1].mode != GONE)
        return;
    open_books(w, before);
    for (unsigned slot = 0; slot < w->set.slots; slot++)
        leat_lending_drop(&w->books, slot);
    if (w->books.n_free != w->set.slots)
        violate(w, before, "a slot is lost");
}

static void print_state(const struct state *s, char *to, size_t room)
{
    int n = snprintf(to, room, "port %u(%u) kept %u", (unsigned)s->step, (unsigned)s->who, (unsigned)s->kept);
    for (int i = 0; i < 2 && n > 0 && (size_t)n < room; i++) {
        const struct side *c = &s->side[i];
        n += snprintf(to + n, room - (size_t)n, " | %u.%u given %u read %u back %u loan %u holds %u%s%s%s",
                      (unsigned)c->mode, (unsigned)c->step, (unsigned)c->n_given, (unsigned)c->n_read,
                      (unsigned)c->n_returned, (unsigned)c->loan, (unsigned)c->holds, c->sleeping ? " sleeping" : "",
                      c->starved ? " starved" : "", c->bell ? " bell" : "");
    }
}

static void tell(const struct world *w, struct exploration *out)
{
    uint32_t path[64];
    size_t n = 0, used = 0;
    for (uint32_t at = w->at; n < 64; at = w->from[at]) {
        path[n++] = at;
        if (!at)
            break;
    }
    while (n && used + 160 < sizeof out->trace) {
        print_state(&w->states[path[--n]], out->trace + used, 158);
        used += strlen(out->trace + used);
        out->trace[used++] = '\n';
    }
    print_state(&w->violating, out->trace + used, sizeof out->trace - used);
}

void explore(enum mutation mutation, const struct setting *setting, size_t most_states, struct exploration *out)
{
    struct world *w = calloc(1, sizeof *w);
    struct state first = {0};
    size_t level = 1;
    *out = (struct exploration){0};
    w->mutation = mutation;
    w->set = *setting;
    w->room = most_states;
    for (w->mask = 1; w->mask < 2 * most_states; w->mask *= 2) {
    }
    w->states = malloc(most_states * sizeof *w->states);
    w->from = malloc(most_states * sizeof *w->from);
    w->table = calloc(w->mask--, sizeof *w->table);
    for (unsigned i = 0; i < setting->slots; i++)
        first.free |= (uint64_t)(setting->slots - 1 - i) << 2 * i & 63;
    first.n_free = setting->slots & 3;
    first.side[0].next = first.side[1].next = 1;
    first.side[0].returned = first.side[1].returned = 15;
    first.side[0].entries = first.side[1].entries = 255;
    if (setting->rogue)
        first.side[1] = (struct side){.mode = ROGUE, .next = 1};
    reach(w, &first);
    for (; w->at < w->n && !w->violation; w->at++) {
        const struct state s = w->states[w->at];
        if (w->at == level) {
            level = w->n;
            out->depth++;
        }
        w->can_go_on = false;
        step_port(w, &s);
        if (is_about_one(&s) && s.side[s.who].mode == RUNS) {
            step_consumer(w, &s, (int)s.who);
            fail_consumer(w, &s, (int)s.who);
        }
        if (!w->can_go_on)
            check_rest(w, &s);
        check_waiting(w, &s);
        check_leaks(w, &s);
    }
    out->states = w->n;
    out->steps = w->steps;
    out->violation = w->violation;
    out->exhausted = !w->violation && w->n < w->room;
    if (w->violation) {
        w->at--;
        tell(w, out);
    }
    free(w->states);
    free(w->from);
    free(w->table);
    free(w);
}
