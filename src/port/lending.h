/*
 * The batches that a port has published, and their holders: bookkeeping that only the port's own process sees, so that
 * it is right whatever a consumer does. It reads no memory that is shared and knows neither sockets nor loaders.
 *
 *     FREE --publish--> kept --lend--> kept and held --take back--> kept --drop--> FREE
 *                                           `--drop--> held --take back (the last one)--> FREE
 *
 * A slot is free once it is not kept and nobody holds it; its memory may then be used again. For one thread at a time.
 */
#ifndef LEAT_PORT_LENDING_H
#define LEAT_PORT_LENDING_H

#include <stdbool.h>
#include <stdint.h>

#define LEAT_LENDING_SLOTS 512u
#define LEAT_NO_SLOT UINT32_MAX

/* The batches of one consumer. */
struct leat_loan {
    uint64_t slots[LEAT_LENDING_SLOTS / 64]; /* a bit each */
    uint32_t n;
};

struct leat_lending {
    uint32_t holders[LEAT_LENDING_SLOTS];
    bool kept[LEAT_LENDING_SLOTS];
    uint32_t free[LEAT_LENDING_SLOTS], n_free; /* slots */
};

void leat_lending_open(struct leat_lending *lending);
/* A slot that is kept now. LEAT_NO_SLOT: none is free. */
uint32_t leat_lending_publish(struct leat_lending *lending);
/* A consumer has a slot that is kept, or that it is about to be given, and that it has not yet. */
void leat_lending_lend(struct leat_lending *lending, struct leat_loan *loan, uint32_t slot);
static inline bool leat_loan_has(const struct leat_loan *loan, uint32_t slot)
{
    return slot < LEAT_LENDING_SLOTS && loan->slots[slot / 64] >> slot % 64 & 1;
}
/* Takes a slot back. False: the consumer does not have it, and nothing has changed. *freed: it is free now. */
bool leat_lending_take_back(struct leat_lending *lending, struct leat_loan *loan, uint32_t slot, bool *freed);
/* A slot is not kept any longer. True: it is free now. */
bool leat_lending_drop(struct leat_lending *lending, uint32_t slot);
/* One of the slots that a consumer has, for taking all back; LEAT_NO_SLOT: it has none. */
uint32_t leat_loan_any(const struct leat_loan *loan);

#endif
