/*
 * Records that were left out on the way to a file: those that opening a text leaves out go into the metadata of the
 * pack that is made of it, under "skipped", and are shown where a data set is described.
 *
 *     {"records": 5, "on_open": 3, "tokenising": 2,
 *      "first": [{"file": "web.jsonl", "line": 7, "byte": 812, "reason": "..."}, ...]}
 */
#include "left_out.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"

enum { LISTED = 10, SHOWN = 3 };

/* A count that others can be added to. */
static bool is_count(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) < INT64_MAX / 8;
}

/* Whether it is leat's entry of that name, and no value of the user's own. */
static bool is_left_out(const json_t *skipped)
{
    const json_t *first = json_object_get(skipped, "first"), *one;
    size_t i;
    json_array_foreach(first, i, one) if (!json_is_object(one)) return false;
    return json_is_array(first) && is_count(json_object_get(skipped, "records")) &&
           is_count(json_object_get(skipped, "on_open")) && is_count(json_object_get(skipped, "tokenising"));
}

json_t *cli_left_out(const struct leat_dataset *dataset)
{
    json_t *metadata = json_loads(leat_dataset_metadata(dataset), JSON_ALLOW_NUL, NULL),
           *skipped = json_object_get(metadata, "skipped");
    if (!is_left_out(skipped))
        skipped = NULL;
    json_incref(skipped);
    json_decref(metadata);
    return skipped;
}

/* The records that opening has left out of text, together with those in the metadata. NULL: nothing. */
static json_t *opened(const json_t *about, const json_t *before)
{
    const json_t *said = json_object_get(about, "skipped_first");
    json_t *first = json_array(), *one;
    size_t i;
    const json_int_t on_open = json_integer_value(json_object_get(before, "on_open")) +
                               json_integer_value(json_object_get(about, "skipped")),
                     tokenising = json_integer_value(json_object_get(before, "tokenising"));
    json_array_foreach(json_object_get(before, "first"), i, one) json_array_append(first, one);
    json_array_foreach(said, i, one)
    {
        const char *path = json_string_value(json_object_get(one, "file")), *slash = path ? strrchr(path, '/') : NULL;
        if (slash)
            json_object_set_new(one, "file", cli_json_text(slash + 1));
        if (json_array_size(first) < LISTED)
            json_array_append(first, one);
    }
    return json_pack("{sI sI sI so}", "records", on_open + tokenising, "on_open", on_open, "tokenising", tokenising,
                     "first", first);
}

char *cli_metadata_left_out(const struct cli_command *command, const struct leat_dataset *dataset, const char *metadata)
{
    char *text = NULL;
    json_t *about = cli_about(dataset);
    if (json_array_size(json_object_get(about, "skipped_first"))) { /* annotations have a report of their own */
        json_error_t fault;
        json_t *object = json_loads(metadata, JSON_ALLOW_NUL, &fault), *before = json_object_get(object, "skipped");
        if (!object || (before && !is_left_out(before))) {
            cli_say(command, "warning: what was left out of the source is not counted in the metadata: %s.",
                    object ? "their \"skipped\" is something else" : fault.text);
        } else if (json_is_object(object)) { /* else the writer reports the error */
            json_object_set_new(object, "skipped", opened(about, before));
            text = json_dumps(object, JSON_COMPACT);
        }
        json_decref(object);
    }
    json_decref(about);
    return text;
}

void cli_print_left_out(const json_t *left_out)
{
    static const char *const names[] = {"file", "line", "byte", "row_group", "record_batch", "row", "record"};
    static const char *const words[] = {"", "line", "byte", "row group", "record batch", "row", "record"};
    char a[32], b[32], clean[600];
    const json_t *first = json_object_get(left_out, "first"), *one;
    const json_int_t on_open = json_integer_value(json_object_get(left_out, "on_open")),
                     tokenising = json_integer_value(json_object_get(left_out, "tokenising"));
    size_t i;
    if (!left_out)
        return;
    printf("%s records when this was made: %s of the source were broken, %s could not be tokenised\n",
           cli_count((uint64_t)(on_open + tokenising), clean), cli_count((uint64_t)on_open, a),
           cli_count((uint64_t)tokenising, b));
    json_array_foreach(first, i, one)
    {
        if (i == SHOWN) {
            printf("  ...\n");
            break;
        }
        const char *comma = "";
        printf("  ");
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            const json_t *value = json_object_get(one, names[k]);
            if (json_is_string(value) && !json_string_length(value))
                continue;
            if (json_is_string(value))
                printf("%s%s", comma, leat_escape(json_string_value(value), clean, sizeof clean));
            else if (json_is_integer(value))
                printf("%s%s %" JSON_INTEGER_FORMAT, comma, words[k], json_integer_value(value));
            comma = value ? ", " : comma;
        }
        const char *reason = json_string_value(json_object_get(one, "reason"));
        printf(": %s\n", leat_escape(reason ? reason : "", clean, sizeof clean));
    }
}
