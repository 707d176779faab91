#include <sys/time.h>

#include "../folder.h"
#include "base/hash.h"
#include "format/fingerprint.h"
#include "format/source.h"

#define TEST_IN_FOLDER(name) TEST_IN(name, make_folder, remove_folder)

static struct leat_source *open_folder(enum leat_labels labels)
{
    struct leat_error error;
    struct leat_source *source;
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    options.recheck = LEAT_RECHECK_FIRST;
    options.labels = labels;
    assert_ok(leat_source_open(folder, &options, &source, &error));
    assert_string_equal(source->v->name, "folder");
    return source;
}

static int open_error(enum leat_labels labels, struct leat_error *error)
{
    struct leat_source *source;
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    options.labels = labels;
    int rc = leat_source_open(folder, &options, &source, error);
    assert_null(source);
    return rc;
}

static size_t field_named(const struct leat_source *source, const char *name)
{
    for (size_t f = 0; f < source->n_fields; f++)
        if (strcmp(source->fields[f].name, name) == 0)
            return f;
    return SIZE_MAX;
}

/* The value of a varying field, read as src/data does it. */
static void read_text(struct leat_source *source, const char *field, uint64_t sample, char *text, size_t room)
{
    struct leat_error error;
    struct leat_extent extent;
    struct leat_io_file *file;
    size_t failed;
    assert_ok(source->v->extents(source, field_named(source, field), &sample, 1, &extent, &failed, &error));
    assert_ok(source->v->file(source, extent.file, &file, &error));
    assert_true(extent.length < room);
    assert_ok(leat_io_read(file, extent.offset, extent.length, text, &error));
    text[extent.length] = 0;
    leat_io_release(file);
}

static int64_t label_of(struct leat_source *source, uint64_t sample)
{
    struct leat_error error;
    const void *row;
    size_t failed;
    assert_ok(source->v->rows(source, field_named(source, "label"), &sample, 1, NULL, &row, &failed, &error));
    return *(const int64_t *)row;
}

static void assert_sample(struct leat_source *source, uint64_t sample, const char *name, const char *content,
                          int64_t label)
{
    char text[256];
    read_text(source, "name", sample, text, sizeof text);
    assert_string_equal(text, name);
    read_text(source, "image", sample, text, sizeof text);
    assert_string_equal(text, content);
    if (label >= 0)
        assert_int_equal(label_of(source, sample), label);
}

TEST_IN_FOLDER(sub_folders_are_classes_in_bytewise_order)
{
    files_write_text(folder, "bee/3.JPEG", "three");
    files_write_text(folder, "ant/2.png", "two");
    files_write_text(folder, "ant/1.jpg", "one");
    files_write_text(folder, "ant-like/deep/er/4.WebP", "four");
    struct leat_source *source = open_folder(LEAT_LABELS_AUTO);
    assert_int_equal(source->count, 4);
    assert_int_equal(source->n_fields, 3);
    assert_int_equal(source->n_classes, 3);
    assert_string_equal(source->classes[0], "ant");
    assert_string_equal(source->classes[1], "ant-like");
    assert_string_equal(source->classes[2], "bee");
    /* of the whole path: '-' stands before '/' */
    assert_sample(source, 0, "ant-like/deep/er/4.WebP", "four", 1);
    assert_sample(source, 1, "ant/1.jpg", "one", 0);
    assert_sample(source, 2, "ant/2.png", "two", 0);
    assert_sample(source, 3, "bee/3.JPEG", "three", 2);
    assert_string_equal(source->notice, "");
    leat_source_close(source);
}

TEST_IN_FOLDER(a_flat_folder_has_no_labels)
{
    files_write_text(folder, "b.jpg", "b");
    files_write_text(folder, "a.jpg", "a");
    files_write_text(folder, "notes/readme.txt", "no photo, so no class");
    struct leat_source *source = open_folder(LEAT_LABELS_AUTO);
    assert_int_equal(source->count, 2);
    assert_int_equal(source->n_fields, 2);
    assert_int_equal(source->n_classes, 0);
    assert_sample(source, 0, "a.jpg", "a", -1);
    assert_sample(source, 1, "b.jpg", "b", -1);
    leat_source_close(source);
}

TEST_IN_FOLDER(labels_can_be_refused_and_demanded)
{
    struct leat_error error;
    files_write_text(folder, "x/1.jpg", "1");
    files_write_text(folder, "0.jpg", "0");
    struct leat_source *source = open_folder(LEAT_LABELS_NONE);
    assert_int_equal(source->count, 2);
    assert_int_equal(source->n_fields, 2);
    leat_source_close(source);
    source = open_folder(LEAT_LABELS_FOLDERS);
    assert_int_equal(source->count, 1);
    assert_non_null(strstr(source->notice, "1 photo beside"));
    leat_source_close(source);
    files_remove(folder);
    assert_int_equal(mkdir(folder, 0777), 0);
    files_write_text(folder, "0.jpg", "0");
    assert_int_equal(open_error(LEAT_LABELS_FOLDERS, &error), LEAT_E_NOT_FOUND);
}

TEST_IN_FOLDER(what_is_left_out_is_counted_in_the_notice)
{
    files_write_text(folder, "a/1.jpg", "1");
    files_write_text(folder, "a/.hidden.jpg", "h");
    files_write_text(folder, ".git/x.jpg", "h");
    files_write_text(folder, "a/list.txt", "t");
    files_write_text(folder, "a/bad\xff.jpg", "u");
    files_write_text(folder, "empty/readme", "t");
    struct leat_source *source = open_folder(LEAT_LABELS_AUTO);
    assert_int_equal(source->count, 1);
    assert_int_equal(source->n_classes, 2); /* a class without photos keeps its number */
    assert_non_null(strstr(source->notice, "1 of the 2 classes hold no photo: empty/"));
    assert_non_null(strstr(source->notice, "2 entries with a name that begins with a dot"));
    assert_non_null(strstr(source->notice, "2 entries without the extension of a photo"));
    assert_non_null(strstr(source->notice, "1 entry with a name that is not UTF-8"));
    leat_source_close(source);
}

TEST_IN_FOLDER(folders_of_training_and_validation_are_pointed_out_not_guessed)
{
    files_write_text(folder, "train/a/1.jpg", "1");
    files_write_text(folder, "Val2017/a/2.jpg", "2");
    struct leat_source *source = open_folder(LEAT_LABELS_AUTO);
    assert_int_equal(source->n_classes, 0);
    assert_int_equal(source->count, 2);
    assert_non_null(strstr(source->notice, "holds train/ and Val2017/: open one of them"));
    leat_source_close(source);
    source = open_folder(LEAT_LABELS_FOLDERS);
    assert_int_equal(source->n_classes, 2);
    assert_non_null(strstr(source->notice, "as asked"));
    leat_source_close(source);
}

TEST_IN_FOLDER(a_class_may_be_called_train_or_valley)
{
    files_write_text(folder, "train/1.jpg", "1");
    files_write_text(folder, "valley/2.jpg", "2");
    files_write_text(folder, "testudo/3.jpg", "3");
    struct leat_source *source = open_folder(LEAT_LABELS_AUTO);
    assert_int_equal(source->n_classes, 3);
    leat_source_close(source);
}

TEST_IN_FOLDER(a_folder_without_photos_says_what_was_looked_for)
{
    struct leat_error error;
    files_write_text(folder, "a/x.mov", "1");
    files_write_text(folder, "a/.x", "1");
    assert_int_equal(open_error(LEAT_LABELS_AUTO, &error), LEAT_E_NOT_FOUND);
    assert_non_null(strstr(error.message, ".jpg, .jpeg, .png, .webp, .gif"));
    assert_non_null(strstr(error.message, "1 entry without the extension"));
    assert_non_null(
        strstr(error.message, "; left out: 1 entry with a name that begins with a dot")); /* an error is one line */
    assert_null(strchr(error.message, '\n'));
    assert_string_equal(error.file, folder);
    files_remove(folder);
    assert_int_equal(open_error(LEAT_LABELS_AUTO, &error), LEAT_E_NOT_FOUND);
}

TEST_IN_FOLDER(links_to_files_are_followed_and_loops_are_not)
{
    char from[PATH_MAX + 256];
    files_write_text(folder, "a/1.jpg", "1");
    files_write_text(folder, "a/below/2.jpg", "2");
    const struct {
        const char *name, *target;
    } links[] = {{"a/link.jpg", "1.jpg"}, {"a/up", ".."},      {"self", "."},
                 {"b", "a/below"},        {"a/deep", "below"}, {"a/dangling.jpg", "nothing"}};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        snprintf(from, sizeof from, "%s/%s", folder, links[i].name);
        assert_int_equal(symlink(links[i].target, from), 0);
    }
    struct leat_source *source = open_folder(LEAT_LABELS_AUTO);
    assert_int_equal(source->count, 4);
    assert_sample(source, 0, "a/1.jpg", "1", 0);
    assert_sample(source, 1, "a/below/2.jpg", "2", 0);
    assert_sample(source, 2, "a/link.jpg", "1", 0);
    assert_sample(source, 3, "b/2.jpg", "2", 1); /* a link may stand for a class */
    assert_non_null(strstr(source->notice, "3 entries leading to folders by links"));
    assert_non_null(strstr(source->notice, "1 entry that cannot be followed"));
    leat_source_close(source);
}

static int read_byte(struct leat_source *source, uint64_t sample, struct leat_error *error)
{
    struct leat_io_file *file;
    uint8_t byte;
    int rc = source->v->file(source, sample, &file, error);
    assert_int_equal(rc, LEAT_OK);
    rc = leat_io_read(file, 0, 1, &byte, error);
    leat_io_release(file);
    return rc;
}

TEST_IN_FOLDER(a_file_that_changed_or_vanished_is_noticed)
{
    struct leat_error error;
    char path[PATH_MAX + 256];
    files_write_text(folder, "1.jpg", "1");
    files_write_text(folder, "2.jpg", "2");
    files_write_text(folder, "3.jpg", "3");
    struct leat_source *source = open_folder(LEAT_LABELS_AUTO);
    files_write_text(folder, "1.jpg", "longer");
    snprintf(path, sizeof path, "%s/2.jpg", folder);
    struct timeval times[2] = {{1000, 0}, {1000, 0}};
    assert_int_equal(utimes(path, times), 0);
    assert_int_equal(read_byte(source, 0, &error), LEAT_E_CHANGED);
    assert_non_null(strstr(error.message, "1 bytes then, 6 now"));
    assert_int_equal(read_byte(source, 1, &error), LEAT_E_CHANGED);
    assert_string_equal(error.file, path);
    assert_non_null(strstr(error.message, "time of modification"));
    assert_null(strstr(error.message, "bytes then"));
    snprintf(path, sizeof path, "%s/3.jpg", folder);
    assert_int_equal(remove(path), 0);
    assert_int_equal(read_byte(source, 2, &error), LEAT_E_CHANGED);
    assert_non_null(strstr(error.message, "removed"));
    leat_source_close(source);
}

TEST_IN_FOLDER(marks_are_remembered_per_sample)
{
    struct leat_error error;
    size_t failed;
    char name[32];
    for (int i = 0; i < 130; i++) {
        snprintf(name, sizeof name, "%03d.jpg", i);
        files_write_text(folder, name, "x");
    }
    struct leat_source *source = open_folder(LEAT_LABELS_AUTO);
    source->v->mark(source, 0, 64, false, LEAT_HEALTH_GOOD);
    source->v->mark(source, 0, 129, false, LEAT_HEALTH_BROKEN);
    source->v->mark(source, 0, 3, true, LEAT_HEALTH_UNCHECKED);
    for (uint64_t i = 0; i < 130; i++) {
        struct leat_extent extent;
        assert_ok(source->v->extents(source, 0, &i, 1, &extent, &failed, &error));
        assert_int_equal(extent.info.health, i == 64    ? LEAT_HEALTH_GOOD
                                             : i == 129 ? LEAT_HEALTH_BROKEN
                                                        : LEAT_HEALTH_UNCHECKED);
        assert_int_equal(extent.length, 1);
        assert_false(extent.verify);
    }
    leat_source_close(source);
}

TEST_IN_FOLDER(the_fingerprint_depends_on_names_lengths_and_labels_only)
{
    files_write_text(folder, "a/1.jpg", "one");
    files_write_text(folder, "b/2.jpg", "two");
    struct leat_source *source = open_folder(LEAT_LABELS_AUTO);
    uint64_t want[2] = {0, 0};
    const char *names[] = {"a/1.jpg", "b/2.jpg"};
    for (int64_t label = 0; label < 2; label++) {
        uint64_t sample[2] = {0, 0};
        leat_fingerprint_file(sample, names[label], 3);
        leat_fingerprint_value(sample, leat_hash64(&label, 8));
        leat_fingerprint_append(want, sample);
    }
    assert_memory_equal(want, source->fingerprint, sizeof want);
    leat_source_close(source);
    files_write_text(folder, "a/1.jpg", "two"); /* same name, same length */
    source = open_folder(LEAT_LABELS_AUTO);
    assert_memory_equal(want, source->fingerprint, sizeof want);
    leat_source_close(source);
    files_write_text(folder, "a/1.jpg", "longer");
    source = open_folder(LEAT_LABELS_AUTO);
    assert_memory_not_equal(want, source->fingerprint, sizeof want);
    leat_source_close(source);
}

TEST_IN_FOLDER(unknown_formats_are_errors_that_list_the_known_ones)
{
    struct leat_error error;
    struct leat_source *source;
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    char path[PATH_MAX + 256];
    files_write_text(folder, "text", "\001\002 what is this");
    files_write_text(folder, "nothing", "");
    snprintf(path, sizeof path, "%s/text", folder);
    assert_int_equal(leat_source_open(path, &options, &source, &error), LEAT_E_FORMAT);
    assert_non_null(strstr(error.message, "\"folder\""));
    snprintf(path, sizeof path, "%s/nothing", folder);
    assert_int_equal(leat_source_open(path, &options, &source, &error), LEAT_E_FORMAT);
    assert_non_null(strstr(error.message, "empty"));
    options.format = "word";
    assert_int_equal(leat_source_open(path, &options, &source, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "\"folder\""));
    options.format = "folder";
    assert_int_equal(leat_source_open(path, &options, &source, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "is a file"));
}

static int note_sample(void *user, const struct leat_error *fault)
{
    *(unsigned *)user |= 1u << fault->sample;
    assert_int_equal(fault->code, LEAT_E_CHANGED);
    return 0;
}

TEST_IN_FOLDER(verify_looks_at_empty_files_too)
{
    unsigned samples = 0;
    struct leat_verify_options o = {.struct_size = sizeof o, .report = note_sample, .user = &samples};
    struct leat_error error;
    char path[PATH_MAX + 8];
    files_write_text(folder, "0.jpg", "");
    files_write_text(folder, "1.jpg", "");
    files_write_text(folder, "2.jpg", "");
    files_write_text(folder, "3.jpg", "three");
    struct leat_source *source = open_folder(LEAT_LABELS_AUTO);
    assert_ok(source->v->verify(source, &o, 0, &error));
    snprintf(path, sizeof path, "%s/0.jpg", folder);
    unlink(path);
    files_write_text(folder, "2.jpg", "grown");
    assert_int_equal(source->v->verify(source, &o, 0, &error), LEAT_E_CORRUPT);
    assert_int_equal(samples, 1 | 1 << 2);
    leat_source_close(source);
}

TEST_MAIN()
