/*
 * Selections: which ids a view has, in which order, as runs of consecutive ids.
 *
 *     positions   0   1   2 | 3   4 | 5 | 6 ...
 *     ids        10  11  12 | 7   8 | 3 | ...           runs: (10, 0) (7, 3) (3, 5) ...
 *
 * A slice is one run whatever its length. The worst case, a list of scattered positions, costs 20 bytes each. To find
 * the run of a position, its bucket is looked up in a table, and the runs of the bucket, mostly one, are searched.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/permute.h"
#include "base/random.h"
#include "data/internal.h"

int leat_selection_push(struct leat_selection *s, uint64_t begin, uint64_t count)
{
    if (!count)
        return LEAT_OK;
    if (s->n_runs) {
        const struct leat_run *last = &s->runs[s->n_runs - 1];
        if (last->begin + (s->count - last->at) == begin) {
            s->count += count;
            return LEAT_OK;
        }
    }
    if (!leat_grow(&s->runs, &s->room, s->n_runs + 1, sizeof *s->runs))
        return LEAT_E_NOMEM;
    s->runs[s->n_runs++] = (struct leat_run){begin, s->count};
    s->count += count;
    return LEAT_OK;
}

void leat_selection_seal(struct leat_selection *s)
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
        while (leat_selection_end(s, run) <= (uint64_t)b << s->shift)
            run++;
        s->index[b] = (uint32_t)run;
    }
    s->index[buckets] = (uint32_t)(s->n_runs - 1);
}

void leat_selection_destroy(struct leat_selection *s)
{
    leat_free(s->runs);
    leat_free(s->index);
    memset(s, 0, sizeof *s);
}

size_t leat_selection_find(const struct leat_selection *s, uint64_t position)
{
    size_t low = 0, high = s->n_runs - 1; /* the answer is in [low, high] */
    if (s->index) {
        low = s->index[position >> s->shift];
        high = s->index[(position >> s->shift) + 1];
    }
    while (low < high) {
        size_t middle = high - (high - low) / 2;
        if (s->runs[middle].at <= position)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

int leat_selection_push_view(struct leat_selection *s, const struct leat_dataset *d, uint64_t begin, uint64_t end,
                             uint64_t offset)
{
    if (!d->selected)
        return leat_selection_push(s, begin + offset, end - begin);
    const struct leat_selection *from = &d->selection;
    int rc = LEAT_OK;
    for (size_t run = begin < end ? leat_selection_find(from, begin) : 0; begin < end && !rc; run++) {
        uint64_t stop = leat_selection_end(from, run) < end ? leat_selection_end(from, run) : end;
        rc = leat_selection_push(s, from->runs[run].begin + (begin - from->runs[run].at) + offset, stop - begin);
        begin = stop;
    }
    return rc;
}

int64_t leat_dataset_id(const struct leat_dataset *d, uint64_t position)
{
    if (!d->selected)
        return (int64_t)position;
    const struct leat_run *run = &d->selection.runs[leat_selection_find(&d->selection, position)];
    return (int64_t)(run->begin + (position - run->at));
}

/* `step`, which is taken over, says how it was made from `d` (view.c). */
static int make_view(struct leat_dataset *d, struct leat_selection *s, json_t *step, struct leat_dataset **out,
                     struct leat_error *error)
{
    char *view = leat_view_add(d, step);
    int rc = leat_dataset_make(leat_base_retain(d->base), s, out, error);
    if (!rc && (*out)->selected)
        (*out)->view = view;
    else
        leat_free(view);
    return rc;
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
    return make_view(d, &s, leat_view_select(positions, n), out, error);
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
              : make_view(d, &s,
                          json_pack("[s, I, I, I]", "slice", (json_int_t)begin, (json_int_t)end, (json_int_t)step), out,
                          error);
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
        rc = make_view(d, &parts[k], leat_view_split(fractions, n, seed, k), &outs[k], error);
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
    const struct leat_selection *s = &d->selection;
    size_t run = n ? leat_selection_find(s, position) : 0;
    for (uint64_t i = 0; i < n; i++) {
        while (leat_selection_end(s, run) <= position + i)
            run++;
        ids[i] = (int64_t)(s->runs[run].begin + (position + i - s->runs[run].at));
    }
    return LEAT_OK;
}
