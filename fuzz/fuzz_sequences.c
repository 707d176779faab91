/* A FASTA or FASTQ file: reading it never crashes; cut into pieces it gives the same index; and each residue is found
 * again by that, alone and with all others. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "format/residues.h"
#include "kernels/residues.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool scan(enum leat_sequence_kind kind, const uint8_t *data, size_t size, size_t piece,
                 struct leat_sequence_index *x)
{
    struct leat_sequence_scan *s;
    int rc = leat_sequence_scan_begin("fuzz", kind, &s, NULL);
    for (size_t at = 0; at < size && !rc; at += piece)
        rc = leat_sequence_scan_push(s, data + at, size - at < piece ? size - at : piece, NULL);
    return !leat_sequence_scan_end(s, !rc, x, NULL) && !rc;
}

static void check_text(const struct leat_sequence_index *x, enum leat_sequence_text text, struct leat_io_file *from)
{
    struct leat_io_file *file;
    if (leat_residues_open("fuzz", x, text, from, &file, NULL))
        abort();
    const size_t n = (size_t)file->size;
    uint8_t *all = leat_alloc(n + 1), *some = leat_alloc(n + 1);
    if (leat_io_read(file, 0, n, all, NULL))
        abort();
    for (size_t i = 0; i < n; i++)
        if (!leat_is_residue(all[i]))
            abort();
    const size_t step = n / 16 + 1;
    for (size_t i = 0; i < n; i += step)
        for (size_t k = i + 1; k <= n; k += step)
            if (leat_io_read(file, i, k - i, some, NULL) || memcmp(some, all + i, k - i) != 0)
                abort();
    leat_free(all);
    leat_free(some);
    leat_io_release(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct leat_sequence_index x, y;
    struct leat_io_file *file;
    if (!size)
        return 0;
    const enum leat_sequence_kind kind = *data == '@' ? LEAT_SEQUENCE_FASTQ : LEAT_SEQUENCE_FASTA;
    const bool good = scan(kind, data, size, size, &x), again = scan(kind, data, size, 1 + size % 7, &y);
    if (good != again)
        abort();
    if (!good)
        return 0;
    if (x.count != y.count || memcmp(x.sums, y.sums, sizeof x.sums) != 0 ||
        memcmp(x.records, y.records, (x.count + 1) * sizeof *x.records) != 0)
        abort();
    for (unsigned t = 0; t < 2; t++)
        if (x.n_points[t] != y.n_points[t] ||
            (x.n_points[t] && memcmp(x.points[t], y.points[t], x.n_points[t] * sizeof *x.points[t]) != 0))
            abort();
    if (leat_io_from_memory("fuzz", data, size, &file, NULL))
        abort();
    for (unsigned t = 0; t < (kind == LEAT_SEQUENCE_FASTQ ? 2 : 1); t++)
        check_text(&x, t, file);
    leat_io_release(file);
    leat_sequence_index_destroy(&x);
    leat_sequence_index_destroy(&y);
    return 0;
}
