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
    return leat_json_peek(j) == '0' ? leat_json_read_number(j, out, NULL, NULL) : (leat_json_skip(j), false);
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
    if (!leat_json_read_number(j, &number, &whole, &found))
        return false;
    if (!whole && number == (double)(int64_t)(fabs(number) < 9e15 ? number : 0.5)) { /* 18.0 */
        found = (int64_t)number;
        whole = true;
    }
    if (whole)
        *out = found;
    return whole;
}

enum { GOOD, NO_BOX, NULL_BOX, NO_LIST, NO_NUMBERS, NOT_FOUR };
static const char *const box_faults[] = {[NO_BOX] = "has no bbox",
                                         [NULL_BOX] = "has a bbox that is null",
                                         [NO_LIST] = "has a bbox that is no list of four numbers",
                                         [NO_NUMBERS] = "has a bbox with something else than numbers",
                                         [NOT_FOUR] = "has a bbox of another number of values than four"};

static uint8_t take_box(struct leat_json *j, float box[4])
{
    const char kind = leat_json_peek(j);
    size_t n = 0;
    bool good = true;
    if (kind != '[')
        return leat_json_skip(j), kind == 'n' ? NULL_BOX : NO_LIST;
    leat_json_enter(j, '[');
    for (; leat_json_item(j); n++) {
        double v = 0;
        good &= leat_coco_number(j, &v);
        if (n < 4)
            box[n] = (float)v;
    }
    return !good ? NO_NUMBERS : n == 4 ? GOOD : NOT_FOUR;
}

enum { NO_AREA = 1, NOT_FINITE, NEGATIVE };
static const char *const area_faults[] = {[NO_AREA] = "has an area that is no number",
                                          [NOT_FINITE] = "has an area that is not finite",
                                          [NEGATIVE] = "has an area below 0"};

static uint8_t take_area(struct leat_json *j, float *out)
{
    double area;
    if (!leat_coco_number(j, &area))
        return NO_AREA;
    *out = (float)area;
    return !isfinite(*out) ? NOT_FINITE : *out < 0 ? NEGATIVE : GOOD;
}

static uint8_t take_crowd(struct leat_json *j, uint8_t *out)
{
    const char kind = leat_json_peek(j);
    double number = -1;
    if (kind == '0')
        leat_json_read_number(j, &number, NULL, NULL);
    else if (leat_json_skip(j) && (kind == 't' || kind == 'f'))
        number = kind == 't';
    *out = number == 1;
    return number != 0 && number != 1;
}

const char *leat_coco_box_fault(const struct leat_coco_instance *one)
{
    return box_faults[one->wrong_box];
}

const char *leat_coco_area_fault(const struct leat_coco_instance *one)
{
    return area_faults[one->wrong_area];
}

const char *leat_coco_crowd_fault(const struct leat_coco_instance *one)
{
    return one->wrong_crowd ? "has an iscrowd that is neither 0 nor 1" : NULL;
}

struct leat_coco_instance leat_coco_instance(struct leat_coco_place place)
{
    return (struct leat_coco_instance){.area = NAN, .wrong_box = NO_BOX, .place = place};
}

/* Notes the bytes of the record that was put last, below 2^32. */
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
                if (i > 1 ? (leat_json_skip(j), true) : !leat_coco_id(j, &size[i]))
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
        one->wrong = "has a segmentation that is neither a list of polygons nor runs (RLE)";
        leat_json_skip(&c->json);
        return LEAT_OK;
    }
}

bool leat_coco_member(struct leat_json *j, const char *key, struct leat_coco_instance *one)
{
    if (!strcmp(key, "category_id"))
        one->has_category = leat_coco_id(j, &one->category);
    else if (!strcmp(key, "bbox"))
        one->wrong_box = take_box(j, one->box);
    else if (!strcmp(key, "area"))
        one->wrong_area = take_area(j, &one->area);
    else if (!strcmp(key, "iscrowd"))
        one->wrong_crowd = take_crowd(j, &one->crowd);
    else
        return false;
    return true;
}

int leat_coco_add(struct leat_coco *c, const struct leat_coco_instance *one)
{
    if (!leat_grow(&c->instances, &c->instances_room, c->n_instances + 1, sizeof *one))
        return leat_coco_no_memory(c);
    c->instances[c->n_instances++] = *one;
    return LEAT_OK;
}

const char *leat_coco_no_object(struct leat_json *j)
{
    const char kind = leat_json_peek(j);
    return kind && kind != '{' && leat_json_skip(j) ? leat_json_kind(kind) : NULL;
}

/* A segment that is left out; the image of its annotation may stand behind it. */
static int leave_out(struct leat_coco *c, const struct leat_coco_instance *of, const char *wrong)
{
    c->a->tried++;
    c->segment_left_out = true;
    return leat_fault(c->a, c->error, LEAT_E_CORRUPT, "segments without a category_id",
                      "a segment of annotations[%u] (%s) %s", of->place.number, leat_coco_where(c, of->place), wrong);
}

static int add_segment(struct leat_coco *c, const struct leat_coco_instance *of)
{
    struct leat_json *j = &c->json;
    struct leat_coco_instance one = leat_coco_instance(of->place);
    char key[32], text[64];
    one.segment = LEAT_COCO_NO_SEGMENT;
    const char *other = leat_coco_no_object(j);
    if (other) {
        snprintf(text, sizeof text, "is %s, and no object", other);
        return leave_out(c, of, text);
    }
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
    return one.has_category ? leat_coco_add(c, &one)
                            : leave_out(c, of, "has no category_id that is a whole number of 64 bits");
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
