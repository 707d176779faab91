#include "engine/reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"

#define STATE_VERSION 1

uint64_t leat_reader_next_epoch(const struct leat_reader *r)
{
    return r->loaded ? r->epoch : r->has_next_epoch ? r->next_epoch : r->started ? r->epoch + 1 : r->epoch;
}

uint64_t leat_reader_epoch(const struct leat_reader *r)
{
    return r->started && !r->told_end ? r->epoch : leat_reader_next_epoch(r);
}

uint64_t leat_reader_begin(struct leat_reader *r)
{
    r->started = true;
    r->loaded = r->ended = r->told_end = r->has_next_epoch = false;
    return ++r->iteration;
}

bool leat_reader_set_epoch(struct leat_reader *r, uint64_t epoch)
{
    const bool other = r->loaded && r->epoch != epoch;
    if (!r->loaded || other) {
        r->next_epoch = epoch;
        r->has_next_epoch = true;
        r->loaded = false;
    }
    return other;
}

void leat_reader_load(struct leat_reader *r)
{
    r->iteration++;
    r->loaded = true;
    r->started = r->ended = r->has_next_epoch = false;
}

/* ---- states ---------------------------------------------------------------------------------- */

json_t *leat_reader_state(const struct leat_reader_run *run, struct leat_position at,
                          const struct leat_state_number *numbers, size_t n)
{
    json_t *o = json_pack("{s:s, s:i, s:s, s:s, s:{s:I, s:I}}", "reader", run->kind, "state", STATE_VERSION,
                          "fingerprint", run->fingerprint, "order", run->order, "at", "epoch", (json_int_t)at.epoch,
                          "row", (json_int_t)at.row);
    int failed = !o;
    for (size_t i = 0; i < n; i++)
        failed |= json_object_set_new(o, numbers[i].name, json_integer((json_int_t)numbers[i].value));
    return leat_json_whole(o, failed);
}

int leat_reader_text(json_t *value, char **text, struct leat_error *error)
{
    char *dumped = value ? json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(value);
    *text = dumped ? leat_strdup(dumped) : NULL;
    free(dumped);
    return *text ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for a state");
}

int leat_reader_read(const struct leat_reader_run *run, const json_t *state, struct leat_position *at,
                     struct leat_state_number *numbers, size_t n, struct leat_error *error)
{
    uint64_t version = 0;
    const char *print = json_string_value(json_object_get(state, "fingerprint")),
               *order = json_string_value(json_object_get(state, "order")),
               *kind = json_string_value(json_object_get(state, "reader"));
    const json_t *where = kind ? json_object_get(state, "at") : state, *row = json_object_get(where, "row");
    bool whole = print && order && (!kind || !strcmp(kind, run->kind)) &&
                 leat_json_number(json_object_get(state, kind ? "state" : run->kind), INT64_MAX, &version) &&
                 leat_json_number(json_object_get(where, "epoch"), INT64_MAX, &at->epoch) &&
                 leat_json_number(row ? row : json_object_get(where, "rows"), INT64_MAX, &at->row);
    for (size_t i = 0; i < n; i++)
        whole = whole && leat_json_number(json_object_get(state, numbers[i].name), INT64_MAX, &numbers[i].value);
    if (!whole)
        return leat_fail(error, LEAT_E_INVALID, "%s", run->not_one);
    if (version != STATE_VERSION)
        return leat_fail(error, LEAT_E_STATE, "the state is of a later version, %" PRIu64, version);
    if (strcmp(print, run->fingerprint) != 0 || strcmp(order, run->order) != 0)
        return leat_fail(error, LEAT_E_STATE, "the state is of another %s",
                         strcmp(print, run->fingerprint) != 0 ? "data set" : "order or seed");
    return LEAT_OK;
}
