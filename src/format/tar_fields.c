/*
 * The fields of tars (tar.h): each ending that files have is one, unless others are chosen.
 *
 *     what it is      by declaration, by the ending (.cls, .txt, .json, .npy ...), or by the first bytes (photos)
 *     pickles         are never loaded: an error, unless they are left out or taken as bytes
 *     NAME.valid      where some samples lack the file
 *     name            the key
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/photo/photo.h"
#include "format/tar.h"
#include "format/wanted.h"

struct sums {
    uint64_t n, photos, integers, arrays, objects;
    const struct leat_tar_file *pickled; /* the first file with a .npy of objects */
    uint64_t pickled_at;
    bool chosen;
};

struct make {
    struct leat_tar *tar;
    const struct leat_open_options *options;
    struct sums sums[LEAT_TAR_ENDINGS];
    struct leat_error *error;
};

static int no_memory(const struct make *m)
{
    return leat_fail(m->error, LEAT_E_NOMEM, "no memory to open %s", m->tar->source.path);
}

/* ---- endings of all files -------------------------------------------------------------------- */

static int find_ending(struct make *m, const struct leat_tar_file *file, const char *text, uint16_t *out)
{
    struct leat_tar *t = m->tar;
    size_t i = 0;
    while (i < t->n_endings && strcmp(t->endings[i], text) != 0)
        i++;
    *out = (uint16_t)i;
    if (i < t->n_endings)
        return LEAT_OK;
    if (i == LEAT_TAR_ENDINGS)
        return leat_fail_at(m->error, LEAT_E_FORMAT, file->file.path, LEAT_NO_OFFSET,
                            "the tars, up to %s, have more than %d different endings of files: they are no tars of "
                            "samples",
                            file->file.path, LEAT_TAR_ENDINGS);
    if (!(t->endings[i] = leat_strdup(text)))
        return no_memory(m);
    t->n_endings++;
    return LEAT_OK;
}

static int join(struct make *m, struct leat_tar_file *f)
{
    const struct leat_tar_index *x = &f->index;
    if (!(f->fields = leat_new_array((size_t)x->n_endings + 1, sizeof *f->fields)))
        return no_memory(m);
    for (size_t i = 0; i < x->n_endings; i++) {
        const struct leat_tar_ending *e = &x->endings[i];
        const int rc = find_ending(m, f, x->endings_text + e->text, &f->fields[i]);
        if (rc)
            return rc;
        struct sums *s = &m->sums[f->fields[i]];
        s->n += e->n;
        s->photos += e->photos;
        s->integers += e->integers;
        s->arrays += e->arrays;
        if (e->objects && !s->objects) {
            s->pickled = f;
            s->pickled_at = e->first_objects;
        }
        s->objects += e->objects;
    }
    return LEAT_OK;
}

static int number_endings(struct make *m, struct leat_tar_file *f)
{
    if (!(f->endings = leat_new_array(m->tar->n_endings + 1, sizeof *f->endings)))
        return no_memory(m);
    for (size_t i = 0; i < m->tar->n_endings; i++)
        f->endings[i] = LEAT_TAR_NOT_THERE;
    for (size_t i = 0; i < f->index.n_endings; i++)
        f->endings[f->fields[i]] = (uint16_t)i;
    return LEAT_OK;
}

/* ---- what a field is ------------------------------------------------------------------------- */

/* Whether the last part of an ending is one of these words. */
static bool is_one_of(const char *ending, const char *words)
{
    const char *dot = strrchr(ending, '.'), *last = dot ? dot + 1 : ending;
    const size_t n = strlen(last);
    for (const char *p = words; n && *p; p += strcspn(p, " "), p += strspn(p, " "))
        if (strcspn(p, " ") == n && !strncmp(p, last, n))
            return true;
    return false;
}

/* The type that most arrays of an ending have. */
static int type_of_arrays(const struct make *m, uint16_t ending, const char *name, struct leat_field *f)
{
    const struct leat_tar *t = m->tar;
    const struct leat_tar_shape *best = NULL;
    uint64_t best_n = 0, least = UINT64_MAX, most = 0;
    for (int round = 0; round < 2; round++) /* first which, then over all files the first dimension */
        for (size_t i = 0; i < t->n_files; i++)
            for (size_t k = 0; k < t->files[i].index.n_shapes; k++) {
                const struct leat_tar_shape *s = &t->files[i].index.shapes[k];
                if (t->files[i].fields[s->ending] != ending)
                    continue;
                if (!round && s->n > best_n) {
                    best_n = s->n;
                    best = s;
                } else if (round && best && s->dtype == best->dtype && s->ndim == best->ndim &&
                           !memcmp(s->shape, best->shape, sizeof s->shape)) {
                    least = s->least < least ? s->least : least;
                    most = s->most > most ? s->most : most;
                }
            }
    if (!best)
        return leat_fail_at(m->error, LEAT_E_INVALID, t->source.path, LEAT_NO_OFFSET,
                            "the field \"%s\" of %s has no array that leat reads: leave it out, or take it as it is by "
                            "fields={\"%s\": \"bytes\"}",
                            name, t->source.path, name);
    f->kind = LEAT_KIND_ARRAY;
    f->dtype = (enum leat_dtype)best->dtype;
    f->ndim = best->ndim;
    for (unsigned d = 0; d < f->ndim; d++)
        f->shape[d] = d ? (int64_t)best->shape[d] : least == most && least ? (int64_t)least : -1;
    return LEAT_OK;
}

static int type_of(const struct make *m, uint16_t ending, const struct leat_field *wish, struct leat_field *f)
{
    const char *text = m->tar->endings[ending];
    const struct sums *s = &m->sums[ending];
    f->dtype = LEAT_U8;
    if (leat_wanted_says(wish)) {
        leat_wanted_take(wish, f);
        return f->kind == LEAT_KIND_ARRAY && s->objects
                   ? leat_wanted_refuse_pickles(s->pickled->file.path, (int64_t)s->pickled_at, f->name,
                                                "arrays of objects", m->error)
                   : LEAT_OK;
    }
    if (is_one_of(text, "pyd pkl pickle pth pt"))
        return leat_wanted_refuse_pickles(m->tar->source.path, LEAT_NO_OFFSET, f->name,
                                          strrchr(text, '.') ? strrchr(text, '.') + 1 : text, m->error);
    if (is_one_of(text, "cls cls2 class count index inx id")) {
        f->kind = LEAT_KIND_ARRAY;
        f->dtype = LEAT_I64;
    } else if (is_one_of(text, "txt text transcript")) {
        f->kind = LEAT_KIND_STR;
    } else if (is_one_of(text, "json jsn")) {
        f->kind = LEAT_KIND_JSON;
    } else if (is_one_of(text, "npy")) {
        return s->objects ? leat_wanted_refuse_pickles(s->pickled->file.path, (int64_t)s->pickled_at, f->name,
                                                       "arrays of objects", m->error)
                          : type_of_arrays(m, ending, f->name, f);
    } else {
        char named[LEAT_TAR_KEY + 2];
        snprintf(named, sizeof named, ".%s", text);
        f->kind = leat_photo_has_suffix(named) || s->photos > s->n / 2 ? LEAT_KIND_IMAGE : LEAT_KIND_BYTES;
    }
    return LEAT_OK;
}

/* ---- fields ---------------------------------------------------------------------------------- */

static int add(struct make *m, const char *name, const struct leat_field *like, const struct leat_tar_field *origin,
               enum leat_storage storage)
{
    struct leat_tar *t = m->tar;
    const size_t n = t->source.n_fields;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(t->fields[i].name, name))
            return leat_fail(m->error, LEAT_E_INVALID,
                             "two fields of %s have the name \"%s\": choose some of them with fields%s", t->source.path,
                             name, strcmp(name, "name") ? "" : " (\"name\" is the key of a sample)");
    if (!(t->owned[n] = leat_strdup(name)))
        return no_memory(m);
    t->fields[n] = *like;
    t->fields[n].name = t->owned[n];
    t->origins[n] = *origin;
    t->storage[n] = (uint8_t)storage;
    t->source.n_fields++;
    return LEAT_OK;
}

static int add_value(struct make *m, uint16_t ending, const char *name, const struct leat_field *wish)
{
    struct sums *s = &m->sums[ending];
    struct leat_field f = {.name = name, .flags = LEAT_FIELD_FILES};
    struct leat_tar_field origin = {.use = LEAT_TAR_VALUE, .ending = ending, .lacks = s->n < m->tar->source.count};
    const int rc = type_of(m, ending, wish, &f);
    if (rc)
        return rc;
    enum leat_storage storage = LEAT_STORAGE_EXTENT;
    if (f.kind == LEAT_KIND_ARRAY) {
        f.flags = 0;
        storage = f.dtype == LEAT_I64 && !f.ndim && !s->arrays ? LEAT_STORAGE_MAPPED : LEAT_STORAGE_COMPUTED;
    }
    s->chosen = true;
    return add(m, name, &f, &origin, storage);
}

static int add_chosen(struct make *m, char names[][LEAT_FIELD_NAME])
{
    const struct leat_tar *t = m->tar;
    const struct leat_known there = leat_known_texts(names, t->n_endings);
    for (size_t i = 0; i < m->options->n_fields; i++) {
        const struct leat_field *wish = &m->options->fields[i];
        size_t e;
        int rc = leat_wanted_locate(names, t->n_endings, wish->name, t->source.path, &e, m->error);
        if (rc)
            return rc;
        if (e == t->n_endings && !strcmp(wish->name, "name") && !wish->kind)
            continue; /* it is always there */
        if (e == t->n_endings)
            return leat_fail_name(m->error, LEAT_E_INVALID, &there, wish->name,
                                  "no file in %s%s ends in .%s, which fields names", t->source.path,
                                  t->n_files > 1 ? " and the other tars" : "", wish->name);
        if ((rc = add_value(m, (uint16_t)e, names[e], wish)))
            return rc;
    }
    return LEAT_OK;
}

static int add_fields(struct make *m, char names[][LEAT_FIELD_NAME])
{
    struct leat_tar *t = m->tar;
    int rc = LEAT_OK;
    char valid[LEAT_FIELD_NAME + 8];
    for (size_t e = 0; e < t->n_endings && !rc; e++)
        if (!leat_field_name_add(names[e], t->endings[e], strlen(t->endings[e]))) {
            if (!m->options->n_fields)
                rc = leat_fail(m->error, LEAT_E_INVALID,
                               "%s: the ending \"%s...\" of files is longer than %d bytes: name the fields to take "
                               "without it, as in fields=[...]",
                               t->source.path, names[e], LEAT_FIELD_NAME - 1);
            names[e][0] = 0;
        }
    if (!rc && m->options->n_fields)
        rc = add_chosen(m, names);
    for (size_t e = 0; e < t->n_endings && !rc && !m->options->n_fields; e++)
        rc = add_value(m, (uint16_t)e, names[e], NULL);
    const size_t values = t->source.n_fields;
    for (size_t i = 0; i < values && !rc; i++) {
        if (!t->origins[i].lacks)
            continue;
        struct leat_tar_field origin = t->origins[i];
        origin.use = LEAT_TAR_VALID;
        snprintf(valid, sizeof valid, "%s.valid", t->fields[i].name);
        if (strlen(valid) < LEAT_FIELD_NAME)
            rc = add(m, valid,
                     &(struct leat_field){.kind = LEAT_KIND_ARRAY, .dtype = LEAT_BOOL, .flags = LEAT_FIELD_DERIVED},
                     &origin, LEAT_STORAGE_MAPPED);
    }
    return rc ? rc
              : add(m, "name",
                    &(struct leat_field){.kind = LEAT_KIND_STR, .dtype = LEAT_U8, .flags = LEAT_FIELD_DERIVED},
                    &(struct leat_tar_field){.use = LEAT_TAR_NAME}, LEAT_STORAGE_EXTENT);
}

int leat_tar_make_fields(struct leat_tar *t, const struct leat_open_options *options, struct leat_error *error)
{
    struct make *m = leat_new(struct make);
    char(*names)[LEAT_FIELD_NAME] = leat_new_array(LEAT_TAR_ENDINGS, sizeof *names);
    int rc = m && names ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", t->source.path);
    if (!rc)
        *m = (struct make){.tar = t, .options = options, .error = error};
    for (size_t i = 0; i < t->n_files && !rc; i++)
        rc = join(m, &t->files[i]);
    for (size_t i = 0; i < t->n_files && !rc; i++)
        rc = number_endings(m, &t->files[i]);
    rc = rc ? rc : add_fields(m, names);
    leat_free(names);
    leat_free(m);
    return rc;
}
