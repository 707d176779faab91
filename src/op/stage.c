/* Composing movements into a view, and cutting a chain into stages. Running them: stage_run.c. */
#include "op/stage.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "kernels/values.h"

/* ---- views ---- */

static struct leat_rect intersect(struct leat_rect a, struct leat_rect b)
{
    int64_t x0 = a.x > b.x ? a.x : b.x, y0 = a.y > b.y ? a.y : b.y;
    int64_t x1 = a.x + a.w < b.x + b.w ? a.x + a.w : b.x + b.w, y1 = a.y + a.h < b.y + b.h ? a.y + a.h : b.y + b.h;
    return (struct leat_rect){x0, y0, x1 > x0 ? x1 - x0 : 0, y1 > y0 ? y1 - y0 : 0};
}

void leat_view_begin(struct leat_view *view, uint32_t w, uint32_t h)
{
    struct leat_rect all = {0, 0, w, h};
    *view = (struct leat_view){.source = all, .grid_w = w, .grid_h = h, .window = all, .valid = all};
}

void leat_view_move(struct leat_view *view, const struct leat_move *move)
{
    struct leat_rect *win = &view->window;
    int64_t x = view->flip ? win->w - move->x - move->w : move->x; /* the box in a mirrored view is the mirrored box */
    *win = (struct leat_rect){win->x + x, win->y + move->y, move->w, move->h};
    view->valid = intersect(view->valid, *win);
    if (move->out_w != move->w || move->out_h != move->h) {
        /* the stage was cut so that the view is not yet resized, mirrored or padded here */
        view->source = *win;
        view->resized = true;
        view->filter = move->filter;
        view->grid_w = move->out_w;
        view->grid_h = move->out_h;
        *win = view->valid = (struct leat_rect){0, 0, move->out_w, move->out_h};
    }
    view->flip ^= move->flip;
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

/* Whether `use` can join the stage that holds [begin, i) already. */
static bool joins(const struct leat_stage *stage, const struct leat_use *use)
{
    const struct leat_effect *e = &use->effect;
    if (stage->filter || leat_use_filters(use))
        return false;
    if (!use->op->class->move)
        return true; /* values come last in a stage, so they always can */
    if (e->pads && e->padding != LEAT_PAD_CONSTANT)
        return false;
    if (e->resizes)
        return !stage->resizes && !stage->flips && !stage->pads && !stage->n_maps;
    if (e->pads)
        return !stage->n_maps &&
               (!stage->pads || (stage->padding == LEAT_PAD_CONSTANT && !memcmp(stage->fill, e->fill, sizeof e->fill)));
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
    stage->draws |= use->op->class->random;
}

static void add(struct leat_stage *stage, const struct leat_use *use)
{
    if (leat_use_filters(use))
        stage->filter = use;
    else if (use->op->class->map)
        add_map(stage, use);
    if (use->op->class->move)
        stage->moves[stage->n_moves++] = use;
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
    size_t used = strlen(stage->label);
    if (use->in.kind == LEAT_KIND_ARRAY && used + strlen(use->op->class->type) + 2 < sizeof stage->label)
        snprintf(stage->label + used, sizeof stage->label - used, "%s%s", used ? "+" : "", use->op->class->type);
}

const void *leat_stage_map(const struct leat_stage *stage, uint64_t row_key, unsigned channel, const void *src,
                           size_t n, void *a, void *b)
{
    for (size_t i = 0; i < stage->n_maps; i++) {
        const struct leat_use *use = &stage->maps[i];
        void *dst = src == a ? b : a;
        use->op->class->map(use->op->args, leat_key_mix(row_key, use->op->instance), &use->in, channel, src, dst, n);
        src = dst;
    }
    return src;
}

/* Tries arithmetic in place of the table, where the maps together are a line. */
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

void leat_stage_tabulate(const struct leat_stage *stage, uint64_t row_key, uint8_t *tables, uint8_t *fills)
{
    size_t size = leat_dtype_size(stage->out.dtype);
    uint8_t block[2][256 * 8], bytes[256];
    for (unsigned v = 0; v < 256; v++)
        bytes[v] = (uint8_t)v;
    for (unsigned c = 0; c < leat_stage_channels(stage); c++) {
        uint64_t fill = 0;
        leat_values_convert(LEAT_F64, stage->in.dtype, &stage->fill[c], &fill, 1);
        memcpy(fills + c * size, leat_stage_map(stage, row_key, c, &fill, 1, block[0], block[1]), size);
        if (stage->fast)
            memcpy(tables + c * 256 * size, leat_stage_map(stage, row_key, c, bytes, 256, block[0], block[1]),
                   256 * size);
    }
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
    leat_stage_tabulate(stage, 0, stage->tables, stage->fills);
    if (!stage->fast)
        return LEAT_OK;
    bool identity = size == 1 && !stage->draws;
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
        if (!stage->draws)
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

static bool is_dense(const struct leat_stage *s)
{
    return s->fast && !s->decode && !s->n_moves && !s->draws && !s->stream &&
           (leat_stage_channels(s) == 1 || s->planar == (s->in.layout == LEAT_LAYOUT_CHW));
}

int leat_stages_compile(const struct leat_use *uses, size_t n, const struct leat_type *first, bool planar_at_end,
                        const struct leat_kernels *kernels, struct leat_stage **out, size_t *n_out)
{
    struct leat_stage *stages =
        leat_new_array(n + 1, sizeof *stages); /* behind a filter at the end, one that delivers */
    size_t used = 0;
    *out = stages;
    *n_out = 0;
    if (!stages)
        return LEAT_E_NOMEM;
    for (size_t i = 0; i < n || !used || stages[used - 1].filter; i++) {
        const struct leat_use *use = i < n ? &uses[i] : NULL;
        if (!used || !use || !joins(&stages[used - 1], use)) {
            struct leat_stage *stage = &stages[used++];
            *n_out = used;
            stage->in = stage->out = used > 1 ? stages[used - 2].out : *first;
            stage->moves = leat_new_array(n ? n : 1, sizeof *stage->moves);
            stage->maps = leat_new_array(n ? n : 1, sizeof *stage->maps);
            if (!stage->moves || !stage->maps)
                return LEAT_E_NOMEM;
        }
        if (use)
            add(&stages[used - 1], use);
    }
    for (size_t i = 0; i < used; i++) {
        stages[i].last = i + 1 == used;
        stages[i].stream = stages[i].last && large(&stages[i].out);
        stages[i].planar = stages[i].last ? planar_at_end : stages[i].in.layout == LEAT_LAYOUT_CHW;
        if (!stages[i].filter && make_tables(&stages[i], kernels))
            return LEAT_E_NOMEM;
        stages[i].dense = is_dense(&stages[i]);
    }
    return LEAT_OK;
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
