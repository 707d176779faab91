/*
 * The masks of a panoptic file: beside FILE.json a folder FILE with a PNG for each image, whose pixels are the numbers
 * of segments, R + 256 G + 65536 B. Each PNG is decoded once, when the data set is opened, and each segment becomes
 * runs: a pixel, column by column, lengthens the run of its segment or begins one.
 *
 *     pixels   7 7 0 9 9 9 7    runs of 7: 0 2 4 1    of 9: 3 3 1
 *
 * If masks of class ids are asked for, one is made of the same pixels, as a PNG again (codec/ids_png.h).
 *
 * Threads decode and trace; the one that opens takes their runs in the order of the file, so that masks and faults are
 * the same with any number of threads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/search.h"
#include "base/thread.h"
#include "codec/ids_png.h"
#include "codec/image.h"
#include "format/coco.h"
#include "io/interrupt.h"

/* PNGs that are decoded before the first of them is taken: WINDOW at most. */
enum { LONGEST = 64 << 20, WINDOW = 64, MOST_THREADS = 16 };

struct segment {
    uint32_t id;
    size_t instance;
    uint8_t class; /* where masks of class ids are made */
    uint32_t *runs;
    size_t n, room;
    uint64_t end; /* the pixel behind its last run */
};

/* A PNG that was traced. */
struct traced {
    bool done;
    int rc; /* NOMEM */
    struct segment *segments;
    size_t n, room;
    uint32_t w, h;
    struct leat_shape_bytes mask; /* of class ids, if asked for */
    const char *wrong;            /* NULL: nothing */
    struct leat_error error;      /* why */
};

/* Shared by all threads. */
struct folder {
    struct leat_coco *c;
    char *path;              /* with a slash behind it */
    struct leat_names names; /* of the pictures in it */
    pthread_mutex_t lock;
    pthread_cond_t traced, taken;
    size_t next, n_taken; /* the PNG that a thread traces next; how many were taken */
    bool stop;
    struct traced window[WINDOW]; /* of PNG i: i % WINDOW */
};

/* Kept by a thread from one PNG to the next. */
struct reading {
    const struct folder *folder;
    struct traced *to;
    struct leat_decoder *decoder;
    char *path;
    uint8_t *bytes;
    uint32_t *ids;    /* [h][w] */
    uint8_t *classes; /* [h][w], if asked for */
    size_t path_room, bytes_room, ids_room, classes_room;
};

static const char *name_of(const struct leat_coco *c, const struct leat_coco_png *png)
{
    return png->name == SIZE_MAX ? "the file_name" : c->names + png->name;
}

static bool is_below(const char *name)
{
    return name[0] != '/' && strcmp(name, "..") != 0 && strncmp(name, "../", 3) != 0 && !strstr(name, "/../");
}

/* The name in the folder that is meant by one of a PNG, which may have the slashes of Windows. */
static enum leat_names_found find_png(const struct folder *f, const char *name, size_t *number)
{
    size_t slashed;
    const enum leat_names_found found = leat_names_find(&f->names, name, number),
                                other = found == LEAT_NAMES_FOUND ? LEAT_NAMES_NONE
                                                                  : leat_names_find_slashed(&f->names, name, &slashed);
    if (!other)
        return found;
    *number = slashed;
    return other;
}

/* The pixels of the PNG; what is wrong with it is `wrong`. NOMEM. */
static int decode(struct reading *r, const char *name, const struct leat_coco_image *image)
{
    struct traced *t = r->to;
    struct leat_io_file *file;
    const size_t begin = strlen(r->folder->path);
    size_t there;
    if (!is_below(name)) {
        t->wrong = "is not below that folder";
        return LEAT_OK;
    }
    if (find_png(r->folder, name, &there) == LEAT_NAMES_FOUND)
        name = leat_names_at(&r->folder->names, there);
    const size_t name_bytes = strlen(name) + 1;
    if (!leat_grow(&r->path, &r->path_room, begin + name_bytes, 1))
        return LEAT_E_NOMEM;
    memcpy(r->path, r->folder->path, begin);
    memcpy(r->path + begin, name, name_bytes);
    int rc = leat_io_open(r->path, &file, &t->error);
    if (rc) {
        t->wrong = rc == LEAT_E_NOT_FOUND ? "is not there" : "cannot be opened";
        return LEAT_OK;
    }
    const size_t length = (size_t)file->size;
    if (length > LONGEST)
        t->wrong = "has more than 64 MiB";
    else if (!leat_grow(&r->bytes, &r->bytes_room, length + 1, 1))
        rc = LEAT_E_NOMEM;
    else if (leat_io_read(file, 0, length, r->bytes, &t->error))
        t->wrong = "cannot be read";
    leat_io_release(file);
    if (rc || t->wrong)
        return rc;
    const struct leat_decode_request request = {.data = r->bytes, .length = length};
    if ((rc = leat_image_open(r->decoder, &request, &t->w, &t->h, &t->error))) {
        t->wrong = t->error.message;
        return rc == LEAT_E_NOMEM ? rc : LEAT_OK;
    }
    if (!leat_photo_sizes_agree(&image->photo, image->w, image->h, t->w, t->h))
        t->wrong = "is not as large as its image";
    else if (!leat_grow(&r->ids, &r->ids_room, (size_t)t->w * t->h, sizeof *r->ids) ||
             (r->folder->c->semantic && !leat_grow(&r->classes, &r->classes_room, (size_t)t->w * t->h, 1)))
        rc = LEAT_E_NOMEM;
    else
        rc = leat_decoder_begin(r->decoder, 1, 0, 0, t->w, t->h, &t->error);
    for (uint32_t y = 0; y < t->h && !rc && !t->wrong; y++) {
        const uint8_t *row;
        rc = leat_decoder_row(r->decoder, &row, &t->error);
        for (uint32_t x = 0; x < t->w && !rc; x++)
            r->ids[(size_t)y * t->w + x] = row[4 * x] | (uint32_t)row[4 * x + 1] << 8 | (uint32_t)row[4 * x + 2] << 16;
    }
    leat_decoder_end(r->decoder, NULL);
    if (rc && rc != LEAT_E_NOMEM) {
        t->wrong = t->error.message;
        rc = LEAT_OK;
    }
    return rc;
}

static int compare_segments(const void *a, const void *b)
{
    const struct segment *x = a, *y = b;
    return x->id != y->id ? (x->id < y->id ? -1 : 1) : x->instance < y->instance ? -1 : x->instance > y->instance;
}

static bool push(struct segment *s, uint64_t run)
{
    if (!leat_grow(&s->runs, &s->room, s->n + 1, sizeof *s->runs))
        return false;
    s->runs[s->n++] = (uint32_t)run; /* an image has fewer than 2^31 pixels */
    return true;
}

static bool lengthen(struct segment *s, uint64_t pixel)
{
    if (s->n && s->end == pixel)
        s->runs[s->n - 1]++;
    else if (!push(s, pixel - s->end) || !push(s, 1))
        return false;
    s->end = pixel + 1;
    return true;
}

/* The first segment of this number; NULL: there is none. */
static struct segment *find_segment(const struct traced *t, uint32_t id)
{
    const size_t found = LEAT_BISECT(i, 0, t->n, t->segments[i].id < id);
    return found < t->n && t->segments[found].id == id ? &t->segments[found] : NULL;
}

/* The runs of all segments, and unless `classes` is NULL the class of each pixel. Two of one number are the first. */
static bool trace(struct traced *t, const uint32_t *ids, uint8_t *classes)
{
    struct segment *last = NULL;
    uint32_t id = 0; /* which is no segment's */
    uint64_t pixel = 0;
    bool known = false, good = true;
    qsort(t->segments, t->n, sizeof *t->segments, compare_segments);
    for (uint32_t x = 0; x < t->w && good; x++)
        for (uint32_t y = 0; y < t->h && good; y++, pixel++) {
            const uint32_t here = ids[(size_t)y * t->w + x];
            if (!known || here != id)
                last = find_segment(t, here);
            known = true;
            id = here;
            good = !last || lengthen(last, pixel);
            if (classes)
                classes[(size_t)y * t->w + x] = last ? last->class : LEAT_COCO_IGNORED;
        }
    for (size_t i = 0; i < t->n && good; i++)
        if (t->segments[i].n && t->segments[i].end < pixel)
            good = push(&t->segments[i], pixel - t->segments[i].end);
    return good;
}

/* The image of a PNG; NULL: it has none, or its photo is missing. */
static struct leat_coco_image *image_of(const struct leat_coco *c, const struct leat_coco_png *png)
{
    const size_t image = leat_coco_find_image(c, png->image);
    return image != SIZE_MAX && c->images[image].sample != SIZE_MAX ? &c->images[image] : NULL;
}

static int trace_png(struct reading *r, const struct leat_coco_png *png)
{
    const struct leat_coco *c = r->folder->c;
    const struct leat_coco_image *image = image_of(c, png);
    struct traced *t = r->to;
    for (size_t i = png->begin; image && i < png->end; i++) {
        const struct leat_coco_instance *one = &c->instances[i];
        if (one->bad && !(c->semantic && one->classed))
            continue;
        if (!leat_grow(&t->segments, &t->room, t->n + 1, sizeof *t->segments))
            return LEAT_E_NOMEM;
        t->segments[t->n++] = (struct segment){.id = one->segment, .instance = i, .class = (uint8_t)one->category};
    }
    if (!image || !(t->n || c->semantic))
        return LEAT_OK;
    if (png->name == SIZE_MAX) {
        t->wrong = "is no text";
        return LEAT_OK;
    }
    int rc = decode(r, c->names + png->name, image);
    if (!rc && !t->wrong && !trace(t, r->ids, c->semantic ? r->classes : NULL))
        rc = LEAT_E_NOMEM;
    if (!rc && !t->wrong && c->semantic && !leat_ids_png(&t->mask, r->classes, t->w, t->h))
        rc = LEAT_E_NOMEM;
    return rc;
}

/* A thread: PNG after PNG, none of them more than WINDOW ahead of those that were taken. */
static void *trace_pngs(void *argument)
{
    struct folder *f = argument;
    struct reading r = {.folder = f, .decoder = leat_decoder_new(leat_codec_of(LEAT_KIND_IMAGE))};
    pthread_mutex_lock(&f->lock);
    while (!f->stop && f->next < f->c->n_pngs) {
        if (f->next == f->n_taken + WINDOW) {
            pthread_cond_wait(&f->taken, &f->lock);
            continue;
        }
        const struct leat_coco_png *png = &f->c->pngs[f->next];
        r.to = &f->window[f->next++ % WINDOW];
        pthread_mutex_unlock(&f->lock);
        r.to->rc = r.decoder ? trace_png(&r, png) : LEAT_E_NOMEM;
        pthread_mutex_lock(&f->lock);
        r.to->done = true;
        pthread_cond_signal(&f->traced);
    }
    pthread_mutex_unlock(&f->lock);
    leat_decoder_free(r.decoder);
    leat_free(r.path);
    leat_free(r.bytes);
    leat_free(r.ids);
    leat_free(r.classes);
    return NULL;
}

static void clear(struct traced *t)
{
    for (size_t i = 0; i < t->n; i++)
        leat_free(t->segments[i].runs);
    leat_free(t->segments);
    leat_free(t->mask.data);
    *t = (struct traced){0};
}

static int add_records(struct folder *f, const struct traced *t, const struct leat_coco_png *png)
{
    struct leat_coco *c = f->c;
    struct leat_coco_image *image = image_of(c, png);
    int rc = t->rc;
    if (image)
        image->has_png = true;
    if (!rc && t->wrong) {
        size_t other;
        char forms[1200] = "";
        if (png->name != SIZE_MAX && find_png(f, c->names + png->name, &other) == LEAT_NAMES_OTHER_FORM)
            leat_names_say_forms(c->names + png->name, leat_names_at(&f->names, other), false, forms, sizeof forms);
        rc = leat_fault(c->a, c->error, LEAT_E_CORRUPT, "PNGs of segments that cannot be",
                        "%s of annotations[%u] (%s), looked for in %.*s, %s%s", name_of(c, png), png->place.number,
                        leat_coco_where(c, png->place), (int)strlen(f->path) - 1, f->path, t->wrong, forms);
        for (size_t i = png->begin; i < png->end; i++)
            c->instances[i].maskless = true;
        return rc ? rc : leat_annotated_mark(c->a, image->sample, c->error);
    }
    if (!rc && t->mask.n)
        rc = leat_coco_keep_semantic(c, image, png->place, &t->mask);
    for (size_t i = 0; i < t->n && !rc; i++) {
        const struct segment *s = &t->segments[i];
        struct leat_coco_instance *one = &c->instances[s->instance];
        if (one->bad)
            continue;
        if (!s->n) {
            char number[48];
            if (s->id == LEAT_COCO_NO_SEGMENT)
                snprintf(number, sizeof number, "without an id of 1 to 2^24 - 1");
            else
                snprintf(number, sizeof number, "%u", s->id);
            one->maskless = true;
            rc = leat_fault(c->a, c->error, LEAT_E_CORRUPT, "segments that their PNG does not have",
                            "the segment %s of annotations[%u] (%s) has no pixel in %s%s", number, one->place.number,
                            leat_coco_where(c, one->place), f->path, c->names + png->name);
            rc = rc ? rc : leat_annotated_mark(c->a, image->sample, c->error);
            continue;
        }
        one->shape = c->shapes.n;
        if (!leat_shapes_put_runs(&c->shapes, t->h, t->w, s->runs, s->n))
            return LEAT_E_NOMEM;
        one->shape_bytes = (uint32_t)(c->shapes.n - one->shape);
    }
    return rc;
}

static int ask(const struct folder *f)
{
    return leat_annotated_ask(f->c->a, f->n_taken, f->c->n_pngs, f->c->error);
}

/* Waits for a PNG. CANCELLED. */
static int wait_for(struct folder *f, const struct traced *t)
{
    int rc = ask(f);
    pthread_mutex_lock(&f->lock);
    while (!t->done && !rc) {
        leat_io_wait_slice(&f->traced, &f->lock);
        pthread_mutex_unlock(&f->lock);
        rc = ask(f);
        pthread_mutex_lock(&f->lock);
    }
    pthread_mutex_unlock(&f->lock);
    return rc;
}

static int read_all(struct folder *f)
{
    const struct leat_coco *c = f->c;
    pthread_t threads[MOST_THREADS];
    const size_t cores = leat_cpu_count(), most = cores < MOST_THREADS ? cores : MOST_THREADS;
    size_t n = 0;
    for (size_t i = 0; i < c->n_pngs; i++) { /* what the threads compare PNGs with */
        struct leat_coco_image *image = image_of(c, &c->pngs[i]);
        if (image && leat_coco_find_size(f->c, image))
            return LEAT_E_NOMEM;
    }
    while (n < most && n < c->n_pngs && !leat_thread_start(&threads[n], trace_pngs, f))
        n++;
    int rc = n || !c->n_pngs ? LEAT_OK : LEAT_E_NOMEM;
    for (size_t i = 0; i < c->n_pngs && !rc; i++) {
        struct traced *t = &f->window[i % WINDOW];
        rc = wait_for(f, t);
        if (rc)
            break;
        rc = add_records(f, t, &c->pngs[i]);
        clear(t);
        pthread_mutex_lock(&f->lock);
        f->n_taken++;
        pthread_cond_signal(&f->taken);
        pthread_mutex_unlock(&f->lock);
    }
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_broadcast(&f->taken);
    pthread_mutex_unlock(&f->lock);
    while (n)
        pthread_join(threads[--n], NULL);
    for (size_t i = 0; i < WINDOW; i++)
        clear(&f->window[i]);
    return rc;
}

int leat_coco_read_pngs(struct leat_coco *c)
{
    const size_t length = strlen(c->a->path);
    const size_t stem = length > 5 && !strcasecmp(c->a->path + length - 5, ".json") ? length - 5 : length;
    struct folder *f = leat_new(struct folder);
    struct stat st;
    int rc = f && (f->path = leat_alloc(stem + 2)) ? LEAT_OK : LEAT_E_NOMEM;
    if (!rc) {
        f->c = c;
        snprintf(f->path, stem + 2, "%.*s/", (int)stem, c->a->path);
        const bool there = !stat(f->path, &st) && S_ISDIR(st.st_mode);
        if (!there && c->semantic) {
            rc = leat_fail_at(c->error, LEAT_E_NOT_FOUND, f->path, LEAT_NO_OFFSET,
                              "%s has the segments of PNGs in the folder %s, which is not there", c->a->path, f->path);
        } else if (!there) {
            leat_note(&c->a->notes, "the segments have no masks: there is no folder %s with their PNGs", f->path);
        } else {
            c->has_shapes = c->n_pngs > 0;
        }
    }
    if (!rc && c->has_shapes) {
        struct leat_listing listing;
        if (!leat_listing_scan(f->path, &listing, NULL)) { /* else each PNG says why it cannot be read */
            rc = leat_names_add_listing(&f->names, &listing) ? LEAT_OK : LEAT_E_NOMEM;
            leat_listing_destroy(&listing);
        }
        pthread_mutex_init(&f->lock, NULL);
        pthread_cond_init(&f->traced, NULL);
        pthread_cond_init(&f->taken, NULL);
        rc = rc ? rc : read_all(f);
        pthread_cond_destroy(&f->taken);
        pthread_cond_destroy(&f->traced);
        pthread_mutex_destroy(&f->lock);
    }
    if (f) {
        leat_names_destroy(&f->names);
        leat_free(f->path);
    }
    leat_free(f);
    return rc == LEAT_E_NOMEM ? leat_coco_no_memory(c) : rc;
}
