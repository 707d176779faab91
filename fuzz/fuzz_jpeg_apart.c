/*
 * JPEGs taken apart and put together. An even first byte: a JPEG follows. An odd one: it becomes a frame, coefficients
 * and a skeleton whose header fits the frame, so that bytes of any sort reach the encoders of scans. These must hold:
 *
 *     comparing with the original says what putting together does
 *     all instruction sets code the same
 *     what is put together has the length that was asked for, or the skeleton is called damaged
 */
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "codec/jpeg/coefficients.h"
#include "codec/jpeg/encode.h"

#define FUZZ_ASSERT(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            __builtin_trap();                                                                                          \
    } while (0)
#define MAX_BYTES (1u << 20) /* of coefficients, and of the restored file */

/* The Huffman-coded scans of a skeleton, one after the other. */
static int code(enum leat_isa isa, const uint8_t *skeleton, size_t length,
                const struct leat_jpeg_coefficients *coefficients, struct leat_jpeg_sink *sink)
{
    struct leat_jpeg_encoder *encoder = leat_jpeg_encoder_new(isa);
    struct leat_jpeg_walk walk;
    FUZZ_ASSERT(encoder);
    leat_jpeg_walk_begin(&walk, skeleton + 1, length - 1);
    int rc = LEAT_OK;
    while (!rc && leat_jpeg_walk_next(&walk, &coefficients->frame) == LEAT_JPEG_MET_SCAN && !walk.arithmetic)
        rc = leat_jpeg_encode_scan(encoder, &walk, coefficients, !(skeleton[0] & 1), sink);
    leat_jpeg_encoder_free(encoder);
    return rc;
}

static void check_encoders(const uint8_t *skeleton, size_t length, const struct leat_jpeg_coefficients *coefficients)
{
    struct leat_jpeg_sink plain = {.limit = MAX_BYTES};
    const int rc = code(LEAT_ISA_PORTABLE, skeleton, length, coefficients, &plain);
    for (enum leat_isa isa = LEAT_ISA_AVX2; isa <= leat_cpu_isa(); isa++) {
        struct leat_jpeg_sink other = {.limit = MAX_BYTES};
        FUZZ_ASSERT(code(isa, skeleton, length, coefficients, &other) == rc);
        FUZZ_ASSERT(other.length == plain.length && (!plain.length || !memcmp(other.out, plain.out, plain.length)));
        leat_free(other.out);
    }
    leat_free(plain.out);
}

static void check_file(struct leat_jpeg_apart *apart, const uint8_t *data, size_t length)
{
    const struct leat_jpeg_coefficients *coefficients;
    const uint8_t *skeleton;
    uint8_t *out = NULL;
    size_t n, out_length = 0;
    if (leat_jpeg_take_apart(apart, data, length, &coefficients, &skeleton, &n, NULL) ||
        coefficients->room > 8 * MAX_BYTES)
        return;
    const bool equal = !leat_jpeg_together_equals(apart, skeleton, n, coefficients, data, length, NULL);
    const int rc = leat_jpeg_together(skeleton, n, coefficients, length, &out, &out_length, NULL);
    FUZZ_ASSERT(rc || out_length == length);
    FUZZ_ASSERT(equal == (!rc && !memcmp(out, data, length)));
    if (!rc)
        leat_free(out);
    check_encoders(skeleton, n, coefficients);
}

/* A byte of flags, the begin of a file, its frame, and whatever `data` holds. */
static uint8_t *make_skeleton(const struct leat_jpeg_frame *frame, uint8_t flags, uint8_t kind, const uint8_t *data,
                              size_t length, size_t *n)
{
    static const uint8_t frames[] = {0xc0, 0xc1, 0xc2, 0xc9, 0xca};
    const size_t header = 3 + 10 + 3 * (size_t)frame->n_components;
    uint8_t *p = malloc(header + length);
    FUZZ_ASSERT(p);
    const uint8_t begin[] = {flags & 1,
                             0xff,
                             0xd8,
                             0xff,
                             frames[kind % 5],
                             0,
                             (uint8_t)(8 + 3 * frame->n_components),
                             8,
                             (uint8_t)(frame->height >> 8),
                             (uint8_t)frame->height,
                             (uint8_t)(frame->width >> 8),
                             (uint8_t)frame->width,
                             frame->n_components};
    memcpy(p, begin, sizeof begin);
    for (unsigned c = 0; c < frame->n_components; c++) {
        uint8_t *q = p + sizeof begin + 3 * c;
        q[0] = (uint8_t)(1 + c);
        q[1] = (uint8_t)(frame->component[c].h << 4 | frame->component[c].v);
        q[2] = 0;
    }
    memcpy(p + header, data, length);
    *n = header + length;
    return p;
}

static void check_made(const uint8_t *data, size_t length)
{
    static const uint8_t components[] = {1, 3, 3, 4, 4};
    if (length < 16)
        return;
    struct leat_jpeg_frame frame = {.width = 1 + data[0], .height = 1 + data[1] % 100u};
    frame.colour = (enum leat_jpeg_colour)(data[2] % 5);
    frame.n_components = components[frame.colour];
    for (unsigned c = 0; c < frame.n_components; c++) {
        frame.component[c].h = 1 + (data[3 + c] & 3);
        frame.component[c].v = 1 + (data[3 + c] >> 2 & 3);
    }
    struct leat_jpeg_coefficients coefficients = {0};
    if (!leat_jpeg_frame_complete(&frame) || leat_jpeg_coefficients_reserve(&coefficients, &frame, NULL))
        return;
    for (unsigned c = 0; c < frame.n_components; c++) {
        const size_t count = (size_t)frame.component[c].blocks_w * frame.component[c].blocks_h * 64;
        for (size_t i = 0; i < count; i++) {
            const uint64_t draw = leat_draw_below(data[7] * 4u + c, i, UINT64_C(1) << 32);
            const bool zero = (draw & 255) >= data[8];
            const int value = (int)(draw >> 16 & ((1u << data[9] % 17u) - 1));
            coefficients.of[c][i] = (int16_t)(zero ? 0 : draw >> 8 & 1 ? value : -value);
        }
    }
    size_t n, out_length = 0;
    uint8_t *skeleton = make_skeleton(&frame, data[10], data[11], data + 16, length - 16, &n), *out = NULL;
    const uint64_t original = (uint64_t)data[12] << 8 | data[13];
    const int rc = leat_jpeg_together(skeleton, n, &coefficients, original, &out, &out_length, NULL);
    FUZZ_ASSERT(rc == LEAT_OK || rc == LEAT_E_CORRUPT);
    if (!rc) {
        FUZZ_ASSERT(out_length == original);
        leat_free(out);
    }
    check_encoders(skeleton, n, &coefficients);
    free(skeleton);
    leat_jpeg_coefficients_destroy(&coefficients);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    static struct leat_jpeg_apart *apart;
    if (!apart)
        apart = leat_jpeg_apart_new();
    FUZZ_ASSERT(apart);
    if (!length)
        return 0;
    if (data[0] & 1)
        check_made(data + 1, length - 1);
    else
        check_file(apart, data + 1, length - 1);
    return 0;
}
