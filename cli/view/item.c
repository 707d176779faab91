/*
 * Targets of an image are the other columns of its group: boxes, keypoints and a mask by their role, and class numbers
 * by their name and length: one number is the class of the image, as many as there are boxes are theirs.
 */
#include "view/item.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"
#include "view/strip.h"

void cli_item_clear(struct cli_item *item)
{
    cli_picture_clear(&item->picture);
    free(item->boxes);
    free(item->classes);
    free(item->points);
    free(item->mask);
    free(item->owners);
    *item = (struct cli_item){0};
}

static bool is_integer(const struct leat_field *field)
{
    return field->kind == LEAT_KIND_ARRAY && field->dtype >= LEAT_U8 && field->dtype <= LEAT_I64;
}

/* A score for a field's name: how well it says that the field holds classes. */
static int like_label(const char *name)
{
    return !strcmp(name, "label")                                                       ? 3
           : !strcmp(name, "labels")                                                    ? 2
           : strstr(name, "label") || strstr(name, "class") || strstr(name, "category") ? 1
                                                                                        : 0;
}

/* ---- the picture ----------------------------------------------------------------------------- */

static int make_picture(const struct cli_column *column, const struct cli_cell *cell, size_t nth,
                        struct cli_picture *out, struct leat_error *error)
{
    if (column->field.kind == LEAT_KIND_IMAGE && !cell->pixels)
        return cli_picture_decode(&column->field, cell->data, cell->length, out, error);
    struct cli_pixels pixels = {.dtype = cell->dtype,
                                .layout = cell->pixels ? LEAT_LAYOUT_HWC : column->field.layout,
                                .ndim = cell->ndim,
                                .data = cell->data,
                                .normalized = column->normalized};
    memcpy(pixels.shape, cell->shape, sizeof pixels.shape);
    memcpy(pixels.strides, cell->strides, sizeof pixels.strides);
    if (cell->ndim == 4) {
        pixels.ndim = 3;
        pixels.layout = LEAT_LAYOUT_NONE;
        pixels.data = (const char *)cell->data + nth * (size_t)cell->strides[0] * leat_dtype_size(cell->dtype);
        memmove(pixels.shape, cell->shape + 1, 3 * sizeof *pixels.shape);
        memmove(pixels.strides, cell->strides + 1, 3 * sizeof *pixels.strides);
    }
    memcpy(pixels.mean, column->mean, sizeof pixels.mean);
    memcpy(pixels.std, column->std, sizeof pixels.std);
    return cli_picture_of_pixels(&pixels, out, error);
}

/* Writes the error into the tile. Only a lack of memory is passed on. */
static int note(struct cli_item *item, const char *what, int rc, const struct leat_error *error)
{
    if (rc == LEAT_E_NOMEM)
        return rc;
    if (!item->error[0])
        snprintf(item->error, sizeof item->error, "%s: %s", what,
                 rc == LEAT_E_DECODE || error->message[0] ? error->message : leat_status_text(rc));
    return LEAT_OK;
}

/* ---- targets --------------------------------------------------------------------------------- */

static void to_corners(float b[4], enum leat_role role)
{
    if (role == LEAT_ROLE_BOXES_XYXY)
        return;
    const float x = role == LEAT_ROLE_BOXES_XYWH ? b[0] : b[0] - b[2] / 2,
                y = role == LEAT_ROLE_BOXES_XYWH ? b[1] : b[1] - b[3] / 2;
    b[2] += x;
    b[3] += y;
    b[0] = x;
    b[1] = y;
}

/* Boxes that are nothing but zeroes at the end of a row of a batch: PadTo's, and none. */
static size_t without_padding(const struct cli_cell *cell, size_t n)
{
    for (; n; n--)
        for (size_t k = 0; k < 4; k++)
            if (cli_element(cell->dtype, cell->data, 4 * (n - 1) + k) != 0)
                return n;
    return n;
}

static bool take_boxes(struct cli_item *item, const struct leat_field *field, const struct cli_cell *cell, bool batch)
{
    const size_t all = (size_t)(cell->ndim == 2 && cell->shape[1] == 4 ? cell->shape[0] : 0),
                 n = batch ? without_padding(cell, all) : all;
    free(item->boxes); /* of a column before: the last one of each kind is drawn */
    item->boxes = malloc((n ? n : 1) * 4 * sizeof *item->boxes);
    if (!item->boxes)
        return false;
    item->n_boxes = n;
    for (size_t i = 0; i < n; i++) {
        float *b = item->boxes + 4 * i;
        for (size_t k = 0; k < 4; k++)
            b[k] = (float)cli_element(cell->dtype, cell->data, 4 * i + k) *
                   (field->normalized ? (float)(k % 2 ? item->height : item->width) : 1);
        to_corners(b, field->role);
    }
    return true;
}

static bool take_points(struct cli_item *item, const struct cli_cell *cell)
{
    if (cell->ndim != 3 || cell->shape[2] != 3)
        return true;
    const size_t n = (size_t)(cell->shape[0] * cell->shape[1]) * 3;
    free(item->points);
    item->points = malloc((n ? n : 1) * sizeof *item->points);
    item->n_people = (size_t)cell->shape[0];
    item->n_points = (size_t)cell->shape[1];
    for (size_t i = 0; item->points && i < n; i++)
        item->points[i] = (float)cli_element(cell->dtype, cell->data, i);
    return item->points != NULL;
}

static int take_mask(struct cli_item *item, const struct cli_column *column, const struct cli_cell *cell,
                     struct leat_error *error)
{
    free(item->mask);
    item->mask = NULL;
    if (column->field.kind == LEAT_KIND_IMAGE)
        return cli_mask_decode(&column->field, cell->data, cell->length, &item->mask, &item->mask_width,
                               &item->mask_height, error);
    const unsigned last = cell->ndim - 1;
    if (cell->ndim < 2 || cell->ndim > 3 || (cell->ndim == 3 && cell->shape[0] != 1))
        return LEAT_OK;
    item->mask_height = (uint32_t)cell->shape[last - 1];
    item->mask_width = (uint32_t)cell->shape[last];
    item->mask = malloc((size_t)item->mask_height * item->mask_width);
    for (uint32_t y = 0; item->mask && y < item->mask_height; y++)
        for (uint32_t x = 0; x < item->mask_width; x++)
            item->mask[(size_t)y * item->mask_width + x] = (uint8_t)cli_element(
                cell->dtype, cell->data, (size_t)(y * cell->strides[last - 1] + x * cell->strides[last]));
    return item->mask ? LEAT_OK : LEAT_E_NOMEM;
}

/* Paints the masks of instances, `n` of height x width bytes each, into a map as large as the picture. If several cover
 * a pixel, it is the smallest one's, as the smallest box is drawn last. */
static bool paint_masks(struct cli_item *item, const uint8_t *masks, size_t n, size_t height, size_t width)
{
    const struct cli_picture *p = &item->picture;
    uint64_t *area = calloc(n + 1, sizeof *area);
    free(item->owners);
    item->owners = calloc((size_t)p->width * p->height, sizeof *item->owners);
    if (!area || !item->owners) {
        free(area);
        return false;
    }
    item->n_masks = n;
    for (size_t i = 0; i < n; i++, masks += height * width) {
        for (size_t k = 0; k < height * width; k++)
            area[i + 1] += masks[k] != 0;
        uint16_t *owner = item->owners;
        for (uint32_t y = 0; y < p->height; y++) {
            const uint8_t *line = masks + (2 * (size_t)y + 1) * height / (2 * (size_t)p->height) * width;
            for (uint32_t x = 0; x < p->width; x++, owner++)
                if (line[(2 * (size_t)x + 1) * width / (2 * (size_t)p->width)] &&
                    (!*owner || area[*owner] > area[i + 1]))
                    *owner = (uint16_t)(i + 1);
        }
    }
    free(area);
    return true;
}

static int too_many_masks(uint64_t n, const struct cli_item *item, struct leat_error *error)
{
    *error = (struct leat_error){.code = LEAT_E_RANGE, .sample = LEAT_NO_SAMPLE, .offset = LEAT_NO_OFFSET};
    snprintf(error->message, sizeof error->message, "%" PRIu64 " masks of %.0f x %.0f pixels are too many to draw.", n,
             item->width, item->height);
    return error->code;
}

/* Masks of instances: as stored, or drawn and moved by a chain. */
static int take_masks(struct cli_item *item, const struct cli_column *column, const struct cli_cell *cell,
                      struct leat_error *error)
{
    const uint64_t most = UINT64_C(1) << 29; /* bytes */
    if (column->field.kind == LEAT_KIND_ARRAY) {
        if (cell->ndim != 3 || leat_dtype_size(cell->dtype) != 1)
            return LEAT_OK;
        const size_t n = (size_t)cell->shape[0];
        if (n >= UINT16_MAX)
            return too_many_masks(n, item, error);
        return paint_masks(item, cell->data, n, (size_t)cell->shape[1], (size_t)cell->shape[2]) ? LEAT_OK
                                                                                                : LEAT_E_NOMEM;
    }
    const uint32_t width = (uint32_t)item->width, height = (uint32_t)item->height;
    const size_t length = (size_t)cell->length;
    uint64_t n;
    int rc = leat_masks_draw(cell->data, length, width, height, NULL, &n, error);
    if (rc || !n)
        return rc;
    if (n >= UINT16_MAX || n > most / ((uint64_t)width * height))
        return too_many_masks(n, item, error);
    uint8_t *masks = malloc((size_t)n * width * height);
    rc = masks ? leat_masks_draw(cell->data, length, width, height, masks, &n, error) : LEAT_E_NOMEM;
    if (!rc && !paint_masks(item, masks, (size_t)n, height, width))
        rc = LEAT_E_NOMEM;
    free(masks);
    return rc;
}

static int take_target(struct cli_item *item, const struct cli_column *column, const struct cli_cell *cell, bool batch,
                       struct leat_error *error)
{
    const enum leat_role role = column->field.role;
    if (cli_is_boxes(role))
        return take_boxes(item, &column->field, cell, batch) ? LEAT_OK : LEAT_E_NOMEM;
    if (role == LEAT_ROLE_KEYPOINTS)
        return take_points(item, cell) ? LEAT_OK : LEAT_E_NOMEM;
    if (role == LEAT_ROLE_MASKS)
        return take_masks(item, column, cell, error);
    return role == LEAT_ROLE_MASK ? take_mask(item, column, cell, error) : LEAT_OK;
}

/* The column of classes that fits best: for the boxes (`ragged`), or for the whole image. SIZE_MAX: none. */
static size_t find_labels(const struct cli_rows *rows, size_t group, bool ragged)
{
    size_t best = SIZE_MAX;
    int most = 0;
    for (size_t i = 0; i < rows->n_columns; i++) {
        const struct leat_field *field = &rows->columns[i].field;
        const bool fits =
            is_integer(field) && !(field->flags & LEAT_FIELD_DERIVED) && (ragged ? field->ndim == 1 : field->ndim == 0);
        const int score = like_label(field->name) * 2 + (rows->columns[i].group == group);
        if (fits && like_label(field->name) && score > most) {
            best = i;
            most = score;
        }
    }
    return best;
}

static bool take_classes(struct cli_item *item, const struct cli_rows *rows, uint64_t row, size_t group)
{
    const size_t column = item->boxes ? find_labels(rows, group, true) : SIZE_MAX;
    struct cli_cell cell;
    struct leat_error error;
    if (column == SIZE_MAX || cli_rows_read(rows, row, column, &cell, &error))
        return true;
    /* In padded boxes, the classes behind the last one are padding. */
    bool good = true;
    const size_t n = (size_t)cell.shape[0];
    if (item->n_boxes && (n == item->n_boxes || (rows->batch && n > item->n_boxes))) {
        item->classes = malloc(item->n_boxes * sizeof *item->classes);
        good = item->classes != NULL;
        for (size_t i = 0; good && i < item->n_boxes; i++)
            item->classes[i] = (int64_t)cli_element(cell.dtype, cell.data, i);
    }
    cli_cell_clear(&cell);
    return good;
}

/* ---- captions -------------------------------------------------------------------------------- */

/* The file's own name, if the data set knows it. */
static void file_name(const struct cli_rows *rows, uint64_t row, char *out, size_t room)
{
    const int at = rows->batch ? -1 : cli_field(rows->dataset, "name");
    char text[600];
    struct cli_cell cell;
    struct leat_error error;
    out[0] = 0;
    if (at < 0 || cli_rows_read(rows, row, (size_t)at, &cell, &error))
        return;
    snprintf(text, sizeof text, "%.*s", (int)(cell.length < 599 ? cell.length : 599), (const char *)cell.data);
    const char *slash = strrchr(text, '/');
    leat_escape(slash ? slash + 1 : text, out, room);
    cli_cell_clear(&cell);
}

/* Whether rows have more than one image, whose names tell them apart. */
static bool several_images(const struct cli_rows *rows)
{
    size_t n = 0;
    for (size_t i = 0; i < rows->n_columns; i++)
        n += cli_column_pictures(&rows->columns[i]) > 0;
    return n > 1;
}

/* The id with the class, or else the file's name; below it the size with further facts. */
static void write_captions(struct cli_item *item, const struct cli_rows *rows, uint64_t row, size_t column)
{
    char name[160], label[120] = "", boxes[40] = "", output[70] = "";
    int64_t id = (int64_t)row;
    struct cli_cell cell;
    struct leat_error error;
    const size_t classes = find_labels(rows, rows->columns[column].group, false);
    if (classes != SIZE_MAX && !cli_rows_read(rows, row, classes, &cell, &error)) {
        cli_class_name(rows->dataset, (int64_t)cli_element(cell.dtype, cell.data, 0), label, sizeof label);
        cli_cell_clear(&cell);
    }
    if (rows->batch)
        id = leat_batch_ids(rows->batch)[row];
    else
        leat_dataset_ids(rows->dataset, row, 1, &id, &error);
    file_name(rows, row, name, sizeof name);
    if (rows->batch && several_images(rows))
        leat_escape(rows->columns[column].field.name, output, sizeof output);
    if (item->boxes)
        snprintf(boxes, sizeof boxes, ", %zu box%s", item->n_boxes, item->n_boxes == 1 ? "" : "es");
    const char *first = label[0] ? label : name, *second = rows->batch ? output : label[0] ? name : "";
    snprintf(item->title, sizeof item->title, "#%" PRId64 " %s", id, first);
    if (item->about[0])
        snprintf(item->detail, sizeof item->detail, "%s%s%s", item->about, second[0] ? "  " : "", second);
    else if (item->picture.pixels)
        snprintf(item->detail, sizeof item->detail, "%.0f x %.0f%s%s%s", item->width, item->height, boxes,
                 second[0] ? "  " : "", second);
    else
        snprintf(item->detail, sizeof item->detail, "%s", second);
}

int cli_item_make(const struct cli_rows *rows, uint64_t row, size_t column, size_t nth, uint32_t side,
                  struct cli_item *item, struct leat_error *error)
{
    const size_t pictures = cli_column_pictures(&rows->columns[column]);
    const size_t group = rows->columns[column].group;
    struct cli_cell cell;
    *item = (struct cli_item){0};
    int rc = cli_rows_read(rows, row, column, &cell, error);
    if (!rc) {
        if (cli_column_is_strip(&rows->columns[column]))
            rc = cli_strip_make(rows, row, column, &cell, side, &item->picture, item->about, sizeof item->about, error);
        else
            rc = make_picture(&rows->columns[column], &cell, nth, &item->picture, error);
        cli_cell_clear(&cell);
    }
    item->width = item->picture.width;
    item->height = item->picture.height;
    rc = rc ? note(item, "broken", rc, error) : cli_picture_fit(&item->picture, side, error);
    for (size_t i = 0; !rc && item->picture.pixels && pictures == 1 && i < rows->n_columns; i++) {
        const struct cli_column *target = &rows->columns[i];
        if (target->group != group || target->field.role == LEAT_ROLE_NONE || cli_column_is_strip(target))
            continue;
        rc = cli_rows_read(rows, row, i, &cell, error);
        if (!rc) {
            rc = take_target(item, target, &cell, rows->batch != NULL, error);
            cli_cell_clear(&cell);
        }
        if (rc)
            rc = note(item, target->field.name, rc, error);
    }
    if (!rc && !take_classes(item, rows, row, group))
        rc = LEAT_E_NOMEM;
    write_captions(item, rows, row, column);
    const size_t end = strlen(item->detail);
    if (pictures > 1)
        snprintf(item->detail + end, sizeof item->detail - end, ", %zu of %zu", nth + 1, pictures);
    if (rc) {
        cli_item_clear(item);
        *error = (struct leat_error){.code = rc, .sample = LEAT_NO_SAMPLE, .offset = LEAT_NO_OFFSET};
        snprintf(error->message, sizeof error->message, "No memory for a picture.");
    }
    return rc;
}
