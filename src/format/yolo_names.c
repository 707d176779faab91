/*
 * The names of YOLO's classes: "classes.txt", "_darknet.labels" or "obj.names", a name a line, or "names" of a .yaml
 * (yolo_yaml.c). They are looked for in the folder of the annotations and in the two above. That one of several
 * .yaml counts which names these photos (yolo_places.c), wherever it stands; else the first of the nearest folder.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/yolo.h"

enum { LONGEST = 1 << 20, MOST = LEAT_YOLO_NAMES };

static const char *const lists[] = {"classes.txt", "_darknet.labels", "obj.names"}; /* of labelImg; of darknet */

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
static int read_lines(struct leat_yolo_texts *names, const char *path, char *text, size_t length,
                      struct leat_error *error)
{
    size_t number = 1, blank = 0;
    if (strlen(text) != length || !strncmp(text, "\xff\xfe", 2) || !strncmp(text, "\xfe\xff", 2))
        return leat_fail(error, LEAT_E_CORRUPT, "%s is no text in UTF-8: write it in that, a name a line", path);
    if (!strncmp(text, "\xef\xbb\xbf", 3))
        text += 3;
    for (char *line = text, *next; line; line = next, number++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        const size_t end = strcspn(line, "\r");
        if (line[end] && line[end + 1])
            return leat_fail(error, LEAT_E_CORRUPT,
                             "%s line %zu holds a carriage return: end lines with \\n, or with \\r\\n", path, number);
        line[end] = 0;
        if (leat_is_blank(line)) {
            blank = blank ? blank : number;
        } else if (blank) {
            return leat_fail(error, LEAT_E_CORRUPT,
                             "%s line %zu is blank, and names follow: name the class, or remove the line if theirs are "
                             "the numbers from %zu on",
                             path, blank, blank - 1);
        } else if (names->n == MOST) {
            return leat_fail(error, LEAT_E_CORRUPT, "%s has more than %d names", path, MOST);
        } else if (!leat_yolo_texts_add(names, line)) {
            return leat_fail(error, LEAT_E_NOMEM, "no memory for the names of %s", path);
        }
    }
    return LEAT_OK;
}

/* The .yaml that counts so far. */
struct choice {
    char path[4200];
    struct leat_yolo_yaml yaml;
    unsigned score;
    int level;
    char other[4200]; /* one in the same folder that counts as much, and has other names; "": there is none */
};

/* Takes what a .yaml says, if that counts for more than what was found. One that is no data set's, or has names of
 * another kind, is passed over: projects have others; what has such names is said. */
static void take_yaml(struct leat_annotated *a, const char *folder, const char *path, const uint8_t *text,
                      size_t length, int level, struct choice *best)
{
    struct leat_yolo_yaml yaml;
    const bool good = leat_yolo_yaml(text, length, &yaml);
    const bool counts = good && (!level || yaml.is_data_set || yaml.is_pose);
    if (good ? counts && !yaml.names.n && !yaml.is_pose && yaml.has_names : memmem(text, length, "names", 5) != NULL)
        leat_note(
            &a->notes,
            "%s has no names of classes that can be read (a list, a map of the numbers 0, 1, 2, ..., or a block of "
            "lines), and is passed over",
            path);
    if (counts && (yaml.names.n || yaml.is_pose)) {
        const unsigned score = leat_yolo_places(&yaml, folder, a->photos.root);
        if (!*best->path || score > best->score) {
            leat_yolo_yaml_clear(&best->yaml);
            *best = (struct choice){.yaml = yaml, .score = score, .level = level};
            snprintf(best->path, sizeof best->path, "%s", path);
            return;
        }
        if (score == best->score && level == best->level && !*best->other &&
            !leat_yolo_texts_are_same(&yaml.names, &best->yaml.names))
            snprintf(best->other, sizeof best->other, "%s", path);
    }
    leat_yolo_yaml_clear(&yaml);
}

static bool is_yaml(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && name[0] != '.' && (!strcasecmp(dot, ".yaml") || !strcasecmp(dot, ".yml"));
}

/* For scandir: a folder of labels has many other entries. */
static int may_name(const struct dirent *e)
{
    bool is = is_yaml(e->d_name);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        is |= !strcasecmp(e->d_name, lists[i]);
    return is;
}

/* The files in a folder that may have names of classes, in bytewise order. */
struct listed {
    struct dirent **entries;
    int n;
};

static void free_listed(struct listed *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->entries[i]);
    free(l->entries);
}

static void take_yamls(struct leat_annotated *a, const char *folder, const struct listed *l, int level,
                       struct choice *best)
{
    for (int i = 0; i < l->n; i++) {
        char path[4200];
        size_t length;
        uint8_t *text = NULL;
        if (!is_yaml(l->entries[i]->d_name) ||
            snprintf(path, sizeof path, "%s/%s", folder, l->entries[i]->d_name) >= (int)sizeof path)
            continue;
        if (read_text(path, &text, &length, NULL))
            leat_note(&a->notes, "%s cannot be read, and is passed over", path);
        if (text)
            take_yaml(a, folder, path, text, length, level, best);
        leat_free(text);
    }
}

/* The entry of that name, in any case: as it is spelled first; NULL: there is none. */
static const char *find_entry(const struct listed *l, const char *name)
{
    const char *found = NULL;
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->entries[i]->d_name, name) || (!found && !strcasecmp(l->entries[i]->d_name, name)))
            found = l->entries[i]->d_name;
    return found;
}

/* A file with a name a line, if there is one. One above that cannot be read may be anything's, and is passed over. */
static int take_list(struct leat_annotated *a, const char *folder, const struct listed *l, const char *wanted,
                     bool above, struct leat_error *error)
{
    char path[4200];
    size_t length;
    struct leat_yolo_texts names = {0};
    uint8_t *text = NULL;
    const char *name = find_entry(l, wanted);
    if (!name || snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return LEAT_OK;
    int rc = read_text(path, &text, &length, error);
    if (rc && rc != LEAT_E_NOMEM && above) {
        leat_note(&a->notes, "%s cannot be read, and is passed over", path);
        rc = LEAT_OK;
    }
    if (text && (rc = read_lines(&names, path, (char *)text, length, error)))
        leat_error_at_file(error, path, LEAT_NO_OFFSET);
    leat_free(text);
    if (rc || !names.n) {
        leat_yolo_texts_clear(&names);
        return rc;
    }
    a->classes = names.at;
    a->n_classes = names.n;
    return LEAT_OK;
}

/* The names of the .yaml that counts become the classes. */
static int settle(struct leat_annotated *a, struct choice *best, struct leat_error *error)
{
    if (best->yaml.is_pose)
        return leat_fail_at(error, LEAT_E_UNSUPPORTED, best->path, LEAT_NO_OFFSET,
                            "%s says kpt_shape: these are files of poses, which are not read", best->path);
    if (*best->other)
        leat_note(&a->notes,
                  "the names of classes are those of %s, but %s has others, and %s these photos: name the classes, or "
                  "correct path, train or val",
                  best->path, best->other, best->score ? "names" : "neither of them names");
    char *end = NULL;
    const unsigned long long nc = best->yaml.nc ? strtoull(best->yaml.nc, &end, 10) : best->yaml.names.n;
    if (best->yaml.nc && (nc != best->yaml.names.n || *end || end == best->yaml.nc))
        leat_note(&a->notes, "%s says nc: %s, and names %zu classes: the names count", best->path, best->yaml.nc,
                  best->yaml.names.n);
    a->classes = best->yaml.names.at;
    a->n_classes = best->yaml.names.n;
    best->yaml.names = (struct leat_yolo_texts){0};
    return LEAT_OK;
}

/* A folder above that cannot be read has none. */
static int look_into(struct leat_annotated *a, const char *folder, int level, struct choice *best,
                     struct leat_error *error)
{
    struct listed listed = {0};
    int rc = LEAT_OK;
    listed.n = scandir(folder, &listed.entries, may_name, alphasort);
    if (listed.n < 0)
        return level ? LEAT_OK : leat_fail_errno(error, LEAT_E_IO, "%s cannot be read", folder);
    for (size_t i = 0; i < sizeof lists / sizeof *lists && !rc && !a->n_classes && !*best->path; i++)
        rc = take_list(a, folder, &listed, lists[i], level > 0, error);
    if (!rc && !a->n_classes)
        take_yamls(a, folder, &listed, level, best);
    free_listed(&listed);
    return rc;
}

int leat_yolo_names(struct leat_annotated *a, struct leat_error *error)
{
    char folder[4096];
    int rc = LEAT_OK;
    if (a->n_classes || snprintf(folder, sizeof folder, "%s", a->path) >= (int)sizeof folder)
        return LEAT_OK;
    struct choice *best = leat_new(struct choice);
    if (!best)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", a->path);
    for (int level = 0; level < 3 && !rc && !a->n_classes; level++) {
        rc = look_into(a, folder, level, best, error);
        char *slash = strrchr(folder, '/');
        if (!slash || slash == folder)
            break;
        *slash = 0;
    }
    if (!rc && !a->n_classes && *best->path)
        rc = settle(a, best, error);
    leat_yolo_yaml_clear(&best->yaml);
    leat_free(best);
    return rc;
}
