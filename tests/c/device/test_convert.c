/* The kernel that makes values of pixels, as a grid of threads of the processor, against plain C. */
#include "../test.h"
#include "device/kernels/convert_pixels.cu.h"

struct variant {
    struct leat_convert_args args;
    u32 channels, bytes, planes, together;
};

static void run_thread(const void *user)
{
    const struct variant *v = user;
    convert_pixels(v->args, v->channels, v->bytes, v->planes, v->together);
}

/* Memory of exactly so many bytes, of numbers. */
static u8 *numbers(size_t bytes, unsigned seed)
{
    u8 *p = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    for (size_t i = 0; i < bytes; i++)
        p[i] = (u8)((i + seed) * 2654435761u >> 13);
    return p;
}

static void check(u32 channels, u32 bytes, u32 planes, u32 together, u64 n, u64 pixels, u32 blocks)
{
    const size_t values = n * pixels * channels;
    u8 *in = numbers(values, 1), *table = numbers((size_t)channels * 256 * bytes, 7),
       *made = numbers(values * bytes, 3);
    struct variant v = {{in, table, made, n, pixels}, channels, bytes, planes, together};
    struct grid grid = {.kernel = run_thread, .args = &v, .blocks = blocks, .threads = 64};
    grid_run(&grid);
    for (u64 i = 0; i < n; i++)
        for (u64 p = 0; p < pixels; p++)
            for (u32 c = 0; c < channels; c++) {
                const u8 byte = in[(i * pixels + p) * channels + c];
                const u64 to = planes ? (i * channels + c) * pixels + p : (i * pixels + p) * channels + c;
                if (memcmp(made + to * bytes, table + (c * 256 + byte) * bytes, bytes))
                    fail_msg("%u channels of %u bytes, %s, %u together, %llu images of %llu: image %llu, pixel %llu, "
                             "channel %u",
                             channels, bytes, planes ? "planes" : "pixels", together, (unsigned long long)n,
                             (unsigned long long)pixels, (unsigned long long)i, (unsigned long long)p, c);
            }
    free(in);
    free(table);
    free(made);
}

TEST(pixels_become_the_values_of_a_table)
{
    static const u64 sizes[] = {1, 2, 3, 4, 7, 8, 12, 49, 64, 1021};
    for (u32 channels = 1; channels <= 4; channels++)
        for (u32 bytes = 2; bytes <= 4; bytes += 2)
            for (u32 planes = 0; planes <= 1; planes++)
                for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                    for (u64 n = 1; n <= 3; n++) {
                        check(channels, bytes, planes, 1, n, sizes[s], 2);
                        if (sizes[s] % 4 == 0)
                            check(channels, bytes, planes, 4, n, sizes[s], (u32)(1 + n % 3));
                    }
}

TEST_MAIN()
