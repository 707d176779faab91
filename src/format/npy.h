/*
 * The header of an array file of NumPy (.npy), which is a literal of Python:
 *
 *     "\x93NUMPY" | version 1, 0 | u16 length | {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } spaces \n
 *     versions 2, 3: u32 length
 *
 * It is read by a grammar of dict, tuple, list, string, int and bool; nothing is evaluated, and arrays of objects,
 * which are pickles, are only recognised.
 */
#ifndef LEAT_FORMAT_NPY_H
#define LEAT_FORMAT_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

/* A longer header is none that leat reads. */
#define LEAT_NPY_HEADER 4096

struct leat_npy {
    enum leat_dtype dtype;
    bool swapped; /* big-endian */
    bool fortran; /* the first index runs fastest */
    bool pickled; /* it holds objects: then there is a fault, too */
    unsigned ndim;
    uint64_t shape[LEAT_MAX_DIMS + 1]; /* rows of what a field may have as a row */
    uint64_t header;                   /* bytes before the values */
    uint64_t bytes;                    /* of the values */
};

bool leat_npy_recognise(const void *data, size_t n);
/* Reads the header of a file of which the first n bytes are there. NULL, or what is wrong with it, for messages. */
const char *leat_npy_read(const void *data, size_t n, struct leat_npy *out);
/* Reads the dtype as `dtype.descr` is in JSON, [["", "<f4"]], into dtype, swapped and pickled. NULL, or what is wrong.
 */
const char *leat_npy_descr(const char *text, size_t n, struct leat_npy *out);
/* Writes the values in the order of C and of this machine. `to` has room for npy->bytes, and is not `values`. */
void leat_npy_values(const struct leat_npy *npy, const uint8_t *values, uint8_t *to);

#endif
