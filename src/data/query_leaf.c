/*
 * Leaves of a clause: which way each is evaluated, and the ways that need no SQLite while rows are looked at.
 *
 *     RANGES   <number> compared with constants, [NOT] BETWEEN, [NOT] IN (..), IS [NOT] NULL
 *     TABLE    whatever it is, of columns that have together at most 65536 combinations of values: SQLite evaluates
 *              these once, and a row is a look into the table
 *     NUMBERS  sums and products of numbers that are compared    (query_numbers.c)
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/query.h"
#include "data/query_parse.h"
#include "io/guard.h"

#define MOST_TABLE 65536
#define MOST_RANGES 64 /* more are a search for each row: SQLite does that as well */

void leat_leaf_destroy(struct leat_leaf *leaf)
{
    if (leaf->ranges)
        leat_query_ranges_destroy(leaf->ranges);
    if (leaf->numbers)
        leat_query_numbers_destroy(leaf->numbers);
    leat_free(leaf->numbers);
    leat_free(leaf->ranges);
    leat_free(leaf->table);
    leaf->ranges = NULL;
    leaf->numbers = NULL;
    leaf->table = NULL;
}

/* ---- ranges: what the tokens say ------------------------------------------------------------- */

/* 7 < x is x > 7. */
static enum leat_query_compare turned(enum leat_query_compare compare)
{
    return compare == LEAT_QUERY_LT   ? LEAT_QUERY_GT
           : compare == LEAT_QUERY_LE ? LEAT_QUERY_GE
           : compare == LEAT_QUERY_GE ? LEAT_QUERY_LE
           : compare == LEAT_QUERY_GT ? LEAT_QUERY_LT
                                      : compare;
}

/* What follows a column; false: another form. *negated turns with each NOT; *null: it is about NULL, so that a row is
 * never unknown. */
static bool read_tail(struct leat_shape *s, struct leat_query_ranges *r, bool *negated, bool *null)
{
    struct leat_query_value v;
    enum leat_query_compare compare;
    if (leat_shape_take(s, "ISNULL") || leat_shape_take(s, "NOTNULL")) {
        *null = true;
        *negated ^= leat_token_is(s->clause, s->at - 1, "NOTNULL");
        return s->at == s->end && !leat_query_ranges_null(r);
    }
    if (leat_shape_take(s, "IS")) {
        *null = true;
        *negated ^= leat_shape_take(s, "NOT");
        return leat_shape_take(s, "NULL") && s->at == s->end && !leat_query_ranges_null(r);
    }
    if (leat_shape_compare(s, &compare))
        return leat_shape_number(s, &v) && s->at == s->end && !leat_query_ranges_add(r, compare, &v);
    const bool not = leat_shape_take(s, "NOT");
    *negated ^= not ;
    if (not &&leat_shape_take(s, "NULL")) {
        *null = true;
        return s->at == s->end && !leat_query_ranges_null(r);
    }
    if (leat_shape_take(s, "BETWEEN")) {
        struct leat_query_ranges high = {.dtype = r->dtype};
        bool good = leat_shape_number(s, &v) && leat_shape_take(s, "AND") &&
                    !leat_query_ranges_add(r, LEAT_QUERY_GE, &v) && leat_shape_number(s, &v) && s->at == s->end &&
                    !leat_query_ranges_add(&high, LEAT_QUERY_LE, &v) && !leat_query_ranges_and(r, &high);
        leat_query_ranges_destroy(&high);
        return good;
    }
    if (!leat_shape_take(s, "IN") || !leat_shape_take(s, "("))
        return false;
    do {
        if (!leat_shape_number(s, &v) || leat_query_ranges_add(r, LEAT_QUERY_EQ, &v))
            return false;
    } while (leat_shape_take(s, ","));
    return leat_shape_take(s, ")") && s->at == s->end;
}

/* The ranges of a leaf that has that form, else NULL. */
static struct leat_query_ranges *find_ranges(struct leat_shape *s, bool negated, size_t *column)
{
    struct leat_query_ranges *r = leat_new(struct leat_query_ranges);
    struct leat_query_value v;
    enum leat_query_compare compare;
    const size_t begin = s->at;
    bool null = false, good = false;
    if (!r)
        return NULL;
    if (leat_shape_column(s, s->at, column)) {
        r->dtype = s->columns->at[*column].dtype;
        s->at++;
        good = read_tail(s, r, &negated, &null);
    } else if (leat_shape_number(s, &v) && leat_shape_compare(s, &compare) && s->at + 1 == s->end &&
               leat_shape_column(s, s->at, column)) {
        r->dtype = s->columns->at[*column].dtype;
        good = !leat_query_ranges_add(r, turned(compare), &v);
    }
    s->at = begin;
    good &= !null || !s->columns->at[*column].valid;
    if (good && negated && null) { /* NOT NULL: the values */
        leat_query_ranges_destroy(r);
        good = !leat_query_ranges_not(r);
    } else if (good && negated) {
        good = !leat_query_ranges_not(r);
    }
    if (good && r->n <= MOST_RANGES)
        return r;
    leat_query_ranges_destroy(r);
    leat_free(r);
    return NULL;
}

/* ---- tables ---------------------------------------------------------------------------------- */

struct combinations {
    const struct leat_leaf *leaf;
    const struct leat_query_columns *columns;
};

/* Row i of the combinations: the i-th place of the table. */
static int value_of_combination(void *user, size_t column, uint32_t row, struct leat_query_value *out,
                                struct leat_error *error)
{
    const struct combinations *c = user;
    for (size_t i = 0; i < c->leaf->n_parts; i++) {
        const struct leat_leaf_part *p = &c->leaf->parts[i];
        const uint32_t code = row / p->stride % p->n;
        if (p->column + 1 == c->columns->at[column].valid && !code) {
            out->type = LEAT_QUERY_NULL;
            return LEAT_OK;
        }
    }
    for (size_t i = 0; i < c->leaf->n_parts; i++) {
        const struct leat_leaf_part *p = &c->leaf->parts[i];
        const uint32_t code = row / p->stride % p->n;
        const uint64_t bits = code; /* little-endian */
        if (p->column != column)
            continue;
        if (!p->codes)
            *out = leat_query_number(c->columns->at[column].dtype, &bits);
        else
            *out =
                leat_query_text(&c->columns->at[column], p->codes->values[code].bytes, p->codes->values[code].length);
        return LEAT_OK;
    }
    return leat_fail(error, LEAT_E_INVALID, "a column that the clause does not name");
}

/* Whether all columns of the leaf have few values. */
static bool find_parts(struct leat_leaf *leaf, const struct leat_query_columns *columns, const bool *used,
                       const struct leat_codes *const *codes)
{
    uint64_t size = 1;
    for (size_t i = 0; i < columns->n; i++) {
        bool needed = used[i];
        for (size_t k = 0; k < columns->n && !needed; k++)
            needed = used[k] && columns->at[k].valid == i + 1;
        if (!needed)
            continue;
        const struct leat_query_column *c = &columns->at[i];
        const size_t width = leat_dtype_size(c->dtype);
        struct leat_leaf_part part = {.column = i, .stride = (uint32_t)size};
        if (c->source == LEAT_QUERY_NUMBER && width <= 2) {
            part.width = (unsigned)width;
            part.n = UINT32_C(1) << 8 * width;
        } else if (c->source == LEAT_QUERY_TEXT && codes[i]) {
            part.width = codes[i]->width;
            part.codes = codes[i];
            part.n = codes[i]->n_values;
        } else {
            return false;
        }
        size *= part.n;
        if (size > MOST_TABLE || leaf->n_parts == LEAT_TABLE_COLUMNS)
            return false;
        leaf->parts[leaf->n_parts++] = part;
    }
    leaf->n_table = (uint32_t)size;
    return true;
}

/* False: SQLite gave an error for a combination, which may not be that of any row. */
static int make_table(struct leat_leaf *leaf, struct leat_query_expression *x, const struct leat_query_columns *columns,
                      struct leat_error *error)
{
    struct combinations c = {leaf, columns};
    uint32_t *rows = leat_new_array(leaf->n_table, sizeof *rows);
    uint8_t *truth = leat_new_array(leaf->n_table, 1);
    int rc = rows && truth ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
    for (uint32_t i = 0; i < leaf->n_table && !rc; i++)
        rows[i] = i;
    if (!rc)
        rc = leat_query_evaluate(x, rows, leaf->n_table, value_of_combination, &c, truth, error);
    for (uint32_t i = 0; i < leaf->n_table && !rc; i++)
        truth[i] = truth[i] == (leaf->negated ? LEAT_FALSE : LEAT_TRUE);
    leat_free(rows);
    if (rc)
        leat_free(truth);
    else
        leaf->table = truth;
    return rc;
}

int leat_leaf_plan(struct leat_leaf *leaf, const struct leat_clause *clause, const struct leat_node *node,
                   struct leat_query_sql *sql, const struct leat_query_columns *columns,
                   const struct leat_codes *const *codes, uint64_t n_rows, struct leat_error *error)
{
    struct leat_shape shape = {clause, sql, columns, node->first_token, node->last_token};
    struct leat_query_expression *x = NULL;
    bool *used = leat_new_array(columns->n + 1, sizeof *used);
    *leaf = (struct leat_leaf){.way = LEAT_LEAF_ROWS,
                               .negated = node->negated,
                               .columns = columns,
                               .text = clause->text + node->begin,
                               .length = node->end - node->begin};
    int rc = used ? leat_query_prepare(sql, leaf->text, leaf->length, used, &x, error)
                  : leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
    if (rc)
        goto out;
    if ((leaf->ranges = find_ranges(&shape, leaf->negated, &leaf->column))) {
        leaf->way = LEAT_LEAF_RANGES;
        leaf->valid = columns->at[leaf->column].valid;
    } else if (codes && find_parts(leaf, columns, used, codes) && leaf->n_table <= n_rows) {
        rc = make_table(leaf, x, columns, error);
        if (!rc)
            leaf->way = LEAT_LEAF_TABLE;
        else if (rc == LEAT_E_INVALID)
            rc = LEAT_OK;
    } else if ((leaf->numbers = leat_shape_numbers(&shape))) {
        leaf->way = LEAT_LEAF_NUMBERS;
    }
out:
    leat_query_finish(x);
    leat_free(used);
    return rc;
}

/* ---- a block --------------------------------------------------------------------------------- */

struct test {
    const struct leat_leaf *leaf;
    const void *data;
    size_t n;
    uint64_t *bits;
};

static int run_ranges(void *arg)
{
    const struct test *t = arg;
    leat_query_ranges_test(t->leaf->ranges, t->data, t->n, t->bits);
    return LEAT_OK;
}

/* In place, span by span, as long as they are whole words; the rest is gathered. */
static int evaluate_ranges(const struct leat_leaf *leaf, struct leat_query_reader *reader, size_t n, uint64_t *out,
                           struct leat_error *error)
{
    size_t at = 0, got = 0;
    const void *data;
    int rc = LEAT_OK;
    while (at < n && !rc) {
        if ((rc = leat_query_reader_span(reader, leaf->column, at, &data, &got, error)))
            return rc;
        if (!got || (got < n - at && got % 64))
            break;
        struct test t = {leaf, data, got, out + at / 64};
        rc = leat_guarded(run_ranges, &t, error);
        at += got;
    }
    if (rc || at >= n)
        return rc;
    rc = leat_query_reader_numbers(reader, leaf->column, &data, error);
    if (!rc)
        leat_query_ranges_test(leaf->ranges, data, n, out);
    return rc;
}

static void add_codes(uint32_t *places, const struct leat_leaf_part *p, const void *codes, size_t n)
{
    if (p->width == 1)
        for (size_t i = 0; i < n; i++)
            places[i] += ((const uint8_t *)codes)[i] * p->stride;
    else
        for (size_t i = 0; i < n; i++)
            places[i] += ((const uint16_t *)codes)[i] * p->stride;
}

static uint64_t look_up(const uint8_t *table, const uint8_t *codes, size_t n)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < n; i++)
        bits |= (uint64_t)table[codes[i]] << i;
    return bits;
}

static int evaluate_table(const struct leat_leaf *leaf, struct leat_query_reader *reader, size_t n,
                          const uint64_t *mask, uint64_t *out, struct leat_error *error)
{
    const void *codes[LEAT_TABLE_COLUMNS];
    int rc = LEAT_OK;
    for (size_t i = 0; i < leaf->n_parts && !rc; i++)
        rc = leat_query_reader_codes(reader, &leaf->parts[i], &codes[i], error);
    for (size_t at = 0; at < n && !rc; at += 64) {
        const size_t here = n - at < 64 ? n - at : 64;
        uint32_t places[64] = {0};
        uint64_t bits = 0;
        out[at / 64] = 0;
        if (!mask[at / 64])
            continue;
        if (leaf->n_parts == 1 && leaf->parts[0].width == 1) {
            bits = look_up(leaf->table, (const uint8_t *)codes[0] + at, here);
        } else {
            for (size_t i = 0; i < leaf->n_parts; i++)
                add_codes(places, &leaf->parts[i], (const uint8_t *)codes[i] + at * leaf->parts[i].width, here);
            for (size_t i = 0; i < here; i++)
                bits |= (uint64_t)leaf->table[places[i]] << i;
        }
        out[at / 64] = bits;
    }
    return rc;
}

static int evaluate_numbers(const struct leat_leaf *leaf, struct leat_query_reader *reader, size_t n,
                            const uint64_t *mask, uint64_t *out, struct leat_error *error)
{
    const uint8_t wanted = leaf->negated ? LEAT_FALSE : LEAT_TRUE;
    uint8_t truth[LEAT_NUMBERS_ROWS];
    int rc = LEAT_OK;
    memset(out, 0, (n + 63) / 64 * sizeof *out);
    for (size_t at = 0; at < n && !rc; at += LEAT_NUMBERS_ROWS) {
        const size_t here = n - at < LEAT_NUMBERS_ROWS ? n - at : LEAT_NUMBERS_ROWS;
        uint64_t any = 0;
        for (size_t w = at / 64; w < (at + here + 63) / 64; w++)
            any |= mask[w];
        if (any)
            rc = leat_query_numbers_evaluate(leaf->numbers, leaf->columns, reader, at, here, truth, error);
        for (size_t i = 0; any && i < here && !rc; i++)
            out[(at + i) / 64] |= (uint64_t)(truth[i] == wanted) << (i & 63);
    }
    return rc;
}

int leat_leaf_evaluate(const struct leat_leaf *leaf, struct leat_query_reader *reader, size_t n, const uint64_t *mask,
                       uint64_t *out, struct leat_error *error)
{
    memset(out + (n + 63) / 64, 0, (LEAT_QUERY_WORDS - (n + 63) / 64) * sizeof *out);
    int rc = leaf->way == LEAT_LEAF_RANGES    ? evaluate_ranges(leaf, reader, n, out, error)
             : leaf->way == LEAT_LEAF_NUMBERS ? evaluate_numbers(leaf, reader, n, mask, out, error)
                                              : evaluate_table(leaf, reader, n, mask, out, error);
    const void *valid = NULL;
    if (!rc && leaf->valid)
        rc = leat_query_reader_numbers(reader, leaf->valid - 1, &valid, error);
    for (size_t i = 0; valid && i < n; i++)
        out[i / 64] &= ~((uint64_t) !((const uint8_t *)valid)[i] << (i & 63));
    for (size_t i = 0; i < LEAT_QUERY_WORDS && !rc; i++)
        out[i] &= mask[i];
    return rc;
}
