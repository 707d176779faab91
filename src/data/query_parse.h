/* Reading the tokens of a leaf; each function stops at a token that it does not know. */
#ifndef LEAT_DATA_QUERY_PARSE_H
#define LEAT_DATA_QUERY_PARSE_H

#include "data/query.h"
#include "data/query_ranges.h"

struct leat_shape {
    const struct leat_clause *clause;
    struct leat_query_sql *sql;
    const struct leat_query_columns *columns;
    size_t at, end; /* tokens */
};

/* The column of numbers that a token names; false: none. */
bool leat_shape_column(const struct leat_shape *shape, size_t token, size_t *column);
/* Takes a number with its sign, as SQLite reads it. */
bool leat_shape_number(struct leat_shape *shape, struct leat_query_value *out);
bool leat_shape_take(struct leat_shape *shape, const char *word);
bool leat_shape_compare(struct leat_shape *shape, enum leat_query_compare *out);

#endif
