/*
 * A backend for tests: local files, disturbed. Calls are counted, so that a test can make the first, the second, the
 * n-th of them fail until nothing fails any more:
 *
 *     for (uint64_t n = 1; ; n++) {
 *         leat_faulty_start(&(struct leat_faulty){.fail_read = n});
 *         rc = ...;
 *         if (leat_faulty_stop().reads < n) break;      // there is no n-th read: rc is LEAT_OK
 *     }
 */
#ifndef LEAT_TESTS_FAULTY_H
#define LEAT_TESTS_FAULTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct leat_faulty {
    const char *only;                        /* disturb files whose path contains this; NULL: all */
    uint64_t fail_open, fail_read, fail_map; /* the n-th (from 1) fails with LEAT_E_IO; 0: none */
    unsigned retry_after_ms;                 /* what the failing read asks for */
    size_t short_reads;                      /* pread gives at most so many bytes; 0: what was asked */
    unsigned errors;                         /* so many preads in a row fail first, */
    int error_number;                        /* with this errno */
    bool later;                              /* reads complete on another thread: submit returns LEAT_IO_PENDING */
    unsigned delay_us;                       /* that waits so long before each */
    unsigned latency_us;                     /* each completes so long after it was submitted, side by side */
    bool unmapped;                           /* as a web server's: nothing can be mapped, and no time is known */
    bool cut;             /* files have only `cut_at` bytes when they are read; opening still shows */
    uint64_t cut_at;      /* the whole size, and touching the rest of a mapping faults */
    bool cut_before_open; /* opening shows the cut size */
};

struct leat_faulty_counts {
    uint64_t opens, reads, maps; /* of files that `only` names */
    uint64_t cancelled;
};

/* Takes the place of test_backend. No file is open that the test goes on to use with it. `faulty` is copied. */
void leat_faulty_start(const struct leat_faulty *faulty);
/* With `later`: from now on the reads of about so many of a thousand places do not complete until they are released:
 * slow samples that no clock decides about. A place is held again each time that it is read. */
void leat_faulty_hold(unsigned per_thousand);
/* How many reads are held now, and their bytes. */
uint64_t leat_faulty_held(uint64_t *bytes);
/* From now on the n-th read fails; UINT64_MAX: all do; 0: none. */
void leat_faulty_fail(uint64_t n);
/* With `later`: from now on reads are complete when submit returns, or later again. */
void leat_faulty_later(bool later);
/* Lets the n that have been held longest complete. Returns how many of these there were. */
unsigned leat_faulty_release(unsigned n);
/* Waits for delayed reads, releases held ones and puts the local backend back. Files opened meanwhile stay usable until
 * closed. */
struct leat_faulty_counts leat_faulty_stop(void);

#endif
