/* Counted shapes of arrays: array_shapes.h. */
#include "format/array_shapes.h"

#include <string.h>

#include "base/alloc.h"

bool leat_array_shapes_add(struct leat_array_shapes *s, const struct leat_array_shape *like, uint64_t first,
                           size_t *number)
{
    size_t i = 0;
    while (i < s->n && memcmp(&s->at[i], like, offsetof(struct leat_array_shape, n)) != 0)
        i++;
    *number = i < LEAT_ARRAY_SHAPES_MOST ? i : SIZE_MAX;
    if (i == LEAT_ARRAY_SHAPES_MOST)
        return true;
    if (i == s->n) {
        if (!leat_grow(&s->at, &s->room, i + 1, sizeof *s->at))
            return false;
        s->at[s->n] = *like;
        s->at[s->n].n = 0;
        s->at[s->n].least = s->at[s->n].most = first;
        s->n++;
    }
    struct leat_array_shape *found = &s->at[i];
    found->n++;
    found->least = first < found->least ? first : found->least;
    found->most = first > found->most ? first : found->most;
    return true;
}

size_t leat_array_shapes_best(const struct leat_array_shape *shapes, size_t n, uint32_t column)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < n; i++)
        if (shapes[i].column == column && (best == SIZE_MAX || shapes[i].n > shapes[best].n))
            best = i;
    return best;
}

void leat_array_shape_take(const struct leat_array_shape *shape, struct leat_field *f)
{
    f->kind = LEAT_KIND_ARRAY;
    f->dtype = (enum leat_dtype)shape->dtype;
    f->ndim = shape->ndim;
    for (unsigned d = 0; d < f->ndim; d++)
        f->shape[d] = d                                             ? (int64_t)shape->shape[d]
                      : shape->least == shape->most && shape->least ? (int64_t)shape->least
                                                                    : -1;
}
