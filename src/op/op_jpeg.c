/* JPEG: an image as it is after it was written as a JPEG. Draw 0: the quality. */
#include <string.h>

#include "base/random.h"
#include "codec/jpeg/recode.h"
#include "op/operator.h"

struct jpeg_args {
    int64_t low, high;
};

static void parse(void *into, struct leat_args *json)
{
    struct jpeg_args *args = into;
    int64_t quality[2] = {0, 0};
    unsigned n = leat_args_ints(json, "quality", 1, 2, 1, 100, quality);
    args->low = quality[0];
    args->high = n == 2 ? quality[1] : quality[0];
    if (!n || args->low > args->high)
        leat_args_wrong(json, "quality", "a whole number of 1 to 100, or (low, high) of these");
}

static bool is_packed(const struct leat_image *image)
{
    return image->column == image->channels && (image->plane == 1 || image->channels == 1);
}

/* Packed pixels, if an image has planes. */
static void plan(const void *args, uint64_t key, const struct leat_image *in, struct leat_filter_plan *plan)
{
    plan->scratch = is_packed(in) ? 0 : (size_t)in->w * in->h * in->channels;
}

static int recode(const void *from, uint64_t key, const struct leat_image *in, const struct leat_image *out,
                  void *scratch, struct leat_error *error)
{
    const struct jpeg_args *args = from;
    const size_t n = in->channels, row = in->w * n;
    const int quality = (int)(args->low + (int64_t)leat_draw_below(key, 0, (uint64_t)(args->high - args->low + 1)));
    if (is_packed(in) && is_packed(out))
        return leat_jpeg_recode(in->base, in->row, out->base, out->row, in->w, in->h, in->channels, quality, error);
    uint8_t *pixels = scratch;
    for (uint32_t y = 0; y < in->h; y++)
        for (size_t c = 0; c < n; c++)
            for (size_t x = 0; x < in->w; x++)
                pixels[y * row + x * n + c] = in->base[y * in->row + x * in->column + c * in->plane];
    int rc = leat_jpeg_recode(pixels, row, pixels, row, in->w, in->h, in->channels, quality, error);
    for (uint32_t y = 0; !rc && y < in->h; y++)
        for (size_t c = 0; c < n; c++)
            for (size_t x = 0; x < in->w; x++)
                out->base[y * out->row + x * out->column + c * out->plane] = pixels[y * row + x * n + c];
    return rc;
}

const struct leat_op_class leat_op_jpeg = {.type = "JPEG",
                                           .input = LEAT_INPUT_PIXELS,
                                           .args_bytes = sizeof(struct jpeg_args),
                                           .random = true,
                                           .in_place = true,
                                           .parse = parse,
                                           .infer = leat_infer_gray_or_rgb,
                                           .remake = recode,
                                           .plan = plan};
