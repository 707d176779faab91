/*
 * Threads and fairness. Each thread picks the client that has had the least time for its weight (start-time fair
 * queueing: a client that wakes up begins at the present, so that idleness earns nothing), takes a task of it, and runs
 * it without the lock. So a thousand idle loaders cost nothing. Threads block all signals but those that their own
 * faults raise (a mapped file that was cut raises SIGBUS in the thread that reads it).
 */
#include "engine/scheduler.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "engine/budget.h"
#include "engine/page.h"

#define REST_AFTER_NS INT64_C(1000000000)
#define EXIT_WAIT_S 2

struct leat_scheduler leat_scheduler = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;

void leat_engine_lock(void)
{
    pthread_mutex_lock(&leat_scheduler.lock);
}

void leat_engine_unlock(void)
{
    pthread_mutex_unlock(&leat_scheduler.lock);
}

/* ---- waiting --------------------------------------------------------------------------------- */

void leat_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool leat_condition_wait(pthread_cond_t *condition, int64_t deadline_ns)
{
    if (deadline_ns == INT64_MAX)
        return pthread_cond_wait(condition, &leat_scheduler.lock) != ETIMEDOUT;
    struct timespec deadline = {(time_t)(deadline_ns / 1000000000), (long)(deadline_ns % 1000000000)};
    return pthread_cond_timedwait(condition, &leat_scheduler.lock, &deadline) != ETIMEDOUT;
}

/* ---- timers ---------------------------------------------------------------------------------- */

void leat_timer_start(struct leat_timer *timer)
{
    struct leat_timer **p = &leat_scheduler.timers;
    while (*p && (*p)->due_ns <= timer->due_ns)
        p = &(*p)->next;
    timer->next = *p;
    *p = timer;
    if (leat_scheduler.idle)
        pthread_cond_signal(&leat_scheduler.work); /* it sleeps no longer than until then */
}

void leat_timer_stop(struct leat_timer *timer)
{
    struct leat_timer **p = &leat_scheduler.timers;
    while (*p && *p != timer)
        p = &(*p)->next;
    if (*p)
        *p = timer->next;
}

static void fire_timers(void)
{
    for (struct leat_timer *t; (t = leat_scheduler.timers) && t->due_ns <= leat_clock_ns();) {
        leat_scheduler.timers = t->next;
        t->fire(t);
    }
}

/* Idle threads sleep until there is work, or a timer is due. One of them wakes up some time after the last work was
 * done, to see that clients rest. */
static void sleep_until_work(void)
{
    struct leat_scheduler *s = &leat_scheduler;
    bool rests = s->rest_due && !s->resting;
    int64_t rest_ns = rests ? leat_clock_ns() + REST_AFTER_NS : INT64_MAX;
    int64_t timer_ns = s->timers ? s->timers->due_ns : INT64_MAX;
    s->idle++;
    s->resting |= rests;
    if (!leat_condition_wait(&s->work, rest_ns < timer_ns ? rest_ns : timer_ns) && rests && rest_ns <= timer_ns) {
        int64_t now = leat_clock_ns();
        s->rest_due = false;
        for (struct leat_client *c = s->clients; c; c = c->next)
            s->rest_due |= c->functions->rest(c, now);
    }
    s->resting &= !rests;
    s->idle--;
}

/* ---- fork and exit --------------------------------------------------------------------------- */

/* The child has none of the parent's threads and must not touch its loaders: it gets an engine as at process start. The
 * parent's loaders stay in memory, marked by their generation, because tensors over their regions may still be read. */
static void reset_in_child(void)
{
    struct leat_scheduler *s = &leat_scheduler;
    pthread_mutex_init(&s->lock, NULL);
    leat_condition_init(&s->work);
    s->n_threads = s->idle = 0;
    s->clients = s->active = NULL;
    s->timers = NULL;
    s->stopping = s->rest_due = s->resting = false;
    leat_ledger_forget(LEAT_OF_LOADERS);
    leat_ledger_forget(LEAT_OF_PHOTOS);
    leat_page_forget();
    atomic_fetch_add_explicit(&s->generation, 1, memory_order_relaxed);
}

/* Threads must not outlive the code and data that they use. A task that is stuck is given two seconds: then the process
 * ends with it. */
static void stop_at_exit(void)
{
    struct leat_scheduler *s = &leat_scheduler;
    leat_engine_lock();
    s->stopping = true;
    pthread_cond_broadcast(&s->work);
    for (struct leat_client *c = s->clients; c; c = c->next)
        c->functions->stop(c);
    unsigned n = s->n_threads;
    leat_engine_unlock();
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += EXIT_WAIT_S;
    for (unsigned i = 0; i < n; i++)
        if (pthread_timedjoin_np(s->threads[i], NULL, &deadline))
            return;
    s->n_threads = 0;
    leat_free(s->threads);
    s->threads = NULL;
}

static void start_once(void)
{
    leat_condition_init(&leat_scheduler.work);
    pthread_atfork(leat_engine_lock, leat_engine_unlock, reset_in_child);
    atexit(stop_at_exit);
}

/* ---- threads --------------------------------------------------------------------------------- */

static struct leat_client *pick(void)
{
    struct leat_client *best = NULL;
    for (struct leat_client *c = leat_scheduler.active; c; c = c->active_next)
        if (c->working < c->max_threads && !c->paused && (!best || c->vtime < best->vtime))
            best = c;
    if (best && best->vtime > leat_scheduler.vclock)
        leat_scheduler.vclock = best->vtime;
    return best;
}

static void *work(void *unused)
{
    struct leat_scheduler *s = &leat_scheduler;
    leat_engine_lock();
    while (!s->stopping) {
        if (s->timers)
            fire_timers();
        struct leat_client *c = pick();
        if (!c) {
            sleep_until_work();
            continue;
        }
        const struct leat_client_functions *functions = c->functions;
        struct leat_task *task = functions->take(c);
        if (!task) {
            leat_client_deactivate(c);
            continue;
        }
        s->rest_due = true;
        c->working++;
        if (s->idle && (c->working < c->max_threads || c->active_next || c->active_previous))
            pthread_cond_signal(&s->work);
        leat_engine_unlock();
        functions->run(task);
        leat_engine_lock();
        c->working--;
        functions->finish(task);
    }
    leat_engine_unlock();
    return unused;
}

static int start_thread(struct leat_error *error)
{
    struct leat_scheduler *s = &leat_scheduler;
    if (!leat_grow(&s->threads, &s->room, s->n_threads + 1, sizeof *s->threads))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a list of threads");
    int rc = leat_thread_start(&s->threads[s->n_threads], work, NULL);
    if (rc) {
        errno = rc;
        return leat_fail_errno(error, LEAT_E_NOMEM, "cannot start a thread");
    }
    char name[16];
    snprintf(name, sizeof name, "leat-%u", s->n_threads % 100000);
    pthread_setname_np(s->threads[s->n_threads], name);
    s->n_threads++;
    return LEAT_OK;
}

static int grow(unsigned n, struct leat_error *error)
{
    while (leat_scheduler.n_threads < n) {
        int rc = start_thread(error);
        if (rc && leat_scheduler.n_threads) {
            leat_log(LEAT_LOG_WARNING, "only %u of %u threads could be started", leat_scheduler.n_threads, n);
            break;
        }
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

/* ---- clients --------------------------------------------------------------------------------- */

int leat_client_join(struct leat_client *c, struct leat_error *error)
{
    struct leat_scheduler *s = &leat_scheduler;
    pthread_once(&once, start_once);
    if (s->stopping)
        return leat_fail(error, LEAT_E_CLOSED, "the process is ending: no loader can be used");
    int rc = grow(c->max_threads, error);
    if (rc)
        return rc;
    c->vtime = s->vclock;
    c->next = s->clients;
    c->previous = NULL;
    if (s->clients)
        s->clients->previous = c;
    s->clients = c;
    return LEAT_OK;
}

void leat_client_leave(struct leat_client *c)
{
    leat_client_deactivate(c);
    if (c->next)
        c->next->previous = c->previous;
    if (c->previous)
        c->previous->next = c->next;
    else
        leat_scheduler.clients = c->next;
    c->next = c->previous = NULL;
}

void leat_client_activate(struct leat_client *c)
{
    struct leat_scheduler *s = &leat_scheduler;
    if (!c->active) {
        c->active = true;
        c->active_previous = NULL;
        c->active_next = s->active;
        if (s->active)
            s->active->active_previous = c;
        s->active = c;
        if (c->vtime < s->vclock)
            c->vtime = s->vclock;
    }
    if (s->idle)
        pthread_cond_signal(&s->work);
}

void leat_client_deactivate(struct leat_client *c)
{
    if (!c->active)
        return;
    c->active = false;
    if (c->active_next)
        c->active_next->active_previous = c->active_previous;
    if (c->active_previous)
        c->active_previous->active_next = c->active_next;
    else
        leat_scheduler.active = c->active_next;
    c->active_next = c->active_previous = NULL;
}
