/* Counts the allocations that the library makes in this process. */
#ifndef LEAT_TESTS_ALLOCATIONS_H
#define LEAT_TESTS_ALLOCATIONS_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"

static atomic_uint_fast64_t allocations_made;

static void *counted_allocate(size_t bytes)
{
    atomic_fetch_add_explicit(&allocations_made, 1, memory_order_relaxed);
    return malloc(bytes);
}

static void *counted_resize(void *p, size_t bytes)
{
    atomic_fetch_add_explicit(&allocations_made, 1, memory_order_relaxed);
    return realloc(p, bytes);
}

/* Allocations since the first call, which must be made before threads are started. */
static uint64_t library_allocations(void)
{
    if (leat_allocator.allocate != counted_allocate)
        leat_allocator = (struct leat_allocator){counted_allocate, counted_resize, free};
    return atomic_load_explicit(&allocations_made, memory_order_relaxed);
}

#endif
