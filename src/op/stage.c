/* Composing movements into a view, and cutting a chain into stages. Running them: stage_run.c. */
#include "op/stage.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "kernels/values.h"
#include "op/adjust.h"
#include "op/branch.h"

/* ---- views ---- */

struct leat_rect leat_rect_common(struct leat_rect a, struct leat_rect b)
{
    int64_t x0 = a.x > b.x ? a.x : b.x, y0 = a.y > b.y ? a.y : b.y;
    int64_t x1 = a.x + a.w < b.x + b.w ? a.x + a.w : b.x + b.w, y1 = a.y + a.h < b.y + b.h ? a.y + a.h : b.y + b.h;
    return (struct leat_rect){x0, y0, x1 > x0 ? x1 - x0 : 0, y1 > y0 ? y1 - y0 : 0};
}

void leat_view_begin(struct leat_view *view, uint32_t w, uint32_t h)
{
    struct leat_rect all = {0, 0, w, h};
    *view = (struct leat_view){.source = all, .seen = all, .grid_w = w, .grid_h = h, .window = all, .valid = all};
}

void leat_view_move(struct leat_view *view, const struct leat_move *move)
{
    struct leat_rect *win = &view->window;
    int64_t x = view->flip ? win->w - move->x - move->w : move->x; /* the box in a mirrored view is the mirrored box */
    int64_t y = view->flip_y ? win->h - move->y - move->h : move->y;
    *win = (struct leat_rect){win->x + x, win->y + y, move->w, move->h};
    view->valid = leat_rect_common(view->valid, *win);
    if (move->out_w != move->w || move->out_h != move->h) {
        view->source = *win; /* the stage was cut so that the view is not yet resized here */
        view->seen = view->valid;
        view->padded = win->w != view->valid.w || win->h != view->valid.h;
        view->mirrored = view->flip;
        view->mirrored_y = view->flip_y;
        view->resized = true;
        view->filter = move->filter;
        view->grid_w = move->out_w;
        view->grid_h = move->out_h;
        *win = view->valid = (struct leat_rect){0, 0, move->out_w, move->out_h};
    }
    view->flip ^= move->flip;
    view->flip_y ^= move->flip_y;
    const struct leat_move into_frame = leat_move_into_frame(move);
    if (move->frame_w)
        leat_view_move(view, &into_frame);
}

void leat_image_packed(struct leat_image *image, const struct leat_type *type, bool planar, uint32_t w, uint32_t h,
                       void *base)
{
    size_t size = leat_dtype_size(type->dtype), channels = (size_t)leat_type_channels(type);
    *image = (struct leat_image){.base = base, .dtype = type->dtype, .w = w, .h = h, .channels = (uint32_t)channels};
    image->column = planar ? size : size * channels;
    image->row = image->column * w;
    image->plane = planar ? image->row * h : size;
}

/* ---- cutting ---- */

static bool keeps_channels(const struct leat_type *a, const struct leat_type *b)
{
    return leat_type_channels(a) == leat_type_channels(b);
}

static bool same_padding(const struct leat_stage *stage, const struct leat_effect *effect)
{
    return stage->padding == LEAT_PAD_CONSTANT &&
           (!effect->pads || !memcmp(stage->fill, effect->fill, sizeof effect->fill));
}

/* Whether `use` can join the stage that holds [begin, i) already. */
static bool joins(const struct leat_stage *stage, const struct leat_use *use)
{
    const struct leat_effect *e = &use->effect;
    if (stage->n_colors && use->op->class->adjust)
        return stage->n_colors < LEAT_MAX_COLORS && keeps_channels(&stage->out, &stage->in) &&
               keeps_channels(&use->in, &use->out);
    if (stage->filter || stage->branch || leat_use_filters(use) || leat_use_branches(use))
        return false;
    if (!leat_use_moves(use))
        return true; /* values come last in a stage, so they always can */
    if (e->pads && e->padding != LEAT_PAD_CONSTANT)
        return false;
    if (e->resizes)
        return !stage->resizes && !stage->n_maps && (!stage->pads || same_padding(stage, e));
    if (e->pads)
        return !stage->n_maps && (!stage->pads || same_padding(stage, e));
    return true; /* moving pixels and mapping values commute */
}

/* ToDtype(float32) of bytes, then Normalize: as Normalize of bytes, which rounds once instead of twice. */
static void add_map(struct leat_stage *stage, const struct leat_use *use)
{
    struct leat_use *last = stage->n_maps ? &stage->maps[stage->n_maps - 1] : NULL;
    if (last && use->op->class->takes_whole && last->op->class->converts && last->in.range == LEAT_RANGE_MAX &&
        last->out.range == LEAT_RANGE_UNIT && last->out.dtype == LEAT_F32) {
        struct leat_type in = last->in;
        *last = *use;
        last->in = in;
        return;
    }
    stage->maps[stage->n_maps++] = *use;
}

static bool append(struct leat_stage *stage, const char *a, const char *b)
{
    bool fits = strlen(stage->label) + strlen(a) + strlen(b) < sizeof stage->label;
    if (fits)
        strcat(strcat(stage->label, a), b);
    return fits;
}

/* "RandomResizedCrop+Normalize"; for a branch "RandomApply(ColorJitter)". A name that does not fit is left out. */
static void add_label(struct leat_stage *stage, const struct leat_use *use)
{
    size_t was = strlen(stage->label), below = use->op->below;
    bool fits = append(stage, was ? "+" : "", use->op->class->type);
    for (size_t i = 1; i <= below; i++)
        fits = fits && append(stage, i == 1 ? "(" : "+", use->op[i].class->type);
    if (!fits || (below && !append(stage, ")", "")))
        stage->label[was] = '\0';
}

static void add(struct leat_stage *stage, const struct leat_use *use)
{
    const struct leat_op_class *class = use->op->class;
    if (class->adjust)
        stage->colors[stage->n_colors++] = use;
    if (leat_use_filters(use))
        stage->filter = stage->n_colors ? stage->colors[0] : use;
    else if (leat_use_branches(use))
        stage->branch = use;
    else if (class->map)
        add_map(stage, use);
    if (leat_use_moves(use))
        stage->moves[stage->n_moves++] = use;
    for (size_t i = 0; i <= use->op->below; i++)
        stage->aimed |= use->op[i].class->aim != NULL;
    stage->decode |= use->op->class->decodes;
    stage->resizes |= use->effect.resizes;
    stage->flips |= use->effect.flips;
    if (use->effect.pads && !stage->pads) {
        stage->pads = true;
        stage->padding = use->effect.padding;
        memcpy(stage->fill, use->effect.fill, sizeof stage->fill);
    }
    if (stage->decode && use->in.kind != LEAT_KIND_ARRAY)
        stage->in = use->out; /* the stage's input is the decoder's rows */
    enum leat_layout layout = stage->in.layout;
    stage->out = use->out;
    stage->out.layout = layout;
    if (use->in.kind == LEAT_KIND_ARRAY)
        add_label(stage, use);
}

const void *leat_stage_map(const struct leat_stage *stage, unsigned channel, const void *src, size_t n, void *a,
                           void *b)
{
    for (size_t i = 0; i < stage->n_maps; i++) {
        const struct leat_use *use = &stage->maps[i];
        void *dst = src == a ? b : a;
        use->op->class->map(use->op->args, &use->in, channel, src, dst, n);
        src = dst;
    }
    return src;
}

/* Tries arithmetic in place of the table, if the maps together are a line. */
static void find_affine(struct leat_store *store, const struct leat_stage *stage, unsigned first_channel)
{
    double scale[4], offset[4];
    for (unsigned c = 0; c < store->channels; c++) {
        scale[c] = 1;
        offset[c] = 0;
        for (size_t i = 0; i < stage->n_maps; i++) {
            const struct leat_use *use = &stage->maps[i];
            if (!use->op->class->line ||
                !use->op->class->line(use->op->args, &use->in, first_channel + c, &scale[c], &offset[c]))
                return;
        }
    }
    if (stage->n_maps)
        leat_store_find_affine(store, scale, offset);
}

size_t leat_stage_channels(const struct leat_stage *stage)
{
    /* an array that is no image has the same function for all its numbers */
    return leat_type_is_image(&stage->in) ? (size_t)leat_type_channels(&stage->in) : 1;
}

/* The results of a stage's maps for all bytes (of a fast stage), and for its fill. */
static void tabulate(struct leat_stage *stage)
{
    size_t size = leat_dtype_size(stage->out.dtype);
    uint8_t block[2][256 * 8], bytes[256];
    for (unsigned v = 0; v < 256; v++)
        bytes[v] = (uint8_t)v;
    for (unsigned c = 0; c < leat_stage_channels(stage); c++) {
        uint64_t fill = 0;
        leat_values_convert(LEAT_F64, stage->in.dtype, &stage->fill[c], &fill, 1);
        memcpy(stage->fills + c * size, leat_stage_map(stage, c, &fill, 1, block[0], block[1]), size);
        if (stage->fast)
            memcpy(stage->tables + c * 256 * size, leat_stage_map(stage, c, bytes, 256, block[0], block[1]),
                   256 * size);
    }
    stage->even = stage->fills[0];
    for (size_t i = 1; i < leat_stage_channels(stage) * size; i++)
        stage->even = stage->fills[i] == stage->even ? stage->even : -1;
}

static int make_tables(struct leat_stage *stage, const struct leat_kernels *kernels)
{
    size_t channels = leat_stage_channels(stage), size = leat_dtype_size(stage->out.dtype);
    bool planes = stage->in.layout == LEAT_LAYOUT_CHW;
    stage->fast = stage->in.dtype == LEAT_U8 && (planes ? stage->planar : channels <= 4);
    stage->passes = stage->fast && planes ? (unsigned)channels : 1;
    stage->fills = leat_new_array(channels, size);
    stage->tables = leat_new_array(channels * 256, size);
    stage->stores = leat_new_array(stage->passes, sizeof *stage->stores);
    if (!stage->fills || !stage->tables || !stage->stores)
        return LEAT_E_NOMEM;
    tabulate(stage);
    if (!stage->fast)
        return LEAT_OK;
    bool identity = size == 1;
    for (size_t i = 0; i < channels * 256 && identity; i++)
        identity = stage->tables[i] == i % 256;
    for (unsigned p = 0; p < stage->passes; p++) {
        struct leat_store *s = &stage->stores[p];
        s->channels = planes ? 1 : (unsigned)channels;
        s->pixel = s->channels == 1 ? 1 : stage->decode || stage->resizes ? 4 : s->channels;
        s->size = (unsigned)size;
        s->dtype = stage->out.dtype;
        s->planar = stage->planar;
        s->identity = identity;
        for (unsigned c = 0; c < s->channels; c++)
            s->table[c] = stage->tables + (p + c) * 256 * size;
        find_affine(s, stage, p);
    }
    for (unsigned p = 1; p < stage->passes; p++) /* one loop serves all passes */
        stage->stores[0].affine = stage->stores[0].affine && stage->stores[p].affine;
    struct leat_store resized = stage->stores[0];
    resized.pixel = resized.channels;
    stage->store = kernels->store(&stage->stores[0]);
    stage->store_resized = kernels->store(&resized);
    return LEAT_OK;
}

/* A batch of such rows does not stay in the caches until it is used. */
#define LARGE_BYTES (UINT64_C(256) << 10)

static bool large(const struct leat_type *type)
{
    uint64_t values = 1;
    for (unsigned i = 0; i < type->ndim; i++)
        if (type->shape[i] < 0 || !leat_mul_u64(values, (uint64_t)type->shape[i], &values))
            return false;
    return values >= LARGE_BYTES / leat_dtype_size(type->dtype);
}

void leat_stage_store(const struct leat_stage *stage, const uint8_t *src, size_t n, uint8_t *dst)
{
    size_t plane = n / stage->passes;
    for (const struct leat_store *s = stage->stores; s < stage->stores + stage->passes; s++) {
        stage->store(s, src, plane / s->channels, false, (uint8_t *const[4]){dst});
        src += plane;
        dst += plane * s->size;
    }
}

static bool only_copies(const struct leat_stage *s)
{
    return !s->decode && !s->n_moves && !s->n_maps && !s->filter && !s->branch && s->in.dtype == s->out.dtype &&
           (leat_stage_channels(s) == 1 || s->planar == (s->in.layout == LEAT_LAYOUT_CHW));
}

static bool is_dense(const struct leat_stage *s)
{
    return s->fast && !s->decode && !s->n_moves && !s->stream &&
           (leat_stage_channels(s) == 1 || s->planar == (s->in.layout == LEAT_LAYOUT_CHW));
}

/* Whether one is needed that delivers the result: a filter or a branch leaves it in a buffer, and planes are resized to
 * planes. */
static bool needs_end(const struct leat_stage *stages, size_t used, enum leat_stages_end end)
{
    const struct leat_stage *last = used ? &stages[used - 1] : NULL;
    return end != LEAT_STAGES_HAND_OVER &&
           (!last || last->filter || last->branch ||
            (end == LEAT_STAGES_DELIVER_PIXELS && last->resizes && last->in.layout == LEAT_LAYOUT_CHW));
}

static bool works_in_place(const struct leat_use *use)
{
    return leat_use_filters(use) &&
           (use->op->class->in_place || (use->op->class->adjust && keeps_channels(&use->in, &use->out)));
}

/* The number of the uses, the last ones, that can change the delivered result of the others: those that only give the
 * layout of the result are among them. */
static size_t count_in_place(const struct leat_use *uses, size_t n, enum leat_stages_end end)
{
    size_t found = 0;
    for (size_t i = n; i && end != LEAT_STAGES_HAND_OVER; i--) {
        const struct leat_op_class *class = uses[i - 1].op->class;
        if (works_in_place(&uses[i - 1]))
            found = n - i + 1;
        else if (leat_op_makes_values(class) || class->decodes)
            break;
    }
    return found;
}

/* Adds a use, or nothing, to the last stage, or to a new one. */
static int place(struct leat_stage *stages, size_t *used, const struct leat_use *use, size_t n,
                 const struct leat_type *first)
{
    if (!*used || !use || !joins(&stages[*used - 1], use)) {
        struct leat_stage *stage = &stages[(*used)++];
        stage->in = stage->out = *used > 1 ? stages[*used - 2].out : *first;
        stage->moves = leat_new_array(n ? n : 1, sizeof *stage->moves);
        stage->maps = leat_new_array(n ? n : 1, sizeof *stage->maps);
        if (!stage->moves || !stage->maps)
            return LEAT_E_NOMEM;
    }
    if (use)
        add(&stages[*used - 1], use);
    return LEAT_OK;
}

int leat_stages_compile(const struct leat_use *uses, size_t n, const struct leat_type *first, enum leat_stages_end end,
                        const struct leat_kernels *kernels, struct leat_stage **out, size_t *n_out)
{
    struct leat_stage *stages = leat_new_array(n + 1, sizeof *stages);
    size_t deliver = n - count_in_place(uses, n, end), last;
    *out = stages;
    *n_out = 0;
    if (!stages)
        return LEAT_E_NOMEM;
    for (size_t i = 0; i < deliver || needs_end(stages, *n_out, end); i++)
        if (place(stages, n_out, i < deliver ? &uses[i] : NULL, n, first))
            return LEAT_E_NOMEM;
    last = *n_out - 1;
    for (size_t i = deliver; i < n; i++)
        if (works_in_place(&uses[i]) && place(stages, n_out, &uses[i], n, first))
            return LEAT_E_NOMEM;
    bool reread = last + 1 < *n_out && stages[last + 1].n_colors; /* an eraser reads little of it */
    for (size_t i = 0; i < *n_out; i++) {
        stages[i].last = end != LEAT_STAGES_HAND_OVER && i == last;
        stages[i].in_place = i > last;
        stages[i].stream = stages[i].last && large(&stages[i].out) && !reread;
        stages[i].planar = i >= last && end != LEAT_STAGES_HAND_OVER ? end == LEAT_STAGES_DELIVER_PLANES
                                                                     : stages[i].in.layout == LEAT_LAYOUT_CHW;
        stages[i].filters_in_place = stages[i].filter && works_in_place(stages[i].filter);
        stages[i].copies = stages[i].last && only_copies(&stages[i]);
        if (i && stages[i].copies)
            stages[i - 1].delivers = stages[i - 1].filter;
        if (stages[i].filter)
            continue;
        if (stages[i].branch ? leat_branch_compile(stages[i].branch->branch, kernels)
                             : make_tables(&stages[i], kernels))
            return LEAT_E_NOMEM;
        stages[i].dense = !stages[i].branch && is_dense(&stages[i]);
    }
    return LEAT_OK;
}

void leat_stages_take_nearest(struct leat_stage *stages, size_t n)
{
    for (struct leat_stage *stage = stages; stage < stages + n; stage++) {
        const struct leat_branch *branch = stage->branch ? stage->branch->branch : NULL;
        stage->nearest = true;
        for (size_t i = 0; branch && i < branch->n; i++)
            leat_stages_take_nearest(branch->alternatives[i].stages, branch->alternatives[i].n_stages);
    }
}

void leat_stages_hand_over(struct leat_stage *stages, size_t n)
{
    struct leat_stage *last = leat_stages_last(stages, n);
    last->last = last->stream = last->copies = false;
    for (size_t i = 0; i < n; i++)
        stages[i].delivers = false;
}

void leat_stages_free(struct leat_stage *stages, size_t n)
{
    for (size_t i = 0; stages && i < n; i++) {
        leat_free(stages[i].moves);
        leat_free(stages[i].maps);
        leat_free(stages[i].stores);
        leat_free(stages[i].tables);
        leat_free(stages[i].fills);
    }
    leat_free(stages);
}
