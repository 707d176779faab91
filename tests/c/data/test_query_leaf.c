/* Which way a leaf of a clause is evaluated. */
#include "../test.h"
#include "data/query.h"

enum { N = 70000 };

static uint16_t small[N];
static int64_t length[N];
static struct leat_dataset *whole;

static int set_up(void **state)
{
    static const struct leat_field fields[] = {{.name = "small", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U16},
                                               {.name = "length", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64}};
    const struct leat_array arrays[] = {{.data = small, .stride_bytes = 2}, {.data = length, .stride_bytes = 8}};
    struct leat_error error;
    for (int64_t i = 0; i < N; i++) {
        small[i] = (uint16_t)i;
        length[i] = i - 100;
    }
    assert_ok(leat_dataset_from_arrays(fields, arrays, 2, N, NULL, NULL, NULL, &whole, &error));
    return 0;
}

static int tear_down(void **state)
{
    leat_dataset_release(whole);
    return 0;
}

/* How the clause is evaluated as one leaf. */
static enum leat_leaf_way way_of(const char *text)
{
    struct leat_query_columns columns;
    struct leat_query_stop stop = {false};
    struct leat_query_sql *sql;
    struct leat_clause clause;
    struct leat_leaf leaf;
    struct leat_error error;
    assert_ok(leat_query_columns_init(&columns, whole, &error));
    assert_ok(leat_query_sql_new(&columns, whole, &stop, false, &sql, &error));
    assert_ok(leat_clause_parse(&clause, text, false, &error));
    assert_ok(leat_leaf_plan(&leaf, &clause, clause.root, sql, &columns, NULL, N, &error));
    const enum leat_leaf_way way = leaf.way;
    leat_leaf_destroy(&leaf);
    leat_clause_destroy(&clause);
    leat_query_sql_free(sql);
    leat_query_columns_destroy(&columns);
    return way;
}

TEST(sqlite_is_asked_about_rows_only_where_neither_ranges_nor_a_table_say_it)
{
    assert_int_equal(way_of("length > 5"), LEAT_LEAF_RANGES);
    assert_int_equal(way_of("7 IN (length)"), LEAT_LEAF_ROWS);
    assert_int_equal(way_of("small > 5"), LEAT_LEAF_RANGES);
    assert_int_equal(way_of("abs(small - 7) % 3 = 1"), LEAT_LEAF_TABLE);
    assert_int_equal(way_of("1 + 1"), LEAT_LEAF_TABLE);
    assert_int_equal(way_of("abs(small) + length > 5"), LEAT_LEAF_ROWS);
    assert_int_equal(way_of("abs(CASE WHEN small = 65535 THEN 1 << 63 ELSE small END) >= 0"), LEAT_LEAF_ROWS);
}

/* length is small - 100 in the first 65536 rows. */
TEST(rows_that_sqlite_is_asked_about_are_found)
{
    static const struct {
        const char *text;
        uint64_t count;
    } cases[] = {{"length + 1 > 5", N - 105},
                 {"NOT length + 1 > 5", 105},
                 {"length IN (small - 100, 69899)", 65537},
                 {"nullif(length, 3) + 1 > 5 OR nullif(length, 3) IS NULL", N - 104},
                 {"NOT nullif(length, 3) + 1 > 5", 104}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct leat_error error;
        struct leat_dataset *d;
        assert_ok(leat_dataset_where(whole, cases[i].text, &d, &error));
        assert_int_equal(leat_dataset_count(d), cases[i].count);
        leat_dataset_release(d);
    }
}

/* What SQLite says of a combination of values that no row has is nothing to the caller. */
TEST(a_query_that_succeeds_leaves_the_error_as_it_was)
{
    static const char *const texts[] = {
        "abs(CASE WHEN small = 65535 THEN 1 << 63 ELSE small END) >= 0 OR small = 65535",
        "length + abs(CASE WHEN likely(small) = 65535 THEN 1 << 63 ELSE small END) > 0 OR small = 65535",
        "length \357\273\277BETWEEN 1 AND 3", /* a space to SQLite; first taken apart at AND */
        "length = 7 AND likely(CAST(small AS BLOB)) <> length"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct leat_error error = {.code = 12345, .message = "mine"};
        struct leat_dataset *d;
        assert_int_equal(leat_dataset_where(whole, texts[i], &d, &error), LEAT_OK);
        assert_int_equal(error.code, 12345);
        assert_string_equal(error.message, "mine");
        leat_dataset_release(d);
    }
}

TEST_MAIN_IN(set_up, tear_down)
