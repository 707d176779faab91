/*
 * Some fields of a source, for formats whose fields are fixed: folders, annotations, IDX, text, leat's own files ...
 * Formats of files that have fields of their own choose among them while they open (wanted.h).
 *
 *     source       image   label   name          fields = "label", "name"
 *                    0       1       2
 *     chosen       label   name
 *     theirs         1       2                   every function passes the number of the source's field on
 *
 * The samples and the sums of the fingerprint are those of the source, so that a change of any of its values is noticed
 * whichever fields are chosen. The fingerprint is another one because the fields are a part of it.
 */
#include "format/chosen.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/wanted.h"

struct chosen {
    struct leat_source source;
    struct leat_source_vtable functions; /* those below, where the source has them */
    struct leat_source *of;
    struct leat_field *fields;
    size_t *theirs; /* of each field: its number in `of` */
    uint8_t *storage;
    bool *lacks;
};

static struct leat_source *behind(const struct leat_source *source, size_t *field)
{
    const struct chosen *c = (const struct chosen *)source;
    if (field)
        *field = c->theirs[*field];
    return c->of;
}

static int chosen_rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                       const void **rows, size_t *failed, struct leat_error *error)
{
    struct leat_source *of = behind(source, &field);
    return of->v->rows(of, field, samples, n, cold, rows, failed, error);
}

static int chosen_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                          struct leat_extent *extents, size_t *failed, struct leat_error *error)
{
    struct leat_source *of = behind(source, &field);
    return of->v->extents(of, field, samples, n, extents, failed, error);
}

static bool chosen_piece(struct leat_source *source, uint64_t sample, struct leat_extent *extent, uint64_t begin,
                         uint64_t length)
{
    struct leat_source *of = behind(source, NULL);
    return of->v->piece(of, sample, extent, begin, length);
}

static int chosen_check_piece(struct leat_source *source, uint64_t sample, const struct leat_extent *pages,
                              const uint8_t *data, bool mapped, struct leat_error *error)
{
    struct leat_source *of = behind(source, NULL);
    return of->v->check_piece(of, sample, pages, data, mapped, error);
}

static size_t chosen_lookups(struct leat_source *source, size_t field, uint64_t sample, struct leat_extent *ranges)
{
    struct leat_source *of = behind(source, &field);
    return of->v->lookups(of, field, sample, ranges);
}

static int chosen_compute(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                          size_t n, struct leat_values *out, size_t *failed, struct leat_error *error)
{
    struct leat_source *of = behind(source, NULL);
    size_t *theirs = leat_new_array(n_fields, sizeof *theirs);
    *failed = n;
    if (!theirs)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to compute values");
    for (size_t f = 0; f < n_fields; f++)
        theirs[f] = ((const struct chosen *)source)->theirs[fields[f]];
    const int rc = of->v->compute(of, theirs, n_fields, samples, n, out, failed, error);
    leat_free(theirs);
    return rc;
}

static uint64_t chosen_length(struct leat_source *source, size_t field, uint64_t sample)
{
    struct leat_source *of = behind(source, &field);
    return of->v->length(of, field, sample);
}

static const uint8_t *chosen_in_memory(const struct leat_source *source, size_t field, uint64_t sample, uint64_t *bytes)
{
    const struct leat_source *of = behind(source, &field);
    return of->v->in_memory(of, field, sample, bytes);
}

static int chosen_file(struct leat_source *source, uint64_t file, struct leat_io_file **out, struct leat_error *error)
{
    struct leat_source *of = behind(source, NULL);
    return of->v->file(of, file, out, error);
}

static bool chosen_expect(const struct leat_source *source, uint64_t sample, const struct leat_extent *extent)
{
    const struct leat_source *of = behind(source, NULL);
    return of->v->expect(of, sample, extent);
}

static void chosen_mark(struct leat_source *source, size_t field, uint64_t sample, bool verified,
                        enum leat_health health)
{
    struct leat_source *of = behind(source, &field);
    of->v->mark(of, field, sample, verified, health);
}

static void chosen_doubt(struct leat_source *source, size_t field, uint64_t sample)
{
    struct leat_source *of = behind(source, &field);
    of->v->doubt(of, field, sample);
}

static bool chosen_recall(struct leat_source *source, size_t field, uint64_t sample, uint8_t *to, uint32_t length,
                          const uint64_t *checksum)
{
    struct leat_source *of = behind(source, &field);
    return of->v->recall(of, field, sample, to, length, checksum);
}

static void chosen_keep(struct leat_source *source, size_t field, uint64_t sample, const void *photo,
                        size_t photo_bytes, const uint8_t *rows, size_t length)
{
    struct leat_source *of = behind(source, &field);
    of->v->keep(of, field, sample, photo, photo_bytes, rows, length);
}

static int chosen_refresh(struct leat_source *source, struct leat_error *error)
{
    struct leat_source *of = behind(source, NULL);
    const int rc = of->v->refresh(of, error);
    atomic_store(&source->changes, atomic_load(&of->changes));
    return rc;
}

static int chosen_column(struct leat_source *source, size_t field, const void **data, struct leat_error *error)
{
    struct leat_source *of = behind(source, &field);
    return of->v->column(of, field, data, error);
}

static int chosen_span(struct leat_source *source, size_t field, uint64_t sample, uint64_t n, const void **data,
                       uint64_t *got, struct leat_error *error)
{
    struct leat_source *of = behind(source, &field);
    return of->v->span(of, field, sample, n, data, got, error);
}

static int chosen_codes(struct leat_source *source, size_t field, struct leat_source_codes *out,
                        struct leat_error *error)
{
    struct leat_source *of = behind(source, &field);
    return of->v->codes(of, field, out, error);
}

static int chosen_about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error)
{
    struct leat_source *of = behind(source, NULL);
    return of->v->about(of, out, error);
}

static int chosen_place(struct leat_source *source, uint64_t sample, struct leat_sample_place *out,
                        struct leat_error *error)
{
    struct leat_source *of = behind(source, NULL);
    return of->v->place(of, sample, out, error);
}

static bool chosen_left_out(struct leat_source *source, uint64_t i, struct leat_source_left_out *out)
{
    struct leat_source *of = behind(source, NULL);
    return of->v->left_out(of, i, out);
}

static void chosen_close(struct leat_source *source)
{
    struct chosen *c = (struct chosen *)source;
    leat_source_close(c->of);
    leat_free(c->fields);
    leat_free(c->theirs);
    leat_free(c->storage);
    leat_free(c->lacks);
    leat_free(c);
}

/* Functions that a source does not have, a choice of its fields does not have either. `fill` and `behind` are those of
 * sources over data sets, which are no files; `verify` opens the file itself. */
static struct leat_source_vtable functions_of(const struct leat_source_vtable *v)
{
    return (struct leat_source_vtable){.name = v->name,
                                       .close = chosen_close,
                                       .rows = v->rows ? chosen_rows : NULL,
                                       .extents = v->extents ? chosen_extents : NULL,
                                       .piece = v->piece ? chosen_piece : NULL,
                                       .check_piece = v->check_piece ? chosen_check_piece : NULL,
                                       .lookups = v->lookups ? chosen_lookups : NULL,
                                       .compute = v->compute ? chosen_compute : NULL,
                                       .length = v->length ? chosen_length : NULL,
                                       .in_memory = v->in_memory ? chosen_in_memory : NULL,
                                       .file = v->file ? chosen_file : NULL,
                                       .expect = v->expect ? chosen_expect : NULL,
                                       .mark = v->mark ? chosen_mark : NULL,
                                       .doubt = v->doubt ? chosen_doubt : NULL,
                                       .recall = v->recall ? chosen_recall : NULL,
                                       .keep = v->keep ? chosen_keep : NULL,
                                       .refresh = v->refresh ? chosen_refresh : NULL,
                                       .column = v->column ? chosen_column : NULL,
                                       .span = v->span ? chosen_span : NULL,
                                       .checksums = v->checksums,
                                       .codes = v->codes ? chosen_codes : NULL,
                                       .about = v->about ? chosen_about : NULL,
                                       .place = v->place ? chosen_place : NULL,
                                       .left_out = v->left_out ? chosen_left_out : NULL};
}

static size_t find(const struct leat_source *source, const char *name, size_t length)
{
    size_t f = 0;
    while (f < source->n_fields &&
           (strncmp(source->fields[f].name, name, length) != 0 || source->fields[f].name[length]))
        f++;
    return f;
}

static bool has(const struct chosen *c, size_t field)
{
    size_t i = 0;
    while (i < c->source.n_fields && c->theirs[i] != field)
        i++;
    return i < c->source.n_fields;
}

static void add(struct chosen *c, size_t field)
{
    const size_t at = c->source.n_fields++;
    c->theirs[at] = field;
    c->fields[at] = c->of->fields[field];
    c->storage[at] = c->of->storage[field];
    c->lacks[at] = c->of->lacks && c->of->lacks[field];
}

/* The field that another is derived of, as "image" of "image.width"; its own number: of none. */
static size_t origin_of(const struct leat_source *source, size_t field)
{
    const char *name = source->fields[field].name, *dot = strrchr(name, '.');
    const size_t found = dot ? find(source, name, (size_t)(dot - name)) : field;
    return found < source->n_fields ? found : field;
}

static int unknown(const struct leat_source *source, const char *name, struct leat_error *error)
{
    const struct leat_known there = leat_known_fields(source->fields, source->n_fields);
    return leat_fail_name(error, LEAT_E_INVALID, &there, name, "%s has no field \"%s\", which fields names",
                          source->path, name);
}

/* The fields that are named, then those derived of these, or of none. */
static int add_fields(struct chosen *c, const struct leat_open_options *options, struct leat_error *error)
{
    const struct leat_source *of = c->of;
    char said[128], is[128];
    for (size_t i = 0; i < options->n_fields; i++) {
        const struct leat_field *wish = &options->fields[i];
        const size_t f = find(of, wish->name, strlen(wish->name));
        if (f == of->n_fields)
            return unknown(of, wish->name, error);
        if (leat_wanted_says(wish) && !leat_wanted_is(wish, &of->fields[f]))
            return leat_fail(error, LEAT_E_INVALID, "fields says of \"%s\" that it is %s, and in %s it is %s",
                             wish->name, leat_field_text(wish, said, sizeof said), of->path,
                             leat_field_text(&of->fields[f], is, sizeof is));
        if (of->fields[f].flags & LEAT_FIELD_DERIVED)
            continue;
        add(c, f);
        if (wish->layout)
            c->fields[c->source.n_fields - 1].layout = wish->layout;
    }
    const size_t stored = c->source.n_fields;
    for (size_t f = 0; f < of->n_fields; f++) {
        if (!(of->fields[f].flags & LEAT_FIELD_DERIVED))
            continue;
        const size_t origin = origin_of(of, f);
        bool named = origin == f;
        for (size_t i = 0; i < options->n_fields && !named; i++)
            named = !strcmp(options->fields[i].name, of->fields[f].name);
        for (size_t i = 0; i < stored && !named; i++)
            named = c->theirs[i] == origin;
        if (named)
            add(c, f);
    }
    return LEAT_OK;
}

/* Whether the choice is the source itself: all fields in their order and layout. */
static bool is_all(const struct chosen *c)
{
    size_t f = 0;
    while (f < c->source.n_fields && c->theirs[f] == f && c->fields[f].layout == c->of->fields[f].layout)
        f++;
    return f == c->of->n_fields;
}

int leat_source_choose(struct leat_source **source, const struct leat_open_options *options, struct leat_error *error)
{
    struct leat_source *of = *source;
    if (!options->n_fields || of->v->takes_fields)
        return LEAT_OK;
    int rc = leat_wanted_check_names(options, error);
    if (rc)
        return rc;
    struct chosen *c = leat_new(struct chosen);
    const size_t n = of->n_fields + !of->n_fields;
    if (c) {
        c->of = of;
        c->fields = leat_new_array(n, sizeof *c->fields);
        c->theirs = leat_new_array(n, sizeof *c->theirs);
        c->storage = leat_new_array(n, sizeof *c->storage);
        c->lacks = leat_new_array(n, sizeof *c->lacks);
    }
    if (!c || !c->fields || !c->theirs || !c->storage || !c->lacks)
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to choose fields of %s", of->path);
    if (!rc && !(rc = add_fields(c, options, error)) && !is_all(c)) {
        const size_t label = find(of, "label", strlen("label"));
        const bool classes = label == of->n_fields || has(c, label);
        c->functions = functions_of(of->v);
        c->source.v = &c->functions;
        c->source.path = of->path;
        c->source.count = of->count;
        c->source.fields = c->fields;
        c->source.storage = c->storage;
        c->source.lacks = of->lacks ? c->lacks : NULL;
        c->source.looks_up = of->looks_up;
        c->source.classes = classes ? of->classes : NULL;
        c->source.n_classes = classes ? of->n_classes : 0;
        c->source.classes_apart = of->classes_apart;
        c->source.converted = of->converted;
        memcpy(c->source.of_source, of->of_source, sizeof c->source.of_source);
        c->source.metadata = of->metadata;
        c->source.notice = of->notice;
        memcpy(c->source.fingerprint, of->fingerprint, sizeof c->source.fingerprint);
        *source = &c->source;
        return LEAT_OK;
    }
    if (c) {
        c->of = NULL; /* it stays the caller's, as it is */
        chosen_close(&c->source);
    }
    return rc;
}
