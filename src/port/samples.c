/*
 * Lines whose reader has samples of its own. Each epoch is an order of them that leat_dependent_order draws, as near as
 * can be to the order of another line at the same time; the reader asks for it, because its state has to have it.
 *
 *     this line     ... running epoch | next: drawn before the feeder comes to it ...
 *     followed      ... where it is then | what is read of it at the same time, if both keep their pace ...
 *
 * One line is followed in an epoch: the one of which most is expected from numbers alone (how many samples both have,
 * how many rows are left), never from which samples those are. So an order is a uniformly random permutation, whatever
 * pace the lines keep. All epochs of the port's own order, which are independent, are followed, but one of another
 * line's samples.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/random.h"
#include "engine/control.h"
#include "engine/side.h"
#include "port/internal.h"

#define TAG UINT64_C(0x6a6f696e74)
#define SOON 32     /* batches: more than a loader makes ahead */
#define MOST_RUNS 8 /* epochs of another line in one of this */

/* ---- orders that are kept -------------------------------------------------------------------- */

static void unref(struct leat_samples_order *order)
{
    if (order && atomic_fetch_sub(&order->references, 1) == 1)
        leat_free(order);
}

void leat_samples_free(struct leat_samples *s)
{
    if (!s)
        return;
    for (int i = 0; i < LEAT_PORT_ORDERS; i++)
        unref(s->orders[i]);
    leat_free(s->set);
    leat_free(s->all);
    leat_free(s);
}

static struct leat_samples_order *new_order(uint64_t epoch, uint64_t n)
{
    struct leat_samples_order *order = leat_alloc(sizeof *order + n * sizeof *order->at);
    if (order) {
        *order = (struct leat_samples_order){.epoch = epoch, .n = n};
        atomic_init(&order->references, 1);
    }
    return order;
}

static void keep(struct leat_samples *s, struct leat_samples_order *order)
{
    unref(s->orders[LEAT_PORT_ORDERS - 1]);
    memmove(s->orders + 1, s->orders, (LEAT_PORT_ORDERS - 1) * sizeof *s->orders);
    s->orders[0] = order;
}

static struct leat_samples_order *order_of(const struct leat_samples *s, uint64_t epoch)
{
    for (int i = 0; i < LEAT_PORT_ORDERS; i++)
        if (s->orders[i] && s->orders[i]->epoch == epoch)
            return s->orders[i];
    return NULL;
}

/* Their first epoch has this order. */
static int begin(struct leat_samples *s, const int64_t *order, struct leat_error *error)
{
    struct leat_samples_order *first = new_order(s->first, s->n);
    if (!first)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for an order");
    memcpy(first->at, order, s->n * sizeof *order);
    keep(s, first);
    return LEAT_OK;
}

/* ---- a consumer's word on them --------------------------------------------------------------- */

/* Whether positions are ids; or else these ascend. */
static int look_at_ids(const struct leat_dataset *d, uint64_t count, bool *same, struct leat_error *error)
{
    int64_t ids[1024], before = -1;
    *same = true;
    for (uint64_t first = 0, n; first < count; first += n) {
        n = count - first < 1024 ? count - first : 1024;
        int rc = leat_dataset_ids(d, first, n, ids, error);
        for (uint64_t i = 0; !rc && i < n; before = ids[i++]) {
            *same &= ids[i] == (int64_t)(first + i);
            if (ids[i] <= before)
                rc = leat_fail(error, LEAT_E_INVALID,
                               "samples of one's own are found where ids ascend, and those of this port's data set do "
                               "not: serve a view without an order of its own");
        }
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

static bool find(const struct leat_dataset *d, uint64_t count, bool same, int64_t id, int64_t *position)
{
    struct leat_error error;
    uint64_t low = 0, high = count;
    int64_t found = -1;
    if (id < 0 || (same && (uint64_t)id >= count))
        return false;
    *position = id;
    while (!same && low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (leat_dataset_ids(d, middle, 1, &found, &error))
            return false;
        *position = (int64_t)middle;
        if (found == id)
            return true;
        low = found < id ? middle + 1 : low;
        high = found < id ? high : middle;
    }
    return same;
}

static int to_positions(const struct leat_dataset *d, uint64_t count, int64_t *ids, uint64_t n,
                        struct leat_error *error)
{
    bool same = true;
    int rc = look_at_ids(d, count, &same, error);
    for (uint64_t i = 0; !rc && i < n; i++) {
        const int64_t id = ids[i];
        if (!find(d, count, same, id, &ids[i]))
            rc = leat_fail(error, LEAT_E_INVALID, "sample %" PRId64 " is not in the data set of this port", id);
    }
    return rc;
}

static bool mark(uint8_t *set, int64_t position)
{
    uint8_t *byte = &set[position / 8];
    const uint8_t bit = (uint8_t)(1u << (position % 8));
    const bool fresh = !(*byte & bit);
    *byte |= bit;
    return fresh;
}

static bool has(const uint8_t *set, uint64_t position)
{
    return set[position / 8] >> (position % 8) & 1;
}

static int fill(struct leat_samples *s, const int64_t *positions, struct leat_error *error)
{
    for (uint64_t i = 0; i < s->n; i++)
        if (!mark(s->set, positions[i]))
            return leat_fail(error, LEAT_E_INVALID,
                             "the sample at position %" PRId64 " is there twice, and is read once in an epoch",
                             positions[i]);
    for (uint64_t p = 0, i = 0; p < s->count; p++)
        if (has(s->set, p))
            s->all[i++] = (int64_t)p;
    return LEAT_OK;
}

/* Whether an order has each of them once. */
static int check_order(const struct leat_samples *s, const int64_t *order, struct leat_error *error)
{
    uint8_t *seen = leat_new_array(s->count / 8 + 1, 1);
    if (!seen)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for an order");
    int rc = LEAT_OK;
    for (uint64_t i = 0; !rc && i < s->n; i++)
        if (!has(s->set, (uint64_t)order[i]) || !mark(seen, order[i]))
            rc = leat_fail(error, LEAT_E_INVALID, "the order of an epoch does not have each sample once");
    leat_free(seen);
    return rc;
}

static int read_wish(const json_t *o, uint64_t *n, bool *ordered, uint64_t *seed, uint64_t *epoch,
                     struct leat_error *error)
{
    const char *text = json_string_value(json_object_get(o, "seed"));
    char *end = NULL;
    *seed = text ? strtoull(text, &end, 16) : 0;
    *ordered = json_is_true(json_object_get(o, "ordered"));
    return text && *text && !*end && leat_json_number(json_object_get(o, "samples"), INT64_MAX, n) &&
                   leat_json_number(json_object_get(o, "epoch"), INT64_MAX / 2, epoch)
               ? LEAT_OK
               : leat_fail(error, LEAT_E_FORMAT, "a consumer does not say which samples it wants");
}

int leat_samples_read(struct leat_loader *base, const json_t *wish, int fd, struct leat_samples **out,
                      struct leat_error *error)
{
    const struct leat_dataset *d = base->dataset;
    const uint64_t count = leat_dataset_count(d);
    uint64_t n = 0, seed = 0, epoch = 0;
    bool ordered = false;
    *out = NULL;
    int rc = read_wish(wish, &n, &ordered, &seed, &epoch, error);
    if (!rc && (!n || n > count || n >= UINT32_MAX))
        rc = leat_fail(error, LEAT_E_INVALID, "%" PRIu64 " samples of one's own of a data set of %" PRIu64, n, count);
    if (rc)
        return rc;
    struct leat_samples *s = leat_new(struct leat_samples);
    int64_t *ids = leat_new_array(n, (1 + ordered) * sizeof *ids);
    if (s) {
        *s = (struct leat_samples){.n = n, .count = count, .seed = seed, .first = epoch};
        s->set = leat_new_array(count / 8 + 1, 1);
        s->all = leat_new_array(n, sizeof *s->all);
    }
    rc = s && ids && s->set && s->all ? leat_message_unseal(fd, ids, n * (1 + ordered) * sizeof *ids, error)
                                      : leat_fail(error, LEAT_E_NOMEM, "no memory for %" PRIu64 " samples", n);
    rc = rc ? rc : to_positions(d, count, ids, n * (1 + ordered), error);
    rc = rc ? rc : fill(s, ids, error);
    rc = rc || !ordered ? rc : check_order(s, ids + n, error);
    rc = rc || !ordered ? rc : begin(s, ids + n, error);
    leat_free(ids);
    if (rc)
        leat_samples_free(s);
    else
        *out = s;
    return rc;
}

/* ---- the order of an epoch ------------------------------------------------------------------- */

static uint64_t next_epoch(const struct leat_samples *s)
{
    return s->orders[0] ? s->orders[0]->epoch + 1 : s->first;
}

uint64_t leat_samples_shared(const struct leat_line *l)
{
    const struct leat_samples_order *order = order_of(l->samples, l->feeds.epoch);
    return order ? order->shared : 0;
}

/* ---- whom to follow -------------------------------------------------------------------------- */

/* The samples of a line that are read while the next epoch of this one is: rows from `at` on. */
struct partner {
    struct leat_line *line; /* only while the lock is held */
    struct leat_position at;
    double expected;                  /* rows in common */
    struct leat_samples_order *order; /* of its own samples; else, of the port's order, */
    struct leat_loader *loader;
    uint64_t rows; /* ... of each epoch */
};

/* Whether a consumer reads it, or is about to. */
static bool is_read(const struct leat_line *l)
{
    for (const struct leat_port_consumer *c = l->consumers; c; c = c->next_in_line)
        if (!c->gone && (c->reads || (l->samples && !c->stream)))
            return true;
    return false;
}

/* The position of the consumer farthest ahead, as far as its word is plausible. The feeder is ahead of that, by about
 * as much in each line. */
static struct leat_position stands(const struct leat_line *l)
{
    struct leat_position most = {0}, at;
    for (const struct leat_port_consumer *c = l->consumers; c; c = c->next_in_line) {
        if (!c->reads || c->gone)
            continue;
        at.epoch = atomic_load_explicit(&c->channel->epoch, memory_order_relaxed);
        at.row = atomic_load_explicit(&c->channel->row, memory_order_relaxed);
        most = leat_position_precedes(most, at) ? at : most;
    }
    return leat_position_precedes(l->feeds, most) || most.epoch + 2 < l->feeds.epoch || most.row >> 62 ? l->feeds
                                                                                                       : most;
}

static uint64_t in_common(const struct leat_samples *a, const struct leat_samples *b)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < a->count / 8 + 1; i++)
        n += (uint64_t)__builtin_popcount((unsigned)(a->set[i] & b->set[i]));
    return n;
}

/* Rows that its reader reads before the next epoch. */
static uint64_t rows_before(const struct leat_line *l)
{
    const struct leat_position at = stands(l);
    const uint64_t next = next_epoch(l->samples), n = l->samples->n;
    return at.epoch < next && at.row <= n ? (next - at.epoch) * n - at.row : 0;
}

/* Another line's samples: its running epoch, or the next one if that comes first. */
static bool look_at_samples(const struct leat_samples *s, struct leat_line *other, uint64_t before, struct partner *out)
{
    const uint64_t n = other->samples->n;
    struct leat_position at = stands(other);
    at.row += before;
    for (int i = 0; i < 4 && at.row >= n; i++)
        at = (struct leat_position){at.epoch + 1, at.row - n};
    struct leat_samples_order *order = order_of(other->samples, at.epoch);
    if (!order || at.row >= n)
        return false;
    const double left = (double)(n - at.row), own = (double)s->n;
    const double common = (double)in_common(s, other->samples) * left / (double)n;
    *out = (struct partner){.line = other,
                            .at = at,
                            .order = order,
                            .expected = common / (left > own ? left : own) * (left < own ? left : own)};
    return true;
}

static bool look_at_order(const struct leat_samples *s, struct leat_line *other, uint64_t before, struct partner *out)
{
    const uint64_t n = s->count;
    if (!leat_served_is_shuffled(other->loader))
        return false;
    const struct leat_position at = stands(other);
    const uint64_t row = at.row + before;
    const double share = (double)s->n / (double)n; /* it has them all */
    *out = (struct partner){.line = other,
                            .at = {at.epoch + row / n, row % n},
                            .loader = other->port->lines->loader,
                            .rows = n,
                            .expected = share * (double)s->n};
    return true;
}

/* The line to follow in an epoch that begins after so many rows of the others. */
static struct partner choose(const struct leat_port *p, const struct leat_samples *s, uint64_t before)
{
    struct partner best = {0}, found;
    for (struct leat_line *other = p->lines; other; other = other->next)
        if (other->samples != s && is_read(other) &&
            (other->samples ? look_at_samples(s, other, before, &found) : look_at_order(s, other, before, &found)) &&
            found.expected > best.expected)
            best = found;
    if (best.order)
        atomic_fetch_add(&best.order->references, 1);
    return best;
}

/* For the port's order: epochs until `n` rows are there. */
static int read_epochs(const struct partner *p, uint64_t n, struct leat_dependent_run *runs, size_t *n_runs,
                       int64_t **memory, struct leat_error *error)
{
    uint64_t rows = 0, begin = 0;
    *n_runs = 0;
    for (struct leat_position at = p->at; begin < n && *n_runs < MOST_RUNS;
         at = (struct leat_position){at.epoch + 1, 0}) {
        runs[*n_runs] = (struct leat_dependent_run){.n = p->rows - at.row, .begin = begin};
        begin += runs[(*n_runs)++].n;
    }
    rows = begin;
    if (!(*memory = leat_new_array(rows, sizeof **memory)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the orders of others");
    int rc = LEAT_OK;
    for (size_t r = 0; !rc && r < *n_runs; r++) {
        runs[r].ids = *memory + runs[r].begin;
        const uint64_t epoch = p->at.epoch + r;
        const uint64_t row = r ? 0 : p->at.row, n_rows = runs[r].n; /* what lies before may be folded */
        const struct leat_plan_batch rest = {
            .epoch = epoch, .at = {epoch, row}, .begin = row, .global_rows = n_rows, .rows = n_rows};
        const struct leat_planned_rows to = {.positions = *memory + runs[r].begin};
        rc = leat_side_planned(p->loader, &rest, 0, n_rows, to, error);
    }
    return rc;
}

/* ---- drawing --------------------------------------------------------------------------------- */

/* Without the lock. */
static int draw(const struct leat_samples *s, const struct partner *p, struct leat_samples_order *to,
                struct leat_error *error)
{
    struct leat_dependent_run runs[MOST_RUNS];
    size_t n_runs = 0;
    int64_t *memory = NULL;
    int rc = LEAT_OK;
    if (p->order)
        runs[n_runs++] = (struct leat_dependent_run){.ids = p->order->at + p->at.row, .n = p->order->n - p->at.row};
    else if (p->loader)
        rc = read_epochs(p, s->n, runs, &n_runs, &memory, error);
    const uint64_t key = leat_key_mix(leat_key_mix(leat_key_mix(s->seed, TAG), s->turn), to->epoch);
    rc = rc ? rc : leat_dependent_order(s->all, s->n, runs, n_runs, key, to->at, &to->shared, error);
    leat_free(memory);
    return rc;
}

/* Draws the next epoch, for its loader. The lock is let go meanwhile. */
static int draw_next(struct leat_port *port, struct leat_samples *s, struct leat_loader *loader, uint64_t before,
                     struct leat_error *error)
{
    struct partner p = choose(port, s, before);
    struct leat_samples_order *order = new_order(next_epoch(s), s->n);
    pthread_mutex_unlock(&port->lock);
    int rc = order ? draw(s, &p, order, error) : leat_fail(error, LEAT_E_NOMEM, "no memory for an order");
    rc = rc ? rc : leat_loader_give_list(loader, order->epoch, order->at, s->n, error);
    pthread_mutex_lock(&port->lock);
    unref(p.order);
    if (rc)
        unref(order);
    else
        keep(s, order);
    return rc;
}

int leat_samples_begin(struct leat_port *port, struct leat_samples *s, struct leat_loader *loader,
                       struct leat_error *error)
{
    return s->orders[0] ? LEAT_OK : draw_next(port, s, loader, 0, error);
}

/* Whether the feeder comes to an epoch that is not drawn, or will soon. */
static bool is_due(const struct leat_line *l)
{
    const uint64_t next = next_epoch(l->samples), n = l->samples->n, row = l->feeds.row;
    return l->feeds.epoch >= next ||
           (is_read(l) && l->feeds.epoch + 1 == next && row >= n / 2 && n - row <= SOON * l->is.batch_rows);
}

static void answer(struct leat_port_consumer *c, const struct leat_samples *s, struct leat_error *error)
{
    struct leat_error unsent;
    const struct leat_reply_rows rows = {s->n};
    const int rc = order_of(s, c->order_epoch)
                       ? LEAT_OK
                       : leat_fail(error, LEAT_E_RANGE, "epoch %" PRIu64 " is not the next one", c->order_epoch);
    c->asks_order = false;
    if (rc ? leat_message_fail(c->socket, c->order_number, error, &unsent)
           : leat_message_send(c->socket, LEAT_MESSAGE_REPLY, c->order_number, &rows, sizeof rows, NULL, 0, &unsent))
        leat_port_part(c->line->port, c);
}

static bool is_asked(const struct leat_line *l)
{
    const uint64_t next = next_epoch(l->samples);
    for (const struct leat_port_consumer *c = l->consumers; c; c = c->next_in_line)
        if (c->asks_order && !c->gone && c->order_epoch == next && next <= l->feeds.epoch + 1)
            return true;
    return false;
}

bool leat_samples_work(struct leat_line *l)
{
    struct leat_error error;
    const bool asked = is_asked(l), due = asked || is_due(l);
    bool done = false;
    if (due && draw_next(l->port, l->samples, l->loader, asked ? 0 : rows_before(l), &error)) {
        if (!l->closing)
            leat_line_fail(l, &error);
        return false;
    }
    for (struct leat_port_consumer *c = l->consumers; c; c = c->next_in_line)
        if (c->asks_order && !c->gone) {
            answer(c, l->samples, &error);
            done = true;
        }
    return due || done;
}
