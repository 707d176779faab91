/*
 * Blocks on threads, for the time of one query: the engine stands above this layer. The calling thread is one of them,
 * so a query works if no thread can be started.
 */
#include <stdatomic.h>

#include "base/error.h"
#include "base/thread.h"
#include "data/query.h"
#include "io/interrupt.h"

#define MOST_THREADS 64

struct shared {
    const struct leat_query_job *job;
    uint64_t n;
    struct leat_query_stop *stop;
    _Atomic uint64_t next;
    pthread_mutex_t lock;
    uint64_t failed; /* the lowest block that failed */
    int rc;
    struct leat_error error;
};

struct worker {
    struct shared *shared;
    bool asks;
};

static void note_failure(struct shared *s, uint64_t block, int rc, const struct leat_error *error)
{
    pthread_mutex_lock(&s->lock);
    /* A thread that was told to stop makes no error. */
    if (!s->rc || (block < s->failed && !(rc == LEAT_E_CANCELLED && atomic_load(&s->stop->stopped)))) {
        s->failed = block;
        s->rc = rc;
        s->error = *error;
    }
    pthread_mutex_unlock(&s->lock);
    atomic_store(&s->stop->stopped, true);
}

static void *work(void *argument)
{
    const struct worker *w = argument;
    struct shared *s = w->shared;
    struct leat_error error;
    void *state = NULL;
    uint64_t block = 0;
    leat_error_clear(&error);
    int rc = s->job->start(s->job->user, w->asks, &state, &error);
    while (!rc && !atomic_load(&s->stop->stopped) && (block = atomic_fetch_add(&s->next, 1)) < s->n) {
        rc = s->job->run(s->job->user, state, block, &error);
        if (!rc && w->asks && leat_io_interrupted())
            rc = leat_fail(&error, LEAT_E_CANCELLED, "the query was interrupted");
    }
    if (rc)
        note_failure(s, block, rc, &error);
    s->job->end(s->job->user, state);
    return NULL;
}

int leat_query_run(const struct leat_query_job *job, uint64_t n, struct leat_query_stop *stop, struct leat_error *error)
{
    struct shared s = {.job = job, .n = n, .stop = stop, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct worker own = {&s, true}, other = {&s, false};
    pthread_t threads[MOST_THREADS];
    size_t most = leat_cpu_count(), started = 0;
    most = most > MOST_THREADS ? MOST_THREADS : most;
    most = most > n ? (size_t)n : most;
    while (started + 1 < most && !leat_thread_start(&threads[started], work, &other))
        started++; /* fewer do it too */
    work(&own);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&s.lock);
    if (!s.rc && atomic_load(&stop->stopped)) /* by someone else: not all blocks were looked at */
        s.rc = leat_fail(&s.error, LEAT_E_CANCELLED, "the query was interrupted");
    if (s.rc && error)
        *error = s.error;
    return s.rc;
}
