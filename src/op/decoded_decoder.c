/*
 * A decoder whose rows come from the store of decoded photos where they can. Stages call it as any other (codec.h).
 *
 *     open    the store has the photo: that is it. Else the real decoder opens it, as without a store
 *     begin   the box is known: the photo is decoded whole into the store, if that has room; else the box alone
 *     row     of the photo in the store, or the real decoder's
 *     end     likewise
 *
 * If anything is wrong with the whole photo it is opened again and decoded as without a store, so that its error is the
 * same, or there is none where the box does not need what is broken.
 */
#include "op/decoded.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"

static struct leat_decoded_decoder *of(const struct leat_decoder *decoder)
{
    return (struct leat_decoded_decoder *)(uintptr_t)decoder;
}

static size_t pixel_bytes(const struct leat_decoded_decoder *d)
{
    return (d->wish.gray ? 1u : 4u) * (d->wish.wide ? 2u : 1u);
}

static int decoded_open(struct leat_decoder *decoder, const struct leat_decode_request *request, uint32_t size[2],
                        struct leat_error *error)
{
    struct leat_decoded_decoder *d = of(decoder);
    int rc = LEAT_OK;
    d->part = 0;
    d->request = *request;
    d->wish = *leat_image_wish_of(request);
    d->request.wish = &d->wish;
    d->photo = leat_decoded_find(d->store, d->key, request->scan_to_end);
    if (!d->photo)
        rc = leat_image_open(d->real, request, &d->w, &d->h, error);
    d->opened = !d->photo && !rc;
    d->decoded = !d->photo;
    if (rc)
        return rc;
    d->w = d->photo ? d->photo->w : d->w;
    d->h = d->photo ? d->photo->h : d->h;
    size[0] = d->w;
    size[1] = d->h;
    return LEAT_OK;
}

static unsigned decoded_scaled_size(const struct leat_decoder *decoder, unsigned denominator, uint32_t *width,
                                    uint32_t *height)
{
    (void)denominator;
    *width = of(decoder)->w;
    *height = of(decoder)->h;
    return 1;
}

static int close_real(struct leat_decoded_decoder *d, struct leat_error *error)
{
    d->opened = false;
    return leat_decoder_end(d->real, error);
}

/* All rows of the open photo into `to`, and its end. False: something is wrong with it. */
static bool decode_whole(struct leat_decoded_decoder *d, uint8_t *to)
{
    const size_t bytes = d->w * pixel_bytes(d);
    int rc = leat_decoder_begin(d->real, 1, 0, 0, d->w, d->h, NULL);
    for (uint32_t y = 0; !rc && y < d->h; y++) {
        const uint8_t *row;
        rc = leat_decoder_row(d->real, &row, NULL);
        if (!rc)
            memcpy(to + y * bytes, row, bytes);
    }
    memset(to + d->h * bytes, 0, LEAT_DECODE_PADDING);
    const int end = close_real(d, NULL);
    return !rc && !end && !leat_decoder_warnings(d->real);
}

/* d->photo becomes the whole photo, or stays NULL, and the real decoder is open. Errors: those of opening it again. */
static int get_whole(struct leat_decoded_decoder *d, struct leat_error *error)
{
    const uint64_t bytes = (uint64_t)d->w * d->h * pixel_bytes(d) + LEAT_DECODE_PADDING;
    struct leat_decoded_photo *photo = leat_decoded_claim(d->store, d->key, d->request.scan_to_end, d->part, bytes);
    if (!photo)
        return LEAT_OK;
    if (photo->ready) { /* since the photo was opened */
        close_real(d, NULL);
        d->decoded = false;
        d->photo = photo;
        return LEAT_OK;
    }
    if (!decode_whole(d, photo->pixels)) {
        leat_decoded_drop(d->store, photo);
        int rc = leat_image_open(d->real, &d->request, &d->w, &d->h, error);
        d->opened = !rc;
        return rc;
    }
    photo->w = d->w;
    photo->h = d->h;
    photo->scanned = d->request.scan_to_end;
    leat_decoded_fill(d->store, photo);
    d->photo = photo;
    return LEAT_OK;
}

/* The time that a box takes to decode: half of it is reading the photo down to the box's last row, half making pixels.
 * For JPEGs as they came, within 0.06 of what was measured for boxes of all sizes and places. */
static unsigned part_of(const struct leat_decoded_decoder *d, uint32_t y, uint32_t w, uint32_t h)
{
    const uint64_t read = (uint64_t)(y + h) * (LEAT_DECODED_WHOLE / 2) / d->h;
    const uint64_t made = (uint64_t)w * h * (LEAT_DECODED_WHOLE / 2) / ((uint64_t)d->w * d->h);
    return (unsigned)(read + made);
}

static int decoded_begin(struct leat_decoder *decoder, unsigned denominator, uint32_t x, uint32_t y, uint32_t w,
                         uint32_t h, struct leat_error *error)
{
    struct leat_decoded_decoder *d = of(decoder);
    d->part = part_of(d, y, w, h);
    int rc = d->photo ? LEAT_OK : get_whole(d, error);
    if (rc)
        return rc;
    if (!d->photo)
        return leat_decoder_begin(d->real, denominator, x, y, w, h, error);
    if (!w || !h || x > d->w || w > d->w - x || y > d->h || h > d->h - y)
        return leat_fail(error, LEAT_E_INVALID, "a box of %u x %u at %u, %u does not lie in a photo of %u x %u", w, h,
                         x, y, d->w, d->h);
    d->row_bytes = d->w * pixel_bytes(d);
    d->next = d->photo->pixels + y * d->row_bytes + x * pixel_bytes(d);
    return LEAT_OK;
}

static int decoded_row(struct leat_decoder *decoder, const uint8_t **row, struct leat_error *error)
{
    struct leat_decoded_decoder *d = of(decoder);
    if (!d->photo)
        return leat_decoder_row(d->real, row, error);
    *row = d->next;
    d->next += d->row_bytes;
    return LEAT_OK;
}

static int decoded_end(struct leat_decoder *decoder, struct leat_error *error)
{
    struct leat_decoded_decoder *d = of(decoder);
    if (d->photo)
        leat_decoded_leave(d->store, d->photo, d->part);
    d->photo = NULL;
    return d->opened ? close_real(d, error) : LEAT_OK;
}

/* The user that decoded a photo tells what was found out of it meanwhile. */
static const uint8_t *decoded_rows(const struct leat_decoder *decoder, size_t *length)
{
    return of(decoder)->decoded ? leat_decoder_rows(of(decoder)->real, length) : NULL;
}

static unsigned decoded_warnings(const struct leat_decoder *decoder)
{
    return of(decoder)->decoded ? leat_decoder_warnings(of(decoder)->real) : 0;
}

static bool decoded_whole(const struct leat_decoder *decoder)
{
    return of(decoder)->decoded && leat_decoder_whole(of(decoder)->real);
}

static const struct leat_image_codec image = {
    .scaled_size = decoded_scaled_size, .begin = decoded_begin, .row = decoded_row};

struct leat_decoder *leat_decoded_decoder_for(struct leat_decoded_decoder *d, struct leat_decoded *store,
                                              struct leat_decoder *real, const struct leat_value_id *value,
                                              const struct leat_decode_request *r, bool dct_scaling)
{
    if (!store || !real || !value->source || r->lenient || dct_scaling)
        return real;
    d->face = (struct leat_codec){.name = real->codec->name,
                                  .kind = real->codec->kind,
                                  .kind_name = real->codec->kind_name,
                                  .open = decoded_open,
                                  .image = &image,
                                  .end = decoded_end,
                                  .rows = decoded_rows,
                                  .warnings = decoded_warnings,
                                  .whole = decoded_whole,
                                  .warning_names = real->codec->warning_names};
    d->base.codec = &d->face;
    d->store = store;
    d->real = real;
    const struct leat_image_wish *wish = leat_image_wish_of(r);
    const unsigned flags =
        (unsigned)wish->gray | wish->wide * 2u | wish->ids * 4u | wish->exif * 8u | wish->icc * 16u | wish->alpha * 32u;
    const unsigned background = wish->background[0] | wish->background[1] * 256u | wish->background[2] * 65536u;
    leat_decoded_key(d->key, value);
    d->key[3] = (uintptr_t)real->codec;
    d->key[4] = r->length;
    d->key[5] = (uint64_t)wish->frame << 32 | r->form;
    d->key[6] = (uint64_t)flags << 32 | background;
    return &d->base;
}
