/* The table of operators, and what their type checks share. Adding an operator is adding a file and a line here. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "op/operator.h"

const struct leat_op_class *const leat_operators[] = {&leat_op_decode,
                                                      &leat_op_resize,
                                                      &leat_op_center_crop,
                                                      &leat_op_random_crop,
                                                      &leat_op_random_resized_crop,
                                                      &leat_op_random_horizontal_flip,
                                                      &leat_op_normalize,
                                                      &leat_op_to_dtype,
                                                      &leat_op_to_layout,
                                                      &leat_op_native,
                                                      NULL};

void leat_type_words(const struct leat_type *type, char *text, size_t room)
{
    switch (type->kind) {
    case LEAT_KIND_BYTES:
        snprintf(text, room, "bytes");
        return;
    case LEAT_KIND_STR:
        snprintf(text, room, "text");
        return;
    case LEAT_KIND_JSON:
        snprintf(text, room, "JSON text");
        return;
    case LEAT_KIND_IMAGE:
        snprintf(text, room, "an encoded photo");
        return;
    case LEAT_KIND_ARRAY:
        break;
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

int leat_op_misfit(const struct leat_place *place, const struct leat_type *got, const char *wanted, struct leat_error *error)
{
    char words[256];
    leat_type_words(got, words, sizeof words);
    const char *hint = got->kind == LEAT_KIND_IMAGE || got->kind == LEAT_KIND_BYTES ? ": put Decode() before it" : "";
    if (*hint && !strcmp(place->type, "Decode"))
        hint = "";
    int rc = leat_fail(error, LEAT_E_TYPE, "%s in output '%s' takes %s, but gets %s%s.", place->type, place->output, wanted, words, hint);
    leat_error_at_sample(error, LEAT_NO_SAMPLE, place->output);
    return rc;
}

int leat_op_needs_image(const struct leat_place *place, const struct leat_type *type, struct leat_error *error)
{
    if (leat_type_is_image(type))
        return LEAT_OK;
    return leat_op_misfit(place, type, "an image (a decoded photo, or a field of three axes with layout \"HWC\" or \"CHW\")", error);
}

int leat_op_needs_pixels(const struct leat_place *place, const struct leat_type *type, struct leat_error *error)
{
    int rc = leat_op_needs_image(place, type, error);
    if (rc)
        return rc;
    if (type->dtype != LEAT_U8)
        return leat_op_misfit(place, type, "a uint8 image (put it before Normalize and ToDtype)", error);
    if (leat_type_channels(type) > 4 && type->layout == LEAT_LAYOUT_HWC)
        return leat_op_misfit(place, type, "an image of 1 to 4 channels", error);
    return LEAT_OK;
}
