/* COCO's images as samples: their photos, in the order of their ids, and how large these are. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/search.h"
#include "format/coco.h"
#include "format/nearby.h"
#include "format/photo_sizes.h"

int leat_coco_compare_ids(int64_t x, uint32_t x_number, int64_t y, uint32_t y_number)
{
    return x != y ? (x < y ? -1 : 1) : x_number < y_number ? -1 : x_number > y_number;
}

size_t leat_coco_find_id(const void *sorted, size_t n, size_t size, int64_t id)
{
#define ID(i) (*(const int64_t *)(const void *)((const char *)sorted + (i)*size))
    const size_t found = LEAT_BISECT(i, 0, n, ID(i) < id);
    return found < n && ID(found) == id ? found : SIZE_MAX;
#undef ID
}

static int compare_images(const void *a, const void *b)
{
    const struct leat_coco_image *x = a, *y = b;
    return leat_coco_compare_ids(x->id, x->place.number, y->id, y->place.number);
}

/* Tools write paths of their own machine: with the slashes of Windows, or folders that are not there. */
static const char *last_part(const char *name)
{
    const char *slash = strrchr(name, '/'), *back = strrchr(name, '\\');
    return slash || back ? (slash > back ? slash : back) + 1 : name;
}

enum looking { AS_WRITTEN, WITH_SLASHES, BY_LAST_PART, WAYS };

/* The photo of an image, in *photo. */
static enum leat_names_found look_up(const struct leat_coco *c, const char *name, enum looking way, size_t *photo)
{
    return way == WITH_SLASHES ? leat_names_find_slashed(&c->photos, name, photo)
                               : leat_names_find(&c->photos, way == BY_LAST_PART ? last_part(name) : name, photo);
}

static size_t find_photo(const struct leat_coco *c, const char *name, enum looking way)
{
    size_t photo;
    return look_up(c, name, way, &photo) == LEAT_NAMES_FOUND ? photo : SIZE_MAX;
}

/* Whether photos are found in this way. One that is not as written must find nearly all, of which some may be there in
 * another form alone, and none for two names: the photos of another split often have names of their own in the same
 * numbering. */
static bool works(const struct leat_coco *c, enum looking way, size_t *taken)
{
    size_t found = 0, photo;
    memset(taken, 0, c->a->photos.listing.n_files * sizeof *taken);
    for (size_t i = 0; i < c->n_images; i++) {
        const enum leat_names_found how = look_up(c, c->names + c->images[i].name, way, &photo);
        found += how != LEAT_NAMES_NONE;
        if (how != LEAT_NAMES_FOUND)
            continue;
        if (way == AS_WRITTEN)
            return true;
        if (taken[photo] && strcmp(c->names + c->images[taken[photo] - 1].name, c->names + c->images[i].name) != 0)
            return false;
        taken[photo] = i + 1;
    }
    return way != AS_WRITTEN && found && found * 10 >= c->n_images * 9;
}

/* Says that photos are found by the last parts of their names: of the first that is. */
static void note_last_part(struct leat_coco *c)
{
    for (size_t i = 0; i < c->n_images; i++) {
        const char *name = c->names + c->images[i].name;
        if (find_photo(c, name, BY_LAST_PART) == SIZE_MAX)
            continue;
        leat_note(&c->a->notes, "photos are found by their names without folders: %s is not in %s, and %s is", name,
                  c->a->photos.root, last_part(name));
        return;
    }
}

/* The first way that works, else AS_WRITTEN. */
static int choose_way(struct leat_coco *c, enum looking *way)
{
    size_t *taken = leat_new_array(c->a->photos.listing.n_files, sizeof *taken);
    if (!taken)
        return leat_coco_no_memory(c);
    for (*way = AS_WRITTEN; *way < WAYS && !works(c, *way, taken);)
        ++*way;
    leat_free(taken);
    if (*way == BY_LAST_PART)
        note_last_part(c);
    if (*way == WAYS)
        *way = AS_WRITTEN;
    return LEAT_OK;
}

/* As leat_names_say_forms, if a photo has the name in another form, else "". `owners` as find_photos; NULL: no photo
 * has one. */
static const char *say_forms(const struct leat_coco *c, const char *name, enum looking way, const size_t *owners,
                             char *out, size_t room)
{
    size_t photo;
    out[0] = 0;
    if (look_up(c, name, way, &photo) == LEAT_NAMES_OTHER_FORM)
        leat_names_say_forms(way == BY_LAST_PART ? last_part(name) : name, leat_names_at(&c->photos, photo),
                             owners && owners[photo], out, room);
    return out;
}

static bool is_spelled_so(const char *a, const char *b)
{
    if (!strcmp(a, b))
        return true;
    char one[LEAT_NAME_BYTES], other[LEAT_NAME_BYTES];
    leat_name_clean(a, one); /* what was found is short enough */
    leat_name_clean(b, other);
    return !strcmp(one, other);
}

/* Finds the photo of each image, as its `sample` for now. *owners has, for each photo, 1 + the name of the image that
 * owns it. Names that differ in the case of their extensions find one photo: it is that of the image which spells it as
 * it is, else of the first. */
static int find_photos(struct leat_coco *c, enum looking way, size_t **owners)
{
    if (!(*owners = leat_new_array(c->photos.n, sizeof **owners)))
        return leat_coco_no_memory(c);
    for (size_t i = 0; i < c->n_images; i++) {
        const char *name = c->names + c->images[i].name;
        const size_t photo = c->images[i].sample = find_photo(c, name, way);
        if (photo != SIZE_MAX && (!(*owners)[photo] || is_spelled_so(name, leat_names_at(&c->photos, photo))))
            (*owners)[photo] = 1 + c->images[i].name;
    }
    return LEAT_OK;
}

/* A sample for an image: with its photo, or where LEAT_BAD_MARK keeps it without one. */
static int add_sample(struct leat_coco *c, struct leat_coco_image *image, enum looking way, const size_t *owners,
                      struct leat_listing_file *files, size_t *n)
{
    struct leat_listing *l = &c->a->photos.listing;
    const char *name = c->names + image->name;
    const size_t photo = image->sample, length = strlen(name);
    char forms[1200];
    image->sample = SIZE_MAX;
    if (photo != SIZE_MAX && is_spelled_so(c->names + owners[photo] - 1, name)) {
        files[image->sample = (*n)++] = l->files[photo];
        return LEAT_OK;
    }
    if (photo != SIZE_MAX)
        snprintf(forms, sizeof forms, "; %s is, and is another image's", leat_names_at(&c->photos, photo));
    else
        say_forms(c, name, way, owners, forms, sizeof forms);
    const char *where = leat_coco_where(c, image->place), *root = c->a->photos.root;
    const char *why = leat_listing_why_not(root, name);
    int rc = why ? leat_fault(c->a, c->error, LEAT_E_NOT_FOUND, "images in files that are no photos by their names",
                              "%s of images[%u] (%s) is in %s, but %s", name, image->place.number, where, root, why)
                 : leat_fault(c->a, c->error, LEAT_E_NOT_FOUND, "images whose photo is not in the folder",
                              "%s of images[%u] (%s) is not in %s%s", name, image->place.number, where, root, forms);
    if (rc || c->a->on_bad != LEAT_BAD_MARK)
        return rc;
    if (!leat_grow(&l->names, &l->names_room, l->names_bytes + length + 1, 1))
        return leat_coco_no_memory(c);
    memcpy(l->names + l->names_bytes, name, length + 1);
    files[image->sample = (*n)++] = (struct leat_listing_file){.name = l->names_bytes,
                                                               .mtime_ns = LEAT_LISTING_ABSENT,
                                                               .name_length = (uint32_t)length,
                                                               .folder = LEAT_LISTING_ROOT};
    l->names_bytes += length + 1;
    return leat_annotated_mark(c->a, image->sample, c->error);
}

/* The photo that has another extension than `name`, or NULL. */
static const char *find_stem(const struct leat_listing *l, const char *name)
{
    const char *dot = strrchr(name, '.');
    const size_t n = dot ? (size_t)(dot + 1 - name) : 0;
    for (size_t i = 0; n && i < l->n_files; i++) {
        const char *listed = l->names + l->files[i].name;
        if (!strncmp(listed, name, n) && !strchr(listed + n, '.') && !strchr(listed + n, '/'))
            return listed;
    }
    return NULL;
}

/* None of the photos is there: probably another folder is meant. */
static int say_none(struct leat_coco *c, size_t n)
{
    const struct leat_photo_files *photos = &c->a->photos;
    const char *first = c->names + c->images[0].name, *why = leat_listing_why_not(photos->root, first);
    char other[1024], forms[1200] = "";
    for (enum looking way = AS_WRITTEN; way < WAYS && !*forms; way++)
        say_forms(c, first, way, NULL, forms, sizeof forms);
    if (*forms)
        return leat_fail_at(c->error, LEAT_E_NOT_FOUND, photos->root, LEAT_NO_OFFSET,
                            "none of the %zu photos that %s names is in %s: the first is %s%s", n, c->a->path,
                            photos->root, first, forms);
    const bool found = !why && (leat_nearby_listed(&photos->listing, photos->root, first, other, sizeof other) ||
                                leat_nearby_folder(photos->root, first, other, sizeof other));
    const char *stem = found || why ? NULL : find_stem(&photos->listing, first);
    if (why)
        return leat_fail_at(c->error, LEAT_E_NOT_FOUND, photos->root, LEAT_NO_OFFSET,
                            "none of the %zu photos that %s names is listed in %s: the first, %s, is there, but %s", n,
                            c->a->path, photos->root, first, why);
    if (stem)
        return leat_fail_at(c->error, LEAT_E_NOT_FOUND, photos->root, LEAT_NO_OFFSET,
                            "none of the %zu photos that %s names is in %s: the first is %s, and there is %s, with "
                            "another extension: correct the file_name of the images",
                            n, c->a->path, photos->root, first, stem);
    return leat_fail_at(
        c->error, LEAT_E_NOT_FOUND, photos->root, LEAT_NO_OFFSET,
        "none of the %zu photos that %s names is in %s: the first is %s, looked for below that folder; %s%s%s", n,
        c->a->path, photos->root, first, found ? "did you mean " : "name another one", found ? other : "",
        found ? "?" : "");
}

/* Sorts the images by their ids, and makes samples of them. */
int leat_coco_match_images(struct leat_coco *c)
{
    struct leat_listing *l = &c->a->photos.listing;
    struct leat_listing_file *files = leat_new_array(c->n_images, sizeof *files);
    size_t unique = 0, n = 0;
    enum looking way = AS_WRITTEN;
    int rc = files && leat_names_add_listing(&c->photos, l) ? choose_way(c, &way) : leat_coco_no_memory(c);
    size_t *owners = NULL;
    rc = rc ? rc : find_photos(c, way, &owners);
    if (c->n_images)
        qsort(c->images, c->n_images, sizeof *c->images, compare_images);
    for (size_t i = 0; i < c->n_images && !rc; i++) {
        struct leat_coco_image *image = &c->images[i];
        if (unique && c->images[unique - 1].id == image->id) {
            rc = leat_fault(c->a, c->error, LEAT_E_CORRUPT, "images whose id another image has",
                            "images[%u] (%s), %s, has the id %" PRId64 " of images[%u]", image->place.number,
                            leat_coco_where(c, image->place), c->names + image->name, image->id,
                            c->images[unique - 1].place.number);
        } else if (!(rc = add_sample(c, image, way, owners, files, &n))) {
            c->images[unique++] = *image;
        }
    }
    leat_free(owners);
    if (!rc && unique && n == c->a->n_marked)
        rc = say_none(c, unique);
    if (rc) {
        leat_free(files);
        return rc;
    }
    c->n_images = unique;
    leat_free(l->files);
    l->files = files;
    l->n_files = l->files_room = n;
    return LEAT_OK;
}

size_t leat_coco_find_image(const struct leat_coco *c, int64_t id)
{
    return leat_coco_find_id(c->images, c->n_images, sizeof *c->images, id);
}

int leat_coco_find_size(struct leat_coco *c, struct leat_coco_image *image)
{
    static const float pixel[4] = {0, 0, 1, 1};
    double w = image->w, h = image->h;
    return leat_photo_sizes_find(c->a, image->sample, pixel, &image->photo, &w, &h, c->error);
}

static void where_is(const struct leat_annotated *a, uint64_t sample, const struct leat_said_size *said, char *out,
                     size_t room)
{
    snprintf(out, room, "images[%" PRIu32 "] (line %" PRIu32 ", byte %" PRIu64 ")", said->number, said->line,
             said->byte);
}

int leat_coco_check_sizes(struct leat_coco *c)
{
    struct leat_said_size *said = leat_new_array(c->a->photos.listing.n_files, sizeof *said);
    if (!said)
        return leat_coco_no_memory(c);
    for (size_t i = 0; i < c->n_images; i++) {
        const struct leat_coco_image *image = &c->images[i];
        if (image->sample != SIZE_MAX)
            said[image->sample] = (struct leat_said_size){.width = isfinite(image->w) ? (uint32_t)image->w : 0,
                                                          .height = isfinite(image->h) ? (uint32_t)image->h : 0,
                                                          .number = image->place.number,
                                                          .line = image->place.line,
                                                          .byte = image->place.byte,
                                                          .exceeded = image->exceeded};
    }
    const int rc = leat_photo_sizes_check(c->a, said, where_is, c->error);
    leat_free(said);
    return rc;
}
