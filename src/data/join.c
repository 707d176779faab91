/*
 * The data set that a loader of a mixture reads: its sources one behind the other.
 *
 *     positions    0 .. n0 - 1  |  n0 .. n0 + n1 - 1  | ...       source by source
 *     selection    its ids      |  its ids + N        | ...       N: samples of the base; so ids mostly ascend, and
 *     ids          the remainder of dividing by N                 are packed
 *
 * Views of one base keep their ids, and the base is joined once, however many there are. Any others are concatenated.
 */
#include "base/error.h"
#include "data/internal.h"

static bool of_one_base(struct leat_dataset *const *datasets, size_t n)
{
    bool same = true;
    for (size_t i = 1; i < n && same; i++)
        same = leat_base_is_same(datasets[0]->base, datasets[i]->base);
    return same && datasets[0]->base->count && n <= (uint64_t)INT64_MAX / datasets[0]->base->count;
}

int leat_dataset_join(struct leat_dataset *const *datasets, size_t n, struct leat_dataset **out,
                      struct leat_error *error)
{
    struct leat_selection s = {0};
    *out = NULL;
    if (!n || !of_one_base(datasets, n))
        return leat_dataset_concat(datasets, n, out, error);
    struct leat_base *base = datasets[0]->base;
    int rc = LEAT_OK;
    for (size_t i = 0; i < n && !rc; i++)
        rc = leat_selection_push_view(&s, datasets[i], 0, datasets[i]->count, i * base->count);
    if (!rc)
        rc = leat_selection_seal(&s);
    if (rc) {
        leat_selection_destroy(&s);
        return leat_fail(error, rc, "no memory to join %zu views", n);
    }
    if ((rc = leat_dataset_make(leat_base_retain(base), NULL, NULL, out, error))) {
        leat_selection_destroy(&s);
        return rc;
    }
    (*out)->selected = (*out)->joined = true;
    (*out)->selection = s;
    (*out)->count = s.count;
    return LEAT_OK;
}
