/*
 * Chains over a tuple of fields: one draw moves the image, its masks, boxes and keypoints.
 *
 *     image --- Decode -- RandomResizedCrop -- Flip -- Normalize --------------> row of pixels     stages; of masks the
 *                              |                |                                                  nearest pixel
 *     boxes -------------- the same moves, drawn again -- Sanitize -- PadTo ---> row of numbers    joint.h
 *                                                            |
 *     label -------------------------------------------- goes along -- PadTo --> row of numbers
 *                                                                                     |
 *     the batch, when all of its rows are made: MixUp                                 v
 *
 * An image or mask is compiled as a chain of its own, of the operators that concern it. Everything else is copied to
 * the scratch, changed there, and copied to its place, because only then its length is known.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "kernels/values.h"
#include "op/joint.h"
#include "op/mix.h"
#include "op/program_internal.h"

static int fail_nomem(struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "No memory to compile the program.");
}

/* ---- compiling ---- */

static struct leat_compiled *member(const struct leat_program *program, const struct leat_compiled_chain *chain,
                                    size_t i)
{
    return &program->outputs[chain->first + i];
}

static int misfit(const struct leat_compiled_chain *chain, const struct leat_op_class *class, const char *why,
                  struct leat_error *error)
{
    int rc = leat_fail(error, LEAT_E_TYPE, "%s in the chain of output '%s' %s.", class->type, chain->name, why);
    leat_error_at_sample(error, LEAT_NO_SAMPLE, chain->name);
    return rc;
}

/* What a field is in the tuple, from its kind. */
static int take_field(struct leat_compiled_chain *chain, struct leat_compiled *c, const struct leat_field *field,
                      struct leat_error *error)
{
    c->role = field->role;
    c->normalized = field->normalized;
    bool image = leat_codec_of(c->in.kind) || leat_type_is_image(&c->in);
    c->pixels = c->role == LEAT_ROLE_MASK || (c->role == LEAT_ROLE_NONE && image);
    chain->n_targets += !c->pixels;
    if (leat_role_fits(field))
        return LEAT_OK;
    return leat_fail(
        error, LEAT_E_TYPE,
        "Field '%s' is declared as boxes, a mask or keypoints, and is none: boxes are float32 (None, 4), keypoints "
        "float32 (None, k, 3), a mask is an encoded image.",
        c->field);
}

/* The operators of the chain that concern an image, or a mask: it is moved, and its values stay. */
static int take_uses(const struct leat_compiled_chain *chain, struct leat_compiled *c, struct leat_error *error)
{
    c->uses = leat_new_array(chain->n_uses + 1, sizeof *c->uses);
    if (!c->uses)
        return fail_nomem(error);
    for (size_t k = 0; k < chain->n_uses; k++) {
        const struct leat_op_class *class = chain->uses[k].op->class;
        bool values = class->map || !(class->move || class->turn || class->decodes);
        if (!(class->joint || class->pad || class->batch) && !(c->role == LEAT_ROLE_MASK && values))
            c->uses[c->n_uses++].op = chain->uses[k].op;
    }
    return LEAT_OK;
}

static int compile_pixels(struct leat_program *program, struct leat_compiled_chain *chain, struct leat_compiled *c,
                          struct leat_error *error)
{
    int rc = take_uses(chain, c, error);
    rc = rc ? rc : leat_compiled_infer(program, c, error);
    if (!rc && c->out.kind != LEAT_KIND_ARRAY)
        rc = leat_fail(error, LEAT_E_TYPE, "Output '%s' is an encoded photo among a tuple: put Decode() first.",
                       c->face.name);
    rc = rc ? rc : leat_compiled_finish(program, c, error);
    if (rc || c->role != LEAT_ROLE_MASK)
        return rc;
    for (size_t s = 0; s < c->n_stages; s++)
        c->stages[s].nearest = true;
    c->face.ndim = 2; /* (height, width): of its one channel nothing is left to say */
    memmove(c->face.shape, c->face.shape + 1, 2 * sizeof *c->face.shape);
    memmove(c->face.strides, c->face.strides + 1, 2 * sizeof *c->face.strides);
    return LEAT_OK;
}

/* Whether the operators can stand so, and what there must be for them. */
static int check_order(const struct leat_compiled_chain *chain, size_t n_boxes, struct leat_error *error)
{
    const struct leat_op_class *last = NULL;
    for (size_t k = 0; k < chain->n_uses; k++) {
        const struct leat_op_class *class = chain->uses[k].op->class;
        if (class->call)
            return misfit(chain, class, "is a function of one value: give the field a chain of its own", error);
        if (last && last->batch && !class->batch)
            return misfit(chain, class, "stands behind an operator on whole batches: put it before", error);
        if (last && last->pad && !class->batch)
            return misfit(chain, class, "stands behind PadTo: put it before", error);
        if (class->turn && chain->geometry)
            return misfit(chain, class, "turns images, which a geometry cannot say: leave geometry=True out", error);
        if (class->joint && !n_boxes)
            return misfit(chain, class, "finds no boxes in the tuple: declare a field with leat.boxes(\"xyxy\")",
                          error);
        if (class->sanitizes && n_boxes > 1)
            return misfit(chain, class, "finds two fields of boxes in the tuple, which would be filtered apart", error);
        if ((class->move || class->map || class->filter || class->decodes) && chain->canvas == SIZE_MAX)
            return misfit(chain, class, "finds no image in the tuple", error);
        last = class;
    }
    return LEAT_OK;
}

/* Which ragged columns go with the boxes. */
static int find_followers(const struct leat_program *program, struct leat_compiled_chain *chain,
                          struct leat_error *error)
{
    for (size_t k = 0; k < chain->n_uses; k++) {
        const struct leat_op *op = chain->uses[k].op;
        if (!op->class->sanitizes)
            continue;
        const struct leat_sanitize_args *args = op->args;
        unsigned found = 0;
        chain->sanitizes = true;
        for (size_t i = 0; i < chain->face.n_fields; i++) {
            struct leat_compiled *c = member(program, chain, i);
            bool ragged = !c->pixels && c->in.kind == LEAT_KIND_ARRAY && c->in.ndim && c->in.shape[0] < 0,
                 named = false;
            for (unsigned n = 0; n < args->n; n++)
                named |= !strcmp(args->labels[n], c->field);
            found += ragged && named;
            c->follows |= ragged && (named || args->all || c->role != LEAT_ROLE_NONE);
        }
        if (found < args->n)
            return misfit(chain, op->class,
                          "names a field in labels_getter that is no array of varying length of the tuple", error);
    }
    return LEAT_OK;
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
        leat_compiled_pad(c, op, c->field);
        face->ragged = false;
        face->shape[0] = (int64_t)c->pad_steps;
        if (!leat_mul_u64(face->row_bytes, c->pad_steps, &face->row_bytes) || face->row_bytes > UINT64_C(1) << 40)
            return leat_fail(error, LEAT_E_INVALID, "A row of output '%s' has more than 2^40 bytes.", face->name);
    }
    face->bounded = face->ragged && c->follows;
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
        struct leat_compiled *c = member(program, chain, i);
        const struct leat_output *face = &c->face;
        if (c->pixels && c->role == LEAT_ROLE_NONE) {
            images = true;
            if (!leat_dtype_is_float(face->dtype) && op->class->blends)
                return misfit(chain, op->class,
                              "mixes images as floats: put ToDtype(\"float32\") or Normalize before it", error);
            continue;
        }
        if (c->role != LEAT_ROLE_NONE)
            return misfit(chain, op->class, "cannot mix boxes, masks or keypoints: leave them out of its tuple", error);
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

static void describe_geometry(const struct leat_program *program, const struct leat_compiled_chain *chain)
{
    struct leat_compiled *c = member(program, chain, chain->face.n_fields);
    c->field = program->outputs[chain->canvas].field;
    c->in = c->out =
        (struct leat_type){.kind = LEAT_KIND_ARRAY, .dtype = LEAT_F32, .ndim = 1, .shape = {LEAT_GEOMETRY_COLUMNS}};
    struct leat_output *face = &c->face;
    face->field = program->outputs[chain->canvas].face.field;
    face->kind = LEAT_KIND_ARRAY;
    face->dtype = LEAT_F32;
    face->ndim = 1;
    face->shape[0] = LEAT_GEOMETRY_COLUMNS;
    face->strides[0] = 1;
    face->row_bytes = LEAT_GEOMETRY_COLUMNS * sizeof(float);
}

static int make_face(struct leat_program *program, struct leat_compiled_chain *chain, struct leat_error *error)
{
    size_t n = chain->face.n_fields, n_outputs = n + chain->geometry;
    chain->fields = leat_new_array(n, sizeof *chain->fields);
    chain->outputs = leat_new_array(n_outputs, sizeof *chain->outputs);
    chain->decodes = leat_new_array(n, sizeof *chain->decodes);
    if (!chain->fields || !chain->outputs || !chain->decodes)
        return fail_nomem(error);
    for (size_t i = 0; i < n; i++) {
        const struct leat_output *face = &member(program, chain, i)->face;
        chain->fields[i] = face->field;
        chain->decodes[i] = face->decodes;
    }
    for (size_t o = 0; o < n_outputs; o++)
        chain->outputs[o] = chain->first + o;
    chain->face.n_outputs = n_outputs;
    chain->face.canvas = chain->canvas == SIZE_MAX ? SIZE_MAX : chain->canvas - chain->first;
    chain->face.fields = chain->fields;
    chain->face.outputs = chain->outputs;
    chain->face.decodes = chain->decodes;
    for (size_t k = 0; k < chain->n_uses; k++)
        chain->face.keyed |= chain->uses[k].op->class->random;
    return LEAT_OK;
}

int leat_tuple_compile(struct leat_program *program, struct leat_compiled_chain *chain, const struct leat_field *fields,
                       struct leat_error *error)
{
    size_t n = chain->face.n_fields, n_boxes = 0;
    bool targets = chain->geometry, points = false;
    chain->canvas = SIZE_MAX;
    for (size_t i = n; i-- > 0;) { /* the first image, or if there is none the first mask */
        struct leat_compiled *c = member(program, chain, i);
        int rc = take_field(chain, c, &fields[c->face.field], error);
        if (rc)
            return rc;
        if (c->pixels && (c->role == LEAT_ROLE_NONE || chain->canvas == SIZE_MAX ||
                          program->outputs[chain->canvas].role == LEAT_ROLE_MASK))
            chain->canvas = c->index;
        n_boxes += leat_role_is_boxes(c->role);
        targets |= c->role != LEAT_ROLE_NONE;
        points |= c->role != LEAT_ROLE_NONE && !c->pixels;
    }
    if (targets && chain->canvas == SIZE_MAX)
        return leat_fail(
            error, LEAT_E_TYPE,
            "The tuple of output '%s' has boxes, keypoints or a geometry, and no image whose size they go by.",
            chain->name);
    int rc = check_order(chain, n_boxes, error);
    rc = rc ? rc : find_followers(program, chain, error);
    for (size_t i = 0; !rc && i < n; i++) {
        struct leat_compiled *c = member(program, chain, i);
        rc = (c->pixels ? compile_pixels : compile_column)(program, chain, c, error);
    }
    for (size_t k = 0; !rc && k < chain->n_uses; k++)
        if (chain->uses[k].op->class->batch) {
            rc = compile_mix(program, chain, chain->uses[k].op, error);
            program->mixes = true;
        }
    const struct leat_compiled *image = points ? &program->outputs[chain->canvas] : NULL;
    for (size_t k = 0; !rc && image && k < image->n_uses; k++)
        if (image->uses[k].effect.pads && image->uses[k].effect.padding != LEAT_PAD_CONSTANT)
            rc = misfit(chain, image->uses[k].op->class,
                        "pads with pixels of the image, where boxes and keypoints have nothing to show: use "
                        "padding_mode=\"constant\"",
                        error);
    if (!rc && chain->geometry)
        describe_geometry(program, chain);
    return rc ? rc : make_face(program, chain, error);
}

/* ---- a row ---- */

struct leat_tuple_work {
    struct leat_target_part *parts;
    size_t *members;  /* [parts] the field of each */
    uint8_t **memory; /* [parts] that only grows */
    size_t *room, n;
};

struct leat_tuple_work *leat_tuple_work_new(const struct leat_program *program)
{
    size_t n = 1;
    for (size_t c = 0; c < program->n_chains; c++)
        n = program->chains[c].n_targets > n ? program->chains[c].n_targets : n;
    struct leat_tuple_work *work = leat_new(struct leat_tuple_work);
    if (!work)
        return NULL;
    work->n = n;
    work->parts = leat_new_array(n, sizeof *work->parts);
    work->members = leat_new_array(n, sizeof *work->members);
    work->memory = leat_new_array(n, sizeof *work->memory);
    work->room = leat_new_array(n, sizeof *work->room);
    if (work->parts && work->members && work->memory && work->room)
        return work;
    leat_tuple_work_free(work);
    return NULL;
}

void leat_tuple_work_free(struct leat_tuple_work *work)
{
    for (size_t i = 0; work && work->memory && i < work->n; i++)
        leat_free(work->memory[i]);
    if (work) {
        leat_free(work->parts);
        leat_free(work->members);
        leat_free(work->memory);
        leat_free(work->room);
    }
    leat_free(work);
}

/* Makes the images and masks; *w and *h become the size by which targets go. The canvas comes last, so that what its
 * decoder has learned of it can be asked for. */
static int make_pixels(const struct leat_program *program, const struct leat_compiled_chain *chain,
                       struct leat_scratch *scratch, const struct leat_row *values, void *const *dst, uint32_t *w,
                       uint32_t *h, size_t *failed, struct leat_error *error)
{
    struct leat_stage_work *work = leat_scratch_stages(scratch);
    size_t n = chain->face.n_fields, canvas = chain->canvas - chain->first, other = SIZE_MAX;
    uint32_t other_w = 0, other_h = 0;
    for (size_t k = 0; chain->canvas != SIZE_MAX && k <= n; k++) {
        size_t i = k < n ? k : canvas;
        const struct leat_compiled *c = member(program, chain, i);
        if (!c->pixels || (k < n && i == canvas))
            continue;
        *failed = i;
        work->w = work->h = 0;
        if (leat_program_apply(program, c->index, scratch, &values[i], 1, dst[i], error) < 1)
            return error && error->code ? error->code : LEAT_E_DECODE;
        *w = work->w ? work->w : (uint32_t)leat_type_width(&c->in);
        *h = work->h ? work->h : (uint32_t)leat_type_height(&c->in);
        if (other != SIZE_MAX && (*w != other_w || *h != other_h)) {
            *failed = n;
            return leat_fail(error, LEAT_E_DECODE,
                             "'%s' has %u x %u pixels and '%s' %u x %u: what is moved together has one size", c->field,
                             *w, *h, member(program, chain, other)->field, other_w, other_h);
        }
        other = i;
        other_w = *w;
        other_h = *h;
    }
    return LEAT_OK;
}

static int take_targets(const struct leat_program *program, const struct leat_compiled_chain *chain,
                        struct leat_tuple_work *work, const struct leat_row *values, struct leat_targets *t,
                        size_t *failed, struct leat_error *error)
{
    const struct leat_target_part *boxes = NULL;
    t->n = 0;
    t->parts = work->parts;
    for (size_t i = 0; i < chain->face.n_fields; i++) {
        const struct leat_compiled *c = member(program, chain, i);
        if (c->pixels)
            continue;
        size_t p = t->n++, length = (size_t)values[i].length;
        uint64_t step = c->in_bytes ? c->in_bytes : 1;
        *failed = work->members[p] = i;
        if (length % step)
            return leat_fail(
                error, LEAT_E_DECODE,
                "A value of '%s' has %zu bytes, which is no multiple of the %llu bytes of one of its rows.", c->field,
                length, (unsigned long long)step);
        if (length > work->room[p]) {
            leat_free(work->memory[p]);
            work->room[p] = length + length / 8;
            work->memory[p] = leat_alloc(work->room[p]);
            work->room[p] = work->memory[p] ? work->room[p] : 0;
            if (!work->memory[p])
                return leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %zu bytes", length);
        }
        if (length)
            memcpy(work->memory[p], values[i].data, length);
        t->parts[p] = (struct leat_target_part){.name = c->field,
                                                .role = c->role,
                                                .normalized = c->normalized,
                                                .follows = c->follows,
                                                .n = length / step,
                                                .step = step,
                                                .data = work->memory[p]};
        if (leat_role_is_boxes(c->role))
            boxes = &t->parts[p];
    }
    for (size_t p = 0; chain->sanitizes && p < t->n; p++)
        if (t->parts[p].follows && t->parts[p].n != boxes->n) {
            *failed = work->members[p];
            return leat_fail(
                error, LEAT_E_DECODE,
                "'%s' has %llu rows and '%s' %llu: one per box is needed, or name the fields that go with the boxes in "
                "SanitizeBoundingBoxes(labels_getter=[...])",
                t->parts[p].name, (unsigned long long)t->parts[p].n, boxes->name, (unsigned long long)boxes->n);
        }
    int rc = leat_targets_begin(t, failed, error);
    if (rc)
        *failed = work->members[*failed];
    return rc;
}

/* Where the pixels of a row come from, as its moves are followed. */
struct geometry {
    double x, y, w, h; /* of the part of the image that is seen */
    bool flip;
    uint32_t of_w, of_h;
};

static void follow(struct geometry *g, uint32_t w, uint32_t h, const struct leat_move *m)
{
    double across = g->w / w, down = g->h / h;
    g->x += (double)(g->flip ? w - m->x - m->w : m->x) * across;
    g->y += (double)m->y * down;
    g->w = (double)m->w * across;
    g->h = (double)m->h * down;
    g->flip ^= m->flip;
}

/* Whole numbers of labels become vectors of one 1. */
static int one_hot(const struct leat_compiled *c, const struct leat_target_part *part, float *dst,
                   struct leat_error *error)
{
    int64_t label;
    leat_values_convert(c->in.dtype, LEAT_I64, part->data, &label, 1);
    if (label < 0 || (uint64_t)label >= c->classes)
        return leat_fail(error, LEAT_E_DECODE,
                         "the label %lld is none of the %llu classes: num_classes is above the largest label",
                         (long long)label, (unsigned long long)c->classes);
    memset(dst, 0, c->classes * sizeof *dst);
    dst[label] = 1;
    return LEAT_OK;
}

static int put_targets(const struct leat_program *program, const struct leat_compiled_chain *chain,
                       const struct leat_tuple_work *work, const struct leat_row *values, struct leat_targets *t,
                       void *const *dst, uint64_t *steps, size_t *failed, struct leat_error *error)
{
    leat_targets_end(t);
    int rc = LEAT_OK;
    for (size_t p = 0; !rc && p < t->n; p++) {
        const struct leat_target_part *part = &t->parts[p];
        size_t i = *failed = work->members[p];
        const struct leat_compiled *c = member(program, chain, i);
        steps[i] = c->face.ragged ? part->n : 1;
        if (c->pad_steps)
            rc = leat_padded_row(c, values[i].key, part->data, part->n, dst[i], error);
        else if (c->classes)
            rc = one_hot(c, part, dst[i], error);
        else if (part->n)
            memcpy(dst[i], part->data, part->n * part->step);
    }
    return rc;
}

int leat_program_apply_tuple(const struct leat_program *program, size_t chain_index, struct leat_scratch *scratch,
                             const struct leat_row *values, void *const *dst, uint64_t *steps, size_t *failed,
                             struct leat_error *error)
{
    const struct leat_compiled_chain *chain = &program->chains[chain_index];
    struct leat_tuple_work *work = leat_scratch_tuples(scratch);
    struct leat_targets t = {0};
    uint64_t key = values[0].key;
    for (size_t o = 0; o < chain->face.n_outputs; o++)
        steps[o] = 1;
    int rc = make_pixels(program, chain, scratch, values, dst, &t.w, &t.h, failed, error);
    struct geometry g = {.w = t.w, .h = t.h, .of_w = t.w, .of_h = t.h};
    rc = rc ? rc : take_targets(program, chain, work, values, &t, failed, error);
    for (size_t k = 0; !rc && k < chain->n_uses; k++) {
        const struct leat_op *op = chain->uses[k].op;
        if (op->class->move) { /* no error: the image went through it */
            struct leat_move move = {.w = t.w, .h = t.h, .out_w = t.w, .out_h = t.h};
            rc = op->class->move(op->args, leat_key_mix(key, op->instance), t.w, t.h, &move, error);
            follow(&g, t.w, t.h, &move);
            leat_targets_move(&t, &move);
        } else if (op->class->turn) {
            struct leat_turn turn;
            op->class->turn(op->args, leat_key_mix(key, op->instance), t.w, t.h, &turn);
            leat_targets_turn(&t, &turn);
        } else if (op->class->joint) {
            op->class->joint(op->args, &t);
        }
    }
    rc = rc ? rc : put_targets(program, chain, work, values, &t, dst, steps, failed, error);
    if (!rc && chain->geometry) {
        const float columns[LEAT_GEOMETRY_COLUMNS] = {(float)g.x, (float)g.y,    (float)g.w,   (float)g.h,
                                                      g.flip,     (float)g.of_h, (float)g.of_w};
        memcpy(dst[chain->face.n_fields], columns, sizeof columns);
    }
    return rc;
}

/* ---- a batch ---- */

bool leat_program_has_batch_stage(const struct leat_program *program)
{
    return program->mixes;
}

static void mix_output(const struct leat_compiled_chain *chain, const struct leat_op *op,
                       const struct leat_compiled *image, const struct leat_compiled *c, void *data, uint64_t rows,
                       uint64_t key)
{
    size_t size = leat_dtype_size(c->face.dtype);
    const struct leat_type *t = &image->out;
    struct leat_batch_part part = {.label = c->label,
                                   .dtype = c->face.dtype,
                                   .row_bytes = c->face.row_bytes,
                                   .data = data,
                                   .w = (uint32_t)leat_type_width(t),
                                   .h = (uint32_t)leat_type_height(t),
                                   .channels = (uint32_t)leat_type_channels(t)};
    if (!c->label) {
        part.w = (uint32_t)leat_type_width(&c->out);
        part.h = (uint32_t)leat_type_height(&c->out);
        part.channels = (uint32_t)leat_type_channels(&c->out);
        bool planes = c->path == LEAT_PATH_COPY ? c->out.layout == LEAT_LAYOUT_CHW
                                                : c->out.ask == LEAT_ASK_NOTHING || c->out.ask == LEAT_ASK_NCHW;
        part.column = planes ? size : size * part.channels;
        part.row = part.column * part.w;
        part.plane = planes ? part.row * part.h : size;
    }
    op->class->batch(op->args, leat_key_mix(key, op->instance), &part, rows);
}

void leat_program_finish_batch(const struct leat_program *program, void *const *dst, uint64_t rows,
                               const uint64_t *keys)
{
    for (size_t i = 0; rows && i < program->n_chains; i++) {
        const struct leat_compiled_chain *chain = &program->chains[i];
        for (size_t k = 0; chain->face.tuple && k < chain->n_uses; k++) {
            const struct leat_op *op = chain->uses[k].op;
            for (size_t f = 0; op->class->batch && f < chain->face.n_fields; f++) {
                const struct leat_compiled *c = member(program, chain, f);
                if (c->pixels || c->label)
                    mix_output(chain, op, &program->outputs[chain->canvas], c, dst[c->index], rows, keys[0]);
            }
        }
    }
}
