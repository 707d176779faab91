/* Rows of several samples, of several images and of open size, below any loader: what is where, whose fault it is, and
 * memory that runs out. */
#include "../allocations.h"
#include "program_helpers.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "codec/photo/raw.h"
#include "codec/shapes.h"

enum { W = 6, H = 4, SIDE = 16, PIECES = LEAT_MAX_PIECES };

static struct leat_field fields[3];
static uint8_t photos[PIECES][LEAT_RAW_HEADER + 3 * W * H];
static float boxes[PIECES][4];
static int64_t labels[PIECES];

static void make_samples(void)
{
    fields[0] = field_of("image", LEAT_KIND_IMAGE, LEAT_U8, LEAT_LAYOUT_NONE, 0, NULL);
    fields[1] = field_of("boxes", LEAT_KIND_ARRAY, LEAT_F32, LEAT_LAYOUT_NONE, 2, (const int64_t[]){-1, 4});
    fields[1].role = LEAT_ROLE_BOXES_XYXY;
    fields[2] = field_of("label", LEAT_KIND_ARRAY, LEAT_I64, LEAT_LAYOUT_NONE, 1, (const int64_t[]){-1});
    for (int p = 0; p < PIECES; p++) {
        const struct leat_raw_photo photo = {.width = W, .height = H, .channels = 3, .orientation = 1};
        leat_raw_photo_put(photos[p], &photo);
        memset(photos[p] + LEAT_RAW_HEADER, p + 1, 3 * W * H);
        memcpy(boxes[p], ((float[]){0, 0, W, H}), sizeof boxes[p]);
        labels[p] = p;
    }
}

static void take_values(struct leat_row *values, uint64_t key)
{
    for (int p = 0; p < PIECES; p++) {
        const struct leat_row photo = {
            .data = photos[p], .length = sizeof photos[p], .key = key, .info = {.form = LEAT_FORM_RAW, .size = {W, H}}};
        values[3 * p] = photo;
        values[3 * p + 1] = (struct leat_row){.data = boxes[p], .length = sizeof boxes[p], .key = key};
        values[3 * p + 2] = (struct leat_row){.data = &labels[p], .length = sizeof labels[p], .key = key};
    }
}

#define TUPLE(operators, chain, more)                                                                                  \
    "{\"operators\": {\"d\": {\"type\": \"Decode\"}, " operators                                                       \
    "}, \"outputs\": {\"image\": {\"fields\": [\"image\", "                                                            \
    "\"boxes\", \"label\"], \"chain\": [" chain "]" more "}}}"
static const char mosaic[] = TUPLE("\"m\": {\"type\": \"Mosaic\", \"size\": 8}", "\"d\", \"m\"", "");
static const char filtered[] = TUPLE("\"m\": {\"type\": \"Mosaic\", \"size\": 8}, \"f\": {\"type\": "
                                     "\"RandomHorizontalFlip\"}, \"b\": {\"type\": \"GaussianBlur\", \"kernel_size\": "
                                     "[3, 3]}, \"s\": {\"type\": \"SanitizeBoundingBoxes\", \"labels_getter\": "
                                     "\"default\"}",
                                     "\"d\", \"f\", \"m\", \"b\", \"s\"", "");
static const char open[] = TUPLE("\"r\": {\"type\": \"RandomRotation\", \"degrees\": [-20, 20], \"expand\": true}",
                                 "\"d\", \"r\"", ", \"stack\": \"list\"");
static const char views[] =
    "{\"operators\": {\"d\": {\"type\": \"Decode\"}, \"t\": {\"type\": \"TenCrop\", \"size\": [2, 3]}, "
    "\"f\": {\"type\": \"ToDtype\", \"dtype\": \"float32\"}}, \"outputs\": {\"image\": {\"field\": "
    "\"image\", \"chain\": [\"d\", \"t\", \"f\"]}}}";

static const char aimed[] =
    TUPLE("\"m\": {\"type\": \"Mosaic\", \"size\": 8, \"p\": 0.7}, \"i\": {\"type\": \"RandomIoUCrop\"}, \"s\": "
          "{\"type\": \"SanitizeBoundingBoxes\", \"labels_getter\": \"default\", \"min_visibility\": 0.4}, \"r\": "
          "{\"type\": \"Resize\", \"size\": [9, 7]}",
          "\"d\", \"m\", \"i\", \"s\", \"r\"", "");
static const char mixed[] =
    TUPLE("\"r\": {\"type\": \"Resize\", \"size\": [8, 8]}, \"t\": {\"type\": \"RandomRotate90\"}, \"m\": "
          "{\"type\": \"DetectionMixUp\"}",
          "\"d\", \"r\", \"t\", \"m\"", "");

/* With masks in the place of labels. */
static const char pasted[] =
    "{\"operators\": {\"d\": {\"type\": \"Decode\"}, \"r\": {\"type\": \"Resize\", \"size\": [8, 8]}, "
    "\"c\": {\"type\": \"CopyPaste\", \"blending\": true}, \"b\": {\"type\": \"GaussianBlur\", "
    "\"kernel_size\": [3, 3]}}, \"outputs\": {\"image\": {\"fields\": [\"image\", \"boxes\", \"masks\"], "
    "\"chain\": [\"d\", \"r\", \"c\", \"b\"]}}}";
static struct leat_shape_bytes masks;

static void make_masks(void)
{
    const uint32_t runs[] = {W * H / 2, W * H / 2};
    masks.n = 0;
    assert_true(leat_shapes_put_head(&masks, 1) && leat_shapes_put_runs(&masks, H, W, runs, 2));
}

static void take_masks(struct leat_row *values, uint64_t key)
{
    take_values(values, key);
    for (int p = 0; p < PIECES; p++)
        values[3 * p + 2] = (struct leat_row){.data = masks.data, .length = masks.n, .key = key};
    fields[2] = field_of("masks", LEAT_KIND_BYTES, LEAT_U8, LEAT_LAYOUT_NONE, 0, NULL);
    fields[2].role = LEAT_ROLE_MASKS;
}

static struct leat_program *compiled(const char *text)
{
    struct leat_error error = {0};
    struct leat_program *out;
    make_samples();
    if (leat_program_compile(fields, 3, text, NULL, 0, LEAT_OPEN_STACKS, &out, &error))
        fail_msg("%s", error.message);
    return out;
}

TEST(each_box_lies_where_its_sample_is_shown)
{
    struct leat_program *p = compiled(mosaic);
    struct leat_scratch *scratch = leat_scratch_new(p);
    static uint8_t image[3][SIDE][SIDE];
    assert_int_equal(leat_program_pieces(p), PIECES);
    assert_true(leat_program_output(p, 1)->bounded && leat_program_chain(p, 0)->pieces == PIECES);
    for (uint64_t key = 0; key < 200; key++) {
        struct leat_row values[3 * PIECES];
        float made[PIECES][4];
        int64_t label[PIECES];
        void *dst[] = {image, made, label};
        uint64_t steps[3];
        size_t failed;
        struct leat_error error = {0};
        take_values(values, key);
        assert_int_equal(leat_program_row_pieces(p, key), PIECES);
        assert_ok(leat_program_apply_tuple(p, 0, scratch, values, dst, steps, &failed, &error));
        assert_true(steps[1] == PIECES && steps[2] == PIECES);
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                unsigned is = 114;
                for (unsigned k = 0; k < PIECES; k++)
                    if ((float)x >= made[k][0] && (float)x < made[k][2] && (float)y >= made[k][1] &&
                        (float)y < made[k][3])
                        is = k + 1;
                assert_true(image[0][y][x] == is && image[2][y][x] == is);
            }
        for (int k = 0; k < PIECES; k++)
            assert_int_equal(label[k], k);
    }
    leat_scratch_free(scratch);
    leat_program_free(p);
}

TEST(the_sample_at_fault_is_named)
{
    struct leat_program *p = compiled(mosaic);
    struct leat_scratch *scratch = leat_scratch_new(p);
    static uint8_t image[3][SIDE][SIDE];
    for (size_t bad = 0; bad < 3 * PIECES; bad++) {
        struct leat_row values[3 * PIECES];
        float made[PIECES][4];
        int64_t label[PIECES];
        void *dst[] = {image, made, label};
        uint64_t steps[3];
        size_t failed = SIZE_MAX;
        struct leat_error error = {0};
        take_values(values, 5);
        values[bad].length -= 3; /* no whole photo, box or label */
        assert_int_equal(leat_program_apply_tuple(p, 0, scratch, values, dst, steps, &failed, &error), LEAT_E_DECODE);
        assert_int_equal(failed, bad);
    }
    leat_scratch_free(scratch);
    leat_program_free(p);
}

/* The value as the header says it: nothing is decoded to reckon. */
TEST(each_sample_is_reckoned_by_the_key_that_it_draws_from)
{
    static const char text[] = TUPLE("\"z\": {\"type\": \"RandomZoomOut\"}, \"b\": {\"type\": \"GaussianBlur\", "
                                     "\"kernel_size\": [3, 3]}, \"m\": {\"type\": \"Mosaic\", \"size\": 8}",
                                     "\"d\", \"z\", \"b\", \"m\"", "");
    struct leat_program *p = compiled(text);
    uint64_t differ = 0;
    for (uint64_t key = 0; key < 50; key++)
        for (unsigned piece = 0; piece < PIECES; piece++) {
            const uint64_t own = piece ? leat_key_mix(key, (UINT64_C(1) << 62) + piece) : key;
            const struct leat_row row = {.key = key, .info = {.form = LEAT_FORM_RAW, .size = {2000, 1500}}};
            const struct leat_row alone = {.key = own, .info = row.info};
            const uint64_t bytes = leat_program_decode_bytes(p, 0, &row, piece);
            assert_int_equal(bytes, leat_program_decode_bytes(p, 0, &alone, 0));
            differ += bytes != leat_program_decode_bytes(p, 0, &row, 0);
        }
    assert_true(differ > 50);
    leat_program_free(p);
}

TEST(a_mask_is_reckoned_as_large_as_its_image)
{
    static const char with[] = "{\"operators\": {\"d\": {\"type\": \"Decode\"}, \"r\": {\"type\": \"Resize\", "
                               "\"size\": [8, 8]}}, \"outputs\": {\"image\": {\"fields\": [\"image\", \"boxes\", "
                               "\"masks\"], \"chain\": [\"d\", \"r\"]}}}";
    struct leat_error error = {0};
    struct leat_program *p;
    make_samples();
    fields[2] = field_of("masks", LEAT_KIND_BYTES, LEAT_U8, LEAT_LAYOUT_NONE, 0, NULL);
    fields[2].role = LEAT_ROLE_MASKS;
    assert_ok(leat_program_compile(fields, 3, with, NULL, 0, LEAT_OPEN_STACKS, &p, &error));
    const struct leat_row row = {.info = {.form = LEAT_FORM_RAW, .size = {3000, 2000}}};
    const uint64_t bytes = leat_program_decode_bytes(p, 0, &row, 0);
    leat_program_free(p);
    fields[2] = field_of("masks", LEAT_KIND_BYTES, LEAT_U8, LEAT_LAYOUT_NONE, 0, NULL);
    assert_ok(leat_program_compile(fields, 3, with, NULL, 0, LEAT_OPEN_STACKS, &p, &error));
    assert_int_equal(bytes - leat_program_decode_bytes(p, 0, &row, 0), 3000 * 2000);
    leat_program_free(p);
}

/* ---- memory ---- */

struct room {
    struct leat_room room;
    uint8_t *memory;
    uint64_t bytes;
};

static int take_room(struct leat_room *room, size_t output, uint64_t bytes, void **memory, struct leat_error *error)
{
    struct room *r = (struct room *)room;
    leat_free(r->memory);
    *memory = r->memory = leat_alloc(bytes);
    r->bytes = bytes;
    return r->memory ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory");
}

static int life_of(const char *text, struct leat_error *error)
{
    static uint8_t image[10 * 3 * SIDE * SIDE * sizeof(float)];
    uint8_t made[256], label[256];
    int64_t sizes[2] = {0};
    void *dst[] = {image, made, label, sizes};
    struct room room = {.room = {take_room}};
    struct leat_program *p;
    struct leat_row values[3 * PIECES];
    uint64_t steps[4];
    size_t failed;
    if (text == pasted)
        take_masks(values, 0);
    int rc = leat_program_compile(fields, 3, text, NULL, 0, LEAT_OPEN_STACKS, &p, error);
    struct leat_scratch *scratch = rc ? NULL : leat_scratch_new(p);
    rc = rc || scratch ? rc : leat_fail(error, LEAT_E_NOMEM, "no memory");
    for (uint64_t i = 0; i < 3 && !rc; i++) {
        (text == pasted ? take_masks : take_values)(values, i);
        leat_scratch_give_room(scratch, &room.room);
        rc = leat_program_apply_tuple(p, 0, scratch, values, dst, steps, &failed, error);
        if (!rc && text == open)
            assert_int_equal(room.bytes, 3 * sizes[0] * sizes[1]);
    }
    leat_free(room.memory);
    leat_scratch_free(scratch);
    leat_program_free(p);
    return rc;
}

TEST(every_failing_allocation_is_an_error_and_leaks_nothing)
{
    const char *const programs[] = {mosaic, filtered, aimed, mixed, open, views, pasted};
    make_samples();
    make_masks();
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        struct leat_error error = {0};
        unsigned failures = 0;
        bool reached = true;
        for (int64_t n = 0; reached; n++) {
            fail_allocation(n);
            const int rc = life_of(programs[i], &error);
            reached = allocation_failed();
            if (rc && rc != LEAT_E_NOMEM)
                fail_msg("allocation %lld: %s: %s", (long long)n, leat_status_name(rc), error.message);
            failures += rc == LEAT_E_NOMEM;
        }
        assert_true(failures > 10);
        assert_ok(life_of(programs[i], &error));
    }
    leat_free(masks.data);
}

TEST_MAIN()
