/*
 * The C side of kernel.h: a grid of threads that runs kernels on the processor, for tests. A card's thread is a call of
 * the kernel's function, a warp 32 of them in a row; blocks are taken in turn by a few threads of the system, so that a
 * race between blocks is one that ThreadSanitizer sees. Each load and store is checked: it lies at a multiple of its
 * size. `touched`, if it is set, is told of each load.
 */
#ifndef LEAT_DEVICE_KERNELS_GRID_H
#define LEAT_DEVICE_KERNELS_GRID_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

#define KERNEL_FUNCTION static inline
#define KERNEL_TABLE static const
#define KERNEL_UNROLL
#define KERNEL_ROLLED

struct grid_index {
    u32 x;
};
static _Thread_local struct grid_index threadIdx, blockIdx, blockDim, gridDim;

struct grid {
    void (*kernel)(const void *args);
    const void *args;
    u32 blocks, threads; /* threads of a block */
    /* Told of loads, by the number of the thread in the grid. Blocks then run one after the other. */
    void (*touched)(void *user, u64 thread, const void *p, u32 bytes);
    void *user;
    atomic_uint next;
};
static _Thread_local const struct grid *grid_here;

static inline void grid_check(const void *p, u32 bytes)
{
    if ((uintptr_t)p % bytes)
        abort(); /* a card would end the program's context */
}
static inline void kernel_load(const u8 *p, u32 bytes, u32 *parts)
{
    grid_check(p, bytes);
    if (grid_here->touched)
        grid_here->touched(grid_here->user, (u64)blockIdx.x * blockDim.x + threadIdx.x, p, bytes);
    parts[0] = 0;
    memcpy(parts, p, bytes); /* of a little-endian machine, as cards are */
}
static inline void kernel_store(u8 *p, u32 bytes, const u32 *parts)
{
    grid_check(p, bytes);
    memcpy(p, parts, bytes);
}
static inline u32 kernel_float_bits(float x)
{
    u32 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float kernel_bits_float(u32 bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline double kernel_bits_double(u64 bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline u32 kernel_ones(u64 x)
{
    return (u32)__builtin_popcountll(x);
}
static inline bool kernel_claim(u32 *word)
{
    u32 none = 0;
    return __atomic_compare_exchange_n(word, &none, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
static inline void kernel_publish(u32 *word, u32 value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static void *grid_work(void *arg)
{
    struct grid *grid = arg;
    grid_here = grid;
    blockDim.x = grid->threads;
    gridDim.x = grid->blocks;
    while ((blockIdx.x = atomic_fetch_add(&grid->next, 1)) < grid->blocks)
        for (threadIdx.x = 0; threadIdx.x < grid->threads; threadIdx.x++)
            grid->kernel(grid->args);
    return NULL;
}

/* Runs it to its end. */
static inline void grid_run(struct grid *grid)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    unsigned started = 0;
    while (!grid->touched && started < THREADS && !pthread_create(&threads[started], NULL, grid_work, grid))
        started++;
    grid_work(grid);
    while (started)
        pthread_join(threads[--started], NULL);
}

#endif
