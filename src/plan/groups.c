/*
 * Batches by size. A group of samples is a batch of a rank, and is made by one of three rules:
 *
 * By length, samples are sorted into buckets, each with a width that none of its samples exceeds. Those of a bucket are
 * permuted in each pass and cut into groups, as many samples as fit the budget when each takes the bucket's width:
 *
 *     buckets      | width 8: s s s s s s s s s | width 12: s s s s s s | width 16: s s s |
 *     groups       |    0    |    1    |   2    |     3    |     4      |    5    |   6   |     budget 32
 *
 * By cost, they are put together by best fit (best_fit.c), and groups have the same samples in each pass:
 *
 *     groups       | 20 9 3 | 17 14 1 | 16 16 | 12 12 7 1 | ...                                budget 32
 *
 * By cost in order, a group ends where the next sample would exceed the budget, with the cost of what it has in common
 * with its neighbours, which a group bears once:
 *
 *     in common    |  10            | 0      | 12        |
 *     costs          2  5  4  9  3    20 6     1  1  4
 *     groups       |    0     | 1 |    2     |   3  | 4..                                       budget 32
 *
 * All else is one: groups are spans of the sorted samples, and in a pass they are permuted:
 *
 *     a pass       5  2  0  6  3  1  4
 *
 * So positions of a plan of groups count groups: any of them is found without those before it, and all ranks have as
 * many batches. Rows are numbered through the groups of a pass in its order, which sums of their sizes find; these are
 * kept for the two passes used last.
 *
 * It takes 4 bytes a sample and 20 a group.
 */
#include "plan/groups.h"

#include <assert.h>
#include <inttypes.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/search.h"
#include "plan/best_fit.h"

#define TAG_BUCKET ((UINT64_C(1) << 63) | 5)
#define TAG_COSTS ((UINT64_C(1) << 63) | 7)
#define TAG_SPANS ((UINT64_C(1) << 63) | 9)

struct leat_bucket {
    uint64_t width, begin, end; /* its samples, in `sorted` */
    uint64_t rows;              /* of a group; the last one may have fewer */
};

/* ---- by length --------------------------------------------------------------------------------------------------- */

/* The width if none are stated: three more bits than the first, so that padding stays below an eighth. */
static uint64_t round_width(uint64_t length)
{
    const int bits = length ? 64 - __builtin_clzll(length) : 0, low = bits > 4 ? bits - 4 : 0;
    const uint64_t step = UINT64_C(1) << low;
    return length > UINT64_MAX - step ? UINT64_MAX : (length + step - 1) / step * step;
}

static uint64_t own_number(uint64_t length)
{
    const uint64_t width = round_width(length);
    const int bits = width ? 64 - __builtin_clzll(width) : 0;
    return bits <= 4 ? width : (uint64_t)(bits - 3) * 8 + (width >> (bits - 4));
}

/* The number of the bucket of a length; for stated widths the first that is not below it. */
static uint64_t bucket_of(const struct leat_group_spec *s, uint64_t length)
{
    if (!s->n_widths)
        return own_number(length);
    return LEAT_BISECT(i, 0, s->n_widths - 1, s->widths[i] < length); /* no length is above the last */
}

static int check_lengths(const struct leat_group_spec *s, uint64_t samples, struct leat_error *error)
{
    if (!s->budget && !s->rows)
        return leat_fail(error, LEAT_E_INVALID, "batches by length need a budget of elements or a number of rows");
    if (s->n_widths > LEAT_GROUPS_MAX_WIDTHS)
        return leat_fail(error, LEAT_E_RANGE, "%zu buckets: at most %d", s->n_widths, LEAT_GROUPS_MAX_WIDTHS);
    for (size_t k = 0; k < s->n_widths; k++)
        if (!s->widths[k] || (k && s->widths[k] <= s->widths[k - 1]))
            return leat_fail(error, LEAT_E_INVALID, "buckets have rising widths above 0, not %" PRIu64 " as number %zu",
                             s->widths[k], k);
    const uint64_t widest = s->n_widths ? s->widths[s->n_widths - 1] : UINT64_MAX;
    for (uint64_t i = 0; i < samples; i++)
        if (s->lengths[i] > widest || (s->budget && s->lengths[i] > s->budget))
            return leat_fail(error, LEAT_E_RANGE,
                             "the sample at position %" PRIu64 " has %" PRIu64 " elements, more than %s of %" PRIu64
                             ": raise it, or leave the sample out",
                             i, s->lengths[i], s->lengths[i] > widest ? "the last bucket" : "the budget of a batch",
                             s->lengths[i] > widest ? widest : s->budget);
    return LEAT_OK;
}

/* Gives a bucket that has samples its width and groups, and raises the most elements of a group to those of its own. */
static int size_bucket(struct leat_groups *g, const struct leat_group_spec *s, struct leat_bucket *b, uint64_t longest,
                       uint64_t *most, struct leat_error *error)
{
    const uint64_t n = b->end - b->begin, width = b->width ? b->width : 1;
    b->rows = s->budget ? s->budget / width : UINT64_MAX;
    if (!b->rows && s->n_widths)
        return leat_fail(error, LEAT_E_INVALID,
                         "a sample of the bucket of width %" PRIu64 " does not fit the budget of %" PRIu64
                         " elements: its longest one has %" PRIu64,
                         width, s->budget, longest);
    b->rows = s->rows && s->rows < b->rows ? s->rows : b->rows;
    g->n += (n - 1) / b->rows + 1;
    const uint64_t rows = b->rows < n ? b->rows : n;
    uint64_t elements;
    if (!leat_mul_u64(rows, width, &elements))
        elements = UINT64_MAX;
    g->most_rows = rows > g->most_rows ? rows : g->most_rows;
    *most = elements > *most ? elements : *most;
    return LEAT_OK;
}

/* Sorts the samples, those of a bucket as they lie. */
static int sort(struct leat_groups *g, const struct leat_group_spec *s, struct leat_error *error)
{
    const uint64_t numbers = s->n_widths ? s->n_widths : LEAT_GROUPS_OWN_WIDTHS;
    uint64_t *at = leat_new_array(numbers, sizeof *at), *longest = leat_new_array(numbers, sizeof *longest), sum = 0;
    uint64_t elements = 0, most = 0;
    g->sorted = leat_new_array(g->samples ? g->samples : 1, sizeof *g->sorted);
    int rc = g->sorted && at && longest ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for buckets");
    for (uint64_t i = 0; !rc && i < g->samples; i++) {
        const uint64_t k = bucket_of(s, s->lengths[i]);
        longest[k] = s->lengths[i] > longest[k] ? s->lengths[i] : longest[k];
        at[k]++;
        elements += s->lengths[i];
    }
    for (uint64_t k = 0; !rc && k < numbers; k++)
        g->n_buckets += at[k] > 0;
    g->buckets = rc ? NULL : leat_new_array(g->n_buckets ? g->n_buckets : 1, sizeof *g->buckets);
    if (!rc && !g->buckets)
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for buckets");
    struct leat_bucket *b = g->buckets;
    for (uint64_t k = 0; !rc && k < numbers; k++) {
        const uint64_t n = at[k];
        at[k] = sum;
        if (n) {
            *b = (struct leat_bucket){.width = s->n_widths ? s->widths[k] : longest[k], .begin = sum, .end = sum + n};
            rc = size_bucket(g, s, b++, longest[k], &most, error);
        }
        sum += n;
    }
    for (uint64_t i = 0; !rc && i < g->samples; i++)
        g->sorted[at[bucket_of(s, s->lengths[i])]++] = (uint32_t)i;
    const uint64_t mean = g->samples ? elements / g->samples : 0;
    g->weight = mean ? most / mean + 1 : g->most_rows;
    leat_free(longest);
    leat_free(at);
    return rc;
}

static int group_by_length(struct leat_groups *g, const struct leat_group_spec *s, struct leat_error *error)
{
    int rc = check_lengths(s, g->samples, error);
    rc = rc ? rc : sort(g, s, error);
    if (rc)
        return rc;
    g->begin = leat_new_array(g->n + 1, sizeof *g->begin);
    if (!g->begin)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for %" PRIu64 " batches by length", g->n);
    uint64_t n = 0;
    g->hash = leat_hash64(g->sorted, g->samples * sizeof *g->sorted);
    for (const struct leat_bucket *b = g->buckets; b < g->buckets + g->n_buckets; b++) {
        for (uint64_t at = b->begin; at < b->end; at += b->rows < b->end - at ? b->rows : b->end - at)
            g->begin[n++] = (uint32_t)at;
        g->hash = leat_key_mix(leat_key_mix(g->hash, b->begin), b->rows);
    }
    g->begin[n] = (uint32_t)g->samples;
    return LEAT_OK;
}

/* ---- by cost ----------------------------------------------------------------------------------------------------- */

static int check_costs(const struct leat_group_spec *s, uint64_t samples, struct leat_error *error)
{
    if (!s->budget || s->budget > LEAT_BINS_MAX_COST)
        return leat_fail(error, LEAT_E_INVALID, "the cost of a batch is 1 to 2^48, not %" PRIu64, s->budget);
    for (uint64_t i = 0; i < samples; i++)
        if (s->lengths[i] > LEAT_BINS_MAX_COST)
            return leat_fail(error, LEAT_E_RANGE,
                             "the sample at position %" PRIu64 " has a cost of %" PRIu64 ": at most 2^48", i,
                             s->lengths[i]);
        else if (s->lengths[i] > s->budget && !s->alone)
            return leat_fail(error, LEAT_E_RANGE,
                             "the sample at position %" PRIu64 " has a cost of %" PRIu64 ", more than the %" PRIu64
                             " of a batch: raise that, leave the sample out, or let it be a batch alone",
                             i, s->lengths[i], s->budget);
    return LEAT_OK;
}

static int group_by_cost(struct leat_groups *g, const struct leat_group_spec *s, struct leat_error *error)
{
    struct leat_bins bins;
    int rc = check_costs(s, g->samples, error);
    rc = rc ? rc
            : leat_bins_of_costs(s->lengths, g->samples, s->budget, s->rows, g->shuffled ? &s->seed : NULL, &bins,
                                 error);
    if (rc)
        return rc;
    g->n = bins.n;
    g->begin = bins.begin;
    g->sorted = bins.documents;
    unsigned __int128 all = 0;
    uint64_t most = 0;
    for (uint64_t k = 0; k < g->n; k++) {
        const uint64_t rows = g->begin[k + 1] - g->begin[k];
        uint64_t sum = 0;
        for (uint32_t i = g->begin[k]; i < g->begin[k + 1]; i++)
            sum += s->lengths[g->sorted[i]];
        all += sum;
        g->most_rows = rows > g->most_rows ? rows : g->most_rows;
        most = sum > most ? sum : most;
    }
    const uint64_t mean = (uint64_t)(all / (g->samples ? g->samples : 1));
    g->weight = mean && most / mean < g->most_rows ? most / mean + 1 : g->most_rows;
    g->hash = leat_key_mix(TAG_COSTS, leat_hash64(g->sorted, g->samples * sizeof *g->sorted));
    g->hash = leat_key_mix(g->hash, leat_hash64(g->begin, (g->n + 1) * sizeof *g->begin));
    return LEAT_OK;
}

/* ---- by cost, in order ------------------------------------------------------------------------------------------- */

static int check_shared(const struct leat_group_spec *s, uint64_t samples, struct leat_error *error)
{
    for (uint64_t k = 0; k < s->n_shared; k++)
        if (s->shared[k] > LEAT_BINS_MAX_COST || (k ? s->firsts[k] <= s->firsts[k - 1] : s->firsts[k] != 0) ||
            s->firsts[k] >= samples)
            return leat_fail(error, LEAT_E_INVALID,
                             "what samples have in common is listed by rising first samples, the first 0, with costs "
                             "up to 2^48: not sample %" PRIu64 " with %" PRIu64 " as number %" PRIu64,
                             s->firsts[k], s->shared[k], k);
    return LEAT_OK;
}

/* The end of the group that begins with sample `i`, which is of part *k; then *k is that of the end. */
static uint64_t end_of_span(const struct leat_group_spec *s, uint64_t samples, uint64_t i, uint64_t *k)
{
    const uint64_t most = s->rows ? s->rows : UINT64_MAX;
    uint64_t sum = s->shared[*k] + s->lengths[i], n = 1, part = *k;
    for (i++; i < samples && n < most; i++, n++) {
        const bool next = part + 1 < s->n_shared && s->firsts[part + 1] == i;
        sum += s->lengths[i] + (next ? s->shared[part + 1] : 0);
        if (sum > s->budget)
            break;
        part += next;
    }
    *k = part + (part + 1 < s->n_shared && s->firsts[part + 1] == i);
    return i;
}

static int group_in_order(struct leat_groups *g, const struct leat_group_spec *s, struct leat_error *error)
{
    size_t room = 0;
    uint64_t k = 0;
    struct leat_group_spec each = *s;
    each.alone = true; /* the sums are checked below */
    int rc = check_costs(&each, g->samples, error);
    rc = rc ? rc : check_shared(s, g->samples, error);
    g->sorted = leat_new_array(g->samples ? g->samples : 1, sizeof *g->sorted);
    if (!rc && (!g->sorted || !leat_grow(&g->begin, &room, 1, sizeof *g->begin)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for batches by size");
    for (uint64_t i = 0, end; !rc && i < g->samples; i = end) {
        const uint64_t first = s->shared[k] + s->lengths[i];
        if (first > s->budget && !s->alone)
            return leat_fail(error, LEAT_E_RANGE,
                             "the sample at position %" PRIu64 " has a cost of %" PRIu64 ", %" PRIu64
                             " of it for what it shares, more than the %" PRIu64
                             " of a batch: raise that, leave the sample out, or let it be a batch alone",
                             i, first, s->shared[k], s->budget);
        end = end_of_span(s, g->samples, i, &k);
        g->begin[g->n++] = (uint32_t)i;
        g->most_rows = end - i > g->most_rows ? end - i : g->most_rows;
        if (!leat_grow(&g->begin, &room, g->n + 1, sizeof *g->begin))
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory for batches by size");
    }
    if (rc)
        return rc;
    g->begin[g->n] = (uint32_t)g->samples;
    for (uint64_t i = 0; i < g->samples; i++)
        g->sorted[i] = (uint32_t)i;
    g->weight = g->most_rows; /* what is shared is in each row */
    g->hash = leat_key_mix(TAG_SPANS, leat_hash64(g->begin, (g->n + 1) * sizeof *g->begin));
    return LEAT_OK;
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

int leat_groups_new(const struct leat_group_spec *spec, uint64_t samples, bool shuffled, struct leat_groups **out,
                    struct leat_error *error)
{
    *out = NULL;
    if (samples > UINT32_MAX)
        return leat_fail(error, LEAT_E_RANGE, "batches by size have at most 2^32 - 1 samples, not %" PRIu64, samples);
    struct leat_groups *g = leat_new(struct leat_groups);
    if (!g)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for batches by size");
    pthread_rwlock_init(&g->lock, NULL);
    g->samples = samples;
    g->shuffled = shuffled;
    int rc = (spec->n_shared ? group_in_order : spec->costs ? group_by_cost : group_by_length)(g, spec, error);
    for (int i = 0; !rc && i < 1 + shuffled; i++)
        if (!(g->pass[i].sums = leat_new_array(g->n + 1, sizeof *g->pass[i].sums)))
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory for %" PRIu64 " batches by size", g->n);
    if (rc) {
        leat_groups_free(g);
        return rc;
    }
    g->hash = leat_key_mix(leat_key_mix(g->hash, spec->budget), spec->rows);
    *out = g;
    return LEAT_OK;
}

void leat_groups_free(struct leat_groups *g)
{
    if (!g)
        return;
    pthread_rwlock_destroy(&g->lock);
    leat_free(g->sorted);
    leat_free(g->begin);
    leat_free(g->buckets);
    leat_free(g->pass[0].sums);
    leat_free(g->pass[1].sums);
    leat_free(g);
}

/* The bucket that has the sorted samples from `at` on. */
static const struct leat_bucket *find_bucket(const struct leat_groups *g, uint64_t at)
{
    return &g->buckets[LEAT_BISECT(i, 1, g->n_buckets, g->buckets[i].begin <= at) - 1];
}

/* The group that comes in place `at` of a pass. */
static uint64_t group_at(const struct leat_groups *g, const struct leat_groups_pass *pass, uint64_t at)
{
    return g->shuffled ? leat_permute(&pass->order, at) : at;
}

static void sum_pass(struct leat_groups *g, struct leat_groups_pass *pass, uint64_t key)
{
    uint64_t sum = 0;
    if (g->shuffled && g->n)
        pass->order = leat_permutation_init(g->n, key);
    for (uint64_t i = 0; i < g->n; i++) {
        const uint64_t group = group_at(g, pass, i);
        pass->sums[i] = sum;
        sum += g->begin[group + 1] - g->begin[group];
    }
    pass->sums[g->n] = sum;
    pass->key = key;
    pass->set = true;
}

/* The sums of a pass. Returns with the lock held for reading, which keeps them. */
static const struct leat_groups_pass *enter_pass(struct leat_groups *g, uint64_t key)
{
    for (;;) {
        pthread_rwlock_rdlock(&g->lock);
        for (int i = 0; i < 2; i++)
            if (g->pass[i].set && (g->pass[i].key == key || !g->shuffled))
                return &g->pass[i];
        pthread_rwlock_unlock(&g->lock);
        pthread_rwlock_wrlock(&g->lock);
        bool there = false;
        for (int i = 0; i < 2; i++)
            there |= g->pass[i].set && (g->pass[i].key == key || !g->shuffled);
        if (!there) {
            g->oldest ^= g->shuffled;
            sum_pass(g, &g->pass[g->oldest], key);
        }
        pthread_rwlock_unlock(&g->lock);
    }
}

void leat_groups_rows(struct leat_groups *g, uint64_t key, uint64_t first, uint64_t n, uint64_t *begin, uint64_t *rows)
{
    assert(first <= g->n && n <= g->n - first);
    const struct leat_groups_pass *pass = enter_pass(g, key);
    *begin = pass->sums[first];
    *rows = pass->sums[first + n] - *begin;
    pthread_rwlock_unlock(&g->lock);
}

void leat_groups_run(struct leat_groups *g, uint64_t key, uint64_t row, size_t n, uint64_t *out)
{
    const struct leat_groups_pass *pass = enter_pass(g, key);
    uint64_t at = 0;
    for (uint64_t high = g->n; n && high - at > 1;) {
        const uint64_t middle = (at + high) / 2;
        if (pass->sums[middle] <= row)
            at = middle;
        else
            high = middle;
    }
    for (; n; at++) {
        const uint64_t first = g->begin[group_at(g, pass, at)] + row - pass->sums[at], left = pass->sums[at + 1] - row;
        const size_t run = left < n ? (size_t)left : n;
        const struct leat_bucket *b = g->shuffled && g->buckets ? find_bucket(g, first) : NULL;
        for (size_t i = 0; i < run; i++)
            out[i] = first + i - (b ? b->begin : 0);
        if (b) {
            const uint64_t tag = leat_key_mix(leat_key_mix(key, TAG_BUCKET), (uint64_t)(b - g->buckets));
            const struct leat_permutation order = leat_permutation_init(b->end - b->begin, tag);
            leat_permute_many(&order, out, run);
        }
        for (size_t i = 0; i < run; i++)
            out[i] = g->sorted[out[i] + (b ? b->begin : 0)];
        row += run;
        out += run;
        n -= run;
    }
    pthread_rwlock_unlock(&g->lock);
}
