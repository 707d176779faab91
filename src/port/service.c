/*
 * The service: connections, and the questions of consumers. It trusts nothing that it reads: bytes that are no message,
 * or a number that does not fit, end that connection with a FAILED that says why, and no other consumer notices.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "engine/side.h"
#include "port/internal.h"

#define EVENTS 64
#define MESSAGES_AT_A_TIME 32 /* of one consumer, before others get their turn */
#define KEPT_FILES 64         /* that consumers leave to the process: a loader opens files as it reads */

struct service {
    struct leat_port *port;
    int spare; /* a descriptor that is given up to refuse a connection when there is none left */
    struct leat_message message;
    json_t *text; /* of a HELLO */
};

/* ---- connections ----------------------------------------------------------------------------- */

bool leat_port_watch(const struct leat_port *p, int fd, enum leat_port_source source, uint32_t id)
{
    /* The descriptor by which a consumer wakes it is never read, because it could be made to wait: each write wakes
     * once. */
    struct epoll_event e = {.events = EPOLLIN | (source == LEAT_PORT_RETURNED ? EPOLLET : 0),
                            .data.u64 = (uint64_t)id << 8 | source};
    return !epoll_ctl(p->poll, EPOLL_CTL_ADD, fd, &e);
}

/* Events from one that is gone would wake the service again and again, until it can be taken out. */
static void unwatch(const struct leat_port *p, const struct leat_port_consumer *c)
{
    const int fds[] = {c->socket, c->process, c->wake};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            epoll_ctl(p->poll, EPOLL_CTL_DEL, fds[i], NULL);
}

void leat_port_consumer_free(struct leat_port_consumer *c)
{
    leat_line_leave(c);
    if (c->channel)
        leat_channel_end(c->channel);
    const int fds[] = {c->socket, c->process, c->wake, c->channel_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    leat_channel_unmap(c->channel);
    leat_wish_free(&c->wish);
    leat_free(c);
}

static struct leat_port_consumer *find(struct leat_port *p, uint32_t id)
{
    struct leat_port_consumer *c = p->consumers;
    while (c && c->id != id)
        c = c->next;
    return c;
}

/* Takes out those that are gone, and their batches come back. */
static void remove_gone(struct leat_port *p)
{
    bool some = false;
    for (struct leat_port_consumer **at = &p->consumers; *at;) {
        struct leat_port_consumer *c = *at;
        if (!c->gone || c->working) {
            if (c->gone)
                unwatch(p, c);
            at = &c->next;
            continue;
        }
        *at = c->next;
        p->n_consumers--;
        leat_port_consumer_free(c);
        some = true;
    }
    if (some)
        pthread_cond_signal(&p->admit); /* it closes lines that nobody reads */
    for (struct leat_line *l = p->lines; l && some; l = l->next) {
        leat_shelf_trim(l);
        leat_line_nudge(l);
    }
}

/* Whether the peer of a connection is allowed. Errors: IO. */
static int check_peer(const struct leat_port *p, int socket, pid_t *pid, struct leat_error *error)
{
    struct ucred who;
    socklen_t size = sizeof who;
    gid_t groups[256];
    socklen_t bytes = sizeof groups;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size))
        return leat_fail_errno(error, LEAT_E_IO, "cannot find out who has connected");
    *pid = who.pid;
    if (who.uid == geteuid() || who.uid == 0)
        return LEAT_OK;
    bool member = p->group != (gid_t)-1 && who.gid == p->group;
#ifdef SO_PEERGROUPS
    if (p->group != (gid_t)-1 && !member && !getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups, &bytes))
        for (size_t i = 0; i < bytes / sizeof *groups; i++)
            member |= groups[i] == p->group;
#endif
    return member ? LEAT_OK
                  : leat_fail(error, LEAT_E_IO,
                              "port \"%s\" is another user's: its owner may open it to a group "
                              "(leat serve --group)",
                              p->name);
}

/* Descriptors are the lowest that are free: a high one says that few are left. */
bool leat_port_is_scarce(int fd)
{
    struct rlimit most;
    if (getrlimit(RLIMIT_NOFILE, &most))
        return false;
    const rlim_t kept = most.rlim_cur / 4 < KEPT_FILES ? most.rlim_cur / 4 : KEPT_FILES;
    return fd >= 0 && (rlim_t)fd >= most.rlim_cur - kept;
}

int leat_port_full(struct leat_error *error, const char *why)
{
    return leat_fail(error, LEAT_E_HELD, "the port takes no further connection: %s", why);
}

/* A connection without a place gets that answer. */
static void refuse(int socket, const char *why)
{
    struct leat_error error, unsent;
    leat_port_full(&error, why);
    leat_message_fail(socket, 0, &error, &unsent);
    close(socket);
}

/* A connection that waits to be accepted wakes the service again at once. The lock is let go meanwhile. */
static void pause_accepting(struct leat_port *p)
{
    pthread_mutex_unlock(&p->lock);
    nanosleep(&(struct timespec){0, 5000000}, NULL);
    pthread_mutex_lock(&p->lock);
}

static void accept_one(struct service *s)
{
    struct leat_port *p = s->port;
    struct leat_error error, unsent;
    pid_t pid = 0;
    int socket = accept4(p->place.socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0 && (errno == EMFILE || errno == ENFILE)) {
        close(s->spare);
        socket = accept4(p->place.socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (socket >= 0)
            refuse(socket, LEAT_PORT_NO_FILES);
        else
            pause_accepting(p); /* another thread was first to take the one that was given up */
        s->spare = eventfd(0, EFD_CLOEXEC);
        return;
    }
    if (socket < 0)
        return;
    if (check_peer(p, socket, &pid, &error)) {
        leat_message_fail(socket, 0, &error, &unsent);
        close(socket);
        return;
    }
    if (leat_port_is_scarce(socket)) {
        refuse(socket, LEAT_PORT_NO_FILES);
        return;
    }
    struct leat_port_consumer *c =
        p->n_consumers < LEAT_PORT_MOST_CONSUMERS ? leat_new(struct leat_port_consumer) : NULL;
    if (!c) {
        refuse(socket, "it has as many as it can have");
        return;
    }
    *c = (struct leat_port_consumer){.id = ++p->last_id,
                                     .socket = socket,
                                     .process = -1,
                                     .wake = -1,
                                     .channel_fd = -1,
                                     .wish.samples = -1,
                                     .pid = pid,
                                     .next = p->consumers};
    p->consumers = c;
    p->n_consumers++;
    c->gone = !leat_port_watch(p, socket, LEAT_PORT_SOCKET, c->id);
}

/* ---- questions ------------------------------------------------------------------------------- */

static int reply(struct service *s, struct leat_port_consumer *c, const void *body, size_t bytes,
                 struct leat_error *error)
{
    return leat_message_send(c->socket, LEAT_MESSAGE_REPLY, s->message.head.number, body, bytes, NULL, 0, error);
}

/* The reply to a question, or what kept it from being answered. */
static int answer(struct service *s, struct leat_port_consumer *c, int rc, const void *body, size_t bytes,
                  struct leat_error *error)
{
    return rc ? leat_message_fail(c->socket, s->message.head.number, error, error) : reply(s, c, body, bytes, error);
}

/* The contents of a question of one that is attached. FORMAT. */
static int read_ask(const struct service *s, const struct leat_port_consumer *c, void *to, size_t bytes,
                    const char *what, struct leat_error *error)
{
    const void *body = leat_message_body(&s->message, bytes);
    if (!body || !c->line)
        return leat_fail(error, LEAT_E_FORMAT, "a consumer %s", what);
    memcpy(to, body, bytes);
    return LEAT_OK;
}

static int stat_of(struct service *s, struct leat_port_consumer *c, struct leat_error *error)
{
    char *text;
    pthread_mutex_unlock(&s->port->lock);
    int rc = leat_port_describe(s->port, &text, error);
    pthread_mutex_lock(&s->port->lock);
    if (rc)
        return rc;
    const size_t bytes = strlen(text);
    int fd = -1;
    if (bytes > LEAT_MESSAGE_MOST)
        rc = leat_message_seal(text, bytes, &fd, error);
    rc = rc ? rc
            : leat_message_send(c->socket, LEAT_MESSAGE_REPLY, s->message.head.number, text, fd < 0 ? bytes : 0, &fd,
                                fd >= 0, error);
    if (fd >= 0)
        close(fd);
    leat_free(text);
    return rc;
}

/* It is answered once it is admitted. */
static int attach(struct service *s, struct leat_port_consumer *c, struct leat_error *error)
{
    if (c->channel || c->wish.text || c->working)
        return leat_fail(error, LEAT_E_FORMAT, "a consumer that is attached attaches again");
    c->wish = (struct leat_wish){leat_strdup(s->message.body), s->message.fds[LEAT_FD_SAMPLES], s->message.head.number};
    if (!c->wish.text)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a consumer");
    s->message.fds[LEAT_FD_SAMPLES] = -1;
    pthread_cond_signal(&s->port->admit);
    return LEAT_OK;
}

static int hello(struct service *s, struct leat_port_consumer *c, struct leat_error *error)
{
    json_decref(s->text);
    s->text = json_loadb(s->message.body, s->message.head.bytes, JSON_REJECT_DUPLICATES, NULL);
    const char *want = json_string_value(json_object_get(s->text, "want"));
    if (!want)
        return leat_fail(error, LEAT_E_FORMAT, "a consumer does not say what it wants");
    if (!strcmp(want, "attach"))
        return attach(s, c, error);
    if (!strcmp(want, "stat"))
        return stat_of(s, c, error);
    if (strcmp(want, "stop") != 0)
        return leat_fail(error, LEAT_E_FORMAT, "a consumer wants \"%.40s\"", want);
    s->port->stop = true;
    pthread_cond_broadcast(&s->port->stopped);
    return reply(s, c, "{}", 2, error);
}

static int seek(struct service *s, struct leat_port_consumer *c, struct leat_error *error)
{
    struct leat_line *l = c->line;
    struct leat_plan_batch plan;
    struct leat_reply_rows rows;
    struct leat_ask_seek ask;
    int rc = read_ask(s, c, &ask, sizeof ask, "seeks nothing", error);
    if (rc)
        return rc;
    rc = leat_served_find(l->loader, (struct leat_position){ask.epoch, ask.row}, &plan, error);
    rc = rc ? rc : leat_served_epoch_rows(l->loader, ask.epoch, &rows.rows, error);
    if (rc) /* it may ask for missing rows */
        return leat_message_fail(c->socket, s->message.head.number, error, error);
    c->at = plan.at;
    c->sought = ask.epoch;
    c->stream = ask.stream;
    c->reads = true;
    rc = reply(s, c, &rows, sizeof rows, error);
    leat_shelf_take_back(l, c);
    leat_shelf_lend(l, c);
    return rc;
}

static int rows_of(struct service *s, struct leat_port_consumer *c, struct leat_error *error)
{
    struct leat_ask_rows ask = {0};
    struct leat_reply_rows rows;
    int rc = read_ask(s, c, &ask, sizeof ask, "asks for no epoch", error);
    if (rc)
        return rc;
    rc = leat_served_epoch_rows(c->line->loader, ask.epoch, &rows.rows, error);
    return answer(s, c, rc, &rows, sizeof rows, error);
}

/* Rows that a batch of some sizes can have. FORMAT: they are not in the plan. */
static int read_batch(struct service *s, const struct leat_port_consumer *c, struct leat_plan_batch *plan,
                      uint64_t *first, uint64_t *n, struct leat_error *error)
{
    struct leat_ask_batch ask;
    uint64_t rows, end;
    int rc = read_ask(s, c, &ask, sizeof ask, "asks for no batch", error);
    rc = rc ? rc : leat_served_epoch_rows(c->line->loader, ask.epoch, &rows, error);
    if (rc)
        return rc;
    *plan = (struct leat_plan_batch){.epoch = ask.epoch,
                                     .step = ask.step,
                                     .at = {ask.epoch, ask.at_row},
                                     .global_rows = ask.global_rows,
                                     .begin = ask.begin,
                                     .rows = ask.rows};
    *first = ask.first;
    *n = ask.n;
    if (!leat_add_u64(ask.at_row, ask.global_rows, &end) || end > rows || !ask.global_rows || !ask.rows ||
        ask.begin < ask.at_row || !leat_add_u64(ask.begin, ask.rows, &end) || ask.rows > LEAT_MAX_GLOBAL_BATCH ||
        end - ask.at_row > ask.global_rows + UINT32_MAX)
        return leat_fail(error, LEAT_E_RANGE, "a consumer asks for rows that epoch %" PRIu64 " does not have",
                         ask.epoch);
    if (end > ask.at_row + ask.global_rows && ask.at_row + ask.global_rows != rows)
        return leat_fail(error, LEAT_E_RANGE, "a consumer asks for padding within epoch %" PRIu64, ask.epoch);
    return LEAT_OK;
}

static int ids_of(struct service *s, struct leat_port_consumer *c, struct leat_error *error)
{
    struct leat_plan_batch plan;
    int64_t ids[LEAT_MOST_IDS];
    uint64_t first = 0, n = 0;
    int rc = read_batch(s, c, &plan, &first, &n, error);
    if (!rc && (!n || n > LEAT_MOST_IDS || first > plan.rows || n > plan.rows - first))
        rc = leat_fail(error, LEAT_E_RANGE, "a consumer asks for rows that a batch does not have");
    rc = rc ? rc : leat_side_planned(c->line->loader, &plan, first, n, (struct leat_planned_rows){.ids = ids}, error);
    return answer(s, c, rc, ids, n * sizeof *ids, error);
}

static int make(struct service *s, struct leat_port_consumer *c, struct leat_error *error)
{
    uint64_t first, n;
    struct leat_plan_batch plan;
    if (!c->line)
        return leat_fail(error, LEAT_E_FORMAT, "a consumer asks for a batch before it is attached");
    if (c->line->failure.code)
        return leat_message_fail(c->socket, s->message.head.number, leat_line_ended(c->line, error), error);
    int rc = read_batch(s, c, &plan, &first, &n, error);
    leat_shelf_take_back(c->line, c); /* it does not say so when it returns one */
    if (!rc && !leat_shelf_may_ask(c->line, c))
        rc = leat_fail(error, LEAT_E_HELD, "%" PRIu32 " batches are held; let go of some", c->loan.n);
    if (!rc && plan.rows > c->batch_size)
        rc = leat_fail(error, LEAT_E_RANGE, "a consumer of batches of %" PRIu64 " rows asks for one of %" PRIu64,
                       c->batch_size, plan.rows);
    if (rc)
        return leat_message_fail(c->socket, s->message.head.number, error, error);
    if (c->asks) { /* its reader was interrupted before the maker came to it */
        leat_fail(error, LEAT_E_CANCELLED, "another batch was asked for");
        rc = leat_message_fail(c->socket, c->ask_number, error, error);
    }
    if (rc)
        return rc;
    c->ask = plan;
    c->ask_number = s->message.head.number;
    c->asks = true;
    pthread_cond_signal(&c->line->make);
    return LEAT_OK;
}

/* The feeder draws it, if it is not there. */
static int order_of(struct service *s, struct leat_port_consumer *c, struct leat_error *error)
{
    struct leat_ask_rows ask = {0};
    int rc = read_ask(s, c, &ask, sizeof ask, "asks for the order of no epoch", error);
    if (!rc && !c->line->samples)
        rc = leat_fail(error, LEAT_E_FORMAT, "a consumer asks for the order of no epoch");
    if (rc)
        return rc;
    if (c->line->failure.code)
        return leat_message_fail(c->socket, s->message.head.number, leat_line_ended(c->line, error), error);
    c->order_epoch = ask.epoch;
    c->order_number = s->message.head.number;
    c->asks_order = true;
    pthread_cond_signal(&c->line->feed);
    return LEAT_OK;
}

static int handle(struct service *s, struct leat_port_consumer *c, struct leat_error *error)
{
    switch (s->message.head.type) {
    case LEAT_MESSAGE_HELLO:
        return hello(s, c, error);
    case LEAT_MESSAGE_SEEK:
        return seek(s, c, error);
    case LEAT_MESSAGE_ROWS:
        return rows_of(s, c, error);
    case LEAT_MESSAGE_IDS:
        return ids_of(s, c, error);
    case LEAT_MESSAGE_MAKE:
        return make(s, c, error);
    case LEAT_MESSAGE_ORDER:
        return order_of(s, c, error);
    case LEAT_MESSAGE_END:
        c->reads = false;
        return reply(s, c, NULL, 0, error);
    default:
        return leat_fail(error, LEAT_E_FORMAT, "a consumer sends a message of type %u", s->message.head.type);
    }
}

static void receive(struct service *s, struct leat_port_consumer *c)
{
    struct leat_error error, unsent;
    int rc;
    for (int i = 0; i < MESSAGES_AT_A_TIME && !c->gone; i++) {
        /* Closing a descriptor that came with it may take as long as its sender likes. */
        pthread_mutex_unlock(&s->port->lock);
        rc = leat_message_take(c->socket, &s->message, &error);
        pthread_mutex_lock(&s->port->lock);
        if (rc == LEAT_IO_PENDING)
            return;
        if (!rc) {
            rc = handle(s, c, &error);
            pthread_mutex_unlock(&s->port->lock);
            leat_message_close(&s->message);
            pthread_mutex_lock(&s->port->lock);
        }
        if (!rc)
            continue;
        if (rc != LEAT_E_END)
            leat_message_fail(c->socket, s->message.head.number, &error, &unsent);
        c->gone = true;
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void take_event(struct service *s, uint64_t what)
{
    struct leat_port *p = s->port;
    const enum leat_port_source source = (enum leat_port_source)(what & 255);
    struct leat_port_consumer *c = source >= LEAT_PORT_SOCKET ? find(p, (uint32_t)(what >> 8)) : NULL;
    uint64_t count;
    if (source == LEAT_PORT_CONNECTIONS) {
        accept_one(s);
    } else if (source == LEAT_PORT_WAKE) {
        count = (uint64_t)read(p->wake, &count, sizeof count);
    } else if (c && source == LEAT_PORT_SOCKET) {
        receive(s, c);
    } else if (c && source == LEAT_PORT_PROCESS) {
        c->gone = true;
    } else if (c) {
        leat_shelf_take_back(c->line, c); /* a consumer has a descriptor to wake us by once it is in a line */
        leat_shelf_lend(c->line, c);
        leat_shelf_trim(c->line);
    }
}

void *leat_port_service(void *port)
{
    struct leat_port *p = port;
    struct service *s = leat_new(struct service);
    struct epoll_event events[EVENTS];
    struct leat_error error;
    if (s) {
        s->port = p;
        s->spare = eventfd(0, EFD_CLOEXEC);
    }
    const bool ready = s && leat_port_watch(p, p->place.socket, LEAT_PORT_CONNECTIONS, 0) &&
                       leat_port_watch(p, p->wake, LEAT_PORT_WAKE, 0);
    pthread_mutex_lock(&p->lock);
    if (!ready) {
        leat_fail_errno(&error, LEAT_E_IO, "the port cannot wait for connections");
        leat_line_fail(p->lines, &error);
    }
    while (ready && !p->closing) {
        remove_gone(p);
        pthread_mutex_unlock(&p->lock);
        const int n = epoll_wait(p->poll, events, EVENTS, -1);
        pthread_mutex_lock(&p->lock);
        for (int i = 0; i < n && !p->closing; i++)
            take_event(s, events[i].data.u64);
        for (struct leat_line *l = p->lines; l && n > 0; l = l->next)
            leat_line_nudge(l);
    }
    pthread_mutex_unlock(&p->lock);
    if (s) {
        if (s->spare >= 0)
            close(s->spare);
        json_decref(s->text);
        leat_free(s);
    }
    return NULL;
}
