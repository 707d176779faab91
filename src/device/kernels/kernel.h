/*
 * The language of kernels. A kernel is one source that is compiled twice: for a card by NVRTC, which gets this header
 * and the kernel's as texts (meson.build), and by the C compiler, for tests, which run it as a grid of threads
 * (grid.h). So kernels are written in what C and CUDA have in common: no templates, no warp functions, no shared
 * memory; all that touches memory, but for structs, goes through the functions named here, which the C side checks and
 * counts.
 *
 *     KERNEL_FUNCTION      begins a function of a kernel; it is inlined, so that constant arguments are constants
 *     KERNEL_TABLE         begins a table of constants
 *     KERNEL_UNROLL        before a loop whose bounds are constant then
 *     KERNEL_ROLLED        before a loop whose body is long: it stays one
 *     kernel_load_*        reads 1 to 16 bytes at a multiple of as many: into 32-bit parts, the lowest bytes first
 *     kernel_store_*       writes them
 *     kernel_ones          counts the ones of 64 bits
 *     kernel_claim         sets a word from 0 to 1: true for one of those that try
 *     kernel_publish       sets a word, after all that this thread has written
 */
#ifndef LEAT_DEVICE_KERNELS_KERNEL_H
#define LEAT_DEVICE_KERNELS_KERNEL_H

#ifdef __CUDACC__

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define KERNEL_FUNCTION static __device__ __forceinline__
#define KERNEL_TABLE static __device__ const
#define KERNEL_UNROLL _Pragma("unroll")
#define KERNEL_ROLLED _Pragma("unroll 1")

KERNEL_FUNCTION u32 kernel_float_bits(float x)
{
    return __float_as_uint(x);
}
KERNEL_FUNCTION float kernel_bits_float(u32 bits)
{
    return __uint_as_float(bits);
}
KERNEL_FUNCTION double kernel_bits_double(u64 bits)
{
    return __longlong_as_double((s64)bits);
}
KERNEL_FUNCTION void kernel_load(const u8 *p, u32 bytes, u32 *parts)
{
    if (bytes == 16) {
        const uint4 v = *(const uint4 *)p;
        parts[0] = v.x;
        parts[1] = v.y;
        parts[2] = v.z;
        parts[3] = v.w;
    } else if (bytes == 8) {
        const uint2 v = *(const uint2 *)p;
        parts[0] = v.x;
        parts[1] = v.y;
    } else {
        parts[0] = bytes == 4 ? *(const u32 *)p : bytes == 2 ? *(const u16 *)p : *p;
    }
}
KERNEL_FUNCTION void kernel_store(u8 *p, u32 bytes, const u32 *parts)
{
    if (bytes == 16)
        *(uint4 *)p = make_uint4(parts[0], parts[1], parts[2], parts[3]);
    else if (bytes == 8)
        *(uint2 *)p = make_uint2(parts[0], parts[1]);
    else if (bytes == 4)
        *(u32 *)p = parts[0];
    else if (bytes == 2)
        *(u16 *)p = (u16)parts[0];
    else
        *p = (u8)parts[0];
}
KERNEL_FUNCTION u32 kernel_ones(u64 x)
{
    return (u32)__popcll(x);
}
KERNEL_FUNCTION bool kernel_claim(u32 *word)
{
    return atomicCAS_system(word, 0u, 1u) == 0; /* the host clears it */
}
KERNEL_FUNCTION void kernel_publish(u32 *word, u32 value)
{
    __threadfence_system();
    *(volatile u32 *)word = value;
}

#else
#include "device/kernels/grid.h"
#endif

#endif
