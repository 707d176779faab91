/* Bytes that are not what was written: found by verify, and never a crash or wrong data when read. */
#include <errno.h>
#include <sys/types.h>

#include "../folder.h"
#include "base/role.h"
#include "data/dataset.h"
#include "made.h"
#include "store/reader.h"

static char path[PATH_MAX + 16];

static int set_up(void **state)
{
    files_folder(folder);
    snprintf(path, sizeof path, "%s/a.leat", folder);
    return 0;
}

#define TEST_IN_FOLDER(name) TEST_IN(name, set_up, remove_folder)

/* A small schema, so that every bit of a file can be tried. */
enum { FEW = 4, FEW_SAMPLES = 5 };
static const struct leat_field few[FEW] = {
    {.name = "image", .kind = LEAT_KIND_IMAGE},
    {.name = "label", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
    {.name = "boxes",
     .kind = LEAT_KIND_ARRAY,
     .dtype = LEAT_F32,
     .ndim = 2,
     .shape = {-1, 4},
     .role = LEAT_ROLE_BOXES_CXCYWH,
     .normalized = true},
    {.name = "odd", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8, .ndim = 1, .shape = {3}},
};
static const size_t few_from[FEW] = {0, 8, 16, 0}; /* the field of made.h whose values it takes */

static uint64_t few_value(size_t f, uint64_t i, uint8_t *out)
{
    uint64_t n = made_value(few_from[f], i, out);
    return f == 3 ? 3 : n;
}

static void write_few(void)
{
    static uint8_t room[FEW][MADE_ROOM];
    struct leat_error error;
    struct leat_writer_options o = made_options();
    struct leat_writer *w;
    struct leat_value_ref values[FEW];
    assert_ok(writer_open_with(path, few, FEW, &o, &toy_codec, &w, &error));
    for (uint64_t i = 0; i < FEW_SAMPLES; i++) {
        for (size_t f = 0; f < FEW; f++)
            values[f] = (struct leat_value_ref){room[f], few_value(f, i, room[f]), NULL};
        assert_ok(leat_writer_add(w, values, NULL, &error));
    }
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);
}

/* Opens and reads everything: what is given must be right. Returns whether anything was refused. */
static bool read_few(const char *file)
{
    static uint8_t want[MADE_ROOM], got[MADE_ROOM];
    struct leat_open_options o = LEAT_OPEN_OPTIONS_INIT;
    struct leat_source *s;
    struct leat_error error;
    uint64_t n;
    bool refused = false;
    o.format = "leat";
    int rc = leat_source_open(file, &o, &s, &error);
    if (rc) {
        assert_true(rc == LEAT_E_CORRUPT || rc == LEAT_E_FORMAT || rc == LEAT_E_UNFINISHED);
        assert_null(s);
        assert_string_equal(error.file, file);
        assert_true(strlen(error.message) > 20);
        return true;
    }
    assert_int_equal(s->count, FEW_SAMPLES);
    assert_int_equal(s->n_fields, FEW + 5);
    for (size_t f = 0; f < FEW; f++)
        assert_true(s->fields[f].role == few[f].role && s->fields[f].normalized == few[f].normalized);
    for (uint64_t i = 0; i < s->count; i++) {
        for (size_t f = 0; f < s->n_fields; f++) {
            rc = made_read(s, f, i, got, &n, &error);
            refused |= rc != 0;
            if (rc) {
                assert_int_equal(rc, LEAT_E_CORRUPT);
                continue;
            }
            if (f < FEW) {
                assert_int_equal(n, few_value(f, i, want));
                assert_memory_equal(got, want, n);
            } else if (f == FEW) {
                assert_int_equal(leat_get_u32(got), i % 1000 + 1);
            } else if (f == FEW + 4) {
                assert_int_equal(got[0], i % 11 == 5 ? LEAT_HEALTH_BROKEN : LEAT_HEALTH_GOOD);
            }
        }
    }
    leat_source_close(s);
    return refused;
}

struct seen {
    unsigned faults;
    struct leat_error first;
};

static int see(void *user, const struct leat_error *fault)
{
    struct seen *seen = user;
    if (!seen->faults++)
        seen->first = *fault;
    return 0;
}

static int verify(const char *file, struct seen *seen)
{
    struct leat_error error;
    memset(seen, 0, sizeof *seen);
    struct leat_verify_options o = {.struct_size = sizeof o, .num_threads = 1, .report = see, .user = seen};
    int rc = leat_verify(file, &o, &error);
    if (rc == LEAT_E_CORRUPT) {
        assert_true(seen->faults > 0);
        assert_true(seen->first.file[0] != 0);
        assert_true(strlen(seen->first.message) > 20);
    }
    return rc;
}

TEST_IN_FOLDER(a_whole_file_verifies)
{
    struct seen seen;
    write_few();
    assert_int_equal(verify(path, &seen), LEAT_OK);
    assert_int_equal(seen.faults, 0);
    assert_false(read_few(path));
}

TEST_IN_FOLDER(any_flipped_bit_is_found_and_never_gives_wrong_data)
{
    struct seen seen;
    size_t n;
    write_few();
    uint8_t *bytes = made_bytes(path, &n);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    for (size_t i = 0; i < n; i++)
        for (size_t bit = i % test_every(8); bit < 8; bit += test_every(8)) {
            uint8_t flipped = bytes[i] ^ (uint8_t)(1 << bit);
            assert_int_equal(pwrite(fd, &flipped, 1, (off_t)i), 1);
            int rc = verify(path, &seen);
            if (rc != LEAT_E_CORRUPT)
                fail_msg("byte %zu bit %zu: verify said %s", i, bit, leat_status_name(rc));
            read_few(path);
            assert_int_equal(pwrite(fd, &bytes[i], 1, (off_t)i), 1);
        }
    close(fd);
    assert_int_equal(verify(path, &seen), LEAT_OK);
    free(bytes);
}

TEST_IN_FOLDER(verify_names_sample_field_and_byte_of_a_damaged_value)
{
    struct leat_error error;
    struct leat_source *s;
    struct leat_extent e;
    struct seen seen;
    const void *row;
    size_t failed;
    uint64_t sample = 3;
    write_few();
    assert_ok(leat_source_open(path, NULL, &s, &error));
    assert_ok(s->v->extents(s, 0, &sample, 1, &e, &failed, &error));
    assert_ok(s->v->rows(s, 1, &sample, 1, NULL, &row, &failed, &error));
    leat_source_close(s);
    int fd = open(path, O_RDWR);
    uint8_t byte;
    assert_int_equal(pread(fd, &byte, 1, (off_t)e.offset + 9), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)e.offset + 9), 1);
    assert_int_equal(verify(path, &seen), LEAT_E_CORRUPT);
    assert_int_equal(seen.faults, 1);
    assert_int_equal(seen.first.sample, 3);
    assert_string_equal(seen.first.field, "image");
    assert_int_equal(seen.first.offset, e.offset);
    assert_string_equal(seen.first.file, path);
    close(fd);
}

TEST_IN_FOLDER(a_file_cut_at_any_byte_is_an_error)
{
    struct leat_error error;
    struct leat_open_options o = LEAT_OPEN_OPTIONS_INIT;
    struct leat_source *s;
    struct seen seen;
    char partial[PATH_MAX + 32];
    size_t n;
    o.format = "leat";
    write_few();
    uint8_t *bytes = made_bytes(path, &n);
    snprintf(partial, sizeof partial, "%s.partial", path);
    for (size_t length = n; length-- > 0;) {
        assert_int_equal(truncate(path, (off_t)length), 0);
        int rc = leat_source_open(path, &o, &s, &error);
        assert_int_equal(rc, LEAT_E_CORRUPT);
        assert_int_not_equal(verify(path, &seen), LEAT_OK);
        if (length % 97)
            continue;
        assert_int_equal(rename(path, partial), 0); /* under this name it is one that was never finished */
        rc = leat_source_open(partial, &o, &s, &error);
        assert_true(rc == LEAT_E_UNFINISHED || (length < 1024 && rc != LEAT_OK));
        assert_int_equal(rename(partial, path), 0);
    }
    free(bytes);
}

TEST_IN_FOLDER(a_file_cut_while_it_is_open_is_an_error_and_no_signal)
{
    struct leat_error error;
    struct leat_source *s;
    struct leat_extent e;
    const void *row;
    size_t failed;
    uint64_t sample = 1;
    write_few();
    assert_ok(leat_source_open(path, NULL, &s, &error));
    uint64_t verified = 2;
    assert_ok(s->v->extents(s, 2, &verified, 1, &e, &failed, &error));
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(s->v->rows(s, 1, &sample, 1, NULL, &row, &failed, &error), LEAT_E_CORRUPT);
    assert_string_equal(error.field, "label");
    assert_string_equal(error.file, path);
    assert_int_equal(s->v->extents(s, 0, &sample, 1, &e, &failed, &error), LEAT_E_CORRUPT);
    assert_int_equal(s->v->extents(s, 2, &verified, 1, &e, &failed, &error), LEAT_E_IO); /* read where it is mapped */
    struct seen seen = {0};
    struct leat_verify_options o = {.struct_size = sizeof o, .num_threads = 2, .report = see, .user = &seen};
    assert_int_equal(s->v->verify(s, &o, 0, &error), LEAT_E_CORRUPT);
    assert_int_equal(seen.first.code, LEAT_E_IO);
    leat_source_close(s);
}

/* ---- sections -------------------------------------------------------------------------------- */

/* Adds a section to a finished file, as a later version of leat could have written it. */
static void add_section(uint32_t type, uint16_t flags, uint8_t codec)
{
    size_t n;
    uint8_t *old = made_bytes(path, &n), *file = calloc(1, n + 4096);
    struct leat_store_footer footer;
    assert_int_equal(leat_store_footer_get(old + n - 64, &footer, NULL), LEAT_OK);
    memcpy(file, old, footer.directory_at);
    uint64_t at = footer.directory_at, entries = footer.directory_bytes;
    memcpy(file + at, "what nobody knows", 17);
    struct leat_store_section s = {type, flags, codec, 6, at, 17, leat_hash64(file + at, 17)};
    uint64_t directory = at + 64;
    memcpy(file + directory, old + footer.directory_at, entries);
    leat_store_section_put(file + directory + entries, &s);
    footer.directory_at = directory;
    footer.directory_bytes = entries + LEAT_STORE_SECTION_ENTRY;
    footer.directory_checksum = leat_hash64(file + directory, footer.directory_bytes);
    uint64_t end = leat_store_align(directory + footer.directory_bytes, 64);
    footer.file_bytes = end + 64;
    leat_store_footer_put(file + end, &footer);
    made_write(path, file, end + 64);
    free(file);
    free(old);
}

TEST_IN_FOLDER(an_unknown_optional_section_is_skipped_but_verified)
{
    struct seen seen;
    size_t n;
    write_few();
    add_section(77, 0, 9);
    assert_false(read_few(path));
    assert_int_equal(verify(path, &seen), LEAT_OK);
    uint8_t *bytes = made_bytes(path, &n);
    uint8_t *at = memmem(bytes, n, "what nobody knows", 17);
    assert_non_null(at);
    at[3] ^= 1;
    made_write(path, bytes, n);
    assert_false(read_few(path));
    assert_int_equal(verify(path, &seen), LEAT_E_CORRUPT);
    free(bytes);
}

/* Of the pairs section of a file with a field of 3 keypoints and one of numbers. */
static bool takes_pairs(const uint32_t *words, size_t n)
{
    const struct leat_field fields[2] = {
        {.name = "points",
         .kind = LEAT_KIND_ARRAY,
         .dtype = LEAT_F32,
         .ndim = 3,
         .shape = {-1, 3, 3},
         .role = LEAT_ROLE_KEYPOINTS},
        {.name = "label", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
    };
    struct leat_store_layout layout;
    bool memory;
    assert_int_equal(leat_store_layout_init(&layout, fields, 2, NULL), LEAT_OK);
    const bool good = leat_store_pairs_get(&layout, (const uint8_t *)words, n * sizeof *words, &memory);
    assert_true(memory);
    leat_store_layout_destroy(&layout);
    return good;
}

TEST_IN_FOLDER(pairs_that_cannot_be_are_refused)
{
    enum { ONE_TWO = 1 | 2 << 16, TWO_TWO = 2 | 2 << 16, TWO_THREE = 2 | 3 << 16, ZERO_ONE = 1 << 16 };
    assert_true(takes_pairs((const uint32_t[]){0, 1, ONE_TWO}, 3));
    assert_true(takes_pairs((const uint32_t[]){0}, 0));
    assert_false(takes_pairs((const uint32_t[]){0, 1, TWO_TWO}, 3));
    assert_false(takes_pairs((const uint32_t[]){0, 1, TWO_THREE}, 3));
    assert_false(takes_pairs((const uint32_t[]){0, 2, ONE_TWO, ZERO_ONE}, 4)); /* 1 twice */
    assert_false(takes_pairs((const uint32_t[]){0, 2, ONE_TWO}, 3));           /* cut */
    assert_false(takes_pairs((const uint32_t[]){0, UINT32_MAX, ONE_TWO}, 3));
    assert_false(takes_pairs((const uint32_t[]){0, 0}, 2));
    assert_false(takes_pairs((const uint32_t[]){0, 1, ONE_TWO, 0}, 4));
    assert_false(takes_pairs((const uint32_t[]){0, 1, ONE_TWO, 0, 1, ONE_TWO}, 6)); /* a field twice */
    assert_false(takes_pairs((const uint32_t[]){1, 1, ONE_TWO}, 3));                /* no keypoints */
    assert_false(takes_pairs((const uint32_t[]){2, 1, ONE_TWO}, 3));
}

/* Whether a section about columns is taken, of a file whose fields are a sparse one of 8 bytes a step, a number, and
 * bytes of the same shape. */
static bool takes_columns(const uint32_t *words, size_t n)
{
    const struct leat_field fields[] = {
        {.name = "X",
         .kind = LEAT_KIND_ARRAY,
         .ndim = 2,
         .shape = {-1, 8},
         .role = LEAT_ROLE_SPARSE,
         .item = LEAT_F32,
         .columns = 9},
        {.name = "label", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
        {.name = "u", .kind = LEAT_KIND_ARRAY, .ndim = 2, .shape = {-1, 8}},
    };
    struct leat_field three[3];
    memcpy(three, fields, sizeof three);
    three[0].dtype = three[2].dtype = LEAT_U8;
    struct leat_store_layout layout;
    assert_int_equal(leat_store_layout_init(&layout, three, 3, NULL), LEAT_OK);
    layout.fields[0].columns = 0;
    uint8_t *bytes = malloc(4 * n + 1); /* of its size, so that a read behind it is found */
    memcpy(bytes, words, 4 * n);
    const bool good = leat_store_columns_get(&layout, bytes, 4 * n);
    free(bytes);
    leat_store_layout_destroy(&layout);
    return good;
}

TEST_IN_FOLDER(columns_that_cannot_be_are_refused)
{
    assert_true(takes_columns((const uint32_t[]){0, LEAT_F32, 9, 0}, 4));
    assert_true(takes_columns((const uint32_t[]){0, LEAT_I32, INT32_MAX, 0}, 4));
    assert_false(takes_columns((const uint32_t[]){0}, 0)); /* none for the sparse field */
    assert_false(takes_columns((const uint32_t[]){0, LEAT_F32, 0, 0}, 4));
    assert_false(takes_columns((const uint32_t[]){0, LEAT_F64, 9, 0}, 4)); /* of another step */
    assert_false(takes_columns((const uint32_t[]){0, 99, 9, 0}, 4));
    assert_false(takes_columns((const uint32_t[]){0, UINT32_MAX, 9, 0}, 4));
    assert_false(takes_columns((const uint32_t[]){0, LEAT_F32, 1u << 31, 0}, 4));
    assert_false(takes_columns((const uint32_t[]){0, LEAT_F32, 0, 1}, 4));
    assert_false(takes_columns((const uint32_t[]){1, LEAT_F32, 9, 0}, 4)); /* not sparse */
    assert_false(takes_columns((const uint32_t[]){3, LEAT_F32, 9, 0}, 4));
    assert_false(takes_columns((const uint32_t[]){0, LEAT_F32, 9, 0, 2, LEAT_F32, 9, 0}, 8));
    assert_false(takes_columns((const uint32_t[]){0, LEAT_F32, 9, 0, 0, LEAT_F32, 9, 0}, 8)); /* a field twice */
    assert_false(takes_columns((const uint32_t[]){0, LEAT_F32, 9}, 3));                       /* cut */
    assert_false(takes_columns((const uint32_t[]){0, LEAT_F32, 9, 0, 1}, 5));
}

TEST_IN_FOLDER(an_unknown_required_section_or_codec_is_refused)
{
    struct leat_error error;
    struct leat_source *s;
    write_few();
    add_section(77, LEAT_SECTION_REQUIRED, 0);
    assert_int_equal(leat_source_open(path, NULL, &s, &error), LEAT_E_FORMAT);
    assert_non_null(strstr(error.message, "77"));
    assert_int_equal(unlink(path), 0);
    write_few();
    add_section(LEAT_SECTION_JPEG_ROWS, LEAT_SECTION_REQUIRED, 1);
    assert_int_equal(leat_source_open(path, NULL, &s, &error), LEAT_E_FORMAT);
}

TEST_IN_FOLDER(a_damaged_beginning_is_no_other_format_where_name_or_end_is_ours)
{
    struct leat_error error;
    struct leat_source *s;
    char other[PATH_MAX + 32];
    size_t n;
    write_few();
    snprintf(other, sizeof other, "%s.copy", path);
    uint8_t *bytes = made_bytes(path, &n);
    memset(bytes, 'x', 8);
    made_write(path, bytes, n);
    made_write(other, bytes, n);
    assert_int_equal(leat_source_open(path, NULL, &s, &error), LEAT_E_CORRUPT);
    assert_string_equal(error.file, path);
    assert_int_equal(error.offset, 0);
    assert_non_null(strstr(error.message, "restore"));
    assert_int_equal(leat_source_open(other, NULL, &s, &error), LEAT_E_CORRUPT);
    made_write(path, bytes, 100);
    made_write(other, bytes, 100);
    assert_int_equal(leat_source_open(path, NULL, &s, &error), LEAT_E_CORRUPT);
    assert_int_equal(leat_source_open(other, NULL, &s, &error), LEAT_E_FORMAT);
    unlink(other);
    free(bytes);
}

TEST_IN_FOLDER(a_file_of_a_newer_version_asks_for_a_newer_leat)
{
    struct leat_error error;
    struct leat_source *s;
    size_t n;
    write_few();
    uint8_t *bytes = made_bytes(path, &n);
    uint64_t header = leat_get_u64(bytes + 16);
    leat_put_u32(bytes + 12, UINT32_C(1) << 31); /* a required feature, and all checksums right */
    leat_put_u64(bytes + header - 8, leat_hash64(bytes, header - 8));
    leat_put_u64(bytes + n - 16, leat_get_u64(bytes + header - 8));
    leat_put_u64(bytes + n - 8, leat_hash64(bytes + n - 64, 56));
    made_write(path, bytes, n);
    assert_int_equal(leat_source_open(path, NULL, &s, &error), LEAT_E_FORMAT);
    assert_non_null(strstr(error.message, "newer"));
    leat_put_u32(bytes + 8, 2);
    leat_put_u32(bytes + n - 24, 2);
    leat_put_u64(bytes + n - 8, leat_hash64(bytes + n - 64, 56));
    made_write(path, bytes, n);
    assert_int_equal(leat_source_open(path, NULL, &s, &error), LEAT_E_FORMAT);
    assert_non_null(strstr(error.message, "newer"));
    free(bytes);
}

/* ---- numbers from outside -------------------------------------------------------------------- */

static uint64_t largest;
static void *measured_alloc(size_t bytes)
{
    largest = bytes > largest ? bytes : largest;
    return malloc(bytes);
}

/* Puts `value` at every 8-byte place of header, index, directory and footer, with the checksums made right again, and
 * opens: numbers must be refused by themselves, and no allocation be larger than the file allows. */
TEST_IN_FOLDER(hostile_numbers_with_right_checksums_are_refused)
{
    static const uint64_t values[] = {
        0, 1, 7, 64, UINT64_C(1) << 31, UINT64_C(1) << 32, UINT64_C(1) << 62, INT64_MAX, UINT64_MAX};
    struct leat_open_options o = LEAT_OPEN_OPTIONS_INIT;
    struct leat_store_footer footer;
    struct leat_source *s;
    struct leat_error error;
    size_t n, failed;
    o.format = "leat";
    write_few();
    uint8_t *good = made_bytes(path, &n), *bytes = malloc(n);
    leat_store_footer_get(good + n - 64, &footer, NULL);
    uint64_t header = leat_get_u64(good + 16), first_section = leat_get_u64(good + footer.directory_at + 8);
    test_allocator.allocate = measured_alloc;
    for (uint64_t at = 0; at + 8 <= n; at += 4) {
        if (at >= header && at < first_section)
            continue; /* groups: below */
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            memcpy(bytes, good, n);
            leat_put_u64(bytes + at, values[v]);
            leat_put_u64(bytes + header - 8, leat_hash64(bytes, header - 8));
            for (uint64_t e = footer.directory_at; e < footer.directory_at + footer.directory_bytes;
                 e += LEAT_STORE_SECTION_ENTRY) {
                uint64_t from = leat_get_u64(bytes + e + 8), length = leat_get_u64(bytes + e + 16);
                if (from <= n && length <= n - from)
                    leat_put_u64(bytes + e + 24, leat_hash64(bytes + from, length));
            }
            if (at < footer.directory_at + footer.directory_bytes)
                leat_put_u64(bytes + n - 64 + 32, leat_hash64(bytes + footer.directory_at, footer.directory_bytes));
            leat_put_u64(bytes + n - 64 + 48, leat_get_u64(bytes + header - 8));
            leat_put_u64(bytes + n - 8, leat_hash64(bytes + n - 64, 56));
            made_write(path, bytes, n);
            largest = 0;
            if (!leat_source_open(path, &o, &s,
                                  &error)) { /* a free number, such as the identity: reading must be sound */
                for (size_t f = 0; f < FEW; f++)
                    assert_true(leat_role_fits(&s->fields[f]));
                for (uint64_t i = 0; i < FEW_SAMPLES; i++)
                    for (size_t f = 0; f < s->n_fields; f++) {
                        const void *row;
                        struct leat_extent e;
                        (void)s->v->rows(s, f, &i, 1, NULL, &row, &failed, &error);
                        if (!s->v->extents(s, f, &i, 1, &e, &failed, &error))
                            assert_true(e.offset <= n && e.length <= n - e.offset);
                    }
                leat_source_close(s);
            }
            assert_true(largest <= 64 * n);
        }
    }
    test_allocator.allocate = malloc;
    free(good);
    free(bytes);
}

/* Index records are under checksums, but whoever makes a file can make those. */
TEST_IN_FOLDER(an_index_record_that_points_outside_its_group_is_refused)
{
    struct leat_error error;
    struct leat_source *s;
    struct leat_extent e;
    size_t failed, n;
    uint64_t sample = 2;
    struct leat_store_layout layout;
    struct leat_store_shape shape;
    struct leat_store_group group;
    struct leat_store_footer footer;
    write_few();
    uint8_t *good = made_bytes(path, &n), *bytes = malloc(n);
    assert_ok(leat_store_layout_init(&layout, few, FEW, &error));
    uint64_t at = leat_get_u64(good + 16);
    assert_true(leat_store_group_get(good + at, &group));
    assert_true(leat_store_group_shape(&layout, group.n_rows, group.payload_bytes, group.directory_bytes, &shape));
    leat_store_footer_get(good + n - 64, &footer, NULL);
    static const uint64_t bad[][2] = {
        {0, 10}, {63, 1}, {64, UINT64_MAX}, {UINT64_MAX, 1}, {UINT64_MAX - 4, 8}, {1 << 20, 1}, {64, 1 << 20}};
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
        memcpy(bytes, good, n);
        uint8_t *g = bytes + at, *column = g + shape.columns_at + layout.info[0].before * group.n_rows,
                *directory = g + shape.directory_at;
        leat_put_u64(column + 2 * 40, bad[b][0]);
        leat_put_u64(column + 2 * 40 + 8, bad[b][1]);
        leat_put_u64(directory + 32 + 8 * layout.info[0].position, leat_hash64(column, 40 * group.n_rows));
        group.directory_checksum = leat_hash64(directory, group.directory_bytes);
        leat_store_group_put(g, &group);
        /* the index of groups holds the checksum too */
        for (uint64_t x = footer.directory_at; x < footer.directory_at + footer.directory_bytes;
             x += LEAT_STORE_SECTION_ENTRY) {
            uint64_t from = leat_get_u64(bytes + x + 8), length = leat_get_u64(bytes + x + 16);
            if (leat_get_u32(bytes + x) == LEAT_SECTION_GROUPS)
                leat_put_u64(bytes + from + 40, group.directory_checksum);
            leat_put_u64(bytes + x + 24, leat_hash64(bytes + from, length));
        }
        leat_put_u64(bytes + n - 64 + 32, leat_hash64(bytes + footer.directory_at, footer.directory_bytes));
        leat_put_u64(bytes + n - 8, leat_hash64(bytes + n - 64, 56));
        made_write(path, bytes, n);
        assert_ok(leat_source_open(path, NULL, &s, &error));
        assert_int_equal(s->v->extents(s, 0, &sample, 1, &e, &failed, &error), LEAT_E_CORRUPT);
        assert_int_equal(failed, 0);
        assert_string_equal(error.field, "image");
        leat_source_close(s);
        struct seen seen;
        assert_int_equal(verify(path, &seen), LEAT_E_CORRUPT);
    }
    leat_store_layout_destroy(&layout);
    free(good);
    free(bytes);
}

/* Three groups of 2^31 rows of one byte, in a sparse file. */
TEST_IN_FOLDER(rows_beyond_two_to_the_32_are_reached)
{
    static const struct leat_field field = {.name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8};
    enum { GROUPS = 3, PAGE = 65536 };
    const uint64_t rows = UINT64_C(1) << 31, pages = rows / PAGE, directory_bytes = 32 + 8 * pages;
    struct leat_store_layout layout;
    struct leat_store_shape shape;
    struct leat_error error;
    uint8_t *page = calloc(1, PAGE), *directory = calloc(1, directory_bytes), header[1024], tail[4096] = {0};
    assert_ok(leat_store_layout_init(&layout, &field, 1, &error));
    assert_true(leat_store_group_shape(&layout, rows, 0, directory_bytes, &shape));
    uint64_t header_bytes = leat_store_header_bytes(1), at = header_bytes;
    struct leat_store_identity identity = {0};
    leat_store_header_put(header, &layout, &identity);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    assert_int_equal(pwrite(fd, header, header_bytes, 0), header_bytes);
    for (uint64_t p = 0; p < pages; p++)
        leat_put_u64(directory + 32 + 8 * p, leat_hash64(page, PAGE));
    uint64_t plain = leat_get_u64(directory + 32);
    page[5] = 77; /* row 2^32 + 5 is the only one that is not zero */
    struct leat_store_entry entries[GROUPS];
    for (uint64_t g = 0; g < GROUPS; g++) {
        leat_put_u64(directory + 32, g == 2 ? leat_hash64(page, PAGE) : plain);
        struct leat_store_group group = {g * rows,
                                         g * rows,
                                         (uint32_t)rows,
                                         (uint32_t)rows,
                                         0,
                                         directory_bytes,
                                         leat_hash64(directory, directory_bytes)};
        uint8_t group_header[64];
        leat_store_group_put(group_header, &group);
        assert_int_equal(pwrite(fd, group_header, 64, (off_t)at), 64);
        if (g == 2)
            assert_int_equal(pwrite(fd, page, PAGE, (off_t)(at + shape.columns_at)), PAGE);
        assert_int_equal(pwrite(fd, directory, directory_bytes, (off_t)(at + shape.directory_at)), directory_bytes);
        entries[g] =
            (struct leat_store_entry){at, g * rows, (uint32_t)rows, 0, 0, directory_bytes, group.directory_checksum};
        at += shape.bytes;
    }
    uint8_t parts[4][256] = {{0}};
    struct leat_store_summary summary = {.count = GROUPS * rows, .inputs = GROUPS * rows};
    memcpy(parts[1], "{}", 2);
    memcpy(parts[2], entries, sizeof entries);
    leat_store_summary_put(parts[3], &summary);
    const uint64_t lengths[4] = {4, 2, sizeof entries, LEAT_STORE_SUMMARY};
    uint64_t used = 0;
    uint8_t *list = tail + 2048;
    for (uint32_t i = 0; i < 4; i++) {
        struct leat_store_section s = {
            i + 1, LEAT_SECTION_REQUIRED, 0, 6, at + used, lengths[i], leat_hash64(parts[i], lengths[i])};
        memcpy(tail + used, parts[i], lengths[i]);
        leat_store_section_put(list + i * LEAT_STORE_SECTION_ENTRY, &s);
        used = leat_store_align(used + lengths[i], 64);
    }
    memcpy(tail + used, list, 4 * LEAT_STORE_SECTION_ENTRY);
    memset(list, 0, 2048);
    uint64_t end = leat_store_align(used + 4 * LEAT_STORE_SECTION_ENTRY, 64);
    struct leat_store_footer footer = {.file_bytes = at + end + 64,
                                       .directory_at = at + used,
                                       .directory_bytes = 4 * LEAT_STORE_SECTION_ENTRY,
                                       .directory_checksum = leat_hash64(tail + used, 4 * LEAT_STORE_SECTION_ENTRY),
                                       .header_checksum = leat_store_header_checksum(header, header_bytes),
                                       .version = 1};
    leat_store_footer_put(tail + end, &footer);
    assert_int_equal(pwrite(fd, tail, end + 64, (off_t)at), end + 64);
    close(fd);

    struct leat_source *s;
    assert_ok(leat_source_open(path, NULL, &s, &error));
    assert_int_equal(s->count, GROUPS * rows);
    uint64_t wanted[] = {(UINT64_C(1) << 32) + 5, (UINT64_C(1) << 32) + 4, UINT64_C(1) << 31, GROUPS * rows - 1};
    const void *found[4];
    size_t failed;
    assert_ok(s->v->rows(s, 0, wanted, 4, NULL, found, &failed, &error));
    assert_int_equal(*(const uint8_t *)found[0], 77);
    for (int i = 1; i < 4; i++)
        assert_int_equal(*(const uint8_t *)found[i], 0);
    uint64_t beyond = GROUPS * rows;
    assert_int_equal(s->v->rows(s, 0, &beyond, 1, NULL, found, &failed, &error), LEAT_E_RANGE);
    leat_source_close(s);
    leat_store_layout_destroy(&layout);
    free(page);
    free(directory);
}

static uint64_t spoilt, spoilt_bytes;

/* Gives wrong bytes where it should. */
static ssize_t spoiling_pread(int fd, void *buffer, size_t bytes, off_t offset)
{
    ssize_t n = pread(fd, buffer, bytes, offset);
    for (uint64_t at = spoilt; n > 0 && at < spoilt + spoilt_bytes; at++)
        if (at >= (uint64_t)offset && at < (uint64_t)offset + (uint64_t)n)
            ((uint8_t *)buffer)[at - (uint64_t)offset] ^= 0x55;
    return n;
}

/* A file that is not mapped keeps blocks of what it has read, and verifies a page once. Then its blocks are evicted,
 * and one comes with wrong bytes: what was found wrong is read again, and what led to it. */
TEST_IN_FOLDER(bytes_that_were_wrong_once_are_read_again)
{
    enum { N = 40, LONG = 300000 };
    static uint8_t value[LONG];
    const struct leat_field fields[] = {
        {.name = "text", .kind = LEAT_KIND_BYTES, .dtype = LEAT_U8},
        {.name = "long", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8, .ndim = 1, .shape = {LONG}},
    };
    struct leat_writer_options o = made_options();
    struct leat_writer *w;
    struct leat_error error;
    struct leat_dataset *dataset;
    assert_ok(leat_writer_open(path, fields, 2, &o, &w, &error));
    for (int i = 0; i < N; i++) {
        memset(value, i, LONG);
        assert_ok(leat_writer_add(w, (struct leat_value_ref[]){{value, 100, NULL}, {value, LONG, NULL}}, NULL, &error));
    }
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);

    struct leat_io_backend unmapped = leat_io_local;
    unmapped.map = NULL;
    test_backend = &unmapped;
    test_pread = spoiling_pread;
    assert_ok(leat_dataset_open(path, NULL, &dataset, &error));
    struct leat_sample_ref ref;
    leat_dataset_locate(dataset, &(uint64_t){7}, 1, &ref);
    struct leat_store_source *s = (struct leat_store_source *)ref.source;
    struct leat_store_group group;
    struct leat_store_shape shape;
    leat_store_group_of(s, 0, &group, &shape);
    for (size_t field = 0; field < 2; field++) {
        const struct leat_store_field *info = &s->layout.info[field];
        const uint64_t row = s->columns_at[0] + info->before * group.n_rows + 7 * info->width,
                       directory = s->groups[0].offset + shape.directory_at;
        const uint64_t places[][2] = {{row, info->width < 64 ? info->width : 64}, {directory, group.directory_bytes}};
        unsigned failures = 0;
        for (unsigned p = 0; p < 2; p++)
            for (uint64_t at = places[p][0]; at < places[p][0] + places[p][1]; at++) {
                struct leat_value v;
                for (unsigned turn = 0; turn < 3; turn++) {
                    spoilt = at;
                    spoilt_bytes = turn == 1;
                    if (turn < 2)
                        leat_io_forget(s->pages, 0, s->pages->size);
                    int rc = leat_dataset_read(dataset, 7, field, &v, &error);
                    if (turn == 1 && rc) {
                        assert_int_equal(rc, LEAT_E_CORRUPT);
                        failures++;
                        continue;
                    }
                    assert_ok(rc);
                    assert_int_equal(*(const uint8_t *)v.data, 7);
                    leat_value_clear(&v);
                }
            }
        assert_true(failures > 7);
    }
    leat_dataset_release(dataset);
    test_pread = pread;
    test_backend = &leat_io_local;
}

TEST_MAIN()
