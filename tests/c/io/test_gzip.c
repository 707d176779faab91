#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <zlib.h>

#include "../allocations.h"
#include "../folder.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
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

static int open_keeping(struct leat_gzip_points *keep, struct leat_io_file **out, struct leat_error *error)
{
    struct leat_io_file *file;
    assert_int_equal(leat_io_open(path, &file, error), LEAT_OK);
    seen.n = 0;
    seen.limit = BYTES;
    const struct leat_gzip_options options = {.sink = see, .user = &seen, .block_bytes = BLOCK, .keep = keep};
    int rc = leat_gzip_open(file, &options, out, error);
    leat_io_release(file);
    return rc;
}

/* Packs the text, and takes the points of an opening. */
static void keep_points(struct leat_gzip_points *points)
{
    struct leat_error error;
    struct leat_io_file *file;
    files_write(folder, "data.gz", packed, pack(plain, BYTES, packed, sizeof packed));
    assert_ok(open_keeping(points, &file, &error));
    leat_io_release(file);
}

static int open_gzip(struct leat_io_file **out, struct leat_error *error)
{
    return open_keeping(NULL, out, error);
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

/* ---- points that are kept -------------------------------------------------------------------- */

static int n_wrong;

static int wrong(void *user, uint64_t at, struct leat_error *error)
{
    n_wrong++;
    error->code = LEAT_E_CHANGED;
    return LEAT_E_CHANGED;
}

static int reopen(const struct leat_gzip_points *kept, struct leat_io_file **out, struct leat_error *error)
{
    struct leat_io_file *file;
    assert_int_equal(leat_io_open(path, &file, error), LEAT_OK);
    const struct leat_gzip_options options = {.block_bytes = BLOCK, .wrong = wrong};
    int rc = leat_gzip_reopen(file, kept, &options, out, error);
    leat_io_release(file);
    return rc;
}

TEST(with_points_that_were_kept_nothing_is_decoded_but_what_is_read)
{
    struct leat_error error;
    struct leat_io_file *file;
    struct leat_gzip_points points;
    uint64_t bytes, before, after;
    files_write(folder, "data.gz", packed, pack(plain, BYTES, packed, sizeof packed));
    assert_ok(open_keeping(&points, &file, &error));
    assert_memory_equal(seen.bytes, plain, BYTES);
    assert_reads_everywhere(file);
    leat_io_release(file);
    assert_true(points.n > 10);
    leat_blocks_stats(&bytes, &before);
    assert_ok(reopen(&points, &file, &error));
    assert_ok(leat_io_read(file, BYTES / 2, 10, got, &error));
    assert_memory_equal(got, plain + BYTES / 2, 10);
    leat_blocks_stats(&bytes, &after);
    assert_int_equal(after - before, 1);
    n_wrong = 0;
    assert_reads_everywhere(file);
    assert_int_equal(n_wrong, 0);
    leat_io_release(file);
    leat_gzip_points_free(&points);
}

TEST(blocks_of_deflate_may_end_where_what_is_decoded_at_a_time_does)
{
    struct leat_error error;
    struct leat_io_file *file;
    struct leat_gzip_points points;
    z_stream z = {.next_out = packed, .avail_out = sizeof packed};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY), Z_OK);
    for (size_t at = 0; at < BYTES; at += LEAT_GZIP_WINDOW) {
        z.next_in = plain + at;
        z.avail_in = BYTES - at < LEAT_GZIP_WINDOW ? (uInt)(BYTES - at) : LEAT_GZIP_WINDOW;
        deflate(&z, Z_BLOCK);
    }
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    files_write(folder, "data.gz", packed, sizeof packed - z.avail_out);
    assert_ok(open_keeping(&points, &file, &error));
    leat_io_release(file);
    assert_int_equal(points.n, BYTES / LEAT_GZIP_WINDOW + 1);
    assert_ok(reopen(&points, &file, &error));
    assert_reads_everywhere(file);
    leat_io_release(file);
    leat_gzip_points_free(&points);
}

TEST(points_that_are_damaged_are_refused_or_told_and_give_no_other_bytes)
{
    struct leat_error error;
    struct leat_io_file *file;
    struct leat_gzip_points points;
    size_t refused = 0, told = 0;
    keep_points(&points);
    const size_t of_points = (points.n + 1) * sizeof *points.points, of_windows = (points.n - 1) * LEAT_GZIP_WINDOW;
    for (size_t k = 0; k < 300; k++) {
        uint8_t *byte =
            k < 200 ? (uint8_t *)points.points + k * 7919 % of_points : points.windows + k * 7919 % of_windows;
        *byte ^= (uint8_t)(1 << k % 8);
        n_wrong = 0;
        int rc = reopen(&points, &file, &error);
        assert_true(!rc || rc == LEAT_E_CORRUPT);
        refused += rc != 0;
        for (uint64_t at = 0; !rc && at < BYTES; at += 5000) {
            const uint64_t n = BYTES - at < 5000 ? BYTES - at : 5000;
            if (!leat_io_read(file, at, n, got, &error))
                assert_memory_equal(got, plain + at, n);
            else
                assert_true(error.code == LEAT_E_CHANGED && n_wrong);
        }
        told += n_wrong != 0;
        leat_io_release(file);
        *byte ^= (uint8_t)(1 << k % 8);
    }
    assert_true(refused > 50 && told > 50);
    points.n--;
    assert_int_equal(reopen(&points, &file, &error), LEAT_E_CORRUPT);
    points.n = LEAT_GZIP_POINTS + 1;
    assert_int_equal(reopen(&points, &file, &error), LEAT_E_CORRUPT);
    points.n = 0;
    assert_int_equal(reopen(&points, &file, &error), LEAT_E_CORRUPT);
    leat_gzip_points_free(&points);
}

/* Each point takes memory: so many of a short file would take much more than those that are kept. */
TEST(points_that_lie_closer_together_than_they_are_kept_are_refused)
{
    struct leat_error error;
    struct leat_io_file *file;
    struct leat_gzip_points points;
    keep_points(&points);
    points.points = realloc(points.points, (points.n + 2) * sizeof *points.points);
    assert_non_null(points.points);
    struct leat_gzip_point *first = points.points;
    const uint64_t bytes = first[1].out - first->out;
    memmove(first + 1, first, (points.n + 1) * sizeof *first);
    points.windows = realloc(points.windows, points.n * LEAT_GZIP_WINDOW);
    assert_non_null(points.windows);
    memmove(points.windows + LEAT_GZIP_WINDOW, points.windows, (points.n - 1) * LEAT_GZIP_WINDOW);
    points.n++;
    first->hash = leat_hash64(plain, 1);
    first->crc = (uint32_t)crc32(0, plain, 1);
    first[1].out = 1;
    first[1].in = 12;
    first[1].hash = leat_hash64(plain + 1, (size_t)bytes - 1);
    first[1].crc = (uint32_t)crc32(0, plain + 1, (uInt)bytes - 1);
    assert_int_equal(reopen(&points, &file, &error), LEAT_E_CORRUPT);
    leat_gzip_points_free(&points);
}

TEST(points_whose_file_is_cut_while_it_is_mapped_are_refused)
{
    struct leat_error error;
    struct leat_io_file *file, *index;
    struct leat_gzip_points points;
    char at[PATH_MAX + 16];
    keep_points(&points);
    files_write(folder, "windows", points.windows, (points.n - 1) * LEAT_GZIP_WINDOW);
    snprintf(at, sizeof at, "%s/windows", folder);
    assert_ok(leat_io_open(at, &index, &error));
    const struct leat_gzip_points mapped = {points.points, (uint8_t *)(uintptr_t)leat_io_map(index, &error), points.n};
    assert_ok(reopen(&mapped, &file, &error));
    assert_reads_everywhere(file);
    leat_io_release(file);
    assert_int_equal(truncate(at, 3 * LEAT_GZIP_WINDOW), 0);
    assert_int_equal(reopen(&mapped, &file, &error), LEAT_E_CORRUPT);
    assert_null(file);
    leat_io_release(index);
    leat_gzip_points_free(&points);
}

/* The bytes of a block as they are with the window that is kept. */
static void decode_by(const struct leat_gzip_points *points, size_t block, uint8_t *to)
{
    const struct leat_gzip_point *p = &points->points[block];
    z_stream z = {.next_in = packed + p->in, .avail_in = (uInt)(sizeof packed - p->in), .next_out = to};
    z.avail_out = (uInt)(p[1].out - p->out);
    assert_int_equal(inflateInit2(&z, -15), Z_OK);
    assert_int_equal(inflatePrime(&z, p->n_bits, p->bits), Z_OK);
    assert_int_equal(inflateSetDictionary(&z, points->windows + (block - 1) * LEAT_GZIP_WINDOW, LEAT_GZIP_WINDOW),
                     Z_OK);
    assert_int_equal(inflate(&z, Z_NO_FLUSH), Z_OK);
    assert_int_equal(z.avail_out, 0);
    inflateEnd(&z);
}

TEST(points_that_lie_and_agree_among_themselves_give_no_other_bytes)
{
    enum { LIE = 2 }; /* it begins in text */
    struct leat_error error;
    struct leat_io_file *file;
    struct leat_gzip_points points;
    keep_points(&points);
    struct leat_gzip_point *p = &points.points[LIE];
    const size_t bytes = (size_t)(p[1].out - p->out);
    assert_true(p->out >= LEAT_GZIP_WINDOW);
    memset(points.windows + (LIE - 1) * LEAT_GZIP_WINDOW, '!', LEAT_GZIP_WINDOW);
    decode_by(&points, LIE, got);
    assert_memory_not_equal(got, plain + p->out, bytes);
    p->hash = leat_hash64(got, bytes);
    assert_ok(reopen(&points, &file, &error));
    assert_int_equal(leat_io_read(file, p->out, 1, got, &error), LEAT_E_CHANGED);
    leat_io_release(file);
    decode_by(&points, LIE, got);
    p->crc = (uint32_t)crc32(0, got, (uInt)bytes);
    assert_int_equal(reopen(&points, &file, &error), LEAT_E_CORRUPT);
    leat_gzip_points_free(&points);
}

TEST(points_of_a_file_whose_bytes_have_changed_are_told)
{
    struct leat_error error;
    struct leat_io_file *file;
    struct leat_gzip_points points;
    const size_t n = pack(plain, BYTES, packed, sizeof packed);
    files_write(folder, "data.gz", packed, n);
    assert_ok(open_keeping(&points, &file, &error));
    leat_io_release(file);
    packed[n / 2] ^= 1;
    files_write(folder, "data.gz", packed, n);
    assert_ok(reopen(&points, &file, &error));
    n_wrong = 0;
    assert_int_equal(leat_io_read(file, 0, BYTES, got, &error), LEAT_E_CHANGED);
    assert_int_equal(n_wrong, 1);
    leat_io_release(file);
    packed[n - 5] ^= 1; /* of the length at its end */
    files_write(folder, "data.gz", packed, n);
    assert_int_equal(reopen(&points, &file, &error), LEAT_E_CORRUPT);
    leat_gzip_points_free(&points);
}

static int take_any(void *user, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    return LEAT_OK;
}

TEST(each_allocation_that_fails_is_an_error_while_points_are_kept_and_with_those)
{
    struct leat_error error;
    struct leat_io_file *file, *inner;
    struct leat_gzip_points points, good;
    const struct leat_gzip_options again = {.block_bytes = BLOCK, .wrong = wrong},
                                   keeping = {.sink = take_any, .block_bytes = BLOCK, .keep = &points};
    files_write(folder, "data.gz", packed, pack(plain, BYTES, packed, sizeof packed));
    assert_ok(open_keeping(&good, &file, &error));
    leat_io_release(file);
    assert_ok(leat_io_open(path, &inner, &error));
    for (int keeps = 0; keeps < 2; keeps++)
        for (int64_t n = 0, more = true; more; n++) {
            points = (struct leat_gzip_points){0};
            fail_allocation(n);
            int rc = keeps ? leat_gzip_open(inner, &keeping, &file, &error)
                           : leat_gzip_reopen(inner, &good, &again, &file, &error);
            rc = rc ? rc : leat_io_read(file, BYTES / 2, 10, got, &error);
            more = allocation_failed();
            assert_int_equal(rc, more ? LEAT_E_NOMEM : LEAT_OK);
            if (more)
                assert_int_equal(error.code, LEAT_E_NOMEM);
            else
                assert_memory_equal(got, plain + BYTES / 2, 10);
            leat_io_release(file);
            leat_gzip_points_free(&points);
        }
    leat_io_release(inner);
    leat_gzip_points_free(&good);
}

enum { READERS = 4, BAD = 3 };
struct reader {
    pthread_t thread;
    struct leat_io_file *file;
    const struct leat_gzip_point *points;
    size_t n;
    unsigned right, told, other;
};

static void *read_blocks(void *arg)
{
    struct reader *r = arg;
    uint8_t bytes[64];
    for (size_t i = 0; i < 20 * r->n; i++) {
        const size_t block = i * 7 % r->n;
        const uint64_t at = r->points[block].out;
        struct leat_error error;
        const int rc = leat_io_read(r->file, at, sizeof bytes, bytes, &error);
        r->right += !rc && block != BAD && !memcmp(bytes, plain + at, sizeof bytes);
        r->told += rc == LEAT_E_CHANGED && error.code == rc && block == BAD;
        r->other++;
    }
    return NULL;
}

static _Atomic int n_told;

static int tell(void *user, uint64_t at, struct leat_error *error)
{
    atomic_fetch_add(&n_told, 1);
    return leat_fail(error, LEAT_E_CHANGED, "changed");
}

TEST(of_readers_of_one_member_those_of_a_damaged_block_are_told_and_the_others_go_on)
{
    struct leat_error error;
    struct leat_io_file *file, *inner;
    struct leat_gzip_points points;
    struct reader readers[READERS];
    const size_t n = pack(plain, BYTES, packed, sizeof packed);
    files_write(folder, "data.gz", packed, n);
    assert_ok(open_keeping(&points, &file, &error));
    leat_io_release(file);
    packed[points.points[BAD].in + 100] ^= 1;
    files_write(folder, "data.gz", packed, n);
    assert_ok(leat_io_open(path, &inner, &error));
    const struct leat_gzip_options options = {.block_bytes = BLOCK, .wrong = tell};
    assert_ok(leat_gzip_reopen(inner, &points, &options, &file, &error));
    leat_io_release(inner);
    test_blocks_budget = 3 * BLOCK;
    for (int i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.file = file, .points = points.points, .n = points.n};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_blocks, &readers[i]), 0);
    }
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
        assert_int_equal(readers[i].told, 20);
        assert_int_equal(readers[i].right + readers[i].told, readers[i].other);
    }
    assert_true(atomic_load(&n_told) >= 20);
    test_blocks_budget = 0;
    leat_io_release(file);
    leat_gzip_points_free(&points);
}

/* Parts that are the same and know nothing of each other: points lie where each begins, and nothing is decoded to find
 * them. */
TEST(a_file_of_more_than_4_GiB_is_read_anywhere_by_points)
{
    enum { PART = 5 << 20, PARTS = LEAT_GZIP_POINTS, ROOM = 1 << 20, HEAD = 10 };
    const uint64_t size = (uint64_t)PART * PARTS;
    struct leat_error error;
    struct leat_io_file *inner, *file;
    uint8_t *part = malloc(PART), *one = malloc(ROOM), *all, *windows = malloc((PARTS - 1) * LEAT_GZIP_WINDOW);
    struct leat_gzip_point *points = calloc(PARTS + 1, sizeof *points);
    z_stream z = {.next_in = part, .avail_in = PART, .next_out = one, .avail_out = ROOM};
    for (size_t i = 0; i < PART; i++)
        part[i] = (uint8_t)(i % 251 + i / 100000);
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FULL_FLUSH), Z_OK);
    deflateEnd(&z);
    const size_t n = ROOM - z.avail_out, bytes = HEAD + PARTS * n + 2 + 8;
    const uint32_t crc = (uint32_t)crc32(0, part, PART);
    uLong together = 0;
    all = malloc(bytes);
    memcpy(all, "\x1f\x8b\x08\0\0\0\0\0\0\xff", HEAD);
    for (size_t i = 0; i < PARTS; i++) {
        memcpy(all + HEAD + i * n, one, n);
        points[i] = (struct leat_gzip_point){.in = i ? HEAD + i * n : 0, .out = i * (uint64_t)PART, .crc = crc};
        points[i].hash = leat_hash64(part, PART);
        if (i)
            memcpy(windows + (i - 1) * LEAT_GZIP_WINDOW, part + PART - LEAT_GZIP_WINDOW, LEAT_GZIP_WINDOW);
        together = crc32_combine(together, crc, PART);
    }
    points[PARTS] = (struct leat_gzip_point){.in = bytes, .out = size};
    memcpy(all + bytes - 10, "\3\0", 2);
    leat_put_u32(all + bytes - 8, (uint32_t)together);
    leat_put_u32(all + bytes - 4, (uint32_t)size);
    assert_true(size > UINT32_MAX);
    assert_ok(leat_io_from_memory("large.gz", all, bytes, &inner, &error));
    const struct leat_gzip_options options = {.block_bytes = PART, .wrong = wrong};
    assert_ok(leat_gzip_reopen(inner, &(struct leat_gzip_points){points, windows, PARTS}, &options, &file, &error));
    leat_io_release(inner);
    assert_int_equal(file->size, size);
    const uint64_t places[] = {0, PART - 7, UINT32_MAX - UINT64_C(3), (uint64_t)UINT32_MAX + PART, size - 100};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        assert_ok(leat_io_read(file, places[i], 100, got, &error));
        for (size_t k = 0; k < 100; k++)
            assert_int_equal(got[k], part[(places[i] + k) % PART]);
    }
    leat_io_release(file);
    free(part);
    free(one);
    free(all);
    free(windows);
    free(points);
}

static size_t live;

static void *watched_allocate(size_t bytes)
{
    void *p = malloc(bytes);
    live += p ? malloc_usable_size(p) : 0;
    return p;
}

static void watched_release(void *p)
{
    live -= p ? malloc_usable_size(p) : 0;
    free(p);
}

static void *watched_resize(void *p, size_t bytes)
{
    const size_t before = p ? malloc_usable_size(p) : 0;
    void *fresh = realloc(p, bytes);
    live += fresh ? malloc_usable_size(fresh) - before : 0;
    return fresh;
}

/* An archive may have a thousand of them. */
TEST(a_short_file_takes_little_memory_while_it_is_open)
{
    struct leat_error error;
    struct leat_io_file *file, *inner;
    struct leat_gzip_points points;
    const struct leat_gzip_options keeping = {.sink = take_any, .block_bytes = BLOCK, .keep = &points};
    const size_t n = pack(plain, 1000, packed, sizeof packed);
    test_allocator = (struct test_allocator){watched_allocate, watched_resize, watched_release};
    live = 0;
    assert_ok(leat_io_from_memory("short.gz", packed, n, &inner, &error));
    assert_ok(leat_gzip_open(inner, &keeping, &file, &error));
    leat_io_release(inner);
    assert_in_range(live, 1, 4096);
    leat_io_release(file);
    leat_gzip_points_free(&points);
    assert_int_equal(live, 0);
    test_allocator = (struct test_allocator){malloc, realloc, free};
}

TEST(nothing_is_kept_of_a_file_of_several_members)
{
    struct leat_error error;
    struct leat_io_file *file;
    struct leat_gzip_points points;
    size_t n = pack(plain, BYTES / 2, packed, sizeof packed);
    n += pack(plain + BYTES / 2, BYTES / 2, packed + n, sizeof packed - n);
    files_write(folder, "data.gz", packed, n);
    assert_ok(open_keeping(&points, &file, &error));
    assert_int_equal(points.n, 0);
    assert_reads_everywhere(file);
    leat_io_release(file);
}

/* Bits of deflate, the lowest first. */
struct bits {
    uint8_t *to;
    size_t n;
};

static void put_bits(struct bits *b, uint32_t value, unsigned n)
{
    for (unsigned i = 0; i < n; i++, b->n++)
        b->to[b->n / 8] = (uint8_t)(b->to[b->n / 8] | (value >> i & 1) << b->n % 8);
}

/* One block, with codes that are fixed: 'a', and then it is repeated 258 bytes at a time. */
TEST(nothing_is_kept_of_a_block_of_deflate_that_zlib_would_not_make)
{
    enum { TIMES = (2 << 20) / 16 };
    static uint8_t bytes[TIMES * 13 / 8 + 64], value[258];
    struct bits b = {bytes, 80};
    struct leat_error error;
    struct leat_io_file *inner, *file;
    struct leat_gzip_points points;
    const uint32_t size = 1 + TIMES * 258;
    memcpy(bytes, "\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
    put_bits(&b, 3, 3);
    put_bits(&b, 0x89, 8); /* the code of 'a' is 0x91, from its highest bit on */
    for (int i = 0; i < TIMES; i++)
        put_bits(&b, 0xa3, 13); /* 11000101, of a length of 258, and 00000, of a distance of 1 */
    put_bits(&b, 0, 7);
    memset(value, 'a', sizeof value);
    uLong crc = crc32(0, value, 1);
    for (int i = 0; i < TIMES; i++)
        crc = crc32(crc, value, sizeof value);
    b.n = (b.n + 7) / 8 * 8;
    put_bits(&b, (uint32_t)crc, 32);
    put_bits(&b, size, 32);
    assert_int_equal(leat_io_from_memory("long.gz", bytes, b.n / 8, &inner, &error), LEAT_OK);
    const struct leat_gzip_options options = {.sink = take_any, .block_bytes = BLOCK, .keep = &points};
    assert_ok(leat_gzip_open(inner, &options, &file, &error));
    assert_true(size > LEAT_GZIP_LONGEST + BLOCK + LEAT_GZIP_WINDOW);
    assert_int_equal(file->size, size);
    assert_int_equal(points.n, 0);
    assert_ok(leat_io_read(file, size - 258, 258, got, &error));
    assert_memory_equal(got, value, 258);
    leat_io_release(file);
    leat_io_release(inner);
}

TEST(the_first_bytes_are_decoded_alone)
{
    struct leat_error error;
    struct leat_io_file *file;
    const size_t n = pack(plain, BYTES, packed, sizeof packed);
    packed[n / 2] ^= 1;
    files_write(folder, "data.gz", packed, n);
    assert_ok(leat_io_open(path, &file, &error));
    assert_ok(leat_gzip_first(file, got, 4096, &error));
    assert_memory_equal(got, plain, 4096);
    leat_io_release(file);
    files_write(folder, "data.gz", packed, 100);
    assert_ok(leat_io_open(path, &file, &error));
    assert_int_equal(leat_gzip_first(file, got, 4096, &error), LEAT_E_CORRUPT);
    leat_io_release(file);
}

TEST_MAIN_IN(set_up, remove_folder)
