/* A codec in the place of that of its kind, or of a kind that has none. Linked with --wrap=leat_codec_of. */
#ifndef LEAT_TESTS_CODECS_H
#define LEAT_TESTS_CODECS_H

#include "codec/codec.h"

static const struct leat_codec *codec_instead; /* NULL: none */

const struct leat_codec *__real_leat_codec_of(enum leat_kind kind);
const struct leat_codec *__wrap_leat_codec_of(enum leat_kind kind);
const struct leat_codec *__wrap_leat_codec_of(enum leat_kind kind)
{
    return codec_instead && codec_instead->kind == kind ? codec_instead : __real_leat_codec_of(kind);
}

#endif
