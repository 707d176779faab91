/* The table of operators, and what they share. Adding an operator is adding a file, and its line to operators.def. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "op/operator.h"
#include "op/program.h"

#define LEAT_OPERATOR(name) extern const struct leat_op_class leat_op_##name;
#include "op/operators.def"
#undef LEAT_OPERATOR
#define LEAT_OPERATOR(name) &leat_op_##name,
const struct leat_op_class *const leat_operators[] = {
#include "op/operators.def"
    NULL};

/* The value in words: "an encoded photo", "a uint8 image of 3 channels, 32 x 32". */
static void type_words(const struct leat_type *type, char *text, size_t room)
{
    const struct leat_codec *codec = leat_codec_of(type->kind);
    const char *stored = codec                           ? codec->name
                         : type->kind == LEAT_KIND_BYTES ? "bytes"
                         : type->kind == LEAT_KIND_STR   ? "text"
                         : type->kind == LEAT_KIND_JSON  ? "JSON text"
                                                         : NULL;
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
    type_words(got, words, sizeof words);
    const char *hint = leat_codec_of(got->kind) || got->kind == LEAT_KIND_BYTES ? ": put Decode() before it" : "";
    int rc = leat_fail(error, LEAT_E_TYPE, "%s in output '%s' takes %s, but gets %s%s.", place->type, place->output,
                       wanted, words, hint);
    leat_error_at_sample(error, LEAT_NO_SAMPLE, place->output);
    return rc;
}

/* Whether a value is what operators of a class take. */
static int check_input(const struct leat_op_class *class, const struct leat_place *place, const struct leat_type *type,
                       struct leat_error *error)
{
    if (class->joint || class->batch)
        return leat_fail(error, LEAT_E_TYPE,
                         "%s in output '%s' works on several fields at once: give its chain to a tuple of them, such "
                         "as {(\"image\", \"boxes\", \"label\"): [...]}.",
                         place->type, place->output);
    if (class->input && !leat_type_is_image(type))
        return leat_op_misfit(
            place, type, "an image (a decoded photo, or a field of three axes with layout \"HWC\" or \"CHW\")", error);
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

enum leat_filter leat_args_filter(struct leat_args *args)
{
    static const char *const words[] = {"bilinear", "nearest", "nearest-exact", NULL};
    unsigned word;
    bool antialias;
    leat_args_word(args, "interpolation", words, 0, &word);
    leat_args_bool(args, "antialias", true, &antialias);
    return word ? LEAT_FILTER_NEAREST : antialias ? LEAT_FILTER_ANTIALIAS : LEAT_FILTER_BILINEAR;
}
