/*
 * The values of arrays (arrays.h), and the pass over all of them that finds their fingerprint.
 *
 * The sums of a sample mix its fields in their order, so each choice of fields has sums of its own. They are kept
 * (arrays_kept.h): of a choice that was opened before, and whose file is as it was, no value is read. Beside the file
 * they are kept if there are many values, in `index_dir` of any.
 */
#ifndef LEAT_FORMAT_ARRAYS_SUMS_H
#define LEAT_FORMAT_ARRAYS_SUMS_H

#include "format/arrays.h"
#include "format/arrays_kept.h"

/* From so many bytes of values on sums are kept beside the file. */
#define LEAT_ARRAYS_KEPT (UINT64_C(16) << 20)

struct leat_array_column {
    char name[LEAT_FIELD_NAME];
    struct leat_io_file *file;
    uint64_t at, row_bytes;
    struct leat_npy row; /* one of its rows: how it stands in the file */
    bool turned;         /* ... which is not how it is delivered */
    bool fortran;        /* elements of a row lie `count` elements apart */
    const uint8_t *base; /* of the values, if the file is mapped: read them inside leat_guarded */
    bool checked;        /* by the pass: from crc_at to the end of the values, `crc` is their CRC-32 */
    uint32_t crc, crc_now;
    uint64_t crc_at;
};

struct leat_arrays {
    struct leat_source source;
    char *path, *notice;
    struct leat_io_file *file;
    struct leat_field *fields;
    struct leat_array_column *columns;
    uint8_t *storage;
};

/* Reads n rows from `first` on, each as it stands. CORRUPT, CHANGED, IO, NOMEM, CANCELLED. */
int leat_arrays_fetch(const struct leat_arrays *a, const struct leat_array_column *c, uint64_t first, uint64_t n,
                      uint8_t *to, struct leat_error *error);
/* Fills the fingerprint of the source: by what is kept, or by the pass, which also compares checksums. Keeps what was
 * found. */
int leat_arrays_sum(struct leat_arrays *a, const struct leat_open_options *options, struct leat_arrays_kept *kept,
                    struct leat_error *error);

#endif
