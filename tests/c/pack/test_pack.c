/* leat_writer_open with the photo functions of leat: what a folder holds, packed. */
#include "../codec/photo/photos.h"
#include "../files.h"
#include "codec/photo/photo.h"

#include "format/source.h"

enum { PHOTOS = 9 };
static char folder[PATH_MAX], target[PATH_MAX + 32];
static const char *const names[PHOTOS] = {"cat/0.jpg", "cat/1.jpg",    "cat/cut.jpg",  "cat/empty.jpg", "cat/text.jpg",
                                          "dog/2.jpg", "dog/flip.jpg", "dog/gray.jpg", "dog/wide.jpg"};
static const bool broken[PHOTOS] = {[2] = true, [3] = true, [4] = true};
static const char *const classes[] = {"cat", "dog"};
static const struct leat_field schema[] = {
    {.name = "image", .kind = LEAT_KIND_IMAGE, .flags = LEAT_FIELD_FILES},
    {.name = "label", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
    {.name = "name", .kind = LEAT_KIND_STR, .flags = LEAT_FIELD_DERIVED},
};

static int make_folder(void **state)
{
    static const struct photo_style colour = {.in = JCS_RGB, .stored = JCS_YCbCr, .h = {2, 1, 1}, .v = {2, 1, 1}};
    static const struct photo_style progressive = {
        .in = JCS_RGB, .stored = JCS_YCbCr, .h = {1, 1, 1}, .v = {1, 1, 1}, .progressive = true};
    static const struct photo_style gray = {.in = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .h = {1}, .v = {1}};
    char root[PATH_MAX];
    files_folder(root);
    snprintf(folder, sizeof folder, "%.4000s/photos", root);
    snprintf(target, sizeof target, "%.4000s/photos.leat", root);
    assert_int_equal(mkdir(folder, 0777), 0);
    for (size_t i = 0; i < PHOTOS; i++) {
        uint32_t w = i == 8 ? 900 : 60 + (uint32_t)i, h = 40;
        bool is_gray = i == 7;
        size_t n;
        uint8_t *pixels = photo_pixels(w, h, is_gray ? 1 : 3, i);
        uint8_t *jpeg = photo_encode(is_gray ? &gray : i == 5 ? &progressive : &colour, pixels, w, h, 85, &n);
        if (i == 4)
            files_write_text(folder, names[i], "this is no photo");
        else
            files_write(folder, names[i], jpeg, i == 2 ? n / 2 : i == 3 ? 0 : n);
        free(pixels);
        free(jpeg);
    }
    return 0;
}

static int remove_folder(void **state)
{
    *strrchr(folder, '/') = 0;
    files_remove(folder);
    return 0;
}

static int pack(struct leat_writer_options *o, struct leat_writer **w, struct leat_error *error)
{
    o->classes = classes;
    o->n_classes = 2;
    int rc = leat_writer_open(target, schema, 3, o, w, error);
    for (size_t i = 0; i < PHOTOS && !rc; i++) {
        char path[PATH_MAX + 64];
        struct stat st;
        int64_t label = names[i][0] == 'd';
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(stat(path, &st), 0);
        struct leat_value_ref values[3] = {
            {NULL, (uint64_t)st.st_size, path}, {&label, 8, NULL}, {names[i], strlen(names[i]), NULL}};
        rc = leat_writer_add(*w, values, NULL, error);
    }
    return rc ? rc : leat_writer_finish(*w, error);
}

TEST_IN(broken_photos_are_marked_and_named_and_the_rest_is_good, make_folder, remove_folder)
{
    static const char *const bad_names[] = {"cat/cut.jpg", "cat/empty.jpg", "cat/text.jpg"};
    struct leat_writer_options o = LEAT_WRITER_OPTIONS_INIT;
    struct leat_error error;
    struct leat_writer *w;
    struct leat_bad_sample bad;
    struct leat_source *s;
    assert_ok(pack(&o, &w, &error));
    for (size_t i = 0; i < 3; i++) {
        assert_true(leat_writer_bad(w, i, &bad));
        assert_string_equal(bad.name, bad_names[i]);
        assert_int_equal(bad.index, i + 2);
        assert_true(bad.reason[0] != 0);
    }
    assert_false(leat_writer_bad(w, 3, &bad));
    leat_writer_free(w, false);
    assert_ok(leat_source_open(target, NULL, &s, &error));
    assert_int_equal(s->count, PHOTOS);
    for (uint64_t i = 0; i < PHOTOS; i++) {
        struct leat_extent e;
        size_t failed;
        assert_ok(s->v->extents(s, 0, &i, 1, &e, &failed, &error));
        assert_int_equal(e.info.health, broken[i] ? LEAT_HEALTH_BROKEN : LEAT_HEALTH_GOOD);
        if (broken[i])
            continue;
        assert_int_equal(e.info.size[0], i == 8 ? 900 : 60 + i);
        assert_int_equal(e.info.size[1], 40);
        assert_int_equal(e.info.channels, i == 7 ? 1 : 3);
        assert_int_equal(e.info.kind, i == 5 ? LEAT_IMAGE_JPEG_PROGRESSIVE : LEAT_IMAGE_JPEG_BASELINE);
    }
    leat_source_close(s);
    assert_ok(leat_verify(target, NULL, &error));
}

TEST_IN(a_folder_and_its_pack_have_one_fingerprint, make_folder, remove_folder)
{
    struct leat_writer_options o = LEAT_WRITER_OPTIONS_INIT;
    struct leat_error error;
    struct leat_writer *w;
    struct leat_dataset *d;
    uint8_t in_place[16], packed[16], sharded[16];
    assert_ok(leat_dataset_open(folder, NULL, &d, &error));
    assert_int_equal(leat_dataset_count(d), PHOTOS);
    leat_dataset_fingerprint(d, in_place);
    leat_dataset_release(d);
    assert_ok(pack(&o, &w, &error));
    leat_writer_free(w, false);
    assert_ok(leat_dataset_open(target, NULL, &d, &error));
    leat_dataset_fingerprint(d, packed);
    leat_dataset_release(d);
    assert_memory_equal(in_place, packed, 16);
    o.overwrite = true;
    o.shard_bytes = 1;
    assert_ok(pack(&o, &w, &error));
    leat_writer_free(w, false);
    assert_ok(leat_dataset_open(target, NULL, &d, &error));
    assert_int_equal(leat_dataset_count(d), PHOTOS);
    leat_dataset_fingerprint(d, sharded);
    leat_dataset_release(d);
    assert_memory_equal(in_place, sharded, 16);
}

TEST_IN(a_photo_above_max_side_is_stored_as_a_smaller_jpeg, make_folder, remove_folder)
{
    struct leat_writer_options o = LEAT_WRITER_OPTIONS_INIT;
    struct leat_error error;
    struct leat_writer *w;
    struct leat_source *s;
    o.max_side = 300;
    assert_ok(pack(&o, &w, &error));
    leat_writer_free(w, false);
    assert_ok(leat_source_open(target, NULL, &s, &error));
    for (uint64_t i = 0; i < PHOTOS; i++) {
        struct leat_extent e;
        size_t failed;
        assert_ok(s->v->extents(s, 0, &i, 1, &e, &failed, &error));
        assert_int_equal(e.info.health, broken[i] ? LEAT_HEALTH_BROKEN : LEAT_HEALTH_GOOD);
        assert_true(e.info.size[0] <= 300);
        if (i == 8) {
            struct leat_io_file *file;
            assert_int_equal(e.info.size[0], 300);
            assert_int_equal(e.info.size[1], 13);
            assert_ok(s->v->file(s, e.file, &file, &error));
            uint8_t *bytes = malloc(e.length);
            assert_ok(leat_io_read(file, e.offset, e.length, bytes, &error));
            struct photo_full full = photo_reference(bytes, e.length, false, 1);
            assert_int_equal(full.width, 300);
            free(full.pixels);
            free(bytes);
            leat_io_release(file);
        }
    }
    leat_source_close(s);
}

enum { FILES = 12 };

static uint8_t *read_whole(const char *path, size_t *n)
{
    struct stat st;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    uint8_t *bytes = malloc((size_t)st.st_size);
    assert_non_null(bytes);
    *n = fread(bytes, 1, (size_t)st.st_size, file);
    assert_int_equal(*n, st.st_size);
    fclose(file);
    return bytes;
}

/* A sample of each: two photos, the second the larger one, and its name, from files or from memory. */
static void pack_samples(const char *to, bool from_files)
{
    static const struct leat_field fields[] = {{.name = "small", .kind = LEAT_KIND_IMAGE},
                                               {.name = "large", .kind = LEAT_KIND_IMAGE},
                                               {.name = "name", .kind = LEAT_KIND_STR}};
    static const struct photo_style colour = {.in = JCS_RGB, .stored = JCS_YCbCr, .h = {2, 1, 1}, .v = {2, 1, 1}};
    struct leat_writer_options o = LEAT_WRITER_OPTIONS_INIT;
    struct leat_writer *w;
    struct leat_error error;
    o.photos = LEAT_PHOTOS_FAST;
    o.on_bad = LEAT_BAD_MARK;
    assert_ok(leat_writer_open(to, fields, 3, &o, &w, &error));
    for (uint32_t i = 0; i < FILES; i++) {
        struct leat_value_ref values[3];
        uint8_t *bytes[3];
        char paths[3][PATH_MAX + 32];
        for (uint32_t f = 0; f < 3; f++) {
            const uint32_t side = f ? 100 + 60 * i : 30 + i;
            uint8_t *pixels = photo_pixels(side, side, 3, i);
            size_t n = 32;
            char name[32];
            bytes[f] = f < 2 ? photo_encode(&colour, pixels, side, side, 85, &n) : calloc(1, n);
            assert_non_null(bytes[f]);
            free(pixels);
            if (f == 2)
                n = (size_t)snprintf((char *)bytes[f], n, "sample %u", i);
            if (f == 0 && i % 5 == 4)
                n /= 2;
            snprintf(name, sizeof name, "%u-%u", i, f);
            files_write(folder, name, bytes[f], n);
            snprintf(paths[f], sizeof paths[f], "%s/%s", folder, name);
            values[f] =
                from_files ? (struct leat_value_ref){NULL, n, paths[f]} : (struct leat_value_ref){bytes[f], n, NULL};
        }
        assert_ok(leat_writer_add(w, values, NULL, &error));
        for (uint32_t f = 0; f < 3; f++)
            free(bytes[f]);
    }
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);
}

TEST_IN(samples_of_several_files_are_packed_as_the_same_bytes_from_memory_are, make_folder, remove_folder)
{
    char other[PATH_MAX + 48];
    size_t n[2];
    snprintf(other, sizeof other, "%s.memory", target);
    pack_samples(target, true);
    pack_samples(other, false);
    uint8_t *bytes[2] = {read_whole(target, &n[0]), read_whole(other, &n[1])};
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    free(bytes[0]);
    free(bytes[1]);
}

TEST_MAIN()
