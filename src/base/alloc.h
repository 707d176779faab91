/*
 * Allocation for all layers. It has one place, so that a test can count allocations and make the n-th one fail, and so
 * that sizes from outside go through overflow-checked arithmetic.
 */
#ifndef LEAT_BASE_ALLOC_H
#define LEAT_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A door to the system: a test program may link a function of its own in the place of it (tests/c/doubles.h). */
#define LEAT_REPLACEABLE __attribute__((weak))

/* malloc, realloc, which is not given NULL, and free. */
void *leat_system_allocate(size_t bytes);
void *leat_system_resize(void *p, size_t bytes);
void leat_system_release(void *p);

/* NULL when memory is out or the size overflows. leat_new_array zeroes. */
void *leat_alloc(size_t bytes);
void *leat_new_array(size_t count, size_t bytes_each);
void *leat_realloc_array(void *p, size_t count, size_t bytes_each);
char *leat_strdup(const char *text);
/* `array`: the address of a pointer to an array with room for *room elements. Makes it at least `count`, and then twice
 * as many as before. False: memory is out, and nothing has changed. */
bool leat_grow(void *array, size_t *room, size_t count, size_t bytes_each);
#define leat_new(type) ((type *)leat_new_array(1, sizeof(type)))
/* leat_free is public: leat/leat.h */

/* The next multiple of 64. */
static inline uint64_t leat_align64(uint64_t n)
{
    return (n + 63) & ~UINT64_C(63);
}
/* Of memory that is laid out part by part: the place of the next `bytes`. */
static inline uint64_t leat_take64(uint64_t *used, uint64_t bytes)
{
    const uint64_t at = *used;
    *used += leat_align64(bytes);
    return at;
}

/* Overflow-checked arithmetic: false, and *out untouched, when the result does not fit. */
static inline bool leat_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}
static inline bool leat_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

#endif
