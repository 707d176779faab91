/*
 * Mosaic: four samples in one image, as YOLO trainings have it. Source: Bochkovskiy et al., "YOLOv4: Optimal Speed and
 * Accuracy of Object Detection", 2020; the geometry is that of Ultralytics' trainings.
 *
 * Draw 0: whether to act; 1, 2: across and down, the point where the four meet.
 */
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "op/gather.h"
#include "op/program.h"

static void parse(void *into, struct leat_args *json)
{
    struct leat_gather_args *args = into;
    leat_args_int(json, "size", 1, LEAT_MAX_SIDE / 4, 0, &args->size);
    if (!args->size)
        leat_args_wrong(json, "size", "one number, the longer side of each image");
    leat_args_double(json, "p", 0, 1, 1, &args->p);
    leat_args_fill(json, 114, &args->fill);
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct leat_gather_args *args = from;
    if (!type->codec || type->layout != LEAT_LAYOUT_HWC)
        return leat_op_misfit(place, type, "a photo that Decode made", error);
    leat_type_resize(type, 2 * args->size, 2 * args->size);
    effect->resizes = true;
    return leat_fill_check(&args->fill, place, type, error);
}

/* The longer side becomes `size`. */
static int move_pixels(const void *from, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move,
                       struct leat_error *error)
{
    const struct leat_gather_args *args = from;
    uint64_t size = (uint64_t)args->size, longer = w > h ? w : h;
    uint64_t out_w = (w * size + longer / 2) / longer, out_h = (h * size + longer / 2) / longer;
    move->out_w = out_w ? (uint32_t)out_w : 1;
    move->out_h = out_h ? (uint32_t)out_h : 1;
    move->filter = LEAT_FILTER_ANTIALIAS;
    return LEAT_OK;
}

void leat_mosaic_place(const struct leat_gather_args *args, uint64_t key, unsigned p, unsigned n, uint32_t w,
                       uint32_t h, struct leat_move *move)
{
    const int64_t side = 2 * args->size;
    int64_t x = (side - w) / 2, y = (side - h) / 2;
    if (n > 1) {
        const double size = (double)args->size;
        const int64_t across = (int64_t)(size * (0.5 + leat_draw_unit(key, 1))),
                      down = (int64_t)(size * (0.5 + leat_draw_unit(key, 2)));
        x = p & 1 ? across : across - w;
        y = p & 2 ? down : down - h;
    }
    *move = (struct leat_move){
        .x = -x, .y = -y, .w = side, .h = side, .out_w = (uint32_t)side, .out_h = (uint32_t)side, .crops = true};
}

static bool same_draw(const void *a, const void *b)
{
    const struct leat_gather_args *x = a, *y = b;
    return x->size == y->size && x->p == y->p;
}

const struct leat_op_class leat_op_mosaic = {.type = "Mosaic",
                                             .input = LEAT_INPUT_PIXELS,
                                             .args_bytes = sizeof(struct leat_gather_args),
                                             .random = true,
                                             .gathers = 4,
                                             .parse = parse,
                                             .infer = infer,
                                             .move = move_pixels,
                                             .same_draw = same_draw};
