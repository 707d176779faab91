/* The fields that the user asks for: wanted.h. */
#include "format/wanted.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

bool leat_field_name_add(char out[LEAT_FIELD_NAME], const char *part, size_t length)
{
    size_t used = strlen(out);
    if (used && used < LEAT_FIELD_NAME - 1)
        out[used++] = '.';
    const bool digit = !used && (!length || (*part >= '0' && *part <= '9') || *part == '.' || *part == '-');
    if (digit)
        out[used++] = '_';
    for (size_t i = 0; i < length && used < LEAT_FIELD_NAME; i++) {
        const char c = part[i];
        const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                          c == '.' || c == '-';
        out[used++] = good ? c : '_';
    }
    out[used < LEAT_FIELD_NAME ? used : LEAT_FIELD_NAME - 1] = 0;
    return used < LEAT_FIELD_NAME;
}

bool leat_wanted_find(const struct leat_open_options *options, const char *name, const struct leat_field **wish)
{
    *wish = NULL;
    for (size_t i = 0; i < options->n_fields && !*wish; i++)
        if (!strcmp(options->fields[i].name, name))
            *wish = &options->fields[i];
    return !options->n_fields || *wish;
}

int leat_wanted_locate(char (*names)[LEAT_FIELD_NAME], size_t n, const char *name, const char *path, size_t *out,
                       struct leat_error *error)
{
    *out = n;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(names[i], name) != 0)
            continue;
        if (*out < n)
            return leat_fail_at(error, LEAT_E_INVALID, path, LEAT_NO_OFFSET,
                                "two fields of %s have the name \"%s\", as each byte that no name has becomes '_': "
                                "neither can be chosen",
                                path, name);
        *out = i;
    }
    return LEAT_OK;
}

static bool shape_fits(const struct leat_field *f)
{
    uint64_t bytes = leat_dtype_size(f->dtype);
    if (f->ndim > LEAT_MAX_DIMS)
        return false;
    for (unsigned d = 0; d < f->ndim; d++)
        if ((f->shape[d] < 1 && (d || f->shape[d] != -1)) ||
            !leat_mul_u64(bytes, f->shape[d] < 0 ? 1 : (uint64_t)f->shape[d], &bytes) || bytes > INT64_MAX)
            return false;
    return true;
}

int leat_wanted_check_names(const struct leat_open_options *options, struct leat_error *error)
{
    for (size_t i = 0; i < options->n_fields; i++) {
        const struct leat_field *f = &options->fields[i];
        if (!f->name || !*f->name)
            return leat_fail(error, LEAT_E_INVALID, "fields names one without a name");
        for (size_t k = 0; k < i; k++)
            if (!strcmp(f->name, options->fields[k].name))
                return leat_fail(error, LEAT_E_INVALID, "fields names \"%s\" twice", f->name);
    }
    return LEAT_OK;
}

int leat_wanted_check(const struct leat_open_options *options, struct leat_error *error)
{
    char text[128];
    int rc = leat_wanted_check_names(options, error);
    if (rc)
        return rc;
    for (size_t i = 0; i < options->n_fields; i++) {
        const struct leat_field *f = &options->fields[i];
        if (!f->kind)
            continue;
        const bool array = f->kind == LEAT_KIND_ARRAY;
        if (!*leat_kind_name(f->kind) || f->role == LEAT_ROLE_SPARSE ||
            (array && (!leat_dtype_size(f->dtype) || !shape_fits(f))))
            return leat_fail(error, LEAT_E_INVALID, "fields says of \"%s\" that it is %s, which no field is", f->name,
                             leat_field_text(f, text, sizeof text));
    }
    return LEAT_OK;
}

bool leat_wanted_is(const struct leat_field *wish, const struct leat_field *f)
{
    if (wish->kind != f->kind)
        return false;
    return f->kind != LEAT_KIND_ARRAY ||
           (wish->dtype == f->dtype && wish->ndim == f->ndim &&
            !memcmp(wish->shape, f->shape, f->ndim * sizeof *f->shape) && wish->columns == f->columns &&
            (!f->columns || wish->item == f->item) && (!wish->role || wish->role == f->role));
}

void leat_wanted_take(const struct leat_field *wish, struct leat_field *field)
{
    const char *name = field->name;
    const unsigned flags = field->flags;
    *field = *wish;
    field->name = name;
    field->flags = flags;
    if (field->kind != LEAT_KIND_ARRAY)
        field->dtype = LEAT_U8;
}

int leat_wanted_refuse_pickles(const char *path, int64_t offset, const char *name, const char *how,
                               struct leat_error *error)
{
    return leat_fail_at(error, LEAT_E_UNSUPPORTED, path, offset,
                        "the field \"%s\" of %s holds pickles (%s), which leat never loads, as they can run any code: "
                        "name the fields to take without it, as in fields=[...], or take it as it is by "
                        "fields={\"%s\": \"bytes\"}",
                        name, path, how, name);
}

const char *leat_field_text(const struct leat_field *f, char *out, size_t room)
{
    if (f->columns) {
        snprintf(out, room, "sparse %s, %" PRIi64 " columns", leat_dtype_name(f->item), (int64_t)f->columns);
        return out;
    }
    size_t used = (size_t)snprintf(out, room, "%s",
                                   f->kind == LEAT_KIND_ARRAY ? leat_dtype_name(f->dtype) : leat_kind_name(f->kind));
    if (f->kind != LEAT_KIND_ARRAY || !f->ndim || used >= room)
        return out;
    used += (size_t)snprintf(out + used, room - used, " (");
    for (unsigned d = 0; d < f->ndim && d < LEAT_MAX_DIMS && used < room; d++)
        used += f->shape[d] < 0 ? (size_t)snprintf(out + used, room - used, "%sany", d ? ", " : "")
                                : (size_t)snprintf(out + used, room - used, "%s%" PRId64, d ? ", " : "", f->shape[d]);
    if (used < room)
        snprintf(out + used, room - used, f->ndim == 1 ? ",)" : ")");
    return out;
}
