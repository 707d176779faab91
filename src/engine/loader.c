/*
 * The consumer's side: positions, iterations, and the next batch.
 *
 *     at        first batch not yet handed out: what a saved state names
 *     plan_at   first batch not yet planned; the window lies between the two
 *
 * Changing the plan (a loaded state, a decision, a list of positions) excludes its readers: `paused` keeps tasks from
 * starting, and those that run are waited for.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/loader.h"
#include "engine/task.h"

#define RECENT_NS INT64_C(1000000000)
#define CHEAP_BATCH_NS 500000.0

static int check_process(const struct leat_loader *l, struct leat_error *error)
{
    if (l->generation == atomic_load_explicit(&leat_engine.generation, memory_order_relaxed))
        return LEAT_OK;
    return leat_fail(
        error, LEAT_E_FORKED,
        "this loader belongs to the process that opened it; open another one in the child (data sets may be shared)");
}

/* Takes the lock if the loader can be used. */
static int enter(const struct leat_loader *l, struct leat_error *error)
{
    int rc = check_process(l, error);
    if (rc)
        return rc;
    leat_engine_lock();
    if (!l->closed && !leat_engine.stopping)
        return LEAT_OK;
    leat_engine_unlock();
    return leat_fail(error, LEAT_E_CLOSED, l->closed ? "the loader is closed" : "the process is ending");
}

/* ---- positions ------------------------------------------------------------------------------- */

static void pause(struct leat_loader *l)
{
    l->paused = true;
    while (l->running)
        leat_engine_wait(l, INT64_MAX);
}

static void unpause(struct leat_loader *l)
{
    l->paused = false;
    if (l->started || l->resumed)
        leat_engine_activate(l);
    leat_engine_notify(l);
}

static bool before(struct leat_position a, struct leat_position b)
{
    return a.epoch < b.epoch || (a.epoch == b.epoch && a.row < b.row);
}

/* The first batch of the window that reaches beyond `at`. */
static size_t first_beyond(const struct leat_loader *l, struct leat_position at)
{
    size_t i = 0;
    while (i < l->n_window && !before(at, leat_window_at(l, i)->plan.next))
        i++;
    return i;
}

/* Moves the consumer to `to`: keeps what the window holds from there on, drops what lies before. */
static void move_to(struct leat_loader *l, struct leat_position to)
{
    size_t keep = 0;
    while (keep < l->n_window && before(leat_window_at(l, keep)->plan.at, to))
        keep++;
    if (keep == l->n_window || leat_window_at(l, keep)->plan.at.epoch != to.epoch ||
        leat_window_at(l, keep)->plan.at.row != to.row) {
        leat_window_cancel(l, 0);
        l->plan_at = to;
    } else {
        struct leat_position plan_at = l->plan_at;
        for (; keep; keep--) {
            leat_batch_cancel(leat_window_pop(l));
        }
        l->plan_at = plan_at;
    }
    l->at = to;
    l->full = false;
}

/* Where the next start begins. */
static struct leat_position next_start(const struct leat_loader *l)
{
    if (l->loaded)
        return l->at;
    if (l->has_next_epoch)
        return (struct leat_position){l->next_epoch, 0};
    return (struct leat_position){l->started ? l->epoch + 1 : 0, 0};
}

static uint64_t step_at(const struct leat_loader *l, struct leat_position at)
{
    struct leat_plan_batch plan;
    return leat_plan_batch(l->plan, at, &plan) ? 0 : plan.step;
}

/* What a state names: the first batch that the consumer has not received. */
static struct leat_position received(const struct leat_loader *l)
{
    return l->started && !l->ended ? l->at : next_start(l);
}

/* Whether rows of the epoch of `at`, the position that a state names, were received: without in_order it may be the
 * epoch's start. */
static bool is_within(const struct leat_loader *l, struct leat_position at)
{
    return at.row ||
           (!l->in_order && (l->loaded || (l->started && !l->ended)) && l->serve.epoch == at.epoch && l->serve.row);
}

int leat_loader_start(struct leat_loader *l, uint64_t *iteration, struct leat_error *error)
{
    int rc = enter(l, error);
    if (rc)
        return rc;
    struct leat_position to = next_start(l);
    if (l->record) { /* while no thread plans: it looks there */
        leat_engine_unlock();
        rc = leat_record_read(l->record, to.epoch, error);
        if (!rc)
            rc = leat_record_read(l->record, to.epoch + 1, error);
        if (!rc)
            rc = enter(l, error);
        if (rc)
            return rc;
    }
    if (l->lists_later && l->list_epoch < (int64_t)to.epoch) {
        leat_engine_unlock();
        return leat_fail(error, LEAT_E_INVALID,
                         "epoch %" PRIu64 " has no list of positions yet: leat_loader_set_positions gives it",
                         to.epoch);
    }
    if (!l->in_order && (l->loaded || (l->started && to.epoch == l->epoch)))
        leat_window_cancel(l, 0);
    if (l->in_order || !l->loaded)
        move_to(l, to);
    l->epoch = to.epoch;
    if (!l->in_order && !l->loaded)
        leat_unordered_stand(l, to);
    l->step = step_at(l, l->in_order ? to : l->serve);
    l->started = true;
    l->loaded = l->ended = l->has_next_epoch = false;
    l->last_next_ns = leat_clock_ns();
    *iteration = ++l->iteration;
    leat_engine_notify(l);
    leat_engine_activate(l);
    leat_engine_unlock();
    return LEAT_OK;
}

int leat_loader_set_epoch(struct leat_loader *l, uint64_t epoch, bool *dropped, struct leat_error *error)
{
    int rc = enter(l, error);
    if (rc)
        return rc;
    bool other = l->loaded && l->at.epoch != epoch;
    if (!l->loaded || other) {
        l->next_epoch = epoch;
        l->has_next_epoch = true;
        l->loaded = false;
    }
    if (dropped)
        *dropped = other;
    leat_engine_unlock();
    return LEAT_OK;
}

uint64_t leat_loader_epoch(const struct leat_loader *l)
{
    if (check_process(l, NULL))
        return 0;
    leat_engine_lock();
    uint64_t epoch = l->started ? l->epoch : next_start(l).epoch;
    leat_engine_unlock();
    return epoch;
}

uint64_t leat_loader_steps(const struct leat_loader *l)
{
    return check_process(l, NULL) ? 0 : leat_plan_rank_steps(l->plan, leat_loader_epoch(l));
}

/* ---- the next batch -------------------------------------------------------------------------- */

static void count_recent(struct leat_loader *l, int64_t now, uint64_t rows, uint64_t bytes)
{
    if (now - l->recent_ns[1] > RECENT_NS) { /* two buckets: the one before, and the one that is filled */
        l->recent_ns[0] = l->recent_ns[1];
        l->recent_samples[0] = l->recent_samples[1];
        l->recent_bytes[0] = l->recent_bytes[1];
        l->recent_ns[1] = now;
        l->recent_samples[1] = l->recent_bytes[1] = 0;
    }
    l->recent_samples[1] += rows;
    l->recent_bytes[1] += bytes;
}

/* Bytes of the tensors, without what their buffers are rounded up by. */
static uint64_t tensor_bytes(const struct leat_batch *b)
{
    const struct leat_loader *l = b->loader;
    uint64_t bytes = b->rows * l->row_bytes;
    for (size_t o = 0; l->ragged && o < l->n_outputs; o++) {
        const struct leat_output *output = leat_program_output(l->program, o);
        if (output->ragged) {
            const int64_t *offsets = (const int64_t *)(const void *)(l->region.base + b->buffers[o]->offset);
            bytes += (uint64_t)offsets[b->rows] * output->row_bytes + (b->rows + 1) * sizeof *offsets;
        }
    }
    return bytes;
}

/* Counts a batch as held by the consumer. */
void leat_batch_put_out(struct leat_loader *l, struct leat_batch *b)
{
    uint64_t bytes = b->bytes + b->meta;
    if (!b->side) {
        l->in_flight -= bytes;
        l->held += bytes;
        leat_task_feed(l);
    }
    b->state = LEAT_BATCH_OUT;
    l->references += 1 + l->n_outputs;
    for (size_t o = 0; o < l->n_outputs; o++)
        l->live[o]++;
    for (size_t i = 0; i < b->n_broken; i++)
        *(b->broken[i].delivered < 0 ? &l->count.skipped : &l->count.substituted) += 1;
}

static uint64_t held_batches(const struct leat_loader *l)
{
    uint64_t most = 0;
    for (size_t o = 0; o < l->n_outputs; o++)
        most = l->live[o] > most ? l->live[o] : most;
    return most;
}

int leat_batch_check_held(struct leat_loader *l, const struct leat_batch *b, struct leat_error *error)
{
    if (l->held + b->bytes + b->meta <= l->max_held)
        return LEAT_OK;
    return leat_fail(error, LEAT_E_HELD,
                     "%" PRIu64 " batches are held (%" PRIu64 " bytes), and one more of %" PRIu64
                     " bytes would pass max_held_bytes = %" PRIu64
                     "; let go of some, copy what is to be kept, or raise max_held_bytes",
                     held_batches(l), l->held, b->bytes + b->meta, l->max_held);
}

/* A batch whose every row was left out is no batch: its first error is raised. */
bool leat_batch_fail_if_empty(struct leat_batch *b)
{
    if (b->rows || !b->n_broken)
        return false;
    leat_fail(&b->failure, b->broken[0].code, "no row of the batch is left; the first error: %s", b->broken[0].reason);
    leat_error_at_sample(&b->failure, b->broken[0].planned, NULL);
    b->state = LEAT_BATCH_FAILED;
    return true;
}

/* The error of a failed batch, which is made ready to be computed again. */
int leat_batch_raise(struct leat_loader *l, struct leat_batch *b, struct leat_error *error)
{
    int rc = b->failure.code ? b->failure.code : LEAT_E_NOMEM;
    if (error)
        *error = b->failure;
    l->count.raised++;
    if (l->ragged) { /* its values may have other lengths the next time */
        leat_window_uncut(b);
        b->state = LEAT_BATCH_SIZING;
    } else {
        b->state = LEAT_BATCH_FILLING;
    }
    leat_batch_rewind(b);
    return rc;
}

void leat_batch_count(struct leat_loader *l, const struct leat_batch *b)
{
    l->count.batches++;
    l->count.samples += b->rows;
    uint64_t bytes = tensor_bytes(b);
    l->count.bytes += bytes;
    int64_t now = leat_clock_ns();
    l->last_next_ns = now;
    count_recent(l, now, b->rows, bytes);
    if (l->ragged)
        leat_window_assign(l);
    /* Cheap batches are made in bursts: waking a thread for each would cost more than making it. */
    bool cheap = l->ns_per_row * (double)b->plan.rows < CHEAP_BATCH_NS;
    if (l->full && (!cheap || 2 * l->n_window <= l->window_room || 2 * l->in_flight <= l->budget)) {
        l->full = false;
        leat_engine_activate(l);
    }
}

static int hand_out(struct leat_loader *l, struct leat_batch **out, struct leat_error *error)
{
    struct leat_batch *b = leat_window_at(l, 0);
    if (b->state == LEAT_BATCH_FAILED || leat_batch_fail_if_empty(b))
        return leat_batch_raise(l, b, error);
    int rc = leat_batch_check_held(l, b, error);
    if (rc)
        return rc;
    leat_window_pop(l);
    l->at = b->plan.next;
    l->step = b->plan.last ? 0 : b->plan.step + 1;
    if (b->plan.last) {
        l->at = (struct leat_position){l->epoch + 1, 0};
        l->ended = true;
    }
    leat_batch_put_out(l, b);
    leat_batch_count(l, b);
    *out = b;
    return LEAT_OK;
}

/* Does what the consumer would otherwise wait for, if that takes no thread more than the loader may have. */
static bool help(struct leat_loader *l)
{
    if (!l->in_order && !l->side) /* the row that it took might be the one that nobody is to wait for */
        return false;
    if (l->helping || (l->working >= l->num_threads && !l->one_core))
        return false;
    struct leat_task *task = leat_task_take(l, false);
    if (!task)
        return false;
    l->count.helped_tasks++;
    l->helping = true;
    leat_engine_unlock();
    leat_task_run(task);
    leat_engine_lock();
    l->helping = false;
    leat_task_finish(task);
    return true;
}

/* LEAT_OK: the first batch of the window belongs to this epoch. */
static int plan_head(struct leat_loader *l, struct leat_error *error)
{
    while (!l->n_window) {
        if (l->plan_at.epoch > l->epoch)
            return LEAT_E_END;
        int rc = leat_window_plan(l, error);
        if (rc)
            return rc == LEAT_E_HELD && error && error->code != LEAT_E_HELD ? LEAT_IO_PENDING : rc;
    }
    return leat_window_at(l, 0)->plan.epoch > l->epoch ? LEAT_E_END : LEAT_OK;
}

static int end_epoch(struct leat_loader *l, struct leat_error *error)
{
    if (!l->ended)
        l->at = (struct leat_position){l->epoch + 1, 0};
    l->ended = true;
    return leat_fail(error, LEAT_E_END, "the epoch has no further batch");
}

static int next_locked(struct leat_loader *l, uint64_t iteration, int64_t deadline_ns, struct leat_batch **out,
                       struct leat_error *error)
{
    uint64_t interrupts = l->interrupts;
    for (;;) {
        if (l->closed || leat_engine.stopping)
            return leat_fail(error, LEAT_E_CLOSED, "the loader was closed");
        if (iteration != l->iteration || !l->started)
            return leat_fail(error, LEAT_E_CLOSED, "a newer iteration of this loader has begun");
        if (interrupts != l->interrupts)
            return leat_fail(error, LEAT_E_CANCELLED, "interrupted");
        if (l->ended)
            return end_epoch(l, error);
        struct leat_error place;
        leat_error_clear(&place);
        int rc = l->paused ? LEAT_IO_PENDING : plan_head(l, &place);
        if (rc == LEAT_E_END)
            return end_epoch(l, error);
        if (rc < 0) {
            if (error)
                *error = place;
            return rc;
        }
        if (rc == LEAT_OK) {
            enum leat_batch_state state = leat_window_at(l, 0)->state;
            if (!l->in_order) {
                rc = leat_unordered_next(l, out, error);
                if (rc != LEAT_IO_PENDING)
                    return rc;
                if (!l->n_window || leat_unordered_is_due(l))
                    continue;
            } else if (state == LEAT_BATCH_READY || state == LEAT_BATCH_FAILED)
                return hand_out(l, out, error);
            if (leat_clock_ns() < deadline_ns && help(l))
                continue;
            if (!l->in_active)
                leat_engine_activate(l);
        }
        int64_t begun = leat_clock_ns();
        bool in_time = begun < deadline_ns && leat_engine_wait(l, deadline_ns);
        l->count.waits++;
        l->count.wait_ns += leat_clock_ns() - begun;
        if (!in_time)
            return leat_fail(error, LEAT_E_TIMEOUT, "no batch was ready in time; calling again goes on waiting");
    }
}

static int64_t deadline(int64_t timeout_ms)
{
    int64_t now = leat_clock_ns();
    return timeout_ms < 0 || timeout_ms > (INT64_MAX - now) / 1000000 - 1 ? INT64_MAX : now + timeout_ms * 1000000;
}

int leat_loader_next(struct leat_loader *l, uint64_t iteration, int64_t timeout_ms, struct leat_batch **out,
                     struct leat_error *error)
{
    *out = NULL;
    struct leat_error own;
    error = error ? error : &own;
    int rc = enter(l, error);
    if (rc)
        return rc;
    l->in_next++; /* so that a closing waits, also while the report is written, for which the lock is let go */
    uint64_t raised = l->count.raised, epoch = l->epoch, step = l->step;
    rc = next_locked(l, iteration, timeout_ms < 0 ? INT64_MAX : deadline(timeout_ms), out, error);
    raised = l->count.raised - raised;
    bool reports = l->report_fd >= 0 && (raised || (*out && (*out)->n_broken)),
         records = l->record && *out && !(*out)->recorded;
    if (reports || records) {
        leat_engine_unlock();
        if (records)
            leat_record_append(l->record, *out);
        if (reports && *out)
            leat_report_broken(l, *out);
        else if (reports)
            leat_report_raised(l, epoch, step, error);
        leat_engine_lock();
    }
    l->in_next--;
    if (l->closed)
        leat_engine_notify(l);
    leat_engine_unlock();
    return rc;
}

void leat_loader_interrupt(struct leat_loader *l)
{
    if (check_process(l, NULL))
        return;
    leat_engine_lock();
    l->interrupts++;
    leat_engine_notify(l);
    leat_engine_unlock();
}

/* ---- changing the plan ----------------------------------------------------------------------- */

int leat_loader_decide(struct leat_loader *l, const struct leat_decision *decision, bool at_next,
                       struct leat_error *error)
{
    int rc = enter(l, error);
    if (rc)
        return rc;
    struct leat_decision d = *decision;
    if (at_next)
        d.at = received(l);
    if (l->started && before(d.at, l->at)) {
        leat_engine_unlock();
        return leat_fail(error, LEAT_E_INVALID,
                         "a decision must not hold from epoch %" PRIu64 ", row %" PRIu64 ": that was handed out",
                         d.at.epoch, d.at.row);
    }
    if (!l->in_order && is_within(l, d.at)) {
        leat_engine_unlock();
        return leat_fail(error, LEAT_E_INVALID,
                         "a decision within an epoch needs in_order: rows beyond it may have been handed out. Let it "
                         "hold from an epoch's start");
    }
    leat_window_cancel(l, first_beyond(l, d.at));
    pause(l);
    d.done = received(l);
    rc = leat_plan_decide(l->plan, &d, error);
    unpause(l);
    leat_engine_unlock();
    return rc;
}

int leat_loader_set_positions(struct leat_loader *l, const int64_t *positions, uint64_t n, struct leat_error *error)
{
    int rc = check_process(l, error);
    if (rc)
        return rc;
    if (l->order != LEAT_ORDER_LIST)
        return leat_fail(error, LEAT_E_INVALID, "this loader has another order than a list of positions");
    rc = enter(l, error);
    if (rc)
        return rc;
    struct leat_position at = next_start(l);
    if (l->loaded && is_within(l, at))
        at = (struct leat_position){at.epoch + 1, 0};
    struct leat_decision decision = {.at = at, .positions = positions, .n_positions = n, .done = received(l)};
    leat_window_cancel(l, first_beyond(l, at));
    pause(l);
    rc = leat_plan_decide(l->plan, &decision, error);
    if (!rc)
        l->list_epoch = (int64_t)at.epoch;
    unpause(l);
    leat_engine_unlock();
    return rc;
}

int leat_loader_state(const struct leat_loader *l, char **json, struct leat_error *error)
{
    *json = NULL;
    int rc = enter(l, error);
    if (rc)
        return rc;
    struct leat_plan_received beyond;
    bool is_at = l->loaded || (l->started && !l->ended),
         some = !l->in_order && is_at && leat_unordered_received(l, &beyond);
    rc = leat_plan_state_unordered(l->plan, l->fingerprint, received(l), some ? &beyond : NULL, json, error);
    leat_engine_unlock();
    return rc;
}

int leat_loader_load_state(struct leat_loader *l, const char *json, struct leat_error *error)
{
    int rc = enter(l, error);
    if (rc)
        return rc;
    struct leat_position at;
    struct leat_plan_received beyond;
    bool some = false;
    leat_window_cancel(l, 0);
    pause(l);
    rc = l->in_order ? leat_plan_load(l->plan, l->fingerprint, json, &at, error)
                     : leat_plan_load_unordered(l->plan, l->fingerprint, json, &at, &beyond, &some, error);
    if (!rc && !l->in_order)
        rc = leat_unordered_load(l, at, some ? &beyond : NULL, error);
    if (!rc) {
        l->iteration++; /* ends an iteration that runs */
        l->at = at;
        if (l->in_order)
            l->plan_at = at;
        l->step = step_at(l, l->in_order ? at : l->serve);
        l->loaded = true;
        l->started = l->has_next_epoch = false;
        l->ended = false;
        l->epoch = at.epoch;
        if (l->lists_later)
            l->list_epoch = is_within(l, at) ? (int64_t)at.epoch : (int64_t)at.epoch - 1;
    }
    unpause(l);
    leat_engine_unlock();
    return rc;
}

/* ---- single batches -------------------------------------------------------------------------- */

static int seek(const struct leat_loader *l, uint64_t epoch, uint64_t step, struct leat_plan_batch *plan,
                struct leat_error *error)
{
    struct leat_position at;
    int rc = leat_plan_seek(l->plan, epoch, step, &at);
    if (!rc)
        rc = leat_plan_batch(l->plan, at, plan);
    if (rc || !plan->rows)
        return leat_fail(error, LEAT_E_RANGE,
                         "epoch %" PRIu64 " has no step %" PRIu64 " for this rank: it has %" PRIu64 " steps", epoch,
                         step, leat_plan_rank_steps(l->plan, epoch));
    return LEAT_OK;
}

int leat_loader_plan(const struct leat_loader *l, uint64_t epoch, uint64_t step, int64_t **ids, uint64_t *n,
                     struct leat_error *error)
{
    enum { N = 64 };
    struct leat_plan_batch plan;
    struct leat_plan_row rows[N];
    struct leat_sample_ref refs[N];
    uint64_t positions[N];
    *ids = NULL;
    *n = 0;
    int rc = check_process(l, error);
    if (!rc)
        rc = seek(l, epoch, step, &plan, error);
    if (rc)
        return rc;
    int64_t *all = leat_new_array(plan.rows, sizeof *all);
    if (!all)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for %" PRIu64 " ids", plan.rows);
    for (uint64_t first = 0, count; first < plan.rows; first += count) {
        count = plan.rows - first < N ? plan.rows - first : N;
        rc = leat_plan_rows(l->plan, &plan, first, count, rows);
        if (rc) {
            leat_free(all);
            return leat_fail(error, rc,
                             "epoch %" PRIu64 " can no longer be planned: decisions made since gave up what it needs",
                             epoch);
        }
        for (uint64_t i = 0; i < count; i++)
            positions[i] = l->source_begin[rows[i].piece.source] + rows[i].piece.position;
        leat_dataset_locate(l->dataset, positions, count, refs);
        for (uint64_t i = 0; i < count; i++)
            all[first + i] = refs[i].id;
    }
    *ids = all;
    *n = plan.rows;
    return LEAT_OK;
}

/* The batch stands on the side of the window; this thread and any idle one make its rows. `numbers`: NULL, or the rows
 * that it has; `stand_in`: as of struct leat_batch. */
static int make_side(struct leat_loader *l, const struct leat_plan_batch *plan, const uint64_t *numbers,
                     unsigned stand_in, struct leat_batch **out, struct leat_error *error)
{
    uint64_t interrupts = l->interrupts;
    while (l->side && !l->closed && !leat_engine.stopping &&
           l->interrupts == interrupts) /* another thread's comes first */
        leat_engine_wait(l, INT64_MAX);
    if (l->side)
        return l->interrupts == interrupts ? leat_fail(error, LEAT_E_CLOSED, "the loader was closed")
                                           : leat_fail(error, LEAT_E_CANCELLED, "interrupted");
    struct leat_batch *b = leat_window_batch(l, plan->rows, error);
    if (!b)
        return LEAT_E_NOMEM;
    int rc = LEAT_OK;
    b->plan = *plan;
    b->side = true;
    b->listed = numbers != NULL;
    b->stand_in = stand_in;
    if (numbers)
        memcpy(b->numbers, numbers, plan->rows * sizeof *numbers);
    b->state = LEAT_BATCH_SIZING;
    l->held += b->meta;
    leat_engine.used += b->meta;
    leat_batch_rewind(b);
    if (!l->ragged) {
        rc = leat_window_cut(l, b, error);
        b->state = LEAT_BATCH_FILLING;
    }
    l->side = b;
    while (!rc && b->state != LEAT_BATCH_READY && b->state != LEAT_BATCH_FAILED) {
        if (l->closed || leat_engine.stopping)
            rc = leat_fail(error, LEAT_E_CLOSED, "the loader was closed");
        else if (l->interrupts != interrupts)
            rc = leat_fail(error, LEAT_E_CANCELLED, "interrupted");
        else if (!help(l)) {
            leat_engine_activate(l);
            leat_engine_wait(l, INT64_MAX);
        }
    }
    if (!rc && (b->state == LEAT_BATCH_FAILED || leat_batch_fail_if_empty(b))) {
        rc = b->failure.code;
        if (error)
            *error = b->failure;
    }
    l->side = NULL;
    leat_engine_notify(l);
    if (!rc) {
        leat_batch_put_out(l, b);
        *out = b;
        return LEAT_OK;
    }
    leat_batch_cancel(b);
    return rc;
}

/* Which rows a step had of a run that does not keep the order: only the record knows. */
static int recorded_rows(struct leat_loader *l, const struct leat_plan_batch *plan, uint64_t **numbers,
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

int leat_loader_batch_at(struct leat_loader *l, uint64_t epoch, uint64_t step, struct leat_batch **out,
                         struct leat_error *error)
{
    *out = NULL;
    struct leat_plan_batch plan;
    uint64_t *numbers = NULL;
    int rc = check_process(l, error);
    if (!rc)
        rc = seek(l, epoch, step, &plan, error);
    if (!rc && !l->in_order)
        rc = recorded_rows(l, &plan, &numbers, error);
    if (!rc)
        rc = enter(l, error);
    if (rc)
        goto out;
    l->in_next++;
    rc = make_side(l, &plan, numbers, 0, out, error);
    l->in_next--;
    if (l->closed)
        leat_engine_notify(l);
    leat_engine_unlock();
out:
    leat_free(numbers);
    return rc;
}

int leat_loader_substitute(struct leat_loader *l, uint64_t epoch, uint64_t step, uint64_t row, unsigned *attempt,
                           struct leat_batch **out, struct leat_error *error)
{
    *out = NULL;
    struct leat_plan_batch plan;
    int rc = check_process(l, error);
    if (!rc && (l->on_error != LEAT_ON_ERROR_SUBSTITUTE || !l->in_order))
        rc = leat_fail(error, LEAT_E_INVALID,
                       "substitutes are made by a loader in order whose policy is on_error substitute");
    if (!rc)
        rc = seek(l, epoch, step, &plan, error);
    if (!rc && row >= plan.rows)
        rc =
            leat_fail(error, LEAT_E_RANGE, "the batch has no row %" PRIu64 ": it has %" PRIu64 " rows", row, plan.rows);
    if (!rc)
        rc = enter(l, error);
    if (rc)
        return rc;
    plan.begin += row;
    plan.rows = 1;
    l->in_next++;
    rc = make_side(l, &plan, NULL, *attempt + 1, out, error);
    if (!rc)
        *attempt = (*out)->stand_in - 1;
    l->in_next--;
    if (l->closed)
        leat_engine_notify(l);
    leat_engine_unlock();
    return rc;
}
