/* Masks of instances as polygons or runs: shapes.h. */
#include "codec/shapes.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

/* Corners are rounded to a FIFTH of a pixel. */
enum { FIFTH = 5, VERSION = 1 };
#define FARTHEST 0x1p20
/* The limit of drawing, so that some kilobytes are not a minute's work. An edge costs as much as it crosses columns of
 * the image, however far it reaches: in a value at most MOST_CROSSED, some tenths of a second. A polygon costs the part
 * of the image that it lies in: those of an instance at most MOST_SWEPT images, and SWEPT_AT_LEAST pixels of small
 * ones.
 */
#define MOST_CROSSED (UINT64_C(1) << 26)
#define MOST_SWEPT 64
#define SWEPT_AT_LEAST (UINT64_C(1) << 22)

/* ---- writing --------------------------------------------------------------------------------- */

static bool room_for(struct leat_shape_bytes *to, size_t more)
{
    return leat_grow(&to->data, &to->room, to->n + more, 1);
}

static size_t varint(uint8_t *to, uint64_t v)
{
    size_t n = 0;
    for (; v > 127; v >>= 7)
        to[n++] = (uint8_t)(v | 128);
    to[n++] = (uint8_t)v;
    return n;
}

static bool put_varint(struct leat_shape_bytes *to, uint64_t v)
{
    if (!room_for(to, 10))
        return false;
    to->n += varint(to->data + to->n, v);
    return true;
}

/* Puts the length in front of the record that begins at `begin`. */
static bool close_record(struct leat_shape_bytes *to, size_t begin)
{
    uint8_t head[10];
    size_t length = to->n - begin, n = varint(head, length);
    if (!room_for(to, n))
        return false;
    memmove(to->data + begin + n, to->data + begin, length);
    memcpy(to->data + begin, head, n);
    to->n += n;
    return true;
}

bool leat_shapes_put_none(struct leat_shape_bytes *to)
{
    return put_varint(to, 1) && put_varint(to, LEAT_SHAPE_NONE);
}

bool leat_shapes_put_head(struct leat_shape_bytes *to, uint64_t n)
{
    return put_varint(to, VERSION) && put_varint(to, n);
}

/* Whether a number is one of hundredths, and their number. */
static bool in_cents(double v, int64_t *cents)
{
    *cents = (int64_t)nearbyint(v * 100);
    return (double)*cents / 100 == v && !(v == 0 && signbit(v));
}

bool leat_shapes_put_polygons(struct leat_shape_bytes *to, const double *xy, const uint32_t *ends, size_t n_polygons,
                              bool units)
{
    const size_t begin = to->n, n = n_polygons ? ends[n_polygons - 1] : 0;
    int64_t cents, before[2] = {0, 0};
    bool small = !units;
    for (size_t i = 0; i < 2 * n && small; i++)
        small = in_cents(xy[i], &cents);
    if (!put_varint(to, units   ? LEAT_SHAPE_UNITS
                        : small ? LEAT_SHAPE_CENTS
                                : LEAT_SHAPE_PIXELS) ||
        !put_varint(to, n_polygons))
        return false;
    for (size_t p = 0, i = 0; p < n_polygons; p++) {
        if (!put_varint(to, ends[p] - i))
            return false;
        for (; i < ends[p]; i++) {
            if (!room_for(to, 20))
                return false;
            for (size_t k = 0; k < 2 && small; k++) {
                in_cents(xy[2 * i + k], &cents);
                int64_t d = cents - before[k];
                to->n += varint(to->data + to->n, (uint64_t)d << 1 ^ (uint64_t)(d >> 63));
                before[k] = cents;
            }
            if (!small) {
                memcpy(to->data + to->n, xy + 2 * i, 2 * sizeof *xy);
                to->n += 2 * sizeof *xy;
            }
        }
    }
    return close_record(to, begin);
}

bool leat_shapes_put_runs(struct leat_shape_bytes *to, uint32_t h, uint32_t w, const uint32_t *runs, size_t n)
{
    const size_t begin = to->n;
    bool good = put_varint(to, LEAT_SHAPE_RUNS) && put_varint(to, h) && put_varint(to, w) && put_varint(to, n);
    for (size_t i = 0; i < n && good; i++)
        good = put_varint(to, runs[i]);
    return good && close_record(to, begin);
}

/* ---- checking -------------------------------------------------------------------------------- */

static int64_t fifths(double v)
{
    return (int64_t)(FIFTH * v + .5);
}

/* Whether it can be drawn, in units of w x h. */
static bool is_near(const double corner[2], double w, double h)
{
    return fabs(corner[0] * w) < FARTHEST && fabs(corner[1] * h) < FARTHEST;
}

const char *leat_shapes_polygon_fault(const double *xy, size_t n, double w, double h)
{
    if (n < 3)
        return "has fewer than three points";
    for (size_t i = 0; i < 2 * n; i++)
        if (!isfinite(xy[i]))
            return "has a coordinate that is not finite";
    for (size_t i = 0; i < n; i++)
        if (!is_near(xy + 2 * i, w, h))
            return "reaches too far";
    return NULL;
}

const char *leat_shapes_runs_fault(const uint32_t *runs, size_t n, uint64_t h, uint64_t w)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += runs[i];
    return sum == h * w ? NULL : "has runs that do not fill its size";
}

size_t leat_shapes_runs_of_text(const char *text, size_t length, uint32_t *runs, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < length;) {
        uint64_t x = 0;
        unsigned shift = 0, c;
        do {
            c = (unsigned)(uint8_t)text[i++] - 48;
            if (c > 63 || shift > 35)
                return SIZE_MAX;
            x |= (uint64_t)(c & 31) << shift;
            shift += 5;
        } while (c & 32 && i < length);
        if (c & 32)
            return SIZE_MAX;
        int64_t value = c & 16 ? (int64_t)(x | ~UINT64_C(0) << shift) : (int64_t)x;
        if (n > 2)
            value += runs[n - 2];
        if (value < 0 || value > INT32_MAX || n == room)
            return SIZE_MAX;
        runs[n++] = (uint32_t)value;
    }
    return n;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int damaged(struct leat_error *error, const char *why)
{
    leat_fail(error, LEAT_E_DECODE, "masks of instances are damaged: %s", why);
    return LEAT_E_DECODE; /* not 0, as compilers see */
}

static bool take(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; *at < end && shift < 63; shift += 7) {
        uint8_t byte = *(*at)++;
        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *out = v;
            return true;
        }
    }
    return false;
}

int leat_shapes_open(const void *value, size_t length, struct leat_shapes *out, struct leat_error *error)
{
    uint64_t version;
    *out = (struct leat_shapes){.at = value, .end = (const uint8_t *)value + length};
    if (!length) /* no instances */
        return LEAT_OK;
    if (!take(&out->at, out->end, &version) || version != VERSION || !take(&out->at, out->end, &out->n) ||
        out->n > (uint64_t)(out->end - out->at) / 2)
        return damaged(error, "they do not begin as they should");
    return LEAT_OK;
}

int leat_shapes_next(struct leat_shapes *s, const uint8_t **record, size_t *length, struct leat_error *error)
{
    uint64_t n;
    if (!take(&s->at, s->end, &n) || !n || n > (uint64_t)(s->end - s->at))
        return damaged(error, "a record is cut");
    *record = s->at;
    *length = (size_t)n;
    s->at += n;
    return LEAT_OK;
}

/* ---- drawing --------------------------------------------------------------------------------- */

/*
 * A polygon is drawn as places where its inside begins or ends in a column: a pixel there has the bit TURN, until one
 * sweep over the rows, which keeps for each column whether it is inside.
 */
enum { INSIDE = 1, TURN = 2 };

struct canvas {
    uint8_t *pixels, *row; /* row: [w] */
    uint32_t w, h;
    int64_t left, right, top, bottom; /* of the turns of a polygon: columns [left, right), rows [top, bottom) */
    uint64_t swept, *crossed;         /* of an instance; of a value */
};

static void add_turn(struct canvas *c, int64_t x, int64_t y)
{
    c->left = x < c->left ? x : c->left;
    c->right = x + 1 > c->right ? x + 1 : c->right;
    c->top = y < c->top ? y : c->top;
    if (y < c->h) {
        c->pixels[(uint64_t)y * c->w + (uint64_t)x] ^= TURN;
        y++;
    }
    c->bottom = y > c->bottom ? y : c->bottom;
}

/* An edge in fifths, from the corner (xs, ys) to the one behind it on the axis that it is longer on. */
struct edge {
    int64_t xs, ys, xe, ye, length;
    double slope;
};

static struct edge edge_of(const double *a, const double *b, bool *flat)
{
    struct edge e = {fifths(a[0]), fifths(a[1]), fifths(b[0]), fifths(b[1]), 0, 0};
    const int64_t across = e.xs < e.xe ? e.xe - e.xs : e.xs - e.xe, down = e.ys < e.ye ? e.ye - e.ys : e.ys - e.ye;
    *flat = across >= down;
    if (*flat ? e.xs > e.xe : e.ys > e.ye)
        e = (struct edge){e.xe, e.ye, e.xs, e.ys, 0, 0};
    e.length = *flat ? across : down;
    if (e.length)
        e.slope = (double)(*flat ? e.ye - e.ys : e.xe - e.xs) / (double)e.length;
    return e;
}

/* For a flat edge, y at a step of x; for a steep one, x at a step of y. */
static int64_t flat_at(const struct edge *e, int64_t step)
{
    return (int64_t)((double)e->ys + e->slope * (double)step + .5);
}

static int64_t steep_at(const struct edge *e, int64_t step)
{
    return (int64_t)((double)e->xs + e->slope * (double)step + .5);
}

/* The upper of the two points between which an edge goes from x = u to u + 1, or back. */
static int64_t flat_crossing(const struct edge *e, int64_t u)
{
    const int64_t a = flat_at(e, u - e->xs), b = flat_at(e, u + 1 - e->xs);
    return a < b ? a : b;
}

static int64_t steep_crossing(const struct edge *e, int64_t u)
{
    const bool right = e->xe > e->xs; /* the first step beyond: at u + 1, or back at u */
    const double place = ceil(((double)u + .5 - (double)e->xs) / e->slope);
    int64_t step = place < 1 ? 1 : place > (double)e->length ? e->length : (int64_t)place;
    while (step > 1 && right == (steep_at(e, step - 1) > u))
        step--;
    while (step < e->length && right != (steep_at(e, step) > u))
        step++;
    return e->ys + step - 1;
}

/* Notes where an edge crosses the middle lines of the image's columns, one of them in FIFTH. */
static bool draw_edge(struct canvas *c, const double *a, const double *b)
{
    const int64_t middle = FIFTH / 2;
    bool flat;
    const struct edge e = edge_of(a, b, &flat);
    const int64_t left = e.xs < e.xe ? e.xs : e.xe, right = e.xs < e.xe ? e.xe : e.xs;
    const int64_t first = left <= middle ? 0 : (left - middle + FIFTH - 1) / FIFTH;
    const int64_t end = right <= middle ? 0 : (right - middle - 1) / FIFTH + 1;
    for (int64_t x = first; x < end && x < c->w; x++) {
        const int64_t u = x * FIFTH + middle, low = flat ? flat_crossing(&e, u) : steep_crossing(&e, u);
        const int64_t y = low <= middle ? 0 : (low + middle) / FIFTH;
        if (++*c->crossed > MOST_CROSSED)
            return false;
        add_turn(c, x, y < c->h ? y : c->h);
    }
    return true;
}

/* Sets the pixels that are inside. */
static void sweep(struct canvas *c)
{
    memset(c->row + c->left, 0, (size_t)(c->right - c->left));
    for (int64_t y = c->top; y < c->bottom; y++) {
        uint8_t *p = c->pixels + (uint64_t)y * c->w;
        for (int64_t x = c->left; x < c->right; x++) {
            c->row[x] ^= p[x] >> 1;
            p[x] = (p[x] | c->row[x]) & INSIDE;
        }
    }
}

/* Sets the pixels [begin, end), counted column by column. */
static void fill(uint8_t *pixels, uint32_t w, uint32_t h, uint64_t begin, uint64_t end)
{
    while (begin < end) {
        const uint64_t x = begin / h, y = begin % h, n = end - begin < h - y ? end - begin : h - y;
        uint8_t *p = pixels + y * w + x;
        for (uint64_t i = 0; i < n; i++, p += w)
            *p = 1;
        begin += n;
    }
}

static int draw_polygon(struct canvas *c, const double *xy, size_t n, struct leat_error *error)
{
    c->left = c->w;
    c->top = c->h;
    c->right = c->bottom = 0;
    for (size_t i = 0; i < n; i++)
        if (!draw_edge(c, xy + 2 * i, xy + 2 * ((i + 1) % n)))
            return damaged(error, "the edges of its polygons are too many, or too long");
    if (c->right <= c->left)
        return LEAT_OK;
    c->swept += (uint64_t)(c->right - c->left) * (uint64_t)(c->bottom - c->top);
    if (c->swept > SWEPT_AT_LEAST && c->swept / MOST_SWEPT > (uint64_t)c->w * c->h)
        return damaged(error, "an instance has too many polygons in one place");
    sweep(c);
    return LEAT_OK;
}

static int draw_polygons(enum leat_shape_kind kind, const uint8_t *at, const uint8_t *end, struct canvas *c,
                         struct leat_error *error)
{
    uint64_t n_polygons = 0, n;
    int64_t cents[2] = {0, 0};
    double *xy = NULL;
    size_t room = 0;
    int rc = take(&at, end, &n_polygons) ? LEAT_OK : damaged(error, "a record is cut");
    c->row = leat_alloc(c->w);
    if (!rc && !c->row)
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to draw a mask");
    for (uint64_t p = 0; p < n_polygons && !rc; p++) {
        if (!take(&at, end, &n) || n > (uint64_t)(end - at) / (kind == LEAT_SHAPE_CENTS ? 2 : 16)) {
            rc = damaged(error, "a polygon is cut");
            break;
        }
        if (!leat_grow(&xy, &room, 2 * (size_t)n, sizeof *xy)) {
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory to draw a mask");
            break;
        }
        for (size_t i = 0; i < 2 * (size_t)n && !rc; i++) {
            uint64_t zigzag;
            if (kind != LEAT_SHAPE_CENTS) {
                memcpy(&xy[i], at, sizeof *xy);
                at += sizeof *xy;
                xy[i] *= kind == LEAT_SHAPE_UNITS ? (i & 1 ? c->h : c->w) : 1;
            } else if (take(&at, end, &zigzag) && zigzag < UINT64_C(1) << 40) {
                cents[i & 1] += (int64_t)(zigzag >> 1) ^ -(int64_t)(zigzag & 1);
                xy[i] = (double)cents[i & 1] / 100;
                if (!(fabs(xy[i]) < FARTHEST)) /* before the sum overflows */
                    rc = damaged(error, "a polygon reaches too far");
            } else {
                rc = damaged(error, "a polygon is cut");
            }
        }
        const char *wrong = rc ? NULL : leat_shapes_polygon_fault(xy, (size_t)n, 1, 1);
        if (wrong)
            rc = leat_fail(error, LEAT_E_DECODE, "masks of instances are damaged: a polygon %s", wrong);
        rc = rc ? rc : draw_polygon(c, xy, (size_t)n, error);
    }
    leat_free(xy);
    leat_free(c->row);
    return rc;
}

static int draw_runs(const uint8_t *at, const uint8_t *end, uint32_t w, uint32_t h, uint8_t *pixels,
                     struct leat_error *error)
{
    uint64_t of_h, of_w, n, run, done = 0;
    const uint64_t all = (uint64_t)w * h;
    if (!take(&at, end, &of_h) || !take(&at, end, &of_w) || !take(&at, end, &n))
        return damaged(error, "a record is cut");
    if (of_h != h || of_w != w)
        return leat_fail(error, LEAT_E_DECODE,
                         "the mask of an instance has %" PRIu64 " x %" PRIu64 " pixels, and its image %u x %u", of_w,
                         of_h, w, h);
    for (uint64_t i = 0; i < n; i++) {
        if (!take(&at, end, &run) || run > all - done)
            return damaged(error, "its runs do not fill the image");
        if (i & 1)
            fill(pixels, w, h, done, done + run);
        done += run;
    }
    return done == all ? LEAT_OK : damaged(error, "its runs do not fill the image");
}

int leat_shapes_draw(struct leat_shapes *shapes, const uint8_t *record, size_t length, uint32_t w, uint32_t h,
                     uint8_t *pixels, struct leat_error *error)
{
    struct canvas canvas = {.pixels = pixels, .w = w, .h = h, .crossed = &shapes->crossed};
    const uint8_t *at = record, *end = record + length;
    uint64_t kind;
    if (!take(&at, end, &kind))
        return damaged(error, "a record is cut");
    memset(pixels, 0, (size_t)w * h);
    switch (kind) {
    case LEAT_SHAPE_NONE:
        return LEAT_OK;
    case LEAT_SHAPE_CENTS:
    case LEAT_SHAPE_PIXELS:
    case LEAT_SHAPE_UNITS:
        return draw_polygons((enum leat_shape_kind)kind, at, end, &canvas, error);
    case LEAT_SHAPE_RUNS:
        return draw_runs(at, end, w, h, pixels, error);
    default:
        return damaged(error, "a record is of no known kind");
    }
}

int leat_masks_draw(const void *value, size_t length, uint32_t width, uint32_t height, uint8_t *pixels, uint64_t *n,
                    struct leat_error *error)
{
    struct leat_shapes shapes;
    int rc = leat_shapes_open(value, length, &shapes, error);
    *n = rc ? 0 : shapes.n;
    for (uint64_t i = 0; pixels && i < *n && !rc; i++) {
        const uint8_t *record;
        size_t bytes;
        rc = leat_shapes_next(&shapes, &record, &bytes, error);
        rc = rc ? rc : leat_shapes_draw(&shapes, record, bytes, width, height, pixels + i * width * height, error);
    }
    return rc;
}
