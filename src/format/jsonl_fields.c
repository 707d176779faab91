/*
 * The fields of JSONL files, made of the properties that their records have. A property whose values are
 *
 *     true, false                     is a bool
 *     numbers                         int64; uint64 if some are beyond it; float64 if some have a point or an exponent,
 *                                     and no integer is one that float64 does not hold
 *     strings                         a str
 *     lists of numbers or booleans    a ragged array of int64, uint64, float64 or bool
 *     other lists                     json, as they stand in the file
 *     objects                         fields of their own, "meta.domain"; json if it is always empty or has many keys
 *
 * and anything else is of two types, which is an error that names a line of each. Where it is missing or null the
 * value is 0, NaN, "", an empty list or null, and a derived field, "meta.domain.valid", says so.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/jsonl.h"
#include "format/wanted.h"
#include "io/guard.h"

#define BIT(type) (UINT64_C(1) << LEAT_RECORD_##type)
#define NUMBERS (BIT(INT) | BIT(UINT) | BIT(FLOAT))
#define LISTS (BIT(EMPTY_LIST) | BIT(BOOLS) | BIT(INTS) | BIT(UINTS) | BIT(FLOATS) | BIT(LIST))
#define NONE UINT32_MAX

enum { NAME = LEAT_FIELD_NAME };

/* A property over all files. */
struct merged {
    uint64_t types, present, integers; /* as of leat_text_property */
    bool partial;                      /* some records that have it may not be known */
    size_t files[LEAT_RECORD_TYPES];   /* where each type stands first */
    uint64_t lines[LEAT_RECORD_TYPES];
    bool there; /* some record has it, or something below it */
};

struct make {
    struct leat_jsonl *j;
    struct merged *merged;
    uint64_t good; /* records */
    bool rounds;   /* floats are asked for: integers become the nearest */
    struct leat_error *error;
};

static void *keep(struct leat_jsonl *j, uint64_t count, size_t each)
{
    if (!leat_grow(&j->owned, &j->owned_room, j->n_owned + 1, sizeof *j->owned))
        return NULL;
    void *room = count < SIZE_MAX ? leat_new_array((size_t)count + 1, each) : NULL;
    if (room)
        j->owned[j->n_owned++] = room;
    return room;
}

static int no_memory(struct make *m)
{
    return leat_fail(m->error, LEAT_E_NOMEM, "no memory to open %s", m->j->text.path);
}

/* ---- joining --------------------------------------------------------------------------------- */

static int join_file(struct make *m, size_t number)
{
    struct leat_property_tree *to = &m->j->tree;
    const struct leat_property_tree *from = &m->j->files[number].text.index.tree;
    uint32_t *joined = leat_new_array(from->n + 1, sizeof *joined);
    if (!joined)
        return no_memory(m);
    int rc = LEAT_OK;
    for (size_t i = 1; i < from->n && !rc; i++) {
        const struct leat_property *p = &from->nodes[i];
        const uint32_t parent = joined[p->parent];
        joined[i] = parent == NONE ? NONE : leat_property_add(to, parent, from->keys + p->key, p->key_length);
        if (joined[i] == NONE && parent != NONE && !to->full)
            rc = no_memory(m);
        else if (joined[i] == NONE && parent != NONE)
            to->nodes[parent].wide = true;
        if (joined[i] != NONE && p->wide)
            to->nodes[joined[i]].wide = true;
    }
    to->nodes[0].wide = to->nodes[0].wide || from->nodes[0].wide;
    leat_free(joined);
    return rc;
}

/* Finds the place of each node of the joined tree in a file. */
static int map_file(struct make *m, size_t number)
{
    const struct leat_property_tree *to = &m->j->tree;
    struct leat_jsonl_file *f = &m->j->files[number];
    const struct leat_text_index *x = &f->text.index;
    bool *unknown = leat_new_array(to->n, sizeof *unknown); /* the file passed keys over, of which it may be one */
    if (!unknown || !(f->nodes = leat_new_array(to->n, sizeof *f->nodes))) {
        leat_free(unknown);
        return no_memory(m);
    }
    for (uint32_t i = 1; i < to->n; i++) {
        const struct leat_property *p = &to->nodes[i];
        const uint32_t parent = f->nodes[p->parent];
        uint32_t found = NONE;
        if (parent || !p->parent)
            found = leat_property_find(&x->tree, parent, to->keys + p->key, p->key_length);
        struct merged *a = &m->merged[i];
        f->nodes[i] = found == NONE ? 0 : found;
        unknown[i] = found == NONE && (parent || !p->parent ? x->tree.nodes[parent].wide : (bool)unknown[p->parent]);
        a->partial = a->partial || unknown[i] || (found != NONE && x->tree.nodes[found].partial);
        if (found == NONE)
            continue;
        const struct leat_text_property *q = &x->properties[found];
        a->types |= q->types;
        a->present += q->present;
        a->integers |= q->integers;
        for (size_t t = 0; t < LEAT_RECORD_TYPES; t++)
            if (q->lines[t] && !a->lines[t]) {
                a->lines[t] = q->lines[t];
                a->files[t] = number;
            }
    }
    leat_free(unknown);
    return LEAT_OK;
}

/* ---- types ----------------------------------------------------------------------------------- */

static const char *type_text(size_t type)
{
    static const char *const texts[LEAT_RECORD_TYPES] = {"null",
                                                         "a boolean",
                                                         "an integer",
                                                         "an integer beyond int64",
                                                         "a number",
                                                         "a string",
                                                         "an empty list",
                                                         "a list of booleans",
                                                         "a list of integers",
                                                         "a list of large integers",
                                                         "a list of numbers",
                                                         "a list",
                                                         "an object"};
    return texts[type];
}

/* Two types, of which the first of each is named. */
static int two_types(struct make *m, uint32_t node, const char *name, uint64_t a_types, uint64_t b_types)
{
    const struct merged *p = &m->merged[node];
    size_t a = (size_t)__builtin_ctzll(a_types), b = (size_t)__builtin_ctzll(b_types);
    for (size_t t = 0; t < LEAT_RECORD_TYPES; t++) { /* what stands first of each */
        if (a_types >> t & 1 &&
            (p->files[t] < p->files[a] || (p->files[t] == p->files[a] && p->lines[t] < p->lines[a])))
            a = t;
        if (b_types >> t & 1 &&
            (p->files[t] < p->files[b] || (p->files[t] == p->files[b] && p->lines[t] < p->lines[b])))
            b = t;
    }
    const char *one = m->j->files[p->files[a]].text.path, *two = m->j->files[p->files[b]].text.path;
    return leat_fail_at(m->error, LEAT_E_INVALID, two, LEAT_NO_OFFSET,
                        "the property \"%s\" has two types: it is %s in line %" PRIu64 " of %s and %s in line %" PRIu64
                        " of %s; fields={\"%s\": \"json\"} reads it as JSON, and fields without it leave it out",
                        name, type_text(a), p->lines[a], one, type_text(b), p->lines[b], one == two ? "it" : two, name);
}

/* Integers of lists that no type holds. */
static int two_signs(struct make *m, uint32_t node, const char *name)
{
    const struct merged *p = &m->merged[node];
    const char *path = m->j->files[p->files[LEAT_RECORD_UINTS]].text.path;
    return leat_fail_at(
        m->error, LEAT_E_INVALID, path, LEAT_NO_OFFSET,
        "the property \"%s\" has lists with integers below 0 and with integers beyond int64, such as in line "
        "%" PRIu64 " of %s, which no type of integers holds; fields={\"%s\": \"json\"} reads it as JSON, and "
        "fields without it leave it out",
        name, p->lines[LEAT_RECORD_UINTS], path, name);
}

/* Integers that would change beside floats. */
static int inexact(struct make *m, uint32_t node, const char *name, enum leat_record_type floats)
{
    const struct merged *p = &m->merged[node];
    const char *path = m->j->files[p->files[floats]].text.path;
    return leat_fail_at(
        m->error, LEAT_E_INVALID, path, LEAT_NO_OFFSET,
        "the property \"%s\" has integers that float64 does not hold, beyond 2^53, and floats, such as in "
        "line %" PRIu64 " of %s; fields={\"%s\": \"json\"} reads it as JSON, fields={\"%s\": %s} takes the "
        "nearest floats",
        name, p->lines[floats], path, name, name,
        floats == LEAT_RECORD_FLOAT ? "\"float64\"" : "leat.field(\"float64\", (None,))");
}

/* An object is one because other properties stand below it. */
static void borrow_object(struct make *m, uint32_t node)
{
    const struct leat_property_tree *t = &m->j->tree;
    struct merged *p = &m->merged[node];
    if (p->types & BIT(OBJECT))
        return;
    for (uint32_t c = t->nodes[node].first_child; c != NONE; c = t->nodes[c].next)
        for (size_t k = 0; k < LEAT_RECORD_TYPES; k++)
            if (m->merged[c].lines[k] && !p->lines[LEAT_RECORD_OBJECT]) {
                p->lines[LEAT_RECORD_OBJECT] = m->merged[c].lines[k];
                p->files[LEAT_RECORD_OBJECT] = m->merged[c].files[k];
            }
}

/* The kind of a property that is a leaf. */
static int type_of(struct make *m, uint32_t node, const char *name, bool below, struct leat_field *f,
                   struct leat_jsonl_field *origin)
{
    const struct merged *p = &m->merged[node];
    const uint64_t types = p->types & ~BIT(NULL), groups[] = {BIT(BOOL), NUMBERS, BIT(STR), LISTS, BIT(OBJECT)};
    uint64_t all = types | (below ? BIT(OBJECT) : 0), first = 0;
    if (all & BIT(OBJECT) && all != BIT(OBJECT))
        borrow_object(m, node);
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        if (!(all & groups[g]))
            continue;
        if (first)
            return two_types(m, node, name, first, all & groups[g]);
        first = all & groups[g];
    }
    if (types & BIT(UINT) && p->integers & LEAT_INTEGERS_BELOW)
        return two_types(m, node, name, BIT(INT), BIT(UINT));
    const bool changes = p->integers & LEAT_INTEGERS_INEXACT && !m->rounds;
    f->kind = LEAT_KIND_ARRAY;
    if (types & BIT(BOOL)) {
        f->dtype = LEAT_BOOL;
    } else if (types & NUMBERS) {
        if (types & BIT(FLOAT) && changes)
            return inexact(m, node, name, LEAT_RECORD_FLOAT);
        f->dtype = types & BIT(FLOAT) || m->rounds ? LEAT_F64 : types & BIT(UINT) ? LEAT_U64 : LEAT_I64;
    } else if (types & BIT(STR)) {
        f->kind = LEAT_KIND_STR;
        f->dtype = LEAT_U8;
    } else if (types & LISTS && !(types & BIT(LIST)) && (m->rounds || types != BIT(EMPTY_LIST)) &&
               !(types & BIT(BOOLS) && types & (BIT(INTS) | BIT(UINTS) | BIT(FLOATS)))) {
        if (types & BIT(UINTS) && p->integers & LEAT_INTEGERS_BELOW)
            return two_signs(m, node, name);
        if (types & BIT(FLOATS) && changes)
            return inexact(m, node, name, LEAT_RECORD_FLOATS);
        f->ndim = 1;
        f->shape[0] = -1;
        origin->list = types & BIT(BOOLS)                 ? LEAT_RECORD_BOOLS
                       : types & BIT(FLOATS) || m->rounds ? LEAT_RECORD_FLOATS
                       : types & BIT(UINTS)               ? LEAT_RECORD_UINTS
                                                          : LEAT_RECORD_INTS;
        f->dtype = origin->list == LEAT_RECORD_BOOLS    ? LEAT_BOOL
                   : origin->list == LEAT_RECORD_FLOATS ? LEAT_F64
                   : origin->list == LEAT_RECORD_UINTS  ? LEAT_U64
                                                        : LEAT_I64;
    } else {
        f->kind = LEAT_KIND_JSON;
        f->dtype = LEAT_U8;
        origin->whole = true;
    }
    return LEAT_OK;
}

/* ---- columns --------------------------------------------------------------------------------- */

/* A column for all records of a file in which nobody has the property, or where its numbers are to be turned. */
struct doubles {
    const struct leat_text_property *p;
    uint8_t *to;
    uint64_t n;
};

/* Numbers of an index, which may be mapped, as float64; NaN where there are none. */
static int fill_doubles(void *user)
{
    const struct doubles *d = user;
    const struct leat_text_property *p = d->p;
    for (uint64_t i = 0; i < d->n; i++) {
        double value = (double)NAN;
        int64_t whole;
        if (p && p->column == LEAT_COLUMN_NUMBERS && (!p->valid || p->valid[i])) {
            memcpy(&whole, (const uint8_t *)p->values + 8 * i, sizeof whole);
            value = p->types & BIT(UINT) ? (double)(uint64_t)whole : (double)whole;
        }
        memcpy(d->to + 8 * i, &value, sizeof value);
    }
    return LEAT_OK;
}

static int made_column(struct make *m, struct leat_jsonl_file *f, const struct leat_field *field,
                       const struct leat_text_property *p, const void **values)
{
    const uint64_t n = f->text.index.count;
    const size_t each = leat_dtype_size(field->dtype);
    uint8_t *made = keep(m->j, n, each);
    if (!made)
        return no_memory(m);
    *values = made;
    struct doubles doubles = {p, made, n};
    return field->dtype == LEAT_F64 ? leat_guarded(fill_doubles, &doubles, m->error) : LEAT_OK;
}

static int column_of(struct make *m, struct leat_jsonl_file *f, size_t number)
{
    const struct leat_field *field = &m->j->fields[number];
    const struct leat_jsonl_field *origin = &m->j->origins[number];
    const struct leat_text_index *x = &f->text.index;
    struct leat_jsonl_column *c = &f->columns[number];
    c->node = f->nodes[origin->node];
    const struct leat_text_property *p = c->node && x->properties[c->node].present ? &x->properties[c->node] : NULL;
    const int rc = p && x->file ? leat_text_index_check(x, p, m->error) : LEAT_OK; /* a small index was checked whole */
    if (rc)
        return rc;
    if (origin->is_valid) {
        if (p && p->valid) {
            c->values = p->valid;
            return LEAT_OK;
        }
        uint8_t *valid = keep(m->j, x->count, 1);
        if (!valid)
            return no_memory(m);
        c->values = valid;
        if (p && p->present == x->count)
            memset(valid, 1, (size_t)x->count);
        return LEAT_OK;
    }
    if (field->kind == LEAT_KIND_ARRAY && !field->ndim) {
        const bool fits = p && (field->dtype != LEAT_F64 || p->types & BIT(FLOAT));
        if (fits && p->column != (field->dtype == LEAT_BOOL ? LEAT_COLUMN_BOOLS : LEAT_COLUMN_NUMBERS))
            return leat_fail(m->error, LEAT_E_CORRUPT, "the index of %s has no column \"%s\": remove it", f->text.path,
                             field->name);
        if (!fits)
            return made_column(m, f, field, p, &c->values);
        c->values = p->values;
    } else if (field->kind == LEAT_KIND_STR && p && p->column == LEAT_COLUMN_WORDS) {
        c->values = p->values;
        c->starts = p->starts;
        c->words = p->words;
    }
    return LEAT_OK;
}

/* ---- fields ---------------------------------------------------------------------------------- */

static int add_field(struct make *m, const char *name, const struct leat_field *like,
                     const struct leat_jsonl_field *origin, enum leat_storage storage)
{
    struct leat_jsonl *j = m->j;
    const size_t n = j->text.source.n_fields;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(j->fields[i].name, name))
            return leat_fail(m->error, LEAT_E_INVALID,
                             "two properties of %s have the name \"%s\" as fields: choose some of them with fields",
                             j->text.path, name);
    char *copy = keep(j, strlen(name), 1);
    if (!copy || !leat_grow(&j->fields, &j->fields_room, n + 1, sizeof *j->fields) ||
        !leat_grow(&j->origins, &j->origins_room, n + 1, sizeof *j->origins) ||
        !leat_grow(&j->storage, &j->storage_room, n + 1, 1))
        return no_memory(m);
    memcpy(copy, name, strlen(name));
    j->fields[n] = *like;
    j->fields[n].name = copy;
    j->origins[n] = *origin;
    j->storage[n] = (uint8_t)storage;
    j->text.source.n_fields++;
    return LEAT_OK;
}

/* A path's next part, with what is not allowed in names replaced. False: it is too long. */
static bool extend_name(char out[NAME], const char *prefix, const char *key, size_t length)
{
    memcpy(out, prefix, strlen(prefix) + 1);
    return leat_field_name_add(out, key, length);
}

static int add_leaf(struct make *m, uint32_t node, const char *name, bool below, bool as_json)
{
    struct leat_jsonl_field origin = {.node = node, .whole = as_json};
    struct leat_field field = {.kind = LEAT_KIND_JSON, .dtype = LEAT_U8};
    if (m->merged[node].partial)
        return leat_fail(m->error, LEAT_E_INVALID,
                         "the property \"%s\" of %s stands in an object with more than %d keys, or among more than %d "
                         "in all, of which not all are known: read the object around it as \"json\"",
                         name, m->j->text.path, LEAT_RECORD_KEYS, LEAT_RECORD_PROPERTIES);
    int rc = as_json ? LEAT_OK : type_of(m, node, name, below, &field, &origin);
    if (rc)
        return rc;
    const bool mapped = field.kind == LEAT_KIND_ARRAY && !field.ndim;
    rc = add_field(m, name, &field, &origin, mapped ? LEAT_STORAGE_MAPPED : LEAT_STORAGE_COMPUTED);
    if (rc || m->merged[node].present == m->good || field.kind == LEAT_KIND_JSON)
        return rc;
    char valid[NAME + 8];
    snprintf(valid, sizeof valid, "%s.valid", name);
    origin.is_valid = true;
    field = (struct leat_field){.kind = LEAT_KIND_ARRAY, .dtype = LEAT_BOOL, .flags = LEAT_FIELD_DERIVED};
    return strlen(valid) < NAME ? add_field(m, valid, &field, &origin, LEAT_STORAGE_MAPPED) : LEAT_OK;
}

/* Adds a field that is said to be JSON, or floats, which integers become, rounded if they must. */
static int add_said(struct make *m, const struct leat_field *said, uint32_t node, const char *name, bool below)
{
    const size_t n = m->j->text.source.n_fields;
    char text[128];
    if (said->kind == LEAT_KIND_JSON)
        return add_leaf(m, node, name, false, true);
    if (said->kind == LEAT_KIND_ARRAY && said->dtype == LEAT_F64) {
        m->rounds = true;
        const int rc = add_leaf(m, node, name, below, false);
        m->rounds = false;
        if (rc)
            return rc;
        const struct leat_field *f = &m->j->fields[n];
        if (f->kind == said->kind && f->dtype == said->dtype && f->ndim == said->ndim &&
            (!f->ndim || f->shape[0] == said->shape[0]))
            return LEAT_OK;
    }
    return leat_fail(
        m->error, LEAT_E_INVALID,
        "fields takes the kind \"json\", or float64 of numbers, not %s, for \"%s\", a property of records of "
        "text",
        leat_field_text(said, text, sizeof text), name);
}

/* Adds the fields of a node and of what is below it: all, or those that are chosen. */
static int add_node(struct make *m, const struct leat_open_options *options, size_t chosen, uint32_t node,
                    const char *name, bool inside, bool *found)
{
    const struct leat_property_tree *t = &m->j->tree;
    const bool all = chosen == SIZE_MAX, here = inside || all || !strcmp(options->fields[chosen].name, name);
    const enum leat_kind kind = here && !all && !inside ? options->fields[chosen].kind : 0;
    bool below = false;
    int rc = LEAT_OK;
    char child[NAME];
    if (!m->merged[node].there && node)
        return LEAT_OK;
    for (uint32_t c = t->nodes[node].first_child; c != NONE; c = t->nodes[c].next)
        below = below || m->merged[c].there;
    if (here && node)
        *found = true;
    if (here && node && kind)
        return add_said(m, &options->fields[chosen], node, name, below);
    if (here && node && (!below || t->nodes[node].wide || m->merged[node].types & ~(BIT(NULL) | BIT(OBJECT))))
        return add_leaf(m, node, name, below, t->nodes[node].wide);
    for (uint32_t c = t->nodes[node].first_child; c != NONE && !rc; c = t->nodes[c].next) {
        if (!m->merged[c].there)
            continue;
        if (!extend_name(child, name, t->keys + t->nodes[c].key, t->nodes[c].key_length))
            rc = here || all ? leat_fail(m->error, LEAT_E_INVALID,
                                         "%s: the name of the property \"%s...\" is longer than %d bytes: choose "
                                         "others with fields, or its object as \"json\"",
                                         m->j->text.path, child, NAME - 1)
                             : LEAT_OK;
        else
            rc = add_node(m, options, chosen, c, child, here && node, found);
    }
    return rc;
}

static bool any_wide(const struct leat_property_tree *t)
{
    bool any = false;
    for (size_t i = 0; i < t->n; i++)
        any = any || t->nodes[i].wide;
    return any;
}

enum { MOST_LISTED = 64 };

/* No record has a property. The error lists those of the records themselves. */
static int no_property(struct make *m, const char *name)
{
    const struct leat_property_tree *t = &m->j->tree;
    char texts[MOST_LISTED][LEAT_FIELD_NAME];
    size_t n = 0;
    for (size_t i = 1; i < t->n && n < MOST_LISTED; i++)
        if (!t->nodes[i].parent && t->nodes[i].key_length < LEAT_FIELD_NAME) {
            memcpy(texts[n], t->keys + t->nodes[i].key, t->nodes[i].key_length);
            texts[n++][t->nodes[i].key_length] = 0;
        }
    const struct leat_known there = leat_known_texts(texts, n);
    return leat_fail_name(m->error, LEAT_E_INVALID, &there, name,
                          "no record of %s has the property \"%s\" that fields names%s", m->j->text.path, name,
                          any_wide(t) ? ", as far as is known (there are objects with more keys than become properties)"
                                      : "");
}

static int add_fields(struct make *m, const struct leat_open_options *options)
{
    bool found = false;
    if (!options->n_fields)
        return m->j->tree.nodes[0].wide
                   ? leat_fail(m->error, LEAT_E_INVALID,
                               "the records of %s have more than %d keys in one object, or %d in all: they are no "
                               "fields; choose some with fields",
                               m->j->text.path, LEAT_RECORD_KEYS, LEAT_RECORD_PROPERTIES)
                   : add_node(m, options, SIZE_MAX, 0, "", false, &found);
    for (size_t i = 0; i < options->n_fields; i++) {
        found = false;
        int rc = add_node(m, options, i, 0, "", false, &found);
        if (rc)
            return rc;
        if (!found)
            return no_property(m, options->fields[i].name);
    }
    return LEAT_OK;
}

int leat_jsonl_make_fields(struct leat_jsonl *j, const struct leat_open_options *options, struct leat_error *error)
{
    struct make m = {.j = j, .error = error};
    int rc = leat_wanted_check(options, error);
    if (rc)
        return rc;
    if (!leat_property_tree_init(&j->tree))
        return no_memory(&m);
    for (size_t i = 0; i < j->text.n_files && !rc; i++) {
        rc = join_file(&m, i);
        m.good += j->files[i].text.index.count - j->files[i].text.index.n_bad;
    }
    if (!rc && !(m.merged = leat_new_array(j->tree.n, sizeof *m.merged)))
        rc = no_memory(&m);
    for (size_t i = 0; i < j->text.n_files && !rc; i++)
        rc = map_file(&m, i);
    for (size_t i = j->tree.n; !rc && --i;) { /* children stand behind their parents */
        m.merged[i].there = m.merged[i].there || m.merged[i].types;
        const uint32_t parent = j->tree.nodes[i].parent;
        m.merged[parent].there = m.merged[parent].there || m.merged[i].there;
    }
    rc = rc ? rc : add_fields(&m, options);
    for (size_t i = 0; i < j->text.n_files && !rc; i++) {
        struct leat_jsonl_file *f = &j->files[i];
        if (!(f->columns = leat_new_array(j->text.source.n_fields + 1, sizeof *f->columns)))
            rc = no_memory(&m);
        for (size_t k = 0; k < j->text.source.n_fields && !rc; k++)
            rc = column_of(&m, f, k);
    }
    leat_free(m.merged);
    return rc;
}
