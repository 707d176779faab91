/*
 * What of a tree becomes a table, and whether all else can be computed: query_tree.h.
 *
 * An expression that names a text is tried from the top: SQLite evaluates the largest parts that depend on columns of
 * few values. An operand has the value that it has there, whatever it is made of; its affinity, by which SQLite turns
 * texts into numbers where it compares them, decides nothing where texts are compared with texts and numbers with
 * numbers, and other comparisons are left to it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/query_tree.h"

#define MOST_TEXTS (4 << 20) /* bytes of all texts of a tree */

struct planner {
    struct leat_tree *tree;
    const struct leat_shape *shape;
    const struct leat_codes *const *codes;
    uint64_t n_rows;
    uint64_t *places; /* that are left for tables */
    bool *used;
    struct text {
        uint8_t *bytes;
        uint64_t length;
        uint32_t first; /* its place before sorting */
    } * texts;
    size_t n_texts, room;
    uint64_t bytes;
    int rc;
    struct leat_error *error;
};

struct filling {
    struct planner *p;
    struct leat_expr *e;
};

static int no_memory(struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
}

static int put_text(struct planner *p, const struct leat_query_value *v, int64_t *place, struct leat_error *error)
{
    if ((p->bytes += v->length) > MOST_TEXTS)
        return leat_fail(error, LEAT_E_INVALID, "too many texts");
    uint8_t *copy = leat_alloc(v->length + 1);
    if (!copy || !leat_grow(&p->texts, &p->room, p->n_texts + 1, sizeof *p->texts)) {
        leat_free(copy);
        return no_memory(error);
    }
    if (v->length)
        memcpy(copy, v->bytes, (size_t)v->length);
    *place = (int64_t)p->n_texts;
    p->texts[p->n_texts] = (struct text){copy, v->length, (uint32_t)p->n_texts};
    p->n_texts++;
    return LEAT_OK;
}

static int put_value(void *user, size_t i, const struct leat_query_value *v, struct leat_error *error)
{
    const struct filling *f = user;
    struct leat_expr *e = f->e;
    e->types[i] = (uint8_t)v->type;
    if (v->type == LEAT_QUERY_INT || v->type == LEAT_QUERY_REAL)
        e->gives |= LEAT_EXPR_NUMERIC;
    if (v->type == LEAT_QUERY_INT)
        e->values[i].i = v->number;
    else if (v->type == LEAT_QUERY_REAL)
        e->values[i].d = v->real;
    else if (v->type == LEAT_QUERY_BLOB)
        return leat_fail(error, LEAT_E_INVALID, "bytes are not compared here");
    else if (v->type == LEAT_QUERY_STRING) {
        e->gives |= LEAT_EXPR_TEXT;
        return put_text(f->p, v, &e->values[i].i, error);
    }
    return LEAT_OK;
}

static enum leat_vector_kind kind_of(const struct leat_expr *e)
{
    for (uint32_t i = 1; i < e->table.n; i++)
        if (e->types[i] != e->types[0])
            return LEAT_VECTOR_MIXED;
    return e->types[0] == LEAT_QUERY_INT      ? LEAT_VECTOR_INTS
           : e->types[0] == LEAT_QUERY_REAL   ? LEAT_VECTOR_REALS
           : e->types[0] == LEAT_QUERY_STRING ? LEAT_VECTOR_TEXTS
                                              : LEAT_VECTOR_MIXED;
}

/* Whether the expression became a table. */
static bool make_table(struct planner *p, struct leat_expr *e)
{
    const struct leat_clause *c = p->shape->clause;
    struct leat_query_expression *x = NULL;
    struct leat_error error; /* the caller's only if it is one: what SQLite says of no row is none */
    struct filling f = {p, e};
    bool good = false;
    if (e->first >= e->last)
        return false;
    const size_t begin = c->tokens[e->first].begin, end = c->tokens[e->last - 1].end;
    int rc = leat_query_prepare(p->shape->sql, c->text + begin, end - begin, p->used, &x, &error);
    if (!rc && leat_table_find(&e->table, p->shape->columns, p->used, p->codes) && e->table.n <= p->n_rows &&
        e->table.n <= *p->places) {
        *p->places -= e->table.n; /* also of those that come to nothing: it bounds the time as well */
        e->types = leat_new_array(e->table.n, 1);
        e->values = leat_new_array(e->table.n, sizeof *e->values);
        e->gives = 0;
        rc = e->types && e->values ? leat_table_values(&e->table, x, put_value, &f, &error) : no_memory(&error);
        good = !rc;
        if (!good) {
            leat_free(e->types);
            leat_free(e->values);
            e->types = NULL;
            e->values = NULL;
        }
    }
    leat_query_finish(x);
    if (rc && rc != LEAT_E_INVALID) {
        p->rc = rc;
        if (p->error)
            *p->error = error;
    }
    if (good) {
        e->kind = LEAT_EXPR_TABLE;
        e->values_are = kind_of(e);
    }
    return good;
}

static bool plan(struct planner *p, uint32_t node);

/* Whether all operands can be computed. */
static bool plan_args(struct planner *p, const struct leat_expr *e)
{
    for (size_t i = 0; i < e->n_args; i++)
        if (!plan(p, e->args[i]))
            return false;
    return true;
}

/* What the operands from `from` on give, `by` apart: of each by-th one, LEAT_EXPR_NUMERIC and LEAT_EXPR_TEXT. */
static unsigned args_give(const struct planner *p, const struct leat_expr *e, size_t from, size_t by)
{
    unsigned gives = 0;
    for (size_t i = from; i < e->n_args; i += by)
        gives |= p->tree->at[e->args[i]].gives;
    return gives;
}

#define BOTH (LEAT_EXPR_NUMERIC | LEAT_EXPR_TEXT)

static bool plan_case(struct planner *p, struct leat_expr *e)
{
    const size_t first = e->of_base;
    unsigned conditions = e->of_base ? args_give(p, e, 0, e->n_args) : 0;
    e->gives = p->tree->at[e->args[e->n_args - 1]].gives;
    for (size_t i = first; i + 1 < e->n_args; i += 2) {
        conditions |= p->tree->at[e->args[i]].gives;
        e->gives |= p->tree->at[e->args[i + 1]].gives;
    }
    return e->of_base ? conditions != BOTH : !(conditions & LEAT_EXPR_TEXT);
}

/* Whether it may be the least integer, of which SQLite gives no abs(); not of what numbers of few bits can become. */
static bool may_be_least(const struct planner *p, const struct leat_expr *e)
{
    const struct leat_query_column *column = &p->shape->columns->at[e->column];
    switch (e->kind) {
    case LEAT_EXPR_COLUMN:
        return column->source == LEAT_QUERY_NUMBER && column->dtype == LEAT_I64;
    case LEAT_EXPR_TABLE:
        for (uint32_t i = 0; i < e->table.n; i++)
            if (e->types[i] == LEAT_QUERY_INT && e->values[i].i == INT64_MIN)
                return true;
        return false;
    default:
        return true;
    }
}

/* Whether it can be computed; notes what it gives. */
static bool plan(struct planner *p, uint32_t node)
{
    struct leat_expr *e = &p->tree->at[node];
    if (p->rc || (e->texts && make_table(p, e)))
        return !p->rc;
    if (p->rc || e->kind == LEAT_EXPR_OTHER || !plan_args(p, e))
        return false;
    const unsigned all = args_give(p, e, 0, 1);
    p->tree->may_fail |= e->kind == LEAT_EXPR_ABS && may_be_least(p, &p->tree->at[e->args[0]]);
    switch (e->kind) {
    case LEAT_EXPR_NULL:
        return true;
    case LEAT_EXPR_COLUMN:
        e->gives = LEAT_EXPR_NUMERIC;
        return p->shape->columns->at[e->column].source != LEAT_QUERY_TEXT &&
               p->shape->columns->at[e->column].source != LEAT_QUERY_BYTES;
    case LEAT_EXPR_COALESCE:
        e->gives = all;
        return true;
    case LEAT_EXPR_CASE:
        return plan_case(p, e);
    case LEAT_EXPR_NULLIF:
    case LEAT_EXPR_MAX:
    case LEAT_EXPR_MIN:
        e->gives = all;
        return all != BOTH;
    case LEAT_EXPR_COMPARE:
    case LEAT_EXPR_IS:
    case LEAT_EXPR_BETWEEN:
    case LEAT_EXPR_IN:
        e->gives = LEAT_EXPR_NUMERIC;
        return all != BOTH;
    default:
        e->gives = LEAT_EXPR_NUMERIC;
        return !(all & LEAT_EXPR_TEXT);
    }
}

/* ---- texts ----------------------------------------------------------------------------------- */

static int compare_texts(const void *left, const void *right)
{
    const struct text *a = left, *b = right;
    const uint64_t n = a->length < b->length ? a->length : b->length;
    const int order = memcmp(a->bytes, b->bytes, (size_t)n);
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

/* Places become those among the sorted texts; equal ones have the same. */
static int sort_texts(struct planner *p)
{
    uint32_t *ranks = leat_new_array(p->n_texts + 1, sizeof *ranks), rank = 0;
    if (!ranks)
        return no_memory(p->error);
    if (p->n_texts)
        qsort(p->texts, p->n_texts, sizeof *p->texts, compare_texts);
    for (size_t i = 0; i < p->n_texts; i++) {
        rank += i && compare_texts(&p->texts[i - 1], &p->texts[i]) != 0;
        ranks[p->texts[i].first] = rank;
    }
    for (size_t k = 0; k < p->tree->n; k++) {
        const struct leat_expr *e = &p->tree->at[k];
        for (uint32_t i = 0; e->kind == LEAT_EXPR_TABLE && i < e->table.n; i++)
            if (e->types[i] == LEAT_QUERY_STRING)
                e->values[i].i = ranks[e->values[i].i];
    }
    leat_free(ranks);
    return LEAT_OK;
}

int leat_tree_plan(struct leat_tree *tree, const struct leat_shape *shape, const struct leat_codes *const *codes,
                   uint64_t n_rows, uint64_t *room, bool *good, struct leat_error *error)
{
    struct planner p = {.tree = tree, .shape = shape, .codes = codes, .n_rows = n_rows, .places = room, .error = error};
    *good = false;
    if (!(p.used = leat_new_array(shape->columns->n + 1, sizeof *p.used)))
        return no_memory(error);
    *good = plan(&p, tree->root) && !(tree->at[tree->root].gives & LEAT_EXPR_TEXT);
    int rc = p.rc ? p.rc : *good ? sort_texts(&p) : LEAT_OK;
    for (size_t i = 0; i < p.n_texts; i++)
        leat_free(p.texts[i].bytes);
    leat_free(p.texts);
    leat_free(p.used);
    return rc;
}
