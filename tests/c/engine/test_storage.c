/* Values that are mapped, read from extents or computed by their source give the same batches, also side by side and
 * joined in one data set. */
#include "../faulty.h"
#include "base/alloc.h"
#include "base/error.h"
#include "data/internal.h"
#include "engine/loader.h"
#include "support.h"

enum { N = 300 };

/* ---- computed -------------------------------------------------------------------------------- */

struct computer {
    uint64_t first;         /* what sample 0 has */
    uint64_t bad;           /* sample that is broken, or UINT64_MAX */
    bool blames;            /* it says which one it was */
    _Atomic int scarce;     /* so many calls with sample 77 have no memory */
    _Atomic uint64_t calls; /* samples that were asked for */
    _Atomic uint64_t apart; /* calls after which values had memory of their own */
    size_t field;           /* its first field */
    uint64_t lies;          /* sample that is said to be longer than it is */
};

static int compute(void *user, const size_t *which, size_t n_fields, const uint64_t *samples, size_t n,
                   struct leat_values *out, size_t *failed, struct leat_error *error)
{
    struct computer *c = user;
    c->calls += n;
    for (size_t i = 0; i < n; i++) {
        uint64_t id = c->first + samples[i];
        uint8_t bytes[100];
        int64_t y = (int64_t)id;
        if (samples[i] == 77 && atomic_fetch_sub(&c->scarce, 1) > 0)
            return leat_fail(error, LEAT_E_NOMEM, "no memory for sample 77");
        if (samples[i] == c->bad) {
            *failed = c->blames ? i : n;
            return leat_fail(error, LEAT_E_DECODE, "sample %d cannot be computed", (int)samples[i]);
        }
        for (size_t f = 0; f < n_fields; f++) {
            const size_t field = c->field + which[f];
            size_t length = field == 0 ? 24 : leat_draw_below(2, id, 100);
            test_bytes(bytes, length, id, field == 0 ? 1 : 3);
            assert_int_equal(
                leat_values_put(out, f, i, field == 1 ? (void *)&y : bytes, field == 1 ? sizeof y : length), 0);
        }
    }
    c->apart += out->chunks != NULL;
    return LEAT_OK;
}

static uint64_t length_of(void *user, size_t field, uint64_t sample)
{
    const struct computer *c = user;
    return leat_draw_below(2, c->first + sample, 100) + (sample == c->lies);
}

static struct leat_dataset *computed(struct computer *c, size_t n_fields, uint64_t n)
{
    struct leat_dataset *d;
    struct leat_error error;
    assert_ok(leat_dataset_from_source(test_fields, n_fields, n, "1", compute, NULL, c, &d, &error));
    return d;
}

/* ---- in extents ------------------------------------------------------------------------------ */

/* x, y and t of sample i lie one after the other in a file, each at a multiple of 8, in 200 bytes. */
enum { STRIDE = 200 };
struct spread {
    struct leat_source source;
    struct leat_io_file *file;
};

static int spread_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                          struct leat_extent *extents, size_t *failed, struct leat_error *error)
{
    static const uint64_t at[] = {0, 24, 32};
    for (size_t i = 0; i < n; i++)
        extents[i] = (struct leat_extent){.offset = samples[i] * STRIDE + at[field],
                                          .length = field == 0   ? 24
                                                    : field == 1 ? 8
                                                                 : leat_draw_below(2, samples[i], 100)};
    return LEAT_OK;
}

static int spread_file(struct leat_source *source, uint64_t number, struct leat_io_file **out, struct leat_error *error)
{
    *out = leat_io_retain(((struct spread *)source)->file);
    return LEAT_OK;
}

static void spread_close(struct leat_source *source)
{
    leat_io_release(((struct spread *)source)->file);
    leat_free(source);
}

static struct leat_dataset *spread(void)
{
    static const struct leat_source_vtable table = {
        .name = "spread", .extents = spread_extents, .file = spread_file, .close = spread_close};
    static const uint8_t storage[] = {LEAT_STORAGE_EXTENT, LEAT_STORAGE_EXTENT, LEAT_STORAGE_EXTENT};
    struct spread *s = leat_new(struct spread);
    struct leat_error error;
    struct leat_dataset *d;
    const char *path = test_path("spread");
    FILE *f = fopen(path, "wb");
    for (uint64_t i = 0; i < N; i++) {
        uint8_t bytes[STRIDE] = {0};
        test_bytes(bytes, 24, i, 1);
        memcpy(bytes + 24, &i, 8);
        test_bytes(bytes + 32, leat_draw_below(2, i, 100), i, 3);
        assert_int_equal(fwrite(bytes, 1, STRIDE, f), STRIDE);
    }
    fclose(f);
    s->source = (struct leat_source){.v = &table,
                                     .path = "spread",
                                     .count = N,
                                     .fields = test_fields,
                                     .n_fields = 3,
                                     .storage = storage,
                                     .metadata = "{}",
                                     .notice = ""};
    assert_ok(leat_io_open(path, &s->file, &error));
    assert_ok(leat_dataset_of_source(&s->source, &d, &error));
    return d;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* All rows of two epochs are what their ids say. */
static uint64_t check_all(struct leat_dataset *d, bool in_order)
{
    struct leat_loader_options options = test_options(20);
    options.in_order = in_order;
    struct leat_loader *loader = test_loader(d, &options);
    uint64_t rows = 0;
    for (int epoch = 0; epoch < 2; epoch++) {
        uint64_t iteration = test_start(loader);
        for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b)) {
            test_check_batch(b);
            rows += leat_batch_rows(b);
        }
    }
    leat_loader_close(loader);
    return rows;
}

TEST(computed_values_make_the_batches_that_stored_ones_make)
{
    for (size_t n_fields = 2; n_fields <= 3; n_fields++)
        for (int in_order = 0; in_order < 2; in_order++) {
            struct computer c = {.bad = UINT64_MAX};
            struct leat_dataset *d = computed(&c, n_fields, N);
            assert_int_equal(check_all(d, in_order), 2 * N);
            assert_true(c.calls <=
                        2 * N + 8 + 600); /* once each, but for what is prefetched and what opening looks at */
            leat_dataset_release(d);
        }
}

/* The field that varies alone, of a source that says how long its values are. */
static struct leat_dataset *told(struct computer *c)
{
    struct leat_dataset *d;
    struct leat_error error;
    c->field = 2;
    assert_ok(leat_dataset_from_source(test_fields + 2, 1, N, "1", compute, NULL, c, &d, &error));
    assert_ok(leat_dataset_know_lengths(d, length_of, &error));
    return d;
}

TEST(a_value_whose_length_is_known_is_made_in_its_batch_and_once)
{
    struct computer c = {.bad = UINT64_MAX, .lies = UINT64_MAX};
    struct leat_dataset *d = told(&c);
    struct leat_loader_options options = test_options(20);
    options.epochs = 1; /* nothing of a second one is prefetched */
    struct leat_loader *loader = test_loader(d, &options);
    const uint64_t iteration = test_start(loader);
    for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b)) {
        struct leat_tensor t;
        assert_int_equal(leat_batch_tensor(b, 0, &t), LEAT_OK);
        for (uint64_t row = 0; row < leat_batch_rows(b); row++) {
            const uint64_t id = (uint64_t)leat_batch_ids(b)[row], length = leat_draw_below(2, id, 100);
            uint8_t bytes[100];
            test_bytes(bytes, length, id, 3);
            assert_int_equal(t.offsets[row + 1] - t.offsets[row], length);
            assert_memory_equal((uint8_t *)t.data + t.offsets[row], bytes, length);
        }
    }
    leat_loader_close(loader);
    assert_int_equal(c.calls, N);
    assert_int_equal(c.apart, 0);
    leat_dataset_release(d);
}

TEST(a_value_of_another_length_than_was_told_is_an_error)
{
    struct computer c = {.bad = UINT64_MAX, .lies = 50};
    struct leat_dataset *d = told(&c);
    struct leat_loader_options options = test_options(N);
    struct leat_loader *loader = test_loader(d, &options);
    struct leat_error error;
    struct leat_batch *b;
    assert_int_equal(leat_loader_next(loader, test_start(loader), -1, &b, &error), LEAT_E_CHANGED);
    assert_int_equal(error.sample, 50);
    leat_loader_close(loader);
    leat_dataset_release(d);
}

TEST(values_of_fixed_size_are_read_from_extents)
{
    for (int later = 0; later < 2; later++)
        for (int in_order = 0; in_order < 2; in_order++) {
            leat_faulty_start(&(struct leat_faulty){.later = later, .only = "spread"});
            struct leat_dataset *d = spread();
            assert_int_equal(check_all(d, in_order), 2 * N);
            leat_dataset_release(d);
            leat_faulty_stop();
        }
}

TEST(parts_of_one_data_set_may_be_reached_in_different_ways)
{
    struct computer c = {.first = 2 * N, .bad = UINT64_MAX};
    struct leat_dataset *parts[] = {test_dataset("mapped", N, true), spread(), computed(&c, 3, N)}, *d;
    struct leat_error error;
    assert_ok(leat_dataset_concat(parts, 3, &d, &error));
    for (int in_order = 0; in_order < 2; in_order++) {
        struct leat_loader_options options = test_options(20);
        options.in_order = in_order;
        struct leat_loader *loader = test_loader(d, &options);
        uint64_t iteration = test_start(loader), rows = 0;
        for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b))
            for (uint64_t i = 0; i < leat_batch_rows(b); i++, rows++) {
                struct leat_tensor x, y, t;
                uint8_t bytes[100];
                leat_batch_tensor(b, 0, &x);
                leat_batch_tensor(b, 1, &y);
                leat_batch_tensor(b, 2, &t);
                uint64_t id = (uint64_t)leat_batch_ids(b)[i], of = id < 2 * N ? id % N : id;
                assert_int_equal(((int64_t *)y.data)[i], of);
                test_bytes(bytes, 24, of, 1);
                assert_memory_equal((uint8_t *)x.data + i * 24, bytes, 24);
                size_t length = leat_draw_below(2, of, 100);
                test_bytes(bytes, length, of, 3);
                assert_int_equal(t.offsets[i + 1] - t.offsets[i], length);
                assert_memory_equal((uint8_t *)t.data + t.offsets[i], bytes, length);
            }
        assert_int_equal(rows, 3 * N);
        leat_loader_close(loader);
    }
    leat_dataset_release(d);
    for (int i = 0; i < 3; i++)
        leat_dataset_release(parts[i]);
}

TEST(fields_side_by_side_may_be_reached_in_different_ways)
{
    struct computer c = {.bad = UINT64_MAX};
    struct leat_dataset *parts[] = {test_dataset("mapped", N, true), spread(), computed(&c, 3, N)}, *d;
    struct leat_error error;
    assert_ok(leat_dataset_zip(parts, (const char *const[]){"a", "b", "c"}, 3, false, NULL, 0, &d, &error));
    struct leat_loader_options options = test_options(20);
    struct leat_loader *loader = test_loader(d, &options);
    uint64_t iteration = test_start(loader), rows = 0;
    for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b))
        for (int part = 0; part < 3; part++) {
            rows += leat_batch_rows(b);
            for (uint64_t i = 0; i < leat_batch_rows(b); i++) {
                struct leat_tensor y, t;
                leat_batch_tensor(b, (size_t)(3 * part + 1), &y);
                leat_batch_tensor(b, (size_t)(3 * part + 2), &t);
                assert_int_equal(((int64_t *)y.data)[i], leat_batch_ids(b)[i]);
                assert_int_equal(t.offsets[i + 1] - t.offsets[i],
                                 leat_draw_below(2, (uint64_t)leat_batch_ids(b)[i], 100));
            }
        }
    assert_int_equal(rows, 3 * N);
    leat_loader_close(loader);
    leat_dataset_release(d);
    for (int i = 0; i < 3; i++)
        leat_dataset_release(parts[i]);
}

TEST(a_sample_that_cannot_be_computed_is_a_broken_one)
{
    for (int blames = 0; blames < 2; blames++)
        for (size_t n_fields = 2; n_fields <= 3; n_fields++) {
            struct computer c = {.bad = 77, .blames = blames};
            struct leat_dataset *d = computed(&c, n_fields, N);
            struct leat_loader_options options = test_options(N);
            struct leat_loader *loader = test_loader(d, &options);
            struct leat_error error;
            struct leat_batch *b;
            struct leat_row_error row;
            assert_int_equal(leat_loader_next(loader, test_start(loader), -1, &b, &error), LEAT_E_DECODE);
            assert_int_equal(error.sample, 77);
            assert_non_null(strstr(error.message, "sample 77 cannot be computed"));
            leat_loader_close(loader);
            options.on_error = LEAT_ON_ERROR_SKIP;
            loader = test_loader(d, &options);
            b = test_next(loader, test_start(loader));
            assert_int_equal(leat_batch_rows(b), N - 1);
            assert_int_equal(leat_batch_errors(b), 1);
            leat_batch_error(b, 0, &row);
            assert_int_equal(row.planned, 77);
            test_check_batch(b);
            leat_batch_free(b);
            leat_loader_close(loader);
            options.on_error = LEAT_ON_ERROR_SUBSTITUTE;
            if (n_fields == 2) {
                loader = test_loader(d, &options);
                b = test_next(loader, test_start(loader));
                assert_int_equal(leat_batch_rows(b), N);
                leat_batch_error(b, 0, &row);
                assert_true(row.planned == 77 && row.delivered >= 0 && row.delivered != 77);
                test_check_batch(b);
                leat_batch_free(b);
                leat_loader_close(loader);
            }
            leat_dataset_release(d);
        }
}

/* The value has its length, and its place in the batch, from the first call. */
TEST(no_memory_for_a_value_whose_length_is_wanted_is_an_error_that_says_so)
{
    struct computer c = {.bad = UINT64_MAX, .scarce = 0};
    struct leat_dataset *d = computed(&c, 3, N);
    struct leat_loader_options options = test_options(N);
    options.num_threads = 1; /* one batch after the other */
    options.epochs = 1;
    c.scarce = 2; /* with the others, and alone */
    struct leat_loader *loader = test_loader(d, &options);
    struct leat_error error;
    struct leat_batch *b;
    assert_int_equal(leat_loader_next(loader, test_start(loader), -1, &b, &error), LEAT_E_NOMEM);
    assert_non_null(strstr(error.message, "no memory for sample 77"));
    leat_loader_close(loader);
    c.scarce = 1; /* alone it finds some */
    loader = test_loader(d, &options);
    b = test_next(loader, test_start(loader));
    assert_int_equal(leat_batch_rows(b), N);
    test_check_batch(b);
    leat_batch_free(b);
    leat_loader_close(loader);
    leat_dataset_release(d);
}

TEST(neighbours_in_a_file_are_read_as_one)
{
    leat_faulty_start(&(struct leat_faulty){.only = "spread"});
    struct leat_dataset *d = spread();
    struct leat_loader_options options = test_options(100);
    options.order = LEAT_ORDER_SEQUENTIAL;
    options.num_threads = 1;
    struct leat_loader *loader = test_loader(d, &options);
    uint64_t iteration = test_start(loader), rows = 0;
    for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b)) {
        test_check_batch(b);
        rows += leat_batch_rows(b);
    }
    leat_loader_close(loader);
    leat_dataset_release(d);
    struct leat_faulty_counts counts = leat_faulty_stop();
    assert_int_equal(rows, N);
    assert_true(counts.reads < N); /* of three values a row; fewer the sooner the reads come */
}

TEST_MAIN_IN(NULL, test_clean)
