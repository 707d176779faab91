/*
 * Counter-based random numbers: every draw is a pure function of a key and a counter, so that no generator has state
 * to save, share or lock.
 *
 *     leat_key_mix     derives a key from a key and a number: seed -> epoch -> row -> operator instance
 *     leat_draw_*      the i-th draw under a key
 *
 * The mixing function is SplitMix64's finaliser (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
 * OOPSLA 2014), applied twice with distinct odd constants so that related keys give unrelated streams. These functions
 * are part of the plan version (docs/stability.md): they never change.
 */
#ifndef LEAT_BASE_RANDOM_H
#define LEAT_BASE_RANDOM_H

#include <stdint.h>

static inline uint64_t leat_mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return x;
}

static inline uint64_t leat_key_mix(uint64_t key, uint64_t value)
{
    return leat_mix64(leat_mix64(key + UINT64_C(0x9e3779b97f4a7c15)) ^
                      (value * UINT64_C(0xd1342543de82ef95) + UINT64_C(0x2545f4914f6cdd1d)));
}

static inline uint64_t leat_draw_u64(uint64_t key, uint64_t counter)
{
    return leat_mix64(leat_mix64(key + (counter + 1) * UINT64_C(0x9e3779b97f4a7c15)));
}

/* Uniform in [0, 1), 53 bits. */
static inline double leat_draw_unit(uint64_t key, uint64_t counter)
{
    return (double)(leat_draw_u64(key, counter) >> 11) * 0x1.0p-53;
}

/* Uniform in [0, n), n > 0, by multiplication (Lemire 2019) without rejection: bias below n / 2^64. */
static inline uint64_t leat_draw_below(uint64_t key, uint64_t counter, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)leat_draw_u64(key, counter) * n) >> 64);
}

#endif
