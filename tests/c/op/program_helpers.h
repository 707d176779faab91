/* What the tests of programs share: compiling text, making rows, photos made here, and simple reference code. */
#ifndef LEAT_TESTS_OP_PROGRAM_HELPERS_H
#define LEAT_TESTS_OP_PROGRAM_HELPERS_H

#include "../test.h"

#include <jpeglib.h>
#include <math.h>

#include "base/hash.h"
#include "base/random.h"
#include "op/operator.h"
#include "op/program.h"

#define LEAT_OPERATOR(name) extern const struct leat_op_class leat_op_##name;
#include "op/operators.def"
#undef LEAT_OPERATOR

static inline struct leat_field field_of(const char *name, enum leat_kind kind, enum leat_dtype dtype,
                                         enum leat_layout layout, unsigned ndim, const int64_t *shape)
{
    struct leat_field f = {.name = name, .kind = kind, .dtype = dtype, .layout = layout, .ndim = ndim};
    for (unsigned i = 0; i < ndim; i++)
        f.shape[i] = shape[i];
    return f;
}

/* A program of one output 'x' of the only field; chain is JSON operators separated by commas: {"type": ...}, {...}. */
static inline int compile_chain(const struct leat_field *field, const char *chain, struct leat_program **out,
                                struct leat_error *error)
{
    static char text[16384];
    char operators[12000] = "", ids[400] = "";
    const char *p = chain;
    for (unsigned i = 0; *p; i++) {
        int depth = 0;
        const char *begin = p;
        do {
            depth += *p == '{';
            depth -= *p == '}';
            p++;
        } while (depth);
        snprintf(operators + strlen(operators), sizeof operators - strlen(operators), "%s\"%u\": %.*s", i ? ", " : "",
                 i, (int)(p - begin), begin);
        snprintf(ids + strlen(ids), sizeof ids - strlen(ids), "%s\"%u\"", i ? ", " : "", i);
        while (*p == ',' || *p == ' ')
            p++;
    }
    snprintf(text, sizeof text, "{\"operators\": {%s}, \"outputs\": {\"x\": {\"field\": \"%s\", \"chain\": [%s]}}}",
             operators, field->name, ids);
    return leat_program_compile(field, 1, text, NULL, 0, false, out, error);
}

static inline struct leat_program *must_compile(const struct leat_field *field, const char *chain)
{
    struct leat_error error;
    struct leat_program *program;
    assert_ok(compile_chain(field, chain, &program, &error));
    return program;
}

/* Applies a program to one value; fails the test if it fails. */
static inline void must_apply(const struct leat_program *program, const void *data, size_t length, uint64_t key,
                              void *dst)
{
    struct leat_scratch *scratch = leat_scratch_new(program);
    assert_non_null(scratch);
    struct leat_row row = {.data = data, .length = length, .key = key};
    struct leat_error error = {0};
    if (leat_program_apply(program, 0, scratch, &row, 1, dst, &error) != 1)
        fail_msg("apply: %s", error.message);
    leat_scratch_free(scratch);
}

/* Smooth areas, edges and noise. */
static inline void paint(uint8_t *pixels, uint32_t w, uint32_t h, uint32_t channels, uint64_t seed)
{
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t x = 0; x < w; x++)
            for (uint32_t c = 0; c < channels; c++) {
                double v =
                    128 + 60 * sin(0.05 * x * (c + 1)) + 50 * cos(0.07 * y + c) + ((x / 16 + y / 16) & 1 ? 30 : -30);
                v += 20 * leat_draw_unit(seed, ((uint64_t)y * w + x) * channels + c);
                *pixels++ = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
            }
}

/* A JPEG of 3 (or 1) channels; the caller frees *jpeg. */
static inline void encode_jpeg(const uint8_t *pixels, uint32_t w, uint32_t h, uint32_t channels, unsigned char **jpeg,
                               unsigned long *length)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    *jpeg = NULL;
    *length = 0;
    jpeg_mem_dest(&c, jpeg, length);
    c.image_width = w;
    c.image_height = h;
    c.input_components = (int)channels;
    c.in_color_space = channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 92, TRUE);
    jpeg_start_compress(&c, TRUE);
    for (uint32_t y = 0; y < h; y++) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + (size_t)y * w * channels);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
}

/* The whole photo as packed RGB (or gray). */
static inline void decode_jpeg_plain(const unsigned char *jpeg, unsigned long length, bool gray, uint8_t *pixels)
{
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    d.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, jpeg, length);
    jpeg_read_header(&d, TRUE);
    d.out_color_space = gray ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&d);
    while (d.output_scanline < d.output_height) {
        JSAMPROW row = pixels + (size_t)d.output_scanline * d.output_width * (gray ? 1 : 3);
        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_finish_decompress(&d);
    jpeg_destroy_decompress(&d);
}

/* Pillow's resize with antialias, as plainly as it can be written: packed pixels, across, then down. */
static inline void reference_axis(const uint8_t *src, size_t step, size_t in, uint8_t *dst, size_t dst_step, size_t out)
{
    double scale = (double)in / (double)out, support = scale < 1 ? 1 : scale;
    for (size_t i = 0; i < out; i++) {
        double center = ((double)i + 0.5) * scale, weight = 0;
        long first = (long)(center - support + 0.5), last = (long)(center + support + 0.5), sum = 1 << 21;
        first = first < 0 ? 0 : first;
        last = last < (long)in ? last : (long)in;
        for (long k = first; k < last; k++)
            weight += fmax(0.0, 1 - fabs(((double)k - center + 0.5) * (1.0 / support)));
        for (long k = first; k < last; k++) {
            double w = fmax(0.0, 1 - fabs(((double)k - center + 0.5) * (1.0 / support))) / weight;
            sum += (long)(0.5 + w * (1 << 22)) * src[(size_t)k * step];
        }
        sum >>= 22;
        dst[i * dst_step] = (uint8_t)(sum > 255 ? 255 : sum);
    }
}
static inline void reference_resize(const uint8_t *src, size_t w, size_t h, size_t channels, uint8_t *dst, size_t out_w,
                                    size_t out_h)
{
    uint8_t *between = malloc(out_w * h * channels + 1);
    for (size_t y = 0; y < h; y++)
        for (size_t c = 0; c < channels; c++)
            reference_axis(src + y * w * channels + c, channels, w, between + y * out_w * channels + c, channels,
                           out_w);
    for (size_t x = 0; x < out_w * channels; x++)
        reference_axis(between + x, out_w * channels, h, dst + x, out_w * channels, out_h);
    free(between);
}

/* What an operator draws for an image of w x h, for reference code. */
static inline int draw_of(const struct leat_op_class *class, const char *json, const char *instance, uint64_t row_key,
                          uint32_t w, uint32_t h, struct leat_move *move)
{
    struct leat_error error = {0};
    json_t *object = json_loads(json, 0, NULL);
    assert_non_null(object);
    uint64_t args[256] = {0};
    assert_true(class->args_bytes <= sizeof args);
    struct leat_args reader = {.object = object, .operator_type = class->type, .error = &error};
    class->parse(args, &reader);
    assert_ok(leat_args_end(&reader));
    *move = (struct leat_move){.w = w, .h = h, .out_w = w, .out_h = h};
    int rc = class->move(args, leat_key_mix(row_key, leat_hash64(instance, strlen(instance))), w, h, move, &error);
    json_decref(object);
    return rc;
}

#endif
