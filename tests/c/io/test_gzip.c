#include <sys/wait.h>
#include <zlib.h>

#include "../folder.h"
#include "io/blocks.h"
#include "io/gzip.h"

enum { BYTES = 700000, BLOCK = 20000 };

static char path[PATH_MAX + 16];
static uint8_t plain[BYTES], packed[BYTES + 4096], got[BYTES];

/* Text that compresses, with changes of character, so that deflate has many blocks. */
static void fill(void)
{
    uint32_t x = 1;
    for (size_t i = 0; i < BYTES; i++) {
        x = x * 1664525 + 1013904223;
        plain[i] = (uint8_t)(i / 50000 % 2 ? (int)(x >> 24) : "the cat sat on a mat "[(x >> 20) % 21]);
    }
}

static size_t pack(const uint8_t *from, size_t n, uint8_t *to, size_t room)
{
    z_stream z = {.next_in = (uint8_t *)(uintptr_t)from, .avail_in = (uInt)n, .next_out = to, .avail_out = (uInt)room};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 5, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return room - z.avail_out;
}

static int set_up(void **state)
{
    files_folder(folder);
    snprintf(path, sizeof path, "%s/data.gz", folder);
    fill();
    return 0;
}

struct seen {
    uint8_t bytes[BYTES];
    size_t n, limit;
};

static int see(void *user, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    struct seen *s = user;
    if (s->n + n > s->limit) {
        *error = (struct leat_error){.code = LEAT_E_RANGE, .message = "too long"};
        return LEAT_E_RANGE;
    }
    memcpy(s->bytes + s->n, bytes, n);
    s->n += n;
    return LEAT_OK;
}

static struct seen seen;

static int open_gzip(struct leat_io_file **out, struct leat_error *error)
{
    struct leat_io_file *file;
    assert_int_equal(leat_io_open(path, &file, error), LEAT_OK);
    seen.n = 0;
    seen.limit = BYTES;
    const struct leat_gzip_options options = {.sink = see, .user = &seen, .block_bytes = BLOCK};
    int rc = leat_gzip_open(file, &options, out, error);
    leat_io_release(file);
    return rc;
}

static void assert_reads_everywhere(struct leat_io_file *file)
{
    struct leat_error error;
    assert_int_equal(file->size, BYTES);
    for (uint64_t at = 0; at < BYTES; at += 19999 + at % 977) {
        uint64_t n = (at * 7919) % 60000;
        n = n > BYTES - at ? BYTES - at : n;
        assert_ok(leat_io_read(file, at, n, got, &error));
        assert_memory_equal(got, plain + at, n);
    }
    assert_int_equal(leat_io_read(file, BYTES - 3, 4, got, &error), LEAT_E_CORRUPT);
    assert_int_equal(leat_io_read(file, UINT64_MAX, 2, got, &error), LEAT_E_CORRUPT);
}

TEST(any_range_of_a_gzip_file_can_be_read)
{
    struct leat_error error;
    struct leat_io_file *file;
    files_write(folder, "data.gz", packed, pack(plain, BYTES, packed, sizeof packed));
    assert_ok(open_gzip(&file, &error));
    assert_int_equal(seen.n, BYTES);
    assert_memory_equal(seen.bytes, plain, BYTES);
    assert_reads_everywhere(file);
    leat_io_release(file);
}

TEST(members_and_zeroes_behind_them_are_one_file)
{
    struct leat_error error;
    struct leat_io_file *file;
    size_t n = 0;
    for (size_t at = 0; at < BYTES; at += 90000)
        n += pack(plain + at, BYTES - at < 90000 ? BYTES - at : 90000, packed + n, sizeof packed - n);
    memset(packed + n, 0, 600);
    files_write(folder, "data.gz", packed, n + 600);
    assert_ok(open_gzip(&file, &error));
    assert_reads_everywhere(file);
    leat_io_release(file);
    packed[n + 599] = 1;
    files_write(folder, "data.gz", packed, n + 600);
    assert_int_equal(open_gzip(&file, &error), LEAT_E_CORRUPT);
    assert_non_null(strstr(error.message, "bytes behind its end"));
    assert_int_equal(error.offset, n + 599);
}

TEST(a_block_is_decoded_once_while_the_budget_holds_it)
{
    struct leat_error error;
    struct leat_io_file *file;
    uint64_t bytes, before, after;
    files_write(folder, "data.gz", packed, pack(plain, BYTES, packed, sizeof packed));
    assert_ok(open_gzip(&file, &error));
    leat_blocks_stats(&bytes, &before);
    for (int i = 0; i < 100; i++)
        assert_ok(leat_io_read(file, (uint64_t)i * 10, 10, got, &error));
    leat_blocks_stats(&bytes, &after);
    assert_int_equal(after - before, 1);
    test_blocks_budget = 100000;
    assert_reads_everywhere(file);
    leat_blocks_stats(&bytes, &after);
    assert_true(bytes <= 100000);
    leat_io_release(file);
    leat_blocks_stats(&bytes, &after);
    assert_int_equal(bytes, 0);
    test_blocks_budget = 0;
}

/* Bytes that are all the same: one block of deflate, without an end that one could begin at. */
TEST(a_block_of_deflate_as_long_as_the_file_is_read_in_parts)
{
    struct leat_error error;
    struct leat_io_file *file;
    uint64_t bytes, decoded;
    memset(plain, 'a', BYTES);
    files_write(folder, "data.gz", packed, pack(plain, BYTES, packed, sizeof packed));
    assert_ok(open_gzip(&file, &error));
    assert_ok(leat_io_read(file, BYTES / 2, 10, got, &error));
    leat_blocks_stats(&bytes, &decoded);
    assert_true(bytes <= BLOCK + (32 << 10));
    assert_reads_everywhere(file);
    leat_io_release(file);
    fill();
}

TEST(a_forked_child_reads_on)
{
    struct leat_error error;
    struct leat_io_file *file;
    files_write(folder, "data.gz", packed, pack(plain, BYTES, packed, sizeof packed));
    assert_ok(open_gzip(&file, &error));
    assert_ok(leat_io_read(file, 0, 10, got, &error));
    pid_t child = fork();
    if (!child)
        _exit(leat_io_read(file, 0, BYTES, got, &error) || memcmp(got, plain, BYTES) ? 1 : 0);
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    leat_io_release(file);
}

TEST(what_is_cut_or_damaged_is_an_error_that_says_where)
{
    struct leat_error error;
    struct leat_io_file *file;
    size_t n = pack(plain, BYTES, packed, sizeof packed);
    for (size_t cut = 0; cut < n; cut += n / 40 + 1) {
        files_write(folder, "data.gz", packed, cut);
        assert_int_equal(open_gzip(&file, &error), LEAT_E_CORRUPT);
        assert_null(file);
        assert_string_equal(error.file, path);
        assert_true(error.offset <= (int64_t)cut);
    }
    for (size_t at = 10; at < n; at += n / 40 + 1) {
        packed[at] ^= 0x10;
        files_write(folder, "data.gz", packed, n);
        assert_int_not_equal(open_gzip(&file, &error), LEAT_OK);
        packed[at] ^= 0x10;
    }
}

TEST(a_bomb_is_stopped_by_who_takes_its_bytes)
{
    struct leat_error error;
    struct leat_io_file *file, *inner;
    files_write(folder, "data.gz", packed, pack(plain, BYTES, packed, sizeof packed));
    assert_ok(leat_io_open(path, &inner, &error));
    seen.n = 0;
    seen.limit = 100000;
    const struct leat_gzip_options options = {.sink = see, .user = &seen};
    assert_int_equal(leat_gzip_open(inner, &options, &file, &error), LEAT_E_RANGE);
    assert_true(seen.n <= 100000);
    leat_io_release(inner);
}

TEST(other_bytes_under_an_open_file_are_told)
{
    struct leat_error error;
    struct leat_io_file *file;
    size_t n = pack(plain, BYTES, packed, sizeof packed);
    files_write(folder, "data.gz", packed, n);
    assert_ok(open_gzip(&file, &error));
    plain[5] ^= 1;
    size_t other = pack(plain, BYTES, packed, sizeof packed);
    plain[5] ^= 1;
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, packed, other, 0), other);
    close(fd);
    int rc = leat_io_read(file, 0, 100, got, &error);
    assert_true(rc == LEAT_E_CHANGED || rc == LEAT_E_CORRUPT);
    leat_io_release(file);
}

TEST_MAIN_IN(set_up, remove_folder)
