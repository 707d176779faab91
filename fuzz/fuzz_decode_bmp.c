/* Any bytes as a BMP: see fuzz_photo.h. */
#include "fuzz_photo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    return length < 2 || memcmp(data, "BM", 2) ? 0 : fuzz_photo(data, length);
}
