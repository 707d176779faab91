/*
 * RandomRotation: counter-clockwise by a random angle. Arguments and distribution are those of
 * torchvision.transforms.v2, the pixels those of Pillow's Image.rotate: nearest in its fixed point, byte for byte;
 * bilinear within 1.
 *
 * Draw 0: the angle.
 */
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "kernels/values.h"
#include "op/elementary.h"
#include "op/filter.h"

LEAT_VECTORIZE

#define FRACTION_BITS 11 /* of the weights of a bilinear pixel */

struct rotation_args {
    double low, high; /* degrees */
    bool bilinear, expand, centered;
    double center[2]; /* x, y */
    unsigned n_fill;
    double fill[LEAT_MAX_CHANNELS];
};

static void parse_rotation(void *into, struct leat_args *json)
{
    static const char *const words[] = {"nearest", "bilinear", NULL};
    struct rotation_args *args = into;
    double degrees[2] = {-1, -1};
    unsigned n = leat_args_doubles(json, "degrees", 1, 2, degrees), word;
    args->low = n == 1 ? -degrees[0] : degrees[0];
    args->high = n == 1 ? degrees[0] : degrees[1];
    if (!n || args->low > args->high || args->low < -1e6 || args->high > 1e6)
        leat_args_wrong(json, "degrees", "a number from 0, or (low, high)");
    leat_args_word(json, "interpolation", words, 0, &word);
    args->bilinear = word == 1;
    leat_args_bool(json, "expand", false, &args->expand);
    args->centered = !leat_args_doubles(json, "center", 2, 2, args->center);
    if (fabs(args->center[0]) > 1e6 || fabs(args->center[1]) > 1e6)
        leat_args_wrong(json, "center", "(x, y) in pixels");
    args->n_fill = leat_args_doubles(json, "fill", 1, LEAT_MAX_CHANNELS, args->fill);
}

static int infer_rotation(const void *from, const struct leat_place *place, struct leat_type *type,
                          struct leat_effect *effect, struct leat_error *error)
{
    const struct rotation_args *args = from;
    if (args->n_fill > 1 && args->n_fill != leat_type_channels(type))
        return leat_op_misfit(place, type, "one fill, or one per channel", error);
    if (args->expand)
        leat_type_resize(type, -1, -1);
    return LEAT_OK;
}

static double draw_angle(const struct rotation_args *args, uint64_t key)
{
    return args->low + leat_draw_unit(key, 0) * (args->high - args->low);
}

/* Where pixels of the result come from: x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5]. */
struct affine {
    double m[6];
    uint32_t w, h; /* of the result */
};

static double round_15(double x)
{
    return (double)leat_round_even(x * 1e15) / 1e15;
}

static void move_origin(double *m, double x, double y)
{
    m[2] += m[0] * x + m[1] * y;
    m[5] += m[3] * x + m[4] * y;
}

static struct affine find_affine(const struct rotation_args *args, uint64_t key, uint32_t w, uint32_t h)
{
    double angle = -fmod(draw_angle(args, key), 360.0) * 0x1.1df46a2529d39p-6, c = round_15(leat_math_cos(angle)),
           s = round_15(leat_math_sin(angle));
    double x = args->centered ? w / 2.0 : args->center[0], y = args->centered ? h / 2.0 : args->center[1];
    struct affine a = {.m = {c, s, 0, -s, c, 0}, .w = w, .h = h};
    move_origin(a.m, -x, -y);
    a.m[2] += x;
    a.m[5] += y;
    if (!args->expand)
        return a;
    double low[2] = {a.m[2], a.m[5]}, high[2] = {a.m[2], a.m[5]};
    for (int corner = 1; corner < 4; corner++)
        for (int axis = 0; axis < 2; axis++) {
            const double *m = a.m + 3 * axis;
            double at = m[0] * (corner & 1 ? w : 0) + m[1] * (corner & 2 ? h : 0) + m[2];
            low[axis] = at < low[axis] ? at : low[axis];
            high[axis] = at > high[axis] ? at : high[axis];
        }
    bool right = args->centered && (c == 0 || s == 0); /* by right angles about the middle: no part of a pixel more */
    a.w = right ? (c == 0 ? h : w) : (uint32_t)(ceil(high[0]) - floor(low[0]));
    a.h = right ? (c == 0 ? w : h) : (uint32_t)(ceil(high[1]) - floor(low[1]));
    move_origin(a.m, -((double)a.w - w) / 2.0, -((double)a.h - h) / 2.0);
    return a;
}

static void plan_rotation(const void *args, uint64_t key, const struct leat_image *in, struct leat_filter_plan *plan)
{
    struct affine a = find_affine(args, key, in->w, in->h);
    plan->w = a.w;
    plan->h = a.h;
}

static void turn_points(const void *args, uint64_t key, uint32_t w, uint32_t h, struct leat_turn *turn)
{
    const struct affine a = find_affine(args, key, w, h);
    const double c = a.m[0], s = a.m[1];
    *turn = (struct leat_turn){.m = {c, -s, 0, s, c, 0}, .out_w = a.w, .out_h = a.h};
    move_origin(turn->m, -a.m[2], -a.m[5]);
}

struct fixed {
    int64_t m[6]; /* of the middles of pixels */
    unsigned bits;
};

/* Pillow's 16 bits of fraction where positions have 15 before them; 32 where not, and between pixels. */
static struct fixed fix(const struct affine *a, bool fine)
{
    struct fixed f = {.bits = 16};
    for (int corner = 0; corner < 4; corner++)
        for (int axis = 0; axis < 2; axis++) {
            const double *m = a->m + 3 * axis;
            fine = fine || fabs(m[0] * (corner & 1 ? a->w : 0) + m[1] * (corner & 2 ? a->h : 0) + m[2]) >= 32768;
        }
    f.bits = fine ? 32 : 16;
    for (int i = 0; i < 6; i++) {
        double middle = i % 3 == 2 ? 0.5 * (a->m[i - 2] + a->m[i - 1]) : 0;
        f.m[i] = (int64_t)floor((a->m[i] + middle) * (double)(INT64_C(1) << f.bits) + 0.5);
    }
    return f;
}

LEAT_INLINE int64_t clip(int64_t at, uint32_t n)
{
    return at < 0 ? 0 : at < n ? at : n - 1;
}

/* `size` bytes of the result between four pixels. */
LEAT_INLINE void between(const struct leat_image *in, const uint8_t *base, unsigned size, int64_t xx, int64_t yy,
                         uint8_t *dst)
{
    xx -= INT64_C(1) << 31;
    yy -= INT64_C(1) << 31;
    uint32_t dx = (uint32_t)xx >> (32 - FRACTION_BITS), dy = (uint32_t)yy >> (32 - FRACTION_BITS);
    int64_t x = xx >> 32, y = yy >> 32;
    const uint8_t *top = base + (size_t)clip(y, in->h) * in->row, *bottom = base + (size_t)clip(y + 1, in->h) * in->row;
    size_t left = (size_t)clip(x, in->w) * size, right = (size_t)clip(x + 1, in->w) * size;
    for (unsigned c = 0; c < size; c++) {
        uint32_t tl = top[left + c], tr = top[right + c], bl = bottom[left + c], br = bottom[right + c];
        uint32_t a = (tl << FRACTION_BITS) + dx * (tr - tl), b = (bl << FRACTION_BITS) + dx * (br - bl);
        dst[c] = (uint8_t)(((a << FRACTION_BITS) + dy * (b - a)) >> (2 * FRACTION_BITS));
    }
}

LEAT_INLINE void turn_plane(const struct leat_image *in, const struct leat_image *out, unsigned plane, unsigned size,
                            const struct fixed *f, bool bilinear, const uint8_t *fill)
{
    const uint8_t *base = in->base + plane * in->plane;
    for (uint32_t y = 0; y < out->h; y++) {
        uint8_t *dst = out->base + plane * out->plane + y * out->row;
        int64_t xx = f->m[2] + y * f->m[1], yy = f->m[5] + y * f->m[4];
        for (uint32_t x = 0; x < out->w; x++, dst += size, xx += f->m[0], yy += f->m[3]) {
            uint64_t column = (uint64_t)(xx >> f->bits), row = (uint64_t)(yy >> f->bits); /* below 0: beyond any size */
            if (column >= in->w || row >= in->h)
                memcpy(dst, fill, size);
            else if (bilinear)
                between(in, base, size, xx, yy, dst);
            else
                memcpy(dst, base + row * in->row + column * size, size);
        }
    }
}

LEAT_INLINE void turn(const void *from, uint64_t key, const struct leat_image *in, const struct leat_image *out,
                      void *scratch)
{
    const struct rotation_args *args = from;
    struct affine a = find_affine(args, key, in->w, in->h);
    const bool bilinear = args->bilinear && !out->ids;
    struct fixed f = fix(&a, bilinear);
    uint8_t fill[LEAT_MAX_CHANNELS] = {0};
    for (unsigned c = 0; c < in->channels && args->n_fill; c++)
        leat_values_convert(LEAT_F64, LEAT_U8, &args->fill[args->n_fill > 1 ? c : 0], &fill[c], 1);
    for (unsigned plane = 0; plane < (in->column == 1 ? in->channels : 1); plane++) {
        if (in->column == 3 && bilinear)
            turn_plane(in, out, plane, 3, &f, true, fill);
        else if (in->column == 3)
            turn_plane(in, out, plane, 3, &f, false, fill);
        else if (in->column == 1)
            turn_plane(in, out, plane, 1, &f, bilinear, fill + plane);
        else
            turn_plane(in, out, plane, (unsigned)in->column, &f, bilinear, fill);
    }
}
LEAT_FILTER_FOR_EACH_ISA(turn)

/* Interpolation and fill may differ: a photo and its mask turn alike. */
static bool same_draw(const void *a, const void *b)
{
    const struct rotation_args *p = a, *q = b;
    return p->low == q->low && p->high == q->high && p->expand == q->expand && p->centered == q->centered &&
           p->center[0] == q->center[0] && p->center[1] == q->center[1];
}

const struct leat_op_class leat_op_random_rotation = {.type = "RandomRotation",
                                                      .input = LEAT_INPUT_PIXELS,
                                                      .args_bytes = sizeof(struct rotation_args),
                                                      .random = true,
                                                      .same_draw = same_draw,
                                                      .parse = parse_rotation,
                                                      .infer = infer_rotation,
                                                      .filter = turn_on,
                                                      .plan = plan_rotation,
                                                      .turn = turn_points};
