/*
 * Compiling the chain of a tuple (tuple.c): the role of each field in it, the operators that concern it, and whether
 * they can stand so.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/jpeg/card_photo.h"
#include "kernels/values.h"
#include "op/branch.h"
#include "op/joint.h"
#include "op/mix.h"
#include "op/program_internal.h"

static int misfit(const struct leat_compiled_chain *chain, const struct leat_op_class *class, const char *why,
                  struct leat_error *error)
{
    int rc = leat_fail(error, LEAT_E_TYPE, "%s in the chain of output '%s' %s.", class->type, chain->name, why);
    leat_error_at_sample(error, LEAT_NO_SAMPLE, chain->name);
    return rc;
}

/* The role of a field in the tuple, from its kind. */
static int take_field(struct leat_compiled_chain *chain, struct leat_compiled *c, const struct leat_field *field,
                      struct leat_error *error)
{
    if (field->columns)
        return leat_fail(error, LEAT_E_TYPE, "Field '%s' has sparse rows: give it a chain of its own.", c->field);
    c->role = field->role;
    c->normalized = field->normalized;
    const struct leat_codec *codec = leat_codec_of(c->in.kind);
    bool image = (codec && codec->image) || leat_type_is_image(&c->in);
    if (codec && !codec->image)
        return leat_fail(error, LEAT_E_TYPE,
                         "Field '%s' holds %ss, and of encoded values a tuple takes images alone: give the field a "
                         "chain of its own.",
                         c->field, codec->name);
    c->pixels = c->role == LEAT_ROLE_MASK || (c->role == LEAT_ROLE_NONE && image);
    chain->n_targets += !c->pixels;
    if (leat_role_fits(field))
        return LEAT_OK;
    return leat_fail(error, LEAT_E_TYPE,
                     "Field '%s' is declared as boxes, a mask, masks or keypoints, and is none: boxes are float32 "
                     "(None, 4), keypoints "
                     "float32 (None, k, 3), a mask is an encoded image, masks are bytes.",
                     c->field);
}

static int take_pairs(struct leat_compiled *c, const struct leat_field *field, struct leat_error *error)
{
    if (c->role != LEAT_ROLE_KEYPOINTS || !field->n_pairs)
        return LEAT_OK;
    if (!leat_pairs_fit(field))
        return leat_fail(error, LEAT_E_TYPE, "The pairs of field '%s' are not those of its keypoints.", c->field);
    c->pairs = leat_new_array(2 * field->n_pairs, sizeof *c->pairs);
    if (!c->pairs)
        return leat_compile_no_memory(error);
    memcpy(c->pairs, field->pairs, 2 * field->n_pairs * sizeof *c->pairs);
    c->n_pairs = field->n_pairs;
    return LEAT_OK;
}

/* The operators of the chain that concern an image, or a mask: it is moved, and its values stay. */
static int take_uses(const struct leat_compiled_chain *chain, struct leat_compiled *c, struct leat_error *error)
{
    c->uses = leat_new_array(chain->n_uses + 1, sizeof *c->uses);
    if (!c->uses)
        return leat_compile_no_memory(error);
    const bool cut = chain->n_cut != SIZE_MAX && c->index == chain->first + chain->cut;
    for (size_t k = 0; k < (cut ? chain->n_cut : chain->n_uses); k++)
        if (leat_op_concerns(chain->uses[k].op, c->role))
            c->uses[c->n_uses++].op = chain->uses[k].op;
    return LEAT_OK;
}

bool leat_tuple_is_open(struct leat_program *program, struct leat_compiled_chain *chain,
                        const struct leat_field *fields)
{
    bool open = false;
    for (size_t i = 0; i < chain->face.n_fields; i++) {
        struct leat_compiled *c = leat_tuple_member(program, chain, i), found = *c;
        found.stacked = true;
        found.uses = NULL;
        found.n_uses = 0;
        if (take_field(chain, &found, &fields[c->face.field], NULL) || !found.pixels || take_uses(chain, &found, NULL))
            continue;
        open |= !leat_compiled_infer(program, &found, NULL) && leat_type_is_open(&found.out);
        leat_uses_free(found.uses, found.n_uses);
    }
    chain->n_targets = 0;
    return open;
}

/* Images of open size are as many numbers as there are of each, and a row says how many. */
static void open_face(struct leat_compiled *c)
{
    struct leat_output *face = &c->face;
    const struct leat_type *t = &c->out;
    leat_stages_hand_over(c->stages, c->n_stages);
    leat_stages_last(c->stages, c->n_stages)->open = true;
    face->open = face->ragged = true;
    face->channels = c->role == LEAT_ROLE_MASK ? 0 : (uint8_t)leat_type_channels(t);
    face->axes = t->ask == LEAT_ASK_NHWC            ? LEAT_PIXELS
                 : t->ask == LEAT_ASK_CHANNELS_LAST ? LEAT_CHANNELS_LAST
                                                    : LEAT_PLANES;
    face->ndim = 1;
    face->shape[0] = -1;
    face->strides[0] = 1;
    face->row_bytes = leat_dtype_size(t->dtype);
}

/* A row has several images, one behind the other. */
static int view_face(struct leat_compiled *c, unsigned views, struct leat_error *error)
{
    struct leat_output *face = &c->face;
    memmove(face->shape + 1, face->shape, face->ndim * sizeof *face->shape);
    memmove(face->strides + 1, face->strides, face->ndim * sizeof *face->strides);
    c->view_bytes = face->row_bytes;
    face->shape[0] = views;
    face->strides[0] = (int64_t)(face->row_bytes / leat_dtype_size(face->dtype));
    face->ndim++;
    face->row_bytes *= views;
    return face->row_bytes <= UINT64_C(1) << 40
               ? LEAT_OK
               : leat_fail(error, LEAT_E_INVALID, "A row of output '%s' has more than 2^40 bytes.", face->name);
}

static int compile_pixels(struct leat_program *program, struct leat_compiled_chain *chain, struct leat_compiled *c,
                          struct leat_error *error)
{
    int rc = take_uses(chain, c, error);
    const bool cut = c->face.hidden && c->role == LEAT_ROLE_NONE, stacks = cut ? chain->cut_open : chain->stacks;
    c->stacked = stacks;
    rc = rc ? rc : leat_compiled_infer(program, c, error);
    if (chain->on_card)
        c->out.ask = LEAT_ASK_NHWC;
    if (!rc && c->out.kind != LEAT_KIND_ARRAY)
        rc = leat_fail(error, LEAT_E_TYPE, "Output '%s' is an encoded photo among a tuple: put Decode() first.",
                       c->face.name);
    rc = rc ? rc : leat_compiled_finish(program, c, error);
    bool mask = c->role == LEAT_ROLE_MASK;
    if (!rc && mask)
        leat_stages_take_nearest(c->stages, c->n_stages);
    if (!rc && mask && c->gather)
        leat_stages_take_nearest(c->parts->stages, c->parts->n_stages);
    if (!rc && cut && stacks != leat_type_is_open(&c->out))
        return leat_fail(error, LEAT_E_INVALID,
                         "\"cut\" of output '%s' of the program says wrongly whether it is open.", chain->name);
    if (!rc && stacks && !chain->single && c->path != LEAT_PATH_IMAGE)
        return leat_fail(error, LEAT_E_TYPE,
                         "The images of output '%s' are stored in one size, and stack in any case: leave stack out.",
                         c->face.name);
    bool alone = program->open == LEAT_OPEN_ALONE; /* the caller that applies the chain sees the image itself */
    if (!rc && !alone && (leat_type_is_open(&c->out) || (stacks && !chain->single)))
        open_face(c);
    if (!rc && c->gather && c->gather->op->class->views)
        rc = view_face(c, c->gather->op->class->views, error);
    if (!rc && chain->on_card)
        rc = leat_on_card_settle(c, error);
    if (rc || !mask || c->face.open)
        return rc;
    c->face.ndim = 2; /* (height, width): its one channel needs no mention */
    memmove(c->face.shape, c->face.shape + 1, 2 * sizeof *c->face.shape);
    memmove(c->face.strides, c->face.strides + 1, 2 * sizeof *c->face.strides);
    return LEAT_OK;
}

/* Masks of instances move as a mask does. */
static int compile_instances(struct leat_program *program, struct leat_compiled_chain *chain, struct leat_compiled *c,
                             struct leat_error *error)
{
    chain->draws = true;
    c->role = LEAT_ROLE_MASK;
    c->pixels = true;
    int rc = compile_pixels(program, chain, c, error);
    c->role = LEAT_ROLE_MASKS;
    c->pixels = false;
    c->gathers = chain->gather != NULL;
    return rc ? rc : leat_instances_settle(program, chain, c, error);
}

#define NO_BOXES                                                                                                       \
    "finds no boxes in the tuple: give the chain to a field of boxes, too, as in {(\"image\", \"boxes\", \"label\"): " \
    "chain}; leat.boxes(\"xyxy\") declares one"

/* Operators that need boxes, in the k-th use. */
static int check_boxes(struct leat_compiled_chain *chain, size_t k, size_t n_boxes, struct leat_error *error)
{
    const struct leat_op *first = chain->uses[k].op;
    for (const struct leat_op *op = first; op <= first + first->below; op++) {
        if (op->class->joint && !n_boxes)
            return misfit(chain, op->class, NO_BOXES, error);
        if (op->class->sanitizes && n_boxes > 1)
            return misfit(chain, op->class, "finds two fields of boxes in the tuple, which would be filtered apart",
                          error);
        if (!op->class->aim)
            continue;
        chain->aims = true;
        if (n_boxes != 1)
            return misfit(chain, op->class,
                          n_boxes ? "finds two fields of boxes in the tuple, and is drawn by one" : NO_BOXES, error);
        for (size_t i = 0; i < k; i++)
            if (chain->uses[i].op == first)
                return misfit(chain, op->class, "stands there twice: a second one is another operator", error);
    }
    return LEAT_OK;
}

/* The operators that may stand before one that makes a row of several samples. */
static int check_gather(const struct leat_compiled_chain *chain, const struct leat_op_class *class,
                        struct leat_error *error)
{
    const char *other = chain->gather ? chain->gather->op->class->type : "";
    char why[300];
    if (chain->gather && chain->gather->op->class == class)
        return misfit(chain, class, "stands there twice", error);
    if (chain->gather) {
        snprintf(
            why, sizeof why,
            "cannot stand behind %s, which makes a row of several samples, too: leave one of them out, or give them "
            "different epochs, %s(...).epochs(stop=10) and %s(...).epochs(10)",
            other, other, class->type);
        return misfit(chain, class, why, error);
    }
    for (const struct leat_use *use = chain->uses; chain->aims && use->op->class != class; use++)
        for (const struct leat_op *op = use->op, *end = op + op->below; op <= end; op++)
            if (op->class->aim) {
                snprintf(why, sizeof why,
                         "stands before %s, and is drawn by boxes of a row, which come together there: put it behind "
                         "%s, or give them different epochs, %s().epochs(stop=10) and %s(...).epochs(10)",
                         class->type, class->type, op->class->type, class->type);
                return misfit(chain, op->class, why, error);
            }
    return LEAT_OK;
}

/* The moves that are drawn by targets behind a cut are those that functions learn of. */
static int check_cut(const struct leat_compiled_chain *chain, const struct leat_compiled *first,
                     struct leat_error *error)
{
    size_t n = 0;
    const struct leat_compiled *image = chain->n_cut == SIZE_MAX ? NULL : &first[chain->cut];
    if (image && (!image->pixels || image->role != LEAT_ROLE_NONE))
        return leat_fail(error, LEAT_E_INVALID, "\"cut\" of output '%s' of the program names no image.", chain->name);
    for (size_t k = chain->n_cut; k < chain->n_uses; k++)
        for (const struct leat_op *op = chain->uses[k].op, *end = op + op->below; op <= end; op++) {
            n += op->class->aim != NULL;
            if (leat_op_cuts(op->class) || op->class->batch)
                return misfit(chain, op->class, "stands behind a function in Python: put the function behind it",
                              error);
        }
    return n == chain->n_drawn
               ? LEAT_OK
               : leat_fail(error, LEAT_E_INVALID, "\"cut\" of output '%s' of the program has another number of draws.",
                           chain->name);
}

/* Whether the operators can stand so, and their conditions. */
static int check_order(struct leat_compiled_chain *chain, size_t n_boxes, size_t n_masks, bool targets,
                       struct leat_error *error)
{
    const struct leat_op_class *last = NULL;
    bool cut = false;
    for (size_t k = 0; k < chain->n_uses; k++) {
        const struct leat_op_class *class = chain->uses[k].op->class;
        if (leat_op_calls(class))
            return misfit(chain, class, "is a function of one value: give the field a chain of its own", error);
        if (last && last->batch && !class->batch)
            return misfit(chain, class, "stands behind an operator on whole batches: put it before", error);
        if (last && last->pad && !class->batch)
            return misfit(chain, class, "stands behind PadTo: put it before", error);
        for (const struct leat_op *op = chain->uses[k].op, *end = op + op->below; op <= end; op++) {
            if (op->class->turn && chain->geometry)
                return misfit(chain, op->class, "turns images, which a geometry cannot say: leave geometry=True out",
                              error);
            if (op->class->images_only && targets)
                return misfit(chain, op->class,
                              "changes images alone, and boxes, masks, keypoints or a geometry would not follow: give "
                              "it to a chain without them",
                              error);
        }
        int rc = check_boxes(chain, k, n_boxes, error);
        if (rc)
            return rc;
        if (class->views && (chain->gather || cut))
            return misfit(chain, class, "stands behind an operator that makes several images of one, or one of several",
                          error);
        if (class->views && chain->stacks)
            return misfit(chain, class, "makes images of one size: leave stack out", error);
        cut |= leat_op_cuts(class);
        if (class->gathers && chain->geometry)
            return misfit(chain, class, "shows several images, which a geometry cannot say: leave geometry=True out",
                          error);
        rc = class->gathers ? check_gather(chain, class, error) : LEAT_OK;
        if (rc)
            return rc;
        if (class->pastes && (n_boxes != 1 || n_masks != 1))
            return misfit(chain, class,
                          "needs one field of boxes and one of leat.masks() in the tuple, by which objects are cut out",
                          error);
        if (class->gathers)
            chain->gather = &chain->uses[k];
        if ((leat_op_makes_values(class) || class->decodes) && chain->canvas == SIZE_MAX)
            return misfit(chain, class, "finds no image in the tuple", error);
        last = class;
    }
    return LEAT_OK;
}

/* The ragged columns that go with the boxes, by one operator that leaves boxes out. */
static int follow(const struct leat_program *program, struct leat_compiled_chain *chain, const struct leat_op *op,
                  struct leat_error *error)
{
    const struct leat_sanitize_args every = {.all = true}, *args = op->class->sanitizes ? op->args : &every;
    unsigned found = 0;
    chain->sanitizes = true;
    chain->measures |= args->min_visibility > 0;
    for (size_t i = 0; i < chain->face.n_fields; i++) {
        struct leat_compiled *c = leat_tuple_member(program, chain, i);
        bool ragged = c->role == LEAT_ROLE_MASKS ||
                      (!c->pixels && c->in.kind == LEAT_KIND_ARRAY && c->in.ndim && c->in.shape[0] < 0),
             named = false;
        for (unsigned n = 0; n < args->n; n++)
            named |= !strcmp(args->labels[n], c->field);
        found += ragged && named;
        c->follows |= ragged && (named || args->all || c->role != LEAT_ROLE_NONE);
    }
    return found == args->n
               ? LEAT_OK
               : misfit(chain, op->class,
                        "names a field in labels_getter that is no array of varying length of the tuple", error);
}

static int find_followers(const struct leat_program *program, struct leat_compiled_chain *chain,
                          struct leat_error *error)
{
    int rc = LEAT_OK;
    for (size_t k = 0; k < chain->n_uses; k++)
        for (const struct leat_op *op = chain->uses[k].op, *end = op + op->below; !rc && op <= end; op++)
            if (op->class->sanitizes || op->class->pastes)
                rc = follow(program, chain, op, error);
    return rc;
}

static int compile_column(struct leat_program *program, struct leat_compiled_chain *chain, struct leat_compiled *c,
                          struct leat_error *error)
{
    int rc = leat_compiled_infer(program, c, error);
    rc = rc ? rc : leat_compiled_finish(program, c, error);
    if (rc)
        return rc;
    struct leat_output *face = &c->face;
    for (size_t k = 0; k < chain->n_uses; k++) {
        const struct leat_op *op = chain->uses[k].op;
        if (!op->class->pad || !face->ragged || face->kind != LEAT_KIND_ARRAY)
            continue;
        rc = leat_compiled_pad(c, op, error);
        if (rc)
            return rc;
        face->ragged = false;
        face->shape[0] = (int64_t)c->pad_steps;
        if (!leat_mul_u64(face->row_bytes, c->pad_steps, &face->row_bytes) || face->row_bytes > UINT64_C(1) << 40)
            return leat_fail(error, LEAT_E_INVALID, "A row of output '%s' has more than 2^40 bytes.", face->name);
    }
    c->gathers = chain->gather && c->in.kind == LEAT_KIND_ARRAY && c->in.ndim && c->in.shape[0] < 0;
    face->bounded = face->ragged && (c->follows || c->gathers);
    return LEAT_OK;
}

/* The label that an operator on batches mixes, and the images. */
static int compile_mix(struct leat_program *program, struct leat_compiled_chain *chain, const struct leat_op *op,
                       struct leat_error *error)
{
    const struct leat_mix_args *args = op->args;
    struct leat_compiled *label = NULL;
    bool images = false;
    for (size_t i = 0; i < chain->face.n_fields; i++) {
        struct leat_compiled *c = leat_tuple_member(program, chain, i);
        const struct leat_output *face = &c->face;
        if (c->pixels && c->role == LEAT_ROLE_NONE) {
            images = true;
            if (c->view_bytes)
                return misfit(chain, op->class, "mixes one image of each row, and these have several", error);
            if (face->open)
                return misfit(chain, op->class,
                              "mixes images of one size: put Resize([height, width]) or a crop before it", error);
            if (!leat_dtype_is_float(face->dtype) && op->class->blends)
                return misfit(chain, op->class,
                              "mixes images as floats: put ToDtype(\"float32\") or Normalize before it", error);
            continue;
        }
        if (c->role != LEAT_ROLE_NONE)
            return misfit(chain, op->class,
                          "cannot mix boxes, masks or keypoints: leave them out of its tuple; DetectionMixUp mixes "
                          "samples with boxes",
                          error);
        bool vector = face->dtype == LEAT_F32 && face->ndim == 1 && !face->ragged,
             whole = face->ndim == 0 && c->in.dtype <= LEAT_I64;
        if (c->in.kind != LEAT_KIND_ARRAY ||
            (*args->label ? strcmp(args->label, c->field) != 0 : !vector && !whole && !c->label))
            continue;
        if (label)
            return misfit(chain, op->class, "finds several labels in the tuple: name one with labels_getter", error);
        if (!vector && !whole)
            return misfit(chain, op->class, "takes labels that are whole numbers, or float32 vectors", error);
        label = c;
    }
    if (!label || !images)
        return misfit(chain, op->class, "needs an image and a label in the tuple, such as (\"image\", \"label\")",
                      error);
    struct leat_output *face = &label->face;
    label->label = true;
    if (face->ndim) {
        if (args->num_classes && face->shape[0] != args->num_classes)
            return misfit(chain, op->class, "has another num_classes than its labels have numbers", error);
        return LEAT_OK;
    }
    if (!args->num_classes)
        return misfit(chain, op->class, "needs num_classes, because labels are whole numbers", error);
    label->classes = (uint64_t)args->num_classes;
    face->dtype = LEAT_F32;
    face->ndim = 1;
    face->shape[0] = args->num_classes;
    face->strides[0] = 1;
    face->row_bytes = label->classes * sizeof(float);
    return LEAT_OK;
}

/* An output of `n` numbers per row that the chain itself makes. */
static void describe(const struct leat_program *program, const struct leat_compiled_chain *chain, size_t member,
                     enum leat_dtype dtype, int64_t n)
{
    struct leat_compiled *c = leat_tuple_member(program, chain, member);
    c->field = program->outputs[chain->canvas].field;
    c->in = c->out = (struct leat_type){.kind = LEAT_KIND_ARRAY, .dtype = dtype, .ndim = 1, .shape = {n}};
    struct leat_output *face = &c->face;
    face->field = program->outputs[chain->canvas].face.field;
    face->kind = LEAT_KIND_ARRAY;
    face->dtype = dtype;
    face->ndim = 1;
    face->shape[0] = n;
    face->strides[0] = 1;
    face->row_bytes = (uint64_t)n * leat_dtype_size(dtype);
}

static int make_face(struct leat_program *program, struct leat_compiled_chain *chain, struct leat_error *error)
{
    size_t n = chain->face.n_fields, n_outputs = leat_tuple_cut_outputs(chain) + chain->stacks + chain->on_card;
    n_outputs += (size_t)chain->cut_open + (chain->n_drawn != 0);
    chain->fields = leat_new_array(n, sizeof *chain->fields);
    chain->outputs = leat_new_array(n_outputs, sizeof *chain->outputs);
    chain->decodes = leat_new_array(n, sizeof *chain->decodes);
    if (!chain->fields || !chain->outputs || !chain->decodes)
        return leat_compile_no_memory(error);
    for (size_t i = 0; i < n; i++) {
        const struct leat_compiled *c = leat_tuple_member(program, chain, i);
        const bool drawn = c->role == LEAT_ROLE_MASKS; /* decoded values are drawn before */
        chain->fields[i] = drawn ? c->stored : c->face.field;
        chain->decodes[i] = c->face.decodes && !drawn;
    }
    for (size_t o = 0; o < n_outputs; o++)
        chain->outputs[o] = chain->first + o;
    chain->face.n_outputs = n_outputs;
    chain->face.pieces = chain->gather ? chain->gather->op->class->gathers : 1;
    chain->face.sizes = chain->stacks || chain->on_card ? chain->first + n_outputs - 1 : SIZE_MAX;
    chain->face.canvas = chain->canvas == SIZE_MAX ? SIZE_MAX : chain->canvas - chain->first;
    chain->face.fields = chain->fields;
    chain->face.outputs = chain->outputs;
    chain->face.decodes = chain->decodes;
    for (size_t k = 0; k < chain->n_uses; k++)
        for (size_t i = 0; i <= chain->uses[k].op->below; i++)
            chain->face.keyed |= chain->uses[k].op[i].class->random;
    return LEAT_OK;
}

/* If there are boxes or keypoints. */
static int check_padding(const struct leat_compiled_chain *chain, const struct leat_use *uses, size_t n,
                         struct leat_error *error)
{
    int rc = LEAT_OK;
    for (const struct leat_use *use = uses; !rc && use < uses + n; use++) {
        if (use->effect.pads && use->effect.padding != LEAT_PAD_CONSTANT)
            rc = misfit(chain, use->op->class,
                        "pads with pixels of the image, where boxes and keypoints have nothing to show: use "
                        "padding_mode=\"constant\"",
                        error);
        for (size_t i = 0; !rc && use->branch && i < use->branch->n; i++)
            rc = check_padding(chain, use->branch->alternatives[i].uses, use->branch->alternatives[i].n_uses, error);
    }
    return rc;
}

int leat_tuple_compile(struct leat_program *program, struct leat_compiled_chain *chain, const struct leat_field *fields,
                       struct leat_error *error)
{
    size_t n = chain->face.n_fields, n_boxes = 0, n_masks = 0;
    bool targets = chain->geometry || chain->stacks, points = false;
    size_t n_targets = 0;
    chain->canvas = SIZE_MAX;
    for (size_t i = n; i-- > 0;) { /* the first image, or if there is none the first mask */
        struct leat_compiled *c = leat_tuple_member(program, chain, i);
        int rc = take_field(chain, c, &fields[c->face.field], error);
        rc = rc ? rc : take_pairs(c, &fields[c->face.field], error);
        if (rc)
            return rc;
        if (c->pixels && (c->role == LEAT_ROLE_NONE || chain->canvas == SIZE_MAX ||
                          program->outputs[chain->canvas].role == LEAT_ROLE_MASK))
            chain->canvas = c->index;
        n_boxes += leat_role_is_boxes(c->role);
        n_masks += c->role == LEAT_ROLE_MASKS;
        targets |= c->role != LEAT_ROLE_NONE;
        n_targets += c->role != LEAT_ROLE_NONE;
        points |= c->role != LEAT_ROLE_NONE && !c->pixels;
    }
    if (targets && chain->canvas == SIZE_MAX) {
        static const char *const hint =
            "An array is an image if its field has a layout: leat.field(\"uint8\", (32, 32, "
            "3), layout=\"HWC\"), or \"CHW\"";
        if (!n_targets)
            return leat_fail(error, LEAT_E_TYPE, "Output '%s' has a %s, and no image that it is of: leave it out. %s.",
                             chain->name, chain->stacks ? "stack" : "geometry", hint);
        return leat_fail(error, LEAT_E_TYPE,
                         "The tuple of output '%s' has boxes or keypoints, and no image whose size they go by: put the "
                         "field of the image into it. %s.",
                         chain->name, hint);
    }
    if (chain->on_card && chain->canvas == SIZE_MAX)
        return leat_on_card_settle(leat_tuple_member(program, chain, 0), error);
    int rc = check_order(chain, n_boxes, n_masks, chain->geometry || n_targets, error);
    rc = rc ? rc : check_cut(chain, leat_tuple_member(program, chain, 0), error);
    rc = rc ? rc : find_followers(program, chain, error);
    for (size_t i = 0; !rc && i < n; i++) {
        struct leat_compiled *c = leat_tuple_member(program, chain, i);
        if (c->role == LEAT_ROLE_MASK && chain->gather && chain->gather->op->class->share)
            rc = misfit(
                chain, chain->gather->op->class,
                "blends two images, and ids of classes cannot be blended: leave the leat.mask() out of the tuple",
                error);
        else if (c->role != LEAT_ROLE_MASKS)
            rc = (c->pixels ? compile_pixels : compile_column)(program, chain, c, error);
    }
    for (size_t i = 0; !rc && i < n; i++) { /* counted by the settings above */
        struct leat_compiled *c = leat_tuple_member(program, chain, i);
        if (c->role == LEAT_ROLE_MASKS)
            rc = compile_instances(program, chain, c, error);
    }
    for (size_t k = 0; !rc && k < chain->n_uses; k++)
        if (chain->uses[k].op->class->batch) {
            rc = compile_mix(program, chain, chain->uses[k].op, error);
            program->mixes = true;
        }
    if (!rc && points)
        rc = check_padding(chain, program->outputs[chain->canvas].uses, program->outputs[chain->canvas].n_uses, error);
    if (!rc && chain->geometry)
        describe(program, chain, n, LEAT_F32, LEAT_GEOMETRY_COLUMNS);
    size_t o = leat_tuple_cut_outputs(chain);
    if (!rc && chain->cut_open)
        describe(program, chain, o++, LEAT_I64, 2);
    if (!rc && chain->n_drawn)
        describe(program, chain, o++, LEAT_U8, (int64_t)(chain->n_drawn * sizeof(struct leat_move)));
    if (!rc && chain->stacks) {
        describe(program, chain, o, LEAT_I64, 2);
        leat_tuple_member(program, chain, o)->face.sizes = true;
    }
    if (!rc && chain->on_card)
        describe(program, chain, o, LEAT_U8, (int64_t)sizeof(struct leat_card_photo));
    return rc ? rc : make_face(program, chain, error);
}
