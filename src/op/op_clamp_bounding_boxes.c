/* ClampBoundingBoxes: cuts boxes off at the edges of the image. */
#include "op/joint.h"

struct clamp_args {
    bool idle; /* clamping_mode None; the others differ for rotated boxes only */
};

static void parse(void *into, struct leat_args *json)
{
    static const char *const modes[] = {"none", "auto", "soft", "hard", NULL};
    unsigned mode;
    leat_args_word(json, "clamping_mode", modes, 1, &mode);
    ((struct clamp_args *)into)->idle = mode == 0;
}

static void clamp(const void *from, struct leat_targets *t)
{
    for (size_t p = 0; p < t->n && !((const struct clamp_args *)from)->idle; p++)
        if (leat_role_is_boxes(t->parts[p].role))
            leat_targets_clamp(t, &t->parts[p], t->parts[p].role, t->w, t->h);
}

const struct leat_op_class leat_op_clamp_bounding_boxes = {
    .type = "ClampBoundingBoxes", .args_bytes = sizeof(struct clamp_args), .parse = parse, .joint = clamp};
