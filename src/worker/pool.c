/* A pool of workers: the common part of all boards of a process. Each worker has a record of its work there. */
#include "worker/board.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

static size_t pool_bytes(unsigned n)
{
    return sizeof(struct pool_shared) + n * sizeof(struct worker_record);
}

int leat_pool_new(unsigned n_workers, struct leat_pool **out, struct leat_error *error)
{
    *out = NULL;
    if (!n_workers || n_workers > LEAT_POOL_WORKERS)
        return leat_fail(error, LEAT_E_INVALID, "a pool has 1 to %d workers, not %u", LEAT_POOL_WORKERS, n_workers);
    struct leat_pool *p = leat_new(struct leat_pool);
    if (!p)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a pool of workers");
    int rc = leat_slot_new(pool_bytes(n_workers), &p->slot, error);
    if (rc) {
        leat_free(p);
        return rc;
    }
    p->shared = leat_slot_data(p->slot);
    p->offset = leat_slot_offset(p->slot);
    p->n = p->working = n_workers;
    memset(p->shared, 0, pool_bytes(n_workers));
    p->shared->n = n_workers;
    *out = p;
    return LEAT_OK;
}

int leat_pool_attach(uint64_t offset, unsigned worker, bool thread, struct leat_pool **out, struct leat_error *error)
{
    *out = NULL;
    uint8_t *base = leat_share_base(!thread);
    if (!base)
        return leat_fail(error, LEAT_E_INVALID, "worker %u has no memory of its parent's", worker);
    int rc = leat_share_follow(error);
    if (rc)
        return rc;
    struct pool_shared *shared = (struct pool_shared *)(void *)(base + offset);
    if (worker >= shared->n)
        return leat_fail(error, LEAT_E_INVALID, "a pool of %u workers has no worker %u", shared->n, worker);
    struct leat_pool *p = leat_new(struct leat_pool);
    if (!p)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a pool of workers");
    p->shared = shared;
    p->offset = offset;
    p->n = shared->n;
    p->worker = worker;
    if (!thread && !(p->holder = leat_holders_join(leat_share_holders()))) {
        leat_free(p);
        return leat_fail(error, LEAT_E_HELD, "too many processes hold memory of this worker's parent");
    }
    *out = p;
    return LEAT_OK;
}

void leat_pool_free(struct leat_pool *p)
{
    if (!p)
        return;
    leat_slot_release(p->slot);
    leat_holder_leave(p->holder);
    leat_free(p);
}

void leat_pool_resize(struct leat_pool *p, unsigned n)
{
    p->working = n;
}

uint64_t leat_pool_offset(const struct leat_pool *p)
{
    return p->offset;
}

void leat_pool_wake(struct leat_pool *p)
{
    atomic_fetch_add(&p->shared->work, 1);
    if (atomic_load(&p->shared->asleep))
        futex_wake(&p->shared->work, INT_MAX);
}

uint32_t leat_pool_seen(const struct leat_pool *p)
{
    return atomic_load(&p->shared->work);
}

void leat_pool_sleep(struct leat_pool *p, uint32_t seen, int64_t timeout_ms)
{
    if (!p->idle_ns)
        p->idle_ns = leat_clock_ns();
    atomic_fetch_add(&p->shared->asleep, 1);
    futex_wait(&p->shared->work, seen, timeout_ms);
    atomic_fetch_sub(&p->shared->asleep, 1);
}

void leat_pool_worker(const struct leat_pool *p, unsigned worker, struct leat_pool_worker *out)
{
    memset(out, 0, sizeof *out);
    if (worker >= p->n)
        return;
    struct worker_record *w = &p->shared->workers[worker];
    out->serial = atomic_load_explicit(&w->serial, memory_order_relaxed);
    out->board = atomic_load_explicit(&w->board, memory_order_relaxed);
    out->row = atomic_load_explicit(&w->row, memory_order_relaxed);
    out->units = atomic_load_explicit(&w->units, memory_order_relaxed);
    out->messages = atomic_load_explicit(&w->messages, memory_order_relaxed);
}

void leat_pool_forget(struct leat_pool *p, unsigned worker)
{
    if (worker < p->n)
        atomic_store(&p->shared->workers[worker].serial, 0);
}

uint32_t leat_pool_messages(const struct leat_pool *p)
{
    uint32_t sum = 0;
    for (unsigned i = 0; i < p->n; i++)
        sum += atomic_load(&p->shared->workers[i].messages);
    return sum;
}
