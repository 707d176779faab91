/* Images turned and seen from the side: that all instruction sets make the same bytes, and that a plain reference in
 * doubles makes them too. Against Pillow: tests/python/test_geometry.py. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "op/affine.h"
#include "program_helpers.h"

struct made {
    struct leat_image image;
    uint8_t *pixels;
    size_t bytes;
};

static struct made new_image(uint32_t w, uint32_t h, uint32_t channels, bool planar)
{
    struct made m = {.bytes = (size_t)w * h * channels};
    m.pixels = malloc(m.bytes); /* no byte more than there are: what is read beyond is found by the sanitizer */
    m.image = (struct leat_image){.base = m.pixels, .dtype = LEAT_U8, .w = w, .h = h, .channels = channels};
    m.image.column = planar ? 1 : channels;
    m.image.row = m.image.column * w;
    m.image.plane = planar ? m.image.row * h : 1;
    return m;
}

static double clipped(const struct leat_image *in, int64_t x, int64_t y, unsigned c)
{
    x = x < 0 ? 0 : x < in->w ? x : in->w - 1;
    y = y < 0 ? 0 : y < in->h ? y : in->h - 1;
    return in->base[(size_t)y * in->row + (size_t)x * in->column + c * in->plane];
}

static double cubic(double d)
{
    d = fabs(d);
    return d < 1 ? (d - 2) * d * d + 1 : d < 2 ? ((-d + 5) * d - 8) * d + 4 : 0;
}

/* Channel c of the pixel at (x, y), -1 for the fill. */
static double reference(const struct leat_image *in, double x, double y, unsigned c, enum leat_filter filter)
{
    if (!(x >= 0 && y >= 0 && x < in->w && y < in->h))
        return -1;
    if (filter == LEAT_FILTER_NEAREST)
        return clipped(in, (int64_t)x, (int64_t)y, c);
    int reach = filter == LEAT_FILTER_BILINEAR ? 1 : 2;
    int64_t x0 = (int64_t)floor(x - 0.5), y0 = (int64_t)floor(y - 0.5);
    double sum = 0;
    for (int64_t yy = y0 - reach + 1; yy <= y0 + reach; yy++)
        for (int64_t xx = x0 - reach + 1; xx <= x0 + reach; xx++) {
            double dx = x - 0.5 - (double)xx, dy = y - 0.5 - (double)yy;
            sum += clipped(in, xx, yy, c) * (reach == 1 ? (1 - fabs(dx)) * (1 - fabs(dy)) : cubic(dx) * cubic(dy));
        }
    return fmin(fmax(sum, 0), 255);
}

TEST(a_warped_image_is_that_of_doubles_on_all_instruction_sets)
{
    static const enum leat_filter filters[] = {LEAT_FILTER_NEAREST, LEAT_FILTER_BILINEAR, LEAT_FILTER_BICUBIC};
    const uint8_t fill[4] = {7, 99, 200, 3};
    for (uint64_t key = 0; key < 400; key++) {
        uint64_t side = key % 7 == 0 ? 6 : 90;
        struct made in =
            new_image(1 + (uint32_t)leat_draw_below(key, 0, side), 1 + (uint32_t)leat_draw_below(key, 1, side),
                      1 + (uint32_t)leat_draw_below(key, 2, 4), key % 5 == 0);
        uint32_t w = 1 + (uint32_t)leat_draw_below(key, 3, 150), h = 1 + (uint32_t)leat_draw_below(key, 4, 30);
        paint(in.pixels, in.image.w, in.image.h, in.image.channels, key);
        double m[8] = {0}, angle = 6.3 * leat_draw_unit(key, 5), scale = pow(2, 4 * leat_draw_unit(key, 6) - 2);
        bool side_view = key & 1;
        m[0] = cos(angle) * scale;
        m[1] = key % 3 ? sin(angle) : 0;
        m[3] = key % 3 ? -sin(angle) : 0;
        m[4] = cos(angle);
        m[2] = 60 * leat_draw_unit(key, 7) - 20;
        m[5] = 60 * leat_draw_unit(key, 8) - 20;
        m[6] = side_view ? (leat_draw_unit(key, 9) - 0.5) / 60 : 0;
        m[7] = side_view ? (leat_draw_unit(key, 10) - 0.5) / 60 : 0;
        for (unsigned f = 0; f < 3; f++) {
            struct made want = {0};
            for (int isa = LEAT_ISA_PORTABLE; isa <= (int)leat_cpu_isa(); isa++) {
                struct made out = new_image(w, h, in.image.channels, key % 5 == 0);
                memset(out.pixels, isa ? 0xa5 : 0x5a, out.bytes);
                if (side_view)
                    leat_perspective((enum leat_isa)isa, &in.image, &out.image, m, filters[f], fill);
                else
                    leat_affine((enum leat_isa)isa, &in.image, &out.image, m, filters[f], fill);
                if (isa) {
                    assert_memory_equal(out.pixels, want.pixels, out.bytes);
                    free(out.pixels);
                } else
                    want = out;
            }
            for (uint32_t y = 0; y < h; y++)
                for (uint32_t x = 0; x < w; x++) {
                    double xx = x + 0.5, yy = y + 0.5, by = m[6] * xx + m[7] * yy + 1;
                    double sx = (m[0] * xx + m[1] * yy + m[2]) / by, sy = (m[3] * xx + m[4] * yy + m[5]) / by;
                    if (filters[f] == LEAT_FILTER_NEAREST || side_view) /* in fixed point it may be the next one */
                        if (fabs(sx - rint(sx)) < 0.01 || fabs(sy - rint(sy)) < 0.01)
                            continue;
                    for (unsigned c = 0; c < in.image.channels; c++) {
                        double v = reference(&in.image, sx, sy, c, filters[f]), got = clipped(&want.image, x, y, c);
                        if (fabs(got - (v < 0 ? fill[c] : v)) > (filters[f] == LEAT_FILTER_NEAREST ? 0 : 1.2))
                            fail_msg("key %d filter %u at (%u, %u) of channel %u: %g, not %g", (int)key, f, x, y, c,
                                     got, v);
                    }
                }
            free(want.pixels);
        }
        free(in.pixels);
    }
}

TEST(places_far_outside_and_none_at_all_are_filled)
{
    const uint8_t fill[4] = {9, 8, 7, 6};
    struct made in = new_image(20, 20, 3, false), out = new_image(70, 3, 3, false);
    paint(in.pixels, 20, 20, 3, 1);
    static const double maps[][8] = {{1e9, 0, 1e15, 0, 1, 0},
                                     {-1e300, 1e300, -1e300, 1e300, 1, -1e308},
                                     {1, 0, 0, 0, 1, 1e18},
                                     {0, 0, 0, 0, 0, 0, 0, -2}, /* 0 / 0 in the first row */
                                     {1, 0, -5000000000, 0, 1, 0}};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        for (int isa = LEAT_ISA_PORTABLE; isa <= (int)leat_cpu_isa(); isa++) {
            if (i == 3)
                leat_perspective((enum leat_isa)isa, &in.image, &out.image, maps[i], LEAT_FILTER_BILINEAR, fill);
            else
                leat_affine((enum leat_isa)isa, &in.image, &out.image, maps[i], LEAT_FILTER_BILINEAR, fill);
            for (size_t at = 0; at < (i == 3 ? 70 * 3 : out.bytes); at++)
                assert_int_equal(out.pixels[at], fill[at % 3]);
            if (i != 3)
                leat_affine((enum leat_isa)isa, &in.image, &out.image, maps[i], LEAT_FILTER_NEAREST, fill);
            for (size_t at = 0; at < (i == 3 ? 70 * 3 : out.bytes); at++)
                assert_int_equal(out.pixels[at], fill[at % 3]);
        }
    free(in.pixels);
    free(out.pixels);
}

TEST_MAIN()
