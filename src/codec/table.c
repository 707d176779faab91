/* The table of codecs, and the code that is the same for all. Adding a codec is adding its file, and its line to
 * codecs.def. */
#include <string.h>

#include "codec/codec.h"

#define LEAT_CODEC(name) extern const struct leat_codec leat_codec_##name;
#include "codec/codecs.def"
#undef LEAT_CODEC
#define LEAT_CODEC(name) &leat_codec_##name,
const struct leat_codec *leat_codecs[LEAT_MAX_CODECS + 1] = {
#include "codec/codecs.def"
    NULL};

const char *leat_kind_name(enum leat_kind kind)
{
    static const char *const plain[] = {
        [LEAT_KIND_ARRAY] = "array", [LEAT_KIND_BYTES] = "bytes", [LEAT_KIND_STR] = "str", [LEAT_KIND_JSON] = "json"};
    if ((size_t)kind < sizeof plain / sizeof *plain)
        return plain[kind] ? plain[kind] : "";
    const struct leat_codec *codec = leat_codec_of(kind);
    return codec ? codec->kind_name : "";
}

const struct leat_codec *leat_codec_of(enum leat_kind kind)
{
    const struct leat_codec *const *codec = leat_codecs;
    while (*codec && (*codec)->kind != kind)
        codec++;
    return *codec;
}

int leat_decoder_check(struct leat_decoder *decoder, const void *data, size_t length, bool lenient,
                       struct leat_error *error)
{
    struct leat_decode_request request = {.data = data, .length = length, .lenient = lenient, .scan_to_end = true};
    uint32_t size[2];
    int rc = leat_decoder_open(decoder, &request, size, error);
    return rc ? rc : leat_decoder_end(decoder, error);
}

struct leat_decoder *leat_decoders_get(struct leat_decoders *decoders, const struct leat_codec *codec)
{
    size_t i = 0;
    while (leat_codecs[i]->kind != codec->kind)
        i++;
    if (!decoders->of[i])
        decoders->of[i] = leat_decoder_new(codec);
    return decoders->of[i];
}

void leat_decoders_destroy(struct leat_decoders *decoders)
{
    for (size_t i = 0; i < LEAT_MAX_CODECS; i++)
        leat_decoder_free(decoders->of[i]);
    memset(decoders, 0, sizeof *decoders);
}
