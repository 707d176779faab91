/* One rule for names: format/names.h. */
#include "format/names.h"

#include <stdio.h>
#include <string.h>

#include "../test.h"
#include "base/unicode.h"

TEST(slashes_and_dots_mean_nothing)
{
    (void)state;
    static const char *const all[][2] = {{"a", "a"},
                                         {"./a", "a"},
                                         {"././/a", "a"},
                                         {"a//b", "a/b"},
                                         {"a/./b", "a/b"},
                                         {"/a", "/a"},
                                         {"//a///b", "/a/b"},
                                         {"/./a", "/a"},
                                         {".a/..b", ".a/..b"},
                                         {"../a", "../a"},
                                         {"a/", "a/"},
                                         {"a/.", "a/"},
                                         {"", ""},
                                         {".", ""},
                                         {"/", "/"},
                                         {"a/../b", "a/../b"},
                                         {"a b/.c", "a b/.c"},
                                         {"x.y//z.png", "x.y/z.png"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char out[64];
        leat_name_clean(all[i][0], out);
        assert_string_equal(out, all[i][1]);
        strcpy(out, all[i][0]);
        leat_name_clean(out, out);
        assert_string_equal(out, all[i][1]);
    }
}

static enum leat_names_found find(const struct leat_names *s, const char *name, const char **found)
{
    size_t number;
    const enum leat_names_found how = leat_names_find(s, name, &number);
    *found = how ? leat_names_at(s, number) : "";
    return how;
}

TEST(a_name_finds_the_one_that_is_spelled_so_then_the_first)
{
    (void)state;
    static const char *const names[] = {"a.Txt",
                                        "a.tXT",
                                        "a.TXT",
                                        "sub/b.txt",
                                        "caf\u00e9.txt",
                                        "cafe\u0301.TXT",
                                        "o\u0302\u0323.txt",
                                        "\xff.txt",
                                        "x\u0301.txt",
                                        "\u03bf\u03c9\u0450\u0430\u044f.txt"};
    static const struct {
        const char *wanted, *found;
        enum leat_names_found how;
    } all[] = {{"a.txt", "a.TXT", LEAT_NAMES_FOUND},
               {"./a.tXT", "a.tXT", LEAT_NAMES_FOUND},
               {"A.txt", "a.TXT", LEAT_NAMES_OTHER_FORM},
               {"SUB/b.txt", "sub/b.txt", LEAT_NAMES_OTHER_FORM},
               {"CAF\u00c9.txt", "cafe\u0301.TXT", LEAT_NAMES_OTHER_FORM},
               {"\u039f\u03a9\u0400\u0410\u042f.txt", "\u03bf\u03c9\u0450\u0430\u044f.txt", LEAT_NAMES_OTHER_FORM},
               {"\u0391\u0420.txt", "", LEAT_NAMES_NONE},
               {"sub//b.TXT", "sub/b.txt", LEAT_NAMES_FOUND},
               {"b.txt", "", LEAT_NAMES_NONE},
               {"caf\u00e9.TXT", "caf\u00e9.txt", LEAT_NAMES_FOUND},
               {"cafe\u0301.txt", "cafe\u0301.TXT", LEAT_NAMES_FOUND},
               {"\u1ed9.txt", "o\u0302\u0323.txt", LEAT_NAMES_OTHER_FORM},
               {"\u00f4\u0323.txt", "o\u0302\u0323.txt", LEAT_NAMES_OTHER_FORM},
               {"\xff.TXT", "\xff.txt", LEAT_NAMES_FOUND},
               {"\xfe.txt", "", LEAT_NAMES_NONE},
               {"x.txt", "", LEAT_NAMES_NONE},
               {"", "", LEAT_NAMES_NONE}};
    for (unsigned turn = 0; turn < 2; turn++) {
        struct leat_names s = {0};
        const size_t n = sizeof names / sizeof *names;
        const char *found;
        assert_int_equal(find(&s, "a.txt", &found), LEAT_NAMES_NONE);
        for (size_t i = 0; i < n; i++)
            assert_true(leat_names_add(&s, names[turn ? n - 1 - i : i]));
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            assert_int_equal(find(&s, all[i].wanted, &found), all[i].how);
            assert_string_equal(found, all[i].found);
        }
        leat_names_destroy(&s);
    }
}

TEST(many_names_are_found_and_those_too_long_are_not)
{
    (void)state;
    enum { MANY = 5000 };
    struct leat_names s = {0};
    char name[LEAT_NAME_BYTES + 2];
    size_t number;
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "%u/%u.%s", i % 7, i, i % 2 ? "PNG" : "png");
        assert_true(leat_names_add(&s, name));
    }
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_true(leat_names_add(&s, name));
    assert_int_equal(leat_names_find(&s, name, &number), LEAT_NAMES_NONE);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "./%u//%u.pNg", i % 7, i);
        assert_int_equal(leat_names_find(&s, name, &number), LEAT_NAMES_FOUND);
        assert_int_equal(number, i);
        snprintf(name, sizeof name, "%u/%u.png", (i + 1) % 7, i);
        assert_int_equal(leat_names_find(&s, name, &number), LEAT_NAMES_NONE);
    }
    leat_names_destroy(&s);
}

TEST(a_text_of_marks_is_decomposed_in_time_and_within_its_room)
{
    (void)state;
    char text[LEAT_NAME_BYTES], out[LEAT_UNICODE_GROWTH * LEAT_NAME_BYTES];
    for (unsigned kind = 0; kind < 3; kind++) {
        size_t n = 0;
        for (unsigned i = 0; n + 4 < sizeof text; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s",
                                  kind == 0  ? "\u0390"
                                  : kind > 1 ? "\U0001d160"
                                  : i % 2    ? "\u0302"
                                             : "\u0301");
        const size_t used = leat_unicode_decompose(text, n, out);
        assert_int_equal(used, kind == 1 ? n : 3 * n);
        assert_int_equal(leat_unicode_decompose(text, n - 1, out),
                         kind == 1 ? n - 1 : 3 * (n - (kind ? 4 : 2)) + (kind ? 3 : 1));
    }
}

TEST(white_space_is_cut_off_at_both_ends)
{
    (void)state;
    static const char *const all[][2] = {
        {" a b\t\r\n", "a b"}, {"", ""}, {" \v\f", ""}, {"a", "a"}, {"\u00a0a ", "\u00a0a"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[32];
        strcpy(text, all[i][0]);
        leat_trim(text);
        assert_string_equal(text, all[i][1]);
        assert_int_equal(leat_is_blank(all[i][0]), !*all[i][1]);
    }
}

TEST_MAIN()
