/*
 * ColorJitter: brightness, contrast, saturation and hue, in an order that is drawn. Arguments and distributions are
 * those of torchvision.transforms.v2, the pixels those of its Pillow backend, byte for byte (adjust.h).
 *
 * Draws: 0 to 3: the factors, in the order above; 4 to 6: the order of the four.
 */
#include "base/random.h"
#include "op/adjust.h"

enum { BRIGHTNESS, CONTRAST, SATURATION, HUE, KINDS };

static const char *const names[KINDS] = {"brightness", "contrast", "saturation", "hue"};

struct jitter_args {
    bool given[KINDS];
    double low[KINDS], high[KINDS];
};

/* ---- arguments ---- */

static void parse(void *into, struct leat_args *json)
{
    struct jitter_args *args = into;
    for (int i = 0; i < KINDS; i++) {
        double range[2], center = i == HUE ? 0 : 1, most = i == HUE ? 0.5 : 1e6;
        unsigned n = leat_args_doubles(json, names[i], 1, 2, range);
        if (n == 1 && range[0] >= 0) {
            range[1] = center + range[0];
            range[0] = i != HUE && range[0] > center ? 0 : center - range[0];
        }
        if (n && (range[0] > range[1] || range[0] < (i == HUE ? -0.5 : 0) || range[1] > most))
            leat_args_wrong(json, names[i],
                            i == HUE ? "a number from 0 to 0.5, or (low, high) within -0.5 and 0.5"
                                     : "a number from 0, or (low, high) from 0");
        args->given[i] = n && (range[0] != center || range[1] != center);
        args->low[i] = args->given[i] ? range[0] : 0;
        args->high[i] = args->given[i] ? range[1] : 0;
    }
}

/* ---- the draws ---- */

struct drawn {
    double factor[KINDS];
    unsigned order[KINDS];
};

static struct drawn draw(const struct jitter_args *args, uint64_t key)
{
    struct drawn d = {.order = {BRIGHTNESS, CONTRAST, SATURATION, HUE}};
    for (unsigned i = 0; i < KINDS; i++)
        d.factor[i] = args->low[i] + leat_draw_unit(key, i) * (args->high[i] - args->low[i]);
    for (unsigned i = KINDS - 1; i; i--) {
        uint64_t k = leat_draw_below(key, KINDS - 1 + i, i + 1);
        unsigned last = d.order[i];
        d.order[i] = d.order[k];
        d.order[k] = last;
    }
    return d;
}

static unsigned adjust(const void *from, uint64_t key, unsigned channels, struct leat_adjust *steps)
{
    static const enum leat_adjust_kind kinds[KINDS] = {LEAT_ADJUST_BRIGHTNESS, LEAT_ADJUST_CONTRAST,
                                                       LEAT_ADJUST_SATURATION, LEAT_ADJUST_HUE};
    const struct jitter_args *args = from;
    struct drawn d = draw(args, key);
    unsigned n = 0;
    for (unsigned i = 0; i < KINDS; i++)
        if (args->given[d.order[i]] && (channels == 3 || d.order[i] < SATURATION))
            steps[n++] = (struct leat_adjust){.kind = kinds[d.order[i]], .amount = d.factor[d.order[i]]};
    return n;
}

const struct leat_op_class leat_op_color_jitter = {.type = "ColorJitter",
                                                   .input = LEAT_INPUT_PIXELS,
                                                   .args_bytes = sizeof(struct jitter_args),
                                                   .random = true,
                                                   .parse = parse,
                                                   .infer = leat_infer_gray_or_rgb,
                                                   .adjust = adjust};
