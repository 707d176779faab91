/*
 * Bytes that one loader may use. Its use stands in the ledger of the process, too (base/ledger.h).
 *
 *     limit    >= fixed + max(reserved, used[TASKS]) + used[IN_FLIGHT]     budget_bytes
 *     max_held >= used[HELD]                                               max_held_bytes
 *
 * Large values of tasks are not in the ledger.
 *
 * A budget answers; it evicts nothing, cancels nothing and waits for nothing. The owner of the batches decides what to
 * give up for a yes (loader.c). Everything here is protected by the engine's lock.
 */
#ifndef LEAT_ENGINE_BUDGET_H
#define LEAT_ENGINE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ledger.h"
#include "leat/leat.h"

enum leat_account {
    LEAT_IN_FLIGHT = 0, /* batches of the window: buffers and arrays */
    LEAT_HELD,          /* batches that were handed out or are made on the side */
    LEAT_TASKS,         /* read buffers and the memory of decoding beyond the scratch */
    LEAT_ACCOUNTS
};

enum leat_answer {
    LEAT_YES = 0,
    LEAT_WAIT, /* not before something is given back */
    LEAT_NEVER /* not even if everything were */
};

struct leat_budget {
    uint64_t limit, max_held;
    uint64_t fixed;    /* scratch of the threads */
    uint64_t reserved; /* set aside for tasks: they need not ask for so much */
    uint64_t used[LEAT_ACCOUNTS];
};

/* Begins and ends a loader's use of memory: fixed and reserved bytes enter the ledger, and leave it. */
void leat_budget_open(struct leat_budget *budget);
void leat_budget_close(struct leat_budget *budget);

/* The bytes of tasks: their reserve, or more. */
uint64_t leat_budget_tasks(const struct leat_budget *budget);
/* Reserves up to `bytes` more for tasks, as far as nobody uses them; returns how many. The ledger counts them. */
uint64_t leat_budget_reserve(struct leat_budget *budget, uint64_t bytes);
void leat_budget_unreserve(struct leat_budget *budget, uint64_t bytes);
/* Whether `bytes` more fit into an account. */
enum leat_answer leat_budget_ask(const struct leat_budget *budget, enum leat_account account, uint64_t bytes);
/* Whether the bytes of tasks are in the way of a batch of `bytes`, even if no other were in flight. */
bool leat_budget_has_many_tasks(const struct leat_budget *budget, uint64_t bytes);
void leat_budget_take(struct leat_budget *budget, enum leat_account account, uint64_t bytes);
void leat_budget_give(struct leat_budget *budget, enum leat_account account, uint64_t bytes);
/* Moves bytes of the window to the consumer. */
void leat_budget_hand_out(struct leat_budget *budget, uint64_t bytes);
/* The error of a batch of `bytes` that got no yes. The text names the setting that helps. BUDGET, or HELD: giving
 * batches back helps. */
int leat_budget_refuse(const struct leat_budget *budget, enum leat_account account, uint64_t bytes,
                       struct leat_error *error);

#endif
