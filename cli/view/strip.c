/*
 * A pixel stands for the columns that fall on it, and has the brightness of the largest of their values v, by
 * log(1 + |v|); the largest one of the row is the brightest.
 */
#include "view/strip.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"

/* The row, however it came: values, and behind them or in an output of their own the columns. */
struct sparse {
    const void *values;
    const char *columns;
    enum leat_dtype dtype;
    uint64_t n;
};

bool cli_column_is_strip(const struct cli_column *column)
{
    return column->field.role == LEAT_ROLE_SPARSE;
}

/* Finds the columns of a batch's output, in the output "NAME.columns". */
static bool find_columns(const struct cli_rows *rows, uint64_t row, const char *name, struct cli_cell *out)
{
    char wanted[160];
    struct leat_error error;
    snprintf(wanted, sizeof wanted, "%s.columns", name);
    for (size_t i = 0; i < rows->n_columns; i++)
        if (rows->columns[i].field.name && !strcmp(rows->columns[i].field.name, wanted))
            return !cli_rows_read(rows, row, i, out, &error) && out->dtype == LEAT_I32;
    return false;
}

static int bad(struct leat_error *error, const char *why)
{
    *error = (struct leat_error){.code = LEAT_E_DECODE, .sample = LEAT_NO_SAMPLE, .offset = LEAT_NO_OFFSET};
    snprintf(error->message, sizeof error->message, "%s", why);
    return LEAT_E_DECODE;
}

/* The brightness of each pixel, not divided by the largest one yet. */
static int bin(const struct sparse *s, int64_t columns, double *bins, uint32_t width, double *sum,
               struct leat_error *error)
{
    int64_t before = -1;
    for (uint64_t i = 0; i < s->n; i++) {
        int32_t column;
        memcpy(&column, s->columns + i * sizeof column, sizeof column);
        if (column <= before || column >= columns)
            return bad(error, "its columns do not rise, or are beyond the last");
        before = column;
        const double v = cli_element(s->dtype, s->values, (size_t)i), bright = log1p(fabs(v));
        const uint64_t first = (uint64_t)column * width / (uint64_t)columns,
                       end = ((uint64_t)column + 1) * width / (uint64_t)columns;
        *sum += v;
        for (uint64_t x = first; isfinite(bright) && x < (end > first ? end : first + 1); x++)
            bins[x] = fmax(bins[x], bright);
    }
    return LEAT_OK;
}

/* From nearly black over orange to nearly white. */
static void shade(double part, uint8_t rgb[3])
{
    static const double ends[3][3] = {{24, 26, 31}, {222, 110, 34}, {255, 246, 214}};
    const int at = part < 0.5 ? 0 : 1;
    const double of = 2 * part - at;
    for (int k = 0; k < 3; k++)
        rgb[k] = (uint8_t)lround(ends[at][k] + of * (ends[at + 1][k] - ends[at][k]));
}

static int draw(const double *bins, uint32_t width, struct cli_picture *out)
{
    double most = 0;
    out->pixels = malloc((size_t)width * CLI_STRIP * 3);
    if (!out->pixels)
        return LEAT_E_NOMEM;
    out->width = width;
    out->height = CLI_STRIP;
    for (uint32_t x = 0; x < width; x++)
        most = fmax(most, bins[x]);
    for (uint32_t x = 0; x < width; x++)
        shade(most > 0 ? bins[x] / most : 0, out->pixels + 3 * (size_t)x);
    for (uint32_t y = 1; y < CLI_STRIP; y++)
        memcpy(out->pixels + 3 * (size_t)width * y, out->pixels, 3 * (size_t)width);
    return LEAT_OK;
}

int cli_strip_make(const struct cli_rows *rows, uint64_t row, size_t column, const struct cli_cell *cell,
                   uint32_t width, struct cli_picture *out, char *about, size_t room, struct leat_error *error)
{
    const struct leat_field *field = &rows->columns[column].field;
    struct cli_cell columns = {0};
    struct sparse s = {.values = cell->data, .dtype = cell->dtype, .n = (uint64_t)cell->shape[0]};
    char count[32], of[32];
    about[0] = 0;
    double sum = 0, *bins = calloc(width, sizeof *bins);
    int rc = bins ? LEAT_OK : LEAT_E_NOMEM;
    if (cell->ndim == 2 &&
        cell->shape[1] == (int64_t)(leat_dtype_size(field->item) + sizeof(int32_t))) { /* as stored */
        s.dtype = field->item;
        s.columns = (const char *)cell->data + s.n * leat_dtype_size(field->item);
    } else if (!rc && (!find_columns(rows, row, field->name, &columns) || columns.shape[0] != cell->shape[0])) {
        rc = bad(error, "the batch does not have its columns");
    } else {
        s.columns = columns.data;
    }
    rc = rc ? rc : bin(&s, field->columns, bins, width, &sum, error);
    rc = rc ? rc : draw(bins, width, out);
    if (!rc)
        snprintf(about, room, "%s values in %s columns, sum %.6g", cli_count(s.n, count),
                 cli_count((uint64_t)field->columns, of), sum);
    cli_cell_clear(&columns);
    free(bins);
    return rc;
}
