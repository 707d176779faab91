/*
 * ElasticTransform: each pixel comes from some pixels beside, by noise that is uniform in [-1, 1], blurred, and times
 * alpha / 2. Arguments and distribution are those of torchvision.transforms.v2, and the pixels are within 1 of those of
 * its torch.nn.functional.grid_sample; visible parts of the outside fade into the fill.
 *
 *     rows of noise --blurred across--> ring of rows --blurred down--> displacement of a row --> places --> pixels
 *
 * Source: Simard, Steinkraus, Platt, "Best Practices for Convolutional Neural Networks", ICDAR 2003.
 *
 * Draw y * width + x: the noise of that pixel, along x in the upper 32 bits and along y in the lower ones.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/elementary.h"
#include "base/random.h"
#include "kernels/sample.h"
#include "op/filter.h"

LEAT_VECTORIZE

#define MAX_SIGMA 250
#define MAX_REACH (4 * MAX_SIGMA + 1)
#define BLOCK 64

struct elastic_args {
    double alpha[2], sigma[2]; /* x, y */
    enum leat_filter filter;
    struct leat_fill fill;
};

static void parse_elastic(void *into, struct leat_args *json)
{
    struct elastic_args *args = into;
    double alpha[2] = {50, 50}, sigma[2] = {5, 5};
    if (leat_args_doubles(json, "alpha", 1, 2, alpha) == 1)
        alpha[1] = alpha[0];
    if (leat_args_doubles(json, "sigma", 1, 2, sigma) == 1)
        sigma[1] = sigma[0];
    for (int axis = 0; axis < 2; axis++) {
        args->alpha[axis] = alpha[axis];
        args->sigma[axis] = sigma[axis];
        if (fabs(alpha[axis]) > 1e5)
            leat_args_wrong(json, "alpha", "a number of at most 100000, or one for x and one for y");
        if (sigma[axis] < 0 || sigma[axis] > MAX_SIGMA || (sigma[axis] > 0) != (sigma[0] > 0))
            leat_args_wrong(json, "sigma", "a number of 0 to 250, or one above 0 for x and one for y");
    }
    args->filter = leat_args_warp(json, LEAT_FILTER_BILINEAR);
    if (args->filter == LEAT_FILTER_BICUBIC)
        leat_args_wrong(json, "interpolation", "\"nearest\" or \"bilinear\"");
    leat_args_fill(json, 0, &args->fill);
}

static int infer_elastic(const void *args, const struct leat_place *place, struct leat_type *type,
                         struct leat_effect *effect, struct leat_error *error)
{
    return leat_fill_check(&((const struct elastic_args *)args)->fill, place, type, error);
}

/* ---- noise ---- */

/* The blur of the noise of one axis: weights [k] are those of the numbers k away on either side, across and down. */
struct blur {
    unsigned reach;
    float across[MAX_REACH], down[MAX_REACH];
};

static void make_weights(double sigma, unsigned reach, float *weights)
{
    double sum = 1;
    for (unsigned k = 1; k <= reach; k++)
        sum += 2 * leat_math_exp(-0.5 * (k / sigma) * (k / sigma));
    weights[0] = (float)(1 / sum);
    for (unsigned k = 1; k <= reach; k++)
        weights[k] = (float)(leat_math_exp(-0.5 * (k / sigma) * (k / sigma)) / sum);
}

/* For the noise along an axis: the size of the kernel, in both directions, follows from that axis's sigma. */
static void make_blur(const struct elastic_args *args, unsigned axis, struct blur *blur)
{
    blur->reach = (unsigned)(8 * args->sigma[axis] + 1) / 2;
    make_weights(args->sigma[0], blur->reach, blur->across);
    make_weights(args->sigma[1], blur->reach, blur->down);
}

LEAT_INLINE float noise_of(uint64_t draw, unsigned axis)
{
    uint32_t bits = (uint32_t)(axis ? draw : draw >> 32);
    return (float)((int32_t)bits >> 8) * 0x1p-23f;
}

static float noise_at(uint64_t key, unsigned axis, int64_t x, int64_t y, uint32_t w, uint32_t h)
{
    uint64_t column = (uint64_t)leat_padded_index(LEAT_PAD_REFLECT, x, w),
             row = (uint64_t)leat_padded_index(LEAT_PAD_REFLECT, y, h);
    return noise_of(leat_draw_u64(key, row * w + column), axis);
}

static float blurred_across(const struct blur *blur, uint64_t key, unsigned axis, int64_t x, int64_t y, uint32_t w,
                            uint32_t h)
{
    float sum = blur->across[0] * noise_at(key, axis, x, y, w, h);
    for (int64_t k = 1; k <= blur->reach; k++)
        sum += blur->across[k] * (noise_at(key, axis, x - k, y, w, h) + noise_at(key, axis, x + k, y, w, h));
    return sum;
}

/* The displacement of the pixel at (x, y): the number that the rows below have there, found alone. */
static float displacement_at(const struct elastic_args *args, uint64_t key, unsigned axis, int64_t x, int64_t y,
                             uint32_t w, uint32_t h)
{
    struct blur blur;
    make_blur(args, axis, &blur);
    float sum = blur.down[0] * blurred_across(&blur, key, axis, x, y, w, h);
    for (int64_t k = 1; k <= blur.reach; k++)
        sum += blur.down[k] *
               (blurred_across(&blur, key, axis, x, y - k, w, h) + blurred_across(&blur, key, axis, x, y + k, w, h));
    return sum * (float)(args->alpha[axis] / 2);
}

/* ---- rows of it ---- */

/* The scratch, all parts of it multiples of 64 bytes from each other. */
struct room {
    struct blur *blur[2];
    float *line[2]; /* a row of noise, with its continuation beyond the ends */
    float *ring[2], *moved[2];
    const float **rows;
    size_t slot; /* numbers of a row */
    unsigned slots;
};

/* Lays out the scratch from `base` on, without reading it; returns its bytes. */
static size_t lay_out(const struct elastic_args *args, const struct leat_image *in, uint8_t *base, struct room *room)
{
    uint64_t used = 0, slot = (in->w + (uint64_t)BLOCK - 1) / BLOCK * BLOCK, most = 2 * MAX_REACH + 1;
    unsigned reach = (unsigned)(8 * (args->sigma[0] > args->sigma[1] ? args->sigma[0] : args->sigma[1]) + 1) / 2;
    unsigned slots = in->h < 2 * reach + 1 ? in->h : 2 * reach + 1;
    struct room made = {.slot = (size_t)slot, .slots = slots};
    uint64_t at = leat_take64(&used, most * sizeof *made.rows);
    made.rows = base ? (const float **)(void *)(base + at) : NULL;
    for (int axis = 0; axis < 2; axis++) {
        at = leat_take64(&used, sizeof(struct blur));
        made.blur[axis] = base ? (struct blur *)(void *)(base + at) : NULL;
        at = leat_take64(&used, (slot + 2 * reach) * sizeof(float));
        made.line[axis] = base ? (float *)(void *)(base + at) : NULL;
        at = leat_take64(&used, slot * slots * sizeof(float));
        made.ring[axis] = base ? (float *)(void *)(base + at) : NULL;
        at = leat_take64(&used, slot * sizeof(float));
        made.moved[axis] = base ? (float *)(void *)(base + at) : NULL;
    }
    if (room)
        *room = made;
    return used;
}

static void plan_elastic(const void *args, uint64_t key, const struct leat_image *in, struct leat_filter_plan *plan)
{
    plan->scratch = lay_out(args, in, NULL, NULL);
}

/* Blocks of n numbers; reads and writes beyond n have no meaning, and stay in the scratch. */
LEAT_INLINE void across(const float *middle, const struct blur *blur, size_t n, float *restrict dst)
{
    for (size_t done = 0; done < n; done += BLOCK) {
        float sum[BLOCK];
        for (unsigned i = 0; i < BLOCK; i++)
            sum[i] = blur->across[0] * middle[done + i];
        for (unsigned k = 1; k <= blur->reach; k++) {
            const float *a = middle + done - k, *b = middle + done + k, weight = blur->across[k];
            for (unsigned i = 0; i < BLOCK; i++)
                sum[i] += weight * (a[i] + b[i]);
        }
        memcpy(dst + done, sum, sizeof sum);
    }
}

/* rows[reach + k] is the row k below the one that is made. */
LEAT_INLINE void down(const float *const *rows, const struct blur *blur, float alpha, size_t n, float *restrict dst)
{
    const unsigned reach = blur->reach;
    for (size_t done = 0; done < n; done += BLOCK) {
        float sum[BLOCK];
        for (unsigned i = 0; i < BLOCK; i++)
            sum[i] = blur->down[0] * rows[reach][done + i];
        for (unsigned k = 1; k <= reach; k++) {
            const float *a = rows[reach - k] + done, *b = rows[reach + k] + done, weight = blur->down[k];
            for (unsigned i = 0; i < BLOCK; i++)
                sum[i] += weight * (a[i] + b[i]);
        }
        for (unsigned i = 0; i < BLOCK; i++)
            dst[done + i] = sum[i] * (alpha / 2);
    }
}

/* Row y of the noise, blurred across, to its place in the ring. */
LEAT_INLINE void add_row(const struct room *room, uint64_t key, uint32_t y, uint32_t w)
{
    float *const line[2] = {room->line[0] + room->blur[0]->reach, room->line[1] + room->blur[1]->reach};
    for (uint32_t x = 0; x < w; x++) {
        uint64_t draw = leat_draw_u64(key, (uint64_t)y * w + x);
        line[0][x] = noise_of(draw, 0);
        line[1][x] = noise_of(draw, 1);
    }
    for (unsigned axis = 0; axis < 2; axis++) {
        for (int64_t k = 1; k <= room->blur[axis]->reach; k++) {
            line[axis][-k] = line[axis][leat_padded_index(LEAT_PAD_REFLECT, -k, w)];
            line[axis][w + k - 1] = line[axis][leat_padded_index(LEAT_PAD_REFLECT, w + k - 1, w)];
        }
        across(line[axis], room->blur[axis], w, room->ring[axis] + y % room->slots * room->slot);
    }
}

/* ---- pixels ---- */

LEAT_INLINE int32_t place_of(uint32_t at, float moved)
{
    float by = moved * (1 << LEAT_SAMPLE_BITS), whole = (float)(int32_t)by;
    return (int32_t)(at << LEAT_SAMPLE_BITS) + LEAT_SAMPLE_HALF + (int32_t)by - (whole > by);
}

LEAT_INLINE void sample_row(const struct leat_sampler *plain, const uint8_t *fill, leat_sample_fn sample,
                            const struct room *room, const struct leat_image *in, const struct leat_image *out,
                            uint32_t y)
{
    for (uint32_t x = 0; x < in->w; x += BLOCK) {
        int32_t xs[BLOCK], ys[BLOCK];
        for (uint32_t i = 0; i < BLOCK; i++) {
            xs[i] = place_of(x + i, room->moved[0][x + i]);
            ys[i] = place_of(y, room->moved[1][x + i]);
        }
        for (unsigned plane = 0; plane < (in->column == 1 ? in->channels : 1); plane++) {
            struct leat_sampler s = *plain;
            s.base = in->base + plane * in->plane;
            for (unsigned c = 0; c < 4 && c < in->column; c++)
                s.fill[c] = fill[plane + c];
            sample(&s, xs, ys, in->w - x < BLOCK ? in->w - x : BLOCK,
                   out->base + plane * out->plane + y * out->row + (size_t)x * in->column);
        }
    }
}

LEAT_INLINE void bend(const struct elastic_args *args, leat_sample_fn sample, uint64_t key, const struct leat_image *in,
                      const struct leat_image *out, void *scratch)
{
    struct room room;
    uint8_t fill[LEAT_MAX_CHANNELS];
    lay_out(args, in, scratch, &room);
    leat_fill_bytes(&args->fill, out, fill);
    const struct leat_sampler s = {.row = in->row,
                                   .w = in->w,
                                   .h = in->h,
                                   .pixel = (unsigned)in->column,
                                   .filter = out->ids ? LEAT_FILTER_NEAREST : args->filter,
                                   .rounds = true,
                                   .fades = true};
    unsigned reach = 0;
    for (unsigned axis = 0; axis < 2; axis++) {
        make_blur(args, axis, room.blur[axis]);
        reach = room.blur[axis]->reach > reach ? room.blur[axis]->reach : reach;
    }
    for (uint32_t y = 0, have = 0; y < in->h; y++) {
        for (; have < in->h && have <= y + reach; have++)
            add_row(&room, key, have, in->w);
        for (unsigned axis = 0; axis < 2; axis++) {
            const int64_t n = room.blur[axis]->reach;
            for (int64_t k = -n; k <= n; k++)
                room.rows[n + k] = room.ring[axis] +
                                   (size_t)leat_padded_index(LEAT_PAD_REFLECT, y + k, in->h) % room.slots * room.slot;
            down(room.rows, room.blur[axis], (float)args->alpha[axis], in->w, room.moved[axis]);
            for (uint32_t x = in->w; x % BLOCK; x++) /* places are made of whole blocks */
                room.moved[axis][x] = 0;
        }
        sample_row(&s, fill, sample, &room, in, out, y);
    }
}

#if defined(__x86_64__)
static LEAT_TARGET_AVX512 void bend_avx512(const struct elastic_args *args, uint64_t key, const struct leat_image *in,
                                           const struct leat_image *out, void *scratch)
{
    bend(args, leat_sample_avx512, key, in, out, scratch);
}
static LEAT_TARGET_AVX2 void bend_avx2(const struct elastic_args *args, uint64_t key, const struct leat_image *in,
                                       const struct leat_image *out, void *scratch)
{
    bend(args, leat_sample_avx2, key, in, out, scratch);
}
#endif
static void bend_portable(const struct elastic_args *args, uint64_t key, const struct leat_image *in,
                          const struct leat_image *out, void *scratch)
{
    bend(args, leat_sample_portable, key, in, out, scratch);
}

static void bend_on(enum leat_isa isa, const void *args, uint64_t key, const struct leat_image *in,
                    const struct leat_image *out, void *scratch)
{
    LEAT_OF_ISA(isa, bend)(args, key, in, out, scratch);
}

/* ---- targets ---- */

static int64_t inside(double at, uint32_t n)
{
    return at < 0 ? 0 : at < n ? (int64_t)at : (int64_t)n - 1;
}

static double displaced(const struct leat_turn *turn, unsigned axis, int64_t column, int64_t row)
{
    return (double)displacement_at(turn->args, turn->key, axis, column, row, turn->w, turn->h);
}

/* As torchvision: by the displacement of the pixel at the corner, the other way. */
static void bend_corner(const struct leat_turn *turn, float x, float y, float to[2])
{
    const int64_t column = inside(ceil((double)x), turn->w), row = inside(ceil((double)y), turn->h);
    to[0] = (float)((double)column - displaced(turn, 0, column, row));
    to[1] = (float)((double)row - displaced(turn, 1, column, row));
}

#define MOST_STEPS 8

/* The place whose pixel comes from the point: one that is as far from it as it is displaced itself. Each step goes to
 * where the displacement of the pixel at the best place so far says; half as far if that was no better one, as when the
 * image is squeezed to less than half. If it is folded, there may be several such places, or none. */
static void bend_point(const struct leat_turn *turn, bool corner, float x, float y, float to[2])
{
    if (corner) {
        bend_corner(turn, x, y, to);
        return;
    }
    const double from[2] = {(double)x, (double)y};
    double at[2] = {from[0], from[1]}, place[2] = {from[0], from[1]}, by[2] = {0, 0}, best = HUGE_VAL, part = 1;
    int64_t pixel[2] = {-1, -1};
    for (unsigned step = 0; step < MOST_STEPS; step++) {
        const int64_t column = inside(floor(at[0] + 0.5), turn->w), row = inside(floor(at[1] + 0.5), turn->h);
        if (column == pixel[0] && row == pixel[1])
            break;
        const double off[2] = {from[0] - displaced(turn, 0, column, row) - at[0],
                               from[1] - displaced(turn, 1, column, row) - at[1]},
                     far = fmax(fabs(off[0]), fabs(off[1]));
        part = far < best ? 1 : part / 2;
        if (far < best) {
            best = far;
            memcpy(place, at, sizeof place);
            memcpy(by, off, sizeof by);
            pixel[0] = column;
            pixel[1] = row;
        }
        at[0] = place[0] + part * by[0];
        at[1] = place[1] + part * by[1];
    }
    to[0] = (float)at[0];
    to[1] = (float)at[1];
}

static void turn_elastic(const void *args, uint64_t key, struct leat_turn *turn)
{
    turn->point = bend_point;
    turn->args = args;
    turn->key = key;
}

/* Interpolation and fill may differ: a photo and its mask bend alike. */
static bool same_elastic(const void *a, const void *b)
{
    const struct elastic_args *p = a, *q = b;
    return p->alpha[0] == q->alpha[0] && p->alpha[1] == q->alpha[1] && p->sigma[0] == q->sigma[0] &&
           p->sigma[1] == q->sigma[1];
}

const struct leat_op_class leat_op_elastic_transform = {.type = "ElasticTransform",
                                                        .input = LEAT_INPUT_PIXELS,
                                                        .args_bytes = sizeof(struct elastic_args),
                                                        .random = true,
                                                        .same_draw = same_elastic,
                                                        .parse = parse_elastic,
                                                        .infer = infer_elastic,
                                                        .filter = bend_on,
                                                        .plan = plan_elastic,
                                                        .turn = turn_elastic};
