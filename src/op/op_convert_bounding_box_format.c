/* ConvertBoundingBoxFormat: from corners to centres, and the like; and to shares of the image's sides, or to pixels. */
#include "base/hash.h"
#include "op/joint.h"

enum unit { AS_STORED, PIXELS, NORMALIZED };

struct convert_args {
    enum leat_role format;
    enum unit unit;
};

static void parse(void *into, struct leat_args *json)
{
    static const char *const formats[] = {"xyxy", "xywh", "cxcywh", NULL}; /* as enum leat_role */
    struct convert_args *args = into;
    unsigned word;
    bool normalized;
    leat_args_word(json, "format", formats, 3, &word);
    if (word == 3)
        leat_args_wrong(json, "format", "\"xyxy\", \"xywh\" or \"cxcywh\"");
    args->format = (enum leat_role)(LEAT_ROLE_BOXES_XYXY + word);
    leat_args_bool(json, "normalized", false, &normalized);
    if (leat_args_get(json, "normalized"))
        args->unit = normalized ? NORMALIZED : PIXELS;
}

/* Programs without a unit keep the hash that they had before there was one. */
static uint64_t hash(const void *from)
{
    const struct convert_args *args = from;
    return leat_hash64(args, args->unit == AS_STORED ? sizeof args->format : sizeof *args);
}

static void convert(const void *from, struct leat_targets *t)
{
    const struct convert_args *args = from;
    for (size_t p = 0; p < t->n; p++) {
        struct leat_target_part *part = &t->parts[p];
        if (!leat_role_is_boxes(part->role))
            continue;
        leat_boxes_convert(leat_target_boxes(part), part->n, part->role, args->format);
        part->role = args->format;
        if (args->unit != AS_STORED)
            part->normalized = args->unit == NORMALIZED; /* leat_targets_end does it, by the size at the end */
    }
}

const struct leat_op_class leat_op_convert_bounding_box_format = {.type = "ConvertBoundingBoxFormat",
                                                                  .args_bytes = sizeof(struct convert_args),
                                                                  .parse = parse,
                                                                  .hash = hash,
                                                                  .reformats = true,
                                                                  .joint = convert};
