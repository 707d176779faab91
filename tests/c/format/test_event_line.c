/* Lines of files of events. */
#include "../test.h"
#include "format/event_line.h"

enum { MOST = 20 };

static struct leat_event event;
static float features[MOST];
static struct leat_event_fault fault;

/* Reads a line out of a copy of exactly its length. */
static bool read_line(enum leat_event_form form, const char *line)
{
    const size_t n = strlen(line);
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    assert_true(n / 2 + 1 <= MOST);
    memcpy(copy, line, n);
    const bool good = leat_event_line_read(form, copy, n, &event, features, &fault);
    free(copy);
    return good;
}

static void assert_event(enum leat_event_form form, const char *line, int64_t src, int64_t dst, double time,
                         size_t n_features)
{
    if (!read_line(form, line))
        fail_msg("\"%s\": %s (byte %zu)", line, fault.what, fault.at);
    assert_int_equal(event.src, src);
    assert_int_equal(event.dst, dst);
    assert_true(event.time.value == time);
    assert_int_equal(event.n_features, n_features);
}

static void assert_wrong(enum leat_event_form form, const char *line, size_t at, const char *what)
{
    if (read_line(form, line))
        fail_msg("\"%s\" is an event", line);
    if (!strstr(fault.what, what) || fault.at != at)
        fail_msg("\"%s\": %s (byte %zu)", line, fault.what, fault.at);
}

TEST(blanks_tabs_and_commas_separate_src_dst_and_time)
{
    assert_event(LEAT_EVENTS_PLAIN, "1 2 3", 1, 2, 3, 0);
    assert_event(LEAT_EVENTS_PLAIN, "  1\t2 \t 3  \r", 1, 2, 3, 0);
    assert_event(LEAT_EVENTS_PLAIN, "1,2,3", 1, 2, 3, 0);
    assert_event(LEAT_EVENTS_PLAIN, "1 , 2,\t3 ,-4.5 5", 1, 2, 3, 2);
    assert_true(features[0] == -4.5F && features[1] == 5);
    assert_event(LEAT_EVENTS_PLAIN, "0 2147483647 -1e3", 0, INT32_MAX, -1000, 0);
    assert_event(LEAT_EVENTS_PLAIN, "007 08 1082040961", 7, 8, 1082040961, 0);
    assert_true(event.time.is_whole);
    assert_event(LEAT_EVENTS_PLAIN, "1 2 3.0", 1, 2, 3, 0);
    assert_false(event.time.is_whole);
}

TEST(a_line_that_is_no_event_says_what_was_expected_and_where)
{
    static const char src[] = "src is a whole number from 0 to 2147483647", dst[] = "dst is a whole number",
                      time[] = "a time is a finite number", feature[] = "a feature is a number that float32 can hold";
    assert_wrong(LEAT_EVENTS_PLAIN, "-1 2 3", 0, src);
    assert_wrong(LEAT_EVENTS_PLAIN, "2147483648 2 3", 0, src);
    assert_wrong(LEAT_EVENTS_PLAIN, "99999999999999999999999 2 3", 0, src);
    assert_wrong(LEAT_EVENTS_PLAIN, "1.0 2 3", 0, src);
    assert_wrong(LEAT_EVENTS_PLAIN, "u7 2 3", 0, src);
    assert_wrong(LEAT_EVENTS_PLAIN, "1;2;3", 0, src);
    assert_wrong(LEAT_EVENTS_PLAIN, "1 -2 3", 2, dst);
    assert_wrong(LEAT_EVENTS_PLAIN, "1,,3", 2, dst);
    assert_wrong(LEAT_EVENTS_PLAIN, "1 2 nan", 4, time);
    assert_wrong(LEAT_EVENTS_PLAIN, "1 2 inf", 4, time);
    assert_wrong(LEAT_EVENTS_PLAIN, "1 2 1e999", 4, time);
    assert_wrong(LEAT_EVENTS_PLAIN, "1 2 12:30", 4, time);
    assert_wrong(LEAT_EVENTS_PLAIN, "1 2 ,", 5, time);
    assert_wrong(LEAT_EVENTS_PLAIN, "1 2", 3, "a line is src, dst and time");
    assert_wrong(LEAT_EVENTS_PLAIN, "1", 1, "a line is src, dst and time");
    assert_wrong(LEAT_EVENTS_PLAIN, "1 2 3 x", 6, feature);
    assert_wrong(LEAT_EVENTS_PLAIN, "1 2 3 nan", 6, feature);
    assert_wrong(LEAT_EVENTS_PLAIN, "1 2 3 4e38", 6, feature);
    assert_wrong(LEAT_EVENTS_PLAIN, "1 2 3 4,", 8, feature);
}

TEST(a_line_of_jodie_has_a_label_and_features_between_commas)
{
    assert_event(LEAT_EVENTS_JODIE, "3,4,5.5,1,0.25,-1", 3, 4, 5.5, 2);
    assert_int_equal(event.label, 1);
    assert_true(features[0] == 0.25F && features[1] == -1);
    assert_event(LEAT_EVENTS_JODIE, "3, 4 ,5,-1.0", 3, 4, 5, 0);
    assert_int_equal(event.label, -1);
    assert_wrong(LEAT_EVENTS_JODIE, "3,4,5,0.5", 6, "a label is a whole number");
    assert_wrong(LEAT_EVENTS_JODIE, "3,4,5", 5, "a line is user, item, time and label, then features");
    assert_wrong(LEAT_EVENTS_JODIE, "3 4 5 1", 0, "a user is a whole number");
    assert_wrong(LEAT_EVENTS_JODIE, "3,4,5,1 2", 6, "a label is a whole number");
}

TEST(a_line_of_tgn_has_six_numbers)
{
    assert_event(LEAT_EVENTS_TGN, "0,4,5,258552.0,0.0,1", 4, 5, 258552, 0);
    assert_int_equal(event.label, 0);
    assert_int_equal(event.idx, 1);
    assert_wrong(LEAT_EVENTS_TGN, "0,4,5,1.0,0.0", 13, "a line is a number, u, i, ts, label and idx");
    assert_wrong(LEAT_EVENTS_TGN, "0,4,5,1.0,0.0,1,2", 16, "a line is a number, u, i, ts, label and idx");
    assert_wrong(LEAT_EVENTS_TGN, "0,4,5,1.0,0.0,1.5", 14, "idx is a whole number");
    assert_wrong(LEAT_EVENTS_TGN, "x,4,5,1.0,0.0,1", 0, "a line begins with its number");
}

TEST(blank_lines_and_comments_are_nothing)
{
    assert_true(leat_event_line_is_nothing(LEAT_EVENTS_PLAIN, " \t\r", 3));
    assert_true(leat_event_line_is_nothing(LEAT_EVENTS_PLAIN, "", 0));
    assert_true(leat_event_line_is_nothing(LEAT_EVENTS_PLAIN, " # a", 4));
    assert_true(leat_event_line_is_nothing(LEAT_EVENTS_PLAIN, "% a", 3));
    assert_false(leat_event_line_is_nothing(LEAT_EVENTS_PLAIN, "1 # a", 5));
    assert_false(leat_event_line_is_nothing(LEAT_EVENTS_JODIE, "# a", 3));
}

TEST(a_header_is_words_and_of_tgn_its_own)
{
    static const char *const good[] = {"src dst time", "src,dst,t", " \"u\" , v2\t_t \r"}, *const bad[] = {
                                                                                               "src 2 3", "1 2 3",
                                                                                               "a,,b", "nan 3 4", ""};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(leat_event_line_is_header(LEAT_EVENTS_PLAIN, good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(leat_event_line_is_header(LEAT_EVENTS_PLAIN, bad[i], strlen(bad[i])));
    static const char tgn[] = ",u,i,ts,label,idx\r", more[] = ",u,i,ts,label,idx,x";
    assert_true(leat_event_line_is_header(LEAT_EVENTS_TGN, tgn, sizeof tgn - 1));
    assert_false(leat_event_line_is_header(LEAT_EVENTS_TGN, more, sizeof more - 1));
    assert_false(leat_event_line_is_header(LEAT_EVENTS_TGN, tgn, 5));
}

TEST_MAIN()
