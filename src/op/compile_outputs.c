/* Reading the outputs of a program (compile.c) from JSON: chains, tuples, and functions behind them. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/known.h"
#include "op/branch.h"
#include "op/program_internal.h"

#define MAX_OUTPUTS 4096
#define MAX_OPERATORS 65536
#define MAX_NAME 255

static struct leat_op *find_op(const struct leat_program *program, const char *id)
{
    for (size_t i = 0; id && i < program->n_ops; i++)
        if (program->ops[i].id && !strcmp(program->ops[i].id, id))
            return &program->ops[i];
    return NULL;
}

static int find_field(const struct leat_field *fields, size_t n_fields, struct leat_compiled *c, const char *field,
                      struct leat_error *error)
{
    size_t f = 0;
    while (f < n_fields && strcmp(fields[f].name, field))
        f++;
    if (f == n_fields) {
        const char *why =
            strcmp(field, "label") != 0 ? "" : " (in a folder of photos labels come from sub-folders, one per class)";
        const struct leat_known there = leat_known_fields(fields, n_fields);
        return leat_fail_name(error, LEAT_E_NOT_FOUND, &there, field,
                              "Output '%s' is made of field '%.64s', which the data set does not have%s", c->face.name,
                              field, why);
    }
    c->face.field = f;
    c->field = field;
    leat_type_of_field(&fields[f], &c->in);
    return LEAT_OK;
}

static int parse_chain(const struct leat_program *program, const char *name, const json_t *list, struct leat_use **uses,
                       size_t *n_uses, struct leat_error *error)
{
    size_t n = json_array_size(list);
    if (n > MAX_OPERATORS)
        return leat_fail(error, LEAT_E_INVALID, "The chain of output '%s' is too long.", name);
    *uses = leat_new_array(n ? n : 1, sizeof **uses);
    if (!*uses)
        return leat_compile_no_memory(error);
    for (size_t i = 0; i < n; i++) {
        const char *id = json_string_value(json_array_get(list, i));
        (*uses)[i].op = find_op(program, id);
        if (!(*uses)[i].op)
            return leat_fail(error, LEAT_E_INVALID,
                             "The chain of output '%s' refers to operator \"%.64s\", which the program does not list.",
                             name, id ? id : "(not text)");
        ++*n_uses;
    }
    return LEAT_OK;
}

static int add_output(struct leat_program *program, const char *name, struct leat_compiled **out,
                      struct leat_error *error)
{
    struct leat_compiled *c = *out = &program->outputs[program->n_outputs];
    if (!*name || strlen(name) > MAX_NAME)
        return leat_fail(error, LEAT_E_INVALID, "The name of an output must have 1 to %d bytes.", MAX_NAME);
    for (size_t i = 0; i < program->n_outputs; i++)
        if (!program->outputs[i].face.hidden && !strcmp(program->outputs[i].face.name, name))
            return leat_fail(error, LEAT_E_INVALID, "Two outputs of the program are named '%s'.", name);
    c->face.name = name;
    c->face.chain = program->n_chains - 1;
    c->index = program->n_outputs++;
    return LEAT_OK;
}

/* An ordinary chain is one output. */
static void one_output(struct leat_compiled_chain *chain, const struct leat_compiled *c)
{
    chain->name = c->face.name;
    chain->uses = c->uses;
    chain->n_uses = c->n_uses;
    chain->first = c->index;
    chain->face = (struct leat_program_chain){.n_fields = 1,
                                              .n_outputs = 1,
                                              .fields = &c->face.field,
                                              .decodes = &c->face.decodes,
                                              .outputs = &c->index,
                                              .pieces = 1,
                                              .sizes = SIZE_MAX};
}

/* An output named after the chain. */
static int add_named(struct leat_program *program, const struct leat_compiled_chain *chain, const char *what,
                     char **name, struct leat_error *error)
{
    char text[MAX_NAME + 16];
    struct leat_compiled *c;
    snprintf(text, sizeof text, "%s.%s", chain->name, what);
    *name = leat_strdup(text);
    return *name ? add_output(program, *name, &c, error) : leat_compile_no_memory(error);
}

/* Images of open size get an output with their size: if the chain asks for it, or if they come in batches of one
 * row. Images that are left to a card get one with what it has to do. */
static int add_sizes(struct leat_program *program, struct leat_compiled_chain *chain, const struct leat_field *fields,
                     struct leat_error *error)
{
    if (chain->on_card)
        return add_named(program, chain, "card", &chain->sizes_name, error);
    if (!chain->stacks && (program->open != LEAT_OPEN_ROWS || !leat_tuple_is_open(program, chain, fields)))
        return LEAT_OK;
    chain->single = !chain->stacks;
    program->single |= chain->single;
    chain->stacks = true;
    return add_named(program, chain, "size", &chain->sizes_name, error);
}

static int parse_tuple(struct leat_program *program, const struct leat_field *fields, size_t n_fields,
                       struct leat_compiled_chain *chain, const json_t *object, const json_t *names,
                       struct leat_error *error)
{
    const json_t *outputs = json_object_get(object, "outputs");
    size_t n = json_array_size(names);
    outputs = outputs ? outputs : names;
    if (!n || json_array_size(outputs) != n ||
        strcmp(chain->name,
               json_is_string(json_array_get(outputs, 0)) ? json_string_value(json_array_get(outputs, 0)) : ""))
        return leat_fail(error, LEAT_E_INVALID,
                         "Output '%s' of the program needs \"outputs\", a list of as many names as it has \"fields\", "
                         "of which its own "
                         "is the first.",
                         chain->name);
    chain->first = program->n_outputs;
    for (size_t i = 0; i < n; i++) {
        const char *field = json_string_value(json_array_get(names, i)),
                   *name = json_string_value(json_array_get(outputs, i));
        struct leat_compiled *c;
        int rc = add_output(program, name ? name : "", &c, error);
        rc = rc ? rc : find_field(fields, n_fields, c, field ? field : "(not text)", error);
        for (size_t k = chain->first; !rc && k + 1 < program->n_outputs; k++)
            if (program->outputs[k].face.field == c->face.field)
                rc = leat_fail(error, LEAT_E_INVALID, "The tuple of output '%s' has field '%s' twice.", chain->name,
                               field);
        if (rc)
            return rc;
    }
    chain->face.n_fields = n;
    return chain->geometry ? add_named(program, chain, "geometry", &chain->geometry_name, error) : LEAT_OK;
}

/* An output of the chain's that functions alone see. */
static int add_hidden(struct leat_program *program, const struct leat_compiled_chain *chain, struct leat_error *error)
{
    struct leat_compiled *c;
    struct leat_output *image = &leat_tuple_member(program, chain, chain->cut)->face;
    int rc = add_output(program, image->name, &c, error);
    c->face.hidden = !rc;
    return rc;
}

/* The place at which functions take the image of a tuple. */
static int parse_cut(struct leat_program *program, struct leat_compiled_chain *chain, const json_t *cut,
                     struct leat_error *error)
{
    const json_t *image = json_object_get(cut, "image"), *after = json_object_get(cut, "after"),
                 *draws = json_object_get(cut, "draws");
    const json_int_t n = json_integer_value(draws);
    if (!json_is_integer(image) || json_integer_value(image) < 0 ||
        (uint64_t)json_integer_value(image) >= chain->face.n_fields || !json_is_integer(after) ||
        json_integer_value(after) < 0 || (uint64_t)json_integer_value(after) > chain->n_uses || n < 0 ||
        n > MAX_OPERATORS)
        return leat_fail(error, LEAT_E_INVALID,
                         "\"cut\" of output '%s' of the program says which field functions take, behind how many "
                         "operators, and how many behind them are drawn by targets.",
                         chain->name);
    chain->cut = (size_t)json_integer_value(image);
    chain->n_cut = (size_t)json_integer_value(after);
    chain->n_drawn = (size_t)n;
    chain->cut_open = json_is_true(json_object_get(cut, "open"));
    leat_tuple_member(program, chain, chain->cut)->face.hidden = true;
    int rc = chain->cut_open ? add_hidden(program, chain, error) : LEAT_OK;
    return rc || !n ? rc : add_hidden(program, chain, error);
}

static int parse_stack(struct leat_compiled_chain *chain, const json_t *stack, struct leat_error *error)
{
    const char *how = json_string_value(stack);
    chain->stacks = how && (!strcmp(how, "list") || !strcmp(how, "pad"));
    return chain->stacks || !stack || json_is_null(stack)
               ? LEAT_OK
               : leat_fail(error, LEAT_E_INVALID, "\"stack\" of output '%s' of the program is \"list\" or \"pad\".",
                           chain->name);
}

static int parse_decode(struct leat_compiled_chain *chain, const json_t *object, struct leat_error *error)
{
    const json_t *decode = json_object_get(object, "decode");
    const char *where = json_string_value(decode);
    chain->on_card = where && !strcmp(where, "card");
    const bool alone =
        !json_object_get(object, "fields") && !json_object_get(object, "calls") && !chain->geometry && !chain->stacks;
    return !decode || (chain->on_card && alone)
               ? LEAT_OK
               : leat_fail(
                     error, LEAT_E_INVALID,
                     "\"decode\" of output '%s' of the program is \"card\", for an output of one \"field\" without "
                     "\"calls\", \"geometry\" and \"stack\".",
                     chain->name);
}

/* The result of functions that take output `input`: the program gives its type. */
static int parse_call(struct leat_program *program, const char *name, size_t input, const json_t *call,
                      struct leat_error *error)
{
    const json_t *dtype = json_object_get(call, "dtype"), *shape = json_object_get(call, "shape"),
                 *strides = json_object_get(call, "strides");
    struct leat_compiled *c;
    int rc = add_output(program, name, &c, error);
    if (rc)
        return rc;
    struct leat_output *face = &c->face;
    face->called = face->in_place = true;
    face->input = input;
    face->segment = (unsigned)json_integer_value(json_object_get(call, "segment"));
    face->field = face->chain = SIZE_MAX;
    face->kind = (enum leat_kind)json_integer_value(json_object_get(call, "kind"));
    face->dtype = json_is_string(dtype) ? leat_dtype_from_name(json_string_value(dtype)) : 0;
    const json_int_t channels = json_integer_value(json_object_get(call, "channels")),
                     axes = json_integer_value(json_object_get(call, "axes"));
    size_t ndim = json_array_size(shape);
    uint64_t elements = 1;
    bool good = json_is_array(shape) && ndim < LEAT_MAX_DIMS && face->dtype && face->segment &&
                face->segment <= LEAT_MAX_SEGMENTS && (!json_is_array(strides) || json_array_size(strides) == ndim);
    face->ndim = good ? (unsigned)ndim : 0;
    for (size_t d = face->ndim; d-- > 0;) {
        const json_t *side = json_array_get(shape, d), *stride = json_array_get(strides, d);
        face->ragged |= !d && json_is_null(side);
        face->shape[d] = !d && json_is_null(side) ? -1 : json_integer_value(side);
        face->strides[d] = stride ? json_integer_value(stride) : (int64_t)elements;
        good = good && (face->shape[d] >= 0 || face->ragged) &&
               (face->shape[d] < 0 || leat_mul_u64(elements, (uint64_t)face->shape[d], &elements)) &&
               elements <= UINT64_C(1) << 40;
    }
    face->row_bytes = elements * leat_dtype_size(face->dtype);
    good = good && (!face->ragged || face->row_bytes);
    if (channels) { /* images of open size, as those of its chain */
        const struct leat_output *image = &program->outputs[input].face;
        good = good && face->ragged && ndim == 1 && channels > 0 && channels <= LEAT_MAX_CHANNELS && axes >= 0 &&
               axes <= LEAT_CHANNELS_LAST && image->chain < program->n_chains && program->chains[image->chain].stacks;
        face->open = good;
        face->channels = (uint8_t)channels;
        face->axes = (enum leat_axes)axes;
        face->chain = image->chain;
    }
    return good ? LEAT_OK
                : leat_fail(error, LEAT_E_INVALID,
                            "Each of \"calls\" of output '%s' of the program needs a \"segment\", a \"dtype\" and a "
                            "\"shape\".",
                            name);
}

/* Functions one behind the other. */
static int parse_calls(struct leat_program *program, const char *name, size_t input, const json_t *calls,
                       struct leat_error *error)
{
    size_t n = json_array_size(calls);
    int rc = n && n <= LEAT_MAX_SEGMENTS
                 ? LEAT_OK
                 : leat_fail(error, LEAT_E_INVALID, "\"calls\" of output '%s' of the program is a list of 1 to %d.",
                             name, LEAT_MAX_SEGMENTS);
    for (size_t i = 0; !rc && i < n; i++) {
        rc = parse_call(program, name, input, json_array_get(calls, i), error);
        input = program->n_outputs - 1;
        program->outputs[input].face.hidden = !rc && i + 1 < n;
    }
    return rc;
}

/* Functions with the same input as those of another output. */
static int parse_other_calls(struct leat_program *program, const char *name, const json_t *input, const json_t *calls,
                             struct leat_error *error)
{
    size_t i = 0;
    while (i < program->n_outputs && !(program->outputs[i].face.hidden && json_is_string(input) &&
                                       !strcmp(program->outputs[i].face.name, json_string_value(input))))
        i++;
    if (i == program->n_outputs)
        return leat_fail(error, LEAT_E_INVALID, "\"input\" of output '%s' of the program names no output with calls.",
                         name);
    return parse_calls(program, name, i, calls, error);
}

static int parse_output(struct leat_program *program, const struct leat_field *fields, size_t n_fields,
                        const char *name, json_t *object, struct leat_error *error)
{
    const json_t *calls = json_object_get(object, "calls"), *input = json_object_get(object, "input");
    if (calls && input)
        return parse_other_calls(program, name, input, calls, error);
    const json_t *field = json_object_get(object, "field"), *names = json_object_get(object, "fields");
    const json_t *list = json_object_get(object, "chain");
    struct leat_compiled_chain *chain = &program->chains[program->n_chains++];
    if (!json_is_array(list) || (names ? !json_is_array(names) : !json_is_string(field)))
        return leat_fail(error, LEAT_E_INVALID,
                         "Output '%s' of the program needs \"field\" (a name) and \"chain\" (a list of operator ids).",
                         name);
    chain->name = name;
    chain->n_cut = SIZE_MAX;
    chain->geometry = json_is_true(json_object_get(object, "geometry"));
    int rc = parse_stack(chain, json_object_get(object, "stack"), error);
    rc = rc ? rc : parse_decode(chain, object, error);
    if (rc)
        return rc;
    if (names || chain->geometry || chain->stacks || chain->on_card) {
        chain->face.tuple = true;
        if (!names && (json_object_set_new(object, "fields", json_pack("[O]", field)) ||
                       json_object_set_new(object, "outputs", json_pack("[s]", name))))
            return leat_compile_no_memory(error);
        rc = parse_tuple(program, fields, n_fields, chain, object, json_object_get(object, "fields"), error);
        rc = rc ? rc : parse_chain(program, name, list, &chain->uses, &chain->n_uses, error);
        if (!rc && calls)
            rc = parse_cut(program, chain, json_object_get(object, "cut"), error);
        rc = rc ? rc : add_sizes(program, chain, fields, error);
        if (rc || !calls)
            return rc;
        struct leat_compiled *image = leat_tuple_member(program, chain, chain->cut);
        return parse_calls(program, image->face.name, image->index, calls, error);
    }
    struct leat_compiled *c;
    rc = add_output(program, name, &c, error);
    rc = rc ? rc : find_field(fields, n_fields, c, json_string_value(field), error);
    rc = rc ? rc : parse_chain(program, name, list, &c->uses, &c->n_uses, error);
    one_output(chain, c);
    c->face.hidden = calls != NULL;
    if (rc)
        return rc;
    bool gathers = false;
    for (size_t k = 0; k < chain->n_uses; k++)
        gathers |= leat_op_cuts(chain->uses[k].op->class);
    rc = calls ? parse_calls(program, name, c->index, calls, error) : add_sizes(program, chain, fields, error);
    if (chain->stacks || gathers) { /* a tuple of one */
        chain->face.tuple = true;
        c->uses = NULL;
        c->n_uses = 0;
    }
    return rc;
}

int leat_parse_outputs(struct leat_program *program, const struct leat_field *fields, size_t n_fields,
                       struct leat_error *error)
{
    json_t *table = json_object_get(program->json, "outputs"), *object;
    if (!json_is_object(table) || json_object_size(table) > MAX_OUTPUTS)
        return leat_fail(error, LEAT_E_INVALID,
                         "The program needs \"outputs\", an object of at most %d outputs by name.", MAX_OUTPUTS);
    const char *name;
    size_t n = 0;
    json_object_foreach(table, name, object)
    {
        size_t of_tuple = json_array_size(json_object_get(object, "fields"));
        const json_t *calls = json_object_get(object, "calls");
        n += (of_tuple ? of_tuple : 1) + 4 + json_array_size(calls); /* 4: a geometry, sizes, and those of a cut */
        if (calls && program->open == LEAT_OPEN_ROWS)
            program->open = LEAT_OPEN_STACKS; /* their executor knows the outputs by number */
    }
    if (n > 5 * MAX_OUTPUTS)
        return leat_fail(error, LEAT_E_INVALID, "The program has more than %d outputs.", MAX_OUTPUTS);
    program->outputs = leat_new_array(n + 1, sizeof *program->outputs);
    program->chains = leat_new_array(json_object_size(table) + 1, sizeof *program->chains);
    if (!program->outputs || !program->chains)
        return leat_compile_no_memory(error);
    json_object_foreach(table, name, object)
    {
        int rc = parse_output(program, fields, n_fields, name, object, error);
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

/* Without JSON: every field that is not derived, as stored. */
int leat_all_fields(struct leat_program *program, const struct leat_field *fields, size_t n_fields,
                    struct leat_error *error)
{
    program->outputs = leat_new_array(n_fields ? n_fields : 1, sizeof *program->outputs);
    program->names = leat_new_array(n_fields + 1, sizeof *program->names);
    program->chains = leat_new_array(n_fields ? n_fields : 1, sizeof *program->chains);
    if (!program->outputs || !program->names || !program->chains)
        return leat_compile_no_memory(error);
    for (size_t i = 0; i < n_fields; i++) {
        if (fields[i].flags & LEAT_FIELD_DERIVED)
            continue;
        struct leat_compiled *c = &program->outputs[program->n_outputs];
        c->face.name = program->names[program->n_outputs] = leat_strdup(fields[i].name);
        if (!c->face.name)
            return leat_compile_no_memory(error);
        c->face.chain = c->index = program->n_outputs++;
        c->face.field = i;
        c->field = c->face.name;
        leat_type_of_field(&fields[i], &c->in);
        one_output(&program->chains[program->n_chains++], c);
    }
    if (!program->n_outputs)
        return leat_fail(error, LEAT_E_INVALID, "The data set has no field to deliver.");
    return LEAT_OK;
}
