/*
 * Columns where something fails: each allocation and each call of the system once, a full disk, bytes at rest that are
 * others, files that are cut; and many threads and processes at a time.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "../allocations.h"
#include "base/random.h"
#include "columns/internal.h"
#include "failing.h"

#define TEST_IN_FOLDER(name) TEST_IN(name, rows_make_folder, rows_remove_folder)

/* ---- the n-th call fails ------------------------------------------------------------------------------------------
 */

static const struct leat_field mixed[] = {
    {.name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U64, .ndim = 1, .shape = {WIDTH}},
    {.name = "list", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I16, .ndim = 1, .shape = {-1}},
};

static int open_mixed(bool keyed, struct leat_columns **out, struct leat_error *error)
{
    struct leat_columns_options options = LEAT_COLUMNS_OPTIONS_INIT;
    options.fields = mixed;
    options.n_fields = 2;
    options.keyed = keyed;
    return leat_columns_open(path, &options, out, error);
}

enum { STEPS = 60 };

static int write_mixed(struct leat_columns *c, bool keyed, uint64_t id, uint64_t version, struct leat_error *error)
{
    static int16_t list[3000];
    uint64_t row[WIDTH];
    const uint64_t key = id + 1;
    const int64_t offsets[2] = {0, (int64_t)(id % 3 * 500 + version % 3)};
    rows_fill(id, keyed ? key : 0, version, row);
    const struct leat_column columns[2] = {{row, LEAT_U64, NULL}, {list, LEAT_I16, offsets}};
    return leat_columns_write(c, &id, keyed ? &key : NULL, 1, columns, error);
}

/* The version of a row, 0: missing; or the error. */
static int read_mixed(struct leat_columns *c, bool keyed, uint64_t id, uint64_t *version, struct leat_error *error)
{
    uint64_t row[WIDTH];
    uint8_t present = 9;
    int64_t offsets[2];
    const uint64_t key = id + 1;
    struct leat_column_out out[2] = {{true, row, NULL}, {true, NULL, offsets}};
    int rc = leat_columns_gather(c, &id, keyed ? &key : NULL, 1, out, false, &present, error);
    leat_free(out[1].data);
    if (rc)
        return rc;
    assert_true(present == LEAT_MISSING || rows_are_whole(id, keyed ? key : 0, row));
    *version = present == LEAT_MISSING ? 0 : row[0];
    assert_int_equal(offsets[1], *version ? (int64_t)(id % 3 * 500 + *version % 3) : 0);
    return LEAT_OK;
}

/* Goes through all that can be done with a file, as far as it comes. `written`: versions that are certain. */
static int live_through(bool keyed, uint64_t *written, uint64_t *tried, struct leat_error *error)
{
    struct leat_columns *c;
    uint64_t *ids, *keys, n, version;
    int rc = open_mixed(keyed, &c, error);
    for (uint64_t i = 0; !rc && i < STEPS; i++) {
        tried[i % 20] = written[i % 20] + 1;
        if (!(rc = write_mixed(c, keyed, i % 20, tried[i % 20], error)))
            written[i % 20] = tried[i % 20];
        if (!rc && i % 17 == 0)
            rc = leat_columns_flush(c, error);
        if (!rc && i % 7 == 0)
            rc = read_mixed(c, keyed, i % 20, &version, error);
    }
    if (!rc && !(rc = leat_columns_list(c, &ids, &keys, &n, error))) {
        assert_int_equal(n, 20);
        leat_free(ids);
        leat_free(keys);
    }
    leat_columns_close(c);
    return rc;
}

static void every_failure_is_an_error_after_which_all_that_was_written_is_there(bool keyed, bool allocations)
{
    struct leat_error error;
    for (uint64_t n = 1;; n++) {
        uint64_t written[20] = {0}, tried[20] = {0}, version;
        struct leat_columns *c;
        unlink(path);
        allocations ? fail_allocation((int64_t)n - 1) : fail_call(n);
        const int rc = live_through(keyed, written, tried, &error);
        const bool failed = allocations ? allocation_failed() : call_failed();
        if (!failed) {
            assert_ok(rc);
            assert_true(n > 15);
            return;
        }
        /* What is not needed, such as looking for free slots, may fail without an error. */
        if (rc)
            assert_int_equal(rc, allocations ? LEAT_E_NOMEM : LEAT_E_IO);
        assert_ok(open_mixed(keyed, &c, &error));
        for (uint64_t id = 0; id < 20; id++) {
            assert_ok(read_mixed(c, keyed, id, &version, &error));
            assert_true(version == written[id] || version == tried[id]);
            assert_ok(write_mixed(c, keyed, id, tried[id] + 1, &error));
        }
        assert_ok(leat_columns_flush(c, &error));
        leat_columns_close(c);
    }
}

TEST_IN_FOLDER(every_call_may_fail_once)
{
    every_failure_is_an_error_after_which_all_that_was_written_is_there(false, false);
    every_failure_is_an_error_after_which_all_that_was_written_is_there(true, false);
}

TEST_IN_FOLDER(every_allocation_may_fail_once)
{
    every_failure_is_an_error_after_which_all_that_was_written_is_there(false, true);
    every_failure_is_an_error_after_which_all_that_was_written_is_there(true, true);
}

static int full(int fd, uint64_t offset, uint64_t bytes)
{
    errno = ENOSPC;
    return -1;
}

TEST_IN_FOLDER(a_full_disk_is_an_error_that_says_so_and_goes_away_with_it)
{
    struct leat_error error;
    struct leat_columns *c;
    uint64_t version = 0;
    assert_ok(rows_open(path, false, &c, &error));
    assert_ok(rows_write(c, 1, NULL, 1, &error));
    calls.allocate = full;
    int rc = LEAT_OK;
    for (uint64_t i = 0; !rc && i < 100000; i++)
        if (!(rc = rows_write(c, i, NULL, i + 2, &error)))
            version = i;
    assert_int_equal(rc, LEAT_E_IO);
    assert_int_equal(error.sys_errno, ENOSPC);
    assert_int_equal(error.sample, (int64_t)version + 1);
    assert_non_null(strstr(error.message, "make room"));
    for (uint64_t i = 0; i <= version; i++)
        assert_int_equal(rows_version(c, i, NULL), i + 2);
    assert_int_equal(rows_version(c, version + 1, NULL), 0);
    assert_ok(leat_columns_flush(c, &error));
    calls = plain_calls;
    assert_ok(rows_write(c, version + 1, NULL, 5, &error));
    leat_columns_close(c);
}

/* ---- bytes at rest -------------------------------------------------------------------------------------------------
 */

TEST_IN_FOLDER(a_flipped_byte_anywhere_breaks_what_it_is_in_and_no_other_row_changes)
{
    enum { ROWS = 40 };
    struct leat_error error;
    for (int keyed = 0; keyed < 2; keyed++) {
        struct leat_columns *c;
        unlink(path);
        assert_ok(rows_open(path, keyed, &c, &error));
        for (uint64_t id = 0; id < ROWS; id++)
            assert_ok(rows_write(c, id, keyed ? &id : NULL, id + 1, &error));
        assert_ok(leat_columns_flush(c, &error));
        leat_columns_close(c);
        int fd = open(path, O_RDWR);
        struct stat st;
        assert_true(fd >= 0 && !fstat(fd, &st));
        uint8_t *bytes = malloc((size_t)st.st_size);
        assert_int_equal(pread(fd, bytes, (size_t)st.st_size, 0), st.st_size);
        unsigned refused = 0, broken = 0, others = 0;
        uint64_t used = 0, draw = 1;
        for (uint64_t at = 0; at < (uint64_t)st.st_size; at++)
            used += bytes[at] != 0;
        for (uint64_t at = 0, n = 0; at < (uint64_t)st.st_size; at++) {
            if (!bytes[at] || n++ % (used / 300 + 1))
                continue;
            const uint8_t bad = (uint8_t)(bytes[at] ^ (1u << (draw = leat_mix64(draw)) % 8));
            assert_int_equal(pwrite(fd, &bad, 1, (off_t)at), 1);
            const int rc = rows_open(path, keyed, &c, &error);
            refused += rc != 0;
            for (uint64_t id = 0; !rc && id < ROWS; id++) {
                uint64_t row[WIDTH];
                uint8_t present = 0;
                struct leat_column_out out = {true, row, NULL};
                const int got = leat_columns_gather(c, &id, keyed ? &id : NULL, 1, &out, true, &present, &error);
                if (got)
                    assert_int_equal(got, LEAT_E_CORRUPT);
                else if (present == LEAT_PRESENT)
                    assert_true(rows_are_whole(id, keyed ? id : 0, row) && row[0] == id + 1);
                broken += got || present == LEAT_BROKEN;
                others += !got && present == LEAT_MISSING;
            }
            leat_columns_close(c);
            assert_int_equal(pwrite(fd, &bytes[at], 1, (off_t)at), 1);
        }
        free(bytes);
        close(fd);
        assert_true(refused > 0 && broken > 100);
        assert_int_equal(others, 0); /* nothing goes without a word */
    }
}

TEST_IN_FOLDER(a_header_of_which_any_byte_is_another_is_refused)
{
    enum { FIRST = 24, END = 304 }; /* of what the checksum is of: flags, fingerprint, the one field (header.c) */
    const struct leat_columns_options options = LEAT_COLUMNS_OPTIONS_INIT;
    struct leat_error error;
    struct leat_columns *c;
    uint8_t bytes[END];
    assert_ok(rows_open(path, false, &c, &error));
    leat_columns_close(c);
    const int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, bytes, END, 0), END);
    for (unsigned at = FIRST; at < END; at++) {
        const uint8_t bad = (uint8_t)(bytes[at] ^ 1u << at % 8);
        assert_int_equal(pwrite(fd, &bad, 1, at), 1);
        assert_int_equal(leat_columns_open(path, &options, &c, &error), LEAT_E_CORRUPT);
        assert_string_equal(error.file, path);
        assert_int_equal(pwrite(fd, &bytes[at], 1, at), 1);
    }
    close(fd);
    assert_ok(leat_columns_open(path, &options, &c, &error));
    leat_columns_close(c);
}

TEST_IN_FOLDER(a_broken_row_is_named_with_its_byte_and_is_mended_by_a_write)
{
    struct leat_error error;
    struct leat_columns *c;
    uint64_t row[2 * WIDTH];
    uint8_t present[2];
    const uint64_t ids[2] = {3, 4};
    struct leat_column_out out = {true, row, NULL};
    assert_ok(rows_open(path, false, &c, &error));
    assert_ok(rows_write(c, 3, NULL, 30, &error));
    assert_ok(rows_write(c, 4, NULL, 40, &error));
    assert_ok(leat_columns_flush(c, &error));
    struct entry *entry;
    assert_ok(leat_columns_look_up(c, 4, 0, false, &entry, &error));
    const uint64_t offset = leat_columns_offset(atomic_load(&entry->live));
    leat_columns_at(c, offset)[100] ^= 1;
    assert_int_equal(leat_columns_gather(c, ids, NULL, 2, &out, false, present, &error), LEAT_E_CORRUPT);
    assert_int_equal(error.sample, 4);
    assert_int_equal(error.offset, (int64_t)offset);
    assert_string_equal(error.file, path);
    assert_int_equal(rows_version(c, 3, NULL), 30);
    assert_ok(rows_write(c, 4, NULL, 41, &error));
    assert_int_equal(rows_version(c, 4, NULL), 41);
    leat_columns_close(c);
}

TEST_IN_FOLDER(a_file_that_is_cut_while_it_is_open_is_an_error_and_no_signal)
{
    struct leat_error error;
    struct leat_columns *c;
    uint64_t row[WIDTH], id = 3;
    uint8_t present;
    struct leat_column_out out = {true, row, NULL};
    assert_ok(rows_open(path, false, &c, &error));
    assert_ok(rows_write(c, 3, NULL, 30, &error));
    assert_ok(leat_columns_flush(c, &error));
    assert_int_equal(truncate(path, 1 << 20), 0);
    assert_int_equal(leat_columns_gather(c, &id, NULL, 1, &out, false, &present, &error), LEAT_E_IO);
    assert_string_equal(error.file, path);
    assert_true(rows_write(c, 3, NULL, 31, &error) != 0);
    leat_columns_close(c);
    assert_int_equal(rows_open(path, false, &c, &error), LEAT_E_CORRUPT);
    assert_non_null(strstr(error.message, "was cut"));
}

TEST_IN_FOLDER(a_file_that_is_emptied_while_it_is_open_is_an_error_wherever_a_write_looks)
{
    struct leat_error error;
    struct leat_columns *c;
    for (uint64_t rows = 0; rows < 8000; rows += 613) { /* a group has some 3000 slots */
        unlink(path);
        assert_ok(rows_open(path, false, &c, &error));
        for (uint64_t i = 0; i <= rows; i++)
            assert_ok(rows_write(c, i, NULL, 1, &error));
        assert_int_equal(truncate(path, 0), 0);
        assert_true(rows_write(c, 1, NULL, 2, &error) != 0);
        assert_true(rows_write(c, UINT64_C(1) << 40, NULL, 2, &error) != 0);
        struct class *class = c->classes; /* as for a row of another size */
        class->with_free = NULL;
        assert_true(rows_write(c, 1, NULL, 2, &error) != 0);
        assert_int_equal(leat_columns_flush(c, &error), LEAT_E_IO);
        leat_columns_close(c);
    }
}

static int broken_syncs;
static int breaking_sync(int fd)
{
    errno = EIO;
    return broken_syncs && !--broken_syncs ? -1 : 0;
}

/* The system counts what it could not write as written: no slot may become free until all was written once more. */
TEST_IN_FOLDER(after_a_sync_that_failed_no_slot_is_free_before_a_good_one)
{
    enum { ROWS = 2000 };
    struct leat_error error;
    struct leat_columns *c;
    for (int which = 1; which <= 2; which++) {
        unlink(path);
        broken_syncs = 0;
        calls.sync = breaking_sync;
        assert_ok(rows_open(path, false, &c, &error));
        for (uint64_t version = 1; version <= 2; version++) {
            for (uint64_t i = 0; i < ROWS; i++)
                assert_ok(rows_write(c, i, NULL, version, &error));
            broken_syncs = version == 2 ? which : 0;
            assert_int_equal(leat_columns_flush(c, &error), version == 2 ? LEAT_E_IO : LEAT_OK);
        }
        const size_t left = c->n_left;
        c->left_kept = 0; /* so that it looks at them when it wants a slot */
        assert_true(left >= ROWS);
        for (uint64_t i = 0; i < 6 * ROWS; i++) /* looks for slots again and again */
            assert_ok(rows_write(c, ROWS + i, NULL, 3, &error));
        assert_true(c->n_left >= left);
        assert_ok(leat_columns_flush(c, &error));
        assert_true(c->n_left < left);
        for (uint64_t i = 0; i < 7 * ROWS; i++)
            assert_int_equal(rows_version(c, i, NULL), i < ROWS ? 2 : 3);
        leat_columns_close(c);
    }
}

/* ---- many at a time -------------------------------------------------------------------------------------------------
 */

enum { THREADS = 4, SHARED = 8, TURNS = TEST_THREAD_SANITIZED ? 800 : 4000 };
static struct leat_columns *common;
static atomic_uint ended;

static void *write_and_read(void *number)
{
    const uint64_t t = (uintptr_t)number;
    struct leat_error error;
    for (uint64_t i = 0; i < TURNS; i++) {
        /* some of its own, some that others write, too */
        const uint64_t id = i % 3 ? 100 + t * 1000 + i % 50 : i % SHARED;
        if (rows_write(common, id, NULL, i * THREADS + t + 1, &error))
            return &common;
        if (i % 3 && rows_version(common, id, NULL) != i * THREADS + t + 1)
            return &common;
        if (i % 500 == 0 && leat_columns_flush(common, &error))
            return &common;
    }
    atomic_fetch_add(&ended, 1);
    return NULL;
}

TEST_IN_FOLDER(threads_that_write_the_same_rows_leave_whole_ones)
{
    struct leat_error error;
    pthread_t threads[THREADS];
    void *failed;
    assert_ok(rows_open(path, false, &common, &error));
    atomic_store(&ended, 0);
    for (uintptr_t t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, write_and_read, (void *)t), 0);
    while (atomic_load(&ended) < THREADS)
        for (uint64_t id = 0; id < SHARED; id++)
            if (rows_version(common, id, NULL) >= UINT64_MAX - 1) {
                atomic_store(&ended, THREADS + 100);
                break;
            }
    for (unsigned t = 0; t < THREADS; t++) {
        assert_int_equal(pthread_join(threads[t], &failed), 0);
        assert_null(failed);
    }
    assert_true(atomic_load(&ended) <= THREADS);
    leat_columns_close(common);
}

TEST_IN_FOLDER(processes_that_create_a_file_at_once_share_it)
{
    enum { PROCESSES = 6, ROUNDS = 8 };
    struct leat_error error;
    for (unsigned round = 0; round < ROUNDS; round++) {
        pid_t children[PROCESSES];
        int status;
        struct leat_columns *c;
        unlink(path);
        for (uint64_t p = 0; p < PROCESSES; p++)
            if (!(children[p] = fork())) {
                int rc = rows_open(path, true, &c, &error);
                for (uint64_t id = 0; !rc && id < 20; id++)
                    rc = rows_write(c, id, &p, id + p + 1, &error);
                leat_columns_close(c);
                _exit(rc != 0);
            }
        for (unsigned p = 0; p < PROCESSES; p++) {
            assert_int_equal(waitpid(children[p], &status, 0), children[p]);
            assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
        }
        assert_ok(rows_open(path, true, &c, &error));
        for (uint64_t p = 0; p < PROCESSES; p++)
            for (uint64_t id = 0; id < 20; id++)
                assert_int_equal(rows_version(c, id, &p), id + p + 1);
        leat_columns_close(c);
    }
}

TEST_IN_FOLDER(a_forked_child_reads_and_may_not_write)
{
    struct leat_error error;
    struct leat_columns *c;
    int status;
    assert_ok(rows_open(path, false, &c, &error));
    assert_ok(rows_write(c, 3, NULL, 30, &error));
    pid_t child = fork();
    if (!child) {
        const bool good = rows_version(c, 3, NULL) == 30 && rows_write(c, 3, NULL, 31, &error) == LEAT_E_FORKED &&
                          leat_columns_flush(c, &error) == LEAT_E_FORKED;
        leat_columns_close(c);
        _exit(!good);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
    assert_ok(rows_write(c, 3, NULL, 32, &error));
    leat_columns_close(c);
}

/* ---- a disk that did not take it ---------------------------------------------------------------------------------
 */

static struct {
    uint8_t *page;
    size_t bytes;
    volatile sig_atomic_t written;
} watched;

/* The page that is watched is written to, and may be. */
static void on_write(int number, siginfo_t *info, void *context)
{
    const uint8_t *at = info->si_addr;
    if (at >= watched.page && at < watched.page + watched.bytes && !watched.written) {
        watched.written = 1;
        mprotect(watched.page, watched.bytes, PROT_READ | PROT_WRITE);
    } else {
        signal(number, SIG_DFL);
    }
}

static int failing_sync(int fd)
{
    errno = EIO;
    return -1;
}

/* The system has counted its page as written when it said that it could not: only who writes it again has it written.
 */
TEST_IN_FOLDER(a_flush_after_one_that_failed_writes_its_rows_again)
{
    const struct sigaction action = {.sa_sigaction = on_write, .sa_flags = SA_SIGINFO};
    struct sigaction before;
    struct leat_columns *c;
    struct leat_error error;
    assert_ok(rows_open(path, false, &c, &error));
    assert_ok(rows_write(c, 7, NULL, 1, &error));
    assert_int_equal(rows_version(c, 7, NULL), 1);
    assert_int_equal(c->n_dirty, 1);
    uint8_t *record = leat_columns_at(c, leat_columns_offset(atomic_load(&c->dirty[0]->live)));
    assert_non_null(record);
    watched.bytes = (size_t)sysconf(_SC_PAGESIZE);
    watched.page = record - (uintptr_t)record % watched.bytes;
    watched.written = 0;
    assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
    assert_int_equal(mprotect(watched.page, watched.bytes, PROT_READ), 0);
    calls.sync = failing_sync;
    const int failed = leat_columns_flush(c, &error);
    const bool too_early = watched.written;
    calls = plain_calls;
    const int rc = leat_columns_flush(c, &error);
    mprotect(watched.page, watched.bytes, PROT_READ | PROT_WRITE);
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
    assert_int_equal(failed, LEAT_E_IO);
    assert_false(too_early);
    assert_ok(rc);
    assert_true(watched.written);
    assert_int_equal(rows_version(c, 7, NULL), 1);
    leat_columns_close(c);
}

TEST_MAIN()
