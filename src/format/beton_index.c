/* The layout of a file of FFCV, and the pass over its values: beton.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "codec/photo/raw.h"
#include "format/beton.h"
#include "format/npy.h"
#include "format/raw_photos.h"
#include "format/wanted.h"

enum { HEADER = 24, DESCRIPTION = 1041, NAME = 16, DIMS = 32, ENTRY = 24, OWN_CLASS = 255, PIECE = 1 << 20 };
#define LEAST_PAGE (UINT32_C(1) << 21)
/* Bytes between two looks at who waits. */
#define LOOK (UINT64_C(64) << 20)

static int damaged(const struct leat_io_file *file, uint64_t at, const char *what, struct leat_error *error)
{
    return leat_fail_at(error, LEAT_E_CORRUPT, file->path, at <= INT64_MAX ? (int64_t)at : LEAT_NO_OFFSET,
                        "%s, byte %" PRIu64 ": %s: it is cut or damaged, copy it again", file->path, at, what);
}

/* ---- header and descriptions ----------------------------------------------------------------- */

static bool is_page_size(uint32_t bytes)
{
    return bytes >= LEAST_PAGE && !(bytes & (bytes - 1));
}

bool leat_beton_recognise(const uint8_t *head, size_t n)
{
    if (n < HEADER + 1 + NAME || leat_get_u16(head) != 2 || !leat_get_u16(head + 2) ||
        !is_page_size(leat_get_u32(head + 4)))
        return false;
    const uint8_t *first = head + HEADER;
    size_t length = 0;
    while (length < NAME && first[1 + length] >= ' ' && first[1 + length] < 127)
        length++;
    bool padded = (*first <= LEAT_BETON_TENSOR || *first == OWN_CLASS) && length;
    for (size_t i = length; i < NAME; i++)
        padded = padded && !first[1 + i];
    return padded;
}

/* Arguments: the shape, and the dtype as JSON. */
static void read_array(const uint8_t *args, struct leat_beton_column *c)
{
    const uint64_t n = leat_get_u64(args + 8 * DIMS), most = DESCRIPTION - 1 - NAME - 8 * DIMS - 8;
    struct leat_npy npy;
    unsigned ndim = DIMS;
    while (ndim && !leat_get_u64(args + 8 * (ndim - 1)))
        ndim--;
    c->fault =
        n > most ? "its dtype is longer than its place" : leat_npy_descr((const char *)args + 8 * DIMS + 8, n, &npy);
    if (!c->fault && npy.swapped)
        c->fault = "its values are big-endian";
    if (!c->fault && ndim > LEAT_MAX_DIMS)
        c->fault = "it has more than 8 dimensions";
    if (c->fault)
        return;
    c->dtype = npy.dtype;
    c->ndim = ndim;
    c->bytes = leat_dtype_size(npy.dtype);
    for (unsigned d = 0; d < ndim; d++) {
        const uint64_t length = leat_get_u64(args + 8 * d);
        c->shape[d] = (int64_t)length;
        if (!length || length > INT64_MAX || !leat_mul_u64(c->bytes, length, &c->bytes) || c->bytes > UINT32_MAX)
            c->fault = "its shape is empty, or larger than a page";
        if (c->fault)
            return;
    }
}

/* The class of FFCV's that a class of the user's own is derived from, by what the options say of the field. */
static uint8_t type_said(const struct leat_open_options *options, const char *name)
{
    char field[LEAT_FIELD_NAME] = "";
    const struct leat_field *wish;
    leat_field_name_add(field, name, strlen(name));
    if (!leat_wanted_find(options, field, &wish) || !leat_wanted_says(wish))
        return OWN_CLASS;
    if (wish->kind == LEAT_KIND_ARRAY && !wish->ndim)
        return wish->dtype == LEAT_I64 ? LEAT_BETON_INT : wish->dtype == LEAT_F64 ? LEAT_BETON_FLOAT : OWN_CLASS;
    return wish->kind == LEAT_KIND_IMAGE   ? LEAT_BETON_RGB
           : wish->kind == LEAT_KIND_BYTES ? LEAT_BETON_BYTES
           : wish->kind == LEAT_KIND_JSON  ? LEAT_BETON_JSON
                                           : OWN_CLASS;
}

/* Columns as NumPy aligns them: numbers and the places of arrays to 8 bytes, the others not at all. */
static int place_column(const struct leat_io_file *file, const struct leat_open_options *options, const uint8_t *d,
                        uint64_t at, struct leat_beton_layout *l, struct leat_beton_column *c, unsigned *align,
                        struct leat_error *error)
{
    static const uint8_t bytes[] = {8, 8, 13, 16, 8, 16, 8};
    memcpy(c->name, d + 1, NAME);
    c->type = d[0] == OWN_CLASS ? type_said(options, c->name) : d[0];
    if (c->type == OWN_CLASS)
        return leat_fail_at(error, LEAT_E_FORMAT, file->path, (int64_t)at,
                            "%s: the field \"%s\" is of a class of its own, behind which others cannot be found. If "
                            "that is derived from one of FFCV's, and stores what it does, fields says which: "
                            "\"image\" (RGBImageField), \"bytes\", \"json\", \"int64\" or \"float64\"",
                            file->path, c->name);
    if (c->type > LEAT_BETON_TENSOR)
        return damaged(file, at, "its type of field is none of FFCV's", error);
    const bool aligned = bytes[c->type] == 8;
    *align = aligned ? 8 : *align;
    c->at = aligned ? (l->row_bytes + 7) / 8 * 8 : l->row_bytes;
    l->row_bytes = c->at + bytes[c->type];
    if (c->type == LEAT_BETON_NDARRAY || c->type == LEAT_BETON_TENSOR)
        read_array(d + 1 + NAME, c);
    if (c->type != LEAT_BETON_INT && c->type != LEAT_BETON_FLOAT)
        c->place = l->n_places++;
    return LEAT_OK;
}

static int read_descriptions(struct leat_io_file *file, const struct leat_open_options *options,
                             struct leat_beton_layout *l, struct leat_error *error)
{
    const size_t n = l->n_columns * DESCRIPTION;
    unsigned align = 1;
    uint8_t *bytes = leat_alloc(n);
    l->columns = leat_new_array(l->n_columns, sizeof *l->columns);
    int rc = bytes && l->columns ? leat_io_read(file, HEADER, n, bytes, error)
                                 : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", file->path);
    for (size_t i = 0; i < l->n_columns && !rc; i++)
        rc = place_column(file, options, bytes + i * DESCRIPTION, HEADER + i * DESCRIPTION, l, &l->columns[i], &align,
                          error);
    leat_free(bytes);
    l->row_bytes = (l->row_bytes + align - 1) / align * align;
    return rc;
}

int leat_beton_read_layout(struct leat_io_file *file, const struct leat_open_options *options,
                           struct leat_beton_layout *l, struct leat_error *error)
{
    uint8_t head[HEADER];
    uint64_t end;
    *l = (struct leat_beton_layout){0};
    if (file->size < HEADER)
        return damaged(file, 0, "it is shorter than its header", error);
    int rc = leat_io_read(file, 0, HEADER, head, error);
    if (rc)
        return rc;
    if (leat_get_u16(head) != 2)
        return leat_fail_at(error, LEAT_E_FORMAT, file->path, 0, "%s is no file of FFCV's version 2, which leat reads",
                            file->path);
    const uint64_t page = leat_get_u32(head + 4);
    l->n_columns = leat_get_u16(head + 2);
    l->samples = leat_get_u64(head + 8);
    l->table = leat_get_u64(head + 16);
    if (!l->table)
        return leat_fail_at(error, LEAT_E_UNFINISHED, file->path, 16,
                            "%s is not finished, its writer was stopped: write it again", file->path);
    l->rows = HEADER + DESCRIPTION * (uint64_t)l->n_columns;
    if (!l->n_columns || l->n_columns > LEAT_BETON_FIELDS || file->size < l->rows)
        return damaged(file, 2, "it has no fields, more than 256, or not the descriptions of all", error);
    if (!is_page_size((uint32_t)page))
        return damaged(file, 4, "its size of pages is no power of two from 2 MiB on", error);
    if (l->table > file->size || (file->size - l->table) % ENTRY)
        return damaged(file, 16, "its table does not lie within it", error);
    if ((rc = read_descriptions(file, options, l, error)))
        return rc;
    if (!leat_mul_u64(l->samples, l->row_bytes, &end) || !leat_add_u64(end, l->rows, &end) || end > l->table ||
        l->samples > INT64_MAX)
        return damaged(file, 8, "it has not so many samples as it says", error);
    l->values = (end + page - 1) & ~(page - 1);
    l->values = l->values < l->table ? l->values : l->table; /* there are none */
    return LEAT_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

struct entry {
    uint64_t sample, begin, bytes;
};

struct pass {
    struct leat_io_file *file;
    const struct leat_beton_layout *layout;
    const struct leat_open_options *options;
    struct leat_error *error;
    struct entry *table; /* by their beginnings */
    uint64_t n_table;
    struct leat_place *at; /* of all samples */
    uint8_t *rows, *piece;
    uint64_t piece_at, piece_bytes; /* what of the file stands there */
    uint64_t done, looked;          /* bytes of values */
};

static int no_memory(struct pass *p)
{
    return leat_fail(p->error, LEAT_E_NOMEM, "no memory to open %s", p->file->path);
}

static int by_begin(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
                                : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int read_table(struct pass *p)
{
    const struct leat_beton_layout *l = p->layout;
    const uint64_t bytes = p->file->size - l->table;
    uint64_t most, end = 0; /* of the value before */
    p->n_table = bytes / ENTRY;
    if (!leat_mul_u64(l->samples, l->n_places, &most) || p->n_table > most)
        return damaged(p->file, l->table, "its table has more values than its samples", p->error);
    if (!(p->table = leat_alloc((size_t)bytes + 1)))
        return no_memory(p);
    const int rc = leat_io_read(p->file, l->table, bytes, p->table, p->error);
    if (rc)
        return rc;
    qsort(p->table, (size_t)p->n_table, sizeof *p->table, by_begin);
    for (uint64_t i = 0; i < p->n_table; i++) {
        const struct entry *e = &p->table[i];
        if (e->bytes && (e->begin < l->values || e->begin > l->table || e->bytes > l->table - e->begin))
            return damaged(p->file, l->table, "a value in its table does not lie among the values", p->error);
        if (e->bytes && e->begin < end)
            return damaged(p->file, l->table, "values in its table overlap", p->error);
        end = e->bytes ? e->begin + e->bytes : end;
    }
    return LEAT_OK;
}

/* The bytes that begin there; 0: none do. */
static uint64_t bytes_at(const struct pass *p, uint64_t begin)
{
    uint64_t from = 0, to = p->n_table; /* behind the last one that begins there */
    while (from < to) {
        const uint64_t middle = from + (to - from) / 2;
        *(p->table[middle].begin <= begin ? &from : &to) = p->table[middle].begin <= begin ? middle + 1 : middle;
    }
    return from && p->table[from - 1].begin == begin ? p->table[from - 1].bytes : 0;
}

/* ---- places ---------------------------------------------------------------------------------- */

static int find_place(struct pass *p, const struct leat_beton_column *c, const uint8_t *row, uint64_t at,
                      struct leat_place *out)
{
    const uint8_t *d = row + c->at;
    const struct leat_beton_layout *l = p->layout;
    const char *fault = "its place does not lie among the values";
    *out = (struct leat_place){.offset = leat_get_u64(d + (c->type == LEAT_BETON_RGB ? 5 : 0)), .length = c->bytes};
    if (c->type == LEAT_BETON_RGB) {
        const unsigned width = leat_get_u16(d + 1), height = leat_get_u16(d + 3);
        out->note = leat_beton_note(d[0], width, height);
        out->length = d[0] == 1 ? 3 * (uint64_t)width * height : d[0] ? 0 : bytes_at(p, out->offset);
        if (d[0] > 1)
            fault = "its mode of photos is neither JPEG nor pixels";
        else if (!out->length)
            fault = "it has a photo without bytes";
        if (!out->length || (d[0] == 1 && !leat_raw_photo_bytes(width, height)))
            return damaged(p->file, at + c->at, fault, p->error);
    } else if (c->type == LEAT_BETON_BYTES || c->type == LEAT_BETON_JSON) {
        out->length = leat_get_u64(d + 8);
    }
    if (!out->length)
        out->offset = l->values;
    else if (out->offset < l->values || out->offset > l->table || out->length > l->table - out->offset)
        return damaged(p->file, at + c->at, fault, p->error);
    if (c->type == LEAT_BETON_JSON && !out->length)
        return damaged(p->file, at + c->at, "it has a JSON without an end", p->error);
    p->done += out->length;
    return p->done <= l->table - l->values ? LEAT_OK : damaged(p->file, at + c->at, "its values overlap", p->error);
}

/* Of every row; a file whose values cannot all lie in it ends here, before any is read. */
static int find_places(struct pass *p)
{
    const struct leat_beton_layout *l = p->layout;
    const uint64_t most = PIECE / l->row_bytes ? PIECE / l->row_bytes : 1;
    if (!(p->rows = leat_alloc((size_t)(most * l->row_bytes))))
        return no_memory(p);
    for (uint64_t first = 0; first < l->samples; first += most) {
        const uint64_t n = l->samples - first < most ? l->samples - first : most, at = l->rows + first * l->row_bytes;
        int rc = leat_io_read(p->file, at, n * l->row_bytes, p->rows, p->error);
        for (uint64_t i = 0; i < n && !rc; i++)
            for (size_t k = 0; k < l->n_columns && !rc; k++)
                if (l->columns[k].type >= LEAT_BETON_RGB && !l->columns[k].fault)
                    rc = find_place(p, &l->columns[k], p->rows + i * l->row_bytes, at + i * l->row_bytes,
                                    &p->at[(first + i) * l->n_places + l->columns[k].place]);
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

/* ---- hashes ---------------------------------------------------------------------------------- */

static int look(struct pass *p, uint64_t bytes)
{
    p->done += bytes;
    p->looked += bytes;
    if (p->looked < LOOK)
        return LEAT_OK;
    p->looked = 0;
    if (p->options->progress && p->options->progress(p->options->user, p->done, p->layout->table - p->layout->values))
        return leat_fail(p->error, LEAT_E_CANCELLED, "reading %s was stopped", p->file->path);
    return LEAT_OK;
}

/* The next n bytes of a value. Where a request costs as much as a megabyte, those behind them are read along: mostly
 * they are of the next values. */
static int read_piece(struct pass *p, uint64_t at, uint64_t n, const uint8_t **out)
{
    const uint64_t left = p->layout->table - at, ahead = left < PIECE ? left : PIECE;
    int rc = LEAT_OK;
    if (at < p->piece_at || n > p->piece_bytes || at - p->piece_at > p->piece_bytes - n) {
        p->piece_bytes = 0;
        rc = leat_io_read(p->file, at, leat_io_is_remote(p->file->path) ? ahead : n, p->piece, p->error);
        p->piece_at = at;
        p->piece_bytes = rc ? 0 : leat_io_is_remote(p->file->path) ? ahead : n;
    }
    *out = p->piece + (at - p->piece_at);
    return rc;
}

static int sum_place(struct pass *p, const struct leat_beton_column *c, struct leat_place *at)
{
    struct leat_hash_pieces hash;
    int rc = LEAT_OK;
    leat_hash_begin(&hash);
    if (c->type == LEAT_BETON_RGB && leat_beton_mode(at->note)) {
        const struct leat_raw_photo photo = {.width = leat_beton_width(at->note),
                                             .height = leat_beton_height(at->note),
                                             .channels = 3,
                                             .orientation = 1};
        uint8_t header[LEAT_RAW_HEADER];
        leat_raw_photo_put(header, &photo);
        leat_hash_add(&hash, header, sizeof header);
    }
    uint64_t end = at->length;
    for (uint64_t done = 0; done < end && !rc; done += PIECE) {
        const uint64_t n = end - done < PIECE ? end - done : PIECE;
        const uint8_t *piece;
        if ((rc = read_piece(p, at->offset + done, n, &piece)))
            break;
        const bool last = c->type == LEAT_BETON_JSON && done + n == end; /* with the NUL, which its size counts */
        if (last && piece[n - 1])
            return damaged(p->file, at->offset, "a JSON does not end with a zero byte", p->error);
        leat_hash_add(&hash, piece, (size_t)(n - last));
        rc = look(p, n);
    }
    at->length -= c->type == LEAT_BETON_JSON;
    at->sum = leat_hash_end(&hash);
    return rc;
}

static int sum_places(struct pass *p)
{
    const struct leat_beton_layout *l = p->layout;
    int rc = LEAT_OK;
    p->done = 0;
    if (!(p->piece = leat_alloc(PIECE)))
        return no_memory(p);
    for (uint64_t i = 0; i < l->samples && !rc; i++)
        for (size_t k = 0; k < l->n_columns && !rc; k++)
            if (l->columns[k].type >= LEAT_BETON_RGB && !l->columns[k].fault)
                rc = sum_place(p, &l->columns[k], &p->at[i * l->n_places + l->columns[k].place]);
    p->looked = LOOK;
    return rc ? rc : look(p, 0);
}

int leat_beton_index_make(struct leat_io_file *file, const struct leat_beton_layout *l,
                          const struct leat_open_options *options, struct leat_places *out, struct leat_error *error)
{
    struct pass p = {.file = file, .layout = l, .options = options, .error = error};
    uint64_t n;
    *out = (struct leat_places){.count = l->samples, .width = l->n_places, .bytes = file->size};
    int rc = read_table(&p);
    if (!rc && (!leat_mul_u64(l->samples, l->n_places, &n) || n > SIZE_MAX / sizeof *p.at ||
                !(p.at = leat_new_array((size_t)n + 1, sizeof *p.at))))
        rc = no_memory(&p);
    rc = rc ? rc : find_places(&p);
    rc = rc ? rc : sum_places(&p);
    leat_free(p.table);
    leat_free(p.rows);
    leat_free(p.piece);
    out->at = out->own[3] = p.at;
    if (rc)
        leat_places_destroy(out);
    return rc;
}

bool leat_beton_index_fits(const struct leat_places *places, const struct leat_beton_layout *l)
{
    if (places->count != l->samples || places->width != l->n_places)
        return false;
    for (uint64_t i = 0; i < l->samples; i++)
        for (size_t k = 0; k < l->n_columns; k++) {
            const struct leat_beton_column *c = &l->columns[k];
            struct leat_place at;
            if (c->type < LEAT_BETON_RGB || c->fault)
                continue;
            if (leat_places_get(places, i, c->place, &at, NULL))
                return false;
            const unsigned mode = leat_beton_mode(at.note);
            const uint64_t pixels = (uint64_t)leat_beton_width(at.note) * leat_beton_height(at.note);
            if ((c->bytes && at.length != c->bytes) || (c->type != LEAT_BETON_RGB && at.note) ||
                (c->type == LEAT_BETON_RGB && mode && (mode > 1 || at.length != 3 * pixels)))
                return false;
        }
    return true;
}
