/*
 * Planning what a card decodes. leat_card_plan checks all that is few: the header, the ends of the rows, and the view;
 * leat_card_check counts the streams of each row, as the kernels do once more. Rows of a decode-fast form travel whole,
 * those of the rows of MCUs that the box needs; so the bytes that travel are one range of it. card_pack.c has JPEGs as
 * they came.
 */
#include "codec/jpeg/card_plan.h"

#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "codec/image.h"
#include "codec/jpeg/fast_format.h"
#include "codec/jpeg/sampling.h"
#include "kernels/resample.h"

_Static_assert(sizeof(struct leat_card_photo) ==
                   offsetof(struct leat_card_photo, plane) + LEAT_CARD_PLANES * sizeof(struct leat_card_plane),
               "rows of an output hold it: every byte is written");

static int unsupported(struct leat_error *error, const char *why)
{
    return leat_fail(error, LEAT_E_UNSUPPORTED, "a card does not decode this photo: %s", why);
}

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + LEAT_CARD_PADDING - 1) / LEAT_CARD_PADDING * LEAT_CARD_PADDING;
}

int leat_card_fault(const struct leat_card_photo *photo, uint32_t fault, struct leat_error *error)
{
    if (photo->form == LEAT_CARD_CODED)
        return leat_fail(error, LEAT_E_DECODE,
                         "JPEG: damage, or something unusual, in the coded data of row %u of blocks", fault - 1);
    return leat_fail(error, LEAT_E_DECODE,
                     "a photo in the decode-fast form is damaged: row %u of its blocks makes no sense", fault - 1);
}

/* ---- the view -------------------------------------------------------------------------------- */

static bool inside(const struct leat_card_view *view, const uint32_t size[2])
{
    for (int d = 0; d < 2; d++)
        if (!view->source_size[d] || !view->window_size[d] || view->grid[d] > LEAT_MAX_SIDE ||
            (uint64_t)view->source[d] + view->source_size[d] > size[d] ||
            (uint64_t)view->window[d] + view->window_size[d] > view->grid[d])
            return false;
    return true;
}

/* The run of pixel i of the grid: the first pixel of the part, and the one behind it. */
static void run_of(const struct leat_card_axis *axis, uint32_t i, uint32_t *first, uint32_t *end)
{
    const struct leat_run run = leat_run_of((enum leat_filter)axis->filter, axis->in, 0, (double)axis->in / axis->out,
                                            axis->taps, axis->mirrored ? axis->out - 1 - i : i);
    *first = axis->mirrored ? axis->in - run.first - run.n : run.first;
    *end = *first + run.n;
}

/* One direction, and the box that it needs in that: runs begin and end the later, the farther their pixels are. */
static void plan_axis(const struct leat_card_view *view, int d, struct leat_card_axis *axis, unsigned *at, unsigned *n)
{
    uint32_t first, end, ignored;
    *axis = (struct leat_card_axis){.filter = view->filter,
                                    .taps = leat_axis_taps(view->source_size[d], view->grid[d], view->filter),
                                    .in = view->source_size[d],
                                    .out = view->grid[d],
                                    .from = view->window[d],
                                    .n = view->window_size[d],
                                    .mirrored = view->mirrored[d],
                                    .flip = view->flip[d]};
    run_of(axis, axis->from, &first, &ignored);
    run_of(axis, axis->from + axis->n - 1, &ignored, &end);
    axis->skip = first;
    *at = view->source[d] + first;
    *n = end - first;
}

/* ---- the photo ------------------------------------------------------------------------------- */

/* The blocks that the box needs of each component, as picture.c has them. */
static void plan_planes(const struct leat_jpeg_frame *frame, struct leat_card_photo *p, struct leat_card_mcus *mcus)
{
    struct leat_card_mcus m = {.x0 = UINT32_MAX, .y0 = UINT32_MAX};
    p->n_planes = frame->n_components;
    for (unsigned c = 0; c < p->n_planes; c++) {
        const struct leat_jpeg_component *from = &frame->component[c];
        const struct leat_jpeg_sampling s = leat_jpeg_sampling_of(frame, c, 8);
        uint32_t left, right, top, bottom;
        leat_jpeg_samples_of(p->x, p->w, s.across, s.smooth_across, s.width, &left, &right);
        leat_jpeg_samples_of(p->y, p->h, s.down, s.smooth_down, s.height, &top, &bottom);
        left /= 8, right = leat_jpeg_ceil_div(right, 8), top /= 8, bottom = leat_jpeg_ceil_div(bottom, 8);
        struct leat_card_plane *plane = &p->plane[c];
        *plane = (struct leat_card_plane){.v = from->v,
                                          .across_mcu = from->h,
                                          .blocks_w = from->blocks_w,
                                          .x0 = left,
                                          .y0 = top,
                                          .w = right - left,
                                          .h = bottom - top,
                                          .first = p->blocks,
                                          .across = s.across,
                                          .down = s.down,
                                          .smooth_across = s.smooth_across,
                                          .smooth_down = s.smooth_down,
                                          .width = s.width,
                                          .height = s.height};
        memcpy(plane->quant, from->quant, sizeof plane->quant);
        p->blocks += plane->w * plane->h;
        p->rows_per_mcu += from->v;
        left /= from->h, right = leat_jpeg_ceil_div(right, from->h);
        top /= from->v, bottom = leat_jpeg_ceil_div(bottom, from->v);
        m.x0 = left < m.x0 ? left : m.x0, m.x1 = right > m.x1 ? right : m.x1;
        m.y0 = top < m.y0 ? top : m.y0, m.y1 = bottom > m.y1 ? bottom : m.y1;
    }
    for (unsigned c = 0; c < p->n_planes; c++) {
        p->plane[c].check0 = m.x0 * frame->component[c].h;
        p->plane[c].check1 = m.x1 * frame->component[c].h;
    }
    p->mcu_y = m.y0;
    p->n_rows = (m.y1 - m.y0) * p->rows_per_mcu;
    *mcus = m;
}

/* The rows that travel. */
static int plan_rows(const struct leat_jpeg_fast_parts *parts, const struct leat_card_photo *p,
                     struct leat_card_source *source, uint64_t *bytes, struct leat_error *error)
{
    const uint32_t row0 = p->mcu_y * p->rows_per_mcu;
    source->ends = parts->ends + 4 * (size_t)row0;
    source->begin = row0 ? leat_get_u32(source->ends - 4) : 0;
    source->rows = parts->rows + source->begin;
    uint32_t at = source->begin;
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const uint32_t end = leat_get_u32(source->ends + 4 * (size_t)i);
        if (end < at || end > parts->rows_bytes)
            return leat_card_fault(p, 1 + row0 + i, error);
        at = end;
    }
    *bytes = at - source->begin;
    return LEAT_OK;
}

/* Places in the scratch; returns its size. */
static uint64_t plan_scratch(struct leat_card_photo *p)
{
    uint64_t at = p->form == LEAT_CARD_CODED ? 0 : sizeof(struct leat_card_row) * (uint64_t)p->n_rows;
    p->blocks_at = (unsigned)at;
    at = round_up(at + sizeof(struct leat_card_block) * (uint64_t)p->blocks);
    for (int d = 0; d < 2; d++) {
        p->axis[d].weights_at = (unsigned)at;
        at = round_up(at + (uint64_t)p->axis[d].n * (2 + p->axis[d].taps) * 4);
    }
    const uint64_t passes = 128 * (uint64_t)p->blocks, pixels = 4 * (uint64_t)p->w * p->h,
                   samples = 64 * (uint64_t)p->blocks, across = 4 * (uint64_t)p->axis[0].n * p->h;
    if (p->form == LEAT_CARD_CODED) {
        p->codes_at = (unsigned)at;
        at += ((uint64_t)2 << LEAT_CARD_LOOK) * p->n_tables;
        p->coefficients_at = (unsigned)at;
        at += passes;
    }
    p->first_at = (unsigned)at;
    at = round_up(at + (passes > pixels ? passes : pixels));
    p->second_at = (unsigned)at;
    return round_up(at + (samples > across ? samples : across));
}

int leat_card_plan_box(const struct leat_jpeg_frame *f, const struct leat_card_view *view, struct leat_card_photo *p,
                       struct leat_card_mcus *mcus, struct leat_error *error)
{
    *p = (struct leat_card_photo){.form = LEAT_CARD_NONE};
    if (f->n_components > LEAT_CARD_PLANES)
        return unsupported(error, "it has four components");
    if (view->filter == LEAT_FILTER_NEAREST)
        return unsupported(error, "it is resized to its nearest pixels");
    if ((uint64_t)f->width * f->height > LEAT_MAX_PIXELS)
        return unsupported(error, "it is too large");
    if (!inside(view, (const uint32_t[2]){f->width, f->height}))
        return leat_fail(error, LEAT_E_INVALID, "the view of a photo of %u x %u reaches outside", f->width, f->height);
    plan_axis(view, 0, &p->axis[0], &p->x, &p->w);
    plan_axis(view, 1, &p->axis[1], &p->y, &p->h);
    if ((uint64_t)p->w * p->h > LEAT_CARD_MAX_PIXELS || (uint64_t)p->axis[0].n * p->axis[1].n > LEAT_CARD_MAX_PIXELS)
        return unsupported(error, "its box or its result is too large");
    plan_planes(f, p, mcus);
    p->colour = f->colour;
    return LEAT_OK;
}

int leat_card_plan_bytes(struct leat_card_photo *p, enum leat_card_form form, uint64_t length, struct leat_error *error)
{
    p->form = form;
    const uint64_t bytes = round_up(length + LEAT_CARD_PADDING), scratch = plan_scratch(p);
    p->form = LEAT_CARD_NONE;
    if (bytes > INT32_MAX || scratch > INT32_MAX)
        return unsupported(error, "its box is too large");
    p->bytes = (unsigned)bytes;
    p->scratch_bytes = (unsigned)scratch;
    p->form = form;
    return LEAT_OK;
}

int leat_card_plan(const void *data, size_t length, const struct leat_card_view *view, struct leat_card_photo *photo,
                   struct leat_card_source *source, struct leat_error *error)
{
    struct leat_jpeg_fast_parts parts;
    struct leat_card_mcus mcus;
    uint64_t bytes = 0;
    photo->form = LEAT_CARD_NONE;
    int rc = leat_jpeg_fast_parse(data, length, &parts, error);
    rc = rc ? rc : leat_card_plan_box(&parts.frame, view, photo, &mcus, error);
    rc = rc ? rc : plan_rows(&parts, photo, source, &bytes, error);
    return rc ? rc : leat_card_plan_bytes(photo, LEAT_CARD_FAST, 4 * (uint64_t)photo->n_rows + bytes, error);
}

bool leat_card_check(const struct leat_card_photo *photo, const struct leat_card_source *source, enum leat_isa isa)
{
    leat_jpeg_check_row_fn *const good = leat_jpeg_check_row(isa);
    const uint8_t *row = source->rows, *end = source->ends;
    for (uint32_t i = 0; i < photo->n_rows;)
        for (unsigned c = 0; c < photo->n_planes; c++)
            for (uint32_t v = 0; v < photo->plane[c].v; v++, i++, end += 4) {
                const struct leat_card_plane *plane = &photo->plane[c];
                const uint8_t *const next = source->rows + (leat_get_u32(end) - source->begin);
                if (!good(row, (size_t)(next - row), plane->blocks_w, plane->check0, plane->check1))
                    return false;
                row = next;
            }
    return true;
}

void leat_card_write(const struct leat_card_photo *photo, const struct leat_card_source *source, uint8_t *to)
{
    size_t at = 4 * (size_t)photo->n_rows;
    for (uint32_t i = 0; i < photo->n_rows; i++)
        leat_put_u32(to + 4 * (size_t)i, leat_get_u32(source->ends + 4 * (size_t)i) - source->begin);
    const uint32_t rows = photo->n_rows ? leat_get_u32(to + at - 4) : 0;
    memcpy(to + at, source->rows, rows);
    at += rows;
    memset(to + at, 0, photo->bytes - at);
}

/* ---- batches --------------------------------------------------------------------------------- */

struct leat_card_photo leat_card_pixels(uint32_t width, uint32_t height)
{
    return (struct leat_card_photo){.form = LEAT_CARD_PIXELS,
                                    .bytes = (unsigned)round_up(3 * (uint64_t)width * height),
                                    .axis = {{.n = width}, {.n = height}}};
}

uint64_t leat_card_place(struct leat_card_photo *photos, size_t n, const int64_t *offsets)
{
    uint64_t scratch = 0, out = 0;
    for (size_t i = 0; i < n; i++) {
        photos[i].data = (uint64_t)offsets[i];
        photos[i].scratch = scratch;
        photos[i].out = out;
        scratch += photos[i].scratch_bytes;
        out += 3 * (uint64_t)photos[i].axis[0].n * photos[i].axis[1].n;
    }
    return scratch;
}
