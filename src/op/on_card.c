/*
 * Outputs that a card decodes ("decode": "card"). All that is drawn for a row is drawn here, as for any other; but
 * instead of pixels the row gets the bytes that travel, and their description, by which the card makes the same pixels
 * (codec/jpeg/card_plan.h). A photo that the card does not decode is decoded here, and its pixels travel. So is one
 * that makes no sense, whose error is then that of any other row.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "codec/jpeg/card_plan.h"
#include "codec/jpeg/fast.h"
#include "op/program_internal.h"

int leat_on_card_settle(struct leat_compiled *c, struct leat_error *error)
{
    const struct leat_type *t = &c->out;
    const bool fits = c->pixels && c->n_stages == 1 && c->stages->decode && c->stages->fast && !c->stages->n_maps &&
                      t->dtype == LEAT_U8 && leat_type_channels(t) == 3 && !leat_type_is_open(t) &&
                      !c->stages->in.icc && !c->stages->in.dct_scaling;
    struct leat_output *face = &c->face;
    if (!fits) {
        int rc = leat_fail(error, LEAT_E_TYPE,
                           "Output '%s' is left to a card, which makes uint8 images of one size by Decode() (mode RGB, "
                           "without icc and dct_scaling), crops, one resize and flips: give it no other operators.",
                           face->name);
        leat_error_at_sample(error, LEAT_NO_SAMPLE, face->name);
        return rc;
    }
    face->on_card = face->open = face->ragged = true;
    face->ndim = 1;
    face->shape[0] = -1;
    face->strides[0] = 1;
    face->row_bytes = 1;
    return LEAT_OK;
}

/* What a card is to do for a view. False: it reaches outside of the photo, which is padded. */
static bool card_view(const struct leat_view *from, struct leat_card_view *to)
{
    const struct leat_rect *s = &from->source, *w = &from->window, *v = &from->valid;
    *to = (struct leat_card_view){.source = {(uint32_t)s->x, (uint32_t)s->y},
                                  .source_size = {(uint32_t)s->w, (uint32_t)s->h},
                                  .grid = {from->grid_w, from->grid_h},
                                  .window = {(uint32_t)w->x, (uint32_t)w->y},
                                  .window_size = {(uint32_t)w->w, (uint32_t)w->h},
                                  .filter = from->resized ? from->filter : LEAT_FILTER_ANTIALIAS,
                                  .mirrored = {from->mirrored, from->mirrored_y},
                                  .flip = {from->flip, from->flip_y}};
    return !from->padded && w->w == v->w && w->h == v->h;
}

/* Whether a card decodes the photo of a row. */
static bool plan(const struct leat_compiled *c, struct leat_stage_work *work, const struct leat_row *row,
                 struct leat_card_photo *photo, struct leat_card_source *source)
{
    const struct leat_stage *stage = c->stages;
    struct leat_jpeg_original original;
    struct leat_jpeg_frame frame;
    struct leat_view view;
    struct leat_card_view wanted;
    if (row->info.form != LEAT_FORM_FAST || stage->in.frame ||
        leat_jpeg_fast_original(row->data, row->length, &original, NULL) ||
        (stage->in.exif && original.orientation != 1) || leat_jpeg_fast_frame(row->data, row->length, &frame, NULL) ||
        leat_stage_view(stage, work, row->key, frame.width, frame.height, &view, NULL) || !card_view(&view, &wanted) ||
        wanted.window_size[0] != leat_type_width(&c->out) || wanted.window_size[1] != leat_type_height(&c->out) ||
        leat_card_plan(row->data, row->length, &wanted, photo, source, NULL) ||
        !leat_card_check(photo, source, work->kernels->isa))
        return false;
    work->w = frame.width;
    work->h = frame.height;
    work->health = LEAT_HEALTH_UNCHECKED;
    return true;
}

int leat_on_card_apply(const struct leat_program *program, const struct leat_compiled *c, struct leat_scratch *scratch,
                       const struct leat_row *row, void *card, struct leat_error *error)
{
    struct leat_stage_work *work = leat_scratch_stages(scratch);
    struct leat_card_photo photo;
    struct leat_card_source source;
    void *to;
    const int64_t begin = leat_clock_ns();
    const bool travels = plan(c, work, row, &photo, &source);
    if (!travels)
        photo = leat_card_pixels((uint32_t)leat_type_width(&c->out), (uint32_t)leat_type_height(&c->out));
    memcpy(card, &photo, sizeof photo);
    int rc = work->room->take(work->room, c->index, photo.bytes, &to, error);
    if (!rc && travels) {
        leat_card_write(&photo, &source, to);
        leat_scratch_count(scratch, c, begin);
    }
    if (rc || travels)
        return rc;
    const size_t made = 3 * (size_t)photo.axis[0].n * photo.axis[1].n;
    memset((uint8_t *)to + made, 0, photo.bytes - made);
    if (leat_program_apply(program, c->index, scratch, row, 1, to, error) < 1)
        return error && error->code ? error->code : LEAT_E_DECODE;
    return LEAT_OK;
}
