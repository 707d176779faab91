/* Any bytes with the magic of one format of photos, FUZZ_KIND: see fuzz_photo.h. Any frame is asked for. */
#include "fuzz_photo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    const struct leat_photo_format *format = leat_photo_formats;
    while (format->kind != FUZZ_KIND)
        format++;
    return leat_photo_has_magic(format, data, length) ? fuzz_photo(data, length, FUZZ_KIND == LEAT_IMAGE_TIFF) : 0;
}
