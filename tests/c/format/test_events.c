/* Files of events: their text in any pieces, sorted or not, compressed or not, with rows of features, and as it is
 * kept. */
#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

#include "../allocations.h"
#include "../faulty.h"
#include "../folder.h"
#include "base/alloc.h"
#include "format/event_table.h"
#include "format/source.h"

static struct leat_error error;

static const char *path_of(const char *name)
{
    static char path[2][PATH_MAX + 64];
    static unsigned turn;
    char *out = path[turn++ % 2];
    snprintf(out, sizeof *path, "%s/%s", folder, name);
    return out;
}

static int scan(const char *text, size_t piece, enum leat_event_form form, bool sorts, struct leat_event_table *t)
{
    struct leat_event_scan *s;
    const size_t n = strlen(text);
    error.message[0] = 0;
    int rc = leat_event_scan_begin("a.txt", form, sorts, &s, &error);
    for (size_t at = 0; !rc && at < n; at += piece)
        rc = leat_event_scan_push(s, (const uint8_t *)text + at, n - at < piece ? n - at : piece, &error);
    if (!s)
        return rc;
    const int end = leat_event_scan_end(s, !rc, t, rc ? NULL : &error);
    return rc ? rc : end;
}

static int64_t whole(const struct leat_event_table *t, enum leat_event_column c, uint64_t i)
{
    int64_t out;
    assert_ok(leat_event_table_get(t, c, i, &out, &error));
    return out;
}

static double real(const struct leat_event_table *t, uint64_t i)
{
    double out;
    const int64_t bits = whole(t, LEAT_EVENT_TIME, i);
    memcpy(&out, &bits, sizeof out);
    return out;
}

static void assert_fails(const char *text, enum leat_event_form form, const char *says, int64_t byte)
{
    for (size_t piece = 1; piece < 40; piece++) {
        struct leat_event_table t;
        const int rc = scan(text, piece, form, false, &t);
        assert_int_equal(rc, LEAT_E_CORRUPT);
        if (!strstr(error.message, says) || error.offset != byte)
            fail_msg("\"%s\" (byte %" PRId64 ") is not \"%s\"", error.message, error.offset, says);
    }
}

TEST(pieces_of_any_size_give_the_same_events)
{
    static const char text[] = "\xef\xbb\xbf"
                               "src dst time w\n# c\n1 2 5 0.5\r\n\n3 4 5 1\n5 6 9 -2";
    for (size_t piece = 1; piece < sizeof text; piece++) {
        struct leat_event_table t;
        assert_ok(scan(text, piece, LEAT_EVENTS_PLAIN, false, &t));
        assert_int_equal(t.facts.count, 3);
        assert_int_equal(t.facts.n_features, 1);
        for (uint64_t i = 0; i < 3; i++) {
            assert_int_equal(whole(&t, LEAT_EVENT_SRC, i), 2 * i + 1);
            assert_int_equal(whole(&t, LEAT_EVENT_DST, i), 2 * i + 2);
        }
        assert_int_equal(whole(&t, LEAT_EVENT_TIME, 2), 9);
        assert_true(((const float *)t.columns[LEAT_EVENT_FEATURES])[2] == -2);
        assert_null(t.columns[LEAT_EVENT_LABEL]);
        assert_null(t.columns[LEAT_EVENT_ORDER]);
        leat_event_table_destroy(&t);
    }
}

TEST(what_is_wrong_names_line_and_byte)
{
    assert_fails("1 2 3\n4 5 x\n", LEAT_EVENTS_PLAIN, "a.txt, line 2: a time is a finite number, not \"x\"", 10);
    assert_fails("# a\n\n1 -2 3\n", LEAT_EVENTS_PLAIN, "a.txt, line 3: dst is a whole number", 7);
    assert_fails("1 2 3\n1 2 4 5\n", LEAT_EVENTS_PLAIN, "a.txt, line 2 has 1 features, and the lines before have 0", 6);
    assert_fails("1 2 3\n1 2 4\n1 2 3\n", LEAT_EVENTS_PLAIN, "a.txt, line 3: time 3 comes after 4", 12);
    assert_fails("1 2 3.5\n1 2 -1\n", LEAT_EVENTS_PLAIN, "a.txt, line 2: time -1 comes after 3.5", 8);
    assert_fails("1,2,3,0\n", LEAT_EVENTS_JODIE, "line 1: a file of JODIE begins with the names of its columns", 0);
    assert_fails("0,1,2,3,0,1\n", LEAT_EVENTS_TGN, "line 1: a file of TGN begins with \",u,i,ts,label,idx\"", 0);
    assert_fails("1 2 9007199254740993\n1 2 1.5e15\n", LEAT_EVENTS_PLAIN,
                 "line 1: time 9007199254740993 is too large to stand beside times with a point", 0);
    assert_fails("1 2 3\n1 2 9223372036854775808\n", LEAT_EVENTS_PLAIN,
                 "line 2: a time without a point is at least -2^63 and below 2^63", 10);
    assert_fails("t,src,dst\n1,2,3\n", LEAT_EVENTS_PLAIN, "line 1: columns are src, dst and time, in this order", 0);
    assert_fails("# x\nrow user item ts\n1 2 3 4\n", LEAT_EVENTS_PLAIN, "line 2: columns are src, dst and time", 4);
    assert_fails("1 2 1.5\n1 2 9007199254740993\n", LEAT_EVENTS_PLAIN, "line 2: time 9007199254740993 is too large", 8);
    struct leat_event_table t;
    for (size_t i = 0; i < 3; i++) {
        static const char *const empty[] = {"", "\n# a\n", "src dst time\n"};
        assert_int_equal(scan(empty[i], 7, LEAT_EVENTS_PLAIN, false, &t), LEAT_E_FORMAT);
        assert_non_null(strstr(error.message, "a.txt has no event: each is a line \"src dst time\""));
    }
}

TEST(a_line_without_end_is_refused_before_it_takes_memory)
{
    struct leat_event_scan *s;
    static uint8_t zeros[1 << 16];
    struct leat_event_table t;
    int rc = leat_event_scan_begin("a.txt", LEAT_EVENTS_PLAIN, false, &s, &error);
    unsigned pieces = 0;
    for (; !rc && pieces < 100; pieces++)
        rc = leat_event_scan_push(s, zeros, sizeof zeros, &error);
    assert_int_equal(rc, LEAT_E_CORRUPT);
    assert_int_equal(pieces, 17);
    assert_non_null(strstr(error.message, "line 1 is longer than 1048576 bytes"));
    leat_event_scan_end(s, false, &t, NULL);
}

TEST(times_become_doubles_with_the_first_that_has_a_point)
{
    struct leat_event_table t;
    assert_ok(scan("1 2 -3\n1 2 9007199254740992\n1 2 9007199254740992\n", 9, LEAT_EVENTS_PLAIN, false, &t));
    assert_false(t.facts.real);
    leat_event_table_destroy(&t);
    assert_ok(scan("1 2 -3\n1 2 -0.0\n1 2 0\n1 2 0.1\n1 2 1e300\n", 9, LEAT_EVENTS_PLAIN, false, &t));
    assert_true(t.facts.real);
    const double times[] = {-3, 0, 0, 0.1, 1e300};
    for (uint64_t i = 0; i < 5; i++)
        assert_true(real(&t, i) == times[i]);
    leat_event_table_destroy(&t);
}

TEST(sorting_keeps_the_order_of_equal_times)
{
    enum { N = 500 };
    static char text[N * 40];
    for (unsigned kind = 0; kind < 2; kind++) {
        uint64_t drawn = 7;
        int64_t times[N];
        size_t used = 0;
        struct leat_event_table t;
        for (unsigned i = 0; i < N; i++) {
            drawn = drawn * UINT64_C(6364136223846793005) + 1442695040888963407;
            times[i] = (int64_t)(drawn >> 60) * (i % 3 ? 1 : -70000);
            used += (size_t)snprintf(text + used, sizeof text - used, "%u 1 %" PRId64 "%s %u\n", i, times[i],
                                     kind ? ".5" : "", i);
        }
        assert_ok(scan(text, 1000, LEAT_EVENTS_PLAIN, true, &t));
        assert_true(t.facts.fall_line > 1);
        assert_int_equal(t.facts.count, N);
        uint8_t seen[N] = {0};
        for (uint64_t i = 0; i < N; i++) {
            const int64_t event = whole(&t, LEAT_EVENT_ORDER, i), before = i ? whole(&t, LEAT_EVENT_ORDER, i - 1) : -1;
            assert_int_equal(whole(&t, LEAT_EVENT_SRC, i), event);
            assert_true(((const float *)t.columns[LEAT_EVENT_FEATURES])[i] == (float)event);
            seen[event]++;
            if (kind)
                assert_true(real(&t, i) == (times[event] < 0 ? (double)times[event] - .5 : (double)times[event] + .5));
            const double now = kind ? real(&t, i) : (double)whole(&t, LEAT_EVENT_TIME, i),
                         last = !i     ? now
                                : kind ? real(&t, i - 1)
                                       : (double)whole(&t, LEAT_EVENT_TIME, i - 1);
            assert_true(last < now || (last == now && (before < event)));
        }
        for (unsigned i = 0; i < N; i++)
            assert_int_equal(seen[i], 1);
        leat_event_table_destroy(&t);
    }
}

TEST(items_of_jodie_follow_its_users)
{
    struct leat_event_table t;
    assert_ok(
        scan("user_id,item_id,timestamp,state_label,f\n3,0,1.0,0,1\n1,2,2.0,1,2\n", 11, LEAT_EVENTS_JODIE, false, &t));
    assert_int_equal(t.facts.users, 4);
    assert_int_equal(whole(&t, LEAT_EVENT_DST, 0), 4);
    assert_int_equal(whole(&t, LEAT_EVENT_DST, 1), 6);
    assert_int_equal(whole(&t, LEAT_EVENT_LABEL, 1), 1);
    leat_event_table_destroy(&t);
    assert_int_equal(scan("u,i,t,l\n2147483647,0,1,0\n", 99, LEAT_EVENTS_JODIE, false, &t), LEAT_E_CORRUPT);
    assert_non_null(strstr(error.message, "together these are more than 2^31 nodes"));
}

/* ---- sources --------------------------------------------------------------------------------- */

static const struct leat_open_options no_options = LEAT_OPEN_OPTIONS_INIT;

static int open_file(const char *name, const char *format, bool sort, const char *features, struct leat_source **out)
{
    struct leat_open_options options = no_options;
    options.format = format;
    options.sort = sort;
    options.features = features;
    return leat_source_open(path_of(name), &options, out, &error);
}

static const void *value(struct leat_source *s, size_t field, uint64_t sample)
{
    const void *row;
    size_t failed;
    assert_ok(s->v->rows(s, field, &sample, 1, NULL, &row, &failed, &error));
    return row;
}

static void write_gzip(const char *name, const char *text)
{
    static uint8_t packed[1 << 16];
    z_stream z = {.next_in = (uint8_t *)(uintptr_t)text,
                  .avail_in = (uInt)strlen(text),
                  .next_out = packed,
                  .avail_out = sizeof packed};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    files_write(folder, name, packed, sizeof packed - z.avail_out);
}

/* A file of NumPy with `rows` rows of two floats, row i (i, -i). */
static void write_npy(const char *name, unsigned rows)
{
    struct {
        char head[64];
        float rows[20][2];
    } file = {.head = "\x93NUMPY\1\0"};
    assert_true(rows <= 20);
    file.head[8] = 54;
    memset(file.head + 10, ' ', 54);
    char text[64];
    const int n = snprintf(text, sizeof text, "{'descr':'<f4','fortran_order':False,'shape':(%u,2)}", rows);
    memcpy(file.head + 10, text, (size_t)n);
    for (unsigned i = 0; i < rows; i++) {
        file.rows[i][0] = (float)i;
        file.rows[i][1] = -(float)i;
    }
    files_write(folder, name, &file, sizeof file.head + rows * sizeof *file.rows);
}

static const char tgn[] = ",u,i,ts,label,idx\n0,4,5,0.0,0.0,1\n1,6,3,2.0,1.0,3\n2,6,3,2.0,1.0,2\n";

TEST(the_next_opening_reads_what_was_kept)
{
    struct leat_source *s;
    files_write_text(folder, "a.txt", "1 2 3 0.5\n3 4 5 1\n");
    write_gzip("b.txt", "1 2 3 0.5\n3 4 5 1\n");
    uint64_t sums[2] = {0, 0};
    for (int i = 0; i < 4; i++) {
        leat_faulty_start(&(struct leat_faulty){.only = i & 1 ? "b.txt" : "a.txt"});
        assert_ok(open_file(i & 1 ? "b.txt" : "a.txt", "events", false, NULL, &s));
        leat_faulty_stop();
        assert_int_equal(s->count, 2);
        assert_int_equal(s->n_fields, 4);
        assert_string_equal(s->fields[3].name, "feat");
        assert_int_equal(*(const int64_t *)value(s, 1, 1), 4);
        assert_true(*(const float *)value(s, 3, 0) == 0.5F);
        assert_string_equal(s->metadata, "{\"nodes\": 5}");
        if (i)
            assert_memory_equal(sums, s->fingerprint, sizeof sums);
        memcpy(sums, s->fingerprint, sizeof sums);
        const void *column;
        assert_ok(s->v->column(s, 2, &column, &error));
        assert_int_equal(((const int64_t *)column)[1], 5);
        leat_source_close(s);
        assert_int_equal(access(path_of(i & 1 ? "b.txt.leat-index" : "a.txt.leat-index"), F_OK), 0);
    }
    files_write_text(folder, "a.txt", "1 2 3 0.5\n3 5 5 1\n7 7 7 7\n"); /* another file has another index */
    assert_ok(open_file("a.txt", "events", false, NULL, &s));
    assert_int_equal(s->count, 3);
    leat_source_close(s);
}

TEST(rows_of_features_go_with_their_lines)
{
    struct leat_source *s;
    files_write_text(folder, "s.txt", "1 2 3\n3 4 9\n5 6 5\n");
    write_npy("s.npy", 3);
    char features[PATH_MAX + 64];
    snprintf(features, sizeof features, "%s/s.npy", folder);
    uint64_t sums[2] = {0, 0};
    for (int i = 0; i < 3; i++) { /* made, made again with features, kept */
        assert_ok(open_file("s.txt", "events", true, i ? features : NULL, &s));
        assert_int_equal(s->n_fields, i ? 4 : 3);
        for (uint64_t k = 0; i && k < 3; k++)
            assert_true(*(const float *)value(s, 3, k) == (float)(k == 1 ? 2 : k == 2 ? 1 : 0));
        assert_true(i == 1 ? memcmp(sums, s->fingerprint, sizeof sums)
                           : i != 2 || !memcmp(sums, s->fingerprint, sizeof sums));
        memcpy(sums, s->fingerprint, sizeof sums);
        leat_source_close(s);
    }
    assert_int_equal(open_file("s.txt", "events", false, NULL, &s), LEAT_E_CORRUPT);
    assert_non_null(strstr(error.message, "line 3: time 5 comes after 9"));
    assert_int_equal(error.offset, 12);
    write_npy("s.npy", 4);
    assert_int_equal(open_file("s.txt", "events", true, features, &s), LEAT_E_CORRUPT);
    assert_non_null(strstr(error.message, "has 4 rows, and "));
}

TEST(features_that_change_while_they_are_open_are_found)
{
    struct leat_source *s;
    char features[PATH_MAX + 64];
    snprintf(features, sizeof features, "%s/c.npy", folder);
    files_write_text(folder, "c.txt", "1 2 3\n3 4 9\n5 6 9\n");
    write_npy("c.npy", 3);
    assert_ok(open_file("c.txt", "events", false, features, &s));
    assert_ok(s->v->refresh(s, &error));
    FILE *f = fopen(features, "r+b");
    assert_non_null(f);
    fseek(f, 64, SEEK_SET);
    fputs("abcd", f);
    fclose(f);
    assert_int_equal(utimensat(AT_FDCWD, features, (struct timespec[2]){{.tv_sec = 1}, {.tv_sec = 1}}, 0), 0);
    assert_int_equal(s->v->refresh(s, &error), LEAT_E_CHANGED);
    assert_non_null(strstr(error.message, "c.npy was changed after it was opened: open "));
    leat_source_close(s);
}

TEST(tgn_takes_the_row_of_idx_of_the_array_beside_it)
{
    struct leat_source *s;
    files_write_text(folder, "ml_a.csv", tgn);
    assert_ok(open_file("ml_a.csv", NULL, false, NULL, &s));
    assert_string_equal(s->v->name, "tgn");
    assert_int_equal(s->n_fields, 5);
    assert_int_equal(s->fields[2].dtype, LEAT_F64);
    leat_source_close(s);
    write_npy("ml_a.npy", 4);
    assert_ok(open_file("ml_a.csv", NULL, false, NULL, &s));
    assert_int_equal(s->n_fields, 6);
    for (uint64_t k = 0; k < 3; k++)
        assert_true(*(const float *)value(s, 5, k) == (float)(k == 1 ? 3 : k == 2 ? 2 : 1));
    leat_source_close(s);
    write_npy("ml_a.npy", 3);
    assert_int_equal(open_file("ml_a.csv", NULL, false, NULL, &s), LEAT_E_CORRUPT);
    assert_non_null(strstr(error.message, "has 3 rows, and idx in "));
}

TEST(a_kept_index_that_is_damaged_anywhere_is_made_again)
{
    struct leat_source *s;
    files_write_text(folder, "k.txt", "1 2 3 0.5\n3 4 5 1\n");
    assert_ok(open_file("k.txt", "events", false, NULL, &s));
    const uint64_t sum = s->fingerprint[0];
    leat_source_close(s);
    FILE *f = fopen(path_of("k.txt.leat-index"), "rb");
    static uint8_t kept[1 << 16];
    assert_non_null(f);
    const size_t n = fread(kept, 1, sizeof kept, f);
    fclose(f);
    for (size_t i = 0; i < n; i += 3) {
        kept[i] ^= 0x41;
        files_write(folder, "k.txt.leat-index", kept, n);
        kept[i] ^= 0x41;
        assert_ok(open_file("k.txt", "events", false, NULL, &s));
        assert_int_equal(s->count, 2);
        assert_int_equal(s->fingerprint[0], sum);
        leat_source_close(s);
    }
}

TEST(options_of_events_are_refused_by_other_formats)
{
    struct leat_source *s;
    files_write_text(folder, "o.txt", "a\n");
    assert_int_equal(open_file("o.txt", "text", true, NULL, &s), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "sort is about files of events"));
    assert_int_equal(open_file("o.txt", "text", false, "x.npy", &s), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "features is about files of events"));
    files_write_text(folder, "o.txt", "1 2 3 4\n");
    assert_int_equal(open_file("o.txt", "events", false, "x.npy", &s), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "have 1 features: leave features=x.npy out"));
}

/* Every allocation of opening fails once: with the text, and with what was kept. */
TEST(each_allocation_may_fail)
{
    struct leat_source *s;
    char features[PATH_MAX + 64];
    snprintf(features, sizeof features, "%s/f.npy", folder);
    write_npy("f.npy", 3);
    for (int gz = 0; gz < 2; gz++) {
        const char *name = gz ? "g.txt" : "f.txt";
        static const char text[] = "1 2 3\n3 4 9\n5 6 5\n";
        if (gz)
            write_gzip(name, text);
        else
            files_write_text(folder, name, text);
        char index[64];
        snprintf(index, sizeof index, "%s.leat-index", name);
        for (int kept = 0; kept < 2; kept++)
            for (int64_t k = 0;; k++) {
                if (!kept)
                    remove(path_of(index));
                fail_allocation(k);
                const int rc = open_file(name, "events", true, features, &s);
                const bool failed = allocation_failed();
                assert_true(rc == LEAT_OK || (failed && rc == LEAT_E_NOMEM));
                if (!rc) {
                    assert_int_equal(s->count, 3);
                    assert_true(*(const float *)value(s, 3, 1) == 2);
                    leat_source_close(s);
                }
                if (!failed)
                    break;
            }
    }
}

/* Every read of opening fails once. */
TEST(each_read_may_fail)
{
    struct leat_source *s;
    files_write_text(folder, "r.csv", tgn);
    write_npy("r.npy", 4);
    for (uint64_t n = 1;; n++) {
        remove(path_of("r.csv.leat-index"));
        leat_faulty_start(&(struct leat_faulty){.fail_read = n});
        const int rc = open_file("r.csv", NULL, false, NULL, &s);
        const uint64_t reads = leat_faulty_stop().reads;
        assert_true(rc == LEAT_OK || rc == LEAT_E_IO);
        if (!rc)
            leat_source_close(s);
        if (reads < n)
            break;
    }
}

TEST_MAIN_IN(make_folder, remove_folder)
