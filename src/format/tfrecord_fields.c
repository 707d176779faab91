/*
 * The fields of TFRecord files (tfrecord.h): each feature that records have is one, unless others are chosen.
 *
 *     what it is      by declaration, or by what all records have: the kind of its lists, their lengths, first bytes
 *     NAME.valid      where some records lack it
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/tfrecord.h"
#include "format/wanted.h"

static int no_memory(const struct leat_tfrecord *t, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", t->source.path);
}

/* ---- columns of all files -------------------------------------------------------------------- */

static int find_column(struct leat_tfrecord *t, const struct leat_tfrecord_file *f, const char *text, uint16_t *out,
                       struct leat_error *error)
{
    size_t i = 0;
    while (i < t->n_columns && strcmp(t->texts[i], text) != 0)
        i++;
    *out = (uint16_t)i;
    if (i < t->n_columns)
        return LEAT_OK;
    if (i == LEAT_TFRECORD_COLUMNS)
        return leat_fail_at(error, LEAT_E_FORMAT, f->file.path, LEAT_NO_OFFSET,
                            "the files, up to %s, have more than %d different features", f->file.path,
                            LEAT_TFRECORD_COLUMNS);
    if (!(t->texts[i] = leat_strdup(text)))
        return no_memory(t, error);
    t->n_columns++;
    return LEAT_OK;
}

static void add_column(struct leat_tfrecord_column *all, const struct leat_tfrecord_column *one)
{
    for (unsigned k = 0; k < 4; k++) {
        if (!one->kinds[k].n)
            continue;
        const bool first = !all->kinds[k].n;
        all->kinds[k].least =
            first || one->kinds[k].least < all->kinds[k].least ? one->kinds[k].least : all->kinds[k].least;
        all->kinds[k].most = one->kinds[k].most > all->kinds[k].most ? one->kinds[k].most : all->kinds[k].most;
        all->kinds[k].n += one->kinds[k].n;
    }
    all->photos += one->photos;
    all->texts += one->texts;
}

static int join_columns(struct leat_tfrecord *t, struct leat_error *error)
{
    for (size_t i = 0; i < t->n_files; i++) {
        struct leat_tfrecord_file *f = &t->files[i];
        const struct leat_tfrecord_column *c = f->places.columns;
        if (!(f->columns = leat_new_array((size_t)f->places.width + 1, sizeof *f->columns)))
            return no_memory(t, error);
        for (size_t k = 0; k < f->places.width; k++) {
            const int rc = find_column(t, f, f->places.text + c[k].name, &f->columns[k], error);
            if (rc)
                return rc;
            add_column(&t->columns[f->columns[k]], &c[k]);
        }
    }
    for (size_t i = 0; i < t->n_files; i++) {
        struct leat_tfrecord_file *f = &t->files[i];
        if (!(f->own = leat_new_array(t->n_columns + 1, sizeof *f->own)))
            return no_memory(t, error);
        memset(f->own, 0xff, t->n_columns * sizeof *f->own); /* LEAT_TFRECORD_NOT_THERE */
        for (size_t k = 0; k < f->places.width; k++)
            f->own[f->columns[k]] = (uint16_t)k;
    }
    return LEAT_OK;
}

/* ---- fields ---------------------------------------------------------------------------------- */

unsigned leat_tfrecord_most(const struct leat_tfrecord_column *c)
{
    unsigned best = LEAT_TFRECORD_BYTES;
    for (unsigned k = LEAT_TFRECORD_FLOATS; k <= LEAT_TFRECORD_INTS; k++)
        best = c->kinds[k].n > c->kinds[best].n ? k : best;
    return best;
}

/* What the records say of a field. */
static void type_found(const struct leat_tfrecord_column *c, struct leat_field *f)
{
    const unsigned kind = leat_tfrecord_most(c);
    const uint64_t n = c->kinds[kind].n, least = c->kinds[kind].least;
    f->dtype = LEAT_U8;
    if (kind == LEAT_TFRECORD_BYTES) {
        f->kind = c->photos > n / 2 ? LEAT_KIND_IMAGE : n && c->texts == n ? LEAT_KIND_STR : LEAT_KIND_BYTES;
        return;
    }
    f->kind = LEAT_KIND_ARRAY;
    f->dtype = kind == LEAT_TFRECORD_FLOATS ? LEAT_F32 : LEAT_I64;
    const bool fixed = least == c->kinds[kind].most && least;
    f->ndim = !fixed || least > 1;
    f->shape[0] = !f->ndim ? 0 : fixed ? (int64_t)least : -1;
}

/* Lists of numbers may have any shape of their dtype; bytes may be anything. */
static int type_of(const struct leat_tfrecord *t, size_t column, const struct leat_field *wish, struct leat_field *f,
                   struct leat_error *error)
{
    const struct leat_tfrecord_column *c = &t->columns[column];
    const unsigned kind = leat_tfrecord_most(c);
    char is[128], said[128];
    type_found(c, f);
    const struct leat_field found = *f;
    if (leat_wanted_says(wish))
        leat_wanted_take(wish, f);
    if (kind == LEAT_TFRECORD_BYTES && c->kinds[kind].n && c->kinds[kind].most > 1)
        return leat_fail_at(error, LEAT_E_UNSUPPORTED, t->source.path, LEAT_NO_OFFSET,
                            "the feature \"%s\" of %s has lists of up to %" PRIu64 " bytes or texts, which no field "
                            "holds: name the fields to take without it, as in fields=[...]",
                            f->name, t->source.path, c->kinds[kind].most);
    if (kind == LEAT_TFRECORD_BYTES || (f->kind == LEAT_KIND_ARRAY && f->dtype == found.dtype))
        return LEAT_OK;
    return leat_fail_at(error, LEAT_E_INVALID, t->source.path, LEAT_NO_OFFSET,
                        "fields says of \"%s\" that it is %s, but in %s it is %s", f->name,
                        leat_field_text(f, said, sizeof said), t->source.path, leat_field_text(&found, is, sizeof is));
}

static int add(struct leat_tfrecord *t, const char *name, const struct leat_field *like,
               const struct leat_tfrecord_origin *origin, enum leat_storage storage, struct leat_error *error)
{
    const size_t n = t->source.n_fields;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(t->fields[i].name, name))
            return leat_fail(error, LEAT_E_INVALID,
                             "two fields of %s have the name \"%s\": choose some of them with fields", t->source.path,
                             name);
    if (!(t->owned[n] = leat_strdup(name)))
        return no_memory(t, error);
    t->fields[n] = *like;
    t->fields[n].name = t->owned[n];
    t->origins[n] = *origin;
    t->storage[n] = (uint8_t)storage;
    t->source.n_fields++;
    return LEAT_OK;
}

static bool is_empty(const struct leat_tfrecord_column *c)
{
    return !c->kinds[LEAT_TFRECORD_BYTES].n && !c->kinds[LEAT_TFRECORD_FLOATS].n && !c->kinds[LEAT_TFRECORD_INTS].n;
}

static int add_value(struct leat_tfrecord *t, size_t column, const char *name, const struct leat_field *wish,
                     struct leat_error *error)
{
    const struct leat_tfrecord_column *c = &t->columns[column];
    const uint64_t n = c->kinds[1].n + c->kinds[2].n + c->kinds[3].n;
    struct leat_field f = {.name = name};
    const int rc = !is_empty(c) ? type_of(t, column, wish, &f, error)
                                : leat_fail(error, LEAT_E_INVALID,
                                            "the feature \"%s\" of %s is empty in each record: leave it out", name,
                                            t->source.path);
    if (rc)
        return rc;
    enum leat_storage storage = LEAT_STORAGE_EXTENT;
    if (f.kind == LEAT_KIND_ARRAY)
        storage = !f.ndim && leat_tfrecord_most(c) != LEAT_TFRECORD_BYTES ? LEAT_STORAGE_MAPPED : LEAT_STORAGE_COMPUTED;
    return add(t, name, &f, &(struct leat_tfrecord_origin){.column = column, .lacks = n < t->source.count}, storage,
               error);
}

static int add_chosen(struct leat_tfrecord *t, char names[][LEAT_FIELD_NAME], const struct leat_open_options *options,
                      struct leat_error *error)
{
    int rc = LEAT_OK;
    const struct leat_known there = leat_known_texts(names, t->n_columns);
    for (size_t i = 0; i < options->n_fields && !rc; i++) {
        const struct leat_field *wish = &options->fields[i];
        size_t c;
        rc = leat_wanted_locate(names, t->n_columns, wish->name, t->source.path, &c, error);
        if (rc)
            break;
        rc = c < t->n_columns
                 ? add_value(t, c, names[c], wish, error)
                 : leat_fail_name(error, LEAT_E_INVALID, &there, wish->name,
                                  "no record in %s%s has a feature \"%s\", which fields names", t->source.path,
                                  t->n_files > 1 ? " and the other files" : "", wish->name);
    }
    return rc;
}

int leat_tfrecord_make_fields(struct leat_tfrecord *t, const struct leat_open_options *options,
                              struct leat_error *error)
{
    char(*names)[LEAT_FIELD_NAME] = leat_new_array(LEAT_TFRECORD_COLUMNS, sizeof *names);
    char valid[LEAT_FIELD_NAME + 8];
    int rc = names ? join_columns(t, error) : no_memory(t, error);
    for (size_t c = 0; c < t->n_columns && !rc; c++)
        if (!leat_field_name_add(names[c], t->texts[c], strlen(t->texts[c]))) {
            if (!options->n_fields)
                rc = leat_fail(error, LEAT_E_INVALID,
                               "%s: the name \"%s...\" of a feature is longer than %d bytes: name the fields to take "
                               "without it, as in fields=[...]",
                               t->source.path, names[c], LEAT_FIELD_NAME - 1);
            names[c][0] = 0;
        }
    if (!rc && options->n_fields)
        rc = add_chosen(t, names, options, error);
    for (size_t c = 0; c < t->n_columns && !rc && !options->n_fields; c++)
        if (!is_empty(&t->columns[c])) /* that any has a value of */
            rc = add_value(t, c, names[c], NULL, error);
    const size_t values = t->source.n_fields;
    if (!rc && !values)
        rc = leat_fail_at(error, LEAT_E_FORMAT, t->source.path, LEAT_NO_OFFSET, "the records of %s have no features",
                          t->source.path);
    for (size_t i = 0; i < values && !rc; i++) {
        if (!t->origins[i].lacks)
            continue;
        snprintf(valid, sizeof valid, "%s.valid", t->fields[i].name);
        if (strlen(valid) < LEAT_FIELD_NAME)
            rc = add(t, valid,
                     &(struct leat_field){.kind = LEAT_KIND_ARRAY, .dtype = LEAT_BOOL, .flags = LEAT_FIELD_DERIVED},
                     &(struct leat_tfrecord_origin){.column = t->origins[i].column, .valid = true}, LEAT_STORAGE_MAPPED,
                     error);
    }
    leat_free(names);
    return rc;
}
