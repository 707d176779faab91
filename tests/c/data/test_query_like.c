/* LIKE and GLOB give what SQLite's own give, and end where they are told to. */
#include "data/query_like.h"

#include "../test.h"
#include "base/random.h"

static int never(void *user)
{
    return 0;
}

static int at_once(void *user)
{
    return 1;
}

static sqlite3 *open_db(struct leat_query_look *look)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    if (look)
        assert_int_equal(leat_query_like_add(db, look), SQLITE_OK);
    return db;
}

/* -1: NULL; -2: an error. */
static int ask(sqlite3_stmt *stmt, const char *text, const char *pattern)
{
    sqlite3_reset(stmt);
    assert_int_equal(sqlite3_bind_text(stmt, 1, text, -1, SQLITE_STATIC), SQLITE_OK);
    assert_int_equal(sqlite3_bind_text(stmt, 2, pattern, -1, SQLITE_STATIC), SQLITE_OK);
    if (sqlite3_step(stmt) != SQLITE_ROW)
        return -2;
    return sqlite3_column_type(stmt, 0) == SQLITE_NULL ? -1 : sqlite3_column_int(stmt, 0);
}

static void any_text(char *out, uint64_t seed, const char *const *letters, size_t n, size_t most)
{
    const size_t length = leat_draw_below(seed, 0, most + 1);
    *out = 0;
    for (size_t i = 0; i < length; i++)
        strcat(out, letters[leat_draw_below(seed, i + 1, n)]);
}

static void compare(const char *sql, const char *const *in_text, size_t n_text, const char *const *in_pattern,
                    size_t n_pattern)
{
    struct leat_query_look look = {never, NULL};
    sqlite3 *ours = open_db(&look), *theirs = open_db(NULL);
    sqlite3_stmt *a, *b;
    assert_int_equal(sqlite3_prepare_v2(ours, sql, -1, &a, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(theirs, sql, -1, &b, NULL), SQLITE_OK);
    for (uint64_t i = 0; i < 30000; i++) {
        char text[128], pattern[128];
        any_text(text, 2 * i, in_text, n_text, 7);
        any_text(pattern, 2 * i + 1, in_pattern, n_pattern, 6);
        const int got = ask(a, text, pattern), want = ask(b, text, pattern);
        if (got != want)
            fail_msg("'%s' with '%s': %d, and SQLite says %d", text, pattern, got, want);
    }
    sqlite3_finalize(a);
    sqlite3_finalize(b);
    sqlite3_close(ours);
    sqlite3_close(theirs);
}

static const char *const letters[] = {"a", "b", "B", "ä", "Ä", "%", "_", "x", "]", "*"};

TEST(like_gives_what_sqlites_gives)
{
    static const char *const pattern[] = {"a", "b", "%", "_", "ä", "A", "%", "x", "*"};
    compare("SELECT ?1 LIKE ?2", letters, 10, pattern, 9);
}

TEST(like_with_an_escape_gives_what_sqlites_gives)
{
    static const char *const pattern[] = {"a", "b", "%", "_", "x", "x%", "x_", "xx"};
    compare("SELECT ?1 LIKE ?2 ESCAPE 'x'", letters, 10, pattern, 8);
}

TEST(glob_gives_what_sqlites_gives)
{
    static const char *const globs[] = {"a", "*", "?", "[a-x]", "[^a]", "[]a]", "b", "ä", "[", "[ä-ü]", "]", "[^]]"};
    compare("SELECT ?1 GLOB ?2", letters, 10, globs, 12);
}

TEST(a_long_match_is_stopped)
{
    enum { LONG = 1 << 16 };
    static char text[LONG + 1], pattern[LONG / 2 + 4];
    struct leat_query_look look = {at_once, NULL};
    sqlite3 *db = open_db(&look);
    sqlite3_stmt *stmt;
    memset(text, 'a', LONG);
    pattern[0] = '%';
    memset(pattern + 1, 'a', LONG / 4);
    strcat(pattern, "b%");
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT ?1 LIKE ?2", -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(ask(stmt, text, pattern), -2);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
}

TEST_MAIN()
