/*
 * RandomPhotometricDistort: brightness, contrast, saturation and hue, each or not, contrast before or behind the two
 * others, and the channels in another order, or not. Arguments and distributions are those of
 * torchvision.transforms.v2.
 *
 * Draws: 2i and 2i + 1: whether brightness, contrast, saturation, hue (i = 0 to 3), and the factor; 8: contrast comes
 * first, below 0.5; 9: whether the channels change places; 10, 11: their order.
 */
#include "base/random.h"
#include "op/adjust.h"

enum { BRIGHTNESS, CONTRAST, SATURATION, HUE, KINDS };

struct distort_args {
    double low[KINDS], high[KINDS], p;
};

static void parse(void *into, struct leat_args *json)
{
    static const char *const names[KINDS] = {"brightness", "contrast", "saturation", "hue"};
    static const double fallback[KINDS][2] = {{0.875, 1.125}, {0.5, 1.5}, {0.5, 1.5}, {-0.05, 0.05}};
    struct distort_args *args = into;
    for (int i = 0; i < KINDS; i++) {
        double range[2] = {fallback[i][0], fallback[i][1]};
        unsigned n = leat_args_doubles(json, names[i], 1, 2, range);
        if (n == 1 || range[0] > range[1] || range[0] < (i == HUE ? -0.5 : 0) || range[1] > (i == HUE ? 0.5 : 1e6))
            leat_args_wrong(json, names[i], i == HUE ? "(low, high) within -0.5 and 0.5" : "(low, high) from 0");
        args->low[i] = range[0];
        args->high[i] = range[1];
    }
    leat_args_double(json, "p", 0, 1, 0.5, &args->p);
}

static unsigned adjust(const void *from, uint64_t key, unsigned channels, struct leat_adjust *steps)
{
    static const enum leat_adjust_kind kinds[KINDS] = {LEAT_ADJUST_BRIGHTNESS, LEAT_ADJUST_CONTRAST,
                                                       LEAT_ADJUST_SATURATION, LEAT_ADJUST_HUE};
    static const int orders[2][KINDS] = {{BRIGHTNESS, SATURATION, HUE, CONTRAST},
                                         {BRIGHTNESS, CONTRAST, SATURATION, HUE}};
    const struct distort_args *args = from;
    const int *order = orders[leat_draw_unit(key, 8) < 0.5];
    unsigned n = 0;
    for (int i = 0; i < KINDS; i++) {
        unsigned k = (unsigned)order[i];
        if (leat_draw_unit(key, 2 * k) < args->p && (channels == 3 || k < SATURATION))
            steps[n++] = (struct leat_adjust){.kind = kinds[k],
                                              .amount = args->low[k] + leat_draw_unit(key, 2 * k + 1) *
                                                                           (args->high[k] - args->low[k])};
    }
    if (channels == 3 && leat_draw_unit(key, 9) < args->p) {
        steps[n].kind = LEAT_ADJUST_PERMUTE;
        leat_adjust_draw_order(key, 10, channels, steps[n++].order);
    }
    return n;
}

const struct leat_op_class leat_op_random_photometric_distort = {.type = "RandomPhotometricDistort",
                                                                 .input = LEAT_INPUT_PIXELS,
                                                                 .args_bytes = sizeof(struct distort_args),
                                                                 .random = true,
                                                                 .parse = parse,
                                                                 .infer = leat_infer_gray_or_rgb,
                                                                 .adjust = adjust};
