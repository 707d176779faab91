/*
 * Semantic masks: a folder of PNGs beside the photos, a PNG of class ids for each photo, of its name:
 *
 *     images/a/1.jpg  goes with  masks/a/1.png
 *
 * The PNGs stay files, as the photos are: opening reads the headers of both, which say whether a mask is one, and is as
 * large as its photo. Photos without a mask are faults. A panoptic file in the place of the folder is COCO's (coco.c).
 */
#include "format/masks.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/nearby.h"
#include "format/photo_sizes.h"
#include "format/sidecars.h"

enum { HEAD = 1 << 16, IHDR = 26 };

static bool masks_annotates(const char *path, bool folder, const uint8_t *head, size_t n)
{
    return folder && leat_sidecars_in(path, ".png", NULL);
}

static uint32_t get_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

const char *leat_mask_fault(const uint8_t *head, size_t n, uint32_t *w, uint32_t *h)
{
    enum { GRAY = 0, PALETTE = 3 };
    if (n < IHDR || memcmp(head, "\x89PNG\r\n\x1a\n", 8) != 0 || memcmp(head + 12, "IHDR", 4) != 0)
        return "is no PNG";
    *w = get_be32(head + 16);
    *h = get_be32(head + 20);
    if (head[25] != GRAY && head[25] != PALETTE)
        return "has colours: a mask of class ids is gray, or has a palette";
    return head[24] > 8 ? "has 16 bits: a mask of class ids has 8 at most" : NULL;
}

struct masks {
    struct leat_annotated *a;
    uint8_t *head;
    struct leat_names names;    /* of the masks */
    char name[LEAT_NAME_BYTES]; /* of a mask that is looked for */
    bool *used;                 /* of each mask */
    char forms[1200];           /* the first photo whose mask has its name in another form of Unicode, in words */
    uint64_t found, wrong;
    char first[640]; /* what is wrong with the first that cannot be */
    char sizes[96];  /* of a mask that is not as large as its photo */
    struct leat_error *error;
};

/* Puts the fault in the mask of a photo into *wrong; NULL: none. A photo whose header cannot be read will be broken
 * itself. NOMEM. */
static int compare(struct masks *m, uint64_t photo, uint64_t mask, const char **wrong)
{
    struct leat_photo_size size = {0};
    double none = (double)INFINITY, other = none;
    uint32_t w, h;
    size_t n;
    n = leat_photo_files_head(m->a->beside, mask, m->head, IHDR);
    *wrong = leat_mask_fault(m->head, n, &w, &h);
    if (*wrong || !leat_photo_sizes_look(m->a, photo, m->head, HEAD, &size) ||
        leat_photo_sizes_agree(&size, none, none, w, h))
        return LEAT_OK;
    if (size.width == h && size.height == w) { /* that EXIF turns it may stand at the end of its file */
        const float whole[4] = {0, 0, (float)w, (float)h};
        const int rc = leat_photo_sizes_find(m->a, photo, whole, &size, &none, &other, m->error);
        if (rc || size.turned)
            return rc;
    }
    snprintf(m->sizes, sizeof m->sizes,
             "is not as large as its photo: %" PRIu32 " x %" PRIu32 ", not %" PRIu32 " x %" PRIu32, w, h, size.width,
             size.height);
    *wrong = m->sizes;
    return LEAT_OK;
}

/* The mask of a photo: its index in the listing, or SIZE_MAX. `other`: that of its name in another form, or SIZE_MAX.
 */
static size_t find_mask(struct masks *m, uint64_t photo, size_t *other)
{
    const struct leat_listing *l = &m->a->photos.listing;
    size_t mask;
    *other = SIZE_MAX;
    if (!leat_name_with(l->names + l->files[photo].name, ".png", m->name))
        return SIZE_MAX;
    const enum leat_names_found found = leat_names_find(&m->names, m->name, &mask);
    *other = found == LEAT_NAMES_OTHER_FORM ? mask : SIZE_MAX;
    return found == LEAT_NAMES_FOUND ? mask : SIZE_MAX;
}

/* Finds the masks of all photos, in *of. NOMEM. */
static int find_masks(struct masks *m, size_t **of)
{
    const size_t n = m->a->photos.listing.n_files;
    size_t other;
    if (!(*of = leat_new_array(n, sizeof **of)))
        return LEAT_E_NOMEM;
    for (size_t i = 0; i < n; i++)
        if (((*of)[i] = find_mask(m, i, &other)) != SIZE_MAX) {
            m->used[(*of)[i]] = true;
            m->found++;
        }
    return LEAT_OK;
}

/* The mask that was looked for last, and is not there. */
static bool add_absent(struct masks *m, struct leat_listing_file *file)
{
    struct leat_listing *l = &m->a->beside->listing;
    const size_t length = strlen(m->name);
    if (!leat_grow(&l->names, &l->names_room, l->names_bytes + length + 1, 1))
        return false;
    memcpy(l->names + l->names_bytes, m->name, length + 1);
    *file = (struct leat_listing_file){.name = l->names_bytes,
                                       .mtime_ns = LEAT_LISTING_ABSENT,
                                       .name_length = (uint32_t)length,
                                       .folder = LEAT_LISTING_ROOT};
    l->names_bytes += length + 1;
    return true;
}

static bool is_part(char before, char behind)
{
    return !isalnum((unsigned char)before) && !isalnum((unsigned char)behind);
}

/* The mask in whose name that of a photo is a part: 1_mask.png of 1.jpg. Or NULL. */
static const char *find_longer(const struct leat_listing *masks, const char *photo)
{
    const char *slash = strrchr(photo, '/'), *stem = slash ? slash + 1 : photo;
    char word[256];
    const int n = snprintf(word, sizeof word, "%.*s", (int)(strrchr(stem, '.') - stem), stem);
    for (size_t i = 0; n > 0 && n < (int)sizeof word && i < masks->n_files; i++) {
        const char *name = masks->names + masks->files[i].name, *base = strrchr(name, '/');
        base = base ? base + 1 : name;
        for (const char *at = base; (at = strstr(at, word)); at++)
            if (is_part(at > base ? at[-1] : 0, at[n]) && !strcasecmp(strrchr(base, '.'), ".png"))
                return name;
    }
    return NULL;
}

/* The mask that has the name of a photo, and another extension than a PNG. Or NULL. */
static const char *find_other(const struct leat_listing *masks, const char *photo)
{
    const size_t stem = (size_t)(strrchr(photo, '.') + 1 - photo);
    for (size_t i = 0; i < masks->n_files; i++) {
        const char *name = masks->names + masks->files[i].name;
        if (!strncmp(name, photo, stem) && strrchr(name, '.') + 1 == name + stem)
            return name;
    }
    return NULL;
}

/* Photos and masks go by the same names below their folders: one of these may be named a level too high. */
static int say_none(struct masks *m)
{
    const struct leat_annotated *a = m->a;
    if (*m->forms)
        return leat_fail_at(m->error, LEAT_E_NOT_FOUND, a->path, LEAT_NO_OFFSET,
                            "no photo of %s has a PNG of its name in %s%s", a->photos.root, a->path, m->forms);
    const struct leat_listing *photos = &a->photos.listing, *masks = &a->beside->listing;
    const char *photo = photos->names + photos->files[0].name, *mask = masks->n_files ? masks->names : "", *found;
    char name[1024], other[1024], hint[2400] = "name another folder";
    if (*mask)
        mask += masks->files[0].name;
    if (snprintf(name, sizeof name, "%.*s.", (int)(strrchr(photo, '.') - photo), photo) < (int)sizeof name &&
        leat_nearby_listed(masks, a->path, name, other, sizeof other))
        snprintf(hint, sizeof hint, "did you mean the masks in %s?", other);
    else if (*mask && snprintf(name, sizeof name, "%.*s.", (int)(strrchr(mask, '.') - mask), mask) < (int)sizeof name &&
             leat_nearby_listed(photos, a->photos.root, name, other, sizeof other))
        snprintf(hint, sizeof hint, "did you mean the photos in %s?", other);
    else if ((found = find_other(masks, photo)))
        snprintf(hint, sizeof hint, "%s has the name of %s, but masks of class ids are PNGs: convert them", found,
                 photo);
    else if ((found = find_longer(masks, photo)))
        snprintf(hint, sizeof hint,
                 "%s has a name that is longer than that of %s; rename the masks to those of the photos", found, photo);
    else if (leat_nearby_json(a->path, a->photos.root, other, sizeof other))
        snprintf(hint, sizeof hint, "did you mean %s?", other);
    return leat_fail_at(m->error, LEAT_E_NOT_FOUND, a->path, LEAT_NO_OFFSET,
                        "no photo of %s has a PNG of its name in %s: %s", a->photos.root, a->path, hint);
}

/* A PNG that is no photo's mask. */
static int say_unused(struct masks *m, size_t i)
{
    const char *name = leat_names_at(&m->names, i);
    char wanted[LEAT_NAME_BYTES];
    size_t other = i;
    if (!leat_name_ends_in(name, ".png") || !leat_name_with(name, ".png", wanted))
        return LEAT_OK;
    if (leat_names_find(&m->names, wanted, &other) == LEAT_NAMES_FOUND && other != i && m->used[other])
        return leat_fault(m->a, m->error, LEAT_E_CORRUPT, "masks of photos that have another one",
                          "%s is not read: %s, which differs in the case of its extension, is", name,
                          leat_names_at(&m->names, other));
    return leat_fault(m->a, m->error, LEAT_E_NOT_FOUND, "masks whose photo is not in the folder",
                      "%s has no photo in %s", name, m->a->photos.root);
}

/* Says that a photo has no mask: m->name. */
static int say_absent(struct masks *m, uint64_t photo)
{
    const struct leat_listing *l = &m->a->photos.listing;
    const char *name = l->names + l->files[photo].name;
    char forms[sizeof m->forms] = "";
    size_t other;
    find_mask(m, photo, &other);
    if (other != SIZE_MAX)
        leat_names_say_forms(name, leat_names_at(&m->names, other), m->used[other], forms, sizeof forms);
    if (!*m->forms)
        strcpy(m->forms, forms);
    return leat_fault(m->a, m->error, LEAT_E_NOT_FOUND, "photos without a mask", "%s has no %s in %s%s", name, m->name,
                      m->a->path, forms);
}

/* The mask of a photo, in *file; *good: it is there, and may be one. Else a fault. */
static int take_mask(struct masks *m, uint64_t photo, size_t mask, struct leat_listing_file *file, bool *good)
{
    struct leat_annotated *a = m->a;
    const struct leat_listing *masks = &a->beside->listing;
    const char *wrong = NULL;
    *good = false;
    if (mask == SIZE_MAX)
        return say_absent(m, photo);
    *file = masks->files[mask];
    const int rc = compare(m, photo, mask, &wrong);
    *good = !wrong;
    if (rc || !wrong)
        return rc;
    const char *name = masks->names + file->name;
    if (!m->wrong++)
        snprintf(m->first, sizeof m->first, "%s/%s %s", a->path, name, wrong);
    return leat_fault(a, m->error, LEAT_E_CORRUPT, "masks that cannot be", "%s/%s %s", a->path, name, wrong);
}

/* Brings the masks into the order of the photos, and leaves out photos without one. */
static int match(struct masks *m)
{
    struct leat_annotated *a = m->a;
    struct leat_listing *photos = &a->photos.listing, *masks = &a->beside->listing;
    struct leat_listing_file *files = leat_new_array(photos->n_files, sizeof *files);
    size_t n = 0, *of = NULL;
    int rc = files ? find_masks(m, &of) : LEAT_E_NOMEM;
    for (size_t i = 0; i < photos->n_files && !rc; i++) {
        bool good = false;
        if ((rc = leat_annotated_ask(a, i, photos->n_files, m->error)) ||
            (rc = take_mask(m, i, of[i], &files[n], &good)) || (!good && a->on_bad != LEAT_BAD_MARK))
            continue;
        if (of[i] == SIZE_MAX && !add_absent(m, &files[n]))
            rc = LEAT_E_NOMEM;
        else if (!good)
            rc = leat_annotated_mark(a, n, m->error);
        photos->files[n++] = photos->files[i];
    }
    leat_free(of);
    if (rc == LEAT_E_NOMEM)
        leat_fail(m->error, rc, "no memory to open %s", a->path);
    if (rc) {
        leat_free(files);
        return rc;
    }
    if (photos->n_files && !m->found) {
        leat_free(files);
        return say_none(m);
    }
    if (m->found && m->wrong == m->found) {
        leat_free(files);
        return leat_fail_at(m->error, LEAT_E_CORRUPT, a->path, LEAT_NO_OFFSET,
                            "none of the %" PRIu64 " masks goes with its photo: %s%s", m->found, m->first,
                            m->found > 1 ? "; ..." : "");
    }
    for (size_t i = 0; i < masks->n_files && !rc; i++)
        if (!m->used[i])
            rc = say_unused(m, i);
    photos->n_files = n;
    leat_free(masks->files);
    masks->files = files;
    masks->n_files = masks->files_room = n;
    return rc;
}

static int masks_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                      struct leat_error *error)
{
    const char *said = options->annotations;
    struct stat st;
    if (said && !stat(said, &st) && S_ISREG(st.st_mode)) {
        if (options->n_classes)
            return leat_fail(error, LEAT_E_INVALID, "a panoptic file has names for its classes: leave classes out");
        return leat_format_coco.open(path, options, out, error);
    }
    struct leat_error unused;
    struct masks m = {.error = error ? error : &unused};
    struct leat_open_options beside = *options;
    int rc = leat_annotated_new(&leat_format_masks, path, options, &m.a, m.error);
    beside.index_dir = NULL;
    if (!rc && (!(m.a->beside = leat_new(struct leat_photo_files)) || !(m.head = leat_alloc(HEAD))))
        rc = leat_fail(m.error, LEAT_E_NOMEM, "no memory to open %s", path);
    rc = rc ? rc : leat_photo_files_scan(m.a->beside, m.a->path, &beside, m.error);
    if (!rc)
        m.a->beside->are_masks = true;
    rc = rc ? rc : leat_annotated_classes(m.a, options, m.error);
    if (!rc && (!(m.used = leat_new_array(m.a->beside->listing.n_files, sizeof *m.used)) ||
                !leat_names_add_listing(&m.names, &m.a->beside->listing)))
        rc = leat_fail(m.error, LEAT_E_NOMEM, "no memory to open %s", path);
    rc = rc ? rc : match(&m);
    rc = rc ? rc : leat_photo_files_ready(m.a->beside, &beside, m.error);
    leat_free(m.head);
    leat_names_destroy(&m.names);
    leat_free(m.used);
    return leat_annotated_finish(m.a, rc, options, out, m.error);
}

const struct leat_source_vtable leat_format_masks = {
    .name = "masks", .annotates = masks_annotates, .takes_classes = true, .open = masks_open};
