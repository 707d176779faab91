/*
 * Compiling a program: JSON to operators, chains to types, types to the path by which rows are made.
 *
 * Everything about a program that can be wrong is found here, and said with the names of output and operator; what
 * remains for the rows themselves is a photo that does not decode or is too small for its crop.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "kernels/values.h"
#include "op/program_internal.h"

#define MAX_OUTPUTS 4096
#define MAX_OPERATORS 65536
#define MAX_NAME 255

static int fail_nomem(struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "No memory to compile the program.");
}

static uint64_t hash_args(const struct leat_op *op)
{
    return op->class->hash ? op->class->hash(op->args) : leat_hash64(op->args, op->class->args_bytes);
}

/* ---- operators ---- */

static int parse_operator(const struct leat_program *program, struct leat_op *op, const char *id, const json_t *object,
                          struct leat_error *error)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    if (!type)
        return leat_fail(error, LEAT_E_INVALID,
                         "Operator \"%.64s\" of the program needs a \"type\", such as \"Decode\".", id);
    for (size_t i = 0; leat_operators[i]; i++)
        if (!strcmp(leat_operators[i]->type, type))
            op->class = leat_operators[i];
    if (!op->class)
        return leat_fail(error, LEAT_E_INVALID, "Operator \"%.64s\" of the program has an unknown type, \"%.64s\".", id,
                         type);
    const json_t *name = json_object_get(object, "name");
    op->id = id;
    op->name = json_string_value(name);
    if (name && !json_is_null(name) && (!op->name || !*op->name || strlen(op->name) > MAX_NAME))
        return leat_fail(error, LEAT_E_INVALID, "%s: name must be text of 1 to %d bytes.", type, MAX_NAME);
    op->args = leat_new_array(1, op->class->args_bytes ? op->class->args_bytes : 1);
    if (!op->args)
        return fail_nomem(error);
    struct leat_args args = {.object = object, .operator_type = type, .error = error};
    if (op->class->parse)
        op->class->parse(op->args, &args);
    int rc = leat_args_end(&args);
    if (!rc && op->class->bind)
        rc = op->class->bind(op->args, program->functions, program->n_functions, error);
    return rc;
}

static int parse_operators(struct leat_program *program, struct leat_error *error)
{
    json_t *table = json_object_get(program->json, "operators"), *object;
    if (table && !json_is_object(table))
        return leat_fail(error, LEAT_E_INVALID, "\"operators\" of the program must be an object of operators by id.");
    size_t n = json_object_size(table);
    if (n > MAX_OPERATORS)
        return leat_fail(error, LEAT_E_INVALID, "The program has %zu operators; %d are allowed.", n, MAX_OPERATORS);
    program->ops = leat_new_array(n ? n : 1, sizeof *program->ops);
    if (!program->ops)
        return fail_nomem(error);
    const char *id;
    json_object_foreach(table, id, object)
    {
        int rc = parse_operator(program, &program->ops[program->n_ops++], id, object, error);
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

static struct leat_op *find_op(const struct leat_program *program, const char *id)
{
    for (size_t i = 0; id && i < program->n_ops; i++)
        if (!strcmp(program->ops[i].id, id))
            return &program->ops[i];
    return NULL;
}

/*
 * Operators of one name share their draw: an image and its mask in chains of their own, which differ in how pixels are
 * resampled only. In one chain they would draw the same twice.
 */
static bool may_share(const struct leat_program *program, const struct leat_op *a, const struct leat_op *b)
{
    if (!a->name || !b->name || a->class != b->class)
        return false;
    for (size_t c = 0; c < program->n_chains; c++) {
        bool has_a = false, has_b = false;
        for (size_t k = 0; k < program->chains[c].n_uses; k++) {
            has_a |= program->chains[c].uses[k].op == a;
            has_b |= program->chains[c].uses[k].op == b;
        }
        if (has_a && has_b)
            return false;
    }
    if (a->class->same_draw)
        return a->class->same_draw(a->args, b->args);
    return hash_args(a) == hash_args(b);
}

/*
 * Names the instances: name=, or "<output>/<type>/<ordinal of the type in that chain>" in the alphabetically first
 * output that uses the operator; of a tuple its first output counts. So a Normalize more or less changes no crop, an
 * operator in two chains draws once, and an image is cropped alike with its boxes and without.
 */
static int name_instances(struct leat_program *program, struct leat_error *error)
{
    for (size_t o = 0; o < program->n_ops; o++) {
        struct leat_op *op = &program->ops[o];
        const char *best = NULL;
        unsigned ordinal = 0;
        for (size_t i = 0; i < program->n_chains; i++) {
            const struct leat_compiled_chain *c = &program->chains[i];
            unsigned before = 0;
            for (size_t k = 0; k < c->n_uses; k++) {
                if (c->uses[k].op == op && (!best || strcmp(c->name, best) < 0)) {
                    best = c->name;
                    ordinal = before;
                    break;
                }
                before += c->uses[k].op->class == op->class;
            }
        }
        char name[2 * MAX_NAME + 64];
        if (op->name)
            snprintf(name, sizeof name, "%s", op->name);
        else
            snprintf(name, sizeof name, "%s/%s/%u", best ? best : "", op->class->type, ordinal);
        op->instance = leat_hash64(name, strlen(name));
        for (size_t k = 0; k < o && (best || op->name); k++)
            if (program->ops[k].instance == op->instance && !may_share(program, &program->ops[k], op))
                return leat_fail(
                    error, LEAT_E_INVALID,
                    "Two operators of the program are both named \"%.128s\"; they would draw the same. Only "
                    "operators of one type and equal in what they draw share a name, in different chains.",
                    name);
    }
    return LEAT_OK;
}

/* ---- types ---- */

void leat_type_of_field(const struct leat_field *field, struct leat_type *type)
{
    memset(type, 0, sizeof *type);
    type->kind = field->kind;
    type->dtype = field->kind == LEAT_KIND_ARRAY ? field->dtype : LEAT_U8;
    if (field->kind != LEAT_KIND_ARRAY) {
        type->ndim = 1;
        type->shape[0] = -1;
        return;
    }
    type->ndim = field->ndim;
    bool fixed = true;
    for (unsigned i = 0; i < field->ndim; i++) {
        type->shape[i] = field->shape[i];
        fixed = fixed && field->shape[i] > 0 && field->shape[i] <= INT32_MAX;
    }
    bool whole = type->dtype <= LEAT_I64; /* the integers stand first in the enumeration */
    if (field->layout != LEAT_LAYOUT_NONE && whole)
        type->range = LEAT_RANGE_MAX;
    type->layout = field->layout;
    if (type->layout != LEAT_LAYOUT_NONE &&
        (field->ndim != 3 || !fixed || leat_type_channels(type) > LEAT_MAX_CHANNELS))
        type->layout = LEAT_LAYOUT_NONE;
}

static bool is_open(const struct leat_type *type)
{
    return leat_type_is_image(type) && (leat_type_height(type) < 0 || leat_type_width(type) < 0);
}

int leat_compiled_infer(const struct leat_program *program, struct leat_compiled *c, struct leat_error *error)
{
    struct leat_type type = c->in;
    c->codec = leat_codec_of(type.kind);
    for (size_t i = 0; i < c->n_uses; i++) {
        struct leat_use *use = &c->uses[i];
        const struct leat_place place = {c->face.name, use->op->class->type};
        use->in = type;
        int rc = leat_op_infer(use->op->class, use->op->args, &place, &type, &use->effect, error);
        if (!rc && use->op->class->pad && i + 1 < c->n_uses)
            rc = leat_fail(error, LEAT_E_TYPE, "%s in output '%s' stands last in its chain: put %s before it.",
                           place.type, place.output, c->uses[i + 1].op->class->type);
        if (rc)
            return rc;
        if (c->role == LEAT_ROLE_MASK && use->op->class->decodes) {
            type.gray = type.ids = true;
            type.dct_scaling = false;
            type.shape[2] = 1;
        }
        use->out = type;
        c->face.keyed |= use->op->class->random;
        if (type.codec) {
            c->codec = type.codec;
            c->face.decodes = true;
        }
        c->face.turns |= type.exif;
        c->face.lenient |= type.lenient;
    }
    c->out = type;
    if (is_open(&type) && !program->open) {
        int rc = leat_fail(error, LEAT_E_TYPE,
                           "Output '%s' ends in images of open size, which do not stack into a batch: put "
                           "Resize([height, width]), CenterCrop or "
                           "another crop after %s.",
                           c->face.name, c->uses[c->n_uses - 1].op->class->type);
        leat_error_at_sample(error, LEAT_NO_SAMPLE, c->face.name);
        return rc;
    }
    return LEAT_OK;
}

/* The path of a chain of operators whose types are known; `image`: it ends in one, whose axes are to be moved or
 * delivered. */
static int choose_path(struct leat_compiled *c, bool image, bool planar, const struct leat_kernels *kernels,
                       struct leat_error *error)
{
    if (leat_stages_compile(c->uses, c->n_uses, &c->in, planar, kernels, &c->stages, &c->n_stages))
        return fail_nomem(error);
    c->path = image && !(c->n_stages == 1 && c->stages[0].dense) ? LEAT_PATH_IMAGE : LEAT_PATH_MAP;
    if (c->path == LEAT_PATH_MAP && c->n_uses == 1 && c->uses[0].out.range == c->uses[0].in.range &&
        c->uses[0].op->class->converts && c->in.range == LEAT_RANGE_PLAIN) {
        c->path = LEAT_PATH_CONVERT;
        c->convert = kernels->convert(c->in.dtype, c->out.dtype);
    }
    return LEAT_OK;
}

/* One part of a chain with functions of the user's: its uses are set, and its types follow from its neighbours'. */
static int compile_part(struct leat_program *program, struct leat_compiled *part, bool planar, struct leat_error *error)
{
    bool image = leat_type_is_image(&part->out), moves = image && planar != (part->out.layout == LEAT_LAYOUT_CHW);
    bool works = false;
    for (size_t i = 0; i < part->n_uses; i++) {
        const struct leat_op_class *class = part->uses[i].op->class;
        works = works || class->move || class->map || class->filter || part->uses[i].in.kind != LEAT_KIND_ARRAY;
    }
    part->idle = !moves && !works;
    uint64_t bytes[] = {leat_type_bytes(&part->in), leat_type_bytes(&part->out)};
    for (int i = 0; i < 2; i++)
        if (bytes[i] != UINT64_MAX && bytes[i] > program->native_bytes)
            program->native_bytes = bytes[i];
    if (part->idle)
        return LEAT_OK;
    if (part->out.ndim && part->out.shape[0] < 0)
        return leat_fail(error, LEAT_E_TYPE,
                         "%s in output '%s' takes a value of varying size only as it is stored: put it first.",
                         part->native->op->class->label(part->native->op->args), part->face.name);
    part->elements = bytes[1] / leat_dtype_size(part->out.dtype);
    part->face.decodes = part->out.codec && part->in.kind != LEAT_KIND_ARRAY;
    if (!works && leat_dtype_size(part->out.dtype) > 1) { /* of bytes, a stage has kernels */
        part->path = LEAT_PATH_TURN;
        return LEAT_OK;
    }
    int rc = choose_path(part, image, planar, program->kernels, error);
    if (!rc && part->native)
        part->stages[part->n_stages - 1].stream = false; /* it is read at once */
    return rc;
}

static int compile_parts(struct leat_program *program, struct leat_compiled *c, bool planar, struct leat_error *error)
{
    size_t n = 1;
    for (size_t i = 0; i < c->n_uses; i++)
        n += c->uses[i].op->class->call != NULL;
    c->parts = leat_new_array(n, sizeof *c->parts);
    if (!c->parts)
        return fail_nomem(error);
    c->path = LEAT_PATH_NATIVE;
    c->n_parts = n;
    struct leat_use *use = c->uses, *end = c->uses + c->n_uses;
    for (size_t k = 0; k < n; k++) {
        struct leat_compiled *part = &c->parts[k];
        part->face.name = c->face.name;
        part->in = part->out = k ? use[-1].out : c->in;
        for (part->uses = use; use < end && !use->op->class->call; use++, part->n_uses++)
            part->out = use->out;
        part->native = use < end ? use++ : NULL;
        int rc = compile_part(program, part, part->native ? part->out.layout == LEAT_LAYOUT_CHW : planar, error);
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

void leat_compiled_pad(struct leat_compiled *c, const struct leat_op *op, const char *field)
{
    struct leat_pad pad;
    op->class->pad(op->args, field, &pad);
    c->pad_steps = (uint64_t)pad.n;
    c->pad_cuts = pad.cut;
    leat_values_convert(LEAT_F64, c->out.dtype, &pad.fill, c->pad_fill, 1);
}

/* Shape, strides and bytes of a row, and the path by which it is made. */
int leat_compiled_finish(struct leat_program *program, struct leat_compiled *c, struct leat_error *error)
{
    struct leat_output *face = &c->face;
    struct leat_type *t = &c->out;
    face->kind = t->kind;
    face->dtype = t->dtype;
    face->ndim = t->ndim;
    memcpy(face->shape, t->shape, sizeof face->shape);
    face->ragged = t->ndim && t->shape[0] < 0 && !is_open(t);
    face->in_place = c->in.kind == LEAT_KIND_ARRAY && !(c->in.ndim && c->in.shape[0] < 0);
    bool image = c->n_uses && leat_type_is_image(t), planar = t->ask == LEAT_ASK_NOTHING || t->ask == LEAT_ASK_NCHW;
    int64_t h = 0, w = 0, channels = 0;
    if (image) {
        h = leat_type_height(t);
        w = leat_type_width(t);
        channels = leat_type_channels(t);
        bool last = t->ask == LEAT_ASK_NHWC;
        face->shape[0] = last ? h : channels;
        face->shape[1] = last ? w : h;
        face->shape[2] = last ? channels : w;
    }
    uint64_t elements = 1;
    for (unsigned i = face->ndim; i-- > 0;) {
        face->strides[i] = (int64_t)elements;
        if ((face->shape[i] >= 0 && !leat_mul_u64(elements, (uint64_t)face->shape[i], &elements)) ||
            elements > UINT64_C(1) << 40)
            return leat_fail(error, LEAT_E_INVALID, "A row of output '%s' has more than 2^40 numbers.", face->name);
    }
    if (image && t->ask == LEAT_ASK_CHANNELS_LAST) {
        face->strides[0] = 1;
        face->strides[1] = w * channels;
        face->strides[2] = channels;
    }
    const struct leat_op *last = c->n_uses ? c->uses[c->n_uses - 1].op : NULL;
    if (last && last->class->pad) {
        leat_compiled_pad(c, last, c->field);
        elements /= c->pad_steps;
    }
    c->elements = elements;
    c->in_bytes = elements * leat_dtype_size(c->in.dtype); /* used where the number of elements does not change */
    face->row_bytes = elements * leat_dtype_size(t->dtype) * (c->pad_steps ? c->pad_steps : 1);
    if (!c->n_uses) {
        c->path = LEAT_PATH_COPY;
        return LEAT_OK;
    }
    for (size_t i = 0; i < c->n_uses; i++)
        if (c->uses[i].op->class->call)
            return compile_parts(program, c, planar, error);
    int rc = choose_path(c, image, planar, program->kernels, error);
    if (!rc && is_open(t)) /* the last stage leaves its result where a next one would find it */
        c->stages[c->n_stages - 1].last = c->stages[c->n_stages - 1].stream = false;
    return rc;
}

/* How many steps of a chain are measured. */
static size_t count_times(const struct leat_compiled *c)
{
    size_t n = (c->n_stages ? c->n_stages : 1) + c->face.decodes;
    for (size_t k = 0; k < c->n_parts; k++)
        n += c->parts[k].n_stages + c->parts[k].face.decodes + 1;
    return n;
}

/* Where each of them stands. */
static void place_times(struct leat_program *program, struct leat_compiled *c)
{
    size_t at = c->first_time = program->n_times;
    for (size_t k = 0; k < c->n_parts; k++) {
        c->parts[k].first_time = at;
        at += c->parts[k].n_stages + c->parts[k].face.decodes + 1;
    }
    program->n_times += count_times(c);
}

/* ---- outputs ---- */

static int find_field(const struct leat_field *fields, size_t n_fields, struct leat_compiled *c, const char *field,
                      struct leat_error *error)
{
    size_t f = 0;
    while (f < n_fields && strcmp(fields[f].name, field))
        f++;
    if (f == n_fields) {
        char list[512] = "";
        for (size_t i = 0; i < n_fields && strlen(list) + strlen(fields[i].name) + 3 < sizeof list; i++) {
            strcat(list, i ? ", " : "");
            strcat(list, fields[i].name);
        }
        const char *why =
            strcmp(field, "label") != 0 ? "" : " In a folder of photos labels come from sub-folders, one per class.";
        return leat_fail(error, LEAT_E_NOT_FOUND,
                         "Output '%s' is made of field '%.64s', which the data set does not have; it has: %s.%s",
                         c->face.name, field, list, why);
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
        return fail_nomem(error);
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

/* An ordinary chain is what its output is. */
static void one_output(struct leat_compiled_chain *chain, const struct leat_compiled *c)
{
    chain->name = c->face.name;
    chain->uses = c->uses;
    chain->n_uses = c->n_uses;
    chain->first = c->index;
    chain->face = (struct leat_program_chain){
        .n_fields = 1, .n_outputs = 1, .fields = &c->face.field, .decodes = &c->face.decodes, .outputs = &c->index};
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
    if (!chain->geometry)
        return LEAT_OK;
    char text[MAX_NAME + 16];
    snprintf(text, sizeof text, "%s.geometry", chain->name);
    chain->geometry_name = leat_strdup(text);
    struct leat_compiled *c;
    return chain->geometry_name ? add_output(program, chain->geometry_name, &c, error) : fail_nomem(error);
}

/* The result of functions that take output `input`: its type is what the program says. */
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

/* Functions that take what those of another output take. */
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
    chain->geometry = json_is_true(json_object_get(object, "geometry"));
    if (names || chain->geometry) {
        chain->face.tuple = true;
        if (!names && (json_object_set_new(object, "fields", json_pack("[O]", field)) ||
                       json_object_set_new(object, "outputs", json_pack("[s]", name))))
            return fail_nomem(error);
        int rc = parse_tuple(program, fields, n_fields, chain, object, json_object_get(object, "fields"), error);
        return rc ? rc : parse_chain(program, name, list, &chain->uses, &chain->n_uses, error);
    }
    struct leat_compiled *c;
    int rc = add_output(program, name, &c, error);
    rc = rc ? rc : find_field(fields, n_fields, c, json_string_value(field), error);
    rc = rc ? rc : parse_chain(program, name, list, &c->uses, &c->n_uses, error);
    one_output(chain, c);
    c->face.hidden = calls != NULL;
    return rc || !calls ? rc : parse_calls(program, name, c->index, calls, error);
}

static int parse_outputs(struct leat_program *program, const struct leat_field *fields, size_t n_fields,
                         struct leat_error *error)
{
    json_t *table = json_object_get(program->json, "outputs"), *object;
    if (!json_is_object(table) || !json_object_size(table) || json_object_size(table) > MAX_OUTPUTS)
        return leat_fail(error, LEAT_E_INVALID, "The program needs \"outputs\", an object of 1 to %d outputs by name.",
                         MAX_OUTPUTS);
    const char *name;
    size_t n = 0;
    json_object_foreach(table, name, object)
    {
        size_t of_tuple = json_array_size(json_object_get(object, "fields"));
        n += (of_tuple ? of_tuple : 1) + 1 + json_array_size(json_object_get(object, "calls")); /* 1: a geometry */
    }
    if (n > 2 * MAX_OUTPUTS)
        return leat_fail(error, LEAT_E_INVALID, "The program has more than %d outputs.", MAX_OUTPUTS);
    program->outputs = leat_new_array(n, sizeof *program->outputs);
    program->chains = leat_new_array(json_object_size(table), sizeof *program->chains);
    if (!program->outputs || !program->chains)
        return fail_nomem(error);
    json_object_foreach(table, name, object)
    {
        int rc = parse_output(program, fields, n_fields, name, object, error);
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

/* Without JSON: every field that is not derived, as stored. */
static int all_fields(struct leat_program *program, const struct leat_field *fields, size_t n_fields,
                      struct leat_error *error)
{
    program->outputs = leat_new_array(n_fields ? n_fields : 1, sizeof *program->outputs);
    program->names = leat_new_array(n_fields + 1, sizeof *program->names);
    program->chains = leat_new_array(n_fields ? n_fields : 1, sizeof *program->chains);
    if (!program->outputs || !program->names || !program->chains)
        return fail_nomem(error);
    for (size_t i = 0; i < n_fields; i++) {
        if (fields[i].flags & LEAT_FIELD_DERIVED)
            continue;
        struct leat_compiled *c = &program->outputs[program->n_outputs];
        c->face.name = program->names[program->n_outputs] = leat_strdup(fields[i].name);
        if (!c->face.name)
            return fail_nomem(error);
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

/* ---- the whole ---- */

static uint64_t hash_text(uint64_t hash, const char *text)
{
    return leat_key_mix(hash, leat_hash64(text, strlen(text)));
}

/* What a tuple's outputs do not say of it. */
static uint64_t hash_tuple(const struct leat_program *program, const struct leat_compiled_chain *chain, uint64_t hash)
{
    for (size_t k = 0; k < chain->n_uses; k++) {
        const struct leat_op *op = chain->uses[k].op;
        hash = leat_key_mix(leat_key_mix(hash_text(hash, op->class->type), op->instance), hash_args(op));
    }
    for (size_t i = 0; i < chain->face.n_outputs; i++) {
        const struct leat_compiled *c = &program->outputs[chain->first + i];
        hash = leat_key_mix(hash, (uint64_t)c->role << 1 | c->normalized);
    }
    return leat_key_mix(hash, chain->geometry);
}

static uint64_t hash_program(const struct leat_program *program, const struct leat_field *fields)
{
    uint64_t hash = leat_key_mix(0, 1); /* of what operators compute: to be changed when that changes */
    for (size_t i = 0; i < program->n_outputs; i++) {
        const struct leat_compiled *c = &program->outputs[i];
        if (c->face.called) /* by functions that are not known here */
            continue;
        hash = hash_text(hash_text(hash, c->face.name), fields[c->face.field].name);
        uint64_t numbers[4 + LEAT_MAX_DIMS] = {c->in.kind, c->in.dtype, fields[c->face.field].layout, c->in.ndim};
        for (unsigned d = 0; d < c->in.ndim; d++)
            numbers[4 + d] = (uint64_t)c->in.shape[d];
        hash = leat_key_mix(hash, leat_hash64(numbers, sizeof numbers));
        for (size_t k = 0; k < c->n_uses; k++) {
            const struct leat_op *op = c->uses[k].op;
            hash = leat_key_mix(hash_text(hash, op->class->type), op->instance);
            hash = leat_key_mix(hash, hash_args(op));
        }
    }
    for (size_t i = 0; i < program->n_chains; i++)
        if (program->chains[i].face.tuple)
            hash = hash_tuple(program, &program->chains[i], hash);
    return hash;
}

static int compile(struct leat_program *program, const struct leat_field *fields, size_t n_fields,
                   struct leat_error *error)
{
    int rc;
    if (program->json) {
        rc = parse_operators(program, error);
        rc = rc ? rc : parse_outputs(program, fields, n_fields, error);
    } else {
        rc = all_fields(program, fields, n_fields, error);
    }
    rc = rc ? rc : name_instances(program, error);
    for (size_t i = 0; !rc && i < program->n_chains; i++) {
        struct leat_compiled_chain *chain = &program->chains[i];
        struct leat_compiled *c = &program->outputs[chain->first];
        if (chain->face.tuple) {
            rc = leat_tuple_compile(program, chain, fields, error);
        } else {
            rc = leat_compiled_infer(program, c, error);
            rc = rc ? rc : leat_compiled_finish(program, c, error);
        }
        for (; !rc && c < program->outputs + chain->first + chain->face.n_outputs; c++) {
            chain->face.keyed |= c->face.keyed;
            program->decodes |= c->face.decodes;
            place_times(program, c);
        }
    }
    if (!rc)
        program->hash = hash_program(program, fields);
    return rc;
}

/* `json` is consumed. */
static int compile_one(const struct leat_field *fields, size_t n_fields, json_t *json,
                       const struct leat_native *functions, size_t n_functions, bool open, struct leat_program **out,
                       struct leat_error *error)
{
    *out = NULL;
    struct leat_program *program = leat_new(struct leat_program);
    if (!program) {
        json_decref(json);
        return fail_nomem(error);
    }
    program->json = json;
    program->kernels = leat_kernels(leat_cpu_isa());
    program->open = open;
    program->functions = leat_new_array(n_functions + 1, sizeof *program->functions);
    program->n_functions = n_functions;
    if (program->functions && n_functions)
        memcpy(program->functions, functions, n_functions * sizeof *functions);
    int rc = program->functions ? compile(program, fields, n_fields, error) : fail_nomem(error);
    if (rc)
        leat_program_free(program);
    else
        *out = program;
    return rc;
}

/* Each combination of sizes that are drawn per batch. */
static int compile_variants(struct leat_variants *v, const struct leat_field *fields, size_t n_fields,
                            const struct leat_native *functions, size_t n_functions, struct leat_program **out,
                            struct leat_error *error)
{
    size_t n = leat_variants_count(v), made = 0;
    struct leat_program **programs = leat_new_array(n, sizeof *programs);
    int rc = programs ? LEAT_OK : fail_nomem(error);
    for (; !rc && made < n; made += !rc) {
        json_t *json = leat_variants_text(v, made);
        rc = json ? compile_one(fields, n_fields, json, functions, n_functions, false, &programs[made], error)
                  : fail_nomem(error);
    }
    rc = rc ? rc : leat_variants_settle(v, programs, out, error);
    for (size_t i = 0; rc && i < made; i++)
        leat_program_free(programs[i]);
    if (rc)
        leat_variants_free(v);
    leat_free(programs);
    return rc;
}

int leat_program_compile(const struct leat_field *fields, size_t n_fields, const char *text,
                         const struct leat_native *functions, size_t n_functions, bool open, struct leat_program **out,
                         struct leat_error *error)
{
    *out = NULL;
    json_error_t where;
    json_t *json = text ? json_loads(text, JSON_REJECT_DUPLICATES, &where) : NULL;
    struct leat_variants *variants = NULL;
    int rc = LEAT_OK;
    if (text && !json_is_object(json))
        rc = leat_fail(error, LEAT_E_INVALID, "The program is not a JSON object: line %d, column %d: %s.", where.line,
                       where.column, json ? "not an object" : where.text);
    rc = rc ? rc : leat_variants_find(json, &variants, error);
    if (!rc && variants && open)
        rc = leat_fail(error, LEAT_E_UNSUPPORTED,
                       "A size per batch needs the batches of a loader, and stands before functions in Python.");
    if (!rc && !variants)
        return compile_one(fields, n_fields, json, functions, n_functions, open, out, error);
    json_decref(json);
    if (!rc)
        return compile_variants(variants, fields, n_fields, functions, n_functions, out, error);
    leat_variants_free(variants);
    return rc;
}

void leat_program_free(struct leat_program *program)
{
    if (!program)
        return;
    for (size_t i = 0; program->variants && i < leat_variants_count(program->variants); i++)
        if (leat_variants_get(program->variants, i) != program)
            leat_program_free(leat_variants_get(program->variants, i));
    leat_variants_free(program->variants);
    for (size_t i = 0; i < program->n_outputs; i++) {
        struct leat_compiled *c = &program->outputs[i];
        leat_stages_free(c->stages, c->n_stages);
        for (size_t k = 0; k < c->n_parts; k++)
            leat_stages_free(c->parts[k].stages, c->parts[k].n_stages);
        leat_free(c->parts);
        leat_free(c->uses);
    }
    for (size_t i = 0; i < program->n_chains; i++) {
        struct leat_compiled_chain *chain = &program->chains[i];
        if (chain->face.tuple)
            leat_free(chain->uses);
        leat_free(chain->fields);
        leat_free(chain->outputs);
        leat_free(chain->decodes);
        leat_free(chain->geometry_name);
    }
    leat_free(program->chains);
    for (size_t i = 0; i < program->n_ops; i++) {
        if (program->ops[i].args && program->ops[i].class->end)
            program->ops[i].class->end(program->ops[i].args);
        leat_free(program->ops[i].args);
    }
    leat_free(program->functions);
    for (size_t i = 0; program->names && program->names[i]; i++)
        leat_free(program->names[i]);
    leat_free(program->names);
    leat_free(program->outputs);
    leat_free(program->ops);
    json_decref(program->json);
    leat_free(program);
}
