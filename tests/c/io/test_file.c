#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "io/file.h"
#include "support.h"

static void assert_reads_whole(struct leat_io_file *file)
{
    struct leat_error error;
    static uint8_t got[sizeof content];
    memset(got, 0xee, sizeof got);
    assert_ok(leat_io_read(file, 0, sizeof got, got, &error));
    assert_memory_equal(got, content, sizeof got);
    assert_ok(leat_io_read(file, 99990, 10, got, &error));
    assert_memory_equal(got, content + 99990, 10);
}

TEST(a_file_is_read_where_asked)
{
    struct leat_error error;
    struct leat_io_file *file;
    assert_ok(leat_io_open(path, &file, &error));
    assert_int_equal(file->size, sizeof content);
    assert_reads_whole(file);
    const uint8_t *map = leat_io_map(file, &error);
    assert_non_null(map);
    assert_memory_equal(map, content, sizeof content);
    assert_ptr_equal(leat_io_map(file, &error), map);
    leat_io_release(file);
}

TEST(short_interrupted_and_briefly_failing_reads_go_on)
{
    const int numbers[] = {EINTR, EIO, EAGAIN};
    for (int i = 0; i < 3; i++) {
        struct leat_error error;
        struct leat_io_file *file;
        leat_faulty_start(&(struct leat_faulty){.short_reads = 777, .errors = 3, .error_number = numbers[i]});
        assert_ok(leat_io_open(path, &file, &error));
        assert_reads_whole(file);
        leat_io_release(file);
        leat_faulty_stop();
    }
}

TEST(a_read_that_fails_on_the_disk_is_over_at_once_and_says_when_to_try_again)
{
    struct leat_error error;
    struct leat_io_file *file;
    uint8_t byte;
    leat_faulty_start(&(struct leat_faulty){.errors = 2, .error_number = EIO});
    assert_ok(leat_io_open(path, &file, &error));
    struct leat_io_request request = {.file = file, .length = 1, .buffer = &byte};
    assert_int_equal(leat_io_submit(&request), LEAT_OK);
    assert_int_equal(request.status, LEAT_E_IO);
    assert_true(leat_io_pause_ms(request.status, request.retry_after_ms, 1) > 0);
    assert_int_equal(leat_io_pause_ms(request.status, request.retry_after_ms, 5), 0);
    assert_int_equal(leat_io_pause_ms(LEAT_E_CORRUPT, request.retry_after_ms, 1), 0);
    assert_ok(leat_io_wait(&request)); /* the second failure is the last */
    leat_io_release(file);
    leat_faulty_stop();
}

TEST(pauses_double_up_to_half_a_minute)
{
    static const unsigned pauses[] = {20, 40, 80, 160, 0};
    for (unsigned tries = 1; tries <= 5; tries++)
        assert_int_equal(leat_io_pause_ms(LEAT_E_IO, 20, tries), pauses[tries - 1]);
    assert_int_equal(leat_io_pause_ms(LEAT_E_IO, 7500, 2), 15000);
    assert_int_equal(leat_io_pause_ms(LEAT_E_IO, 7501, 3), 30000);
    assert_int_equal(leat_io_pause_ms(LEAT_E_IO, UINT_MAX, 4), 30000);
}

TEST(lasting_read_errors_are_reported_with_their_place)
{
    struct leat_error error;
    struct leat_io_file *file;
    uint8_t byte;
    leat_faulty_start(&(struct leat_faulty){.errors = 100, .error_number = EIO});
    assert_ok(leat_io_open(path, &file, &error));
    assert_int_equal(leat_io_read(file, 5, 1, &byte, &error), LEAT_E_IO);
    assert_int_equal(error.sys_errno, EIO);
    assert_int_equal(error.offset, 5);
    assert_string_equal(error.file, path);
    leat_io_release(file);
    leat_faulty_stop();
}

TEST(a_file_that_was_cut_is_corrupt_at_its_end)
{
    struct leat_error error;
    struct leat_io_file *file;
    char buffer[10];
    files_write_text(folder, "cut", "0123456789");
    char cut[PATH_MAX + 16];
    snprintf(cut, sizeof cut, "%s/cut", folder);
    assert_ok(leat_io_open(cut, &file, &error));
    assert_int_equal(truncate(cut, 4), 0);
    assert_int_equal(leat_io_read(file, 0, 10, buffer, &error), LEAT_E_CORRUPT);
    assert_int_equal(error.offset, 4);
    assert_string_equal(error.file, cut);
    assert_ok(leat_io_read(file, 0, 4, buffer, &error));
    leat_io_release(file);
}

/* ---- through the mapping ---- */

enum { PART = 65536, PARTS = 8 }; /* whole pages on every machine */

/* A file of eight parts that is mapped; a part of it has been read, so that further reads are copies. */
static struct leat_io_file *open_warm(char where[PATH_MAX + 16], const uint8_t *bytes)
{
    static uint8_t got[PART];
    struct leat_error error;
    struct leat_io_file *file;
    files_write(folder, "warm", bytes, PART * PARTS);
    snprintf(where, PATH_MAX + 16, "%s/warm", folder);
    assert_ok(leat_io_open(where, &file, &error));
    assert_ok(leat_io_read(file, 0, sizeof got, got, &error));
    assert_false(leat_io_expect(file, 0, 1)); /* it is not mapped */
    assert_non_null(leat_io_map(file, &error));
    assert_true(leat_io_expect(file, 0, 1));
    return file;
}

static const uint8_t *fill_parts(uint8_t value)
{
    static uint8_t parts[PART * PARTS];
    for (size_t i = 0; i < sizeof parts; i++)
        parts[i] = (uint8_t)(value ? value + i % 200 : 0);
    return parts;
}

TEST(short_reads_of_a_mapped_file_are_copies_once_much_of_it_was_read)
{
    char where[PATH_MAX + 16];
    uint8_t got[40000];
    struct leat_error error;
    const uint8_t *parts = fill_parts(1);
    struct leat_io_file *file;
    files_write(folder, "cold", parts, PART * PARTS);
    snprintf(where, sizeof where, "%s/cold", folder);
    assert_ok(leat_io_open(where, &file, &error));
    assert_non_null(leat_io_map(file, &error));
    assert_false(leat_io_expect(file, 0, 1)); /* nothing was read */
    leat_io_release(file);
    file = open_warm(where, parts);
    assert_false(leat_io_expect(file, 0, 0));
    assert_false(leat_io_expect(file, 0, 40000));
    assert_false(leat_io_expect(file, PART * PARTS - 1, 2));
    assert_false(leat_io_expect(file, UINT64_MAX, 2));
    assert_true(leat_io_expect(file, PART * PARTS - 20000, 20000));
    for (uint64_t n = 1; n < sizeof got; n = n * 3 + 1)
        for (uint64_t at = 1; at + n <= (uint64_t)PART * PARTS; at = at * 5 + 7) {
            assert_ok(leat_io_read(file, at, n, got, &error));
            assert_memory_equal(got, parts + at, n);
        }
    assert_ok(leat_io_read(file, PART * PARTS - 9, 9, got, &error));
    assert_memory_equal(got, parts + PART * PARTS - 9, 9);
    leat_io_release(file);
}

TEST(a_mapped_file_that_was_cut_is_corrupt_at_its_end_too)
{
    static const uint64_t cuts[] = {PART * 4, PART * 4 + 5, PART * 5 - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        char where[PATH_MAX + 16];
        uint8_t got[100];
        struct leat_error error;
        const uint64_t cut = cuts[i];
        const uint8_t *parts = fill_parts(1);
        struct leat_io_file *file = open_warm(where, parts);
        assert_int_equal(truncate(where, (off_t)cut), 0);
        assert_ok(leat_io_read(file, cut - 100, 100, got, &error));
        assert_memory_equal(got, parts + cut - 100, 100);
        for (uint64_t begin = cut - 50; begin < cut + 60; begin += 7) { /* zeros of the last page, and behind it */
            const uint64_t n = begin + 20 <= cut ? cut + 1 - begin : 20;
            assert_int_equal(leat_io_read(file, begin, n, got, &error), LEAT_E_CORRUPT);
            assert_int_equal(error.offset, begin < cut ? cut : begin);
            assert_string_equal(error.file, where);
        }
        leat_io_release(file);
    }
}

TEST(zeros_of_a_mapped_file_are_read_as_they_are)
{
    char where[PATH_MAX + 16];
    uint8_t got[5000];
    struct leat_error error;
    const uint8_t *parts = fill_parts(0);
    struct leat_io_file *file = open_warm(where, parts);
    memset(got, 1, sizeof got);
    assert_ok(leat_io_read(file, 3000, sizeof got, got, &error));
    assert_memory_equal(got, parts, sizeof got);
    leat_io_release(file);
}

struct seen {
    uint8_t bytes[100];
    size_t n;
    unsigned calls;
};

static void see(void *user, const uint8_t *bytes)
{
    struct seen *s = user;
    s->calls++;
    memcpy(s->bytes, bytes, s->n);
}

/* One in some reads is left to leat_io_read, which measures it. */
static bool within(struct leat_io_file *file, uint64_t at, struct seen *s)
{
    return leat_io_within(file, at, s->n, see, s) || leat_io_within(file, at, s->n, see, s) ||
           (leat_io_read(file, at, s->n, s->bytes, NULL) == LEAT_OK && leat_io_within(file, at, s->n, see, s));
}

TEST(bytes_are_shown_where_they_lie_if_a_read_would_copy_them)
{
    char where[PATH_MAX + 16];
    struct leat_error error;
    const uint8_t *parts = fill_parts(1);
    struct seen s = {.n = 100};
    struct leat_io_file *file = open_warm(where, parts);
    unsigned shown = 0;
    for (unsigned pass = 0; shown < 100; pass++) { /* reads that are measured, or waited, are left to leat_io_read */
        assert_true(pass < 1000);
        for (uint64_t at = 0; at + 100 <= (uint64_t)PART * PARTS; at += 977) {
            if (leat_io_within(file, at, 100, see, &s))
                shown++;
            else
                assert_ok(leat_io_read(file, at, 100, s.bytes, &error));
            assert_memory_equal(s.bytes, parts + at, 100);
        }
    }
    assert_int_equal(s.calls, shown);
    assert_false(leat_io_within(file, PART * PARTS - 99, 100, see, &s));
    assert_false(leat_io_within(file, 0, 40000, see, &s));
    assert_int_equal(s.calls, shown);
    assert_int_equal(truncate(where, PART * 4 + 50), 0);
    assert_true(within(file, PART * 4 - 60, &s)); /* it is there */
    assert_false(within(file, PART * 4, &s));     /* zeros behind its end */
    assert_false(within(file, PART * 6, &s));     /* a fault */
    assert_int_equal(leat_io_read(file, PART * 4, 100, s.bytes, &error), LEAT_E_CORRUPT);
    leat_io_release(file);
    assert_ok(leat_io_from_memory("memory", parts, 200, &file, &error));
    assert_false(leat_io_within(file, 0, 100, see, &s)); /* of a backend that shows nothing */
    leat_io_release(file);
}

TEST(an_empty_file_opens_reads_and_maps)
{
    struct leat_error error;
    struct leat_io_file *file;
    char empty[PATH_MAX + 16];
    files_write_text(folder, "empty", "");
    snprintf(empty, sizeof empty, "%s/empty", folder);
    assert_ok(leat_io_open(empty, &file, &error));
    assert_int_equal(file->size, 0);
    assert_ok(leat_io_read(file, 0, 0, NULL, &error));
    assert_non_null(leat_io_map(file, &error));
    char byte;
    assert_int_equal(leat_io_read(file, 0, 1, &byte, &error), LEAT_E_CORRUPT);
    leat_io_release(file);
}

TEST(what_is_no_file_is_refused_without_blocking)
{
    struct leat_error error;
    struct leat_io_file *file = (void *)folder;
    char pipe_path[PATH_MAX + 16];
    snprintf(pipe_path, sizeof pipe_path, "%s/pipe", folder);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_int_equal(leat_io_open(pipe_path, &file, &error), LEAT_E_IO);
    assert_null(file);
    assert_int_equal(leat_io_open(folder, &file, &error), LEAT_E_IO);
    assert_non_null(strstr(error.message, "folder"));
    snprintf(pipe_path, sizeof pipe_path, "%s/missing", folder);
    assert_int_equal(leat_io_open(pipe_path, &file, &error), LEAT_E_NOT_FOUND);
    assert_string_equal(error.file, pipe_path);
}

TEST(a_read_beyond_what_offsets_can_say_is_refused)
{
    struct leat_error error;
    struct leat_io_file *file;
    uint8_t byte;
    assert_ok(leat_io_open(path, &file, &error));
    assert_int_equal(leat_io_read(file, UINT64_MAX, 1, &byte, &error), LEAT_E_CORRUPT);
    assert_int_equal(leat_io_read(file, 1, UINT64_MAX, &byte, &error), LEAT_E_CORRUPT);
    assert_int_equal(leat_io_read(file, (uint64_t)INT64_MAX, 1, &byte, &error), LEAT_E_CORRUPT);
    leat_io_release(file);
}

TEST(a_read_may_complete_on_another_thread)
{
    struct leat_error error;
    struct leat_io_file *file;
    leat_faulty_start(&(struct leat_faulty){.later = true, .delay_us = 100});
    assert_ok(leat_io_open(path, &file, &error));
    for (int i = 0; i < 20; i++)
        assert_reads_whole(file);
    leat_io_release(file);
    assert_int_equal(leat_faulty_stop().reads, 40);
}

TEST(the_nth_open_read_and_map_can_fail)
{
    struct leat_error error;
    struct leat_io_file *file;
    uint8_t byte;
    leat_faulty_start(&(struct leat_faulty){.fail_open = 2, .fail_read = 2, .fail_map = 1});
    assert_ok(leat_io_open(path, &file, &error));
    struct leat_io_file *none;
    assert_int_equal(leat_io_open(path, &none, &error), LEAT_E_IO);
    assert_ok(leat_io_read(file, 0, 1, &byte, &error));
    assert_int_equal(leat_io_read(file, 1, 1, &byte, &error), LEAT_E_IO);
    assert_ok(leat_io_read(file, 2, 1, &byte, &error));
    assert_null(leat_io_map(file, &error));
    assert_int_equal(error.code, LEAT_E_IO);
    assert_non_null(leat_io_map(file, &error));
    leat_io_release(file);
    struct leat_faulty_counts counts = leat_faulty_stop();
    assert_int_equal(counts.opens, 2);
    assert_int_equal(counts.reads, 3);
    assert_int_equal(counts.maps, 2);
}

TEST(memory_is_read_as_a_file)
{
    struct leat_error error;
    struct leat_io_file *file;
    char got[3];
    assert_ok(leat_io_from_memory("names", "abcdef", 6, &file, &error));
    assert_ok(leat_io_read(file, 2, 3, got, &error));
    assert_memory_equal(got, "cde", 3);
    assert_int_equal(leat_io_read(file, 5, 2, got, &error), LEAT_E_CORRUPT);
    assert_int_equal(leat_io_read(file, 7, 0, got, &error), LEAT_E_CORRUPT);
    leat_io_release(file);
}

struct race {
    struct leat_io_file *file;
    const uint8_t *map;
};

static void *map_it(void *arg)
{
    struct race *race = arg;
    race->map = leat_io_map(race->file, NULL);
    return NULL;
}

TEST(threads_that_map_at_once_get_one_mapping)
{
    enum { THREADS = 8 };
    for (int round = 0; round < 20; round++) {
        struct leat_error error;
        struct leat_io_file *file;
        assert_ok(leat_io_open(path, &file, &error));
        pthread_t threads[THREADS];
        struct race races[THREADS];
        for (int i = 0; i < THREADS; i++) {
            races[i] = (struct race){leat_io_retain(file), NULL};
            assert_int_equal(pthread_create(&threads[i], NULL, map_it, &races[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            assert_ptr_equal(races[i].map, races[0].map);
            leat_io_release(file);
        }
        assert_non_null(races[0].map);
        leat_io_release(file);
    }
}

static int mmap_error;

static void *map_privately(size_t bytes, int flags, int fd)
{
    if (flags == MAP_PRIVATE)
        return mmap(NULL, bytes, PROT_READ, flags, fd, 0);
    errno = mmap_error;
    return MAP_FAILED;
}

TEST(a_file_that_has_no_shared_mapping_is_mapped_by_itself)
{
    struct leat_error error;
    struct leat_io_file *file;
    uint8_t got[16];
    void *(*const before)(size_t bytes, int flags, int fd) = test_mmap;
    test_mmap = map_privately;
    for (int is_refused = 0; is_refused < 2; is_refused++) {
        mmap_error = is_refused ? EPERM : ENODEV;
        assert_ok(leat_io_open(path, &file, &error));
        assert_ok(leat_io_read(file, 0, sizeof got, got, &error));
        const uint8_t *map = leat_io_map(file, &error);
        if (is_refused) {
            assert_null(map);
            assert_int_equal(error.code, LEAT_E_IO);
        } else {
            assert_non_null(map);
            assert_memory_equal(map, got, sizeof got);
        }
        leat_io_release(file);
    }
    test_mmap = before;
}

static bool stop(void)
{
    return true;
}

TEST(whoever_waits_for_a_read_or_for_trying_again_is_interrupted)
{
    struct leat_error error;
    struct leat_io_file *file;
    uint8_t byte;
    leat_set_interrupt(stop);
    leat_faulty_start(&(struct leat_faulty){.later = true});
    assert_ok(leat_io_open(path, &file, &error));
    leat_faulty_hold(1000);
    assert_int_equal(leat_io_read(file, 5, 1, &byte, &error), LEAT_E_CANCELLED);
    assert_string_equal(error.file, path);
    leat_io_release(file);
    assert_int_equal(leat_faulty_stop().cancelled, 1);
    leat_faulty_start(&(struct leat_faulty){.fail_read = 1, .retry_after_ms = 1000000});
    assert_ok(leat_io_open(path, &file, &error));
    assert_int_equal(leat_io_read(file, 5, 1, &byte, &error), LEAT_E_CANCELLED);
    leat_set_interrupt(NULL);
    assert_ok(leat_io_read(file, 5, 1, &byte, &error));
    leat_io_release(file);
    leat_faulty_stop();
}

TEST_MAIN_IN(set_up, remove_folder)
