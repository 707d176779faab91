/* A file of lines with its index: text_file.h. */
#include "format/text_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/search.h"
#include "format/compressed.h"
#include "format/fingerprint.h"
#include "format/kept.h"
#include "io/guard.h"

int leat_text_file_fail(const struct leat_text_file *t, const struct leat_text_bad *bad, int code,
                        struct leat_error *error)
{
    return leat_fail_at(error, code, t->path, bad->at <= INT64_MAX ? (int64_t)bad->at : LEAT_NO_OFFSET,
                        "%s, %s %" PRIu64 ", byte %" PRIu64 ": %s", t->path, bad->line ? "line" : "record",
                        bad->line ? bad->line : bad->record, bad->at, leat_json_fault_text((unsigned)bad->fault));
}

/* ---- the index ------------------------------------------------------------------------------- */

enum { PATH = 4096 + 64, TELL = 16 << 20 };

struct making {
    struct leat_text_file *t;
    const struct leat_open_options *options;
    struct leat_text_stream *stream;
    uint64_t done, told;
};

static int take(void *user, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    struct making *m = user;
    int rc = leat_text_stream_push(m->stream, bytes, n, error);
    m->done += n;
    if (!rc && m->options->progress && m->done - m->told >= TELL) {
        m->told = m->done;
        if (m->options->progress(m->options->user, m->done, 0))
            rc = leat_fail(error, LEAT_E_CANCELLED, "reading %s was stopped", m->t->path);
    }
    return rc;
}

/* The frames become the index's. */
static int keep_frames(struct leat_text_file *t, struct leat_compressed *d, struct leat_error *error)
{
    struct leat_text_index *x = &t->index;
    struct leat_frame *room = leat_text_index_room(x, d->n_frames + 1, sizeof *room);
    if (!room)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", t->path);
    memcpy(room, d->frames, (d->n_frames + 1) * sizeof *room);
    x->frames = d->n_frames ? room : NULL;
    x->n_frames = d->n_frames;
    x->copy_bytes = d->copy_bytes;
    return LEAT_OK;
}

/* Reads the file in order, decodes it and indexes it. */
static int make_streamed(struct leat_text_file *t, const struct leat_open_options *options, enum leat_text_mode mode,
                         enum leat_compression compression, const char *copy, bool *lasting, struct leat_error *error)
{
    struct making m = {.t = t, .options = options};
    struct leat_compressed d = {0};
    int rc = leat_text_stream_begin(t->path, &(struct leat_text_scan){.mode = mode}, &m.stream, error);
    if (rc)
        return rc;
    rc = leat_compressed_read(t->file, compression, copy, take, &m, &d, error);
    const int end = leat_text_stream_end(m.stream, !rc, &t->index, rc ? NULL : error);
    rc = rc ? rc : end;
    t->decoded = d.file;
    t->index.bytes = rc ? 0 : d.file->size;
    rc = rc || !d.frames ? rc : keep_frames(t, &d, error);
    *lasting = d.lasting;
    leat_free(d.frames);
    return rc;
}

/* Reads the index where it is kept, or makes it and keeps it; `decoded` is opened. */
static int make_index(struct leat_text_file *t, const struct leat_open_options *options, enum leat_text_mode mode,
                      bool careful, struct leat_error *error)
{
    char place[4096], copy[PATH] = "";
    enum leat_compression compression;
    int rc = leat_kept_check_dir(options->index_dir, error);
    rc = rc ? rc : leat_compression_of(t->file, &compression, error);
    if (rc)
        return rc;
    const struct leat_text_care care = {.small = LEAT_KEPT_SMALL, .careful = careful};
    bool kept = mode != LEAT_TEXT_FILE && leat_kept_path(t->path, options->index_dir, place, sizeof place);
    if (kept)
        leat_compressed_copy_place(place, copy, sizeof copy);
    if (kept && leat_text_index_load(&t->index, place, t->file, mode, &care)) {
        const struct leat_text_index *x = &t->index;
        if (!leat_compressed_open(t->file, compression, copy, x->frames, (size_t)x->n_frames, x->copy_bytes,
                                  &t->decoded, NULL))
            return LEAT_OK;
        leat_text_index_destroy(&t->index);
    }
    if (kept && options->index_dir)
        mkdir(options->index_dir, 0777);
    if (compression || mode == LEAT_TEXT_BLANK || mode == LEAT_TEXT_FILE) {
        bool lasting;
        rc = make_streamed(t, options, mode, compression, copy, &lasting, error);
        if (rc == LEAT_E_CORRUPT && compression == LEAT_COMPRESSION_BGZF) { /* other members of gzip may follow */
            leat_text_index_destroy(&t->index);
            rc = make_streamed(t, options, mode, LEAT_COMPRESSION_GZIP, copy, &lasting, error);
        }
        kept = kept && lasting;
    } else {
        const struct leat_text_scan scan = {.mode = mode, .progress = options->progress, .user = options->user};
        t->decoded = leat_io_retain(t->file);
        rc = leat_text_scan_file(t->file, &scan, &t->index, error);
    }
    if (!rc && kept && !(rc = leat_text_file_refresh(t, error)))
        leat_text_index_save(&t->index, place, t->file, mode);
    return rc;
}

/* ---- files ----------------------------------------------------------------------------------- */

int leat_text_file_open(const char *path, const struct leat_open_options *options, enum leat_text_mode mode,
                        bool careful, struct leat_text_file *t, struct leat_error *error)
{
    *t = (struct leat_text_file){.skips = options->on_bad == LEAT_BAD_SKIP};
    int rc = LEAT_E_NOMEM;
    if (!(t->path = leat_strdup(path)))
        leat_fail(error, rc, "no memory to open %s", path);
    else if (!(rc = leat_io_open(path, &t->file, error)))
        rc = make_index(t, options, mode, careful, error);
    if (!rc)
        rc = leat_text_file_refresh(t, error);
    rc = rc ? rc : leat_text_file_judge(t, options, error);
    if (rc)
        leat_text_file_close(t);
    return rc;
}

int leat_text_file_judge(struct leat_text_file *t, const struct leat_open_options *options, struct leat_error *error)
{
    t->count = t->index.count - (t->skips ? t->index.n_bad : 0);
    if (!t->index.n_bad || options->on_bad != LEAT_BAD_RAISE)
        return LEAT_OK;
    const int rc = leat_text_file_fail(t, &t->index.bad[0], LEAT_E_CORRUPT, error);
    if (error) {
        const size_t used = strlen(error->message);
        snprintf(error->message + used, sizeof error->message - used,
                 " (%" PRIu64 " of %" PRIu64 " records are broken; on_bad=\"skip\" leaves them out and counts them)",
                 t->index.n_bad, t->index.count);
    }
    return rc;
}

void leat_text_file_close(struct leat_text_file *t)
{
    leat_text_index_destroy(&t->index);
    leat_io_release(t->decoded);
    leat_io_release(t->file);
    leat_free(t->path);
    *t = (struct leat_text_file){0};
}

uint64_t leat_text_file_record(const struct leat_text_file *t, uint64_t sample, const struct leat_text_bad **bad)
{
    const struct leat_text_index *x = &t->index;
    *bad = NULL;
    if (!x->n_bad)
        return sample;
    if (!t->skips) {
        leat_text_index_bad(x, sample, bad);
        return sample;
    }
    /* and as many as broken ones stand before the sample: bad[k].record - k rises */
    return sample + LEAT_BISECT(i, 0, x->n_bad, x->bad[i].record - i <= sample);
}

/* ---- records --------------------------------------------------------------------------------- */

/* The index or the copy of a file does not fit it, or no longer: without the index, the next opening makes both anew.
 */
static int forget(const struct leat_text_file *t, const char *what, uint64_t at, struct leat_error *error)
{
    return leat_kept_wrong(t->path, t->index.path, t->index.inode, what, at, error);
}

int leat_text_file_bytes(const struct leat_text_file *t, uint64_t at, size_t n, uint8_t *to, struct leat_error *error)
{
    struct leat_error unused;
    error = error ? error : &unused;
    const int rc = leat_io_read(t->decoded, at, n, to, error);
    if (rc != LEAT_E_CORRUPT || !t->index.copy_bytes) /* else the file itself is damaged */
        return rc;
    char what[256];
    snprintf(what, sizeof what,
             "the copy in short frames that was made of it is damaged (at byte %" PRIu64 " of what it decodes to)", at);
    return forget(t, what, at, error);
}

int leat_text_file_read(const struct leat_text_file *t, uint64_t record, uint8_t **buffer, size_t *room, size_t *length,
                        uint64_t *offset, struct leat_error *error)
{
    struct leat_text_line line;
    int rc = leat_guarded_copy(&line, &t->index.lines[record], sizeof line, error); /* a large index is mapped */
    if (rc)
        return rc;
    *length = line.length;
    *offset = line.offset;
    const bool lies_within = line.offset <= t->index.bytes && line.length <= t->index.bytes - line.offset;
    if (lies_within && !leat_grow(buffer, room, (size_t)line.length + 1, 1))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a record of %" PRIu32 " bytes", line.length);
    rc = lies_within ? leat_text_file_bytes(t, line.offset, line.length, *buffer, error) : LEAT_OK;
    if (rc || (lies_within && (uint32_t)leat_hash64(*buffer, line.length) == line.check))
        return rc;
    char what[128];
    snprintf(what, sizeof what, "the %" PRIu32 " bytes at %" PRIu64 " are not those of which the index was made",
             line.length, line.offset);
    return forget(t, what, lies_within ? line.offset : 0, error);
}

/* Line ends in bytes [from, to) of the decoded ones. */
static int count_line_ends(const struct leat_text_file *t, uint64_t from, uint64_t to, uint64_t *n,
                           struct leat_error *error)
{
    enum { PIECE = 256 << 10 };
    uint8_t *piece = leat_alloc(PIECE);
    int rc = piece ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory to count the lines of %s", t->path);
    while (from < to && !rc) {
        const size_t some = to - from < PIECE ? (size_t)(to - from) : PIECE;
        if ((rc = leat_text_file_bytes(t, from, some, piece, error)))
            break;
        const uint8_t *p = piece, *const end = piece + some;
        while (p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
            ++*n;
            p++;
        }
        from += some;
    }
    leat_free(piece);
    return rc;
}

int leat_text_file_place(struct leat_text_file *t, uint64_t record, struct leat_sample_place *out,
                         struct leat_error *error)
{
    struct leat_text_line line;
    int rc = leat_guarded_copy(&line, &t->index.lines[record], sizeof line, error);
    if (rc)
        return rc;
    out->path = t->path;
    out->offset = line.offset;
    out->line = record + 1;
    if (t->index.n_lines == t->index.count) /* each line is a record */
        return LEAT_OK;
    uint64_t from = 0, n = 0;
    /* Records are mostly asked for in their order. A thread that finds another one at it begins anew. */
    const bool alone = !atomic_exchange(&t->counting, true);
    if (alone && t->counted <= out->offset) {
        from = t->counted;
        n = t->line_ends;
    }
    rc = count_line_ends(t, from, out->offset, &n, error);
    if (alone) {
        if (!rc) {
            t->counted = out->offset;
            t->line_ends = n;
        }
        atomic_store(&t->counting, false);
    }
    out->line = n + 1;
    return rc;
}

bool leat_text_file_left_out(const struct leat_text_file *t, uint64_t i, struct leat_source_left_out *out)
{
    if (!t->skips || i >= t->index.n_bad)
        return false;
    const struct leat_text_bad *bad = &t->index.bad[i];
    *out = (struct leat_source_left_out){t->path, leat_json_fault_text((unsigned)bad->fault), bad->line, bad->at};
    return true;
}

int leat_text_file_refresh(const struct leat_text_file *t, struct leat_error *error)
{
    return leat_io_unchanged(t->file, error);
}

/* Says which records were left out, or "". */
static void note(const struct leat_text_file *t, char *out, size_t room)
{
    const struct leat_text_index *x = &t->index;
    size_t used = 0;
    out[0] = 0;
    if (!x->n_bad)
        return;
    used = (size_t)snprintf(out, room, "%" PRIu64 " of %" PRIu64 " records of %s are broken and %s: ", x->n_bad,
                            x->count, t->path, t->skips ? "left out" : "marked");
    for (uint64_t i = 0; i < x->n_bad && i < 3 && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%sline %" PRIu64 ", byte %" PRIu64 ": %s", i ? "; " : "",
                                 x->bad[i].line, x->bad[i].at, leat_json_fault_text((unsigned)x->bad[i].fault));
    if (x->n_bad > 3 && used < room)
        snprintf(out + used, room - used, "; ...");
}

/* ---- sources --------------------------------------------------------------------------------- */

bool leat_text_source_begin(struct leat_text_source *t, const char *path, size_t n)
{
    t->files = leat_new_array(n, sizeof(struct leat_text_file *));
    t->path = leat_strdup(path);
    t->source.path = t->path;
    t->source.metadata = "{}";
    t->source.notice = t->notice;
    return t->files && t->path;
}

void leat_text_source_add(struct leat_text_source *t, struct leat_text_file *file)
{
    t->files[t->n_files++] = file;
}

void leat_text_source_sum(struct leat_text_source *t)
{
    size_t used = 0;
    for (size_t i = 0; i < t->n_files; i++) {
        struct leat_text_file *f = t->files[i];
        f->first = t->source.count;
        t->source.count += f->count;
        leat_fingerprint_join(t->source.fingerprint, f->index.sums[f->skips], f->count);
        if (f->index.n_bad && used + 2 < sizeof t->notice) {
            used += used ? (size_t)snprintf(t->notice + used, sizeof t->notice - used, "\n") : 0;
            note(f, t->notice + used, sizeof t->notice - used);
            used += strlen(t->notice + used);
        }
    }
}

void leat_text_source_end(struct leat_text_source *t)
{
    for (size_t i = 0; i < t->n_files; i++)
        leat_text_file_close(t->files[i]);
    leat_free(t->files);
    leat_free(t->path);
}

struct leat_text_file *leat_text_source_file(const struct leat_text_source *t, uint64_t sample)
{
    return t->files[LEAT_BISECT(i, 1, t->n_files, t->files[i]->first <= sample) - 1];
}

int leat_text_source_refresh(struct leat_source *source, struct leat_error *error)
{
    const struct leat_text_source *t = (const struct leat_text_source *)source;
    int rc = LEAT_OK;
    for (size_t i = 0; i < t->n_files && !rc; i++)
        rc = leat_text_file_refresh(t->files[i], error);
    return rc;
}

int leat_text_source_about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error)
{
    const struct leat_text_source *t = (const struct leat_text_source *)source;
    *out = (struct leat_source_about){0};
    for (size_t i = 0; i < t->n_files; i++) {
        const struct leat_text_file *f = t->files[i];
        out->bytes += f->file->size;
        *(f->skips ? &out->skipped : &out->broken) += f->index.n_bad;
    }
    return LEAT_OK;
}

int leat_text_source_place(struct leat_source *source, uint64_t sample, struct leat_sample_place *out,
                           struct leat_error *error)
{
    struct leat_text_file *f = leat_text_source_file((const struct leat_text_source *)source, sample);
    const struct leat_text_bad *bad;
    out->sample = sample - f->first;
    return leat_text_file_place(f, leat_text_file_record(f, out->sample, &bad), out, error);
}

bool leat_text_source_left_out(struct leat_source *source, uint64_t i, struct leat_source_left_out *out)
{
    const struct leat_text_source *t = (const struct leat_text_source *)source;
    size_t k = 0;
    for (; k < t->n_files && i >= t->files[k]->index.n_bad; k++)
        i -= t->files[k]->index.n_bad;
    return k < t->n_files && leat_text_file_left_out(t->files[k], i, out);
}
