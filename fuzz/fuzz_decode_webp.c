/* Any bytes as a WebP: see fuzz_photo.h. */
#include "fuzz_photo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    return length < 4 || memcmp(data, "RIFF", 4) ? 0 : fuzz_photo(data, length);
}
