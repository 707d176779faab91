#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "engine/loader.h"
#include "io/file.h"
#include "io/interrupt.h"
#include "port/attached.h"
#include "port/folder.h"

#define MADE (UINT32_C(1) << 31) /* in the number of a MAKE: a late answer to one lends a batch */
#define SLICE_MS 100
#define ANSWER_MS 30000 /* a port answers at once, except for rows that it has to make */
#define END_MS 500      /* closing does not wait for one that is stopped: it keeps its batches a little longer */
#define TRY_AGAIN_NS 20000000

/* ---- loans ----------------------------------------------------------------------------------- */

static void unref(struct leat_session *s)
{
    if (--s->references)
        return;
    if (s->memory)
        munmap(s->memory, s->memory_bytes);
    leat_channel_unmap(s->channel);
    if (s->socket >= 0) {
        shutdown(s->socket, SHUT_RDWR); /* a child that was forked has it, too */
        close(s->socket);
    }
    if (s->wake >= 0)
        close(s->wake);
    leat_free(s);
}

static void wake_port(struct leat_session *s, bool all)
{
    if (leat_channel_should_wake(s->channel, s->out, all) && write(s->wake, &(uint64_t){1}, sizeof(uint64_t)) < 0)
        return; /* it is awake, or gone */
}

/* Pages that were written to are this process's own, and would hide the port's next writes there. */
static void forget_copies(const struct leat_lent *lent)
{
    const struct leat_session *s = lent->session;
    const struct leat_batch *b = lent->batch;
    for (size_t o = 0; b->rows && o < b->pool->n_outputs; o++) {
        const struct leat_output *output = leat_program_output(b->program, o);
        if (!b->views[o].data)
            continue;
        uint8_t *begin = b->views[o].data - leat_output_values(output, b->plan.rows);
        const uint64_t left = s->memory_bytes - (uint64_t)(begin - s->memory),
                       steps = output->ragged ? (uint64_t)b->views[o].offsets[b->rows] : 0,
                       bytes = leat_output_bytes(output, b->plan.rows, steps);
        madvise(begin, bytes < left ? bytes : left, MADV_DONTNEED);
    }
}

void leat_lent_unref(struct leat_lent *lent)
{
    struct leat_session *s = lent->session;
    if (--lent->references)
        return;
    if (lent->batch && s->writable)
        forget_copies(lent);
    if (lent->batch)
        leat_batch_recycle(lent->batch);
    leat_channel_return(s->channel, lent->slot);
    s->out--;
    wake_port(s, false);
    unref(s);
    leat_free(lent);
}

static int lend(struct leat_attached *a, const struct leat_given *given, struct leat_lent **out,
                struct leat_error *error)
{
    struct leat_session *s = a->session;
    struct leat_lent *lent = leat_new(struct leat_lent);
    if (!lent)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a batch");
    struct leat_published said;
    *lent = (struct leat_lent){.session = s, .slot = given->slot, .references = 1};
    leat_engine_lock();
    s->references++;
    s->out++;
    leat_engine_unlock();
    int rc =
        leat_published_read(s->memory, s->memory_bytes, given->offset, given->bytes, a->pool.n_outputs, &said, error);
    rc = rc ? rc : leat_published_batch(&said, s->memory, s->memory_bytes, &a->pool, &lent->batch, error);
    if (rc) {
        leat_engine_lock();
        leat_lent_unref(lent);
        leat_engine_unlock();
    }
    *out = rc ? NULL : lent;
    return rc;
}

int leat_session_take(struct leat_attached *a, struct leat_error *error)
{
    struct leat_session *s = a->session;
    struct leat_lent *lent;
    while (atomic_load_explicit(&s->channel->n_given, memory_order_acquire) != s->taken) {
        const struct leat_given given = s->channel->given[s->taken % LEAT_CHANNEL_RING];
        s->taken++;
        int rc = lend(a, &given, &lent, error);
        if (rc)
            return rc;
        if (given.stream != a->stream) { /* of before the last seek */
            leat_engine_lock();
            leat_lent_unref(lent);
            leat_engine_unlock();
            continue;
        }
        const struct leat_plan_batch *p = &lent->batch->plan;
        const bool last = p->epoch == a->known_epoch && p->begin + p->rows == a->known_rows;
        a->expected =
            last ? (struct leat_position){p->epoch + 1, 0} : (struct leat_position){p->epoch, p->begin + p->rows};
        *a->last = lent;
        a->last = &lent->next;
        return LEAT_OK;
    }
    return LEAT_IO_PENDING;
}

int leat_session_made(struct leat_attached *a, struct leat_lent **out, struct leat_error *error)
{
    struct leat_given given;
    const void *body = leat_message_body(a->message, sizeof given);
    if (!body)
        return leat_fail(error, LEAT_E_FORMAT, "the port answers with no batch");
    memcpy(&given, body, sizeof given);
    return lend(a, &given, out, error);
}

void leat_session_drop_first(struct leat_attached *a)
{
    struct leat_lent *lent = a->first;
    a->first = lent->next;
    if (!a->first)
        a->last = &a->first;
    leat_engine_lock();
    leat_lent_unref(lent);
    leat_engine_unlock();
}

int leat_session_wait(struct leat_attached *a, int64_t timeout_ns, struct leat_error *error)
{
    struct leat_session *s = a->session;
    struct leat_channel *c = s->channel;
    leat_engine_lock();
    const bool stuck =
        atomic_load(&c->starved) && atomic_load(&c->credit) == s->out && atomic_load(&c->n_given) == s->taken;
    const uint32_t out = s->out;
    if (!stuck)
        wake_port(s, true);
    leat_engine_unlock();
    if (stuck)
        return leat_fail(error, LEAT_E_HELD,
                         "%" PRIu32
                         " batches of port \"%s\" are held, which is what it lends to one consumer; let go of "
                         "some, or copy what is to be kept",
                         out, a->name);
    leat_channel_wait(c, s->taken, timeout_ns);
    return LEAT_OK;
}

/* ---- the connection -------------------------------------------------------------------------- */

static int ended(const struct leat_attached *a, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_CLOSED, "port \"%s\" has ended", a->name);
}

static int silent(const struct leat_attached *a, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_TIMEOUT,
                     "port \"%s\" has not answered for %d s: its process may be stopped, or very busy (leat port ls "
                     "shows its number)",
                     a->name, ANSWER_MS / 1000);
}

int leat_session_check(struct leat_attached *a, struct leat_error *error)
{
    struct leat_error why;
    if (!a->session)
        return ended(a, error);
    int rc = leat_message_take(a->session->socket, a->message, &why);
    if (rc == LEAT_IO_PENDING)
        return atomic_load(&a->session->channel->ended) ? ended(a, error) : LEAT_OK;
    if (!rc)
        leat_message_close(a->message);
    if (!rc && a->message->head.type == LEAT_MESSAGE_FAILED)
        return leat_message_error(a->message, error);
    return rc == LEAT_E_END || !rc ? ended(a, error) : leat_fail(error, rc, "%s", why.message);
}

/* An answer that came after its question was given up: a batch that is lent with it goes back. */
static void drop_answer(struct leat_attached *a)
{
    struct leat_lent *lent;
    struct leat_error none;
    if (!(a->message->head.number & MADE) || a->message->head.type != LEAT_MESSAGE_REPLY ||
        leat_session_made(a, &lent, &none))
        return;
    leat_engine_lock();
    leat_lent_unref(lent);
    leat_engine_unlock();
}

/* The answer to the question with that number, in slices: leat_attached_interrupt ends the wait. */
static int await_answer(struct leat_attached *a, uint32_t number, int64_t end, struct leat_error *error)
{
    const uint64_t interrupts = atomic_load(&a->reader.interrupts);
    for (;;) {
        const int64_t left = (end - leat_clock_ns()) / 1000000;
        int rc =
            leat_message_wait(a->session->socket, left < SLICE_MS ? left < 0 ? 0 : left : SLICE_MS, a->message, error);
        if (rc == LEAT_E_TIMEOUT && atomic_load(&a->reader.interrupts) != interrupts)
            return leat_fail(error, LEAT_E_CANCELLED, "interrupted");
        if (rc == LEAT_E_TIMEOUT && left > SLICE_MS)
            continue;
        if (rc)
            return rc;
        leat_message_close(a->message);
        if (a->message->head.number == number ||
            (a->message->head.type == LEAT_MESSAGE_FAILED && !a->message->head.number))
            return LEAT_OK; /* 0: not about the question, but the reason for the end of the connection */
        drop_answer(a);
    }
}

int leat_session_ask(struct leat_attached *a, enum leat_message_type type, const void *body, size_t bytes,
                     struct leat_error *error)
{
    struct leat_session *s = a->session;
    if (!s)
        return ended(a, error);
    s->number = (s->number + 1) & (MADE - 1);
    s->number += !s->number; /* 0 is of no question */
    const uint32_t number = s->number | (type == LEAT_MESSAGE_MAKE ? MADE : 0);
    struct leat_error why;
    int rc = leat_message_send(s->socket, type, number, body, bytes, NULL, 0, &why);
    if (rc && rc != LEAT_E_END) /* a port that has ended it may have said why */
        return leat_fail(error, rc, "%s", why.message);
    const int64_t timeout_ms = type == LEAT_MESSAGE_MAKE || type == LEAT_MESSAGE_ORDER ? -1
                               : type == LEAT_MESSAGE_END                              ? END_MS
                                                                                       : ANSWER_MS;
    rc = await_answer(a, number, leat_clock_deadline(timeout_ms), error);
    if (rc == LEAT_E_TIMEOUT)
        return silent(a, error);
    if (rc)
        return rc == LEAT_E_END ? ended(a, error) : rc;
    return a->message->head.type == LEAT_MESSAGE_FAILED ? leat_message_error(a->message, error) : LEAT_OK;
}

/* The port gives no more, and batches that it has given and nobody has taken go back. Held batches keep the connection,
 * without which the port would use that memory again. */
static void stop_giving(struct leat_attached *a)
{
    struct leat_session *s = a->session;
    struct leat_error error;
    leat_engine_lock();
    const bool held = s->out > 0 && !atomic_load(&s->channel->ended);
    leat_engine_unlock();
    if (!held || leat_session_ask(a, LEAT_MESSAGE_END, NULL, 0, &error))
        return;
    a->stream++; /* none of it is wanted */
    while (leat_session_take(a, &error) == LEAT_OK) {
    }
}

void leat_session_close(struct leat_attached *a)
{
    while (a->first)
        leat_session_drop_first(a);
    a->streams = false;
    if (!a->session)
        return;
    stop_giving(a);
    leat_engine_lock();
    unref(a->session);
    leat_engine_unlock();
    a->session = NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int map(struct leat_session *s, const struct leat_attached *a, struct leat_error *error)
{
    struct stat st;
    const int fd = a->message->fds[LEAT_FD_MEMORY];
    /* Memory that became shorter would end this process at a read. */
    if (fstat(fd, &st) || st.st_size <= 0 || !leat_channel_is_sealed(fd))
        return leat_fail(error, LEAT_E_FORMAT, "the port sent no memory that is sealed against resizing");
    s->memory_bytes = (uint64_t)st.st_size;
    /* Written to, private pages are copied; else writing ends the process, and cannot harm another one. */
    void *p = a->writable ? mmap(NULL, s->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0)
                          : mmap(NULL, s->memory_bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (p == MAP_FAILED)
        return leat_fail_errno(error, LEAT_E_NOMEM,
                               "cannot map %" PRIu64 " bytes of a port; the address space of this "
                               "process may be limited (ulimit -v)",
                               s->memory_bytes);
    s->memory = p;
    return LEAT_OK;
}

static int text_of(const json_t *o, const char *key, char *to, size_t room, struct leat_error *error)
{
    const char *text = json_string_value(json_object_get(o, key));
    if (!text || strlen(text) >= room)
        return leat_fail(error, LEAT_E_FORMAT, "the port does not say its %s", key);
    memcpy(to, text, strlen(text) + 1);
    return LEAT_OK;
}

/* The port's description of itself: taken over, or compared with the earlier one. */
static int take_welcome(struct leat_attached *a, const json_t *o, bool first, struct leat_position *at,
                        struct leat_error *error)
{
    char fingerprint[33], order[17], hash[17];
    uint64_t rows = 0, rank = 0, world = 0;
    int rc = text_of(o, "fingerprint", fingerprint, sizeof fingerprint, error);
    rc = rc ? rc : text_of(o, "order", order, sizeof order, error);
    rc = rc ? rc : text_of(o, "program", hash, sizeof hash, error);
    if (!rc && (!leat_json_number(json_object_get(o, "batch_size"), LEAT_MAX_GLOBAL_BATCH, &rows) || !rows ||
                !leat_json_number(json_object_get(o, "world_size"), UINT32_MAX, &world) || !world ||
                !leat_json_number(json_object_get(o, "rank"), world - 1, &rank) ||
                !leat_json_number(json_object_get(o, "epoch"), INT64_MAX, &at->epoch) ||
                !leat_json_number(json_object_get(o, "row"), INT64_MAX, &at->row)))
        rc = leat_fail(error, LEAT_E_FORMAT, "the port does not say which rows it makes, or where it stands");
    if (rc)
        return rc;
    if (!first &&
        (strcmp(fingerprint, a->fingerprint) != 0 || strcmp(order, a->order) != 0 || strcmp(hash, a->hash) != 0))
        return leat_fail(
            error, LEAT_E_CHANGED,
            "port \"%s\" was started again with another %s, and this consumer cannot go on with it: attach "
            "anew",
            a->name,
            strcmp(fingerprint, a->fingerprint) != 0 ? "data set"
            : strcmp(order, a->order) != 0           ? "order or seed"
                                                     : "program");
    memcpy(a->fingerprint, fingerprint, sizeof fingerprint);
    memcpy(a->order, order, sizeof order);
    memcpy(a->hash, hash, sizeof hash);
    a->port_cut = (struct leat_cut){
        .global_batch = rows, .rank = (uint32_t)rank, .world_size = (uint32_t)world, .tail = LEAT_TAIL_UNEVEN};
    a->whole = json_is_true(json_object_get(o, "whole_batches"));
    return LEAT_OK;
}

static int say_hello(struct leat_attached *a, struct leat_session *s, struct leat_error *error)
{
    json_t *o = json_pack("{s:s, s:I, s:I, s:I, s:b, s:s}", "want", "attach", "batch_size", (json_int_t)a->batch_rows,
                          "rank", (json_int_t)a->cut.rank, "world_size", (json_int_t)a->cut.world_size, "waits",
                          (int)(a->lag == LEAT_LAG_WAIT), "label", a->label);
    int fd = -1;
    int failed = !o || (a->key && json_object_set_new(o, "key", json_integer((json_int_t)a->key))) ||
                 (a->outputs && json_object_set_new(o, "outputs", json_string(a->outputs)));
    o = leat_json_whole(o, failed);
    int rc = a->own && o ? leat_own_say(a->own, o, &fd, error) : LEAT_OK;
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (!rc && !text)
        rc = leat_fail(error, LEAT_E_INVALID, "the label or the outputs of a consumer are no UTF-8");
    if (!rc && strlen(text) > LEAT_MESSAGE_MOST)
        rc = leat_fail(error, LEAT_E_INVALID, "outputs of %zu bytes are more than a port is told: %u at most",
                       strlen(a->outputs), LEAT_MESSAGE_MOST);
    rc = rc ? rc
            : leat_message_send(s->socket, LEAT_MESSAGE_HELLO, ++s->number, text, strlen(text), &fd, fd >= 0, error);
    free(text);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int expect(struct leat_attached *a, struct leat_session *s, enum leat_message_type type,
                  struct leat_error *error)
{
    int rc = leat_message_wait(s->socket, ANSWER_MS, a->message, error);
    if (rc == LEAT_E_TIMEOUT)
        return silent(a, error);
    if (rc)
        return rc;
    if (a->message->head.type == type)
        return LEAT_OK;
    leat_message_close(a->message);
    return a->message->head.type == LEAT_MESSAGE_FAILED
               ? leat_message_error(a->message, error)
               : leat_fail(error, LEAT_E_FORMAT, "the port answers with a message of type %u", a->message->head.type);
}

static int shake_hands(struct leat_attached *a, struct leat_session *s, bool first, struct leat_error *error)
{
    struct leat_position at = {0};
    int rc = say_hello(a, s, error);
    if (!rc || rc == LEAT_E_END) /* it may have said why */
        rc = expect(a, s, LEAT_MESSAGE_WELCOME, error);
    if (rc)
        return rc;
    if (a->message->fds[LEAT_FD_MEMORY] < 0 || a->message->fds[LEAT_FD_CHANNEL] < 0 ||
        a->message->fds[LEAT_FD_WAKE] < 0)
        rc = leat_fail(error, LEAT_E_FORMAT, "the port sends too few descriptors");
    rc = rc ? rc : map(s, a, error);
    rc = rc ? rc : leat_channel_map(a->message->fds[LEAT_FD_CHANNEL], &s->channel, error);
    if (!rc) {
        s->wake = a->message->fds[LEAT_FD_WAKE];
        a->message->fds[LEAT_FD_WAKE] = -1;
    }
    leat_message_close(a->message);
    if (rc)
        return rc;
    json_t *o = json_loadb(a->message->body, a->message->head.bytes, JSON_REJECT_DUPLICATES, NULL);
    rc = take_welcome(a, o, first, &at, error);
    json_decref(o);
    if (!rc && first) {
        a->about = leat_strdup(a->message->body);
        a->others = at;
        rc = a->about ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for a consumer");
    }
    rc = rc ? rc : expect(a, s, LEAT_MESSAGE_REPLY, error);
    if (!rc && first)
        rc = leat_program_of_faces(a->message->body, &a->program, error);
    return rc;
}

/* *absent: there is no port, or it has just ended; another one may come. */
static int open_once(struct leat_attached *a, bool first, bool *absent, struct leat_error *error)
{
    struct leat_session *s = leat_new(struct leat_session);
    *absent = false;
    if (!s)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a consumer");
    *s = (struct leat_session){.references = 1, .socket = -1, .wake = -1, .writable = a->writable};
    int rc = leat_place_connect(a->folder, a->name, &s->socket, error);
    *absent = rc == LEAT_E_NOT_FOUND;
    rc = rc ? rc : shake_hands(a, s, first, error);
    if (rc) {
        *absent |= rc == LEAT_E_END;
        unref(s);
        return rc == LEAT_E_END ? leat_fail(error, LEAT_E_NOT_FOUND, "port \"%s\" has just ended", a->name) : rc;
    }
    a->session = s;
    a->streams = false;
    a->reconnects += !first;
    return LEAT_OK;
}

int leat_session_open(struct leat_attached *a, bool first, struct leat_error *error)
{
    const int64_t end = leat_clock_deadline(a->patience_ms);
    const uint64_t interrupts = atomic_load(&a->reader.interrupts);
    bool absent;
    for (;;) {
        int rc = open_once(a, first, &absent, error);
        if (!absent || leat_clock_ns() >= end)
            return rc;
        if (leat_io_interrupted() || atomic_load(&a->reader.interrupts) != interrupts)
            return leat_fail(error, LEAT_E_CANCELLED, "interrupted");
        nanosleep(&(struct timespec){0, TRY_AGAIN_NS}, NULL);
    }
}
