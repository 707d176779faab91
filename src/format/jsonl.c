/*
 * JSONL: records of text, an object in each line; plain, or compressed with gzip or zstd. Several files are one source,
 * so that their fields are those that any of them has (jsonl_fields.c). Each has an index, made once (text_file.h).
 *
 *     numbers, booleans               columns of the index, mapped
 *     strings of few distinct values  computed from the index
 *     everything else                 computed: the record is read, compared with its checksum, and walked through
 */
#include "format/jsonl.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "io/guard.h"
#include "io/gzip.h"

/* ---- recognising ----------------------------------------------------------------------------- */

static bool ends_with(const char *path, const char *end)
{
    const size_t n = strlen(path), k = strlen(end);
    return n >= k && !strcasecmp(path + n - k, end);
}

static bool pass_all(void *user, const struct leat_record_leaf *leaf)
{
    return true;
}

/* By its name; or a first line that is an object, with another one behind it. */
static bool jsonl_recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    static const char *const names[] = {".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz", ".jsonl.zst", ".ndjson.zst"};
    if (folder)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ends_with(path, names[i]))
            return true;
    const uint8_t *newline = n && *head == '{' ? memchr(head, '\n', n) : NULL;
    if (!newline || (size_t)(newline - head) + 1 >= n || newline[1] != '{')
        return false;
    struct leat_property_tree tree;
    struct leat_record_walk walk = {.tree = &tree, .tell = pass_all, .number = 1};
    const bool is = leat_property_tree_init(&tree) && leat_record_run(&walk, head, (size_t)(newline - head));
    leat_record_walk_destroy(&walk);
    leat_property_tree_destroy(&tree);
    return is;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void jsonl_close(struct leat_source *source)
{
    struct leat_jsonl *j = (struct leat_jsonl *)source;
    for (size_t i = 0; i < j->text.n_files; i++) {
        leat_free(j->files[i].nodes);
        leat_free(j->files[i].columns);
    }
    leat_text_source_end(&j->text);
    for (size_t i = 0; i < j->n_owned; i++)
        leat_free(j->owned[i]);
    leat_property_tree_destroy(&j->tree);
    leat_free(j->owned);
    leat_free(j->files);
    leat_free(j->fields);
    leat_free(j->origins);
    leat_free(j->storage);
    leat_free(j);
}

/* *damaged: a column of a large index is. Then all are to be opened carefully. */
static int open_files(struct leat_jsonl *j, const char *const *paths, size_t n, const struct leat_open_options *options,
                      bool careful, bool *damaged, struct leat_error *error)
{
    int rc = LEAT_OK;
    *damaged = false;
    for (size_t i = 0; i < n && !rc; i++)
        if (!(rc = leat_text_file_open(paths[i], options, LEAT_TEXT_JSONL, careful, &j->files[i].text, error)))
            leat_text_source_add(&j->text, &j->files[i].text);
    if (!rc) {
        rc = leat_jsonl_make_fields(j, options, error);
        *damaged = rc == LEAT_E_CORRUPT;
    }
    for (size_t i = 0; i < n && !rc; i++)
        rc = leat_jsonl_judge(j, &j->files[i], options, error);
    if (!rc)
        leat_text_source_sum(&j->text);
    return rc;
}

static int open_with(const char *const *paths, size_t n, const struct leat_open_options *options, bool careful,
                     bool *damaged, struct leat_source **out, struct leat_error *error)
{
    struct leat_jsonl *j = leat_new(struct leat_jsonl);
    int rc = LEAT_E_NOMEM;
    *out = NULL;
    if (!j || !leat_text_source_begin(&j->text, paths[0], n) || !(j->files = leat_new_array(n, sizeof *j->files)))
        leat_fail(error, rc, "no memory to open %s", paths[0]);
    else
        rc = open_files(j, paths, n, options, careful, damaged, error);
    if (rc) {
        if (j)
            jsonl_close(&j->text.source);
        return rc;
    }
    j->text.source.v = &leat_format_jsonl;
    j->text.source.fields = j->fields;
    j->text.source.storage = j->storage;
    *out = &j->text.source;
    return LEAT_OK;
}

static int jsonl_open_files(const char *const *paths, size_t n, const struct leat_open_options *options,
                            struct leat_source **out, struct leat_error *error)
{
    bool damaged = false;
    const int rc = open_with(paths, n, options, false, &damaged, out, error);
    return rc && damaged ? open_with(paths, n, options, true, &damaged, out, error) : rc;
}

static int jsonl_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                      struct leat_error *error)
{
    return jsonl_open_files(&path, 1, options, out, error);
}

/* ---- reading --------------------------------------------------------------------------------- */

static const struct leat_jsonl_file *file_of(const struct leat_jsonl *j, uint64_t sample)
{
    return (const struct leat_jsonl_file *)leat_text_source_file(&j->text, sample);
}

static int jsonl_rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                      const void **rows, size_t *failed, struct leat_error *error)
{
    const struct leat_jsonl *j = (const struct leat_jsonl *)source;
    const size_t each = leat_dtype_size(j->fields[field].dtype);
    const struct leat_text_bad *bad;
    for (size_t i = 0; i < n; i++) {
        const struct leat_jsonl_file *f = file_of(j, samples[i]);
        const uint64_t record = leat_text_file_record(&f->text, samples[i] - f->text.first, &bad);
        if (bad) {
            *failed = i;
            return leat_text_file_fail(&f->text, bad, LEAT_E_DECODE, error);
        }
        rows[i] = (const uint8_t *)f->columns[field].values + record * each;
    }
    return LEAT_OK;
}

static int jsonl_column(struct leat_source *source, size_t field, const void **data, struct leat_error *error)
{
    const struct leat_jsonl *j = (const struct leat_jsonl *)source;
    const bool one = j->text.n_files == 1 && !j->files[0].text.index.n_bad;
    *data = one && j->storage[field] == LEAT_STORAGE_MAPPED ? j->files[0].columns[field].values : NULL;
    return LEAT_OK;
}

/* Values of some fields of one record after the other. */
struct get {
    const struct leat_jsonl *j;
    const size_t *fields;
    size_t n_fields;
    size_t sample; /* index in `out` */
    struct leat_values *out;
    const struct leat_jsonl_file *file; /* for which `wanted` and `slots` are */
    uint8_t *wanted;                    /* of the nodes of its tree */
    uint32_t *slots;                    /* of each node: index in `fields` */
    size_t left, n_wanted;              /* leaves that are still to come in the record; of each record */
    bool no_memory;
    uint8_t *buffer;
    size_t room;
    struct leat_record_walk walk;
};

static bool put(struct get *g, size_t slot, const void *data, size_t bytes)
{
    g->no_memory = g->no_memory || leat_values_put(g->out, slot, g->sample, data, bytes);
    return !g->no_memory;
}

static bool hear(void *user, const struct leat_record_leaf *leaf)
{
    struct get *g = user;
    const size_t slot = g->slots[leaf->property];
    const struct leat_jsonl_field *origin = &g->j->origins[g->fields[slot]];
    void *to;
    g->left--;
    if (origin->whole && leaf->type == LEAT_RECORD_STR) {
        put(g, slot, leaf->text - 1, leaf->length + 2);
    } else if (origin->whole) {
        put(g, slot, leaf->text, leaf->length);
    } else if (leaf->type == LEAT_RECORD_STR && !leaf->escaped) {
        put(g, slot, leaf->text, leaf->length);
    } else if (leaf->type == LEAT_RECORD_STR) {
        if ((to = leat_values_room(g->out, slot, g->sample, leaf->length)))
            g->out->at[slot * g->out->n_samples + g->sample].bytes = leat_json_unescape(leaf->text, leaf->length, to);
        else
            g->no_memory = true;
    } else if (leaf->type >= LEAT_RECORD_EMPTY_LIST && leaf->type < LEAT_RECORD_LIST) {
        const size_t n = leat_record_elements(leaf->text, leaf->length, origin->list, NULL);
        to = leat_values_room(g->out, slot, g->sample, n * (origin->list == LEAT_RECORD_BOOLS ? 1 : 8));
        if (to)
            leat_record_elements(leaf->text, leaf->length, origin->list, to);
        g->no_memory = g->no_memory || !to;
    }
    return !g->no_memory && g->left;
}

/* Marks the nodes of the file's tree that are wanted. */
static bool prepare(struct get *g, const struct leat_jsonl_file *f)
{
    const struct leat_property_tree *t = &f->text.index.tree;
    leat_free(g->wanted);
    leat_free(g->slots);
    g->file = f;
    g->n_wanted = 0;
    g->wanted = leat_new_array(t->n, 1);
    g->slots = leat_new_array(t->n, sizeof *g->slots);
    if (!g->wanted || !g->slots)
        return false;
    for (size_t k = 0; k < g->n_fields; k++) {
        const struct leat_jsonl_column *c = &f->columns[g->fields[k]];
        if (!c->node || c->values)
            continue;
        g->n_wanted++;
        g->slots[c->node] = (uint32_t)k;
        g->wanted[c->node] = g->j->origins[g->fields[k]].whole ? LEAT_WISH_WHOLE : LEAT_WISH_LEAF;
    }
    leat_jsonl_want_below(t, g->wanted);
    g->walk.tree = (struct leat_property_tree *)(uintptr_t)t;
    g->walk.wanted = g->wanted;
    return true;
}

/* The word of a record, from an index that may be mapped. */
struct word {
    const struct leat_jsonl_column *column;
    const uint8_t *valid;
    uint64_t record;
    uint32_t number;
    bool there;
};

static int read_word(void *user)
{
    struct word *w = user;
    w->number = ((const uint32_t *)w->column->values)[w->record];
    w->there = !w->valid || w->valid[w->record];
    return LEAT_OK;
}

/* Puts the values that do not stand in the record. */
static int fill(struct get *g, uint64_t record, struct leat_error *error)
{
    for (size_t k = 0; k < g->n_fields && !g->no_memory; k++) {
        const struct leat_jsonl_column *c = &g->file->columns[g->fields[k]];
        const enum leat_kind kind = g->j->fields[g->fields[k]].kind;
        if (g->out->at[k * g->out->n_samples + g->sample].data)
            continue;
        if (!c->values) {
            put(g, k, "null", kind == LEAT_KIND_JSON ? 4 : 0);
            continue;
        }
        struct word w = {.column = c, .valid = g->file->text.index.properties[c->node].valid, .record = record};
        const int rc = leat_guarded(read_word, &w, error);
        if (rc)
            return rc;
        put(g, k, c->words + c->starts[w.number],
            w.there ? (size_t)(c->starts[w.number + 1] - c->starts[w.number]) : 0);
    }
    return LEAT_OK;
}

static int get_one(struct get *g, uint64_t sample, struct leat_error *error)
{
    const struct leat_jsonl_file *f = file_of(g->j, sample);
    const struct leat_text_bad *bad;
    const uint64_t record = leat_text_file_record(&f->text, sample - f->text.first, &bad);
    if (bad)
        return leat_text_file_fail(&f->text, bad, LEAT_E_DECODE, error);
    if (f != g->file && !prepare(g, f))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to read %s", f->text.path);
    if ((g->left = g->n_wanted)) {
        size_t length;
        uint64_t offset;
        int rc = leat_text_file_read(&f->text, record, &g->buffer, &g->room, &length, &offset, error);
        if (rc)
            return rc;
        leat_record_run(&g->walk, g->buffer, length);
        if (g->walk.json.fault) /* the index says that it is whole */
            return leat_text_file_fail(
                &f->text,
                &(struct leat_text_bad){.record = record, .at = offset + g->walk.json.at, .fault = g->walk.json.fault},
                LEAT_E_CORRUPT, error);
    }
    const int rc = fill(g, record, error);
    if (!rc && (g->no_memory || g->walk.no_memory))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for values of %s", f->text.path);
    return rc;
}

static int jsonl_compute(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                         size_t n, struct leat_values *out, size_t *failed, struct leat_error *error)
{
    struct get g = {.j = (const struct leat_jsonl *)source,
                    .fields = fields,
                    .n_fields = n_fields,
                    .out = out,
                    .walk = {.tell = hear, .user = &g}};
    int rc = LEAT_OK;
    for (g.sample = 0; g.sample < n && !rc; g.sample += !rc)
        rc = leat_values_cancelled(out) ? leat_fail(error, LEAT_E_CANCELLED, "reading was cancelled")
                                        : get_one(&g, samples[g.sample], error);
    *failed = g.sample;
    leat_free(g.wanted);
    leat_free(g.slots);
    leat_free(g.buffer);
    leat_record_walk_destroy(&g.walk);
    return rc;
}

const struct leat_source_vtable leat_format_jsonl = {
    .name = "jsonl",
    .recognise = jsonl_recognise,
    .takes_fields = true,
    .judges = true,
    .open = jsonl_open,
    .open_files = jsonl_open_files,
    .close = jsonl_close,
    .rows = jsonl_rows,
    .compute = jsonl_compute,
    .column = jsonl_column,
    .refresh = leat_text_source_refresh,
    .about = leat_text_source_about,
    .place = leat_text_source_place,
    .left_out = leat_text_source_left_out,
};
