/* A folder of photos with annotations beside it: annotated.h. */
#include "format/annotated.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/fingerprint.h"
#include "io/interrupt.h"

enum { IMAGE = 0, EXAMPLES = 3, LONGEST = 8192 };
#define ASK_NS INT64_C(100000000)

static struct leat_annotated *of(struct leat_source *source)
{
    return (struct leat_annotated *)source;
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* The kind of this name, or the first that is free; of too many the last. */
static struct leat_fault_kind *kind_of(struct leat_fault_kind *kinds, size_t n, const char *what)
{
    struct leat_fault_kind *kind = kinds;
    while (kind->what && strcmp(kind->what, what) != 0 && kind < kinds + n - 1)
        kind++;
    kind->what = what;
    return kind;
}

static void show(struct leat_fault_kind *kind, char *text)
{
    leat_shorten(text, sizeof kind->examples);
    kind->shown += leat_add_example(kind->examples, sizeof kind->examples, text);
}

int leat_fault(struct leat_annotated *a, struct leat_error *error, int code, const char *what, const char *format, ...)
{
    char text[LONGEST];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (a->on_bad == LEAT_BAD_RAISE)
        return leat_fail_at(error, code, a->path, LEAT_NO_OFFSET,
                            "%s (with \"skip\", such entries are left out and counted)", text);
    struct leat_fault_kind *kind = kind_of(a->faults, LEAT_FAULT_KINDS, what);
    if (kind->n++ < EXAMPLES)
        show(kind, text);
    a->skipped++;
    return LEAT_OK;
}

void leat_annotated_tell(struct leat_annotated *a, const char *what, const char *format, ...)
{
    struct leat_fault_kind *kind = kind_of(a->told, LEAT_TOLD_KINDS, what);
    char text[512];
    va_list args;
    if (kind->n++ >= EXAMPLES) /* there may be millions */
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    show(kind, text);
}

void leat_annotated_untell(struct leat_annotated *a, const char *what)
{
    *kind_of(a->told, LEAT_TOLD_KINDS, what) = (struct leat_fault_kind){.what = what};
}

int leat_annotated_mark(struct leat_annotated *a, uint64_t sample, struct leat_error *error)
{
    if (a->on_bad != LEAT_BAD_MARK)
        return LEAT_OK;
    if (!leat_grow(&a->marked, &a->marked_room, a->n_marked + 1, sizeof *a->marked))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", a->path);
    a->marked[a->n_marked++] = sample;
    return LEAT_OK;
}

static void note_faults(struct leat_annotated *a)
{
    for (struct leat_fault_kind *k = a->faults; k < a->faults + LEAT_FAULT_KINDS && k->what; k++)
        leat_note(&a->notes, "%s: %" PRIu64 " %s: %s%s", a->on_bad == LEAT_BAD_MARK ? "marked" : "left out", k->n,
                  k->what, k->examples, k->n > k->shown ? "; ..." : "");
    for (struct leat_fault_kind *k = a->told; k < a->told + LEAT_TOLD_KINDS && k->what; k++)
        if (k->n)
            leat_note(&a->notes, "%" PRIu64 " %s: %s%s", k->n, k->what, k->examples, k->n > k->shown ? "; ..." : "");
}

int leat_annotated_ask(struct leat_annotated *a, uint64_t done, uint64_t total, struct leat_error *error)
{
    const int64_t now = leat_clock_ns();
    if (now - a->asked_ns < ASK_NS)
        return LEAT_OK;
    const bool first = !a->asked_ns; /* what takes no time is not told */
    a->asked_ns = now;
    if (!first &&
        (leat_io_interrupted() || (a->options->progress && a->options->progress(a->options->user, done, total))))
        return leat_fail(error, LEAT_E_CANCELLED, "reading the annotations in %s was interrupted", a->path);
    return LEAT_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A class that the options name, without the mark of byte order of the text that it is from. */
static const char *given_name(const struct leat_open_options *options, size_t class)
{
    const char *name = options->classes[class];
    return name + (!class && !strncmp(name, "\xef\xbb\xbf", 3) ? 3 : 0);
}

int leat_annotated_classes(struct leat_annotated *a, const struct leat_open_options *options, struct leat_error *error)
{
    size_t n = options->n_classes;
    if (!n)
        return LEAT_OK;
    while (n && leat_is_blank(given_name(options, n - 1)))
        n--;
    if (!n)
        return leat_fail(error, LEAT_E_INVALID, "of the classes, none has a name");
    const char **sorted = leat_new_array(n, sizeof *sorted);
    int rc = sorted && (a->classes = leat_new_array(n, sizeof *a->classes)) ? LEAT_OK : LEAT_E_NOMEM;
    for (size_t i = 0; i < n && !rc; i++) {
        const char *name = given_name(options, i);
        if (leat_is_blank(name)) {
            rc = leat_fail(error, LEAT_E_INVALID,
                           "of the classes, number %zu has no name, and others follow: name it, or remove it if theirs "
                           "are the numbers from %zu on",
                           i, i);
            break;
        }
        sorted[i] = a->classes[i] = leat_strdup(name);
        if (!sorted[i]) {
            rc = LEAT_E_NOMEM;
            break;
        }
        leat_trim(a->classes[i]);
        a->n_classes++;
    }
    if (rc == LEAT_E_NOMEM)
        leat_fail(error, rc, "no memory for %zu classes", n);
    if (!rc)
        qsort(sorted, n, sizeof *sorted, compare_names);
    for (size_t i = 1; i < n && !rc; i++)
        if (!strcmp(sorted[i - 1], sorted[i]))
            rc = leat_fail(error, LEAT_E_INVALID, "of the classes, %s stands twice: each has a name of its own",
                           sorted[i]);
    leat_free(sorted);
    return rc;
}

const char *leat_box_fault(float b[4], double w, double h)
{
    const float right = (float)w, low = (float)h;
    if (!isfinite(b[0]) || !isfinite(b[1]) || !isfinite(b[2]) || !isfinite(b[3]))
        return "is not finite";
    if (b[2] < b[0] || b[3] < b[1])
        return "is inverted";
    if (b[2] == b[0] || b[3] == b[1])
        return "has no area";
    if (b[0] >= right || b[1] >= low || b[2] <= 0 || b[3] <= 0)
        return "lies outside of its image";
    for (int i = 0; i < 4; i++)
        b[i] = b[i] < 0 ? 0 : i & 1 ? fminf(b[i], low) : fminf(b[i], right);
    return NULL;
}

bool leat_annotated_box(struct leat_annotated *a, const float box[4], double w, double h)
{
    return leat_box_counts_add(&a->boxes, &a->given, box, isfinite(w) ? w : 0, isfinite(h) ? h : 0);
}

void leat_annotated_stray(struct leat_annotated *a, const char *format, ...)
{
    const uint64_t n = a->boxes.not_finite + a->boxes.empty + a->boxes.outside + a->boxes.cut;
    char text[512];
    va_list args;
    if (n > EXAMPLES)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    leat_add_example(a->strays, sizeof a->strays, text);
}

/* The text between a sentence, a question or not, and the next one. */
static const char *end_of(const char *text)
{
    const size_t n = strlen(text);
    return !n ? "" : text[n - 1] == '?' ? " " : ". ";
}

/* Boxes that probably have another format than the file's should have. */
static void note_boxes(struct leat_annotated *a)
{
    const struct leat_box_counts *n = &a->boxes;
    char text[400];
    if (leat_box_counts_suspect(n, &a->given, text, sizeof text))
        leat_note(&a->notes, "%s: %s%s%s%s", a->path, text, *a->strays ? end_of(text) : "",
                  *a->strays ? "The first: " : "", a->strays);
}

/* Two classes that look alike are probably one: the first two that do are said. NOMEM. */
static int note_classes(struct leat_annotated *a, struct leat_error *error)
{
    struct leat_names names = {0};
    bool good = true;
    size_t other;
    for (size_t i = 0; i < a->n_classes && good; i++) {
        if (leat_names_find_form(&names, a->classes[i], &other)) {
            char forms[1200];
            leat_note(&a->notes, "two of the classes of %s look alike%s", a->path,
                      leat_names_say_forms(a->classes[other], a->classes[i], false, forms, sizeof forms));
            break;
        }
        good = leat_names_add(&names, a->classes[i]);
    }
    leat_names_destroy(&names);
    return good ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for %zu classes", a->n_classes);
}

/* ---- reading --------------------------------------------------------------------------------- */

static uint64_t begin_of(const struct leat_column *c, uint64_t sample)
{
    return (c->first ? c->first[sample] : sample) * c->step;
}

static uint64_t length_of(const struct leat_column *c, uint64_t sample)
{
    return c->first ? (c->first[sample + 1] - c->first[sample]) * c->step : c->step;
}

static int rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                const void **out, size_t *failed, struct leat_error *error)
{
    const struct leat_column *c = &of(source)->columns[field - 1];
    for (size_t i = 0; i < n; i++)
        out[i] = c->data + begin_of(c, samples[i]);
    return LEAT_OK;
}

static int column_of(struct leat_source *source, size_t field, const void **data, struct leat_error *error)
{
    *data = of(source)->columns[field - 1].data;
    return LEAT_OK;
}

/* The files that the values of a field are: of the photos, or of masks; else NULL. */
static struct leat_photo_files *files_of(struct leat_annotated *a, size_t field)
{
    return field == IMAGE ? &a->photos : field == a->n_columns + 1 ? a->beside : NULL;
}

/* Files: those of the photos, their names, one per column, then those of masks. */
static int extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, struct leat_extent *out,
                   size_t *failed, struct leat_error *error)
{
    struct leat_annotated *a = of(source);
    struct leat_photo_files *files = files_of(a, field);
    if (files) {
        leat_photo_files_extents(files, samples, n, out);
        for (size_t i = 0; i < n && files == a->beside; i++)
            out[i].file += source->count + a->n_columns + 1;
        return LEAT_OK;
    }
    if (field > a->n_columns) {
        leat_photo_files_names(&a->photos, samples, n, out);
        return LEAT_OK;
    }
    const struct leat_column *c = &a->columns[field - 1];
    for (size_t i = 0; i < n; i++)
        out[i] = (struct leat_extent){
            .file = source->count + field, .offset = begin_of(c, samples[i]), .length = length_of(c, samples[i])};
    return LEAT_OK;
}

static int file(struct leat_source *source, uint64_t number, struct leat_io_file **out, struct leat_error *error)
{
    struct leat_annotated *a = of(source);
    if (number <= source->count)
        return leat_photo_files_open(&a->photos, number, out, error);
    if (number > source->count + a->n_columns)
        return leat_photo_files_open(a->beside, number - source->count - a->n_columns - 1, out, error);
    *out = leat_io_retain(a->columns[number - source->count - 1].file);
    return LEAT_OK;
}

static void mark(struct leat_source *source, size_t field, uint64_t sample, bool verified, enum leat_health found)
{
    struct leat_photo_files *files = files_of(of(source), field);
    if (files)
        leat_photo_files_mark(files, sample, found);
}

static bool recall(struct leat_source *source, size_t field, uint64_t sample, uint8_t *to, uint32_t length,
                   const uint64_t *checksum)
{
    return leat_folder_rows_recall(files_of(of(source), field)->rows, sample, to, length, checksum);
}

static void keep(struct leat_source *source, size_t field, uint64_t sample, const void *photo, size_t photo_bytes,
                 const uint8_t *index, size_t length)
{
    const struct leat_photo_files *files =
        files_of(of(source), field); /* a column of PNGs is in memory, and has none */
    if (files)
        leat_folder_rows_keep(files->rows, sample, photo, photo_bytes, index, length);
}

static int verify(struct leat_source *source, const struct leat_verify_options *options, uint64_t first_id,
                  struct leat_error *error)
{
    struct leat_annotated *a = of(source);
    int rc = leat_photo_files_verify(&a->photos, "image", options, first_id, error);
    return rc || !a->beside ? rc : leat_photo_files_verify(a->beside, "mask", options, first_id, error);
}

static int about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error)
{
    struct leat_annotated *a = of(source);
    *out = (struct leat_source_about){.bytes = leat_photo_files_bytes(&a->photos) +
                                               (a->beside ? leat_photo_files_bytes(a->beside) : 0),
                                      .broken = UINT64_MAX,
                                      .skipped = a->skipped,
                                      .boxes = a->boxes};
    return LEAT_OK;
}

static const struct leat_source_vtable functions = {
    .close = leat_annotated_close,
    .rows = rows,
    .extents = extents,
    .file = file,
    .mark = mark,
    .recall = recall,
    .keep = keep,
    .column = column_of,
    .verify = verify,
    .about = about,
};

/* ---- opening --------------------------------------------------------------------------------- */

int leat_annotated_new(const struct leat_source_vtable *format, const char *path,
                       const struct leat_open_options *options, struct leat_annotated **out, struct leat_error *error)
{
    *out = NULL;
    if (format->annotates && !options->annotations)
        return leat_fail(error, LEAT_E_INVALID,
                         "%s: the format \"%s\" is a folder of photos with annotations: name both, as in "
                         "leat.open(\"images/\", annotations=...)",
                         path, format->name);
    struct leat_annotated *a = leat_new(struct leat_annotated);
    int rc = a && (a->path = leat_absolute_path(format->annotates ? options->annotations : path))
                 ? leat_photo_files_scan(&a->photos, path, options, error)
                 : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    if (rc) {
        if (a)
            leat_annotated_close(&a->source);
        return rc;
    }
    a->options = options;
    a->on_bad = options->on_bad;
    a->functions = functions;
    a->functions.name = format->name;
    a->source.v = &a->functions;
    a->source.path = a->photos.root;
    *out = a;
    return LEAT_OK;
}

void leat_annotated_close(struct leat_source *source)
{
    struct leat_annotated *a = of(source);
    leat_photo_files_destroy(&a->photos);
    if (a->beside)
        leat_photo_files_destroy(a->beside);
    leat_free(a->beside);
    for (size_t c = 0; c < a->n_columns; c++) {
        leat_io_release(a->columns[c].file);
        leat_free(a->columns[c].data);
        leat_free(a->columns[c].own_first);
        leat_free(a->columns[c].pairs);
    }
    for (size_t c = 0; c < a->n_classes; c++)
        leat_free(a->classes[c]);
    leat_free(a->classes);
    leat_free(a->first);
    leat_free(a->metadata);
    leat_free(a->marked);
    leat_free(a->notes.text);
    leat_names_destroy(&a->sidecars);
    leat_free(a->path);
    leat_free(a);
}

struct leat_column *leat_annotated_column(struct leat_annotated *a, const char *name, enum leat_dtype dtype,
                                          enum leat_role role, bool ragged, int64_t width)
{
    struct leat_column *c = &a->columns[a->n_columns++];
    c->name = name;
    c->field = (struct leat_field){.name = name, .kind = LEAT_KIND_ARRAY, .dtype = dtype, .role = role};
    c->step = leat_dtype_size(dtype) * (uint64_t)(width ? width : 1);
    if (ragged) {
        c->first = a->first;
        c->field.shape[c->field.ndim++] = -1;
    }
    if (width)
        c->field.shape[c->field.ndim++] = width;
    return c;
}

struct leat_column *leat_annotated_masks(struct leat_annotated *a)
{
    struct leat_column *c = leat_annotated_column(a, "masks", LEAT_U8, LEAT_ROLE_MASKS, false, 0);
    c->field.kind = LEAT_KIND_BYTES;
    return c;
}

bool leat_column_push(struct leat_column *c, const void *step)
{
    if (!leat_grow(&c->data, &c->room, c->n + 1, (size_t)c->step))
        return false;
    memcpy(c->data + c->n++ * c->step, step, (size_t)c->step);
    return true;
}

void *leat_column_fill(struct leat_column *column, uint64_t n)
{
    column->room = (size_t)n + 1;
    return column->data = leat_new_array(n + 1, column->step); /* of none, too */
}

/* Annotations of which none is left are probably of another kind, or for other photos. A few wrong ones beside photos
 * without any are faults like others. */
static int check_instances(struct leat_annotated *a, uint64_t count, struct leat_error *error)
{
    const struct leat_fault_kind *k = a->faults;
    char asked[400] = "";
    if (!a->tried || a->tried < count / 2 || !a->first || a->first[count])
        return LEAT_OK;
    for (const struct leat_fault_kind *other = k; other < a->faults + LEAT_FAULT_KINDS && other->what; other++)
        k = other->n > k->n ? other : k; /* the most frequent */
    const bool suspect = leat_box_counts_suspect(&a->boxes, &a->given, asked, sizeof asked);
    return leat_fail_at(error, LEAT_E_CORRUPT, a->path, LEAT_NO_OFFSET,
                        "of %s, no annotation is left: each of the %" PRIu64 " is wrong. %s%s%" PRIu64 " %s: %s%s",
                        a->path, a->tried, suspect ? asked : "", suspect ? end_of(asked) : "", k->n, k->what,
                        k->examples, k->n > k->shown ? "; ..." : "");
}

static void sum(struct leat_annotated *a)
{
    const struct leat_listing *l = &a->photos.listing;
    for (uint64_t i = 0; i < a->source.count; i++) {
        uint64_t sample[2] = {0, 0};
        leat_fingerprint_file(sample, l->names + l->files[i].name, l->files[i].size);
        for (size_t c = 0; c < a->n_columns; c++) {
            const struct leat_column *column = &a->columns[c];
            leat_fingerprint_value(sample,
                                   leat_hash64(column->data + begin_of(column, i), (size_t)length_of(column, i)));
        }
        if (a->beside) /* as a file that goes by the photo's name */
            leat_fingerprint_file(sample, l->names + l->files[i].name, a->beside->listing.files[i].size);
        leat_fingerprint_append(a->source.fingerprint, sample);
    }
}

static int finish(struct leat_annotated *a, const struct leat_open_options *options, struct leat_error *error)
{
    const uint64_t count = a->photos.listing.n_files;
    int rc = check_instances(a, count, error);
    rc = rc ? rc : note_classes(a, error);
    rc = rc ? rc : leat_photo_files_ready(&a->photos, options, error);
    size_t n = 0;
    a->fields[n] =
        (struct leat_field){.name = "image", .kind = LEAT_KIND_IMAGE, .dtype = LEAT_U8, .flags = LEAT_FIELD_FILES};
    a->storage[n++] = LEAT_STORAGE_EXTENT;
    for (size_t c = 0; !rc && c < a->n_columns; c++) {
        struct leat_column *column = &a->columns[c];
        a->fields[n] = column->field;
        a->storage[n++] = column->first ? LEAT_STORAGE_EXTENT : LEAT_STORAGE_MAPPED;
        uint64_t bytes = count ? begin_of(column, count - 1) + length_of(column, count - 1) : 0;
        rc = leat_io_from_memory(a->path, column->data, bytes, &column->file, error);
    }
    if (a->beside) {
        a->fields[n] = (struct leat_field){.name = "mask",
                                           .kind = LEAT_KIND_IMAGE,
                                           .dtype = LEAT_U8,
                                           .flags = LEAT_FIELD_FILES,
                                           .role = LEAT_ROLE_MASK};
        a->storage[n++] = LEAT_STORAGE_EXTENT;
    }
    a->fields[n] =
        (struct leat_field){.name = "name", .kind = LEAT_KIND_STR, .dtype = LEAT_U8, .flags = LEAT_FIELD_DERIVED};
    a->storage[n++] = LEAT_STORAGE_EXTENT;
    if (rc)
        return rc;
    a->options = NULL; /* the caller's */
    leat_names_destroy(&a->sidecars);
    a->source.count = count;
    a->source.fields = a->fields;
    a->source.n_fields = n;
    a->source.storage = a->storage;
    a->source.classes = (const char *const *)a->classes;
    a->source.n_classes = a->n_classes;
    a->source.metadata = a->metadata ? a->metadata : "{}";
    for (size_t i = 0; i < a->n_marked; i++)
        leat_photo_files_mark(&a->photos, a->marked[i], LEAT_HEALTH_BROKEN);
    note_faults(a);
    note_boxes(a);
    a->source.notice = a->notes.text ? a->notes.text : "";
    sum(a);
    return LEAT_OK;
}

int leat_annotated_finish(struct leat_annotated *a, int rc, const struct leat_open_options *options,
                          struct leat_source **out, struct leat_error *error)
{
    rc = rc ? rc : finish(a, options, error);
    if (!rc)
        *out = &a->source;
    else if (a)
        leat_annotated_close(&a->source);
    return rc;
}
