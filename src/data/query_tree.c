/*
 * Tokens of a leaf to a tree: query_tree.h. SQLite has parsed the text before; what is read here is the same grammar,
 * and where it is not known, nothing is read at all.
 *
 *     OR | AND | NOT | = == <> != IS IN LIKE BETWEEN ISNULL | < <= > >= | & | << >> | + - | * / % | || -> | ~ - +
 */
#include "data/query_tree.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"

#define MOST_EXPRESSIONS 1000
#define MOST_NESTED 60
#define NONE UINT32_MAX

struct reader {
    struct leat_shape *s;
    struct leat_tree *tree;
    unsigned nested;
};

/* ---- making ---------------------------------------------------------------------------------- */

void leat_tree_free(struct leat_tree *tree)
{
    for (size_t i = 0; tree && i < tree->n; i++) {
        leat_free(tree->at[i].args);
        leat_free(tree->at[i].types);
        leat_free(tree->at[i].values);
    }
    leat_free(tree ? tree->at : NULL);
    leat_free(tree);
}

static uint32_t make(struct reader *r, enum leat_expr_kind kind, size_t first)
{
    struct leat_tree *t = r->tree;
    if (t->n == MOST_EXPRESSIONS || !leat_grow(&t->at, &t->room, t->n + 1, sizeof *t->at))
        return NONE;
    t->at[t->n] = (struct leat_expr){.kind = kind, .first = first, .last = r->s->at, .texts = kind == LEAT_EXPR_OTHER};
    return (uint32_t)t->n++;
}

static bool add(struct reader *r, uint32_t node, uint32_t arg)
{
    struct leat_expr *e = node == NONE || arg == NONE ? NULL : &r->tree->at[node];
    if (!e || !leat_grow(&e->args, &e->room, e->n_args + 1, sizeof *e->args))
        return false;
    e->args[e->n_args++] = arg;
    e->texts |= r->tree->at[arg].texts;
    e->last = r->s->at;
    return true;
}

static uint32_t make_of_one(struct reader *r, enum leat_expr_kind kind, size_t first, uint32_t a)
{
    const uint32_t node = make(r, kind, first);
    return add(r, node, a) ? node : NONE;
}

static uint32_t make_of_two(struct reader *r, enum leat_expr_kind kind, size_t first, uint32_t a, uint32_t b)
{
    const uint32_t node = make(r, kind, first);
    return add(r, node, a) && add(r, node, b) ? node : NONE;
}

/* NOT of what was read with a NOT inside: "a NOT IN (1)". The inner one does not stand in the text. */
static uint32_t inverted(struct reader *r, uint32_t node)
{
    const size_t first = node == NONE ? 0 : r->tree->at[node].first;
    if (node == NONE)
        return NONE;
    r->tree->at[node].first = r->tree->at[node].last = 0;
    return make_of_one(r, LEAT_EXPR_NOT, first, node);
}

static bool take(struct reader *r, const char *word)
{
    return leat_shape_take(r->s, word);
}

static bool next_is(const struct reader *r, size_t ahead, const char *word)
{
    return r->s->at + ahead < r->s->end && leat_token_is(r->s->clause, r->s->at + ahead, word);
}

/* ---- primaries ------------------------------------------------------------------------------- */

static uint32_t read_any(struct reader *r);

static const struct {
    const char *name;
    enum leat_expr_kind kind;
    size_t least, most;
} functions[] = {
    {"abs", LEAT_EXPR_ABS, 1, 1},     {"sign", LEAT_EXPR_SIGN, 1, 1},           {"round", LEAT_EXPR_ROUND, 1, 1},
    {"floor", LEAT_EXPR_FLOOR, 1, 1}, {"ceil", LEAT_EXPR_CEIL, 1, 1},           {"ceiling", LEAT_EXPR_CEIL, 1, 1},
    {"trunc", LEAT_EXPR_TRUNC, 1, 1}, {"sqrt", LEAT_EXPR_SQRT, 1, 1},           {"exp", LEAT_EXPR_EXP, 1, 1},
    {"ln", LEAT_EXPR_LN, 1, 1},       {"pow", LEAT_EXPR_POWER, 2, 2},           {"power", LEAT_EXPR_POWER, 2, 2},
    {"mod", LEAT_EXPR_MOD, 2, 2},     {"nullif", LEAT_EXPR_NULLIF, 2, 2},       {"max", LEAT_EXPR_MAX, 2, 100},
    {"min", LEAT_EXPR_MIN, 2, 100},   {"coalesce", LEAT_EXPR_COALESCE, 2, 100}, {"ifnull", LEAT_EXPR_COALESCE, 2, 2},
    {"iif", LEAT_EXPR_CASE, 3, 3}};

/* Behind the name of a function. */
static uint32_t read_function(struct reader *r, size_t first)
{
    uint32_t node = make(r, LEAT_EXPR_OTHER, first);
    size_t n = 0;
    bool good = node != NONE && take(r, "(");
    if (good && !next_is(r, 0, ")"))
        do {
            good = add(r, node, read_any(r));
            n++;
        } while (good && take(r, ","));
    if (!good || !take(r, ")"))
        return NONE;
    struct leat_expr *e = &r->tree->at[node];
    e->last = r->s->at;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (leat_token_is(r->s->clause, first, functions[i].name) && n >= functions[i].least && n <= functions[i].most)
            e->kind = functions[i].kind;
    e->texts = e->kind == LEAT_EXPR_OTHER;
    for (size_t i = 0; i < n; i++)
        e->texts |= r->tree->at[e->args[i]].texts;
    return node;
}

/* Behind CASE. */
static uint32_t read_case(struct reader *r, size_t first)
{
    const bool of_base = !next_is(r, 0, "WHEN");
    const uint32_t node = make(r, LEAT_EXPR_CASE, first);
    bool good = node != NONE && (!of_base || add(r, node, read_any(r))) && next_is(r, 0, "WHEN");
    while (good && take(r, "WHEN"))
        good = add(r, node, read_any(r)) && take(r, "THEN") && add(r, node, read_any(r));
    if (good && take(r, "ELSE"))
        good = add(r, node, read_any(r));
    else if (good)
        good = add(r, node, make(r, LEAT_EXPR_NULL, 0));
    if (!good || !take(r, "END"))
        return NONE;
    r->tree->at[node].of_base = of_base;
    r->tree->at[node].last = r->s->at;
    return node;
}

/* Behind CAST. */
static uint32_t read_cast(struct reader *r, size_t first)
{
    const uint32_t node = make(r, LEAT_EXPR_CAST_INTEGER, first);
    if (!take(r, "(") || !add(r, node, read_any(r)) || !take(r, "AS"))
        return NONE;
    if (take(r, "REAL") || take(r, "FLOAT") || take(r, "DOUBLE"))
        r->tree->at[node].kind = LEAT_EXPR_CAST_REAL;
    else if (!take(r, "INTEGER") && !take(r, "INT") && !take(r, "BIGINT")) {
        r->tree->at[node].kind = LEAT_EXPR_OTHER;
        r->tree->at[node].texts = true;
        while (r->s->at < r->s->end && !next_is(r, 0, ")") && !next_is(r, 0, "("))
            r->s->at++;
    }
    if (!take(r, ")"))
        return NONE;
    r->tree->at[node].last = r->s->at;
    return node;
}

/* Behind "(": one expression, or a row of them, which only a table can hold. */
static uint32_t read_brackets(struct reader *r, size_t first)
{
    uint32_t node = read_any(r);
    if (next_is(r, 0, ","))
        node = make_of_one(r, LEAT_EXPR_OTHER, first, node);
    while (node != NONE && take(r, ","))
        if (!add(r, node, read_any(r)))
            return NONE;
    if (node == NONE || !take(r, ")"))
        return NONE;
    r->tree->at[node].first = first;
    r->tree->at[node].last = r->s->at;
    return node;
}

static uint32_t read_name(struct reader *r, size_t first)
{
    size_t column;
    uint32_t node;
    if (leat_shape_any_column(r->s, first, &column)) {
        const enum leat_query_source source = r->s->columns->at[column].source;
        r->s->at++;
        if ((node = make(r, LEAT_EXPR_COLUMN, first)) != NONE) {
            r->tree->at[node].column = column;
            r->tree->at[node].texts = source == LEAT_QUERY_TEXT || source == LEAT_QUERY_BYTES;
        }
        return node;
    }
    if (take(r, "NULL"))
        return make(r, LEAT_EXPR_NULL, first);
    const bool yes = take(r, "TRUE");
    if (!yes && !take(r, "FALSE"))
        return NONE;
    if ((node = make(r, LEAT_EXPR_NUMBER, first)) != NONE)
        r->tree->at[node].constant = (struct leat_query_value){.type = LEAT_QUERY_INT, .number = yes};
    return node;
}

static uint32_t read_primary(struct reader *r)
{
    const size_t first = r->s->at;
    struct leat_query_value number;
    if (first >= r->s->end)
        return NONE;
    const enum leat_token_kind kind = r->s->clause->tokens[first].kind;
    if (take(r, "("))
        return read_brackets(r, first);
    if (kind == LEAT_TOKEN_STRING) {
        r->s->at++;
        return make(r, LEAT_EXPR_OTHER, first);
    }
    if (kind == LEAT_TOKEN_NUMBER) {
        if (!leat_shape_number(r->s, &number))
            return NONE;
        const uint32_t node = make(r, LEAT_EXPR_NUMBER, first);
        if (node != NONE)
            r->tree->at[node].constant = number;
        return node;
    }
    if (take(r, "CASE"))
        return read_case(r, first);
    if (take(r, "NOT")) /* of all that follows: "a = NOT (b) + 1" */
        return NONE;
    if (kind == LEAT_TOKEN_WORD && next_is(r, 1, "(")) {
        r->s->at++;
        return leat_token_is(r->s->clause, first, "CAST") ? read_cast(r, first) : read_function(r, first);
    }
    return read_name(r, first);
}

/* ---- operators ------------------------------------------------------------------------------- */

static uint32_t read_unary(struct reader *r)
{
    const size_t first = r->s->at;
    struct leat_query_value number;
    uint32_t node = NONE;
    if (++r->nested < MOST_NESTED) {
        if (next_is(r, 0, "-") && first + 1 < r->s->end &&
            r->s->clause->tokens[first + 1].kind == LEAT_TOKEN_NUMBER) { /* together: -9223372036854775808 */
            if (leat_shape_number(r->s, &number) && (node = make(r, LEAT_EXPR_NUMBER, first)) != NONE)
                r->tree->at[node].constant = number;
        } else if (take(r, "-")) { /* as SQLite does: 0 less it */
            const uint32_t zero = make(r, LEAT_EXPR_NUMBER, 0);
            if (zero != NONE) {
                r->tree->at[zero].last = 0;
                r->tree->at[zero].constant = (struct leat_query_value){.type = LEAT_QUERY_INT};
            }
            node = zero == NONE ? NONE : make_of_two(r, LEAT_EXPR_SUBTRACT, first, zero, read_unary(r));
        } else if (take(r, "~")) {
            node = make_of_one(r, LEAT_EXPR_BIT_NOT, first, read_unary(r));
        } else if (take(r, "+")) {
            if ((node = read_unary(r)) != NONE)
                r->tree->at[node].first = first;
        } else {
            node = read_primary(r);
        }
    }
    r->nested--;
    return node;
}

struct level {
    struct {
        const char *sign;
        enum leat_expr_kind kind;
    } operators[5];
};
/* The strongest first. */
static const struct level levels[] = {
    {{{"||", LEAT_EXPR_OTHER}, {"->", LEAT_EXPR_OTHER}, {"->>", LEAT_EXPR_OTHER}}},
    {{{"*", LEAT_EXPR_MULTIPLY}, {"/", LEAT_EXPR_DIVIDE}, {"%", LEAT_EXPR_REMAINDER}}},
    {{{"+", LEAT_EXPR_ADD}, {"-", LEAT_EXPR_SUBTRACT}}},
    {{{"&", LEAT_EXPR_BIT_AND}, {"|", LEAT_EXPR_BIT_OR}, {"<<", LEAT_EXPR_SHIFT_LEFT}, {">>", LEAT_EXPR_SHIFT_RIGHT}}}};

/* Operands of level - 1 and above between operators of `level`, from left to right. */
static uint32_t read_level(struct reader *r, size_t level)
{
    const size_t first = r->s->at;
    uint32_t node = level ? read_level(r, level - 1) : read_unary(r);
    while (node != NONE) {
        enum leat_expr_kind kind = LEAT_EXPR_NULL;
        for (size_t i = 0; i < 5 && levels[level].operators[i].sign && kind == LEAT_EXPR_NULL; i++)
            if (take(r, levels[level].operators[i].sign))
                kind = levels[level].operators[i].kind;
        if (kind == LEAT_EXPR_NULL)
            return node;
        const uint32_t right = level ? read_level(r, level - 1) : read_unary(r);
        node = make_of_two(r, kind, first, node, right);
    }
    return NONE;
}

static uint32_t compared(struct reader *r, enum leat_query_compare how, size_t first, uint32_t a, uint32_t b)
{
    const uint32_t node = make_of_two(r, LEAT_EXPR_COMPARE, first, a, b);
    if (node != NONE)
        r->tree->at[node].compare = how;
    return node;
}

/* < <= > >= */
static uint32_t read_compared(struct reader *r)
{
    const size_t first = r->s->at;
    uint32_t node = read_level(r, 3);
    while (node != NONE) {
        const size_t at = r->s->at;
        enum leat_query_compare how;
        if (!leat_shape_compare(r->s, &how))
            return node;
        if (how == LEAT_QUERY_EQ || how == LEAT_QUERY_NE) {
            r->s->at = at;
            return node;
        }
        node = compared(r, how, first, node, read_level(r, 3));
    }
    return NONE;
}

/* Behind IS. */
static uint32_t read_is(struct reader *r, size_t first, uint32_t a)
{
    bool not = take(r, "NOT");
    if (next_is(r, 0, "DISTINCT") && next_is(r, 1, "FROM")) {
        r->s->at += 2;
        not = !not ;
    }
    const size_t begin = r->s->at;
    const uint32_t node = make_of_two(r, LEAT_EXPR_IS, first, a, read_compared(r));
    for (size_t i = begin; i < r->s->at;
         i++) /* "IS TRUE" and "IS (TRUE)" ask whether it is true, not whether it is 1 */
        if (leat_token_is(r->s->clause, i, "TRUE") || leat_token_is(r->s->clause, i, "FALSE"))
            return NONE;
    return not ? inverted(r, node) : node;
}

/* Behind BETWEEN, IN, LIKE and GLOB. */
static uint32_t read_list(struct reader *r, const char *word, size_t first, uint32_t a)
{
    const bool is_in = !strcmp(word, "IN"), between = !strcmp(word, "BETWEEN");
    const uint32_t node = make_of_one(r,
                                      between ? LEAT_EXPR_BETWEEN
                                      : is_in ? LEAT_EXPR_IN
                                              : LEAT_EXPR_OTHER,
                                      first, a);
    if (node == NONE || (is_in && !take(r, "(")))
        return NONE;
    do {
        if (!add(r, node, is_in ? read_any(r) : read_compared(r)))
            return NONE;
    } while (take(r, is_in ? "," : between && r->tree->at[node].n_args < 3 ? "AND" : "ESCAPE"));
    if ((is_in && !take(r, ")")) || (between && r->tree->at[node].n_args != 3))
        return NONE;
    r->tree->at[node].last = r->s->at;
    return node;
}

/* = <> IS IN LIKE GLOB BETWEEN ISNULL, from left to right. */
static uint32_t read_equal(struct reader *r)
{
    static const char *const words[] = {"BETWEEN", "IN", "LIKE", "GLOB"};
    const size_t first = r->s->at;
    enum leat_query_compare how;
    uint32_t node = read_compared(r);
    for (bool again = node != NONE; again && node != NONE;) {
        again = false;
        if (leat_shape_compare(r->s, &how)) {
            node = compared(r, how, first, node, read_compared(r));
            again = true;
            continue;
        }
        if (take(r, "IS")) {
            node = read_is(r, first, node);
            again = true;
            continue;
        }
        const bool spelled = next_is(r, 0, "NOT") && next_is(r, 1, "NULL");
        if (spelled || next_is(r, 0, "ISNULL") || next_is(r, 0, "NOTNULL")) {
            const bool not = !next_is(r, 0, "ISNULL");
            r->s->at += spelled ? 2 : 1;
            const uint32_t null = make(r, LEAT_EXPR_NULL, 0);
            node = make_of_two(r, LEAT_EXPR_IS, first, node, null);
            node = not ? inverted(r, node) : node;
            again = true;
            continue;
        }
        const bool not = next_is(r, 0, "NOT");
        for (size_t i = 0; i < sizeof words / sizeof *words && !again; i++)
            if (next_is(r, not, words[i])) {
                r->s->at += not ? 2 : 1;
                node = read_list(r, words[i], first, node);
                node = not ? inverted(r, node) : node;
                again = true;
            }
    }
    return node;
}

static uint32_t read_not(struct reader *r)
{
    const size_t first = r->s->at;
    uint32_t node = NONE;
    if (++r->nested < MOST_NESTED)
        node = take(r, "NOT") ? make_of_one(r, LEAT_EXPR_NOT, first, read_not(r)) : read_equal(r);
    r->nested--;
    return node;
}

static uint32_t read_and(struct reader *r)
{
    const size_t first = r->s->at;
    uint32_t node = read_not(r);
    while (node != NONE && take(r, "AND"))
        node = make_of_two(r, LEAT_EXPR_AND, first, node, read_not(r));
    return node;
}

static uint32_t read_any(struct reader *r)
{
    const size_t first = r->s->at;
    uint32_t node = read_and(r);
    while (node != NONE && take(r, "OR"))
        node = make_of_two(r, LEAT_EXPR_OR, first, node, read_and(r));
    return node;
}

struct leat_tree *leat_tree_parse(struct leat_shape *s)
{
    struct reader r = {s, leat_new(struct leat_tree), 0};
    const size_t begin = s->at;
    bool good = r.tree != NULL;
    for (size_t i = begin; i < s->end; i++) /* an operand's collation holds for what compares it */
        good &= !leat_token_is(s->clause, i, "COLLATE");
    if (good) {
        r.tree->root = read_any(&r);
        good = r.tree->root != NONE && s->at == s->end;
    }
    s->at = begin;
    if (good)
        return r.tree;
    leat_tree_free(r.tree);
    return NULL;
}
