/*
 * Memory that is read as a file is, so that values that a source makes up (the names of a folder's files) take the same
 * way as stored ones.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "io/file.h"

struct memory_file {
    struct leat_io_file file;
    const uint8_t *data;
    char path[];
};

static int memory_submit(struct leat_io_file *file, struct leat_io_request *r)
{
    if (leat_io_fits(r) && r->length)
        memcpy(r->buffer, ((struct memory_file *)file)->data + r->offset, (size_t)r->length);
    return LEAT_OK;
}

static const uint8_t *memory_map(struct leat_io_file *file, struct leat_error *error)
{
    return ((struct memory_file *)file)->data;
}

static void memory_close(struct leat_io_file *file)
{
    leat_free(file);
}

static const struct leat_io_backend memory_backend = {
    .name = "memory", .submit = memory_submit, .map = memory_map, .close = memory_close};

int leat_io_from_memory(const char *label, const void *data, uint64_t bytes, struct leat_io_file **out,
                        struct leat_error *error)
{
    static const uint8_t empty[1];
    size_t label_bytes = strlen(label) + 1;
    struct memory_file *f = leat_alloc(sizeof *f + label_bytes);
    *out = NULL;
    if (!f)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", label);
    memcpy(f->path, label, label_bytes);
    f->data = data ? data : empty;
    f->file = (struct leat_io_file){.backend = &memory_backend, .path = f->path, .size = bytes, .references = 1};
    *out = &f->file;
    return LEAT_OK;
}
