/*
 * Rows for a card (a GPU): a table in the host's memory whose rows are gathered by their numbers, by the card itself,
 * which reads them over the bus where they lie, without a copy by the processor before. A header of its own, because
 * nothing else of leat needs it. docs/device.md says what runs where.
 *
 *     open    makes the table known to the card; or to none: its rows are gathered by threads of the processor
 *     gather  out[i] = table[ids[i]], as the values are or as float32
 *     check   whether the card has met an id that names no row
 *
 * The CUDA driver and NVRTC are loaded when a card is first opened; the library does not link them. A function may be
 * called from any thread; of one table by any number at a time, but leat_device_rows_close. Rows that are gathered by a
 * card are LEAT_E_FORKED in a forked child, as all of CUDA is.
 */
#ifndef LEAT_DEVICE_H
#define LEAT_DEVICE_H

#include "leat/leat.h"

#ifdef __cplusplus
extern "C" {
#endif

struct leat_device_rows; /* opaque */

struct leat_device_rows_options {
    size_t struct_size;
    const void
        *data; /* `count` rows of `width` values, one behind the other; the caller's, until the table is closed */
    enum leat_dtype dtype;
    uint64_t count, width; /* a row has at most LEAT_DEVICE_MAX_ROW_BYTES */
    /* The file that `data` is a mapping of: if it was cut, gathering is an error. NULL: ordinary memory. */
    const char *path;
    bool in_memory; /* that file is one of memory (/dev/shm), which a card may read in place */
    int device;     /* the number of the card, as CUDA counts them; -1: none */
    /* Bytes of pinned memory that may be taken for a copy of the table, where the card cannot read it in place: of
     * files, and of memory that the driver does not pin. 0: as many as leat_memory_left says. */
    uint64_t budget_bytes;
    unsigned num_threads; /* of the processor; 0: leat_cpu_count */
    const char *nvrtc;    /* path of the library; NULL: it is looked for by its name */
};
#define LEAT_DEVICE_ROWS_OPTIONS_INIT                                                                                  \
    {                                                                                                                  \
        sizeof(struct leat_device_rows_options), NULL, LEAT_F32, 0, 0, NULL, false, -1, 0, 0, NULL                     \
    }
#define LEAT_DEVICE_MAX_ROW_BYTES (UINT64_C(1) << 31)

/* Opens a table. With a card its memory is pinned and mapped: as long as a copy of it takes, once.
 * Errors: INVALID (dtype, sizes), BUDGET (a copy is needed and does not fit; the text has the numbers), UNSUPPORTED (no
 * driver, an old one, no card), RANGE (no card of that number), BUSY (the card is in exclusive mode
 * and another process's), NOMEM (pinned memory was refused, or the card's is used up), IO (the card failed; a file was
 * cut), FORKED. */
LEAT_API int leat_device_rows_open(const struct leat_device_rows_options *options, struct leat_device_rows **out,
                                   struct leat_error *error);
/* Waits until the card has gathered what it was asked for. NULL is allowed. */
LEAT_API void leat_device_rows_close(struct leat_device_rows *rows);

/* Whether the card reads the caller's memory, no copy of it. */
LEAT_API bool leat_device_rows_in_place(const struct leat_device_rows *rows);

/* Gathers n rows into `out`. `ids`: n numbers of rows, each from 0 to count - 1, int64 (`wide`) or int32. `as`: the
 * table's dtype, or LEAT_F32, which values become as by a cast in C: exactly, or rounded to the nearest, even; 1 of a
 * bool that is true.
 *
 * Without a card: all is memory of the host, and `stream` is not used. An id that names no row is RANGE, and the error
 * names the first of them; `out` is undefined then.
 * With a card: `ids` and `out` (at a multiple of 16) are memory of that card. The call puts the work into the stream
 * (CUstream or cudaStream_t; NULL: the legacy default stream) and returns; both stay until it is done. The row of an id
 * that names none is zero, and the next leat_device_rows_check says so.
 * Errors: INVALID, RANGE, IO, NOMEM, UNSUPPORTED (no NVRTC, or an old one: it is loaded by the first call), FORKED. */
LEAT_API int leat_device_rows_gather(struct leat_device_rows *rows, const void *ids, bool wide, uint64_t n,
                                     enum leat_dtype as, void *out, void *stream, struct leat_error *error);

/* RANGE if a card has met an id that names no row; the error has the first one that it met, and is given once. `wait`:
 * after all that is in the stream is done; else what is known by now, at no cost. Errors: RANGE, IO, FORKED. */
LEAT_API int leat_device_rows_check(struct leat_device_rows *rows, void *stream, bool wait, struct leat_error *error);

#ifdef __cplusplus
}
#endif

#endif
