/* SanitizeBoundingBoxes: leaves out boxes that are too small or reach outside, with the values that follow them. */
#include <string.h>

#include "op/joint.h"

static void parse(void *into, struct leat_args *json)
{
    struct leat_sanitize_args *args = into;
    leat_args_double(json, "min_size", 1, 1e9, 1, &args->min_size);
    leat_args_double(json, "min_area", 1, 1e18, 1, &args->min_area);
    leat_args_double(json, "min_visibility", 0, 1, 0, &args->min_visibility);
    const json_t *labels = leat_args_get(json, "labels_getter"), *name;
    args->all = json_is_string(labels) && !strcmp(json_string_value(labels), "default");
    size_t i;
    json_array_foreach(labels, i, name)
    {
        if (args->n == LEAT_SANITIZE_LABELS || !json_is_string(name) ||
            json_string_length(name) >= sizeof *args->labels)
            leat_args_wrong(json, "labels_getter", "\"default\", or a list of at most 16 names of fields");
        else
            strcpy(args->labels[args->n++], json_string_value(name));
    }
    if (!args->all && !json_is_array(labels))
        leat_args_wrong(json, "labels_getter", "\"default\", or a list of at most 16 names of fields");
}

/* Centres, sizes and shares are rounded as they become corners: a box that was cut off at an edge of the image may
 * reach beyond it by some units of the last place, of 2^-24. It is cut off again. */
#define ROUNDED 0x1p-20f

static bool within(float low, float high, float side)
{
    return low >= -side * ROUNDED && high >= -side * ROUNDED && low <= side + side * ROUNDED &&
           high <= side + side * ROUNDED;
}

static bool is_good(const struct leat_sanitize_args *args, const float *box, uint32_t w, uint32_t h)
{
    float across = box[2] - box[0], down = box[3] - box[1];
    return (double)across >= args->min_size && (double)down >= args->min_size &&
           (double)(across * down) >= args->min_area && within(box[0], box[2], (float)w) &&
           within(box[1], box[3], (float)h);
}

static void sanitize(const void *from, struct leat_targets *t)
{
    const struct leat_sanitize_args *args = from;
    const float *seen = args->min_visibility > 0 ? (const float *)(const void *)t->seen->data : NULL;
    size_t b = 0;
    while (!leat_role_is_boxes(t->parts[b].role)) /* there is one: compiling has seen to it */
        b++;
    const struct leat_target_part *boxes = &t->parts[b];
    uint64_t n = boxes->n, kept = 0;
    for (uint64_t i = 0; i < n; i++) {
        float box[4];
        memcpy(box, leat_target_boxes(boxes) + 4 * i, sizeof box);
        leat_boxes_convert(box, 1, boxes->role, LEAT_ROLE_BOXES_XYXY);
        if (!is_good(args, box, t->w, t->h) || (seen && (double)seen[i] < args->min_visibility))
            continue;
        if (box[0] < 0 || box[1] < 0 || box[2] > (float)t->w || box[3] > (float)t->h)
            leat_boxes_clamp(leat_target_boxes(boxes) + 4 * i, 1, boxes->role, t->w, t->h);
        for (size_t p = 0; p < t->n && kept != i; p++)
            if (t->parts[p].follows)
                memmove(t->parts[p].data + kept * t->parts[p].step, t->parts[p].data + i * t->parts[p].step,
                        t->parts[p].step);
        kept++;
    }
    for (size_t p = 0; p < t->n; p++)
        if (t->parts[p].follows)
            t->parts[p].n = kept;
}

const struct leat_op_class leat_op_sanitize_bounding_boxes = {.type = "SanitizeBoundingBoxes",
                                                              .args_bytes = sizeof(struct leat_sanitize_args),
                                                              .parse = parse,
                                                              .sanitizes = true,
                                                              .joint = sanitize};
