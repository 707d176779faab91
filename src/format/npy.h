/*
 * Arrays of NumPy's files (.npy), whose first axis counts rows:
 *
 *     \x93NUMPY | version 1.0, 2.0 or 3.0 | length of the header, u16 or u32 | header | elements in C order
 *
 * The header is text: {'descr': '<f4', 'fortran_order': False, 'shape': (672448, 172), }. Nothing is unpickled.
 */
#ifndef LEAT_FORMAT_NPY_H
#define LEAT_FORMAT_NPY_H

#include "io/file.h"

struct leat_npy_header {
    enum leat_dtype dtype;
    unsigned ndim; /* of a row */
    int64_t shape[LEAT_MAX_DIMS];
    uint64_t rows, row_bytes;
    uint64_t data; /* the byte at which the first row begins */
};

/* The longest header that is read. */
#define LEAT_NPY_HEAD (64 << 10)
/* Reads the header of a file that begins with these bytes. NULL: it is good; else a clause that says what it is. Pure.
 */
const char *leat_npy_header_read(const uint8_t *bytes, size_t n, struct leat_npy_header *out);

struct leat_npy {
    struct leat_npy_header header;
    struct leat_io_file *file;
    const uint8_t *rows; /* mapped: read them inside leat_guarded */
    uint8_t *memory;     /* or of a file that cannot be mapped */
};
/* The rows stay in place until it is closed. NOT_FOUND, FORMAT (no such file, or no numbers), CORRUPT (it is cut), IO,
 * NOMEM. */
int leat_npy_open(const char *path, struct leat_npy *out, struct leat_error *error);
void leat_npy_close(struct leat_npy *npy);

#endif
