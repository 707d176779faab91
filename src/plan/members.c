/*
 * A row that is a group takes one of its members. The draw depends on the row's key alone: so it is the same on any
 * rank, after a resume, and whoever makes the row.
 */
#include "plan/members.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/search.h"

static int check(const struct leat_one_of_options *o, uint64_t count, struct leat_error *error)
{
    if (!o->begins || o->n_groups >= LEAT_PLAN_MAX_ROWS || o->begins[0])
        return leat_fail(error, LEAT_E_INVALID, "groups have a list of begins, the first of which is 0");
    for (uint64_t g = 0; g < o->n_groups; g++)
        if (o->begins[g + 1] <= o->begins[g])
            return leat_fail(error, LEAT_E_INVALID, "group %llu has no member", (unsigned long long)g);
    const uint64_t n = o->begins[o->n_groups];
    if (n && !o->members)
        return leat_fail(error, LEAT_E_INVALID, "groups of %llu members need the list of these", (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++)
        if (o->members[i] >= count)
            return leat_fail(error, LEAT_E_RANGE, "member %llu of groups is position %llu of a data set of %llu",
                             (unsigned long long)i, (unsigned long long)o->members[i], (unsigned long long)count);
    return LEAT_OK;
}

/* Sums of weights in each group, and a hash of the weights. */
static int sum_weights(const struct leat_one_of_options *o, struct leat_members *m, struct leat_error *error)
{
    for (uint64_t g = 0; g < o->n_groups; g++) {
        double sum = 0;
        for (uint64_t i = o->begins[g]; i < o->begins[g + 1]; i++) {
            if (!(o->weights[i] >= 0))
                return leat_fail(error, LEAT_E_INVALID, "weight %llu is %g: weights must not be negative",
                                 (unsigned long long)i, o->weights[i]);
            m->sums[i] = sum += o->weights[i];
        }
        if (!(sum > 0) || isinf(sum))
            return leat_fail(error, LEAT_E_INVALID,
                             "the weights of group %llu sum to %g: at least one must be above 0 and the sum finite",
                             (unsigned long long)g, sum);
    }
    m->hash = leat_key_mix(m->hash, leat_hash64(o->weights, (size_t)m->begins[m->n] * sizeof *o->weights));
    return LEAT_OK;
}

int leat_members_new(const struct leat_one_of_options *o, uint64_t count, struct leat_members **out,
                     struct leat_error *error)
{
    *out = NULL;
    int rc = check(o, count, error);
    if (rc)
        return rc;
    const uint64_t n = o->begins[o->n_groups];
    struct leat_members *m = leat_new(struct leat_members);
    if (!m)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for groups");
    m->n = o->n_groups;
    m->begins = leat_new_array(m->n + 1, sizeof *m->begins);
    m->at = leat_new_array(n, sizeof *m->at);
    m->sums = o->weights ? leat_new_array(n, sizeof *m->sums) : NULL;
    if (!m->begins || !m->at || (o->weights && !m->sums)) {
        leat_members_free(m);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for groups of %llu members", (unsigned long long)n);
    }
    memcpy(m->begins, o->begins, (size_t)(m->n + 1) * sizeof *m->begins);
    if (n)
        memcpy(m->at, o->members, (size_t)n * sizeof *m->at);
    m->hash = leat_key_mix(leat_hash64(m->begins, (size_t)(m->n + 1) * sizeof *m->begins),
                           leat_hash64(m->at, (size_t)n * sizeof *m->at));
    if (m->sums && (rc = sum_weights(o, m, error))) {
        leat_members_free(m);
        return rc;
    }
    *out = m;
    return LEAT_OK;
}

void leat_members_free(struct leat_members *m)
{
    if (!m)
        return;
    leat_free(m->begins);
    leat_free(m->at);
    leat_free(m->sums);
    leat_free(m);
}

uint64_t leat_members_draw(const struct leat_members *m, uint64_t group, uint64_t row_key, uint64_t i)
{
    const uint64_t first = m->begins[group], end = m->begins[group + 1], key = leat_key_mix(row_key, LEAT_TAG_MEMBER);
    if (!m->sums)
        return m->at[first + leat_draw_below(key, i, end - first)];
    const double total = m->sums[end - 1], target = leat_draw_unit(key, i) * total;
    const double below = target < total ? target : nextafter(total, 0); /* it was rounded up */
    return m->at[LEAT_BISECT(k, first, end - 1, m->sums[k] <= below)];
}
