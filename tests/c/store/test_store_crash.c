/* Writers that are killed, that run out of disk or memory, and that go on from what is whole: the finished file has the
 * bytes of an uninterrupted one. 10 s under sanitizers: a file is written anew for each call that fails. */
#include "../allocations.h"
#include "made.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "../faulty.h"
#include "leat/shards.h"
#include "store/manifest.h"
#include "store/part.h"

static char folder[PATH_MAX], whole[PATH_MAX + 16], path[PATH_MAX + 16], partial[PATH_MAX + 32];

static int make_folder(void **state)
{
    files_folder(folder);
    snprintf(whole, sizeof whole, "%s/whole.leat", folder);
    snprintf(path, sizeof path, "%s/a.leat", folder);
    snprintf(partial, sizeof partial, "%s/a.leat.partial", folder);
    return 0;
}

/* The calls of the library to the system. */
struct calls {
    ssize_t (*write)(int fd, const void *data, size_t bytes, off_t offset);
    int (*truncate)(int fd, off_t bytes);
    int (*sync)(int fd);
    int (*rename)(const char *from, const char *to, bool replace);
};
ssize_t __real_pwrite64(int fd, const void *data, size_t bytes, off_t offset);
int __real_ftruncate64(int fd, off_t bytes);
int __real_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __real_renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags);
static int plain_rename(const char *from, const char *to, bool replace)
{
    return replace ? __real_rename(from, to) : __real_renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
}
static const struct calls plain_calls = {__real_pwrite64, __real_ftruncate64, __real_fsync, plain_rename};
static struct calls calls = {__real_pwrite64, __real_ftruncate64, __real_fsync, plain_rename};

ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off_t offset)
{
    return calls.write(fd, data, bytes, offset);
}
int __wrap_ftruncate64(int fd, off_t bytes);
int __wrap_ftruncate64(int fd, off_t bytes)
{
    return calls.truncate(fd, bytes);
}
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    return calls.sync(fd);
}
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    return calls.rename(from, to, true);
}
int __wrap_renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags);
int __wrap_renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    return calls.rename(from, to, false);
}

static int remove_folder(void **state)
{
    calls = plain_calls;
    files_remove(folder);
    return 0;
}

#define TEST_IN_FOLDER(name) TEST_IN(name, make_folder, remove_folder)

/* Records with an image, and small ones: groups close at 8 MiB or at 65536 rows, so both kinds are here. */
enum { PHOTO_SAMPLES = 2400, PHOTO_EXTRA = 3800, ROWS = 65536 * 3 + 1000 };

static struct leat_writer_options options(void)
{
    struct leat_writer_options o = made_options();
    o.resume = true;
    return o;
}

static int write_photos(const char *to, const struct leat_writer_options *o, struct leat_error *error)
{
    return made_file(to, PHOTO_SAMPLES, o, error);
}

static int write_rows(const char *to, const struct leat_writer_options *o, struct leat_error *error)
{
    static const struct leat_field fields[2] = {{.name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8},
                                                {.name = "y", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U16}};
    static uint8_t x[ROWS];
    static uint16_t y[ROWS];
    struct leat_writer *w;
    for (uint32_t i = 0; i < ROWS; i++) {
        x[i] = (uint8_t)leat_mix64(i);
        y[i] = (uint16_t)i;
    }
    int rc = writer_open_with(to, fields, 2, o, NULL, &w, error);
    if (rc)
        return rc;
    uint64_t done = leat_writer_count(w);
    const void *columns[2] = {x + done, y + done};
    rc = leat_writer_add_columns(w, columns, ROWS - done, error);
    if (!rc)
        rc = leat_writer_finish(w, error);
    leat_writer_free(w, true);
    return rc;
}

/* ---- failing calls --------------------------------------------------------------------------- */

static atomic_int calls_left; /* 0: the next one fails */
static int call_errno;
static bool dies; /* instead of failing, half way through */

static bool fails(void)
{
    return atomic_fetch_sub(&calls_left, 1) == 0;
}

static ssize_t disturbed_write(int fd, const void *data, size_t bytes, off_t offset)
{
    if (!fails())
        return plain_calls.write(fd, data, bytes, offset);
    ssize_t half = plain_calls.write(fd, data, bytes / 2 ? bytes / 2 : 1, offset);
    if (dies)
        kill(getpid(), SIGKILL);
    if (half > 1 && call_errno == ENOSPC) { /* a full disk takes what it can first */
        atomic_store(&calls_left, 0);
        return half;
    }
    errno = call_errno;
    return -1;
}

static int disturbed(void)
{
    if (!fails())
        return 0;
    if (dies)
        kill(getpid(), SIGKILL);
    errno = call_errno;
    return -1;
}

static int disturbed_truncate(int fd, off_t bytes)
{
    return disturbed() ? -1 : plain_calls.truncate(fd, bytes);
}
static int disturbed_sync(int fd)
{
    return disturbed(); /* the real one takes long and shows nothing */
}
static int disturbed_rename(const char *from, const char *to, bool replace)
{
    return disturbed() ? -1 : plain_calls.rename(from, to, replace);
}

static void disturb(int n, int number, bool kill_instead)
{
    atomic_store(&calls_left, n);
    call_errno = number;
    dies = kill_instead;
    calls = (struct calls){disturbed_write, disturbed_truncate, disturbed_sync, disturbed_rename};
}

typedef int write_fn(const char *to, const struct leat_writer_options *o, struct leat_error *error);

/* The n-th call fails, for every n; then a resume finishes. */
static void fail_each_call(write_fn *write_it, struct leat_writer_options o, int number)
{
    struct leat_error error;
    assert_ok(write_it(whole, &o, &error));
    for (int n = 0;; n++) {
        disturb(n, number, false);
        int rc = write_it(path, &o, &error);
        bool reached = atomic_load(&calls_left) < 0;
        calls = plain_calls;
        assert_int_equal(rc, reached ? LEAT_E_IO : LEAT_OK);
        if (!reached)
            break;
        if (rc) {
            assert_int_equal(error.sys_errno, number);
            assert_true(error.file[0] != 0);
            if (access(path, F_OK) == 0) /* only the last sync of the folder comes after the rename */
                assert_int_equal(access(partial, F_OK), -1);
            else
                assert_ok(write_it(path, &o, &error));
        }
        if (!o.shard_bytes)
            assert_same_files(whole, path);
        struct leat_verify_options v = {.struct_size = sizeof v};
        assert_ok(leat_verify(path, &v, &error));
        assert_int_equal(unlink(path), 0);
        for (int i = 0; i < 9; i++) {
            char shard[PATH_MAX + 64];
            snprintf(shard, sizeof shard, "%s/a.%05d.leat", folder, i);
            unlink(shard);
        }
    }
}

TEST_IN_FOLDER(after_any_failing_call_a_resume_gives_the_same_bytes)
{
    fail_each_call(write_rows, options(), EIO);
}

TEST_IN_FOLDER(after_any_failing_call_photos_resume_too)
{
    fail_each_call(write_photos, options(), EIO);
}

static int write_pixels(const char *to, const struct leat_writer_options *o, struct leat_error *error)
{
    struct leat_writer_options raw = *o;
    raw.photos = LEAT_PHOTOS_RAW;
    made_codec = &toy_form_codec;
    int rc = made_file(to, 600, &raw, error);
    made_codec = &toy_codec;
    return rc;
}

static int write_with_rows(const char *to, const struct leat_writer_options *o, struct leat_error *error)
{
    made_codec = &toy_form_codec;
    int rc = write_photos(to, o, error);
    made_codec = &toy_codec;
    return rc;
}

TEST_IN_FOLDER(after_any_failing_call_photos_in_another_form_resume_too)
{
    fail_each_call(write_pixels, options(), EIO);
}

TEST_IN_FOLDER(after_any_failing_call_photos_with_a_row_index_resume_too)
{
    fail_each_call(write_with_rows, options(), EIO);
}

TEST_IN_FOLDER(after_any_failing_call_shards_resume_too)
{
    struct leat_writer_options o = options();
    o.shard_bytes = 200000;
    fail_each_call(write_rows, o, EIO);
}

TEST_IN_FOLDER(a_full_disk_or_file_is_an_error_that_names_the_byte_and_says_what_to_do)
{
    struct leat_error error;
    struct leat_writer_options o = options();
    assert_ok(write_rows(whole, &o, &error));
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    limit = before;
    limit.rlim_cur = 300000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int rc = write_rows(path, &o, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, LEAT_E_IO);
    assert_int_equal(error.offset, 300000);
    assert_string_equal(error.file, partial);
    assert_non_null(strstr(error.message, "300000"));
    assert_non_null(strstr(error.message, "ulimit -f"));
    assert_null(strstr(error.message, "make room"));
    assert_non_null(strstr(error.message, "resume"));
    assert_int_equal(access(path, F_OK), -1);
    assert_ok(write_rows(path, &o, &error));
    assert_same_files(whole, path);
    files_remove(path);
    disturb(3, ENOSPC, false);
    assert_int_equal(write_rows(path, &o, &error), LEAT_E_IO);
    assert_int_equal(error.sys_errno, ENOSPC);
    assert_non_null(strstr(error.message, "make room"));
    calls = plain_calls;
    assert_ok(write_rows(path, &o, &error));
    assert_same_files(whole, path);
}

/* ---- the order of calls ---------------------------------------------------------------------- */

static char calls_noted[64]; /* writes in a row are one */

static void note_call(char c)
{
    const size_t n = strlen(calls_noted);
    if (n && c == 'w' && calls_noted[n - 1] == 'w')
        return;
    assert_true(n + 1 < sizeof calls_noted);
    calls_noted[n] = c;
}
static ssize_t noting_write(int fd, const void *data, size_t bytes, off_t offset)
{
    note_call('w');
    return plain_calls.write(fd, data, bytes, offset);
}
static int noting_truncate(int fd, off_t bytes)
{
    note_call('t');
    return plain_calls.truncate(fd, bytes);
}
static int noting_sync(int fd)
{
    note_call('s');
    return fd < 0;
}
static int noting_rename(const char *from, const char *to, bool replace)
{
    note_call('r');
    return plain_calls.rename(from, to, replace);
}

TEST_IN_FOLDER(what_is_written_is_on_disk_before_it_has_its_name_and_shards_before_their_manifest)
{
    struct leat_error error;
    for (int sharded = 0; sharded < 2; sharded++) {
        struct leat_writer_options o = made_options();
        o.shard_bytes = sharded ? 200000 : 0;
        o.overwrite = true;
        memset(calls_noted, 0, sizeof calls_noted);
        calls = (struct calls){noting_write, noting_truncate, noting_sync, noting_rename};
        const int rc = write_rows(path, &o, &error);
        calls = plain_calls;
        assert_ok(rc);
        /* two shards, their manifest, the names of the shards, their folder, and the name of the manifest */
        assert_string_equal(calls_noted, sharded ? "ttwtstwtstwsrrsrs" : "twtsrs");
    }
}

/* ---- kill -9 --------------------------------------------------------------------------------- */

/* Runs the writer in a process that is killed at its n-th call, half way through it. Returns whether it was. */
static bool killed_at(write_fn *write_it, const struct leat_writer_options *o, int n)
{
    struct leat_error error;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        disturb(n, EIO, true);
        _exit(write_it(path, o, &error) ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        return true;
    assert_int_equal(WEXITSTATUS(status), 0);
    return false;
}

static void kill_at_each_call(write_fn *write_it, struct leat_writer_options o)
{
    struct leat_error error;
    assert_ok(write_it(whole, &o, &error));
    for (int n = 0; killed_at(write_it, &o, n); n++) {
        if (access(path, F_OK) == 0) { /* killed after the rename */
            assert_same_files(whole, path);
        } else {
            if (n % 2) /* and killed once more, in the resume */
                killed_at(write_it, &o, 2);
            if (access(path, F_OK))
                assert_ok(write_it(path, &o, &error));
            assert_same_files(whole, path);
        }
        assert_int_equal(access(partial, F_OK), -1);
        assert_int_equal(unlink(path), 0);
    }
}

TEST_IN_FOLDER(killed_at_any_call_and_resumed_the_file_has_the_same_bytes)
{
    kill_at_each_call(write_rows, options());
}

TEST_IN_FOLDER(killed_while_packing_photos_and_resumed_the_file_has_the_same_bytes)
{
    kill_at_each_call(write_photos, options());
}

TEST_IN_FOLDER(killed_between_any_calls_and_resumed_the_file_has_the_same_bytes)
{
    struct leat_error error;
    struct leat_writer_options o = options();
    assert_ok(write_photos(whole, &o, &error));
    for (uint64_t round = 0; round < 6; round++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) { /* whatever its threads are at */
            struct leat_writer *w;
            if (made_open(path, &o, &w, &error))
                _exit(1);
            for (uint64_t i = leat_writer_count(w); i < round * PHOTO_SAMPLES / 6 + 7; i++)
                if (made_add(w, i, &error))
                    _exit(1);
            kill(getpid(), SIGKILL);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
    }
    if (access(path, F_OK))
        assert_ok(write_photos(path, &o, &error));
    assert_same_files(whole, path);
}

/* ---- what a resume refuses and repairs ------------------------------------------------------- */

static void leave_unfinished(uint64_t n)
{
    struct leat_error error;
    struct leat_writer_options o = options();
    struct leat_writer *w;
    assert_ok(made_open(path, &o, &w, &error));
    for (uint64_t i = 0; i < n; i++)
        assert_ok(made_add(w, i, &error));
    leat_writer_free(w, true);
}

TEST_IN_FOLDER(a_resume_of_another_source_schema_or_options_is_refused)
{
    struct leat_error error;
    struct leat_writer *w;
    leave_unfinished(PHOTO_SAMPLES);
    struct leat_writer_options o = options();
    o.source_id = "another";
    assert_int_equal(made_open(path, &o, &w, &error), LEAT_E_CHANGED);
    assert_non_null(strstr(error.message, "the source changed"));
    o.check = false;
    assert_int_equal(made_open(path, &o, &w, &error), LEAT_E_CHANGED);
    assert_non_null(strstr(error.message, "the source and the options (check: on then, off now) changed"));
    o = options();
    o.n_classes = 2;
    assert_int_equal(made_open(path, &o, &w, &error), LEAT_E_CHANGED);
    assert_non_null(strstr(error.message, "the classes or the metadata changed"));
    o = options();
    assert_int_equal(writer_open_with(path, made_fields + 1, 3, &o, &toy_codec, &w, &error), LEAT_E_CHANGED);
    assert_non_null(strstr(error.message, "the schema ("));
    assert_non_null(strstr(error.message, ": there then, not now)"));
    assert_ok(made_open(path, &o, &w, &error)); /* none of them did any harm */
    assert_true(leat_writer_count(w) > 0);
    leat_writer_free(w, false);
    assert_int_equal(access(partial, F_OK), -1);
}

/* Begins with one set of options and goes on with another: what the refusal says of them. Without the first field
 * there are no images. */
static void assert_told(size_t from, const struct leat_writer_options *then, const struct leat_writer_options *now,
                        const char *told)
{
    struct leat_error error;
    struct leat_writer *w;
    struct leat_writer_options begin = *then;
    char want[300];
    begin.resume = false;
    assert_ok(writer_open_with(path, made_fields + from, MADE_FIELDS - from, &begin, made_codec, &w, &error));
    leat_writer_free(w, true);
    assert_int_equal(writer_open_with(path, made_fields + from, MADE_FIELDS - from, now, made_codec, &w, &error),
                     LEAT_E_CHANGED);
    snprintf(want, sizeof want, "the options (%s) changed since", told);
    if (!strstr(error.message, want))
        fail_msg("\"%s\" does not say \"%s\"", error.message, want);
}

static void assert_options_told(const struct leat_writer_options *then, const struct leat_writer_options *now,
                                const char *told)
{
    assert_told(0, then, now, told);
}

TEST_IN_FOLDER(a_refused_resume_says_which_options_changed_and_what_they_were)
{
    const struct leat_writer_options plain = options();
    struct leat_writer_options o = plain, other = plain;
    made_codec = &toy_form_codec;
    o.check = false;
    assert_options_told(&o, &plain, "check: off then, on now");
    o = plain;
    o.on_bad = LEAT_BAD_SKIP;
    assert_options_told(&o, &plain, "on_bad: skip then, mark now");
    assert_options_told(&plain, &o, "on_bad: not skip then, skip now");
    o = plain;
    o.photos = LEAT_PHOTOS_RAW;
    other.photos = LEAT_PHOTOS_FAST;
    other.check = false;
    assert_options_told(&plain, &o, "photos: original then, raw now");
    assert_options_told(&other, &o, "check: off then, on now; photos: fast then, raw now");
    o = other = plain;
    o.max_side = other.max_side = 512;
    assert_options_told(&o, &plain, "max_side: 512 then, none now");
    assert_options_told(&plain, &o, "max_side: none then, 512 now");
    other.quality = 71;
    assert_options_told(&other, &o, "quality: 71 then, 90 now");
    other.max_side = 300;
    other.check = false;
    assert_options_told(&other, &plain,
                        "check: off then, on now; max_side: 300 then, none now; quality: 71 then, 90 now");
    other.check = true;
    other.max_side = 65535;
    other.photos = LEAT_PHOTOS_FAST;
    if (test_full()) /* a search of seconds */
        assert_options_told(
            &other, &plain,
            "max_side: 65535 then, none now; quality: 71 then, 90 now; photos: fast then, original now");
    o = other = plain;
    o.shard_bytes = UINT64_C(3) << 30;
    other.shard_bytes = 250000000;
    assert_options_told(&o, &other, "shard_bytes: 3221225472 then, 250000000 now");
    other.shard_bytes = 123456789;
    assert_told(!test_full(), &other, &o, /* with images, a search of seconds */
                "which of check, on_bad, shard_bytes, max_side, quality, photos and lenient the file does not say: it "
                "has but a hash of them");
    made_codec = &toy_codec;
}

TEST_IN_FOLDER(shards_are_not_resumed_as_one_file_nor_one_file_as_shards)
{
    struct leat_error error;
    struct leat_writer *w;
    struct leat_writer_options one = options(), shards = options();
    shards.shard_bytes = 200000;
    assert_ok(made_open(path, &shards, &w, &error));
    for (uint64_t i = 0; i < 100; i++)
        assert_ok(made_add(w, i, &error));
    leat_writer_free(w, true);
    assert_int_equal(made_open(path, &one, &w, &error), LEAT_E_CHANGED);
    assert_non_null(strstr(error.message, "shard_bytes"));
    assert_string_equal(error.file, partial);
    assert_ok(made_open(path, &shards, &w, &error)); /* it did no harm */
    leat_writer_free(w, false);
    leave_unfinished(PHOTO_SAMPLES);
    assert_int_equal(made_open(path, &shards, &w, &error), LEAT_E_CHANGED);
    assert_non_null(strstr(error.message, "shard_bytes"));
}

TEST_IN_FOLDER(shards_that_were_begun_over_an_unfinished_file_are_resumed)
{
    struct leat_error error;
    struct leat_writer *w;
    struct leat_writer_options shards = options();
    shards.shard_bytes = 200000;
    leave_unfinished(PHOTO_SAMPLES);
    shards.resume = false;
    assert_ok(made_open(path, &shards, &w, &error));
    leat_writer_free(w, true);
    shards.resume = true;
    assert_ok(made_open(path, &shards, &w, &error));
    leat_writer_free(w, false);
}

static int renames_left;
static int few_renames(const char *from, const char *to, bool replace)
{
    if (renames_left-- <= 0) {
        errno = EIO;
        return -1;
    }
    return plain_calls.rename(from, to, replace);
}

/* Shards of an older data set are being replaced when the writer stops: a resume takes back those that have their names
 * already, and reads nothing again. */
TEST_IN_FOLDER(a_stop_between_the_names_of_shards_loses_nothing_when_overwriting)
{
    struct leat_error error;
    struct leat_writer *w;
    struct leat_writer_options o = options();
    o.shard_bytes = 200000;
    o.overwrite = true;
    for (int stop = 0; stop < 3; stop++) {
        o.resume = false;
        assert_ok(made_file(path, 100, &o, &error)); /* an older one under the same names */
        renames_left = stop;
        calls.rename = few_renames;
        assert_int_equal(write_rows(path, &o, &error), LEAT_E_IO);
        calls = plain_calls;
        o.resume = true;
        static const struct leat_field fields[2] = {{.name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8},
                                                    {.name = "y", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U16}};
        assert_ok(writer_open_with(path, fields, 2, &o, NULL, &w, &error));
        assert_int_equal(leat_writer_count(w), ROWS);
        assert_ok(leat_writer_finish(w, &error));
        leat_writer_free(w, false);
        struct leat_verify_options v = {.struct_size = sizeof v};
        assert_ok(leat_verify(path, &v, &error));
    }
}

TEST_IN_FOLDER(an_unfinished_target_that_is_to_be_kept_is_begun_anew_only_where_asked)
{
    struct leat_error error;
    struct leat_writer *w;
    struct leat_writer_options o = options();
    uint64_t said;
    leave_unfinished(PHOTO_SAMPLES);
    o.resume = false;
    o.keep_unfinished = true;
    assert_int_equal(made_open(path, &o, &w, &error), LEAT_E_EXISTS);
    assert_string_equal(error.file, partial);
    assert_int_equal(sscanf(error.message, "%" SCNu64 " samples of an unfinished target", &said), 1);
    o.resume = true;
    assert_ok(made_open(path, &o, &w, &error)); /* the refusal did no harm */
    assert_true(said > 0);
    assert_int_equal(leat_writer_count(w), said);
    leat_writer_free(w, true);
    o.resume = false;
    o.overwrite = true;
    assert_ok(made_open(path, &o, &w, &error));
    assert_int_equal(leat_writer_count(w), 0);
    leat_writer_free(w, true);
    leave_unfinished(PHOTO_SAMPLES);
    o.overwrite = o.keep_unfinished = false;
    assert_ok(made_open(path, &o, &w, &error)); /* nor is it kept unless that is asked for */
    assert_int_equal(leat_writer_count(w), 0);
    leat_writer_free(w, false);
}

TEST_IN_FOLDER(shards_that_have_their_names_already_are_kept_too)
{
    struct leat_error error;
    struct leat_writer *w;
    struct leat_writer_options o = options();
    char words[64];
    static const struct leat_field fields[2] = {{.name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8},
                                                {.name = "y", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U16}};
    o.shard_bytes = 200000;
    o.keep_unfinished = true;
    snprintf(words, sizeof words, "%d samples of an unfinished target", (int)ROWS);
    for (int stop = 0; stop < 3; stop++) {
        renames_left = stop;
        calls.rename = few_renames;
        assert_int_equal(write_rows(path, &o, &error), LEAT_E_IO);
        calls = plain_calls;
        o.resume = false;
        assert_int_equal(writer_open_with(path, fields, 2, &o, NULL, &w, &error), LEAT_E_EXISTS);
        assert_non_null(strstr(error.message, words));
        o.resume = true;
        assert_ok(writer_open_with(path, fields, 2, &o, NULL, &w, &error));
        assert_int_equal(leat_writer_count(w), ROWS);
        leat_writer_free(w, false);
    }
}

/* A finished file that only has the name of a shard is not taken for one that was left behind. */
TEST_IN_FOLDER(a_resume_leaves_files_of_others_alone)
{
    struct leat_error error;
    struct leat_writer *w;
    struct leat_writer_options one = options(), shards = options();
    char other[PATH_MAX + 64];
    snprintf(other, sizeof other, "%s/a.00000.leat", folder);
    assert_ok(made_file(other, 100, &one, &error));
    shards.shard_bytes = 200000;
    assert_int_equal(made_open(path, &shards, &w, &error), LEAT_E_EXISTS);
    assert_string_equal(error.file, other);
    assert_int_equal(access(other, F_OK), 0);
}

/* The manifest says how long a shard is and how it ends. What has its name, but is not that, is somebody else's. */
TEST_IN_FOLDER(a_file_that_has_taken_the_name_of_a_shard_is_left_alone)
{
    static const struct leat_field fields[2] = {{.name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8},
                                                {.name = "y", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U16}};
    for (int longer = 0; longer < 2; longer++) {
        struct leat_error error;
        struct leat_writer *w;
        struct leat_writer_options o = options();
        char target[PATH_MAX + 64], shard[PATH_MAX + 64];
        size_t n, now;
        snprintf(target, sizeof target, "%s/%d.leat", folder, longer);
        snprintf(shard, sizeof shard, "%s/%d.00000.leat", folder, longer);
        o.shard_bytes = 200000;
        renames_left = 1;
        calls.rename = few_renames;
        assert_int_equal(write_rows(target, &o, &error), LEAT_E_IO);
        calls = plain_calls;
        uint8_t *bytes = made_bytes(shard, &n), *theirs = calloc(1, n + 8);
        assert_non_null(theirs);
        memcpy(theirs, bytes, n);
        memcpy(theirs + n, bytes + n - 8, 8);
        theirs[n - 1] ^= 1;
        made_write(shard, theirs, longer ? n + 8 : n);
        assert_int_equal(writer_open_with(target, fields, 2, &o, NULL, &w, &error), LEAT_E_EXISTS);
        assert_string_equal(error.file, shard);
        uint8_t *left = made_bytes(shard, &now);
        assert_int_equal(now, longer ? n + 8 : n);
        assert_memory_equal(left, theirs, now);
        free(bytes);
        free(theirs);
        free(left);
    }
}

TEST_IN_FOLDER(targets_that_share_shard_names_exclude_each_other)
{
    struct leat_error error;
    struct leat_writer *w, *second;
    struct leat_writer_options o = options();
    char other[PATH_MAX + 64];
    snprintf(other, sizeof other, "%s/a.other", folder);
    o.shard_bytes = 200000;
    assert_ok(made_open(path, &o, &w, &error));
    assert_int_equal(made_open(other, &o, &second, &error), LEAT_E_BUSY);
    leat_writer_free(w, false);
}

TEST_IN_FOLDER(a_folder_that_cannot_be_synced_is_an_error)
{
    struct leat_error error;
    struct leat_writer *w;
    struct leat_writer_options o = options();
    struct rlimit before, limit;
    assert_ok(made_open(path, &o, &w, &error));
    assert_ok(made_add(w, 0, &error));
    int next = dup(0);
    assert_true(next >= 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int rc = leat_writer_finish(w, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    leat_writer_free(w, true);
    assert_int_equal(rc, LEAT_E_IO);
    assert_string_equal(error.file, folder);
}

TEST_IN_FOLDER(a_damaged_group_is_written_again)
{
    struct leat_error error;
    struct leat_writer_options o = options();
    assert_ok(made_file(whole, PHOTO_SAMPLES, &o, &error));
    leave_unfinished(PHOTO_SAMPLES);
    size_t n;
    uint8_t *bytes = made_bytes(partial, &n);
    for (size_t at = 0; at < n; at += n / 5) {
        made_write(partial, bytes, n);
        int fd = open(partial, O_RDWR);
        uint8_t flipped = bytes[at] ^ 16;
        assert_int_equal(pwrite(fd, &flipped, 1, (off_t)at), 1);
        close(fd);
        assert_ok(made_file(path, PHOTO_SAMPLES, &o, &error));
        assert_same_files(whole, path);
        assert_int_equal(rename(path, partial), 0); /* a finished file under the old name resumes, too */
        assert_ok(made_file(path, PHOTO_SAMPLES, &o, &error));
        assert_same_files(whole, path);
        unlink(path);
    }
    free(bytes);
}

TEST_IN_FOLDER(an_unfinished_file_never_opens_as_finished)
{
    struct leat_error error;
    struct leat_source *s;
    leave_unfinished(PHOTO_SAMPLES);
    assert_int_equal(leat_source_open(path, NULL, &s, &error), LEAT_E_NOT_FOUND);
    assert_int_equal(leat_source_open(partial, NULL, &s, &error), LEAT_E_UNFINISHED);
    assert_non_null(strstr(error.message, "resume"));
}

/* ---- who may write --------------------------------------------------------------------------- */

TEST_IN_FOLDER(two_writers_of_one_target_exclude_each_other)
{
    struct leat_error error;
    struct leat_writer *w, *other;
    struct leat_writer_options o = options();
    assert_ok(made_open(path, &o, &w, &error));
    assert_int_equal(made_open(path, &o, &other, &error), LEAT_E_BUSY);
    assert_null(other);
    assert_string_equal(error.file, partial);
    pid_t pid = fork();
    if (pid == 0)
        _exit(made_open(path, &o, &other, &error) == LEAT_E_BUSY ? 0 : 1);
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_ok(made_add(w, 0, &error));
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);
    assert_int_equal(access(path, F_OK), 0);
}

TEST_IN_FOLDER(an_existing_target_is_kept_until_the_new_one_is_whole)
{
    struct leat_error error;
    struct leat_writer *w;
    struct leat_writer_options o = made_options();
    assert_ok(made_file(path, 10, &o, &error));
    assert_ok(made_file(whole, 20, &o, &error));
    assert_int_equal(made_open(path, &o, &w, &error), LEAT_E_EXISTS);
    assert_string_equal(error.file, path);
    assert_int_equal(access(partial, F_OK), -1);
    o.overwrite = true;
    assert_ok(made_open(path, &o, &w, &error));
    for (uint64_t i = 0; i < 20; i++)
        assert_ok(made_add(w, i, &error));
    struct leat_source *s;
    assert_ok(leat_source_open(path, NULL, &s, &error));
    assert_int_equal(s->count, 10);
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);
    assert_made(s, 9, 9); /* who had it open goes on with it */
    leat_source_close(s);
    assert_same_files(whole, path);
}

TEST_IN_FOLDER(a_target_that_appears_meanwhile_is_not_overwritten)
{
    struct leat_error error;
    struct leat_writer *w;
    struct leat_writer_options o = made_options();
    assert_ok(made_open(path, &o, &w, &error));
    assert_ok(made_add(w, 0, &error));
    made_write(path, "mine", 4);
    assert_int_equal(leat_writer_finish(w, &error), LEAT_E_EXISTS);
    leat_writer_free(w, true);
    size_t n;
    uint8_t *bytes = made_bytes(path, &n);
    assert_int_equal(n, 4);
    free(bytes);
}

/* ---- memory and reading ---------------------------------------------------------------------- */

TEST_IN_FOLDER(without_memory_writing_fails_cleanly_and_resumes)
{
    struct leat_error error;
    struct leat_writer_options o = options();
    o.num_threads = 1;
    for (int kind = 0; kind < 4; kind++) {
        const bool sharded = kind == 1;
        o.shard_bytes = sharded ? 1000 : 0;
        made_codec = kind < 2 ? &toy_codec : &toy_form_codec;
        o.photos = kind == 3 ? LEAT_PHOTOS_RAW : LEAT_PHOTOS_ORIGINAL;
        snprintf(whole, sizeof whole, "%s/whole%d.leat", folder, kind);
        assert_ok(made_file(whole, 30, &o, &error));
        for (int n = 0;; n++) {
            fail_allocation(n);
            int rc = made_file(path, 30, &o, &error);
            bool reached = allocation_failed();
            if (rc) {
                assert_int_equal(rc, LEAT_E_NOMEM);
                assert_ok(made_file(path, 30, &o, &error));
            }
            if (!sharded)
                assert_same_files(whole, path);
            assert_int_equal(unlink(path), 0);
            char shard[PATH_MAX + 64];
            snprintf(shard, sizeof shard, "%s/a.00000.leat", folder);
            unlink(shard);
            if (!reached)
                break;
        }
    }
    made_codec = &toy_codec;
}

TEST_IN_FOLDER(without_memory_opening_and_verifying_fail_cleanly)
{
    struct leat_error error;
    struct leat_writer_options o = options();
    struct leat_verify_options v = {.struct_size = sizeof v, .num_threads = 1};
    struct leat_source *s;
    assert_ok(made_file(path, 30, &o, &error));
    for (int n = 0;; n++) {
        fail_allocation(n);
        int rc = leat_source_open(path, NULL, &s, &error), rc2 = leat_verify(path, &v, NULL);
        bool reached = allocation_failed();
        if (!rc) { /* marks are only forgotten when there is no memory for them */
            assert_made(s, 7, 7);
            leat_source_close(s);
        }
        assert_true(rc == LEAT_OK || rc == LEAT_E_NOMEM);
        assert_true(rc2 == LEAT_OK || rc2 == LEAT_E_NOMEM);
        if (!reached)
            break;
        assert_true(rc || rc2);
    }
}

TEST_IN_FOLDER(any_failing_read_while_opening_is_an_error)
{
    struct leat_error error;
    struct leat_writer_options o = options();
    struct leat_source *s;
    assert_ok(made_file(path, 30, &o, &error));
    for (int kind = 0; kind < 3; kind++)
        for (uint64_t n = 1;; n++) {
            leat_faulty_start(&(struct leat_faulty){
                .fail_open = kind == 0 ? n : 0, .fail_read = kind == 1 ? n : 0, .fail_map = kind == 2 ? n : 0});
            int rc = leat_source_open(path, NULL, &s, &error);
            struct leat_faulty_counts counts = leat_faulty_stop();
            uint64_t reached = kind == 0 ? counts.opens : kind == 1 ? counts.reads : counts.maps;
            if (!rc)
                leat_source_close(s);
            if (reached < n)
                break;
            assert_int_equal(rc, LEAT_E_IO);
            assert_string_equal(error.file, path);
        }
}

/* ---- files of several writers ---------------------------------------------------------------- */

static int join_files(const char *const *files, size_t n, struct leat_error *error)
{
    return leat_writer_join(path, files, n, error);
}

static void two_files(void)
{
    struct leat_error error;
    struct leat_writer_options o = options();
    static const char *const names[] = {"left", "right"};
    for (int i = 0; i < 2; i++) {
        char file[PATH_MAX + 16];
        snprintf(file, sizeof file, "%s/%s", folder, names[i]);
        assert_ok(made_file(file, i ? 20 : 30, &o, &error));
    }
}

TEST_IN_FOLDER(files_of_two_writers_become_one_data_set_that_replaces_none)
{
    static const char *const files[] = {"right", "left"}, *const bad[] = {"../left", "", ".", "..", "a/b"};
    struct leat_error error;
    struct leat_manifest m;
    two_files();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(join_files(&bad[i], 1, &error), LEAT_E_INVALID);
    assert_int_equal(join_files(files, 0, &error), LEAT_E_INVALID);
    assert_int_equal(join_files((const char *const[]){"left", "none"}, 2, &error), LEAT_E_NOT_FOUND);
    assert_int_equal(access(partial, F_OK), -1);
    assert_ok(join_files(files, 2, &error));
    assert_ok(leat_manifest_read(path, &m, &error));
    assert_int_equal(m.n_shards, 2);
    assert_int_equal(m.shards[0].count, 20);
    assert_string_equal(m.shards[1].file, "left");
    leat_manifest_destroy(&m);
    assert_int_equal(join_files(files, 1, &error), LEAT_E_EXISTS);
    assert_int_equal(access(partial, F_OK), -1);
    struct leat_verify_options v = {.struct_size = sizeof v, .num_threads = 1};
    assert_ok(leat_verify(path, &v, &error));
}

TEST_IN_FOLDER(whatever_fails_as_files_become_one_data_set_it_is_whole_or_not_there)
{
    static const char *const files[] = {"left", "right"};
    struct leat_error error;
    struct leat_manifest m;
    two_files();
    for (int kind = 0; kind < 2; kind++)
        for (int n = 0;; n++) {
            if (kind)
                fail_allocation(n);
            else
                disturb(n, EIO, false);
            const int rc = join_files(files, 2, &error);
            const bool reached = kind ? allocation_failed() : atomic_load(&calls_left) < 0;
            calls = plain_calls;
            assert_true(rc == LEAT_OK ? !reached : reached && rc == (kind ? LEAT_E_NOMEM : LEAT_E_IO));
            assert_int_equal(access(partial, F_OK), -1);
            if (!access(path, F_OK)) { /* all but the last sync of the folder, after which it is there */
                assert_ok(leat_manifest_read(path, &m, &error));
                assert_int_equal(m.count, 50);
                leat_manifest_destroy(&m);
                unlink(path);
            } else {
                assert_int_not_equal(rc, LEAT_OK);
            }
            if (!reached)
                break;
        }
}

int main(void)
{
    made_extra = PHOTO_EXTRA;
    return test_run(NULL, NULL);
}
