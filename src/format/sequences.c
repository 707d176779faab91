/* FASTA and FASTQ as sources: sequences.h. */
#include "format/sequences.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/residues.h"
#include "io/zstd.h"
#include "kernels/residues.h"

enum { NAME, DESCRIPTION, SEQUENCE, QUALITY, FIELDS };
enum { HEADERS, TEXTS }; /* files: the decoded bytes, then that of each text */
enum { PATH = 4096 + 64, TELL = 16 << 20, HEAD = 4096 };

struct sequences {
    struct leat_source source;
    struct leat_field fields[FIELDS];
    uint8_t storage[FIELDS];
    char *path;
    struct leat_io_file *file, *decoded, *texts[2];
    struct leat_sequence_index index;
};

/* ---- recognising ----------------------------------------------------------------------------- */

static bool is_named(enum leat_sequence_kind kind, const char *path)
{
    static const char *const names[][8] = {
        [LEAT_SEQUENCE_FASTA] = {".fa", ".fasta", ".fna", ".faa", ".ffn", ".frn", ".fas", ".mpfa"},
        [LEAT_SEQUENCE_FASTQ] = {".fq", ".fastq"}};
    static const char *const ends[] = {"", ".gz", ".bgz", ".bgzf", ".zst"};
    const size_t n = strlen(path);
    for (size_t i = 0; i < 8 && names[kind][i]; i++)
        for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
            const size_t a = strlen(names[kind][i]), b = strlen(ends[e]);
            if (n >= a + b && !strncasecmp(path + n - a - b, names[kind][i], a) && !strcasecmp(path + n - b, ends[e]))
                return true;
        }
    return false;
}

/* A first line with a mark, and one of residues behind it; of FASTQ, then one that begins with '+'. */
static bool looks_like(enum leat_sequence_kind kind, const uint8_t *p, size_t n)
{
    const uint8_t *const end = p + n;
    if (!n || *p != (kind == LEAT_SEQUENCE_FASTA ? '>' : '@') || memchr(p, 0, n))
        return false;
    if (!(p = memchr(p, '\n', n)) || ++p == end)
        return kind == LEAT_SEQUENCE_FASTA;
    if (kind == LEAT_SEQUENCE_FASTA && *p == '>')
        return true;
    const uint8_t *newline = memchr(p, '\n', (size_t)(end - p)), *to = newline ? newline : end;
    while (to > p && to[-1] == '\r')
        to--;
    return leat_residues_are(p, (size_t)(to - p)) &&
           (kind == LEAT_SEQUENCE_FASTA || (newline && newline + 1 < end && newline[1] == '+'));
}

bool leat_sequences_recognise(enum leat_sequence_kind kind, const char *path, bool folder, const uint8_t *head,
                              size_t n)
{
    uint8_t decoded[HEAD];
    if (folder || !n)
        return false;
    return is_named(kind, path) || looks_like(kind, decoded, leat_compressed_head(head, n, decoded, sizeof decoded));
}

/* ---- opening --------------------------------------------------------------------------------- */

void leat_sequences_close(struct leat_source *source)
{
    struct sequences *s = (struct sequences *)source;
    leat_io_release(s->texts[0]);
    leat_io_release(s->texts[1]);
    leat_io_release(s->decoded);
    leat_io_release(s->file);
    leat_sequence_index_destroy(&s->index);
    leat_free(s->path);
    leat_free(s);
}

struct making {
    const struct leat_open_options *options;
    struct leat_sequence_scan *scan;
    const char *path;
    uint64_t done, told, total;
};

static int take(void *user, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    struct making *m = user;
    int rc = leat_sequence_scan_push(m->scan, bytes, n, error);
    m->done += n;
    if (!rc && m->options->progress && m->done - m->told >= TELL) {
        m->told = m->done;
        if (m->options->progress(m->options->user, m->done, m->total))
            rc = leat_fail(error, LEAT_E_CANCELLED, "reading %s was stopped", m->path);
    }
    return rc;
}

/* Reads the file to its end. */
static int scan(struct sequences *s, enum leat_sequence_kind kind, enum leat_compression compression,
                const struct leat_open_options *options, const char *copy, struct leat_compressed *c,
                struct leat_error *error)
{
    struct making m = {.options = options, .path = s->path, .total = compression ? 0 : s->file->size};
    int rc = leat_sequence_scan_begin(s->path, kind, &m.scan, error);
    if (rc)
        return rc;
    rc = leat_compressed_read(s->file, compression, copy, take, &m, c, error);
    const int end = leat_sequence_scan_end(m.scan, !rc, &s->index, rc ? NULL : error);
    return rc ? rc : end;
}

static int make_index(struct sequences *s, enum leat_sequence_kind kind, enum leat_compression compression,
                      const struct leat_open_options *options, const char *copy, bool *lasting,
                      struct leat_error *error)
{
    struct leat_compressed c;
    int rc = leat_compressed_find(s->file, compression, &c, error);
    if (rc)
        return rc;
    if (!c.file || kind != LEAT_SEQUENCE_FASTA || !leat_sequence_from_fai(s->path, c.file, LEAT_FAI_LEAST, &s->index)) {
        leat_io_release(c.file);
        leat_free(c.frames);
        rc = scan(s, kind, compression, options, copy, &c, error);
    }
    s->decoded = rc ? NULL : c.file;
    s->index.frames = s->index.own_frames = c.frames;
    s->index.n_frames = c.n_frames;
    s->index.copy_bytes = c.copy_bytes;
    *lasting = c.lasting;
    return rc;
}

/* Reads the index where it is kept, or makes and keeps it. */
static int find_index(struct sequences *s, enum leat_sequence_kind kind, const struct leat_open_options *options,
                      struct leat_error *error)
{
    char place[4096], copy[PATH] = "";
    enum leat_compression compression;
    int rc = leat_kept_check_dir(options->index_dir, error);
    rc = rc ? rc : leat_compression_of(s->file, &compression, error);
    if (rc)
        return rc;
    const bool keeps = leat_kept_path(s->path, options->index_dir, place, sizeof place);
    if (keeps)
        leat_compressed_copy_place(place, copy, sizeof copy);
    if (keeps && leat_sequence_index_load(&s->index, kind, place, s->file, false)) {
        const struct leat_sequence_index *x = &s->index;
        if (!leat_compressed_open(s->file, compression, copy, x->frames, (size_t)x->n_frames, x->copy_bytes,
                                  &s->decoded, NULL) &&
            s->decoded->size == x->bytes)
            return LEAT_OK;
        leat_io_release(s->decoded);
        s->decoded = NULL;
        leat_sequence_index_destroy(&s->index);
    }
    if (keeps && options->index_dir)
        mkdir(options->index_dir, 0777);
    bool lasting = false;
    rc = make_index(s, kind, compression, options, copy, &lasting, error);
    if (!rc && keeps && lasting && !(rc = leat_sequences_refresh(&s->source, error)))
        leat_sequence_index_save(&s->index, place, s->file);
    return rc;
}

static void set_fields(struct sequences *s, enum leat_sequence_kind kind)
{
    static const struct leat_field fields[FIELDS] = {
        [NAME] = {.name = "name", .kind = LEAT_KIND_STR, .dtype = LEAT_U8},
        [DESCRIPTION] = {.name = "description", .kind = LEAT_KIND_STR, .dtype = LEAT_U8},
        [SEQUENCE] = {.name = "sequence", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8, .ndim = 1, .shape = {-1}},
        [QUALITY] = {.name = "quality", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8, .ndim = 1, .shape = {-1}}};
    memcpy(s->fields, fields, sizeof fields);
    memset(s->storage, LEAT_STORAGE_EXTENT, sizeof s->storage);
    s->source.fields = s->fields;
    s->source.n_fields = kind == LEAT_SEQUENCE_FASTQ ? FIELDS : QUALITY;
    s->source.storage = s->storage;
}

int leat_sequences_open(const struct leat_source_vtable *v, enum leat_sequence_kind kind, const char *path,
                        const struct leat_open_options *options, struct leat_source **out, struct leat_error *error)
{
    struct sequences *s = leat_new(struct sequences);
    *out = NULL;
    if (!s || !(s->path = leat_strdup(path))) {
        leat_free(s);
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    }
    int rc = leat_io_open(path, &s->file, error);
    rc = rc ? rc : find_index(s, kind, options, error);
    for (unsigned t = 0; t < (kind == LEAT_SEQUENCE_FASTQ ? 2 : 1) && !rc; t++)
        rc = leat_residues_open(s->path, &s->index, t, s->decoded, &s->texts[t], error);
    if (rc) {
        leat_sequences_close(&s->source);
        return rc;
    }
    set_fields(s, kind);
    s->source.v = v;
    s->source.path = s->path;
    s->source.count = s->index.count;
    s->source.metadata = "{}";
    s->source.notice = "";
    memcpy(s->source.fingerprint, s->index.sums, sizeof s->source.fingerprint);
    *out = &s->source;
    return LEAT_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

int leat_sequences_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                           struct leat_extent *extents, size_t *failed, struct leat_error *error)
{
    const struct sequences *s = (const struct sequences *)source;
    struct leat_sequence_record r[2];
    if (!leat_io_is_remote(s->path)) { /* one look at the file for some values */
        const int rc = leat_sequences_refresh(source, error);
        if (rc) {
            *failed = 0;
            return rc;
        }
    }
    for (size_t i = 0; i < n; i++) {
        const int rc = leat_sequence_get(&s->index, samples[i], r, error);
        if (rc) {
            *failed = i;
            return rc;
        }
        extents[i] = field == NAME ? (struct leat_extent){.file = HEADERS, .offset = r->at + 1, .length = r->name}
                     : field == DESCRIPTION ? (struct leat_extent){.file = HEADERS,
                                                                   .offset = r->at + r->description,
                                                                   .length = r->header - r->description}
                                            : (struct leat_extent){.file = TEXTS + (field == QUALITY),
                                                                   .offset = r->first,
                                                                   .length = r[1].first - r->first};
    }
    return LEAT_OK;
}

bool leat_sequences_expect(const struct leat_source *source, uint64_t sample, const struct leat_extent *extent)
{
    const struct sequences *s = (const struct sequences *)source;
    struct leat_sequence_record r[2];
    return extent->file != HEADERS && !leat_sequence_get(&s->index, sample, r, NULL) &&
           leat_residues_expect(s->texts[extent->file - TEXTS], r, extent->offset - r->first);
}

int leat_sequences_file(struct leat_source *source, uint64_t file, struct leat_io_file **out, struct leat_error *error)
{
    const struct sequences *s = (const struct sequences *)source;
    *out = leat_io_retain(file == HEADERS ? s->decoded : s->texts[file - TEXTS]);
    return LEAT_OK;
}

void leat_sequences_mark(struct leat_source *source, size_t field, uint64_t sample, bool verified,
                         enum leat_health health)
{
}

/* There are no checksums: whoever changes the file while it is read is told by its time, which is looked at whenever
 * values are located, and by where lines end. */
int leat_sequences_refresh(struct leat_source *source, struct leat_error *error)
{
    return leat_io_unchanged(((const struct sequences *)source)->file, error);
}

int leat_sequences_about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error)
{
    const struct sequences *s = (const struct sequences *)source;
    *out = (struct leat_source_about){.bytes = s->file->size, .broken = UINT64_MAX};
    return LEAT_OK;
}
