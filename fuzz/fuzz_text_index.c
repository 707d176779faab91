/* The file of an index of lines: whatever it holds, it is refused, or can be used without reading beyond it. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "format/kept.h"
#include "format/text_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct leat_io_file *source;
    struct leat_text_index x;
    const int fd = memfd_create("fuzz", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || leat_io_from_memory("source", "{}", 2, &source, NULL))
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (leat_text_index_load(&x, path, source, 1, &(struct leat_text_care){.small = LEAT_KEPT_SMALL, .trusts = true})) {
        uint64_t sum = 0;
        for (uint64_t i = 0; i < x.count; i++)
            sum += x.lines[i].offset + x.lines[i].check;
        for (size_t i = 0; i < x.tree.n; i++) {
            const struct leat_text_property *p = &x.properties[i];
            const size_t each = p->column == LEAT_COLUMN_NUMBERS ? 8 : p->column == LEAT_COLUMN_WORDS ? 4 : 1;
            sum += p->values ? leat_hash64(p->values, (size_t)x.count * each) : 0;
            sum += p->valid ? leat_hash64(p->valid, (size_t)x.count) : 0;
            sum += p->words ? leat_hash64(p->words, (size_t)p->starts[p->n_words]) : 0;
        }
        for (uint64_t i = 0; i < x.n_frames; i++)
            sum += x.frames[i].in;
        if (sum == 42)
            putchar('.');
        leat_text_index_destroy(&x);
    }
    leat_io_release(source);
    close(fd);
    return 0;
}
