/* Memory shared with workers: slots that are cut and come back, in the process that cut them and in its children. */
#include <fcntl.h>
#include <sys/stat.h>

#include "../allocations.h"
#include "base/cpu.h"
#include "base/random.h"
#include "support.h"
#include "worker/share.h"

/* Stands before the library's own (--wrap): whether addresses are scarce when the memory is made. */
uint64_t __wrap_leat_address_space_left(void);
static bool scarce;
uint64_t __wrap_leat_address_space_left(void)
{
    return scarce ? 0 : UINT64_MAX;
}

static struct leat_slot *slot_of(uint64_t bytes)
{
    struct leat_slot *slot;
    struct leat_error error;
    assert_ok(leat_slot_new(bytes, &slot, &error));
    return slot;
}

TEST(slots_never_overlap_and_come_back)
{
    enum { N = 40 };
    struct leat_slot *live[N] = {NULL};
    uint64_t held = leat_share_used(), before = held;
    for (uint64_t step = 0; step < 2000; step++) {
        size_t i = leat_draw_below(1, step, N);
        if (live[i]) {
            uint64_t *p = leat_slot_data(live[i]);
            assert_int_equal(p[0], i);
            assert_int_equal(p[leat_slot_bytes(live[i]) / 8 - 1], i);
            held -= leat_slot_bytes(live[i]);
            leat_slot_release(live[i]);
            live[i] = NULL;
        } else {
            uint64_t bytes = leat_draw_below(2, step, step % 9 ? 10000 : 3 << 20);
            live[i] = slot_of(bytes);
            assert_true(leat_slot_bytes(live[i]) >= bytes &&
                        leat_slot_bytes(live[i]) % (uint64_t)sysconf(_SC_PAGESIZE) == 0);
            uint64_t *p = leat_slot_data(live[i]);
            p[0] = p[leat_slot_bytes(live[i]) / 8 - 1] = i;
            held += leat_slot_bytes(live[i]);
        }
        assert_int_equal(leat_share_used(), held);
    }
    for (size_t i = 0; i < N; i++)
        leat_slot_release(live[i]);
    assert_int_equal(leat_share_used(), before);
}

TEST(memory_that_came_back_is_cut_again_first)
{
    struct leat_slot *first = slot_of(8192), *second = slot_of(8192);
    uint64_t offset = leat_slot_offset(first);
    leat_slot_release(first);
    struct leat_slot *again = slot_of(8000);
    assert_int_equal(leat_slot_offset(again), offset);
    leat_slot_release(again);
    leat_slot_release(second);
}

TEST(a_slot_is_held_until_its_last_reference_goes)
{
    uint64_t before = leat_share_used(), left = leat_memory_left();
    struct leat_slot *slot = slot_of(1);
    assert_int_equal(leat_memory_left(), left - leat_slot_bytes(slot));
    leat_slot_retain(slot);
    leat_slot_release(slot);
    assert_int_equal(leat_share_used(), before + (uint64_t)sysconf(_SC_PAGESIZE));
    leat_slot_release(slot);
    assert_int_equal(leat_memory_left(), left);
    assert_int_equal(leat_share_used(), before);
    leat_slot_release(NULL);
}

TEST(a_slot_that_does_not_fit_is_an_error_that_says_what_is_held)
{
    const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - 4096, UINT64_C(1) << 63, UINT64_C(1) << 50};
    uint64_t before = leat_share_used();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct leat_slot *slot;
        struct leat_error error;
        assert_int_equal(leat_slot_new(sizes[i], &slot, &error), LEAT_E_HELD);
        assert_null(slot);
        assert_non_null(strstr(error.message, "let go of batches"));
    }
    assert_int_equal(leat_share_used(), before);
}

static uint64_t resident(void)
{
    int fd;
    struct stat st;
    struct leat_error error;
    assert_ok(leat_share_descriptor(&fd, &error));
    assert_int_equal(fstat(fd, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

TEST(trimming_gives_free_pages_back_and_keeps_those_in_use)
{
    enum { MIB = 1 << 20 };
    struct leat_slot *kept = slot_of(MIB), *gone = slot_of(16 * MIB);
    memset(leat_slot_data(kept), 1, MIB);
    memset(leat_slot_data(gone), 2, 16 * MIB);
    leat_slot_release(gone);
    leat_share_trim(UINT64_C(1) << 40);
    assert_true(resident() >= 17 * MIB);
    leat_share_trim(0);
    assert_true(resident() < 8 * MIB);
    for (size_t i = 0; i < MIB; i++)
        assert_int_equal(((uint8_t *)leat_slot_data(kept))[i], 1);
    leat_slot_release(kept);
}

/* ---- children -------------------------------------------------------------------------------- */

static void reads_and_releases(void *argument)
{
    struct leat_slot *slot = argument;
    child_assert(leat_share_used() == 0); /* of its own it has none */
    child_assert(leat_share_base(true) + leat_slot_offset(slot) == leat_slot_data(slot));
    char *data = leat_slot_data(slot);
    child_assert(!strcmp(data, "to the child"));
    strcpy(data, "to the parent");
    leat_slot_release(slot);
    child_assert(leat_share_used() == 0);
}

TEST(a_forked_child_shares_its_parents_slots_and_gives_none_back)
{
    struct leat_slot *slot = slot_of(5000);
    uint64_t used = leat_share_used();
    strcpy(leat_slot_data(slot), "to the child");
    assert_int_equal(end_of(start_child(reads_and_releases, slot)), 0);
    assert_string_equal(leat_slot_data(slot), "to the parent");
    assert_int_equal(leat_share_used(), used);
    leat_slot_release(slot);
}

static void cuts_its_own(void *argument)
{
    struct leat_slot *inherited = argument, *own;
    uint8_t *data = leat_slot_data(inherited);
    child_assert(leat_slot_new(4096, &own, NULL) == LEAT_OK);
    child_assert(leat_slot_data(inherited) == data && *data == 7);
    *(uint8_t *)leat_slot_data(own) = 9;
    child_assert(*data == 7);
    child_assert(leat_share_used() == leat_slot_bytes(own));
    /* Its own child works for it, not for the first process. */
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        child_assert(leat_share_base(true) + leat_slot_offset(own) == leat_slot_data(own));
        child_assert(*(leat_share_base(true) + leat_slot_offset(own)) == 9);
        _exit(0);
    }
    int status;
    child_assert(waitpid(pid, &status, 0) == pid && status == 0);
    leat_slot_release(inherited); /* memory of the first process, which is not among its own */
    child_assert(leat_share_used() == leat_slot_bytes(own));
    leat_slot_release(own);
    child_assert(leat_share_used() == 0);
}

TEST(a_child_has_memory_of_its_own_beside_what_it_inherited)
{
    struct leat_slot *slot = slot_of(4096);
    *(uint8_t *)leat_slot_data(slot) = 7;
    assert_int_equal(end_of(start_child(cuts_its_own, slot)), 0);
    assert_int_equal(*(uint8_t *)leat_slot_data(slot), 7);
    leat_slot_release(slot);
}

/* The other program: this one, started with a descriptor and an offset. */
static int attached(const char *descriptor, const char *offset)
{
    struct leat_pool *pool;
    struct leat_error error;
    uint64_t at = strtoull(offset, NULL, 10);
    if (leat_share_base(true) || leat_pool_attach(at, 0, false, &pool, &error) != LEAT_E_INVALID)
        return 4; /* nothing is attached yet */
    if (leat_share_attach(atoi(descriptor), &error))
        return 5;
    char *data = (char *)leat_share_base(true) + at;
    if (strcmp(data, "by descriptor"))
        return 6;
    strcpy(data, "understood");
    return 0;
}

/* A worker: what it is told of, in any order that two of them share, can be read. */
static int follows(int begin)
{
    uint64_t offset;
    while (read(begin, &offset, 8) == 8) {
        if (leat_share_follow(NULL))
            return 7;
        const uint8_t *data = leat_share_base(true) + offset;
        if (*data < 10 || *data > 12 || data[4 << 20] != *data)
            return 8;
    }
    return 0;
}

TEST(a_program_that_was_not_forked_attaches_by_the_descriptor)
{
    struct leat_slot *slot = slot_of(100);
    struct leat_error error;
    int fd;
    strcpy(leat_slot_data(slot), "by descriptor");
    assert_ok(leat_share_descriptor(&fd, &error));
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        char descriptor[20], offset[24];
        snprintf(descriptor, sizeof descriptor, "%d", dup(fd));
        snprintf(offset, sizeof offset, "%" PRIu64, leat_slot_offset(slot));
        execl("/proc/self/exe", "test_share", "attached", descriptor, offset, (char *)NULL);
        _exit(9);
    }
    assert_int_equal(end_of(pid), 0);
    assert_string_equal(leat_slot_data(slot), "understood");
    leat_slot_release(slot);
}

TEST(a_descriptor_that_is_no_memory_is_an_error)
{
    struct leat_error error;
    assert_int_equal(leat_share_attach(-1, &error), LEAT_E_IO);
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(leat_share_attach(fd, &error), LEAT_E_IO);
    close(fd);
}

/* A parent whose memory grows in steps after its workers began: one forked, one started with the descriptor. */
static void grows_while_workers_run(void *argument)
{
    enum { MIB = 1 << 20, WORKERS = 2 };
    int ready[2], fd;
    pid_t workers[WORKERS];
    struct leat_slot *slots[3], *first;
    scarce = true;
    child_assert(!leat_slot_new(100, &first, NULL) && !leat_share_descriptor(&fd, NULL) && !pipe(ready));
    for (int w = 0; w < WORKERS; w++) {
        workers[w] = fork();
        if (workers[w])
            continue;
        close(ready[1]);
        if (w) {
            char memory[20], begin[20];
            snprintf(memory, sizeof memory, "%d", dup(fd));
            snprintf(begin, sizeof begin, "%d", ready[0]);
            execl("/proc/self/exe", "test_share", "follow", memory, begin, (char *)NULL);
        }
        _exit(follows(ready[0]));
    }
    for (int i = 0; i < 3; i++) {
        uint64_t at[3];
        child_assert(!leat_slot_new(i == 1 ? 5 * MIB - 4096 : 100 * MIB, &slots[i], NULL));
        memset(leat_slot_data(slots[i]), 10 + i, leat_slot_bytes(slots[i]));
        at[i] = leat_slot_offset(slots[i]);
        for (int w = 0; w < WORKERS; w++)
            child_assert(write(ready[1], &at[i], 8) == 8);
    }
    close(ready[1]);
    for (int w = 0; w < WORKERS; w++) {
        int status;
        child_assert(waitpid(workers[w], &status, 0) == workers[w] && status == 0);
    }
    for (int i = 0; i < 3; i++)
        leat_slot_release(slots[i]);
    leat_slot_release(first);
    child_assert(leat_share_used() == 0);
}

TEST(workers_follow_memory_that_grows_in_steps)
{
    assert_int_equal(end_of(start_child(grows_while_workers_run, NULL)), 0);
}

/* ---- memory that runs out -------------------------------------------------------------------- */

/* All that a parent and a worker allocate. */
static int all_of_it(struct leat_error *error)
{
    struct leat_slot *slot = NULL;
    struct leat_pool *pool = NULL, *theirs = NULL;
    struct leat_board *board = NULL, *seen = NULL;
    int rc = leat_slot_new(100000, &slot, error);
    rc = rc ? rc : leat_pool_new(3, &pool, error);
    rc = rc ? rc : leat_board_new(pool, 4, 10, 1e6, 1, &board, error);
    rc = rc ? rc : leat_pool_attach(leat_pool_offset(pool), 2, true, &theirs, error);
    rc = rc ? rc : leat_board_attach(theirs, leat_board_offset(board), true, &seen, error);
    leat_board_free(seen);
    leat_pool_free(theirs);
    leat_board_free(board);
    leat_pool_free(pool);
    leat_slot_release(slot);
    return rc;
}

TEST(when_any_one_allocation_fails_an_error_says_so_and_all_comes_back)
{
    uint64_t before = leat_share_used();
    int failed = 0, rc = LEAT_E_NOMEM;
    for (int64_t n = 0; rc; n++) {
        struct leat_error error = {0};
        fail_allocation(n);
        rc = all_of_it(&error);
        allocation_failed();
        assert_true(rc == LEAT_OK || ((rc == LEAT_E_NOMEM || rc == LEAT_E_HELD) && *error.message));
        assert_int_equal(leat_share_used(), before);
        failed += rc != LEAT_OK;
    }
    assert_true(failed >= 5);
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "attached"))
        return attached(argv[2], argv[3]);
    if (argc == 4 && !strcmp(argv[1], "follow")) {
        struct leat_error error;
        return leat_share_attach(atoi(argv[2]), &error) ? 5 : follows(atoi(argv[3]));
    }
    return test_run(NULL, NULL);
}
