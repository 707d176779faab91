/* Files whose short reads wait are brought into memory by long ones, once, and only as far as that is worth it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../files.h"
#include "../test.h"
#include "io/file.h"
#include "io/warm.h"

enum { PIECE = 1 << 20, PIECES = 40, BYTES = PIECE * PIECES - 1234, ROW = 4096, PATIENCE = 2000 };

static char folder[64], path[PATH_MAX];
static uint8_t *bytes;

/* Short reads wait so long. Long ones do not, and how often each place was read is counted. */
static _Atomic unsigned pause_us, n_long, n_twice;
static _Atomic uint8_t seen[PIECES];
static _Atomic bool gate;    /* long reads wait while it is set */
static _Atomic bool forgets; /* it has no memory: what was read waits when it is read again */

static ssize_t disk_pread(int fd, void *buffer, size_t n, off_t offset)
{
    if (n < PIECE && (n > 1 || atomic_load(&forgets))) { /* a byte: one of those that were just read */
        const unsigned us = atomic_load(&pause_us);
        if (us)
            usleep(us);
    } else if (n > 1) {
        atomic_fetch_add(&n_long, 1);
        while (atomic_load(&gate))
            usleep(1000);
        atomic_fetch_add(&n_twice, atomic_fetch_add(&seen[offset / PIECE], 1) > 0);
    }
    return pread(fd, buffer, n, offset);
}

static struct leat_io_file *open_cold(unsigned us)
{
    struct leat_io_file *file;
    struct leat_error error;
    atomic_store(&pause_us, us);
    atomic_store(&n_long, 0);
    atomic_store(&n_twice, 0);
    for (size_t i = 0; i < PIECES; i++)
        atomic_store(&seen[i], 0);
    assert_ok(leat_io_open(path, &file, &error));
    return file;
}

static void read_rows(struct leat_io_file *file, unsigned n, uint64_t length)
{
    static uint8_t got[256 << 10];
    struct leat_error error;
    for (unsigned i = 0; i < n; i++) {
        const uint64_t at = (uint64_t)i * 7919 * ROW % (BYTES - length);
        assert_ok(leat_io_read(file, at, length, got, &error));
        assert_memory_equal(got, bytes + at, length);
    }
}

static void wait_for_long(unsigned n)
{
    for (unsigned i = 0; atomic_load(&n_long) < n; i++) {
        assert_true(i < PATIENCE);
        usleep(10000);
    }
}

static unsigned open_descriptors(void)
{
    unsigned n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) != -1;
    return n;
}

static void wait_for_descriptors(unsigned n)
{
    for (unsigned i = 0; open_descriptors() != n; i++) {
        assert_true(i < PATIENCE);
        usleep(10000);
    }
}

/* First: the variable is looked at once in a process. */
TEST(it_is_turned_off_by_a_variable)
{
    const pid_t child = fork();
    if (!child) {
        setenv("LEAT_READ_AHEAD", "0", 1);
        struct leat_io_file *file = open_cold(2000);
        read_rows(file, 600, ROW);
        usleep(50000);
        _exit(atomic_load(&n_long) ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

TEST(a_file_whose_short_reads_wait_is_read_as_a_whole_once)
{
    const unsigned before = open_descriptors();
    struct leat_io_file *file = open_cold(2000);
    read_rows(file, 600, ROW);
    wait_for_long(PIECES);
    read_rows(file, 100, ROW);
    wait_for_descriptors(before + 1); /* the thread has let go of it */
    assert_int_equal(atomic_load(&n_long), PIECES);
    assert_int_equal(atomic_load(&n_twice), 0);
    leat_io_release(file);
    assert_int_equal(open_descriptors(), before);
}

TEST(quick_reads_and_long_ones_warm_nothing)
{
    struct leat_io_file *file = open_cold(0);
    read_rows(file, 2000, ROW);
    atomic_store(&pause_us, 2000);
    read_rows(file, 100, 200 << 10);
    usleep(50000);
    assert_int_equal(atomic_load(&n_long), 0);
    leat_io_release(file);
}

TEST(whoever_reads_little_causes_a_few_times_as_much_to_be_read)
{
    const unsigned before = open_descriptors();
    struct leat_io_file *file = open_cold(2000);
    read_rows(file, 250, ROW);
    wait_for_long(1);                 /* the thread has begun */
    wait_for_descriptors(before + 1); /* given up, for now */
    const unsigned little = atomic_load(&n_long);
    assert_in_range(little, 1, 250 * (128 << 10) / PIECE + 1);
    read_rows(file, 600, ROW);
    wait_for_long(PIECES);
    assert_int_equal(atomic_load(&n_twice), 0); /* it went on */
    leat_io_release(file);
    wait_for_descriptors(before);
}

TEST(a_file_that_is_closed_is_let_go_of)
{
    const unsigned before = open_descriptors();
    struct leat_io_file *file = open_cold(2000);
    atomic_store(&gate, true);
    read_rows(file, 600, ROW);
    wait_for_long(1);
    leat_io_release(file);
    atomic_store(&gate, false);
    wait_for_descriptors(before);
    assert_int_equal(atomic_load(&n_long), 1);
}

TEST(what_memory_does_not_hold_is_not_warmed)
{
    char large[PATH_MAX + 16];
    struct leat_error error;
    struct leat_io_file *file;
    uint8_t got[ROW];
    snprintf(large, sizeof large, "%s/large", folder);
    files_write(folder, "large", bytes, ROW);
    assert_int_equal(truncate(large, (off_t)(leat_memory_allowed() / 2 + PIECE)), 0);
    leat_io_release(open_cold(2000));
    assert_ok(leat_io_open(large, &file, &error));
    for (uint64_t i = 0; i < 100; i++)
        assert_ok(leat_io_read(file, i * PIECE, ROW, got, &error));
    usleep(50000);
    assert_int_equal(atomic_load(&n_long), 0);
    leat_io_release(file);
}

TEST(a_file_that_is_open_twice_is_warmed_once)
{
    struct leat_io_file *file = open_cold(2000), *other;
    struct leat_error error;
    assert_ok(leat_io_open(path, &other, &error));
    read_rows(file, 600, ROW);
    read_rows(other, 300, ROW);
    wait_for_long(PIECES);
    usleep(50000);
    assert_int_equal(atomic_load(&n_twice), 0);
    leat_io_release(other);
    leat_io_release(file);
}

/* A file system without a page cache, or a memory that others fill. */
TEST(a_file_of_which_nothing_stays_in_memory_is_given_up)
{
    const unsigned before = open_descriptors();
    struct leat_io_file *file = open_cold(2000);
    atomic_store(&forgets, true);
    read_rows(file, 300, ROW);
    wait_for_long(1);
    wait_for_descriptors(before + 1);
    const unsigned few = atomic_load(&n_long);
    read_rows(file, 300, ROW);
    usleep(50000);
    assert_in_range(few, 1, 8);
    assert_int_equal(atomic_load(&n_long), few);
    atomic_store(&forgets, false);
    leat_io_release(file);
    assert_int_equal(open_descriptors(), before);
}

TEST(many_files_are_warmed_some_at_a_time)
{
    enum { FILES = LEAT_WARM_PASSES + 8, EACH = 2, LIMIT = 2000 };
    static struct leat_io_file *files[FILES];
    const unsigned before = open_descriptors();
    char name[32], at[PATH_MAX + 32];
    struct leat_error error;
    uint8_t got[ROW];
    leat_io_release(open_cold(700));
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "small%d", i);
        snprintf(at, sizeof at, "%s/%s", folder, name);
        files_write(folder, name, bytes, EACH * PIECE);
        assert_ok(leat_io_open(at, &files[i], &error));
    }
    atomic_store(&gate, true);
    for (int i = 0; i < FILES * 220; i++)
        assert_ok(leat_io_read(files[i % FILES], 0, ROW, got, &error));
    assert_int_equal(atomic_load(&n_long), 1);
    assert_int_equal(open_descriptors(), before + FILES + LEAT_WARM_PASSES);
    atomic_store(&gate, false);
    for (int i = 0; atomic_load(&n_long) < FILES * EACH; i++) {
        assert_true(i < LIMIT * FILES);
        assert_ok(leat_io_read(files[i % FILES], 0, ROW, got, &error));
    }
    wait_for_descriptors(before + FILES);
    assert_int_equal(atomic_load(&n_long), FILES * EACH);
    for (int i = 0; i < FILES; i++)
        leat_io_release(files[i]);
    assert_int_equal(open_descriptors(), before);
}

TEST(a_file_that_cannot_be_read_is_tried_once)
{
    const unsigned before = open_descriptors();
    struct leat_io_file *file = open_cold(2000);
    assert_int_equal(truncate(path, ROW), 0);
    struct leat_error error;
    uint8_t got[ROW];
    for (unsigned i = 0; i < 600; i++)
        leat_io_read(file, 0, ROW, got, &error);
    wait_for_long(1);
    wait_for_descriptors(before + 1);
    assert_in_range(atomic_load(&n_long), 1, 2); /* the first piece is there, if it began with that */
    leat_io_release(file);
    files_write(folder, "rows", bytes, BYTES);
}

#if !TEST_THREAD_SANITIZED /* which threads in a child of a fork end */
TEST(a_child_of_a_fork_warms_files_that_it_has_and_its_own)
{
    for (unsigned mine = 0; mine < 2; mine++) {
        const unsigned before = open_descriptors();
        struct leat_io_file *file = open_cold(2000);
        atomic_store(&gate, true);
        read_rows(file, 250, ROW);
        wait_for_long(1); /* the thread is within a read */
        const pid_t child = fork();
        if (!child) {
            atomic_store(&gate, false);
            if (mine)
                leat_io_release(file);
            file = mine ? open_cold(2000) : file;
            atomic_store(&n_long, 0);
            read_rows(file, 600, ROW);
            for (unsigned i = 0; i < PATIENCE && atomic_load(&n_long) < PIECES; i++)
                usleep(10000);
            for (unsigned i = 0; i < PATIENCE && open_descriptors() > before + 1; i++)
                usleep(10000);
            leat_io_release(file);
            _exit(atomic_load(&n_long) != PIECES ? 1 : open_descriptors() != before ? 2 : 0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        atomic_store(&gate, false);
        leat_io_release(file);
        wait_for_descriptors(before);
    }
}
#endif

static int make(void **state)
{
    test_pread = disk_pread;
    files_folder(folder);
    bytes = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 24);
    files_write(folder, "rows", bytes, BYTES);
    snprintf(path, sizeof path, "%s/rows", folder);
    return 0;
}

static int clean(void **state)
{
    files_remove(folder);
    free(bytes);
    return 0;
}

TEST_MAIN_IN(make, clean)
