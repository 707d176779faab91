/* Reads that block are done side by side, by threads of their own, as long as they are slow. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../files.h"
#include "../test.h"
#include "io/file.h"
#include "io/helpers.h"

enum { N = LEAT_HELPERS + 8, BYTES = 4096 };

static char folder[64], path[PATH_MAX];
static struct leat_io_request requests[N];
static uint8_t got[N][8];

/* How preads behave: so long each; and with `gate`, until it is opened. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static _Atomic unsigned pause_us;
static unsigned inside, most_inside, done;
static bool gate;

static ssize_t slow_pread(int fd, void *buffer, size_t bytes, off_t offset)
{
    const unsigned us = atomic_load(&pause_us);
    if (!us)
        return pread(fd, buffer, bytes, offset);
    pthread_mutex_lock(&lock);
    inside++;
    most_inside = most_inside > inside ? most_inside : inside;
    pthread_cond_broadcast(&changed);
    while (gate)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    usleep(us);
    pthread_mutex_lock(&lock);
    inside--;
    pthread_mutex_unlock(&lock);
    return pread(fd, buffer, bytes, offset);
}

static void set(unsigned us, bool gated)
{
    pthread_mutex_lock(&lock);
    atomic_store(&pause_us, us);
    gate = gated;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void wait_for(const unsigned *number, unsigned least)
{
    pthread_mutex_lock(&lock);
    while (*number < least)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void on_done(struct leat_io_request *request, void *user)
{
    pthread_mutex_lock(&lock);
    done++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static int submit(struct leat_io_file *file, size_t i)
{
    requests[i] =
        (struct leat_io_request){.file = file, .offset = 8 * i, .length = 8, .buffer = got[i], .done = on_done};
    return leat_io_submit(&requests[i]);
}

/* Reads until one completes later, or at once. */
static void read_until(struct leat_io_file *file, int result)
{
    for (int patience = 100000; patience; patience--) {
        done = 0;
        const int rc = submit(file, 0);
        if (rc == LEAT_IO_PENDING)
            wait_for(&done, 1);
        assert_int_equal(requests[0].status, LEAT_OK);
        if (rc == result)
            return;
    }
    fail_msg("reads never turned out as expected");
}

static struct leat_io_file *open_slow(void)
{
    struct leat_io_file *file;
    struct leat_error error;
    test_pread = slow_pread;
    most_inside = done = 0;
    assert_ok(leat_io_open(path, &file, &error));
    set(5000, false);
    read_until(file, LEAT_IO_PENDING);
    done = 0;
    return file;
}

static void close_slow(struct leat_io_file *file)
{
    leat_io_release(file);
    set(0, false);
    test_pread = pread;
}

static void assert_good(size_t i)
{
    assert_int_equal(requests[i].status, LEAT_OK);
    for (size_t k = 0; k < 8; k++)
        assert_int_equal(got[i][k], (uint8_t)(8 * i + k));
}

TEST(slow_reads_are_done_side_by_side_and_quick_ones_in_place)
{
    struct leat_io_file *file = open_slow();
    assert_int_equal(most_inside, 1);
    set(5000, true);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(submit(file, i), LEAT_IO_PENDING);
    wait_for(&inside, LEAT_HELPERS);
    set(0, false);
    wait_for(&done, N);
    assert_int_equal(most_inside, LEAT_HELPERS);
    for (size_t i = 0; i < N; i++)
        assert_good(i);
    read_until(file, LEAT_OK);
    close_slow(file);
}

TEST(a_read_that_no_thread_has_begun_with_can_be_cancelled)
{
    struct leat_io_file *file = open_slow();
    set(5000, true);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(submit(file, i), LEAT_IO_PENDING);
    wait_for(&inside, LEAT_HELPERS);
    for (size_t i = N; i--;)
        leat_io_cancel(&requests[i]);
    assert_int_equal(done, N - LEAT_HELPERS);
    set(0, false);
    wait_for(&done, N);
    for (size_t i = 0; i < N; i++)
        if (requests[i].status == LEAT_E_CANCELLED)
            done--;
        else
            assert_good(i);
    assert_int_equal(done, LEAT_HELPERS);
    close_slow(file);
}

TEST(whoever_waits_does_not_queue_behind_others)
{
    struct leat_io_file *file = open_slow();
    struct leat_error error;
    uint8_t byte;
    set(5000, true);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(submit(file, i), LEAT_IO_PENDING);
    wait_for(&inside, LEAT_HELPERS);
    atomic_store(&pause_us, 0); /* the gate is for those inside */
    assert_ok(leat_io_read(file, 9, 1, &byte, &error));
    assert_int_equal(byte, 9);
    assert_int_equal(done, 0);
    set(0, false);
    wait_for(&done, N);
    close_slow(file);
}

#if !TEST_THREAD_SANITIZED /* which cannot start threads in the child of a process that has some */
TEST(a_forked_child_reads_with_threads_of_its_own)
{
    struct leat_io_file *file = open_slow();
    set(5000, true);
    assert_int_equal(submit(file, 1), LEAT_IO_PENDING);
    wait_for(&inside, 1);
    pthread_mutex_lock(&lock);
    const pid_t child = fork();
    if (!child) {
        pthread_mutex_unlock(&lock);
        pthread_cond_init(&changed, NULL); /* the parent's thread waits for it */
        test_pread = pread;
        if (submit(file, 2) != LEAT_IO_PENDING)
            _exit(2);
        wait_for(&done, 1);
        _exit(requests[2].status || got[2][0] != 16);
    }
    pthread_mutex_unlock(&lock);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    set(0, false);
    wait_for(&done, 1);
    assert_good(1);
    close_slow(file);
}

#endif

static int prepare(void **state)
{
    uint8_t content[BYTES];
    for (size_t i = 0; i < BYTES; i++)
        content[i] = (uint8_t)i;
    strcpy(folder, "/tmp/leat-helpers-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    files_write(folder, "file", content, BYTES);
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static int clean(void **state)
{
    return remove(path) || rmdir(folder);
}

TEST_MAIN_IN(prepare, clean)
