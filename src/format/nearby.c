/* Files that are not where they were looked for: nearby.h. */
#include "format/nearby.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/known.h"
#include "codec/photo/photo.h"
#include "format/yolo.h"

enum { MOST_FOLDERS = 200, MOST_ENTRIES = 20000 }; /* that are looked at */

struct search {
    const char *name;
    bool photos;
    const char *given; /* NULL, or a folder that was looked into, and is not what is meant */
    unsigned folders, entries;
    char *out;
    size_t room;
};

static bool exists(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof path && !stat(path, &st);
}

static bool put(char *out, size_t room, const char *folder)
{
    const int n = snprintf(out, room, "%s", folder);
    return n > 0 && (size_t)n < room;
}

/* The folder that a path is in: the path itself cut. False: it has none. */
static bool cut_last(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return false;
    *slash = 0;
    return true;
}

bool leat_nearby_listed(const struct leat_listing *l, const char *root, const char *name, char *out, size_t room)
{
    const size_t n = strlen(name);
    const bool stem = n && name[n - 1] == '.';
    for (size_t i = 0; n && i < l->n_files; i++) {
        const char *listed = l->names + l->files[i].name, *dot = strrchr(listed, '.');
        const size_t length = stem ? (size_t)(dot ? dot + 1 - listed : 0) : l->files[i].name_length;
        if (length <= n || memcmp(listed + length - n, name, n) != 0 || listed[length - n - 1] != '/')
            continue;
        const int taken = snprintf(out, room, "%s/%.*s", root, (int)(length - n - 1), listed);
        return taken > 0 && (size_t)taken < room;
    }
    return false;
}

/* Whether a folder has no entries but files that are no photos. */
static bool is_other(const char *folder, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    DIR *dir = opendir(path);
    unsigned n = 0;
    bool fits = !dir;
    for (const struct dirent *e; dir && !fits && n < MOST_FOLDERS && (e = readdir(dir));)
        if (e->d_name[0] != '.') {
            n++;
            fits = e->d_type == DT_DIR || leat_photo_has_suffix(e->d_name);
        }
    if (dir)
        closedir(dir);
    return n && !fits;
}

/* Whether both paths lead to one folder. */
static bool is_same(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool holds(const struct search *s, const char *folder)
{
    if (s->given && is_same(folder, s->given))
        return false;
    return exists(folder, s->name) && !(s->photos && is_other(folder, s->name)) && put(s->out, s->room, folder);
}

/* Among the folders in `folder`, and with `deep` in those: the one that holds the name. */
static bool below(struct search *s, const char *folder, bool deep)
{
    DIR *dir = opendir(folder);
    bool found = false;
    for (const struct dirent *e; dir && !found && s->folders < MOST_FOLDERS && s->entries < MOST_ENTRIES;) {
        char inner[PATH_MAX];
        if (!(e = readdir(dir)))
            break;
        s->entries++;
        if (e->d_name[0] == '.' || (e->d_type != DT_DIR && e->d_type != DT_LNK && e->d_type != DT_UNKNOWN) ||
            snprintf(inner, sizeof inner, "%s/%s", folder, e->d_name) >= (int)sizeof inner)
            continue;
        s->folders++;
        found = holds(s, inner) || (deep && below(s, inner, false));
    }
    if (dir)
        closedir(dir);
    return found;
}

static bool around(struct search *s, const char *folder)
{
    char above[PATH_MAX];
    if (!*s->name || *s->name == '/' || !put(above, sizeof above, folder))
        return false;
    return below(s, folder, true) || (cut_last(above) && (holds(s, above) || below(s, above, true)));
}

bool leat_nearby_folder(const char *folder, const char *name, char *out, size_t room)
{
    struct search s = {.name = name, .given = folder, .out = out, .room = room};
    return around(&s, folder);
}

/* The entry of a folder that is meant by a name of n bytes: the one whose name is nearly the same, or the only one with
 * this extension. `rest` of the path must be in it. */
static bool misspelt(const struct search *s, const char *folder, const char *name, size_t n, const char *rest)
{
    const char *extension = memrchr(name, '.', n);
    const size_t tail = extension && extension > name ? (size_t)(name + n - extension) : 0;
    const unsigned most = n < 4 ? 0 : n < 12 ? 1 : 2;
    unsigned best = most + 1, alike = 0, looked = 0;
    char near[NAME_MAX + 1] = "", only[NAME_MAX + 1] = "", path[PATH_MAX];
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && looked < MOST_ENTRIES && (e = readdir(dir)); looked++) {
        const char *other = e->d_name;
        const size_t length = strlen(other);
        struct stat st;
        if (*other == '.' || snprintf(path, sizeof path, "%s/%s%s", folder, other, rest) >= (int)sizeof path)
            continue;
        const unsigned wrong = leat_known_edits(name, n, other, length, most);
        const bool last = !*rest && tail && length > tail && !memcmp(other + length - tail, extension, tail);
        if ((wrong > most && !last) || stat(path, &st) ||
            (s->photos && (!S_ISDIR(st.st_mode) || is_other(folder, other))))
            continue;
        if (wrong < best || (wrong <= most && wrong == best && strcmp(other, near) < 0)) {
            best = wrong;
            strcpy(near, other);
        }
        if (last && !alike++)
            strcpy(only, other);
    }
    if (dir)
        closedir(dir);
    const char *meant = best <= most ? near : alike == 1 ? only : NULL;
    const int taken = meant ? snprintf(s->out, s->room, "%s/%s%s", folder, meant, rest) : 0;
    return taken > 0 && (size_t)taken < s->room;
}

bool leat_nearby_path(const char *path, const char *other, bool photos, char *out, size_t room)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct search s = {.name = name, .photos = photos, .out = out, .room = room};
    struct stat st;
    if (!*name || !put(folder, sizeof folder, path) || !cut_last(folder))
        return false;
    while (stat(folder, &st)) /* the first that is there */
        if (!cut_last(folder))
            return false;
    const bool found = holds(&s, folder) || around(&s, folder) || (other && (holds(&s, other) || around(&s, other)));
    if (!found) { /* the part of the path that is not there */
        const char *part = path + strlen(folder) + 1;
        const size_t n = strcspn(part, "/");
        return misspelt(&s, folder, part, n, part + n);
    }
    const size_t used = strlen(out);
    return used + strlen(name) + 2 <= room && snprintf(out + used, room - used, "/%s", name) > 0;
}

/* 0: no JSON. */
static unsigned likeness(const char *name, const char *split)
{
    const size_t n = strlen(name);
    if (n < 6 || strcasecmp(name + n - 5, ".json") != 0)
        return 0;
    return 1u + (strncmp(name, "instances", 9) ? 0u : 2u) + (strstr(name, split) ? 4u : 0u);
}

bool leat_nearby_json(const char *folder, const char *photos, char *out, size_t room)
{
    const char *slash = strrchr(photos, '/');
    char best[NAME_MAX + 1] = "";
    unsigned most = 0, n = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && n < MOST_ENTRIES && (e = readdir(dir)); n++) {
        const unsigned like = likeness(e->d_name, slash ? slash + 1 : photos);
        if (like > most || (like && like == most && strcmp(e->d_name, best) < 0)) {
            most = like;
            strncpy(best, e->d_name, sizeof best - 1);
        }
    }
    if (dir)
        closedir(dir);
    return most && snprintf(out, room, "%s/%s", folder, best) < (int)room;
}

/* ---- annotations beside photos --------------------------------------------------------------- */

/* Whether a file is there, and with `numbers` begins as a line of YOLO does: captions are .txt files, too. */
static bool is_file(const char *path, bool numbers)
{
    char head[64];
    struct stat st;
    FILE *file = !stat(path, &st) && S_ISREG(st.st_mode) ? fopen(path, "re") : NULL; /* a pipe would wait */
    const size_t n = file ? fread(head, 1, sizeof head, file) : 0;
    if (file)
        fclose(file);
    return n && (!numbers || leat_yolo_begins(head, n));
}

/* A file of annotations in `folder`, of the name of a photo. */
static bool has_sidecar(const char *folder, const char *stem, size_t n)
{
    static const char *const extensions[] = {".xml", ".XML", ".txt", ".TXT"};
    char path[PATH_MAX];
    bool found = false;
    for (size_t i = 0; i < sizeof extensions / sizeof *extensions && !found; i++)
        found = snprintf(path, sizeof path, "%s/%.*s%s", folder, (int)n, stem, extensions[i]) < (int)sizeof path &&
                is_file(path, i > 1);
    return found;
}

/* The folder with its last part `from` as `to`: images/train, labels/train. */
static bool swap_part(const char *folder, const char *from, const char *to, char *out, size_t room)
{
    const char *last = NULL;
    const size_t n = strlen(from);
    for (const char *p = folder; (p = strstr(p, from)); p += n)
        if (p > folder && p[-1] == '/' && (!p[n] || p[n] == '/'))
            last = p;
    return last && snprintf(out, room, "%.*s%s%s", (int)(last - folder), folder, to, last + n) < (int)room;
}

bool leat_nearby_annotations(const char *photo, char *folder, char *out, size_t room)
{
    const char *slash = strrchr(photo, '/'), *dot = strrchr(photo, '.');
    if (!slash || !dot || dot < slash || !put(folder, room, photo) || !cut_last(folder))
        return false;
    const char *stem = slash + 1, *split = strrchr(folder, '/');
    const size_t n = (size_t)(dot - stem);
    if (has_sidecar(folder, stem, n))
        return put(out, room, folder);
    if ((swap_part(folder, "images", "labels", out, room) && has_sidecar(out, stem, n)) ||
        (swap_part(folder, "JPEGImages", "Annotations", out, room) && has_sidecar(out, stem, n)))
        return true;
    if (snprintf(out, room, "%s/_annotations.coco.json", folder) < (int)room && is_file(out, false))
        return true;
    char above[PATH_MAX];
    if (!put(above, sizeof above, folder))
        return false;
    for (int level = 0; level < 2 && cut_last(above); level++)
        if (snprintf(out, room, "%s/annotations/instances_%s.json", above, split + 1) < (int)room &&
            is_file(out, false))
            return true;
    return false;
}
