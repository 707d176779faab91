/* Decode: an encoded photo to an image of open size, another encoded value to an array whose first axis varies. The
 * codec of its kind decodes it (codec/codec.h); a stage pulls the rows, slices.c the array. */
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "codec/photo/icc.h"
#include "op/operator.h"

struct decode_args {
    bool gray, exif, dct_scaling, lenient; /* the only ones once: see hash */
    bool wide;
    uint8_t alpha, background[3];
    uint32_t frame;
    bool icc;
};

static void parse(void *into, struct leat_args *json)
{
    static const char *const modes[] = {"RGB", "GRAY", "RGBA", NULL};
    static const char *const alphas[] = {"drop", "blend", NULL};
    static const char *const dtypes[] = {"uint8", "uint16", NULL};
    static const char *const iccs[] = {"ignore", "srgb", NULL};
    struct decode_args *args = into;
    unsigned mode, alpha, dtype, icc;
    leat_args_word(json, "mode", modes, 0, &mode);
    args->gray = mode == 1;
    leat_args_bool(json, "exif", false, &args->exif);
    leat_args_bool(json, "dct_scaling", false, &args->dct_scaling);
    bool strict = true;
    leat_args_bool(json, "strict", true, &strict);
    args->lenient = !strict;

    leat_args_word(json, "dtype", dtypes, 0, &dtype);
    args->wide = dtype == 1;
    leat_args_word(json, "alpha", alphas, 0, &alpha);
    int64_t background[3] = {255, 255, 255}, frame;
    if (leat_args_ints(json, "background", 3, 3, 0, 255, background) && !alpha)
        leat_args_wrong(json, "background", "given with alpha \"blend\" alone");
    if (alpha && mode == 2)
        leat_args_wrong(json, "alpha", "\"drop\" in mode RGBA, which keeps it");
    args->alpha = mode == 2 ? LEAT_ALPHA_KEEP : alpha ? LEAT_ALPHA_BLEND : LEAT_ALPHA_DROP;
    for (int c = 0; c < 3 && alpha; c++)
        args->background[c] = (uint8_t)background[c];
    leat_args_int(json, "frame", 0, INT32_MAX, 0, &frame);
    args->frame = (uint32_t)frame;
    leat_args_word(json, "icc", iccs, 0, &icc);
    args->icc = icc == 1;
}

/* With nothing but the first arguments it hashes as before there were others, and a strict one as before there were
 * lenient ones, so that states of then go on. The bytes are spelled out: what a compiler leaves between the members of
 * a struct is its own affair. */
static uint64_t hash(const void *from)
{
    const struct decode_args *args = from;
    uint8_t bytes[20] = {args->gray, args->exif, args->dct_scaling, args->lenient, args->wide, args->alpha};
    memcpy(bytes + 6, args->background, sizeof args->background);
    leat_put_u32(bytes + 12, args->frame);
    bytes[16] = args->icc;
    static const uint8_t none[sizeof bytes];
    if (memcmp(bytes + 4, none, sizeof bytes - 4) != 0)
        return leat_hash64(bytes, args->icc ? 20 : 16);
    return leat_hash64(bytes, args->lenient ? 4 : 3);
}

/* The array that another kind than images is decoded to. */
static int infer_array(const struct decode_args *args, const struct leat_codec *codec, const struct leat_place *place,
                       struct leat_type *type, struct leat_error *error)
{
    const struct decode_args plain = {.lenient = args->lenient};
    if (hash(args) != hash(&plain))
        return leat_op_misfit(place, type, "an encoded photo where it has other arguments than strict", error);
    *type = (struct leat_type){.kind = LEAT_KIND_ARRAY,
                               .dtype = codec->dtype,
                               .codec = codec,
                               .lenient = args->lenient,
                               .ndim = codec->elements > 1 ? 2 : 1,
                               .shape = {-1, codec->elements > 1 ? codec->elements : 0}};
    return LEAT_OK;
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct decode_args *args = from;
    const struct leat_codec *codec = leat_codec_of(type->kind == LEAT_KIND_BYTES ? LEAT_KIND_IMAGE : type->kind);
    if (!codec)
        return leat_op_misfit(place, type, "an encoded photo, as the first operator of its chain", error);
    if (!codec->image)
        return infer_array(args, codec, place, type, error);
    if (args->icc && leat_icc_load(error))
        return leat_fail(error, LEAT_E_UNSUPPORTED,
                         "%s in output '%s' with icc \"srgb\" needs Little CMS (liblcms2.so.2), which is not on this "
                         "machine or was not there when leat was built: apt install liblcms2-2, and start again.",
                         place->type, place->output);
    memset(type, 0, sizeof *type);
    type->kind = LEAT_KIND_ARRAY;
    type->dtype = args->wide ? LEAT_U16 : LEAT_U8;
    type->layout = LEAT_LAYOUT_HWC;
    type->range = LEAT_RANGE_MAX;
    type->codec = codec;
    type->gray = args->gray;
    type->exif = args->exif;
    type->dct_scaling = args->dct_scaling;
    type->lenient = args->lenient;
    type->alpha = args->alpha;
    type->icc = args->icc;
    memcpy(type->background, args->background, sizeof type->background);
    type->frame = args->frame;
    type->ndim = 3;
    type->shape[0] = type->shape[1] = -1;
    type->shape[2] = args->gray ? 1 : args->alpha == LEAT_ALPHA_KEEP ? 4 : 3;
    return LEAT_OK;
}

const struct leat_op_class leat_op_decode = {.type = "Decode",
                                             .args_bytes = sizeof(struct decode_args),
                                             .decodes = true,
                                             .parse = parse,
                                             .hash = hash,
                                             .infer = infer};
