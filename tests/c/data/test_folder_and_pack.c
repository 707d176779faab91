#include "../folder.h"
#include "base/error.h"

static char photos[PATH_MAX + 16], packed[PATH_MAX + 16];
enum { N = 20 };

/* The bytes are no photos: that is the decoder's matter, and a pack keeps them, marked. */
static int set_up(void **state)
{
    files_folder(folder);
    for (int i = 0; i < N; i++) {
        char name[32], content[32];
        snprintf(name, sizeof name, "photos/%c/%02d.jpg", 'a' + i % 2, i);
        snprintf(content, sizeof content, "content %d", i);
        files_write_text(folder, name, content);
    }
    snprintf(photos, sizeof photos, "%s/photos", folder);
    snprintf(packed, sizeof packed, "%s/packed.leat", folder);
    return 0;
}

/* Through the public interface alone, as the command line does. */
static void pack(struct leat_dataset *d)
{
    struct leat_error error;
    struct leat_writer *writer;
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    size_t n_fields;
    const struct leat_field *fields = leat_dataset_fields(d, &n_fields);
    options.classes = leat_dataset_classes(d, &options.n_classes);
    assert_ok(leat_writer_open(packed, fields, n_fields, &options, &writer, &error));
    struct leat_value lengths, labels, name;
    assert_ok(leat_dataset_column(d, 0, true, false, &lengths, &error));
    assert_ok(leat_dataset_column(d, 1, false, false, &labels, &error));
    for (uint64_t i = 0; i < N; i++) {
        char file[PATH_MAX + 300];
        assert_ok(leat_dataset_read(d, i, 2, &name, &error));
        snprintf(file, sizeof file, "%s/%.*s", photos, (int)name.length, (const char *)name.data);
        const struct leat_value_ref values[] = {
            {.path = file, .length = ((const uint64_t *)lengths.data)[i]},
            {.data = (const int64_t *)labels.data + i, .length = 8},
            {.data = name.data, .length = name.length},
        };
        assert_ok(leat_writer_add(writer, values, NULL, &error));
        leat_value_clear(&name);
    }
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
    leat_value_clear(&lengths);
    leat_value_clear(&labels);
}

TEST(a_folder_and_its_pack_have_one_fingerprint_and_join)
{
    struct leat_error error;
    struct leat_dataset *d, *p, *joined;
    uint8_t a[16], b[16];
    assert_ok(leat_dataset_open(photos, NULL, &d, &error));
    pack(d);
    assert_ok(leat_dataset_open(packed, NULL, &p, &error));
    leat_dataset_fingerprint(d, a);
    leat_dataset_fingerprint(p, b);
    assert_memory_equal(a, b, 16);
    assert_ok(leat_dataset_concat((struct leat_dataset *[]){d, p}, 2, &joined, &error));
    assert_int_equal(leat_dataset_count(joined), 2 * N);
    size_t n;
    const struct leat_field *fields = leat_dataset_fields(joined, &n);
    assert_int_equal(n, 3); /* width and height are known of the pack only */
    for (uint64_t i = 0; i < N; i++)
        for (size_t f = 0; f < n; f++) {
            struct leat_value x, y;
            assert_ok(leat_dataset_read(joined, i, f, &x, &error));
            assert_ok(leat_dataset_read(joined, N + i, f, &y, &error));
            assert_int_equal(x.length, y.length);
            assert_memory_equal(x.data, y.data, x.length);
            assert_int_equal(x.ndim, y.ndim);
            leat_value_clear(&x);
            leat_value_clear(&y);
        }
    assert_string_equal(fields[2].name, "name");
    leat_dataset_release(joined);
    leat_dataset_release(p);
    leat_dataset_release(d);
}

TEST_MAIN_IN(set_up, remove_folder)
