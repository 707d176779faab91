/*
 * A tensor does not say what it is, so the meaning of a batch's outputs is taken from its program: the fields that they
 * come from, those that one chain has moved together, the format that boxes were converted to, and the numbers of
 * Normalize.
 */
#include "view/rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array_file.h"
#include "draw/picture.h"
#include "print.h"
#include "view/strip.h"

bool cli_rows_of_dataset(const struct leat_dataset *dataset, struct cli_rows *out)
{
    size_t n;
    const struct leat_field *fields = leat_dataset_fields(dataset, &n);
    *out = (struct cli_rows){.dataset = dataset, .columns = calloc(n ? n : 1, sizeof *out->columns), .n_columns = n};
    for (size_t i = 0; out->columns && i < n; i++)
        out->columns[i].field = fields[i];
    return out->columns != NULL;
}

void cli_rows_clear(struct cli_rows *rows)
{
    free(rows->columns);
    *rows = (struct cli_rows){0};
}

/* ---- the outputs of a program ---------------------------------------------------------------- */

static const char *text_at(const json_t *list, size_t i)
{
    return json_string_value(json_array_get(list, i));
}

/* The entry of the program that an output comes from, its number, and the name of its field; NULL: it is not there. */
static const json_t *find_entry(const json_t *program, const char *output, size_t *number, const char **field)
{
    const char *name;
    json_t *entry;
    *number = 0;
    json_object_foreach(json_object_get(program, "outputs"), name, entry)
    {
        const json_t *fields = json_object_get(entry, "fields"), *names = json_object_get(entry, "outputs");
        ++*number;
        *field = json_string_value(json_object_get(entry, "field"));
        if (!fields && !strcmp(name, output))
            return entry;
        for (size_t i = 0; i < json_array_size(fields); i++) {
            const char *own = text_at(names ? names : fields, i);
            *field = text_at(fields, i);
            if (own && !strcmp(own, output))
                return entry;
        }
    }
    return NULL;
}

static double number_of(const json_t *list, size_t c)
{
    const json_t *one = json_is_array(list) ? json_array_get(list, json_array_size(list) > 1 ? c : 0) : list;
    return json_number_value(one);
}

/* The effect of an operator on sparse rows: they become dense or the list of columns, or floats. */
static void follow_sparse(const json_t *op, const char *type, struct leat_field *field)
{
    const char *which = json_string_value(json_object_get(op, "which"));
    if (!strcmp(type, "Densify") || (which && !strcmp(which, "columns")))
        field->role = LEAT_ROLE_NONE;
    else if (!strcmp(type, "NormalizeTotal") || !strcmp(type, "Log1p"))
        field->item = field->item == LEAT_F64 ? LEAT_F64 : LEAT_F32;
}

/* The effect of an entry's operators on a field. */
static void follow_chain(const json_t *program, const json_t *entry, struct cli_column *column)
{
    static const struct {
        const char *word;
        enum leat_role role;
    } formats[] = {{"xyxy", LEAT_ROLE_BOXES_XYXY}, {"xywh", LEAT_ROLE_BOXES_XYWH}, {"cxcywh", LEAT_ROLE_BOXES_CXCYWH}};
    const json_t *chain = json_object_get(entry, "chain");
    for (size_t i = 0; i < json_array_size(chain); i++) {
        const char *key = text_at(chain, i);
        const json_t *op = key ? json_object_get(json_object_get(program, "operators"), key) : NULL;
        const char *type = json_string_value(json_object_get(op, "type")),
                   *format = json_string_value(json_object_get(op, "format"));
        const bool boxes = cli_is_boxes(column->field.role);
        if (type && column->field.role == LEAT_ROLE_SPARSE)
            follow_sparse(op, type, &column->field);
        if (boxes && type && format && !strcmp(type, "ConvertBoundingBoxFormat")) {
            const json_t *shares = json_object_get(op, "normalized");
            for (size_t f = 0; f < 3; f++)
                if (!strcmp(format, formats[f].word))
                    column->field.role = formats[f].role;
            if (json_is_boolean(shares))
                column->field.normalized = json_is_true(shares);
        }
        if (!type || strcmp(type, "Normalize") != 0)
            continue;
        column->normalized = true;
        const double unit = number_of(json_object_get(op, "mean"), 0) > 1 ? 255 : 1;
        for (size_t c = 0; c < 3; c++) {
            column->mean[c] = number_of(json_object_get(op, "mean"), c) / unit;
            column->std[c] = number_of(json_object_get(op, "std"), c) / unit;
        }
    }
}

static void describe(struct cli_rows *rows, const json_t *program, size_t output, const struct leat_tensor *tensor)
{
    struct cli_column *column = &rows->columns[output];
    size_t number = 0;
    const char *name = tensor->name;
    const json_t *entry = program ? find_entry(program, tensor->name, &number, &name) : NULL;
    const int from = (entry || !program) && name ? cli_field(rows->dataset, name) : -1;
    size_t n;
    if (from >= 0)
        column->field = leat_dataset_fields(rows->dataset, &n)[from];
    column->field.name = tensor->name;
    column->field.kind = tensor->kind;
    column->group = number;
    if (entry)
        follow_chain(program, entry, column);
    if (tensor->kind != LEAT_KIND_ARRAY)
        return;
    /* The type of a row: an image on its way through operators has its layout in the shape. */
    column->field.dtype = tensor->dtype;
    if (json_array_size(json_object_get(entry, "chain")))
        column->field.layout = LEAT_LAYOUT_NONE;
    column->field.ndim = tensor->offsets ? tensor->ndim : tensor->ndim - 1;
    const unsigned skip = tensor->offsets ? 0 : 1;
    struct leat_tensor image;
    column->open = !leat_batch_image(rows->batch, output, 0, &image);
    if (column->open)
        column->field.ndim = image.ndim;
    for (unsigned d = 0; d < column->field.ndim && !column->open; d++)
        column->field.shape[d] = d == 0 && tensor->offsets ? -1 : tensor->shape[d + skip];
}

bool cli_rows_of_batch(const struct leat_batch *batch, const struct leat_dataset *dataset, const json_t *program,
                       struct cli_rows *out)
{
    const size_t n = leat_batch_outputs(batch);
    *out = (struct cli_rows){
        .dataset = dataset, .batch = batch, .columns = calloc(n ? n : 1, sizeof *out->columns), .n_columns = n};
    struct leat_tensor tensor;
    for (size_t i = 0; out->columns && i < n; i++)
        if (!leat_batch_tensor(batch, i, &tensor))
            describe(out, program, i, &tensor);
    return out->columns != NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

static void dense(struct cli_cell *cell)
{
    int64_t stride = 1;
    for (unsigned d = cell->ndim; d-- > 0; stride *= cell->shape[d])
        cell->strides[d] = stride;
}

/* A photo that is stored as pixels comes in a batch as it lies in the file. */
static void take_pixels(struct cli_cell *cell)
{
    struct cli_photo photo;
    if (!cli_photo_of_pixels(cell->data, cell->length, &photo))
        return;
    cell->data = photo.pixels;
    cell->length -= 16;
    cell->pixels = true;
    cell->ndim = 3;
    memcpy(cell->shape, (int64_t[]){photo.height, photo.width, photo.channels}, 3 * sizeof *cell->shape);
}

static int read_batch(const struct cli_rows *rows, uint64_t row, size_t column, struct cli_cell *cell)
{
    struct leat_tensor tensor;
    const bool open = rows->columns[column].open;
    const int rc =
        open ? leat_batch_image(rows->batch, column, row, &tensor) : leat_batch_tensor(rows->batch, column, &tensor);
    if (rc)
        return rc;
    const size_t size = leat_dtype_size(tensor.dtype);
    const unsigned skip = tensor.offsets || open ? 0 : 1;
    cell->dtype = tensor.dtype;
    cell->ndim = tensor.ndim - skip;
    memcpy(cell->shape, tensor.shape + skip, cell->ndim * sizeof *cell->shape);
    memcpy(cell->strides, tensor.strides + skip, cell->ndim * sizeof *cell->strides);
    const int64_t first = open ? 0 : tensor.offsets ? tensor.offsets[row] : (int64_t)row;
    if (tensor.offsets && !open)
        cell->shape[0] = tensor.offsets[row + 1] - first;
    cell->data = (const char *)tensor.data + (size_t)(first * tensor.strides[0]) * size;
    cell->length = size;
    for (unsigned d = 0; d < cell->ndim; d++)
        cell->length *= (uint64_t)cell->shape[d];
    if (tensor.kind == LEAT_KIND_IMAGE) {
        take_pixels(cell);
        dense(cell);
    }
    return LEAT_OK;
}

int cli_rows_read(const struct cli_rows *rows, uint64_t row, size_t column, struct cli_cell *cell,
                  struct leat_error *error)
{
    *cell = (struct cli_cell){0};
    if (rows->batch) {
        *error = (struct leat_error){.code = LEAT_E_NOT_FOUND, .sample = LEAT_NO_SAMPLE, .offset = LEAT_NO_OFFSET};
        return read_batch(rows, row, column, cell);
    }
    const int rc = leat_dataset_read(rows->dataset, row, column, &cell->value, error);
    if (rc)
        return rc;
    cell->data = cell->value.data;
    cell->length = cell->value.length;
    cell->dtype = cell->value.dtype;
    cell->ndim = cell->value.ndim;
    memcpy(cell->shape, cell->value.shape, sizeof cell->shape);
    cell->pixels = rows->columns[column].field.kind == LEAT_KIND_IMAGE && cell->ndim == 3;
    dense(cell);
    return LEAT_OK;
}

void cli_cell_clear(struct cli_cell *cell)
{
    leat_value_clear(&cell->value);
    *cell = (struct cli_cell){0};
}

size_t cli_column_pictures(const struct cli_column *column)
{
    const struct leat_field *field = &column->field;
    if (cli_column_is_strip(column))
        return 1;
    if (field->role != LEAT_ROLE_NONE)
        return 0;
    if (field->kind == LEAT_KIND_IMAGE || (column->open && field->ndim == 3))
        return 1;
    const bool likely = field->layout || field->ndim >= 3 || field->dtype == LEAT_U8;
    if (field->kind != LEAT_KIND_ARRAY || !likely)
        return 0;
    if (field->ndim == 4 && field->shape[0] > 0) /* several of one sample: channels stand with the pixels */
        return cli_pixels_fit(LEAT_LAYOUT_NONE, 3, field->shape + 1) ? (size_t)field->shape[0] : 0;
    return cli_pixels_fit(field->layout, field->ndim, field->shape);
}

const char *cli_class_name(const struct leat_dataset *dataset, int64_t number, char *out, size_t room)
{
    size_t n;
    const char *const *names = leat_dataset_classes(dataset, &n);
    if (number >= 0 && (uint64_t)number < n)
        return leat_escape(names[number], out, room);
    snprintf(out, room, "%" PRId64, number);
    return out;
}
