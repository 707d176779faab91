/* The common part of the targets of annotations: a folder with the photos a.png and b.png, and annotations in a file
 * without a name. Boxes that were read are sound, whatever was written. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/role.h"
#include "format/source.h"

static const char *fuzz_folder(void)
{
    static char folder[] = "/tmp/leat-fuzz-XXXXXX";
    static bool made;
    char path[64];
    if (made)
        return folder;
    if (!mkdtemp(folder))
        abort();
    for (const char *name = "ab"; *name; name++) {
        snprintf(path, sizeof path, "%s/%c.png", folder, *name);
        close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    }
    made = true;
    return folder;
}

static void fuzz_check(const struct leat_field *field, const uint8_t *value, uint64_t length)
{
    static uint8_t pixels[64 * 16 * 16];
    struct leat_error error;
    uint64_t n;
    if (field->role == LEAT_ROLE_MASKS && !leat_masks_draw(value, length, 16, 16, NULL, &n, &error) && n <= 64)
        leat_masks_draw(value, length, 16, 16, pixels, &n, &error);
    const float *v = (const float *)(const void *)value;
    if (field->role == LEAT_ROLE_BOXES_XYXY)
        for (uint64_t i = 0; i < length / sizeof *v; i += 4)
            if (!(v[i] >= 0 && v[i + 1] >= 0 && v[i + 2] > v[i] && v[i + 3] > v[i + 1]))
                abort();
}

static void fuzz_read(struct leat_source *s)
{
    struct leat_error error;
    for (uint64_t i = 0; i < s->count; i++)
        for (size_t f = 1; f < s->n_fields; f++) {
            size_t failed;
            const void *row;
            if (s->fields[f].role == LEAT_ROLE_MASK) /* a file, which may be absent */
                continue;
            struct leat_extent extent;
            struct leat_io_file *file;
            if (s->storage[f] == LEAT_STORAGE_MAPPED) {
                if (s->v->rows(s, f, &i, 1, NULL, &row, &failed, &error) || *(const volatile int64_t *)row == 1)
                    continue;
            } else {
                uint8_t *value;
                if (s->v->extents(s, f, &i, 1, &extent, &failed, &error) || s->v->file(s, extent.file, &file, &error) ||
                    !(value = leat_alloc(extent.length + 1)) ||
                    leat_io_read(file, extent.offset, extent.length, value, &error))
                    abort();
                fuzz_check(&s->fields[f], value, extent.length);
                leat_free(value);
                leat_io_release(file);
            }
        }
}

/* Annotations in a file per photo: a folder with the file of a. */
static inline const char *fuzz_sidecar(const char *extension, const uint8_t *data, size_t size)
{
    static char folder[] = "/tmp/leat-fuzz-XXXXXX";
    static bool made;
    char path[64];
    if (!made && !mkdtemp(folder))
        abort();
    made = true;
    snprintf(path, sizeof path, "%s/a%s", folder, extension);
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    close(fd);
    return folder;
}

static inline int fuzz_sidecars(const struct leat_source_vtable *format, const char *extension, const uint8_t *data,
                                size_t size)
{
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    struct leat_error error;
    options.annotations = fuzz_sidecar(extension, data, size);
    options.recheck = LEAT_RECHECK_NEVER;
    for (options.on_bad = LEAT_BAD_MARK; options.on_bad <= LEAT_BAD_SKIP; options.on_bad++) {
        struct leat_source *s = NULL;
        if (!format->open(fuzz_folder(), &options, &s, &error))
            fuzz_read(s);
        leat_source_close(s);
    }
    return 0;
}

static inline int fuzz_annotated(const struct leat_source_vtable *format, const uint8_t *data, size_t size)
{
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    struct leat_error error;
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    options.annotations = path;
    options.recheck = LEAT_RECHECK_NEVER;
    for (options.on_bad = LEAT_BAD_MARK; options.on_bad <= LEAT_BAD_SKIP; options.on_bad++) {
        struct leat_source *s = NULL;
        if (!format->open(fuzz_folder(), &options, &s, &error))
            fuzz_read(s);
        leat_source_close(s);
    }
    close(fd);
    return 0;
}
