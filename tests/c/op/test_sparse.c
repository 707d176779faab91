/* Operators on sparse rows: parts, dense rows, sums and logarithms of values of each dtype, columns that are picked,
 * ranks; columns that lie. Rows and results end where their memory ends, and rows begin at any address. */
#include "base/role.h"
#include "kernels/values.h"

#include "../allocations.h"
#include "program_helpers.h"

#include <inttypes.h>
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

/* ---- operators whose results are as long as values say ----------------------------------------------------------- */

struct made {
    uint8_t *out;
    uint64_t steps;
    int rc;
};

/* The text of a program of one operator with lists of numbers. */
static char *text_of(const char *begin, const char *name, const int64_t *numbers, const char *other,
                     const double *medians, size_t n, const char *end)
{
    char *text = malloc(200 + 60 * n), *p = text;
    p += sprintf(p,
                 "{\"outputs\": {\"x\": {\"field\": \"x\", \"chain\": [\"a\"]}}, \"operators\": {\"a\": {%s, \"%s\": [",
                 begin, name);
    for (size_t i = 0; i < n; i++)
        p += sprintf(p, "%s%" PRId64, i ? ", " : "", numbers[i]);
    p += sprintf(p, "]%s%s%s", medians ? ", \"" : "", medians ? other : "", medians ? "\": [" : "");
    for (size_t i = 0; medians && i < n; i++)
        p += sprintf(p, "%s%.17g", i ? ", " : "", medians[i]);
    sprintf(p, "%s%s}}}", medians ? "]" : "", end);
    return text;
}

static struct leat_program *program_of(const struct leat_field *field, char *text)
{
    struct leat_program *program;
    struct leat_error error = {0};
    assert_ok(leat_program_compile(field, 1, text, NULL, 0, LEAT_OPEN_ALONE, &program, &error));
    free(text);
    return program;
}

/* A row with nothing before and behind it, `shift` bytes from where any number may stand, in as much room as its bound
 * asks for. */
static struct made make_row(const struct leat_program *program, const void *row, uint64_t bytes, size_t shift,
                            struct leat_error *error)
{
    struct leat_scratch *scratch = leat_scratch_new(program);
    uint8_t *memory = malloc(bytes + shift ? bytes + shift : 1);
    memcpy(memory + shift, row, bytes);
    const struct leat_row given = {.data = memory + shift, .length = bytes};
    const uint64_t room = leat_program_ragged_bytes(program, 0, bytes);
    assert_true(leat_program_output(program, 0)->bounded);
    struct made made = {.out = malloc(room ? room : 1)};
    made.rc = leat_program_apply_ragged(program, 0, scratch, &given, made.out, error);
    made.steps = leat_scratch_steps(scratch);
    assert_true(made.rc || made.steps * leat_program_output(program, 0)->row_bytes <= room);
    leat_scratch_free(scratch);
    free(memory);
    return made;
}

struct gene {
    double quotient;
    int64_t token;
    size_t column;
};

static int by_quotient(const void *a, const void *b)
{
    const struct gene *x = a, *y = b;
    if (x->quotient != y->quotient)
        return x->quotient < y->quotient ? 1 : -1;
    return x->column < y->column ? -1 : 1;
}

/* What NumPy would say: `values` in all columns, those that are 0 are not there. */
static size_t rank_all(const double *values, const double *medians, const int64_t *tokens, size_t n, struct gene *genes)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (values[i] > 0 && medians[i] > 0 && tokens[i] >= 0)
            genes[kept++] = (struct gene){values[i] / medians[i], tokens[i], i};
    qsort(genes, kept, sizeof *genes, by_quotient);
    return kept;
}

static struct leat_field of_columns(enum leat_dtype item, int64_t columns)
{
    struct leat_field field = sparse_of(item);
    field.columns = columns;
    return field;
}

/* Ranks a row of `values`, and compares. */
static void check_ranks(enum leat_dtype item, const double *values, const double *medians, const int64_t *tokens,
                        size_t n, int64_t most, bool ends, bool dense, size_t shift)
{
    char rest[100];
    snprintf(rest, sizeof rest, ", \"max_length\": %" PRId64 "%s", most, ends ? ", \"bos\": 1, \"eos\": 2" : "");
    const int64_t shape[] = {(int64_t)n};
    const struct leat_field sparse = of_columns(item, (int64_t)n),
                            flat = field_of("x", LEAT_KIND_ARRAY, item, LEAT_LAYOUT_NONE, 1, shape);
    struct leat_program *program = program_of(
        dense ? &flat : &sparse, text_of("\"type\": \"RankTokens\"", "tokens", tokens, "medians", medians, n, rest));
    const size_t size = leat_dtype_size(item);
    size_t there = 0;
    uint8_t *row = malloc(n * (size + 4) + 1);
    int32_t *columns = malloc(n * sizeof *columns + 1);
    for (size_t i = 0; i < n; i++)
        if (dense || values[i] != 0) {
            leat_values_convert(LEAT_F64, item, &values[i], row + there * size, 1);
            columns[there++] = (int32_t)i;
        }
    memcpy(row + there * size, columns, dense ? 0 : there * sizeof *columns);
    struct leat_error error = {0};
    struct made made = make_row(program, row, there * (size + (dense ? 0 : 4)), shift, &error);
    assert_ok(made.rc);
    struct gene *genes = malloc((n + 1) * sizeof *genes);
    size_t kept = rank_all(values, medians, tokens, n, genes), at = ends;
    kept = kept + 2 * ends > (size_t)most ? (size_t)most - 2 * ends : kept;
    assert_int_equal(made.steps, kept + 2 * ends);
    const int64_t *found = (const int64_t *)(const void *)made.out;
    for (size_t i = 0; i < kept; i++)
        assert_int_equal(found[at++], genes[i].token);
    assert_true(!ends || (found[0] == 1 && found[at] == 2));
    free(genes);
    free(made.out);
    free(columns);
    free(row);
    leat_program_free(program);
}

TEST(ranks_are_those_of_a_stable_sort_for_rows_of_each_dtype_and_length)
{
    enum { N = 37 };
    double values[N], medians[N];
    int64_t tokens[N];
    uint64_t drawn = 0;
    for (size_t i = 0; i < N; i++) {
        medians[i] = i % 9 == 4 ? 0 : 0.5 + (double)(i % 4);
        tokens[i] = i % 11 == 5 ? -1 : (int64_t)(100 + i * 7 % N);
    }
    for (size_t t = 0; t < sizeof items / sizeof *items; t++)
        for (size_t some = 0; some <= N; some += 6)
            for (size_t shift = 0; shift < 8; shift += 3)
                for (unsigned way = 0; way < 4; way++) {
                    for (size_t i = 0; i < N; i++)
                        values[i] = i < some ? (double)leat_draw_below(3, drawn++, 5) : 0;
                    check_ranks(items[t], values, medians, tokens, N, way & 1 ? 9 : 1000, way & 1, way & 2, shift);
                }
}

TEST(long_rows_are_ranked_to_the_last_bit_wherever_their_quotients_lie)
{
    enum { LONGEST = 65536 }; /* as many genes as buckets cannot count */
    static const size_t lengths[] = {255, 256, 257, 2047, 2048, 2049, 5000, LONGEST};
    uint64_t drawn = 0;
    double *values = malloc(LONGEST * sizeof *values), *medians = malloc(LONGEST * sizeof *medians);
    int64_t *tokens = malloc(LONGEST * sizeof *tokens);
    for (size_t i = 0; i < LONGEST; i++) {
        tokens[i] = (int64_t)i;
        medians[i] = 1;
    }
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (unsigned kind = 0; kind < (lengths[l] < LONGEST ? 6 : 1); kind++) {
            for (size_t i = 0; i < lengths[l]; i++) {
                const double u = leat_draw_unit(4, drawn++);
                values[i] = kind == 0   ? 1 + u
                            : kind == 1 ? 1 + floor(9 * u) * 2.220446049250313e-16       /* in the last bits */
                            : kind == 2 ? exp(1400 * u - 700)                            /* of all exponents */
                            : kind == 3 ? (i == 7 ? 5e-324 : 1 + floor(99 * u) * 1e-15)  /* and one far away */
                            : kind == 4 ? (double)(i + 1)                                /* the other way round */
                                        : (i % 3 ? 2 : (i % 2 ? 1e300 : 1 + u * 1e-13)); /* in few buckets */
            }
            check_ranks(kind == 4 ? LEAT_F32 : LEAT_F64, values, medians, tokens, lengths[l], kind % 2 ? 60 : 1 << 20,
                        kind % 2, kind == 2, 1);
        }
    free(values);
    free(medians);
    free(tokens);
}

TEST(dense_rows_of_nan_name_the_first_however_many_there_are)
{
    enum { LONGEST = 60000 };
    static const size_t lengths[] = {1, 2048, 2049, 20000, LONGEST};
    static float row[LONGEST];
    static double medians[LONGEST];
    static int64_t tokens[LONGEST];
    for (size_t i = 0; i < LONGEST; i++) {
        tokens[i] = (int64_t)i;
        medians[i] = i % 2 ? 1 : -1;
    }
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        const int64_t shape[] = {(int64_t)lengths[l]};
        const struct leat_field flat = field_of("x", LEAT_KIND_ARRAY, LEAT_F32, LEAT_LAYOUT_NONE, 1, shape);
        struct leat_program *program =
            program_of(&flat, text_of("\"type\": \"RankTokens\"", "tokens", tokens, "medians", medians, lengths[l],
                                      ", \"max_length\": 100"));
        for (size_t kind = 0; kind < 3; kind++) { /* all; each third one; those with a sign, too */
            const size_t first = kind % lengths[l];
            for (size_t i = 0; i < lengths[l]; i++)
                row[i] = i < first ? 0 : kind == 2 && i % 2 ? -NAN : kind != 1 || i % 3 == first ? NAN : -1;
            char said[64];
            snprintf(said, sizeof said, "the value of column %zu is NaN", first);
            struct leat_error error = {0};
            struct made made = make_row(program, row, lengths[l] * sizeof *row, 0, &error);
            assert_int_equal(made.rc, LEAT_E_DECODE);
            assert_non_null(strstr(error.message, said));
            free(made.out);
        }
        leat_program_free(program);
    }
}

TEST(a_value_that_is_nan_names_its_column)
{
    static const double medians[] = {1, 1, 1, 1};
    static const int64_t tokens[] = {4, 5, 6, 7};
    struct leat_field field = of_columns(LEAT_F32, 4);
    struct leat_program *program = program_of(
        &field, text_of("\"type\": \"RankTokens\"", "tokens", tokens, "medians", medians, 4, ", \"max_length\": 9"));
    struct {
        float values[3];
        int32_t columns[3];
    } row = {{1, NAN, NAN}, {0, 2, 3}};
    struct leat_error error = {0};
    struct made made = make_row(program, &row, sizeof row, 0, &error);
    assert_int_equal(made.rc, LEAT_E_DECODE);
    assert_non_null(strstr(error.message, "the value of column 2 is NaN"));
    free(made.out);
    row.columns[2] = 4;
    made = make_row(program, &row, sizeof row, 0, &error);
    assert_int_equal(made.rc, LEAT_E_DECODE);
    assert_non_null(strstr(error.message, "columns rise from 0 to 3"));
    free(made.out);
    leat_program_free(program);
}

/* Selects columns of a row that has every third one, and compares. */
static void check_genes(enum leat_dtype item, const int64_t *chosen, size_t n_chosen, size_t n, int64_t columns,
                        size_t shift)
{
    struct leat_field field = of_columns(item, columns);
    struct leat_program *program =
        program_of(&field, text_of("\"type\": \"SelectGenes\"", "names", chosen, NULL, NULL, n_chosen, ""));
    uint64_t bytes;
    uint8_t *row = row_of(item, n, &bytes);
    struct leat_error error = {0};
    struct made made = make_row(program, row, bytes, shift, &error);
    assert_ok(made.rc);
    const size_t size = leat_dtype_size(item);
    size_t at = 0;
    for (size_t i = 0; i < n_chosen; i++) {
        const int64_t k = (chosen[i] - 1) / 3;
        int32_t column;
        if (chosen[i] % 3 != 1 || k >= (int64_t)n)
            continue;
        assert_true(at < made.steps);
        memcpy(&column, made.out + made.steps * size + at * 4, 4);
        assert_int_equal(column, i);
        assert_memory_equal(made.out + at++ * size, row + (size_t)k * size, size);
    }
    assert_int_equal(made.steps, at);
    free(made.out);
    free(row);
    leat_program_free(program);
}

TEST(selected_genes_come_in_their_order_from_rows_of_each_dtype_and_length)
{
    static const int64_t some[] = {39, 4, 1, 0, 7, 28, 31, 10};
    int64_t all[COLUMNS];
    for (int64_t i = 0; i < COLUMNS; i++)
        all[i] = i * 17 % COLUMNS;
    for (size_t t = 0; t < sizeof items / sizeof *items; t++)
        for (size_t n = 0; n <= MOST; n++)
            for (size_t shift = 0; shift < 8; shift++) {
                check_genes(items[t], some, sizeof some / sizeof *some, n, COLUMNS, shift);
                check_genes(items[t], all, COLUMNS, n, COLUMNS, shift);
            }
}

TEST(rows_without_the_selection_of_other_epochs_tell_their_length_too)
{
    struct leat_error error = {0};
    struct leat_field field = sparse_of(LEAT_F32);
    char chain[400] = "{\"type\": \"SelectGenes\", \"epochs\": [1, null], \"names\": [39";
    for (int k = COLUMNS - 2; k >= 0; k--)
        snprintf(chain + strlen(chain), sizeof chain - strlen(chain), ", %d", k);
    struct leat_program *program = must_compile(&field, strcat(chain, "]}"));
    struct leat_scratch *scratch = leat_scratch_new(program);
    for (uint64_t n = MOST; n-- > 0;)
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            uint64_t bytes;
            uint8_t *row = row_of(LEAT_F32, n, &bytes), *made = malloc(bytes ? bytes : 1);
            const struct leat_row given = {.data = row, .length = bytes};
            const struct leat_program *variant = leat_program_of_batch(program, epoch, 0);
            assert_true(leat_program_output(variant, 0)->bounded);
            assert_ok(leat_program_apply_ragged(variant, 0, scratch, &given, made, &error));
            assert_int_equal(leat_scratch_steps(scratch), n);
            assert_int_equal(memcmp(made, row, bytes) == 0, epoch == 0 || n == 0);
            free(made);
            free(row);
        }
    leat_scratch_free(scratch);
    leat_program_free(program);
}

TEST(so_many_genes_as_do_not_fit_the_stack_are_selected_and_need_memory)
{
    enum { N = 40000 };
    int64_t *chosen = malloc(N * sizeof *chosen);
    for (int64_t i = 0; i < N; i++)
        chosen[i] = N - 1 - i;
    check_genes(LEAT_F32, chosen, N, 9000, N, 1);
    struct leat_field field = of_columns(LEAT_F32, N);
    struct leat_program *program =
        program_of(&field, text_of("\"type\": \"SelectGenes\"", "names", chosen, NULL, NULL, N, ""));
    double *medians = malloc(N * sizeof *medians);
    for (size_t i = 0; i < N; i++)
        medians[i] = 1;
    struct leat_program *ranks = program_of(
        &field, text_of("\"type\": \"RankTokens\"", "tokens", chosen, "medians", medians, N, ", \"max_length\": 9"));
    struct leat_program *const programs[] = {program, ranks};
    uint64_t bytes;
    uint8_t *row = row_of(LEAT_F32, 9000, &bytes), *out = malloc(bytes);
    for (size_t p = 0; p < 2; p++) {
        struct leat_scratch *scratch = leat_scratch_new(programs[p]);
        const struct leat_row given = {.data = row, .length = bytes};
        struct leat_error error = {0};
        fail_allocation(0);
        assert_int_equal(leat_program_apply_ragged(programs[p], 0, scratch, &given, out, &error), LEAT_E_NOMEM);
        assert_true(allocation_failed());
        assert_ok(leat_program_apply_ragged(programs[p], 0, scratch, &given, out, &error));
        leat_scratch_free(scratch);
        leat_program_free(programs[p]);
    }
    free(out);
    free(row);
    free(medians);
    free(chosen);
}

TEST(dense_rows_are_picked_from_where_they_lie)
{
    static const int64_t chosen[] = {3, 0, 4};
    static const int64_t shape[] = {5};
    for (size_t t = 0; t < sizeof items / sizeof *items; t++) {
        struct leat_field field = field_of("x", LEAT_KIND_ARRAY, items[t], LEAT_LAYOUT_NONE, 1, shape);
        struct leat_program *program =
            program_of(&field, text_of("\"type\": \"SelectGenes\"", "names", chosen, NULL, NULL, 3, ""));
        const struct leat_output *face = leat_program_output(program, 0);
        assert_true(!face->ragged && !face->bounded && face->in_place && !face->grows && face->shape[0] == 3);
        struct leat_scratch *scratch = leat_scratch_new(program);
        const size_t size = leat_dtype_size(items[t]);
        uint8_t in[40], *out = malloc(3 * size);
        for (uint8_t i = 0; i < 40; i++)
            in[i] = i;
        const struct leat_row row = {.data = in, .length = 5 * size};
        struct leat_error error;
        assert_int_equal(leat_program_apply(program, 0, scratch, &row, 1, out, &error), 1);
        for (size_t i = 0; i < 3; i++)
            assert_memory_equal(out + i * size, in + (size_t)chosen[i] * size, size);
        free(out);
        leat_scratch_free(scratch);
        leat_program_free(program);
    }
}

TEST(wrong_arguments_are_refused)
{
    static const struct {
        const char *operator;
        int code;
        const char *said;
    } cases[] = {
        {"{\"type\": \"SelectGenes\"}", LEAT_E_INVALID, "names must be column numbers"},
        {"{\"type\": \"SelectGenes\", \"names\": []}", LEAT_E_INVALID, "names must be column numbers"},
        {"{\"type\": \"SelectGenes\", \"names\": [\"a\"]}", LEAT_E_INVALID, "as a loader makes them of names"},
        {"{\"type\": \"SelectGenes\", \"names\": [1, 2, 1]}", LEAT_E_INVALID, "each once"},
        {"{\"type\": \"SelectGenes\", \"names\": [1, -1]}", LEAT_E_INVALID, "from 0"},
        {"{\"type\": \"SelectGenes\", \"names\": [40]}", LEAT_E_TYPE, "takes column 40, and rows have 40"},
        {"{\"type\": \"RankTokens\"}", LEAT_E_INVALID, "tokens must be tokens of all columns"},
        {"{\"type\": \"RankTokens\", \"tokens\": {\"a\": 1}}", LEAT_E_INVALID, "which a loader makes of names"},
        {"{\"type\": \"RankTokens\", \"tokens\": [1, 2], \"medians\": [1]}", LEAT_E_INVALID, "as many numbers"},
        {"{\"type\": \"RankTokens\", \"tokens\": [-2], \"medians\": [1]}", LEAT_E_INVALID, "integers from 0, or -1"},
        {"{\"type\": \"RankTokens\", \"tokens\": [1], \"medians\": [true]}", LEAT_E_INVALID, "medians must be numbers"},
        {"{\"type\": \"RankTokens\", \"tokens\": [1], \"medians\": [1]}", LEAT_E_INVALID, "max_length must be given"},
        {"{\"type\": \"RankTokens\", \"tokens\": [1], \"medians\": [1], \"max_length\": 2, \"bos\": 1, \"eos\": 2}",
         LEAT_E_INVALID, "room for a gene beside bos and eos"},
        {"{\"type\": \"RankTokens\", \"tokens\": [1], \"medians\": [1], \"max_length\": 2}", LEAT_E_TYPE,
         "has tokens of 1 columns, and rows have 40"},
    };
    struct leat_field field = sparse_of(LEAT_F32);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct leat_program *program;
        struct leat_error error = {0};
        assert_int_equal(compile_chain(&field, cases[i].operator, & program, &error), cases[i].code);
        assert_non_null(strstr(error.message, cases[i].said));
    }
}

TEST_MAIN()
