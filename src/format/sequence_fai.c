/*
 * A .fai of htslib as the index of a FASTA file: of each record a line
 *
 *     name  residues  byte of the first  residues a line  bytes a line          separated by tabs
 *
 * Between the end of one record and the begin of the next, the file has to hold a first line with that name and nothing
 * else. The samples of the fingerprint are read through the index, which looks at line ends, too. Lists that leave out
 * records, as of names that repeat, do not fit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "format/residues.h"
#include "kernels/residues.h"

enum { PATH = 4096, GAP = 1 << 20, LONGEST = 64 << 20 };

struct fai {
    const char *path;
    struct leat_io_file *file; /* the decoded bytes */
    const uint8_t *p, *end;    /* of the list */
    struct leat_sequence_record *records;
    size_t n, room;
    uint64_t residues, at; /* of the records so far; the byte behind the last one */
    uint8_t *gap;
};

static bool number(struct fai *f, uint64_t *out, uint8_t behind)
{
    *out = 0;
    const uint8_t *p = f->p;
    for (; p < f->end && *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(*out, UINT64_C(10), out) || __builtin_add_overflow(*out, (uint64_t)(*p - '0'), out))
            return false;
    const bool good = p > f->p && (p < f->end ? *p == behind || (behind == '\n' && *p == '\r') : behind == '\n');
    while (good && p < f->end && *p == '\r')
        p++;
    f->p = p + (p < f->end);
    return good;
}

/* The bytes [f->at, to) are white space, and if there is a record, behind it its first line. */
static bool take_gap(struct fai *f, uint64_t to, struct leat_sequence_record *r, const uint8_t *name, size_t name_n)
{
    const size_t n = (size_t)(to - f->at);
    size_t at = 0;
    if (to < f->at || to - f->at > GAP || leat_io_read(f->file, f->at, n, f->gap, NULL))
        return false;
    while (at < n && leat_is_white(f->gap[at]))
        at++;
    if (!r)
        return at == n;
    const uint8_t *line = f->gap + at, *newline = at < n ? memchr(line, '\n', n - at) : NULL;
    if (!newline || *line != '>' || (f->at && (!at || f->gap[at - 1] != '\n')) || newline + 1 != f->gap + n)
        return false;
    *r = (struct leat_sequence_record){.at = f->at + at, .first = f->residues};
    return !leat_sequence_header(r, line, (size_t)(newline - line)) && r->name == name_n &&
           !memcmp(line + 1, name, name_n);
}

static bool take_line(struct fai *f)
{
    uint64_t length, at, line, width, end;
    const uint8_t *name = f->p, *tab = memchr(name, '\t', (size_t)(f->end - name));
    if (!tab)
        return false;
    f->p = tab + 1;
    if (!number(f, &length, '\t') || !number(f, &at, '\t') || !number(f, &line, '\t') || !number(f, &width, '\n') ||
        length > f->file->size || at > f->file->size || line > UINT32_MAX || width > UINT32_MAX || width < line ||
        (length && !line) || !leat_grow(&f->records, &f->room, f->n + 2, sizeof *f->records))
        return false;
    struct leat_sequence_record *r = &f->records[f->n];
    /* a record without residues: the byte behind its first line */
    if (!take_gap(f, at, r, name, (size_t)(tab - name)) || at - r->at > UINT32_MAX)
        return false;
    r->begin[0] = (uint32_t)(at - r->at);
    if (length > line) {
        r->line[0] = (uint32_t)line;
        r->width[0] = (uint32_t)width;
    }
    end = at + (length ? (length - 1) / line * width + (length - 1) % line + 1 : 0);
    if (end < at || end > f->file->size)
        return false;
    f->n++;
    f->residues += length;
    f->at = end;
    return true;
}

/* The fingerprint, of samples that are read through the index. */
static bool hash(struct fai *f, struct leat_sequence_index *x)
{
    struct leat_io_file *residues;
    struct leat_sequence_sample sample = {0};
    uint8_t bytes[LEAT_SAMPLE_RESIDUES], *header = NULL;
    size_t room = 0;
    bool good = !leat_residues_open(f->path, x, LEAT_RESIDUES, f->file, &residues, NULL);
    for (uint64_t i = 0; good && i < x->count; i++) {
        const struct leat_sequence_record *r = &x->records[i];
        const uint64_t length = r[1].first - r->first;
        for (uint64_t at = 0; good && at < length; at += LEAT_SAMPLE_STRIDE) {
            const size_t n = length - at < sizeof bytes ? (size_t)(length - at) : sizeof bytes;
            good = !leat_io_read(residues, r->first + at, n, bytes, NULL) &&
                   leat_sequence_sample_take(&sample, LEAT_RESIDUES, at, bytes, n);
        }
        good = good && leat_grow(&header, &room, r->header, 1) &&
               !leat_io_read(f->file, r->at, r->header, header, NULL) &&
               leat_sequence_sample_end(&sample, LEAT_SEQUENCE_FASTA, r, header, length, x->sums);
    }
    leat_io_release(residues);
    leat_free(sample.bytes[0]);
    leat_free(header);
    return good;
}

static bool fits(struct fai *f, uint64_t least, struct leat_sequence_index *x)
{
    while (f->p < f->end)
        if (!take_line(f))
            return false;
    if (!f->n || f->file->size / f->n < least || f->file->size - f->at > GAP ||
        !take_gap(f, f->file->size, NULL, NULL, 0))
        return false;
    f->records[f->n] = (struct leat_sequence_record){.at = f->file->size, .first = f->residues};
    *x = (struct leat_sequence_index){
        .kind = LEAT_SEQUENCE_FASTA, .count = f->n, .bytes = f->file->size, .records = f->records};
    return hash(f, x);
}

bool leat_sequence_from_fai(const char *path, struct leat_io_file *decoded, uint64_t least,
                            struct leat_sequence_index *out)
{
    char name[PATH];
    struct leat_io_file *list;
    struct fai f = {.path = path, .file = decoded};
    if (snprintf(name, sizeof name, "%s.fai", path) >= PATH || leat_io_open(name, &list, NULL))
        return false;
    uint8_t *bytes = list->size <= LONGEST ? leat_alloc((size_t)list->size + 1) : NULL;
    bool good = bytes && (f.gap = leat_alloc(GAP)) && !leat_io_read(list, 0, list->size, bytes, NULL);
    if (good) {
        f.p = bytes;
        f.end = bytes + list->size;
        if (!(good = fits(&f, least, out)))
            leat_log(LEAT_LOG_INFO, "%s does not fit %s, or has many short records: the file is read", name, path);
    }
    leat_io_release(list);
    leat_free(bytes);
    leat_free(f.gap);
    if (good)
        out->own_records = f.records, out->from_fai = true;
    else
        leat_free(f.records);
    return good;
}
