/*
 * Starting a thread takes as long as gathering some 100 KiB, so the threads that gather rows stay, and sleep between
 * calls:
 *
 *     call: on the list, threads are woken --> works itself --> off the list: none begins any more --> the last is done
 *     thread: the first call of the list that wants one more --> works --> says so
 *
 * They are detached, as nothing that they use is ever given back: a process ends beside them. A child of a fork has
 * none of them, and starts its own.
 */
#include "device/threads.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/thread.h"

enum { MOST_THREADS = 64 };

struct call {
    void (*work)(void *arg);
    void *arg;
    unsigned wanted, working; /* threads that may still begin; that have begun */
    pthread_cond_t done;
    struct call *next;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct call *calls;
    unsigned n_threads, busy;
} threads = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static void *serve(void *unused)
{
    pthread_mutex_lock(&threads.lock);
    for (;;) {
        struct call *c = threads.calls;
        while (c && !c->wanted)
            c = c->next;
        if (!c) {
            pthread_cond_wait(&threads.more, &threads.lock);
            continue;
        }
        threads.busy++;
        c->wanted--;
        c->working++;
        pthread_mutex_unlock(&threads.lock);
        c->work(c->arg);
        pthread_mutex_lock(&threads.lock);
        threads.busy--;
        if (!--c->working)
            pthread_cond_signal(&c->done);
    }
    return unused;
}

static void before_fork(void)
{
    pthread_mutex_lock(&threads.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&threads.lock);
}

static void in_child(void)
{
    pthread_mutex_init(&threads.lock, NULL);
    pthread_cond_init(&threads.more, NULL);
    threads.calls = NULL;
    threads.n_threads = threads.busy = 0;
}

static void start_once(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

void leat_threads_run(unsigned more, void (*work)(void *arg), void *arg)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct call call = {.work = work, .arg = arg, .wanted = more};
    if (!more) {
        work(arg);
        return;
    }
    pthread_once(&once, start_once);
    pthread_cond_init(&call.done, NULL);
    pthread_mutex_lock(&threads.lock);
    call.next = threads.calls;
    threads.calls = &call;
    for (unsigned i = threads.n_threads - threads.busy; i < more && threads.n_threads < MOST_THREADS; i++) {
        pthread_t thread;
        if (leat_thread_start(&thread, serve, NULL))
            break;
        pthread_detach(thread);
        threads.n_threads++;
    }
    pthread_mutex_unlock(&threads.lock);
    for (unsigned i = 0; i < more; i++) /* without the lock, which they take first */
        pthread_cond_signal(&threads.more);
    work(arg);
    pthread_mutex_lock(&threads.lock);
    struct call **at = &threads.calls;
    while (*at != &call)
        at = &(*at)->next;
    *at = call.next;
    while (call.working)
        pthread_cond_wait(&call.done, &threads.lock);
    pthread_mutex_unlock(&threads.lock);
    pthread_cond_destroy(&call.done);
}
