/*
 * A source in Python takes a call for each `read`, a source of chunks decodes one for each call that needs it: a batch
 * of a few rows that lie anywhere should not pay for that alone. So the task that sizes a batch has the values of those
 * behind it computed in the same call, as long as these are in the window and nobody works on them:
 *
 *     window   | b b b b | c c c c | d d d d |   the task of b: one call for the samples of b, c and d
 *                          SIZING    SIZING      then c and d are sized by tasks of their own, and find their values
 *
 * The first call is for one batch, and each further one for up to four times as many rows, so that the first batch does
 * not wait for the others. Rows are no more than what a sixteenth of the budget holds, if all are as large as the
 * largest so far, and a tenth of a second makes. Values lie with their batches (`computed`), are counted once these are
 * sized, and go with them. After a call that failed, batches ask for themselves for a while.
 */
#include "engine/ahead.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/locate.h"
#include "engine/run.h"
#include "engine/task.h"

#define LARGE_BATCH 65536       /* one of more rows is not asked for ahead */
#define GROWTH 4                /* rows of the next call, for each of this one */
#define FIRST_ROWS UINT64_C(16) /* rows of a call while the size of the values is not known */
#define BUDGET_PART 16 /* values of a call take this part of the loader's budget, as large as the largest so far */
#define CALL_NS 1e8    /* rows of a call take so long, beside what each call takes */
#define ALONE 8        /* batches that ask for themselves after a call that has failed */

struct leat_ahead {
    size_t n;                       /* batches behind the task's own */
    bool failed;                    /* a call failed */
    uint64_t most, limit;           /* rows of a call; bytes of all values */
    uint64_t all, bytes, row_bytes; /* rows that were computed; their bytes; of the largest */
    int64_t ns;                     /* of the last call, */
    uint64_t rows;                  /* ... for so many */
    struct leat_batch *batches[LEAT_MAX_WINDOW];
};

/* The samples of a call: refs[i] is row rows[i] of batches[i]. */
struct asked {
    size_t n;
    struct leat_sample_ref *refs;
    struct leat_batch **batches;
    uint64_t *rows;
    bool *done;
};

bool leat_ahead_is_wanted(struct leat_loader *l)
{
    /* Rows that are kept are copied. */
    const struct leat_job_context *c = &l->job;
    if (l->asks_many < LEAT_ASKED_OF_CHUNKS && c->n_made > c->n_filled && !c->packing && !c->follows && !c->given)
        l->asks_many = leat_dataset_asks_many(l->dataset);
    return l->asks_many && !l->kept;
}

/* ---- which batches --------------------------------------------------------------------------- */

/* The bytes of a row's computed values, as far as fields or the samples that opening has looked at say them; 0: they do
 * not. */
static uint64_t known_bytes(const struct leat_loader *l)
{
    const struct leat_job_context *c = &l->job;
    uint64_t sum = 1;
    bool varies = false;
    for (size_t f = 0; f < c->n_feeds; f++) {
        const struct leat_feed *feed = &c->feeds[f];
        if (feed->computed && !feed->fixed && !feed->ragged)
            return 0;
        varies |= feed->computed && !feed->fixed;
        sum += feed->computed && feed->fixed ? feed->value_bytes : 0;
    }
    return varies ? sum + l->bounds.ragged_row : sum;
}

/* The rows of a call whose values would not be too large. */
static uint64_t most_rows(uint64_t limit, uint64_t row_bytes, size_t asks)
{
    const uint64_t most = row_bytes ? limit / row_bytes : FIRST_ROWS;
    return !most ? 1 : most < asks ? most : asks;
}

static bool is_free(const struct leat_batch *b)
{
    return b->state == LEAT_BATCH_SIZING && !b->taken && !b->computed.values;
}

/* Batch i of the window, which is planned now if it may be. NULL: there is none. */
static struct leat_batch *batch_at(struct leat_loader *l, size_t i)
{
    if (i < l->window.n)
        return leat_window_at(&l->window, i);
    if (l->window.full || l->tasks.starved)
        return NULL;
    const int rc = l->delivery->plan(l, NULL);
    l->window.full = rc && rc != LEAT_E_END;
    return rc || i >= l->window.n ? NULL : leat_window_at(&l->window, i);
}

void leat_ahead_take(struct leat_task *t)
{
    struct leat_loader *l = t->loader;
    struct leat_batch *b;
    uint64_t rows = t->batch->plan.rows;
    size_t i = 0;
    if (l->tasks.ask_alone) {
        l->tasks.ask_alone--;
        return;
    }
    if (rows > LARGE_BATCH || t->batch->computed.values || !leat_batch_expect_made(t->batch, l->job.n_made) ||
        !(t->ahead = leat_new(struct leat_ahead)))
        return;
    while (i < l->window.n && leat_window_at(&l->window, i) != t->batch)
        i++;
    t->ahead->limit = l->budget.limit / BUDGET_PART;
    t->ahead->row_bytes = l->tasks.made_row_bytes ? l->tasks.made_row_bytes : known_bytes(l);
    t->ahead->most = most_rows(t->ahead->limit, t->ahead->row_bytes, l->asks_many);
    const double in_time = l->tasks.made_row_ns > 0 ? CALL_NS / l->tasks.made_row_ns : 1e9;
    uint64_t most = t->ahead->most < l->tasks.most_asked ? t->ahead->most : l->tasks.most_asked;
    most = in_time < (double)most ? (uint64_t)in_time : most;
    while (i < l->window.n && (b = batch_at(l, ++i)) && is_free(b) && rows + b->plan.rows <= most &&
           leat_batch_expect_made(b, l->job.n_made)) {
        rows += b->plan.rows;
        b->taken = 1;
        b->tasks++;
        t->ahead->batches[t->ahead->n++] = b;
    }
}

/* ---- their samples --------------------------------------------------------------------------- */

/* A batch that cannot be planned any more says so when it is sized. */
static void add_batch(struct leat_task *t, struct leat_batch *b, struct asked *to)
{
    struct leat_job *j = &t->job;
    const size_t before = to->n;
    uint64_t failed;
    leat_task_aim(t, b);
    leat_job_begin(j, 0, b->plan.rows);
    for (; j->cursor < j->n; j->cursor += j->chunk.count) {
        if (leat_job_plan(j, j->cursor, j->n - j->cursor, &failed)) {
            to->n = before;
            return;
        }
        for (size_t i = 0; i < j->chunk.count; i++, to->n++) {
            to->refs[to->n] = j->chunk.refs[i];
            to->batches[to->n] = b;
            to->rows[to->n] = j->cursor + i;
        }
    }
}

static bool has_room(struct asked *a, uint64_t n)
{
    a->refs = leat_new_array(n, sizeof *a->refs);
    a->batches = leat_new_array(n, sizeof *a->batches);
    a->rows = leat_new_array(n, sizeof *a->rows);
    a->done = leat_new_array(n, sizeof *a->done);
    return a->refs && a->batches && a->rows && a->done;
}

static void free_asked(struct asked *a)
{
    leat_free(a->refs);
    leat_free(a->batches);
    leat_free(a->rows);
    leat_free(a->done);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Whether the source of a sample computes its values of a feed, and has to be asked for them. */
static bool is_computed(const struct leat_feed *feed, const struct leat_sample_ref *ref)
{
    return feed->computed && !feed->filled && leat_ref_storage(ref, feed->field) == LEAT_STORAGE_COMPUTED;
}

/* Computes the values of n samples of one source, which belong to their batches then. */
static int compute(struct leat_task *t, const struct asked *a, size_t n, struct leat_error *error)
{
    struct leat_job *j = &t->job;
    const struct leat_job_context *c = j->context;
    struct leat_values values;
    size_t k = 0, m = 0, failed;
    for (size_t f = 0; f < c->n_feeds; f++)
        if (is_computed(&c->feeds[f], a->refs))
            j->chunk.fields[k++] = c->feeds[f].field;
    if (!k)
        return LEAT_OK;
    if (leat_values_init(&values, k, n))
        return LEAT_E_NOMEM;
    values.cancelled = &t->batch->cancelled;
    const int64_t begun = leat_clock_ns();
    int rc = leat_dataset_compute(c->dataset, j->chunk.fields, k, a->refs, n, &values, &failed, error);
    t->ahead->ns = rc ? t->ahead->ns : leat_clock_ns() - begun;
    t->ahead->rows = rc ? t->ahead->rows : n;
    t->ahead->all += rc ? 0 : n;
    for (size_t i = 0; i < n && !rc; i++) {
        uint64_t bytes = 1;
        for (size_t f = 0; f < k; f++)
            bytes += values.at[f * n + i].bytes;
        t->ahead->row_bytes = bytes > t->ahead->row_bytes ? bytes : t->ahead->row_bytes;
        t->ahead->bytes += bytes;
    }
    for (size_t f = 0; f < c->n_feeds && !rc; f++) {
        if (!is_computed(&c->feeds[f], a->refs))
            continue;
        for (size_t i = 0; i < n && !rc; i++) {
            const struct leat_computed *v = &values.at[m * n + i];
            rc = leat_values_put(a->batches[i]->computed.values, c->feeds[f].made, a->rows[i], v->data, v->bytes);
        }
        m++;
    }
    leat_values_destroy(&values);
    return rc;
}

static struct asked part_of(const struct asked *a, size_t first)
{
    return (struct asked){a->n - first, a->refs + first, a->batches + first, a->rows + first, a->done + first};
}

/* Samples are asked for by source, in the order of the plan, until their values are too large: what is left, batches
 * ask for themselves. */
static int compute_all(struct leat_task *t, const struct asked *all, struct asked *some, struct leat_error *error)
{
    int rc = LEAT_OK;
    for (size_t first = 0; first < all->n && rc != LEAT_E_CANCELLED; first++) {
        if (all->done[first])
            continue;
        some->n = 0;
        for (size_t i = first; i < all->n; i++)
            if (all->refs[i].source == all->refs[first].source) {
                some->refs[some->n] = all->refs[i];
                some->batches[some->n] = all->batches[i];
                some->rows[some->n++] = all->rows[i];
                all->done[i] = true;
            }
        const size_t asks = leat_source_asks_many(all->refs[first].source);
        size_t most = asks < t->ahead->most ? asks : (size_t)t->ahead->most;
        for (size_t i = 0, n; most && i < some->n && !t->ahead->failed && t->ahead->bytes < t->ahead->limit; i += n) {
            const struct asked part = part_of(some, i);
            n = part.n < most ? part.n : most;
            rc = compute(t, &part, n, error);
            t->ahead->failed |= rc != LEAT_OK;
            most = (size_t)most_rows(t->ahead->limit, t->ahead->row_bytes, asks);
        }
    }
    return rc == LEAT_E_CANCELLED ? rc : LEAT_OK;
}

/* The batches behind the task's own are anybody's again, and what calls are to be like is learned. */
static void let_go(struct leat_task *t)
{
    struct leat_loader *l = t->loader;
    struct leat_ahead *a = t->ahead;
    leat_engine_lock();
    for (size_t i = 0; i < a->n; i++) {
        a->batches[i]->taken = 0;
        leat_batch_skip_gone(a->batches[i]);
        leat_batch_let_go(l, a->batches[i]);
    }
    if (a->failed) {
        l->tasks.most_asked = 0;
        l->tasks.ask_alone = ALONE;
    }
    l->tasks.made_row_bytes = a->row_bytes > l->tasks.made_row_bytes ? a->row_bytes : l->tasks.made_row_bytes;
    if (a->rows) {
        struct leat_tasks *tasks = &l->tasks;
        tasks->call_ns = !tasks->call_ns || a->ns < tasks->call_ns ? a->ns : tasks->call_ns;
        tasks->made_row_ns = (double)(a->ns - tasks->call_ns) / (double)a->rows;
        tasks->most_asked = GROWTH * a->all > tasks->most_asked ? GROWTH * a->all : tasks->most_asked;
    }
    l->due |= LEAT_DUE_WORK | LEAT_DUE_WAKE;
    leat_loader_settle(l);
    leat_engine_unlock();
    leat_free(a);
    t->ahead = NULL;
}

int leat_ahead_compute(struct leat_task *t, struct leat_error *error)
{
    struct asked all = {0}, some = {0};
    uint64_t rows = t->batch->plan.rows;
    int rc = LEAT_OK;
    for (size_t i = 0; i < t->ahead->n; i++)
        rows += t->ahead->batches[i]->plan.rows;
    if (has_room(&all, rows) && has_room(&some, rows)) { /* else each batch asks itself */
        add_batch(t, t->batch, &all);
        for (size_t i = 0; i < t->ahead->n; i++)
            add_batch(t, t->ahead->batches[i], &all);
        rc = compute_all(t, &all, &some, error);
    }
    free_asked(&all);
    free_asked(&some);
    let_go(t);
    leat_task_aim(t, t->batch);
    leat_job_begin(&t->job, 0, 1);
    return rc;
}
