/*
 * A tree for 256 rows at a time, with the results of SQLite: integers of 64 bits that become floats where they
 * overflow, NULL where something is divided by 0 or NaN comes out, NULL that is neither true nor false. Rows of one
 * type go through plain loops; where types are mixed, or something is NULL or overflows, each row is computed by
 * itself.
 *
 * All operands are computed for all rows, also those that SQLite would not look at for some. That shows only where one
 * raises an error, which is abs(-9223372036854775808) alone: that is trouble, and SQLite is asked.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "data/query_tree.h"

#define ROWS LEAT_VECTOR_ROWS

struct evaluation {
    const struct leat_tree *tree;
    const struct leat_query_columns *columns;
    struct leat_query_reader *reader;
    size_t from, n;
    struct leat_vector *room;
    bool trouble;
    struct leat_error *error;
};

/* ---- one row --------------------------------------------------------------------------------- */

static struct leat_query_value null_value(void)
{
    return (struct leat_query_value){.type = LEAT_QUERY_NULL};
}

static struct leat_query_value real_value(double d)
{
    return isnan(d) ? null_value() : (struct leat_query_value){.type = LEAT_QUERY_REAL, .real = d};
}

static struct leat_query_value int_value(int64_t i)
{
    return (struct leat_query_value){.type = LEAT_QUERY_INT, .number = i};
}

/* As SQLite casts a float. */
static int64_t whole_of(const struct leat_query_value *v)
{
    if (v->type == LEAT_QUERY_INT)
        return v->number;
    return v->real <= -0x1p63 ? INT64_MIN : v->real >= 0x1p63 ? INT64_MAX : (int64_t)v->real;
}

static double real_of(const struct leat_query_value *v)
{
    return v->type == LEAT_QUERY_INT ? (double)v->number : v->real;
}

static bool compute_whole(enum leat_expr_kind op, int64_t a, int64_t b, int64_t *out)
{
    switch (op) {
    case LEAT_EXPR_ADD:
        return !__builtin_add_overflow(a, b, out);
    case LEAT_EXPR_SUBTRACT:
        return !__builtin_sub_overflow(a, b, out);
    case LEAT_EXPR_MULTIPLY:
        return !__builtin_mul_overflow(a, b, out);
    case LEAT_EXPR_DIVIDE:
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

/* By less than 0 is the other way. */
static int64_t shift(int64_t a, int64_t by, bool left)
{
    if (by < 0) {
        left = !left;
        by = by > -64 ? -by : 64;
    }
    if (by >= 64)
        return a >= 0 || left ? 0 : -1;
    const uint64_t bits = (uint64_t)a, sign = a < 0 && by ? ~UINT64_C(0) << (64 - by) : 0;
    return (int64_t)(left ? bits << by : bits >> by | sign);
}

static struct leat_query_value compute_bits(enum leat_expr_kind op, int64_t a, int64_t b)
{
    return int_value(op == LEAT_EXPR_BIT_AND  ? a & b
                     : op == LEAT_EXPR_BIT_OR ? a | b
                                              : shift(a, b, op == LEAT_EXPR_SHIFT_LEFT));
}

struct leat_query_value leat_number_compute(enum leat_expr_kind op, const struct leat_query_value *a,
                                            const struct leat_query_value *b)
{
    int64_t whole;
    if (a->type == LEAT_QUERY_NULL || b->type == LEAT_QUERY_NULL)
        return null_value();
    if (op == LEAT_EXPR_POWER || op == LEAT_EXPR_MOD)
        return real_value(op == LEAT_EXPR_POWER ? pow(real_of(a), real_of(b)) : fmod(real_of(a), real_of(b)));
    if (op >= LEAT_EXPR_BIT_AND && op <= LEAT_EXPR_SHIFT_RIGHT)
        return compute_bits(op, whole_of(a), whole_of(b));
    if (a->type == LEAT_QUERY_INT && b->type == LEAT_QUERY_INT && compute_whole(op, a->number, b->number, &whole))
        return int_value(whole);
    if (op == LEAT_EXPR_REMAINDER) {
        const int64_t x = whole_of(a), y = whole_of(b);
        return y ? real_value(y == -1 ? 0 : (double)(x % y)) : null_value();
    }
    const double x = real_of(a), y = real_of(b);
    switch (op) {
    case LEAT_EXPR_ADD:
        return real_value(x + y);
    case LEAT_EXPR_SUBTRACT:
        return real_value(x - y);
    case LEAT_EXPR_MULTIPLY:
        return real_value(x * y);
    default:
        return y == 0 ? null_value() : real_value(x / y);
    }
}

static struct leat_query_value round_value(const struct leat_query_value *v)
{
    const double r = real_of(v);
    return real_value(fabs(r) > 0x1p52 ? r : (double)(int64_t)(r + (r < 0 ? -0.5 : 0.5)));
}

static struct leat_query_value compute_of_one(enum leat_expr_kind op, const struct leat_query_value *v, bool *trouble)
{
    const bool is_int = v->type == LEAT_QUERY_INT;
    if (v->type == LEAT_QUERY_NULL)
        return null_value();
    switch (op) {
    case LEAT_EXPR_ABS:
        *trouble |= is_int && v->number == INT64_MIN;
        if (is_int)
            return int_value(v->number < 0 && v->number != INT64_MIN ? -v->number : v->number);
        return real_value(v->real < 0 ? -v->real : v->real);
    case LEAT_EXPR_BIT_NOT:
        return int_value(~whole_of(v));
    case LEAT_EXPR_SIGN:
        return int_value((real_of(v) > 0) - (real_of(v) < 0));
    case LEAT_EXPR_ROUND:
        return round_value(v);
    case LEAT_EXPR_FLOOR:
        return is_int ? *v : real_value(floor(v->real));
    case LEAT_EXPR_CEIL:
        return is_int ? *v : real_value(ceil(v->real));
    case LEAT_EXPR_TRUNC:
        return is_int ? *v : real_value(trunc(v->real));
    case LEAT_EXPR_SQRT:
        return real_value(sqrt(real_of(v)));
    case LEAT_EXPR_EXP:
        return real_value(exp(real_of(v)));
    case LEAT_EXPR_LN:
        return real_of(v) > 0 ? real_value(log(real_of(v))) : null_value();
    case LEAT_EXPR_CAST_INTEGER:
        return int_value(whole_of(v));
    default:
        return real_value(real_of(v));
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

static int order_of(const struct leat_query_value *a, const struct leat_query_value *b)
{
    if (a->type == LEAT_QUERY_STRING)
        return (a->number > b->number) - (a->number < b->number);
    return leat_query_order(a, b);
}

uint8_t leat_number_compare(enum leat_query_compare compare, const struct leat_query_value *a,
                            const struct leat_query_value *b)
{
    if (a->type == LEAT_QUERY_NULL || b->type == LEAT_QUERY_NULL)
        return LEAT_UNKNOWN;
    return holds(compare, order_of(a, b)) ? LEAT_TRUE : LEAT_FALSE;
}

/* ---- vectors --------------------------------------------------------------------------------- */

static const uint8_t type_of[] = {LEAT_QUERY_INT, LEAT_QUERY_REAL, LEAT_QUERY_STRING};

static struct leat_query_value value_at(const struct leat_vector *v, size_t i)
{
    const enum leat_query_type type =
        (enum leat_query_type)(v->kind == LEAT_VECTOR_MIXED ? v->type[i] : type_of[v->kind]);
    return (struct leat_query_value){.type = type,
                                     .number = type == LEAT_QUERY_REAL ? 0 : v->at[i].i,
                                     .real = type == LEAT_QUERY_REAL ? v->at[i].d : 0};
}

static void put_value(struct leat_vector *v, size_t i, const struct leat_query_value *value)
{
    v->type[i] = (uint8_t)value->type;
    if (value->type == LEAT_QUERY_REAL)
        v->at[i].d = value->real;
    else
        v->at[i].i = value->number;
}

static void put_truth(struct leat_vector *v, size_t i, uint8_t truth)
{
    v->type[i] = truth == LEAT_UNKNOWN ? LEAT_QUERY_NULL : LEAT_QUERY_INT;
    v->at[i].i = truth == LEAT_TRUE;
}

static void mix(struct leat_vector *v, size_t n)
{
    if (v->kind != LEAT_VECTOR_MIXED)
        memset(v->type, type_of[v->kind], n);
    v->kind = LEAT_VECTOR_MIXED;
}

static uint8_t truth_at(const struct leat_vector *v, size_t i)
{
    const uint8_t type = v->kind == LEAT_VECTOR_MIXED ? v->type[i] : type_of[v->kind];
    return type == LEAT_QUERY_NULL                                         ? LEAT_UNKNOWN
           : (type == LEAT_QUERY_REAL ? v->at[i].d != 0 : v->at[i].i != 0) ? LEAT_TRUE
                                                                           : LEAT_FALSE;
}

/* ---- leaves of the tree ---------------------------------------------------------------------- */

#define LOAD(type, member, what)                                                                                       \
    for (size_t i = 0; i < n; i++)                                                                                     \
        out->at[i].member = ((const type *)data)[i];                                                                   \
    out->kind = what;                                                                                                  \
    break

/* The values of a column. */
static void load(const void *data, enum leat_dtype dtype, size_t n, struct leat_vector *out)
{
    const size_t each = leat_dtype_size(dtype);
    switch (dtype) {
    case LEAT_I64:
        LOAD(int64_t, i, LEAT_VECTOR_INTS);
    case LEAT_I32:
        LOAD(int32_t, i, LEAT_VECTOR_INTS);
    case LEAT_U32:
        LOAD(uint32_t, i, LEAT_VECTOR_INTS);
    case LEAT_I16:
        LOAD(int16_t, i, LEAT_VECTOR_INTS);
    case LEAT_U16:
        LOAD(uint16_t, i, LEAT_VECTOR_INTS);
    case LEAT_I8:
        LOAD(int8_t, i, LEAT_VECTOR_INTS);
    case LEAT_U8:
        LOAD(uint8_t, i, LEAT_VECTOR_INTS);
    case LEAT_F32:
        LOAD(float, d, LEAT_VECTOR_REALS);
    case LEAT_F64:
        LOAD(double, d, LEAT_VECTOR_REALS);
    default:
        out->kind = LEAT_VECTOR_MIXED;
        for (size_t i = 0; i < n; i++) {
            const struct leat_query_value v = leat_query_number(dtype, (const uint8_t *)data + i * each);
            put_value(out, i, &v);
        }
    }
    bool nan = false;
    for (size_t i = 0; i < n && out->kind == LEAT_VECTOR_REALS; i++)
        nan |= isnan(out->at[i].d);
    if (nan) {
        mix(out, n);
        for (size_t i = 0; i < n; i++)
            if (isnan(out->at[i].d))
                out->type[i] = LEAT_QUERY_NULL;
    }
}

static int load_column(struct evaluation *v, size_t column, struct leat_vector *out)
{
    const struct leat_query_column *c = &v->columns->at[column];
    const void *data, *valid = NULL;
    int rc = leat_query_reader_numbers(v->reader, column, &data, v->error);
    if (!rc && c->valid)
        rc = leat_query_reader_numbers(v->reader, c->valid - 1, &valid, v->error);
    if (rc)
        return rc;
    load((const uint8_t *)data + v->from * leat_dtype_size(c->dtype), c->dtype, v->n, out);
    for (size_t i = 0; valid && i < v->n; i++)
        if (!((const uint8_t *)valid)[v->from + i]) {
            mix(out, v->n);
            out->type[i] = LEAT_QUERY_NULL;
        }
    return LEAT_OK;
}

static int load_table(struct evaluation *v, const struct leat_expr *e, struct leat_vector *out)
{
    uint32_t places[ROWS] = {0};
    if (out->filled)
        return LEAT_OK;
    for (size_t i = 0; i < e->table.n_parts; i++) {
        const struct leat_query_part *p = &e->table.parts[i];
        const void *codes;
        int rc = leat_query_reader_codes(v->reader, p, &codes, v->error);
        if (rc)
            return rc;
        leat_table_add(p, (const uint8_t *)codes + v->from * p->width, v->n, places);
    }
    const size_t n = e->table.n_parts ? v->n : ROWS;
    for (size_t i = 0; i < n; i++)
        out->at[i] = e->values[places[i]];
    out->kind = e->values_are;
    for (size_t i = 0; i < n && out->kind == LEAT_VECTOR_MIXED; i++)
        out->type[i] = e->types[places[i]];
    out->filled = !e->table.n_parts;
    return LEAT_OK;
}

static void fill(const struct leat_query_value *constant, struct leat_vector *out)
{
    if (out->filled)
        return;
    for (size_t i = 0; i < ROWS; i++)
        put_value(out, i, constant);
    out->kind = constant->type == LEAT_QUERY_INT    ? LEAT_VECTOR_INTS
                : constant->type == LEAT_QUERY_REAL ? LEAT_VECTOR_REALS
                                                    : LEAT_VECTOR_MIXED;
    out->filled = true;
}

/* ---- operators ------------------------------------------------------------------------------- */

/* False: some row overflows, or divides by 0. */
static bool compute_ints(enum leat_expr_kind op, const union leat_number *a, const union leat_number *b, size_t n,
                         union leat_number *out)
{
    bool good = true;
    switch (op) { /* a loop for each, so that the test stands outside */
    case LEAT_EXPR_ADD:
        for (size_t i = 0; i < n; i++)
            good &= !__builtin_add_overflow(a[i].i, b[i].i, &out[i].i);
        return good;
    case LEAT_EXPR_SUBTRACT:
        for (size_t i = 0; i < n; i++)
            good &= !__builtin_sub_overflow(a[i].i, b[i].i, &out[i].i);
        return good;
    case LEAT_EXPR_MULTIPLY:
        for (size_t i = 0; i < n; i++)
            good &= !__builtin_mul_overflow(a[i].i, b[i].i, &out[i].i);
        return good;
    case LEAT_EXPR_DIVIDE:
    case LEAT_EXPR_REMAINDER:
        for (size_t i = 0; i < n && good; i++)
            good = compute_whole(op, a[i].i, b[i].i, &out[i].i);
        return good;
    default:
        return false;
    }
}

/* False: some row divides by 0, or is NaN. */
static bool compute_reals(enum leat_expr_kind op, const struct leat_vector *a, const struct leat_vector *b, size_t n,
                          union leat_number *out)
{
    bool good = op <= LEAT_EXPR_DIVIDE;
    for (size_t i = 0; i < n && good; i++) {
        const double x = a->kind == LEAT_VECTOR_INTS ? (double)a->at[i].i : a->at[i].d,
                     y = b->kind == LEAT_VECTOR_INTS ? (double)b->at[i].i : b->at[i].d;
        const double d = op == LEAT_EXPR_ADD        ? x + y
                         : op == LEAT_EXPR_SUBTRACT ? x - y
                         : op == LEAT_EXPR_MULTIPLY ? x * y
                                                    : x / y;
        out[i].d = d;
        good = !isnan(d) && (op != LEAT_EXPR_DIVIDE || y != 0);
    }
    return good;
}

static void compute(enum leat_expr_kind op, const struct leat_vector *a, const struct leat_vector *b, size_t n,
                    struct leat_vector *out)
{
    const bool ints = a->kind == LEAT_VECTOR_INTS && b->kind == LEAT_VECTOR_INTS;
    out->kind = ints ? LEAT_VECTOR_INTS : LEAT_VECTOR_REALS;
    if (ints ? compute_ints(op, a->at, b->at, n, out->at)
             : a->kind <= LEAT_VECTOR_REALS && b->kind <= LEAT_VECTOR_REALS && compute_reals(op, a, b, n, out->at))
        return;
    out->kind = LEAT_VECTOR_MIXED;
    for (size_t i = 0; i < n; i++) {
        const struct leat_query_value x = value_at(a, i), y = value_at(b, i), result = leat_number_compute(op, &x, &y);
        put_value(out, i, &result);
    }
}

#define COMPARE_LOOP(member, sign)                                                                                     \
    for (size_t i = 0; i < n; i++)                                                                                     \
        out->at[i].i = a->at[i].member sign b->at[i].member;                                                           \
    return

#define COMPARE_ALL(member)                                                                                            \
    switch (how) {                                                                                                     \
    case LEAT_QUERY_LT:                                                                                                \
        COMPARE_LOOP(member, <);                                                                                       \
    case LEAT_QUERY_LE:                                                                                                \
        COMPARE_LOOP(member, <=);                                                                                      \
    case LEAT_QUERY_EQ:                                                                                                \
        COMPARE_LOOP(member, ==);                                                                                      \
    case LEAT_QUERY_GE:                                                                                                \
        COMPARE_LOOP(member, >=);                                                                                      \
    case LEAT_QUERY_GT:                                                                                                \
        COMPARE_LOOP(member, >);                                                                                       \
    default:                                                                                                           \
        COMPARE_LOOP(member, !=);                                                                                      \
    }

static void compare(enum leat_query_compare how, const struct leat_vector *a, const struct leat_vector *b, size_t n,
                    struct leat_vector *out)
{
    out->kind = LEAT_VECTOR_INTS;
    if (a->kind == b->kind && a->kind != LEAT_VECTOR_MIXED && a->kind != LEAT_VECTOR_REALS)
        COMPARE_ALL(i)
    if (a->kind == LEAT_VECTOR_REALS && b->kind == LEAT_VECTOR_REALS)
        COMPARE_ALL(d)
    out->kind = LEAT_VECTOR_MIXED;
    for (size_t i = 0; i < n; i++) {
        const struct leat_query_value x = value_at(a, i), y = value_at(b, i);
        put_truth(out, i, leat_number_compare(how, &x, &y));
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

static void combine(bool is_and, const struct leat_vector *a, const struct leat_vector *b, size_t n,
                    struct leat_vector *out)
{
    if (a->kind == LEAT_VECTOR_INTS && b->kind == LEAT_VECTOR_INTS) {
        for (size_t i = 0; i < n; i++)
            out->at[i].i = is_and ? (a->at[i].i != 0) & (b->at[i].i != 0) : (a->at[i].i | b->at[i].i) != 0;
        out->kind = LEAT_VECTOR_INTS;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const uint8_t x = truth_at(a, i), y = truth_at(b, i);
        put_truth(out, i, is_and ? and_truth(x, y) : or_truth(x, y));
    }
    out->kind = LEAT_VECTOR_MIXED;
}

static void invert(const struct leat_vector *a, size_t n, struct leat_vector *out)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t truth = truth_at(a, i);
        put_truth(out, i, truth == LEAT_TRUE ? LEAT_FALSE : truth == LEAT_FALSE ? LEAT_TRUE : LEAT_UNKNOWN);
    }
    out->kind = a->kind == LEAT_VECTOR_INTS ? LEAT_VECTOR_INTS : LEAT_VECTOR_MIXED;
}

static void is_same(const struct leat_vector *a, const struct leat_vector *b, size_t n, struct leat_vector *out)
{
    out->kind = LEAT_VECTOR_INTS;
    for (size_t i = 0; i < n; i++) {
        const struct leat_query_value x = value_at(a, i), y = value_at(b, i);
        const bool null = x.type == LEAT_QUERY_NULL || y.type == LEAT_QUERY_NULL;
        out->at[i].i = null ? x.type == y.type : order_of(&x, &y) == 0;
    }
}

static void compute_all_of_one(struct evaluation *v, enum leat_expr_kind op, const struct leat_vector *a,
                               struct leat_vector *out)
{
    if (op == LEAT_EXPR_ABS && a->kind == LEAT_VECTOR_REALS) {
        for (size_t i = 0; i < v->n; i++)
            out->at[i].d = a->at[i].d < 0 ? -a->at[i].d : a->at[i].d;
        out->kind = LEAT_VECTOR_REALS;
        return;
    }
    for (size_t i = 0; i < v->n; i++) {
        const struct leat_query_value x = value_at(a, i), result = compute_of_one(op, &x, &v->trouble);
        put_value(out, i, &result);
    }
    out->kind = a->kind == LEAT_VECTOR_INTS && (op == LEAT_EXPR_ABS || op == LEAT_EXPR_SIGN || op == LEAT_EXPR_BIT_NOT)
                    ? LEAT_VECTOR_INTS
                    : LEAT_VECTOR_MIXED;
}

/* Rows whose `chosen` is set take the value of `a`. All of one kind stay of it. */
static void choose(const uint8_t *chosen, const struct leat_vector *a, size_t n, bool *first, struct leat_vector *out)
{
    if (*first)
        out->kind = a->kind;
    *first = false;
    if (out->kind != LEAT_VECTOR_MIXED && a->kind == out->kind) {
        for (size_t i = 0; i < n; i++)
            out->at[i] = chosen[i] ? a->at[i] : out->at[i];
        return;
    }
    mix(out, n);
    for (size_t i = 0; i < n; i++) {
        const uint8_t type = a->kind == LEAT_VECTOR_MIXED ? a->type[i] : type_of[a->kind];
        out->at[i] = chosen[i] ? a->at[i] : out->at[i];
        out->type[i] = chosen[i] ? type : out->type[i];
    }
}

/* What is of one type after all goes through plain loops from here on. */
static void settle(struct leat_vector *v, size_t n)
{
    uint8_t other = 0;
    for (size_t i = 1; i < n; i++)
        other |= v->type[i] ^ v->type[0];
    if (v->kind == LEAT_VECTOR_MIXED && !other && v->type[0] != LEAT_QUERY_NULL)
        v->kind = v->type[0] == LEAT_QUERY_INT    ? LEAT_VECTOR_INTS
                  : v->type[0] == LEAT_QUERY_REAL ? LEAT_VECTOR_REALS
                                                  : LEAT_VECTOR_TEXTS;
}

static bool any_of(const uint8_t *flags, size_t n)
{
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= flags[i];
    return any;
}

/* ---- the tree -------------------------------------------------------------------------------- */

static int evaluate(struct evaluation *v, uint32_t node);

/* Moves rows of `left` where the condition holds to `chosen`. */
static void take_true(const struct leat_vector *condition, bool all, size_t n, uint8_t *left, uint8_t *chosen)
{
    if (all)
        memcpy(chosen, left, n);
    else if (condition->kind == LEAT_VECTOR_INTS)
        for (size_t i = 0; i < n; i++)
            chosen[i] = left[i] & (uint8_t)(condition->at[i].i != 0);
    else
        for (size_t i = 0; i < n; i++)
            chosen[i] = left[i] & (uint8_t)(truth_at(condition, i) == LEAT_TRUE);
    for (size_t i = 0; i < n; i++)
        left[i] &= (uint8_t)!chosen[i];
}

static int evaluate_case(struct evaluation *v, const struct leat_expr *e, struct leat_vector *out)
{
    uint8_t left[ROWS], chosen[ROWS];
    struct leat_vector equal;
    bool first = true;
    int rc = e->of_base ? evaluate(v, e->args[0]) : LEAT_OK;
    memset(left, 1, sizeof left);
    for (size_t k = e->of_base; k < e->n_args && !rc && any_of(left, v->n); k += 2) {
        const bool otherwise = k + 1 == e->n_args;
        if (!otherwise && (rc = evaluate(v, e->args[k])))
            break;
        const struct leat_vector *condition = &v->room[e->args[k]];
        if (!otherwise && e->of_base) {
            compare(LEAT_QUERY_EQ, &v->room[e->args[0]], condition, v->n, &equal);
            condition = &equal;
        }
        take_true(condition, otherwise, v->n, left, chosen);
        if (!any_of(chosen, v->n))
            continue;
        const uint32_t value = e->args[otherwise ? k : k + 1];
        if (!(rc = evaluate(v, value)))
            choose(chosen, &v->room[value], v->n, &first, out);
    }
    settle(out, v->n);
    return rc;
}

static int evaluate_coalesce(struct evaluation *v, const struct leat_expr *e, struct leat_vector *out)
{
    uint8_t left[ROWS], chosen[ROWS];
    bool first = true;
    int rc = LEAT_OK;
    memset(left, 1, sizeof left);
    for (size_t k = 0; k < e->n_args && !rc && any_of(left, v->n); k++) {
        if ((rc = evaluate(v, e->args[k])))
            break;
        const struct leat_vector *a = &v->room[e->args[k]];
        for (size_t i = 0; i < v->n; i++) {
            const bool null = a->kind == LEAT_VECTOR_MIXED && a->type[i] == LEAT_QUERY_NULL;
            chosen[i] = left[i] && (!null || k + 1 == e->n_args);
            left[i] = left[i] && !chosen[i];
        }
        choose(chosen, a, v->n, &first, out);
    }
    settle(out, v->n);
    return rc;
}

/* The greatest or least of all, NULL if one is. */
static void most_of(struct evaluation *v, const struct leat_expr *e, struct leat_vector *out)
{
    for (size_t i = 0; i < v->n; i++) {
        struct leat_query_value best = value_at(&v->room[e->args[0]], i);
        for (size_t k = 1; k < e->n_args && best.type != LEAT_QUERY_NULL; k++) {
            const struct leat_query_value x = value_at(&v->room[e->args[k]], i);
            const int order = x.type == LEAT_QUERY_NULL ? 0 : order_of(&best, &x);
            if (x.type == LEAT_QUERY_NULL || (e->kind == LEAT_EXPR_MAX ? order < 0 : order >= 0))
                best = x;
        }
        put_value(out, i, &best);
    }
    out->kind = LEAT_VECTOR_MIXED;
    settle(out, v->n);
}

static void null_if(const struct leat_vector *a, const struct leat_vector *b, size_t n, struct leat_vector *out)
{
    struct leat_vector equal;
    compare(LEAT_QUERY_EQ, a, b, n, &equal);
    memcpy(out->at, a->at, n * sizeof *out->at);
    memset(out->type, type_of[a->kind == LEAT_VECTOR_MIXED ? LEAT_VECTOR_INTS : a->kind], n);
    if (a->kind == LEAT_VECTOR_MIXED)
        memcpy(out->type, a->type, n);
    for (size_t i = 0; i < n; i++)
        out->type[i] = truth_at(&equal, i) == LEAT_TRUE ? LEAT_QUERY_NULL : out->type[i];
    out->kind = LEAT_VECTOR_MIXED;
    settle(out, n);
}

/* IN: the first is equal to one of the others. BETWEEN: it is between them. */
static void compare_with_all(struct evaluation *v, const struct leat_expr *e, struct leat_vector *out)
{
    struct leat_vector one;
    const struct leat_vector *a = &v->room[e->args[0]];
    const bool between = e->kind == LEAT_EXPR_BETWEEN;
    compare(between ? LEAT_QUERY_GE : LEAT_QUERY_EQ, a, &v->room[e->args[1]], v->n, out);
    for (size_t k = 2; k < e->n_args; k++) {
        compare(between ? LEAT_QUERY_LE : LEAT_QUERY_EQ, a, &v->room[e->args[k]], v->n, &one);
        combine(between, out, &one, v->n, out);
    }
}

static int evaluate(struct evaluation *v, uint32_t node)
{
    const struct leat_expr *e = &v->tree->at[node];
    struct leat_vector *out = &v->room[node];
    int rc = LEAT_OK;
    if (e->kind == LEAT_EXPR_CASE)
        return evaluate_case(v, e, out);
    if (e->kind == LEAT_EXPR_COALESCE)
        return evaluate_coalesce(v, e, out);
    for (size_t i = 0; i < e->n_args && e->kind != LEAT_EXPR_TABLE && !rc; i++)
        rc = evaluate(v, e->args[i]);
    if (rc)
        return rc;
    const struct leat_vector *a = e->n_args ? &v->room[e->args[0]] : NULL,
                             *b = e->n_args > 1 ? &v->room[e->args[1]] : NULL;
    switch (e->kind) {
    case LEAT_EXPR_NUMBER:
    case LEAT_EXPR_NULL:
        fill(&e->constant, out);
        break;
    case LEAT_EXPR_COLUMN:
        rc = load_column(v, e->column, out);
        break;
    case LEAT_EXPR_TABLE:
        rc = load_table(v, e, out);
        break;
    case LEAT_EXPR_COMPARE:
        compare(e->compare, a, b, v->n, out);
        break;
    case LEAT_EXPR_IS:
        is_same(a, b, v->n, out);
        break;
    case LEAT_EXPR_NOT:
        invert(a, v->n, out);
        break;
    case LEAT_EXPR_AND:
    case LEAT_EXPR_OR:
        combine(e->kind == LEAT_EXPR_AND, a, b, v->n, out);
        break;
    case LEAT_EXPR_IN:
    case LEAT_EXPR_BETWEEN:
        compare_with_all(v, e, out);
        break;
    case LEAT_EXPR_MAX:
    case LEAT_EXPR_MIN:
        most_of(v, e, out);
        break;
    case LEAT_EXPR_NULLIF:
        null_if(a, b, v->n, out);
        break;
    default:
        if (b)
            compute(e->kind, a, b, v->n, out);
        else
            compute_all_of_one(v, e->kind, a, out);
    }
    return rc;
}

int leat_tree_evaluate(const struct leat_tree *tree, const struct leat_query_columns *columns,
                       struct leat_query_reader *reader, size_t from, size_t n, struct leat_vector *room,
                       uint8_t *truth, bool *trouble, struct leat_error *error)
{
    struct evaluation v = {tree, columns, reader, from, n, room, false, error};
    int rc = evaluate(&v, tree->root);
    for (size_t i = 0; i < n && !rc; i++)
        truth[i] = truth_at(&room[tree->root], i);
    *trouble |= v.trouble;
    return rc;
}
