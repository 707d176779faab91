/* Entries of Matrix Market files: lines of a row, a column and a value. */
#ifndef LEAT_FORMAT_MATRIX_MARKET_H
#define LEAT_FORMAT_MATRIX_MARKET_H

#include "leat/leat.h"

struct leat_matrix_lines {
    const char *path;
    uint64_t line; /* that of the next entry; counts on */
    uint64_t n_rows, n_columns;
    bool pattern;            /* lines have no values, which are 1 */
    int32_t *rows, *columns; /* from 0 on; room for as many as there are lines */
    double *values;
};

/* Reads whole lines, but for the last one, which may lack its end. Empty ones and those that begin with % are passed
 * over. *n: entries. Errors: CORRUPT, with line and byte of `text`. */
int leat_matrix_lines(struct leat_matrix_lines *lines, const char *text, size_t bytes, uint64_t *n,
                      struct leat_error *error);

#endif
