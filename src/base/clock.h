/* Monotonic time. */
#ifndef LEAT_BASE_CLOCK_H
#define LEAT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since some fixed point. Any thread. */
static inline int64_t leat_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The time at which so many milliseconds have passed; INT64_MAX, never: they are negative, or too many. */
static inline int64_t leat_clock_deadline(int64_t timeout_ms)
{
    const int64_t now = leat_clock_ns();
    return timeout_ms < 0 || timeout_ms > (INT64_MAX - now) / 1000000 - 1 ? INT64_MAX : now + timeout_ms * 1000000;
}

#endif
