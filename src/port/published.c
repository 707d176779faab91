#include "port/published.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/assemble.h"
#include "engine/scheduler.h"

static const char magic[8] = "LEATPUB2";

/* The places of the parts; the last one is all of it. */
struct layout {
    uint64_t outputs, ids, keys, errors, mirrors, domains, valid, texts, end;
};

static bool lay_out(const struct leat_published_head *h, struct layout *to)
{
    const uint64_t most = UINT64_C(1) << 40;
    if (h->rows > most || h->delivered > most)
        return false;
    to->outputs = leat_align64(sizeof *h);
    to->ids = to->outputs + 8 * (uint64_t)h->n_outputs;
    to->keys = to->ids + 8 * h->delivered;
    to->errors = to->keys + 8 * h->delivered;
    to->mirrors = to->errors + sizeof(struct leat_published_error) * (uint64_t)h->n_errors;
    to->domains = to->mirrors + sizeof(struct leat_mirror) * (uint64_t)(h->mirrored ? h->n_outputs : 0);
    to->valid = to->domains + 4 * h->delivered;
    to->texts = to->valid + h->delivered;
    to->end = to->texts + h->n_texts;
    return true;
}

static struct leat_published_head head_of(const struct leat_batch *b)
{
    struct leat_published_head h = {.failed = !b};
    memcpy(h.magic, magic, sizeof magic);
    if (!b)
        return h;
    h.delivered = b->rows;
    h.n_outputs = (uint32_t)b->pool->n_outputs;
    h.n_errors = (uint32_t)b->faults.n_broken;
    for (size_t o = 0; o < b->pool->n_outputs; o++)
        if (b->buffers[o] && b->buffers[o]->mirror.there)
            h.mirrored = 1;
    for (size_t i = 0; i < b->faults.n_broken; i++)
        h.n_texts += (uint32_t)strlen(b->faults.broken[i].reason) + 1;
    return h;
}

uint64_t leat_published_bytes(const struct leat_batch *b)
{
    const struct leat_published_head h = head_of(b);
    struct layout at = {0};
    lay_out(&h, &at);
    return at.end;
}

void leat_published_write(void *to, const struct leat_batch *b, const struct leat_plan_batch *plan)
{
    struct leat_published_head h = head_of(b);
    struct layout at = {0};
    uint8_t *bytes = to;
    lay_out(&h, &at);
    h.bytes = at.end;
    h.epoch = plan->epoch;
    h.begin = plan->begin;
    h.rows = plan->rows;
    memcpy(bytes, &h, sizeof h);
    if (!b)
        return;
    uint64_t *outputs = (uint64_t *)(void *)(bytes + at.outputs);
    for (size_t o = 0; o < b->pool->n_outputs; o++)
        outputs[o] = b->buffers[o] ? b->buffers[o]->offset : UINT64_MAX;
    struct leat_mirror *mirrors = (struct leat_mirror *)(void *)(bytes + at.mirrors);
    for (size_t o = 0; h.mirrored && o < h.n_outputs; o++)
        mirrors[o] = b->buffers[o] ? b->buffers[o]->mirror : (struct leat_mirror){0};
    memcpy(bytes + at.ids, b->ids, 8 * b->rows);
    memcpy(bytes + at.keys, b->keys, 8 * b->rows);
    memcpy(bytes + at.domains, b->domains, 4 * b->rows);
    memcpy(bytes + at.valid, b->valid, b->rows);
    struct leat_published_error *errors = (struct leat_published_error *)(void *)(bytes + at.errors);
    for (uint32_t i = 0, text = 0; i < h.n_errors; i++) {
        const struct leat_broken_row *row = &b->faults.broken[i];
        const size_t n = strlen(row->reason) + 1;
        errors[i] = (struct leat_published_error){row->row, row->planned, row->delivered, row->code, text};
        memcpy(bytes + at.texts + text, row->reason, n);
        text += (uint32_t)n;
    }
}

static int wrong(struct leat_error *error)
{
    return leat_fail(error, LEAT_E_FORMAT, "what the port says of a batch is not right");
}

int leat_published_read(const uint8_t *memory, uint64_t memory_bytes, uint64_t offset, uint64_t bytes, size_t n_outputs,
                        struct leat_published *out, struct leat_error *error)
{
    struct layout at;
    struct leat_published_head *h = &out->head;
    *out = (struct leat_published){0};
    if (offset % 64 || offset > memory_bytes || bytes > memory_bytes - offset || bytes < sizeof *h)
        return leat_fail(error, LEAT_E_FORMAT, "the port says that a batch lies where no memory is");
    const uint8_t *from = memory + offset;
    memcpy(h, from, sizeof *h);
    if (memcmp(h->magic, magic, sizeof magic) != 0 || !lay_out(h, &at) || at.end != h->bytes || at.end > bytes ||
        h->delivered > h->rows || h->n_outputs != (h->failed ? 0 : n_outputs) || (h->failed && h->delivered) ||
        (h->n_texts && from[at.end - 1]))
        return wrong(error);
    out->outputs = (const uint64_t *)(const void *)(from + at.outputs);
    out->ids = (const int64_t *)(const void *)(from + at.ids);
    out->keys = (const uint64_t *)(const void *)(from + at.keys);
    out->mirrors = h->mirrored ? (const struct leat_mirror *)(const void *)(from + at.mirrors) : NULL;
    out->domains = (const int32_t *)(const void *)(from + at.domains);
    out->valid = from + at.valid;
    out->errors = (const struct leat_published_error *)(const void *)(from + at.errors);
    out->texts = (const char *)from + at.texts;
    uint64_t left_out = 0;
    for (uint32_t i = 0; i < h->n_errors; i++) { /* in the order of rows */
        if (out->errors[i].row >= h->rows || out->errors[i].text >= h->n_texts ||
            (i && out->errors[i].row <= out->errors[i - 1].row))
            return leat_fail(error, LEAT_E_FORMAT, "what the port says of a broken row is not right");
        left_out += out->errors[i].delivered < 0;
    }
    if (!h->failed && h->delivered + left_out != h->rows)
        return leat_fail(error, LEAT_E_FORMAT, "what the port says of the rows of a batch is not right");
    return LEAT_OK;
}

/* The values of an output. Offsets are copied before they are checked: the port could change its own. False: they do
 * not lie in the memory. */
static bool view(uint8_t *memory, uint64_t memory_bytes, uint64_t begin, struct leat_batch *b, size_t o)
{
    const struct leat_output *output = leat_program_output(b->program, o);
    uint64_t steps = b->rows, bytes, values;
    if (begin % 64 || !leat_add_u64(begin, leat_output_values(output, b->plan.rows), &values) || values > memory_bytes)
        return false;
    if (output->ragged) {
        const int64_t *offsets = memcpy(b->offsets[o], memory + begin, (b->rows + 1) * sizeof **b->offsets);
        bool ascending = offsets[0] >= 0;
        for (uint64_t i = 0; i < b->rows; i++)
            ascending &= offsets[i] <= offsets[i + 1];
        if (!ascending)
            return false;
        steps = (uint64_t)offsets[b->rows];
    }
    b->views[o] = (struct leat_view){memory + values, output->ragged ? b->offsets[o] : NULL};
    return leat_mul_u64(steps, output->row_bytes, &bytes) && bytes <= memory_bytes - values;
}

/* The numbers are checked again: the port could have changed them. */
static int take_errors(const struct leat_published *p, struct leat_batch *b, struct leat_error *error)
{
    struct leat_batch_faults *f = &b->faults;
    if (p->head.n_errors && !leat_grow(&f->broken, &f->broken_room, p->head.n_errors, sizeof *f->broken))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a batch");
    for (uint32_t i = 0; i < p->head.n_errors; i++) {
        const struct leat_published_error e = p->errors[i];
        if (e.row >= b->plan.rows || e.text >= p->head.n_texts)
            return wrong(error);
        char *reason = leat_strdup(p->texts + e.text);
        if (!reason)
            return leat_fail(error, LEAT_E_NOMEM, "no memory for a batch");
        b->left_out[e.row] = e.delivered < 0;
        f->broken[f->n_broken++] = (struct leat_broken_row){
            .row = e.row, .planned = e.planned, .delivered = e.delivered, .code = e.code, .reason = reason};
    }
    return leat_assemble_place(b, b->plan.rows) == b->rows ? LEAT_OK : wrong(error);
}

/* The batch of a record that has not failed. */
static int take_batch(const struct leat_published *p, uint8_t *memory, uint64_t memory_bytes, struct leat_batch *b,
                      struct leat_error *error)
{
    b->rows = p->head.delivered;
    memcpy(b->ids, p->ids, b->rows * sizeof *b->ids);
    memcpy(b->keys, p->keys, b->rows * sizeof *b->keys);
    memcpy(b->domains, p->domains, b->rows * sizeof *b->domains);
    for (uint64_t i = 0; i < b->rows; i++)
        b->valid[i] = p->valid[i] != 0;
    int rc = take_errors(p, b, error);
    for (size_t o = 0; !rc && o < b->pool->n_outputs; o++) {
        const uint64_t begin = p->outputs[o];
        b->views[o] = (struct leat_view){0};
        b->mirrors[o] = p->mirrors ? p->mirrors[o] : (struct leat_mirror){0};
        if (begin != UINT64_MAX && !view(memory, memory_bytes, begin, b, o))
            rc = wrong(error);
    }
    return rc;
}

int leat_published_batch(const struct leat_published *p, uint8_t *memory, uint64_t memory_bytes,
                         struct leat_batch_pool *pool, struct leat_batch **out, struct leat_error *error)
{
    const struct leat_published_head *h = &p->head;
    const struct leat_plan_batch plan = {.epoch = h->epoch, .begin = h->begin, .rows = h->failed ? 0 : h->rows};
    leat_engine_lock();
    struct leat_batch *b = leat_batch_new(pool, &plan, LEAT_HELD, error);
    leat_engine_unlock();
    *out = b;
    if (!b)
        return LEAT_E_NOMEM;
    b->plan.rows = h->rows; /* of one that failed none is there */
    b->state = h->failed ? LEAT_BATCH_FAILED : LEAT_BATCH_READY;
    int rc = h->failed ? LEAT_OK : take_batch(p, memory, memory_bytes, b, error);
    if (!rc)
        return LEAT_OK;
    leat_engine_lock();
    leat_batch_recycle(b);
    leat_engine_unlock();
    *out = NULL;
    return rc;
}
