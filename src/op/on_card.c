/*
 * Outputs that a card decodes ("decode": "card"). All that is drawn for a row is drawn here, as for any other; but
 * instead of pixels the row gets the bytes that travel, and their description, by which the card makes the same pixels
 * (codec/jpeg/card_plan.h).
 *
 *     the decode-fast form    its rows travel as they are stored
 *     a JPEG as it came       its coded bytes travel, if it is known to be whole, has a row index, and they are not
 *                             more than the result's values; or it is entropy-decoded here, and its blocks travel,
 *                             if they are not more bytes than its pixels
 *     all else                is decoded here, and its pixels travel; so is what makes no sense, whose error is then
 *                             that of any other row
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

/* A row as a card gets it: the photo, and its bytes, which lie in the form that is stored, or in the packer. */
struct on_card {
    struct leat_card_photo photo;
    struct leat_card_source source;
    const uint8_t *packed; /* or NULL */
};

/* The work of a card for a photo of this size; whether it can do it. */
static bool wanted(const struct leat_compiled *c, const struct leat_stage_work *work, const struct leat_row *row,
                   uint32_t width, uint32_t height, struct leat_card_view *to)
{
    struct leat_view view;
    return !leat_stage_view(c->stages, work, row->key, width, height, &view, NULL) && card_view(&view, to) &&
           to->window_size[0] == leat_type_width(&c->out) && to->window_size[1] == leat_type_height(&c->out);
}

/* ---- the decode-fast form ---- */

static bool plan_fast(const struct leat_compiled *c, struct leat_stage_work *work, const struct leat_row *row,
                      struct on_card *to)
{
    const struct leat_stage *stage = c->stages;
    struct leat_jpeg_original original;
    struct leat_jpeg_frame frame;
    struct leat_card_view view;
    if (stage->in.frame || leat_jpeg_fast_original(row->data, row->length, &original, NULL) ||
        (stage->in.exif && original.orientation != 1) || leat_jpeg_fast_frame(row->data, row->length, &frame, NULL) ||
        !wanted(c, work, row, frame.width, frame.height, &view) ||
        leat_card_plan(row->data, row->length, &view, &to->photo, &to->source, NULL) ||
        !leat_card_check(&to->photo, &to->source, work->kernels->isa))
        return false;
    work->w = frame.width;
    work->h = frame.height;
    work->health = LEAT_HEALTH_UNCHECKED;
    return true;
}

/* ---- a JPEG as it came ---- */

/* Whether its blocks are at most as many bytes as the pixels of the result, by the bytes of the file. Packed rows have
 * a fifth more, and a byte for each block at least: blocks of a plain surface have two bits in the file. */
static bool travels_as_blocks(const struct leat_jpeg_frame *frame, const struct leat_card_mcus *m,
                              const struct leat_card_photo *photo, size_t length)
{
    const double part = (double)(m->x1 - m->x0) * (m->y1 - m->y0) / ((double)frame->mcus_w * frame->mcus_h);
    const double pixels = 3.0 * photo->axis[0].n * photo->axis[1].n;
    double blocks = 0;
    for (unsigned c = 0; c < photo->n_planes; c++) {
        const struct leat_card_plane *plane = &photo->plane[c];
        blocks += (double)(m->y1 - m->y0) * plane->v * (plane->check1 - plane->check0);
    }
    return 1.2 * part * (double)length <= pixels && blocks <= pixels;
}

/* Whether the rows of MCUs that the box needs are at most as many coded bytes as the result has as float32; a card
 * could decode far more, but batches should not need more of its memory than their values will. */
static bool travels_coded(const struct leat_jpeg_frame *frame, const struct leat_card_mcus *m,
                          const struct leat_card_photo *photo, size_t length)
{
    const double part = (double)(m->y1 - m->y0) / frame->mcus_h;
    return part * (double)length <= 4 * 3.0 * photo->axis[0].n * photo->axis[1].n;
}

/* The photo that is open, its coded bytes or its blocks. False: it stays open, and nothing of it is read, or it is done
 * with (!work->opened_ahead). */
static bool pack_photo(const struct leat_compiled *c, struct leat_stage_work *work, const struct leat_row *row,
                       struct on_card *to)
{
    const struct leat_jpeg_frame *frame = leat_decoder_blocks(work->decoder, NULL);
    struct leat_jpeg_source *source;
    struct leat_card_view view;
    struct leat_card_mcus mcus;
    if (!frame || !wanted(c, work, row, frame->width, frame->height, &view) ||
        leat_card_plan_box(frame, &view, &to->photo, &mcus, NULL))
        return false;
    /* whole: it is scanned now, which finds its rows, or was once, its index was kept, and these are the same bytes:
     * damage that the card alone could find is too late for a policy, and would come again with the batch */
    const bool kept = row->info.health == LEAT_HEALTH_GOOD && row->info.rows_length && !row->info.unverified;
    const bool coded = (row->scan_to_end || kept) && travels_coded(frame, &mcus, &to->photo, row->length),
               blocks = travels_as_blocks(frame, &mcus, &to->photo, row->length);
    if ((!coded && !blocks) || (!work->packer && !(work->packer = leat_card_packer_new())) ||
        !leat_decoder_blocks(work->decoder, &source))
        return false;
    int rc = LEAT_E_UNSUPPORTED;
    if (coded && source->coded)
        rc = leat_card_pack_coded(work->packer, source->coded, &mcus, &to->photo, &to->packed, NULL);
    if (rc == LEAT_E_UNSUPPORTED && blocks)
        rc = leat_card_pack(work->packer, source, &mcus, &to->photo, &to->packed, NULL);
    work->opened_ahead = false;
    if (!rc)
        return true;
    leat_decoder_end(work->decoder, NULL); /* the processor decodes it from the beginning, and has the error */
    return false;
}

static bool plan_original(const struct leat_compiled *c, struct leat_stage_work *work, const struct leat_row *row,
                          struct on_card *to, int *rc, struct leat_error *error)
{
    uint32_t w, h;
    if (leat_stage_open(c->stages, work, row, &w, &h, NULL))
        return false;
    work->opened_ahead = true;
    if (!pack_photo(c, work, row, to))
        return false;
    *rc = leat_stage_end_value(work, row, LEAT_OK, LEAT_OK, error);
    return true;
}

/* ---- rows ---- */

/* Whether a card decodes the photo of a row. *rc: its error. */
static bool plan(const struct leat_compiled *c, struct leat_stage_work *work, const struct leat_row *row,
                 struct on_card *to, int *rc, struct leat_error *error)
{
    *to = (struct on_card){0};
    if (row->info.form == LEAT_FORM_FAST)
        return plan_fast(c, work, row, to);
    return row->info.form == LEAT_FORM_ORIGINAL && plan_original(c, work, row, to, rc, error);
}

int leat_on_card_apply(const struct leat_program *program, const struct leat_compiled *c, struct leat_scratch *scratch,
                       const struct leat_row *row, void *card, struct leat_error *error)
{
    struct leat_stage_work *work = leat_scratch_stages(scratch);
    struct on_card got;
    void *to;
    int rc = LEAT_OK;
    const int64_t begin = leat_clock_ns();
    const bool travels = plan(c, work, row, &got, &rc, error);
    if (rc)
        return rc;
    if (!travels)
        got.photo = leat_card_pixels((uint32_t)leat_type_width(&c->out), (uint32_t)leat_type_height(&c->out));
    memcpy(card, &got.photo, sizeof got.photo);
    rc = work->room->take(work->room, c->index, got.photo.bytes, &to, error);
    if (!rc && travels) {
        if (got.packed)
            memcpy(to, got.packed, got.photo.bytes);
        else
            leat_card_write(&got.photo, &got.source, to);
        leat_scratch_count(scratch, c, begin);
        leat_scratch_trim(scratch);
    } else if (!rc) {
        const size_t made = 3 * (size_t)got.photo.axis[0].n * got.photo.axis[1].n;
        memset((uint8_t *)to + made, 0, got.photo.bytes - made);
        if (leat_program_apply(program, c->index, scratch, row, 1, to, error) < 1)
            rc = error && error->code ? error->code : LEAT_E_DECODE;
    }
    if (work->opened_ahead) { /* nobody has taken it */
        leat_decoder_end(work->decoder, NULL);
        work->opened_ahead = false;
    }
    return rc;
}
