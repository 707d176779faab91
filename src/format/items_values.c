/*
 * What stands in the bodies of items (items.h): headers of arrays, pixels of Pillow, numbers in text; and the
 * fingerprint, which is over the values of all samples.
 *
 *     MDS      [u8 dtype] | u8 ndim << 2 | log2 of the bytes of each dimension | dimensions | values
 *     LitData  u32 dtype | u32 ndim | u32 dimensions | values; of tensors the header is big-endian
 *     pixels   u32 width | u32 height | u32 bytes of the mode | mode | rows
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/fingerprint.h"
#include "format/items.h"
#include "format/made_values.h"

/* A larger body is no number and no image. */
#define LARGEST (UINT64_C(1) << 30)

/* ---- arrays ---------------------------------------------------------------------------------- */

static enum leat_dtype dtype_of_mds(uint8_t code)
{
    switch (code) {
    case 8:
        return LEAT_U8;
    case 9:
        return LEAT_I8;
    case 16:
        return LEAT_U16;
    case 17:
        return LEAT_I16;
    case 18:
        return LEAT_F16;
    case 32:
        return LEAT_U32;
    case 33:
        return LEAT_I32;
    case 34:
        return LEAT_F32;
    case 64:
        return LEAT_U64;
    case 65:
        return LEAT_I64;
    case 66:
        return LEAT_F64;
    default:
        return 0;
    }
}

enum leat_dtype leat_item_dtype_of_numpy(uint64_t index)
{
    static const enum leat_dtype types[] = {LEAT_I8,  LEAT_I16, LEAT_I32, LEAT_I64, LEAT_U8, LEAT_U16, LEAT_U32,
                                            LEAT_U64, LEAT_F16, LEAT_F32, LEAT_F64, 0,       0,        LEAT_BOOL};
    return index < sizeof types / sizeof *types ? types[index] : 0;
}

enum leat_dtype leat_item_dtype_of_torch(uint64_t index)
{
    static const enum leat_dtype types[] = {LEAT_F32, LEAT_F32, LEAT_F64, LEAT_F64,  0,        0,         0,
                                            0,        LEAT_F16, LEAT_F16, LEAT_BF16, LEAT_U8,  LEAT_I8,   LEAT_I16,
                                            LEAT_I16, LEAT_I32, LEAT_I32, LEAT_I64,  LEAT_I64, LEAT_BOOL, LEAT_U16};
    return index < sizeof types / sizeof *types ? types[index] : 0;
}

/* Reads `ndim` dimensions of `each` bytes at `p`. */
static void read_dims(const uint8_t *p, unsigned ndim, unsigned each, bool swapped, uint64_t *dims)
{
    for (unsigned d = 0; d < ndim; d++) {
        dims[d] = 0;
        for (unsigned i = 0; i < each; i++)
            dims[d] |= (uint64_t)p[d * each + i] << 8 * (swapped ? each - 1 - i : i);
    }
}

static const char *read_header(const struct leat_item_column *c, const uint8_t *p, uint64_t n, enum leat_dtype *dtype,
                               unsigned *ndim, uint64_t dims[LEAT_MAX_DIMS], uint64_t *header)
{
    static const char cut[] = "it is shorter than the header of an array",
                      many[] = "it has more dimensions than a field";
    const bool torch = c->form == LEAT_ITEM_TENSOR;
    if (c->form == LEAT_ITEM_HEADED) {
        const uint64_t code = !c->type.dtype;
        if (n < code + 1)
            return cut;
        *dtype = code ? dtype_of_mds(p[0]) : c->type.dtype;
        *ndim = p[code] >> 2;
        const unsigned each = 1u << (p[code] & 3);
        *header = code + 1 + (uint64_t)*ndim * each;
        if (*ndim > LEAT_MAX_DIMS)
            return many;
        if (n < *header)
            return cut;
        read_dims(p + code + 1, *ndim, each, false, dims);
        return NULL;
    }
    uint64_t words[2];
    if (n < 8)
        return cut;
    read_dims(p, 2, 4, torch, words);
    if (words[1] > LEAT_MAX_DIMS)
        return many;
    *dtype = (torch ? leat_item_dtype_of_torch : leat_item_dtype_of_numpy)(words[0]);
    *ndim = (unsigned)words[1];
    *header = 8 + 4 * words[1];
    if (n < *header)
        return cut;
    read_dims(p + 8, *ndim, 4, torch, dims);
    return NULL;
}

const char *leat_item_array(const struct leat_item_column *c, const uint8_t *p, uint64_t n, uint64_t total,
                            struct leat_array_shape *shape, uint64_t *first, uint64_t *header)
{
    uint64_t dims[LEAT_MAX_DIMS], bytes;
    enum leat_dtype dtype = c->type.dtype;
    unsigned ndim = 1;
    *header = 0;
    if (c->form == LEAT_ITEM_ARRAY) {
        dims[0] = total / leat_dtype_size(dtype);
    } else {
        const char *fault = read_header(c, p, n, &dtype, &ndim, dims, header);
        if (fault || !dtype) {
            *header = 0;
            return fault ? fault : "it has values of a type that leat does not know";
        }
    }
    bytes = leat_dtype_size(dtype);
    bool fits = true;
    for (unsigned d = 0; d < ndim; d++) {
        fits = fits && (dims[d] || !d) && leat_mul_u64(bytes, dims[d], &bytes);
        shape->shape[d] = d ? dims[d] : 0;
    }
    if (!fits || bytes != total - *header || bytes > INT64_MAX) {
        *header = 0;
        return "its size is not that of its shape";
    }
    *first = ndim ? dims[0] : 0;
    shape->dtype = dtype;
    shape->ndim = ndim;
    return NULL;
}

/* ---- values that are made -------------------------------------------------------------------- */

/* Where values are made: a file is opened once, and bodies go to a buffer that grows. */
struct maker {
    struct leat_items *items;
    const struct leat_items_file *of;
    struct leat_io_file *file;
    uint8_t *buffer;
    size_t room;
};

/* An image as a file of PNM, which has its pixels behind a header. */
static int make_photo(const uint8_t *p, uint64_t n, struct leat_values *out, size_t k, size_t i, const char **fault)
{
    char head[64];
    const uint64_t mode_bytes = n >= 12 ? leat_get_u32(p + 8) : 0;
    *fault = "it is no image of Pillow, or is cut";
    if (n < 12 || mode_bytes > n - 12)
        return LEAT_E_DECODE;
    const uint8_t *mode = p + 12, *pixels = mode + mode_bytes;
    const bool gray = mode_bytes == 1 && mode[0] == 'L', rgb = mode_bytes == 3 && !memcmp(mode, "RGB", 3);
    const uint64_t width = leat_get_u32(p), height = leat_get_u32(p + 4);
    uint64_t bytes = 0;
    if (!gray && !rgb) {
        *fault = "its mode is neither RGB nor L: write it so, or take its bytes by fields={...: \"bytes\"}";
        return LEAT_E_DECODE;
    }
    if (!width || !height || !leat_mul_u64(width * height, rgb ? 3 : 1, &bytes) || bytes != n - 12 - mode_bytes)
        return LEAT_E_DECODE;
    *fault = NULL;
    const int used = snprintf(head, sizeof head, "P%d\n%" PRIu64 " %" PRIu64 "\n255\n", rgb ? 6 : 5, width, height);
    uint8_t *to = leat_values_room(out, k, i, (uint64_t)used + bytes);
    if (!to)
        return LEAT_E_NOMEM;
    memcpy(to, head, (size_t)used);
    memcpy(to + used, pixels, (size_t)bytes);
    return LEAT_OK;
}

static int make(struct maker *m, size_t field, uint64_t sample, struct leat_values *out, size_t k, size_t i,
                struct leat_error *error)
{
    const struct leat_item_field *origin = &m->items->origins[field];
    const struct leat_items_file *f = leat_items_find(m->items, sample);
    struct leat_item_place at;
    const char *fault = NULL;
    int rc = leat_items_place(m->items, origin->column, sample, &at, error);
    if (rc)
        return rc;
    if (at.length > LARGEST)
        return leat_items_fail(m->items, field, sample, &at, LEAT_E_DECODE, "it has more than 1 GiB", error);
    if (f != m->of) {
        leat_io_release(m->file);
        m->file = NULL;
        m->of = f;
        rc = leat_their_file_check(&f->is, error);
        if ((rc = rc ? rc : leat_their_file_bytes(&f->is, &m->items->all.pace, &m->file, error)))
            return rc;
    }
    if (!leat_grow(&m->buffer, &m->room, (size_t)at.length + 1, 1))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %s", f->is.path);
    if ((rc = leat_io_read(m->file, at.begin, at.length, m->buffer, error)))
        return rc;
    rc = origin->use == LEAT_ITEM_PHOTO
             ? make_photo(m->buffer, at.length, out, k, i, &fault)
             : leat_made_value(&m->items->fields[field], m->buffer, (size_t)at.length, out, k, i, &fault);
    if (fault)
        return leat_items_fail(m->items, field, sample, &at, LEAT_E_DECODE, fault, error);
    return rc ? leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %s", f->is.path) : LEAT_OK;
}

static void end_maker(struct maker *m)
{
    leat_io_release(m->file);
    leat_free(m->buffer);
}

int leat_items_compute(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                       size_t n, struct leat_values *out, size_t *failed, struct leat_error *error)
{
    struct maker m = {.items = (struct leat_items *)source};
    int rc = LEAT_OK;
    size_t i = 0;
    for (; i < n && !rc; i += !rc) {
        if (leat_values_cancelled(out))
            rc = leat_fail(error, LEAT_E_CANCELLED, "reading was cancelled");
        for (size_t k = 0; k < n_fields && !rc; k++)
            rc = make(&m, fields[k], samples[i], out, k, i, error);
    }
    *failed = i;
    end_maker(&m);
    return rc;
}

/* ---- the fingerprint ------------------------------------------------------------------------- */

/* The hash of bytes of a file that is read in order. */
static int sum_bytes(struct leat_items_window *w, uint64_t at, uint64_t n, uint64_t *sum, struct leat_error *error)
{
    struct leat_hash_pieces hash;
    const uint8_t *p = NULL;
    int rc = LEAT_OK;
    if (n <= LEAT_ITEMS_WINDOW) {
        if (!(rc = leat_items_window_get(w, at, n, &p, error)))
            *sum = leat_hash64(p, (size_t)n);
        return rc;
    }
    leat_hash_begin(&hash);
    for (uint64_t done = 0; done < n && !rc; done += LEAT_ITEMS_WINDOW) {
        const uint64_t part = n - done < LEAT_ITEMS_WINDOW ? n - done : LEAT_ITEMS_WINDOW;
        if (!(rc = leat_items_window_get(w, at + done, part, &p, error)))
            leat_hash_add(&hash, p, (size_t)part);
    }
    *sum = leat_hash_end(&hash);
    return rc;
}

/* A value that cannot be made counts as nothing, as it is of no pack. */
static int sum_made(struct maker *m, size_t field, uint64_t sample, uint64_t *sum, struct leat_error *error)
{
    struct leat_values values;
    if (leat_values_init(&values, 1, 1))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", m->items->index_path);
    const int rc = make(m, field, sample, &values, 0, 0, error);
    if (!rc)
        *sum = leat_hash64(values.at[0].data, (size_t)values.at[0].bytes);
    leat_values_destroy(&values);
    return rc == LEAT_E_DECODE ? LEAT_OK : rc;
}

static int sum_sample(struct maker *m, struct leat_items_window *w, uint64_t sample, struct leat_error *error)
{
    struct leat_items *t = m->items;
    uint64_t hashes[2] = {0, 0};
    int rc = LEAT_OK;
    for (size_t k = 0; k < t->source.n_fields && !rc; k++) {
        uint64_t sum = 0;
        size_t failed;
        struct leat_extent e;
        if (t->storage[k] == LEAT_STORAGE_COMPUTED)
            rc = sum_made(m, k, sample, &sum, error);
        else if (!(rc = leat_items_extents(&t->source, k, &sample, 1, &e, &failed, error)))
            rc = sum_bytes(w, e.offset, e.length, &sum, error);
        else if (rc == LEAT_E_DECODE)
            rc = LEAT_OK;
        leat_fingerprint_value(hashes, sum);
    }
    leat_fingerprint_append(t->source.fingerprint, hashes);
    return rc;
}

/* Which fields the sums are over. */
static uint64_t fields_key(const struct leat_items *t)
{
    uint64_t key = t->stride;
    for (size_t k = 0; k < t->source.n_fields; k++) {
        const struct leat_field *f = &t->fields[k];
        uint64_t facts[7 + LEAT_MAX_DIMS] = {key,
                                             leat_hash64(f->name, strlen(f->name)),
                                             f->kind,
                                             f->dtype,
                                             f->layout,
                                             f->ndim,
                                             (uint64_t)t->origins[k].use << 32 | t->origins[k].column};
        for (unsigned d = 0; d < f->ndim; d++)
            facts[7 + d] = (uint64_t)f->shape[d];
        key = leat_hash64(facts, sizeof facts);
    }
    return key;
}

static int sum_all(struct leat_items *t, const struct leat_open_options *options, struct leat_error *error)
{
    struct maker m = {.items = t};
    struct leat_items_window w = {0};
    const struct leat_items_file *of = NULL;
    int rc = LEAT_OK;
    for (uint64_t i = 0; i < t->source.count && !rc; i++) {
        const struct leat_items_file *f = leat_items_find(t, i);
        if (f != of) {
            leat_io_release(w.file);
            w.file = NULL;
            w.n = 0;
            rc = leat_their_file_bytes(&f->is, &t->all.pace, &w.file, error);
            of = f;
        }
        rc = rc ? rc : sum_sample(&m, &w, i, error);
        if (!rc && options->progress && i % 4096 == 4095 && options->progress(options->user, i, t->source.count))
            rc = leat_fail(error, LEAT_E_CANCELLED, "reading %s was stopped", t->source.path);
    }
    leat_items_window_end(&w);
    end_maker(&m);
    return rc;
}

int leat_items_sum(struct leat_items *t, const struct leat_open_options *options, struct leat_error *error)
{
    struct leat_items_index *x = &t->index;
    const uint64_t key = fields_key(t);
    for (uint64_t i = 0; i < x->n_sums; i++)
        if (x->sums[i].fields == key) {
            memcpy(t->source.fingerprint, x->sums[i].sums, sizeof x->sums[i].sums);
            return LEAT_OK;
        }
    const int rc = sum_all(t, options, error);
    if (rc)
        return rc;
    /* The oldest one gives way. */
    if (x->n_sums == LEAT_ITEMS_SUMS)
        memmove(x->sums, x->sums + 1, sizeof x->sums - sizeof *x->sums);
    else
        x->n_sums++;
    struct leat_items_sum *s = &x->sums[x->n_sums - 1];
    *s = (struct leat_items_sum){key, {t->source.fingerprint[0], t->source.fingerprint[1]}};
    leat_items_save_index(t, options);
    return LEAT_OK;
}
