/* Which way a leaf of a clause is evaluated, and what its planning costs. */
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

/* Plans the clause as one leaf. */
static void plan(const char *text, uint64_t *room, enum leat_leaf_way *way, enum leat_leaf_way *cost)
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
    const struct leat_codes *codes[8] = {NULL};
    assert_in_range(columns.n, 1, 8);
    assert_ok(leat_leaf_plan(&leaf, &clause, clause.root, sql, &columns, codes, N, room, &error));
    *way = leaf.way;
    *cost = leat_leaf_cost(&leaf);
    leat_leaf_destroy(&leaf);
    leat_clause_destroy(&clause);
    leat_query_sql_free(sql);
    leat_query_columns_destroy(&columns);
}

static void assert_way(const char *text, uint64_t *room, enum leat_leaf_way want)
{
    enum leat_leaf_way way, cost;
    plan(text, room, &way, &cost);
    assert_int_equal(way, want);
}

/* "length IN (likely(small - 110), likely(small - 109), ..)": a table of 65536 places for each. */
static const char *of_tables(int n)
{
    static char text[8192];
    int at = snprintf(text, sizeof text, "length IN (");
    for (int i = 0; i < n; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%slikely(small - %d)", i ? ", " : "", 110 - i);
    snprintf(text + at, sizeof text - (size_t)at, ")");
    return text;
}

TEST(the_tables_of_a_clause_have_room_for_a_million_places_together)
{
    uint64_t room = LEAT_TREE_PLACES;
    assert_way(of_tables(16), &room, LEAT_LEAF_TREE);
    assert_int_equal(room, 0);
    assert_way(of_tables(1), &room, LEAT_LEAF_ROWS); /* of another leaf */
    assert_way("length + 1 > 5", &room, LEAT_LEAF_TREE);
    room = LEAT_TREE_PLACES;
    assert_way(of_tables(200), &room, LEAT_LEAF_ROWS);
}

TEST(a_leaf_of_too_many_tables_selects_what_it_says)
{
    struct leat_dataset *d;
    struct leat_error error;
    assert_ok(leat_dataset_where(whole, of_tables(20), &d, &error));
    assert_int_equal(leat_dataset_count(d), 65536); /* of which length is small - 100 */
    leat_dataset_release(d);
}

TEST(expressions_that_may_fail_come_with_those_that_sqlite_is_asked_for)
{
    static const struct {
        const char *text;
        enum leat_leaf_way cost;
    } cases[] = {{"length + 1 > 5", LEAT_LEAF_TREE},
                 {"abs(length) > 5", LEAT_LEAF_ROWS},
                 {"abs(small) + length > 5", LEAT_LEAF_TREE},
                 {"coalesce(abs(length + 1), 3) > 5", LEAT_LEAF_ROWS},
                 {"length + abs(likely(small)) > 5", LEAT_LEAF_TREE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum leat_leaf_way way, cost;
        uint64_t room = LEAT_TREE_PLACES;
        plan(cases[i].text, &room, &way, &cost);
        assert_int_equal(way, LEAT_LEAF_TREE);
        assert_int_equal(cost, cases[i].cost);
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
