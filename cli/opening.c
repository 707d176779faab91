/* The way a command opens its data set: opening.h. */
#include "opening.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "fields.h"
#include "print.h"
#include "progress.h"
#include "tables.h"

static bool is_blank(const char *line)
{
    return !line[strspn(line, " \t")];
}

/* The lines of a list of classes, which are cut from its text, without the blank ones at its end; the array is freed
 * with free. NULL: it is no such list, after a message. */
static const char **lines_of(const struct cli_command *command, const char *path, char *text, size_t *n)
{
    size_t room = 1, blank = 0;
    for (const char *p = text; *p; p++)
        room += *p == '\n';
    const char **lines = calloc(room, sizeof *lines);
    *n = 0;
    for (char *line = text, *next; lines && line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        line[strcspn(line, "\r")] = 0;
        lines[(*n)++] = line;
    }
    while (lines && *n && is_blank(lines[*n - 1]))
        --*n;
    while (blank < *n && !is_blank(lines[blank]))
        blank++;
    if (lines && *n && blank == *n)
        return lines;
    if (!lines)
        cli_say(command, "There is no memory for the names in %s.", path);
    else if (!*n)
        cli_say(command, "%s has no names of classes: it is a text with a name a line.", path);
    else
        cli_say(command,
                "%s line %zu is blank, and names follow: name the class, or remove the line if theirs are the numbers "
                "from %zu on.",
                path, blank + 1, blank);
    free(lines);
    return NULL;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static bool is_consistent(const struct cli_command *command, const struct cli_paths *paths, const struct cli_opening *o)
{
    const char *path = paths->at[0];
    const bool annotations = o->coco || o->yolo || o->voc || o->masks;
    if (!!o->coco + !!o->yolo + !!o->voc + !!o->masks > 1)
        cli_usage_error(command, "--coco, --yolo, --voc and --masks exclude each other.");
    else if (annotations && o->labels != LEAT_LABELS_AUTO)
        cli_usage_error(command, "--labels is for folders that are classes, and annotations are given.");
    else if (!annotations && o->on_bad && is_folder(path))
        cli_usage_error(command,
                        "--on-bad is for annotations (--coco, --yolo, --voc, --masks) and records of text, and "
                        "there are none.");
    else if (annotations && paths->n > 1)
        cli_usage_error(command, "--coco, --yolo, --voc and --masks are about one folder of photos, and %zu are given.",
                        paths->n);
    else if (o->classes && (o->coco || !annotations))
        cli_usage_error(command, "--classes is for annotations that do not say them: --yolo, --voc, --masks.");
    else if (o->events && annotations)
        cli_usage_error(command, "--events is for lines \"src dst time\", and annotations are given.");
    else
        return true;
    return false;
}

/* Opening that takes long. */
struct work {
    struct cli_progress *progress; /* NULL until it does */
    bool quiet, files;             /* it reads files, one per sample */
    atomic_ullong done, total;
};

static void read_progress(void *user, struct cli_progress_state *state)
{
    struct work *work = user;
    state->samples = state->bytes = atomic_load(&work->done);
    state->total_bytes = atomic_load(&work->total);
    if (work->files)
        state->bytes = state->total_bytes = 0;
}

/* For a panoptic file first the JSON is read, then the PNGs: two works with totals of their own. */
static int on_progress(void *user, uint64_t done, uint64_t total)
{
    struct work *work = user;
    if (work->progress && total != atomic_load(&work->total)) {
        cli_progress_stop(work->progress);
        work->progress = NULL;
    }
    const struct cli_progress_options drawing = {.verb = "reading annotations",
                                                 .read = read_progress,
                                                 .user = work,
                                                 .total_samples = work->files ? total : 0,
                                                 .only_time = !work->files,
                                                 .quiet = work->quiet};
    atomic_store(&work->done, done);
    atomic_store(&work->total, total);
    if (!work->progress)
        work->progress = cli_progress_start(&drawing);
    return 0;
}

/* The part that --where asks for, in the place of the whole, which is released. NULL after a message. Ctrl-C ends it.
 */
static struct leat_dataset *take_part(const struct cli_command *command, struct leat_dataset *whole, const char *path,
                                      const char *clause, int *exit_code)
{
    struct leat_dataset *part = NULL;
    struct leat_error error;
    const uint64_t count = leat_dataset_count(whole);
    const int rc = leat_dataset_where(whole, clause, &part, &error);
    leat_dataset_release(whole);
    if (!rc && count && !leat_dataset_count(part))
        cli_say(command, "%s: of %" PRIu64 " samples none fits the clause of --where.", path, count);
    if (!rc)
        return part;
    *exit_code = cli_fail(command, &error, error.code == LEAT_E_INVALID ? "That is the clause of --where." : NULL);
    return NULL;
}

/* The hash of the tokenizer that made the tokens of a file, in `out`; "": it says none. */
static int tokenizer_of(const char *path, const struct leat_open_options *options, char out[80],
                        struct leat_error *error)
{
    struct leat_dataset *dataset;
    int rc = leat_dataset_open(path, options, &dataset, error);
    out[0] = 0;
    if (rc)
        return rc;
    json_t *metadata = json_loads(leat_dataset_metadata(dataset), 0, NULL);
    const char *hash = json_string_value(json_object_get(json_object_get(metadata, "tokenizer"), "hash"));
    snprintf(out, 80, "%s", hash ? hash : "");
    json_decref(metadata);
    leat_dataset_release(dataset);
    return LEAT_OK;
}

/* Tokens of different tokenizers are no one data set. Only packs name theirs; if all name the same, so do they
 * together. False after a message. */
static bool have_one_tokenizer(const struct cli_command *command, const struct leat_dataset *joined,
                               const struct cli_paths *paths, const struct leat_open_options *options, int *exit_code)
{
    char first[80] = "", hash[80];
    size_t from = 0;
    struct leat_error error;
    json_t *metadata = json_loads(leat_dataset_metadata(joined), 0, NULL);
    const bool named = json_object_get(metadata, "tokenizer") != NULL;
    json_decref(metadata);
    for (size_t i = 0; i < paths->n && !named && cli_field(joined, "tokens") >= 0; i++) {
        if (tokenizer_of(paths->at[i], options, hash, &error)) {
            *exit_code = cli_fail(command, &error, NULL);
            return false;
        }
        if (hash[0] && first[0] && strcmp(hash, first) != 0) {
            cli_say(command, "%s and %s have tokens of different tokenizers, which are no one data set.",
                    paths->at[from], paths->at[i]);
            return false;
        }
        if (hash[0] && !first[0]) {
            memcpy(first, hash, sizeof first);
            from = i;
        }
    }
    return true;
}

/* Where an error speaks of an argument of leat.open: the option that is the same. NULL: it does not, or there is none.
 */
static const char *hint_of(const struct cli_command *command, const struct leat_error *error)
{
    static const struct {
        const char *argument, *option;
        enum cli_type type;
        const char *hint;
    } known[] = {{"fields=", "field", CLI_EACH,
                  "--field NAME takes a field, --field NAME=KIND says what it is, too; any number of times."},
                 {"block=", "block", CLI_U64, "--block N says how many tokens are a sample."},
                 {"format=\"events\"", "events", CLI_SET, "--events takes them as events."},
                 {"annotations=path", "coco", CLI_TEXT, "--coco FILE names annotations of COCO, beside their photos."}};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        for (size_t i = 0; strstr(error->message, known[k].argument) && i < command->n_options; i++)
            if (!strcmp(command->options[i].name, known[k].option) && command->options[i].type == known[k].type)
                return known[k].hint;
    return NULL;
}

static struct leat_dataset *open_paths(const struct cli_command *command, const struct cli_paths *paths,
                                       const struct leat_open_options *options, int *exit_code)
{
    struct leat_dataset *dataset = NULL;
    struct leat_error error;
    struct work *work = options->user;
    const int rc = leat_dataset_open_files((const char *const *)paths->at, paths->n, options, &dataset, &error);
    cli_progress_stop(work->progress);
    work->progress = NULL;
    if (rc)
        *exit_code = cli_fail(command, &error, hint_of(command, &error));
    else if (paths->n > 1 && !have_one_tokenizer(command, dataset, paths, options, exit_code)) {
        leat_dataset_release(dataset);
        dataset = NULL;
    }
    return dataset;
}

static struct leat_dataset *open_with(const struct cli_command *command, const struct cli_paths *paths,
                                      const struct cli_opening *o, int *exit_code)
{
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    struct leat_dataset *dataset = NULL;
    struct work work = {.quiet = o->quiet, .files = !o->coco && !(o->masks && !is_folder(o->masks))};
    static const enum leat_on_bad choices[] = {LEAT_BAD_AUTO, LEAT_BAD_SKIP, LEAT_BAD_RAISE};
    const char **names = NULL;
    struct leat_field *fields = NULL;
    char *text = NULL;
    if (!is_consistent(command, paths, o))
        return NULL;
    options.labels = o->labels;
    options.annotations = o->coco ? o->coco : o->yolo ? o->yolo : o->voc ? o->voc : o->masks;
    options.format = o->coco     ? "coco"
                     : o->yolo   ? "yolo"
                     : o->voc    ? "voc"
                     : o->masks  ? "masks"
                     : o->events ? "events"
                                 : NULL;
    options.sort = o->sort;
    options.features = o->features;
    options.block = o->block;
    options.on_bad = choices[o->on_bad];
    if (o->classes) {
        if (!(text = cli_read_text(command, o->classes, NULL)))
            return NULL;
        char *begin = text + (strncmp(text, "\xef\xbb\xbf", 3) ? 0 : 3); /* a mark of byte order */
        if (!(options.classes = names = lines_of(command, o->classes, begin, &options.n_classes)))
            goto out;
    }
    if (o->fields.n && !cli_fields_parse(command, &o->fields, &fields))
        goto out;
    options.fields = fields;
    options.n_fields = o->fields.n;
    options.check_sizes = o->check_sizes;
    options.progress = on_progress;
    options.user = &work;
    dataset = open_paths(command, paths, &options, exit_code);
out:
    cli_fields_free(fields, o->fields.n);
    free(names);
    free(text);
    return dataset;
}

struct leat_dataset *cli_open_all(const struct cli_command *command, const struct cli_several *given,
                                  struct cli_opening *o, int *exit_code)
{
    struct cli_paths paths;
    char name[1200];
    *exit_code = CLI_EXIT_FAILED;
    if (!cli_paths_init(&paths, command, given))
        return NULL;
    const char *by_python = cli_read_by_python(&paths);
    o->by_python = by_python != NULL;
    if ((o->by_python && !o->tables) || (!o->by_python && (o->fills.n || o->split))) {
        cli_say(command,
                o->by_python ? "%s is read by pack, convert, info, cat, stats, view and verify: leat convert makes "
                               "a file of leat of it for this command."
                : o->split   ? "%s: --split is for folders of Hugging Face, and this is none."
                             : "%s: --fill is for missing values of Parquet and Arrow.",
                by_python ? by_python : paths.at[0]);
        cli_paths_destroy(&paths);
        return NULL;
    }
    struct leat_dataset *dataset =
        o->by_python ? cli_open_tables(command, &paths, o, exit_code) : open_with(command, &paths, o, exit_code);
    cli_paths_destroy(&paths);
    return dataset && o->where && !(o->by_python && o->tables > CLI_TABLES_ALL)
               ? take_part(command, dataset, cli_paths_name(given, name, sizeof name), o->where, exit_code)
               : dataset;
}

struct leat_dataset *cli_open_as(const struct cli_command *command, const char *path, struct cli_opening *o,
                                 int *exit_code)
{
    char *one = (char *)(uintptr_t)path;
    return cli_open_all(command, &(struct cli_several){&one, 1}, o, exit_code);
}
