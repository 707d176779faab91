#include <pthread.h>
#include <sys/wait.h>

#include "../faulty.h"
#include "../folder.h"
#include "data/dataset.h"
#include "native.h"

static char path[PATH_MAX + 16], photos[PATH_MAX + 16];
enum { N = 300 };

static int set_up(void **state)
{
    files_folder(folder);
    snprintf(path, sizeof path, "%s/data.leat", folder);
    native_write(path, 0, N, 0);
    for (int i = 0; i < 40; i++) {
        char name[32], content[32];
        snprintf(name, sizeof name, "photos/%c/%02d.jpg", 'a' + i % 2, i);
        snprintf(content, sizeof content, "photo %d", i);
        files_write_text(folder, name, content);
    }
    snprintf(photos, sizeof photos, "%s/photos", folder);
    return 0;
}

#define TEST_IN_FOLDER(name) TEST_IN(name, set_up, remove_folder)

static struct leat_dataset *open_with(const char *which, enum leat_recheck recheck)
{
    struct leat_error error;
    struct leat_dataset *d;
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    options.recheck = recheck;
    assert_ok(leat_dataset_open(which, &options, &d, &error));
    return d;
}

TEST_IN_FOLDER(every_kind_of_value_is_read)
{
    struct leat_error error;
    struct leat_dataset *d = open_with(path, LEAT_RECHECK_FIRST);
    struct leat_value value;
    for (uint64_t i = 0; i < N; i++) {
        char text[32];
        assert_ok(leat_dataset_read(d, i, X, &value, &error));
        assert_int_equal(value.ndim, 0);
        assert_int_equal(*(const int64_t *)value.data, i * 10);
        leat_value_clear(&value);
        assert_ok(leat_dataset_read(d, i, PAIR, &value, &error));
        assert_int_equal(value.ndim, 1);
        assert_int_equal(value.shape[0], 2);
        assert_int_equal(((const int32_t *)value.data)[1], -(int32_t)i);
        leat_value_clear(&value);
        assert_ok(leat_dataset_read(d, i, POINTS, &value, &error));
        assert_int_equal(value.ndim, 2);
        assert_int_equal(value.shape[0], i % 4);
        assert_int_equal(value.shape[1], 2);
        assert_int_equal(value.length, i % 4 * 8);
        leat_value_clear(&value);
        snprintf(text, sizeof text, "text %" PRIu64, i);
        assert_ok(leat_dataset_read(d, i, TEXT, &value, &error));
        assert_int_equal(value.ndim, 1);
        assert_int_equal(value.shape[0], strlen(text));
        assert_memory_equal(value.data, text, strlen(text));
        leat_value_clear(&value);
    }
    assert_int_equal(leat_dataset_read(d, N, X, &value, &error), LEAT_E_RANGE);
    assert_int_equal(leat_dataset_read(d, 0, 99, &value, &error), LEAT_E_RANGE);
    assert_null(value.data);
    leat_dataset_release(d);
}

TEST_IN_FOLDER(a_part_of_a_value_is_the_rows_of_the_whole)
{
    static const enum leat_recheck policies[] = {LEAT_RECHECK_ALWAYS, LEAT_RECHECK_FIRST, LEAT_RECHECK_NEVER};
    struct leat_error error;
    struct leat_value whole, part;
    for (size_t k = 0; k < 3; k++) {
        struct leat_dataset *d = open_with(path, policies[k]);
        for (uint64_t i = 0; i < 8; i++)
            for (uint64_t begin = 0; begin < 6; begin++)
                for (uint64_t n = 0; n < 6; n++) {
                    assert_ok(leat_dataset_read(d, i, POINTS, &whole, &error));
                    assert_ok(leat_dataset_read_part(d, i, POINTS, begin, n, &part, &error));
                    const uint64_t rows = i % 4, from = begin < rows ? begin : rows;
                    const uint64_t wanted = n < rows - from ? n : rows - from;
                    assert_int_equal(part.shape[0], wanted);
                    assert_int_equal(part.length, wanted * 8);
                    assert_memory_equal(part.data, (const uint8_t *)whole.data + from * 8, wanted * 8);
                    leat_value_clear(&part);
                    leat_value_clear(&whole);
                }
        assert_ok(leat_dataset_read_part(d, 3, POINTS, 1, UINT64_MAX, &part, &error));
        assert_int_equal(part.shape[0], 2);
        leat_value_clear(&part);
        assert_int_equal(leat_dataset_read_part(d, N, POINTS, 0, 1, &part, &error), LEAT_E_RANGE);
        assert_int_equal(leat_dataset_read_part(d, 0, PAIR, 0, 1, &part, &error), LEAT_E_TYPE);
        leat_dataset_release(d);
    }
}

TEST_IN_FOLDER(columns_come_in_place_or_as_a_copy)
{
    struct leat_error error;
    struct leat_dataset *d = open_with(path, LEAT_RECHECK_FIRST), *view;
    struct leat_value in_place, copy;
    assert_ok(leat_dataset_column(d, PAIR, false, false, &in_place, &error));
    assert_ok(leat_dataset_column(d, PAIR, false, true, &copy, &error));
    assert_non_null(copy.owned);
    assert_null(in_place.owned); /* one group of rows: the column lies in one piece */
    assert_int_equal(copy.ndim, 2);
    assert_int_equal(copy.shape[0], N);
    assert_int_equal(copy.shape[1], 2);
    assert_int_equal(copy.length, in_place.length);
    assert_memory_equal(copy.data, in_place.data, copy.length);
    leat_value_clear(&in_place);
    leat_value_clear(&copy);
    assert_ok(leat_dataset_select(d, (int64_t[]){299, 0, 299}, 3, &view, &error));
    assert_ok(leat_dataset_column(view, PAIR, false, false, &copy, &error));
    assert_memory_equal(copy.data, ((int32_t[]){299, -299, 0, 0, 299, -299}), 24);
    leat_value_clear(&copy);
    assert_ok(leat_dataset_column(view, TEXT, true, false, &copy, &error));
    assert_int_equal(copy.dtype, LEAT_U64);
    assert_memory_equal(copy.data, ((uint64_t[]){8, 6, 8}), 24);
    leat_value_clear(&copy);
    assert_int_equal(leat_dataset_column(view, TEXT, false, false, &copy, &error), LEAT_E_TYPE);
    assert_int_equal(leat_dataset_column(view, X, true, false, &copy, &error), LEAT_E_TYPE);
    assert_int_equal(leat_dataset_column(view, 99, false, false, &copy, &error), LEAT_E_RANGE);
    leat_dataset_release(view);
    leat_dataset_release(d);
}

TEST_IN_FOLDER(a_folder_gives_what_packing_it_needs)
{
    struct leat_error error;
    struct leat_dataset *d = open_with(photos, LEAT_RECHECK_FIRST);
    struct leat_value name, lengths, labels, image;
    size_t n;
    const struct leat_field *fields = leat_dataset_fields(d, &n);
    assert_int_equal(n, 3);
    assert_string_equal(fields[2].name, "name");
    assert_int_equal(fields[2].flags, LEAT_FIELD_DERIVED);
    assert_ok(leat_dataset_column(d, 0, true, false, &lengths, &error));
    assert_ok(leat_dataset_column(d, 1, false, false, &labels, &error));
    for (uint64_t i = 0; i < 40; i++) {
        char file[PATH_MAX + 300], text[64];
        struct stat st;
        assert_ok(leat_dataset_read(d, i, 2, &name, &error));
        snprintf(text, sizeof text, "%.*s", (int)name.length, (const char *)name.data);
        snprintf(file, sizeof file, "%s/%s", photos, text);
        assert_int_equal(stat(file, &st), 0);
        assert_int_equal(((const uint64_t *)lengths.data)[i], st.st_size);
        assert_int_equal(((const int64_t *)labels.data)[i], text[0] - 'a');
        assert_ok(leat_dataset_read(d, i, 0, &image, &error));
        assert_int_equal(image.length, st.st_size);
        assert_memory_equal(image.data, "photo ", 6);
        leat_value_clear(&image);
        leat_value_clear(&name);
    }
    leat_value_clear(&lengths);
    leat_value_clear(&labels);
    leat_dataset_release(d);
}

/* Flips a bit of the first place where `needle` stands in the file. */
static uint64_t flip(const char *needle)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    static char bytes[1 << 20];
    size_t n = fread(bytes, 1, sizeof bytes, f);
    char *at = memmem(bytes, n, needle, strlen(needle));
    assert_non_null(at);
    fseek(f, at - bytes, SEEK_SET);
    fputc(*at ^ 4, f);
    fclose(f);
    return (uint64_t)(at - bytes);
}

TEST_IN_FOLDER(a_flipped_bit_names_file_sample_field_and_byte)
{
    struct leat_error error;
    struct leat_value value;
    uint64_t offset = flip("text 77");
    struct leat_dataset *d = open_with(path, LEAT_RECHECK_FIRST);
    assert_ok(leat_dataset_read(d, 76, TEXT, &value, &error));
    leat_value_clear(&value);
    for (int again = 0; again < 2; again++) { /* a bad value is not remembered as verified */
        assert_int_equal(leat_dataset_read(d, 77, TEXT, &value, &error), LEAT_E_CORRUPT);
        assert_int_equal(error.sample, 77);
        assert_string_equal(error.field, "text");
        assert_string_equal(error.file, path);
        assert_int_equal(error.offset, offset);
    }
    leat_dataset_release(d);
}

TEST_IN_FOLDER(recheck_says_how_often_checksums_are_compared)
{
    struct leat_error error;
    struct leat_value value;
    struct leat_dataset *first = open_with(path, LEAT_RECHECK_FIRST), *always = open_with(path, LEAT_RECHECK_ALWAYS),
                        *never = open_with(path, LEAT_RECHECK_NEVER);
    struct leat_dataset *all[] = {first, always, never};
    for (int i = 0; i < 3; i++) {
        assert_ok(leat_dataset_read(all[i], 77, TEXT, &value, &error));
        leat_value_clear(&value);
    }
    flip("text 77");
    assert_int_equal(leat_dataset_read(first, 77, TEXT, &value, &error), LEAT_OK);
    leat_value_clear(&value);
    assert_int_equal(leat_dataset_read(always, 77, TEXT, &value, &error), LEAT_E_CORRUPT);
    assert_int_equal(leat_dataset_read(never, 77, TEXT, &value, &error), LEAT_OK);
    leat_value_clear(&value);
    for (int i = 0; i < 3; i++)
        leat_dataset_release(all[i]);
}

TEST_IN_FOLDER(a_file_cut_under_a_data_set_is_an_error)
{
    struct leat_error error;
    struct leat_value value;
    struct leat_dataset *d = open_with(path, LEAT_RECHECK_NEVER);
    assert_int_equal(truncate(path, 100), 0);
    unsigned failures = 0;
    for (uint64_t i = 0; i < N; i++)
        for (size_t f = 0; f < NATIVE_FIELDS; f++) {
            int rc = leat_dataset_read(d, i, f, &value, &error);
            if (rc) {
                assert_true(rc == LEAT_E_CORRUPT || rc == LEAT_E_IO);
                assert_int_equal(error.sample, i);
                assert_string_equal(error.field, native_fields[f].name);
                failures++;
            }
            leat_value_clear(&value);
        }
    assert_true(failures >= N);
    leat_dataset_release(d);
}

TEST_IN_FOLDER(a_gathered_column_blames_the_first_row_that_is_gone)
{
    enum { MANY = 20000 };
    struct leat_error error;
    struct leat_value value;
    native_write(path, 0, MANY, 0);
    struct leat_dataset *d = open_with(path, LEAT_RECHECK_NEVER);
    const uint8_t *column;
    assert_ok(
        leat_dataset_column(d, X, false, false, &value, &error)); /* where the column lies: cut through its middle */
    column = value.data;
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    leat_value_clear(&value);
    struct leat_sample_ref ref;
    uint64_t middle = MANY / 2;
    struct leat_io_file *file;
    leat_dataset_locate(d, &middle, 1, &ref);
    assert_ok(ref.source->v->file(ref.source, 0, &file, &error));
    off_t cut = column + middle * 8 - leat_io_map(file, &error);
    leat_io_release(file);
    assert_int_equal(truncate(path, cut), 0);
    uint64_t first = 0;
    while (first < MANY && leat_dataset_read(d, first, X, &value, &error) == LEAT_OK) {
        leat_value_clear(&value);
        first++;
    }
    assert_in_range(first, middle, middle + 4096 / 8);
    assert_int_equal(leat_dataset_column(d, X, false, true, &value, &error), LEAT_E_IO);
    assert_int_equal(error.sample, first);
    assert_string_equal(error.field, "x");
    assert_string_equal(error.file, path);
    assert_in_range(error.offset, cut, cut + 4096);
    leat_dataset_release(d);
}

TEST_IN_FOLDER(a_photo_replaced_or_cut_is_an_error_with_its_sample)
{
    struct leat_error error;
    struct leat_value value;
    struct leat_dataset *d = open_with(photos, LEAT_RECHECK_FIRST);
    files_write_text(folder, "photos/a/00.jpg", "something else");
    assert_int_equal(leat_dataset_read(d, 0, 0, &value, &error), LEAT_E_CHANGED);
    assert_int_equal(error.sample, 0);
    assert_string_equal(error.field, "image");
    assert_non_null(strstr(error.file, "photos/a/00.jpg"));
    leat_faulty_start(&(struct leat_faulty){.cut = true, .cut_at = 3, .only = "02.jpg"});
    assert_int_equal(leat_dataset_read(d, 1, 0, &value, &error), LEAT_E_CORRUPT);
    assert_int_equal(error.sample, 1);
    assert_int_equal(error.offset, 3);
    assert_ok(leat_dataset_read(d, 2, 0, &value, &error));
    leat_value_clear(&value);
    leat_faulty_stop();
    leat_dataset_release(d);
}

struct arrivals {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned n;
};

static void arrived(struct leat_io_request *request, void *user)
{
    struct arrivals *a = user;
    pthread_mutex_lock(&a->lock);
    a->n++;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

TEST_IN_FOLDER(fetches_complete_now_or_later_and_are_checked_then)
{
    enum { MANY = 40 };
    struct leat_error error;
    struct arrivals a = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    static struct leat_fetch fetches[MANY];
    static struct leat_io_request requests[MANY];
    static char buffers[MANY][64];
    leat_faulty_start(&(struct leat_faulty){.later = true, .delay_us = 50, .only = ".jpg", .fail_read = 7});
    struct leat_dataset *d = open_with(photos, LEAT_RECHECK_FIRST);
    for (uint64_t i = 0; i < MANY; i++) {
        struct leat_fetch *f = &fetches[i];
        size_t failed;
        *f = (struct leat_fetch){.buffer = buffers[i]};
        leat_dataset_locate(d, &i, 1, &f->ref);
        assert_ok(leat_dataset_extents(d, 0, &f->ref, 1, &f->extent, &failed, &error));
        requests[i] = (struct leat_io_request){.offset = f->extent.offset,
                                               .length = leat_fetch_bytes(&f->extent, false),
                                               .buffer = f->buffer,
                                               .done = arrived,
                                               .user = &a};
        assert_ok(f->ref.source->v->file(f->ref.source, f->extent.file, &requests[i].file, &error));
        if (leat_io_submit(&requests[i]) == LEAT_OK)
            arrived(&requests[i], &a);
    }
    pthread_mutex_lock(&a.lock);
    while (a.n < MANY)
        pthread_cond_wait(&a.changed, &a.lock);
    pthread_mutex_unlock(&a.lock);
    for (uint64_t i = 0; i < MANY; i++) {
        leat_io_release(requests[i].file);
        assert_int_equal(requests[i].status, i == 6 ? LEAT_E_IO : LEAT_OK);
        if (i == 6)
            continue;
        assert_ok(leat_fetch_check(&fetches[i], &error));
        assert_memory_equal(buffers[i], "photo ", 6);
        leat_fetch_mark(&fetches[i], LEAT_HEALTH_GOOD);
    }
    struct leat_extent extent;
    size_t failed;
    assert_ok(leat_dataset_extents(d, 0, &fetches[9].ref, 1, &extent, &failed, &error));
    assert_int_equal(extent.info.health, LEAT_HEALTH_GOOD);
    leat_dataset_release(d);
    leat_faulty_stop();
}

/* Opens and reads all of it; returns the first error. */
static int open_and_read(const char *which, struct leat_error *error)
{
    struct leat_dataset *d;
    struct leat_value value;
    size_t n;
    int rc = leat_dataset_open(which, NULL, &d, error);
    if (rc) {
        assert_null(d);
        return rc;
    }
    leat_dataset_fields(d, &n);
    for (uint64_t i = 0; i < leat_dataset_count(d) && !rc; i += 7)
        for (size_t f = 0; f < n && !rc; f++) {
            rc = leat_dataset_read(d, i, f, &value, error);
            leat_value_clear(&value);
        }
    leat_dataset_release(d);
    return rc;
}

TEST_IN_FOLDER(whichever_open_or_read_fails_the_error_comes_back)
{
    const char *both[] = {path, photos};
    for (int w = 0; w < 2; w++)
        for (int kind = 0; kind < 3; kind++)
            for (uint64_t n = 1;; n++) {
                struct leat_error error = {.code = 0};
                struct leat_faulty plan = {0};
                *(kind == 0 ? &plan.fail_open : kind == 1 ? &plan.fail_read : &plan.fail_map) = n;
                leat_faulty_start(&plan);
                int rc = open_and_read(both[w], &error);
                struct leat_faulty_counts counts = leat_faulty_stop();
                if ((kind == 0 ? counts.opens : kind == 1 ? counts.reads : counts.maps) < n) {
                    assert_ok(rc);
                    break;
                }
                assert_int_equal(rc, LEAT_E_IO);
                assert_int_equal(error.code, LEAT_E_IO);
                assert_true(strlen(error.file) > 0);
            }
}

TEST_IN_FOLDER(reading_through_a_disturbed_system_gives_the_same_values)
{
    struct leat_error error;
    const char *both[] = {path, photos};
    for (int w = 0; w < 2; w++) {
        leat_faulty_start(&(struct leat_faulty){.later = true, .short_reads = 3, .errors = 5, .error_number = EINTR});
        assert_ok(open_and_read(both[w], &error));
        leat_faulty_stop();
    }
}

static void *read_in_a_thread(void *arg)
{
    const struct leat_dataset *d = arg;
    struct leat_error error;
    for (uint64_t i = 0; i < N; i++)
        for (size_t f = 0; f < NATIVE_FIELDS; f++) {
            struct leat_value value;
            if (leat_dataset_read(d, i, f, &value, &error))
                return arg;
            leat_value_clear(&value);
        }
    struct leat_value column;
    if (leat_dataset_column(d, X, false, false, &column, &error) ||
        ((const int64_t *)column.data)[N - 1] != (N - 1) * 10)
        return arg;
    leat_value_clear(&column);
    return NULL;
}

TEST_IN_FOLDER(several_threads_read_at_once)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    struct leat_dataset *d = open_with(path, LEAT_RECHECK_FIRST);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_in_a_thread, d), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    leat_dataset_release(d);
}

TEST_IN_FOLDER(a_data_set_survives_fork)
{
    struct leat_dataset *d = open_with(path, LEAT_RECHECK_FIRST), *folder_of = open_with(photos, LEAT_RECHECK_FIRST);
    pid_t child = fork();
    if (child == 0) {
        struct leat_value value;
        int rc = read_in_a_thread(d) != NULL;
        rc |= leat_dataset_read(folder_of, 39, 0, &value, NULL);
        leat_value_clear(&value);
        leat_dataset_release(d);
        leat_dataset_release(folder_of);
        _exit(rc ? 1 : 7);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_null(read_in_a_thread(d));
    leat_dataset_release(d);
    leat_dataset_release(folder_of);
}

TEST_IN_FOLDER(what_cannot_be_opened_says_why)
{
    struct leat_error error;
    struct leat_dataset *d;
    char other[PATH_MAX + 32];
    snprintf(other, sizeof other, "%s/nothing", folder);
    assert_int_equal(leat_dataset_open(other, NULL, &d, &error), LEAT_E_NOT_FOUND);
    assert_string_equal(error.file, other);
    files_write_text(folder, "half.leat.partial", "x");
    snprintf(other, sizeof other, "%s/half.leat", folder);
    assert_int_equal(leat_dataset_open(other, NULL, &d, &error), LEAT_E_UNFINISHED);
    assert_non_null(strstr(error.message, "--resume"));
    struct leat_open_options options = {0};
    assert_int_equal(leat_dataset_open(path, &options, &d, &error), LEAT_E_INVALID);
    options = (struct leat_open_options)LEAT_OPEN_OPTIONS_INIT;
    options.recheck = (enum leat_recheck)77;
    assert_int_equal(leat_dataset_open(path, &options, &d, &error), LEAT_E_INVALID);
}

TEST_IN_FOLDER(options_of_an_older_program_are_completed)
{
    struct leat_error error;
    struct leat_dataset *d;
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    options.struct_size = offsetof(struct leat_open_options, labels);
    options.labels = (enum leat_labels)77; /* beyond what that program knows: not looked at */
    assert_ok(leat_dataset_open(path, &options, &d, &error));
    leat_dataset_release(d);
}

TEST_MAIN()
