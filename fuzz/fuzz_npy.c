/* An array file of NumPy: its header is refused, or its values are put in order, within their bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "format/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct leat_npy npy;
    if (leat_npy_read(data, size, &npy))
        return 0;
    if (npy.pickled || npy.header > size || !leat_dtype_size(npy.dtype))
        abort();
    if (npy.bytes > size - npy.header)
        return 0;
    uint8_t *to = leat_alloc((size_t)npy.bytes + 1);
    if (!to)
        return 0;
    leat_npy_values(&npy, data + npy.header, to);
    leat_free(to);
    return 0;
}
