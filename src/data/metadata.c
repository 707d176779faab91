/*
 * Metadata of data sets that are joined. Metadata that are the same in all stay, else there are none; but counts of
 * records left out on the way to each of them ("skipped") add up:
 *
 *     {"records": 5, "on_open": 3, "tokenising": 2, "first": [{"file": "web.jsonl", "line": 7, ...}, ...]}
 *
 * Any other value of that name is one like all others. An entry whose records are all in the list of the other counts
 * once: shards of one run have its counts at their opening, and the last one those at the end.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "data/internal.h"

enum { COUNTS = 2, LISTED = 10 };

static const char *const names[COUNTS] = {"on_open", "tokenising"};

static bool read_counts(const json_t *skipped, uint64_t counts[COUNTS])
{
    const json_t *first = json_object_get(skipped, "first"), *one;
    size_t i;
    for (i = 0; i < COUNTS; i++)
        if (!leat_json_number(json_object_get(skipped, names[i]), INT64_MAX / 8, &counts[i]))
            return false;
    json_array_foreach(first, i, one) if (!json_is_object(one)) return false;
    return json_is_array(first);
}

static bool lists(const json_t *first, const json_t *record)
{
    const json_t *one;
    size_t i;
    json_array_foreach(first, i, one) if (json_equal(one, record)) return true;
    return false;
}

/* Whether `b` counts all that `a` does. */
static bool covers(const json_t *a, const uint64_t n[COUNTS], const json_t *b, const uint64_t m[COUNTS])
{
    const json_t *first = json_object_get(a, "first"), *one;
    size_t i;
    json_array_foreach(first, i, one) if (!lists(json_object_get(b, "first"), one)) return false;
    return json_array_size(first) && n[0] <= m[0] && n[1] <= m[1];
}

/* Both together, or NULL: there is no memory. */
static json_t *add(json_t *a, json_t *b)
{
    uint64_t n[COUNTS], m[COUNTS];
    read_counts(a, n);
    read_counts(b, m);
    if (covers(b, m, a, n))
        return json_incref(a);
    if (covers(a, n, b, m))
        return json_incref(b);
    json_t *first = json_copy(json_object_get(a, "first")), *one;
    size_t i;
    json_array_foreach(json_object_get(b, "first"), i, one)
    {
        if (json_array_size(first) < LISTED)
            json_array_append(first, one);
    }
    const json_int_t on_open = (json_int_t)(n[0] + m[0]), tokenising = (json_int_t)(n[1] + m[1]);
    return json_pack("{sI sI sI so}", "records", on_open + tokenising, names[0], on_open, names[1], tokenising, "first",
                     first);
}

/* Takes the records left out from the metadata; NULL: they have none. */
static json_t *take(json_t *metadata)
{
    uint64_t counts[COUNTS];
    json_t *found = json_object_get(metadata, "skipped");
    if (!read_counts(found, counts))
        return NULL;
    json_incref(found);
    json_object_del(metadata, "skipped");
    return found;
}

char *leat_metadata_join(const char *a, const char *b)
{
    json_t *one = json_loads(a, JSON_ALLOW_NUL, NULL), *two = json_loads(b, JSON_ALLOW_NUL, NULL), *first = take(one),
           *second = take(two), *both = first && second ? add(first, second) : json_incref(first ? first : second);
    if (!one || !two || !json_equal(one, two)) {
        json_decref(one);
        one = json_object();
    }
    if (both)
        json_object_set(one, "skipped", both);
    char *text = json_dumps(one, JSON_COMPACT), *out = text ? leat_strdup(text) : NULL;
    free(text);
    json_decref(both);
    json_decref(first);
    json_decref(second);
    json_decref(one);
    json_decref(two);
    return out;
}
