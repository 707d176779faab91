/* Rows cut from documents whose file has checksums of pages: the same rows whether it is mapped, read in blocks that
 * are cached, or read where its pages lie. */
#include <fcntl.h>

#include "../faulty.h"
#include "../tuning.h"
#include "io/blocks.h"
#include "io/file.h"
#include "support.h"

enum { DOCUMENTS = 12, MOST = 4000, LENGTH = 100, ROWS = 4096 };

/* Few are long, some are empty. */
static uint64_t length_of(uint64_t i)
{
    return i % 4 == 3 ? MOST - i : i % 3 * 7;
}

static const char *write_documents(void)
{
    const struct leat_field fields[] = {
        {.name = "tokens", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U16, .ndim = 1, .shape = {-1}}};
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    struct leat_writer *writer;
    struct leat_error error;
    const char *path = test_path("documents.leat");
    static uint16_t tokens[MOST];
    options.overwrite = true;
    tuning = (struct leat_store_tuning){.large = 2000, .shift = 8};
    assert_ok(leat_writer_open(path, fields, 1, &options, &writer, &error));
    for (uint64_t i = 0; i < DOCUMENTS; i++) {
        test_bytes((uint8_t *)tokens, length_of(i) * 2, i, 1);
        assert_ok(leat_writer_add(writer, &(struct leat_value_ref){tokens, length_of(i) * 2, NULL}, NULL, &error));
    }
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
    tuning = (struct leat_store_tuning){0};
    return path;
}

static struct leat_loader *open_rows(const char *path, enum leat_recheck recheck, enum leat_on_error on_error)
{
    struct leat_open_options open = LEAT_OPEN_OPTIONS_INIT;
    struct leat_loader_options options = test_options(7);
    struct leat_error error;
    struct leat_dataset *dataset;
    open.recheck = recheck;
    options.order = LEAT_ORDER_SEQUENTIAL;
    options.on_error = on_error;
    options.epochs = 1;
    options.pack = &(struct leat_pack_options){.field = "tokens", .length = LENGTH, .has_eos = true, .eos = 65535};
    assert_ok(leat_dataset_open(path, &open, &dataset, &error));
    struct leat_loader *loader = test_loader(dataset, &options);
    leat_dataset_release(dataset);
    return loader;
}

/* The tokens of all rows, and the number of rows. */
static uint64_t read_rows(struct leat_loader *loader, uint16_t (*rows)[LENGTH])
{
    uint64_t n = 0, iteration = test_start(loader);
    for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b)) {
        struct leat_tensor t;
        assert_int_equal(leat_batch_tensor(b, 0, &t), LEAT_OK);
        for (uint64_t row = 0; row < leat_batch_rows(b); row++)
            if (leat_batch_valid(b)[row])
                memcpy(rows[n++], (uint16_t *)t.data + row * LENGTH, sizeof *rows);
    }
    leat_loader_close(loader);
    return n;
}

static uint64_t expected_rows(uint16_t (*rows)[LENGTH])
{
    static uint16_t tokens[MOST];
    uint16_t *to = *rows;
    memset(rows, 0, ROWS * sizeof *rows);
    for (uint64_t i = 0; i < DOCUMENTS; i++) {
        test_bytes((uint8_t *)tokens, length_of(i) * 2, i, 1);
        memcpy(to, tokens, length_of(i) * 2);
        to += length_of(i);
        if (length_of(i)) /* one without a token is in no row */
            *to++ = 65535;
    }
    return ((uint64_t)(to - *rows) + LENGTH - 1) / LENGTH;
}

static struct leat_io_backend unmapped;
static const struct leat_io_backend *as_shipped;

/* Backends in turn: mapped, unmapped with a cache that has room for the file, and with one that has not. */
static void use_backend(unsigned which)
{
    unmapped = *as_shipped;
    unmapped.map = NULL;
    test_backend = which ? &unmapped : as_shipped;
    test_blocks_budget = which == 2 ? 1000 : 0;
}

static int remember_backend(void **state)
{
    as_shipped = test_backend;
    return 0;
}

static int restore_backend(void **state)
{
    use_backend(0);
    return 0;
}

static uint16_t want[ROWS][LENGTH], got[ROWS][LENGTH];

TEST_IN(rows_are_the_same_however_their_pages_are_reached, remember_backend, restore_backend)
{
    const char *path = write_documents();
    const uint64_t n = expected_rows(want);
    for (unsigned which = 0; which < 3; which++)
        for (enum leat_recheck recheck = LEAT_RECHECK_FIRST; recheck <= LEAT_RECHECK_NEVER; recheck++) {
            use_backend(which);
            assert_int_equal(read_rows(open_rows(path, recheck, LEAT_ON_ERROR_RAISE), got), n);
            assert_memory_equal(got, want, n * sizeof *want);
        }
}

/* Each read fails in turn, and is tried again. */
TEST_IN(rows_are_the_same_where_reads_come_later_and_fail, remember_backend, restore_backend)
{
    const char *path = write_documents();
    const uint64_t n = expected_rows(want);
    for (uint64_t nth = 1, reads = 1; nth <= reads; nth += 5) {
        leat_faulty_start(&(struct leat_faulty){.later = true, .fail_read = nth, .retry_after_ms = 1});
        unmapped = *test_backend;
        unmapped.map = NULL;
        test_backend = &unmapped;
        test_blocks_budget = 1000;
        assert_int_equal(read_rows(open_rows(path, LEAT_RECHECK_ALWAYS, LEAT_ON_ERROR_RAISE), got), n);
        assert_memory_equal(got, want, n * sizeof *want);
        reads = leat_faulty_stop().reads;
    }
}

TEST_IN(a_damaged_page_breaks_the_rows_that_lie_in_it, remember_backend, restore_backend)
{
    const char *path = write_documents();
    const uint64_t n = expected_rows(want), bad = 10 * LENGTH + 50; /* of the documents' 2 * bad bytes */
    uint8_t byte;
    int fd = open(path, O_RDWR);
    struct leat_error error;
    struct leat_batch *batch;
    /* Before it lie the header, the group's and the ends of the documents before, which have no bytes. */
    const int64_t at = 64 + 160 + 32 + 64 + (int64_t)(2 * bad - 2 * 3);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 16;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
    for (unsigned which = 0; which < 3; which++) {
        use_backend(which);
        struct leat_loader *loader = open_rows(path, LEAT_RECHECK_ALWAYS, LEAT_ON_ERROR_RAISE);
        uint64_t iteration = test_start(loader);
        int rc;
        while (!(rc = leat_loader_next(loader, iteration, TEST_HANG_MS, &batch, &error)))
            leat_batch_free(batch);
        assert_int_equal(rc, LEAT_E_CORRUPT);
        assert_string_equal(error.file, path);
        assert_int_equal(error.sample, 3);
        assert_true(error.offset <= at && at < error.offset + 256);
        leat_loader_close(loader);
        uint64_t left = read_rows(open_rows(path, LEAT_RECHECK_ALWAYS, LEAT_ON_ERROR_SKIP), got), same = 0;
        assert_true(left < n && n - left <= 1 + 256 / (2 * LENGTH) + 1);
        for (uint64_t i = 0; i < n && same < left; i++)
            same += !memcmp(got[same], want[i], sizeof *want);
        assert_int_equal(same, left);
    }
}

TEST_MAIN_IN(NULL, test_clean)
