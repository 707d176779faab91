/* Numbers that are computed, 256 rows at a time: query_numbers.h. Rows of one type go through plain loops; where types
 * are mixed, something is NULL or overflows, each row is computed by itself. */
#include "data/query_numbers.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { ROWS = LEAT_NUMBERS_ROWS };

union number {
    int64_t i;
    double d;
};

/* Values of the rows. */
struct values {
    enum { INTS, REALS, MIXED } kind;
    uint8_t type[ROWS]; /* MIXED: enum leat_query_type */
    union number at[ROWS];
};

void leat_query_numbers_destroy(struct leat_query_numbers *x)
{
    for (size_t i = 0; i < x->n; i++)
        leat_free(x->sums[i].steps);
    x->n = 0;
}

/* ---- one row --------------------------------------------------------------------------------- */

static struct leat_query_value null_value(void)
{
    return (struct leat_query_value){.type = LEAT_QUERY_NULL};
}

static struct leat_query_value real_value(double d)
{
    return isnan(d) ? null_value() : (struct leat_query_value){.type = LEAT_QUERY_REAL, .real = d};
}

static bool compute_whole(enum leat_number_step_kind op, int64_t a, int64_t b, int64_t *out)
{
    switch (op) {
    case LEAT_STEP_ADD:
        return !__builtin_add_overflow(a, b, out);
    case LEAT_STEP_SUBTRACT:
        return !__builtin_sub_overflow(a, b, out);
    case LEAT_STEP_MULTIPLY:
        return !__builtin_mul_overflow(a, b, out);
    case LEAT_STEP_DIVIDE:
        if (!b || (a == INT64_MIN && b == -1))
            return false;
        *out = a / b;
        return true;
    default:
        if (!b)
            return false;
        *out = b == -1 ? 0 : a % b;
        return true;
    }
}

/* As SQLite casts a float. */
static int64_t whole_of(const struct leat_query_value *v)
{
    if (v->type == LEAT_QUERY_INT)
        return v->number;
    return v->real <= -0x1p63 ? INT64_MIN : v->real >= 0x1p63 ? INT64_MAX : (int64_t)v->real;
}

struct leat_query_value leat_number_compute(enum leat_number_step_kind op, const struct leat_query_value *a,
                                            const struct leat_query_value *b)
{
    const bool both_whole = a->type == LEAT_QUERY_INT && b->type == LEAT_QUERY_INT;
    int64_t whole;
    if (a->type == LEAT_QUERY_NULL || b->type == LEAT_QUERY_NULL)
        return null_value();
    if (both_whole && compute_whole(op, a->number, b->number, &whole))
        return (struct leat_query_value){.type = LEAT_QUERY_INT, .number = whole};
    if (op == LEAT_STEP_REMAINDER) {
        const int64_t x = whole_of(a), y = whole_of(b);
        return y ? real_value(y == -1 ? 0 : (double)(x % y)) : null_value();
    }
    const double x = a->type == LEAT_QUERY_INT ? (double)a->number : a->real,
                 y = b->type == LEAT_QUERY_INT ? (double)b->number : b->real;
    switch (op) {
    case LEAT_STEP_ADD:
        return real_value(x + y);
    case LEAT_STEP_SUBTRACT:
        return real_value(x - y);
    case LEAT_STEP_MULTIPLY:
        return real_value(x * y);
    default:
        return y == 0 ? null_value() : real_value(x / y);
    }
}

/* Of an order: -1, 0, 1. */
static bool holds(enum leat_query_compare compare, int order)
{
    return compare == LEAT_QUERY_LT   ? order < 0
           : compare == LEAT_QUERY_LE ? order <= 0
           : compare == LEAT_QUERY_EQ ? order == 0
           : compare == LEAT_QUERY_GE ? order >= 0
           : compare == LEAT_QUERY_GT ? order > 0
                                      : order != 0;
}

uint8_t leat_number_compare(enum leat_query_compare compare, const struct leat_query_value *a,
                            const struct leat_query_value *b)
{
    if (a->type == LEAT_QUERY_NULL || b->type == LEAT_QUERY_NULL)
        return LEAT_UNKNOWN;
    return holds(compare, leat_query_order(a, b)) ? LEAT_TRUE : LEAT_FALSE;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static struct leat_query_value value_at(const struct values *v, size_t i)
{
    const enum leat_query_type type = v->kind == INTS    ? LEAT_QUERY_INT
                                      : v->kind == REALS ? LEAT_QUERY_REAL
                                                         : (enum leat_query_type)v->type[i];
    return (struct leat_query_value){.type = type,
                                     .number = type == LEAT_QUERY_INT ? v->at[i].i : 0,
                                     .real = type == LEAT_QUERY_REAL ? v->at[i].d : 0};
}

static void put_value(struct values *v, size_t i, const struct leat_query_value *value)
{
    v->type[i] = (uint8_t)value->type;
    if (value->type == LEAT_QUERY_REAL)
        v->at[i].d = value->real;
    else
        v->at[i].i = value->number;
}

static void mix(struct values *v, size_t n)
{
    if (v->kind != MIXED)
        memset(v->type, v->kind == INTS ? LEAT_QUERY_INT : LEAT_QUERY_REAL, n);
    v->kind = MIXED;
}

#define LOAD(type, member, what)                                                                                       \
    for (size_t i = 0; i < n; i++)                                                                                     \
        out->at[i].member = ((const type *)data)[i];                                                                   \
    out->kind = what;                                                                                                  \
    break

/* The values of a column. */
static void load(const void *data, enum leat_dtype dtype, size_t n, struct values *out)
{
    const size_t each = leat_dtype_size(dtype);
    switch (dtype) {
    case LEAT_I64:
        LOAD(int64_t, i, INTS);
    case LEAT_I32:
        LOAD(int32_t, i, INTS);
    case LEAT_U32:
        LOAD(uint32_t, i, INTS);
    case LEAT_I16:
        LOAD(int16_t, i, INTS);
    case LEAT_U16:
        LOAD(uint16_t, i, INTS);
    case LEAT_I8:
        LOAD(int8_t, i, INTS);
    case LEAT_U8:
        LOAD(uint8_t, i, INTS);
    case LEAT_F32:
        LOAD(float, d, REALS);
    case LEAT_F64:
        LOAD(double, d, REALS);
    default:
        out->kind = MIXED;
        for (size_t i = 0; i < n; i++) {
            const struct leat_query_value v = leat_query_number(dtype, (const uint8_t *)data + i * each);
            put_value(out, i, &v);
        }
    }
    bool nan = false;
    for (size_t i = 0; i < n && out->kind == REALS; i++)
        nan |= isnan(out->at[i].d);
    if (nan) {
        mix(out, n);
        for (size_t i = 0; i < n; i++)
            if (isnan(out->at[i].d))
                out->type[i] = LEAT_QUERY_NULL;
    }
}

static int load_column(const struct leat_query_columns *columns, size_t column, struct leat_query_reader *reader,
                       size_t from, size_t n, struct values *out, struct leat_error *error)
{
    const struct leat_query_column *c = &columns->at[column];
    const void *data, *valid = NULL;
    int rc = leat_query_reader_numbers(reader, column, &data, error);
    if (!rc && c->valid)
        rc = leat_query_reader_numbers(reader, c->valid - 1, &valid, error);
    if (rc)
        return rc;
    load((const uint8_t *)data + from * leat_dtype_size(c->dtype), c->dtype, n, out);
    for (size_t i = 0; valid && i < n; i++)
        if (!((const uint8_t *)valid)[from + i]) {
            mix(out, n);
            out->type[i] = LEAT_QUERY_NULL;
        }
    return LEAT_OK;
}

/* False: some row overflows, or divides by 0. */
static bool compute_ints(enum leat_number_step_kind op, const struct values *a, const struct values *b, size_t n,
                         union number *out)
{
    bool good = true;
    switch (op) { /* a loop for each, so that the test stands outside */
    case LEAT_STEP_ADD:
        for (size_t i = 0; i < n; i++)
            good &= !__builtin_add_overflow(a->at[i].i, b->at[i].i, &out[i].i);
        return good;
    case LEAT_STEP_SUBTRACT:
        for (size_t i = 0; i < n; i++)
            good &= !__builtin_sub_overflow(a->at[i].i, b->at[i].i, &out[i].i);
        return good;
    default:
        for (size_t i = 0; i < n && good; i++)
            good = compute_whole(op, a->at[i].i, b->at[i].i, &out[i].i);
        return good;
    }
}

/* False: some row divides by 0, or is NaN. */
static bool compute_reals(enum leat_number_step_kind op, const struct values *a, const struct values *b, size_t n,
                          union number *out)
{
    bool good = op != LEAT_STEP_REMAINDER;
    for (size_t i = 0; i < n && good; i++) {
        const double x = a->kind == INTS ? (double)a->at[i].i : a->at[i].d,
                     y = b->kind == INTS ? (double)b->at[i].i : b->at[i].d;
        const double d = op == LEAT_STEP_ADD        ? x + y
                         : op == LEAT_STEP_SUBTRACT ? x - y
                         : op == LEAT_STEP_MULTIPLY ? x * y
                                                    : x / y;
        out[i].d = d;
        good = !isnan(d) && (op != LEAT_STEP_DIVIDE || y != 0);
    }
    return good;
}

/* a = a op b. */
static void compute(enum leat_number_step_kind op, struct values *a, const struct values *b, size_t n)
{
    union number out[ROWS];
    const bool ints = a->kind == INTS && b->kind == INTS;
    if (ints ? compute_ints(op, a, b, n, out)
             : a->kind != MIXED && b->kind != MIXED && compute_reals(op, a, b, n, out)) {
        a->kind = ints ? INTS : REALS;
        memcpy(a->at, out, n * sizeof *out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const struct leat_query_value x = value_at(a, i), y = value_at(b, i), result = leat_number_compute(op, &x, &y);
        if (!i)
            mix(a, n);
        put_value(a, i, &result);
    }
}

static int compute_sum(const struct leat_number_sum *sum, const struct leat_query_columns *columns,
                       struct leat_query_reader *reader, size_t from, size_t n, struct values *stack,
                       struct leat_error *error)
{
    size_t top = 0;
    for (size_t s = 0; s < sum->n; s++) {
        const struct leat_number_step *step = &sum->steps[s];
        if (step->kind == LEAT_STEP_COLUMN) {
            int rc = load_column(columns, step->column, reader, from, n, &stack[top++], error);
            if (rc)
                return rc;
        } else if (step->kind == LEAT_STEP_CONSTANT) {
            struct values *v = &stack[top++];
            v->kind = step->constant.type == LEAT_QUERY_INT ? INTS : REALS;
            for (size_t i = 0; i < n; i++)
                put_value(v, i, &step->constant);
        } else {
            top--;
            compute(step->kind, &stack[top - 1], &stack[top], n);
        }
    }
    return LEAT_OK;
}

static void compare_rows(enum leat_query_compare compare, const struct values *a, const struct values *b, size_t n,
                         uint8_t *truth)
{
    if (a->kind == INTS && b->kind == INTS) {
        for (size_t i = 0; i < n; i++)
            truth[i] = holds(compare, (a->at[i].i > b->at[i].i) - (a->at[i].i < b->at[i].i));
    } else if (a->kind == REALS && b->kind == REALS) {
        for (size_t i = 0; i < n; i++)
            truth[i] = holds(compare, (a->at[i].d > b->at[i].d) - (a->at[i].d < b->at[i].d));
    } else {
        for (size_t i = 0; i < n; i++) {
            const struct leat_query_value x = value_at(a, i), y = value_at(b, i);
            truth[i] = leat_number_compare(compare, &x, &y);
        }
    }
}

static uint8_t and_truth(uint8_t a, uint8_t b)
{
    return a == LEAT_FALSE || b == LEAT_FALSE ? LEAT_FALSE
           : a == LEAT_TRUE && b == LEAT_TRUE ? LEAT_TRUE
                                              : LEAT_UNKNOWN;
}

static uint8_t or_truth(uint8_t a, uint8_t b)
{
    return a == LEAT_TRUE || b == LEAT_TRUE     ? LEAT_TRUE
           : a == LEAT_FALSE && b == LEAT_FALSE ? LEAT_FALSE
                                                : LEAT_UNKNOWN;
}

int leat_query_numbers_evaluate(const struct leat_query_numbers *x, const struct leat_query_columns *columns,
                                struct leat_query_reader *reader, size_t from, size_t n, uint8_t *truth,
                                struct leat_error *error)
{
    struct values first[LEAT_NUMBERS_DEPTH], other[LEAT_NUMBERS_DEPTH];
    uint8_t one[ROWS];
    int rc = compute_sum(&x->sums[0], columns, reader, from, n, first, error);
    for (size_t s = 1; s < x->n && !rc; s++) {
        rc = compute_sum(&x->sums[s], columns, reader, from, n, other, error);
        if (rc)
            break;
        compare_rows(x->how == LEAT_NUMBERS_COMPARE ? x->compare
                     : x->how == LEAT_NUMBERS_IN    ? LEAT_QUERY_EQ
                     : s == 1                       ? LEAT_QUERY_GE
                                                    : LEAT_QUERY_LE,
                     &first[0], &other[0], n, s == 1 ? truth : one);
        for (size_t i = 0; i < n && s > 1; i++)
            truth[i] = x->how == LEAT_NUMBERS_IN ? or_truth(truth[i], one[i]) : and_truth(truth[i], one[i]);
    }
    for (size_t i = 0; i < n && !rc && x->inverted; i++)
        truth[i] = truth[i] == LEAT_TRUE ? LEAT_FALSE : truth[i] == LEAT_FALSE ? LEAT_TRUE : LEAT_UNKNOWN;
    return rc;
}
