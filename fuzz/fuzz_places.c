/* A kept index of places: whatever it holds, it is refused, or its places lie within the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/beton.h"
#include "format/places.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct leat_io_file *source;
    struct leat_places p;
    struct leat_place at;
    const int fd = memfd_create("fuzz", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || leat_io_from_memory("source", "", 0, &source, NULL))
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (leat_places_load(&p, path, source, LEAT_BETON_KIND, 0, true)) {
        for (uint64_t i = 0; i < p.count && i < 1000; i++)
            for (uint64_t k = 0; k < p.width && k < 1000; k++)
                if (leat_places_get(&p, i, k, &at, NULL) || at.length > p.bytes - at.offset)
                    abort();
        if (p.text_bytes && strlen(p.text) >= p.text_bytes)
            abort();
        leat_places_destroy(&p);
    }
    leat_io_release(source);
    close(fd);
    return 0;
}
