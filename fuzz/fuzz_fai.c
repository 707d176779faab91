/* A list of records (.fai) beside a FASTA file, both in the input with a NUL between: it is refused; or the
 * residues that it leads to are refused, as lines do not end there; or they are those that reading the file gives. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "format/residues.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_all(const struct leat_sequence_index *x, struct leat_io_file *from, uint64_t *hash)
{
    struct leat_io_file *file;
    if (leat_residues_open("fuzz", x, LEAT_RESIDUES, from, &file, NULL))
        abort();
    uint8_t *all = leat_alloc((size_t)file->size + 1);
    const bool good = all && !leat_io_read(file, 0, file->size, all, NULL);
    *hash = good ? leat_hash64(all, (size_t)file->size) : 0;
    leat_free(all);
    leat_io_release(file);
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = memchr(data, 0, size);
    if (!nul)
        return 0;
    const size_t list = (size_t)(nul - data), n = size - list - 1;
    char path[64], fai[80];
    snprintf(path, sizeof path, "/dev/shm/leat-fuzz-fai.%ld", (long)getpid());
    snprintf(fai, sizeof fai, "%s.fai", path);
    FILE *f = fopen(fai, "w");
    if (!f || fwrite(data, 1, list, f) != list || fclose(f))
        abort();
    struct leat_io_file *file;
    struct leat_sequence_index x, y;
    struct leat_sequence_scan *s;
    if (leat_io_from_memory(path, nul + 1, n, &file, NULL))
        abort();
    if (leat_sequence_from_fai(path, file, 0, &x)) {
        uint64_t a = 0, b = 1;
        const bool whole = read_all(&x, file, &a);
        if (leat_sequence_scan_begin("fuzz", LEAT_SEQUENCE_FASTA, &s, NULL))
            abort();
        const int rc = leat_sequence_scan_push(s, nul + 1, n, NULL);
        if (!leat_sequence_scan_end(s, !rc, &y, NULL) && !rc) {
            if (whole && (!read_all(&y, file, &b) || a != b || x.count != y.count || x.sums[0] != y.sums[0]))
                abort();
            leat_sequence_index_destroy(&y);
        } else if (whole) {
            abort();
        }
        leat_sequence_index_destroy(&x);
    }
    leat_io_release(file);
    unlink(fai);
    return 0;
}
