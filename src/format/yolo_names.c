/*
 * The names of YOLO's classes: "classes.txt", "_darknet.labels" or "obj.names", a name a line, or "names" of a .yaml:
 *
 *     names: [person, bicycle]          names:           names:
 *                                         0: person        - person
 *                                         1: bicycle       - bicycle
 *
 * libyaml says what stands in the text; aliases are not followed, so that nothing grows.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <yaml.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/yolo.h"

enum { LONGEST = 1 << 20, MOST = 1 << 16 };

struct names {
    char **at;
    size_t n, room;
};

static bool add(struct names *names, const char *text)
{
    if (names->n == MOST || !leat_grow(&names->at, &names->room, names->n + 1, sizeof *names->at))
        return false;
    if (!(names->at[names->n] = leat_strdup(text)))
        return false;
    names->n++;
    return true;
}

void leat_yolo_yaml_clear(struct leat_yolo_yaml *yaml)
{
    for (size_t i = 0; i < yaml->n; i++)
        leat_free(yaml->names[i]);
    leat_free(yaml->names);
    *yaml = (struct leat_yolo_yaml){0};
}

static void drop(struct names *names)
{
    for (size_t i = 0; i < names->n; i++)
        leat_free(names->at[i]);
    leat_free(names->at);
    *names = (struct names){0};
}

/* The events of a document, as far as they concern "names" at its top: depth 1 is the top's map. */
struct reading {
    struct names names;
    int depth;
    bool key;    /* the next scalar at depth 1 is a key */
    bool wanted; /* the last key was "names" */
    bool is_data_set, is_pose;
    bool inside, map, number;
    bool good;
};

static void scalar(struct reading *r, const char *text)
{
    static const char *const keys[] = {"nc", "path", "train", "val", "test", NULL};
    if (r->depth == 1) {
        if (r->key) {
            r->wanted = strcmp(text, "names") == 0;
            r->is_pose |= strcmp(text, "kpt_shape") == 0;
            for (const char *const *key = keys; *key; key++)
                r->is_data_set |= strcmp(text, *key) == 0;
        }
        r->key = !r->key;
        return;
    }
    if (!r->inside || r->depth != 2)
        return;
    if (r->map && r->number) { /* 0, 1, ... in their order */
        char *end;
        const unsigned long long number = strtoull(text, &end, 10);
        r->good &= *text && !*end && number == r->names.n;
        r->number = false;
        return;
    }
    r->good &= add(&r->names, text);
    r->number = true;
}

static void open_node(struct reading *r, bool map)
{
    if (r->depth == 1 && !r->key) {
        r->inside = r->wanted && !r->names.n;
        r->map = r->number = map;
    } else if (r->inside || (r->depth == 1 && r->key)) {
        r->good = false; /* names of names */
    }
    if (!r->depth)
        r->good &= map;
    r->depth++;
    if (r->depth == 1)
        r->key = true;
}

static void close_node(struct reading *r)
{
    if (--r->depth == 1) {
        r->inside = false;
        r->key = true;
    }
}

bool leat_yolo_yaml(const uint8_t *text, size_t length, struct leat_yolo_yaml *out)
{
    struct reading r = {.good = true};
    yaml_parser_t parser;
    yaml_event_t event;
    bool end = false;
    *out = (struct leat_yolo_yaml){0};
    if (!yaml_parser_initialize(&parser))
        return false;
    yaml_parser_set_input_string(&parser, text, length);
    while (!end && r.good && r.depth < 64) {
        if (!yaml_parser_parse(&parser, &event)) {
            r.good = false;
            break;
        }
        switch (event.type) {
        case YAML_SCALAR_EVENT:
            if (strlen((const char *)event.data.scalar.value) != event.data.scalar.length)
                r.good = false;
            else
                scalar(&r, (const char *)event.data.scalar.value);
            break;
        case YAML_ALIAS_EVENT:
            scalar(&r, "");
            r.good &= !r.inside;
            break;
        case YAML_MAPPING_START_EVENT:
        case YAML_SEQUENCE_START_EVENT:
            open_node(&r, event.type == YAML_MAPPING_START_EVENT);
            break;
        case YAML_MAPPING_END_EVENT:
        case YAML_SEQUENCE_END_EVENT:
            close_node(&r);
            break;
        case YAML_DOCUMENT_END_EVENT:
        case YAML_STREAM_END_EVENT:
            end = true;
            break;
        default:
            break;
        }
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (!r.good || r.depth >= 64) {
        drop(&r.names);
        return false;
    }
    *out = (struct leat_yolo_yaml){r.names.at, r.names.n, r.is_data_set, r.is_pose};
    return true;
}

/* The file as text with a NUL, freed with leat_free; *text is NULL if there is none. IO, NOMEM, CORRUPT. */
static int read_text(const char *path, uint8_t **text, size_t *n, struct leat_error *error)
{
    struct leat_io_file *file;
    *text = NULL;
    int rc = leat_io_open(path, &file, error);
    if (rc)
        return rc == LEAT_E_NOT_FOUND ? LEAT_OK : rc;
    *n = (size_t)file->size;
    if (file->size > LONGEST)
        rc = leat_fail(error, LEAT_E_CORRUPT, "%s has more than 1 MiB: it is no list of classes", path);
    else if (!(*text = leat_alloc(*n + 1)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to read %s", path);
    else if (!(rc = leat_io_read(file, 0, *n, *text, error)))
        (*text)[*n] = 0;
    leat_io_release(file);
    if (rc) {
        leat_error_at_file(error, path, LEAT_NO_OFFSET);
        leat_free(*text);
        *text = NULL;
    }
    return rc;
}

/* CORRUPT: a line between names is blank, or there are too many. NOMEM. */
static int read_lines(struct names *names, const char *path, char *text, struct leat_error *error)
{
    size_t number = 1, blank = 0;
    if (!strncmp(text, "\xef\xbb\xbf", 3))
        text += 3;
    for (char *line = text, *next; line; line = next, number++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        line[strcspn(line, "\r")] = 0;
        if (leat_is_blank(line)) {
            blank = blank ? blank : number;
        } else if (blank) {
            return leat_fail(error, LEAT_E_CORRUPT,
                             "%s line %zu is blank, and names follow: name the class, or remove the line if theirs are "
                             "the numbers from %zu on",
                             path, blank, blank - 1);
        } else if (names->n == MOST) {
            return leat_fail(error, LEAT_E_CORRUPT, "%s has more than %d names", path, MOST);
        } else if (!add(names, line)) {
            return leat_fail(error, LEAT_E_NOMEM, "no memory for the names of %s", path);
        }
    }
    return LEAT_OK;
}

/* Takes the names of a .yaml. One that is no data set's, or has names of another kind, is passed over: projects have
 * others; what has such names is said. */
static int take_names(struct leat_annotated *a, const char *path, const uint8_t *text, size_t length, bool above,
                      struct leat_error *error)
{
    struct leat_yolo_yaml yaml;
    const bool good = leat_yolo_yaml(text, length, &yaml);
    if (!good || (above && !yaml.is_data_set && !yaml.is_pose)) {
        if (!good && memmem(text, length, "names", 5))
            leat_note(&a->notes,
                      "%s has no names of classes that can be read (a list, or a map of the numbers 0, 1, "
                      "2, ...), and is passed over",
                      path);
        leat_yolo_yaml_clear(&yaml);
        return LEAT_OK;
    }
    a->classes = yaml.names;
    a->n_classes = yaml.n;
    if (!yaml.is_pose)
        return LEAT_OK;
    leat_fail(error, LEAT_E_UNSUPPORTED, "%s says kpt_shape: these are files of poses, which are not read", path);
    leat_error_at_file(error, path, LEAT_NO_OFFSET);
    return LEAT_E_UNSUPPORTED;
}

/* The first .yaml of a folder, in bytewise order, that has names. A folder above that cannot be read has none. */
static int take_yaml(struct leat_annotated *a, const char *folder, bool above, struct leat_error *error)
{
    struct dirent **entries;
    int rc = LEAT_OK, n = scandir(folder, &entries, NULL, alphasort);
    if (n < 0)
        return above ? LEAT_OK : leat_fail_errno(error, LEAT_E_IO, "%s cannot be read", folder);
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name, *dot = strrchr(name, '.');
        char path[4096];
        size_t length;
        uint8_t *text = NULL;
        if (!rc && !a->n_classes && dot && name[0] != '.' && (!strcasecmp(dot, ".yaml") || !strcasecmp(dot, ".yml")) &&
            snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
            read_text(path, &text, &length, NULL))
            leat_note(&a->notes, "%s cannot be read, and is passed over", path);
        if (text)
            rc = take_names(a, path, text, length, above, error);
        leat_free(text);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

/* A file with a name a line, if there is one. One above that cannot be read may be anything's, and is passed over. */
static int take_list(struct leat_annotated *a, const char *folder, const char *name, bool above,
                     struct leat_error *error)
{
    char path[4200];
    size_t length;
    struct names names = {0};
    uint8_t *text;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int rc = read_text(path, &text, &length, error);
    if (rc && rc != LEAT_E_NOMEM && above) {
        leat_note(&a->notes, "%s cannot be read, and is passed over", path);
        rc = LEAT_OK;
    }
    if (text && (rc = read_lines(&names, path, (char *)text, error)))
        leat_error_at_file(error, path, LEAT_NO_OFFSET);
    leat_free(text);
    if (rc || !names.n) {
        drop(&names);
        return rc;
    }
    a->classes = names.at;
    a->n_classes = names.n;
    return LEAT_OK;
}

int leat_yolo_names(struct leat_annotated *a, struct leat_error *error)
{
    static const char *const lists[] = {"classes.txt", "_darknet.labels", "obj.names"}; /* of labelImg; of darknet */
    char folder[4096];
    int rc = LEAT_OK;
    if (snprintf(folder, sizeof folder, "%s", a->path) >= (int)sizeof folder)
        return LEAT_OK;
    for (int level = 0; level < 3 && !rc && !a->n_classes; level++) {
        for (size_t i = 0; i < sizeof lists / sizeof *lists && !rc && !a->n_classes; i++)
            rc = take_list(a, folder, lists[i], level > 0, error);
        if (!rc && !a->n_classes)
            rc = take_yaml(a, folder, level > 0, error);
        char *slash = strrchr(folder, '/');
        if (!slash || slash == folder)
            break;
        *slash = 0;
    }
    return rc;
}
