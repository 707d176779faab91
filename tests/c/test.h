/* What every test in C includes: cmocka with its prerequisites, and the test's way to real data. */
#ifndef LEAT_TESTS_TEST_H
#define LEAT_TESTS_TEST_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

/* Fails with the error's text when a call does not return LEAT_OK. `error` is a struct leat_error in scope. */
#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        int rc_ = (call);                                                                                              \
        if (rc_)                                                                                                       \
            fail_msg("%s: %s: %s", #call, leat_status_name(rc_), error.message);                                       \
    } while (0)

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
