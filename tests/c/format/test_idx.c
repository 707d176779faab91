#include <zlib.h>

#include "../folder.h"
#include "base/alloc.h"
#include "format/idx.h"
#include "format/source.h"
#include "io/blocks.h"

/* A file of this type and these dimensions, with these elements as they stand in it. */
static size_t make(uint8_t *out, uint8_t type, const uint32_t *dims, unsigned ndim, const uint8_t *elements, size_t n)
{
    memcpy(out, (uint8_t[]){0, 0, type, (uint8_t)ndim}, 4);
    for (unsigned d = 0; d < ndim; d++)
        for (unsigned k = 0; k < 4; k++)
            out[4 + 4 * d + k] = (uint8_t)(dims[d] >> (24 - 8 * k));
    memcpy(out + 4 + 4 * ndim, elements, n);
    return 4 + 4 * ndim + n;
}

static bool in_blocks; /* what cannot be mapped */

static int open_bytes(const char *name, const uint8_t *bytes, size_t n, bool gz, struct leat_source **out,
                      struct leat_error *error)
{
    static uint8_t packed[1 << 20];
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (gz) {
        z_stream z = {.next_in = (uint8_t *)(uintptr_t)bytes,
                      .avail_in = (uInt)n,
                      .next_out = packed,
                      .avail_out = sizeof packed};
        assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
        assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
        deflateEnd(&z);
        bytes = packed;
        n = sizeof packed - z.avail_out;
    }
    files_write(folder, name, bytes, n);
    return in_blocks ? leat_idx_open(path, 0, out, error) : leat_source_open(path, NULL, out, error);
}

static void read_value(struct leat_source *s, uint64_t sample, void *to, size_t bytes)
{
    struct leat_error error;
    size_t failed;
    const void *row;
    if (s->storage[0] == LEAT_STORAGE_MAPPED) {
        assert_ok(s->v->rows(s, 0, &sample, 1, NULL, &row, &failed, &error));
        memcpy(to, row, bytes);
        return;
    }
    struct leat_extent extent;
    struct leat_io_file *file;
    assert_int_equal(s->storage[0], LEAT_STORAGE_EXTENT);
    assert_ok(s->v->extents(s, 0, &sample, 1, &extent, &failed, &error));
    assert_int_equal(extent.length, bytes);
    assert_ok(s->v->file(s, extent.file, &file, &error));
    assert_ok(leat_io_read(file, extent.offset, extent.length, to, &error));
    leat_io_release(file);
}

/* Every dtype, plain and compressed, in memory, mapped or in blocks, gives the same values and fingerprint. */
TEST(numbers_are_those_that_were_stored_however_they_are_reached)
{
    static const struct {
        uint8_t type;
        enum leat_dtype dtype;
        size_t bytes;
    } types[] = {{8, LEAT_U8, 1},    {9, LEAT_I8, 1},    {0xb, LEAT_I16, 2},
                 {0xc, LEAT_I32, 4}, {0xd, LEAT_F32, 4}, {0xe, LEAT_F64, 8}};
    enum { N = 300, EACH = 6 };
    for (size_t t = 0; t < 6; t++) {
        uint8_t elements[N * EACH * 8], bytes[sizeof elements + 64], native[N * EACH * 8];
        size_t each = types[t].bytes;
        for (size_t i = 0; i < N * EACH * each; i++)
            elements[i] = (uint8_t)(i * 37 + i / 251);
        for (size_t i = 0; i < N * EACH; i++)
            for (size_t k = 0; k < each; k++)
                native[i * each + k] = elements[i * each + each - 1 - k];
        size_t n = make(bytes, types[t].type, (uint32_t[]){N, 2, 3}, 3, elements, N * EACH * each);
        uint64_t fingerprint[2] = {0, 0};
        for (int way = 0; way < 4; way++) {
            struct leat_error error;
            struct leat_source *s;
            in_blocks = way & 1;
            assert_ok(open_bytes("numbers", bytes, n, way & 2, &s, &error));
            assert_string_equal(s->v->name, "idx");
            assert_int_equal(s->count, N);
            assert_int_equal(s->fields[0].dtype, types[t].dtype);
            assert_string_equal(s->fields[0].name, "data");
            assert_int_equal(s->storage[0],
                             (way & 1) && (way & 2 || each > 1) ? LEAT_STORAGE_EXTENT : LEAT_STORAGE_MAPPED);
            for (uint64_t i = 0; i < N; i++) {
                uint8_t value[EACH * 8];
                read_value(s, i, value, EACH * each);
                assert_memory_equal(value, native + i * EACH * each, EACH * each);
            }
            if (way)
                assert_memory_equal(fingerprint, s->fingerprint, sizeof fingerprint);
            memcpy(fingerprint, s->fingerprint, sizeof fingerprint);
            leat_source_close(s);
        }
    }
    in_blocks = false;
}

/* A value, or the error that the file was changed, as a loader would get it: it looks for changes first. */
static int read_again(struct leat_source *s, uint64_t sample, struct leat_error *error)
{
    struct leat_extent extent;
    struct leat_io_file *file;
    uint8_t value[8];
    size_t failed;
    int rc = s->v->refresh(s, error);
    assert_int_equal(s->storage[0], LEAT_STORAGE_EXTENT);
    assert_int_equal(s->v->extents(s, 0, &sample, 1, &extent, &failed, error), LEAT_OK);
    assert_int_equal(s->v->file(s, 0, &file, error), LEAT_OK);
    rc = rc ? rc : leat_io_read(file, extent.offset, extent.length, value, error);
    leat_io_release(file);
    return rc;
}

/* Numbers of more than one byte, bytes that cannot be mapped, and these where the cache has no room, too. */
TEST(values_that_change_behind_an_open_file_are_told)
{
    enum { N = 3000 };
    const struct leat_io_backend *usual = test_backend;
    struct leat_io_backend without_map = *usual;
    char path[PATH_MAX + 64];
    without_map.map = NULL;
    snprintf(path, sizeof path, "%s/changing", folder);
    for (int way = 0; way < 3; way++) {
        uint8_t elements[8 * N] = {1}, bytes[8 * N + 16];
        struct leat_error error;
        struct leat_source *s;
        size_t n = make(bytes, way ? 8 : 0xe, (uint32_t[]){N}, 1, elements, way ? N : 8 * N);
        in_blocks = true;
        test_backend = way ? &without_map : usual;
        test_blocks_budget = way == 2 ? 1 : 0;
        assert_ok(open_bytes("changing", bytes, n, false, &s, &error));
        test_blocks_budget = 1; /* nothing stays */
        assert_ok(read_again(s, N - 1, &error));
        int fd = open(path, O_WRONLY);
        assert_int_equal(pwrite(fd, "x", 1, 100), 1);
        close(fd);
        assert_int_equal(read_again(s, N - 1, &error), LEAT_E_CHANGED);
        assert_string_equal(error.file, path);
        leat_source_close(s);
    }
    test_blocks_budget = 0;
    test_backend = usual;
    in_blocks = false;
}

TEST(bytes_of_two_or_three_axes_are_images)
{
    static const struct {
        uint32_t dims[4];
        unsigned ndim;
        enum leat_layout layout;
        int64_t shape[3];
    } cases[] = {{{2, 28, 28}, 3, LEAT_LAYOUT_CHW, {1, 28, 28}},
                 {{2, 5, 4, 3}, 4, LEAT_LAYOUT_HWC, {5, 4, 3}},
                 {{2, 3, 5, 4}, 4, LEAT_LAYOUT_CHW, {3, 5, 4}},
                 {{2, 7, 6, 5}, 4, LEAT_LAYOUT_NONE, {7, 6, 5}}};
    static const uint8_t zeroes[4096];
    for (size_t i = 0; i < 4; i++) {
        struct leat_error error;
        struct leat_source *s;
        uint8_t bytes[5000];
        size_t n = 1;
        for (unsigned d = 0; d < cases[i].ndim; d++)
            n *= cases[i].dims[d];
        assert_ok(
            open_bytes("images", bytes, make(bytes, 8, cases[i].dims, cases[i].ndim, zeroes, n), false, &s, &error));
        assert_int_equal(s->fields[0].layout, cases[i].layout);
        assert_int_equal(s->fields[0].ndim, 3);
        for (int d = 0; d < 3; d++)
            assert_int_equal(s->fields[0].shape[d], cases[i].shape[d]);
        leat_source_close(s);
    }
}

static void assert_refused(const uint8_t *bytes, size_t n, bool gz, const char *why)
{
    struct leat_error error;
    struct leat_source *s;
    assert_int_equal(open_bytes("x-idx1-ubyte", bytes, n, gz, &s, &error), LEAT_E_CORRUPT);
    assert_null(s);
    if (!strstr(error.message, why))
        fail_msg("\"%s\" does not say \"%s\"", error.message, why);
    assert_non_null(strstr(error.file, "x-idx1-ubyte"));
}

TEST(a_file_that_lies_about_its_length_is_refused)
{
    static const uint8_t elements[100];
    uint8_t bytes[200];
    size_t n = make(bytes, 8, (uint32_t[]){100}, 1, elements, 100);
    assert_refused(bytes, n - 1, false, "cut or damaged");
    assert_refused(bytes, n - 1, true, "there are 107");
    bytes[n] = 0;
    assert_refused(bytes, n + 1, false, "1 bytes after the 100 samples");
    assert_refused(bytes, n + 1, true, "bytes after the 100 samples");
    make(bytes, 8, (uint32_t[]){UINT32_MAX}, 1, elements, 100);
    assert_refused(bytes, n, false, "4294967295 samples");
    assert_refused(bytes, n, true, "cannot hold so many");
    make(bytes, 14, (uint32_t[]){UINT32_MAX, UINT32_MAX, UINT32_MAX}, 3, elements, 50);
    assert_refused(bytes, 66, false, "impossible lengths");
    make(bytes, 8, (uint32_t[]){5, 0}, 2, elements, 0);
    assert_refused(bytes, 12, false, "impossible lengths");
    for (size_t cut = 0; cut < 8; cut++)
        assert_refused(bytes, cut, false, "does not begin as an IDX file does");
    make(bytes, 7, (uint32_t[]){5}, 1, elements, 5);
    assert_refused(bytes, 13, false, "does not begin as an IDX file does");
    make(bytes, 8, (uint32_t[]){5}, 1, elements, 5);
    bytes[3] = 9;
    assert_refused(bytes, 13, true, "does not begin as an IDX file does");
}

TEST(an_empty_array_is_a_data_set_without_samples)
{
    struct leat_error error;
    struct leat_source *s;
    uint8_t bytes[64];
    for (int gz = 0; gz < 2; gz++) {
        assert_ok(open_bytes("empty", bytes, make(bytes, 8, (uint32_t[]){0, 28, 28}, 3, bytes, 0), gz, &s, &error));
        assert_int_equal(s->count, 0);
        leat_source_close(s);
    }
}

/* Every allocation of opening fails once. */
static size_t left;
static void *scarce(size_t bytes)
{
    return left-- ? malloc(bytes) : NULL;
}

TEST(running_out_of_memory_is_an_error_and_leaks_nothing)
{
    const struct test_allocator usual = test_allocator;
    struct leat_error error;
    struct leat_source *s;
    uint8_t bytes[2000], elements[1000] = {1};
    size_t n = make(bytes, 0xc, (uint32_t[]){250}, 1, elements, 1000);
    for (int way = 0; way < 4; way++) {
        in_blocks = way & 1;
        int rc = LEAT_E_NOMEM;
        for (size_t i = 0; rc && i < 100; i++) {
            left = i;
            test_allocator.allocate = scarce;
            rc = open_bytes("scarce", bytes, n, way & 2, &s, &error);
            test_allocator = usual;
            assert_true(rc == LEAT_OK || rc == LEAT_E_NOMEM);
        }
        assert_int_equal(rc, LEAT_OK);
        leat_source_close(s);
    }
    in_blocks = false;
}

TEST_MAIN_IN(make_folder, remove_folder)
