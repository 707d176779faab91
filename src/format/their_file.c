/* Files of others: their_file.h. */
#include "format/their_file.h"

#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/kept.h"
#include "format/photo_files.h"

enum { PATH = 4096 + 64 };

void leat_their_file_close(struct leat_their_file *f)
{
    leat_io_release(f->decoded);
    leat_io_release(f->file);
    leat_free(f->path);
}

int leat_their_file_check(const struct leat_their_file *f, struct leat_error *error)
{
    uint64_t stamp, size;
    if (!f->file || leat_io_is_remote(f->path))
        return LEAT_OK;
    const int rc = leat_io_stamp(f->file, &stamp, &size, error);
    return rc || stamp == f->stamp ? rc
                                   : leat_fail_at(error, LEAT_E_CHANGED, f->path, LEAT_NO_OFFSET,
                                                  "%s was changed after it was opened: open it again", f->path);
}

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

int leat_their_file_open(struct leat_their_file *f, const char *path, const struct leat_their_index *how, void *index,
                         const struct leat_open_options *options, struct leat_error *error)
{
    uint64_t size;
    *f = (struct leat_their_file){.path = leat_io_is_remote(path) ? leat_strdup(path) : leat_absolute_path(path)};
    if (!f->path)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    int rc = leat_io_open(f->path, &f->file, error);
    rc = rc ? rc : leat_io_stamp(f->file, &f->stamp, &size, error);
    rc = rc ? rc : find_index(f, how, index, options, error);
    if (rc)
        return rc;
    f->size = f->file->size;
    f->mtime_ns = f->file->mtime_ns;
    if (f->decoded == f->file && !leat_io_is_remote(path)) { /* there may be more of them than open files */
        leat_io_release(f->decoded);
        leat_io_release(f->file);
        f->decoded = f->file = NULL;
    }
    return LEAT_OK;
}

int leat_their_file_bytes(const struct leat_their_file *f, struct leat_io_pace *pace, struct leat_io_file **out,
                          struct leat_error *error)
{
    if (!f->decoded)
        return leat_io_open_listed(f->path, f->size, f->mtime_ns, pace, out, error);
    *out = leat_io_retain(f->decoded);
    return LEAT_OK;
}

int leat_their_file_look(const struct leat_their_file *f, struct leat_io_pace *pace, struct leat_error *error)
{
    struct leat_io_file *file = NULL;
    if (f->file)
        return leat_their_file_check(f, error);
    int rc = leat_their_file_bytes(f, pace, &file, error);
    rc = rc ? rc : leat_io_read(file, 0, 0, NULL, error); /* reading nothing looks at it, too */
    leat_io_release(file);
    return rc;
}
