/* A file of BGZF and its .gzi: u16 length of the .gzi, that, the file. It is refused, or its blocks decode or are
 * refused. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "io/bgzf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size - 2 < leat_get_u16(data))
        return 0;
    const size_t list = leat_get_u16(data);
    char path[64], gzi[80];
    snprintf(path, sizeof path, "/dev/shm/leat-fuzz-bgzf.%ld", (long)getpid());
    snprintf(gzi, sizeof gzi, "%s.gzi", path);
    FILE *f = list ? fopen(gzi, "w") : NULL;
    if (list && (!f || fwrite(data + 2, 1, list, f) != list || fclose(f)))
        abort();
    struct leat_io_file *file, *decoded;
    struct leat_frame *frames;
    size_t n;
    if (leat_io_from_memory(path, data + 2 + list, size - 2 - list, &file, NULL))
        abort();
    if (!leat_bgzf_find(file, &frames, &n, NULL)) {
        if (leat_bgzf_open(file, frames, n, &decoded, NULL))
            abort();
        uint8_t *bytes = leat_alloc((size_t)decoded->size + 1);
        for (uint64_t at = 0; bytes && at < decoded->size; at += 1000)
            leat_io_read(decoded, at, decoded->size - at < 1000 ? decoded->size - at : 1000, bytes + at, NULL);
        leat_free(bytes);
        leat_free(frames);
        leat_io_release(decoded);
    }
    leat_io_release(file);
    unlink(gzi);
    return 0;
}
