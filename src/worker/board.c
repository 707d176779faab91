/*
 * The board: where a process says what its workers are to do, and where they take it from, without a lock that a dying
 * worker could keep.
 *
 *     entries   one per batch in flight: what to compute, where its rows go
 *     units     of each entry: runs of rows. One word each:   serial (40 bits) | worker (16) | state (8)
 *
 *          publish                compare-and-swap              store
 *     -----------> QUEUED -----------------------> TAKEN -----------------> DONE
 *                    ^                               |  \--> message sent, received by the parent --> DONE
 *                    +---- the worker died ----------+
 *
 * A worker goes through the entries in the order of their serials and takes the first queued unit: all that is in
 * flight is worked on, earliest batch first, and a slow row holds nobody but its own batch: a serial whose entry such a
 * batch still has is passed over. The serial in the word makes taking safe while the parent reuses an entry: the
 * compare fails. Who took a unit stands in the same word, so whatever a killed worker had is known.
 *
 * A worker may be held up between any two instructions while the parent goes on, retires the batch it looks at and
 * gives the entry to another. Whatever it then writes to the entry must not count for that other batch:
 *
 *     finished    units done, with the serial beside the count: a late one is not counted
 *     hint        units before it are not queued, with a version that publishing and requeueing raise: a late one is
 *                 dropped
 *     placed      where rows go, if that was not known when the batch was published: written once, before `layout`
 *
 * What only the parent needs to know of its batches is in its own memory (struct flight): how long rows take, by which
 * later batches are cut into units, and what becomes of rows that end workers.
 *
 * Sleeping is by futex: workers on the pool's `work`, the parent on the board's `done`, which counts batches and
 * messages. Messages are counted by the worker that announces them, in its record: those that a killed worker announced
 * and did not send are then known to the last one.
 */
#include "worker/share.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

enum unit_state { QUEUED = 1, TAKEN, DONE, CANCELLED };

struct worker_record {
    _Atomic uint64_t board, serial; /* what it works on; serial 0: nothing */
    _Atomic uint32_t row, units, messages;
    uint8_t pad[32];
};

struct pool_shared {
    _Atomic uint32_t work; /* futex: counts what was published */
    _Atomic uint32_t asleep;
    uint32_t n;
    struct worker_record workers[];
};

struct entry {
    _Atomic uint64_t serial;   /* 0: free */
    _Atomic uint64_t hint;     /* version (40 bits) | unit (24) */
    _Atomic uint64_t finished; /* serial (40 bits) | units (24) */
    _Atomic uint64_t spent_ns;
    _Atomic uint32_t n_units, layout;
    _Atomic int32_t owner;
    uint32_t n_placed;
    uint64_t placed[LEAT_BOARD_BUFFERS];
    struct leat_board_batch batch; /* as it was published */
};

struct board_shared {
    _Atomic uint32_t done; /* futex */
    _Atomic uint32_t asleep, closed;
    _Atomic uint64_t first, next; /* serials in flight lie in [first, next) */
    _Atomic uint64_t served_ns;
    uint32_t n_entries, max_units;
    double weight;
};

/* What the parent knows of a batch in flight, at the index of its entry. */
struct flight {
    uint8_t *kills; /* [rows] workers that each row has ended; NULL: none */
    bool paced;     /* cut by how long rows take, which it tells in turn */
    bool cancelled;
};

struct leat_pool {
    struct pool_shared *shared;
    struct leat_slot *slot;     /* NULL in a worker */
    struct leat_holder *holder; /* of a worker process: what it holds of its parent's memory */
    uint64_t offset;
    unsigned n, worker;
    unsigned working; /* in the parent: how many of them there are now */
};

struct leat_board {
    struct leat_pool *pool;
    struct board_shared *shared;
    struct entry *entries;
    _Atomic uint64_t *units;
    struct leat_slot *slot;
    uint64_t offset;
    struct flight *flights; /* [n_entries]; this and what follows is the parent's */
    unsigned n_flights;
    double unit_ns, ns_per_row; /* what a unit should take; what a row does, 0: not known yet */
    uint64_t unsure;            /* before this serial a worker may have died between ending a unit and counting it */
};

static uint64_t word(uint64_t serial, unsigned worker, enum unit_state state)
{
    return serial << 24 | (uint64_t)worker << 8 | state;
}

#define LEAST_NS 20.0 /* that a row is taken to need */

/* Units that are done of a batch, or the unit that a hint names: the low bits of a word. */
#define COUNT_MASK UINT64_C(0xffffff)

static void futex_wake(_Atomic uint32_t *address, int n)
{
    syscall(SYS_futex, address, FUTEX_WAKE, n, NULL, NULL, 0);
}

/* Until *address differs from `seen`, a wake, a signal, or the time has passed. */
static void futex_wait(_Atomic uint32_t *address, uint32_t seen, int64_t timeout_ms)
{
    struct timespec t = {(time_t)(timeout_ms / 1000), (long)(timeout_ms % 1000) * 1000000};
    syscall(SYS_futex, address, FUTEX_WAIT, seen, timeout_ms < 0 ? NULL : &t, NULL, 0);
}

/* Wakes the parent. */
static void tell(struct board_shared *s)
{
    atomic_fetch_add(&s->done, 1);
    if (atomic_load(&s->asleep))
        futex_wake(&s->done, INT_MAX);
}

/* ---- pool ------------------------------------------------------------------------------------ */

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

static void announce(struct leat_pool *p)
{
    atomic_fetch_add(&p->shared->work, 1);
    if (atomic_load(&p->shared->asleep))
        futex_wake(&p->shared->work, INT_MAX);
}

void leat_pool_wake(struct leat_pool *p)
{
    announce(p);
}

uint32_t leat_pool_seen(const struct leat_pool *p)
{
    return atomic_load(&p->shared->work);
}

void leat_pool_sleep(struct leat_pool *p, uint32_t seen, int64_t timeout_ms)
{
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

/* ---- board: the parent ----------------------------------------------------------------------- */

static void find_parts(struct leat_board *b, uint8_t *base)
{
    b->shared = (struct board_shared *)(void *)base;
    b->entries = (struct entry *)(void *)(base + leat_align64(sizeof *b->shared));
    b->units =
        (_Atomic uint64_t *)(void *)((uint8_t *)b->entries + leat_align64(b->shared->n_entries * sizeof(struct entry)));
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
    uint64_t heads = leat_align64(sizeof(struct board_shared)) + leat_align64(n_entries * sizeof(struct entry));
    int rc = leat_slot_new(heads + (uint64_t)n_entries * max_units * 8, &b->slot, error);
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

static struct entry *entry_of(const struct leat_board *b, uint64_t serial)
{
    return &b->entries[serial % b->shared->n_entries];
}

static _Atomic uint64_t *units_of(const struct leat_board *b, uint64_t serial)
{
    return b->units + serial % b->shared->n_entries * b->shared->max_units;
}

/* The entry of a batch that was published and not yet retired; NULL: another's, or nobody's. */
static struct entry *in_flight(const struct leat_board *b, uint64_t serial)
{
    struct entry *e = entry_of(b, serial);
    return serial && atomic_load_explicit(&e->serial, memory_order_acquire) == serial ? e : NULL;
}

static struct flight *flight_of(const struct leat_board *b, uint64_t serial)
{
    return &b->flights[serial % b->shared->n_entries];
}

/* The earliest batch in flight whose serial is in [from, end), or `end`. Serials are close together, unless one that
 * takes long was overtaken by as many batches as there are entries. */
static uint64_t first_in_flight(const struct leat_board *b, uint64_t from, uint64_t end)
{
    uint64_t n = b->shared->n_entries, found = end;
    if (end <= from + n) {
        while (from < end && !in_flight(b, from))
            from++;
        return from;
    }
    for (uint64_t i = 0; i < n; i++) {
        uint64_t serial = atomic_load_explicit(&b->entries[i].serial, memory_order_acquire);
        found = serial >= from && serial < found ? serial : found;
    }
    return found;
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
    announce(b->pool);
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

/* Counts a unit as done, unless the entry has gone to another batch since. True: it was the last. */
static bool count_done(struct entry *e, uint64_t serial)
{
    uint64_t finished = atomic_load(&e->finished);
    uint32_t n_units = atomic_load(&e->n_units);
    while (finished >> 24 == (serial << 24) >> 24)
        if (atomic_compare_exchange_weak(&e->finished, &finished, finished + 1))
            return ((finished + 1) & COUNT_MASK) >= n_units;
    return false;
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
        tell(b->shared); /* another thread may wait for the batch whose message this one took */
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
        announce(b->pool);
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
    tell(b->shared);
}

struct leat_pool *leat_board_pool(const struct leat_board *b)
{
    return b->pool;
}

void leat_board_close(struct leat_board *b)
{
    atomic_store(&b->shared->closed, 1);
    announce(b->pool);
}

/* ---- board: a worker ------------------------------------------------------------------------- */

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
    out->first = unit * batch->run;
    out->n = batch->rows - out->first < batch->run ? batch->rows - out->first : batch->run;
    out->begun_ns = leat_clock_ns();
}

/* What a worker process reads and writes for a unit is held for it, from when it has taken the unit until it ends it or
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
        hold(b, &out->batch, hold_one);
        return true;
    }
    if (from < n) /* all were taken: the next one who looks need not */
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
    atomic_fetch_add(&b->pool->shared->workers[b->pool->worker].messages, 1);
    tell(b->shared);
}

void leat_board_finish(struct leat_board *b, const struct leat_board_unit *unit, bool sent)
{
    uint64_t serial = unit->batch.serial;
    struct worker_record *w = &b->pool->shared->workers[b->pool->worker];
    uint64_t ns = (uint64_t)(leat_clock_ns() - unit->begun_ns);
    atomic_fetch_add_explicit(&b->shared->served_ns, (uint64_t)((double)ns / b->shared->weight), memory_order_relaxed);
    atomic_store_explicit(&w->serial, 0, memory_order_relaxed);
    hold(b, &unit->batch, leat_holder_drop);
    if (sent) /* the parent has it, or will: it finishes the unit, and the entry may have gone to another batch */
        return;
    struct entry *e = entry_of(b, serial);
    atomic_fetch_add_explicit(&e->spent_ns, ns, memory_order_relaxed);
    atomic_store(&units_of(b, serial)[unit->unit], word(serial, 0, DONE));
    if (count_done(e, serial))
        tell(b->shared);
}

void *leat_board_at(const struct leat_board *b, uint64_t offset)
{
    return (uint8_t *)b->shared - b->offset + offset;
}
