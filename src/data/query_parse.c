/*
 * What the tokens of a leaf say: columns, constants, signs, and sums of them (query_numbers.h). SQLite has parsed the
 * leaf before, so what is not known here is only left to it.
 */
#include "data/query_parse.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"

#define MOST_BRACKETS 32

/* The column that a token names; false: none. A word may also be a constant, such as NULL or TRUE. */
bool leat_shape_column(const struct leat_shape *s, size_t token, size_t *column)
{
    const struct leat_token *t = &s->clause->tokens[token];
    const char *text = s->clause->text + t->begin;
    size_t length = t->end - t->begin;
    if (token >= s->end || (t->kind != LEAT_TOKEN_WORD && t->kind != LEAT_TOKEN_NAME))
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
bool leat_shape_number(struct leat_shape *s, struct leat_query_value *out)
{
    const struct leat_clause *c = s->clause;
    size_t at = s->at;
    at += at < s->end && (leat_token_is(c, at, "-") || leat_token_is(c, at, "+"));
    if (at >= s->end || c->tokens[at].kind != LEAT_TOKEN_NUMBER)
        return false;
    const size_t begin = c->tokens[s->at].begin, end = c->tokens[at].end;
    struct leat_query_expression *x;
    if (leat_query_prepare(s->sql, c->text + begin, end - begin, NULL, &x, NULL))
        return false;
    int rc = leat_query_constant(x, out, NULL);
    leat_query_finish(x);
    s->at = at + 1;
    return !rc && (out->type == LEAT_QUERY_INT || out->type == LEAT_QUERY_REAL);
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

/* ---- sums ------------------------------------------------------------------------------------ */

static bool push(struct leat_number_sum *sum, const struct leat_number_step *step, unsigned *waiting)
{
    if (!leat_grow(&sum->steps, &sum->room, sum->n + 1, sizeof *sum->steps))
        return false;
    sum->steps[sum->n++] = *step;
    *waiting += step->kind <= LEAT_STEP_CONSTANT ? 1 : UINT_MAX; /* an operator makes one of two */
    sum->depth = *waiting > sum->depth ? *waiting : sum->depth;
    return sum->depth <= LEAT_NUMBERS_DEPTH;
}

static bool read_sum(struct leat_shape *s, struct leat_number_sum *sum, unsigned *waiting, unsigned brackets);

static bool read_factor(struct leat_shape *s, struct leat_number_sum *sum, unsigned *waiting, unsigned brackets)
{
    struct leat_number_step step = {.kind = LEAT_STEP_CONSTANT};
    if (brackets == MOST_BRACKETS)
        return false;
    if (leat_shape_take(s, "("))
        return read_sum(s, sum, waiting, brackets + 1) && leat_shape_take(s, ")");
    if (leat_shape_number(s, &step.constant))
        return push(sum, &step, waiting);
    if (leat_shape_take(s, "+"))
        return read_factor(s, sum, waiting, brackets + 1);
    if (leat_shape_take(s, "-")) { /* as SQLite does: 0 less it */
        step.constant = (struct leat_query_value){.type = LEAT_QUERY_INT};
        const struct leat_number_step less = {.kind = LEAT_STEP_SUBTRACT};
        return push(sum, &step, waiting) && read_factor(s, sum, waiting, brackets + 1) && push(sum, &less, waiting);
    }
    step.kind = LEAT_STEP_COLUMN;
    if (!leat_shape_column(s, s->at, &step.column))
        return false;
    s->at++;
    return push(sum, &step, waiting);
}

static bool read_term(struct leat_shape *s, struct leat_number_sum *sum, unsigned *waiting, unsigned brackets)
{
    struct leat_number_step step = {0};
    for (bool good = read_factor(s, sum, waiting, brackets); good;
         good = read_factor(s, sum, waiting, brackets) && push(sum, &step, waiting)) {
        if (leat_shape_take(s, "*"))
            step.kind = LEAT_STEP_MULTIPLY;
        else if (leat_shape_take(s, "/"))
            step.kind = LEAT_STEP_DIVIDE;
        else if (leat_shape_take(s, "%"))
            step.kind = LEAT_STEP_REMAINDER;
        else
            return true;
    }
    return false;
}

static bool read_sum(struct leat_shape *s, struct leat_number_sum *sum, unsigned *waiting, unsigned brackets)
{
    struct leat_number_step step = {0};
    for (bool good = read_term(s, sum, waiting, brackets); good;
         good = read_term(s, sum, waiting, brackets) && push(sum, &step, waiting)) {
        if (leat_shape_take(s, "+"))
            step.kind = LEAT_STEP_ADD;
        else if (leat_shape_take(s, "-"))
            step.kind = LEAT_STEP_SUBTRACT;
        else
            return true;
    }
    return false;
}

static bool next_sum(struct leat_shape *s, struct leat_query_numbers *x)
{
    unsigned waiting = 0;
    return x->n < LEAT_NUMBERS_SUMS && read_sum(s, &x->sums[x->n++], &waiting, 0);
}

static bool read_numbers(struct leat_shape *s, struct leat_query_numbers *x)
{
    if (!next_sum(s, x))
        return false;
    if (leat_shape_compare(s, &x->compare))
        return next_sum(s, x) && s->at == s->end;
    x->inverted = leat_shape_take(s, "NOT");
    if (leat_shape_take(s, "BETWEEN")) {
        x->how = LEAT_NUMBERS_BETWEEN;
        return next_sum(s, x) && leat_shape_take(s, "AND") && next_sum(s, x) && s->at == s->end;
    }
    x->how = LEAT_NUMBERS_IN;
    if (!leat_shape_take(s, "IN") || !leat_shape_take(s, "("))
        return false;
    do {
        if (!next_sum(s, x))
            return false;
    } while (leat_shape_take(s, ","));
    return leat_shape_take(s, ")") && s->at == s->end;
}

struct leat_query_numbers *leat_shape_numbers(struct leat_shape *s)
{
    struct leat_query_numbers *x = leat_new(struct leat_query_numbers);
    const size_t begin = s->at;
    const bool good = x && read_numbers(s, x);
    s->at = begin;
    if (good)
        return x;
    if (x)
        leat_query_numbers_destroy(x);
    leat_free(x);
    return NULL;
}
