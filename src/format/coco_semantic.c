/*
 * Masks of class ids out of a panoptic file: a PNG for each image, in memory, which coco_panoptic.c makes of the
 * segments in the PNG of the file.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/ids_png.h"
#include "format/coco.h"

int leat_coco_check_semantic(struct leat_coco *c)
{
    int rc = LEAT_OK;
    if (!c->n_pngs)
        rc = leat_fail(c->error, LEAT_E_INVALID,
                       "%s has no segments of which masks could be made: masks are a folder of PNGs of class ids, or a "
                       "panoptic file; instances are annotations",
                       c->a->path);
    else if (c->a->n_classes > LEAT_COCO_IGNORED)
        rc = leat_fail(c->error, LEAT_E_UNSUPPORTED,
                       "%s has %zu categories, and masks of class ids hold %d: open it as annotations, which gives the "
                       "segments",
                       c->a->path, c->a->n_classes, LEAT_COCO_IGNORED);
    if (rc)
        leat_error_at_file(c->error, c->a->path, LEAT_NO_OFFSET);
    return rc;
}

int leat_coco_keep_semantic(struct leat_coco *c, struct leat_coco_image *image, struct leat_coco_place place,
                            const struct leat_shape_bytes *png)
{
    if (image->mask_bytes) {
        int rc = leat_fault(c->a, c->error, LEAT_E_CORRUPT, "PNGs of images that have another one",
                            "annotations[%u] (%s) is the second one of %s", place.number, leat_coco_where(c, place),
                            c->names + image->name);
        return rc ? rc : leat_annotated_mark(c->a, image->sample, c->error);
    }
    if (!leat_grow(&c->masks.data, &c->masks.room, c->masks.n + png->n, 1))
        return LEAT_E_NOMEM;
    memcpy(c->masks.data + c->masks.n, png->data, png->n);
    image->mask = c->masks.n;
    image->mask_bytes = png->n;
    c->masks.n += png->n;
    return LEAT_OK;
}

int leat_coco_check_maskless(struct leat_coco *c)
{
    const struct leat_listing *l = &c->a->photos.listing;
    int rc = LEAT_OK;
    for (size_t i = 0; i < c->n_images && !rc; i++) {
        struct leat_coco_image *image = &c->images[i];
        if (image->sample == SIZE_MAX || image->mask_bytes ||
            l->files[image->sample].mtime_ns == LEAT_LISTING_ABSENT) /* which was said */
            continue;
        rc = leat_coco_find_size(c, image);
        if (rc || image->has_png)
            continue;
        rc = leat_fault(c->a, c->error, LEAT_E_CORRUPT, "images without segments of which a mask could be made",
                        "images[%u] (%s), %s, has no PNG of segments", image->place.number,
                        leat_coco_where(c, image->place), c->names + image->name);
        rc = rc ? rc : leat_annotated_mark(c->a, image->sample, c->error);
    }
    return rc;
}

bool leat_coco_add_semantic(struct leat_coco *c)
{
    enum { MOST_PIXELS = 1 << 26 };
    const uint64_t n = c->a->photos.listing.n_files;
    struct leat_column *column = leat_annotated_column(c->a, "mask", LEAT_U8, LEAT_ROLE_MASK, false, 0);
    struct leat_shape_bytes bytes = {0};
    bool good = (column->own_first = leat_new_array(n + 1, sizeof *column->own_first));
    column->field.kind = LEAT_KIND_IMAGE;
    column->first = column->own_first;
    const struct leat_coco_image **of = leat_new_array(n, sizeof *of);
    for (size_t i = 0; of && i < c->n_images; i++)
        if (c->images[i].sample != SIZE_MAX)
            of[c->images[i].sample] = &c->images[i];
    good = good && of;
    for (uint64_t s = 0; s < n && good; s++) {
        column->own_first[s] = bytes.n;
        if (of[s]->mask_bytes) {
            if ((good = leat_grow(&bytes.data, &bytes.room, bytes.n + of[s]->mask_bytes, 1)))
                memcpy(bytes.data + bytes.n, c->masks.data + of[s]->mask, of[s]->mask_bytes);
            bytes.n += of[s]->mask_bytes;
            continue;
        }
        const double width = isfinite(of[s]->w) ? of[s]->w : of[s]->photo.width,
                     height = isfinite(of[s]->h) ? of[s]->h : of[s]->photo.height;
        const bool known = width >= 1 && height >= 1 && width * height <= MOST_PIXELS;
        const uint32_t w = known ? (uint32_t)width : 1, h = known ? (uint32_t)height : 1;
        uint8_t *none = leat_alloc((size_t)w * h);
        if (none)
            memset(none, LEAT_COCO_IGNORED, (size_t)w * h);
        good = none && leat_ids_png(&bytes, none, w, h);
        leat_free(none);
    }
    if (good)
        column->own_first[n] = bytes.n;
    column->data = bytes.data;
    leat_free(of);
    return good;
}
