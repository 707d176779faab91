/* The accounts of a loader: budget.h says how they relate. */
#include "engine/budget.h"

#include <inttypes.h>

#include "base/error.h"

void leat_budget_open(struct leat_budget *b)
{
    leat_ledger_open();
    leat_ledger_take(LEAT_OF_LOADERS, b->fixed + b->reserved);
}

void leat_budget_close(struct leat_budget *b)
{
    leat_ledger_give(LEAT_OF_LOADERS, b->fixed + b->reserved);
}

uint64_t leat_budget_tasks(const struct leat_budget *b)
{
    return b->used[LEAT_TASKS] > b->reserved ? b->used[LEAT_TASKS] : b->reserved;
}

uint64_t leat_budget_reserve(struct leat_budget *b, uint64_t bytes)
{
    uint64_t used = b->fixed + leat_budget_tasks(b) + b->used[LEAT_IN_FLIGHT];
    uint64_t left = used < b->limit ? b->limit - used : 0;
    bytes = bytes < left ? bytes : left;
    b->reserved += bytes;
    leat_ledger_take(LEAT_OF_LOADERS, bytes);
    return bytes;
}

void leat_budget_unreserve(struct leat_budget *b, uint64_t bytes)
{
    b->reserved -= bytes;
    leat_ledger_give(LEAT_OF_LOADERS, bytes);
}

/* Whether a + b + c stays at or below `limit`. */
static bool fits(uint64_t limit, uint64_t a, uint64_t b, uint64_t c)
{
    return a <= limit && b <= limit - a && c <= limit - a - b;
}

/* Beyond what is reserved for them, many small tasks leave half of the rest to batches, however many of them wait; one
 * that needs much, to decode a photo, may have it. */
static uint64_t kept_of_tasks(const struct leat_budget *b, uint64_t bytes)
{
    const uint64_t own = b->fixed + b->reserved, half = own < b->limit ? (b->limit - own) / 2 : 0;
    return bytes > half / 4 || b->used[LEAT_IN_FLIGHT] > half ? b->used[LEAT_IN_FLIGHT] : half;
}

enum leat_answer leat_budget_ask(const struct leat_budget *b, enum leat_account account, uint64_t bytes)
{
    const uint64_t *used = b->used;
    switch (account) {
    case LEAT_TASKS: /* the ledger has the bytes reserved for them */
        if (fits(b->reserved, used[LEAT_TASKS], bytes, 0) ||
            fits(b->limit, b->fixed + used[LEAT_TASKS], bytes, kept_of_tasks(b, bytes)))
            return LEAT_YES;
        return fits(b->limit, b->fixed, bytes, 0) ? LEAT_WAIT : LEAT_NEVER;
    case LEAT_HELD:
        if (!fits(b->max_held, used[LEAT_HELD], bytes, 0))
            return bytes <= b->max_held ? LEAT_WAIT : LEAT_NEVER;
        break;
    default:
        if (!fits(b->limit, b->fixed, b->reserved, bytes))
            return LEAT_NEVER;
        if (!fits(b->limit, b->fixed + leat_budget_tasks(b), used[LEAT_IN_FLIGHT], bytes))
            return LEAT_WAIT;
    }
    return leat_ledger_fits(bytes) ? LEAT_YES : LEAT_WAIT;
}

bool leat_budget_has_many_tasks(const struct leat_budget *b, uint64_t bytes)
{
    return !fits(b->limit, b->fixed, leat_budget_tasks(b), bytes);
}

void leat_budget_take(struct leat_budget *b, enum leat_account account, uint64_t bytes)
{
    b->used[account] += bytes;
    leat_ledger_take(LEAT_OF_LOADERS, account == LEAT_TASKS ? 0 : bytes);
}

void leat_budget_give(struct leat_budget *b, enum leat_account account, uint64_t bytes)
{
    b->used[account] -= bytes;
    leat_ledger_give(LEAT_OF_LOADERS, account == LEAT_TASKS ? 0 : bytes);
}

void leat_budget_hand_out(struct leat_budget *b, uint64_t bytes)
{
    b->used[LEAT_IN_FLIGHT] -= bytes;
    b->used[LEAT_HELD] += bytes;
}

int leat_budget_refuse(const struct leat_budget *b, enum leat_account account, uint64_t bytes, struct leat_error *error)
{
    if (account == LEAT_HELD && !fits(b->max_held, b->used[LEAT_HELD], bytes, 0))
        return leat_fail(error, LEAT_E_HELD,
                         "batches in use hold %" PRIu64 " bytes, and one of %" PRIu64
                         " more would pass max_held_bytes = %" PRIu64 "; let go of batches or raise it",
                         b->used[LEAT_HELD], bytes, b->max_held);
    uint64_t scratch = b->fixed + leat_budget_tasks(b);
    if (account == LEAT_IN_FLIGHT && leat_budget_has_many_tasks(b, bytes))
        return leat_fail(error, LEAT_E_BUDGET,
                         "a batch of %" PRIu64 " bytes and %" PRIu64
                         " bytes of scratch do not fit into budget_bytes = %" PRIu64
                         "; raise it or make batches smaller",
                         bytes, scratch, b->limit);
    return leat_fail(error, LEAT_E_HELD,
                     "loaders and workers of this process together use %" PRIu64 " bytes, and a batch of %" PRIu64
                     " more would pass half of the allowed memory, %" PRIu64 "; let go of batches, or close loaders",
                     leat_ledger_used(LEAT_OF_LOADERS) + leat_ledger_used(LEAT_OF_WORKERS), bytes,
                     leat_ledger_allowed());
}
