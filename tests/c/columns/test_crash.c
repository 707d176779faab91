/*
 * Writers that are killed, and machines that lose power. Whatever happens, a row is one that was written, whole, and as
 * new as the last flush at least.
 */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/random.h"
#include "columns/internal.h"
#include "rows.h"

static char other[PATH_MAX + 16];

static int make_both(void **state)
{
    rows_make_folder(state);
    snprintf(other, sizeof other, "%s/b.store", folder);
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

/* ---- every instruction ------------------------------------------------------------------------------------------- */

enum { TOGETHER = 12 }; /* rows of one call that are put: more than a page of them */

/* Writes row 7 and, if they are `many`, those behind row 8. */
static int write_watched(struct leat_columns *c, bool keyed, unsigned many, uint64_t version, struct leat_error *error)
{
    uint64_t ids[TOGETHER + 1] = {7}, keys[TOGETHER + 1], versions[TOGETHER + 1];
    for (unsigned i = 0; i <= TOGETHER; i++) {
        ids[i] = i ? 8 + i : 7;
        keys[i] = 5;
        versions[i] = version;
    }
    return rows_write_many(c, ids, keyed ? keys : NULL, versions, 1 + many, error);
}

/* In a child: opens the file, makes what a first write makes anew, and stops before the write that is watched. */
static void be_watched(bool keyed, bool flush, unsigned many)
{
    struct leat_columns *c;
    struct leat_error error;
    const uint64_t key = 5;
    if (rows_open(path, keyed, &c, &error) || rows_write(c, 8, keyed ? &key : NULL, 1, &error))
        _exit(1);
    c->in_memory = false;
    c->put_least = 0;
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        _exit(2);
    raise(SIGSTOP);
    int rc = write_watched(c, keyed, many, 2, &error);
    if (!rc && flush)
        rc = leat_columns_flush(c, &error);
    raise(SIGSTOP);
    _exit(rc ? 3 : 0);
}

/* The child, stopped before its write; 0: processes may not be watched here. */
static pid_t watched(bool keyed, bool flush, unsigned many)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child)
        be_watched(keyed, flush, many);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
        return 0;
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    return child;
}

/* Lets it run one instruction. False: its write is through. */
static bool step(pid_t child)
{
    int status;
    assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSTOPPED(status));
    return WSTOPSIG(status) == SIGTRAP;
}

static void stop(pid_t child)
{
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* Instrumented code has ten times as many instructions. */
#if defined(__SANITIZE_ADDRESS__) || TEST_HAS(address_sanitizer) || TEST_THREAD_SANITIZED
enum { LOOK_EVERY = 16, KILLED_STEPS = 2, ROUNDS = 10 };
#else
enum { LOOK_EVERY = 1, KILLED_STEPS = 40, ROUNDS = 24 };
#endif

/* At each instruction a reader looks at the row; at some of them the writer is killed, and another one goes on. */
static void watch(bool keyed, bool flush, unsigned many, unsigned kills)
{
    struct leat_error error;
    const uint64_t key = 5, *k = keyed ? &key : NULL;
    if (TEST_THREAD_SANITIZED)
        return; /* no threads here, and ten times as many instructions */
    struct leat_columns *c = opened(path, keyed);
    assert_ok(write_watched(c, keyed, many, 1, &error));
    assert_ok(leat_columns_flush(c, &error));
    uint64_t steps = 0, version = 1, last_version = 1;
    const uint64_t last = many ? 8 + many : 7;
    pid_t child = watched(keyed, flush, many);
    if (!child) {
        printf("# SKIP processes may not be traced here\n");
        leat_columns_close(c);
        return;
    }
    for (; step(child); steps++) {
        if (steps % (LOOK_EVERY * (many ? 16U : 1U)))
            continue;
        const uint64_t now = rows_version(c, 7, k), last_now = rows_version(c, last, k);
        assert_true(now == 1 || now == 2);
        assert_true(now >= version);
        assert_true(last_now >= last_version && last_now <= now); /* in the order of the rows */
        version = now;
        last_version = last_now;
        assert_int_equal(rows_version(c, 8, k), 1);
    }
    assert_int_equal(rows_version(c, 7, k), 2);
    assert_int_equal(rows_version(c, last, k), 2);
    stop(child);
    for (unsigned n = 0; n < kills; n++) {
        const uint64_t at = steps * (2 * n + 1) / (2 * kills) + n % 7;
        assert_ok(write_watched(c, keyed, many, 1, &error));
        child = watched(keyed, flush, many);
        for (uint64_t i = 0; i <= at && i < steps; i++)
            step(child);
        stop(child);
        const uint64_t now = rows_version(c, 7, k), last_now = rows_version(c, last, k);
        assert_true(now == 1 || now == 2);
        assert_true(last_now == 1 || last_now == 2);
        assert_ok(rows_write(c, 7, k, 3, &error)); /* nobody holds a lock for ever */
        assert_ok(leat_columns_flush(c, &error));
        assert_int_equal(rows_version(c, 7, k), 3);
    }
    leat_columns_close(c);
    assert_true(steps > 300);
}

TEST_IN_FOLDER(a_row_is_whole_at_every_instruction_of_a_write_and_after_a_kill_there)
{
    watch(false, false, 0, KILLED_STEPS);
}

TEST_IN_FOLDER(so_are_rows_that_are_put_together)
{
    watch(false, false, TOGETHER, KILLED_STEPS / 16); /* none where code is instrumented */
}

TEST_IN_FOLDER(so_it_is_of_a_row_with_a_key_and_of_a_flush)
{
    watch(true, true, 0, KILLED_STEPS);
}

/* ---- many kills ----------------------------------------------------------------------------------------------------
 */

enum { WRITERS = 3, IDS = 40, KILLS = 12 };

/* Of one key, by one call. */
static int write_all_ids(struct leat_columns *c, uint64_t key, uint64_t version, struct leat_error *error)
{
    uint64_t ids[IDS], keys[IDS], versions[IDS];
    for (unsigned i = 0; i < IDS; i++) {
        ids[i] = i;
        keys[i] = key;
        versions[i] = version;
    }
    return rows_write_many(c, ids, keys, versions, IDS, error);
}

static void write_until_killed(unsigned writer, uint64_t seed)
{
    struct leat_columns *c;
    struct leat_error error;
    if (rows_open(path, true, &c, &error))
        _exit(1);
    c->in_memory = false;
    c->put_least = 0;
    for (uint64_t n = 1;; n++) {
        if (n % 5 == 0 && write_all_ids(c, writer, seed + n, &error))
            _exit(3);
        const uint64_t draw = leat_mix64(seed + n), id = draw % IDS, key = draw >> 32 & 1 ? 0 : writer;
        if (rows_write(c, id, &key, seed + n, &error) || (n % 97 == 0 && leat_columns_flush(c, &error)))
            _exit(2);
    }
}

TEST_IN_FOLDER(many_killed_writers_leave_whole_rows_and_no_lost_room)
{
    struct leat_error error;
    struct leat_columns *c = opened(path, true);
    struct stat st;
    for (unsigned round = 0; round < KILLS; round++) {
        pid_t writers[WRITERS];
        int status;
        for (unsigned w = 0; w < WRITERS; w++)
            if (!(writers[w] = fork()))
                write_until_killed(w, (round * WRITERS + w) * UINT64_C(1000000000));
        for (unsigned look = 0; look < 400; look++) {
            const uint64_t key = look % WRITERS, version = rows_version(c, look % IDS, &key);
            assert_true(version < UINT64_MAX - 1);
        }
        for (unsigned w = 0; w < WRITERS; w++) {
            kill(writers[w], SIGKILL);
            assert_int_equal(waitpid(writers[w], &status, 0), writers[w]);
            assert_true(WIFSIGNALED(status)); /* it did not fail before */
        }
    }
    for (uint64_t id = 0; id < IDS; id++)
        for (uint64_t key = 0; key < WRITERS; key++) {
            assert_true(rows_version(c, id, &key) < UINT64_MAX - 1);
            assert_ok(rows_write(c, id, &key, 7, &error));
        }
    assert_ok(leat_columns_flush(c, &error));
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size < 64 << 20); /* those that come later fill what dead ones had */
    leat_columns_close(c);
}

/* ---- losses of power ----------------------------------------------------------------------------------------------
 */

/* What is on disk: a copy, made at each sync. In between the system may have written any page. */
static struct {
    uint8_t *bytes;
    size_t size;
    unsigned syncs;
} disk;

static void look_at_disk(const char *at, uint8_t **bytes, size_t *size)
{
    int fd = open(at, O_RDONLY);
    struct stat st;
    assert_true(fd >= 0 && !fstat(fd, &st));
    *size = (size_t)st.st_size;
    *bytes = malloc(*size);
    assert_int_equal(pread(fd, *bytes, *size, 0), *size);
    close(fd);
}

static int remembering_sync(int fd)
{
    free(disk.bytes);
    look_at_disk(path, &disk.bytes, &disk.size);
    disk.syncs++;
    return fd < 0;
}

/* Writes `other` as it may be after a loss of power: each page as of the last sync, or as it is. The size is one of
 * both as well; what was never written is zero. */
static void lose_power(uint64_t seed)
{
    uint8_t *now;
    size_t size;
    look_at_disk(path, &now, &size);
    if (leat_mix64(seed) & 1 && size > disk.size)
        size = disk.size;
    const unsigned odds = (unsigned)(leat_mix64(seed + 1) % 5); /* of four */
    for (size_t at = 0; at < size; at += 4096) {
        if (leat_mix64(seed + 2 + at) % 4 < odds)
            continue; /* it was written */
        const size_t n = size - at < 4096 ? size - at : 4096;
        if (at < disk.size)
            memcpy(now + at, disk.bytes + at, n);
        else
            memset(now + at, 0, n);
    }
    int fd = open(other, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, now, size, 0), size);
    close(fd);
    free(now);
}

struct history {
    uint64_t flushed[IDS], written[IDS];
};

/* Rows that were flushed are listed, once each, and none that was not written. */
static void check_list(struct leat_columns *c, const struct history *h, bool keyed)
{
    struct leat_error error;
    uint64_t *ids, *keys, n;
    unsigned listed[IDS] = {0};
    assert_ok(leat_columns_list(c, &ids, &keys, &n, &error));
    for (uint64_t i = 0; i < n; i++) {
        assert_true(ids[i] < IDS && h->written[ids[i]]);
        assert_int_equal(keys[i], keyed ? ids[i] * 3 : 0);
        listed[ids[i]]++;
    }
    for (uint64_t id = 0; id < IDS; id++)
        assert_true(listed[id] <= 1 && (listed[id] || !h->flushed[id]));
    leat_free(ids);
    leat_free(keys);
}

static void check_after_loss(const struct history *h, uint64_t seed, bool keyed)
{
    struct leat_error error;
    const struct calls before = calls;
    calls = plain_calls;
    lose_power(seed);
    struct leat_columns *c;
    int rc = rows_open(other, keyed, &c, &error);
    if (rc == LEAT_E_CORRUPT && strstr(error.message, "was cut"))
        fail_msg("after a loss of power: %s", error.message);
    assert_ok(rc);
    for (uint64_t id = 0; id < IDS; id++) {
        const uint64_t key = id * 3, *k = keyed ? &key : NULL, version = rows_version(c, id, k);
        assert_true(version <= h->written[id]); /* not broken, not torn */
        assert_true(version >= h->flushed[id]);
    }
    check_list(c, h, keyed);
    /* and it can be written to, which tears nothing that was flushed */
    for (uint64_t id = 0; id < IDS; id += 2) {
        const uint64_t key = id * 3;
        assert_ok(rows_write(c, id, keyed ? &key : NULL, h->written[id] + 1, &error));
    }
    for (uint64_t id = 0; id < IDS; id++) {
        const uint64_t key = id * 3, version = rows_version(c, id, keyed ? &key : NULL);
        assert_true(id % 2 ? version >= h->flushed[id] && version <= h->written[id] : version == h->written[id] + 1);
    }
    leat_columns_close(c);
    calls = before;
}

static struct history history;
static bool history_keyed;
static uint64_t history_seed;

/* Power is lost before a sync, too: in the middle of a flush. */
static int losing_sync(int fd)
{
    check_after_loss(&history, history_seed += 1000003, history_keyed);
    return remembering_sync(fd);
}

static void lose_power_again_and_again(bool keyed)
{
    struct leat_error error;
    struct leat_columns *c = opened(path, keyed);
    c->in_memory = false;
    c->put_least = 0;
    history = (struct history){0};
    history_keyed = keyed;
    remembering_sync(0);
    calls.sync = remembering_sync;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (unsigned n = 0; n < 30; n++) {
            const uint64_t id = leat_mix64(round * 100 + n) % (round < 5 ? IDS / 2 : IDS), key = id * 3;
            assert_ok(rows_write(c, id, keyed ? &key : NULL, ++history.written[id], &error));
        }
        if (round % 3 == 0) { /* all of them by one call */
            uint64_t ids[IDS], keys[IDS];
            for (unsigned i = 0; i < IDS; i++) {
                ids[i] = i;
                keys[i] = i * 3;
                history.written[i]++;
            }
            assert_ok(rows_write_many(c, ids, keyed ? keys : NULL, history.written, IDS, &error));
        }
        history_seed = round * UINT64_C(1000000007);
        for (unsigned n = 0; n < 3; n++)
            check_after_loss(&history, history_seed += 77, keyed);
        if (round % 2)
            continue;
        calls.sync = losing_sync;
        assert_ok(leat_columns_flush(c, &error));
        calls.sync = remembering_sync;
        memcpy(history.flushed, history.written, sizeof history.flushed);
    }
    leat_columns_close(c);
    free(disk.bytes);
    disk.bytes = NULL;
}

TEST_IN_FOLDER(what_was_flushed_survives_a_loss_of_power_at_any_time)
{
    lose_power_again_and_again(false);
}

TEST_IN_FOLDER(so_do_rows_with_keys)
{
    lose_power_again_and_again(true);
}

/* A part of the index that is new begins with nothing in it. */
TEST_IN_FOLDER(bytes_left_behind_the_end_are_no_part_of_what_is_added)
{
    enum { NEAR = 5, FAR = 70000 }; /* in the first chunk of the index, and in the second */
    static uint8_t ones[SEGMENT_BYTES];
    struct leat_error error;
    struct leat_columns *c = opened(path, false);
    struct stat st;
    uint64_t *ids, *keys, n;
    assert_ok(rows_write(c, NEAR, NULL, 1, &error));
    assert_ok(leat_columns_flush(c, &error));
    leat_columns_close(c);
    const int fd = open(path, O_RDWR);
    assert_int_equal(fstat(fd, &st), 0);
    memset(ones, 0xff, sizeof ones);
    assert_int_equal(pwrite(fd, ones, sizeof ones, st.st_size), sizeof ones);
    close(fd);
    c = opened(path, false);
    assert_ok(rows_write(c, FAR, NULL, 2, &error));
    assert_ok(leat_columns_list(c, &ids, &keys, &n, &error));
    assert_int_equal(n, 2);
    assert_int_equal(ids[0], NEAR);
    assert_int_equal(ids[1], FAR);
    leat_free(ids);
    leat_free(keys);
    assert_int_equal(rows_version(c, NEAR, NULL), 1);
    assert_int_equal(rows_version(c, FAR, NULL), 2);
    assert_int_equal(rows_version(c, FAR + 1, NULL), 0);
    leat_columns_close(c);
}

/* Calls that a file's creation is made of, in their order. */
static char creation[16];

static int noting_write(int fd, const void *data, uint64_t bytes)
{
    strcat(creation, "w");
    return plain_calls.write(fd, data, bytes);
}
static int noting_sync(int fd)
{
    strcat(creation, "s");
    return fd < 0;
}
static int noting_publish(const char *from, const char *to)
{
    strcat(creation, "p");
    return plain_calls.publish(from, to);
}

TEST_IN_FOLDER(a_file_is_on_disk_before_it_has_its_name_and_its_name_before_it_is_used)
{
    creation[0] = 0;
    calls.write = noting_write;
    calls.sync = noting_sync;
    calls.publish = noting_publish;
    leat_columns_close(opened(path, false));
    assert_string_equal(creation, "wsps"); /* the last one is the folder's */
}

TEST_MAIN()
