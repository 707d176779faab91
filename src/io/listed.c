/*
 * Files that were found in a folder, each with one value. Opening one takes as long as reading it, on a network file
 * system longer. So it is part of the read, which may be a helper's (io/helpers.h), and the file is closed again when
 * its bytes are there: however many reads are in flight, a few files are open.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "io/file.h"
#include "io/helpers.h"

enum { SOON_MS = 20 };

struct listed_file {
    struct leat_io_file file;
    struct leat_io_pace *pace;
    char path[];
};

/* Whether opening fails for a reason that may pass: other files are closed, the network answers again. */
static bool may_pass(int number)
{
    const int passing[] = {EIO, EAGAIN, EMFILE, ENFILE, ENOMEM, ESTALE, ETIMEDOUT};
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
        if (number == passing[i])
            return true;
    return false;
}

static int open_as_listed(const struct leat_io_file *f, struct leat_io_file **opened, struct leat_error *error)
{
    char what[80] = "its time of modification is another one";
    int rc = leat_io_open(f->path, opened, error);
    if (rc == LEAT_E_NOT_FOUND)
        rc = leat_fail(error, LEAT_E_CHANGED, "%s was removed after it was opened: open it again", f->path);
    else if (!rc && ((*opened)->size != f->size || (*opened)->mtime_ns != f->mtime_ns)) {
        if ((*opened)->size != f->size)
            snprintf(what, sizeof what, "%" PRIu64 " bytes then, %" PRIu64 " now", f->size, (*opened)->size);
        rc = leat_fail(error, LEAT_E_CHANGED, "%s was changed after it was opened (%s): open it again", f->path, what);
    }
    if (rc)
        leat_error_at_file(error, f->path, LEAT_NO_OFFSET);
    return rc;
}

static void run(struct leat_io_request *r)
{
    struct leat_io_request read;
    memset(&read, 0, offsetof(struct leat_io_request, error));
    read.offset = r->offset;
    read.length = r->length;
    read.buffer = r->buffer;
    r->status = open_as_listed(r->file, &read.file, &r->error);
    if (r->status) {
        r->retry_after_ms = may_pass(r->error.sys_errno) ? SOON_MS : 0;
    } else if ((r->status = leat_io_once(&read))) {
        r->error = read.error;
        r->retry_after_ms = read.retry_after_ms;
    }
    leat_io_release(read.file);
}

static int listed_submit(struct leat_io_file *file, struct leat_io_request *r)
{
    return leat_helpers_submit(r, ((struct listed_file *)file)->pace, run);
}

static void listed_close(struct leat_io_file *file)
{
    leat_free(file);
}

static const struct leat_io_backend listed_backend = {
    .name = "listed", .submit = listed_submit, .cancel = leat_helpers_cancel, .close = listed_close};

int leat_io_open_listed(const char *path, uint64_t size, int64_t mtime_ns, struct leat_io_pace *pace,
                        struct leat_io_file **out, struct leat_error *error)
{
    const size_t bytes = strlen(path) + 1;
    struct listed_file *f = leat_alloc(sizeof *f + bytes);
    *out = NULL;
    if (!f)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    memcpy(f->path, path, bytes);
    f->pace = pace;
    f->file = (struct leat_io_file){
        .backend = &listed_backend, .path = f->path, .size = size, .mtime_ns = mtime_ns, .references = 1};
    *out = &f->file;
    return LEAT_OK;
}
