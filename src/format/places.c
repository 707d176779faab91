/* Places of values in memory, and as they are kept: places.h. */
#include "format/places.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "io/guard.h"

enum { PLACES, COLUMNS, TEXT, FRAMES, STARTS }; /* sections */
enum { COUNT, WIDTH, BYTES, COPY_BYTES };       /* facts */

void leat_places_destroy(struct leat_places *p)
{
    leat_kept_release(&p->kept);
    for (size_t i = 0; i < sizeof p->own / sizeof *p->own; i++)
        leat_free(p->own[i]);
    *p = (struct leat_places){0};
}

static struct leat_kept shape(size_t column_bytes)
{
    return (struct leat_kept){.sections = {[PLACES] = {.each = sizeof(struct leat_place)},
                                           [COLUMNS] = {.each = (uint32_t)column_bytes},
                                           [TEXT] = {.each = 1},
                                           [FRAMES] = {.each = sizeof(struct leat_frame)},
                                           [STARTS] = {.each = sizeof(uint64_t)}}};
}

/* Inside leat_guarded. */
static int check(void *user)
{
    const struct leat_places *p = user;
    const uint64_t n = p->kept.sections[PLACES].count;
    for (uint64_t i = 0; i < n; i++)
        if (p->at[i].offset > p->bytes || p->at[i].length > p->bytes - p->at[i].offset ||
            (p->starts && leat_place_column(&p->at[i]) >= p->width))
            return LEAT_E_CORRUPT;
    for (uint64_t i = 0; p->starts && i < p->count; i++)
        if (p->starts[i] > p->starts[i + 1])
            return LEAT_E_CORRUPT;
    return p->starts && (p->starts[0] || p->starts[p->count] != n) ? LEAT_E_CORRUPT : LEAT_OK;
}

static bool frames_are_right(const struct leat_places *p)
{
    const struct leat_frame *f = p->frames;
    for (uint64_t i = 0; i < p->n_frames; i++)
        if (f[i].in >= f[i + 1].in || f[i].out > f[i + 1].out)
            return false;
    return !p->n_frames || (!f[0].out && f[p->n_frames].out == p->bytes);
}

/* Copies of all but the places: they are small, and read without a guard. */
static bool copy_small(struct leat_places *p)
{
    const void **parts[] = {&p->columns, (const void **)&p->text, (const void **)&p->frames};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const struct leat_kept_section *s = &p->kept.sections[COLUMNS + i];
        const size_t bytes = (size_t)(s->count * s->each);
        if (!(p->own[i] = leat_alloc(bytes + 1)) || leat_guarded_copy(p->own[i], bytes ? s->data : "", bytes, NULL))
            return false;
        *parts[i] = bytes ? p->own[i] : NULL;
    }
    return true;
}

bool leat_places_load(struct leat_places *p, const char *path, struct leat_io_file *source, const char kind[8],
                      size_t column_bytes, bool trusts)
{
    struct leat_kept k = shape(column_bytes);
    uint64_t n;
    *p = (struct leat_places){0};
    if (!leat_kept_load(&k, path, source, kind, trusts))
        return false;
    *p = (struct leat_places){.count = k.facts[COUNT],
                              .width = k.facts[WIDTH],
                              .bytes = k.facts[BYTES],
                              .at = k.sections[PLACES].data,
                              .text_bytes = k.sections[TEXT].count,
                              .n_frames = k.sections[FRAMES].count - (k.sections[FRAMES].count > 0),
                              .copy_bytes = k.facts[COPY_BYTES],
                              .kept = k};
    const uint64_t starts = k.sections[STARTS].count;
    p->starts = starts ? k.sections[STARTS].data : NULL;
    p->n_sparse = k.sections[PLACES].count;
    const bool good =
        (starts ? starts - 1 == p->count : leat_mul_u64(p->count, p->width, &n) && n == k.sections[PLACES].count) &&
        (!column_bytes || k.sections[COLUMNS].count == p->width) && copy_small(p) &&
        (!p->text_bytes || !p->text[p->text_bytes - 1]) && !leat_guarded(check, p, NULL) && frames_are_right(p);
    if (!good)
        leat_places_destroy(p);
    return good;
}

bool leat_places_save(struct leat_places *p, const char *path, struct leat_io_file *source, const char kind[8],
                      size_t column_bytes)
{
    struct leat_kept k = shape(column_bytes);
    k.sections[PLACES].data = p->at;
    k.sections[PLACES].count = p->starts ? p->n_sparse : p->count * p->width;
    k.sections[STARTS].data = p->starts;
    k.sections[STARTS].count = p->starts ? p->count + 1 : 0;
    k.sections[COLUMNS].data = p->columns;
    k.sections[COLUMNS].count = column_bytes ? p->width : 0;
    k.sections[TEXT].data = p->text;
    k.sections[TEXT].count = p->text_bytes;
    k.sections[FRAMES].data = p->frames;
    k.sections[FRAMES].count = p->n_frames ? p->n_frames + 1 : 0;
    k.facts[COUNT] = p->count;
    k.facts[WIDTH] = p->width;
    k.facts[BYTES] = p->bytes;
    k.facts[COPY_BYTES] = p->copy_bytes;
    const bool good = leat_kept_save(&k, path, source, kind);
    leat_free(k.path);
    return good;
}

int leat_places_get(const struct leat_places *p, uint64_t sample, uint64_t k, struct leat_place *out,
                    struct leat_error *error)
{
    const struct leat_place *from = &p->at[sample * p->width + k];
    if (p->kept.file) /* mapped */
        return leat_guarded_copy(out, from, sizeof *out, error);
    *out = *from;
    return LEAT_OK;
}

struct finding {
    const struct leat_places *places;
    uint64_t sample, number;
    size_t column;
    struct leat_place *out;
};

static int find(void *user)
{
    struct finding *f = user;
    const struct leat_places *p = f->places;
    const uint64_t said = p->starts[f->sample + 1], end = said < p->n_sparse ? said : p->n_sparse;
    for (uint64_t i = p->starts[f->sample]; i < end; i++)
        if (leat_place_column(&p->at[i]) == f->column) {
            *f->out = p->at[i];
            f->number = i;
            break;
        }
    return LEAT_OK;
}

int leat_places_find(const struct leat_places *p, uint64_t sample, size_t column, uint64_t *number,
                     struct leat_place *out, struct leat_error *error)
{
    struct finding f = {.places = p, .sample = sample, .number = UINT64_MAX, .column = column, .out = out};
    const int rc = p->kept.file ? leat_guarded(find, &f, error) : find(&f); /* mapped, or memory */
    *number = f.number;
    return rc;
}
