/*
 * Which source the i-th row of a mixture comes from, without replaying the rows before it.
 *
 * The sources are the leaves of a binary tree. Of i rows that reach a node, round(i * L / T) go to its left half, where
 * L and T are the shares of the left half and of the node. So the counts at i and i + 1 say whether row i goes left,
 * and the count at i is its number within that half. A count is off by at most 1/2 per level: a source's count is
 * within ceil(log2 K) / 2 of its share for every i. All arithmetic is in integers, and so the same on every machine.
 *
 *                 [0, 4)             row 6, shares 1/2 1/4 1/8 1/8:  round(6/2) = 3, round(7/2) = 4: left, as its row 3
 *             [0, 2)  [2, 4)                                      [0, 2): round(3*2/3) = 2, round(4*2/3) = 3: source 0
 */
#include <math.h>

#include "base/error.h"
#include "plan/internal.h"

int leat_shares_set(const double *shares, uint32_t n, uint64_t *sums, struct leat_error *error)
{
    const uint64_t whole = UINT64_C(1) << LEAT_SHARE_BITS;
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
    uint64_t sum = 0, best = 0;
    uint32_t largest = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint64_t part = (uint64_t)(shares[k] / total * (double)whole);
        if (!part && shares[k] > 0)
            part = 1;
        if (part > best) {
            best = part;
            largest = k;
        }
        sums[k] = part;
        sum += part;
    }
    sums[largest] = sums[largest] + whole - sum; /* the error of rounding: at most n, of at least 2^32 / n */
    uint64_t before = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint64_t part = sums[k];
        sums[k] = before;
        before += part;
    }
    sums[n] = before;
    return LEAT_OK;
}

static uint64_t left_count(uint64_t i, uint64_t left, uint64_t total)
{
    if (i >> 31)
        return (uint64_t)(((unsigned __int128)i * left + total / 2) / total);
    return (i * left + total / 2) / total;
}

uint32_t leat_shares_pick(const uint64_t *sums, uint32_t n, uint64_t i, uint64_t *ordinal)
{
    uint32_t low = 0, high = n;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        uint64_t left = sums[middle] - sums[low],
                 total = sums[high] - sums[low]; /* above 0: a node without share gets no row */
        uint64_t count = left_count(i, left, total);
        if (left_count(i + 1, left, total) > count) {
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

uint64_t leat_shares_count(const uint64_t *sums, uint32_t n, uint64_t i, uint32_t k)
{
    uint32_t low = 0, high = n;
    while (high - low > 1 && i) {
        uint32_t middle = low + (high - low) / 2;
        uint64_t total = sums[high] - sums[low], count = total ? left_count(i, sums[middle] - sums[low], total) : 0;
        if (k < middle) {
            high = middle;
            i = count;
        } else {
            low = middle;
            i -= count;
        }
    }
    return i;
}
