/* Any bytes as a JPEG XL, with any frame of it: see fuzz_photo.h. */
#include "fuzz_photo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    return length < 8 || (memcmp(data, "\xff\x0a", 2) && memcmp(data, "\0\0\0\x0cJXL ", 8)) ? 0
                                                                                            : fuzz_photo(data, length);
}
