/*
 * Rows that were made before the batch size changed. The order of the samples is the same, and a row's bytes follow
 * from its number in the epoch, so that batches with the new borders are copied together from those with the old ones:
 *
 *     kept     | a a a a | b b b b | c c . . |             . : not made; d and the batches behind it were given up
 *                |         |         |
 *     window   | a a a a b b | b b c c . . | . . .         rows from the first that nobody has kept are made
 *
 * A task whose rows are kept copies them, and so saves the work of making them. Kept rows count as in flight, and are
 * the first to go if memory is short; then its rows are made again, as after any other change.
 */
#include "engine/kept.h"
#include "engine/follow.h"

#include <string.h>

#include "engine/loader.h"
#include "engine/task.h"

#define LENDERS 4 /* batches that give up their pages for one that would have to wait for new ones */
#define COPY_BYTES (UINT64_C(4) << 20) /* of a task: several threads copy one batch */

/* ---- kept rows ------------------------------------------------------------------------------- */

/* Whether a row's bytes follow from its number alone, not from its batch, and rows lie apart from each other. */
static bool can_keep(const struct leat_loader *l)
{
    return !l->pool.numbered && !l->ragged && !l->pool.late && !l->pool.bounded && !l->pool.n_segments &&
           !leat_program_varies(l->program) && !leat_program_has_batch_stage(l->program) && !l->job.follows;
}

/* The rows of a batch, from its first one on, that have a number of their own: padding has none. */
static uint64_t real_rows(const struct leat_plan_batch *plan, uint64_t rows)
{
    const uint64_t end = plan->at.row + plan->global_rows;
    return end <= plan->begin ? 0 : end - plan->begin < rows ? end - plan->begin : rows;
}

static uint64_t kept_end(const struct leat_batch *b)
{
    return b->plan.begin + b->taken;
}

static void drop(struct leat_loader *l, struct leat_batch **at)
{
    struct leat_batch *b = *at;
    *at = b->next;
    b->next = NULL;
    leat_batch_cancel(b);
    l->due |= LEAT_DUE_WORK | LEAT_DUE_WAKE; /* there is memory again */
}

void leat_kept_drop_all(struct leat_loader *l)
{
    while (l->kept)
        drop(l, &l->kept);
}

bool leat_kept_evict(struct leat_loader *l)
{
    struct leat_batch **last = &l->kept;
    if (!*last)
        return false;
    while ((*last)->next)
        last = &(*last)->next;
    drop(l, last);
    return true;
}

void leat_kept_add(struct leat_loader *l, size_t from)
{
    struct leat_window *w = &l->window;
    if (from >= w->n || !can_keep(l))
        return;
    l->delivery->rewind(l, leat_window_at(w, from));
    w->full = false;
    while (w->n > from) { /* before rows kept since an earlier change, which lie behind the window */
        struct leat_batch *b = leat_window_at(w, --w->n);
        b->next = l->kept;
        l->kept = b;
    }
}

void leat_kept_settle(struct leat_loader *l)
{
    for (struct leat_batch **at = &l->kept; *at;) {
        struct leat_batch *b = *at;
        const bool whole = b->state == LEAT_BATCH_KEPT; /* since an earlier change */
        b->taken = whole ? b->taken : real_rows(&b->plan, b->taken);
        if (!whole && (b->tasks || b->faults.n_broken || !b->taken ||
                       atomic_load_explicit(&b->done, memory_order_relaxed) < b->taken ||
                       atomic_load_explicit(&b->faults.failed_row, memory_order_relaxed) != UINT64_MAX)) {
            drop(l, at);
            continue;
        }
        b->state = LEAT_BATCH_KEPT;
        leat_follow_drop(b);
        at = &b->next;
    }
    leat_task_wake_cancelled(l);
}

void leat_kept_lend_pages(struct leat_loader *l, const struct leat_batch *b)
{
    uint64_t most = 0;
    for (size_t o = 0; l->kept && o < l->pool.n_outputs; o++) {
        const uint64_t bytes = leat_output_bytes(leat_program_output(b->program, o), b->plan.rows, 0);
        most = bytes > most ? bytes : most;
    }
    for (unsigned n = 0;
         n < LENDERS && l->kept && most >= LEAT_REGION_LARGE && !leat_region_is_warm(&l->pool.region, most); n++) {
        const struct leat_batch *last = l->kept;
        while (last->next)
            last = last->next;
        if (last->plan.epoch == b->plan.epoch && last->plan.begin < b->plan.begin + b->plan.rows)
            return;
        leat_kept_evict(l);
    }
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* As leat_kept_find. */
static struct leat_batch *find(const struct leat_loader *l, const struct leat_batch *b, uint64_t *n)
{
    const uint64_t at = b->plan.begin + b->taken, most = real_rows(&b->plan, b->plan.rows);
    for (struct leat_batch *k = b->apart.listed ? NULL : l->kept; k && b->taken < most; k = k->next) {
        if (k->plan.epoch != b->plan.epoch || kept_end(k) <= at)
            continue;
        if (k->plan.begin > at) {
            *n = k->plan.begin - at < *n ? k->plan.begin - at : *n;
            return NULL;
        }
        const uint64_t each = b->bytes / b->plan.rows + 1, several = COPY_BYTES / each + 1;
        const uint64_t left = kept_end(k) - at < most - b->taken ? kept_end(k) - at : most - b->taken;
        *n = left < several ? left : several;
        return k;
    }
    return NULL;
}

struct leat_batch *leat_kept_find(struct leat_loader *l, const struct leat_batch *b, uint64_t *n)
{
    if (b->account == LEAT_IN_FLIGHT) /* tasks go through the window in order: the part before is used up */
        while (l->kept && !l->kept->tasks &&
               !leat_position_precedes((struct leat_position){b->plan.epoch, b->plan.begin + b->taken},
                                       (struct leat_position){l->kept->plan.epoch, kept_end(l->kept)}))
            drop(l, &l->kept);
    struct leat_batch *k = find(l, b, n);
    if (k)
        k->tasks++;
    return k;
}

bool leat_kept_can_wait(const struct leat_loader *l, const struct leat_batch *b)
{
    const struct leat_batch *first = l->window.n ? leat_window_at(&l->window, 0) : b;
    uint64_t n = 1;
    return l->callers.waiting && b != first && b->account == LEAT_IN_FLIGHT && b->state == LEAT_BATCH_FILLING &&
           !leat_batch_is_done(first) && find(l, b, &n);
}

void leat_kept_copy(const struct leat_batch *from, struct leat_batch *to, uint64_t first, uint64_t n)
{
    const uint64_t begin = to->plan.begin + first - from->plan.begin;
    for (size_t o = 0; o < to->pool->n_outputs; o++) {
        const uint64_t each = leat_program_output(to->program, o)->row_bytes;
        if (to->buffers[o])
            memcpy(to->buffers[o]->data + first * each, from->buffers[o]->data + begin * each, n * each);
    }
    memcpy(to->ids + first, from->ids + begin, n * sizeof *to->ids);
    memcpy(to->keys + first, from->keys + begin, n * sizeof *to->keys);
    memcpy(to->domains + first, from->domains + begin, n * sizeof *to->domains);
    memcpy(to->valid + first, from->valid + begin, n * sizeof *to->valid);
}

void leat_kept_let_go(struct leat_loader *l, struct leat_batch *k)
{
    k->tasks--;
    if (k->tasks || !atomic_load_explicit(&k->cancelled, memory_order_relaxed))
        return;
    leat_batch_recycle(k);
    l->due |= LEAT_DUE_WORK | LEAT_DUE_WAKE;
}
