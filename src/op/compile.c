/*
 * Compiling a program: JSON to operators (compile_operators.c) and outputs (compile_outputs.c), chains to types, types
 * to the path by which rows are made.
 *
 * Everything about a program that can be wrong is found here, and reported with the names of output and operator; the
 * rows themselves can only fail on a photo that does not decode or is too small for its crop.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "kernels/values.h"
#include "op/branch.h"
#include "op/program_internal.h"

int leat_compile_no_memory(struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "No memory to compile the program.");
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
    type->item = field->item;
    type->columns = field->columns;
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
    if (type->layout == LEAT_LAYOUT_NONE || field->ndim != 3)
        type->layout = LEAT_LAYOUT_NONE;
    else if (leat_type_height(type) == -1 && leat_type_width(type) == -1) /* of open size: no field of a data set */
        fixed = leat_type_channels(type) > 0;
    if (!fixed || leat_type_channels(type) > LEAT_MAX_CHANNELS)
        type->layout = LEAT_LAYOUT_NONE;
}

bool leat_type_is_open(const struct leat_type *type)
{
    return leat_type_is_image(type) && (leat_type_height(type) < 0 || leat_type_width(type) < 0);
}

/* Names of outputs, or of their fields, as they are written in Python. */
static void write_names(const struct leat_program *program, const struct leat_compiled_chain *chain, bool fields,
                        char *text, size_t room)
{
    const size_t n = chain->face.n_fields;
    size_t at = 0;
    for (size_t i = 0; i < n && at < room; i++) {
        const struct leat_compiled *c = &program->outputs[chain->first + i];
        at += (size_t)snprintf(text + at, room - at, "%s\"%s\"%s",
                               i       ? ", "
                               : n > 1 ? "("
                                       : "",
                               fields ? c->field : c->face.name, i + 1 == n && n > 1 ? ")" : "");
    }
}

/* Images of open size that no operator brings to one: the place for a resize, and the forms that can be asked for. */
static int fail_open(const struct leat_program *program, const struct leat_compiled *c, struct leat_error *error)
{
    const struct leat_compiled_chain *chain = &program->chains[c->face.chain];
    const struct leat_use *last = c->uses;
    char names[300] = "", fields[300] = "";
    for (size_t i = 0; i < c->n_uses; i++)
        if (leat_use_moves(&c->uses[i]) || c->uses[i].op->class->turn || c->uses[i].op->class->choose)
            last = &c->uses[i];
    write_names(program, chain, false, names, sizeof names);
    write_names(program, chain, true, fields, sizeof fields);
    int rc = leat_fail(error, LEAT_E_TYPE,
                       "Output '%s' ends in images of open size, which do not stack into a batch: put "
                       "Resize([height, width]), CenterCrop or another crop after %s, or ask for a list with "
                       "outputs={%s: leat.Out(%s, chain, stack=\"list\")}, or for padding with stack=\"pad\".",
                       c->face.name, last->op->class->type, names, fields);
    leat_error_at_sample(error, LEAT_NO_SAMPLE, c->face.name);
    return rc;
}

int leat_compiled_infer(const struct leat_program *program, struct leat_compiled *c, struct leat_error *error)
{
    struct leat_type type = c->in;
    c->gather = NULL;
    c->codec = leat_codec_of(type.kind);
    const bool told = program->open == LEAT_OPEN_ALONE; /* the draws: leat_chain_apply_image */
    for (size_t i = 0; i < c->n_uses && !c->pixels && !told; i++)
        for (const struct leat_op *op = c->uses[i].op, *end = op + op->below; op <= end; op++)
            if (op->class->aim || (op->class->joint && op->depth))
                return leat_fail(error, LEAT_E_TYPE,
                                 "%s in output '%s' %s by boxes: give its chain to a tuple of fields, such as "
                                 "{(\"image\", \"boxes\", \"label\"): [...]}.",
                                 op->class->type, c->face.name, op->class->aim ? "is drawn" : "goes");
    for (size_t i = 0; i < c->n_uses; i++) {
        struct leat_use *use = &c->uses[i];
        const struct leat_place place = {c->face.name, use->op->class->type};
        use->in = type;
        int rc = use->op->class->choose
                     ? leat_branch_infer(use, c->role, &place, &type, error)
                     : leat_op_infer(use->op->class, use->op->args, &place, &type, &use->effect, error);
        if (!rc && use->op->class->pad && i + 1 < c->n_uses)
            rc = leat_fail(error, LEAT_E_TYPE, "%s in output '%s' stands last in its chain: put %s before it.",
                           place.type, place.output, c->uses[i + 1].op->class->type);
        if (rc)
            return rc;
        if (c->role == LEAT_ROLE_MASK && use->op->class->decodes) {
            if (type.dtype != LEAT_U8 || type.alpha || type.icc)
                return leat_fail(error, LEAT_E_TYPE,
                                 "Decode in output '%s' makes a mask of class ids: it takes neither dtype, alpha, icc "
                                 "nor mode RGBA.",
                                 place.output);
            type.gray = type.ids = true;
            type.dct_scaling = false;
            type.shape[2] = 1;
        }
        use->out = type;
        for (size_t k = 0; k <= use->op->below; k++)
            c->face.keyed |= use->op[k].class->random;
        if (type.codec) {
            c->codec = type.codec;
            c->face.decodes = true;
        }
        if (leat_op_cuts(use->op->class))
            c->gather = use;
        c->face.turns |= type.exif;
        c->face.lenient |= type.lenient;
    }
    c->out = type;
    return leat_type_is_open(&type) && program->open != LEAT_OPEN_ALONE && !c->stacked ? fail_open(program, c, error)
                                                                                       : LEAT_OK;
}

/* The path of a chain of operators whose types are known; `image`: it ends in one, whose axes are to be moved or
 * delivered. */
static int choose_path(struct leat_compiled *c, bool image, bool planar, const struct leat_kernels *kernels,
                       struct leat_error *error)
{
    const struct leat_codec *codec = c->n_uses ? c->uses[0].out.codec : NULL;
    size_t from = c->gather ? (size_t)(c->gather - c->uses) + 1 : 0;
    if (codec && !codec->image) {
        c->path = LEAT_PATH_SLICES;
        return c->n_uses == 1 || !leat_stages_compile(c->uses + 1, c->n_uses - 1, &c->uses[0].out,
                                                      LEAT_STAGES_DELIVER_PIXELS, kernels, &c->stages, &c->n_stages)
                   ? LEAT_OK
                   : leat_compile_no_memory(error);
    }
    if (leat_stages_compile(c->uses + from, c->n_uses - from, c->gather ? &c->gather->out : &c->in,
                            planar ? LEAT_STAGES_DELIVER_PLANES : LEAT_STAGES_DELIVER_PIXELS, kernels, &c->stages,
                            &c->n_stages))
        return leat_compile_no_memory(error);
    const bool open = leat_type_is_open(&c->in), dense = c->n_stages == 1 && c->stages[0].dense && !open;
    c->path = image && (c->gather || !dense) ? LEAT_PATH_IMAGE : LEAT_PATH_MAP;
    if (c->path == LEAT_PATH_MAP && c->n_uses == 1 && c->uses[0].out.range == c->uses[0].in.range &&
        c->uses[0].op->class->converts && c->in.range == LEAT_RANGE_PLAIN) {
        c->path = LEAT_PATH_CONVERT;
        c->convert = kernels->convert(c->in.dtype, c->out.dtype);
    }
    return LEAT_OK;
}

/* Whether some image of the chain, or in a branch of it, is of open size. */
static bool has_open_images(const struct leat_use *uses, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const struct leat_use *use = &uses[k];
        if (leat_type_is_open(&use->out))
            return true;
        for (size_t i = 0; use->branch && i < use->branch->n; i++)
            if (has_open_images(use->branch->alternatives[i].uses, use->branch->alternatives[i].n_uses))
                return true;
    }
    return false;
}

/* One part of a chain with functions of the user's: its uses are set, and its types follow from its neighbours'. */
static int compile_part(struct leat_program *program, struct leat_compiled *part, bool planar, struct leat_error *error)
{
    bool image = leat_type_is_image(&part->out), moves = image && planar != (part->out.layout == LEAT_LAYOUT_CHW);
    bool works = false;
    for (size_t i = 0; i < part->n_uses; i++) {
        const struct leat_op_class *class = part->uses[i].op->class;
        works = works || leat_op_makes_values(class) || part->uses[i].in.kind != LEAT_KIND_ARRAY;
    }
    part->idle = !moves && !works;
    uint64_t bytes[] = {leat_type_bytes(&part->in), leat_type_bytes(&part->out)};
    for (int i = 0; i < 2; i++)
        if (bytes[i] != UINT64_MAX && bytes[i] > program->native_bytes)
            program->native_bytes = bytes[i];
    if (part->idle)
        return LEAT_OK;
    const bool varies = part->out.ndim && part->out.shape[0] < 0;
    if (varies && ((part->out.ndim > 1 && !part->out.columns) || part->out.kind != LEAT_KIND_ARRAY || part->out.codec))
        return leat_fail(error, LEAT_E_TYPE,
                         "%s in output '%s' takes a value of varying size only as it is stored: put it first.",
                         part->native->op->class->label(part->native->op->args), part->face.name);
    part->elements = varies ? 0 : bytes[1] / leat_dtype_size(part->out.dtype);
    part->face.decodes = part->out.codec && part->in.kind != LEAT_KIND_ARRAY;
    part->face.grows = !part->face.decodes && has_open_images(part->uses, part->n_uses);
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
        n += leat_op_calls(c->uses[i].op->class);
    c->parts = leat_new_array(n, sizeof *c->parts);
    if (!c->parts)
        return leat_compile_no_memory(error);
    c->path = LEAT_PATH_NATIVE;
    c->n_parts = n;
    if (leat_compiled_is_list(c)) {
        c->face.grows = true;
        program->native_bytes = program->native_bytes > LEAT_LIST_BYTES ? program->native_bytes : LEAT_LIST_BYTES;
    }
    struct leat_use *use = c->uses, *end = c->uses + c->n_uses;
    for (size_t k = 0; k < n; k++) {
        struct leat_compiled *part = &c->parts[k];
        part->face.name = c->face.name;
        part->in = part->out = k ? use[-1].out : c->in;
        for (part->uses = use; use < end && !leat_op_calls(use->op->class); use++, part->n_uses++)
            part->out = use->op->class->pad ? part->out : use->out;
        part->native = use < end ? use++ : NULL;
        int rc = compile_part(program, part, part->native ? part->out.layout == LEAT_LAYOUT_CHW : planar, error);
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

/* The stages of each sample whose image becomes a part of one, or of the image that several are made of. */
static int compile_gathered(const struct leat_program *program, struct leat_compiled *c, struct leat_error *error)
{
    struct leat_compiled *part = c->parts = leat_new_array(1, sizeof *c->parts);
    if (!part)
        return leat_compile_no_memory(error);
    c->n_parts = 1;
    part->face.name = c->face.name;
    part->face.decodes = c->face.decodes;
    part->uses = c->uses;
    part->n_uses = (size_t)(c->gather - c->uses) + (c->gather->op->class->gathers != 0);
    part->path = LEAT_PATH_IMAGE;
    part->in = c->in;
    part->out = c->gather->op->class->gathers ? c->gather->out : c->gather->in;
    return leat_stages_compile(part->uses, part->n_uses, &part->in, LEAT_STAGES_HAND_OVER, program->kernels,
                               &part->stages, &part->n_stages)
               ? leat_compile_no_memory(error)
               : LEAT_OK;
}

int leat_compiled_pad(struct leat_compiled *c, const struct leat_op *op, struct leat_error *error)
{
    struct leat_pad pad;
    op->class->pad(op->args, c->field, &pad);
    c->pad_steps = (uint64_t)pad.n;
    c->pad_cuts = pad.cut;
    leat_values_convert(LEAT_F64, c->out.dtype, &pad.fill, c->pad_fill, 1);
    return leat_check_held(&(struct leat_place){c->face.name, op->class->type}, "rows", c->out.dtype, pad.fill, error);
}

/* Shape, strides and bytes of a row, and the path by which it is made. */
int leat_compiled_finish(struct leat_program *program, struct leat_compiled *c, struct leat_error *error)
{
    struct leat_output *face = &c->face;
    struct leat_type *t = &c->out;
    face->kind = t->kind;
    face->dtype = t->dtype;
    face->item = t->item;
    face->columns = t->columns;
    face->ndim = t->ndim;
    memcpy(face->shape, t->shape, sizeof face->shape);
    face->ragged = t->ndim && t->shape[0] < 0 && !leat_type_is_open(t);
    for (size_t i = 0; i < c->n_uses; i++)
        c->bounded |= c->uses[i].op->class->call_some && c->uses[i].out.shape[0] < 0;
    face->bounded = c->bounded && face->ragged;
    if (face->bounded && face->hidden)
        return leat_fail(error, LEAT_E_TYPE,
                         "A function cannot take output '%s', whose rows are as long as their values say: put PadTo "
                         "before it.",
                         face->name);
    face->in_place = c->in.kind == LEAT_KIND_ARRAY && !(c->in.ndim && c->in.shape[0] < 0);
    face->grows = face->in_place && has_open_images(c->uses, c->n_uses);
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
        int rc = leat_compiled_pad(c, last, error);
        if (rc)
            return rc;
        elements /= c->pad_steps;
    }
    c->elements = elements;
    c->in_bytes = c->in.columns ? leat_type_step(&c->in)
                                : elements * leat_dtype_size(c->in.dtype); /* used if their number does not change */
    face->row_bytes = elements * leat_dtype_size(t->dtype) * (c->pad_steps ? c->pad_steps : 1);
    if (!c->n_uses) {
        c->path = LEAT_PATH_COPY;
        return LEAT_OK;
    }
    for (size_t i = 0; i < c->n_uses; i++)
        if (leat_op_calls(c->uses[i].op->class))
            return compile_parts(program, c, planar, error);
    int rc = choose_path(c, image, planar, program->kernels, error);
    if (!rc && c->gather)
        rc = compile_gathered(program, c, error);
    if (!rc && leat_type_is_open(t)) /* the last stage leaves its result at the place of a next one's input */
        leat_stages_hand_over(c->stages, c->n_stages);
    return rc;
}

/* The number of steps of a chain that are measured. */
static size_t count_times(const struct leat_compiled *c)
{
    size_t n = (c->n_stages ? c->n_stages : 1) + leat_compiled_decodes(c);
    for (size_t k = 0; k < c->n_parts; k++)
        n += c->parts[k].n_stages + c->parts[k].face.decodes + 1;
    return n;
}

/* The place of each of them. */
static void place_times(struct leat_program *program, struct leat_compiled *c)
{
    size_t at = c->first_time = program->n_times;
    at += c->gather ? c->n_stages : 0;
    for (size_t k = 0; k < c->n_parts; k++) {
        c->parts[k].first_time = at;
        at += c->parts[k].n_stages + c->parts[k].face.decodes + 1;
    }
    program->n_times += count_times(c);
}

/* ---- the whole ---- */

/* Takes the operators that are not for these epochs out of the chains. */
static void leave_out(struct leat_program *program)
{
    for (size_t i = 0; i < program->n_chains; i++) {
        struct leat_compiled_chain *chain = &program->chains[i];
        size_t n = 0, n_cut = chain->n_cut;
        for (size_t k = 0; k < chain->n_uses; k++)
            if (!chain->uses[k].op->left_out)
                chain->uses[n++] = chain->uses[k];
            else if (n_cut != SIZE_MAX && k < n_cut)
                chain->n_cut--;
        chain->n_uses = n;
        if (!chain->face.tuple)
            program->outputs[chain->first].n_uses = n;
    }
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    return leat_key_mix(hash, leat_hash64(text, strlen(text)));
}

/* The facts of a tuple that its outputs do not give. */
static uint64_t hash_tuple(const struct leat_program *program, const struct leat_compiled_chain *chain, uint64_t hash)
{
    for (size_t k = 0; k < chain->n_uses; k++)
        hash = leat_op_hash(chain->uses[k].op, hash);
    for (size_t i = 0; i < chain->face.n_outputs; i++) {
        const struct leat_compiled *c = &program->outputs[chain->first + i];
        hash = leat_key_mix(hash, (uint64_t)c->role << 1 | c->normalized);
        if (c->n_pairs)
            hash = leat_key_mix(hash, leat_hash64(c->pairs, 2 * c->n_pairs * sizeof *c->pairs));
    }
    return leat_key_mix(hash, chain->geometry);
}

static uint64_t hash_program(const struct leat_program *program, const struct leat_field *fields)
{
    uint64_t hash = leat_key_mix(0, 1); /* the version of the operators' results: to be changed when these change */
    for (size_t i = 0; i < program->n_outputs; i++) {
        const struct leat_compiled *c = &program->outputs[i];
        if (c->face.called) /* by functions that are not known here */
            continue;
        hash = hash_text(hash_text(hash, c->face.name), fields[c->face.field].name);
        uint64_t numbers[4 + LEAT_MAX_DIMS] = {c->in.kind, c->in.dtype, fields[c->face.field].layout, c->in.ndim};
        for (unsigned d = 0; d < c->in.ndim; d++)
            numbers[4 + d] = (uint64_t)c->in.shape[d];
        hash = leat_key_mix(hash, leat_hash64(numbers, sizeof numbers));
        for (size_t k = 0; k < c->n_uses; k++)
            hash = leat_op_hash(c->uses[k].op, hash);
    }
    for (size_t i = 0; i < program->n_chains; i++)
        if (program->chains[i].face.tuple)
            hash = hash_tuple(program, &program->chains[i], hash);
    return hash;
}

/* The only operator of a chain, if it makes two outputs and is the library's. */
static const struct leat_use *only_native(const struct leat_compiled *c)
{
    const bool alone = c->path == LEAT_PATH_NATIVE && !c->codec && !c->face.ragged && !c->pad_steps &&
                       !c->face.called && c->n_parts == 2 && c->parts[0].idle && c->parts[1].idle &&
                       c->in.shape[0] >= 0 && c->in.shape[0] <= LEAT_MOST_PAIRED;
    return alone && c->parts->native && c->parts->native->op->class->call_both ? c->parts->native : NULL;
}

/* The last operator of a chain on lists of any length, likewise. */
static const struct leat_use *last_of_list(const struct leat_compiled *c)
{
    const bool last = leat_compiled_is_list(c) && c->face.ragged && !c->face.called && c->parts[c->n_parts - 1].idle;
    const struct leat_use *use = last ? c->parts[c->n_parts - 2].native : NULL;
    return use && use->op->class->call_both ? use : NULL;
}

static bool same_before(const struct leat_compiled *c, const struct leat_compiled *d)
{
    size_t k = 0;
    while (k + 1 < c->n_uses && k + 1 < d->n_uses && c->uses[k].op == d->uses[k].op)
        k++;
    return c->n_uses == d->n_uses && k + 1 == c->n_uses;
}

static const struct leat_use *maker_of(const struct leat_compiled *c)
{
    const struct leat_use *use = only_native(c);
    return use ? use : last_of_list(c);
}

/* The outputs that are the labels of others, made of the same value with the same draws. */
static void find_labels(struct leat_program *program)
{
    for (struct leat_compiled *c = program->outputs; c < program->outputs + program->n_outputs; c++) {
        const struct leat_use *use = maker_of(c), *other;
        for (struct leat_compiled *d = c + 1; use && d < program->outputs + program->n_outputs; d++)
            if ((other = maker_of(d)) && same_before(c, d) && !c->labels && !c->beside && !d->beside &&
                !d->face.hidden && !c->face.hidden && d->face.field == c->face.field &&
                other->op->class == use->op->class && other->op->instance == use->op->instance &&
                use->op->class->pairs(use->op->args, other->op->args)) {
                c->labels = d;
                d->beside = true;
            }
    }
}

static int compile(struct leat_program *program, const struct leat_field *fields, size_t n_fields,
                   struct leat_error *error)
{
    int rc;
    if (program->json) {
        rc = leat_parse_operators(program, error);
        rc = rc ? rc : leat_parse_outputs(program, fields, n_fields, error);
    } else {
        rc = leat_all_fields(program, fields, n_fields, error);
    }
    rc = rc ? rc : leat_name_instances(program, error);
    leave_out(program);
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
        find_labels(program);
    if (!rc)
        program->hash = hash_program(program, fields);
    return rc;
}

/* `json` is consumed. */
static int compile_one(const struct leat_field *fields, size_t n_fields, json_t *json,
                       const struct leat_native *functions, size_t n_functions, enum leat_open open,
                       struct leat_program **out, struct leat_error *error)
{
    *out = NULL;
    struct leat_program *program = leat_new(struct leat_program);
    if (!program) {
        json_decref(json);
        return leat_compile_no_memory(error);
    }
    program->json = json;
    program->kernels = leat_kernels(leat_cpu_isa());
    program->open = open;
    program->functions = leat_new_array(n_functions + 1, sizeof *program->functions);
    program->n_functions = n_functions;
    if (program->functions && n_functions)
        memcpy(program->functions, functions, n_functions * sizeof *functions);
    int rc = program->functions ? compile(program, fields, n_fields, error) : leat_compile_no_memory(error);
    if (rc)
        leat_program_free(program);
    else
        *out = program;
    return rc;
}

/* Each combination of sizes that are drawn per batch. */
static int compile_variants(struct leat_variants *v, const struct leat_field *fields, size_t n_fields,
                            const struct leat_native *functions, size_t n_functions, enum leat_open open,
                            struct leat_program **out, struct leat_error *error)
{
    size_t n = leat_variants_count(v), made = 0;
    struct leat_program **programs = leat_new_array(n, sizeof *programs);
    int rc = programs ? LEAT_OK : leat_compile_no_memory(error);
    for (; !rc && made < n; made += !rc) {
        json_t *json = leat_variants_text(v, made);
        rc = json ? compile_one(fields, n_fields, json, functions, n_functions, open, &programs[made], error)
                  : leat_compile_no_memory(error);
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
                         const struct leat_native *functions, size_t n_functions, enum leat_open open,
                         struct leat_program **out, struct leat_error *error)
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
    if (!rc && variants && open == LEAT_OPEN_ALONE)
        rc = leat_fail(error, LEAT_E_UNSUPPORTED,
                       "A size per batch, and operators for some epochs, need the batches of a loader, and stand "
                       "before functions in Python.");
    if (!rc && !variants)
        return compile_one(fields, n_fields, json, functions, n_functions, open, out, error);
    json_decref(json);
    if (!rc)
        return compile_variants(variants, fields, n_fields, functions, n_functions, open, out, error);
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
        leat_uses_free(c->uses, c->n_uses);
        leat_free(c->pairs);
    }
    for (size_t i = 0; i < program->n_chains; i++) {
        struct leat_compiled_chain *chain = &program->chains[i];
        if (chain->face.tuple)
            leat_free(chain->uses);
        leat_free(chain->fields);
        leat_free(chain->outputs);
        leat_free(chain->decodes);
        leat_free(chain->geometry_name);
        leat_free(chain->sizes_name);
    }
    leat_free(program->chains);
    for (size_t i = 0; i < program->n_ops; i++) {
        if (program->ops[i].args && program->ops[i].class->end)
            program->ops[i].class->end(program->ops[i].args);
        leat_free(program->ops[i].args);
        leat_free(program->ops[i].alternatives);
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
