/*
 * Gathering on the processor. The time goes into waiting for memory, so rows are asked for some time before they are
 * copied, and each thread has many on their way. A thread takes a run of ids, looks at them all first, and copies then:
 * of several ids that name no row the first one is said, whichever thread met it.
 */
#include "device/gather.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "device/threads.h"
#include "io/guard.h"
#include "kernels/values.h"

enum {
    MOST_THREADS = 64,
    /* Bytes for which one more thread is worth its wake-up (Sapphire Rapids: half as many are slower), and those that
     * take as long as the beginning of a row does: 64 B and 4,096 B, each 1 MiB, take 600 us and 150 us. */
    BYTES_A_THREAD = 1 << 20,
    BYTES_A_ROW = 200,
    /* Rows that are on their way from memory, and bytes at the begin of each that are asked for. The processor sees by
     * itself what follows. */
    ROWS_AHEAD = 12,
    BYTES_AHEAD = 512,
    IDS_TOGETHER = 256, /* that are looked at before one is looked for */
    LINE = 64
};

struct shared {
    const struct leat_gather *gather;
    uint64_t parts;
    _Atomic uint64_t next; /* part */
    _Atomic uint64_t bad;  /* the first id that names no row; UINT64_MAX: none */
    pthread_mutex_t lock;  /* of rc and error */
    int rc;
    struct leat_error error;
    int (*work)(void *part);
};

struct part {
    struct shared *shared;
    uint64_t begin, end;
};

/* Ids may be written to meanwhile: each is read once, and checked before it is used. */
static inline uint64_t id_at(const struct leat_gather *g, uint64_t i)
{
    return g->wide ? (uint64_t)__atomic_load_n((const int64_t *)g->ids + i, __ATOMIC_RELAXED)
                   : (uint64_t)__atomic_load_n((const int32_t *)g->ids + i, __ATOMIC_RELAXED);
}

static void tell_bad(struct shared *s, uint64_t i)
{
    uint64_t known = atomic_load(&s->bad);
    while (i < known && !atomic_compare_exchange_weak(&s->bad, &known, i))
        ;
}

static void check_ids(struct shared *s, uint64_t begin, uint64_t end)
{
    for (uint64_t run; begin < end; begin += run) {
        bool bad = false;
        run = end - begin < IDS_TOGETHER ? end - begin : IDS_TOGETHER;
        for (uint64_t i = begin; i < begin + run; i++)
            bad |= id_at(s->gather, i) >= s->gather->count;
        for (uint64_t i = begin; bad && i < begin + run; i++)
            if (id_at(s->gather, i) >= s->gather->count) {
                tell_bad(s, i);
                return;
            }
    }
}

static inline void ask_for(const uint8_t *row, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += LINE)
        __builtin_prefetch(row + at);
}

/* Rows of a size that is constant in each caller. */
static inline __attribute__((always_inline)) void copy_rows(struct shared *s, uint64_t begin, uint64_t end,
                                                            uint64_t bytes, uint64_t made)
{
    const struct leat_gather *g = s->gather;
    const uint64_t ahead = bytes < BYTES_AHEAD ? bytes : BYTES_AHEAD;
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t next = i + ROWS_AHEAD < end ? id_at(g, i + ROWS_AHEAD) : UINT64_MAX, id = id_at(g, i);
        if (next < g->count)
            ask_for(g->table + next * bytes, ahead);
        if (id >= g->count) {
            tell_bad(s, i);
            return;
        }
        const uint8_t *row = g->table + id * bytes;
        if (g->as == g->from)
            memcpy(g->out + i * made, row, bytes);
        else
            leat_values_convert(g->from, g->as, row, g->out + i * made, g->width);
    }
}

static int gather_part(void *arg)
{
    const struct part *p = arg;
    const struct leat_gather *g = p->shared->gather;
    const uint64_t bytes = g->width * leat_dtype_size(g->from), made = g->width * leat_dtype_size(g->as);
    if (!bytes)
        check_ids(p->shared, p->begin, p->end);
    else if (g->as == g->from && bytes == 8)
        copy_rows(p->shared, p->begin, p->end, 8, 8);
    else if (g->as == g->from && bytes == 4)
        copy_rows(p->shared, p->begin, p->end, 4, 4);
    else
        copy_rows(p->shared, p->begin, p->end, bytes, made);
    return LEAT_OK;
}

static void work(void *arg)
{
    struct shared *s = arg;
    struct leat_error error;
    const uint64_t n = s->gather->n;
    for (uint64_t at; (at = atomic_fetch_add(&s->next, 1)) < s->parts;) {
        struct part part = {s, n / s->parts * at + (n % s->parts < at ? n % s->parts : at), 0};
        part.end = part.begin + n / s->parts + (at < n % s->parts);
        const int rc = leat_guarded(s->work, &part, &error);
        if (!rc)
            continue;
        pthread_mutex_lock(&s->lock);
        s->rc = rc;
        s->error = error;
        pthread_mutex_unlock(&s->lock);
    }
}

/* Runs `work` over the parts, on as many threads as `bytes` are worth. */
static int run(struct shared *s, uint64_t bytes, struct leat_error *error)
{
    uint64_t most = bytes / BYTES_A_THREAD;
    most = most < s->gather->num_threads ? most : s->gather->num_threads;
    most = most < MOST_THREADS ? most : MOST_THREADS;
    s->parts = most > 1 ? 4 * most : 1; /* a thread that comes late takes fewer */
    pthread_mutex_init(&s->lock, NULL);
    leat_threads_run(most > 1 ? (unsigned)most - 1 : 0, work, s);
    pthread_mutex_destroy(&s->lock);
    if (s->rc && error)
        *error = s->error;
    return s->rc;
}

static int fail_if_bad(const struct shared *s, struct leat_error *error)
{
    const uint64_t bad = atomic_load(&s->bad);
    if (bad == UINT64_MAX)
        return LEAT_OK;
    return leat_fail(error, LEAT_E_RANGE,
                     "id %" PRId64 " (number %" PRIu64 " of the call) is not among the %" PRIu64 " rows",
                     (int64_t)id_at(s->gather, bad), bad, s->gather->count);
}

int leat_gather(const struct leat_gather *g, struct leat_error *error)
{
    struct shared s = {.gather = g, .bad = UINT64_MAX, .work = gather_part};
    const uint64_t made = g->width * leat_dtype_size(g->as);
    const int rc = run(&s, made ? g->n * (made + BYTES_A_ROW) : 0, error);
    return rc ? rc : fail_if_bad(&s, error);
}

int leat_gather_look(const struct leat_gather *g, uint64_t begin, uint64_t end, struct leat_error *error)
{
    struct shared s = {.gather = g, .bad = UINT64_MAX};
    check_ids(&s, begin, end);
    return fail_if_bad(&s, error);
}

/* `out` and `table`: bytes, of which a part is a run. */
static int copy_part(void *arg)
{
    const struct part *p = arg;
    const struct leat_gather *g = p->shared->gather;
    memcpy(g->out + p->begin, g->table + p->begin, p->end - p->begin);
    return LEAT_OK;
}

int leat_gather_copy(void *to, const void *from, uint64_t bytes, unsigned num_threads, struct leat_error *error)
{
    const struct leat_gather copy = {.table = from, .out = to, .n = bytes, .num_threads = num_threads};
    struct shared s = {.gather = &copy, .bad = UINT64_MAX, .work = copy_part};
    return bytes ? run(&s, bytes, error) : LEAT_OK;
}
