/*
 * RandomPerspective: seen from the side, its corners moved inwards. Arguments and distribution are those of
 * torchvision.transforms.v2, the pixels those of Pillow's Image.transform (affine.h).
 *
 * Draw 0: below p; 1 to 8: x and y of the upper left corner, the upper right, the lower right and the lower left one.
 */
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "op/affine.h"

struct perspective_args {
    double scale, p;
    enum leat_filter filter;
    struct leat_fill fill;
};

static void parse_perspective(void *into, struct leat_args *json)
{
    struct perspective_args *args = into;
    leat_args_double(json, "distortion_scale", 0, 1, 0.5, &args->scale);
    leat_args_double(json, "p", 0, 1, 0.5, &args->p);
    args->filter = leat_args_warp(json, LEAT_FILTER_BILINEAR);
    leat_args_fill(json, 0, &args->fill);
}

static int infer_perspective(const void *args, const struct leat_place *place, struct leat_type *type,
                             struct leat_effect *effect, struct leat_error *error)
{
    return leat_fill_check(&((const struct perspective_args *)args)->fill, place, type, error);
}

static bool skips(const void *args, uint64_t key)
{
    return leat_draw_unit(key, 0) >= ((const struct perspective_args *)args)->p;
}

/* The destinations of the corners, in the order of the draws. */
static void draw_corners(const struct perspective_args *args, uint64_t key, uint32_t w, uint32_t h, double to[4][2])
{
    const uint32_t sides[2] = {w, h};
    for (unsigned corner = 0; corner < 4; corner++)
        for (unsigned axis = 0; axis < 2; axis++) {
            uint64_t bound = (uint64_t)(args->scale * (sides[axis] / 2)) + 1,
                     by = leat_draw_below(key, 1 + 2 * corner + axis, bound);
            bool far = axis ? corner >= 2 : corner == 1 || corner == 2;
            to[corner][axis] = (double)(far ? sides[axis] - bound + by : by);
        }
}

/* Solves the equations a x = b of n unknowns, b being column n. False: there is no one solution. */
enum { UNKNOWN = 8 };
static bool solve(double a[UNKNOWN][UNKNOWN + 1], double *x)
{
    for (int i = 0; i < UNKNOWN; i++) {
        int best = i;
        for (int k = i + 1; k < UNKNOWN; k++)
            best = fabs(a[k][i]) > fabs(a[best][i]) ? k : best;
        if (fabs(a[best][i]) < 1e-9)
            return false;
        double row[UNKNOWN + 1];
        memcpy(row, a[best], sizeof row);
        memcpy(a[best], a[i], sizeof row);
        memcpy(a[i], row, sizeof row);
        for (int k = i + 1; k < UNKNOWN; k++) {
            double factor = a[k][i] / row[i];
            for (int c = i; c <= UNKNOWN; c++)
                a[k][c] -= factor * row[c];
        }
    }
    for (int i = UNKNOWN - 1; i >= 0; i--) {
        x[i] = a[i][UNKNOWN];
        for (int k = i + 1; k < UNKNOWN; k++)
            x[i] -= a[i][k] * x[k];
        x[i] /= a[i][i];
    }
    return true;
}

/* The map that takes the drawn corners to those of the image; if there is none, because corners meet, the one that
 * leaves everything in place. */
static void draw_perspective(const struct perspective_args *args, uint64_t key, uint32_t w, uint32_t h, double m[8])
{
    double to[4][2], a[UNKNOWN][UNKNOWN + 1];
    draw_corners(args, key, w, h, to);
    for (unsigned i = 0; i < 4; i++) {
        const double x = to[i][0], y = to[i][1], from_x = i == 1 || i == 2 ? w - 1.0 : 0, from_y = i >= 2 ? h - 1.0 : 0;
        const double rows[2][UNKNOWN + 1] = {{x, y, 1, 0, 0, 0, -from_x * x, -from_x * y, from_x},
                                             {0, 0, 0, x, y, 1, -from_y * x, -from_y * y, from_y}};
        memcpy(a[2 * i], rows, sizeof rows);
    }
    if (!solve(a, m))
        memcpy(m, (const double[8]){1, 0, 0, 0, 1}, 8 * sizeof *m);
}

static void warp_perspective(enum leat_isa isa, const void *from, uint64_t key, const struct leat_image *in,
                             const struct leat_image *out, void *scratch)
{
    const struct perspective_args *args = from;
    uint8_t fill[LEAT_MAX_CHANNELS];
    double m[8];
    leat_fill_bytes(&args->fill, out, fill);
    draw_perspective(args, key, in->w, in->h, m);
    leat_perspective(isa, in, out, m, args->filter, fill);
}

static void turn_perspective(const void *args, uint64_t key, struct leat_turn *turn)
{
    double m[8];
    draw_perspective(args, key, turn->w, turn->h, m);
    leat_perspective_turn(m, turn);
}

/* Interpolation and fill may differ: a photo and its mask move alike. */
static bool same_perspective(const void *a, const void *b)
{
    const struct perspective_args *p = a, *q = b;
    return p->scale == q->scale && p->p == q->p;
}

const struct leat_op_class leat_op_random_perspective = {.type = "RandomPerspective",
                                                         .input = LEAT_INPUT_PIXELS,
                                                         .args_bytes = sizeof(struct perspective_args),
                                                         .random = true,
                                                         .same_draw = same_perspective,
                                                         .parse = parse_perspective,
                                                         .infer = infer_perspective,
                                                         .skips = skips,
                                                         .filter = warp_perspective,
                                                         .turn = turn_perspective};
