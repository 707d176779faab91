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

/* Fails with the error's text when a call does not return LEAT_OK. `error` is a struct leat_error in scope. */
#define assert_ok(call)                                                                                                                    \
    do {                                                                                                                                   \
        int rc_ = (call);                                                                                                                  \
        if (rc_)                                                                                                                           \
            fail_msg("%s: %s: %s", #call, leat_status_name(rc_), error.message);                                                           \
    } while (0)

/* The folder of real data. A program of such tests calls this first in main: where LEAT_DATA names no folder it ends the
 * program as skipped (cmocka's own skip() prints "not ok", which is counted as a failure). */
static inline const char *test_data(void)
{
    const char *path = getenv("LEAT_DATA");
    if (!path || !*path) {
        printf("1..0 # SKIP LEAT_DATA names no folder of real data\n");
        exit(0);
    }
    return path;
}

#endif
