/*
 * Consumers that come: the line that each wants, and its welcome. A line that nobody has had is opened first, which may
 * take a while, as may reading a million samples of a consumer's own; so a thread of its own does it, one consumer
 * after the other, and the service goes on answering the others.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "port/internal.h"

/* ---- its wishes ------------------------------------------------------------------------------ */

static bool number(const json_t *o, const char *key, uint64_t most, uint64_t *out)
{
    return leat_json_number(json_object_get(o, key), most, out);
}

/* A consumer's description of itself. */
static int read_wish(struct leat_port_consumer *c, const json_t *o, struct leat_error *error)
{
    uint64_t rank, world;
    const char *label = json_string_value(json_object_get(o, "label"));
    if (!number(o, "batch_size", LEAT_MAX_GLOBAL_BATCH, &c->batch_size) || !number(o, "rank", UINT32_MAX, &rank) ||
        !number(o, "world_size", UINT32_MAX, &world) || !json_is_boolean(json_object_get(o, "waits")))
        return leat_fail(error, LEAT_E_FORMAT, "a consumer does not say what it wants");
    if (!world || rank >= world)
        return leat_fail(error, LEAT_E_INVALID, "rank %" PRIu64 " of %" PRIu64 " does not exist: ranks count from 0",
                         rank, world);
    c->rank = (uint32_t)rank;
    c->world_size = (uint32_t)world;
    c->waits = json_is_true(json_object_get(o, "waits"));
    snprintf(c->label, sizeof c->label, "%s", label ? label : "");
    for (size_t n = strlen(c->label); n && label && label[n] && (label[n] & 0xc0) == 0x80; n--)
        c->label[n - 1] = 0; /* cut between characters */
    return LEAT_OK;
}

/* Its batches, in those of the line: the number that it may need at once. */
static int fit(const struct leat_line *l, struct leat_port_consumer *c, struct leat_error *error)
{
    c->batch_size = c->batch_size ? c->batch_size : l->is.batch_rows;
    const uint64_t span = (c->batch_size - 1) / l->is.batch_rows + (l->is.batch_rows % c->batch_size ? 2 : 1);
    if (span > 32)
        return leat_fail(error, LEAT_E_INVALID,
                         "a batch of %" PRIu64 " rows is put together from %" PRIu64
                         " batches of the port, which have %" PRIu64 " rows each, and may be of 32: serve larger ones",
                         c->batch_size, span, l->is.batch_rows);
    c->needed = (uint32_t)(2 * span + 1);
    uint64_t batches = c->needed + 2; /* two that come next */
    for (const struct leat_port_consumer *other = l->consumers; other; other = other->next_in_line)
        batches += other->needed;
    return batches * l->is.batch_bytes <= l->is.max_held
               ? LEAT_OK
               : leat_fail(error, LEAT_E_HELD,
                           "the port has memory for %" PRIu64 " of its batches (%" PRIu64 " of %" PRIu64
                           " bytes), and with this consumer it needs %" PRIu64 ": serve with at least %" PRIu64
                           " bytes (leat serve --memory, max_held_bytes), or smaller "
                           "batches",
                           l->is.max_held / l->is.batch_bytes, l->is.max_held, l->is.batch_bytes, batches,
                           batches * l->is.batch_bytes);
}

/* A line for samples of its own. */
static int open_samples(struct leat_port *p, const struct leat_wish *wish, const json_t *o, const char *program,
                        uint64_t key, struct leat_line **out, struct leat_error *error)
{
    struct leat_samples *samples;
    pthread_mutex_unlock(&p->lock);
    int rc = leat_samples_read(p->lines->loader, o, wish->samples, &samples, error);
    pthread_mutex_lock(&p->lock);
    if (rc)
        return rc;
    rc = leat_line_open_samples(p, program, key, samples, out, error);
    if (rc)
        leat_samples_free(samples);
    return rc;
}

/* The line that it wants: with a program of its own, or with other draws than the others. */
static int choose_line(struct leat_port *p, const struct leat_wish *wish, const json_t *o, struct leat_line **out,
                       struct leat_error *error)
{
    const json_t *program = json_object_get(o, "outputs");
    uint64_t key = 0;
    if ((program && !json_is_string(program)) || (json_object_get(o, "key") && !number(o, "key", INT64_MAX, &key)))
        return leat_fail(error, LEAT_E_FORMAT, "a consumer does not say what it wants");
    int rc = json_object_get(o, "samples") ? open_samples(p, wish, o, json_string_value(program), key, out, error)
                                           : leat_line_find(p, json_string_value(program), key, out, error);
    if (!rc && (*out)->failure.code) {
        *error = (*out)->failure;
        rc = error->code;
    }
    return rc;
}

/* The position of the consumer farthest ahead, as far as its word is plausible; without others, the loader's. */
static struct leat_position foremost(const struct leat_port *p)
{
    struct leat_position most = p->lines->is.at;
    bool some = false;
    for (const struct leat_port_consumer *c = p->consumers; c; c = c->next) {
        if (!c->reads || c->gone || c->line->samples)
            continue;
        struct leat_position at = {atomic_load_explicit(&c->channel->epoch, memory_order_relaxed),
                                   atomic_load_explicit(&c->channel->row, memory_order_relaxed)};
        if (at.row >> 62 || at.epoch < c->sought)
            at = (struct leat_position){c->sought, 0};
        else if (at.epoch > c->at.epoch)
            at = c->at;
        if (!some || leat_position_precedes(most, at))
            most = at;
        some = true;
    }
    return most;
}

static json_t *welcome(const struct leat_port *p, const struct leat_port_consumer *c)
{
    const struct leat_line *l = c->line;
    char fingerprint[33];
    const struct leat_position at = foremost(p);
    leat_json_fingerprint(p->fingerprint, fingerprint);
    return json_pack("{s:s, s:i, s:I, s:s, s:o, s:o, s:I, s:I, s:I, s:b, s:I, s:I, s:I, s:o, s:o, s:o}", "name",
                     p->name, "pid", (int)getpid(), "consumer", (json_int_t)c->id, "fingerprint", fingerprint, "order",
                     leat_json_hex64(p->order), "program", leat_json_hex64(l->program), "batch_size",
                     (json_int_t)l->is.batch_rows, "rank", (json_int_t)l->loader->input.rank, "world_size",
                     (json_int_t)l->loader->input.world_size, "whole_batches", (int)l->whole, "memory_bytes",
                     (json_int_t)l->memory_bytes, "epoch", (json_int_t)at.epoch, "row", (json_int_t)at.row, "stacks",
                     leat_line_stacks(l->loader), "sparse", leat_line_sparse(l->loader), "about",
                     json_loads(p->about, 0, NULL));
}

static int admit(struct leat_port *p, struct leat_port_consumer *c, const struct leat_wish *wish,
                 struct leat_error *error)
{
    struct leat_line *l = NULL;
    json_t *said = json_loads(wish->text, JSON_REJECT_DUPLICATES, NULL);
    int rc = read_wish(c, said, error);
    rc = rc ? rc : choose_line(p, wish, said, &l, error);
    json_decref(said);
    if (c->gone && !rc)
        return LEAT_OK; /* meanwhile */
    rc = rc ? rc : fit(l, c, error);
    rc = rc ? rc : leat_channel_new(&c->channel, &c->channel_fd, error);
    if (!rc)
        leat_line_join(l, c);
    if (!rc && (c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        rc = leat_fail_errno(error, LEAT_E_IO, "the port cannot make a descriptor");
    if (rc)
        return rc;
    c->process = c->pid > 0 ? (int)syscall(SYS_pidfd_open, c->pid, 0) : -1; /* in another container: the socket alone */
    const bool failed = c->pid > 0 && c->process < 0 && (errno == EMFILE || errno == ENFILE);
    if (failed || leat_port_is_scarce(c->process) || leat_port_is_scarce(c->wake))
        return leat_port_full(error, LEAT_PORT_NO_FILES);
    if (!leat_port_watch(p, c->wake, LEAT_PORT_RETURNED, c->id) ||
        (c->process >= 0 && !leat_port_watch(p, c->process, LEAT_PORT_PROCESS, c->id)))
        return errno == ENOSPC ? leat_fail(error, LEAT_E_IO,
                                           "the port cannot watch one more consumer: raise fs.epoll.max_user_watches")
                               : leat_fail_errno(error, LEAT_E_IO, "the port cannot watch one more consumer");
    json_t *o = welcome(p, c);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (!text)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a consumer");
    const int fds[LEAT_MESSAGE_FDS] = {
        [LEAT_FD_MEMORY] = l->memory, [LEAT_FD_CHANNEL] = c->channel_fd, [LEAT_FD_WAKE] = c->wake};
    rc = leat_message_send(c->socket, LEAT_MESSAGE_WELCOME, wish->number, text, strlen(text), fds, LEAT_MESSAGE_FDS,
                           error);
    free(text);
    close(c->channel_fd); /* it is mapped, and sent */
    c->channel_fd = -1;
    if (!rc) /* apart, because it may be long */
        rc = leat_message_send(c->socket, LEAT_MESSAGE_REPLY, wish->number, l->outputs, strlen(l->outputs), NULL, 0,
                               error);
    return rc;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static struct leat_port_consumer *next_one(const struct leat_port *p)
{
    struct leat_port_consumer *first = NULL;
    for (struct leat_port_consumer *c = p->consumers; c; c = c->next)
        if (c->wish.text && !c->gone)
            first = c; /* the newest stands first in the list */
    return first;
}

void leat_wish_free(struct leat_wish *wish)
{
    leat_free(wish->text);
    if (wish->samples >= 0)
        close(wish->samples);
    *wish = (struct leat_wish){.samples = -1};
}

void *leat_port_admission(void *port)
{
    struct leat_port *p = port;
    struct leat_error error, unsent;
    pthread_mutex_lock(&p->lock);
    while (!p->closing) {
        if (leat_line_close_idle(p)) /* first: the next consumer may want its place, or the same seed */
            continue;
        struct leat_port_consumer *c = next_one(p);
        if (!c) {
            pthread_cond_wait(&p->admit, &p->lock);
            continue;
        }
        struct leat_wish wish = c->wish;
        c->wish = (struct leat_wish){.samples = -1};
        c->working++;
        if (admit(p, c, &wish, &error)) {
            leat_message_fail(c->socket, wish.number, &error, &unsent);
            c->gone = true;
        }
        c->working--;
        leat_wish_free(&wish);
        if (c->gone)
            leat_port_part(p, c);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}
