/* A worker's side of the board: taking a unit, reporting its progress, ending it. */
#include "worker/board.h"

#include <string.h>

#include "base/clock.h"

bool leat_board_closed(const struct leat_board *b)
{
    return atomic_load(&b->shared->closed);
}

uint64_t leat_board_served_ns(const struct leat_board *b)
{
    return atomic_load_explicit(&b->shared->served_ns, memory_order_relaxed);
}

void leat_board_start_at(struct leat_board *b, uint64_t served_ns)
{
    atomic_store(&b->shared->served_ns, served_ns);
}

/* The worker has taken a unit. */
static void begin_work(const struct leat_board *b, uint64_t serial, uint32_t unit, int64_t now_ns)
{
    struct leat_pool *p = b->pool;
    struct work *w = &works_of(b, serial)[unit];
    if (!p->process) {
        p->process = (int32_t)getpid();
        p->thread = (int32_t)gettid();
    }
    atomic_store_explicit(&w->idle_ns, p->idle_ns, memory_order_relaxed);
    atomic_store_explicit(&w->begun_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&w->ended_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&w->worker, p->worker, memory_order_relaxed);
    atomic_store_explicit(&w->process, p->process, memory_order_relaxed);
    atomic_store_explicit(&w->thread, p->thread, memory_order_relaxed);
    atomic_store_explicit(&w->serial, serial, memory_order_release);
    p->work = w;
    p->idle_ns = 0;
}

/* Its result is there, or on its way: the unit is the worker's no longer once the parent has that. */
static void end_work(struct leat_pool *p, int64_t now_ns)
{
    if (p->work)
        atomic_store_explicit(&p->work->ended_ns, now_ns, memory_order_relaxed);
    p->work = NULL;
}

static void describe(const struct leat_board *b, struct entry *e, uint32_t unit, struct leat_board_unit *out)
{
    const struct leat_board_batch *batch = &e->batch; /* nobody changes it while a unit of it is taken */
    out->batch = *batch;
    out->batch.layout = atomic_load_explicit(&e->layout, memory_order_acquire);
    if (out->batch.layout != batch->layout) {
        out->batch.n_buffers = e->n_placed;
        memcpy(out->batch.buffers, e->placed, sizeof e->placed);
    }
    out->unit = unit;
    rows_of_unit(batch, unit, &out->first, &out->n);
    out->begun_ns = leat_clock_ns();
}

/* The memory that a worker process reads and writes for a unit is held for it, from taking the unit until it ends it or
 * dies: the parent may let go of the batch meanwhile, and its memory is not used again before. */
static void hold(const struct leat_board *b, const struct leat_board_batch *batch,
                 void (*change)(struct leat_holder *row, uint64_t offset))
{
    if (b->pool->holder && batch->payload_bytes)
        change(b->pool->holder, batch->payload);
    for (uint32_t i = 0; b->pool->holder && i < batch->n_buffers; i++)
        change(b->pool->holder, batch->buffers[i]);
}

_Static_assert(LEAT_BOARD_BUFFERS < LEAT_HOLDER_ROOM, "a row has room for what one unit has, payload and buffers");

static void hold_one(struct leat_holder *row, uint64_t offset)
{
    leat_holder_hold(row, offset);
}

static bool take(struct leat_board *b, struct entry *e, uint64_t serial, struct leat_board_unit *out)
{
    unsigned me = b->pool->worker;
    _Atomic uint64_t *units = units_of(b, serial);
    uint64_t hint = atomic_load(&e->hint), version = hint & ~COUNT_MASK;
    uint32_t from = (uint32_t)(hint & COUNT_MASK), n = atomic_load(&e->n_units);
    if (atomic_load(&e->serial) != serial)
        return false; /* another batch's entry by now; it was still this one's when the hint was read if this does not
                         hold */
    for (uint32_t u = from; u < n; u++) {
        uint64_t queued = word(serial, 0, QUEUED);
        if (atomic_load_explicit(&units[u], memory_order_relaxed) != queued ||
            !atomic_compare_exchange_strong(&units[u], &queued, word(serial, me, TAKEN)))
            continue;
        if (u == from)
            atomic_compare_exchange_strong(&e->hint, &hint, version | (u + 1));
        describe(b, e, u, out);
        begin_work(b, serial, u, out->begun_ns);
        hold(b, &out->batch, hold_one);
        return true;
    }
    if (from < n) /* all were taken: the next one to look need not */
        atomic_compare_exchange_strong(&e->hint, &hint, version | n);
    return false;
}

bool leat_board_take(struct leat_board *b, struct leat_board_unit *out)
{
    if (atomic_load(&b->shared->closed))
        return false;
    uint64_t next = atomic_load(&b->shared->next);
    for (uint64_t serial = atomic_load(&b->shared->first); (serial = first_in_flight(b, serial, next)) < next;
         serial++) {
        struct entry *e = entry_of(b, serial);
        int32_t owner = atomic_load(&e->owner);
        if ((owner >= 0 && (unsigned)owner != b->pool->worker) || !take(b, e, serial, out))
            continue;
        struct worker_record *w = &b->pool->shared->workers[b->pool->worker];
        atomic_store_explicit(&w->board, b->offset, memory_order_relaxed);
        atomic_store_explicit(&w->row, out->first, memory_order_relaxed);
        atomic_store_explicit(&w->serial, serial, memory_order_relaxed);
        atomic_fetch_add_explicit(&w->units, 1, memory_order_relaxed);
        return true;
    }
    return false;
}

void leat_board_at_row(struct leat_board *b, uint32_t row)
{
    atomic_store_explicit(&b->pool->shared->workers[b->pool->worker].row, row, memory_order_relaxed);
}

void leat_board_message(struct leat_board *b)
{
    if (b->pool->work)
        end_work(b->pool, leat_clock_ns());
    atomic_fetch_add(&b->pool->shared->workers[b->pool->worker].messages, 1);
    leat_board_tell(b->shared);
}

void leat_board_finish(struct leat_board *b, const struct leat_board_unit *unit, bool sent)
{
    uint64_t serial = unit->batch.serial;
    struct worker_record *w = &b->pool->shared->workers[b->pool->worker];
    const int64_t now_ns = leat_clock_ns();
    const uint64_t ns = (uint64_t)(now_ns - unit->begun_ns);
    end_work(b->pool, now_ns);
    atomic_fetch_add_explicit(&b->shared->served_ns, (uint64_t)((double)ns / b->shared->weight), memory_order_relaxed);
    atomic_store_explicit(&w->serial, 0, memory_order_relaxed);
    hold(b, &unit->batch, leat_holder_drop);
    if (sent) /* the parent has it, or will: it finishes the unit, and the entry may have gone to another batch */
        return;
    struct entry *e = entry_of(b, serial);
    atomic_fetch_add_explicit(&e->spent_ns, ns, memory_order_relaxed);
    atomic_store(&units_of(b, serial)[unit->unit], word(serial, 0, DONE));
    if (count_done(e, serial))
        leat_board_tell(b->shared);
}

void *leat_board_at(const struct leat_board *b, uint64_t offset)
{
    return (uint8_t *)b->shared - b->offset + offset;
}
