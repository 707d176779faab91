/* ConvertBoundingBoxFormat: from corners to centres, and the like. */
#include "op/joint.h"

static void parse(void *into, struct leat_args *json)
{
    static const char *const formats[] = {"xyxy", "xywh", "cxcywh", NULL}; /* as enum leat_role */
    unsigned word;
    leat_args_word(json, "format", formats, 3, &word);
    if (word == 3)
        leat_args_wrong(json, "format", "\"xyxy\", \"xywh\" or \"cxcywh\"");
    *(enum leat_role *)into = (enum leat_role)(LEAT_ROLE_BOXES_XYXY + word);
}

static void convert(const void *from, struct leat_targets *t)
{
    enum leat_role to = *(const enum leat_role *)from;
    for (size_t p = 0; p < t->n; p++)
        if (leat_role_is_boxes(t->parts[p].role)) {
            leat_boxes_convert(leat_target_boxes(&t->parts[p]), t->parts[p].n, t->parts[p].role, to);
            t->parts[p].role = to;
        }
}

const struct leat_op_class leat_op_convert_bounding_box_format = {
    .type = "ConvertBoundingBoxFormat", .args_bytes = sizeof(enum leat_role), .parse = parse, .joint = convert};
