/* Opening and closing a port. */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/scheduler.h"
#include "port/internal.h"

/* ---- while it is open ------------------------------------------------------------------------ */

void leat_port_part(struct leat_port *p, struct leat_port_consumer *c)
{
    c->gone = true;
    if (write(p->wake, &(uint64_t){1}, sizeof(uint64_t)) < 0)
        return; /* it is awake */
}

int leat_port_wait(struct leat_port *p, int64_t timeout_ms, struct leat_error *error)
{
    const int64_t end = leat_clock_deadline(timeout_ms);
    int rc = LEAT_OK;
    pthread_mutex_lock(&p->lock);
    const struct leat_error *failure = &p->lines->failure;
    while (!p->stop && !failure->code && !rc) {
        struct timespec until = {end / 1000000000, end % 1000000000};
        if (end == INT64_MAX)
            pthread_cond_wait(&p->stopped, &p->lock);
        else if (pthread_cond_timedwait(&p->stopped, &p->lock, &until) == ETIMEDOUT)
            rc = leat_fail(error, LEAT_E_TIMEOUT, "nobody has asked the port to end");
    }
    if (failure->code) {
        rc = failure->code;
        if (error)
            *error = *failure;
    }
    pthread_mutex_unlock(&p->lock);
    return rc;
}

int leat_port_stat(struct leat_port *p, char **json, struct leat_error *error)
{
    return leat_port_describe(p, json, error);
}

/* ---- fork ------------------------------------------------------------------------------------ */

/* A child has copies of all descriptors. It closes them: as long as one is open, the port does not look dead to
 * attached readers when its process dies, nor to a port that would take its name. */
static struct leat_port *ports;
static pthread_mutex_t ports_lock = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void)
{
    pthread_mutex_lock(&ports_lock);
    for (struct leat_port *p = ports; p; p = p->next)
        pthread_mutex_lock(&p->lock);
}

static void after_fork(void)
{
    for (struct leat_port *p = ports; p; p = p->next)
        pthread_mutex_unlock(&p->lock);
    pthread_mutex_unlock(&ports_lock);
}

static void close_descriptors(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void after_fork_in_child(void)
{
    for (struct leat_port *p = ports; p; p = p->next) {
        close_descriptors((const int[]){p->place.lock, p->place.socket, p->wake, p->poll}, 4);
        for (const struct leat_line *l = p->lines; l; l = l->next)
            close_descriptors(&l->memory, 1);
        for (const struct leat_port_consumer *c = p->consumers; c; c = c->next)
            close_descriptors((const int[]){c->socket, c->process, c->wake, c->channel_fd, c->wish.samples}, 5);
    }
    after_fork();
    ports = NULL;
}

static void join_ports(struct leat_port *p)
{
    static bool registered;
    pthread_mutex_lock(&ports_lock);
    if (!registered) /* later than the engine's: so these locks are taken before its lock is */
        pthread_atfork(before_fork, after_fork, after_fork_in_child);
    registered = true;
    p->next = ports;
    ports = p;
    pthread_mutex_unlock(&ports_lock);
}

static void leave_ports(const struct leat_port *p)
{
    pthread_mutex_lock(&ports_lock);
    for (struct leat_port **at = &ports; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    pthread_mutex_unlock(&ports_lock);
}

/* ---- open ------------------------------------------------------------------------------------ */

int leat_port_start(struct leat_port_threads *threads, void *(*first)(void *), void *(*second)(void *), void *user,
                    struct leat_error *error)
{
    void *(*const functions[2])(void *) = {first, second};
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = LEAT_OK;
    for (; !rc && threads->n < 2; threads->n += !rc) {
        errno = pthread_create(&threads->of[threads->n], NULL, functions[threads->n], user);
        rc = errno ? leat_fail_errno(error, LEAT_E_NOMEM, "cannot start the threads of a port") : LEAT_OK;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

void leat_port_join(struct leat_port_threads *threads)
{
    for (; threads->n; threads->n--)
        pthread_join(threads->of[threads->n - 1], NULL);
}

static int prepare(struct leat_port *p, struct leat_loader *loader, const struct leat_port_options *o,
                   struct leat_error *error)
{
    json_t *about = json_loads(o->about ? o->about : "{}", 0, NULL);
    const bool object = json_is_object(about);
    json_decref(about);
    if (!object)
        return leat_fail(error, LEAT_E_INVALID, "`about` of a port must be a JSON object");
    int rc = leat_folder_check_name(o->name, error);
    rc = rc ? rc : leat_served_check(loader, error);
    rc = rc ? rc : leat_folder_group(o->group, &p->group, error);
    if (rc)
        return rc;
    snprintf(p->name, sizeof p->name, "%s", o->name);
    p->mirrors = o->mirrors;
    p->about = leat_strdup(o->about ? o->about : "{}");
    if (!p->about)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a port");
    if (strlen(p->about) > LEAT_MESSAGE_MOST / 2)
        return leat_fail(error, LEAT_E_INVALID, "`about` of a port is too long");
    memcpy(p->fingerprint, loader->fingerprint, sizeof p->fingerprint);
    p->order = leat_plan_order_hash(loader->plan);
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->poll = epoll_create1(EPOLL_CLOEXEC);
    if (p->wake < 0 || p->poll < 0)
        return leat_fail_errno(error, LEAT_E_IO, "cannot make a descriptor");
    rc = leat_place_take(o->folder, o->name, p->group, &p->place, error);
    rc = rc ? rc : leat_line_open(p, loader, 0, NULL, &p->lines, error);
    p->n_lines = !rc;
    return rc ? rc : leat_port_start(&p->threads, leat_port_service, leat_port_admission, p, error);
}

int leat_port_open(struct leat_loader *loader, const struct leat_port_options *given, struct leat_port **out,
                   struct leat_error *error)
{
    static const struct leat_port_options defaults = LEAT_PORT_OPTIONS_INIT;
    struct leat_port_options o = defaults;
    *out = NULL;
    if (!given || given->struct_size < sizeof(size_t))
        return leat_fail(error, LEAT_E_INVALID, "options must be given and begun with LEAT_PORT_OPTIONS_INIT");
    memcpy(&o, given, given->struct_size < sizeof o ? given->struct_size : sizeof o);
    int rc = leat_loader_check_process(loader, error);
    if (rc)
        return rc;
    struct leat_port *p = leat_new(struct leat_port);
    if (!p)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a port");
    p->wake = p->poll = p->place.lock = p->place.socket = -1;
    p->generation = leat_engine_generation();
    p->opened_ns = leat_clock_ns();
    pthread_mutex_init(&p->lock, NULL);
    leat_condition_init(&p->stopped);
    leat_condition_init(&p->admit);
    join_ports(p);
    rc = prepare(p, loader, &o, error);
    if (rc)
        leat_port_close(p);
    else
        *out = p;
    return rc;
}

/* ---- close ----------------------------------------------------------------------------------- */

static void drop_consumers(struct leat_port *p)
{
    for (struct leat_port_consumer *c; (c = p->consumers);) {
        p->consumers = c->next;
        leat_port_consumer_free(c);
    }
}

void leat_port_close(struct leat_port *p)
{
    if (!p || p->generation != leat_engine_generation())
        return;
    leat_place_leave(&p->place); /* a reader that comes now waits for the next port */
    pthread_mutex_lock(&p->lock);
    p->closing = true;
    pthread_cond_broadcast(&p->stopped);
    pthread_cond_broadcast(&p->admit);
    pthread_mutex_unlock(&p->lock);
    if (p->wake >= 0 && write(p->wake, &(uint64_t){1}, sizeof(uint64_t)) < 0)
        errno = 0; /* it is full: the service wakes up in any case */
    leat_port_join(&p->threads);
    for (struct leat_line *l = p->lines; l; l = l->next)
        leat_line_stop(l);
    leave_ports(p);
    drop_consumers(p);
    while (p->lines) { /* the first one last: the others have its plan */
        struct leat_line **at = &p->lines;
        while ((*at)->next)
            at = &(*at)->next;
        struct leat_line *last = *at;
        *at = NULL;
        leat_line_close(last);
    }
    leat_decoded_release(p->decoded);
    close_descriptors((const int[]){p->wake, p->poll}, 2);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->stopped);
    pthread_cond_destroy(&p->admit);
    leat_free(p->about);
    leat_free(p);
}
