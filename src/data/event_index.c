/*
 * Making the index of a graph of events: columns are read a part at a time and checked; then each side of each event
 * goes to its place among those of its node, in the order of events, by counting. No sorting: 10 million events take a
 * second or less.
 */
#include "data/event_index.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "base/search.h"
#include "data/internal.h"
#include "io/interrupt.h"
#include "kernels/values.h"

enum { PART = 1 << 14 };
/* Numbers of nodes that no event has take 4 bytes each; from so many times the events on, nodes are numbered anew. */
#define SPARSE 4

struct making {
    struct leat_event_index *x;
    const struct leat_dataset *events;
    const size_t *fields;
    struct leat_event_ends *ends;
    uint32_t *tie;
    int64_t *times, largest;
};

/* ---- columns ---------------------------------------------------------------------------------- */

static int at_event(const struct making *m, size_t column, uint64_t event, int rc, struct leat_error *error)
{
    size_t n;
    leat_error_at_sample(error, leat_dataset_id(m->events, event),
                         leat_dataset_fields(m->events, &n)[m->fields[column]].name);
    return rc;
}

static int take_node(struct making *m, size_t column, uint64_t event, int64_t node, struct leat_error *error)
{
    if (node < 0 || node > INT32_MAX)
        return at_event(m, column, event,
                        leat_fail(error, LEAT_E_CORRUPT,
                                  "event %" PRIu64 ": its %s is %" PRId64 ": nodes are numbers from 0 to 2^31 - 1",
                                  event, column ? "dst" : "src", node),
                        error);
    if (column)
        m->ends[event].dst = (int32_t)node;
    else
        m->ends[event].src = (int32_t)node;
    m->largest = node > m->largest ? node : m->largest;
    return LEAT_OK;
}

static int fell(const struct making *m, uint64_t event, const char *now, const char *before, struct leat_error *error)
{
    return at_event(m, 2, event,
                    leat_fail(error, LEAT_E_CORRUPT,
                              "event %" PRIu64
                              " is at time %s, before the event in front of it, at %s: events stand in "
                              "the order of their times; sort them (sort=True as a file is opened, or "
                              "ds.select(np.argsort(ds.column('t'), kind='stable')))",
                              event, now, before),
                    error);
}

static int take_time(struct making *m, uint64_t event, int64_t bits, struct leat_error *error)
{
    char now[40], before[40];
    bool falls = false;
    if (m->x->floats) {
        double t, last = 0;
        memcpy(&t, &bits, sizeof t);
        if (!isfinite(t))
            return at_event(m, 2, event,
                            leat_fail(error, LEAT_E_CORRUPT, "event %" PRIu64 ": its time is %f: no moment", event, t),
                            error);
        bits = t == 0 ? 0 : bits; /* -0 is 0 */
        if (event)
            memcpy(&last, &m->times[event - 1], sizeof last);
        falls = event && t < last;
        snprintf(now, sizeof now, "%.17g", t);
        snprintf(before, sizeof before, "%.17g", last);
    } else {
        falls = event && bits < m->times[event - 1];
        if (falls) {
            snprintf(now, sizeof now, "%" PRId64, bits);
            snprintf(before, sizeof before, "%" PRId64, m->times[event - 1]);
        }
    }
    if (falls)
        return fell(m, event, now, before, error);
    m->times[event] = bits;
    m->tie[event] = event && bits == m->times[event - 1] ? m->tie[event - 1] : (uint32_t)event;
    return LEAT_OK;
}

static int read_column(struct making *m, size_t column, struct leat_error *error)
{
    size_t n_fields;
    const struct leat_field *field = &leat_dataset_fields(m->events, &n_fields)[m->fields[column]];
    const size_t each = leat_dtype_size(field->dtype);
    const enum leat_dtype stored = field->dtype == LEAT_F64 ? LEAT_I64 : field->dtype; /* doubles stay bits */
    uint8_t *part = leat_alloc(PART * each);
    int64_t *values = leat_alloc(PART * sizeof *values);
    int rc = part && values ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory to read events");
    for (uint64_t at = 0; at < m->x->n && !rc; at += PART) {
        const uint64_t end = m->x->n - at < PART ? m->x->n : at + PART;
        if (leat_io_interrupted())
            rc = leat_fail(error, LEAT_E_CANCELLED, "making the index of events was interrupted");
        else
            rc = leat_dataset_gather(m->events, m->fields[column], at, end, each, part, NULL, NULL, error);
        if (!rc)
            leat_values_convert(stored, LEAT_I64, part, values, (size_t)(end - at));
        for (uint64_t e = at; e < end && !rc; e++) {
            const int64_t value = values[e - at]; /* of uint64, 2^63 and above wrap */
            if (column == 2 && field->dtype == LEAT_U64 && value < 0)
                rc = at_event(
                    m, 2, e, leat_fail(error, LEAT_E_CORRUPT, "event %" PRIu64 ": its time is beyond int64", e), error);
            else
                rc = column < 2 ? take_node(m, column, e, value, error) : take_time(m, e, value, error);
        }
    }
    leat_free(part);
    leat_free(values);
    return rc;
}

/* ---- nodes ------------------------------------------------------------------------------------ */

static int compare(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return x < y ? -1 : x > y;
}

/* Sorts, and keeps one of each. */
static uint64_t distinct(int32_t *list, uint64_t n)
{
    uint64_t k = 0;
    qsort(list, (size_t)n, sizeof *list, compare);
    for (uint64_t i = 0; i < n; i++)
        if (!k || list[i] != list[k - 1])
            list[k++] = list[i];
    return k;
}

static void keep(struct leat_event_index *x, size_t section, void *data, uint64_t count, size_t each)
{
    x->own[section] = data;
    x->kept.sections[section] = (struct leat_kept_section){data, count, (uint32_t)each};
}

/* Nodes by number, if the numbers are few enough; else a list of those that there are. */
static int number_nodes(struct making *m, struct leat_error *error)
{
    struct leat_event_index *x = m->x;
    x->n_nodes = x->n ? (uint64_t)m->largest + 1 : 0;
    if (x->n_nodes <= SPARSE * 2 * x->n + 65536)
        return LEAT_OK;
    int32_t *list = leat_new_array(2 * x->n, sizeof *list);
    if (!list)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the nodes of %" PRIu64 " events", x->n);
    for (uint64_t e = 0; e < x->n; e++) {
        list[2 * e] = m->ends[e].src;
        list[2 * e + 1] = m->ends[e].dst;
    }
    x->n_nodes = distinct(list, 2 * x->n);
    x->nodes = list;
    keep(x, LEAT_EVENT_NODES, list, x->n_nodes, sizeof *list);
    return LEAT_OK;
}

static int list_destinations(struct making *m, struct leat_error *error)
{
    struct leat_event_index *x = m->x;
    uint8_t *is = leat_new_array(x->n_nodes + 1, 1);
    if (!is)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the nodes of %" PRIu64 " events", x->n);
    for (uint64_t e = 0; e < x->n; e++) {
        uint8_t *one = &is[leat_event_node(x, m->ends[e].dst)];
        x->n_destinations += !*one;
        *one = 1;
    }
    int32_t *list = leat_new_array(x->n_destinations + 1, sizeof *list);
    for (uint64_t v = 0, k = 0; v < x->n_nodes && list; v++)
        if (is[v])
            list[k++] = x->nodes ? x->nodes[v] : (int32_t)v;
    leat_free(is);
    if (!list)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for %" PRIu64 " destinations", x->n_destinations);
    x->destinations = list;
    keep(x, LEAT_EVENT_DESTINATIONS, list, x->n_destinations, sizeof *list);
    return LEAT_OK;
}

/* ---- sides ------------------------------------------------------------------------------------ */

/* From counts to where each begins; the counts stand one place behind. */
static void sum(uint32_t *counts, uint64_t n)
{
    for (uint64_t v = 1; v <= n; v++)
        counts[v] += counts[v - 1];
}

static void put_sides(const struct making *m, struct leat_event_side *sides, uint32_t *next)
{
    for (uint64_t e = 0; e < m->x->n; e++) {
        const struct leat_event_ends at = m->ends[e];
        sides[next[leat_event_node(m->x, at.src)]++] = (struct leat_event_side){at.dst, (uint32_t)e, m->times[e]};
        if (at.dst != at.src)
            sides[next[leat_event_node(m->x, at.dst)]++] = (struct leat_event_side){at.src, (uint32_t)e, m->times[e]};
    }
}

static int make_sides(struct making *m, bool past, struct leat_error *error)
{
    struct leat_event_index *x = m->x;
    const uint64_t places = x->n_nodes + 1;
    uint32_t *begin = leat_new_array((past ? 2 : 1) * places, sizeof *begin);
    uint32_t *next = leat_new_array(places, sizeof *next);
    x->begin = begin;
    keep(x, LEAT_EVENT_BEGIN, begin, (past ? 2 : 1) * places, sizeof *begin);
    for (uint64_t e = 0; e < x->n && begin && next; e++) {
        begin[leat_event_node(x, m->ends[e].src) + 1]++;
        if (m->ends[e].src != m->ends[e].dst)
            begin[leat_event_node(x, m->ends[e].dst) + 1]++;
    }
    if (begin)
        sum(begin, x->n_nodes);
    struct leat_event_side *sides = begin ? leat_alloc((begin[x->n_nodes] + 1) * sizeof *sides) : NULL;
    if (sides && next) {
        x->sides = sides;
        keep(x, LEAT_EVENT_SIDES, sides, begin[x->n_nodes], sizeof *sides);
        memcpy(next, begin, places * sizeof *next);
        put_sides(m, sides, next);
    } else {
        leat_free(sides);
    }
    leat_free(next);
    return x->sides ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for the index of %" PRIu64 " events", x->n);
}

/* ---- the past of sources ---------------------------------------------------------------------- */

struct pairs {
    uint64_t *keys; /* source and destination; UINT64_MAX: free */
    uint32_t *numbers;
    uint64_t mask;
};

/* The place of a pair, or the free one where it belongs. */
static uint64_t find_pair(const struct pairs *p, uint64_t key)
{
    uint64_t at = leat_mix64(key) & p->mask;
    while (p->keys[at] != UINT64_MAX && p->keys[at] != key)
        at = (at + 1) & p->mask;
    return at;
}

/* Numbers each event's destination among those of its source, in the order in which they first come. */
static void number_pairs(const struct making *m, struct pairs *p, uint32_t *pair, uint32_t *counts)
{
    for (uint64_t e = 0; e < m->x->n; e++) {
        const uint64_t key = (uint64_t)(uint32_t)m->ends[e].src << 32 | (uint32_t)m->ends[e].dst;
        const uint64_t at = find_pair(p, key);
        if (p->keys[at] == UINT64_MAX) {
            p->keys[at] = key;
            p->numbers[at] = counts[leat_event_node(m->x, m->ends[e].src) + 1]++;
        }
        pair[e] = p->numbers[at];
    }
}

static int make_past(struct making *m, struct leat_error *error)
{
    struct leat_event_index *x = m->x;
    uint32_t *begin = (uint32_t *)x->own[LEAT_EVENT_BEGIN] + x->n_nodes + 1;
    struct pairs p = {.mask = 63};
    while (p.mask < 2 * x->n)
        p.mask = 2 * p.mask + 1;
    p.keys = leat_alloc((size_t)(p.mask + 1) * sizeof *p.keys);
    p.numbers = leat_alloc((size_t)(p.mask + 1) * sizeof *p.numbers);
    uint32_t *pair = leat_alloc((size_t)(x->n + 1) * sizeof *pair), *filled = leat_new_array(x->n_nodes + 1, 4);
    struct leat_event_past *past = NULL;
    if (p.keys && p.numbers && pair && filled) {
        memset(p.keys, 0xff, (size_t)(p.mask + 1) * sizeof *p.keys);
        number_pairs(m, &p, pair, begin);
        sum(begin, x->n_nodes);
        past = leat_alloc(((size_t)begin[x->n_nodes] + 1) * sizeof *past);
    }
    leat_free(p.keys);
    leat_free(p.numbers);
    for (uint64_t e = 0; e < x->n && past; e++) {
        const uint32_t v = leat_event_node(x, m->ends[e].src);
        if (pair[e] == filled[v]) /* the first event of its pair */
            past[begin[v] + filled[v]++] = (struct leat_event_past){m->ends[e].dst, (uint32_t)e};
    }
    leat_free(filled);
    keep(x, LEAT_EVENT_PAIR, pair, x->n, sizeof *pair);
    keep(x, LEAT_EVENT_PAST, past, past ? begin[x->n_nodes] : 0, sizeof *past);
    x->pair = pair;
    x->past = past;
    x->past_begin = begin;
    return past ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for the pairs of %" PRIu64 " events", x->n);
}

/* ---- making ----------------------------------------------------------------------------------- */

static int make(struct making *m, bool past, struct leat_error *error)
{
    struct leat_event_index *x = m->x;
    keep(x, LEAT_EVENT_ENDS, m->ends = leat_alloc((size_t)(x->n + 1) * sizeof *m->ends), x->n, sizeof *m->ends);
    keep(x, LEAT_EVENT_TIE, m->tie = leat_alloc((size_t)(x->n + 1) * sizeof *m->tie), x->n, sizeof *m->tie);
    m->times = leat_alloc((size_t)(x->n + 1) * sizeof *m->times);
    int rc = m->ends && m->tie && m->times ? LEAT_OK
                                           : leat_fail(error, LEAT_E_NOMEM, "no memory for %" PRIu64 " events", x->n);
    for (size_t column = 0; column < 3 && !rc; column++)
        rc = read_column(m, column, error);
    x->ends = m->ends;
    x->tie = m->tie;
    rc = rc ? rc : number_nodes(m, error);
    rc = rc ? rc : list_destinations(m, error);
    rc = rc ? rc : make_sides(m, past, error);
    rc = rc || !past ? rc : make_past(m, error);
    leat_free(m->times);
    return rc;
}

int leat_event_index_make(struct leat_event_index *x, const struct leat_dataset *events, const size_t fields[3],
                          bool past, const char *dir, struct leat_error *error)
{
    char path[4096];
    size_t n_fields;
    memset(x, 0, sizeof *x);
    x->n = leat_dataset_count(events);
    x->floats = leat_dataset_fields(events, &n_fields)[fields[2]].dtype == LEAT_F64;
    if (x->n > LEAT_MOST_EVENTS)
        return leat_fail(error, LEAT_E_RANGE, "%" PRIu64 " events: an index has at most 2^31 - 1 of them", x->n);
    const bool keeps = dir && leat_event_index_place(events, past, dir, path, sizeof path);
    const bool found = keeps && leat_event_index_load(x, events, past, path, false);
    struct making m = {.x = x, .events = events, .fields = fields};
    int rc = found ? LEAT_OK : make(&m, past, error);
    if (!rc && !(x->hints = leat_new_array(x->n_nodes + 1, sizeof *x->hints)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for the index of %" PRIu64 " events", x->n);
    if (!rc && keeps && !found)
        leat_event_index_save(x, events, past, path);
    if (rc)
        leat_event_index_destroy(x);
    return rc;
}

void leat_event_index_destroy(struct leat_event_index *x)
{
    for (size_t i = 0; i < LEAT_KEPT_SECTIONS; i++)
        leat_free(x->own[i]);
    leat_free(x->hints);
    leat_kept_release(&x->kept);
    memset(x, 0, sizeof *x);
}

/* ---- looking up ------------------------------------------------------------------------------- */

/* In steps that double, from `at` to a place on the other side of `event`; then by bisection between. */
uint32_t leat_event_before_near(const struct leat_event_index *x, uint32_t v, uint64_t event, uint32_t at)
{
    const struct leat_event_side *s = x->sides;
    uint32_t low = x->begin[v], high = x->begin[v + 1], step = 1;
    at = at < low ? low : at > high ? high : at;
    if (at < high && s[at].event < event) {
        for (low = at + 1; step < high - low && s[low + step].event < event; step *= 2)
            low += step + 1;
        high = step < high - low ? low + step : high;
    } else {
        for (high = at; step <= high - low && s[high - step].event >= event; step *= 2)
            high -= step;
        low = step <= high - low ? high - step : low;
    }
    return (uint32_t)LEAT_BISECT(i, low, high, s[i].event < event);
}

uint32_t leat_event_before(const struct leat_event_index *x, uint32_t v, uint64_t event)
{
    const uint32_t at = atomic_load_explicit(&x->hints[v], memory_order_relaxed);
    const uint32_t found = leat_event_before_near(x, v, event, at);
    if (found != at)
        atomic_store_explicit(&x->hints[v], found, memory_order_relaxed);
    return found;
}

static bool is_below(const struct leat_event_index *x, int64_t a, int64_t b)
{
    double p, q;
    if (!x->floats)
        return a < b;
    memcpy(&p, &a, sizeof p);
    memcpy(&q, &b, sizeof q);
    return p < q;
}

uint32_t leat_event_before_time(const struct leat_event_index *x, uint32_t v, int64_t time)
{
    return (uint32_t)LEAT_BISECT(i, x->begin[v], x->begin[v + 1], is_below(x, x->sides[i].time, time));
}

uint32_t leat_event_past_before(const struct leat_event_index *x, uint32_t v, uint64_t event)
{
    const uint32_t begin = x->past_begin[v];
    return (uint32_t)LEAT_BISECT(i, begin, x->past_begin[v + 1], x->past[i].event < event) - begin;
}
