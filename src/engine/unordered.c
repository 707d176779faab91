/*
 * Loaders without order: the received rows, the frontier, and the planned batches. gather.c chooses the rows that are
 * handed out together; its opening says how this works.
 *
 *     at, received     the frontier, and which rows beyond it were received: per planned batch, a mark for each row
 *     serve            the planned batch whose step and size the next one handed out has
 *     plan_at, _skip   the first row that is in no batch of the window; from there on, batches are cut from the rows
 *                      that were not received, so that they are full again after a state was loaded or prefetched
 *                      batches were cancelled
 *
 * With a record, steps that stand in it are planned first, as they were; then planning begins at the frontier.
 */
#include "engine/unordered.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/control.h"
#include "engine/gather.h"
#include "engine/record.h"
#include "engine/task.h"

/* A planned batch of which rows were received. */
struct leat_received {
    struct leat_position at;
    uint64_t begin, rows, gone;
    struct leat_received *next;
    bool row[]; /* of this rank's part */
};

/* ---- received rows --------------------------------------------------------------------------- */

static const struct leat_received *find(const struct leat_loader *l, struct leat_position at)
{
    const struct leat_received *r = l->unordered->received;
    while (r && leat_position_precedes(r->at, at))
        r = r->next;
    return r && leat_position_is(r->at, at) ? r : NULL;
}

/* That of a planned batch, made if there is none. */
static struct leat_received *obtain(struct leat_received **list, const struct leat_plan_batch *part)
{
    while (*list && leat_position_precedes((*list)->at, part->at))
        list = &(*list)->next;
    if (*list && leat_position_is((*list)->at, part->at))
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

static int open_all(struct leat_loader *l, const struct leat_loader_options *o, struct leat_error *error)
{
    l->unordered = leat_new(struct leat_unordered);
    if (!l->unordered)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a loader");
    return o->log_dir ? leat_record_open(o->log_dir, l, o->seed, o->rank, o->world_size, &l->record, error) : LEAT_OK;
}

static void free_all(struct leat_loader *l)
{
    if (!l->unordered)
        return;
    clear(&l->unordered->received);
    leat_free(l->unordered->chosen);
    leat_free(l->unordered->parts);
    leat_free(l->unordered);
}

/* The entry of a row of the running epoch; `hint`: one that lies before it, or NULL. NULL: the row is not this rank's
 * or lies before the frontier, or memory is out. */
static struct leat_received *entry_of(struct leat_loader *l, uint64_t number, struct leat_received *hint)
{
    struct leat_plan_batch part;
    struct leat_position at = hint ? hint->at : l->consumer.at;
    if (hint && number >= hint->begin && number - hint->begin < hint->rows)
        return hint;
    for (; leat_plan_batch(l->plan, at, &part) == LEAT_OK && number >= part.begin; at = part.next) {
        if (number - part.begin < part.rows)
            return obtain(&l->unordered->received, &part);
        if (part.last)
            break;
    }
    return NULL;
}

bool leat_unordered_was_received(const struct leat_loader *l, struct leat_position at, uint64_t row)
{
    const struct leat_received *r = find(l, at);
    return leat_position_precedes(at, l->consumer.at) || (r && r->row[row]);
}

/* Sees that every row has an entry, and was not received. */
bool leat_unordered_can_mark(struct leat_loader *l, const uint64_t *numbers, uint64_t n)
{
    struct leat_received *r = NULL;
    for (uint64_t i = 0; i < n; i++) {
        r = entry_of(l, numbers[i], r);
        if (!r || r->row[numbers[i] - r->begin] || (i && numbers[i] <= numbers[i - 1]))
            return false;
    }
    return true;
}

void leat_unordered_advance(struct leat_loader *l)
{
    struct leat_plan_batch part;
    while (leat_plan_batch(l->plan, l->consumer.at, &part) == LEAT_OK) {
        struct leat_received *r = l->unordered->received;
        l->unordered->at_step = part.step;
        if (part.rows && (!r || !leat_position_is(r->at, part.at) || r->gone < r->rows))
            return;
        if (part.rows) {
            l->unordered->received = r->next;
            leat_free(r);
        }
        if (part.last)
            return;
        l->consumer.at = part.next;
    }
}

/* Whether a state could still record that a row was received. */
bool leat_unordered_is_near(const struct leat_loader *l, uint64_t number)
{
    struct leat_plan_batch part;
    struct leat_position at = l->consumer.at;
    for (uint64_t rows = 0; rows < LEAT_PLAN_MAX_BITS && leat_plan_batch(l->plan, at, &part) == LEAT_OK;
         at = part.next) {
        if (number < part.begin + part.rows)
            return number - part.begin < LEAT_PLAN_MAX_BITS - rows;
        rows += part.rows;
        if (part.last)
            break;
    }
    return false;
}

/* After can_mark. */
void leat_unordered_mark(struct leat_loader *l, const uint64_t *numbers, uint64_t n)
{
    struct leat_received *r = NULL;
    for (uint64_t i = 0; i < n; i++) {
        r = entry_of(l, numbers[i], r);
        r->row[numbers[i] - r->begin] = true;
        r->gone++;
    }
    leat_unordered_advance(l);
}

/* A batch has been handed out: the next one is the next in the plan of which this rank has rows. */
void leat_unordered_served(struct leat_loader *l, const struct leat_plan_batch *served)
{
    struct leat_plan_batch part = *served;
    do {
        if (part.last) {
            clear(&l->unordered->received);
            l->consumer.at = l->unordered->serve = (struct leat_position){l->consumer.reader.epoch + 1, 0};
            l->unordered->at_step = l->consumer.reader.step = 0;
            l->consumer.reader.ended = true;
            return;
        }
        l->unordered->serve = part.next;
    } while (leat_plan_batch(l->plan, l->unordered->serve, &part) == LEAT_OK && !part.rows);
    l->consumer.reader.step = part.step;
}

/* ---- positions ------------------------------------------------------------------------------- */

/* No batch is planned: planning begins at the frontier, or with the record's entries. */
void leat_unordered_replan(struct leat_loader *l)
{
    l->unordered->replay = l->record != NULL;
    l->window.plan_at = l->unordered->replay ? l->unordered->serve : l->consumer.at;
    l->unordered->plan_skip = 0;
    l->unordered->n_chosen = 0;
}

void leat_unordered_choose(struct leat_loader *l, uint64_t *numbers, uint64_t n)
{
    leat_window_cancel(l, 0);
    leat_unordered_replan(l);
    l->window.plan_at = l->unordered->serve;
    leat_free(l->unordered->chosen);
    l->unordered->chosen = numbers;
    l->unordered->n_chosen = n;
}

static void rewind_to(struct leat_loader *l, const struct leat_batch *first)
{
    l->window.plan_at = first->plan.at;
    l->unordered->plan_skip = first->apart.skip;
    l->unordered->replay = first->apart.recorded;
}

/* An epoch that is begun again has rows in the window that were received; behind a loaded position nothing is known
 * yet. */
static void start(struct leat_consumer *c, struct leat_position to)
{
    struct leat_loader *l = c->loader;
    struct leat_unordered *u = l->unordered;
    struct leat_window *w = &l->window;
    if (c->reader.loaded || (c->reader.started && to.epoch == c->reader.epoch))
        leat_window_cancel(l, 0);
    if (!c->reader.loaded) {
        while (w->n && leat_position_precedes(leat_window_at(w, 0)->plan.at, to))
            leat_batch_cancel(leat_window_pop(w));
        leat_task_wake_cancelled(l);
        if (!w->n || !leat_position_is(leat_window_at(w, 0)->plan.at, to))
            leat_window_cancel(l, 0);
        if (!w->n)
            w->plan_at = to;
        w->full = false;
        clear(&u->received);
        c->at = u->serve = to;
        u->at_step = leat_loader_step_at(l, to);
        if (!w->n)
            leat_unordered_replan(l);
    }
    c->reader.step = leat_loader_step_at(l, u->serve);
    c->reader.epoch = to.epoch;
}

/* Without in_order rows of an epoch may have been received though its position is the epoch's start. */
static bool is_within(const struct leat_loader *l, struct leat_position at)
{
    const struct leat_consumer *c = &l->consumer;
    const struct leat_position serve = l->unordered->serve;
    return at.row ||
           ((c->reader.loaded || (c->reader.started && !c->reader.ended)) && serve.epoch == at.epoch && serve.row);
}

static int take_over(struct leat_loader *l, struct leat_position at, const struct leat_plan_received *received,
                     struct leat_error *error)
{
    struct leat_received *list = NULL;
    struct leat_plan_batch part;
    struct leat_position where = at;
    for (uint64_t i = 0; received && i < received->n_bits && leat_plan_batch(l->plan, where, &part) == LEAT_OK;
         where = part.next) {
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
    clear(&l->unordered->received);
    l->unordered->received = list;
    l->consumer.at = at;
    l->unordered->serve = received ? (struct leat_position){at.epoch, received->row} : at;
    l->unordered->at_step = leat_loader_step_at(l, at);
    leat_unordered_replan(l);
    return LEAT_OK;
}

static bool received_beyond(const struct leat_loader *l, struct leat_plan_received *out)
{
    struct leat_plan_batch part;
    struct leat_position at = l->consumer.at;
    memset(out, 0, sizeof *out);
    out->row = l->unordered->serve.row;
    if (leat_position_is(l->consumer.at, l->unordered->serve) && (!at.row || l->input.world_size == 1))
        return false;
    const struct leat_received *last = NULL;
    for (const struct leat_received *r = l->unordered->received; r; r = r->next)
        last = r->gone ? r : last;
    for (uint64_t i = 0;
         last && !leat_position_precedes(last->at, at) && leat_plan_batch(l->plan, at, &part) == LEAT_OK;
         at = part.next) {
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

static int state(const struct leat_loader *l, struct leat_position at, char **json, struct leat_error *error)
{
    struct leat_plan_received beyond;
    const struct leat_consumer *c = &l->consumer;
    bool some = (c->reader.loaded || (c->reader.started && !c->reader.ended)) && received_beyond(l, &beyond);
    return leat_plan_state(l->plan, l->fingerprint, at, some ? &beyond : NULL, json, error);
}

static int load(struct leat_loader *l, const char *json, struct leat_error *error)
{
    struct leat_position at;
    struct leat_plan_received beyond;
    bool some = false;
    int rc = leat_plan_load(l->plan, l->fingerprint, json, &at, &beyond, &some, error);
    if (!rc)
        rc = take_over(l, at, some ? &beyond : NULL, error);
    if (!rc)
        l->consumer.reader.step = leat_loader_step_at(l, l->unordered->serve);
    return rc;
}

/* Only the record knows. */
static int rows_of(struct leat_loader *l, const struct leat_plan_batch *plan, uint64_t **numbers,
                   struct leat_error *error)
{
    if (!l->record)
        return leat_fail(error, LEAT_E_INVALID,
                         "which rows step %" PRIu64 " of epoch %" PRIu64
                         " had is known only from the record: open the loader with log_dir",
                         plan->step, plan->epoch);
    *numbers = leat_new_array(plan->rows, sizeof **numbers);
    if (!*numbers)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the rows of a batch");
    return leat_record_seek(l->record, plan->epoch, plan->step, plan->rows, *numbers, error);
}

/* ---- planning -------------------------------------------------------------------------------- */

/* A place in this rank's rows: `skip` rows of its part of the planned batch at `at`. */
struct cursor {
    struct leat_position at;
    uint64_t skip;
};

/* Goes over at most `want` rows that were not received, from a place on and within its epoch. Returns how many there
 * are; their numbers, the planned batches of the first and the last, and the place behind them go to the caller. */
static uint64_t walk(const struct leat_loader *l, struct cursor *c, uint64_t want, uint64_t *numbers,
                     struct leat_plan_batch *first, struct leat_plan_batch *last)
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

/* Rows of a batch out of order may leave it one by one. */
static int admit(struct leat_loader *l, const struct leat_plan_batch *plan, struct leat_batch **out,
                 struct leat_error *error)
{
    int rc = leat_window_admit(l, plan, out, error);
    if (rc)
        return rc;
    (*out)->apart.loose = true;
    memset((*out)->apart.row_state, LEAT_ROW_OPEN, plan->rows);
    return LEAT_OK;
}

/* The next batch of rows that are neither received nor planned: mostly one of the plan's. */
static int plan_fresh(struct leat_loader *l, struct leat_error *error)
{
    if (!l->consumer.reader.ended && l->window.plan_at.epoch == l->consumer.reader.epoch &&
        leat_position_precedes(l->window.plan_at,
                               l->consumer.at)) { /* a cancelled batch began where all is received now */
        l->window.plan_at = l->consumer.at;
        l->unordered->plan_skip = 0;
    }
    struct cursor from = {l->window.plan_at, l->unordered->plan_skip}, to;
    struct leat_plan_batch part, first, last;
    struct leat_batch *b;
    int rc = leat_plan_batch(l->plan, from.at, &part);
    if (rc && rc != LEAT_E_END)
        return leat_fail(error, rc, "no batch can be planned at epoch %llu, row %llu",
                         (unsigned long long)from.at.epoch, (unsigned long long)from.at.row);
    to = from;
    uint64_t n = rc ? 0 : walk(l, &to, 1, NULL, &first, &last);
    if (!n) { /* the epoch has no further row */
        l->window.plan_at = (struct leat_position){from.at.epoch + 1, 0};
        l->unordered->plan_skip = 0;
        l->unordered->replay = l->record != NULL;
        return LEAT_IO_PENDING;
    }
    if (first.epoch == l->consumer.reader.epoch && first.step - l->unordered->at_step >= l->window.room)
        return LEAT_E_HELD;
    from = (struct cursor){first.at, to.skip ? to.skip - 1 : first.rows - 1};
    part = first;
    to = from;
    n = walk(l, &to, part.rows, NULL, &first, &last);
    bool listed = n != part.rows || from.skip || !leat_position_is(part.at, last.at);
    if (listed) {
        part.rows = n;
        part.next = last.next;
        part.last = false;
    }
    rc = admit(l, &part, &b, error);
    if (rc)
        return rc;
    to = from;
    walk(l, &to, n, b->apart.numbers, &first, &last);
    b->apart.listed = listed;
    b->apart.skip = from.skip;
    b->apart.last_step = last.step;
    l->window.plan_at = to.at;
    l->unordered->plan_skip = to.skip;
    if (to.at.epoch > from.at.epoch)
        l->unordered->replay = l->record != NULL;
    return LEAT_OK;
}

/* The batch of the step at plan_at with these rows. */
static int plan_listed(struct leat_loader *l, const struct leat_plan_batch *part, const uint64_t *numbers,
                       struct leat_error *error)
{
    struct leat_batch *b;
    int rc = admit(l, part, &b, error);
    if (rc)
        return rc;
    memcpy(b->apart.numbers, numbers, part->rows * sizeof *numbers);
    b->apart.listed = b->apart.recorded = true;
    b->apart.last_step = part->step;
    l->window.plan_at = part->last ? (struct leat_position){part->epoch + 1, 0} : part->next;
    return LEAT_OK;
}

/* The batch that the record has for the step at plan_at. NOT_FOUND: it has none, or one that does not fit the received
 * rows. */
static int plan_recorded(struct leat_loader *l, struct leat_error *error)
{
    struct leat_plan_batch part;
    if (leat_plan_batch(l->plan, l->window.plan_at, &part) || !part.rows)
        return LEAT_E_NOT_FOUND;
    uint64_t *numbers = leat_new_array(part.rows, sizeof *numbers);
    if (!numbers)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a batch of the record");
    int rc = LEAT_E_NOT_FOUND;
    if (leat_record_find(l->record, part.epoch, part.step, part.rows, numbers))
        rc = plan_listed(l, &part, numbers, error);
    leat_free(numbers);
    return rc;
}

/* The batch of the rows that the caller chose. */
static int plan_chosen(struct leat_loader *l, struct leat_error *error)
{
    struct leat_plan_batch part;
    if (leat_plan_batch(l->plan, l->unordered->serve, &part) || l->unordered->n_chosen != part.rows || !part.rows)
        return error ? leat_fail(error, LEAT_E_INVALID, "no rows were chosen for the next batch") : LEAT_E_END;
    int rc = plan_listed(l, &part, l->unordered->chosen, error);
    l->unordered->n_chosen = rc ? l->unordered->n_chosen : 0;
    return rc;
}

static int plan_next(struct leat_loader *l, struct leat_error *error)
{
    int rc = LEAT_IO_PENDING;
    if (l->unordered->chosen)
        return plan_chosen(l, error);
    while (rc == LEAT_IO_PENDING) {
        if (l->window.n >= l->window.room)
            return LEAT_E_HELD;
        if (l->window.plan_at.epoch > leat_window_last_epoch(l))
            return LEAT_E_END;
        if (!l->unordered->replay) {
            rc = plan_fresh(l, error);
            continue;
        }
        rc = plan_recorded(l, error);
        if (rc != LEAT_E_NOT_FOUND)
            continue;
        if (l->window.plan_at.row && (l->window.n || l->window.plan_at.epoch != l->consumer.reader.epoch))
            return LEAT_E_END; /* first the recorded batches go out: then the frontier is known */
        l->unordered->replay = false;
        if (l->window.plan_at.epoch == l->consumer.reader.epoch && !l->consumer.reader.ended)
            l->window.plan_at = l->consumer.at;
        l->unordered->plan_skip = 0;
        rc = LEAT_IO_PENDING;
    }
    return rc;
}

static void made(struct leat_batch *b, uint64_t first, uint64_t n)
{
    if (atomic_load_explicit(&b->faults.failed_row, memory_order_relaxed) != UINT64_MAX)
        return; /* rows behind the one that failed may not have been made: all are made again */
    for (uint64_t i = first; i < first + n; i++)
        b->apart.row_state[i] = LEAT_ROW_MADE;
    b->apart.n_made += n;
}

const struct leat_delivery leat_delivery_out_of_order = {
    .numbers_rows = true,
    .open = open_all,
    .plan = plan_next,
    .rewind = rewind_to,
    .next = leat_unordered_next,
    .is_due = leat_unordered_is_due,
    .made = made,
    .start = start,
    .is_within = is_within,
    .state = state,
    .load = load,
    .rows_of = rows_of,
    .free = free_all,
};
