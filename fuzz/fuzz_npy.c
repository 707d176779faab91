/* The header of a file of NumPy: it is refused, or says a type and a shape whose bytes can be counted. */
#include <stdlib.h>

#include "format/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct leat_npy_header h;
    if (leat_npy_header_read(data, size, &h))
        return 0;
    uint64_t bytes = leat_dtype_size(h.dtype);
    for (unsigned d = 0; d < h.ndim; d++)
        bytes *= (uint64_t)h.shape[d];
    if (!bytes || bytes != h.row_bytes || h.data > size || (h.rows && h.row_bytes > INT64_MAX / h.rows))
        abort();
    return 0;
}
