/*
 * Philox for one width of vectors: included by loops_avx2.c and loops_avx512.c, which define SIMD
 * (kernels/simd.h) and NAMED. A lane of 64 bits has a word of a block in its low half, so a register holds the same
 * word of 4 or 8 blocks, and a multiplication gives both halves of a product at once. The high half is ignored.
 *
 *     lanes of 4 blocks    0 2 1 3        of 8    0 4 1 5 2 6 3 7
 *
 * In this order, putting the words of neighbouring lanes together gives blocks one behind the other.
 */
#include "kernels/philox.h"
#include "kernels/simd.h"

#if SIMD == 512
#define EACH(x) _mm512_set1_epi64((long long)(x))
#else
#define EACH(x) _mm256_set1_epi64x((long long)(x))
#endif

INLINE void philox_lanes(uint64_t key, uint32_t call, uint64_t first, uint32_t *out)
{
    enum { BLOCKS = WIDTH / 8 };
#if SIMD == 512
    const vec order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
#else
    const vec order = _mm256_setr_epi64x(0, 2, 1, 3);
#endif
    const vec low = EACH(0xffffffff);
    const vec m0 = EACH(LEAT_PHILOX_M0), m1 = EACH(LEAT_PHILOX_M1);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    const vec block = V(add_epi64)(EACH(first), order);
    vec c0 = block, c1 = V(srli_epi64)(block, 32), c2 = EACH(call), c3 = EACH(0);
    for (int round = 0; round < LEAT_PHILOX_ROUNDS; round++) {
        const vec p0 = V(mul_epu32)(m0, c0), p1 = V(mul_epu32)(m1, c2);
        c0 = V_XOR(V_XOR(V(srli_epi64)(p1, 32), c1), EACH(k0));
        c2 = V_XOR(V_XOR(V(srli_epi64)(p0, 32), c3), EACH(k1));
        c1 = p1;
        c3 = p0;
        k0 += LEAT_PHILOX_W0;
        k1 += LEAT_PHILOX_W1;
    }
    const vec front = V_OR(V_AND(c0, low), V(slli_epi64)(c1, 32)), back = V_OR(V_AND(c2, low), V(slli_epi64)(c3, 32));
    keep(out, V(unpacklo_epi64)(front, back));
    keep(out + 2 * BLOCKS, V(unpackhi_epi64)(front, back));
}

TARGET void NAMED(philox)(uint64_t key, uint32_t call, uint64_t first, size_t blocks, uint32_t *out)
{
    enum { BLOCKS = WIDTH / 8 };
    size_t i = 0;
    for (; i + BLOCKS <= blocks; i += BLOCKS)
        philox_lanes(key, call, first + i, out + 4 * i);
    if (i < blocks)
        leat_philox_portable(key, call, first + i, blocks - i, out + 4 * i);
}
