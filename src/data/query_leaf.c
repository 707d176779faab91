/*
 * Leaves of a clause: the way each is evaluated, and the ways that need no SQLite while rows are read.
 *
 *     RANGES   <number> compared with constants, [NOT] BETWEEN, [NOT] IN (..), IS [NOT] NULL
 *     TABLE    whatever it is, of columns that have together at most 65536 combinations of values: SQLite evaluates
 *              these once, and a row is a look into the table
 *
 * SQLite is asked about the rows of any other leaf: ROWS.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/query.h"
#include "data/query_parse.h"
#include "io/guard.h"

#define MOST_RANGES 64 /* more are a search for each row: SQLite does that as well */

void leat_leaf_destroy(struct leat_leaf *leaf)
{
    if (leaf->ranges)
        leat_query_ranges_destroy(leaf->ranges);
    leat_free(leaf->ranges);
    leat_free(leaf->truth);
    leaf->ranges = NULL;
    leaf->truth = NULL;
}

/* ---- ranges: the tokens ---------------------------------------------------------------------- */

/* 7 < x is x > 7. */
static enum leat_query_compare turned(enum leat_query_compare compare)
{
    return compare == LEAT_QUERY_LT   ? LEAT_QUERY_GT
           : compare == LEAT_QUERY_LE ? LEAT_QUERY_GE
           : compare == LEAT_QUERY_GE ? LEAT_QUERY_LE
           : compare == LEAT_QUERY_GT ? LEAT_QUERY_LT
                                      : compare;
}

/* The tokens behind a column; false: another form. *negated turns with each NOT; *null: it is about NULL, so that a row
 * is never unknown. */
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

/* INVALID, without a text in `error`: SQLite gave an error for a combination, which may be that of no row. */
static int make_table(struct leat_leaf *leaf, struct leat_query_expression *x, struct leat_error *error)
{
    struct leat_error said;
    if (!(leaf->truth = leat_new_array(leaf->table.n, 1)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
    int rc = leat_table_truths(&leaf->table, x, leaf->truth, &said);
    if (rc && rc != LEAT_E_INVALID && error)
        *error = said;
    for (uint32_t i = 0; i < leaf->table.n && !rc; i++)
        leaf->truth[i] = leaf->truth[i] == (leaf->negated ? LEAT_FALSE : LEAT_TRUE);
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
        goto out;
    }
    if (leat_table_find(&leaf->table, columns, used, codes) && leaf->table.n <= n_rows) {
        rc = make_table(leaf, x, error);
        if (!rc)
            leaf->way = LEAT_LEAF_TABLE;
        else if (rc == LEAT_E_INVALID)
            rc = LEAT_OK;
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
    const struct leat_query_table *t = &leaf->table;
    const void *codes[LEAT_TABLE_COLUMNS];
    int rc = LEAT_OK;
    for (size_t i = 0; i < t->n_parts && !rc; i++)
        rc = leat_query_reader_codes(reader, &t->parts[i], &codes[i], error);
    for (size_t at = 0; at < n && !rc; at += 64) {
        const size_t here = n - at < 64 ? n - at : 64;
        uint32_t places[64] = {0};
        uint64_t bits = 0;
        out[at / 64] = 0;
        if (!mask[at / 64])
            continue;
        if (t->n_parts == 1 && t->parts[0].width == 1) {
            bits = look_up(leaf->truth, (const uint8_t *)codes[0] + at, here);
        } else {
            for (size_t i = 0; i < t->n_parts; i++)
                leat_table_add(&t->parts[i], (const uint8_t *)codes[i] + at * t->parts[i].width, here, places);
            for (size_t i = 0; i < here; i++)
                bits |= (uint64_t)leaf->truth[places[i]] << i;
        }
        out[at / 64] = bits;
    }
    return rc;
}

int leat_leaf_evaluate(const struct leat_leaf *leaf, struct leat_query_reader *reader, size_t n, const uint64_t *mask,
                       uint64_t *out, struct leat_error *error)
{
    memset(out + (n + 63) / 64, 0, (LEAT_QUERY_WORDS - (n + 63) / 64) * sizeof *out);
    int rc = leaf->way == LEAT_LEAF_RANGES ? evaluate_ranges(leaf, reader, n, out, error)
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
