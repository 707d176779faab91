#include "port/published.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

static const char magic[8] = "LEATPUB1";

/* The places of the parts; the last one is all of it. */
struct layout {
    uint64_t outputs, ids, keys, domains, errors, valid, texts, end;
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
    to->domains = to->errors + sizeof(struct leat_published_error) * (uint64_t)h->n_errors;
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
        return leat_fail(error, LEAT_E_FORMAT, "what the port says of a batch is not right");
    out->outputs = (const uint64_t *)(const void *)(from + at.outputs);
    out->ids = (const int64_t *)(const void *)(from + at.ids);
    out->keys = (const uint64_t *)(const void *)(from + at.keys);
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

uint64_t leat_published_row(const struct leat_published *p, uint64_t row)
{
    uint64_t left_out = 0;
    for (uint32_t i = 0; i < p->head.n_errors; i++)
        left_out += p->errors[i].row < row && p->errors[i].delivered < 0;
    return row - left_out;
}
