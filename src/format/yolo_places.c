/*
 * The photos that a .yaml of YOLO speaks of. "train", "val" and "test" are folders, or texts with a photo a line, below
 * "path" or the folder of the .yaml. Tools write them for other machines, too, and "../train" for the "train" beside
 * the .yaml; so where nothing is there, the last parts of a path count.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "format/yolo.h"

/* The result: the folder itself, one around it or in it, the same last parts of a path. */
enum { NOT = 0, LAST_PARTS = 1, MORE_PARTS = 2, AROUND = 3, ITSELF = 4 };
/* For a list of photos: its lines are looked at up to the first in the folder itself, and each folder once in a row. */
enum { LIST_BYTES = 4 << 20, LIST_FOLDERS = 256 };

static bool is_in(const char *path, const char *folder)
{
    const size_t n = strlen(folder);
    return !strncmp(path, folder, n) && (path[n] == '/' || (n && folder[n - 1] == '/'));
}

/* How many of the last parts two paths have in common. */
static unsigned common_parts(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    for (unsigned parts = 0;; parts++) {
        size_t k = 0;
        while (k < n && k < m && a[n - 1 - k] == b[m - 1 - k] && a[n - 1 - k] != '/')
            k++;
        if (!k || (k < n && a[n - 1 - k] != '/') || (k < m && b[m - 1 - k] != '/'))
            return parts;
        if (k == n || k == m)
            return parts + 1;
        n -= k + 1;
        m -= k + 1;
    }
}

static unsigned count_parts(const char *path)
{
    unsigned n = 0;
    for (const char *p = path; *p; p += strcspn(p, "/"), p += *p == '/')
        n += *p != '/';
    return n;
}

/* Without "./" and "../" before it. */
static const char *without_dots(const char *place)
{
    while (*place == '/' || !strncmp(place, "./", 2) || !strncmp(place, "../", 3))
        place += *place == '/' ? 1 : place[1] == '/' ? 2 : 3;
    return place;
}

struct search {
    const struct leat_yolo_yaml *yaml;
    const char *folder; /* of the .yaml */
    char root[PATH_MAX];
};

/* A path that is there. */
static unsigned judge_real(const struct search *s, const char *path)
{
    if (!strcmp(path, s->root))
        return ITSELF;
    return is_in(s->root, path) || is_in(path, s->root) ? AROUND : NOT;
}

/* The first of the paths that may be meant by a place that is there, in `out` of PATH_MAX. *sure: it is below "path",
 * or the folder has the name of that. */
static bool find_place(const struct search *s, const char *folder, const char *place, char *out, bool *sure)
{
    char path[3 * PATH_MAX];
    const char *base = s->yaml->path ? s->yaml->path : "";
    *sure = true;
    if (*place == '/')
        return realpath(place, out);
    snprintf(path, sizeof path, "%s%s%s/%s", *base == '/' ? "" : folder, *base == '/' ? "" : "/", base, place);
    if (realpath(path, out))
        return true;
    *sure = !*base || common_parts(base, folder);
    snprintf(path, sizeof path, "%s/%s", folder, place);
    if (realpath(path, out))
        return true;
    snprintf(path, sizeof path, "%s/%s", folder, without_dots(place));
    return realpath(path, out);
}

/* By the words of a path, which is not there. */
static unsigned judge_words(const struct search *s, const char *place)
{
    char path[2 * PATH_MAX];
    const char *words = without_dots(place), *base = s->yaml->path ? s->yaml->path : "";
    const unsigned parts = count_parts(words), needed = *place == '/' && parts > 2 ? 2 : parts;
    snprintf(path, sizeof path, "%s/%s", *place == '/' ? "" : base, words);
    leat_name_clean(path, path);
    const unsigned common = common_parts(path, s->root);
    return !needed || common < needed ? NOT : common > needed ? MORE_PARTS : LAST_PARTS;
}

static unsigned judge_folder(const struct search *s, const char *folder, const char *place)
{
    char path[PATH_MAX];
    bool sure;
    const unsigned words = judge_words(s, place);
    if (!find_place(s, folder, place, path, &sure))
        return words;
    const unsigned real = judge_real(s, path);
    return sure || words == MORE_PARTS || real < LAST_PARTS ? real : LAST_PARTS;
}

/* A text with a photo a line: the folders of these. */
static unsigned judge_list(const struct search *s, const char *path)
{
    char folder[PATH_MAX], *text = leat_alloc(LIST_BYTES + 1);
    const char *last = NULL;
    unsigned best = NOT, folders = 0;
    FILE *file = text ? fopen(path, "re") : NULL;
    const size_t n = file ? fread(text, 1, LIST_BYTES, file) : 0;
    if (file)
        fclose(file);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    if (text)
        text[n] = 0;
    for (char *p = text; p && *p; p++) /* lists of other systems */
        *p = *p == '\\' ? '/' : *p;
    for (char *line = text && !strncmp(text, "\xef\xbb\xbf", 3) ? text + 3 : text, *next;
         line && *line && folders < LIST_FOLDERS && best < ITSELF; line = next) {
        char *end = line + strcspn(line, "\n"), *slash;
        next = *end ? end + 1 : end;
        *end = 0;
        if ((slash = strrchr(line, '/')))
            *slash = 0;
        const char *place = slash && *line ? line : ".";
        if (strlen(place) >= PATH_MAX || (last && !strcmp(place, last)))
            continue;
        const unsigned score = judge_folder(s, folder, place);
        best = score > best ? score : best;
        last = place;
        folders++;
    }
    leat_free(text);
    return best;
}

static unsigned judge(const struct search *s, const char *place)
{
    char path[PATH_MAX];
    struct stat st;
    bool sure;
    if (find_place(s, s->folder, place, path, &sure) && !stat(path, &st) && S_ISREG(st.st_mode))
        return judge_list(s, path);
    return judge_folder(s, s->folder, place);
}

unsigned leat_yolo_places(const struct leat_yolo_yaml *yaml, const char *folder, const char *root)
{
    struct search s = {.yaml = yaml, .folder = folder};
    unsigned best = NOT;
    if (!realpath(root, s.root) || (yaml->path && strlen(yaml->path) >= PATH_MAX) || strlen(folder) >= PATH_MAX)
        return NOT;
    for (size_t i = 0; i < yaml->places.n; i++) {
        const char *place = yaml->places.at[i];
        const unsigned score = *place && strlen(place) < PATH_MAX ? judge(&s, place) : NOT;
        best = score > best ? score : best;
    }
    if (!yaml->places.n && yaml->path && *yaml->path) { /* of which the whole is meant */
        const unsigned score = judge(&s, ".");
        best = score > best ? score : best;
    }
    return best;
}
