/* Lines: a loader of the port with its threads, opened when a consumer wants one, closed when nobody does. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/open.h"
#include "engine/scheduler.h"
#include "port/internal.h"

#define MOST_DECODED (UINT64_C(512) << 20)

/* ---- photos that lines share ----------------------------------------------------------------- */

/* The number of decodings of each photo now: by one line alone they are not shared. */
static void expect_users(struct leat_port *p)
{
    const uint64_t sixteenth = leat_memory_allowed() / 16;
    unsigned users = 0, lines = 0;
    for (const struct leat_line *l = p->lines; l; l = l->next)
        if (l->consumers && l->n_decodes) {
            users += l->n_decodes;
            lines++;
        }
    if (lines > 1 && !p->decoded)
        p->decoded = leat_decoded_new(sixteenth < MOST_DECODED ? sixteenth : MOST_DECODED);
    if (!p->decoded)
        return; /* each decodes for itself, as without memory for a store */
    leat_decoded_expect(p->decoded, lines > 1 ? users : 1);
    for (struct leat_line *l = p->lines; l; l = l->next)
        leat_loader_share_decoded(l->loader, p->decoded);
}

/* ---- its consumers --------------------------------------------------------------------------- */

void leat_line_join(struct leat_line *l, struct leat_port_consumer *c)
{
    c->line = l;
    c->next_in_line = l->consumers;
    l->consumers = c;
    if (!c->next_in_line)
        expect_users(l->port);
}

static void take_out(struct leat_line *l, struct leat_port_consumer *c)
{
    struct leat_port_consumer **at = &l->consumers;
    while (*at != c)
        at = &(*at)->next_in_line;
    *at = c->next_in_line;
    c->next_in_line = NULL;
}

void leat_line_leave(struct leat_port_consumer *c)
{
    struct leat_line *l = c->line;
    if (!l)
        return;
    leat_shelf_reclaim(l, c);
    take_out(l, c);
    c->line = NULL;
    if (!l->consumers)
        expect_users(l->port);
}

void leat_line_defer(struct leat_line *l, struct leat_port_consumer *c)
{
    struct leat_port_consumer **at = &l->consumers;
    take_out(l, c);
    while (*at)
        at = &(*at)->next_in_line;
    *at = c;
}

void leat_line_nudge(struct leat_line *l)
{
    pthread_cond_signal(&l->feed);
    pthread_cond_signal(&l->make);
}

const struct leat_error *leat_line_ended(const struct leat_line *l, struct leat_error *error)
{
    leat_fail(error, LEAT_E_CLOSED, "port \"%s\" cannot go on: %s", l->port->name, l->failure.message);
    return error;
}

void leat_line_fail(struct leat_line *l, const struct leat_error *why)
{
    struct leat_error ended, unsent;
    if (l->failure.code)
        return;
    l->failure = *why;
    leat_line_ended(l, &ended);
    for (struct leat_port_consumer *c = l->consumers; c; c = c->next_in_line) {
        leat_channel_end(c->channel);
        if (c->asks)
            leat_message_fail(c->socket, c->ask_number, &ended, &unsent);
        if (c->asks_order)
            leat_message_fail(c->socket, c->order_number, &ended, &unsent);
        c->asks = c->asks_order = false;
    }
    pthread_cond_broadcast(&l->port->stopped);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* The loader's memory as others may have it: it keeps its size, and through this descriptor nobody writes. */
static int share_memory(struct leat_line *l, struct leat_error *error)
{
    char path[40];
    int fd;
    int rc = leat_loader_region(l->loader, &fd, &l->memory_bytes, error);
    if (rc)
        return rc;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if ((fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) && errno != EPERM) || fchmod(fd, 0400) ||
        (l->memory = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return leat_fail_errno(error, LEAT_E_IO, "the memory of the loader cannot be shared");
    return LEAT_OK;
}

static int describe(struct leat_line *l, struct leat_error *error)
{
    const struct leat_program *program = l->loader->program;
    l->outputs = leat_program_faces(program);
    if (!l->outputs)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a port");
    if (strlen(l->outputs) > LEAT_MESSAGE_MOST)
        return leat_fail(error, LEAT_E_INVALID, "the outputs of the loader are too many to be described to others");
    l->program = leat_program_hash(program);
    for (size_t o = 0; o < leat_program_outputs(program); o++)
        l->n_decodes += leat_program_output(program, o)->decodes;
    l->whole = leat_program_has_batch_stage(program) || l->loader->pool.n_segments > 1;
    leat_served_look(l->loader, &l->is);
    l->feeds = l->is.at;
    l->seek = true;
    return LEAT_OK;
}

int leat_line_open(struct leat_port *p, struct leat_loader *loader, uint64_t key, struct leat_samples *samples,
                   struct leat_line **out, struct leat_error *error)
{
    *out = NULL;
    int rc = leat_served_check(loader, error);
    struct leat_line *l = rc ? NULL : leat_new(struct leat_line);
    if (!l)
        return rc ? rc : leat_fail(error, LEAT_E_NOMEM, "no memory for a port");
    l->port = p;
    l->loader = loader;
    l->key = key;
    l->samples = samples;
    l->memory = -1;
    leat_condition_init(&l->feed);
    leat_condition_init(&l->make);
    leat_lending_open(&l->lending);
    rc = share_memory(l, error);
    rc = rc ? rc : describe(l, error);
    rc = rc ? rc : leat_port_start(&l->threads, leat_line_feeder, leat_line_maker, l, error);
    if (rc) {
        leat_line_stop(l);
        l->samples = NULL; /* the caller's still, as the loader is */
        leat_line_close(l);
    } else {
        l->opened = true;
        *out = l;
    }
    return rc;
}

void leat_line_stop(struct leat_line *l)
{
    struct leat_port *p = l->port;
    pthread_mutex_lock(&p->lock);
    l->closing = true;
    pthread_cond_broadcast(&l->feed);
    pthread_cond_broadcast(&l->make);
    pthread_mutex_unlock(&p->lock);
    if (!l->threads.n)
        return;
    leat_loader_interrupt(l->loader);
    leat_port_join(&l->threads);
    if (l->opened)
        leat_served_end(l->loader); /* batches that others hold stay as they are, though they are given up here */
}

void leat_line_close(struct leat_line *l)
{
    leat_line_stop(l);
    while (l->consumers)
        leat_line_leave(l->consumers);
    leat_shelf_clear(l);
    if (l->memory >= 0)
        close(l->memory);
    pthread_cond_destroy(&l->feed);
    pthread_cond_destroy(&l->make);
    if (l->own)
        leat_loader_close(l->loader);
    leat_samples_free(l->samples);
    leat_free(l->outputs);
    leat_free(l);
}

/* ---- lines beside the first ------------------------------------------------------------------ */

static struct leat_line *lookup(struct leat_port *p, uint64_t program, uint64_t key)
{
    struct leat_line *l = p->lines;
    while (l && (l->program != program || l->key != key || l->samples))
        l = l->next;
    return l;
}

static int check_room(const struct leat_port *p, struct leat_error *error)
{
    return p->n_lines <= LEAT_PORT_MOST_LINES
               ? LEAT_OK
               : leat_fail(error, LEAT_E_HELD,
                           "port \"%s\" makes %u programs or orders beside its own for others, and no more; take one "
                           "of these, or open another port",
                           p->name, LEAT_PORT_MOST_LINES);
}

/* One more line, over a loader of its own. The lock is let go meanwhile. */
static int add(struct leat_port *p, const char *program, uint64_t key, struct leat_samples *samples,
               struct leat_line **out, struct leat_error *error)
{
    const struct leat_samples_order *order = samples ? samples->orders[0] : NULL;
    struct leat_own_list own = {0};
    struct leat_loader *base = p->lines->loader, *loader;
    struct leat_line **at = &p->lines, *l = NULL;
    if (samples)
        own = (struct leat_own_list){order ? order->at : samples->all, samples->n, samples->first, order != NULL};
    pthread_mutex_unlock(&p->lock);
    int rc = leat_loader_open_beside(base, program, key, samples ? &own : NULL, &loader, error);
    const bool opened = !rc;
    pthread_mutex_lock(&p->lock);
    rc = rc || !samples ? rc : leat_samples_begin(p, samples, loader, error);
    pthread_mutex_unlock(&p->lock);
    rc = rc ? rc : leat_line_open(p, loader, key, samples, &l, error);
    if (rc && opened)
        leat_loader_close(loader);
    pthread_mutex_lock(&p->lock);
    if (rc)
        return rc;
    l->own = true;
    while (*at)
        at = &(*at)->next;
    *at = l;
    p->n_lines++;
    *out = l;
    return LEAT_OK;
}

int leat_line_find(struct leat_port *p, const char *program, uint64_t key, struct leat_line **out,
                   struct leat_error *error)
{
    const struct leat_loader *base = p->lines->loader;
    uint64_t hash = p->lines->program;
    pthread_mutex_unlock(&p->lock);
    int rc = program ? leat_loader_hash_beside(base, program, &hash, error) : LEAT_OK;
    pthread_mutex_lock(&p->lock);
    *out = rc ? NULL : lookup(p, hash, key);
    if (rc || *out)
        return rc;
    rc = check_room(p, error);
    return rc ? rc : add(p, program, key, NULL, out, error);
}

int leat_line_open_samples(struct leat_port *p, const char *program, uint64_t key, struct leat_samples *samples,
                           struct leat_line **out, struct leat_error *error)
{
    int rc = check_room(p, error);
    if (rc)
        return rc;
    for (struct leat_line *other = p->lines; other;)
        if (other->samples && other->samples->seed == samples->seed && other->samples->turn == samples->turn) {
            samples->turn++;
            other = p->lines;
        } else {
            other = other->next;
        }
    return add(p, program, key, samples, out, error);
}

bool leat_line_close_idle(struct leat_port *p)
{
    struct leat_line **at = &p->lines->next;
    while (*at && (*at)->consumers)
        at = &(*at)->next;
    struct leat_line *l = *at;
    if (!l)
        return false;
    *at = l->next;
    p->n_lines--;
    pthread_mutex_unlock(&p->lock);
    leat_line_close(l);
    pthread_mutex_lock(&p->lock);
    return true;
}
