/* Arguments of operators: see args.h. */
#include "op/args.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

const json_t *leat_args_get(struct leat_args *args, const char *name)
{
    if (args->n_asked < sizeof args->asked / sizeof *args->asked)
        args->asked[args->n_asked++] = name;
    const json_t *value = json_object_get(args->object, name);
    return args->status || json_is_null(value) ? NULL : value;
}

void leat_args_wrong(struct leat_args *args, const char *name, const char *wanted)
{
    if (!args->status)
        args->status = leat_fail(args->error, LEAT_E_INVALID, "%s: %s must be %s.", args->operator_type, name, wanted);
}

void leat_args_bool(struct leat_args *args, const char *name, bool fallback, bool *out)
{
    const json_t *value = leat_args_get(args, name);
    *out = value ? json_is_true(value) : fallback;
    if (value && !json_is_boolean(value))
        leat_args_wrong(args, name, "true or false");
}

void leat_args_int(struct leat_args *args, const char *name, int64_t low, int64_t high, int64_t fallback, int64_t *out)
{
    *out = fallback;
    leat_args_ints(args, name, 1, 1, low, high, out);
}

void leat_args_double(struct leat_args *args, const char *name, double low, double high, double fallback, double *out)
{
    *out = fallback;
    if (leat_args_doubles(args, name, 1, 1, out) && (*out < low || *out > high) && !args->status)
        args->status = leat_fail(args->error, LEAT_E_INVALID, "%s: %s must lie between %g and %g, not %g.",
                                 args->operator_type, name, low, high, *out);
}

unsigned leat_args_doubles(struct leat_args *args, const char *name, unsigned low, unsigned high, double *out)
{
    const json_t *value = leat_args_get(args, name);
    if (!value)
        return 0;
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    bool good = json_is_array(value) ? n >= low && n <= high : low <= 1;
    for (size_t i = 0; good && i < n; i++) {
        const json_t *one = json_is_array(value) ? json_array_get(value, i) : value;
        good = json_is_number(one);
        out[i] = good ? json_number_value(one) : 0;
        good = good && isfinite(out[i]);
    }
    if (good)
        return (unsigned)n;
    if (low == high && low == 1)
        leat_args_wrong(args, name, "a number");
    else if (!args->status)
        args->status = leat_fail(args->error, LEAT_E_INVALID, "%s: %s must be a list of %u to %u numbers%s.",
                                 args->operator_type, name, low, high, low <= 1 ? ", or one number" : "");
    return 0;
}

unsigned leat_args_ints(struct leat_args *args, const char *name, unsigned low, unsigned high, int64_t least,
                        int64_t most, int64_t *out)
{
    const json_t *value = leat_args_get(args, name);
    if (!value)
        return 0;
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    bool good = json_is_array(value) ? n >= low && n <= high && high > 1 : low <= 1;
    for (size_t i = 0; good && i < n; i++) {
        const json_t *one = json_is_array(value) ? json_array_get(value, i) : value;
        int64_t number = json_integer_value(one);
        good = json_is_integer(one) && number >= least && number <= most;
        if (good)
            out[i] = number;
    }
    if (good)
        return (unsigned)n;
    if (!args->status && high == 1)
        args->status = leat_fail(args->error, LEAT_E_INVALID,
                                 "%s: %s must be an integer of %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT ".",
                                 args->operator_type, name, (json_int_t)least, (json_int_t)most);
    else if (!args->status)
        args->status = leat_fail(args->error, LEAT_E_INVALID,
                                 "%s: %s must be an integer of %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT
                                 " or a list of %u to %u of them.",
                                 args->operator_type, name, (json_int_t)least, (json_int_t)most, low, high);
    return 0;
}

void leat_args_word(struct leat_args *args, const char *name, const char *const *words, unsigned fallback,
                    unsigned *out)
{
    const json_t *value = leat_args_get(args, name);
    *out = fallback;
    if (!value)
        return;
    const char *text = json_string_value(value);
    for (unsigned i = 0; text && words[i]; i++)
        if (!strcmp(words[i], text)) {
            *out = i;
            return;
        }
    char wanted[256] = "one of";
    for (unsigned i = 0; words[i] && strlen(wanted) + strlen(words[i]) + 5 < sizeof wanted; i++) {
        strcat(wanted, i ? ", \"" : " \"");
        strcat(wanted, words[i]);
        strcat(wanted, "\"");
    }
    leat_args_wrong(args, name, wanted);
}

const char *leat_args_text(struct leat_args *args, const char *name)
{
    const json_t *value = leat_args_get(args, name);
    if (value && !json_is_string(value))
        leat_args_wrong(args, name, "text");
    return json_string_value(value);
}

int leat_args_end(struct leat_args *args)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)args->object, key, value)
    {
        bool known = !strcmp(key, "type") || !strcmp(key, "name") || !strcmp(key, "left_out");
        for (unsigned i = 0; i < args->n_asked; i++)
            known |= !strcmp(key, args->asked[i]);
        if (known || args->status)
            continue;
        char list[400] = "";
        for (unsigned i = 0; i < args->n_asked && strlen(list) + strlen(args->asked[i]) + 3 < sizeof list; i++) {
            strcat(list, i ? ", " : " ");
            strcat(list, args->asked[i]);
        }
        args->status = leat_fail(args->error, LEAT_E_INVALID, "%s has no argument \"%.64s\"; it takes%s%s.",
                                 args->operator_type, key, args->n_asked ? ":" : " none", list);
    }
    return args->status;
}
