/* The way of a photo's row index: from behind the photo in a packed file, or from a folder that remembers it, to the
 * decoder, and from the decoder that has made it back to the folder. The linker puts what stands here before functions
 * of the decoder and of reading, so that the tests see what these are asked. The indexes make no sense: the decoder
 * finds that out, and pixels do not change. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "../codec/photo/photos.h"
#include "../codecs.h"
#include "../faulty.h"
#include "base/error.h"
#include "codec/photo/photo.h"
#include "data/internal.h"
#include "engine/loader.h"
#include "support.h"

enum { PHOTOS = 30, BEHIND = 77 };

static const char *const program =
    "{\"operators\": {\"d\": {\"type\": \"Decode\"}, \"c\": {\"type\": \"RandomResizedCrop\", \"size\": [24, 24]}}, "
    "\"outputs\": "
    "{\"image\": {\"field\": \"image\", \"chain\": [\"d\", \"c\"]}, \"raw\": {\"field\": \"image\", \"chain\": []}}}";
static const char *const raw_program =
    "{\"operators\": {}, \"outputs\": {\"raw\": {\"field\": \"image\", \"chain\": []}}}";

/* ---- what the decoder is asked --------------------------------------------------------------- */

int __real_leat_io_submit(struct leat_io_request *request);
int __wrap_leat_io_submit(struct leat_io_request *request);

static _Atomic uint64_t asked, scanned, with_rows, with_right_rows, made, farthest_read;
static atomic_bool without_memory;
static _Thread_local uint64_t last; /* a hash of the photo that this thread has opened */
static _Thread_local bool last_scanned;

static uint8_t
    *file_bytes; /* of the packed file, where there is one: an index is right if it stands behind its photo there */
static size_t file_length;

static size_t made_rows(uint64_t photo, uint8_t rows[64])
{
    for (size_t i = 0; i < 64; i++)
        rows[i] = (uint8_t)leat_draw_u64(photo, i);
    return 20 + photo % 40;
}

static bool is_right(const struct leat_decode_request *request)
{
    if (file_bytes) {
        const uint8_t *photo = memmem(file_bytes, file_length, request->data, request->length);
        return photo && request->rows_length == BEHIND && !memcmp(photo + request->length, request->rows, BEHIND);
    }
    uint8_t rows[64];
    size_t n = made_rows(leat_hash64(request->data, request->length), rows);
    return request->rows_length == n && !memcmp(request->rows, rows, n);
}

static int spying_open(struct leat_decoder *decoder, const struct leat_decode_request *request, uint32_t size[2],
                       struct leat_error *error)
{
    if (without_memory)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a decoder");
    last = leat_hash64(request->data, request->length);
    last_scanned = request->scan_to_end;
    asked++;
    scanned += request->scan_to_end;
    with_rows += request->rows != NULL;
    with_right_rows += request->rows && is_right(request);
    return leat_codec_photo.open(decoder, request, size, error);
}

static const uint8_t *made_rows_of(const struct leat_decoder *decoder, size_t *length)
{
    static _Thread_local uint8_t rows[64];
    *length = 0;
    if (!last_scanned)
        return NULL;
    made++;
    *length = made_rows(last, rows);
    return rows;
}

__attribute__((constructor)) static void spy(void)
{
    static struct leat_codec codec;
    codec = leat_codec_photo;
    codec.open = spying_open;
    codec.rows = made_rows_of;
    codec_instead = &codec;
}

int __wrap_leat_io_submit(struct leat_io_request *request)
{
    uint64_t farthest = farthest_read, end = request->offset + request->length;
    while (end > farthest && !atomic_compare_exchange_weak(&farthest_read, &farthest, end))
        ;
    return __real_leat_io_submit(request);
}

static void forget(void)
{
    asked = scanned = with_rows = with_right_rows = made = farthest_read = 0;
}

/* ---- photos ---------------------------------------------------------------------------------- */

static uint8_t *photo(uint64_t i, size_t *length)
{
    static const struct photo_style style = {
        .name = "420", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {2, 1, 1}, .v = {2, 1, 1}};
    uint8_t *pixels = photo_pixels(40, 40, 3, i), *jpeg = photo_encode(&style, pixels, 40, 40, 90, length);
    free(pixels);
    return jpeg;
}

static struct leat_dataset *packed(void)
{
    const struct leat_field field = {.name = "image", .kind = LEAT_KIND_IMAGE, .dtype = LEAT_U8};
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    struct leat_writer *writer;
    struct leat_error error;
    const char *path = test_path("packed");
    options.overwrite = true;
    options.num_threads = 1;
    assert_ok(leat_writer_open(path, &field, 1, &options, &writer, &error));
    for (uint64_t i = 0; i < PHOTOS; i++) {
        size_t length;
        uint8_t *jpeg = photo(i, &length);
        const struct leat_value_ref value = {jpeg, length, NULL};
        assert_ok(leat_writer_add(writer, &value, NULL, &error));
        free(jpeg);
    }
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
    char folder[128];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = 0;
    free(file_bytes);
    file_bytes = photo_file(folder, "packed", &file_length);
    return test_open(path);
}

static struct leat_dataset *folder_with(const char *index_dir, enum leat_recheck recheck)
{
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    struct leat_dataset *dataset;
    struct leat_error error;
    char path[128], name[160];
    snprintf(path, sizeof path, "%s", test_path("folder"));
    mkdir(path, 0777);
    for (uint64_t i = 0; i < PHOTOS; i++) {
        size_t length;
        snprintf(name, sizeof name, "%s/%02d.jpg", path, (int)i);
        if (access(name, F_OK) == 0)
            continue;
        uint8_t *jpeg = photo(i, &length);
        FILE *f = fopen(name, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(jpeg, 1, length, f), length);
        fclose(f);
        free(jpeg);
    }
    free(file_bytes);
    file_bytes = NULL;
    options.index_dir = index_dir;
    options.recheck = recheck;
    assert_ok(leat_dataset_open(path, &options, &dataset, &error));
    return dataset;
}

static struct leat_dataset *folder(const char *index_dir)
{
    return folder_with(index_dir, LEAT_RECHECK_FIRST);
}

/* Other bytes for photo i, of which neither length nor time tells. */
static void replace(uint64_t i, const uint8_t *bytes, size_t length)
{
    char path[160];
    struct stat st;
    snprintf(path, sizeof path, "%s/%02d.jpg", test_path("folder"), (int)i);
    assert_int_equal(stat(path, &st), 0);
    assert_true(length <= (size_t)st.st_size);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, length, f), length);
    fclose(f);
    assert_int_equal(truncate(path, st.st_size), 0); /* bytes after the end of a photo are no damage */
    const struct timespec times[2] = {st.st_atim, st.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* The source of a data set, as if each photo had an index of so many bytes behind it. */
static uint32_t behind;
static const struct leat_source_vtable *usual;

static int extents_with_rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                             struct leat_extent *extents, size_t *failed, struct leat_error *error)
{
    int rc = usual->extents(source, field, samples, n, extents, failed, error);
    for (size_t i = 0; !rc && i < n; i++) {
        extents[i].info.rows = NULL;
        extents[i].info.rows_length = behind;
    }
    return rc;
}

static void pretend_rows(struct leat_dataset *dataset, uint32_t length)
{
    static struct leat_source_vtable table;
    struct leat_source *source = dataset->base->parts[0].source;
    usual = source->v;
    table = *usual;
    table.extents = extents_with_rows;
    source->v = &table;
    behind = length;
}

static uint64_t hash_of(struct leat_dataset *dataset, const char *json, int epochs)
{
    struct leat_loader_options options = test_options(8);
    options.program = json;
    options.budget_bytes = 64 << 20;
    options.epochs = epochs; /* nothing is read ahead of them */
    struct leat_loader *loader = test_loader(dataset, &options);
    uint64_t hash = test_hash_epochs(loader, epochs);
    leat_loader_close(loader);
    return hash;
}

/* ---- packed ---------------------------------------------------------------------------------- */

TEST(an_index_behind_a_photo_reaches_the_decoder_and_nobody_else)
{
    struct leat_dataset *dataset = packed();
    pretend_rows(dataset, 0);
    uint64_t expected = hash_of(dataset, program, 1);
    forget();
    behind = BEHIND;
    assert_int_equal(hash_of(dataset, program, 1), expected); /* the photos delivered as they are, too */
    assert_true(asked >= PHOTOS);
    assert_int_equal(with_right_rows, asked);
    for (int kind = 0; kind < 2; kind++) { /* reads that complete later, and in pieces */
        forget();
        leat_faulty_start(&(struct leat_faulty){.later = kind, .short_reads = 50});
        assert_int_equal(hash_of(dataset, program, 1), expected);
        leat_faulty_stop();
        assert_int_equal(with_right_rows, asked);
    }
    leat_dataset_release(dataset);
}

TEST(an_index_is_read_only_for_outputs_that_decode)
{
    struct leat_dataset *dataset = packed();
    pretend_rows(dataset, 0);
    forget();
    uint64_t expected = hash_of(dataset, raw_program, 1), farthest = farthest_read;
    behind = BEHIND;
    assert_int_equal(hash_of(dataset, raw_program, 1), expected);
    assert_int_equal(farthest_read, farthest);
    hash_of(dataset, program, 1);
    assert_int_equal(farthest_read, farthest + BEHIND);
    leat_dataset_release(dataset);
}

TEST(a_photo_whose_index_was_cut_off_still_comes)
{
    struct leat_dataset *dataset = packed();
    pretend_rows(dataset, 0);
    uint64_t expected = hash_of(dataset, program, 1);
    for (int later = 0; later < 2; later++) {
        forget();
        behind = (uint32_t)file_length; /* ends behind the file */
        if (later)
            leat_faulty_start(&(struct leat_faulty){.later = true});
        assert_int_equal(hash_of(dataset, program, 1), expected);
        if (later)
            leat_faulty_stop();
        assert_true(asked >= PHOTOS);
        assert_int_equal(with_rows, 0);
    }
    leat_dataset_release(dataset);
}

/* ---- folders --------------------------------------------------------------------------------- */

TEST(the_first_use_of_a_photo_leaves_its_index_to_the_folder)
{
    struct leat_dataset *dataset = folder(NULL);
    forget();
    uint64_t expected = hash_of(dataset, program, 1);
    assert_true(asked >= PHOTOS && made >= PHOTOS);
    uint64_t before = made;
    forget();
    assert_int_equal(hash_of(dataset, program, 1), expected);
    assert_true(asked >= PHOTOS && before >= PHOTOS);
    assert_int_equal(with_right_rows, asked);
    assert_int_equal(made, 0); /* they count as good */
    leat_dataset_release(dataset);
}

TEST(another_opening_finds_the_index_and_scans_nothing)
{
    char indexes[128];
    snprintf(indexes, sizeof indexes, "%s", test_path("indexes"));
    struct leat_dataset *dataset = folder(indexes);
    forget();
    uint64_t expected = hash_of(dataset, program, 1);
    leat_dataset_release(dataset);
    dataset = folder(indexes);
    forget();
    assert_int_equal(hash_of(dataset, program, 1), expected);
    assert_int_equal(with_right_rows, asked);
    assert_int_equal(scanned, 0);
    assert_int_equal(made, 0); /* nobody asks for what is known */
    struct leat_extent extent;
    struct leat_sample_ref ref;
    struct leat_error error;
    size_t failed;
    leat_dataset_locate(dataset, (const uint64_t[]){5}, 1, &ref);
    assert_ok(leat_dataset_extents(dataset, 0, &ref, 1, &extent, &failed, &error));
    assert_int_equal(extent.info.health, LEAT_HEALTH_GOOD);
    leat_dataset_release(dataset);
}

TEST(a_photo_for_which_memory_was_out_is_neither_good_nor_broken)
{
    struct leat_dataset *dataset = folder(NULL);
    struct leat_loader_options options = test_options(8);
    options.program = program;
    options.budget_bytes = 64 << 20;
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_batch *batch;
    struct leat_error error;
    uint64_t iteration;
    without_memory = true;
    assert_ok(leat_loader_start(loader, &iteration, &error));
    assert_int_equal(leat_loader_next(loader, iteration, TEST_HANG_MS, &batch, &error), LEAT_E_NOMEM);
    leat_loader_close(loader);
    without_memory = false;
    for (uint64_t i = 0; i < PHOTOS; i++) {
        struct leat_extent extent;
        struct leat_sample_ref ref;
        size_t failed;
        leat_dataset_locate(dataset, &i, 1, &ref);
        assert_ok(leat_dataset_extents(dataset, 0, &ref, 1, &extent, &failed, &error));
        assert_int_equal(extent.info.health, LEAT_HEALTH_UNCHECKED);
    }
    leat_dataset_release(dataset);
}

TEST(a_photo_that_is_always_checked_is_scanned_once)
{
    char indexes[128];
    snprintf(indexes, sizeof indexes, "%s", test_path("indexes of always"));
    for (int filed = 0; filed < 2; filed++) {
        struct leat_dataset *dataset = folder_with(filed ? indexes : NULL, LEAT_RECHECK_ALWAYS);
        forget();
        uint64_t expected = hash_of(dataset, program, 1);
        assert_true(scanned >= PHOTOS);
        for (int again = 0; again < 2; again++) {
            if (filed) {
                leat_dataset_release(dataset);
                dataset = folder_with(indexes, LEAT_RECHECK_ALWAYS);
            }
            forget();
            assert_int_equal(hash_of(dataset, program, 1), expected);
            assert_int_equal(scanned, 0);
            assert_int_equal(with_right_rows, asked);
        }
        leat_dataset_release(dataset);
    }
}

TEST(a_photo_whose_bytes_alone_have_changed_is_scanned_and_remembered_anew)
{
    char indexes[128];
    size_t length, n;
    snprintf(indexes, sizeof indexes, "%s", test_path("indexes of before"));
    struct leat_dataset *dataset = folder(indexes);
    uint64_t before = hash_of(dataset, program, 1);
    leat_dataset_release(dataset);
    uint8_t *known = photo(3, &length), *small = photo(PHOTOS + 1, &n);
    for (uint64_t other = PHOTOS + 2; n > length; other++) {
        free(small);
        small = photo(other, &n);
    }
    replace(3, small, n);
    dataset = folder(NULL);
    uint64_t expected = hash_of(dataset, program, 1);
    leat_dataset_release(dataset);
    assert_int_not_equal(expected, before);
    for (int again = 0; again < 2; again++) {
        dataset = folder(indexes);
        forget();
        assert_int_equal(hash_of(dataset, program, 1), expected);
        assert_int_equal(scanned, !again);
        assert_int_equal(with_right_rows, asked - !again);
        leat_dataset_release(dataset);
    }
    replace(3, known, length);
    free(known);
    free(small);
}

TEST_MAIN_IN(NULL, test_clean)
