/* Any bytes as a GIF, with any frame of it: see fuzz_photo.h. */
#include "fuzz_photo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    return length < 4 || memcmp(data, "GIF8", 4) ? 0 : fuzz_photo(data, length);
}
