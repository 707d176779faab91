/*
 * The states of the model of protocol.h, and what its files share: protocol.c explores and checks, protocol_books.c
 * keeps who has what by the functions of lending.c, protocol_consumer.c and protocol_port.c say what each side does.
 */
#ifndef LEAT_TESTS_PORT_PROTOCOL_STEPS_H
#define LEAT_TESTS_PORT_PROTOCOL_STEPS_H

#include "port/lending.h"
#include "protocol.h"

/* The ring is tiny. Counters begin at what the port has taken back, which is always 0 here, and rings at the same
 * place: only differences between counters mean anything, and the ring's size divides the number at which they wrap
 * around. */
enum { NOTHING = 3 };

/* What a consumer does next; channel.c has the same, in this order. */
enum consumer_step {
    RESTS = 0, /* it may take what was given, return what it holds, or go to sleep */
    RETURN_SLOT,
    RETURN_COUNT,
    RETURN_STARVED,
    RETURN_CLEAR,
    RETURN_BELL,
    WORD_STARVED, /* before it sleeps */
    WORD_CLEAR,
    WORD_BELL,
    SLEEP_SAY,
    SLEEP_GIVEN,
    SLEEP_ENDED,
    SLEEP_FUTEX,
    ASLEEP,
    SLEEP_OVER,
    LEFT /* the port has ended */
};

enum port_step {
    SERVES = 0, /* it may publish, give up, or turn to a consumer */
    VISITS,     /* it may lend, take back, and see whether it has died */
    GIVE_ENTRY,
    GIVE_COUNT,
    GIVE_SLEEPING,
    GIVE_CLEAR,
    GIVE_WAKE,
    COLLECT_SLOT,
    STARVE, /* one consumer after the other; then it waits */
    STARVE_SAY,
    STARVE_LOOK,
    STARVE_BELL, /* a mistake */
    WAITS,       /* while the first consumer takes steps, then the second one */
    WAITS_ON,
    END_SAY,
    END_CLEAR,
    END_WAKE,
    OVER
};

/* FROZEN: dead or stopped for ever, which the port cannot tell before the process has ended; so it may still read what
 * it has, until the port sees that it is dead. ROGUE: nothing that the port loads from its channel means anything. */
enum mode { RUNS = 0, FROZEN, ROGUE, GONE };

/* A consumer with its channel, and what the port knows of it. */
struct side {
    /* written by the port */
    uint64_t n_given : 2, entries : 8, ended : 1, starved : 1;
    /* written by the consumer */
    uint64_t n_returned : 2, returned : 4, sleeping : 1, bell : 1;
    /* the consumer's own */
    uint64_t step : 5, mode : 2, n_read : 2, holds : 3, slot : 2, saw : 1;
    /* the port's own; next: the batch that it needs next, from 1 on */
    uint64_t loan : 3, next : 3, done : 1;
};

struct state {
    struct side side[2];
    uint64_t step : 5, who : 1, n : 2, saw : 1, last : 3; /* the port's; who: whom that is about */
    uint64_t kept : 3, serials : 6, free : 6, n_free : 2;
};
_Static_assert(sizeof(struct state) == 24, "states are compared as bytes");

struct world {
    enum mutation mutation;
    struct setting set;
    struct state *states;
    uint32_t *from, *table; /* from: the state before; table: of indices + 1 */
    size_t n, room, mask, steps;
    uint32_t at;    /* whose steps are looked at */
    bool can_go_on; /* it has a step that is not a fault's */
    const char *violation;
    struct state violating;
    struct leat_lending books;
    struct leat_loan loans[2];
};

/* protocol.c */

/* A step leads to a state; or a fault does, which need not come. */
void go(struct world *w, const struct state *s);
void reach(struct world *w, const struct state *s);
void violate(struct world *w, const struct state *s, const char *what);

/* protocol_books.c */

void open_books(struct world *w, const struct state *s);
void close_books(struct world *w, struct state *s);
bool attached(const struct state *s, int i);
bool has_credit(const struct world *w, const struct state *s, int i);
/* The slot of a batch that is kept, or NOTHING. */
unsigned find(const struct world *w, const struct state *s, uint64_t serial);
/* Whether a consumer may come to a batch. */
bool is_needed(const struct state *s, uint64_t serial);
bool can_give(const struct world *w, const struct state *s, int i);
/* Whether a batch must be made for it. */
bool wants(const struct world *w, const struct state *s, int i);
bool is_short(const struct world *w, const struct state *s);
/* Whether what a consumer returns is waited for. */
bool is_waited_for(const struct world *w, const struct state *s, int i);
bool has_work(const struct world *w, const struct state *s);

static inline unsigned count(uint64_t bits)
{
    return (unsigned)__builtin_popcountll(bits);
}

static inline unsigned serial_of(const struct state *s, unsigned slot)
{
    return s->serials >> 2 * slot & 3;
}

/* ---- which schedules are alike --------------------------------------------------------------- */

/* What a step of a consumer touches that the port touches too. */
enum touch { NONE = 0, GIVEN, SLEEPING, KERNEL, RETURNED, STARVED, BELL, FAILS };

/* A step of a consumer that touches nothing of what the port does next to it may as well come after that. So of such
 * schedules only this one is looked at: the port goes on right behind a step of the port, or behind one of the consumer
 * that is not independent of it. While the port is busy with one consumer the other one takes no steps, likewise. */
static inline bool is_due(const struct state *s, unsigned touches)
{
    return s->last == NONE || s->last == FAILS || touches >> s->last & 1;
}

#define TOUCHES(what) (1u << (what))

/* protocol_consumer.c, protocol_port.c */

void step_consumer(struct world *w, const struct state *before, int i);
/* What may happen to it at any time. */
void fail_consumer(struct world *w, const struct state *before, int i);
/* Slots that it may read: those that it took, and what was given to it. */
uint64_t reads(const struct side *c);
void step_port(struct world *w, const struct state *at);
/* Whether the port does something that is about one consumer. */
static inline bool is_about_one(const struct state *s)
{
    return s->step != SERVES && s->step != STARVE;
}

#endif
