/* The state of a port, as JSON; and asking a port of another process. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "engine/reader.h"
#include "port/internal.h"

#define PATIENCE_MS 5000
#define MOST_TEXT (UINT64_C(64) << 20)

/* ---- of this process ------------------------------------------------------------------------- */

static uint64_t held_bytes(const struct leat_port_consumer *c)
{
    uint64_t bytes = 0;
    for (uint32_t slot = 0; slot < LEAT_LENDING_SLOTS; slot++)
        bytes += leat_loan_has(&c->loan, slot) ? c->line->shelf[slot].bytes : 0;
    return bytes;
}

/* Rows of the plan from its position to the feeder; whole epochs between them count as many as this one has. */
static uint64_t lag_of(const struct leat_port_consumer *c, struct leat_position at, uint64_t epoch_rows)
{
    const struct leat_position feeds = c->line->feeds;
    if (!c->reads || !leat_position_precedes(at, feeds))
        return 0;
    return (feeds.epoch - at.epoch) * epoch_rows + feeds.row - at.row;
}

static json_int_t number_of(const struct leat_line *l)
{
    json_int_t n = 0;
    for (const struct leat_line *one = l->port->lines; one != l; one = one->next)
        n++;
    return n;
}

static json_t *of_consumer(const struct leat_port_consumer *c, uint64_t epoch_rows)
{
    const struct leat_channel *ch = c->channel;
    const struct leat_position at = {atomic_load(&ch->epoch), atomic_load(&ch->row)};
    const json_int_t lag = (json_int_t)(lag_of(c, at, epoch_rows) & INT64_MAX);
    return json_pack(
        "{s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "id",
        (json_int_t)c->id, "line", number_of(c->line), "pid", (json_int_t)c->pid, "label", c->label, "batch_size",
        (json_int_t)c->batch_size, "rank", (json_int_t)c->rank, "world_size", (json_int_t)c->world_size, "lag_policy",
        c->waits ? "wait" : "recompute", "epoch", (json_int_t)(at.epoch & INT64_MAX), "row",
        (json_int_t)(at.row & INT64_MAX), "lag_rows", lag, "held", (json_int_t)(atomic_load(&ch->held) & INT64_MAX),
        "held_bytes", (json_int_t)held_bytes(c), "granted", (json_int_t)c->loan.n, "recomputed",
        (json_int_t)c->recomputed, "batches", (json_int_t)(atomic_load(&ch->batches) & INT64_MAX), "samples",
        (json_int_t)(atomic_load(&ch->samples) & INT64_MAX), "bytes", (json_int_t)(atomic_load(&ch->bytes) & INT64_MAX),
        "waiting", (int)(atomic_load(&ch->sleeping) != 0));
}

/* For samples of its own: their number, and rows of the epoch that others have at the same time. */
static int put_samples(json_t *to, const struct leat_line *l)
{
    return !to || (l->samples && (json_object_set_new(to, "own_samples", json_integer((json_int_t)l->samples->n)) ||
                                  json_object_set_new(to, "shared", json_integer((json_int_t)leat_samples_shared(l)))));
}

static json_t *of_consumers(const struct leat_port *p)
{
    json_t *list = json_array();
    int failed = !list;
    for (const struct leat_port_consumer *c = p->consumers; !failed && c; c = c->next)
        if (c->line && !c->gone)
            failed = json_array_insert_new(list, 0, of_consumer(c, c->line->epoch_rows)) ||
                     put_samples(json_array_get(list, 0), c->line);
    return leat_json_whole(list, failed);
}

static json_t *of_line(const struct leat_line *l)
{
    json_int_t readers = 0;
    for (const struct leat_port_consumer *c = l->consumers; c; c = c->next_in_line)
        readers += !c->gone;
    return json_pack("{s:o*, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "program", leat_json_hex64(l->program),
                     "key", (json_int_t)l->key, "consumers", readers, "epoch", (json_int_t)l->feeds.epoch, "row",
                     (json_int_t)l->feeds.row, "published", (json_int_t)(LEAT_LENDING_SLOTS - l->lending.n_free),
                     "published_bytes", (json_int_t)l->bytes, "batches", (json_int_t)l->n_fed, "samples",
                     (json_int_t)l->n_rows, "recomputed", (json_int_t)l->n_made);
}

/* The sums of all lines, and the place of the one that is farthest. */
static int put_lines(const struct leat_port *p, json_t *to)
{
    static const char *const sums[] = {"published", "published_bytes", "batches", "samples", "recomputed"};
    json_int_t sum[5] = {0};
    struct leat_position at = p->lines->feeds;
    json_t *list = json_array();
    int failed = !list;
    for (const struct leat_line *l = p->lines; l && !failed; l = l->next) {
        json_t *line = of_line(l);
        for (int i = 0; i < 5; i++)
            sum[i] += json_integer_value(json_object_get(line, sums[i]));
        if (!l->samples && leat_position_precedes(at, l->feeds))
            at = l->feeds;
        failed = json_array_append_new(list, line);
    }
    failed = failed || json_object_set_new(to, "epoch", json_integer((json_int_t)at.epoch)) ||
             json_object_set_new(to, "row", json_integer((json_int_t)at.row));
    for (int i = 0; i < 5 && !failed; i++)
        failed = json_object_set_new(to, sums[i], json_integer(sum[i]));
    if (failed) {
        json_decref(list);
        return -1;
    }
    return json_object_set_new(to, "lines", list);
}

int leat_port_describe(struct leat_port *p, char **json, struct leat_error *error)
{
    char *loader = NULL;
    *json = NULL;
    int rc = leat_loader_stats(p->lines->loader, &loader, error);
    if (rc)
        return rc;
    json_t *stats = json_loads(loader, 0, NULL);
    leat_free(loader);
    pthread_mutex_lock(&p->lock);
    json_t *o = json_pack("{s:s, s:I, s:s, s:f, s:o*}", "name", p->name, "pid", (json_int_t)getpid(), "path",
                          p->place.address.sun_path, "uptime_s", (double)(leat_clock_ns() - p->opened_ns) / 1e9,
                          "loader", stats);
    int failed = !o || put_lines(p, o) || json_object_set_new(o, "consumers", of_consumers(p));
    pthread_mutex_unlock(&p->lock);
    return leat_reader_text(leat_json_whole(o, failed), json, error);
}

/* ---- of another process ---------------------------------------------------------------------- */

/* The contents of a REPLY, freed with leat_free. */
static int text_of(const struct leat_message *m, char **text, struct leat_error *error)
{
    const int fd = m->head.bytes ? -1 : m->fds[LEAT_FD_TEXT];
    uint64_t bytes = m->head.bytes;
    int rc = fd < 0 ? LEAT_OK : leat_message_sealed(fd, &bytes, error);
    if (rc)
        return rc;
    if (bytes > MOST_TEXT)
        return leat_fail(error, LEAT_E_FORMAT, "the port answers with a text of %" PRIu64 " bytes", bytes);
    char *to = leat_alloc(bytes + 1);
    if (!to)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for what a port does");
    if (fd < 0)
        memcpy(to, m->body, bytes);
    else
        rc = leat_message_unseal(fd, to, bytes, error);
    if (rc) {
        leat_free(to);
        return rc;
    }
    to[bytes] = 0;
    *text = to;
    return LEAT_OK;
}

static int ask(const char *folder, const char *name, const char *what, char **json, struct leat_error *error)
{
    int fd;
    int rc = leat_place_connect(folder, name, &fd, error);
    if (rc)
        return rc;
    struct leat_message *m = leat_new(struct leat_message);
    rc = m ? leat_message_send(fd, LEAT_MESSAGE_HELLO, 1, what, strlen(what), NULL, 0, error)
           : leat_fail(error, LEAT_E_NOMEM, "no memory for a message");
    if (!rc || rc == LEAT_E_END) /* it may have said why */
        rc = leat_message_wait(fd, PATIENCE_MS, m, error);
    if (!rc) {
        rc = m->head.type == LEAT_MESSAGE_REPLY    ? LEAT_OK
             : m->head.type == LEAT_MESSAGE_FAILED ? leat_message_error(m, error)
                                                   : leat_fail(error, LEAT_E_FORMAT, "the port does not answer");
        if (!rc && json)
            rc = text_of(m, json, error);
        leat_message_close(m);
    }
    leat_free(m);
    close(fd);
    return rc == LEAT_E_END ? leat_fail(error, LEAT_E_NOT_FOUND, "port \"%s\" has just ended", name) : rc;
}

int leat_port_ask_stat(const char *folder, const char *name, char **json, struct leat_error *error)
{
    *json = NULL;
    return ask(folder, name, "{\"want\":\"stat\"}", json, error);
}

int leat_port_stop(const char *folder, const char *name, struct leat_error *error)
{
    return ask(folder, name, "{\"want\":\"stop\"}", NULL, error);
}
