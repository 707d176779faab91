/*
 * The threads of a process, started when the first loader opens and shared by all. Each picks the loader that has had
 * the least time for its weight (start-time fair queueing: a loader that wakes up begins at the present, so that
 * idleness earns nothing), takes a task of it, runs it without the lock, and books the time.
 *
 *     active: loaders that may have work     a thread that finds none for a loader takes it off the list;
 *     idle threads sleep in `work`           leat_engine_activate puts it back and wakes one thread, which wakes the
 * next
 *
 * So a thousand idle loaders cost nothing. Threads block all signals but those that their own faults raise (a mapped
 * file that was cut raises SIGBUS in the thread that reads it).
 */
#include "engine/engine.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/log.h"

#define TRIM_AFTER_NS INT64_C(1000000000)
#define EXIT_WAIT_S 2

struct leat_engine leat_engine = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;

void leat_engine_lock(void)
{
    pthread_mutex_lock(&leat_engine.lock);
}

void leat_engine_unlock(void)
{
    pthread_mutex_unlock(&leat_engine.lock);
}

static void init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* The child has none of the parent's threads and must not touch its loaders: it gets an engine as at process start. The
 * parent's loaders stay in memory, marked by their generation, because tensors over their regions may still be read. */
static void reset_in_child(void)
{
    struct leat_engine *e = &leat_engine;
    pthread_mutex_init(&e->lock, NULL);
    init_condition(&e->work);
    e->n_threads = e->idle = 0;
    e->loaders = e->active = NULL;
    e->used = 0;
    e->stopping = e->trim_due = e->trimming = false;
    atomic_fetch_add_explicit(&e->generation, 1, memory_order_relaxed);
}

/* Threads must not outlive the code and data that they use. A task that is stuck is given two seconds: then the process
 * ends with it. */
static void stop_at_exit(void)
{
    struct leat_engine *e = &leat_engine;
    leat_engine_lock();
    e->stopping = true;
    pthread_cond_broadcast(&e->work);
    for (struct leat_loader *l = e->loaders; l; l = l->next)
        leat_engine_notify(l);
    unsigned n = e->n_threads;
    leat_engine_unlock();
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += EXIT_WAIT_S;
    for (unsigned i = 0; i < n; i++)
        if (pthread_timedjoin_np(e->threads[i], NULL, &deadline))
            return;
    e->n_threads = 0;
    leat_free(e->threads);
    e->threads = NULL;
}

static void start_once(void)
{
    init_condition(&leat_engine.work);
    pthread_atfork(leat_engine_lock, leat_engine_unlock, reset_in_child);
    atexit(stop_at_exit);
}

int leat_engine_prepare(struct leat_error *error)
{
    pthread_once(&once, start_once);
    if (leat_engine.stopping)
        return leat_fail(error, LEAT_E_CLOSED, "the process is ending: no loader can be used");
    leat_engine.allowed = leat_memory_allowed() / 2;
    return LEAT_OK;
}

static struct leat_loader *pick(void)
{
    struct leat_loader *best = NULL;
    for (struct leat_loader *l = leat_engine.active; l; l = l->active_next)
        if (l->working < l->num_threads && !l->paused && (!best || l->vtime < best->vtime))
            best = l;
    if (best && best->vtime > leat_engine.vclock)
        leat_engine.vclock = best->vtime;
    return best;
}

static void deadline_after(int64_t ns, struct timespec *out)
{
    clock_gettime(CLOCK_MONOTONIC, out);
    out->tv_sec += (time_t)(ns / 1000000000);
    out->tv_nsec += (long)(ns % 1000000000);
    if (out->tv_nsec >= 1000000000) {
        out->tv_sec++;
        out->tv_nsec -= 1000000000;
    }
}

/* One idle thread waits with a time limit after work has been done: when nothing has happened for a while, loaders that
 * nobody asks give their free pages back. Then it sleeps like the others. */
static void sleep_until_work(void)
{
    struct leat_engine *e = &leat_engine;
    e->idle++;
    if (!e->trim_due || e->trimming) {
        pthread_cond_wait(&e->work, &e->lock);
    } else {
        struct timespec deadline;
        deadline_after(TRIM_AFTER_NS, &deadline);
        e->trimming = true;
        if (pthread_cond_timedwait(&e->work, &e->lock, &deadline) == ETIMEDOUT) {
            e->trim_due = false;
            int64_t now = leat_clock_ns();
            for (struct leat_loader *l = e->loaders; l; l = l->next) {
                if (now - l->last_next_ns >= TRIM_AFTER_NS)
                    leat_region_trim(&l->region);
                else
                    e->trim_due |= l->region.dirty > 0;
            }
        }
        e->trimming = false;
    }
    e->idle--;
}

static void *work(void *unused)
{
    struct leat_engine *e = &leat_engine;
    leat_engine_lock();
    while (!e->stopping) {
        struct leat_loader *l = pick();
        if (!l) {
            sleep_until_work();
            continue;
        }
        struct leat_task *task = leat_task_take(l, true);
        if (!task) {
            leat_engine_deactivate(l);
            continue;
        }
        e->trim_due = true;
        l->working++;
        if (e->idle && (l->working < l->num_threads || l->active_next || l->active_previous))
            pthread_cond_signal(&e->work);
        leat_engine_unlock();
        leat_task_run(task);
        leat_engine_lock();
        l->working--;
        leat_task_finish(task);
    }
    leat_engine_unlock();
    return unused;
}

static int start_thread(struct leat_error *error)
{
    struct leat_engine *e = &leat_engine;
    if (e->n_threads == e->room) {
        unsigned room = e->room ? 2 * e->room : 16;
        pthread_t *grown = leat_realloc_array(e->threads, room, sizeof *grown);
        if (!grown)
            return leat_fail(error, LEAT_E_NOMEM, "no memory for a list of threads");
        e->threads = grown;
        e->room = room;
    }
    sigset_t blocked, before;
    sigfillset(&blocked);
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before); /* a thread begins with the mask of its maker */
    int rc = pthread_create(&e->threads[e->n_threads], NULL, work, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        errno = rc;
        return leat_fail_errno(error, LEAT_E_NOMEM, "cannot start a thread");
    }
    char name[16];
    snprintf(name, sizeof name, "leat-%u", e->n_threads % 100000);
    pthread_setname_np(e->threads[e->n_threads], name);
    e->n_threads++;
    return LEAT_OK;
}

int leat_engine_grow(unsigned n, struct leat_error *error)
{
    while (leat_engine.n_threads < n) {
        int rc = start_thread(error);
        if (rc && leat_engine.n_threads) {
            leat_log(LEAT_LOG_WARNING, "only %u of %u threads could be started", leat_engine.n_threads, n);
            break;
        }
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

void leat_engine_add(struct leat_loader *l)
{
    struct leat_engine *e = &leat_engine;
    init_condition(&l->changed);
    l->next = e->loaders;
    l->previous = NULL;
    if (e->loaders)
        e->loaders->previous = l;
    e->loaders = l;
}

void leat_engine_remove(struct leat_loader *l)
{
    leat_engine_deactivate(l);
    if (l->next)
        l->next->previous = l->previous;
    if (l->previous)
        l->previous->next = l->next;
    else
        leat_engine.loaders = l->next;
    l->next = l->previous = NULL;
}

void leat_engine_activate(struct leat_loader *l)
{
    struct leat_engine *e = &leat_engine;
    if (!l->in_active && !l->closed) {
        l->in_active = true;
        l->active_previous = NULL;
        l->active_next = e->active;
        if (e->active)
            e->active->active_previous = l;
        e->active = l;
        if (l->vtime < e->vclock)
            l->vtime = e->vclock;
    }
    if (e->idle)
        pthread_cond_signal(&e->work);
}

void leat_engine_deactivate(struct leat_loader *l)
{
    if (!l->in_active)
        return;
    l->in_active = false;
    if (l->active_next)
        l->active_next->active_previous = l->active_previous;
    if (l->active_previous)
        l->active_previous->active_next = l->active_next;
    else
        leat_engine.active = l->active_next;
    l->active_next = l->active_previous = NULL;
}

bool leat_engine_wait(struct leat_loader *l, int64_t deadline_ns)
{
    int rc;
    l->waiting++;
    if (deadline_ns == INT64_MAX) {
        rc = pthread_cond_wait(&l->changed, &leat_engine.lock);
    } else {
        struct timespec deadline = {(time_t)(deadline_ns / 1000000000), (long)(deadline_ns % 1000000000)};
        rc = pthread_cond_timedwait(&l->changed, &leat_engine.lock, &deadline);
    }
    l->waiting--;
    return rc != ETIMEDOUT;
}

void leat_engine_notify(struct leat_loader *l)
{
    if (l->waiting)
        pthread_cond_broadcast(&l->changed);
}
