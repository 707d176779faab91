/*
 * libleat: data sets of arrays that lie in files, whole or in chunks, as HDF5, Zarr and SCDL have them. Who opens such
 * a file says where its chunks are and how they were encoded (in Python, h5py and zarr know that); reading, decoding
 * and checking them is done here.
 */
#ifndef LEAT_STORED_H
#define LEAT_STORED_H

#include "leat/leat.h"

#ifdef __cplusplus
extern "C" {
#endif

enum leat_stored_filter_kind {
    LEAT_FILTER_ZLIB = 1, /* deflate with the header of zlib, as HDF5 writes it */
    LEAT_FILTER_GZIP,
    LEAT_FILTER_ZSTD,
    LEAT_FILTER_LZF,        /* by liblzf, which is loaded when a chunk needs it */
    LEAT_FILTER_BLOSC,      /* of version 1; by libblosc, likewise */
    LEAT_FILTER_SHUFFLE,    /* `arg`: bytes of an element */
    LEAT_FILTER_FLETCHER32, /* a checksum of 4 bytes at the end, of HDF5 */
    LEAT_FILTER_CRC32C,     /* likewise, of Zarr */
    LEAT_FILTER_SWAP,       /* `arg`: bytes of an element, in the other order */
    LEAT_FILTER_DEFLATE,    /* without a header, as in a zip */
    LEAT_FILTER_BZIP2,      /* by libbz2, loaded likewise */
    LEAT_FILTER_BROTLI,     /* by libbrotlidec */
    LEAT_FILTER_SNAPPY      /* a block without frames; by libsnappy */
};
struct leat_stored_filter {
    enum leat_stored_filter_kind kind;
    unsigned arg;
};
#define LEAT_STORED_FILTERS 8
#define LEAT_STORED_DIMS 8
#define LEAT_STORED_MISSING UINT64_MAX

struct leat_stored_chunk {
    uint64_t offset; /* in its file; LEAT_STORED_MISSING: it was not written, and has the fill value */
    uint64_t bytes;  /* LEAT_STORED_MISSING: those of its file */
    uint32_t file;   /* index into `files` */
    uint32_t mask;   /* bit i: filter i was left out */
};

/* An array of at least one dimension, in the order of C. Of size 0 in any dimension it has no chunks. */
struct leat_stored_array {
    const char *name; /* in errors, "X/data" */
    uint32_t item;    /* bytes of an element, from 1 to 16 */
    unsigned ndim;
    uint64_t shape[LEAT_STORED_DIMS];
    /* Chunks in the order of C of their grid; those at the end of a dimension are whole, and what is beyond the array
     * is of no meaning. A chunk has at most 4 GiB, and so have the chunks of one place in the first dimension together.
     * n_chunks 0: the array lies at `offset` of file 0 as it is, but for filters of SWAP. */
    uint64_t chunk[LEAT_STORED_DIMS];
    const struct leat_stored_chunk *chunks;
    uint64_t n_chunks, offset;
    struct leat_stored_filter filters[LEAT_STORED_FILTERS]; /* in the order in which they were applied */
    unsigned n_filters;
    uint8_t fill[16];
    /* Paths; a file of which `sizes` says the size and `times` the time of its last change (ns; 0: not known) has to
     * have them when it is opened, else LEAT_E_CHANGED. */
    const char *const *files;
    const uint64_t *sizes;
    const int64_t *times;
    uint64_t n_files;
};

/* The one field of a data set: a row of `values` for each sample. Or, if `columns` is set, sparse rows: those of sample
 * i are values and columns `pointers`[i] to `pointers`[i + 1], of two arrays of one dimension. */
struct leat_stored_rows {
    struct leat_field field;
    struct leat_stored_array values;
    enum leat_dtype value_dtype; /* of values in the file, which become those of the field; 0: they are these */
    const struct leat_stored_array *columns; /* unsigned or signed integers, by `column_dtype` */
    enum leat_dtype column_dtype;
    const int64_t *pointers; /* count + 1 */
    /* NULL, or for each column of the file that of the field (for dense rows, too); -1: it is left out. No two are one
     * column, and columns of the field that are none of them are 0. */
    const int32_t *map;
    uint64_t n_map; /* columns of the file */
};

/* Lines of a Matrix Market file: a row, a column and a value each, counted from 1 there. */
struct leat_matrix_lines {
    const char *path;
    uint64_t line; /* that of the next entry; counts on */
    uint64_t n_rows, n_columns;
    bool pattern;            /* lines have no values, which are 1 */
    int32_t *rows, *columns; /* from 0 on; room for as many as there are lines */
    double *values;
};
/* Reads whole lines, but for the last one, which may lack its end. Empty ones and those that begin with % are passed
 * over. *n: entries. Errors: CORRUPT, with the line. */
LEAT_API int leat_matrix_lines(struct leat_matrix_lines *lines, const char *text, size_t bytes, uint64_t *n,
                               struct leat_error *error);

/* Reads elements [first, first + n) of an array into `to`, decoded, in the order of bytes of this machine if its
 * filters say so. Errors: INVALID, UNSUPPORTED, DECODE (damaged, with file and byte), CHANGED, IO, NOMEM. */
LEAT_API int leat_stored_read(const struct leat_stored_array *array, uint64_t first, uint64_t n, void *to,
                              struct leat_error *error);

/* Everything is copied but `pointers`, `map` and tables of chunks, which stay the caller's until `release` (may be
 * NULL) is called with `user`, on any thread; if this function fails, it is not called. `version` names the content:
 * the fingerprint is made of it, the schema and the count.
 *
 * A sample whose bytes are damaged, or whose columns are not those of a row (beyond the field's, one twice, more than
 * there are), is broken; columns that do not rise are put in order. Decoded chunks are kept in the cache of blocks
 * (LEAT_CACHE_BYTES).
 * Errors: INVALID (sizes, a map), CORRUPT (pointers that fall or lead beyond the arrays), UNSUPPORTED, NOMEM. */
LEAT_API int leat_dataset_from_stored(const struct leat_stored_rows *rows, uint64_t count, const char *version,
                                      void (*release)(void *user), void *user, struct leat_dataset **out,
                                      struct leat_error *error);

#ifdef __cplusplus
}
#endif

#endif
