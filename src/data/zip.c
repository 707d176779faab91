/*
 * Data sets of equal length, side by side. The source of a zipped data set stores nothing of its own. Its `rows`,
 * `extents` and `compute` call the data set that a field comes from, and leat_ref_resolve finds the source behind a
 * reference by its `behind`.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/known.h"
#include "data/internal.h"
#include "format/fingerprint.h"

enum { CHUNK = 256, NAME_ROOM = 64 };

struct zip {
    struct leat_source source;
    struct leat_dataset **parts;
    size_t n_parts;
    const char *const *chosen; /* while it is opened: the fields to take; NULL: all */
    size_t n_chosen;
    struct origin {
        const struct leat_dataset *part;
        size_t field;
    } * origins; /* of each field */
    struct leat_field *fields;
    uint8_t *storage; /* all LEAT_STORAGE_BEHIND */
    char (*names)[NAME_ROOM];
    char *notice;
};

static const struct origin *origin_of(const struct leat_source *source, size_t field)
{
    return &((const struct zip *)source)->origins[field];
}

static const struct leat_dataset *zip_behind(const struct leat_source *source, size_t *field, uint64_t *sample)
{
    const struct origin *o = origin_of(source, *field);
    *field = o->field;
    return o->part;
}

static int zip_rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                    const void **rows, size_t *failed, struct leat_error *error)
{
    const struct origin *o = origin_of(source, field);
    struct leat_sample_ref refs[CHUNK];
    leat_dataset_locate(o->part, samples, n, refs);
    return leat_dataset_rows(o->part, o->field, refs, n, cold, rows, failed, error);
}

static int zip_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                       struct leat_extent *extents, size_t *failed, struct leat_error *error)
{
    const struct origin *o = origin_of(source, field);
    struct leat_sample_ref refs[CHUNK];
    leat_dataset_locate(o->part, samples, n, refs);
    return leat_dataset_extents(o->part, o->field, refs, n, extents, failed, error);
}

static int zip_compute(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                       size_t n, struct leat_values *out, size_t *failed, struct leat_error *error)
{
    struct leat_sample_ref *refs = leat_new_array(n, sizeof *refs);
    size_t *theirs = leat_new_array(n_fields, sizeof *theirs), *ours = leat_new_array(n_fields, sizeof *ours);
    const struct zip *z = (const struct zip *)source;
    int rc = refs && theirs && ours ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory to compute values");
    *failed = n;
    for (size_t p = 0; p < z->n_parts && !rc; p++) {
        size_t k = 0, before = 0;
        struct leat_values values;
        while (z->parts[before] != z->parts[p])
            before++;
        for (size_t f = 0; f < n_fields && before == p; f++) /* else it stood here before */
            if (z->origins[fields[f]].part == z->parts[p]) {
                ours[k] = f;
                theirs[k++] = z->origins[fields[f]].field;
            }
        if (!k)
            continue;
        leat_dataset_locate(z->parts[p], samples, n, refs);
        rc = leat_values_init(&values, k, n) ? leat_fail(error, LEAT_E_NOMEM, "no memory to compute values") : LEAT_OK;
        values.cancelled = out->cancelled;
        values.may_lack = out->may_lack;
        values.rows = out->rows;
        if (!rc)
            rc = leat_dataset_compute(z->parts[p], theirs, k, refs, n, &values, failed, error);
        for (size_t f = 0; f < k && !rc; f++)
            if (leat_values_take(out, ours[f], 0, &values, f))
                rc = leat_fail(error, LEAT_E_NOMEM, "no memory for computed values");
        leat_values_destroy(&values);
    }
    leat_free(refs);
    leat_free(theirs);
    leat_free(ours);
    return rc;
}

static int zip_refresh(struct leat_source *source, struct leat_error *error)
{
    const struct zip *z = (const struct zip *)source;
    uint64_t changes = 0;
    int rc = LEAT_OK;
    for (size_t p = 0; p < z->n_parts && !rc; p++) {
        rc = leat_dataset_refresh(z->parts[p], error);
        changes += leat_dataset_changes(z->parts[p]);
    }
    if (!rc)
        atomic_store(&source->changes, changes);
    return rc;
}

static int zip_column(struct leat_source *source, size_t field, const void **data, struct leat_error *error)
{
    const struct origin *o = origin_of(source, field);
    return leat_dataset_in_place(o->part, o->field, data, error);
}

/* A zip has no files: the sources behind it have. */
static int zip_file(struct leat_source *source, uint64_t file, struct leat_io_file **out, struct leat_error *error)
{
    *out = NULL;
    return leat_fail(error, LEAT_E_NOT_FOUND, "a zipped data set has no files of its own");
}

static void zip_close(struct leat_source *source)
{
    struct zip *z = (struct zip *)source;
    for (size_t i = 0; i < z->n_parts; i++)
        leat_dataset_release(z->parts[i]);
    leat_free(z->parts);
    leat_free(z->origins);
    leat_free(z->storage);
    leat_free(z->fields);
    leat_free(z->names);
    leat_free(z->notice);
    leat_free(z);
}

static const struct leat_source_vtable zip_vtable = {
    .name = "zip",
    .close = zip_close,
    .behind = zip_behind,
    .rows = zip_rows,
    .extents = zip_extents,
    .compute = zip_compute,
    .file = zip_file,
    .refresh = zip_refresh,
    .column = zip_column,
};

/* `left.image`; with `bare`, `left` if the data set has one field; of a part without a name as there. */
static int name_field(struct zip *z, size_t at, const char *part, const struct leat_field *field, bool bare,
                      struct leat_error *error)
{
    int n = bare    ? snprintf(z->names[at], NAME_ROOM, "%s", part)
            : *part ? snprintf(z->names[at], NAME_ROOM, "%s.%s", part, field->name)
                    : snprintf(z->names[at], NAME_ROOM, "%s", field->name);
    if (n >= NAME_ROOM)
        return leat_fail(error, LEAT_E_INVALID,
                         "the name '%s.%s' of a zipped field has more than %d bytes: give the data set a shorter name",
                         part, field->name, NAME_ROOM - 1);
    z->fields[at] = *field;
    z->fields[at].name = z->names[at];
    z->fields[at].flags &= ~LEAT_FIELD_FILES;
    return LEAT_OK;
}

static int check_part(const struct leat_dataset *first, const char *first_name, const struct leat_dataset *part,
                      const char *name, bool bare, struct leat_error *error)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    size_t head = *name ? strspn(name, letters) : 1;
    const char *later = &"._-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[!bare];
    if (!head || strspn(name, later) != strlen(name)) /* the fields of one without a name keep theirs */
        return leat_fail(error, LEAT_E_INVALID,
                         "a zipped data set is named '%.64s': use a letter or _ first, then letters, digits, _ and -",
                         name);
    if (part->count == first->count)
        return LEAT_OK;
    return leat_fail(error, LEAT_E_INVALID,
                     "data sets of different lengths cannot be zipped: %.64s has %" PRIu64 " samples, %.64s %" PRIu64
                     ": select the ones that belong together",
                     first_name, first->count, name, part->count);
}

static bool is_derived(const struct leat_field *field)
{
    return field->flags & LEAT_FIELD_DERIVED;
}

static bool is_chosen(const struct zip *z, const char *name)
{
    size_t i = 0;
    while (i < z->n_chosen && strcmp(z->chosen[i], name) != 0)
        i++;
    return !z->chosen || i < z->n_chosen;
}

/* Takes over the stored fields of a part, or the derived ones. */
static int take_fields(struct zip *z, const struct leat_dataset *part, const char *name, bool derived, bool bare,
                       struct leat_error *error)
{
    const struct leat_base *base = part->base;
    size_t stored = 0;
    int rc = LEAT_OK;
    for (size_t f = 0; f < base->n_fields; f++)
        stored += !is_derived(&base->fields[f]);
    for (size_t f = 0; f < base->n_fields && !rc; f++) {
        size_t at = z->source.n_fields;
        if (is_derived(&base->fields[f]) != derived)
            continue;
        z->origins[at] = (struct origin){part, f};
        rc = name_field(z, at, name, &base->fields[f], *name && bare && stored == 1 && !derived, error);
        if (!rc && !is_chosen(z, z->names[at]))
            continue;
        for (size_t g = 0; g < at && !rc; g++)
            if (!strcmp(z->names[g], z->names[at]))
                rc = leat_fail(error, LEAT_E_INVALID, "two zipped fields are named '%s'", z->names[at]);
        z->source.n_fields++;
    }
    return rc;
}

static int fill(struct zip *z, struct leat_dataset *const *parts, const char *const *names, size_t n, bool bare,
                struct leat_error *error)
{
    size_t n_fields = 0, notices = 1;
    int rc = LEAT_OK;
    for (size_t p = 0; p < n; p++) {
        n_fields += parts[p]->base->n_fields;
        notices += strlen(parts[p]->base->notice) + 1;
    }
    z->fields = leat_new_array(n_fields, sizeof *z->fields);
    z->origins = leat_new_array(n_fields, sizeof *z->origins);
    z->source.storage = z->storage = leat_new_array(n_fields, sizeof *z->storage);
    z->names = leat_new_array(n_fields, sizeof *z->names);
    z->parts = leat_new_array(n, sizeof *z->parts);
    z->notice = leat_new_array(notices, 1);
    if (!z->fields || !z->origins || !z->storage || !z->names || !z->parts || !z->notice)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to zip %zu data sets", n);
    for (size_t p = 0; p < n; p++) {
        const struct leat_base *base = parts[p]->base;
        uint8_t bytes[16];
        leat_dataset_fingerprint(parts[p], bytes);
        uint64_t sample[2] = {leat_get_u64(bytes), leat_get_u64(bytes + 8)};
        rc = check_part(parts[0], names[0], parts[p], names[p], bare, error);
        rc = rc ? rc : take_fields(z, parts[p], names[p], false, bare, error);
        if (rc)
            return rc;
        if (*base->notice)
            sprintf(z->notice + strlen(z->notice), "%s%s", *z->notice ? "\n" : "", base->notice);
        if (!z->source.n_classes) {
            z->source.classes = base->classes;
            z->source.n_classes = base->n_classes;
            z->source.classes_apart = base->classes_apart;
        }
        leat_fingerprint_append(z->source.fingerprint, sample);
        z->parts[z->n_parts++] = leat_dataset_retain(parts[p]);
        z->source.looks_up |= leat_dataset_looks_up(parts[p]);
    }
    for (size_t p = 0; p < n && !rc; p++) /* behind all that is stored, as match (dataset.c) takes them */
        rc = take_fields(z, parts[p], names[p], true, bare, error);
    return rc;
}

static int check_chosen(const struct zip *z, struct leat_error *error)
{
    for (size_t i = 0; i < z->n_chosen; i++) {
        const struct leat_known there = leat_known_fields(z->fields, z->source.n_fields);
        size_t f = 0;
        while (f < z->source.n_fields && strcmp(z->names[f], z->chosen[i]) != 0)
            f++;
        if (f == z->source.n_fields)
            return leat_fail_name(error, LEAT_E_NOT_FOUND, &there, z->chosen[i], "there is no field \"%s\" to take",
                                  z->chosen[i]);
    }
    return z->source.n_fields ? LEAT_OK : leat_fail(error, LEAT_E_INVALID, "no field is left to take");
}

int leat_zip_open(struct leat_dataset *const *parts, const char *const *names, size_t n, bool bare,
                  const char *const *fields, size_t n_fields, struct leat_source **out, struct leat_error *error)
{
    struct zip *z = leat_new(struct zip);
    *out = NULL;
    if (z) {
        z->chosen = fields;
        z->n_chosen = n_fields;
    }
    int rc = z ? fill(z, parts, names, n, bare, error) : leat_fail(error, LEAT_E_NOMEM, "no memory to zip data sets");
    rc = rc ? rc : check_chosen(z, error);
    if (rc) {
        if (z)
            zip_close(&z->source);
        return rc;
    }
    z->source.v = &zip_vtable;
    z->source.path = "";
    z->source.count = parts[0]->count;
    z->source.fields = z->fields;
    z->source.metadata = "{}";
    z->source.notice = z->notice;
    *out = &z->source;
    return LEAT_OK;
}
