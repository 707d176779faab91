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

#endif
