/*
 * Columns beside a data set: a file of rows that change, each found by a sample's id, or by an id and a key. Teachers'
 * outputs, banks of features, learnt labels and trajectories are kept so. A header of its own, because nothing else of
 * leat needs it. docs/stores.md has the guarantees and the format.
 *
 *     open   creates the file or opens it; any number of processes may have it open, to read and to write
 *     write  puts rows there; each is visible to everybody at once, whole
 *     flush  makes what this process wrote survive a loss of power
 *     gather reads rows, and says which there are
 *     copy   makes another file of it as it is now
 *
 * A row is written beside the one that it replaces, and then a 64-bit word is set that says where it is: a reader sees
 * the old row or the new one, whatever happens to the writer. If two processes write one row at a time, one wins.
 * Functions may be called from any number of threads at a time, except leat_columns_close.
 *
 * A forked child may read through its parent's object; writing and flushing are LEAT_E_FORKED there: it opens the file
 * itself.
 */
#ifndef LEAT_COLUMNS_H
#define LEAT_COLUMNS_H

#include "leat/leat.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LEAT_COLUMNS_MAX_FIELDS 64
#define LEAT_COLUMNS_MAX_ID (UINT64_C(1) << 43)        /* of files without keys: ids lie below this */
#define LEAT_COLUMNS_MAX_ROW_BYTES (UINT64_C(1) << 28) /* of all fields of a row together */

struct leat_columns; /* opaque */

struct leat_columns_options {
    size_t struct_size;
    /* Arrays (LEAT_KIND_ARRAY); shape[0] may be -1: it varies from row to row; or sparse rows (LEAT_ROLE_SPARSE). NULL:
     * those of the file, which must be there. */
    const struct leat_field *fields;
    size_t n_fields;
    bool keyed;              /* rows are found by (id, key), else by id. Ignored if `fields` is NULL */
    const char *fingerprint; /* of the data set that the ids are of, at most 127 bytes; NULL: it is not compared */
    bool read_only;          /* the file is opened only for reading, and must be there */
};
#define LEAT_COLUMNS_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(struct leat_columns_options), NULL, 0, false, NULL, false                                               \
    }

/* Opens the file at `path`, or creates it. If processes create it at the same time, one does, and the others open the
 * result.
 * Errors: INVALID (fields), NOT_FOUND (there is none, and it is not to be created), TYPE (the file has other fields, or
 * another key), STATE (it is of another data set), FORMAT (it is no such file, or of a later version), CORRUPT (its
 * header is damaged, or the file was cut), IO, NOMEM. */
LEAT_API int leat_columns_open(const char *path, const struct leat_columns_options *options, struct leat_columns **out,
                               struct leat_error *error);
/* Ends it without a flush. NULL is allowed. No other call is in progress. */
LEAT_API void leat_columns_close(struct leat_columns *columns);

/* The contents of the file. Fields and the fingerprint ("" without one) live as long as `columns`. */
LEAT_API const struct leat_field *leat_columns_fields(const struct leat_columns *columns, size_t *n);
LEAT_API bool leat_columns_keyed(const struct leat_columns *columns);
LEAT_API const char *leat_columns_fingerprint(const struct leat_columns *columns);

/* The values of one field for n rows. For a field of fixed size: n values one behind the other, and no offsets. Else
 * value i has the elements of rows offsets[i] to offsets[i + 1] (n + 1 numbers, from 0), each of the size of the other
 * dimensions.
 *
 * `dtype` is that of the field; for float16, bfloat16 and int8 fields it may be float32, which is rounded to the
 * nearest, even (beyond float16 to infinity). An int8 field keeps such a value as whole multiples, -127 to 127, of a
 * scale of its own: the largest magnitude / 127; they must be finite. int8 values as such have the scale 1.
 *
 * A field of sparse rows takes them as they are stored: uint8 (any, 4 + bytes of `item`), columns rising in each. */
struct leat_column {
    const void *data;
    enum leat_dtype dtype;
    const int64_t *offsets;
};

/* Writes n rows; `columns_of` has one column for each field, in their order. keys: NULL if rows have none. An id that
 * occurs twice in one call is written twice, in order. Rows are visible to every process when the call returns, and
 * last once leat_columns_flush has. After an error, rows before that of error->sample are written, and no other
 * (INVALID: none).
 * Errors: INVALID (an id or a row that is too large, offsets, dtype, a value of an int8 field that is not finite, one
 * that is finite and would be infinite in a float16 or bfloat16 field, columns of a sparse row that do not rise), IO
 * (the disk is full; existing rows stay), CORRUPT (the index), NOMEM, FORKED, CLOSED (opened for reading).
 */
LEAT_API int leat_columns_write(struct leat_columns *columns, const uint64_t *ids, const uint64_t *keys, uint64_t n,
                                const struct leat_column *columns_of, struct leat_error *error);

/* The destination of the values of one field. For a field of fixed size `data` is the caller's and has room for n
 * values. For one that varies the call sets `data` to its allocation (NULL if there is nothing), to be freed with
 * leat_free, also after an error, and offsets are the caller's, n + 1 of them. Rows that are missing are zero, or
 * empty. Values of int8 fields come as float32: number * scale. */
struct leat_column_out {
    bool wanted; /* else the rest is ignored */
    void *data;
    int64_t *offsets;
};

enum leat_present { LEAT_MISSING = 0, LEAT_PRESENT = 1, LEAT_BROKEN = 2 };

/* Reads n rows; `out` has one for each field, in their order. present[i] says whether there is such a row. Each is read
 * whole and verified; all its fields are of one write. A row that is broken at rest is an error, which names it, unless
 * `mark` says that its `present` is LEAT_BROKEN and the others are read. Never waits for a writer.
 * Errors: INVALID (an id that is too large), CORRUPT, IO (the file was cut while it is open), NOMEM. */
LEAT_API int leat_columns_gather(struct leat_columns *columns, const uint64_t *ids, const uint64_t *keys, uint64_t n,
                                 struct leat_column_out *out, bool mark, uint8_t *present, struct leat_error *error);

/* Asks the system to read rows that will be wanted into its page cache; returns at once, and ignores rows that are
 * missing.
 */
LEAT_API void leat_columns_expect(struct leat_columns *columns, const uint64_t *ids, const uint64_t *keys, uint64_t n);

/* All writes through `columns` before it are durable when this returns: none is lost if the machine loses power. Memory
 * that replaced rows had is used again from then on.
 * Errors: IO, FORKED, CLOSED (opened for reading), NOMEM. */
LEAT_API int leat_columns_flush(struct leat_columns *columns, struct leat_error *error);

/* A copy of the file at `path`, complete and on disk before it has that name: all that was written through `columns`
 * before, each row as of a moment during the call where others write meanwhile. It is written beside `path`, without a
 * name where the file system can do that, and shares or copies bytes within the system (copy_file_range). Rows go on
 * being written and read meanwhile; a write that needs more room, and a flush, wait.
 * Errors: EXISTS (`path` exists, and `overwrite` is not set; one that is replaced stays what it was for those who have
 * it open), INVALID (`path` is the file itself), IO, CORRUPT (the file was cut), CANCELLED (leat_set_interrupt), NOMEM,
 * FORKED, CLOSED (opened for reading). After an error there is no copy, and what was at `path` is there still. */
LEAT_API int leat_columns_copy(struct leat_columns *columns, const char *path, bool overwrite,
                               struct leat_error *error);

/* The rows that there are, in the order of the index (ids without keys rise): ids and, of a keyed file, keys, both
 * freed with leat_free. Broken rows of a keyed file are left out. `keys` may be NULL. Errors: IO, CORRUPT, NOMEM. */
LEAT_API int leat_columns_list(struct leat_columns *columns, uint64_t **ids, uint64_t **keys, uint64_t *n,
                               struct leat_error *error);

#ifdef __cplusplus
}
#endif

#endif
