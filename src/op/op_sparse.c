/*
 * Operators on the rows of sparse matrices, such as the counts of genes in cells: n values, then their columns, which
 * rise (LEAT_ROLE_SPARSE).
 *
 *     SparsePart      the values or the columns, a list: how such a row leaves a chain
 *     Densify         all columns, 0 where there is no value
 *     NormalizeTotal  values times target / their sum; a row whose sum is 0 stays. As scanpy's normalize_total (Wolf et
 *                     al., "SCANPY: large-scale single-cell gene expression data analysis", 2018)
 *     Log1p           the natural logarithm of 1 + value
 *
 * The last two take dense rows, too. Sums are of float64; results are float32, of float64 float64.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/role.h"
#include "kernels/values.h"
#include "op/token_ops.h"

/* ---- rows ---- */

/* The values of a row as an operator takes it: all of a dense one. */
static size_t values_of(const struct leat_use *use, uint64_t length)
{
    return (size_t)(use->in.columns ? length / leat_type_step(&use->in) : length / leat_dtype_size(use->in.dtype));
}

static enum leat_dtype item_of(const struct leat_type *type)
{
    return type->columns ? type->item : type->dtype;
}

/* Column k of a row of n values, which need not be aligned. */
static int32_t column_at(const uint8_t *row, const struct leat_type *type, size_t n, size_t k)
{
    int32_t column;
    memcpy(&column, row + n * leat_dtype_size(type->item) + k * sizeof column, sizeof column);
    return column;
}

typedef int32_t __attribute__((aligned(1), may_alias)) unaligned;

/* Whoever makes sparse rows vouches for their columns; here is the last place before memory is written by them. */
static int check_columns(const struct leat_use *use, const char *output, const uint8_t *row, size_t n,
                         struct leat_error *error)
{
    const unaligned *columns = (const unaligned *)(row + n * leat_dtype_size(use->in.item));
    bool good = !n || (columns[0] >= 0 && columns[n - 1] < use->in.columns);
    for (size_t k = 1; k < n; k++)
        good &= columns[k] > columns[k - 1];
    if (good)
        return LEAT_OK;
    int64_t before = -1;
    for (size_t k = 0; k < n; before = column_at(row, &use->in, n, k++))
        if (column_at(row, &use->in, n, k) <= before || column_at(row, &use->in, n, k) >= use->in.columns)
            return leat_fail(error, LEAT_E_DECODE,
                             "%s in output '%s': value %zu of the sparse row is of column %" PRId32 ", behind %" PRId64
                             ": columns rise from 0 to %" PRId64,
                             use->op->class->type, output, k, column_at(row, &use->in, n, k), before,
                             use->in.columns - 1);
    return LEAT_OK;
}

/* Lists of numbers of any length, dense rows and sparse ones. */
static int take_numbers(const struct leat_place *place, const struct leat_type *type, struct leat_error *error)
{
    if (type->columns || (type->kind == LEAT_KIND_ARRAY && type->ndim == 1 && type->dtype != LEAT_BOOL))
        return LEAT_OK;
    return leat_op_misfit(place, type, "a sparse row, or a list of numbers", error);
}

/* ---- SparsePart ---- */

struct part_args {
    bool columns;
};

static void parse_part(void *into, struct leat_args *json)
{
    static const char *const parts[] = {"values", "columns", NULL};
    unsigned part;
    leat_args_word(json, "which", parts, 0, &part);
    ((struct part_args *)into)->columns = part == 1;
}

static int infer_part(const void *args, const struct leat_place *place, struct leat_type *type,
                      struct leat_effect *effect, struct leat_error *error)
{
    if (!type->columns)
        return leat_op_misfit(place, type, "a sparse row", error);
    *type = (struct leat_type){.kind = LEAT_KIND_ARRAY,
                               .dtype = ((const struct part_args *)args)->columns ? LEAT_I32 : type->item,
                               .ndim = 1,
                               .shape = {-1}};
    return LEAT_OK;
}

static int call_part(const struct leat_use *use, const char *output, const struct leat_row *row, const void *in,
                     uint64_t length, void *out, struct leat_error *error)
{
    const size_t n = values_of(use, length), bytes = n * leat_dtype_size(use->in.item);
    if (!((const struct part_args *)use->op->args)->columns) {
        memcpy(out, in, bytes);
        return LEAT_OK;
    }
    memcpy(out, (const uint8_t *)in + bytes, n * sizeof(int32_t));
    return check_columns(use, output, in, n, error);
}

static const char *label_sparse_part(const void *args)
{
    return "SparsePart";
}

const struct leat_op_class leat_op_sparse_part = {.type = "SparsePart",
                                                  .args_bytes = sizeof(struct part_args),
                                                  .sparse = true,
                                                  .parse = parse_part,
                                                  .infer = infer_part,
                                                  .label = label_sparse_part,
                                                  .call = call_part};

/* ---- Densify ---- */

static int infer_dense(const void *args, const struct leat_place *place, struct leat_type *type,
                       struct leat_effect *effect, struct leat_error *error)
{
    if (!type->columns)
        return type->kind == LEAT_KIND_ARRAY && type->ndim == 1 && type->shape[0] >= 0
                   ? LEAT_OK
                   : leat_op_misfit(place, type, "a sparse row, or a dense one, which stays", error);
    *type = (struct leat_type){.kind = LEAT_KIND_ARRAY, .dtype = type->item, .ndim = 1, .shape = {type->columns}};
    return LEAT_OK;
}

static int call_dense(const struct leat_use *use, const char *output, const struct leat_row *row, const void *in,
                      uint64_t length, void *out, struct leat_error *error)
{
    if (!use->in.columns) {
        memcpy(out, in, (size_t)leat_type_bytes(&use->out));
        return LEAT_OK;
    }
    const size_t n = values_of(use, length), size = leat_dtype_size(use->in.item);
    const int rc = check_columns(use, output, in, n, error);
    if (rc)
        return rc;
    const uint8_t *from = in;
    uint8_t *to = out;
    memset(to, 0, (size_t)leat_type_bytes(&use->out));
    for (size_t k = 0; k < n; k++)
        memcpy(to + (size_t)column_at(in, &use->in, n, k) * size, from + k * size, size);
    return LEAT_OK;
}

static const char *label_densify(const void *args)
{
    return "Densify";
}

const struct leat_op_class leat_op_densify = {
    .type = "Densify", .sparse = true, .infer = infer_dense, .label = label_densify, .call = call_dense};

/* ---- functions of the values ---- */

/* float32, or float64 of float64. */
static int infer_floats(const void *args, const struct leat_place *place, struct leat_type *type,
                        struct leat_effect *effect, struct leat_error *error)
{
    const int rc = take_numbers(place, type, error);
    const enum leat_dtype to = item_of(type) == LEAT_F64 ? LEAT_F64 : LEAT_F32;
    if (!rc && type->columns)
        leat_type_make_sparse(type, to, type->columns);
    else if (!rc)
        type->dtype = to;
    return rc;
}

/* The values as floats of the output, and of a sparse row the columns behind them. Returns how many. */
static size_t take_floats(const struct leat_use *use, const void *in, uint64_t length, void *out)
{
    const size_t n = values_of(use, length);
    const enum leat_dtype from = item_of(&use->in), to = item_of(&use->out);
    leat_values_convert(from, to, in, out, n);
    if (use->in.columns)
        memcpy((uint8_t *)out + n * leat_dtype_size(to), (const uint8_t *)in + n * leat_dtype_size(from),
               n * sizeof(int32_t));
    return n;
}

struct total_args {
    double target;
};

static void parse_total(void *into, struct leat_args *json)
{
    leat_args_double(json, "target", 1e-30, 1e30, 1e4, &((struct total_args *)into)->target);
}

static int call_total(const struct leat_use *use, const char *output, const struct leat_row *row, const void *in,
                      uint64_t length, void *out, struct leat_error *error)
{
    const size_t n = take_floats(use, in, length, out);
    const bool wide = item_of(&use->out) == LEAT_F64;
    float *f = out;
    double *d = out, sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += wide ? d[i] : (double)f[i];
    const double scale = sum != 0 ? ((const struct total_args *)use->op->args)->target / sum : 1;
    for (size_t i = 0; i < n && wide; i++)
        d[i] *= scale;
    for (size_t i = 0; i < n && !wide; i++)
        f[i] = (float)((double)f[i] * scale);
    return LEAT_OK;
}

static const char *label_normalize_total(const void *args)
{
    return "NormalizeTotal";
}

const struct leat_op_class leat_op_normalize_total = {.type = "NormalizeTotal",
                                                      .args_bytes = sizeof(struct total_args),
                                                      .sparse = true,
                                                      .parse = parse_total,
                                                      .infer = infer_floats,
                                                      .label = label_normalize_total,
                                                      .call = call_total};

static int call_log(const struct leat_use *use, const char *output, const struct leat_row *row, const void *in,
                    uint64_t length, void *out, struct leat_error *error)
{
    const size_t n = take_floats(use, in, length, out);
    float *f = out;
    double *d = out;
    for (size_t i = 0; i < n && item_of(&use->out) == LEAT_F64; i++)
        d[i] = log1p(d[i]);
    for (size_t i = 0; i < n && item_of(&use->out) == LEAT_F32; i++)
        f[i] = log1pf(f[i]);
    return LEAT_OK;
}

static const char *label_log1p(const void *args)
{
    return "Log1p";
}

const struct leat_op_class leat_op_log1p = {
    .type = "Log1p", .sparse = true, .infer = infer_floats, .label = label_log1p, .call = call_log};
