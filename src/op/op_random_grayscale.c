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

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    if (leat_type_channels(type) != 1 && leat_type_channels(type) != 3)
        return leat_op_misfit(place, type, "an image of 1 or 3 channels", error);
    return LEAT_OK;
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
                                                       .infer = infer,
                                                       .adjust = adjust};
