/* The kept index of a tar: whatever it holds, it is refused, or the files that it leads to lie within the tar. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/tar_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct leat_io_file *source;
    struct leat_tar_index x;
    struct leat_tar_member m;
    struct leat_tar_sample s;
    bool found;
    const int fd = memfd_create("fuzz", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || leat_io_from_memory("source", "", 0, &source, NULL))
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (leat_tar_index_load(&x, path, source, true)) {
        for (uint64_t i = 0; i < x.count && i < 1000; i++) {
            if (leat_tar_index_sample(&x, i, &s, NULL) || strlen(x.keys + s.key) >= x.keys_bytes)
                abort();
            for (size_t e = 0; e < x.n_endings; e++)
                if (leat_tar_index_find(&x, i, e, &found, &m, NULL) ||
                    (found && leat_tar_bytes(&m) > x.bytes - leat_tar_at(&m)))
                    abort();
        }
        for (size_t e = 0; e < x.n_endings; e++)
            if (strlen(x.endings_text + x.endings[e].text) > size)
                abort();
        leat_tar_index_destroy(&x);
    }
    leat_io_release(source);
    close(fd);
    return 0;
}
