/*
 * Copies of a file that others write to: every row is whole, none that was written before is missing, and what fails,
 * is stopped or is killed leaves nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "../allocations.h"
#include "columns/internal.h"
#include "failing.h"

static char to[PATH_MAX + 16];

static int make_both(void **state)
{
    rows_make_folder(state);
    snprintf(to, sizeof to, "%s/b.store", folder);
    return 0;
}

#define TEST_IN_FOLDER(name) TEST_IN(name, make_both, rows_remove_folder)

static struct leat_columns *opened(const char *at, bool keyed)
{
    struct leat_columns *c;
    struct leat_error error;
    assert_ok(rows_open(at, keyed, &c, &error));
    return c;
}

static unsigned files_there(void)
{
    unsigned n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void write_all(struct leat_columns *c, uint64_t n, uint64_t version)
{
    struct leat_error error;
    for (uint64_t id = 0; id < n; id++)
        assert_ok(rows_write(c, id, c->keyed ? &id : NULL, version, &error));
}

static void all_have(struct leat_columns *c, uint64_t n, uint64_t version)
{
    for (uint64_t id = 0; id < n; id++)
        assert_int_equal(rows_version(c, id, c->keyed ? &id : NULL), version);
}

TEST_IN_FOLDER(a_copy_has_every_row_flushed_or_not_and_both_go_on_apart)
{
    enum { ROWS = 9000 }; /* several groups */
    struct leat_error error;
    for (int keyed = 0; keyed < 2; keyed++) {
        unlink(path);
        unlink(to);
        struct leat_columns *c = opened(path, keyed);
        write_all(c, ROWS, 1);
        assert_ok(leat_columns_flush(c, &error));
        write_all(c, ROWS / 2, 2);
        assert_ok(leat_columns_copy(c, to, false, &error));
        struct leat_columns *d = opened(to, keyed);
        all_have(d, ROWS / 2, 2);
        assert_int_equal(rows_version(d, ROWS - 1, keyed ? &(uint64_t){ROWS - 1} : NULL), 1);
        uint64_t *ids, n;
        assert_ok(leat_columns_list(d, &ids, NULL, &n, &error));
        assert_int_equal(n, ROWS);
        leat_free(ids);
        write_all(c, ROWS, 3);
        assert_ok(leat_columns_flush(c, &error));
        write_all(d, ROWS, 4);
        assert_ok(leat_columns_flush(d, &error));
        write_all(d, ROWS, 5);
        all_have(c, ROWS, 3);
        all_have(d, ROWS, 5);
        leat_columns_close(c);
        leat_columns_close(d);
        d = opened(to, keyed);
        all_have(d, ROWS, 5);
        leat_columns_close(d);
    }
}

TEST_IN_FOLDER(after_a_loss_of_power_a_copy_has_what_it_had)
{
    struct leat_error error;
    struct leat_columns *c = opened(path, false);
    struct stat st;
    write_all(c, 5000, 1);
    assert_ok(leat_columns_copy(c, to, false, &error));
    leat_columns_close(c);
    c = opened(to, false);
    assert_int_equal(atomic_load(&c->shared->flushing), 0);
    assert_int_equal(atomic_load(&c->shared->kept), atomic_load(&c->shared->n_segments));
    assert_false(stat(to, &st));
    assert_int_equal(st.st_size, atomic_load(&c->shared->n_segments) << SEGMENT_SHIFT);
    leat_columns_close(c);
}

/* ---- others write -------------------------------------------------------------------------------------------------
 */

enum { SHARED_ROWS = 600 };
static atomic_ullong written[SHARED_ROWS];
static atomic_bool ended;

/* Through an open file of its own: it has the locks of another process. */
static void *write_on(void *keyed)
{
    struct leat_error error;
    struct leat_columns *c = opened(path, keyed != NULL);
    for (uint64_t version = 2; !atomic_load(&ended); version++) {
        for (uint64_t id = 0; id < SHARED_ROWS; id++) {
            assert_ok(rows_write(c, id, keyed ? &id : NULL, version, &error));
            atomic_store(&written[id], version);
        }
        const uint64_t more = 1000 + version % 50000;
        assert_ok(rows_write(c, more, keyed ? &more : NULL, version, &error));
        if (version % 3 == 0)
            assert_ok(leat_columns_flush(c, &error));
    }
    leat_columns_close(c);
    return NULL;
}

static void copies_while_another_writes(bool keyed)
{
    struct leat_error error;
    pthread_t writer;
    unlink(path);
    struct leat_columns *c = opened(path, keyed);
    write_all(c, SHARED_ROWS, 1);
    for (unsigned id = 0; id < SHARED_ROWS; id++)
        atomic_store(&written[id], 1);
    atomic_store(&ended, false);
    assert_int_equal(pthread_create(&writer, NULL, write_on, keyed ? &ended : NULL), 0);
    for (unsigned turn = 0; turn < 12; turn++) {
        uint64_t before[SHARED_ROWS];
        for (unsigned id = 0; id < SHARED_ROWS; id++)
            before[id] = atomic_load(&written[id]);
        assert_ok(leat_columns_copy(c, to, true, &error));
        struct leat_columns *d = opened(to, keyed);
        for (uint64_t id = 0; id < SHARED_ROWS; id++) {
            const uint64_t version = rows_version(d, id, keyed ? &id : NULL);
            assert_true(version >= before[id] && version <= atomic_load(&written[id]) + 1);
        }
        write_all(d, SHARED_ROWS, 7); /* into slots that no row of it needs */
        all_have(d, SHARED_ROWS, 7);
        leat_columns_close(d);
    }
    atomic_store(&ended, true);
    pthread_join(writer, NULL);
    leat_columns_close(c);
}

TEST_IN_FOLDER(each_row_of_a_copy_is_whole_and_as_new_as_its_beginning_while_another_writes)
{
    copies_while_another_writes(false);
    copies_while_another_writes(true);
}

static struct leat_columns *meanwhile;

static void *rewrite(void *store)
{
    for (uint64_t version = 2; version < 6; version++)
        write_all(store, 100, version);
    return NULL;
}

/* Rewrites all rows after the index was copied: no slot that it names may be used for that. There are free ones. */
static ssize_t move_late(int from, int at, uint64_t offset, uint64_t bytes)
{
    pthread_t writer;
    if (meanwhile) {
        assert_int_equal(pthread_create(&writer, NULL, rewrite, meanwhile), 0);
        pthread_join(writer, NULL);
    }
    meanwhile = NULL;
    return plain_calls.move(from, at, offset, bytes);
}

TEST_IN_FOLDER(rows_that_are_rewritten_between_index_and_data_are_copied_as_they_were)
{
    struct leat_error error;
    struct leat_columns *c = opened(path, false);
    write_all(c, 100, 1);
    calls.move = move_late;
    meanwhile = c;
    assert_ok(leat_columns_copy(c, to, false, &error));
    struct leat_columns *d = opened(to, false);
    all_have(d, 100, 1);
    all_have(c, 100, 5);
    leat_columns_close(c);
    leat_columns_close(d);
}

static int lock_file, locks_seen;

/* As another process would see it. */
static ssize_t move_locked(int from, int at, uint64_t offset, uint64_t bytes)
{
    locks_seen +=
        plain_calls.lock(lock_file, LOCK_FLUSH, false) == 1 && plain_calls.lock(lock_file, LOCK_GROW, false) == 1;
    return plain_calls.move(from, at, offset, bytes);
}

TEST_IN_FOLDER(no_slot_becomes_free_and_no_segment_is_added_while_data_are_copied)
{
    struct leat_error error;
    struct leat_columns *c = opened(path, false);
    write_all(c, 100, 1);
    lock_file = open(path, O_RDWR);
    locks_seen = 0;
    calls.move = move_locked;
    assert_ok(leat_columns_copy(c, to, false, &error));
    assert_true(locks_seen > 0);
    for (uint64_t n = LOCK_FLUSH; n <= LOCK_GROW; n++)
        assert_int_equal(plain_calls.lock(lock_file, n, false), 0); /* they are free again */
    close(lock_file);
    leat_columns_close(c);
}

static bool synced;

static int note_sync(int fd)
{
    synced = true;
    return 0;
}
static int publish_synced(const char *from, const char *name)
{
    assert_true(synced);
    return plain_calls.publish(from, name);
}

TEST_IN_FOLDER(a_copy_gets_its_name_once_it_is_on_disk)
{
    struct leat_error error;
    struct leat_columns *c = opened(path, false);
    write_all(c, 100, 1);
    synced = false;
    calls.sync = note_sync;
    calls.publish = publish_synced;
    assert_ok(leat_columns_copy(c, to, false, &error));
    leat_columns_close(c);
}

/* ---- how the bytes go ----------------------------------------------------------------------------------------------
 */

static uint64_t bytes_put, bytes_moved;
static int cannot; /* the errno of the system if it cannot copy; 0: it can, in bits */

static ssize_t count_put(int fd, const void *data, uint64_t bytes, uint64_t offset)
{
    bytes_put += bytes;
    return plain_calls.put(fd, data, bytes, offset);
}
static ssize_t move_in_bits(int from, int at, uint64_t offset, uint64_t bytes)
{
    static unsigned turn;
    if (cannot || ++turn % 4 == 0) {
        errno = cannot ? cannot : EINTR;
        return -1;
    }
    bytes = bytes > 300000 ? 300000 : bytes;
    const ssize_t n = plain_calls.move(from, at, offset, bytes);
    bytes_moved += n > 0 ? (uint64_t)n : 0;
    return n;
}

TEST_IN_FOLDER(data_go_within_the_system_and_are_read_and_written_only_where_it_cannot)
{
    const int ways[] = {0, EXDEV, EOPNOTSUPP, ENOSYS, EINVAL};
    struct leat_error error;
    struct leat_columns *c = opened(path, false);
    write_all(c, 9000, 1);
    calls.put = count_put;
    calls.move = move_in_bits;
    const uint64_t data = (atomic_load(&c->shared->n_segments) - 4) << SEGMENT_SHIFT; /* table, directory, one chunk */
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        bytes_put = bytes_moved = 0;
        cannot = ways[i];
        assert_ok(leat_columns_copy(c, to, true, &error));
        assert_int_equal(bytes_moved, cannot ? 0 : data);
        assert_int_equal(bytes_put, (3 << SEGMENT_SHIFT) + HEADER_BYTES + sizeof(struct shared) + (cannot ? data : 0));
        struct leat_columns *d = opened(to, false);
        all_have(d, 9000, 1);
        leat_columns_close(d);
    }
    leat_columns_close(c);
}

/* ---- what fails -----------------------------------------------------------------------------------------------------
 */

static bool unnamed_unsupported;

static int open_named(const char *at, int flags, mode_t mode)
{
    if ((flags & O_TMPFILE) == O_TMPFILE && unnamed_unsupported) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return __real_leat_call_open(at, flags, mode);
}

/* `before`: the version of a row of what was at the target, 0: nothing was. */
static void failing_copies(bool allocations, uint64_t before)
{
    struct leat_error error;
    struct leat_columns *c = opened(path, false), *d;
    write_all(c, 20, 8);
    for (uint64_t n = 1;; n++) {
        unlink(to);
        if (before) {
            d = opened(to, false);
            write_all(d, 20, before);
            leat_columns_close(d);
        }
        allocations ? fail_allocation((int64_t)n - 1) : fail_call(n);
        const int rc = leat_columns_copy(c, to, before != 0, &error);
        const bool failed = allocations ? allocation_failed() : call_failed();
        assert_true(failed || !rc);
        if (rc)
            assert_int_equal(rc, allocations ? LEAT_E_NOMEM : LEAT_E_IO);
        const bool synced_late = rc && strstr(error.message, "the folder of"); /* it is there by then */
        assert_int_equal(files_there(), 1 + (!rc || before || synced_late));
        if (!rc || before) {
            d = opened(to, false);
            all_have(d, 20, rc && !synced_late ? before : 8);
            leat_columns_close(d);
        }
        write_all(c, 20, 8);
        assert_ok(leat_columns_flush(c, &error)); /* no lock is left */
        if (!failed) {
            assert_true(n > 2);
            break;
        }
    }
    leat_columns_close(c);
}

TEST_IN_FOLDER(a_copy_that_fails_leaves_nothing_and_what_it_was_to_replace)
{
    for (int named = 0; named < 2; named++)
        for (int allocations = 0; allocations < 2; allocations++) {
            unnamed_unsupported = named != 0;
            plain_calls.open = calls.open = open_named;
            failing_copies(allocations, 0);
            failing_copies(allocations, 3);
        }
}

TEST_IN_FOLDER(a_target_that_is_there_is_replaced_only_if_that_is_asked_for_and_never_the_store_itself)
{
    struct leat_error error;
    struct leat_columns *c = opened(path, false), *d;
    write_all(c, 5, 1);
    assert_ok(leat_columns_copy(c, to, false, &error));
    d = opened(to, false);
    write_all(c, 5, 2);
    assert_int_equal(leat_columns_copy(c, to, false, &error), LEAT_E_EXISTS);
    assert_string_equal(error.file, to);
    assert_int_equal(leat_columns_copy(c, path, true, &error), LEAT_E_INVALID);
    assert_ok(leat_columns_copy(c, to, true, &error));
    all_have(d, 5, 1); /* it has the file that was there */
    leat_columns_close(d);
    d = opened(to, false);
    all_have(d, 5, 2);
    leat_columns_close(d);
    leat_columns_close(c);
    struct leat_columns_options options = LEAT_COLUMNS_OPTIONS_INIT;
    options.read_only = true;
    assert_ok(leat_columns_open(path, &options, &c, &error));
    assert_int_equal(leat_columns_copy(c, to, true, &error), LEAT_E_CLOSED);
    leat_columns_close(c);
}

static bool at_once(void)
{
    return true;
}

TEST_IN_FOLDER(a_copy_that_is_interrupted_leaves_nothing_and_the_store_goes_on)
{
    struct leat_error error;
    struct leat_columns *c = opened(path, false);
    write_all(c, 5, 1);
    leat_set_interrupt(at_once);
    assert_int_equal(leat_columns_copy(c, to, false, &error), LEAT_E_CANCELLED);
    leat_set_interrupt(NULL);
    assert_int_equal(files_there(), 1);
    write_all(c, 5, 2);
    assert_ok(leat_columns_copy(c, to, false, &error));
    leat_columns_close(c);
}

static ssize_t move_and_die(int from, int at, uint64_t offset, uint64_t bytes)
{
    raise(SIGKILL);
    return -1;
}

TEST_IN_FOLDER(a_copy_that_is_killed_leaves_nothing_and_no_lock)
{
    struct leat_error error;
    struct leat_columns *c = opened(path, false);
    const int probe = open(folder, O_TMPFILE | O_RDWR, 0600);
    int status;
    write_all(c, 5, 1);
    leat_columns_close(c);
    const pid_t child = fork();
    if (!child) {
        calls.move = move_and_die;
        if (!rows_open(path, false, &c, &error))
            leat_columns_copy(c, to, false, &error);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    if (probe >= 0) /* else a file without a name is not possible there */
        assert_int_equal(files_there(), 1);
    c = opened(path, false);
    write_all(c, 5, 2);
    assert_ok(leat_columns_copy(c, to, false, &error));
    leat_columns_close(c);
    if (probe >= 0)
        close(probe);
}

TEST_IN_FOLDER(a_file_that_is_cut_is_no_copy)
{
    struct leat_error error;
    struct leat_columns *c = opened(path, false);
    write_all(c, 9000, 1);
    assert_int_equal(truncate(path, 5 << SEGMENT_SHIFT), 0);
    assert_int_equal(leat_columns_copy(c, to, false, &error), LEAT_E_CORRUPT);
    assert_int_equal(files_there(), 1);
    leat_columns_close(c);
}

TEST_MAIN()
