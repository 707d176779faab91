/* The values in an entry of COCO annotations: coco.h. */
#include "format/coco.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

int leat_coco_no_memory(const struct leat_coco *c)
{
    return leat_fail(c->error, LEAT_E_NOMEM, "no memory to read %s (%zu images and %zu annotations so far)", c->a->path,
                     c->n_images, c->n_instances);
}

bool leat_coco_number(struct leat_json *j, double *out)
{
    return leat_json_peek(j) == '0' ? leat_json_number(j, out, NULL, NULL) : (leat_json_skip(j), false);
}

bool leat_coco_id(struct leat_json *j, int64_t *out)
{
    double number;
    bool whole;
    int64_t found;
    if (leat_json_peek(j) != '0') {
        leat_json_skip(j);
        return false;
    }
    if (!leat_json_number(j, &number, &whole, &found))
        return false;
    if (!whole && number == (double)(int64_t)(fabs(number) < 9e15 ? number : 0.5)) { /* 18.0 */
        found = (int64_t)number;
        whole = true;
    }
    if (whole)
        *out = found;
    return whole;
}

static bool take_box(struct leat_json *j, float box[4])
{
    size_t n = 0;
    bool good = true;
    if (leat_json_peek(j) != '[')
        return leat_json_skip(j), false;
    leat_json_enter(j, '[');
    for (; leat_json_item(j); n++) {
        double v = NAN;
        good &= leat_coco_number(j, &v) && n < 4;
        if (n < 4)
            box[n] = (float)v;
    }
    return good && n == 4;
}

/* Of the record that was put last: its bytes, below 2^32. */
static int measure(struct leat_coco *c, struct leat_coco_instance *one)
{
    const size_t bytes = c->shapes.n - one->shape;
    one->shape_bytes = (uint32_t)bytes;
    return bytes == one->shape_bytes ? LEAT_OK : leat_coco_no_memory(c);
}

/* Polygons as lists of coordinates; one alone may stand without a list of its own. */
static int take_polygons(struct leat_coco *c, struct leat_coco_instance *one)
{
    struct leat_json *j = &c->json;
    size_t n = 0, n_polygons = 0, begin = 0;
    bool few = false;
    leat_json_enter(j, '[');
    while (leat_json_item(j)) {
        const bool inner = leat_json_peek(j) == '[';
        if (inner)
            leat_json_enter(j, '[');
        while (!inner || leat_json_item(j)) {
            double v;
            if (!leat_coco_number(j, &v)) {
                one->wrong = "has a polygon with something else than numbers";
                v = 0;
            }
            if (n >= UINT32_MAX || !leat_grow(&c->xy, &c->xy_room, n + 2, sizeof *c->xy))
                return leat_coco_no_memory(c);
            c->xy[n++] = v;
            if (!inner && !leat_json_item(j))
                break;
        }
        if (j->fault)
            return LEAT_OK;
        const size_t points = (n - begin) / 2;
        if (n % 2 && !one->wrong)
            one->wrong = "has a polygon with an odd number of coordinates";
        if (!one->wrong && points >= 3)
            one->wrong = leat_shapes_polygon_fault(c->xy + begin, points, 1, 1);
        if (points < 3) { /* passed over, where others are left */
            few = true;
            n = begin;
            if (inner)
                continue;
            break;
        }
        if (!leat_grow(&c->ends, &c->ends_room, n_polygons + 1, sizeof *c->ends))
            return leat_coco_no_memory(c);
        begin = n;
        c->ends[n_polygons++] = (uint32_t)(n / 2);
        if (!inner)
            break;
    }
    if (!one->wrong && !n_polygons && few)
        one->wrong = "has no polygon of three points or more";
    if (one->wrong || !n_polygons)
        return LEAT_OK;
    one->shape = c->shapes.n;
    if (!leat_shapes_put_polygons(&c->shapes, c->xy, c->ends, n_polygons, false))
        return leat_coco_no_memory(c);
    return measure(c, one);
}

static size_t take_list_of_runs(struct leat_coco *c)
{
    struct leat_json *j = &c->json;
    size_t n = 0;
    bool good = true;
    leat_json_enter(j, '[');
    while (leat_json_item(j)) {
        int64_t run = -1;
        good &= leat_coco_id(j, &run) && run >= 0 && run <= INT32_MAX &&
                leat_grow(&c->runs, &c->runs_room, n + 1, sizeof *c->runs);
        if (good)
            c->runs[n++] = (uint32_t)run;
    }
    return good ? n : SIZE_MAX;
}

/* {"size": [height, width], "counts": [...] or the reference API's text}. */
static int take_runs(struct leat_coco *c, struct leat_coco_instance *one)
{
    struct leat_json *j = &c->json;
    int64_t size[2] = {-1, -1};
    size_t n = SIZE_MAX, length;
    char key[16];
    leat_json_enter(j, '{');
    while (leat_json_key(j, key, sizeof key)) {
        const char kind = leat_json_peek(j);
        if (!strcmp(key, "size") && kind == '[') {
            leat_json_enter(j, '[');
            for (size_t i = 0; leat_json_item(j); i++)
                if (i > 1 || !leat_coco_id(j, &size[i]))
                    size[0] = -1;
        } else if (!strcmp(key, "counts") && kind == '[') {
            n = take_list_of_runs(c);
        } else if (!strcmp(key, "counts") && kind == '"') {
            const char *text = leat_json_string(j, &length);
            if (text && !leat_grow(&c->runs, &c->runs_room, length + 1, sizeof *c->runs))
                return leat_coco_no_memory(c);
            if (text)
                n = leat_shapes_runs_of_text(text, length, c->runs, c->runs_room);
        } else {
            leat_json_skip(j);
        }
    }
    if (j->fault)
        return LEAT_OK;
    if (n == SIZE_MAX || size[0] < 1 || size[1] < 1 || size[0] > INT32_MAX || size[1] > INT32_MAX)
        one->wrong = "has a mask of runs (RLE) that is damaged";
    else
        one->wrong = leat_shapes_runs_fault(c->runs, n, (uint64_t)size[0], (uint64_t)size[1]);
    if (one->wrong)
        return LEAT_OK;
    one->runs_h = (uint32_t)size[0];
    one->runs_w = (uint32_t)size[1];
    one->shape = c->shapes.n;
    if (!leat_shapes_put_runs(&c->shapes, one->runs_h, one->runs_w, c->runs, n))
        return leat_coco_no_memory(c);
    return measure(c, one);
}

int leat_coco_segmentation(struct leat_coco *c, struct leat_coco_instance *one)
{
    switch (leat_json_peek(&c->json)) {
    case '[':
        return take_polygons(c, one);
    case '{':
        return take_runs(c, one);
    default:
        leat_json_skip(&c->json);
        return LEAT_OK;
    }
}

static bool take_flag(struct leat_json *j)
{
    double number = 0;
    char c = leat_json_peek(j);
    if (c == '0')
        return leat_json_number(j, &number, NULL, NULL) && number != 0;
    leat_json_skip(j);
    return c == 't';
}

bool leat_coco_member(struct leat_json *j, const char *key, struct leat_coco_instance *one)
{
    double area;
    if (!strcmp(key, "category_id"))
        one->has_category = leat_coco_id(j, &one->category);
    else if (!strcmp(key, "bbox"))
        one->has_box = take_box(j, one->box);
    else if (!strcmp(key, "area"))
        one->area = leat_coco_number(j, &area) ? (float)area : NAN;
    else if (!strcmp(key, "iscrowd"))
        one->crowd = take_flag(j);
    else
        return false;
    return true;
}

int leat_coco_add(struct leat_coco *c, struct leat_coco_instance *one)
{
    if (!one->has_box)
        one->box[0] = NAN;
    if (!leat_grow(&c->instances, &c->instances_room, c->n_instances + 1, sizeof *one))
        return leat_coco_no_memory(c);
    c->instances[c->n_instances++] = *one;
    return LEAT_OK;
}

static int add_segment(struct leat_coco *c, const struct leat_coco_instance *of)
{
    struct leat_json *j = &c->json;
    struct leat_coco_instance one = {.area = NAN, .place = of->place, .segment = LEAT_COCO_NO_SEGMENT};
    char key[32];
    if (!leat_json_enter(j, '{'))
        return LEAT_OK;
    while (leat_json_key(j, key, sizeof key)) {
        int64_t id;
        if (leat_coco_member(j, key, &one))
            continue;
        if (!strcmp(key, "id"))
            one.segment = leat_coco_id(j, &id) && id > 0 && id < 1 << 24 ? (uint32_t)id : LEAT_COCO_NO_SEGMENT;
        else
            leat_json_skip(j);
    }
    if (j->fault)
        return LEAT_OK;
    c->a->tried += !one.has_category;
    if (!one.has_category)
        return leat_fault(c->a, c->error, LEAT_E_CORRUPT, "segments without a category_id",
                          "a segment of annotations[%u] (%s) has no category_id that is a whole number of 64 bits",
                          of->place.number, leat_coco_where(c, of->place));
    return leat_coco_add(c, &one);
}

int leat_coco_segments(struct leat_coco *c, const struct leat_coco_instance *of)
{
    int rc = LEAT_OK;
    leat_json_enter(&c->json, '[');
    while (!rc && leat_json_item(&c->json))
        rc = add_segment(c, of);
    return rc;
}

struct leat_coco_place leat_coco_place(struct leat_json *j, size_t number)
{
    uint64_t line = leat_json_line(j);
    return (struct leat_coco_place){number < UINT32_MAX ? (uint32_t)number : UINT32_MAX,
                                    line < UINT32_MAX ? (uint32_t)line : UINT32_MAX, leat_json_offset(j)};
}

const char *leat_coco_where(struct leat_coco *c, struct leat_coco_place place)
{
    snprintf(c->where, sizeof c->where, "line %u, byte %" PRIu64, place.line, place.byte);
    return c->where;
}
