/*
 * Chains over a tuple of fields: one draw moves the image, its masks, boxes and keypoints.
 *
 *     image --- Decode -- RandomResizedCrop -- Flip -- Normalize --------------> row of pixels     stages; of masks the
 *                 |            |                |                                                  nearest pixel
 *     boxes ------+------- the same moves, drawn again -- Sanitize -- PadTo ---> row of numbers    joint.h
 *                                                            |
 *     label -------------------------------------------- goes along -- PadTo --> row of numbers
 *                                                                                     |
 *     the batch, when all of its rows are made: MixUp                                 v
 *
 * The targets are walked through the chain first: as soon as a photo of the row is open, because they go by its size.
 * Moves that are drawn by the targets (`aim`: RandomIoUCrop) are remembered, and the stages of images and masks take
 * them from there; all others are drawn again. Without such a move, targets come last.
 *
 * An image or mask is compiled as a chain of its own, of the operators that concern it. Everything else is copied to
 * the scratch, changed there, and copied to its place, because only then its length is known. Compiling:
 * tuple_compile.c.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "kernels/values.h"
#include "op/branch.h"
#include "op/gather.h"
#include "op/tuple_internal.h"

struct leat_tuple_work *leat_tuple_work_new(const struct leat_program *program)
{
    size_t n = 1;
    for (size_t c = 0; c < program->n_chains; c++)
        n = program->chains[c].n_targets >= n ? program->chains[c].n_targets + 1 : n; /* 1: the rest of boxes */
    struct leat_tuple_work *work = leat_new(struct leat_tuple_work);
    if (!work)
        return NULL;
    work->n = n;
    work->parts = leat_new_array(n, sizeof *work->parts);
    work->gathered = leat_new_array(n, sizeof *work->gathered);
    work->members = leat_new_array(n, sizeof *work->members);
    work->memory = leat_new_array(n, sizeof *work->memory);
    work->room = leat_new_array(n, sizeof *work->room);
    work->aims = leat_new_array(program->n_aims + 1, sizeof *work->aims);
    if (work->gathered && work->parts && work->members && work->memory && work->room && work->aims)
        return work;
    leat_tuple_work_free(work);
    return NULL;
}

void leat_tuple_work_free(struct leat_tuple_work *work)
{
    if (!work)
        return;
    for (size_t i = 0; work->memory && i < work->n; i++)
        leat_free(work->memory[i]);
    for (size_t i = 0; work->gathered && i < work->n; i++)
        leat_free(work->gathered[i].data);
    struct leat_grown *const stores[] = {&work->canvas, &work->other, &work->cover,
                                         &work->which,  &work->drawn, &work->placed};
    for (size_t i = 0; i < sizeof stores / sizeof *stores; i++)
        leat_free(stores[i]->data);
    leat_free(work->parts);
    leat_free(work->members);
    leat_free(work->memory);
    leat_free(work->room);
    leat_free(work->aims);
    leat_free(work->gathered);
    leat_decoders_destroy(&work->decoders);
    leat_free(work);
}

bool leat_grown_room(struct leat_grown *store, size_t bytes)
{
    if (bytes <= store->room)
        return true;
    uint8_t *data = leat_realloc_array(store->data, bytes + bytes / 8, 1);
    if (!data)
        return false;
    store->data = data;
    store->room = bytes + bytes / 8;
    return true;
}

/* ---- the walk of a row's targets through the chain ---- */

/* Room for the targets of one part. */
static bool make_room(struct leat_tuple_work *work, size_t p, size_t length)
{
    if (length <= work->room[p])
        return true;
    leat_free(work->memory[p]);
    work->room[p] = length + length / 8;
    work->memory[p] = leat_alloc(work->room[p]);
    work->room[p] = work->memory[p] ? work->room[p] : 0;
    return work->memory[p] != NULL;
}

/* `failed`: the field at fault. */
static int take_targets(struct leat_walk *walk, unsigned sample, size_t *failed)
{
    const struct leat_program *program = walk->program;
    const struct leat_compiled_chain *chain = walk->chain;
    struct leat_tuple_work *work = walk->work;
    const struct leat_row *values = walk->values + sample * chain->face.n_fields;
    struct leat_targets *t = &walk->targets;
    struct leat_error *error = walk->error;
    const struct leat_target_part *boxes = NULL;
    t->n = 0;
    t->parts = work->parts;
    for (size_t i = 0; i < chain->face.n_fields; i++) {
        const struct leat_compiled *c = leat_tuple_member(program, chain, i);
        if (c->pixels)
            continue;
        const bool drawn = c->role == LEAT_ROLE_MASKS; /* instances are numbers here, until they are drawn */
        size_t p = t->n++, length = (size_t)values[i].length;
        uint64_t step = drawn ? sizeof(uint32_t) : c->in_bytes ? c->in_bytes : 1, instances;
        *failed = work->members[p] = i;
        if (drawn) {
            int rc = leat_instances_count(&values[i], &instances, error);
            if (rc)
                return rc;
            if (instances >> LEAT_INSTANCE_BITS)
                return leat_fail(error, LEAT_E_DECODE, "'%s' has masks of more than 2^30 instances", c->field);
            length = (size_t)(instances * step);
        }
        if (length % step)
            return leat_fail(
                error, LEAT_E_DECODE,
                "A value of '%s' has %zu bytes, which is no multiple of the %llu bytes of one of its rows.", c->field,
                length, (unsigned long long)step);
        if (!make_room(work, p, length))
            return leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %zu bytes", length);
        for (uint32_t k = 0; drawn && k < instances; k++)
            ((uint32_t *)(void *)work->memory[p])[k] = (uint32_t)sample << LEAT_INSTANCE_BITS | k;
        if (length && !drawn)
            memcpy(work->memory[p], values[i].data, length);
        t->parts[p] = (struct leat_target_part){.name = c->field,
                                                .role = c->role,
                                                .normalized = c->normalized,
                                                .follows = c->follows,
                                                .pairs = c->pairs,
                                                .n_pairs = c->n_pairs,
                                                .n = length / step,
                                                .step = step,
                                                .data = work->memory[p]};
        if (leat_role_is_boxes(c->role))
            boxes = &t->parts[p];
    }
    for (size_t p = 0; p < t->n; p++) {
        const struct leat_target_part *part = &t->parts[p], *with = t->parts;
        const struct leat_compiled *c = leat_tuple_member(program, chain, work->members[p]);
        if (part->role != LEAT_ROLE_MASKS)
            continue;
        while (with->role == LEAT_ROLE_MASKS ||
               leat_tuple_member(program, chain, work->members[with - t->parts])->face.field != c->face.field)
            with++;
        if (part->n != with->n) {
            *failed = work->members[p];
            return leat_fail(error, LEAT_E_DECODE,
                             "'%s' has masks of %llu instances and '%s' %llu rows: one is needed "
                             "for each",
                             part->name, (unsigned long long)part->n, with->name, (unsigned long long)with->n);
        }
    }
    if (chain->measures) {
        const size_t p = t->n++, length = (size_t)boxes->n * sizeof(float);
        work->members[p] = work->members[boxes - t->parts];
        if (!make_room(work, p, length))
            return leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %zu bytes", length);
        t->seen = &t->parts[p];
        *t->seen = (struct leat_target_part){
            .name = boxes->name, .follows = true, .n = boxes->n, .step = sizeof(float), .data = work->memory[p]};
        for (uint64_t i = 0; i < boxes->n; i++)
            ((float *)(void *)work->memory[p])[i] = 1;
    }
    for (size_t p = 0; chain->sanitizes && p < t->n; p++)
        if (t->parts[p].follows && t->parts[p].n != boxes->n) {
            *failed = work->members[p];
            return leat_fail(error, LEAT_E_DECODE,
                             "'%s' has %llu rows and '%s' %llu: one per box is needed; leave it out of the tuple, or "
                             "name the fields "
                             "that go with the boxes in SanitizeBoundingBoxes(labels_getter=[...])",
                             t->parts[p].name, (unsigned long long)t->parts[p].n, boxes->name,
                             (unsigned long long)boxes->n);
        }
    int rc = leat_targets_begin(t, failed, error);
    if (rc)
        *failed = work->members[*failed];
    return rc;
}

int leat_walk_take(struct leat_walk *walk, unsigned sample)
{
    size_t field = 0;
    int rc = take_targets(walk, sample, &field);
    if (rc)
        walk->failed = sample * walk->chain->face.n_fields + field;
    return rc;
}

static void follow(struct leat_geometry *g, uint32_t w, uint32_t h, const struct leat_move *m)
{
    double across = g->w / w, down = g->h / h;
    g->x += (double)(g->flip ? w - m->x - m->w : m->x) * across;
    g->y += (double)(g->flip_y ? h - m->y - m->h : m->y) * down;
    g->w = (double)m->w * across;
    g->h = (double)m->h * down;
    g->flip ^= m->flip;
    g->flip_y ^= m->flip_y;
    const struct leat_move into_frame = leat_move_into_frame(m);
    if (m->frame_w)
        follow(g, m->out_w, m->out_h, &into_frame);
}

int leat_walk_act(void *context, const struct leat_op *op, uint64_t key)
{
    struct leat_walk *walk = context;
    struct leat_targets *t = &walk->targets;
    int rc = LEAT_OK;
    if (op->class->move || op->class->aim) {
        struct leat_move move = {.w = t->w, .h = t->h, .out_w = t->w, .out_h = t->h};
        if (op->class->move)
            rc = op->class->move(op->args, key, t->w, t->h, &move, walk->error);
        else
            op->class->aim(op->args, key, t, &move);
        if (rc)
            return rc;
        if (op->class->aim)
            walk->work->aims[op->aim] = move;
        follow(&walk->geometry, t->w, t->h, &move);
        leat_targets_move(t, &move);
    } else if (op->class->turn) {
        struct leat_turn turn = {.w = t->w, .h = t->h, .out_w = t->w, .out_h = t->h, .m = {1, 0, 0, 0, 1, 0, 0, 0, 1}};
        op->class->turn(op->args, key, &turn);
        leat_targets_turn(t, &turn);
    } else if (op->class->joint) {
        op->class->joint(op->args, t);
    }
    return rc;
}

/* In an image of w x h; once a row. */
static int walk_targets(void *context, uint32_t w, uint32_t h, struct leat_error *error)
{
    struct leat_walk *walk = context;
    const struct leat_compiled_chain *chain = walk->chain;
    if (walk->done)
        return walk->rc;
    walk->done = true;
    walk->error = error;
    walk->targets.w = w;
    walk->targets.h = h;
    walk->geometry = (struct leat_geometry){.w = w, .h = h, .of_w = w, .of_h = h};
    walk->samples = (struct leat_samples){.n = 1, .keys = {walk->values[0].key}, .w = {w}, .h = {h}};
    walk->rc = leat_walk_take(walk, 0);
    for (size_t k = 0; !walk->rc && k < chain->n_uses; k++) {
        walk->failed = chain->canvas - chain->first; /* an image that does not fit */
        walk->rc = leat_op_act(chain->uses[k].op, walk->values[0].key, leat_walk_act, walk);
    }
    return walk->rc;
}

/* ---- the whole row ---- */

/* An image of open size, in memory of its own; `sizes`: the place of its height and width, which all images of a row
 * share.
 */
static int make_open(const struct leat_program *program, const struct leat_compiled *c, struct leat_scratch *scratch,
                     const struct leat_row *value, bool first, int64_t *sizes, struct leat_error *error)
{
    struct leat_image image;
    int rc = leat_program_apply_open(program, c->index, scratch, value, &image, error);
    leat_scratch_trim(scratch);
    if (!rc && !first && (sizes[0] != image.h || sizes[1] != image.w))
        return leat_fail(error, LEAT_E_DECODE, "'%s' ends in %u x %u pixels, and another image of its row in %u x %u",
                         c->field, image.w, image.h, (unsigned)sizes[1], (unsigned)sizes[0]);
    if (!rc) {
        sizes[0] = image.h;
        sizes[1] = image.w;
    }
    return rc;
}

/* A part of an image, packed as the image is. */
static void copy_view(const struct leat_image *image, const struct leat_view_box *box, const struct leat_image *to)
{
    const size_t size = leat_dtype_size(image->dtype);
    for (uint32_t y = 0; y < to->h; y++)
        for (uint32_t c = 0; c < image->channels; c++) {
            const uint8_t *from = image->base + c * image->plane +
                                  (box->y + (box->flip_y ? to->h - 1 - y : y)) * image->row + box->x * image->column;
            uint8_t *into = to->base + c * to->plane + y * to->row;
            for (uint32_t x = 0; x < to->w; x++)
                memcpy(into + x * to->column, from + (box->flip ? to->w - 1 - x : x) * image->column, size);
        }
}

/* Several images of one: first all of them are cut out of it, because the stages behind take its place. */
static int make_views(const struct leat_program *program, const struct leat_compiled *c, struct leat_scratch *scratch,
                      const struct leat_row *value, uint8_t *dst, struct leat_error *error)
{
    const struct leat_op *op = c->gather->op;
    const struct leat_type *type = &c->gather->out;
    const unsigned n = op->class->views;
    const size_t bytes = (size_t)leat_type_bytes(type);
    struct leat_grown *canvas = &leat_scratch_tuples(scratch)->canvas;
    struct leat_image image, view;
    int rc =
        leat_grown_room(canvas, n * bytes) ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for %u images", n);
    rc = rc ? rc : leat_program_apply_part(program, c->index, scratch, value, &image, error);
    for (unsigned v = 0; !rc && v < n; v++) {
        struct leat_view_box box = {0};
        leat_image_packed(&view, type, type->layout == LEAT_LAYOUT_CHW, (uint32_t)leat_type_width(type),
                          (uint32_t)leat_type_height(type), canvas->data + v * bytes);
        rc = op->class->view(op->args, v, image.w, image.h, &box, error);
        if (!rc)
            copy_view(&image, &box, &view);
    }
    for (unsigned v = 0; !rc && v < n; v++) {
        struct leat_row row = *value;
        row.data = canvas->data + v * bytes;
        if (leat_program_apply(program, c->index, scratch, &row, 1, dst + v * c->view_bytes, error) < 1)
            rc = error && error->code ? error->code : LEAT_E_DECODE;
    }
    leat_scratch_trim(scratch);
    return rc;
}

int leat_tuple_image(const struct leat_program *program, const struct leat_compiled *c, struct leat_scratch *scratch,
                     const struct leat_row *value, bool first, void *dst, int64_t *sizes, struct leat_error *error)
{
    if (c->face.open)
        return make_open(program, c, scratch, value, first, sizes, error);
    if (c->view_bytes)
        return make_views(program, c, scratch, value, dst, error);
    if (leat_program_apply(program, c->index, scratch, value, 1, dst, error) < 1)
        return error && error->code ? error->code : LEAT_E_DECODE;
    if (sizes) {
        sizes[0] = leat_type_height(&c->out);
        sizes[1] = leat_type_width(&c->out);
    }
    return LEAT_OK;
}

/* Makes the images and masks; *w and *h become the size by which targets go. The canvas comes last, so that its decoder
 * can be asked about it. */
static int make_pixels(const struct leat_program *program, const struct leat_compiled_chain *chain,
                       struct leat_scratch *scratch, const struct leat_row *values, void *const *dst, uint32_t *w,
                       uint32_t *h, const struct leat_walk *walk, size_t *failed, struct leat_error *error)
{
    struct leat_stage_work *work = leat_scratch_stages(scratch);
    size_t n = chain->face.n_fields, canvas = chain->canvas - chain->first, other = SIZE_MAX;
    uint32_t other_w = 0, other_h = 0;
    int64_t *const sizes = chain->stacks ? dst[chain->face.n_outputs - 1] : NULL;
    for (size_t k = 0; chain->canvas != SIZE_MAX && k <= n; k++) {
        size_t i = k < n ? k : canvas;
        const struct leat_compiled *c = leat_tuple_member(program, chain, i);
        if (!c->pixels || (k < n && i == canvas))
            continue;
        *failed = i;
        work->w = work->h = 0;
        const bool cut = leat_tuple_is_cut(chain, i);
        int rc = chain->on_card
                     ? leat_on_card_apply(program, c, scratch, &values[i], dst[chain->face.n_outputs - 1], error)
                     : leat_tuple_image(program, c, scratch, &values[i], cut || other == SIZE_MAX, dst[i],
                                        cut ? leat_tuple_cut_size(chain, dst) : sizes, error);
        if (rc && walk->rc && work->health != LEAT_HEALTH_BROKEN)
            *failed = walk->failed;
        if (rc)
            return rc;
        *w = work->w ? work->w : (uint32_t)leat_type_width(&c->in);
        *h = work->h ? work->h : (uint32_t)leat_type_height(&c->in);
        if (other != SIZE_MAX && (*w != other_w || *h != other_h)) {
            *failed = n;
            return leat_fail(error, LEAT_E_DECODE,
                             "'%s' has %u x %u pixels and '%s' %u x %u: what is moved together has one size", c->field,
                             *w, *h, leat_tuple_member(program, chain, other)->field, other_w, other_h);
        }
        other = i;
        other_w = *w;
        other_h = *h;
    }
    return LEAT_OK;
}

unsigned leat_program_pieces(const struct leat_program *program)
{
    unsigned most = 1;
    for (size_t i = 0; i < program->n_chains; i++)
        most = program->chains[i].face.pieces > most ? program->chains[i].face.pieces : most;
    return most;
}

static unsigned chain_pieces(const struct leat_compiled_chain *chain, uint64_t row_key)
{
    const struct leat_op *op = chain->gather ? chain->gather->op : NULL;
    return op ? leat_gather_samples(op->class, op->args, leat_key_mix(row_key, op->instance)) : 1;
}

unsigned leat_program_row_pieces(const struct leat_program *program, uint64_t row_key)
{
    unsigned most = 1;
    for (size_t i = 0; i < program->n_chains; i++) {
        unsigned n = chain_pieces(&program->chains[i], row_key);
        most = n > most ? n : most;
    }
    return most;
}

/* ---- its outputs ---- */

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

/* The facts for functions that take the image, and its size behind them. */
static void tell_cut(const struct leat_walk *walk, void *const *dst)
{
    const struct leat_compiled_chain *chain = walk->chain;
    if (chain->n_cut == SIZE_MAX)
        return;
    uint8_t *moves = chain->n_drawn ? dst[leat_tuple_cut_outputs(chain) + chain->cut_open] : NULL;
    for (size_t k = chain->n_cut; moves && k < chain->n_uses; k++)
        for (const struct leat_op *op = chain->uses[k].op, *end = op + op->below; op <= end; op++)
            if (op->class->aim) {
                memcpy(moves, &walk->work->aims[op->aim], sizeof(struct leat_move));
                moves += sizeof(struct leat_move);
            }
    if (chain->stacks) {
        int64_t *sizes = dst[chain->face.n_outputs - 1];
        sizes[0] = walk->targets.h;
        sizes[1] = walk->targets.w;
    }
}

static int put_targets(struct leat_walk *walk, struct leat_scratch *scratch, void *const *dst, uint64_t *steps,
                       size_t *failed, struct leat_error *error)
{
    const struct leat_program *program = walk->program;
    const struct leat_compiled_chain *chain = walk->chain;
    struct leat_tuple_work *work = walk->work;
    const struct leat_row *values = walk->values;
    struct leat_targets *t = &walk->targets;
    leat_targets_end(t);
    int rc = LEAT_OK;
    for (size_t p = 0; !rc && p < t->n; p++) {
        const struct leat_target_part *part = &t->parts[p];
        size_t i = *failed = work->members[p];
        const struct leat_compiled *c = leat_tuple_member(program, chain, i);
        if (part == t->seen)
            continue;
        steps[i] = c->face.ragged ? part->n : 1;
        if (c->role == LEAT_ROLE_MASKS)
            rc = leat_instances_put(walk, scratch, i, part, chain->stacks ? dst[chain->face.n_outputs - 1] : NULL,
                                    dst[i], error);
        else if (c->pad_steps)
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
    struct leat_stage_work *stages = leat_scratch_stages(scratch);
    struct leat_walk walk = {
        .program = program, .chain = chain, .work = leat_scratch_tuples(scratch), .values = values, .failed = SIZE_MAX};
    uint32_t w = 0, h = 0;
    int rc = LEAT_OK;
    for (size_t o = 0; o < chain->face.n_outputs; o++)
        steps[o] = 1;
    if (chain->gather) {
        walk.samples.n = chain_pieces(chain, values[0].key);
        stages->aims = walk.work->aims;
        rc = leat_tuple_gather(&walk, scratch, dst, failed, error);
        if (!rc)
            tell_cut(&walk, dst);
        rc = rc ? rc : put_targets(&walk, scratch, dst, steps, failed, error);
        stages->aims = NULL;
        return rc;
    }
    if (chain->aims && program->outputs[chain->canvas].face.decodes) {
        stages->opened = walk_targets;
        stages->context = &walk;
    } else if (chain->aims) {
        const struct leat_type *canvas = &program->outputs[chain->canvas].in;
        rc = walk_targets(&walk, (uint32_t)leat_type_width(canvas), (uint32_t)leat_type_height(canvas), error);
    }
    stages->aims = walk.work->aims;
    bool seen = rc != LEAT_OK;
    rc = rc ? rc : make_pixels(program, chain, scratch, values, dst, &w, &h, &walk, failed, error);
    stages->opened = NULL;
    if (!rc) {
        rc = walk_targets(&walk, w, h, error);
        seen = rc != LEAT_OK;
    }
    if (seen)
        *failed = walk.failed;
    if (!rc)
        tell_cut(&walk, dst);
    rc = rc ? rc : put_targets(&walk, scratch, dst, steps, failed, error);
    stages->aims = NULL;
    if (!rc && chain->geometry) {
        const struct leat_geometry *g = &walk.geometry;
        const float columns[LEAT_GEOMETRY_COLUMNS] = {
            (float)g->x,    (float)g->y,   (float)g->w, (float)g->h, (float)(g->flip + 2 * g->flip_y),
            (float)g->of_h, (float)g->of_w};
        memcpy(dst[chain->face.n_fields], columns, sizeof columns);
    }
    return rc;
}
