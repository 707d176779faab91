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
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/query.h"
#include "data/query_ranges.h"
#include "io/guard.h"

#define MOST_TABLE 65536
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

/* The tokens of a leaf. Each function below stops at a token that it does not know. */
struct shape {
    const struct leat_clause *clause;
    struct leat_query_sql *sql;
    const struct leat_query_columns *columns;
    size_t at, end; /* tokens */
};

/* The column of numbers that a token names; false: none. */
static bool column_at(const struct shape *s, size_t token, size_t *column)
{
    if (token >= s->end || leat_token_is(s->clause, token, "NULL"))
        return false;
    const struct leat_token *t = &s->clause->tokens[token];
    const char *text = s->clause->text + t->begin;
    size_t length = t->end - t->begin;
    if (t->kind != LEAT_TOKEN_WORD && t->kind != LEAT_TOKEN_NAME)
        return false;
    if (t->kind == LEAT_TOKEN_NAME) {
        text++;
        length -= 2;
    }
    for (size_t i = 0; i < s->columns->n; i++)
        if (strlen(s->columns->at[i].name) == length && !strncasecmp(s->columns->at[i].name, text, length)) {
            *column = i;
            return s->columns->at[i].source != LEAT_QUERY_TEXT && s->columns->at[i].source != LEAT_QUERY_BYTES;
        }
    return false;
}

/* Takes a number with its sign, as SQLite reads it. */
static bool take_number(struct shape *s, struct leat_query_value *out)
{
    const struct leat_clause *c = s->clause;
    size_t at = s->at;
    at += at < s->end && (leat_token_is(c, at, "-") || leat_token_is(c, at, "+"));
    if (at >= s->end || c->tokens[at].kind != LEAT_TOKEN_NUMBER)
        return false;
    const size_t begin = c->tokens[s->at].begin, end = c->tokens[at].end;
    struct leat_query_expression *x = NULL;
    bool *used = leat_new_array(s->columns->n + 1, sizeof *used);
    bool good = used && !leat_query_prepare(s->sql, c->text + begin, end - begin, used, &x, NULL);
    for (size_t i = 0; good && i < s->columns->n; i++)
        good = !used[i];
    good = good && !leat_query_constant(x, out, NULL);
    leat_query_finish(x);
    leat_free(used);
    s->at = at + 1;
    return good && (out->type == LEAT_QUERY_INT || out->type == LEAT_QUERY_REAL);
}

static bool take(struct shape *s, const char *word)
{
    if (s->at >= s->end || !leat_token_is(s->clause, s->at, word))
        return false;
    s->at++;
    return true;
}

static bool take_compare(struct shape *s, enum leat_query_compare *out)
{
    static const struct {
        const char *sign;
        enum leat_query_compare compare;
    } signs[] = {{"=", LEAT_QUERY_EQ},  {"==", LEAT_QUERY_EQ}, {"<>", LEAT_QUERY_NE}, {"!=", LEAT_QUERY_NE},
                 {"<=", LEAT_QUERY_LE}, {">=", LEAT_QUERY_GE}, {"<", LEAT_QUERY_LT},  {">", LEAT_QUERY_GT}};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (take(s, signs[i].sign)) {
            *out = signs[i].compare;
            return true;
        }
    return false;
}

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
static bool read_tail(struct shape *s, struct leat_query_ranges *r, bool *negated, bool *null)
{
    struct leat_query_value v;
    enum leat_query_compare compare;
    if (take(s, "ISNULL") || take(s, "NOTNULL")) {
        *null = true;
        *negated ^= leat_token_is(s->clause, s->at - 1, "NOTNULL");
        return s->at == s->end && !leat_query_ranges_null(r);
    }
    if (take(s, "IS")) {
        *null = true;
        *negated ^= take(s, "NOT");
        return take(s, "NULL") && s->at == s->end && !leat_query_ranges_null(r);
    }
    if (take_compare(s, &compare))
        return take_number(s, &v) && s->at == s->end && !leat_query_ranges_add(r, compare, &v);
    const bool not = take(s, "NOT");
    *negated ^= not ;
    if (not &&take(s, "NULL")) {
        *null = true;
        return s->at == s->end && !leat_query_ranges_null(r);
    }
    if (take(s, "BETWEEN")) {
        struct leat_query_ranges high = {.dtype = r->dtype};
        bool good = take_number(s, &v) && take(s, "AND") && !leat_query_ranges_add(r, LEAT_QUERY_GE, &v) &&
                    take_number(s, &v) && s->at == s->end && !leat_query_ranges_add(&high, LEAT_QUERY_LE, &v) &&
                    !leat_query_ranges_and(r, &high);
        leat_query_ranges_destroy(&high);
        return good;
    }
    if (!take(s, "IN") || !take(s, "("))
        return false;
    do {
        if (!take_number(s, &v) || leat_query_ranges_add(r, LEAT_QUERY_EQ, &v))
            return false;
    } while (take(s, ","));
    return take(s, ")") && s->at == s->end;
}

/* The ranges of a leaf that has that form, else NULL. */
static struct leat_query_ranges *find_ranges(struct shape *s, bool negated, size_t *column)
{
    struct leat_query_ranges *r = leat_new(struct leat_query_ranges);
    struct leat_query_value v;
    enum leat_query_compare compare;
    const size_t begin = s->at;
    bool null = false, good = false;
    if (!r)
        return NULL;
    if (column_at(s, s->at, column)) {
        r->dtype = s->columns->at[*column].dtype;
        s->at++;
        good = read_tail(s, r, &negated, &null);
    } else if (take_number(s, &v) && take_compare(s, &compare) && s->at + 1 == s->end && column_at(s, s->at, column)) {
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

/* Row i of the combinations: the i-th place of the table. */
static int value_of_combination(void *user, size_t column, uint32_t row, struct leat_query_value *out,
                                struct leat_error *error)
{
    const struct leat_query_table *t = user;
    const struct leat_query_column *c = &t->columns->at[column];
    for (size_t i = 0; i < t->n_parts; i++) {
        const struct leat_query_part *p = &t->parts[i];
        if (p->column + 1 == c->valid && !(row / p->stride % p->n)) {
            out->type = LEAT_QUERY_NULL;
            return LEAT_OK;
        }
    }
    for (size_t i = 0; i < t->n_parts; i++) {
        const struct leat_query_part *p = &t->parts[i];
        const uint32_t code = row / p->stride % p->n;
        const uint64_t bits = code; /* little-endian */
        if (p->column != column)
            continue;
        *out = p->codes ? leat_query_text(c, p->codes->values[code].bytes, p->codes->values[code].length)
                        : leat_query_number(c->dtype, &bits);
        return LEAT_OK;
    }
    return leat_fail(error, LEAT_E_INVALID, "a column that the clause does not name");
}

/* Whether the columns in use have few combinations of values. `codes` as for leat_leaf_plan. */
static bool find_table(struct leat_query_table *t, const struct leat_query_columns *columns, const bool *used,
                       const struct leat_codes *const *codes)
{
    uint64_t size = 1;
    *t = (struct leat_query_table){.columns = columns};
    for (size_t i = 0; i < columns->n; i++) {
        bool needed = used[i];
        const struct leat_query_column *c = &columns->at[i];
        for (size_t k = 0; k < columns->n && !needed; k++) /* each text that has a code is there */
            needed = used[k] && columns->at[k].valid == i + 1 && !(c->source == LEAT_QUERY_VALID && codes && codes[k]);
        if (!needed)
            continue;
        const size_t width = leat_dtype_size(c->dtype);
        struct leat_query_part part = {.column = i, .stride = (uint32_t)size};
        if (c->source == LEAT_QUERY_NUMBER && width <= 2) {
            part.width = (unsigned)width;
            part.n = UINT32_C(1) << 8 * width;
        } else if (c->source == LEAT_QUERY_VALID) {
            part.width = 1;
            part.n = 2;
        } else if (c->source == LEAT_QUERY_TEXT && codes && codes[i]) {
            part.width = codes[i]->width;
            part.codes = codes[i];
            part.n = codes[i]->n_values;
        } else {
            return false;
        }
        size *= part.n;
        if (size > MOST_TABLE || t->n_parts == LEAT_TABLE_COLUMNS)
            return false;
        t->parts[t->n_parts++] = part;
    }
    t->n = (uint32_t)size;
    return true;
}

/* places[i] += that of row i, by the codes of one part. */
static void add_places(const struct leat_query_part *p, const void *codes, size_t n, uint32_t *places)
{
    if (p->width == 1)
        for (size_t i = 0; i < n; i++)
            places[i] += ((const uint8_t *)codes)[i] * p->stride;
    else
        for (size_t i = 0; i < n; i++)
            places[i] += ((const uint16_t *)codes)[i] * p->stride;
}

/* The truth in each place of the leaf's table. INVALID, without a text in `error`: SQLite gave an error for a
 * combination, which may be that of no row. */
static int make_table(struct leat_leaf *leaf, struct leat_query_expression *x, struct leat_error *error)
{
    struct leat_error said;
    const uint32_t n = leaf->table.n;
    uint32_t *rows = leat_new_array(n, sizeof *rows);
    if (!rows || !(leaf->truth = leat_new_array(n, 1))) {
        leat_free(rows);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
    }
    for (uint32_t i = 0; i < n; i++)
        rows[i] = i;
    int rc = leat_query_evaluate(x, rows, n, value_of_combination, &leaf->table, leaf->truth, &said);
    if (rc && rc != LEAT_E_INVALID && error)
        *error = said;
    for (uint32_t i = 0; i < n && !rc; i++)
        leaf->truth[i] = leaf->truth[i] == (leaf->negated ? LEAT_FALSE : LEAT_TRUE);
    leat_free(rows);
    return rc;
}

int leat_leaf_plan(struct leat_leaf *leaf, const struct leat_clause *clause, const struct leat_node *node,
                   struct leat_query_sql *sql, const struct leat_query_columns *columns,
                   const struct leat_codes *const *codes, uint64_t n_rows, struct leat_error *error)
{
    struct shape shape = {clause, sql, columns, node->first_token, node->last_token};
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
    if (find_table(&leaf->table, columns, used, codes) && leaf->table.n <= n_rows) {
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
                add_places(&t->parts[i], (const uint8_t *)codes[i] + at * t->parts[i].width, here, places);
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
