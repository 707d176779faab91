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

/* The keeper of the values of one output. */
struct keeper {
    struct leat_lent *lent; /* NULL: they are copies, in */
    struct leat_spare own;  /* ... this; for views: their offsets, if these are not the port's */
};

/* ---- errors ---------------------------------------------------------------------------------- */

static int wrong(struct leat_error *error)
{
    return leat_fail(error, LEAT_E_FORMAT, "what the port says of a batch is not right");
}

static int no_memory(struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "no memory for a batch");
}

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

/* Memory for a copy: that used before if it is not much too large, else new, which the ledger counts. NOMEM; HELD: this
 * process may use no more. */
static int take_memory(struct leat_attached *a, uint64_t bytes, struct leat_spare *out, struct leat_error *error)
{
    int rc = LEAT_OK;
    *out = (struct leat_spare){0};
    bytes = leat_align64(bytes ? bytes : 1);
    leat_engine_lock();
    for (unsigned i = 0; bytes >= LEAST_SPARE && !out->memory && i < LEAT_MOST_SPARES; i++)
        if (a->spares[i].bytes >= bytes && a->spares[i].bytes / 2 <= bytes) {
            *out = a->spares[i];
            a->spares[i] = (struct leat_spare){0};
        }
    if (!out->memory) {
        if (leat_budget_ask(&a->budget, LEAT_HELD, bytes) != LEAT_YES) {
            leat_cut_free_spares(a);
            leat_loader_evict_others(NULL, bytes);
        }
        if (leat_budget_ask(&a->budget, LEAT_HELD, bytes) != LEAT_YES)
            rc = leat_budget_refuse(&a->budget, LEAT_HELD, bytes, error);
        else if (!(out->memory = aligned_alloc(64, bytes)))
            rc = no_memory(error);
        else
            leat_budget_take(&a->budget, LEAT_HELD, out->bytes = bytes);
    }
    leat_engine_unlock();
    return rc;
}

void leat_cut_let_go(struct leat_buffer *buffer)
{
    struct keeper *k = buffer->lender;
    if (k->lent)
        leat_lent_unref(k->lent);
    give_memory(leat_attached_of_pool(buffer->pool), k->own, true);
    leat_free(k);
}

/* Delivered rows [first, first + n) of a lent batch. */
struct run {
    struct leat_lent *lent;
    uint64_t first, n;
};

static struct run run_of(const struct leat_lent_rows *part)
{
    const struct leat_published *said = &part->lent->said;
    const uint64_t first = leat_published_row(said, part->first), end = leat_published_row(said, part->first + part->n);
    return (struct run){part->lent, first, end - first};
}

/* The values of an output in a lent batch; for a ragged one its offsets too. NULL: they do not lie in the memory. */
static uint8_t *values_of(const struct run *run, const struct leat_output *output, size_t o, const int64_t **offsets)
{
    const struct leat_session *s = run->lent->session;
    const struct leat_published *said = &run->lent->said;
    const uint64_t begin = said->outputs[o], skip = leat_output_values(output, said->head.rows);
    uint64_t bytes, end;
    *offsets = NULL;
    if (begin % 64 || !leat_add_u64(begin, skip, &end) || end > s->memory_bytes)
        return NULL;
    if (!output->ragged)
        return leat_mul_u64(run->first + run->n, output->row_bytes, &bytes) && bytes <= s->memory_bytes - end
                   ? s->memory + end
                   : NULL;
    *offsets = (const int64_t *)(const void *)(s->memory + begin);
    const int64_t *from = *offsets + run->first, first = from[0], last = from[run->n];
    bool ascending = first >= 0;
    for (uint64_t i = 0; i < run->n; i++)
        ascending &= from[i] <= from[i + 1];
    return ascending && leat_mul_u64((uint64_t)last, output->row_bytes, &bytes) && bytes <= s->memory_bytes - end
               ? s->memory + end
               : NULL;
}

/* The start of the rows of one run among values that begin at `base`. */
static void put_offsets(const int64_t *from, uint64_t n, int64_t base, int64_t *to)
{
    for (uint64_t i = 0; i <= n; i++)
        to[i] = base + from[i] - from[0];
}

static int view(struct leat_attached *a, const struct run *run, const struct leat_output *output, size_t o,
                struct keeper *keeper, struct leat_view *out, struct leat_error *error)
{
    const int64_t *offsets;
    uint8_t *values = values_of(run, output, o, &offsets);
    if (!values)
        return wrong(error);
    keeper->lent = run->lent;
    if (!output->ragged) {
        out->data = values + run->first * output->row_bytes;
        return LEAT_OK;
    }
    out->offsets = offsets;
    out->data = values;
    if (!run->first)
        return LEAT_OK;
    int rc = take_memory(a, (run->n + 1) * sizeof *offsets, &keeper->own, error);
    if (rc)
        return rc;
    int64_t *own = keeper->own.memory;
    put_offsets(offsets + run->first, run->n, 0, own);
    out->offsets = own;
    out->data = values + (uint64_t)offsets[run->first] * output->row_bytes;
    return LEAT_OK;
}

static int copy(struct leat_attached *a, const struct run *runs, size_t n, size_t o, struct keeper *keeper,
                struct leat_view *out, struct leat_error *error)
{
    const struct leat_output *output = leat_program_output(a->program, o);
    const int64_t *offsets;
    uint64_t rows = 0, steps = 0, bytes;
    for (size_t i = 0; i < n; i++) {
        if (!values_of(&runs[i], output, o, &offsets))
            return wrong(error);
        rows += runs[i].n;
        steps += output->ragged ? (uint64_t)(offsets[runs[i].first + runs[i].n] - offsets[runs[i].first]) : runs[i].n;
    }
    const uint64_t skip = leat_output_values(output, rows);
    if (!leat_mul_u64(steps, output->row_bytes, &bytes) || !leat_add_u64(bytes, skip, &bytes) || bytes > INT64_MAX)
        return no_memory(error);
    int rc = take_memory(a, bytes, &keeper->own, error);
    if (rc)
        return rc;
    int64_t *to_offsets = keeper->own.memory;
    uint8_t *to = (uint8_t *)keeper->own.memory + skip;
    out->data = to;
    out->offsets = output->ragged ? to_offsets : NULL;
    int64_t step = 0;
    if (output->ragged)
        *to_offsets = 0; /* also if no row is left */
    for (size_t i = 0; i < n; i++) {
        const struct run *run = &runs[i];
        const uint8_t *values = values_of(run, output, o, &offsets);
        const uint64_t begin = output->ragged ? (uint64_t)offsets[run->first] : run->first;
        const uint64_t count = output->ragged ? (uint64_t)offsets[run->first + run->n] - begin : run->n;
        memcpy(to, values + begin * output->row_bytes, count * output->row_bytes);
        to += count * output->row_bytes;
        if (output->ragged)
            put_offsets(offsets + run->first, run->n, step, to_offsets);
        to_offsets += output->ragged ? run->n : 0;
        step += (int64_t)count;
    }
    return LEAT_OK;
}

/* ---- facts of the rows ----------------------------------------------------------------------- */

static void copy_rows(const struct run *runs, size_t n, struct leat_batch *b)
{
    b->rows = 0;
    for (size_t i = 0; i < n; i++) {
        const struct leat_published *said = &runs[i].lent->said;
        memcpy(b->ids + b->rows, said->ids + runs[i].first, runs[i].n * sizeof *b->ids);
        memcpy(b->keys + b->rows, said->keys + runs[i].first, runs[i].n * sizeof *b->keys);
        memcpy(b->domains + b->rows, said->domains + runs[i].first, runs[i].n * sizeof *b->domains);
        for (uint64_t k = 0; k < runs[i].n; k++)
            b->valid[b->rows + k] = said->valid[runs[i].first + k] != 0;
        b->rows += runs[i].n;
    }
}

static bool copy_errors(const struct leat_lent_rows *parts, size_t n, struct leat_batch *b)
{
    uint64_t begin = 0;
    for (size_t i = 0; i < n; begin += parts[i++].n) {
        const struct leat_published *said = &parts[i].lent->said;
        for (uint32_t k = 0; k < said->head.n_errors; k++) {
            const struct leat_published_error *e = &said->errors[k];
            if (e->row < parts[i].first || e->row - parts[i].first >= parts[i].n)
                continue;
            struct leat_broken_row row = {.row = begin + e->row - parts[i].first,
                                          .planned = e->planned,
                                          .delivered = e->delivered,
                                          .code = e->code,
                                          .reason = leat_strdup(said->texts + e->text)};
            if (!row.reason || !leat_grow(&b->faults.broken, &b->faults.broken_room, b->faults.n_broken + 1,
                                          sizeof *b->faults.broken)) {
                leat_free(row.reason);
                return false;
            }
            b->faults.broken[b->faults.n_broken++] = row;
        }
    }
    return true;
}

/* ---- the batch ------------------------------------------------------------------------------- */

/* The values of all outputs. Batches made so far are the caller's, also with an error. */
static int make_outputs(struct leat_attached *a, const struct run *runs, size_t n, struct keeper **keepers,
                        struct leat_batch *b, struct leat_error *error)
{
    for (size_t o = 0; o < a->pool.n_outputs; o++) {
        const struct leat_output *output = leat_program_output(a->program, o);
        const bool there = runs->lent->said.outputs[o] != UINT64_MAX;
        if (output->hidden || !there)
            continue;
        keepers[o] = leat_new(struct keeper);
        if (!keepers[o])
            return no_memory(error);
        b->views[o] = (struct leat_view){0};
        int rc = n == 1 ? view(a, runs, output, o, keepers[o], &b->views[o], error)
                        : copy(a, runs, n, o, keepers[o], &b->views[o], error);
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

/* Under the engine's lock: each output is a buffer that its keeper keeps. */
static int hand_over(struct leat_attached *a, struct keeper **keepers, struct leat_batch *b, struct leat_error *error)
{
    for (size_t o = 0; o < a->pool.n_outputs; o++)
        if (keepers[o] && !(b->buffers[o] = leat_batch_pool_borrow(&a->pool, o, keepers[o]))) {
            for (size_t k = 0; k < o; k++)
                if (b->buffers[k]) {
                    leat_free(b->buffers[k]); /* its keeper is freed with the others */
                    b->buffers[k] = NULL;
                }
            return no_memory(error);
        }
    for (size_t o = 0; o < a->pool.n_outputs; o++) {
        if (!keepers[o])
            continue;
        if (keepers[o]->lent)
            keepers[o]->lent->references++;
        b->buffers[o]->data = b->views[o].data;
        keepers[o] = NULL;
    }
    leat_batch_put_out(b);
    return LEAT_OK;
}

int leat_cut_out(struct leat_attached *a, const struct leat_plan_batch *plan, const struct leat_lent_rows *parts,
                 size_t n, struct leat_batch **out, struct leat_error *error)
{
    *out = NULL;
    struct keeper **keepers = leat_new_array(a->pool.n_outputs + 1, sizeof(struct keeper *));
    struct run *runs = leat_new_array(n, sizeof *runs);
    struct leat_batch *b = NULL;
    int rc = keepers && runs ? LEAT_OK : no_memory(error);
    for (size_t i = 0; !rc && i < n; i++)
        runs[i] = run_of(&parts[i]);
    leat_engine_lock();
    if (!rc && !(b = leat_batch_new(&a->pool, plan, LEAT_HELD, error)))
        rc = LEAT_E_NOMEM;
    leat_engine_unlock();
    if (!rc) {
        copy_rows(runs, n, b);
        rc = copy_errors(parts, n, b) ? make_outputs(a, runs, n, keepers, b, error) : no_memory(error);
    }
    leat_engine_lock();
    rc = rc ? rc : hand_over(a, keepers, b, error);
    if (rc && b)
        leat_batch_recycle(b);
    for (size_t o = 0; rc && keepers && o < a->pool.n_outputs; o++)
        if (keepers[o]) {
            give_memory(a, keepers[o]->own, true);
            leat_free(keepers[o]);
        }
    leat_engine_unlock();
    leat_free(keepers);
    leat_free(runs);
    *out = rc ? NULL : b;
    return rc;
}
