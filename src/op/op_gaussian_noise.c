/*
 * GaussianNoise: normal noise on every value, as torchvision.transforms.v2 adds it: on floats it is added and the sum
 * cut to 0..1, on bytes it is cut to whole numbers towards 0 first. Row y of channel c of an image of height h takes
 * its normal numbers (normal.h) from draw (c h + y) D on, D being the draws that one row takes.
 */
#include "base/error.h"
#include "kernels/values.h"
#include "op/filter.h"

LEAT_VECTORIZE

#include "op/normal.h"

struct noise_args {
    double mean, sigma;
    bool clip;
};

static void parse(void *into, struct leat_args *json)
{
    struct noise_args *args = into;
    leat_args_double(json, "mean", -1e6, 1e6, 0, &args->mean);
    leat_args_double(json, "sigma", 0, 1e6, 0.1, &args->sigma);
    leat_args_bool(json, "clip", true, &args->clip);
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    if (type->dtype != LEAT_U8 && !leat_dtype_is_float(type->dtype))
        return leat_op_misfit(place, type, "a uint8 image or one of floats", error);
    return LEAT_OK;
}

#define ALIGN(n) (((size_t)(n) + LEAT_NORMAL_BLOCK - 1) & ~(size_t)(LEAT_NORMAL_BLOCK - 1))

/* Normal numbers of a row, and as many floats. */
static void plan(const void *args, uint64_t key, const struct leat_image *in, struct leat_filter_plan *plan)
{
    plan->scratch = 2 * ALIGN(in->w) * sizeof(float) * (in->dtype == LEAT_U8 ? 4 : 1);
}

/* The noise of a row of bytes. */
LEAT_INLINE void cut_row(const struct noise_args *args, const float *normal, size_t n, int16_t *restrict noise)
{
    float mean = (float)(args->mean * 255), sigma = (float)(args->sigma * 255);
    for (size_t i = 0; i < n; i++) {
        float x = mean + normal[i] * sigma;
        x = x < -32768 ? -32768 : x;
        noise[i] = (int16_t)(int)(x < 32767 ? x : 32767);
    }
}

LEAT_INLINE void add_bytes(const uint8_t *src, size_t step, const int16_t *restrict noise, size_t n, bool clip,
                           uint8_t *dst, size_t to)
{
    for (size_t i = 0; i < n && clip; i++) {
        int v = src[i * step] + noise[i];
        v = v > 0 ? v : 0;
        dst[i * to] = (uint8_t)(v < 255 ? v : 255);
    }
    for (size_t i = 0; i < n && !clip; i++)
        dst[i * to] = (uint8_t)(src[i * step] + noise[i]);
}

/* Pixels of three bytes; `noise`: one row behind the other. */
LEAT_INLINE void add_pixels(const uint8_t *src, const int16_t *restrict noise, size_t row, size_t n, uint8_t *dst)
{
    for (size_t i = 0; i < n; i++)
        LEAT_UNROLL
    for (unsigned c = 0; c < 3; c++) {
        int v = src[3 * i + c] + noise[c * row + i];
        v = v > 0 ? v : 0;
        dst[3 * i + c] = (uint8_t)(v < 255 ? v : 255);
    }
}

/* Any floats, by way of float32. */
LEAT_INLINE void add_floats(const struct noise_args *args, enum leat_dtype dtype, const uint8_t *src, size_t step,
                            const float *restrict normal, size_t n, float *restrict values, uint8_t *dst, size_t to)
{
    size_t size = leat_dtype_size(dtype);
    float mean = (float)args->mean, sigma = (float)args->sigma;
    bool plain = dtype == LEAT_F32 && step == size && to == size;
    if (plain)
        memcpy(values, src, n * size);
    for (size_t i = 0; i < n && !plain; i++)
        leat_values_convert(dtype, LEAT_F32, src + i * step, &values[i], 1);
    for (size_t i = 0; i < n; i++)
        values[i] += mean + normal[i] * sigma;
    for (size_t i = 0; i < n && args->clip; i++) {
        float v = values[i] > 0 ? values[i] : 0;
        values[i] = v < 1 ? v : 1;
    }
    if (plain)
        memcpy(dst, values, n * size);
    for (size_t i = 0; i < n && !plain; i++)
        leat_values_convert(LEAT_F32, dtype, &values[i], dst + i * to, 1);
}

LEAT_INLINE void add_noise(const void *from, uint64_t key, const struct leat_image *in, const struct leat_image *out,
                           void *scratch)
{
    const struct noise_args *args = from;
    float *normal = scratch, *values = normal + ALIGN(in->w);
    int16_t *noise = (int16_t *)(void *)values;
    uint64_t draws = LEAT_NORMAL_DRAWS(in->w);
    bool pixels = in->dtype == LEAT_U8 && in->channels == 3 && in->column == 3 && out->column == 3 && args->clip;
    for (uint32_t y = 0; y < in->h; y++) {
        for (unsigned c = 0; c < in->channels; c++) {
            const uint8_t *s = in->base + y * in->row + c * in->plane;
            uint8_t *d = out->base + y * out->row + c * out->plane;
            int16_t *row = noise + (pixels ? c : 0) * ALIGN(in->w);
            leat_normals(key, ((uint64_t)c * in->h + y) * draws, in->w, normal);
            if (in->dtype != LEAT_U8) {
                add_floats(args, in->dtype, s, in->column, normal, in->w, values, d, out->column);
                continue;
            }
            cut_row(args, normal, in->w, row);
            if (!pixels && in->column == 1 && out->column == 1)
                add_bytes(s, 1, row, in->w, args->clip, d, 1);
            else if (!pixels)
                add_bytes(s, in->column, row, in->w, args->clip, d, out->column);
        }
        if (pixels)
            add_pixels(in->base + y * in->row, noise, ALIGN(in->w), in->w, out->base + y * out->row);
    }
}
LEAT_FILTER_FOR_EACH_ISA(add_noise)

const struct leat_op_class leat_op_gaussian_noise = {.type = "GaussianNoise",
                                                     .input = LEAT_INPUT_IMAGE,
                                                     .args_bytes = sizeof(struct noise_args),
                                                     .random = true,
                                                     .in_place = true,
                                                     .parse = parse,
                                                     .infer = infer,
                                                     .filter = add_noise_on,
                                                     .plan = plan};
