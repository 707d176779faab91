/*
 * Plain text: documents are lines, paragraphs (runs of lines with nothing between them that is not empty), or whole
 * files; plain, or compressed with gzip or zstd. One field, `text`. Several files are one source. Each has an index,
 * made once (text_file.h), but for whole files, of which nobody needs one.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "format/text_file.h"

struct text {
    struct leat_text_source text;
    struct leat_field field;
    uint8_t storage;
    struct leat_text_file *files;
};

/* Any file is text: it is opened as such only where that is said. */
static bool text_recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    return false;
}

static void text_close(struct leat_source *source)
{
    struct text *t = (struct text *)source;
    leat_text_source_end(&t->text);
    leat_free(t->files);
    leat_free(t);
}

static int text_open_files(const char *const *paths, size_t n, const struct leat_open_options *options,
                           struct leat_source **out, struct leat_error *error)
{
    static const enum leat_text_mode modes[] = {LEAT_TEXT_LINES, LEAT_TEXT_BLANK, LEAT_TEXT_FILE};
    struct text *t = leat_new(struct text);
    int rc = LEAT_OK;
    *out = NULL;
    if (!t || !leat_text_source_begin(&t->text, paths[0], n) || !(t->files = leat_new_array(n, sizeof *t->files)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", paths[0]);
    for (size_t i = 0; i < n && !rc; i++)
        if (!(rc = leat_text_file_open(paths[i], options, modes[options->documents], false, &t->files[i], error)))
            leat_text_source_add(&t->text, &t->files[i]);
    if (rc) {
        if (t)
            text_close(&t->text.source);
        return rc;
    }
    leat_text_source_sum(&t->text);
    t->field = (struct leat_field){.name = "text", .kind = LEAT_KIND_STR, .dtype = LEAT_U8};
    t->storage = LEAT_STORAGE_COMPUTED;
    t->text.source.v = &leat_format_text;
    t->text.source.fields = &t->field;
    t->text.source.n_fields = 1;
    t->text.source.storage = &t->storage;
    *out = &t->text.source;
    return LEAT_OK;
}

static int text_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                     struct leat_error *error)
{
    return text_open_files(&path, 1, options, out, error);
}

static int text_compute(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                        size_t n, struct leat_values *out, size_t *failed, struct leat_error *error)
{
    const struct leat_text_source *t = (const struct leat_text_source *)source;
    const struct leat_text_bad *bad;
    uint8_t *buffer = NULL;
    size_t room = 0, i;
    int rc = LEAT_OK;
    for (i = 0; i < n; i++) {
        const struct leat_text_file *f = leat_text_source_file(t, samples[i]);
        const uint64_t record = leat_text_file_record(f, samples[i] - f->first, &bad);
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

const struct leat_source_vtable leat_format_text = {
    .name = "text",
    .recognise = text_recognise,
    .judges = true,
    .open = text_open,
    .open_files = text_open_files,
    .close = text_close,
    .compute = text_compute,
    .refresh = leat_text_source_refresh,
    .about = leat_text_source_about,
    .place = leat_text_source_place,
    .left_out = leat_text_source_left_out,
};
