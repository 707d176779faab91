/*
 * LitData's chunks: a folder of items (items.h) whose index.json says
 *
 *     chunks    filename, chunk_size: its samples, chunk_bytes, dim: its tokens
 *     config    data_format: the encoding of each leaf; data_spec: the tree that they are the leaves of, as JSON in a
 *               text; compression and compression_level: none, or zstd of chunks, samples or batches of them;
 *               item_loader: "TokensLoader", whose chunks are tokens without borders
 *
 * Every leaf has its size in each sample, fixed ones too. A leaf is named by the keys on its way from the root.
 * Whatever else config speaks of is refused by name: the layout moves.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/items.h"
#include "format/json_text.h"

enum { KEY = 128, DEPTH = 16 };

struct reader {
    struct leat_items *items;
    struct leat_json json;
    struct leat_error *error;
    const char *path; /* for errors */
    char *formats[LEAT_ITEM_COLUMNS];
    size_t n_formats, named;
    char *spec, *compression, *level, *loader;
    const char *other; /* what leat does not read */
    uint64_t block;
    bool verifying;
    int rc;
};

/* ---- JSON ------------------------------------------------------------------------------------ */

static bool fail(struct reader *r, int code, const char *what)
{
    r->rc = leat_fail_at(r->error, code, r->items->index_path, LEAT_NO_OFFSET, "%s: %s", r->items->index_path, what);
    return false;
}

static bool no_memory(struct reader *r)
{
    r->rc = leat_fail(r->error, LEAT_E_NOMEM, "no memory to open %s", r->items->index_path);
    return false;
}

/* A count, or null: UINT64_MAX. */
static bool read_count(struct reader *r, uint64_t *out)
{
    double number;
    bool whole;
    int64_t value = 0;
    *out = UINT64_MAX;
    if (leat_json_peek(&r->json) == 'n')
        return leat_json_skip(&r->json);
    if (!leat_json_read_number(&r->json, &number, &whole, &value))
        return false;
    *out = (uint64_t)value;
    return (whole && value >= 0) || fail(r, LEAT_E_CORRUPT, "a number is no count");
}

static bool read_chunk(struct reader *r)
{
    char key[KEY], *name = NULL;
    uint64_t samples = UINT64_MAX, bytes = UINT64_MAX, dim = UINT64_MAX;
    bool good = leat_json_enter(&r->json, '{');
    while (good && leat_json_key(&r->json, key, sizeof key))
        good = !strcmp(key, "filename")      ? leat_json_text(&r->json, &name)
               : !strcmp(key, "chunk_size")  ? read_count(r, &samples)
               : !strcmp(key, "chunk_bytes") ? read_count(r, &bytes)
               : !strcmp(key, "dim")         ? read_count(r, &dim)
                                             : leat_json_skip(&r->json);
    good = good && !r->json.fault;
    if (good && (!name || samples == UINT64_MAX || bytes == UINT64_MAX))
        good = fail(r, LEAT_E_CORRUPT, "a chunk lacks its filename, chunk_size or chunk_bytes");
    struct leat_items_file *f = good ? leat_items_add_file(r->items, name, r->error) : NULL;
    leat_free(name);
    if (good && !f)
        r->rc = r->error->code;
    if (!f)
        return false;
    f->samples = samples;
    f->decoded = bytes;
    f->base = dim; /* until it is known whether these are tokens */
    return true;
}

static bool read_formats(struct reader *r)
{
    bool good = leat_json_peek(&r->json) != 'n' || !leat_json_skip(&r->json);
    if (!good)
        return !r->json.fault;
    good = leat_json_enter(&r->json, '[');
    while (good && leat_json_item(&r->json)) {
        if (r->n_formats == LEAT_ITEM_COLUMNS)
            return fail(r, LEAT_E_FORMAT, "it has more than 256 leaves");
        good = leat_json_text(&r->json, &r->formats[r->n_formats]);
        if (good && !r->formats[r->n_formats++])
            good = fail(r, LEAT_E_CORRUPT, "a leaf has no format");
    }
    return good && !r->json.fault;
}

/* What has to be null. */
static bool read_other(struct reader *r, const char *what)
{
    if (leat_json_peek(&r->json) != 'n')
        r->other = what;
    return leat_json_skip(&r->json);
}

static bool read_config(struct reader *r)
{
    char key[KEY];
    bool good = leat_json_enter(&r->json, '{');
    while (good && leat_json_key(&r->json, key, sizeof key))
        good = !strcmp(key, "data_format")         ? read_formats(r)
               : !strcmp(key, "data_spec")         ? leat_json_text(&r->json, &r->spec)
               : !strcmp(key, "compression")       ? leat_json_text(&r->json, &r->compression)
               : !strcmp(key, "compression_level") ? leat_json_text(&r->json, &r->level)
               : !strcmp(key, "item_loader")       ? leat_json_text(&r->json, &r->loader)
               : !strcmp(key, "encryption")        ? read_other(r, "encrypted chunks")
               : !strcmp(key, "ipc_compression")   ? read_other(r, "samples in an Arrow footer")
               : !strcmp(key, "temporal_schema")   ? read_other(r, "a temporal_schema")
                                                   : leat_json_skip(&r->json);
    return good && !r->json.fault;
}

static bool read_index(struct reader *r)
{
    char key[KEY];
    bool good = leat_json_enter(&r->json, '{');
    while (good && leat_json_key(&r->json, key, sizeof key)) {
        if (!strcmp(key, "config")) {
            good = read_config(r);
        } else if (!strcmp(key, "chunks")) {
            good = leat_json_enter(&r->json, '[');
            while (good && leat_json_item(&r->json))
                good = read_chunk(r);
        } else {
            good = leat_json_skip(&r->json);
        }
    }
    return good && !r->json.fault;
}

/* ---- leaves ---------------------------------------------------------------------------------- */

static bool read_format(struct leat_item_column *c, const char *text)
{
    static const struct {
        const char *name;
        enum leat_item_form form;
        enum leat_kind kind;
        enum leat_dtype dtype;
    } all[] = {
        {"int", LEAT_ITEM_ARRAY, LEAT_KIND_ARRAY, LEAT_I64},   {"float", LEAT_ITEM_ARRAY, LEAT_KIND_ARRAY, LEAT_F64},
        {"bool", LEAT_ITEM_ARRAY, LEAT_KIND_ARRAY, LEAT_BOOL}, {"str", LEAT_ITEM_BYTES, LEAT_KIND_STR, LEAT_U8},
        {"text", LEAT_ITEM_BYTES, LEAT_KIND_STR, LEAT_U8},     {"bytes", LEAT_ITEM_BYTES, 0, LEAT_U8},
        {"jpeg", LEAT_ITEM_BYTES, LEAT_KIND_IMAGE, LEAT_U8},   {"image", LEAT_ITEM_BYTES, LEAT_KIND_IMAGE, LEAT_U8},
        {"pil", LEAT_ITEM_PIXELS, LEAT_KIND_IMAGE, LEAT_U8},   {"numpy", LEAT_ITEM_NUMPY, LEAT_KIND_ARRAY, 0},
        {"tensor", LEAT_ITEM_TENSOR, LEAT_KIND_ARRAY, 0},      {"pickle", LEAT_ITEM_PICKLE, 0, 0}};
    static const struct {
        const char *begin;
        enum leat_dtype (*dtype_of)(uint64_t index);
    } bare[] = {{"no_header_numpy:", leat_item_dtype_of_numpy}, {"no_header_tensor:", leat_item_dtype_of_torch}};
    const size_t length = strncmp(text, "image:", 6) ? strlen(text) : 5; /* image:jpg, by its extension */
    c->sized = true;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strlen(all[i].name) == length && !strncmp(all[i].name, text, length)) {
            c->form = all[i].form;
            c->type = (struct leat_field){.kind = all[i].kind, .dtype = all[i].dtype};
            c->fixed = c->form == LEAT_ITEM_ARRAY ? leat_dtype_size(all[i].dtype) : 0;
            return true;
        }
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++) {
        const size_t n = strlen(bare[i].begin);
        char *end;
        if (strncmp(text, bare[i].begin, n) != 0 || text[n] < '0' || text[n] > '9')
            continue;
        const enum leat_dtype dtype = bare[i].dtype_of(strtoull(text + n, &end, 10));
        if (*end || !dtype)
            return false;
        c->form = LEAT_ITEM_ARRAY;
        c->type = (struct leat_field){.kind = LEAT_KIND_ARRAY, .dtype = dtype, .ndim = 1, .shape = {-1}};
        return true;
    }
    return false;
}

static bool add_leaf(struct reader *r, const char *name)
{
    if (r->named == r->n_formats)
        return fail(r, LEAT_E_CORRUPT, "its data_spec has more leaves than its data_format");
    const char *format = r->formats[r->named++];
    struct leat_item_column *c = leat_items_add_column(r->items, *name ? name : "data", format, r->error);
    if (!c) {
        r->rc = r->error->code;
        return false;
    }
    read_format(c, format); /* one that is not known is refused unless it is left out */
    return true;
}

/* The keys of a node: "context" is null, or JSON in a text, a list of keys if the node is a dict. */
static bool read_keys(struct reader *r, const char *context, char *keys[], size_t *n)
{
    struct leat_io_file *file;
    struct leat_json j;
    *n = 0;
    if ((r->rc = leat_io_from_memory(r->items->index_path, context, strlen(context), &file, r->error)))
        return false;
    leat_json_begin(&j, file, r->error);
    bool good = leat_json_enter(&j, '[');
    while (good && leat_json_item(&j)) {
        if (*n == LEAT_ITEM_COLUMNS)
            good = fail(r, LEAT_E_FORMAT, "it has more than 256 leaves");
        else if (leat_json_peek(&j) == '"')
            good = leat_json_text(&j, &keys[(*n)++]);
        else
            good = fail(r, LEAT_E_UNSUPPORTED, "a dict of its data_spec has keys that are no texts");
    }
    if (r->rc)
        leat_json_stop(&j);
    else
        r->rc = leat_json_end(&j);
    leat_io_release(file);
    return !r->rc;
}

static bool read_node(struct reader *r, struct leat_json *j, const char *name, unsigned depth);

/* Its children, each under its key, or its number. */
static bool read_children(struct reader *r, struct leat_json *j, const char *name, char *const keys[], size_t n_keys,
                          unsigned depth, size_t *n)
{
    bool good = leat_json_enter(j, '[');
    char child[2 * KEY];
    for (*n = 0; good && leat_json_item(j); ++*n) {
        const int used = *n < n_keys ? snprintf(child, sizeof child, "%s%s%s", name, *name ? "." : "", keys[*n])
                                     : snprintf(child, sizeof child, "%s%s%zu", name, *name ? "." : "", *n);
        good = used < (int)sizeof child ? read_node(r, j, child, depth + 1)
                                        : fail(r, LEAT_E_FORMAT, "the name of a leaf is too long");
    }
    return good && !j->fault;
}

/* {"type": null or a name, "context": null or a text, "children_spec": [...]}, in this order. */
static bool read_node(struct reader *r, struct leat_json *j, const char *name, unsigned depth)
{
    char key[KEY], *type = NULL, *context = NULL, **keys = leat_new_array(LEAT_ITEM_COLUMNS, sizeof *keys);
    size_t n_keys = 0, n = 0;
    bool good = keys || no_memory(r);
    if (good && depth == DEPTH)
        good = fail(r, LEAT_E_FORMAT, "its data_spec is nested too deep");
    good = good && leat_json_enter(j, '{');
    while (good && leat_json_key(j, key, sizeof key)) {
        if (!strcmp(key, "type"))
            good = leat_json_text(j, &type);
        else if (!strcmp(key, "context"))
            good = leat_json_text(j, &context) &&
                   (!type || !context || !strstr(type, "dict") || read_keys(r, context, keys, &n_keys));
        else if (!strcmp(key, "children_spec"))
            good = read_children(r, j, name, keys, n_keys, depth, &n);
        else
            good = leat_json_skip(j);
    }
    good = good && !j->fault;
    if (good && n_keys && n != n_keys)
        good = fail(r, LEAT_E_CORRUPT, "a dict of its data_spec has another number of keys than of values");
    if (good && !type)
        good = add_leaf(r, name);
    for (size_t i = 0; keys && i < LEAT_ITEM_COLUMNS; i++)
        leat_free(keys[i]);
    leat_free(keys);
    leat_free(type);
    leat_free(context);
    return good;
}

/* [1, node] in a text. */
static bool read_spec(struct reader *r)
{
    struct leat_io_file *file;
    struct leat_json j;
    if (!r->spec)
        return fail(r, LEAT_E_UNSUPPORTED, "it has no data_spec, which says what its samples are");
    if ((r->rc = leat_io_from_memory(r->items->index_path, r->spec, strlen(r->spec), &file, r->error)))
        return false;
    leat_json_begin(&j, file, r->error);
    const bool good = leat_json_enter(&j, '[') && leat_json_item(&j) && leat_json_skip(&j) && leat_json_item(&j) &&
                      read_node(r, &j, "", 0) && !leat_json_item(&j);
    if (r->rc || (!good && !j.fault))
        leat_json_stop(&j);
    else
        r->rc = leat_json_end(&j);
    leat_io_release(file);
    if (good && !r->rc && r->named != r->n_formats)
        return fail(r, LEAT_E_CORRUPT, "its data_spec has fewer leaves than its data_format");
    return (good && !r->rc) || (r->rc ? false : fail(r, LEAT_E_CORRUPT, "its data_spec is none"));
}

/* ---- what it is ------------------------------------------------------------------------------ */

/* u32 N | u32 offset[N + 1]: what older writers do not count as bytes of a chunk. */
static uint64_t table_bytes(uint64_t n)
{
    return n > UINT32_MAX ? 0 : 4 * (n + 2);
}

static bool take_tokens(struct reader *r)
{
    struct leat_items *t = r->items;
    uint64_t bytes = 0;
    if (r->compression)
        return fail(r, LEAT_E_UNSUPPORTED, "its tokens are compressed, which leat does not read");
    if (r->verifying)
        r->block = 1; /* which samples they are does not matter */
    if (!r->block)
        return fail(r, LEAT_E_INVALID,
                    "its samples are tokens without borders: say how many are a sample, as in block=2048");
    struct leat_item_column *c = leat_items_add_column(t, "tokens", r->n_formats ? r->formats[0] : "", r->error);
    if (!c) {
        r->rc = r->error->code;
        return false;
    }
    if (r->n_formats != 1 || !read_format(c, r->formats[0]) || c->form != LEAT_ITEM_ARRAY || !c->type.ndim)
        return fail(r, LEAT_E_UNSUPPORTED, "its tokens are no arrays without a header, which alone leat reads");
    c->type.shape[0] = (int64_t)r->block;
    if (!leat_mul_u64(r->block, leat_dtype_size(c->type.dtype), &bytes) || bytes > INT64_MAX)
        return fail(r, LEAT_E_INVALID, "block is too large");
    t->stride = bytes;
    for (size_t i = 0; i < t->n_files; i++) {
        struct leat_items_file *f = &t->files[i];
        const uint64_t tokens = f->base, documents = f->samples;
        if (tokens == UINT64_MAX || documents > UINT32_MAX)
            return fail(r, LEAT_E_CORRUPT, "a chunk does not say its tokens");
        f->base = f->uncounted = table_bytes(documents);
        f->samples = tokens / r->block;
        f->stated = f->decoded;
    }
    return true;
}

/* LitData's reader leaves the decoded chunk-0-0.bin in the place of chunk-0-0.zstd.bin: then that is read. */
static bool take_decoded(struct reader *r, struct leat_items_file *f)
{
    const char *slash = strrchr(f->is.path, '/'), *end = strstr(slash ? slash : f->is.path, ".zstd");
    char *path = end ? leat_strdup(f->is.path) : NULL;
    if (end && !path)
        return no_memory(r);
    if (end)
        memmove(path + (end - f->is.path), end + 5, strlen(end + 5) + 1);
    if (!end || !leat_items_is_there(path)) {
        leat_free(path);
        return true;
    }
    leat_free(f->is.path);
    f->is.path = path;
    f->packing = LEAT_ITEMS_PLAIN;
    return true;
}

static bool take_items(struct reader *r)
{
    struct leat_items *t = r->items;
    enum leat_items_packing packing = LEAT_ITEMS_PLAIN;
    if (r->block)
        return fail(r, LEAT_E_INVALID, "block is about tokens, and its samples have borders of their own");
    if (r->compression && strncmp(r->compression, "zstd", 4) != 0)
        return fail(r, LEAT_E_UNSUPPORTED, "its compression is another one than zstd");
    if (r->compression)
        packing = !r->level || !strcmp(r->level, "chunk") ? LEAT_ITEMS_WHOLE
                  : !strcmp(r->level, "sample")           ? LEAT_ITEMS_SINGLE
                  : !strcmp(r->level, "batch")            ? LEAT_ITEMS_BATCHES
                                                          : LEAT_ITEMS_PLAIN;
    if (r->compression && !packing)
        return fail(r, LEAT_E_UNSUPPORTED, "its compression_level is none of chunk, sample and batch");
    for (size_t i = 0; i < t->n_files; i++) {
        t->files[i].packing = packing;
        t->files[i].filter = LEAT_FILTER_ZSTD;
        t->files[i].uncounted = table_bytes(t->files[i].samples);
        t->files[i].base = 0;
        if (packing == LEAT_ITEMS_WHOLE && !take_decoded(r, &t->files[i]))
            return false;
        if (t->files[i].packing != LEAT_ITEMS_WHOLE)
            t->files[i].stated = t->files[i].decoded;
    }
    t->ends_known = true;
    return read_spec(r);
}

static bool take(struct reader *r)
{
    char what[160];
    const bool tokens = r->loader && !strcmp(r->loader, "TokensLoader");
    if (!r->items->n_files || !r->n_formats)
        return fail(r, LEAT_E_FORMAT, "it names no chunks, or no data_format");
    if (!r->other && r->loader && !tokens && strcmp(r->loader, "PyTreeLoader") != 0)
        r->other = "an item_loader other than PyTreeLoader and TokensLoader";
    if (r->other) {
        snprintf(what, sizeof what, "it has %s, which leat does not read", r->other);
        return fail(r, LEAT_E_UNSUPPORTED, what);
    }
    return tokens ? take_tokens(r) : take_items(r);
}

/* ---- the format ------------------------------------------------------------------------------ */

static bool is_index(const char *text, size_t n)
{
    static const char *const keys[] = {"\"chunks\"", "\"config\""};
    static const char filename[] = "\"chunk_size\"";
    return leat_items_begins(text, n, keys) && memmem(text, n, filename, sizeof filename - 1);
}

static bool litdata_recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    return leat_items_recognise(path, folder, head, n, is_index);
}

static void clear(struct reader *r)
{
    for (size_t i = 0; i < LEAT_ITEM_COLUMNS; i++)
        leat_free(r->formats[i]);
    leat_free(r->spec);
    leat_free(r->compression);
    leat_free(r->level);
    leat_free(r->loader);
    leat_free(r);
}

static int litdata_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                        struct leat_error *error)
{
    struct leat_io_file *file;
    struct leat_error own;
    struct reader *r = leat_new(struct reader);
    *out = NULL;
    if (!r)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    r->error = error ? error : &own;
    r->block = options->block;
    r->verifying = options->verifying;
    int rc = leat_items_new(path, &leat_format_litdata, &r->items, &file, r->error);
    if (!rc) {
        leat_json_begin(&r->json, file, r->error);
        const bool good = read_index(r);
        if (good || (r->json.fault && !r->rc))
            rc = leat_json_end(&r->json);
        else
            leat_json_stop(&r->json);
        if (good && !rc)
            take(r);
        rc = r->rc ? r->rc : rc;
        leat_io_release(file);
        if (rc)
            leat_items_close(&r->items->source);
        else
            rc = leat_items_open(r->items, options, out, error);
    }
    clear(r);
    return rc;
}

const struct leat_source_vtable leat_format_litdata = {
    .name = "litdata", .recognise = litdata_recognise, .open = litdata_open, .takes_block = true, LEAT_ITEMS_FUNCTIONS};
