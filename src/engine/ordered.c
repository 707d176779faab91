/*
 * Delivery in order: batches are planned and handed out as the plan has them, to the loader's own consumer and to
 * others, which have positions and batch sizes of their own (consumer.c).
 *
 *     window   | a a a a | b b b b | c c c c | d d d . | e . . . |      plan_at: the first batch not yet planned
 *                    ^ kept for one that is behind         planned ahead
 *                    |         ^ the one that is farthest ahead
 *                    `- its next batch: a a b b b b, copied, since both go on needing them
 *
 * Rows are copied for all but the last consumer that needs them: a batch that was handed out is its consumer's to write
 * to. A loader that nobody else reads is the simple case: its next batch is the first of the window, which leaves it.
 */
#include "engine/ordered.h"

#include <inttypes.h>

#include "base/error.h"
#include "engine/control.h"
#include "engine/loader.h"
#include "engine/side.h"
#include "engine/task.h"

static struct leat_position after(const struct leat_plan_batch *plan)
{
    return plan->last ? (struct leat_position){plan->epoch + 1, 0} : plan->next;
}

/* ---- planning -------------------------------------------------------------------------------- */

static int plan_next(struct leat_loader *l, struct leat_error *error)
{
    struct leat_plan_batch plan;
    struct leat_batch *b;
    struct leat_position *at = &l->window.plan_at;
    for (;;) {
        if (l->window.n >= leat_window_room(l))
            return LEAT_E_HELD;
        if (at->epoch > leat_window_last_epoch(l))
            return LEAT_E_END;
        int rc = leat_plan_batch(l->plan, *at, &plan);
        if (rc && rc != LEAT_E_END)
            return leat_fail(error, rc, "no batch can be planned at epoch %" PRIu64 ", row %" PRIu64, at->epoch,
                             at->row);
        if (rc == LEAT_OK && plan.rows)
            break;
        *at = rc ? (struct leat_position){at->epoch + 1, 0} : after(&plan);
    }
    int rc = leat_window_admit(l, &plan, &b, error);
    if (rc == LEAT_OK)
        *at = after(&plan);
    return rc;
}

static void rewind_to(struct leat_loader *l, const struct leat_batch *first)
{
    l->window.plan_at = first->plan.at;
}

/* ---- the parts of a batch -------------------------------------------------------------------- */

static int too_spread(const struct leat_consumer *c, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_BUDGET,
                     "a batch of %" PRIu64
                     " rows is put together from more batches of the loader than its window holds "
                     "(budget_bytes = %" PRIu64 "); make it smaller, or raise budget_bytes",
                     c->batch_rows, c->loader->budget.limit);
}

/* The planned rows of the next batch of a consumer: the number of parts, or an error. */
static int find_rows(struct leat_consumer *c, size_t *n, struct leat_error *error)
{
    const struct leat_loader *l = c->loader;
    uint64_t left = c->batch_rows, skip = c->skip;
    struct leat_position at = c->at;
    for (*n = 0; left || (!c->batch_rows && !*n);) {
        struct leat_plan_batch plan;
        int rc = leat_plan_batch(l->plan, at, &plan);
        if (rc == LEAT_E_END || (!rc && plan.epoch != c->reader.epoch))
            break;
        if (rc)
            return leat_fail(error, rc, "no batch can be planned at epoch %" PRIu64 ", row %" PRIu64, at.epoch, at.row);
        uint64_t rows = plan.rows - skip;
        rows = c->batch_rows && left < rows ? left : rows;
        if (rows) {
            if (*n == l->window.room || *n == LEAT_MAX_WINDOW)
                return too_spread(c, error);
            c->parts[(*n)++] = (struct leat_excerpt){.plan = plan, .first = skip, .n = rows};
        }
        left -= c->batch_rows ? rows : 0;
        if (plan.last)
            break;
        if (skip + rows == plan.rows)
            at = plan.next;
        skip = 0;
    }
    return *n ? LEAT_OK : LEAT_E_END;
}

int leat_consumer_check(struct leat_consumer *c, struct leat_error *error)
{
    struct leat_plan_batch first;
    if (leat_plan_batch(c->loader->plan, (struct leat_position){c->reader.epoch, 0}, &first) == LEAT_E_RANGE)
        return leat_fail(error, LEAT_E_INVALID,
                         "a further consumer counts its rows from the begin of epoch %" PRIu64
                         ", and the first decisions of that were folded into one: open it in the next epoch",
                         c->reader.epoch);
    size_t n;
    struct leat_error unplanned;
    leat_error_clear(&unplanned);
    int rc = find_rows(c, &n, &unplanned);
    if (rc == LEAT_E_BUDGET && error)
        *error = unplanned;
    return rc == LEAT_E_BUDGET ? rc : LEAT_OK; /* rows that are not planned yet come with the next request */
}

/* Begins to make a batch again that the window has no more. */
static int make_again(struct leat_consumer *c, const struct leat_plan_batch *plan, struct leat_error *error)
{
    struct leat_batch *b;
    int rc = leat_side_begin(c->loader, plan, NULL, c, &b, error);
    c->remade += rc ? 0 : plan->rows;
    return rc;
}

static struct leat_batch *find_batch(const struct leat_consumer *c, struct leat_position at)
{
    const struct leat_window *w = &c->loader->window;
    size_t i = leat_window_from(w, at);
    if (i < w->n && leat_position_is(leat_window_at(w, i)->plan.at, at))
        return leat_window_at(w, i);
    struct leat_batch *b = c->loader->side;
    while (b && (b->for_whom != c || !leat_position_is(b->plan.at, at)))
        b = b->next;
    return b;
}

/* The batch of a part: from the window, which may have to grow, or made again. PENDING: there is no memory now. */
static int obtain(struct leat_consumer *c, struct leat_excerpt *part, struct leat_error *error)
{
    struct leat_loader *l = c->loader;
    while (!(part->batch = find_batch(c, part->plan.at))) {
        bool missed = leat_position_precedes(part->plan.at, l->window.plan_at);
        int rc = missed ? make_again(c, &part->plan, error) : plan_next(l, error);
        if (rc == LEAT_E_HELD && !missed) {
            if (leat_window_from(&l->window, c->at) && leat_consumers_evict(l))
                continue;
            rc = error->code == LEAT_E_HELD ? rc : LEAT_IO_PENDING;
        }
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

/* Parts whose lengths are known wait for memory: first batches kept for those behind give it up, then those planned
 * behind the parts. True: something was given up, and the parts are to be looked up again. */
static bool make_room(struct leat_consumer *c, size_t n)
{
    struct leat_loader *l = c->loader;
    struct leat_window *w = &l->window;
    bool some = false;
    for (size_t k = 0; k < n;) {
        const struct leat_batch *b = c->parts[k].batch;
        if (!b || b->account != LEAT_IN_FLIGHT || b->state != LEAT_BATCH_SIZED) {
            k++;
            continue;
        }
        size_t last = leat_window_from(w, c->parts[n - 1].plan.at);
        if (!(leat_window_from(w, c->at) && leat_consumers_evict(l))) {
            if (last + 1 >= w->n)
                break;
            leat_window_cancel(l, last + 1);
        }
        leat_window_assign(l);
        some = true;
    }
    return some;
}

/* No work is under way that could give memory back. */
static bool is_stuck(const struct leat_loader *l)
{
    return leat_tasks_are_done(&l->tasks) && !leat_task_has_work(l);
}

/* LEAT_OK: all parts of the next batch of a consumer are made, or failed; *n: their number. */
static int gather_parts(struct leat_consumer *c, size_t *n, struct leat_error *error)
{
    struct leat_loader *l = c->loader;
    int rc = find_rows(c, n, error);
    bool pending = false;
    for (size_t i = 0; !rc && i < *n; i++) {
        rc = obtain(c, &c->parts[i], error);
        pending |= rc == LEAT_IO_PENDING || (!rc && !leat_batch_is_done(c->parts[i].batch));
        rc = rc == LEAT_IO_PENDING ? LEAT_OK : rc;
    }
    if (rc)
        return rc;
    if (pending && make_room(c, *n))
        return gather_parts(c, n, error);
    if (pending && is_stuck(l))
        return too_spread(c, error);
    return pending ? LEAT_IO_PENDING : LEAT_OK;
}

/* The same if nobody else reads: the only part is the first batch of the window. */
static int first_part(struct leat_consumer *c, size_t *n, struct leat_error *error)
{
    struct leat_loader *l = c->loader;
    int rc = leat_loader_plan_first(l, error);
    if (rc)
        return rc;
    struct leat_batch *b = leat_window_at(&l->window, 0);
    c->parts[0] = (struct leat_excerpt){.plan = b->plan, .n = b->plan.rows, .batch = b};
    *n = 1;
    return leat_batch_is_done(b) ? LEAT_OK : LEAT_IO_PENDING;
}

static bool is_due(const struct leat_loader *l)
{
    return !l->consumer.next && l->window.n && leat_batch_is_done(leat_window_at(&l->window, 0));
}

/* ---- handing out ----------------------------------------------------------------------------- */

/* The places of notes of broken rows in the plan, and whether some consumer knows of them already. */
static void sign_notes(const struct leat_loader *l, const struct leat_excerpt *part)
{
    for (size_t i = 0; i < part->batch->faults.n_broken; i++) {
        struct leat_broken_row *note = &part->batch->faults.broken[i];
        note->step = part->plan.step;
        note->planned_row = note->row;
        note->told = leat_position_precedes((struct leat_position){part->plan.epoch, part->plan.begin + note->row},
                                            l->report.told);
    }
}

/* Moves to the first row behind the parts. */
static void advance(struct leat_consumer *c, size_t n)
{
    const struct leat_excerpt *last = &c->parts[n - 1];
    const uint64_t end = last->first + last->n;
    const struct leat_position told = {c->reader.epoch, last->plan.begin + end};
    bool whole = end == last->plan.rows;
    for (size_t i = 0; i < n; i++)
        c->rows += c->parts[i].n;
    c->reader.step = whole && last->plan.last ? 0 : (c->batch_rows ? c->reader.step : last->plan.step) + 1;
    c->at = whole ? after(&last->plan) : last->plan.at;
    c->skip = whole ? 0 : end;
    if (whole && last->plan.last) {
        c->reader.ended = true;
        c->rows = 0;
    }
    if (leat_position_precedes(c->loader->report.told, told))
        c->loader->report.told = told;
}

/* The batch of the only part is the consumer's. */
static void take_whole(struct leat_loader *l, struct leat_batch *b)
{
    if (b->for_whom)
        leat_side_remove(l, b);
    else
        leat_window_remove(&l->window, leat_window_from(&l->window, b->plan.at));
}

/* A batch that was missed is begun while the consumer uses the one before it. */
static void make_next(struct leat_consumer *c)
{
    struct leat_plan_batch plan;
    struct leat_loader *l = c->loader;
    if (!c->reader.ended && leat_plan_batch(l->plan, c->at, &plan) == LEAT_OK && plan.rows && !find_batch(c, plan.at) &&
        leat_position_precedes(plan.at, l->window.plan_at) && !leat_window_from(&l->window, plan.at) &&
        leat_budget_ask(&l->budget, LEAT_HELD, 2 * l->window.estimate) == LEAT_YES)
        make_again(c, &plan, NULL);
}

static int next(struct leat_consumer *c, struct leat_batch **out, struct leat_error *error)
{
    struct leat_loader *l = c->loader;
    const bool alone = !l->consumer.next;
    bool copied = false;
    size_t n = 0;
    int rc = alone ? first_part(c, &n, error) : gather_parts(c, &n, error);
    if (rc)
        return rc;
    struct leat_plan_batch plan = c->parts->plan;
    plan.step = c->batch_rows ? c->reader.step : plan.step;
    plan.rows = 0;
    for (size_t i = 0; i < n; i++) {
        struct leat_batch *b = c->parts[i].batch;
        if (!alone && n == 1 && b->tasks && !b->rows && b->faults.n_broken)
            return LEAT_IO_PENDING; /* it is made anew once no other consumer goes through it */
        if (b->state == LEAT_BATCH_FAILED || (n == 1 && leat_batch_fail_if_empty(b)))
            return leat_loader_raise(l, b, error);
        plan.rows += c->parts[i].n;
        sign_notes(l, &c->parts[i]);
    }
    struct leat_batch *b = c->parts->batch;
    if (n == 1 && plan.rows == b->plan.rows && !b->tasks && (alone || !leat_consumers_need(l, b, c))) {
        if (b->account == LEAT_IN_FLIGHT && (rc = leat_loader_check_held(l, b, error)))
            return rc;
        take_whole(l, b);
        b->plan = plan;
    } else {
        if ((rc = leat_assemble(l, &plan, c->parts, n, &b, error)))
            return rc;
        copied = true;
    }
    advance(c, n);
    if (copied)
        leat_assemble_fill(l, c->parts, n, b);
    c->copied += copied ? b->rows : 0;
    leat_loader_put_out(l, b);
    *out = b;
    if (!alone) {
        leat_side_cancel(l, c, c->at);
        leat_consumers_trim(l);
        make_next(c);
    }
    return LEAT_OK;
}

/* ---- positions ------------------------------------------------------------------------------- */

static void start(struct leat_consumer *c, struct leat_position to)
{
    struct leat_loader *l = c->loader;
    leat_consumer_stand(c, to);
    c->reader.started = true;
    leat_consumer_bring_window(c);
    leat_consumers_trim(l);
    l->window.full = false;
}

static bool is_within(const struct leat_loader *l, struct leat_position at)
{
    return at.row > 0;
}

static int state(const struct leat_loader *l, struct leat_position at, char **json, struct leat_error *error)
{
    return leat_plan_state(l->plan, l->fingerprint, at, NULL, json, error);
}

static int load(struct leat_loader *l, const char *json, struct leat_error *error)
{
    struct leat_position at;
    int rc = leat_plan_load(l->plan, l->fingerprint, json, &at, NULL, NULL, error);
    if (rc)
        return rc;
    l->consumer.at = l->window.plan_at = at;
    l->consumer.reader.step = leat_loader_step_at(l, at);
    return LEAT_OK;
}

const struct leat_delivery leat_delivery_in_order = {
    .helped = 1,
    .decides_anywhere = true,
    .plan = plan_next,
    .rewind = rewind_to,
    .next = next,
    .is_due = is_due,
    .start = start,
    .is_within = is_within,
    .state = state,
    .load = load,
};
