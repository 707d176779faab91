/* The table of operators, and their common part. Adding an operator is adding a file, and its line to operators.def. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/role.h"
#include "kernels/values.h"
#include "op/operator.h"
#include "op/program.h"

#define LEAT_OPERATOR(name) extern const struct leat_op_class leat_op_##name;
#include "op/operators.def"
#undef LEAT_OPERATOR
#define LEAT_OPERATOR(name) &leat_op_##name,
const struct leat_op_class *const leat_operators[] = {
#include "op/operators.def"
    NULL};

void leat_type_words(const struct leat_type *type, char *text, size_t room)
{
    const struct leat_codec *codec = leat_codec_of(type->kind);
    const char *stored = codec                           ? codec->name
                         : type->kind == LEAT_KIND_BYTES ? "bytes"
                         : type->kind == LEAT_KIND_STR   ? "text"
                         : type->kind == LEAT_KIND_JSON  ? "JSON text"
                                                         : NULL;
    if (type->columns) {
        snprintf(text, room, "a sparse row of %s with %lld columns", leat_dtype_name(type->item),
                 (long long)type->columns);
        return;
    }
    if (stored) {
        snprintf(text, room, "%s%s", codec ? "an encoded " : "", stored);
        return;
    }
    if (leat_type_is_image(type)) {
        char h[24] = "any", w[24] = "any";
        if (leat_type_height(type) >= 0)
            snprintf(h, sizeof h, "%lld", (long long)leat_type_height(type));
        if (leat_type_width(type) >= 0)
            snprintf(w, sizeof w, "%lld", (long long)leat_type_width(type));
        snprintf(text, room, "a %s image of %lld channel%s, height %s, width %s", leat_dtype_name(type->dtype),
                 (long long)leat_type_channels(type), leat_type_channels(type) == 1 ? "" : "s", h, w);
        return;
    }
    int used = snprintf(text, room, type->ndim ? "a %s array [" : "a %s number", leat_dtype_name(type->dtype));
    for (unsigned i = 0; i < type->ndim && used > 0 && (size_t)used < room; i++) {
        if (type->shape[i] < 0)
            used += snprintf(text + used, room - (size_t)used, "%sany", i ? ", " : "");
        else
            used += snprintf(text + used, room - (size_t)used, "%s%lld", i ? ", " : "", (long long)type->shape[i]);
    }
    if (type->ndim && used > 0 && (size_t)used < room)
        snprintf(text + used, room - (size_t)used, "]");
}

int leat_op_misfit(const struct leat_place *place, const struct leat_type *got, const char *wanted,
                   struct leat_error *error)
{
    char words[256];
    leat_type_words(got, words, sizeof words);
    const bool encoded = leat_codec_of(got->kind) || (got->kind == LEAT_KIND_BYTES && strncmp(wanted, "a list", 6));
    const char *hint = encoded ? ": put Decode() before it" : "";
    int rc = leat_fail(error, LEAT_E_TYPE, "%s in output '%s' takes %s, but gets %s%s.", place->type, place->output,
                       wanted, words, hint);
    leat_error_at_sample(error, LEAT_NO_SAMPLE, place->output);
    return rc;
}

/* Whether a value fits the operators of a class. */
static int check_input(const struct leat_op_class *class, const struct leat_place *place, const struct leat_type *type,
                       struct leat_error *error)
{
    if (class->joint || class->batch)
        return leat_fail(error, LEAT_E_TYPE,
                         "%s in output '%s' works on several fields at once: give its chain to a tuple of them, such "
                         "as {(\"image\", \"boxes\", \"label\"): [...]}.",
                         place->type, place->output);
    if (type->columns && !class->sparse)
        return leat_op_misfit(place, type, "a value that is no sparse row (put Densify before it)", error);
    if (class->input && !leat_type_is_image(type))
        return leat_op_misfit(
            place, type, "an image (a decoded photo, or a field of three axes with layout \"HWC\" or \"CHW\")", error);
    if (class->input == LEAT_INPUT_PIXELS && type->dtype == LEAT_U16)
        return leat_op_misfit(place, type,
                              "a uint8 image (put ToDtype(\"uint8\", scale=True) before it, or leave out "
                              "Decode(dtype=\"uint16\"))",
                              error);
    if (class->input == LEAT_INPUT_PIXELS && type->dtype != LEAT_U8)
        return leat_op_misfit(place, type, "a uint8 image (put it before Normalize and ToDtype)", error);
    if (class->input == LEAT_INPUT_PIXELS && leat_type_channels(type) > 4 && type->layout == LEAT_LAYOUT_HWC)
        return leat_op_misfit(place, type, "an image of 1 to 4 channels", error);
    return LEAT_OK;
}

int leat_op_infer(const struct leat_op_class *class, const void *args, const struct leat_place *place,
                  struct leat_type *type, struct leat_effect *effect, struct leat_error *error)
{
    int rc = check_input(class, place, type, error);
    return rc || !class->infer ? rc : class->infer(args, place, type, effect, error);
}

void leat_type_make_sparse(struct leat_type *type, enum leat_dtype item, int64_t columns)
{
    *type = (struct leat_type){.kind = LEAT_KIND_ARRAY,
                               .dtype = LEAT_U8,
                               .ndim = 2,
                               .shape = {-1, (int64_t)leat_sparse_step(item)},
                               .item = item,
                               .columns = columns};
}

uint64_t leat_type_step(const struct leat_type *type)
{
    uint64_t bytes = leat_dtype_size(type->dtype);
    for (unsigned i = 1; i < type->ndim; i++)
        bytes *= (uint64_t)type->shape[i];
    return bytes;
}

uint64_t leat_type_bytes(const struct leat_type *type)
{
    uint64_t bytes = leat_dtype_size(type->dtype);
    for (unsigned i = 0; i < type->ndim; i++)
        if (type->shape[i] < 0 || !leat_mul_u64(bytes, (uint64_t)type->shape[i], &bytes))
            return UINT64_MAX;
    return bytes;
}

void leat_args_size(struct leat_args *args, int64_t *height, int64_t *width)
{
    int64_t size[2] = {1, 1};
    unsigned n = leat_args_ints(args, "size", 1, 2, 1, LEAT_MAX_SIDE, size);
    if (!n)
        leat_args_wrong(args, "size", "given");
    *height = size[0];
    *width = n == 2 ? size[1] : size[0];
}

unsigned leat_args_padding(struct leat_args *args, int64_t least, int64_t sides[4], enum leat_padding *mode)
{
    static const char *const modes[] = {"constant", "edge", "reflect", "symmetric", NULL}; /* as enum leat_padding */
    int64_t p[4] = {0, 0, 0, 0};
    unsigned n = leat_args_ints(args, "padding", 1, 4, least, LEAT_MAX_SIDE, p), word;
    if (n == 3)
        leat_args_wrong(args, "padding", "one, two or four numbers");
    sides[0] = p[0];
    sides[1] = n >= 2 ? p[1] : p[0];
    sides[2] = n == 4 ? p[2] : sides[0];
    sides[3] = n == 4 ? p[3] : sides[1];
    leat_args_word(args, "padding_mode", modes, LEAT_PAD_CONSTANT, &word);
    *mode = (enum leat_padding)word;
    return n;
}

void leat_args_fill(struct leat_args *args, double image, struct leat_fill *fill)
{
    const json_t *value = leat_args_get(args, "fill");
    if (json_is_object(value)) {
        struct leat_args inside = {
            .object = value, .operator_type = args->operator_type, .status = args->status, .error = args->error};
        fill->n = leat_args_doubles(&inside, "image", 1, LEAT_MAX_CHANNELS, fill->values);
        leat_args_doubles(&inside, "mask", 1, 1, &fill->ids);
        args->status = leat_args_end(&inside);
    } else {
        fill->n = leat_args_doubles(args, "fill", 1, LEAT_MAX_CHANNELS, fill->values);
        fill->ids = fill->n == 1 ? fill->values[0] : 0;
    }
    if (!fill->n && image != 0) {
        fill->n = 1;
        fill->values[0] = image;
    }
}

double leat_color_of(double value, enum leat_dtype dtype)
{
    return leat_dtype_is_float(dtype) || fabs(value) < 1 ? value : trunc(value);
}

int leat_check_held(const struct leat_place *place, const char *what, enum leat_dtype dtype, double value,
                    struct leat_error *error)
{
    uint64_t one = 0, most = leat_dtype_value_bits(dtype) ? UINT64_MAX >> (64 - leat_dtype_value_bits(dtype)) : 1;
    double held;
    leat_values_convert(LEAT_F64, dtype, &value, &one, 1);
    leat_values_convert(dtype, LEAT_F64, &one, &held, 1);
    const bool floats = leat_dtype_is_float(dtype);
    if (floats ? isfinite(held) : held == value)
        return LEAT_OK;
    char range[80] = "finite numbers within its range";
    const bool negative = dtype == LEAT_I8 || dtype == LEAT_I16 || dtype == LEAT_I32 || dtype == LEAT_I64;
    if (!floats)
        snprintf(range, sizeof range, "whole numbers from %s%llu to %llu", negative ? "-" : "",
                 (unsigned long long)(negative ? most + 1 : 0), (unsigned long long)most);
    int rc = leat_fail(error, LEAT_E_INVALID, "%s in output '%s' fills %s with %.15g, and %s holds %s.", place->type,
                       place->output, what, value, leat_dtype_name(dtype), range);
    leat_error_at_sample(error, LEAT_NO_SAMPLE, place->output);
    return rc;
}

int leat_fill_check(const struct leat_fill *fill, const struct leat_place *place, const struct leat_type *type,
                    struct leat_error *error)
{
    if (!type->ids && fill->n > 1 && fill->n != leat_type_channels(type))
        return leat_op_misfit(place, type, "one fill, or one per channel", error);
    int rc = LEAT_OK;
    for (unsigned c = 0; !rc && c < (type->ids ? 1 : fill->n); c++)
        rc = leat_check_held(place, type->ids ? "masks" : "images", type->dtype,
                             type->ids ? fill->ids : leat_color_of(leat_fill_of(fill, c, false), type->dtype), error);
    return rc;
}

int leat_effect_pads(const struct leat_fill *fill, const struct leat_place *place, const struct leat_type *type,
                     struct leat_effect *effect, struct leat_error *error)
{
    effect->pads = true;
    effect->padding = LEAT_PAD_CONSTANT;
    for (int64_t c = 0; c < leat_type_channels(type) && c < LEAT_MAX_CHANNELS; c++)
        effect->fill[c] = leat_fill_of(fill, c, type->ids);
    return leat_fill_check(fill, place, type, error);
}

void leat_fill_bytes(const struct leat_fill *fill, const struct leat_image *image, uint8_t bytes[LEAT_MAX_CHANNELS])
{
    for (uint32_t c = 0; c < LEAT_MAX_CHANNELS; c++) {
        double value = c < image->channels ? leat_fill_of(fill, c, image->ids) : 0;
        leat_values_convert(LEAT_F64, LEAT_U8, &value, &bytes[c], 1);
    }
}

enum leat_filter leat_args_warp(struct leat_args *args, enum leat_filter fallback)
{
    static const char *const words[] = {"nearest", "bilinear", "bicubic", NULL};
    static const enum leat_filter filters[] = {LEAT_FILTER_NEAREST, LEAT_FILTER_BILINEAR, LEAT_FILTER_BICUBIC};
    unsigned word = 0;
    while (filters[word] != fallback)
        word++;
    leat_args_word(args, "interpolation", words, word, &word);
    return filters[word];
}

enum leat_filter leat_args_filter(struct leat_args *args)
{
    static const char *const words[] = {"bilinear", "nearest", "nearest-exact", "bicubic",
                                        "lanczos",  "hamming", "box",           NULL};
    static const enum leat_filter filters[] = {LEAT_FILTER_ANTIALIAS, LEAT_FILTER_NEAREST, LEAT_FILTER_NEAREST,
                                               LEAT_FILTER_BICUBIC,   LEAT_FILTER_LANCZOS, LEAT_FILTER_HAMMING,
                                               LEAT_FILTER_BOX};
    unsigned word;
    bool antialias;
    leat_args_word(args, "interpolation", words, 0, &word);
    leat_args_bool(args, "antialias", true, &antialias);
    enum leat_filter filter = filters[word];
    return antialias                         ? filter
           : filter == LEAT_FILTER_ANTIALIAS ? LEAT_FILTER_BILINEAR
           : filter == LEAT_FILTER_BICUBIC   ? LEAT_FILTER_BICUBIC_NEAR
                                             : filter;
}

int leat_move_resize(struct leat_move *move, const char *type, double width, double height, enum leat_filter filter,
                     struct leat_error *error)
{
    if (width >= LEAT_MAX_SIDE + 1 || height >= LEAT_MAX_SIDE + 1)
        return leat_fail(error, LEAT_E_DECODE,
                         "%s cannot bring a photo of %lld x %lld to %.0f x %.0f: sides are at most 65535.", type,
                         (long long)move->w, (long long)move->h, width, height);
    move->out_w = width < 1 ? 1 : (uint32_t)width;
    move->out_h = height < 1 ? 1 : (uint32_t)height;
    move->filter = filter;
    return LEAT_OK;
}

int leat_infer_resize(const void *args, const struct leat_place *place, struct leat_type *type,
                      struct leat_effect *effect, struct leat_error *error)
{
    leat_type_resize(type, -1, -1);
    effect->resizes = true;
    return LEAT_OK;
}

int leat_infer_gray_or_rgb(const void *args, const struct leat_place *place, struct leat_type *type,
                           struct leat_effect *effect, struct leat_error *error)
{
    const int64_t channels = leat_type_channels(type);
    return channels == 1 || channels == 3 ? LEAT_OK : leat_op_misfit(place, type, "an image of 1 or 3 channels", error);
}
