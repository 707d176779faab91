/*
 * The things to look at: the samples of a data set, or the rows of a batch. Both are a table of columns, fields or
 * outputs, whose values are read one by one.
 */
#ifndef LEAT_CLI_VIEW_ROWS_H
#define LEAT_CLI_VIEW_ROWS_H

#include <jansson.h>

#include "leat/leat.h"

struct cli_column {
    struct leat_field field; /* its type; that of one row of an output */
    size_t group;            /* columns of one group belong together: boxes to the image of their group */
    bool open;               /* images of open size: the shape is that of each row */
    bool normalized;         /* made by Normalize, with */
    double mean[3], std[3];
};

struct cli_rows {
    const struct leat_dataset *dataset; /* of the samples, or that the batch was made of */
    const struct leat_batch *batch;     /* NULL: the samples themselves */
    struct cli_column *columns;
    size_t n_columns;
};

/* A value. `data` is valid until cli_cell_clear, and as long as the batch. */
struct cli_cell {
    const void *data;
    uint64_t length;
    enum leat_dtype dtype;
    unsigned ndim;
    int64_t shape[LEAT_MAX_DIMS], strides[LEAT_MAX_DIMS]; /* in elements */
    bool pixels; /* a photo that is stored as pixels, (height, width, channels) */
    struct leat_value value;
};

/* False: no memory. */
bool cli_rows_of_dataset(const struct leat_dataset *dataset, struct cli_rows *out);
/* `program`: the program that made the batch, or NULL if its outputs are fields as stored. */
bool cli_rows_of_batch(const struct leat_batch *batch, const struct leat_dataset *dataset, const json_t *program,
                       struct cli_rows *out);
void cli_rows_clear(struct cli_rows *rows);

int cli_rows_read(const struct cli_rows *rows, uint64_t row, size_t column, struct cli_cell *out,
                  struct leat_error *error);
void cli_cell_clear(struct cli_cell *cell);

static inline bool cli_is_boxes(enum leat_role role)
{
    return role >= LEAT_ROLE_BOXES_XYXY && role <= LEAT_ROLE_BOXES_CXCYWH;
}
/* The name of a class, or its number. Returns `out`. */
const char *cli_class_name(const struct leat_dataset *dataset, int64_t number, char *out, size_t room);

/* The number of pictures of a row in a column: 1 of an image or a sparse row, 5 of FiveCrop; 0: it is not shown as a
 * picture. */
size_t cli_column_pictures(const struct cli_column *column);

#endif
