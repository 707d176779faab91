/* Reading a large index, which is mapped, survives that its file is cut. */
#include "format/text_index.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../files.h"
#include "../test.h"

enum { RECORDS = 20000 };

static char folder[PATH_MAX], path[PATH_MAX + 16], index_path[PATH_MAX + 64];
static uint64_t usual;

static int make_file(void **state)
{
    files_folder(folder);
    snprintf(path, sizeof path, "%s/a.jsonl", folder);
    snprintf(index_path, sizeof index_path, "%s.leat-index", path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < RECORDS; i++)
        fprintf(f, i % 10 ? "{\"n\": %d, \"w\": \"word %d\", \"x\": %d}\n" : "{\"n\": %d, \"t\": \"%d %d\"}\n", i,
                i % 7, i % 3);
    fprintf(f, "{\"n\": 1, \"x\": 2.5}\n");
    assert_int_equal(fclose(f), 0);
    usual = leat_text_index_small;
    leat_text_index_small = 0;
    return 0;
}

static int remove_file(void **state)
{
    leat_text_index_small = usual;
    files_remove(folder);
    return 0;
}

static struct leat_dataset *open_it(void)
{
    struct leat_open_options o = LEAT_OPEN_OPTIONS_INIT;
    struct leat_dataset *d;
    struct leat_error error;
    assert_ok(leat_dataset_open(path, &o, &d, &error));
    return d;
}

static size_t field_of(const struct leat_dataset *d, const char *name)
{
    size_t n;
    const struct leat_field *fields = leat_dataset_fields(d, &n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(fields[i].name, name))
            return i;
    fail_msg("no field %s", name);
    return 0;
}

static void a_mapped_index_gives_what_one_in_memory_does(void **state)
{
    struct leat_error error;
    leat_dataset_release(open_it()); /* makes the index */
    leat_text_index_small = usual;
    struct leat_dataset *in_memory = open_it();
    leat_text_index_small = 0;
    struct leat_dataset *mapped = open_it();
    size_t n;
    leat_dataset_fields(mapped, &n);
    for (uint64_t i = 0; i < RECORDS; i += 97)
        for (size_t f = 0; f < n; f++) {
            struct leat_value a, b;
            assert_ok(leat_dataset_read(in_memory, i, f, &a, &error));
            assert_ok(leat_dataset_read(mapped, i, f, &b, &error));
            assert_int_equal(a.length, b.length);
            assert_memory_equal(a.data, b.data, a.length);
            leat_value_clear(&a);
            leat_value_clear(&b);
        }
    leat_dataset_release(in_memory);
    leat_dataset_release(mapped);
}

static void a_mapped_index_that_is_cut_is_an_error(void **state)
{
    struct leat_error error;
    struct leat_value value;
    leat_dataset_release(open_it());
    struct leat_dataset *d = open_it();
    const size_t word = field_of(d, "w"), text = field_of(d, "t"), number = field_of(d, "n");
    assert_int_equal(truncate(index_path, 4096), 0);
    assert_int_equal(leat_dataset_read(d, RECORDS - 1, word, &value, &error), LEAT_E_IO);
    assert_non_null(strstr(error.file, "leat-index"));
    assert_int_equal(leat_dataset_read(d, RECORDS - 1, text, &value, &error), LEAT_E_IO);
    assert_int_equal(leat_dataset_read(d, RECORDS - 1, number, &value, &error), LEAT_E_IO);
    leat_dataset_release(d);
    d = open_it(); /* the index is made anew */
    assert_ok(leat_dataset_read(d, RECORDS - 1, word, &value, &error));
    leat_value_clear(&value);
    leat_dataset_release(d);
}

static void the_place_of_a_record_has_its_line_in_any_order(void **state)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("{\"n\": 0}\n\n{\"n\": 1}\r\n \r\n{\"n\": 2}\n{\"n\": 3}", f);
    assert_int_equal(fclose(f), 0);
    static const uint64_t lines[] = {1, 3, 5, 6}, offsets[] = {0, 10, 23, 32};
    static const unsigned order[] = {2, 2, 3, 0, 1, 3};
    struct leat_dataset *d = open_it();
    struct leat_sample_place place;
    struct leat_error error;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        assert_ok(leat_dataset_place(d, order[i], 0, &place, &error));
        assert_string_equal(place.path, path);
        assert_int_equal(place.sample, order[i]);
        assert_int_equal(place.line, lines[order[i]]);
        assert_int_equal(place.offset, offsets[order[i]]);
    }
    assert_int_equal(leat_dataset_place(d, 4, 0, &place, &error), LEAT_E_RANGE);
    assert_int_equal(leat_dataset_place(d, 0, 9, &place, &error), LEAT_E_RANGE);
    leat_dataset_release(d);
}

static uint8_t *bytes_of_index(size_t *n)
{
    struct stat st;
    const int fd = open(index_path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && !fstat(fd, &st));
    *n = (size_t)st.st_size;
    uint8_t *bytes = malloc(*n);
    assert_non_null(bytes);
    assert_int_equal(read(fd, bytes, *n), *n);
    close(fd);
    return bytes;
}

static void flip_index(size_t at)
{
    uint8_t byte;
    const int fd = open(index_path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

/* Header and catalogue have checksums, whatever their bytes say. */
static void an_index_with_a_damaged_catalogue_is_made_anew(void **state)
{
    enum { FROM = 8, TO = 440 }; /* into the nodes, which four lines of one number have two of */
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("{\"n\": 0}\n{\"n\": 1}\n{\"n\": 2}\n{\"n\": 3}\n", f);
    assert_int_equal(fclose(f), 0);
    for (int mapped = 0; mapped < 2; mapped++) {
        leat_text_index_small = mapped ? 0 : usual;
        leat_dataset_release(open_it());
        size_t n;
        uint8_t *good = bytes_of_index(&n);
        assert_true(n > TO);
        for (size_t at = FROM; at < TO; at += 4) {
            size_t n_anew;
            flip_index(at);
            leat_dataset_release(open_it());
            uint8_t *anew = bytes_of_index(&n_anew);
            assert_int_equal(n_anew, n);
            if (memcmp(anew, good, n) != 0)
                fail_msg("byte %zu", at);
            free(anew);
        }
        free(good);
        unlink(index_path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_mapped_index_gives_what_one_in_memory_does, make_file, remove_file),
        cmocka_unit_test_setup_teardown(a_mapped_index_that_is_cut_is_an_error, make_file, remove_file),
        cmocka_unit_test_setup_teardown(the_place_of_a_record_has_its_line_in_any_order, make_file, remove_file),
        cmocka_unit_test_setup_teardown(an_index_with_a_damaged_catalogue_is_made_anew, make_file, remove_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
