/* What operators draw that turn, move or bend an image: that each draw has its distribution (and that the test tells a
 * wrong one), that draws are independent, and that they never change. */
#include "distributions.h"
#include "program_helpers.h"

/* The operators' own functions; the program has its own copy of each class. */
#define leat_op_random_affine copy_of_random_affine
#include "op/op_random_affine.c"
#undef leat_op_random_affine
#define leat_op_random_perspective copy_of_random_perspective
#include "op/op_random_perspective.c"
#undef leat_op_random_perspective

#define leat_op_elastic_transform copy_of_elastic_transform
#include "op/op_elastic_transform.c"
#undef leat_op_elastic_transform

/* What an affine has drawn, from its matrix: angle, scale, shear of x in degrees (that of y is 0). */
static void take_apart(const double m[6], double found[3])
{
    double det = m[0] * m[4] - m[1] * m[3], a = m[4] / det, b = -m[1] / det, c = -m[3] / det, d = m[0] / det;
    double scale = hypot(a, c);
    found[0] = atan2(c, a) * 180 / M_PI;
    found[1] = scale;
    found[2] = -atan((a * b + c * d) / (scale * scale)) * 180 / M_PI;
}

static void assert_independent(const double *a, const double *b, size_t n)
{
    double ma = 0, mb = 0, ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ma += a[i] / (double)n;
        mb += b[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        ab += (a[i] - ma) * (b[i] - mb);
        aa += (a[i] - ma) * (a[i] - ma);
        bb += (b[i] - mb) * (b[i] - mb);
    }
    assert_true(fabs(ab / sqrt(aa * bb)) * sqrt((double)n) < 3.5);
}

TEST(angle_scale_and_shear_of_an_affine_are_uniform_and_independent)
{
    static const double low[] = {-30, 0.5, 4}, high[] = {30, 1.75, 12};
    struct affine_args args;
    parse_args(&copy_of_random_affine, "{\"degrees\": 30, \"scale\": [0.5, 1.75], \"shear\": [4, 12]}", &args);
    double *values[3];
    for (int v = 0; v < 3; v++)
        values[v] = malloc(DRAWS * sizeof **values);
    for (uint64_t key = 0; key < DRAWS; key++) {
        double m[6], found[3];
        draw_affine(&args, key, 100, 60, m);
        take_apart(m, found);
        for (int v = 0; v < 3; v++)
            values[v][key] = found[v];
    }
    for (int v = 0; v < 3; v++)
        for (int other = 0; other < v; other++)
            assert_independent(values[v], values[other], DRAWS);
    for (int v = 0; v < 3; v++) {
        assert_uniform(values[v], DRAWS, low[v], high[v]);
        free(values[v]);
    }
}

/* Whole pixels, of a uniform number that is rounded: the two ends have half the weight of the others. */
TEST(the_shift_of_an_affine_is_a_rounded_uniform_number)
{
    unsigned counts[2][25] = {{0}};
    for (uint64_t key = 0; key < DRAWS; key++) {
        counts[0][12 + (int)draw_shift(key, 1, 0.12, 100)]++;
        counts[1][12 + (int)leat_draw_below(key, 1, 25) - 12]++; /* the usual mistake */
    }
    double sums[2] = {0};
    for (int wrong = 0; wrong < 2; wrong++)
        for (int i = 0; i < 25; i++) {
            double want = DRAWS / 24.0 * (i == 0 || i == 24 ? 0.5 : 1), by = counts[wrong][i] - want;
            sums[wrong] += by * by / want;
        }
    assert_true(sums[0] < 52); /* 24 degrees of freedom: exceeded once in a thousand */
    assert_true(sums[1] > 52);
}

TEST(the_corners_of_a_perspective_are_any_pixel_of_their_part)
{
    struct perspective_args args;
    parse_args(&copy_of_random_perspective, "{\"distortion_scale\": 0.4}", &args);
    enum { W = 100, H = 61, N_X = 21, N_Y = 13 }; /* int(0.4 * 50) + 1, int(0.4 * 30) + 1 */
    static unsigned counts[4][2][W];
    static double first[DRAWS], second[DRAWS];
    for (uint64_t key = 0; key < DRAWS; key++) {
        double to[4][2];
        draw_corners(&args, key, W, H, to);
        for (int c = 0; c < 4; c++)
            for (int axis = 0; axis < 2; axis++)
                counts[c][axis][(int)to[c][axis]]++;
        first[key] = to[0][0];
        second[key] = to[2][1];
    }
    assert_independent(first, second, DRAWS);
    for (int c = 0; c < 4; c++)
        for (int axis = 0; axis < 2; axis++) {
            bool far = axis ? c >= 2 : c == 1 || c == 2;
            unsigned n = axis ? N_Y : N_X, from = far ? (axis ? H : W) - n : 0, all = 0;
            for (unsigned i = 0; i < n; i++)
                all += counts[c][axis][from + i];
            assert_int_equal(all, DRAWS); /* none elsewhere */
            assert_true(chi_square(counts[c][axis] + from, n, (double)DRAWS / n) < (axis ? 33 : 46));
            assert_true(chi_square(counts[c][axis] + from, n - 1, (double)DRAWS / (n - 1)) > 46);
        }
}

TEST(a_perspective_is_drawn_as_often_as_p_says)
{
    struct perspective_args args;
    parse_args(&copy_of_random_perspective, "{\"p\": 0.3}", &args);
    unsigned skipped = 0;
    for (uint64_t key = 0; key < DRAWS; key++)
        skipped += skips(&args, key);
    assert_true(fabs(skipped - 0.7 * DRAWS) < 3.3 * sqrt(DRAWS * 0.21));
}

TEST(corners_that_meet_leave_the_image_as_it_is)
{
    struct perspective_args args;
    parse_args(&copy_of_random_perspective, "{\"distortion_scale\": 1}", &args);
    double m[8];
    draw_perspective(&args, 5, 1, 9, m); /* the corners of one column are the same two */
    for (int i = 0; i < 8; i++)
        assert_true(m[i] == (i == 0 || i == 4));
}

TEST(the_noise_of_an_elastic_transform_is_uniform_and_independent)
{
    static double noise[2][DRAWS], below[DRAWS];
    for (int64_t i = 0; i < DRAWS; i++) {
        for (unsigned axis = 0; axis < 2; axis++)
            noise[axis][i] = (double)noise_at(5, axis, i % 100, i / 100, 100, 200);
        below[i] = (double)noise_at(5, 0, i % 100, i / 100 + 1, 100, 201);
    }
    assert_independent(noise[0], noise[1], DRAWS);
    assert_independent(noise[0], below, DRAWS);
    for (unsigned axis = 0; axis < 2; axis++)
        assert_uniform(noise[axis], DRAWS, -1, 1);
}

/* The definition, in doubles: where the pixel at (x, y) comes from. */
static double slow_displacement(const struct elastic_args *args, uint64_t key, unsigned axis, int x, int y, uint32_t w,
                                uint32_t h)
{
    int size = (int)(8 * args->sigma[axis] + 1), reach = size / 2;
    double sum = 0, weights = 0;
    for (int dy = -reach; dy <= reach; dy++)
        for (int dx = -reach; dx <= reach; dx++) {
            double a = dx / args->sigma[0], b = dy / args->sigma[1], weight = exp(-0.5 * (a * a + b * b));
            weights += weight;
            sum += weight * (double)noise_at(key, axis, x + dx, y + dy, w, h);
        }
    return sum / weights * args->alpha[axis] / 2;
}

/* torch.nn.functional.grid_sample of the image and of a mask of ones, with zeros outside, as torchvision puts them
 * together. */
static double slow_pixel(const struct leat_image *in, double x, double y, unsigned c, double fill)
{
    double value = 0, mask = 0;
    for (int64_t row = (int64_t)floor(y); row <= (int64_t)floor(y) + 1; row++)
        for (int64_t column = (int64_t)floor(x); column <= (int64_t)floor(x) + 1; column++) {
            double weight = (1 - fabs(x - (double)column)) * (1 - fabs(y - (double)row));
            if (row < 0 || column < 0 || row >= in->h || column >= in->w)
                continue;
            value += weight * in->base[(size_t)row * in->row + (size_t)column * in->column + c * in->plane];
            mask += weight;
        }
    return value * mask + (1 - mask) * fill;
}

TEST(an_elastic_transform_is_that_of_its_definition)
{
    static const char *const cases[] = {"{\"alpha\": 60, \"sigma\": 3, \"fill\": 200}",
                                        "{\"alpha\": [9, -300], \"sigma\": [1.3, 4.2]}",
                                        "{\"alpha\": [5, 20], \"sigma\": [2.5, 0.4], \"fill\": [1, 99, 7]}"};
    for (uint64_t key = 0; key < 24; key++) {
        struct elastic_args args;
        parse_args(&copy_of_elastic_transform, cases[key % 3], &args);
        const uint32_t w = 1 + (uint32_t)leat_draw_below(key, 1, 90), h = 1 + (uint32_t)leat_draw_below(key, 2, 30);
        const bool planar = key % 4 == 3;
        const size_t bytes = (size_t)w * h * 3;
        uint8_t *pixels = malloc(bytes), *want = NULL, fill[LEAT_MAX_CHANNELS];
        paint(pixels, w, h, 3, key);
        struct leat_image in = {.base = pixels, .dtype = LEAT_U8, .w = w, .h = h, .channels = 3};
        in.column = planar ? 1 : 3;
        in.row = in.column * w;
        in.plane = planar ? in.row * h : 1;
        leat_fill_bytes(&args.fill, &in, fill);
        struct leat_filter_plan plan = {.w = w, .h = h};
        plan_elastic(&args, key, &in, &plan);
        uint8_t *scratch = aligned_alloc(64, plan.scratch + 64);
        for (int isa = LEAT_ISA_PORTABLE; isa <= (int)leat_cpu_isa(); isa++) {
            struct leat_image out = in;
            out.base = malloc(bytes);
            memset(scratch, 0xff, plan.scratch);
            bend_on((enum leat_isa)isa, &args, key, &in, &out, scratch);
            if (want) {
                assert_memory_equal(want, out.base, bytes);
                free(out.base);
            } else {
                want = out.base;
            }
        }
        struct leat_turn turn = {.w = w, .h = h, .out_w = w, .out_h = h};
        turn_elastic(&args, key, &turn);
        for (uint32_t y = 0; y < h; y += 1 + y % 3)
            for (uint32_t x = 0; x < w; x += 1 + x % 4) {
                double dx = slow_displacement(&args, key, 0, (int)x, (int)y, w, h),
                       dy = slow_displacement(&args, key, 1, (int)x, (int)y, w, h);
                float to[2];
                turn.point(&turn, false, (float)x + 0.2F, (float)y + 0.3F, to);
                assert_true(isfinite(to[0]) && isfinite(to[1]));
                if (fabs(dx) < 0.15 && fabs(dy) < 0.15) /* it stays in its pixel, so that one step is all */
                    assert_true(fabs((double)to[0] - (x + 0.2 - dx)) < 1e-3 &&
                                fabs((double)to[1] - (y + 0.3 - dy)) < 1e-3);
                turn.point(&turn, true, (float)x - 0.4F, (float)y - 0.3F, to);
                assert_true(fabs((double)to[0] - (x - dx)) < 1e-3 && fabs((double)to[1] - (y - dy)) < 1e-3);
                for (unsigned c = 0; c < 3; c++) {
                    double exact = slow_pixel(&in, x + dx, y + dy, c, fill[c]);
                    double got = want[y * in.row + x * in.column + c * in.plane];
                    if (fabs(got - exact) > 1)
                        fail_msg("key %d at (%u, %u) of channel %u: %g, not %g", (int)key, x, y, c, got, exact);
                }
            }
        free(scratch);
        free(want);
        free(pixels);
    }
}

/* What is drawn is part of the plan version. */
TEST(draws_of_warps_never_change)
{
    uint64_t hash = 0;
    struct affine_args affine;
    struct perspective_args perspective;
    parse_args(&copy_of_random_affine,
               "{\"degrees\": 30, \"translate\": [0.1, 0.2], \"scale\": [0.5, 1.75], \"shear\": [-3, 4, 5, 6]}",
               &affine);
    parse_args(&copy_of_random_perspective, "{}", &perspective);
    for (uint64_t key = 0; key < 2000; key++) {
        double numbers[16], corners[4][2];
        draw_affine(&affine, key, 300, 200, numbers);
        draw_corners(&perspective, key, 300, 200, corners);
        memcpy(numbers + 6, corners, sizeof corners);
        for (unsigned axis = 0; axis < 2; axis++)
            numbers[14 + axis] = (double)noise_at(key, axis, 7, 3, 300, 200);
        for (int i = 0; i < 6; i++) /* of the matrix what does not hang on the last bits */
            numbers[i] = rint(numbers[i] * 1e9);
        hash = leat_key_mix(hash, leat_hash64(numbers, sizeof numbers));
    }
    if (hash != UINT64_C(0x24e8dec0fb4095da))
        fail_msg("the draws hash to %016" PRIx64, hash);
}

TEST_MAIN()
