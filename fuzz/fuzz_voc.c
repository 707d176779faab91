/* A file of annotations beside a photo: opening never crashes, and what was opened can be read to its end. */
#include "fuzz_annotated.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_sidecars(&leat_format_voc, ".xml", data, size);
}
