/* Arrays of NumPy's files: npy.h. */
#include "format/npy.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"

static const char damaged[] = "no header of NumPy";

static const struct {
    char name[4];
    enum leat_dtype dtype;
} dtypes[] = {{"<f4", LEAT_F32}, {"<f8", LEAT_F64}, {"<f2", LEAT_F16}, {"|u1", LEAT_U8},
              {"|i1", LEAT_I8},  {"<u2", LEAT_U16}, {"<i2", LEAT_I16}, {"<u4", LEAT_U32},
              {"<i4", LEAT_I32}, {"<u8", LEAT_U64}, {"<i8", LEAT_I64}, {"|b1", LEAT_BOOL}};

struct text {
    const char *p, *end;
};

static void skip_blanks(struct text *t)
{
    while (t->p < t->end && *t->p == ' ')
        t->p++;
}

/* Goes past a character and blanks in front of it. False: another one stands there. */
static bool take(struct text *t, char c)
{
    skip_blanks(t);
    const bool is = t->p < t->end && *t->p == c;
    t->p += is;
    return is;
}

static bool take_word(struct text *t, const char *word)
{
    const size_t n = strlen(word);
    skip_blanks(t);
    const bool is = (size_t)(t->end - t->p) >= n && !memcmp(t->p, word, n);
    t->p += is ? n : 0;
    return is;
}

/* A text in quotes of up to 31 bytes. */
static bool take_quoted(struct text *t, char out[32])
{
    size_t n = 0;
    if (!take(t, '\''))
        return false;
    for (; t->p < t->end && *t->p != '\'' && n < 31; t->p++)
        out[n++] = *t->p;
    out[n] = 0;
    return t->p < t->end && *t->p++ == '\'';
}

static bool take_shape(struct text *t, uint64_t shape[LEAT_MAX_DIMS + 1], unsigned *ndim)
{
    if (!take(t, '('))
        return false;
    for (*ndim = 0; !take(t, ')'); ++*ndim) {
        uint64_t value = 0;
        const char *const begin = t->p;
        if (*ndim > LEAT_MAX_DIMS)
            return false;
        for (; t->p < t->end && *t->p >= '0' && *t->p <= '9'; t->p++)
            if (!leat_mul_u64(value, 10, &value) || !leat_add_u64(value, (uint64_t)(*t->p - '0'), &value))
                return false;
        if (t->p == begin || value > INT64_MAX)
            return false;
        shape[*ndim] = value;
        if (!take(t, ',') && (t->p == t->end || *t->p != ')'))
            return false;
    }
    return true;
}

struct described {
    char descr[32];
    bool fortran;
    uint64_t shape[LEAT_MAX_DIMS + 1];
    unsigned ndim, seen;
};

static bool take_entry(struct text *t, struct described *d)
{
    char key[32];
    unsigned bit = 0;
    bool good = take_quoted(t, key) && take(t, ':');
    if (good && !strcmp(key, "descr")) {
        bit = 1;
        good = take_quoted(t, d->descr);
    } else if (good && !strcmp(key, "fortran_order")) {
        bit = 2;
        d->fortran = take_word(t, "True");
        good = d->fortran || take_word(t, "False");
    } else if (good && !strcmp(key, "shape")) {
        bit = 4;
        good = take_shape(t, d->shape, &d->ndim);
    }
    good = good && bit && !(d->seen & bit);
    d->seen |= bit;
    return good;
}

static const char *judge(const struct described *d, struct leat_npy_header *out)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(dtypes[i].name, d->descr))
            out->dtype = dtypes[i].dtype;
    if (!out->dtype)
        return "an array of another type than numbers in this machine's byte order";
    if (!d->ndim)
        return "a single number: the first axis counts rows";
    if (d->fortran && d->ndim > 1)
        return "an array in Fortran order: write numpy.ascontiguousarray of it";
    out->rows = d->shape[0];
    out->row_bytes = leat_dtype_size(out->dtype);
    for (unsigned i = 1; i < d->ndim; i++) {
        out->shape[out->ndim++] = (int64_t)d->shape[i];
        if (!leat_mul_u64(out->row_bytes, d->shape[i], &out->row_bytes))
            return damaged;
    }
    uint64_t bytes;
    if (!leat_mul_u64(out->rows, out->row_bytes, &bytes) || bytes > INT64_MAX)
        return damaged;
    return out->row_bytes ? NULL : "an array without elements";
}

const char *leat_npy_header_read(const uint8_t *bytes, size_t n, struct leat_npy_header *out)
{
    struct described d = {.seen = 0};
    *out = (struct leat_npy_header){0};
    if (n < 12 || memcmp(bytes, "\x93NUMPY", 6) != 0 || bytes[6] < 1 || bytes[6] > 3 || bytes[7])
        return damaged;
    const size_t begin = bytes[6] == 1 ? 10 : 12,
                 length = bytes[6] == 1 ? (size_t)(bytes[8] | bytes[9] << 8) : leat_get_u32(bytes + 8);
    if (length > n - begin)
        return damaged;
    out->data = begin + length;
    struct text t = {(const char *)bytes + begin, (const char *)bytes + begin + length};
    if (!take(&t, '{'))
        return damaged;
    while (!take(&t, '}'))
        if (!take_entry(&t, &d) || (!take(&t, ',') && (t.p == t.end || *t.p != '}')))
            return damaged;
    return d.seen == 7 ? judge(&d, out) : damaged;
}

/* The rows of a file that cannot be mapped, or does not begin them at a multiple of their elements. */
static int read_rows(struct leat_npy *npy, uint64_t bytes, struct leat_error *error)
{
    npy->memory = bytes < SIZE_MAX ? leat_alloc((size_t)bytes + 1) : NULL;
    npy->rows = npy->memory;
    return npy->memory ? leat_io_read(npy->file, npy->header.data, bytes, npy->memory, error)
                       : leat_fail(error, LEAT_E_NOMEM, "no memory for the rows of %s", npy->file->path);
}

static int load(struct leat_npy *npy, const char *path, struct leat_error *error)
{
    const struct leat_npy_header *h = &npy->header;
    const uint64_t size = npy->file->size;
    const size_t n = size < LEAT_NPY_HEAD ? (size_t)size : LEAT_NPY_HEAD;
    uint8_t *head = leat_alloc(n + 1);
    int rc = head ? leat_io_read(npy->file, 0, n, head, error)
                  : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    const char *what = rc ? NULL : leat_npy_header_read(head, n, &npy->header);
    leat_free(head);
    if (what)
        return leat_fail_at(error, LEAT_E_FORMAT, path, 0,
                            "%s has %s: features are a file of numpy.save, with a row of numbers for each event", path,
                            what);
    if (rc)
        return rc;
    const uint64_t bytes = h->rows * h->row_bytes;
    if (size - h->data < bytes)
        return leat_fail_at(error, LEAT_E_CORRUPT, path, (int64_t)size,
                            "%s: its header says %" PRIu64 " rows of %" PRIu64
                            " bytes, and the file ends before: it is cut, copy it again",
                            path, h->rows, h->row_bytes);
    if (!npy->file->backend->map || h->data % leat_dtype_size(h->dtype))
        return read_rows(npy, bytes, error);
    const uint8_t *base = leat_io_map(npy->file, error);
    npy->rows = base ? base + h->data : NULL;
    return base ? LEAT_OK : LEAT_E_IO;
}

int leat_npy_open(const char *path, struct leat_npy *out, struct leat_error *error)
{
    *out = (struct leat_npy){0};
    int rc = leat_io_open(path, &out->file, error);
    rc = rc ? rc : load(out, path, error);
    if (rc)
        leat_npy_close(out);
    return rc;
}

void leat_npy_close(struct leat_npy *npy)
{
    leat_io_release(npy->file);
    leat_free(npy->memory);
    *npy = (struct leat_npy){0};
}
