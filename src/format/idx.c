/*
 * IDX, the format of MNIST and its kin: one array in a file, plain or compressed with gzip.
 *
 *     0 0 | type | dimensions | one big-endian u32 per dimension | elements, big-endian, the last axis fastest
 *
 * A sample is an entry of the first dimension. The file is read to its end when it is opened. It has no checksums, so
 * what is read later is compared with what was read then. The fingerprint is that of the same values packed. How values
 * are reached:
 *
 *     plain, bytes                    mapped in place
 *     up to MEMORY_BYTES              read into memory, turned to this machine's byte order; mapped in place
 *     longer                          extents of the file, read or decoded block by block (io/blocks.h); turned when
 *                                     read. Each block is compared when it is read again
 *     longer, plain, bytes, not       extents of the file: reading a whole block for each value of a file that the
 *     mapped, no room in the cache    cache does not hold would take too long
 */
#include <fnmatch.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/fingerprint.h"
#include "format/idx.h"
#include "io/blocks.h"
#include "io/gzip.h"

enum { MAX_HEADER = 4 + 4 * LEAT_MAX_DIMS, PIECE = 1 << 20, AHEAD = 8 * PIECE, DEFLATE_RATIO = 1032 };

#define MEMORY_BYTES (UINT64_C(64) << 20)

struct idx {
    struct leat_source source;
    struct leat_field field;
    char *path;
    struct leat_io_file *file, *values;  /* as it is stored; that `extents` are about, NULL: mapped */
    const uint8_t *base;                 /* of the elements, where they are mapped */
    uint8_t *memory;                     /* they, where they were read */
    uint64_t header, value_bytes, total; /* bytes of the header, of a value, of both together */
    size_t element;
    _Atomic uint64_t stamp; /* of the file, when it was read to its end */
    uint8_t storage;
    bool gzip;
    /* while it is read to its end */
    uint64_t seen;   /* bytes */
    uint64_t filled; /* of the value that is being read */
    uint8_t *value;  /* room for one, where values are not kept */
};

/* ---- the header --------------------------------------------------------------------------------- */

static enum leat_dtype dtype_of(uint8_t type)
{
    static const struct {
        uint8_t type;
        enum leat_dtype dtype;
    } types[] = {{0x08, LEAT_U8},  {0x09, LEAT_I8},  {0x0b, LEAT_I16},
                 {0x0c, LEAT_I32}, {0x0d, LEAT_F32}, {0x0e, LEAT_F64}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type)
            return types[i].dtype;
    return 0;
}

static bool named_idx(const char *path)
{
    return !fnmatch("*idx[1-8]-ubyte", path, 0) || !fnmatch("*idx[1-8]-ubyte.gz", path, 0) ||
           !fnmatch("*.idx[1-8].gz", path, 0);
}

static bool idx_recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    uint8_t decoded[4];
    if (folder)
        return false;
    if (named_idx(path))
        return true;
    if (leat_gzip_recognise(head, n)) {
        n = leat_gzip_head(head, n, decoded, sizeof decoded);
        head = decoded;
    }
    return n >= 4 && !head[0] && !head[1] && dtype_of(head[2]) && head[3] >= 1 && head[3] <= LEAT_MAX_DIMS;
}

static int corrupt(const struct idx *x, uint64_t offset, struct leat_error *error)
{
    leat_error_at_file(error, x->path, x->gzip || offset > INT64_MAX ? LEAT_NO_OFFSET : (int64_t)offset);
    return LEAT_E_CORRUPT;
}

/* Bytes as images: two axes become one channel, as operators on images need it. They lie in memory like that anyway. */
static void set_shape(struct leat_field *f, const uint64_t *dims, unsigned ndim)
{
    bool image = f->dtype == LEAT_U8 && (ndim == 2 || ndim == 3);
    f->ndim = 0;
    if (image && ndim == 2)
        f->shape[f->ndim++] = 1;
    for (unsigned d = 0; d < ndim; d++)
        f->shape[f->ndim++] = (int64_t)dims[d];
    if (image)
        f->layout = f->shape[0] <= 4 && f->shape[0] != 2   ? LEAT_LAYOUT_CHW
                    : f->shape[2] <= 4 && f->shape[2] != 2 ? LEAT_LAYOUT_HWC
                                                           : LEAT_LAYOUT_NONE;
}

static int read_header(struct idx *x, const uint8_t *head, size_t n, struct leat_error *error)
{
    uint64_t dims[LEAT_MAX_DIMS];
    unsigned ndim = n >= 4 ? head[3] : 0;
    enum leat_dtype dtype = n >= 4 ? dtype_of(head[2]) : 0;
    if (n < 4 || head[0] || head[1] || !dtype || !ndim || ndim > LEAT_MAX_DIMS || n < 4 + 4 * ndim) {
        leat_fail(error, LEAT_E_CORRUPT,
                  "%s does not begin as an IDX file does (two zeroes, a type, 1 to %d dimensions and their lengths): "
                  "it is cut or damaged, "
                  "copy it again",
                  x->path, LEAT_MAX_DIMS);
        return corrupt(x, 0, error);
    }
    x->element = leat_dtype_size(dtype);
    x->value_bytes = x->element;
    bool possible = true;
    for (unsigned d = 0; d < ndim; d++) {
        dims[d] = (uint64_t)head[4 + 4 * d] << 24 | (uint64_t)head[5 + 4 * d] << 16 | (uint64_t)head[6 + 4 * d] << 8 |
                  head[7 + 4 * d];
        possible = possible && (!d || (dims[d] && leat_mul_u64(x->value_bytes, dims[d], &x->value_bytes)));
    }
    x->header = 4 + 4 * ndim;
    if (!possible || !leat_mul_u64(x->value_bytes, dims[0], &x->total) ||
        !leat_add_u64(x->total, x->header, &x->total) || x->total > INT64_MAX) {
        leat_fail(error, LEAT_E_CORRUPT, "%s: its header has impossible lengths: it is damaged, copy it again",
                  x->path);
        return corrupt(x, 4, error);
    }
    x->source.count = dims[0];
    x->field = (struct leat_field){.name = "data", .kind = LEAT_KIND_ARRAY, .dtype = dtype};
    set_shape(&x->field, dims + 1, ndim - 1);
    return LEAT_OK;
}

/* Checks the header against the length of the file; for a compressed one, against the longest that it can be. */
static int check_length(const struct idx *x, struct leat_error *error)
{
    uint64_t size = x->file->size, most = size;
    if (x->gzip && !leat_mul_u64(size, DEFLATE_RATIO, &most))
        most = UINT64_MAX;
    if (x->total <= most && (x->gzip || x->total == size))
        return LEAT_OK;
    if (x->total < size)
        leat_fail(error, LEAT_E_CORRUPT,
                  "%s has %" PRIu64 " bytes after the %" PRIu64
                  " samples that its header says: it is damaged, copy it again",
                  x->path, size - x->total, x->source.count);
    else
        leat_fail(error, LEAT_E_CORRUPT,
                  "%s: its header says %" PRIu64 " samples, %" PRIu64 " bytes in all; the file has %" PRIu64
                  "%s: it is cut or damaged, copy "
                  "it again",
                  x->path, x->source.count, x->total, size,
                  x->gzip ? " compressed ones, which cannot hold so many" : "");
    return corrupt(x, x->total < size ? x->total : size, error);
}

/* ---- reading to the end ------------------------------------------------------------------------- */

/* Memory for a value that is being read. A file without samples gets none: only its header says how much it would be.
 */
static uint64_t value_room(const struct idx *x)
{
    return x->source.count ? x->value_bytes : 1;
}

/* Converts to this machine's byte order, which is little-endian: base/bytes.h. */
static void swap(uint8_t *bytes, uint64_t length, size_t element)
{
    for (uint64_t i = 0; element > 1 && i + element <= length; i += element)
        for (size_t k = 0; k < element / 2; k++) {
            uint8_t b = bytes[i + k];
            bytes[i + k] = bytes[i + element - 1 - k];
            bytes[i + element - 1 - k] = b;
        }
}

/* Values are read whole, so that each read begins with an element; but while the file is read to its end, `see` turns
 * them. */
static void convert(void *user, uint64_t offset, uint8_t *bytes, uint64_t length)
{
    const struct idx *x = user;
    if (x->seen == x->total)
        swap(bytes, length, x->element);
}

static int see(void *user, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    struct idx *x = user;
    if (n > x->total - x->seen) {
        leat_fail(error, LEAT_E_CORRUPT,
                  "%s has bytes after the %" PRIu64 " samples that its header says: it is damaged, copy it again",
                  x->path, x->source.count);
        return corrupt(x, x->total, error);
    }
    if (x->seen < x->header) {
        size_t skip = x->header - x->seen < n ? (size_t)(x->header - x->seen) : n;
        x->seen += skip;
        bytes += skip;
        n -= skip;
    }
    while (n) {
        uint8_t *value = x->memory ? x->memory + (x->seen - x->header) - x->filled : x->value;
        size_t part = x->value_bytes - x->filled < n ? (size_t)(x->value_bytes - x->filled) : n;
        memcpy(value + x->filled, bytes, part);
        bytes += part;
        n -= part;
        x->seen += part;
        if ((x->filled += part) < x->value_bytes)
            break;
        uint64_t sample[2] = {0, 0};
        swap(value, x->value_bytes, x->element);
        leat_fingerprint_value(sample, leat_hash64(value, (size_t)x->value_bytes));
        leat_fingerprint_append(x->source.fingerprint, sample);
        x->filled = 0;
    }
    return LEAT_OK;
}

static int read_plain(struct idx *x, struct leat_io_file *file, struct leat_error *error)
{
    uint8_t *piece = leat_alloc(PIECE);
    int rc = piece ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", x->path);
    for (uint64_t at = 0; !rc && at < x->total; at += PIECE) {
        size_t n = x->total - at < PIECE ? (size_t)(x->total - at) : PIECE;
        leat_blocks_ahead(file, at, AHEAD);
        rc = leat_io_read(file, at, n, piece, error);
        if (!rc)
            rc = see(x, piece, n, error);
    }
    leat_free(piece);
    return rc;
}

/* ---- opening ------------------------------------------------------------------------------------ */

static void idx_close(struct leat_source *source)
{
    struct idx *x = (struct idx *)source;
    leat_io_release(x->values);
    leat_io_release(x->file);
    leat_free(x->memory);
    leat_free(x->path);
    leat_free(x);
}

static int load(struct idx *x, uint64_t memory_bytes, struct leat_error *error)
{
    uint8_t head[4096], decoded[MAX_HEADER];
    size_t n = x->file->size < sizeof head ? (size_t)x->file->size : sizeof head;
    int rc = leat_io_read(x->file, 0, n, head, error);
    if (rc)
        return rc;
    x->gzip = leat_gzip_recognise(head, n);
    size_t known = x->gzip ? leat_gzip_head(head, n, decoded, sizeof decoded) : n;
    if ((rc = read_header(x, x->gzip ? decoded : head, known, error)) || (rc = check_length(x, error)))
        return rc;
    uint64_t stamp, size;
    if ((rc = leat_io_stamp(x->file, &stamp, &size, error)))
        return rc;
    atomic_init(&x->stamp, stamp);
    bool in_place = !x->gzip && x->element == 1 && x->file->backend->map, kept = !in_place && x->total <= memory_bytes;
    uint8_t **room = kept ? &x->memory : &x->value;
    *room = x->total < SIZE_MAX ? leat_alloc((size_t)(kept ? x->total : value_room(x))) : NULL;
    if (!*room)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", x->path);
    struct leat_io_file *blocks = NULL;
    if (leat_io_is_remote(x->path) || (!x->gzip && !in_place && !kept))
        rc = leat_blocks_over(x->file, PIECE, true, x->gzip || x->element == 1 ? NULL : convert, x, &blocks, error);
    struct leat_io_file *file = blocks ? blocks : x->file;
    const uint64_t share = x->total / LEAT_GZIP_POINTS + 1;
    const struct leat_gzip_options options = {.sink = see,
                                              .convert = x->element > 1 ? convert : NULL,
                                              .user = x,
                                              .block_bytes = share > PIECE ? share : PIECE};
    if (!rc)
        rc = x->gzip ? leat_gzip_open(file, &options, kept ? NULL : &x->values, error) : read_plain(x, file, error);
    leat_free(x->value);
    x->value = NULL;
    if (!rc && x->seen < x->total) {
        leat_fail(error, LEAT_E_CORRUPT,
                  "%s: its header says %" PRIu64 " bytes in all; there are %" PRIu64 ": it is damaged, copy it again",
                  x->path, x->total, x->seen);
        rc = corrupt(x, x->seen, error);
    }
    if (!rc && in_place && (x->base = leat_io_map(x->file, error)))
        x->base += x->header;
    else if (!rc && in_place)
        rc = LEAT_E_IO;
    if (!rc && !in_place && !kept && !x->gzip)
        x->values = leat_io_retain(x->element > 1 || leat_blocks_hold(blocks) ? blocks : x->file);
    leat_io_release(blocks);
    x->base = x->memory ? x->memory : x->base;
    return rc;
}

int leat_idx_open(const char *path, uint64_t memory_bytes, struct leat_source **out, struct leat_error *error)
{
    struct idx *x = leat_new(struct idx);
    int rc = LEAT_E_NOMEM;
    *out = NULL;
    if (!x || !(x->path = leat_strdup(path)))
        leat_fail(error, rc, "no memory to open %s", path);
    else if (!(rc = leat_io_open(path, &x->file, error)))
        rc = load(x, memory_bytes, error);
    if (rc) {
        if (x)
            idx_close(&x->source);
        return rc;
    }
    x->storage = x->values ? LEAT_STORAGE_EXTENT : LEAT_STORAGE_MAPPED;
    x->source.v = &leat_format_idx;
    x->source.path = x->path;
    x->source.fields = &x->field;
    x->source.n_fields = 1;
    x->source.storage = &x->storage;
    x->source.metadata = "{}";
    x->source.notice = "";
    *out = &x->source;
    return LEAT_OK;
}

static int idx_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                    struct leat_error *error)
{
    return leat_idx_open(path, MEMORY_BYTES, out, error);
}

/* ---- reading ------------------------------------------------------------------------------------ */

static int idx_rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                    const void **rows, size_t *failed, struct leat_error *error)
{
    const struct idx *x = (const struct idx *)source;
    for (size_t i = 0; i < n; i++)
        rows[i] = x->base + samples[i] * x->value_bytes;
    return LEAT_OK;
}

static int idx_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                       struct leat_extent *extents, size_t *failed, struct leat_error *error)
{
    const struct idx *x = (const struct idx *)source;
    for (size_t i = 0; i < n; i++)
        extents[i] = (struct leat_extent){.offset = x->header + samples[i] * x->value_bytes, .length = x->value_bytes};
    return LEAT_OK;
}

static int idx_file(struct leat_source *source, uint64_t file, struct leat_io_file **out, struct leat_error *error)
{
    const struct idx *x = (const struct idx *)source;
    *out = leat_io_retain(x->values ? x->values : x->file);
    return LEAT_OK;
}

static void idx_mark(struct leat_source *source, size_t field, uint64_t sample, bool verified, enum leat_health health)
{
}

static int idx_column(struct leat_source *source, size_t field, const void **data, struct leat_error *error)
{
    const struct idx *x = (const struct idx *)source;
    *data = x->memory || (uintptr_t)x->base % x->element == 0 ? x->base : NULL;
    return LEAT_OK;
}

/* Values that are read where they lie have no checksums: if the system knows of a change, all of them are compared with
 * the hash of opening. Blocks are compared when they are read. */
static int idx_refresh(struct leat_source *source, struct leat_error *error)
{
    struct idx *x = (struct idx *)source, now = *x;
    uint64_t stamp, size;
    if (x->memory || (x->values && x->values != x->file))
        return LEAT_OK;
    int rc = leat_io_stamp(x->file, &stamp, &size, error);
    if (rc || stamp == atomic_load(&x->stamp))
        return rc;
    now.seen = now.filled = 0;
    memset(now.source.fingerprint, 0, sizeof now.source.fingerprint);
    if (!(now.value = leat_alloc((size_t)value_room(x))))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to look at %s again", x->path);
    rc = size == x->total ? read_plain(&now, x->file, error) : LEAT_E_CHANGED;
    leat_free(now.value);
    if (rc == LEAT_E_CHANGED ||
        (!rc && memcmp(now.source.fingerprint, x->source.fingerprint, sizeof now.source.fingerprint))) {
        rc = leat_fail_at(error, LEAT_E_CHANGED, x->path, LEAT_NO_OFFSET,
                          "%s was changed after it was opened: open it again", x->path);
    }
    if (!rc)
        atomic_store(&x->stamp, stamp);
    return rc;
}

/* Opening has read all of it, and compared the checksums of gzip if there are any. */
static int idx_verify(struct leat_source *source, const struct leat_verify_options *options, uint64_t first_id,
                      struct leat_error *error)
{
    const struct idx *x = (const struct idx *)source;
    if (options->progress && options->progress(options->user, x->file->size, x->file->size))
        return leat_fail(error, LEAT_E_CANCELLED, "verifying %s was stopped", x->path);
    leat_source_tell_verified(options, x->gzip ? LEAT_VERIFIED_SUMS : LEAT_VERIFIED_READ);
    return LEAT_OK;
}

static int idx_about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error)
{
    *out = (struct leat_source_about){.bytes = ((const struct idx *)source)->file->size, .broken = UINT64_MAX};
    return LEAT_OK;
}

const struct leat_source_vtable leat_format_idx = {
    .name = "idx",
    .recognise = idx_recognise,
    .open = idx_open,
    .close = idx_close,
    .rows = idx_rows,
    .extents = idx_extents,
    .file = idx_file,
    .mark = idx_mark,
    .refresh = idx_refresh,
    .column = idx_column,
    .verify = idx_verify,
    .about = idx_about,
};
