/*
 * The source of the i-th row of a phase, without replaying the rows before it.
 *
 * The sources are the leaves of a binary tree. floor((i L + C) / T) of i rows that reach a node go to its left half,
 * never less than none or more than all, with L and T the shares of the left half and of the node. C is T / 2, which
 * rounds, and the debt of the phases before to the left half: so errors do not add up (docs/order.md has the proof).
 * The counts at i and i + 1 say whether row i goes left, and the count at i is its number within that half. All
 * arithmetic is in integers, and so the same on every machine.
 *
 *                 [0, 4)             row 6, shares 1/2 1/4 1/8 1/8:  round(6/2) = 3, round(7/2) = 4: left, as its row 3
 *             [0, 2)  [2, 4)                                      [0, 2): round(3*2/3) = 2, round(4*2/3) = 3: source 0
 *
 * A node is known by the number of its right half's first source, which no other node has.
 */
#include "plan/mixture.h"

#include <math.h>

#include "base/error.h"

#define WHOLE (UINT64_C(1) << LEAT_SHARE_BITS)
#define LEVELS 11 /* of a tree of LEAT_PLAN_MAX_SOURCES */

typedef unsigned __int128 wide;
typedef __int128 signed_wide;

/* ---- shares ------------------------------------------------------------------------------------------------------ */

/* The rest of a whole after rounding goes to the largest, the first of equals. */
static void settle(uint64_t *parts, uint32_t n)
{
    uint64_t sum = 0;
    uint32_t largest = 0;
    for (uint32_t k = 0; k < n; k++) {
        sum += parts[k];
        largest = parts[k] > parts[largest] ? k : largest;
    }
    parts[largest] += WHOLE - sum; /* wraps if rounding up made it more */
}

void leat_shares_sum(uint64_t *parts, uint32_t n)
{
    uint64_t before = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint64_t part = parts[k];
        parts[k] = before;
        before += part;
    }
    parts[n] = before;
}

int leat_shares_set(const double *shares, uint32_t n, uint64_t *sums, struct leat_error *error)
{
    double total = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (!(shares[k] >= 0) || isinf(shares[k]))
            return leat_fail(error, LEAT_E_INVALID,
                             "the share of source %u is %g: shares must be finite and not negative", k, shares[k]);
        total += shares[k];
    }
    if (!(total > 0) || isinf(total))
        return leat_fail(error, LEAT_E_INVALID, "the shares sum to %g: at least one must be above 0 and the sum finite",
                         total);
    for (uint32_t k = 0; k < n; k++) {
        sums[k] = (uint64_t)(shares[k] / total * (double)WHOLE);
        if (!sums[k] && shares[k] > 0)
            sums[k] = 1;
    }
    settle(sums, n);
    leat_shares_sum(sums, n);
    return LEAT_OK;
}

bool leat_shares_scale(uint64_t *parts, uint32_t n, const uint64_t *divisors)
{
    wide total = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (divisors && parts[k]) {
            parts[k] = (parts[k] << 31) / divisors[k];
            parts[k] = parts[k] ? parts[k] : 1;
        }
        total += parts[k];
    }
    if (!total)
        return false;
    for (uint32_t k = 0; k < n; k++) {
        wide share = ((wide)parts[k] << LEAT_SHARE_BITS) / total;
        parts[k] = share || !parts[k] ? (uint64_t)share : 1;
    }
    settle(parts, n);
    leat_shares_sum(parts, n);
    return true;
}

void leat_shares_between(const uint64_t *from, const uint64_t *to, uint32_t n, uint64_t at, uint64_t length,
                         uint64_t *out)
{
    const wide left = (wide)2 * length - at;
    for (uint32_t k = 0; k < n; k++)
        out[k] = (uint64_t)(((from[k + 1] - from[k]) * left + (wide)(to[k + 1] - to[k]) * at) / ((wide)2 * length));
    settle(out, n);
}

/* Rounded down, for a divisor above 0. */
static signed_wide divide_down(signed_wide a, signed_wide b)
{
    return a / b - (a % b < 0);
}

/* ---- the tree ---------------------------------------------------------------------------------------------------- */

static uint64_t left_count(uint64_t i, uint64_t left, uint64_t total, int64_t offset)
{
    if (!left || left == total)
        return left ? i : 0;
    if (!(i >> 30) && offset < INT64_C(1) << 62) { /* below 2^63 in sum */
        const int64_t value = (int64_t)(i * left) + offset;
        const uint64_t count = value < 0 ? 0 : (uint64_t)value / total;
        return count < i ? count : i;
    }
    const signed_wide value = (signed_wide)((wide)i * left) + offset;
    const wide count = value < 0 ? 0 : (wide)value / total;
    return count < i ? (uint64_t)count : i;
}

int64_t leat_mix_mean(const struct leat_division *d)
{
    signed_wide sum = 0, n = 0;
    for (uint32_t k = 0; k < d->n; k++)
        if (d->sums[k + 1] != d->sums[k]) {
            sum += d->carry[k];
            n++;
        }
    return n ? (int64_t)divide_down(sum, n) : 0;
}

/* The total excess of the sources of [low, high), and their nodes' offsets. Those without a share do not count: nobody
 * can make up for them now. */
static int64_t set_offsets(const struct leat_division *d, uint32_t low, uint32_t high)
{
    const uint64_t *sums = d->sums;
    int64_t *offsets = d->offsets;
    if (high - low == 1)
        return sums[high] == sums[low] ? 0 : d->carry[low] - d->mean;
    const uint32_t middle = low + (high - low) / 2;
    const int64_t left = set_offsets(d, low, middle), both = left + set_offsets(d, middle, high);
    const signed_wide share = (signed_wide)(sums[middle] - sums[low]), total = (signed_wide)(sums[high] - sums[low]);
    const signed_wide value = (total << (LEAT_SHARE_BITS - 1)) + share * both - total * left;
    offsets[middle] = (int64_t)(value >> LEAT_SHARE_BITS); /* rounded down, as gcc and clang shift */
    return both;
}

void leat_mix_aim(struct leat_division *d)
{
    set_offsets(d, 0, d->n);
}

uint32_t leat_mix_pick(const struct leat_division *d, uint64_t i, uint64_t *ordinal)
{
    const uint64_t *sums = d->sums;
    uint32_t low = 0, high = d->n;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        const uint64_t left = sums[middle] - sums[low], total = sums[high] - sums[low];
        const uint64_t count = left_count(i, left, total, d->offsets[middle]);
        if (left_count(i + 1, left, total, d->offsets[middle]) > count) {
            high = middle;
            i = count;
        } else {
            low = middle;
            i -= count;
        }
    }
    *ordinal = i;
    return low;
}

static void count_below(const struct leat_division *d, uint64_t i, uint64_t *counts, uint32_t low, uint32_t high)
{
    if (high - low == 1) {
        counts[low] = i;
        return;
    }
    const uint64_t *sums = d->sums;
    const uint32_t middle = low + (high - low) / 2;
    const uint64_t left = left_count(i, sums[middle] - sums[low], sums[high] - sums[low], d->offsets[middle]);
    count_below(d, left, counts, low, middle);
    count_below(d, i - left, counts, middle, high);
}

void leat_mix_counts(const struct leat_division *d, uint64_t i, uint64_t *counts)
{
    count_below(d, i, counts, 0, d->n);
}

/* The row of a node that is the j-th of one of its halves. */
static uint64_t place_above(uint64_t j, bool is_left, uint64_t left, uint64_t total, int64_t offset)
{
    const uint64_t share = is_left ? left : total - left;
    if (share == total)
        return j;
    signed_wide rows = is_left ? -divide_down(offset - (signed_wide)(j + 1) * (signed_wide)total, (signed_wide)share)
                               : divide_down((signed_wide)j * (signed_wide)total + offset, (signed_wide)share) + 1;
    rows = rows < (signed_wide)j + 1 ? (signed_wide)j + 1 : rows;
    return rows - 1 < (signed_wide)LEAT_PLAN_MAX_ROWS ? (uint64_t)(rows - 1) : UINT64_MAX;
}

uint64_t leat_mix_place(const struct leat_division *d, uint32_t k, uint64_t j)
{
    const uint64_t *sums = d->sums;
    uint32_t lows[LEVELS], highs[LEVELS], depth = 0, low = 0, high = d->n;
    if (sums[k + 1] == sums[k])
        return UINT64_MAX;
    for (; high - low > 1; depth++) {
        const uint32_t middle = low + (high - low) / 2;
        lows[depth] = low;
        highs[depth] = high;
        if (k < middle)
            high = middle;
        else
            low = middle;
    }
    while (depth-- && j < LEAT_PLAN_MAX_ROWS) {
        const uint32_t middle = lows[depth] + (highs[depth] - lows[depth]) / 2;
        j = place_above(j, k < middle, sums[middle] - sums[lows[depth]], sums[highs[depth]] - sums[lows[depth]],
                        d->offsets[middle]);
    }
    return j;
}

/* ---- many rows --------------------------------------------------------------------------------------------------- */

/* A node on the way through consecutive rows: the number of its rows that have gone left, and the rest of its
 * division. */
struct node {
    int64_t rest; /* i L + C - T times the count */
    uint64_t left, right;
};

static void start_nodes(const struct leat_division *d, uint64_t i, struct node *nodes, uint32_t low, uint32_t high)
{
    if (high - low == 1)
        return;
    const uint64_t *sums = d->sums;
    const uint32_t middle = low + (high - low) / 2;
    const uint64_t share = sums[middle] - sums[low], total = sums[high] - sums[low];
    const uint64_t left = left_count(i, share, total, d->offsets[middle]);
    /* within bounds: the count follows the quotient, except at the beginning of a phase, where the counts are small */
    const wide rest = (wide)i * share + (wide)(signed_wide)d->offsets[middle] - (wide)left * total;
    nodes[middle] = (struct node){(int64_t)rest, left, i - left};
    start_nodes(d, left, nodes, low, middle);
    start_nodes(d, i - left, nodes, middle, high);
}

void leat_mix_run(const struct leat_division *d, uint64_t i, size_t n, uint32_t *sources, uint64_t *ordinals)
{
    struct node nodes[LEAT_PLAN_MAX_SOURCES];
    const uint64_t *sums = d->sums;
    if (n < d->n / 4) { /* it costs more to start than to look each up */
        for (size_t r = 0; r < n; r++)
            sources[r] = leat_mix_pick(d, i + r, &ordinals[r]);
        return;
    }
    start_nodes(d, i, nodes, 0, d->n);
    for (size_t r = 0; r < n; r++) {
        uint32_t low = 0, high = d->n;
        uint64_t ordinal = i + r;
        while (high - low > 1) {
            const uint32_t middle = low + (high - low) / 2;
            const int64_t share = (int64_t)(sums[middle] - sums[low]), total = (int64_t)(sums[high] - sums[low]);
            struct node *node = &nodes[middle];
            const int64_t rest = node->rest + share;
            const bool goes_left = share && (rest >= total || share == total);
            node->rest = goes_left ? rest - total : rest;
            ordinal = goes_left ? node->left++ : node->right++;
            high = goes_left ? middle : high;
            low = goes_left ? low : middle;
        }
        sources[r] = low;
        ordinals[r] = ordinal;
    }
}
