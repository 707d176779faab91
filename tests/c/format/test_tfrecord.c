/* TFRecord files: their pass, and what happens when memory runs out or reads fail. Values are compared from Python
 * (test_tfrecord.py). */
#include "../allocations.h"
#include "../faulty.h"
#include "../files.h"

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/hash.h"
#include "format/tfrecord_index.h"

struct made {
    uint8_t bytes[1024];
    size_t n;
};

static uint32_t masked(const uint8_t *bytes, size_t n)
{
    const uint32_t crc = leat_crc32c(0, bytes, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static void add_record(struct made *m, const void *data, size_t n)
{
    uint8_t *p = m->bytes + m->n;
    leat_put_u64(p, n);
    leat_put_u32(p + 8, masked(p, 8));
    memcpy(p + 12, data, n);
    leat_put_u32(p + 12 + n, masked(data, n));
    m->n += n + 16;
}

/* A field of a message, shorter than 128 bytes. Returns how many it takes. */
static size_t put(uint8_t *to, unsigned number, const void *data, size_t n)
{
    assert_true(n < 128);
    to[0] = (uint8_t)(number << 3 | 2);
    to[1] = (uint8_t)n;
    memcpy(to + 2, data, n);
    return n + 2;
}

/* An entry of the map: a name of one letter, and a list of some kind. */
static size_t put_entry(uint8_t *to, char name, unsigned kind, const void *list, size_t n)
{
    uint8_t feature[128], entry[128];
    const size_t in_feature = put(feature, kind, list, n);
    size_t in_entry = put(entry, 1, &name, 1);
    in_entry += put(entry + in_entry, 2, feature, in_feature);
    return put(to, 1, entry, in_entry);
}

static const uint8_t packed[] = {1, 2, 0xac, 2}, one_by_one[] = {1 << 3, 1, 1 << 3, 2, 1 << 3, 0xac, 2}, seven[] = {7};
static const float halves[] = {0.5F, 2.0F};

/* Two records: bytes, integers (packed and not), floats; and in the first alone a single number. */
static struct made sample_file(void)
{
    struct made m = {.n = 0};
    for (int i = 0; i < 2; i++) {
        uint8_t list[64], features[128], data[128];
        size_t n = put_entry(features, 'b', LEAT_TFRECORD_BYTES, list, put(list, 1, "text", 4));
        n += i ? put_entry(features + n, 'i', LEAT_TFRECORD_INTS, one_by_one, sizeof one_by_one)
               : put_entry(features + n, 'i', LEAT_TFRECORD_INTS, list, put(list, 1, packed, sizeof packed));
        n += put_entry(features + n, 'f', LEAT_TFRECORD_FLOATS, list, put(list, 1, halves, sizeof halves));
        if (!i)
            n += put_entry(features + n, 'n', LEAT_TFRECORD_INTS, list, put(list, 1, seven, 1));
        add_record(&m, data, put(data, 1, features, n));
    }
    return m;
}

TEST(a_pass_finds_the_places_and_hashes_of_values)
{
    struct made m = sample_file();
    struct leat_io_file *file;
    struct leat_compressed made;
    struct leat_places p;
    struct leat_place at;
    uint64_t number;
    static const int64_t ints[] = {1, 2, 300};
    assert_true(leat_tfrecord_recognise(m.bytes, m.n));
    assert_int_equal(leat_io_from_memory("x", m.bytes, m.n, &file, NULL), LEAT_OK);
    const struct leat_tfrecord_making making = {.file = file};
    assert_int_equal(leat_tfrecord_index_make(&making, &made, &p, NULL), LEAT_OK);
    assert_true(leat_tfrecord_index_fits(&p));
    struct leat_tfrecord_column *lists = (struct leat_tfrecord_column *)p.own[0] + 1; /* as a lying index has them */
    lists->kinds[LEAT_TFRECORD_INTS].most = m.n + 1;
    assert_false(leat_tfrecord_index_fits(&p));
    lists->kinds[LEAT_TFRECORD_INTS].most = 3;
    lists->kinds[LEAT_TFRECORD_INTS].n = 3;
    assert_false(leat_tfrecord_index_fits(&p));
    lists->kinds[LEAT_TFRECORD_INTS].n = 2;
    assert_int_equal(p.count, 2);
    assert_int_equal(p.width, 4);
    assert_string_equal(p.text + ((const struct leat_tfrecord_column *)p.columns)[3].name, "n");
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(leat_places_find(&p, i, 0, &number, &at, NULL), LEAT_OK);
        assert_memory_equal(m.bytes + at.offset, "text", 4);
        assert_int_equal(at.sum, leat_hash64("text", 4));
        assert_int_equal(leat_places_find(&p, i, 1, &number, &at, NULL), LEAT_OK);
        assert_int_equal(at.sum, leat_hash64(ints, sizeof ints));
        assert_int_equal(leat_tfrecord_count_of(&at), 3);
        assert_int_equal(leat_places_find(&p, i, 2, &number, &at, NULL), LEAT_OK);
        assert_int_equal(at.sum, leat_hash64(halves, sizeof halves));
    }
    assert_int_equal(leat_places_find(&p, 0, 3, &number, &at, NULL), LEAT_OK);
    assert_int_equal(at.sum, 7);
    assert_int_equal(leat_places_find(&p, 1, 3, &number, &at, NULL), LEAT_OK);
    assert_true(number == UINT64_MAX);
    leat_places_destroy(&p);
    leat_io_release(made.file);
    leat_io_release(file);
}

/* Opens the file and reads all of it. */
static int read_all(const char *path, struct leat_error *error)
{
    struct leat_dataset *d;
    struct leat_value value;
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    const struct leat_field wanted[] = {
        {.name = "b", .kind = LEAT_KIND_IMAGE}, {.name = "i"}, {.name = "f"}, {.name = "n"}};
    options.fields = wanted;
    options.n_fields = 4;
    int rc = leat_dataset_open(path, &options, &d, error);
    if (rc)
        return rc;
    for (size_t i = 0; i < 2 && !rc; i++)
        for (size_t f = 0; f < 5 && !rc; f++) {
            rc = leat_dataset_read(d, i, f, &value, error);
            if (rc)
                break;
            if (f == 0)
                assert_memory_equal(value.data, "text", 4);
            if (f == 1)
                assert_int_equal(leat_get_u64((const uint8_t *)value.data + 16), 300);
            if (f == 2)
                assert_memory_equal(value.data, halves, sizeof halves);
            if (f == 3)
                assert_int_equal(leat_get_u64(value.data), i ? 0 : 7);
            if (f == 4)
                assert_int_equal(*(const uint8_t *)value.data, !i);
            leat_value_clear(&value);
        }
    leat_dataset_release(d);
    return rc;
}

static void paths_of(char folder[PATH_MAX], char path[PATH_MAX + 16], char index[PATH_MAX + 32])
{
    const struct made m = sample_file();
    files_folder(folder);
    files_write(folder, "a.tfrecord", m.bytes, m.n);
    snprintf(path, PATH_MAX + 16, "%s/a.tfrecord", folder);
    snprintf(index, PATH_MAX + 32, "%s.leat-index", path);
}

TEST(each_allocation_that_fails_is_an_error)
{
    char folder[PATH_MAX], path[PATH_MAX + 16], index[PATH_MAX + 32];
    struct leat_error error;
    paths_of(folder, path, index);
    assert_int_equal(read_all(path, &error), LEAT_OK);
    for (int kept = 0; kept < 2; kept++)
        for (int64_t n = 0;; n++) {
            if (!kept)
                unlink(index);
            fail_allocation(n);
            const int rc = read_all(path, &error);
            if (!allocation_failed()) {
                assert_int_equal(rc, LEAT_OK);
                break;
            }
            assert_true(rc == LEAT_E_NOMEM || rc == LEAT_OK); /* an index may be made anew, or stay unwritten */
        }
    files_remove(folder);
}

TEST(each_read_that_fails_is_an_error)
{
    char folder[PATH_MAX], path[PATH_MAX + 16], index[PATH_MAX + 32];
    struct leat_error error;
    paths_of(folder, path, index);
    for (int round = 0; round < 4; round++) /* an index or none; reads that complete at once or later */
        for (uint64_t n = 1;; n++) {
            if (!(round & 1))
                unlink(index);
            leat_faulty_start(&(struct leat_faulty){.fail_read = n, .later = round & 2});
            const int rc = read_all(path, &error);
            if (leat_faulty_stop().reads < n) {
                assert_int_equal(rc, LEAT_OK);
                break;
            }
            assert_true(rc == LEAT_E_IO || rc == LEAT_OK);
        }
    files_remove(folder);
}

TEST(lengths_that_lie_are_found_before_anything_is_allocated)
{
    const uint64_t lengths[] = {1 << 20, UINT64_C(1) << 40, UINT64_C(1) << 62, UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct made m = sample_file();
        struct leat_io_file *file;
        struct leat_compressed made;
        struct leat_places p;
        struct leat_error error;
        const size_t at = m.n;
        leat_put_u64(m.bytes + at, lengths[i]);
        leat_put_u32(m.bytes + at + 8, masked(m.bytes + at, 8));
        assert_int_equal(leat_io_from_memory("x.tfrecord", m.bytes, at + 12, &file, NULL), LEAT_OK);
        const struct leat_tfrecord_making making = {.file = file};
        assert_int_equal(leat_tfrecord_index_make(&making, &made, &p, &error), LEAT_E_CORRUPT);
        assert_int_equal(error.offset, at);
        leat_io_release(file);
    }
}

TEST_MAIN()
