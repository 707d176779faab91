/* Operators on sparse rows: parts, dense rows, sums and logarithms of values of each dtype; columns that lie. */
#include "base/role.h"
#include "kernels/values.h"

#include "program_helpers.h"

#include <math.h>

enum { COLUMNS = 40, MOST = 12 };

static struct leat_field sparse_of(enum leat_dtype item)
{
    const int64_t shape[] = {-1, (int64_t)leat_sparse_step(item)};
    struct leat_field field = field_of("x", LEAT_KIND_ARRAY, LEAT_U8, LEAT_LAYOUT_NONE, 2, shape);
    field.role = LEAT_ROLE_SPARSE;
    field.item = item;
    field.columns = COLUMNS;
    return field;
}

/* A row of n values, its bytes at their end of memory: a read behind it is found. Column k is 3 k + 1, value k + 1. */
static uint8_t *row_of(enum leat_dtype item, size_t n, uint64_t *bytes)
{
    const size_t size = leat_dtype_size(item);
    *bytes = n * (size + 4);
    uint8_t *row = malloc(*bytes ? *bytes : 1);
    for (size_t k = 0; k < n; k++) {
        const int32_t column = (int32_t)(3 * k + 1);
        const double value = (double)k + 1;
        leat_values_convert(LEAT_F64, item, &value, row + k * size, 1);
        memcpy(row + n * size + 4 * k, &column, 4);
    }
    return row;
}

static int apply(const char *operator, enum leat_dtype item, const void *row, uint64_t bytes, void *out,
                 struct leat_error *error)
{
    struct leat_field field = sparse_of(item);
    struct leat_program *program = must_compile(&field, operator);
    struct leat_scratch *scratch = leat_scratch_new(program);
    const struct leat_row given = {.data = row, .length = bytes};
    const bool ragged = leat_program_output(program, 0)->ragged;
    const int rc = ragged ? leat_program_apply_ragged(program, 0, scratch, &given, out, error)
                   : leat_program_apply(program, 0, scratch, &given, 1, out, error) == 1 ? LEAT_OK
                                                                                         : error->code;
    leat_scratch_free(scratch);
    leat_program_free(program);
    return rc;
}

static const enum leat_dtype items[] = {LEAT_U8, LEAT_I16, LEAT_F16, LEAT_I32, LEAT_F32, LEAT_I64, LEAT_F64};

TEST(parts_are_the_values_and_their_columns)
{
    struct leat_error error = {0};
    for (size_t t = 0; t < sizeof items / sizeof *items; t++)
        for (size_t n = 0; n <= MOST; n++) {
            uint64_t bytes;
            uint8_t *row = row_of(items[t], n, &bytes), *values = malloc(n * 8 + 1);
            int32_t *columns = malloc(4 * n + 1);
            assert_ok(apply("{\"type\": \"SparsePart\", \"which\": \"values\"}", items[t], row, bytes, values, &error));
            assert_ok(
                apply("{\"type\": \"SparsePart\", \"which\": \"columns\"}", items[t], row, bytes, columns, &error));
            assert_memory_equal(values, row, n * leat_dtype_size(items[t]));
            for (size_t k = 0; k < n; k++)
                assert_int_equal(columns[k], 3 * k + 1);
            free(columns);
            free(values);
            free(row);
        }
}

TEST(dense_rows_have_each_value_in_its_column)
{
    struct leat_error error = {0};
    for (size_t t = 0; t < sizeof items / sizeof *items; t++) {
        const size_t size = leat_dtype_size(items[t]);
        uint64_t bytes;
        uint8_t *row = row_of(items[t], MOST, &bytes), *out = malloc(COLUMNS * size), zeros[8] = {0};
        assert_ok(apply("{\"type\": \"Densify\"}", items[t], row, bytes, out, &error));
        for (size_t c = 0; c < COLUMNS; c++) {
            const bool there = c % 3 == 1 && c / 3 < MOST;
            assert_memory_equal(out + c * size, there ? row + c / 3 * size : zeros, size);
        }
        free(out);
        free(row);
    }
}

TEST(values_are_scaled_to_a_sum_and_become_logarithms)
{
    struct leat_error error = {0};
    for (size_t t = 0; t < sizeof items / sizeof *items; t++) {
        const enum leat_dtype to = items[t] == LEAT_F64 ? LEAT_F64 : LEAT_F32;
        uint64_t bytes;
        uint8_t *row = row_of(items[t], MOST, &bytes), *out = malloc(MOST * (leat_dtype_size(to) + 4));
        double values[MOST];
        assert_ok(apply("{\"type\": \"NormalizeTotal\", \"target\": 156}", items[t], row, bytes, out, &error));
        leat_values_convert(to, LEAT_F64, out, values, MOST);
        for (size_t k = 0; k < MOST; k++)
            assert_true(fabs(values[k] - 2 * ((double)k + 1)) < 1e-5);
        assert_memory_equal(out + MOST * leat_dtype_size(to), row + MOST * leat_dtype_size(items[t]), 4 * MOST);
        assert_ok(apply("{\"type\": \"Log1p\"}", items[t], row, bytes, out, &error));
        leat_values_convert(to, LEAT_F64, out, values, MOST);
        for (size_t k = 0; k < MOST; k++)
            assert_true(fabs(values[k] - log1p((double)k + 1)) < 1e-6);
        free(out);
        free(row);
    }
}

TEST(columns_that_lie_are_errors_that_name_them)
{
    static const struct {
        int32_t columns[3];
        const char *said;
    } cases[] = {{{0, 2, 2}, "value 2 of the sparse row is of column 2, behind 2"},
                 {{0, 5, 1}, "value 2 of the sparse row is of column 1, behind 5"},
                 {{-1, 5, 6}, "value 0 of the sparse row is of column -1"},
                 {{0, 5, COLUMNS}, "is of column 40, behind 5: columns rise from 0 to 39"}};
    static const char *const operators[] = {"{\"type\": \"Densify\"}",
                                            "{\"type\": \"SparsePart\", \"which\": \"columns\"}"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t o = 0; o < 2; o++) {
            struct leat_error error = {0};
            uint64_t bytes;
            uint8_t *row = row_of(LEAT_F32, 3, &bytes), out[COLUMNS * 4];
            memcpy(row + 3 * sizeof(float), cases[i].columns, sizeof cases[i].columns);
            assert_int_equal(apply(operators[o], LEAT_F32, row, bytes, out, &error), LEAT_E_DECODE);
            assert_non_null(strstr(error.message, cases[i].said));
            free(row);
        }
}

TEST_MAIN()
