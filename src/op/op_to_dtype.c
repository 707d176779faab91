/* ToDtype: numbers of one type as numbers of another, with or without their range. */
#include <string.h>

#include "kernels/values.h"
#include "op/operator.h"

#define BLOCK 256

struct dtype_args {
    enum leat_dtype dtype;
    enum { SCALE_AUTO, SCALE_NO, SCALE_YES } scale;
};

static void parse(void *into, struct leat_args *json)
{
    struct dtype_args *args = into;
    const char *name = leat_args_text(json, "dtype");
    if (name && !strncmp(name, "torch.", 6))
        name += 6;
    args->dtype = name ? leat_dtype_from_name(name) : 0;
    if (!args->dtype)
        leat_args_wrong(json, "dtype",
                        "the name of a type, such as \"float32\", \"float16\", \"bfloat16\", \"uint8\" or \"int64\"");
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

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct dtype_args *args = from;
    if (type->kind != LEAT_KIND_ARRAY)
        return leat_op_misfit(place, type, "an image or an array of numbers", error);
    bool scale = scales(args, type), real = leat_dtype_is_float(type->dtype),
         to_real = leat_dtype_is_float(args->dtype);
    if (scale && (type->dtype == LEAT_BOOL || args->dtype == LEAT_BOOL))
        return leat_op_misfit(place, type, "numbers other than bool where scale=True", error);
    if (scale && real && !to_real && leat_dtype_value_bits(args->dtype) > 16)
        return leat_op_misfit(place, type, "floats only towards types of at most 16 bits where scale=True", error);
    if (real != to_real) {
        if (scale)
            type->range = to_real ? LEAT_RANGE_UNIT : LEAT_RANGE_MAX;
        else
            type->range = LEAT_RANGE_PLAIN;
    } else if (scale && !real) {
        type->range = LEAT_RANGE_MAX;
    } else if (!real && args->dtype != type->dtype) {
        type->range = LEAT_RANGE_PLAIN; /* 0..255 in an int64 is no longer 0..max */
    }
    type->dtype = args->dtype;
    return LEAT_OK;
}

static void map_values(const void *from, const struct leat_type *in, unsigned channel, const void *src, void *dst,
                       size_t n)
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
            for (size_t i = 0; i < some;
                 i++) /* torchvision: the whole range of floats spreads evenly over the integers */
                block.real[i] = to_real ? block.real[i] / leat_dtype_largest(in->dtype)
                                        : block.real[i] * (leat_dtype_largest(args->dtype) + 1.0 - 1e-3);
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

static bool line(const void *from, const struct leat_type *in, unsigned channel, double *scale, double *offset)
{
    const struct dtype_args *args = from;
    if (!leat_dtype_is_float(args->dtype))
        return false;
    if (scales(args, in) && !leat_dtype_is_float(in->dtype)) {
        *scale /= leat_dtype_largest(in->dtype);
        *offset /= leat_dtype_largest(in->dtype);
    }
    return true;
}

const struct leat_op_class leat_op_to_dtype = {.type = "ToDtype",
                                               .args_bytes = sizeof(struct dtype_args),
                                               .converts = true,
                                               .parse = parse,
                                               .infer = infer,
                                               .map = map_values,
                                               .line = line};
