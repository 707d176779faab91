/*
 * COCO: a JSON file of images, annotations and categories beside a folder of photos.
 *
 *     {"images":      [{"id": 42, "file_name": "000042.jpg", "width": 640, "height": 478}, ...],
 *      "annotations": [{"image_id": 42, "category_id": 18, "bbox": [x, y, w, h], "area": 1.5, "iscrowd": 0}, ...],
 *      "categories":  [{"id": 18, "name": "dog"}, ...]}
 *
 * The lists come in any order and may be huge, so they are walked through (json_text.h) and only what is needed of an
 * entry is kept, some 50 bytes. Samples are in the order of their image ids, as the reference API gives them, and
 * classes in that of their category ids. The instances of an image keep their order in the file.
 */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/coco.h"

static bool coco_annotates(const char *path, bool folder, const uint8_t *head, size_t n)
{
    size_t i = n >= 3 && !memcmp(head, "\xef\xbb\xbf", 3) ? 3 : 0;
    while (i < n && (head[i] == ' ' || head[i] == '\n' || head[i] == '\r' || head[i] == '\t'))
        i++;
    return !folder && i < n && head[i] == '{';
}

/* ---- entries --------------------------------------------------------------------------------- */

/* A text, which is kept in `names`; its place stays as it is where the JSON ends. */
static int keep_name(struct leat_coco *c, size_t *name)
{
    size_t length;
    const char *text = leat_json_string(&c->json, &length);
    if (!text)
        return LEAT_OK;
    if (!leat_grow(&c->names, &c->names_room, c->names_bytes + length + 1, 1))
        return LEAT_E_NOMEM;
    *name = c->names_bytes;
    memcpy(c->names + c->names_bytes, text, length + 1);
    c->names_bytes += length + 1;
    return LEAT_OK;
}

static const char NAMELESS_IMAGES[] = "images without an id or a file_name",
                  WRONG_SIZES[] = "images whose size cannot be", NO_IMAGES[] = "images that are no objects";

static int add_image(struct leat_coco *c, size_t number)
{
    struct leat_json *j = &c->json;
    struct leat_coco_image image = {
        .w = (double)INFINITY, .h = (double)INFINITY, .name = SIZE_MAX, .place = leat_coco_place(j, number)};
    bool has_id = false, good_size = true;
    char key[32];
    if (!leat_json_enter(j, '{'))
        return LEAT_OK;
    while (leat_json_key(j, key, sizeof key)) {
        if (!strcmp(key, "id")) {
            has_id = leat_coco_id(j, &image.id);
        } else if (!strcmp(key, "width")) {
            good_size &= leat_coco_number(j, &image.w) && isfinite(image.w);
        } else if (!strcmp(key, "height")) {
            good_size &= leat_coco_number(j, &image.h) && isfinite(image.h);
        } else if (!strcmp(key, "file_name") && leat_json_peek(j) == '"') {
            if (keep_name(c, &image.name))
                return leat_coco_no_memory(c);
        } else {
            leat_json_skip(j);
        }
    }
    if (j->fault)
        return LEAT_OK;
    const bool nameless = image.name == SIZE_MAX;
    if (!has_id || nameless || !c->names[image.name])
        return leat_fault(c->a, c->error, LEAT_E_CORRUPT, NAMELESS_IMAGES, "images[%zu] (%s) has %s", number,
                          leat_coco_where(c, image.place),
                          !has_id    ? "no id that is a whole number of 64 bits"
                          : nameless ? "no file_name that is a text"
                                     : "a file_name that is empty");
    if (!good_size)
        return leat_fault(c->a, c->error, LEAT_E_CORRUPT, WRONG_SIZES,
                          "images[%zu] (%s), %s, has a width or a height that is no number", number,
                          leat_coco_where(c, image.place), c->names + image.name);
    const double w = isfinite(image.w) ? image.w : 1, h = isfinite(image.h) ? image.h : 1;
    if (!(image.w >= 1 && image.h >= 1 && w * h < 0x1p31 && w == floor(w) && h == floor(h)))
        return leat_fault(c->a, c->error, LEAT_E_CORRUPT, WRONG_SIZES,
                          "images[%zu] (%s), %s, has width %g and height %g: both are whole numbers from 1, and "
                          "their product is below 2^31",
                          number, leat_coco_where(c, image.place), c->names + image.name, image.w, image.h);
    if (!leat_grow(&c->images, &c->images_room, c->n_images + 1, sizeof *c->images))
        return leat_coco_no_memory(c);
    c->images[c->n_images++] = image;
    return LEAT_OK;
}

static int add_category(struct leat_coco *c, size_t number)
{
    struct leat_json *j = &c->json;
    struct leat_coco_category category = {.place = leat_coco_place(j, number)};
    bool has_id = false;
    char key[32];
    int rc = LEAT_OK;
    if (!leat_json_enter(j, '{'))
        return LEAT_OK;
    while (leat_json_key(j, key, sizeof key)) {
        if (!strcmp(key, "id")) {
            has_id = leat_coco_id(j, &category.id);
        } else if (!strcmp(key, "name") && leat_json_peek(j) == '"' && !category.name) {
            const char *text = leat_json_string(j, NULL);
            if (text && !(category.name = leat_strdup(text)))
                rc = leat_coco_no_memory(c);
        } else if (!strcmp(key, "keypoints")) {
            rc = leat_coco_skeleton(c, number, category.place);
        } else {
            leat_json_skip(j);
        }
        if (rc)
            break;
    }
    if (!rc && !j->fault && (!has_id || !category.name || leat_is_blank(category.name)))
        rc = leat_fault(c->a, c->error, LEAT_E_CORRUPT, "categories without an id or a name",
                        "categories[%zu] (%s) has %s", number, leat_coco_where(c, category.place),
                        !has_id         ? "no id that is a whole number of 64 bits"
                        : category.name ? "a name that is blank"
                                        : "no name that is a text");
    else if (!rc && !j->fault && !leat_grow(&c->categories, &c->categories_room, c->n_categories + 1, sizeof category))
        rc = leat_coco_no_memory(c);
    else if (!rc && !j->fault) {
        c->categories[c->n_categories++] = category;
        return LEAT_OK;
    }
    leat_free(category.name);
    return rc;
}

/* An annotation or a segment of an image was left out, whose sample is not known yet. */
static int keep_faulty(struct leat_coco *c, int64_t image)
{
    if (!leat_grow(&c->faulty, &c->faulty_room, c->n_faulty + 1, sizeof *c->faulty))
        return leat_coco_no_memory(c);
    c->faulty[c->n_faulty++] = image;
    return LEAT_OK;
}

static int leave_out(struct leat_coco *c, const struct leat_coco_instance *one, bool has_image, bool no_list)
{
    const char *where = leat_coco_where(c, one->place);
    c->a->tried++;
    if (no_list && !one->has_category)
        return leat_fault(c->a, c->error, LEAT_E_CORRUPT, "annotations whose segments_info is no list",
                          "annotations[%u] (%s) has a segments_info that is no list", one->place.number, where);
    return leat_fault(c->a, c->error, LEAT_E_CORRUPT,
                      "annotations without an image_id or a category_id that is a number",
                      "annotations[%u] (%s) has no %s that is a whole number of 64 bits", one->place.number, where,
                      has_image ? "category_id" : "image_id");
}

static int add_instance(struct leat_coco *c, size_t number)
{
    struct leat_json *j = &c->json;
    struct leat_coco_instance one = leat_coco_instance(leat_coco_place(j, number));
    bool has_image = false, has_segments = false, no_list = false, has_name = false;
    const size_t begin = c->n_instances;
    size_t name = SIZE_MAX;
    char key[32];
    int rc = LEAT_OK;
    c->segment_left_out = false;
    if (!leat_json_enter(j, '{'))
        return LEAT_OK;
    while (leat_json_key(j, key, sizeof key)) {
        if (leat_coco_member(j, key, &one))
            continue;
        if (!strcmp(key, "image_id"))
            has_image = leat_coco_id(j, &one.image);
        else if (!strcmp(key, "segmentation"))
            rc = leat_coco_segmentation(c, &one);
        else if (!strcmp(key, "keypoints"))
            rc = leat_coco_keypoints(c, &one);
        else if (!strcmp(key, "segments_info")) {
            has_segments = leat_json_peek(j) == '[';
            no_list = !has_segments;
            rc = has_segments ? leat_coco_segments(c, &one) : (leat_json_skip(j), LEAT_OK);
        } else if (!strcmp(key, "file_name")) {
            has_name = true;
            rc = leat_json_peek(j) != '"' ? (leat_json_skip(j), LEAT_OK)
                 : keep_name(c, &name)    ? leat_coco_no_memory(c)
                                          : LEAT_OK;
        } else
            leat_json_skip(j);
        if (rc)
            return rc;
    }
    if (j->fault)
        return LEAT_OK;
    const bool are_segments = has_segments && has_image && !one.has_category;
    if (has_image && (c->segment_left_out || !(are_segments || one.has_category)) && (rc = keep_faulty(c, one.image)))
        return rc;
    if (are_segments) {
        for (size_t i = begin; i < c->n_instances; i++)
            c->instances[i].image = one.image;
        if (!has_name)
            return LEAT_OK;
        if (!leat_grow(&c->pngs, &c->pngs_room, c->n_pngs + 1, sizeof *c->pngs))
            return leat_coco_no_memory(c);
        c->pngs[c->n_pngs++] = (struct leat_coco_png){name, one.image, begin, c->n_instances, one.place};
        return LEAT_OK;
    }
    c->n_instances = begin;
    return has_image && one.has_category ? leat_coco_add(c, &one) : leave_out(c, &one, has_image, no_list);
}

/* A list of a file, and how its entries are added. */
struct list {
    const char *key, *no_objects; /* the kind of fault */
    int (*add)(struct leat_coco *, size_t);
};

static const struct list lists[] = {{"images", NO_IMAGES, add_image},
                                    {"annotations", "annotations that are no objects", add_instance},
                                    {"categories", "categories that are no objects", add_category}};

static int read_list(struct leat_coco *c, const struct list *list)
{
    struct leat_json *j = &c->json;
    int rc = LEAT_OK;
    const char kind = leat_json_peek(j);
    if (kind && kind != '[')
        return leat_fail_at(c->error, LEAT_E_FORMAT, c->a->path, (int64_t)leat_json_offset(j),
                            "\"%s\" of %s (%s) is %s, and no list", list->key, c->a->path,
                            leat_coco_where(c, leat_coco_place(j, 0)), leat_json_kind(kind));
    if (!leat_json_enter(j, '['))
        return LEAT_OK;
    for (c->listed = 0; !rc && leat_json_item(j); c->listed++) {
        const struct leat_coco_place place = leat_coco_place(j, c->listed);
        const char *other = leat_coco_no_object(j);
        c->a->tried += other && list->add == add_instance;
        rc = other ? leat_fault(c->a, c->error, LEAT_E_CORRUPT, list->no_objects, "%s[%zu] (%s) is %s, and no object",
                                list->key, c->listed, leat_coco_where(c, place), other)
                   : list->add(c, c->listed);
        if (!rc && c->listed % 64 == 0)
            rc = leat_annotated_ask(c->a, leat_json_offset(j), c->bytes, c->error);
    }
    return rc;
}

/* The first of what is wrong with images. */
static const char *image_faults(const struct leat_annotated *a)
{
    const struct leat_fault_kind *kind = a->faults, *last = kind + LEAT_FAULT_KINDS - 1;
    while (kind < last && kind->what != NAMELESS_IMAGES && kind->what != WRONG_SIZES && kind->what != NO_IMAGES)
        kind++;
    return kind->examples;
}

static int read_file(struct leat_coco *c)
{
    struct leat_io_file *file;
    bool has_images = false;
    size_t listed = 0;
    char key[32];
    int rc = leat_io_open(c->a->path, &file, c->error);
    if (rc)
        return rc;
    c->bytes = file->size;
    leat_json_begin(&c->json, file, c->error);
    if (leat_json_enter(&c->json, '{'))
        while (!rc && leat_json_key(&c->json, key, sizeof key)) {
            const struct list *list = lists, *const end = lists + sizeof lists / sizeof *lists;
            while (list < end && strcmp(key, list->key) != 0)
                list++;
            rc = list < end ? read_list(c, list) : (leat_json_skip(&c->json), LEAT_OK);
            has_images |= list == lists;
            listed = list == lists ? c->listed : listed;
        }
    if (rc)
        leat_json_stop(&c->json);
    else
        rc = leat_json_end(&c->json);
    leat_io_release(file);
    if (!rc && !has_images) {
        rc = leat_fail_at(c->error, LEAT_E_FORMAT, c->a->path, LEAT_NO_OFFSET,
                          "%s has no list \"images\": it is no file of COCO annotations", c->a->path);
    } else if (!rc && listed && !c->n_images) {
        rc = leat_fail_at(c->error, LEAT_E_CORRUPT, c->a->path, LEAT_NO_OFFSET,
                          "of %s, each of the %zu images is wrong: %s", c->a->path, listed, image_faults(c->a));
    }
    return rc;
}

/* ---- what belongs together ------------------------------------------------------------------- */

static int compare_categories(const void *a, const void *b)
{
    const struct leat_coco_category *x = a, *y = b;
    return leat_coco_compare_ids(x->id, x->place.number, y->id, y->place.number);
}

/* Without a category, every annotation would be left out. */
static int check_categories(struct leat_coco *c)
{
    const struct leat_fault_kind *k = c->a->faults;
    if (c->n_categories || !c->n_instances)
        return LEAT_OK;
    while (k < c->a->faults + LEAT_FAULT_KINDS - 1 && k->what && strncmp(k->what, "categories", 10) != 0)
        k++;
    const bool wrong = k->what && !strncmp(k->what, "categories", 10);
    return leat_fail_at(
        c->error, LEAT_E_CORRUPT, c->a->path, LEAT_NO_OFFSET,
        "%s has %zu annotations and no %scategory: its list \"categories\" says what their category_id mean, as in "
        "{\"id\": 18, \"name\": \"dog\"}%s%s",
        c->a->path, c->n_instances, wrong ? "good " : "", wrong ? "; " : "", wrong ? k->examples : "");
}

static int name_classes(struct leat_coco *c)
{
    struct leat_annotated *a = c->a;
    json_t *ids = json_array();
    int rc = LEAT_OK;
    if (c->n_categories)
        qsort(c->categories, c->n_categories, sizeof *c->categories, compare_categories);
    a->classes = leat_new_array(c->n_categories, sizeof *a->classes);
    for (size_t i = 0; a->classes && i < c->n_categories && !rc; i++) {
        struct leat_coco_category *k = &c->categories[i];
        if (a->n_classes && c->categories[a->n_classes - 1].id == k->id) {
            rc = leat_fault(a, c->error, LEAT_E_CORRUPT, "categories whose id another one has",
                            "categories[%u] (%s), %s, has the id %" PRId64 " of %s", k->place.number,
                            leat_coco_where(c, k->place), k->name, k->id, a->classes[a->n_classes - 1]);
            continue;
        }
        leat_trim(k->name);
        a->classes[a->n_classes] = k->name;
        k->name = NULL;
        c->categories[a->n_classes++].id = k->id;
        json_array_append_new(ids, json_integer((json_int_t)k->id));
    }
    json_t *about = json_pack("{s:o}", "category_ids", ids);
    char *text = about ? json_dumps(about, JSON_COMPACT) : NULL;
    a->metadata = text ? leat_strdup(text) : NULL;
    free(text);
    json_decref(about);
    return rc ? rc : a->classes && a->metadata ? LEAT_OK : leat_coco_no_memory(c);
}

static size_t find_class(const struct leat_coco *c, int64_t id)
{
    return leat_coco_find_id(c->categories, c->a->n_classes, sizeof *c->categories, id);
}

/* A value that cannot be, other than the box: the instance stays without it. */
static int check_part(struct leat_coco *c, const struct leat_coco_instance *one, const struct leat_coco_image *image,
                      const char *wrong, const char *what)
{
    if (!wrong)
        return LEAT_OK;
    int rc = leat_fault(c->a, c->error, LEAT_E_CORRUPT, what, "annotations[%u] (%s) %s (%s)", one->place.number,
                        leat_coco_where(c, one->place), wrong, c->names + image->name);
    return rc ? rc : leat_annotated_mark(c->a, image->sample, c->error);
}

/* Makes corners of the box and cuts them off at the photo. `wrong` says what is wrong with the box; "": nothing. */
static int settle_box(struct leat_coco *c, struct leat_coco_instance *one, struct leat_coco_image *image, char *wrong,
                      size_t room)
{
    const unsigned number = one->place.number;
    const char *none = leat_coco_box_fault(one);
    const float *b = one->box, given[4] = {b[0], b[1], b[2], b[3]};
    const double x = (double)given[0], y = (double)given[1], side_x = (double)given[2], side_y = (double)given[3];
    double w = image->w, h = image->h;
    *wrong = 0;
    if (none) {
        snprintf(wrong, room, "%s", none);
        return LEAT_OK;
    }
    one->box[2] += b[0];
    one->box[3] += b[1];
    int rc = leat_photo_sizes_find(c->a, image->sample, b, &image->photo, &w, &h, c->error);
    if (rc)
        return rc;
    const char *why = leat_box_fault(one->box, w, h);
    const bool inside = leat_annotated_box(c->a, given, w, h);
    image->exceeded |= !inside;
    if (!inside && !why)
        leat_annotated_stray(c->a, "annotations[%u] (%s) has the bbox [%g, %g, %g, %g], of %s", number,
                             leat_coco_where(c, one->place), x, y, side_x, side_y, c->names + image->name);
    if (why)
        snprintf(wrong, room, "has the bbox [%g, %g, %g, %g], which %s", x, y, side_x, side_y, why);
    else if (!(isfinite(w) && isfinite(h)))
        leat_annotated_tell(c->a, LEAT_TOLD_UNSIZED, "annotations[%u] (%s), of %s", number,
                            leat_coco_where(c, one->place), c->names + image->name);
    return LEAT_OK;
}

/* The fault in the mask of an instance; NULL: none. */
static const char *mask_fault(const struct leat_coco_instance *one, const struct leat_coco_image *image, char *text,
                              size_t room)
{
    if (one->wrong || !one->shape_bytes || !one->runs_h ||
        leat_photo_sizes_agree(&image->photo, image->w, image->h, one->runs_w, one->runs_h))
        return one->wrong;
    snprintf(text, room, "has a mask of another size than its image: %" PRIu32 " x %" PRIu32 ", not %g x %g",
             one->runs_w, one->runs_h, isfinite(image->w) ? image->w : image->photo.width,
             isfinite(image->h) ? image->h : image->photo.height);
    return text;
}

/* The values of an instance beside its box: those that cannot be are left out. */
static int settle_parts(struct leat_coco *c, struct leat_coco_instance *one, const struct leat_coco_image *image)
{
    char text[128];
    const char *mask = mask_fault(one, image, text, sizeof text);
    int rc = check_part(c, one, image, mask, "masks that cannot be");
    rc = rc ? rc : check_part(c, one, image, one->wrong_points, "keypoints that cannot be");
    rc = rc ? rc : check_part(c, one, image, leat_coco_area_fault(one), "areas that cannot be");
    rc = rc ? rc : check_part(c, one, image, leat_coco_crowd_fault(one), "values of iscrowd that cannot be");
    if (rc)
        return rc;
    one->maskless = mask;
    c->n_wrong += one->maskless;
    if (one->maskless)
        one->shape_bytes = 0;
    if (one->wrong_points)
        one->n_points = 0;
    c->has_shapes |= one->shape_bytes > 0;
    if (one->wrong_area || isnan(one->area))
        one->area = (one->box[2] - one->box[0]) * (one->box[3] - one->box[1]);
    return LEAT_OK;
}

/* Finds the sample and the class of an instance, and makes corners of its box. A mistake makes it bad; an instance of
 * an image without a photo goes with that. */
static int settle(struct leat_coco *c, struct leat_coco_instance *one)
{
    const size_t at = leat_coco_find_image(c, one->image), class = find_class(c, one->category);
    const unsigned number = one->place.number;
    char wrong[192];
    one->bad = true;
    c->a->tried += !c->semantic && (at == SIZE_MAX || c->images[at].sample != SIZE_MAX);
    if (at == SIZE_MAX)
        return leat_fault(c->a, c->error, LEAT_E_CORRUPT, "annotations whose image_id no image has",
                          "annotations[%u] (%s) has the image_id %" PRId64, number, leat_coco_where(c, one->place),
                          one->image);
    struct leat_coco_image *image = &c->images[at];
    if (image->sample == SIZE_MAX)
        return LEAT_OK;
    int rc = settle_box(c, one, image, wrong, sizeof wrong);
    if (!rc && class == SIZE_MAX)
        rc = leat_fault(c->a, c->error, LEAT_E_CORRUPT, "annotations whose category_id no category has",
                        "annotations[%u] (%s) has the category_id %" PRId64, number, leat_coco_where(c, one->place),
                        one->category);
    else if (!rc && *wrong)
        rc = leat_fault(c->a, c->error, LEAT_E_CORRUPT, "annotations with a box that cannot be",
                        "annotations[%u] (%s) %s (%s)", number, leat_coco_where(c, one->place), wrong,
                        c->names + image->name);
    if (rc)
        return rc;
    one->classed = class != SIZE_MAX;
    one->image = (int64_t)image->sample;
    one->category = (int64_t) class;
    if (!one->wrong_points && one->n_points && one->n_points != 3 * c->skeleton)
        one->wrong_points = "has another number of keypoints than its category";
    if (class == SIZE_MAX || *wrong)
        return leat_annotated_mark(c->a, image->sample, c->error);
    rc = settle_parts(c, one, image);
    one->bad = rc != LEAT_OK;
    return rc;
}

/* Says which instances have an empty mask because they have none, beside others with one. */
static void tell_maskless(struct leat_coco *c, const struct leat_coco_instance *one, uint64_t sample)
{
    const struct leat_listing *l = &c->a->photos.listing;
    if (!one->shape_bytes && !one->maskless)
        leat_annotated_tell(c->a, LEAT_TOLD_MASKLESS, "annotations[%u] (%s), of %s", one->place.number,
                            leat_coco_where(c, one->place), l->names + l->files[sample].name);
}

/* The records of each sample one after the other; `order`: the instances as the columns have them. */
static bool add_masks(struct leat_coco *c, const uint32_t *order)
{
    struct leat_annotated *a = c->a;
    const uint64_t n = a->photos.listing.n_files;
    struct leat_column *masks = leat_annotated_masks(a);
    struct leat_shape_bytes bytes = {0};
    bool good = (masks->own_first = leat_new_array(n + 1, sizeof *masks->own_first));
    masks->first = masks->own_first;
    for (uint64_t s = 0; s < n && good; s++) {
        masks->own_first[s] = bytes.n;
        good = leat_shapes_put_head(&bytes, a->first[s + 1] - a->first[s]);
        for (uint64_t i = a->first[s]; i < a->first[s + 1] && good; i++) {
            const struct leat_coco_instance *one = &c->instances[order[i]];
            tell_maskless(c, one, s);
            if (!one->shape_bytes) {
                good = leat_shapes_put_none(&bytes);
            } else if ((good = leat_grow(&bytes.data, &bytes.room, bytes.n + one->shape_bytes, 1))) {
                memcpy(bytes.data + bytes.n, c->shapes.data + one->shape, one->shape_bytes);
                bytes.n += one->shape_bytes;
            }
        }
    }
    if (good)
        masks->own_first[n] = bytes.n;
    masks->data = bytes.data;
    return good;
}

static bool add_keypoints(struct leat_coco *c, const uint32_t *order, uint64_t total)
{
    struct leat_column *keypoints =
        leat_annotated_column(c->a, "keypoints", LEAT_F32, LEAT_ROLE_KEYPOINTS, true, c->skeleton);
    keypoints->field.shape[keypoints->field.ndim++] = 3;
    keypoints->step *= 3;
    keypoints->field.pairs = keypoints->pairs = c->pairs;
    keypoints->field.n_pairs = c->n_pairs;
    c->pairs = NULL;
    float *to = leat_column_fill(keypoints, total);
    for (uint64_t i = 0; to && i < total; i++, to += 3 * c->skeleton)
        if (c->instances[order[i]].n_points)
            memcpy(to, c->points + c->instances[order[i]].points, keypoints->step);
    return to;
}

static bool add_columns(struct leat_coco *c)
{
    struct leat_annotated *a = c->a;
    const uint64_t n = a->photos.listing.n_files, total = a->first[n];
    struct leat_column *boxes = leat_annotated_column(a, "boxes", LEAT_F32, LEAT_ROLE_BOXES_XYXY, true, 4),
                       *label = leat_annotated_column(a, "label", LEAT_I64, LEAT_ROLE_NONE, true, 0),
                       *area = leat_annotated_column(a, "area", LEAT_F32, LEAT_ROLE_NONE, true, 0),
                       *crowd = leat_annotated_column(a, "iscrowd", LEAT_U8, LEAT_ROLE_NONE, true, 0),
                       *id = leat_annotated_column(a, "image_id", LEAT_I64, LEAT_ROLE_NONE, false, 0);
    float *of_boxes = leat_column_fill(boxes, total), *of_area = leat_column_fill(area, total);
    int64_t *of_label = leat_column_fill(label, total), *of_id = leat_column_fill(id, n);
    uint8_t *of_crowd = leat_column_fill(crowd, total);
    uint64_t *next = leat_new_array(n, sizeof *next);
    uint32_t *order = leat_new_array(total, sizeof *order);
    bool good = of_boxes && of_area && of_label && of_id && of_crowd && next && order;
    if (good && n)
        memcpy(next, a->first, n * sizeof *next);
    for (size_t i = 0; good && i < c->n_instances; i++) {
        const struct leat_coco_instance *one = &c->instances[i];
        if (one->bad)
            continue;
        uint64_t at = next[one->image]++;
        memcpy(of_boxes + 4 * at, one->box, sizeof one->box);
        of_label[at] = one->category;
        of_area[at] = one->area;
        of_crowd[at] = one->crowd;
        order[at] = (uint32_t)i;
    }
    for (size_t i = 0; good && i < c->n_images; i++)
        if (c->images[i].sample != SIZE_MAX)
            of_id[c->images[i].sample] = c->images[i].id;
    good = good && (!c->has_shapes || add_masks(c, order));
    good = good && (!c->semantic || leat_coco_add_semantic(c));
    good = good && (!c->skeleton || !c->n_points || add_keypoints(c, order, total));
    leat_free(next);
    leat_free(order);
    return good;
}

static int group(struct leat_coco *c)
{
    struct leat_annotated *a = c->a;
    const size_t n = a->photos.listing.n_files;
    int rc = LEAT_OK;
    if (c->skeleton > UINT32_MAX / 64) {
        leat_note(&a->notes, "the categories have different numbers of keypoints, which are no one field: left out");
        c->skeleton = 0;
        c->n_points = 0;
        for (size_t i = 0; i < c->n_instances; i++)
            c->instances[i].n_points = 0;
    }
    for (size_t i = 0; i < c->n_instances && !c->skeleton; i++)
        c->skeleton = c->instances[i].wrong_points ? 0 : c->instances[i].n_points / 3;
    if (!(a->first = leat_new_array(n + 1, sizeof *a->first)))
        return leat_coco_no_memory(c);
    for (size_t i = 0; i < c->n_faulty && !rc; i++) {
        const size_t at = leat_coco_find_image(c, c->faulty[i]);
        if (at != SIZE_MAX && c->images[at].sample != SIZE_MAX)
            rc = leat_annotated_mark(a, c->images[at].sample, c->error);
    }
    for (size_t i = 0; i < c->n_instances && !rc; i++) {
        rc = settle(c, &c->instances[i]);
        if (!rc && !c->instances[i].bad)
            a->first[c->instances[i].image + 1]++;
    }
    for (size_t i = 0; i < n; i++)
        a->first[i + 1] += a->first[i];
    if (c->n_wrong && !c->has_shapes)
        leat_note(&a->notes, "none of the masks is left, so there is no field 'masks'");
    if (!rc && c->semantic)
        rc = leat_coco_check_semantic(c);
    if (!rc && c->n_pngs)
        rc = leat_coco_read_pngs(c);
    if (!rc && c->semantic)
        rc = leat_coco_check_maskless(c);
    return rc ? rc : add_columns(c) ? LEAT_OK : leat_coco_no_memory(c);
}

static int coco_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                     struct leat_error *error)
{
    struct leat_error unused;
    struct leat_coco c = {.options = options, .error = error ? error : &unused};
    c.semantic = options->format && !strcmp(options->format, leat_format_masks.name);
    int rc = leat_annotated_new(&leat_format_coco, path, options, &c.a, c.error);
    if (!rc)
        c.a->given.role = LEAT_ROLE_BOXES_XYWH;
    rc = rc ? rc : read_file(&c);
    rc = rc ? rc : leat_coco_match_images(&c);
    rc = rc ? rc : check_categories(&c);
    rc = rc ? rc : name_classes(&c);
    rc = rc ? rc : group(&c);
    rc = rc ? rc : leat_coco_check_sizes(&c);
    for (size_t i = 0; i < c.n_categories; i++)
        leat_free(c.categories[i].name);
    leat_free(c.categories);
    leat_free(c.images);
    leat_free(c.faulty);
    leat_free(c.instances);
    leat_free(c.names);
    leat_names_destroy(&c.photos);
    leat_free(c.shapes.data);
    leat_free(c.masks.data);
    leat_free(c.pngs);
    leat_free(c.points);
    leat_free(c.pairs);
    leat_free(c.xy);
    leat_free(c.ends);
    leat_free(c.runs);
    return leat_annotated_finish(c.a, rc, options, out, c.error);
}

const struct leat_source_vtable leat_format_coco = {.name = "coco", .annotates = coco_annotates, .open = coco_open};
