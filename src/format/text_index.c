/* The index of a file of lines in memory: text_index.h. */
#include "format/text_index.h"

#include "base/alloc.h"

void *leat_text_index_room(struct leat_text_index *x, uint64_t count, size_t each)
{
    if (!leat_grow(&x->owned, &x->owned_room, x->n_owned + 1, sizeof *x->owned))
        return NULL;
    void *room = count < SIZE_MAX ? leat_new_array((size_t)count + !count, each) : NULL;
    if (room)
        x->owned[x->n_owned++] = room;
    return room;
}

void leat_text_index_destroy(struct leat_text_index *x)
{
    for (size_t i = 0; i < x->n_owned; i++)
        leat_free(x->owned[i]);
    leat_free(x->owned);
    leat_property_tree_destroy(&x->tree);
    leat_io_release(x->file);
    *x = (struct leat_text_index){0};
}

uint64_t leat_text_index_bad(const struct leat_text_index *x, uint64_t record, const struct leat_text_bad **bad)
{
    uint64_t low = 0, high = x->n_bad; /* the first that is behind `record` */
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (x->bad[middle].record <= record)
            low = middle + 1;
        else
            high = middle;
    }
    *bad = low && x->bad[low - 1].record == record ? &x->bad[low - 1] : NULL;
    return low;
}
