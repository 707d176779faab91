/*
 * SQLite, as far as a query uses it: a connection in memory with one virtual table, "samples", whose columns are those
 * of the data set, and expressions over a row of it.
 *
 *     SELECT leat_truth((\n<expression>\n)) FROM samples
 *
 * leat_truth is an aggregate function, called for each row: one step evaluates all requested rows, which takes two
 * thirds of the time of a step for each.
 *
 * The expression comes from anyone. Its text is checked first: brackets must match, and no character may end the
 * statement or hide its end. The authorizer then allows columns of this table and functions that always give the same
 * for the same arguments, and nothing else: no second SELECT, so no loops and no other tables; no writing, attaching or
 * loading. Limits bound memory. Matching patterns, which may take long, is ours (query_like.c), and the progress
 * handler stops all else.
 */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/query.h"
#include "data/query_like.h"
#include "io/interrupt.h"

#define TRUTH "leat_truth"
#define PREFIX "SELECT " TRUTH "((\n"
#define SUFFIX "\n)) FROM samples"
#define FP_DIGITS 1023          /* SQLITE_DBCONFIG_FP_DIGITS: of a float as text, 17 from SQLite 3.53 on, 15 before */
#define OPS_BETWEEN_LOOKS 20000 /* of SQLite's machine: well below a millisecond */
#define MOST_BYTES (32 << 20)   /* of a value that an expression makes */

struct leat_query_sql {
    sqlite3 *db;
    const struct leat_query_columns *columns;
    const struct leat_dataset *dataset;
    struct leat_query_stop *stop;
    bool asks;
    struct leat_query_look look;
    /* of the expression being prepared */
    unsigned selects, truths;
    char refused[160];
    bool *used;
    /* of the one being evaluated */
    const uint32_t *rows;
    size_t n, at;
    leat_query_get get;
    void *user;
    uint8_t *truth;
    struct leat_query_value *value; /* of the last row, or NULL */
    int rc;                         /* of `get` */
    struct leat_error error;
};

struct leat_query_expression {
    struct leat_query_sql *sql;
    sqlite3_stmt *statement;
};

/* ---- the virtual table ----------------------------------------------------------------------- */

struct table {
    sqlite3_vtab base;
    struct leat_query_sql *sql;
};

static const char *type_of(const struct leat_query_column *c)
{
    if (c->source == LEAT_QUERY_TEXT)
        return "TEXT";
    if (c->source == LEAT_QUERY_BYTES)
        return "BLOB";
    return c->dtype == LEAT_F16 || c->dtype == LEAT_BF16 || c->dtype == LEAT_F32 || c->dtype == LEAT_F64 ? "REAL"
                                                                                                         : "INTEGER";
}

static int table_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out, char **message)
{
    struct leat_query_sql *s = aux;
    sqlite3_str *text = sqlite3_str_new(db);
    sqlite3_str_appendall(text, "CREATE TABLE samples(");
    for (size_t i = 0; i < s->columns->n_named; i++)
        sqlite3_str_appendf(text, "%s\"%w\" %s", i ? ", " : "", s->columns->at[i].name, type_of(&s->columns->at[i]));
    sqlite3_str_appendall(text, ")");
    char *made = sqlite3_str_finish(text);
    if (!made)
        return SQLITE_NOMEM;
    int rc = sqlite3_declare_vtab(db, made);
    sqlite3_free(made);
    if (rc)
        return rc;
    struct table *t = sqlite3_malloc(sizeof *t);
    if (!t)
        return SQLITE_NOMEM;
    memset(t, 0, sizeof *t);
    t->sql = s;
    *out = &t->base;
    return SQLITE_OK;
}

static int table_disconnect(sqlite3_vtab *table)
{
    sqlite3_free(table);
    return SQLITE_OK;
}

static int table_best_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
    info->estimatedCost = 1e6;
    return SQLITE_OK;
}

static int cursor_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    *out = sqlite3_malloc(sizeof **out);
    if (!*out)
        return SQLITE_NOMEM;
    memset(*out, 0, sizeof **out);
    return SQLITE_OK;
}

static int cursor_close(sqlite3_vtab_cursor *cursor)
{
    sqlite3_free(cursor);
    return SQLITE_OK;
}

static struct leat_query_sql *sql_of(const sqlite3_vtab_cursor *cursor)
{
    return ((struct table *)cursor->pVtab)->sql;
}

static int cursor_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int argc, sqlite3_value **argv)
{
    sql_of(cursor)->at = 0;
    return SQLITE_OK;
}

static int cursor_next(sqlite3_vtab_cursor *cursor)
{
    sql_of(cursor)->at++;
    return SQLITE_OK;
}

static int cursor_eof(sqlite3_vtab_cursor *cursor)
{
    const struct leat_query_sql *s = sql_of(cursor);
    return s->at >= s->n;
}

static int cursor_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column)
{
    struct leat_query_sql *s = sql_of(cursor);
    struct leat_query_value v = {.type = LEAT_QUERY_NULL};
    s->rc = s->get(s->user, (size_t)column, s->rows[s->at], &v, &s->error);
    if (s->rc) {
        sqlite3_result_error(context, "reading failed", -1);
        return SQLITE_ERROR;
    }
    switch (v.type) {
    case LEAT_QUERY_NULL:
        sqlite3_result_null(context);
        break;
    case LEAT_QUERY_INT:
        sqlite3_result_int64(context, v.number);
        break;
    case LEAT_QUERY_REAL:
        sqlite3_result_double(context, v.real);
        break;
    case LEAT_QUERY_STRING:
        sqlite3_result_text64(context, v.bytes, v.length, SQLITE_TRANSIENT, SQLITE_UTF8);
        break;
    case LEAT_QUERY_BLOB:
        sqlite3_result_blob64(context, v.bytes, v.length, SQLITE_TRANSIENT);
        break;
    }
    return SQLITE_OK;
}

static int cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *row)
{
    *row = (sqlite3_int64)sql_of(cursor)->at;
    return SQLITE_OK;
}

static const sqlite3_module module = {.xConnect = table_connect,
                                      .xBestIndex = table_best_index,
                                      .xDisconnect = table_disconnect,
                                      .xOpen = cursor_open,
                                      .xClose = cursor_close,
                                      .xFilter = cursor_filter,
                                      .xNext = cursor_next,
                                      .xEof = cursor_eof,
                                      .xColumn = cursor_column,
                                      .xRowid = cursor_rowid};

/* ---- the allowed parts ----------------------------------------------------------------------- */

/* Functions whose result follows from their arguments, in memory that these bound. */
static const char *const functions[] = {
    "abs",          "char",      "coalesce",   "glob",     "hex",        "ifnull",
    "iif",          "instr",     "length",     "like",     "likelihood", "likely",
    "lower",        "ltrim",     "max",        "min",      "nullif",     "quote",
    "replace",      "round",     "rtrim",      "sign",     "substr",     "substring",
    "trim",         "typeof",    "unicode",    "unlikely", "upper",      "json_array_length",
    "json_extract", "json_type", "json_valid", "->",       "->>",        "acos",
    "acosh",        "asin",      "asinh",      "atan",     "atan2",      "atanh",
    "ceil",         "ceiling",   "cos",        "cosh",     "degrees",    "exp",
    "floor",        "ln",        "log",        "log10",    "log2",       "mod",
    "pi",           "pow",       "power",      "radians",  "sin",        "sinh",
    "sqrt",         "tan",       "tanh",       "trunc"};

#define REFUSED "the function %.60s is refused: only those whose result follows from their arguments are allowed"

static bool allowed_function(const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!sqlite3_stricmp(name, functions[i]))
            return true;
    return false;
}

static int refuse(struct leat_query_sql *s, const char *format, const char *what)
{
    if (!*s->refused)
        snprintf(s->refused, sizeof s->refused, format, what);
    return SQLITE_DENY;
}

static int authorize(void *user, int action, const char *a, const char *b, const char *database, const char *inner)
{
    struct leat_query_sql *s = user;
    if (action == SQLITE_SELECT)
        return s->selects++ ? refuse(s,
                                     "a SELECT within the clause is refused: it is one expression over the columns "
                                     "of a sample%s",
                                     "")
                            : SQLITE_OK;
    if (action == SQLITE_FUNCTION)
        return allowed_function(b) || (!strcmp(b, TRUTH) && !s->truths++) ? SQLITE_OK : refuse(s, REFUSED, b);
    if (action != SQLITE_READ || sqlite3_stricmp(a, "samples") != 0)
        return refuse(s, "the clause is refused: it is one expression over the columns of a sample%s", "");
    for (size_t i = 0; i < s->columns->n; i++)
        if (!sqlite3_stricmp(b, s->columns->at[i].name)) {
            if (s->used)
                s->used[i] = true;
            return SQLITE_OK;
        }
    return !*b ? SQLITE_OK : refuse(s, "there is no column \"%.60s\"", b);
}

/* As SQLite takes the value of a WHERE clause. */
static enum leat_truth truth_of(sqlite3_value *v)
{
    switch (sqlite3_value_type(v)) {
    case SQLITE_NULL:
        return LEAT_UNKNOWN;
    case SQLITE_INTEGER:
        return sqlite3_value_int64(v) ? LEAT_TRUE : LEAT_FALSE;
    default:
        return sqlite3_value_double(v) != 0 ? LEAT_TRUE : LEAT_FALSE;
    }
}

static void note_truth(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    struct leat_query_sql *s = sqlite3_user_data(context);
    const int type = sqlite3_value_type(argv[0]);
    s->truth[s->at] = (uint8_t)truth_of(argv[0]);
    if (s->value && type == SQLITE_INTEGER)
        *s->value = (struct leat_query_value){.type = LEAT_QUERY_INT, .number = sqlite3_value_int64(argv[0])};
    else if (s->value && type == SQLITE_FLOAT)
        *s->value = (struct leat_query_value){.type = LEAT_QUERY_REAL, .real = sqlite3_value_double(argv[0])};
}

static void end_truths(sqlite3_context *context) {}

static int look(void *user)
{
    struct leat_query_sql *s = user;
    if (s->asks && leat_io_interrupted())
        atomic_store(&s->stop->stopped, true);
    return atomic_load(&s->stop->stopped);
}

/* ---- connections ----------------------------------------------------------------------------- */

/* lower and upper change ASCII, as SQLite's own do unless it was built with ICU, whose know all letters. */
static void change_case(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    const char *first = sqlite3_user_data(context);
    const unsigned char *text = sqlite3_value_text(argv[0]);
    const int n = sqlite3_value_bytes(argv[0]);
    char *out = text ? sqlite3_malloc(n + 1) : NULL;
    if (text && !out)
        sqlite3_result_error_nomem(context);
    for (int i = 0; out && i < n; i++)
        out[i] = (char)(text[i] >= *first && text[i] < *first + 26 ? text[i] ^ ('a' ^ 'A') : text[i]);
    if (out)
        sqlite3_result_text(context, out, n, sqlite3_free);
}

/* Functions that SQLite would otherwise do in another way from build to build, or in time without a bound. */
static int add_functions(struct leat_query_sql *s)
{
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    int rc = leat_query_like_add(s->db, &s->look);
    if (!rc)
        rc = sqlite3_create_function_v2(s->db, "lower", 1, flags, "A", change_case, NULL, NULL, NULL);
    if (!rc)
        rc = sqlite3_create_function_v2(s->db, "upper", 1, flags, "a", change_case, NULL, NULL, NULL);
    if (!rc)
        rc = sqlite3_create_function_v2(s->db, TRUTH, 1, SQLITE_UTF8, s, NULL, note_truth, end_truths, NULL);
    return rc;
}

static const struct {
    int what, most;
} limits[] = {
    {SQLITE_LIMIT_LENGTH, MOST_BYTES}, {SQLITE_LIMIT_SQL_LENGTH, 4 << 20}, {SQLITE_LIMIT_ATTACHED, 0},
    {SQLITE_LIMIT_COMPOUND_SELECT, 1}, {SQLITE_LIMIT_WORKER_THREADS, 0},   {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
    {SQLITE_LIMIT_EXPR_DEPTH, 1000},   {SQLITE_LIMIT_VARIABLE_NUMBER, 0},  {SQLITE_LIMIT_FUNCTION_ARG, 127},
};

int leat_query_sql_new(const struct leat_query_columns *columns, const struct leat_dataset *dataset,
                       struct leat_query_stop *stop, bool asks, struct leat_query_sql **out, struct leat_error *error)
{
    struct leat_query_sql *s = leat_new(struct leat_query_sql);
    *out = NULL;
    if (!s)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
    *s = (struct leat_query_sql){.columns = columns, .dataset = dataset, .stop = stop, .asks = asks, .look = {look, s}};
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX;
    int rc = sqlite3_open_v2(":memory:", &s->db, flags, NULL);
    for (size_t i = 0; !rc && i < sizeof limits / sizeof *limits; i++)
        sqlite3_limit(s->db, limits[i].what, limits[i].most);
    if (!rc) /* a text in double quotes is a column, never a string */
        rc = sqlite3_db_config(s->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
    if (!rc)
        rc = sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    if (!rc) /* an error if there is no such option */
        sqlite3_db_config(s->db, FP_DIGITS, 15, NULL);
    if (!rc)
        rc = add_functions(s);
    if (!rc)
        rc = sqlite3_create_module_v2(s->db, "samples", &module, s, NULL);
    if (!rc) /* connects the table, before the authorizer */
        rc = sqlite3_exec(s->db, "SELECT 1 FROM samples", NULL, NULL, NULL);
    if (!rc)
        rc = sqlite3_set_authorizer(s->db, authorize, s);
    if (rc) {
        rc = rc == SQLITE_NOMEM ? leat_fail(error, LEAT_E_NOMEM, "no memory for a query")
                                : leat_fail(error, LEAT_E_UNSUPPORTED, "SQLite cannot hold the columns: %s",
                                            s->db ? sqlite3_errmsg(s->db) : sqlite3_errstr(rc));
        leat_query_sql_free(s);
        return rc;
    }
    sqlite3_progress_handler(s->db, OPS_BETWEEN_LOOKS, look, s);
    *out = s;
    return LEAT_OK;
}

void leat_query_sql_free(struct leat_query_sql *s)
{
    if (!s)
        return;
    sqlite3_close(s->db);
    leat_free(s);
}

/* ---- expressions ----------------------------------------------------------------------------- */

static int failed(struct leat_query_sql *s, int rc, int offset, struct leat_error *error)
{
    static const char no_column[] = "no such column: ", no_function[] = "no such function: ";
    const char *message = sqlite3_errmsg(s->db);
    if (s->rc) {
        if (error)
            *error = s->error;
        return s->rc;
    }
    if (rc == SQLITE_NOMEM)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
    if (rc == SQLITE_INTERRUPT)
        return leat_fail(error, LEAT_E_CANCELLED, "the query was interrupted");
    if (*s->refused)
        return leat_fail(error, LEAT_E_INVALID, "%s", s->refused);
    if (!strncmp(message, no_column, sizeof no_column - 1))
        return leat_query_no_column(s->columns, s->dataset, message + sizeof no_column - 1, error);
    /* of functions that are taken, SQLite says it: this build has none of that name */
    if (!strncmp(message, no_function, sizeof no_function - 1) && !allowed_function(message + sizeof no_function - 1))
        return leat_fail(error, LEAT_E_INVALID, REFUSED, message + sizeof no_function - 1);
    if (offset >= (int)strlen(PREFIX))
        return leat_fail(error, LEAT_E_INVALID, "the clause is no SQL expression: %s (at byte %d)", message,
                         offset - (int)strlen(PREFIX));
    return leat_fail(error, LEAT_E_INVALID, "the clause cannot be evaluated: %s", message);
}

int leat_query_prepare(struct leat_query_sql *s, const char *text, size_t length, bool *used,
                       struct leat_query_expression **out, struct leat_error *error)
{
    struct leat_query_expression *x = leat_new(struct leat_query_expression);
    const size_t room = length + sizeof PREFIX + sizeof SUFFIX;
    char *sql = leat_alloc(room);
    int rc = LEAT_OK;
    *out = NULL;
    if (!x || !sql) {
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
        goto out;
    }
    snprintf(sql, room, PREFIX "%.*s" SUFFIX, (int)length, text);
    s->selects = s->truths = 0;
    s->used = used;
    s->rc = LEAT_OK;
    *s->refused = '\0';
    if (used)
        memset(used, 0, s->columns->n * sizeof *used);
    x->sql = s;
    const int code = sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &x->statement, NULL);
    if (code)
        rc = failed(s, code, sqlite3_error_offset(s->db), error);
out:
    s->used = NULL;
    leat_free(sql);
    if (rc)
        leat_query_finish(x);
    else
        *out = x;
    return rc;
}

void leat_query_finish(struct leat_query_expression *x)
{
    if (!x)
        return;
    sqlite3_finalize(x->statement);
    leat_free(x);
}

/* One step over the rows. */
static int evaluate(struct leat_query_expression *x, struct leat_error *error)
{
    x->sql->rc = LEAT_OK;
    const int code = sqlite3_step(x->statement);
    const int rc = code == SQLITE_ROW ? LEAT_OK : failed(x->sql, code, -1, error);
    sqlite3_reset(x->statement);
    return rc;
}

int leat_query_evaluate(struct leat_query_expression *x, const uint32_t *rows, size_t n, leat_query_get get, void *user,
                        uint8_t *truth, struct leat_error *error)
{
    struct leat_query_sql *s = x->sql;
    s->rows = rows;
    s->n = n;
    s->get = get;
    s->user = user;
    s->truth = truth;
    s->value = NULL;
    return evaluate(x, error);
}

static int no_column(void *user, size_t column, uint32_t row, struct leat_query_value *out, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_INVALID, "a column where a constant is meant");
}

int leat_query_constant(struct leat_query_expression *x, struct leat_query_value *out, struct leat_error *error)
{
    static const uint32_t row = 0;
    uint8_t truth;
    struct leat_query_sql *s = x->sql;
    *out = (struct leat_query_value){.type = LEAT_QUERY_NULL};
    s->rows = &row;
    s->n = 1;
    s->get = no_column;
    s->truth = &truth;
    s->value = out;
    return evaluate(x, error);
}
