/* Normalize: (v - mean) / std. Over bytes it becomes a table, or arithmetic that equals it (stage.c). */
#include "base/error.h"
#include "kernels/values.h"
#include "op/operator.h"

#define BLOCK 256

struct normalize_args {
    unsigned n;
    double mean[LEAT_MAX_CHANNELS], std[LEAT_MAX_CHANNELS];
};

static void parse(void *into, struct leat_args *json)
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

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct normalize_args *args = from;
    bool image = leat_type_is_image(type), real = leat_dtype_is_float(type->dtype);
    if (type->kind != LEAT_KIND_ARRAY || (!real && type->range != LEAT_RANGE_MAX))
        return leat_op_misfit(place, type, "a uint8 image or a float array", error);
    if (args->n > 1 && !image)
        return leat_op_misfit(
            place, type, "an image where mean has several numbers, or one mean for all numbers of an array", error);
    if (image && args->n > 1 && args->n != leat_type_channels(type))
        return leat_op_misfit(place, type, "an image with as many channels as mean has numbers", error);
    for (unsigned i = 0; i < args->n; i++) {
        if (type->range == LEAT_RANGE_PLAIN || args->mean[i] <= 1)
            continue;
        int rc =
            leat_fail(error, LEAT_E_TYPE,
                      "Normalize in output '%s' has mean %g, but its input counts as 0 to 1 (an image's 0 to %g is "
                      "scaled by 1/%g "
                      "first): divide mean and std by %g, or put ToDtype(\"float32\", scale=False) before it.",
                      place->output, args->mean[i], real ? 255.0 : leat_dtype_largest(type->dtype),
                      real ? 255.0 : leat_dtype_largest(type->dtype), real ? 255.0 : leat_dtype_largest(type->dtype));
        leat_error_at_sample(error, LEAT_NO_SAMPLE, place->output);
        return rc;
    }
    if (!real)
        type->dtype = LEAT_F32;
    type->range = LEAT_RANGE_PLAIN;
    return LEAT_OK;
}

/* ((v / max) - mean) / std in double, rounded once. */
static void map_values(const void *from, const struct leat_type *in, unsigned channel, const void *src, void *dst,
                       size_t n)
{
    const struct normalize_args *args = from;
    bool real = leat_dtype_is_float(in->dtype);
    double mean = args->mean[args->n > 1 ? channel : 0], std = args->std[args->n > 1 ? channel : 0],
           max = real ? 1.0 : leat_dtype_largest(in->dtype);
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

static bool line(const void *from, const struct leat_type *in, unsigned channel, double *scale, double *offset)
{
    const struct normalize_args *args = from;
    unsigned c = args->n > 1 ? channel : 0;
    double max = leat_dtype_is_float(in->dtype) ? 1.0 : leat_dtype_largest(in->dtype);
    *scale = *scale / max / args->std[c];
    *offset = (*offset / max - args->mean[c]) / args->std[c];
    return true;
}

const struct leat_op_class leat_op_normalize = {.type = "Normalize",
                                                .args_bytes = sizeof(struct normalize_args),
                                                .takes_whole = true,
                                                .parse = parse,
                                                .infer = infer,
                                                .map = map_values,
                                                .line = line};
