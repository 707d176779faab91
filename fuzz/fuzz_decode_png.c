/* Any bytes as a PNG: see fuzz_photo.h. */
#include "fuzz_photo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    return length < 8 || memcmp(data, "\x89PNG\r\n\x1a\n", 8) ? 0 : fuzz_photo(data, length);
}
