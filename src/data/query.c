/*
 * leat_dataset_where: from a clause to a view.
 *
 * The clause is checked, given to SQLite as a whole, taken apart, and each leaf gets its way (query_leaf.c). Then each
 * block of rows is a bitmap that goes through the tree: AND hands on the rows that are left, cheap leaves first, so
 * that SQLite sees only rows that the others could not decide; OR hands on those that are not in yet.
 *
 * A view of many of a data set's samples in their order is evaluated on the data set itself, whose columns lie in one
 * piece and have codes, and rows outside of the view are masked. Any other view is evaluated on its own rows.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/query.h"

#define MANY 8         /* a view of more than one sample in so many is evaluated on its base */
#define MIN_CODED 4096 /* with fewer rows, texts are read on demand */

struct query {
    struct leat_dataset *rows;         /* whose rows are evaluated */
    const struct leat_selection *mask; /* or NULL: only the ids of this set */
    struct leat_query_columns columns;
    struct leat_clause clause;
    struct leat_leaf *leaves;
    size_t n_leaves;
    const struct leat_codes **codes;
    uint64_t n_blocks;
    uint64_t *bits; /* of all rows: first the mask, then the result */
    struct leat_query_stop stop;
};

struct worker {
    struct leat_query_sql *sql;
    struct leat_query_expression **expressions; /* of leaves that went row by row */
    struct leat_query_stop *stop;
    bool asks;
    struct leat_query_reader *reader;
    uint32_t *rows;
    uint8_t *truth;
    uint64_t *scratch; /* two bitmaps for each depth of the tree */
    size_t n;          /* rows of the block */
};

/* ---- planning -------------------------------------------------------------------------------- */

static size_t number_leaves(struct leat_node *node, size_t next)
{
    if (node->kind == LEAT_NODE_LEAF)
        node->leaf = next++;
    for (size_t i = 0; i < node->n_children; i++)
        next = number_leaves(node->children[i], next);
    return next;
}

static int plan_leaves(struct query *q, const struct leat_node *node, struct leat_query_sql *sql,
                       struct leat_error *error)
{
    int rc = LEAT_OK;
    if (node->kind == LEAT_NODE_LEAF)
        rc =
            leat_leaf_plan(&q->leaves[node->leaf], &q->clause, node, sql, &q->columns, q->codes, q->rows->count, error);
    for (size_t i = 0; i < node->n_children && !rc; i++)
        rc = plan_leaves(q, node->children[i], sql, error);
    return rc;
}

/* The cost of a node: that of its most expensive leaf. */
static unsigned cost_of(const struct query *q, const struct leat_node *node)
{
    unsigned most = node->kind == LEAT_NODE_LEAF ? (unsigned)q->leaves[node->leaf].way : 0;
    for (size_t i = 0; i < node->n_children; i++) {
        const unsigned cost = cost_of(q, node->children[i]);
        most = cost > most ? cost : most;
    }
    return most;
}

/* Cheap operands first; equal ones stay in their order. */
static void sort_children(const struct query *q, struct leat_node *node)
{
    for (size_t i = 0; i < node->n_children; i++) {
        struct leat_node *child = node->children[i];
        const unsigned cost = cost_of(q, child);
        size_t k = i;
        for (; k && cost_of(q, node->children[k - 1]) > cost; k--)
            node->children[k] = node->children[k - 1];
        node->children[k] = child;
        sort_children(q, child);
    }
}

static void drop_leaves(struct query *q)
{
    for (size_t i = 0; q->leaves && i < q->n_leaves; i++)
        leat_leaf_destroy(&q->leaves[i]);
    leat_free(q->leaves);
    q->leaves = NULL;
    leat_clause_destroy(&q->clause);
}

static int take_apart(struct query *q, const char *text, bool split, struct leat_query_sql *sql,
                      struct leat_error *error)
{
    int rc = leat_clause_parse(&q->clause, text, split, error);
    if (rc)
        return rc;
    q->n_leaves = number_leaves(q->clause.root, 0);
    if (!(q->leaves = leat_new_array(q->n_leaves, sizeof *q->leaves)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
    rc = plan_leaves(q, q->clause.root, sql, error);
    if (!rc)
        sort_children(q, q->clause.root);
    return rc;
}

/* Codes of the text columns that the clause names. */
static int find_codes(struct query *q, const bool *used, struct leat_error *error)
{
    int rc = LEAT_OK;
    if (q->rows->selected || !(q->codes = leat_new_array(q->columns.n + 1, sizeof *q->codes)))
        return q->rows->selected ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
    for (size_t i = 0; i < q->columns.n && !rc && q->rows->count >= MIN_CODED; i++)
        if (used[i] && q->columns.at[i].source == LEAT_QUERY_TEXT)
            rc = leat_codes_of(q->rows, q->columns.at[i].field, &q->codes[i], error);
    return rc;
}

static int plan(struct query *q, const char *text, struct leat_error *error)
{
    struct leat_query_sql *sql = NULL;
    struct leat_query_expression *whole = NULL;
    bool *used = leat_new_array(q->columns.n + 1, sizeof *used);
    int rc = used ? leat_query_sql_new(&q->columns, q->rows, &q->stop, true, &sql, error)
                  : leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
    if (!rc)
        rc = leat_query_prepare(sql, text, strlen(text), used, &whole, error);
    if (!rc)
        rc = leat_dataset_refresh(q->rows, error);
    if (!rc)
        rc = find_codes(q, used, error);
    if (!rc) {
        struct leat_error said;
        rc = take_apart(q, text, true, sql, &said);
        if (rc == LEAT_E_INVALID) { /* some leaf is no expression: words were used in another way than is known here */
            drop_leaves(q);
            rc = take_apart(q, text, false, sql, &said);
        }
        if (rc && error)
            *error = said;
    }
    leat_query_finish(whole);
    leat_query_sql_free(sql);
    leat_free(used);
    return rc;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static int get_value(void *user, size_t column, uint32_t row, struct leat_query_value *out, struct leat_error *error)
{
    return leat_query_reader_value(user, column, row, out, error);
}

static int evaluate_rows(const struct leat_leaf *leaf, struct leat_query_expression *x, struct worker *w,
                         const uint64_t *mask, uint64_t *out, struct leat_error *error)
{
    const uint8_t wanted = leaf->negated ? LEAT_FALSE : LEAT_TRUE;
    size_t n = 0;
    memset(out, 0, LEAT_QUERY_WORDS * sizeof *out);
    for (size_t i = 0; i < LEAT_QUERY_WORDS; i++)
        for (uint64_t word = mask[i]; word; word &= word - 1)
            w->rows[n++] = (uint32_t)(i * 64 + (unsigned)__builtin_ctzll(word));
    if (!n)
        return LEAT_OK;
    leat_query_reader_expect(w->reader, w->rows, n);
    int rc = leat_query_evaluate(x, w->rows, n, get_value, w->reader, w->truth, error);
    for (size_t i = 0; i < n && !rc; i++)
        out[w->rows[i] >> 6] |= (uint64_t)(w->truth[i] == wanted) << (w->rows[i] & 63);
    return rc;
}

static bool is_empty(const uint64_t *bits)
{
    uint64_t any = 0;
    for (size_t i = 0; i < LEAT_QUERY_WORDS; i++)
        any |= bits[i];
    return !any;
}

/* For SQLite, when the first row needs it. */
static int prepare_leaf(const struct query *q, struct worker *w, size_t leaf, struct leat_error *error)
{
    int rc = LEAT_OK;
    if (w->expressions[leaf])
        return LEAT_OK;
    if (!w->sql)
        rc = leat_query_sql_new(&q->columns, q->rows, w->stop, w->asks, &w->sql, error);
    return rc ? rc
              : leat_query_prepare(w->sql, q->leaves[leaf].text, q->leaves[leaf].length, NULL, &w->expressions[leaf],
                                   error);
}

/* Those rows of `mask` for which the node holds. `out` and `mask` may be the same. */
static int evaluate(const struct query *q, struct worker *w, const struct leat_node *node, unsigned depth,
                    const uint64_t *mask, uint64_t *out, struct leat_error *error)
{
    uint64_t *left = w->scratch + (size_t)depth * 2 * LEAT_QUERY_WORDS, *result = left + LEAT_QUERY_WORDS;
    const size_t bytes = LEAT_QUERY_WORDS * sizeof *out;
    int rc = LEAT_OK;
    if (node->kind == LEAT_NODE_LEAF) {
        const struct leat_leaf *leaf = &q->leaves[node->leaf];
        if (leaf->way != LEAT_LEAF_ROWS)
            rc = leat_leaf_evaluate(leaf, w->reader, w->n, mask, result, error);
        else if (!(rc = prepare_leaf(q, w, node->leaf, error)))
            rc = evaluate_rows(leaf, w->expressions[node->leaf], w, mask, result, error);
        memmove(out, result, bytes);
        return rc;
    }
    memcpy(left, mask, bytes);
    memset(result, 0, bytes);
    for (size_t i = 0; i < node->n_children && !rc && !is_empty(left); i++) {
        if (node->kind == LEAT_NODE_AND) {
            rc = evaluate(q, w, node->children[i], depth + 1, left, left, error);
            continue;
        }
        uint64_t *child = w->scratch + (size_t)(depth + 1) * 2 * LEAT_QUERY_WORDS + LEAT_QUERY_WORDS;
        rc = evaluate(q, w, node->children[i], depth + 1, left, child, error);
        for (size_t k = 0; k < LEAT_QUERY_WORDS; k++) {
            result[k] |= child[k];
            left[k] &= ~child[k];
        }
    }
    memmove(out, node->kind == LEAT_NODE_AND ? left : result, bytes);
    return rc;
}

static int worker_run(void *user, void *state, uint64_t block, struct leat_error *error)
{
    const struct query *q = user;
    struct worker *w = state;
    const uint64_t begin = block * LEAT_QUERY_ROWS, left = q->rows->count - begin;
    uint64_t *bits = q->bits + block * LEAT_QUERY_WORDS;
    w->n = left < LEAT_QUERY_ROWS ? (size_t)left : LEAT_QUERY_ROWS;
    if (!q->mask) {
        memset(bits, 0xff, w->n / 64 * sizeof *bits);
        if (w->n % 64)
            bits[w->n / 64] = (UINT64_C(1) << w->n % 64) - 1;
    }
    if (is_empty(bits))
        return LEAT_OK;
    leat_query_reader_move(w->reader, begin, w->n);
    return evaluate(q, w, q->clause.root, 0, bits, bits, error);
}

static int worker_start(void *user, bool asks, void **state, struct leat_error *error)
{
    struct query *q = user;
    struct worker *w = leat_new(struct worker);
    *state = w;
    if (!w)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
    w->reader = leat_query_reader_new(q->rows, &q->columns);
    w->rows = leat_new_array(LEAT_QUERY_ROWS, sizeof *w->rows);
    w->truth = leat_new_array(LEAT_QUERY_ROWS, 1);
    w->scratch = leat_new_array((size_t)(q->clause.depth + 2) * 2 * LEAT_QUERY_WORDS, sizeof *w->scratch);
    w->expressions = leat_new_array(q->n_leaves, sizeof(struct leat_query_expression *));
    if (!w->reader || !w->rows || !w->truth || !w->scratch || !w->expressions)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
    leat_query_reader_use(w->reader, q->codes);
    w->stop = &q->stop;
    w->asks = asks;
    return LEAT_OK;
}

static void worker_end(void *user, void *state)
{
    const struct query *q = user;
    struct worker *w = state;
    if (!w)
        return;
    for (size_t i = 0; w->expressions && i < q->n_leaves; i++)
        leat_query_finish(w->expressions[i]);
    leat_query_sql_free(w->sql);
    leat_query_reader_free(w->reader);
    leat_free(w->expressions);
    leat_free(w->rows);
    leat_free(w->truth);
    leat_free(w->scratch);
    leat_free(w);
}

/* ---- the selection --------------------------------------------------------------------------- */

static void set_bits(uint64_t *bits, uint64_t begin, uint64_t count)
{
    while (count) {
        const uint64_t in = begin & 63, ones = count < 64 - in ? count : 64 - in;
        bits[begin >> 6] |= (ones == 64 ? UINT64_MAX : (UINT64_C(1) << ones) - 1) << in;
        begin += ones;
        count -= ones;
    }
}

/* The selection of the rows whose bits are set. For a whole data set, whose rows are its ids, blocks are chunks. */
static int collect(const struct query *q, struct leat_selection *s, struct leat_error *error)
{
    const uint64_t n = q->rows->count;
    int rc = LEAT_OK;
    if (!q->rows->selected) {
        for (uint64_t block = 0; block < q->n_blocks && !rc; block++)
            rc = leat_packed_add(&s->packed, block, q->bits + block * LEAT_QUERY_WORDS);
        s->is_packed = true;
        s->count = s->packed.count;
        return rc ? leat_fail(error, rc, "no memory for a view of %" PRIu64 " samples", s->count) : LEAT_OK;
    }
    for (uint64_t at = 0; at < n && !rc;) {
        uint64_t word = q->bits[at >> 6] >> (at & 63);
        if (!word) {
            at = (at | 63) + 1;
            continue;
        }
        at += (unsigned)__builtin_ctzll(word);
        uint64_t end = at;
        while (end < n && q->bits[end >> 6] >> (end & 63) & 1)
            end++;
        rc = leat_selection_push_view(s, q->rows, at, end, 0);
        at = end;
    }
    return rc ? leat_fail(error, rc, "no memory for a view of %zu runs of samples", s->n_runs) : LEAT_OK;
}

static int run(struct query *q, const char *text, struct leat_selection *s, struct leat_error *error)
{
    const struct leat_query_job job = {q, worker_start, worker_run, worker_end};
    q->n_blocks = q->rows->count / LEAT_QUERY_ROWS + (q->rows->count % LEAT_QUERY_ROWS != 0);
    int rc = leat_query_columns_init(&q->columns, q->rows, error);
    if (!rc)
        rc = plan(q, text, error);
    if (!rc && !(q->bits = leat_new_array((size_t)q->n_blocks * LEAT_QUERY_WORDS + 1, sizeof *q->bits)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a query over %" PRIu64 " samples", q->rows->count);
    if (!rc && q->mask) {
        struct leat_selection_cursor cursor = {0};
        uint64_t begin, count;
        while (leat_selection_next(q->mask, &cursor, &begin, &count))
            set_bits(q->bits, begin, count);
    }
    if (!rc)
        rc = leat_query_run(&job, q->n_blocks, &q->stop, error);
    return rc ? rc : collect(q, s, error);
}

int leat_dataset_where(struct leat_dataset *d, const char *clause, struct leat_dataset **out, struct leat_error *error)
{
    struct query q = {0};
    struct leat_selection s = {0};
    const bool on_base = d->selected && d->selection.ascending && d->count > d->base->count / MANY;
    *out = NULL;
    int rc = leat_query_check_text(clause, error);
    if (!rc)
        rc = on_base ? leat_dataset_make(leat_base_retain(d->base), NULL, NULL, &q.rows, error) : LEAT_OK;
    if (!rc) {
        q.rows = on_base ? q.rows : leat_dataset_retain(d);
        q.mask = on_base ? &d->selection : NULL;
        rc = run(&q, clause, &s, error);
    }
    if (rc)
        leat_selection_destroy(&s);
    else
        rc = leat_dataset_made_view(d, &s, json_pack("[s, s]", "where", clause), out, error);
    drop_leaves(&q);
    leat_free(q.codes);
    leat_query_columns_destroy(&q.columns);
    leat_free(q.bits);
    leat_dataset_release(q.rows);
    return rc;
}
