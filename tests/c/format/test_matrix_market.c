/* Lines of Matrix Market files. */
#include "../test.h"
#include "leat/stored.h"

enum { MOST = 20 };

static int32_t rows[MOST], columns[MOST];
static double values[MOST];
static uint64_t n;
static struct leat_error error;

/* Reads lines of a matrix of 30 rows and 20 columns, from line 5 on, out of a copy of exactly that length. */
static int lines_of(const char *text, size_t bytes, bool pattern, uint64_t *line)
{
    char *copy = malloc(bytes ? bytes : 1);
    assert_non_null(copy);
    memcpy(copy, text, bytes);
    struct leat_matrix_lines m = {.path = "a.mtx",
                                  .line = 5,
                                  .n_rows = 30,
                                  .n_columns = 20,
                                  .pattern = pattern,
                                  .rows = rows,
                                  .columns = columns,
                                  .values = values};
    error.message[0] = 0;
    const int rc = leat_matrix_lines(&m, copy, bytes, &n, &error);
    *line = m.line;
    free(copy);
    return rc;
}

static void assert_one(const char *text, bool pattern, int32_t row, int32_t column, double value)
{
    uint64_t line;
    const int rc = lines_of(text, strlen(text), pattern, &line);
    if (rc)
        fail_msg("\"%s\": %s", text, error.message);
    assert_int_equal(n, 1);
    assert_int_equal(rows[0], row - 1);
    assert_int_equal(columns[0], column - 1);
    assert_true(values[0] == value); /* both are the nearest number */
}

static void assert_none(const char *text, bool pattern)
{
    uint64_t line;
    if (lines_of(text, strlen(text), pattern, &line) != LEAT_E_CORRUPT)
        fail_msg("\"%s\" is an entry", text);
    assert_int_equal(n, 0);
    assert_int_equal(line, 5);
    assert_non_null(strstr(error.message, "a.mtx, line 5: "));
}

TEST(an_entry_is_a_row_a_column_and_a_value_between_blanks)
{
    assert_one("1 1 5\n", false, 1, 1, 5);
    assert_one("30 20 5\n", false, 30, 20, 5);
    assert_one("3 4 5", false, 3, 4, 5);
    assert_one("  3\t 4  5 \t\n", false, 3, 4, 5);
    assert_one("3 4 5\r\n", false, 3, 4, 5);
    assert_one("3 4 5\r", false, 3, 4, 5);
    assert_one("003 04 05\n", false, 3, 4, 5);
    assert_one("3 4 -1.5e-3\n", false, 3, 4, -1.5e-3);
    assert_one("3 4 +2.\n", false, 3, 4, 2);
    assert_one("3 4 0\n", false, 3, 4, 0);
    assert_one("3 4 12345678901234567890\n", false, 3, 4, 12345678901234567890.0);
}

TEST(a_line_of_a_pattern_has_no_value)
{
    assert_one("3 4\n", true, 3, 4, 1);
    assert_one("3 4 \r\n", true, 3, 4, 1);
    assert_one("3 4", true, 3, 4, 1);
    assert_none("3 4 1\n", true);
    assert_none("3\n", true);
}

TEST(what_is_no_entry_names_its_line)
{
    static const char *const wrong[] = {"3 4\n",
                                        "3 4 \n",
                                        "3\n",
                                        "3 4 5 6\n",
                                        "0 4 5\n",
                                        "3 0 5\n",
                                        "31 4 5\n",
                                        "3 21 5\n",
                                        "-3 4 5\n",
                                        "3 -4 5\n",
                                        "+3 4 5\n",
                                        "3.0 4 5\n",
                                        "3 4 x\n",
                                        "3 4 5x\n",
                                        "3 4 nan\n",
                                        "x\n",
                                        "3, 4, 5\n",
                                        "3 4 0x5\n",
                                        "3 4 --5\n",
                                        "3 4 5 %\n",
                                        " % a\n",
                                        "99999999999999999999 4 5\n",
                                        "3 18446744073709551617 5\n",
                                        "3 4 .\n",
                                        "3 4 -\n",
                                        "3 4 \x01\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_none(wrong[i], false);
    uint64_t line;
    assert_int_equal(lines_of("3 4 \0", 5, false, &line), LEAT_E_CORRUPT);
}

TEST(empty_lines_and_comments_are_counted_and_passed_over)
{
    uint64_t line;
    const char text[] = "% 9 9 9\n\n1 2 3\n \t\r\n%\n%%\r\n\r\n4 5 6\n\n";
    assert_int_equal(lines_of(text, sizeof text - 1, false, &line), LEAT_OK);
    assert_int_equal(n, 2);
    assert_int_equal(line, 5 + 9);
    assert_int_equal(rows[1], 3);
    assert_int_equal(lines_of("", 0, false, &line), LEAT_OK);
    assert_int_equal(n, 0);
    assert_int_equal(line, 5);
}

TEST(an_error_in_a_later_line_leaves_the_entries_before_it)
{
    uint64_t line;
    const char text[] = "1 2 3\n% a\n2 2 3\n2 x 3\n5 5 5\n";
    assert_int_equal(lines_of(text, sizeof text - 1, false, &line), LEAT_E_CORRUPT);
    assert_int_equal(n, 2);
    assert_int_equal(line, 8);
    assert_non_null(strstr(error.message, "a.mtx, line 8: \"2 x 3\" is no entry"));
    assert_non_null(strstr(error.message, "a row from 1 to 30, a column from 1 to 20, a number"));
}

TEST(a_text_that_ends_anywhere_gives_its_entries_or_an_error)
{
    uint64_t line;
    const char text[] = "1 2 3.5\r\n% a\n30 20 -7e2\n4 5 6";
    for (size_t cut = 0; cut < sizeof text; cut++) {
        const int rc = lines_of(text, cut, false, &line);
        assert_true(rc == LEAT_OK || rc == LEAT_E_CORRUPT);
        assert_true(n <= 3 && line >= 5 && line <= 9);
    }
}

TEST(rows_beyond_int32_are_no_entries_however_large_the_matrix)
{
    struct leat_matrix_lines m = {.path = "a.mtx",
                                  .line = 1,
                                  .n_rows = UINT64_MAX,
                                  .n_columns = UINT64_MAX,
                                  .rows = rows,
                                  .columns = columns,
                                  .values = values};
    const char good[] = "2147483648 2147483648 1", bad[] = "2147483649 1 1", worse[] = "18446744073709551615 1 1",
               over[] = "18446744073709551617 1 1";
    assert_int_equal(leat_matrix_lines(&m, good, sizeof good - 1, &n, NULL), LEAT_OK);
    assert_int_equal(rows[0], INT32_MAX);
    assert_int_equal(columns[0], INT32_MAX);
    assert_int_equal(leat_matrix_lines(&m, bad, sizeof bad - 1, &n, NULL), LEAT_E_CORRUPT);
    assert_int_equal(leat_matrix_lines(&m, worse, sizeof worse - 1, &n, NULL), LEAT_E_CORRUPT);
    assert_int_equal(leat_matrix_lines(&m, over, sizeof over - 1, &n, NULL), LEAT_E_CORRUPT);
}

TEST_MAIN()
