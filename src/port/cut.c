/*
 * Batches of a consumer, from those that the port has lent. Rows of one of them are views, without a copy. Rows of
 * several are put together in memory of this process, which is used again for the next such batch: pages that are new
 * to a process cost several times what copying into them costs.
 *
 * Their pages could be mapped one piece beside the other instead. Measured with two pieces (a virtual machine of two
 * Zen cores, pages of 4 KiB, CPU time with reading all values once; a view alone: 2.9 ms of 29 MiB), that takes 1.4
 * times a copy into memory that was used before for 1 MiB, as much for 8 MiB, and 0.9 of it for 29 MiB: pages mapped
 * anew are faulted in anew. It would keep the port's batches for longer, too.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/loader.h"
#include "port/attached.h"

/* From so many bytes on, memory of copies is kept for the next ones: less comes from the heap without new pages. */
#define LEAST_SPARE (UINT64_C(256) << 10)

/* ---- memory of copies ------------------------------------------------------------------------ */

/* Under the engine's lock, or as the reader ends. Frees a copy's memory; if `some`, the next ones may use it. */
static void give_memory(struct leat_attached *a, struct leat_spare old, bool some)
{
    if (some && old.bytes >= LEAST_SPARE) { /* if there are too many, the one that was kept longest goes */
        unsigned i = 0;
        while (i < LEAT_MOST_SPARES - 1 && a->spares[i].memory)
            i++;
        const struct leat_spare last = a->spares[i];
        memmove(a->spares + 1, a->spares, i * sizeof *a->spares);
        a->spares[0] = old;
        old = last;
    }
    leat_budget_give(&a->budget, LEAT_HELD, old.bytes);
    free(old.memory);
}

void leat_cut_free_spares(struct leat_attached *a)
{
    for (unsigned i = 0; i < LEAT_MOST_SPARES; i++) {
        give_memory(a, a->spares[i], false);
        a->spares[i] = (struct leat_spare){0};
    }
}

/* Under the engine's lock. Memory for a copy: that used before if it is not much too large, else new, which the ledger
 * counts. NOMEM; HELD: this process may use no more. */
static int take_memory(struct leat_attached *a, uint64_t bytes, struct leat_spare *out, struct leat_error *error)
{
    *out = (struct leat_spare){0};
    bytes = leat_align64(bytes ? bytes : 1);
    for (unsigned i = 0; bytes >= LEAST_SPARE && i < LEAT_MOST_SPARES; i++)
        if (a->spares[i].bytes >= bytes && a->spares[i].bytes / 2 <= bytes) {
            *out = a->spares[i];
            a->spares[i] = (struct leat_spare){0};
            return LEAT_OK;
        }
    if (leat_budget_ask(&a->budget, LEAT_HELD, bytes) != LEAT_YES) {
        leat_cut_free_spares(a);
        leat_loader_evict_others(NULL, bytes);
    }
    if (leat_budget_ask(&a->budget, LEAT_HELD, bytes) != LEAT_YES)
        return leat_budget_refuse(&a->budget, LEAT_HELD, bytes, error);
    if (!(out->memory = aligned_alloc(64, bytes)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a batch");
    leat_budget_take(&a->budget, LEAT_HELD, out->bytes = bytes);
    return LEAT_OK;
}

void leat_cut_let_go(struct leat_buffer *buffer)
{
    if (buffer->lender)
        leat_lent_unref(buffer->lender);
    give_memory(leat_attached_of_pool(buffer->pool), (struct leat_spare){buffer->memory, buffer->bytes}, true);
}

/* ---- the batch ------------------------------------------------------------------------------- */

/* The buffer of an output, with `bytes` of its own. `lent`, not NULL, has the values. */
static int borrow(struct leat_batch *b, size_t o, struct leat_lent *lent, uint64_t bytes, struct leat_error *error)
{
    struct leat_attached *a = leat_attached_of_pool(b->pool);
    struct leat_spare own = {0};
    leat_engine_lock();
    int rc = bytes || !lent ? take_memory(a, bytes, &own, error) : LEAT_OK;
    struct leat_buffer *buffer = rc ? NULL : leat_batch_pool_borrow(b->pool, o);
    if (buffer) {
        buffer->memory = own.memory;
        buffer->bytes = own.bytes;
        buffer->lender = lent;
        if (lent)
            lent->references++;
    } else if (!rc) {
        give_memory(a, own, true);
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a batch");
    }
    leat_engine_unlock();
    b->buffers[o] = buffer;
    return rc;
}

/* Values of the rows of one lent batch. */
static int view(const struct leat_excerpt *part, struct leat_lent *lent, struct leat_batch *b, size_t o,
                struct leat_error *error)
{
    const struct leat_output *output = leat_program_output(b->program, o);
    const uint64_t first = leat_assemble_place(part->batch, part->first);
    const struct leat_view *from = &part->batch->views[o];
    const bool shifted = output->ragged && first;
    int rc = borrow(b, o, lent, shifted ? (b->rows + 1) * sizeof *from->offsets : 0, error);
    if (rc)
        return rc;
    const uint64_t steps = output->ragged ? (uint64_t)from->offsets[first] : first;
    b->views[o] = (struct leat_view){from->data + (first ? steps * output->row_bytes : 0), from->offsets};
    b->buffers[o]->mirror = part->batch->mirrors[o];
    b->buffers[o]->mirror.at += steps * output->row_bytes;
    if (shifted) {
        leat_assemble_offsets(part, 1, o, b->rows, b->buffers[o]->memory);
        b->views[o].offsets = b->buffers[o]->memory;
    }
    return LEAT_OK;
}

static int copy(const struct leat_excerpt *parts, size_t n, struct leat_batch *b, size_t o, struct leat_error *error)
{
    const struct leat_output *output = leat_program_output(b->program, o);
    const uint64_t begin = leat_output_values(output, b->rows);
    if (output->ragged)
        leat_assemble_offsets(parts, n, o, b->rows, b->offsets[o]);
    const uint64_t steps = output->ragged ? (uint64_t)b->offsets[o][b->rows] : b->rows;
    int rc = borrow(b, o, NULL, begin + steps * output->row_bytes, error);
    if (rc)
        return rc;
    void *memory = b->buffers[o]->memory;
    b->views[o] = (struct leat_view){(uint8_t *)memory + begin, output->ragged ? memory : NULL};
    if (output->ragged)
        memcpy(memory, b->offsets[o], (b->rows + 1) * sizeof **b->offsets);
    leat_assemble_values(parts, n, o, b);
    return LEAT_OK;
}

/* Whether all parts have an output. */
static bool have(const struct leat_excerpt *parts, size_t n, size_t o)
{
    while (n && parts[n - 1].batch->views[o].data)
        n--;
    return !n;
}

int leat_cut_out(struct leat_attached *a, const struct leat_plan_batch *plan, const struct leat_excerpt *parts,
                 size_t n, struct leat_lent *lent, struct leat_batch **out, struct leat_error *error)
{
    *out = NULL;
    leat_engine_lock();
    struct leat_batch *b = leat_batch_new(&a->pool, plan, LEAT_HELD, error);
    leat_engine_unlock();
    if (!b)
        return LEAT_E_NOMEM;
    int rc = leat_assemble_notes(parts, n, b) ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for a batch");
    for (size_t o = 0; !rc && o < a->pool.n_outputs; o++) {
        if (leat_program_output(a->program, o)->hidden || !have(parts, n, o))
            continue;
        rc = n == 1 ? view(parts, lent, b, o, error) : copy(parts, n, b, o, error);
        if (!rc)
            b->buffers[o]->data = b->views[o].data;
    }
    if (!rc)
        leat_assemble_rows(parts, n, b);
    leat_engine_lock();
    if (rc)
        leat_batch_recycle(b);
    else
        leat_batch_put_out(b);
    leat_engine_unlock();
    *out = rc ? NULL : b;
    return rc;
}
