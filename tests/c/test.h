/* What every test in C includes: cmocka with its prerequisites, and the test's way to real data. */
#ifndef LEAT_TESTS_TEST_H
#define LEAT_TESTS_TEST_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "doubles.h"
#include "leat/leat.h"

#if defined(__has_feature)
#define TEST_HAS(x) __has_feature(x)
#else
#define TEST_HAS(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || TEST_HAS(thread_sanitizer)
#define TEST_THREAD_SANITIZED 1
#else
#define TEST_THREAD_SANITIZED 0
#endif

/* TEST(a_sentence) { ... } is a test of its file, which ends with TEST_MAIN() and runs its tests from top to bottom.
 * Forms with _IN have functions, or NULL, to set up and tear down, for the test or for all. `state` is cmocka's. */
#define TEST(name) TEST_IN(name, NULL, NULL)
#define TEST_IN(name, setup, teardown)                                                                                 \
    static void name(void **state);                                                                                    \
    __attribute__((constructor(TEST_FIRST + __LINE__))) static void register_##name(void)                              \
    {                                                                                                                  \
        test_add((struct CMUnitTest)cmocka_unit_test_setup_teardown(name, setup, teardown));                           \
    }                                                                                                                  \
    static void name(void **state)
#define TEST_MAIN() TEST_MAIN_IN(NULL, NULL)
#define TEST_MAIN_IN(setup, teardown)                                                                                  \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        return test_run(setup, teardown);                                                                              \
    }

/* Constructors run in the order of their priorities, of which the first hundred are the system's. */
enum { TEST_FIRST = 1000, TEST_MAX = 100 };
static struct CMUnitTest test_table[TEST_MAX];
static size_t test_count;

static inline void test_add(struct CMUnitTest test)
{
    if (test_count == TEST_MAX)
        abort();
    test_table[test_count++] = test;
}

/* Runs the tests of the file: for a main that does more than TEST_MAIN. */
static inline int test_run(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    return _cmocka_run_group_tests("tests", test_table, test_count, setup, teardown);
}

/* Fails with the error's text when a call does not return LEAT_OK. `error` is a struct leat_error in scope. */
#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        int rc_ = (call);                                                                                              \
        if (rc_)                                                                                                       \
            fail_msg("%s: %s: %s", #call, leat_status_name(rc_), error.message);                                       \
    } while (0)

/* The limit of a wait for what comes unless something hangs. */
enum { TEST_HANG_MS = 200000 };

/* LEAT_TEST_FULL=1: all cases of a row of which tests otherwise take a fixed part that reaches the same borders. */
static inline bool test_full(void)
{
    const char *full = getenv("LEAT_TEST_FULL");
    return full && strcmp(full, "1") == 0;
}

/* The step of a loop over such cases. */
static inline unsigned test_every(unsigned n)
{
    return test_full() ? 1 : n;
}

/* Tells a file by its name, wherever it lies and in whatever order a folder lists it. */
static inline uint32_t test_name_key(const char *path)
{
    const char *slash = strrchr(path, '/');
    uint32_t key = 2166136261u;
    for (const char *p = slash ? slash + 1 : path; *p; p++)
        key = (key ^ (uint8_t)*p) * 16777619u;
    return key ^ key >> 15;
}

/* Whether a file is of the part that is taken: one of n. */
static inline bool test_takes(const char *path, unsigned n)
{
    return test_name_key(path) % test_every(n) == 0;
}

/* The folder of real data, in a test (a function that returns nothing): where LEAT_DATA names none, the test says so
 * and returns. Not by cmocka's skip(), which prints "not ok": Meson and the verdict count that as a failure. */
#define test_data()                                                                                                    \
    ({                                                                                                                 \
        const char *data_ = getenv("LEAT_DATA");                                                                       \
        if (!data_ || !*data_) {                                                                                       \
            printf("# SKIP %s: LEAT_DATA names no folder of real data\n", __func__);                                   \
            return;                                                                                                    \
        }                                                                                                              \
        data_;                                                                                                         \
    })

#endif
