/*
 * Several consumers of one loader's rows. Each has a position and a batch size of its own over the rows of this rank,
 * in the order of the plan. The window serves them all: a batch stays in it until every consumer is past it, and
 * planning goes by the one that is farthest ahead.
 *
 *     window   | a a a a | b b b b | c c c c | d d d . | e . . . |
 *                    ^ kept for one that is behind         planned ahead
 *                    |         ^ the one that is farthest ahead
 *                    `- its next batch: a a b b b b, copied, since both go on needing them
 *
 * Rows are copied for all but the last who needs them: a batch that was handed out is its consumer's to write to. What
 * is kept for those behind has at most half of the window; then its oldest batches are evicted. Who comes later makes
 * the batches that it missed again, on its own (`own`), one ahead of its reading, and joins the window where it catches
 * up. So a consumer that stops reading never holds up another.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/engine.h"

#define STATE_VERSION 1

/* What a batch of a consumer takes from one planned batch. */
struct leat_part {
    struct leat_plan_batch plan;
    uint64_t first, n; /* rows of this rank's part of it */
    struct leat_batch *batch;
};

/* ---- where they stand ------------------------------------------------------------------------ */

/* The first batch of the window that does not lie before a position. */
static size_t from(const struct leat_window *w, struct leat_position at)
{
    size_t i = 0;
    while (i < w->n && leat_position_precedes(leat_window_at(w, i)->plan.at, at))
        i++;
    return i;
}

static bool is_reading(const struct leat_consumer *c)
{
    return c->started && !c->ended;
}

size_t leat_consumers_lead(const struct leat_loader *l)
{
    size_t lead = 0;
    for (const struct leat_consumer *c = &l->consumer; c; c = c->next) {
        size_t i = c->started ? from(&l->window, c->at) : 0;
        lead = i > lead ? i : lead;
    }
    return lead;
}

const struct leat_consumer *leat_consumers_leader(const struct leat_loader *l)
{
    const struct leat_consumer *leader = &l->consumer;
    for (const struct leat_consumer *c = leader->next; c; c = c->next)
        if (c->started && (!leader->started || leat_position_precedes(leader->at, c->at) ||
                           (leat_position_is(leader->at, c->at) && leader->skip < c->skip)))
            leader = c;
    return leader;
}

bool leat_consumers_evict(struct leat_loader *l)
{
    if (!l->consumer.next || !leat_consumers_lead(l))
        return false;
    leat_batch_cancel(leat_window_pop(&l->window));
    return true;
}

/* Batches that every consumer is past leave the window; so do those that it keeps for some beyond half of it. */
static void trim(struct leat_loader *l)
{
    struct leat_window *w = &l->window;
    size_t lead = leat_consumers_lead(l), needed = lead;
    uint64_t kept = 0;
    for (const struct leat_consumer *c = &l->consumer; c; c = c->next) {
        size_t i = c->started ? from(w, c->at) : lead;
        needed = i < needed ? i : needed;
    }
    for (size_t i = needed; i < lead; i++)
        kept += leat_window_at(w, i)->bytes;
    for (; lead && (needed || 2 * lead > w->room || 2 * kept > l->budget.limit); lead--) {
        struct leat_batch *b = leat_window_pop(w);
        kept -= needed ? 0 : b->bytes;
        needed -= needed > 0;
        leat_batch_cancel(b);
    }
}

static bool is_needed(const struct leat_consumer *by_others_than, const struct leat_batch *b)
{
    for (const struct leat_consumer *c = &by_others_than->loader->consumer; c; c = c->next)
        if (c != by_others_than && c->started && !leat_position_precedes(b->plan.at, c->at))
            return true;
    return false;
}

static void drop_own(struct leat_consumer *c, struct leat_position before)
{
    for (struct leat_batch **p = &c->own, *b; (b = *p);) {
        if (!leat_position_precedes(b->plan.at, before)) {
            p = &b->next;
            continue;
        }
        *p = b->next;
        leat_batch_cancel(b);
    }
}

/* The planned batch that the next row of a consumer is in, from how many rows of the epoch it has. */
static void place(struct leat_consumer *c)
{
    struct leat_plan_batch part;
    uint64_t left = c->rows;
    c->at = (struct leat_position){c->epoch, 0};
    c->changes = c->loader->changes;
    while (leat_plan_batch(c->loader->plan, c->at, &part) == LEAT_OK && left >= part.rows && !part.last) {
        left -= part.rows;
        c->at = part.next;
    }
    c->skip = left;
    if (part.rows && left >= part.rows) { /* past the last row */
        c->at = (struct leat_position){c->epoch + 1, 0};
        c->skip = 0;
    }
}

static void stand(struct leat_consumer *c, uint64_t epoch, uint64_t rows)
{
    c->epoch = epoch;
    c->rows = rows;
    place(c);
    if (c->at.epoch > epoch) {
        c->epoch = c->at.epoch;
        c->rows = 0;
    }
    drop_own(c, (struct leat_position){UINT64_MAX, 0});
}

void leat_consumers_end(struct leat_loader *l)
{
    for (struct leat_consumer *c = &l->consumer; c; c = c->next)
        drop_own(c, (struct leat_position){UINT64_MAX, 0});
}

/* Planning goes on at `at`: what the window has is for nobody. */
static void move_window(struct leat_loader *l, struct leat_position at)
{
    leat_window_cancel(l, 0);
    l->window.plan_at = at;
}

/* A consumer begins at `at`. The window goes there if nobody else is reading, or if that is ahead of all. */
static void bring_window(struct leat_consumer *c, struct leat_position at)
{
    struct leat_loader *l = c->loader;
    struct leat_window *w = &l->window;
    bool others = false;
    for (const struct leat_consumer *other = &l->consumer; other; other = other->next)
        others |= other != c && is_reading(other);
    size_t i = from(w, at);
    if (leat_position_precedes(w->plan_at, at) ||
        (!others && !leat_position_is(i < w->n ? leat_window_at(w, i)->plan.at : w->plan_at, at)))
        move_window(l, at);
}

void leat_consumer_begin(struct leat_consumer *c, struct leat_position to)
{
    drop_own(c, (struct leat_position){UINT64_MAX, 0});
    c->at = to;
    c->step = leat_loader_step_at(c->loader, to);
    bring_window(c, to);
    c->loader->window.full = false;
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

/* The parts of the next batch of a consumer: their number, or an error. */
static int find_parts(struct leat_consumer *c, size_t *n, struct leat_error *error)
{
    const struct leat_loader *l = c->loader;
    uint64_t left = c->batch_rows, skip = c->skip;
    struct leat_position at = c->at;
    for (*n = 0; left || (!c->batch_rows && !*n);) {
        struct leat_plan_batch plan;
        int rc = leat_plan_batch(l->plan, at, &plan);
        if (rc == LEAT_E_END || (!rc && plan.epoch != c->epoch))
            break;
        if (rc)
            return leat_fail(error, rc, "no batch can be planned at epoch %" PRIu64 ", row %" PRIu64, at.epoch, at.row);
        uint64_t rows = plan.rows - skip;
        rows = c->batch_rows && left < rows ? left : rows;
        if (rows) {
            if (*n == l->window.room || *n == LEAT_MAX_WINDOW)
                return too_spread(c, error);
            c->parts[(*n)++] = (struct leat_part){.plan = plan, .first = skip, .n = rows};
        }
        left -= c->batch_rows ? rows : 0;
        if (plan.last)
            break;
        if (skip + rows == plan.rows)
            at = plan.next;
        skip = 0;
    }
    return LEAT_OK;
}

static struct leat_batch *own_batch(const struct leat_consumer *c, struct leat_position at)
{
    struct leat_batch *b = c->own;
    while (b && !leat_position_is(b->plan.at, at))
        b = b->next;
    return b;
}

/* Begins to make a batch again that the window has no more. */
static int make_own(struct leat_consumer *c, const struct leat_plan_batch *plan, struct leat_error *error)
{
    struct leat_loader *l = c->loader;
    struct leat_batch *b = leat_batch_new(&l->pool, plan, LEAT_HELD, error);
    if (!b)
        return LEAT_E_NOMEM;
    if (!l->ragged) {
        int rc = leat_loader_allocate(l, b, error);
        if (rc) {
            leat_batch_recycle(b);
            return rc;
        }
        b->state = LEAT_BATCH_FILLING;
    }
    b->next = c->own;
    c->own = b;
    c->remade += plan->rows;
    l->due |= LEAT_DUE_WORK;
    return LEAT_OK;
}

/* The batch of a part: from the window, which may have to grow, or made again. PENDING: there is no memory now. */
static int obtain(struct leat_consumer *c, struct leat_part *part, struct leat_error *error)
{
    struct leat_loader *l = c->loader;
    struct leat_window *w = &l->window;
    for (;;) {
        size_t i = from(w, part->plan.at);
        if (i < w->n && leat_position_is(leat_window_at(w, i)->plan.at, part->plan.at))
            part->batch = leat_window_at(w, i);
        else
            part->batch = own_batch(c, part->plan.at);
        if (part->batch)
            return LEAT_OK;
        int rc;
        if (leat_position_precedes(part->plan.at, w->plan_at)) { /* missed */
            rc = make_own(c, &part->plan, error);
        } else {
            rc = l->delivery->plan(l, error);
            if (rc == LEAT_E_HELD && from(w, c->at) && leat_consumers_evict(l))
                rc = LEAT_OK;
            else if (rc == LEAT_E_HELD && error->code != LEAT_E_HELD)
                rc = LEAT_IO_PENDING;
        }
        if (rc)
            return rc;
    }
}

/* Parts whose lengths are known wait for memory: first what is kept for those behind gives it up, then what is planned
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
        size_t last = from(w, c->parts[n - 1].plan.at);
        if (!(from(w, c->at) && leat_consumers_evict(l))) {
            if (last + 1 >= w->n)
                break;
            leat_window_cancel(l, last + 1);
        }
        leat_window_assign(l);
        some = true;
    }
    return some;
}

/* Nothing is under way that could give memory back. */
static bool is_stuck(const struct leat_loader *l)
{
    const struct leat_tasks *t = &l->tasks;
    if (t->running || t->parked || t->resumed || t->starved || leat_task_has_work(l))
        return false;
    for (const struct leat_consumer *c = &l->consumer; c; c = c->next)
        for (const struct leat_batch *b = c->own; b; b = b->next)
            if (leat_batch_has_work(b))
                return false;
    return true;
}

/* LEAT_OK: all parts of the next batch are there and made, or failed; *n: how many. */
static int gather_parts(struct leat_consumer *c, size_t *n, struct leat_error *error)
{
    struct leat_loader *l = c->loader;
    if (l->client.paused)
        return LEAT_IO_PENDING;
    if (c->changes != l->changes && c->batch_rows)
        place(c);
    if (leat_position_precedes(l->window.plan_at, c->at))
        move_window(l, c->at);
    int rc = find_parts(c, n, error);
    if (rc || !*n)
        return rc ? rc : LEAT_E_END;
    bool pending = false;
    for (size_t i = 0; i < *n; i++) {
        rc = obtain(c, &c->parts[i], error);
        if (rc == LEAT_IO_PENDING)
            pending = true;
        else if (rc)
            return rc;
        else
            pending |= !leat_batch_is_done(c->parts[i].batch);
    }
    if (pending && make_room(c, *n))
        return gather_parts(c, n, error);
    if (pending && is_stuck(l))
        return too_spread(c, error);
    return pending ? LEAT_IO_PENDING : LEAT_OK;
}

bool leat_consumer_is_due(const struct leat_consumer *c)
{
    const struct leat_window *w = &c->loader->window;
    size_t i = from(w, c->at);
    const struct leat_batch *b = own_batch(c, c->at);
    if (!b && i < w->n)
        b = leat_window_at(w, i);
    return b && leat_batch_is_done(b);
}

/* ---- copying --------------------------------------------------------------------------------- */

/* Where the rows of a part stand in its batch, from which rows that were left out are gone; and how many they are. */
static uint64_t delivered(const struct leat_part *part, uint64_t *first)
{
    const struct leat_batch *b = part->batch;
    uint64_t n = part->n;
    *first = part->first;
    for (uint64_t i = 0; b->n_broken && i < part->first + part->n; i++)
        if (b->left_out[i])
            --*(i < part->first ? first : &n);
    return n;
}

static bool copy_notes(const struct leat_part *part, uint64_t begin, struct leat_batch *to)
{
    for (size_t i = 0; i < part->batch->n_broken; i++) {
        struct leat_broken_row note = part->batch->broken[i];
        if (note.row < part->first || note.row - part->first >= part->n)
            continue;
        struct leat_broken_row *grown = leat_realloc_array(to->broken, to->n_broken + 1, sizeof *grown);
        if (!grown || !(note.reason = leat_strdup(note.reason))) {
            to->broken = grown ? grown : to->broken;
            return false;
        }
        note.row += begin - part->first;
        to->broken = grown;
        to->broken_room = to->n_broken + 1;
        to->broken[to->n_broken++] = note;
    }
    return true;
}

static void sum_offsets(const struct leat_part *parts, size_t n, size_t output, uint64_t rows, int64_t *to)
{
    uint64_t k = 0, first;
    to[0] = 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t *offsets = leat_batch_offsets(parts[i].batch, output);
        uint64_t count = delivered(&parts[i], &first);
        for (uint64_t r = 0; r < count; r++, k++)
            to[k + 1] = to[k] + offsets[first + r + 1] - offsets[first + r];
    }
    for (; k < rows; k++)
        to[k + 1] = to[k];
}

/* A batch of the consumer's for the rows of its parts, with its memory. */
static int new_copy(struct leat_consumer *c, const struct leat_plan_batch *plan, size_t n, struct leat_batch **out,
                    struct leat_error *error)
{
    struct leat_loader *l = c->loader;
    struct leat_batch *b = leat_batch_new(&l->pool, plan, LEAT_HELD, error);
    int rc = b ? LEAT_OK : LEAT_E_NOMEM;
    if (rc)
        return rc;
    b->state = LEAT_BATCH_FILLING;
    for (size_t o = 0; o < l->n_outputs; o++)
        if (b->offsets[o])
            sum_offsets(c->parts, n, o, plan->rows, b->offsets[o]);
    rc = leat_loader_allocate(l, b, error);
    uint64_t begin = 0;
    for (size_t i = 0; !rc && i < n; begin += c->parts[i++].n)
        if (!copy_notes(&c->parts[i], begin, b))
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a batch");
    if (rc)
        leat_batch_recycle(b);
    else
        *out = b;
    return rc;
}

/* Without the lock: nobody writes to rows that are made, and their batches stay. */
static void copy_part(const struct leat_part *part, struct leat_batch *to)
{
    const struct leat_batch *from_batch = part->batch;
    uint64_t first, n = delivered(part, &first), at = to->rows;
    for (size_t o = 0; n && o < to->pool->n_outputs; o++) {
        const struct leat_output *output = leat_program_output(to->pool->program, o);
        const uint8_t *source = from_batch->buffers[o]->data + leat_output_values(output, from_batch->plan.rows);
        uint8_t *target = to->buffers[o]->data + leat_output_values(output, to->plan.rows);
        uint64_t begin = first, end = first + n, place_of = at;
        if (output->ragged) {
            const int64_t *offsets = leat_batch_offsets(from_batch, o);
            begin = (uint64_t)offsets[first];
            end = (uint64_t)offsets[first + n];
            place_of = (uint64_t)leat_batch_offsets(to, o)[at];
        }
        memcpy(target + place_of * output->row_bytes, source + begin * output->row_bytes,
               (end - begin) * output->row_bytes);
    }
    memcpy(to->ids + at, from_batch->ids + first, n * sizeof *to->ids);
    memcpy(to->keys + at, from_batch->keys + first, n * sizeof *to->keys);
    memcpy(to->valid + at, from_batch->valid + first, n * sizeof *to->valid);
    to->rows += n;
}

/* The lock is let go meanwhile. */
static int copy_parts(struct leat_consumer *c, const struct leat_plan_batch *plan, size_t n, struct leat_batch **out,
                      struct leat_error *error)
{
    struct leat_loader *l = c->loader;
    int rc = new_copy(c, plan, n, out, error);
    if (rc)
        return rc;
    for (size_t i = 0; i < n; i++)
        c->parts[i].batch->tasks++; /* they stay, whoever evicts them */
    leat_engine_unlock();
    (*out)->rows = 0;
    for (size_t i = 0; i < n; i++)
        copy_part(&c->parts[i], *out);
    leat_engine_lock();
    for (size_t i = 0; i < n; i++)
        leat_batch_let_go(l, c->parts[i].batch);
    c->copied += (*out)->rows;
    return LEAT_OK;
}

/* ---- handing out ----------------------------------------------------------------------------- */

/* The batch of the only part leaves the window, or what the consumer has of its own. */
static struct leat_batch *take_whole(struct leat_consumer *c, struct leat_batch *b)
{
    struct leat_window *w = &c->loader->window;
    for (struct leat_batch **p = &c->own; *p; p = &(*p)->next)
        if (*p == b) {
            *p = b->next;
            b->next = NULL;
            return b;
        }
    leat_window_remove(w, from(w, b->plan.at));
    return b;
}

/* To the first row behind the parts. */
static void advance(struct leat_consumer *c, size_t n)
{
    const struct leat_part *last = &c->parts[n - 1];
    for (size_t i = 0; i < n; i++)
        c->rows += c->parts[i].n;
    bool whole = last->first + last->n == last->plan.rows;
    c->step = whole && last->plan.last ? 0 : (c->batch_rows ? c->step : last->plan.step) + 1;
    c->at = whole ? last->plan.next : last->plan.at;
    c->skip = whole ? 0 : last->first + last->n;
    if (whole && last->plan.last) {
        c->at = (struct leat_position){c->epoch + 1, 0};
        c->ended = true;
        c->rows = 0;
    }
    drop_own(c, c->at);
}

/* A batch that was missed is begun while the consumer uses the one before it. */
static void make_next(struct leat_consumer *c)
{
    struct leat_plan_batch plan;
    struct leat_loader *l = c->loader;
    if (c->ended || leat_plan_batch(l->plan, c->at, &plan) || !plan.rows || own_batch(c, plan.at) ||
        !leat_position_precedes(plan.at, l->window.plan_at) || from(&l->window, plan.at) ||
        (l->window.n && leat_position_is(leat_window_at(&l->window, 0)->plan.at, plan.at)))
        return;
    if (leat_budget_ask(&l->budget, LEAT_HELD, 2 * l->window.estimate) == LEAT_YES)
        make_own(c, &plan, NULL);
}

int leat_consumer_take(struct leat_consumer *c, struct leat_batch **out, struct leat_error *error)
{
    struct leat_loader *l = c->loader;
    size_t n = 0;
    int rc = gather_parts(c, &n, error);
    if (rc)
        return rc;
    uint64_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        struct leat_batch *b = c->parts[i].batch;
        if (b->state == LEAT_BATCH_FAILED || (n == 1 && leat_batch_fail_if_empty(b)))
            return leat_loader_raise(l, b, error);
        rows += c->parts[i].n;
    }
    struct leat_part *part = c->parts;
    struct leat_plan_batch plan = part->plan;
    plan.step = c->batch_rows ? c->step : plan.step;
    plan.rows = rows;
    if (n == 1 && part->n == plan.rows && part->n == part->plan.rows && !is_needed(c, part->batch) &&
        !part->batch->tasks) {
        rc = part->batch->account == LEAT_HELD ? LEAT_OK : leat_loader_check_held(l, part->batch, error);
        if (!rc)
            (*out = take_whole(c, part->batch))->plan = plan;
    } else {
        rc = copy_parts(c, &plan, n, out, error);
        if (!rc && leat_batch_fail_if_empty(*out)) {
            rc = (*out)->failure.code;
            *error = (*out)->failure;
            leat_batch_recycle(*out);
            *out = NULL;
        }
    }
    if (rc)
        return rc;
    advance(c, n);
    leat_loader_put_out(l, *out);
    leat_loader_count(l, *out);
    trim(l);
    make_next(c);
    return LEAT_OK;
}

/* ---- the public face ------------------------------------------------------------------------- */

static int enter(const struct leat_consumer *c, struct leat_error *error)
{
    int rc = leat_loader_enter(c->loader, error);
    if (!rc && c->closed) {
        leat_engine_unlock();
        return leat_fail(error, LEAT_E_CLOSED, "the consumer is closed");
    }
    return rc;
}

int leat_consumer_open(struct leat_loader *l, uint64_t batch_size, bool beginning, struct leat_consumer **out,
                       struct leat_error *error)
{
    *out = NULL;
    if (!batch_size || batch_size > LEAT_MAX_GLOBAL_BATCH)
        return leat_fail(error, LEAT_E_INVALID, "a batch has 1 to 2^40 rows, not %" PRIu64, batch_size);
    if (l->delivery->numbers_rows)
        return leat_fail(error, LEAT_E_INVALID, "consumers share one order of rows: open the loader with in_order");
    struct leat_consumer *c = leat_new(struct leat_consumer);
    struct leat_part *parts = leat_new_array(LEAT_MAX_WINDOW, sizeof *parts);
    struct leat_part *firsts = leat_new_array(1, sizeof *firsts);
    int rc =
        c && parts && firsts ? leat_loader_enter(l, error) : leat_fail(error, LEAT_E_NOMEM, "no memory for a consumer");
    if (rc) {
        leat_free(c);
        leat_free(parts);
        leat_free(firsts);
        return rc;
    }
    c->loader = l;
    c->batch_rows = batch_size;
    c->parts = parts;
    if (!l->consumer.parts) {
        l->consumer.parts = firsts;
        firsts = NULL;
    }
    const struct leat_consumer *leader = leat_consumers_leader(l);
    struct leat_position at = leat_consumer_received(beginning ? &l->consumer : leader);
    uint64_t rows = beginning || !is_reading(leader) ? 0 : leader->skip;
    struct leat_plan_batch plan;
    for (struct leat_position p = {at.epoch, 0};
         !beginning && leat_position_precedes(p, at) && leat_plan_batch(l->plan, p, &plan) == LEAT_OK && !plan.last;
         p = plan.next)
        rows += plan.rows;
    stand(c, beginning && l->consumer.started ? l->consumer.epoch : at.epoch, rows);
    c->loaded = true;
    c->next = l->consumer.next;
    l->consumer.next = c;
    l->pool.references++;
    leat_engine_unlock();
    leat_free(firsts);
    *out = c;
    return LEAT_OK;
}

void leat_consumer_close(struct leat_consumer *c)
{
    if (!c || !leat_pool_is_ours(&c->loader->pool))
        return;
    struct leat_loader *l = c->loader;
    leat_engine_lock();
    c->closed = true;
    l->due |= LEAT_DUE_WAKE;
    leat_loader_settle(l);
    while (c->inside)
        leat_loader_wait(l, INT64_MAX);
    drop_own(c, (struct leat_position){UINT64_MAX, 0});
    struct leat_consumer **p = &l->consumer.next;
    while (*p != c)
        p = &(*p)->next;
    *p = c->next;
    if (!l->closed) {
        trim(l);
        if (l->consumer.started && !l->consumer.next) { /* alone again: it has no batches on its own */
            drop_own(&l->consumer, (struct leat_position){UINT64_MAX, 0});
            bring_window(&l->consumer, l->consumer.at);
        }
    }
    l->due |= LEAT_DUE_WORK;
    leat_loader_settle(l);
    leat_pool_unref_unlock(&l->pool);
    leat_free(c->parts);
    leat_free(c);
}

int leat_consumer_start(struct leat_consumer *c, uint64_t *iteration, struct leat_error *error)
{
    struct leat_loader *l = c->loader;
    int rc = enter(c, error);
    if (rc)
        return rc;
    if (c->loaded && c->changes != l->changes)
        place(c);
    uint64_t epoch = leat_consumer_next_start(c).epoch, rows = c->loaded ? c->rows : 0;
    if (l->lists_later && l->list_epoch < (int64_t)epoch) {
        leat_engine_unlock();
        return leat_fail(error, LEAT_E_INVALID,
                         "epoch %" PRIu64 " has no list of positions yet: the loader has to begin it first", epoch);
    }
    stand(c, epoch, rows);
    c->step = (c->rows + c->batch_rows - 1) / c->batch_rows;
    c->started = true;
    c->loaded = c->ended = c->has_next_epoch = false;
    bring_window(c, c->at);
    *iteration = ++c->iteration;
    l->due |= LEAT_DUE_WAKE | LEAT_DUE_WORK;
    leat_loader_settle(l);
    leat_engine_unlock();
    return LEAT_OK;
}

static int next_locked(struct leat_consumer *c, uint64_t iteration, int64_t deadline_ns, struct leat_batch **out,
                       struct leat_error *error)
{
    struct leat_loader *l = c->loader;
    for (;;) {
        if (l->closed || c->closed || leat_scheduler.stopping)
            return leat_fail(error, LEAT_E_CLOSED, c->closed ? "the consumer was closed" : "the loader was closed");
        if (iteration != c->iteration || !c->started)
            return leat_fail(error, LEAT_E_CLOSED, "a newer iteration of this consumer has begun");
        leat_error_clear(error);
        int rc = c->ended ? LEAT_E_END : leat_consumer_take(c, out, error);
        if (rc == LEAT_E_END) {
            if (!c->ended)
                c->at = (struct leat_position){c->epoch + 1, 0};
            c->ended = true;
            return leat_fail(error, rc, "the epoch has no further batch");
        }
        if (rc != LEAT_IO_PENDING)
            return rc;
        if (leat_clock_ns() < deadline_ns && leat_loader_help(l))
            continue;
        l->due |= l->client.active ? 0 : LEAT_DUE_WORK;
        leat_loader_settle(l);
        if (leat_clock_ns() >= deadline_ns || !leat_loader_wait(l, deadline_ns))
            return leat_fail(error, LEAT_E_TIMEOUT, "no batch was ready in time; calling again goes on waiting");
    }
}

int leat_consumer_next(struct leat_consumer *c, uint64_t iteration, int64_t timeout_ms, struct leat_batch **out,
                       struct leat_error *error)
{
    *out = NULL;
    struct leat_error own;
    error = error ? error : &own;
    int rc = enter(c, error);
    if (rc)
        return rc;
    struct leat_loader *l = c->loader;
    c->inside++;
    l->in_next++;
    rc = next_locked(c, iteration, leat_loader_deadline(timeout_ms), out, error);
    c->inside--;
    l->due |= c->closed ? LEAT_DUE_WAKE : 0;
    leat_loader_leave(l);
    return rc;
}

int leat_consumer_set_epoch(struct leat_consumer *c, uint64_t epoch, struct leat_error *error)
{
    int rc = enter(c, error);
    if (rc)
        return rc;
    if (!c->loaded || c->epoch != epoch) {
        c->next_epoch = epoch;
        c->has_next_epoch = true;
        c->loaded = false;
    }
    leat_engine_unlock();
    return LEAT_OK;
}

uint64_t leat_consumer_epoch(const struct leat_consumer *c)
{
    if (leat_loader_check_process(c->loader, NULL))
        return 0;
    leat_engine_lock();
    uint64_t epoch = c->started || c->loaded ? c->epoch : leat_consumer_received(c).epoch;
    leat_engine_unlock();
    return epoch;
}

uint64_t leat_consumer_steps(const struct leat_consumer *c)
{
    const struct leat_plan *plan = c->loader->plan;
    struct leat_plan_batch part;
    uint64_t rows = 0, epoch = leat_consumer_epoch(c);
    for (struct leat_position at = {epoch, 0}; leat_plan_batch(plan, at, &part) == LEAT_OK; at = part.next) {
        rows += part.rows;
        if (part.last)
            break;
    }
    return (rows + c->batch_rows - 1) / c->batch_rows;
}

/* ---- its state ------------------------------------------------------------------------------- */

static void print_of(const struct leat_loader *l, char fingerprint[33], char order[17])
{
    for (int i = 0; i < 16; i++)
        snprintf(fingerprint + 2 * i, 3, "%02x", l->fingerprint[i]);
    snprintf(order, 17, "%016" PRIx64, leat_plan_order_hash(l->plan));
}

int leat_consumer_state(const struct leat_consumer *c, char **json, struct leat_error *error)
{
    const struct leat_loader *l = c->loader;
    char fingerprint[33], order[17];
    *json = NULL;
    int rc = enter(c, error);
    if (rc)
        return rc;
    bool within = is_reading(c) || c->loaded;
    json_int_t epoch = (json_int_t)(within ? c->epoch : leat_consumer_received(c).epoch);
    print_of(l, fingerprint, order);
    json_t *o = json_pack("{s:i, s:s, s:s, s:I, s:I, s:I, s:I}", "consumer", STATE_VERSION, "fingerprint", fingerprint,
                          "order", order, "epoch", epoch, "rows", (json_int_t)(within ? c->rows : 0), "rank",
                          (json_int_t)l->rank, "world_size", (json_int_t)l->world_size);
    leat_engine_unlock();
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(o);
    *json = text ? leat_strdup(text) : NULL;
    free(text);
    return *json ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for a state");
}

static bool number(const json_t *o, const char *key, uint64_t *out)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

static int read_state(const struct leat_loader *l, const json_t *o, uint64_t *epoch, uint64_t *rows,
                      struct leat_error *error)
{
    char fingerprint[33], order[17];
    uint64_t version, rank, world;
    const char *print = json_string_value(json_object_get(o, "fingerprint")),
               *hash = json_string_value(json_object_get(o, "order"));
    print_of(l, fingerprint, order);
    if (!print || !hash || !number(o, "consumer", &version) || !number(o, "epoch", epoch) || !number(o, "rows", rows) ||
        !number(o, "rank", &rank) || !number(o, "world_size", &world))
        return leat_fail(error, LEAT_E_INVALID,
                         "not a state of a consumer: give the text that its state_dict() gave, unchanged");
    if (version != STATE_VERSION)
        return leat_fail(error, LEAT_E_STATE, "the state is of a later version, %" PRIu64, version);
    if (strcmp(print, fingerprint) || strcmp(hash, order))
        return leat_fail(error, LEAT_E_STATE, "the state is of another %s",
                         strcmp(print, fingerprint) ? "data set" : "order or seed");
    if (*rows && (world != l->world_size || rank != l->rank))
        return leat_fail(error, LEAT_E_STATE,
                         "the state was taken within an epoch by rank %" PRIu64 " of %" PRIu64
                         ", and this is rank %" PRIu32 " of %" PRIu32,
                         rank, world, l->rank, l->world_size);
    return LEAT_OK;
}

int leat_consumer_load_state(struct leat_consumer *c, const char *json, struct leat_error *error)
{
    uint64_t epoch = 0, rows = 0;
    json_t *o = json_loads(json, JSON_REJECT_DUPLICATES, NULL);
    int rc = read_state(c->loader, o, &epoch, &rows, error);
    json_decref(o);
    if (!rc && rows > leat_plan_epoch_rows(c->loader->plan, epoch))
        rc = leat_fail(error, LEAT_E_STATE, "the state has %" PRIu64 " rows of an epoch of %" PRIu64, rows,
                       leat_plan_epoch_rows(c->loader->plan, epoch));
    if (!rc)
        rc = enter(c, error);
    if (rc)
        return rc;
    stand(c, epoch, rows);
    c->iteration++; /* ends one that runs */
    c->loaded = true;
    c->started = c->ended = c->has_next_epoch = false;
    leat_engine_unlock();
    return LEAT_OK;
}
