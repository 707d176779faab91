/* Any bytes as a JPEG 2000, in its container or not: see fuzz_photo.h. */
#include "fuzz_photo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    return length < 8 || (memcmp(data, "\xff\x4f\xff\x51", 4) && memcmp(data, "\0\0\0\x0cjP  ", 8))
               ? 0
               : fuzz_photo(data, length);
}
