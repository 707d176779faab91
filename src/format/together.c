/*
 * The pattern of files that belong together: together.h.
 *
 *     s-000.tar  s-001.tar  s-002.tar          s-{000..002}.tar
 *     a-00000-of-00002.parquet  a-00001-...    a-{00000..00001}-of-00002.parquet
 *     s-0.tar  s-1.tar  s-5.tar                s-*.tar, as numbers are left out
 *     s-0.tar  s-5.tar  s-old.tar              s-[0-9]*.tar, as the star takes others, too
 *
 * Names are of one shape if they are equal but for their digits.
 */
#include "format/together.h"

#include <ctype.h>
#include <dirent.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "leat/leat.h"

enum { MOST_ENTRIES = 20000, MOST_FOLDERS = 200, MOST_DIGITS = 18 };

/* Endings of files that are opened by name, several as one. */
static const char *const endings[] = {
    ".tar",      ".tar.gz",    ".tgz",         ".tar.bgz",     ".tar.zst",      ".tzst",       ".parquet",
    ".pq",       ".arrow",     ".feather",     ".ipc",         ".tfrecord",     ".tfrec",      ".jsonl",
    ".ndjson",   ".tfrecords", ".jsonl.gz",    ".jsonl.zst",   ".ndjson.gz",    ".beton",      ".npy",
    ".npz",      ".leat",      ".tfrecord.gz", ".h5ad",        ".h5",           ".hdf5",       ".zarr",
    ".zarr.zip", ".lance",     ".fasta",       ".safetensors", ".fa",           ".fastq",      ".fa.gz",
    ".fasta.gz", ".fq",        ".fq.gz",       ".fastq.gz",    ".array_record", ".arrayrecord"};

struct names {
    char **at;
    size_t n, room;
    bool cut; /* the folder has more entries than were looked at */
};

static void names_free(struct names *names)
{
    for (size_t i = 0; i < names->n; i++)
        leat_free(names->at[i]);
    leat_free(names->at);
    *names = (struct names){0};
}

static bool is_known(const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t m = strlen(endings[i]);
        if (n > m && !strcasecmp(name + n - m, endings[i]))
            return true;
    }
    return false;
}

/* By shape: a run of digits is one sign, whatever its length. Then by name. */
static int compare_shapes(const char *a, const char *b)
{
    while (*a || *b) {
        const bool x = isdigit((unsigned char)*a), y = isdigit((unsigned char)*b);
        if (x != y || (!x && *a != *b))
            return x ? -1 : y ? 1 : (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        do
            a++;
        while (x && isdigit((unsigned char)*a));
        do
            b++;
        while (y && isdigit((unsigned char)*b));
    }
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    const int shapes = compare_shapes(x, y);
    const size_t n = strlen(x), m = strlen(y);
    return shapes ? shapes : n != m ? (n < m ? -1 : 1) : strcmp(x, y); /* 2 before 10 */
}

/* The names in a folder that are known, sorted; none if it cannot be read. */
static void list(const char *folder, struct names *names)
{
    DIR *dir = opendir(folder);
    unsigned looked = 0;
    for (const struct dirent *e; dir && looked < MOST_ENTRIES && (e = readdir(dir)); looked++) {
        if (e->d_name[0] == '.' || !is_known(e->d_name))
            continue;
        char *name =
            leat_grow(&names->at, &names->room, names->n + 1, sizeof *names->at) ? leat_strdup(e->d_name) : NULL;
        if (!name)
            break;
        names->at[names->n++] = name;
    }
    names->cut = looked == MOST_ENTRIES;
    if (dir)
        closedir(dir);
    if (names->n)
        qsort(names->at, names->n, sizeof *names->at, compare_names);
}

/* The largest group of one shape: its first name, and how many there are. */
static size_t largest(const struct names *names, size_t *first)
{
    size_t most = 0;
    for (size_t i = 0, k; i < names->n; i = k) {
        for (k = i + 1; k < names->n && !compare_shapes(names->at[i], names->at[k]);)
            k++;
        if (k - i > most) {
            most = k - i;
            *first = i;
        }
    }
    return most;
}

/* Whether the names have the numbers from that of the first one on, each one more, in the place between what they have
 * in common: as a pattern writes them. */
static bool do_rise(char *const *at, size_t n, size_t begin, size_t tail)
{
    char text[MOST_DIGITS + 8];
    const size_t width = strlen(at[0]) - tail - begin, end = strlen(at[n - 1]) - tail - begin;
    if (!width || end > MOST_DIGITS || strspn(at[0] + begin, "0123456789") < width)
        return false;
    const int zeros = end == width || at[0][begin] == '0' ? (int)width : 0;
    const unsigned long long from = strtoull(at[0] + begin, NULL, 10);
    for (size_t i = 0; i < n; i++) {
        const size_t own = (size_t)snprintf(text, sizeof text, "%0*llu", zeros, from + i);
        if (strlen(at[i]) != begin + own + tail || memcmp(at[i] + begin, text, own) != 0)
            return false;
    }
    return true;
}

/* A piece of a path as patterns have it: stars and brackets are themselves in brackets. */
static bool escape(const char *text, size_t n, char *out, size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < n && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, strchr("*?[", text[i]) ? "[%c]" : "%c", text[i]);
    if (!n)
        *out = 0;
    return used < room;
}

/* The pattern with a star of names that have a beginning and an end in common, and how many files it fits. A number
 * stands first where they differ: that says so, if the star alone takes others, too. */
static bool make_star(const struct names *names, const char *name, size_t begin, size_t tail, char *out, size_t room,
                      size_t *n)
{
    static const char *const stars[] = {"*", "[0-9]*"};
    char head[4 * NAME_MAX], end[4 * NAME_MAX];
    bool good = escape(name, begin, head, sizeof head) && escape(name + strlen(name) - tail, tail, end, sizeof end);
    const size_t wanted = *n;
    for (size_t k = 0; k < 2 && good && (!k || *n != wanted); k++) {
        good = snprintf(out, room, "%s%s%s", head, stars[k], end) < (int)room;
        *n = 0;
        for (size_t i = 0; i < names->n; i++)
            *n += !fnmatch(out, names->at[i], FNM_NOESCAPE);
    }
    return good;
}

/* The pattern of *n names of one shape, *n above 1, and how many files it fits; whether it has a star. */
static bool make_pattern(const struct names *names, size_t group, size_t *n, char *out, size_t room, bool *star)
{
    char *const *at = names->at + group;
    const char *first = at[0], *last = at[*n - 1];
    size_t begin = 0, tail = 0;
    const size_t length = strlen(first);
    for (size_t i = 1; i < *n; i++) { /* what all have in common, in front and at the end */
        size_t same = 0, end = 0;
        const size_t other = strlen(at[i]), least = other < length ? other : length;
        while (same < least && first[same] == at[i][same])
            same++;
        while (end < least - same && first[length - 1 - end] == at[i][other - 1 - end])
            end++;
        begin = i == 1 || same < begin ? same : begin;
        tail = i == 1 || end < tail ? end : tail;
    }
    while (begin && isdigit((unsigned char)first[begin - 1]))
        begin--;
    while (tail && isdigit((unsigned char)first[length - tail]))
        tail--;
    *star = names->cut || !do_rise(at, *n, begin, tail);
    if (*star)
        return make_star(names, first, begin, tail, out, room, n);
    const char *end = last + strlen(last) - tail;
    return snprintf(out, room, "%.*s{%.*s..%.*s}%s", (int)begin, first, (int)(length - tail - begin), first + begin,
                    (int)(end - last) - (int)begin, last + begin, end) < (int)room;
}

/* Whether a folder is a data set itself, by a file in it. */
static bool is_one(const char *folder)
{
    static const char *const marks[] = {"index.json", "matrix.mtx", "matrix.mtx.gz", "header.sch", "state.json"};
    char path[PATH_MAX];
    struct stat st;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (snprintf(path, sizeof path, "%s/%s", folder, marks[i]) < (int)sizeof path && !stat(path, &st))
            return true;
    return false;
}

static bool describe(const char *folder, bool inner, char *out, size_t room)
{
    char pattern[NAME_MAX + 32], place[PATH_MAX], more[80] = "";
    struct names names = {0};
    size_t first = 0;
    bool star = false;
    if (inner && is_one(folder))
        return snprintf(out, room, "; what lies there opens by name, such as \"%s\"", folder) < (int)room;
    list(folder, &names);
    size_t n = largest(&names, &first);
    bool good = n > 0;
    if (n > 1)
        good = make_pattern(&names, first, &n, pattern, sizeof pattern, &star);
    else if (good)
        snprintf(pattern, sizeof pattern, "%s", names.at[first]);
    if (n > 1)
        snprintf(more, sizeof more, " (%s%zu files as one; a list of them does, too)", names.cut ? "at least " : "", n);
    if (star)
        good = good && escape(folder, strlen(folder), place, sizeof place);
    else
        good = good && snprintf(place, sizeof place, "%s", folder) < (int)sizeof place;
    const size_t end = good ? strlen(place) : 0;
    const int taken = good ? snprintf(out, room, "; what lies there opens by name%s \"%s%s%s\"%s",
                                      n < names.n || names.cut ? ", such as" : ":", place,
                                      end && place[end - 1] == '/' ? "" : "/", pattern, more)
                           : -1;
    names_free(&names);
    return taken > 0 && (size_t)taken < room;
}

bool leat_together_hint(const char *folder, char *out, size_t room)
{
    char inner[PATH_MAX], least[PATH_MAX] = "", told[1024];
    struct stat st;
    unsigned looked = 0;
    if (describe(folder, false, out, room))
        return true;
    *out = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && looked < MOST_FOLDERS && (e = readdir(dir)); looked++)
        if (e->d_name[0] != '.' && snprintf(inner, sizeof inner, "%s/%s", folder, e->d_name) < (int)sizeof inner &&
            !stat(inner, &st) && S_ISDIR(st.st_mode) && (!*least || strcmp(inner, least) < 0) &&
            describe(inner, true, told, room < sizeof told ? room : sizeof told)) {
            memcpy(least, inner, sizeof least);
            snprintf(out, room, "%s", told);
        }
    if (dir)
        closedir(dir);
    return *out;
}
