/*
 * One reading of a FASTA or FASTQ file: a record after the other, whatever the pieces that the bytes come in.
 *
 *     BETWEEN --mark--> HEADER --line end--> RESIDUES --'>' at a line's begin--> HEADER            FASTA
 *                                               |
 *                                               '--'+' at a line's begin--> PLUS --> QUALITIES --> BETWEEN     FASTQ
 *
 * Nothing is kept of a text but its fold and its sample, so lines may have any length.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/fingerprint.h"
#include "format/json_text.h"
#include "format/sequence_index.h"
#include "io/interrupt.h"
#include "kernels/residues.h"
#include "kernels/utf8.h"

#define LONGEST_HEADER (UINT64_C(64) << 20)

enum state { BETWEEN, HEADER, RESIDUES, PLUS, QUALITIES };

/* How the lines of a text are folded, as far as it was read. */
struct fold {
    uint64_t n;     /* residues */
    uint64_t begin; /* the byte of the first */
    uint64_t line, width, in_line,
        line_at; /* of the first line, its numbers once the second begins; of the present one */
    bool uneven;
    uint64_t point_at; /* the byte of the last point */
};

struct points {
    struct leat_sequence_point *at;
    size_t n, room;
};

struct leat_sequence_scan {
    const char *path;
    enum leat_sequence_kind kind;
    enum state state;
    bool opens;             /* the next byte begins a line */
    bool text_opens, blank; /* the line has no residue so far; it has some, and white space behind them */
    uint64_t at, line;      /* the next byte; the number of its line */
    uint64_t marked;        /* bytes of the mark that the file begins with */
    struct leat_sequence_record record;
    uint64_t record_line, total;
    uint8_t *header;
    size_t header_n, header_room, plus_n,
        plus_end; /* bytes of the line with + so far; up to its last that is not white */
    bool plus_differs;
    struct fold folds[2];
    struct leat_sequence_sample sample;
    struct leat_sequence_record *records;
    size_t n, room;
    struct points points[2];
    uint64_t sums[2];
};

static int no_memory(const struct leat_sequence_scan *s, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "no memory to index %s", s->path);
}

/* An error at a byte of line `line`; of a record, once it has begun. */
static int wrong(const struct leat_sequence_scan *s, uint64_t line, uint64_t at, struct leat_error *error,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));
static int wrong(const struct leat_sequence_scan *s, uint64_t line, uint64_t at, struct leat_error *error,
                 const char *format, ...)
{
    char what[256], of[128] = "";
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    if (s->state != BETWEEN && s->header_n)
        snprintf(of, sizeof of, ", record %zu (%.*s)", s->n, (int)(s->record.name < 60 ? s->record.name : 60),
                 (const char *)s->header + 1);
    return leat_fail_at(error, LEAT_E_CORRUPT, s->path, (int64_t)at, "%s, line %" PRIu64 ", byte %" PRIu64 "%s: %s",
                        s->path, line, at, of, what);
}

/* ---- first lines ----------------------------------------------------------------------------- */

size_t leat_sequence_header(struct leat_sequence_record *r, const uint8_t *line, size_t n)
{
    while (n > 1 && leat_is_white(line[n - 1]))
        n--;
    const uint8_t *nul = memchr(line, 0, n),
                  *inner = memchr(line, '\r', n); /* as of files with the line ends of old Macs */
    if (nul || inner)
        return (size_t)((nul ? nul : inner) - line);
    if (!leat_utf8_is_valid(line, n))
        return leat_utf8_check(line, n);
    size_t name = 1, description;
    while (name < n && !leat_is_white(line[name]))
        name++;
    for (description = name; description < n && leat_is_white(line[description]);)
        description++;
    r->header = (uint32_t)n;
    r->name = (uint32_t)(name - 1);
    r->description = (uint32_t)description;
    return 0;
}

static bool keep_header(struct leat_sequence_scan *s, const uint8_t *bytes, size_t n)
{
    if (!leat_grow(&s->header, &s->header_room, s->header_n + n + 1, 1))
        return false;
    memcpy(s->header + s->header_n, bytes, n);
    s->header_n += n;
    return true;
}

/* The line that begins a record has ended; the next byte is at s->at. */
static int end_header(struct leat_sequence_scan *s, struct leat_error *error)
{
    const size_t bad = leat_sequence_header(&s->record, s->header, s->header_n);
    if (bad)
        return wrong(s, s->line, s->record.at + bad, error,
                     s->header[bad] == '\r' ? "its first line holds the byte 0x%02x: convert the line ends of old Macs"
                                            : "its first line is no text: it holds the byte 0x%02x",
                     s->header[bad]);
    s->record.begin[0] = (uint32_t)(s->at - s->record.at);
    s->folds[0] = s->folds[1] = (struct fold){0};
    s->state = RESIDUES;
    return LEAT_OK;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static bool add_point(struct leat_sequence_scan *s, enum leat_sequence_text text, uint64_t residue, uint64_t at)
{
    struct points *p = &s->points[text];
    if (!leat_grow(&p->at, &p->room, p->n + 1, sizeof *p->at))
        return false;
    p->at[p->n++] = (struct leat_sequence_point){s->total + residue, at};
    s->folds[text].point_at = at;
    return true;
}

/* Takes n residues that stand together at `at`. */
static bool take_run(struct leat_sequence_scan *s, enum leat_sequence_text text, const uint8_t *bytes, size_t n,
                     uint64_t at)
{
    struct fold *f = &s->folds[text];
    const bool opens = s->text_opens;
    if (!n)
        return true;
    s->text_opens = false;
    if (!leat_sequence_sample_take(&s->sample, text, f->n, bytes, n))
        return false;
    if (!f->n) {
        f->begin = f->line_at = at;
    } else if (!f->uneven && opens) {
        if (!f->line) {
            f->line = f->n;
            f->width = at - f->begin;
        }
        f->uneven =
            f->in_line != f->line || at != f->line_at + f->width || f->line > UINT32_MAX || f->width > UINT32_MAX;
        f->in_line = 0;
        f->line_at = at;
    } else if (!f->uneven) {
        f->uneven = at != f->line_at + f->in_line; /* white space within a line */
    }
    size_t even = n;
    if (!f->uneven && f->line && f->in_line + n > f->line)
        even = (size_t)(f->line - f->in_line);
    if (f->uneven)
        even = 0;
    f->n += even;
    f->in_line += even;
    f->uneven = even < n;
    for (size_t i = even; i < n;) {
        const bool first = i == even && !f->point_at;
        if ((first || at + i - f->point_at >= LEAT_SEQUENCE_POINT) && !add_point(s, text, f->n, at + i))
            return false;
        const uint64_t room = f->point_at + LEAT_SEQUENCE_POINT - (at + i);
        const size_t step = n - i < room ? n - i : (size_t)room;
        f->n += step;
        i += step;
    }
    return true;
}

/* Part of a line of a text, up to its end or that of the bytes that there are. */
static int take_text(struct leat_sequence_scan *s, enum leat_sequence_text text, const uint8_t *bytes, size_t n,
                     struct leat_error *error)
{
    const uint64_t at = s->at;
    size_t clean = n;
    while (clean && leat_is_white(bytes[clean - 1]))
        clean--;
    if (clean && s->blank && s->kind == LEAT_SEQUENCE_FASTQ)
        return wrong(s, s->line, at - 1, error, "white space stands among its %s", text ? "qualities" : "residues");
    s->blank = clean < n && (clean || !s->text_opens);
    if (clean && s->text_opens && s->kind == LEAT_SEQUENCE_FASTA) {
        size_t first = 0;
        while (leat_is_white(bytes[first]))
            first++;
        if (bytes[first] == '>')
            return wrong(s, s->line, at + first, error, "white space stands before the > of this line");
    }
    const uint8_t *mark = s->kind == LEAT_SEQUENCE_FASTA ? memchr(bytes, '>', clean) : NULL;
    if (mark) /* a record that would be lost in the one before it */
        return wrong(s, s->line, at + (uint64_t)(mark - bytes), error,
                     "a > stands among its residues: the line before it has no end, as where files were joined");
    if (leat_residues_are(bytes, clean))
        return take_run(s, text, bytes, clean, at) ? LEAT_OK : no_memory(s, error);
    for (size_t i = 0, end; i < clean; i = end + 1) {
        for (end = i; end < clean && leat_is_residue(bytes[end]);)
            end++;
        if (!take_run(s, text, bytes + i, end - i, at + i))
            return no_memory(s, error);
        if (end < clean && (!leat_is_white(bytes[end]) || s->kind == LEAT_SEQUENCE_FASTQ))
            return wrong(s, s->line, at + end, error, "the byte 0x%02x stands among its %s", bytes[end],
                         text ? "qualities" : "residues");
    }
    return LEAT_OK;
}

/* ---- records --------------------------------------------------------------------------------- */

static int end_record(struct leat_sequence_scan *s, struct leat_error *error)
{
    struct leat_sequence_record *r = &s->record;
    for (unsigned t = 0; t < 2; t++) {
        const struct fold *f = &s->folds[t];
        if (f->n)
            r->begin[t] = (uint32_t)(f->begin - r->at);
        if (f->n && f->begin - r->at > UINT32_MAX)
            return wrong(s, s->record_line, r->at, error, "its parts are more than 4 GiB apart");
        r->line[t] = f->line <= UINT32_MAX && f->width <= UINT32_MAX ? (uint32_t)f->line : 0;
        r->width[t] = r->line[t] ? (uint32_t)f->width : 0;
        r->uneven |= (uint32_t)f->uneven << t;
    }
    r->first = s->total;
    const uint64_t n = s->folds[0].n;
    if (!leat_grow(&s->records, &s->room, s->n + 2, sizeof *s->records) ||
        !leat_sequence_sample_end(&s->sample, s->kind, r, s->header, n, s->sums))
        return no_memory(s, error);
    s->records[s->n++] = *r;
    s->total += n;
    s->header_n = 0;
    s->state = BETWEEN;
    return LEAT_OK;
}

static int begin_record(struct leat_sequence_scan *s, struct leat_error *error)
{
    const int rc = s->state == RESIDUES ? end_record(s, error) : LEAT_OK;
    s->record = (struct leat_sequence_record){.at = s->at};
    s->record_line = s->line;
    s->state = HEADER;
    return rc;
}

static int lengths_differ(const struct leat_sequence_scan *s, struct leat_error *error)
{
    return wrong(s, s->line, s->at, error, "it has %" PRIu64 " residues and %s%" PRIu64 " qualities", s->folds[0].n,
                 s->folds[1].n > s->folds[0].n ? "at least " : "", s->folds[1].n);
}

/* A line ends, whose end is at s->at - 1, or is that of the file. */
static int end_line(struct leat_sequence_scan *s, struct leat_error *error)
{
    if (s->state == HEADER)
        return end_header(s, error);
    if (s->state == PLUS) {
        if (s->plus_end > 1 && (s->plus_differs || s->plus_end != s->record.header))
            return wrong(s, s->line, s->at, error, "the line of its + has another name or description");
        s->record.begin[1] = (uint32_t)(s->at - s->record.at);
        s->state = QUALITIES;
    }
    if (s->state == QUALITIES && s->folds[1].n > s->folds[0].n)
        return lengths_differ(s, error);
    return s->state == QUALITIES && s->folds[1].n == s->folds[0].n ? end_record(s, error) : LEAT_OK;
}

/* A line is what its first byte says. */
static int begin_line(struct leat_sequence_scan *s, uint8_t c, struct leat_error *error)
{
    const bool fasta = s->kind == LEAT_SEQUENCE_FASTA;
    if (c == (fasta ? '>' : '@') && (s->state == BETWEEN || (fasta && s->state == RESIDUES)))
        return begin_record(s, error);
    if (!fasta && s->state == RESIDUES && c == '+') {
        s->state = PLUS;
        s->plus_n = s->plus_end = 0;
        s->plus_differs = false;
        return LEAT_OK;
    }
    if (s->state == BETWEEN && !s->n && c == (fasta ? '@' : '>'))
        return wrong(s, s->line, s->at, error, "it begins with %c, as files of %s do: open it with format=\"%s\"", c,
                     fasta ? "FASTQ" : "FASTA", fasta ? "fastq" : "fasta");
    if (s->state == BETWEEN && !leat_is_white(c))
        return wrong(s, s->line, s->at, error,
                     s->n ? "a record ends before this line, which is none of the next: it does not begin with %c"
                          : "there are residues before a first line with a name, which begins with %c",
                     fasta ? '>' : '@');
    if (!fasta && s->state == RESIDUES && c == '@')
        return wrong(s, s->line, s->at, error, "the next record begins, and it has no line with + and no qualities");
    return LEAT_OK;
}

/* Part of a line, without its end. */
static int take_part(struct leat_sequence_scan *s, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    switch (s->state) {
    case HEADER:
        if (s->header_n + n > LONGEST_HEADER)
            return wrong(s, s->line, s->at, error, "its first line has more than %" PRIu64 " MiB",
                         LONGEST_HEADER >> 20);
        return keep_header(s, bytes, n) ? LEAT_OK : no_memory(s, error);
    case RESIDUES:
    case QUALITIES:
        return take_text(s, s->state == QUALITIES, bytes, n, error);
    case PLUS:
        for (size_t i = 0; i < n; i++, s->plus_n++) {
            const bool blank = leat_is_white(bytes[i]);
            s->plus_end = blank ? s->plus_end : s->plus_n + 1;
            if (s->plus_n && (s->plus_n < s->record.header ? bytes[i] != s->header[s->plus_n] : !blank))
                s->plus_differs = true;
        }
        return LEAT_OK;
    default:
        for (size_t i = 0; i < n; i++)
            if (!leat_is_white(bytes[i]))
                return wrong(s, s->line, s->at + i, error, "there is text between two records");
        return LEAT_OK;
    }
}

int leat_sequence_scan_push(struct leat_sequence_scan *s, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    const uint8_t *p = bytes, *const end = bytes + n;
    int rc = leat_io_interrupted() ? leat_fail(error, LEAT_E_CANCELLED, "reading %s was stopped", s->path) : LEAT_OK;
    static const uint8_t mark[] = {0xef, 0xbb, 0xbf}; /* UTF-8's, of Windows' tools */
    for (; p < end && s->marked == s->at && s->at < sizeof mark && *p == mark[s->at]; p++)
        s->marked = ++s->at;
    if (!rc && p < end && s->marked == s->at && s->at && s->at < sizeof mark) { /* no mark */
        s->at = 0;
        rc = begin_line(s, *mark, error);
    }
    while (p < end && !rc) {
        if (s->opens && (rc = begin_line(s, *p, error)))
            break;
        const uint8_t *newline = memchr(p, '\n', (size_t)(end - p)), *const to = newline ? newline : end;
        rc = take_part(s, p, (size_t)(to - p), error);
        s->opens = newline;
        s->text_opens = s->text_opens || newline;
        s->blank = s->blank && !newline;
        s->at += (uint64_t)(to - p);
        p = to;
        if (rc || !newline)
            continue;
        s->at++;
        p++;
        rc = end_line(s, error);
        s->line++;
    }
    return rc;
}

/* ---- the whole ------------------------------------------------------------------------------- */

int leat_sequence_scan_begin(const char *path, enum leat_sequence_kind kind, struct leat_sequence_scan **out,
                             struct leat_error *error)
{
    struct leat_sequence_scan *s = *out = leat_new(struct leat_sequence_scan);
    if (!s)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to index %s", path);
    s->path = path;
    s->kind = kind;
    s->opens = s->text_opens = true;
    s->line = 1;
    return LEAT_OK;
}

static int end_file(struct leat_sequence_scan *s, struct leat_error *error)
{
    int rc = s->opens ? LEAT_OK : end_line(s, error);
    s->line -= s->opens && s->line > 1; /* the last line is told, not one behind it */
    if (!rc && s->state == RESIDUES && s->kind == LEAT_SEQUENCE_FASTA)
        rc = end_record(s, error);
    if (!rc && s->state == QUALITIES)
        rc = lengths_differ(s, error);
    else if (!rc && s->state != BETWEEN)
        rc = wrong(s, s->line, s->at, error, "the file ends in the middle of it: it was cut");
    if (!rc && !s->n)
        rc = leat_fail_at(error, LEAT_E_FORMAT, s->path, 0, "%s is empty: there is no record in it", s->path);
    if (!rc && !leat_grow(&s->records, &s->room, s->n + 1, sizeof *s->records))
        rc = no_memory(s, error);
    if (!rc)
        s->records[s->n] = (struct leat_sequence_record){.at = s->at, .first = s->total};
    return rc;
}

int leat_sequence_scan_end(struct leat_sequence_scan *s, bool whole, struct leat_sequence_index *out,
                           struct leat_error *error)
{
    const int rc = whole ? end_file(s, error) : LEAT_OK;
    if (whole && !rc) {
        *out = (struct leat_sequence_index){
            .kind = s->kind, .count = s->n, .bytes = s->at, .sums = {s->sums[0], s->sums[1]}};
        out->records = out->own_records = s->records;
        for (unsigned t = 0; t < 2; t++) {
            out->points[t] = out->own_points[t] = s->points[t].at;
            out->n_points[t] = s->points[t].n;
        }
    } else {
        leat_free(s->records);
        leat_free(s->points[0].at);
        leat_free(s->points[1].at);
    }
    leat_free(s->header);
    leat_free(s->sample.bytes[0]);
    leat_free(s->sample.bytes[1]);
    leat_free(s);
    return rc;
}
