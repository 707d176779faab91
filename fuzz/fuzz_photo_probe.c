/* Any bytes as the header of a photo: a probe that succeeds gives a size that can be decoded, and agrees with the
 * decoder. */
#include "fuzz_photo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    static struct leat_decoder *decoder;
    struct leat_value_info info;
    struct leat_error error;
    if (!decoder)
        decoder = leat_decoder_new(&leat_codec_photo);
    int rc = leat_codec_photo.probe(data, length, &info, &error);
    FUZZ_ASSERT(rc == LEAT_OK || rc == LEAT_E_DECODE);
    if (rc)
        return 0;
    FUZZ_ASSERT(info.size[0] && info.size[1] && info.channels >= 1 && info.channels <= 4 && info.kind);
    FUZZ_ASSERT((uint64_t)info.size[0] * info.size[1] <= LEAT_MAX_PIXELS);
    uint32_t w, h;
    struct leat_decode_request request = {.data = data, .length = length};
    if (leat_image_open(decoder, &request, &w, &h, &error))
        return 0;
    FUZZ_ASSERT(w == info.size[0] && h == info.size[1]);
    FUZZ_ASSERT(leat_decoder_end(decoder, &error) == LEAT_OK);
    return 0;
}
