/*
 * A reader's own samples. The port draws the order of each epoch; the reader asks for it before the epoch's first
 * batch, and keeps it: its state has it, and gives it to a port that comes in the place of another one, so that each
 * sample is read once whatever becomes of the port.
 *
 * A line of a port goes from epoch to epoch. For any other epoch, or another order of one, the reader attaches again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/random.h"
#include "port/attached.h"

#define TRIES 4

/* For a set of samples, whatever their order. */
static uint64_t hash_of(const int64_t *ids, uint64_t n)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += leat_key_mix(n, (uint64_t)ids[i]);
    return sum;
}

int leat_own_new(const int64_t *ids, uint64_t n, uint64_t seed, struct leat_own **out, struct leat_error *error)
{
    *out = NULL;
    if (!n)
        return leat_fail(error, LEAT_E_INVALID, "a reader with samples of its own has one at least");
    struct leat_own *own = leat_new(struct leat_own);
    if (own) {
        *own = (struct leat_own){.n = n, .seed = seed};
        own->ids = leat_new_array(n, 2 * sizeof *ids);
    }
    if (!own || !own->ids) {
        leat_own_free(own);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for %" PRIu64 " samples", n);
    }
    memcpy(own->ids, ids, n * sizeof *ids);
    own->order = own->ids + n;
    own->hash = hash_of(ids, n);
    *out = own;
    return LEAT_OK;
}

void leat_own_free(struct leat_own *own)
{
    if (own)
        leat_free(own->ids);
    leat_free(own);
}

/* ---- saying it to the port ------------------------------------------------------------------- */

int leat_own_say(struct leat_own *own, json_t *hello, int *fd, struct leat_error *error)
{
    const bool ordered = own->known && own->epoch == own->wanted;
    json_t *more = json_pack("{s:I, s:o, s:I, s:b}", "samples", (json_int_t)own->n, "seed", leat_json_hex64(own->seed),
                             "epoch", (json_int_t)own->wanted, "ordered", (int)ordered);
    const bool failed = !more || json_object_update(hello, more);
    json_decref(more);
    if (failed)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a consumer");
    int rc = leat_message_seal(own->ids, own->n * (1 + (uint64_t)ordered) * sizeof *own->ids, fd, error);
    if (rc)
        return rc;
    own->line_epoch = own->wanted;
    return LEAT_OK;
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* Asks this port, and no other one: the order is of one draw. */
static int fetch(struct leat_attached *a, uint64_t epoch, struct leat_error *error)
{
    struct leat_own *own = a->own;
    const struct leat_ask_rows which = {epoch};
    struct leat_reply_rows reply;
    int rc = leat_session_ask(a, LEAT_MESSAGE_ORDER, &which, sizeof which, error);
    const void *body = rc ? NULL : leat_message_body(a->message, sizeof reply);
    if (body)
        memcpy(&reply, body, sizeof reply);
    if (!rc && (!body || reply.rows != own->n))
        return leat_fail(error, LEAT_E_FORMAT, "the port answers with no order of these samples");
    own->known = false;
    const struct leat_ask_batch what = {.epoch = epoch, .global_rows = own->n, .rows = own->n};
    rc = rc ? rc : leat_attached_ids(a, leat_session_ask, what, own->order, error);
    if (!rc && hash_of(own->order, own->n) != own->hash)
        rc = leat_fail(error, LEAT_E_FORMAT, "the port answers with an order of other samples");
    own->known = !rc;
    own->epoch = epoch;
    own->line_epoch = rc ? own->line_epoch : epoch;
    return rc;
}

int leat_own_order(struct leat_attached *a, uint64_t epoch, struct leat_error *error)
{
    struct leat_own *own = a->own;
    own->wanted = epoch;
    for (int tries = 0;; tries++) {
        if (a->session && own->known && own->epoch == epoch && own->line_epoch == epoch)
            return LEAT_OK;
        if (a->session && own->line_epoch != epoch && own->line_epoch + 1 != epoch)
            leat_session_close(a);
        int rc = a->session ? fetch(a, epoch, error) : leat_attached_reopen(a, error);
        if (!rc)
            continue;
        if ((rc != LEAT_E_CLOSED && rc != LEAT_E_RANGE) || tries >= TRIES || !a->session)
            return rc;
        leat_session_close(a);
    }
}

/* ---- states ---------------------------------------------------------------------------------- */

int leat_own_save(const struct leat_own *own, json_t *state, uint64_t epoch, uint64_t row, struct leat_error *error)
{
    char *text = NULL;
    if (!own)
        return LEAT_OK;
    int failed = json_object_set_new(state, "samples", leat_json_hex64(own->hash));
    if (!failed && row && own->known && own->epoch == epoch)
        failed = leat_positions_to_text(own->order, own->n, &text) ||
                 json_object_set_new(state, "positions", json_string(text));
    leat_free(text);
    return failed ? leat_fail(error, LEAT_E_NOMEM, "no memory for a state") : LEAT_OK;
}

int leat_own_load(struct leat_own *own, const json_t *state, uint64_t epoch, uint64_t row, struct leat_error *error)
{
    const char *of = json_string_value(json_object_get(state, "samples")),
               *text = json_string_value(json_object_get(state, "positions"));
    char hash[17];
    int64_t *order;
    if (!own)
        return of ? leat_fail(error, LEAT_E_STATE,
                              "the state is of a reader with samples of its own: attach with these")
                  : LEAT_OK;
    snprintf(hash, sizeof hash, "%016" PRIx64, own->hash);
    if (!of || strcmp(of, hash) != 0)
        return leat_fail(error, LEAT_E_STATE, "the state is of a reader with %s samples",
                         of ? "other" : "the port's order, without");
    if (!row || row >= own->n)
        return LEAT_OK;
    if (!text)
        return leat_fail(error, LEAT_E_STATE, "the state lacks the order of its epoch");
    int rc = leat_positions_from_text(text, own->n, &order, error);
    if (rc)
        return rc;
    if (hash_of(order, own->n) == own->hash) {
        memcpy(own->order, order, own->n * sizeof *order);
        own->known = true;
        own->epoch = epoch;
    } else {
        rc = leat_fail(error, LEAT_E_STATE, "the state has the order of other samples: it was changed");
    }
    leat_free(order);
    return rc;
}
