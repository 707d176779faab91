/*
 * leat pack: a data set (a folder of photos, usually) is opened and handed to the writer sample by sample.
 *
 *     folder --open--> data set --name, size--> leat_writer_add(path)
 *         --its threads--> read, probe, check --> DST.partial --> DST
 *
 * A photo is handed over by its path, so that the writer's threads read it and not this one. Any other value is read
 * here and handed over as bytes.
 */
#include "pack.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "left_out.h"
#include "paths.h"
#include "print.h"
#include "progress.h"
#include "python.h"
#include "tables.h"

#define OPTION(member) offsetof(struct cli_pack, options.member)
static const struct cli_option options[] = {
    CLI_WRITING_OPTIONS,
    {"max-side", "N", "resize photos whose longer side is above N and store them as JPEG; default: none", CLI_UNSIGNED,
     .at = OPTION(max_side), 1, 65535},
    {"quality", "N", "of the photos that --max-side resizes, 1 to 100; default: 90", CLI_UNSIGNED,
     .at = OPTION(quality), 1, 100, .needs = "max-side"},
    {"on-error", "WHAT",
     "of a broken photo: mark (keeps its place; the loader's on_error applies), skip\n"
     "(leave it out) or raise (stop); default: mark",
     CLI_CHOICE, .at = OPTION(on_bad), .choices = "mark, skip or raise"},
    {"dataset", "MODULE:OBJECT",
     "in the place of SRC: a Python data set (with __len__ and __getitem__, or an iterable),\n"
     "or a function that makes it; also file.py:OBJECT",
     CLI_TEXT, .at = offsetof(struct cli_pack, of_python)},
    {"workers", "N", "of --dataset: processes that make its samples; 0: one; default: as many as cores", CLI_UNSIGNED,
     .at = offsetof(struct cli_pack, workers), 0, 1024, .needs = "dataset"},
    {"tokenizer", "PATH",
     "make tokens of text, by a tokenizer.json, a folder with one, or a tiktoken file; the\n"
     "other fields of each record become columns",
     CLI_TEXT, .at = offsetof(struct cli_pack, tokenizer)},
    {"text", "FIELD", "the field with the text, for --tokenizer; default: text", CLI_TEXT,
     .at = offsetof(struct cli_pack, text), .needs = "tokenizer"},
    {"tokens", "FIELD",
     "FIELD has tokens already, as of a Megatron file: compare them with the vocabulary, and\n"
     "keep the tokenizer's hash with them",
     CLI_TEXT, .at = offsetof(struct cli_pack, tokens), .needs = "tokenizer"},
    {"chat", "FIELD",
     "records are chats, in the place of --text: FIELD has their messages. DST gets\n"
     "loss_mask beside the tokens",
     CLI_TEXT, .at = offsetof(struct cli_pack, chat), .needs = "tokenizer"},
    {"template", "PATH",
     "of chats: a Jinja2 template, a tokenizer_config.json or a folder; default: what lies\n"
     "beside the tokenizer",
     CLI_TEXT, .at = offsetof(struct cli_pack, handed_on), .needs = "chat"},
    {"learn", "A,B", "of chats: the roles that are learned from; default: assistant", CLI_TEXT,
     .at = offsetof(struct cli_pack, handed_on), .needs = "chat"},
    {"turns", "WHICH", "of these roles: all messages, or the last one of a chat alone; default: all", CLI_CHOICE,
     .at = offsetof(struct cli_pack, choice_handed_on), .choices = "all or last", .needs = "chat"},
    {"tools", "FIELD", "of chats: the field with the tools that may be called; default: tools, if there is one",
     CLI_TEXT, .at = offsetof(struct cli_pack, handed_on), .needs = "chat"},
    {"prompt", "TEXT",
     "of chats: with what the template asks for an answer, where it does not show it (in\n"
     "bash, $'<|assistant|>\\n' has a line end)",
     CLI_TEXT, .at = offsetof(struct cli_pack, handed_on), .needs = "chat", .may_be_empty = true},
    {"date", "DAY", "of chats: today, such as 2026-01-31, for templates that write it", CLI_TEXT,
     .at = offsetof(struct cli_pack, handed_on), .needs = "chat"},
    {"variables", "JSON", "of chats: more values for the template, such as '{\"enable_thinking\": false}'", CLI_TEXT,
     .at = offsetof(struct cli_pack, handed_on), .needs = "chat"},
    {"fields", "A,B", "the fields to keep beside the tokens; default: all", CLI_TEXT,
     .at = offsetof(struct cli_pack, handed_on), .needs = "tokenizer", .may_be_empty = true},
    {"add-special-tokens", NULL, "add those that the tokenizer puts around a text", CLI_SET,
     .at = offsetof(struct cli_pack, flag_handed_on), .needs = "tokenizer"},
    {"pattern", "REGEX",
     "of a tiktoken file: how text is cut into words, or the name of an encoding that\n"
     "tiktoken knows; default: by the name of the file",
     CLI_TEXT, .at = offsetof(struct cli_pack, handed_on), .needs = "tokenizer"},
};

static bool parse(struct cli_pack *pack, int argc, char **argv, int *exit_code)
{
    if (!cli_parse(pack->command, argc, argv, pack, exit_code))
        return false;
    if (pack->of_python)
        return true;
    pack->src = cli_paths_name(&pack->sources, pack->sources_name, sizeof pack->sources_name);
    pack->src_length = (int)strnlen(pack->src, 65536);
    while (pack->src_length > 1 && pack->src[pack->src_length - 1] == '/')
        pack->src_length--;
    if (!!pack->chat + !!pack->text + !!pack->tokens > 1) {
        *exit_code = cli_usage_error(pack->command, "--text, --chat and --tokens exclude each other.");
        return false;
    }
    return true;
}

/* Names the source for a resume, by its listing (names, lengths and classes: the fingerprint) and the times at which
 * its files were written. The writer compares the options that change the stored bytes. */
static bool name_source(struct cli_pack *pack, char *out, size_t room, int *exit_code)
{
    char fingerprint[33];
    uint64_t times = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    const int name_field = cli_field(pack->dataset, "name");
    for (uint64_t i = 0; pack->by_path && i < pack->count; i++) {
        struct leat_value name;
        struct leat_error error;
        struct stat st;
        char *path;
        if (leat_dataset_read(pack->dataset, i, (size_t)name_field, &name, &error)) {
            *exit_code = cli_fail(pack->command, &error, NULL);
            return false;
        }
        int n = asprintf(&path, "%.*s/%.*s", pack->src_length, pack->src, (int)name.length, (const char *)name.data);
        leat_value_clear(&name);
        if (n < 0)
            return false;
        /* A missing file is an error when it is read; here it only changes the name. */
        const uint64_t seconds = stat(path, &st) ? 0 : (uint64_t)st.st_mtim.tv_sec;
        const uint64_t stamp = seconds * 1000000000u + (seconds ? (uint64_t)st.st_mtim.tv_nsec : 0);
        free(path);
        for (unsigned b = 0; b < 8; b++)
            times = (times ^ (stamp >> (8 * b) & 255)) * UINT64_C(0x100000001b3);
    }
    snprintf(out, room, "%s:%016" PRIx64, cli_fingerprint(pack->dataset, fingerprint), times);
    return true;
}

static bool field_varies(const struct leat_field *field)
{
    return field->kind != LEAT_KIND_ARRAY || (field->ndim && field->shape[0] < 0);
}

/* The field whose values are the files that `name` says. */
static size_t first_of_files(const struct leat_dataset *dataset)
{
    size_t n, i = 0;
    const struct leat_field *all = leat_dataset_fields(dataset, &n);
    while (i < n && !(all[i].flags & LEAT_FIELD_FILES))
        i++;
    return i < n ? i : SIZE_MAX;
}

/* Whether a derived field comes along: the writer makes those of photos, but knows neither names nor what is missing */
static bool comes_along(const struct leat_field *field)
{
    const size_t n = strlen(field->name);
    return !strcmp(field->name, "name") ||
           (field->dtype == LEAT_BOOL && n > 6 && !strcmp(field->name + n - 6, ".valid"));
}

/* Chooses the fields to write: the user's, and of derived ones those that come along. Reads the columns that are
 * needed, and sums up the bytes for the progress. */
static int choose_fields(struct cli_pack *pack, struct leat_error *error)
{
    size_t n;
    const struct leat_field *all = leat_dataset_fields(pack->dataset, &n);
    for (size_t i = 0; i < n; i++) {
        if ((all[i].flags & LEAT_FIELD_DERIVED) && !comes_along(&all[i]))
            continue;
        if (pack->n_fields == CLI_PACK_FIELDS) {
            *error =
                (struct leat_error){.code = LEAT_E_UNSUPPORTED, .sample = LEAT_NO_SAMPLE, .offset = LEAT_NO_OFFSET};
            snprintf(error->message, sizeof error->message,
                     "%s has more than %d fields; pack it with the C or Python writer.", pack->src, CLI_PACK_FIELDS);
            return error->code;
        }
        pack->fields[pack->n_fields] = all[i];
        pack->indices[pack->n_fields++] = i;
        if (!strcmp(all[i].name, "label") && all[i].kind == LEAT_KIND_ARRAY && all[i].dtype == LEAT_I64 &&
            !all[i].ndim) {
            int rc = leat_dataset_column(pack->dataset, i, false, false, &pack->labels_column, error);
            if (rc)
                return rc;
        }
        if (!field_varies(&all[i]) || (all[i].flags & LEAT_FIELD_DERIVED))
            continue;
        struct leat_value lengths;
        int rc = leat_dataset_column(pack->dataset, i, true, false, &lengths, error);
        if (rc)
            return rc;
        for (uint64_t s = 0; s < pack->count; s++)
            pack->source_bytes += ((const uint64_t *)lengths.data)[s];
        if (i == pack->path_field)
            pack->lengths = lengths;
        else
            leat_value_clear(&lengths);
    }
    return LEAT_OK;
}

/* Adds sample `i`. The writer has read the values when this returns. */
static int add_sample(struct cli_pack *pack, uint64_t i, struct leat_error *error)
{
    struct leat_value_ref refs[CLI_PACK_FIELDS];
    struct leat_value values[CLI_PACK_FIELDS];
    char *path = NULL;
    size_t read = 0;
    int rc = LEAT_OK;
    for (; read < pack->n_fields; read++) {
        const struct leat_field *field = &pack->fields[read];
        if (pack->indices[read] == pack->path_field) {
            values[read] = (struct leat_value){0}; /* the name, and with it the path, comes later in the schema */
            continue;
        }
        rc = leat_dataset_read(pack->dataset, i, pack->indices[read], &values[read], error);
        if (rc)
            goto out;
        refs[read] = leat_value_given(&values[read]);
        if (pack->by_path && !strcmp(field->name, "name") &&
            asprintf(&path, "%.*s/%.*s", pack->src_length, pack->src, (int)values[read].length,
                     (const char *)values[read].data) < 0) {
            path = NULL;
            *error = (struct leat_error){.code = LEAT_E_NOMEM, .sample = LEAT_NO_SAMPLE, .offset = LEAT_NO_OFFSET};
            rc = LEAT_E_NOMEM;
            read++;
            goto out;
        }
    }
    for (size_t f = 0; f < pack->n_fields; f++)
        if (pack->indices[f] == pack->path_field)
            refs[f] = (struct leat_value_ref){.path = path, .length = ((const uint64_t *)pack->lengths.data)[i]};
    rc = leat_writer_add(pack->writer, refs, NULL, error);
out:
    free(path);
    for (size_t f = 0; f < read; f++)
        leat_value_clear(&values[f]);
    return rc;
}

static void read_progress(void *user, struct cli_progress_state *state)
{
    const struct cli_pack *pack = user;
    struct leat_writer_progress progress;
    leat_writer_progress(pack->writer, &progress);
    state->samples = progress.samples + progress.skipped;
    state->bytes = progress.bytes;
    if (progress.broken || progress.skipped)
        snprintf(state->note, sizeof state->note, "%" PRIu64 " broken", progress.broken + progress.skipped);
}

/* Prints the command that resumes: the same one with --resume. */
static void print_resume(const struct cli_pack *pack)
{
    bool has_resume = false;
    fprintf(stderr, "To resume: leat");
    for (int i = 0; i < pack->argc; i++) {
        fputc(' ', stderr);
        cli_print_shell(stderr, pack->argv[i]);
        has_resume |= !strcmp(pack->argv[i], "--resume");
    }
    fprintf(stderr, "%s\n", has_resume ? "" : " --resume");
}

/* Prints a failure of the writer with the option that helps. */
static int fail(const struct cli_pack *pack, const struct leat_error *error)
{
    const char *hint = NULL;
    struct stat st;
    const size_t n = strlen(error->file);
    if (error->code == LEAT_E_EXISTS && n > 8 && !strcmp(error->file + n - 8, ".partial") && lstat(pack->dst, &st)) {
        char place[2048];
        cli_place(error, place, sizeof place);
        cli_say(pack->command, "%s%s: --resume continues, --overwrite starts again.", place, error->message);
        return CLI_EXIT_FAILED;
    }
    if (error->code == LEAT_E_EXISTS && strstr(error->message, "overwrite it"))
        hint = pack->writer ? "With --resume --overwrite packing continues and replaces it."
                            : "--overwrite replaces it when the new one is complete.";
    else if (error->code == LEAT_E_CHANGED && !pack->writer)
        hint = "--overwrite without --resume starts again.";
    else if (error->code == LEAT_E_DECODE)
        hint = "With --on-error mark --resume it keeps its place, marked as broken, and packing continues.";
    int exit_code = cli_fail(pack->command, error, hint);
    if (error->code == LEAT_E_IO && pack->writer)
        print_resume(pack);
    return exit_code;
}

/* A target in the folder of the photos would stay there among them. Later runs leave it out, but people wonder. */
static bool target_lies_in_source(const struct cli_pack *pack)
{
    const char *slash = strrchr(pack->dst, '/');
    char *folder = slash ? strndup(pack->dst, (size_t)(slash - pack->dst) + 1) : strdup(".");
    char *of_target = folder ? realpath(folder, NULL) : NULL, *of_source = realpath(pack->src, NULL);
    const size_t n = of_source ? strlen(of_source) : 0;
    const bool inside = pack->by_path && of_target && n && !strncmp(of_target, of_source, n) &&
                        (!of_target[n] || of_target[n] == '/' || n == 1);
    free(folder);
    free(of_target);
    free(of_source);
    return inside;
}

/* The path of DST with its folder resolved, to its last dot: shards are named after it. NULL: there is no such folder.
 */
static char *stem_of_target(const struct cli_pack *pack)
{
    const char *slash = strrchr(pack->dst, '/'), *name = slash ? slash + 1 : pack->dst, *dot = strrchr(name, '.');
    char *folder = slash ? strndup(pack->dst, (size_t)(slash - pack->dst) + 1) : strdup(".");
    char *at = folder ? realpath(folder, NULL) : NULL, *stem = NULL;
    const int n = dot && dot != name ? (int)(dot - name) : (int)strlen(name);
    if (!at || asprintf(&stem, "%s/%.*s", at, n, name) < 0)
        stem = NULL;
    free(at);
    free(folder);
    return stem;
}

/* A shard that is named as a source goes with those it lies among when the target takes their place: DST is
 * photos.leat, and SRC photos.00003.leat in the same folder. Says so. */
static bool target_replaces_source(const struct cli_pack *pack)
{
    struct cli_paths paths;
    char *stem = pack->options.overwrite && (pack->options.shard_bytes || cli_is_manifest(pack->dst))
                     ? stem_of_target(pack)
                     : NULL;
    const size_t n = stem ? strlen(stem) : 0;
    bool found = false;
    if (stem && cli_paths_init(&paths, pack->command, &pack->sources)) {
        for (size_t i = 0; i < paths.n && !found; i++) {
            char *at = realpath(paths.at[i], NULL);
            found = at && !strncmp(at, stem, n) && at[n] == '.' && strspn(at + n + 1, "0123456789") == 5 &&
                    !strcmp(at + n + 6, ".leat");
            if (found)
                cli_say(pack->command, "%s is one of the shards that go when %s is replaced: choose another DST.",
                        paths.at[i], pack->dst);
            free(at);
        }
        cli_paths_destroy(&paths);
    }
    free(stem);
    return found;
}

/* Whether one of the files that are read is `file`. */
static bool is_source(const struct cli_pack *pack, const struct stat *file)
{
    struct cli_paths paths;
    struct stat st;
    bool found = false;
    if (!cli_paths_init(&paths, pack->command, &pack->sources))
        return false;
    for (size_t i = 0; i < paths.n && !found; i++)
        found = !stat(paths.at[i], &st) && st.st_dev == file->st_dev && st.st_ino == file->st_ino;
    cli_paths_destroy(&paths);
    return found;
}

/* A file of others that would be lost: of SRC... DST the last one, where DST was forgotten. One that is read itself may
 * become leat's. False: there is none, else after a message. */
static bool target_is_of_others(const struct cli_pack *pack)
{
    const size_t n = strlen(pack->dst);
    struct stat st;
    if (!pack->options.overwrite || stat(pack->dst, &st) || !S_ISREG(st.st_mode) || !st.st_size ||
        (n > 5 && !strcmp(pack->dst + n - 5, ".leat")) || cli_is_own(pack->dst) || is_source(pack, &st))
        return false;
    cli_say(pack->command,
            "%s is a file that leat has not written, and --overwrite leaves such files: choose another DST, or remove "
            "it.",
            pack->dst);
    return true;
}

/* Of leat convert: says whether states of runs over the one fit the other. */
static int compare_fingerprints(const struct cli_pack *pack)
{
    char of_source[33], of_target[33], src[1200];
    struct leat_dataset *target;
    struct leat_error error;
    if (leat_dataset_open(pack->dst, NULL, &target, &error))
        return cli_fail(pack->command, &error, NULL);
    cli_fingerprint(pack->dataset, of_source);
    cli_fingerprint(target, of_target);
    leat_dataset_release(target);
    leat_escape(pack->src, src, sizeof src);
    if (!strcmp(of_source, of_target))
        printf("  fingerprint %s, that of %s%s: states of runs over it fit\n", of_target, src,
               pack->opening.fields.n ? " with these fields" : "");
    else
        printf("  fingerprint %s; %s has %s: states of runs over it do not fit\n", of_target, src, of_source);
    return CLI_EXIT_OK;
}

static int write_samples(struct cli_pack *pack)
{
    struct leat_error error;
    struct leat_writer_progress before;
    leat_writer_progress(pack->writer, &before);
    pack->begin = before.samples + before.skipped;
    pack->resumed = pack->begin > 0;
    struct cli_progress_options drawing = {.verb = pack->options.check ? "packing" : "packing unchecked",
                                           .total_samples = pack->count,
                                           .total_bytes =
                                               pack->options.max_side || pack->options.photos ? 0 : pack->source_bytes,
                                           .first_samples = pack->begin,
                                           .first_bytes = before.bytes,
                                           .read = read_progress,
                                           .user = pack,
                                           .quiet = pack->quiet};
    if (pack->resumed && !pack->quiet)
        cli_say(pack->command, "%" PRIu64 " of %" PRIu64 " samples are already in %s.partial; resuming.", pack->begin,
                pack->count, pack->dst);
    struct cli_progress *progress = cli_progress_start(&drawing);
    const double begin = cli_now();
    int rc = LEAT_OK;
    cli_catch_interrupts();
    for (uint64_t i = pack->begin; i < pack->count && !rc && !cli_interrupted(); i++)
        rc = add_sample(pack, i, &error);
    const bool stopped = !rc && cli_interrupted();
    if (!rc && !stopped)
        rc = leat_writer_finish(pack->writer, &error);
    pack->seconds = cli_now() - begin;
    cli_progress_stop(progress);
    if (rc)
        return fail(pack, &error);
    if (stopped) {
        leat_writer_free(pack->writer, true); /* writes the samples added so far */
        pack->writer = NULL;
        cli_say(pack->command, "interrupted; the complete samples stay in %s.partial.", pack->dst);
        print_resume(pack);
        return CLI_EXIT_INTERRUPTED;
    }
    const int exit_code = cli_pack_report(pack);
    return exit_code || pack->command != &cli_convert || pack->quiet ? exit_code : compare_fingerprints(pack);
}

/* Boxes and keypoints in pixels are those of the photo as it is. */
static bool refuse_smaller_photos(const struct cli_pack *pack)
{
    for (size_t f = 0; pack->options.max_side && f < pack->n_fields; f++)
        if (pack->fields[f].role && !pack->fields[f].normalized) {
            cli_say(pack->command,
                    "--max-side would make photos smaller, and not the field '%s', which belongs to their present "
                    "size: leave it "
                    "out, and resize in the program.",
                    pack->fields[f].name);
            return true;
        }
    return false;
}

/* The writer makes anew what leat derives of photos, if the photos are written. A state of a run that takes the width
 * of a photo would not go on over a file without photos. */
static bool refuse_to_lose_fields(const struct cli_pack *pack)
{
    size_t n;
    const struct leat_field *all = leat_dataset_fields(pack->dataset, &n);
    for (size_t i = 0; i < n; i++) {
        const char *dot = strrchr(all[i].name, '.');
        if (!(all[i].flags & LEAT_FIELD_DERIVED) || comes_along(&all[i]) || !dot)
            continue;
        bool derived_anew = false;
        for (size_t f = 0; f < pack->n_fields && !derived_anew; f++)
            derived_anew = strlen(pack->fields[f].name) == (size_t)(dot - all[i].name) &&
                           !strncmp(pack->fields[f].name, all[i].name, (size_t)(dot - all[i].name));
        if (!derived_anew) {
            cli_say(pack->command,
                    "the field '%s' is derived of '%.*s', which is not written: add --field '%.*s', or leave it out.",
                    all[i].name, (int)(dot - all[i].name), all[i].name, (int)(dot - all[i].name), all[i].name);
            return true;
        }
    }
    return false;
}

/* An option that says nothing about tokens was given. */
static const char *foreign(const struct cli_pack *pack)
{
    const struct leat_writer_options *o = &pack->options;
    if (o->max_side)
        return "--max-side";
    if (o->photos)
        return "--photos";
    if (o->lenient)
        return "--lenient";
    if (pack->opening.coco || pack->opening.yolo || pack->opening.voc || pack->opening.masks)
        return "annotations";
    return NULL;
}

/* --tokenizer: leat.tokenize of the Python package does the work, where tokenizers are. Returns an exit code, if at
 * all.
 */
static int make_tokens(const struct cli_pack *pack)
{
    const char *other = foreign(pack);
    if (pack->of_python)
        return cli_usage_error(pack->command, "--tokenizer makes tokens of the text in files, and --dataset has none.");
    if (other)
        return cli_usage_error(pack->command, "--tokenizer makes tokens of text, and %s %s about photos.", other,
                               other[0] == '-' ? "is" : "are");
    return cli_become_python(pack->command, pack, "src", &pack->sources, "dst", pack->dst);
}

/* Files of cells, and tables. */
static bool is_read_by_python(const struct cli_pack *pack)
{
    struct cli_paths paths;
    if (!cli_paths_init(&paths, pack->command, &pack->sources))
        return false; /* opening says it again */
    const bool found = cli_read_by_python(&paths) != NULL;
    cli_paths_destroy(&paths);
    return found;
}

int cli_pack_run(const struct cli_command *command, int argc, char **argv)
{
    static struct cli_pack the_pack;
    struct cli_pack *pack = &the_pack;
    struct leat_error error;
    struct stat st;
    char source_id[128], *metadata = NULL;
    int exit_code;
    *pack = (struct cli_pack){.command = command, .argc = argc, .argv = argv};
    pack->options = (struct leat_writer_options)LEAT_WRITER_OPTIONS_INIT;
    pack->options.keep_unfinished = true;
    if (!parse(pack, argc, argv, &exit_code))
        goto out;
    exit_code = CLI_EXIT_FAILED;
    if (target_is_of_others(pack))
        goto out;
    if (pack->tokenizer) {
        exit_code = make_tokens(pack);
        goto out;
    }
    if (pack->of_python || is_read_by_python(pack)) {
        exit_code = cli_become_python(command, pack, "src", &pack->sources, "dst", pack->dst);
        goto out;
    }
    pack->opening.quiet = pack->quiet;
    pack->opening.check_sizes = pack->options.check;
    pack->dataset = cli_open_all(command, &pack->sources, &pack->opening, &exit_code);
    if (!pack->dataset)
        goto out;
    exit_code = CLI_EXIT_FAILED;
    if (leat_dataset_notice(pack->dataset)[0] && !pack->quiet)
        cli_say(command, "note: %s", leat_dataset_notice(pack->dataset));
    pack->count = leat_dataset_count(pack->dataset);
    pack->path_field = SIZE_MAX;
    pack->by_path =
        pack->sources.n == 1 && !stat(pack->src, &st) && S_ISDIR(st.st_mode) && cli_field(pack->dataset, "name") >= 0;
    if (pack->by_path)
        pack->path_field = first_of_files(pack->dataset);
    if (target_lies_in_source(pack) && !pack->quiet)
        cli_say(command,
                "warning: %s lies inside of %s, among the photos. It is no photo, and is left out when that folder is "
                "read again.",
                pack->dst, pack->src);
    if (choose_fields(pack, &error)) {
        exit_code = cli_fail(command, &error, NULL);
        goto out;
    }
    if (refuse_smaller_photos(pack) || refuse_to_lose_fields(pack) || target_replaces_source(pack))
        goto out;
    if (!name_source(pack, source_id, sizeof source_id, &exit_code))
        goto out;
    pack->options.source_id = source_id;
    pack->options.classes = leat_dataset_classes(pack->dataset, &pack->options.n_classes);
    if (!pack->options.metadata)
        pack->options.metadata = leat_dataset_metadata(pack->dataset);
    if ((metadata = cli_metadata_left_out(command, pack->dataset, pack->options.metadata)))
        pack->options.metadata = metadata;
    if (cli_refuse_decoded(command, pack->dataset, pack->src)) {
        exit_code = CLI_EXIT_FAILED;
        goto out;
    }
    if (leat_writer_open(pack->dst, pack->fields, pack->n_fields, &pack->options, &pack->writer, &error)) {
        exit_code = fail(pack, &error);
        goto out;
    }
    /* A view has ids that the file does not have, and no state of a run over it fits. */
    if (command == &cli_convert && !pack->opening.where &&
        leat_writer_set_source(pack->writer, pack->dataset, &error)) {
        exit_code = cli_fail(command, &error, NULL);
        goto out;
    }
    exit_code = write_samples(pack);
out:
    leat_writer_free(pack->writer, exit_code != CLI_EXIT_OK);
    leat_value_clear(&pack->lengths);
    leat_value_clear(&pack->labels_column);
    leat_dataset_release(pack->dataset);
    free(metadata);
    return exit_code;
}

const struct cli_command cli_pack = {
    .name = "pack",
    .usage = "SRC... DST [options]",
    .summary = "make one file (or shards) of a folder of photos",
    .about = "SRC is a folder of photos: the sub-folders are the classes, or there are none, or annotations say what\n"
             "is in them (--coco, --yolo, --voc). SRC may also be a file of leat, which is then written again with\n"
             "other options. Several of them, or a pattern in quotes such as 'part-{000..009}.jsonl', become one\n"
             "file. DST appears only when it is complete; until then the work is in DST.partial, so that an\n"
             "interrupted run can be resumed and is never mistaken for a finished file. Photos are stored byte for\n"
             "byte, unless --photos says otherwise. Each is decoded to its end to find broken ones; they are listed\n"
             "at the end and, all of them, in DST.bad.jsonl.\n"
             "With --tokenizer SRC is text, and DST gets its tokens: the Python package does it, on all cores.\n"
             "With --dataset MODULE:OBJECT a Python data set is packed, by worker processes; there is no SRC then.\n",
    .arguments = {{"SRC", offsetof(struct cli_pack, sources)}, {"DST", offsetof(struct cli_pack, dst)}},
    .several_first = true,
    .instead_of_first = "dataset",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .more =
        "Examples:\n"
        "  leat pack photos/train train.leat\n"
        "  leat pack photos/train train.leat --resume          after an interruption\n"
        "  leat pack photos/train train.leat --max-side 512 --shard-bytes 4G\n"
        "  leat pack photos/train train.leat --photos fast\n"
        "  leat pack --coco instances_train2017.json train2017/ train.leat\n"
        "  leat pack web.jsonl.zst web.leat --tokenizer tokenizer.json --text text\n"
        "  leat pack chats.jsonl chats.leat --tokenizer model/ --chat messages\n"
        "  leat pack --dataset my_data:train_set train.leat    a Python data set\n"
        "\nExit codes: 0 packed (broken photos are marked or skipped); 1 a photo is broken and --on-error is raise;\n"
        "2 could not pack; 130 interrupted, DST.partial can be resumed.\n",
    .run = cli_pack_run,
};
