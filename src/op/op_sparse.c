/*
 * Operators on the rows of sparse matrices, such as the counts of genes in cells: n values, then their columns, which
 * rise (LEAT_ROLE_SPARSE).
 *
 *     SparsePart      the values or the columns, a list: how such a row leaves a chain
 *     Densify         all columns, 0 where there is no value
 *     SelectGenes     some columns, in another order
 *     NormalizeTotal  values times target / their sum; a row whose sum is 0 stays. As scanpy's normalize_total (Wolf et
 *                     al., "SCANPY: large-scale single-cell gene expression data analysis", 2018)
 *     Log1p           the natural logarithm of 1 + value
 *
 * The last three take dense rows, too. Sums are of float64; results are float32, of float64 float64.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/role.h"
#include "kernels/sparse.h"
#include "kernels/values.h"
#include "op/sparse.h"

/* ---- rows ---- */

int leat_sparse_check(const struct leat_use *use, const char *output, const uint8_t *row, size_t n,
                      struct leat_error *error)
{
    int32_t before = -1;
    if (leat_sparse_rises(row, use->in.item, n, use->in.columns))
        return LEAT_OK;
    for (size_t k = 0; k < n; k++) {
        const int32_t column = leat_sparse_column(row, use->in.item, n, k);
        if (column <= before || column >= use->in.columns)
            return leat_fail(error, LEAT_E_DECODE,
                             "%s in output '%s': value %zu of the sparse row is of column %" PRId32 ", behind %" PRId32
                             ": columns rise from 0 to %" PRId64,
                             use->op->class->type, output, k, column, before, use->in.columns - 1);
        before = column;
    }
    return LEAT_OK;
}

bool leat_sparse_columns(const struct leat_type *type, int64_t *columns)
{
    *columns = type->columns ? type->columns : type->shape[0];
    return type->columns ||
           (type->kind == LEAT_KIND_ARRAY && type->ndim == 1 && type->shape[0] >= 0 && type->dtype != LEAT_BOOL);
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
    const size_t n = leat_sparse_count(use, length), bytes = n * leat_dtype_size(use->in.item);
    if (!((const struct part_args *)use->op->args)->columns) {
        memcpy(out, in, bytes);
        return LEAT_OK;
    }
    memcpy(out, (const uint8_t *)in + bytes, n * sizeof(int32_t));
    return leat_sparse_check(use, output, in, n, error);
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
    const size_t n = leat_sparse_count(use, length), size = leat_dtype_size(use->in.item);
    const int rc = leat_sparse_check(use, output, in, n, error);
    if (rc)
        return rc;
    const uint8_t *from = in;
    uint8_t *to = out;
    memset(to, 0, (size_t)leat_type_bytes(&use->out));
    for (size_t k = 0; k < n; k++)
        memcpy(to + (size_t)leat_sparse_column(in, use->in.item, n, k) * size, from + k * size, size);
    return LEAT_OK;
}

static const char *label_densify(const void *args)
{
    return "Densify";
}

const struct leat_op_class leat_op_densify = {
    .type = "Densify", .sparse = true, .infer = infer_dense, .label = label_densify, .call = call_dense};

/* ---- SelectGenes ---- */

#define MOST_GENES (1 << 24)
#define MOST_WORDS 512   /* of a set on the stack: 32,768 genes */
#define MOST_VALUES 4096 /* of a row whose genes are noted there */

struct genes_args {
    int32_t *columns; /* of each gene that is kept */
    int32_t *places;  /* of each column up to `end` the number of its gene, -1: it is left out, as that one is */
    size_t n, end;
};

static const char *label_select_genes(const void *args)
{
    return "SelectGenes";
}

static void parse_genes(void *into, struct leat_args *json)
{
    static const char wanted[] = "column numbers from 0, each once, as a loader makes them of names";
    struct genes_args *args = into;
    const json_t *names = leat_args_get(json, "names"), *one;
    size_t i;
    bool good = json_array_size(names) && json_array_size(names) <= MOST_GENES;
    args->n = good ? json_array_size(names) : 0;
    args->columns = leat_new_array(args->n + 1, sizeof *args->columns);
    json_array_foreach((json_t *)(uintptr_t)names, i, one)
    {
        const json_int_t column = json_integer_value(one);
        good = good && args->columns && json_is_integer(one) && column >= 0 && column < INT32_MAX;
        if (!good)
            break;
        args->columns[i] = (int32_t)column;
        args->end = (size_t)column >= args->end ? (size_t)column + 1 : args->end;
    }
    args->places = good ? leat_alloc((args->end + 1) * sizeof *args->places) : NULL;
    if (args->places)
        memset(args->places, -1, (args->end + 1) * sizeof *args->places);
    for (i = 0; args->places && i < args->n; i++) {
        int32_t *place = &args->places[args->columns[i]];
        good = good && *place < 0;
        *place = (int32_t)i;
    }
    if (!args->columns || (good && !args->places))
        json->status = leat_fail(json->error, LEAT_E_NOMEM, "No memory for genes.");
    else if (!good)
        leat_args_wrong(json, "names", wanted);
}

static void end_genes(void *of)
{
    leat_free(((struct genes_args *)of)->columns);
    leat_free(((struct genes_args *)of)->places);
}

static uint64_t hash_genes(const void *of)
{
    const struct genes_args *args = of;
    return leat_hash64(args->columns, args->n * sizeof *args->columns);
}

static uint64_t count_genes(const void *of, uint64_t n)
{
    const struct genes_args *args = of;
    return n < args->n ? n : args->n;
}

static int infer_genes(const void *of, const struct leat_place *place, struct leat_type *type,
                       struct leat_effect *effect, struct leat_error *error)
{
    const struct genes_args *args = of;
    int64_t columns;
    if (!leat_sparse_columns(type, &columns))
        return leat_op_misfit(place, type, "a sparse row, or a dense one of numbers", error);
    if (args->end > (uint64_t)columns)
        return leat_fail(error, LEAT_E_TYPE, "%s in output '%s' takes column %zu, and rows have %" PRId64 ".",
                         place->type, place->output, args->end - 1, columns);
    if (type->columns)
        leat_type_make_sparse(type, type->item, (int64_t)args->n);
    else
        type->shape[0] = (int64_t)args->n;
    return LEAT_OK;
}

static inline void copy_value(uint8_t *to, const uint8_t *from, size_t size)
{
    switch (size) { /* each is one move */
    case 1:
        *to = *from;
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    default:
        memcpy(to, from, 8);
    }
}

/* The genes that are kept of a row, with their places in it: which they are is not known before one more is written.
 * Returns how many. */
static size_t keep_genes(const struct genes_args *args, const uint8_t *columns, size_t n, int32_t *genes,
                         uint32_t *places)
{
    const int32_t *gene_of = args->places;
    const uint32_t end = (uint32_t)args->end;
    size_t m = 0;
    for (size_t k = 0; k < n; k++) {
        uint32_t column;
        memcpy(&column, columns + k * sizeof column, sizeof column);
        const int32_t gene = gene_of[column < end ? column : end];
        genes[m] = gene;
        places[m] = (uint32_t)k;
        m += gene >= 0;
    }
    return m;
}

static int call_genes(const struct leat_use *use, const char *output, const struct leat_row *row, const void *in,
                      uint64_t length, void *out, uint64_t *made, struct leat_error *error)
{
    const struct genes_args *args = use->op->args;
    const size_t n = leat_sparse_count(use, length), n_words = leat_column_words(args->n);
    struct leat_column_word some[MOST_WORDS], *words = some;
    int32_t genes_of_few[MOST_VALUES + 1], *genes = genes_of_few;
    uint32_t places_of_few[MOST_VALUES + 1], *places = places_of_few;
    *made = args->n;
    if (!use->in.columns) {
        const size_t size = leat_dtype_size(use->in.dtype);
        for (size_t i = 0; i < args->n; i++)
            copy_value((uint8_t *)out + i * size, (const uint8_t *)in + (size_t)args->columns[i] * size, size);
        return LEAT_OK;
    }
    const int rc = leat_sparse_check(use, output, in, n, error);
    if (rc)
        return rc;
    void *large = NULL;
    if (n_words > MOST_WORDS || n > MOST_VALUES) {
        if (!(words = large = leat_alloc(n_words * sizeof *words + (n + 1) * (sizeof *genes + sizeof *places))))
            return leat_fail(error, LEAT_E_NOMEM, "no memory to select %zu genes", args->n);
        genes = (int32_t *)(words + n_words);
        places = (uint32_t *)(genes + n + 1);
    }
    const size_t item = leat_dtype_size(use->in.item);
    *made = keep_genes(args, (const uint8_t *)in + n * item, n, genes, places);
    leat_columns_collect(words, n_words, NULL, genes, (size_t)*made);
    leat_columns_put(words, genes, places, in, item, (size_t)*made, out);
    leat_free(large);
    return LEAT_OK;
}

const struct leat_op_class leat_op_select_genes = {.type = "SelectGenes",
                                                   .args_bytes = sizeof(struct genes_args),
                                                   .sparse = true,
                                                   .parse = parse_genes,
                                                   .end = end_genes,
                                                   .hash = hash_genes,
                                                   .infer = infer_genes,
                                                   .count = count_genes,
                                                   .label = label_select_genes,
                                                   .call_some = call_genes};

/* ---- functions of the values ---- */

/* float32, or float64 of float64. */
static int infer_floats(const void *args, const struct leat_place *place, struct leat_type *type,
                        struct leat_effect *effect, struct leat_error *error)
{
    const int rc = take_numbers(place, type, error);
    const enum leat_dtype to = leat_sparse_item(type) == LEAT_F64 ? LEAT_F64 : LEAT_F32;
    if (!rc && type->columns)
        leat_type_make_sparse(type, to, type->columns);
    else if (!rc)
        type->dtype = to;
    return rc;
}

/* The values as floats of the output, and of a sparse row the columns behind them. Returns how many. */
static size_t take_floats(const struct leat_use *use, const void *in, uint64_t length, void *out)
{
    const size_t n = leat_sparse_count(use, length);
    const enum leat_dtype from = leat_sparse_item(&use->in), to = leat_sparse_item(&use->out);
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
    const bool wide = leat_sparse_item(&use->out) == LEAT_F64;
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
    for (size_t i = 0; i < n && leat_sparse_item(&use->out) == LEAT_F64; i++)
        d[i] = log1p(d[i]);
    for (size_t i = 0; i < n && leat_sparse_item(&use->out) == LEAT_F32; i++)
        f[i] = log1pf(f[i]);
    return LEAT_OK;
}

static const char *label_log1p(const void *args)
{
    return "Log1p";
}

const struct leat_op_class leat_op_log1p = {
    .type = "Log1p", .sparse = true, .infer = infer_floats, .label = label_log1p, .call = call_log};
