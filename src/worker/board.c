/*
 * The board: a process puts the work of its workers there, and they take it, without a lock that a dying worker could
 * keep.
 *
 *     entries   one per batch in flight: what to compute, where its rows go
 *     units     of each entry: runs of rows. One word each:   serial (40 bits) | worker (16) | state (8)
 *     works     of each unit: who works on it, and when, for traces
 *
 *          publish                compare-and-swap              store
 *     -----------> QUEUED -----------------------> TAKEN -----------------> DONE
 *                    ^                               |  \--> message sent, received by the parent --> DONE
 *                    +---- the worker died ----------+
 *
 * A worker goes through the entries in the order of their serials and takes the first queued unit: all that is in
 * flight is worked on, earliest batch first, and a slow row holds only its own batch: a serial whose entry such a batch
 * still has is passed over. The serial in the word makes taking safe while the parent reuses an entry: the compare
 * fails. The taker of a unit stands in the same word, so the units of a killed worker are known.
 *
 * A worker may be held up between any two instructions while the parent goes on, retires the batch it looks at and
 * gives the entry to another. Whatever it then writes to the entry must not count for that other batch:
 *
 *     finished    units done, with the serial beside the count: a late one is not counted
 *     hint        units before it are not queued, with a version that publishing and requeueing raise: a late one is
 *                 dropped
 *     placed      where rows go, if that was not known when the batch was published: written once, before `layout`
 *
 * Facts of batches that only the parent needs are in its own memory (struct flight): the time of rows, by which later
 * batches are cut into units, and the fate of rows that end workers.
 *
 * Sleeping is by futex: workers on the pool's `work`, the parent on the board's `done`, which counts batches and
 * messages. Messages are counted by the worker that announces them, in its record: those that a killed worker announced
 * and did not send are then known to the last one.
 */
#include "worker/board.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define LEAST_NS 20.0 /* that a row is taken to need */

static uint64_t heads_bytes(uint64_t n_entries)
{
    return leat_align64(sizeof(struct board_shared)) + leat_align64(n_entries * sizeof(struct entry));
}

static void find_parts(struct leat_board *b, uint8_t *base)
{
    b->shared = (struct board_shared *)(void *)base;
    b->entries = (struct entry *)(void *)(base + leat_align64(sizeof *b->shared));
    b->units = (_Atomic uint64_t *)(void *)(base + heads_bytes(b->shared->n_entries));
    b->works = (struct work *)(void *)(b->units + (size_t)b->shared->n_entries * b->shared->max_units);
}

int leat_board_new(struct leat_pool *pool, unsigned n_entries, unsigned max_units, double unit_ns, double weight,
                   struct leat_board **out, struct leat_error *error)
{
    *out = NULL;
    if (!n_entries || !max_units || n_entries > 1 << 16 || max_units > 1 << 16)
        return leat_fail(error, LEAT_E_INVALID, "a board of %u batches of %u units cannot be made", n_entries,
                         max_units);
    struct leat_board *b = leat_new(struct leat_board);
    if (!b || !(b->flights = leat_new_array(n_entries, sizeof *b->flights))) {
        leat_free(b);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a board");
    }
    const uint64_t heads = heads_bytes(n_entries), n = (uint64_t)n_entries * max_units;
    int rc = leat_slot_new(heads + n * (sizeof *b->units + sizeof *b->works), &b->slot, error);
    if (rc) {
        leat_free(b->flights);
        leat_free(b);
        return rc;
    }
    struct board_shared *s = leat_slot_data(b->slot);
    memset(s, 0, heads); /* units are written before anyone reads them: their pages come as they are used */
    s->n_entries = n_entries;
    s->max_units = max_units;
    s->weight = weight > 0 ? weight : 1;
    atomic_store(&s->first, 1);
    atomic_store(&s->next, 1);
    b->pool = pool;
    b->unit_ns = unit_ns;
    b->offset = leat_slot_offset(b->slot);
    find_parts(b, (uint8_t *)s);
    *out = b;
    return LEAT_OK;
}

int leat_board_attach(struct leat_pool *pool, uint64_t offset, bool thread, struct leat_board **out,
                      struct leat_error *error)
{
    *out = NULL;
    uint8_t *base = leat_share_base(!thread);
    if (!base)
        return leat_fail(error, LEAT_E_INVALID, "a worker that has no memory of its parent's has no board");
    int rc = leat_share_follow(error);
    if (rc)
        return rc;
    struct leat_board *b = leat_new(struct leat_board);
    if (!b)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a board");
    b->pool = pool;
    b->offset = offset;
    find_parts(b, base + offset);
    *out = b;
    return LEAT_OK;
}

void leat_board_free(struct leat_board *b)
{
    if (!b)
        return;
    for (uint32_t i = 0; b->flights && i < b->shared->n_entries; i++)
        leat_free(b->flights[i].kills);
    leat_free(b->flights);
    leat_slot_release(b->slot);
    leat_free(b);
}

uint64_t leat_board_offset(const struct leat_board *b)
{
    return b->offset;
}

static struct flight *flight_of(const struct leat_board *b, uint64_t serial)
{
    return &b->flights[serial % b->shared->n_entries];
}

uint64_t leat_board_next(const struct leat_board *b)
{
    uint64_t next = atomic_load(&b->shared->next);
    for (uint64_t serial = next; serial < next + b->shared->n_entries; serial++)
        if (!atomic_load(&entry_of(b, serial)->serial))
            return serial;
    return 0;
}

double leat_board_ns_per_row(const struct leat_board *b)
{
    return b->ns_per_row;
}

uint64_t leat_board_run(const struct leat_board *b)
{
    return b->ns_per_row > 0 && b->ns_per_row < b->unit_ns ? (uint64_t)(b->unit_ns / b->ns_per_row) : 1;
}

/* Rows of a unit: while there are fewer batches than workers, each batch is for several of them. */
static uint64_t fair_run(const struct leat_board *b, uint32_t rows)
{
    uint64_t run = leat_board_run(b), n = b->pool->working ? b->pool->working : 1;
    uint64_t fair = b->n_flights < n ? (rows + n - 1) / n : rows;
    return run < fair ? run : fair;
}

int leat_board_publish(struct leat_board *b, const struct leat_board_batch *batch, struct leat_error *error)
{
    struct board_shared *s = b->shared;
    struct entry *e = entry_of(b, batch->serial);
    uint64_t run = batch->run ? batch->run : fair_run(b, batch->rows), n_units = batch->rows;
    if (!batch->serial || batch->serial != leat_board_next(b) || !batch->rows)
        return leat_fail(error, LEAT_E_INVALID, "batch %" PRIu64 " cannot be published now", batch->serial);
    if (batch->n_buffers > LEAT_BOARD_BUFFERS || (batch->owner >= 0 && (unsigned)batch->owner >= b->pool->n))
        return leat_fail(error, LEAT_E_INVALID, "batch %" PRIu64 " has %u buffers and worker %d; there are %d and %u",
                         batch->serial, batch->n_buffers, batch->owner, LEAT_BOARD_BUFFERS, b->pool->n);
    if ((batch->rows + run - 1) / run > s->max_units)
        run = ((uint64_t)batch->rows + s->max_units - 1) / s->max_units;
    n_units = (batch->rows + run - 1) / run;
    *flight_of(b, batch->serial) = (struct flight){.paced = !batch->run};
    b->n_flights++;
    /* A worker that still looks at the batch that was here finds that it is gone before it can see a hint of this
     * one. */
    uint64_t hint = (atomic_load(&e->hint) | COUNT_MASK) + 1;
    atomic_store(&e->hint, hint);
    e->batch = *batch;
    e->batch.run = (uint32_t)run;
    atomic_store(&e->n_units, (uint32_t)n_units);
    atomic_store(&e->owner, batch->owner);
    atomic_store(&e->layout, batch->layout);
    atomic_store(&e->spent_ns, 0);
    atomic_store(&e->finished, batch->serial << 24);
    _Atomic uint64_t *units = units_of(b, batch->serial);
    for (uint32_t u = 0; u < n_units; u++)
        atomic_store_explicit(&units[u], word(batch->serial, 0, QUEUED), memory_order_release);
    atomic_store(&e->serial, batch->serial);
    atomic_store(&s->next, batch->serial + 1);
    leat_pool_wake(b->pool);
    return LEAT_OK;
}

int leat_board_place(struct leat_board *b, uint64_t serial, uint32_t layout, const uint64_t *buffers,
                     uint32_t n_buffers, struct leat_error *error)
{
    struct entry *e = in_flight(b, serial);
    if (!e || !layout || atomic_load(&e->layout) || n_buffers > LEAT_BOARD_BUFFERS)
        return leat_fail(error, LEAT_E_INVALID, "the rows of batch %" PRIu64 " cannot be given a place now", serial);
    memcpy(e->placed, buffers, n_buffers * sizeof *buffers);
    e->n_placed = n_buffers;
    atomic_store_explicit(&e->layout, layout, memory_order_release);
    return LEAT_OK;
}

bool leat_board_complete(const struct leat_board *b, uint64_t serial)
{
    struct entry *e = in_flight(b, serial);
    if (!e)
        return serial && serial < atomic_load(&b->shared->next);
    uint32_t n_units = atomic_load(&e->n_units);
    if (serial >= b->unsure && !flight_of(b, serial)->cancelled)
        return (atomic_load_explicit(&e->finished, memory_order_acquire) & COUNT_MASK) >= n_units;
    _Atomic uint64_t *units = units_of(b, serial);
    for (uint32_t u = 0; u < n_units; u++) {
        uint64_t state = atomic_load_explicit(&units[u], memory_order_acquire) & 255;
        if (state != DONE && state != CANCELLED)
            return false;
    }
    return true;
}

void leat_board_received(struct leat_board *b, uint64_t serial, uint32_t unit, int64_t spent_ns)
{
    struct entry *e = in_flight(b, serial);
    if (!e || unit >= atomic_load(&e->n_units))
        return;
    atomic_fetch_add_explicit(&e->spent_ns, (uint64_t)spent_ns, memory_order_relaxed);
    if ((atomic_exchange(&units_of(b, serial)[unit], word(serial, 0, DONE)) & 255) != DONE && count_done(e, serial))
        leat_board_tell(b->shared); /* another thread may wait for the batch whose message this one took */
}

int64_t leat_board_spent_ns(const struct leat_board *b, uint64_t serial)
{
    struct entry *e = in_flight(b, serial);
    return e ? (int64_t)atomic_load_explicit(&e->spent_ns, memory_order_relaxed) : 0;
}

static void learn(struct leat_board *b, const struct entry *e)
{
    double each = (double)atomic_load_explicit(&e->spent_ns, memory_order_relaxed) / (double)e->batch.rows;
    if (each <= 0)
        return;
    each = each > LEAST_NS ? each : LEAST_NS;
    b->ns_per_row = b->ns_per_row > 0 ? b->ns_per_row + 0.25 * (each - b->ns_per_row) : each;
}

void leat_board_retire(struct leat_board *b, uint64_t serial)
{
    struct entry *e = in_flight(b, serial);
    if (!e)
        return;
    struct flight *f = flight_of(b, serial);
    if (f->paced && !f->cancelled)
        learn(b, e);
    leat_free(f->kills);
    f->kills = NULL;
    b->n_flights--;
    atomic_store(&e->serial, 0);
    uint64_t first = atomic_load(&b->shared->first);
    atomic_store(&b->shared->first, first_in_flight(b, first, atomic_load(&b->shared->next)));
}

bool leat_board_cancel(struct leat_board *b, uint64_t serial)
{
    struct entry *e = in_flight(b, serial);
    if (!e)
        return true;
    flight_of(b, serial)->cancelled = true;
    _Atomic uint64_t *units = units_of(b, serial);
    bool running = false;
    for (uint32_t u = 0, n = atomic_load(&e->n_units); u < n; u++) {
        uint64_t queued = word(serial, 0, QUEUED);
        if (!atomic_compare_exchange_strong(&units[u], &queued, word(serial, 0, CANCELLED)))
            running |= (queued & 255) == TAKEN;
    }
    return !running;
}

/* Whether a row has ended so many workers that it is not to be tried any more. */
static bool ended_too_many(struct flight *f, const struct entry *e, uint32_t row)
{
    if (row >= e->batch.rows || (!f->kills && !(f->kills = leat_new_array(e->batch.rows, 1))))
        return false;
    f->kills[row] = (uint8_t)((f->kills[row] + 1) % LEAT_BOARD_KILLS);
    return !f->kills[row];
}

unsigned leat_board_requeue(struct leat_board *b, unsigned worker,
                            void (*gone)(void *user, uint64_t serial, uint32_t row), void *user)
{
    unsigned n = 0;
    uint64_t next = atomic_load(&b->shared->next);
    struct leat_pool_worker at;
    leat_pool_worker(b->pool, worker, &at);
    b->unsure = next;
    for (uint64_t serial = atomic_load(&b->shared->first); (serial = first_in_flight(b, serial, next)) < next;
         serial++) {
        struct entry *e = entry_of(b, serial);
        struct flight *f = flight_of(b, serial);
        _Atomic uint64_t *units = units_of(b, serial);
        for (uint32_t u = 0, n_units = atomic_load(&e->n_units); u < n_units; u++)
            if (atomic_load(&units[u]) == word(serial, worker, TAKEN)) {
                n++;
                bool begun = at.board == b->offset && at.serial == serial; /* else it had taken it, and not begun */
                if (begun && !f->cancelled && ended_too_many(f, e, at.row) && gone)
                    gone(user, serial, at.row);
                if (f->cancelled) {
                    leat_board_received(b, serial, u, 0);
                    continue;
                }
                atomic_store(&units[u], word(serial, 0, QUEUED));
                atomic_store(&e->hint, (atomic_load(&e->hint) | COUNT_MASK) + 1);
            }
    }
    if (n)
        leat_pool_wake(b->pool);
    return n;
}

uint32_t leat_board_seen(const struct leat_board *b)
{
    return atomic_load(&b->shared->done);
}

void leat_board_wait(struct leat_board *b, uint32_t seen, int64_t timeout_ms)
{
    atomic_store(&b->shared->asleep, 1);
    futex_wait(&b->shared->done, seen, timeout_ms);
    atomic_store(&b->shared->asleep, 0);
}

void leat_board_wake(struct leat_board *b)
{
    leat_board_tell(b->shared);
}

struct leat_pool *leat_board_pool(const struct leat_board *b)
{
    return b->pool;
}

void leat_board_close(struct leat_board *b)
{
    atomic_store(&b->shared->closed, 1);
    leat_pool_wake(b->pool);
}

uint32_t leat_board_units(const struct leat_board *b, uint64_t serial)
{
    const struct entry *e = in_flight(b, serial);
    return e ? atomic_load(&e->n_units) : 0;
}

bool leat_board_work(const struct leat_board *b, uint64_t serial, uint32_t unit, struct leat_board_work *out)
{
    const struct entry *e = in_flight(b, serial);
    if (!e || unit >= atomic_load(&e->n_units))
        return false;
    const uint64_t state = atomic_load_explicit(&units_of(b, serial)[unit], memory_order_acquire) & 255;
    struct work *w = &works_of(b, serial)[unit];
    if ((state != TAKEN && state != DONE) || atomic_load_explicit(&w->serial, memory_order_acquire) != serial)
        return false;
    *out = (struct leat_board_work){
        .idle_ns = atomic_load_explicit(&w->idle_ns, memory_order_relaxed),
        .begun_ns = atomic_load_explicit(&w->begun_ns, memory_order_relaxed),
        .ended_ns = atomic_load_explicit(&w->ended_ns, memory_order_relaxed),
        .worker = atomic_load_explicit(&w->worker, memory_order_relaxed),
        .process = atomic_load_explicit(&w->process, memory_order_relaxed),
        .thread = atomic_load_explicit(&w->thread, memory_order_relaxed),
    };
    rows_of_unit(&e->batch, unit, &out->first, &out->n);
    return true;
}
