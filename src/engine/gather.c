/*
 * Batches in the order in which rows are finished, within bounds. A row is made where the plan puts it, straight into
 * its planned batch, exactly as if the order were kept; only the batches handed out differ. No row is copied while none
 * is late:
 *
 *     1. a planned batch that is whole goes out as it is, the earliest first, past earlier ones that still lack rows;
 *     2. if none is whole, but finished rows of several would fill one, these are copied into a buffer of their own.
 *
 *     window   | a a . a | b b b b | c . c c | d d d .      . : not finished        1: b        2: a a a c
 *                    ^ frontier
 *
 * So a row pays for a copy only if its planned batch has a late row in it, and a late row holds up only its own place:
 * it stays in its planned batch until it is finished and then fills a later one. Making every row in a place of its own
 * and copying it once its place is known would be simpler, but every row would pay; moving late rows instead is not
 * possible, as a thread writes them.
 *
 * A row is late when as many rows planned behind it are finished as a batch has; until then the consumer waits for the
 * batch, so that a few microseconds between threads cause no copies. Rows from batches that rows have left already are
 * used up first: when their late rows are in, they come to whole batches again.
 *
 * Bounds: no batch is planned further than the window's capacity from the frontier, nor one of the next epoch handed
 * out before the last of this one; so the consumer waits for a late row after at most that many batches. The n-th batch
 * has the step and the size that the n-th has in order.
 *
 * Rows are known by their number in the epoch, keys are made of that, and so a row's bytes are those of the ordered
 * run.
 */
#include "engine/gather.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/record.h"
#include "engine/task.h"
#include "engine/unordered.h"

/* ---- choosing -------------------------------------------------------------------------------- */

enum choice { NOTHING, WHOLE, GATHERED, FAILED };

/* Whether rows of a batch may be handed out now: in this epoch, and so near to the frontier that a state can say so. */
static bool in_reach(const struct leat_loader *l, const struct leat_batch *b, uint64_t rows)
{
    uint64_t reach = LEAT_PLAN_MAX_BITS / (rows ? rows : 1);
    return b->plan.epoch == l->consumer.reader.epoch && (b == leat_window_at(&l->window, 0) || b->apart.recorded ||
                                                         b->apart.last_step - l->unordered->at_step < reach);
}

/* Finished rows of a batch behind its first unfinished one. */
static uint64_t made_behind(const struct leat_batch *b)
{
    uint64_t i = 0, n = 0;
    while (i < b->plan.rows && b->apart.row_state[i] != LEAT_ROW_OPEN)
        i++;
    for (; i < b->plan.rows; i++)
        n += b->apart.row_state[i] == LEAT_ROW_MADE;
    return n;
}

static enum choice choose(const struct leat_loader *l, uint64_t rows, size_t *index)
{
    uint64_t left = 0, all = 0, behind = 0;
    size_t whole = SIZE_MAX, failed = SIZE_MAX;
    bool open = false, held_up = false;
    for (size_t i = 0; i < l->window.n; i++) {
        struct leat_batch *b = leat_window_at(&l->window, i);
        if (!in_reach(l, b, rows))
            break;
        if (b->apart.recorded) { /* as it was, and in the order in which it was */
            *index = 0;
            return i                               ? NOTHING
                   : b->state == LEAT_BATCH_READY  ? WHOLE
                   : b->state == LEAT_BATCH_FAILED ? FAILED
                                                   : NOTHING;
        }
        if (b->state == LEAT_BATCH_FAILED) {
            failed = open ? failed : i;
            open = true;
            continue;
        }
        bool late = b->apart.n_made + b->apart.n_gone < b->plan.rows;
        all += b->apart.n_made;
        left += b->apart.n_gone ? b->apart.n_made : 0;
        behind += open ? b->apart.n_made : late ? made_behind(b) : 0;
        if (!i)
            held_up = b->apart.n_gone && !late && l->window.full;
        if (whole == SIZE_MAX && b->state == LEAT_BATCH_READY && !b->apart.n_gone && b->plan.rows == rows)
            whole = i;
        open |= late;
    }
    bool enough = all >= rows && (!open || behind >= rows || all - behind >= rows);
    bool left_go = failed != 0 && (left >= rows || (held_up && all >= rows));
    if (left_go) /* rows that only wait for company keep the frontier where it is, and in the end planning with
                    it */
        return GATHERED;
    *index = failed == 0 || whole == SIZE_MAX ? failed : whole;
    if (failed == 0)
        return FAILED;
    if (whole != SIZE_MAX)
        return WHOLE;
    if (enough)
        return GATHERED;
    return failed != SIZE_MAX ? FAILED : NOTHING;
}

/* No row would ever be finished: the batches under way wait for rows that have no memory beside them. */
static bool is_stuck(const struct leat_loader *l)
{
    return l->window.n && !l->tasks.running && !l->tasks.parked && !l->tasks.resumed &&
           leat_window_at(&l->window, 0)->plan.epoch == l->consumer.reader.epoch && !leat_task_has_work(l);
}

bool leat_unordered_is_due(const struct leat_loader *l)
{
    struct leat_plan_batch serve;
    size_t index;
    if (leat_plan_batch(l->plan, l->unordered->serve, &serve) || l->client.paused)
        return false;
    return choose(l, serve.rows, &index) != NOTHING || is_stuck(l);
}

/* ---- handing out ----------------------------------------------------------------------------- */

static uint64_t count_left_out(const struct leat_batch *b)
{
    uint64_t n = 0;
    for (uint64_t i = 0; b->faults.n_broken && i < b->plan.rows; i++)
        n += b->left_out[i];
    return n;
}

/* A batch of the window as it is. */
static int hand_out_whole(struct leat_loader *l, size_t index, const struct leat_plan_batch *serve,
                          struct leat_batch **out, struct leat_error *error)
{
    struct leat_batch *b = leat_window_at(&l->window, index);
    uint64_t left_out = count_left_out(b);
    if (left_out == b->plan.rows) {
        b->rows = 0;
        if (leat_batch_fail_if_empty(b))
            return leat_loader_raise(l, b, error);
    }
    int rc = leat_loader_check_held(l, b, error);
    if (rc)
        return rc;
    bool plain = !b->apart.listed && !l->unordered->received && leat_position_is(b->plan.at, l->consumer.at);
    if ((!plain && !leat_unordered_can_mark(l, b->apart.numbers, b->plan.rows)) ||
        (b->apart.recorded && !leat_unordered_is_near(l, b->apart.numbers[b->plan.rows - 1]))) {
        if (!b->apart.recorded || !l->record)
            return leat_fail(error, LEAT_E_NOMEM, "no memory for what was received");
        leat_log(
            LEAT_LOG_WARNING,
            "the record in log_dir does not fit what was received before step %llu of epoch %llu: it is written anew",
            (unsigned long long)serve->step, (unsigned long long)serve->epoch);
        leat_record_forget(l->record, serve->epoch, serve->step);
        leat_window_cancel(l, 0);
        leat_unordered_replan(l);
        return LEAT_IO_PENDING;
    }
    leat_window_remove(&l->window, index);
    if (plain) {
        l->consumer.at = serve->last ? l->consumer.at : b->plan.next;
        leat_unordered_advance(l);
    } else {
        leat_unordered_mark(l, b->apart.numbers, b->plan.rows);
    }
    b->plan = *serve;
    leat_unordered_served(l, serve);
    leat_loader_put_out(l, b);
    leat_engine_unlock();
    leat_batch_complete(b);
    leat_engine_lock();
    *out = b;
    return LEAT_OK;
}

/* Notes the rows that make up a batch, in the order of the plan: from batches that rows have left, and, as far as these
 * do not suffice, from others. Returns the number of parts; 0: memory is out. */
static size_t pick(struct leat_unordered *u, const struct leat_loader *l, uint64_t rows)
{
    uint64_t left = 0, n = 0;
    size_t n_parts = 0;
    if (!leat_grow(&u->parts, &u->parts_room, rows, sizeof *u->parts))
        return 0;
    for (size_t i = 0; i < l->window.n && in_reach(l, leat_window_at(&l->window, i), rows); i++) {
        struct leat_batch *b = leat_window_at(&l->window, i);
        left += b->apart.n_gone && b->state != LEAT_BATCH_FAILED ? b->apart.n_made : 0;
    }
    left = left < rows ? left : rows;
    uint64_t others = rows - left;
    for (size_t i = 0; i < l->window.n && n < rows; i++) {
        struct leat_batch *b = leat_window_at(&l->window, i);
        uint64_t *quota = b->apart.n_gone ? &left : &others;
        for (uint64_t k = 0; b->state != LEAT_BATCH_FAILED && *quota && k < b->plan.rows; k++) {
            if (b->apart.row_state[k] != LEAT_ROW_MADE)
                continue;
            struct leat_excerpt *last = n_parts ? &u->parts[n_parts - 1] : NULL;
            if (last && last->batch == b && last->first + last->n == k)
                last->n++;
            else
                u->parts[n_parts++] = (struct leat_excerpt){.first = k, .n = 1, .batch = b};
            --*quota;
            n++;
        }
    }
    return n == rows ? n_parts : 0;
}

/* The picked rows leave their batches: those that are empty leave the window. */
static void take_picked(struct leat_loader *l, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct leat_excerpt *p = &l->unordered->parts[i];
        memset(p->batch->apart.row_state + p->first, LEAT_ROW_GONE, p->n);
        p->batch->apart.n_made -= p->n;
        p->batch->apart.n_gone += p->n;
    }
    for (size_t i = 0; i < l->window.n;) {
        struct leat_batch *from = leat_window_at(&l->window, i);
        if (!from->apart.loose || from->apart.n_gone < from->plan.rows) {
            i++;
            continue;
        }
        leat_window_remove(&l->window, i);
        leat_batch_cancel(from);
    }
}

/* A batch of picked rows. PENDING: there is no memory for it now. */
static int hand_out_gathered(struct leat_loader *l, const struct leat_plan_batch *serve, struct leat_batch **out,
                             struct leat_error *error)
{
    struct leat_unordered *u = l->unordered;
    struct leat_batch *b;
    size_t n = pick(u, l, serve->rows);
    int rc = n ? LEAT_OK : LEAT_E_NOMEM;
    for (size_t i = 0; !rc && i < n; i++)
        if (!leat_unordered_can_mark(l, u->parts[i].batch->apart.numbers + u->parts[i].first, u->parts[i].n))
            rc = LEAT_E_NOMEM;
    if (!rc)
        rc = leat_assemble(l, serve, u->parts, n, &b, error);
    if (rc == LEAT_E_NOMEM || rc == LEAT_E_HELD || rc == LEAT_E_BUDGET) {
        leat_error_clear(error);
        return LEAT_IO_PENDING;
    }
    if (rc)
        return rc;
    take_picked(l, n);
    leat_unordered_mark(l, b->apart.numbers, serve->rows);
    leat_unordered_served(l, serve);
    leat_assemble_fill(l, u->parts, n, b);
    l->count.gathered++;
    l->count.copied += b->rows;
    leat_loader_put_out(l, b);
    *out = b;
    return LEAT_OK;
}

/* As leat_unordered_next, once. */
static int choose_and_hand_out(struct leat_loader *l, struct leat_batch **out, struct leat_error *error)
{
    struct leat_plan_batch serve;
    size_t index = 0;
    int rc = leat_plan_batch(l->plan, l->unordered->serve, &serve);
    if (rc)
        return leat_fail(error, rc, "no batch can be planned at epoch %llu, row %llu",
                         (unsigned long long)l->unordered->serve.epoch, (unsigned long long)l->unordered->serve.row);
    switch (choose(l, serve.rows, &index)) {
    case WHOLE:
        return hand_out_whole(l, index, &serve, out, error);
    case FAILED:
        return leat_loader_raise(l, leat_window_at(&l->window, index), error);
    case GATHERED:
        return hand_out_gathered(l, &serve, out, error);
    default:
        return LEAT_IO_PENDING;
    }
}

int leat_unordered_next(struct leat_consumer *c, struct leat_batch **out, struct leat_error *error)
{
    struct leat_loader *l = c->loader;
    for (;;) {
        int rc = leat_loader_plan_first(l, error);
        if (rc)
            return rc;
        rc = choose_and_hand_out(l, out, error);
        if (rc == LEAT_IO_PENDING && is_stuck(l))
            leat_window_cancel(l, 0); /* planned again from the frontier on, the first batch needs no company */
        if (rc != LEAT_IO_PENDING || l->window.n)
            return rc;
    }
}
