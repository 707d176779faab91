/*
 * A leaf as a tree of expressions, for those that are neither ranges nor one table (query_leaf.c):
 *
 *     CASE WHEN language LIKE 'z%' THEN length * 2 ELSE abs(length) END > 100
 *
 *           >
 *          / \
 *      CASE   100
 *      / | \
 *     T  *  abs        T: a table. What depends on columns of few values only is evaluated by SQLite, once for each
 *       / \   \           combination of their codes, whatever it is; a row is a look into the table.
 *  length  2   length
 *
 * All else is computed for 256 rows at a time by the rules of SQLite (query_vector.c). What is neither leaves the whole
 * leaf to SQLite, row by row. Texts are numbers here: places in the sorted list of all texts that the tables and
 * constants of the tree can give, so that they compare as the texts do.
 */
#ifndef LEAT_DATA_QUERY_TREE_H
#define LEAT_DATA_QUERY_TREE_H

#include "data/query_parse.h"

enum leat_expr_kind {
    LEAT_EXPR_NUMBER,
    LEAT_EXPR_NULL,
    LEAT_EXPR_COLUMN,
    LEAT_EXPR_TABLE,
    LEAT_EXPR_ADD,
    LEAT_EXPR_SUBTRACT,
    LEAT_EXPR_MULTIPLY,
    LEAT_EXPR_DIVIDE,
    LEAT_EXPR_REMAINDER,
    LEAT_EXPR_BIT_AND,
    LEAT_EXPR_BIT_OR,
    LEAT_EXPR_SHIFT_LEFT,
    LEAT_EXPR_SHIFT_RIGHT,
    LEAT_EXPR_POWER,
    LEAT_EXPR_MOD,
    LEAT_EXPR_NULLIF,
    LEAT_EXPR_MAX,
    LEAT_EXPR_MIN, /* up to here: of two; MAX and MIN of more */
    LEAT_EXPR_BIT_NOT,
    LEAT_EXPR_ABS,
    LEAT_EXPR_SIGN,
    LEAT_EXPR_ROUND,
    LEAT_EXPR_FLOOR,
    LEAT_EXPR_CEIL,
    LEAT_EXPR_TRUNC,
    LEAT_EXPR_SQRT,
    LEAT_EXPR_EXP,
    LEAT_EXPR_LN,
    LEAT_EXPR_CAST_INTEGER,
    LEAT_EXPR_CAST_REAL, /* up to here: of one */
    LEAT_EXPR_COMPARE,
    LEAT_EXPR_IS,
    LEAT_EXPR_NOT,
    LEAT_EXPR_AND,
    LEAT_EXPR_OR,
    LEAT_EXPR_BETWEEN,
    LEAT_EXPR_IN,
    LEAT_EXPR_CASE, /* condition, value, condition, value, ... else; `of_base`: the first is compared with each */
    LEAT_EXPR_COALESCE,
    LEAT_EXPR_OTHER /* only in a table */
};

enum { LEAT_EXPR_NUMERIC = 1, LEAT_EXPR_TEXT = 2 }; /* what an expression may give besides NULL */

/* Of one type, or any of them and NULL. */
enum leat_vector_kind { LEAT_VECTOR_INTS, LEAT_VECTOR_REALS, LEAT_VECTOR_TEXTS, LEAT_VECTOR_MIXED };

union leat_number {
    int64_t i; /* also the place of a text */
    double d;
};

struct leat_expr {
    enum leat_expr_kind kind;
    size_t first, last; /* its tokens; none: it does not stand in the text as it is */
    uint32_t *args;
    size_t n_args, room;
    enum leat_query_compare compare; /* COMPARE */
    bool of_base;                    /* CASE */
    bool texts;                      /* it or a part of it has a text, or is OTHER */
    unsigned gives;
    struct leat_query_value constant; /* NUMBER */
    size_t column;                    /* COLUMN */
    struct leat_query_table table;    /* TABLE: */
    uint8_t *types;                   /* of its places, enum leat_query_type */
    union leat_number *values;
    enum leat_vector_kind values_are;
};

struct leat_tree {
    struct leat_expr *at;
    size_t n, room;
    uint32_t root;
    bool may_fail; /* SQLite may give an error for a row: abs() of what may be the least integer */
};

/* Reads the tokens of a leaf that SQLite has accepted. NULL: what is not known here, or no memory. */
struct leat_tree *leat_tree_parse(struct leat_shape *shape);
void leat_tree_free(struct leat_tree *tree);
/* Makes the tables. *good: the tree can be evaluated. `codes`, `n_rows`, `room`: of leat_leaf_plan. NOMEM, CANCELLED.
 */
int leat_tree_plan(struct leat_tree *tree, const struct leat_shape *shape, const struct leat_codes *const *codes,
                   uint64_t n_rows, uint64_t *room, bool *good, struct leat_error *error);

/* ---- 256 rows (query_vector.c) --------------------------------------------------------------- */

#define LEAT_VECTOR_ROWS 256

/* Values of rows. */
struct leat_vector {
    enum leat_vector_kind kind;
    bool filled;                    /* a constant that was put here before */
    uint8_t type[LEAT_VECTOR_ROWS]; /* MIXED: enum leat_query_type */
    union leat_number at[LEAT_VECTOR_ROWS];
};

/* truth[i] of the n <= LEAT_VECTOR_ROWS rows of the reader's block from row `from` on. `room`: a vector for each
 * expression, zero at first, and kept for the next rows. *trouble: SQLite may give an error here, and must be asked. */
int leat_tree_evaluate(const struct leat_tree *tree, const struct leat_query_columns *columns,
                       struct leat_query_reader *reader, size_t from, size_t n, struct leat_vector *room,
                       uint8_t *truth, bool *trouble, struct leat_error *error);

/* a op b as SQLite computes it, for each kind from ADD to MOD. */
struct leat_query_value leat_number_compute(enum leat_expr_kind op, const struct leat_query_value *a,
                                            const struct leat_query_value *b);
/* Whether a compare b: enum leat_truth. Numbers, or texts. */
uint8_t leat_number_compare(enum leat_query_compare compare, const struct leat_query_value *a,
                            const struct leat_query_value *b);

#endif
