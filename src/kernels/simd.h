/*
 * Vectors of x86-64, for loops that are written once and compiled for each width: included by a file that has defined
 * SIMD as 256 (AVX2) or 512 (AVX-512, with BW, VBMI, VBMI2 and VNNI).
 *
 *     TARGET, INLINE    what functions are compiled for
 *     WIDTH             bytes of a register
 *     vec, V(f)         a register, and the intrinsic function f of this width, as in V(add_epi16)(a, b)
 *     load, keep        a register from memory, and to memory, at any address
 *     in_lanes          16 bytes in each lane of 128 bits
 *     V_XOR and others  of all bits
 */
#ifndef LEAT_KERNELS_SIMD_H
#define LEAT_KERNELS_SIMD_H

#include <immintrin.h>

#include "base/cpu.h"

#define INLINE static inline __attribute__((always_inline)) TARGET
#define WIDTH (SIMD / 8)
#if SIMD == 512
#define TARGET LEAT_TARGET_AVX512
#define V(f) _mm512_##f
typedef __m512i vec;
#define V_LOAD(p) _mm512_loadu_si512(p)
#define V_KEEP(p, v) _mm512_storeu_si512(p, v)
#define V_LANES(x) _mm512_broadcast_i32x4(x)
#define V_XOR(a, b) _mm512_xor_si512(a, b)
#define V_AND(a, b) _mm512_and_si512(a, b)
#define V_OR(a, b) _mm512_or_si512(a, b)
#else
#define TARGET LEAT_TARGET_AVX2
#define V(f) _mm256_##f
typedef __m256i vec;
#define V_LOAD(p) _mm256_loadu_si256(p)
#define V_KEEP(p, v) _mm256_storeu_si256(p, v)
#define V_LANES(x) _mm256_broadcastsi128_si256(x)
#define V_XOR(a, b) _mm256_xor_si256(a, b)
#define V_AND(a, b) _mm256_and_si256(a, b)
#define V_OR(a, b) _mm256_or_si256(a, b)
#endif

INLINE vec load(const void *p)
{
    return V_LOAD(p);
}

INLINE void keep(void *p, vec v)
{
    V_KEEP(p, v);
}

INLINE vec in_lanes(__m128i x)
{
    return V_LANES(x);
}

#endif
