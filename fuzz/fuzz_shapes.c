/* Masks of instances: a value that is drawn never crashes, and compressed runs that are read can be put and drawn. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "codec/shapes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { W = 37, H = 21, ROOM = 4096 };
    static uint8_t pixels[W * H];
    static uint32_t runs[ROOM];
    struct leat_shape_bytes bytes = {0};
    struct leat_shapes shapes;
    const uint8_t *record;
    size_t length;
    if (!leat_shapes_open(data, size, &shapes, NULL))
        for (uint64_t i = 0; i < shapes.n && i < 64 && !leat_shapes_next(&shapes, &record, &length, NULL); i++)
            leat_shapes_draw(&shapes, record, length, W, H, pixels, NULL);
    size_t n = leat_shapes_runs_of_text((const char *)data, size, runs, ROOM);
    if (n != SIZE_MAX && !leat_shapes_runs_fault(runs, n, H, W)) {
        if (!leat_shapes_put_head(&bytes, 1) || !leat_shapes_put_runs(&bytes, H, W, runs, n) ||
            leat_shapes_open(bytes.data, bytes.n, &shapes, NULL) || leat_shapes_next(&shapes, &record, &length, NULL) ||
            leat_shapes_draw(&shapes, record, length, W, H, pixels, NULL))
            abort();
        uint64_t ones = 0, drawn = 0;
        for (size_t i = 1; i < n; i += 2)
            ones += runs[i];
        for (size_t i = 0; i < W * H; i++)
            drawn += pixels[i];
        if (ones != drawn)
            abort();
    }
    leat_free(bytes.data);
    return 0;
}
