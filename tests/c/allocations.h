/* Counts the allocations that the library makes in this process, and lets one of them fail. */
#ifndef LEAT_TESTS_ALLOCATIONS_H
#define LEAT_TESTS_ALLOCATIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "doubles.h"

static atomic_uint_fast64_t allocations_made;

static inline void *counted_allocate(size_t bytes)
{
    atomic_fetch_add_explicit(&allocations_made, 1, memory_order_relaxed);
    return malloc(bytes);
}

static inline void *counted_resize(void *p, size_t bytes)
{
    atomic_fetch_add_explicit(&allocations_made, 1, memory_order_relaxed);
    return realloc(p, bytes);
}

/* Allocations since the first call, which must be made before threads are started. */
static inline uint64_t library_allocations(void)
{
    if (test_allocator.allocate != counted_allocate)
        test_allocator = (struct test_allocator){counted_allocate, counted_resize, free};
    return atomic_load_explicit(&allocations_made, memory_order_relaxed);
}

static atomic_int_fast64_t allocations_left; /* until one fails; below 0: it has */

static inline void *scarce_allocate(size_t bytes)
{
    return atomic_fetch_sub(&allocations_left, 1) == 0 ? NULL : malloc(bytes);
}

static inline void *scarce_resize(void *p, size_t bytes)
{
    return atomic_fetch_sub(&allocations_left, 1) == 0 ? NULL : realloc(p, bytes);
}

/* From now on n allocations succeed, on whatever threads; the next one fails, and those behind it succeed again. */
static inline void fail_allocation(int64_t n)
{
    atomic_store(&allocations_left, n);
    test_allocator = (struct test_allocator){scarce_allocate, scarce_resize, free};
}

/* All succeed again. Returns whether it came to the one that failed. */
static inline bool allocation_failed(void)
{
    test_allocator = (struct test_allocator){malloc, realloc, free};
    return atomic_load(&allocations_left) < 0;
}

#endif
