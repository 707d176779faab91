/*
 * Rows for a card (a GPU): a table in the host's memory whose rows are gathered by their numbers, by the card itself,
 * which reads them over the bus where they lie, without a copy by the processor before. A header of its own, because
 * nothing else of leat needs it. docs/device.md says what runs where.
 *
 *     open    makes the table known to the card; or to none: its rows are gathered by threads of the processor
 *     look    whether ids of the host name rows
 *     gather  out[i] = table[ids[i]], as the values are or as float32, float16 or bfloat16
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
    /* Bytes of pinned memory that may be taken where the card cannot read the table in place: of files, and of memory
     * that the driver does not pin. A table that is larger is staged. 0: as many as leat_memory_left says. */
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
 * Errors: INVALID (dtype, sizes), BUDGET (a copy is needed, and the budget has no room for 32 rows; the text has the
 * numbers), UNSUPPORTED (no driver, an old one, no card), RANGE (no card of that number), BUSY (the card is in
 * exclusive mode and another process's), NOMEM (pinned memory was refused, or the card's is used up), IO (the card
 * failed; a file was cut), FORKED. */
LEAT_API int leat_device_rows_open(const struct leat_device_rows_options *options, struct leat_device_rows **out,
                                   struct leat_error *error);
/* Waits until the card has gathered what it was asked for. NULL is allowed. */
LEAT_API void leat_device_rows_close(struct leat_device_rows *rows);

/* Whether the card reads the caller's memory, no copy of it. */
LEAT_API bool leat_device_rows_in_place(const struct leat_device_rows *rows);
/* Whether rows are staged: each call collects its own in pinned memory, by threads of the processor, for the card. */
LEAT_API bool leat_device_rows_staged(const struct leat_device_rows *rows);

/* Whether ids[begin] to ids[end - 1] name rows of the table, before they go to a card; memory of the host, int64
 * (`wide`) or int32. Errors: RANGE; it names the first that does not, by its number among `ids`. */
LEAT_API int leat_device_rows_look(struct leat_device_rows *rows, const void *ids, bool wide, uint64_t begin,
                                   uint64_t end, struct leat_error *error);

/* Gathers n rows into `out`. `ids`: n numbers of rows, each from 0 to count - 1, int64 (`wide`) or int32. `as`: the
 * table's dtype; or LEAT_F32, which values become exactly, or rounded to the nearest, even; 1 of a bool that is true;
 * or LEAT_F16 or LEAT_BF16, which those float32 become by being rounded so. A NaN keeps its sign and the upper bits of
 * its payload; one that is made narrower becomes quiet.
 *
 * Without a card: all is memory of the host, and `stream` is not used. An id that names no row is RANGE, and the error
 * names the first of them; `out` is undefined then.
 * With a card: `ids` and `out` (at a multiple of 16) are memory of that card. The call puts the work into the stream
 * (CUstream or cudaStream_t; NULL: the legacy default stream) and returns; both stay until it is done. The row of an id
 * that names none is zero, and the next leat_device_rows_check says so.
 * With a card and staged: `ids` are memory of the host, and not needed after the call; an id that names no row is
 * RANGE. The call waits until the card has room for its rows. With a card, 0 rows make its kernel, which the first call
 * for a type would wait for. Errors: INVALID, RANGE, IO, NOMEM, UNSUPPORTED (no NVRTC, or an old one: it is loaded by
 * the first call), FORKED. */
LEAT_API int leat_device_rows_gather(struct leat_device_rows *rows, const void *ids, bool wide, uint64_t n,
                                     enum leat_dtype as, void *out, void *stream, struct leat_error *error);

/* RANGE if a card has met an id that names no row; the error has the first one that it met, and is given once. `wait`:
 * after all that is in the stream is done; else what is known by now, at no cost. Errors: RANGE, IO, FORKED. */
LEAT_API int leat_device_rows_check(struct leat_device_rows *rows, void *stream, bool wait, struct leat_error *error);

/* ---- batches ------------------------------------------------------------------------------------------- */

/*
 * Batches of a loader on a card. Its memory is pinned (leat_loader_options.pinning), and the batches at the front of
 * its window are copied while they fill, on a stream of their own. A batch that was handed out is then taken: the
 * stream of the caller waits for the copies, the caller does not. The host's memory is given back behind them.
 *
 *     pinning = leat_device_pinning(0)
 *     leat_loader_open(..., {..., .pinning = pinning}, &loader)
 *     leat_device_batches_open(loader, ..., &batches)
 *     each step: leat_loader_next(loader, &batch), leat_device_batches_take(batches, batch, stream, &there), ...
 *
 * Images that end in NHWC bytes can be given a table of values for each channel: the bytes travel, and become the
 * values there.
 */
struct leat_device_batches; /* opaque; for any thread */
struct leat_device_batch;   /* opaque; for one thread at a time */
struct leat_device_buffer;  /* opaque; for any thread */

/* Memory that a device reads by itself, pinned piece by piece as a loader takes it from the system, which gets none of
 * it back before the last batch is freed. `pin` may fail; `unpin` gets what `pin` got. Both are called with the
 * engine's lock held. */
struct leat_pinning {
    void *user;
    int (*pin)(void *user, void *memory, uint64_t bytes, struct leat_error *error);
    void (*unpin)(void *user, void *memory);
};
/* The way to pin memory for a card; it lasts as long as the process. Errors: as leat_device_rows_open. */
LEAT_API int leat_device_pinning(int device, const struct leat_pinning **out, struct leat_error *error);

struct leat_device_table {
    const char *output;    /* uint8 of shape (rows, height, width, channels) */
    enum leat_dtype dtype; /* that it becomes: F32, F16, BF16 */
    unsigned channels;     /* 1 to 4 */
    bool planes;           /* it becomes (rows, channels, height, width), */
    bool last;             /* ... or has that shape, and its channels side by side (channels_last) */
    const void *values;    /* 256 of each channel, copied */
};

struct leat_device_batches_options {
    size_t struct_size;
    int device;
    unsigned prefetch;     /* batches that are copied before they are handed out; 0: each as it is taken */
    uint64_t budget_bytes; /* of the card's memory, for batches on their way and those that are held; 0: half of
                            * what is free */
    const struct leat_device_table *tables;
    size_t n_tables;
    const char *nvrtc; /* as of rows; for tables */
};
#define LEAT_DEVICE_BATCHES_OPTIONS_INIT                                                                               \
    {                                                                                                                  \
        sizeof(struct leat_device_batches_options), 0, 2, 0, NULL, 0, NULL                                             \
    }

/* The channels of an output that a table goes with; 0: of another one. */
LEAT_API unsigned leat_device_channels(const struct leat_loader *loader, const char *output);

/* Whether a card decodes photos like the first value of a field, which is read: those in the decode-fast form, and
 * baseline JPEGs as they came (docs/device.md). False if it cannot be read. */
LEAT_API bool leat_device_decodes(const struct leat_dataset *dataset, const char *field);

/* For batches of this loader, and of its consumers. Errors: INVALID (tables, or a second one for a loader); as
 * leat_device_rows_open. */
LEAT_API int leat_device_batches_open(struct leat_loader *loader, const struct leat_device_batches_options *options,
                                      struct leat_device_batches **out, struct leat_error *error);
/* The same for a reader of a port (leat_attached_consumer), whose batches come from the port's card memory if it has
 * them on the same card (leat_device_mirrors_open), else from its memory of the host. */
LEAT_API int leat_device_batches_attach(struct leat_consumer *reader, const struct leat_device_batches_options *options,
                                        struct leat_device_batches **out, struct leat_error *error);
/* Waits for copies under way. Before or after the loader; batches on the card stay valid. NULL is allowed. */
LEAT_API void leat_device_batches_close(struct leat_device_batches *batches);
/* JSON text, freed with leat_free; docs/device.md names the keys. NOMEM. */
LEAT_API int leat_device_batches_stats(struct leat_device_batches *batches, char **json, struct leat_error *error);

/* The batch on the card; `stream` (as of leat_device_rows_gather) waits for it. The caller uses its memory in that
 * stream, or makes the stream wait for other uses before letting go. Outputs of `batch` that have travelled are
 * there no more, text and images of open size stay. After an error the batch is as before, and may be taken again.
 * Errors: BUDGET, NOMEM (with numbers), IO, INVALID (an output does not fit its table), CLOSED, FORKED. */
LEAT_API int leat_device_batches_take(struct leat_device_batches *batches, struct leat_batch *batch, void *stream,
                                      struct leat_device_batch **out, struct leat_error *error);
/* NULL is allowed. */
LEAT_API void leat_device_batch_free(struct leat_device_batch *batch);

/* As of leat_batch_tensor: `data` and `offsets` are addresses of the card, `buffer` is NULL, and `owner` keeps them
 * alive. NOT_FOUND: this output has not travelled, as text does not. TYPE: it only says what the card does with another
 * one. */
struct leat_device_tensor {
    struct leat_tensor tensor;
    struct leat_device_buffer *owner;
};
LEAT_API int leat_device_batch_tensor(const struct leat_device_batch *batch, size_t output,
                                      struct leat_device_tensor *out);
/* Arrays of its rows, there: as of leat_batch_ids and so on. */
struct leat_device_batch_rows {
    const int64_t *ids;
    const uint64_t *keys;
    const int32_t *domains;
    const bool *valid;
    struct leat_device_buffer *owner;
};
LEAT_API void leat_device_batch_rows(const struct leat_device_batch *batch, struct leat_device_batch_rows *out);

/*
 * Mirrors: batches that a port publishes go to a card once, in memory that its readers share (CUDA IPC), and each
 * reader's copy is made from there. They are made before the batch is published, and live as long as it does; a reader
 * that dies holds none of them. Memory that was shared stays with the process until that ends; its mirrors of a card
 * may have the sum of their budgets (0: half of what is free). Opened and closed by one thread.
 */
struct leat_device_mirrors; /* opaque */
LEAT_API int leat_device_mirrors_open(int device, uint64_t budget_bytes, struct leat_device_mirrors **out,
                                      struct leat_error *error);
/* After the port. NULL is allowed. */
LEAT_API void leat_device_mirrors_close(struct leat_device_mirrors *mirrors);
/* For leat_port_options.mirrors. */
LEAT_API const struct leat_mirrors *leat_device_mirrors_of(const struct leat_device_mirrors *mirrors);
/* JSON text, freed with leat_free; docs/device.md names the keys. NOMEM. */
LEAT_API int leat_device_mirrors_stats(struct leat_device_mirrors *mirrors, char **json, struct leat_error *error);

/* Take and give up a reference to memory of a card. When the last one is gone, it is used again behind what is then in
 * the stream that took it. Any thread. */
LEAT_API void leat_device_buffer_retain(struct leat_device_buffer *buffer);
LEAT_API void leat_device_buffer_release(struct leat_device_buffer *buffer);

#ifdef __cplusplus
}
#endif

#endif
