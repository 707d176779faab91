/* Files of others: their_file.h. */
#include "format/their_file.h"

#include <inttypes.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/kept.h"
#include "format/photo_files.h"
#include "io/handles.h"

enum { PATH = 4096 + 64, LOOKED = 64 };

/* ---- one file -------------------------------------------------------------------------------- */

void leat_their_file_keep(struct leat_their_file *f, struct leat_io_file *file, bool stays)
{
    f->size = file->size;
    f->mtime_ns = file->mtime_ns;
    if (stays)
        leat_handles_count();
    else if (!leat_handles_take())
        return;
    f->counted = true;
    f->file = leat_io_retain(file);
}

void leat_their_file_close(struct leat_their_file *f)
{
    leat_io_release(f->decoded);
    leat_io_release(f->file);
    if (f->counted)
        leat_handles_give_back();
    leat_free(f->path);
}

/* Looks at the path of a file that is not kept open: its decoded blocks may be in the cache, and it another one. */
static int check_path(const struct leat_their_file *f, struct leat_error *error)
{
    struct stat st;
    if (stat(f->path, &st))
        return leat_fail_at(error, LEAT_E_CHANGED, f->path, LEAT_NO_OFFSET,
                            "%s was removed after it was opened: open it again", f->path);
    return (uint64_t)st.st_size == f->size &&
                   (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec == f->mtime_ns
               ? LEAT_OK
               : leat_fail_at(error, LEAT_E_CHANGED, f->path, LEAT_NO_OFFSET,
                              "%s was changed after it was opened: open it again", f->path);
}

int leat_their_file_check(const struct leat_their_file *f, struct leat_error *error)
{
    if (leat_io_is_remote(f->path))
        return LEAT_OK;
    return f->file ? leat_io_unchanged(f->file, error) : check_path(f, error);
}

int leat_their_file_stored(const struct leat_their_file *f, struct leat_io_pace *pace, struct leat_io_file **out,
                           struct leat_error *error)
{
    if (!f->file)
        return leat_io_open_listed(f->path, f->size, f->mtime_ns, pace, out, error);
    *out = leat_io_retain(f->file);
    return LEAT_OK;
}

int leat_their_file_bytes(const struct leat_their_file *f, struct leat_io_pace *pace, struct leat_io_file **out,
                          struct leat_error *error)
{
    if (!f->decoded)
        return leat_their_file_stored(f, pace, out, error);
    *out = leat_io_retain(f->decoded);
    return LEAT_OK;
}

/* ---- with an index --------------------------------------------------------------------------- */

/* Reads the index where it is kept, or makes and keeps it. */
static int find_index(struct leat_their_file *f, const struct leat_their_index *how, void *index,
                      const struct leat_open_options *options, struct leat_error *error)
{
    char place[4096], copy[PATH] = "";
    enum leat_compression compression;
    struct leat_compressed made;
    struct leat_their_frames x;
    int rc = leat_compression_of(f->file, &compression, error);
    if (rc)
        return rc;
    const bool keeps = leat_kept_path(f->path, options->index_dir, place, sizeof place);
    if (keeps)
        leat_compressed_copy_place(place, copy, sizeof copy);
    if (keeps && how->load(index, place, f->file, &x)) {
        if (!leat_compressed_open(f->file, compression, copy, x.frames, (size_t)x.n_frames, x.copy_bytes, &f->decoded,
                                  NULL) &&
            f->decoded->size == x.bytes)
            return LEAT_OK;
        leat_io_release(f->decoded);
        f->decoded = NULL;
        how->destroy(index);
    }
    if (keeps && options->index_dir)
        mkdir(options->index_dir, 0777);
    rc = how->make(index, f->file, compression, copy, options, &made, error);
    if (rc)
        return rc;
    f->decoded = made.file;
    if (keeps && made.lasting && !(rc = leat_their_file_check(f, error)))
        how->save(index, place, f->file);
    return rc;
}

/* A plain file is opened again when it is read, if there is no room for it to stay open. */
static void let_go(struct leat_their_file *f)
{
    if (f->decoded != f->file || leat_io_is_remote(f->path))
        return;
    leat_handles_give_back();
    if ((f->counted = leat_handles_take()))
        return;
    leat_io_release(f->decoded);
    leat_io_release(f->file);
    f->decoded = f->file = NULL;
}

int leat_their_file_open(struct leat_their_file *f, const char *path, const struct leat_their_index *how, void *index,
                         const struct leat_open_options *options, struct leat_error *error)
{
    struct leat_io_file *file;
    *f = (struct leat_their_file){.path = leat_io_is_remote(path) ? leat_strdup(path) : leat_absolute_path(path)};
    if (!f->path)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    int rc = leat_io_open(f->path, &file, error);
    if (rc)
        return rc;
    leat_their_file_keep(f, file, true);
    leat_io_release(file);
    rc = find_index(f, how, index, options, error);
    if (!rc)
        let_go(f);
    if (!rc && f->file && f->file->backend->map)
        f->map = leat_io_map(f->file, NULL);
    return rc;
}

/* ---- the files of a source ------------------------------------------------------------------- */

struct leat_their_file *leat_their_files_get(const struct leat_their_files *files, size_t number)
{
    return (struct leat_their_file *)(void *)((char *)files->at + number * files->each);
}

size_t leat_their_files_find(const struct leat_their_files *files, uint64_t sample)
{
    size_t from = 0, to = files->n;
    while (to - from > 1) {
        const size_t middle = from + (to - from) / 2;
        *(leat_their_files_get(files, middle)->first <= sample ? &from : &to) = middle;
    }
    return from;
}

int leat_their_files_check(const struct leat_their_files *files, const uint64_t *samples, size_t n, size_t *failed,
                           struct leat_error *error)
{
    const struct leat_their_file *looked[LOOKED] = {NULL};
    for (size_t i = 0; i < n; i++) {
        const size_t number = leat_their_files_find(files, samples[i]);
        const struct leat_their_file *f = leat_their_files_get(files, number);
        const int rc = f == looked[number % LOOKED] ? LEAT_OK : leat_their_file_check(f, error);
        if (rc) {
            *failed = i;
            return rc;
        }
        looked[number % LOOKED] = f;
    }
    return LEAT_OK;
}

bool leat_their_files_expect(const struct leat_their_files *files, const struct leat_extent *e)
{
    const struct leat_their_file *f = e->file < files->n ? leat_their_files_get(files, (size_t)e->file) : NULL;
    const struct leat_io_file *bytes = f ? f->decoded ? f->decoded : f->file : NULL;
    return bytes && leat_io_expect(bytes, e->offset - e->before, e->before + e->length + e->after);
}

int leat_their_files_refresh(struct leat_their_files *files, struct leat_error *error)
{
    int rc = LEAT_OK;
    for (size_t i = 0; i < files->n && !rc; i++) {
        const struct leat_their_file *f = leat_their_files_get(files, i);
        struct leat_io_file *file = NULL;
        if (f->file) {
            rc = leat_their_file_check(f, error);
            continue;
        }
        rc = leat_their_file_stored(f, &files->pace, &file, error);
        rc = rc ? rc : leat_io_read(file, 0, 0, NULL, error); /* reading nothing looks at it, too */
        leat_io_release(file);
    }
    return rc;
}

void leat_their_files_about(const struct leat_their_files *files, struct leat_source_about *out)
{
    *out = (struct leat_source_about){.broken = UINT64_MAX};
    for (size_t i = 0; i < files->n; i++)
        out->bytes += leat_their_files_get(files, i)->size;
}

void leat_their_files_place(const struct leat_their_files *files, uint64_t sample, struct leat_sample_place *out)
{
    const struct leat_their_file *f = leat_their_files_get(files, leat_their_files_find(files, sample));
    out->path = f->path;
    out->sample = sample - f->first;
}

/* ---- verifying them -------------------------------------------------------------------------- */

int leat_their_verifying_tell(void *verifying, uint64_t done, uint64_t total)
{
    const struct leat_their_verifying *v = verifying;
    return v->options->progress ? v->options->progress(v->options->user, v->before + done, v->total) : 0;
}

int leat_their_files_verify(const struct leat_their_files *files, struct leat_source *source,
                            const struct leat_verify_options *options, uint64_t first_id,
                            int (*one)(struct leat_source *source, size_t number,
                                       struct leat_their_verifying *verifying, struct leat_error *error),
                            struct leat_error *error)
{
    struct leat_their_verifying v = {.options = options, .first_id = first_id};
    struct leat_error fault;
    uint64_t faults = 0;
    int rc = LEAT_OK;
    for (size_t i = 0; i < files->n; i++)
        v.total += leat_their_files_get(files, i)->size;
    for (size_t i = 0; i < files->n && !rc; i++) {
        const struct leat_their_file *f = leat_their_files_get(files, i);
        rc = one(source, i, &v, &fault);
        v.before += f->size;
        if (!rc && leat_their_verifying_tell(&v, 0, 0))
            rc = leat_fail(&fault, LEAT_E_CANCELLED, "verifying %s was stopped", f->path);
        if (leat_source_is_fault(rc))
            rc = leat_source_tell_fault(options, &fault, source->path, &faults, error);
        else if (rc && error)
            *error = fault;
    }
    leat_source_tell_verified(options, !v.unsummed ? LEAT_VERIFIED_SUMS
                                       : v.summed  ? LEAT_VERIFIED_SUMS_OF_SOME
                                                   : LEAT_VERIFIED_BLOCKS);
    return rc || !faults ? rc : leat_fail(error, LEAT_E_CORRUPT, "%" PRIu64 " files are damaged", faults);
}
