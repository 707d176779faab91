/* Properties and leaves of a record: json_record.h. */
#include "format/json_record.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "format/json_pass.h"

#define NONE UINT32_MAX

/* ---- the tree -------------------------------------------------------------------------------- */

bool leat_property_tree_init(struct leat_property_tree *t)
{
    *t = (struct leat_property_tree){0};
    if (!leat_grow(&t->nodes, &t->room, 16, sizeof *t->nodes))
        return false;
    t->nodes[0] = (struct leat_property){.parent = NONE, .first_child = NONE, .last_child = NONE, .next = NONE};
    t->n = 1;
    return true;
}

void leat_property_tree_destroy(struct leat_property_tree *t)
{
    leat_free(t->nodes);
    leat_free(t->keys);
    *t = (struct leat_property_tree){0};
}

static bool same_key(const struct leat_property_tree *t, uint32_t node, const char *key, size_t length)
{
    const struct leat_property *p = &t->nodes[node];
    return p->key_length == length && !memcmp(t->keys + p->key, key, length);
}

uint32_t leat_property_find(const struct leat_property_tree *t, uint32_t parent, const char *key, size_t length)
{
    uint32_t child = t->nodes[parent].first_child;
    while (child != NONE && !same_key(t, child, key, length))
        child = t->nodes[child].next;
    return child;
}

uint32_t leat_property_add(struct leat_property_tree *t, uint32_t parent, const char *key, size_t length)
{
    uint32_t found = leat_property_find(t, parent, key, length);
    if (found != NONE)
        return found;
    /* The last ones are for keys of the record itself. */
    const size_t most = parent ? LEAT_RECORD_PROPERTIES - LEAT_RECORD_KEYS : LEAT_RECORD_PROPERTIES;
    if (t->n >= most || t->keys_n + length > UINT32_MAX / 2) {
        t->full = true;
        return NONE;
    }
    if (!leat_grow(&t->nodes, &t->room, t->n + 1, sizeof *t->nodes) ||
        !leat_grow(&t->keys, &t->keys_room, t->keys_n + length + 1, 1))
        return NONE;
    found = (uint32_t)t->n++;
    struct leat_property *p = &t->nodes[parent];
    t->nodes[found] = (struct leat_property){.parent = parent,
                                             .first_child = NONE,
                                             .last_child = NONE,
                                             .next = NONE,
                                             .key = (uint32_t)t->keys_n,
                                             .key_length = (uint32_t)length};
    memcpy(t->keys + t->keys_n, key, length);
    t->keys_n += length;
    if (p->last_child == NONE)
        p->first_child = found;
    else
        t->nodes[p->last_child].next = found;
    p->last_child = found;
    p->n_children++;
    return found;
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* The node of a key, NONE: it is passed over, or w->no_memory. `guess` is where it probably is. */
static uint32_t node_of(struct leat_record_walk *w, uint32_t parent, uint32_t guess, const struct leat_json_value *key)
{
    struct leat_property_tree *t = w->tree;
    const char *text = (const char *)key->text;
    size_t length = key->length;
    if (key->escaped) {
        if (!leat_grow(&w->key, &w->key_room, length + 1, 1)) {
            w->no_memory = true;
            return NONE;
        }
        length = leat_json_unescape(key->text, length, w->key);
        text = w->key;
    }
    if (guess != NONE && same_key(t, guess, text, length))
        return guess;
    uint32_t found = leat_property_find(t, parent, text, length);
    if (found != NONE || w->wanted)
        return found;
    if (t->nodes[parent].n_children >= LEAT_RECORD_KEYS) {
        t->nodes[parent].wide = true;
        return NONE;
    }
    found = leat_property_add(t, parent, text, length);
    if (found == NONE && t->full)
        t->nodes[parent].wide = true;
    w->no_memory = found == NONE && !t->full;
    return found;
}

/* Whether the key was not yet met in this record. */
static bool is_first(struct leat_record_walk *w, uint32_t node, const uint8_t *key)
{
    if (!w->seen)
        return true;
    if (node >= w->seen_room) {
        const size_t before = w->seen_room;
        if (!leat_grow(&w->seen, &w->seen_room, node + 1, sizeof *w->seen)) {
            w->no_memory = true;
            return false;
        }
        memset(w->seen + before, 0, (w->seen_room - before) * sizeof *w->seen);
    }
    if (w->seen[node] == w->number)
        return leat_json_fail(&w->json, LEAT_FAULT_TWICE, key - 1);
    w->seen[node] = w->number;
    return true;
}

/* Tells of a leaf that ends at p. */
static bool tell(struct leat_record_walk *w, struct leat_record_leaf *leaf, const uint8_t *p)
{
    leaf->length = (size_t)(p - leaf->text) - (leaf->type == LEAT_RECORD_STR);
    w->stopped = !w->tell(w->user, leaf);
    return !w->stopped;
}

/* The LEAT_INTEGERS_* of a value; 0 of one that is no integer. */
static uint8_t look_at_integer(const struct leat_json_value *v)
{
    const bool below = v->type == LEAT_JSON_INT && v->number.i < 0;
    const uint64_t size = below ? -v->number.u : v->number.u;
    if (v->type != LEAT_JSON_INT && v->type != LEAT_JSON_UINT)
        return 0;
    return (uint8_t)((below ? LEAT_INTEGERS_BELOW : 0) |
                     (size && size >> __builtin_ctzll(size) >> 53 ? LEAT_INTEGERS_INEXACT : 0));
}

static const uint8_t *pass_scalar(struct leat_json *j, const uint8_t *p, struct leat_record_leaf *leaf)
{
    struct leat_json_value v;
    if (!(p = leat_json_pass_scalar(j, p, &v)))
        return NULL;
    leaf->type = (enum leat_record_type)v.type;
    leaf->text = v.text;
    leaf->escaped = v.escaped;
    leaf->number = v.number;
    leaf->integers = look_at_integer(&v);
    if (v.type == LEAT_JSON_FLOAT && !isfinite(v.number.d))
        leaf->nan = v.text;
    return p;
}

/* The type of a list with an element like this besides those before. */
static enum leat_record_type join_elements(enum leat_record_type list, enum leat_json_type element)
{
    const enum leat_record_type one = element == LEAT_JSON_BOOL    ? LEAT_RECORD_BOOLS
                                      : element == LEAT_JSON_INT   ? LEAT_RECORD_INTS
                                      : element == LEAT_JSON_UINT  ? LEAT_RECORD_UINTS
                                      : element == LEAT_JSON_FLOAT ? LEAT_RECORD_FLOATS
                                                                   : LEAT_RECORD_LIST;
    if (list == LEAT_RECORD_EMPTY_LIST || list == one)
        return one;
    if (list == LEAT_RECORD_BOOLS || one == LEAT_RECORD_BOOLS || list == LEAT_RECORD_LIST || one == LEAT_RECORD_LIST)
        return LEAT_RECORD_LIST;
    return LEAT_RECORD_FLOATS; /* INTS, UINTS and FLOATS in any mixture */
}

/* The rest of a list of texts, lists or objects, of which no element is told. */
static const uint8_t *pass_rest(struct leat_record_walk *w, const uint8_t *p, struct leat_record_leaf *leaf)
{
    struct leat_json *j = &w->json;
    bool left = false;
    j->no_nan = j->no_nan || !w->wanted;
    if (j->no_nan && leaf->nan)
        return none(j, LEAT_FAULT_NAN, leaf->nan);
    leaf->type = LEAT_RECORD_LIST;
    leaf->nan = NULL;
    while (p && !left && (p = leat_json_pass(j, p)))
        p = leat_json_pass_item(j, p, &left);
    return p;
}

static const uint8_t *walk_list(struct leat_record_walk *w, const uint8_t *p, struct leat_record_leaf *leaf)
{
    struct leat_json *j = &w->json;
    struct leat_json_value v;
    bool left, floats = false;
    leaf->type = LEAT_RECORD_EMPTY_LIST;
    if (!(p = leat_json_pass_open(j, p)))
        return NULL;
    while ((p = leat_json_pass_item(j, p, &left)) && !left) {
        if (*p == '{' || *p == '[' || *p == '"')
            return pass_rest(w, p, leaf);
        if (!(p = leat_json_pass_scalar(j, p, &v)))
            return NULL;
        if (v.type == LEAT_JSON_FLOAT) {
            floats = true;
            leaf->nan = leaf->nan || isfinite(v.number.d) ? leaf->nan : v.text;
        }
        leaf->integers |= look_at_integer(&v);
        leaf->beyond = leaf->beyond || v.type == LEAT_JSON_UINT;
        leaf->type = join_elements(leaf->type, v.type);
    }
    if (leaf->type == LEAT_RECORD_FLOATS && leaf->beyond && !floats)
        leaf->type = LEAT_RECORD_UINTS;
    if (p && leaf->nan && leaf->type == LEAT_RECORD_LIST && !w->wanted)
        return none(j, LEAT_FAULT_NAN, leaf->nan);
    return p;
}

static const uint8_t *walk_object(struct leat_record_walk *w, const uint8_t *p, uint32_t node);

/* An object of which some properties are wanted, and perhaps itself, as it stands. */
static const uint8_t *walk_inside(struct leat_record_walk *w, const uint8_t *p, uint32_t node, bool whole)
{
    struct leat_record_leaf leaf = {.property = node, .type = LEAT_RECORD_OBJECT, .text = p};
    w->whole += whole;
    p = walk_object(w, p, node);
    w->whole -= whole;
    return p && whole && !tell(w, &leaf, p) ? NULL : p;
}

/* The value of a node, told as a leaf unless it is an object. */
static const uint8_t *walk_value(struct leat_record_walk *w, const uint8_t *p, uint32_t node)
{
    struct leat_json *j = &w->json;
    struct leat_record_leaf leaf = {.property = node, .type = LEAT_RECORD_OBJECT, .text = p};
    const enum leat_record_wish wish = node == NONE ? LEAT_WISH_NONE : w->wanted ? w->wanted[node] : LEAT_WISH_BELOW;
    const bool wanted = wish >= (w->wanted ? LEAT_WISH_LEAF : LEAT_WISH_BELOW);
    const uint8_t c = p < j->end ? *p : 0;
    if ((wish == LEAT_WISH_BELOW || wish == LEAT_WISH_BOTH) && c == '{')
        return walk_inside(w, p, node, wish == LEAT_WISH_BOTH);
    /* An object keeps what is passed over while properties are found, unless it is the record. */
    j->no_nan = wish >= LEAT_WISH_WHOLE || w->whole || (!w->wanted && node == NONE && j->depth > 1);
    p = c == '[' && wanted       ? walk_list(w, p, &leaf)
        : (c == '{' || c == '[') ? leat_json_pass(j, p)
                                 : pass_scalar(j, p, &leaf);
    return p && wanted && !tell(w, &leaf, p) ? NULL : p;
}

static const uint8_t *walk_object(struct leat_record_walk *w, const uint8_t *p, uint32_t node)
{
    struct leat_record_leaf leaf = {.property = node, .type = LEAT_RECORD_OBJECT, .text = p};
    struct leat_json_value key;
    uint32_t guess = w->tree->nodes[node].first_child;
    bool left, empty = true;
    if (!(p = leat_json_pass_open(&w->json, p)))
        return NULL;
    for (; (p = leat_json_pass_member(&w->json, p, &key, &left)) && !left; empty = false) {
        const uint32_t child = node_of(w, node, guess, &key);
        if (w->no_memory || (child != NONE && !is_first(w, child, key.text)))
            return NULL;
        if (child != NONE)
            guess = w->tree->nodes[child].next;
        if (!(p = walk_value(w, p, child)))
            return NULL;
    }
    /* An object is told of where it is empty, or its keys are no properties. */
    const bool told = p && !w->wanted && node && (empty || w->tree->nodes[node].wide);
    return told && !tell(w, &leaf, p) ? NULL : p;
}

bool leat_record_run(struct leat_record_walk *w, const uint8_t *record, size_t n)
{
    w->stopped = w->no_memory = false;
    w->whole = 0;
    leat_json_span(&w->json, record, n);
    w->json.is_utf8 = w->is_utf8;
    if (!n || *record != '{')
        return leat_json_fail(&w->json, LEAT_FAULT_NO_OBJECT, record);
    const uint8_t *const p = walk_object(w, record, 0);
    return p && leat_json_done(&w->json, p);
}

void leat_record_walk_destroy(struct leat_record_walk *w)
{
    leat_free(w->seen);
    leat_free(w->key);
    w->seen = NULL;
    w->key = NULL;
}

size_t leat_record_elements(const uint8_t *text, size_t length, enum leat_record_type as, void *to)
{
    struct leat_json j;
    struct leat_json_value v;
    bool left;
    size_t n = 0;
    leat_json_span(&j, text, length);
    const uint8_t *p = leat_json_pass_open(&j, text);
    while ((p = leat_json_pass_item(&j, p, &left)) && !left && (p = leat_json_pass_scalar(&j, p, &v))) {
        if (to && as == LEAT_RECORD_BOOLS)
            ((uint8_t *)to)[n] = (uint8_t)v.number.u;
        else if (to && as == LEAT_RECORD_FLOATS)
            ((double *)to)[n] = v.type == LEAT_JSON_INT    ? (double)v.number.i
                                : v.type == LEAT_JSON_UINT ? (double)v.number.u
                                                           : v.number.d;
        else if (to)
            ((uint64_t *)to)[n] = v.number.u;
        n++;
    }
    return n;
}
