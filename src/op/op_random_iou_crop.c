/*
 * RandomIoUCrop: a crop that keeps objects, drawn by the boxes as they are at this point of the chain. Source: Liu et
 * al., "SSD: Single Shot MultiBox Detector", ECCV 2016; arguments and distribution are those of
 * torchvision.transforms.v2.
 *
 * Rounds follow one another, each of 1 + 4 * trials draws: which option; then for each try width, height, left, top. A
 * round of the option 1 or more leaves the image whole. torchvision tries without end; here the image stays whole after
 * ROUNDS of them, which by its own options happens once in 10^17 rows.
 */
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "op/joint.h"

#define ROUNDS 256
#define MAX_OPTIONS 64

struct iou_args {
    double scale[2], ratio[2];
    double options[MAX_OPTIONS];
    unsigned n_options;
    int64_t trials;
};

static void parse(void *into, struct leat_args *json)
{
    static const double usual[] = {0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0};
    struct iou_args *args = into;
    leat_args_double(json, "min_scale", 0, 1, 0.3, &args->scale[0]);
    leat_args_double(json, "max_scale", 0, 1, 1.0, &args->scale[1]);
    leat_args_double(json, "min_aspect_ratio", 1e-6, 1e6, 0.5, &args->ratio[0]);
    leat_args_double(json, "max_aspect_ratio", 1e-6, 1e6, 2.0, &args->ratio[1]);
    leat_args_int(json, "trials", 1, 100000, 40, &args->trials);
    args->n_options = leat_args_doubles(json, "sampler_options", 1, MAX_OPTIONS, args->options);
    if (!args->n_options) {
        args->n_options = sizeof usual / sizeof *usual;
        memcpy(args->options, usual, sizeof usual);
    }
    if (args->scale[0] > args->scale[1])
        leat_args_wrong(json, "max_scale", "no less than min_scale");
    if (args->ratio[0] > args->ratio[1])
        leat_args_wrong(json, "max_aspect_ratio", "no less than min_aspect_ratio");
}

static const struct leat_target_part *boxes_of(const struct leat_targets *t)
{
    const struct leat_target_part *part = t->parts;
    while (!leat_role_is_boxes(part->role)) /* there is one: compiling has seen to it */
        part++;
    return part;
}

static bool has_centre(const float *b, const struct leat_move *m)
{
    float x = 0.5f * (b[0] + b[2]), y = 0.5f * (b[1] + b[3]);
    return (float)m->x < x && x < (float)(m->x + m->w) && (float)m->y < y && y < (float)(m->y + m->h);
}

/* Intersection over union with the crop. */
static float overlap(const float *b, const struct leat_move *m)
{
    float x0 = (float)m->x, y0 = (float)m->y, x1 = (float)(m->x + m->w), y1 = (float)(m->y + m->h);
    float w = fminf(b[2], x1) - fmaxf(b[0], x0), h = fminf(b[3], y1) - fmaxf(b[1], y0);
    float common = w > 0 && h > 0 ? w * h : 0;
    return common / ((b[2] - b[0]) * (b[3] - b[1]) + (x1 - x0) * (y1 - y0) - common);
}

/* Whether a crop keeps the middle of some box, and one of these overlaps it by as much as the option demands. */
static bool keeps(const struct leat_target_part *boxes, const struct leat_move *m, double option)
{
    for (uint64_t i = 0; i < boxes->n; i++) {
        float b[4];
        memcpy(b, leat_target_boxes(boxes) + 4 * i, sizeof b);
        leat_boxes_convert(b, 1, boxes->role, LEAT_ROLE_BOXES_XYXY);
        if (has_centre(b, m) && (double)overlap(b, m) >= option)
            return true;
    }
    return false;
}

/* One try, of draws from `at` on. */
static bool try_box(const struct iou_args *args, uint64_t key, uint64_t at, const struct leat_targets *t,
                    struct leat_move *m)
{
    double range = args->scale[1] - args->scale[0];
    m->w = (int64_t)(t->w * (args->scale[0] + range * leat_draw_unit(key, at)));
    m->h = (int64_t)(t->h * (args->scale[0] + range * leat_draw_unit(key, at + 1)));
    if (!m->w || !m->h)
        return false;
    double ratio = (double)m->w / (double)m->h;
    if (ratio < args->ratio[0] || ratio > args->ratio[1])
        return false;
    m->x = (int64_t)((double)(t->w - m->w) * leat_draw_unit(key, at + 2));
    m->y = (int64_t)((double)(t->h - m->h) * leat_draw_unit(key, at + 3));
    return true;
}

/* Boxes whose middle is left behind become empty at the corner, as SanitizeBoundingBoxes leaves them out. */
static void empty_others(const struct leat_target_part *boxes, const struct leat_move *m)
{
    for (uint64_t i = 0; i < boxes->n; i++) {
        float b[4], *at = leat_target_boxes(boxes) + 4 * i;
        memcpy(b, at, sizeof b);
        leat_boxes_convert(b, 1, boxes->role, LEAT_ROLE_BOXES_XYXY);
        if (!has_centre(b, m))
            memset(at, 0, sizeof b);
    }
}

static void aim(const void *from, uint64_t key, struct leat_targets *t, struct leat_move *move)
{
    const struct iou_args *args = from;
    const struct leat_target_part *boxes = boxes_of(t);
    uint64_t each = 1 + 4 * (uint64_t)args->trials;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        double option = args->options[leat_draw_below(key, round * each, args->n_options)];
        if (option >= 1)
            return;
        for (uint64_t k = 0; boxes->n && k < (uint64_t)args->trials; k++) {
            struct leat_move m = *move;
            if (!try_box(args, key, round * each + 1 + 4 * k, t, &m) || !keeps(boxes, &m, option))
                continue;
            m.out_w = (uint32_t)m.w;
            m.out_h = (uint32_t)m.h;
            m.crops = true;
            *move = m;
            empty_others(boxes, &m);
            return;
        }
    }
}

static void widest(const void *from, unsigned shape, uint32_t w, uint32_t h, struct leat_move *move)
{
    const struct iou_args *args = from;
    double low = (double)w / args->ratio[1], wide = (double)h * args->ratio[0];
    if (shape == 1 && low < h)
        move->h = low < 1 ? 1 : (int64_t)low;
    if (shape == 2 && wide < w)
        move->w = wide < 1 ? 1 : (int64_t)wide;
    move->out_w = (uint32_t)move->w;
    move->out_h = (uint32_t)move->h;
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    leat_type_resize(type, -1, -1);
    return LEAT_OK;
}

const struct leat_op_class leat_op_random_iou_crop = {.type = "RandomIoUCrop",
                                                      .input = LEAT_INPUT_IMAGE,
                                                      .args_bytes = sizeof(struct iou_args),
                                                      .random = true,
                                                      .parse = parse,
                                                      .infer = infer,
                                                      .aim = aim,
                                                      .widest = widest};
