/*
 * Native: a function of the user's in a chain. The text of a program names it by an index in a table of functions that
 * the program is compiled with, so that text alone can never make anything run. The computation of a function cannot be
 * seen from here: its name and its arguments stand for it in the program's hash.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "op/operator.h"
#include "op/program.h"
#include "op/stage.h"

#define MAX_SOURCE 255
#define MAX_NUMBERS 65536
#define MESSAGE_ROOM 600

struct native_args {
    int64_t function; /* index in the table */
    const struct leat_native *bound;
    char *label;  /* "Native(<source>)" */
    bool returns; /* else: the type of the input */
    struct leat_type out;
    enum leat_dtype takes, gives; /* the type behind its pointers; 0: it gave none */
    char *text;                   /* the user's arguments */
    double *numbers;
    size_t n_numbers;
};

/* ---- arguments ---- */

static void parse_user_args(struct native_args *args, struct leat_args *json)
{
    const json_t *numbers = leat_args_get(json, "numbers");
    size_t n = json_array_size(numbers);
    bool good = !numbers || (json_is_array(numbers) && n <= MAX_NUMBERS);
    for (size_t i = 0; good && i < n; i++)
        good = json_is_number(json_array_get(numbers, i));
    if (!good)
        leat_args_wrong(json, "numbers", "a list of at most 65536 numbers");
    const char *text = leat_args_text(json, "text");
    if (json->status)
        return;
    args->text = leat_strdup(text ? text : "");
    args->numbers = leat_new_array(n ? n : 1, sizeof *args->numbers);
    if (!args->text || !args->numbers) {
        json->status = leat_fail(json->error, LEAT_E_NOMEM, "No memory for the arguments of a Native.");
        return;
    }
    args->n_numbers = n;
    for (size_t i = 0; i < n; i++)
        args->numbers[i] = json_number_value(json_array_get(numbers, i));
}

static void parse_returns(struct native_args *args, struct leat_args *json)
{
    static const char *const wanted =
        "null, or {\"dtype\": the name of a type, \"shape\": [lengths above 0], \"layout\": \"HWC\" or \"CHW\"}";
    const json_t *value = leat_args_get(json, "returns");
    if (!value)
        return;
    args->returns = true;
    const char *dtype = json_string_value(json_object_get(value, "dtype")),
               *layout = json_string_value(json_object_get(value, "layout"));
    const json_t *shape = json_object_get(value, "shape");
    struct leat_field field = {.kind = LEAT_KIND_ARRAY, .dtype = dtype ? leat_dtype_from_name(dtype) : 0};
    field.layout = !layout ? LEAT_LAYOUT_NONE : strcmp(layout, "CHW") ? LEAT_LAYOUT_HWC : LEAT_LAYOUT_CHW;
    bool good = field.dtype && (!shape || json_is_array(shape)) && json_array_size(shape) < LEAT_MAX_DIMS &&
                (!layout || !strcmp(layout, "HWC") || !strcmp(layout, "CHW"));
    for (size_t i = 0; good && i < json_array_size(shape); i++) {
        field.shape[i] = json_integer_value(json_array_get(shape, i));
        good = field.shape[i] > 0 && field.shape[i] <= INT32_MAX;
    }
    field.ndim = (unsigned)json_array_size(shape);
    good = good && (!layout || field.ndim == 3);
    if (good)
        leat_type_of_field(&field, &args->out);
    if (!good || leat_type_bytes(&args->out) > UINT64_C(1) << 40 || (layout && args->out.layout == LEAT_LAYOUT_NONE))
        leat_args_wrong(json, "returns", wanted);
}

static void parse(void *into, struct leat_args *json)
{
    struct native_args *args = into;
    const json_t *function = leat_args_get(json, "function");
    args->function = json_is_integer(function) ? json_integer_value(function) : -1;
    if (json_is_string(function) && !json->status)
        json->status = leat_fail(
            json->error, LEAT_E_INVALID,
            "Native names \"%.100s\", which text alone may not load: leat.program_from_json(text, allow_native=True) "
            "gives operators that a Loader may; in C, resolve it and give it in leat_loader_options.functions.",
            json_string_value(function));
    else if (args->function < 0)
        leat_args_wrong(json, "function", "an index in the table of functions");
    const char *source = leat_args_text(json, "source");
    if (source && strlen(source) > MAX_SOURCE)
        leat_args_wrong(json, "source", "text of at most 255 bytes");
    const char *takes = leat_args_text(json, "takes"), *gives = leat_args_text(json, "gives");
    args->takes = takes ? leat_dtype_from_name(takes) : 0;
    args->gives = gives ? leat_dtype_from_name(gives) : 0;
    parse_user_args(args, json);
    parse_returns(args, json);
    char label[MAX_SOURCE + 16];
    snprintf(label, sizeof label, "Native(%s)", source && !json->status ? source : "");
    args->label = leat_strdup(label);
    if (!args->label && !json->status)
        json->status = leat_fail(json->error, LEAT_E_NOMEM, "No memory for a Native.");
}

static void end(void *from)
{
    struct native_args *args = from;
    leat_free(args->label);
    leat_free(args->text);
    leat_free(args->numbers);
}

static uint64_t hash(const void *from)
{
    const struct native_args *args = from;
    uint64_t hash =
        leat_key_mix(leat_hash64(args->label, strlen(args->label)), leat_hash64(args->text, strlen(args->text)));
    uint64_t out[4 + LEAT_MAX_DIMS] = {args->returns, args->out.dtype, args->out.layout, args->out.ndim};
    for (unsigned d = 0; d < args->out.ndim; d++)
        out[4 + d] = (uint64_t)args->out.shape[d];
    return leat_key_mix(hash, leat_hash64(out, sizeof out));
}

static int bind(void *into, const struct leat_native *functions, size_t n_functions, struct leat_error *error)
{
    struct native_args *args = into;
    if ((uint64_t)args->function < n_functions && !functions[args->function].call != !functions[args->function].flat) {
        args->bound = &functions[args->function];
        return LEAT_OK;
    }
    if ((uint64_t)args->function < n_functions)
        return leat_fail(error, LEAT_E_INVALID, "%s: function %lld of the table must have one form: call, or flat.",
                         args->label, (long long)args->function);
    return leat_fail(error, LEAT_E_INVALID, "%s: there is no function %lld: leat_loader_options.functions has %zu.",
                     args->label, (long long)args->function, n_functions);
}

static const char *label(const void *from)
{
    const struct native_args *args = from;
    return args->label;
}

/* ---- types ---- */

static bool varies(const struct leat_type *type)
{
    for (unsigned i = 0; i < type->ndim; i++)
        if (type->shape[i] < 0)
            return true;
    return false;
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct native_args *args = from;
    if (varies(type) && leat_type_is_image(type))
        return leat_op_misfit(place, type, "an image of known size (put Resize([height, width]) or a crop before it)",
                              error);
    if (varies(type) && !args->returns)
        return leat_op_misfit(place, type, "a value of fixed shape where returns is not given", error);
    char wanted[128];
    if (args->takes && args->takes != type->dtype) {
        snprintf(wanted, sizeof wanted, "%s values, by the type of its first pointer", leat_dtype_name(args->takes));
        return leat_op_misfit(place, type, wanted, error);
    }
    if (args->returns) {
        enum leat_ask ask = type->ask;
        *type = args->out;
        type->ask = ask;
    }
    if (!args->gives || args->gives == type->dtype)
        return LEAT_OK;
    int rc = leat_fail(
        error, LEAT_E_TYPE,
        "%s in output '%s' writes %s by the type of its second pointer, but its result is declared as %s: say "
        "returns=leat.field(...).",
        args->label, place->output, leat_dtype_name(args->gives), leat_dtype_name(type->dtype));
    leat_error_at_sample(error, LEAT_NO_SAMPLE, place->output);
    return rc;
}

/* ---- a call ---- */

static void describe(const struct leat_type *from, uint64_t length, struct leat_native_type *type)
{
    *type =
        (struct leat_native_type){.dtype = from->dtype, .layout = from->layout, .ndim = from->ndim, .bytes = length};
    type->elements = length / leat_dtype_size(from->dtype);
    uint64_t step = 1;
    for (unsigned i = from->ndim; i-- > 0;) {
        type->strides[i] = (int64_t)step;
        type->shape[i] = from->shape[i] < 0 ? (int64_t)(type->elements / step) : from->shape[i];
        step *= (uint64_t)type->shape[i];
    }
}

static int call(const struct leat_use *use, const char *output, const struct leat_row *row, const void *in,
                uint64_t length, void *out, struct leat_error *error)
{
    const struct native_args *args = use->op->args;
    struct leat_native_type in_type, out_type;
    uint64_t step = leat_dtype_size(use->in.dtype), out_bytes = leat_type_bytes(&use->out);
    for (unsigned i = 1; i < use->in.ndim; i++)
        step *= (uint64_t)use->in.shape[i];
    if (length % step)
        return leat_fail(
            error, LEAT_E_DECODE,
            "A value of output '%s' has %llu bytes, which is no multiple of the %llu bytes of one of its rows.", output,
            (unsigned long long)length, (unsigned long long)step);
    describe(&use->in, length, &in_type);
    describe(&use->out, out_bytes, &out_type);
    memset(out, 0, out_bytes); /* bytes that it leaves out are then the same each time */
    char message[MESSAGE_ROOM];
    message[0] = 0;
    uint64_t key = leat_key_mix(row->key, use->op->instance);
    int rc;
    if (args->bound->flat) {
        rc = args->bound->flat(in, out, (int64_t)in_type.elements, (int64_t)out_type.elements, key);
    } else {
        struct leat_native_call given = {.version = LEAT_NATIVE_VERSION,
                                         .size = sizeof given,
                                         .in = in,
                                         .in_type = &in_type,
                                         .out = out,
                                         .out_type = &out_type,
                                         .key = key,
                                         .sample = row->sample,
                                         .numbers = args->numbers,
                                         .n_numbers = args->n_numbers,
                                         .text = args->text,
                                         .text_bytes = strlen(args->text),
                                         .message = message,
                                         .message_room = sizeof message};
        rc = args->bound->call(&given);
    }
    if (!rc)
        return LEAT_OK;
    message[sizeof message - 1] = 0;
    return leat_fail(error, LEAT_E_OPERATOR, "%s in output '%s' failed with %d%s%s", args->label, output, rc,
                     *message ? ": " : "", message);
}

const struct leat_op_class leat_op_native = {.type = "Native",
                                             .args_bytes = sizeof(struct native_args),
                                             .random = true,
                                             .parse = parse,
                                             .end = end,
                                             .hash = hash,
                                             .infer = infer,
                                             .bind = bind,
                                             .label = label,
                                             .call = call};
