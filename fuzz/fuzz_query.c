/*
 * Clauses from text: evaluating one never crashes, and the ways over columns select the same as SQLite when it
 * evaluates the whole clause for each row.
 */
#include <stdlib.h>
#include <string.h>

#include "data/query.h"

#define ROWS 4200 /* enough for texts to become codes */

static int64_t lengths[ROWS];
static float qualities[ROWS];
static uint8_t flags[ROWS];
static const char *const words[] = {"en", "de", "code", "", "it's", "EN", "\xc3\xbc"};

static int compute(void *user, const size_t *fields, size_t n_fields, const uint64_t *samples, size_t n,
                   struct leat_values *out, size_t *failed, struct leat_error *error)
{
    (void)user;
    for (size_t f = 0; f < n_fields; f++)
        for (size_t i = 0; i < n; i++) {
            const char *word = words[(samples[i] * 7 + fields[f] * samples[i] / 3) % 7];
            if (leat_values_put(out, f, i, word, strlen(word))) {
                *failed = i;
                return LEAT_E_NOMEM;
            }
        }
    return LEAT_OK;
}

static struct leat_dataset *make(void)
{
    static const struct leat_field numbers[] = {
        {.name = "length", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
        {.name = "quality", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_F32},
        {.name = "flag", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_BOOL},
    };
    static const struct leat_field texts[] = {{.name = "language", .kind = LEAT_KIND_STR, .dtype = LEAT_U8},
                                              {.name = "domain", .kind = LEAT_KIND_STR, .dtype = LEAT_U8}};
    const struct leat_array arrays[] = {{.data = lengths, .stride_bytes = 8},
                                        {.data = qualities, .stride_bytes = 4},
                                        {.data = flags, .stride_bytes = 1}};
    for (size_t i = 0; i < ROWS; i++) {
        lengths[i] = (int64_t)(i * i % 1000) - 100;
        qualities[i] = i % 11 ? (float)(i % 13) / 4 - 1 : (float)(0.0 / 0.0 * (double)i);
        flags[i] = i % 3 == 0;
    }
    struct leat_dataset *parts[2], *both;
    const char *names[] = {"a", "b"};
    if (leat_dataset_from_arrays(numbers, arrays, 3, ROWS, NULL, NULL, NULL, &parts[0], NULL) ||
        leat_dataset_from_source(texts, 2, ROWS, "1", compute, NULL, NULL, &parts[1], NULL) ||
        leat_dataset_zip(parts, names, 2, true, NULL, 0, &both, NULL))
        abort();
    leat_dataset_release(parts[0]);
    leat_dataset_release(parts[1]);
    return both;
}

static int get(void *user, size_t column, uint32_t row, struct leat_query_value *out, struct leat_error *error)
{
    return leat_query_reader_value(user, column, row, out, error);
}

/* Aborts if rows differ; an error for some row says nothing about the others. */
static void compare(struct leat_dataset *d, const char *clause, const struct leat_dataset *found)
{
    struct leat_query_columns columns;
    struct leat_query_stop stop = {false};
    struct leat_query_sql *sql = NULL;
    struct leat_query_expression *x = NULL;
    static uint32_t rows[ROWS];
    static uint8_t truth[ROWS];
    if (leat_query_columns_init(&columns, d, NULL))
        return;
    struct leat_query_reader *reader = leat_query_reader_new(d, &columns);
    if (reader && !leat_query_sql_new(&columns, d, &stop, false, &sql, NULL) &&
        !leat_query_prepare(sql, clause, strlen(clause), NULL, &x, NULL)) {
        leat_query_reader_move(reader, 0, ROWS);
        for (uint32_t i = 0; i < ROWS; i++)
            rows[i] = i;
        leat_query_reader_expect(reader, rows, ROWS);
        if (!leat_query_evaluate(x, rows, ROWS, get, reader, truth, NULL)) {
            uint64_t at = 0, n = leat_dataset_count(found);
            for (uint32_t i = 0; i < ROWS; i++) {
                const bool in = at < n && leat_dataset_id(found, at) == (int64_t)i;
                if (in != (truth[i] == LEAT_TRUE))
                    abort();
                at += in;
            }
        }
    }
    leat_query_finish(x);
    leat_query_sql_free(sql);
    leat_query_reader_free(reader);
    leat_query_columns_destroy(&columns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct leat_dataset *whole;
    struct leat_dataset *found;
    struct leat_error error;
    char clause[400];
    if (!whole)
        whole = make();
    if (size >= sizeof clause)
        return 0;
    memcpy(clause, data, size);
    clause[size] = '\0';
    if (leat_dataset_where(whole, clause, &found, &error))
        return 0;
    compare(whole, clause, found);
    leat_dataset_release(found);
    return 0;
}
