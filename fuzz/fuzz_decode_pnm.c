/* Any bytes as a PNM: see fuzz_photo.h. */
#include "fuzz_photo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    return length < 2 || *data != 'P' ? 0 : fuzz_photo(data, length);
}
