#include "engine/reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "engine/batch.h"
#include "engine/interrupt.h"
#include "engine/scheduler.h"
#include "io/file.h"

#define STATE_VERSION 1

/* ---- epochs ---------------------------------------------------------------------------------- */

uint64_t leat_reader_next_epoch(const struct leat_reader *r)
{
    return r->loaded ? r->epoch : r->has_next_epoch ? r->next_epoch : r->started ? r->epoch + 1 : r->epoch;
}

uint64_t leat_reader_epoch(const struct leat_reader *r)
{
    return r->started && !r->told_end ? r->epoch : leat_reader_next_epoch(r);
}

void leat_reader_load(struct leat_reader *r)
{
    r->iteration++;
    r->loaded = true;
    r->started = r->ended = r->has_next_epoch = false;
}

int leat_consumer_start(struct leat_consumer *c, uint64_t *iteration, struct leat_error *error)
{
    struct leat_reader *r = leat_reader_of(c);
    int rc = r->kind->lock(r, error);
    if (rc)
        return rc;
    rc = r->kind->start(r, error);
    if (!rc) {
        r->started = true;
        r->loaded = r->ended = r->told_end = r->has_next_epoch = false;
        *iteration = ++r->iteration;
    }
    r->kind->unlock(r);
    return rc;
}

int leat_consumer_set_epoch(struct leat_consumer *c, uint64_t epoch, bool *dropped, struct leat_error *error)
{
    struct leat_reader *r = leat_reader_of(c);
    int rc = r->kind->lock(r, error);
    if (rc)
        return rc;
    const bool other = r->loaded && r->epoch != epoch;
    if (!r->loaded || other) {
        r->next_epoch = epoch;
        r->has_next_epoch = true;
        r->loaded = false;
    }
    if (dropped)
        *dropped = other;
    r->kind->unlock(r);
    return LEAT_OK;
}

uint64_t leat_consumer_epoch(const struct leat_consumer *c)
{
    leat_engine_lock();
    const uint64_t epoch = leat_reader_epoch(leat_reader_of(c));
    leat_engine_unlock();
    return epoch;
}

int leat_consumer_steps(const struct leat_consumer *c, uint64_t *steps, struct leat_error *error)
{
    struct leat_reader *r = leat_reader_of(c);
    *steps = 0;
    return r->kind->steps(r, steps, error);
}

/* ---- the next batch -------------------------------------------------------------------------- */

void leat_reader_drop(struct leat_reader *r)
{
    struct leat_batch *b = r->peeked;
    r->peeked = NULL;
    leat_batch_free(b);
}

int leat_reader_late(struct leat_error *error)
{
    return leat_fail(error, LEAT_E_TIMEOUT, "no batch was ready in time; calling again goes on waiting");
}

static struct leat_stand stand_of(const struct leat_reader *r)
{
    struct leat_stand stand = {.step = r->step, .ended = r->ended};
    if (r->kind->stand)
        r->kind->stand(r, &stand);
    return stand;
}

static void go(struct leat_reader *r, const struct leat_stand *to)
{
    r->step = to->step;
    r->ended = to->ended;
    if (r->kind->go)
        r->kind->go(r, to);
}

/* Why the next batch will not come, or LEAT_OK; PENDING: not now. */
static int check(struct leat_reader *r, const struct leat_request *q, struct leat_error *error)
{
    int rc = r->kind->ready ? r->kind->ready(r, q, error) : LEAT_OK;
    if (rc && rc != LEAT_IO_PENDING)
        return rc;
    if (!r->started && q->peek && !q->await)
        return leat_fail(error, LEAT_E_INVALID, "no epoch has begun, of which this could be the next batch");
    if (!r->started || q->iteration != r->iteration)
        return leat_fail(error, LEAT_E_CLOSED,
                         "a newer iteration of this %s has begun, or a state was loaded: iterate over it anew",
                         r->kind->name);
    if (atomic_load(&r->interrupts) != q->interrupts)
        return leat_fail(error, LEAT_E_CANCELLED, "interrupted");
    return r->ended ? LEAT_E_END : rc;
}

/* The next batch, if it is there now. */
static int find_next(struct leat_reader *r, struct leat_request *q, struct leat_batch **out, struct leat_error *error)
{
    const struct leat_stand before = stand_of(r);
    q->fresh = !r->peeked || r->unseen;
    if (!q->peek) {
        r->before = before;
        r->handed = 0;
    }
    if (!r->peeked && !q->peek)
        return r->kind->take(r, q, out, error);
    if (!r->peeked) {
        int rc = r->kind->take(r, q, &r->peeked, error);
        if (rc || !r->peeked)
            return rc;
        r->behind = stand_of(r);
        go(r, &before);
        r->unseen = q->await;
    }
    if (q->await)
        return LEAT_OK;
    r->unseen = false;
    *out = r->peeked;
    if (q->peek) {
        leat_batch_retain(*out);
    } else {
        r->peeked = NULL;
        go(r, &r->behind);
    }
    return LEAT_OK;
}

static int next(struct leat_reader *r, struct leat_request *q, struct leat_batch **out, struct leat_error *error)
{
    for (;;) {
        leat_error_clear(error);
        int rc = check(r, q, error);
        rc = rc ? rc : find_next(r, q, out, error);
        if (rc == LEAT_E_END && !q->peek)
            r->ended = r->told_end = true;
        if (rc == LEAT_E_END)
            return leat_fail(error, rc, "the epoch has no further batch");
        if (rc == LEAT_IO_PENDING)
            rc = r->kind->wait(r, q, error);
        else
            return rc;
        if (rc)
            return rc;
    }
}

static int get(struct leat_reader *r, struct leat_request *q, int64_t timeout_ms, struct leat_batch **out,
               struct leat_error *error)
{
    struct leat_error own;
    *out = NULL;
    error = error ? error : &own;
    int rc = r->kind->lock(r, error);
    if (rc)
        return rc;
    q->deadline_ns = leat_clock_deadline(timeout_ms);
    q->interrupts = atomic_load(&r->interrupts);
    q->iteration = q->peek && !q->await ? r->iteration : q->iteration;
    q->epoch = r->epoch;
    q->step = r->step;
    if (r->kind->begin)
        r->kind->begin(r, q);
    rc = next(r, q, out, error);
    r->handed = *out && !q->peek ? r->iteration : r->handed;
    r->kind->end(r, q, *out, rc, error);
    r->kind->unlock(r);
    return rc;
}

int leat_consumer_next(struct leat_consumer *c, uint64_t iteration, int64_t timeout_ms, struct leat_batch **out,
                       struct leat_error *error)
{
    return get(leat_reader_of(c), &(struct leat_request){.iteration = iteration}, timeout_ms, out, error);
}

int leat_consumer_peek(struct leat_consumer *c, int64_t timeout_ms, struct leat_batch **out, struct leat_error *error)
{
    return get(leat_reader_of(c), &(struct leat_request){.peek = true}, timeout_ms, out, error);
}

int leat_consumer_await(struct leat_consumer *c, uint64_t iteration, int64_t timeout_ms, bool *at_hand,
                        struct leat_error *error)
{
    struct leat_batch *none;
    struct leat_request q = {.iteration = iteration, .peek = true, .await = true};
    const int rc = get(leat_reader_of(c), &q, timeout_ms, &none, error);
    *at_hand = rc != LEAT_OK || !q.apart;
    return rc;
}

bool leat_consumer_put_back(struct leat_consumer *c)
{
    struct leat_reader *r = leat_reader_of(c);
    if (!r->kind->put_back || r->kind->lock(r, NULL))
        return false;
    const bool done = r->handed && r->handed == r->iteration && r->started && r->kind->put_back(r);
    if (done) {
        r->ended = r->told_end = false;
        r->handed = 0;
    }
    r->kind->unlock(r);
    return done;
}

void leat_consumer_interrupt(struct leat_consumer *c)
{
    struct leat_reader *r = leat_reader_of(c);
    atomic_fetch_add(&r->interrupts, 1);
    r->kind->wake(r);
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
    return *text ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for a text of JSON");
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

int leat_consumer_state(const struct leat_consumer *c, char **json, struct leat_error *error)
{
    struct leat_reader *r = leat_reader_of(c);
    *json = NULL;
    return r->kind->state(r, json, error);
}

int leat_consumer_load_state(struct leat_consumer *c, const char *json, struct leat_error *error)
{
    struct leat_reader *r = leat_reader_of(c);
    return r->kind->load(r, json, error);
}
