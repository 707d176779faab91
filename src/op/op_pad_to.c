/* PadTo: values of varying length become rows of fixed length. */
#include <string.h>

#include "op/operator.h"

struct pad_args {
    struct leat_pad pad;
    unsigned n; /* fields with a fill of their own */
    char fields[16][64];
    double fills[16];
};

static void parse(void *into, struct leat_args *json)
{
    struct pad_args *args = into;
    leat_args_int(json, "n", 1, INT32_MAX, 0, &args->pad.n);
    if (!args->pad.n)
        leat_args_wrong(json, "n", "given");
    leat_args_bool(json, "cut", false, &args->pad.cut);
    const json_t *fill = leat_args_get(json, "fill"), *value;
    const char *field;
    if (fill && !json_is_object(fill))
        leat_args_double(json, "fill", -1e300, 1e300, 0, &args->pad.fill);
    json_object_foreach((json_t *)(uintptr_t)fill, field, value)
    {
        if (args->n == 16 || strlen(field) >= sizeof *args->fields || !json_is_number(value)) {
            leat_args_wrong(json, "fill", "a number, or a number for each of at most 16 fields by name");
            return;
        }
        strcpy(args->fields[args->n], field);
        args->fills[args->n++] = json_number_value(value);
    }
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct pad_args *args = from;
    if (type->kind != LEAT_KIND_ARRAY || !type->ndim || type->shape[0] >= 0 || leat_type_is_image(type))
        return leat_op_misfit(place, type, "an array whose first dimension varies", error);
    type->shape[0] = args->pad.n;
    return LEAT_OK;
}

static void pad(const void *from, const char *field, struct leat_pad *out)
{
    const struct pad_args *args = from;
    *out = args->pad;
    for (unsigned i = 0; i < args->n; i++)
        if (!strcmp(args->fields[i], field))
            out->fill = args->fills[i];
}

const struct leat_op_class leat_op_pad_to = {
    .type = "PadTo", .args_bytes = sizeof(struct pad_args), .parse = parse, .infer = infer, .pad = pad};
