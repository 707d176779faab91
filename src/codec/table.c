/* The table of codecs. Adding a codec is adding its file, and its line to codecs.def. */
#include "codec/codec.h"

#define LEAT_CODEC(name) extern const struct leat_codec leat_codec_##name;
#include "codec/codecs.def"
#undef LEAT_CODEC
#define LEAT_CODEC(name) &leat_codec_##name,
static const struct leat_codec *const codecs[] = {
#include "codec/codecs.def"
    NULL};
_Static_assert(sizeof codecs / sizeof *codecs <= LEAT_MAX_CODECS + 1, "a decoder of each fits");

const struct leat_codec *leat_codec_of(enum leat_kind kind)
{
    const struct leat_codec *const *codec = codecs;
    while (*codec && (*codec)->kind != kind)
        codec++;
    return *codec;
}
