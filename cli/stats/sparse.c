/*
 * Rows of sparse matrices, such as the counts of genes in cells. Their numbers of values lie in the index; sums, and
 * the columns that occur, need the rows themselves. Beyond MOST_BYTES of them, which take a second or so, only some are
 * read, spread evenly.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"
#include "stats/stats.h"

#define MOST_BYTES (UINT64_C(1) << 30)

struct sparse {
    const struct leat_field *field;
    struct cli_numbers values, sums;
    uint8_t *used; /* of each column: whether a row has it */
    uint64_t read, wrong;
};

/* Adds the sum of a row and its columns; one whose columns do not rise is counted as wrong. */
static bool look_at(struct sparse *s, const struct leat_value *row, uint64_t n)
{
    const char *columns = (const char *)row->data + n * leat_dtype_size(s->field->item);
    int64_t before = -1;
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        int32_t column;
        memcpy(&column, columns + i * sizeof column, sizeof column);
        if (column <= before || column >= s->field->columns) {
            s->wrong++;
            return true;
        }
        before = column;
        s->used[column] = 1;
        sum += cli_element(s->field->item, row->data, (size_t)i);
    }
    return !isfinite(sum) || cli_numbers_add(&s->sums, sum);
}

static json_t *found(struct sparse *s, uint64_t rows)
{
    const uint64_t columns = (uint64_t)s->field->columns;
    const double total = s->values.sum;
    uint64_t used = 0;
    for (uint64_t i = 0; i < columns; i++)
        used += s->used[i];
    json_t *values = cli_numbers_json(&s->values, true),
           *sums = cli_numbers_json(&s->sums, s->field->item <= LEAT_I64 || s->field->item == LEAT_BOOL);
    cli_numbers_quartiles(&s->values, values);
    cli_numbers_quartiles(&s->sums, sums);
    return json_pack("{ss ss sI sI sf so sI sI sf sI so}", "field", s->field->name, "dtype",
                     leat_dtype_name(s->field->item), "rows", (json_int_t)rows, "columns", (json_int_t)columns, "total",
                     total, "values", values, "read", (json_int_t)s->read, "used", (json_int_t)used, "share",
                     columns ? (double)used / (double)columns : 0, "wrong", (json_int_t)s->wrong, "sums", sums);
}

uint64_t cli_stats_sparse_rows(const struct leat_dataset *dataset, size_t field)
{
    struct leat_value lengths;
    const uint64_t count = leat_dataset_count(dataset);
    uint64_t bytes = 0;
    if (leat_dataset_column(dataset, field, true, true, &lengths, NULL))
        return 0;
    for (uint64_t i = 0; i < count; i++)
        bytes += ((const uint64_t *)lengths.data)[i];
    leat_value_clear(&lengths);
    return bytes <= MOST_BYTES ? count : (uint64_t)((double)count * (double)MOST_BYTES / (double)bytes) + 1;
}

json_t *cli_stats_sparse(const struct leat_dataset *dataset, size_t number, atomic_ullong *done, bool *short_of_memory,
                         struct leat_error *error)
{
    size_t n_fields;
    struct leat_value lengths, row;
    const uint64_t count = leat_dataset_count(dataset), read = cli_stats_sparse_rows(dataset, number);
    struct sparse s = {.field = &leat_dataset_fields(dataset, &n_fields)[number]};
    const uint64_t step = (uint64_t)s.field->shape[1];
    json_t *made = NULL;
    int rc = leat_dataset_column(dataset, number, true, true, &lengths, error);
    if (rc)
        return NULL;
    s.used = calloc((size_t)s.field->columns, 1);
    bool good = s.used != NULL;
    for (uint64_t i = 0; good && i < count; i++)
        good = cli_numbers_add(&s.values, (double)(((const uint64_t *)lengths.data)[i] / step));
    for (; good && !rc && s.read < read; s.read++) {
        const uint64_t at = (uint64_t)((double)count * (double)s.read / (double)read);
        rc = leat_dataset_read(dataset, at, number, &row, error);
        atomic_fetch_add(done, 1);
        if (rc)
            break;
        good = look_at(&s, &row, row.length / step);
        leat_value_clear(&row);
    }
    if (good && !rc)
        made = found(&s, count);
    *short_of_memory |= !good;
    leat_value_clear(&lengths);
    cli_numbers_clear(&s.values);
    cli_numbers_clear(&s.sums);
    free(s.used);
    return made;
}
