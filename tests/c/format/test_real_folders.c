#include <limits.h>

#include "../test.h"
#include "format/source.h"

TEST(real_folders_of_photos_open)
{
    struct leat_error error;
    struct leat_source *source;
    char path[PATH_MAX];
    const char *data = test_data();
    snprintf(path, sizeof path, "%s/imagenet", data);
    assert_ok(leat_source_open(path, NULL, &source, &error));
    assert_int_equal(source->count, 580);
    assert_int_equal(source->n_classes, 0);
    leat_source_close(source);
    snprintf(path, sizeof path, "%s/ants2bees", data);
    assert_ok(leat_source_open(path, NULL, &source, &error));
    assert_non_null(strstr(source->notice, "trainA/ and testA/"));
    assert_int_equal(source->n_classes, 0);
    leat_source_close(source);
    snprintf(path, sizeof path, "%s/odd-images", data);
    assert_ok(leat_source_open(path, NULL, &source, &error));
    assert_true(source->count > 400 && source->n_classes > 3);
    leat_source_close(source);
}

TEST_MAIN()
