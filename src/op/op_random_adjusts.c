/*
 * Operators that change the colors of an image in one step (adjust.h), or leave it as it is. Draw 0: below p they act.
 *
 *     RandomInvert           255 - v
 *     RandomAutocontrast     each channel's smallest value becomes 0 and its largest 255
 *     RandomEqualize         evens out each channel's histogram
 *     RandomPosterize        keeps the highest bits of each value
 *     RandomSolarize         inverts values from a threshold on
 *     RandomAdjustSharpness  blends the image with a smoothed one
 */
#include "base/random.h"
#include "op/adjust.h"

struct plain_args {
    double p;
};
struct posterize_args {
    int64_t bits;
    double p;
};
struct amount_args {
    double amount, p;
};

static void parse_p(struct leat_args *json, double *p)
{
    leat_args_double(json, "p", 0, 1, 0.5, p);
}

static void parse_plain(void *into, struct leat_args *json)
{
    parse_p(json, &((struct plain_args *)into)->p);
}

static void parse_posterize(void *into, struct leat_args *json)
{
    struct posterize_args *args = into;
    leat_args_int(json, "bits", 0, 8, -1, &args->bits);
    if (args->bits < 0)
        leat_args_wrong(json, "bits", "a number of bits, from 0 to 8");
    parse_p(json, &args->p);
}

static void parse_solarize(void *into, struct leat_args *json)
{
    struct amount_args *args = into;
    if (!leat_args_doubles(json, "threshold", 1, 1, &args->amount))
        leat_args_wrong(json, "threshold", "a number");
    parse_p(json, &args->p);
}

static void parse_sharpness(void *into, struct leat_args *json)
{
    struct amount_args *args = into;
    if (!leat_args_doubles(json, "sharpness_factor", 1, 1, &args->amount) || args->amount < 0 || args->amount > 1e6)
        leat_args_wrong(json, "sharpness_factor", "a number from 0");
    parse_p(json, &args->p);
}

#define ADJUSTS(name, title, step, args_type, parser, step_amount)                                                     \
    static unsigned name(const void *from, uint64_t key, unsigned channels, struct leat_adjust *steps)                 \
    {                                                                                                                  \
        const struct args_type *args = from;                                                                           \
        *steps = (struct leat_adjust){.kind = step, .amount = step_amount};                                            \
        return leat_draw_unit(key, 0) < args->p;                                                                       \
    }                                                                                                                  \
    const struct leat_op_class leat_op_random_##name = {.type = title,                                                 \
                                                        .input = LEAT_INPUT_PIXELS,                                    \
                                                        .args_bytes = sizeof(struct args_type),                        \
                                                        .random = true,                                                \
                                                        .parse = parser,                                               \
                                                        .adjust = name};
ADJUSTS(invert, "RandomInvert", LEAT_ADJUST_INVERT, plain_args, parse_plain, 0)
ADJUSTS(autocontrast, "RandomAutocontrast", LEAT_ADJUST_AUTOCONTRAST, plain_args, parse_plain, 0)
ADJUSTS(equalize, "RandomEqualize", LEAT_ADJUST_EQUALIZE, plain_args, parse_plain, 0)
ADJUSTS(posterize, "RandomPosterize", LEAT_ADJUST_POSTERIZE, posterize_args, parse_posterize, (double)args->bits)
ADJUSTS(solarize, "RandomSolarize", LEAT_ADJUST_SOLARIZE, amount_args, parse_solarize, args->amount)
ADJUSTS(adjust_sharpness, "RandomAdjustSharpness", LEAT_ADJUST_SHARPNESS, amount_args, parse_sharpness, args->amount)
