/*
 * Any bytes in the decode-fast form of a JPEG. An even first byte: a payload follows. An odd one: it becomes rows of
 * blocks of the lengths that its own heads and masks ask for, so that bytes of any sort reach the deepest streams.
 * These must hold:
 *
 *     all instruction sets give the same blocks, or all refuse
 *     these blocks are those of a reader that follows docs/format.md bit by bit
 *     columns of a row are those of the whole row
 *     what is unpacked and written again is unpacked the same
 *     giving back the file works, or the payload is called damaged
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "codec/jpeg/fast_format.h"

#define FUZZ_ASSERT(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            __builtin_trap();                                                                                          \
    } while (0)
#define MAX_BLOCKS 65536u /* more say nothing new */

/* ---- a reader without vectors, tables or checks: one row ---- */

struct bits {
    const uint8_t *p;
    size_t at;
};
static unsigned take(struct bits *b, unsigned n)
{
    unsigned v = 0;
    for (unsigned i = 0; i < n; i++, b->at++)
        v |= (unsigned)(b->p[b->at / 8] >> b->at % 8 & 1) << i;
    return v;
}

/* Unpacks `blocks` blocks from bytes that never end, and returns how many bytes they took; 0 if a head or mask is
 * none. */
static size_t naive_row(const uint8_t *p, uint32_t blocks, int16_t *out)
{
    struct bits s = {p + blocks, 0};
    uint16_t dc = 0;
    size_t n = 0, m = 0, q = 0, words = 0;
    memset(out, 0, 128 * (size_t)blocks);
    for (uint32_t x = 0; x < blocks; x++) {
        const unsigned bits = p[x] >> 4, code = take(&s, bits);
        dc = (uint16_t)(dc + code - (bits && !(code >> (bits - 1)) ? (1u << bits) - 1 : 0));
        out[64 * x] = (int16_t)dc;
        if ((p[x] & 15) > 8)
            return 0;
    }
    struct bits mask = {s.p + (s.at + 7) / 8, 0};
    for (uint32_t x = 0; x < blocks; x++)
        for (unsigned k = 1; k <= 8u * (p[x] & 15); k++)
            if (take(&mask, 1)) {
                if (k == 64)
                    return 0;
                out[64 * x + leat_jpeg_natural[k]] = 1;
                n++;
            }
    struct bits sign = {mask.p + mask.at / 8, 0}, a = {sign.p + (n + 7) / 8, 0}, b = {a.p + (n + 7) / 8, 0};
    for (size_t i = 0; i < n; i++)
        m += take(&a, 1) & take(&b, 1);
    struct bits nibble = {b.p + (n + 7) / 8, 0};
    for (size_t i = 0; i < m; i++)
        q += take(&nibble, 4) == 15;
    const uint8_t *byte = nibble.p + (m + 1) / 2;
    for (size_t i = 0; i < q; i++)
        words += byte[i] == 255;
    const uint8_t *word = byte + q, *const end = word + 2 * words;
    a.at = b.at = nibble.at = 0;
    for (uint32_t x = 0; x < blocks; x++)
        for (unsigned k = 1; k < 64; k++) {
            int16_t *const to = &out[64 * x + leat_jpeg_natural[k]];
            if (!*to)
                continue;
            const unsigned low = take(&a, 1), high = take(&b, 1);
            unsigned magnitude = 1 + low + 2 * high;
            if (low & high) {
                const unsigned more = take(&nibble, 4);
                magnitude = 4 + more;
                if (more == 15 && (magnitude = *byte++) == 255) {
                    magnitude = leat_get_u16(word);
                    word += 2;
                }
            }
            *to = (int16_t)(uint16_t)(take(&sign, 1) ? 0 - magnitude : magnitude);
        }
    return (size_t)(end - p);
}

/* ---- payloads ---- */

static uint8_t *alone(size_t length) /* of exactly so many bytes, so that a sanitizer sees the end */
{
    uint8_t *p = malloc(length ? length : 1);
    FUZZ_ASSERT(p);
    return p;
}

static uint8_t *make_payload(const uint8_t *data, size_t length, size_t *payload_length)
{
    static const uint8_t components[] = {1, 3, 3, 4, 4};
    if (length < 8)
        return NULL;
    struct leat_jpeg_frame frame = {.width = 1 + data[0] + (data[1] & 1) * 256u, .height = 1 + data[2] % 40u};
    frame.colour = (enum leat_jpeg_colour)(data[3] % 5);
    frame.n_components = components[frame.colour];
    for (unsigned c = 0; c < frame.n_components; c++) {
        frame.component[c].h = 1 + (data[4 + c] & 3);
        frame.component[c].v = 1 + (data[4 + c] >> 2 & 3);
    }
    if (!leat_jpeg_frame_complete(&frame))
        return NULL;
    size_t blocks = 0, n_rows = 0;
    uint32_t widest = 0;
    for (unsigned c = 0; c < frame.n_components; c++) {
        blocks += (size_t)frame.component[c].blocks_w * frame.component[c].blocks_h;
        n_rows += frame.component[c].blocks_h;
        widest = frame.component[c].blocks_w > widest ? frame.component[c].blocks_w : widest;
    }
    const size_t rows =
        LEAT_FAST_HEADER + LEAT_FAST_COMPONENT * (size_t)frame.n_components + LEAT_FAST_TABLE + 4 * n_rows;
    const size_t room = rows + LEAT_FAST_ROW_ROOM(blocks + n_rows + length);
    uint8_t *p = calloc(1, room), *at = p + rows;
    int16_t *unpacked = malloc(128 * (size_t)widest);
    FUZZ_ASSERT(p && unpacked);
    memcpy(p, LEAT_FAST_MAGIC, 8);
    leat_put_u64(p + 8, length);
    leat_put_u16(p + 32, (uint16_t)frame.width);
    leat_put_u16(p + 34, (uint16_t)frame.height);
    p[36] = (uint8_t)frame.colour;
    p[37] = frame.n_components;
    p[38] = p[39] = p[40] = 1;
    for (unsigned c = 0; c < frame.n_components; c++) {
        p[LEAT_FAST_HEADER + LEAT_FAST_COMPONENT * c] = frame.component[c].h;
        p[LEAT_FAST_HEADER + LEAT_FAST_COMPONENT * c + 1] = frame.component[c].v;
    }
    memcpy(at, data + 8, length - 8); /* zeros behind */
    size_t row = 0;
    for (uint32_t i = 0; i < frame.mcus_h; i++)
        for (unsigned c = 0; c < frame.n_components; c++)
            for (unsigned v = 0; v < frame.component[c].v; v++, row++) {
                const uint32_t across = frame.component[c].blocks_w;
                for (uint32_t x = 0; x < across; x++)
                    at[x] = (uint8_t)((at[x] & 0xf0) | (at[x] & 15) % 9);
                const size_t bytes = naive_row(at, across, unpacked);
                at += bytes ? bytes : across;
                leat_put_u32(p + rows - 4 * n_rows + 4 * row, (uint32_t)((size_t)(at - p) - rows));
            }
    free(unpacked);
    leat_put_u32(p + 24, (uint32_t)((size_t)(at - p) - rows));
    *payload_length = (size_t)(at - p) + LEAT_FAST_TAIL;
    memset(at, 0x5a, LEAT_FAST_TAIL);
    uint8_t *payload = alone(*payload_length);
    memcpy(payload, p, *payload_length);
    free(p);
    return payload;
}

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
    size_t payload_length = length - 2;
    uint8_t *payload;
    if (data[0] & 1) {
        payload = make_payload(data + 2, length - 2, &payload_length);
    } else {
        payload = alone(payload_length);
        memcpy(payload, data + 2, payload_length);
    }
    struct leat_jpeg_fast_parts parts;
    uint64_t blocks = 0;
    if (payload && !leat_jpeg_fast_parse(payload, payload_length, &parts, NULL))
        for (unsigned c = 0; c < parts.frame.n_components; c++)
            blocks += (uint64_t)parts.frame.component[c].blocks_w * parts.frame.component[c].blocks_h;
    else
        FUZZ_ASSERT(!(payload && data[0] & 1));
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
