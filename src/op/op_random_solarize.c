/* RandomSolarize: inverts values from a threshold on, or does nothing. Draw 0: below p. */
#include "base/random.h"
#include "op/adjust.h"

struct solarize_args {
    double threshold, p;
};

static void parse(void *into, struct leat_args *json)
{
    struct solarize_args *args = into;
    if (!leat_args_doubles(json, "threshold", 1, 1, &args->threshold))
        leat_args_wrong(json, "threshold", "a number");
    leat_args_double(json, "p", 0, 1, 0.5, &args->p);
}

static unsigned adjust(const void *from, uint64_t key, unsigned channels, struct leat_adjust *steps)
{
    const struct solarize_args *args = from;
    *steps = (struct leat_adjust){.kind = LEAT_ADJUST_SOLARIZE, .amount = args->threshold};
    return leat_draw_unit(key, 0) < args->p;
}

const struct leat_op_class leat_op_random_solarize = {.type = "RandomSolarize",
                                                      .input = LEAT_INPUT_PIXELS,
                                                      .args_bytes = sizeof(struct solarize_args),
                                                      .random = true,
                                                      .parse = parse,
                                                      .adjust = adjust};
