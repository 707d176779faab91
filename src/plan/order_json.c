/*
 * The order of a plan's opening in a state: per source an object, or, for a mixture of many sources, a column of
 * numbers for each of their properties (numbers.c), and one hash for all that is too long to stand there.
 */
#include "plan/order_json.h"

#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/random.h"
#include "plan/fair.h"
#include "plan/groups.h"
#include "plan/hash.h"
#include "plan/lengths.h"
#include "plan/list.h"
#include "plan/members.h"
#include "plan/numbers.h"
#include "plan/packed.h"
#include "plan/weighted.h"

static const char *const order_names[] = {"sequential", "shuffled", "blocks", "weighted", "list"};
static const char *const exhausted_names[] = {"stop", "redistribute", "repeat"};

static json_t *source_json(const struct leat_plan *p, uint32_t k)
{
    const struct leat_source_order *s = &p->sources[k];
    json_t *o = json_object();
    int bad = json_object_set_new(o, "count", json_integer((json_int_t)s->count));
    bad |= json_object_set_new(o, "order", json_string(order_names[s->order]));
    if (s->order == LEAT_ORDER_BLOCKS)
        bad |= json_object_set_new(o, "block_rows", json_integer((json_int_t)s->block_rows));
    if (s->block_window)
        bad |= json_object_set_new(o, "block_window", json_integer((json_int_t)s->block_window));
    if (s->order == LEAT_ORDER_WEIGHTED) {
        bad |= json_object_set_new(o, "num_samples", json_integer((json_int_t)s->rows));
        bad |= json_object_set_new(o, "replacement", json_boolean(s->replacement));
        bad |= json_object_set_new(o, "hash", leat_json_hex64(s->weights->hash));
    }
    if (s->order == LEAT_ORDER_LIST) {
        bad |= json_object_set_new(o, "n", json_integer((json_int_t)s->list->n));
        bad |= json_object_set_new(o, "hash", leat_json_hex64(s->list->hash));
    }
    if (s->packing) {
        bad |= json_object_set_new(o, "packed_length", json_integer((json_int_t)s->packing->length));
        bad |= json_object_set_new(o, "packed_hash", leat_json_hex64(s->packing->hash));
    }
    if (s->groups) {
        bad |= json_object_set_new(o, "groups", json_integer((json_int_t)s->groups->n));
        bad |= json_object_set_new(o, "groups_hash", leat_json_hex64(s->groups->hash));
    }
    if (s->members)
        bad |= json_object_set_new(o, "members_hash", leat_json_hex64(s->members->hash));
    if (p->mixed)
        bad |= json_object_set_new(o, "exhausted", json_string(exhausted_names[s->exhausted]));
    if (s->limit)
        bad |= json_object_set_new(o, "limit", json_integer((json_int_t)(s->limit & INT64_MAX)));
    if (p->tokens)
        bad |= json_object_set_new(o, "tokens", json_integer((json_int_t)p->tokens[k]));
    if (p->fair)
        bad |= json_object_set_new(o, "tokens_hash", leat_json_hex64(leat_lengths_hash(s->lengths)));
    return leat_json_whole(o, bad);
}

/* ---- many sources ------------------------------------------------------------------------------------------------ */

enum column { COUNT, ORDER, BLOCK_ROWS, BLOCK_WINDOW, PACKED_LENGTH, EXHAUSTED, LIMIT, TOKENS };

static int64_t number_of(const struct leat_plan *p, uint32_t k, enum column column)
{
    const struct leat_source_order *s = &p->sources[k];
    switch (column) {
    case COUNT:
        return (int64_t)s->count;
    case ORDER:
        return s->order;
    case BLOCK_ROWS:
        return s->order == LEAT_ORDER_BLOCKS ? (int64_t)s->block_rows : 0;
    case BLOCK_WINDOW:
        return (int64_t)s->block_window;
    case PACKED_LENGTH:
        return s->packing ? (int64_t)s->packing->length : 0;
    case EXHAUSTED:
        return s->exhausted;
    case LIMIT:
        return (int64_t)(s->limit & INT64_MAX);
    default:
        return p->tokens ? (int64_t)p->tokens[k] : 0;
    }
}

static uint64_t hash_of(const struct leat_plan *p)
{
    uint64_t h = 0;
    for (uint32_t k = 0; k < p->n_sources; k++) {
        const struct leat_source_order *s = &p->sources[k];
        h = leat_key_mix(leat_key_mix(h, s->rows), s->replacement);
        h = leat_key_mix(h, s->packing ? s->packing->hash : 0);
        h = leat_key_mix(h, s->weights ? s->weights->hash : s->list ? s->list->hash : 0);
        h = leat_key_mix(h, p->fair ? leat_lengths_hash(s->lengths) : 0);
        h = s->members ? leat_key_mix(h, s->members->hash) : h;
    }
    return h;
}

/* One number or name if all are the same. */
static json_t *column_json(const int64_t *numbers, uint32_t n, const char *const *names)
{
    bool same = true;
    for (uint32_t k = 1; k < n && same; k++)
        same = numbers[k] == numbers[0];
    return !same   ? leat_numbers_json(numbers, n, true)
           : names ? json_string(names[numbers[0]])
                   : json_integer(numbers[0]);
}

static json_t *columns_json(const struct leat_plan *p)
{
    static const struct {
        const char *name;
        enum column column;
    } columns[] = {{"count", COUNT},
                   {"order", ORDER},
                   {"block_rows", BLOCK_ROWS},
                   {"block_window", BLOCK_WINDOW},
                   {"packed_length", PACKED_LENGTH},
                   {"exhausted", EXHAUSTED},
                   {"limit", LIMIT},
                   {"tokens", TOKENS}};
    json_t *o = json_object();
    int64_t *numbers = leat_new_array(p->n_sources, sizeof *numbers);
    int bad = !numbers || json_object_set_new(o, "n", json_integer(p->n_sources));
    for (size_t c = 0; !bad && c < sizeof columns / sizeof *columns; c++) {
        bool some = columns[c].column <= ORDER || columns[c].column == EXHAUSTED;
        for (uint32_t k = 0; k < p->n_sources; k++)
            some |= (numbers[k] = number_of(p, k, columns[c].column)) != 0;
        const char *const *names = columns[c].column == ORDER       ? order_names
                                   : columns[c].column == EXHAUSTED ? exhausted_names
                                                                    : NULL;
        if (some)
            bad |= json_object_set_new(o, columns[c].name, column_json(numbers, p->n_sources, names));
    }
    bad |= json_object_set_new(o, "hash", leat_json_hex64(hash_of(p)));
    leat_free(numbers);
    return leat_json_whole(o, bad);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

json_t *leat_order_json(const struct leat_plan *p)
{
    json_t *o = json_object(), *sources = leat_numbers_listed(p->n_sources) ? json_array() : columns_json(p);
    int bad = !sources;
    for (uint32_t k = 0; leat_numbers_listed(p->n_sources) && k < p->n_sources; k++)
        bad |= json_array_append_new(sources, source_json(p, k));
    bad |= json_object_set_new(o, "sources", sources);
    if (p->mixed)
        bad |= json_object_set_new(o, "epoch_rows", json_integer((json_int_t)p->epoch_rows));
    if (p->n_points) {
        bad |= json_object_set_new(o, "schedule", leat_json_hex64(leat_plan_schedule_hash(p)));
        bad |= json_object_set_new(o, "points", json_integer(p->n_points));
    }
    return leat_json_whole(o, bad);
}

uint64_t leat_order_samples(const json_t *order)
{
    const json_t *sources = json_object_get(order, "sources"), *source, *counts = json_object_get(sources, "count");
    uint64_t sum = 0;
    size_t i;
    json_array_foreach(sources, i, source) sum += (uint64_t)json_integer_value(json_object_get(source, "count"));
    const json_int_t n = json_integer_value(json_object_get(sources, "n"));
    if (n <= 0 || n > LEAT_PLAN_MAX_SOURCES)
        return sum;
    if (json_is_integer(counts))
        return (uint64_t)json_integer_value(counts) * (uint64_t)n;
    int64_t *numbers = NULL;
    if (!leat_numbers_read(counts, (uint32_t)n, "", &numbers, NULL))
        for (json_int_t k = 0; k < n; k++)
            sum += (uint64_t)numbers[k];
    leat_free(numbers);
    return sum;
}

static json_t *without_lengths(const json_t *order)
{
    json_t *copy = json_deep_copy(order), *source;
    size_t i;
    json_array_foreach(json_object_get(copy, "sources"), i, source) json_object_del(source, "packed_hash");
    return copy;
}

bool leat_order_differs_in_lengths(const json_t *a, const json_t *b)
{
    json_t *one = without_lengths(a), *other = without_lengths(b);
    const bool same = one && other && json_equal(one, other) && !json_equal(a, b);
    json_decref(one);
    json_decref(other);
    return same;
}
