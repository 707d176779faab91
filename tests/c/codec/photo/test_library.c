/* Libraries that are loaded when they are needed: one that is there, and what is said of one that is not. */
#include "../../test.h"

#include <pthread.h>
#include <zlib.h>

#include "base/library.h"
#include "codec/photo/decode_internal.h"

#define FUNCTIONS(X) X(crc32) X(zlibVersion)
struct functions {
    FUNCTIONS(LEAT_LIBRARY_MEMBER)
};
static const struct leat_library_symbol symbols[] = {FUNCTIONS(LEAT_LIBRARY_SYMBOL){NULL, 0}};

static struct functions found;
static const char *const files[] = {"libleat-nothing.so.7", "libz.so.1", NULL};
static struct leat_library zlib = {
    .format = "Z", .files = files, .advice = "apt install zlib1g", .symbols = symbols, .functions = &found};

static void *load(void *unused)
{
    struct leat_error error = {0};
    for (int i = 0; i < 100; i++)
        if (leat_library_load(&zlib, &error) ||
            found.crc32(0, (const unsigned char *)"leat", 4) != crc32(0, (const unsigned char *)"leat", 4))
            return &zlib;
    return NULL;
}

TEST(the_first_file_that_is_there_serves_all_threads)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, load, NULL), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    assert_string_equal(found.zlibVersion(), zlibVersion());
}

TEST(of_one_that_is_not_there_the_error_says_what_to_install)
{
    static const char *const none[] = {"libleat-nothing.so.7", NULL};
    static struct functions nothing;
    struct leat_library library = zlib;
    library.files = none;
    library.functions = &nothing;
    library.state = 0;
    struct leat_error error;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(leat_library_load(&library, &error), LEAT_E_DECODE);
        assert_non_null(strstr(error.message, "Z: libleat-nothing.so.7, which decodes it, is not on this machine"));
        assert_non_null(strstr(error.message, "apt install zlib1g"));
    }
}

TEST(a_library_that_lacks_a_function_is_none)
{
    static const struct leat_library_symbol more[] = {FUNCTIONS(LEAT_LIBRARY_SYMBOL){"leat_no_such_function", 0},
                                                      {NULL, 0}};
    static struct functions nothing;
    struct leat_library library = zlib;
    library.symbols = more;
    library.functions = &nothing;
    library.state = 0;
    struct leat_error error;
    assert_int_equal(leat_library_load(&library, &error), LEAT_E_DECODE);
    assert_int_equal(leat_library_not_built("Z", "zlib1g-dev", &error), LEAT_E_DECODE);
    assert_non_null(strstr(error.message, "zlib1g-dev"));
}

#ifdef LEAT_HAVE_TIFF
/* The last test: from then on the process has no libtiff. */
TEST(a_photo_without_its_library_is_broken_and_has_a_size)
{
    static const uint8_t tiff[] = {'I', 'I', '*', 0, 8,  0, 0, 0, 4, 0, 0, 1, 4, 0,  1, 0, 0, 0, 1, 0, 0,
                                   0,   1,   1,   4, 0,  1, 0, 0, 0, 1, 0, 0, 0, 17, 1, 4, 0, 1, 0, 0, 0,
                                   8,   0,   0,   0, 23, 1, 4, 0, 1, 0, 0, 0, 1, 0,  0, 0, 0, 0, 0, 0};
    static const char *const none[] = {"libleat-nothing.so.7", NULL};
    struct leat_error error;
    struct leat_value_info info;
    struct leat_decoder *decoder = leat_decoder_new(&leat_codec_photo);
    assert_ok(leat_codec_photo.probe(tiff, sizeof tiff, &info, &error));
    assert_int_equal(info.size[0], 1);
    assert_string_equal(leat_photo_kind_name(info.kind), "TIFF");
    leat_libtiff.files = none;
    assert_int_equal(leat_decoder_check(decoder, tiff, sizeof tiff, true, &error), LEAT_E_DECODE);
    assert_non_null(strstr(error.message, "TIFF: libleat-nothing.so.7, which decodes it, is not on this machine"));
    assert_non_null(strstr(error.message, "apt install libtiff6"));
    leat_decoder_free(decoder);
}
#endif

TEST_MAIN()
