/*
 * RandomErasing: a box of the image becomes a constant, or normal noise. Arguments and distributions are those of
 * torchvision.transforms.v2, source: Zhong et al., "Random erasing data augmentation", 2017.
 *
 * Draws: 0: below p; 2i + 1 and 2i + 2: area and ratio of try i of 10; 21: top, 22: left; row y of channel c of a box
 * of height h takes its normal numbers (normal.h) from draw 23 + (c h + y) D on, D being the draws that one row takes.
 */
#include <math.h>

#include "base/elementary.h"
#include "base/error.h"
#include "kernels/values.h"
#include "op/filter.h"

LEAT_VECTORIZE

#include "op/normal.h"

enum { TRIES = 10 };

struct erasing_args {
    double p, scale[2], log_ratio[2], value[LEAT_MAX_CHANNELS];
    unsigned n_values; /* 0: noise */
};

static void parse(void *into, struct leat_args *json)
{
    struct erasing_args *args = into;
    double scale[2] = {0.02, 0.33}, ratio[2] = {0.3, 3.3};
    bool inplace; /* torchvision's; it makes no difference */
    leat_args_double(json, "p", 0, 1, 0.5, &args->p);
    if (leat_args_doubles(json, "scale", 1, 2, scale) == 1 || scale[0] < 0 || scale[0] > scale[1] || scale[1] > 1)
        leat_args_wrong(json, "scale", "(low, high) within 0 and 1");
    if (leat_args_doubles(json, "ratio", 1, 2, ratio) == 1 || ratio[0] <= 0 || ratio[0] > ratio[1] || ratio[1] > 1e6)
        leat_args_wrong(json, "ratio", "(low, high) above 0");
    const char *word = json_is_string(leat_args_get(json, "value")) ? leat_args_text(json, "value") : NULL;
    if (word && strcmp(word, "random"))
        leat_args_wrong(json, "value", "a number, one per channel, or \"random\"");
    if (!word)
        args->n_values = leat_args_doubles(json, "value", 1, LEAT_MAX_CHANNELS, args->value);
    if (!word && !args->n_values)
        args->n_values = 1;
    leat_args_bool(json, "inplace", false, &inplace);
    for (int i = 0; i < 2; i++) {
        args->scale[i] = scale[i];
        args->log_ratio[i] = leat_math_log(ratio[i] > 0 ? ratio[i] : 1);
    }
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct erasing_args *args = from;
    if (args->n_values > 1 && args->n_values != leat_type_channels(type))
        return leat_op_misfit(place, type, "an image with as many channels as value has numbers", error);
    int rc = LEAT_OK;
    for (unsigned c = 0; !rc && c < args->n_values; c++)
        rc = leat_check_held(place, "boxes", type->dtype, leat_color_of(args->value[c], type->dtype), error);
    return rc;
}

static bool skips(const void *from, uint64_t key)
{
    const struct erasing_args *args = from;
    return !(leat_draw_unit(key, 0) < args->p);
}

struct box {
    uint32_t x, y, w, h; /* w = 0: no box fits */
};

static struct box draw_box(const struct erasing_args *args, uint64_t key, uint32_t w, uint32_t h)
{
    for (unsigned i = 0; i < TRIES; i++) {
        double area =
            (double)w * h * (args->scale[0] + leat_draw_unit(key, 2 * i + 1) * (args->scale[1] - args->scale[0]));
        double ratio = leat_math_exp(args->log_ratio[0] +
                                     leat_draw_unit(key, 2 * i + 2) * (args->log_ratio[1] - args->log_ratio[0]));
        int64_t box_h = leat_round_even(sqrt(area * ratio)), box_w = leat_round_even(sqrt(area / ratio));
        if (box_h < h && box_w < w)
            return (struct box){.y = (uint32_t)leat_draw_below(key, 21, (uint64_t)(h - box_h + 1)),
                                .x = (uint32_t)leat_draw_below(key, 22, (uint64_t)(w - box_w + 1)),
                                .w = (uint32_t)box_w,
                                .h = (uint32_t)box_h};
    }
    return (struct box){0};
}

#define ALIGN(n) (((size_t)(n) + LEAT_NORMAL_BLOCK - 1) & ~(size_t)(LEAT_NORMAL_BLOCK - 1))

/* A row of noise, and of values of the image's type. */
static void plan(const void *from, uint64_t key, const struct leat_image *in, struct leat_filter_plan *plan)
{
    plan->scratch = ALIGN(in->w) * (sizeof(float) + 8);
}

LEAT_INLINE void noise_row(uint64_t key, uint64_t first, enum leat_dtype dtype, size_t n, float *normal,
                           uint8_t *values)
{
    leat_normals(key, first, n, normal);
    leat_values_convert(LEAT_F32, dtype, normal, values, n);
}

static void spread(const uint8_t *values, size_t size, size_t step, size_t n, uint8_t *dst, size_t column)
{
    for (size_t i = 0; i < n; i++)
        memcpy(dst + i * column, values + i * step, size);
}

/* The planes of an image: all channels of packed pixels are one. */
LEAT_INLINE unsigned planes_of(const struct leat_image *image, size_t size)
{
    return image->column == size ? image->channels : 1;
}

static void copy_image(const struct leat_image *in, const struct leat_image *out, size_t size)
{
    const size_t line = in->w * in->column;
    const bool dense = in->row == line && out->row == line;
    for (unsigned c = 0; c < planes_of(in, size); c++)
        for (uint32_t y = 0; y < (dense ? 1 : in->h); y++)
            memcpy(out->base + c * out->plane + y * out->row, in->base + c * in->plane + y * in->row,
                   dense ? line * in->h : line);
}

/* The first row is made, the others are copies of it. */
static void fill_box(const struct erasing_args *args, const struct leat_image *out, const struct box *box, size_t size)
{
    uint8_t *first = out->base + box->y * out->row + box->x * out->column, one[8];
    for (unsigned c = 0; c < out->channels; c++) {
        leat_values_convert(LEAT_F64, out->dtype, &args->value[args->n_values > 1 ? c : 0], one, 1);
        spread(one, size, 0, box->w, first + c * out->plane, out->column);
    }
    for (unsigned c = 0; c < planes_of(out, size); c++)
        for (uint32_t y = 1; y < box->h; y++)
            memcpy(first + c * out->plane + y * out->row, first + c * out->plane, box->w * out->column);
}

LEAT_INLINE void erase(const void *from, uint64_t key, const struct leat_image *in, const struct leat_image *out,
                       void *scratch)
{
    const struct erasing_args *args = from;
    const struct box box = draw_box(args, key, in->w, in->h);
    const size_t size = leat_dtype_size(in->dtype);
    if (out->base != in->base)
        copy_image(in, out, size);
    if (args->n_values && box.w && box.h) {
        fill_box(args, out, &box, size);
        return;
    }
    float *normal = scratch;
    uint8_t *values = (uint8_t *)(normal + ALIGN(in->w));
    uint64_t draws = LEAT_NORMAL_DRAWS(box.w);
    for (unsigned c = 0; c < in->channels && box.w; c++)
        for (uint32_t y = 0; y < box.h; y++) {
            uint8_t *d = out->base + c * out->plane + (box.y + y) * out->row + box.x * out->column;
            noise_row(key, 23 + ((uint64_t)c * box.h + y) * draws, in->dtype, box.w, normal, values);
            if (size == 4)
                spread(values, 4, 4, box.w, d, out->column);
            else if (size == 1)
                spread(values, 1, 1, box.w, d, out->column);
            else
                spread(values, size, size, box.w, d, out->column);
        }
}
LEAT_FILTER_FOR_EACH_ISA(erase)

const struct leat_op_class leat_op_random_erasing = {.type = "RandomErasing",
                                                     .input = LEAT_INPUT_IMAGE,
                                                     .args_bytes = sizeof(struct erasing_args),
                                                     .random = true,
                                                     .in_place = true,
                                                     .parse = parse,
                                                     .infer = infer,
                                                     .filter = erase_on,
                                                     .plan = plan,
                                                     .skips = skips};
