/*
 * A keyed permutation of [0, n) in O(1) memory: a Feistel network over a rectangle a x b that just holds n, walked
 * until it lands inside (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). Part of the plan
 * version (docs/stability.md): it never changes.
 */
#ifndef LEAT_BASE_PERMUTE_H
#define LEAT_BASE_PERMUTE_H

#include <stddef.h>
#include <stdint.h>

#define LEAT_PERMUTE_MAX_ROUNDS 20

struct leat_permutation {
    uint64_t n;
    uint64_t a, b;       /* the rectangle: a = ceil(sqrt(n)), b = ceil(n / a), so a * b < n + a */
    uint64_t reciprocal; /* of b, to divide by multiplying */
    unsigned rounds;
    uint64_t keys[LEAT_PERMUTE_MAX_ROUNDS];
};

/* 1 <= n <= 2^63. */
struct leat_permutation leat_permutation_init(uint64_t n, uint64_t key);
/* The image of i < n. Any thread; some 15 ns, 30 below 256. */
uint64_t leat_permute(const struct leat_permutation *p, uint64_t i);
/* Replaces each of n values by its image: several times faster than one by one. */
void leat_permute_many(const struct leat_permutation *p, uint64_t *values, size_t n);

#endif
