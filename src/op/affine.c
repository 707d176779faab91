/* Images turned or seen from the side: places of blocks of pixels, for the loops of kernels/sample.h. */
#include "op/affine.h"

#include <math.h>
#include <string.h>

#include "base/elementary.h"
#include "kernels/sample.h"

enum way {
    WAY_FIXED, /* as Pillow's nearest: 16 bits of fraction, if places have 15 bits before them */
    WAY_SUMS,  /* as Pillow's nearest elsewhere: doubles, added up */
    WAY_MAPPED
};

struct map {
    enum way way;
    bool perspective;
    double m[8];
    uint32_t fixed[6];
    leat_sample_fn sample;
    leat_places_fn places;
    leat_steps_fn steps;
};

struct point {
    double x, y;
};

/* A plane, or packed pixels. */
struct plane {
    struct leat_sampler from;
    uint8_t *base;
    size_t row;
    uint32_t w, h;
};

static void add_up(const double *m, struct point *at, int32_t *xs, int32_t *ys)
{
    for (uint32_t i = 0; i < LEAT_SAMPLE_BLOCK; i++, at->x += m[0], at->y += m[3]) {
        xs[i] = leat_place_at(at->x);
        ys[i] = leat_place_at(at->y);
    }
}

static void sample(const struct map *map, const struct plane *p, uint32_t x, uint32_t y, const int32_t *xs,
                   const int32_t *ys)
{
    map->sample(&p->from, xs, ys, p->w - x < LEAT_SAMPLE_BLOCK ? p->w - x : LEAT_SAMPLE_BLOCK,
                p->base + y * p->row + (size_t)x * p->from.pixel);
}

static void warp(const struct map *map, const struct plane *p, struct point row)
{
    for (uint32_t y = 0; y < p->h; y++, row.x += map->m[1], row.y += map->m[4]) {
        struct point at = row;
        for (uint32_t x = 0; x < p->w; x += LEAT_SAMPLE_BLOCK) {
            int32_t xs[LEAT_SAMPLE_BLOCK], ys[LEAT_SAMPLE_BLOCK];
            if (map->way == WAY_MAPPED)
                map->places(map->m, map->perspective, x, y, xs, ys);
            else if (map->way == WAY_FIXED)
                map->steps(map->fixed, x, y, xs, ys);
            else
                add_up(map->m, &at, xs, ys);
            sample(map, p, x, y, xs, ys);
        }
    }
}

/* If rows stay rows and columns columns, places along a row are added up once for all. */
static void scale(const struct map *map, const struct plane *p, struct point first)
{
    for (uint32_t x = 0; x < p->w; x += LEAT_SAMPLE_BLOCK) {
        int32_t xs[LEAT_SAMPLE_BLOCK], ys[LEAT_SAMPLE_BLOCK];
        double down = first.y;
        add_up(map->m, &first, xs, ys);
        for (uint32_t y = 0; y < p->h; y++, down += map->m[4]) {
            for (unsigned i = 0; i < LEAT_SAMPLE_BLOCK; i++)
                ys[i] = leat_place_at(down);
            sample(map, p, x, y, xs, ys);
        }
    }
}

/* Turned rows cross an image in an order that no processor foresees: one that may not be in the caches, and fits, is
 * asked for in the order of addresses first. For 224 x 224 this takes 2 us, and saves 150. */
static void ask_for(const struct leat_image *in)
{
    const size_t bytes = in->row * in->h;
    for (unsigned plane = 0; plane < (in->column == 1 ? in->channels : 1) && bytes <= 512 << 10; plane++)
        for (size_t at = 0; at < bytes; at += 64)
            __builtin_prefetch(in->base + plane * in->plane + at);
}

static void run(const struct map *map, const struct leat_image *in, const struct leat_image *out,
                enum leat_filter filter, const uint8_t *fill)
{
    const double *m = map->m;
    ask_for(in);
    for (unsigned plane = 0; plane < (in->column == 1 ? in->channels : 1); plane++) {
        struct plane p = {.base = out->base + plane * out->plane, .row = out->row, .w = out->w, .h = out->h};
        p.from = (struct leat_sampler){.base = in->base + plane * in->plane,
                                       .row = in->row,
                                       .w = in->w,
                                       .h = in->h,
                                       .pixel = (unsigned)in->column,
                                       .filter = out->ids ? LEAT_FILTER_NEAREST : filter};
        for (unsigned c = 0; c < 4 && c < in->column; c++)
            p.from.fill[c] = fill[plane + c];
        (map->way == WAY_SUMS && m[1] == 0 && m[3] == 0 ? scale : warp)(
            map, &p, (struct point){m[2] + m[0] * 0.5 + m[1] * 0.5, m[5] + m[3] * 0.5 + m[4] * 0.5});
    }
}

static double round_15(double x)
{
    return (double)leat_round_even(x * 1e15) / 1e15;
}

void leat_affine_rotate(double degrees, double x, double y, double m[6])
{
    double angle = -fmod(degrees, 360.0) * 0x1.1df46a2529d39p-6, c = round_15(leat_math_cos(angle)),
           s = round_15(leat_math_sin(angle));
    const double turn[6] = {c, s, 0, -s, c, 0};
    memcpy(m, turn, sizeof turn);
    leat_affine_move_origin(m, -x, -y);
    m[2] += x;
    m[5] += y;
}

/* Pillow's choice for nearest pixels. */
static enum way choose_way(const double *m, const struct leat_image *out)
{
    bool small = m[1] != 0 || m[3] != 0;
    for (int corner = 0; corner < 4; corner++)
        for (int axis = 0; axis < 2; axis++) {
            const double *n = m + 3 * axis;
            small = small && fabs(n[0] * (corner & 1 ? out->w : 0) + n[1] * (corner & 2 ? out->h : 0) + n[2]) < 32768;
        }
    return small ? WAY_FIXED : WAY_SUMS;
}

static struct map new_map(enum leat_isa isa, const double *m, unsigned n)
{
    struct map map = {.way = WAY_MAPPED,
                      .sample = LEAT_OF_ISA(isa, leat_sample),
                      .places = LEAT_OF_ISA(isa, leat_places),
                      .steps = LEAT_OF_ISA(isa, leat_steps)};
    for (unsigned i = 0; i < n; i++)
        map.m[i] = m[i];
    return map;
}

void leat_affine(enum leat_isa isa, const struct leat_image *in, const struct leat_image *out, const double inverse[6],
                 enum leat_filter filter, const uint8_t *fill)
{
    struct map map = new_map(isa, inverse, 6);
    if (out->ids || filter == LEAT_FILTER_NEAREST)
        map.way = choose_way(inverse, out);
    for (int i = 0; i < 6 && map.way == WAY_FIXED; i++) {
        double middle = i % 3 == 2 ? 0.5 * (inverse[i - 2] + inverse[i - 1]) : 0;
        map.fixed[i] = (uint32_t)(int64_t)floor((inverse[i] + middle) * 65536.0 + 0.5);
    }
    run(&map, in, out, filter, fill);
}

void leat_perspective(enum leat_isa isa, const struct leat_image *in, const struct leat_image *out,
                      const double inverse[8], enum leat_filter filter, const uint8_t *fill)
{
    struct map map = new_map(isa, inverse, 8);
    map.perspective = true;
    run(&map, in, out, filter, fill);
}

void leat_perspective_turn(const double inverse[8], struct leat_turn *turn)
{
    const double *a = inverse, m[9] = {a[4] - a[5] * a[7],        a[2] * a[7] - a[1],        a[1] * a[5] - a[2] * a[4],
                                       a[5] * a[6] - a[3],        a[0] - a[2] * a[6],        a[2] * a[3] - a[0] * a[5],
                                       a[3] * a[7] - a[4] * a[6], a[1] * a[6] - a[0] * a[7], a[0] * a[4] - a[1] * a[3]};
    for (int i = 0; i < 9; i++)
        turn->m[i] = m[i];
}
