/*
 * A model of a port and two consumers (channel.h), small enough that all its schedules can be looked at: protocol.c
 * says what each side does, step by step, and looks at every state that can be reached.
 *
 * A step is one access to memory that is shared, or one call of the kernel. Memory is sequentially consistent in the
 * model. In channel.c and shelf.c it is where that matters: what stores one word and then loads another one that the
 * other side stores is sequentially consistent (n_given, then sleeping; ended, then sleeping; sleeping, then n_given
 * and ended; n_returned, then starved; starved, then n_returned). Without that a processor may load first and store
 * later, so a mutation that leaves it out is the model with these two steps in the other order.
 *
 * Who holds what is kept by the functions of lending.c themselves.
 *
 * Some accesses are one step together because nobody else looks between them: an entry and n_given, or a slot and
 * n_returned (the ring's place is not loaded before it is counted, which mutations violate). Whether half of what was
 * lent has come back is left open: the port may be woken or not, but is woken when all has.
 */
#ifndef LEAT_TESTS_PORT_PROTOCOL_H
#define LEAT_TESTS_PORT_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Mistakes that the protocol could have. */
enum mutation {
    CORRECT = 0,
    GIVE_COUNTS_FIRST,    /* n_given is stored before what it counts */
    GIVE_LOOKS_FIRST,     /* not in order: `sleeping` is loaded, then n_given stored */
    GIVE_NEVER_WAKES,     /* whoever sleeps */
    GIVE_WITHOUT_CREDIT,  /* as much as there is, whatever was not returned */
    SLEEP_ON_COUNT,       /* the futex is n_given, which the end of the port does not change */
    SLEEP_LOOKS_FIRST,    /* not in order: n_given is loaded, then `sleeping` stored */
    SLEEP_UNCHECKED,      /* n_given is not looked at again */
    SLEEP_WITHOUT_WORD,   /* what was returned by less than a half is not said before sleeping */
    RETURN_COUNTS_FIRST,  /* n_returned is stored before the slot */
    RETURN_LOOKS_FIRST,   /* not in order: `starved` is loaded, then n_returned stored */
    RETURN_WHILE_READING, /* the slot is returned first, and not read any longer afterwards */
    STARVE_LOOKS_FIRST,   /* not in order: n_returned is loaded, then `starved` stored */
    STARVE_UNCHECKED,     /* n_returned is not looked at again */
    STARVE_SILENT,        /* only those without credit are told that the port waits, not all when slots are short */
    BELL_READ_LATE,       /* the descriptor is read after looking at what has come back */
    TAKE_BACK_TRUSTS,     /* a slot that was not lent to who returns it comes back as well */
    DROP_FORGETS_HOLDERS, /* a slot that is not kept is free */
    DROP_BEFORE_LENDING,  /* a slot is given up, then lent */
    DEATH_FORGETS,        /* what the dead held stays theirs */
    DEATH_TAKES_ONE,      /* ... but for one */
    DEATH_BY_TIME,        /* who does nothing for a while counts as dead */
    N_MUTATIONS
};

struct exploration {
    size_t states, steps;
    size_t depth;          /* steps to the farthest state */
    const char *violation; /* NULL: there is none */
    char trace[96 * 64];   /* what led there, a line each */
    bool exhausted;        /* all states were looked at */
};

extern const char *const mutation_names[N_MUTATIONS];
/* How large the model is, and what may happen in it. */
struct setting {
    const char *name;
    unsigned slots, batches, ring; /* slots, batches: at most 3; ring: 1 or 2 */
    bool fails; /* a consumer may die or stop at any step, or write anything at all into its channel from then on */
    bool seeks; /* it may ask for what it had before */
    bool ends;  /* the port may end */
    bool rogue; /* one of the two writes anything from the start: so it does whatever a consumer could do */
};

void explore(enum mutation mutation, const struct setting *setting, size_t most_states, struct exploration *out);

#endif
