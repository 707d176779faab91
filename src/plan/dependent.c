/*
 * Dependent sampling, after "A Deep Learning Dataloader with Shared Data Preparation" (Xie, Xu et al., NeurIPS 2022),
 * whose loader is called Joader. There a tree of intersections draws for all jobs at once. Here those already there
 * keep their orders, and a newcomer follows one of them at a time, which needs only lists.
 *
 * At a tick, let J be the rest of the run that is followed, x its sample at this tick, and K the rest of this order.
 * Given all that was read before, x is uniform in J. The order takes
 *
 *     x                           with probability min(1, |J| / |K|), if x is in K; else
 *     any of K without J          alike, if |J| <= |K|;
 *     any of K                    if |J| > |K|, with weight |J| - |K| for samples also in J, and |J| for the others.
 *
 * So each of K is taken with probability 1 / |K|, and x itself with |J and K| / max(|J|, |K|), the most that two
 * uniform draws can have in common. Runs are chosen by this number: whenever one begins, or the one that is followed
 * ends, the order goes on with the run for which that is largest. The choice depends on sets alone, not on later
 * samples, so x stays uniform in J.
 *
 * The rest is one array, so that a tick costs a constant time:
 *
 *     left    | also in J: n_common | not in J ... n_left | taken |
 *     place   of each sample: where it stands in `left`
 */
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "leat/leat.h"

#define NOWHERE UINT32_MAX

/* A run, by number of the order's own samples; NOWHERE: not one of them. */
struct run {
    uint32_t *local;
    uint64_t n, begin;
};

struct dependent {
    const int64_t *ids;
    uint32_t n, *slots; /* a hash table of samples, n_slots of them, a power of two */
    uint64_t n_slots;
    uint32_t *left, *place, n_left, n_common;
    struct run *runs;
    size_t n_runs;
    const struct run *followed; /* or NULL */
    uint64_t key;
};

/* ---- numbers of samples ---------------------------------------------------------------------- */

/* The slot of a sample, or the empty one in its place. */
static uint32_t *slot_of(const struct dependent *d, int64_t id)
{
    uint64_t at = leat_mix64((uint64_t)id) & (d->n_slots - 1);
    while (d->slots[at] != NOWHERE && d->ids[d->slots[at]] != id)
        at = (at + 1) & (d->n_slots - 1);
    return &d->slots[at];
}

static int number_samples(struct dependent *d, struct leat_error *error)
{
    for (d->n_slots = 2; d->n_slots < 2 * (uint64_t)d->n; d->n_slots *= 2) {
    }
    d->slots = leat_new_array(d->n_slots, sizeof *d->slots);
    d->left = leat_new_array((uint64_t)d->n + 1, sizeof *d->left);
    d->place = leat_new_array((uint64_t)d->n + 1, sizeof *d->place);
    if (!d->slots || !d->left || !d->place)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for an order of %" PRIu32 " samples", d->n);
    memset(d->slots, 0xff, d->n_slots * sizeof *d->slots);
    for (uint32_t i = 0; i < d->n; i++) {
        if (d->ids[i] < 0)
            return leat_fail(error, LEAT_E_INVALID, "sample %" PRId64 " does not exist: they count from 0", d->ids[i]);
        uint32_t *slot = slot_of(d, d->ids[i]);
        if (*slot != NOWHERE)
            return leat_fail(error, LEAT_E_INVALID, "sample %" PRId64 " is there twice, and is read once in an epoch",
                             d->ids[i]);
        *slot = d->left[i] = d->place[i] = i;
    }
    d->n_left = d->n;
    return LEAT_OK;
}

static int number_runs(struct dependent *d, const struct leat_dependent_run *runs, size_t n_runs,
                       struct leat_error *error)
{
    d->runs = leat_new_array(n_runs + 1, sizeof *d->runs);
    if (!d->runs)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the orders of others");
    for (size_t r = 0; r < n_runs; r++) {
        struct run *run = &d->runs[d->n_runs++];
        *run = (struct run){.n = runs[r].n, .begin = runs[r].begin};
        if (run->n > NOWHERE - 1)
            return leat_fail(error, LEAT_E_RANGE, "an order of another has %" PRIu64 " samples, too many", run->n);
        run->local = leat_new_array(run->n + 1, sizeof *run->local);
        if (!run->local)
            return leat_fail(error, LEAT_E_NOMEM, "no memory for an order of %" PRIu64 " samples", run->n);
        for (uint64_t i = 0; i < run->n; i++)
            run->local[i] = *slot_of(d, runs[r].ids[i]);
    }
    return LEAT_OK;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void move(struct dependent *d, uint32_t sample, uint32_t to)
{
    const uint32_t from = d->place[sample], other = d->left[to];
    d->left[from] = other;
    d->place[other] = from;
    d->left[to] = sample;
    d->place[sample] = to;
}

static void make_common(struct dependent *d, uint32_t sample)
{
    move(d, sample, d->n_common++);
}

/* A sample that the followed run has read is not in J any more. */
static void make_uncommon(struct dependent *d, uint32_t sample)
{
    move(d, sample, --d->n_common);
}

static void take(struct dependent *d, uint32_t sample)
{
    if (d->place[sample] < d->n_common)
        make_uncommon(d, sample);
    move(d, sample, --d->n_left);
}

static bool is_left(const struct dependent *d, uint32_t sample)
{
    return sample != NOWHERE && d->place[sample] < d->n_left;
}

/* ---- which run is followed ------------------------------------------------------------------- */

static bool is_running(const struct run *run, uint64_t tick)
{
    return run->begin <= tick && tick - run->begin < run->n;
}

/* The probability that both have the same one at this tick, of `most` samples that both might have. */
static double share(const struct dependent *d, uint64_t others, uint64_t most)
{
    return (double)most / (double)(others > d->n_left ? others : d->n_left);
}

static int follow(struct dependent *d, const struct run *run, uint64_t tick, struct leat_error *error)
{
    d->followed = run;
    d->n_common = 0;
    for (uint64_t i = run ? tick - run->begin : 0; run && i < run->n; i++) {
        if (!is_left(d, run->local[i]))
            continue;
        if (d->place[run->local[i]] < d->n_common)
            return leat_fail(error, LEAT_E_INVALID, "the order of another has sample %" PRId64 " twice",
                             d->ids[run->local[i]]);
        make_common(d, run->local[i]);
    }
    return LEAT_OK;
}

/* Follows the run of which the most is expected. */
static int choose(struct dependent *d, uint64_t tick, struct leat_error *error)
{
    const struct run *best = NULL;
    double most = 0;
    for (size_t r = 0; r < d->n_runs; r++) {
        const struct run *run = &d->runs[r];
        if (!is_running(run, tick))
            continue;
        const uint64_t others = run->n - (tick - run->begin);
        if (share(d, others, others < d->n_left ? others : d->n_left) <= most)
            continue;
        uint64_t common = 0;
        for (uint64_t i = tick - run->begin; i < run->n; i++)
            common += is_left(d, run->local[i]);
        if (share(d, others, common) > most) {
            most = share(d, others, common);
            best = run;
        }
    }
    return follow(d, best, tick, error);
}

/* Whether a run begins now, or the one that is followed has ended. */
static bool is_due(const struct dependent *d, uint64_t tick)
{
    bool due = d->followed && !is_running(d->followed, tick);
    for (size_t r = 0; r < d->n_runs; r++)
        due |= d->runs[r].begin == tick;
    return due;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static uint32_t draw(const struct dependent *d, uint64_t tick)
{
    const uint64_t key = d->key, left = d->n_left, common = d->n_common;
    if (!d->followed)
        return d->left[leat_draw_below(key, 2 * tick + 1, left)];
    const uint64_t at = tick - d->followed->begin, others = d->followed->n - at;
    const uint32_t x = d->followed->local[at];
    if (is_left(d, x) && leat_draw_below(key, 2 * tick, left) < others)
        return x;
    if (others <= left)
        return d->left[common + leat_draw_below(key, 2 * tick + 1, left - common)];
    const uint64_t heavy = others, light = others - left; /* below 2^64 in sum: both numbers are below 2^32 */
    const uint64_t at_weight = leat_draw_below(key, 2 * tick + 1, common * light + (left - common) * heavy);
    return d->left[at_weight < common * light ? at_weight / light : common + (at_weight - common * light) / heavy];
}

/* Whether some run has a sample at this tick. */
static bool is_shared(const struct dependent *d, uint32_t sample, uint64_t tick)
{
    for (size_t r = 0; r < d->n_runs; r++)
        if (is_running(&d->runs[r], tick) && d->runs[r].local[tick - d->runs[r].begin] == sample)
            return true;
    return false;
}

static int draw_all(struct dependent *d, int64_t *out, uint64_t *shared, struct leat_error *error)
{
    for (uint64_t tick = 0; tick < d->n; tick++) {
        if (is_due(d, tick)) {
            int rc = choose(d, tick, error);
            if (rc)
                return rc;
        }
        const uint32_t sample = draw(d, tick);
        const uint32_t x = d->followed ? d->followed->local[tick - d->followed->begin] : NOWHERE;
        out[tick] = d->ids[sample];
        *shared += is_shared(d, sample, tick);
        if (x != NOWHERE && d->place[x] < d->n_common)
            make_uncommon(d, x);
        take(d, sample);
    }
    return LEAT_OK;
}

int leat_dependent_order(const int64_t *ids, uint64_t n, const struct leat_dependent_run *runs, size_t n_runs,
                         uint64_t key, int64_t *out, uint64_t *shared, struct leat_error *error)
{
    uint64_t ignored;
    shared = shared ? shared : &ignored;
    *shared = 0;
    if (n >= NOWHERE)
        return leat_fail(error, LEAT_E_RANGE, "an order of %" PRIu64 " samples of one's own is too long", n);
    struct dependent d = {.ids = ids, .n = (uint32_t)n, .key = key};
    int rc = number_samples(&d, error);
    rc = rc ? rc : number_runs(&d, runs, n_runs, error);
    rc = rc ? rc : draw_all(&d, out, shared, error);
    for (size_t r = 0; r < d.n_runs; r++)
        leat_free(d.runs[r].local);
    leat_free(d.runs);
    leat_free(d.slots);
    leat_free(d.left);
    leat_free(d.place);
    return rc;
}
