/* The index of a file of lines in memory: text_index.h. */
#include "format/text_index.h"

#include "base/alloc.h"
#include "base/search.h"

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
    const uint64_t n = LEAT_BISECT(i, 0, x->n_bad, x->bad[i].record <= record);
    *bad = n && x->bad[n - 1].record == record ? &x->bad[n - 1] : NULL;
    return n;
}
