/* Queries and sets of views in C: what they select, and that they fail cleanly without memory. */
#include <sqlite3.h>

#include "../allocations.h"
#include "../files.h"
#include "../test.h"
#include "../tuning.h"
#include "base/random.h"

#include "data/internal.h"
#include "native.h"

enum { N = 6000 };

static char folder[PATH_MAX], path[PATH_MAX + 16], repeated[PATH_MAX + 16];
static struct leat_dataset *whole;

/* x = i, text of 5 kinds. */
static void write_repeated(void)
{
    static const struct leat_field fields[] = {{.name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
                                               {.name = "kind", .kind = LEAT_KIND_STR}};
    struct leat_writer_options o = LEAT_WRITER_OPTIONS_INIT;
    struct leat_error error;
    struct leat_writer *w;
    o.num_threads = 1;
    assert_ok(leat_writer_open(repeated, fields, 2, &o, &w, &error));
    for (int64_t i = 0; i < N; i++) {
        char text[16];
        const struct leat_value_ref values[] = {
            {.data = &i, .length = 8},
            {.data = text, .length = (uint64_t)snprintf(text, sizeof text, "kind %d", (int)(i % 5))}};
        assert_ok(leat_writer_add(w, values, NULL, &error));
    }
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);
}

static int set_up(void **state)
{
    struct leat_error error;
    files_folder(folder);
    snprintf(path, sizeof path, "%s/data.leat", folder);
    snprintf(repeated, sizeof repeated, "%s/repeated.leat", folder);
    native_write(path, 0, N, 0);
    write_repeated();
    assert_ok(leat_dataset_open(path, NULL, &whole, &error));
    return 0;
}

static int tear_down(void **state)
{
    leat_dataset_release(whole);
    files_remove(folder);
    return 0;
}

#define TEST_SET_UP(name) TEST_IN(name, set_up, tear_down)

static bool holds(int clause, int64_t i)
{
    switch (clause) {
    case 0:
        return i * 10 > 300 && i % 4 == 2;
    case 1:
        return i == 17 || i == 5999 || i < 3;
    case 2:
        return i % 7 == 3;
    default:
        return true;
    }
}

static const char *const clauses[] = {"x > 300 AND \"points.length\" = 2",
                                      "text IN ('text 17', 'text 5999') OR x < 30 AND NOT x = 40", "x / 10 % 7 = 3",
                                      "length(text) > 0"};
enum { CLAUSES = sizeof clauses / sizeof *clauses };

static void assert_ids(struct leat_dataset *d, int clause)
{
    uint64_t at = 0;
    for (int64_t i = 0; i < N; i++)
        if (holds(clause, i))
            assert_int_equal(leat_dataset_id(d, at++), i);
    assert_int_equal(leat_dataset_count(d), at);
}

TEST_SET_UP(a_clause_selects_the_samples_for_which_it_holds)
{
    struct leat_error error;
    for (int c = 0; c < CLAUSES; c++) {
        struct leat_dataset *d;
        assert_ok(leat_dataset_where(whole, clauses[c], &d, &error));
        assert_ids(d, c);
        leat_dataset_release(d);
    }
}

TEST_SET_UP(views_combine_as_sets)
{
    struct leat_error error;
    struct leat_dataset *a, *b, *parts[4], *d;
    assert_ok(leat_dataset_where(whole, clauses[0], &a, &error));
    assert_ok(leat_dataset_slice(whole, 100, 5000, 3, &b, &error));
    int64_t shuffled[500];
    for (int i = 0; i < 500; i++)
        shuffled[i] = (int64_t)leat_draw_below(3, (uint64_t)i, N);
    parts[0] = a;
    parts[1] = b;
    parts[2] = whole;
    assert_ok(leat_dataset_select(whole, shuffled, 500, &parts[3], &error));
    for (int x = 0; x < 4; x++)
        for (int y = 0; y < 4; y++)
            for (int how = 0; how <= LEAT_COMBINE_MINUS; how++) {
                bool in[2][N] = {{false}};
                uint64_t at = 0;
                for (uint64_t i = 0; i < leat_dataset_count(parts[x]); i++)
                    in[0][leat_dataset_id(parts[x], i)] = true;
                for (uint64_t i = 0; i < leat_dataset_count(parts[y]); i++)
                    in[1][leat_dataset_id(parts[y], i)] = true;
                assert_ok(leat_dataset_combine(parts[x], parts[y], (enum leat_combine)how, &d, &error));
                for (int i = 0; i < N; i++)
                    if (how == LEAT_COMBINE_AND  ? in[0][i] && in[1][i]
                        : how == LEAT_COMBINE_OR ? in[0][i] || in[1][i]
                                                 : in[0][i] && !in[1][i])
                        assert_int_equal(leat_dataset_id(d, at++), i);
                assert_int_equal(leat_dataset_count(d), at);
                leat_dataset_release(d);
            }
    leat_dataset_release(a);
    leat_dataset_release(b);
    leat_dataset_release(parts[3]);
}

/* The texts of joined data sets, of which one has codes of its own. */
TEST_SET_UP(codes_of_several_files_are_one_list)
{
    struct leat_error error;
    struct leat_dataset *a, *b, *joined, *d;
    assert_ok(leat_dataset_open(repeated, NULL, &a, &error));
    assert_int_equal(unlink(repeated), 0);
    tuning.coded_rows = UINT64_MAX; /* the next file has none */
    write_repeated();
    tuning.coded_rows = 0;
    assert_ok(leat_dataset_open(repeated, NULL, &b, &error));
    struct leat_dataset *const parts[] = {b, a, b};
    assert_ok(leat_dataset_concat(parts, 3, &joined, &error));
    assert_ok(leat_dataset_where(joined, "kind = 'kind 3' OR kind > 'kind 3'", &d, &error));
    assert_int_equal(leat_dataset_count(d), 3 * N / 5 * 2);
    for (uint64_t i = 0; i < leat_dataset_count(d); i++)
        assert_true(leat_dataset_id(d, i) % N % 5 >= 3);
    leat_dataset_release(d);
    leat_dataset_release(joined);
    leat_dataset_release(a);
    leat_dataset_release(b);
}

/* The n-th allocation fails, for the first n and some of the later ones: an error, or, where memory only makes it
 * faster, the same result. */
static void fail_each_allocation(const char *file, const char *clause)
{
    struct leat_error error;
    uint64_t want = UINT64_MAX;
    for (long n = -1, reached = 1; reached; n += 1 + (n > 40 ? n / 8 : 0)) { /* at first none */
        struct leat_dataset *base, *d = NULL;
        assert_ok(leat_dataset_open(file, NULL, &base, &error)); /* without codes */
        fail_allocation(n < 0 ? INT64_MAX : n);
        const int rc = leat_dataset_where(base, clause, &d, &error);
        reached = allocation_failed() || n < 0;
        assert_true(rc == LEAT_OK || rc == LEAT_E_NOMEM);
        assert_true(rc ? !d : d != NULL);
        if (!rc) {
            want = n < 0 ? leat_dataset_count(d) : want;
            assert_int_equal(leat_dataset_count(d), want);
            leat_dataset_release(d);
        }
        leat_dataset_release(base);
    }
}

TEST_SET_UP(without_memory_queries_fail_cleanly)
{
    fail_each_allocation(path, clauses[1]);
    fail_each_allocation(repeated, "kind IN ('kind 1', 'kind 2') AND x * 2 > 7000");
}

TEST_SET_UP(without_memory_sets_fail_cleanly)
{
    struct leat_error error;
    struct leat_dataset *a, *b;
    int64_t shuffled[500];
    for (int i = 0; i < 500; i++)
        shuffled[i] = (int64_t)leat_draw_below(3, (uint64_t)i, N);
    assert_ok(leat_dataset_where(whole, clauses[2], &a, &error));
    assert_ok(leat_dataset_select(whole, shuffled, 500, &b, &error));
    for (long n = 0, reached = 1; reached; n++) {
        struct leat_dataset *d = NULL;
        fail_allocation(n);
        const int rc = leat_dataset_combine(a, b, LEAT_COMBINE_OR, &d, &error);
        reached = allocation_failed();
        assert_true(rc == LEAT_OK || rc == LEAT_E_NOMEM);
        assert_true(rc || reached || d);
        leat_dataset_release(d);
    }
    leat_dataset_release(a);
    leat_dataset_release(b);
}

/* ---- builds of SQLite -------------------------------------------------------------------------- */

static void say_x(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    sqlite3_result_text(context, "x", 1, SQLITE_STATIC);
}

/* As a build with ICU has them. */
static int other_functions(sqlite3 *db, char **message, const void *api)
{
    static const struct {
        const char *name;
        int n;
    } functions[] = {{"lower", 1}, {"upper", 1}, {"like", 2}, {"glob", 2}, {"regexp", 2}};
    int rc = SQLITE_OK;
    for (size_t i = 0; i < sizeof functions / sizeof *functions && !rc; i++)
        rc = sqlite3_create_function_v2(db, functions[i].name, functions[i].n, SQLITE_UTF8, NULL, say_x, NULL, NULL,
                                        NULL);
    return rc;
}

TEST_SET_UP(what_a_clause_selects_does_not_depend_on_the_build_of_sqlite)
{
    static const char *const texts[] = {"lower('\303\204bC') || upper('\303\244bC') = '\303\204bc\303\244BC'",
                                        "upper(lower(NULL)) IS NULL AND lower('') = ''",
                                        "'abc' LIKE 'A%' AND 'abc' GLOB 'a*' AND 'abc' NOT LIKE 'x'",
                                        "(0.1 + 0.2) || '' = '0.3'"};
    struct leat_dataset *d;
    struct leat_error error;
    assert_int_equal(sqlite3_auto_extension((void (*)(void))other_functions), SQLITE_OK);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_ok(leat_dataset_where(whole, texts[i], &d, &error));
        assert_int_equal(leat_dataset_count(d), N);
        leat_dataset_release(d);
    }
    assert_int_equal(leat_dataset_where(whole, "'abc' REGEXP 'x'", &d, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "the function regexp is refused"));
    sqlite3_cancel_auto_extension((void (*)(void))other_functions);
    for (int known = 0; known < 2; known++) { /* one that newer builds have and leat does not take, and one of none */
        assert_int_equal(leat_dataset_where(whole, known ? "octet_length('a') = 1" : "unheard(1)", &d, &error),
                         LEAT_E_INVALID);
        assert_non_null(
            strstr(error.message, known ? "the function octet_length is refused" : "the function unheard is refused"));
    }
    assert_int_equal(leat_dataset_where(whole, "leat_truth(1)", &d, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "the function leat_truth is refused"));
}

TEST_MAIN()
