#include "../test.h"

#include <errno.h>

#include "base/error.h"

TEST(every_code_has_its_own_name_and_text)
{
    for (int code = LEAT_OK; code >= LEAT_E_OPERATOR; code--) {
        assert_string_not_equal(leat_status_name(code), "LEAT_E_UNKNOWN");
        for (int other = LEAT_OK; other > code; other--) {
            assert_string_not_equal(leat_status_name(code), leat_status_name(other));
            assert_string_not_equal(leat_status_text(code), leat_status_text(other));
        }
    }
    assert_string_equal(leat_status_name(LEAT_E_OPERATOR - 1), "LEAT_E_UNKNOWN");
}

TEST(a_message_may_wrap_the_message_that_it_replaces)
{
    struct leat_error error;
    assert_int_equal(leat_fail(&error, LEAT_E_IO, "inner %d", 7), LEAT_E_IO);
    leat_fail(&error, LEAT_E_CORRUPT, "outer: %s", error.message);
    assert_string_equal(error.message, "outer: inner 7");
    assert_int_equal(error.code, LEAT_E_CORRUPT);
}

TEST(a_file_that_cannot_get_longer_says_what_to_do)
{
    (void)state;
    static const struct {
        int sys_errno, code;
        const char *format, *said;
    } cases[] = {
        {ENOSPC, LEAT_E_IO, "x cannot be made", "x cannot be made: No space left on device; make room on the disk"},
        {EDQUOT, LEAT_E_IO, "x cannot be made", "x cannot be made: Disk quota exceeded; make room on the disk"},
        {EFBIG, LEAT_E_IO, "x",
         "x: File too large; raise the limit of the size of files (ulimit -f), or write to a file system that takes "
         "larger ones"},
        {ENOSPC, LEAT_E_IO, "x: make room", "x: make room: No space left on device"},
        {ENOSPC, LEAT_E_NOMEM, "x", "x: No space left on device"},
        {EACCES, LEAT_E_IO, "x", "x: Permission denied"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct leat_error error;
        errno = cases[i].sys_errno;
        assert_int_equal(leat_fail_errno(&error, cases[i].code, "%s", cases[i].format), cases[i].code);
        assert_string_equal(error.message, cases[i].said);
        assert_int_equal(error.sys_errno, cases[i].sys_errno);
    }
}

TEST(a_long_message_is_cut_in_its_middle_and_keeps_its_sentence_and_errno)
{
    (void)state;
    struct leat_error error;
    char name[3000];
    for (unsigned odd = 0; odd < 2; odd++) {
        memset(name, 0, sizeof name);
        memset(name, 'x', odd);
        for (size_t i = odd; i + 2 < sizeof name; i += 2)
            memcpy(name + i, "\u00e9", 2);
        leat_fail(&error, LEAT_E_CORRUPT, "the photo %s is not there", name);
        assert_in_range(strlen(error.message), sizeof error.message - 4, sizeof error.message - 1);
        assert_memory_equal(error.message, "the photo ", 10);
        assert_non_null(strstr(error.message, "\u00e9...\u00e9"));
        assert_non_null(strstr(error.message, "\u00e9 is not there"));
        errno = EACCES;
        leat_fail_errno(&error, LEAT_E_IO, "cannot list %s", name);
        assert_non_null(strstr(error.message, ": Permission denied"));
    }
}

TEST(a_message_that_gets_long_by_escapes_keeps_its_end)
{
    (void)state;
    struct leat_error error;
    char name[701];
    memset(name, '\n', 700);
    name[700] = 0;
    leat_fail(&error, LEAT_E_CORRUPT, "the photo %s is not there", name);
    assert_in_range(strlen(error.message), sizeof error.message - 4, sizeof error.message - 1);
    assert_memory_equal(error.message, "the photo \\x0a", 14);
    assert_non_null(strstr(error.message, " is not there"));
}

TEST(a_long_path_is_cut_at_the_front)
{
    struct leat_error error;
    char path[2000];
    memset(path, 'a', sizeof path);
    memcpy(path + sizeof path - 6, "z.jpg", 6);
    leat_fail(&error, LEAT_E_IO, "x");
    leat_error_at_file(&error, path, 12);
    assert_int_equal(strlen(error.file), sizeof error.file - 1);
    assert_string_equal(error.file + strlen(error.file) - 5, "z.jpg");
    assert_int_equal(error.offset, 12);
}

TEST(names_and_passwords_in_addresses_are_left_out)
{
    struct leat_error error;
    char path[2000];
    leat_fail(&error, LEAT_E_IO,
              "cannot read http://ann:p@ss@host:80/a@b, nor https://key@host?x, nor http://host/a@b");
    assert_string_equal(error.message, "cannot read http://host:80/a@b, nor https://host?x, nor http://host/a@b");
    leat_error_at_file(&error, "http://ann:sec@ret@host/file", LEAT_NO_OFFSET);
    assert_string_equal(error.file, "http://host/file");
    memset(path, 'a', sizeof path);
    memcpy(path, "http://ann:", 11);
    memcpy(path + sizeof path - 12, "@host/z.jpg", 12);
    leat_error_at_file(&error, path, LEAT_NO_OFFSET);
    assert_string_equal(error.file, "http://host/z.jpg");
    memcpy(path + 100, "@host/", 6);
    leat_error_at_file(&error, path, LEAT_NO_OFFSET);
    assert_int_equal(strlen(error.file), sizeof error.file - 1);
    assert_null(strstr(error.file, "ann"));
}

TEST(a_null_error_is_allowed)
{
    assert_int_equal(leat_fail(NULL, LEAT_E_RANGE, "x"), LEAT_E_RANGE);
    leat_error_at_file(NULL, "x", 0);
    leat_error_at_sample(NULL, 0, "x");
}

TEST_MAIN()
