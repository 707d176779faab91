/* Outputs that are left to a card: the program draws what it always draws, and the card makes the pixels that the
 * program would have made. */
#include "../allocations.h"
#include "../codec/jpeg/jpegs.h"
#include "../engine/support.h"
#include "photos.h"

#include <malloc.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/jpeg/fast.h"
#include "codec/jpeg/fast_format.h"
#include "codec/jpeg/huffman.h"
#include "op/program.h"

static struct leat_error error;
static struct leat_jpeg_packer *packer;
static const struct leat_field field = {.name = "image", .kind = LEAT_KIND_IMAGE, .dtype = LEAT_U8};

static int set_up(void **state)
{
    return !(packer = leat_jpeg_packer_new());
}
static int tear_down(void **state)
{
    leat_jpeg_packer_free(packer);
    return test_clean(state);
}

/* A program of one output, of operators "a", "b" ... `rest`: of the output. */
static int compile(const char *operators, const char *chain, const char *rest, struct leat_program **out)
{
    char text[2048];
    snprintf(text, sizeof text,
             "{\"operators\": {%s}, \"outputs\": {\"x\": {\"field\": \"image\", \"chain\": [%s]%s}}}", operators, chain,
             rest);
    return leat_program_compile(&field, 1, text, NULL, 0, LEAT_OPEN_STACKS, out, &error);
}

struct memory {
    struct leat_room room;
    struct photo_batch *batch;
};

/* The bytes of a row, which is described only then: photo_add with a description of as many bytes. */
static int take(struct leat_room *room, size_t output, uint64_t bytes, void **memory, struct leat_error *e)
{
    const struct leat_card_photo photo = {.bytes = (unsigned)bytes};
    assert_int_equal(output, 0);
    *memory = photo_add(((struct memory *)(void *)room)->batch, &photo);
    return LEAT_OK;
}

struct value {
    struct photo photo;
    uint8_t form;
    uint8_t *rows; /* its row index, or NULL */
    size_t rows_length;
    uint8_t health; /* enum leat_health */
    bool unverified;
};

static struct value as_it_came(struct photo photo)
{
    return (struct value){.photo = photo, .form = LEAT_FORM_ORIGINAL};
}

/* The fast form if there is one. */
static struct value value_of(struct photo photo, unsigned orientation)
{
    const uint8_t *out;
    size_t n;
    if (leat_jpeg_pack(packer, photo.data, photo.length, orientation, 1, &out, &n, &error))
        return as_it_came(photo);
    free(photo.data);
    return (struct value){.photo = {memcpy(malloc(n), out, n), n}, .form = LEAT_FORM_FAST};
}

static struct leat_row row_of(const struct value *v, uint64_t key)
{
    return (struct leat_row){.data = v->photo.data,
                             .length = v->photo.length,
                             .key = key,
                             .info = {.form = v->form,
                                      .health = v->health,
                                      .unverified = v->unverified,
                                      .size = {1, 1},
                                      .rows = v->rows,
                                      .rows_length = (uint32_t)v->rows_length}};
}

/* Makes rows with both; those that a card decodes are counted, and those of coded bytes by themselves. */
static unsigned coded;
static unsigned same_pixels(const char *operators, const char *chain, const struct value *values, unsigned n,
                            unsigned keys)
{
    struct leat_program *now, *left;
    char with_layout[400], layout[200];
    snprintf(with_layout, sizeof with_layout, "%s, \"l\": {\"type\": \"ToLayout\", \"layout\": \"NHWC\"}", operators);
    snprintf(layout, sizeof layout, "%s, \"l\"", chain);
    assert_ok(compile(with_layout, layout, "", &now));
    assert_ok(compile(operators, chain, ", \"decode\": \"card\"", &left));
    struct leat_scratch *scratch = leat_scratch_new(now), *other = leat_scratch_new(left);
    const size_t bytes = leat_program_output(now, 0)->row_bytes;
    struct photo_batch batch = {0};
    struct memory memory = {{take}, &batch};
    uint8_t *expected = malloc(n * keys * bytes);
    unsigned cards = 0;
    coded = 0;
    leat_scratch_give_room(other, &memory.room);
    for (unsigned i = 0; i < n * keys; i++) {
        const struct leat_row row = row_of(&values[i % n], i * UINT64_C(0x9e3779b97f4a7c15));
        struct leat_card_photo photo = {.scratch = 1};
        uint64_t steps[2];
        size_t failed;
        assert_int_equal(leat_program_apply(now, 0, scratch, &row, 1, expected + i * bytes, &error), 1);
        assert_ok(
            leat_program_apply_tuple(left, 0, other, &row, (void *const[]){NULL, &photo}, steps, &failed, &error));
        assert_int_equal(photo.scratch, 0); /* every byte is written */
        assert_int_equal(photo.bytes, batch.photos[i].bytes);
        assert_int_equal(3 * photo.axis[0].n * photo.axis[1].n, bytes);
        batch.photos[i] = photo;
        cards += photo.form >= LEAT_CARD_FAST;
        coded += photo.form == LEAT_CARD_CODED;
    }
    photo_run(&batch);
    for (unsigned i = 0; i < n * keys; i++) {
        assert_int_equal(batch.faults[i], 0);
        if (memcmp(batch.out + i * bytes, expected + i * bytes, bytes) != 0)
            fail_msg("%s: row %u is another one", operators, i);
    }
    photo_batch_destroy(&batch);
    free(expected);
    leat_scratch_free(scratch);
    leat_scratch_free(other);
    leat_program_free(now);
    leat_program_free(left);
    return cards;
}

#define DECODE "\"a\": {\"type\": \"Decode\"}"
#define OP(id, text) ", \"" #id "\": {" text "}"
#define CROP OP(b, "\"type\": \"RandomResizedCrop\", \"size\": [24, 20]")
#define FLIPS                                                                                                          \
    OP(c, "\"type\": \"RandomHorizontalFlip\"")                                                                        \
    OP(d, "\"type\": \"RandomVerticalFlip\"")

TEST(chains_that_a_card_can_do_have_the_pixels_that_the_program_makes)
{
    const struct value values[] = {value_of(make_photo(&kinds[4], BASELINE, 90, 61, 85, 0), 1),
                                   value_of(make_photo(&kinds[0], BASELINE, 64, 70, 85, 0), 1),
                                   value_of(make_photo(&kinds[2], PROGRESSIVE, 50, 60, 85, 0), 1)};
    static const struct {
        const char *operators, *chain;
    } chains[] = {
        {DECODE CROP FLIPS, "\"a\", \"b\", \"c\", \"d\""},
        {DECODE CROP FLIPS, "\"a\", \"c\", \"d\", \"b\", \"c\""}, /* mirrored before the resize */
        {DECODE OP(b, "\"type\": \"RandomResizedCrop\", \"size\": [70, 80], \"interpolation\": \"bicubic\""),
         "\"a\", \"b\""},
        {DECODE OP(b, "\"type\": \"Resize\", \"size\": [40]") OP(c, "\"type\": \"CenterCrop\", \"size\": [32, 36]"),
         "\"a\", \"b\", \"c\""},
        {DECODE OP(b, "\"type\": \"Resize\", \"size\": [30, 30], \"antialias\": false"), "\"a\", \"b\""},
        {DECODE OP(b, "\"type\": \"Resize\", \"size\": [61, 60], \"interpolation\": \"box\"") FLIPS,
         "\"a\", \"c\", \"b\", \"c\""}, /* pixels at the edges of its boxes count on one side */
        {DECODE OP(b, "\"type\": \"RandomCrop\", \"size\": [33, 17]") FLIPS, "\"a\", \"b\", \"c\", \"d\""},
    };
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++)
        assert_int_equal(same_pixels(chains[i].operators, chains[i].chain, values, 3, 20), 60);
    for (size_t i = 0; i < 3; i++)
        free(values[i].photo.data);
}

TEST(photos_that_a_card_cannot_decode_are_decoded_before_and_travel_as_pixels)
{
    struct photo plain = make_photo(&kinds[4], PROGRESSIVE, 40, 30, 85, 0);
    struct value values[] = {as_it_came(plain), value_of(make_photo(&kinds[11], BASELINE, 40, 30, 85, 0), 1), /* CMYK */
                             value_of(make_photo(&kinds[4], BASELINE, 41, 31, 85, 0), 6),
                             value_of(make_photo(&kinds[4], BASELINE, 60, 60, 85, 0), 1)};
    static const char decode[] = "\"a\": {\"type\": \"Decode\", \"exif\": true}" CROP,
                      nearest[] =
                          DECODE OP(b, "\"type\": \"Resize\", \"size\": [9, 9], \"interpolation\": \"nearest\"");
    assert_int_equal(values[1].form, LEAT_FORM_FAST);
    assert_int_equal(same_pixels(decode, "\"a\", \"b\"", values, 4, 5), 5);           /* the last one */
    assert_int_equal(same_pixels(DECODE CROP, "\"a\", \"b\"", values + 2, 2, 5), 10); /* as it is stored */
    assert_int_equal(same_pixels(nearest, "\"a\", \"b\"", values + 3, 1, 2), 0);
    /* padded */
    assert_int_equal(
        same_pixels(DECODE OP(b, "\"type\": \"CenterCrop\", \"size\": [50, 50]"), "\"a\", \"b\"", values + 2, 2, 1), 1);
    static const char filled[] = DECODE OP(b, "\"type\": \"CenterCrop\", \"size\": [40, 20]")
        OP(c, "\"type\": \"CenterCrop\", \"size\": [40, 40]") OP(d, "\"type\": \"Resize\", \"size\": [30, 30]");
    /* where the photo has pixels, which were cropped before */
    assert_int_equal(same_pixels(filled, "\"a\", \"b\", \"c\"", values + 3, 1, 1), 0);
    assert_int_equal(same_pixels(filled, "\"a\", \"b\", \"c\", \"d\"", values + 3, 1, 1), 0);
    for (size_t i = 0; i < 4; i++)
        free(values[i].photo.data);
}

TEST(a_broken_photo_fails_as_any_other)
{
    struct value v = value_of(make_photo(&kinds[4], BASELINE, 40, 30, 85, 0), 1);
    struct leat_program *left;
    struct photo_batch batch = {0};
    struct memory memory = {{take}, &batch};
    struct leat_card_photo photo;
    uint64_t steps[2];
    size_t failed;
    assert_ok(compile(DECODE CROP, "\"a\", \"b\"", ", \"decode\": \"card\"", &left));
    struct leat_scratch *scratch = leat_scratch_new(left);
    leat_scratch_give_room(scratch, &memory.room);
    struct leat_row row = row_of(&v, 1);
    row.length -= 3;
    assert_int_equal(
        leat_program_apply_tuple(left, 0, scratch, &row, (void *const[]){NULL, &photo}, steps, &failed, &error),
        LEAT_E_DECODE);
    assert_int_equal(failed, 0);
    assert_non_null(strstr(error.message, "its parts are not as long as it is"));
    assert_int_equal(leat_scratch_health(scratch), LEAT_HEALTH_BROKEN);
    row.length += 3;
    struct leat_jpeg_fast_parts parts; /* a row of blocks that makes no sense, under a checksum that is right */
    assert_ok(leat_jpeg_fast_parse(row.data, row.length, &parts, &error));
    for (unsigned i = 0; i < 4; i++)
        v.photo.data[(size_t)(parts.rows - v.photo.data) + i] ^= 0x0f;
    assert_int_equal(
        leat_program_apply_tuple(left, 0, scratch, &row, (void *const[]){NULL, &photo}, steps, &failed, &error),
        LEAT_E_DECODE);
    assert_non_null(strstr(error.message, "row 0 of its blocks makes no sense"));
    assert_int_equal(leat_scratch_health(scratch), LEAT_HEALTH_BROKEN);
    for (unsigned i = 0; i < 4; i++)
        v.photo.data[(size_t)(parts.rows - v.photo.data) + i] ^= 0x0f;
    assert_ok(leat_program_apply_tuple(left, 0, scratch, &row, (void *const[]){NULL, &photo}, steps, &failed, &error));
    assert_int_equal(leat_scratch_health(scratch), LEAT_HEALTH_UNCHECKED);
    assert_int_equal(photo.form, LEAT_CARD_FAST);
    struct leat_step_time times[4];
    assert_int_equal(leat_scratch_times(scratch, times, 4), 3); /* Decode, the crop, and what the card is told */
    assert_string_equal(times[1].step, "RandomResizedCrop");
    assert_int_equal(times[1].rows, 3);
    photo_batch_destroy(&batch);
    leat_scratch_free(scratch);
    leat_program_free(left);
    free(v.photo.data);
}

/* ---- JPEGs as they came ---------------------------------------------------------------------------- */

/* A result of more bytes than these photos have. */
#define LARGE OP(b, "\"type\": \"RandomResizedCrop\", \"size\": [90, 100]")

TEST(blocks_of_jpegs_as_they_came_travel_and_become_the_pixels_of_the_processor)
{
    for (unsigned k = 0; k < KINDS; k++)
        for (unsigned restart = 0; restart < 6; restart += 5) {
            struct value values[3] = {as_it_came(make_photo(&kinds[k], BASELINE, 150, 131, 60, restart)),
                                      as_it_came(make_photo(&kinds[k], OPTIMISED, 64, 170, 50, restart)),
                                      as_it_came(make_photo(&kinds[k], BASELINE, 17, 9, 85, restart))};
            const bool has_four = k >= 11;
            assert_int_equal(same_pixels(DECODE LARGE FLIPS, "\"a\", \"c\", \"b\", \"d\"", values, 3, 6),
                             has_four ? 0 : 18);
            for (unsigned i = 0; i < 3; i++)
                free(values[i].photo.data);
        }
}

TEST(jpegs_as_they_came_travel_as_pixels_where_these_are_fewer_bytes_or_leat_does_not_read_the_blocks)
{
    struct value values[4];
    for (unsigned way = 0; way < 4; way++) /* progressive ones are libjpeg's */
        values[way] = as_it_came(make_photo(&kinds[4], way % 2 ? PROGRESSIVE : BASELINE, 300, 200, 90, 0));
    assert_int_equal(same_pixels(DECODE LARGE, "\"a\", \"b\"", values, 4, 3), 4); /* small crops */
    assert_int_equal(
        same_pixels(DECODE OP(b, "\"type\": \"Resize\", \"size\": [20, 30]"), "\"a\", \"b\"", values, 4, 1), 0);
    /* a part of the same photo, as large as its result */
    assert_int_equal(
        same_pixels(DECODE OP(b, "\"type\": \"RandomCrop\", \"size\": [70, 90]"), "\"a\", \"b\"", values, 4, 5), 10);
    for (unsigned i = 0; i < 4; i++)
        free(values[i].photo.data);
}

/* A photo that was scanned: it is known to be whole, and has its index if that is of use. */
static struct value whole(struct photo photo)
{
    struct value v = as_it_came(photo);
    struct leat_program *program;
    uint8_t pixels[90 * 100 * 3];
    assert_ok(compile(DECODE LARGE OP(l, "\"type\": \"ToLayout\", \"layout\": \"NHWC\""), "\"a\", \"b\", \"l\"", "",
                      &program));
    struct leat_scratch *scratch = leat_scratch_new(program);
    struct leat_row row = row_of(&v, 1);
    row.scan_to_end = true;
    assert_int_equal(leat_program_apply(program, 0, scratch, &row, 1, pixels, &error), 1);
    v.health = (uint8_t)leat_scratch_health(scratch);
    assert_int_equal(v.health, LEAT_HEALTH_GOOD);
    const uint8_t *rows = leat_scratch_rows(scratch, &v.rows_length);
    v.rows = v.rows_length ? memcpy(malloc(v.rows_length), rows, v.rows_length) : NULL;
    leat_scratch_free(scratch);
    leat_program_free(program);
    return v;
}

TEST(coded_bytes_of_whole_jpegs_travel_and_become_the_pixels_of_the_processor)
{
    static const unsigned restarts[] = {0, 1, 5, 19, 1000};
    for (unsigned k = 0; k < KINDS; k++)
        for (unsigned r = 0; r < sizeof restarts / sizeof *restarts; r++) {
            struct value values[4] = {whole(make_photo(&kinds[k], BASELINE, 150, 131, 60, restarts[r])),
                                      whole(make_photo(&kinds[k], OPTIMISED, 64, 170, 50, restarts[r])),
                                      whole(make_photo(&kinds[k], OPTIMISED, 201, 97, 99, restarts[r])),
                                      whole(make_photo(&kinds[k], BASELINE, 130, 9, 85, restarts[r]))};
            const unsigned n = same_pixels(DECODE LARGE FLIPS, "\"a\", \"c\", \"b\", \"d\"", values, 4, 6);
            unsigned indexed = 0;
            for (unsigned i = 0; i < 4; i++) {
                indexed += values[i].rows != NULL;
                free(values[i].photo.data);
                free(values[i].rows);
            }
            assert_int_equal(coded, k >= 11 ? 0 : 6 * indexed);
            assert_true(indexed >= 3 && (k >= 11 || n >= coded));
        }
}

TEST(coded_bytes_of_coefficients_that_no_photo_has_become_the_pixels_of_the_processor)
{
    for (uint64_t key = 0; key < 12; key++) {
        static const uint32_t one_of[] = {1, 2, 9, 20};
        struct value v = whole(make_wild(key & 1 ? OPTIMISED : BASELINE, key, one_of[key % 4]));
        assert_int_equal(same_pixels(DECODE LARGE FLIPS, "\"a\", \"b\", \"c\", \"d\"", &v, 1, 8), 8);
        assert_int_equal(coded, 8);
        free(v.photo.data);
        free(v.rows);
    }
}

TEST(coded_bytes_travel_where_they_are_no_more_than_values_of_float32)
{
    struct value v = whole(make_photo(&kinds[4], BASELINE, 300, 200, 90, 0));
    assert_true(v.photo.length > 30000 && v.photo.length < 60000);
    assert_int_equal(same_pixels(DECODE OP(b, "\"type\": \"Resize\", \"size\": [70, 80]"), "\"a\", \"b\"", &v, 1, 1),
                     1);
    assert_int_equal(coded, 1);
    assert_int_equal(same_pixels(DECODE OP(b, "\"type\": \"Resize\", \"size\": [35, 50]"), "\"a\", \"b\"", &v, 1, 1),
                     0);
    for (unsigned unverified = 0; unverified < 2; unverified++) { /* damage would be met by the card alone */
        v.health = unverified ? LEAT_HEALTH_GOOD : LEAT_HEALTH_UNCHECKED;
        v.unverified = unverified;
        assert_int_equal(
            same_pixels(DECODE OP(b, "\"type\": \"Resize\", \"size\": [70, 80]"), "\"a\", \"b\"", &v, 1, 1), 0);
    }
    free(v.photo.data);
    free(v.rows);
}

TEST(coded_bytes_whose_bits_no_32_bits_count_do_not_travel)
{
    enum { BYTES = 1 << 29 };
    struct leat_card_packer *cards = leat_card_packer_new();
    struct leat_jpeg_frame frame = {
        .width = 16, .height = 16, .n_components = 1, .max_h = 1, .max_v = 1, .mcus_w = 2, .mcus_h = 2};
    frame.component[0] =
        (struct leat_jpeg_component){.h = 1, .v = 1, .width = 16, .height = 16, .blocks_w = 2, .blocks_h = 2};
    const struct leat_card_view view = {.source_size = {16, 16}, .grid = {16, 16}, .window_size = {16, 16}};
    static const struct leat_jpeg_dc_table dc;
    static const struct leat_jpeg_ac_table ac;
    const struct leat_jpeg_mcu mcu = {.n_blocks = 1, .block = {{.dc = &dc, .ac = &ac}}};
    struct leat_jpeg_row_start starts[2] = {{.bit = 0}, {.bit = 8}};
    const struct leat_jpeg_rows rows = {.row = starts, .n = 2, .every = 1};
    uint8_t *const scan = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(scan != MAP_FAILED);
    for (unsigned larger = 0; larger < 2; larger++) {
        const struct leat_jpeg_coded bytes = {scan, scan + (larger ? BYTES : 80), &mcu, &rows, 2, 0};
        struct leat_card_photo photo;
        struct leat_card_mcus mcus;
        const uint8_t *packed;
        assert_ok(leat_card_plan_box(&frame, &view, &photo, &mcus, &error));
        assert_int_equal(leat_card_pack_coded(cards, &bytes, &mcus, &photo, &packed, &error),
                         larger ? LEAT_E_UNSUPPORTED : LEAT_OK);
    }
    assert_non_null(strstr(error.message, "too large for a card"));
    munmap(scan, BYTES);
    leat_card_packer_free(cards);
}

TEST(coded_bytes_that_change_on_their_way_are_pixels_or_a_fault_and_lead_nowhere_else)
{
    struct leat_program *left;
    struct value v[2] = {whole(make_photo(&kinds[4], OPTIMISED, 150, 131, 60, 0)),
                         whole(make_photo(&kinds[2], BASELINE, 90, 120, 80, 7))};
    unsigned faults = 0, passed = 0;
    assert_ok(compile(DECODE LARGE, "\"a\", \"b\"", ", \"decode\": \"card\"", &left));
    struct leat_scratch *scratch = leat_scratch_new(left);
    struct photo_batch batch = {0};
    struct memory memory = {{take}, &batch};
    leat_scratch_give_room(scratch, &memory.room);
    for (unsigned i = 0; i < 2; i++) {
        const struct leat_row row = row_of(&v[i], 3);
        uint64_t steps[2];
        size_t failed;
        struct leat_card_photo photo;
        assert_ok(
            leat_program_apply_tuple(left, 0, scratch, &row, (void *const[]){NULL, &photo}, steps, &failed, &error));
        assert_int_equal(photo.form, LEAT_CARD_CODED);
        batch.photos[i] = photo;
    }
    const uint64_t first = batch.photos[0].bytes;
    for (uint64_t at = 0; at < batch.bytes; at += at < 200 || (at >= first && at < first + 200) ? 1 : 23) {
        const bool second = at >= first;
        batch.data[at] ^= (uint8_t)(1 + at % 255);
        photo_run(&batch);
        faults += batch.faults[second] != 0;
        passed += !batch.faults[second];
        assert_int_equal(batch.faults[!second], 0);
        assert_in_range(batch.faults[second], 0, 20);
        if (batch.faults[second])
            assert_int_equal(leat_card_fault(&batch.photos[second], batch.faults[second], &error), LEAT_E_DECODE);
        free(batch.out);
        free(batch.faults);
        batch.data[at] ^= (uint8_t)(1 + at % 255);
    }
    assert_true(faults > 50 && passed > 50);
    assert_non_null(strstr(error.message, "in the coded data of row "));
    batch.out = NULL;
    batch.faults = NULL;
    photo_batch_destroy(&batch);
    for (unsigned i = 0; i < 2; i++) {
        free(v[i].photo.data);
        free(v[i].rows);
    }
    leat_scratch_free(scratch);
    leat_program_free(left);
}

/* Programs that make pixels, and what a card needs to make them. */
struct both {
    struct leat_program *program[2];
    struct leat_scratch *scratch[2];
};

static void open_both(struct both *b)
{
    assert_ok(compile(DECODE LARGE OP(l, "\"type\": \"ToLayout\", \"layout\": \"NHWC\""), "\"a\", \"b\", \"l\"", "",
                      &b->program[0]));
    assert_ok(compile(DECODE LARGE, "\"a\", \"b\"", ", \"decode\": \"card\"", &b->program[1]));
    for (unsigned i = 0; i < 2; i++)
        b->scratch[i] = leat_scratch_new(b->program[i]);
}

static void close_both(struct both *b)
{
    for (unsigned i = 0; i < 2; i++) {
        leat_scratch_free(b->scratch[i]);
        leat_program_free(b->program[i]);
    }
}

/* Makes a row by both, which have to find out the same: its error, health and row index, or the pixels. *card: a card
 * makes them. */
static int try_both(struct both *b, const struct value *v, bool scan, uint64_t key, enum leat_health *health,
                    size_t *index, bool *card)
{
    struct photo_batch batch = {0};
    struct memory memory = {{take}, &batch};
    struct leat_row row = row_of(v, key);
    struct leat_card_photo photo;
    struct leat_error wrong;
    uint8_t pixels[90 * 100 * 3];
    uint64_t steps[2];
    size_t failed, length;
    row.scan_to_end = scan;
    leat_scratch_give_room(b->scratch[1], &memory.room);
    leat_error_clear(&error);
    leat_error_clear(&wrong);
    const int expected =
        leat_program_apply(b->program[0], 0, b->scratch[0], &row, 1, pixels, &error) == 1 ? LEAT_OK : error.code;
    const int rc = leat_program_apply_tuple(b->program[1], 0, b->scratch[1], &row, (void *const[]){NULL, &photo}, steps,
                                            &failed, &wrong);
    assert_int_equal(rc, expected);
    if (rc)
        assert_string_equal(wrong.message, error.message);
    if (rc)
        assert_int_equal(wrong.offset, error.offset);
    *health = leat_scratch_health(b->scratch[0]);
    assert_int_equal(leat_scratch_health(b->scratch[1]), *health);
    const uint8_t *const rows = leat_scratch_rows(b->scratch[0], index),
                         *same = leat_scratch_rows(b->scratch[1], &length);
    assert_int_equal(length, *index);
    if (length)
        assert_memory_equal(rows, same, length);
    if (!rc) {
        batch.photos[0] = photo;
        photo_run(&batch);
        assert_memory_equal(batch.out, pixels, sizeof pixels);
    }
    *card = !rc && photo.form >= LEAT_CARD_FAST;
    if (*card && scan)
        assert_int_equal(photo.form, LEAT_CARD_CODED);
    photo_batch_destroy(&batch);
    return rc;
}

TEST(a_jpeg_as_it_came_is_scanned_leaves_its_index_and_fails_as_without_a_card)
{
    struct value v = as_it_came(make_photo(&kinds[4], BASELINE, 150, 131, 60, 0));
    struct both b;
    enum leat_health health;
    size_t index;
    bool card;
    open_both(&b);
    for (uint64_t key = 0; key < 4; key++) {
        assert_ok(try_both(&b, &v, true, key, &health, &index, &card));
        assert_true(card && health == LEAT_HEALTH_GOOD);
        assert_ok(try_both(&b, &v, false, key, &health, &index, &card));
        assert_true(card && health == LEAT_HEALTH_UNCHECKED && !index);
    }
    assert_ok(try_both(&b, &v, true, 0, &health, &v.rows_length, &card));
    const uint8_t *const rows = leat_scratch_rows(b.scratch[0], &index);
    assert_true(index > 0);
    v.rows = memcpy(malloc(index), rows, index);
    for (uint64_t key = 0; key < 8; key++) { /* by the index */
        assert_ok(try_both(&b, &v, false, key, &health, &index, &card));
        assert_true(card);
    }
    free(v.rows);
    v.rows = NULL;
    unsigned broken = 0, passed = 0, cards = 0;
    for (size_t at = 20; at < v.photo.length; at += 19) /* headers, tables, and coded data */
        for (unsigned scan = 0; scan < 2; scan++) {
            v.photo.data[at] ^= (uint8_t)(1 + at % 255);
            const int rc = try_both(&b, &v, scan, at, &health, &index, &card);
            broken += rc == LEAT_E_DECODE;
            passed += !rc;
            cards += card;
            assert_true(rc == LEAT_OK || rc == LEAT_E_DECODE);
            v.photo.data[at] ^= (uint8_t)(1 + at % 255);
        }
    assert_true(broken > 20 && passed > 20 && cards > 20 && cards <= passed);
    for (size_t length = v.photo.length; length > 300; length -= 61) {
        const struct value cut = as_it_came((struct photo){v.photo.data, length});
        for (unsigned scan = 0; scan < 2; scan++)
            try_both(&b, &cut, scan, length, &health, &index, &card);
    }
    free(v.photo.data);
    close_both(&b);
}

/* Lets each allocation fail once while a photo is prepared for a card; `form`: as it travels if none does. */
static void fail_each_allocation(struct both *b, const struct value *v, bool scan, enum leat_card_form form)
{
    unsigned there = 0, passed = 0;
    bool failed = true;
    uint8_t pixels[90 * 100 * 3];
    struct leat_row row = row_of(v, 5);
    row.scan_to_end = scan;
    assert_int_equal(leat_program_apply(b->program[0], 0, b->scratch[0], &row, 1, pixels, &error), 1);
    for (int64_t n = 0; failed; n++) {
        struct photo_batch batch = {0};
        struct memory memory = {{take}, &batch};
        struct leat_card_photo photo;
        uint64_t steps[2];
        size_t at;
        struct leat_scratch *fresh = leat_scratch_new(b->program[1]);
        leat_scratch_give_room(fresh, &memory.room);
        fail_allocation(n);
        const int rc =
            leat_program_apply_tuple(b->program[1], 0, fresh, &row, (void *const[]){NULL, &photo}, steps, &at, &error);
        failed = allocation_failed();
        assert_true(rc == LEAT_OK || (rc == LEAT_E_NOMEM && failed));
        if (!rc) {
            batch.photos[0] = photo;
            photo_run(&batch);
            assert_memory_equal(batch.out, pixels, sizeof pixels);
        }
        there += !rc && photo.form == form;
        passed += !rc && photo.form == LEAT_CARD_PIXELS;
        photo_batch_destroy(&batch);
        leat_scratch_free(fresh);
    }
    assert_true(there && passed);
}

TEST(any_allocation_of_a_jpeg_as_it_came_may_fail)
{
    struct value v = as_it_came(make_photo(&kinds[4], BASELINE, 150, 131, 60, 0));
    struct both b;
    open_both(&b);
    fail_each_allocation(&b, &v, false, LEAT_CARD_FAST);
    fail_each_allocation(&b, &v, true, LEAT_CARD_CODED);
    free(v.photo.data);
    close_both(&b);
}

static atomic_size_t live; /* bytes of the library */
static void *live_allocate(size_t bytes)
{
    void *p = malloc(bytes);
    live += malloc_usable_size(p);
    return p;
}
static void *live_resize(void *p, size_t bytes)
{
    live -= malloc_usable_size(p);
    p = realloc(p, bytes);
    live += malloc_usable_size(p);
    return p;
}
static void live_release(void *p)
{
    live -= malloc_usable_size(p);
    free(p);
}

TEST(the_memory_that_a_huge_photo_needs_is_given_back)
{
    struct leat_program *left;
    struct value huge = as_it_came(make_photo(&kinds[4], BASELINE, 3000, 2400, 85, 0)),
                 small = as_it_came(make_photo(&kinds[4], BASELINE, 150, 131, 60, 0));
    struct value *const turns[] = {&small, &huge, &small};
    size_t kept[3], failed;
    test_allocator = (struct test_allocator){live_allocate, live_resize, live_release};
    assert_ok(compile(DECODE OP(b, "\"type\": \"Resize\", \"size\": [2400, 3000]"), "\"a\", \"b\"",
                      ", \"decode\": \"card\"", &left));
    struct leat_scratch *scratch = leat_scratch_new(left);
    for (unsigned i = 0; i < 3; i++) {
        struct photo_batch batch = {0};
        struct memory memory = {{take}, &batch};
        const struct leat_row row = row_of(turns[i], i);
        struct leat_card_photo photo;
        uint64_t steps[2];
        leat_scratch_give_room(scratch, &memory.room);
        assert_ok(
            leat_program_apply_tuple(left, 0, scratch, &row, (void *const[]){NULL, &photo}, steps, &failed, &error));
        assert_int_equal(photo.form, LEAT_CARD_FAST);
        kept[i] = live;
        photo_batch_destroy(&batch);
    }
    assert_in_range(kept[1], 0, kept[0]);
    leat_scratch_free(scratch);
    leat_program_free(left);
    test_allocator = (struct test_allocator){malloc, realloc, free};
    free(huge.photo.data);
    free(small.photo.data);
}

TEST(an_output_that_is_left_to_a_card_has_bytes_and_what_to_do_with_them)
{
    struct leat_program *left, *seen;
    assert_ok(compile(DECODE CROP, "\"a\", \"b\"", ", \"decode\": \"card\"", &left));
    assert_int_equal(leat_program_outputs(left), 2);
    const struct leat_output *x = leat_program_output(left, 0), *card = leat_program_output(left, 1);
    assert_true(x->on_card && x->ragged && x->open && x->decodes && x->keyed && !card->ragged);
    assert_string_equal(card->name, "x.card");
    assert_int_equal(card->row_bytes, sizeof(struct leat_card_photo));
    assert_int_equal(leat_program_chain(left, x->chain)->sizes, 1);
    char *text = leat_program_faces(left);
    assert_ok(leat_program_of_faces(text, &seen, &error));
    assert_true(leat_program_output(seen, 0)->on_card);
    assert_int_equal(leat_program_chain(seen, 0)->sizes, 1);
    leat_free(text);
    leat_program_free(seen);
    leat_program_free(left);
}

TEST(what_a_card_cannot_make_is_an_error_of_the_program)
{
    static const struct {
        const char *operators, *chain, *rest;
        int rc;
    } wrong[] = {
        {DECODE CROP, "\"a\", \"b\"", ", \"decode\": \"gpu\"", LEAT_E_INVALID},
        {DECODE CROP, "\"a\", \"b\"", ", \"decode\": \"card\", \"geometry\": true", LEAT_E_INVALID},
        {DECODE CROP, "\"a\", \"b\"", ", \"decode\": \"card\", \"stack\": \"list\"", LEAT_E_INVALID},
        {DECODE CROP, "", ", \"decode\": \"card\"", LEAT_E_TYPE},
        {DECODE CROP, "\"a\"", ", \"decode\": \"card\"", LEAT_E_TYPE},
        {"\"a\": {\"type\": \"Decode\", \"mode\": \"GRAY\"}" CROP, "\"a\", \"b\"", ", \"decode\": \"card\"",
         LEAT_E_TYPE},
        {"\"a\": {\"type\": \"Decode\", \"dct_scaling\": true}" CROP, "\"a\", \"b\"", ", \"decode\": \"card\"",
         LEAT_E_TYPE},
        {DECODE CROP OP(c, "\"type\": \"ToDtype\", \"dtype\": \"float32\""), "\"a\", \"b\", \"c\"",
         ", \"decode\": \"card\"", LEAT_E_TYPE},
        {DECODE CROP OP(c, "\"type\": \"GaussianBlur\", \"kernel_size\": 3"), "\"a\", \"b\", \"c\"",
         ", \"decode\": \"card\"", LEAT_E_TYPE},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct leat_program *program;
        assert_int_equal(compile(wrong[i].operators, wrong[i].chain, wrong[i].rest, &program), wrong[i].rc);
        if (i != 4) /* of open size, which is said first */
            assert_non_null(strstr(error.message, wrong[i].rc == LEAT_E_TYPE && i != 3 ? "is left to a card" : "'x'"));
    }
}

/* ---- batches ------------------------------------------------------------------------------------- */

static void write_photos(const char *path, unsigned n)
{
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    struct leat_writer *writer;
    options.photos = LEAT_PHOTOS_FAST;
    assert_ok(leat_writer_open(path, &field, 1, &options, &writer, &error));
    for (unsigned i = 0; i < n; i++) {
        struct photo photo = make_photo(&kinds[i % KINDS], BASELINE, 30 + 7 * i, 90 - 3 * i, 85, 0);
        const struct leat_value_ref ref = {photo.data, photo.length, NULL};
        assert_ok(leat_writer_add(writer, &ref, NULL, &error));
        free(photo.data);
    }
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
}

/* The pixels of a batch, as a card makes them. */
static void check_pixels(const struct leat_batch *left, const struct leat_tensor *pixels, unsigned *cards)
{
    struct leat_tensor bytes, what;
    struct photo_batch batch = {.n = leat_batch_rows(left)};
    assert_int_equal(leat_batch_tensor(left, 0, &bytes), LEAT_OK);
    assert_int_equal(leat_batch_tensor(left, 1, &what), LEAT_OK);
    assert_int_equal(test_tensor_bytes(&what), batch.n * sizeof *batch.photos);
    batch.photos = memcpy(malloc(batch.n * sizeof *batch.photos), what.data, batch.n * sizeof *batch.photos);
    batch.places = memcpy(malloc(batch.n * 8), bytes.offsets, batch.n * 8);
    batch.data = memcpy(malloc((size_t)bytes.shape[0]), bytes.data, (size_t)bytes.shape[0]);
    for (size_t i = 0; i < batch.n; i++) {
        assert_int_equal(bytes.offsets[i] % LEAT_CARD_PADDING, 0);
        assert_int_equal(bytes.offsets[i + 1] - bytes.offsets[i], batch.photos[i].bytes);
        *cards += batch.photos[i].form == LEAT_CARD_FAST;
    }
    photo_run(&batch);
    assert_memory_equal(batch.out, pixels->data, test_tensor_bytes(pixels));
    photo_batch_destroy(&batch);
}

TEST(batches_of_a_loader_bring_what_a_card_needs)
{
    static const char *const programs[] = {
        "{\"operators\": {" DECODE CROP FLIPS OP(
            l, "\"type\": \"ToLayout\", \"layout\": \"NHWC\"") "}, \"outputs\": {\"x\": {\"field\": \"image\", "
                                                               "\"chain\": [\"a\", \"b\", \"c\", \"d\", \"l\"]}}}",
        "{\"operators\": {" DECODE CROP FLIPS "}, \"outputs\": {\"x\": {\"field\": \"image\", \"chain\": [\"a\", "
        "\"b\", \"c\", \"d\"], \"decode\": \"card\"}}}"};
    unsigned cards = 0;
    write_photos(test_path("photos"), 26);
    for (unsigned region = 0; region < 2; region++) {
        struct leat_dataset *dataset = test_open(test_path("photos"));
        struct leat_loader *loaders[2];
        struct leat_batch *batches[2];
        uint64_t iterations[2];
        for (unsigned k = 0; k < 2; k++) {
            struct leat_loader_options options = test_options(8);
            options.program = programs[k];
            options.region = (int)region;
            options.budget_bytes = 128 << 20;
            loaders[k] = test_loader(dataset, &options);
            iterations[k] = test_start(loaders[k]);
        }
        while ((batches[0] = test_next(loaders[0], iterations[0]))) {
            struct leat_tensor pixels, image;
            batches[1] = test_next(loaders[1], iterations[1]);
            assert_non_null(batches[1]);
            assert_int_equal(leat_batch_tensor(batches[0], 0, &pixels), LEAT_OK);
            assert_int_equal(leat_batch_image(batches[1], 0, 0, &image), LEAT_E_TYPE);
            assert_memory_equal(leat_batch_ids(batches[0]), leat_batch_ids(batches[1]),
                                8 * leat_batch_rows(batches[0]));
            check_pixels(batches[1], &pixels, &cards);
            leat_batch_free(batches[0]);
            leat_batch_free(batches[1]);
        }
        assert_null(test_next(loaders[1], iterations[1]));
        leat_loader_close(loaders[0]);
        leat_loader_close(loaders[1]);
        leat_dataset_release(dataset);
    }
    assert_int_equal(cards, 2 * 22); /* of 26, four have four components */
}

TEST_MAIN_IN(set_up, tear_down)
