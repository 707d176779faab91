/*
 * A batch in the consumer's hands. It needs no lock: nobody else touches it until leat_batch_free, which gives its own
 * references to the buffers back. A buffer that a tensor still refers to lives on by itself.
 */
#include <string.h>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/loader.h"

static bool is_ours(const struct leat_loader *l)
{
    return l->generation == atomic_load_explicit(&leat_engine.generation, memory_order_relaxed);
}

void leat_buffer_retain(struct leat_buffer *buffer)
{
    atomic_fetch_add_explicit(&buffer->references, 1, memory_order_relaxed);
}

static bool drop(struct leat_buffer *buffer)
{
    if (atomic_fetch_sub_explicit(&buffer->references, 1, memory_order_acq_rel) != 1)
        return false;
    if (!is_ours(buffer->loader))
        return false; /* in a forked child the region is the parent's */
    if (buffer->release)
        buffer->release(buffer->release_user);
    return true;
}

/* Under the lock. True: the loader's last reference went with it. */
static bool give_back(struct leat_buffer *buffer)
{
    struct leat_loader *l = buffer->loader;
    l->held -= buffer->bytes;
    l->live[buffer->output]--;
    leat_buffer_recycle(buffer);
    return leat_loader_unref(l);
}

void leat_buffer_release(struct leat_buffer *buffer)
{
    if (!drop(buffer))
        return;
    struct leat_loader *l = buffer->loader;
    leat_engine_lock();
    bool last = give_back(buffer);
    leat_engine_unlock();
    if (last)
        leat_loader_destroy(l);
}

uint64_t leat_buffer_offset(const struct leat_buffer *buffer)
{
    return buffer->offset;
}

int leat_loader_region(const struct leat_loader *l, int *fd, uint64_t *bytes, struct leat_error *error)
{
    *fd = l->region.fd; /* both are fixed as long as the loader is open */
    *bytes = l->region.bytes;
    return *fd >= 0 ? LEAT_OK
                    : leat_fail(error, LEAT_E_UNSUPPORTED, "the loader's memory is private: open it with region 1");
}

void leat_buffer_on_release(struct leat_buffer *buffer, void (*release)(void *user), void *user)
{
    buffer->release = release;
    buffer->release_user = user;
}

void leat_batch_free(struct leat_batch *b)
{
    if (!b || !is_ours(b->loader))
        return;
    struct leat_loader *l = b->loader;
    for (size_t o = 0; o < l->n_outputs; o++)
        if (b->buffers[o] && !drop(b->buffers[o]))
            b->buffers[o] = NULL; /* a tensor has it */
    bool last = false;
    leat_engine_lock();
    for (size_t o = 0; o < l->n_outputs; o++)
        if (b->buffers[o]) {
            give_back(b->buffers[o]); /* the batch's own reference keeps the loader */
            b->buffers[o] = NULL;
        }
    leat_batch_recycle(b);
    last = leat_loader_unref(l);
    leat_engine_unlock();
    if (last)
        leat_loader_destroy(l);
}

size_t leat_batch_outputs(const struct leat_batch *b)
{
    return b->loader->n_outputs;
}

int leat_batch_tensor(const struct leat_batch *b, size_t o, struct leat_tensor *out)
{
    memset(out, 0, sizeof *out);
    if (o >= b->loader->n_outputs)
        return LEAT_E_RANGE;
    const struct leat_output *output = leat_program_output(b->loader->program, o);
    struct leat_buffer *buffer = b->buffers[o];
    uint8_t *data = b->loader->region.base + buffer->offset;
    out->name = output->name;
    out->kind = output->kind;
    out->dtype = output->dtype;
    out->buffer = buffer;
    size_t element = leat_dtype_size(output->dtype);
    if (output->ragged) {
        out->offsets = (const int64_t *)(const void *)data;
        out->data = data + leat_output_values(output, b->plan.rows);
        out->ndim = output->ndim ? output->ndim : 1;
        memcpy(out->shape, output->shape, sizeof out->shape);
        memcpy(out->strides, output->strides, sizeof out->strides);
        out->shape[0] = out->offsets[b->rows];
        out->strides[0] = (int64_t)(output->row_bytes / element);
        return LEAT_OK;
    }
    out->data = data;
    out->ndim = output->ndim + 1;
    out->shape[0] = (int64_t)b->rows;
    out->strides[0] = (int64_t)(output->row_bytes / element);
    for (unsigned d = 0; d < output->ndim && d + 1 < LEAT_MAX_DIMS; d++) {
        out->shape[d + 1] = output->shape[d];
        out->strides[d + 1] = output->strides[d];
    }
    return LEAT_OK;
}

uint64_t leat_batch_rows(const struct leat_batch *b)
{
    return b->rows;
}

uint64_t leat_batch_epoch(const struct leat_batch *b)
{
    return b->plan.epoch;
}

uint64_t leat_batch_step(const struct leat_batch *b)
{
    return b->plan.step;
}

const int64_t *leat_batch_ids(const struct leat_batch *b)
{
    return b->ids;
}

const uint64_t *leat_batch_row_keys(const struct leat_batch *b)
{
    return b->keys;
}

const bool *leat_batch_valid(const struct leat_batch *b)
{
    return b->valid;
}

size_t leat_batch_errors(const struct leat_batch *b)
{
    return b->n_broken;
}

int leat_batch_error(const struct leat_batch *b, size_t i, struct leat_row_error *out)
{
    if (i >= b->n_broken)
        return LEAT_E_RANGE;
    const struct leat_broken_row *row = &b->broken[i];
    *out = (struct leat_row_error){row->row, row->planned, row->delivered, row->reason};
    return LEAT_OK;
}
