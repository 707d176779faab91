/*
 * A keyed permutation of [0, n) in O(1) memory: a Feistel network over the smallest even number of bits that holds n, walked
 * until it lands inside (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). Part of the plan
 * version: it never changes.
 */
#ifndef LEAT_PLAN_PERMUTE_H
#define LEAT_PLAN_PERMUTE_H

#include <stdint.h>

struct leat_permutation {
    uint64_t n, key;
    unsigned half_bits;
};

/* n >= 1 */
struct leat_permutation leat_permutation_init(uint64_t n, uint64_t key);
/* The image of i < n. */
uint64_t leat_permute(const struct leat_permutation *p, uint64_t i);

#endif
