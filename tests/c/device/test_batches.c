/* Batches that are copied to a card while they fill; standin.c takes the card's part, and does all of its work as late
 * as a card may. */
#include <dlfcn.h>
#include <sys/wait.h>

#include "../engine/support.h"
#include "device/driver.h"
#include "device/memory.h"
#include "leat/device.h"
#include "standin.h"

enum { N = 203, H = 6, W = 4, C = 3, IMAGE = H * W * C, BATCH = 16 };

static struct leat_error error;
static struct standin *standin;
static const struct leat_cuda *cuda;
static struct leat_dataset *dataset;

static void says(const char *text)
{
    if (!strstr(error.message, text))
        fail_msg("'%s' does not say '%s'", error.message, text);
}

static int set_up(void **state)
{
    const struct leat_field fields[] = {
        {.name = "image",
         .kind = LEAT_KIND_ARRAY,
         .dtype = LEAT_U8,
         .ndim = 3,
         .shape = {H, W, C},
         .layout = LEAT_LAYOUT_HWC},
        {.name = "y", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
        {.name = "t", .kind = LEAT_KIND_BYTES, .dtype = LEAT_U8},
        {.name = "s", .kind = LEAT_KIND_STR, .dtype = LEAT_U8},
    };
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    struct leat_writer *writer;
    const char *path = test_path("card.leat");
    assert_ok(leat_writer_open(path, fields, 4, &options, &writer, &error));
    for (uint64_t i = 0; i < N; i++) {
        uint8_t image[IMAGE], t[100];
        int64_t y = (int64_t)i;
        test_bytes(image, sizeof image, i, 1);
        const size_t length = leat_draw_below(2, i, sizeof t);
        test_bytes(t, length, i, 3);
        const struct leat_value_ref values[] = {
            {image, sizeof image, NULL}, {&y, sizeof y, NULL}, {t, length, NULL}, {"text", 4, NULL}};
        assert_ok(leat_writer_add(writer, values, NULL, &error));
    }
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
    dataset = test_open(path);
    void *handle = dlopen(getenv("LEAT_LIBCUDA"), RTLD_NOW), *found = handle ? dlsym(handle, "standin_state") : NULL;
    struct standin *(*reach)(void);
    if (!found || leat_cuda_get(&cuda, &error))
        return -1;
    memcpy(&reach, &found, sizeof reach);
    standin = reach();
    return 0;
}
static int tear_down(void **state)
{
    leat_dataset_release(dataset);
    return test_clean(state);
}

/* After a test: nothing is left on the card, or pinned. */
static void check_nothing_is_left(void)
{
    assert_int_equal(standin->allocated, 0);
    assert_int_equal(standin->objects, 0);
    assert_int_equal(standin->pinned, 0);
    assert_int_equal(standin->current, 0);
    *standin = (struct standin){.cards = 4, .driver_version = 12040, .architecture = 90};
}

struct job {
    struct leat_loader *loader;
    struct leat_device_batches *batches;
    uint64_t iteration;
    float values[C * 256];
};

static struct leat_loader_options pinned_options(uint64_t batch)
{
    struct leat_loader_options o = test_options(batch);
    assert_ok(leat_device_pinning(0, &o.pinning, &error));
    return o;
}

static void open_there(struct job *j, unsigned prefetch, uint64_t budget, bool planes)
{
    for (unsigned i = 0; i < C * 256; i++)
        j->values[i] = (float)(i % 256) * 0.37f + (float)(i / 256);
    const struct leat_device_table table = {"image", LEAT_F32, C, planes, false, j->values};
    struct leat_device_batches_options o = LEAT_DEVICE_BATCHES_OPTIONS_INIT;
    o.prefetch = prefetch;
    o.budget_bytes = budget;
    o.tables = &table;
    o.n_tables = 1;
    assert_ok(leat_device_batches_open(j->loader, &o, &j->batches, &error));
}

static struct job begin(unsigned prefetch, unsigned threads)
{
    struct job j = {0};
    struct leat_loader_options o = pinned_options(BATCH);
    o.num_threads = threads;
    standin->later = true;
    j.loader = test_loader(dataset, &o);
    open_there(&j, prefetch, 0, true);
    j.iteration = test_start(j.loader);
    return j;
}

static void finish(struct job *j)
{
    leat_device_batches_close(j->batches);
    leat_loader_close(j->loader);
}
static void end(struct job *j)
{
    finish(j);
    check_nothing_is_left();
}

/* The stand-in is told while a copier may run. */
#define TELL(MEMBER, VALUE) __atomic_store_n(&standin->MEMBER, VALUE, __ATOMIC_SEQ_CST)

static leat_cu_handle stream_new(void)
{
    leat_cu_handle stream, before;
    assert_int_equal(cuda->cuCtxPushCurrent_v2(standin), 0);
    assert_int_equal(cuda->cuStreamCreate(&stream, 1), 0);
    cuda->cuCtxPopCurrent_v2(&before);
    return stream;
}

static void stream_end(leat_cu_handle stream)
{
    leat_cu_handle before;
    assert_int_equal(cuda->cuCtxPushCurrent_v2(standin), 0);
    assert_int_equal(cuda->cuStreamSynchronize(stream), 0);
    assert_int_equal(cuda->cuStreamDestroy_v2(stream), 0);
    cuda->cuCtxPopCurrent_v2(&before);
}

/* A copy of the card's memory as it is when the work of `stream` has come that far. */
static void read_later(void *to, const void *from, size_t bytes, leat_cu_handle stream)
{
    leat_cu_handle before;
    assert_int_equal(cuda->cuCtxPushCurrent_v2(standin), 0);
    if (bytes)
        assert_int_equal(cuda->cuMemcpyDtoHAsync_v2(to, (leat_cu_memory)(uintptr_t)from, bytes, stream), 0);
    cuda->cuCtxPopCurrent_v2(&before);
}

/* All that a batch has on the card, on its way back. */
struct seen {
    uint64_t rows;
    float image[BATCH][C][H][W];
    int64_t y[BATCH], ids[BATCH], offsets[BATCH + 1];
    uint64_t keys[BATCH], wanted_keys[BATCH];
    int32_t domains[BATCH];
    bool valid[BATCH];
    uint8_t t[BATCH * 100];
};

static void look(struct seen *s, struct leat_device_batch *there, const struct leat_batch *batch, leat_cu_handle stream)
{
    struct leat_device_tensor image, y, t, text;
    struct leat_device_batch_rows rows;
    s->rows = leat_batch_rows(batch);
    memcpy(s->wanted_keys, leat_batch_row_keys(batch), 8 * s->rows);
    assert_int_equal(leat_device_batch_tensor(there, 0, &image), LEAT_OK);
    assert_int_equal(leat_device_batch_tensor(there, 1, &y), LEAT_OK);
    assert_int_equal(leat_device_batch_tensor(there, 2, &t), LEAT_OK);
    assert_int_equal(leat_device_batch_tensor(there, 3, &text), LEAT_E_NOT_FOUND);
    assert_int_equal(image.tensor.dtype, LEAT_F32);
    assert_int_equal(image.tensor.shape[0], s->rows);
    assert_int_equal(image.tensor.shape[1], C);
    assert_int_equal(image.tensor.strides[1], H * W);
    read_later(s->image, image.tensor.data, s->rows * IMAGE * 4, stream);
    read_later(s->y, y.tensor.data, s->rows * 8, stream);
    read_later(s->offsets, t.tensor.offsets, (s->rows + 1) * 8, stream);
    read_later(s->t, t.tensor.data, (size_t)t.tensor.shape[0], stream);
    leat_device_batch_rows(there, &rows);
    read_later(s->ids, rows.ids, s->rows * 8, stream);
    read_later(s->keys, rows.keys, s->rows * 8, stream);
    read_later(s->domains, rows.domains, s->rows * 4, stream);
    read_later(s->valid, rows.valid, s->rows, stream);
}

static void check_seen(const struct seen *s, const struct job *j)
{
    assert_memory_equal(s->keys, s->wanted_keys, 8 * s->rows);
    for (uint64_t row = 0; row < s->rows; row++) {
        uint8_t image[IMAGE], t[100];
        const uint64_t id = (uint64_t)s->ids[row], length = leat_draw_below(2, id, sizeof t);
        test_bytes(image, sizeof image, id, 1);
        test_bytes(t, length, id, 3);
        assert_int_equal(s->y[row], id);
        assert_true(s->valid[row] && !s->domains[row]);
        assert_int_equal(s->offsets[row + 1] - s->offsets[row], length);
        assert_memory_equal(s->t + s->offsets[row], t, length);
        for (int p = 0; p < H * W; p++)
            for (int c = 0; c < C; c++)
                assert_true((&s->image[row][c][0][0])[p] == j->values[c * 256 + image[p * C + c]]);
    }
}

static struct leat_device_batch *take(struct job *j, struct leat_batch *b, leat_cu_handle stream)
{
    struct leat_device_batch *there;
    assert_ok(leat_device_batches_take(j->batches, b, stream, &there, &error));
    return there;
}

TEST(a_batch_on_the_card_is_the_one_of_the_host_however_late_the_card_is)
{
    static struct seen seen[2 * N / BATCH + 8];
    for (unsigned prefetch = 0; prefetch <= 3; prefetch++)
        for (unsigned threads = 1; threads <= 2; threads++) {
            struct job j = begin(prefetch, threads);
            leat_cu_handle stream = stream_new();
            size_t n = 0;
            struct leat_device_batch *held[4] = {0};
            for (int epoch = 0; epoch < 2; epoch++) {
                j.iteration = epoch ? test_start(j.loader) : j.iteration;
                for (struct leat_batch *b; (b = test_next(j.loader, j.iteration)); n++) {
                    struct leat_device_batch *there = take(&j, b, stream);
                    look(&seen[n], there, b, stream);
                    leat_batch_free(b);
                    leat_device_batch_free(held[n % 4]); /* some are held for a while; all are read long after */
                    held[n % 4] = n % 3 ? NULL : there;
                    if (n % 3)
                        leat_device_batch_free(there);
                }
            }
            for (int i = 0; i < 4; i++)
                leat_device_batch_free(held[i]);
            stream_end(stream);
            assert_int_equal(n, 2 * ((N + BATCH - 1) / BATCH));
            for (size_t i = 0; i < n; i++)
                check_seen(&seen[i], &j);
            finish(&j);
            assert_true(standin->copied_bytes >= 2 * N * (IMAGE + 8));
            assert_true(standin->unpinned_bytes <= C * 1024 + n * 3 * 512); /* the table; arrays of rows */
            check_nothing_is_left();
        }
}

TEST(batches_that_a_decision_changes_or_nobody_takes_leave_nothing_behind)
{
    static struct seen seen[N];
    struct job j = begin(2, 2);
    leat_cu_handle stream = stream_new();
    size_t n = 0;
    for (int pass = 0; pass < 4; pass++) {
        j.iteration = pass ? test_start(j.loader) : j.iteration;
        for (int i = 0; i < 3 + pass; i++) {
            struct leat_batch *b = test_next(j.loader, j.iteration);
            if (i % 2 == 0) {
                struct leat_device_batch *there = take(&j, b, stream);
                look(&seen[n++], there, b, stream);
                leat_device_batch_free(there);
            }
            leat_batch_free(b);
            if (i == 1)
                assert_ok(leat_loader_set_batch_size(j.loader, (uint64_t)(BATCH - pass), NULL, &error));
        }
    }
    struct leat_batch *again;
    assert_ok(leat_loader_batch_at(j.loader, 0, 1, &again, &error)); /* not one of the window */
    struct leat_device_batch *there = take(&j, again, stream);
    look(&seen[n++], there, again, stream);
    leat_loader_close(j.loader);
    leat_batch_free(again);
    leat_device_batch_free(there);
    stream_end(stream);
    for (size_t i = 0; i < n; i++)
        check_seen(&seen[i], &j);
    leat_device_batches_close(j.batches);
    check_nothing_is_left();
}

TEST(a_card_whose_memory_is_used_up_gets_fewer_batches_ahead_and_then_the_error_has_numbers)
{
    static struct seen seen[N];
    struct job j = begin(3, 2);
    leat_cu_handle stream = stream_new();
    struct leat_device_batch *held[64];
    size_t n = 0;
    TELL(card_bytes, __atomic_load_n(&standin->allocated, __ATOMIC_SEQ_CST) + 12 * 4096); /* two batches and some */
    struct leat_batch *b;
    int rc = LEAT_OK;
    while ((b = test_next(j.loader, j.iteration))) {
        rc = leat_device_batches_take(j.batches, b, stream, &held[n], &error);
        if (rc)
            break;
        look(&seen[n], held[n], b, stream);
        n++;
        leat_batch_free(b);
    }
    assert_int_equal(rc, LEAT_E_NOMEM);
    says("out of memory");
    says("are in use for batches");
    assert_true(n >= 1);
    char *stats;
    assert_ok(leat_device_batches_stats(j.batches, &stats, &error));
    assert_null(strstr(stats, "\"prefetch\":3"));
    leat_free(stats);
    for (size_t i = 0; i < n; i++)
        leat_device_batch_free(held[i]);
    for (; b; b = test_next(j.loader, j.iteration), n++) { /* the same one, and all others */
        struct leat_device_batch *there = take(&j, b, stream);
        look(&seen[n], there, b, stream);
        leat_device_batch_free(there);
        leat_batch_free(b);
    }
    stream_end(stream);
    assert_int_equal(n, (N + BATCH - 1) / BATCH);
    for (size_t i = 0; i < n; i++)
        check_seen(&seen[i], &j);
    end(&j);
}

TEST(a_budget_that_is_held_is_an_error_with_numbers)
{
    struct job j = {0};
    struct leat_loader_options o = pinned_options(BATCH);
    j.loader = test_loader(dataset, &o);
    open_there(&j, 1, 8 * 4096, false);
    j.iteration = test_start(j.loader);
    struct leat_batch *b = test_next(j.loader, j.iteration);
    struct leat_device_batch *there = take(&j, b, NULL), *more;
    leat_batch_free(b);
    b = test_next(j.loader, j.iteration);
    assert_int_equal(leat_device_batches_take(j.batches, b, NULL, &more, &error), LEAT_E_BUDGET);
    assert_null(more);
    says("32768 that the budget allows");
    leat_device_batch_free(there);
    leat_device_batch_free(take(&j, b, NULL));
    leat_batch_free(b);
    end(&j);
}

TEST(memory_that_is_not_pinned_and_copies_that_fail_are_errors)
{
    struct leat_loader_options o = pinned_options(BATCH);
    struct leat_loader *loader;
    TELL(fails, "cuMemHostRegister_v2");
    TELL(code, LEAT_CU_OUT_OF_MEMORY);
    assert_int_equal(leat_loader_open(dataset, &o, &loader, &error), LEAT_E_NOMEM);
    says("ulimit -l");
    TELL(code, 719);
    assert_int_equal(leat_loader_open(dataset, &o, &loader, &error), LEAT_E_IO);
    says("context is lost");
    TELL(fails, NULL);
    struct job j = begin(2, 1);
    struct leat_batch *b = test_next(j.loader, j.iteration);
    leat_device_batch_free(take(&j, b, NULL));
    leat_batch_free(b);
    TELL(code, 700);
    TELL(fails, "cuMemcpyHtoDAsync_v2");
    int rc = LEAT_OK;
    for (int i = 0; !rc && i < 5; i++) { /* some are there already */
        struct leat_device_batch *there;
        b = test_next(j.loader, j.iteration);
        rc = leat_device_batches_take(j.batches, b, NULL, &there, &error);
        leat_device_batch_free(there);
        leat_batch_free(b);
    }
    assert_int_equal(rc, LEAT_E_IO);
    says("context is lost");
    TELL(fails, NULL);
    end(&j);
}

TEST(memory_that_a_graph_is_captured_with_is_used_again_only_behind_it)
{
    struct job j = begin(0, 1);
    leat_cu_handle stream = stream_new();
    struct leat_batch *b = test_next(j.loader, j.iteration);
    struct leat_device_batch *there = take(&j, b, stream);
    struct leat_device_batch *more[2];
    struct leat_device_tensor first, second;
    leat_device_batch_tensor(there, 0, &first);
    leat_batch_free(b);
    TELL(captures, true);
    leat_device_batch_free(there);
    for (int i = 0; i < 2; i++) { /* while it is captured, and after that */
        b = test_next(j.loader, j.iteration);
        more[i] = take(&j, b, stream);
        leat_device_batch_tensor(more[i], 0, &second);
        assert_int_equal(second.tensor.data == first.tensor.data, i);
        leat_batch_free(b);
        TELL(captures, false);
    }
    leat_device_batch_free(more[0]);
    leat_device_batch_free(more[1]);
    stream_end(stream);
    end(&j);
}

TEST(a_table_that_does_not_fit_is_an_error)
{
    const float values[4 * 256] = {0};
    const struct leat_device_table tables[] = {{"image", LEAT_F32, 4, true, false, values},
                                               {"y", LEAT_F32, 1, true, false, values},
                                               {"none", LEAT_F32, 3, true, false, values},
                                               {"image", LEAT_I32, 3, true, false, values}};
    struct leat_loader_options o = pinned_options(BATCH);
    struct leat_loader *loader = test_loader(dataset, &o);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        struct leat_device_batches_options there = LEAT_DEVICE_BATCHES_OPTIONS_INIT;
        struct leat_device_batches *batches;
        there.tables = &tables[i];
        there.n_tables = 1;
        assert_int_equal(leat_device_batches_open(loader, &there, &batches, &error), LEAT_E_INVALID);
        assert_null(batches);
        says(tables[i].output);
    }
    leat_loader_close(loader);
    check_nothing_is_left();
}

TEST(a_forked_child_gets_an_error_and_harms_nothing)
{
    struct job j = begin(2, 1);
    struct leat_batch *b = test_next(j.loader, j.iteration);
    struct leat_device_batch *there = take(&j, b, NULL), *more;
    const pid_t child = fork();
    if (!child) {
        leat_device_batch_free(there);
        const bool good = leat_device_batches_take(j.batches, b, NULL, &more, &error) == LEAT_E_FORKED;
        leat_device_batches_close(j.batches);
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    leat_device_batch_free(there);
    leat_batch_free(b);
    end(&j);
}

/* The last one: memory that was shared stays. */
TEST(what_a_port_says_of_its_card_is_trusted_in_no_number)
{
    struct leat_device_opened opened = {0};
    struct leat_device_buffer *buffer;
    struct leat_card *card;
    assert_ok(leat_card_open(0, &card, &error));
    assert_ok(leat_card_enter(card, &error));
    struct leat_device_memory *memory = leat_device_memory_new(card, 8 << 20);
    memory->shared = true;
    assert_ok(leat_device_buffer_take(memory, 8000, NULL, &buffer, &error)); /* of 2 MiB */
    assert_ok(leat_device_buffer_export(buffer, &error));
    struct leat_mirror mirror = {.there = 1};
    memcpy(mirror.handle, buffer->handle.bytes, sizeof mirror.handle);
    memcpy(mirror.card, card->uuid, sizeof mirror.card);
    assert_int_equal(leat_device_open_shared(&opened, card, &mirror, 2 << 20), buffer->at);
    mirror.at = (2 << 20) - 192;
    assert_int_equal(leat_device_open_shared(&opened, card, &mirror, 192), buffer->at + mirror.at);
    assert_int_equal(leat_device_open_shared(&opened, card, &mirror, 193), 0);
    assert_int_equal(leat_device_open_shared(&opened, card, &mirror, UINT64_MAX), 0);
    mirror.at = UINT64_MAX;
    assert_int_equal(leat_device_open_shared(&opened, card, &mirror, 1), 0);
    mirror.at = 0;
    memset(mirror.handle, 'x', sizeof mirror.handle);
    assert_int_equal(leat_device_open_shared(&opened, card, &mirror, 1), 0);
    leat_device_close_shared(&opened, cuda);
    leat_device_buffer_release(buffer);
    leat_card_leave(card);
}

TEST_MAIN_IN(set_up, tear_down)
