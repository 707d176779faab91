/* Files that stay open: handles.h. A child of fork has the files of its parent, and its count. */
#include "io/handles.h"

#include <stdatomic.h>
#include <sys/resource.h>

static _Atomic uint64_t n_open;

bool leat_handles_take(void)
{
    struct rlimit limit;
    const uint64_t all = getrlimit(RLIMIT_NOFILE, &limit) ? 0 : limit.rlim_cur,
                   most = all / 2 < LEAT_HANDLES_MOST ? all / 2 : LEAT_HANDLES_MOST;
    uint64_t n = atomic_load_explicit(&n_open, memory_order_relaxed);
    do
        if (n >= most)
            return false;
    while (!atomic_compare_exchange_weak_explicit(&n_open, &n, n + 1, memory_order_relaxed, memory_order_relaxed));
    return true;
}

void leat_handles_count(void)
{
    atomic_fetch_add_explicit(&n_open, 1, memory_order_relaxed);
}

void leat_handles_give_back(void)
{
    atomic_fetch_sub_explicit(&n_open, 1, memory_order_relaxed);
}
