/* ClampBoundingBoxes: cuts boxes off at the edges of the image. */
#include "op/joint.h"

static void parse(void *into, struct leat_args *json) {}

static void clamp(const void *from, struct leat_targets *t)
{
    for (size_t p = 0; p < t->n; p++)
        if (leat_role_is_boxes(t->parts[p].role))
            leat_boxes_clamp(leat_target_boxes(&t->parts[p]), t->parts[p].n, t->parts[p].role, t->w, t->h);
}

const struct leat_op_class leat_op_clamp_bounding_boxes = {
    .type = "ClampBoundingBoxes", .args_bytes = 1, .parse = parse, .joint = clamp};
