/* Photos that another file has as pixels: raw_photos.h. A read goes straight to where it is wanted; of a photo whose
 * beginning is read, the header is put before. */
#include "format/raw_photos.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/photo/raw.h"

struct raw_photos {
    struct leat_io_file file;
    struct leat_io_file *pixels;
    leat_raw_place_fn place;
    void *user;
};

struct reading {
    struct leat_io_request inner, *outer;
};

uint64_t leat_raw_photo_bytes(uint32_t width, uint32_t height)
{
    uint64_t bytes;
    const bool fits =
        leat_mul_u64((uint64_t)width * height, 3, &bytes) && bytes && bytes < UINT32_MAX - LEAT_RAW_HEADER;
    return fits ? bytes + LEAT_RAW_HEADER : 0;
}

void leat_raw_photo_describe(uint32_t width, uint32_t height, struct leat_value_info *info)
{
    *info = (struct leat_value_info){.size = {width, height},
                                     .channels = 3,
                                     .health = LEAT_HEALTH_GOOD,
                                     .form = LEAT_FORM_RAW,
                                     .original = (uint32_t)leat_raw_photo_bytes(width, height)};
}

static void take_back(struct leat_io_request *o, const struct leat_io_request *inner)
{
    o->status = inner->status;
    o->retry_after_ms = inner->retry_after_ms;
    if (o->status)
        o->error = inner->error;
}

static void arrived(struct leat_io_request *inner, void *user)
{
    struct reading *r = user;
    struct leat_io_request *o = r->outer;
    take_back(o, inner);
    leat_free(r);
    o->done(o, o->user);
}

static int raw_submit(struct leat_io_file *file, struct leat_io_request *o)
{
    const struct raw_photos *f = (const struct raw_photos *)file;
    const uint64_t photo = o->offset >> LEAT_RAW_PHOTO_SHIFT, from = o->offset - (photo << LEAT_RAW_PHOTO_SHIFT);
    uint8_t header[LEAT_RAW_HEADER];
    struct leat_raw_place at;
    if (!leat_io_fits(o) || !o->length)
        return LEAT_OK;
    if ((o->status = f->place(f->user, photo, &at, &o->error)))
        return LEAT_OK;
    leat_raw_photo_put(
        header, &(struct leat_raw_photo){.width = at.width, .height = at.height, .channels = 3, .orientation = 1});
    const uint64_t left = from < sizeof header ? sizeof header - from : 0, put = left < o->length ? left : o->length;
    if (o->buffer && put)
        memcpy(o->buffer, header + from, (size_t)put);
    if (put == o->length)
        return LEAT_OK;
    struct reading *r = leat_new(struct reading);
    if (!r) {
        o->status = leat_fail(&o->error, LEAT_E_NOMEM, "no memory to read a photo of %s", file->path);
        return LEAT_OK;
    }
    leat_error_clear(&r->inner.error);
    r->outer = o;
    r->inner.file = f->pixels;
    r->inner.offset = at.offset + from + put - sizeof header;
    r->inner.length = o->length - put;
    r->inner.buffer = o->buffer ? (uint8_t *)o->buffer + put : NULL;
    r->inner.waits = o->waits;
    r->inner.done = arrived;
    r->inner.user = r;
    const int rc = leat_io_submit(&r->inner);
    if (rc == LEAT_IO_PENDING)
        return rc;
    take_back(o, &r->inner);
    leat_free(r);
    return rc;
}

static void raw_close(struct leat_io_file *file)
{
    leat_io_release(((struct raw_photos *)file)->pixels);
    leat_free(file);
}

static const struct leat_io_backend raw_backend = {
    .name = "photos as pixels", .submit = raw_submit, .close = raw_close};

int leat_raw_photos_open(struct leat_io_file *pixels, leat_raw_place_fn place, void *user, struct leat_io_file **out,
                         struct leat_error *error)
{
    struct raw_photos *f = leat_new(struct raw_photos);
    *out = NULL;
    if (!f)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", pixels->path);
    f->file = (struct leat_io_file){
        .backend = &raw_backend, .path = pixels->path, .size = (uint64_t)INT64_MAX, .references = 1};
    f->pixels = leat_io_retain(pixels);
    f->place = place;
    f->user = user;
    *out = &f->file;
    return LEAT_OK;
}
