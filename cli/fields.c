/* Fields as they are named on a command line: fields.h. */
#include "fields.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* "3", "*,4": the shape. */
static bool parse_shape(const char *text, struct leat_field *f)
{
    for (const char *p = text; f->ndim < LEAT_MAX_DIMS; p++) {
        char *end = (char *)(uintptr_t)p + 1;
        errno = 0;
        const long long n = *p == '*' && p == text ? -1 : strtoll(p, &end, 10);
        if (errno || (n != -1 && (*p < '1' || *p > '9')))
            return false;
        f->shape[f->ndim++] = n;
        if (!*end)
            return true;
        if (*end != ',')
            return false;
        p = end;
    }
    return false;
}

static bool parse_kind(const char *text, struct leat_field *f)
{
    char name[32];
    const size_t n = strcspn(text, ":");
    if (n >= sizeof name)
        return false;
    memcpy(name, text, n);
    name[n] = 0;
    f->kind = LEAT_KIND_ARRAY;
    if ((f->dtype = leat_dtype_from_name(name)))
        return !text[n] || parse_shape(text + n + 1, f);
    f->dtype = LEAT_U8;
    for (int k = LEAT_KIND_ARRAY + 1; *leat_kind_name((enum leat_kind)k); k++)
        if (!strcmp(leat_kind_name((enum leat_kind)k), name)) {
            f->kind = (enum leat_kind)k;
            return !text[n];
        }
    return false;
}

bool cli_fields_parse(const struct cli_command *command, const struct cli_each *given, struct leat_field **out)
{
    struct leat_field *fields = *out = calloc(given->n + 1, sizeof *fields);
    bool good = fields;
    for (size_t i = 0; good && i < given->n; i++) {
        const char *equals = strchr(given->at[i], '=');
        fields[i].name = equals ? strndup(given->at[i], (size_t)(equals - given->at[i])) : strdup(given->at[i]);
        if (!(good = fields[i].name))
            break;
        if (!*fields[i].name || (equals && !parse_kind(equals + 1, &fields[i]))) {
            cli_usage_error(command,
                            "--field takes a name, or a name and what it is, such as photo=image, x=float64, "
                            "vec=float32:3 or boxes=float32:*,4, not \"%s\".",
                            given->at[i]);
            cli_fields_free(fields, given->n);
            *out = NULL;
            return false;
        }
    }
    if (good)
        return true;
    cli_usage_error(command, "there is no memory for the fields.");
    cli_fields_free(fields, given->n);
    *out = NULL;
    return false;
}

void cli_fields_free(struct leat_field *fields, size_t n)
{
    for (size_t i = 0; fields && i < n; i++)
        free((char *)(uintptr_t)fields[i].name);
    free(fields);
}
