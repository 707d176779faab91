/*
 * The threads of a process, started when the first loader opens and shared by all. A client has work for them: each
 * loader is one. The scheduler knows a client by its functions and by the time that its tasks took.
 *
 *     active: clients that may have work     a thread that finds no task for a client takes it off the list
 *     idle threads sleep in `work`           leat_client_activate puts it back and wakes one thread; that one wakes
 *                                            the next, if the client may have more threads
 *
 * One mutex, the engine's lock, protects the scheduler and everything in this folder that is not said to be atomic or
 * owned by a task; it is held for some hundred nanoseconds at a time and never while samples are read, decoded or
 * copied. A fork takes it, so that a child finds everything at rest.
 */
#ifndef LEAT_ENGINE_SCHEDULER_H
#define LEAT_ENGINE_SCHEDULER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "leat/leat.h"

struct leat_client;
struct leat_task; /* the client's */

/* Something to be done at a time: `fire` is called once, under the lock, by any thread of the scheduler. */
struct leat_timer {
    int64_t due_ns; /* of leat_clock_ns */
    void (*fire)(struct leat_timer *timer);
    struct leat_timer *next;
};

struct leat_client_functions {
    struct leat_task *(*take)(struct leat_client *client); /* the next one, or NULL; under the lock */
    void (*run)(struct leat_task *task);                   /* without it */
    void (*finish)(struct leat_task *task);                /* under it */
    /* No event has come for a second: unused memory goes back to the system. True: to be called again later. */
    bool (*rest)(struct leat_client *client, int64_t now_ns);
    void (*stop)(struct leat_client *client); /* the process ends: waiting threads are woken */
};

struct leat_client {
    const struct leat_client_functions *functions;
    double weight, vtime;          /* time that its tasks took, by its weight */
    unsigned max_threads, working; /* at most so many threads at a time; the present number */
    bool paused;                   /* no task is taken */
    bool active;                   /* it may have work */
    struct leat_client *next, *previous, *active_next, *active_previous;
};

struct leat_scheduler {
    pthread_mutex_t lock;
    pthread_cond_t work;
    _Atomic unsigned generation; /* counts forks */
    bool stopping;
    unsigned n_threads, idle;
    size_t room; /* in `threads` */
    pthread_t *threads;
    struct leat_client *clients, *active;
    double vclock;
    bool rest_due, resting;
    struct leat_timer *timers; /* the one that is due first, first */
};
extern struct leat_scheduler leat_scheduler;

void leat_engine_lock(void);
void leat_engine_unlock(void);
static inline unsigned leat_engine_generation(void)
{
    return atomic_load_explicit(&leat_scheduler.generation, memory_order_relaxed);
}

/* All of these: under the lock. */

/* Adds a client, and threads until it can have max_threads of them; at least one must run. Errors: CLOSED (the process
 * ends), NOMEM. */
int leat_client_join(struct leat_client *client, struct leat_error *error);
void leat_client_leave(struct leat_client *client);
/* Says that a client may have work, and wakes a thread for it. */
void leat_client_activate(struct leat_client *client);
void leat_client_deactivate(struct leat_client *client);
/* Starts a timer, and takes it back if it has not fired. */
void leat_timer_start(struct leat_timer *timer);
void leat_timer_stop(struct leat_timer *timer);
/* Counts time of a task of the client's; below 0: more was counted before than it took. */
static inline void leat_client_charge(struct leat_client *client, double ns)
{
    client->vtime += ns / client->weight;
}

/* A condition that goes by the monotonic clock. */
void leat_condition_init(pthread_cond_t *condition);
/* Waits for a condition until deadline_ns of leat_clock_ns (INT64_MAX: without end). False: the time has passed. */
bool leat_condition_wait(pthread_cond_t *condition, int64_t deadline_ns);

#endif
