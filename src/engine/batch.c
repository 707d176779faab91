/*
 * Batches, their buffers and the pool that both come from. In the consumer's hands a batch needs no lock: nobody else
 * touches it until leat_batch_free, which gives its own references to the buffers back. A buffer that a tensor still
 * refers to lives on by itself.
 */
#include "engine/batch.h"
#include "engine/follow.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/results.h"
#include "engine/scheduler.h"
#include "format/source.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

uint64_t leat_output_values(const struct leat_output *output, uint64_t rows)
{
    return output->ragged ? leat_align64((rows + 1) * sizeof(int64_t)) : 0;
}

uint64_t leat_output_bytes(const struct leat_output *output, uint64_t rows, uint64_t steps)
{
    uint64_t bytes, values = leat_output_values(output, rows);
    if (!leat_mul_u64(output->ragged ? steps : rows, output->row_bytes, &bytes) || bytes > (UINT64_C(1) << 60))
        return UINT64_C(1) << 60; /* more than any budget */
    bytes += values;
    return leat_region_round(bytes ? bytes : 1);
}

/* For the arrays that `grow` makes. */
static size_t row_bytes(const struct leat_batch_pool *pool)
{
    return 2 * sizeof(uint64_t) + sizeof(int32_t) + 2 + (pool->numbered ? sizeof(uint64_t) + 1 : 0) +
           (pool->n_segments ? 2 : 0);
}

uint64_t leat_batch_meta_bytes(const struct leat_batch_pool *pool, uint64_t rows)
{
    return leat_region_round(rows * (row_bytes(pool) + pool->late_row) + sizeof(struct leat_batch));
}

/* Whether an output gets its buffer now. */
static bool has_output(const struct leat_batch *b, size_t o)
{
    const struct leat_output *output = leat_program_output(b->program, o);
    if (b->copied)
        return !output->hidden;
    return leat_output_is_late(output) ? b->calls.placing && leat_batch_is_late(b, o) : !b->calls.placing;
}

static uint64_t output_bytes(const struct leat_batch *b, size_t o)
{
    if (!has_output(b, o))
        return 0;
    uint64_t steps = b->offsets[o] ? (uint64_t)b->offsets[o][b->plan.rows] : 0;
    return leat_output_bytes(leat_program_output(b->program, o), b->plan.rows, steps);
}

uint64_t leat_batch_buffer_bytes(const struct leat_batch *b)
{
    uint64_t total = 0;
    for (size_t o = 0; o < b->pool->n_outputs; o++)
        if (!leat_add_u64(total, output_bytes(b, o), &total))
            return UINT64_MAX / 2;
    return total;
}

uint64_t leat_batch_tensor_bytes(const struct leat_batch *b)
{
    uint64_t bytes = 0;
    struct leat_tensor t;
    for (size_t o = 0; o < b->pool->n_outputs; o++) {
        if (leat_program_output(b->program, o)->hidden || leat_batch_tensor(b, o, &t))
            continue;
        bytes += (uint64_t)t.shape[0] * leat_program_output(b->program, o)->row_bytes;
        bytes += t.offsets ? (b->rows + 1) * sizeof *t.offsets : 0;
    }
    return bytes;
}

/* ---- the pool -------------------------------------------------------------------------------- */

bool leat_batch_pool_is_ours(const struct leat_batch_pool *pool)
{
    return pool->generation == leat_engine_generation();
}

void leat_batch_pool_unref_unlock(struct leat_batch_pool *pool)
{
    bool last = --pool->references == 0;
    leat_engine_unlock();
    if (last)
        pool->destroy(pool);
}

uint64_t leat_batch_pool_held_batches(const struct leat_batch_pool *pool)
{
    uint64_t most = 0;
    for (size_t o = 0; o < pool->n_outputs; o++)
        most = pool->live[o] > most ? pool->live[o] : most;
    return most;
}

static void clear_broken(struct leat_batch *b)
{
    for (size_t i = 0; i < b->faults.n_broken; i++)
        leat_free(b->faults.broken[i].reason);
    b->faults.n_broken = 0;
}

static void destroy_batch(struct leat_batch *b)
{
    clear_broken(b);
    for (size_t o = 0; b->offsets && o < b->pool->n_outputs; o++)
        leat_free(b->offsets[o]);
    leat_free(b->offsets);
    leat_free(b->memory);
    leat_free(b->buffers);
    leat_free(b->views);
    leat_free(b->mirrors);
    leat_free(b->faults.broken);
    leat_free(b->ids);
    leat_free(b);
}

void leat_batch_pool_clear(struct leat_batch_pool *pool)
{
    for (struct leat_batch *b; (b = pool->free_batches);) {
        pool->free_batches = b->next;
        destroy_batch(b);
    }
    for (struct leat_buffer *b; (b = pool->free_buffers);) {
        pool->free_buffers = b->next;
        leat_free(b);
    }
    leat_region_close(&pool->region);
    leat_free(pool->live);
}

/* ---- buffers --------------------------------------------------------------------------------- */

static struct leat_buffer *new_buffer(struct leat_batch_pool *pool)
{
    struct leat_buffer *buffer = pool->free_buffers;
    if (buffer)
        pool->free_buffers = buffer->next;
    else
        buffer = leat_new(struct leat_buffer);
    return buffer;
}

static void put_aside(struct leat_buffer *buffer)
{
    buffer->next = buffer->pool->free_buffers;
    buffer->pool->free_buffers = buffer;
}

static void free_buffer(struct leat_buffer *buffer, enum leat_account account)
{
    if (buffer->pool->let_go) {
        buffer->pool->let_go(buffer);
        put_aside(buffer);
        return;
    }
    leat_region_free(&buffer->pool->region, buffer->offset, buffer->bytes);
    leat_budget_give(buffer->pool->budget, account, buffer->bytes);
    put_aside(buffer);
}

static int allocate_output(struct leat_batch *b, size_t o, uint64_t bytes)
{
    struct leat_batch_pool *pool = b->pool;
    struct leat_buffer *buffer = new_buffer(pool);
    if (!buffer)
        return LEAT_E_NOMEM;
    *buffer = (struct leat_buffer){.references = 1, .pool = pool, .bytes = bytes, .output = o};
    buffer->data = leat_region_alloc(&pool->region, bytes, &buffer->offset);
    if (!buffer->data) {
        put_aside(buffer);
        return LEAT_E_HELD;
    }
    b->buffers[o] = buffer;
    b->memory[o] = buffer->data;
    b->bytes += bytes;
    leat_budget_take(pool->budget, b->account, bytes);
    return LEAT_OK;
}

static void release_output(struct leat_batch *b, size_t o)
{
    if (!b->buffers[o])
        return;
    b->bytes -= b->buffers[o]->bytes;
    free_buffer(b->buffers[o], b->account);
    b->buffers[o] = NULL;
    b->memory[o] = NULL;
}

int leat_batch_pool_lend(struct leat_batch_pool *pool, uint64_t bytes, struct leat_buffer **out,
                         struct leat_error *error)
{
    struct leat_buffer *buffer = new_buffer(pool);
    if (!buffer)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a buffer");
    bytes = leat_region_round(bytes);
    *buffer = (struct leat_buffer){.references = 1, .pool = pool, .bytes = bytes, .output = pool->n_outputs};
    buffer->data = leat_region_alloc(&pool->region, bytes, &buffer->offset);
    if (!buffer->data) {
        put_aside(buffer);
        return leat_fail(error, LEAT_E_HELD, "no %" PRIu64 " bytes in one piece", bytes);
    }
    leat_budget_take(pool->budget, LEAT_HELD, bytes);
    pool->live[pool->n_outputs]++;
    pool->references++;
    *out = buffer;
    return LEAT_OK;
}

struct leat_buffer *leat_batch_pool_borrow(struct leat_batch_pool *pool, size_t output)
{
    struct leat_buffer *buffer = new_buffer(pool);
    if (buffer)
        *buffer = (struct leat_buffer){.references = 1, .pool = pool, .output = output};
    return buffer;
}

int leat_batch_allocate(struct leat_batch *b, struct leat_error *error)
{
    for (size_t o = 0; o < b->pool->n_outputs; o++) {
        if (!has_output(b, o))
            continue;
        int rc = allocate_output(b, o, output_bytes(b, o));
        if (rc) {
            uint64_t total = leat_batch_buffer_bytes(b);
            const char *obstacle = leat_region_obstacle(&b->pool->region);
            for (size_t k = 0; k < o; k++)
                if (has_output(b, k))
                    release_output(b, k);
            return rc == LEAT_E_NOMEM
                       ? leat_fail(error, rc, "no memory for a batch")
                       : leat_fail(error, rc, "no %" PRIu64 " bytes in one piece for a batch%s", total,
                                   obstacle ? obstacle : ": batches that are held lie between; let go of some");
        }
        if (leat_program_output(b->program, o)->ragged)
            memcpy(b->buffers[o]->data, b->offsets[o], (b->plan.rows + 1) * sizeof(int64_t));
    }
    return LEAT_OK;
}

void leat_batch_release(struct leat_batch *b)
{
    for (size_t o = 0; o < b->pool->n_outputs; o++)
        release_output(b, o);
    b->bytes = 0; /* the consumer's buffers went before */
}

void leat_batch_release_hidden(struct leat_batch *b)
{
    for (size_t o = 0; b->pool->n_segments && o < b->pool->n_outputs; o++)
        if (leat_program_output(b->program, o)->hidden)
            release_output(b, o);
}

void leat_batch_release_results(struct leat_batch *b)
{
    leat_batch_drop_results(b);
    for (size_t o = 0; b->pool->late && o < b->pool->n_outputs; o++)
        if (leat_output_is_late(leat_program_output(b->program, o)))
            release_output(b, o);
}

/* ---- batches --------------------------------------------------------------------------------- */

/* Arrays for so many rows, in one piece: ids, keys, numbers, domains, then those of bytes. */
static bool grow(struct leat_batch *b, uint64_t rows)
{
    struct leat_batch_pool *pool = b->pool;
    const unsigned numbered = pool->numbered;
    leat_free(b->ids);
    b->room = 0;
    b->ids = leat_new_array(rows, row_bytes(pool));
    if (!b->ids)
        return false;
    b->keys = (uint64_t *)(b->ids + rows);
    b->apart.numbers = numbered ? b->keys + rows : NULL;
    b->domains = (int32_t *)(b->keys + (1 + numbered) * rows);
    uint8_t *bytes = (uint8_t *)(b->domains + rows);
    b->valid = (bool *)bytes;
    b->left_out = b->valid + rows;
    b->apart.row_state = numbered ? bytes + 2 * rows : NULL;
    b->attempts = pool->n_segments ? bytes + (2 + numbered) * rows : NULL;
    b->calls.draws = pool->n_segments ? b->attempts + rows : NULL;
    bool ok = true;
    for (size_t o = 0; o < pool->n_outputs; o++)
        if (leat_program_output(pool->program, o)->ragged) {
            leat_free(b->offsets[o]);
            b->offsets[o] = leat_new_array(rows + 1, sizeof **b->offsets);
            ok = ok && b->offsets[o];
        }
    if (ok)
        b->room = rows;
    return ok;
}

static struct leat_batch *from_pool(struct leat_batch_pool *pool)
{
    struct leat_batch *b = pool->free_batches;
    if (b) {
        pool->free_batches = b->next;
        b->next = NULL;
        return b;
    }
    b = leat_new(struct leat_batch);
    if (b) {
        b->pool = pool;
        b->buffers = leat_new_array(pool->n_outputs + 1, sizeof *b->buffers);
        b->offsets = leat_new_array(pool->n_outputs + 1, sizeof *b->offsets);
        b->memory = leat_new_array(pool->n_outputs + 1, sizeof *b->memory);
        b->views = pool->let_go ? leat_new_array(pool->n_outputs + 1, sizeof *b->views) : NULL;
        b->mirrors = pool->let_go ? leat_new_array(pool->n_outputs + 1, sizeof *b->mirrors) : NULL;
    }
    return b;
}

struct leat_batch *leat_batch_new(struct leat_batch_pool *pool, const struct leat_plan_batch *plan,
                                  enum leat_account account, struct leat_error *error)
{
    struct leat_batch *b = from_pool(pool);
    if (!b || !b->buffers || !b->offsets || !b->memory || (pool->let_go && (!b->views || !b->mirrors)) ||
        (b->room < plan->rows && !grow(b, plan->rows))) {
        if (b)
            destroy_batch(b);
        leat_fail(error, LEAT_E_NOMEM, "no memory for a batch of %" PRIu64 " rows", plan->rows);
        return NULL;
    }
    atomic_store_explicit(&b->cancelled, false, memory_order_relaxed);
    b->plan = *plan;
    b->program =
        leat_program_of_batch(pool->program, plan->epoch, leat_plan_key(pool->seed, plan->epoch, plan->at.row));
    b->account = account;
    b->state = LEAT_BATCH_SIZING;
    b->apart.loose = b->apart.listed = b->apart.recorded = b->copied = false;
    b->tasks = 0;
    b->for_whom = NULL;
    b->bytes = 0;
    b->apart.n_gone = b->apart.skip = 0;
    b->meta = leat_batch_meta_bytes(pool, plan->rows);
    leat_budget_take(pool->budget, account, b->meta);
    leat_batch_rewind(b);
    b->calls.result_bytes = pool->late_row * plan->rows; /* in `meta` already */
    return b;
}

bool leat_batch_expect_made(struct leat_batch *b, size_t n_fields)
{
    struct leat_values *values = leat_new(struct leat_values);
    if (values && !leat_values_init(values, n_fields, b->plan.rows)) {
        b->computed.values = values;
        return true;
    }
    leat_free(values);
    return false;
}

void leat_batch_drop_made(struct leat_batch *b)
{
    if (!b->computed.values)
        return;
    leat_budget_give(b->pool->budget, b->account, b->computed.bytes);
    b->meta -= b->computed.bytes;
    b->computed.bytes = 0;
    leat_values_destroy(b->computed.values);
    leat_free(b->computed.values);
    b->computed.values = NULL;
}

void leat_batch_rewind(struct leat_batch *b)
{
    clear_broken(b);
    leat_follow_drop(b);
    if (b->state == LEAT_BATCH_SIZING)
        leat_batch_drop_made(b);
    leat_batch_drop_results(b);
    b->taken = b->calls.segment = 0;
    b->calls.placing = false;
    atomic_store_explicit(&b->calls.again, false, memory_order_relaxed);
    b->apart.n_made = 0;
    for (uint64_t i = 0; b->apart.loose && i < b->plan.rows; i++)
        if (b->apart.row_state[i] == LEAT_ROW_MADE)
            b->apart.row_state[i] = LEAT_ROW_OPEN;
    leat_batch_skip_gone(b);
    atomic_store_explicit(&b->done, b->apart.n_gone, memory_order_relaxed);
    atomic_store_explicit(&b->faults.failed_row, UINT64_MAX, memory_order_relaxed);
    b->rows = b->plan.rows;
    memset(b->left_out, 0, b->plan.rows * sizeof *b->left_out);
    if (b->attempts) {
        memset(b->attempts, 0, b->plan.rows);
        memset(b->calls.draws, 0, b->plan.rows);
    }
}

void leat_batch_recycle(struct leat_batch *b)
{
    leat_follow_drop(b);
    leat_batch_release(b);
    leat_batch_drop_made(b);
    leat_batch_drop_results(b);
    leat_budget_give(b->pool->budget, b->account, b->meta);
    clear_broken(b);
    b->state = LEAT_BATCH_FREE;
    b->next = b->pool->free_batches;
    b->pool->free_batches = b;
}

void leat_batch_cancel(struct leat_batch *b)
{
    atomic_store_explicit(&b->cancelled, true, memory_order_relaxed);
    if (!b->tasks)
        leat_batch_recycle(b);
}

void leat_batch_put_out(struct leat_batch *b)
{
    struct leat_batch_pool *pool = b->pool;
    if (b->account == LEAT_IN_FLIGHT)
        leat_budget_hand_out(pool->budget, b->bytes + b->meta);
    b->account = LEAT_HELD;
    b->state = LEAT_BATCH_OUT;
    b->tensor_bytes = leat_batch_tensor_bytes(b); /* a card takes buffers from it */
    atomic_store_explicit(&b->holders, 1, memory_order_relaxed);
    pool->references++;
    for (size_t o = 0; o < pool->n_outputs; o++)
        if (b->buffers[o]) {
            pool->live[o]++;
            pool->references++;
        }
}

/* ---- rows left out --------------------------------------------------------------------------- */

static void compact_dense(struct leat_batch *b, uint8_t *data, uint64_t row_bytes)
{
    uint64_t to = 0;
    for (uint64_t row = 0; row < b->plan.rows; row++) {
        if (b->left_out[row])
            continue;
        if (to != row)
            memmove(data + to * row_bytes, data + row * row_bytes, row_bytes);
        to++;
    }
}

static void compact_ragged(struct leat_batch *b, size_t o)
{
    const struct leat_output *output = leat_program_output(b->program, o);
    int64_t *offsets = leat_batch_offsets(b, o), at = 0, begin = 0;
    uint8_t *values = b->buffers[o]->data + leat_output_values(output, b->plan.rows);
    uint64_t to = 0;
    for (uint64_t row = 0; row < b->plan.rows; row++) {
        int64_t end = offsets[row + 1], n = leat_batch_steps(b, o, row);
        if (!b->left_out[row]) {
            if (at != begin)
                memmove(values + (uint64_t)at * output->row_bytes, values + (uint64_t)begin * output->row_bytes,
                        (uint64_t)n * output->row_bytes);
            at += n;
            offsets[++to] = at;
        }
        begin = end;
    }
}

void leat_batch_finish(struct leat_batch *b)
{
    const struct leat_program *program = b->program;
    for (size_t o = 0; o < b->pool->n_outputs; o++)
        if (b->buffers[o])
            b->memory[o] = leat_batch_values(b, o).data;
    if (b->rows && leat_program_has_batch_stage(program))
        leat_program_finish_batch(program, (void *const *)b->memory, b->rows, b->keys);
}

void leat_batch_complete(struct leat_batch *b)
{
    uint64_t to = 0, left = 0;
    for (uint64_t row = 0; b->faults.n_broken && row < b->plan.rows; row++)
        left += b->left_out[row];
    for (size_t o = 0; o < b->pool->n_outputs && (left || b->pool->bounded); o++)
        if (leat_program_output(b->program, o)->hidden)
            continue;
        else if (b->offsets[o])
            compact_ragged(b, o);
        else if (left)
            compact_dense(b, b->buffers[o]->data, leat_program_output(b->program, o)->row_bytes);
    for (uint64_t row = 0; left && row < b->plan.rows; row++)
        if (!b->left_out[row]) {
            b->ids[to] = b->ids[row];
            b->keys[to] = b->keys[row];
            b->domains[to] = b->domains[row];
            b->valid[to++] = b->valid[row];
        }
    b->rows = b->plan.rows - left;
    leat_batch_finish(b);
}

/* ---- in the consumer's hands ----------------------------------------------------------------- */

void leat_buffer_retain(struct leat_buffer *buffer)
{
    atomic_fetch_add_explicit(&buffer->references, 1, memory_order_relaxed);
}

static bool drop(struct leat_buffer *buffer)
{
    if (atomic_fetch_sub_explicit(&buffer->references, 1, memory_order_acq_rel) != 1)
        return false;
    if (!leat_batch_pool_is_ours(buffer->pool))
        return false; /* in a forked child the region is the parent's */
    if (buffer->release)
        buffer->release(buffer->release_user);
    return true;
}

/* Under the lock. The caller has a reference of its own to the pool, or gives up that of the buffer. */
static void give_back(struct leat_buffer *buffer)
{
    buffer->pool->live[buffer->output]--;
    free_buffer(buffer, LEAT_HELD);
}

void leat_buffer_release(struct leat_buffer *buffer)
{
    if (!drop(buffer))
        return;
    struct leat_batch_pool *pool = buffer->pool;
    leat_engine_lock();
    give_back(buffer);
    pool->given_back(pool);
    leat_batch_pool_unref_unlock(pool);
}

uint64_t leat_buffer_offset(const struct leat_buffer *buffer)
{
    return buffer->offset;
}

void leat_buffer_on_release(struct leat_buffer *buffer, void (*release)(void *user), void *user)
{
    buffer->release = release;
    buffer->release_user = user;
}

void leat_batch_retain(struct leat_batch *b)
{
    atomic_fetch_add_explicit(&b->holders, 1, memory_order_relaxed);
}

void leat_batch_free(struct leat_batch *b)
{
    if (!b || !leat_batch_pool_is_ours(b->pool) || atomic_fetch_sub_explicit(&b->holders, 1, memory_order_acq_rel) != 1)
        return;
    struct leat_batch_pool *pool = b->pool;
    for (size_t o = 0; o < pool->n_outputs; o++)
        if (b->buffers[o] && !drop(b->buffers[o]))
            b->buffers[o] = NULL; /* a tensor has it */
    leat_engine_lock();
    for (size_t o = 0; o < pool->n_outputs; o++)
        if (b->buffers[o]) {
            give_back(b->buffers[o]);
            b->buffers[o] = NULL;
            pool->references--; /* the batch's own reference is left */
        }
    leat_batch_recycle(b);
    pool->given_back(pool);
    leat_batch_pool_unref_unlock(pool);
}
