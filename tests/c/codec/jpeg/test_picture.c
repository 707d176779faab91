/* Rows of a box from blocks: byte for byte those of libjpeg-turbo's full decode, on each instruction set of the
 * machine. */
#include "../../allocations.h"
#include "blocks.h"

#include <dirent.h>

#include "base/alloc.h"
#include "codec/jpeg/picture.h"

static struct leat_jpeg_picture
    *pictures[3]; /* one per instruction set, kept from photo to photo as a decoder keeps it */
static unsigned n_pictures;

static int make_pictures(void **state)
{
    for (int isa = LEAT_ISA_PORTABLE; isa <= (int)leat_cpu_isa(); isa++) {
        pictures[n_pictures] = leat_jpeg_picture_new((enum leat_isa)isa);
        if (!pictures[n_pictures++])
            return 1;
    }
    return 0;
}

static int free_pictures(void **state)
{
    while (n_pictures)
        leat_jpeg_picture_free(pictures[--n_pictures]);
    return 0;
}

struct box {
    uint32_t x, y, w, h;
};

/* What decode.h says of CMYK: R = (255 - C) (255 - K) / 255, rounded as Pillow does; libjpeg gives 255 - C and 255 -
 * K. */
static void print_colours(struct photo_full *full)
{
    for (size_t i = 0; i < (size_t)full->width * full->height; i++) {
        uint8_t *p = full->pixels + 4 * i;
        const int k = p[3];
        for (unsigned c = 0; c < 3; c++) {
            const int t = (255 - p[c]) * k + 128, v = k - ((t + t / 256) / 256);
            p[c] = (uint8_t)(v < 0 ? 0 : v);
        }
        p[3] = 255;
    }
}

static struct photo_full reference(const struct held *held, const uint8_t *data, size_t length, bool gray,
                                   unsigned denominator)
{
    struct photo_full full = photo_reference(data, length, gray, denominator);
    if (held->frame.n_components == 4)
        print_colours(&full);
    return full;
}

static void check_box(const char *name, struct held *held, const struct photo_full *full, unsigned denominator,
                      struct box box)
{
    const size_t bytes = full->pixel_bytes;
    for (unsigned isa = 0; isa < n_pictures; isa++) {
        struct leat_error error;
        const uint8_t *row;
        held_rewind(held);
        assert_ok(leat_jpeg_picture_begin(pictures[isa], &held->frame, &held->source, denominator, bytes == 1, box.x,
                                          box.y, box.w, box.h, &error));
        for (uint32_t y = 0; y < box.h; y++) {
            assert_ok(leat_jpeg_picture_row(pictures[isa], &row, &error));
            const uint8_t *expected = full->pixels + ((size_t)(box.y + y) * full->width + box.x) * bytes;
            if (!memcmp(row, expected, box.w * bytes))
                continue;
            size_t i = 0;
            while (row[i] == expected[i])
                i++;
            fail_msg("%s, %u x %u at 1/%u, isa %u, box %u x %u at %u, %u: row %u, pixel %zu, channel %zu: %u, not %u",
                     name, held->frame.width, held->frame.height, denominator, isa, box.w, box.h, box.x, box.y, y,
                     i / bytes, i % bytes, row[i], expected[i]);
        }
    }
}

/* Boxes of some sizes at every offset modulo 16, in both directions, and the whole. */
static void check_boxes(const char *name, struct held *held, const struct photo_full *full, unsigned denominator,
                        uint64_t key)
{
    const uint32_t sizes[] = {1, 2, 7, 16, 19, 70};
    const uint32_t w = full->width, h = full->height;
    check_box(name, held, full, denominator, (struct box){0, 0, w, h});
    for (uint32_t o = 0; o < 16; o++)
        for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            const uint64_t i = (o * 8 + s) * 4;
            if (o < w) {
                const uint32_t y = (uint32_t)leat_draw_below(key, i, h),
                               n = 1 + (uint32_t)leat_draw_below(key, i + 1, h - y);
                check_box(name, held, full, denominator, (struct box){o, y, sizes[s] < w - o ? sizes[s] : w - o, n});
            }
            if (o < h) {
                const uint32_t x = (uint32_t)leat_draw_below(key, i + 2, w),
                               n = 1 + (uint32_t)leat_draw_below(key, i + 3, w - x);
                check_box(name, held, full, denominator, (struct box){x, o, n, sizes[s] < h - o ? sizes[s] : h - o});
            }
        }
}

/* Boxes drawn by chance, and the whole. */
static void check_some(const char *name, struct held *held, const struct photo_full *full, unsigned denominator,
                       unsigned n, uint64_t key)
{
    check_box(name, held, full, denominator, (struct box){0, 0, full->width, full->height});
    for (unsigned i = 0; i < n; i++) {
        struct box box;
        box.x = (uint32_t)leat_draw_below(key, 4 * i, full->width);
        box.y = (uint32_t)leat_draw_below(key, 4 * i + 1, full->height);
        box.w = 1 + (uint32_t)leat_draw_below(key, 4 * i + 2, full->width - box.x);
        box.h = 1 + (uint32_t)leat_draw_below(key, 4 * i + 3, full->height - box.y);
        check_box(name, held, full, denominator, box);
    }
}

/* Makes a photo and checks it at each scale: in many boxes, or in a few. */
static void check_made(const struct photo_style *style, uint32_t w, uint32_t h, int quality, bool many, uint64_t key)
{
    const unsigned channels = style->in == JCS_GRAYSCALE ? 1 : style->in == JCS_CMYK ? 4 : 3;
    uint8_t *pixels = photo_pixels(w, h, channels, key);
    size_t length;
    uint8_t *data = photo_encode(style, pixels, w, h, quality, &length);
    struct held held;
    assert_true(held_load(&held, data, length));
    for (unsigned denominator = 1; denominator <= 8; denominator *= 2)
        for (int gray = 0; gray <= (channels == 1); gray++) {
            struct photo_full full = reference(&held, data, length, gray, denominator);
            if (many)
                check_boxes(style->name, &held, &full, denominator, key + denominator);
            else
                check_some(style->name, &held, &full, denominator, 3, key + denominator);
            free(full.pixels);
        }
    held_free(&held);
    free(data);
    free(pixels);
}

static const struct photo_style styles[] = {
    {.name = "gray", .in = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .h = {1}, .v = {1}},
    {.name = "gray with factors", .in = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .h = {2}, .v = {3}},
    {.name = "4:4:4", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {1, 1, 1}, .v = {1, 1, 1}},
    {.name = "4:2:2", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {2, 1, 1}, .v = {1, 1, 1}},
    {.name = "4:2:0", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {2, 1, 1}, .v = {2, 1, 1}},
    {.name = "4:4:0", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {1, 1, 1}, .v = {2, 1, 1}},
    {.name = "4:1:1", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {4, 1, 1}, .v = {1, 1, 1}},
    {.name = "3:1", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {3, 1, 1}, .v = {1, 1, 1}},
    {.name = "RGB", .in = JCS_RGB, .stored = JCS_RGB, .h = {1, 1, 1}, .v = {1, 1, 1}},
    {.name = "RGB, 4:2:0", .in = JCS_RGB, .stored = JCS_RGB, .h = {2, 1, 1}, .v = {2, 1, 1}},
    {.name = "CMYK", .in = JCS_CMYK, .stored = JCS_CMYK, .h = {1, 1, 1, 1}, .v = {1, 1, 1, 1}},
    {.name = "CMYK, 4:2:2", .in = JCS_CMYK, .stored = JCS_CMYK, .h = {2, 1, 1, 2}, .v = {1, 1, 1, 1}},
    {.name = "YCCK", .in = JCS_CMYK, .stored = JCS_YCCK, .h = {1, 1, 1, 1}, .v = {1, 1, 1, 1}},
    {.name = "YCCK, 4:2:0", .in = JCS_CMYK, .stored = JCS_YCCK, .h = {2, 1, 1, 2}, .v = {2, 1, 1, 2}},
    {.name = "YCCK, half black",
     .in = JCS_CMYK,
     .stored = JCS_YCCK,
     .h = {2, 2, 2, 1},
     .v = {2, 2, 2, 1},
     .separate_scans = true},
};
#define N_STYLES (sizeof styles / sizeof *styles)

TEST(boxes_at_every_offset_equal_the_full_decode)
{
    static const uint32_t sizes[][2] = {{70, 67}, {33, 49}, {130, 21}};
    for (unsigned s = 0; s < N_STYLES; s++)
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check_made(&styles[s], sizes[i][0], sizes[i][1], i ? 92 : 75, true, s * 64 + i);
}

TEST(photos_of_odd_sizes_equal_the_full_decode)
{
    static const uint32_t sides[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 18, 31, 32, 33, 34, 47, 63, 66};
    const unsigned n = sizeof sides / sizeof *sides;
    for (unsigned s = 0; s < N_STYLES; s++)
        for (unsigned i = 0; i < n; i++)
            for (unsigned j = (s + i) % test_every(4); j < n; j += test_every(4))
                check_made(&styles[s], sides[i], sides[j], 85, false, (s * n + i) * n + j);
}

/* All triples of factors of which the largest is a multiple of each other, across times down. */
TEST(every_sampling_equals_the_full_decode)
{
    int triples[64][3];
    unsigned n = 0;
    for (int i = 0; i < 64; i++) {
        const int f[3] = {1 + i % 4, 1 + i / 4 % 4, 1 + i / 16};
        const int max = f[0] > f[1] ? (f[0] > f[2] ? f[0] : f[2]) : f[1] > f[2] ? f[1] : f[2];
        if (max % f[0] || max % f[1] || max % f[2])
            continue;
        memcpy(triples[n++], f, sizeof f);
    }
    assert_int_equal(n, 34);
    for (unsigned i = 0; i < n * n; i += test_every(3)) {
        char name[64];
        const int *h = triples[i % n], *v = triples[i / n];
        snprintf(name, sizeof name, "%dx%d, %dx%d, %dx%d", h[0], v[0], h[1], v[1], h[2], v[2]);
        struct photo_style style = {
            .name = name, .in = JCS_RGB, .stored = i & 1 ? JCS_YCbCr : JCS_RGB, .separate_scans = true};
        memcpy(style.h, h, 3 * sizeof *h);
        memcpy(style.v, v, 3 * sizeof *v);
        const uint32_t width = 1 + (uint32_t)leat_draw_below(7, 2 * i, 72),
                       height = 1 + (uint32_t)leat_draw_below(7, 2 * i + 1, 72);
        check_made(&style, width, height, 90, false, i);
    }
}

TEST(pixels_of_extreme_samples_equal_the_full_decode)
{
    for (unsigned s = 0; s < N_STYLES; s++) {
        const unsigned channels = styles[s].in == JCS_GRAYSCALE ? 1 : styles[s].in == JCS_CMYK ? 4 : 3;
        uint8_t *pixels = photo_pixels(96, 40, channels, s);
        for (size_t i = 0; i < (size_t)96 * 40 * channels; i++)
            pixels[i] = leat_draw_below(s, i, 2) ? 255 : 0;
        size_t length;
        uint8_t *data = photo_encode(&styles[s], pixels, 96, 40, 30, &length);
        struct held held;
        assert_true(held_load(&held, data, length));
        struct photo_full full = reference(&held, data, length, false, 1);
        check_some(styles[s].name, &held, &full, 1, 8, s);
        free(full.pixels);
        held_free(&held);
        free(data);
        free(pixels);
    }
}

TEST(real_photos_equal_the_full_decode)
{
    char folder[4096];
    assert_true(snprintf(folder, sizeof folder, "%s/imagenet", test_data()) < (int)sizeof folder);
    DIR *files = opendir(folder);
    if (!files) {
        printf("# SKIP %s: no folder %s\n", __func__, folder);
        return;
    }
    unsigned photos = 0;
    for (struct dirent *f; (f = readdir(files));) {
        const char *dot = strrchr(f->d_name, '.');
        if (!dot || strcmp(dot, ".JPEG") || !test_takes(f->d_name, 10))
            continue;
        size_t length;
        const uint32_t key = test_name_key(f->d_name) / 10;
        uint8_t *data = photo_file(folder, f->d_name, &length);
        struct held held;
        assert_true(held_load(&held, data, length));
        const unsigned denominator = key % 5 == 4 ? 2u << key / 5 % 3 : 1;
        const bool gray = held.frame.n_components == 1 && (key & 1);
        struct photo_full full = reference(&held, data, length, gray, denominator);
        check_some(f->d_name, &held, &full, denominator, 3, key);
        photos++;
        free(full.pixels);
        held_free(&held);
        free(data);
    }
    closedir(files);
    assert_true(photos > 30);
}

/* ---- what is asked of the source, and what fails ---- */

static void made(const struct photo_style *style, uint32_t w, uint32_t h, struct held *held)
{
    uint8_t *pixels = photo_pixels(w, h, 3, 1);
    size_t length;
    uint8_t *data = photo_encode(style, pixels, w, h, 85, &length);
    assert_true(held_load(held, data, length));
    free(data);
    free(pixels);
}

static void all_rows(struct leat_jpeg_picture *picture, struct held *held, struct box box)
{
    struct leat_error error;
    const uint8_t *row;
    held_rewind(held);
    assert_ok(
        leat_jpeg_picture_begin(picture, &held->frame, &held->source, 1, false, box.x, box.y, box.w, box.h, &error));
    for (uint32_t y = 0; y < box.h; y++)
        assert_ok(leat_jpeg_picture_row(picture, &row, &error));
}

TEST(only_the_mcus_of_the_box_and_its_neighbours_are_asked_for)
{
    static const struct {
        unsigned style; /* of `styles` */
        struct box box;
        uint32_t x0, x1, rows;
    } cases[] = {
        {2, {16, 16, 16, 16}, 2, 4, 2}, /* 4:4:4: nothing beside */
        {3, {32, 16, 16, 8}, 1, 4, 1},  /* 4:2:2: a sample on each side */
        {3, {33, 16, 14, 8}, 2, 3, 1},  /* whose pixels look inwards */
        {4, {32, 32, 16, 16}, 1, 4, 3}, /* 4:2:0 */
        {4, {33, 33, 14, 14}, 2, 3, 1}, {4, {0, 0, 64, 64}, 0, 4, 4},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct held held;
        made(&styles[cases[i].style], 64, 64, &held);
        all_rows(pictures[0], &held, cases[i].box);
        if (held.x0 != cases[i].x0 || held.x1 != cases[i].x1 || held.rows_read != cases[i].rows)
            fail_msg("case %u: columns %u to %u, %u rows", i, held.x0, held.x1, held.rows_read);
        held_free(&held);
    }
}

TEST(a_failure_of_the_source_is_returned)
{
    struct held held;
    struct leat_error error;
    const uint8_t *row;
    made(&styles[2], 64, 64, &held);
    held.fail_at = 4;
    assert_ok(leat_jpeg_picture_begin(pictures[0], &held.frame, &held.source, 1, false, 0, 0, 64, 64, &error));
    uint32_t y = 0;
    while (y < 64 && !leat_jpeg_picture_row(pictures[0], &row, &error))
        y++;
    assert_int_equal(y, 32);
    assert_int_equal(error.code, LEAT_E_DECODE);
    assert_string_equal(error.message, "no more blocks");
    held_free(&held);
}

TEST(buffers_are_kept_until_a_trim_after_a_huge_photo)
{
    struct held small, huge;
    made(&styles[4], 64, 64, &small);
    made(&styles[4], 4096, 17, &huge);
    huge.frame.width = 65500; /* of which a box is made: blocks of its left end only */
    struct leat_jpeg_picture *picture = leat_jpeg_picture_new(LEAT_ISA_PORTABLE);
    struct leat_error error;
    assert_non_null(picture);
    all_rows(picture, &small, (struct box){0, 0, 64, 64});
    uint64_t count = library_allocations();
    leat_jpeg_picture_trim(picture);
    all_rows(picture, &small, (struct box){3, 5, 40, 50});
    assert_int_equal(library_allocations(), count);

    assert_true(leat_jpeg_frame_complete(&huge.frame));
    assert_ok(leat_jpeg_picture_begin(picture, &huge.frame, &huge.source, 1, false, 0, 0, 65500, 17, &error));
    count = library_allocations();
    all_rows(picture, &small, (struct box){0, 0, 64, 64});
    assert_int_equal(library_allocations(), count);
    leat_jpeg_picture_trim(picture);
    all_rows(picture, &small, (struct box){0, 0, 64, 64});
    assert_int_equal(library_allocations(), count + 1);
    leat_jpeg_picture_free(picture);
    held_free(&small);
    held_free(&huge);
}

static void *no_memory(size_t bytes)
{
    return NULL;
}

TEST(without_memory_a_picture_fails_and_works_later)
{
    struct held held;
    struct leat_error error;
    made(&styles[4], 64, 64, &held);
    const struct test_allocator usual = test_allocator;
    test_allocator.allocate = no_memory;
    struct leat_jpeg_picture *picture = leat_jpeg_picture_new(LEAT_ISA_PORTABLE);
    test_allocator = usual;
    assert_null(picture);
    picture = leat_jpeg_picture_new(LEAT_ISA_PORTABLE);
    assert_non_null(picture);
    test_allocator.allocate = no_memory;
    int rc = leat_jpeg_picture_begin(picture, &held.frame, &held.source, 1, false, 0, 0, 64, 64, &error);
    test_allocator = usual;
    assert_int_equal(rc, LEAT_E_NOMEM);
    all_rows(picture, &held, (struct box){0, 0, 64, 64});
    leat_jpeg_picture_free(picture);
    held_free(&held);
}

TEST_MAIN_IN(make_pictures, free_pictures)
