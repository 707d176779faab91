/* Upsampling and colours of each instruction set against libjpeg's arithmetic, written out plainly. */
#include "../../test.h"

#include "base/random.h"
#include "codec/jpeg/pixels.h"

static const struct leat_jpeg_pixels *kernels[3];
static unsigned n_kernels;

static int find_kernels(void **state)
{
    for (int isa = LEAT_ISA_PORTABLE; isa <= (int)leat_cpu_isa(); isa++)
        kernels[n_kernels++] = leat_jpeg_pixels((enum leat_isa)isa);
    return 0;
}

static uint8_t limited(int v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Factors times 2^16, rounded: of 1.402, 0.34414, 0.71414 and 1.772. */
static void expected_colour(int y, int cb, int cr, uint8_t pixel[4])
{
    pixel[0] = limited(y + ((91881 * (cr - 128) + 32768) >> 16));
    pixel[1] = limited(y + ((-22554 * (cb - 128) - 46802 * (cr - 128) + 32768) >> 16));
    pixel[2] = limited(y + ((116130 * (cb - 128) + 32768) >> 16));
    pixel[3] = 255;
}

TEST(every_colour_is_libjpegs)
{
    /* for each Cb and Cr all 256 values of Y */
    static uint8_t y[256 + 64], cb[256 + 64], cr[256 + 64], out[4 * 256 + 256], expected[4 * 256];
    for (unsigned i = 0; i < 256; i++)
        y[i] = (uint8_t)i;
    for (int pair = 0; pair < 65536; pair++) {
        memset(cb, pair >> 8, 256);
        memset(cr, pair & 255, 256);
        for (int i = 0; i < 256; i++)
            expected_colour(i, pair >> 8, pair & 255, expected + 4 * i);
        for (unsigned k = 0; k < n_kernels; k++) {
            const struct leat_jpeg_samples chroma[2] = {{cb, NULL}, {cr, NULL}};
            kernels[k]->ycc(y, chroma, 256, out);
            if (memcmp(out, expected, sizeof expected))
                fail_msg("isa %u, Cb %d, Cr %d", k, pair >> 8, pair & 255);
        }
    }
}

/* Rows of n random samples in memory of exactly the size that pixels.h promises to be enough; [-1] exists. */
static uint8_t *row_of(uint64_t key, size_t n)
{
    uint8_t *row = malloc(1 + n + 64);
    assert_non_null(row);
    for (size_t i = 0; i < n + 1; i++)
        row[i] = (uint8_t)(key % 5 ? leat_draw_below(key, i, 256) : leat_draw_below(key, i, 2) * 255);
    return row;
}

static uint8_t *made(size_t bytes)
{
    uint8_t *out = malloc(bytes + 256);
    assert_non_null(out);
    return out;
}

/* What libjpeg makes of samples of half the size. `t` NULL: across only. */
static void expected_doubled(const uint8_t *s, const uint8_t *t, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *near = s + i / 2, *far = i & 1 ? near + 1 : near - 1;
        if (!t) {
            out[i] = (uint8_t)((3 * *near + *far + (i & 1 ? 2 : 1)) >> 2);
            continue;
        }
        const uint8_t *beside = t + i / 2, *corner = i & 1 ? beside + 1 : beside - 1;
        out[i] = (uint8_t)((3 * (3 * *near + *beside) + 3 * *far + *corner + (i & 1 ? 7 : 8)) >> 4);
    }
}

TEST(rows_of_any_length_are_upsampled_as_libjpeg_does)
{
    for (size_t n = 1; n <= 300; n++) {
        const size_t samples = (n + 1) / 2 + 1;
        uint8_t *s = row_of(2 * n, samples), *t = row_of(2 * n + 1, samples), *u = row_of(3 * n, n),
                *v = row_of(3 * n + 1, n);
        uint8_t *out = made(n), *expected = made(n);
        const struct leat_jpeg_samples half = {s + 1, t + 1}, full = {u + 1, v + 1};
        for (unsigned k = 0; k < n_kernels; k++) {
            expected_doubled(s + 1, NULL, n, expected);
            kernels[k]->h2v1(&half, n, out);
            assert_memory_equal(out, expected, n);
            expected_doubled(s + 1, t + 1, n, expected);
            kernels[k]->h2v2(&half, n, out);
            assert_memory_equal(out, expected, n);
            for (int below = 0; below < 2; below++) {
                for (size_t i = 0; i < n; i++)
                    expected[i] = (uint8_t)((3 * u[1 + i] + v[1 + i] + 1 + below) >> 2);
                kernels[k]->h1v2(&full, below, n, out);
                assert_memory_equal(out, expected, n);
            }
        }
        for (uint8_t **p = (uint8_t *[]){s, t, u, v, out, expected, NULL}; *p; p++)
            free(*p);
    }
}

TEST(rows_of_any_length_are_coloured_as_libjpeg_does)
{
    for (size_t n = 1; n <= 300; n++) {
        const size_t samples = (n + 1) / 2 + 1;
        uint8_t *luma = row_of(5 * n + 1, n), *wide[2], *half[2], *beside[2], *doubled[2];
        for (unsigned c = 0; c < 2; c++) {
            wide[c] = row_of(7 * n + c, n);
            half[c] = row_of(11 * n + c, samples);
            beside[c] = row_of(13 * n + c, samples);
            doubled[c] = made(n);
        }
        uint8_t *out = made(4 * n), *expected = made(4 * n);
        const uint8_t *y = luma + 1;
        for (unsigned k = 0; k < n_kernels; k++) {
            const struct leat_jpeg_samples same[2] = {{wide[0] + 1, NULL}, {wide[1] + 1, NULL}};
            const struct leat_jpeg_samples less[2] = {{half[0] + 1, beside[0] + 1}, {half[1] + 1, beside[1] + 1}};
            for (size_t i = 0; i < n; i++)
                expected_colour(y[i], same[0].at[i], same[1].at[i], expected + 4 * i);
            kernels[k]->ycc(y, same, n, out);
            assert_memory_equal(out, expected, 4 * n);
            for (int both = 0; both < 2; both++) {
                for (unsigned c = 0; c < 2; c++)
                    expected_doubled(less[c].at, both ? less[c].beside : NULL, n, doubled[c]);
                for (size_t i = 0; i < n; i++)
                    expected_colour(y[i], doubled[0][i], doubled[1][i], expected + 4 * i);
                (both ? kernels[k]->ycc_h2v2 : kernels[k]->ycc_h2v1)(y, less, n, out);
                assert_memory_equal(out, expected, 4 * n);
            }
            for (size_t i = 0; i < n; i++)
                memcpy(expected + 4 * i, (uint8_t[]){y[i], same[0].at[i], same[1].at[i], 255}, 4);
            kernels[k]->rgb(y, same[0].at, same[1].at, n, out);
            assert_memory_equal(out, expected, 4 * n);
            for (size_t i = 0; i < n; i++)
                memcpy(expected + 4 * i, (uint8_t[]){y[i], y[i], y[i], 255}, 4);
            kernels[k]->gray(y, n, out);
            assert_memory_equal(out, expected, 4 * n);
        }
        for (unsigned c = 0; c < 2; c++) {
            free(wide[c]);
            free(half[c]);
            free(beside[c]);
            free(doubled[c]);
        }
        free(luma);
        free(out);
        free(expected);
    }
}

TEST_MAIN_IN(find_kernels, NULL)
