/* Grayscale: one channel of grey values, or three that are equal. */
#include "op/adjust.h"

struct grayscale_args {
    int64_t channels;
};

static void parse(void *into, struct leat_args *json)
{
    struct grayscale_args *args = into;
    leat_args_int(json, "num_output_channels", 1, 3, 1, &args->channels);
    if (args->channels == 2)
        leat_args_wrong(json, "num_output_channels", "1 or 3");
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct grayscale_args *args = from;
    int rc = leat_infer_gray_or_rgb(from, place, type, effect, error);
    if (!rc)
        type->shape[type->layout == LEAT_LAYOUT_CHW ? 0 : 2] = args->channels;
    return rc;
}

static unsigned adjust(const void *from, uint64_t key, unsigned channels, struct leat_adjust *steps)
{
    *steps = (struct leat_adjust){.kind = LEAT_ADJUST_GRAYSCALE};
    return 1;
}

const struct leat_op_class leat_op_grayscale = {.type = "Grayscale",
                                                .input = LEAT_INPUT_PIXELS,
                                                .args_bytes = sizeof(struct grayscale_args),
                                                .parse = parse,
                                                .infer = infer,
                                                .adjust = adjust};
