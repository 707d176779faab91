/*
 *     chunks of the grid          band 0  [ 0 ][ 1 ][ 2 ]       a band is all rows of one row of chunks, decoded: a
 *                                 band 1  [ 3 ][ 4 ][ 5 ]       block in the sense of io/blocks.h
 *
 * An array without chunks is read from its file as it is.
 */
#include "format/chunked.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "io/blocks.h"
#include "io/filters.h"

/* Files that stay open: a folder of chunks has one for each, which is opened when it is read. */
enum { OPEN_FILES = 16, REMOTE_BLOCK = 256 << 10 };
/* Sizes come from files that anybody may have made: a chunk, and a band, which is decoded as a whole, have this many
 * bytes at most. Chunks of HDF5 have less than 4 GiB. */
#define MOST_BYTES (UINT64_C(1) << 32)

struct leat_chunked {
    struct leat_stored_array a;
    uint64_t elements, row; /* row: elements of one entry of the first dimension */
    uint64_t grid[LEAT_STORED_DIMS], chunk_elements;
    uint64_t *starts; /* of bands, bytes */
    char *names;
    const char **files;
    uint64_t *sizes;
    int64_t *times;
    _Atomic(struct leat_io_file *) open[OPEN_FILES]; /* each when it is first needed */
    _Atomic(struct leat_io_file *) decoded; /* blocks; NULL until the first read, and of an array without chunks */
};

/* Takes the file over. Returns the one that is there now: that of another thread, if it was quicker. */
static struct leat_io_file *install(_Atomic(struct leat_io_file *) *at, struct leat_io_file *file)
{
    struct leat_io_file *there = NULL;
    if (atomic_compare_exchange_strong(at, &there, file))
        return file;
    leat_io_release(file);
    return there;
}

/* ---- files ----------------------------------------------------------------------------------- */

static int open_file(struct leat_chunked *c, uint64_t i, struct leat_io_file **out, struct leat_error *error)
{
    struct leat_io_file *raw;
    int rc = leat_io_open(c->files[i], out, error);
    if (rc)
        return rc;
    const bool other = (c->a.sizes && c->sizes[i] != LEAT_STORED_MISSING && (*out)->size != c->sizes[i]) ||
                       (c->a.times && c->times[i] && (*out)->mtime_ns && (*out)->mtime_ns != c->times[i]);
    if (other)
        rc = leat_fail_at(error, LEAT_E_CHANGED, c->files[i], LEAT_NO_OFFSET,
                          "%s is another file than the one that was opened: open it again", c->files[i]);
    if (!rc && leat_io_is_remote(c->files[i])) {
        raw = *out;
        rc = leat_blocks_over(raw, REMOTE_BLOCK, true, NULL, NULL, out, error);
        leat_io_release(raw);
        return rc;
    }
    if (rc)
        leat_io_release(*out);
    return rc;
}

/* Release it afterwards. */
static int file_of(struct leat_chunked *c, uint64_t i, struct leat_io_file **out, struct leat_error *error)
{
    if (c->a.n_files > OPEN_FILES)
        return open_file(c, i, out, error);
    struct leat_io_file *file = atomic_load(&c->open[i]);
    if (!file) {
        int rc = open_file(c, i, &file, error);
        if (rc)
            return rc;
        if (!c->a.n_chunks && file->backend->map)
            leat_io_map(file, NULL); /* parts of it are read again and again; without a mapping, from the file */
        file = install(&c->open[i], file);
    }
    *out = leat_io_retain(file);
    return LEAT_OK;
}

int leat_chunked_check(struct leat_chunked *c, struct leat_error *error)
{
    int rc = LEAT_OK;
    if (c->a.n_files > OPEN_FILES)
        return LEAT_OK; /* each is compared when it is opened */
    for (uint64_t i = 0; i < c->a.n_files && !rc; i++) {
        struct leat_io_file *file = atomic_load(&c->open[i]);
        if (file) /* likewise */
            rc = leat_io_unchanged(file, error);
    }
    return rc;
}

/* ---- decoding -------------------------------------------------------------------------------- */

static void fill(const struct leat_chunked *c, uint8_t *to, uint64_t elements)
{
    for (uint64_t i = 0; i < elements; i++)
        memcpy(to + i * c->a.item, c->a.fill, c->a.item);
}

static int damaged(const struct leat_chunked *c, const struct leat_stored_chunk *k, uint64_t number, const char *what,
                   struct leat_error *error)
{
    const char *path = c->files[k->file];
    return leat_fail_at(error, LEAT_E_DECODE, path, k->offset <= INT64_MAX ? (int64_t)k->offset : LEAT_NO_OFFSET,
                        "%s, %s: chunk %" PRIu64 " at byte %" PRIu64 " is damaged: %s", path, c->a.name, number,
                        k->offset, what);
}

/* Reads and decodes all elements of a chunk. */
static int read_chunk(struct leat_chunked *c, uint64_t number, uint8_t *to, struct leat_error *error)
{
    const struct leat_stored_chunk *k = &c->a.chunks[number];
    const uint64_t room = c->chunk_elements * c->a.item;
    struct leat_io_file *file;
    const char *what;
    if (k->offset == LEAT_STORED_MISSING) {
        fill(c, to, c->chunk_elements);
        return LEAT_OK;
    }
    int rc = file_of(c, k->file, &file, error);
    if (rc)
        return rc;
    const uint64_t bytes = k->bytes == LEAT_STORED_MISSING ? file->size : k->bytes;
    uint8_t *stored = NULL;
    if (k->offset > file->size || bytes > file->size - k->offset)
        rc = damaged(c, k, number, "it leads beyond the file, which was cut", error);
    else if (!(stored = leat_alloc(bytes ? bytes : 1)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to read %" PRIu64 " bytes of %s", bytes, file->path);
    else
        rc = leat_io_read(file, k->offset, bytes, stored, error);
    const int undone =
        rc ? LEAT_OK : leat_filters_undo(c->a.filters, c->a.n_filters, k->mask, stored, bytes, to, room, &what);
    if (undone)
        rc = undone == LEAT_E_NOMEM ? leat_fail(error, undone, "no memory to decode a chunk of %s", c->a.name)
                                    : damaged(c, k, number, what, error);
    leat_io_release(file);
    leat_free(stored);
    return rc == LEAT_E_CORRUPT ? LEAT_E_DECODE : rc;
}

/* The part of a chunk that lies in the array: `at` are its place in the grid. Dimension d and those below. */
static void scatter(const struct leat_chunked *c, unsigned d, const uint64_t *at, const uint8_t *from, uint64_t step,
                    uint8_t *to, uint64_t width)
{
    const uint64_t chunk = c->a.chunk[d], begin = d ? at[d] * chunk : 0,
                   left = d ? c->a.shape[d] - begin : c->a.shape[0] - at[0] * chunk, n = left < chunk ? left : chunk;
    if (d + 1 == c->a.ndim) {
        memcpy(to + begin * c->a.item, from, n * c->a.item);
        return;
    }
    const uint64_t below = width / c->a.shape[d + 1], part = step / c->a.chunk[d + 1];
    for (uint64_t i = 0; i < n; i++)
        scatter(c, d + 1, at, from + i * step * c->a.item, part, to + (begin + i) * width * c->a.item, below);
}

static int decode_band(void *user, size_t band, uint8_t *to, struct leat_error *error)
{
    struct leat_chunked *c = user;
    uint64_t across = 1, at[LEAT_STORED_DIMS] = {band};
    for (unsigned d = 1; d < c->a.ndim; d++)
        across *= c->grid[d];
    const uint64_t bytes = c->chunk_elements * c->a.item;
    if (across == 1 && c->starts[band + 1] - c->starts[band] == bytes)
        return read_chunk(c, band, to, error);
    uint8_t *chunk = leat_alloc(bytes);
    if (!chunk)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a chunk of %" PRIu64 " bytes", bytes);
    int rc = LEAT_OK;
    for (uint64_t i = 0; i < across && !rc; i++) {
        uint64_t rest = i;
        for (unsigned d = c->a.ndim; --d > 0; rest /= c->grid[d])
            at[d] = rest % c->grid[d];
        if ((rc = read_chunk(c, band * across + i, chunk, error)))
            break;
        const uint64_t step = c->chunk_elements / c->a.chunk[0];
        scatter(c, 0, at, chunk, step, to, c->row);
    }
    leat_free(chunk);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int open_bands(struct leat_chunked *c, struct leat_io_file **out, struct leat_error *error)
{
    const struct leat_blocks blocks = {
        .path = c->files[0], .n = c->grid[0], .starts = c->starts, .decode = decode_band, .once = true, .user = c};
    if ((*out = atomic_load(&c->decoded)))
        return LEAT_OK;
    const int rc = leat_blocks_open(&blocks, out, error);
    if (!rc)
        *out = install(&c->decoded, *out);
    return rc;
}

static void swap(uint8_t *p, uint64_t bytes, uint64_t size)
{
    for (uint8_t *const end = p + bytes; p < end; p += size)
        for (uint64_t b = 0; b < size / 2; b++) {
            const uint8_t byte = p[b];
            p[b] = p[size - 1 - b];
            p[size - 1 - b] = byte;
        }
}

int leat_chunked_read(struct leat_chunked *c, uint64_t first, uint64_t n, void *to, struct leat_error *error)
{
    struct leat_io_file *file;
    const uint64_t item = c->a.item;
    if (!n)
        return LEAT_OK;
    if (first > c->elements || n > c->elements - first)
        return leat_fail(error, LEAT_E_INVALID,
                         "%s has %" PRIu64 " values: %" PRIu64 " from %" PRIu64 " on are not there", c->a.name,
                         c->elements, n, first);
    int rc = c->a.n_chunks ? open_bands(c, &file, error) : file_of(c, 0, &file, error);
    if (rc)
        return rc;
    if (c->a.n_chunks)
        return leat_io_read(file, first * item, n * item, to, error);
    const uint64_t at = c->a.offset + first * item;
    rc = at > file->size || n * item > file->size - at
             ? leat_fail_at(error, LEAT_E_CHANGED, file->path, LEAT_NO_OFFSET, "%s was cut: %s leads beyond it",
                            file->path, c->a.name)
             : leat_io_read(file, at, n * item, to, error);
    leat_io_release(file);
    for (unsigned i = 0; i < c->a.n_filters && !rc; i++) /* of SWAP alone */
        swap(to, n * item, c->a.filters[i].arg);
    return rc;
}

void leat_chunked_ahead(struct leat_chunked *c, uint64_t first, uint64_t n)
{
    struct leat_io_file *file;
    if (!n || !leat_io_is_remote(c->files[0]) || c->a.n_files > OPEN_FILES || first + n > c->elements)
        return;
    if (!c->a.n_chunks) {
        if (file_of(c, 0, &file, NULL))
            return;
        leat_blocks_ahead(file, c->a.offset + first * c->a.item, n * c->a.item);
        leat_io_release(file);
        return;
    }
    uint64_t across = 1;
    for (unsigned d = 1; d < c->a.ndim; d++)
        across *= c->grid[d];
    const uint64_t from = first / c->row / c->a.chunk[0], to = (first + n - 1) / c->row / c->a.chunk[0];
    for (uint64_t i = from * across; i < (to + 1) * across; i++) {
        const struct leat_stored_chunk *k = &c->a.chunks[i];
        if (k->offset == LEAT_STORED_MISSING || k->bytes == LEAT_STORED_MISSING || file_of(c, k->file, &file, NULL))
            continue;
        leat_blocks_ahead(file, k->offset, k->bytes);
        leat_io_release(file);
    }
}

void leat_chunked_expect(struct leat_chunked *c, uint64_t first, uint64_t n)
{
    const struct leat_io_file *file = c->a.n_chunks || !n ? NULL : atomic_load(&c->open[0]);
    if (file && first <= c->elements && n <= c->elements - first)
        leat_io_expect(file, c->a.offset + first * c->a.item, n * c->a.item);
}

bool leat_chunked_within(struct leat_chunked *c, uint64_t first, uint64_t n,
                         void (*look)(void *user, const uint8_t *bytes), void *user)
{
    struct leat_io_file *file = c->a.n_chunks || c->a.n_filters || !n ? NULL : atomic_load(&c->open[0]);
    return file && first <= c->elements && n <= c->elements - first &&
           leat_io_within(file, c->a.offset + first * c->a.item, n * c->a.item, look, user);
}

uint64_t leat_chunked_elements(const struct leat_chunked *c)
{
    return c->elements;
}

const char *leat_chunked_name(const struct leat_chunked *c)
{
    return c->a.name;
}

const char *leat_chunked_place(const struct leat_chunked *c, uint64_t element, uint64_t *byte)
{
    *byte = c->a.offset + element * c->a.item;
    if (!c->a.n_chunks)
        return c->files[0];
    const struct leat_stored_chunk *k = &c->a.chunks[element / c->row / c->a.chunk[0] * (c->a.n_chunks / c->grid[0])];
    *byte = k->offset;
    return c->files[k->offset == LEAT_STORED_MISSING ? 0 : k->file];
}

/* ---- opening --------------------------------------------------------------------------------- */

static int check_chunks(const struct leat_chunked *c, struct leat_error *error)
{
    const struct leat_stored_array *a = &c->a;
    const uint64_t rows = a->chunk[0] < a->shape[0] ? a->chunk[0] : a->shape[0];
    uint64_t n = 1;
    for (unsigned d = 0; d < a->ndim; d++)
        if (!leat_mul_u64(n, c->grid[d], &n))
            n = UINT64_MAX;
    if (n != a->n_chunks)
        return leat_fail(error, LEAT_E_INVALID, "%s has a table of %" PRIu64 " chunks, not of %" PRIu64, a->name,
                         a->n_chunks, n);
    if (c->chunk_elements > MOST_BYTES / a->item || rows * c->row > MOST_BYTES / a->item)
        return leat_fail(error, LEAT_E_INVALID,
                         "%s has chunks of %" PRIu64 " values, and a row of them has %" PRIu64
                         ": leat decodes at most 4 GiB at a time",
                         a->name, c->chunk_elements, rows * c->row);
    for (uint64_t i = 0; i < n; i++)
        if (a->chunks[i].offset != LEAT_STORED_MISSING && a->chunks[i].file >= a->n_files)
            return leat_fail(error, LEAT_E_INVALID, "%s: chunk %" PRIu64 " is in a file that is not named", a->name, i);
    return LEAT_OK;
}

/* Whether filter i is one of those that an array has which lies in its file as it is: elements, or parts of them. */
static bool swaps(const struct leat_stored_array *a, unsigned i)
{
    return a->filters[i].kind == LEAT_FILTER_SWAP && a->item % a->filters[i].arg == 0;
}

static int check(struct leat_chunked *c, struct leat_error *error)
{
    const struct leat_stored_array *a = &c->a;
    bool good = a->item >= 1 && a->item <= sizeof a->fill && a->ndim >= 1 && a->ndim <= LEAT_STORED_DIMS &&
                a->n_filters <= LEAT_STORED_FILTERS && a->n_files;
    c->elements = c->chunk_elements = c->row = 1;
    for (unsigned d = 0; good && d < a->ndim; d++) {
        good =
            leat_mul_u64(c->elements, a->shape[d], &c->elements) && (!d || leat_mul_u64(c->row, a->shape[d], &c->row));
        if (a->n_chunks && good) {
            good = a->chunk[d] && leat_mul_u64(c->chunk_elements, a->chunk[d], &c->chunk_elements);
            c->grid[d] = good ? a->shape[d] / a->chunk[d] + (a->shape[d] % a->chunk[d] != 0) : 0;
        }
    }
    uint64_t bytes;
    if (!good || !leat_mul_u64(c->elements, a->item, &bytes) || bytes > INT64_MAX || a->offset > INT64_MAX - bytes)
        return leat_fail(error, LEAT_E_INVALID, "%s is no array that leat reads: its sizes make no sense", a->name);
    for (unsigned i = 0; i < a->n_filters; i++)
        if (!leat_filters_know(&a->filters[i]) || (c->elements && !a->n_chunks && !swaps(a, i)))
            return leat_fail(error, LEAT_E_UNSUPPORTED, "%s is stored with a filter that leat does not know", a->name);
    return a->n_chunks ? check_chunks(c, error) : LEAT_OK;
}

static bool copy_names(struct leat_chunked *c, const struct leat_stored_array *a)
{
    size_t bytes = strlen(a->name) + 1;
    for (uint64_t i = 0; i < a->n_files; i++)
        bytes += strlen(a->files[i]) + 1;
    c->names = leat_alloc(bytes);
    c->files = leat_new_array(a->n_files ? a->n_files : 1, sizeof *c->files);
    c->sizes = a->sizes ? leat_new_array(a->n_files, sizeof *c->sizes) : NULL;
    c->times = a->times ? leat_new_array(a->n_files, sizeof *c->times) : NULL;
    if (!c->names || !c->files || (a->sizes && !c->sizes) || (a->times && !c->times))
        return false;
    char *to = c->names;
    c->a.name = memcpy(to, a->name, strlen(a->name) + 1);
    to += strlen(a->name) + 1;
    for (uint64_t i = 0; i < a->n_files; i++) {
        c->files[i] = memcpy(to, a->files[i], strlen(a->files[i]) + 1);
        to += strlen(a->files[i]) + 1;
    }
    if (a->sizes)
        memcpy(c->sizes, a->sizes, a->n_files * sizeof *c->sizes);
    if (a->times)
        memcpy(c->times, a->times, a->n_files * sizeof *c->times);
    return true;
}

int leat_chunked_new(const struct leat_stored_array *array, struct leat_chunked **out, struct leat_error *error)
{
    struct leat_chunked *c = leat_new(struct leat_chunked);
    *out = NULL;
    if (!c)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", array->name);
    c->a = *array;
    int rc = check(c, error);
    if (!rc && !copy_names(c, array))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", array->name);
    if (!rc && c->a.n_chunks) {
        const uint64_t rows = c->a.chunk[0];
        if (!(c->starts = leat_new_array(c->grid[0] + 1, sizeof *c->starts)))
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", array->name);
        for (uint64_t b = 0; !rc && b <= c->grid[0]; b++)
            c->starts[b] = (b < c->grid[0] ? b * rows : c->a.shape[0]) * c->row * c->a.item;
    }
    if (rc)
        leat_chunked_free(c);
    else
        *out = c;
    return rc;
}

void leat_chunked_free(struct leat_chunked *c)
{
    if (!c)
        return;
    leat_io_release(c->decoded);
    for (unsigned i = 0; i < OPEN_FILES; i++)
        leat_io_release(c->open[i]);
    leat_free(c->starts);
    leat_free(c->names);
    leat_free(c->files);
    leat_free(c->sizes);
    leat_free(c->times);
    leat_free(c);
}
