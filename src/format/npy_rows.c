/* Rows of a file of NumPy: npy_rows.h. */
#include "format/npy_rows.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "format/npy.h"

/* Takes the array for rows along its first axis. NULL, or why it has none. */
static const char *take_rows(const struct leat_npy *npy, struct leat_npy_rows *out)
{
    if (npy->swapped)
        return "its numbers are in the other byte order: write its astype(dtype.newbyteorder('<'))";
    if (!npy->ndim)
        return "it is a single number: the first axis counts rows";
    if (npy->fortran && npy->ndim > 1)
        return "it is in Fortran order: write numpy.ascontiguousarray of it";
    out->dtype = npy->dtype;
    out->count = npy->shape[0];
    out->row_bytes = leat_dtype_size(npy->dtype);
    for (unsigned d = 1; d < npy->ndim; d++) {
        out->shape[out->ndim++] = (int64_t)npy->shape[d];
        if (!leat_mul_u64(out->row_bytes, npy->shape[d], &out->row_bytes))
            return "its shape is too large";
    }
    if (npy->bytes > INT64_MAX)
        return "its shape is too large";
    return out->row_bytes ? NULL : "its rows have no elements";
}

/* The values of a file that cannot be mapped, or does not begin them at a multiple of their elements. */
static int read_values(struct leat_npy_rows *rows, const struct leat_npy *npy, struct leat_error *error)
{
    rows->memory = npy->bytes < SIZE_MAX ? leat_alloc((size_t)npy->bytes + 1) : NULL;
    rows->values = rows->memory;
    return rows->memory ? leat_io_read(rows->file, npy->header, npy->bytes, rows->memory, error)
                        : leat_fail(error, LEAT_E_NOMEM, "no memory for the rows of %s", rows->file->path);
}

static int load(struct leat_npy_rows *rows, const char *path, struct leat_error *error)
{
    struct leat_npy npy;
    uint8_t head[LEAT_NPY_HEADER];
    const uint64_t size = rows->file->size;
    const size_t n = size < sizeof head ? (size_t)size : sizeof head;
    int rc = leat_io_read(rows->file, 0, n, head, error);
    if (rc)
        return rc;
    const char *fault = leat_npy_read(head, n, &npy);
    fault = fault ? fault : take_rows(&npy, rows);
    if (fault)
        return leat_fail_at(error, LEAT_E_FORMAT, path, 0,
                            "%s: %s; features are a file of numpy.save, with a row of numbers for each event", path,
                            fault);
    if (size - npy.header < npy.bytes)
        return leat_fail_at(error, LEAT_E_CORRUPT, path, (int64_t)size,
                            "%s: its header says %" PRIu64 " rows of %" PRIu64
                            " bytes, and the file ends before: it is cut, copy it again",
                            path, rows->count, rows->row_bytes);
    if (!rows->file->backend->map || npy.header % leat_dtype_size(rows->dtype))
        return read_values(rows, &npy, error);
    const uint8_t *base = leat_io_map(rows->file, error);
    rows->values = base ? base + npy.header : NULL;
    return base ? LEAT_OK : LEAT_E_IO;
}

int leat_npy_rows_open(const char *path, struct leat_npy_rows *out, struct leat_error *error)
{
    *out = (struct leat_npy_rows){0};
    int rc = leat_io_open(path, &out->file, error);
    rc = rc ? rc : load(out, path, error);
    if (rc)
        leat_npy_rows_close(out);
    return rc;
}

void leat_npy_rows_close(struct leat_npy_rows *rows)
{
    leat_io_release(rows->file);
    leat_free(rows->memory);
    *rows = (struct leat_npy_rows){0};
}
