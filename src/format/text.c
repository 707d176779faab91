/*
 * Plain text: documents are lines, paragraphs (runs of lines with nothing between them that is not empty), or whole
 * files; plain, or compressed with gzip or zstd. One field, `text`. Several files are one source. Each has an index,
 * made once (text_file.h), but for whole files, of which nobody needs one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/fingerprint.h"
#include "format/source.h"
#include "format/text_file.h"

enum { NOTE = 2048 };

struct text {
    struct leat_source source;
    struct leat_field field;
    uint8_t storage;
    char *path;
    struct leat_text_file *files;
    uint64_t *firsts; /* sample of each file */
    size_t n_files;
    char notice[NOTE];
};

/* Any file is text: it is opened as such only where that is said. */
static bool text_recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    return false;
}

static void text_close(struct leat_source *source)
{
    struct text *t = (struct text *)source;
    for (size_t i = 0; i < t->n_files; i++)
        leat_text_file_close(&t->files[i]);
    leat_free(t->files);
    leat_free(t->firsts);
    leat_free(t->path);
    leat_free(t);
}

static int open_files(struct text *t, const char *const *paths, size_t n, const struct leat_open_options *options,
                      struct leat_error *error)
{
    static const enum leat_text_mode modes[] = {LEAT_TEXT_LINES, LEAT_TEXT_BLANK, LEAT_TEXT_FILE};
    size_t used = 0;
    int rc = LEAT_OK;
    for (size_t i = 0; i < n && !rc; i++) {
        struct leat_text_file *f = &t->files[i];
        if ((rc = leat_text_file_open(paths[i], options, modes[options->documents], false, f, error)))
            break;
        t->n_files++;
        t->firsts[i] = t->source.count;
        t->source.count += f->count;
        leat_fingerprint_join(t->source.fingerprint, f->index.sums[f->skips], f->count);
        if (f->index.n_bad && used + 2 < NOTE) {
            used += used ? (size_t)snprintf(t->notice + used, NOTE - used, "\n") : 0;
            leat_text_file_note(f, t->notice + used, NOTE - used);
            used += strlen(t->notice + used);
        }
    }
    return rc;
}

static int text_open_files(const char *const *paths, size_t n, const struct leat_open_options *options,
                           struct leat_source **out, struct leat_error *error)
{
    struct text *t = leat_new(struct text);
    int rc = LEAT_E_NOMEM;
    *out = NULL;
    if (!t || !(t->path = leat_strdup(paths[0])) || !(t->files = leat_new_array(n, sizeof *t->files)) ||
        !(t->firsts = leat_new_array(n, sizeof *t->firsts)))
        leat_fail(error, rc, "no memory to open %s", paths[0]);
    else if (options->n_fields)
        rc = leat_fail(error, LEAT_E_INVALID, "plain text has one field, \"text\": leave fields out");
    else
        rc = open_files(t, paths, n, options, error);
    if (rc) {
        if (t)
            text_close(&t->source);
        return rc;
    }
    t->field = (struct leat_field){.name = "text", .kind = LEAT_KIND_STR, .dtype = LEAT_U8};
    t->storage = LEAT_STORAGE_COMPUTED;
    t->source.v = &leat_format_text;
    t->source.path = t->path;
    t->source.fields = &t->field;
    t->source.n_fields = 1;
    t->source.storage = &t->storage;
    t->source.metadata = "{}";
    t->source.notice = t->notice;
    *out = &t->source;
    return LEAT_OK;
}

static int text_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                     struct leat_error *error)
{
    return text_open_files(&path, 1, options, out, error);
}

static size_t file_of(const struct text *t, uint64_t sample)
{
    size_t low = 0, high = t->n_files - 1;
    while (low < high) {
        const size_t middle = high - (high - low) / 2;
        if (t->firsts[middle] <= sample)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static int text_compute(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                        size_t n, struct leat_values *out, size_t *failed, struct leat_error *error)
{
    const struct text *t = (const struct text *)source;
    const struct leat_text_bad *bad;
    uint8_t *buffer = NULL;
    size_t room = 0, i;
    int rc = LEAT_OK;
    for (i = 0; i < n; i++) {
        const size_t number = file_of(t, samples[i]);
        const struct leat_text_file *f = &t->files[number];
        const uint64_t record = leat_text_file_record(f, samples[i] - t->firsts[number], &bad);
        size_t length = 0;
        uint64_t offset;
        rc = bad                          ? leat_text_file_fail(f, bad, LEAT_E_DECODE, error)
             : leat_values_cancelled(out) ? leat_fail(error, LEAT_E_CANCELLED, "reading was cancelled")
                                          : leat_text_file_read(f, record, &buffer, &room, &length, &offset, error);
        for (size_t k = 0; k < n_fields && !rc; k++)
            if (leat_values_put(out, k, i, buffer, length))
                rc = leat_fail(error, LEAT_E_NOMEM, "no memory for values of %s", f->path);
        if (rc)
            break;
    }
    *failed = i;
    leat_free(buffer);
    return rc;
}

static int text_refresh(struct leat_source *source, struct leat_error *error)
{
    const struct text *t = (const struct text *)source;
    int rc = LEAT_OK;
    for (size_t i = 0; i < t->n_files && !rc; i++)
        rc = leat_text_file_refresh(&t->files[i], error);
    return rc;
}

static int text_about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error)
{
    const struct text *t = (const struct text *)source;
    *out = (struct leat_source_about){0};
    for (size_t i = 0; i < t->n_files; i++) {
        const struct leat_text_file *f = &t->files[i];
        out->bytes += f->file->size;
        *(f->skips ? &out->skipped : &out->broken) += f->index.n_bad;
    }
    return LEAT_OK;
}

static int text_place(struct leat_source *source, uint64_t sample, struct leat_sample_place *out,
                      struct leat_error *error)
{
    const struct text *t = (const struct text *)source;
    const size_t number = file_of(t, sample);
    const struct leat_text_bad *bad;
    out->sample = sample - t->firsts[number];
    return leat_text_file_place(&t->files[number], leat_text_file_record(&t->files[number], out->sample, &bad), out,
                                error);
}

static bool text_left_out(struct leat_source *source, uint64_t i, struct leat_source_left_out *out)
{
    const struct text *t = (const struct text *)source;
    size_t k = 0;
    for (; k < t->n_files && i >= t->files[k].index.n_bad; k++)
        i -= t->files[k].index.n_bad;
    return k < t->n_files && leat_text_file_left_out(&t->files[k], i, out);
}

const struct leat_source_vtable leat_format_text = {
    .name = "text",
    .recognise = text_recognise,
    .judges = true,
    .open = text_open,
    .open_files = text_open_files,
    .close = text_close,
    .compute = text_compute,
    .refresh = text_refresh,
    .about = text_about,
    .place = text_place,
    .left_out = text_left_out,
};
