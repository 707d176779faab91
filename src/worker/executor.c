/*
 * An executor of the engine's calls (engine/executor.h) over a board: each call is a batch there, whose units workers
 * take.
 *
 *     start -> queue -> published -> complete -> leat_call_done
 *                ^          |   \-> cancelled: as soon as nothing of it runs
 *                +-- withdrawn: a function ends workers
 *
 * If a function ends workers, only the earliest call goes on, and others one at a time until one ends no worker: the
 * row at fault shows after few deaths. If nobody asks for batches, none goes on.
 *
 * One mutex protects it all, the board's parent side included; it is never held when the engine is called. The engine
 * calls `start` and `cancel` without its own lock.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/executor.h"
#include "worker/worker.h"

#define SLICE_MS 50 /* without news for so long while workers compute: one may be dead */
#define IDLE_MS 1000

struct flight {
    struct leat_call *call;
    struct leat_slot *payload;
    uint64_t serial; /* on the board */
    bool cancelled, withdrawn;
    bool died;                    /* a worker, since it was published */
    struct leat_call_work *works; /* the work of workers on it, while there is a trace */
    size_t n_works, room;
    struct flight *next;
};

/* The name of functions in a trace: of a segment, or of one output of it. */
struct name {
    uint64_t segment, unit;
    char *text;
};

struct board_executor {
    struct leat_executor face;
    pid_t pid; /* in a forked child its calls are the parent's, and its lock may be held for ever */
    pthread_mutex_t lock;
    struct leat_board *board;
    struct flight *published, *queue, **queue_end; /* on the board; waiting for a place there */
    uint64_t n_published;
    unsigned asked;
    bool withdrawn; /* nothing is published before somebody asks */
    bool careful;   /* one call at a time */
    bool closed;
    char *broken;
    _Atomic uint64_t run; /* rows of a unit, as the board has learned */
    struct leat_executor_stats stats;
    struct name *names;
    size_t n_names, names_room;
};

static struct board_executor *of(struct leat_executor *e)
{
    return (struct board_executor *)(void *)e;
}

/* ---- publishing: under the lock -------------------------------------------------------------- */

static uint8_t *put(uint8_t *to, const void *from, uint64_t bytes)
{
    memcpy(to, from, bytes);
    return to + bytes;
}

static uint8_t *flags_of(const struct flight *f)
{
    const struct leat_call *c = f->call;
    return (uint8_t *)leat_slot_data(f->payload) + sizeof(struct leat_worker_call) + 16 * c->n_areas + 32 * c->n;
}

/* The items that workers take one by one: rows, or outputs. */
static uint64_t takes(const struct leat_call *c)
{
    return c->units ? c->units : c->n;
}

static uint64_t payload_bytes(const struct leat_call *c)
{
    return sizeof(struct leat_worker_call) + 16 * c->n_areas + 32 * c->n + takes(c);
}

static void write_payload(const struct flight *f)
{
    const struct leat_call *c = f->call;
    const struct leat_worker_call head = {c->n, c->batch_rows, c->n_areas, c->epoch, c->step, c->segment};
    uint8_t *at = put(leat_slot_data(f->payload), &head, sizeof head);
    for (uint64_t i = 0; i < c->n_areas; i++) {
        const uint64_t area[] = {c->areas[i].offset, c->areas[i].values};
        at = put(at, area, sizeof area);
    }
    at = put(at, c->places, 8 * c->n);
    at = put(at, c->keys, 8 * c->n);
    at = put(at, c->draws, 8 * c->n);
    at = put(at, c->ids, 8 * c->n);
    memset(at, 0, takes(c));
}

static void unlink_flight(struct board_executor *e, struct flight *f)
{
    struct flight **p = &e->published;
    while (*p != f)
        p = &(*p)->next;
    *p = f->next;
    f->next = NULL;
    e->n_published--;
}

static bool is_earlier(const struct flight *a, const struct flight *b)
{
    const struct leat_call *x = a->call, *y = b->call;
    return x->epoch != y->epoch ? x->epoch < y->epoch : x->step < y->step;
}

/* By the order of their batches: one that is tried again is before later ones. */
static void enqueue(struct board_executor *e, struct flight *f)
{
    struct flight **p = &e->queue;
    while (*p && !is_earlier(f, *p))
        p = &(*p)->next;
    f->next = *p;
    *p = f;
    if (!f->next)
        e->queue_end = &f->next;
}

static struct flight *dequeue(struct board_executor *e)
{
    struct flight *f = e->queue;
    e->queue = f->next;
    if (!e->queue)
        e->queue_end = &e->queue;
    f->next = NULL;
    return f;
}

/* Puts calls on the board, as far as it has place; those that cannot be are added to `done`. */
static void publish(struct board_executor *e, struct flight **done)
{
    while (e->queue && e->board && !e->withdrawn && !e->closed && !(e->careful && e->published)) {
        struct flight *f = e->queue;
        struct leat_error error = {0};
        const struct leat_call *c = f->call;
        const uint64_t serial = leat_board_next(e->board);
        if (!serial && !e->broken)
            return;
        int rc = e->broken ? leat_fail(&error, LEAT_E_IO, "%s", e->broken) : LEAT_OK;
        if (!rc && !f->payload && !(rc = leat_slot_new(payload_bytes(c), &f->payload, &error)))
            write_payload(f); /* once: of a call that was withdrawn, rows may have been given up */
        if (!rc) {
            struct leat_board_batch batch = {.serial = serial,
                                             .rows = (uint32_t)takes(c),
                                             .run = c->units ? 1 : 0,
                                             .owner = -1,
                                             .layout = 1,
                                             .kind = LEAT_WORKER_CALL,
                                             .payload = leat_slot_offset(f->payload),
                                             .payload_bytes = payload_bytes(c)};
            rc = leat_board_publish(e->board, &batch, &error);
        }
        dequeue(e);
        if (rc) {
            leat_call_row_failed(f->call, LEAT_WHOLE_CALL, rc, error.message);
            f->next = *done;
            *done = f;
            continue;
        }
        f->serial = serial;
        f->withdrawn = f->died = false;
        f->next = e->published;
        e->published = f;
        if (!e->n_published++)
            leat_board_wake(e->board); /* the attending thread looks more often now */
    }
}

/* ---- the trace ------------------------------------------------------------------------------- */

static const char *name_of(const struct board_executor *e, const struct leat_call *call, uint64_t unit)
{
    for (size_t i = 0; i < e->n_names; i++)
        if (e->names[i].segment == call->segment && (!call->units || e->names[i].unit == unit))
            return e->names[i].text;
    return NULL;
}

/* Notes the work of workers on a call that is on the board: the units that they have ended; or, if one is dead, its
 * last unit. Notes that there is no memory for are left out. */
static void note_work(const struct board_executor *e, struct flight *f, int64_t dead_worker)
{
    struct leat_board_work w;
    if (!leat_call_is_traced(f->call))
        return;
    for (uint32_t u = 0; u < leat_board_units(e->board, f->serial); u++) {
        if (!leat_board_work(e->board, f->serial, u, &w) || (dead_worker < 0) != (w.ended_ns != 0) ||
            (dead_worker >= 0 && w.worker != dead_worker) ||
            !leat_grow(&f->works, &f->room, f->n_works + 1, sizeof *f->works))
            continue;
        f->works[f->n_works++] = (struct leat_call_work){.idle_ns = w.idle_ns,
                                                         .begin_ns = w.begun_ns,
                                                         .end_ns = dead_worker < 0 ? w.ended_ns : leat_clock_ns(),
                                                         .first = w.first,
                                                         .n = w.n,
                                                         .name = name_of(e, f->call, w.first),
                                                         .worker = w.worker,
                                                         .process = w.process,
                                                         .thread = w.thread,
                                                         .died = dead_worker >= 0};
    }
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void end(struct flight *f)
{
    struct leat_call *call = f->call;
    if (f->n_works)
        leat_call_worked(call, f->works, f->n_works);
    leat_free(f->works);
    leat_slot_release(f->payload);
    leat_free(f);
    leat_call_done(call);
}

/* Lets go of the lock, and ends calls that are done. */
static void leave(struct board_executor *e, struct flight *done)
{
    pthread_mutex_unlock(&e->lock);
    for (struct flight *f; (f = done);) {
        done = f->next;
        end(f);
    }
}

/* Takes complete calls off the board, and goes on with the waiting ones. */
static void settle(struct board_executor *e, struct flight **done)
{
    for (struct flight *f = e->published, *next; f; f = next) {
        next = f->next;
        if (!leat_board_complete(e->board, f->serial))
            continue;
        if (!f->cancelled && !f->withdrawn) {
            e->careful &= f->died;
            e->stats.rows += f->call->n;
            e->stats.work_ns += leat_board_spent_ns(e->board, f->serial);
        }
        note_work(e, f, -1);
        leat_board_retire(e->board, f->serial);
        atomic_store_explicit(&e->run, leat_board_run(e->board), memory_order_relaxed);
        unlink_flight(e, f);
        if (f->withdrawn && !f->cancelled) {
            enqueue(e, f);
        } else {
            f->next = *done;
            *done = f;
        }
    }
    publish(e, done);
}

/* ---- the engine's side ----------------------------------------------------------------------- */

static void start(struct leat_executor *face, struct leat_call *call)
{
    struct board_executor *e = of(face);
    struct flight *f = leat_new(struct flight), *done = NULL;
    if (!f || call->n > UINT32_MAX) {
        leat_free(f);
        leat_call_row_failed(call, LEAT_WHOLE_CALL, LEAT_E_NOMEM, "no memory for a call of functions");
        leat_call_done(call);
        return;
    }
    f->call = call;
    call->handle = f;
    pthread_mutex_lock(&e->lock);
    enqueue(e, f);
    publish(e, &done);
    leave(e, done);
}

static void cancel(struct leat_executor *face, struct leat_call *call)
{
    struct board_executor *e = of(face);
    struct flight *done = NULL;
    pthread_mutex_lock(&e->lock);
    for (struct flight **p = &e->queue; *p; p = &(*p)->next)
        if ((*p)->call == call) {
            done = *p;
            *p = done->next;
            e->queue_end = *p ? e->queue_end : p;
            done->next = NULL;
            leave(e, done);
            return;
        }
    for (struct flight *f = e->published; f; f = f->next)
        if (f->call == call) {
            f->cancelled = true;
            leat_board_cancel(e->board, f->serial);
        }
    settle(e, &done);
    leave(e, done);
}

static uint64_t run(struct leat_executor *face)
{
    return atomic_load_explicit(&of(face)->run, memory_order_relaxed);
}

/* ---- the client's side ----------------------------------------------------------------------- */

int leat_executor_new(struct leat_executor **out, struct leat_error *error)
{
    *out = NULL;
    struct board_executor *e = leat_new(struct board_executor);
    if (!e)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for an executor");
    e->face = (struct leat_executor){start, cancel, run};
    e->queue_end = &e->queue;
    atomic_init(&e->run, 1);
    e->pid = getpid();
    pthread_mutex_init(&e->lock, NULL);
    *out = &e->face;
    return LEAT_OK;
}

int leat_executor_name(struct leat_executor *face, uint64_t segment, uint64_t unit, const char *name,
                       struct leat_error *error)
{
    struct board_executor *e = of(face);
    char *text = leat_strdup(name);
    if (!text || !leat_grow(&e->names, &e->names_room, e->n_names + 1, sizeof *e->names)) {
        leat_free(text);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the names of functions");
    }
    e->names[e->n_names++] = (struct name){segment, unit, text};
    return LEAT_OK;
}

void leat_executor_attach(struct leat_executor *face, struct leat_board *board)
{
    struct board_executor *e = of(face);
    struct flight *done = NULL;
    pthread_mutex_lock(&e->lock);
    e->board = board;
    publish(e, &done);
    leave(e, done);
}

enum leat_executor_event leat_executor_wait(struct leat_executor *face, uint32_t received)
{
    struct board_executor *e = of(face);
    for (;;) {
        struct flight *done = NULL;
        pthread_mutex_lock(&e->lock);
        uint32_t seen = leat_board_seen(e->board);
        settle(e, &done);
        bool closed = e->closed, busy = e->n_published;
        leave(e, done);
        if (closed)
            return LEAT_EXECUTOR_CLOSED;
        if (leat_pool_messages(leat_board_pool(e->board)) != received)
            return LEAT_EXECUTOR_MESSAGE;
        leat_board_wait(e->board, seen, busy ? SLICE_MS : IDLE_MS);
        if (leat_board_seen(e->board) == seen)
            return LEAT_EXECUTOR_SILENT;
    }
}

static struct flight *find(const struct board_executor *e, uint64_t serial)
{
    struct flight *f = e->published;
    while (f && f->serial != serial)
        f = f->next;
    return f;
}

void leat_executor_row_failed(struct leat_executor *face, uint64_t serial, uint64_t i, int code, const char *reason)
{
    struct board_executor *e = of(face);
    pthread_mutex_lock(&e->lock);
    struct flight *f = find(e, serial);
    if (f && i < takes(f->call))
        leat_call_row_failed(f->call, i, code, reason);
    pthread_mutex_unlock(&e->lock);
}

void leat_executor_results(struct leat_executor *face, uint64_t serial, const struct leat_worker_result *results,
                           uint64_t n, const uint8_t *bytes, uint64_t n_bytes)
{
    struct board_executor *e = of(face);
    pthread_mutex_lock(&e->lock);
    struct flight *f = find(e, serial);
    for (uint64_t k = 0, at = 0; f && k < n && results[k].bytes <= n_bytes - at; at += results[k++].bytes)
        leat_call_result(f->call, results[k].row, results[k].output, bytes + at, results[k].bytes);
    pthread_mutex_unlock(&e->lock);
}

void leat_executor_received(struct leat_executor *face, uint64_t serial, uint32_t unit, int64_t spent_ns)
{
    struct board_executor *e = of(face);
    pthread_mutex_lock(&e->lock);
    leat_board_received(e->board, serial, unit, spent_ns);
    pthread_mutex_unlock(&e->lock);
}

/* ---- workers that die ------------------------------------------------------------------------ */

/* Workers do not compute rows again that have ended too many of them. */
static void gone(void *user, uint64_t serial, uint32_t row)
{
    struct board_executor *e = user;
    const struct flight *f = find(e, serial);
    if (!f)
        return;
    if (f->call->raises) /* the first that fails is named */
        memset(flags_of(f) + row, LEAT_WORKER_UNWANTED, takes(f->call) - row);
    flags_of(f)[row] = LEAT_WORKER_GONE;
}

/* Takes calls back from workers that they may end: all but the earliest, or that too if nobody asks for it. A complete
 * call ends no worker. */
static void withdraw(struct board_executor *e)
{
    const struct flight *earliest = e->published;
    e->careful = true;
    e->withdrawn |= !e->asked;
    for (const struct flight *f = e->published; f; f = f->next)
        earliest = is_earlier(f, earliest) ? f : earliest;
    for (struct flight *f = e->published; f; f = f->next) {
        f->died = true;
        if ((f == earliest && !e->withdrawn) || leat_board_complete(e->board, f->serial))
            continue;
        f->withdrawn = true;
        leat_board_cancel(e->board, f->serial);
    }
}

void leat_executor_worker_died(struct leat_executor *face, unsigned worker)
{
    struct board_executor *e = of(face);
    struct flight *done = NULL;
    struct leat_pool_worker at;
    pthread_mutex_lock(&e->lock);
    for (struct flight *f = e->published; f; f = f->next)
        note_work(e, f, worker);
    leat_pool_worker(leat_board_pool(e->board), worker, &at);
    if (at.serial && at.board == leat_board_offset(e->board))
        withdraw(e);
    leat_board_requeue(e->board, worker, gone, e);
    settle(e, &done);
    leave(e, done);
}

void leat_executor_ask(struct leat_executor *face, bool begins)
{
    struct board_executor *e = of(face);
    struct flight *done = NULL;
    pthread_mutex_lock(&e->lock);
    e->asked += begins ? 1 : -1u;
    if (begins && e->withdrawn) {
        e->withdrawn = false;
        publish(e, &done);
    }
    leave(e, done);
}

void leat_executor_break(struct leat_executor *face, const char *reason)
{
    struct board_executor *e = of(face);
    struct flight *done = NULL;
    pthread_mutex_lock(&e->lock);
    if (!e->broken)
        e->broken = leat_strdup(reason);
    for (struct flight *f = e->published; f; f = f->next) {
        leat_call_row_failed(f->call, LEAT_WHOLE_CALL, LEAT_E_IO, reason);
        f->cancelled = true;
        leat_board_cancel(e->board, f->serial);
    }
    settle(e, &done);
    leave(e, done);
}

/* ---- the end --------------------------------------------------------------------------------- */

void leat_executor_close(struct leat_executor *face)
{
    struct board_executor *e = of(face);
    pthread_mutex_lock(&e->lock);
    e->closed = true;
    if (e->board) {
        leat_board_close(e->board);
        leat_board_wake(e->board);
    }
    pthread_mutex_unlock(&e->lock);
}

void leat_executor_finish(struct leat_executor *face)
{
    struct board_executor *e = of(face);
    struct flight *done;
    if (e->pid != getpid())
        return;
    pthread_mutex_lock(&e->lock);
    *e->queue_end = e->published;
    done = e->queue;
    e->queue = e->published = NULL;
    e->queue_end = &e->queue;
    e->n_published = 0;
    leave(e, done);
}

void leat_executor_free(struct leat_executor *face)
{
    if (!face || of(face)->pid != getpid())
        return;
    leat_executor_finish(face);
    pthread_mutex_destroy(&of(face)->lock);
    leat_free(of(face)->broken);
    for (size_t i = 0; i < of(face)->n_names; i++)
        leat_free(of(face)->names[i].text);
    leat_free(of(face)->names);
    leat_free(of(face));
}

void leat_executor_stats(struct leat_executor *face, struct leat_executor_stats *out)
{
    struct board_executor *e = of(face);
    pthread_mutex_lock(&e->lock);
    *out = e->stats;
    out->in_flight = e->n_published;
    pthread_mutex_unlock(&e->lock);
}
