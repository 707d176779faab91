/*
 * Graphs of events (leat/temporal.h): the source of what is computed beside the fields of the events themselves. A
 * zipped data set joins both (zip.c), so that this source has computed fields only:
 *
 *     events    src dst t feat ...   |   temporal    src.nodes src.times ... neg neg.nodes ... src.pending src.last
 *
 * Values follow from the index, and a few from the batch that an event is a row of: which events of its nodes are in
 * it, and with which key its negatives are drawn. So the source is asked by `fill`, which is told of the batch.
 */
#include "leat/temporal.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/search.h"
#include "data/event_index.h"
#include "data/internal.h"
#include "format/fingerprint.h"
#include "io/guard.h"

enum side { SRC = 0, DST, NEG, SIDES };
enum what { NODES = 0, TIMES, EVENTS, COUNT, PENDING, LAST, DRAWN, WHATS };
enum { MOST_FIELDS = SIDES * 4 + 4 + 1, MOST_EACH = 1 << 20, FEW = 16 };
/* The instance of the operator that negatives would be: mixed with a row's key, or with an id (docs/events.md). */
#define DRAW_KEY UINT64_C(0x74656d706f72616c)

struct temporal {
    struct leat_source source;
    struct leat_dataset *events; /* in the order of their times */
    struct leat_event_index index;
    struct leat_temporal_options o;
    uint32_t *samples; /* of each event; NULL: they are the numbers of events */
    struct leat_field fields[MOST_FIELDS];
    struct {
        uint8_t what, side;
    } says[MOST_FIELDS];
    uint8_t storage[MOST_FIELDS];
};

static uint64_t sample_of(const struct temporal *t, uint64_t event)
{
    return t->samples ? t->samples[event] : event;
}

/* The event of a sample; `near`: one that it often stands behind. UINT64_MAX: it is none of those that were given. */
static uint64_t event_of(const struct temporal *t, uint64_t sample, uint64_t near)
{
    const uint64_t n = t->index.n;
    if (!t->samples)
        return sample;
    if (near + 1 < n && t->samples[near + 1] == sample)
        return near + 1;
    const uint64_t at = LEAT_BISECT(i, 0, n, t->samples[i] < sample);
    return at < n && t->samples[at] == sample ? at : UINT64_MAX;
}

/* ---- negatives -------------------------------------------------------------------------------- */

static int64_t draw(const struct temporal *t, uint64_t event, uint64_t key, uint64_t number)
{
    const struct leat_event_index *x = &t->index;
    if (t->o.how == LEAT_NEGATIVES_HISTORICAL) {
        const uint32_t v = leat_event_node(x, x->ends[event].src), own = x->pair[event];
        const uint32_t all = leat_event_past_before(x, v, x->tie[event]), without = all - (own < all);
        if (without) {
            const uint32_t at = (uint32_t)leat_draw_below(key, number, without);
            return x->past[x->past_begin[v] + at + (own < all && at >= own)].dst;
        }
    }
    return x->destinations[leat_draw_below(key, number, x->n_destinations)];
}

static int64_t negative(const struct temporal *t, uint64_t event, uint64_t key, uint32_t number)
{
    return t->o.given ? t->o.given[event * t->o.negatives + number] : draw(t, event, key, number);
}

/* ---- neighbours ------------------------------------------------------------------------------- */

/* Where the neighbours of one node go; NULL: not wanted. */
struct places {
    int64_t *nodes, *times, *events;
    int32_t *count;
};

static void put_neighbors(const struct temporal *t, uint32_t v, uint32_t end, uint32_t k, const struct places *to)
{
    const struct leat_event_index *x = &t->index;
    const uint32_t have = v == LEAT_NO_NODE ? 0 : end - x->begin[v], n = have < k ? have : k;
    const struct leat_event_side *s = x->sides + end;
    for (uint32_t i = 0; i < n && to->nodes; i++)
        to->nodes[i] = s[-1 - (int64_t)i].other;
    for (uint32_t i = n; i < k && to->nodes; i++)
        to->nodes[i] = t->o.fill;
    for (uint32_t i = 0; i < n && to->times; i++)
        to->times[i] = s[-1 - (int64_t)i].time;
    for (uint32_t i = n; i < k && to->times; i++)
        to->times[i] = 0;
    for (uint32_t i = 0; i < n && to->events; i++)
        to->events[i] = (int64_t)sample_of(t, s[-1 - (int64_t)i].event);
    for (uint32_t i = n; i < k && to->events; i++)
        to->events[i] = t->o.fill_events;
    if (to->count)
        *to->count = (int32_t)n;
}

/* ---- in the batch ----------------------------------------------------------------------------- */

/* The global batch of the rows at hand, in events. */
struct batch {
    uint64_t first, last;
    const struct leat_batch_rows *rows; /* with its samples, if it leaves some out between these */
};

/* Counts the sides of a node in [from, to) whose events are in the batch. If the batch leaves events out, its samples
 * are looked for among the sides, or the sides among its samples, whichever are fewer. */
static uint32_t in_batch(const struct temporal *t, const struct batch *b, uint32_t from, uint32_t to)
{
    const struct leat_event_side *s = t->index.sides;
    const struct leat_batch_rows *rows = b->rows;
    uint32_t n = 0;
    if (from >= to || !rows || !rows->samples)
        return from < to ? to - from : 0;
    const uint64_t first = LEAT_BISECT(k, 0, rows->n, rows->samples[k] < sample_of(t, s[from].event));
    const uint64_t last = sample_of(t, s[to - 1].event);
    if (to - from > rows->n)
        for (uint64_t k = first; k < rows->n && rows->samples[k] <= last; k++) {
            const uint32_t at = (uint32_t)LEAT_BISECT(i, from, to, sample_of(t, s[i].event) < rows->samples[k]);
            n += at < to && sample_of(t, s[at].event) == rows->samples[k];
        }
    else
        for (uint32_t i = from; i < to; i++) {
            const uint64_t sample = sample_of(t, s[i].event);
            const uint64_t at = LEAT_BISECT(k, first, rows->n, rows->samples[k] < sample);
            n += at < rows->n && rows->samples[at] == sample;
        }
    return n;
}

/* The first side of a node that is of an event from `first` on, which is at `own` or before: mostly a few. */
static uint32_t first_in_batch(const struct leat_event_index *x, uint32_t v, uint64_t first, uint32_t own)
{
    uint32_t at = own;
    while (at > x->begin[v] && own - at < FEW && x->sides[at - 1].event >= first)
        at--;
    return own - at < FEW ? at : leat_event_before_near(x, v, first, at);
}

static bool is_last(const struct temporal *t, const struct batch *b, uint32_t v, uint32_t own)
{
    const struct leat_event_index *x = &t->index;
    const uint32_t next = own + 1;
    if (next >= x->begin[v + 1] || x->sides[next].event > b->last)
        return true;
    return b->rows && b->rows->samples && !in_batch(t, b, next, leat_event_before_near(x, v, b->last + 1, next));
}

static void put_pending(const struct temporal *t, const struct batch *b, uint64_t event, int32_t node, int32_t *pending,
                        bool *last)
{
    const struct leat_event_index *x = &t->index;
    const bool inside = event >= b->first && event <= b->last;
    const uint32_t v = leat_event_node(x, node), own = leat_event_before(x, v, event);
    if (pending)
        *pending = inside ? (int32_t)in_batch(t, b, first_in_batch(x, v, b->first, own), own) : 0;
    if (last)
        *last = inside && is_last(t, b, v, own);
}

/* ---- rows ------------------------------------------------------------------------------------- */

struct filling {
    const struct temporal *t;
    struct batch batch;
    uint8_t *at[SIDES][WHATS]; /* of the first row; NULL: not wanted */
};

static void fill_side(const struct filling *f, enum side side, uint64_t event, uint64_t limit, uint64_t place,
                      int64_t node)
{
    const struct temporal *t = f->t;
    uint8_t *const *at = f->at[side];
    const uint64_t k = t->o.neighbors;
    if (at[NODES] || at[TIMES] || at[EVENTS] || at[COUNT]) {
        const uint32_t v = leat_event_node(&t->index, node);
        const uint32_t end = v == LEAT_NO_NODE ? 0 : leat_event_before(&t->index, v, limit);
        const struct places to = {.nodes = at[NODES] ? (int64_t *)(void *)at[NODES] + place * k : NULL,
                                  .times = at[TIMES] ? (int64_t *)(void *)at[TIMES] + place * k : NULL,
                                  .events = at[EVENTS] ? (int64_t *)(void *)at[EVENTS] + place * k : NULL,
                                  .count = at[COUNT] ? (int32_t *)(void *)at[COUNT] + place : NULL};
        put_neighbors(t, v, end, t->o.neighbors, &to);
    }
    if (at[PENDING] || at[LAST])
        put_pending(t, &f->batch, event, (int32_t)node, at[PENDING] ? (int32_t *)(void *)at[PENDING] + place : NULL,
                    at[LAST] ? (bool *)at[LAST] + place : NULL);
}

/* Negatives come one by one, so that no memory is needed for those of a row. */
static void fill_negatives(const struct filling *f, uint64_t event, uint64_t limit, uint64_t row, uint64_t key)
{
    const uint32_t m = f->t->o.negatives;
    for (uint32_t i = 0; i < m; i++) {
        const int64_t node = negative(f->t, event, key, i);
        if (f->at[NEG][DRAWN])
            ((int64_t *)(void *)f->at[NEG][DRAWN])[row * m + i] = node;
        fill_side(f, NEG, event, limit, row * m + i, node);
    }
}

/* What was asked for, and the sample that is none of the graph's. */
struct request {
    struct filling f;
    const uint64_t *samples;
    size_t n, failed;
    const struct leat_batch_rows *rows;
};

static int fill_rows(void *arg)
{
    struct request *q = arg;
    struct filling *f = &q->f;
    const struct temporal *t = f->t;
    const struct leat_event_index *x = &t->index;
    uint64_t event = UINT64_MAX - 1;
    if (q->rows) {
        f->batch = (struct batch){event_of(t, q->rows->first, event), event_of(t, q->rows->last, event), q->rows};
        if (f->batch.last == UINT64_MAX || f->batch.first > f->batch.last)
            return LEAT_E_INVALID;
    }
    for (size_t i = 0; i < q->n; i++) {
        q->failed = i;
        if ((event = event_of(t, q->samples[i], event)) >= x->n)
            return LEAT_E_INVALID;
        if (!q->rows)
            f->batch.first = f->batch.last = event;
        uint64_t limit = x->tie[event];
        if (t->o.before == LEAT_BEFORE_BATCH && event >= f->batch.first && x->tie[f->batch.first] < limit)
            limit = x->tie[f->batch.first];
        const uint64_t base = q->rows && !t->o.by_id ? q->rows->keys[i] : leat_key_mix(DRAW_KEY, q->samples[i]);
        fill_side(f, SRC, event, limit, i, x->ends[event].src);
        fill_side(f, DST, event, limit, i, x->ends[event].dst);
        fill_negatives(f, event, limit, i, leat_key_mix(base, DRAW_KEY));
    }
    return LEAT_OK;
}

static int temporal_fill(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                         size_t n, const struct leat_batch_rows *rows, uint8_t *const *to, size_t *failed,
                         struct leat_error *error)
{
    const struct temporal *t = (const struct temporal *)source;
    struct request q = {.f.t = t, .samples = samples, .n = n, .rows = rows};
    for (size_t i = 0; i < n_fields; i++)
        q.f.at[t->says[fields[i]].side][t->says[fields[i]].what] = to[i];
    const int rc = t->index.kept.file ? leat_guarded(fill_rows, &q, error) : fill_rows(&q);
    *failed = q.failed;
    return rc == LEAT_E_INVALID
               ? leat_fail(error, rc, "sample %" PRIu64 " is none of the graph's events", samples[q.failed])
               : rc;
}

static void temporal_close(struct leat_source *source)
{
    struct temporal *t = (struct temporal *)source;
    leat_dataset_release(t->events);
    leat_event_index_destroy(&t->index);
    leat_free(t->samples);
    if (t->o.release)
        t->o.release(t->o.user);
    leat_free(t);
}

static const struct leat_source_vtable temporal_vtable = {
    .name = "temporal", .close = temporal_close, .fill = temporal_fill};

/* ---- opening ---------------------------------------------------------------------------------- */

static void add_field(struct temporal *t, enum side side, enum what what, enum leat_dtype dtype, bool neighbors)
{
    static const char *const names[SIDES][WHATS] = {
        {"src.nodes", "src.times", "src.events", "src.count", "src.pending", "src.last", NULL},
        {"dst.nodes", "dst.times", "dst.events", "dst.count", "dst.pending", "dst.last", NULL},
        {"neg.nodes", "neg.times", "neg.events", "neg.count", NULL, NULL, "neg"}};
    const size_t at = t->source.n_fields++;
    struct leat_field *f = &t->fields[at];
    *f = (struct leat_field){.name = names[side][what], .kind = LEAT_KIND_ARRAY, .dtype = dtype};
    if (side == NEG)
        f->shape[f->ndim++] = t->o.negatives;
    if (neighbors)
        f->shape[f->ndim++] = t->o.neighbors;
    t->says[at].what = (uint8_t)what;
    t->says[at].side = (uint8_t)side;
    t->storage[at] = LEAT_STORAGE_COMPUTED;
}

static void add_fields(struct temporal *t, bool floats)
{
    if (t->o.negatives)
        add_field(t, NEG, DRAWN, LEAT_I64, false);
    for (int side = 0; side < (t->o.negatives ? SIDES : NEG) && t->o.neighbors; side++) {
        add_field(t, (enum side)side, NODES, LEAT_I64, true);
        add_field(t, (enum side)side, TIMES, floats ? LEAT_F64 : LEAT_I64, true);
        add_field(t, (enum side)side, EVENTS, LEAT_I64, true);
        add_field(t, (enum side)side, COUNT, LEAT_I32, false);
    }
    for (int side = 0; side < NEG && t->o.pending; side++) {
        add_field(t, (enum side)side, PENDING, LEAT_I32, false);
        add_field(t, (enum side)side, LAST, LEAT_BOOL, false);
    }
}

static int find_fields(const struct leat_dataset *events, size_t fields[3], struct leat_error *error)
{
    static const char *const names[] = {"src", "dst", "t"};
    size_t n;
    const struct leat_field *all = leat_dataset_fields(events, &n);
    for (size_t i = 0; i < 3; i++) {
        fields[i] = leat_dataset_field(events, names[i]);
        if (fields[i] == n)
            return leat_dataset_no_field(events, names[i], ", and events have src, dst (nodes) and t (a time)", error);
        const struct leat_field *f = &all[fields[i]];
        const bool whole = f->kind == LEAT_KIND_ARRAY && !f->ndim && f->dtype >= LEAT_U8 && f->dtype <= LEAT_I64;
        if (i == 2 && f->kind == LEAT_KIND_ARRAY && (f->dtype == LEAT_F32 || f->dtype == LEAT_F16))
            return leat_fail(error, LEAT_E_TYPE,
                             "field \"t\" is of %s, in which moments %s apart become one: give int64 or float64",
                             f->dtype == LEAT_F32 ? "float32" : "float16",
                             f->dtype == LEAT_F32 ? "up to 128 s of a Unix time" : "far");
        if (!whole && !(i == 2 && f->kind == LEAT_KIND_ARRAY && !f->ndim && f->dtype == LEAT_F64))
            return leat_fail(error, LEAT_E_TYPE, "field \"%s\" is no %s for each event", names[i],
                             i < 2 ? "whole number" : "int64 or float64");
    }
    return LEAT_OK;
}

/* Events of a view keep their ids: the graph is over all samples behind it, of which it knows these. */
static int number_samples(struct temporal *t, struct leat_error *error)
{
    const struct leat_dataset *d = t->events;
    if (!d->selected || !d->selection.ascending) {
        t->source.count = d->count;
        return LEAT_OK;
    }
    if (d->base->count > UINT32_MAX)
        return leat_fail(error, LEAT_E_RANGE, "a view of %" PRIu64 " samples: an index has at most 2^32",
                         d->base->count);
    if (!(t->samples = leat_alloc((size_t)(d->count + 1) * sizeof *t->samples)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the ids of %" PRIu64 " events", d->count);
    for (uint64_t i = 0; i < d->count; i++)
        t->samples[i] = (uint32_t)leat_dataset_id(d, i);
    t->source.count = d->base->count;
    return LEAT_OK;
}

static void make_fingerprint(struct temporal *t)
{
    const uint64_t given = (uint64_t)t->index.n * t->o.negatives * sizeof *t->o.given;
    uint8_t bytes[16];
    leat_dataset_fingerprint(t->events, bytes);
    uint64_t sample[2] = {leat_get_u64(bytes), leat_get_u64(bytes + 8)};
    const uint64_t says[] = {t->o.neighbors,
                             t->o.negatives,
                             (uint64_t)t->o.before,
                             (uint64_t)t->o.how,
                             (uint64_t)t->o.by_id,
                             (uint64_t)t->o.pending,
                             (uint64_t)t->o.fill,
                             (uint64_t)t->o.fill_events,
                             t->o.given ? leat_hash64(t->o.given, (size_t)given) : 0};
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        leat_fingerprint_value(sample, says[i]);
    leat_fingerprint_append(t->source.fingerprint, sample);
}

static int check_options(const struct leat_temporal_options *o, struct leat_error *error)
{
    if (o->neighbors > MOST_EACH || o->negatives > MOST_EACH ||
        (uint64_t)o->neighbors * (o->negatives ? o->negatives : 1) > MOST_EACH)
        return leat_fail(error, LEAT_E_INVALID,
                         "%" PRIu32 " neighbours and %" PRIu32 " negatives of each event: at most 2^20, and together",
                         o->neighbors, o->negatives);
    if ((unsigned)o->before > LEAT_BEFORE_BATCH || (unsigned)o->how > LEAT_NEGATIVES_HISTORICAL)
        return leat_fail(error, LEAT_E_INVALID, "before or how has a value that this version does not know");
    if (o->given && !o->negatives)
        return leat_fail(error, LEAT_E_INVALID, "negatives of one's own are at least one for each event");
    return LEAT_OK;
}

static int open_temporal(struct leat_dataset *events, const struct leat_temporal_options *o, struct leat_source **out,
                         struct leat_error *error)
{
    size_t fields[3];
    int rc = check_options(o, error);
    rc = rc ? rc : find_fields(events, fields, error);
    struct temporal *t = rc ? NULL : leat_new(struct temporal);
    if (!t)
        return rc ? rc : leat_fail(error, LEAT_E_NOMEM, "no memory for a graph of events");
    t->events = leat_dataset_retain(events);
    t->o = *o;
    t->o.release = NULL; /* not before all is well */
    t->source.v = &temporal_vtable;
    const bool past = o->how == LEAT_NEGATIVES_HISTORICAL && o->negatives && !o->given;
    rc = number_samples(t, error);
    rc = rc ? rc : leat_event_index_make(&t->index, events, fields, past, o->index_dir, error);
    if (rc) {
        temporal_close(&t->source);
        return rc;
    }
    add_fields(t, t->index.floats);
    make_fingerprint(t);
    t->source.path = "";
    t->source.fields = t->fields;
    t->source.storage = t->storage;
    t->source.metadata = "{}";
    t->source.notice = "";
    *out = &t->source;
    return LEAT_OK;
}

/* All samples that the ids of `events` are of, or these alone if the ids do not ascend. */
static int whole_of(struct leat_dataset *events, struct leat_dataset **out, struct leat_error *error)
{
    if (!events->selected || !events->selection.ascending) {
        *out = leat_dataset_retain(events);
        return LEAT_OK;
    }
    return leat_dataset_make(leat_base_retain(events->base), NULL, NULL, out, error);
}

/* The graph's rows: those of `events`. */
static int select_events(struct leat_dataset *all, const struct leat_dataset *events, struct leat_dataset **out,
                         struct leat_error *error)
{
    if (all->count == events->count) {
        *out = leat_dataset_retain(all);
        return LEAT_OK;
    }
    int64_t *ids = leat_new_array(events->count, sizeof *ids);
    if (!ids)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the ids of %" PRIu64 " events", events->count);
    for (uint64_t i = 0; i < events->count; i++)
        ids[i] = leat_dataset_id(events, i);
    const int rc = leat_dataset_select(all, ids, events->count, out, error);
    leat_free(ids);
    return rc;
}

int leat_dataset_temporal(struct leat_dataset *events, const struct leat_temporal_options *given,
                          struct leat_dataset **out, struct leat_error *error)
{
    static const char *const as_they_are[] = {"", ""};
    struct leat_temporal_options o = LEAT_TEMPORAL_OPTIONS_INIT;
    struct leat_source *source = NULL, *joined = NULL;
    struct leat_dataset *parts[2] = {NULL, NULL}, *all = NULL;
    *out = NULL;
    if (given && given->struct_size >= sizeof(size_t))
        memcpy(&o, given, given->struct_size < sizeof o ? given->struct_size : sizeof o);
    int rc = open_temporal(events, &o, &source, error);
    if (rc)
        return rc;
    struct temporal *t = (struct temporal *)source; /* the data set has it from here on */
    rc = leat_dataset_of_source(source, &parts[1], error);
    rc = rc ? rc : whole_of(events, &parts[0], error);
    rc = rc ? rc : leat_zip_open(parts, as_they_are, 2, false, NULL, 0, &joined, error);
    rc = rc ? rc : leat_dataset_of_source(joined, &all, error);
    rc = rc ? rc : select_events(all, events, out, error);
    if (!rc)
        t->o.release = o.release;
    leat_dataset_release(all);
    leat_dataset_release(parts[0]);
    leat_dataset_release(parts[1]);
    return rc;
}

/* ---- apart from batches ----------------------------------------------------------------------- */

/* The graph that some field is of, also one that was zipped; NULL: there is none. */
static const struct temporal *temporal_of(const struct leat_dataset *d)
{
    const struct leat_source *source = d->base->parts[0].source;
    const struct temporal *found = source->v == &temporal_vtable ? (const struct temporal *)source : NULL;
    for (size_t f = 0; d->base->n_parts == 1 && f < source->n_fields && !found; f++) {
        size_t field = f;
        const struct leat_dataset *behind = source->storage[f] ? NULL : source->v->behind(source, &field, NULL);
        found = behind ? temporal_of(behind) : NULL;
    }
    return found;
}

struct lookup {
    const struct temporal *t;
    const int64_t *nodes, *times;
    uint64_t n;
    uint32_t k;
    struct places to;
};

static int look_up(void *arg)
{
    const struct lookup *l = arg;
    for (uint64_t i = 0; i < l->n; i++) {
        const uint32_t v = leat_event_node(&l->t->index, l->nodes[i]);
        const struct places to = {.nodes = l->to.nodes ? l->to.nodes + i * l->k : NULL,
                                  .times = l->to.times ? l->to.times + i * l->k : NULL,
                                  .events = l->to.events ? l->to.events + i * l->k : NULL,
                                  .count = l->to.count ? l->to.count + i : NULL};
        put_neighbors(l->t, v, v == LEAT_NO_NODE ? 0 : leat_event_before_time(&l->t->index, v, l->times[i]), l->k, &to);
    }
    return LEAT_OK;
}

int leat_temporal_recent(const struct leat_dataset *graph, const int64_t *nodes, const void *times, uint64_t n,
                         uint32_t k, int64_t *nodes_out, void *times_out, int64_t *events_out, int32_t *count,
                         struct leat_error *error)
{
    const struct temporal *t = temporal_of(graph);
    if (!t)
        return leat_fail(error, LEAT_E_INVALID, "the data set is no graph of events");
    struct lookup l = {t, nodes, times, n, k, {nodes_out, times_out, events_out, count}};
    return leat_guarded(look_up, &l, error);
}

int leat_temporal_look(const struct leat_dataset *graph, bool *floats, uint64_t *events, uint64_t *nodes,
                       struct leat_error *error)
{
    const struct temporal *t = temporal_of(graph);
    if (!t)
        return leat_fail(error, LEAT_E_INVALID, "the data set is no graph of events");
    *floats = t->index.floats;
    *events = t->index.n;
    *nodes = t->index.n_nodes;
    return LEAT_OK;
}
