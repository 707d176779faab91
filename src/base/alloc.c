/*
 * The allocator behind base/alloc.h.
 */
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#include "leat/leat.h"

LEAT_REPLACEABLE void *leat_system_allocate(size_t bytes)
{
    return malloc(bytes);
}

LEAT_REPLACEABLE void *leat_system_resize(void *p, size_t bytes)
{
    return realloc(p, bytes);
}

LEAT_REPLACEABLE void leat_system_release(void *p)
{
    free(p);
}

void *leat_alloc(size_t bytes)
{
    return leat_system_allocate(bytes ? bytes : 1);
}

void *leat_new_array(size_t count, size_t bytes_each)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, bytes_each, &bytes))
        return NULL;
    void *p = leat_alloc(bytes);
    if (p)
        memset(p, 0, bytes);
    return p;
}

void *leat_realloc_array(void *p, size_t count, size_t bytes_each)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, bytes_each, &bytes))
        return NULL;
    if (!p)
        return leat_alloc(bytes);
    return leat_system_resize(p, bytes ? bytes : 1);
}

bool leat_grow(void *array, size_t *room, size_t count, size_t bytes_each)
{
    void *p;
    if (count <= *room)
        return true;
    const size_t twice = *room < 8 ? 16 : 2 * *room, more = twice > count ? twice : count;
    memcpy(&p, array, sizeof p);
    p = leat_realloc_array(p, more, bytes_each);
    if (!p)
        return false;
    memcpy(array, &p, sizeof p);
    *room = more;
    return true;
}

char *leat_strdup(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = leat_alloc(n);
    if (copy)
        memcpy(copy, text, n);
    return copy;
}

void leat_free(void *p)
{
    leat_system_release(p);
}
