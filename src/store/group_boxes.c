/* Boxes beside the images of their samples, while a group is finished: the counts of leat_writer_boxes. */
#include "base/role.h"
#include "store/group.h"

/* The first image of a sample: its field, and of an encoded one its value. SIZE_MAX: there is none. */
static uint32_t find_image(const struct leat_group *g, uint64_t input, struct leat_group_value **value)
{
    const struct leat_store_layout *l = g->layout;
    uint32_t v = 0;
    for (uint32_t f = 0; f < l->n_stored; f++) {
        *value = l->info[f].varying ? leat_group_value_at(g, input, v++) : NULL;
        if (leat_store_is_image(l, f))
            return f;
    }
    return UINT32_MAX;
}

/* 0 x 0 if it is not known. */
static void size_of(const struct leat_group *g, uint32_t f, const struct leat_group_value *value, double *width,
                    double *height)
{
    const struct leat_field *field = &g->layout->fields[f];
    if (g->layout->info[f].codec) {
        *width = value->record.info.size[0];
        *height = value->record.info.size[1];
        return;
    }
    const double first = value ? (double)(value->length / g->layout->info[f].unit) : (double)field->shape[0];
    const bool hwc = field->layout == LEAT_LAYOUT_HWC;
    *height = hwc ? first : (double)field->shape[1];
    *width = (double)field->shape[hwc ? 1 : 2];
}

/* Boxes may be those of the photo as its orientation turns it (Decode(exif=True)). */
static void count(struct leat_box_counts *to, const struct leat_field *field, const uint8_t *boxes, uint64_t n,
                  double width, double height, bool turned)
{
    struct leat_box_counts upright = {0}, other = {0};
    uint64_t fit = 0, fit_other = 0;
    for (uint64_t i = 0; i < n; i++) {
        float b[4];
        memcpy(b, boxes + sizeof b * i, sizeof b);
        fit += leat_box_counts_add(&upright, field, b, width, height);
        fit_other += turned && leat_box_counts_add(&other, field, b, height, width);
    }
    leat_box_counts_join(to, fit_other > fit ? &other : &upright);
}

void leat_group_count_boxes(struct leat_group *g, uint64_t input, bool resized)
{
    const struct leat_store_layout *l = g->layout;
    struct leat_group_value *photo;
    const uint32_t image = find_image(g, input, &photo);
    uint32_t v = 0;
    double width, height;
    if (image == UINT32_MAX)
        return;
    size_of(g, image, photo, &width, &height);
    for (uint32_t f = 0; f < l->n_stored; f++) {
        const struct leat_group_value *value = l->info[f].varying ? leat_group_value_at(g, input, v++) : NULL;
        if (!leat_role_is_boxes(l->fields[f].role) || (resized && !l->fields[f].normalized))
            continue;
        count(&g->boxes[f], &l->fields[f], leat_group_came(g, value), value->length / (4 * sizeof(float)), width,
              height, photo && photo->turned);
    }
}
