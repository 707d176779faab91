#include "base/ledger.h"

#include <stdatomic.h>

#include "leat/leat.h"

static struct {
    _Atomic uint64_t used[LEAT_MEMORY_USERS], allowed;
} ledger;

void leat_ledger_take(enum leat_memory_user user, uint64_t bytes)
{
    atomic_fetch_add_explicit(&ledger.used[user], bytes, memory_order_relaxed);
}

void leat_ledger_give(enum leat_memory_user user, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&ledger.used[user], bytes, memory_order_relaxed);
}

void leat_ledger_forget(enum leat_memory_user user)
{
    atomic_store_explicit(&ledger.used[user], 0, memory_order_relaxed);
}

uint64_t leat_ledger_used(enum leat_memory_user user)
{
    return atomic_load_explicit(&ledger.used[user], memory_order_relaxed);
}

void leat_ledger_open(void)
{
    atomic_store_explicit(&ledger.allowed, leat_memory_allowed() / 2, memory_order_relaxed);
}

uint64_t leat_ledger_allowed(void)
{
    if (!atomic_load_explicit(&ledger.allowed, memory_order_relaxed))
        leat_ledger_open();
    return atomic_load_explicit(&ledger.allowed, memory_order_relaxed);
}

uint64_t leat_memory_left(void)
{
    const uint64_t used = leat_ledger_used(LEAT_OF_LOADERS) + leat_ledger_used(LEAT_OF_WORKERS);
    const uint64_t allowed = leat_ledger_allowed();
    return used < allowed ? allowed - used : 0;
}

bool leat_ledger_fits(uint64_t bytes)
{
    return bytes <= leat_memory_left();
}

bool leat_ledger_is_over(uint64_t more)
{
    return !leat_ledger_fits(leat_ledger_used(LEAT_OF_BLOCKS) + leat_ledger_used(LEAT_OF_PHOTOS) + more);
}
