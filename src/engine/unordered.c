/*
 * Batches in the order in which rows are finished, within bounds. A row is made where the plan puts it, straight into its planned
 * batch, exactly as if the order were kept; only what is handed out differs. Nothing is copied while no row is late:
 *
 *     1. a planned batch that is whole goes out as it is, the earliest first, past earlier ones that still lack rows;
 *     2. where none is whole, but finished rows of several would fill one, these are copied into a buffer of their own.
 *
 *     window   | a a . a | b b b b | c . c c | d d d .      . : not finished        1: b        2: a a a c
 *                    ^ frontier
 *
 * So a row pays for a copy only if its planned batch has a late row in it, and a late row holds up nobody but its own place: it stays
 * in its planned batch until it is finished and then fills a later one. Making every row in a place of its own and copying it once
 * it is known where it goes would be simpler, but every row would pay; moving late rows instead is not possible, as a thread writes them.
 *
 * A row is late when as many rows planned behind it are finished as a batch has; until then the batch is waited for, so that a few
 * microseconds between threads cause no copies. Rows from batches that rows have left already are used up first: when their late
 * rows are in, they come to whole batches again.
 *
 * Bounds: no batch is planned further than the window's capacity from the frontier, nor one of the next epoch handed out before the
 * last of this one; so a late row is waited for after at most that many batches. The n-th batch has the step and the size that the
 * n-th has in order.
 *
 * Rows are known by their number in the epoch, keys are made of that, and so a row's bytes are those of the ordered run.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/task.h"

/* A planned batch of which rows were received. */
struct leat_received {
    struct leat_position at;
    uint64_t begin, rows, gone;
    struct leat_received *next;
    bool row[]; /* of this rank's part */
};

struct leat_picked {
    struct leat_batch *batch;
    uint64_t row;
};

static bool same(struct leat_position a, struct leat_position b)
{
    return a.epoch == b.epoch && a.row == b.row;
}

static bool before(struct leat_position a, struct leat_position b)
{
    return a.epoch < b.epoch || (a.epoch == b.epoch && a.row < b.row);
}

/* ---- what was received ---------------------------------------------------------------------------------------------- */

static const struct leat_received *find(const struct leat_loader *l, struct leat_position at)
{
    const struct leat_received *r = l->received;
    while (r && before(r->at, at))
        r = r->next;
    return r && same(r->at, at) ? r : NULL;
}

/* That of a planned batch, made if there is none. */
static struct leat_received *obtain(struct leat_received **list, const struct leat_plan_batch *part)
{
    while (*list && before((*list)->at, part->at))
        list = &(*list)->next;
    if (*list && same((*list)->at, part->at))
        return *list;
    struct leat_received *r = leat_new_array(1, sizeof *r + part->rows * sizeof *r->row);
    if (!r)
        return NULL;
    r->at = part->at;
    r->begin = part->begin;
    r->rows = part->rows;
    r->next = *list;
    *list = r;
    return r;
}

static void clear(struct leat_received **list)
{
    for (struct leat_received *r; (r = *list);) {
        *list = r->next;
        leat_free(r);
    }
}

void leat_unordered_free(struct leat_loader *l)
{
    clear(&l->received);
    leat_free(l->picked);
}

/* The entry of a row of the running epoch; `hint`: one that lies before it, or NULL. NULL: the row is not this rank's or lies before
 * the frontier, or memory is out. */
static struct leat_received *entry_of(struct leat_loader *l, uint64_t number, struct leat_received *hint)
{
    struct leat_plan_batch part;
    struct leat_position at = hint ? hint->at : l->at;
    if (hint && number >= hint->begin && number - hint->begin < hint->rows)
        return hint;
    for (; leat_plan_batch(l->plan, at, &part) == LEAT_OK && number >= part.begin; at = part.next) {
        if (number - part.begin < part.rows)
            return obtain(&l->received, &part);
        if (part.last)
            break;
    }
    return NULL;
}

/* Sees that every row has an entry, and was not received. */
static bool can_mark(struct leat_loader *l, const uint64_t *numbers, uint64_t n)
{
    struct leat_received *r = NULL;
    for (uint64_t i = 0; i < n; i++) {
        r = entry_of(l, numbers[i], r);
        if (!r || r->row[numbers[i] - r->begin] || (i && numbers[i] <= numbers[i - 1]))
            return false;
    }
    return true;
}

/* The frontier goes past what is complete. */
static void advance(struct leat_loader *l)
{
    struct leat_plan_batch part;
    while (leat_plan_batch(l->plan, l->at, &part) == LEAT_OK) {
        struct leat_received *r = l->received;
        l->at_step = part.step;
        if (part.rows && (!r || !same(r->at, part.at) || r->gone < r->rows))
            return;
        if (part.rows) {
            l->received = r->next;
            leat_free(r);
        }
        if (part.last)
            return;
        l->at = part.next;
    }
}

/* Whether a state could still say that a row was received. */
static bool is_near(const struct leat_loader *l, uint64_t number)
{
    struct leat_plan_batch part;
    struct leat_position at = l->at;
    for (uint64_t rows = 0; rows < LEAT_PLAN_MAX_BITS && leat_plan_batch(l->plan, at, &part) == LEAT_OK; at = part.next) {
        if (number < part.begin + part.rows)
            return number - part.begin < LEAT_PLAN_MAX_BITS - rows;
        rows += part.rows;
        if (part.last)
            break;
    }
    return false;
}

/* After can_mark. */
static void mark(struct leat_loader *l, const uint64_t *numbers, uint64_t n)
{
    struct leat_received *r = NULL;
    for (uint64_t i = 0; i < n; i++) {
        r = entry_of(l, numbers[i], r);
        r->row[numbers[i] - r->begin] = true;
        r->gone++;
    }
    advance(l);
}

/* A batch has been handed out: the next one is the next in the plan of which this rank has rows. */
static void serve_next(struct leat_loader *l, const struct leat_plan_batch *served)
{
    struct leat_plan_batch part = *served;
    do {
        if (part.last) {
            clear(&l->received);
            l->at = l->serve = (struct leat_position){l->epoch + 1, 0};
            l->at_step = l->step = 0;
            l->ended = true;
            return;
        }
        l->serve = part.next;
    } while (leat_plan_batch(l->plan, l->serve, &part) == LEAT_OK && !part.rows);
    l->step = part.step;
}

/* ---- positions ------------------------------------------------------------------------------------------------------ */

/* Nothing is planned: it begins at the frontier, or with what the record has. */
static void begin_planning(struct leat_loader *l)
{
    l->replay = l->record != NULL;
    l->plan_at = l->replay ? l->serve : l->at;
    l->plan_skip = 0;
}

static uint64_t step_of(const struct leat_loader *l, struct leat_position at)
{
    struct leat_plan_batch part;
    return leat_plan_batch(l->plan, at, &part) ? 0 : part.step;
}

void leat_unordered_stand(struct leat_loader *l, struct leat_position at)
{
    clear(&l->received);
    l->at = l->serve = at;
    l->at_step = step_of(l, at);
    if (!l->n_window)
        begin_planning(l);
}

int leat_unordered_load(struct leat_loader *l, struct leat_position at, const struct leat_plan_received *received, struct leat_error *error)
{
    struct leat_received *list = NULL;
    struct leat_plan_batch part;
    struct leat_position where = at;
    for (uint64_t i = 0; received && i < received->n_bits && leat_plan_batch(l->plan, where, &part) == LEAT_OK; where = part.next) {
        struct leat_received *r = part.rows ? obtain(&list, &part) : NULL;
        if (part.rows && !r) {
            clear(&list);
            return leat_fail(error, LEAT_E_NOMEM, "no memory for a state");
        }
        for (uint64_t k = 0; k < part.rows && i < received->n_bits; k++, i++)
            if (received->bits[i / 8] >> (i % 8) & 1) {
                r->row[k] = true;
                r->gone++;
            }
        if (part.last)
            break;
    }
    clear(&l->received);
    l->received = list;
    l->at = at;
    l->serve = received ? (struct leat_position){at.epoch, received->row} : at;
    l->at_step = step_of(l, at);
    begin_planning(l);
    return LEAT_OK;
}

bool leat_unordered_received(const struct leat_loader *l, struct leat_plan_received *out)
{
    struct leat_plan_batch part;
    struct leat_position at = l->at;
    memset(out, 0, sizeof *out);
    out->row = l->serve.row;
    if (same(l->at, l->serve) && (!at.row || l->world_size == 1))
        return false;
    const struct leat_received *last = NULL;
    for (const struct leat_received *r = l->received; r; r = r->next)
        last = r->gone ? r : last;
    for (uint64_t i = 0; last && !before(last->at, at) && leat_plan_batch(l->plan, at, &part) == LEAT_OK; at = part.next) {
        const struct leat_received *r = find(l, at);
        for (uint64_t k = 0; k < part.rows && i < LEAT_PLAN_MAX_BITS; k++, i++)
            if (r && r->row[k]) {
                out->bits[i / 8] = (uint8_t)(out->bits[i / 8] | 1u << (i % 8));
                out->n_bits = i + 1;
            }
        if (part.last)
            break;
    }
    return true;
}

/* ---- planning ------------------------------------------------------------------------------------------------------- */

/* A place in this rank's rows: `skip` rows of its part of the planned batch at `at`. */
struct cursor {
    struct leat_position at;
    uint64_t skip;
};

/* Goes over at most `want` rows that were not received, from a place on and within its epoch. Returns how many there are; their
 * numbers, the planned batches of the first and the last, and the place behind them go to the caller. */
static uint64_t walk(const struct leat_loader *l, struct cursor *c, uint64_t want, uint64_t *numbers, struct leat_plan_batch *first,
                     struct leat_plan_batch *last)
{
    struct leat_plan_batch part;
    uint64_t n = 0, epoch = c->at.epoch;
    while (n < want && c->at.epoch == epoch && leat_plan_batch(l->plan, c->at, &part) == LEAT_OK) {
        const struct leat_received *r = find(l, c->at);
        for (; n < want && c->skip < part.rows; c->skip++) {
            if (r && r->row[c->skip])
                continue;
            *(n ? last : first) = part;
            if (!n)
                *last = part;
            if (numbers)
                numbers[n] = part.begin + c->skip;
            n++;
        }
        if (c->skip < part.rows)
            break;
        *c = (struct cursor){part.last ? (struct leat_position){epoch + 1, 0} : part.next, 0};
    }
    return n;
}

/* The next batch of rows that are neither received nor planned: mostly one of the plan's. */
static int plan_fresh(struct leat_loader *l, struct leat_error *error)
{
    if (!l->ended && l->plan_at.epoch == l->epoch && before(l->plan_at, l->at)) { /* a cancelled batch began where all is received now */
        l->plan_at = l->at;
        l->plan_skip = 0;
    }
    struct cursor from = {l->plan_at, l->plan_skip}, to;
    struct leat_plan_batch part, first, last;
    struct leat_batch *b;
    int rc = leat_plan_batch(l->plan, from.at, &part);
    if (rc && rc != LEAT_E_END)
        return leat_fail(error, rc, "no batch can be planned at epoch %llu, row %llu", (unsigned long long)from.at.epoch,
                         (unsigned long long)from.at.row);
    to = from;
    uint64_t n = rc ? 0 : walk(l, &to, 1, NULL, &first, &last);
    if (!n) { /* the epoch has no further row */
        l->plan_at = (struct leat_position){from.at.epoch + 1, 0};
        l->plan_skip = 0;
        l->replay = l->record != NULL;
        return LEAT_IO_PENDING;
    }
    if (first.epoch == l->epoch && first.step - l->at_step >= l->window_room)
        return LEAT_E_HELD;
    from = (struct cursor){first.at, to.skip ? to.skip - 1 : first.rows - 1};
    part = first;
    to = from;
    n = walk(l, &to, part.rows, NULL, &first, &last);
    bool listed = n != part.rows || from.skip || !same(part.at, last.at);
    if (listed) {
        part.rows = n;
        part.next = last.next;
        part.last = false;
    }
    rc = leat_window_admit(l, &part, &b, error);
    if (rc)
        return rc;
    to = from;
    walk(l, &to, n, b->numbers, &first, &last);
    b->listed = listed;
    b->skip = from.skip;
    b->last_step = last.step;
    l->plan_at = to.at;
    l->plan_skip = to.skip;
    if (to.at.epoch > from.at.epoch)
        l->replay = l->record != NULL;
    return LEAT_OK;
}

/* The batch that the record has for the step at plan_at. NOT_FOUND: it has none, or one that does not fit what was received. */
static int plan_recorded(struct leat_loader *l, struct leat_error *error)
{
    struct leat_plan_batch part;
    struct leat_batch *b;
    if (leat_plan_batch(l->plan, l->plan_at, &part) || !part.rows)
        return LEAT_E_NOT_FOUND;
    uint64_t *numbers = leat_new_array(part.rows, sizeof *numbers);
    if (!numbers)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a batch of the record");
    int rc = leat_record_find(l->record, part.epoch, part.step, part.rows, numbers) ? LEAT_OK : LEAT_E_NOT_FOUND;
    if (!rc)
        rc = leat_window_admit(l, &part, &b, error);
    if (!rc) {
        memcpy(b->numbers, numbers, part.rows * sizeof *numbers);
        b->listed = b->recorded = true;
        b->last_step = part.step;
        l->plan_at = part.last ? (struct leat_position){part.epoch + 1, 0} : part.next;
    }
    leat_free(numbers);
    return rc;
}

int leat_unordered_plan(struct leat_loader *l, struct leat_error *error)
{
    int rc = LEAT_IO_PENDING;
    while (rc == LEAT_IO_PENDING) {
        if (l->n_window == l->window_room)
            return LEAT_E_HELD;
        if (l->plan_at.epoch > leat_window_last_epoch(l))
            return LEAT_E_END;
        if (!l->replay) {
            rc = plan_fresh(l, error);
            continue;
        }
        rc = plan_recorded(l, error);
        if (rc != LEAT_E_NOT_FOUND)
            continue;
        if (l->plan_at.row && (l->n_window || l->plan_at.epoch != l->epoch))
            return LEAT_E_END; /* first what was recorded goes out: then the frontier is known */
        l->replay = false;
        if (l->plan_at.epoch == l->epoch && !l->ended)
            l->plan_at = l->at;
        l->plan_skip = 0;
        rc = LEAT_IO_PENDING;
    }
    return rc;
}

void leat_unordered_made(struct leat_batch *b, uint64_t first, uint64_t n)
{
    if (atomic_load_explicit(&b->failed_row, memory_order_relaxed) != UINT64_MAX)
        return; /* rows behind the one that failed may not have been made: all are made again */
    for (uint64_t i = first; i < first + n; i++)
        b->row_state[i] = LEAT_ROW_MADE;
    b->n_made += n;
}

/* ---- choosing ------------------------------------------------------------------------------------------------------- */

enum choice { NOTHING, WHOLE, GATHERED, FAILED };

/* Whether rows of a batch may be handed out now: in this epoch, and so near to the frontier that a state can say so. */
static bool in_reach(const struct leat_loader *l, const struct leat_batch *b, uint64_t rows)
{
    uint64_t reach = LEAT_PLAN_MAX_BITS / (rows ? rows : 1);
    return b->plan.epoch == l->epoch && (b == leat_window_at(l, 0) || b->recorded || b->last_step - l->at_step < reach);
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
    for (size_t i = 0; i < l->n_window; i++) {
        struct leat_batch *b = leat_window_at(l, i);
        if (!in_reach(l, b, rows))
            break;
        if (b->recorded) { /* as it was, and in the order in which it was */
            *index = 0;
            return i ? NOTHING : b->state == LEAT_BATCH_READY ? WHOLE : b->state == LEAT_BATCH_FAILED ? FAILED : NOTHING;
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
            held_up = b->n_gone && !late && l->full;
        if (whole == SIZE_MAX && b->state == LEAT_BATCH_READY && !b->n_gone && b->plan.rows == rows)
            whole = i;
        open |= late;
    }
    bool enough = all >= rows && (!open || behind >= rows || all - behind >= rows);
    bool left_go = failed != 0 && (left >= rows || (held_up && all >= rows));
    if (left_go) /* rows that wait for nothing but company keep the frontier where it is, and in the end planning with it */
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
    return l->n_window && !l->running && !l->parked && !l->resumed && leat_window_at(l, 0)->plan.epoch == l->epoch && !leat_task_has_work(l);
}

bool leat_unordered_is_due(const struct leat_loader *l)
{
    struct leat_plan_batch serve;
    size_t index;
    if (leat_plan_batch(l->plan, l->serve, &serve) || l->paused)
        return false;
    return choose(l, serve.rows, &index) != NOTHING || is_stuck(l);
}

/* ---- handing out ---------------------------------------------------------------------------------------------------- */

static uint64_t count_left_out(const struct leat_batch *b)
{
    uint64_t n = 0;
    for (uint64_t i = 0; b->n_broken && i < b->plan.rows; i++)
        n += b->left_out[i];
    return n;
}

/* A batch of the window as it is. */
static int hand_out_whole(struct leat_loader *l, size_t index, const struct leat_plan_batch *serve, struct leat_batch **out,
                          struct leat_error *error)
{
    struct leat_batch *b = leat_window_at(l, index);
    uint64_t left_out = count_left_out(b);
    if (left_out == b->plan.rows) {
        b->rows = 0;
        if (leat_batch_fail_if_empty(b))
            return leat_batch_raise(l, b, error);
    }
    int rc = leat_batch_check_held(l, b, error);
    if (rc)
        return rc;
    bool plain = !b->listed && !l->received && same(b->plan.at, l->at);
    if ((!plain && !can_mark(l, b->numbers, b->plan.rows)) || (b->recorded && !is_near(l, b->numbers[b->plan.rows - 1]))) {
        if (!b->recorded)
            return leat_fail(error, LEAT_E_NOMEM, "no memory for what was received");
        leat_log(LEAT_LOG_WARNING, "the record in log_dir does not fit what was received before step %llu of epoch %llu: it is written anew",
                 (unsigned long long)serve->step, (unsigned long long)serve->epoch);
        leat_record_forget(l->record, serve->epoch, serve->step);
        leat_window_cancel(l, 0);
        begin_planning(l);
        return LEAT_IO_PENDING;
    }
    leat_window_remove(l, index);
    if (plain) {
        l->at = serve->last ? l->at : b->plan.next;
        advance(l);
    } else {
        mark(l, b->numbers, b->plan.rows);
    }
    b->plan = *serve;
    serve_next(l, serve);
    leat_batch_put_out(l, b);
    if (left_out) {
        leat_engine_unlock();
        leat_batch_compact(b);
        leat_engine_lock();
    }
    leat_batch_count(l, b);
    *out = b;
    return LEAT_OK;
}

/* Notes which rows make up a batch, in the order of the plan: of batches that rows have left, and, as far as these do not suffice,
 * of others. */
static bool pick(struct leat_loader *l, uint64_t rows)
{
    uint64_t left = 0, n = 0;
    if (l->picked_room < rows) {
        struct leat_picked *grown = leat_realloc_array(l->picked, rows, sizeof *grown);
        if (!grown)
            return false;
        l->picked = grown;
        l->picked_room = rows;
    }
    for (size_t i = 0; i < l->n_window && in_reach(l, leat_window_at(l, i), rows); i++) {
        struct leat_batch *b = leat_window_at(l, i);
        left += b->n_gone && b->state != LEAT_BATCH_FAILED ? b->n_made : 0;
    }
    left = left < rows ? left : rows;
    uint64_t others = rows - left;
    for (size_t i = 0; i < l->n_window && n < rows; i++) {
        struct leat_batch *b = leat_window_at(l, i);
        uint64_t *quota = b->n_gone ? &left : &others;
        for (uint64_t k = 0; b->state != LEAT_BATCH_FAILED && *quota && k < b->plan.rows; k++)
            if (b->row_state[k] == LEAT_ROW_MADE) {
                l->picked[n++] = (struct leat_picked){b, k};
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
        room += l->picked[i].batch != before_it ? l->picked[i].batch->n_broken : 0;
        before_it = l->picked[i].batch;
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

static const int64_t *offsets_of(const struct leat_batch *b, size_t output)
{
    return (const int64_t *)(const void *)(b->loader->region.base + b->buffers[output]->offset);
}

/* Where the values of picked rows will lie in a ragged output: rows that were left out take no place. */
static void sum_offsets(const struct leat_loader *l, struct leat_batch *b, size_t output)
{
    int64_t *to = b->offsets[output];
    uint64_t n = 0;
    to[0] = 0;
    for (uint64_t i = 0; i < b->plan.rows; i++) {
        const struct leat_picked *p = &l->picked[i];
        const int64_t *from = offsets_of(p->batch, output) + p->row;
        if (p->batch->left_out[p->row])
            continue;
        to[n + 1] = to[n] + from[1] - from[0];
        n++;
    }
    for (uint64_t total = (uint64_t)to[n++]; n <= b->plan.rows; n++)
        to[n] = (int64_t)total;
}

/* A batch for the picked rows, with its memory, counted as held; or NULL. */
static struct leat_batch *new_gathered(struct leat_loader *l, const struct leat_plan_batch *serve)
{
    struct leat_batch *b = leat_window_batch(l, serve->rows, NULL);
    if (!b)
        return NULL;
    b->plan = *serve;
    b->side = true;
    b->state = LEAT_BATCH_FILLING;
    l->held += b->meta;
    leat_engine.used += b->meta;
    leat_batch_rewind(b);
    for (uint64_t i = 0; i < serve->rows; i++)
        b->numbers[i] = l->picked[i].batch->numbers[l->picked[i].row];
    for (size_t o = 0; o < l->n_outputs; o++)
        if (b->offsets[o])
            sum_offsets(l, b, o);
    if (room_for_notes(l, b) && leat_window_cut(l, b, NULL) == LEAT_OK && can_mark(l, b->numbers, serve->rows))
        return b;
    leat_batch_recycle(b);
    return NULL;
}

/* The picked rows leave their batches: those that are empty leave the window, and stay until their rows are copied. */
static void take_picked(struct leat_loader *l, struct leat_batch *b)
{
    struct leat_batch *pinned = NULL;
    for (uint64_t i = 0; i < b->plan.rows; i++) {
        const struct leat_picked *p = &l->picked[i];
        struct leat_batch *from = p->batch;
        from->tasks += from != pinned;
        pinned = from;
        move_note(b, i, p);
        from->row_state[p->row] = LEAT_ROW_GONE;
        from->n_made--;
        from->n_gone++;
    }
    for (size_t i = 0; i < l->n_window;) {
        struct leat_batch *from = leat_window_at(l, i);
        if (!from->loose || from->n_gone < from->plan.rows) {
            i++;
            continue;
        }
        leat_window_remove(l, i);
        leat_batch_cancel(from);
    }
}

static void copy_values(const struct leat_picked *p, struct leat_batch *b, size_t o, uint64_t row)
{
    const struct leat_loader *l = b->loader;
    const struct leat_output *output = leat_program_output(l->program, o);
    const uint8_t *from = l->region.base + p->batch->buffers[o]->offset + leat_output_values(output, p->batch->plan.rows);
    uint8_t *to = l->region.base + b->buffers[o]->offset + leat_output_values(output, b->plan.rows);
    if (!output->ragged) {
        memcpy(to + row * output->row_bytes, from + p->row * output->row_bytes, output->row_bytes);
        return;
    }
    const int64_t *at = offsets_of(p->batch, o) + p->row;
    memcpy(to + (uint64_t)offsets_of(b, o)[row] * output->row_bytes, from + (uint64_t)at[0] * output->row_bytes,
           (uint64_t)(at[1] - at[0]) * output->row_bytes);
}

/* Without the lock: nobody writes to rows that are made, and their batches stay. Output by output, so that memory is written from
 * front to back. */
static void copy_picked(struct leat_batch *b)
{
    const struct leat_loader *l = b->loader;
    uint64_t n = 0;
    for (size_t o = 0; o < l->n_outputs; o++) {
        n = 0;
        for (uint64_t i = 0; i < b->plan.rows; i++)
            if (!l->picked[i].batch->left_out[l->picked[i].row])
                copy_values(&l->picked[i], b, o, n++);
    }
    n = 0;
    for (uint64_t i = 0; i < b->plan.rows; i++) {
        const struct leat_batch *from = l->picked[i].batch;
        uint64_t row = l->picked[i].row;
        if (from->left_out[row])
            continue;
        b->ids[n] = from->ids[row];
        b->keys[n] = from->keys[row];
        b->valid[n++] = from->valid[row];
    }
    b->rows = n;
}

/* A batch of picked rows. PENDING: there is no memory for it now. */
static int hand_out_gathered(struct leat_loader *l, const struct leat_plan_batch *serve, struct leat_batch **out, struct leat_error *error)
{
    uint64_t left_out = 0;
    struct leat_batch *b = pick(l, serve->rows) ? new_gathered(l, serve) : NULL;
    if (!b)
        return LEAT_IO_PENDING;
    for (uint64_t i = 0; i < serve->rows; i++)
        left_out += l->picked[i].batch->left_out[l->picked[i].row];
    if (left_out == serve->rows) {
        const struct leat_batch *from = l->picked->batch;
        size_t i = 0;
        while (from->broken[i].row != l->picked->row)
            i++;
        int rc = leat_fail(error, from->broken[i].code, "no row of the batch is left; the first error: %s", from->broken[i].reason);
        leat_error_at_sample(error, from->broken[i].planned, NULL);
        l->count.raised++;
        leat_batch_recycle(b);
        return rc;
    }
    take_picked(l, b);
    mark(l, b->numbers, serve->rows);
    serve_next(l, serve);
    leat_engine_unlock();
    copy_picked(b);
    leat_engine_lock();
    struct leat_batch *pinned = NULL;
    for (uint64_t i = 0; i < serve->rows; i++) {
        struct leat_batch *from = l->picked[i].batch;
        if (from != pinned)
            leat_batch_let_go(from);
        pinned = from;
    }
    l->count.gathered++;
    l->count.copied += b->rows;
    leat_batch_put_out(l, b);
    leat_batch_count(l, b);
    *out = b;
    return LEAT_OK;
}

int leat_unordered_next(struct leat_loader *l, struct leat_batch **out, struct leat_error *error)
{
    struct leat_plan_batch serve;
    size_t index = 0;
    int rc = leat_plan_batch(l->plan, l->serve, &serve);
    if (rc)
        return leat_fail(error, rc, "no batch can be planned at epoch %llu, row %llu", (unsigned long long)l->serve.epoch,
                         (unsigned long long)l->serve.row);
    switch (choose(l, serve.rows, &index)) {
    case WHOLE:
        return hand_out_whole(l, index, &serve, out, error);
    case FAILED:
        return leat_batch_raise(l, leat_window_at(l, index), error);
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
