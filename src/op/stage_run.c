/* Running a stage: the draws for a row, its room, and filters and branches; pixels: stage_pass.c. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "codec/jpeg/card_plan.h"
#include "kernels/values.h"
#include "op/adjust.h"
#include "op/branch.h"

void leat_stage_work_destroy(struct leat_stage_work *work)
{
    leat_decoders_destroy(&work->decoders);
    leat_axis_destroy(&work->across);
    leat_axis_destroy(&work->down);
    leat_free(work->ring);
    leat_free(work->line);
    leat_free(work->between[0]);
    leat_free(work->between[1]);
    leat_free(work->taps);
    leat_free(work->filter);
    leat_card_packer_free(work->packer);
    memset(work, 0, sizeof *work);
}

static void trim(uint8_t **buffer, size_t *room)
{
    if (*room <= LEAT_KEEP_BYTES)
        return;
    leat_free(*buffer);
    *buffer = NULL;
    *room = 0;
}

void leat_stage_work_trim(struct leat_stage_work *work)
{
    trim(&work->between[0], &work->room_between[0]);
    trim(&work->between[1], &work->room_between[1]);
    trim(&work->filter, &work->room_filter);
    if (work->packer)
        leat_card_packer_trim(work->packer);
}

/* ---- a stage ---- */

/* Moves are composed as they are drawn. */
struct viewing {
    const struct leat_stage *stage;
    const struct leat_move *aims; /* those that are drawn by targets; NULL: these are not known, */
    unsigned shape;               /* and the widest of this shape is taken */
    struct leat_view *view;
    struct leat_error *error;
};

static int add_move(void *context, const struct leat_op *op, uint64_t key)
{
    const struct viewing *v = context;
    uint32_t w = (uint32_t)v->view->window.w, h = (uint32_t)v->view->window.h;
    struct leat_move move = {.w = w, .h = h, .out_w = w, .out_h = h};
    int rc = LEAT_OK;
    if (!op->class->move && !op->class->aim) /* of a branch, operators that do not concern a mask stand beside its
                                              * moves */
        return LEAT_OK;
    if (op->class->move)
        rc = op->class->move(op->args, key, w, h, &move, v->error);
    else if (v->aims)
        move = v->aims[op->aim];
    else
        op->class->widest(op->args, v->shape, w, h, &move);
    move.filter = v->stage->nearest ? LEAT_FILTER_NEAREST : move.filter;
    if (!rc)
        leat_view_move(v->view, &move);
    return rc;
}

static int draw_view(const struct leat_stage *stage, const struct leat_move *aims, unsigned shape, uint64_t row_key,
                     uint32_t w, uint32_t h, struct leat_view *view, struct leat_error *error)
{
    struct viewing viewing = {stage, aims, shape, view, error};
    int rc = LEAT_OK;
    leat_view_begin(view, w, h);
    for (size_t i = 0; !rc && i < stage->n_moves; i++)
        rc = leat_op_act(stage->moves[i]->op, row_key, add_move, &viewing);
    return rc;
}

int leat_stage_view(const struct leat_stage *stage, const struct leat_stage_work *work, uint64_t row_key, uint32_t w,
                    uint32_t h, struct leat_view *view, struct leat_error *error)
{
    return draw_view(stage, work->aims, 0, row_key, w, h, view, error);
}

int leat_stage_open(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_row *row,
                    uint32_t *w, uint32_t *h, struct leat_error *error)
{
    const struct leat_image_wish wish = {
        .gray = stage->in.gray,
        .wide = stage->in.dtype == LEAT_U16,
        .ids = stage->in.ids,
        .alpha = stage->in.alpha,
        .background = {stage->in.background[0], stage->in.background[1], stage->in.background[2]},
        .frame = stage->in.frame,
        .exif = stage->in.exif,
        .icc = stage->in.icc};
    const struct leat_decode_request request = leat_row_request(row, &wish, stage->in.lenient);
    int64_t begin = work->detail ? leat_clock_ns() : 0;
    *w = *h = 0;
    work->decoder =
        leat_decoded_decoder_for(&work->sharing, work->decoded, leat_decoders_get(&work->decoders, stage->in.codec),
                                 &row->value, &request, stage->in.dct_scaling);
    int rc = work->decoder ? leat_image_open(work->decoder, &request, w, h, error)
                           : leat_fail(error, LEAT_E_NOMEM, "No memory for a decoder.");
    if (work->detail)
        work->decode_ns += (uint64_t)(leat_clock_ns() - begin);
    /* a photo without class ids may be as good as any */
    work->health = rc == LEAT_E_DECODE && !stage->in.ids ? LEAT_HEALTH_BROKEN : LEAT_HEALTH_UNCHECKED;
    work->w = *w;
    work->h = *h;
    return rc;
}

/* Opens it, unless that is done. */
static int open_now(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_row *row,
                    uint32_t *w, uint32_t *h, struct leat_error *error)
{
    if (!work->opened_ahead)
        return leat_stage_open(stage, work, row, w, h, error);
    work->opened_ahead = false;
    *w = work->w;
    *h = work->h;
    return LEAT_OK;
}

static size_t image_bytes(const struct leat_type *type, uint32_t w, uint32_t h)
{
    return (size_t)w * h * (size_t)leat_type_channels(type) * leat_dtype_size(type->dtype);
}

/* Room for the result of a stage: in a buffer between stages, after which the next image goes to the other one; or at
 * the destination of an image of open size. */
static int make_room(const struct leat_stage *stage, struct leat_stage_work *work, unsigned *buffer, uint32_t w,
                     uint32_t h, struct leat_image *image, struct leat_error *error)
{
    const struct leat_type *type = &stage->out;
    size_t bytes = image_bytes(type, w, h);
    if (stage->open) {
        void *memory;
        int rc = work->room->take(work->room, work->output, bytes, &memory, error);
        if (!rc)
            leat_image_packed(image, type, stage->planar, w, h, memory);
        return rc;
    }
    if (!leat_stage_buffer((void **)&work->between[*buffer], &work->room_between[*buffer], bytes, 1))
        return leat_fail(error, LEAT_E_NOMEM, "No memory for an image of %zu bytes between two operators.", bytes);
    leat_image_packed(image, type, stage->planar, w, h, work->between[*buffer]);
    *buffer ^= 1;
    return LEAT_OK;
}

/* The visible part of a photo of 16 bits, into memory: the later steps go value by value. `view` becomes that of the
 * part. */
static int read_part(const struct leat_stage *stage, struct leat_stage_work *work, struct leat_view *view,
                     unsigned buffer, struct leat_image *part, struct leat_error *error)
{
    const struct leat_rect box = view->valid;
    const size_t channels = (size_t)leat_type_channels(&stage->in), from = channels == 1 ? 2 : 8;
    size_t bytes = image_bytes(&stage->in, (uint32_t)box.w, (uint32_t)box.h);
    if (!leat_stage_buffer((void **)&work->between[buffer], &work->room_between[buffer], bytes, 1))
        return leat_fail(error, LEAT_E_NOMEM, "No memory for a photo of %zu bytes.", bytes);
    leat_image_packed(part, &stage->in, false, (uint32_t)box.w, (uint32_t)box.h, work->between[buffer]);
    view->window.x -= box.x;
    view->window.y -= box.y;
    view->valid.x = view->valid.y = 0;
    if (!box.w || !box.h)
        return LEAT_OK;
    int64_t begin = work->detail ? leat_clock_ns() : 0;
    int rc =
        leat_decoder_begin(work->decoder, 1, (uint32_t)box.x, (uint32_t)box.y, (uint32_t)box.w, (uint32_t)box.h, error);
    uint8_t *to = part->base;
    for (int64_t y = 0; !rc && y < box.h; y++) {
        const uint8_t *row;
        rc = leat_decoder_row(work->decoder, &row, error);
        for (int64_t x = 0; !rc && x < box.w; x++, to += channels * 2, row += from)
            memcpy(to, row, channels * 2);
    }
    if (work->detail)
        work->decode_ns += (uint64_t)(leat_clock_ns() - begin);
    return rc;
}

static int check_size(const struct leat_stage *stage, int64_t w, int64_t h, const struct leat_image *target,
                      struct leat_error *error)
{
    if (leat_type_width(&stage->out) < 0 || leat_type_height(&stage->out) < 0 || (w == target->w && h == target->h))
        return LEAT_OK;
    return leat_fail(error, LEAT_E_INVALID, "an image of %lld x %lld came where %u x %u had been inferred",
                     (long long)w, (long long)h, target->w, target->h);
}

#define ALIGNMENT 64

static struct leat_filter_plan plan_filter(const struct leat_stage *stage, uint64_t row_key,
                                           const struct leat_image *image)
{
    const struct leat_op *op = stage->filter->op;
    struct leat_filter_plan plan = {.w = image->w, .h = image->h};
    if (stage->n_colors)
        plan.scratch = leat_adjust_scratch(image);
    else if (op->class->plan)
        op->class->plan(op->args, leat_key_mix(row_key, op->instance), image, &plan);
    plan.scratch += plan.scratch ? ALIGNMENT : 0;
    return plan;
}

/* The operators that a branch runs for a row. */
struct chosen {
    unsigned n;
    uint8_t which[LEAT_MAX_ALTERNATIVES];
};

static const struct leat_alternative *chosen(const struct leat_stage *stage, const struct chosen *c, unsigned i)
{
    return &stage->branch->branch->alternatives[c->which[i]];
}

static bool branch_skips(const struct leat_stage *stage, uint64_t row_key)
{
    struct chosen c;
    c.n = leat_branch_choose(stage->branch->op, row_key, c.which);
    for (unsigned i = 0; i < c.n; i++)
        if (chosen(stage, &c, i)->n_stages)
            return false;
    return true;
}

/* The steps of a stage of colors. */
static unsigned draw_steps(const struct leat_stage *stage, uint64_t row_key, struct leat_adjust *steps)
{
    unsigned n = 0;
    for (size_t i = 0; i < stage->n_colors; i++) {
        const struct leat_op *op = stage->colors[i]->op;
        n += op->class->adjust(op->args, leat_key_mix(row_key, op->instance), (unsigned)leat_type_channels(&stage->in),
                               steps + n);
    }
    return n;
}

bool leat_stage_skips(const struct leat_stage *stage, uint64_t row_key)
{
    if (stage->branch)
        return branch_skips(stage, row_key);
    if (stage->n_colors) {
        struct leat_adjust steps[LEAT_MAX_COLORS * LEAT_MAX_ADJUSTS];
        return !draw_steps(stage, row_key, steps);
    }
    const struct leat_op *op = stage->filter ? stage->filter->op : NULL;
    return op && op->class->skips && op->class->skips(op->args, leat_key_mix(row_key, op->instance));
}

size_t leat_stages_straight(const struct leat_stage *stages, size_t n, size_t at, uint64_t row_key)
{
    for (size_t i = at + 1; i < n && stages[at].copies; i++)
        if (!leat_stage_skips(&stages[i], row_key))
            return i;
    return at;
}

static int run_filter(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_row *row,
                      const struct leat_image *image, unsigned *buffer, struct leat_image *target,
                      struct leat_error *error)
{
    const struct leat_op *op = stage->filter->op;
    struct leat_adjust steps[LEAT_MAX_COLORS * LEAT_MAX_ADJUSTS];
    struct leat_filter_plan plan = plan_filter(stage, row->key, image);
    if (!leat_stage_buffer((void **)&work->filter, &work->room_filter, plan.scratch, 1))
        return leat_fail(error, LEAT_E_NOMEM, "No memory for %zu bytes that %s needs.", plan.scratch, op->class->type);
    const bool between = image->base == work->between[0] || image->base == work->between[1];
    int rc = LEAT_OK;
    if (stage->delivers || stage->in_place)
        rc = check_size(stage, plan.w, plan.h, target, error);
    else if (stage->filters_in_place && between)
        *target = *image;
    else
        rc = make_room(stage, work, buffer, plan.w, plan.h, target, error);
    target->ids = stage->nearest;
    void *scratch = plan.scratch ? work->filter + (-(uintptr_t)work->filter & (ALIGNMENT - 1)) : NULL;
    if (!rc && stage->n_colors)
        leat_adjust(work->kernels->isa, steps, draw_steps(stage, row->key, steps), image, target, scratch);
    else if (!rc && op->class->remake)
        rc = op->class->remake(op->args, leat_key_mix(row->key, op->instance), image, target, scratch, error);
    else if (!rc)
        op->class->filter(work->kernels->isa, op->args, leat_key_mix(row->key, op->instance), image, target, scratch);
    return rc;
}

static int run_branch(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_row *row,
                      const struct leat_image *image, unsigned *buffer, struct leat_image *target,
                      struct leat_error *error)
{
    struct chosen c;
    c.n = leat_branch_choose(stage->branch->op, row->key, c.which);
    *target = *image;
    for (unsigned i = 0; i < c.n; i++) {
        const struct leat_alternative *a = chosen(stage, &c, i);
        for (size_t s = 0; s < a->n_stages; s++) {
            struct leat_image from = *target;
            int rc = leat_stage_skips(&a->stages[s], row->key)
                         ? LEAT_OK
                         : leat_stage_run(&a->stages[s], work, row, &from, buffer, target, error);
            if (rc)
                return rc;
        }
    }
    return LEAT_OK;
}

int leat_stage_end_value(struct leat_stage_work *work, const struct leat_row *row, int rc, int misfit,
                         struct leat_error *error)
{
    int end = leat_decoder_end(work->decoder, rc != misfit ? NULL : error);
    work->warnings |= leat_decoder_warnings(work->decoder);
    rc = end && rc == misfit ? end : rc; /* a value that is broken is that first of all */
    if (rc == LEAT_E_DECODE && (end || !misfit))
        work->health = LEAT_HEALTH_BROKEN;
    else if (row->scan_to_end && !end && rc == misfit && leat_decoder_whole(work->decoder))
        work->health = LEAT_HEALTH_GOOD;
    return rc;
}

int leat_stage_run(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_row *row,
                   const struct leat_image *image, unsigned *buffer, struct leat_image *target,
                   struct leat_error *error)
{
    if (stage->branch)
        return run_branch(stage, work, row, image, buffer, target, error);
    if (stage->filter)
        return run_filter(stage, work, row, image, buffer, target, error);
    uint32_t w = image ? image->w : 0, h = image ? image->h : 0;
    int rc = stage->decode ? open_now(stage, work, row, &w, &h, error) : LEAT_OK;
    if (rc)
        return rc;
    struct leat_view view;
    if (stage->decode && work->opened)
        rc = work->opened(work->context, w, h, error);
    rc = rc ? rc : draw_view(stage, work->aims, 0, row->key, w, h, &view, error);
    if (!rc && stage->last)
        rc = check_size(stage, view.window.w, view.window.h, target, error);
    int misfit = rc; /* the operator's fault, not the photo's */
    if (!rc && !stage->last)
        rc = make_room(stage, work, buffer, (uint32_t)view.window.w, (uint32_t)view.window.h, target, error);
    for (unsigned c = 0; stage->pads && stage->resizes && c < LEAT_MAX_CHANNELS; c++)
        leat_values_convert(LEAT_F64, LEAT_U8, &stage->fill[c], &work->fill[c], 1);
    struct leat_image part;
    if (!rc && stage->decode && !stage->fast) {
        rc = read_part(stage, work, &view, *buffer, &part, error); /* the first stage: it has no input there */
        image = &part;
    }
    if (!rc)
        rc = leat_stage_pass(stage, work, &view, image, target, error);
    if (stage->stream && work->kernels->fence)
        work->kernels->fence();
    if (!stage->decode)
        return rc;
    int64_t begin = work->detail ? leat_clock_ns() : 0;
    rc = leat_stage_end_value(work, row, rc, misfit, error);
    if (work->detail)
        work->decode_ns += (uint64_t)(leat_clock_ns() - begin);
    return rc;
}

/* ---- needs of images of a known size ---- */

/* The stages of a row, as they would run. */
struct sizing {
    uint64_t row_key;
    unsigned shape;   /* of boxes that are drawn by targets */
    uint32_t w, h;    /* of the image so far */
    uint64_t most[3]; /* of the two buffers between stages, and of the scratch of filters */
    unsigned buffer;
    bool held;  /* the image lies in one of the two */
    bool ended; /* an operator refuses this size: so will the row, before it takes more */
    bool aimed; /* some box is drawn by targets */
};

static void size_stages(struct sizing *s, const struct leat_stage *stages, size_t n);

static void size_stage(struct sizing *s, const struct leat_stage *stage)
{
    struct leat_view view;
    s->aimed |= stage->aimed;
    if (leat_stage_skips(stage, s->row_key))
        return;
    if (stage->branch) {
        struct chosen c;
        c.n = leat_branch_choose(stage->branch->op, s->row_key, c.which);
        for (unsigned i = 0; i < c.n; i++)
            size_stages(s, chosen(stage, &c, i)->stages, chosen(stage, &c, i)->n_stages);
        return;
    }
    if (stage->filter) {
        struct leat_image image;
        leat_image_packed(&image, &stage->in, stage->planar, s->w, s->h, NULL);
        struct leat_filter_plan plan = plan_filter(stage, s->row_key, &image);
        s->most[2] = plan.scratch > s->most[2] ? plan.scratch : s->most[2];
        s->w = plan.w;
        s->h = plan.h;
        if (stage->in_place || (stage->filters_in_place && s->held))
            return;
    } else if (draw_view(stage, NULL, s->shape, s->row_key, s->w, s->h, &view, NULL)) {
        s->ended = true;
        return;
    } else {
        s->w = (uint32_t)view.window.w;
        s->h = (uint32_t)view.window.h;
    }
    if (stage->last || stage->delivers || stage->open) /* it writes into the batch */
        return;
    uint64_t bytes = image_bytes(&stage->out, s->w, s->h), *between = &s->most[s->buffer];
    *between = bytes > *between ? bytes : *between;
    s->buffer ^= 1;
    s->held = true;
}

static void size_stages(struct sizing *s, const struct leat_stage *stages, size_t n)
{
    for (size_t i = 0; i < n && !s->ended; i++)
        size_stage(s, &stages[i]);
}

uint64_t leat_stages_bytes(const struct leat_stage *stages, size_t n, uint64_t row_key, uint32_t w, uint32_t h)
{
    uint64_t most = 0;
    struct sizing s = {.aimed = true};
    for (unsigned shape = 0; shape < LEAT_AIM_SHAPES && s.aimed; shape++) {
        s = (struct sizing){.row_key = row_key, .shape = shape, .w = w, .h = h};
        if (n && stages->decode && !stages->fast)
            s.most[1] = image_bytes(&stages->in, w, h); /* read_part */
        size_stages(&s, stages, n);
        uint64_t sum = 0;
        for (unsigned i = 0; i < 3; i++)
            sum += s.most[i] > LEAT_KEEP_BYTES ? s.most[i] : 0;
        most = sum > most ? sum : most;
    }
    return most;
}

static int reserve_branch(const struct leat_stage *stage, struct leat_stage_work *work, uint32_t w, uint32_t h)
{
    const struct leat_branch *branch = stage->branch->branch;
    int rc = LEAT_OK;
    for (size_t i = 0; !rc && i < branch->n; i++)
        rc = leat_stages_reserve(branch->alternatives[i].stages, branch->alternatives[i].n_stages, work, w, h);
    return rc;
}

int leat_stages_reserve(const struct leat_stage *stages, size_t n, struct leat_stage_work *work, uint32_t w, uint32_t h)
{
    work->asked[0].grid = work->asked[1].grid = work->planned[1] = 0; /* axes may lose their contents */
    for (size_t i = 0; i < n; i++) {
        const struct leat_stage *stage = &stages[i];
        int64_t out_w = leat_type_width(&stage->out), out_h = leat_type_height(&stage->out);
        if (stage->branch && reserve_branch(stage, work, w, h))
            return LEAT_E_NOMEM;
        if (stage->filter) {
            struct leat_image image;
            leat_image_packed(&image, &stage->in, stage->planar, w, h, NULL);
            if (!leat_stage_buffer((void **)&work->filter, &work->room_filter, plan_filter(stage, 0, &image).scratch,
                                   1))
                return LEAT_E_NOMEM;
        }
        if (out_w < 0 || out_h < 0) /* the size is drawn: buffers grow with the rows */
            return LEAT_OK;
        size_t pixel = stage->fast ? stage->stores[0].pixel : 0, widest = w > out_w ? w : (size_t)out_w;
        if (!leat_stage_buffer((void **)&work->line, &work->room_line,
                               widest * (stage->fast ? 8 : 24) + LEAT_ROW_PADDING, 1))
            return LEAT_E_NOMEM;
        for (size_t m = 0; m < stage->n_moves && stage->resizes; m++) {
            const struct leat_use *use = stage->moves[m];
            if (!use->effect.resizes)
                continue;
            int64_t grid_w = leat_type_width(&use->out), grid_h = leat_type_height(&use->out);
            if (grid_w < 0 || grid_h < 0) /* drawn: likewise */
                continue;
            int64_t from_w = leat_type_width(&use->in), from_h = leat_type_height(&use->in); /* of a padded image */
            unsigned across = leat_axis_taps(from_w > w ? (double)from_w : w, (uint32_t)grid_w, use->effect.filter);
            unsigned down = leat_axis_taps(from_h > h ? (double)from_h : h, (uint32_t)grid_h, use->effect.filter);
            size_t slot = (size_t)grid_w * pixel + LEAT_ROW_PADDING;
            if (leat_axis_reserve(&work->across, (uint32_t)grid_w, across) ||
                leat_axis_reserve(&work->down, (uint32_t)grid_h, down) ||
                (work->kernels->reserve && work->kernels->reserve(&work->across, (uint32_t)grid_w, across)) ||
                !leat_stage_buffer((void **)&work->ring, &work->room_ring, (down + 1) * slot, 1) ||
                !leat_stage_buffer((void **)&work->taps, &work->room_taps, down, sizeof *work->taps))
                return LEAT_E_NOMEM;
        }
        size_t bytes = (size_t)(out_w * out_h * leat_type_channels(&stage->out)) * leat_dtype_size(stage->out.dtype);
        bool between = !stage->last && !stage->in_place;
        for (unsigned b = 0; b < 2 && between; b++) /* which of the two follows from the stages left out */
            if (!leat_stage_buffer((void **)&work->between[b], &work->room_between[b], bytes, 1))
                return LEAT_E_NOMEM;
        w = (uint32_t)out_w;
        h = (uint32_t)out_h;
    }
    return LEAT_OK;
}

/* Lines, the ring and weights of a resize; kernels have about as much again as there are weights. */
static uint64_t resize_bytes(const struct leat_use *use, uint32_t w, uint32_t h)
{
    const int64_t grid_w = leat_type_width(&use->out), grid_h = leat_type_height(&use->out);
    if (!use->effect.resizes || grid_w < 0 || grid_h < 0)
        return 0;
    const int64_t from_w = leat_type_width(&use->in), from_h = leat_type_height(&use->in);
    const uint64_t across = leat_axis_taps(from_w > w ? (double)from_w : w, (uint32_t)grid_w, use->effect.filter),
                   down = leat_axis_taps(from_h > h ? (double)from_h : h, (uint32_t)grid_h, use->effect.filter),
                   pixel = (uint64_t)leat_type_channels(&use->in) * leat_dtype_size(use->in.dtype);
    return ((uint64_t)grid_w * across + (uint64_t)grid_h * down) * 3 * sizeof(int32_t) +
           (down + 2) * ((uint64_t)grid_w * pixel + LEAT_ROW_PADDING);
}

/* The largest image between stages whose size is known, the most scratch of a filter, the memory of the largest resize,
 * and the widest row. */
static void find_largest(const struct leat_stage *stages, size_t n, uint32_t w, uint32_t h, uint64_t most[4])
{
    for (const struct leat_stage *stage = stages; stage < stages + n; stage++) {
        const struct leat_branch *branch = stage->branch ? stage->branch->branch : NULL;
        for (size_t i = 0; branch && i < branch->n; i++)
            find_largest(branch->alternatives[i].stages, branch->alternatives[i].n_stages, w, h, most);
        if (stage->filter) {
            struct leat_image image;
            leat_image_packed(&image, &stage->in, stage->planar, w, h, NULL);
            size_t scratch = plan_filter(stage, 0, &image).scratch;
            most[1] = scratch > most[1] ? scratch : most[1];
        }
        for (size_t i = 0; i < stage->n_moves; i++) {
            const uint64_t bytes = resize_bytes(stage->moves[i], w, h);
            most[2] = bytes > most[2] ? bytes : most[2];
        }
        int64_t out_w = leat_type_width(&stage->out), out_h = leat_type_height(&stage->out);
        if (out_w < 0 || out_h < 0)
            return;
        w = (uint32_t)out_w;
        h = (uint32_t)out_h;
        most[3] = w > most[3] ? w : most[3];
        uint64_t bytes = stage->last || stage->in_place ? 0 : image_bytes(&stage->out, w, h);
        most[0] = bytes > most[0] ? bytes : most[0];
    }
}

uint64_t leat_stages_room(const struct leat_stage *stages, size_t n, uint32_t w, uint32_t h)
{
    uint64_t most[4] = {0, 0, 0, w};
    find_largest(stages, n, w, h, most);
    const uint64_t line = n ? most[3] * 24 + LEAT_ROW_PADDING : 0;
    return 2 * leat_stage_buffer_room(most[0], 1) + leat_stage_buffer_room(most[1], 1) +
           leat_stage_buffer_room(most[2], 1) + leat_stage_buffer_room(line, 1);
}
