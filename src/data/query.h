/*
 * The common part of the files of a query: leat_dataset_where.
 *
 *     clause  --query_clause.c-->  tree of AND and OR over leaves      (only its shape: SQLite has checked the text)
 *     leaf    --query_leaf.c-->    one of three ways to evaluate it:
 *               ranges   a number compared with constants: loops over the column  (query_ranges.c)
 *               table    columns of few distinct values: SQLite is asked once for each combination of them, then a
 *                        table is looked up for each row           (query_codes.c)
 *               rows     anything else: SQLite is asked for each row that is left  (query_sql.c)
 *     rows    65536 at a time, on any thread; each such block gives a bitmap       (query.c, packed.h)
 *
 * SQLite decides the truth: ranges are made by its comparison of numbers, tables and rows by its evaluation of text.
 */
#ifndef LEAT_DATA_QUERY_H
#define LEAT_DATA_QUERY_H

#include "data/internal.h"

struct leat_query_ranges; /* query_ranges.h */

#define LEAT_QUERY_ROWS 65536 /* of a block; so many ids has a chunk of leat_packed */
#define LEAT_QUERY_NAME 80    /* of a column: a field of 63 bytes, a dot, and more */
#define LEAT_QUERY_WORDS (LEAT_QUERY_ROWS / 64)

/* Whether the text can be put between brackets and stay one expression: strings, comments and brackets end in it, and
 * no character ends the statement. INVALID. */
int leat_query_check_text(const char *clause, struct leat_error *error);

/* ---- columns --------------------------------------------------------------------------------- */

enum leat_query_source {
    LEAT_QUERY_NUMBER, /* a scalar of `dtype` */
    LEAT_QUERY_TEXT,   /* str; json, whose null is NULL */
    LEAT_QUERY_BYTES,
    LEAT_QUERY_LENGTH, /* elements of a value whose first dimension varies: "tokens.length" */
    LEAT_QUERY_ID,     /* the sample's id */
    LEAT_QUERY_VALID   /* whether there is a value of the field: a column without a name */
};

struct leat_query_column {
    char name[LEAT_QUERY_NAME];
    enum leat_query_source source;
    size_t field;
    enum leat_dtype dtype; /* U64 of lengths, I64 of ids */
    bool json;
    /* 1 + the column "NAME.valid" that leat derives, or, for a field in which samples may have no value, the column
     * VALID; 0 if it has none. Rows with 0 there are NULL. */
    size_t valid;
    bool same; /* another field's name differs only in case */
};

struct leat_query_columns {
    struct leat_query_column *at;
    size_t n, n_named; /* those without a name are the last ones */
};

int leat_query_columns_init(struct leat_query_columns *columns, const struct leat_dataset *dataset,
                            struct leat_error *error);
void leat_query_columns_destroy(struct leat_query_columns *columns);
/* Fills `error`: there is no column of that name; it names the likely one, or the reason why the field is none.
 * INVALID. */
int leat_query_no_column(const struct leat_query_columns *columns, const struct leat_dataset *dataset, const char *name,
                         struct leat_error *error);

/* ---- values ---------------------------------------------------------------------------------- */

enum leat_query_type { LEAT_QUERY_NULL, LEAT_QUERY_INT, LEAT_QUERY_REAL, LEAT_QUERY_STRING, LEAT_QUERY_BLOB };

struct leat_query_value {
    enum leat_query_type type;
    int64_t number;
    double real;
    const void *bytes; /* stay until the request for the next row */
    uint64_t length;
};

/* A number of a column as SQLite sees it: u64 from 2^63 on as a double, NaN as NULL. */
struct leat_query_value leat_query_number(enum leat_dtype dtype, const void *value);

/* A text or bytes of a column. */
struct leat_query_value leat_query_text(const struct leat_query_column *column, const void *bytes, uint64_t length);

/* Reads a block of rows of a data set for one thread, column by column on demand. */
struct leat_query_reader;
struct leat_query_reader *leat_query_reader_new(struct leat_dataset *dataset, const struct leat_query_columns *columns);
void leat_query_reader_free(struct leat_query_reader *reader);
/* Goes to the rows at positions [begin, begin + n), n <= LEAT_QUERY_ROWS. */
void leat_query_reader_move(struct leat_query_reader *reader, uint64_t begin, size_t n);
/* The numbers of a column (NUMBER, LENGTH, ID) in the block: n values of its dtype, valid until the next move. */
int leat_query_reader_numbers(struct leat_query_reader *reader, size_t column, const void **data,
                              struct leat_error *error);
/* The column's values from row `from` of the block on, in place, if they lie there one behind the other: *got of them.
 * Read them inside leat_guarded. 0: they do not, use leat_query_reader_numbers. */
int leat_query_reader_span(struct leat_query_reader *reader, size_t column, size_t from, const void **data, size_t *got,
                           struct leat_error *error);
/* Gives the reader the codes of its text columns, [columns], of a whole data set. */
void leat_query_reader_use(struct leat_query_reader *reader, const struct leat_codes *const *codes);
/* Rows of the block in ascending order that come next: their texts are read together. They stay the caller's. */
void leat_query_reader_expect(struct leat_query_reader *reader, const uint32_t *rows, size_t n);
int leat_query_reader_value(struct leat_query_reader *reader, size_t column, uint32_t row, struct leat_query_value *out,
                            struct leat_error *error);

/* ---- blocks on threads ------------------------------------------------------------------------- */

/* Whether the query is to stop: all its threads read it; only the one that called leat asks whether it was
 * interrupted. */
struct leat_query_stop {
    _Atomic bool stopped;
};

/* Calls `run` for blocks 0 to n - 1, each once, on the calling thread and as many others as there are cores. Each
 * thread has a state from `start` (`asks`: it is the calling one). Blocks begin in their order; the error is that of
 * the lowest block that failed, and ends the others. CANCELLED: leat_set_interrupt, or `stop` was set by someone. */
struct leat_query_job {
    void *user;
    int (*start)(void *user, bool asks, void **state, struct leat_error *error);
    int (*run)(void *user, void *state, uint64_t block, struct leat_error *error);
    void (*end)(void *user, void *state); /* also of a state that `start` left when it failed */
};
int leat_query_run(const struct leat_query_job *job, uint64_t n, struct leat_query_stop *stop,
                   struct leat_error *error);

/* ---- codes ----------------------------------------------------------------------------------- */

/* A text column of a base, each value of which is a number into a list of few texts. Immutable. */
struct leat_codes {
    unsigned width;    /* of a code: 1 or 2 bytes; 0: the column has too many texts, or too long ones */
    uint32_t n_values; /* at most 65536 */
    struct leat_code_text {
        uint8_t *bytes;
        uint32_t length;
    } * values;
    void *codes;      /* one per id */
    uint64_t changes; /* leat_dataset_changes when they were made */
};
/* The codes of a field of a whole data set, made now if no query has; *out is NULL if it has none. They live as long as
 * the base. */
int leat_codes_of(struct leat_dataset *whole, size_t field, const struct leat_codes **out, struct leat_error *error);

/* ---- clauses --------------------------------------------------------------------------------- */

enum leat_node_kind { LEAT_NODE_AND, LEAT_NODE_OR, LEAT_NODE_LEAF };

/* A clause as AND and OR over leaves. NOT has been moved down to the leaves: NOT (a AND b) is NOT a OR NOT b, also if a
 * or b is unknown. */
struct leat_node {
    enum leat_node_kind kind;
    bool negated;      /* of a leaf: rows where it is false */
    size_t begin, end; /* of a leaf: the place of its text in the clause */
    size_t first_token, last_token;
    struct leat_node **children;
    size_t n_children, room;
    size_t leaf; /* its number */
};

struct leat_token {
    enum leat_token_kind {
        LEAT_TOKEN_WORD,
        LEAT_TOKEN_NAME,
        LEAT_TOKEN_STRING,
        LEAT_TOKEN_NUMBER,
        LEAT_TOKEN_SIGN
    } kind;
    size_t begin, end;
    size_t match; /* of a bracket: its other one */
};

struct leat_clause {
    const char *text;
    struct leat_token *tokens;
    size_t n_tokens;
    struct leat_node *root;
    unsigned depth;
};
/* For a text that leat_query_check_text and SQLite have accepted. `split`: false makes it one leaf. */
int leat_clause_parse(struct leat_clause *clause, const char *text, bool split, struct leat_error *error);
void leat_clause_destroy(struct leat_clause *clause);
/* Whether a token is that word or sign, without regard to case. */
bool leat_token_is(const struct leat_clause *clause, size_t token, const char *text);

/* ---- SQLite ---------------------------------------------------------------------------------- */

enum leat_truth { LEAT_FALSE, LEAT_TRUE, LEAT_UNKNOWN };

/* Gives the value of a column in one of the requested rows. */
typedef int (*leat_query_get)(void *user, size_t column, uint32_t row, struct leat_query_value *out,
                              struct leat_error *error);

/* A connection, with the columns as the virtual table "samples". One thread. */
struct leat_query_sql;
int leat_query_sql_new(const struct leat_query_columns *columns, const struct leat_dataset *dataset,
                       struct leat_query_stop *stop, bool asks, struct leat_query_sql **out, struct leat_error *error);
void leat_query_sql_free(struct leat_query_sql *sql);

/* An expression, prepared. `used`, of one bool per column, receives which ones it reads; may be NULL. */
struct leat_query_expression;
int leat_query_prepare(struct leat_query_sql *sql, const char *text, size_t length, bool *used,
                       struct leat_query_expression **out, struct leat_error *error);
void leat_query_finish(struct leat_query_expression *expression);
/* truth[i]: the truth of row rows[i]. */
int leat_query_evaluate(struct leat_query_expression *expression, const uint32_t *rows, size_t n, leat_query_get get,
                        void *user, uint8_t *truth, struct leat_error *error);
/* The number that an expression without columns is, or NULL if it is none. INVALID: it reads a column. */
int leat_query_constant(struct leat_query_expression *expression, struct leat_query_value *out,
                        struct leat_error *error);

#define LEAT_TABLE_COLUMNS 4

/* Columns of few values, and how far apart their codes stand in a table with a place for each combination. */
struct leat_query_table {
    struct leat_query_part {
        size_t column;
        unsigned width;                 /* bytes of a code */
        const struct leat_codes *codes; /* NULL: the numbers are codes */
        uint32_t stride, n;
    } parts[LEAT_TABLE_COLUMNS];
    size_t n_parts;
    uint32_t n;
    const struct leat_query_columns *columns;
};

/* The codes of the rows of a reader's block. */
int leat_query_reader_codes(struct leat_query_reader *reader, const struct leat_query_part *part, const void **codes,
                            struct leat_error *error);

/* ---- leaves ---------------------------------------------------------------------------------- */

/* Cheap ones first. */
enum leat_leaf_way { LEAT_LEAF_RANGES, LEAT_LEAF_TABLE, LEAT_LEAF_ROWS };

/* The way a leaf is evaluated. Its truth is that of its text; `negated` rows are those where it is false. */
struct leat_leaf {
    enum leat_leaf_way way;
    bool negated;
    const char *text;
    size_t length;
    const struct leat_query_columns *columns;
    struct leat_query_ranges *ranges; /* RANGES: of `column` */
    size_t column;
    size_t valid;                  /* as that of the column */
    struct leat_query_table table; /* TABLE */
    uint8_t *truth;                /* 1: rows with these codes are in the result */
};

/* Chooses the way of a leaf; `tokens` of the clause are its text. `codes`: for each column, or NULL if the rows are not
 * those of a whole data set. `n_rows`: so many rows there are. */
int leat_leaf_plan(struct leat_leaf *leaf, const struct leat_clause *clause, const struct leat_node *node,
                   struct leat_query_sql *sql, const struct leat_query_columns *columns,
                   const struct leat_codes *const *codes, uint64_t n_rows, struct leat_error *error);
void leat_leaf_destroy(struct leat_leaf *leaf);
/* Evaluates it for the n rows of the reader's block, those of `mask`: bits of `out`; the others are 0. It is not called
 * for ROWS.
 */
int leat_leaf_evaluate(const struct leat_leaf *leaf, struct leat_query_reader *reader, size_t n, const uint64_t *mask,
                       uint64_t *out, struct leat_error *error);

#endif
