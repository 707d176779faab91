/* Decode: an encoded photo to an image of open size. The codec of its kind decodes it (codec/codec.h); a stage pulls
 * the rows. */
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "op/operator.h"

struct decode_args {
    bool gray, exif, dct_scaling, lenient;
};

static void parse(void *into, struct leat_args *json)
{
    static const char *const modes[] = {"RGB", "GRAY", NULL};
    struct decode_args *args = into;
    unsigned mode;
    leat_args_word(json, "mode", modes, 0, &mode);
    args->gray = mode == 1;
    leat_args_bool(json, "exif", false, &args->exif);
    leat_args_bool(json, "dct_scaling", false, &args->dct_scaling);
    bool strict = true;
    leat_args_bool(json, "strict", true, &strict);
    args->lenient = !strict;
}

/* A strict one hashes as before there were others, so that states of then go on. */
static uint64_t hash(const void *from)
{
    const struct decode_args *args = from;
    return leat_hash64(args, sizeof *args - !args->lenient);
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct decode_args *args = from;
    const struct leat_codec *codec = leat_codec_of(type->kind == LEAT_KIND_BYTES ? LEAT_KIND_IMAGE : type->kind);
    if (!codec)
        return leat_op_misfit(place, type, "an encoded photo, as the first operator of its chain", error);
    memset(type, 0, sizeof *type);
    type->kind = LEAT_KIND_ARRAY;
    type->dtype = LEAT_U8;
    type->layout = LEAT_LAYOUT_HWC;
    type->range = LEAT_RANGE_MAX;
    type->codec = codec;
    type->gray = args->gray;
    type->exif = args->exif;
    type->dct_scaling = args->dct_scaling;
    type->lenient = args->lenient;
    type->ndim = 3;
    type->shape[0] = type->shape[1] = -1;
    type->shape[2] = args->gray ? 1 : 3;
    return LEAT_OK;
}

const struct leat_op_class leat_op_decode = {.type = "Decode",
                                             .args_bytes = sizeof(struct decode_args),
                                             .decodes = true,
                                             .parse = parse,
                                             .hash = hash,
                                             .infer = infer};
