/* The photos of a folder as values: photo_files.h. */
#include "format/photo_files.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/kept.h"
#include "format/names.h"

enum { LINE_BYTES = 2048 };

void leat_note(struct leat_notes *notes, const char *format, ...)
{
    size_t used = notes->text ? strlen(notes->text) : 0;
    va_list args;
    char line[LINE_BYTES];
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (!leat_grow(&notes->text, &notes->room, used + 2 + 4 * strlen(line), 1))
        return;
    if (used)
        notes->text[used++] = '\n';
    leat_escape(line, notes->text + used, notes->room - used);
}

bool leat_add_example(char *list, size_t room, const char *text)
{
    const size_t used = strlen(list);
    if (used && used + 2 + strlen(text) >= room)
        return false;
    snprintf(list + used, room - used, "%s%s", used ? "; " : "", text);
    return true;
}

/* ---- opening --------------------------------------------------------------------------------- */

char *leat_absolute_path(const char *path)
{
    char *cwd = path[0] == '/' ? NULL : getcwd(NULL, 0), *result = NULL;
    size_t n = strlen(path), bytes = n + (cwd ? strlen(cwd) : 0) + 2;
    if ((result = leat_alloc(bytes)))
        snprintf(result, bytes, "%s%s%s", cwd ? cwd : "", cwd ? "/" : "", path);
    free(cwd);
    if (result)
        leat_name_clean(result, result);
    n = result ? strlen(result) : 0;
    while (n > 1 && result[n - 1] == '/')
        result[--n] = 0;
    return result;
}

/* A folder for indexes among the classes would be a class the next time, and change the numbers of those after it. */
static int check_index_dir(const char *root, const char *index_dir, struct leat_error *error)
{
    size_t n = strlen(root);
    const int rc = leat_kept_check_dir(index_dir, error);
    if (rc)
        return rc;
    if (strncmp(index_dir, root, n) != 0 || (root[n - 1] != '/' && index_dir[n] != '/'))
        return LEAT_OK;
    const char *below = index_dir + n + strspn(index_dir + n, "/");
    if (*below == '.')
        return LEAT_OK;
    return leat_fail(error, LEAT_E_INVALID,
                     "index_dir %s lies in the folder of photos, where it would be taken for a class: name one outside "
                     "of %s, or one whose name "
                     "begins with a dot",
                     index_dir, root);
}

int leat_photo_files_scan(struct leat_photo_files *p, const char *path, const struct leat_open_options *options,
                          struct leat_error *error)
{
    memset(p, 0, sizeof *p);
    char *index_dir = options->index_dir ? leat_absolute_path(options->index_dir) : NULL;
    int rc = LEAT_OK;
    if (!(p->root = leat_absolute_path(path)) || (options->index_dir && !index_dir))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    if (!rc && index_dir)
        rc = check_index_dir(p->root, index_dir, error);
    leat_free(index_dir);
    p->recheck = options->recheck;
    return rc ? rc : leat_listing_scan(p->root, &p->listing, error);
}

int leat_photo_files_ready(struct leat_photo_files *p, const struct leat_open_options *options,
                           struct leat_error *error)
{
    char *index_dir = options->index_dir ? leat_absolute_path(options->index_dir) : NULL;
    const size_t n = p->listing.n_files;
    p->good = leat_new_array(n / 64 + 1, sizeof *p->good);
    p->broken = leat_new_array(n / 64 + 1, sizeof *p->broken);
    int rc = p->good && p->broken && (index_dir || !options->index_dir) ? LEAT_OK : LEAT_E_NOMEM;
    rc = rc ? rc : leat_io_from_memory(p->root, p->listing.names, p->listing.names_bytes, &p->names, error);
    rc = rc ? rc : leat_folder_rows_open(p->root, index_dir, p->recheck == LEAT_RECHECK_ALWAYS, &p->listing, &p->rows);
    leat_free(index_dir);
    return rc ? leat_fail(error, rc, "no memory to open %s (%zu photos)", p->root, n) : LEAT_OK;
}

/* Their names in a file of row indexes: the hash of the path, and the place in the file. */
int leat_photo_files_within(struct leat_photo_files *p, const char *path, const char *field, uint64_t n,
                            const struct leat_open_options *options, leat_photo_place_fn place, void *user,
                            struct leat_error *error)
{
    enum { EACH = 16 };
    const size_t bytes = strlen(path) + strlen(field) + 2;
    if (!(p->root = leat_alloc(bytes)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    snprintf(p->root, bytes, "%s#%s", path, field);
    p->recheck = options->recheck;
    p->listing.n_files = n;
    if (!options->index_dir) /* nothing is written that names a photo */
        return leat_photo_files_ready(p, options, error);
    p->listing.names_bytes = n * EACH;
    p->listing.names = leat_new_array(n + 1, EACH);
    if (!(p->listing.files = leat_new_array(n + 1, sizeof *p->listing.files)) || !p->listing.names)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    for (uint64_t i = 0; i < n; i++) {
        struct leat_photo_place at = {.path = path};
        const int rc = place(user, i, &at, error);
        if (rc)
            return rc;
        const uint64_t name[2] = {leat_hash64(at.path, strlen(at.path)), at.offset};
        memcpy(p->listing.names + i * EACH, name, EACH);
        p->listing.files[i] = (struct leat_listing_file){
            .name = i * EACH, .size = at.bytes, .mtime_ns = at.mtime_ns, .name_length = EACH};
    }
    return leat_photo_files_ready(p, options, error);
}

void leat_photo_files_destroy(struct leat_photo_files *p)
{
    leat_io_release(p->names);
    leat_folder_rows_close(p->rows);
    leat_listing_destroy(&p->listing);
    leat_free(p->root);
    leat_free(p->good);
    leat_free(p->broken);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool bit(_Atomic uint64_t *bits, uint64_t i)
{
    return atomic_load_explicit(&bits[i / 64], memory_order_relaxed) >> (i % 64) & 1;
}

static uint8_t health(const struct leat_photo_files *p, uint64_t sample)
{
    if (bit(p->broken, sample))
        return LEAT_HEALTH_BROKEN;
    if (p->recheck == LEAT_RECHECK_NEVER || (p->recheck == LEAT_RECHECK_FIRST && bit(p->good, sample)))
        return LEAT_HEALTH_GOOD;
    return LEAT_HEALTH_UNCHECKED;
}

void leat_photo_files_describe(struct leat_photo_files *p, uint64_t sample, struct leat_value_info *info)
{
    info->health = health(p, sample);
    info->unverified = p->recheck == LEAT_RECHECK_NEVER;
    leat_folder_rows_describe(p->rows, sample, info);
}

void leat_photo_files_extents(struct leat_photo_files *p, const uint64_t *samples, size_t n,
                              struct leat_extent *extents)
{
    for (size_t i = 0; i < n; i++) {
        extents[i] = (struct leat_extent){.file = samples[i], .length = p->listing.files[samples[i]].size};
        leat_photo_files_describe(p, samples[i], &extents[i].info);
    }
}

void leat_photo_files_names(struct leat_photo_files *p, const uint64_t *samples, size_t n, struct leat_extent *extents)
{
    for (size_t i = 0; i < n; i++) {
        const struct leat_listing_file *file = &p->listing.files[samples[i]];
        extents[i] =
            (struct leat_extent){.file = p->listing.n_files, .offset = file->name, .length = file->name_length};
    }
}

int leat_photo_files_open(struct leat_photo_files *p, uint64_t file, struct leat_io_file **out,
                          struct leat_error *error)
{
    char buffer[4096], *path = buffer;
    if (file == p->listing.n_files) {
        *out = leat_io_retain(p->names);
        return LEAT_OK;
    }
    const struct leat_listing_file *listed = &p->listing.files[file];
    const char *name = p->listing.names + listed->name;
    size_t bytes = strlen(p->root) + listed->name_length + 2;
    *out = NULL;
    if (listed->mtime_ns == LEAT_LISTING_ABSENT)
        return leat_fail_at(error, LEAT_E_DECODE, p->root, LEAT_NO_OFFSET,
                            p->are_masks ? "the photo has no mask: %s is not in the folder of masks"
                                         : "the annotations name the photo %s, which is not in the folder",
                            name);
    if (bytes > sizeof buffer && !(path = leat_alloc(bytes)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", name);
    snprintf(path, bytes, "%s/%s", p->root, name);
    int rc = leat_io_open_listed(path, listed->size, listed->mtime_ns, &p->pace, out, error);
    if (path != buffer)
        leat_free(path);
    return rc;
}

size_t leat_photo_files_head(struct leat_photo_files *p, uint64_t number, uint8_t *to, size_t room)
{
    struct leat_io_file *file;
    if (leat_photo_files_open(p, number, &file, NULL))
        return 0;
    const size_t wanted = file->size < room ? (size_t)file->size : room,
                 n = leat_io_read(file, 0, wanted, to, NULL) ? 0 : wanted;
    leat_io_release(file);
    return n;
}

void leat_photo_files_mark(struct leat_photo_files *p, uint64_t sample, enum leat_health found)
{
    if (found == LEAT_HEALTH_UNCHECKED)
        return;
    _Atomic uint64_t *bits = found == LEAT_HEALTH_GOOD ? p->good : p->broken;
    if (!bit(bits, sample))
        atomic_fetch_or_explicit(&bits[sample / 64], UINT64_C(1) << (sample % 64), memory_order_relaxed);
}

uint64_t leat_photo_files_bytes(const struct leat_photo_files *p)
{
    uint64_t total = 0;
    for (size_t i = 0; i < p->listing.n_files; i++)
        total += p->listing.files[i].size;
    return total;
}

int leat_photo_files_verify(struct leat_photo_files *p, const char *field, const struct leat_verify_options *options,
                            uint64_t first_id, struct leat_error *error)
{
    enum { PIECE = 1 << 20 };
    const uint64_t count = p->listing.n_files, total = leat_photo_files_bytes(p);
    int rc = LEAT_OK;
    uint64_t done = 0, faults = 0;
    uint8_t *buffer = leat_alloc(PIECE);
    if (!buffer)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to verify %s", p->root);
    for (uint64_t i = 0; i < count && !rc; i++) {
        struct leat_error fault;
        struct leat_io_file *file;
        uint64_t size = p->listing.files[i].size, at = 0;
        int found = leat_photo_files_open(p, i, &file, &fault);
        while (!found) { /* reading none of an empty file looks at it, too */
            found = leat_io_read(file, at, size - at < PIECE ? size - at : PIECE, buffer, &fault);
            if (size - at <= PIECE)
                break;
            at += PIECE;
        }
        leat_io_release(file);
        if (found) {
            leat_error_at_sample(&fault, (int64_t)(first_id + i), field);
            rc = leat_source_tell_fault(options, &fault, p->root, &faults, error);
        }
        done += size;
        if (!rc && options->progress && (i % 64 == 63 || i + 1 == count) &&
            options->progress(options->user, done, total))
            rc = leat_fail(error, LEAT_E_CANCELLED, "verifying %s was stopped", p->root);
    }
    leat_free(buffer);
    leat_source_tell_verified(options, LEAT_VERIFIED_READ);
    if (!rc && faults)
        rc = leat_fail(error, LEAT_E_CORRUPT,
                       "%" PRIu64 " of %" PRIu64 " files of %s cannot be read as they were listed", faults, count,
                       p->root);
    return rc;
}
