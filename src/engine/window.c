/*
 * The window: the batches in flight, in plan order, and their memory. Planning a batch is naming its rows and cutting
 * its buffers; which samples the rows are is computed by the tasks.
 *
 *     budget_bytes   >= buffers and arrays of the batches in the window + scratch and read buffers of the tasks
 *     max_held_bytes >= buffers and arrays of the batches handed out and not given back
 *
 * and all loaders together stay below half of what the process may use. Nobody waits for memory here: a window that
 * cannot grow is full, and where not even the first batch fits, the consumer is told.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/engine.h"

static uint64_t values_offset(uint64_t rows)
{
    return ((rows + 1) * sizeof(int64_t) + 63) & ~UINT64_C(63);
}

uint64_t leat_output_values(const struct leat_output *output, uint64_t rows)
{
    return output->ragged ? values_offset(rows) : 0;
}

uint64_t leat_output_bytes(const struct leat_output *output, uint64_t rows, uint64_t steps)
{
    uint64_t bytes, values = leat_output_values(output, rows);
    if (!leat_mul_u64(output->ragged ? steps : rows, output->row_bytes, &bytes) || bytes > (UINT64_C(1) << 60))
        return UINT64_C(1) << 60; /* more than any budget */
    bytes += values;
    return leat_region_round(bytes ? bytes : 1);
}

/* ---- batches and buffers of the pool --------------------------------------------------------- */

static uint64_t meta_bytes(const struct leat_loader *l, uint64_t rows)
{
    uint64_t each = sizeof(int64_t) + sizeof(uint64_t) + 2 * sizeof(bool) + (l->in_order ? 0 : sizeof(uint64_t) + 1);
    return leat_region_round(rows * each + sizeof(struct leat_batch));
}

static bool grow_batch(struct leat_batch *b, uint64_t rows)
{
    struct leat_loader *l = b->loader;
    leat_free(b->ids);
    leat_free(b->keys);
    leat_free(b->valid);
    leat_free(b->left_out);
    leat_free(b->numbers);
    leat_free(b->row_state);
    b->room = 0;
    b->ids = leat_new_array(rows, sizeof *b->ids);
    b->keys = leat_new_array(rows, sizeof *b->keys);
    b->valid = leat_new_array(rows, sizeof *b->valid);
    b->left_out = leat_new_array(rows, sizeof *b->left_out);
    b->numbers = l->in_order ? NULL : leat_new_array(rows, sizeof *b->numbers);
    b->row_state = l->in_order ? NULL : leat_new_array(rows, sizeof *b->row_state);
    bool ok = b->ids && b->keys && b->valid && b->left_out && (l->in_order || (b->numbers && b->row_state));
    for (size_t o = 0; o < l->n_outputs; o++)
        if (leat_program_output(l->program, o)->ragged) {
            leat_free(b->offsets[o]);
            b->offsets[o] = leat_new_array(rows + 1, sizeof **b->offsets);
            ok = ok && b->offsets[o];
        }
    if (ok)
        b->room = rows;
    return ok;
}

struct leat_batch *leat_window_batch(struct leat_loader *l, uint64_t rows, struct leat_error *error)
{
    struct leat_batch *b = l->free_batches;
    if (b) {
        l->free_batches = b->next;
        b->next = NULL;
    } else {
        b = leat_new(struct leat_batch);
        if (b) {
            b->loader = l;
            b->buffers = leat_new_array(l->n_outputs + 1, sizeof *b->buffers);
            b->offsets = leat_new_array(l->n_outputs + 1, sizeof *b->offsets);
        }
    }
    if (!b || !b->buffers || !b->offsets || (b->room < rows && !grow_batch(b, rows))) {
        if (b)
            leat_batch_destroy(b);
        leat_fail(error, LEAT_E_NOMEM, "no memory for a batch of %" PRIu64 " rows", rows);
        return NULL;
    }
    atomic_store_explicit(&b->cancelled, false, memory_order_relaxed);
    b->side = b->loose = b->listed = b->recorded = false;
    b->tasks = b->stand_in = 0;
    b->bytes = 0;
    b->n_gone = b->skip = 0;
    b->meta = meta_bytes(l, rows);
    return b;
}

static void clear_broken(struct leat_batch *b)
{
    for (size_t i = 0; i < b->n_broken; i++)
        leat_free(b->broken[i].reason);
    b->n_broken = 0;
}

void leat_batch_destroy(struct leat_batch *b)
{
    clear_broken(b);
    for (size_t o = 0; b->offsets && o < b->loader->n_outputs; o++)
        leat_free(b->offsets[o]);
    leat_free(b->offsets);
    leat_free(b->buffers);
    leat_free(b->broken);
    leat_free(b->ids);
    leat_free(b->keys);
    leat_free(b->valid);
    leat_free(b->left_out);
    leat_free(b->numbers);
    leat_free(b->row_state);
    leat_free(b);
}

void leat_batch_rewind(struct leat_batch *b)
{
    clear_broken(b);
    b->taken = 0;
    b->n_made = 0;
    for (uint64_t i = 0; b->loose && i < b->plan.rows; i++)
        if (b->row_state[i] == LEAT_ROW_MADE)
            b->row_state[i] = LEAT_ROW_OPEN;
    leat_batch_skip_gone(b);
    atomic_store_explicit(&b->done, b->n_gone, memory_order_relaxed);
    atomic_store_explicit(&b->failed_row, UINT64_MAX, memory_order_relaxed);
    b->rows = b->plan.rows;
    memset(b->left_out, 0, b->plan.rows * sizeof *b->left_out);
}

static uint64_t *account(struct leat_batch *b)
{
    return b->side || b->state == LEAT_BATCH_OUT ? &b->loader->held : &b->loader->in_flight;
}

void leat_buffer_recycle(struct leat_buffer *buffer)
{
    struct leat_loader *l = buffer->loader;
    leat_region_free(&l->region, buffer->offset, buffer->bytes);
    leat_engine.used -= buffer->bytes;
    buffer->next = l->free_buffers;
    l->free_buffers = buffer;
}

void leat_window_uncut(struct leat_batch *b)
{
    uint64_t *in = account(b);
    for (size_t o = 0; o < b->loader->n_outputs; o++)
        if (b->buffers[o]) {
            *in -= b->buffers[o]->bytes;
            leat_buffer_recycle(b->buffers[o]);
            b->buffers[o] = NULL;
        }
    b->bytes = 0;
}

void leat_batch_recycle(struct leat_batch *b)
{
    struct leat_loader *l = b->loader;
    leat_window_uncut(b);
    *account(b) -= b->meta;
    leat_engine.used -= b->meta;
    clear_broken(b);
    b->state = LEAT_BATCH_FREE;
    b->next = l->free_batches;
    l->free_batches = b;
}

void leat_batch_cancel(struct leat_batch *b)
{
    atomic_store_explicit(&b->cancelled, true, memory_order_relaxed);
    if (!b->tasks)
        leat_batch_recycle(b);
    leat_task_feed(b->loader); /* also tasks of this batch: they are to let go */
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t for_tasks(const struct leat_loader *l)
{
    return l->fixed + (l->task_bytes > l->task_reserve ? l->task_bytes : l->task_reserve);
}

/* Takes what other loaders have prefetched and nobody waits for: they compute it again when asked. */
static void reclaim(struct leat_loader *for_whom, uint64_t bytes)
{
    for (struct leat_loader *l = leat_engine.loaders; l && leat_engine.used + bytes > leat_engine.allowed; l = l->next)
        if (l != for_whom && !l->waiting && l->n_window) {
            leat_window_cancel(l, 0);
            l->full = true;
            leat_region_trim(&l->region);
        }
}

/* Whether `bytes` more fit. HELD: not now; BUDGET: not even if everything were given back. */
static int room_for(struct leat_loader *l, bool side, uint64_t bytes, struct leat_error *error)
{
    uint64_t tasks = for_tasks(l);
    if (!side && tasks + bytes > l->budget && leat_task_drop_resting(l)) /* many reads had waited at once */
        tasks = for_tasks(l);
    bool others = l->running || l->parked || l->resumed || l->starved;
    if (!side && tasks + bytes > l->budget && l->fixed + l->task_reserve + bytes <= l->budget && others)
        return LEAT_E_HELD; /* in the way are tasks of batches that were given up: they will be done */
    if (side && (l->held + bytes > l->max_held || l->held + bytes < bytes))
        return leat_fail(error, LEAT_E_HELD,
                         "batches in use hold %" PRIu64 " bytes, and one of %" PRIu64
                         " more would pass max_held_bytes = %" PRIu64 "; let go of batches or raise it",
                         l->held, bytes, l->max_held);
    if (!side && tasks + bytes > l->budget)
        return leat_fail(error, LEAT_E_BUDGET,
                         "a batch of %" PRIu64 " bytes and %" PRIu64
                         " bytes of scratch do not fit into budget_bytes = %" PRIu64
                         "; raise it or make batches smaller",
                         bytes, tasks, l->budget);
    if (!side && l->in_flight + tasks + bytes > l->budget)
        return LEAT_E_HELD;
    if (leat_engine.used + bytes > leat_engine.allowed && (side || !l->in_flight))
        reclaim(l, bytes);
    if (leat_engine.used + bytes > leat_engine.allowed) {
        if (!side && l->in_flight)
            return LEAT_E_HELD;
        return leat_fail(error, LEAT_E_HELD,
                         "all loaders of this process together use %" PRIu64 " bytes, and a batch of %" PRIu64
                         " more would pass half of the allowed memory, %" PRIu64
                         "; let go of batches, or close loaders",
                         leat_engine.used, bytes, leat_engine.allowed);
    }
    return LEAT_OK;
}

static struct leat_buffer *new_buffer(struct leat_loader *l)
{
    struct leat_buffer *buffer = l->free_buffers;
    if (buffer)
        l->free_buffers = buffer->next;
    else
        buffer = leat_new(struct leat_buffer);
    return buffer;
}

/* Cuts one output's buffer; counts it. NOMEM, or HELD where no free piece is large enough. */
static int cut_output(struct leat_batch *b, size_t o, uint64_t bytes)
{
    struct leat_loader *l = b->loader;
    struct leat_buffer *buffer = new_buffer(l);
    if (!buffer)
        return LEAT_E_NOMEM;
    *buffer = (struct leat_buffer){.references = 1, .loader = l, .bytes = bytes, .output = o};
    if (!leat_region_alloc(&l->region, bytes, &buffer->offset)) {
        buffer->next = l->free_buffers;
        l->free_buffers = buffer;
        return LEAT_E_HELD;
    }
    b->buffers[o] = buffer;
    b->bytes += bytes;
    *account(b) += bytes;
    leat_engine.used += bytes;
    return LEAT_OK;
}

int leat_window_cut(struct leat_loader *l, struct leat_batch *b, struct leat_error *error)
{
    uint64_t total = 0;
    for (size_t o = 0; o < l->n_outputs; o++) {
        uint64_t steps = b->offsets[o] ? (uint64_t)b->offsets[o][b->plan.rows] : 0;
        if (!leat_add_u64(total, leat_output_bytes(leat_program_output(l->program, o), b->plan.rows, steps), &total))
            total = UINT64_MAX / 2;
    }
    int rc = room_for(l, b->side, total, error);
    if (rc)
        return rc;
    for (size_t o = 0; o < l->n_outputs; o++) {
        const struct leat_output *output = leat_program_output(l->program, o);
        uint64_t steps = b->offsets[o] ? (uint64_t)b->offsets[o][b->plan.rows] : 0;
        rc = cut_output(b, o, leat_output_bytes(output, b->plan.rows, steps));
        if (rc) {
            leat_window_uncut(b);
            return rc == LEAT_E_NOMEM
                       ? leat_fail(error, rc, "no memory for a batch")
                       : leat_fail(error, rc,
                                   "no %" PRIu64 " bytes in one piece for a batch: batches that are held lie between; "
                                   "let go of some",
                                   total);
        }
        if (output->ragged)
            memcpy(l->region.base + b->buffers[o]->offset, b->offsets[o], (b->plan.rows + 1) * sizeof(int64_t));
    }
    return LEAT_OK;
}

void leat_window_assign(struct leat_loader *l)
{
    bool some = false;
    for (size_t i = 0; i < l->n_window; i++) {
        struct leat_batch *b = leat_window_at(l, i);
        if (b->state == LEAT_BATCH_SIZING)
            break;
        if (b->state != LEAT_BATCH_SIZED)
            continue;
        int rc = leat_window_cut(l, b, &b->failure);
        if (rc && i)
            break;
        if (rc && l->n_window > 1) { /* the first one goes before all others, whose arrays may be what is in the way */
            leat_window_cancel(l, 1);
            rc = leat_window_cut(l, b, &b->failure);
        }
        if (rc == LEAT_E_HELD && l->in_flight > b->meta) /* a cancelled batch will give memory back */
            break;
        b->state = rc ? LEAT_BATCH_FAILED : LEAT_BATCH_FILLING;
        some = true;
        if (rc)
            leat_engine_notify(l);
    }
    if (some)
        leat_engine_activate(l);
}

/* ---- the ring -------------------------------------------------------------------------------- */

uint64_t leat_window_last_epoch(const struct leat_loader *l)
{
    uint64_t last = l->epoch + 1; /* at most one window into the next */
    if (l->epochs >= 0)
        last = l->epochs && (uint64_t)l->epochs - 1 > l->epoch ? last : l->epoch;
    if (l->lists_later && (int64_t)last > l->list_epoch)
        last = l->list_epoch < (int64_t)l->epoch ? l->epoch : (uint64_t)l->list_epoch;
    return last;
}

int leat_window_admit(struct leat_loader *l, const struct leat_plan_batch *plan, struct leat_batch **out,
                      struct leat_error *error)
{
    uint64_t meta = meta_bytes(l, plan->rows);
    int rc = room_for(l, false, l->ragged && l->n_window ? meta + l->estimate : meta, error);
    if (rc)
        return rc;
    struct leat_batch *b = leat_window_batch(l, plan->rows, error);
    if (!b)
        return LEAT_E_NOMEM;
    b->plan = *plan;
    b->state = LEAT_BATCH_SIZING;
    l->in_flight += b->meta;
    leat_engine.used += b->meta;
    if (!l->in_order) {
        b->loose = true;
        memset(b->row_state, LEAT_ROW_OPEN, plan->rows);
    }
    leat_batch_rewind(b);
    if (!l->ragged) {
        rc = leat_window_cut(l, b, error);
        if (rc) {
            leat_batch_recycle(b);
            return rc;
        }
        b->state = LEAT_BATCH_FILLING;
    }
    l->window[(l->head + l->n_window++) % l->window_room] = b;
    *out = b;
    return LEAT_OK;
}

int leat_window_plan(struct leat_loader *l, struct leat_error *error)
{
    struct leat_plan_batch plan;
    struct leat_batch *b;
    if (!l->in_order)
        return leat_unordered_plan(l, error);
    for (;;) {
        if (l->n_window == l->window_room)
            return LEAT_E_HELD;
        if (l->plan_at.epoch > leat_window_last_epoch(l))
            return LEAT_E_END;
        int rc = leat_plan_batch(l->plan, l->plan_at, &plan);
        if (rc && rc != LEAT_E_END)
            return leat_fail(error, rc, "no batch can be planned at epoch %" PRIu64 ", row %" PRIu64, l->plan_at.epoch,
                             l->plan_at.row);
        if (rc == LEAT_OK && plan.rows)
            break;
        l->plan_at = rc || plan.last ? (struct leat_position){l->plan_at.epoch + 1, 0} : plan.next;
    }
    int rc = leat_window_admit(l, &plan, &b, error);
    if (rc)
        return rc;
    l->plan_at = plan.last ? (struct leat_position){plan.epoch + 1, 0} : plan.next;
    return LEAT_OK;
}

void leat_window_cancel(struct leat_loader *l, size_t from)
{
    if (from >= l->n_window)
        return;
    const struct leat_batch *first = leat_window_at(l, from);
    l->plan_at = first->plan.at;
    l->plan_skip = first->skip;
    l->replay = first->recorded;
    while (l->n_window > from) {
        struct leat_batch *b = leat_window_at(l, --l->n_window);
        leat_batch_cancel(b);
    }
    l->full = false;
}

struct leat_batch *leat_window_pop(struct leat_loader *l)
{
    struct leat_batch *b = leat_window_at(l, 0);
    l->head = (l->head + 1) % l->window_room;
    l->n_window--;
    return b;
}

void leat_window_remove(struct leat_loader *l, size_t i)
{
    for (; i; i--)
        l->window[(l->head + i) % l->window_room] = leat_window_at(l, i - 1);
    leat_window_pop(l);
}
