/*
 * Files of arrays whose first axis counts samples (.npy, .npz, safetensors): each array is a field. How values are
 * reached, of each array by itself:
 *
 *     as they are delivered, aligned, in a file that can be mapped    mapped in place
 *     as they are delivered, elsewhere                                extents of the file
 *     big-endian, or in the order of Fortran                          computed
 *
 * One pass over all values finds the fingerprint, which is that of the same values packed, and is kept
 * (arrays_sums.h, arrays_kept.h).
 */
#ifndef LEAT_FORMAT_ARRAYS_H
#define LEAT_FORMAT_ARRAYS_H

#include "format/npy.h"
#include "format/source.h"
#include "format/wanted.h"

/* More arrays than these are no fields of one data set. */
#define LEAT_ARRAYS_MOST 1024
/* Of compressed arrays, whose few bytes may stand for any number, no row is larger. */
#define LEAT_ARRAYS_COMPRESSED_ROW (UINT64_C(256) << 20)

struct leat_arrays_kept; /* arrays_kept.h */

/* An array, as its format finds it. */
struct leat_found_array {
    struct leat_npy npy;       /* dtype, order and shape; `header` is not used */
    struct leat_io_file *file; /* that has its values: a reference */
    uint64_t at;               /* where they begin there */
    bool compressed;           /* that file is decoded */
    bool checked;              /* it is to be compared that `crc` is the CRC-32 from crc_at to the end of the values */
    uint32_t crc;
    uint64_t crc_at;
};

/* What a format says of a file that it has opened. */
struct leat_arrays_in {
    const struct leat_source_vtable *v;
    const char *path;
    struct leat_io_file *file; /* the file itself: borrowed */
    size_t n;
    void *user;
    /* The name of array i as it stands in the file, of *length bytes. */
    const char *(*name)(void *user, size_t i, size_t *length);
    /* Fills array i, which is wanted as `wish` says (NULL: as it is), and is the field `name`. `kept`: what an index of
     * the file may have, and gets. FORMAT, INVALID, UNSUPPORTED, CORRUPT, IO, NOMEM. */
    int (*find)(void *user, size_t i, const char *name, const struct leat_field *wish, struct leat_arrays_kept *kept,
                struct leat_found_array *out, struct leat_error *error);
    const char *notice; /* "" or what was left out; copied */
};

/* The source of the arrays that the options want. INVALID (the first dimensions differ, names or types are not those of
 * the file), those of `find`, CORRUPT, IO, NOMEM, CANCELLED. */
int leat_arrays_open(const struct leat_arrays_in *in, const struct leat_open_options *options, struct leat_source **out,
                     struct leat_error *error);
/* Opens the file of a format of arrays, in blocks if it is on another machine. */
int leat_arrays_open_file(const char *path, struct leat_io_file **out, struct leat_error *error);
/* The error of an array that leat does not take, `fault` says why; `at`: where it is in the file. */
int leat_arrays_refuse(const char *path, uint64_t at, const char *name, bool pickled, const char *fault,
                       struct leat_error *error);

/* Fills `out` but for its file: bytes [at, at + bytes) of `file` are a .npy, and `name` the field that it is; `path` is
 * for errors. FORMAT, UNSUPPORTED, CORRUPT, IO (npy.c). */
int leat_npy_find(const char *path, struct leat_io_file *file, uint64_t at, uint64_t bytes, const char *name,
                  struct leat_found_array *out, struct leat_error *error);

/* For the tables of these formats. */
void leat_arrays_close(struct leat_source *source);
int leat_arrays_rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                     const void **rows, size_t *failed, struct leat_error *error);
int leat_arrays_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                        struct leat_extent *extents, size_t *failed, struct leat_error *error);
int leat_arrays_compute(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                        size_t n, struct leat_values *out, size_t *failed, struct leat_error *error);
int leat_arrays_file(struct leat_source *source, uint64_t file, struct leat_io_file **out, struct leat_error *error);
void leat_arrays_mark(struct leat_source *source, size_t field, uint64_t sample, bool verified,
                      enum leat_health health);
int leat_arrays_refresh(struct leat_source *source, struct leat_error *error);
int leat_arrays_column(struct leat_source *source, size_t field, const void **data, struct leat_error *error);
int leat_arrays_about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error);
#define LEAT_ARRAYS_VTABLE                                                                                             \
    .takes_fields = true, .close = leat_arrays_close, .rows = leat_arrays_rows, .extents = leat_arrays_extents,        \
    .compute = leat_arrays_compute, .file = leat_arrays_file, .mark = leat_arrays_mark,                                \
    .refresh = leat_arrays_refresh, .column = leat_arrays_column, .about = leat_arrays_about

#endif
