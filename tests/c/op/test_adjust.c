/*
 * Colors changed by stated amounts: every color there is turned in its hue as Pillow turns it, and lists of steps give
 * the same pixels in one call and one by one, in place, in planes, and on every instruction set. Each kind of step is
 * compared with Pillow in tests/python/test_colors.py.
 */
#include <math.h>

#include "op/adjust.h"
#include "program_helpers.h"

static struct leat_image image_of(uint8_t *base, uint32_t w, uint32_t h, uint32_t channels, bool planar)
{
    struct leat_image image = {.base = base, .dtype = LEAT_U8, .w = w, .h = h, .channels = channels};
    image.column = planar ? 1 : channels;
    image.row = image.column * w;
    image.plane = planar ? image.row * h : 1;
    return image;
}

static uint8_t *scratch_for(const struct leat_image *image)
{
    return aligned_alloc(64, (leat_adjust_scratch(image) + 127) & ~(size_t)63);
}

/* Pillow's conversions in C, as its documentation of mode HSV has them. */
static void turn(const uint8_t in[3], uint8_t shift, uint8_t out[3])
{
    uint8_t r = in[0], g = in[1], b = in[2], most = r > g ? r : g, least = r < g ? r : g, h = 0, s = 0;
    most = most > b ? most : b;
    least = least < b ? least : b;
    if (most != least) {
        float c = (float)(most - least), x = (float)(most - r) / c, y = (float)(most - g) / c,
              z = (float)(most - b) / c;
        float hue = r == most ? z - y : g == most ? (float)(2.0 + x - z) : (float)(4.0 + y - x);
        h = (uint8_t)((double)(float)fmod(hue / 6.0 + 1.0, 1.0) * 255.0);
        s = (uint8_t)((double)(c / (float)most) * 255.0);
    }
    h = (uint8_t)(h + shift);
    if (!s) {
        out[0] = out[1] = out[2] = most;
        return;
    }
    double sixth = h * 6.0 / 255.0, part = sixth - floor(sixth), share = s / 255.0;
    uint8_t p = (uint8_t)floor(most * (1 - share) + 0.5), q = (uint8_t)floor(most * (1 - share * part) + 0.5),
            t = (uint8_t)floor(most * (1 - share * (1 - part)) + 0.5);
    const uint8_t made[6][3] = {{most, t, p}, {q, most, p}, {p, most, t}, {p, q, most}, {t, p, most}, {most, p, q}};
    memcpy(out, made[(int)sixth % 6], 3);
}

TEST(the_hue_of_every_color_is_turned_as_pillow_does)
{
    enum { N = 256 * 256 };
    static uint8_t pixels[N * 3], made[N * 3], wanted[N * 3];
    struct leat_image in = image_of(pixels, 256, 256, 3, false), out = image_of(made, 256, 256, 3, false);
    uint8_t *scratch = scratch_for(&in);
    for (unsigned r = 0; r < 256; r += test_every(5)) { /* to 255 */
        const double amount = (double)(r % 64) / 64 - 0.5;
        for (unsigned i = 0; i < N; i++) {
            pixels[3 * i] = (uint8_t)r;
            pixels[3 * i + 1] = (uint8_t)(i >> 8);
            pixels[3 * i + 2] = (uint8_t)i;
            turn(pixels + 3 * i, (uint8_t)(int)(amount * 255), wanted + 3 * i);
        }
        const struct leat_adjust step = {.kind = LEAT_ADJUST_HUE, .amount = amount};
        for (int isa = LEAT_ISA_PORTABLE; isa <= (int)leat_cpu_isa(); isa++) {
            leat_adjust((enum leat_isa)isa, &step, 1, &in, &out, scratch);
            for (unsigned i = 0; i < N && memcmp(wanted, made, sizeof made); i++) {
                const uint8_t *want = wanted + 3 * i;
                if (memcmp(want, made + 3 * i, 3))
                    fail_msg("(%u, %u, %u) turned by %g is (%u, %u, %u), not (%u, %u, %u)", r, i >> 8, i & 255, amount,
                             made[3 * i], made[3 * i + 1], made[3 * i + 2], want[0], want[1], want[2]);
            }
        }
    }
    free(scratch);
}

enum { KINDS_OF_STEPS = LEAT_ADJUST_PERMUTE + 1, MOST = 24 };

static struct leat_adjust draw_step(uint64_t key, unsigned i, unsigned channels)
{
    struct leat_adjust step = {.kind = (enum leat_adjust_kind)leat_draw_below(key, 10 + 2 * i, KINDS_OF_STEPS)};
    double share = leat_draw_unit(key, 11 + 2 * i);
    step.amount = step.kind == LEAT_ADJUST_HUE         ? share - 0.5
                  : step.kind == LEAT_ADJUST_POSTERIZE ? floor(share * 9)
                  : step.kind == LEAT_ADJUST_SOLARIZE  ? share * 256
                                                       : 2.5 * share;
    for (unsigned c = 0; c < channels; c++)
        step.order[c] = (uint8_t)((c + i) % channels);
    return step;
}

TEST(a_list_gives_what_its_steps_give_one_by_one)
{
    for (uint64_t key = 0; key < 400; key++) {
        uint32_t w = 1 + (uint32_t)leat_draw_below(key, 0, 150), h = 1 + (uint32_t)leat_draw_below(key, 1, 40),
                 channels = 1 + (uint32_t)leat_draw_below(key, 2, 4);
        bool planar = key % 3 == 0;
        unsigned n = (unsigned)leat_draw_below(key, 3, key % 7 ? 5 : MOST);
        size_t bytes = (size_t)w * h * channels;
        uint8_t *pixels = malloc(bytes), *want = malloc(bytes), *got = malloc(bytes);
        paint(pixels, w, h, channels, key);
        struct leat_image in = image_of(pixels, w, h, channels, planar), out = image_of(want, w, h, channels, planar),
                          made = image_of(got, w, h, channels, planar);
        uint8_t *scratch = scratch_for(&in);
        struct leat_adjust steps[MOST];
        memcpy(want, pixels, bytes);
        for (unsigned i = 0; i < n; i++) {
            steps[i] = draw_step(key, i, channels);
            leat_adjust(LEAT_ISA_PORTABLE, &steps[i], 1, &out, &out, scratch);
        }
        for (int isa = LEAT_ISA_PORTABLE; isa <= (int)leat_cpu_isa(); isa++) {
            memset(got, 0xa5, bytes);
            leat_adjust((enum leat_isa)isa, steps, n, &in, &made, scratch);
            assert_memory_equal(want, got, bytes);
        }
        struct leat_image turned = image_of(got, w, h, channels, !planar);
        leat_adjust(leat_cpu_isa(), steps, n, &in, &turned, scratch);
        for (size_t i = 0; i < bytes; i++) {
            size_t c = i % channels, at = i / channels;
            assert_int_equal(got[at * turned.column + c * turned.plane], want[at * out.column + c * out.plane]);
        }
        leat_adjust(leat_cpu_isa(), steps, n, &in, &in, scratch);
        assert_memory_equal(want, pixels, bytes);
        free(scratch);
        free(pixels);
        free(want);
        free(got);
    }
}

TEST(a_step_that_changes_nothing_changes_nothing)
{
    static const struct leat_adjust steps[] = {
        {.kind = LEAT_ADJUST_BRIGHTNESS, .amount = 1},    {.kind = LEAT_ADJUST_CONTRAST, .amount = 1},
        {.kind = LEAT_ADJUST_SATURATION, .amount = 1},    {.kind = LEAT_ADJUST_SHARPNESS, .amount = 1},
        {.kind = LEAT_ADJUST_POSTERIZE, .amount = 8},     {.kind = LEAT_ADJUST_SOLARIZE, .amount = 256},
        {.kind = LEAT_ADJUST_PERMUTE, .order = {0, 1, 2}}};
    uint8_t pixels[70 * 9 * 3], before[sizeof pixels];
    paint(before, 70, 9, 3, 1);
    memcpy(pixels, before, sizeof pixels);
    struct leat_image image = image_of(pixels, 70, 9, 3, false);
    uint8_t *scratch = scratch_for(&image);
    leat_adjust(leat_cpu_isa(), steps, sizeof steps / sizeof *steps, &image, &image, scratch);
    assert_memory_equal(pixels, before, sizeof pixels);
    leat_adjust(leat_cpu_isa(), steps, 0, &image, &image, scratch);
    assert_memory_equal(pixels, before, sizeof pixels);
    free(scratch);
}

TEST_MAIN()
