/*
 * The part of a .yaml that describes a data set of YOLO:
 *
 *     names: [person, bicycle]          names:           names:           names: |
 *                                         0: person        - person         person
 *                                         1: bicycle       - bicycle        bicycle
 *
 * libyaml makes nodes of each document, of which an alias is another way to the same node; so nothing grows. Values of
 * merged maps (<<: *base) count as if they stood there. A walk ends after a number of steps, since aliases may lead in
 * a circle.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "base/alloc.h"
#include "format/names.h"
#include "format/yolo.h"

enum { STEPS = 1 << 20, DEEPEST = 16 };

struct reading {
    yaml_document_t *document;
    struct leat_yolo_yaml *out;
    unsigned steps, depth;
    bool good, no_memory;
};

bool leat_yolo_texts_add(struct leat_yolo_texts *texts, const char *text)
{
    char *copy = leat_grow(&texts->at, &texts->room, texts->n + 1, sizeof *texts->at) ? leat_strdup(text) : NULL;
    if (!copy)
        return false;
    leat_trim(copy);
    texts->at[texts->n++] = copy;
    return true;
}

bool leat_yolo_texts_are_same(const struct leat_yolo_texts *a, const struct leat_yolo_texts *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; i < a->n && same; i++)
        same = !strcmp(a->at[i], b->at[i]);
    return same;
}

void leat_yolo_texts_clear(struct leat_yolo_texts *texts)
{
    for (size_t i = 0; i < texts->n; i++)
        leat_free(texts->at[i]);
    leat_free(texts->at);
    *texts = (struct leat_yolo_texts){0};
}

void leat_yolo_yaml_clear(struct leat_yolo_yaml *yaml)
{
    leat_yolo_texts_clear(&yaml->names);
    leat_yolo_texts_clear(&yaml->places);
    leat_free(yaml->nc);
    leat_free(yaml->path);
    *yaml = (struct leat_yolo_yaml){0};
}

static yaml_node_t *node_of(struct reading *r, int number)
{
    r->good &= r->steps++ < STEPS;
    return r->good ? yaml_document_get_node(r->document, number) : NULL;
}

/* The text of a node, NULL: it is none. */
static const char *text_of(const yaml_node_t *node)
{
    const char *text = node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
    return text && strlen(text) == node->data.scalar.length ? text : NULL;
}

static bool is_null(const yaml_node_t *node)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    const char *text = text_of(node);
    bool found = false;
    for (size_t i = 0; text && i < sizeof words / sizeof *words; i++)
        found |= node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !strcmp(text, words[i]);
    return found;
}

static bool is_key(struct reading *r, const yaml_node_pair_t *pair, const char *key)
{
    const char *text = text_of(node_of(r, pair->key));
    return text && !strcmp(text, key);
}

/* The value of a key in a map, or in one that is merged into it; NULL: it has none. *times: how often it stands there.
 */
static yaml_node_t *value_of(struct reading *r, const yaml_node_t *map, const char *key, unsigned *times)
{
    yaml_node_t *found = NULL;
    *times = 0;
    if (!map || map->type != YAML_MAPPING_NODE || r->depth == DEEPEST)
        return NULL;
    r->depth++;
    const yaml_node_pair_t *const begin = map->data.mapping.pairs.start, *const end = map->data.mapping.pairs.top;
    for (const yaml_node_pair_t *p = begin; p < end; p++)
        if (is_key(r, p, key)) {
            found = found ? found : node_of(r, p->value);
            ++*times;
        }
    for (const yaml_node_pair_t *p = begin; p < end && !found && r->good; p++) {
        unsigned there;
        if (!is_key(r, p, "<<"))
            continue;
        yaml_node_t *merged = node_of(r, p->value);
        if (!merged || merged->type != YAML_SEQUENCE_NODE) {
            found = value_of(r, merged, key, times);
            continue;
        }
        for (const yaml_node_item_t *i = merged->data.sequence.items.start;
             i < merged->data.sequence.items.top && !found && r->good; i++)
            found = value_of(r, node_of(r, *i), key, &there);
        *times = found != NULL;
    }
    r->depth--;
    return found;
}

static bool add(struct reading *r, struct leat_yolo_texts *to, const char *text)
{
    if (!text || to->n == LEAT_YOLO_NAMES)
        return false;
    const bool added = leat_yolo_texts_add(to, text);
    r->no_memory |= !added;
    return added;
}

/* Scalars of a list, or one that stands alone. */
static bool add_items(struct reading *r, struct leat_yolo_texts *to, const yaml_node_t *list)
{
    bool good = true;
    if (list->type != YAML_SEQUENCE_NODE)
        return add(r, to, text_of(list));
    for (const yaml_node_item_t *i = list->data.sequence.items.start; i < list->data.sequence.items.top && good; i++)
        good = add(r, to, text_of(node_of(r, *i)));
    return good;
}

static bool is_name(const yaml_node_t *node)
{
    const char *text = text_of(node);
    return text && !is_null(node) && !leat_is_blank(text);
}

static bool are_names(struct reading *r, const yaml_node_t *list)
{
    bool good = true;
    for (const yaml_node_item_t *i = list->data.sequence.items.start; i < list->data.sequence.items.top && good; i++)
        good = is_name(node_of(r, *i));
    return good;
}

/* A map of the numbers 0, 1, ..., in any order. */
static bool add_numbered(struct reading *r, struct leat_yolo_texts *to, const yaml_node_t *map)
{
    const yaml_node_pair_t *const begin = map->data.mapping.pairs.start;
    const size_t n = (size_t)(map->data.mapping.pairs.top - begin);
    const char **sorted = n <= LEAT_YOLO_NAMES ? leat_new_array(n, sizeof *sorted) : NULL;
    bool good = sorted;
    for (size_t i = 0; i < n && good; i++) {
        const char *key = text_of(node_of(r, begin[i].key)), *text = text_of(node_of(r, begin[i].value));
        char *end = NULL;
        const unsigned long long number = key && *key >= '0' && *key <= '9' ? strtoull(key, &end, 10) : n;
        good = is_name(node_of(r, begin[i].value)) && end && !*end && number < n && !sorted[number];
        if (good)
            sorted[number] = text;
    }
    for (size_t i = 0; i < n && good; i++)
        good = add(r, to, sorted[i]);
    leat_free(sorted);
    return good;
}

/* A block of lines, each a name. A line that looks like a list or a map would be a name by mistake. */
static bool add_lines(struct reading *r, struct leat_yolo_texts *to, const char *text)
{
    bool good = true, blank = false;
    for (const char *p = text; *p && good;) {
        const size_t n = strcspn(p, "\n");
        char *line = leat_alloc(n + 1);
        r->no_memory |= !line;
        if (!line)
            return false;
        memcpy(line, p, n);
        line[n] = 0;
        leat_trim(line);
        const bool empty = !*line;
        good = empty || (!blank && !strchr("-[{#\"'", *line) && !strchr(line, ':') && add(r, to, line));
        blank |= empty;
        leat_free(line);
        p += n + (p[n] == '\n');
    }
    return good;
}

static bool add_names(struct reading *r, struct leat_yolo_texts *to, const yaml_node_t *names)
{
    if (names->type == YAML_MAPPING_NODE)
        return add_numbered(r, to, names);
    if (names->type == YAML_SEQUENCE_NODE)
        return are_names(r, names) && add_items(r, to, names);
    const char *text = text_of(names);
    return text && names->data.scalar.style == YAML_LITERAL_SCALAR_STYLE && add_lines(r, to, text);
}

/* The names of a document; those of another one must be the same. */
static void take_names(struct reading *r, const yaml_node_t *root)
{
    unsigned times;
    struct leat_yolo_texts more = {0}, *known = &r->out->names;
    const yaml_node_t *names = value_of(r, root, "names", &times);
    if (!names || is_null(names))
        return;
    r->good &= times == 1 && add_names(r, &more, names) && (!known->n || leat_yolo_texts_are_same(known, &more));
    if (!known->n) {
        *known = more;
        more = (struct leat_yolo_texts){0};
    }
    leat_yolo_texts_clear(&more);
}

static void take_text(struct reading *r, const yaml_node_t *node, char **to)
{
    const char *text = text_of(node);
    if (text && !*to && !(*to = leat_strdup(text)))
        r->no_memory = true;
}

/* If numbers of classes differ, in one document or several, the first two are kept: "2, then 3". */
static void take_count(struct reading *r, const char *text)
{
    char both[64];
    const char *before = r->out->nc;
    if (!text || (before && (!strcmp(before, text) || strchr(before, ','))))
        return;
    snprintf(both, sizeof both, "%.20s%s%.20s", before ? before : text, before ? ", then " : "", before ? text : "");
    char *copy = leat_strdup(both);
    r->no_memory |= !copy;
    leat_free(r->out->nc);
    r->out->nc = copy;
}

static void take_document(struct reading *r, const yaml_node_t *root)
{
    static const char *const places[] = {"train", "val", "test"};
    unsigned times;
    take_names(r, root);
    const yaml_node_t *nc = value_of(r, root, "nc", &times), *path = value_of(r, root, "path", &times);
    take_count(r, text_of(nc));
    for (const yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top; p++)
        if (is_key(r, p, "nc"))
            take_count(r, text_of(node_of(r, p->value)));
    take_text(r, path, &r->out->path);
    r->out->is_data_set |= nc || path;
    r->out->is_pose |= value_of(r, root, "kpt_shape", &times) != NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const yaml_node_t *place = value_of(r, root, places[i], &times);
        r->out->is_data_set |= place != NULL;
        if (place && !is_null(place))
            (void)add_items(r, &r->out->places, place); /* what is no text names no photos */
    }
    for (const yaml_node_t *n = r->document->nodes.start; n < r->document->nodes.top; n++)
        for (const yaml_node_pair_t *p = n->data.mapping.pairs.start;
             n->type == YAML_MAPPING_NODE && p < n->data.mapping.pairs.top; p++)
            r->out->has_names |= is_key(r, p, "names");
}

/* Paths of Windows. */
static void use_slashes(char *path)
{
    for (; path && *path; path++)
        if (*path == '\\')
            *path = '/';
}

bool leat_yolo_yaml(const uint8_t *text, size_t length, struct leat_yolo_yaml *out)
{
    struct reading r = {.out = out, .good = true};
    yaml_parser_t parser;
    yaml_document_t document;
    *out = (struct leat_yolo_yaml){0};
    if (!yaml_parser_initialize(&parser))
        return false;
    yaml_parser_set_input_string(&parser, text, length);
    for (bool end = false; !end && r.good && !r.no_memory;) {
        if (!yaml_parser_load(&parser, &document)) {
            r.good = false;
            break;
        }
        const yaml_node_t *root = yaml_document_get_root_node(&document);
        r.document = &document;
        if (root && root->type == YAML_MAPPING_NODE)
            take_document(&r, root);
        else
            r.good &= !root || is_null(root);
        end = !root;
        yaml_document_delete(&document);
    }
    yaml_parser_delete(&parser);
    use_slashes(out->path);
    for (size_t i = 0; i < out->places.n; i++)
        use_slashes(out->places.at[i]);
    if (r.good && !r.no_memory)
        return true;
    leat_yolo_yaml_clear(out);
    return false;
}
