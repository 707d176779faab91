/* RandomAdjustSharpness: blends the image with a smoothed one, or does nothing. Draw 0: below p. */
#include "base/random.h"
#include "op/adjust.h"

struct adjust_sharpness_args {
    double factor, p;
};

static void parse(void *into, struct leat_args *json)
{
    struct adjust_sharpness_args *args = into;
    if (!leat_args_doubles(json, "sharpness_factor", 1, 1, &args->factor) || args->factor < 0 || args->factor > 1e6)
        leat_args_wrong(json, "sharpness_factor", "a number from 0");
    leat_args_double(json, "p", 0, 1, 0.5, &args->p);
}

static unsigned adjust(const void *from, uint64_t key, unsigned channels, struct leat_adjust *steps)
{
    const struct adjust_sharpness_args *args = from;
    *steps = (struct leat_adjust){.kind = LEAT_ADJUST_SHARPNESS, .amount = args->factor};
    return leat_draw_unit(key, 0) < args->p;
}

const struct leat_op_class leat_op_random_adjust_sharpness = {.type = "RandomAdjustSharpness",
                                                              .input = LEAT_INPUT_PIXELS,
                                                              .args_bytes = sizeof(struct adjust_sharpness_args),
                                                              .random = true,
                                                              .parse = parse,

                                                              .adjust = adjust};
