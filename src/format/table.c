/*
 * The known formats, and which of them a path has. A path is recognised by its content: a folder, or the bytes of a
 * file. Its name counts only where it shows that a file is damaged.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "format/source.h"

#define LEAT_FORMAT(name) &leat_format_##name,
const struct leat_source_vtable *const leat_formats[] = {&leat_format_native,
#include "format/formats.def"
                                                         NULL};
#undef LEAT_FORMAT

enum { HEAD = 4096 };

static void list_names(char *text, size_t room)
{
    text[0] = 0;
    for (size_t i = 0, used = 0; leat_formats[i] && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s\"%s\"", i ? ", " : "", leat_formats[i]->name);
}

static int by_name(const char *name, const struct leat_source_vtable **out, struct leat_error *error)
{
    char names[256];
    for (size_t i = 0; leat_formats[i]; i++)
        if (strcmp(leat_formats[i]->name, name) == 0) {
            *out = leat_formats[i];
            return LEAT_OK;
        }
    list_names(names, sizeof names);
    return leat_fail(error, LEAT_E_INVALID, "there is no format \"%s\"; this version of leat has %s, and \"auto\"",
                     name, names);
}

static int by_content(const char *path, bool folder, const uint8_t *head, size_t n,
                      const struct leat_source_vtable **out, struct leat_error *error)
{
    char names[256];
    for (size_t i = 0; leat_formats[i]; i++)
        if (leat_formats[i]->recognise(path, folder, head, n)) {
            *out = leat_formats[i];
            return LEAT_OK;
        }
    list_names(names, sizeof names);
    int rc = folder || n
                 ? leat_fail(error, LEAT_E_FORMAT, "%s is no format that this version of leat reads (%s)", path, names)
                 : leat_fail(error, LEAT_E_FORMAT, "%s is empty: there is nothing to open", path);
    leat_error_at_file(error, path, LEAT_NO_OFFSET);
    return rc;
}

int leat_source_look(const char *path, bool *folder, uint8_t *head, size_t room, size_t *n, struct leat_error *error)
{
    struct stat st;
    *n = 0;
    const bool remote = leat_io_is_remote(path);
    if (!remote && stat(path, &st)) {
        int rc = leat_fail_errno(error, errno == ENOENT || errno == ENOTDIR ? LEAT_E_NOT_FOUND : LEAT_E_IO,
                                 "cannot open %s", path);
        leat_error_at_file(error, path, LEAT_NO_OFFSET);
        return rc;
    }
    *folder = !remote && S_ISDIR(st.st_mode);
    if (*folder)
        return LEAT_OK;
    struct leat_io_file *file;
    int rc = leat_io_open(path, &file, error);
    if (rc)
        return rc;
    *n = file->size < room ? (size_t)file->size : room;
    rc = leat_io_read(file, 0, *n, head, error);
    leat_io_release(file);
    return rc;
}

int leat_source_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                     struct leat_error *error)
{
    const struct leat_source_vtable *format = NULL;
    struct leat_open_options defaults = LEAT_OPEN_OPTIONS_INIT;
    uint8_t head[HEAD];
    bool folder;
    size_t n;
    *out = NULL;
    if (!options)
        options = &defaults;
    int rc;
    if (options->format && strcmp(options->format, "auto") != 0) {
        rc = by_name(options->format, &format, error);
    } else {
        rc = leat_source_look(path, &folder, head, sizeof head, &n, error);
        if (!rc)
            rc = by_content(path, folder, head, n, &format, error);
    }
    rc = rc ? rc : format->open(path, options, out, error);
    if (!rc && (rc = leat_source_check(*out, error))) {
        leat_source_close(*out);
        *out = NULL;
    }
    return rc;
}

static const char *missing_of(const struct leat_source_vtable *v, const struct leat_field *field, uint8_t storage)
{
    const bool array = field->kind == LEAT_KIND_ARRAY;
    if (!*leat_kind_name(field->kind))
        return "a kind that there is";
    if (array ? !leat_dtype_size(field->dtype) : field->dtype != LEAT_U8)
        return array ? "a dtype" : "the dtype LEAT_U8, as everything that is no array";
    switch (storage) {
    case LEAT_STORAGE_MAPPED:
        return v->rows ? NULL : "the function rows";
    case LEAT_STORAGE_EXTENT:
        return v->extents && v->file && v->mark ? NULL : "the functions extents, file and mark";
    case LEAT_STORAGE_COMPUTED:
        return v->compute ? NULL : "the function compute";
    default:
        return "a storage";
    }
}

int leat_source_check(const struct leat_source *source, struct leat_error *error)
{
    for (size_t f = 0; f < source->n_fields; f++) {
        const char *missing = missing_of(source->v, &source->fields[f], source->storage[f]);
        if (missing)
            return leat_fail(error, LEAT_E_INVALID, "the format \"%s\" has a mistake: its field '%s' needs %s",
                             source->v->name, source->fields[f].name, missing);
    }
    return LEAT_OK;
}

void leat_source_close(struct leat_source *source)
{
    if (source)
        source->v->close(source);
}
