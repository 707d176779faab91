/*
 * Tables over the combinations of values of a few columns, for whatever SQLite makes of these.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "data/query.h"

#define MOST_TABLE 65536

/* Row i of the combinations: the i-th place of the table. */
static int value_of_combination(void *user, size_t column, uint32_t row, struct leat_query_value *out,
                                struct leat_error *error)
{
    const struct leat_query_table *t = user;
    const struct leat_query_column *c = &t->columns->at[column];
    for (size_t i = 0; i < t->n_parts; i++) {
        const struct leat_query_part *p = &t->parts[i];
        if (p->column + 1 == c->valid && !(row / p->stride % p->n)) {
            out->type = LEAT_QUERY_NULL;
            return LEAT_OK;
        }
    }
    for (size_t i = 0; i < t->n_parts; i++) {
        const struct leat_query_part *p = &t->parts[i];
        const uint32_t code = row / p->stride % p->n;
        const uint64_t bits = code; /* little-endian */
        if (p->column != column)
            continue;
        *out = p->codes ? leat_query_text(c, p->codes->values[code].bytes, p->codes->values[code].length)
                        : leat_query_number(c->dtype, &bits);
        return LEAT_OK;
    }
    return leat_fail(error, LEAT_E_INVALID, "a column that the clause does not name");
}

bool leat_table_find(struct leat_query_table *t, const struct leat_query_columns *columns, const bool *used,
                     const struct leat_codes *const *codes)
{
    uint64_t size = 1;
    *t = (struct leat_query_table){.columns = columns};
    for (size_t i = 0; i < columns->n; i++) {
        bool needed = used[i];
        const struct leat_query_column *c = &columns->at[i];
        for (size_t k = 0; k < columns->n && !needed; k++) /* each text that has a code is there */
            needed = used[k] && columns->at[k].valid == i + 1 && !(c->source == LEAT_QUERY_VALID && codes && codes[k]);
        if (!needed)
            continue;
        const size_t width = leat_dtype_size(c->dtype);
        struct leat_query_part part = {.column = i, .stride = (uint32_t)size};
        if (c->source == LEAT_QUERY_NUMBER && width <= 2) {
            part.width = (unsigned)width;
            part.n = UINT32_C(1) << 8 * width;
        } else if (c->source == LEAT_QUERY_VALID) {
            part.width = 1;
            part.n = 2;
        } else if (c->source == LEAT_QUERY_TEXT && codes && codes[i]) {
            part.width = codes[i]->width;
            part.codes = codes[i];
            part.n = codes[i]->n_values;
        } else {
            return false;
        }
        size *= part.n;
        if (size > MOST_TABLE || t->n_parts == LEAT_TABLE_COLUMNS)
            return false;
        t->parts[t->n_parts++] = part;
    }
    t->n = (uint32_t)size;
    return true;
}

int leat_table_truths(const struct leat_query_table *t, struct leat_query_expression *x, uint8_t *truth,
                      struct leat_error *error)
{
    uint32_t *rows = leat_new_array(t->n, sizeof *rows);
    struct leat_query_table table = *t;
    if (!rows)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
    for (uint32_t i = 0; i < t->n; i++)
        rows[i] = i;
    int rc = leat_query_evaluate(x, rows, t->n, value_of_combination, &table, truth, error);
    leat_free(rows);
    return rc;
}

void leat_table_add(const struct leat_query_part *p, const void *codes, size_t n, uint32_t *places)
{
    if (p->width == 1)
        for (size_t i = 0; i < n; i++)
            places[i] += ((const uint8_t *)codes)[i] * p->stride;
    else
        for (size_t i = 0; i < n; i++)
            places[i] += ((const uint16_t *)codes)[i] * p->stride;
}
