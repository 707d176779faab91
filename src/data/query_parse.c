/*
 * The tokens of a leaf: columns, constants and signs. SQLite has parsed the leaf before, so tokens that are not known
 * here are only left to it.
 */
#include "data/query_parse.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"

bool leat_shape_column(const struct leat_shape *s, size_t token, size_t *column)
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

bool leat_shape_number(struct leat_shape *s, struct leat_query_value *out)
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

bool leat_shape_take(struct leat_shape *s, const char *word)
{
    if (s->at >= s->end || !leat_token_is(s->clause, s->at, word))
        return false;
    s->at++;
    return true;
}

bool leat_shape_compare(struct leat_shape *s, enum leat_query_compare *out)
{
    static const struct {
        const char *sign;
        enum leat_query_compare compare;
    } signs[] = {{"=", LEAT_QUERY_EQ},  {"==", LEAT_QUERY_EQ}, {"<>", LEAT_QUERY_NE}, {"!=", LEAT_QUERY_NE},
                 {"<=", LEAT_QUERY_LE}, {">=", LEAT_QUERY_GE}, {"<", LEAT_QUERY_LT},  {">", LEAT_QUERY_GT}};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (leat_shape_take(s, signs[i].sign)) {
            *out = signs[i].compare;
            return true;
        }
    return false;
}
