/*
 * leat cat: the bytes of one value, as they were packed; or the values of all samples that a clause asks for.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "opening.h"
#include "print.h"
#include "python.h"

struct cat {
    struct cli_several paths;
    const char *field, *out;
    uint64_t id;
    bool raw, force;
    struct cli_opening opening;
    /* For --decode. */
    bool decode;
    const char *tokenizer, *pattern;
    unsigned length, how; /* 0: no rows */
};
static const struct cli_option options[] = {
    {"id", "N", "the sample, from 0", CLI_U64, .at = offsetof(struct cat, id), 0, INT64_MAX},
    {"where", "CLAUSE",
     "in the place of --id: all samples for which this SQL expression over the fields is true,\n"
     "such as \"language = 'en' AND length > 200\"; a line each",
     CLI_TEXT, .at = offsetof(struct cat, opening.where)},
    {"field", "F", "the field; default: the only one that is not derived from others", CLI_TEXT,
     .at = offsetof(struct cat, field)},
    CLI_TABLE_OPTIONS(struct cat, opening),
    {"block", "N", "of tokens of LitData: so many are a sample", CLI_U64, .at = offsetof(struct cat, opening.block), 1,
     INT64_MAX},
    {"out", "PATH", "write there instead of to standard output", CLI_TEXT, .at = offsetof(struct cat, out),
     .is_written = true},
    {"raw", NULL,
     "give arrays and numbers as their bytes (little endian), not as text; of a photo\n"
     "that is stored as pixels these alone",
     CLI_SET, .at = offsetof(struct cat, raw)},
    {"decode", NULL,
     "give the text of tokens, by the tokenizer that made them: a file of its name beside\n"
     "FILE or in the present folder",
     CLI_SET, .at = offsetof(struct cat, decode)},
    {"tokenizer", "PATH", "of --decode: the tokenizer; it must be the one that FILE names, if it names one", CLI_TEXT,
     .at = offsetof(struct cat, tokenizer), .needs = "decode"},
    {"pattern", "REGEX", "of a tiktoken file: as of leat pack", CLI_TEXT, .at = offsetof(struct cat, pattern),
     .needs = "decode"},
    {"length", "N", "of --decode: FILE has documents; N numbers rows of so many tokens, packed of them", CLI_UNSIGNED,
     .at = offsetof(struct cat, length), 1, 1 << 24, .needs = "decode"},
    {"how", "WAY", "of --length: cut, best_fit or pad; default: cut", CLI_CHOICE, .at = offsetof(struct cat, how),
     .choices = "cut, best_fit or pad", .needs = "length"},
    {"force", NULL, "write binary bytes even to a terminal", CLI_SET, .at = offsetof(struct cat, force)},
};

static int choose_field(const struct cli_command *command, const struct leat_dataset *dataset, const char *path,
                        const char *name)
{
    size_t n, own = 0;
    const struct leat_field *fields = leat_dataset_fields(dataset, &n);
    char list[1024];
    int only = -1, found = name ? cli_field(dataset, name) : -1;
    for (size_t i = 0; i < n; i++)
        if (!(fields[i].flags & LEAT_FIELD_DERIVED) && !own++)
            only = (int)i;
    if (found >= 0)
        return found;
    if (name)
        cli_say_no_field(command, dataset, path, name);
    else if (own == 1)
        return only;
    else
        cli_say(command, "--field is missing; %s has %s.", path, cli_fields_list(dataset, list, sizeof list));
    return -1;
}

/* An array as nested lists, which JSON readers take; a scalar as a number. */
static void print_array(FILE *out, const struct leat_value *value, unsigned dim, size_t *at)
{
    if (dim == value->ndim) {
        cli_print_element(out, value->dtype, value->data, (*at)++);
        return;
    }
    fputc('[', out);
    for (int64_t i = 0; i < value->shape[dim]; i++) {
        if (i)
            fputs(", ", out);
        print_array(out, value, dim + 1, at);
    }
    fputc(']', out);
}

static void print_list(FILE *out, enum leat_dtype dtype, const void *data, size_t n)
{
    fputc('[', out);
    for (size_t i = 0; i < n; i++) {
        fputs(i ? ", " : "", out);
        cli_print_element(out, dtype, data, i);
    }
    fputc(']', out);
}

/* The row of a sparse matrix: its values, and behind them their columns. */
static void print_sparse(FILE *out, const struct leat_field *field, const struct leat_value *value)
{
    const size_t item = leat_dtype_size(field->item), n = (size_t)value->length / (item + sizeof(int32_t));
    fputs("{\"columns\": ", out);
    print_list(out, LEAT_I32, (const uint8_t *)value->data + n * item, n);
    fputs(", \"values\": ", out);
    print_list(out, field->item, value->data, n);
    fputc('}', out);
}

/* With a header, pixels are a file that image programs open: PPM, or PGM for gray ones. */
static bool write_pnm_header(FILE *out, const struct leat_value *value)
{
    return fprintf(out, "P%c\n%" PRId64 " %" PRId64 "\n255\n", value->shape[2] == 1 ? '5' : '6', value->shape[1],
                   value->shape[0]) > 0;
}

/* A value is written as its bytes, which may be text, as an image file of its pixels, or as its elements in text. */
enum written { BYTES, TEXT, PIXELS, ELEMENTS };

static bool is_text(const struct leat_field *field)
{
    return field->kind == LEAT_KIND_STR || field->kind == LEAT_KIND_JSON;
}

static enum written written_of(const struct leat_field *field, const struct leat_value *value, bool raw)
{
    if (is_text(field))
        return TEXT;
    if (raw || (field->kind != LEAT_KIND_ARRAY && !value->decoded))
        return BYTES;
    return field->kind == LEAT_KIND_IMAGE ? PIXELS : ELEMENTS;
}

static bool write_value(FILE *out, const struct leat_field *field, const struct leat_value *value, enum written written)
{
    if (written == PIXELS && !write_pnm_header(out, value))
        return false;
    if (written != ELEMENTS)
        return fwrite(value->data, 1, (size_t)value->length, out) == value->length;
    size_t at = 0;
    if (field->role == LEAT_ROLE_SPARSE)
        print_sparse(out, field, value);
    else
        print_array(out, value, 0, &at);
    fputc('\n', out);
    return !ferror(out);
}

/* The destination of values. */
struct target {
    const char *path; /* NULL: standard output */
    FILE *out;
    bool terminal;
};

/* Whether this process has a file open: files that are not named, such as shards of a manifest, are read, too. */
static bool is_open(const char *path)
{
    struct stat file, st;
    DIR *all = stat(path, &file) ? NULL : opendir("/proc/self/fd");
    bool found = false;
    for (struct dirent *entry; all && !found && (entry = readdir(all));)
        found = !fstatat(dirfd(all), entry->d_name, &st, 0) && S_ISREG(st.st_mode) && st.st_dev == file.st_dev &&
                st.st_ino == file.st_ino;
    if (all)
        closedir(all);
    return found;
}

static bool open_target(const struct cli_command *command, const struct cat *wish, struct target *target)
{
    if (wish->out && is_open(wish->out)) {
        cli_usage_error(command, "--out would replace %s, which is read: choose another name.", wish->out);
        return false;
    }
    target->path = wish->out;
    target->terminal = !wish->out && isatty(STDOUT_FILENO);
    target->out = wish->out ? fopen(wish->out, "wb") : stdout;
    if (!target->out)
        cli_say_unwritten(command, wish->out, errno);
    return target->out != NULL;
}

/* `good`: all was written so far. */
static int close_target(const struct cli_command *command, struct target *target, bool good)
{
    int why = good ? 0 : errno;
    const int rest = target->path ? fclose(target->out) : fflush(target->out);
    if (good && !rest)
        return CLI_EXIT_OK;
    why = why ? why : errno;
    if (!target->path) { /* the error is printed here with its reason, so main must not try the rest again */
        __fpurge(stdout);
        clearerr(stdout);
    }
    if (target->path)
        cli_say_unwritten(command, target->path, why);
    else
        cli_say(command, "standard output could not be written: %s.", strerror(why));
    return CLI_EXIT_FAILED;
}

/* The samples of `dataset` from `begin` to before `end`. */
static int deliver(const struct cli_command *command, struct leat_dataset *dataset, size_t index, uint64_t begin,
                   uint64_t end, const struct cat *wish)
{
    size_t n_fields;
    const struct leat_field *field = &leat_dataset_fields(dataset, &n_fields)[index];
    struct target target = {0};
    struct leat_error error;
    int exit_code = CLI_EXIT_OK;
    bool good = true;
    for (uint64_t i = begin; i < end && good && !exit_code; i++) {
        struct leat_value value = {0};
        const int rc = leat_dataset_read(dataset, i, index, &value, &error);
        const enum written written = written_of(field, &value, wish->raw);
        const bool binary = written == BYTES || written == PIXELS;
        if (rc) {
            exit_code = cli_fail(command, &error, NULL);
        } else if (binary && !wish->out && !wish->force && isatty(STDOUT_FILENO)) {
            cli_say(command,
                    "the value is %" PRIu64
                    " binary bytes, and standard output is a terminal: give --out PATH, or --force.",
                    value.length);
            exit_code = CLI_EXIT_FAILED;
        } else if (!target.out && !open_target(command, wish, &target)) {
            exit_code = CLI_EXIT_FAILED;
        } else {
            good = write_value(target.out, field, &value, written);
            if (good && written != ELEMENTS && (target.terminal || (written == TEXT && wish->opening.where)))
                good = fputc('\n', target.out) != EOF;
        }
        leat_value_clear(&value);
    }
    const int closed = target.out ? close_target(command, &target, good) : CLI_EXIT_OK;
    return exit_code ? exit_code : closed;
}

static bool options_fit(const struct cli_command *command, const struct cat *wish)
{
    if (wish->id == UINT64_MAX && !wish->opening.where)
        cli_usage_error(command, "--id is missing: the sample's number, from 0; or --where, for several.");
    else if (wish->id != UINT64_MAX && wish->opening.where)
        cli_usage_error(command, "--id and --where exclude each other: --where \"id = ... AND ...\" asks for both.");
    else if (wish->decode && wish->raw)
        cli_usage_error(command, "--decode gives text, and --raw bytes: give one of them.");
    else if (wish->length && wish->opening.where)
        cli_usage_error(command, "--where is about documents, and --length about rows: give --id.");
    else
        return true;
    return false;
}

/* The values of several samples must stay distinct. */
static bool can_follow(const struct cli_command *command, const struct leat_dataset *dataset, int index, bool raw)
{
    size_t n_fields;
    const struct leat_field *field = &leat_dataset_fields(dataset, &n_fields)[index];
    const bool varies = field->ndim && field->shape[0] < 0;
    if (is_text(field) || (field->kind == LEAT_KIND_ARRAY && !(raw && varies)) || leat_dataset_count(dataset) < 2)
        return true;
    cli_say(command,
            "the clause holds for %" PRIu64
            " samples, and their values of the field \"%s\" are bytes without borders: leat pack --where makes a file "
            "of them, and --id gives one.",
            leat_dataset_count(dataset), field->name);
    return false;
}

static int run(const struct cli_command *command, int argc, char **argv)
{
    struct cat wish = {.id = UINT64_MAX, .opening.tables = CLI_TABLES_PART, .opening.parsed = &wish};
    char room[1200];
    int exit_code;
    if (!cli_parse(command, argc, argv, &wish, &exit_code))
        return exit_code;
    if (!options_fit(command, &wish))
        return CLI_EXIT_FAILED;
    if (wish.decode) /* Python has the tokenizers */
        return cli_become_python(command, &wish, "path", &wish.paths, NULL, NULL);
    struct leat_dataset *dataset = cli_open_all(command, &wish.paths, &wish.opening, &exit_code);
    if (!dataset)
        return exit_code;
    exit_code = CLI_EXIT_FAILED;
    if (wish.opening.by_python && !wish.opening.where) /* it has that sample alone */
        wish.id = 0;
    const uint64_t count = leat_dataset_count(dataset);
    const char *path = cli_paths_name(&wish.paths, room, sizeof room);
    const int index = choose_field(command, dataset, path, wish.field);
    if (index < 0 || (wish.opening.where && !can_follow(command, dataset, index, wish.raw)))
        goto out;
    if (wish.opening.where)
        exit_code = deliver(command, dataset, (size_t)index, 0, count, &wish);
    else if (wish.id < count)
        exit_code = deliver(command, dataset, (size_t)index, wish.id, wish.id + 1, &wish);
    else
        cli_say(command, "%s has no sample %" PRIu64 "; it has %" PRIu64 ", numbered from 0.", path, wish.id, count);
out:
    leat_dataset_release(dataset);
    return exit_code;
}

const struct cli_command cli_cat = {
    .name = "cat",
    .usage = "FILE... --id N|--where CLAUSE [--field F] [options]",
    .summary = "give back the stored bytes of one value",
    .about =
        "Images, bytes, text and JSON are written byte for byte as they were packed; numbers and arrays as text, "
        "nested\n"
        "lists as in JSON, or as bytes with --raw. A photo that was packed as pixels (--photos raw) is written as "
        "a PPM\n"
        "or PGM file. The checksum is verified. FILE is a data set of any format that leat reads.\n"
        "With --where each text or array is a line; a text that has line breaks itself takes several. If no sample\n"
        "is asked for, nothing is written. --decode makes text of tokens: the Python package does it.\n"
        "Several files, or a pattern in quotes such as 'part-{000..009}.jsonl', are one data set.\n",
    .arguments = {{"FILE", offsetof(struct cat, paths)}},
    .several = true,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .more = "Examples:\n"
            "  leat cat train.leat --id 17 --field image --out 17.jpg\n"
            "  leat cat train.leat --id 17 --field name\n"
            "  leat cat train.leat --id 17 --field image | file -\n"
            "  leat cat tokens.leat --id 17 --decode\n"
            "  leat cat corpus.idx --id 17 --decode --tokenizer model/tokenizer.json\n"
            "  leat cat web.jsonl --where \"lang = 'en' AND length(text) < 80\" --field text\n"
            "\nExit codes: 0 written; 1 the stored bytes are not what was written; 2 could not run.\n",
    .run = run,
};
