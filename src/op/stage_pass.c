/*
 * The pixels of a stage: rows from the decoder or from memory, through the ring of a resize, through values, to the
 * destination.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "kernels/values.h"
#include "op/stage.h"

size_t leat_stage_buffer_room(size_t count, size_t each)
{
    const size_t keep = LEAT_KEEP_BYTES / each, more = count + count / 8;
    return count > keep ? count : more < keep ? more : keep;
}

bool leat_stage_buffer(void **buffer, size_t *room, size_t count, size_t each)
{
    if (count <= *room)
        return true;
    leat_free(*buffer); /* the old content is of no use */
    *room = 0;
    const bool large = count > LEAT_KEEP_BYTES / each; /* it goes when its photo is done */
    const size_t more = leat_stage_buffer_room(count, each);
    *buffer = large ? leat_realloc_array(NULL, more, each) : leat_new_array(more, each);
    *room = *buffer ? more : 0;
    return *buffer != NULL;
}

/* ---- the source of rows ---- */

struct reader {
    struct leat_stage_work *work;
    bool decode;
    const uint8_t *next; /* in memory */
    ptrdiff_t step;
    unsigned pixel, expand; /* expand: bytes per pixel at rest if they are spread to 4; 0: not */
    bool pad;               /* rows at rest end at the end of memory: copied, so that kernels can read beyond */
    size_t n;               /* pixels */
    size_t column;          /* bytes from one to the next, at rest */
    bool ahead;             /* ask for later rows */
    bool framed;            /* pixels of the padding stand before and behind: */
    size_t before, behind;
    const uint8_t *fill; /* one of them */
};

#define AHEAD 2

static void frame_row(const struct reader *reader)
{
    uint8_t *to = reader->work->line, *end = to + (reader->before + reader->n) * reader->pixel;
    for (size_t i = 0; i < reader->before; i++)
        memcpy(to + i * reader->pixel, reader->fill, reader->pixel);
    for (size_t i = 0; i < reader->behind; i++)
        memcpy(end + i * reader->pixel, reader->fill, reader->pixel);
}

static int read_row(struct reader *reader, const uint8_t **row, struct leat_error *error)
{
    struct leat_stage_work *work = reader->work;
    const bool copies = reader->decode ? reader->framed : reader->expand || reader->pad;
    uint8_t *line = copies ? work->line + reader->before * reader->pixel : NULL;
    if (reader->decode) {
        int64_t begin = work->detail ? leat_clock_ns() : 0;
        int rc = leat_decoder_row(work->decoder, row, error);
        if (work->detail)
            work->decode_ns += (uint64_t)(leat_clock_ns() - begin);
        if (!rc && copies) {
            memcpy(line, *row, reader->n * reader->pixel);
            *row = work->line;
        }
        return rc;
    }
    *row = reader->next;
    reader->next += reader->step;
    if (reader->ahead) /* mirrored rows are read backwards, which the hardware does not foresee from row to row */
        for (size_t i = 0; i < reader->n * reader->column; i += 64)
            __builtin_prefetch(reader->next + AHEAD * reader->step + i);
    if (reader->expand)
        work->kernels->expand(*row, reader->expand, reader->n, line);
    else if (reader->pad)
        memcpy(line, *row, reader->n * reader->pixel);
    if (copies)
        *row = work->line;
    return LEAT_OK;
}

/* A row that is not needed. */
static int pass_row(struct reader *reader, struct leat_error *error)
{
    const uint8_t *row;
    if (reader->decode)
        return read_row(reader, &row, error);
    reader->next += reader->step;
    return LEAT_OK;
}

/* Begins the rows of `box` of the image at 1/denominator; each stands in a row of the columns of `framed`, if that is
 * given. */
static int begin_rows(struct reader *reader, const struct leat_stage *stage, struct leat_stage_work *work,
                      const struct leat_image *image, unsigned pass, unsigned denominator, struct leat_rect box,
                      const struct leat_rect *framed, bool kernels_read_beyond, struct leat_error *error)
{
    unsigned pixel = stage->stores[pass].pixel;
    *reader = (struct reader){.work = work, .decode = stage->decode, .pixel = pixel, .n = (size_t)box.w};
    if (framed) {
        reader->framed = true;
        reader->before = (size_t)(box.x - framed->x);
        reader->behind = (size_t)(framed->w - box.w) - reader->before;
        reader->fill = work->fill + pass;
    }
    size_t wide = reader->before + reader->n + reader->behind;
    if (framed && !leat_stage_buffer((void **)&work->line, &work->room_line, wide * pixel + LEAT_ROW_PADDING, 1))
        return leat_fail(error, LEAT_E_NOMEM, "No memory for a row of %zu pixels.", wide);
    if (framed)
        frame_row(reader);
    if (stage->decode) {
        int64_t begin = work->detail ? leat_clock_ns() : 0;
        int rc = leat_decoder_begin(work->decoder, denominator, (uint32_t)box.x, (uint32_t)box.y, (uint32_t)box.w,
                                    (uint32_t)box.h, error);
        if (work->detail)
            work->decode_ns += (uint64_t)(leat_clock_ns() - begin);
        return rc;
    }
    reader->next = image->base + pass * image->plane + (size_t)box.y * image->row + (size_t)box.x * image->column;
    reader->step = (ptrdiff_t)image->row;
    reader->column = image->column;
    reader->ahead = true;
    reader->expand = image->column == pixel ? 0 : (unsigned)image->column;
    reader->pad = kernels_read_beyond;
    if ((reader->expand || reader->pad) &&
        !leat_stage_buffer((void **)&work->line, &work->room_line, wide * pixel + LEAT_ROW_PADDING, 1))
        return leat_fail(error, LEAT_E_NOMEM, "No memory for a row of %zu pixels.", wide);
    return LEAT_OK;
}

/* ---- the destination of rows ---- */

struct writer {
    const struct leat_stage *stage;
    const struct leat_image *target;
    const uint8_t *fills;
    struct leat_store store;
    leat_store_fn run;
    unsigned pass;
    bool flip, flip_y;
    size_t before, n; /* columns that are filled, then columns of pixels; the rest is filled again */
    size_t above, h;  /* rows that are filled first, then rows of pixels: upside down from the last one up */
};

/* Fills n times `bytes` bytes, the first of which are there: twice as much each time. */
static void repeat(uint8_t *to, size_t bytes, size_t n)
{
    for (size_t done = 1, more; done < n; done += more) {
        more = n - done < done ? n - done : done;
        memcpy(to + done * bytes, to, more * bytes);
    }
}

static void fill(const struct writer *w, size_t y, size_t x, size_t n)
{
    const struct leat_stage *stage = w->stage;
    const struct leat_image *t = w->target;
    const size_t size = leat_dtype_size(stage->out.dtype);
    unsigned begin = stage->passes > 1 ? w->pass : 0, end = stage->passes > 1 ? w->pass + 1 : t->channels;
    uint8_t *row = t->base + y * t->row + x * t->column;
    const bool packed = t->plane == size && t->column == size * t->channels && end - begin == t->channels;
    if (stage->even >= 0 && (packed || (t->column == size && end - begin == 1))) {
        memset(row + begin * t->plane, stage->even, n * t->column);
        return;
    }
    if (n && packed) {
        memcpy(row, w->fills, t->column);
        repeat(row, t->column, n);
        return;
    }
    for (unsigned c = begin; c < end; c++) {
        uint8_t *to = row + c * t->plane;
        const bool dense = t->column == size;
        for (size_t i = 0; i < (dense && n ? 1 : n); i++)
            memcpy(to + i * t->column, w->fills + c * size, size);
        if (dense)
            repeat(to, size, n);
    }
}

static void fill_rows(const struct writer *w, size_t y, size_t n)
{
    const struct leat_image *t = w->target;
    const bool dense = t->row == t->column * t->w;
    for (size_t done = 0; done < n; done += dense ? n : 1)
        fill(w, y + done, 0, dense ? n * t->w : t->w);
}

/* For rows of n pixels of the target. */
static struct writer new_writer(const struct leat_stage *stage, const struct leat_stage_work *work,
                                const struct leat_view *view, const struct leat_image *target, unsigned pass, size_t n)
{
    struct writer w = {.stage = stage, .target = target, .fills = stage->fills, .pass = pass, .n = n};
    if (!stage->fast)
        return w;
    w.store = stage->stores[pass];
    w.store.pixel = view->resized ? w.store.channels : w.store.pixel;
    w.store.stream = stage->stream;
    w.run = view->resized ? stage->store_resized : stage->store;
    return w;
}

static struct writer begin_write(const struct leat_stage *stage, const struct leat_stage_work *work,
                                 const struct leat_view *view, const struct leat_image *target, unsigned pass)
{
    struct writer w = new_writer(stage, work, view, target, pass, (size_t)view->valid.w);
    w.flip = view->flip;
    w.flip_y = view->flip_y;
    w.h = (size_t)view->valid.h;
    int64_t left = view->valid.x - view->window.x, top = view->valid.y - view->window.y;
    w.before = (size_t)(view->flip ? view->window.w - left - view->valid.w : left);
    w.above = (size_t)(view->flip_y ? view->window.h - top - view->valid.h : top);
    if (!w.n || !view->valid.h) { /* nothing of the image is seen */
        w.n = w.before = 0;
        w.above = target->h;
    }
    fill_rows(&w, 0, w.above);
    if (w.n)
        fill_rows(&w, w.above + w.h, target->h - w.above - w.h);
    return w;
}

/* The destination of row y of the valid part. */
static inline size_t row_of(const struct writer *w, size_t y)
{
    return w->above + (w->flip_y ? w->h - 1 - y : y);
}

/* Row y of the valid part. */
static inline void write_row(const struct writer *w, const uint8_t *pixels, size_t y)
{
    const struct leat_image *t = w->target;
    const size_t at = row_of(w, y);
    uint8_t *base = t->base + at * t->row + w->before * t->column;
    uint8_t *const dst[4] = {base + w->pass * t->plane, base + t->plane, base + 2 * t->plane, base + 3 * t->plane};
    w->run(&w->store, pixels, w->n, w->flip, dst);
    if (w->before)
        fill(w, at, 0, w->before);
    if (w->before + w->n < t->w)
        fill(w, at, w->before + w->n, t->w - w->before - w->n);
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
    int rc = begin_rows(&reader, stage, work, image, pass, 1, view->valid, NULL, false, error);
    if (w.flip_y && !stage->decode) { /* written downwards, as caches like it */
        reader.next += (ptrdiff_t)(w.h - 1) * reader.step;
        reader.step = -reader.step;
        w.flip_y = false;
    }
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

/* The place of pixel x of a row of the target in a row of the image, for padding that is not constant. */
static int64_t padded_column(const struct leat_stage *stage, const struct leat_view *view,
                             const struct leat_image *image, int64_t x)
{
    return leat_padded_index(stage->padding, view->window.x + (view->flip ? view->window.w - 1 - x : x), image->w);
}

static int64_t padded_row(const struct leat_stage *stage, const struct leat_view *view, const struct leat_image *image,
                          int64_t y)
{
    return leat_padded_index(stage->padding, view->window.y + (view->flip_y ? view->window.h - 1 - y : y), image->h);
}

/* Pixels of a row at these places, the first `channels` bytes of each. */
static void gather_pixels(const uint8_t *row, unsigned pixel, unsigned channels, const uint32_t *places, size_t n,
                          uint8_t *to)
{
    if (channels == 1)
        for (size_t i = 0; i < n; i++)
            to[i] = row[(size_t)places[i] * pixel];
    else if (channels == 3)
        for (size_t i = 0; i < n; i++)
            memcpy(to + 3 * i, row + (size_t)places[i] * pixel, 3);
    else
        for (size_t i = 0; i < n; i++)
            memcpy(to + channels * i, row + (size_t)places[i] * pixel, channels);
}

/* The same for places that never decrease, in a row of `width` pixels, to a destination with padding behind: three
 * bytes are taken as four, whose last the next pixel overwrites. */
static void nearest_row(const uint8_t *row, unsigned pixel, unsigned channels, const uint32_t *places, size_t n,
                        size_t width, uint8_t *to)
{
    size_t easy = channels == 3 ? n : 0;
    while (easy && pixel == 3 && places[easy - 1] + 1 >= width)
        easy--;
    for (size_t i = 0; i < easy; i++)
        memcpy(to + 3 * i, row + (size_t)places[i] * pixel, 4);
    gather_pixels(row, pixel, channels, places + easy, n - easy, to + easy * channels);
}

/* Padding that is not constant: every pixel of the window is one of the image, which is in memory. */
static int padded_pass(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_view *view,
                       const struct leat_image *image, unsigned pass, const struct leat_image *target,
                       struct leat_error *error)
{
    const unsigned pixel = stage->stores[pass].pixel; /* as at rest: such a stage neither decodes nor resizes */
    const size_t places_at = ((size_t)target->w * pixel + LEAT_ROW_PADDING + 3) & ~(size_t)3;
    if (!leat_stage_buffer((void **)&work->line, &work->room_line, places_at + (size_t)target->w * sizeof(uint32_t), 1))
        return leat_fail(error, LEAT_E_NOMEM, "No memory for a row of %u pixels.", target->w);
    struct writer w = new_writer(stage, work, view, target, pass, target->w);
    uint32_t *places = (uint32_t *)(void *)(work->line + places_at);
    size_t before = 0, inside = 0; /* columns that stand beside each other as in the image */
    for (uint32_t x = 0; x < target->w; x++)
        places[x] = (uint32_t)padded_column(stage, view, image, x);
    if (!view->flip && image->column == pixel) {
        struct leat_rect seen = leat_rect_common(view->window, (struct leat_rect){0, 0, image->w, image->h});
        before = seen.w ? (size_t)(seen.x - view->window.x) : 0;
        inside = (size_t)seen.w;
    }
    const bool direct = w.store.identity && target->column == pixel && stage->stores[pass].channels == pixel;
    for (uint32_t y = 0; y < target->h; y++) {
        const uint8_t *row = image->base + pass * image->plane + (size_t)padded_row(stage, view, image, y) * image->row;
        uint8_t *to = direct ? target->base + pass * target->plane + y * target->row : work->line;
        gather_pixels(row, (unsigned)image->column, pixel, places, before, to);
        if (inside)
            memcpy(to + before * pixel, row + (size_t)places[before] * pixel, inside * pixel);
        gather_pixels(row, (unsigned)image->column, pixel, places + before + inside, target->w - before - inside,
                      to + (before + inside) * pixel);
        if (!direct)
            write_row(&w, work->line, y);
    }
    return LEAT_OK;
}

/* The largest denominator at which the scaled box still covers its target size. */
static unsigned choose_denominator(const struct leat_stage *stage, const struct leat_stage_work *work,
                                   const struct leat_view *view, uint32_t *w, uint32_t *h)
{
    if (!stage->decode || view->padded)
        return 1;
    for (unsigned d = stage->in.dct_scaling ? 8 : 1; d > 1; d /= 2)
        if (view->source.w >= d * (int64_t)view->grid_w && view->source.h >= d * (int64_t)view->grid_h &&
            leat_decoder_scaled_size(work->decoder, d, w, h) == d)
            return d;
    return leat_decoder_scaled_size(work->decoder, 1, w, h);
}

/* Weights from the source's box at 1/d; the axis counts from the first pixel read. */
static int make_axis(struct leat_axis *axis, struct leat_side *side)
{
    const int64_t d = side->denominator;
    int64_t first = d == 1 ? side->begin : side->begin / d;
    int64_t end = d == 1 ? side->begin + side->length : (side->begin + side->length + d - 1) / d;
    if (d > 1 && end > side->limit)
        end = side->limit;
    int rc = leat_axis_compute(axis, (uint32_t)(end - first), (double)side->begin / (double)d - (double)first,
                               (double)side->length / (double)d, (uint32_t)side->grid, (enum leat_filter)side->filter);
    if (rc)
        return rc;
    if (side->mirrored && d == 1)
        leat_axis_mirror(axis);
    for (; side->padded && side->n && axis->end[side->from] <= side->seen - first; side->n--)
        side->from++;
    while (side->padded && side->n && axis->first[side->from + side->n - 1] >= side->seen_end - first)
        side->n--;
    /* Weights of 0 are left out behind, so ends need not rise from pixel to pixel. */
    uint32_t skip = side->n ? axis->first[side->from] : 0, stop = 0;
    for (int64_t i = side->from; i < side->from + side->n; i++)
        stop = axis->end[i] > stop ? axis->end[i] : stop;
    for (int64_t i = side->from; i < side->from + side->n; i++) {
        axis->first[i] -= skip;
        axis->end[i] -= skip;
    }
    axis->in = stop - skip;
    side->begin = first + skip;
    side->length = stop - skip;
    return LEAT_OK;
}

/* Makes both axes, unless they are those of the row before, and the kernel's data for these columns. */
static int make_axes(struct leat_stage_work *work, struct leat_side sides[2], unsigned pixel, unsigned channels)
{
    int64_t *planned = work->planned;
    for (int i = 0; i < 2; i++) {
        struct leat_side *asked = &work->asked[i], *made = &work->made[i], *side = &sides[i];
        if (!memcmp(asked, side, sizeof *side)) {
            *side = *made;
            continue;
        }
        asked->grid = 0; /* until it is made */
        planned[1] = i ? planned[1] : 0;
        const struct leat_side wanted = *side;
        int rc = make_axis(i ? &work->down : &work->across, side);
        if (rc)
            return rc;
        *asked = wanted;
        *made = *side;
    }
    const int64_t plan[4] = {sides[0].from, sides[0].n, pixel, channels};
    if (!work->kernels->prepare || !sides[0].n || !sides[1].n || !memcmp(planned, plan, sizeof plan))
        return LEAT_OK;
    planned[1] = 0;
    int rc = work->kernels->prepare(&work->across, (uint32_t)plan[0], (uint32_t)plan[1], pixel, channels);
    if (!rc)
        memcpy(planned, plan, sizeof plan);
    return rc;
}

/* Both axes and the ring. `box` becomes the part of the source read at 1/d; parts of the grid that show nothing of the
 * image are no longer valid. */
static int prepare_resize(const struct leat_stage *stage, struct leat_stage_work *work, struct leat_view *view,
                          unsigned pixel, struct leat_rect *box, unsigned *denominator, struct leat_error *error)
{
    uint32_t scaled_w = 0, scaled_h = 0;
    unsigned d = *denominator = choose_denominator(stage, work, view, &scaled_w, &scaled_h);
    const struct leat_rect *s = &view->source, *seen = &view->seen;
    struct leat_rect *v = &view->valid;
    struct leat_side sides[2] = {{s->x, s->w, seen->x, seen->x + seen->w, view->grid_w, v->x, seen->w ? v->w : 0, d,
                                  scaled_w, view->filter, view->mirrored, view->padded},
                                 {s->y, s->h, seen->y, seen->y + seen->h, view->grid_h, v->y, seen->h ? v->h : 0, d,
                                  scaled_h, view->filter, view->mirrored_y, view->padded}};
    int rc = make_axes(work, sides, pixel, stage->stores[0].channels);
    *v = (struct leat_rect){sides[0].from, sides[1].from, sides[0].n, sides[1].n};
    *box = (struct leat_rect){sides[0].begin, sides[1].begin, sides[0].length, sides[1].length};
    if (!rc && (!v->w || !v->h))
        return LEAT_OK;
    if (rc ||
        !leat_stage_buffer((void **)&work->ring, &work->room_ring,
                           (work->down.taps + 1) * ((size_t)v->w * pixel + LEAT_ROW_PADDING), 1) ||
        !leat_stage_buffer((void **)&work->taps, &work->room_taps, work->down.taps, sizeof *work->taps))
        return leat_fail(error, LEAT_E_NOMEM, "No memory to resize a photo.");
    return LEAT_OK;
}

/*
 * The ring holds the source rows, resized across, that the current output row may need:
 *
 *     source row r lies in slot r mod taps;  output row y needs [first[y], end[y]), at most taps of them
 *
 * first never decreases, so a row that falls out is not needed again. One more slot receives the output row.
 */
static int resize_pass(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_view *drawn,
                       const struct leat_image *image, unsigned pass, const struct leat_image *target,
                       struct leat_error *error)
{
    const struct leat_kernels *k = work->kernels;
    unsigned pixel = stage->stores[pass].pixel, channels = stage->stores[pass].channels, denominator;
    struct leat_view copy = *drawn, *view = &copy;
    struct leat_rect box;
    struct reader reader;
    int rc = prepare_resize(stage, work, view, pixel, &box, &denominator, error);
    if (rc)
        return rc;
    struct writer w = begin_write(stage, work, view, target, pass);
    if (!w.n)
        return LEAT_OK;
    struct leat_rect seen = view->padded ? leat_rect_common(box, view->seen) : box;
    uint32_t above = (uint32_t)(seen.y - box.y), below = above + (uint32_t)seen.h; /* rows of the image */
    rc = begin_rows(&reader, stage, work, image, pass, denominator, seen, view->padded ? &box : NULL, true, error);
    const struct leat_axis *across = &work->across, *down = &work->down;
    unsigned nearest = view->filter == LEAT_FILTER_NEAREST ? pixel : 0; /* bytes of the pixels that are taken */
    if (nearest && !stage->decode && !view->padded) {                   /* from their place in memory */
        nearest = (unsigned)image->column;
        reader.expand = 0;
        reader.pad = false;
    }
    uint32_t column = (uint32_t)view->valid.x, columns = (uint32_t)view->valid.w, read = 0;
    size_t slot = w.n * channels + LEAT_ROW_PADDING;
    uint8_t *result = rc ? NULL : work->ring + down->taps * slot;
    for (size_t y = 0; !rc && y < (size_t)view->valid.h; y++) {
        size_t line = (size_t)view->valid.y + y;
        uint32_t first = down->first[line], end = down->end[line];
        for (; !rc && read < end; read++) {
            const uint8_t *row;
            uint8_t *to = work->ring + (read % down->taps) * slot;
            if (read < above || read >= below) {
                for (size_t n = 0; n < w.n; n++)
                    memcpy(to + n * channels, work->fill + pass, channels);
                continue;
            }
            if (read < first) {
                rc = pass_row(&reader, error);
                continue;
            }
            rc = read_row(&reader, &row, error);
            if (!rc && nearest)
                nearest_row(row, nearest, channels, across->first + column, columns, (size_t)box.w, to);
            else if (!rc)
                k->horizontal(across, column, columns, pixel, channels, row, to);
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
static int slow_pass(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_view *view,
                     const struct leat_image *image, const struct leat_image *target, struct leat_error *error)
{
    size_t size = leat_dtype_size(stage->in.dtype), out_size = leat_dtype_size(stage->out.dtype);
    if (!leat_stage_buffer((void **)&work->line, &work->room_line, (size_t)target->w * 24, 1))
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
            const uint8_t *result = leat_stage_map(stage, c, values, w.n, spare, other);
            uint8_t *d = target->base + c * target->plane + row_of(&w, y) * target->row + w.before * target->column;
            for (size_t i = 0; i < w.n; i++)
                memcpy(d + i * target->column, result + i * out_size, out_size);
        }
        if (padded)
            continue;
        fill(&w, row_of(&w, y), 0, w.before);
        fill(&w, row_of(&w, y), w.before + w.n, target->w - w.before - w.n);
    }
    return LEAT_OK;
}

/* ---- all of it ---- */

int leat_stage_pass(const struct leat_stage *stage, struct leat_stage_work *work, const struct leat_view *view,
                    const struct leat_image *image, const struct leat_image *target, struct leat_error *error)
{
    if (!stage->fast)
        return slow_pass(stage, work, view, image, target, error);
    bool padded = stage->pads && stage->padding != LEAT_PAD_CONSTANT;
    int rc = LEAT_OK;
    for (unsigned pass = 0; !rc && pass < stage->passes; pass++)
        rc = (padded          ? padded_pass
              : view->resized ? resize_pass
                              : plain_pass)(stage, work, view, image, pass, target, error);
    return rc;
}
