/* The index that a file of arrays keeps: arrays_kept.h. */
#include "format/arrays_kept.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/kept.h"
#include "io/guard.h"

enum { SUMS, MEMBERS, POINTS, WINDOWS };
static const char kind[9] = "ARRAYS 2";

struct kept_member {
    uint64_t header, bytes, size; /* as of the archive's member */
    uint32_t crc, n;              /* n: its points, without the end; it has n - 1 windows */
    uint64_t first, window;       /* its first point and window among those of all members */
};

struct added {
    struct kept_member m;
    struct leat_gzip_points points;
};

struct leat_arrays_kept {
    char place[4096];
    struct leat_io_file *source; /* whose pieces tell whether it is as it was; NULL: nothing is kept */
    struct leat_kept file;       /* as it was read; its sections are empty if it was not */
    struct leat_arrays_sums sums[LEAT_ARRAYS_SUMS];
    size_t n_sums;
    struct added *added;
    size_t n_added, room;
};

/* ---- reading --------------------------------------------------------------------------------- */

static void forget_file(struct leat_arrays_kept *k)
{
    leat_kept_release(&k->file);
    k->file = (struct leat_kept){.sections = {[SUMS] = {.each = sizeof *k->sums},
                                              [MEMBERS] = {.each = sizeof(struct kept_member)},
                                              [POINTS] = {.each = sizeof(struct leat_gzip_point)},
                                              [WINDOWS] = {.each = LEAT_GZIP_WINDOW}}};
}

static void load(struct leat_arrays_kept *k, bool trusts)
{
    const struct leat_kept_section *s = &k->file.sections[SUMS];
    forget_file(k);
    if (!leat_kept_load(&k->file, k->place, k->source, kind, trusts) || !k->file.path) {
        forget_file(k);
        return;
    }
    const size_t n = s->count < LEAT_ARRAYS_SUMS ? (size_t)s->count : LEAT_ARRAYS_SUMS;
    if (n && !leat_guarded_copy(k->sums, s->data, n * sizeof *k->sums, NULL))
        k->n_sums = n;
}

int leat_arrays_kept_load(struct leat_io_file *file, const char *index_dir, struct leat_arrays_kept **out,
                          struct leat_error *error)
{
    struct leat_arrays_kept *k = *out = leat_new(struct leat_arrays_kept);
    if (!k)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", file->path);
    if (!leat_kept_path(file->path, index_dir, k->place, sizeof k->place))
        return LEAT_OK;
    if (!leat_io_is_remote(file->path))
        k->source = leat_io_retain(file);
    else if (leat_io_open(file->path, &k->source, NULL)) /* not its blocks, which are larger than pieces */
        k->source = NULL;
    if (k->source)
        load(k, false);
    return LEAT_OK;
}

int leat_arrays_kept_trust(const char *path, struct leat_arrays_kept **out, struct leat_error *error)
{
    struct leat_arrays_kept *k = *out = leat_new(struct leat_arrays_kept);
    if (!k)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    snprintf(k->place, sizeof k->place, "%s", path);
    load(k, true);
    return LEAT_OK;
}

void leat_arrays_kept_free(struct leat_arrays_kept *k)
{
    if (!k)
        return;
    for (size_t i = 0; i < k->n_added; i++)
        leat_gzip_points_free(&k->added[i].points);
    leat_free(k->added);
    leat_kept_release(&k->file);
    leat_io_release(k->source);
    leat_free(k);
}

bool leat_arrays_kept_keeps(const struct leat_arrays_kept *k)
{
    return k->source;
}

bool leat_arrays_kept_sums(const struct leat_arrays_kept *k, struct leat_arrays_sums *sums)
{
    for (size_t i = 0; i < k->n_sums; i++)
        if (k->sums[i].choice == sums->choice) {
            *sums = k->sums[i];
            return true;
        }
    return false;
}

void leat_arrays_kept_doubt(struct leat_arrays_kept *k)
{
    forget_file(k);
}

/* Whether the points and windows of a member are there. */
static bool lies_within(const struct leat_arrays_kept *k, const struct kept_member *m)
{
    const uint64_t points = k->file.sections[POINTS].count, windows = k->file.sections[WINDOWS].count;
    return m->n && m->n <= LEAT_GZIP_POINTS && m->first < points && points - m->first > m->n && m->window <= windows &&
           windows - m->window >= m->n - 1;
}

bool leat_arrays_kept_points(struct leat_arrays_kept *k, const struct leat_archive_member *member,
                             struct leat_gzip_points *out, const char **index, uint64_t *inode)
{
    const struct leat_kept_section *s = k->file.sections;
    struct kept_member m;
    for (uint64_t i = 0; i < s[MEMBERS].count; i++) {
        if (leat_guarded_copy(&m, (const struct kept_member *)s[MEMBERS].data + i, sizeof m, NULL))
            return false;
        if (m.header != member->header || m.bytes != member->bytes || m.size != member->size || m.crc != member->crc)
            continue;
        if (!lies_within(k, &m)) {
            leat_arrays_kept_doubt(k);
            return false;
        }
        /* they are read only: the type of the section is that of what was kept */
        out->points = (struct leat_gzip_point *)(uintptr_t)s[POINTS].data + m.first;
        out->windows = (uint8_t *)(uintptr_t)s[WINDOWS].data + m.window * LEAT_GZIP_WINDOW;
        out->n = m.n;
        *index = k->file.path;
        *inode = k->file.inode;
        return true;
    }
    return false;
}

/* ---- writing --------------------------------------------------------------------------------- */

int leat_arrays_kept_add(struct leat_arrays_kept *k, const struct leat_archive_member *member,
                         struct leat_gzip_points *points, struct leat_error *error)
{
    if (!points->n)
        return LEAT_OK;
    if (!leat_grow(&k->added, &k->room, k->n_added + 1, sizeof *k->added)) {
        leat_gzip_points_free(points);
        return leat_fail(error, LEAT_E_NOMEM, "no memory to index a member of an archive");
    }
    k->added[k->n_added++] = (struct added){.m = {.header = member->header,
                                                  .bytes = member->bytes,
                                                  .size = member->size,
                                                  .crc = member->crc,
                                                  .n = (uint32_t)points->n},
                                            .points = *points};
    *points = (struct leat_gzip_points){0};
    return LEAT_OK;
}

/* Room for a section and `more` behind it, with what was read copied to its begin. NULL: no memory, or a file that was
 * cut. */
static void *extended(const struct leat_kept_section *s, uint64_t more)
{
    uint8_t *to = leat_new_array((size_t)(s->count + more) + 1, s->each);
    if (to && s->count && leat_guarded_copy(to, s->data, (size_t)s->count * s->each, NULL)) {
        leat_free(to);
        return NULL;
    }
    return to;
}

/* Copies the points of members that were added behind those that were read; each is freed then. */
static void append(struct leat_arrays_kept *k, struct leat_kept *to)
{
    struct kept_member *members = (struct kept_member *)(uintptr_t)to->sections[MEMBERS].data;
    struct leat_gzip_point *points = (struct leat_gzip_point *)(uintptr_t)to->sections[POINTS].data;
    uint8_t *windows = (uint8_t *)(uintptr_t)to->sections[WINDOWS].data;
    for (size_t i = 0; i < k->n_added; i++) {
        struct leat_gzip_points *p = &k->added[i].points;
        struct kept_member *m = &members[to->sections[MEMBERS].count++];
        *m = k->added[i].m;
        m->first = to->sections[POINTS].count;
        m->window = to->sections[WINDOWS].count;
        memcpy(points + m->first, p->points, (p->n + 1) * sizeof *p->points);
        if (p->n > 1)
            memcpy(windows + m->window * LEAT_GZIP_WINDOW, p->windows, (p->n - 1) * LEAT_GZIP_WINDOW);
        to->sections[POINTS].count += p->n + 1;
        to->sections[WINDOWS].count += p->n - 1;
        leat_gzip_points_free(p);
    }
    k->n_added = 0;
}

/* The oldest sums give way. */
static void add_sums(struct leat_arrays_kept *k, const struct leat_arrays_sums *sums)
{
    if (k->n_sums == LEAT_ARRAYS_SUMS)
        memmove(k->sums, k->sums + 1, --k->n_sums * sizeof *k->sums);
    k->sums[k->n_sums++] = *sums;
}

void leat_arrays_kept_save(struct leat_arrays_kept *k, const char *index_dir, const struct leat_arrays_sums *sums)
{
    uint64_t more[WINDOWS + 1] = {[MEMBERS] = k->n_added};
    bool good = true;
    if (!k->source || (!sums && !k->n_added))
        return;
    if (sums)
        add_sums(k, sums);
    for (size_t i = 0; i < k->n_added; i++) {
        more[POINTS] += k->added[i].points.n + 1;
        more[WINDOWS] += k->added[i].points.n - 1;
    }
    struct leat_kept to = {.sections = {[SUMS] = {k->sums, k->n_sums, sizeof *k->sums}}};
    for (int i = MEMBERS; i <= WINDOWS; i++) {
        to.sections[i] = k->file.sections[i];
        good = (to.sections[i].data = extended(&to.sections[i], more[i])) && good;
    }
    if (good) {
        append(k, &to);
        if (index_dir)
            mkdir(index_dir, 0777);
        leat_kept_save(&to, k->place, k->source, kind);
    } else {
        leat_kept_unwritten(k->place, 0);
    }
    for (int i = MEMBERS; i <= WINDOWS; i++)
        leat_free((void *)(uintptr_t)to.sections[i].data);
    leat_free(to.path);
}
