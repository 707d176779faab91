/* The decode-fast form: what is written comes back, on every instruction set; nothing that is read can do harm. */
#include "fast.h"

/* Instruction sets are numbers; each includes those below it. */
#define N_ISAS ((unsigned)leat_cpu_isa() + 1)

/* ---- coefficients ---- */

/* In each block `most` coefficients at most are not 0, of up to `bits` bits, mostly few. */
static void fill(struct leat_jpeg_coefficients *made, uint64_t seed, unsigned most, unsigned bits)
{
    for (unsigned c = 0; c < made->frame.n_components; c++)
        for (size_t i = 0; i < fast_component_bytes(&made->frame, c) / 128; i++) {
            int16_t *block = made->of[c] + 64 * i;
            const unsigned n = most ? fast_random(&seed) % (most + 1) : 0;
            for (unsigned k = 0; k < n; k++) {
                const uint32_t draw = fast_random(&seed);
                const int magnitude = (int)(fast_random(&seed) & ((1u << draw % (bits + 1)) - 1));
                block[most < 63 ? draw >> 8 & 63 : k + 1] = (int16_t)(draw >> 20 & 1 ? magnitude : -magnitude);
            }
            block[0] = (int16_t)(fast_random(&seed) % 2048 - 1024);
        }
}

static void fill_all(struct leat_jpeg_coefficients *made, int16_t dc, int16_t ac)
{
    for (unsigned c = 0; c < made->frame.n_components; c++)
        for (size_t i = 0; i < fast_component_bytes(&made->frame, c) / 2; i++)
            made->of[c][i] = i % 64 ? ac : dc;
}

/* ---- round trips ---- */

static const struct leat_jpeg_original about = {
    .length = 12345, .checksum = UINT64_C(0x0123456789abcdef), .orientation = 6, .image_kind = 2};

/* Columns [x0, x1) and rows [row, row + n) of MCUs, read as a picture reads them, are those of `made`. */
static void check_box(struct leat_jpeg_fast *fast, const struct leat_jpeg_fast_writer *writer,
                      const struct leat_jpeg_coefficients *made, uint32_t row, uint32_t n, uint32_t x0, uint32_t x1,
                      uint64_t needed)
{
    const struct leat_jpeg_frame *frame;
    struct leat_jpeg_source *source;
    struct leat_error error;
    struct leat_jpeg_blocks blocks[LEAT_JPEG_ROWS_AT_ONCE][LEAT_JPEG_MAX_COMPONENTS];
    assert_ok(leat_jpeg_fast_open(fast, writer->out, writer->length, &frame, &source, &error));
    for (unsigned i = 0; i < n; i++)
        for (unsigned c = 0; c < frame->n_components; c++) {
            const size_t room = (size_t)(x1 - x0) * frame->component[c].h * frame->component[c].v;
            blocks[i][c].coefficients = aligned_alloc(64, 128 * room);
            blocks[i][c].last = malloc(room);
            assert_non_null(blocks[i][c].coefficients);
            assert_non_null(blocks[i][c].last);
            memset(blocks[i][c].coefficients, 0x5a, 128 * room);
        }
    assert_ok(source->read(source, row, n, x0, x1, needed, blocks, &error));
    for (unsigned i = 0; i < n; i++)
        for (unsigned c = 0; c < frame->n_components; c++) {
            const struct leat_jpeg_component *component = &frame->component[c];
            const uint32_t across = (x1 - x0) * component->h;
            for (uint32_t v = 0; v < component->v; v++)
                for (uint32_t x = 0; x < across; x++) {
                    const size_t at = v * across + x;
                    const int16_t *got = blocks[i][c].coefficients + 64 * at;
                    const int16_t *want =
                        made->of[c] +
                        64 * ((size_t)component->blocks_w * ((row + i) * component->v + v) + x0 * component->h + x);
                    unsigned last = 0;
                    for (unsigned k = 1; k < 64; k++)
                        last = got[leat_jpeg_natural[k]] ? k : last;
                    assert_int_equal(blocks[i][c].last[at], last);
                    for (unsigned k = 0; k < 64; k++)
                        if (needed >> k & 1)
                            assert_int_equal(got[k], want[k]);
                }
            free(blocks[i][c].coefficients);
            free(blocks[i][c].last);
        }
}

/* Written (the same bytes), opened and read on every instruction set. Returns the bytes of the payload. */
static size_t check_round_trip(struct leat_jpeg_coefficients *made)
{
    static const uint8_t skeleton[] = "all that is no pixel";
    struct leat_jpeg_fast_writer writer = {.isa = leat_cpu_isa()};
    struct leat_error error;
    struct leat_jpeg_original original;
    assert_ok(leat_jpeg_fast_write(&writer, made, skeleton, sizeof skeleton, &about, &error));
    assert_ok(leat_jpeg_fast_original(writer.out, writer.length, &original, &error));
    assert_int_equal(original.length, about.length);
    assert_int_equal(original.checksum, about.checksum);
    assert_int_equal(original.orientation, about.orientation);
    assert_int_equal(original.image_kind, about.image_kind);
    for (unsigned isa = 0; isa < N_ISAS; isa++) {
        struct leat_jpeg_fast_writer other = {.isa = (enum leat_isa)isa};
        assert_ok(leat_jpeg_fast_write(&other, made, skeleton, sizeof skeleton, &about, &error));
        assert_int_equal(other.length, writer.length);
        assert_memory_equal(other.out, writer.out, writer.length);
        leat_jpeg_fast_writer_destroy(&other);
    }
    for (unsigned isa = 0; isa < N_ISAS; isa++) {
        const struct leat_jpeg_frame *frame;
        struct leat_jpeg_source *source;
        struct leat_jpeg_fast *fast = leat_jpeg_fast_new((enum leat_isa)isa);
        assert_non_null(fast);
        assert_ok(leat_jpeg_fast_open(fast, writer.out, writer.length, &frame, &source, &error));
        assert_memory_equal(frame, &made->frame, sizeof *frame);
        int16_t *of[LEAT_JPEG_MAX_COMPONENTS];
        for (unsigned c = 0; c < frame->n_components; c++) {
            of[c] = aligned_alloc(64, fast_component_bytes(frame, c));
            assert_non_null(of[c]);
            memset(of[c], 0x5a, fast_component_bytes(frame, c));
        }
        assert_ok(leat_jpeg_fast_read_all(fast, of, &error));
        for (unsigned c = 0; c < frame->n_components; c++) {
            assert_memory_equal(of[c], made->of[c], fast_component_bytes(frame, c));
            free(of[c]);
        }
        leat_jpeg_fast_free(fast);
    }
    const size_t length = writer.length;
    leat_jpeg_fast_writer_destroy(&writer);
    free(made);
    return length;
}

TEST(random_coefficients_come_back)
{
    static const unsigned most[] = {1, 3, 10, 40, 63, 63}, bits[] = {1, 3, 5, 9, 3, 15};
    for (unsigned i = 0; i < 6; i++) {
        struct leat_jpeg_coefficients *made = fast_grid(LEAT_JPEG_YCC, 500 - 8 * i, 75, 1 + i % 2, 1 + i / 2 % 2);
        fill(made, i, most[i], bits[i]);
        check_round_trip(made);
    }
}

TEST(every_colour_and_sampling_comes_back)
{
    for (enum leat_jpeg_colour colour = LEAT_JPEG_GRAY; colour <= LEAT_JPEG_YCCK; colour++)
        for (unsigned h = 1; h <= 4; h++)
            for (unsigned v = 1; v <= 4; v++) {
                struct leat_jpeg_coefficients *made = fast_grid(colour, 8 * h + 3, 40, h, v);
                fill(made, h * v, 20, 6);
                check_round_trip(made);
            }
}

TEST(the_largest_and_smallest_coefficients_come_back)
{
    static const int16_t extreme[] = {INT16_MAX, INT16_MIN, 1,   -1,  3,    -3,  4,    -4,  18,
                                      -18,       19,        -19, 254, -254, 255, -255, 256, -256};
    for (size_t i = 0; i < sizeof extreme / sizeof *extreme; i++) {
        struct leat_jpeg_coefficients *made = fast_grid(LEAT_JPEG_GRAY, 100, 30, 1, 1);
        fill_all(made, extreme[i] == INT16_MIN ? -INT16_MAX : extreme[i], extreme[i]);
        check_round_trip(made);
    }
}

TEST(a_photo_without_a_coefficient_comes_back_in_two_bytes_a_block)
{
    struct leat_jpeg_coefficients *made = fast_grid(LEAT_JPEG_YCC, 800, 800, 1, 1);
    const size_t blocks = 3 * 100 * 100;
    fill_all(made, 0, 0);
    assert_in_range(check_round_trip(made), blocks, 2 * blocks);
}

TEST(one_block_comes_back_whatever_its_last_coefficient)
{
    for (unsigned k = 0; k < 64; k++)
        for (int with_others = 0; with_others < 2; with_others++) {
            struct leat_jpeg_coefficients *made = fast_grid(LEAT_JPEG_GRAY, 8, 8, 1, 1);
            for (unsigned j = with_others ? 1 : k; j <= k; j++)
                made->of[0][leat_jpeg_natural[j]] = (int16_t)(j % 3 ? (int)(j * j) : -3);
            check_round_trip(made);
        }
}

TEST(dc_differences_wrap_at_16_bits)
{
    struct leat_jpeg_coefficients *made = fast_grid(LEAT_JPEG_GRAY, 80, 8, 1, 1);
    for (unsigned x = 0; x < 10; x++)
        made->of[0][64 * x] = x % 2 ? INT16_MIN : INT16_MAX;
    check_round_trip(made);
}

TEST(a_dc_difference_of_16_bits_is_refused)
{
    struct leat_jpeg_coefficients *made = fast_grid(LEAT_JPEG_GRAY, 80, 8, 1, 1);
    struct leat_jpeg_fast_writer writer = {.isa = leat_cpu_isa()};
    struct leat_error error;
    made->of[0][0] = INT16_MIN;
    for (unsigned isa = 0; isa < N_ISAS; isa++) {
        writer.isa = (enum leat_isa)isa;
        assert_int_equal(leat_jpeg_fast_write(&writer, made, NULL, 0, &about, &error), LEAT_E_UNSUPPORTED);
        assert_non_null(strstr(error.message, "DC"));
    }
    leat_jpeg_fast_writer_destroy(&writer);
    free(made);
}

/* ---- parts ---- */

TEST(any_columns_and_rows_are_those_of_the_whole)
{
    struct leat_jpeg_coefficients *made = fast_grid(LEAT_JPEG_YCC, 600, 64, 2, 2);
    struct leat_jpeg_fast_writer writer = {.isa = leat_cpu_isa()};
    struct leat_error error;
    fill(made, 5, 63, 10);
    assert_ok(leat_jpeg_fast_write(&writer, made, NULL, 0, &about, &error));
    for (unsigned isa = 0; isa < N_ISAS; isa++) {
        struct leat_jpeg_fast *fast = leat_jpeg_fast_new((enum leat_isa)isa);
        assert_non_null(fast);
        for (uint32_t x0 = 0; x0 < made->frame.mcus_w; x0++)
            for (uint32_t x1 = x0 + 1; x1 <= made->frame.mcus_w; x1 += 1 + x1 % 5)
                check_box(fast, &writer, made, x0 % 3, 1 + x1 % 2, x0, x1, LEAT_JPEG_NEEDED8);
        leat_jpeg_fast_free(fast);
    }
    leat_jpeg_fast_writer_destroy(&writer);
    free(made);
}

TEST(coefficients_that_are_needed_are_right_at_every_scale)
{
    static const uint64_t needed[] = {LEAT_JPEG_NEEDED8, LEAT_JPEG_NEEDED4, LEAT_JPEG_NEEDED2, LEAT_JPEG_NEEDED1};
    struct leat_jpeg_coefficients *made = fast_grid(LEAT_JPEG_YCC, 300, 64, 2, 1);
    struct leat_jpeg_fast_writer writer = {.isa = leat_cpu_isa()};
    struct leat_error error;
    fill(made, 6, 30, 8);
    assert_ok(leat_jpeg_fast_write(&writer, made, NULL, 0, &about, &error));
    for (unsigned isa = 0; isa < N_ISAS; isa++) {
        struct leat_jpeg_fast *fast = leat_jpeg_fast_new((enum leat_isa)isa);
        assert_non_null(fast);
        for (unsigned k = 0; k < 4; k++)
            for (uint32_t x0 = 0; x0 < made->frame.mcus_w; x0 += 3)
                check_box(fast, &writer, made, 1, 2, x0, made->frame.mcus_w, needed[k]);
        leat_jpeg_fast_free(fast);
    }
    leat_jpeg_fast_writer_destroy(&writer);
    free(made);
}

/* ---- photos ---- */

TEST(photos_come_back_at_less_than_a_quarter_more_than_their_bytes)
{
    const char *data = test_data();
    char path[512];
    size_t jpeg_bytes = 0, bytes = 0, photos = 0;
    snprintf(path, sizeof path, "%s/imagenet", data);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (!strstr(entry->d_name, ".JPEG") || !test_takes(entry->d_name, 10))
            continue;
        snprintf(path, sizeof path, "%s/imagenet/%s", data, entry->d_name);
        struct leat_jpeg_coefficients *made = fast_read_jpeg(path);
        if (!made)
            continue;
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        fseek(file, 0, SEEK_END);
        jpeg_bytes += (size_t)ftell(file);
        fclose(file);
        bytes += check_round_trip(made);
        photos++;
    }
    closedir(folder);
    assert_true(photos > 30);
    print_message("# %zu photos, %.4f of their bytes as JPEG\n", photos, (double)bytes / (double)jpeg_bytes);
    assert_true(4 * bytes < 5 * jpeg_bytes);
}

TEST_MAIN()
