/*
 * Any bytes in the decode-fast form of a JPEG. fuzz_fast.h says how they come. These must hold:
 *
 *     all instruction sets give the same blocks, or all refuse
 *     these blocks are those of a reader that follows docs/format.md bit by bit
 *     columns of a row are those of the whole row
 *     what is unpacked and written again is unpacked the same
 *     giving back the file works, or the payload is called damaged
 */
#include "fuzz_fast.h"

/* ---- invariants ---- */

static void check_row(const uint8_t *row, size_t length, uint32_t blocks, uint8_t split)
{
    struct leat_jpeg_fast_scratch scratch = {0};
    FUZZ_ASSERT(leat_jpeg_fast_scratch_reserve(&scratch, blocks));
    int16_t *want = aligned_alloc(64, 128 * (size_t)blocks), *got = aligned_alloc(64, 128 * (size_t)blocks);
    uint8_t *last = malloc(blocks), *forever = calloc(1, length + LEAT_FAST_ROW_ROOM(blocks));
    FUZZ_ASSERT(want && got && last && forever);
    memcpy(forever, row, length);
    const bool fits = naive_row(forever, blocks, want) == length && length;
    const uint32_t x0 = split % blocks, x1 = x0 + 1 + (split * 7u + blocks / 2) % (blocks - x0);
    for (enum leat_isa isa = LEAT_ISA_PORTABLE; isa <= leat_cpu_isa(); isa++) {
        leat_jpeg_unpack_row_fn *const unpack = leat_jpeg_unpack_row(isa);
        FUZZ_ASSERT(unpack(row, length, blocks, 0, blocks, false, &scratch, got, last) == fits);
        if (!fits)
            continue;
        FUZZ_ASSERT(!memcmp(got, want, 128 * (size_t)blocks));
        FUZZ_ASSERT(unpack(row, length, blocks, x0, x1, false, &scratch, got, last));
        FUZZ_ASSERT(!memcmp(got, want + 64 * (size_t)x0, 128 * (size_t)(x1 - x0)));
        FUZZ_ASSERT(unpack(row, length, blocks, x0, x1, true, &scratch, got, last));
        for (uint32_t x = x0; x < x1; x++)
            FUZZ_ASSERT(got[64 * (size_t)(x - x0)] == want[64 * (size_t)x]);
    }
    free(forever);
    free(last);
    free(got);
    free(want);
    leat_jpeg_fast_scratch_destroy(&scratch);
}

/* An unpacked row can be written, and then is the same. */
static void check_again(const struct leat_jpeg_fast_parts *parts, const uint8_t *payload, size_t length)
{
    struct leat_jpeg_coefficients coefficients = {0}, again = {0};
    struct leat_jpeg_fast_writer writer = {.isa = leat_cpu_isa()}, other = {.isa = LEAT_ISA_PORTABLE};
    struct leat_jpeg_fast *fast = leat_jpeg_fast_new(leat_cpu_isa());
    const struct leat_jpeg_frame *frame;
    struct leat_jpeg_source *source;
    FUZZ_ASSERT(fast && !leat_jpeg_coefficients_reserve(&coefficients, &parts->frame, NULL) &&
                !leat_jpeg_coefficients_reserve(&again, &parts->frame, NULL));
    FUZZ_ASSERT(!leat_jpeg_fast_open(fast, payload, length, &frame, &source, NULL));
    if (!leat_jpeg_fast_read_all(fast, coefficients.of, NULL)) {
        const int rc = leat_jpeg_fast_write(&writer, &coefficients, parts->skeleton, parts->skeleton_length,
                                            &parts->original, NULL);
        FUZZ_ASSERT(rc == leat_jpeg_fast_write(&other, &coefficients, parts->skeleton, parts->skeleton_length,
                                               &parts->original, NULL));
        FUZZ_ASSERT(rc == 0 || rc == LEAT_E_UNSUPPORTED);
        if (!rc) {
            FUZZ_ASSERT(writer.length == other.length && !memcmp(writer.out, other.out, writer.length));
            FUZZ_ASSERT(!leat_jpeg_fast_open(fast, writer.out, writer.length, &frame, &source, NULL));
            FUZZ_ASSERT(!leat_jpeg_fast_read_all(fast, again.of, NULL));
            for (unsigned c = 0; c < frame->n_components; c++)
                FUZZ_ASSERT(!memcmp(again.of[c], coefficients.of[c],
                                    128 * (size_t)frame->component[c].blocks_w * frame->component[c].blocks_h));
        }
    }
    leat_jpeg_fast_writer_destroy(&writer);
    leat_jpeg_fast_writer_destroy(&other);
    leat_jpeg_fast_free(fast);
    leat_jpeg_coefficients_destroy(&coefficients);
    leat_jpeg_coefficients_destroy(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    if (length < 2)
        return 0;
    size_t payload_length;
    struct leat_jpeg_fast_parts parts;
    uint8_t *payload = payload_of(data, length, &payload_length);
    const uint64_t blocks = payload ? blocks_of(payload, payload_length, &parts) : 0;
    FUZZ_ASSERT(blocks || !(payload && data[0] & 1));
    if (blocks && blocks <= MAX_BLOCKS) {
        uint32_t begin = 0;
        for (uint32_t i = 0; i < parts.n_rows; i++) {
            const uint32_t end = leat_get_u32(parts.ends + 4 * (size_t)i);
            uint32_t in_mcu = i % parts.rows_per_mcu;
            unsigned c = 0;
            for (; in_mcu >= parts.frame.component[c].v; c++)
                in_mcu -= parts.frame.component[c].v;
            if (begin <= end && end <= parts.rows_bytes)
                check_row(parts.rows + begin, end - begin, parts.frame.component[c].blocks_w, data[1]);
            begin = end;
        }
        check_again(&parts, payload, payload_length);
        uint8_t *file;
        size_t file_length;
        const int rc = leat_jpeg_restore(payload, payload_length, &file, &file_length, NULL);
        FUZZ_ASSERT(rc == 0 || rc == LEAT_E_CORRUPT);
        if (!rc)
            leat_free(file);
    }
    free(payload);
    return 0;
}
