/*
 * Selections: the ids of a view in their order, as runs of consecutive ids.
 *
 *     positions   0   1   2 | 3   4 | 5 | 6 ...
 *     ids        10  11  12 | 7   8 | 3 | ...           runs: (10, 0) (7, 3) (3, 5) ...
 *
 * A slice is one run whatever its length. To find the run of a position, a table gives its bucket, and the runs of the
 * bucket, mostly one, are searched. Many runs in ascending order are packed (packed.h). The worst case, a list of
 * scattered positions in another order, costs 20 bytes each.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/permute.h"
#include "base/random.h"
#include "base/search.h"
#include "data/internal.h"

/* At this many runs, ascending ones are packed while they are pushed. */
#define MOST_RUNS 65536
/* A packed set of no more runs than these is kept as runs, which are found faster. */
#define FEW_RUNS 4096

static int push_run(struct leat_selection *s, uint64_t begin, uint64_t count)
{
    if (!leat_grow(&s->runs, &s->room, s->n_runs + 1, sizeof *s->runs))
        return LEAT_E_NOMEM;
    s->runs[s->n_runs++] = (struct leat_run){begin, s->count};
    s->count += count;
    return LEAT_OK;
}

static uint64_t run_end(const struct leat_selection *s, size_t run)
{
    return run + 1 < s->n_runs ? s->runs[run + 1].at : s->count;
}

static bool runs_ascend(const struct leat_selection *s)
{
    bool ascend = true;
    for (size_t i = 1; i < s->n_runs && ascend; i++)
        ascend = s->runs[i].begin >= s->runs[i - 1].begin + (s->runs[i].at - s->runs[i - 1].at);
    return ascend;
}

static void drop_runs(struct leat_selection *s)
{
    leat_free(s->runs);
    leat_free(s->index);
    s->runs = NULL;
    s->index = NULL;
    s->n_runs = s->room = 0;
}

static void drop_packing(struct leat_selection *s)
{
    if (s->packing)
        leat_packed_destroy(&s->packing->packed);
    leat_free(s->packing);
    s->packing = NULL;
}

/* Packs the runs, for more to follow. */
static int pack_runs(struct leat_selection *s)
{
    s->packing = leat_new(struct leat_set_making);
    int rc = s->packing ? LEAT_OK : LEAT_E_NOMEM;
    for (size_t i = 0; i < s->n_runs && !rc; i++)
        rc = leat_set_making_add(s->packing, s->runs[i].begin, run_end(s, i) - s->runs[i].at);
    if (!rc)
        drop_runs(s);
    return rc;
}

/* Makes runs of a packed set. */
static int unpack(struct leat_selection *s, struct leat_packed *packed)
{
    struct leat_packed_cursor cursor = {0};
    uint64_t begin, count;
    int rc = LEAT_OK;
    s->count = 0;
    while (!rc && leat_packed_next(packed, &cursor, &begin, &count))
        rc = push_run(s, begin, count);
    if (!rc)
        leat_packed_destroy(packed);
    return rc;
}

int leat_selection_push(struct leat_selection *s, uint64_t begin, uint64_t count)
{
    int rc = LEAT_OK;
    if (!count)
        return LEAT_OK;
    if (s->packing && begin < s->packing->end) { /* it does not ascend: back to runs */
        struct leat_packed packed;
        if ((rc = leat_set_making_close(s->packing, &packed)))
            return rc;
        drop_packing(s);
        if ((rc = unpack(s, &packed))) {
            leat_packed_destroy(&packed);
            return rc;
        }
        s->ascending = false;
    }
    if (s->packing) {
        s->count += count;
        return leat_set_making_add(s->packing, begin, count);
    }
    if (s->n_runs) {
        const struct leat_run *last = &s->runs[s->n_runs - 1];
        if (last->begin + (s->count - last->at) == begin) {
            s->count += count;
            return LEAT_OK;
        }
    }
    rc = push_run(s, begin, count);
    return !rc && s->n_runs == MOST_RUNS && runs_ascend(s) ? pack_runs(s) : rc;
}

static void make_index(struct leat_selection *s)
{
    if (s->room > s->n_runs && s->n_runs) {
        struct leat_run *runs = leat_realloc_array(s->runs, s->n_runs, sizeof *runs);
        if (runs) {
            s->runs = runs;
            s->room = s->n_runs;
        }
    }
    if (s->n_runs < 4 || s->n_runs >= UINT32_MAX)
        return;
    s->shift = 0;
    while (s->count >> s->shift > s->n_runs)
        s->shift++;
    size_t buckets = (size_t)((s->count - 1) >> s->shift) + 1;
    s->index = leat_new_array(buckets + 1, sizeof *s->index); /* if memory is out, the search covers all runs */
    if (!s->index)
        return;
    size_t run = 0;
    for (size_t b = 0; b < buckets; b++) {
        while (run_end(s, run) <= (uint64_t)b << s->shift)
            run++;
        s->index[b] = (uint32_t)run;
    }
    s->index[buckets] = (uint32_t)(s->n_runs - 1);
}

int leat_selection_seal(struct leat_selection *s)
{
    int rc = LEAT_OK;
    if (!s->packing && !s->is_packed && s->n_runs > FEW_RUNS && runs_ascend(s))
        rc = pack_runs(s);
    if (s->packing && !rc) {
        rc = leat_set_making_close(s->packing, &s->packed);
        s->is_packed = !rc;
    }
    drop_packing(s);
    if (!rc && s->is_packed && s->packed.n_runs <= FEW_RUNS) {
        rc = unpack(s, &s->packed);
        s->is_packed = rc != LEAT_OK;
    }
    if (rc)
        return rc;
    s->ascending = s->is_packed || runs_ascend(s);
    if (!s->is_packed)
        make_index(s);
    return LEAT_OK;
}

void leat_selection_destroy(struct leat_selection *s)
{
    drop_runs(s);
    drop_packing(s);
    leat_packed_destroy(&s->packed);
    memset(s, 0, sizeof *s);
}

/* The run that holds `position`. */
static size_t find_run(const struct leat_selection *s, uint64_t position)
{
    size_t low = 0, high = s->n_runs - 1; /* the answer is in [low, high] */
    if (s->index) {
        low = s->index[position >> s->shift];
        high = s->index[(position >> s->shift) + 1];
    }
    return LEAT_BISECT(i, low + 1, high + 1, s->runs[i].at <= position) - 1;
}

uint64_t leat_selection_at(const struct leat_selection *s, uint64_t position, uint64_t *run)
{
    if (s->is_packed)
        return leat_packed_at(&s->packed, position, run);
    const size_t i = find_run(s, position);
    if (run)
        *run = run_end(s, i) - position;
    return s->runs[i].begin + (position - s->runs[i].at);
}

bool leat_selection_next(const struct leat_selection *s, struct leat_selection_cursor *cursor, uint64_t *begin,
                         uint64_t *count)
{
    if (s->is_packed)
        return leat_packed_next(&s->packed, &cursor->packed, begin, count);
    if (cursor->run >= s->n_runs)
        return false;
    *begin = s->runs[cursor->run].begin;
    *count = run_end(s, cursor->run) - s->runs[cursor->run].at;
    cursor->run++;
    return true;
}

int leat_selection_push_view(struct leat_selection *s, const struct leat_dataset *d, uint64_t begin, uint64_t end,
                             uint64_t offset)
{
    if (!d->selected)
        return leat_selection_push(s, begin + offset, end - begin);
    int rc = LEAT_OK;
    while (begin < end && !rc) {
        uint64_t run, id = leat_selection_at(&d->selection, begin, &run);
        run = run < end - begin ? run : end - begin;
        rc = leat_selection_push(s, id + offset, run);
        begin += run;
    }
    return rc;
}

int64_t leat_dataset_id(const struct leat_dataset *d, uint64_t position)
{
    const uint64_t id = d->selected ? leat_selection_at(&d->selection, position, NULL) : position;
    return (int64_t)(d->joined ? id % d->base->count : id);
}

int leat_dataset_made_view(struct leat_dataset *d, struct leat_selection *s, json_t *step, struct leat_dataset **out,
                           struct leat_error *error)
{
    return leat_dataset_make(leat_base_retain(d->base), s, leat_view_add(d, step), out, error);
}

static int no_memory(struct leat_selection *s, struct leat_error *error)
{
    int rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a view of %zu runs of samples", s->n_runs);
    leat_selection_destroy(s);
    return rc;
}

int leat_dataset_select(struct leat_dataset *d, const int64_t *positions, uint64_t n, struct leat_dataset **out,
                        struct leat_error *error)
{
    struct leat_selection s = {0};
    *out = NULL;
    for (uint64_t i = 0; i < n; i++) {
        if (positions[i] < 0 || (uint64_t)positions[i] >= d->count) {
            leat_selection_destroy(&s);
            return leat_fail(error, LEAT_E_RANGE,
                             "position %" PRId64 " (entry %" PRIu64 ") is not below the %" PRIu64
                             " samples of the data set",
                             positions[i], i, d->count);
        }
        if (leat_selection_push(&s, (uint64_t)leat_dataset_id(d, (uint64_t)positions[i]), 1))
            return no_memory(&s, error);
    }
    return leat_dataset_made_view(d, &s, leat_view_select(positions, n), out, error);
}

int leat_dataset_slice(struct leat_dataset *d, uint64_t begin, uint64_t end, uint64_t step, struct leat_dataset **out,
                       struct leat_error *error)
{
    struct leat_selection s = {0};
    *out = NULL;
    if (begin > end || end > d->count)
        return leat_fail(error, LEAT_E_RANGE,
                         "positions %" PRIu64 " to %" PRIu64 " are not within the %" PRIu64 " samples of the data set",
                         begin, end, d->count);
    if (step == 0)
        return leat_fail(error, LEAT_E_RANGE, "a step of 0 selects nothing");
    int rc = LEAT_OK;
    if (step == 1)
        rc = leat_selection_push_view(&s, d, begin, end, 0);
    for (uint64_t i = begin; step > 1 && i < end && !rc; i = end - i > step ? i + step : end)
        rc = leat_selection_push(&s, (uint64_t)leat_dataset_id(d, i), 1);
    return rc ? no_memory(&s, error)
              : leat_dataset_made_view(
                    d, &s, json_pack("[s, I, I, I]", "slice", (json_int_t)begin, (json_int_t)end, (json_int_t)step),
                    out, error);
}

/* borders[k] is the first permuted position that does not belong to parts 0 to k. */
static int split_borders(uint64_t count, const double *fractions, size_t n, uint64_t *borders, struct leat_error *error)
{
    double sum = 0;
    for (size_t k = 0; k < n; k++) {
        if (!(fractions[k] >= 0 && fractions[k] <= 1))
            return leat_fail(error, LEAT_E_RANGE, "fraction %zu is %g; fractions lie between 0 and 1", k, fractions[k]);
        sum += fractions[k];
        if (sum > 1 + 1e-9)
            return leat_fail(error, LEAT_E_RANGE, "the fractions sum to more than 1 (%g with number %zu)", sum, k);
        double border = floor(sum * (double)count + 0.5);
        borders[k] = sum > 1 - 1e-9 || border >= (double)count ? count : (uint64_t)border;
    }
    return LEAT_OK;
}

int leat_dataset_split(struct leat_dataset *d, const double *fractions, size_t n, uint64_t seed,
                       struct leat_dataset **outs, struct leat_error *error)
{
    int rc = LEAT_OK;
    uint64_t *borders = leat_new_array(n, sizeof *borders);
    struct leat_selection *parts = leat_new_array(n, sizeof *parts);
    for (size_t k = 0; k < n; k++)
        outs[k] = NULL;
    if (!borders || !parts) {
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to split a data set in %zu parts", n);
        goto out;
    }
    if ((rc = split_borders(d->count, fractions, n, borders, error)))
        goto out;
    /* No epoch has this key, so a split differs from any shuffle with the same seed. */
    struct leat_permutation p =
        leat_permutation_init(d->count ? d->count : 1, leat_key_mix(seed, UINT64_C(0x73706c6974)));
    for (uint64_t i = 0; i < d->count && !rc; i++) {
        uint64_t place = leat_permute(&p, i);
        size_t k = 0;
        while (k < n && place >= borders[k])
            k++;
        if (k < n)
            rc = leat_selection_push(&parts[k], (uint64_t)leat_dataset_id(d, i), 1);
    }
    if (rc)
        leat_fail(error, rc, "no memory to split %" PRIu64 " samples", d->count);
    for (size_t k = 0; k < n && !rc; k++)
        rc = leat_dataset_made_view(d, &parts[k], leat_view_split(fractions, n, seed, k), &outs[k], error);
out:
    for (size_t k = 0; k < n; k++) {
        if (parts)
            leat_selection_destroy(&parts[k]);
        if (rc) {
            leat_dataset_release(outs[k]);
            outs[k] = NULL;
        }
    }
    leat_free(borders);
    leat_free(parts);
    return rc;
}

int leat_dataset_ids(const struct leat_dataset *d, uint64_t position, uint64_t n, int64_t *ids,
                     struct leat_error *error)
{
    if (position > d->count || n > d->count - position)
        return leat_fail(error, LEAT_E_RANGE,
                         "%" PRIu64 " positions from %" PRIu64 " on are not within the %" PRIu64
                         " samples of the data set",
                         n, position, d->count);
    if (!d->selected) {
        for (uint64_t i = 0; i < n; i++)
            ids[i] = (int64_t)(position + i);
        return LEAT_OK;
    }
    for (uint64_t i = 0, run; i < n; i += run) {
        const uint64_t id = leat_selection_at(&d->selection, position + i, &run);
        run = run < n - i ? run : n - i;
        for (uint64_t k = 0; k < run; k++)
            ids[i + k] = (int64_t)(id + k);
    }
    return LEAT_OK;
}
