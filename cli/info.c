/*
 * leat info: the contents of a data set, for a person or as JSON.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "commands.h"
#include "left_out.h"
#include "opening.h"
#include "print.h"

#define SHOWN_CLASSES 10
#define SHOWN_SHARDS 10
#define SHOWN_METADATA 100 /* bytes */

struct info {
    struct cli_several paths;
    bool json;
    struct cli_opening opening;
};
static const struct cli_option options[] = {
    {"json", NULL, "one JSON object, complete; the keys are in docs/cli.md", CLI_SET,
     .at = offsetof(struct info, json)},
    CLI_WHERE_OPTION(struct info, opening),
    CLI_OPENING_OPTIONS(struct info, opening),
    CLI_FIELD_OPTION(struct info, opening),
    CLI_TABLE_OPTIONS(struct info, opening),
};

/* The role of a field in the image of its sample, as leat.Field says it; NULL: none. */
static const char *role_of(const struct leat_field *field)
{
    static const char *const roles[] = {NULL,   "boxes:xyxy", "boxes:xywh", "boxes:cxcywh",
                                        "mask", "keypoints",  "masks",      "sparse"};
    return field->role < sizeof roles / sizeof *roles ? roles[field->role] : "unknown";
}

static json_t *field_json(const struct leat_field *field)
{
    static const char *const layouts[] = {"", "HWC", "CHW"};
    json_t *object = json_pack("{ss sb}", "name", field->name, "derived", (field->flags & LEAT_FIELD_DERIVED) != 0);
    json_object_set_new(object, "kind", json_string(leat_kind_name(field->kind)));
    if (field->kind == LEAT_KIND_ARRAY) {
        json_t *shape = json_array();
        for (unsigned d = 0; d < field->ndim; d++)
            json_array_append_new(shape, field->shape[d] < 0 ? json_null() : json_integer(field->shape[d]));
        json_object_set_new(object, "dtype", json_string(leat_dtype_name(field->dtype)));
        json_object_set_new(object, "shape", shape);
        if (field->layout)
            json_object_set_new(object, "layout", json_string(layouts[field->layout]));
    }
    if (field->role) {
        json_object_set_new(object, "role", json_string(role_of(field)));
        json_object_set_new(object, "normalized", json_boolean(field->normalized));
    }
    if (field->columns) {
        json_object_set_new(object, "item", json_string(leat_dtype_name(field->item)));
        json_object_set_new(object, "columns", json_integer(field->columns));
    }
    if (field->n_pairs) {
        json_t *pairs = json_array();
        for (size_t i = 0; i < field->n_pairs; i++)
            json_array_append_new(pairs, json_pack("[ii]", field->pairs[2 * i], field->pairs[2 * i + 1]));
        json_object_set_new(object, "pairs", pairs);
    }
    return object;
}

/* All information as one object, from which the text for a person is made. */
static json_t *collect(const struct leat_dataset *dataset, const char *path, json_t *about)
{
    size_t n_fields, n_classes;
    const struct leat_field *fields = leat_dataset_fields(dataset, &n_fields);
    const char *const *classes = leat_dataset_classes(dataset, &n_classes);
    char fingerprint[33];
    json_t *field_list = json_array(), *class_list = json_array();
    for (size_t i = 0; i < n_fields; i++)
        json_array_append_new(field_list, field_json(&fields[i]));
    for (size_t i = 0; i < n_classes; i++)
        json_array_append_new(class_list, cli_json_text(classes[i]));
    json_t *metadata = json_loads(leat_dataset_metadata(dataset), JSON_DECODE_ANY, NULL);
    json_t *info = json_pack("{so? sI so so so ss ss}", "path", cli_json_text(path), "count",
                             (json_int_t)leat_dataset_count(dataset), "fields", field_list, "classes", class_list,
                             "metadata", metadata ? metadata : json_object(), "fingerprint",
                             cli_fingerprint(dataset, fingerprint), "notice", leat_dataset_notice(dataset));
    json_object_update_missing(info, about);
    return info;
}

/* For a part: its number, and the number of parts. Counts of the whole that say nothing about the part are left out. */
static void tell_part(json_t *info, const char *clause)
{
    static const char *const of_whole[] = {"broken", "skipped", "boxes", "photos", "fingerprint_of_values"};
    uint64_t all = 0;
    size_t i;
    json_t *shard;
    json_array_foreach(json_object_get(info, "shards"), i, shard) all += cli_whole(shard, "count");
    json_object_set_new(info, "where", cli_json_text(clause));
    json_object_set_new(info, "of", json_integer((json_int_t)all));
    for (i = 0; i < sizeof of_whole / sizeof *of_whole; i++)
        json_object_del(info, of_whole[i]);
}

/* The facts of files that Python reads, which stand among the metadata. */
static void take_told(json_t *info)
{
    json_t *told = json_incref(json_object_get(json_object_get(info, "metadata"), "about"));
    json_object_del(info, "format_version");
    json_object_del(info, "broken");
    size_t i, k;
    json_t *field, *name;
    json_array_foreach(json_object_get(info, "fields"), i, field)
    {
        json_array_foreach(json_object_get(told, "derived"), k, name)
        {
            if (json_equal(name, json_object_get(field, "name")))
                json_object_set_new(field, "derived", json_true());
        }
    }
    json_object_del(told, "derived");
    json_object_update(info, told);
    json_decref(told);
}

static void print_fields(const struct leat_dataset *dataset, const json_t *list)
{
    size_t n;
    const struct leat_field *fields = leat_dataset_fields(dataset, &n);
    char type[128];
    int width = 0;
    for (size_t i = 0; i < n; i++)
        if (cli_columns(fields[i].name) > width)
            width = cli_columns(fields[i].name);
    printf("fields\n");
    for (size_t i = 0; i < n; i++) {
        const char *role = role_of(&fields[i]), *form = role ? strchr(role, ':') : NULL;
        if (fields[i].columns)
            snprintf(type, sizeof type, "sparse %s, %lld columns", leat_dtype_name(fields[i].item),
                     (long long)fields[i].columns);
        else
            cli_field_type(&fields[i], type, sizeof type);
        printf("  %-*s  %s%s", cli_padded(fields[i].name, width), fields[i].name, type,
               json_is_true(json_object_get(json_array_get(list, i), "derived")) ? "  (derived)" : "");
        if (role && !fields[i].columns)
            printf("  %.*s%s%s%s", form ? (int)(form - role) : (int)strlen(role), role, form ? ", " : "",
                   form ? form + 1 : "", fields[i].normalized ? ", normalized" : "");
        putchar('\n');
    }
}

static void print_classes(const struct leat_dataset *dataset)
{
    size_t n;
    const char *const *classes = leat_dataset_classes(dataset, &n);
    char clean[256];
    if (!n)
        return;
    printf("classes        %zu:", n);
    for (size_t i = 0; i < n && i < SHOWN_CLASSES; i++)
        printf("%s %s", i ? "," : "", leat_escape(classes[i], clean, sizeof clean));
    printf("%s\n", n > SHOWN_CLASSES ? ", ..." : "");
}

static void print_shards(const json_t *shards)
{
    size_t i, n = json_array_size(shards);
    json_t *shard;
    char a[32], b[32], clean[1200];
    if (n < 2)
        return;
    printf("shards         %zu\n", n);
    json_array_foreach(shards, i, shard)
    {
        if (i == SHOWN_SHARDS) {
            printf("  ... %zu more (--json lists all)\n", n - i);
            break;
        }
        printf("  %s  %s samples  %s\n",
               leat_escape(json_string_value(json_object_get(shard, "path")), clean, sizeof clean),
               cli_count(cli_whole(shard, "count"), a), cli_bytes(cli_whole(shard, "bytes"), b));
    }
}

/* The forms of photos, and of other encoded values, if not all are original. */
static void print_photos(const struct leat_dataset *dataset, const json_t *photos)
{
    const bool images = cli_encodes_photos_alone(dataset);
    const char *const keys[] = {"fast", "raw", "original"}, *const words[] = {"fast",
                                                                              images ? "raw (pixels)" : "raw (decoded)",
                                                                              "original"};
    char a[32], b[32];
    if (!json_object_get(photos, "fast") && !json_object_get(photos, "raw"))
        return;
    for (size_t i = 0, shown = 0; i < 3; i++) {
        const json_t *one = json_object_get(photos, keys[i]);
        if (!one)
            continue;
        const uint64_t bytes = cli_whole(one, "bytes"), original = cli_whole(one, "original_bytes");
        printf("%-14s %s %s, %s",
               shown++  ? ""
               : images ? "photos"
                        : "encoded",
               cli_count(cli_whole(one, "count"), a), words[i], cli_bytes(bytes, b));
        if (i < 2 && original)
            printf(" (%.2f times the %s that came)", (double)bytes / (double)original, cli_bytes(original, b));
        putchar('\n');
    }
}

static void print_person(const struct leat_dataset *dataset, const json_t *info)
{
    char a[32], path[1200];
    const char *format = json_string_value(json_object_get(info, "format"));
    printf("%s\n", leat_escape(json_string_value(json_object_get(info, "path")), path, sizeof path));
    if (format && cli_whole(info, "format_version"))
        printf("format         %s, version %" PRIu64 "\n", format, cli_whole(info, "format_version"));
    else if (format)
        printf("format         %s\n", format);
    printf("samples        %s", cli_count(cli_whole(info, "count"), a));
    if (json_object_get(info, "where"))
        printf(" of %s, where %s", cli_count(cli_whole(info, "of"), a),
               leat_escape(json_string_value(json_object_get(info, "where")), path, sizeof path));
    putchar('\n');
    if (json_is_integer(json_object_get(info, "broken")))
        printf("broken         %s\n", cli_count(cli_whole(info, "broken"), a));
    if (json_is_integer(json_object_get(info, "bytes")))
        printf("size           %s\n", cli_bytes(cli_whole(info, "bytes"), a));
    print_photos(dataset, json_object_get(info, "photos"));
    print_fields(dataset, json_object_get(info, "fields"));
    print_classes(dataset);
    print_shards(json_object_get(info, "shards"));
    if (json_object_size(json_object_get(info, "metadata"))) {
        char *text = json_dumps(json_object_get(info, "metadata"), JSON_SORT_KEYS);
        const size_t length = text ? strlen(text) : 0;
        size_t shown = length > SHOWN_METADATA + 40 ? SHOWN_METADATA : length;
        while (shown < length && shown && ((unsigned char)text[shown] & 0xc0) == 0x80)
            shown--; /* not within a character */
        printf("metadata       %.*s%s\n", (int)shown, text ? text : "",
               shown < length ? " ... (--json has all of it)" : "");
        free(text);
    }
    json_t *left_out = cli_left_out(dataset);
    if (left_out)
        printf("left out       ");
    cli_print_left_out(left_out);
    json_decref(left_out);
    printf("fingerprint    %s\n", json_string_value(json_object_get(info, "fingerprint")));
    const char *of_values = json_string_value(json_object_get(info, "fingerprint_of_values"));
    if (of_values)
        printf("               of the data set that it was converted from; of its values: %s\n", of_values);
    if (cli_whole(info, "endless"))
        printf("note           %s %s %s\n", cli_count(cli_whole(info, "endless"), a),
               cli_whole(info, "endless") == 1 ? "tar" : "tars", CLI_ENDLESS);
    if (leat_dataset_notice(dataset)[0])
        printf("note           %s\n", leat_dataset_notice(dataset));
}

static int run(const struct cli_command *command, int argc, char **argv)
{
    struct info wish = {.opening.tables = CLI_TABLES_ABOUT, .opening.parsed = &wish};
    int exit_code;
    if (!cli_parse(command, argc, argv, &wish, &exit_code))
        return exit_code;
    struct leat_dataset *dataset = cli_open_all(command, &wish.paths, &wish.opening, &exit_code);
    if (!dataset)
        return exit_code;
    char *text = NULL, name[1200];
    struct leat_error error;
    if (leat_dataset_about(dataset, &text, &error)) {
        exit_code = cli_fail(command, &error, NULL);
        leat_dataset_release(dataset);
        return exit_code;
    }
    json_t *about = cli_taken(text);
    json_t *info = collect(dataset, cli_paths_name(&wish.paths, name, sizeof name), about);
    if (wish.opening.where)
        tell_part(info, wish.opening.where);
    if (wish.opening.by_python) /* the data set has the fields alone */
        take_told(info);
    if (wish.json) {
        cli_print_json(info);
    } else {
        print_person(dataset, info);
        json_decref(info);
    }
    json_decref(about);
    leat_dataset_release(dataset);
    return CLI_EXIT_OK;
}

const struct cli_command cli_info = {
    .name = "info",
    .usage = "FILE... [--json]",
    .summary = "what is in a file",
    .about = "FILE is a data set of any format that leat reads. Only headers and directories are read, so\n"
             "this is quick however large the data are; leat verify reads every byte. Several files, or a pattern in\n"
             "quotes such as 'part-{000..009}.jsonl', are one data set.\n",
    .arguments = {{"FILE", offsetof(struct info, paths)}},
    .several = true,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .more = "Examples:\n"
            "  leat info train.leat\n"
            "  leat info train.leat --json | jq .count\n"
            "  leat info 'shards/part-{000..009}.jsonl.zst'\n"
            "\nExit codes: 0 printed; 1 the file is damaged; 2 could not run.\n",
    .run = run,
};
