/* Taking JPEGs apart and putting them together: byte for byte, for every kind of file, and never a wrong result. */
#include <ftw.h>

#include "apart.h"

/* Takes apart and compares; false where it is not taken, with `error`. */
static bool comes_back(const char *name, const uint8_t *data, size_t length)
{
    const struct leat_jpeg_coefficients *coefficients;
    const uint8_t *skeleton;
    size_t skeleton_length, out_length;
    uint8_t *out;
    if (leat_jpeg_take_apart(apart, data, length, &coefficients, &skeleton, &skeleton_length, &error))
        return false;
    if (skeleton_length > length + 1)
        fail_msg("%s: the skeleton is larger than the file", name);
    bool equal = !leat_jpeg_together_equals(apart, skeleton, skeleton_length, coefficients, data, length, &error);
    struct leat_error why = error;
    int rc = leat_jpeg_together(skeleton, skeleton_length, coefficients, length, &out, &out_length, &error);
    bool same = !rc && out_length == length && !memcmp(out, data, length);
    if (!rc)
        leat_free(out);
    if (same != equal)
        fail_msg("%s: putting together and comparing disagree", name);
    error = why;
    return same;
}

/* All coefficients are those that libjpeg reads. */
static void check_coefficients(const char *name, const uint8_t *data, size_t length)
{
    const struct leat_jpeg_coefficients *coefficients;
    const uint8_t *skeleton;
    size_t skeleton_length;
    assert_ok(leat_jpeg_take_apart(apart, data, length, &coefficients, &skeleton, &skeleton_length, &error));
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    d.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, data, length);
    jpeg_read_header(&d, TRUE);
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(&d);
    for (unsigned c = 0; c < coefficients->frame.n_components; c++) {
        const struct leat_jpeg_component *p = &coefficients->frame.component[c];
        for (uint32_t y = 0; y < p->blocks_h; y++) {
            JBLOCKARRAY row = d.mem->access_virt_barray((j_common_ptr)&d, arrays[c], y, 1, FALSE);
            if (memcmp(row[0], coefficients->of[c] + (size_t)y * p->blocks_w * 64,
                       (size_t)p->blocks_w * sizeof(JBLOCK)))
                fail_msg("%s: component %u, row %u of blocks", name, c, y);
        }
    }
    jpeg_destroy_decompress(&d);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static const uint32_t sizes[][2] = {{1, 1}, {8, 8}, {33, 9}, {17, 70}, {100, 81}};

TEST(every_kind_of_file_comes_back_byte_for_byte)
{
    for (unsigned k = 0; k < KINDS; k++)
        for (unsigned way = 0; way < WAYS; way++)
            for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++)
                for (unsigned restart = 0; restart < 6; restart += 5) {
                    char name[200];
                    snprintf(name, sizeof name, "%s, %s, %u x %u, restart %u", kinds[k].name, ways[way], sizes[s][0],
                             sizes[s][1], restart);
                    struct photo p = make_photo(&kinds[k], way, sizes[s][0], sizes[s][1], s & 1 ? 95 : 60, restart);
                    if (!comes_back(name, p.data, p.length))
                        fail_msg("%s: %s", name, error.message);
                    check_coefficients(name, p.data, p.length);
                    free(p.data);
                }
}

TEST(every_quality_comes_back)
{
    for (int quality = 1; quality <= 100; quality += 3)
        for (unsigned way = BASELINE; way <= PROGRESSIVE; way++) {
            struct photo p = make_photo(&kinds[4], way, 90, 75, quality, 0);
            if (!comes_back(ways[way], p.data, p.length))
                fail_msg("quality %d, %s: %s", quality, ways[way], error.message);
            free(p.data);
        }
}

TEST(coefficients_of_every_size_and_run_come_back)
{
    static const uint32_t densities[] = {1, 2, 5, 20, 50, 400};
    for (unsigned way = 0; way < WAYS; way++)
        for (unsigned d = 0; d < 6; d++) {
            struct photo p = make_wild(way, way * 100 + d, densities[d]);
            if (!comes_back(ways[way], p.data, p.length))
                fail_msg("%s, one of %u: %s", ways[way], densities[d], error.message);
            check_coefficients(ways[way], p.data, p.length);
            free(p.data);
        }
}

/* A photo of one sequential Huffman-coded scan: rows of MCUs, read one after the other, are those that are read at
 * once. True: it was. */
static bool comes_by_rows(const char *name, const uint8_t *data, size_t length)
{
    const struct leat_jpeg_coefficients *all, *rows;
    const uint8_t *skeleton, *other_skeleton;
    size_t n, other_n;
    struct leat_jpeg_apart *other = leat_jpeg_apart_new();
    assert_non_null(other);
    assert_ok(leat_jpeg_take_apart(apart, data, length, &all, &skeleton, &n, &error));
    assert_ok(leat_jpeg_take_apart_by_rows(other, data, length, &rows, &other_skeleton, &other_n, &error));
    assert_int_equal(n, other_n);
    assert_memory_equal(skeleton, other_skeleton, n);
    assert_null(all->source);
    const bool by_rows = rows->source;
    for (uint32_t y = 0; y < all->frame.mcus_h; y++) {
        int16_t *of_all[LEAT_JPEG_MAX_COMPONENTS], *of_row[LEAT_JPEG_MAX_COMPONENTS];
        assert_ok(leat_jpeg_coefficients_row(all, y, of_all, &error));
        assert_ok(leat_jpeg_coefficients_row(rows, y, of_row, &error));
        for (unsigned c = 0; c < all->frame.n_components; c++) {
            const struct leat_jpeg_component *p = &all->frame.component[c];
            if (memcmp(of_all[c], of_row[c], (size_t)p->blocks_w * p->v * 64 * sizeof(int16_t)))
                fail_msg("%s: component %u, row %u of MCUs", name, c, y);
        }
    }
    /* and the file can be compared while they are read */
    assert_ok(leat_jpeg_take_apart_by_rows(other, data, length, &rows, &skeleton, &n, &error));
    assert_ok(leat_jpeg_together_equals(other, skeleton, n, rows, data, length, &error));
    leat_jpeg_apart_free(other);
    return by_rows;
}

TEST(rows_of_a_sequential_photo_can_be_had_one_by_one)
{
    for (unsigned k = 0; k < KINDS; k++)
        for (unsigned way = 0; way < WAYS; way++)
            for (unsigned restart = 0; restart < 6; restart += 5) {
                struct photo p = make_photo(&kinds[k], way, 100, 81, 80, restart);
                const bool by_rows = comes_by_rows(ways[way], p.data, p.length);
                const bool gray = kinds[k].stored == JCS_GRAYSCALE; /* has one scan in any case */
                if (by_rows != (way <= OPTIMISED || (gray && (way == SEPARATE || way == MIXED))))
                    fail_msg("%s, %s: read %s", kinds[k].name, ways[way], by_rows ? "by rows" : "as a whole");
                free(p.data);
            }
}

TEST(a_row_that_cannot_be_read_ends_the_comparison)
{
    struct photo p = make_photo(&kinds[4], BASELINE, 100, 81, 80, 0);
    const struct leat_jpeg_coefficients *rows;
    const uint8_t *skeleton;
    size_t n;
    for (size_t i = p.length - 40; i < p.length - 4; i++)
        p.data[i] = (p.length - i) & 1 ? 0 : 0xff; /* ones, with the zeros of stuffing: no code is all ones */
    assert_ok(leat_jpeg_take_apart_by_rows(apart, p.data, p.length, &rows, &skeleton, &n, &error));
    assert_int_equal(leat_jpeg_together_equals(apart, skeleton, n, rows, p.data, p.length, &error), LEAT_E_UNSUPPORTED);
    assert_int_equal(leat_jpeg_take_apart(apart, p.data, p.length, &rows, &skeleton, &n, &error), LEAT_E_DECODE);
    free(p.data);
}

TEST(what_stands_behind_the_end_comes_back)
{
    static const uint8_t tail[] = {0xff, 0xd8, 0xff, 0xda, 0, 0xff, 0xff, 0xd9, 7};
    for (unsigned way = 0; way < WAYS; way++) {
        struct photo p = make_photo(&kinds[4], way, 40, 40, 75, 0);
        uint8_t *longer = malloc(p.length + sizeof tail);
        memcpy(longer, p.data, p.length);
        memcpy(longer + p.length, tail, sizeof tail);
        assert_true(comes_back(ways[way], longer, p.length + sizeof tail));
        free(longer);
        free(p.data);
    }
}

TEST(fill_bytes_before_markers_come_back)
{
    for (unsigned way = 0; way < WAYS; way++) {
        struct photo p = make_photo(&kinds[4], way, 40, 40, 75, 0);
        uint8_t *filled = malloc(2 * p.length);
        size_t n = 0;
        for (size_t i = 0; i < p.length; i++) { /* before the second marker, and before the end */
            if (i == 2 || i + 2 == p.length)
                for (unsigned k = 0; k < 3; k++)
                    filled[n++] = 0xff;
            filled[n++] = p.data[i];
        }
        if (!comes_back(ways[way], filled, n))
            fail_msg("%s: %s", ways[way], error.message);
        free(filled);
        free(p.data);
    }
}

TEST(last_bytes_filled_up_with_zeros_come_back)
{
    for (unsigned restart = 0; restart < 4; restart += 3) {
        struct photo p = make_photo(&kinds[4], BASELINE, 60, 40, 75, restart);
        const struct leat_jpeg_coefficients *coefficients;
        const uint8_t *skeleton;
        size_t skeleton_length, length;
        uint8_t *zeros;
        assert_ok(leat_jpeg_take_apart(apart, p.data, p.length, &coefficients, &skeleton, &skeleton_length, &error));
        uint8_t *other = malloc(skeleton_length);
        memcpy(other, skeleton, skeleton_length);
        other[0] ^= 1; /* fill with zeros: a file that another encoder might have made */
        assert_ok(leat_jpeg_together(other, skeleton_length, coefficients, p.length, &zeros, &length, &error));
        assert_memory_not_equal(zeros, p.data, p.length);
        assert_true(comes_back("zeros", zeros, length));
        free(other);
        leat_free(zeros);
        free(p.data);
    }
}

/* A segment of DHT cut out: what frames of motion JPEG look like. */
TEST(a_file_without_huffman_tables_comes_back)
{
    struct photo p = make_photo(&kinds[3], BASELINE, 60, 40, 75, 0);
    size_t n = 2;
    for (size_t i = 2; i < p.length;) {
        size_t segment = (size_t)(p.data[i + 2] << 8 | p.data[i + 3]) + 2;
        bool scan = p.data[i + 1] == 0xda;
        if (scan)
            segment = p.length - i;
        if (p.data[i + 1] != 0xc4) {
            memmove(p.data + n, p.data + i, segment);
            n += segment;
        }
        i += segment;
    }
    assert_true(n < p.length);
    if (!comes_back("without tables", p.data, n))
        fail_msg("%s", error.message);
    free(p.data);
}

TEST(a_truncated_photo_is_never_taken_for_whole)
{
    for (unsigned way = 0; way < WAYS; way++) {
        struct photo p = make_photo(&kinds[4], way, 40, 33, 60, way & 1 ? 2 : 0);
        for (size_t n = 0; n < p.length; n++) {
            const struct leat_jpeg_coefficients *coefficients;
            const uint8_t *skeleton;
            size_t skeleton_length;
            uint8_t *cut = malloc(n + 1); /* of its own, so that a sanitizer sees the end */
            memcpy(cut, p.data, n);
            assert_int_equal(leat_jpeg_take_apart(apart, cut, n, &coefficients, &skeleton, &skeleton_length, &error),
                             LEAT_E_DECODE);
            free(cut);
        }
        free(p.data);
    }
}

TEST(a_photo_with_other_bits_than_encoders_write_is_told_apart)
{
    /* a scan's last byte is filled with 1 0 1 ...: libjpeg reads that without a word */
    struct photo p = make_photo(&kinds[0], BASELINE, 40, 33, 60, 0);
    unsigned taken = 0, refused = 0;
    for (unsigned bits = 0; bits < 128; bits++) {
        uint8_t *other = malloc(p.length);
        memcpy(other, p.data, p.length);
        other[p.length - 3] = (uint8_t)((other[p.length - 3] & 0x80) | bits);
        if (comes_back("other bits", other, p.length))
            taken++;
        else
            refused++;
        free(other);
    }
    assert_true(taken >= 1);
    assert_true(refused >= 1);
    free(p.data);
}

TEST(a_hostile_skeleton_makes_no_harm)
{
    for (unsigned way = 0; way < WAYS; way++) {
        struct photo p = make_photo(&kinds[4], way, 24, 20, 60, way & 1 ? 2 : 0);
        const struct leat_jpeg_coefficients *coefficients;
        const uint8_t *skeleton;
        size_t n, length;
        uint8_t *out;
        assert_ok(leat_jpeg_take_apart(apart, p.data, p.length, &coefficients, &skeleton, &n, &error));
        for (size_t bit = 0; bit < 8 * n; bit += test_every(7)) { /* at least one of each byte */
            uint8_t *other = malloc(n);
            memcpy(other, skeleton, n);
            other[bit / 8] ^= (uint8_t)(1u << (bit & 7));
            int rc = leat_jpeg_together(other, n, coefficients, p.length, &out, &length, &error);
            assert_true(rc == LEAT_OK || rc == LEAT_E_CORRUPT);
            if (!rc) {
                assert_int_equal(length, p.length);
                leat_free(out);
            }
            free(other);
        }
        for (size_t cut = way % test_every(4); cut < n; cut += test_every(4)) {
            uint8_t *other = malloc(cut + 1);
            memcpy(other, skeleton, cut);
            assert_int_equal(leat_jpeg_together(other, cut, coefficients, p.length, &out, &length, &error),
                             LEAT_E_CORRUPT);
            free(other);
        }
        free(p.data);
    }
}

TEST(a_skeleton_of_another_frame_is_refused)
{
    struct photo p = make_photo(&kinds[4], BASELINE, 24, 20, 60, 0), q = make_photo(&kinds[4], BASELINE, 72, 20, 60, 0);
    const struct leat_jpeg_coefficients *coefficients;
    const uint8_t *skeleton;
    size_t n, length;
    uint8_t *out;
    assert_ok(leat_jpeg_take_apart(apart, q.data, q.length, &coefficients, &skeleton, &n, &error));
    uint8_t *kept = malloc(n);
    memcpy(kept, skeleton, n);
    size_t kept_length = n;
    assert_ok(leat_jpeg_take_apart(apart, p.data, p.length, &coefficients, &skeleton, &n, &error));
    assert_int_equal(leat_jpeg_together(kept, kept_length, coefficients, q.length, &out, &length, &error),
                     LEAT_E_CORRUPT);
    free(kept);
    free(p.data);
    free(q.data);
}

TEST(coefficients_without_a_code_are_refused)
{
    struct photo p = make_photo(&kinds[0], BASELINE, 24, 20, 60, 0);
    const struct leat_jpeg_coefficients *coefficients;
    const uint8_t *skeleton;
    size_t n, length;
    uint8_t *out;
    static const int16_t values[] = {2000, -2000, 32767, -32768};
    for (unsigned v = 0; v < 4; v++)
        for (unsigned k = 0; k < 64; k += 21) {
            assert_ok(leat_jpeg_take_apart(apart, p.data, p.length, &coefficients, &skeleton, &n, &error));
            if (k == 0 && v < 2)
                continue; /* a difference of DC that has a code */
            coefficients->of[0][k] = values[v];
            assert_int_equal(leat_jpeg_together(skeleton, n, coefficients, 2 * p.length, &out, &length, &error),
                             LEAT_E_CORRUPT);
        }
    free(p.data);
}

TEST(an_original_of_any_claimed_length_is_refused_or_exact)
{
    struct photo p = make_photo(&kinds[4], PROGRESSIVE, 24, 20, 60, 0);
    const struct leat_jpeg_coefficients *coefficients;
    const uint8_t *skeleton;
    size_t n, length;
    uint8_t *out;
    assert_ok(leat_jpeg_take_apart(apart, p.data, p.length, &coefficients, &skeleton, &n, &error));
    const uint64_t claims[] = {0, 1, p.length - 1, p.length + 1, UINT64_C(1) << 40, UINT64_MAX};
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(leat_jpeg_together(skeleton, n, coefficients, claims[i], &out, &length, &error),
                         LEAT_E_CORRUPT);
    free(p.data);
}

TEST(twelve_bits_and_lossless_are_unsupported)
{
    const char *data = test_data();
    static const char *const names[] = {"libjpeg-turbo/monkey12.jpg", "jpeg-rs-reftest/lossless/2/MR4.jpg"};
    for (unsigned i = 0; i < 2; i++) {
        char folder[4096];
        snprintf(folder, sizeof folder, "%s/odd-images", data);
        size_t length;
        uint8_t *p = photo_file(folder, names[i], &length);
        assert_false(comes_back(names[i], p, length));
        assert_int_equal(error.code, LEAT_E_UNSUPPORTED);
        free(p);
    }
}

/* Everything once; LEAT_OK or the first failure. */
static int take_and_put(const struct photo *p)
{
    const struct leat_jpeg_coefficients *coefficients;
    const uint8_t *skeleton;
    size_t n, length;
    uint8_t *out = NULL;
    struct leat_jpeg_apart *other = leat_jpeg_apart_new();
    if (!other)
        return LEAT_E_NOMEM;
    int rc = leat_jpeg_take_apart(other, p->data, p->length, &coefficients, &skeleton, &n, &error);
    if (!rc)
        rc = leat_jpeg_together_equals(other, skeleton, n, coefficients, p->data, p->length, &error);
    if (!rc)
        rc = leat_jpeg_together(skeleton, n, coefficients, p->length, &out, &length, &error);
    if (!rc)
        assert_memory_equal(out, p->data, p->length);
    leat_free(out);
    leat_jpeg_apart_free(other);
    return rc;
}

TEST(every_allocation_that_fails_is_reported)
{
    for (unsigned way = 0; way < WAYS; way++) {
        struct photo p = make_photo(&kinds[4], way, 60, 40, 75, 0);
        int rc = LEAT_E_NOMEM;
        int64_t n = 0;
        for (; rc == LEAT_E_NOMEM && n < 1000; n++) {
            fail_allocation(n);
            rc = take_and_put(&p);
            allocation_failed();
        }
        assert_int_equal(rc, LEAT_OK);
        assert_true(n > 4);
        free(p.data);
    }
}

TEST(a_second_photo_of_a_size_needs_no_memory)
{
    for (unsigned way = BASELINE; way <= OPTIMISED; way++) {
        struct photo p = make_photo(&kinds[4], way, 300, 200, 75, 0);
        uint64_t before = 0;
        for (unsigned i = 0; i < 2; i++) {
            const struct leat_jpeg_coefficients *coefficients;
            const uint8_t *skeleton;
            size_t n;
            before = library_allocations();
            assert_ok(leat_jpeg_take_apart(apart, p.data, p.length, &coefficients, &skeleton, &n, &error));
            assert_ok(leat_jpeg_together_equals(apart, skeleton, n, coefficients, p.data, p.length, &error));
        }
        assert_int_equal(library_allocations(), before);
        free(p.data);
    }
}

/* ---- real photos ----------------------------------------------------------------------------- */

static unsigned photos_seen, photos_back, photos_broken;

static unsigned one_of; /* so many files is taken */

static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    size_t length;
    if (type != FTW_F || !test_takes(path, one_of))
        return 0;
    uint8_t *p = photo_file("", path, &length);
    if (length >= 2 && p[0] == 0xff && p[1] == 0xd8) {
        photos_seen++;
        if (comes_back(path, p, length)) {
            photos_back++;
            check_coefficients(path, p, length);
        } else if (error.code == LEAT_E_DECODE) {
            photos_broken++;
        } else {
            assert_int_equal(error.code, LEAT_E_UNSUPPORTED);
            printf("# not taken: %s: %s\n", path, error.message);
        }
    }
    free(p);
    return 0;
}

static void walk_photos(const char *data, const char *folder, unsigned n)
{
    char path[4096];
    one_of = n;
    photos_seen = photos_back = photos_broken = 0;
    snprintf(path, sizeof path, "%s/%s", data, folder);
    assert_int_equal(nftw(path, visit, 16, FTW_PHYS), 0);
    printf("# %s: %u JPEGs, %u come back, %u are broken\n", folder, photos_seen, photos_back, photos_broken);
}

TEST(photos_of_imagenet_come_back)
{
    walk_photos(test_data(), "imagenet", 10);
    assert_true(photos_seen > 30);
    assert_int_equal(photos_back, photos_seen);
}

TEST(odd_photos_come_back_or_say_why_not)
{
    walk_photos(test_data(), "odd-images", 1);
    assert_true(photos_back >= 90);
}

TEST_MAIN_IN(make_apart, free_apart)
