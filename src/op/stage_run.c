/* Running a stage: rows from the decoder or from memory, through the ring of a resize, to the destination. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "op/stage.h"

static bool reserve(void **buffer, size_t *room, size_t count, size_t each)
{
    if (count <= *room)
        return true;
    leat_free(*buffer); /* the old content is of no use */
    *room = 0;
    const size_t keep = LEAT_KEEP_BYTES / each; /* what is larger goes when its photo is done */
    const bool large = count > keep;
    size_t more = large ? count : count + count / 8 < keep ? count + count / 8 : keep;
    *buffer = large ? leat_realloc_array(NULL, more, each) : leat_new_array(more, each);
    *room = *buffer ? more : 0;
    return *buffer != NULL;
}

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
    leat_free(work->tables);
    leat_free(work->filter);
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
}

/* ---- where rows come from ---- */

struct reader {
    struct leat_stage_work *work;
    bool decode;
    const uint8_t *next; /* in memory */
    size_t step;
    unsigned pixel, expand; /* expand: bytes per pixel at rest where they are spread to 4; 0: not */
    bool pad;               /* rows at rest end where memory may end: copied, so that kernels can read beyond */
    size_t n;               /* pixels */
    size_t column;          /* bytes from one to the next, at rest */
    bool ahead;             /* ask for later rows */
};

#define AHEAD 2

static int read_row(struct reader *reader, const uint8_t **row, struct leat_error *error)
{
    struct leat_stage_work *work = reader->work;
    if (reader->decode) {
        int64_t begin = work->detail ? leat_clock_ns() : 0;
        int rc = leat_decoder_row(work->decoder, row, error);
        if (work->detail)
            work->decode_ns += (uint64_t)(leat_clock_ns() - begin);
        return rc;
    }
    *row = reader->next;
    reader->next += reader->step;
    if (reader->ahead) /* mirrored rows are read backwards, which the hardware does not foresee from row to row */
        for (size_t i = 0; i < reader->n * reader->column; i += 64)
            __builtin_prefetch(reader->next + AHEAD * reader->step + i);
    if (reader->expand)
        leat_expand(*row, reader->expand, reader->n, work->line);
    else if (reader->pad)
        memcpy(work->line, *row, reader->n * reader->pixel);
    if (reader->expand || reader->pad)
        *row = work->line;
    return LEAT_OK;
}

/* Begins the rows of `box` of the image at 1/denominator. */
static int begin_rows(struct reader *reader, const struct leat_stage *stage, struct leat_stage_work *work,
                      const struct leat_image *image, unsigned pass, unsigned denominator, struct leat_rect box,
                      bool kernels_read_beyond, struct leat_error *error)
{
    unsigned pixel = stage->stores[pass].pixel;
    *reader = (struct reader){.work = work, .decode = stage->decode, .pixel = pixel, .n = (size_t)box.w};
    if (stage->decode) {
        int64_t begin = work->detail ? leat_clock_ns() : 0;
        int rc = leat_decoder_begin(work->decoder, denominator, (uint32_t)box.x, (uint32_t)box.y, (uint32_t)box.w,
                                    (uint32_t)box.h, error);
        if (work->detail)
            work->decode_ns += (uint64_t)(leat_clock_ns() - begin);
        return rc;
    }
    reader->next = image->base + pass * image->plane + (size_t)box.y * image->row + (size_t)box.x * image->column;
    reader->step = image->row;
    reader->column = image->column;
    reader->ahead = true;
    reader->expand = image->column == pixel ? 0 : (unsigned)image->column;
    reader->pad = kernels_read_beyond;
    if ((reader->expand || reader->pad) &&
        !reserve((void **)&work->line, &work->room_line, (size_t)box.w * pixel + LEAT_ROW_PADDING, 1))
        return leat_fail(error, LEAT_E_NOMEM, "No memory for a row of %lld pixels.", (long long)box.w);
    return LEAT_OK;
}

/* ---- where rows go ---- */

struct writer {
    const struct leat_stage *stage;
    const struct leat_image *target;
    const uint8_t *fills;
    struct leat_store store;
    leat_store_fn run;
    unsigned pass;
    bool flip;
    size_t before, n; /* columns that are filled, then columns of pixels; the rest is filled again */
    size_t above;     /* rows that are filled first */
};

static void fill(const struct writer *w, size_t y, size_t x, size_t n)
{
    const struct leat_stage *stage = w->stage;
    size_t size = leat_dtype_size(stage->out.dtype);
    unsigned begin = stage->passes > 1 ? w->pass : 0, end = stage->passes > 1 ? w->pass + 1 : w->target->channels;
    for (unsigned c = begin; c < end; c++)
        for (size_t i = x; i < x + n; i++)
            memcpy(w->target->base + c * w->target->plane + y * w->target->row + i * w->target->column,
                   w->fills + c * size, size);
}

/* For rows of n pixels of the target. */
static struct writer new_writer(const struct leat_stage *stage, const struct leat_stage_work *work,
                                const struct leat_view *view, const struct leat_image *target, unsigned pass, size_t n)
{
    struct writer w = {
        .stage = stage, .target = target, .fills = stage->draws ? work->fills : stage->fills, .pass = pass, .n = n};
    if (!stage->fast)
        return w;
    w.store = stage->stores[pass];
    w.store.pixel = view->resized ? w.store.channels : w.store.pixel;
    w.store.stream = stage->stream;
    w.run = view->resized ? stage->store_resized : stage->store;
    for (unsigned c = 0; c < w.store.channels && stage->draws; c++)
        w.store.table[c] = work->tables + (pass + c) * 256 * w.store.size;
    return w;
}

static struct writer begin_write(const struct leat_stage *stage, const struct leat_stage_work *work,
                                 const struct leat_view *view, const struct leat_image *target, unsigned pass)
{
    struct writer w = new_writer(stage, work, view, target, pass, (size_t)view->valid.w);
    w.flip = view->flip;
    int64_t left = view->valid.x - view->window.x;
    w.before = (size_t)(view->flip ? view->window.w - left - view->valid.w : left);
    w.above = (size_t)(view->valid.y - view->window.y);
    if (!w.n || !view->valid.h) { /* nothing of the image is seen */
        w.n = w.before = 0;
        w.above = target->h;
    }
    for (size_t y = 0; y < target->h; y++)
        if (y < w.above || y >= w.above + (size_t)view->valid.h)
            fill(&w, y, 0, target->w);
    return w;
}

/* Row y of the valid part. */
static inline void write_row(const struct writer *w, const uint8_t *pixels, size_t y)
{
    const struct leat_image *t = w->target;
    uint8_t *base = t->base + (w->above + y) * t->row + w->before * t->column;
    uint8_t *const dst[4] = {base + w->pass * t->plane, base + t->plane, base + 2 * t->plane, base + 3 * t->plane};
    w->run(&w->store, pixels, w->n, w->flip, dst);
    if (w->before)
        fill(w, w->above + y, 0, w->before);
    if (w->before + w->n < t->w)
        fill(w, w->above + y, w->before + w->n, t->w - w->before - w->n);
}

/* ---- the passes ---- */

static int plain_pass(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_view *view,
                      const struct leat_image *image, unsigned pass, const struct leat_image *target,
                      struct leat_error *error)
{
    struct writer w = begin_write(stage, work, view, target, pass);
    if (!w.n)
        return LEAT_OK;
    struct reader reader;
    int rc = begin_rows(&reader, stage, work, image, pass, 1, view->valid, false, error);
    for (size_t y = 0; !rc && y < (size_t)view->valid.h; y++) {
        const uint8_t *row;
        rc = read_row(&reader, &row, error);
        if (!rc)
            write_row(&w, row, y);
    }
    return rc;
}

int64_t leat_padded_index(enum leat_padding padding, int64_t at, int64_t n)
{
    if (at >= 0 && at < n)
        return at;
    if (padding == LEAT_PAD_EDGE || n == 1)
        return at < 0 ? 0 : n - 1;
    int64_t twice = padding == LEAT_PAD_SYMMETRIC ? 1 : 0, period = 2 * (n - 1 + twice);
    at = at < 0 ? -at - twice : at;
    at %= period;
    return at < n ? at : period - at - twice;
}

/* Where pixel x of a row of the target stands in a row of the image, for padding that is not constant. */
static int64_t padded_column(const struct leat_stage *stage, const struct leat_view *view,
                             const struct leat_image *image, int64_t x)
{
    return leat_padded_index(stage->padding, view->window.x + (view->flip ? view->window.w - 1 - x : x), image->w);
}

static int64_t padded_row(const struct leat_stage *stage, const struct leat_view *view, const struct leat_image *image,
                          int64_t y)
{
    return leat_padded_index(stage->padding, view->window.y + y, image->h);
}

/* Padding that is not constant: every pixel of the window is one of the image, which is in memory. */
static int padded_pass(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_view *view,
                       const struct leat_image *image, unsigned pass, const struct leat_image *target,
                       struct leat_error *error)
{
    unsigned pixel = stage->stores[pass].pixel; /* as at rest: such a stage neither decodes nor resizes */
    if (!reserve((void **)&work->line, &work->room_line, (size_t)target->w * pixel + LEAT_ROW_PADDING, 1))
        return leat_fail(error, LEAT_E_NOMEM, "No memory for a row of %u pixels.", target->w);
    struct writer w = new_writer(stage, work, view, target, pass, target->w);
    for (uint32_t y = 0; y < target->h; y++) {
        const uint8_t *row = image->base + pass * image->plane + (size_t)padded_row(stage, view, image, y) * image->row;
        for (uint32_t x = 0; x < target->w; x++)
            memcpy(work->line + (size_t)x * pixel, row + (size_t)padded_column(stage, view, image, x) * image->column,
                   pixel);
        write_row(&w, work->line, y);
    }
    return LEAT_OK;
}

/* The largest denominator at which the scaled box still covers what it is brought to. */
static unsigned choose_denominator(const struct leat_stage *stage, const struct leat_stage_work *work,
                                   const struct leat_view *view, uint32_t *w, uint32_t *h)
{
    if (!stage->decode)
        return 1;
    for (unsigned d = stage->in.dct_scaling ? 8 : 1; d > 1; d /= 2)
        if (view->source.w >= d * (int64_t)view->grid_w && view->source.h >= d * (int64_t)view->grid_h &&
            leat_decoder_scaled_size(work->decoder, d, w, h) == d)
            return d;
    return leat_decoder_scaled_size(work->decoder, 1, w, h);
}

/* One axis of the resize: weights from the source's box at 1/d; *begin and *length become the source pixels that the
 * grid's [from, from + n) needs, and the axis counts from *begin. */
static int make_axis(struct leat_axis *axis, int64_t *begin, int64_t *length, unsigned d, int64_t limit, int64_t grid,
                     int64_t from, int64_t n, enum leat_filter filter)
{
    int64_t first = *begin / d, end = d == 1 ? *begin + *length : (*begin + *length + d - 1) / d;
    if (d > 1 && end > limit)
        end = limit;
    int rc = leat_axis_compute(axis, (uint32_t)(end - first), (double)*begin / d - (double)first, (double)*length / d,
                               (uint32_t)grid, filter);
    if (rc)
        return rc;
    uint32_t skip = axis->first[from], stop = axis->end[from + n - 1];
    for (int64_t i = from; i < from + n; i++) {
        axis->first[i] -= skip;
        axis->end[i] -= skip;
    }
    axis->in = stop - skip;
    *begin = first + skip;
    *length = stop - skip;
    return LEAT_OK;
}

/* Both axes and the ring. `box` becomes what is read of the source at 1/d. */
static int prepare_resize(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_view *view,
                          unsigned pixel, struct leat_rect *box, unsigned *denominator, struct leat_error *error)
{
    uint32_t scaled_w = 0, scaled_h = 0;
    unsigned d = *denominator = choose_denominator(stage, work, view, &scaled_w, &scaled_h);
    const struct leat_rect *v = &view->valid;
    *box = view->source;
    if (make_axis(&work->across, &box->x, &box->w, d, scaled_w, view->grid_w, v->x, v->w, view->filter) ||
        make_axis(&work->down, &box->y, &box->h, d, scaled_h, view->grid_h, v->y, v->h, view->filter) ||
        (work->kernels->prepare &&
         work->kernels->prepare(&work->across, (uint32_t)v->x, (uint32_t)v->w, pixel, stage->stores[0].channels)) ||
        !reserve((void **)&work->ring, &work->room_ring,
                 (work->down.taps + 1) * ((size_t)v->w * pixel + LEAT_ROW_PADDING), 1) ||
        !reserve((void **)&work->taps, &work->room_taps, work->down.taps, sizeof *work->taps))
        return leat_fail(error, LEAT_E_NOMEM, "No memory to resize a photo.");
    return LEAT_OK;
}

/*
 * The ring holds the source rows, resized across, that the current output row may need:
 *
 *     source row r lies in slot r mod taps;  output row y needs [first[y], end[y]), at most taps of them
 *
 * first and end never decrease, so a row that falls out is not needed again. One more slot receives the output row.
 */
static int resize_pass(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_view *view,
                       const struct leat_image *image, unsigned pass, const struct leat_image *target,
                       struct leat_error *error)
{
    struct writer w = begin_write(stage, work, view, target, pass);
    if (!w.n)
        return LEAT_OK;
    const struct leat_kernels *k = work->kernels;
    unsigned pixel = stage->stores[pass].pixel, channels = stage->stores[pass].channels, denominator;
    struct leat_rect box;
    struct reader reader;
    int rc = prepare_resize(stage, work, view, pixel, &box, &denominator, error);
    if (!rc)
        rc = begin_rows(&reader, stage, work, image, pass, denominator, box, true, error);
    const struct leat_axis *across = &work->across, *down = &work->down;
    uint32_t column = (uint32_t)view->valid.x, columns = (uint32_t)view->valid.w, read = 0;
    size_t slot = w.n * channels + LEAT_ROW_PADDING;
    uint8_t *result = rc ? NULL : work->ring + down->taps * slot;
    for (size_t y = 0; !rc && y < (size_t)view->valid.h; y++) {
        size_t line = (size_t)view->valid.y + y;
        uint32_t first = down->first[line], end = down->end[line];
        for (; !rc && read < end; read++) {
            const uint8_t *row;
            rc = read_row(&reader, &row, error);
            if (!rc && read >= first)
                k->horizontal(across, column, columns, pixel, channels, row, work->ring + (read % down->taps) * slot);
        }
        if (rc)
            break;
        const uint8_t *pixels = result;
        if (end - first == 1)
            pixels = work->ring + (first % down->taps) * slot;
        for (uint32_t t = 0; t < down->taps; t++) /* rows of weight 0 point at one that is there */
            work->taps[t] = work->ring + ((first + t < end ? first + t : first) % down->taps) * slot;
        if (end - first > 1)
            k->vertical(work->taps, down->weights + line * down->taps, (end - first + 3) & ~3u, result, w.n * channels);
        write_row(&w, pixels, y);
    }
    return rc;
}

/* Any type of number, value by value: rows of one channel are gathered, mapped, and spread. */
static int slow_pass(const struct leat_stage *stage, struct leat_stage_work *work, uint64_t row_key,
                     const struct leat_view *view, const struct leat_image *image, const struct leat_image *target,
                     struct leat_error *error)
{
    size_t size = leat_dtype_size(stage->in.dtype), out_size = leat_dtype_size(stage->out.dtype);
    if (!reserve((void **)&work->line, &work->room_line, (size_t)target->w * 24, 1))
        return leat_fail(error, LEAT_E_NOMEM, "No memory for a row of %u pixels.", target->w);
    uint8_t *values = work->line, *spare = values + (size_t)target->w * 8, *other = spare + (size_t)target->w * 8;
    bool padded = stage->pads && stage->padding != LEAT_PAD_CONSTANT;
    struct writer w =
        padded ? new_writer(stage, work, view, target, 0, target->w) : begin_write(stage, work, view, target, 0);
    for (size_t y = 0, h = padded ? target->h : (size_t)view->valid.h; w.n && y < h; y++) {
        size_t from = padded ? (size_t)padded_row(stage, view, image, (int64_t)y) : (size_t)view->valid.y + y;
        for (uint32_t c = 0; c < target->channels; c++) {
            const uint8_t *s = image->base + c * image->plane + from * image->row;
            for (size_t i = 0; i < w.n; i++) {
                size_t x = padded ? (size_t)padded_column(stage, view, image, (int64_t)i)
                                  : (size_t)view->valid.x + (view->flip ? w.n - 1 - i : i);
                memcpy(values + i * size, s + x * image->column, size);
            }
            const uint8_t *result = leat_stage_map(stage, row_key, c, values, w.n, spare, other);
            uint8_t *d = target->base + c * target->plane + (w.above + y) * target->row + w.before * target->column;
            for (size_t i = 0; i < w.n; i++)
                memcpy(d + i * target->column, result + i * out_size, out_size);
        }
        if (padded)
            continue;
        fill(&w, w.above + y, 0, w.before);
        fill(&w, w.above + y, w.before + w.n, target->w - w.before - w.n);
    }
    return LEAT_OK;
}

/* ---- a stage ---- */

static int draw_view(const struct leat_stage *stage, uint64_t row_key, uint32_t w, uint32_t h, struct leat_view *view,
                     struct leat_error *error)
{
    leat_view_begin(view, w, h);
    for (size_t i = 0; i < stage->n_moves; i++) {
        const struct leat_op *op = stage->moves[i]->op;
        uint32_t now_w = (uint32_t)view->window.w, now_h = (uint32_t)view->window.h;
        struct leat_move move = {.w = now_w, .h = now_h, .out_w = now_w, .out_h = now_h};
        int rc = op->class->move(op->args, leat_key_mix(row_key, op->instance), now_w, now_h, &move, error);
        if (rc)
            return rc;
        move.filter = stage->nearest ? LEAT_FILTER_NEAREST : move.filter;
        leat_view_move(view, &move);
    }
    return LEAT_OK;
}

static int open_photo(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_row *row,
                      uint32_t *w, uint32_t *h, struct leat_error *error)
{
    const struct leat_decode_request request = {.data = row->data,
                                                .length = row->length,
                                                .form = row->info.form,
                                                .rows = row->info.rows,
                                                .rows_length = row->info.rows ? row->info.rows_length : 0,
                                                .gray = stage->in.gray,
                                                .ids = stage->in.ids,
                                                .exif = stage->in.exif,
                                                .lenient = stage->in.lenient,
                                                .scan_to_end = row->scan_to_end};
    int64_t begin = work->detail ? leat_clock_ns() : 0;
    work->decoder = leat_decoders_get(&work->decoders, stage->in.codec);
    int rc = work->decoder ? leat_decoder_open(work->decoder, &request, w, h, error)
                           : leat_fail(error, LEAT_E_NOMEM, "No memory for a decoder.");
    if (work->detail)
        work->decode_ns += (uint64_t)(leat_clock_ns() - begin);
    return rc;
}

static size_t image_bytes(const struct leat_type *type, uint32_t w, uint32_t h)
{
    return (size_t)w * h * (size_t)leat_type_channels(type) * leat_dtype_size(type->dtype);
}

/* Room for an image of `type` in a buffer between stages. */
static int make_room(struct leat_stage_work *work, unsigned buffer, const struct leat_type *type, bool planar,
                     uint32_t w, uint32_t h, struct leat_image *image, struct leat_error *error)
{
    size_t bytes = image_bytes(type, w, h);
    if (!reserve((void **)&work->between[buffer], &work->room_between[buffer], bytes, 1))
        return leat_fail(error, LEAT_E_NOMEM, "No memory for an image of %zu bytes between two operators.", bytes);
    leat_image_packed(image, type, planar, w, h, work->between[buffer]);
    return LEAT_OK;
}

#define ALIGNMENT 64

static struct leat_filter_plan plan_filter(const struct leat_op *op, uint64_t key, const struct leat_image *image)
{
    struct leat_filter_plan plan = {.w = image->w, .h = image->h};
    if (op->class->plan)
        op->class->plan(op->args, key, image, &plan);
    plan.scratch += plan.scratch ? ALIGNMENT : 0;
    return plan;
}

static int run_filter(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_row *row,
                      const struct leat_image *image, unsigned buffer, struct leat_image *target,
                      struct leat_error *error)
{
    const struct leat_op *op = stage->filter->op;
    uint64_t key = leat_key_mix(row->key, op->instance);
    struct leat_filter_plan plan = plan_filter(op, key, image);
    if (!reserve((void **)&work->filter, &work->room_filter, plan.scratch, 1))
        return leat_fail(error, LEAT_E_NOMEM, "No memory for %zu bytes that %s needs.", plan.scratch, op->class->type);
    int rc = make_room(work, buffer, &stage->out, stage->planar, plan.w, plan.h, target, error);
    target->ids = stage->nearest;
    if (!rc)
        op->class->filter(work->kernels->isa, op->args, key, image, target,
                          plan.scratch ? work->filter + (-(uintptr_t)work->filter & (ALIGNMENT - 1)) : NULL);
    return rc;
}

static bool reserve_tables(const struct leat_stage *stage, struct leat_stage_work *work)
{
    size_t size = leat_stage_channels(stage) * leat_dtype_size(stage->out.dtype);
    if (!stage->draws)
        return true;
    bool good = reserve((void **)&work->tables, &work->room_tables, size, 257);
    work->fills = work->tables + size * 256;
    return good;
}

int leat_stage_run(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_row *row,
                   const struct leat_image *image, unsigned buffer, struct leat_image *target, struct leat_error *error)
{
    if (stage->filter)
        return run_filter(stage, work, row, image, buffer, target, error);
    uint32_t w = image ? image->w : 0, h = image ? image->h : 0;
    int rc = stage->decode ? open_photo(stage, work, row, &w, &h, error) : LEAT_OK;
    if (stage->decode) { /* a photo without class ids may be as good as any */
        work->health = rc == LEAT_E_DECODE && !stage->in.ids ? LEAT_HEALTH_BROKEN : LEAT_HEALTH_UNCHECKED;
        work->w = w;
        work->h = h;
    }
    if (rc)
        return rc;
    struct leat_view view;
    int misfit = rc = draw_view(stage, row->key, w, h, &view, error); /* the operator's fault, not the photo's */
    if (!rc && !stage->last)
        rc = make_room(work, buffer, &stage->out, stage->planar, (uint32_t)view.window.w, (uint32_t)view.window.h,
                       target, error);
    if (!rc && !reserve_tables(stage, work))
        rc = leat_fail(error, LEAT_E_NOMEM, "No memory for the tables of a row.");
    if (!rc && stage->draws)
        leat_stage_tabulate(stage, row->key, work->tables, work->fills);
    if (!rc && !stage->fast)
        rc = slow_pass(stage, work, row->key, &view, image, target, error);
    bool padded = stage->pads && stage->padding != LEAT_PAD_CONSTANT;
    for (unsigned pass = 0; !rc && stage->fast && pass < stage->passes; pass++)
        rc = (padded         ? padded_pass
              : view.resized ? resize_pass
                             : plain_pass)(stage, work, &view, image, pass, target, error);
    if (stage->stream && work->kernels->fence)
        work->kernels->fence();
    if (!stage->decode)
        return rc;
    int64_t begin = work->detail ? leat_clock_ns() : 0;
    int end = leat_decoder_end(work->decoder, rc != misfit ? NULL : error);
    work->warnings |= leat_decoder_warnings(work->decoder);
    rc = end && rc == misfit ? end : rc; /* a photo that is broken is that first of all */
    if (rc == LEAT_E_DECODE && (end || !misfit))
        work->health = LEAT_HEALTH_BROKEN;
    else if (row->scan_to_end && !end && rc == misfit && leat_decoder_whole(work->decoder))
        work->health = LEAT_HEALTH_GOOD;
    if (work->detail)
        work->decode_ns += (uint64_t)(leat_clock_ns() - begin);
    return rc;
}

/* ---- what is needed for images of a known size ---- */

uint64_t leat_stages_bytes(const struct leat_stage *stages, size_t n, uint64_t row_key, uint32_t w, uint32_t h)
{
    uint64_t most[3] = {0}, sum = 0; /* of the two buffers between stages, and of the scratch of filters */
    struct leat_view view;
    for (const struct leat_stage *stage = stages; stage + 1 < stages + n; stage++) {
        uint64_t *between = &most[(stage - stages) & 1], bytes;
        if (stage->filter) {
            const struct leat_op *op = stage->filter->op;
            struct leat_image image;
            leat_image_packed(&image, &stage->in, stage->planar, w, h, NULL);
            struct leat_filter_plan plan = plan_filter(op, leat_key_mix(row_key, op->instance), &image);
            most[2] = plan.scratch > most[2] ? plan.scratch : most[2];
            w = plan.w;
            h = plan.h;
        } else if (draw_view(stage, row_key, w, h, &view, NULL)) {
            break; /* so will the row, before it takes more */
        } else {
            w = (uint32_t)view.window.w;
            h = (uint32_t)view.window.h;
        }
        bytes = image_bytes(&stage->out, w, h);
        *between = bytes > *between ? bytes : *between;
    }
    for (unsigned i = 0; i < 3; i++)
        sum += most[i] > LEAT_KEEP_BYTES ? most[i] : 0;
    return sum;
}

int leat_stages_reserve(const struct leat_stage *stages, size_t n, struct leat_stage_work *work, uint32_t w, uint32_t h)
{
    for (size_t i = 0; i < n; i++) {
        const struct leat_stage *stage = &stages[i];
        int64_t out_w = leat_type_width(&stage->out), out_h = leat_type_height(&stage->out);
        if (!reserve_tables(stage, work))
            return LEAT_E_NOMEM;
        if (stage->filter) {
            struct leat_image image;
            leat_image_packed(&image, &stage->in, stage->planar, w, h, NULL);
            if (!reserve((void **)&work->filter, &work->room_filter, plan_filter(stage->filter->op, 0, &image).scratch,
                         1))
                return LEAT_E_NOMEM;
        }
        if (out_w < 0 || out_h < 0) /* the size is drawn: buffers grow with the rows */
            return LEAT_OK;
        size_t pixel = stage->fast ? stage->stores[0].pixel : 0, widest = w > out_w ? w : (size_t)out_w;
        if (!reserve((void **)&work->line, &work->room_line, widest * (stage->fast ? 4 : 24) + LEAT_ROW_PADDING, 1))
            return LEAT_E_NOMEM;
        for (size_t m = 0; m < stage->n_moves && stage->resizes; m++) {
            const struct leat_use *use = stage->moves[m];
            if (!use->effect.resizes)
                continue;
            int64_t grid_w = leat_type_width(&use->out), grid_h = leat_type_height(&use->out);
            unsigned across = leat_axis_taps(w, (uint32_t)grid_w, LEAT_FILTER_ANTIALIAS);
            unsigned down = leat_axis_taps(h, (uint32_t)grid_h, LEAT_FILTER_ANTIALIAS);
            size_t slot = (size_t)grid_w * pixel + LEAT_ROW_PADDING;
            if (leat_axis_reserve(&work->across, (uint32_t)grid_w, across) ||
                leat_axis_reserve(&work->down, (uint32_t)grid_h, down) ||
                (work->kernels->reserve && work->kernels->reserve(&work->across, (uint32_t)grid_w, across)) ||
                !reserve((void **)&work->ring, &work->room_ring, (down + 1) * slot, 1) ||
                !reserve((void **)&work->taps, &work->room_taps, down, sizeof *work->taps))
                return LEAT_E_NOMEM;
        }
        size_t bytes = (size_t)(out_w * out_h * leat_type_channels(&stage->out)) * leat_dtype_size(stage->out.dtype);
        if (!stage->last && !reserve((void **)&work->between[i & 1], &work->room_between[i & 1], bytes, 1))
            return LEAT_E_NOMEM;
        w = (uint32_t)out_w;
        h = (uint32_t)out_h;
    }
    return LEAT_OK;
}
