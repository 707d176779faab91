/*
 * A kind of samples that is no image goes the way of a photo: a toy of a signal, which shipped code does not know.
 *
 *     signal:  'S' 'G' | steps u32 | a difference i16 for each step
 *     step i is half the sum of the differences up to it, float32; the difference -32768 is damage
 */
#include "../codecs.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "support.h"

enum { SIGNAL = LEAT_KIND_IMAGE + 1, HEAD = 6, SAMPLES = 40, DAMAGE = 0x8000, FIXED = 100 };

struct signal_decoder {
    struct leat_decoder base;
    struct leat_decode_request request;
    uint64_t at, steps; /* the next step, of so many */
    int32_t sum;
    bool failed;
};
static _Atomic uint64_t reads, scans; /* of all decoders */

static int probe(const void *data, size_t length, struct leat_value_info *info, struct leat_error *error)
{
    const uint8_t *p = data;
    if (length < HEAD || memcmp(p, "SG", 2) != 0 || (length - HEAD) / 2 != leat_get_u32(p + 2))
        return leat_fail(error, LEAT_E_DECODE, "this is no signal");
    *info = (struct leat_value_info){.size = {leat_get_u32(p + 2), 8000}, .channels = 1, .kind = 1};
    return LEAT_OK;
}

static uint64_t decode_bytes(const void *data, size_t length, const struct leat_value_info *info, bool exif)
{
    return sizeof(struct signal_decoder);
}

static struct leat_decoder *new_decoder(void)
{
    struct signal_decoder *d = leat_new(struct signal_decoder);
    return d ? &d->base : NULL;
}

static void free_decoder(struct leat_decoder *decoder)
{
    leat_free(decoder);
}

static int open_signal(struct leat_decoder *decoder, const struct leat_decode_request *request, uint32_t size[2],
                       struct leat_error *error)
{
    struct signal_decoder *d = (struct signal_decoder *)decoder;
    struct leat_value_info info;
    int rc = probe(request->data, request->length, &info, error);
    if (rc)
        return rc;
    *d = (struct signal_decoder){.base = d->base, .request = *request, .steps = info.size[0]};
    memcpy(size, info.size, sizeof info.size);
    return LEAT_OK;
}

/* Up to step `end`, of which those from `begin` on go to `out`. */
static int advance(struct signal_decoder *d, uint64_t begin, uint64_t end, float *out, struct leat_error *error)
{
    const uint8_t *p = (const uint8_t *)d->request.data + HEAD;
    for (; d->at < end; d->at++) {
        const uint16_t bits = leat_get_u16(p + 2 * d->at);
        if (bits == DAMAGE) {
            d->failed = true;
            return leat_fail(error, LEAT_E_DECODE, "the signal is damaged at step %" PRIu64, d->at);
        }
        d->sum += (int16_t)bits;
        if (d->at >= begin)
            out[d->at - begin] = 0.5f * (float)d->sum;
    }
    return LEAT_OK;
}

static int read_signal(struct leat_decoder *decoder, uint64_t begin, uint64_t count, void *out,
                       struct leat_error *error)
{
    struct signal_decoder *d = (struct signal_decoder *)decoder;
    if (begin < d->at || !count || count > d->steps - begin)
        return leat_fail(error, LEAT_E_INVALID, "a slice of %" PRIu64 " steps from %" PRIu64 " on", count, begin);
    reads++;
    return advance(d, begin, begin + count, out, error);
}

static int end_signal(struct leat_decoder *decoder, struct leat_error *error)
{
    struct signal_decoder *d = (struct signal_decoder *)decoder;
    scans += d->request.scan_to_end;
    return d->request.scan_to_end && !d->failed ? advance(d, d->steps, d->steps, NULL, error) : LEAT_OK;
}

static const struct leat_codec codec = {
    .name = "signal",
    .kind = (enum leat_kind)SIGNAL,
    .kind_name = "signal",
    .sizes = {"steps", "rate"},
    .dtype = LEAT_F32,
    .elements = 1,
    .probe = probe,
    .decode_bytes = decode_bytes,
    .decoder_new = new_decoder,
    .decoder_free = free_decoder,
    .open = open_signal,
    .read = read_signal,
    .end = end_signal,
};

/* Some are shorter than FIXED, and some have several slices. */
static uint32_t steps_of(uint64_t i)
{
    return (uint32_t)leat_draw_below(5, i, i % 3 ? 150 : 20000);
}

/* Signal i encoded; its length. `damaged`: its last step. */
static size_t make_signal(uint64_t i, bool damaged, uint8_t *out)
{
    const uint32_t steps = steps_of(i);
    memcpy(out, "SG", 2);
    leat_put_u32(out + 2, steps);
    for (uint32_t k = 0; k < steps; k++)
        leat_put_u16(out + HEAD + 2 * k, (uint16_t)(leat_draw_below(i, k, 201) - 100));
    if (damaged)
        leat_put_u16(out + HEAD + 2 * (steps - 1), DAMAGE);
    return HEAD + 2 * (size_t)steps;
}

static void assert_signal(uint64_t i, const float *got, uint64_t n)
{
    int32_t sum = 0;
    for (uint64_t k = 0; k < n; k++) {
        sum += (int32_t)leat_draw_below(i, k, 201) - 100;
        if (got[k] != 0.5f * (float)sum)
            fail_msg("step %" PRIu64 " of signal %" PRIu64 " is %f", k, i, (double)got[k]);
    }
}

static int take_kind(void **state)
{
    codec_instead = &codec;
    return 0;
}

static int leave_kind(void **state)
{
    codec_instead = NULL;
    return test_clean(state);
}

/* SAMPLES signals; `broken` is damaged at its end. */
static const char *write_signals(const char *name, bool check, int64_t broken)
{
    static uint8_t bytes[HEAD + 2 * 20000];
    const struct leat_field field = {.name = "x", .kind = (enum leat_kind)SIGNAL, .dtype = LEAT_U8};
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    struct leat_writer *writer;
    struct leat_error error;
    const char *path = test_path(name);
    options.check = check;
    options.num_threads = 1;
    assert_ok(leat_writer_open(path, &field, 1, &options, &writer, &error));
    for (int64_t i = 0; i < SAMPLES; i++) {
        const struct leat_value_ref value = {bytes, make_signal((uint64_t)i, i == broken, bytes), NULL};
        assert_ok(leat_writer_add(writer, &value, NULL, &error));
    }
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
    return path;
}

static const char program[] =
    "{\"operators\": {\"d\": {\"type\": \"Decode\"}, \"t\": {\"type\": \"ToDtype\", \"dtype\": \"float64\"},"
    " \"p\": {\"type\": \"PadTo\", \"n\": 100, \"fill\": -1, \"cut\": true}},"
    " \"outputs\": {\"whole\": {\"field\": \"x\", \"chain\": [\"d\"]},"
    " \"wide\": {\"field\": \"x\", \"chain\": [\"d\", \"t\"]},"
    " \"fixed\": {\"field\": \"x\", \"chain\": [\"d\", \"p\"]}}}";
static const char fixed_only[] =
    "{\"operators\": {\"d\": {\"type\": \"Decode\"}, \"p\": {\"type\": \"PadTo\", \"n\": 100, \"cut\": true}},"
    " \"outputs\": {\"fixed\": {\"field\": \"x\", \"chain\": [\"d\", \"p\"]}}}";

static struct leat_loader *open_loader(struct leat_dataset *dataset, const char *text, enum leat_on_error on_error)
{
    struct leat_loader_options options = LEAT_LOADER_OPTIONS_INIT;
    struct leat_loader *loader;
    struct leat_error error;
    options.batch_size = 4;
    options.seed = 3;
    options.order = LEAT_ORDER_SHUFFLED;
    options.epochs = 1;
    options.program = text;
    options.on_error = on_error;
    assert_ok(leat_loader_open(dataset, &options, &loader, &error));
    return loader;
}

/* Checks all rows of a batch of `program`. */
static void assert_rows(const struct leat_batch *batch)
{
    struct leat_tensor whole, wide, fixed;
    assert_int_equal(leat_batch_tensor(batch, 0, &whole), LEAT_OK);
    assert_int_equal(leat_batch_tensor(batch, 1, &wide), LEAT_OK);
    assert_int_equal(leat_batch_tensor(batch, 2, &fixed), LEAT_OK);
    assert_int_equal(whole.dtype, LEAT_F32);
    assert_int_equal(wide.dtype, LEAT_F64);
    for (uint64_t r = 0; r < leat_batch_rows(batch); r++) {
        const uint64_t id = (uint64_t)leat_batch_ids(batch)[r], steps = steps_of(id);
        const float *values = (const float *)whole.data + whole.offsets[r],
                    *row = (const float *)fixed.data + r * FIXED;
        const double *doubles = (const double *)wide.data + wide.offsets[r];
        assert_int_equal(whole.offsets[r + 1] - whole.offsets[r], steps);
        assert_int_equal(wide.offsets[r + 1] - wide.offsets[r], steps);
        assert_signal(id, values, steps);
        for (uint64_t k = 0; k < steps; k++)
            assert_true(doubles[k] == (double)values[k]);
        assert_signal(id, row, steps < FIXED ? steps : FIXED);
        for (uint64_t k = steps; k < FIXED; k++)
            assert_true(row[k] == -1.0f);
    }
}

TEST(signals_go_from_a_file_to_batches_in_slices)
{
    struct leat_dataset *dataset = test_open(write_signals("a.leat", true, -1));
    struct leat_loader *loader = open_loader(dataset, program, LEAT_ON_ERROR_RAISE);
    struct leat_batch *batch;
    struct leat_error error;
    uint64_t iteration, rows = 0;
    reads = 0;
    assert_ok(leat_loader_start(loader, &iteration, &error));
    for (int rc; !(rc = leat_loader_next(loader, iteration, -1, &batch, &error)); leat_batch_free(batch)) {
        assert_rows(batch);
        rows += leat_batch_rows(batch);
    }
    assert_int_equal(rows, SAMPLES);
    assert_true(reads > 3 * SAMPLES); /* one each, and more of those that functions go over */
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(a_file_of_signals_says_their_sizes_and_gives_what_came)
{
    static uint8_t bytes[HEAD + 2 * 20000];
    struct leat_dataset *dataset = test_open(write_signals("b.leat", true, -1));
    struct leat_error error;
    struct leat_value value;
    size_t n;
    const struct leat_field *fields = leat_dataset_fields(dataset, &n);
    assert_int_equal(n, 6);
    assert_string_equal(fields[1].name, "x.steps");
    assert_string_equal(fields[2].name, "x.rate");
    for (uint64_t i = 0; i < SAMPLES; i++) {
        const size_t length = make_signal(i, false, bytes);
        assert_ok(leat_dataset_read(dataset, i, 0, &value, &error));
        assert_int_equal(value.length, length);
        assert_memory_equal(value.data, bytes, length);
        leat_value_clear(&value);
        assert_ok(leat_dataset_read(dataset, i, 1, &value, &error));
        assert_int_equal(*(const uint32_t *)value.data, steps_of(i));
        leat_value_clear(&value);
    }
    leat_dataset_release(dataset);
}

static int count_fault(void *user, const struct leat_error *fault)
{
    ++*(unsigned *)user;
    return 0;
}

TEST(verify_finds_a_changed_signal)
{
    const char *path = write_signals("c.leat", true, -1);
    unsigned faults = 0;
    struct leat_error error;
    const struct leat_verify_options options = {
        .struct_size = sizeof options, .num_threads = 1, .report = count_fault, .user = &faults};
    assert_ok(leat_verify(path, &options, &error));
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, 20000, SEEK_SET);
    const int byte = fgetc(file);
    fseek(file, 20000, SEEK_SET);
    fputc(byte ^ 1, file);
    fclose(file);
    assert_int_equal(leat_verify(path, &options, &error), LEAT_E_CORRUPT);
    assert_true(faults > 0);
}

/* Rows that are delivered where signal 7 is damaged at its end, which FIXED steps do not reach. */
static uint64_t rows_beside_damage(const char *name, bool check)
{
    struct leat_dataset *dataset = test_open(write_signals(name, check, 21));
    struct leat_loader *loader = open_loader(dataset, fixed_only, LEAT_ON_ERROR_SKIP);
    struct leat_batch *batch;
    struct leat_error error;
    uint64_t iteration, rows = 0;
    assert_true(steps_of(21) > 2 * FIXED);
    assert_ok(leat_loader_start(loader, &iteration, &error));
    for (int rc; !(rc = leat_loader_next(loader, iteration, -1, &batch, &error)); leat_batch_free(batch)) {
        for (uint64_t r = 0; r < leat_batch_rows(batch); r++)
            assert_int_not_equal(leat_batch_ids(batch)[r], 21);
        rows += leat_batch_rows(batch);
    }
    leat_loader_close(loader);
    leat_dataset_release(dataset);
    return rows;
}

TEST(a_damaged_signal_is_broken_whatever_part_of_it_is_needed)
{
    assert_int_equal(rows_beside_damage("d.leat", true), SAMPLES - 1); /* packing has marked it */
    scans = 0;
    assert_int_equal(rows_beside_damage("e.leat", false), SAMPLES - 1); /* its first use finds it */
    assert_int_equal(scans, SAMPLES);
}

TEST(arguments_of_images_are_refused)
{
    static const char gray[] = "{\"operators\": {\"d\": {\"type\": \"Decode\", \"mode\": \"GRAY\"}},"
                               " \"outputs\": {\"whole\": {\"field\": \"x\", \"chain\": [\"d\"]}}}";
    static const char resize[] =
        "{\"operators\": {\"d\": {\"type\": \"Decode\"}, \"r\": {\"type\": \"Resize\", \"size\": [8, 8]}},"
        " \"outputs\": {\"whole\": {\"field\": \"x\", \"chain\": [\"d\", \"r\"]}}}";
    struct leat_dataset *dataset = test_open(write_signals("f.leat", true, -1));
    struct leat_loader_options options = LEAT_LOADER_OPTIONS_INIT;
    struct leat_loader *loader;
    struct leat_error error;
    options.batch_size = 4;
    options.program = gray;
    assert_int_equal(leat_loader_open(dataset, &options, &loader, &error), LEAT_E_TYPE);
    options.program = resize;
    assert_int_equal(leat_loader_open(dataset, &options, &loader, &error), LEAT_E_TYPE);
    leat_dataset_release(dataset);
}

TEST_MAIN_IN(take_kind, leave_kind)
