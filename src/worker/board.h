/* The common part of the files of the board: the layout of shared memory, and each side's own view of it (see
 * board.c). */
#ifndef LEAT_WORKER_BOARD_H
#define LEAT_WORKER_BOARD_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/holders.h"
#include "worker/share.h"

enum unit_state { QUEUED = 1, TAKEN, DONE, CANCELLED };

struct worker_record {
    _Atomic uint64_t board, serial; /* its present work; serial 0: none */
    _Atomic uint32_t row, units, messages;
    uint8_t pad[32];
};

struct pool_shared {
    _Atomic uint32_t work; /* futex: counts the published batches */
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

/* The worker of a unit, with times: of the unit's last taker, which alone writes it. */
struct work {
    _Atomic uint64_t serial; /* of the batch; written last */
    _Atomic int64_t idle_ns, begun_ns, ended_ns;
    _Atomic uint32_t worker;
    _Atomic int32_t process, thread;
};

struct board_shared {
    _Atomic uint32_t done; /* futex */
    _Atomic uint32_t asleep, closed;
    _Atomic uint64_t first, next; /* serials in flight lie in [first, next) */
    _Atomic uint64_t served_ns;
    uint32_t n_entries, max_units;
    double weight;
};

/* The parent's record of a batch in flight, at the index of its entry. */
struct flight {
    uint8_t *kills; /* [rows] workers that each row has ended; NULL: none */
    bool paced;     /* cut by how long rows take, which it tells in turn */
    bool cancelled;
};

struct leat_pool {
    struct pool_shared *shared;
    struct leat_slot *slot;     /* NULL in a worker */
    struct leat_holder *holder; /* of a worker process: its holds on its parent's memory */
    uint64_t offset;
    unsigned n, worker;
    unsigned working; /* in the parent: their present number */
    /* For a worker: */
    struct work *work;       /* of the unit that it has; NULL: none, or its message was announced */
    int64_t idle_ns;         /* since when it sleeps for want of work; 0: it does not */
    int32_t process, thread; /* its own; 0: not known yet */
};

struct leat_board {
    struct leat_pool *pool;
    struct board_shared *shared;
    struct entry *entries;
    _Atomic uint64_t *units;
    struct work *works; /* [n_entries][max_units], as units */
    struct leat_slot *slot;
    uint64_t offset;
    struct flight *flights; /* [n_entries]; this and the fields below are the parent's */
    unsigned n_flights;
    double unit_ns, ns_per_row; /* the aim for a unit; the time of a row, 0: not known yet */
    uint64_t unsure;            /* before this serial a worker may have died between ending a unit and counting it */
};

/* Units that are done of a batch, or the unit that a hint names: the low bits of a word. */
#define COUNT_MASK UINT64_C(0xffffff)

static inline uint64_t word(uint64_t serial, unsigned worker, enum unit_state state)
{
    return serial << 24 | (uint64_t)worker << 8 | state;
}

static inline void futex_wake(_Atomic uint32_t *address, int n)
{
    syscall(SYS_futex, address, FUTEX_WAKE, n, NULL, NULL, 0);
}

/* Until *address differs from `seen`, a wake, a signal, or the time has passed. */
static inline void futex_wait(_Atomic uint32_t *address, uint32_t seen, int64_t timeout_ms)
{
    struct timespec t = {(time_t)(timeout_ms / 1000), (long)(timeout_ms % 1000) * 1000000};
    syscall(SYS_futex, address, FUTEX_WAIT, seen, timeout_ms < 0 ? NULL : &t, NULL, 0);
}

/* Wakes the parent. */
static inline void leat_board_tell(struct board_shared *s)
{
    atomic_fetch_add(&s->done, 1);
    if (atomic_load(&s->asleep))
        futex_wake(&s->done, INT_MAX);
}

static inline struct entry *entry_of(const struct leat_board *b, uint64_t serial)
{
    return &b->entries[serial % b->shared->n_entries];
}

static inline _Atomic uint64_t *units_of(const struct leat_board *b, uint64_t serial)
{
    return b->units + serial % b->shared->n_entries * b->shared->max_units;
}

static inline struct work *works_of(const struct leat_board *b, uint64_t serial)
{
    return b->works + serial % b->shared->n_entries * b->shared->max_units;
}

/* The entry of a batch that was published and not yet retired; NULL: another's, or nobody's. */
static inline struct entry *in_flight(const struct leat_board *b, uint64_t serial)
{
    struct entry *e = entry_of(b, serial);
    return serial && atomic_load_explicit(&e->serial, memory_order_acquire) == serial ? e : NULL;
}

static inline void rows_of_unit(const struct leat_board_batch *batch, uint32_t unit, uint32_t *first, uint32_t *n)
{
    *first = unit * batch->run;
    *n = batch->rows - *first < batch->run ? batch->rows - *first : batch->run;
}

/* The earliest batch in flight whose serial is in [from, end), or `end`. Serials are close together, unless one that
 * takes long was overtaken by as many batches as there are entries. */
static inline uint64_t first_in_flight(const struct leat_board *b, uint64_t from, uint64_t end)
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

/* Counts a unit as done, unless the entry has gone to another batch since. True: it was the last. */
static inline bool count_done(struct entry *e, uint64_t serial)
{
    uint64_t finished = atomic_load(&e->finished);
    uint32_t n_units = atomic_load(&e->n_units);
    while (finished >> 24 == (serial << 24) >> 24)
        if (atomic_compare_exchange_weak(&e->finished, &finished, finished + 1))
            return ((finished + 1) & COUNT_MASK) >= n_units;
    return false;
}

#endif
