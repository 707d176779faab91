/*
 * Patterns of paths: the same as leat.open takes in Python (leat/data/paths.py). The shell expands {0..9} and * by
 * itself, but not in quotes, and not to the names of very many files.
 */
#include "paths.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "print.h"

#define MOST_PATHS 1000000
#define MOST_DIGITS 18

static bool push(struct cli_paths *paths, const struct cli_command *command, const char *path)
{
    if (paths->n == paths->room) {
        const size_t room = paths->room ? 2 * paths->room : 16;
        char **at = realloc(paths->at, room * sizeof *at);
        if (at) {
            paths->at = at;
            paths->room = room;
        }
    }
    if (paths->n == MOST_PATHS)
        cli_say(command, "There are more than %d files.", MOST_PATHS);
    else if (paths->n < paths->room && (paths->at[paths->n] = strdup(path)))
        return ++paths->n;
    else
        cli_say(command, "There is no memory for the names of %zu files.", paths->n + 1);
    return false;
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

/* Whether leat has put a file there: an index beside a file, the copy of a compressed one, or one not finished. */
static bool is_ours(const char *path)
{
    static const char partial[] = ".partial";
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t n = strlen(name), end = sizeof partial - 1;
    return strstr(name, ".leat-") || (n >= end && !strcmp(name + n - end, partial));
}

static bool is_remote(const char *path)
{
    return !strncasecmp(path, "http://", 7) || !strncasecmp(path, "https://", 8);
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The files that fit a pattern with a star, sorted by name. */
static bool push_matching(struct cli_paths *paths, const struct cli_command *command, const char *pattern)
{
    glob_t found = {0};
    const size_t before = paths->n;
    bool good = true;
    if (!glob(pattern, GLOB_NOSORT | GLOB_NOESCAPE, NULL, &found)) {
        qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare_paths);
        for (size_t i = 0; i < found.gl_pathc && good; i++)
            good = is_ours(found.gl_pathv[i]) || push(paths, command, found.gl_pathv[i]);
    }
    globfree(&found);
    if (good && paths->n == before)
        cli_say(command, "no file fits the pattern %s", pattern);
    return good && paths->n > before;
}

static bool expand(struct cli_paths *paths, const struct cli_command *command, const char *text)
{
    struct range r;
    if (!access(text, F_OK))
        return push(paths, command, text);
    if (!find_range(text, &r))
        return !is_remote(text) && strpbrk(text, "*?[") ? push_matching(paths, command, text)
                                                        : push(paths, command, text);
    if (r.last < r.first || r.last - r.first >= MOST_PATHS) {
        cli_usage_error(command, "%.*s in %s is no range of numbers that rise.", (int)(r.end - r.begin), text + r.begin,
                        text);
        return false;
    }
    bool good = true;
    for (unsigned long long n = r.first; n <= r.last && good; n++) {
        char *one = NULL;
        good = asprintf(&one, "%.*s%0*llu%s", (int)r.begin, text, r.width, n, text + r.end) >= 0;
        if (!good)
            cli_say(command, "There is no memory for the names of files.");
        good = good && expand(paths, command, one);
        free(one);
    }
    return good;
}

bool cli_paths_init(struct cli_paths *paths, const struct cli_command *command, const struct cli_several *given)
{
    bool good = true;
    *paths = (struct cli_paths){0};
    for (size_t i = 0; i < given->n && good; i++)
        good = expand(paths, command, given->at[i]);
    if (!good)
        cli_paths_destroy(paths);
    return good;
}

void cli_paths_destroy(struct cli_paths *paths)
{
    for (size_t i = 0; i < paths->n; i++)
        free(paths->at[i]);
    free(paths->at);
    *paths = (struct cli_paths){0};
}

const char *cli_paths_name(const struct cli_several *given, char *out, size_t room)
{
    if (given->n == 1)
        return given->at[0];
    snprintf(out, room, "%s and %zu more", given->at[0], given->n - 1);
    return out;
}
