/*
 * Filters: that each draws from its distribution (and that the test tells a wrong one), that all instruction sets make
 * the same bytes, and what bad arguments give. The pixels are compared with Pillow's in tests/python/test_filters.py.
 */
#include "distributions.h"
#include "program_helpers.h"

/* The operators' own functions, to see what they draw; the program has its own copy of each class. */
#define leat_op_color_jitter copy_of_color_jitter
#include "op/op_color_jitter.c"
#undef leat_op_color_jitter
#define leat_op_gaussian_blur copy_of_gaussian_blur
#include "op/op_gaussian_blur.c"
#undef leat_op_gaussian_blur
#undef FRACTION_BITS
#define leat_op_random_rotation copy_of_random_rotation
#include "op/op_random_rotation.c"
#undef leat_op_random_rotation

TEST(the_factors_of_a_jitter_are_uniform_and_independent)
{
    static const double low[] = {0.6, 0, 0.5, -0.1}, high[] = {1.4, 2.5, 0.75, 0.3};
    struct jitter_args args;
    parse_args(&copy_of_color_jitter,
               "{\"brightness\": 0.4, \"contrast\": 1.5, \"saturation\": [0.5, 0.75], \"hue\": [-0.1, 0.3]}", &args);
    double *values = malloc(DRAWS * sizeof *values);
    for (int kind = 0; kind < KINDS; kind++) {
        for (uint64_t key = 0; key < DRAWS; key++)
            values[key] = draw(&args, key).factor[kind];
        assert_uniform(values, DRAWS, low[kind], high[kind]);
    }
    for (int a = 0; a < KINDS; a++)
        for (int b = 0; b < a; b++) {
            double sum = 0;
            for (uint64_t key = 0; key < DRAWS; key++) {
                struct drawn d = draw(&args, key);
                sum += ((d.factor[a] - low[a]) / (high[a] - low[a]) - 0.5) *
                       ((d.factor[b] - low[b]) / (high[b] - low[b]) - 0.5) * 12;
            }
            assert_true(fabs(sum) < 3.5 * sqrt(DRAWS));
        }
    free(values);
}

TEST(the_order_of_a_jitter_is_any_of_24_alike)
{
    struct jitter_args args = {0};
    unsigned right[256] = {0}, wrong[256] = {0}, packed[2][24] = {{0}}, n = 0;
    for (uint64_t key = 0; key < DRAWS; key++) {
        struct drawn d = draw(&args, key);
        right[d.order[0] | d.order[1] << 2 | d.order[2] << 4 | d.order[3] << 6]++;
        unsigned order[KINDS] = {0, 1, 2, 3}; /* each place with any other: the usual mistake */
        for (unsigned i = 0; i < KINDS; i++) {
            uint64_t k = leat_draw_below(key, i, KINDS);
            unsigned last = order[i];
            order[i] = order[k];
            order[k] = last;
        }
        wrong[order[0] | order[1] << 2 | order[2] << 4 | order[3] << 6]++;
    }
    for (unsigned i = 0; i < 256; i++)
        if (right[i] || wrong[i]) {
            assert_true(n < 24);
            packed[0][n] = right[i];
            packed[1][n++] = wrong[i];
        }
    assert_int_equal(n, 24); /* 23 degrees of freedom: 50 is exceeded once in a thousand */
    assert_true(chi_square(packed[0], 24, DRAWS / 24.0) < 50);
    assert_true(chi_square(packed[1], 24, DRAWS / 24.0) > 50);
}

TEST(sigma_of_a_blur_and_the_angle_of_a_rotation_are_uniform)
{
    uint64_t args[512];
    double *values = malloc(DRAWS * sizeof *values);
    parse_args(&copy_of_gaussian_blur, "{\"kernel_size\": 5}", args);
    for (uint64_t key = 0; key < DRAWS; key++)
        values[key] = draw_sigma((const void *)args, key);
    assert_uniform(values, DRAWS, 0.1, 2.0);
    parse_args(&copy_of_random_rotation, "{\"degrees\": 30}", args);
    for (uint64_t key = 0; key < DRAWS; key++)
        values[key] = draw_angle((const void *)args, key);
    assert_uniform(values, DRAWS, -30, 30);
    parse_args(&copy_of_random_rotation, "{\"degrees\": [10, 11]}", args);
    for (uint64_t key = 0; key < DRAWS; key++)
        values[key] = draw_angle((const void *)args, key);
    assert_uniform(values, DRAWS, 10, 11);
    free(values);
}

/* What filters draw is part of the plan version. */
TEST(draws_of_filters_never_change)
{
    uint64_t blur[512], turn[512], hash = 0;
    struct jitter_args jitter;
    parse_args(&copy_of_color_jitter, "{\"brightness\": 0.4, \"contrast\": 0.4, \"saturation\": 0.4, \"hue\": 0.1}",
               &jitter);
    parse_args(&copy_of_gaussian_blur, "{\"kernel_size\": 5}", blur);
    parse_args(&copy_of_random_rotation, "{\"degrees\": 30}", turn);
    for (uint64_t key = 0; key < 2000; key++) {
        struct drawn d = draw(&jitter, key);
        double numbers[] = {d.factor[0],
                            d.factor[1],
                            d.factor[2],
                            d.factor[3],
                            d.order[0] + 4 * d.order[1] + 16 * d.order[2],
                            draw_sigma((const void *)blur, key),
                            draw_angle((const void *)turn, key)};
        hash = leat_key_mix(hash, leat_hash64(numbers, sizeof numbers));
    }
    if (hash != UINT64_C(0x256572692774cb7e))
        fail_msg("the draws hash to %016" PRIx64, hash);
}

/* A filter over images of many sizes, HWC and CHW, on every instruction set. */
TEST(filters_give_the_same_bytes_on_all_instruction_sets)
{
    static const struct {
        const struct leat_op_class *class;
        const char *json;
    } ops[] = {{&leat_op_gaussian_blur, "{\"kernel_size\": [23, 5]}"},
               {&leat_op_gaussian_blur, "{\"kernel_size\": 91, \"sigma\": [0.1, 40]}"},
               {&leat_op_random_rotation, "{\"degrees\": 180, \"fill\": 77}"},
               {&leat_op_random_rotate_90, "{}"},
               {&leat_op_random_rotation,
                "{\"degrees\": 400, \"interpolation\": \"bilinear\", \"expand\": true, \"center\": [3, 60]}"}};
    uint64_t args[512];
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
        assert_true(ops[o].class->args_bytes <= sizeof args);
        parse_args(ops[o].class, ops[o].json, args);
        for (uint64_t key = 0; key < 60; key++) {
            uint32_t w = 1 + (uint32_t)leat_draw_below(key, 0, 150), h = 1 + (uint32_t)leat_draw_below(key, 1, 40),
                     channels = key % 3 ? 3 : 1;
            bool planar = key % 5 == 0;
            size_t bytes = (size_t)w * h * channels;
            uint8_t *pixels = malloc(bytes), *want = NULL;
            paint(pixels, w, h, channels, key);
            struct leat_image in = {.base = pixels, .dtype = LEAT_U8, .w = w, .h = h, .channels = channels};
            in.column = planar ? 1 : channels;
            in.row = in.column * w;
            in.plane = planar ? in.row * h : 1;
            struct leat_filter_plan plan = {.w = w, .h = h};
            if (ops[o].class->plan)
                ops[o].class->plan(args, key, &in, &plan);
            struct leat_image out = in;
            out.w = plan.w;
            out.h = plan.h;
            out.row = out.column * plan.w;
            out.plane = planar ? out.row * plan.h : 1;
            size_t out_bytes = (size_t)plan.w * plan.h * channels;
            uint8_t *scratch = aligned_alloc(64, (plan.scratch + 64) & ~(size_t)63);
            for (int isa = LEAT_ISA_PORTABLE; isa <= (int)leat_cpu_isa(); isa++) {
                out.base = malloc(out_bytes);
                memset(out.base, isa ? 0xa5 : 0x5a, out_bytes);
                ops[o].class->filter((enum leat_isa)isa, args, key, &in, &out, scratch);
                if (want)
                    assert_memory_equal(want, out.base, out_bytes);
                if (want)
                    free(out.base);
                else
                    want = out.base;
            }
            free(scratch);
            free(want);
            free(pixels);
        }
        if (ops[o].class->end)
            ops[o].class->end(args);
    }
}

/* Colors behind a padded crop change its padding, too. Where the crop comes behind them, the fill is not changed. */
TEST(the_padding_of_a_crop_is_changed_by_what_follows_it)
{
    enum { W = 21, H = 13, C = 3 };
    static const char *const jitter = "{\"type\": \"ColorJitter\", \"brightness\": [0.5, 2]}",
                             *const crop =
                                 "{\"type\": \"RandomCrop\", \"size\": [9, 30], \"padding\": 5, \"fill\": [100]}";
    struct leat_field field = field_of("x", LEAT_KIND_ARRAY, LEAT_U8, LEAT_LAYOUT_HWC, 3, (const int64_t[]){H, W, C});
    struct jitter_args args;
    parse_args(&copy_of_color_jitter, "{\"brightness\": [0.5, 2]}", &args);
    uint8_t pixels[H * W * C];
    paint(pixels, W, H, C, 3);
    float *out = malloc(9 * 30 * C * sizeof *out);
    for (uint64_t key = 0; key < 100; key++) {
        char chain[600];
        bool first = key & 1;
        snprintf(chain, sizeof chain, "%s, %s, {\"type\": \"Normalize\", \"mean\": [0.5], \"std\": [0.25]}",
                 first ? jitter : crop, first ? crop : jitter);
        struct leat_program *program = must_compile(&field, chain);
        struct leat_move box;
        assert_int_equal(
            draw_of(&leat_op_random_crop, "{\"size\": [9, 30], \"padding\": 5}", "x/RandomCrop/0", key, W, H, &box), 0);
        float factor = (float)draw(&args, leat_key_mix(key, leat_hash64("x/ColorJitter/0", 15))).factor[BRIGHTNESS];
        must_apply(program, pixels, sizeof pixels, key, out);
        for (int c = 0; c < C; c++)
            for (int y = 0; y < 9; y++)
                for (int x = 0; x < 30; x++) {
                    int64_t sx = box.x + x, sy = box.y + y;
                    bool inside = sx >= 0 && sy >= 0 && sx < W && sy < H;
                    int v = inside ? pixels[(sy * W + sx) * C + c] : 100;
                    if (inside || !first)
                        v = (uint8_t)fminf((float)v * factor, 255);
                    assert_true(out[(c * 9 + y) * 30 + x] == (float)((v / 255.0 - 0.5) / 0.25));
                }
        leat_program_free(program);
    }
    free(out);
}

TEST(a_box_as_large_as_the_image_is_not_erased)
{
    enum { SIDE = 12 };
    struct leat_field field =
        field_of("x", LEAT_KIND_ARRAY, LEAT_U8, LEAT_LAYOUT_HWC, 3, (const int64_t[]){SIDE, SIDE, 1});
    struct leat_program *program = must_compile(&field, "{\"type\": \"RandomErasing\", \"p\": 1, \"scale\": [1, 1], "
                                                        "\"ratio\": [1, 1]}");
    uint8_t pixels[SIDE * SIDE], out[SIDE * SIDE];
    memset(pixels, 9, sizeof pixels);
    must_apply(program, pixels, sizeof pixels, 1, out);
    assert_memory_equal(out, pixels, sizeof pixels);
    leat_program_free(program);
}

/* Crops of one name, of an image and of its mask, with the paddings that are given. */
static int compile_two_crops(const int padding[2][4], struct leat_error *error)
{
    const struct leat_field fields[] = {
        field_of("image", LEAT_KIND_ARRAY, LEAT_U8, LEAT_LAYOUT_HWC, 3, (const int64_t[]){9, 9, 3}),
        field_of("mask", LEAT_KIND_ARRAY, LEAT_U8, LEAT_LAYOUT_HWC, 3, (const int64_t[]){9, 9, 1})};
    struct leat_program *program;
    char text[1024] = "{\"operators\": {";
    for (int i = 0; i < 2; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "%s\"%d\": {\"type\": \"RandomCrop\", \"name\": \"crop\", \"size\": [8, 8], \"fill\": %d, "
                 "\"padding\": [%d, %d, %d, %d]}",
                 i ? ", " : "", i, i, padding[i][0], padding[i][1], padding[i][2], padding[i][3]);
    snprintf(text + strlen(text), sizeof text - strlen(text),
             "}, \"outputs\": {\"image\": {\"field\": \"image\", \"chain\": [\"0\"]}, \"mask\": {\"field\": "
             "\"mask\", \"chain\": [\"1\"]}}}");
    const int rc = leat_program_compile(fields, 2, text, NULL, 0, false, &program, error);
    if (!rc)
        leat_program_free(program);
    return rc;
}

TEST(crops_of_one_name_have_the_same_padding_on_each_side)
{
    struct leat_error error;
    int padding[2][4] = {{1, 2, 3, 4}, {1, 2, 3, 4}};
    assert_ok(compile_two_crops(padding, &error)); /* the value of the padding is no part of the draw */
    for (int side = 0; side < 4; side++) {
        padding[1][side]++;
        assert_int_equal(compile_two_crops(padding, &error), LEAT_E_INVALID);
        assert_non_null(strstr(error.message, "both named \"crop\""));
        padding[1][side]--;
    }
}

TEST(bad_arguments_are_named)
{
    struct leat_field rgb = field_of("x", LEAT_KIND_ARRAY, LEAT_U8, LEAT_LAYOUT_HWC, 3, (const int64_t[]){8, 8, 3});
    struct leat_field two = field_of("x", LEAT_KIND_ARRAY, LEAT_U8, LEAT_LAYOUT_HWC, 3, (const int64_t[]){8, 8, 2});
    struct leat_field real = field_of("x", LEAT_KIND_ARRAY, LEAT_F32, LEAT_LAYOUT_HWC, 3, (const int64_t[]){8, 8, 3});
    const struct {
        const struct leat_field *field;
        const char *chain, *message;
    } cases[] = {
        {&rgb, "{\"type\": \"ColorJitter\", \"brightness\": -1}", "ColorJitter: brightness must be a number from 0"},
        {&rgb, "{\"type\": \"ColorJitter\", \"contrast\": [2, 1]}", "ColorJitter: contrast must be"},
        {&rgb, "{\"type\": \"ColorJitter\", \"hue\": 0.6}", "ColorJitter: hue must be a number from 0 to 0.5"},
        {&rgb, "{\"type\": \"GaussianBlur\"}", "GaussianBlur: kernel_size must be an odd number"},
        {&rgb, "{\"type\": \"GaussianBlur\", \"kernel_size\": [3, 4]}",
         "GaussianBlur: kernel_size must be an odd number"},
        {&rgb, "{\"type\": \"GaussianBlur\", \"kernel_size\": 3, \"sigma\": [0, 1]}", "GaussianBlur: sigma must be"},
        {&real, "{\"type\": \"GaussianBlur\", \"kernel_size\": 3}", "GaussianBlur in output 'x' takes a uint8 image"},
        {&rgb, "{\"type\": \"RandomRotation\", \"degrees\": -3}", "RandomRotation: degrees must be"},
        {&rgb, "{\"type\": \"RandomRotation\", \"degrees\": 3, \"fill\": [1, 2]}", "one fill, or one per channel"},
        {&rgb, "{\"type\": \"RandomRotation\", \"degrees\": 3, \"expand\": true}",
         "images of open size, which do not stack into a batch: put Resize([height, width]), CenterCrop or another "
         "crop after"},
        {&two, "{\"type\": \"ColorJitter\", \"hue\": 0.1}",
         "ColorJitter in output 'x' takes an image of 1 or 3 channels"},
        {&real, "{\"type\": \"ColorJitter\", \"hue\": 0.1}", "ColorJitter in output 'x' takes a uint8 image"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct leat_error error = {0};
        struct leat_program *program;
        assert_int_not_equal(compile_chain(cases[i].field, cases[i].chain, &program, &error), LEAT_OK);
        if (!strstr(error.message, cases[i].message))
            fail_msg("case %zu: %s", i, error.message);
    }
}

TEST_MAIN()
