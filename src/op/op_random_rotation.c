/*
 * RandomRotation: counter-clockwise by a random angle. Arguments and distribution are those of
 * torchvision.transforms.v2, the pixels those of Pillow's Image.rotate (affine.h).
 *
 * Draw 0: the angle.
 */
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "op/affine.h"

struct rotation_args {
    double low, high; /* degrees */
    enum leat_filter filter;
    bool expand, centered;
    double center[2]; /* x, y */
    struct leat_fill fill;
};

static void parse_rotation(void *into, struct leat_args *json)
{
    struct rotation_args *args = into;
    double degrees[2] = {-1, -1};
    unsigned n = leat_args_doubles(json, "degrees", 1, 2, degrees);
    args->low = n == 1 ? -degrees[0] : degrees[0];
    args->high = n == 1 ? degrees[0] : degrees[1];
    if (!n || args->low > args->high || args->low < -1e6 || args->high > 1e6)
        leat_args_wrong(json, "degrees", "a number from 0, or (low, high)");
    args->filter = leat_args_warp(json, LEAT_FILTER_NEAREST);
    leat_args_bool(json, "expand", false, &args->expand);
    args->centered = !leat_args_doubles(json, "center", 2, 2, args->center);
    if (fabs(args->center[0]) > 1e6 || fabs(args->center[1]) > 1e6)
        leat_args_wrong(json, "center", "(x, y) in pixels");
    leat_args_fill(json, 0, &args->fill);
}

static int infer_rotation(const void *from, const struct leat_place *place, struct leat_type *type,
                          struct leat_effect *effect, struct leat_error *error)
{
    const struct rotation_args *args = from;
    if (args->expand)
        leat_type_resize(type, -1, -1);
    return leat_fill_check(&args->fill, place, type, error);
}

static double draw_angle(const struct rotation_args *args, uint64_t key)
{
    return args->low + leat_draw_unit(key, 0) * (args->high - args->low);
}

/* The source of pixels of the result: x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5]. */
struct affine {
    double m[6];
    uint32_t w, h; /* of the result */
};

static struct affine find_affine(const struct rotation_args *args, uint64_t key, uint32_t w, uint32_t h)
{
    double x = args->centered ? w / 2.0 : args->center[0], y = args->centered ? h / 2.0 : args->center[1];
    struct affine a = {.w = w, .h = h};
    leat_affine_rotate(draw_angle(args, key), x, y, a.m);
    const double c = a.m[0], s = a.m[1];
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
    leat_affine_move_origin(a.m, -((double)a.w - w) / 2.0, -((double)a.h - h) / 2.0);
    return a;
}

static void plan_rotation(const void *args, uint64_t key, const struct leat_image *in, struct leat_filter_plan *plan)
{
    struct affine a = find_affine(args, key, in->w, in->h);
    plan->w = a.w;
    plan->h = a.h;
}

static void turn_points(const void *args, uint64_t key, struct leat_turn *turn)
{
    const struct affine a = find_affine(args, key, turn->w, turn->h);
    leat_affine_turn(a.m, turn);
    turn->out_w = a.w;
    turn->out_h = a.h;
}

static void turn(enum leat_isa isa, const void *from, uint64_t key, const struct leat_image *in,
                 const struct leat_image *out, void *scratch)
{
    const struct rotation_args *args = from;
    const struct affine a = find_affine(args, key, in->w, in->h);
    uint8_t fill[LEAT_MAX_CHANNELS];
    leat_fill_bytes(&args->fill, out, fill);
    leat_affine(isa, in, out, a.m, args->filter, fill);
}

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
                                                      .filter = turn,
                                                      .plan = plan_rotation,
                                                      .turn = turn_points};
