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

static void compile(const struct leat_kernel_source *source, int architecture, const char *const *defines, int n)
{
    char *log;
    void *image;
    size_t bytes;
    assert_ok(leat_nvrtc_compile(nvrtc, source, architecture / 10, architecture % 10, defines, n, &image, &bytes, &log,
                                 &error));
    if (memcmp(image, "\177ELF", 4))
        fail_msg("%s %s for sm_%d: no binary", source->name, n ? defines[0] : "", architecture);
    if (!strstr(log, "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"))
        fail_msg("%s %s for sm_%d: not all is in registers: %s", source->name, n ? defines[0] : "", architecture, log);
    leat_free(image);
    leat_free(log);
}

static const int architectures[] = {75, 80, 86, 89, 90, 100, 120};
enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

TEST(kernels_compile_for_each_architecture_and_spill_no_registers)
{
    unsigned n = 0;
    test_needs_nvrtc();
    for (size_t a = 0; a < ARCHITECTURES; a++)
        for (unsigned from = 0; from <= LEAT_BOOL; from++)
            for (unsigned word = from ? (unsigned)leat_dtype_size((enum leat_dtype)from) : 1; word <= 16; word *= 2) {
                char defines[2][32];
                snprintf(defines[0], sizeof defines[0], "-DLEAT_WORD=%u", word);
                snprintf(defines[1], sizeof defines[1], "-DLEAT_FROM=%u", from);
                if (from != LEAT_F32 && n++ % test_every(16) == 0) /* which is copied */
                    compile(&leat_kernel_gather_rows, architectures[a], (const char *[]){defines[0], defines[1]}, 2);
            }
}

TEST(kernels_that_decode_photos_compile_for_each_architecture_and_spill_no_registers)
{
    test_needs_nvrtc();
    for (size_t a = 0; a < ARCHITECTURES; a++)
        for (size_t i = 0; i < LEAT_KERNELS_PHOTO; i++)
            compile(&leat_kernel_photo[i], architectures[a], NULL, 0);
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
