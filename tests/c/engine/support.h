/* What the tests of the engine share: small data sets of known content, and hashes of all that a loader delivers. */
#ifndef LEAT_TESTS_ENGINE_SUPPORT_H
#define LEAT_TESTS_ENGINE_SUPPORT_H

#include <sys/stat.h>
#include <unistd.h>

#include "../test.h"
#include "base/hash.h"
#include "base/random.h"

#if TEST_THREAD_SANITIZED || defined(__SANITIZE_ADDRESS__) || TEST_HAS(address_sanitizer)
#define TEST_SANITIZED 1
#else
#define TEST_SANITIZED 0
#endif

/* Resident bytes of this process's anonymous and shared memory. */
static inline uint64_t test_resident(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    assert_non_null(f);
    char line[256];
    unsigned long long kib, sum = 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "RssAnon: %llu", &kib) == 1 || sscanf(line, "RssShmem: %llu", &kib) == 1)
            sum += kib;
    fclose(f);
    return sum * 1024;
}

/* A path in a folder of this test's own, which test_clean removes. */
static char test_folder[64];
static inline const char *test_path(const char *name)
{
    static char paths[8][128];
    static unsigned turn;
    if (!*test_folder) {
        strcpy(test_folder, "/tmp/leat-engine-XXXXXX");
        assert_non_null(mkdtemp(test_folder));
    }
    char *path = paths[turn++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder, name);
    return path;
}
static inline int test_clean(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", test_folder);
    return *test_folder && system(command) ? -1 : 0;
}

/* Bytes of sample i, the same everywhere. */
static inline void test_bytes(uint8_t *p, size_t n, uint64_t sample, uint64_t salt)
{
    uint64_t key = leat_key_mix(salt, sample);
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)leat_draw_u64(key, i / 8) >> (i % 8);
}

static inline struct leat_dataset *test_open(const char *path)
{
    struct leat_error error;
    struct leat_dataset *dataset;
    assert_ok(leat_dataset_open(path, NULL, &dataset, &error));
    return dataset;
}

static const struct leat_field test_fields[] = {
    {.name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8, .ndim = 1, .shape = {24}},
    {.name = "y", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
    {.name = "t", .kind = LEAT_KIND_BYTES, .dtype = LEAT_U8},
};

/* n samples of: x, 24 bytes; y, int64 = the sample's number; with `text`, t, 0 to 99 bytes; all of known content. */
static inline struct leat_dataset *test_dataset(const char *name, uint64_t n, bool text)
{
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    struct leat_writer *writer;
    struct leat_error error;
    const char *path = test_path(name);
    options.overwrite = true;
    options.num_threads = 1;
    assert_ok(leat_writer_open(path, test_fields, text ? 3 : 2, &options, &writer, &error));
    for (uint64_t i = 0; i < n; i++) {
        uint8_t x[24], t[100];
        int64_t y = (int64_t)i;
        test_bytes(x, sizeof x, i, 1);
        size_t length = leat_draw_below(2, i, sizeof t);
        test_bytes(t, length, i, 3);
        const struct leat_value_ref values[] = {{x, sizeof x, NULL}, {&y, sizeof y, NULL}, {t, length, NULL}};
        assert_ok(leat_writer_add(writer, values, NULL, &error));
    }
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
    return test_open(path);
}

static inline size_t test_tensor_bytes(const struct leat_tensor *t)
{
    size_t bytes = leat_dtype_size(t->dtype);
    for (unsigned d = 0; d < t->ndim; d++)
        bytes *= (size_t)t->shape[d];
    return bytes;
}

/* A hash over all that a consumer sees of a batch. */
static inline uint64_t test_hash_batch(const struct leat_batch *batch)
{
    uint64_t rows = leat_batch_rows(batch), hash = leat_key_mix(leat_batch_epoch(batch), leat_batch_step(batch));
    hash = leat_key_mix(hash, leat_hash64(leat_batch_ids(batch), rows * 8));
    hash = leat_key_mix(hash, leat_hash64(leat_batch_row_keys(batch), rows * 8));
    hash = leat_key_mix(hash, leat_hash64(leat_batch_valid(batch), rows));
    for (size_t o = 0; o < leat_batch_outputs(batch); o++) {
        struct leat_tensor t;
        assert_int_equal(leat_batch_tensor(batch, o, &t), LEAT_OK);
        hash = leat_key_mix(hash, leat_hash64(t.data, test_tensor_bytes(&t)));
        if (t.offsets)
            hash = leat_key_mix(hash, leat_hash64(t.offsets, (rows + 1) * 8));
    }
    return hash;
}

/* The batch holds exactly what its ids say. */
static inline void test_check_batch(const struct leat_batch *batch)
{
    struct leat_tensor x, y, t;
    assert_int_equal(leat_batch_tensor(batch, 0, &x), LEAT_OK);
    assert_int_equal(leat_batch_tensor(batch, 1, &y), LEAT_OK);
    bool text = leat_batch_outputs(batch) > 2;
    if (text)
        assert_int_equal(leat_batch_tensor(batch, 2, &t), LEAT_OK);
    for (uint64_t row = 0; row < leat_batch_rows(batch); row++) {
        uint64_t id = (uint64_t)leat_batch_ids(batch)[row];
        uint8_t bytes[100];
        test_bytes(bytes, 24, id, 1);
        assert_memory_equal((uint8_t *)x.data + row * 24, bytes, 24);
        assert_int_equal(((int64_t *)y.data)[row], id);
        if (!text)
            continue;
        size_t length = leat_draw_below(2, id, 100);
        test_bytes(bytes, length, id, 3);
        assert_int_equal(t.offsets[row + 1] - t.offsets[row], length);
        assert_memory_equal((uint8_t *)t.data + t.offsets[row], bytes, length);
    }
}

/* Small budgets are given for pages of 4 KiB: a buffer takes one at least. Times this, they do where pages are
 * larger. */
static inline uint64_t test_pages(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE) / 4096;
}

static inline struct leat_loader_options test_options(uint64_t batch)
{
    struct leat_loader_options options = LEAT_LOADER_OPTIONS_INIT;
    options.batch_size = batch;
    options.order = LEAT_ORDER_SHUFFLED;
    options.seed = 7;
    options.num_threads = 2;
    options.budget_bytes = 8 << 20;
    return options;
}

static inline struct leat_loader *test_loader(struct leat_dataset *dataset, const struct leat_loader_options *options)
{
    struct leat_error error;
    struct leat_loader *loader;
    assert_ok(leat_loader_open(dataset, options, &loader, &error));
    return loader;
}

static inline uint64_t test_start(struct leat_loader *loader)
{
    struct leat_error error;
    uint64_t iteration;
    assert_ok(leat_loader_start(loader, &iteration, &error));
    return iteration;
}

/* The next batch, or NULL at the end of the epoch. */
static inline struct leat_batch *test_next(struct leat_loader *loader, uint64_t iteration)
{
    struct leat_error error;
    struct leat_batch *batch;
    int rc = leat_loader_next(loader, iteration, TEST_HANG_MS, &batch, &error);
    if (rc == LEAT_E_END)
        return NULL;
    if (rc)
        fail_msg("next: %s: %s", leat_status_name(rc), error.message);
    return batch;
}

/* Hash over all batches of `epochs` epochs. */
static inline uint64_t test_hash_epochs(struct leat_loader *loader, int epochs)
{
    uint64_t hash = 0;
    for (int e = 0; e < epochs; e++) {
        uint64_t iteration = test_start(loader);
        for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b))
            hash = leat_key_mix(hash, test_hash_batch(b));
    }
    return hash;
}

#endif
