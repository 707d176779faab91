/*
 * Normalize and ToDtype: functions of single values. Over bytes they become tables (stage.c builds them through `map`),
 * so what is written here is the definition and also what runs on other types.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "op/operator.h"
#include "op/values.h"

#define BLOCK 256

static double largest(enum leat_dtype t)
{
    return t == LEAT_BOOL ? 1.0 : ldexp(1.0, (int)leat_dtype_value_bits(t)) - 1.0;
}

/* ---- Normalize ---- */

struct normalize_args {
    unsigned n;
    double mean[LEAT_MAX_CHANNELS], std[LEAT_MAX_CHANNELS];
};

static void normalize_parse(void *into, struct leat_args *json)
{
    struct normalize_args *args = into;
    bool inplace; /* torchvision's; here a row is always made anew */
    unsigned n_mean = leat_args_doubles(json, "mean", 1, LEAT_MAX_CHANNELS, args->mean);
    unsigned n_std = leat_args_doubles(json, "std", 1, LEAT_MAX_CHANNELS, args->std);
    leat_args_bool(json, "inplace", false, &inplace);
    args->n = n_mean > n_std ? n_mean : n_std;
    if (!n_mean || !n_std)
        leat_args_wrong(json, n_mean ? "std" : "mean", "given");
    else if (n_mean != n_std && n_mean != 1 && n_std != 1)
        leat_args_wrong(json, "std", "as long as mean");
    for (unsigned i = 1; i < args->n; i++) {
        args->mean[i] = n_mean == 1 ? args->mean[0] : args->mean[i];
        args->std[i] = n_std == 1 ? args->std[0] : args->std[i];
    }
    for (unsigned i = 0; i < args->n; i++)
        if (!(args->std[i] > 0))
            leat_args_wrong(json, "std", "above 0");
}

static int normalize_infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                           struct leat_error *error)
{
    const struct normalize_args *args = from;
    bool image = leat_type_is_image(type), real = leat_dtype_is_float(type->dtype);
    if (type->kind != LEAT_KIND_ARRAY || (!real && type->range != LEAT_RANGE_MAX))
        return leat_op_misfit(place, type, "a uint8 image or a float array", error);
    if (args->n > 1 && !image)
        return leat_op_misfit(place, type, "an image where mean has several numbers, or one mean for all numbers of an array", error);
    if (image && args->n > 1 && args->n != leat_type_channels(type))
        return leat_op_misfit(place, type, "an image with as many channels as mean has numbers", error);
    for (unsigned i = 0; i < args->n; i++) {
        if (type->range == LEAT_RANGE_PLAIN || args->mean[i] <= 1)
            continue;
        int rc = leat_fail(error, LEAT_E_TYPE,
                           "Normalize in output '%s' has mean %g, but its input counts as 0 to 1 (an image's 0 to %g is scaled by 1/%g "
                           "first): divide mean and std by %g, or put ToDtype(\"float32\", scale=False) before it.",
                           place->output, args->mean[i], real ? 255.0 : largest(type->dtype), real ? 255.0 : largest(type->dtype),
                           real ? 255.0 : largest(type->dtype));
        leat_error_at_sample(error, LEAT_NO_SAMPLE, place->output);
        return rc;
    }
    if (!real)
        type->dtype = LEAT_F32;
    type->range = LEAT_RANGE_PLAIN;
    return LEAT_OK;
}

/* ((v / max) - mean) / std in double, rounded once. */
static void normalize_map(const void *from, const struct leat_type *in, unsigned channel, const void *src, void *dst, size_t n)
{
    const struct normalize_args *args = from;
    bool real = leat_dtype_is_float(in->dtype);
    double mean = args->mean[args->n > 1 ? channel : 0], std = args->std[args->n > 1 ? channel : 0], max = real ? 1.0 : largest(in->dtype);
    enum leat_dtype to = real ? in->dtype : LEAT_F32;
    size_t in_size = leat_dtype_size(in->dtype), out_size = leat_dtype_size(to);
    double block[BLOCK];
    for (size_t done = 0; done < n; done += BLOCK) {
        size_t some = n - done < BLOCK ? n - done : BLOCK;
        leat_values_convert(in->dtype, LEAT_F64, (const uint8_t *)src + done * in_size, block, some);
        for (size_t i = 0; i < some; i++)
            block[i] = (block[i] / max - mean) / std;
        leat_values_convert(LEAT_F64, to, block, (uint8_t *)dst + done * out_size, some);
    }
}

static bool normalize_line(const void *from, const struct leat_type *in, unsigned channel, double *scale, double *offset)
{
    const struct normalize_args *args = from;
    unsigned c = args->n > 1 ? channel : 0;
    double max = leat_dtype_is_float(in->dtype) ? 1.0 : largest(in->dtype);
    *scale = *scale / max / args->std[c];
    *offset = (*offset / max - args->mean[c]) / args->std[c];
    return true;
}

const struct leat_op_class leat_op_normalize = {.type = "Normalize",
                                                .args_bytes = sizeof(struct normalize_args),
                                                .parse = normalize_parse,
                                                .infer = normalize_infer,
                                                .map = normalize_map,
                                                .line = normalize_line};

/* ---- ToDtype ---- */

struct dtype_args {
    enum leat_dtype dtype;
    enum { SCALE_AUTO, SCALE_NO, SCALE_YES } scale;
};

static void dtype_parse(void *into, struct leat_args *json)
{
    struct dtype_args *args = into;
    const char *name = leat_args_text(json, "dtype");
    if (name && !strncmp(name, "torch.", 6))
        name += 6;
    args->dtype = name ? leat_dtype_from_name(name) : 0;
    if (!args->dtype)
        leat_args_wrong(json, "dtype", "the name of a type, such as \"float32\", \"float16\", \"bfloat16\", \"uint8\" or \"int64\"");
    const json_t *scale = leat_args_get(json, "scale");
    if (scale && !json_is_boolean(scale))
        leat_args_wrong(json, "scale", "true, false or null");
    args->scale = !scale ? SCALE_AUTO : json_is_true(scale) ? SCALE_YES : SCALE_NO;
}

/* scale=None: integers that count as 0..max become 0..1 as floats; all else keeps its numbers. */
static bool scales(const struct dtype_args *args, const struct leat_type *in)
{
    if (args->scale == SCALE_AUTO)
        return in->range == LEAT_RANGE_MAX && !leat_dtype_is_float(in->dtype) && leat_dtype_is_float(args->dtype);
    return args->scale == SCALE_YES && in->dtype != args->dtype;
}

static int dtype_infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                       struct leat_error *error)
{
    const struct dtype_args *args = from;
    if (type->kind != LEAT_KIND_ARRAY)
        return leat_op_misfit(place, type, "an image or an array of numbers", error);
    bool scale = scales(args, type), real = leat_dtype_is_float(type->dtype), to_real = leat_dtype_is_float(args->dtype);
    if (scale && (type->dtype == LEAT_BOOL || args->dtype == LEAT_BOOL))
        return leat_op_misfit(place, type, "numbers other than bool where scale=True", error);
    if (scale && real && !to_real && leat_dtype_value_bits(args->dtype) > 16)
        return leat_op_misfit(place, type, "floats only towards types of at most 16 bits where scale=True", error);
    if (real != to_real) {
        if (scale)
            type->range = to_real ? LEAT_RANGE_UNIT : LEAT_RANGE_MAX;
        else
            type->range = LEAT_RANGE_PLAIN;
    } else if (!scale && !real && args->dtype != type->dtype) {
        type->range = LEAT_RANGE_PLAIN; /* 0..255 in an int64 is no longer 0..max */
    }
    type->dtype = args->dtype;
    return LEAT_OK;
}

static void dtype_map(const void *from, const struct leat_type *in, unsigned channel, const void *src, void *dst, size_t n)
{
    const struct dtype_args *args = from;
    bool real = leat_dtype_is_float(in->dtype), to_real = leat_dtype_is_float(args->dtype);
    if (!scales(args, in) || (real && to_real)) {
        leat_values_convert(in->dtype, args->dtype, src, dst, n);
        return;
    }
    size_t in_size = leat_dtype_size(in->dtype), out_size = leat_dtype_size(args->dtype);
    union {
        double real[BLOCK];
        int64_t whole[BLOCK];
    } block;
    int from_bits = (int)leat_dtype_value_bits(in->dtype), to_bits = (int)leat_dtype_value_bits(args->dtype);
    for (size_t done = 0; done < n; done += BLOCK) {
        size_t some = n - done < BLOCK ? n - done : BLOCK;
        const uint8_t *s = (const uint8_t *)src + done * in_size;
        uint8_t *d = (uint8_t *)dst + done * out_size;
        if (real || to_real) {
            leat_values_convert(in->dtype, LEAT_F64, s, block.real, some);
            for (size_t i = 0; i < some; i++) /* torchvision: the whole range of floats spreads evenly over the integers */
                block.real[i] = to_real ? block.real[i] / largest(in->dtype) : block.real[i] * (largest(args->dtype) + 1.0 - 1e-3);
            leat_values_convert(LEAT_F64, args->dtype, block.real, d, some);
            continue;
        }
        leat_values_convert(in->dtype, LEAT_I64, s, block.whole, some);
        for (size_t i = 0; i < some; i++) {
            if (from_bits <= to_bits)
                block.whole[i] = (int64_t)((uint64_t)block.whole[i] << (to_bits - from_bits));
            else if (in->dtype == LEAT_U64)
                block.whole[i] = (int64_t)((uint64_t)block.whole[i] >> (from_bits - to_bits));
            else
                block.whole[i] >>= from_bits - to_bits;
        }
        leat_values_convert(LEAT_I64, args->dtype, block.whole, d, some);
    }
}

static bool dtype_line(const void *from, const struct leat_type *in, unsigned channel, double *scale, double *offset)
{
    const struct dtype_args *args = from;
    if (!leat_dtype_is_float(args->dtype))
        return false;
    if (scales(args, in) && !leat_dtype_is_float(in->dtype)) {
        *scale /= largest(in->dtype);
        *offset /= largest(in->dtype);
    }
    return true;
}

const struct leat_op_class leat_op_to_dtype = {.type = "ToDtype",
                                               .args_bytes = sizeof(struct dtype_args),
                                               .parse = dtype_parse,
                                               .infer = dtype_infer,
                                               .map = dtype_map,
                                               .line = dtype_line};
