/* RandomAutocontrast: each channel's smallest value becomes 0 and its largest 255, or nothing changes. Draw 0: below p.
 */
#include "base/random.h"
#include "op/adjust.h"

struct autocontrast_args {
    double p;
};

static void parse(void *into, struct leat_args *json)
{
    struct autocontrast_args *args = into;
    leat_args_double(json, "p", 0, 1, 0.5, &args->p);
}

static unsigned adjust(const void *from, uint64_t key, unsigned channels, struct leat_adjust *steps)
{
    const struct autocontrast_args *args = from;
    *steps = (struct leat_adjust){.kind = LEAT_ADJUST_AUTOCONTRAST};
    return leat_draw_unit(key, 0) < args->p;
}

const struct leat_op_class leat_op_random_autocontrast = {.type = "RandomAutocontrast",
                                                          .input = LEAT_INPUT_PIXELS,
                                                          .args_bytes = sizeof(struct autocontrast_args),
                                                          .random = true,
                                                          .parse = parse,

                                                          .adjust = adjust};
