/* Regions: what the memory of batches promises, on every kind. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cpu.h"
#include "engine/region.h"
#include "support.h"

#define MIB (UINT64_C(1) << 20)

/* Stands before the library's own (--wrap): a limit that sanitizers, which map terabytes, could not have. */
uint64_t __wrap_leat_address_space_left(void);
static uint64_t space_left = UINT64_MAX;
uint64_t __wrap_leat_address_space_left(void)
{
    return space_left;
}

/* Regions of each kind, reserved at once and then in steps. Way 2 * kind is the former. */
#define WAYS (2 * leat_region_n_kinds)
static int open_way(struct leat_region *region, int way, uint64_t limit, struct leat_error *error)
{
    space_left = way % 2 ? 0 : UINT64_MAX;
    int rc = leat_region_open(region, way / 2, limit, NULL, error);
    assert_true(rc || region->stepwise == (way % 2 == 1));
    return rc;
}

TEST(extents_never_overlap_and_come_back_whole)
{
    for (int way = 0; way < WAYS; way++) {
        struct leat_region region;
        struct leat_error error;
        assert_ok(open_way(&region, way, 64 * MIB, &error));
        enum { N = 64 };
        struct {
            uint64_t offset, bytes;
        } live[N] = {{0, 0}};
        for (uint64_t step = 0; step < 4000; step++) {
            size_t i = leat_draw_below(1, step, N);
            if (live[i].bytes) {
                uint64_t *p = (void *)(region.base + live[i].offset),
                         *last = (void *)(region.base + live[i].offset + live[i].bytes - 8);
                assert_int_equal(*p, i);
                assert_int_equal(*last, i);
                leat_region_free(&region, live[i].offset, live[i].bytes);
                live[i].bytes = 0;
            } else {
                uint64_t bytes = leat_region_round(1 + leat_draw_below(2, step, step % 7 ? 20000 : 3 * MIB));
                if (region.used + bytes > region.limit)
                    continue;
                assert_true(leat_region_alloc(&region, bytes, &live[i].offset));
                live[i].bytes = bytes;
                uint64_t *p = (void *)(region.base + live[i].offset),
                         *last = (void *)(region.base + live[i].offset + bytes - 8);
                *p = *last = i;
            }
            assert_true(region.used + region.dirty <= region.limit);
        }
        for (size_t i = 0; i < N; i++)
            if (live[i].bytes)
                leat_region_free(&region, live[i].offset, live[i].bytes);
        assert_int_equal(region.used, 0);
        for (int a = 0; a < 2; a++) {
            assert_int_equal(region.areas[a].n_free, 1);
            const uint64_t head = region.head && !a ? region.areas[a].free[0].offset : 0; /* which stays */
            assert_true(!head == (!region.head || a));
            assert_int_equal(region.areas[a].free[0].bytes, region.areas[a].end - region.areas[a].begin - head);
        }
        leat_region_close(&region);
    }
}

TEST(the_lowest_free_address_is_used_first)
{
    struct leat_region region;
    struct leat_error error;
    assert_ok(leat_region_open(&region, 0, MIB, NULL, &error));
    const uint64_t bytes = leat_region_round(1);
    uint64_t a, b, c;
    assert_true(leat_region_alloc(&region, bytes, &a));
    assert_true(leat_region_alloc(&region, bytes, &b));
    leat_region_free(&region, a, bytes);
    assert_true(leat_region_alloc(&region, bytes, &c));
    assert_int_equal(a, c);
    leat_region_close(&region);
}

TEST(giving_back_free_pages_leaves_the_extents_beside_them)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), bytes = leat_region_round(1);
    assert_int_equal(bytes % page, 0);
    for (int way = 0; way < WAYS; way++) {
        struct leat_region region;
        struct leat_error error;
        enum { N = 64 };
        uint64_t offsets[N];
        assert_ok(open_way(&region, way, 8 * MIB, &error));
        for (int i = 0; i < N; i++) {
            assert_true(leat_region_alloc(&region, bytes, &offsets[i]));
            assert_int_equal(offsets[i] % page, 0);
            memset(region.base + offsets[i], 1, bytes);
        }
        for (int i = 0; i < N; i += 2)
            leat_region_free(&region, offsets[i], bytes);
        assert_int_equal(leat_region_trim(&region), N / 2 * bytes);
        for (int i = 1; i < N; i += 2)
            for (uint64_t at = 0; at < bytes; at++)
                assert_int_equal(region.base[offsets[i] + at], 1);
        leat_region_close(&region);
    }
}

TEST(small_extents_lie_apart_from_large_ones)
{
    struct leat_region region;
    struct leat_error error;
    assert_ok(leat_region_open(&region, 0, 64 * MIB, NULL, &error));
    uint64_t small, large;
    assert_true(leat_region_alloc(&region, leat_region_round(1), &small));
    assert_true(leat_region_alloc(&region, 8 * MIB, &large));
    assert_true(small < region.areas[0].end && large >= region.areas[1].begin);
    assert_int_equal((uintptr_t)(region.base + large) % (2 * MIB), 0);
    leat_region_close(&region);
}

TEST(resident_memory_stays_below_the_limit_however_holes_lie)
{
    for (int way = 0; way < WAYS; way++) {
        struct leat_region region;
        struct leat_error error;
        assert_ok(open_way(&region, way, 32 * MIB, &error));
        uint64_t before = test_resident(), offsets[8], wide;
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < 8; i++) {
                assert_true(leat_region_alloc(&region, 4 * MIB, &offsets[i]));
                memset(region.base + offsets[i], 1, 4 * MIB);
            }
            for (int i = 0; i < 8; i += 2) /* four holes of 4 MiB: what is wider must go behind them */
                leat_region_free(&region, offsets[i], 4 * MIB);
            assert_true(leat_region_alloc(&region, 12 * MIB, &wide));
            memset(region.base + wide, 1, 12 * MIB);
            assert_true(TEST_SANITIZED ||
                        test_resident() <= before + 32 * MIB + 3 * MIB); /* a huge page at each edge, and the stack */
            leat_region_free(&region, wide, 12 * MIB);
            for (int i = 1; i < 8; i += 2)
                leat_region_free(&region, offsets[i], 4 * MIB);
        }
        assert_true(leat_region_trim(&region) > 0);
        assert_true(TEST_SANITIZED || test_resident() <= before + 3 * MIB);
        leat_region_close(&region);
    }
}

TEST(where_addresses_are_scarce_no_more_is_mapped_than_was_used)
{
    struct leat_region regions[8];
    struct leat_error error;
    uint64_t small, large;
    for (int i = 0; i < 8; i++) {
        assert_ok(open_way(&regions[i], 1 + 2 * (i % 2), UINT64_C(8) << 30, &error));
        assert_non_null(leat_region_alloc(&regions[i], leat_region_round(1), &small));
        uint8_t *data = leat_region_alloc(&regions[i], 200 * MIB, &large);
        assert_non_null(data);
        assert_ptr_equal(data, regions[i].base + large);
        data[0] = data[200 * MIB - 1] = 1;
        const struct leat_region_area *areas = regions[i].areas;
        assert_true(areas[0].committed - areas[0].begin <= 4 * MIB);
        assert_true(areas[1].committed - areas[1].begin <= 256 * MIB);
    }
    for (int i = 0; i < 8; i++)
        leat_region_close(&regions[i]);
}

static void limits_the_size_of_files(void)
{
    struct leat_region region;
    struct leat_error error;
    uint64_t offset;
    signal(SIGXFSZ, SIG_DFL); /* what passes the limit is killed by it */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){40 * MIB, 40 * MIB}), 0);
    for (int way = 2; way < 4; way++) {
        assert_ok(open_way(&region, way, UINT64_C(1) << 30, &error));
        uint8_t *data = leat_region_alloc(&region, 20 * MIB, &offset);
        assert_non_null(data);
        data[20 * MIB - 1] = 1;
        assert_null(leat_region_alloc(&region, 20 * MIB, &offset));
        assert_non_null(strstr(leat_region_obstacle(&region), "ulimit -f"));
        assert_non_null(leat_region_alloc(&region, MIB / 2, &offset));
        leat_region_close(&region);
    }
}

TEST(shared_memory_keeps_within_the_size_that_files_may_have)
{
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        limits_the_size_of_files();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* As a window does it: extents of one size, freed in the order in which they were allocated. */
TEST(what_was_never_written_does_not_count_as_resident)
{
    enum { WINDOW = 8, BYTES = 600 << 10 };
    for (int way = 0; way < WAYS; way++) {
        struct leat_region region;
        struct leat_error error;
        uint64_t at[WINDOW], most = 0;
        assert_ok(open_way(&region, way, 64 * MIB, &error));
        for (uint64_t step = 0; step < 1000; step++) {
            uint64_t *place = &at[step % WINDOW];
            if (step >= WINDOW)
                leat_region_free(&region, *place, leat_region_round(BYTES));
            if (step % 100 == 99) /* all are given back at an epoch's end */
                for (uint64_t i = 1; i < WINDOW; i++)
                    leat_region_free(&region, at[(step + i) % WINDOW], leat_region_round(BYTES));
            for (uint64_t i = step % 100 == 99 ? 0 : WINDOW - 1; i < WINDOW; i++)
                assert_non_null(leat_region_alloc(&region, leat_region_round(BYTES), &at[(step + 1 + i) % WINDOW]));
            most = region.used + region.dirty > most ? region.used + region.dirty : most;
        }
        assert_true(most <= (WINDOW + 1) * leat_region_round(BYTES));
        leat_region_close(&region);
    }
}

/* Another process has mapped the beginning of the region, and holds a buffer until it is killed. */
TEST(what_another_process_holds_is_free_once_it_is_dead)
{
    for (int way = 2; way < WAYS; way++) {
        struct leat_region region;
        struct leat_error error;
        uint64_t held, other;
        int pipes[2];
        char ready;
        assert_ok(open_way(&region, way, 64 * MIB, &error));
        assert_int_equal(pipe(pipes), 0);
        assert_non_null(leat_region_alloc(&region, 2 * MIB, &held));
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (!pid) {
            struct leat_holder *row = NULL;
            void *head = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd, 0);
            if (head == MAP_FAILED || leat_region_join(head, MIB, &row, NULL) || !leat_holder_hold(row, held) ||
                write(pipes[1], "+", 1) != 1)
                _exit(1);
            for (;;)
                pause();
        }
        assert_int_equal(read(pipes[0], &ready, 1), 1);
        leat_region_free(&region, held, 2 * MIB);
        assert_int_equal(region.used, 2 * MIB);
        assert_non_null(leat_region_alloc(&region, 2 * MIB, &other));
        assert_int_not_equal(other, held);
        leat_region_free(&region, other, 2 * MIB);
        assert_int_equal(region.used, 2 * MIB);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_non_null(leat_region_alloc(&region, 2 * MIB, &other));
        assert_int_equal(other, held);
        leat_region_free(&region, other, 2 * MIB);
        assert_int_equal(region.used, 0);
        assert_int_equal(leat_region_join(region.base, 100, &(struct leat_holder *){NULL}, &error), LEAT_E_INVALID);
        leat_region_close(&region);
        close(pipes[0]);
        close(pipes[1]);
    }
}

TEST(an_unknown_kind_is_an_error)
{
    struct leat_region region;
    struct leat_error error;
    assert_int_equal(leat_region_open(&region, 2, MIB, NULL, &error), LEAT_E_INVALID);
    assert_int_equal(leat_region_open(&region, -1, MIB, NULL, &error), LEAT_E_INVALID);
    assert_int_equal(leat_region_open(&region, 0, UINT64_C(1) << 60, NULL, &error), LEAT_E_NOMEM);
}

TEST_MAIN()
