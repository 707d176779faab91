/* Any bytes as a JPEG: see fuzz_photo.h. */
#include "fuzz_photo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    return length < 3 || memcmp(data, "\xff\xd8\xff", 3) ? 0 : fuzz_photo(data, length);
}
