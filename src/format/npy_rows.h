/*
 * A file of NumPy (npy.h) whose first axis counts rows of numbers, which are read where they lie.
 */
#ifndef LEAT_FORMAT_NPY_ROWS_H
#define LEAT_FORMAT_NPY_ROWS_H

#include "io/file.h"

struct leat_npy_rows {
    enum leat_dtype dtype;
    unsigned ndim; /* of a row */
    int64_t shape[LEAT_MAX_DIMS];
    uint64_t count, row_bytes;
    struct leat_io_file *file;
    const uint8_t *values; /* mapped: read them inside leat_guarded */
    uint8_t *memory;       /* or of a file that cannot be mapped */
};
/* The rows stay in place until it is closed. NOT_FOUND, FORMAT (no such file, or no rows of numbers), CORRUPT (it is
 * cut), IO, NOMEM. */
int leat_npy_rows_open(const char *path, struct leat_npy_rows *out, struct leat_error *error);
void leat_npy_rows_close(struct leat_npy_rows *rows);

#endif
