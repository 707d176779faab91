/*
 * The source over a folder of items: items.h. Photos, texts, bytes and arrays are extents of the decoded bytes; numbers
 * in text and images that are pixels are made (items_values.c). Arrays of fixed size are mapped where all of them lie
 * at multiples of their elements, in files that are.
 *
 *     a file that is not compressed    read where it lies, kept open and mapped if there are few of them
 *     a compressed file                blocks that are decoded when they are wanted, and stay in the cache
 */
#include "format/items.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "io/guard.h"

enum { HEAD = 4096 };

/* ---- beginning ------------------------------------------------------------------------------- */

bool leat_items_begins(const char *text, size_t n, const char *const keys[2])
{
    size_t at = 0;
    while (at < n && memchr("{ \t\r\n", text[at], 5))
        at++;
    for (size_t i = 0; i < 2; i++)
        if (n - at > strlen(keys[i]) && !memcmp(text + at, keys[i], strlen(keys[i])))
            return true;
    return false;
}

bool leat_items_recognise(const char *path, bool folder, const uint8_t *head, size_t n,
                          bool (*is)(const char *text, size_t n))
{
    char place[4096], text[HEAD];
    struct leat_io_file *file = NULL;
    struct stat st;
    if (!folder)
        return n && is((const char *)head, n);
    if ((size_t)snprintf(place, sizeof place, "%s/index.json", path) >= sizeof place || stat(place, &st) ||
        leat_io_open(place, &file, NULL))
        return false;
    n = file->size < sizeof text ? (size_t)file->size : sizeof text;
    const bool found = !leat_io_read(file, 0, n, text, NULL) && is(text, n);
    leat_io_release(file);
    return found;
}

static int no_memory(const char *path, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
}

int leat_items_new(const char *path, const struct leat_source_vtable *v, struct leat_items **out,
                   struct leat_io_file **file, struct leat_error *error)
{
    struct leat_items *t = leat_new(struct leat_items);
    struct stat st;
    *out = NULL;
    *file = NULL;
    const bool remote = leat_io_is_remote(path), folder = !remote && !stat(path, &st) && S_ISDIR(st.st_mode);
    char *whole = remote ? leat_strdup(path) : leat_absolute_path(path);
    const size_t room = (whole ? strlen(whole) : 0) + sizeof "/index.json";
    if (t) {
        t->source.v = v;
        t->index_path = leat_alloc(room);
        t->folder = leat_alloc(room);
    }
    if (!t || !whole || !t->index_path || !t->folder) {
        leat_free(whole);
        if (t)
            leat_items_close(&t->source);
        return no_memory(path, error);
    }
    snprintf(t->index_path, room, "%s%s", whole, folder ? "/index.json" : "");
    const char *slash = strrchr(t->index_path, '/');
    snprintf(t->folder, room, "%.*s", slash ? (int)(slash - t->index_path) + 1 : 0, t->index_path);
    leat_free(whole);
    const int rc = leat_io_open(t->index_path, file, error);
    if (rc) {
        leat_items_close(&t->source);
        return rc;
    }
    t->index_bytes = (*file)->size;
    *out = t;
    return LEAT_OK;
}

/* Whether a name stays below its folder. */
static bool is_below(const char *name)
{
    if (!*name || *name == '/' || strchr(name, '\\') || strstr(name, "://"))
        return false;
    for (const char *p = name; *p; p += strcspn(p, "/"), p += *p == '/')
        if (!strncmp(p, "..", 2) && (!p[2] || p[2] == '/'))
            return false;
    return name[strlen(name) - 1] != '/';
}

struct leat_items_file *leat_items_add_file(struct leat_items *t, const char *name, struct leat_error *error)
{
    const size_t room = strlen(t->folder) + strlen(name) + 1;
    if (!is_below(name)) {
        leat_fail_at(error, LEAT_E_CORRUPT, t->index_path, LEAT_NO_OFFSET,
                     "%s names a file \"%.200s\" outside of its folder: it is damaged, or hostile", t->index_path,
                     name);
        return NULL;
    }
    char *path = leat_alloc(room);
    if (!path || !leat_grow(&t->files, &t->files_room, t->n_files + 1, sizeof *t->files)) {
        leat_free(path);
        no_memory(t->index_path, error);
        return NULL;
    }
    snprintf(path, room, "%s%s", t->folder, name);
    struct leat_items_file *f = &t->files[t->n_files++];
    *f = (struct leat_items_file){.is = {.path = path}, .stated = UINT64_MAX, .decoded = UINT64_MAX};
    return f;
}

bool leat_items_is_there(const char *path)
{
    struct stat st;
    return !leat_io_is_remote(path) && !stat(path, &st) && S_ISREG(st.st_mode);
}

struct leat_item_column *leat_items_add_column(struct leat_items *t, const char *name, const char *encoding,
                                               struct leat_error *error)
{
    char is[LEAT_FIELD_NAME] = "";
    if (t->n_columns == LEAT_ITEM_COLUMNS) {
        leat_fail_at(error, LEAT_E_FORMAT, t->index_path, LEAT_NO_OFFSET, "%s has more than %d columns", t->index_path,
                     LEAT_ITEM_COLUMNS);
        return NULL;
    }
    const bool fits = leat_field_name_add(is, name, strlen(name));
    for (size_t k = 0; k < t->n_columns; k++)
        if (fits && !t->columns[k].nameless && !strcmp(t->columns[k].name, is)) {
            leat_fail_at(error, LEAT_E_FORMAT, t->index_path, LEAT_NO_OFFSET, "%s has two columns \"%s\"",
                         t->index_path, is);
            return NULL;
        }
    if (!leat_grow(&t->columns, &t->columns_room, t->n_columns + 1, sizeof *t->columns)) {
        no_memory(t->index_path, error);
        return NULL;
    }
    struct leat_item_column *c = &t->columns[t->n_columns++];
    *c = (struct leat_item_column){.form = LEAT_ITEM_OTHER, .nameless = !fits};
    snprintf(c->name, sizeof c->name, "%s", is);
    snprintf(c->encoding, sizeof c->encoding, "%s", encoding);
    return c;
}

/* ---- opening --------------------------------------------------------------------------------- */

void leat_items_close(struct leat_source *source)
{
    struct leat_items *t = (struct leat_items *)source;
    for (size_t i = 0; i < t->source.n_fields; i++)
        leat_photo_files_destroy(&t->origins[i].photos);
    for (size_t i = 0; i < t->n_files; i++) {
        leat_their_file_close(&t->files[i].is);
        leat_free(t->files[i].hashes);
    }
    leat_items_index_destroy(&t->index);
    leat_free(t->files);
    leat_free(t->columns);
    leat_free(t->folder);
    leat_free(t->index_path);
    leat_free(t);
}

/* What is kept depends on this, beside the bytes of index.json. */
static void lay_out(struct leat_items *t)
{
    uint64_t skip = 0;
    t->key = t->stride;
    for (size_t k = 0; k < t->n_columns; k++) {
        struct leat_item_column *c = &t->columns[k];
        c->skip = skip;
        c->part = (size_t)t->index.parts;
        t->n_sized += c->sized;
        t->index.parts += c->fixed || t->stride ? 0 : leat_item_is_headed(c) ? 2 : 1;
        skip = c->fixed ? skip + c->fixed : 0;
        t->key = t->key * 31 + c->form * 7 + c->fixed;
    }
    for (size_t i = 0; i < t->n_files; i++) {
        const char *path = t->files[i].is.path;
        t->files[i].is.first = t->source.count;
        t->source.count += t->files[i].samples;
        t->key = t->key * 31 + leat_hash64(path, strlen(path)) + t->files[i].packing;
    }
    t->all.at = t->files;
    t->all.each = sizeof *t->files;
    t->all.n = t->n_files;
}

int leat_items_look_at(struct leat_items *t, struct leat_items_file *f, bool stays, struct leat_error *error)
{
    struct leat_io_file *file;
    int rc = leat_io_open(f->is.path, &file, error);
    if (rc == LEAT_E_NOT_FOUND)
        return leat_fail_at(error, rc, f->is.path, LEAT_NO_OFFSET, "%s names %s, which is missing: copy it again",
                            t->index_path, f->is.path);
    if (rc)
        return rc;
    if (f->stated != UINT64_MAX && f->stated != file->size && f->stated + f->uncounted != file->size)
        rc = leat_fail_at(error, LEAT_E_CORRUPT, f->is.path, LEAT_NO_OFFSET,
                          "%s has %" PRIu64 " bytes, and %s says %" PRIu64 ": it is cut or damaged, copy it again",
                          f->is.path, file->size, t->index_path, f->stated);
    f->is.size = file->size;
    f->is.mtime_ns = file->mtime_ns;
    if (!rc && stays)
        leat_their_file_keep(&f->is, file, leat_io_is_remote(f->is.path));
    if (!rc && f->is.file && !f->packing && file->backend->map)
        f->is.map = leat_io_map(file, NULL); /* NULL: it is read */
    leat_io_release(file);
    return rc;
}

/* The decoded bytes of a compressed file. */
static int ready_decoded(struct leat_items *t, struct leat_items_file *f, struct leat_error *error)
{
    const struct leat_items_kept_file *k = &t->index.files[f - t->files];
    struct leat_io_file *stored = NULL;
    if (!f->packing)
        return LEAT_OK;
    int rc = leat_their_file_stored(&f->is, &t->all.pace, &stored, error);
    rc = rc ? rc : leat_items_open_frames(f, stored, t->index.frames + k->frame, k->n_frames, &f->is.decoded, error);
    leat_io_release(stored);
    return rc;
}

struct photos {
    const struct leat_items *items;
    size_t column;
};

static int place_of_photo(void *user, uint64_t sample, struct leat_photo_place *out, struct leat_error *error)
{
    const struct photos *p = user;
    const struct leat_items_file *f = leat_items_find(p->items, sample);
    struct leat_item_place at;
    const int rc = leat_items_place(p->items, p->column, sample, &at, error);
    *out = (struct leat_photo_place){f->is.path, f->is.mtime_ns, at.begin, at.length};
    return rc;
}

static int open_items(struct leat_items *t, const struct leat_open_options *options, struct leat_error *error)
{
    if (options->verifying) { /* leat_items_verify looks at them again, and tells of what is wrong */
        for (size_t i = 0; i < t->n_files; i++)
            (void)leat_items_look_at(t, &t->files[i], false, NULL);
        return LEAT_OK;
    }
    int rc = leat_kept_check_dir(options->index_dir, error);
    rc = rc ? rc : leat_wanted_check(options, error);
    for (size_t i = 0; i < t->n_files && !rc; i++)
        rc = leat_items_look_at(t, &t->files[i], true, error);
    rc = rc ? rc : leat_items_find_index(t, options, error);
    rc = rc ? rc : leat_items_make_fields(t, options, error);
    for (size_t i = 0; i < t->n_files && !rc; i++)
        rc = ready_decoded(t, &t->files[i], error);
    for (size_t i = 0; i < t->source.n_fields && !rc; i++)
        if (t->fields[i].kind == LEAT_KIND_IMAGE && t->storage[i] == LEAT_STORAGE_EXTENT)
            rc = leat_photo_files_within(&t->origins[i].photos, t->index_path, t->fields[i].name, t->source.count,
                                         options, place_of_photo, &(struct photos){t, t->origins[i].column}, error);
    return rc ? rc : leat_items_sum(t, options, error);
}

int leat_items_open(struct leat_items *t, const struct leat_open_options *options, struct leat_source **out,
                    struct leat_error *error)
{
    *out = NULL;
    lay_out(t);
    t->source.path = t->index_path;
    t->source.fields = t->fields;
    t->source.storage = t->storage;
    t->source.metadata = "{}";
    t->source.notice = "";
    const int rc = open_items(t, options, error);
    if (rc)
        leat_items_close(&t->source);
    else
        *out = &t->source;
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct leat_items_file *leat_items_find(const struct leat_items *t, uint64_t sample)
{
    return &t->files[leat_their_files_find(&t->all, sample)];
}

/* Inside leat_guarded. */
static void place_of(const struct leat_items *t, const struct leat_items_file *f, const struct leat_item_column *c,
                     uint64_t sample, struct leat_item_place *out)
{
    const struct leat_items_index *x = &t->index;
    if (t->stride) {
        *out = (struct leat_item_place){f->base + (sample - f->is.first) * t->stride, t->stride, 0};
        return;
    }
    const uint32_t *ends = x->ends + sample * x->parts + c->part;
    const uint64_t from = (c->part ? ends[-1] : 0) + c->skip, headed = leat_item_is_headed(c) && !c->fixed;
    const uint64_t end = c->fixed ? from + c->fixed : ends[headed];
    out->begin = x->at[sample] + from;
    out->length = end > from ? end - from : 0;
    out->header = headed && ends[0] > from && ends[0] <= end ? ends[0] - from : 0;
}

struct locating {
    const void **rows; /* or else extents */
    const struct leat_items *items;
    size_t field; /* or of a column: SIZE_MAX */
    const uint64_t *samples;
    size_t n, failed;
    struct leat_extent *extents;
    struct leat_item_place at;
    const struct leat_item_column *column;
};

static int place_one(void *user)
{
    struct locating *l = user;
    place_of(l->items, leat_items_find(l->items, l->samples[0]), l->column, l->samples[0], &l->at);
    return LEAT_OK;
}

int leat_items_place(const struct leat_items *t, size_t column, uint64_t sample, struct leat_item_place *out,
                     struct leat_error *error)
{
    struct locating l = {.items = t, .samples = &sample, .column = &t->columns[column]};
    const int rc = t->index.kept.file ? leat_guarded(place_one, &l, error) : place_one(&l);
    *out = l.at;
    return rc;
}

int leat_items_fail(const struct leat_items *t, size_t field, uint64_t sample, const struct leat_item_place *at,
                    int code, const char *what, struct leat_error *error)
{
    const struct leat_items_file *f = leat_items_find(t, sample);
    char text[128];
    return leat_fail_at(error, code, f->is.path, f->packing ? LEAT_NO_OFFSET : (int64_t)at->begin,
                        "the value of \"%s\", which is %s, at byte %" PRIu64 " of %s%s is wrong: %s",
                        t->fields[field].name, leat_field_text(&t->fields[field], text, sizeof text), at->begin,
                        f->packing ? "the decoded bytes of " : "", f->is.path, what);
}

static uint64_t bytes_of(const struct leat_field *f, unsigned from)
{
    uint64_t bytes = leat_dtype_size(f->dtype);
    for (unsigned d = from; d < f->ndim; d++)
        bytes *= (uint64_t)f->shape[d];
    return bytes;
}

/* Whether so many bytes are a value of the field. */
static bool is_array(const struct leat_field *f, uint64_t length)
{
    return f->ndim && f->shape[0] < 0 ? length % bytes_of(f, 1) == 0 : length == bytes_of(f, 0);
}

static int locate(void *user)
{
    struct locating *l = user;
    const struct leat_items *t = l->items;
    const struct leat_item_field *origin = &t->origins[l->field];
    const struct leat_field *field = &t->fields[l->field];
    const struct leat_item_column *c = &t->columns[origin->column];
    for (l->failed = 0; l->failed < l->n; l->failed++) {
        const uint64_t sample = l->samples[l->failed];
        const struct leat_items_file *f = leat_items_find(t, sample);
        place_of(t, f, c, sample, &l->at);
        if (l->rows) {
            if (l->at.begin > f->is.size || l->at.length > f->is.size - l->at.begin)
                return LEAT_E_CORRUPT;
            l->rows[l->failed] = f->is.map + l->at.begin;
            continue;
        }
        struct leat_extent *e = &l->extents[l->failed];
        *e = (struct leat_extent){.file = (uint64_t)(f - t->files), .offset = l->at.begin, .length = l->at.length};
        if (origin->use != LEAT_ITEM_VALUES)
            continue;
        e->offset += l->at.header;
        e->length -= l->at.header;
        if ((leat_item_is_headed(c) && !l->at.header) || !is_array(field, e->length))
            return LEAT_E_DECODE;
    }
    return LEAT_OK;
}

static int run(struct locating *l, size_t *failed, struct leat_error *error)
{
    int rc = leat_their_files_check(&l->items->all, l->samples, l->n, failed, error);
    if (rc)
        return rc;
    rc = l->items->index.kept.file ? leat_guarded(locate, l, error) : locate(l);
    *failed = l->failed;
    return rc == LEAT_E_DECODE || rc == LEAT_E_CORRUPT
               ? leat_items_fail(l->items, l->field, l->samples[l->failed], &l->at, rc,
                                 "it is an array of another type or shape", error)
               : rc;
}

int leat_items_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                       struct leat_extent *extents, size_t *failed, struct leat_error *error)
{
    struct leat_items *t = (struct leat_items *)source;
    struct locating l = {.items = t, .field = field, .samples = samples, .n = n, .extents = extents};
    const int rc = run(&l, failed, error);
    for (size_t i = 0; i < n && !rc && t->fields[field].kind == LEAT_KIND_IMAGE; i++)
        leat_photo_files_describe(&t->origins[field].photos, samples[i], &extents[i].info);
    return rc;
}

int leat_items_rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                    const void **rows, size_t *failed, struct leat_error *error)
{
    struct locating l = {
        .items = (struct leat_items *)source, .field = field, .samples = samples, .n = n, .rows = rows};
    return run(&l, failed, error);
}

int leat_items_file_of(struct leat_source *source, uint64_t file, struct leat_io_file **out, struct leat_error *error)
{
    struct leat_items *t = (struct leat_items *)source;
    return leat_their_file_bytes(&t->files[file].is, &t->all.pace, out, error);
}

void leat_items_mark(struct leat_source *source, size_t field, uint64_t sample, bool verified, enum leat_health found)
{
    struct leat_items *t = (struct leat_items *)source;
    if (t->fields[field].kind == LEAT_KIND_IMAGE)
        leat_photo_files_mark(&t->origins[field].photos, sample, found);
}

bool leat_items_recall(struct leat_source *source, size_t field, uint64_t sample, uint8_t *to, uint32_t length,
                       const uint64_t *checksum)
{
    return leat_folder_rows_recall(((struct leat_items *)source)->origins[field].photos.rows, sample, to, length,
                                   checksum);
}

void leat_items_keep(struct leat_source *source, size_t field, uint64_t sample, const void *photo, size_t photo_bytes,
                     const uint8_t *rows, size_t length)
{
    leat_folder_rows_keep(((struct leat_items *)source)->origins[field].photos.rows, sample, photo, photo_bytes, rows,
                          length);
}

int leat_items_refresh(struct leat_source *source, struct leat_error *error)
{
    return leat_their_files_refresh(&((struct leat_items *)source)->all, error);
}

bool leat_items_expect(const struct leat_source *source, uint64_t sample, const struct leat_extent *extent)
{
    return leat_their_files_expect(&((const struct leat_items *)source)->all, extent);
}

int leat_items_about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error)
{
    const struct leat_items *t = (const struct leat_items *)source;
    leat_their_files_about(&t->all, out);
    out->bytes += t->index_bytes;
    return LEAT_OK;
}

int leat_items_place_of(struct leat_source *source, uint64_t sample, struct leat_sample_place *out,
                        struct leat_error *error)
{
    leat_their_files_place(&((const struct leat_items *)source)->all, sample, out);
    return LEAT_OK;
}
