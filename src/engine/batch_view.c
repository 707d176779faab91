/* A consumer's view of a batch: its tensors, the images in them, and the facts of its rows. */
#include <string.h>

#include "engine/batch.h"

struct leat_view leat_batch_values(const struct leat_batch *b, size_t o)
{
    if (b->views)
        return b->views[o];
    const struct leat_output *output = leat_program_output(b->program, o);
    uint8_t *data = b->buffers[o]->data;
    return (struct leat_view){.data = data + leat_output_values(output, b->plan.rows),
                              .offsets = output->ragged ? (const int64_t *)(const void *)data : NULL};
}

size_t leat_batch_outputs(const struct leat_batch *b)
{
    return b->pool->n_outputs;
}

int leat_batch_tensor(const struct leat_batch *b, size_t o, struct leat_tensor *out)
{
    memset(out, 0, sizeof *out);
    if (o >= b->pool->n_outputs)
        return LEAT_E_RANGE;
    const struct leat_output *output = leat_program_output(b->program, o);
    struct leat_buffer *buffer = b->buffers[o];
    if (!buffer)
        return LEAT_E_NOT_FOUND;
    const struct leat_view values = leat_batch_values(b, o);
    out->name = output->name;
    out->kind = output->kind;
    out->dtype = output->dtype;
    out->buffer = buffer;
    out->data = values.data;
    out->offsets = values.offsets;
    size_t element = leat_dtype_size(output->dtype);
    if (output->ragged) {
        out->ndim = output->ndim ? output->ndim : 1;
        memcpy(out->shape, output->shape, sizeof out->shape);
        memcpy(out->strides, output->strides, sizeof out->strides);
        out->shape[0] = out->offsets[b->rows];
        out->strides[0] = (int64_t)(output->row_bytes / element);
        return LEAT_OK;
    }
    out->ndim = output->ndim + 1;
    out->shape[0] = (int64_t)b->rows;
    out->strides[0] = (int64_t)(output->row_bytes / element);
    for (unsigned d = 0; d < output->ndim && d + 1 < LEAT_MAX_DIMS; d++) {
        out->shape[d + 1] = output->shape[d];
        out->strides[d + 1] = output->strides[d];
    }
    return LEAT_OK;
}

int leat_batch_image(const struct leat_batch *b, size_t o, uint64_t row, struct leat_tensor *out)
{
    memset(out, 0, sizeof *out);
    if (o >= b->pool->n_outputs || row >= b->rows)
        return LEAT_E_RANGE;
    const struct leat_output *output = leat_program_output(b->program, o);
    int rc = output->open && !output->on_card ? leat_batch_tensor(b, o, out)
             : output->sizes                  ? LEAT_E_NOT_FOUND
                                              : LEAT_E_TYPE;
    if (rc)
        return rc;
    const size_t sizes = leat_program_chain(b->program, output->chain)->sizes;
    const int64_t *size = (const int64_t *)(const void *)leat_batch_values(b, sizes).data + 2 * row;
    const int64_t channels = output->channels;
    const int64_t h = size[0], w = size[1], c = channels ? channels : 1;
    bool planes = output->axes == LEAT_PLANES, last = output->axes == LEAT_PIXELS;
    out->data = (uint8_t *)out->data + (uint64_t)out->offsets[row] * output->row_bytes;
    if (output->instances) { /* as many as there are numbers for */
        const int64_t n = out->offsets[row + 1] - out->offsets[row];
        out->offsets = NULL;
        out->ndim = 3;
        memcpy(out->shape, ((const int64_t[]){h && w ? n / (h * w) : 0, h, w}), 3 * sizeof n);
        memcpy(out->strides, ((const int64_t[]){h * w, w, 1}), 3 * sizeof n);
        return LEAT_OK;
    }
    out->offsets = NULL;
    out->ndim = channels ? 3 : 2;
    const int64_t shape[3] = {h, w, c}, strides[3] = {planes ? w : w * c, planes ? 1 : c, planes ? h * w : 1};
    for (unsigned d = 0; d < out->ndim; d++) { /* the channels go first */
        unsigned from = !channels || last ? d : (d + 2) % 3;
        out->shape[d] = shape[from];
        out->strides[d] = strides[from];
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

const int32_t *leat_batch_domains(const struct leat_batch *b)
{
    return b->domains;
}

const bool *leat_batch_valid(const struct leat_batch *b)
{
    return b->valid;
}

size_t leat_batch_errors(const struct leat_batch *b)
{
    return b->faults.n_broken;
}

int leat_batch_error(const struct leat_batch *b, size_t i, struct leat_row_error *out)
{
    if (i >= b->faults.n_broken)
        return LEAT_E_RANGE;
    const struct leat_broken_row *row = &b->faults.broken[i];
    *out = (struct leat_row_error){row->row, row->planned, row->delivered, row->reason};
    return LEAT_OK;
}
