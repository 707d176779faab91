/* The kept index of a file of sequences: whatever it holds, it is refused, or its residues are read or refused, within
 * the file. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "format/residues.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char bytes[] = ">a b\nACGTACGT\nACGTACGT\nACG\n>c\nAC GT\nACG\n\nAC\n>d\n@e\nACGT\n+\n!!!!\n";
    char path[64];
    struct leat_io_file *source, *file;
    struct leat_sequence_index x;
    const int fd = memfd_create("fuzz", 0);
    if (!size) {
        close(fd);
        return 0;
    }
    if (fd < 0 || write(fd, data + 1, size - 1) != (ssize_t)size - 1 ||
        leat_io_from_memory("source", bytes, sizeof bytes - 1, &source, NULL))
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const enum leat_sequence_kind kind = *data & 1 ? LEAT_SEQUENCE_FASTA : LEAT_SEQUENCE_FASTQ;
    if (leat_sequence_index_load(&x, kind, path, source, true)) {
        uint8_t to[64];
        struct leat_sequence_record r[2];
        for (uint64_t i = 0; i < x.count && i < 100; i++)
            if (leat_sequence_get(&x, i, r, NULL))
                abort();
        for (unsigned t = 0; t < 2 && !leat_residues_open("fuzz", &x, t, source, &file, NULL); t++) {
            for (uint64_t at = 0; at < file->size && at < 100; at++)
                for (uint64_t n = 1; n <= sizeof to; n += 7)
                    leat_io_read(file, at, n, to, NULL);
            leat_io_release(file);
        }
        leat_sequence_index_destroy(&x);
    }
    leat_io_release(source);
    close(fd);
    return 0;
}
