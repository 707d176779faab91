#include "../test.h"

#include <math.h>

#include "base/alloc.h"
#include "base/number.h"
#include "format/json_text.h"

TEST(every_number_is_that_of_the_c_library)
{
    static const char *const texts[] = {"0",
                                        "-0",
                                        "1.1",
                                        "668.4736842105262",
                                        "147.99999999999997",
                                        "9007199254740993",
                                        "123456789012345678901234567890",
                                        "4.9e-324",
                                        "1e400",
                                        "2.2250738585072011e-308",
                                        "0.000000000000000000000000000001",
                                        "179769313486231580793e289",
                                        "1e22",
                                        "1e23",
                                        "18446744073709551615",
                                        "18446744073709551617.5"};
    struct leat_number n;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(leat_number_read(texts[i], strlen(texts[i]), LEAT_NUMBER_JSON, &n), strlen(texts[i]));
        assert_true(n.value == strtod(texts[i], NULL));
    }
    uint64_t draw = 1;
    for (int i = 0; i < 200000; i++) {
        char text[64];
        draw = draw * UINT64_C(6364136223846793005) + 1442695040888963407;
        snprintf(text, sizeof text, "%.*g", (int)(draw >> 60) + 3, ldexp((double)(draw >> 11), (int)(draw % 90) - 60));
        assert_int_equal(leat_number_read(text, strlen(text), LEAT_NUMBER_JSON, &n), strlen(text));
        assert_true(n.value == strtod(text, NULL));
    }
}

TEST(whole_numbers_are_told_from_others)
{
    struct leat_number n;
    leat_number_read("-900000000000000001", 19, LEAT_NUMBER_JSON, &n);
    assert_true(n.is_whole && n.whole == -INT64_C(900000000000000001));
    leat_number_read("-9223372036854775807", 20, LEAT_NUMBER_JSON, &n);
    assert_true(n.is_whole && n.whole == -INT64_MAX);
    leat_number_read("-9223372036854775808", 20, LEAT_NUMBER_JSON, &n);
    assert_true(n.is_whole && n.whole == INT64_MIN);
    leat_number_read("-9223372036854775809", 20, LEAT_NUMBER_JSON, &n);
    assert_false(n.is_whole);
    leat_number_read("9.0", 3, LEAT_NUMBER_JSON, &n);
    assert_false(n.is_whole);
    leat_number_read("1e3", 3, LEAT_NUMBER_JSON, &n);
    assert_false(n.is_whole);
    leat_number_read("9223372036854775808", 19, LEAT_NUMBER_JSON, &n);
    assert_false(n.is_whole);
    assert_int_equal(leat_number_read("01", 2, LEAT_NUMBER_JSON, &n), 0);
    assert_int_equal(leat_number_read("+.5e", 4, LEAT_NUMBER_TEXT, &n), 3);
    assert_true(n.value == 0.5);
    assert_int_equal(leat_number_read(".", 1, LEAT_NUMBER_TEXT, &n), 0);
}

/* Texts and numbers lie across the borders of what is read at a time, and a text is longer than that. */
TEST(a_long_file_is_read_piece_by_piece)
{
    enum { ITEMS = 150000, LONG = 3 << 20 };
    struct leat_io_file *file;
    struct leat_json j;
    struct leat_error error;
    size_t room = (size_t)ITEMS * 40 + LONG + 100, n = 0;
    char *text = leat_alloc(room);
    n += (size_t)sprintf(text, "{\"list\": [");
    for (int i = 0; i < ITEMS; i++)
        n += (size_t)sprintf(text + n, "%s\n[%d.25, \"t\\u00e9%d\"]", i ? "," : "", i, i);
    n += (size_t)sprintf(text + n, "], \"long\": \"");
    memset(text + n, 'x', LONG);
    n += LONG;
    n += (size_t)sprintf(text + n, "\"}\n");
    assert_int_equal(leat_io_from_memory("long.json", text, n, &file, &error), LEAT_OK);
    leat_json_begin(&j, file, &error);
    char key[8], want[32];
    size_t length;
    assert_true(leat_json_enter(&j, '{') && leat_json_key(&j, key, sizeof key) && leat_json_enter(&j, '['));
    for (int i = 0; i < ITEMS; i++) {
        double number = -1;
        assert_true(leat_json_item(&j) && leat_json_enter(&j, '['));
        assert_int_equal(leat_json_line(&j), i + 2);
        assert_true(leat_json_item(&j) && leat_json_read_number(&j, &number, NULL, NULL));
        assert_true(number == i + 0.25);
        snprintf(want, sizeof want, "t\xc3\xa9%d", i);
        assert_true(leat_json_item(&j));
        assert_string_equal(leat_json_string(&j, NULL), want);
        assert_false(leat_json_item(&j));
    }
    assert_false(leat_json_item(&j));
    assert_true(leat_json_key(&j, key, sizeof key));
    assert_string_equal(key, "long");
    assert_non_null(leat_json_string(&j, &length));
    assert_int_equal(length, LONG);
    assert_false(leat_json_key(&j, key, sizeof key));
    assert_int_equal(leat_json_end(&j), LEAT_OK);
    leat_io_release(file);
    leat_free(text);
}

TEST(a_fault_names_file_line_and_byte)
{
    static const struct {
        const char *text, *at, *says;
    } broken[] = {{"{\"a\": 1,\n \"b\": [1,\n 2 3]}", "3]", "broken.json is no JSON text in line 3: a comma"},
                  {"{\"a\":\n \"text\\q\"}", "\\q", "in line 2: an escape"},
                  {"{\"a\\u0000\": 1}", "\\u", "in line 1: an escape"},
                  {"{\"a\"\n\n 1}", "1}", "in line 3: a colon"}};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        const char *text = broken[i].text;
        struct leat_io_file *file;
        struct leat_json j;
        struct leat_error error;
        assert_int_equal(leat_io_from_memory("broken.json", text, strlen(text), &file, &error), LEAT_OK);
        leat_json_begin(&j, file, &error);
        leat_json_skip(&j);
        assert_int_equal(leat_json_end(&j), LEAT_E_CORRUPT);
        assert_non_null(strstr(error.message, broken[i].says));
        assert_int_equal(error.offset, strstr(text, broken[i].at) - text);
        leat_io_release(file);
    }
}

/* Values that begin in what is read first, and end in what is read next, wherever the border is. */
TEST(a_value_that_the_end_of_a_read_cuts_is_whole)
{
    static const char values[] = "[null, -1234.5, -Infinity, 98765, {\"k\\u00e9y\" : \"\\ud83d\\ude00 \xe2\x82\xac\"}]";
    enum { READ = 1 << 20 };
    struct leat_error error;
    char *text = leat_alloc(READ + sizeof values);
    assert_non_null(text);
    for (size_t before = 2; before < sizeof values - 1; before += 3) {
        struct leat_io_file *file;
        struct leat_json j;
        double number[3] = {0};
        int64_t whole = 0;
        bool is_whole = false;
        char key[8];
        const size_t n = READ - before + sizeof values - 1;
        memset(text, ' ', READ);
        memcpy(text + READ - before, values, sizeof values - 1);
        assert_int_equal(leat_io_from_memory("cut.json", text, n, &file, &error), LEAT_OK);
        leat_json_begin(&j, file, &error);
        assert_true(leat_json_enter(&j, '[') && leat_json_item(&j) && leat_json_skip(&j));
        for (int i = 0; i < 3; i++)
            assert_true(leat_json_item(&j) && leat_json_read_number(&j, &number[i], &is_whole, &whole));
        assert_true(number[0] == -1234.5);
        assert_true(isinf(number[1]) && number[1] < 0);
        assert_true(number[2] == 98765 && is_whole && whole == 98765);
        assert_true(leat_json_item(&j) && leat_json_enter(&j, '{') && leat_json_key(&j, key, sizeof key));
        assert_string_equal(key, "k\xc3\xa9y");
        assert_string_equal(leat_json_string(&j, NULL), "\xf0\x9f\x98\x80 \xe2\x82\xac");
        assert_false(leat_json_key(&j, key, sizeof key) || leat_json_item(&j));
        assert_int_equal(leat_json_end(&j), LEAT_OK);
        leat_io_release(file);
    }
    leat_free(text);
}

/* What a text is; NULL: it is none. */
static const char *text_of(const char *json)
{
    static char text[64];
    struct leat_io_file *file;
    struct leat_json j;
    struct leat_error error;
    assert_int_equal(leat_io_from_memory("text.json", json, strlen(json), &file, &error), LEAT_OK);
    leat_json_begin(&j, file, &error);
    const char *found = leat_json_string(&j, NULL);
    snprintf(text, sizeof text, "%s", found ? found : "");
    const int rc = leat_json_end(&j);
    leat_io_release(file);
    assert_int_equal(rc, found ? LEAT_OK : LEAT_E_CORRUPT);
    return found ? text : NULL;
}

TEST(a_character_beyond_16_bits_is_two_escapes_and_half_of_one_is_none)
{
    static const char *const halves[] = {"\"\\ud83d\"",        "\"\\ude00\"",        "\"\\ud83dx\\ude00\"",
                                         "\"\\ud83d\\ud83d\"", "\"\\ud83d\\ue000\"", "\"\\ud83d\\ude0\"",
                                         "\"\\ude00\\ud83d\""};
    assert_string_equal(text_of("\"a\\ud83d\\ude00b\""), "a\xf0\x9f\x98\x80"
                                                         "b");
    assert_string_equal(text_of("\"\\uD800\\uDC00\""), "\xf0\x90\x80\x80");
    assert_string_equal(text_of("\"\\udbff\\udfff\""), "\xf4\x8f\xbf\xbf");
    assert_string_equal(text_of("\"\\ud7ff\\ue000\""), "\xed\x9f\xbf\xee\x80\x80");
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++)
        assert_null(text_of(halves[i]));
}

TEST_MAIN()
