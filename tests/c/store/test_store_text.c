#include "../test.h"
#include "format/json_text.h"
#include "store/text.h"

TEST(utf8_is_told_from_what_is_not)
{
    static const char *const good[] = {"",
                                       "a",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const struct {
        const char *text;
        size_t at;
    } bad[] = {{"\x80", 0},
               {"ab\xc1\x80", 2},
               {"\xc2", 0},
               {"\xe0\x9f\xbf", 0},
               {"\xed\xa0\x80", 0},
               {"\xe2\x82", 0},
               {"\xf0\x8f\xbf\xbf", 0},
               {"\xf4\x90\x80\x80", 0},
               {"\xf5\x80\x80\x80", 0},
               {"x\xc3(", 1},
               {"\xff", 0}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(leat_utf8_check(good[i], strlen(good[i])), strlen(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(leat_utf8_check(bad[i].text, strlen(bad[i].text)), bad[i].at);
}

TEST(json_is_told_from_what_is_not)
{
    static const char *const good[] = {"0",
                                       "-0.5e+10",
                                       " [ ] ",
                                       "{}",
                                       "\"\\u00e4\\n\"",
                                       "[1, [2, {\"a\": []}], null]",
                                       "true",
                                       "{\"a\": 1, \"b\": {}}",
                                       "\"\xc3\xa4\"",
                                       "[[[[]]], {}]"};
    static const char *const bad[] = {"",     " ",        "01",        "-",      "1.",         ".5",      "1e",
                                      "[1,]", "[,1]",     "{\"a\"}",   "{a: 1}", "{\"a\":1,}", "[1 2]",   "tru",
                                      "\"",   "\"\\x\"",  "\"\\u12\"", "\"\t\"", "1 2",        "[}",      "]",
                                      "{]",   "\"\xff\"", "NaN",       "[",      "{\"a\":",    "{\"a\":1"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(leat_json_check(good[i], strlen(good[i])), strlen(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (strlen(bad[i]) && leat_json_check(bad[i], strlen(bad[i])) == strlen(bad[i]))
            fail_msg("taken for JSON: %s", bad[i]);
}

TEST(deep_nesting_is_refused_and_never_overflows)
{
    enum { DEEP = 100000 };
    char *text = malloc(2 * DEEP);
    for (size_t depth = 510; depth < 515; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        assert_int_equal(leat_json_check(text, 2 * depth) == 2 * depth, depth <= 512);
    }
    memset(text, '[', DEEP);
    memset(text + DEEP, ']', DEEP);
    assert_int_not_equal(leat_json_check(text, 2 * DEEP), 2 * DEEP);
    free(text);
}

TEST_MAIN()
