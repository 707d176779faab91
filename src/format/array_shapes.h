/*
 * Which arrays the values of columns are, counted while they are found: a field is of the type that most of them have.
 * A pass over files fills the list, and it is kept with their index.
 */
#ifndef LEAT_FORMAT_ARRAY_SHAPES_H
#define LEAT_FORMAT_ARRAY_SHAPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

/* The arrays of one column that have the same type, and shape but for the first dimension. */
struct leat_array_shape {
    uint32_t column, dtype, ndim, order; /* order: 1 Fortran's, 2 big-endian, 3 both */
    uint64_t shape[LEAT_MAX_DIMS];       /* 0 for the first */
    uint64_t n, least, most;             /* arrays; of the first dimension */
};
#define LEAT_ARRAY_SHAPES_MOST 1024 /* in one list; arrays of others count as none */

struct leat_array_shapes {
    struct leat_array_shape *at; /* freed by the owner */
    size_t n, room;
};
/* Counts an array of that shape, of which `first` is the first dimension; *number: its place in the list, SIZE_MAX if
 * there are too many. `like`: column, dtype, ndim, order and shape. False: no memory. */
bool leat_array_shapes_add(struct leat_array_shapes *shapes, const struct leat_array_shape *like, uint64_t first,
                           size_t *number);
/* The shape that most arrays of a column have; SIZE_MAX: it has none. */
size_t leat_array_shapes_best(const struct leat_array_shape *shapes, size_t n, uint32_t column);
/* The type of a field of such arrays: the first dimension varies unless it is the same in all. */
void leat_array_shape_take(const struct leat_array_shape *shape, struct leat_field *field);

#endif
