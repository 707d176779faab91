/*
 * The text of a clause: the parts that are not allowed, and its outermost shape, AND and OR and NOT over leaves. SQLite
 * has parsed the text before it is taken apart here, and parses each leaf again.
 */
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/query.h"

#define MOST_CLAUSE (1 << 20)

/* The end of the string, name or comment that begins at `at`; NULL: it has no end. `at` itself: none begins there. */
static const char *skip(const char *at)
{
    if (*at == '-' && at[1] == '-') {
        const char *end = strchr(at, '\n');
        return end ? end + 1 : at + strlen(at);
    }
    if (*at == '/' && at[1] == '*') {
        const char *end = strstr(at + 2, "*/");
        return end ? end + 2 : NULL;
    }
    if (*at != '\'' && *at != '"' && *at != '`' && *at != '[')
        return at;
    const char end = *at == '[' ? ']' : *at;
    for (const char *p = at + 1; *p; p++)
        if (*p == end && (end == ']' || p[1] != end))
            return p + 1;
        else if (*p == end)
            p++;
    return NULL;
}

int leat_query_check_text(const char *clause, struct leat_error *error)
{
    size_t depth = 0;
    bool empty = true;
    if (strnlen(clause, MOST_CLAUSE + 1) > MOST_CLAUSE)
        return leat_fail(error, LEAT_E_INVALID, "the clause is longer than %d bytes", MOST_CLAUSE);
    for (const char *p = clause; *p;) {
        const char *behind = skip(p);
        if (!behind)
            return leat_fail(error, LEAT_E_INVALID,
                             "the clause is no SQL expression: what begins at byte %zu, %.20s, "
                             "has no end",
                             (size_t)(p - clause), p);
        if (behind != p) {
            empty &= *p == '-' || *p == '/';
            p = behind;
            continue;
        }
        depth += *p == '(';
        if (*p == ';' || (*p == ')' && !depth))
            return leat_fail(error, LEAT_E_INVALID,
                             "the clause is no SQL expression: there is a \"%c\" too many at "
                             "byte %zu",
                             *p, (size_t)(p - clause));
        if (*p == '?')
            return leat_fail(error, LEAT_E_INVALID, "the clause has a parameter (\"?\" at byte %zu): write the value",
                             (size_t)(p - clause));
        depth -= *p == ')';
        empty &= strchr(" \t\r\n\f", *p) != NULL;
        p++;
    }
    if (depth)
        return leat_fail(error, LEAT_E_INVALID, "the clause is no SQL expression: %zu brackets are not closed", depth);
    return empty ? leat_fail(error, LEAT_E_INVALID, "the clause is empty: it is what stands behind WHERE") : LEAT_OK;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
           (c & 0x80);
}

bool leat_token_is(const struct leat_clause *c, size_t token, const char *text)
{
    if (token >= c->n_tokens)
        return false;
    const struct leat_token *t = &c->tokens[token];
    return (t->kind == LEAT_TOKEN_WORD || t->kind == LEAT_TOKEN_SIGN) && strlen(text) == t->end - t->begin &&
           !strncasecmp(c->text + t->begin, text, t->end - t->begin);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits, with the separators that newer SQLite takes between them. */
static const char *skip_digits(const char *p)
{
    while (is_digit(*p) || *p == '_')
        p++;
    return p;
}

/* The end of the number at `p`, as SQLite has it: 0x and its digits, in which E begins no exponent; or digits, a
 * fraction, an exponent. SQLite refuses a character that follows without a space, or it begins the next token. */
static const char *skip_number(const char *p)
{
    if (*p == '0' && (p[1] == 'x' || p[1] == 'X')) {
        for (p += 2; is_digit(*p) || (*p >= 'a' && *p <= 'f') || (*p >= 'A' && *p <= 'F') || *p == '_';)
            p++;
        return p;
    }
    p = skip_digits(p);
    if (*p == '.')
        p = skip_digits(p + 1);
    if ((*p == 'e' || *p == 'E') && is_digit(p[1 + (p[1] == '+' || p[1] == '-')]))
        p = skip_digits(p + 2);
    return p;
}

static size_t sign_length(const char *p)
{
    static const char *const two[] = {"<=", ">=", "<>", "!=", "==", "||", "<<", ">>", "->"};
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (!strncmp(p, two[i], 2))
            return *p == '-' && p[2] == '>' ? 3 : 2;
    return 1;
}

static int tokenize(struct leat_clause *c, struct leat_error *error)
{
    size_t room = 0;
    for (const char *p = c->text; *p;) {
        const char *behind = skip(p);
        const bool comment = behind != p && (*p == '-' || *p == '/');
        if (comment || strchr(" \t\r\n\f", *p)) {
            p = comment ? behind : p + 1;
            continue;
        }
        struct leat_token t = {.kind = LEAT_TOKEN_SIGN, .begin = (size_t)(p - c->text)};
        if (behind != p) {
            t.kind = *p == '\'' ? LEAT_TOKEN_STRING : LEAT_TOKEN_NAME;
        } else if ((*p >= '0' && *p <= '9') || (*p == '.' && p[1] >= '0' && p[1] <= '9')) {
            t.kind = LEAT_TOKEN_NUMBER;
            behind = skip_number(p);
        } else if (is_word(*p)) {
            t.kind = LEAT_TOKEN_WORD;
            while (is_word(*behind))
                behind++;
        } else {
            behind = p + sign_length(p);
        }
        t.end = (size_t)(behind - c->text);
        p = behind;
        if (!leat_grow(&c->tokens, &room, c->n_tokens + 1, sizeof *c->tokens))
            return leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
        c->tokens[c->n_tokens++] = t;
    }
    return LEAT_OK;
}

/* Finds the other bracket of each. They match: the text was checked. */
static int match_brackets(struct leat_clause *c, struct leat_error *error)
{
    size_t *open = leat_new_array(c->n_tokens + 1, sizeof *open), depth = 0;
    if (!open)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
    for (size_t i = 0; i < c->n_tokens; i++) {
        if (leat_token_is(c, i, "(")) {
            open[depth++] = i;
        } else if (leat_token_is(c, i, ")") && depth) {
            c->tokens[i].match = open[--depth];
            c->tokens[open[depth]].match = i;
        }
    }
    leat_free(open);
    return LEAT_OK;
}

/* ---- the tree -------------------------------------------------------------------------------- */

#define MOST_DEPTH 64 /* of the tree: below, the rest is a leaf */

static struct leat_node *node_new(enum leat_node_kind kind)
{
    struct leat_node *node = leat_new(struct leat_node);
    if (node)
        node->kind = kind;
    return node;
}

static void node_free(struct leat_node *node)
{
    if (!node)
        return;
    for (size_t i = 0; i < node->n_children; i++)
        node_free(node->children[i]);
    leat_free(node->children);
    leat_free(node);
}

/* The next `word` from token `at` on that stands in no brackets, no CASE and, of AND, belongs to no BETWEEN; or `end`.
 * A clause that uses such words otherwise gives leaves that are no expressions, and is then taken as one leaf. */
static size_t find_word(const struct leat_clause *c, size_t at, size_t end, const char *word)
{
    const bool is_and = !strcmp(word, "AND");
    size_t cases = 0, betweens = 0;
    for (; at < end; at++) {
        if (leat_token_is(c, at, "("))
            at = c->tokens[at].match;
        else if (leat_token_is(c, at, "CASE"))
            cases++;
        else if (cases && leat_token_is(c, at, "END"))
            cases--;
        else if (!cases && leat_token_is(c, at, "BETWEEN"))
            betweens++;
        else if (!cases && is_and && betweens && leat_token_is(c, at, "AND"))
            betweens--;
        else if (!cases && leat_token_is(c, at, word))
            return at;
    }
    return end;
}

/* Brackets around all of it, with one expression in them. */
static bool in_brackets(const struct leat_clause *c, size_t begin, size_t end)
{
    return end - begin > 2 && leat_token_is(c, begin, "(") && c->tokens[begin].match == end - 1 &&
           find_word(c, begin + 1, end - 1, ",") == end - 1;
}

static struct leat_node *parse(const struct leat_clause *c, size_t begin, size_t end, bool negated, unsigned depth);

/* The operands between each `word`; NULL: no memory. */
static struct leat_node *parse_list(const struct leat_clause *c, size_t begin, size_t end, bool negated, unsigned depth,
                                    const char *word)
{
    struct leat_node *node = node_new((*word == 'A') != negated ? LEAT_NODE_AND : LEAT_NODE_OR);
    while (node && begin <= end) {
        const size_t stop = find_word(c, begin, end, word);
        struct leat_node *child = parse(c, begin, stop, negated, depth + 1);
        if (!child || !leat_grow(&node->children, &node->room, node->n_children + 1, sizeof(struct leat_node *))) {
            node_free(child);
            node_free(node);
            return NULL;
        }
        node->children[node->n_children++] = child;
        begin = stop + 1;
    }
    return node;
}

static struct leat_node *parse(const struct leat_clause *c, size_t begin, size_t end, bool negated, unsigned depth)
{
    while (depth < MOST_DEPTH && begin < end) {
        if (in_brackets(c, begin, end)) {
            begin++;
            end--;
        } else if (find_word(c, begin, end, "OR") < end) {
            return parse_list(c, begin, end, negated, depth, "OR");
        } else if (find_word(c, begin, end, "AND") < end) {
            return parse_list(c, begin, end, negated, depth, "AND");
        } else if (leat_token_is(c, begin, "NOT")) {
            begin++;
            negated = !negated;
        } else {
            break;
        }
    }
    struct leat_node *leaf = node_new(LEAT_NODE_LEAF);
    if (leaf) {
        leaf->negated = negated;
        leaf->first_token = begin;
        leaf->last_token = end;
        leaf->begin = begin < end ? c->tokens[begin].begin : 0;
        leaf->end = begin < end ? c->tokens[end - 1].end : 0;
    }
    return leaf;
}

static unsigned depth_of(const struct leat_node *node)
{
    unsigned most = 0;
    for (size_t i = 0; i < node->n_children; i++) {
        const unsigned depth = depth_of(node->children[i]);
        most = depth > most ? depth : most;
    }
    return most + 1;
}

int leat_clause_parse(struct leat_clause *c, const char *text, bool split, struct leat_error *error)
{
    *c = (struct leat_clause){.text = text};
    int rc = tokenize(c, error);
    if (!rc)
        rc = match_brackets(c, error);
    if (!rc && !(c->root = parse(c, 0, c->n_tokens, false, split ? 0 : MOST_DEPTH)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
    if (rc)
        leat_clause_destroy(c);
    else
        c->depth = depth_of(c->root);
    return rc;
}

void leat_clause_destroy(struct leat_clause *c)
{
    node_free(c->root);
    leat_free(c->tokens);
    *c = (struct leat_clause){0};
}
