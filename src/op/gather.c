/*
 * A row of several samples (gather.h): each goes its own way through the operators in front, and the one that puts them
 * together makes one canvas of their images and one list of their targets, which go on as those of one sample.
 *
 * The images give the sizes of the samples, so the targets go their way as soon as those of the first field are there:
 * the masks of instances tell what CopyPaste pastes, and the boxes may draw for operators behind.
 */
#include "op/gather.h"

#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "op/branch.h"
#include "op/tuple_internal.h"

unsigned leat_gather_samples(const struct leat_op_class *class, const struct leat_gather_args *args, uint64_t key)
{
    return leat_draw_unit(key, 0) < args->p ? class->gathers : 1;
}

int leat_overlay_infer(const void *args, const struct leat_place *place, struct leat_type *type,
                       struct leat_effect *effect, struct leat_error *error)
{
    if (!type->codec || type->layout != LEAT_LAYOUT_HWC)
        return leat_op_misfit(place, type, "a photo that Decode made", error);
    if (leat_type_height(type) < 0 || leat_type_width(type) < 0)
        return leat_op_misfit(place, type, "images of one size (put Resize([height, width]) or a crop before it)",
                              error);
    return LEAT_OK;
}

/* Both images stay as they are. */
int leat_overlay_move(const void *args, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move,
                      struct leat_error *error)
{
    return LEAT_OK;
}

/* Under the row's key mixed with this and its number, the operators before draw for each sample but the row's own. */
#define PIECE_TAG (UINT64_C(1) << 62)

uint64_t leat_piece_key(uint64_t row_key, unsigned piece)
{
    return piece ? leat_key_mix(row_key, PIECE_TAG + piece) : row_key;
}

static int no_memory(struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "no memory for a row of several samples");
}

static size_t canvas_bytes(const struct leat_compiled *c)
{
    return (size_t)leat_type_bytes(&c->gather->out);
}

void leat_gather_place(const struct leat_walk *walk, const struct leat_compiled *c, unsigned p,
                       const struct leat_image *image, uint8_t *canvas)
{
    const struct leat_move *move = &walk->samples.places[p];
    const int64_t side_x = leat_type_width(&c->gather->out), side_y = leat_type_height(&c->gather->out);
    const int64_t x = -move->x, y = -move->y, left = x < 0 ? -x : 0, top = y < 0 ? -y : 0;
    const int64_t right = x + image->w > side_x ? side_x - x : image->w,
                  bottom = y + image->h > side_y ? side_y - y : image->h;
    const size_t channels = image->channels;
    for (int64_t row = top; row < bottom && left < right; row++)
        memcpy(canvas + ((size_t)(y + row) * (size_t)side_x + (size_t)(x + left)) * channels,
               image->base + (size_t)row * image->row + (size_t)left * channels, (size_t)(right - left) * channels);
}

/* The image of one sample onto a canvas. */
static int gather_one(struct leat_walk *walk, struct leat_scratch *scratch, size_t member, unsigned p, uint8_t *canvas,
                      size_t *failed, struct leat_error *error)
{
    const struct leat_compiled *c = leat_tuple_member(walk->program, walk->chain, member);
    const struct leat_op *op = walk->chain->gather->op;
    const size_t n = walk->chain->face.n_fields;
    struct leat_stage_work *stages = leat_scratch_stages(scratch);
    struct leat_samples *s = &walk->samples;
    struct leat_image image;
    struct leat_row row = walk->values[p * n + member];
    row.key = s->keys[p];
    *failed = p * n + member;
    int rc = leat_program_apply_part(walk->program, c->index, scratch, &row, &image, error);
    if (rc)
        return rc;
    if (s->known[p] && (s->w[p] != stages->w || s->h[p] != stages->h)) {
        *failed = p ? p * n + member : s->n * n;
        return leat_fail(error, LEAT_E_DECODE,
                         "'%s' has %u x %u pixels and its image %u x %u: what is moved together has one size", c->field,
                         stages->w, stages->h, s->w[p], s->h[p]);
    }
    s->known[p] = true;
    s->w[p] = stages->w;
    s->h[p] = stages->h;
    if (op->class->overlays)
        s->places[p] = (struct leat_move){.w = image.w, .h = image.h, .out_w = image.w, .out_h = image.h};
    else
        leat_mosaic_place(op->args, leat_key_mix(walk->values[0].key, op->instance), p, s->n, image.w, image.h,
                          &s->places[p]);
    leat_gather_place(walk, c, p, &image, canvas);
    leat_scratch_trim(scratch);
    return LEAT_OK;
}

/* ---- targets ---- */

/* Appends the targets of sample `p` to those before it. */
static int append(struct leat_walk *walk, unsigned p)
{
    for (size_t k = 0; k < walk->targets.n; k++) {
        const struct leat_target_part *part = &walk->targets.parts[k];
        const struct leat_compiled *c = leat_tuple_member(walk->program, walk->chain, walk->work->members[k]);
        struct leat_grown *all = &walk->work->gathered[k];
        const size_t bytes = (size_t)(part->n * part->step);
        all->used = p ? all->used : 0;
        if (p && !c->gathers)
            continue;
        if (!leat_grown_room(all, all->used + bytes))
            return no_memory(walk->error);
        if (bytes)
            memcpy(all->data + all->used, part->data, bytes);
        all->used += bytes;
    }
    return LEAT_OK;
}

/* The targets of all samples go their way to the canvas one by one. `n_own`: boxes of the row's own. */
static int walk_samples(struct leat_walk *walk, uint64_t *n_own, struct leat_error *error)
{
    const struct leat_compiled_chain *chain = walk->chain;
    const struct leat_samples *s = &walk->samples;
    const size_t n = chain->face.n_fields, until = (size_t)(chain->gather - chain->uses);
    int rc = LEAT_OK;
    walk->error = error;
    walk->done = true;
    for (unsigned p = 0; !rc && p < s->n; p++) {
        walk->targets.w = s->w[p];
        walk->targets.h = s->h[p];
        walk->geometry = (struct leat_geometry){.w = s->w[p], .h = s->h[p]};
        rc = leat_walk_take(walk, p);
        for (size_t k = 0; !rc && k <= until; k++) {
            walk->failed = p * n + chain->canvas - chain->first;
            rc = leat_op_act(chain->uses[k].op, s->keys[p], leat_walk_act, walk);
        }
        if (!rc) {
            leat_targets_move(&walk->targets, &s->places[p]);
            rc = append(walk, p);
        }
        for (size_t k = 0; !p && k < walk->targets.n; k++)
            if (leat_role_is_boxes(walk->targets.parts[k].role))
                *n_own = walk->targets.parts[k].n;
    }
    for (size_t k = 0; !rc && k < walk->targets.n; k++) {
        struct leat_target_part *part = &walk->targets.parts[k];
        part->data = walk->work->gathered[k].data;
        part->n = part->step ? walk->work->gathered[k].used / part->step : 0;
    }
    return rc;
}

/* From the canvas on they go together. */
static int walk_on(struct leat_walk *walk)
{
    const struct leat_compiled_chain *chain = walk->chain;
    int rc = LEAT_OK;
    walk->geometry = (struct leat_geometry){.w = walk->targets.w, .h = walk->targets.h};
    for (size_t k = (size_t)(chain->gather - chain->uses) + 1; !rc && k < chain->n_uses; k++)
        rc = leat_op_act(chain->uses[k].op, walk->values[0].key, leat_walk_act, walk);
    return rc;
}

/* ---- pasting ---- */

struct pasting {
    struct leat_walk *walk;
    struct leat_scratch *scratch;
    const struct leat_compiled *masks;
    uint32_t w, h;
    uint8_t *cover, *mask;
    bool *kept;           /* of each row of the targets */
    const uint32_t *rows; /* of the instances that are chosen */
    struct leat_target_part *boxes;
    int64_t min_area;
};

/* The mask of an instance, at the place of its image. */
static int place_mask(struct pasting *x, unsigned p, const struct leat_row *photo, struct leat_error *error)
{
    struct leat_image image;
    int rc = leat_program_apply_part(x->walk->program, x->masks->index, x->scratch, photo, &image, error);
    if (!rc)
        leat_gather_place(x->walk, x->masks, p, &image, x->mask);
    return rc;
}

/* One of the other sample covers the pixels that it shows. */
static int cover_one(void *context, uint64_t i, const struct leat_row *photo, struct leat_error *error)
{
    struct pasting *x = context;
    int rc = place_mask(x, 1, photo, error);
    bool *kept = &x->kept[x->rows[i]];
    const size_t n = (size_t)x->w * x->h;
    int64_t area = 0;
    for (size_t k = 0; !rc && k < n; k++)
        area += x->mask[k] != 0;
    *kept = !rc && area >= x->min_area;
    for (size_t k = 0; *kept && k < n; k++)
        x->cover[k] |= x->mask[k] != 0;
    return rc;
}

/* The uncovered part of one of the row's own remains, and if that is too little, none. */
static int uncover_one(void *context, uint64_t i, const struct leat_row *photo, struct leat_error *error)
{
    struct pasting *x = context;
    int rc = place_mask(x, 0, photo, error);
    uint32_t x0 = x->w, y0 = x->h, x1 = 0, y1 = 0;
    int64_t area = 0, covered = 0;
    for (uint32_t y = 0; !rc && y < x->h; y++)
        for (uint32_t at = 0; at < x->w; at++) {
            const size_t k = (size_t)y * x->w + at;
            const bool hidden = x->mask[k] && x->cover[k], seen = x->mask[k] && !x->cover[k];
            covered += hidden;
            area += seen;
            x0 = seen && at < x0 ? at : x0;
            x1 = seen && at >= x1 ? at + 1 : x1;
            y0 = seen && y < y0 ? y : y0;
            y1 = seen ? y + 1 : y1;
        }
    if (rc || !covered)
        return rc;
    float box[4] = {(float)x0, (float)y0, (float)x1, (float)y1};
    x->kept[i] = area >= x->min_area;
    if (x->kept[i]) {
        leat_boxes_convert(box, 1, LEAT_ROLE_BOXES_XYXY, x->boxes->role);
        memcpy(leat_target_boxes(x->boxes) + 4 * i, box, sizeof box);
    }
    return LEAT_OK;
}

/* Chooses the objects to paste, and settles the targets that result. */
static int paste_targets(struct leat_walk *walk, struct leat_scratch *scratch, uint64_t n_own, struct leat_error *error)
{
    const struct leat_op *op = walk->chain->gather->op;
    const struct leat_paste_args *args = op->args;
    struct leat_tuple_work *work = walk->work;
    struct leat_target_part *boxes = NULL, *masks = NULL;
    for (size_t p = 0; p < walk->targets.n; p++) {
        boxes = leat_role_is_boxes(walk->targets.parts[p].role) ? &walk->targets.parts[p] : boxes;
        masks = walk->targets.parts[p].role == LEAT_ROLE_MASKS ? &walk->targets.parts[p] : masks;
    }
    const size_t member = work->members[masks - walk->targets.parts];
    const struct leat_compiled *c = leat_tuple_member(walk->program, walk->chain, member);
    const uint64_t n_other = boxes->n - n_own;
    const uint32_t *numbers = (const uint32_t *)(const void *)masks->data;
    const size_t pixels = canvas_bytes(c);
    if (!leat_grown_room(&work->cover, 4 * pixels) || !leat_grown_room(&work->placed, pixels) ||
        !leat_grown_room(&work->which, 2 * n_other * sizeof(uint32_t) + boxes->n + n_other + 1))
        return no_memory(error);
    uint32_t *rows = (uint32_t *)(void *)work->which.data, *chosen = rows + n_other;
    bool *kept = (bool *)(chosen + n_other), *drawn = kept + boxes->n;
    uint64_t n = 0;
    struct pasting x = {.walk = walk,
                        .scratch = scratch,
                        .masks = c,
                        .w = (uint32_t)leat_type_width(&c->gather->out),
                        .h = (uint32_t)leat_type_height(&c->gather->out),
                        .cover = work->cover.data,
                        .mask = work->placed.data,
                        .kept = kept,
                        .rows = rows,
                        .boxes = boxes,
                        .min_area = args->min_area};
    memset(x.cover, 0, pixels);
    leat_paste_choose(leat_key_mix(walk->values[0].key, op->instance), n_other, drawn);
    for (uint64_t i = 0; i < boxes->n; i++) {
        kept[i] = i < n_own;
        if (i < n_own || !drawn[i - n_own])
            continue;
        rows[n] = (uint32_t)i;
        chosen[n++] = numbers[i];
    }
    int rc = leat_instances_draw(walk, scratch, member, 1, chosen, n, cover_one, &x, error);
    if (rc)
        walk->failed = walk->chain->face.n_fields + member;
    walk->samples.cover = x.cover;
    if (!rc && (rc = leat_instances_draw(walk, scratch, member, 0, numbers, n_own, uncover_one, &x, error)))
        walk->failed = member;
    if (!rc && args->blending)
        leat_paste_blur(x.cover, x.w, x.h, (uint16_t *)(void *)(x.cover + 2 * pixels), x.cover + pixels);
    leat_targets_keep(&walk->targets, kept);
    return rc;
}

/* Covered pixels are the other image's; or a mixture with `alpha` of it. */
static void paste(uint8_t *canvas, const uint8_t *other, size_t pixels, size_t channels, const uint8_t *cover,
                  const uint8_t *alpha)
{
    for (size_t k = 0; k < pixels; k++, canvas += channels, other += channels)
        for (size_t c = 0; c < channels && (alpha ? alpha : cover)[k]; c++)
            canvas[c] = alpha ? (uint8_t)((canvas[c] * (255 - alpha[k]) + other[c] * alpha[k] + 127) / 255) : other[c];
}

/* The share of the canvas that remains, in 2^-16, and the other image. */
static void mix(uint8_t *canvas, const uint8_t *other, size_t n, double share)
{
    const uint32_t own = (uint32_t)(share * 65536 + 0.5);
    for (size_t i = 0; i < n; i++)
        canvas[i] = (uint8_t)((canvas[i] * own + other[i] * (65536 - own) + 32768) >> 16);
}

/* ---- a row ---- */

/* The canvas before there is anything on it. */
static void fill_canvas(const struct leat_gather_args *args, const struct leat_compiled *c, uint8_t *canvas)
{
    struct leat_image image;
    uint8_t fill[LEAT_MAX_CHANNELS];
    leat_image_packed(&image, &c->gather->out, false, (uint32_t)leat_type_width(&c->gather->out),
                      (uint32_t)leat_type_height(&c->gather->out), canvas);
    image.ids = c->role == LEAT_ROLE_MASK;
    leat_fill_bytes(&args->fill, &image, fill);
    for (size_t at = 0; at < image.row; at += image.column)
        memcpy(canvas + at, fill, image.column);
    for (uint32_t y = 1; y < image.h; y++)
        memcpy(canvas + y * image.row, canvas, image.row);
}

static int gather_mosaic(struct leat_walk *walk, struct leat_scratch *scratch, size_t member, size_t *failed,
                         struct leat_error *error)
{
    const struct leat_compiled *c = leat_tuple_member(walk->program, walk->chain, member);
    struct leat_grown *canvas = &walk->work->canvas;
    int rc = LEAT_OK;
    if (!leat_grown_room(canvas, canvas_bytes(c)))
        return no_memory(error);
    fill_canvas(walk->chain->gather->op->args, c, canvas->data);
    for (unsigned p = walk->samples.n; !rc && p-- > 0;)
        rc = gather_one(walk, scratch, member, p, canvas->data, failed, error);
    return rc;
}

static int gather_overlaid(struct leat_walk *walk, struct leat_scratch *scratch, size_t member, size_t *failed,
                           struct leat_error *error)
{
    const struct leat_compiled *c = leat_tuple_member(walk->program, walk->chain, member);
    const struct leat_op *op = walk->chain->gather->op;
    const struct leat_paste_args *args = op->args; /* if it pastes */
    struct leat_tuple_work *work = walk->work;
    struct leat_grown *const canvases[] = {&work->canvas, &work->other};
    const size_t channels = (size_t)leat_type_channels(&c->gather->out), pixels = canvas_bytes(c) / channels;
    uint64_t n_own = 0;
    int rc = LEAT_OK;
    for (unsigned p = walk->samples.n; !rc && p-- > 0;)
        rc = leat_grown_room(canvases[p], canvas_bytes(c))
                 ? gather_one(walk, scratch, member, p, canvases[p]->data, failed, error)
                 : no_memory(error);
    if (!rc && !walk->done) {
        rc = walk_samples(walk, &n_own, error);
        if (!rc && walk->samples.n > 1 && op->class->pastes)
            rc = paste_targets(walk, scratch, n_own, error);
        if (rc)
            *failed = walk->failed;
    }
    if (!rc && walk->samples.n > 1 && op->class->share)
        mix(work->canvas.data, work->other.data, canvas_bytes(c),
            op->class->share(op->args, leat_key_mix(walk->values[0].key, op->instance)));
    else if (!rc && walk->samples.n > 1)
        paste(work->canvas.data, work->other.data, pixels, channels, walk->samples.cover,
              args->blending && c->role != LEAT_ROLE_MASK ? walk->samples.cover + pixels : NULL);
    return rc;
}

/* The image whose size the others go by comes last, and its last sample is the row's own, so that its decoder can be
 * asked about it. */
int leat_tuple_gather(struct leat_walk *walk, struct leat_scratch *scratch, void *const *dst, size_t *failed,
                      struct leat_error *error)
{
    const struct leat_compiled_chain *chain = walk->chain;
    const size_t n = chain->face.n_fields, canvas = chain->canvas - chain->first;
    const bool overlays = chain->gather->op->class->overlays;
    int64_t *sizes = chain->stacks ? dst[chain->face.n_outputs - 1] : NULL;
    bool first = true;
    uint64_t n_own;
    for (unsigned p = 0; p < walk->samples.n; p++)
        walk->samples.keys[p] = leat_piece_key(walk->values[0].key, p);
    for (size_t k = 0; k <= n; k++) {
        size_t i = k < n ? k : canvas;
        const struct leat_compiled *c = leat_tuple_member(walk->program, chain, i);
        if (!c->pixels || (k < n && i == canvas))
            continue;
        int rc = (overlays ? gather_overlaid : gather_mosaic)(walk, scratch, i, failed, error);
        if (rc)
            return rc;
        if (first) {
            rc = overlays ? LEAT_OK : walk_samples(walk, &n_own, error);
            rc = rc ? rc : walk_on(walk);
            *failed = walk->failed;
        }
        if (rc)
            return rc;
        struct leat_row row = walk->values[i];
        row.data = walk->work->canvas.data;
        *failed = i;
        const bool cut = leat_tuple_is_cut(chain, i);
        rc = leat_tuple_image(walk->program, c, scratch, &row, cut || first, dst[i],
                              cut ? leat_tuple_cut_size(chain, dst) : sizes, error);
        if (rc)
            return rc;
        first &= cut;
    }
    return LEAT_OK;
}
