/* Large files before anybody has read much of them: the same values and errors, and little memory. */
#include <sys/wait.h>
#include <unistd.h>

#include "../test.h"
#include "data/dataset.h"
#include "native.h"
#include "store/reader.h"

#if defined(__has_feature)
#define TEST_HAS(x) __has_feature(x)
#else
#define TEST_HAS(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || TEST_HAS(thread_sanitizer) ||                     \
    TEST_HAS(address_sanitizer)
#define TEST_SANITIZED 1
#else
#define TEST_SANITIZED 0
#endif

enum { SAMPLES = 20000, BATCH = 300 };
static char folder[] = "/tmp/leat-cold-XXXXXX";
static char path[64];

static int set_up(void **state)
{
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/small.leat", folder);
    native_write(path, 0, SAMPLES, 0);
    return 0;
}

static int tear_down(void **state)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static struct leat_store_source *open_cold(const char *name, enum leat_recheck recheck)
{
    struct leat_error error;
    struct leat_source *source;
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    options.recheck = recheck;
    assert_ok(leat_source_open(name, &options, &source, &error));
    struct leat_store_source *s = (struct leat_store_source *)source;
    atomic_store(&s->cold_values, UINT64_MAX);
    return s;
}

/* All values, a shuffled batch at a time, each batch with neighbours of one page in it. */
static void check_all(struct leat_store_source *s)
{
    struct leat_source *source = &s->base;
    struct leat_error error;
    size_t failed;
    static uint64_t samples[BATCH];
    static int32_t cold[2 * BATCH];
    static const void *rows[BATCH];
    static struct leat_extent extents[BATCH];
    for (uint64_t first = 0; first < SAMPLES; first += BATCH) {
        size_t n = SAMPLES - first < BATCH ? (size_t)(SAMPLES - first) : BATCH;
        for (size_t i = 0; i < n; i++)
            samples[i] = i % 3 ? samples[i - 1] + 1 < SAMPLES ? samples[i - 1] + 1 : 0 : (first + i) * 7919 % SAMPLES;
        assert_ok(source->v->rows(source, PAIR, samples, n, cold, rows, &failed, &error));
        for (size_t i = 0; i < n; i++) {
            const int32_t want[2] = {(int32_t)samples[i], -(int32_t)samples[i]};
            assert_ptr_equal(rows[i], cold + 2 * i);
            assert_memory_equal(rows[i], want, 8);
        }
        assert_ok(source->v->extents(source, POINTS, samples, n, extents, &failed, &error));
        for (size_t i = 0; i < n; i++)
            assert_int_equal(extents[i].length, samples[i] % 4 * 8);
    }
}

TEST(values_of_a_cold_file_are_those_of_the_file)
{
    static const enum leat_recheck policies[] = {LEAT_RECHECK_FIRST, LEAT_RECHECK_ALWAYS, LEAT_RECHECK_NEVER};
    for (int i = 0; i < 3; i++) {
        struct leat_store_source *s = open_cold(path, policies[i]);
        check_all(s);
        check_all(s);
        leat_source_close(&s->base);
    }
}

TEST(a_file_that_was_read_for_a_while_is_mapped)
{
    struct leat_store_source *s = open_cold(path, LEAT_RECHECK_FIRST);
    struct leat_error error;
    const uint64_t samples[2] = {5, 6};
    const void *rows[2];
    int32_t cold[4];
    size_t failed;
    atomic_store(&s->cold_values, 3);
    assert_ok(s->base.v->rows(&s->base, PAIR, samples, 2, cold, rows, &failed, &error));
    assert_ptr_equal(rows[0], cold);
    assert_ok(s->base.v->rows(&s->base, PAIR, samples, 2, cold, rows, &failed, &error));
    assert_ptr_equal(rows[0], cold);
    assert_ok(s->base.v->rows(&s->base, PAIR, samples, 2, cold, rows, &failed, &error));
    assert_ptr_not_equal(rows[0], cold);
    assert_int_equal(((const int32_t *)rows[1])[1], -6);
    leat_source_close(&s->base);
}

TEST(a_damaged_page_of_a_cold_file_is_an_error_with_its_place)
{
    struct leat_store_source *s = open_cold(path, LEAT_RECHECK_FIRST);
    struct leat_error error;
    uint64_t samples[2] = {0, SAMPLES - 1}, group = s->n_groups - 1;
    const void *rows[2];
    int32_t cold[4];
    size_t failed = 9;
    const struct leat_store_field *info = &s->layout.info[PAIR];
    uint64_t at = s->columns_at[group] + info->before * s->groups[group].n_rows +
                  (SAMPLES - 1 - s->first_rows[group]) * info->width;
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, (long)at, SEEK_SET);
    int was = fgetc(f);
    fseek(f, (long)at, SEEK_SET);
    fputc(was ^ 1, f);
    fclose(f);
    int rc = s->base.v->rows(&s->base, PAIR, samples, 2, cold, rows, &failed, &error);
    f = fopen(path, "r+b");
    fseek(f, (long)at, SEEK_SET);
    fputc(was, f);
    fclose(f);
    assert_int_equal(rc, LEAT_E_CORRUPT);
    assert_int_equal(failed, 1);
    assert_string_equal(error.field, "pair");
    assert_true(error.offset > 0 && (uint64_t)error.offset <= at);
    leat_source_close(&s->base);
}

#if !TEST_SANITIZED /* whose own memory would be counted */
/* ---- memory ---------------------------------------------------------------------------------- */

static char large[64];

static void write_ten_million(void)
{
    enum { N = 10000000, PIECE = 1000000 };
    const struct leat_field field = {.name = "label", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64};
    struct leat_error error;
    struct leat_writer *writer;
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    options.num_threads = 1;
    assert_ok(leat_writer_open(large, &field, 1, &options, &writer, &error));
    int64_t *labels = malloc(PIECE * sizeof *labels);
    assert_non_null(labels);
    for (int64_t first = 0; first < N; first += PIECE) {
        for (int64_t i = 0; i < PIECE; i++)
            labels[i] = first + i;
        const void *columns[] = {labels};
        assert_ok(leat_writer_add_columns(writer, columns, PIECE, &error));
    }
    free(labels);
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
}

static long peak_kb(void)
{
    char line[128];
    long kb = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        sscanf(line, "VmHWM: %ld", &kb);
    if (f)
        fclose(f);
    return kb;
}

/* Exit codes of the child: 0 good, 1 failed, 2 too much memory. */
static int first_batch_in_little_memory(uint64_t rows)
{
    struct leat_error error;
    struct leat_dataset *dataset;
    struct leat_loader *loader;
    struct leat_batch *batch;
    struct leat_tensor labels;
    uint64_t iteration;
    struct leat_loader_options options = LEAT_LOADER_OPTIONS_INIT;
    options.order = LEAT_ORDER_SHUFFLED;
    options.batch_size = rows;
    long before = peak_kb();
    if (leat_dataset_open(large, NULL, &dataset, &error) || leat_loader_open(dataset, &options, &loader, &error) ||
        leat_loader_start(loader, &iteration, &error) ||
        leat_loader_next(loader, iteration, TEST_HANG_MS, &batch, &error))
        return 1;
    long grown = peak_kb() - before;
    if (leat_batch_tensor(batch, 0, &labels) || before <= 0)
        return 1;
    for (uint64_t i = 0; i < rows; i++)
        if (((const int64_t *)labels.data)[i] != leat_batch_ids(batch)[i])
            return 1;
    leat_batch_free(batch);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
    return grown < 50000 ? 0 : 2;
}

TEST(the_first_shuffled_batch_of_ten_million_takes_under_50_mb)
{
    snprintf(large, sizeof large, "%s/large.leat", folder);
    write_ten_million();
    static const uint64_t sizes[] = {256, 4096};
    for (int i = 0; i < 2; i++) {
        int status = -1;
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child)
            _exit(first_batch_in_little_memory(sizes[i]));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}
#endif

TEST_MAIN_IN(set_up, tear_down)
