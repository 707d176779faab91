/* Folders of items: what happens when memory runs out or files cannot be read; indexes that are kept. Values are
 * compared from Python (test_mds.py, test_litdata.py). */
#include <libdeflate.h>
#include <unistd.h>

#include "../allocations.h"
#include "../files.h"

#include "base/bytes.h"
#include "format/items.h"

enum { SAMPLES = 3 };

struct made {
    uint8_t bytes[4096];
    size_t n;
};

static void put(struct made *m, const void *bytes, size_t n)
{
    memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
}

static void put_u32(struct made *m, uint32_t v)
{
    put(m, &v, 4);
}

/* A sample of the columns a (pixels), b (an array behind a header), c (int), d (a number in text), e (bytes). */
static void put_sample(struct made *m, int64_t i)
{
    static const uint8_t pixels[] = {2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 'L', 7, 8}, array[] = {4, 2, 5, 6};
    put_u32(m, sizeof pixels);
    put_u32(m, sizeof array);
    put_u32(m, 2);
    put_u32(m, 3);
    put(m, pixels, sizeof pixels);
    put(m, array, sizeof array);
    put(m, &i, 8);
    put(m, "12", 2);
    put(m, "abc", 3);
}

static struct made make_shard(void)
{
    struct made m = {.n = 4 * (SAMPLES + 2)};
    leat_put_u32(m.bytes, SAMPLES);
    for (unsigned i = 0; i <= SAMPLES; i++) {
        leat_put_u32(m.bytes + 4 + 4 * i, (uint32_t)m.n);
        if (i < SAMPLES)
            put_sample(&m, i);
    }
    return m;
}

static void write_folder(const char *folder, bool zipped)
{
    const struct made m = make_shard();
    uint8_t stored[4096];
    char index[2048], zip[256] = "null";
    size_t n = 0;
    if (zipped) {
        struct libdeflate_compressor *z = libdeflate_alloc_compressor(6);
        n = libdeflate_gzip_compress(z, m.bytes, m.n, stored, sizeof stored);
        libdeflate_free_compressor(z);
        files_write(folder, "a.mds.gz", stored, n);
        snprintf(zip, sizeof zip, "{\"basename\": \"a.mds.gz\", \"bytes\": %zu, \"hashes\": {}}", n);
    } else {
        files_write(folder, "a.mds", m.bytes, m.n);
    }
    snprintf(index, sizeof index,
             "{\"shards\": [{\"column_encodings\": [\"pil\", \"ndarray:uint8\", \"int\", \"str_int\", \"bytes\"],"
             "\"column_names\": [\"a\", \"b\", \"c\", \"d\", \"e\"], \"column_sizes\": [null, null, 8, null, null],"
             "\"compression\": %s, \"format\": \"mds\", \"hashes\": [], \"raw_data\": {\"basename\": \"a.mds\","
             "\"bytes\": %zu, \"hashes\": {\"xxh64\": \"%s\"}}, \"samples\": %d, \"version\": 2, \"zip_data\": %s}],"
             "\"version\": 2}",
             zipped ? "\"gz\"" : "null", m.n, "HASH", SAMPLES, zip);
    struct leat_digest *d;
    char text[LEAT_DIGEST_TEXT], *at = strstr(index, "\"HASH\"");
    assert_int_equal(leat_digest_begin("xxh64", &d, NULL), LEAT_OK);
    leat_digest_add(d, m.bytes, m.n);
    leat_digest_end(d, text);
    memmove(at + 18, at + 6, strlen(at + 6) + 1);
    memcpy(at + 1, text, 16);
    at[17] = '"';
    files_write(folder, "index.json", index, strlen(index));
}

/* Opens the folder and reads all of it. */
static int read_all(const char *folder, struct leat_error *error)
{
    struct leat_dataset *d;
    struct leat_value value;
    size_t n;
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    options.format = "mds"; /* a folder that cannot be looked into is recognised as another thing */
    int rc = leat_dataset_open(folder, &options, &d, error);
    if (rc)
        return rc;
    leat_dataset_fields(d, &n);
    assert_int_equal(leat_dataset_count(d), SAMPLES);
    for (size_t i = 0; i < SAMPLES && !rc; i++)
        for (size_t f = 0; f < n && !rc; f++) {
            rc = leat_dataset_read(d, i, f, &value, error);
            if (!rc)
                leat_value_clear(&value);
        }
    leat_dataset_release(d);
    return rc;
}

static void forget(const char *folder)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/index.json" LEAT_KEPT_END, folder);
    unlink(path);
}

TEST(each_allocation_that_fails_is_an_error)
{
    for (int zipped = 0; zipped < 2; zipped++)
        for (int kept = 0; kept < 2; kept++) {
            char folder[PATH_MAX];
            struct leat_error error;
            files_folder(folder);
            write_folder(folder, zipped);
            assert_int_equal(read_all(folder, &error), LEAT_OK);
            for (int64_t n = 0;; n++) {
                if (!kept)
                    forget(folder);
                fail_allocation(n);
                const int rc = read_all(folder, &error);
                if (!allocation_failed()) {
                    assert_int_equal(rc, LEAT_OK);
                    break;
                }
                assert_true(rc == LEAT_E_NOMEM || rc == LEAT_OK); /* an index may be made anew, or stay unwritten */
            }
            files_remove(folder);
        }
}

static int reads_left;

static ssize_t scarce_pread(int fd, void *buffer, size_t bytes, off_t offset)
{
    if (!reads_left--) {
        errno = ENXIO;
        return -1;
    }
    return pread(fd, buffer, bytes, offset);
}

TEST(each_read_that_fails_is_an_error)
{
    for (int zipped = 0; zipped < 2; zipped++) {
        char folder[PATH_MAX];
        struct leat_error error;
        files_folder(folder);
        write_folder(folder, zipped);
        test_pread = scarce_pread;
        for (int n = 0;; n++) {
            forget(folder);
            reads_left = n;
            const int rc = read_all(folder, &error);
            if (reads_left >= 0) {
                assert_int_equal(rc, LEAT_OK);
                break;
            }
            assert_true(rc == LEAT_E_IO || rc == LEAT_OK); /* an index may stay unwritten */
        }
        test_pread = pread;
        files_remove(folder);
    }
}

TEST(a_wrong_hash_is_found_on_the_first_reading)
{
    for (int zipped = 0; zipped < 2; zipped++) {
        char folder[PATH_MAX];
        struct leat_error error;
        files_folder(folder);
        write_folder(folder, zipped);
        if (!zipped) {
            struct made m = make_shard();
            m.bytes[m.n - 1] ^= 1;
            files_write(folder, "a.mds", m.bytes, m.n);
            assert_int_equal(read_all(folder, &error), LEAT_E_CORRUPT);
            assert_non_null(strstr(error.message, "xxh64"));
        } else {
            assert_int_equal(read_all(folder, &error), LEAT_OK);
        }
        files_remove(folder);
    }
}

TEST(hashes_are_those_of_python)
{
    static const struct {
        const char *name, *of_abc;
    } known[] = {{"xxh32", "32d153ff"},
                 {"xxh64", "44bc2cf5ad770999"},
                 {"xxh3_64", "78af5f94892f3950"},
                 {"xxh128", "06b05ab6733a618578af5f94892f3950"},
                 {"md5", "900150983cd24fb0d6963f7d28e17f72"},
                 {"sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct leat_digest *d;
        char text[LEAT_DIGEST_TEXT];
        assert_int_equal(leat_digest_begin(known[i].name, &d, NULL), LEAT_OK);
        leat_digest_add(d, "a", 1);
        leat_digest_add(d, "bc", 2);
        leat_digest_end(d, text);
        assert_string_equal(text, known[i].of_abc);
    }
    struct leat_digest *d;
    assert_int_equal(leat_digest_begin("crc7", &d, NULL), LEAT_E_UNSUPPORTED);
    leat_digest_end(d, NULL);
}

TEST_MAIN()
