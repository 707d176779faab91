/* The bounds of taking JPEGs apart and putting them together: of scans, blocks, runs and sizes. */
#include "apart.h"

static int take_apart(const uint8_t *data, size_t length)
{
    const struct leat_jpeg_coefficients *coefficients;
    const uint8_t *skeleton;
    size_t n;
    const int rc = leat_jpeg_take_apart(apart, data, length, &coefficients, &skeleton, &n, &error);
    return rc ? rc : leat_jpeg_together_equals(apart, skeleton, n, coefficients, data, length, &error);
}

/* A skeleton of a sequential file whose scans have all components, with `extra` behind the frame; returns its
 * length. */
static size_t put_skeleton(uint8_t *p, const struct leat_jpeg_frame *f, const uint8_t *extra, size_t n_extra,
                           unsigned scans)
{
    const uint8_t *const begin = p;
    const uint8_t
        n = f->n_components,
        head[] = {0, 0xff, 0xd8, 0xff, 0xc0, 0, (uint8_t)(8 + 3 * n), 8, 0, (uint8_t)f->height, 0, (uint8_t)f->width,
                  n};
    memcpy(p, head, sizeof head);
    p += sizeof head;
    for (uint8_t c = 0; c < n; c++, p += 3) {
        p[0] = c;
        p[1] = (uint8_t)(f->component[c].h << 4 | f->component[c].v);
        p[2] = 0;
    }
    memcpy(p, extra, n_extra);
    p += n_extra;
    for (; scans; scans--) {
        const uint8_t scan[] = {0xff, 0xda, 0, (uint8_t)(6 + 2 * n), n};
        memcpy(p, scan, sizeof scan);
        p += sizeof scan;
        for (uint8_t c = 0; c < n; c++, p += 2) {
            p[0] = c;
            p[1] = 0;
        }
        memcpy(p, "\0\x3f", 3);
        p += 3;
    }
    memcpy(p, "\xff\xd9", 2);
    return (size_t)(p + 2 - begin);
}

TEST(skeletons_that_no_file_has_are_refused)
{
    static uint8_t skeleton[8192];
    static const uint8_t frame_again[] = {0xff, 0xc0, 0, 11, 8, 0, 8, 0, 8, 1, 0, 0x11, 0};
    static const uint8_t good[] = {0xff, 0xcc, 0, 4, 0, 0x11},
                         bad[] = {0xff, 0xcc, 0, 4, 0, 0x12}; /* conditioning: L above U */
    struct leat_jpeg_coefficients gray = {0}, large = {0};
    struct leat_jpeg_frame frame = {.width = 8, .height = 8, .n_components = 1, .component = {{.h = 1, .v = 1}}};
    size_t length, n = 0;
    uint8_t *out = NULL;
    assert_true(leat_jpeg_frame_complete(&frame));
    assert_ok(leat_jpeg_coefficients_reserve(&gray, &frame, NULL));
    memset(gray.of[0], 0, 128);
    n = put_skeleton(skeleton, &frame, good, sizeof good, 500);
    assert_ok(leat_jpeg_together(skeleton, n, &gray, n - 1 + 500, &out, &length, &error)); /* a byte a scan */
    leat_free(out);
    n = put_skeleton(skeleton, &frame, good, sizeof good, 501);
    assert_int_equal(leat_jpeg_together(skeleton, n, &gray, n - 1 + 501, &out, &length, &error), LEAT_E_CORRUPT);
    n = put_skeleton(skeleton, &frame, bad, sizeof bad, 1);
    assert_int_equal(leat_jpeg_together(skeleton, n, &gray, n, &out, &length, &error), LEAT_E_CORRUPT);
    n = put_skeleton(skeleton, &frame, frame_again, sizeof frame_again, 1);
    assert_int_equal(leat_jpeg_together(skeleton, n, &gray, n, &out, &length, &error), LEAT_E_CORRUPT);
    /* an MCU of 64 blocks; a file's has ten at most */
    frame = (struct leat_jpeg_frame){.width = 32, .height = 32, .n_components = 4, .colour = LEAT_JPEG_CMYK};
    for (unsigned c = 0; c < 4; c++)
        frame.component[c].h = frame.component[c].v = 4;
    assert_true(leat_jpeg_frame_complete(&frame));
    assert_ok(leat_jpeg_coefficients_reserve(&large, &frame, NULL));
    for (unsigned c = 0; c < 4; c++)
        memset(large.of[c], 0, 16 * 128);
    n = put_skeleton(skeleton, &frame, good, sizeof good, 1);
    assert_int_equal(leat_jpeg_together(skeleton, n, &large, n - 1 + 64 * 6 / 8, &out, &length, &error),
                     LEAT_E_CORRUPT);
    leat_jpeg_coefficients_destroy(&gray);
    leat_jpeg_coefficients_destroy(&large);
}

/* Where libjpeg smooths what was not sent yet, pixels do not follow from the coefficients. */
TEST(a_progressive_photo_without_its_last_scans_is_unsupported)
{
    struct photo p = make_photo(&kinds[2], APPROXIMATED, 40, 30, 80, 0);
    size_t last = p.length - 2;
    assert_ok(take_apart(p.data, p.length));
    while (p.data[last] != 0xff || p.data[last + 1] != 0xda)
        last--;
    memcpy(p.data + last, "\xff\xd9", 2);
    assert_int_equal(take_apart(p.data, last + 2), LEAT_E_UNSUPPORTED);
    free(p.data);
}

/* A progressive gray photo of across x down blocks, in the first of which so many coefficients behind the DC are 8, and
 * none elsewhere. */
static struct photo progressive_of(JDIMENSION across, JDIMENSION down, const uint8_t *eights, JDIMENSION n)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *out = NULL;
    unsigned long length = 0;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &length);
    c.image_width = 8 * across;
    c.image_height = 8 * down;
    c.in_color_space = JCS_GRAYSCALE;
    c.input_components = 1;
    jpeg_set_defaults(&c);
    jpeg_simple_progression(&c);
    jvirt_barray_ptr array = c.mem->request_virt_barray((j_common_ptr)&c, JPOOL_IMAGE, TRUE, across, down, 1);
    leat_jpeg_write_coefficients(&c, &array);
    JBLOCKARRAY first = c.mem->access_virt_barray((j_common_ptr)&c, array, 0, 1, TRUE);
    for (JDIMENSION x = 0; x < n; x++)
        for (unsigned k = 1; k <= eights[x]; k++)
            first[0][x][leat_jpeg_natural[k]] = 8;
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return (struct photo){out, length};
}

TEST(a_photo_of_nothing_but_runs_of_ended_blocks_comes_back)
{
    struct photo p = progressive_of(256, 130, NULL, 0); /* 33280 blocks: a run is of 32767 at most */
    assert_ok(take_apart(p.data, p.length));
    free(p.data);
}

/* A run of ended blocks is coded before the bits that wait in it, which correct coefficients, could be more than 1000:
 * when there are more than 937. */
TEST(runs_end_when_as_many_corrections_wait_as_libjpeg_lets_wait)
{
    uint8_t eights[16];
    memset(eights, 63, sizeof eights);
    for (uint8_t last = 54; last <= 56; last++) { /* 936 to 938 corrections in 15 blocks */
        eights[14] = last;
        struct photo p = progressive_of(16, 1, eights, 16);
        assert_ok(take_apart(p.data, p.length));
        free(p.data);
    }
}

/* Conditioning other than the standard's, which the file then defines. */
TEST(arithmetic_conditioning_is_kept)
{
    for (int progressive = 0; progressive < 2; progressive++) {
        struct jpeg_compress_struct c;
        struct jpeg_error_mgr errors;
        unsigned char *out = NULL;
        unsigned long n = 0;
        uint8_t *pixels = photo_pixels(64, 48, 1, 11);
        c.err = jpeg_std_error(&errors);
        jpeg_create_compress(&c);
        jpeg_mem_dest(&c, &out, &n);
        c.image_width = 64;
        c.image_height = 48;
        c.in_color_space = JCS_GRAYSCALE;
        c.input_components = 1;
        jpeg_set_defaults(&c);
        c.arith_code = TRUE;
        c.arith_dc_L[0] = 1;
        c.arith_dc_U[0] = 4;
        c.arith_ac_K[0] = 20;
        if (progressive)
            jpeg_simple_progression(&c);
        jpeg_start_compress(&c, TRUE);
        for (unsigned y = 0; y < 48; y++) {
            JSAMPROW row = pixels + 64 * y;
            jpeg_write_scanlines(&c, &row, 1);
        }
        jpeg_finish_compress(&c);
        jpeg_destroy_compress(&c);
        assert_ok(take_apart(out, n));
        free(pixels);
        free(out);
    }
}

TEST(a_size_that_the_file_cannot_hold_costs_no_memory)
{
    struct photo p = make_photo(&kinds[0], BASELINE, 24, 20, 60, 0);
    size_t at = 0;
    while (p.data[at] != 0xff || p.data[at + 1] != 0xc0)
        at++;
    memcpy(p.data + at + 5, "\x3f\xff\x3f\xff", 4);
    const uint64_t before = library_allocations();
    assert_int_equal(take_apart(p.data, p.length), LEAT_E_DECODE);
    assert_int_equal(library_allocations(), before);
    free(p.data);
}

TEST(scans_beyond_what_encoders_write_are_damage)
{
    struct photo p = make_photo(&kinds[2], SEPARATE, 16, 16, 60, 0);
    size_t last = p.length - 2;
    while (p.data[last] != 0xff || p.data[last + 1] != 0xda)
        last--;
    const size_t scan = p.length - 2 - last;
    uint8_t *many = malloc(p.length + 499 * scan), *end = many + p.length - 2;
    assert_non_null(many);
    memcpy(many, p.data, p.length);
    for (unsigned scans = 3; scans <= 501; scans++, end += scan) {
        memcpy(end, "\xff\xd9", 2);
        if (scans == 500)
            assert_ok(take_apart(many, (size_t)(end + 2 - many)));
        if (scans == 501)
            assert_int_equal(take_apart(many, (size_t)(end + 2 - many)), LEAT_E_DECODE);
        memcpy(end, p.data + last, scan);
    }
    free(many);
    free(p.data);
}

TEST_MAIN_IN(make_apart, free_apart)
