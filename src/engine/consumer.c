/*
 * Consumers: the positions of the readers of a loader's rows, and their calls. Each has a position and a batch size of
 * its own over the rows of this rank, in the order of the plan. The window serves them all: a batch stays in it until
 * every consumer is past it, and planning goes by the one that is farthest ahead.
 *
 * Batches kept for those behind have at most half of the window; then the oldest are evicted. A consumer that comes
 * later makes the batches that it missed again, on the side of the window and one ahead of its reading, and joins the
 * window when it catches up. So a consumer that stops reading never holds up another. ordered.c puts its batches
 * together.
 */
#include "engine/consumer.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "engine/control.h"
#include "engine/interrupt.h"
#include "engine/job.h"
#include "engine/loader.h"
#include "engine/ordered.h"
#include "engine/record.h"
#include "engine/side.h"
#include "engine/stats.h"
#include "engine/task.h"

#define LOOK_NS INT64_C(2000000)

static const struct leat_position everywhere = {UINT64_MAX, 0};

/* ---- positions ------------------------------------------------------------------------------- */

/* The number of batches at the window's front that all are past, or that are kept for those behind. */
static size_t lead_of(const struct leat_loader *l)
{
    size_t lead = 0;
    for (const struct leat_consumer *c = &l->consumer; c; c = c->next) {
        size_t i = c->reader.started ? leat_window_from(&l->window, c->at) : 0;
        lead = i > lead ? i : lead;
    }
    return lead;
}

size_t leat_consumers_lead(const struct leat_loader *l)
{
    return l->consumer.next ? lead_of(l) : 0;
}

const struct leat_consumer *leat_consumers_leader(const struct leat_loader *l)
{
    const struct leat_consumer *leader = &l->consumer;
    for (const struct leat_consumer *c = leader->next; c; c = c->next)
        if (c->reader.started && (!leader->reader.started || leat_position_precedes(leader->at, c->at) ||
                                  (leat_position_is(leader->at, c->at) && leader->skip < c->skip)))
            leader = c;
    return leader;
}

bool leat_consumers_evict(struct leat_loader *l)
{
    if (!leat_consumers_lead(l))
        return false;
    struct leat_batch *b = leat_window_pop(&l->window);
    bool busy = b->tasks;
    leat_batch_cancel(b);
    if (busy)
        leat_task_wake_cancelled(l);
    return true;
}

void leat_consumers_trim(struct leat_loader *l)
{
    struct leat_window *w = &l->window;
    size_t lead = lead_of(l), needed = lead;
    uint64_t kept = 0;
    bool busy = false;
    for (const struct leat_consumer *c = &l->consumer; c; c = c->next) {
        size_t i = c->reader.started ? leat_window_from(w, c->at) : lead;
        needed = i < needed ? i : needed;
    }
    for (size_t i = needed; i < lead; i++)
        kept += leat_window_at(w, i)->bytes;
    for (; lead && (needed || 2 * lead > w->room || 2 * kept > l->budget.limit); lead--) {
        struct leat_batch *b = leat_window_pop(w);
        kept -= needed ? 0 : b->bytes;
        needed -= needed > 0;
        busy = busy || b->tasks;
        leat_batch_cancel(b);
    }
    if (busy)
        leat_task_wake_cancelled(l);
}

bool leat_consumers_need(const struct leat_loader *l, const struct leat_batch *b, const struct leat_consumer *but)
{
    for (const struct leat_consumer *c = &l->consumer; c; c = c->next)
        if (c != but && c->reader.started && !leat_position_precedes(b->plan.at, c->at))
            return true;
    return false;
}

/* The planned batch that the next row of a consumer is in, from how many rows of the epoch it has. */
static void work_out(struct leat_consumer *c)
{
    struct leat_plan_batch part = {.rows = 0};
    uint64_t left = c->rows;
    c->at = (struct leat_position){c->reader.epoch, 0};
    while (leat_plan_batch(c->loader->plan, c->at, &part) == LEAT_OK && left >= part.rows && !part.last) {
        left -= part.rows;
        c->at = part.next;
    }
    c->skip = left;
    if (part.rows && left >= part.rows) { /* past the last row */
        c->at = (struct leat_position){c->reader.epoch + 1, 0};
        c->skip = 0;
    }
}

/* Planning goes on at `at`: no one needs the batches of the window. */
static void move_window(struct leat_loader *l, struct leat_position at)
{
    leat_window_cancel(l, 0);
    l->window.plan_at = at;
}

void leat_consumers_place(struct leat_loader *l)
{
    struct leat_position first = l->window.plan_at;
    if (!l->consumer.next)
        return; /* its place follows from its last batch */
    for (struct leat_consumer *c = &l->consumer; c; c = c->next) {
        if (c->batch_rows && (leat_reader_is_reading(&c->reader) || c->reader.loaded))
            work_out(c);
        if (leat_reader_is_reading(&c->reader) && leat_position_precedes(first, c->at))
            first = c->at;
    }
    if (leat_position_precedes(l->window.plan_at, first))
        move_window(l, first);
}

/* ---- what consumers have peeked at ------------------------------------------------------------ */

/* Gives the batch up; lets the lock go meanwhile: the hook of a buffer that is released may wait. */
static void drop_peeked(struct leat_consumer *c)
{
    struct leat_batch *b = c->reader.peeked;
    if (!b)
        return;
    c->reader.peeked = NULL;
    leat_engine_unlock();
    leat_batch_free(b);
    leat_engine_lock();
}

/* Drops the peeked batches of all consumers from one on, which may go meanwhile. */
static void drop_peeked_from(struct leat_consumer **first)
{
    struct leat_consumer *c = *first;
    while (c && !c->reader.peeked)
        c = c->next;
    if (c) {
        drop_peeked(c);
        drop_peeked_from(first);
    }
}

void leat_consumers_drop_peeked(struct leat_loader *l)
{
    drop_peeked(&l->consumer);
    drop_peeked_from(&l->consumer.next);
}

void leat_consumers_plan_changed(struct leat_loader *l, struct leat_position from)
{
    struct leat_consumer *own = &l->consumer;
    own->reader.handed = 0;
    drop_peeked_from(&own->next);
    if (!own->reader.peeked || !leat_position_precedes(from, own->reader.behind.at))
        return;
    drop_peeked(own);
    if (leat_position_precedes(own->at, l->window.plan_at)) { /* nothing that is planned lies behind it any more */
        l->window.plan_at = own->at;
        l->window.full = false;
    }
}

/* ---- moving a consumer ------------------------------------------------------------------------ */

void leat_consumer_stand(struct leat_consumer *c, struct leat_position at)
{
    struct leat_loader *l = c->loader;
    leat_side_cancel(l, c, everywhere);
    drop_peeked(c);
    c->reader.epoch = at.epoch;
    if (!c->batch_rows) {
        c->at = at;
        c->reader.step = leat_loader_step_at(l, at);
        return;
    }
    c->rows = at.row;
    work_out(c);
    if (c->at.epoch > c->reader.epoch) {
        c->reader.epoch = c->at.epoch;
        c->rows = 0;
    }
    c->reader.step = (c->rows + c->batch_rows - 1) / c->batch_rows;
}

void leat_consumer_bring_window(struct leat_consumer *c)
{
    struct leat_loader *l = c->loader;
    const struct leat_window *w = &l->window;
    const struct leat_position at = c->at;
    bool others = false;
    for (const struct leat_consumer *other = &l->consumer; other; other = other->next)
        others |= other != c && leat_reader_is_reading(&other->reader);
    size_t i = leat_window_from(w, at);
    if (leat_position_precedes(w->plan_at, at) ||
        (!others && !leat_position_is(i < w->n ? leat_window_at(w, i)->plan.at : w->plan_at, at)))
        move_window(l, at);
}

/* The start of the next pass of a consumer: for the loader's own a position of the plan, for others so many rows of the
 * epoch. */
struct leat_position leat_consumer_next_start(const struct leat_consumer *c)
{
    if (c->reader.loaded)
        return c->batch_rows ? (struct leat_position){c->reader.epoch, c->rows} : c->at;
    return (struct leat_position){leat_reader_next_epoch(&c->reader), 0};
}

/* For another than the loader's own: {epoch, rows of it}. */
static struct leat_position rows_of(const struct leat_consumer *c)
{
    return leat_reader_is_reading(&c->reader) ? (struct leat_position){c->reader.epoch, c->rows}
                                              : leat_consumer_next_start(c);
}

struct leat_position leat_consumer_received(const struct leat_consumer *c)
{
    return c->reader.loaded || leat_reader_is_reading(&c->reader) ? c->at : leat_consumer_next_start(c);
}

/* ---- open and close -------------------------------------------------------------------------- */

static struct leat_consumer *consumer_of(struct leat_reader *r)
{
    return (struct leat_consumer *)(void *)r;
}

static int lock(struct leat_reader *r, struct leat_error *error)
{
    const struct leat_consumer *c = consumer_of(r);
    int rc = leat_loader_enter(c->loader, error);
    if (!rc && c->closed) {
        leat_engine_unlock();
        return leat_fail(error, LEAT_E_CLOSED, "the consumer is closed");
    }
    return rc;
}

static void unlock(struct leat_reader *r)
{
    (void)r;
    leat_engine_unlock();
}

/* ---- the beginning of an epoch ---------------------------------------------------------------- */

/* Reads the files that an epoch needs as it begins, without the lock and while no thread plans it. */
static int prepare(struct leat_loader *l, uint64_t epoch, struct leat_error *error)
{
    l->callers.in_next++; /* a closing waits */
    leat_engine_unlock();
    int rc = leat_dataset_refresh(l->dataset, error);
    if (!rc && l->job.steps->refresh)
        l->job.steps->refresh(&l->job);
    if (!rc && l->record)
        rc = leat_record_read(l->record, epoch, error);
    if (!rc && l->record)
        rc = leat_record_read(l->record, epoch + 1, error);
    leat_engine_lock();
    l->callers.in_next--;
    if (!rc && l->closed)
        rc = leat_fail(error, LEAT_E_CLOSED, "the loader is closed");
    if (!rc && l->input.lists_later && l->input.order == LEAT_ORDER_LIST && l->input.list_epoch < (int64_t)epoch)
        rc = leat_fail(error, LEAT_E_INVALID,
                       "epoch %" PRIu64 " has no list of positions yet: leat_loader_set_positions gives it", epoch);
    return rc;
}

/* Whether an epoch can begin: set_epoch may have gone back behind what is kept of decisions. */
static int check_start(const struct leat_loader *l, uint64_t epoch, struct leat_error *error)
{
    struct leat_plan_batch first;
    if (leat_plan_batch(l->plan, (struct leat_position){epoch, 0}, &first) != LEAT_E_RANGE)
        return LEAT_OK;
    return leat_fail(error, LEAT_E_RANGE,
                     "epoch %" PRIu64
                     " cannot begin: %sdecisions made since gave up what it needs. A state from then goes back there, "
                     "and a loader with the whole log of the run (log=) repeats it",
                     epoch, l->input.mixed ? "it has no rows, or " : "");
}

static int start(struct leat_reader *r, struct leat_error *error)
{
    struct leat_consumer *c = consumer_of(r);
    struct leat_loader *l = c->loader;
    struct leat_position to = leat_consumer_next_start(c);
    int rc = prepare(l, to.epoch, error);
    if (!rc && !c->batch_rows && !to.row)
        rc = check_start(l, to.epoch, error);
    if (!rc) {
        l->delivery->start(c, to);
        if (!l->consumer.next && leat_position_precedes(c->at, l->report.told)) /* an epoch that is read again */
            l->report.told = c->at;
        if (!l->consumer.next && leat_position_precedes(c->at, l->report.raised_to))
            l->report.raised_to = c->at;
        l->pace.last_next_ns = leat_clock_ns();
        l->due |= LEAT_DUE_WORK;
    }
    l->due |= LEAT_DUE_WAKE;
    leat_loader_settle(l);
    return rc;
}

static bool put_back(struct leat_reader *r)
{
    struct leat_consumer *c = consumer_of(r);
    struct leat_loader *l = c->loader;
    if (l->delivery->numbers_rows || l->consumer.next)
        return false;
    l->delivery->start(c, r->before.at);
    l->count.batches--;
    l->count.samples -= l->count.last_samples;
    l->count.bytes -= l->count.last_bytes;
    l->due |= LEAT_DUE_WORK | LEAT_DUE_WAKE;
    leat_loader_settle(l);
    return true;
}

static int steps(struct leat_reader *r, uint64_t *out, struct leat_error *error)
{
    const struct leat_consumer *c = consumer_of(r);
    struct leat_plan_batch part;
    uint64_t rows = 0;
    int rc = leat_loader_check_process(c->loader, error);
    const uint64_t epoch = rc ? 0 : leat_consumer_epoch(c);
    for (struct leat_position at = {epoch, 0}; !rc && leat_plan_batch(c->loader->plan, at, &part) == LEAT_OK;
         at = part.next) {
        rows += part.rows;
        if (part.last)
            break;
    }
    *out = (rows + c->batch_rows - 1) / c->batch_rows;
    return rc;
}

/* ---- the next batch -------------------------------------------------------------------------- */

static void stand(const struct leat_reader *r, struct leat_stand *out)
{
    const struct leat_consumer *c = consumer_of((struct leat_reader *)(uintptr_t)r);
    out->at = c->at;
    out->skip = c->skip;
    out->rows = c->rows;
}

static void go(struct leat_reader *r, const struct leat_stand *to)
{
    struct leat_consumer *c = consumer_of(r);
    c->at = to->at;
    c->skip = to->skip;
    c->rows = to->rows;
}

/* For the record: the work of the consumer since it got its last batch, or its wait. */
static void trace_consumer(struct leat_loader *l, enum leat_trace_kind kind, int64_t begun, int64_t end)
{
    const struct leat_trace_event event = {
        .begin_ns = begun, .kind = kind, .epoch = l->consumer.reader.epoch, .step = l->consumer.reader.step};
    leat_trace_add(&l->trace, &event, end);
}

/* For the record: a batch is handed out, and the number ready behind it. */
static void trace_batch(struct leat_loader *l)
{
    struct leat_trace_event event = {
        .begin_ns = leat_clock_ns(), .kind = LEAT_TRACE_BATCH, .rows = l->window.n, .epoch = l->consumer.reader.epoch};
    for (size_t i = 0; i < l->window.n; i++)
        event.first += leat_window_at(&l->window, i)->state == LEAT_BATCH_READY;
    leat_trace_add(&l->trace, &event, event.begin_ns);
    l->trace.handed_out_ns = event.begin_ns;
}

static void begin(struct leat_reader *r, const struct leat_request *q)
{
    struct leat_consumer *c = consumer_of(r);
    struct leat_loader *l = c->loader;
    c->inside++; /* so that a closing waits, also while the report is written, for which the lock is let go */
    l->callers.in_next++;
    if (c != &l->consumer || (q->peek && !q->await))
        return;
    if (l->trace.handed_out_ns)
        trace_consumer(l, LEAT_TRACE_STEP, l->trace.handed_out_ns, leat_clock_ns());
    l->trace.handed_out_ns = 0;
}

static int ready(struct leat_reader *r, const struct leat_request *q, struct leat_error *error)
{
    const struct leat_consumer *c = consumer_of(r);
    const struct leat_loader *l = c->loader;
    if (l->closed || c->closed || leat_scheduler.stopping)
        return leat_fail(error, LEAT_E_CLOSED, c->closed ? "the consumer was closed" : "the loader was closed");
    if (q->peek && !q->await && l->delivery->numbers_rows)
        return leat_fail(error, LEAT_E_UNSUPPORTED,
                         "which batch comes next is known with in_order only: without it that is the one that is "
                         "ready");
    return l->client.paused ? LEAT_IO_PENDING : LEAT_OK;
}

static int take(struct leat_reader *r, struct leat_request *q, struct leat_batch **out, struct leat_error *error)
{
    struct leat_consumer *c = consumer_of(r);
    struct leat_loader *l = c->loader;
    const uint64_t before = l->count.raised;
    if (q->await && l->delivery->numbers_rows) { /* cannot be peeked at */
        int rc = leat_loader_plan_first(l, error);
        q->apart = !rc && l->delivery->is_due(l);
        return rc || q->apart ? rc : LEAT_IO_PENDING;
    }
    int rc = l->delivery->next(c, out, error);
    q->raised = rc && l->count.raised != before;
    return rc;
}

static int wait_for_batch(struct leat_reader *r, struct leat_request *q, struct leat_error *error)
{
    struct leat_loader *l = consumer_of(r)->loader;
    int64_t begun = leat_clock_ns();
    leat_page_wait(l, begun);
    if (!l->client.paused && begun < q->deadline_ns && leat_loader_help(l)) {
        l->count.help_ns += leat_clock_ns() - begun;
        leat_page_wait(l, 0);
        return LEAT_OK;
    }
    l->due |= l->client.active ? 0 : LEAT_DUE_WORK;
    leat_loader_settle(l);
    begun = leat_clock_ns();
    leat_page_wait(l, begun);
    /* Without a batch in flight it waits for memory that others release, which does not wake it. */
    const bool looks = ((!l->window.n && !l->side) || l->window.n_sized) && q->deadline_ns - begun > LOOK_NS;
    const bool in_time =
        begun < q->deadline_ns && (leat_loader_wait(l, looks ? begun + LOOK_NS : q->deadline_ns) || looks);
    leat_page_wait(l, 0);
    const int64_t end = leat_clock_ns();
    l->count.waits++;
    l->count.wait_ns += end - begun;
    if (leat_trace_begin(&l->trace))
        trace_consumer(l, LEAT_TRACE_WAIT, begun, end);
    return in_time ? LEAT_OK : leat_reader_late(error);
}

/* The batch is handed out, or looked at for the first time; what is broken in it is reported. */
static void end(struct leat_reader *r, const struct leat_request *q, const struct leat_batch *b, int rc,
                struct leat_error *error)
{
    struct leat_consumer *c = consumer_of(r);
    struct leat_loader *l = c->loader;
    if (b && !q->peek) {
        leat_loader_count(l, b);
        if (c == &l->consumer && leat_trace_begin(&l->trace))
            trace_batch(l);
    } else if (b && q->fresh) {
        l->pace.last_next_ns = leat_clock_ns();
        leat_window_drained(l, leat_window_is_cheap(l, b->plan.rows)); /* it has left the window */
    } else if (rc == LEAT_E_END && !q->peek) {
        c->at = (struct leat_position){r->epoch + 1, 0};
    }
    const bool reports = l->report.fd >= 0 && (q->raised || (b && q->fresh && b->faults.n_broken)),
               records = l->record && b && !b->apart.recorded;
    if (reports || records) {
        const uint64_t raised_step = l->report.raised_step;
        leat_loader_settle(l);
        leat_engine_unlock();
        if (records)
            leat_record_append(l->record, b);
        if (reports && b)
            leat_report_broken(l, b);
        else if (reports)
            leat_report_raised(l, q->epoch, l->delivery->numbers_rows ? q->step : raised_step, error);
        leat_engine_lock();
    }
    c->inside--;
    l->callers.in_next--;
    l->due |= c->closed ? LEAT_DUE_WAKE : 0;
    leat_loader_settle(l);
}

static void wake(struct leat_reader *r)
{
    struct leat_loader *l = consumer_of(r)->loader;
    if (leat_loader_check_process(l, NULL))
        return;
    leat_engine_lock();
    l->due |= LEAT_DUE_WAKE;
    leat_loader_settle(l);
    leat_engine_unlock();
}

/* ---- its state ------------------------------------------------------------------------------- */

static struct leat_reader_run run_of(const struct leat_loader *l, char fingerprint[33], char order[17])
{
    leat_json_fingerprint(l->fingerprint, fingerprint);
    snprintf(order, 17, "%016" PRIx64, leat_plan_order_hash(l->plan));
    return (struct leat_reader_run){
        .kind = "consumer",
        .fingerprint = fingerprint,
        .order = order,
        .not_one = "not a state of a consumer: give the text that its state_dict() gave, unchanged"};
}

static int state(struct leat_reader *r, char **json, struct leat_error *error)
{
    const struct leat_loader *l = consumer_of(r)->loader;
    char fingerprint[33], order[17];
    int rc = lock(r, error);
    if (rc)
        return rc;
    const struct leat_position at = rows_of(consumer_of(r));
    const struct leat_reader_run run = run_of(l, fingerprint, order);
    const struct leat_state_number numbers[] = {{"rank", l->input.rank}, {"world_size", l->input.world_size}};
    json_t *o = leat_reader_state(&run, at, numbers, sizeof numbers / sizeof *numbers);
    leat_engine_unlock();
    return leat_reader_text(o, json, error);
}

static int read_state(const struct leat_loader *l, const json_t *o, struct leat_position *at, struct leat_error *error)
{
    char fingerprint[33], order[17];
    const struct leat_reader_run run = run_of(l, fingerprint, order);
    struct leat_state_number numbers[] = {{"rank", 0}, {"world_size", 0}};
    int rc = leat_reader_read(&run, o, at, numbers, sizeof numbers / sizeof *numbers, error);
    if (rc)
        return rc;
    const uint64_t rank = numbers[0].value, world = numbers[1].value, rows = leat_plan_epoch_rows(l->plan, at->epoch);
    if (at->row && (world != l->input.world_size || rank != l->input.rank))
        return leat_fail(error, LEAT_E_STATE,
                         "the state was taken within an epoch by rank %" PRIu64 " of %" PRIu64
                         ", and this is rank %" PRIu32 " of %" PRIu32,
                         rank, world, l->input.rank, l->input.world_size);
    return at->row <= rows ? LEAT_OK
                           : leat_fail(error, LEAT_E_STATE, "the state has %" PRIu64 " rows of an epoch of %" PRIu64,
                                       at->row, rows);
}

static int load(struct leat_reader *r, const char *json, struct leat_error *error)
{
    struct leat_position at;
    json_t *o = json_loads(json, JSON_REJECT_DUPLICATES, NULL);
    int rc = read_state(consumer_of(r)->loader, o, &at, error);
    json_decref(o);
    rc = rc ? rc : lock(r, error);
    if (rc)
        return rc;
    leat_consumer_stand(consumer_of(r), at);
    leat_reader_load(r);
    leat_engine_unlock();
    return LEAT_OK;
}

static const struct leat_reader_kind further = {"consumer", lock, unlock, begin, end,   ready, take, wait_for_batch,
                                                stand,      go,   start,  wake,  steps, state, load, NULL};

/* ---- open and close --------------------------------------------------------------------------- */

/* Its start: {epoch, rows of it}. */
static struct leat_position first_rows(const struct leat_loader *l, bool beginning)
{
    const struct leat_consumer *from = beginning ? &l->consumer : leat_consumers_leader(l);
    struct leat_position at = leat_consumer_received(from);
    if (beginning)
        return (struct leat_position){from->reader.started ? from->reader.epoch : at.epoch, 0};
    if (from->batch_rows)
        return rows_of(from);
    struct leat_plan_batch plan;
    uint64_t rows = 0;
    for (struct leat_position p = {at.epoch, 0};
         leat_position_precedes(p, at) && leat_plan_batch(l->plan, p, &plan) == LEAT_OK && !plan.last; p = plan.next)
        rows += plan.rows;
    return (struct leat_position){at.epoch, rows};
}

int leat_consumer_open(struct leat_loader *l, uint64_t batch_size, bool beginning, struct leat_consumer **out,
                       struct leat_error *error)
{
    *out = NULL;
    if (!batch_size || batch_size > LEAT_MAX_GLOBAL_BATCH)
        return leat_fail(error, LEAT_E_INVALID, "a batch has 1 to 2^40 rows, not %" PRIu64, batch_size);
    if (l->delivery->numbers_rows)
        return leat_fail(error, LEAT_E_INVALID, "consumers share one order of rows: open the loader with in_order");
    if (leat_program_varies(l->program))
        return leat_fail(error, LEAT_E_INVALID,
                         "a batch of a consumer would have rows of several sizes: the loader draws a size per batch");
    if (leat_plan_group_rows(l->plan))
        return leat_fail(error, LEAT_E_INVALID, "batches that are made by size have no second consumer");
    int rc = leat_loader_check_rows(l, batch_size, error);
    if (rc)
        return rc;
    struct leat_consumer *c = leat_new(struct leat_consumer);
    struct leat_excerpt *parts = leat_new_array(LEAT_MAX_WINDOW, sizeof *parts);
    rc = c && parts ? leat_loader_enter(l, error) : leat_fail(error, LEAT_E_NOMEM, "no memory for a consumer");
    if (rc) {
        leat_free(c);
        leat_free(parts);
        return rc;
    }
    c->reader.kind = &further;
    c->reader.pool = &l->pool;
    c->loader = l;
    c->batch_rows = batch_size;
    c->parts = parts;
    leat_consumer_stand(c, first_rows(l, beginning));
    rc = leat_consumer_check(c, error);
    if (rc) {
        leat_engine_unlock();
        leat_free(c);
        leat_free(parts);
        return rc;
    }
    c->reader.loaded = true;
    c->next = l->consumer.next;
    l->consumer.next = c;
    l->pool.references++;
    leat_engine_unlock();
    *out = c;
    return LEAT_OK;
}

void leat_consumer_close(struct leat_consumer *c)
{
    if (!c || !leat_batch_pool_is_ours(&c->loader->pool))
        return;
    struct leat_loader *l = c->loader;
    leat_engine_lock();
    c->closed = true;
    l->due |= LEAT_DUE_WAKE;
    leat_loader_settle(l);
    while (c->inside)
        leat_loader_wait(l, INT64_MAX);
    leat_side_cancel(l, c, everywhere);
    drop_peeked(c);
    struct leat_consumer **p = &l->consumer.next;
    while (*p != c)
        p = &(*p)->next;
    *p = c->next;
    if (!l->closed) {
        leat_consumers_trim(l);
        if (l->consumer.reader.started && !l->consumer.next) { /* alone again: it makes nothing on the side */
            leat_side_cancel(l, &l->consumer, everywhere);
            drop_peeked(&l->consumer); /* planning goes on with it */
            leat_consumer_bring_window(&l->consumer);
        }
    }
    l->due |= LEAT_DUE_WORK;
    leat_loader_settle(l);
    leat_batch_pool_unref_unlock(&l->pool);
    leat_free(c->parts);
    leat_free(c);
}

/* ---- the loader's own ------------------------------------------------------------------------- */

static int own_steps(struct leat_reader *r, uint64_t *out, struct leat_error *error)
{
    *out = leat_loader_steps(consumer_of(r)->loader);
    return leat_loader_check_process(consumer_of(r)->loader, error);
}

static int own_state(struct leat_reader *r, char **json, struct leat_error *error)
{
    return leat_loader_state(consumer_of(r)->loader, json, error);
}

static int own_load(struct leat_reader *r, const char *json, struct leat_error *error)
{
    return leat_loader_load_state(consumer_of(r)->loader, json, error);
}

static const struct leat_reader_kind own = {"loader",  lock,           unlock,   begin,   end,   ready,
                                            take,      wait_for_batch, stand,    go,      start, wake,
                                            own_steps, own_state,      own_load, put_back};

void leat_consumer_init(struct leat_loader *l)
{
    l->consumer =
        (struct leat_consumer){.reader = {.kind = &own, .pool = &l->pool}, .loader = l, .parts = &l->consumer.only};
}

struct leat_consumer *leat_loader_consumer(struct leat_loader *l)
{
    return &l->consumer;
}

int leat_loader_start(struct leat_loader *l, uint64_t *iteration, struct leat_error *error)
{
    return leat_consumer_start(&l->consumer, iteration, error);
}

int leat_loader_next(struct leat_loader *l, uint64_t iteration, int64_t timeout_ms, struct leat_batch **out,
                     struct leat_error *error)
{
    return leat_consumer_next(&l->consumer, iteration, timeout_ms, out, error);
}

int leat_loader_peek(struct leat_loader *l, int64_t timeout_ms, struct leat_batch **out, struct leat_error *error)
{
    return leat_consumer_peek(&l->consumer, timeout_ms, out, error);
}

void leat_loader_interrupt(struct leat_loader *l)
{
    leat_consumer_interrupt(&l->consumer);
}

int leat_loader_set_epoch(struct leat_loader *l, uint64_t epoch, bool *dropped, struct leat_error *error)
{
    return leat_consumer_set_epoch(&l->consumer, epoch, dropped, error);
}

uint64_t leat_loader_epoch(const struct leat_loader *l)
{
    return leat_consumer_epoch(&l->consumer);
}
