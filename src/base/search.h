/* Bisection, for numbers that ascend in whatever they stand in. */
#ifndef LEAT_BASE_SEARCH_H
#define LEAT_BASE_SEARCH_H

#include <stdint.h>

/* The first `i` in [from, to) for which `holds` is false; `to`: there is none. `holds` is an expression in i that is
 * true up to some place, and false from there on.
 *
 *     LEAT_BISECT(i, 0, n, firsts[i] <= x) - 1       the last number that is at most x
 *     LEAT_BISECT(i, 0, n, firsts[i] < x)            the first that is at least x
 */
#define LEAT_BISECT(i, from, to, holds)                                                                                \
    ({                                                                                                                 \
        uint64_t i##_low = (from), i##_high = (to);                                                                    \
        while (i##_low < i##_high) {                                                                                   \
            const uint64_t i = i##_low + (i##_high - i##_low) / 2;                                                     \
            if (holds)                                                                                                 \
                i##_low = i + 1;                                                                                       \
            else                                                                                                       \
                i##_high = i;                                                                                          \
        }                                                                                                              \
        i##_low;                                                                                                       \
    })

#endif
