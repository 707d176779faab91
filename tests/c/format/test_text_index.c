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
#include "base/hash.h"

enum { RECORDS = 20000, FEW = 60 };

static char folder[PATH_MAX], path[PATH_MAX + 16], index_path[PATH_MAX + 64];
static bool maps; /* an index of any size */

bool __real_leat_text_index_load(struct leat_text_index *index, const char *at, struct leat_io_file *source,
                                 uint64_t mode, const struct leat_text_care *care);
bool __wrap_leat_text_index_load(struct leat_text_index *index, const char *at, struct leat_io_file *source,
                                 uint64_t mode, const struct leat_text_care *care);
bool __wrap_leat_text_index_load(struct leat_text_index *index, const char *at, struct leat_io_file *source,
                                 uint64_t mode, const struct leat_text_care *care)
{
    struct leat_text_care changed = *care;
    changed.small = maps ? 0 : care->small;
    return __real_leat_text_index_load(index, at, source, mode, &changed);
}

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
    maps = true;
    return 0;
}

static int remove_file(void **state)
{
    files_remove(folder);
    return 0;
}

#define TEST_SET_UP(name) TEST_IN(name, make_file, remove_file)

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

TEST_SET_UP(a_mapped_index_gives_what_one_in_memory_does)
{
    struct leat_error error;
    leat_dataset_release(open_it()); /* makes the index */
    maps = false;
    struct leat_dataset *in_memory = open_it();
    maps = true;
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

TEST_SET_UP(a_mapped_index_that_is_cut_is_an_error)
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

/* All values in their order as one hash. `failed`: a value could not be read, with LEAT_E_CHANGED. */
static uint64_t read_all(bool *failed)
{
    struct leat_dataset *d = open_it();
    struct leat_error error;
    uint64_t hash = leat_dataset_count(d);
    size_t n;
    leat_dataset_fields(d, &n);
    *failed = false;
    for (uint64_t i = 0; i < FEW && !*failed; i++)
        for (size_t f = 0; f < n && !*failed; f++) {
            struct leat_value value;
            const int rc = leat_dataset_read(d, i, f, &value, &error);
            *failed = rc == LEAT_E_CHANGED;
            if (*failed)
                continue;
            assert_ok(rc);
            hash = leat_hash64((const uint64_t[]){hash, leat_hash64(value.data, (size_t)value.length)}, 16);
            leat_value_clear(&value);
        }
    leat_dataset_release(d);
    return hash;
}

/* Changes a bit of the index, whose times stay. */
static void flip(uint64_t at, unsigned bit)
{
    const int fd = open(index_path, O_RDWR | O_CLOEXEC);
    uint8_t byte;
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= (uint8_t)(1u << bit);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

static void write_few(void)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < FEW; i++)
        fprintf(f, "{\"n\": %d, \"w\": \"word %d\", \"l\": [%d], \"b\": %s}\n", i, i % 7, i, i % 3 ? "true" : "null");
    assert_int_equal(fclose(f), 0);
}

TEST_SET_UP(a_mapped_index_that_is_damaged_anywhere_is_made_again)
{
    (void)state;
    enum { FLIPS = 400 };
    bool failed, again;
    write_few();
    const uint64_t good = read_all(&failed);
    unsigned errors = 0;
    for (unsigned i = 0; i < FLIPS; i++) {
        struct stat st;
        assert_int_equal(stat(index_path, &st), 0);
        const uint64_t key = leat_hash64(&i, sizeof i);
        flip(key % (uint64_t)st.st_size, (unsigned)(key >> 60) & 7);
        uint64_t got = read_all(&failed);
        errors += failed;
        if (failed) /* a line shows that it is wrong where it is read */
            got = read_all(&again);
        assert_false(failed && again);
        assert_int_equal(got, good);
    }
    assert_true(errors > 10 && errors < FLIPS / 2);
}

TEST_SET_UP(an_index_that_took_the_place_of_a_wrong_one_stays)
{
    (void)state;
    char other[PATH_MAX + 80];
    struct leat_error error;
    struct leat_value value;
    struct stat before, behind;
    write_few();
    leat_dataset_release(open_it());
    snprintf(other, sizeof other, "%s.kept", index_path);
    assert_int_equal(link(index_path, other), 0);
    struct leat_dataset *d = open_it();
    assert_int_equal(stat(index_path, &before), 0);
    /* Another process made it again: the file that is open has no name any more. */
    assert_int_equal(unlink(index_path), 0);
    leat_dataset_release(open_it());
    assert_int_equal(stat(index_path, &behind), 0);
    assert_true(before.st_ino != behind.st_ino);
    snprintf(index_path, sizeof index_path, "%s.leat-index.kept", path);
    for (uint64_t at = 0; at < (uint64_t)before.st_size; at += 8)
        flip(at, 3);
    snprintf(index_path, sizeof index_path, "%s.leat-index", path);
    assert_int_equal(leat_dataset_read(d, 5, field_of(d, "l"), &value, &error), LEAT_E_CHANGED);
    assert_int_equal(stat(index_path, &before), 0);
    assert_int_equal(before.st_ino, behind.st_ino);
    leat_dataset_release(d);
}

TEST_SET_UP(the_place_of_a_record_has_its_line_in_any_order)
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
TEST_SET_UP(an_index_with_a_damaged_catalogue_is_made_anew)
{
    enum { FROM = 8, TO = 440 }; /* into the nodes, which four lines of one number have two of */
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("{\"n\": 0}\n{\"n\": 1}\n{\"n\": 2}\n{\"n\": 3}\n", f);
    assert_int_equal(fclose(f), 0);
    for (int mapped = 0; mapped < 2; mapped++) {
        maps = mapped;
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

TEST_MAIN()
