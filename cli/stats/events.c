/*
 * Events: who met whom, and when. Beside degrees and times, what a training by batches has to know: how many of the
 * (event, side) pairs of a batch have an earlier event of their node in it, which a memory that is brought up to date
 * between batches does not see.
 */
#include <stdlib.h>
#include <string.h>

#include "print.h"
#include "stats/stats.h"

enum { SRC, DST, TIME, COLUMNS };

static const uint64_t batches[] = {50, 200, 800, 3200};

struct events {
    uint64_t n, nodes;
    struct leat_value values[COLUMNS];
    uint64_t *ends[2]; /* the numbers of the nodes of each event, below `nodes` */
    struct cli_numbers degrees;
};

bool cli_stats_are_events(const struct leat_dataset *dataset, int fields[COLUMNS])
{
    static const char *const names[COLUMNS] = {"src", "dst", "t"};
    size_t n;
    const struct leat_field *all = leat_dataset_fields(dataset, &n);
    for (unsigned i = 0; i < COLUMNS; i++) {
        fields[i] = cli_field(dataset, names[i]);
        const struct leat_field *f = fields[i] < 0 ? NULL : &all[fields[i]];
        if (!f || f->kind != LEAT_KIND_ARRAY || f->ndim || (i != TIME && f->dtype != LEAT_I64 && f->dtype != LEAT_I32))
            return false;
    }
    return leat_dataset_count(dataset) > 0;
}

static int64_t whole_at(const struct leat_value *value, uint64_t i)
{
    return value->dtype == LEAT_I64 ? ((const int64_t *)value->data)[i] : ((const int32_t *)value->data)[i];
}

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Sorts and removes what occurs again. Returns how many are left. */
static uint64_t distinct(int64_t *at, uint64_t n)
{
    uint64_t kept = 0;
    qsort(at, (size_t)n, sizeof *at, by_number);
    for (uint64_t i = 0; i < n; i++)
        if (!kept || at[kept - 1] != at[i])
            at[kept++] = at[i];
    return kept;
}

/* Numbers the nodes from 0 on, in the order of their ids. False: no memory. */
static bool number_nodes(struct events *e)
{
    int64_t *ids = malloc((size_t)(2 * e->n) * sizeof *ids);
    if (!ids)
        return false;
    for (uint64_t i = 0; i < e->n; i++) {
        ids[2 * i] = whole_at(&e->values[SRC], i);
        ids[2 * i + 1] = whole_at(&e->values[DST], i);
    }
    e->nodes = distinct(ids, 2 * e->n);
    for (unsigned side = 0; side < 2; side++) {
        if (!(e->ends[side] = malloc((size_t)e->n * sizeof *e->ends[side])))
            break;
        for (uint64_t i = 0; i < e->n; i++) {
            const int64_t id = whole_at(&e->values[side], i);
            const int64_t *found = bsearch(&id, ids, (size_t)e->nodes, sizeof id, by_number);
            e->ends[side][i] = (uint64_t)(found - ids);
        }
    }
    free(ids);
    return e->ends[1];
}

/* How often each node occurs; an event of a node with itself counts once. */
static bool count_degrees(struct events *e)
{
    uint64_t *degrees = calloc((size_t)e->nodes, sizeof *degrees);
    bool good = degrees;
    for (uint64_t i = 0; good && i < e->n; i++) {
        degrees[e->ends[0][i]]++;
        degrees[e->ends[1][i]] += e->ends[0][i] != e->ends[1][i];
    }
    for (uint64_t k = 0; good && k < e->nodes; k++)
        good = cli_numbers_add(&e->degrees, (double)degrees[k]);
    free(degrees);
    return good;
}

/* Of all (event, side) pairs those whose node has an earlier event in their batch. */
static uint64_t count_pending(const struct events *e, uint64_t batch, uint64_t *seen, uint64_t *stamp)
{
    uint64_t found = 0;
    for (uint64_t i = 0; i < e->n; i++) {
        if (i % batch == 0)
            ++*stamp;
        uint64_t *const src = &seen[e->ends[0][i]], *const dst = &seen[e->ends[1][i]];
        found += (uint64_t)(*src == *stamp) + (uint64_t)(*dst == *stamp);
        *src = *dst = *stamp;
    }
    return found;
}

static json_t *pending_of(const struct events *e)
{
    uint64_t *seen = calloc((size_t)e->nodes, sizeof *seen), stamp = 0;
    json_t *list = seen ? json_array() : NULL;
    for (size_t i = 0; list && i < sizeof batches / sizeof *batches; i++) {
        const uint64_t found = count_pending(e, batches[i], seen, &stamp);
        json_array_append_new(
            list, json_pack("{sI sf}", "batch", (json_int_t)batches[i], "share", (double)found / (2 * (double)e->n)));
    }
    free(seen);
    return list;
}

/* Events whose src and dst, in this order, had one before. SIZE_MAX: no memory. */
static uint64_t count_repeated(const struct events *e)
{
    int64_t *pairs = malloc((size_t)e->n * sizeof *pairs);
    if (!pairs || e->nodes > UINT32_MAX) {
        free(pairs);
        return SIZE_MAX;
    }
    for (uint64_t i = 0; i < e->n; i++)
        pairs[i] = (int64_t)(e->ends[0][i] << 32 | e->ends[1][i]);
    const uint64_t kinds = distinct(pairs, e->n);
    free(pairs);
    return e->n - kinds;
}

static json_t *time_at(const struct events *e, uint64_t i)
{
    const struct leat_value *t = &e->values[TIME];
    return t->dtype == LEAT_I64 ? json_integer(whole_at(t, i)) : json_real(cli_element(t->dtype, t->data, (size_t)i));
}

static json_t *described(struct events *e, bool *short_of_memory)
{
    const struct leat_value *t = &e->values[TIME];
    const bool whole = t->dtype == LEAT_I64;
    uint64_t equal = 0, falls = 0, loops = 0, repeated;
    for (uint64_t i = 0; i < e->n; i++) {
        loops += e->ends[0][i] == e->ends[1][i];
        if (!i)
            continue;
        const double a = whole ? 0 : cli_element(t->dtype, t->data, (size_t)i - 1),
                     b = whole ? 0 : cli_element(t->dtype, t->data, (size_t)i);
        equal += whole ? whole_at(t, i) == whole_at(t, i - 1) : a == b;
        falls += whole ? whole_at(t, i) < whole_at(t, i - 1) : a > b;
    }
    json_t *pending = pending_of(e);
    repeated = count_repeated(e);
    *short_of_memory = !pending || repeated == SIZE_MAX || !count_degrees(e);
    if (*short_of_memory) {
        json_decref(pending);
        return NULL;
    }
    return json_pack("{sI sI so so sI sI sI sI so so}", "events", (json_int_t)e->n, "nodes", (json_int_t)e->nodes,
                     "first", time_at(e, 0), "last", time_at(e, e->n - 1), "equal_times", (json_int_t)equal,
                     "out_of_order", (json_int_t)falls, "self_loops", (json_int_t)loops, "repeated",
                     (json_int_t)repeated, "degree", cli_numbers_json(&e->degrees, true), "pending", pending);
}

json_t *cli_stats_events(const struct leat_dataset *dataset, const int fields[COLUMNS], bool *short_of_memory,
                         struct leat_error *error)
{
    struct events e = {.n = leat_dataset_count(dataset)};
    json_t *made = NULL;
    int rc = LEAT_OK;
    for (unsigned i = 0; i < COLUMNS && !rc; i++)
        rc = leat_dataset_column(dataset, (size_t)fields[i], false, true, &e.values[i], error);
    *short_of_memory = !rc && !number_nodes(&e);
    if (!rc && !*short_of_memory)
        made = described(&e, short_of_memory);
    for (unsigned i = 0; i < COLUMNS; i++)
        leat_value_clear(&e.values[i]);
    free(e.ends[0]);
    free(e.ends[1]);
    cli_numbers_clear(&e.degrees);
    return made;
}
