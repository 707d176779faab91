/*
 * Sparse rows as operators take them: n values, then their columns, which rise (LEAT_ROLE_SPARSE). Rows need not be
 * aligned. The functions are those of op_sparse.c.
 */
#ifndef LEAT_OP_SPARSE_H
#define LEAT_OP_SPARSE_H

#include <string.h>

#include "base/role.h"
#include "op/token_ops.h"

/* The values of a row as an operator takes it: all of a dense one. */
static inline size_t leat_sparse_count(const struct leat_use *use, uint64_t length)
{
    return (size_t)(use->in.columns ? length / leat_type_step(&use->in) : length / leat_dtype_size(use->in.dtype));
}

static inline enum leat_dtype leat_sparse_item(const struct leat_type *type)
{
    return type->columns ? type->item : type->dtype;
}

/* Whoever makes sparse rows vouches for their columns; this is the last place before memory is read or written by them.
 * DECODE. */
int leat_sparse_check(const struct leat_use *use, const char *output, const uint8_t *row, size_t n,
                      struct leat_error *error);
/* Whether a type is a sparse row, or a dense one of numbers that has as many columns; `columns` says how many. */
bool leat_sparse_columns(const struct leat_type *type, int64_t *columns);

#endif
