/*
 * Weighted orders.
 *
 * With replacement: the inverse of the cumulative sums, by binary search; a draw depends on (key, row) alone.
 *
 * Without: every sample with a positive weight gets the key -log(u) / w, and the samples are taken in the order of
 * their keys. That is the same as drawing them one by one in proportion to the remaining weights (Efraimidis and
 * Spirakis, "Weighted random sampling with a reservoir", Inf. Process. Lett. 97, 2006). The keys of a pass are made at
 * its first use. The logarithm is our own: libm's may differ in the last bit from version to version, and the order
 * must not.
 */
#include "plan/weighted.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"

/* -log(x) for 0 < x <= 1: x = m * 2^e with m in [sqrt(1/2), sqrt(2)), then 2 artanh((m - 1) / (m + 1)) as a series. */
static double minus_log(double x)
{
    int e;
    double m = frexp(x, &e); /* exact */
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2;
        e--;
    }
    double s = (m - 1) / (m + 1), s2 = s * s, sum = 0;
    for (int k = 23; k >= 1; k -= 2)
        sum = sum * s2 + 1.0 / k;
    return -((double)e * 0x1.62e42fefa39efp-1 + 2 * s * sum);
}

int leat_weights_new(const double *weights, uint64_t n, uint64_t num_samples, struct leat_weights **out,
                     struct leat_error *error)
{
    *out = NULL;
    double total = 0;
    uint64_t positive = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (!(weights[i] >= 0) || isinf(weights[i]))
            return leat_fail(error, LEAT_E_INVALID, "weight %llu is %g: weights must be finite and not negative",
                             (unsigned long long)i, weights[i]);
        positive += weights[i] > 0;
        total += weights[i];
    }
    if (!positive || isinf(total))
        return leat_fail(error, LEAT_E_INVALID,
                         "the %llu weights sum to %g: at least one must be above 0 and the sum finite",
                         (unsigned long long)n, total);
    if (num_samples > positive)
        return leat_fail(
            error, LEAT_E_INVALID,
            "num_samples is %llu, but only %llu weights are above 0: without replacement no more can be drawn; lower "
            "num_samples or draw with replacement",
            (unsigned long long)num_samples, (unsigned long long)positive);
    struct leat_weights *w = leat_new(struct leat_weights);
    if (!w)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for %llu weights", (unsigned long long)n);
    pthread_mutex_init(&w->lock, NULL);
    w->n = n;
    w->positive = positive;
    w->num_samples = num_samples;
    w->cumulative = leat_new_array(n, sizeof *w->cumulative);
    if (num_samples) {
        w->scratch = leat_new_array(positive, sizeof *w->scratch);
        for (int p = 0; p < 2; p++)
            w->pass[p].positions = leat_new_array(num_samples, sizeof(uint64_t));
    }
    if (!w->cumulative || (num_samples && (!w->scratch || !w->pass[0].positions || !w->pass[1].positions))) {
        leat_weights_free(w);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for %llu weights", (unsigned long long)n);
    }
    w->hash = leat_hash64(weights, n * sizeof *weights);
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        w->cumulative[i] = sum += weights[i];
    for (uint64_t i = 0, k = 0; num_samples && i < n; i++)
        if (weights[i] > 0)
            w->scratch[k++] = (struct leat_weighted_key){.weight = weights[i], .position = i};
    *out = w;
    return LEAT_OK;
}

void leat_weights_free(struct leat_weights *w)
{
    if (!w)
        return;
    pthread_mutex_destroy(&w->lock);
    leat_free(w->cumulative);
    leat_free(w->scratch);
    leat_free(w->pass[0].positions);
    leat_free(w->pass[1].positions);
    leat_free(w);
}

/* The first i with cumulative[i] > target. A weight of 0 adds nothing, so it is never found. */
static uint64_t search(const struct leat_weights *w, double target)
{
    const double *base = w->cumulative;
    uint64_t n = w->n;
    while (n > 1) {
        uint64_t half = n / 2;
        base = base[half - 1] <= target ? base + half : base;
        n -= half;
    }
    return (uint64_t)(base - w->cumulative);
}

uint64_t leat_weights_draw(const struct leat_weights *w, uint64_t key, uint64_t i)
{
    double total = w->cumulative[w->n - 1], target = leat_draw_unit(key, i) * total;
    if (target >= total) /* rounded up */
        target = nextafter(total, 0);
    return search(w, target);
}

uint64_t leat_weights_draw_other(const struct leat_weights *w, uint64_t key, unsigned number, uint64_t broken)
{
    if (w->positive == 1)
        return broken;
    for (uint64_t k = 0; k < 64; k++) {
        uint64_t position = leat_weights_draw(w, key, number * UINT64_C(64) + k);
        if (position != broken)
            return position;
    }
    /* it has nearly all the weight: take a neighbour */
    const double *sums = w->cumulative;
    for (uint64_t i = broken + 1 == w->n ? 0 : broken + 1; i != broken; i = i + 1 == w->n ? 0 : i + 1)
        if (sums[i] > (i ? sums[i - 1] : 0))
            return i;
    return broken;
}

static int by_key(const void *pa, const void *pb)
{
    const struct leat_weighted_key *a = pa, *b = pb;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

void leat_weights_take(struct leat_weights *w, uint64_t key, uint64_t first, size_t n, uint64_t *out)
{
    pthread_mutex_lock(&w->lock);
    unsigned slot = w->newest;
    if (!w->pass[slot].set || w->pass[slot].key != key)
        slot ^= 1;
    if (!w->pass[slot].set || w->pass[slot].key != key) {
        for (uint64_t k = 0; k < w->positive; k++) {
            struct leat_weighted_key *s = &w->scratch[k];
            double u = leat_draw_unit(key, s->position) + 0x1p-54; /* never 0 */
            s->key = minus_log(u) / s->weight;
        }
        qsort(w->scratch, w->positive, sizeof *w->scratch, by_key);
        for (uint64_t k = 0; k < w->num_samples; k++)
            w->pass[slot].positions[k] = w->scratch[k].position;
        w->pass[slot].set = true;
        w->pass[slot].key = key;
    }
    w->newest = slot;
    memcpy(out, w->pass[slot].positions + first, n * sizeof *out);
    pthread_mutex_unlock(&w->lock);
}
