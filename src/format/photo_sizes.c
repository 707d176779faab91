/*
 * Photos beside the sizes that annotations say: photo_sizes.h.
 *
 * A photo may have an EXIF orientation that exchanges its sides, as those of telephones have. Tools that annotate it
 * either show it as it is stored, or turned. Both are right: the boxes are those of Decode(), or of Decode(exif=True).
 */
#include "format/photo_sizes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/codec.h"

/* Photos with boxes that reach out of them are looked at up to a bound: of more, the boxes are of another format. */
enum { HEAD = 1 << 16, LONGEST = 64 << 20, LOOKED_AT = 64, MOST_EXCEEDED = 1024, EXAMPLES = 3 };

struct check {
    uint64_t looked_at, other, turned, shown;
    char examples[640];
};

static void add_example(struct check *c, const char *text)
{
    if (c->other <= EXAMPLES)
        c->shown += leat_add_example(c->examples, sizeof c->examples, text);
}

bool leat_photo_sizes_look(struct leat_annotated *a, uint64_t sample, uint8_t *head, size_t room,
                           struct leat_photo_size *out)
{
    struct leat_value_info info = {0};
    const size_t n = leat_photo_files_head(&a->photos, sample, head, room);
    if (!n || leat_codec_of(LEAT_KIND_IMAGE)->probe(head, n, &info, NULL) || !info.size[0])
        return false;
    out->width = info.size[0];
    out->height = info.size[1];
    out->turned = leat_photo_orientation(head, n) > 4;
    return true;
}

static int ask(struct leat_annotated *a, uint64_t sample, size_t room, struct leat_photo_size *out,
               struct leat_error *error)
{
    uint8_t *head = leat_alloc(room);
    if (!head)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to look at photos");
    if (leat_photo_sizes_look(a, sample, head, room, out) &&
        head[0] == 0xff) /* JPEG, whose EXIF stands before its size */
        out->asked = LEAT_PHOTO_ASKED_WHOLE;
    leat_free(head);
    return LEAT_OK;
}

static bool lies_in(const float box[4], uint32_t w, uint32_t h)
{
    return box[0] >= 0 && box[1] >= 0 && (double)box[2] <= w && (double)box[3] <= h;
}

int leat_photo_sizes_find(struct leat_annotated *a, uint64_t sample, const float box[4], struct leat_photo_size *photo,
                          double *w, double *h, struct leat_error *error)
{
    const struct leat_listing_file *file = &a->photos.listing.files[sample];
    int rc = LEAT_OK;
    if ((isfinite(*w) && isfinite(*h)) || file->mtime_ns == LEAT_LISTING_ABSENT)
        return rc;
    if (photo->asked == LEAT_PHOTO_NOT_ASKED) {
        photo->asked = file->size <= HEAD ? LEAT_PHOTO_ASKED_WHOLE : LEAT_PHOTO_ASKED_HEAD;
        rc = ask(a, sample, HEAD, photo, error);
    }
    /* The header of TIFF, and the EXIF of PNG and WebP, may stand at the end of the file. */
    if (!rc && photo->asked == LEAT_PHOTO_ASKED_HEAD && !lies_in(box, photo->width, photo->height)) {
        photo->asked = LEAT_PHOTO_ASKED_WHOLE;
        if (file->size <= LONGEST)
            rc = ask(a, sample, (size_t)file->size, photo, error);
    }
    if (rc || !photo->width)
        return rc;
    uint32_t width = photo->width, height = photo->height;
    if (photo->turned && (*w == height || *h == width)) { /* the side that they say is that of the turned photo */
        width = photo->height;
        height = photo->width;
    } else if (photo->turned && *w != width && *h != height) { /* they may mean either: in both lies this square */
        width = height = width < height ? width : height;
        if (!lies_in(box, width, height) && photo->width != photo->height)
            return LEAT_OK;
    }
    *w = isfinite(*w) ? *w : width;
    *h = isfinite(*h) ? *h : height;
    return LEAT_OK;
}

bool leat_photo_sizes_agree(const struct leat_photo_size *photo, double width, double height, uint32_t w, uint32_t h)
{
    if ((isfinite(width) && width != w) || (isfinite(height) && height != h))
        return false;
    return (isfinite(width) && isfinite(height)) || !photo->width || (photo->width == w && photo->height == h) ||
           (photo->turned && photo->width == h && photo->height == w);
}

/* Whether a photo of this size is as large as the annotations say, who may have said one side alone. */
static bool agree(const struct leat_said_size *said, uint32_t w, uint32_t h)
{
    return (!said->width || said->width == w) && (!said->height || said->height == h);
}

static void say_size(uint32_t w, uint32_t h, char *out, size_t room)
{
    if (w && h)
        snprintf(out, room, "%" PRIu32 " x %" PRIu32, w, h);
    else
        snprintf(out, room, "a %s of %" PRIu32, w ? "width" : "height", w ? w : h);
}

typedef void where_function(const struct leat_annotated *, uint64_t, const struct leat_said_size *, char *, size_t);

static int compare(struct check *c, struct leat_annotated *a, uint64_t sample, const struct leat_said_size *said,
                   where_function *where, uint8_t *head, struct leat_error *error)
{
    const struct leat_listing *l = &a->photos.listing;
    struct leat_photo_size photo;
    char place[256], text[512], size[48];
    if ((!said->width && !said->height) || !leat_photo_sizes_look(a, sample, head, HEAD, &photo))
        return LEAT_OK;
    c->looked_at++;
    if (agree(said, photo.width, photo.height))
        return LEAT_OK;
    if (photo.turned && agree(said, photo.height, photo.width)) {
        c->turned++;
        return LEAT_OK;
    }
    c->other++;
    where(a, sample, said, place, sizeof place);
    say_size(said->width, said->height, size, sizeof size);
    snprintf(text, sizeof text, "%s is %" PRIu32 " x %" PRIu32 ", and %s says %s", l->names + l->files[sample].name,
             photo.width, photo.height, place, size);
    add_example(c, text);
    if (a->on_bad != LEAT_BAD_RAISE)
        return LEAT_OK;
    return leat_fail_at(error, LEAT_E_CORRUPT, a->path, LEAT_NO_OFFSET, "%s (with \"skip\", that is a warning)", text);
}

int leat_photo_sizes_check(struct leat_annotated *a, const struct leat_said_size *said, where_function *where,
                           struct leat_error *error)
{
    const uint64_t count = a->photos.listing.n_files,
                   n = a->options->check_sizes || count < LOOKED_AT ? count : LOOKED_AT;
    struct check c = {.examples = ""};
    uint64_t i = 0, exceeded = 0; /* photos that were looked at because of their turn, and because of their boxes */
    int rc = LEAT_OK;
    uint8_t *head = n ? leat_alloc(HEAD) : NULL;
    if (n && !head)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to look at photos");
    for (uint64_t sample = 0; sample < count && !rc; sample++) {
        const bool turn = i < n && sample == (n == count ? i : i * (count / n) + i * (count % n) / n);
        if (!turn && !(said[sample].exceeded && exceeded < MOST_EXCEEDED))
            continue;
        *(turn ? &i : &exceeded) += 1;
        rc = leat_annotated_ask(a, sample, count, error);
        rc = rc ? rc : compare(&c, a, sample, &said[sample], where, head, error);
    }
    leat_free(head);
    if (c.other)
        leat_note(&a->notes,
                  "%" PRIu64 " of %" PRIu64
                  " photos that were looked at have another size than the annotations say, so "
                  "boxes in pixels are probably wrong there: %s%s",
                  c.other, c.looked_at, c.examples, c.other > c.shown ? "; ..." : "");
    if (c.turned)
        leat_note(&a->notes,
                  "%" PRIu64 " of %" PRIu64 " photos that were looked at are annotated as their EXIF orientation turns "
                  "them: decode them by Decode(exif=True)",
                  c.turned, c.looked_at);
    return rc;
}
