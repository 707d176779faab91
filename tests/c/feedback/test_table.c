/* The table of what was reported: which report stays, ranks that exchange, wrong reports, memory that is out. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../test.h"
#include "base/alloc.h"
#include "base/random.h"
#include "leat/feedback.h"

#define N 1000

static struct leat_error error;

static struct leat_feedback *table_of(uint64_t samples, bool deferred)
{
    struct leat_feedback_options o = LEAT_FEEDBACK_OPTIONS_INIT;
    struct leat_feedback *f;
    o.samples = samples;
    o.deferred = deferred;
    assert_ok(leat_feedback_new(&o, &f, &error));
    return f;
}

static void report(struct leat_feedback *f, int64_t id, float value, uint32_t epoch, uint32_t step)
{
    assert_ok(leat_feedback_report(f, &id, &value, 1, epoch, step, &error));
}

TEST(the_value_of_the_latest_step_stays_and_of_one_step_the_greatest)
{
    struct leat_feedback *f = table_of(3, false);
    report(f, 1, 5, 0, 7);
    report(f, 1, 5, 0, 7); /* repeated */
    report(f, 1, 4, 0, 7);
    report(f, 1, 9, 0, 6); /* late */
    report(f, 2, -3, 1, 0);
    report(f, 2, -2, 1, 0);
    report(f, 2, -5, 1, 1);
    leat_feedback_wait(f);
    const struct leat_mark *m = leat_feedback_marks(f);
    assert_int_equal(m[0].count, 0);
    assert_true(m[1].value == 5 && m[1].count == 1 && m[1].epoch == 0 && m[1].step == 7);
    assert_true(m[2].value == -5 && m[2].count == 2 && m[2].epoch == 1 && m[2].step == 1);
    leat_feedback_free(f);
}

/* Some reports of a run: steps go up, and ids come again and again. */
static struct leat_noted noted(uint64_t i)
{
    const uint64_t draw = leat_draw_u64(3, i);
    return (struct leat_noted){draw % N, (float)(draw >> 60), (uint32_t)(i / 4000), (uint32_t)(i / 100 % 40), 0};
}

TEST(a_large_run_of_reports_is_what_a_loop_makes_of_it)
{
    enum { REPORTS = 20000, EACH = 100 };
    struct leat_mark *expected = calloc(N, sizeof *expected);
    struct leat_feedback *f = table_of(N, false);
    assert_non_null(expected);
    for (uint64_t i = 0; i < REPORTS; i += EACH) {
        int64_t ids[EACH];
        float values[EACH];
        for (uint64_t k = 0; k < EACH; k++) {
            const struct leat_noted r = noted(i + k);
            struct leat_mark *m = &expected[r.position];
            const bool newer = !m->count || m->epoch < r.epoch || (m->epoch == r.epoch && m->step < r.step);
            if (newer || r.value > m->value)
                *m = (struct leat_mark){r.value, m->count + newer, r.epoch, r.step};
            ids[k] = (int64_t)r.position;
            values[k] = r.value;
        }
        assert_ok(leat_feedback_report(f, ids, values, EACH, noted(i).epoch, noted(i).step, &error));
    }
    leat_feedback_wait(f);
    assert_memory_equal(leat_feedback_marks(f), expected, N * sizeof *expected);
    leat_feedback_free(f);
    free(expected);
}

static int by_step(const void *pa, const void *pb)
{
    const struct leat_noted *a = pa, *b = pb;
    const uint64_t x = (uint64_t)a->epoch << 32 | a->step, y = (uint64_t)b->epoch << 32 | b->step;
    return x < y ? -1 : x > y;
}

TEST(ranks_that_exchange_have_the_table_of_one_process_whatever_part_each_reports)
{
    enum { REPORTS = 6000 };
    static struct leat_noted all[REPORTS];
    struct leat_feedback *one = table_of(N, false), *ranks[3];
    for (int r = 0; r < 3; r++)
        ranks[r] = table_of(N, true);
    for (uint64_t i = 0; i < REPORTS; i++) {
        const struct leat_noted r = noted(i);
        report(one, (int64_t)r.position, r.value, r.epoch, r.step);
        report(ranks[leat_draw_below(9, i, 3)], (int64_t)r.position, r.value, r.epoch, r.step);
    }
    uint64_t n = 0;
    for (int r = 2; r >= 0; r--) {
        const uint64_t kept = leat_feedback_kept(ranks[r]);
        assert_true(kept && n + kept <= REPORTS);
        assert_int_equal(leat_feedback_take(ranks[r], all + n, kept, false), kept);
        assert_int_equal(leat_feedback_kept(ranks[r]), kept);
        assert_int_equal(leat_feedback_take(ranks[r], NULL, 0, true), 0);
        assert_int_equal(leat_feedback_kept(ranks[r]), 0);
        n += kept;
    }
    assert_int_equal(n, REPORTS);
    qsort(all, REPORTS, sizeof *all, by_step);
    leat_feedback_wait(one);
    for (int r = 0; r < 3; r++) {
        assert_ok(leat_feedback_enter(ranks[r], all, REPORTS, &error));
        assert_memory_equal(leat_feedback_marks(ranks[r]), leat_feedback_marks(one), N * sizeof(struct leat_mark));
        leat_feedback_free(ranks[r]);
    }
    leat_feedback_free(one);
}

TEST(a_wrong_report_is_refused_whole)
{
    struct leat_feedback *f = table_of(10, false);
    const int64_t ids[] = {1, 2, 10}, good[] = {1, 2, 3}, far[] = {1, INT64_MIN, 3};
    const float values[] = {1, 2, 3}, nan[] = {1, NAN, 3}, inf[] = {1, 2, -INFINITY};
    assert_int_equal(leat_feedback_report(f, ids, values, 3, 0, 0, &error), LEAT_E_RANGE);
    assert_non_null(strstr(error.message, "sample id 10,"));
    assert_int_equal(leat_feedback_report(f, far, values, 3, 0, 0, &error), LEAT_E_RANGE);
    assert_int_equal(leat_feedback_report(f, good, nan, 3, 0, 0, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "sample id 2 is nan"));
    assert_int_equal(leat_feedback_report(f, good, inf, 3, 0, 0, &error), LEAT_E_INVALID);
    const struct leat_noted outside = {10, 1, 0, 0, 0}, endless = {1, INFINITY, 0, 0, 0};
    assert_int_equal(leat_feedback_enter(f, &outside, 1, &error), LEAT_E_RANGE);
    assert_int_equal(leat_feedback_enter(f, &endless, 1, &error), LEAT_E_INVALID);
    leat_feedback_wait(f);
    for (int i = 0; i < 10; i++)
        assert_int_equal(leat_feedback_marks(f)[i].count, 0);
    assert_ok(leat_feedback_report(f, NULL, NULL, 0, 0, 0, &error));
    leat_feedback_free(f);
}

TEST(ids_of_a_view_are_found_wherever_they_lie)
{
    const int64_t near[] = {3, 4, 1}, far[] = {3, INT64_C(1) << 40, 1}, twice[] = {0, 1, 1},
                  far_twice[] = {INT64_C(1) << 40, 5, INT64_C(1) << 40}, negative[] = {0, 1, -1};
    for (int i = 0; i < 2; i++) {
        struct leat_feedback_options o = LEAT_FEEDBACK_OPTIONS_INIT;
        struct leat_feedback *f;
        o.samples = 3;
        o.ids = i ? far : near;
        assert_ok(leat_feedback_new(&o, &f, &error));
        for (int k = 0; k < 3; k++)
            report(f, (i ? far : near)[k], 7 + (float)k, 0, 0);
        leat_feedback_wait(f);
        for (int k = 0; k < 3; k++)
            assert_true(leat_feedback_marks(f)[k].value == 7 + (float)k);
        const int64_t none[] = {2, 5, 0, -1, INT64_MIN, INT64_MAX};
        const float value = 1;
        for (int k = 0; k < 6; k++)
            assert_int_equal(leat_feedback_report(f, &none[k], &value, 1, 0, 0, &error), LEAT_E_RANGE);
        leat_feedback_free(f);
        o.ids = i ? far_twice : twice;
        assert_int_equal(leat_feedback_new(&o, &f, &error), LEAT_E_INVALID);
        assert_non_null(strstr(error.message, i ? "id 1099511627776" : "id 1:"));
        o.ids = negative;
        assert_int_equal(leat_feedback_new(&o, &f, &error), LEAT_E_INVALID);
        o.samples = 0;
        assert_int_equal(leat_feedback_new(&o, &f, &error), LEAT_E_INVALID);
    }
}

TEST(a_table_may_lie_in_a_file_without_a_name)
{
    struct leat_feedback_options o = LEAT_FEEDBACK_OPTIONS_INIT;
    struct leat_feedback *f;
    char folder[] = "/tmp/leat-feedback-XXXXXX";
    assert_non_null(mkdtemp(folder));
    o.samples = N;
    o.folder = folder;
    assert_ok(leat_feedback_new(&o, &f, &error));
    report(f, N - 1, 2, 3, 4);
    leat_feedback_wait(f);
    assert_true(leat_feedback_marks(f)[N - 1].value == 2);
    leat_feedback_free(f);
    assert_int_equal(rmdir(folder), 0); /* nothing was left in it */
    assert_int_equal(leat_feedback_new(&o, &f, &error), LEAT_E_IO);
    assert_non_null(strstr(error.message, folder));
}

TEST(a_disk_without_room_is_named_with_its_reason)
{
    struct leat_feedback_options o = LEAT_FEEDBACK_OPTIONS_INIT;
    struct leat_feedback *f;
    struct rlimit had, less;
    o.samples = 1 << 20;
    o.folder = "/tmp";
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &had), 0);
    less = (struct rlimit){1 << 20, had.rlim_max};
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
    const int rc = leat_feedback_new(&o, &f, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &had), 0);
    signal(SIGXFSZ, before);
    assert_int_equal(rc, LEAT_E_IO);
    assert_non_null(strstr(error.message, strerror(EFBIG)));
    assert_non_null(strstr(error.message, "/tmp"));
}

static void *reporter(void *argument)
{
    struct leat_feedback *f = argument;
    for (uint32_t step = 0; step < 300; step++) {
        int64_t ids[64];
        float values[64];
        for (int i = 0; i < 64; i++) {
            ids[i] = i * 7 % N;
            values[i] = (float)step;
        }
        leat_feedback_report(f, ids, values, 64, 0, step, NULL);
    }
    return NULL;
}

TEST(threads_may_report_at_once)
{
    struct leat_feedback *f = table_of(N, false);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reporter, f), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    leat_feedback_wait(f);
    for (int i = 0; i < 64; i++)
        assert_true(leat_feedback_marks(f)[i * 7 % N].value == 299);
    leat_feedback_free(f);
}

TEST(more_than_may_wait_is_entered_all_the_same)
{
    enum { EACH = 1 << 20 };
    struct leat_feedback *f = table_of(EACH, false);
    int64_t *ids = malloc(EACH * sizeof *ids);
    float *values = malloc(EACH * sizeof *values);
    assert_true(ids && values);
    for (uint32_t step = 0; step < 12; step++) {
        for (int64_t i = 0; i < EACH; i++) {
            ids[i] = i;
            values[i] = (float)step;
        }
        assert_ok(leat_feedback_report(f, ids, values, EACH, 0, step, &error));
    }
    leat_feedback_wait(f);
    for (int64_t i = 0; i < EACH; i++)
        assert_true(leat_feedback_marks(f)[i].count == 12 && leat_feedback_marks(f)[i].value == 11);
    leat_feedback_free(f);
    free(ids);
    free(values);
}

TEST(a_forked_child_may_free_the_table_and_not_report)
{
    struct leat_feedback *f = table_of(10, false);
    report(f, 1, 1, 0, 0);
    leat_feedback_wait(f);
    const pid_t child = fork();
    if (!child) {
        const int64_t id = 1;
        const float value = 2;
        const int rc = leat_feedback_report(f, &id, &value, 1, 0, 0, NULL);
        leat_feedback_wait(f);
        leat_feedback_free(f);
        _exit(rc == LEAT_E_FORKED ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    leat_feedback_free(f);
}

static int left; /* allocations until one fails */

static void *fail_later(size_t bytes)
{
    return left-- > 0 ? malloc(bytes) : NULL;
}

TEST(every_allocation_may_fail_once)
{
    const int64_t ids[] = {1, 0}, far[] = {1, 1000}, id = 1;
    const float value = 4;
    const struct test_allocator own = test_allocator;
    for (int n = 0;; n++) {
        struct leat_feedback_options o = LEAT_FEEDBACK_OPTIONS_INIT;
        struct leat_feedback *f;
        o.samples = 2;
        o.ids = n % 2 ? far : ids;
        left = n;
        test_allocator = (struct test_allocator){fail_later, own.resize, own.release};
        int rc = leat_feedback_new(&o, &f, &error);
        rc = rc ? rc : leat_feedback_report(f, &id, &value, 1, 0, 0, &error);
        if (f)
            leat_feedback_wait(f); /* its thread has no more to free */
        test_allocator = own;
        if (f && rc)
            assert_int_equal(leat_feedback_marks(f)[0].count, 0);
        leat_feedback_free(f);
        if (!rc) {
            assert_true(n >= 3);
            return;
        }
        assert_int_equal(rc, LEAT_E_NOMEM);
    }
}

TEST_MAIN()
