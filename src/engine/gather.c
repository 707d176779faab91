/*
 * Batches in the order in which rows are finished, within bounds. A row is made where the plan puts it, straight into
 * its planned batch, exactly as if the order were kept; only what is handed out differs. Nothing is copied while no row
 * is late:
 *
 *     1. a planned batch that is whole goes out as it is, the earliest first, past earlier ones that still lack rows;
 *     2. where none is whole, but finished rows of several would fill one, these are copied into a buffer of their own.
 *
 *     window   | a a . a | b b b b | c . c c | d d d .      . : not finished        1: b        2: a a a c
 *                    ^ frontier
 *
 * So a row pays for a copy only if its planned batch has a late row in it, and a late row holds up nobody but its own
 * place: it stays in its planned batch until it is finished and then fills a later one. Making every row in a place of
 * its own and copying it once it is known where it goes would be simpler, but every row would pay; moving late rows
 * instead is not possible, as a thread writes them.
 *
 * A row is late when as many rows planned behind it are finished as a batch has; until then the batch is waited for, so
 * that a few microseconds between threads cause no copies. Rows from batches that rows have left already are used up
 * first: when their late rows are in, they come to whole batches again.
 *
 * Bounds: no batch is planned further than the window's capacity from the frontier, nor one of the next epoch handed
 * out before the last of this one; so a late row is waited for after at most that many batches. The n-th batch has the
 * step and the size that the n-th has in order.
 *
 * Rows are known by their number in the epoch, keys are made of that, and so a row's bytes are those of the ordered
 * run.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/task.h"
#include "engine/unordered.h"

struct leat_picked {
    struct leat_batch *batch;
    uint64_t row;
};

/* ---- choosing -------------------------------------------------------------------------------- */

enum choice { NOTHING, WHOLE, GATHERED, FAILED };

/* Whether rows of a batch may be handed out now: in this epoch, and so near to the frontier that a state can say so. */
static bool in_reach(const struct leat_loader *l, const struct leat_batch *b, uint64_t rows)
{
    uint64_t reach = LEAT_PLAN_MAX_BITS / (rows ? rows : 1);
    return b->plan.epoch == l->consumer.epoch &&
           (b == leat_window_at(&l->window, 0) || b->recorded || b->last_step - l->unordered->at_step < reach);
}

/* Finished rows of a batch behind its first unfinished one. */
static uint64_t made_behind(const struct leat_batch *b)
{
    uint64_t i = 0, n = 0;
    while (i < b->plan.rows && b->row_state[i] != LEAT_ROW_OPEN)
        i++;
    for (; i < b->plan.rows; i++)
        n += b->row_state[i] == LEAT_ROW_MADE;
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
        if (b->recorded) { /* as it was, and in the order in which it was */
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
        bool late = b->n_made + b->n_gone < b->plan.rows;
        all += b->n_made;
        left += b->n_gone ? b->n_made : 0;
        behind += open ? b->n_made : late ? made_behind(b) : 0;
        if (!i)
            held_up = b->n_gone && !late && l->window.full;
        if (whole == SIZE_MAX && b->state == LEAT_BATCH_READY && !b->n_gone && b->plan.rows == rows)
            whole = i;
        open |= late;
    }
    bool enough = all >= rows && (!open || behind >= rows || all - behind >= rows);
    bool left_go = failed != 0 && (left >= rows || (held_up && all >= rows));
    if (left_go) /* rows that wait for nothing but company keep the frontier where it is, and in the end planning with
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

/* Nothing would ever be finished: what is made waits for rows for which there is no memory beside it. */
static bool is_stuck(const struct leat_loader *l)
{
    return l->window.n && !l->tasks.running && !l->tasks.parked && !l->tasks.resumed &&
           leat_window_at(&l->window, 0)->plan.epoch == l->consumer.epoch && !leat_task_has_work(l);
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
    for (uint64_t i = 0; b->n_broken && i < b->plan.rows; i++)
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
    bool plain = !b->listed && !l->unordered->received && leat_position_is(b->plan.at, l->consumer.at);
    if ((!plain && !leat_unordered_can_mark(l, b->numbers, b->plan.rows)) ||
        (b->recorded && !leat_unordered_is_near(l, b->numbers[b->plan.rows - 1]))) {
        if (!b->recorded)
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
        leat_unordered_mark(l, b->numbers, b->plan.rows);
    }
    b->plan = *serve;
    leat_unordered_served(l, serve);
    leat_loader_put_out(l, b);
    leat_engine_unlock();
    leat_batch_complete(b);
    leat_engine_lock();
    leat_loader_count(l, b);
    *out = b;
    return LEAT_OK;
}

/* Notes which rows make up a batch, in the order of the plan: of batches that rows have left, and, as far as these do
 * not suffice, of others. */
static bool pick(struct leat_loader *l, uint64_t rows)
{
    uint64_t left = 0, n = 0;
    if (l->unordered->picked_room < rows) {
        struct leat_picked *grown = leat_realloc_array(l->unordered->picked, rows, sizeof *grown);
        if (!grown)
            return false;
        l->unordered->picked = grown;
        l->unordered->picked_room = rows;
    }
    for (size_t i = 0; i < l->window.n && in_reach(l, leat_window_at(&l->window, i), rows); i++) {
        struct leat_batch *b = leat_window_at(&l->window, i);
        left += b->n_gone && b->state != LEAT_BATCH_FAILED ? b->n_made : 0;
    }
    left = left < rows ? left : rows;
    uint64_t others = rows - left;
    for (size_t i = 0; i < l->window.n && n < rows; i++) {
        struct leat_batch *b = leat_window_at(&l->window, i);
        uint64_t *quota = b->n_gone ? &left : &others;
        for (uint64_t k = 0; b->state != LEAT_BATCH_FAILED && *quota && k < b->plan.rows; k++)
            if (b->row_state[k] == LEAT_ROW_MADE) {
                l->unordered->picked[n++] = (struct leat_picked){b, k};
                --*quota;
            }
    }
    return n == rows;
}

/* Moves what the policy noted of a picked row. There is room. */
static void move_note(struct leat_batch *to, uint64_t row, const struct leat_picked *p)
{
    for (size_t i = 0; i < p->batch->n_broken; i++) {
        struct leat_broken_row *note = &p->batch->broken[i];
        if (note->row != p->row)
            continue;
        to->broken[to->n_broken] = *note;
        to->broken[to->n_broken++].row = row;
        note->row = UINT64_MAX; /* behind all that may still be noted there */
        note->reason = NULL;
        for (; i + 1 < p->batch->n_broken; i++) {
            struct leat_broken_row next = p->batch->broken[i + 1];
            p->batch->broken[i + 1] = p->batch->broken[i];
            p->batch->broken[i] = next;
        }
        return;
    }
}

static bool room_for_notes(const struct leat_loader *l, struct leat_batch *b)
{
    size_t room = 0;
    const struct leat_batch *before_it = NULL;
    for (uint64_t i = 0; i < b->plan.rows; i++) {
        room += l->unordered->picked[i].batch != before_it ? l->unordered->picked[i].batch->n_broken : 0;
        before_it = l->unordered->picked[i].batch;
    }
    if (room <= b->broken_room)
        return true;
    struct leat_broken_row *grown = leat_realloc_array(b->broken, room, sizeof *grown);
    if (!grown)
        return false;
    b->broken = grown;
    b->broken_room = room;
    return true;
}

/* Where the values of picked rows will lie in a ragged output: rows that were left out take no place. */
static void sum_offsets(const struct leat_loader *l, struct leat_batch *b, size_t output)
{
    int64_t *to = b->offsets[output];
    uint64_t n = 0;
    to[0] = 0;
    for (uint64_t i = 0; i < b->plan.rows; i++) {
        const struct leat_picked *p = &l->unordered->picked[i];
        if (p->batch->left_out[p->row])
            continue;
        to[n + 1] = to[n] + leat_batch_steps(p->batch, output, p->row);
        n++;
    }
    for (uint64_t total = (uint64_t)to[n++]; n <= b->plan.rows; n++)
        to[n] = (int64_t)total;
}

/* A batch for the picked rows, with its memory, counted as held; or NULL. */
static struct leat_batch *new_gathered(struct leat_loader *l, const struct leat_plan_batch *serve)
{
    struct leat_batch *b = leat_batch_new(&l->pool, serve, LEAT_HELD, NULL);
    if (!b)
        return NULL;
    b->state = LEAT_BATCH_FILLING;
    for (uint64_t i = 0; i < serve->rows; i++)
        b->numbers[i] = l->unordered->picked[i].batch->numbers[l->unordered->picked[i].row];
    for (size_t o = 0; o < l->n_outputs; o++)
        if (b->offsets[o])
            sum_offsets(l, b, o);
    if (room_for_notes(l, b) && leat_loader_allocate(l, b, NULL) == LEAT_OK &&
        leat_unordered_can_mark(l, b->numbers, serve->rows))
        return b;
    leat_batch_recycle(b);
    return NULL;
}

/* The picked rows leave their batches: those that are empty leave the window, and stay until their rows are copied. */
static void take_picked(struct leat_loader *l, struct leat_batch *b)
{
    struct leat_batch *pinned = NULL;
    for (uint64_t i = 0; i < b->plan.rows; i++) {
        const struct leat_picked *p = &l->unordered->picked[i];
        struct leat_batch *from = p->batch;
        from->tasks += from != pinned;
        pinned = from;
        move_note(b, i, p);
        from->row_state[p->row] = LEAT_ROW_GONE;
        from->n_made--;
        from->n_gone++;
    }
    for (size_t i = 0; i < l->window.n;) {
        struct leat_batch *from = leat_window_at(&l->window, i);
        if (!from->loose || from->n_gone < from->plan.rows) {
            i++;
            continue;
        }
        leat_window_remove(&l->window, i);
        leat_batch_cancel(from);
    }
}

static void copy_values(const struct leat_picked *p, struct leat_batch *b, size_t o, uint64_t row)
{
    const struct leat_output *output = leat_program_output(b->program, o);
    const uint8_t *from = p->batch->buffers[o]->data + leat_output_values(output, p->batch->plan.rows);
    uint8_t *to = b->buffers[o]->data + leat_output_values(output, b->plan.rows);
    if (!output->ragged) {
        memcpy(to + row * output->row_bytes, from + p->row * output->row_bytes, output->row_bytes);
        return;
    }
    memcpy(to + (uint64_t)leat_batch_offsets(b, o)[row] * output->row_bytes,
           from + (uint64_t)leat_batch_offsets(p->batch, o)[p->row] * output->row_bytes,
           (uint64_t)leat_batch_steps(p->batch, o, p->row) * output->row_bytes);
}

/* Without the lock: nobody writes to rows that are made, and their batches stay. Output by output, so that memory is
 * written from front to back. */
static void copy_picked(const struct leat_loader *l, struct leat_batch *b)
{
    uint64_t n = 0;
    for (size_t o = 0; o < l->n_outputs; o++) {
        n = 0;
        for (uint64_t i = 0; i < b->plan.rows; i++)
            if (!l->unordered->picked[i].batch->left_out[l->unordered->picked[i].row])
                copy_values(&l->unordered->picked[i], b, o, n++);
    }
    n = 0;
    for (uint64_t i = 0; i < b->plan.rows; i++) {
        const struct leat_batch *from = l->unordered->picked[i].batch;
        uint64_t row = l->unordered->picked[i].row;
        if (from->left_out[row])
            continue;
        b->ids[n] = from->ids[row];
        b->keys[n] = from->keys[row];
        b->valid[n++] = from->valid[row];
    }
    b->rows = n;
    leat_batch_finish(b);
}

/* A batch of picked rows. PENDING: there is no memory for it now. */
static int hand_out_gathered(struct leat_loader *l, const struct leat_plan_batch *serve, struct leat_batch **out,
                             struct leat_error *error)
{
    uint64_t left_out = 0;
    struct leat_batch *b = pick(l, serve->rows) ? new_gathered(l, serve) : NULL;
    if (!b)
        return LEAT_IO_PENDING;
    for (uint64_t i = 0; i < serve->rows; i++)
        left_out += l->unordered->picked[i].batch->left_out[l->unordered->picked[i].row];
    if (left_out == serve->rows) {
        const struct leat_batch *from = l->unordered->picked->batch;
        size_t i = 0;
        while (from->broken[i].row != l->unordered->picked->row)
            i++;
        int rc = leat_fail(error, from->broken[i].code, "no row of the batch is left; the first error: %s",
                           from->broken[i].reason);
        leat_error_at_sample(error, from->broken[i].planned, NULL);
        l->count.raised++;
        leat_batch_recycle(b);
        return rc;
    }
    take_picked(l, b);
    leat_unordered_mark(l, b->numbers, serve->rows);
    leat_unordered_served(l, serve);
    leat_engine_unlock();
    copy_picked(l, b);
    leat_engine_lock();
    struct leat_batch *pinned = NULL;
    for (uint64_t i = 0; i < serve->rows; i++) {
        struct leat_batch *from = l->unordered->picked[i].batch;
        if (from != pinned)
            leat_batch_let_go(l, from);
        pinned = from;
    }
    l->count.gathered++;
    l->count.copied += b->rows;
    leat_loader_put_out(l, b);
    leat_loader_count(l, b);
    *out = b;
    return LEAT_OK;
}

int leat_unordered_next(struct leat_loader *l, struct leat_batch **out, struct leat_error *error)
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
        rc = hand_out_gathered(l, &serve, out, error);
        break;
    default:
        rc = LEAT_IO_PENDING;
    }
    if (rc == LEAT_IO_PENDING && is_stuck(l))
        leat_window_cancel(l, 0); /* planned again from the frontier on, the first batch needs no company */
    return rc;
}
