/*
 * Rows of sparse matrices whose columns are to rise: n values, then their columns (LEAT_ROLE_SPARSE). The columns of a
 * row are put into a set, a bit for each; the rank of a column in it is its place in the row, so nothing is sorted.
 *
 * A bit of a word that is set waits for the bit before, if that is in the same word, as it often is. So a byte is set
 * for each column instead, where there is memory for that, and bits are made of bytes 32 at a time.
 */
#ifndef LEAT_KERNELS_SPARSE_H
#define LEAT_KERNELS_SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

/* Makes of n columns of an integer type those of a row: int32. Returns n, or the first that is not from 0 to most - 1,
 * of at most INT32_MAX; then `to` is undefined. Columns may lie anywhere, and in a mapping that somebody writes to:
 * what was found good is what is in `to`; they are looked at once more for the first that is not, which may be any
 * then. */
size_t leat_columns_take(enum leat_dtype dtype, const void *stored, size_t n, uint64_t most, int32_t *to);
/* Whether each of n columns is more than the one before. */
bool leat_columns_rise(const void *columns, size_t n);
/* Whether the columns of a sparse row of n values rise, from 0 on, and are below `columns`. */
bool leat_sparse_rises(const uint8_t *row, enum leat_dtype item, size_t n, int64_t columns);

/* 64 columns: those in the set, and how many there are before these 64. */
struct leat_column_word {
    uint64_t bits, before;
};

static inline size_t leat_column_words(size_t columns)
{
    return columns / 64 + 1;
}

/* Makes the set of n columns, which are below 64 * n_words. Returns how many are in it: fewer than n if one stands
 * twice. `bytes`: NULL, or memory of 64 * n_words bytes, all 0, which it leaves so; with it, many columns take 0.6 of
 * the time. */
size_t leat_columns_collect(struct leat_column_word *words, size_t n_words, uint8_t *bytes, const int32_t *columns,
                            size_t n);
/* Columns that fall, as Cell Ranger writes them, or that are some parts which fall, each above the one before, as
 * joined cells have them, need only be turned. Returns the number of parts, of at least eight columns on average, and
 * in `ends`, which has room for n + 1, where each ends; 0: they are no such parts. */
size_t leat_columns_parts(const int32_t *columns, size_t n, uint32_t *ends);
/* Makes the row of such columns. The value of column k is the k-th of `item` bytes (1, 2, 4 or 8) at `values`. */
void leat_columns_turn(const int32_t *columns, const uint32_t *ends, size_t n_parts, const uint8_t *values, size_t item,
                       size_t n, uint8_t *to);
/* The first place at which a column stands for the second time; n: none. Leaves the set undefined. */
size_t leat_columns_twice(struct leat_column_word *words, size_t n_words, const int32_t *columns, size_t n);
/* Makes the row of n columns that are all in the set, each once. The value of column k is the places[k]-th of `item`
 * bytes (1, 2, 4 or 8) at `values`; `places` NULL: the k-th. Nothing need be aligned. */
void leat_columns_put(const struct leat_column_word *words, const int32_t *columns, const uint32_t *places,
                      const uint8_t *values, size_t item, size_t n, uint8_t *to);

#endif
