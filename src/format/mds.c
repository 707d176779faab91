/*
 * MosaicML Streaming's shards (MDS), version 2: a folder of items (items.h) whose index.json says of each shard
 *
 *     column_names, column_encodings, column_sizes    null: the size stands in each sample
 *     samples, raw_data {basename, bytes, hashes}     zip_data likewise, of a shard that is compressed as a whole
 *
 * All shards have the same columns. Of a shard that is there both ways, the one that is not compressed is read.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/items.h"
#include "format/json_text.h"

enum { KEY = 64, HASHES = 32 };

struct hash {
    char name[LEAT_DIGEST_NAME], text[LEAT_DIGEST_TEXT];
};
struct data { /* raw_data or zip_data */
    char *name;
    uint64_t bytes;
    struct hash hashes[HASHES];
    size_t n_hashes;
};
struct list {
    char *texts[LEAT_ITEM_COLUMNS];
    int64_t sizes[LEAT_ITEM_COLUMNS]; /* -1: null */
    size_t n;
};
struct shard {
    struct list names, encodings, sizes;
    char *compression, *format;
    struct data raw, zip;
    uint64_t samples, version;
    bool counts; /* it says its samples */
};

struct reader {
    struct leat_items *items;
    struct leat_json json;
    struct leat_error *error;
    struct shard shard;
    uint64_t columns; /* a hash of those of the first shard */
    int rc;
};

/* ---- JSON ------------------------------------------------------------------------------------ */

static bool fail(struct reader *r, int code, const char *what)
{
    const uint64_t at = leat_json_offset(&r->json);
    r->rc = leat_fail_at(r->error, code, r->items->index_path, (int64_t)at, "%s, line %" PRIu64 ": %s",
                         r->items->index_path, leat_json_line(&r->json), what);
    return false;
}

static bool no_memory(struct reader *r)
{
    r->rc = leat_fail(r->error, LEAT_E_NOMEM, "no memory to open %s", r->items->index_path);
    return false;
}

static bool read_count(struct reader *r, uint64_t *out)
{
    double number;
    bool whole;
    int64_t value = 0;
    if (!leat_json_read_number(&r->json, &number, &whole, &value))
        return false;
    *out = (uint64_t)value;
    return (whole && value >= 0) || fail(r, LEAT_E_CORRUPT, "a number is no count");
}

static bool read_list(struct reader *r, struct list *list, bool sizes)
{
    uint64_t size;
    if (!leat_json_enter(&r->json, '['))
        return false;
    list->n = 0;
    while (leat_json_item(&r->json)) {
        if (list->n == LEAT_ITEM_COLUMNS)
            return fail(r, LEAT_E_FORMAT, "it has more than 256 columns");
        const size_t n = list->n++;
        if (sizes && leat_json_peek(&r->json) == 'n') {
            list->sizes[n] = -1;
            leat_json_skip(&r->json);
        } else if (sizes) {
            if (!read_count(r, &size))
                return false;
            list->sizes[n] = (int64_t)size;
        } else if (!leat_json_text(&r->json, &list->texts[n])) {
            return false;
        } else if (!list->texts[n]) {
            return fail(r, LEAT_E_CORRUPT, "a column has no name, or no encoding");
        }
    }
    return !r->json.fault;
}

static bool read_hashes(struct reader *r, struct data *d)
{
    char name[KEY];
    if (!leat_json_enter(&r->json, '{'))
        return false;
    while (leat_json_key(&r->json, name, sizeof name)) {
        const char *text = leat_json_string(&r->json, NULL);
        if (!text)
            return false;
        if (d->n_hashes == HASHES || strlen(name) >= LEAT_DIGEST_NAME || strlen(text) >= LEAT_DIGEST_TEXT)
            return fail(r, LEAT_E_CORRUPT, "it has hashes that are none");
        strcpy(d->hashes[d->n_hashes].name, name);
        strcpy(d->hashes[d->n_hashes++].text, text);
    }
    return !r->json.fault;
}

static bool read_data(struct reader *r, struct data *d)
{
    char key[KEY];
    bool good = true;
    if (leat_json_peek(&r->json) == 'n')
        return leat_json_skip(&r->json);
    if (!leat_json_enter(&r->json, '{'))
        return false;
    d->n_hashes = 0;
    while (good && leat_json_key(&r->json, key, sizeof key))
        good = !strcmp(key, "basename") ? leat_json_text(&r->json, &d->name)
               : !strcmp(key, "bytes")  ? read_count(r, &d->bytes)
               : !strcmp(key, "hashes") ? read_hashes(r, d)
                                        : leat_json_skip(&r->json);
    return good && !r->json.fault;
}

static void clear(struct shard *s)
{
    for (size_t i = 0; i < LEAT_ITEM_COLUMNS; i++) {
        leat_free(s->names.texts[i]);
        leat_free(s->encodings.texts[i]);
    }
    leat_free(s->compression);
    leat_free(s->format);
    leat_free(s->raw.name);
    leat_free(s->zip.name);
    memset(s, 0, sizeof *s);
}

static bool read_shard(struct reader *r)
{
    struct shard *s = &r->shard;
    char key[KEY];
    bool good = leat_json_enter(&r->json, '{');
    while (good && leat_json_key(&r->json, key, sizeof key))
        good = !strcmp(key, "column_names")       ? read_list(r, &s->names, false)
               : !strcmp(key, "column_encodings") ? read_list(r, &s->encodings, false)
               : !strcmp(key, "column_sizes")     ? read_list(r, &s->sizes, true)
               : !strcmp(key, "compression")      ? leat_json_text(&r->json, &s->compression)
               : !strcmp(key, "format")           ? leat_json_text(&r->json, &s->format)
               : !strcmp(key, "raw_data")         ? read_data(r, &s->raw)
               : !strcmp(key, "zip_data")         ? read_data(r, &s->zip)
               : !strcmp(key, "samples")          ? (s->counts = read_count(r, &s->samples))
               : !strcmp(key, "version")          ? read_count(r, &s->version)
                                                  : leat_json_skip(&r->json);
    return good && !r->json.fault;
}

/* ---- columns --------------------------------------------------------------------------------- */

static enum leat_dtype dtype_of(const char *name, size_t n)
{
    static const struct {
        const char *name;
        enum leat_dtype dtype;
    } types[] = {{"int", LEAT_I64},    {"uint8", LEAT_U8},    {"uint16", LEAT_U16},  {"uint32", LEAT_U32},
                 {"uint64", LEAT_U64}, {"int8", LEAT_I8},     {"int16", LEAT_I16},   {"int32", LEAT_I32},
                 {"int64", LEAT_I64},  {"float16", LEAT_F16}, {"float32", LEAT_F32}, {"float64", LEAT_F64}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strlen(types[i].name) == n && !memcmp(types[i].name, name, n))
            return types[i].dtype;
    return 0;
}

/* What stands behind "ndarray". False: it is no such encoding. */
static bool read_array(struct leat_item_column *c, const char *text)
{
    uint64_t bytes;
    c->form = LEAT_ITEM_HEADED;
    c->type = (struct leat_field){.kind = LEAT_KIND_ARRAY};
    if (!*text)
        return true;
    const size_t n = strcspn(++text, ":");
    if (!(c->type.dtype = dtype_of(text, n)) || text[-1] != ':' || !strncmp(text, "int:", 4) || !strcmp(text, "int"))
        return false;
    if (!*(text += n))
        return true;
    bytes = leat_dtype_size(c->type.dtype);
    for (const char *p = text + 1; c->type.ndim < LEAT_MAX_DIMS; p++) {
        char *end;
        const unsigned long long d = *p >= '1' && *p <= '9' ? strtoull(p, &end, 10) : 0;
        if (!d || d > INT64_MAX || !leat_mul_u64(bytes, d, &bytes) || bytes > INT64_MAX || (*end && *end != ','))
            return false;
        c->type.shape[c->type.ndim++] = (int64_t)d;
        if (!*(p = end)) {
            c->form = LEAT_ITEM_ARRAY;
            c->fixed = bytes;
            return true;
        }
    }
    return false;
}

/* What an encoding is; unknown ones, and lists of photos, are bytes of which nothing is said. */
static bool read_encoding(struct leat_item_column *c, const char *text)
{
    static const struct {
        const char *name;
        enum leat_item_form form;
        enum leat_kind kind;
        enum leat_dtype dtype;
    } all[] = {{"bytes", LEAT_ITEM_BYTES, 0, 0},
               {"str", LEAT_ITEM_BYTES, LEAT_KIND_STR, 0},
               {"str_decimal", LEAT_ITEM_BYTES, LEAT_KIND_STR, 0},
               {"json", LEAT_ITEM_BYTES, LEAT_KIND_JSON, 0},
               {"jpeg", LEAT_ITEM_BYTES, LEAT_KIND_IMAGE, 0},
               {"png", LEAT_ITEM_BYTES, LEAT_KIND_IMAGE, 0},
               {"jpeg_array", LEAT_ITEM_BYTES, LEAT_KIND_BYTES, 0},
               {"jpegarray", LEAT_ITEM_BYTES, LEAT_KIND_BYTES, 0},
               {"list[pil]", LEAT_ITEM_BYTES, LEAT_KIND_BYTES, 0},
               {"list[jpeg]", LEAT_ITEM_BYTES, LEAT_KIND_BYTES, 0},
               {"list[png]", LEAT_ITEM_BYTES, LEAT_KIND_BYTES, 0},
               {"str_int", LEAT_ITEM_NUMBER, LEAT_KIND_ARRAY, LEAT_I64},
               {"str_float", LEAT_ITEM_NUMBER, LEAT_KIND_ARRAY, LEAT_F64},
               {"pil", LEAT_ITEM_PIXELS, LEAT_KIND_IMAGE, 0},
               {"pkl", LEAT_ITEM_PICKLE, 0, 0}};
    if (!strncmp(text, "ndarray", 7) && (!text[7] || text[7] == ':'))
        return read_array(c, text + 7);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i].name, text)) {
            c->form = all[i].form;
            c->type = (struct leat_field){.kind = all[i].kind, .dtype = all[i].dtype ? all[i].dtype : LEAT_U8};
            return true;
        }
    const enum leat_dtype dtype = dtype_of(text, strlen(text));
    if (dtype) {
        c->form = LEAT_ITEM_ARRAY;
        c->type = (struct leat_field){.kind = LEAT_KIND_ARRAY, .dtype = dtype};
        c->fixed = leat_dtype_size(dtype);
    }
    return true;
}

static bool take_columns(struct reader *r)
{
    const struct shard *s = &r->shard;
    for (size_t k = 0; k < s->names.n; k++) {
        struct leat_item_column *c =
            leat_items_add_column(r->items, s->names.texts[k], s->encodings.texts[k], r->error);
        const int64_t size = s->sizes.sizes[k];
        if (!c) {
            r->rc = r->error->code;
            return false;
        }
        const bool known = read_encoding(c, s->encodings.texts[k]);
        if (!known || size == 0 || (c->form != LEAT_ITEM_OTHER && (size < 0 ? 0 : (uint64_t)size) != c->fixed))
            return fail(r, LEAT_E_CORRUPT, "a column has an encoding that is none, or another size than that");
        c->fixed = size < 0 ? 0 : (uint64_t)size;
        c->sized = size < 0;
    }
    return true;
}

static uint64_t hash_columns(const struct shard *s)
{
    uint64_t hash = s->names.n;
    for (size_t k = 0; k < s->names.n; k++) {
        const uint64_t facts[] = {hash, leat_hash64(s->names.texts[k], strlen(s->names.texts[k])),
                                  leat_hash64(s->encodings.texts[k], strlen(s->encodings.texts[k])),
                                  (uint64_t)s->sizes.sizes[k]};
        hash = leat_hash64(facts, sizeof facts);
    }
    return hash;
}

/* ---- shards ---------------------------------------------------------------------------------- */

static bool add_hashes(struct reader *r, struct leat_items_file *f, const struct data *d, bool decoded)
{
    for (size_t i = 0; i < d->n_hashes; i++) {
        if (!leat_grow(&f->hashes, &f->hashes_room, f->n_hashes + 1, sizeof *f->hashes))
            return no_memory(r);
        struct leat_items_hash *h = &f->hashes[f->n_hashes++];
        h->decoded = decoded;
        memcpy(h->name, d->hashes[i].name, sizeof h->name);
        memcpy(h->text, d->hashes[i].text, sizeof h->text);
    }
    return true;
}

static bool take_file(struct reader *r)
{
    static const struct {
        const char *name;
        enum leat_stored_filter_kind filter;
    } filters[] = {{"zstd", LEAT_FILTER_ZSTD},
                   {"gz", LEAT_FILTER_GZIP},
                   {"bz2", LEAT_FILTER_BZIP2},
                   {"br", LEAT_FILTER_BROTLI},
                   {"snappy", LEAT_FILTER_SNAPPY}};
    const struct shard *s = &r->shard;
    struct leat_items_file *f = leat_items_add_file(r->items, s->raw.name, r->error);
    size_t i = 0;
    if (f && s->zip.name && !leat_items_is_there(f->is.path)) { /* else the decoded one is read */
        leat_free(f->is.path);
        r->items->n_files--;
        f = leat_items_add_file(r->items, s->zip.name, r->error);
        if (f)
            f->packing = LEAT_ITEMS_WHOLE;
    }
    if (!f) {
        r->rc = r->error->code;
        return false;
    }
    f->samples = s->samples;
    f->decoded = s->raw.bytes;
    f->stated = f->packing ? s->zip.bytes : s->raw.bytes;
    const size_t n = s->compression ? strcspn(s->compression, ":") : 0; /* "zstd:7" */
    while (i < sizeof filters / sizeof *filters &&
           (strlen(filters[i].name) != n || strncmp(filters[i].name, s->compression, n) != 0))
        i++;
    if (f->packing && i == sizeof filters / sizeof *filters)
        return fail(r, LEAT_E_UNSUPPORTED, "its compression is none of zstd, gz, bz2, br and snappy");
    f->filter = f->packing ? filters[i].filter : 0;
    return (!f->packing || add_hashes(r, f, &s->zip, false)) && add_hashes(r, f, &s->raw, f->packing);
}

static bool take_shard(struct reader *r)
{
    const struct shard *s = &r->shard;
    if (!s->format || strcmp(s->format, "mds") != 0)
        return fail(r, LEAT_E_UNSUPPORTED, "a shard has another format than \"mds\", which alone leat reads here");
    if (s->version != 2)
        return fail(r, LEAT_E_UNSUPPORTED, "a shard has another version than 2");
    if (!s->counts || !s->raw.name || s->names.n != s->encodings.n || s->names.n != s->sizes.n || !s->names.n)
        return fail(r, LEAT_E_CORRUPT, "a shard lacks its samples, its raw_data or its columns");
    const uint64_t columns = hash_columns(s);
    if (!r->items->n_columns && !take_columns(r))
        return false;
    if (r->items->n_files && columns != r->columns)
        return fail(r, LEAT_E_FORMAT, "a shard has other columns than the first: open them apart");
    r->columns = columns;
    return take_file(r);
}

static bool read_index(struct reader *r)
{
    char key[KEY];
    bool good = leat_json_enter(&r->json, '{'), found = false;
    while (good && leat_json_key(&r->json, key, sizeof key)) {
        if (strcmp(key, "shards") != 0) {
            good = leat_json_skip(&r->json);
            continue;
        }
        found = true;
        good = leat_json_enter(&r->json, '[');
        while (good && leat_json_item(&r->json)) {
            clear(&r->shard);
            good = read_shard(r) && take_shard(r);
        }
    }
    good = good && !r->json.fault;
    return good && !(found && r->items->n_files) ? fail(r, LEAT_E_FORMAT, "it names no shards") : good;
}

/* ---- the format ------------------------------------------------------------------------------ */

/* The index of any writer of the library, those of JSON and CSV too: the error then says that leat does not read them.
 */
static bool is_index(const char *text, size_t n)
{
    static const char *const keys[] = {"\"shards\"", "\"version\""};
    static const char *const marks[] = {"\"column_encodings\"", "\"raw_data\"", "\"shards\": []"};
    bool found = false;
    for (size_t i = 0; i < sizeof marks / sizeof *marks && !found; i++)
        found = memmem(text, n, marks[i], strlen(marks[i]));
    return found && leat_items_begins(text, n, keys);
}

static bool mds_recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    return leat_items_recognise(path, folder, head, n, is_index);
}

static int mds_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                    struct leat_error *error)
{
    struct leat_io_file *file;
    struct leat_error own;
    struct reader *r = leat_new(struct reader);
    *out = NULL;
    if (!r)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    r->error = error ? error : &own;
    int rc = leat_items_new(path, &leat_format_mds, &r->items, &file, r->error);
    if (!rc) {
        leat_json_begin(&r->json, file, r->error);
        const bool good = read_index(r);
        if (good || (r->json.fault && !r->rc))
            rc = leat_json_end(&r->json);
        else
            leat_json_stop(&r->json);
        rc = r->rc ? r->rc : rc;
        leat_io_release(file);
        clear(&r->shard);
        if (rc)
            leat_items_close(&r->items->source);
        else
            rc = leat_items_open(r->items, options, out, error);
    }
    leat_free(r);
    return rc;
}

const struct leat_source_vtable leat_format_mds = {
    .name = "mds", .recognise = mds_recognise, .open = mds_open, LEAT_ITEMS_FUNCTIONS};
