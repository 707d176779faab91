/* A growing run of bytes, in which groups and sections are built. Keeps its memory when emptied, so that a writer's
 * buffers are allocated once and not once per group. */
#ifndef LEAT_STORE_GROWING_H
#define LEAT_STORE_GROWING_H

#include <string.h>

#include "base/alloc.h"
#include "leat/leat.h"

struct leat_growing {
    uint8_t *data;
    size_t length, room;
};

/* Makes room for `more` bytes after `length`; false when memory is out. */
static inline bool leat_growing_reserve(struct leat_growing *g, uint64_t more)
{
    uint64_t need, room = g->room ? g->room : 4096;
    if (!leat_add_u64(g->length, more, &need) || need > SIZE_MAX / 2)
        return false;
    if (need <= g->room)
        return true;
    while (room < need)
        room += room / 2 + 4096;
    uint8_t *data = leat_realloc_array(g->data, 1, room);
    if (!data)
        return false;
    g->data = data;
    g->room = room;
    return true;
}

/* Appends `length` bytes and returns their place, unfilled (NULL: memory is out). */
static inline uint8_t *leat_growing_extend(struct leat_growing *g, uint64_t length)
{
    if (!leat_growing_reserve(g, length ? length : 1))
        return NULL;
    uint8_t *place = g->data + g->length;
    g->length += length;
    return place;
}

static inline bool leat_growing_append(struct leat_growing *g, const void *data, uint64_t length)
{
    uint8_t *place = leat_growing_extend(g, length);
    if (place && length)
        memcpy(place, data, length);
    return place != NULL;
}

/* Appends zeros up to the next multiple of `alignment` (a power of two) of the length. */
static inline bool leat_growing_align(struct leat_growing *g, size_t alignment)
{
    size_t pad = (alignment - (g->length & (alignment - 1))) & (alignment - 1);
    uint8_t *place = leat_growing_extend(g, pad);
    if (place)
        memset(place, 0, pad);
    return place != NULL;
}

static inline void leat_growing_destroy(struct leat_growing *g)
{
    leat_free(g->data);
    memset(g, 0, sizeof *g);
}

#endif
