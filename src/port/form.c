/*
 * The stacking of images of open size, and masks of instances: batches hold them one behind the other, and the program
 * says in its own words ("stack", ToLayout, PadTo) how they are delivered. The package does the same of a program that
 * is written in Python (leat/program.py, `stacked`). Likewise sparse rows, which come as they are stored if the program
 * does not divide them.
 */
#include <jansson.h>
#include <string.h>

#include "port/internal.h"

/* The value of the first operator of that type in a chain, which is `word` if one is given; or NULL. */
static const json_t *value_in(const json_t *operators, const json_t *chain, const char *type, const char *key,
                              const char *word)
{
    size_t i;
    json_t *name;
    json_array_foreach(chain, i, name)
    {
        const json_t *one = json_string_value(name) ? json_object_get(operators, json_string_value(name)) : NULL;
        const char *is = json_string_value(json_object_get(one, "type"));
        const json_t *value = json_object_get(one, key);
        if (is && !strcmp(is, type) && (!word || (json_is_string(value) && !strcmp(json_string_value(value), word))))
            return value;
    }
    return NULL;
}

/* The fields that the program of a loader takes. */
struct fields {
    const struct leat_field *all;
    size_t n;
};

static const struct leat_field *field_of(const struct fields *fields, const char *name)
{
    for (size_t i = 0; name && i < fields->n; i++)
        if (!strcmp(fields->all[i].name, name))
            return &fields->all[i];
    return NULL;
}

/* [how, name of the mask, axis of channels or null, masks of a row or null], or NULL: the output is no such. */
static json_t *stack_of(const struct leat_field *field, const char *how, const char *first, bool last, json_int_t n)
{
    const bool mask = field && field->role == LEAT_ROLE_MASK;
    if (field && field->role == LEAT_ROLE_MASKS)
        return json_pack("[s s+ n I]", how ? how : "row", first, ".mask", n);
    if (!field || !how)
        return NULL;
    if (mask)
        return json_pack("[s s+ n n]", how, first, ".mask");
    if (field->role == LEAT_ROLE_NONE && (field->kind >= LEAT_KIND_IMAGE || field->layout != LEAT_LAYOUT_NONE))
        return json_pack("[s s+ i n]", how, first, ".mask", last ? 2 : 0);
    return NULL;
}

/* Adds the outputs of one entry of the program. */
static void add_entry(json_t *stacks, const struct fields *all, const json_t *operators, const char *key,
                      const json_t *entry)
{
    const json_t *fields = json_object_get(entry, "fields"), *names = json_object_get(entry, "outputs");
    const json_t *chain = json_object_get(entry, "chain");
    const char *how = json_string_value(json_object_get(entry, "stack"));
    const bool last = value_in(operators, chain, "ToLayout", "layout", "NHWC") != NULL;
    const json_int_t padded = json_integer_value(value_in(operators, chain, "PadTo", "n", NULL));
    const bool joint = json_is_array(fields);
    const char *first = key;
    for (size_t i = 0; i < (joint ? json_array_size(fields) : 1); i++) {
        const json_t *source = joint ? json_array_get(fields, i) : json_object_get(entry, "field");
        const char *field = json_string_value(source);
        const char *given = json_string_value(json_array_get(names, i));
        const char *name = !joint ? key : given ? given : field;
        if (!name)
            continue;
        first = i ? first : name;
        json_t *stack = stack_of(field_of(all, field), how, first, last, padded);
        if (stack)
            json_object_set_new(stacks, name, stack);
    }
}

json_t *leat_line_stacks(const struct leat_loader *l)
{
    json_t *parsed = l->program_text ? json_loads(l->program_text, 0, NULL) : NULL, *stacks = json_object(), *entry;
    struct fields fields = {l->job.fields, l->job.n_fields};
    const char *key;
    json_object_foreach(json_object_get(parsed, "outputs"), key, entry)
        add_entry(stacks, &fields, json_object_get(parsed, "operators"), key, entry);
    json_decref(parsed);
    return stacks;
}

json_t *leat_line_sparse(const struct leat_loader *l)
{
    json_t *sparse = json_object();
    for (size_t i = 0; i < leat_program_outputs(l->program); i++) {
        const struct leat_output *o = leat_program_output(l->program, i);
        if (o->columns && !o->hidden)
            json_object_set_new(sparse, o->name, json_pack("[s I]", leat_dtype_name(o->item), (json_int_t)o->columns));
    }
    return sparse;
}
