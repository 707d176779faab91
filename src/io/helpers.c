/*
 *     submit --> pace is quick: run in place; one read in MEASURED is measured, after one that waited all are
 *        |
 *        `-----> pace is slow:  queue --> a thread: run, measured --> done
 *                               (whose submitter waits: run in place, not behind all that is queued)
 *
 * Threads are started as they are needed, one at most for each request that waits, and stay. One that hangs in a dead
 * file system keeps nobody from ending the process, because nothing joins it.
 */
#include "io/helpers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

/* A place is slow from a mean of SLOW_NS on, until it is below QUICK_NS: a thread switch on each side costs some 10 us,
 * decoding a photo 500 us. The mean is over some MEMORY measurements, none of which counts for more than MOST_NS. Only
 * waiting counts: not the time of copying, and not that of a core that was lost to somebody else. */
enum {
    SLOW_NS = 400000,
    QUICK_NS = 100000,
    SURE_NS = 20000,
    MOST_NS = 4000000,
    MEMORY = 32,
    MEASURED = 64,
    NS_PER_BYTE = 1
};

long leat_times_waited(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) ? 0 : usage.ru_nvcsw;
}

struct errand {
    struct leat_io_request *request;
    struct leat_io_pace *pace;
    void (*run)(struct leat_io_request *request);
    struct errand *next;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct errand *queue, **queue_end;
    unsigned n_threads, idle, n_queued;
} helpers = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .queue_end = &helpers.queue};

/* Lost updates are harmless. */
static void run_measured(struct leat_io_request *request, struct leat_io_pace *pace,
                         void (*run)(struct leat_io_request *request))
{
    const int64_t copying = (int64_t)(request->length * NS_PER_BYTE), begun = leat_clock_ns();
    const long waited = leat_times_waited();
    run(request);
    int64_t mean = atomic_load_explicit(&pace->mean_ns, memory_order_relaxed);
    int64_t ns = leat_times_waited() == waited ? 0 : leat_clock_ns() - begun - copying;
    ns = ns < 0 ? 0 : ns < MOST_NS ? ns : MOST_NS;
    mean += (ns - mean) / MEMORY;
    atomic_store_explicit(&pace->mean_ns, mean, memory_order_relaxed);
    if (mean > SLOW_NS || mean < QUICK_NS)
        atomic_store_explicit(&pace->slow, mean > SLOW_NS, memory_order_relaxed);
}

static void *help(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&helpers.lock);
    for (;;) {
        struct errand *e = helpers.queue;
        if (!e) {
            helpers.idle++;
            pthread_cond_wait(&helpers.more, &helpers.lock);
            helpers.idle--;
            continue;
        }
        if (!(helpers.queue = e->next))
            helpers.queue_end = &helpers.queue;
        helpers.n_queued--;
        struct leat_io_request *request = e->request;
        request->backend_state = NULL;
        pthread_mutex_unlock(&helpers.lock);
        run_measured(request, e->pace, e->run);
        leat_free(e);
        request->done(request, request->user);
        pthread_mutex_lock(&helpers.lock);
    }
    return NULL;
}

/* ---- fork: a child has none of the threads, and their waiting requests stay in the parent ------ */

static void before_fork(void)
{
    pthread_mutex_lock(&helpers.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&helpers.lock);
}

static void in_child(void)
{
    pthread_mutex_init(&helpers.lock, NULL);
    pthread_cond_init(&helpers.more, NULL);
    helpers.queue = NULL;
    helpers.queue_end = &helpers.queue;
    helpers.n_threads = helpers.idle = helpers.n_queued = 0;
}

static void start_once(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- submitting ------------------------------------------------------------------------------ */

/* False: there is no thread. */
static bool enqueue(struct errand *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_t thread;
    pthread_once(&once, start_once);
    pthread_mutex_lock(&helpers.lock);
    if (helpers.idle <= helpers.n_queued && helpers.n_threads < LEAT_HELPERS &&
        !leat_thread_start(&thread, help, NULL)) {
        pthread_detach(thread);
        helpers.n_threads++;
    }
    const bool taken = helpers.n_threads;
    if (taken) {
        e->request->backend_state = e;
        *helpers.queue_end = e;
        helpers.queue_end = &e->next;
        helpers.n_queued++;
        pthread_cond_signal(&helpers.more);
    }
    pthread_mutex_unlock(&helpers.lock);
    return taken;
}

bool leat_pace_is_quick(const struct leat_io_pace *pace)
{
    return atomic_load_explicit(&pace->mean_ns, memory_order_relaxed) < SURE_NS &&
           !atomic_load_explicit(&pace->slow, memory_order_relaxed);
}

bool leat_pace_passes(struct leat_io_pace *pace)
{
    const unsigned turn = atomic_load_explicit(&pace->turn, memory_order_relaxed);
    if (!leat_pace_is_quick(pace) || !(turn % MEASURED))
        return false;
    atomic_store_explicit(&pace->turn, turn + 1, memory_order_relaxed);
    return true;
}

int leat_helpers_submit(struct leat_io_request *request, struct leat_io_pace *pace,
                        void (*run)(struct leat_io_request *request))
{
    if (!atomic_load_explicit(&pace->slow, memory_order_relaxed)) {
        if (leat_pace_passes(pace)) {
            run(request);
        } else {
            atomic_fetch_add_explicit(&pace->turn, 1, memory_order_relaxed);
            run_measured(request, pace, run);
        }
        return LEAT_OK;
    }
    struct errand *e = request->waits ? NULL : leat_alloc(sizeof *e);
    if (e)
        *e = (struct errand){request, pace, run, NULL};
    if (e && enqueue(e))
        return LEAT_IO_PENDING;
    leat_free(e);
    run_measured(request, pace, run);
    return LEAT_OK;
}

void leat_helpers_cancel(struct leat_io_request *request)
{
    pthread_mutex_lock(&helpers.lock);
    struct errand **p = &helpers.queue, *e = request->backend_state;
    while (e && *p != e)
        p = &(*p)->next;
    if (e) {
        if (!(*p = e->next))
            helpers.queue_end = p;
        helpers.n_queued--;
        request->backend_state = NULL;
    }
    pthread_mutex_unlock(&helpers.lock);
    if (!e)
        return;
    leat_free(e);
    request->status = leat_fail(&request->error, LEAT_E_CANCELLED, "the read was cancelled");
    request->done(request, request->user);
}
