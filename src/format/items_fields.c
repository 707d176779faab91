/*
 * The fields of items (items.h): each column is one, unless others are chosen.
 *
 *     as it is found    the kind of its encoding; bytes that mostly begin as photos do are photos
 *     as the user says  any kind, of what is bytes or text; else what it is, or "bytes"
 *     pickles           are never loaded: an error, unless they are left out or taken as bytes
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/items.h"

struct make {
    struct leat_items *items;
    struct leat_error *error;
};

static int refuse(const struct make *m, const struct leat_item_column *c, const char *why)
{
    return leat_fail_at(m->error, LEAT_E_INVALID, m->items->index_path, LEAT_NO_OFFSET,
                        "the field \"%s\" of %s, which is \"%s\", %s: leave it out, or take it as it is by "
                        "fields={\"%s\": \"bytes\"}",
                        c->name, m->items->index_path, c->encoding, why, c->name);
}

/* What an array is, and that the user says no other thing. */
static int type_of_array(const struct make *m, const struct leat_item_column *c, const struct leat_field *wish,
                         struct leat_field *f)
{
    const struct leat_items_index *x = &m->items->index;
    char is[128], said[128];
    if (c->fixed || m->items->stride) {
        leat_wanted_take(&c->type, f);
    } else {
        const size_t best = leat_array_shapes_best(x->shapes, (size_t)x->n_shapes, (uint32_t)(c - m->items->columns));
        if (best == SIZE_MAX && m->items->source.count)
            return refuse(m, c, "has no array that leat reads");
        if (best == SIZE_MAX)
            leat_wanted_take(&(struct leat_field){.kind = LEAT_KIND_ARRAY,
                                                  .dtype = c->type.dtype ? c->type.dtype : LEAT_F32,
                                                  .ndim = 1,
                                                  .shape = {-1}},
                             f);
        else
            leat_array_shape_take(&x->shapes[best], f);
    }
    if (!leat_wanted_says(wish))
        return LEAT_OK;
    bool fits = wish->kind == LEAT_KIND_ARRAY && wish->dtype == f->dtype && wish->ndim == f->ndim;
    for (unsigned d = 0; fits && d < f->ndim; d++)
        fits = wish->shape[d] == f->shape[d] || (!d && wish->shape[d] == -1);
    if (!fits)
        return leat_fail(m->error, LEAT_E_INVALID, "fields says that \"%s\" is %s, and in %s it is %s", c->name,
                         leat_field_text(wish, said, sizeof said), m->items->index_path,
                         leat_field_text(f, is, sizeof is));
    leat_wanted_take(wish, f);
    return LEAT_OK;
}

static int type_of(const struct make *m, size_t column, const struct leat_field *wish, struct leat_field *f,
                   enum leat_item_use *use)
{
    const struct leat_item_column *c = &m->items->columns[column];
    const struct leat_items_index *x = &m->items->index;
    const bool says = leat_wanted_says(wish);
    *use = LEAT_ITEM_WHOLE;
    if (says && wish->kind == LEAT_KIND_BYTES) {
        leat_wanted_take(wish, f);
        return LEAT_OK;
    }
    switch (c->form) {
    case LEAT_ITEM_PICKLE:
        return leat_wanted_refuse_pickles(m->items->index_path, LEAT_NO_OFFSET, c->name, c->encoding, m->error);
    case LEAT_ITEM_OTHER:
        return refuse(m, c, "has an encoding that leat does not read");
    case LEAT_ITEM_PIXELS:
        if (says && wish->kind != LEAT_KIND_IMAGE)
            return refuse(m, c, "is an image");
        *use = LEAT_ITEM_PHOTO;
        f->kind = LEAT_KIND_IMAGE;
        return LEAT_OK;
    case LEAT_ITEM_ARRAY:
    case LEAT_ITEM_HEADED:
    case LEAT_ITEM_NUMPY:
    case LEAT_ITEM_TENSOR:
        *use = LEAT_ITEM_VALUES;
        return type_of_array(m, c, wish, f);
    case LEAT_ITEM_NUMBER:
    case LEAT_ITEM_BYTES:
        break;
    }
    if (says)
        leat_wanted_take(wish, f);
    else if (c->type.kind)
        leat_wanted_take(&c->type, f);
    else
        f->kind = x->facts[column].photos > m->items->source.count / 2 ? LEAT_KIND_IMAGE : LEAT_KIND_BYTES;
    *use = f->kind == LEAT_KIND_ARRAY ? LEAT_ITEM_MADE : LEAT_ITEM_WHOLE;
    return LEAT_OK;
}

/* Whether all values of a column can be used where they lie. */
static bool is_mapped(const struct leat_items *t, size_t column)
{
    const struct leat_item_column *c = &t->columns[column];
    bool mapped = (c->fixed || t->stride) && !(t->index.facts[column].lowest & (leat_dtype_size(c->type.dtype) - 1));
    for (size_t i = 0; i < t->n_files && mapped; i++)
        mapped = t->files[i].is.map && !t->files[i].packing;
    return mapped;
}

static int add(struct make *m, size_t column, const struct leat_field *wish)
{
    struct leat_items *t = m->items;
    const size_t n = t->source.n_fields;
    enum leat_item_use use;
    if (t->columns[column].nameless)
        return leat_fail_at(m->error, LEAT_E_FORMAT, t->index_path, LEAT_NO_OFFSET,
                            "%s: the name of the column \"%s...\" is longer than %d bytes: name the fields to take "
                            "without it, as in fields=[...]",
                            t->index_path, t->columns[column].name, LEAT_FIELD_NAME - 1);
    t->fields[n] = (struct leat_field){.name = t->columns[column].name, .dtype = LEAT_U8};
    const int rc = type_of(m, column, wish, &t->fields[n], &use);
    if (rc)
        return rc;
    t->origins[n].use = use;
    t->origins[n].column = column;
    t->storage[n] = use == LEAT_ITEM_MADE || use == LEAT_ITEM_PHOTO   ? LEAT_STORAGE_COMPUTED
                    : use == LEAT_ITEM_VALUES && is_mapped(t, column) ? LEAT_STORAGE_MAPPED
                                                                      : LEAT_STORAGE_EXTENT;
    t->source.n_fields++;
    return LEAT_OK;
}

static const char *column_name(const void *of, size_t i)
{
    const struct leat_items *t = of;
    return t->columns[i].nameless ? "" : t->columns[i].name;
}

static int add_chosen(struct make *m, const struct leat_field *wish)
{
    const struct leat_items *t = m->items;
    size_t k = 0;
    while (k < t->n_columns && (t->columns[k].nameless || strcmp(t->columns[k].name, wish->name) != 0))
        k++;
    const struct leat_known there = {column_name, t, t->n_columns};
    return k < t->n_columns ? add(m, k, wish)
                            : leat_fail_name(m->error, LEAT_E_INVALID, &there, wish->name,
                                             "%s has no column \"%s\", which fields names", t->index_path, wish->name);
}

int leat_items_make_fields(struct leat_items *t, const struct leat_open_options *options, struct leat_error *error)
{
    struct make m = {t, error};
    int rc = LEAT_OK;
    for (size_t i = 0; i < options->n_fields && !rc; i++)
        rc = add_chosen(&m, &options->fields[i]);
    for (size_t k = 0; k < t->n_columns && !rc && !options->n_fields; k++)
        rc = add(&m, k, NULL);
    return rc;
}
