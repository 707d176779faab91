/* Files of FFCV: where values lie, and what happens when memory runs out or reads fail. Values are compared from Python
 * (test_beton.py). */
#include "../allocations.h"
#include "../faulty.h"
#include "../files.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "codec/photo/raw.h"
#include "format/beton.h"
#include "format/raw_photos.h"

enum { FIELDS = 5, SAMPLES = 2, DESCRIPTIONS = 24 + 1041 * FIELDS, ROW = 56, PAGE = 2 << 20, PIXELS = 12 };

/* A photo that is pixels, a number, bytes, a JSON and an array, for each of two samples. */
struct made {
    uint8_t *bytes;
    size_t n;
};

static size_t put_value(struct made *m, uint8_t **entry, uint64_t sample, size_t at, const void *data, size_t n)
{
    memcpy(m->bytes + at, data, n);
    leat_put_u64(*entry, sample);
    leat_put_u64(*entry + 8, at);
    leat_put_u64(*entry + 16, n);
    *entry += 24;
    return at + n;
}

static struct made sample_file(void)
{
    static const uint8_t types[FIELDS] = {LEAT_BETON_RGB, LEAT_BETON_INT, LEAT_BETON_BYTES, LEAT_BETON_JSON,
                                          LEAT_BETON_NDARRAY};
    static const char descr[] = "[[\"\", \"<i4\"]]";
    struct made m = {calloc(2, PAGE), 2 * PAGE - 24 * 8};
    m.n = PAGE + 4096 + 24 * 8;
    uint8_t *b = m.bytes, *entry = b + PAGE + 4096;
    size_t at = PAGE;
    leat_put_u16(b, 2);
    leat_put_u16(b + 2, FIELDS);
    leat_put_u32(b + 4, PAGE);
    leat_put_u64(b + 8, SAMPLES);
    leat_put_u64(b + 16, PAGE + 4096);
    for (size_t i = 0; i < FIELDS; i++) {
        uint8_t *d = b + 24 + 1041 * i;
        d[0] = types[i];
        d[1] = (uint8_t)('a' + i);
        if (types[i] != LEAT_BETON_NDARRAY)
            continue;
        leat_put_u64(d + 17, 3);
        leat_put_u64(d + 17 + 256, sizeof descr - 1);
        memcpy(d + 17 + 264, descr, sizeof descr - 1);
    }
    for (size_t i = 0; i < SAMPLES; i++) { /* columns at 0, 16, 24, 40, 56 */
        uint8_t *row = b + DESCRIPTIONS + (ROW + 8) * i;
        const int32_t array[3] = {(int32_t)i, 2, -3};
        row[0] = 1;
        leat_put_u16(row + 1, 2);
        leat_put_u16(row + 3, 2);
        leat_put_u64(row + 5, at);
        at = put_value(&m, &entry, i, at, "pixels abcde", PIXELS);
        leat_put_u64(row + 16, 40 + i);
        leat_put_u64(row + 24, at);
        leat_put_u64(row + 32, 5);
        at = put_value(&m, &entry, i, at, "bytes", 5);
        leat_put_u64(row + 40, at);
        leat_put_u64(row + 48, 3);
        at = put_value(&m, &entry, i, at, "{}", 3);
        leat_put_u64(row + 56, at);
        at = put_value(&m, &entry, i, at, array, sizeof array);
    }
    return m;
}

TEST(places_and_hashes_are_those_of_the_values)
{
    struct made m = sample_file();
    struct leat_io_file *file;
    struct leat_beton_layout l;
    struct leat_places p;
    const struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    uint8_t raw[LEAT_RAW_HEADER + PIXELS];
    assert_true(leat_beton_recognise(m.bytes, 4096));
    assert_int_equal(leat_io_from_memory("x.beton", m.bytes, m.n, &file, NULL), LEAT_OK);
    assert_int_equal(leat_beton_read_layout(file, &options, &l, NULL), LEAT_OK);
    assert_int_equal(l.row_bytes, ROW + 8);
    assert_int_equal(l.n_places, 4);
    assert_int_equal(leat_beton_index_make(file, &l, &options, &p, NULL), LEAT_OK);
    assert_int_equal(p.at[0].offset, PAGE);
    assert_int_equal(p.at[0].length, PIXELS);
    leat_raw_photo_put(raw, &(struct leat_raw_photo){.width = 2, .height = 2, .channels = 3, .orientation = 1});
    memcpy(raw + LEAT_RAW_HEADER, "pixels abcde", PIXELS);
    assert_int_equal(p.at[0].sum, leat_hash64(raw, sizeof raw));
    assert_int_equal(p.at[1].sum, leat_hash64("bytes", 5));
    assert_int_equal(p.at[2].length, 2); /* without the NUL */
    assert_int_equal(p.at[2].sum, leat_hash64("{}", 2));
    assert_int_equal(p.at[7].length, 12);
    assert_true(leat_beton_index_fits(&p, &l));
    ((struct leat_place *)p.own[3])[7].length = 8;
    assert_false(leat_beton_index_fits(&p, &l));
    leat_places_destroy(&p);
    free(l.columns);
    leat_io_release(file);
    free(m.bytes);
}

/* Opens the file and reads all of it, parts of a photo too. */
static int read_all(const char *path, struct leat_error *error)
{
    struct leat_dataset *d;
    struct leat_value value;
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    const struct leat_field wanted[] = {
        {.name = "a"},
        {.name = "b"},
        {.name = "c", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8, .ndim = 1, .shape = {-1}},
        {.name = "d"},
        {.name = "e"}};
    options.fields = wanted;
    options.n_fields = FIELDS;
    int rc = leat_dataset_open(path, &options, &d, error);
    if (rc)
        return rc;
    for (size_t i = 0; i < SAMPLES && !rc; i++)
        for (size_t f = 0; f < FIELDS && !rc; f++) {
            rc = leat_dataset_read(d, i, f, &value, error);
            if (rc)
                break;
            if (f == 0)
                assert_memory_equal(value.data, "pixels abcde", PIXELS);
            if (f == 0)
                assert_int_equal(leat_value_given(&value).length, PIXELS + LEAT_RAW_HEADER);
            if (f == 1)
                assert_int_equal(leat_get_u64(value.data), 40 + i);
            if (f == 2)
                assert_memory_equal(value.data, "bytes", 5);
            if (f == 4)
                assert_int_equal(leat_get_u32(value.data), i);
            leat_value_clear(&value);
        }
    leat_dataset_release(d);
    return rc;
}

static void paths_of(char folder[PATH_MAX], char path[PATH_MAX + 16], char index[PATH_MAX + 32])
{
    struct made m = sample_file();
    files_folder(folder);
    files_write(folder, "a.beton", m.bytes, m.n);
    snprintf(path, PATH_MAX + 16, "%s/a.beton", folder);
    snprintf(index, PATH_MAX + 32, "%s.leat-index", path);
    free(m.bytes);
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
            leat_faulty_start(&(struct leat_faulty){.fail_read = n, .later = round & 2, .unmapped = round == 3});
            const int rc = read_all(path, &error);
            if (leat_faulty_stop().reads < n) {
                assert_int_equal(rc, LEAT_OK);
                break;
            }
            assert_true(rc == LEAT_E_IO || rc == LEAT_OK);
        }
    leat_faulty_start(&(struct leat_faulty){.fail_map = 1});
    assert_int_equal(read_all(path, &error), LEAT_E_IO);
    leat_faulty_stop();
    files_remove(folder);
}

static int place_of(void *user, uint64_t photo, struct leat_raw_place *out, struct leat_error *error)
{
    *out = (struct leat_raw_place){1, 2, 3 * photo};
    return photo < 2 ? LEAT_OK : LEAT_E_IO;
}

TEST(any_part_of_a_photo_as_pixels_is_read)
{
    struct leat_io_file *pixels, *file;
    uint8_t whole[22], part[22];
    assert_int_equal(leat_raw_photo_bytes(1, 2), sizeof whole);
    assert_int_equal(leat_raw_photo_bytes(65535, 65535), 0);
    assert_int_equal(leat_raw_photo_bytes(0, 5), 0);
    assert_int_equal(leat_io_from_memory("pixels", "abcdefghi", 9, &pixels, NULL), LEAT_OK);
    assert_int_equal(leat_raw_photos_open(pixels, place_of, NULL, &file, NULL), LEAT_OK);
    for (uint64_t photo = 0; photo < 2; photo++) {
        const uint64_t at = photo << LEAT_RAW_PHOTO_SHIFT;
        struct leat_raw_photo found;
        assert_int_equal(leat_io_read(file, at, sizeof whole, whole, NULL), LEAT_OK);
        assert_true(leat_raw_photo_get(whole, sizeof whole, &found));
        assert_memory_equal(found.pixels, photo ? "defghi" : "abcdef", 6);
        for (size_t from = 0; from < sizeof whole; from++)
            for (size_t n = 0; n <= sizeof whole - from; n++) {
                assert_int_equal(leat_io_read(file, at + from, n, part, NULL), LEAT_OK);
                assert_memory_equal(part, whole + from, n);
            }
    }
    assert_int_equal(leat_io_read(file, UINT64_C(2) << LEAT_RAW_PHOTO_SHIFT, 4, part, NULL), LEAT_E_IO);
    leat_io_release(file);
    leat_io_release(pixels);
}

TEST_MAIN()
