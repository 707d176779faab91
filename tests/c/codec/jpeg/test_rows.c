/* The row index of a photo, packed and unpacked. */
#include "../../test.h"

#include "base/hash.h"
#include "base/random.h"
#include "codec/jpeg/rows.h"

static struct leat_jpeg_frame frame_of(uint32_t mcus_w, uint32_t mcus_h, unsigned n_components)
{
    static const enum leat_jpeg_colour colours[] = {LEAT_JPEG_GRAY, LEAT_JPEG_GRAY, LEAT_JPEG_GRAY, LEAT_JPEG_YCC,
                                                    LEAT_JPEG_CMYK};
    struct leat_jpeg_frame frame = {.width = mcus_w * 8, .height = mcus_h * 8, .colour = colours[n_components]};
    frame.n_components = (uint8_t)n_components;
    for (unsigned c = 0; c < n_components; c++)
        frame.component[c].h = frame.component[c].v = 1;
    assert_true(leat_jpeg_frame_complete(&frame));
    return frame;
}

/* Rows of about `bits` bits, with predictors up to `spread` from 0. Ended with leat_jpeg_rows_destroy. */
static struct leat_jpeg_rows made(const struct leat_jpeg_frame *frame, uint32_t bits, uint32_t spread,
                                  uint32_t interval)
{
    struct leat_jpeg_rows rows = {.n = frame->mcus_h, .every = 1};
    struct leat_jpeg_row_start at = {.restart = interval};
    rows.row = calloc(rows.n, sizeof *rows.row);
    assert_non_null(rows.row);
    rows.room = rows.n;
    for (uint32_t i = 0; i < rows.n; i++) {
        rows.row[i] = at;
        at.bit += 1 + leat_draw_below(1, i, bits);
        at.restart = interval ? interval - (uint32_t)((i + 1) * (uint64_t)frame->mcus_w % interval) : 0;
        for (unsigned c = 0; c < frame->n_components; c++)
            at.dc[c] = (int16_t)((int)leat_draw_below(c + 2, i, 2 * spread + 1) - (int)spread);
    }
    return rows;
}

static void assert_rows_equal(const struct leat_jpeg_rows *a, const struct leat_jpeg_rows *b,
                              const struct leat_jpeg_frame *frame)
{
    assert_int_equal(b->n, (a->n + b->every - 1) / b->every);
    for (uint32_t i = 0; i < b->n; i++) {
        const struct leat_jpeg_row_start *x = &a->row[i * b->every], *y = &b->row[i];
        assert_int_equal(x->bit, y->bit);
        assert_int_equal(x->restart, y->restart);
        for (unsigned c = 0; c < frame->n_components; c++)
            assert_int_equal(x->dc[c], y->dc[c]);
    }
}

TEST(rows_come_back_as_they_were_packed)
{
    static const uint32_t bits[] = {1, 300, 20000, 4000000}, spreads[] = {0, 40, 1024, 32767},
                          intervals[] = {0, 1, 7, 65535};
    for (unsigned n = 1; n <= 4; n += n == 1 ? 2 : 1)
        for (unsigned i = 0; i < 4; i++) {
            const struct leat_jpeg_frame frame = frame_of(13, 2 + 50 * i, n);
            struct leat_jpeg_rows rows = made(&frame, bits[i], spreads[(i + n) % 4], intervals[(i + 2 * n) % 4]),
                                  back = {0};
            const uint64_t scan = rows.row[rows.n - 1].bit / 8 + 1;
            uint8_t *packed;
            size_t length;
            assert_int_equal(leat_jpeg_rows_pack(&rows, &frame, 1 << 30, &packed, &length), LEAT_OK);
            assert_true(length > 0);
            assert_true(leat_jpeg_rows_whole(packed, length));
            assert_true(leat_jpeg_rows_unpack(&back, &frame, packed, length, scan));
            assert_int_equal(back.every, 1);
            assert_rows_equal(&rows, &back, &frame);
            leat_jpeg_rows_destroy(&rows);
            leat_jpeg_rows_destroy(&back);
        }
}

TEST(rows_are_left_out_for_one_percent_of_the_photo)
{
    const struct leat_jpeg_frame frame = frame_of(13, 200, 3);
    struct leat_jpeg_rows rows = made(&frame, 5000, 300, 0), back = {0};
    uint8_t *packed;
    size_t length;
    uint32_t most = 1;
    for (uint64_t bytes = 200000; bytes; bytes = bytes * 9 / 10) {
        assert_int_equal(leat_jpeg_rows_pack(&rows, &frame, bytes, &packed, &length), LEAT_OK);
        assert_true(length <= bytes / 100);
        if (!length) {
            assert_null(packed);
            assert_true(bytes < 3000); /* a row, the checksum and two numbers fit 30 bytes */
            continue;
        }
        assert_true(leat_jpeg_rows_unpack(&back, &frame, packed, length, UINT32_MAX));
        assert_rows_equal(&rows, &back, &frame);
        most = back.every > most ? back.every : most;
    }
    assert_true(most > 20);
    leat_jpeg_rows_destroy(&rows);
    leat_jpeg_rows_destroy(&back);
}

TEST(a_photo_of_one_row_has_no_index)
{
    const struct leat_jpeg_frame frame = frame_of(13, 1, 3);
    struct leat_jpeg_rows rows = made(&frame, 5000, 300, 0);
    uint8_t *packed;
    size_t length;
    assert_int_equal(leat_jpeg_rows_pack(&rows, &frame, 1 << 20, &packed, &length), LEAT_OK);
    assert_int_equal(length, 0);
    leat_jpeg_rows_destroy(&rows);
}

TEST(the_bytes_are_those_of_the_format)
{
    const struct leat_jpeg_frame frame = frame_of(10, 3, 3);
    static const uint8_t expected[] = {
        1, 0, /* place */ 0xac, 0x02, /* predictors */ 0x05, 0x80, 0x01, 0, /* place */ 1, 6, 0x81, 0x01, 8};
    struct leat_jpeg_rows rows = made(&frame, 1, 0, 0);
    uint8_t *packed;
    size_t length;
    rows.row[1] = (struct leat_jpeg_row_start){.bit = 300, .dc = {-3, 64, 0}};
    rows.row[2] = (struct leat_jpeg_row_start){.bit = 301, .dc = {0, -1, 4}};
    assert_int_equal(leat_jpeg_rows_pack(&rows, &frame, 1 << 20, &packed, &length), LEAT_OK);
    assert_int_equal(length, 4 + sizeof expected);
    assert_memory_equal(packed + 4, expected, sizeof expected);
    const uint64_t sum = leat_hash64(expected, sizeof expected);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(packed[i], (uint8_t)(sum >> (8 * i)));
    leat_jpeg_rows_destroy(&rows);
}

/* Unpacks bytes behind which nothing may be read: see the sanitizer. */
static bool unpacks(const struct leat_jpeg_frame *frame, const uint8_t *bytes, size_t length, bool right, uint64_t scan)
{
    struct leat_jpeg_rows rows = {0};
    uint8_t *copy = malloc(length ? length : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, length);
    if (right && length > 4) {
        const uint64_t sum = leat_hash64(copy + 4, length - 4);
        for (unsigned i = 0; i < 4; i++)
            copy[i] = (uint8_t)(sum >> (8 * i));
    }
    const bool good = leat_jpeg_rows_unpack(&rows, frame, copy, length, scan);
    for (uint32_t i = 1; good && i < rows.n; i++)
        assert_true(rows.row[i].bit > rows.row[i - 1].bit && rows.row[i].bit < 8 * scan);
    leat_jpeg_rows_destroy(&rows);
    free(copy);
    return good;
}

TEST(a_damaged_index_is_refused)
{
    const struct leat_jpeg_frame frame = frame_of(13, 20, 3);
    struct leat_jpeg_rows rows = made(&frame, 5000, 300, 0);
    const uint64_t scan = rows.row[rows.n - 1].bit / 8 + 1;
    uint8_t *packed;
    size_t length;
    assert_int_equal(leat_jpeg_rows_pack(&rows, &frame, 1 << 20, &packed, &length), LEAT_OK);
    assert_true(unpacks(&frame, packed, length, false, scan));
    for (size_t at = 0; at < length; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            packed[at] ^= (uint8_t)(1 << bit);
            assert_false(unpacks(&frame, packed, length, false, scan));
            packed[at] ^= (uint8_t)(1 << bit);
        }
    for (size_t cut = 0; cut < length; cut++) {
        assert_false(unpacks(&frame, packed, cut, false, scan));
        assert_false(unpacks(&frame, packed, cut, true, scan));
    }
    leat_jpeg_rows_destroy(&rows);
}

TEST(an_index_that_does_not_fit_the_photo_is_refused)
{
    const struct leat_jpeg_frame frame = frame_of(13, 20, 3), gray = frame_of(13, 20, 1), higher = frame_of(13, 21, 3);
    struct leat_jpeg_rows rows = made(&frame, 5000, 300, 0);
    const uint64_t last = rows.row[rows.n - 1].bit;
    uint8_t *packed;
    size_t length;
    assert_int_equal(leat_jpeg_rows_pack(&rows, &frame, 1 << 20, &packed, &length), LEAT_OK);
    assert_true(unpacks(&frame, packed, length, false, last / 8 + 1));
    assert_false(unpacks(&frame, packed, length, false, last / 8)); /* the last row would begin behind the scan */
    assert_false(unpacks(&gray, packed, length, false, UINT32_MAX));
    assert_false(unpacks(&higher, packed, length, false, UINT32_MAX));
    leat_jpeg_rows_destroy(&rows);
}

TEST(numbers_that_an_index_cannot_have_are_refused)
{
    /* a checksum, E, the interval; rows of MCUs of which no second one is kept need no more */
    static const uint8_t all[] = {0, 0, 0, 0, 20, 0},
                         beyond[] = {0, 0, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 0}; /* E = 2^32 */
    static const uint8_t interval[] = {0, 0, 0, 0, 1, 0x80, 0x80, 4, 9, 0},
                         most[] = {0, 0, 0, 0, 1, 0xff, 0xff, 3, 9, 0};
    const struct leat_jpeg_frame frame = frame_of(13, 20, 1), two = frame_of(13, 2, 1);
    assert_false(unpacks(&frame, all, sizeof all, true, 100));
    assert_false(unpacks(&frame, beyond, sizeof beyond, true, 100));
    assert_true(unpacks(&two, most, sizeof most, true, 100));
    assert_false(unpacks(&two, interval, sizeof interval, true, 100)); /* 65536 */
    /* a number has no more bytes than it needs: 0 in one, not in two */
    static const uint8_t none[] = {0, 0, 0, 0, 1, 0, 9, 0}, long_none[] = {0, 0, 0, 0, 1, 0x80, 0, 9, 0};
    assert_true(unpacks(&two, none, sizeof none, true, 100));
    assert_false(unpacks(&two, long_none, sizeof long_none, true, 100));
}

TEST(changed_bytes_under_a_right_checksum_do_no_harm)
{
    const struct leat_jpeg_frame frame = frame_of(13, 20, 3);
    struct leat_jpeg_rows rows = made(&frame, 5000, 300, 5);
    const uint64_t scan = rows.row[rows.n - 1].bit / 8 + 1;
    uint8_t *packed;
    size_t length;
    unsigned taken = 0;
    assert_int_equal(leat_jpeg_rows_pack(&rows, &frame, 1 << 20, &packed, &length), LEAT_OK);
    for (size_t at = 4; at < length; at++)
        for (unsigned value = 0; value < 256; value++) {
            const uint8_t was = packed[at];
            packed[at] = (uint8_t)value;
            taken += unpacks(&frame, packed, length, true, scan);
            packed[at] = was;
        }
    assert_true(taken > length); /* those that say something else, but nothing impossible */
    leat_jpeg_rows_destroy(&rows);
}

TEST_MAIN()
