/* JPEG files to the decode-fast form and back; and payloads that somebody damaged, or made to do harm. */
#include "../../allocations.h"
#include "../photo/photos.h"

#include <malloc.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "codec/jpeg/fast_format.h"

static struct leat_error error;

static const struct photo_style styles[] = {
    {.name = "gray", .in = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .h = {1}, .v = {1}},
    {.name = "4:4:4", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {1, 1, 1}, .v = {1, 1, 1}},
    {.name = "4:2:0 with restarts", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {2, 1, 1}, .v = {2, 1, 1}, .restart = 3},
    {.name = "4:2:2 progressive",
     .in = JCS_RGB,
     .stored = JCS_YCbCr,
     .h = {2, 1, 1},
     .v = {1, 1, 1},
     .progressive = true},
    {.name = "4:4:0 arithmetic",
     .in = JCS_RGB,
     .stored = JCS_YCbCr,
     .h = {1, 1, 1},
     .v = {2, 1, 1},
     .arithmetic = true},
    {.name = "RGB", .in = JCS_RGB, .stored = JCS_RGB, .h = {1, 1, 1}, .v = {1, 1, 1}},
    {.name = "CMYK", .in = JCS_CMYK, .stored = JCS_CMYK, .h = {1, 1, 1, 1}, .v = {1, 1, 1, 1}},
    {.name = "YCCK 4:2:0",
     .in = JCS_CMYK,
     .stored = JCS_YCCK,
     .h = {2, 1, 1, 2},
     .v = {2, 1, 1, 2},
     .separate_scans = true},
};
#define N_STYLES (sizeof styles / sizeof *styles)

static uint8_t *make_jpeg(const struct photo_style *style, uint32_t w, uint32_t h, int quality, size_t *length)
{
    uint8_t *pixels = photo_pixels(w, h, style->in == JCS_GRAYSCALE ? 1 : style->in == JCS_CMYK ? 4 : 3, w * 1000 + h);
    uint8_t *jpeg = photo_encode(style, pixels, w, h, quality, length);
    free(pixels);
    return jpeg;
}

/* A copy of the fast form in memory of its own, of exactly its bytes, so that a sanitizer sees what is read beyond
 * it. */
static uint8_t *pack(const uint8_t *jpeg, size_t length, size_t *packed_length)
{
    struct leat_jpeg_packer *packer = leat_jpeg_packer_new();
    const uint8_t *out;
    assert_non_null(packer);
    assert_ok(leat_jpeg_pack(packer, jpeg, length, 3, 1, &out, packed_length, &error));
    uint8_t *copy = malloc(*packed_length);
    assert_non_null(copy);
    memcpy(copy, out, *packed_length);
    leat_jpeg_packer_free(packer);
    return copy;
}

TEST(every_kind_of_file_comes_back_byte_for_byte)
{
    for (size_t i = 0; i < N_STYLES; i++)
        for (int quality = 30; quality <= 100; quality += 35) {
            size_t length, packed_length, back_length;
            uint8_t *jpeg = make_jpeg(&styles[i], 83, 61, quality, &length), *back;
            uint8_t *packed = pack(jpeg, length, &packed_length);
            struct leat_jpeg_original original;
            assert_ok(leat_jpeg_fast_original(packed, packed_length, &original, &error));
            assert_int_equal(original.length, length);
            assert_int_equal(original.checksum, leat_hash64(jpeg, length));
            assert_int_equal(original.orientation, 3);
            assert_int_equal(original.image_kind, 1);
            assert_ok(leat_jpeg_restore(packed, packed_length, &back, &back_length, &error));
            assert_int_equal(back_length, length);
            assert_memory_equal(back, jpeg, length);
            leat_free(back);
            free(packed);
            free(jpeg);
        }
}

TEST(a_packer_packs_one_photo_after_the_other)
{
    struct leat_jpeg_packer *packer = leat_jpeg_packer_new();
    assert_non_null(packer);
    for (unsigned i = 0; i < 24; i++) {
        size_t length, packed_length, back_length;
        const uint8_t *packed;
        uint8_t *jpeg = make_jpeg(&styles[i % N_STYLES], 16 + i * 37 % 150, 16 + i * 53 % 150, 90, &length), *back;
        /* what fails in between leaves nothing behind */
        assert_int_equal(leat_jpeg_pack(packer, jpeg, length / 2, 1, 1, &packed, &packed_length, &error),
                         LEAT_E_DECODE);
        assert_ok(leat_jpeg_pack(packer, jpeg, length, 1, 1, &packed, &packed_length, &error));
        assert_ok(leat_jpeg_restore(packed, packed_length, &back, &back_length, &error));
        assert_int_equal(back_length, length);
        assert_memory_equal(back, jpeg, length);
        leat_free(back);
        free(jpeg);
    }
    leat_jpeg_packer_free(packer);
}

/* libjpeg keeps for each component the table that is valid at its first scan: table 1, of both chroma components, is
 * defined again before the scan of one of them. */
TEST(a_table_of_quantisation_defined_between_scans_counts_from_there_on)
{
    const struct photo_style separate = {
        .name = "separate", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {1, 1, 1}, .v = {1, 1, 1}, .separate_scans = true};
    for (unsigned before = 1; before <= 2; before++) {
        size_t length, packed_length, back_length, at = 0;
        uint8_t *jpeg = make_jpeg(&separate, 40, 40, 80, &length), *back;
        for (unsigned scans = 0; scans <= before; at++)
            scans += jpeg[at] == 0xff && jpeg[at + 1] == 0xda;
        at--;
        uint8_t *changed = malloc(length + 69);
        assert_non_null(changed);
        memcpy(changed, jpeg, at);
        memcpy(changed + at, "\xff\xdb\0\x43\1", 5);
        memset(changed + at + 5, 7, 64);
        memcpy(changed + at + 69, jpeg + at, length - at);
        uint8_t *packed = pack(changed, length + 69, &packed_length);
        struct leat_jpeg_frame frame;
        assert_ok(leat_jpeg_fast_frame(packed, packed_length, &frame, &error));
        for (unsigned c = 0; c < 3; c++)
            assert_true((frame.component[c].quant[0] == 7 && frame.component[c].quant[63] == 7) == (c >= before));
        assert_ok(leat_jpeg_restore(packed, packed_length, &back, &back_length, &error));
        assert_int_equal(back_length, length + 69);
        assert_memory_equal(back, changed, back_length);
        leat_free(back);
        free(packed);
        free(changed);
        free(jpeg);
    }
}

TEST(a_file_that_would_not_come_back_is_left_as_it_is)
{
    size_t length, packed_length;
    uint8_t *jpeg = make_jpeg(&styles[0], 40, 40, 80, &length);
    const uint8_t *packed;
    struct leat_jpeg_packer *packer = leat_jpeg_packer_new();
    assert_non_null(packer);
    /* the bits that fill up the last byte are 1 (or 0) in what encoders write; a mixture cannot be known */
    assert_int_equal(jpeg[length - 2], 0xff);
    bool refused = false;
    for (unsigned bit = 0; bit < 7; bit++) {
        jpeg[length - 3] ^= (uint8_t)(1 << bit);
        const int rc = leat_jpeg_pack(packer, jpeg, length, 1, 1, &packed, &packed_length, &error);
        jpeg[length - 3] ^= (uint8_t)(1 << bit);
        assert_true(rc == LEAT_OK || rc == LEAT_E_UNSUPPORTED || rc == LEAT_E_DECODE);
        refused |= rc == LEAT_E_UNSUPPORTED && strlen(error.message) > 10;
    }
    assert_true(refused);
    leat_jpeg_packer_free(packer);
    free(jpeg);
}

TEST(an_orientation_that_does_not_exist_is_refused)
{
    size_t length, packed_length;
    uint8_t *jpeg = make_jpeg(&styles[0], 16, 16, 80, &length);
    const uint8_t *packed;
    struct leat_jpeg_packer *packer = leat_jpeg_packer_new();
    assert_non_null(packer);
    assert_int_equal(leat_jpeg_pack(packer, jpeg, length, 0, 1, &packed, &packed_length, &error), LEAT_E_INVALID);
    assert_int_equal(leat_jpeg_pack(packer, jpeg, length, 9, 1, &packed, &packed_length, &error), LEAT_E_INVALID);
    leat_jpeg_packer_free(packer);
    free(jpeg);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* All blocks of a payload, or of columns [x0, x1), as one instruction set reads them; a hash of them, or 0 if it
 * refuses. */
static uint64_t blocks_hash(enum leat_isa isa, const uint8_t *packed, size_t length, bool inner_columns,
                            uint64_t needed)
{
    struct leat_jpeg_fast *fast = leat_jpeg_fast_new(isa);
    const struct leat_jpeg_frame *frame;
    struct leat_jpeg_source *source;
    uint64_t hash = 1;
    assert_non_null(fast);
    int rc = leat_jpeg_fast_open(fast, packed, length, &frame, &source, &error);
    if (rc)
        assert_int_equal(rc, LEAT_E_DECODE);
    const uint32_t x0 = !rc && inner_columns ? frame->mcus_w / 3 : 0, x1 = rc              ? 1
                                                                           : inner_columns ? (2 * frame->mcus_w + 2) / 3
                                                                                           : frame->mcus_w;
    for (uint32_t row = 0; !rc && row < frame->mcus_h; row++) {
        struct leat_jpeg_blocks blocks[1][LEAT_JPEG_MAX_COMPONENTS];
        for (unsigned c = 0; c < frame->n_components; c++) {
            const size_t n = (size_t)(x1 - x0) * frame->component[c].h * frame->component[c].v;
            blocks[0][c].coefficients = aligned_alloc(64, 128 * n);
            blocks[0][c].last = malloc(n);
            assert_non_null(blocks[0][c].coefficients);
            assert_non_null(blocks[0][c].last);
        }
        rc = source->read(source, row, 1, x0, x1, needed, blocks, &error);
        if (rc)
            assert_int_equal(rc, LEAT_E_DECODE);
        for (unsigned c = 0; c < frame->n_components; c++) {
            const size_t n = (size_t)(x1 - x0) * frame->component[c].h * frame->component[c].v;
            if (!rc)
                hash =
                    31 * hash + leat_hash64(blocks[0][c].coefficients, 128 * n) + 7 * leat_hash64(blocks[0][c].last, n);
            free(blocks[0][c].coefficients);
            free(blocks[0][c].last);
        }
    }
    leat_jpeg_fast_free(fast);
    return rc ? 0 : hash;
}

static void check_all_sets_agree(const uint8_t *packed, size_t length)
{
    for (int inner = 0; inner < 2; inner++)
        for (uint64_t needed = 1; needed; needed = needed == 1 ? ~UINT64_C(0) : 0) {
            const uint64_t portable = blocks_hash(LEAT_ISA_PORTABLE, packed, length, inner, needed);
            if (leat_cpu_isa() >= LEAT_ISA_AVX2)
                assert_int_equal(blocks_hash(LEAT_ISA_AVX2, packed, length, inner, needed), portable);
            if (leat_cpu_isa() >= LEAT_ISA_AVX512)
                assert_int_equal(blocks_hash(LEAT_ISA_AVX512, packed, length, inner, needed), portable);
        }
}

/* The fast form of blocks of few and many coefficients, small and large, so that every stream is there. */
static uint8_t *small_payload(uint8_t **jpeg, size_t *jpeg_length, size_t *length)
{
    *jpeg = make_jpeg(&styles[1], 24, 17, 100, jpeg_length);
    return pack(*jpeg, *jpeg_length, length);
}

TEST(a_payload_with_any_bit_flipped_is_refused_or_gives_the_same_file)
{
    size_t length, jpeg_length;
    uint8_t *jpeg, *packed = small_payload(&jpeg, &jpeg_length, &length);
    size_t same = 0;
    for (size_t bit = 0; bit < 8 * length; bit += test_every(7)) { /* at least one of each byte */
        packed[bit / 8] ^= (uint8_t)(1 << bit % 8);
        uint8_t *back;
        size_t back_length;
        const int rc = leat_jpeg_restore(packed, length, &back, &back_length, &error);
        if (!rc) {
            assert_int_equal(back_length, jpeg_length);
            assert_memory_equal(back, jpeg, jpeg_length);
            leat_free(back);
            same++;
        } else {
            assert_int_equal(rc, LEAT_E_CORRUPT);
            assert_int_equal(error.code, LEAT_E_CORRUPT);
        }
        check_all_sets_agree(packed, length);
        packed[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    /* what is not used: zeros at the end, bits that fill up bytes, orientation and kind, quantisation tables, which the
     * skeleton has too */
    assert_true(same < 8 * (LEAT_FAST_TAIL + 3 * LEAT_FAST_TABLE + 64) / test_every(7));
    free(packed);
    free(jpeg);
}

TEST(a_payload_cut_at_any_byte_is_refused)
{
    size_t length, jpeg_length;
    uint8_t *jpeg, *packed = small_payload(&jpeg, &jpeg_length, &length);
    for (size_t n = 0; n < length; n++) {
        uint8_t *cut = malloc(n ? n : 1), *back;
        size_t back_length;
        struct leat_jpeg_original original;
        assert_non_null(cut);
        memcpy(cut, packed, n);
        assert_int_equal(leat_jpeg_restore(cut, n, &back, &back_length, &error), LEAT_E_CORRUPT);
        assert_int_equal(leat_jpeg_fast_original(cut, n, &original, &error), LEAT_E_DECODE);
        assert_int_equal(blocks_hash(LEAT_ISA_PORTABLE, cut, n, false, 1), 0);
        free(cut);
    }
    free(packed);
    free(jpeg);
}

TEST(rows_of_anything_never_harm_and_all_sets_agree)
{
    size_t length, jpeg_length;
    uint8_t *jpeg, *packed = small_payload(&jpeg, &jpeg_length, &length);
    struct leat_jpeg_fast_parts parts;
    assert_ok(leat_jpeg_fast_parse(packed, length, &parts, &error));
    uint8_t *const rows = packed + (parts.rows - packed);
    uint8_t *const kept = malloc(length);
    assert_non_null(kept);
    memcpy(kept, packed, length);
    for (uint64_t round = 0; round < 3000; round++) {
        memcpy(packed, kept, length);
        for (uint64_t i = 0; i < 1 + round % 9; i++)
            rows[leat_draw_below(round, 2 * i, parts.rows_bytes)] = (uint8_t)leat_draw_below(round, 2 * i + 1, 256);
        check_all_sets_agree(packed, length);
    }
    free(kept);
    free(packed);
    free(jpeg);
}

/* Whether every instruction set takes these bytes as a row of one block; refuses if none does. */
static bool is_row(const uint8_t *bytes, size_t length)
{
    struct leat_jpeg_fast_scratch scratch = {0};
    uint8_t row[256] = {0}, last;
    int16_t out[64] __attribute__((aligned(64)));
    unsigned taken = 0, sets = 0;
    assert_true(leat_jpeg_fast_scratch_reserve(&scratch, 1));
    memcpy(row, bytes, length);
    for (enum leat_isa isa = LEAT_ISA_PORTABLE; isa <= leat_cpu_isa(); isa++, sets++)
        taken += leat_jpeg_unpack_row(isa)(row, length, 1, 0, 1, false, &scratch, out, &last);
    assert_true(taken == 0 || taken == sets);
    leat_jpeg_fast_scratch_destroy(&scratch);
    return taken;
}

TEST(rows_that_the_format_does_not_have_are_refused)
{
    static const uint8_t empty[] = {0, 0}, one[] = {1, 1, 0, 0, 0}, nine[] = {9, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                         eight[] = {8, 0, 0, 0, 0, 0, 0, 0, 0}, behind[] = {8, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0};
    assert_true(is_row(empty, 1));
    assert_false(is_row(empty, 2)); /* a byte too many */
    assert_false(is_row(empty, 0));
    assert_true(is_row(one, 5));
    assert_false(is_row(one, 4));
    assert_true(is_row(eight, 9));
    assert_false(is_row(nine, 10));   /* a mask of nine bytes */
    assert_false(is_row(behind, 12)); /* a coefficient behind the last */
}

/* All nibbles of the row say that a byte follows, and none does. */
TEST(a_row_that_ends_behind_its_nibbles_is_refused_without_reading_on)
{
    enum { BLOCKS = 3, AC = 63 * BLOCKS, PLANE = (AC + 7) / 8, NIBBLES = (AC + 1) / 2 };
    const size_t length = BLOCKS + 8 * BLOCKS + 3 * PLANE + NIBBLES;
    struct leat_jpeg_fast_scratch scratch = {0};
    uint8_t *row = malloc(length + LEAT_FAST_TAIL), last[BLOCKS];
    int16_t out[64 * BLOCKS] __attribute__((aligned(64)));
    assert_non_null(row);
    memset(row, 0xff, length);
    memset(row, 8, BLOCKS); /* bytes of each mask, and no bits of a DC */
    for (unsigned b = 0; b < BLOCKS; b++)
        row[BLOCKS + 8 * b + 7] = 0x7f;
    memset(row + length, 0, LEAT_FAST_TAIL);
    assert_true(AC > 2 * LEAT_FAST_TAIL); /* bytes that are counted beyond the tail */
    assert_true(leat_jpeg_fast_scratch_reserve(&scratch, BLOCKS));
    for (enum leat_isa isa = LEAT_ISA_PORTABLE; isa <= leat_cpu_isa(); isa++)
        assert_false(leat_jpeg_unpack_row(isa)(row, length, BLOCKS, 0, BLOCKS, false, &scratch, out, last));
    leat_jpeg_fast_scratch_destroy(&scratch);
    free(row);
}

TEST(ends_of_rows_that_decrease_are_refused)
{
    size_t length, packed_length;
    uint8_t *jpeg = make_jpeg(&styles[0], 40, 40, 80, &length), *packed = pack(jpeg, length, &packed_length), last[5];
    int16_t out[5 * 64] __attribute__((aligned(64)));
    struct leat_jpeg_blocks blocks[1][LEAT_JPEG_MAX_COMPONENTS] = {{{out, last}}};
    struct leat_jpeg_fast *fast = leat_jpeg_fast_new(leat_cpu_isa());
    const struct leat_jpeg_frame *frame;
    struct leat_jpeg_source *source;
    struct leat_jpeg_fast_parts parts;
    assert_non_null(fast);
    assert_ok(leat_jpeg_fast_parse(packed, packed_length, &parts, &error));
    memset(packed + (parts.ends - packed), 0x7f, 4); /* of the first */
    assert_ok(leat_jpeg_fast_open(fast, packed, packed_length, &frame, &source, &error));
    assert_int_equal(source->read(source, 1, 1, 0, frame->mcus_w, UINT64_MAX, blocks, &error), LEAT_E_DECODE);
    assert_ok(source->read(source, 2, 1, 0, frame->mcus_w, UINT64_MAX, blocks, &error));
    leat_jpeg_fast_free(fast);
    free(packed);
    free(jpeg);
}

TEST(a_size_that_the_rows_cannot_hold_is_refused)
{
    size_t length, jpeg_length;
    uint8_t *jpeg, *packed = small_payload(&jpeg, &jpeg_length, &length);
    for (unsigned at = 32; at < 36; at += 2) {
        const uint8_t kept[2] = {packed[at], packed[at + 1]};
        memset(packed + at, 0xff, 2);
        struct leat_jpeg_frame frame; /* before anything is allocated for it */
        assert_int_equal(leat_jpeg_fast_frame(packed, length, &frame, &error), LEAT_E_DECODE);
        memcpy(packed + at, kept, 2);
    }
    assert_int_not_equal(blocks_hash(LEAT_ISA_PORTABLE, packed, length, false, 1), 0);
    free(packed);
    free(jpeg);
}

TEST(a_header_that_makes_no_frame_is_refused)
{
    static const struct {
        unsigned component, at; /* of its four bytes: h, v, table */
        uint8_t value;
    } wrong[] = {{0, 0, 0}, {0, 0, 3}, {1, 1, 5}, {1, 2, 2}, {2, 2, 255}}; /* 3 beside a 2; there are two tables */
    size_t length, packed_length;
    uint8_t *jpeg = make_jpeg(&styles[1], 8, 8, 80, &length), *packed = pack(jpeg, length, &packed_length);
    struct leat_jpeg_frame frame;
    packed[LEAT_FAST_HEADER] = packed[LEAT_FAST_HEADER + LEAT_FAST_COMPONENT] =
        2; /* more blocks than there are, in no more rows */
    assert_ok(leat_jpeg_fast_frame(packed, packed_length, &frame, &error));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint8_t *at = packed + LEAT_FAST_HEADER + LEAT_FAST_COMPONENT * wrong[i].component + wrong[i].at;
        const uint8_t was = *at;
        *at = wrong[i].value;
        assert_int_equal(leat_jpeg_fast_frame(packed, packed_length, &frame, &error), LEAT_E_DECODE);
        *at = was;
    }
    for (unsigned orientation = 0; orientation <= 9; orientation += 9) {
        packed[39] = (uint8_t)orientation;
        assert_int_equal(leat_jpeg_fast_frame(packed, packed_length, &frame, &error), LEAT_E_DECODE);
    }
    free(packed);
    free(jpeg);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int pack_and_restore(const uint8_t *jpeg, size_t length)
{
    struct leat_jpeg_packer *packer = leat_jpeg_packer_new();
    const uint8_t *packed;
    size_t packed_length, back_length;
    uint8_t *back = NULL;
    int rc = packer ? leat_jpeg_pack(packer, jpeg, length, 1, 1, &packed, &packed_length, &error) : LEAT_E_NOMEM;
    if (!rc)
        rc = leat_jpeg_restore(packed, packed_length, &back, &back_length, &error);
    if (!rc)
        assert_memory_equal(back, jpeg, length);
    leat_free(back);
    leat_jpeg_packer_free(packer);
    return rc;
}

TEST(whichever_allocation_fails_it_is_said)
{
    size_t length;
    uint8_t *jpeg = make_jpeg(&styles[1], 40, 24, 80, &length);
    int64_t n = 0;
    for (bool failed = true; failed; n++) {
        fail_allocation(n);
        const int rc = pack_and_restore(jpeg, length);
        failed = allocation_failed();
        assert_int_equal(rc, failed ? LEAT_E_NOMEM : LEAT_OK);
    }
    assert_in_range(n, 10, 200);
    free(jpeg);
}

static size_t held; /* bytes that were allocated and not ended */

static void *allocate_counting(size_t bytes)
{
    void *p = malloc(bytes);
    held += malloc_usable_size(p);
    return p;
}

static void *resize_counting(void *p, size_t bytes)
{
    held -= malloc_usable_size(p);
    p = realloc(p, bytes);
    held += malloc_usable_size(p);
    return p;
}

static void end_counting(void *p)
{
    held -= malloc_usable_size(p);
    free(p);
}

TEST(a_packer_gives_back_what_a_huge_photo_took)
{
    size_t length, packed_length = 0;
    uint8_t *jpeg = make_jpeg(&styles[0], 4096, 8704, 50, &length); /* coefficients: 68 MiB */
    const uint8_t *packed;
    const struct test_allocator usual = test_allocator;
    test_allocator = (struct test_allocator){allocate_counting, resize_counting, end_counting};
    held = 0;
    struct leat_jpeg_packer *packer = leat_jpeg_packer_new();
    const int rc = packer ? leat_jpeg_pack(packer, jpeg, length, 1, 1, &packed, &packed_length, &error) : LEAT_E_NOMEM;
    const size_t held_after = held;
    leat_jpeg_packer_free(packer);
    test_allocator = usual;
    assert_ok(rc);
    assert_true(held_after < 2 * packed_length + ((size_t)1 << 20));
    assert_int_equal(held, 0);
    free(jpeg);
}

TEST(reading_allocates_only_for_a_photo_wider_than_all_before)
{
    size_t length, packed_length;
    uint8_t *jpeg = make_jpeg(&styles[2], 200, 70, 80, &length), *packed = pack(jpeg, length, &packed_length);
    struct leat_jpeg_fast *fast = leat_jpeg_fast_new(leat_cpu_isa());
    const struct leat_jpeg_frame *frame;
    struct leat_jpeg_source *source;
    assert_non_null(fast);
    assert_ok(leat_jpeg_fast_open(fast, packed, packed_length, &frame, &source, &error));
    const uint64_t before = library_allocations();
    for (unsigned i = 0; i < 3; i++)
        assert_ok(leat_jpeg_fast_open(fast, packed, packed_length, &frame, &source, &error));
    assert_int_equal(library_allocations(), before);
    leat_jpeg_fast_free(fast);
    free(packed);
    free(jpeg);
}

/* ---- real photos ----------------------------------------------------------------------------- */

TEST(photos_of_imagenet_come_back)
{
    const char *data = test_data();
    static const char *const names[] = {"n01443537_goldfish.JPEG", "n01484850_great_white_shark.JPEG",
                                        "n01616318_vulture.JPEG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length, packed_length, back_length;
        char folder[512];
        snprintf(folder, sizeof folder, "%s/imagenet", data);
        uint8_t *jpeg = photo_file(folder, names[i], &length), *back;
        uint8_t *packed = pack(jpeg, length, &packed_length);
        assert_ok(leat_jpeg_restore(packed, packed_length, &back, &back_length, &error));
        assert_int_equal(back_length, length);
        assert_memory_equal(back, jpeg, length);
        leat_free(back);
        check_all_sets_agree(packed, packed_length);
        free(packed);
        free(jpeg);
    }
}

TEST_MAIN()
