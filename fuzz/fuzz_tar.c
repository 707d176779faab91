/* A tar of samples: it is refused, or each file of each sample lies within it; and reading it from header to header
 * finds what reading all of it in small pieces finds. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "format/tar_index.h"
#include "format/tar_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct heard {
    uint64_t files, sum, given;
};

static int begin(void *user, const struct leat_tar_found *f, uint64_t *wanted, struct leat_error *error)
{
    struct heard *h = user;
    if (strlen(f->name) != f->length)
        abort();
    h->files++;
    h->sum = h->sum * 31 + f->at + f->size * 7 + f->length;
    *wanted = f->size < 100 ? f->size : 100;
    h->given += *wanted;
    return LEAT_OK;
}

static int body(void *user, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    struct heard *h = user;
    h->given -= n;
    return LEAT_OK;
}

static int end(void *user, struct leat_error *error)
{
    if (((struct heard *)user)->given)
        abort();
    return LEAT_OK;
}

static int scan(const uint8_t *data, size_t size, size_t piece, bool passes, struct heard *h)
{
    const struct leat_tar_sink sink = {begin, body, end, h, 0, NULL};
    struct leat_tar_scan *s;
    if (leat_tar_scan_begin("fuzz", size, &sink, &s, NULL))
        abort();
    int rc = LEAT_OK;
    for (size_t at = 0; at < size && !rc;) {
        const uint64_t over = passes ? leat_tar_scan_passes(s) : 0;
        size_t n = size - at < piece ? size - at : piece;
        if (over) {
            n = over < size - at ? (size_t)over : size - at;
            leat_tar_scan_pass(s, n);
        } else {
            rc = leat_tar_scan_push(s, data + at, n, NULL);
        }
        at += n;
    }
    const int whole = leat_tar_scan_end(s, !rc, NULL);
    return rc ? rc : whole;
}

static void look_up(const struct leat_tar_index *x, size_t size)
{
    struct leat_tar_member m;
    bool found;
    for (uint64_t i = 0; i < x->count; i++) {
        size_t files = 0;
        for (size_t e = 0; e < x->n_endings; e++) {
            if (leat_tar_index_find(x, i, e, &found, &m, NULL))
                abort();
            files += found;
            if (found && (leat_tar_at(&m) > size || leat_tar_bytes(&m) > size - leat_tar_at(&m)))
                abort();
        }
        if (files != x->samples[i + 1].member - x->samples[i].member || !files)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct heard a = {0}, b = {0};
    struct leat_io_file *file;
    struct leat_compressed made;
    struct leat_tar_index x;
    const int rc = scan(data, size, 7, false, &a);
    if (rc != scan(data, size, 4096, true, &b) || (!rc && (a.files != b.files || a.sum != b.sum)))
        abort();
    if (leat_io_from_memory("fuzz", data, size, &file, NULL))
        abort();
    const struct leat_tar_making making = {.file = file};
    if (!leat_tar_index_make(&making, &made, &x, NULL)) {
        look_up(&x, size);
        leat_tar_index_destroy(&x);
        leat_io_release(made.file);
    }
    leat_io_release(file);
    return 0;
}
