/*
 * Arrays in chunks of a file, and data sets of their rows. All comes from the input: sizes, chunks, filters, pointers,
 * a map and the file. It is refused, or its rows are read or are damaged; and an array that is read as a whole is the
 * same in parts.
 *
 *     array     u8 bytes of an element, u8 dimensions, u8 filters, u8: 1 in chunks, 2 with a size of the file
 *               size and chunk of each dimension; kind and argument of each filter, u8 each; a chunk of the table:
 *               offset and bytes, u8 mask; where it lies, if it is not in chunks
 *     rows      u8: 1 sparse, 2 with a map, 4 dense; u8 number of the type of values; u8 that of columns
 *               of sparse rows the array of columns; pointers; the map, u8 each
 *     file      what remains
 *
 * A number is a byte; 255: one of eight bytes follows; 254: it is missing.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "leat/stored.h"

/* Reading decodes whole chunks: those that are larger are refused or not, and not read. */
enum { MOST = 1 << 18, CHUNKS = 64, ROWS = 8, COLUMNS = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at, *end;
};

static uint8_t take(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static uint64_t number(struct input *in)
{
    const uint8_t n = take(in);
    if (n == 254)
        return LEAT_STORED_MISSING;
    if (n < 254 || in->end - in->at < 8)
        return n;
    in->at += 8;
    return leat_get_u64(in->at - 8);
}

struct array {
    struct leat_stored_array a;
    struct leat_stored_chunk chunks[CHUNKS];
    const char *files[1];
    uint64_t sizes[1];
    bool small; /* it may be read */
};

/* Multiplies, up to MOST. */
static uint64_t bounded(uint64_t a, uint64_t b)
{
    return b && a > MOST / b ? MOST : a * b;
}

static void take_array(struct input *in, const char *path, struct array *out)
{
    struct leat_stored_array *a = &out->a;
    uint64_t n = 1, elements, chunk, row = 1;
    *a = (struct leat_stored_array){.name = "x", .item = take(in), .ndim = take(in), .n_filters = take(in)};
    const uint8_t flags = take(in);
    elements = chunk = a->item;
    for (unsigned d = 0; d < a->ndim && d < LEAT_STORED_DIMS; d++) {
        a->shape[d] = number(in);
        a->chunk[d] = number(in);
        elements = bounded(elements, a->shape[d]);
        chunk = bounded(chunk, a->chunk[d]);
        row = bounded(row, d ? a->shape[d] : a->chunk[0]);
        n = a->chunk[d] ? bounded(n, a->shape[d] / a->chunk[d] + (a->shape[d] % a->chunk[d] != 0)) : 0;
    }
    for (unsigned i = 0; i < a->n_filters && i < LEAT_STORED_FILTERS; i++) {
        a->filters[i].kind = (enum leat_stored_filter_kind)take(in);
        a->filters[i].arg = take(in);
    }
    if (flags & 1) {
        a->n_chunks = n < CHUNKS ? n : CHUNKS;
        a->chunks = out->chunks;
        for (uint64_t i = 0; i < a->n_chunks; i++) {
            out->chunks[i].offset = number(in);
            out->chunks[i].bytes = number(in);
            out->chunks[i].mask = take(in);
            out->chunks[i].file = 0;
        }
    } else {
        a->offset = number(in);
    }
    memset(a->fill, 7, sizeof a->fill);
    out->files[0] = path;
    a->files = out->files;
    a->n_files = 1;
    a->sizes = flags & 2 ? out->sizes : NULL;
    out->small = elements < MOST && (!(flags & 1) || (chunk < MOST && bounded(row, a->item) < MOST));
}

/* Reads an array. Whether it was good. */
static void read_array(const struct leat_stored_array *a)
{
    uint64_t n = 1;
    for (unsigned d = 0; d < a->ndim; d++)
        n *= a->shape[d];
    uint8_t *all = leat_alloc(n * a->item), *part = leat_alloc(n * a->item);
    const int rc = leat_stored_read(a, 0, n, all, NULL);
    if (!rc && (leat_stored_read(a, n / 3, n - n / 3, part, NULL) ||
                memcmp(part, all + n / 3 * a->item, (n - n / 3) * a->item) != 0))
        abort();
    if (rc && n && rc != LEAT_E_INVALID && rc != LEAT_E_UNSUPPORTED && rc != LEAT_E_DECODE && rc != LEAT_E_CHANGED)
        abort();
    leat_free(all);
    leat_free(part);
}

static void read_rows(const struct leat_dataset *d, const struct leat_stored_rows *rows)
{
    const uint64_t n = leat_dataset_count(d);
    struct leat_value value;
    for (uint64_t i = 0; i < n && i < ROWS; i++) {
        if (leat_dataset_read(d, i, 0, &value, NULL))
            continue;
        const uint64_t step = rows->values.item + sizeof(int32_t), length = value.length / step;
        const uint8_t *columns = (const uint8_t *)value.data + length * rows->values.item;
        for (uint64_t k = 0; rows->columns && k < length; k++) {
            const int32_t column = (int32_t)leat_get_u32(columns + 4 * k),
                          before = k ? (int32_t)leat_get_u32(columns + 4 * (k - 1)) : -1;
            if (column <= before || column >= rows->field.columns)
                abort();
        }
        leat_value_clear(&value);
    }
}

static void take_rows(struct input *in, const char *path, const struct array *values, struct array *columns,
                      struct leat_stored_rows *out)
{
    static int64_t pointers[ROWS + 1];
    static int32_t map[COLUMNS];
    const uint8_t flags = take(in);
    const enum leat_dtype item = take(in) % 16, column_dtype = take(in) % 16;
    *out = (struct leat_stored_rows){
        .values = values->a,
        .column_dtype = column_dtype,
        .pointers = pointers,
        .field = {.name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8, .ndim = 2, .columns = COLUMNS}};
    columns->small = true;
    if (flags & 1) {
        take_array(in, path, columns);
        out->columns = &columns->a;
        out->field.shape[0] = -1;
        out->field.shape[1] = (int64_t)leat_dtype_size(item) + 4;
        out->field.role = LEAT_ROLE_SPARSE;
        out->field.item = item;
        for (unsigned i = 0; i <= ROWS; i++)
            pointers[i] = (int64_t)number(in);
    } else {
        out->field.dtype = item;
        out->field.columns = 0;
        out->field.ndim = values->a.ndim - 1;
        for (unsigned d = 1; d < values->a.ndim && d < LEAT_STORED_DIMS; d++)
            out->field.shape[d - 1] = (int64_t)values->a.shape[d];
    }
    if (!(flags & 2))
        return;
    if (!(flags & 1)) {
        out->field.ndim = 1;
        out->field.shape[0] = COLUMNS;
    }
    for (unsigned i = 0; i < COLUMNS; i++)
        map[i] = (int32_t)take(in) - 128;
    out->map = map;
    out->n_map = COLUMNS;
}

/* A file without a name, and its path. */
static void write_file(const struct input *in, char *path, size_t room)
{
    static int fd = -1;
    const size_t n = (size_t)(in->end - in->at);
    if (fd < 0 && (fd = memfd_create("leat-fuzz-stored", MFD_CLOEXEC)) < 0)
        abort();
    if (ftruncate(fd, 0) || (n && pwrite(fd, in->at, n, 0) != (ssize_t)n))
        abort();
    snprintf(path, room, "/proc/self/fd/%d", fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct array values, columns;
    struct input in = {data, data + size};
    struct leat_stored_rows rows;
    struct leat_dataset *d;
    char path[64];
    snprintf(path, sizeof path, "x");
    take_array(&in, path, &values);
    take_rows(&in, path, &values, &columns, &rows);
    values.sizes[0] = columns.sizes[0] = (uint64_t)(in.end - in.at);
    write_file(&in, path, sizeof path);
    if (values.small && values.a.ndim <= LEAT_STORED_DIMS)
        read_array(&values.a);
    const uint64_t count = rows.columns ? ROWS : values.a.shape[0];
    if (!leat_dataset_from_stored(&rows, count, "", NULL, NULL, &d, NULL)) {
        if (values.small && columns.small)
            read_rows(d, &rows);
        leat_dataset_release(d);
    }
    return 0;
}
