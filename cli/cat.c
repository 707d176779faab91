/*
 * leat cat: the bytes of one value, as they were packed.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "print.h"

struct cat {
    const char *path, *field, *out;
    uint64_t id;
    bool raw, force;
};
static const struct cli_option options[] = {
    {"id", "N", "the sample, from 0", CLI_U64, .at = offsetof(struct cat, id), 0, INT64_MAX},
    {"field", "F", "the field; default: the only one that is not derived from others", CLI_TEXT,
     .at = offsetof(struct cat, field)},
    {"out", "PATH", "write there instead of to standard output", CLI_TEXT, .at = offsetof(struct cat, out)},
    {"raw", NULL,
     "give arrays and numbers as their bytes (little endian), not as text; of a photo\n"
     "that is stored as pixels these alone",
     CLI_SET, .at = offsetof(struct cat, raw)},
    {"force", NULL, "write binary bytes even to a terminal", CLI_SET, .at = offsetof(struct cat, force)},
};

/* The names of the fields, for a message. */
static void list_fields(const struct leat_dataset *dataset, char *out, size_t room)
{
    size_t n, used = 0;
    const struct leat_field *fields = leat_dataset_fields(dataset, &n);
    out[0] = 0;
    for (size_t i = 0; i < n && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i ? ", " : "", fields[i].name);
}

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
    list_fields(dataset, list, sizeof list);
    if (name)
        cli_say(command, "%s has no field \"%s\"; it has %s.", path, name, list);
    else if (own == 1)
        return only;
    else
        cli_say(command, "--field is missing; %s has %s.", path, list);
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

/* With a header, pixels are a file that image programs open: PPM, or PGM for gray ones. */
static bool write_pnm_header(FILE *out, const struct leat_value *value)
{
    return fprintf(out, "P%c\n%" PRId64 " %" PRId64 "\n255\n", value->shape[2] == 1 ? '5' : '6', value->shape[1],
                   value->shape[0]) > 0;
}

static bool write_value(FILE *out, const struct leat_field *field, const struct leat_value *value, bool raw)
{
    if (field->kind == LEAT_KIND_IMAGE && value->ndim == 3 && !raw && !write_pnm_header(out, value))
        return false;
    if (field->kind != LEAT_KIND_ARRAY || raw)
        return fwrite(value->data, 1, (size_t)value->length, out) == value->length;
    size_t at = 0;
    print_array(out, value, 0, &at);
    fputc('\n', out);
    return !ferror(out);
}

static int deliver(const struct cli_command *command, const struct leat_field *field, const struct leat_value *value,
                   const struct cat *wish)
{
    const char *path = wish->out;
    const bool text = field->kind == LEAT_KIND_STR || field->kind == LEAT_KIND_JSON,
               binary = !text && (field->kind != LEAT_KIND_ARRAY || wish->raw);
    const bool terminal = !path && isatty(STDOUT_FILENO);
    if (terminal && binary && !wish->force) {
        cli_say(command,
                "the value is %" PRIu64
                " binary bytes, and standard output is a terminal: give --out PATH, or --force.",
                value->length);
        return CLI_EXIT_FAILED;
    }
    FILE *out = path ? fopen(path, "wb") : stdout;
    if (!out) {
        cli_say(command, "%s: %s.", path, strerror(errno));
        return CLI_EXIT_FAILED;
    }
    bool good = write_value(out, field, value, wish->raw);
    if (terminal && field->kind != LEAT_KIND_ARRAY)
        fputc('\n', out);
    if (path)
        good = !fclose(out) && good;
    else
        good = !fflush(out) && good;
    if (good)
        return CLI_EXIT_OK;
    const int why = errno;
    if (!path) { /* the error is printed here with its reason, so main must not try the rest again */
        __fpurge(stdout);
        clearerr(stdout);
    }
    cli_say(command, "%s could not be written: %s.", path ? path : "standard output", strerror(why));
    return CLI_EXIT_FAILED;
}

static int run(const struct cli_command *command, int argc, char **argv)
{
    struct cat wish = {.id = UINT64_MAX};
    struct leat_error error;
    struct leat_value value = {0};
    int exit_code;
    if (!cli_parse(command, argc, argv, &wish, &exit_code))
        return exit_code;
    if (wish.id == UINT64_MAX)
        return cli_usage_error(command, "--id is missing: the sample's number, from 0.");
    struct leat_dataset *dataset = cli_open(command, wish.path, NULL, &exit_code);
    if (!dataset)
        return exit_code;
    exit_code = CLI_EXIT_FAILED;
    const uint64_t count = leat_dataset_count(dataset);
    const int index = choose_field(command, dataset, wish.path, wish.field);
    if (index < 0)
        goto out;
    if (wish.id >= count) {
        cli_say(command, "%s has no sample %" PRIu64 "; it has %" PRIu64 ", numbered from 0.", wish.path, wish.id,
                count);
        goto out;
    }
    if (leat_dataset_read(dataset, wish.id, (size_t)index, &value, &error)) {
        exit_code = cli_fail(command, &error, NULL);
        goto out;
    }
    size_t n_fields;
    exit_code = deliver(command, &leat_dataset_fields(dataset, &n_fields)[index], &value, &wish);
out:
    leat_value_clear(&value);
    leat_dataset_release(dataset);
    return exit_code;
}

const struct cli_command cli_cat = {
    .name = "cat",
    .usage = "FILE --id N [--field F] [options]",
    .summary = "give back the stored bytes of one value",
    .about = "Images, bytes, text and JSON are written byte for byte as they were packed; numbers and arrays as text, "
             "nested\n"
             "lists as in JSON, or as bytes with --raw. A photo that was packed as pixels (--photos raw) is written as "
             "a PPM\n"
             "or PGM file. The checksum is verified. FILE may also be a folder of photos.\n",
    .arguments = {{"FILE", offsetof(struct cat, path)}},
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .more = "Examples:\n"
            "  leat cat train.leat --id 17 --field image --out 17.jpg\n"
            "  leat cat train.leat --id 17 --field name\n"
            "  leat cat train.leat --id 17 --field image | file -\n"
            "\nExit codes: 0 written; 1 the stored bytes are not what was written; 2 could not run.\n",
    .run = run,
};
