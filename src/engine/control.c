/*
 * The consumer's position, and changes of the plan: epochs, states, decisions, lists of positions. A change excludes
 * the plan's readers: no task starts, and the change waits for those that run.
 */
#include "engine/control.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/kept.h"
#include "engine/loader.h"
#include "engine/open.h"
#include "engine/side.h"
#include "engine/sources.h"
#include "leat/feedback.h"

/* ---- positions ------------------------------------------------------------------------------- */

void leat_loader_pause(struct leat_loader *l)
{
    l->client.paused = true;
    while (l->tasks.running)
        leat_loader_wait(l, INT64_MAX);
}

void leat_loader_unpause(struct leat_loader *l)
{
    l->client.paused = false;
    leat_consumers_place(l);
    l->due |= LEAT_DUE_WAKE | (l->consumer.reader.started || l->tasks.resumed ? LEAT_DUE_WORK : 0);
    leat_loader_settle(l);
}

uint64_t leat_loader_step_at(const struct leat_loader *l, struct leat_position at)
{
    struct leat_plan_batch plan;
    return leat_plan_batch(l->plan, at, &plan) ? 0 : plan.step;
}

/* The first batch of the window that reaches beyond `at`. */
static size_t first_beyond(const struct leat_loader *l, struct leat_position at)
{
    size_t i = 0;
    while (i < l->window.n && !leat_position_precedes(at, leat_window_at(&l->window, i)->plan.next))
        i++;
    return i;
}

/* Batches that no consumer asks for any more. */
static struct leat_position done(const struct leat_loader *l)
{
    struct leat_position least = leat_consumer_received(&l->consumer);
    for (const struct leat_consumer *c = l->consumer.next; c; c = c->next) {
        struct leat_position at = leat_consumer_received(c);
        least = leat_position_precedes(at, least) ? at : least;
        least.row = 0; /* their batches are found from the begin of their epoch */
    }
    return least;
}

/* Under the lock and paused: work begun by the plan before is given up, also that begun during the pause. */
static void forget_begun(struct leat_loader *l, struct leat_position from)
{
    for (struct leat_consumer *c = &l->consumer; c; c = c->next)
        leat_side_cancel(l, c, (struct leat_position){UINT64_MAX, 0});
    leat_window_cancel(l, first_beyond(l, from));
    leat_consumers_plan_changed(l, from);
}

/* After a change that holds from `from`: the position of planning behind that may be within a batch now, or beyond the
 * end of an epoch whose last batch had no rows for this rank, and has some now. */
static void plan_again_from(struct leat_loader *l, struct leat_position from)
{
    const struct leat_consumer *c = &l->consumer;
    if (!c->next && leat_position_precedes(from, c->at))
        from = c->at;
    if (!l->delivery->decides_anywhere || !leat_position_precedes(from, l->window.plan_at))
        return;
    l->window.plan_at = from;
    l->window.full = false;
}

uint64_t leat_loader_steps(const struct leat_loader *l)
{
    return leat_loader_check_process(l, NULL) ? 0 : leat_plan_rank_steps(l->plan, leat_loader_epoch(l));
}

/* ---- changing the plan ----------------------------------------------------------------------- */

/* Under the lock: enters a decision into the log. */
static int change(struct leat_loader *l, struct leat_decision d, struct leat_error *error)
{
    if (d.shares || d.positions || d.unlisted)
        leat_kept_drop_all(l);
    else
        leat_kept_add(l, first_beyond(l, d.at));
    leat_window_cancel(l, first_beyond(l, d.at));
    leat_loader_pause(l);
    leat_kept_settle(l);
    forget_begun(l, d.at);
    d.done = done(l);
    int rc = leat_plan_decide(l->plan, &d, error);
    if (!rc)
        plan_again_from(l, d.at);
    leat_loader_unpause(l);
    return rc;
}

/* The same, if it concerns nothing that was handed out. */
static int decide(struct leat_loader *l, struct leat_decision d, struct leat_error *error)
{
    struct leat_consumer *c = &l->consumer;
    if ((c->reader.started || c->reader.loaded) && leat_position_precedes(d.at, leat_consumer_received(c)))
        return leat_fail(error, LEAT_E_INVALID,
                         "a decision must not hold from epoch %" PRIu64 ", row %" PRIu64 ": that was handed out",
                         d.at.epoch, d.at.row);
    if (!l->delivery->decides_anywhere && l->delivery->is_within(l, d.at))
        return leat_fail(
            error, LEAT_E_INVALID,
            "a decision within an epoch needs in_order: rows beyond it may have been handed out. Let it hold "
            "from an epoch's start");
    for (const struct leat_consumer *other = c->next; other && l->input.world_size > 1; other = other->next)
        if (leat_position_precedes(d.at, other->at))
            return leat_fail(error, LEAT_E_INVALID,
                             "a decision must not hold from epoch %" PRIu64 ", row %" PRIu64
                             ": another consumer was handed that out",
                             d.at.epoch, d.at.row);
    return change(l, d, error);
}

/* The position from which a decision holds, if the caller gives it, as several ranks must. INVALID, RANGE. */
static int find_step(const struct leat_loader *l, const struct leat_step *at, const char *what,
                     struct leat_position *out, struct leat_error *error)
{
    if (!at && l->input.world_size > 1)
        return leat_fail(error, LEAT_E_INVALID,
                         "on several ranks say from which (epoch, step) %s, the same on each: the ranks may have been "
                         "handed out different numbers of batches",
                         what);
    if (at && leat_plan_step_is_folded(l->plan, at->epoch, at->step))
        return leat_loader_fail_folded(at->epoch, at->step, error);
    if (at && l->input.lists_later && l->input.order == LEAT_ORDER_LIST && (int64_t)at->epoch > l->input.list_epoch) {
        if (at->step || at->epoch != (uint64_t)(l->input.list_epoch + 1))
            return leat_fail(error, LEAT_E_RANGE,
                             "epoch %" PRIu64 " has no step %" PRIu64
                             " yet: its list of positions is given as it begins",
                             at->epoch, at->step);
        *out = (struct leat_position){at->epoch, 0};
        return LEAT_OK;
    }
    if (at && leat_plan_seek(l->plan, at->epoch, at->step, out))
        return leat_fail(error, LEAT_E_RANGE, "epoch %" PRIu64 " has no step %" PRIu64 ": it has %" PRIu64 " steps",
                         at->epoch, at->step, leat_plan_steps(l->plan, at->epoch));
    return LEAT_OK;
}

int leat_loader_set_batch_size(struct leat_loader *l, uint64_t rows, const struct leat_step *at,
                               struct leat_error *error)
{
    uint64_t global_rows = 0;
    if (!leat_mul_u64(rows, l->input.world_size, &global_rows))
        return leat_fail(error, LEAT_E_INVALID, "the batches of all ranks have 2^40 rows at most");
    return leat_loader_set_global_batch_size(l, global_rows, at, error);
}

int leat_loader_set_global_batch_size(struct leat_loader *l, uint64_t rows, const struct leat_step *at,
                                      struct leat_error *error)
{
    struct leat_decision d = {.at = {0}, .global_batch = rows};
    int rc = leat_loader_check_process(l, error);
    if (rc)
        return rc;
    if (!rows || rows > LEAT_MAX_GLOBAL_BATCH)
        return leat_fail(error, LEAT_E_INVALID,
                         "a batch has at least 1 row and those of all ranks 2^40 at most, not %" PRIu64, rows);
    rc = find_step(l, at, "the batch size holds", &d.at, error);
    rc = rc ? rc : leat_loader_check_rows(l, (rows - 1) / l->input.world_size + 1, error);
    rc = rc ? rc : leat_loader_enter(l, error);
    if (rc)
        return rc;
    if (!at)
        d.at = leat_consumer_received(&l->consumer);
    rc = leat_loader_fit(l, d.global_batch, error);
    if (!rc)
        rc = decide(l, d, error);
    if (rc)
        leat_loader_fit(l, leat_plan_global_batch(l->plan), NULL);
    leat_engine_unlock();
    return rc;
}

int leat_loader_set_shares(struct leat_loader *l, const struct leat_step *at, const double *shares, uint32_t n,
                           struct leat_error *error)
{
    struct leat_decision d = {.shares = shares};
    int rc = leat_loader_check_process(l, error);
    if (rc)
        return rc;
    if (!l->input.mixed)
        return leat_fail(error, LEAT_E_INVALID, "this loader reads no mixture: there are no shares to change");
    if (n != l->input.n_sources)
        return leat_fail(error, LEAT_E_INVALID, "a mixture of %" PRIu32 " sources has as many shares, not %" PRIu32,
                         l->input.n_sources, n);
    rc = find_step(l, at, "the shares hold", &d.at, error);
    rc = rc ? rc : leat_shares_check(shares, n, error);
    rc = rc ? rc : leat_loader_enter(l, error);
    if (rc)
        return rc;
    if (!at)
        d.at = leat_consumer_received(&l->consumer);
    rc = decide(l, d, error);
    leat_engine_unlock();
    return rc;
}

int leat_loader_set_positions(struct leat_loader *l, const int64_t *positions, uint64_t n, struct leat_error *error)
{
    int rc = leat_loader_check_process(l, error);
    if (rc)
        return rc;
    if (l->input.order != LEAT_ORDER_LIST)
        return leat_fail(error, LEAT_E_INVALID, "this loader has another order than a list of positions");
    rc = leat_loader_enter(l, error);
    if (rc)
        return rc;
    struct leat_position at = leat_consumer_next_start(&l->consumer);
    if (l->consumer.reader.loaded && l->delivery->is_within(l, at))
        at = (struct leat_position){at.epoch + 1, 0};
    rc = change(l, (struct leat_decision){.at = at, .positions = positions, .n_positions = n}, error);
    if (!rc)
        l->input.list_epoch = (int64_t)at.epoch;
    leat_engine_unlock();
    return rc;
}

/* The start of a decision on rows that is not from a step of its own: an epoch's start. */
static struct leat_position next_epoch(const struct leat_loader *l)
{
    const struct leat_position at = leat_consumer_next_start(&l->consumer);
    return l->consumer.reader.loaded && l->delivery->is_within(l, at) ? (struct leat_position){at.epoch + 1, 0} : at;
}

/* Whether rows can be decided from within an epoch. */
static int check_within(const struct leat_loader *l, struct leat_error *error)
{
    if (l->consumer.next)
        return leat_fail(error, LEAT_E_INVALID,
                         "a loader with further consumers decides rows from an epoch's start: they read at other "
                         "places");
    return LEAT_OK;
}

int leat_loader_decide_rows(struct leat_loader *l, const struct leat_step *at, enum leat_rows rows,
                            const int64_t *positions, uint64_t n, struct leat_error *error)
{
    struct leat_decision d = {.positions = rows == LEAT_ROWS_AS_OPENED ? NULL : positions,
                              .n_positions = n,
                              .unlisted = rows == LEAT_ROWS_AS_OPENED,
                              .selects = rows == LEAT_ROWS_SELECTED};
    int rc = leat_loader_check_process(l, error);
    if (rc)
        return rc;
    if (rows < LEAT_ROWS_AS_OPENED || rows > LEAT_ROWS_SELECTED || (!d.unlisted && (!positions || !n)))
        return leat_fail(error, LEAT_E_INVALID,
                         "an epoch has the rows that it was opened with, or a list of at least one position");
    if (l->job.follows && !d.unlisted)
        return leat_loader_fail_followed("rows of one's own", error);
    if (!at && l->input.world_size > 1)
        return leat_fail(error, LEAT_E_INVALID,
                         "on several ranks say from which step the list holds, the same on each: the ranks may have "
                         "been handed out different numbers of batches");
    if (at && at->epoch >> 63)
        return leat_fail(error, LEAT_E_RANGE, "epoch %" PRIu64 " lies too far ahead: no run gets there", at->epoch);
    rc = leat_loader_enter(l, error);
    if (rc)
        return rc;
    d.at = at ? (struct leat_position){at->epoch, 0} : next_epoch(l);
    if (at && at->step)
        rc = find_step(l, at, "the list holds", &d.at, error);
    if (!rc && d.at.row)
        rc = check_within(l, error);
    rc = rc ? rc : decide(l, d, error);
    leat_engine_unlock();
    return rc;
}

int leat_loader_next_start(const struct leat_loader *l, uint64_t *epoch, bool *within, struct leat_error *error)
{
    int rc = leat_loader_enter(l, error);
    if (rc)
        return rc;
    const struct leat_position at = leat_consumer_next_start(&l->consumer);
    *epoch = at.epoch;
    *within = l->consumer.reader.loaded && l->delivery->is_within(l, at);
    leat_engine_unlock();
    return LEAT_OK;
}

int leat_loader_give_list(struct leat_loader *l, uint64_t epoch, const int64_t *list, uint64_t n,
                          struct leat_error *error)
{
    int rc = leat_loader_enter(l, error);
    if (rc)
        return rc;
    const struct leat_decision d = {.at = {epoch, 0}, .positions = list, .n_positions = n};
    rc = change(l, d, error);
    if (!rc)
        l->input.list_epoch = (int64_t)epoch;
    leat_engine_unlock();
    return rc;
}

int leat_loader_know_list(struct leat_loader *l, const int64_t *positions, uint64_t n, struct leat_error *error)
{
    int rc = leat_loader_enter(l, error);
    if (rc)
        return rc;
    rc = leat_plan_know_list(l->plan, positions, n, error);
    leat_engine_unlock();
    return rc;
}

int leat_loader_state(const struct leat_loader *l, char **json, struct leat_error *error)
{
    *json = NULL;
    int rc = leat_loader_enter(l, error);
    if (rc)
        return rc;
    rc = l->delivery->state(l, leat_consumer_received(&l->consumer), json, error);
    leat_engine_unlock();
    return rc;
}

int leat_loader_state_at(const struct leat_loader *l, const struct leat_step *at, char **json, struct leat_error *error)
{
    struct leat_position to = {at->epoch, 0};
    *json = NULL;
    int rc = leat_loader_enter(l, error);
    if (rc)
        return rc;
    if (at->step && l->delivery->numbers_rows)
        rc = leat_fail(error, LEAT_E_UNSUPPORTED,
                       "without in_order only a state that was saved says which rows were handed out");
    else if (at->step)
        rc = find_step(l, at, "the state is", &to, error);
    if (!rc)
        rc = l->delivery->state(l, to, json, error);
    leat_engine_unlock();
    return rc;
}

int leat_loader_log(const struct leat_loader *l, uint64_t first, char **json, struct leat_error *error)
{
    *json = NULL;
    int rc = leat_loader_enter(l, error);
    if (rc)
        return rc;
    rc = leat_plan_log(l->plan, first, json, error);
    leat_engine_unlock();
    return rc;
}

/* Before anything of the loader changes: one that is refused leaves batches that are made, or were peeked at. */
static int check_state(const struct leat_loader *l, const char *json, struct leat_error *error)
{
    struct leat_plan_received beyond;
    bool some;
    return leat_plan_load(l->plan, l->fingerprint, json, NULL, l->unordered ? &beyond : NULL, &some, error);
}

int leat_loader_load_state(struct leat_loader *l, const char *json, struct leat_error *error)
{
    struct leat_consumer *c = &l->consumer;
    int rc = leat_loader_enter(l, error);
    if (rc)
        return rc;
    rc = check_state(l, json, error);
    if (rc) {
        leat_plan_forget_lists(l->plan);
        leat_engine_unlock();
        return rc;
    }
    leat_kept_drop_all(l);
    leat_window_cancel(l, 0);
    leat_loader_pause(l);
    forget_begun(l, (struct leat_position){0, 0});
    rc = l->delivery->load(l, json, error);
    leat_plan_forget_lists(l->plan);
    if (!rc) {
        leat_loader_fit(l, leat_plan_global_batch(l->plan), NULL); /* the batch itself reports what does not fit */
        leat_reader_load(&c->reader);
        c->reader.epoch = c->at.epoch;
        if (l->input.lists_later)
            l->input.list_epoch = (int64_t)c->reader.epoch - !l->delivery->is_within(l, c->at);
    }
    leat_loader_unpause(l);
    leat_engine_unlock();
    return rc;
}
