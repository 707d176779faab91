/* Kernels by the real NVRTC, for each architecture of the cards that there are. No card is needed. Skipped where the
 * package nvidia-cuda-nvrtc-cu12 (tools/setup.sh shards) is not. */
#include <dlfcn.h>
#include <glob.h>

#include "../test.h"
#include "device/nvrtc.h"

static struct leat_error error;

/* The library that a pattern finds, or NULL. */
static char *find(const char *pattern, const char *folder)
{
    char text[4096];
    glob_t found = {0};
    snprintf(text, sizeof text, pattern, folder);
    char *path = glob(text, 0, NULL, &found) ? NULL : strdup(found.gl_pathv[0]);
    globfree(&found);
    return path;
}

/* The one of LEAT_LIBNVRTC or in the project's environment. AddressSanitizer takes dlopen over, and the library does
 * not find the other one beside it: that is loaded before. */
static const char *nvrtc;
static int set_up(void **state)
{
    const char *named = getenv("LEAT_LIBNVRTC"), *environment = getenv("LEAT_TEST_VENV");
    char *path = named && *named ? strdup(named) : NULL;
    if (!path && environment)
        path = find("%s/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.1[0-9]", environment);
    if (!(nvrtc = path))
        return 0;
    char *folder = strdup(path);
    if (strrchr(folder, '/'))
        *strrchr(folder, '/') = 0;
    char *other = find("%s/libnvrtc-builtins.so.*", folder);
    if (other)
        dlopen(other, RTLD_NOW);
    free(other);
    free(folder);
    return 0;
}
static int tear_down(void **state)
{
    free((char *)(uintptr_t)nvrtc);
    return 0;
}

/* In a test: says so and returns where there is none. */
#define test_needs_nvrtc()                                                                                             \
    if (!nvrtc) {                                                                                                      \
        printf("# SKIP %s: NVRTC is not installed\n", __func__);                                                       \
        return;                                                                                                        \
    }

static void compile(int architecture, const struct leat_kernel_source *source,
                    const unsigned values[LEAT_KERNEL_DEFINES])
{
    char texts[LEAT_KERNEL_DEFINES][64], *log;
    const char *defines[LEAT_KERNEL_DEFINES];
    void *image;
    size_t bytes;
    int n = 0;
    for (; n < LEAT_KERNEL_DEFINES && source->defines[n]; n++) {
        snprintf(texts[n], sizeof texts[n], "-D%s=%u", source->defines[n], values[n]);
        defines[n] = texts[n];
    }
    assert_ok(leat_nvrtc_compile(nvrtc, source, architecture / 10, architecture % 10, defines, n, &image, &bytes, &log,
                                 &error));
    const bool binary = !memcmp(image, "\177ELF", 4);
    if (!binary || !strstr(log, "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"))
        fail_msg("%s for sm_%d, %u %u %u %u: %s: %s", source->name, architecture, values[0], values[1], values[2],
                 values[3], binary ? "not all is in registers" : "no binary", log);
    leat_free(image);
    leat_free(log);
}

static const int architectures[] = {75, 80, 86, 89, 90, 100, 120};
enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

TEST(kernels_that_gather_compile_for_each_architecture_and_spill_no_registers)
{
    unsigned n = 0;
    test_needs_nvrtc();
    for (size_t a = 0; a < ARCHITECTURES; a++)
        for (unsigned from = 0; from <= LEAT_BOOL; from++)
            for (unsigned word = from ? (unsigned)leat_dtype_size((enum leat_dtype)from) : 1; word <= 16; word *= 2)
                if (n++ % test_every(16) == 0)
                    compile(architectures[a], &leat_kernel_gather_rows, (const unsigned[]){word, from, 0, 0});
}

TEST(kernels_that_convert_compile_for_each_architecture_and_spill_no_registers)
{
    unsigned n = 0;
    test_needs_nvrtc();
    for (size_t a = 0; a < ARCHITECTURES; a++)
        for (unsigned v = 0; v < 32; v++)
            if (n++ % test_every(16) == 0)
                compile(architectures[a], &leat_kernel_convert_pixels,
                        (const unsigned[]){1 + v % 4, v & 4 ? 2 : 4, v >> 3 & 1, v & 16 ? 1 : 4});
}

TEST(kernels_that_decode_photos_compile_for_each_architecture_and_spill_no_registers)
{
    test_needs_nvrtc();
    for (size_t a = 0; a < ARCHITECTURES; a++)
        for (size_t i = 0; i < LEAT_KERNELS_PHOTO; i++)
            compile(architectures[a], &leat_kernel_photo[i], (const unsigned[LEAT_KERNEL_DEFINES]){0});
}

TEST(no_kernel_joins_a_product_and_a_sum_of_floats)
{
    void *image;
    size_t bytes;
    test_needs_nvrtc();
    for (size_t i = 0; i < LEAT_KERNELS_PHOTO; i++) {
        assert_ok(leat_nvrtc_compile(nvrtc, &leat_kernel_photo[i], 99, 0, NULL, 0, &image, &bytes, NULL, &error));
        assert_non_null(strstr(image, ".visible .entry leat_photo_"));
        assert_null(strstr(image, "fma.rn.f"));
        leat_free(image);
    }
}

TEST(an_architecture_that_is_too_old_is_an_error_and_a_newer_one_gets_text)
{
    const char *const defines[] = {"-DLEAT_WORD=4", "-DLEAT_FROM=0"};
    void *image;
    size_t bytes;
    test_needs_nvrtc();
    assert_int_equal(
        leat_nvrtc_compile(nvrtc, &leat_kernel_gather_rows, 3, 0, defines, 2, &image, &bytes, NULL, &error),
        LEAT_E_UNSUPPORTED);
    assert_ok(leat_nvrtc_compile(nvrtc, &leat_kernel_gather_rows, 99, 0, defines, 2, &image, &bytes, NULL, &error));
    assert_non_null(strstr(image, ".visible .entry leat_gather_rows"));
    leat_free(image);
    const struct leat_kernel_source broken = {.name = "broken.cu", .text = "void f() { return 1; }"};
    assert_int_equal(leat_nvrtc_compile(nvrtc, &broken, 9, 0, defines, 2, &image, &bytes, NULL, &error),
                     LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "broken.cu(1)"));
}

TEST_MAIN_IN(set_up, tear_down)
