/* Any bytes as a TIFF: see fuzz_photo.h. */
#define FUZZ_PAGES
#include "fuzz_photo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    return length < 2 || (memcmp(data, "II", 2) && memcmp(data, "MM", 2)) ? 0 : fuzz_photo(data, length);
}
