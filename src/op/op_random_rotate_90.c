/*
 * RandomRotate90: counter-clockwise by none to three quarter turns, all alike, without a change of pixels. It comes
 * from Albumentations.
 *
 * Draw 0: below p; 1: the number of quarter turns.
 */
#include <string.h>

#include "base/cpu.h"
#include "base/random.h"
#include "op/operator.h"

struct quarter_args {
    double p;
};

static void parse(void *into, struct leat_args *json)
{
    struct quarter_args *args = into;
    leat_args_double(json, "p", 0, 1, 1, &args->p);
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    if (leat_type_height(type) != leat_type_width(type))
        leat_type_resize(type, -1, -1);
    return LEAT_OK;
}

static unsigned draw_quarters(const void *from, uint64_t key)
{
    const struct quarter_args *args = from;
    return leat_draw_unit(key, 0) < args->p ? (unsigned)leat_draw_below(key, 1, 4) : 0;
}

static bool skips(const void *args, uint64_t key)
{
    return !draw_quarters(args, key);
}

static void plan(const void *args, uint64_t key, const struct leat_image *in, struct leat_filter_plan *plan)
{
    const bool lies = draw_quarters(args, key) & 1;
    plan->w = lies ? in->h : in->w;
    plan->h = lies ? in->w : in->h;
}

/* Squares of so many pixels are read and written while they are in the cache. */
#define BLOCK 32

/* `from`: the pixel that comes to the upper left corner; `across`, `down`: bytes from one to that which comes to its
 * right, or below it. */
LEAT_INLINE void copy_turned(const uint8_t *from, ptrdiff_t across, ptrdiff_t down, const struct leat_image *out,
                             uint8_t *to, size_t pixel)
{
    for (uint32_t top = 0; top < out->h; top += BLOCK)
        for (uint32_t left = 0; left < out->w; left += BLOCK) {
            const uint32_t bottom = out->h - top < BLOCK ? out->h : top + BLOCK,
                           right = out->w - left < BLOCK ? out->w : left + BLOCK;
            for (uint32_t y = top; y < bottom; y++)
                for (uint32_t x = left; x < right; x++)
                    memcpy(to + y * out->row + x * out->column, from + (ptrdiff_t)y * down + (ptrdiff_t)x * across,
                           pixel);
        }
}

static void turn_pixels(enum leat_isa isa, const void *args, uint64_t key, const struct leat_image *in,
                        const struct leat_image *out, void *scratch)
{
    const unsigned quarters = draw_quarters(args, key);
    const ptrdiff_t row = (ptrdiff_t)in->row, column = (ptrdiff_t)in->column;
    const ptrdiff_t across[] = {column, row, -column, -row}, down[] = {row, -column, -row, column};
    const uint8_t *first = in->base;
    first += quarters == 1 || quarters == 2 ? (in->w - 1) * in->column : 0;
    first += quarters >= 2 ? (in->h - 1) * in->row : 0;
    const size_t size = leat_dtype_size(in->dtype);
    const bool whole = in->plane == size && out->plane == size; /* the channels of a pixel lie together */
    const size_t pixel = whole ? size * in->channels : size;
    for (unsigned c = 0; c < (whole ? 1 : in->channels); c++) {
        const uint8_t *from = first + c * in->plane;
        uint8_t *to = out->base + c * out->plane;
        if (pixel == 3)
            copy_turned(from, across[quarters], down[quarters], out, to, 3);
        else if (pixel == 1)
            copy_turned(from, across[quarters], down[quarters], out, to, 1);
        else
            copy_turned(from, across[quarters], down[quarters], out, to, pixel);
    }
}

/* As in a mirror, whole numbers are the middles of pixels for a point, and their edges for the corner of a box. */
static void turn_point(const struct leat_turn *turn, bool corner, float x, float y, float to[2])
{
    const unsigned quarters = draw_quarters(turn->args, turn->key);
    const float right = (float)turn->w - (corner ? 0 : 1) - x, below = (float)turn->h - (corner ? 0 : 1) - y;
    to[0] = quarters == 1 ? y : quarters == 2 ? right : below;
    to[1] = quarters == 1 ? right : quarters == 2 ? below : x;
}

static void turn_targets(const void *args, uint64_t key, struct leat_turn *turn)
{
    const bool lies = draw_quarters(args, key) & 1;
    turn->out_w = lies ? turn->h : turn->w;
    turn->out_h = lies ? turn->w : turn->h;
    turn->point = turn_point;
    turn->args = args;
    turn->key = key;
    turn->whole = true;
}

const struct leat_op_class leat_op_random_rotate_90 = {.type = "RandomRotate90",
                                                       .input = LEAT_INPUT_IMAGE,
                                                       .args_bytes = sizeof(struct quarter_args),
                                                       .random = true,
                                                       .parse = parse,
                                                       .infer = infer,
                                                       .skips = skips,
                                                       .plan = plan,
                                                       .filter = turn_pixels,
                                                       .turn = turn_targets};
