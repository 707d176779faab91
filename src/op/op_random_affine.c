/*
 * RandomAffine: turned, moved, scaled and sheared about a point that stays in place. Arguments and distribution are
 * those of torchvision.transforms.v2, the pixels those of Pillow's Image.transform (affine.h).
 *
 * Draw 0: the angle; 1, 2: by how much it is moved right and down; 3: the scale; 4, 5: the shears of both axes.
 */
#include <math.h>

#include "base/elementary.h"
#include "base/random.h"
#include "op/affine.h"

struct affine_args {
    double angle[2], translate[2], scale[2], shear[4]; /* degrees; parts of the sides */
    bool centered;
    double center[2]; /* x, y */
    enum leat_filter filter;
    struct leat_fill fill;
};

static void parse_affine(void *into, struct leat_args *json)
{
    struct affine_args *args = into;
    double degrees[2] = {-1, -1};
    unsigned n = leat_args_doubles(json, "degrees", 1, 2, degrees);
    args->angle[0] = n == 1 ? -degrees[0] : degrees[0];
    args->angle[1] = n == 1 ? degrees[0] : degrees[1];
    if (!n || args->angle[0] > args->angle[1] || args->angle[0] < -1e6 || args->angle[1] > 1e6)
        leat_args_wrong(json, "degrees", "a number from 0, or (low, high)");
    leat_args_doubles(json, "translate", 2, 2, args->translate);
    for (int i = 0; i < 2; i++)
        if (args->translate[i] < 0 || args->translate[i] > 1)
            leat_args_wrong(json, "translate", "two numbers from 0 to 1, parts of width and height");
    args->scale[0] = args->scale[1] = 1;
    leat_args_doubles(json, "scale", 2, 2, args->scale);
    if (args->scale[0] < 1e-6 || args->scale[0] > args->scale[1] || args->scale[1] > 1e6)
        leat_args_wrong(json, "scale", "(low, high) with 0 < low <= high");
    n = leat_args_doubles(json, "shear", 1, 4, args->shear);
    if (n == 1) {
        args->shear[1] = args->shear[0];
        args->shear[0] = -args->shear[0];
    }
    for (int i = 0; i < 4; i += 2)
        if (n == 3 || args->shear[i] > args->shear[i + 1] || args->shear[i] <= -90 || args->shear[i + 1] >= 90)
            leat_args_wrong(json, "shear", "a number from 0, (low, high), or both of x and of y, between -90 and 90");
    args->filter = leat_args_warp(json, LEAT_FILTER_NEAREST);
    leat_args_fill(json, 0, &args->fill);
    args->centered = !leat_args_doubles(json, "center", 2, 2, args->center);
    if (fabs(args->center[0]) > 1e6 || fabs(args->center[1]) > 1e6)
        leat_args_wrong(json, "center", "(x, y) in pixels");
}

static int infer_affine(const void *args, const struct leat_place *place, struct leat_type *type,
                        struct leat_effect *effect, struct leat_error *error)
{
    return leat_fill_check(&((const struct affine_args *)args)->fill, place, type, error);
}

static double draw_between(uint64_t key, uint64_t counter, const double range[2])
{
    return range[0] + leat_draw_unit(key, counter) * (range[1] - range[0]);
}

/* Moves by whole pixels. */
static double draw_shift(uint64_t key, uint64_t counter, double part, uint32_t side)
{
    double most = part * side;
    return (double)leat_round_even((2 * leat_draw_unit(key, counter) - 1) * most);
}

static double radians(double degrees)
{
    return fmod(degrees, 360.0) * 0x1.1df46a2529d39p-6;
}

/* The inverse of: to the center, shear, scale and turn, back again, and move. */
static void draw_affine(const struct affine_args *args, uint64_t key, uint32_t w, uint32_t h, double m[6])
{
    const double angle = radians(draw_between(key, 0, args->angle)), scale = draw_between(key, 3, args->scale),
                 shear_x = radians(draw_between(key, 4, args->shear)),
                 shear_y = radians(draw_between(key, 5, args->shear + 2));
    const double x = args->centered ? w * 0.5 : args->center[0], y = args->centered ? h * 0.5 : args->center[1];
    const double tan_x = leat_math_sin(shear_x) / leat_math_cos(shear_x), cos_y = leat_math_cos(shear_y);
    const double a = leat_math_cos(angle - shear_y) / cos_y, b = -(a * tan_x + leat_math_sin(angle)),
                 c = leat_math_sin(angle - shear_y) / cos_y, d = leat_math_cos(angle) - c * tan_x;
    m[0] = d / scale;
    m[1] = -b / scale;
    m[3] = -c / scale;
    m[4] = a / scale;
    m[2] = x;
    m[5] = y;
    leat_affine_move_origin(m, -(x + draw_shift(key, 1, args->translate[0], w)),
                            -(y + draw_shift(key, 2, args->translate[1], h)));
}

static void warp_affine(enum leat_isa isa, const void *from, uint64_t key, const struct leat_image *in,
                        const struct leat_image *out, void *scratch)
{
    const struct affine_args *args = from;
    uint8_t fill[LEAT_MAX_CHANNELS];
    double m[6];
    leat_fill_bytes(&args->fill, out, fill);
    draw_affine(args, key, in->w, in->h, m);
    leat_affine(isa, in, out, m, args->filter, fill);
}

static void turn_affine(const void *args, uint64_t key, struct leat_turn *turn)
{
    double m[6];
    draw_affine(args, key, turn->w, turn->h, m);
    leat_affine_turn(m, turn);
}

/* Interpolation and fill may differ: a photo and its mask move alike. */
static bool same_affine(const void *a, const void *b)
{
    const struct affine_args *p = a, *q = b;
    bool same = p->centered == q->centered;
    for (int i = 0; i < 4; i++)
        same = same && p->shear[i] == q->shear[i];
    for (int i = 0; i < 2; i++)
        same = same && p->angle[i] == q->angle[i] && p->translate[i] == q->translate[i] && p->scale[i] == q->scale[i] &&
               p->center[i] == q->center[i];
    return same;
}

const struct leat_op_class leat_op_random_affine = {.type = "RandomAffine",
                                                    .input = LEAT_INPUT_PIXELS,
                                                    .args_bytes = sizeof(struct affine_args),
                                                    .random = true,
                                                    .same_draw = same_affine,
                                                    .parse = parse_affine,
                                                    .infer = infer_affine,
                                                    .filter = warp_affine,
                                                    .turn = turn_affine};
