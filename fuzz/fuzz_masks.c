/* A semantic mask of a folder with two photos: opening never crashes, and the opened data can be read to their end. */
#include "fuzz_annotated.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_sidecars(&leat_format_masks, ".png", data, size);
}
