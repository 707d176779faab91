/* RandomGrayscale: each channel becomes the grey value, or nothing changes. Draw 0: below p. */
#include "base/random.h"
#include "op/adjust.h"

struct grayscale_args {
    double p;
};

static void parse(void *into, struct leat_args *json)
{
    struct grayscale_args *args = into;
    leat_args_double(json, "p", 0, 1, 0.1, &args->p);
}

static unsigned adjust(const void *from, uint64_t key, unsigned channels, struct leat_adjust *steps)
{
    const struct grayscale_args *args = from;
    *steps = (struct leat_adjust){.kind = LEAT_ADJUST_GRAYSCALE};
    return channels == 3 && leat_draw_unit(key, 0) < args->p;
}

const struct leat_op_class leat_op_random_grayscale = {.type = "RandomGrayscale",
                                                       .input = LEAT_INPUT_PIXELS,
                                                       .args_bytes = sizeof(struct grayscale_args),
                                                       .random = true,
                                                       .parse = parse,
                                                       .infer = leat_infer_gray_or_rgb,
                                                       .adjust = adjust};
