/* Kernels of every instruction set of this machine against the portable ones, byte for byte, on buffers of exact
 * size. */
#include "program_helpers.h"

#include "kernels/kernels.h"
#include "kernels/sparse.h"
#include "kernels/values.h"

static const struct leat_kernels *others[2];
static size_t n_others;

static int find_others(void **state)
{
    for (int isa = LEAT_ISA_AVX2; isa <= (int)leat_cpu_isa(); isa++)
        others[n_others++] = leat_kernels((enum leat_isa)isa);
    return 0;
}

static uint8_t *noise(size_t bytes, uint64_t seed)
{
    uint8_t *p = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        p[i] = (uint8_t)(leat_draw_u64(seed, i) >> 13);
    return p;
}

static void across(uint32_t in, uint32_t out, enum leat_filter filter, uint32_t begin, uint32_t n, unsigned pixel,
                   unsigned channels)
{
    struct leat_axis axis = {0};
    assert_int_equal(leat_axis_compute(&axis, in, 0, in, out, filter), 0);
    uint8_t *src = noise((size_t)in * pixel + LEAT_ROW_PADDING, in * 7 + out);
    size_t bytes = (size_t)n * channels;
    uint8_t *want = malloc(bytes + LEAT_ROW_PADDING), *got = malloc(bytes + LEAT_ROW_PADDING);
    leat_kernels_portable.horizontal(&axis, begin, n, pixel, channels, src, want);
    for (size_t k = 0; k < n_others; k++) {
        memset(got, 1, bytes);
        assert_int_equal(others[k]->prepare(&axis, begin, n, pixel, channels), 0);
        others[k]->horizontal(&axis, begin, n, pixel, channels, src, got);
        if (memcmp(want, got, bytes))
            fail_msg("isa %d: across %u -> %u, filter %d, from %u, %u of them, %u bytes to %u", (int)others[k]->isa, in,
                     out, (int)filter, begin, n, pixel, channels);
    }
    leat_axis_destroy(&axis);
    free(src);
    free(want);
    free(got);
}

TEST(resizing_across_is_equal_on_all_instruction_sets)
{
    for (uint64_t i = 0; i < 1500; i++) {
        uint32_t in = 1 + (uint32_t)leat_draw_below(1, i, i % 5 ? 700 : 40),
                 out = 1 + (uint32_t)leat_draw_below(2, i, i % 3 ? 300 : 30);
        uint32_t begin = (uint32_t)leat_draw_below(3, i, out), n = 1 + (uint32_t)leat_draw_below(4, i, out - begin);
        if (i % 2)
            begin = 0, n = out;
        unsigned pixel = i % 7 ? 4 : 1;
        across(in, out, i % 3 ? LEAT_FILTER_ANTIALIAS : (enum leat_filter)(i / 3 % (LEAT_FILTER_BOX + 1)), begin, n,
               pixel, pixel == 1 ? 1 : 2 + (unsigned)(i % 3));
    }
    across(20000, 3, LEAT_FILTER_ANTIALIAS, 0, 3, 4, 3);
    across(1, 500, LEAT_FILTER_ANTIALIAS, 0, 500, 4, 3);
    across(1200, 224, LEAT_FILTER_ANTIALIAS, 0, 224, 4, 3);
}

TEST(resizing_down_is_equal_on_all_instruction_sets)
{
    for (uint64_t i = 0; i < 300; i++) {
        unsigned taps = 4 * (1 + (unsigned)leat_draw_below(1, i, i % 9 ? 4 : 80));
        size_t n = 1 + leat_draw_below(2, i, 900);
        int32_t *weights = calloc(taps, sizeof *weights);
        const uint8_t **rows = calloc(taps, sizeof *rows);
        int32_t left = 1 << LEAT_WEIGHT_BITS;
        for (unsigned t = 0; t < taps; t++) {
            weights[t] = (int32_t)leat_draw_below(3, i * 1000 + t, (uint64_t)left + 1) & (i % 4 ? -1 : -2);
            weights[t] = t + 1 == taps ? left : i % 3 == 0 && t % 2 ? -weights[t] / 8 : weights[t] / 2;
            left -= weights[t];
            rows[t] = noise(n + LEAT_ROW_PADDING, i * 1000 + t);
        }
        uint8_t *want = malloc(n + LEAT_ROW_PADDING), *got = malloc(n + LEAT_ROW_PADDING);
        leat_kernels_portable.vertical(rows, weights, taps, want, n);
        for (size_t k = 0; k < n_others; k++) {
            others[k]->vertical(rows, weights, taps, got, n);
            assert_memory_equal(want, got, n);
        }
        for (unsigned t = 0; t < taps; t++)
            free((void *)(uintptr_t)rows[t]);
        free(weights);
        free(rows);
        free(want);
        free(got);
    }
}

TEST(spreading_pixels_is_equal_on_all_instruction_sets)
{
    for (unsigned pixel = 2; pixel <= 3; pixel++)
        for (size_t n = 1; n < 150; n++) {
            uint8_t *src = malloc(n * pixel), *want = malloc(n * 4), *got = malloc(n * 4);
            for (size_t i = 0; i < n * pixel; i++)
                src[i] = (uint8_t)(leat_draw_u64(n, i) >> 13);
            leat_kernels_portable.expand(src, pixel, n, want);
            for (size_t k = 0; k < n_others; k++) {
                memset(got, 1, n * 4);
                others[k]->expand(src, pixel, n, got);
                assert_memory_equal(want, got, n * 4);
            }
            free(src);
            free(want);
            free(got);
        }
}

/* Every kind of store: sizes, layouts, mirrored or not, all lengths around a block. */
TEST(storing_is_equal_on_all_instruction_sets)
{
    static const double mean[4] = {0.485, 0.456, 0.406, 0.5}, std[4] = {0.229, 0.224, 0.225, 0.1};
    static const enum leat_dtype types[] = {LEAT_U8, LEAT_F32, LEAT_F16, LEAT_BF16, LEAT_I64};
    for (unsigned type = 0; type < 6; type++)
        for (unsigned pixel = 1; pixel <= 4; pixel++)
            for (unsigned channels = 1; channels <= pixel; channels++)
                for (int planar = 0; planar < 2; planar++) {
                    struct leat_store s = {
                        .pixel = pixel, .channels = channels, .planar = planar, .identity = type == 0};
                    s.dtype = type == 5 ? LEAT_U8 : types[type];
                    s.size = (unsigned)leat_dtype_size(s.dtype);
                    uint8_t tables[4][256 * 8];
                    double scale[4], offset[4];
                    for (unsigned c = 0; c < 4; c++) {
                        scale[c] = 1 / (255 * std[c]);
                        offset[c] = -mean[c] / std[c];
                        for (unsigned v = 0; v < 256; v++) {
                            float value = (float)((v / 255.0 - mean[c]) / std[c]);
                            uint8_t byte = (uint8_t)(type == 5 ? v * 7 + c : v);
                            bool whole = s.dtype == LEAT_U8 || s.dtype == LEAT_I64;
                            leat_values_convert(whole ? LEAT_U8 : LEAT_F32, s.dtype,
                                                whole ? (void *)&byte : (void *)&value, tables[c] + v * s.size, 1);
                        }
                        s.table[c] = tables[c];
                    }
                    leat_store_find_affine(&s, scale, offset);
                    assert_int_equal(s.affine, s.dtype == LEAT_F32 || s.dtype == LEAT_F16 || s.dtype == LEAT_BF16);
                    for (size_t n = 1; n < 90; n++)
                        for (int flip = 0; flip < 2; flip++) {
                            /* pixels of 4 bytes, and resized ones, come with padding; others end where memory may
                             * end */
                            uint8_t *src = noise(n * pixel + (pixel == 4 ? LEAT_ROW_PADDING : 0), n + pixel);
                            size_t bytes = n * s.size * (planar ? 1 : channels);
                            uint8_t *want[4], *got[4];
                            for (unsigned c = 0; c < 4; c++) {
                                want[c] = calloc(1, bytes);
                                got[c] = calloc(1, bytes);
                            }
                            leat_kernels_portable.store (&s)(&s, src, n, flip, want);
                            for (size_t k = 0; k < n_others; k++) {
                                for (unsigned c = 0; c < 4; c++)
                                    memset(got[c], 0, bytes);
                                others[k]->store (&s)(&s, src, n, flip, got);
                                for (unsigned c = 0; c < 4; c++)
                                    if (memcmp(want[c], got[c], bytes))
                                        fail_msg("isa %d: type %u, %u of %u bytes, planar %d, %zu pixels, flip %d",
                                                 (int)others[k]->isa, type, channels, pixel, planar, n, flip);
                            }
                            for (unsigned c = 0; c < 4; c++) {
                                free(want[c]);
                                free(got[c]);
                            }
                            free(src);
                        }
                }
}

TEST(converting_is_equal_on_all_instruction_sets)
{
    size_t pairs = 0;
    for (size_t k = 0; k < n_others; k++)
        for (int from = LEAT_U8; from <= LEAT_BOOL; from++)
            for (int to = LEAT_U8; to <= LEAT_BOOL; to++) {
                leat_convert_fn convert = others[k]->convert((enum leat_dtype)from, (enum leat_dtype)to);
                if (!convert)
                    continue;
                pairs++;
                for (size_t n = 0; n < 200; n += 7) {
                    size_t a = leat_dtype_size((enum leat_dtype)from) * n, b = leat_dtype_size((enum leat_dtype)to) * n;
                    uint8_t *src = noise(a, n), *want = malloc(b + 1), *got = malloc(b + 1);
                    leat_values_convert((enum leat_dtype)from, (enum leat_dtype)to, src, want, n);
                    convert(src, got, n);
                    assert_memory_equal(want, got, b);
                    free(src);
                    free(want);
                    free(got);
                }
            }
    assert_true(!n_others || pairs);
}

TEST(floats_of_2_63_and_above_become_integers_without_a_sign)
{
    static const double numbers[] = {0, 0x1.fffffffffffffp62, 0x1p63, 0x1.8p63, 0x1.fffffffffffffp63};
    static const uint64_t want[] = {0, UINT64_C(0x7ffffffffffffc00), UINT64_C(1) << 63, UINT64_C(3) << 62,
                                    UINT64_C(0xfffffffffffff800)};
    static const float halves[] = {0x1p63f, 0x1.8p63f};
    uint64_t got[5];
    leat_values_convert(LEAT_F64, LEAT_U64, numbers, got, 5);
    assert_memory_equal(got, want, sizeof want);
    leat_values_convert(LEAT_F32, LEAT_U64, halves, got, 2);
    assert_memory_equal(got, want + 2, 2 * sizeof *want);
}

TEST(gathering_copies_rows_of_every_length)
{
    struct leat_row rows[100];
    for (size_t bytes = 1; bytes < 300; bytes++) {
        uint8_t *all = noise(bytes * 100, bytes), *got = malloc(bytes * 100);
        for (size_t i = 0; i < 100; i++)
            rows[i] = (struct leat_row){.data = all + (i * 37 % 100) * bytes};
        for (size_t k = 0; k <= n_others; k++) {
            memset(got, 0, bytes * 100);
            (k ? others[k - 1] : &leat_kernels_portable)->gather(&rows->data, sizeof *rows, 100, bytes, got);
            for (size_t i = 0; i < 100; i++)
                assert_memory_equal(got + i * bytes, all + (i * 37 % 100) * bytes, bytes);
        }
        free(all);
        free(got);
    }
}

TEST(a_resize_equals_pillows_arithmetic)
{
    for (uint64_t i = 0; i < 60; i++) {
        uint32_t w = 1 + (uint32_t)leat_draw_below(1, i, 150), h = 1 + (uint32_t)leat_draw_below(2, i, 150);
        uint32_t out_w = 1 + (uint32_t)leat_draw_below(3, i, 120), out_h = 1 + (uint32_t)leat_draw_below(4, i, 120);
        struct leat_field field = field_of("x", LEAT_KIND_ARRAY, LEAT_U8, i & 1 ? LEAT_LAYOUT_HWC : LEAT_LAYOUT_CHW, 3,
                                           i & 1 ? (const int64_t[]){h, w, 3} : (const int64_t[]){1, h, w});
        char chain[200];
        snprintf(chain, sizeof chain,
                 "{\"type\": \"Resize\", \"size\": [%u, %u]}, {\"type\": \"ToLayout\", \"layout\": \"%s\"}", out_h,
                 out_w, i & 1 ? "NHWC" : "NCHW");
        struct leat_program *program = must_compile(&field, chain);
        size_t channels = i & 1 ? 3 : 1;
        uint8_t *image = malloc((size_t)w * h * channels), *want = malloc((size_t)out_w * out_h * channels),
                *got = malloc((size_t)out_w * out_h * channels);
        paint(image, w, h, (uint32_t)channels, i);
        reference_resize(image, w, h, channels, want, out_w, out_h);
        must_apply(program, image, 0, 0, got);
        if (memcmp(want, got, (size_t)out_w * out_h * channels))
            fail_msg("%u x %u -> %u x %u", w, h, out_w, out_h);
        leat_program_free(program);
        free(image);
        free(want);
        free(got);
    }
}

/* ---- columns ---- */

enum { COLUMNS = 1000, SOME = 300 };

/* Some of all columns, drawn without order. */
static void draw_columns(int32_t columns[SOME])
{
    int32_t all[COLUMNS];
    uint32_t state = 1;
    for (int32_t c = 0; c < COLUMNS; c++)
        all[c] = c;
    for (size_t k = 0; k < SOME; k++) {
        state = state * 1664525 + 1013904223;
        const size_t other = k + state % (COLUMNS - k);
        columns[k] = all[other];
        all[other] = all[k];
    }
}

TEST(columns_are_put_in_order_with_values_of_each_size)
{
    static const size_t items[] = {1, 2, 4, 8};
    struct leat_column_word words[COLUMNS / 64 + 1];
    const size_t n_words = leat_column_words(COLUMNS);
    int32_t columns[SOME], made;
    uint8_t bytes[sizeof words / sizeof *words * 64] = {0};
    uint32_t places[SOME];
    uint8_t values[SOME * 8], to[SOME * (8 + 4) + 1];
    draw_columns(columns);
    for (size_t k = 0; k < SOME; k++)
        places[k] = (uint32_t)(SOME - 1 - k);
    for (size_t i = 0; i < sizeof values; i++)
        values[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t i = 0; i < 8; i++) {
        const size_t item = items[i / 2];
        const bool placed = i % 2;
        uint8_t *row = to + placed; /* not aligned */
        assert_int_equal(leat_columns_collect(words, n_words, i % 3 ? bytes : NULL, columns, SOME), SOME);
        for (size_t k = 0; k < sizeof bytes; k++)
            assert_int_equal(bytes[k], 0);
        leat_columns_put(words, columns, placed ? places : NULL, values, item, SOME, row);
        for (size_t k = 0; k < SOME; k++) {
            size_t rank = 0;
            for (size_t other = 0; other < SOME; other++)
                rank += columns[other] < columns[k];
            memcpy(&made, row + SOME * item + rank * sizeof made, sizeof made);
            assert_int_equal(made, columns[k]);
            assert_memory_equal(row + rank * item, values + (placed ? places[k] : k) * item, item);
        }
    }
}

TEST(a_column_that_stands_twice_is_told)
{
    struct leat_column_word words[COLUMNS / 64 + 1];
    const size_t n_words = leat_column_words(COLUMNS);
    int32_t columns[SOME];
    draw_columns(columns);
    assert_int_equal(leat_columns_twice(words, n_words, columns, SOME), SOME);
    columns[200] = columns[100];
    columns[250] = columns[30];
    uint8_t bytes[sizeof words / sizeof *words * 64] = {0};
    assert_int_equal(leat_columns_collect(words, n_words, NULL, columns, SOME), SOME - 2);
    assert_int_equal(leat_columns_collect(words, n_words, bytes, columns, SOME), SOME - 2);
    assert_int_equal(leat_columns_twice(words, n_words, columns, SOME), 200);
    assert_int_equal(leat_columns_collect(words, n_words, NULL, columns, 0), 0);
}

TEST(columns_of_each_type_become_those_of_a_row_and_the_first_beyond_them_is_told)
{
    static const enum leat_dtype types[] = {LEAT_I8,  LEAT_U8,  LEAT_I16, LEAT_U16,
                                            LEAT_I32, LEAT_U32, LEAT_I64, LEAT_U64};
    static const uint64_t beyond[] = {100, UINT64_MAX, UINT64_C(1) << 31, UINT64_C(1) << 32 | 5, UINT64_C(1) << 63};
    uint64_t room[SOME];
    int32_t to[SOME];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t b = 0; b < sizeof beyond / sizeof *beyond; b++) {
            const size_t size = leat_dtype_size(types[t]), at = 7 + 40 * b;
            uint8_t *stored = (uint8_t *)room;
            for (uint64_t k = 0; k < SOME; k++) {
                const uint64_t column = k * 37 % 100;
                memcpy(stored + k * size, &column, size); /* little-endian */
            }
            assert_int_equal(leat_columns_take(types[t], stored, SOME, 100, to), SOME);
            for (int32_t k = 0; k < SOME; k++)
                assert_int_equal(to[k], k * 37 % 100);
            if (b > 1 && size < (b == 2 ? 4 : 8)) /* it has no such number */
                continue;
            memcpy(stored + at * size, &beyond[b], size);
            memcpy(stored + (SOME - 1) * size, &beyond[b], size);
            assert_int_equal(leat_columns_take(types[t], stored, SOME, 100, to), at);
        }
}

/* Parts of so many columns each, that fall. */
static void fall(int32_t columns[SOME], size_t n, size_t each)
{
    for (size_t k = 0; k < n; k++) {
        const size_t begin = k - k % each, end = begin + each < n ? begin + each : n;
        columns[k] = (int32_t)(3 * (begin + end - 1 - k) + 1);
    }
}

TEST(columns_that_fall_in_parts_are_turned_with_values_of_each_size)
{
    static const size_t items[] = {1, 2, 4, 8}, each[] = {8, 9, 15, 16, 17, 31, 130, SOME};
    int32_t columns[SOME], made;
    uint32_t ends[SOME + 1];
    uint8_t values[SOME * 8], to[SOME * (8 + 4) + 1];
    for (size_t i = 0; i < sizeof values; i++)
        values[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t i = 0; i < 4 * 8; i++)
        for (size_t n = SOME - 17; n <= SOME; n++) {
            const size_t item = items[i % 4], part = each[i / 4] < n ? each[i / 4] : n, n_parts = (n + part - 1) / part;
            fall(columns, n, part);
            assert_int_equal(leat_columns_parts(columns, n, ends), n_parts);
            assert_int_equal(ends[n_parts - 1], n);
            to[n * (item + 4)] = 0xa5;
            leat_columns_turn(columns, ends, n_parts, values, item, n, to);
            assert_int_equal(to[n * (item + 4)], 0xa5); /* nothing behind the row is touched */
            for (size_t k = 0; k < n; k++) {
                const size_t rank = (size_t)columns[k] / 3;
                memcpy(&made, to + n * item + rank * sizeof made, sizeof made);
                assert_int_equal(made, columns[k]);
                assert_memory_equal(to + rank * item, values + k * item, item);
            }
        }
}

TEST(columns_that_are_no_parts_which_fall_are_told)
{
    int32_t columns[SOME];
    uint32_t ends[SOME + 1];
    draw_columns(columns);
    assert_int_equal(leat_columns_parts(columns, SOME, ends), 0); /* without order */
    for (size_t k = 1; k < SOME; k++) {
        fall(columns, SOME, 50);
        columns[k] = columns[k - 1];
        assert_int_equal(leat_columns_parts(columns, SOME, ends), 0); /* one that stands twice */
    }
    fall(columns, SOME, 50);
    columns[120] = columns[49]; /* the third part reaches into the first */
    assert_int_equal(leat_columns_parts(columns, SOME, ends), 0);
    fall(columns, SOME, 4);
    assert_int_equal(leat_columns_parts(columns, SOME, ends), 0); /* too short */
}

TEST(a_fall_of_columns_is_seen_wherever_it_is)
{
    int32_t columns[SOME];
    for (int32_t k = 0; k < SOME; k++)
        columns[k] = 3 * k;
    for (size_t n = 0; n <= SOME; n++)
        assert_true(leat_columns_rise(columns, n));
    for (size_t k = 1; k < SOME; k++) {
        const int32_t was = columns[k];
        columns[k] = columns[k - 1];
        assert_false(leat_columns_rise(columns, SOME));
        assert_false(leat_columns_rise(columns, k + 1));
        assert_true(leat_columns_rise(columns, k));
        columns[k] = was;
    }
}

TEST_MAIN_IN(find_others, NULL)
