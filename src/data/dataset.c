/*
 * Data sets from open to release: opening paths, joining, and the facts of the whole. selection.c makes views, and
 * read.c reads values.
 */
#include "data/dataset.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"
#include "data/internal.h"
#include "format/chosen.h"
#include "format/fingerprint.h"
#include "io/paths.h"
#include "store/manifest.h"

/* ---- bases ----------------------------------------------------------------------------------- */

struct leat_base *leat_base_retain(struct leat_base *base)
{
    atomic_fetch_add_explicit(&base->references, 1, memory_order_relaxed);
    return base;
}

void leat_base_release(struct leat_base *base)
{
    if (!base || atomic_fetch_sub_explicit(&base->references, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < base->n_owned; i++)
        leat_source_close(base->owned[i]);
    for (size_t i = 0; i < base->n_joined; i++)
        leat_base_release(base->joined[i]);
    for (size_t i = 0; base->codes && i < base->n_fields; i++)
        leat_codes_free(atomic_load(&base->codes[i]));
    leat_free(base->codes);
    leat_free(base->owned);
    leat_free(base->joined);
    leat_free(base->parts);
    leat_free(base->notice);
    leat_free(base->joined_metadata);
    leat_free(base);
}

/* A base that is empty, with room for so many parts, sources and joined bases. */
static struct leat_base *base_new(size_t parts, size_t owned, size_t joined)
{
    struct leat_base *base = leat_new(struct leat_base);
    if (!base)
        return NULL;
    base->references = 1;
    base->values_known = true;
    base->parts = leat_new_array(parts, sizeof *base->parts);
    base->owned = leat_new_array(owned, sizeof *base->owned);
    base->joined = leat_new_array(joined, sizeof *base->joined);
    if (base->parts && base->owned && base->joined)
        return base;
    leat_base_release(base);
    return NULL;
}

static void add_part(struct leat_base *base, struct leat_source *source, uint64_t first_id)
{
    if (source->count || !base->n_parts) {
        /* The first part that has samples replaces one without: locate searches by id. */
        if (base->n_parts == 1 && !base->parts[0].source->count)
            base->n_parts = 0;
        base->parts[base->n_parts++] = (struct leat_base_part){source, first_id};
    }
}

/* The difference of two fields, or NULL. */
static const char *difference(const struct leat_field *a, const struct leat_field *b)
{
    if (strcmp(a->name, b->name) != 0)
        return "name";
    if (a->kind != b->kind || a->flags != b->flags)
        return "kind";
    if (a->dtype != b->dtype)
        return "dtype";
    if (a->role != b->role || a->normalized != b->normalized)
        return "role";
    if (a->n_pairs != b->n_pairs || (a->n_pairs && memcmp(a->pairs, b->pairs, 2 * a->n_pairs * sizeof *a->pairs) != 0))
        return "pairs of keypoints";
    if (a->columns && b->columns && a->item != b->item)
        return "dtype";
    if (a->columns != b->columns)
        return "number of columns";
    bool same = a->ndim == b->ndim && a->layout == b->layout;
    for (unsigned d = 0; same && d < a->ndim; d++)
        same = a->shape[d] == b->shape[d];
    return same ? NULL : "shape or layout";
}

/* The first from field n on that is not derived, or NULL. */
static const struct leat_field *find_stored(const struct leat_field *fields, size_t n, size_t n_fields)
{
    while (n < n_fields && fields[n].flags & LEAT_FIELD_DERIVED)
        n++;
    return n < n_fields ? &fields[n] : NULL;
}

static void name_classes(struct leat_base *base, const char *const *classes, size_t n_classes, bool apart)
{
    base->classes = classes;
    base->n_classes = n_classes;
    base->classes_apart = apart;
}

/* Checks that samples with these fields can follow those of `base`. Drops derived fields that only some have. */
static int match(struct leat_base *base, const struct leat_field *fields, size_t n_fields, const char *const *classes,
                 size_t n_classes, bool apart, size_t number, struct leat_error *error)
{
    size_t n = 0;
    while (n < base->n_fields && n < n_fields && !difference(&base->fields[n], &fields[n]))
        n++;
    const struct leat_field *differs = find_stored(base->fields, n, base->n_fields);
    if (differs || (differs = find_stored(fields, n, n_fields))) {
        const char *what =
            differs == base->fields + n && n < n_fields ? difference(&base->fields[n], &fields[n]) : NULL;
        return leat_fail(error, LEAT_E_INVALID,
                         "data set %zu cannot be joined to those before it: field \"%s\" (number %zu) is not the same "
                         "in both%s%s; all need the same fields in the same order",
                         number, differs->name, n, what ? ", in " : "", what ? what : "");
    }
    base->n_fields = n;
    bool same = n_classes == base->n_classes;
    for (size_t c = 0; c < n_classes && same; c++)
        same = strcmp(classes[c], base->classes[c]) == 0;
    if ((apart || base->classes_apart) && (!n_classes || !base->n_classes)) {
        if (n_classes) /* those before it do not give the meaning of their labels */
            name_classes(base, classes, n_classes, true);
    } else if (!same)
        return leat_fail(error, LEAT_E_INVALID,
                         "data set %zu cannot be joined to those before it: it has %zu classes, not the same %zu, so "
                         "that equal labels would "
                         "mean different things",
                         number, n_classes, base->n_classes);
    return LEAT_OK;
}

static void describe(struct leat_base *base, const struct leat_field *fields, size_t n_fields,
                     const char *const *classes, size_t n_classes, bool apart, const char *metadata)
{
    base->fields = fields;
    base->n_fields = n_fields;
    name_classes(base, classes, n_classes, apart);
    base->metadata = metadata;
}

static int append_notice(struct leat_base *base, const char *text)
{
    size_t used = base->notice ? strlen(base->notice) : 0, more = strlen(text);
    if (!more && base->notice)
        return LEAT_OK;
    char *notice = leat_realloc_array(base->notice, used + more + 2, 1);
    if (!notice)
        return LEAT_E_NOMEM;
    snprintf(notice + used, more + 2, "%s%s", used ? "\n" : "", text);
    base->notice = notice;
    return LEAT_OK;
}

/* ---- data sets ------------------------------------------------------------------------------- */

/* A view has the hash of (base, selection). */
static void fingerprint(const struct leat_dataset *d, uint8_t out[16])
{
    const struct leat_base *b = d->base;
    leat_fingerprint_finish(b->fields, b->n_fields, b->classes, b->classes_apart ? 0 : b->n_classes, b->count, b->sums,
                            out);
    if (!d->selected)
        return;
    uint64_t hash[2] = {leat_get_u64(out), leat_get_u64(out + 8)}, n_runs = 0, begin, count;
    struct leat_selection_cursor first = {0}, second = {0};
    while (leat_selection_next(&d->selection, &first, &begin, &count))
        n_runs++;
    leat_fingerprint_value(hash, n_runs);
    while (leat_selection_next(&d->selection, &second, &begin, &count)) {
        leat_fingerprint_value(hash, begin);
        leat_fingerprint_value(hash, count);
    }
    leat_put_u64(out, hash[0]);
    leat_put_u64(out + 8, hash[1]);
}

int leat_dataset_make(struct leat_base *base, struct leat_selection *selection, char *view, struct leat_dataset **out,
                      struct leat_error *error)
{
    struct leat_dataset *d = leat_new(struct leat_dataset);
    int rc = LEAT_OK;
    *out = NULL;
    if (!d || (!base->codes && !(base->codes = leat_new_array(base->n_fields + 1, sizeof *base->codes))))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a data set");
    else if (selection && leat_selection_seal(selection))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a view");
    if (rc) {
        leat_base_release(base);
        leat_free(d);
    } else {
        *d = (struct leat_dataset){.references = 1, .base = base, .count = base->count};
        /* A view of everything in order is the base itself, with its fingerprint and speed. */
        if (selection && !(selection->count == base->count && selection->ascending)) {
            d->selected = true;
            d->selection = *selection;
            d->count = selection->count;
            d->view = view;
            view = NULL;
            memset(selection, 0, sizeof *selection);
        }
        *out = d;
    }
    if (selection)
        leat_selection_destroy(selection);
    leat_free(view);
    return rc;
}

bool leat_dataset_is_in_order(const struct leat_dataset *d)
{
    const struct leat_source *source = d->base->parts[0].source;
    const struct leat_dataset *one = NULL; /* that has the values which follow from batches */
    bool good = d->base->n_parts == 1 && (!d->selected || d->selection.ascending);
    for (size_t f = 0; f < source->n_fields && good; f++) {
        size_t field = f;
        const struct leat_dataset *behind = source->storage[f] ? NULL : source->v->behind(source, &field, NULL);
        if (!behind || !leat_dataset_follows_batches(behind))
            continue;
        good = (!one || one == behind) && !behind->selected && behind->base->n_parts == 1 &&
               behind->base->parts[0].source->v->fill;
        one = behind;
    }
    return good;
}

struct leat_dataset *leat_dataset_retain(struct leat_dataset *d)
{
    atomic_fetch_add_explicit(&d->references, 1, memory_order_relaxed);
    return d;
}

void leat_dataset_release(struct leat_dataset *d)
{
    if (!d || atomic_fetch_sub_explicit(&d->references, 1, memory_order_acq_rel) != 1)
        return;
    leat_selection_destroy(&d->selection);
    leat_base_release(d->base);
    leat_free(d->view);
    leat_free(d);
}

static void join_sums(struct leat_base *base, const uint64_t sums[2], const uint64_t values[2], bool known,
                      uint64_t count, bool converted)
{
    leat_fingerprint_join(base->sums, sums, count);
    leat_fingerprint_join(base->values, values, count);
    base->values_known &= known;
    base->converted |= converted;
}

/* A program compiled against an older header has shorter options: the rest keeps its defaults. */
static int complete(const struct leat_open_options *given, struct leat_open_options *options, struct leat_error *error)
{
    *options = (struct leat_open_options)LEAT_OPEN_OPTIONS_INIT;
    if (!given)
        return LEAT_OK;
    if (given->struct_size < sizeof given->struct_size)
        return leat_fail(error, LEAT_E_INVALID,
                         "struct leat_open_options was not initialised: begin with LEAT_OPEN_OPTIONS_INIT");
    memcpy(options, given, given->struct_size < sizeof *options ? given->struct_size : sizeof *options);
    options->struct_size = sizeof *options;
    if (options->labels > LEAT_LABELS_NONE || options->recheck > LEAT_RECHECK_NEVER ||
        options->on_bad > LEAT_BAD_AUTO || options->documents > LEAT_DOCUMENTS_FILES)
        return leat_fail(error, LEAT_E_INVALID,
                         "labels, recheck, on_bad or documents has a value that this version does not know");
    return LEAT_OK;
}

static int explain_missing(const char *path, const struct leat_open_options *options, int rc, struct leat_error *error)
{
    char partial[4096 + 16];
    struct stat st;
    if (rc != LEAT_E_NOT_FOUND && rc != LEAT_E_FORMAT && rc != LEAT_E_IO)
        return rc;
    if (!stat(path, &st) || snprintf(partial, sizeof partial, "%s.partial", path) >= (int)sizeof partial ||
        stat(partial, &st)) {
        leat_source_suggest(path, options, error);
        return rc;
    }
    return leat_fail_at(
        error, LEAT_E_UNFINISHED, path, LEAT_NO_OFFSET,
        "%s was never finished: there is only %s; pack again, with --resume to go on from what is whole", path,
        partial);
}

/* Opens a source and appends it to `base`, which has room for it. */
static int append_source(struct leat_base *base, const char *path, const struct leat_open_options *options,
                         const struct leat_manifest_shard *shard, struct leat_error *error)
{
    struct leat_source *source;
    int rc = leat_source_open(path, options, &source, error);
    if (rc)
        return rc;
    size_t number = base->n_owned;
    rc = shard ? leat_manifest_check_shard(shard, source, error) : LEAT_OK;
    rc = rc ? rc : leat_source_choose(&source, options, error);
    base->owned[base->n_owned++] = source;
    if (rc)
        return rc;
    if (number == 0) {
        describe(base, source->fields, source->n_fields, source->classes, source->n_classes, source->classes_apart,
                 source->metadata);
    } else if ((rc = match(base, source->fields, source->n_fields, source->classes, source->n_classes,
                           source->classes_apart, number, error))) {
        leat_error_at_file(error, path, LEAT_NO_OFFSET);
        return rc;
    }
    if (shard) /* the last one was finished last: leat_writer_finish_as */
        base->metadata = source->metadata;
    uint64_t first_id = base->count;
    if (!leat_add_u64(first_id, source->count, &base->count) || base->count > INT64_MAX)
        return leat_fail(error, LEAT_E_CORRUPT, "%s: the data set has more than 2^63 samples, which cannot be", path);
    add_part(base, source, first_id);
    join_sums(base, leat_source_sums(source), source->fingerprint, source->by_value, source->count, source->converted);
    return append_notice(base, source->notice) ? leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path) : LEAT_OK;
}

/* Sets *out even on failure; the caller releases it. */
static int open_manifest(const char *path, const struct leat_open_options *options, struct leat_base **out,
                         struct leat_error *error)
{
    struct leat_manifest manifest;
    struct leat_open_options native = *options;
    struct leat_base *base = NULL;
    int rc = leat_manifest_read(path, &manifest, error);
    if (rc)
        return rc;
    native.format = leat_format_native.name; /* a shard of another format is an error */
    if (!manifest.n_shards) {
        rc = leat_fail_at(error, LEAT_E_CORRUPT, path, LEAT_NO_OFFSET, "%s names no shard", path);
    } else if (!(base = base_new(manifest.n_shards, manifest.n_shards, 0))) {
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to open %s (%zu shards)", path, manifest.n_shards);
    }
    for (size_t i = 0; i < manifest.n_shards && !rc; i++) {
        char *shard = leat_manifest_shard_path(path, manifest.shards[i].file);
        rc = shard ? append_source(base, shard, &native, &manifest.shards[i], error)
                   : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
        leat_free(shard);
        if (rc == LEAT_E_NOT_FOUND)
            rc = leat_fail_at(error, rc, path, LEAT_NO_OFFSET, "shard %zu of %zu of %s is missing: %s", i + 1,
                              manifest.n_shards, path, error ? error->message : "");
    }
    if (!rc && manifest.converted) {
        memcpy(base->sums, manifest.conversion.sums, sizeof base->sums);
        base->classes_apart = manifest.conversion.classes_apart;
        base->converted = true;
    }
    leat_manifest_destroy(&manifest);
    *out = base;
    return rc;
}

/* The file's content decides the format; `format` may name leat's own or be NULL. */
static int is_manifest(const char *path, const struct leat_open_options *options, bool *yes, struct leat_error *error)
{
    uint8_t head[256];
    size_t n;
    bool folder;
    *yes = false;
    if (options->format && strcmp(options->format, "auto") != 0 &&
        strcmp(options->format, leat_format_native.name) != 0)
        return LEAT_OK;
    int rc = leat_path_look(path, &folder, head, sizeof head, &n, error);
    *yes = !rc && !folder && leat_manifest_recognise(head, n);
    return rc;
}

int leat_dataset_open(const char *path, const struct leat_open_options *given, struct leat_dataset **out,
                      struct leat_error *error)
{
    struct leat_open_options options;
    struct leat_base *base = NULL;
    *out = NULL;
    leat_log_check();
    int rc = complete(given, &options, error);
    if (rc)
        return rc;
    bool manifest;
    if ((rc = is_manifest(path, &options, &manifest, error)))
        return explain_missing(path, &options, rc, error);
    if (manifest) {
        rc = open_manifest(path, &options, &base, error);
    } else if ((base = base_new(1, 1, 0))) {
        rc = append_source(base, path, &options, NULL, error);
    } else {
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    }
    if (!rc)
        return leat_dataset_make(base, NULL, NULL, out, error);
    leat_base_release(base);
    return explain_missing(path, &options, rc, error);
}

int leat_dataset_open_files(const char *const *paths, size_t n, const struct leat_open_options *given,
                            struct leat_dataset **out, struct leat_error *error)
{
    struct leat_open_options options;
    struct leat_source *source = NULL;
    *out = NULL;
    leat_log_check();
    int rc = n ? complete(given, &options, error) : leat_fail(error, LEAT_E_INVALID, "there is no file to open");
    if (rc)
        return rc;
    if (n == 1)
        return leat_dataset_open(paths[0], &options, out, error);
    if ((rc = leat_source_open_files(paths, n, &options, &source, error)))
        return explain_missing(paths[0], &options, rc, error);
    if (source && (rc = leat_source_choose(&source, &options, error))) {
        leat_source_close(source);
        return rc;
    }
    if (source)
        return leat_dataset_of_source(source, out, error);
    struct leat_dataset **parts = leat_new_array(n, sizeof *parts);
    rc = parts ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory to open %zu files", n);
    for (size_t i = 0; i < n && !rc; i++)
        rc = leat_dataset_open(paths[i], &options, &parts[i], error);
    rc = rc ? rc : leat_dataset_concat(parts, n, out, error);
    for (size_t i = 0; parts && i < n; i++)
        leat_dataset_release(parts[i]);
    leat_free(parts);
    return rc;
}

int leat_dataset_of_source(struct leat_source *source, struct leat_dataset **out, struct leat_error *error)
{
    struct leat_base *base = base_new(1, 1, 0);
    *out = NULL;
    if (!base) {
        leat_source_close(source);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a data set");
    }
    base->owned[base->n_owned++] = source;
    describe(base, source->fields, source->n_fields, source->classes, source->n_classes, source->classes_apart,
             source->metadata);
    base->count = source->count;
    add_part(base, source, 0);
    memcpy(base->sums, source->fingerprint, sizeof base->sums);
    memcpy(base->values, source->fingerprint, sizeof base->values);
    base->values_known = source->by_value;
    if (append_notice(base, source->notice)) {
        leat_base_release(base);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a data set");
    }
    return leat_dataset_make(base, NULL, NULL, out, error);
}

int leat_dataset_zip(struct leat_dataset *const *datasets, const char *const *names, size_t n, bool bare,
                     const char *const *fields, size_t n_fields, struct leat_dataset **out, struct leat_error *error)
{
    struct leat_source *source;
    *out = NULL;
    if (!n)
        return leat_fail(error, LEAT_E_INVALID, "nothing to zip: give at least one data set");
    int rc = leat_zip_open(datasets, names, n, bare, fields, n_fields, &source, error);
    return rc ? rc : leat_dataset_of_source(source, out, error);
}

int leat_dataset_windows(struct leat_dataset *records, const char *field, uint64_t length, uint64_t stride,
                         enum leat_windows_tail tail, struct leat_dataset **out, struct leat_error *error)
{
    struct leat_source *source;
    *out = NULL;
    int rc = leat_windows_open(records, field, length, stride, tail, &source, error);
    return rc ? rc : leat_dataset_of_source(source, out, error);
}

static int join_metadata(struct leat_base *base, const char *metadata)
{
    if (!strcmp(base->metadata, metadata))
        return LEAT_OK;
    char *joined = leat_metadata_join(base->metadata, metadata);
    if (!joined)
        return LEAT_E_NOMEM;
    leat_free(base->joined_metadata);
    base->metadata = base->joined_metadata = joined;
    return LEAT_OK;
}

int leat_dataset_concat(struct leat_dataset *const *datasets, size_t n, struct leat_dataset **out,
                        struct leat_error *error)
{
    size_t parts = 0;
    bool selected = false;
    struct leat_selection s = {0};
    int rc = LEAT_OK;
    *out = NULL;
    if (!n)
        return leat_fail(error, LEAT_E_INVALID, "nothing to join: give at least one data set");
    for (size_t i = 0; i < n; i++) {
        parts += datasets[i]->base->n_parts;
        selected |= datasets[i]->selected;
    }
    struct leat_base *base = base_new(parts, 0, n);
    if (!base)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to join %zu data sets", n);
    const struct leat_base *first = datasets[0]->base;
    describe(base, first->fields, first->n_fields, first->classes, first->n_classes, first->classes_apart,
             first->metadata);
    for (size_t i = 0; i < n && !rc; i++) {
        struct leat_base *from = datasets[i]->base;
        uint64_t offset = base->count;
        if ((rc = match(base, from->fields, from->n_fields, from->classes, from->n_classes, from->classes_apart, i,
                        error))) {
            leat_error_at_file(error, leat_dataset_path(datasets[i]), LEAT_NO_OFFSET);
            break;
        }
        if (!leat_add_u64(offset, from->count, &base->count) || base->count > INT64_MAX)
            rc = leat_fail(error, LEAT_E_RANGE, "the data sets have more than 2^63 samples together");
        base->joined[base->n_joined++] = leat_base_retain(from);
        for (size_t p = 0; p < from->n_parts; p++)
            add_part(base, from->parts[p].source, offset + from->parts[p].first_id);
        join_sums(base, from->sums, from->values, from->values_known, from->count, from->converted);
        if (!rc && (join_metadata(base, from->metadata) || append_notice(base, from->notice) ||
                    (selected && leat_selection_push_view(&s, datasets[i], 0, datasets[i]->count, offset))))
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory to join %zu data sets", n);
    }
    if (rc) {
        leat_selection_destroy(&s);
        leat_base_release(base);
        return rc;
    }
    char *view = selected ? leat_view_add(NULL, leat_view_concat(datasets, n)) : NULL;
    return leat_dataset_make(base, selected ? &s : NULL, view, out, error);
}

/* ---- facts of the whole ---------------------------------------------------------------------- */

uint64_t leat_dataset_count(const struct leat_dataset *d)
{
    return d->count;
}

size_t leat_dataset_field(const struct leat_dataset *d, const char *name)
{
    size_t f = 0;
    while (f < d->base->n_fields && strcmp(d->base->fields[f].name, name) != 0)
        f++;
    return f;
}

const struct leat_field *leat_dataset_fields(const struct leat_dataset *d, size_t *n)
{
    *n = d->base->n_fields;
    return d->base->fields;
}

const char *const *leat_dataset_classes(const struct leat_dataset *d, size_t *n)
{
    *n = d->base->n_classes;
    return d->base->classes;
}

const char *leat_dataset_metadata(const struct leat_dataset *d)
{
    return d->base->metadata;
}

void leat_dataset_fingerprint(const struct leat_dataset *d, uint8_t out[16])
{
    struct leat_dataset *kept = (struct leat_dataset *)d;
    if (!atomic_load(&kept->fingerprinted)) {
        uint8_t made[16];
        fingerprint(d, made);
        atomic_store(&kept->fingerprint[0], leat_get_u64(made));
        atomic_store(&kept->fingerprint[1], leat_get_u64(made + 8));
        atomic_store(&kept->fingerprinted, true);
    }
    leat_put_u64(out, atomic_load(&kept->fingerprint[0]));
    leat_put_u64(out + 8, atomic_load(&kept->fingerprint[1]));
}

const char *leat_dataset_notice(const struct leat_dataset *d)
{
    return d->base->notice;
}

size_t leat_source_asks_many(const struct leat_source *source)
{
    size_t most = source->v->asks_many ? source->v->asks_many(source) : 0;
    for (size_t f = 0; f < source->n_fields; f++) {
        size_t of = f;
        const struct leat_dataset *behind = source->storage[f] ? NULL : source->v->behind(source, &of, NULL);
        const size_t asks = behind ? leat_dataset_asks_many(behind) : 0;
        most = asks > most ? asks : most;
    }
    return most;
}

size_t leat_dataset_asks_many(const struct leat_dataset *d)
{
    size_t most = 0;
    for (size_t p = 0; p < d->base->n_parts; p++) {
        const size_t asks = leat_source_asks_many(d->base->parts[p].source);
        most = asks > most ? asks : most;
    }
    return most;
}
