/*
 * The known formats, and which of them a path has. A path is recognised by its content: a folder, or the bytes of a
 * file. Its name counts only where it shows that a file is damaged.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/error.h"
#include "format/event_line.h"
#include "format/json_text.h"
#include "format/nearby.h"
#include "format/source.h"
#include "format/together.h"
#include "io/paths.h"

#define LEAT_FORMAT(name) &leat_format_##name,
const struct leat_source_vtable *const leat_formats[] = {&leat_format_native,
#include "format/formats.def"
                                                         NULL};
#undef LEAT_FORMAT

enum { HEAD = 4096 };
static const uint8_t XZ[] = {0xfd, '7', 'z', 'X', 'Z', 0};

/* Formats that the Python package opens, and so the commands, by names of files or by `format`. */
#define BY_PACKAGE "parquet, arrow, hf, h5ad, zarr, 10x, scdl, hdf5, lance, array_record"

/* Names that files are known by elsewhere. */
static const char *name_here(const char *name)
{
    static const char *const others[][2] = {{"webdataset", "tar"}, {"wds", "tar"},       {"ffcv", "beton"},
                                            {"mosaic", "mds"},     {"streaming", "mds"}, {"tfrecords", "tfrecord"},
                                            {"anndata", "h5ad"},   {"numpy", "npy"},     {"imagefolder", "folder"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcasecmp(name, others[i][0]))
            return others[i][1];
    return NULL;
}

static void list_names(char *text, size_t room)
{
    text[0] = 0;
    for (size_t i = 0, used = 0; leat_formats[i] && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s\"%s\"", i ? ", " : "", leat_formats[i]->name);
}

static int by_name(const char *name, const struct leat_source_vtable **out, struct leat_error *error)
{
    char names[512];
    for (size_t i = 0; leat_formats[i]; i++)
        if (strcmp(leat_formats[i]->name, name) == 0) {
            *out = leat_formats[i];
            return LEAT_OK;
        }
    const char *here = name_here(name);
    if (here)
        return leat_fail(error, LEAT_E_INVALID, "there is no format \"%s\": here it is \"%s\", or \"auto\"", name,
                         here);
    list_names(names, sizeof names);
    return leat_fail(error, LEAT_E_INVALID,
                     "there is no format \"%s\"; this version of leat has %s, its Python package also " BY_PACKAGE
                     ", and both \"auto\"",
                     name, names);
}

/* Whether the first line that is one has three numbers and more. */
static bool has_numbers(const char *text, size_t n)
{
    float features[HEAD / 2 + 1];
    struct leat_event event;
    struct leat_event_fault fault;
    for (const char *end; (end = memchr(text, '\n', n)); text = end + 1) {
        const size_t length = (size_t)(end - text);
        if (!leat_event_line_is_nothing(LEAT_EVENTS_PLAIN, text, length))
            return leat_event_line_read(LEAT_EVENTS_PLAIN, text, length, &event, features, &fault);
        n -= length + 1;
    }
    return false;
}

/* How a file opens that shows no format by itself. NULL: nobody knows. */
static const char *advice_for(const char *path, const uint8_t *head, size_t n)
{
    const char *text = (const char *)head, *dot = strrchr(path, '.');
    const size_t bom = n >= 3 && !memcmp(head, "\xef\xbb\xbf", 3) ? 3 : 0, blank = strspn(text + bom, " \t\r\n") + bom;
    if (n > 6 && (!memcmp(head, "PAR1", 4) || !memcmp(head, "ARROW1", 6)))
        return head[0] == 'P' ? "Parquet is told by its name, FILE.parquet, or in Python by format=\"parquet\""
                              : "Arrow is told by its name, FILE.arrow, or in Python by format=\"arrow\"";
    if (memchr(head, 0, n))
        return NULL;
    if (dot && (!strcasecmp(dot, ".csv") || !strcasecmp(dot, ".tsv")))
        return "tables of text are read by pyarrow, leat.from_arrow(pyarrow.csv.read_csv(path)); "
               "lines of src, dst and time open by format=\"events\"";
    if (text[blank] == '[' || text[blank] == '{')
        return "records of JSON have one line each, as jq -c '.[]' writes them, and a single one is told by its name, "
               "FILE.jsonl; COCO's annotations open with their photos, leat.open(photos, annotations=path)";
    if (has_numbers(text + bom, n - bom))
        return "lines of numbers may be anything; format=\"events\" takes them as events of src, dst and time, "
               "format=\"text\" as text";
    for (size_t i = 0; i < n; i++)
        if (head[i] < ' ' && !strchr("\t\r\n\f", head[i]))
            return NULL;
    if (leat_utf8_check(head, n) + 3 < n) /* a character may be cut */
        return NULL;
    return "text opens if that is said, by format=\"text\"";
}

static int by_content(const char *path, bool annotations, bool folder, const uint8_t *head, size_t n,
                      const struct leat_source_vtable **out, struct leat_error *error)
{
    char names[512];
    for (size_t i = 0; leat_formats[i]; i++) {
        bool (*is)(const char *, bool, const uint8_t *, size_t) =
            annotations ? leat_formats[i]->annotates : leat_formats[i]->recognise;
        if (is && is(path, folder, head, n)) {
            *out = leat_formats[i];
            return LEAT_OK;
        }
    }
    const char *dot = strrchr(path, '.'), *advice;
    const char *other = n > 6 && !memcmp(head, "BZh", 3)        ? "bzip2"
                        : n > 6 && !memcmp(head, XZ, sizeof XZ) ? "xz"
                                                                : NULL;
    const bool yaml = n && dot && (!strcasecmp(dot, ".yaml") || !strcasecmp(dot, ".yml"));
    int rc;
    list_names(names, sizeof names);
    if (yaml)
        rc =
            leat_fail(error, LEAT_E_FORMAT,
                      "%s is no data set: one of YOLO is a folder of photos, with that of their labels as annotations, "
                      "such as images/train and labels/train; the names of classes are found",
                      path);
    else if (annotations && (folder || n))
        rc = leat_fail(
            error, LEAT_E_FORMAT,
            "%s holds no annotations that this version of leat reads: of COCO name the .json file with images, "
            "annotations and categories, of YOLO (.txt), Pascal VOC (.xml) and masks (.png) the folder of the "
            "files",
            path);
    else if (n > 1 && head[0] == 0x1f && head[1] == 0x8b)
        rc = leat_fail(error, LEAT_E_FORMAT,
                       "%s is compressed with gzip, and what is in it is none of the formats that are recognised so: "
                       "decompress it (gzip -dk), or name its format",
                       path);
    else if (other)
        rc = leat_fail(error, LEAT_E_FORMAT,
                       "%s is compressed with %s, and leat reads gzip and zstd: decompress it (%s -dk)", path, other,
                       other);
    else if (!folder && n && (advice = advice_for(path, head, n)))
        rc = leat_fail(error, LEAT_E_FORMAT, "%s is no format that leat recognises: %s", path, advice);
    else if (folder || n)
        rc = leat_fail(
            error, LEAT_E_FORMAT,
            "%s is no format that this version of leat reads (%s; the Python package also, by the names of files or "
            "`format`, " BY_PACKAGE "); leat.pack, or leat pack --dataset, packs what a Python data set reads of it",
            path, names);
    else
        rc = leat_fail(error, LEAT_E_FORMAT, "%s is empty: there is nothing to open", path);
    leat_error_at_file(error, path, LEAT_NO_OFFSET);
    return rc;
}

/* For a folder that is no annotations: one in it, or a file of COCO. */
static bool find_annotations(const char *folder, const char *photos, char *out, size_t room)
{
    DIR *dir = opendir(folder);
    bool found = false;
    for (const struct dirent *e; dir && !found && (e = readdir(dir));) {
        if (e->d_name[0] == '.' || snprintf(out, room, "%s/%s", folder, e->d_name) >= (int)room)
            continue;
        for (size_t i = 0; leat_formats[i] && !found; i++)
            found = leat_formats[i]->annotates && leat_formats[i]->annotates(out, true, NULL, 0);
    }
    if (dir)
        closedir(dir);
    return found || leat_nearby_json(folder, photos, out, room);
}

/* The advice for a path that is not there, and is probably meant as something else; NULL: there is none. */
static const char *no_path(const char *path)
{
    if (strstr(path, "://"))
        return ": paths, and addresses of http:// and https://, are read";
    return *path == '~' || strstr(path, "/~") ? ": ~ is a home directory in the shell alone, and not in quotes" : NULL;
}

void leat_source_suggest(const char *path, const struct leat_open_options *options, struct leat_error *error)
{
    struct stat st;
    char other[600];
    bool found = false;
    const char *annotations = options->annotations;
    if (!error || leat_io_is_remote(path))
        return;
    const size_t used = strlen(error->message);
    const char *hint = NULL;
    if (stat(path, &st))
        found = errno == ENOENT && leat_nearby_path(path, NULL, annotations, other, sizeof other);
    else if (annotations && stat(annotations, &st))
        found = errno == ENOENT && leat_nearby_path(annotations, path, false, other, sizeof other);
    else if (annotations && error->code == LEAT_E_FORMAT && S_ISDIR(st.st_mode))
        found = find_annotations(annotations, path, other, sizeof other);
    else if (!annotations && error->code == LEAT_E_IO && S_ISDIR(st.st_mode)) { /* a file was asked for by `format` */
        if (leat_together_hint(path, other, sizeof other))
            snprintf(error->message + used, sizeof error->message - used, "%s", other);
        return;
    }
    if (!found && stat(path, &st) && errno == ENOENT && (hint = no_path(path)))
        snprintf(error->message + used, sizeof error->message - used, "%s", hint);
    if (found)
        snprintf(error->message + used, sizeof error->message - used, ": did you mean %s?", other);
}

static int find_format(const char *path, const struct leat_open_options *options, const struct leat_source_vtable **out,
                       struct leat_error *error)
{
    uint8_t head[HEAD + 1];
    bool folder;
    size_t n;
    if (options->format && strcmp(options->format, "auto") != 0)
        return by_name(options->format, out, error);
    const char *said = options->annotations ? options->annotations : path;
    int rc = leat_path_look(said, &folder, head, HEAD, &n, error);
    head[n] = 0;
    return rc ? rc : by_content(said, options->annotations, folder, head, n, out, error);
}

/* Whether the format takes what the options say; what they leave open is filled in. */
static int check_options(const struct leat_source_vtable *format, struct leat_open_options *options,
                         struct leat_error *error)
{
    if (options->annotations && !format->annotates)
        return leat_fail(error, LEAT_E_INVALID, "the format \"%s\" has no annotations beside it, and %s is given",
                         format->name, options->annotations);
    const bool said = options->on_bad != LEAT_BAD_AUTO && options->on_bad != LEAT_BAD_SKIP;
    if (!options->annotations && ((said && !format->judges) || options->n_classes))
        return leat_fail(error, LEAT_E_INVALID,
                         "%s is about the annotations of photos%s, and there are none: name them, or leave it out",
                         options->n_classes ? "classes" : "on_bad", options->n_classes ? "" : " and records of text");
    if (options->annotations && options->labels != LEAT_LABELS_AUTO)
        return leat_fail(error, LEAT_E_INVALID,
                         "labels is about folders that are classes, and annotations are given: leave one of them out");
    if (options->n_classes && !format->takes_classes)
        return leat_fail(error, LEAT_E_INVALID, "the format \"%s\" has names for its classes: leave classes out",
                         format->name);
    if (options->documents && format != &leat_format_text)
        return leat_fail(error, LEAT_E_INVALID, "documents is about the format \"text\", and this is \"%s\"",
                         format->name);
    if (options->block && !format->takes_block)
        return leat_fail(error, LEAT_E_INVALID, "block is about the tokens of \"litdata\", and this is \"%s\"",
                         format->name);
    if ((options->sort || options->features) && !format->timed)
        return leat_fail(error, LEAT_E_INVALID,
                         "%s is about files of events (\"events\", \"jodie\", \"tgn\"), and the format here is \"%s\"",
                         options->sort ? "sort" : "features", format->name);
    if (options->on_bad == LEAT_BAD_AUTO)
        options->on_bad = format->judges ? LEAT_BAD_RAISE : LEAT_BAD_SKIP;
    return LEAT_OK;
}

static int check_opened(int rc, struct leat_source **out, struct leat_error *error)
{
    if (!rc && (rc = leat_source_check(*out, error))) {
        leat_source_close(*out);
        *out = NULL;
    }
    return rc;
}

int leat_source_open(const char *path, const struct leat_open_options *given, struct leat_source **out,
                     struct leat_error *error)
{
    const struct leat_source_vtable *format = NULL;
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    *out = NULL;
    options = given ? *given : options;
    int rc = find_format(path, &options, &format, error);
    rc = rc ? rc : check_options(format, &options, error);
    return check_opened(rc ? rc : format->open(path, &options, out, error), out, error);
}

int leat_source_open_files(const char *const *paths, size_t n, const struct leat_open_options *given,
                           struct leat_source **out, struct leat_error *error)
{
    const struct leat_source_vtable *format = NULL, *other = NULL;
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    *out = NULL;
    options = given ? *given : options;
    int rc = find_format(paths[0], &options, &format, error);
    if (rc || !format->open_files)
        return rc;
    for (size_t i = 1; i < n; i++)
        if ((rc = find_format(paths[i], &options, &other, error)) || other != format)
            return rc;
    rc = check_options(format, &options, error);
    return check_opened(rc ? rc : format->open_files(paths, n, &options, out, error), out, error);
}

static const char *missing_of(const struct leat_source_vtable *v, const struct leat_field *field, uint8_t storage)
{
    const bool array = field->kind == LEAT_KIND_ARRAY;
    if (!*leat_kind_name(field->kind))
        return "a kind that there is";
    if (array ? !leat_dtype_size(field->dtype) : field->dtype != LEAT_U8)
        return array ? "a dtype" : "the dtype LEAT_U8, as everything that is no array";
    switch (storage) {
    case LEAT_STORAGE_MAPPED:
        return v->rows ? NULL : "the function rows";
    case LEAT_STORAGE_EXTENT:
        return v->extents && v->file && v->mark ? NULL : "the functions extents, file and mark";
    case LEAT_STORAGE_COMPUTED:
        return v->compute || v->fill ? NULL : "the function compute, or fill";
    default:
        return "a storage";
    }
}

int leat_source_check(const struct leat_source *source, struct leat_error *error)
{
    for (size_t f = 0; f < source->n_fields; f++) {
        const char *missing = missing_of(source->v, &source->fields[f], source->storage[f]);
        if (missing)
            return leat_fail(error, LEAT_E_INVALID, "the format \"%s\" has a mistake: its field '%s' needs %s",
                             source->v->name, source->fields[f].name, missing);
    }
    return LEAT_OK;
}

int leat_source_fail_unsummed(const struct leat_source *source, const char *path, struct leat_error *error)
{
    return leat_fail_at(error, LEAT_E_UNSUPPORTED, path, LEAT_NO_OFFSET,
                        "data of format '%s' carry no checksums: leat convert makes a file of leat of them, which has",
                        source->v->name);
}

void leat_source_tell_verified(const struct leat_verify_options *options, enum leat_verified verified)
{
    if (options->verified)
        *options->verified = verified;
}

bool leat_source_is_fault(int code)
{
    return code == LEAT_E_CORRUPT || code == LEAT_E_UNFINISHED || code == LEAT_E_CHANGED || code == LEAT_E_NOT_FOUND;
}

int leat_source_tell_fault(const struct leat_verify_options *options, const struct leat_error *fault, const char *path,
                           uint64_t *faults, struct leat_error *error)
{
    ++*faults;
    return options->report && options->report(options->user, fault)
               ? leat_fail(error, LEAT_E_CANCELLED, "verifying %s was stopped", path)
               : LEAT_OK;
}

void leat_source_close(struct leat_source *source)
{
    if (source)
        source->v->close(source);
}
