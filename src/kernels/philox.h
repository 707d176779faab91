/*
 * Philox4x32-10, block by block (include/leat/random.h defines a block), and the normal distribution's inverse: once in
 * C, and the blocks once for each width of vectors (philox_kernels.h).
 */
#ifndef LEAT_KERNELS_PHILOX_H
#define LEAT_KERNELS_PHILOX_H

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

#define LEAT_PHILOX_ROUNDS 10
#define LEAT_PHILOX_M0 UINT32_C(0xd2511f53)
#define LEAT_PHILOX_M1 UINT32_C(0xcd9e8d57)
#define LEAT_PHILOX_W0 UINT32_C(0x9e3779b9)
#define LEAT_PHILOX_W1 UINT32_C(0xbb67ae85)

LEAT_INLINE void leat_philox_block(uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < LEAT_PHILOX_ROUNDS; round++) {
        const uint64_t p0 = (uint64_t)LEAT_PHILOX_M0 * c0, p1 = (uint64_t)LEAT_PHILOX_M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += LEAT_PHILOX_W0;
        k1 += LEAT_PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Blocks [first, first + blocks) of a key and call, four words each. */
typedef void (*leat_philox_fn)(uint64_t key, uint32_t call, uint64_t first, size_t blocks, uint32_t *out);

void leat_philox_portable(uint64_t key, uint32_t call, uint64_t first, size_t blocks, uint32_t *out);
void leat_philox_avx2(uint64_t key, uint32_t call, uint64_t first, size_t blocks, uint32_t *out);
void leat_philox_avx512(uint64_t key, uint32_t call, uint64_t first, size_t blocks, uint32_t *out);

#endif
