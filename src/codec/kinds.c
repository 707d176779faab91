/* The parts that all kinds and their codecs share: the name of a kind, and decoders of several kinds. */
#include <string.h>

#include "codec/codec.h"

const char *leat_kind_name(enum leat_kind kind)
{
    static const char *const plain[] = {
        [LEAT_KIND_ARRAY] = "array", [LEAT_KIND_BYTES] = "bytes", [LEAT_KIND_STR] = "str", [LEAT_KIND_JSON] = "json"};
    if ((size_t)kind < sizeof plain / sizeof *plain)
        return plain[kind] ? plain[kind] : "";
    const struct leat_codec *codec = leat_codec_of(kind);
    return codec ? codec->kind_name : "";
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
    while (decoders->of[i] && decoders->of[i]->codec->kind != codec->kind)
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
