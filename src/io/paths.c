/*
 * Patterns of paths. The shell expands {0..9} and * by itself, but not in quotes, and not to the names of very many
 * files; Python does not at all.
 */
#include "io/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <jansson.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "io/file.h"

#define MOST_PATHS 1000000
#define MOST_DIGITS 18

struct list {
    char **at;
    size_t n, room, bytes; /* of all names */
    struct leat_error *error;
};

static int push(struct list *list, const char *path)
{
    if (!leat_grow(&list->at, &list->room, list->n + 1, sizeof *list->at) || !(list->at[list->n] = leat_strdup(path)))
        return leat_fail(list->error, LEAT_E_NOMEM, "no memory for the names of %zu files", list->n + 1);
    list->bytes += strlen(list->at[list->n++]) + 1;
    return LEAT_OK;
}

/* A range in a pattern: text[begin, end) is {FIRST..LAST}. */
struct range {
    size_t begin, end;
    unsigned long long first, last;
    int width; /* of its numbers, with zeros in front */
};

/* The digits at *at, which it moves behind them; 0: none, or too many. */
static size_t read_number(const char **at, unsigned long long *out)
{
    const size_t n = strspn(*at, "0123456789");
    *out = n && n <= MOST_DIGITS ? strtoull(*at, NULL, 10) : 0;
    *at += n;
    return n <= MOST_DIGITS ? n : 0;
}

static bool find_range(const char *text, struct range *r)
{
    for (const char *open = strchr(text, '{'); open; open = strchr(open + 1, '{')) {
        const char *at = open + 1;
        const size_t n = read_number(&at, &r->first);
        if (!n || strncmp(at, "..", 2) != 0)
            continue;
        at += 2;
        const size_t m = read_number(&at, &r->last);
        if (!m || *at != '}')
            continue;
        r->begin = (size_t)(open - text);
        r->end = (size_t)(at - text) + 1;
        r->width = n == m || open[1] == '0' ? (int)n : 0;
        return true;
    }
    return false;
}

bool leat_path_is_ours(const char *path)
{
    static const char partial[] = ".partial";
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t n = strlen(name), end = sizeof partial - 1;
    return strstr(name, ".leat-") || (n >= end && !strcmp(name + n - end, partial));
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The shards that a manifest names, the keys of an object; NULL: it is none, or damaged, as opening it says. */
static json_t *read_shards(const char *path)
{
    char head[sizeof LEAT_MANIFEST_HEAD] = "";
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    const bool is = file && fread(head, 1, sizeof head - 1, file) && !strcmp(head, LEAT_MANIFEST_HEAD);
    json_t *names = NULL, *root = is && !fseek(file, 0, SEEK_SET) ? json_loadf(file, 0, NULL) : NULL;
    const json_t *listed = json_object_get(root, "shards");
    if (file)
        fclose(file);
    else if (fd >= 0)
        close(fd);
    if (root)
        names = json_object();
    for (size_t i = 0; i < json_array_size(listed); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(listed, i), "file"));
        if (name)
            json_object_set_new(names, name, json_true());
    }
    json_decref(root);
    return names;
}

/* Whether photos.00007.leat, which is `path`, is a shard of photos.leat among n sorted paths, whose samples are then
 * the shard's too. `known`: of each of them the shards that it names, once they were asked for; `manifest` has room for
 * the path. */
static bool has_manifest(char *const *sorted, json_t **known, size_t n, const char *path, char *manifest)
{
    static const char end[] = ".leat";
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t length = strlen(path), ends = sizeof end - 1;
    size_t stem = length > ends && !strcmp(path + length - ends, end) ? length - ends : 0;
    while (stem && path[stem - 1] >= '0' && path[stem - 1] <= '9')
        stem--;
    if (!stem || path[stem - 1] != '.' || length - ends - stem < 5)
        return false;
    sprintf(manifest, "%.*s%s", (int)stem - 1, path, end);
    char *const *found = bsearch(&manifest, sorted, n, sizeof *sorted, compare_paths);
    if (!found)
        return false;
    json_t **shards = &known[found - sorted];
    if (!*shards && !(*shards = read_shards(manifest)))
        *shards = json_null();
    return json_object_get(*shards, name) != NULL;
}

/* The files that fit a pattern with a star, sorted by name. Names are UTF-8 whatever the language of the process. */
static int push_matching(struct list *list, const char *pattern)
{
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", 0), before = utf8 ? uselocale(utf8) : 0;
    const size_t begun = list->n;
    glob_t found = {0};
    int rc = LEAT_OK;
    const bool any = !glob(pattern, GLOB_NOSORT | GLOB_NOESCAPE, NULL, &found);
    if (utf8) {
        uselocale(before);
        freelocale(utf8);
    }
    if (any) {
        qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare_paths);
        for (size_t i = 0; i < found.gl_pathc && !rc; i++)
            rc = leat_path_is_ours(found.gl_pathv[i]) ? LEAT_OK : push(list, found.gl_pathv[i]);
    }
    globfree(&found);
    if (rc || list->n > begun)
        return rc;
    return leat_fail_at(list->error, LEAT_E_NOT_FOUND, pattern, LEAT_NO_OFFSET, "no file fits the pattern %s", pattern);
}

static int expand(struct list *list, const char *text)
{
    struct range r;
    int rc = LEAT_OK;
    if (!access(text, F_OK))
        return push(list, text);
    if (!find_range(text, &r))
        return !strstr(text, "://") && strpbrk(text, "*?[") ? push_matching(list, text) : push(list, text);
    if (r.last < r.first || r.last - r.first >= MOST_PATHS)
        return leat_fail(list->error, LEAT_E_INVALID, "%.*s in %s is no range of numbers that rise",
                         (int)(r.end - r.begin), text + r.begin, text);
    const size_t room = strlen(text) + MOST_DIGITS + 1;
    char *one = leat_alloc(room);
    if (!one)
        return leat_fail(list->error, LEAT_E_NOMEM, "no memory for the names of files");
    for (unsigned long long n = r.first; n <= r.last && !rc; n++) {
        snprintf(one, room, "%.*s%0*llu%s", (int)r.begin, text, r.width, n, text + r.end);
        rc = expand(list, one);
    }
    leat_free(one);
    return rc;
}

int leat_paths_expand(const char *const *given, size_t n, char ***paths, size_t *n_paths, struct leat_error *error)
{
    struct list list = {.error = error};
    int rc = LEAT_OK;
    *paths = NULL;
    *n_paths = 0;
    for (size_t i = 0; i < n && !rc; i++)
        rc = expand(&list, given[i]);
    /* one block: the addresses, and behind them the texts */
    char **sorted = leat_alloc((list.n + 1) * sizeof *sorted + list.bytes + 1);
    json_t **known = leat_new_array(list.n + 1, sizeof(json_t *));
    if (!rc && (!sorted || !known || !(*paths = leat_alloc((list.n + 1) * sizeof **paths + list.bytes))))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for the names of %zu files", list.n);
    if (!rc && list.n) {
        memcpy(sorted, list.at, list.n * sizeof *sorted);
        qsort(sorted, list.n, sizeof *sorted, compare_paths);
    }
    char *text = rc ? NULL : (char *)(*paths + list.n + 1);
    for (size_t i = 0; text && i < list.n; i++)
        if (!has_manifest(sorted, known, list.n, list.at[i], (char *)(sorted + list.n + 1))) {
            (*paths)[(*n_paths)++] = text;
            text = stpcpy(text, list.at[i]) + 1;
        }
    for (size_t i = 0; i < list.n; i++) {
        leat_free(list.at[i]);
        json_decref(known ? known[i] : NULL);
    }
    leat_free(list.at);
    leat_free(sorted);
    leat_free(known);
    return rc;
}

int leat_path_look(const char *path, bool *folder, uint8_t *head, size_t room, size_t *n, struct leat_error *error)
{
    struct stat st;
    *n = 0;
    const bool remote = leat_io_is_remote(path);
    if (!remote && stat(path, &st)) {
        int rc = leat_fail_errno(error, errno == ENOENT || errno == ENOTDIR ? LEAT_E_NOT_FOUND : LEAT_E_IO,
                                 "cannot open %s", path);
        leat_error_at_file(error, path, LEAT_NO_OFFSET);
        return rc;
    }
    *folder = !remote && S_ISDIR(st.st_mode);
    if (*folder)
        return LEAT_OK;
    struct leat_io_file *file;
    int rc = leat_io_open(path, &file, error);
    if (rc)
        return rc;
    *n = file->size < room ? (size_t)file->size : room;
    rc = leat_io_read(file, 0, *n, head, error);
    leat_io_release(file);
    static const char pointer[] = "version https://git-lfs";
    if (!rc && *n >= sizeof pointer - 1 && !memcmp(head, pointer, sizeof pointer - 1))
        rc = leat_fail_at(error, LEAT_E_FORMAT, path, 0,
                          "%s is a pointer of Git LFS, and not the file that it stands for: fetch that by git lfs pull",
                          path);
    return rc;
}
