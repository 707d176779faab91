/* Any bytes as an AVIF, with any frame of it: see fuzz_photo.h. */
#include "fuzz_photo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    return length < 12 || memcmp(data + 4, "ftyp", 4) ? 0 : fuzz_photo(data, length);
}
