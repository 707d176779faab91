/* The kernels that decode photos: pixel for pixel those of the processor; for bytes that lie, a fault where that
 * refuses them, and no access outside (the address sanitizer sees those). */
#include "../codec/jpeg/jpegs.h"
#include "photos.h"

#include "base/bytes.h"
#include "codec/jpeg/fast_format.h"
#include "codec/jpeg/picture.h"
#include "codec/jpeg/pixels.h"
#include "kernels/kernels.h"

static struct leat_error error;
static struct leat_jpeg_packer *packer;
static struct leat_jpeg_fast *fast;
static struct leat_jpeg_picture *picture;

static int set_up(void **state)
{
    packer = leat_jpeg_packer_new();
    fast = leat_jpeg_fast_new(leat_cpu_isa());
    picture = leat_jpeg_picture_new(leat_cpu_isa());
    return !packer || !fast || !picture;
}
static int tear_down(void **state)
{
    leat_jpeg_packer_free(packer);
    leat_jpeg_fast_free(fast);
    leat_jpeg_picture_free(picture);
    return 0;
}

/* ---- the processor ------------------------------------------------------------------------------- */

/* Pixels of a box, R G B 255, and 64 bytes; NULL if a row makes no sense. */
static uint8_t *decode_box(const uint8_t *data, size_t length, uint32_t x, uint32_t y, uint32_t w, uint32_t h)
{
    const struct leat_jpeg_frame *frame;
    struct leat_jpeg_source *source;
    assert_ok(leat_jpeg_fast_open(fast, data, length, &frame, &source, &error));
    assert_ok(leat_jpeg_picture_begin(picture, frame, source, 1, false, x, y, w, h, &error));
    uint8_t *pixels = calloc(4 * (size_t)w * h + LEAT_ROW_PADDING, 1);
    for (uint32_t i = 0; i < h; i++) {
        const uint8_t *row;
        const int rc = leat_jpeg_picture_row(picture, &row, &error);
        if (rc) {
            assert_int_equal(rc, LEAT_E_DECODE);
            free(pixels);
            return NULL;
        }
        memcpy(pixels + 4 * (size_t)w * i, row, 4 * (size_t)w);
    }
    return pixels;
}

static struct leat_axis axis_of(const struct leat_card_view *view, int d)
{
    struct leat_axis axis = {0};
    assert_ok(leat_axis_compute(&axis, view->source_size[d], 0, view->source_size[d], view->grid[d], view->filter));
    if (view->mirrored[d])
        leat_axis_mirror(&axis);
    return axis;
}

/* The result, with the functions that a stage of a program calls. */
static uint8_t *expected_of(const uint8_t *data, size_t length, const struct leat_card_view *v)
{
    const struct leat_kernels *k = &leat_kernels_portable;
    const uint32_t w = v->window_size[0], h = v->window_size[1], rows = v->source_size[1];
    uint8_t *pixels = decode_box(data, length, v->source[0], v->source[1], v->source_size[0], rows);
    if (!pixels)
        return NULL;
    struct leat_axis across = axis_of(v, 0), down = axis_of(v, 1);
    uint8_t *narrow = calloc(3 * (size_t)w * rows + LEAT_ROW_PADDING, 1), *row = calloc(3 * (size_t)w + 64, 1);
    uint8_t *out = malloc(3 * (size_t)w * h);
    for (uint32_t y = 0; y < rows; y++)
        k->horizontal(&across, v->window[0], w, 4, 3, pixels + 4 * (size_t)v->source_size[0] * y,
                      narrow + 3 * (size_t)w * y);
    const uint8_t **taps = calloc(down.taps, sizeof *taps);
    for (uint32_t y = 0; y < h; y++) {
        const uint32_t at = v->window[1] + y, first = down.first[at];
        for (uint32_t t = 0; t < down.taps; t++)
            taps[t] = narrow + 3 * (size_t)w * (first + t < rows ? first + t : first);
        k->vertical(taps, down.weights + (size_t)at * down.taps, down.taps, row, 3 * (size_t)w);
        for (uint32_t x = 0; x < w; x++)
            memcpy(out + 3 * ((size_t)(v->flip[1] ? h - 1 - y : y) * w + (v->flip[0] ? w - 1 - x : x)), row + 3 * x, 3);
    }
    leat_axis_destroy(&across);
    leat_axis_destroy(&down);
    free(taps);
    free(narrow);
    free(row);
    free(pixels);
    return out;
}

/* ---- cases --------------------------------------------------------------------------------------- */

/* A batch, and what becomes of it. */
enum { MOST = 4096 };
static struct photo_batch batch;
static uint8_t *expected[MOST];
static char labels[MOST][160];

static void add(const char *name, const uint8_t *data, size_t length, const struct leat_card_view *view)
{
    struct leat_card_photo photo;
    struct leat_card_source source;
    assert_ok(leat_card_plan(data, length, view, &photo, &source, &error));
    assert_true(batch.n < MOST);
    expected[batch.n] = expected_of(data, length, view);
    for (enum leat_isa isa = LEAT_ISA_PORTABLE; isa <= leat_cpu_isa(); isa++)
        assert_int_equal(leat_card_check(&photo, &source, isa), expected[batch.n] != NULL);
    snprintf(labels[batch.n], sizeof *labels,
             "%.60s, %u x %u at %u, %u to %u x %u, window %u x %u at %u, %u, filter %d, mirrored %d %d, flip %d %d",
             name, view->source_size[0], view->source_size[1], view->source[0], view->source[1], view->grid[0],
             view->grid[1], view->window_size[0], view->window_size[1], view->window[0], view->window[1], view->filter,
             view->mirrored[0], view->mirrored[1], view->flip[0], view->flip[1]);
    leat_card_write(&photo, &source, photo_add(&batch, &photo));
}

static void run_and_compare(void)
{
    photo_run(&batch);
    for (size_t i = 0; i < batch.n; i++) {
        const struct leat_card_photo *p = &batch.photos[i];
        const size_t bytes = 3 * (size_t)p->axis[0].n * p->axis[1].n;
        if (!batch.faults[i] != (expected[i] != NULL))
            fail_msg("%s: fault %u", labels[i], batch.faults[i]);
        if (expected[i] && memcmp(batch.out + p->out, expected[i], bytes) != 0) {
            size_t at = 0;
            while (batch.out[p->out + at] == expected[i][at])
                at++;
            fail_msg("%s: pixel %zu, %zu, channel %zu: %u, not %u", labels[i], at / 3 % p->axis[0].n,
                     at / 3 / p->axis[0].n, at % 3, batch.out[p->out + at], expected[i][at]);
        }
        free(expected[i]);
    }
    photo_batch_destroy(&batch);
}

static struct leat_card_view whole(uint32_t w, uint32_t h)
{
    return (struct leat_card_view){.source_size = {w, h}, .grid = {w, h}, .window_size = {w, h}};
}

/* Any view of a photo: number `i` of those that a key draws. */
static struct leat_card_view drawn_view(uint32_t w, uint32_t h, uint64_t key, uint64_t i)
{
    static const enum leat_filter filters[] = {LEAT_FILTER_ANTIALIAS, LEAT_FILTER_BILINEAR,     LEAT_FILTER_BICUBIC,
                                               LEAT_FILTER_ANTIALIAS, LEAT_FILTER_BICUBIC_NEAR, LEAT_FILTER_LANCZOS,
                                               LEAT_FILTER_HAMMING,   LEAT_FILTER_BOX};
    const uint32_t size[2] = {w, h};
    struct leat_card_view v = {.filter = filters[i % 8]};
    for (unsigned d = 0; d < 2; d++) {
        const uint64_t at = 16 * i + 8 * d;
        v.source_size[d] = 1 + (uint32_t)leat_draw_below(key, at, size[d]);
        v.source[d] = (uint32_t)leat_draw_below(key, at + 1, size[d] - v.source_size[d] + 1);
        v.grid[d] = i % 3 ? 1 + (uint32_t)leat_draw_below(key, at + 2, 40) : v.source_size[d];
        v.window_size[d] = 1 + (uint32_t)leat_draw_below(key, at + 3, v.grid[d]);
        v.window[d] = (uint32_t)leat_draw_below(key, at + 4, v.grid[d] - v.window_size[d] + 1);
        v.mirrored[d] = leat_draw_below(key, at + 5, 3) == 0;
        v.flip[d] = leat_draw_below(key, at + 6, 2);
    }
    return v;
}

/* The fast form of a JPEG, which is ended. */
static struct photo pack(struct photo photo)
{
    const uint8_t *out;
    struct photo packed;
    assert_ok(leat_jpeg_pack(packer, photo.data, photo.length, 1, 1, &out, &packed.length, &error));
    packed.data = memcpy(malloc(packed.length), out, packed.length);
    free(photo.data);
    return packed;
}

static const uint32_t sizes[][2] = {{1, 1},   {2, 3},   {3, 2},   {7, 9},   {8, 8},   {16, 16}, {17, 33},
                                    {33, 17}, {31, 48}, {65, 20}, {40, 41}, {97, 64}, {1, 70},  {70, 1}};
enum { SIZES = sizeof sizes / sizeof *sizes };

TEST(photos_of_every_sampling_and_size_are_those_of_the_processor)
{
    for (size_t k = 0; k < KINDS; k++) {
        const struct kind *kind = &kinds[k];
        for (size_t i = 0; i < SIZES; i++) {
            const uint32_t w = sizes[i][0], h = sizes[i][1];
            struct photo photo = pack(make_photo(kind, BASELINE, w, h, 30 + 5 * (int)i, 0));
            struct leat_card_view view = whole(w, h);
            struct leat_card_photo card;
            struct leat_card_source source;
            if (kind->in == JCS_CMYK) {
                assert_int_equal(leat_card_plan(photo.data, photo.length, &view, &card, &source, &error),
                                 LEAT_E_UNSUPPORTED);
                free(photo.data);
                continue;
            }
            add(kind->name, photo.data, photo.length, &view);
            view.flip[0] = true;
            add(kind->name, photo.data, photo.length, &view);
            for (uint64_t d = 0; d < (test_full() ? 64 : 8); d++) {
                view = drawn_view(w, h, 77 + k * SIZES + i, d);
                add(kind->name, photo.data, photo.length, &view);
            }
            free(photo.data);
        }
        if (batch.n)
            run_and_compare();
    }
}

TEST(a_box_at_each_edge_of_blocks_and_units_has_the_samples_that_it_needs)
{
    static const uint32_t edges[] = {0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47};
    for (size_t k = 0; k < KINDS; k++) {
        if (kinds[k].in == JCS_CMYK)
            continue;
        struct photo photo = pack(make_photo(&kinds[k], BASELINE, 49, 48, 80, 0));
        for (size_t a = 0; a < sizeof edges / sizeof *edges; a++)
            for (uint32_t n = 1; n < 4; n++) {
                struct leat_card_view view = whole(n, n == 2 ? 1 : n);
                view.source[0] = edges[a] + n <= 49 ? edges[a] : 49 - n;
                view.source[1] = 48 - n - (edges[a] + n <= 48 ? edges[a] : 0);
                add(kinds[k].name, photo.data, photo.length, &view);
            }
        run_and_compare();
        free(photo.data);
    }
}

TEST(large_and_full_blocks_are_those_of_the_processor)
{
    static const uint32_t one_of[] = {1, 3, 20, 400};
    for (unsigned i = 0; i < 4; i++) {
        struct photo photo = pack(make_wild(BASELINE, 5 + i, one_of[i]));
        struct leat_card_view view = whole(128, 96);
        add("wild", photo.data, photo.length, &view);
        view = drawn_view(128, 96, 9, i);
        add("wild", photo.data, photo.length, &view);
        free(photo.data);
    }
    run_and_compare();
}

/* ---- values that no JPEG has ------------------------------------------------------------------- */

/* A gray photo of blocks that `fill` makes. */
static struct photo made_of(void (*fill)(int16_t *block, unsigned i), unsigned blocks, uint16_t quant)
{
    struct leat_jpeg_coefficients *made = calloc(1, sizeof *made);
    struct leat_jpeg_fast_writer writer = {.isa = leat_cpu_isa()};
    const struct leat_jpeg_original about = {.orientation = 1};
    made->frame = (struct leat_jpeg_frame){.width = 8 * blocks, .height = 8, .n_components = 1};
    made->frame.component[0].h = made->frame.component[0].v = 1;
    for (unsigned k = 0; k < 64; k++)
        made->frame.component[0].quant[k] = quant;
    assert_true(leat_jpeg_frame_complete(&made->frame));
    made->of[0] = aligned_alloc(64, 128 * (size_t)blocks);
    memset(made->of[0], 0, 128 * (size_t)blocks);
    for (unsigned i = 0; i < blocks; i++)
        fill(made->of[0] + 64 * (size_t)i, i);
    assert_ok(leat_jpeg_fast_write(&writer, made, (const uint8_t *)"", 1, &about, &error));
    struct photo photo = {memcpy(malloc(writer.length), writer.out, writer.length), writer.length};
    leat_jpeg_fast_writer_destroy(&writer);
    free(made->of[0]);
    free(made);
    return photo;
}

/* Magnitudes on both sides of each class, anywhere in a block. */
static void fill_classes(int16_t *block, unsigned i)
{
    static const int16_t values[] = {0, 1, 2, 3, 4, 5, 18, 19, 20, 254, 255, 256, 1023, 16383, 32767, -32768};
    for (unsigned k = 1; k < 64; k++) {
        const int16_t v = values[leat_draw_below(i, k, 16)];
        block[k] = leat_draw_below(i, 100 + k, 1 + i % 7) ? 0 : leat_draw_below(i, 200 + k, 2) ? v : (int16_t)-v;
    }
    block[0] = (int16_t)((i & 1 ? 1 : -1) * (int)leat_draw_below(i, 0, 8192));
}

/* One row of coefficients, large or small, whose first pass wraps. */
static void fill_rows(int16_t *block, unsigned i)
{
    for (unsigned c = 0; c < 8; c++)
        block[8 * (i % 8 == 7 ? 1u : 0) + c] = (int16_t)(leat_draw_below(i, c, 3000) << i % 4);
}

TEST(coefficients_of_every_class_wrap_and_saturate_as_on_the_processor)
{
    for (unsigned q = 0; q < 3; q++)
        for (unsigned f = 0; f < 2; f++) {
            struct photo photo = made_of(f ? fill_rows : fill_classes, 60, (uint16_t[]){1, 16, 65535}[q]);
            const struct leat_card_view view = whole(480, 8);
            add(f ? "rows" : "classes", photo.data, photo.length, &view);
            free(photo.data);
        }
    run_and_compare();
}

TEST(every_colour_is_that_of_the_processor)
{
    uint8_t y[256 + 64], blue[256 + 64], red[256 + 64], out[4 * 256 + 256];
    const struct leat_jpeg_samples chroma[2] = {{blue, NULL}, {red, NULL}};
    for (unsigned cb = 0; cb < 256; cb++)
        for (unsigned cr = 0; cr < 256; cr++) {
            for (unsigned i = 0; i < 256 + 64; i++) {
                y[i] = (uint8_t)(i * 7 + cb + cr);
                blue[i] = (uint8_t)cb;
                red[i] = (uint8_t)cr;
            }
            leat_jpeg_pixels_portable.ycc(y, chroma, 256, out);
            for (unsigned i = 0; i < 256; i += 5) {
                const uint32_t made = colours_ycc(y[i], cb, cr);
                assert_memory_equal(&made, out + 4 * i, 4);
            }
        }
}

/* ---- real photos ------------------------------------------------------------------------------- */

/* About as RandomResizedCrop and RandomHorizontalFlip draw, to 64 x 64. */
static uint64_t real_bytes, real_travel, real_photos;
static unsigned add_real(const char *path, const uint8_t *data, size_t length)
{
    const uint8_t *out;
    size_t n;
    if (!test_takes(path, 24) || leat_jpeg_pack(packer, data, length, 1, 1, &out, &n, &error))
        return 0;
    struct leat_jpeg_frame frame;
    const uint64_t key = test_name_key(path);
    assert_ok(leat_jpeg_fast_frame(out, n, &frame, &error));
    struct leat_card_view view = {.grid = {64, 64}, .window_size = {64, 64}, .flip = {key & 1}};
    view.source_size[0] = frame.width / 4 + (uint32_t)leat_draw_below(key, 0, frame.width / 2);
    view.source_size[1] = frame.height / 4 + (uint32_t)leat_draw_below(key, 1, frame.height / 2);
    view.source[0] = (uint32_t)leat_draw_below(key, 2, frame.width - view.source_size[0]);
    view.source[1] = (uint32_t)leat_draw_below(key, 3, frame.height - view.source_size[1]);
    add(path, out, n, &view);
    real_travel += batch.photos[batch.n - 1].bytes + sizeof(struct leat_card_photo);
    real_bytes += n;
    real_photos++;
    if (batch.n == 8)
        run_and_compare();
    return 1;
}

TEST(crops_of_real_photos_are_those_of_the_processor_and_travel_in_part)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/imagenet", test_data());
    for_each_file(path, add_real);
    if (batch.n)
        run_and_compare();
    assert_true(real_photos > 10);
    printf("# %" PRIu64 " photos of %" PRIu64 " bytes in the decode-fast form: %" PRIu64 " travel\n", real_photos,
           real_bytes, real_travel);
    assert_true(real_travel * 4 < real_bytes * 3); /* half of the rows, on average */
}

TEST(all_of_a_photo_takes_little_more_than_its_rows)
{
    struct photo photo = pack(make_photo(&kinds[4], BASELINE, 300, 200, 90, 0));
    struct leat_jpeg_fast_parts parts;
    struct leat_card_photo card;
    struct leat_card_source source;
    struct leat_card_view view = whole(300, 200);
    assert_ok(leat_jpeg_fast_parse(photo.data, photo.length, &parts, &error));
    assert_ok(leat_card_plan(photo.data, photo.length, &view, &card, &source, &error));
    assert_in_range(card.bytes, parts.rows_bytes + 4 * parts.n_rows, parts.rows_bytes + 4 * parts.n_rows + 31);
    assert_true(sizeof card < 1024);
    view.source_size[1] = view.grid[1] = view.window_size[1] = 15; /* one row of MCUs of 13: a sample beside is none */
    assert_ok(leat_card_plan(photo.data, photo.length, &view, &card, &source, &error));
    assert_int_equal(card.n_rows, 4);
    view.source_size[1] = view.grid[1] = 200; /* the same of a photo that is not resized */
    assert_ok(leat_card_plan(photo.data, photo.length, &view, &card, &source, &error));
    assert_int_equal(card.h, 15);
    assert_int_equal(card.n_rows, 4);
    assert_true(card.bytes * 6 < parts.rows_bytes);
    free(photo.data);
}

/* ---- what is refused --------------------------------------------------------------------------- */

TEST(bytes_that_lie_are_a_fault_where_the_processor_refuses_them_and_else_the_same_pixels)
{
    const unsigned n = test_full() ? 20000 : 1500;
    unsigned broken = 0;
    struct photo photo = pack(make_photo(&kinds[4], BASELINE, 61, 50, 85, 0));
    struct leat_jpeg_fast_parts parts;
    assert_ok(leat_jpeg_fast_parse(photo.data, photo.length, &parts, &error));
    const size_t begin = (size_t)(parts.ends - photo.data), end = (size_t)(parts.skeleton - photo.data);
    uint8_t *bytes = malloc(photo.length);
    for (unsigned i = 0; i < n; i++) {
        struct leat_card_photo card;
        struct leat_card_source source;
        const struct leat_card_view view = {.source = {i % 40, i % 30},
                                            .source_size = {1 + i % 21, 1 + i % 17},
                                            .grid = {1 + i % 21, 1 + i % 17},
                                            .window_size = {1 + i % 21, 1 + i % 17}};
        memcpy(bytes, photo.data, photo.length);
        for (unsigned k = 0; k < 1 + i % 3; k++) {
            const size_t at = begin + leat_draw_below(3, 16 * i + k, end - begin);
            bytes[at] = (uint8_t)(i % 2 ? bytes[at] ^ UINT64_C(1) << leat_draw_below(4, 16 * i + k, 8)
                                        : leat_draw_below(5, 16 * i + k, 256));
        }
        const int rc = leat_card_plan(bytes, photo.length, &view, &card, &source, &error);
        if (rc) {
            assert_int_equal(rc, LEAT_E_DECODE);
            assert_non_null(strstr(error.message, "makes no sense"));
            assert_null(expected_of(bytes, photo.length, &view));
            continue;
        }
        add("lies", bytes, photo.length, &view);
        broken += !expected[batch.n - 1];
        if (batch.n == 50 || i + 1 == n)
            run_and_compare();
    }
    assert_true(broken > n / 8 && broken < n - n / 8);
    free(bytes);
    free(photo.data);
}

/* A photo of one row of blocks, with other bytes in the place of that. */
static struct photo with_row(const struct photo *photo, const uint8_t *row, uint32_t n)
{
    struct leat_jpeg_fast_parts parts;
    assert_ok(leat_jpeg_fast_parse(photo->data, photo->length, &parts, &error));
    const size_t before = (size_t)(parts.rows - photo->data), behind = photo->length - before - parts.rows_bytes;
    struct photo made = {malloc(before + n + behind), before + n + behind};
    memcpy(made.data, photo->data, before);
    memcpy(made.data + before, row, n);
    memcpy(made.data + before + n, parts.rows + parts.rows_bytes, behind);
    leat_put_u32(made.data + 24, n);
    leat_put_u32(made.data + before - 4, n);
    return made;
}

/* Alone in its batch: behind it memory ends. */
static void check_row(const struct photo *photo, const uint8_t *row, uint32_t n, const struct leat_card_view *view,
                      bool good)
{
    struct photo made = with_row(photo, row, n);
    batch.alone = true;
    add("row", made.data, made.length, view);
    assert_true(!expected[0] == !good);
    run_and_compare();
    free(made.data);
}

TEST(a_row_that_is_cut_or_goes_on_is_a_fault)
{
    struct photo photo = made_of(fill_classes, 24, 1);
    struct leat_jpeg_fast_parts parts;
    const struct leat_card_view view = whole(24 * 8, 8);
    assert_ok(leat_jpeg_fast_parse(photo.data, photo.length, &parts, &error));
    uint8_t *row = calloc(parts.rows_bytes + 1, 1);
    memcpy(row, parts.rows, parts.rows_bytes);
    for (uint32_t n = 24; n <= parts.rows_bytes + 1; n += n + 8 < parts.rows_bytes ? test_every(7) : 1)
        check_row(&photo, row, n, &view, n == parts.rows_bytes);
    /* the streams of classes say that there are as many numbers as can be */
    for (uint32_t n = 24; n <= parts.rows_bytes; n += test_every(16)) {
        memset(row, 8, 24);
        memset(row + 24, 0xff, n - 24);
        check_row(&photo, row, n, &view, false);
    }
    free(row);
    free(photo.data);
    photo = pack(make_photo(&kinds[0], BASELINE, 400, 16, 80, 0)); /* two rows, and all bytes are of the first one */
    const struct leat_card_view both = whole(400, 16);
    assert_ok(leat_jpeg_fast_parse(photo.data, photo.length, &parts, &error));
    leat_put_u32(photo.data + (parts.ends - photo.data), parts.rows_bytes);
    add("no second row", photo.data, photo.length, &both);
    assert_null(expected[0]);
    run_and_compare();
    free(photo.data);
}

TEST(bytes_that_change_on_their_way_are_pixels_or_a_fault_and_lead_nowhere_else)
{
    const unsigned n = test_full() ? 20000 : 800;
    unsigned broken = 0;
    struct photo photo = pack(make_photo(&kinds[4], BASELINE, 61, 50, 85, 0));
    const struct leat_card_view view = whole(61, 50);
    for (unsigned i = 0; i < n; i++) {
        struct leat_card_photo card;
        struct leat_card_source source;
        assert_ok(leat_card_plan(photo.data, photo.length, &view, &card, &source, &error));
        uint8_t *bytes = photo_add(&batch, &card);
        leat_card_write(&card, &source, bytes);
        const uint64_t among = i % 2 ? 4 * card.n_rows : card.bytes; /* the ends of rows too */
        for (unsigned k = 0; k < 1 + i % 5; k++)
            bytes[leat_draw_below(6, 16 * i + k, among)] = (uint8_t)leat_draw_below(7, 16 * i + k, 256);
        if (i % 16 == 0)
            memset(bytes, i % 32 ? 0xff : 0x80, card.bytes);
        batch.alone = true;
        photo_run(&batch); /* behind the photo memory ends */
        broken += batch.faults[0] != 0;
        photo_batch_destroy(&batch);
    }
    assert_true(broken > n / 2 && broken < n);
    free(photo.data);
}

TEST(a_coefficient_64_is_a_fault_where_its_block_is_needed)
{
    struct photo photo = made_of(fill_classes, 3, 1);
    for (uint32_t at = 0; at < 3; at++) {
        uint8_t row[3 + 24 + 3] = {8, 8, 8}; /* heads, masks, a bit for each of three streams */
        row[3 + 8 * at + 7] = 0x80;
        for (uint32_t from = 0; from < 3; from++)
            for (uint32_t to = from + 1; to <= 3; to++) {
                struct leat_card_view view = whole(8 * (to - from), 8);
                view.source[0] = 8 * from;
                check_row(&photo, row, sizeof row, &view, at < from || at >= to);
            }
    }
    free(photo.data);
}

TEST(a_fault_names_the_row_of_its_photo_and_harms_no_other)
{
    struct photo photo = pack(make_photo(&kinds[2], BASELINE, 40, 40, 85, 0));
    struct leat_jpeg_fast_parts parts;
    struct leat_card_view view = whole(40, 40);
    add("before", photo.data, photo.length, &view);
    assert_ok(leat_jpeg_fast_parse(photo.data, photo.length, &parts, &error));
    photo.data[(size_t)(parts.rows - photo.data) + leat_get_u32(parts.ends + 4 * 6)] = 0x0f; /* row 7: a mask of 15 */
    add("broken", photo.data, photo.length, &view);
    view.source_size[1] = view.grid[1] = view.window_size[1] = 16; /* rows 0 to 5 */
    add("other rows of it", photo.data, photo.length, &view);
    assert_true(expected[0] && !expected[1] && expected[2]);
    photo_run(&batch);
    assert_int_equal(batch.faults[0], 0);
    assert_int_equal(batch.faults[1], 8);
    assert_int_equal(leat_card_fault(&batch.photos[1], batch.faults[1], &error), LEAT_E_DECODE);
    char told[sizeof error.message];
    strcpy(told, error.message);
    view = whole(40, 40);
    assert_null(expected_of(photo.data, photo.length, &view));
    assert_string_equal(error.message, told);
    assert_int_equal(batch.faults[2], 0);
    free(batch.out);
    free(batch.faults);
    run_and_compare();
    free(photo.data);
}

static int plan_fails(const struct photo *photo, size_t length, const struct leat_card_view *view)
{
    struct leat_card_photo card;
    struct leat_card_source source;
    const int rc = leat_card_plan(photo->data, length, view, &card, &source, &error);
    assert_int_equal(error.code, rc);
    assert_int_equal(card.form, LEAT_CARD_NONE);
    return rc;
}

TEST(what_a_card_does_not_decode_is_said_before)
{
    struct photo photo = pack(make_photo(&kinds[4], BASELINE, 40, 30, 85, 0));
    struct leat_card_view view = whole(40, 30);
    assert_int_equal(plan_fails(&photo, photo.length - 1, &view), LEAT_E_DECODE);
    assert_int_equal(plan_fails(&photo, 0, &view), LEAT_E_DECODE);
    view.filter = LEAT_FILTER_NEAREST;
    assert_int_equal(plan_fails(&photo, photo.length, &view), LEAT_E_UNSUPPORTED);
    for (unsigned i = 0; i < 8; i++) {
        view = whole(40, 30);
        *(i < 2   ? &view.source[i]
          : i < 4 ? &view.window[i - 2]
          : i < 6 ? &view.grid[i - 4]
                  : &view.window_size[i - 6]) = i < 4   ? 1
                                                : i < 6 ? 5
                                                        : 0;
        assert_int_equal(plan_fails(&photo, photo.length, &view), LEAT_E_INVALID);
    }
    view = whole(40, 30);
    view.grid[0] = view.window_size[0] = view.grid[1] = view.window_size[1] = 6000;
    assert_int_equal(plan_fails(&photo, photo.length, &view), LEAT_E_UNSUPPORTED);
    free(photo.data);
}

TEST(pixels_of_the_processor_are_copied_and_nothing_is_left_as_it_is)
{
    const struct leat_card_photo photos[] = {
        leat_card_pixels(7, 5), {.form = LEAT_CARD_NONE, .axis = {{.n = 4}, {.n = 3}}}, leat_card_pixels(1, 1)};
    uint8_t first[7 * 5 * 3];
    for (size_t i = 0; i < sizeof first; i++)
        first[i] = (uint8_t)(i * 37);
    memcpy(photo_add(&batch, &photos[0]), first, sizeof first);
    photo_add(&batch, &photos[1]);
    memcpy(photo_add(&batch, &photos[2]), first, 3);
    photo_run(&batch);
    assert_memory_equal(batch.out, first, sizeof first);
    for (size_t i = 0; i < 36; i++)
        assert_int_equal(batch.out[sizeof first + i], 0xee);
    assert_memory_equal(batch.out + sizeof first + 36, first, 3);
    photo_batch_destroy(&batch);
}

TEST_MAIN_IN(set_up, tear_down)
